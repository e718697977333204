//! TLS for clients: the server's certificate, the authorities of clients' certificates.
//!
//! KEEPS: a private key that others may read is refused.

use ring::digest;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use x509_certificate::{CapturedX509Certificate, SignatureAlgorithm};

/// Files in PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The server's certificate, and those that lead from it to an authority.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Authorities whose certificates prove who a client is.
    pub client_authorities: Option<PathBuf>,
}

/// What TLS needs, read from its files.
#[derive(Clone)]
pub struct Tls {
    pub(crate) acceptor: TlsAcceptor,
    /// Hash of the server's certificate, to which SCRAM binds; `None` for kinds of certificates that have none.
    pub(crate) endpoint: Option<Vec<u8>>,
}

impl Tls {
    /// Errors: a file that cannot be read or used, and why.
    pub fn read(files: &TlsFiles) -> Result<Tls, String> {
        let chain = certificates(&files.certificate)?;
        let of_key = |why: String| format!("{}: {why}", files.key.display());
        check_private(&files.key).map_err(of_key)?;
        let key =
            PrivateKeyDer::from_pem_file(&files.key).map_err(|e| of_key(format!("no private key: {e}")))?;
        let provider = Arc::new(default_provider());
        let config = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|e| e.to_string())?;
        let config = match &files.client_authorities {
            None => config.with_no_client_auth(),
            Some(path) => {
                let of_file = |why: String| format!("{}: {why}", path.display());
                let mut authorities = RootCertStore::empty();
                for certificate in certificates(path)? {
                    authorities.add(certificate).map_err(|e| of_file(e.to_string()))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(authorities.into(), provider)
                    .allow_unauthenticated()
                    .build()
                    .map_err(|e| of_file(e.to_string()))?;
                config.with_client_cert_verifier(verifier)
            }
        };
        let endpoint = endpoint(&chain[0]);
        let config = config
            .with_single_cert(chain, key)
            .map_err(|e| format!("{}: {e}", files.certificate.display()))?;
        Ok(Tls { acceptor: TlsAcceptor::from(Arc::new(config)), endpoint })
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let of_file = |why: String| format!("{}: {why}", path.display());
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let all = read.map_err(|e| of_file(e.to_string()))?;
    if all.is_empty() { Err(of_file("holds no certificate".into())) } else { Ok(all) }
}

/// Errors: others than the owner and its group may read the file, or the group may write it.
fn check_private(path: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(path).map_err(|e| e.to_string())?.permissions().mode();
    if mode & 0o037 != 0 {
        return Err(format!("others may use this private key (mode {:o}); chmod 600 it", mode & 0o777));
    }
    Ok(())
}

/// `tls-server-end-point` (RFC 5929): the certificate's hash, by the hash function of its signature, SHA-256 for
/// weaker ones.
fn endpoint(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    use SignatureAlgorithm as S;
    let parsed = CapturedX509Certificate::from_der(certificate.to_vec()).ok()?;
    let algorithm = match parsed.signature_algorithm()? {
        S::RsaSha1 | S::RsaSha256 | S::EcdsaSha256 => &digest::SHA256,
        S::RsaSha384 | S::EcdsaSha384 => &digest::SHA384,
        S::RsaSha512 => &digest::SHA512,
        S::Ed25519 | S::NoSignature(_) => return None,
    };
    Some(digest::digest(algorithm, certificate).as_ref().to_vec())
}

/// The common name in a client's certificate.
pub(crate) fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    CapturedX509Certificate::from_der(certificate.to_vec()).ok()?.subject_common_name()
}

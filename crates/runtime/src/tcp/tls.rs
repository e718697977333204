//! Mutual TLS between nodes: both sides show a certificate of the cluster's authority, and a certificate names its owner.
//!
//! A node's certificate is for the DNS name `NAME.node.meridian`, a replica's for `NAME.replica.meridian`, an operator's
//! for `NAME.client.meridian`. Those names
//! are never looked up: they say who somebody is, not where. KEEPS: TLS 1.3 only; a key that others than its owner can
//! read is refused.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Whom a certificate names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    Node(String),
    /// A read-only replica in a process of its own.
    Replica(String),
    Client(String),
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Owner::Node(name) => write!(f, "node {name}"),
            Owner::Replica(name) => write!(f, "replica {name}"),
            Owner::Client(name) => write!(f, "client {name}"),
        }
    }
}

const NODE: &str = ".node.meridian";
const REPLICA: &str = ".replica.meridian";
const CLIENT: &str = ".client.meridian";

impl Owner {
    pub fn dns_name(&self) -> String {
        match self {
            Owner::Node(name) => format!("{name}{NODE}"),
            Owner::Replica(name) => format!("{name}{REPLICA}"),
            Owner::Client(name) => format!("{name}{CLIENT}"),
        }
    }
    fn of_dns_name(name: &str) -> Option<Owner> {
        let named = |suffix, owner: fn(String) -> Owner| Some(owner(name.strip_suffix(suffix)?.to_string()));
        let node = named(NODE, Owner::Node);
        node.or_else(|| named(REPLICA, Owner::Replica)).or_else(|| named(CLIENT, Owner::Client))
    }
    /// Names of the certificate's and the key's file.
    pub fn file_names(&self) -> (String, String) {
        let stem = match self {
            Owner::Node(name) => format!("node.{name}"),
            Owner::Replica(name) => format!("replica.{name}"),
            Owner::Client(name) => format!("client.{name}"),
        };
        (format!("{stem}.crt"), format!("{stem}.key"))
    }
    /// Errors: it could not be part of a DNS name.
    pub fn check_name(name: &str) -> Result<(), String> {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let ends_well = !name.starts_with('-') && !name.ends_with('-');
        if (1..=40).contains(&name.len()) && name.chars().all(is_plain) && ends_well {
            return Ok(());
        }
        Err(format!("{name:?} is no name; up to 40 lower-case letters, digits and hyphens between them"))
    }
}

/// File of the authority's certificate.
pub const CA_CERTIFICATE: &str = "ca.crt";

/// What one side shows and whom it trusts.
#[derive(Clone)]
pub struct Tls {
    client: TlsConnector,
    server: TlsAcceptor,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// From a directory of certificates. Errors: a file is missing, is no certificate or key, or is open to others.
    pub fn load(directory: &Path, owner: &Owner) -> Result<Tls, String> {
        let (certificate, key) = owner.file_names();
        let (certificate, key) = (directory.join(certificate), directory.join(key));
        let authority = directory.join(CA_CERTIFICATE);
        let mut roots = RootCertStore::empty();
        for root in certificates(&authority, "meridian cert create-ca")? {
            roots.add(root).map_err(|error| format!("{}: {error}", authority.display()))?;
        }
        let create = match owner {
            Owner::Node(name) => format!("meridian cert create-node {name}"),
            Owner::Replica(name) => format!("meridian cert create-replica {name}"),
            Owner::Client(name) => format!("meridian cert create-client {name}"),
        };
        let chain = certificates(&certificate, &create)?;
        let shown = owner_of(&chain[0]).map_err(|why| format!("{}: {why}", certificate.display()))?;
        if shown != *owner {
            return Err(format!("{}: the certificate is of {shown}, not of {owner}", certificate.display()));
        }
        check_mode(&key)?;
        let private =
            PrivateKeyDer::from_pem_file(&key).map_err(|error| unreadable(&key, &error, &create))?;
        Tls::new(roots, chain, private).map_err(|error| format!("{}: {error}", certificate.display()))
    }

    pub(crate) fn new(
        roots: RootCertStore,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Tls, rustls::Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let roots = Arc::new(roots);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone()).build();
        let verifier = verifier.map_err(|error| rustls::Error::General(error.to_string()))?;
        let server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key.clone_key())?;
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)?;
        Ok(Tls { client: Arc::new(client).into(), server: Arc::new(server).into() })
    }

    pub fn acceptor(&self) -> &TlsAcceptor {
        &self.server
    }
    pub fn connector(&self) -> &TlsConnector {
        &self.client
    }
}

/// The name by which a node is asked for its certificate.
pub fn server_name(node: &str) -> Result<ServerName<'static>, String> {
    let name = Owner::Node(node.to_string()).dns_name();
    ServerName::try_from(name).map_err(|error| format!("node {node}: {error}"))
}

/// Whom a certificate names; that an authority vouches for it has been checked before.
pub fn owner_of(certificate: &CertificateDer<'_>) -> Result<Owner, String> {
    let parsed = webpki::EndEntityCert::try_from(certificate).map_err(|error| error.to_string())?;
    let mut owners = parsed.valid_dns_names().filter_map(Owner::of_dns_name);
    match (owners.next(), owners.next()) {
        (Some(owner), None) => Ok(owner),
        (None, _) => Err("the certificate names no node and no client of meridian".into()),
        (Some(one), Some(other)) => Err(format!("the certificate names both {one} and {other}")),
    }
}

fn unreadable(path: &Path, error: &rustls::pki_types::pem::Error, create: &str) -> String {
    format!("cannot read {}: {error}; `{create}` makes it", path.display())
}

fn certificates(path: &PathBuf, create: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).and_then(|all| all.collect::<Result<Vec<_>, _>>());
    let all = read.map_err(|error| unreadable(path, &error, create))?;
    if all.is_empty() { Err(format!("{} holds no certificate", path.display())) } else { Ok(all) }
}

#[cfg(unix)]
fn check_mode(key: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;
    // A file that is not there is reported by who reads it.
    let Ok(found) = std::fs::metadata(key) else { return Ok(()) };
    let mode = found.permissions().mode() & 0o777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    Err(format!("{} may be read by others (mode {mode:o}); `chmod 600` it", key.display()))
}
#[cfg(not(unix))]
fn check_mode(_: &Path) -> Result<(), String> {
    Ok(())
}

//! Mutual TLS between nodes: both sides show a certificate of the cluster's authority, and a certificate names its owner.
//!
//! A node's certificate is for the DNS name `NAME.node.meridian`, a replica's for `NAME.replica.meridian`, an operator's
//! for `NAME.client.meridian`. Those names
//! are never looked up: they say who somebody is, not where. KEEPS: TLS 1.3 only; a key that others than its owner can
//! read is refused; a certificate whose time is over, or has not come, is refused; files that are read again and cannot be
//! used leave what was read before in use.

use base::text::civil;
use parking_lot::RwLock;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
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

/// What one side shows and whom it trusts. Clones share it: what is read again holds for all of them.
#[derive(Clone)]
pub struct Tls {
    /// The directory of certificates that it was read from, and whose it is; `None`: a test made it.
    from: Option<Arc<(PathBuf, Owner)>>,
    now: Arc<RwLock<InUse>>,
}

/// What connections that begin now are made with.
struct InUse {
    client: TlsConnector,
    server: TlsAcceptor,
    /// When the own certificate expires, in s since 1970.
    expires_at_s: Option<u64>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// From a directory of certificates. Errors: a file is missing, is no certificate or key, or is open to others; the
    /// certificate has expired, or is not good yet.
    pub fn load(directory: &Path, owner: &Owner) -> Result<Tls, String> {
        let files = Files::read(directory, owner)?;
        files.check_time()?;
        let from = Some(Arc::new((directory.to_path_buf(), owner.clone())));
        Ok(Tls { from, now: Arc::new(RwLock::new(files.into_use()?)) })
    }

    /// Reads the directory again: connections that begin from now on are made with what is there, and others go on.
    /// Errors: as of [`Tls::load`], or the authority there has not signed the certificate; nothing has changed then.
    pub fn reread(&self) -> Result<(), String> {
        let Some(from) = &self.from else { return Ok(()) };
        let files = Files::read(&from.0, &from.1)?;
        files.check_time()?;
        files.check_chain()?;
        let read = files.into_use()?;
        *self.now.write() = read;
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn new(
        roots: RootCertStore,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Tls, rustls::Error> {
        Ok(Tls { from: None, now: Arc::new(RwLock::new(InUse::new(roots, chain, key)?)) })
    }

    pub fn acceptor(&self) -> TlsAcceptor {
        self.now.read().server.clone()
    }
    pub fn connector(&self) -> TlsConnector {
        self.now.read().client.clone()
    }
    /// When the own certificate expires, as `2027-11-28 03:13:51 UTC`; `None`: it does not tell.
    pub fn expires_at(&self) -> Option<String> {
        self.now.read().expires_at_s.map(utc)
    }
}

impl InUse {
    fn new(
        roots: RootCertStore,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<InUse, rustls::Error> {
        let expires_at_s = expires_at_s(&roots, &chain);
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
        Ok(InUse { client: Arc::new(client).into(), server: Arc::new(server).into(), expires_at_s })
    }
}

/// What a directory of certificates holds for one owner.
struct Files {
    certificate: PathBuf,
    roots: RootCertStore,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    /// It is connected to, and so shows its certificate as a server too.
    is_server: bool,
    /// The command that makes it.
    create: String,
}

impl Files {
    /// Errors: a file is missing, is no certificate or key, is another's, or is open to others.
    fn read(directory: &Path, owner: &Owner) -> Result<Files, String> {
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
        let key = PrivateKeyDer::from_pem_file(&key).map_err(|error| unreadable(&key, &error, &create))?;
        let is_server = matches!(owner, Owner::Node(_));
        Ok(Files { certificate, roots, chain, key, is_server, create })
    }

    /// Errors: the certificate has expired, or is not good yet.
    fn check_time(&self) -> Result<(), String> {
        let wrong = match verify(&self.roots, &self.chain, UnixTime::now(), webpki::KeyUsage::client_auth()) {
            Err(webpki::Error::CertExpired { not_after, .. }) => {
                format!("the certificate expired at {}", utc(not_after.as_secs()))
            }
            Err(webpki::Error::CertNotValidYet { not_before, .. }) => {
                format!("the certificate is not good before {}", utc(not_before.as_secs()))
            }
            // Whether it is good for anything else is for those to say who are shown it.
            _ => return Ok(()),
        };
        let (path, create) = (self.certificate.display(), &self.create);
        Err(format!("{path}: {wrong}; remove it and its key, and `{create}` makes new ones"))
    }

    /// Errors: others with the same authority would not take the certificate.
    fn check_chain(&self) -> Result<(), String> {
        let (roots, chain, now) = (&self.roots, &self.chain, UnixTime::now());
        let as_client = verify(roots, chain, now, webpki::KeyUsage::client_auth());
        let checked = match self.is_server {
            true => as_client.and_then(|()| verify(roots, chain, now, webpki::KeyUsage::server_auth())),
            false => as_client,
        };
        let path = self.certificate.display();
        checked.map_err(|error| {
            format!("{path}: nodes that trust {CA_CERTIFICATE} would not take the certificate: {error}")
        })
    }

    fn into_use(self) -> Result<InUse, String> {
        let Files { certificate, roots, chain, key, .. } = self;
        InUse::new(roots, chain, key).map_err(|error| format!("{}: {error}", certificate.display()))
    }
}

/// Whether those who trust these authorities take the certificate that leads a chain.
fn verify(
    roots: &RootCertStore,
    chain: &[CertificateDer<'static>],
    at: UnixTime,
    usage: webpki::KeyUsage,
) -> Result<(), webpki::Error> {
    let Some((own, others)) = chain.split_first() else { return Err(webpki::Error::BadDer) };
    let own = webpki::EndEntityCert::try_from(own)?;
    let algorithms = webpki::ALL_VERIFICATION_ALGS;
    own.verify_for_usage(algorithms, &roots.roots, others, at, usage, None, None).map(|_| ())
}

/// When the certificate that leads a chain expires, in s since 1970: told by whom it is shown to long after that.
fn expires_at_s(roots: &RootCertStore, chain: &[CertificateDer<'static>]) -> Option<u64> {
    let late = UnixTime::since_unix_epoch(Duration::from_secs(LONG_AFTER_S));
    match verify(roots, chain, late, webpki::KeyUsage::client_auth()) {
        Err(webpki::Error::CertExpired { not_after, .. }) => Some(not_after.as_secs()),
        _ => None,
    }
}

/// After the year 9999, which certificates end with at the latest.
const LONG_AFTER_S: u64 = 300_000_000_000;

/// A moment in s since 1970, as people read it.
fn utc(s: u64) -> String {
    /// Days from 1970 to 2000.
    const DAYS: i32 = 10_957;
    let day = i32::try_from(s / 86_400).unwrap_or(i32::MAX) - DAYS;
    let (year, month, day) = civil(day);
    let (hour, minute, second) = (s / 3_600 % 24, s / 60 % 60, s % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
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

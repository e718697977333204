//! `meridian cert`: certificates by which nodes and operators of one cluster trust each other.
//!
//! An authority's key signs the others; it is needed for nothing else and can be kept elsewhere. KEEPS: no file is
//! overwritten; a key can be read by its owner only, from the moment it exists.

use anyhow::{Context, anyhow, bail};
use clap::Subcommand;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use runtime::tcp::Owner;
use runtime::tcp::tls::CA_CERTIFICATE;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

#[derive(Subcommand, Debug)]
#[command(after_help = "\
Examples:
  meridian cert create-ca                          certs/ca.crt and certs/ca.key
  meridian cert create-node us                     certs/node.us.crt and certs/node.us.key
  meridian cert create-replica r1                  certs/replica.r1.crt and certs/replica.r1.key
  meridian cert create-client root                 certs/client.root.crt and certs/client.root.key")]
pub enum CertCommand {
    /// Make a cluster's authority: ca.crt, which every node needs, and ca.key, which only this command needs
    CreateCa(CertArgs),
    /// Make a node's certificate and key, signed by the authority
    CreateNode(NamedArgs),
    /// Make a read-only replica's certificate and key, signed by the authority (meridian replica add does it too)
    CreateReplica(NamedArgs),
    /// Make an operator's certificate and key, signed by the authority (for meridian cluster status)
    CreateClient(NamedArgs),
}

#[derive(clap::Args, Debug, Clone)]
pub struct CertArgs {
    /// Directory of certificates; made if it is not there
    #[arg(long, env = "MERIDIAN_CERTS", value_name = "DIR", default_value = "certs")]
    pub certs: PathBuf,
    /// Days for which it is good; ten years for an authority and one for others, if not given
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub days: Option<u32>,
}

#[derive(clap::Args, Debug)]
pub struct NamedArgs {
    /// Name of the node, as in --nodes, of the replica or of the operator
    pub name: String,
    #[command(flatten)]
    pub args: CertArgs,
}

const CA_KEY: &str = "ca.key";
const CA_DAYS: u32 = 3650;
const DAYS: u32 = 365;
/// Clocks of those who check may be behind by this.
const EARLIER: Duration = Duration::from_secs(600);

pub fn run(command: CertCommand) -> anyhow::Result<()> {
    let made = match command {
        CertCommand::CreateCa(args) => create_ca(&args)?,
        CertCommand::CreateNode(NamedArgs { name, args }) => create(&args, &Owner::Node(name))?,
        CertCommand::CreateReplica(NamedArgs { name, args }) => create(&args, &Owner::Replica(name))?,
        CertCommand::CreateClient(NamedArgs { name, args }) => create(&args, &Owner::Client(name))?,
    };
    made.iter().for_each(|path| println!("{}", path.display()));
    Ok(())
}

/// Makes an authority; answers the files. Errors: there is one.
pub fn create_ca(args: &CertArgs) -> anyhow::Result<[PathBuf; 2]> {
    let paths = [args.certs.join(CA_CERTIFICATE), args.certs.join(CA_KEY)];
    make_directory(&args.certs)?;
    refuse_existing(
        &paths,
        "a cluster has one authority, and a new one makes all its certificates worthless",
    )?;
    let key = KeyPair::generate()?;
    let certificate = authority(&key, args.days.unwrap_or(CA_DAYS))?.self_signed(&key)?;
    write(&paths[1], &key.serialize_pem(), 0o600)?;
    write(&paths[0], &certificate.pem(), 0o644)?;
    Ok(paths)
}

/// The authority's certificate follows from its key, so that its key is all that is needed to sign.
fn authority(key: &KeyPair, days: u32) -> anyhow::Result<CertificateParams> {
    let mut params = CertificateParams::new(Vec::new())?;
    let name = format!("Meridian CA {:016x}", base::hash::digest(key.public_key_raw()));
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    limit(&mut params, days);
    Ok(params)
}

fn limit(params: &mut CertificateParams, days: u32) {
    let now = SystemTime::now();
    params.not_before = (now - EARLIER).into();
    params.not_after = (now + Duration::from_secs(u64::from(days) * 24 * 3600)).into();
}

/// Makes a certificate and its key; answers the files. Errors: they are there, or the authority is not.
pub fn create(args: &CertArgs, owner: &Owner) -> anyhow::Result<[PathBuf; 2]> {
    let (Owner::Node(name) | Owner::Replica(name) | Owner::Client(name)) = owner;
    Owner::check_name(name).map_err(|why| anyhow!(why))?;
    let (certificate, key) = owner.file_names();
    let paths = [args.certs.join(certificate), args.certs.join(key)];
    let authority_key = args.certs.join(CA_KEY);
    let pem = std::fs::read_to_string(&authority_key).with_context(|| {
        format!("cannot read {}; `meridian cert create-ca` makes it", authority_key.display())
    })?;
    let authority_key =
        KeyPair::from_pem(&pem).with_context(|| format!("{} is no key", authority_key.display()))?;
    refuse_existing(&paths, "what uses it would have to be given the new one")?;
    let issuer = Issuer::new(authority(&authority_key, CA_DAYS)?, authority_key);
    let mut params = CertificateParams::new(vec![owner.dns_name()])?;
    params.distinguished_name.push(DnType::CommonName, owner.to_string());
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = match owner {
        Owner::Node(_) => vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
        // Nobody connects to them.
        Owner::Replica(_) | Owner::Client(_) => vec![ExtendedKeyUsagePurpose::ClientAuth],
    };
    params.use_authority_key_identifier_extension = true;
    limit(&mut params, args.days.unwrap_or(DAYS));
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?;
    write(&paths[1], &key.serialize_pem(), 0o600)?;
    write(&paths[0], &certificate.pem(), 0o644)?;
    Ok(paths)
}

fn make_directory(path: &Path) -> anyhow::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).with_context(|| format!("cannot make {}", path.display()))
}

fn refuse_existing(paths: &[PathBuf], because: &str) -> anyhow::Result<()> {
    match paths.iter().find(|path| path.exists()) {
        None => Ok(()),
        Some(path) => bail!(
            "{} is there already and is not overwritten: {because}. Remove it first, or choose another directory with \
             --certs",
            path.display()
        ),
    }
}

fn write(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    let mut file = options.open(path).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => anyhow!("{} is there already and is not overwritten", path.display()),
        _ => anyhow!("cannot make {}: {error}", path.display()),
    })?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).with_context(|| path.display().to_string())
}

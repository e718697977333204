//! Who may connect, and how that is encrypted: flags of `meridian start` and the files that they name.
//!
//! KEEPS: an address beyond the machine itself is not listened on without TLS and passwords, unless `--insecure` says so.

use anyhow::{Context, anyhow, bail};
use base::roles::ROOT_NAME;
use runtime::tcp::Security;
use server::auth::{Authenticator, Rules, Settings, Tls, TlsFiles};
use session::{Gateway, Session};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

#[derive(clap::Args, Clone, Debug, Default)]
pub struct SecurityArgs {
    /// The server's certificate and those that lead from it to an authority, in PEM
    #[arg(long, env = "MERIDIAN_TLS_CERT", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of --tls-cert, in PEM; nobody else may read it
    #[arg(long, env = "MERIDIAN_TLS_KEY", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// Authorities whose certificates prove who a client is (method cert), in PEM
    #[arg(long, env = "MERIDIAN_TLS_CLIENT_CA", value_name = "FILE")]
    pub tls_client_ca: Option<PathBuf>,
    /// A TOML file with rules about who may connect ([[hba]]); --config FILE may hold them as well. SIGHUP reads
    /// it and the certificates again
    #[arg(long, env = "MERIDIAN_HBA_FILE", value_name = "FILE")]
    pub hba_file: Option<PathBuf>,
    /// A file with a password, or its SCRAM verifier, that user root gets unless it has one
    #[arg(long, env = "MERIDIAN_ROOT_PASSWORD_FILE", value_name = "FILE")]
    pub root_password_file: Option<PathBuf>,
    /// Listen beyond this machine without TLS and passwords: whoever reaches the port may do everything
    #[arg(long, env = "MERIDIAN_INSECURE")]
    pub insecure: bool,
}

impl SecurityArgs {
    /// What the flags and their files say now. Errors: which of them cannot be used, and why.
    pub fn settings(&self, listen: IpAddr) -> anyhow::Result<Settings> {
        let tls = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => {
                let (certificate, key) = (certificate.clone(), key.clone());
                let files = TlsFiles { certificate, key, client_authorities: self.tls_client_ca.clone() };
                Some(Tls::read(&files).map_err(|error| anyhow!("TLS: {error}"))?)
            }
            (None, None) if self.tls_client_ca.is_none() => None,
            _ => bail!("TLS needs both --tls-cert and --tls-key"),
        };
        let is_open = listen.is_loopback() || self.insecure;
        if !is_open && tls.is_none() {
            bail!(
                "--listen {listen} is reached from other machines: give --tls-cert and --tls-key, and \
                 --root-password-file for the first password. With --insecure there is neither encryption nor \
                 authentication"
            );
        }
        let rules = match &self.hba_file {
            Some(path) => rules(path)?,
            None if is_open => Rules::trust(),
            None => Rules::passwords(),
        };
        if rules.asks_certificates() && self.tls_client_ca.is_none() {
            bail!(
                "a rule has method cert: give --tls-client-ca with the authorities of clients' certificates"
            );
        }
        Ok(Settings { rules, tls })
    }

    /// The password that user root begins with, if one is given. Errors: no such file, or nothing in it.
    pub fn root_password(&self) -> anyhow::Result<Option<String>> {
        let Some(path) = &self.root_password_file else { return Ok(None) };
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        match text.lines().next().filter(|line| !line.is_empty()) {
            Some(password) => Ok(Some(password.to_string())),
            None => bail!("{} is empty; its first line is to be the password", path.display()),
        }
    }
}

/// Reads rules and certificates again whenever the process is sent SIGHUP, as long as what is answered is kept: those for
/// clients, and those for other nodes. Either of them may be wrong without the other.
pub fn reread_on_hangup(
    authenticator: &Arc<Authenticator>,
    args: &SecurityArgs,
    listen: IpAddr,
    nodes: Security,
) -> anyhow::Result<JoinSet<()>> {
    let mut hangup = signal(SignalKind::hangup())?;
    let (authenticator, args) = (authenticator.clone(), args.clone());
    let mut rereads = JoinSet::new();
    rereads.spawn(async move {
        while hangup.recv().await.is_some() {
            match args.settings(listen) {
                Ok(settings) => {
                    authenticator.replace(settings);
                    tracing::info!("rules and certificates were read again");
                }
                Err(error) => tracing::error!("rules and certificates stay as they are: {error:#}"),
            }
            match (nodes.reread(), nodes.expires_at()) {
                (Ok(()), None) => {}
                (Ok(()), Some(at)) => {
                    tracing::info!("the node's certificate was read again; it expires at {at}");
                }
                (Err(why), _) => {
                    tracing::error!("the node's certificate stays as it is for other nodes: {why}");
                }
            }
        }
    });
    Ok(rereads)
}

/// Gives user root a password, unless it has one. Errors: the database does not take it.
pub async fn give_root(gateway: Arc<Gateway>, password: &str) -> anyhow::Result<()> {
    let catalog = gateway.catalog();
    if catalog.roles.named(ROOT_NAME).is_none_or(|root| root.verifier.is_some()) {
        return Ok(());
    }
    let mut session = Session::new(gateway, ROOT_NAME, base::databases::MERIDIAN);
    let statement = format!("ALTER ROLE {ROOT_NAME} PASSWORD '{}'", password.replace('\'', "''"));
    for response in session.simple(&statement).await {
        response.map_err(|error| anyhow!("cannot give root a password: {}", error.message))?;
    }
    Ok(())
}

fn rules(path: &Path) -> anyhow::Result<Rules> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let rules = Rules::read(&text).map_err(|error| anyhow!("{}: {error}", path.display()))?;
    rules.ok_or_else(|| anyhow!("{} has no rules; write one [[hba]] table for each", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_machine_there_are_passwords_and_tls() {
        let (home, world): (IpAddr, IpAddr) = ("127.0.0.1".parse().unwrap(), "0.0.0.0".parse().unwrap());
        let plain = SecurityArgs::default();
        assert_eq!(plain.settings(home).unwrap().rules, Rules::trust());
        let error = plain.settings(world).err().unwrap().to_string();
        assert!(error.contains("--tls-cert") && error.contains("--insecure"), "{error}");
        let open = SecurityArgs { insecure: true, ..SecurityArgs::default() };
        assert_eq!(open.settings(world).unwrap().rules, Rules::trust());
        let half = SecurityArgs { tls_cert: Some("x".into()), ..SecurityArgs::default() };
        assert!(half.settings(home).is_err());
        let no_file = SecurityArgs { hba_file: Some("/no/such/file".into()), ..SecurityArgs::default() };
        assert!(no_file.settings(home).err().unwrap().to_string().contains("/no/such/file"));
    }
}

//! A connection's bytes, with TLS or, between processes of one machine, without.

use super::tls::{Owner, Tls, owner_of, server_name};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// How connections are protected.
#[derive(Clone, Debug)]
pub enum Security {
    Tls(Tls),
    /// Not at all, and a peer is who it says it is: only between processes of one machine.
    Plain,
}

pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// Whether the other side is gone. A process that is killed closes nothing in order.
pub(super) fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset)
}
/// Why a connection broke, as an operator reads it.
pub(super) fn why_broken(error: &io::Error) -> String {
    if is_end(error) { "closed by the other side".into() } else { error.to_string() }
}

/// How long what was sent may stay unacknowledged before the system gives the connection up.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(10);

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    #[cfg(target_os = "linux")]
    socket2::SockRef::from(stream).set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX))?;
    Ok(())
}

impl Security {
    /// Reads certificates again, where there are any; see [`Tls::reread`]. Errors: they cannot be used, and those from before
    /// stay in use.
    pub fn reread(&self) -> Result<(), String> {
        match self {
            Security::Plain => Ok(()),
            Security::Tls(tls) => tls.reread(),
        }
    }
    /// When the own certificate expires; `None`: there is none.
    pub fn expires_at(&self) -> Option<String> {
        match self {
            Security::Plain => None,
            Security::Tls(tls) => tls.expires_at(),
        }
    }
    /// Connects to a node. With TLS it is that node, by its certificate.
    pub(super) async fn connect(&self, node: &str, address: &str) -> io::Result<Box<dyn Stream>> {
        let stream = TcpStream::connect(address).await?;
        prepare(&stream)?;
        Ok(match self {
            Security::Plain => Box::new(stream),
            Security::Tls(tls) => {
                let name = server_name(node).map_err(io::Error::other)?;
                Box::new(tls.connector().connect(name, stream).await?)
            }
        })
    }
    /// Takes a connection. With TLS it is known whose it is.
    pub(super) async fn accept(&self, stream: TcpStream) -> io::Result<(Box<dyn Stream>, Option<Owner>)> {
        prepare(&stream)?;
        Ok(match self {
            Security::Plain => (Box::new(stream), None),
            Security::Tls(tls) => {
                let stream = tls.acceptor().accept(stream).await?;
                let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
                let shown = shown.ok_or_else(|| io::Error::other("no certificate was shown"))?;
                let owner = owner_of(shown).map_err(io::Error::other)?;
                (Box::new(stream), Some(owner))
            }
        })
    }
}

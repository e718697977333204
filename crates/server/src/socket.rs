//! A connection's bytes: as they are, or through TLS.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::server::TlsStream;

pub enum Socket {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    /// A handshake that did not come to its end took it along.
    Gone,
}

impl Socket {
    /// Errors: the handshake's.
    pub async fn encrypt(&mut self, acceptor: &TlsAcceptor) -> io::Result<()> {
        let Socket::Plain(plain) = std::mem::replace(self, Socket::Gone) else { return Err(gone()) };
        *self = Socket::Tls(Box::new(acceptor.accept(plain).await?));
        Ok(())
    }

    /// The connection below.
    pub fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Socket::Plain(plain) => Some(plain),
            Socket::Tls(tls) => Some(tls.get_ref().0),
            Socket::Gone => None,
        }
    }

    pub fn client_certificate(&self) -> Option<&CertificateDer<'static>> {
        match self {
            Socket::Tls(tls) => tls.get_ref().1.peer_certificates().and_then(<[_]>::first),
            _ => None,
        }
    }

    pub async fn write_out(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes).await?;
        // TLS keeps what the connection would not take at once.
        self.flush().await
    }
}

fn gone() -> io::Error {
    io::ErrorKind::NotConnected.into()
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Plain(plain) => Pin::new(plain).poll_read(context, bytes),
            Socket::Tls(tls) => Pin::new(tls.as_mut()).poll_read(context, bytes),
            Socket::Gone => Poll::Ready(Err(gone())),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Plain(plain) => Pin::new(plain).poll_write(context, bytes),
            Socket::Tls(tls) => Pin::new(tls.as_mut()).poll_write(context, bytes),
            Socket::Gone => Poll::Ready(Err(gone())),
        }
    }
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Plain(plain) => Pin::new(plain).poll_flush(context),
            Socket::Tls(tls) => Pin::new(tls.as_mut()).poll_flush(context),
            Socket::Gone => Poll::Ready(Err(gone())),
        }
    }
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Plain(plain) => Pin::new(plain).poll_shutdown(context),
            Socket::Tls(tls) => Pin::new(tls.as_mut()).poll_shutdown(context),
            Socket::Gone => Poll::Ready(Err(gone())),
        }
    }
}

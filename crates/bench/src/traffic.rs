//! Connections whose bytes are counted, as the client sends and receives them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// Bytes of all connections that share it, without what the network adds to them.
#[derive(Debug, Default)]
pub struct Traffic {
    sent: AtomicU64,
    received: AtomicU64,
}

impl Traffic {
    /// Bytes sent to the server so far.
    pub fn sent_bytes(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
    /// Bytes received from the server so far.
    pub fn received_bytes(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

/// A stream whose bytes are counted.
pub struct Counted {
    stream: Box<dyn Stream>,
    traffic: Arc<Traffic>,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Counted {
    /// Opens a connection to the first server of a configuration that answers.
    ///
    /// # Errors
    /// What the last one said, or that there is none.
    pub async fn open(config: &Config, traffic: &Arc<Traffic>) -> io::Result<Counted> {
        let mut outcome = Err(io::Error::new(io::ErrorKind::InvalidInput, "the URL names no host"));
        for (n, host) in config.get_hosts().iter().enumerate() {
            // One port counts for all hosts.
            let ports = config.get_ports();
            let port = ports.get(n).or(ports.first()).copied().unwrap_or(5432);
            let opening = open(host, port);
            outcome = match config.get_connect_timeout() {
                None => opening.await,
                Some(limit) => within(*limit, opening).await,
            };
            if let Ok(stream) = outcome {
                return Ok(Counted { stream, traffic: traffic.clone() });
            }
        }
        outcome.map(|stream| Counted { stream, traffic: traffic.clone() })
    }
}

async fn within<T>(limit: Duration, opening: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let timed_out = |_| io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {limit:?}"));
    tokio::time::timeout(limit, opening).await.map_err(timed_out)?
}

async fn open(host: &Host, port: u16) -> io::Result<Box<dyn Stream>> {
    match host {
        Host::Tcp(name) => {
            let stream = TcpStream::connect((name.as_str(), port)).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream))
        }
        #[cfg(unix)]
        Host::Unix(folder) => {
            let socket = folder.join(format!(".s.PGSQL.{port}"));
            Ok(Box::new(tokio::net::UnixStream::connect(socket).await?))
        }
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.stream).poll_read(context, buffer);
        this.traffic.received.fetch_add((buffer.filled().len() - before) as u64, Ordering::Relaxed);
        polled
    }
}

impl AsyncWrite for Counted {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_write(context, bytes);
        if let Poll::Ready(Ok(written)) = &polled {
            this.traffic.sent.fetch_add(*written as u64, Ordering::Relaxed);
        }
        polled
    }
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn bytes_are_counted_in_both_directions() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let config: Config = format!("postgres://me@127.0.0.1:{port}/db").parse().unwrap();
        let traffic = Arc::new(Traffic::default());
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut question = [0; 5];
            stream.read_exact(&mut question).await.unwrap();
            stream.write_all(b"an answer").await.unwrap();
        };
        let client = async {
            let mut stream = Counted::open(&config, &traffic).await.unwrap();
            stream.write_all(b"hello").await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
        };
        tokio::join!(server, client);
        assert_eq!((traffic.sent_bytes(), traffic.received_bytes()), (5, 9));
    }

    #[tokio::test]
    async fn nobody_there_is_an_error_and_a_silent_place_times_out() {
        let traffic = Arc::new(Traffic::default());
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config: Config = format!("postgres://me@127.0.0.1:{free}/db").parse().unwrap();
        assert!(Counted::open(&config, &traffic).await.is_err());
        let slow = within::<()>(Duration::from_millis(5), std::future::pending()).await;
        assert_eq!(slow.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}

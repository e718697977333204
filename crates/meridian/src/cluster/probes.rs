//! Health checks over HTTP: `/livez`, whether the process should be left running, and `/readyz`, whether it serves clients.
//!
//! KEEPS: a check costs a bounded time and memory, whoever asks; an answer that is not 200 says why.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// What a check finds: nothing, or what is wrong.
pub type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

#[derive(Clone)]
pub struct Checks {
    pub live: Check,
    pub ready: Check,
}

/// What a node answers that goes through its log.
pub const REPLAYING: &str = "the node goes through its log";

impl Checks {
    /// Those of a node, from before there is one to ask: it goes through its log then.
    pub fn of_later(node: &Arc<OnceLock<Checks>>) -> Checks {
        let (live, ready) = (node.clone(), node.clone());
        Checks {
            live: Arc::new(move || live.get().map_or(Ok(()), |checks| (checks.live)())),
            ready: Arc::new(move || {
                ready.get().map_or_else(|| Err(REPLAYING.into()), |checks| (checks.ready)())
            }),
        }
    }
}

/// A request is read and answered within this.
const PATIENCE: Duration = Duration::from_secs(5);
const REQUEST_BYTES_MAX: usize = 8 << 10;
const HEADERS_MAX: usize = 64;
/// Checks at once; later ones wait in the system's queue.
const AT_ONCE_MAX: usize = 64;

pub async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Answers for ever.
pub async fn serve(listener: TcpListener, checks: Checks) {
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if tasks.len() < AT_ONCE_MAX => match accepted {
                Ok((stream, _)) => {
                    let checks = checks.clone();
                    tasks.spawn(async move {
                        // Who asks and goes away is not missed.
                        _ = tokio::time::timeout(PATIENCE, answer(stream, &checks)).await;
                    });
                }
                Err(error) => {
                    tracing::warn!("failed to accept a health check: {error}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
        }
    }
}

async fn answer(mut stream: TcpStream, checks: &Checks) -> std::io::Result<()> {
    let mut request = Vec::with_capacity(1024);
    let (code, body) = loop {
        let arrived = stream.read_buf(&mut request).await?;
        if let Some(answer) = judge(&request, checks) {
            break answer;
        }
        if arrived == 0 {
            return Ok(());
        }
    };
    let response = format!(
        "HTTP/1.1 {code}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(response.as_bytes()).await?;
    stream.shutdown().await
}

/// Status and body; `None` while the request is not complete.
fn judge(request: &[u8], checks: &Checks) -> Option<(&'static str, String)> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(request) {
        Ok(httparse::Status::Partial) if request.len() < REQUEST_BYTES_MAX => return None,
        Ok(httparse::Status::Partial) => {
            return Some(("431 Request Header Fields Too Large", "too long\n".into()));
        }
        Err(error) => return Some(("400 Bad Request", format!("{error}\n"))),
        Ok(httparse::Status::Complete(_)) => {}
    }
    if !matches!(parsed.method, Some("GET" | "HEAD")) {
        return Some(("405 Method Not Allowed", "GET it\n".into()));
    }
    let path = parsed.path.unwrap_or_default().split('?').next();
    let found = match path {
        Some("/livez") => (checks.live)(),
        Some("/readyz") => (checks.ready)(),
        _ => return Some(("404 Not Found", "there are /livez and /readyz\n".into())),
    };
    Some(match found {
        Ok(()) => ("200 OK", "ok\n".into()),
        Err(why) => ("503 Service Unavailable", format!("{why}\n")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_answered_once_they_are_complete_and_garbage_is_refused() {
        let checks = Checks { live: Arc::new(|| Ok(())), ready: Arc::new(|| Err("replaying".into())) };
        let code = |request: &str| judge(request.as_bytes(), &checks).map(|(code, _)| &code[..3]);
        assert_eq!(code("GET /livez HTTP/1.1\r\nHost: a\r\n"), None);
        assert_eq!(code("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"), Some("200"));
        assert_eq!(code("GET /readyz?x HTTP/1.0\r\n\r\n"), Some("503"));
        assert_eq!(code("GET / HTTP/1.1\r\n\r\n"), Some("404"));
        assert_eq!(code("POST /livez HTTP/1.1\r\n\r\n"), Some("405"));
        assert_eq!(code("\u{0}\u{1}garbage\r\n\r\n"), Some("400"));
        assert_eq!(code(&format!("GET /{} HTTP/1.1\r\n", "x".repeat(REQUEST_BYTES_MAX))), Some("431"));
        let (_, why) = judge(b"GET /readyz HTTP/1.1\r\n\r\n", &checks).unwrap();
        assert_eq!(why, "replaying\n");
    }
}

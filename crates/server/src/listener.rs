//! Accepts connections, each with a task of its own.
//!
//! KEEPS: a shortage of descriptors pauses accepting and ends nothing; it is logged once per [`LOG_EVERY`], not
//! once per attempt.

use crate::{Server, connection};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Pauses after accepting has failed, the second and every later one twice as long as that before.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Lines about failures to accept come no more often.
const LOG_EVERY: Duration = Duration::from_secs(5);

/// When the system begins to ask whether a silent client is still there, how often, and how many questions stay
/// without an answer before it is not.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(60);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(10);
const KEEPALIVE_QUESTIONS: u32 = 6;

/// How long what was sent may stay without the client's system acknowledging it.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(120);

/// Serves connections until the listener fails.
pub async fn serve(server: Arc<Server>, listener: TcpListener) -> io::Result<()> {
    let mut tasks = JoinSet::new();
    let mut failures = Failures::default();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, peer) = match accepted {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        if is_shortage(&error) {
                            // Who has said nothing yet may come again.
                            server.admissions.unseat_one();
                        }
                        tokio::time::sleep(failures.note(&error, Instant::now())).await;
                        continue;
                    }
                };
                failures.pause = Duration::ZERO;
                if let Err(error) = watch(&stream) {
                    tracing::debug!(%peer, "a connection goes without keepalive: {error}");
                }
                let server = server.clone();
                tasks.spawn(async move {
                    if let Err(e) = connection::run(server, stream, peer).await {
                        tracing::debug!(%peer, "connection ended: {e}");
                    }
                });
            }
            Some(ended) = tasks.join_next(), if !tasks.is_empty() => {
                if let Err(e) = ended {
                    tracing::error!("a connection's task failed: {e}");
                }
            }
        }
    }
}

/// Lets the system find out that a client is gone which did not say so.
fn watch(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = socket2::SockRef::from(stream);
    let keepalive = socket2::TcpKeepalive::new().with_time(KEEPALIVE_AFTER).with_interval(KEEPALIVE_EVERY);
    socket.set_tcp_keepalive(&keepalive.with_retries(KEEPALIVE_QUESTIONS))?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX))?;
    Ok(())
}

/// Whether the process or the system has no descriptor left (ENFILE, EMFILE).
fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(23 | 24))
}

/// Failures to accept since the last line about them.
#[derive(Default)]
struct Failures {
    count: u64,
    logged: Option<Instant>,
    pause: Duration,
}

impl Failures {
    /// Books a failure and answers how long to pause.
    fn note(&mut self, error: &io::Error, now: Instant) -> Duration {
        self.count += 1;
        if self.logged.is_none_or(|at| now - at >= LOG_EVERY) {
            tracing::warn!(failures = self.count, "failed to accept connections: {error}");
            (self.count, self.logged) = (0, Some(now));
        }
        self.pause = (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
        self.pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_is_logged_now_and_then_and_pauses_grow() {
        let shortage = io::Error::from_raw_os_error(24);
        assert!(is_shortage(&shortage));
        let (mut failures, now) = (Failures::default(), Instant::now());
        let pauses: Vec<Duration> = (0..9).map(|_| failures.note(&shortage, now)).collect();
        assert_eq!((pauses[0], pauses[1], pauses[8]), (PAUSE_MIN, PAUSE_MIN * 2, PAUSE_MAX));
        assert_eq!(failures.count, 8, "one line for all of them so far");
        failures.note(&shortage, now + LOG_EVERY);
        assert_eq!(failures.count, 0);
    }
}

//! A client that sends any bytes and reads whatever comes back, frame by frame, without trusting it.

use crate::wire::{message, startup};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// What ended an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// ReadyForQuery.
    Ready,
    /// The server waits for the data of a COPY.
    CopyIn,
    /// The server hung up.
    Closed,
    /// Nothing of these within the ceiling.
    Silent,
    /// What came is not the protocol.
    Malformed(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerError {
    pub code: String,
    pub message: String,
    pub detail: String,
    pub hint: String,
}

impl ServerError {
    /// Reads the fields of an ErrorResponse.
    fn parse(body: &[u8]) -> ServerError {
        let mut error = ServerError::default();
        for field in body.split(|&b| b == 0).filter(|f| !f.is_empty()) {
            let text = || String::from_utf8_lossy(&field[1..]).into_owned();
            match field[0] {
                b'C' => error.code = text(),
                b'M' => error.message = text(),
                b'D' => error.detail = text(),
                b'H' => error.hint = text(),
                _ => {}
            }
        }
        error
    }
}

#[derive(Clone, Debug)]
pub struct Reply {
    pub end: End,
    /// The first few errors.
    pub errors: Vec<ServerError>,
    pub errors_count: u64,
    pub rows_count: u64,
    /// The first value of the first row, for who asked a question with one answer.
    pub first_value: Option<String>,
    /// Statements that were answered, with an error or without.
    pub statements_count: u64,
    pub took: Duration,
    /// The longest time without a byte from the server.
    pub longest_silence: Duration,
}

impl Reply {
    /// Nothing heard yet.
    pub fn new() -> Reply {
        Reply {
            end: End::Silent,
            errors: Vec::new(),
            errors_count: 0,
            rows_count: 0,
            first_value: None,
            statements_count: 0,
            took: Duration::ZERO,
            longest_silence: Duration::ZERO,
        }
    }

    /// The next exchange, about the same input.
    fn followed_by(&mut self, next: Reply) {
        self.end = next.end;
        self.errors.extend(next.errors);
        self.errors_count += next.errors_count;
        self.rows_count += next.rows_count;
        self.first_value = self.first_value.take().or(next.first_value);
        self.statements_count += next.statements_count;
        self.took += next.took;
        self.longest_silence = self.longest_silence.max(next.longest_silence);
    }
}

/// More errors than this of one exchange are counted and not kept.
const ERRORS_MAX: usize = 20;
/// No server sends a longer frame.
const FRAME_BYTES_MAX: usize = 1 << 30;
const GREETING: Duration = Duration::from_secs(10);

pub struct Connection {
    stream: TcpStream,
    pending: Vec<u8>,
}

/// What an exchange waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    Ready,
    Closed,
}

impl Connection {
    /// Without a greeting. Errors: nobody listens there.
    pub async fn open(address: SocketAddr) -> std::io::Result<Connection> {
        let stream = timeout(GREETING, TcpStream::connect(address))
            .await
            .map_err(|_| std::io::Error::new(std::io::ErrorKind::TimedOut, "connect"))??;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, pending: Vec::new() })
    }

    /// Greeted, with the server's answer to the greeting if that was not ReadyForQuery.
    pub async fn greeted(address: SocketAddr) -> std::io::Result<Result<Connection, Reply>> {
        let mut connection = Connection::open(address).await?;
        let reply = connection.exchange(&startup("attack", "meridian"), Until::Ready, false, GREETING).await;
        Ok(if reply.end == End::Ready { Ok(connection) } else { Err(reply) })
    }

    /// A simple Query; a COPY that waits for data is told to fail.
    pub async fn query(&mut self, sql: &[u8], ceiling: Duration) -> Reply {
        let reply = self.exchange(&query(sql), Until::Ready, false, ceiling).await;
        self.refuse_copies(reply, false, ceiling).await
    }

    /// Parse, Describe, Bind, Execute, Sync, sent at once.
    pub async fn execute(&mut self, sql: &[u8], parameters: &[Option<Vec<u8>>], ceiling: Duration) -> Reply {
        let parse = [b"\0", sql, b"\0\0\0"].concat();
        let mut bind = b"\0\0\0\0".to_vec();
        bind.extend((parameters.len() as u16).to_be_bytes());
        for parameter in parameters {
            match parameter {
                Some(value) => {
                    bind.extend((value.len() as u32).to_be_bytes());
                    bind.extend_from_slice(value);
                }
                None => bind.extend((-1i32).to_be_bytes()),
            }
        }
        bind.extend([0, 0]);
        let all = [
            message(b'P', &parse),
            message(b'D', b"S\0"),
            message(b'B', &bind),
            message(b'E', b"\0\0\0\0\0"),
            message(b'S', b""),
        ];
        let reply = self.exchange(&all.concat(), Until::Ready, false, ceiling).await;
        self.refuse_copies(reply, true, ceiling).await
    }

    /// COPY FROM STDIN with its data, in frames of uneven sizes.
    pub async fn copy(&mut self, sql: &[u8], data: &[u8], ceiling: Duration) -> Reply {
        let mut reply = self.exchange(&query(sql), Until::Ready, false, ceiling).await;
        if reply.end == End::CopyIn {
            let mut frames = Vec::with_capacity(data.len() + 64);
            let mut rest = data;
            for size in [1usize, 7, 100, 8192].into_iter().chain(std::iter::repeat(65_536)) {
                if rest.is_empty() {
                    break;
                }
                let (chunk, more) = rest.split_at(size.min(rest.len()));
                frames.extend(message(b'd', chunk));
                rest = more;
            }
            frames.extend(message(b'c', b""));
            let next = self.exchange(&frames, Until::Ready, false, ceiling).await;
            reply.followed_by(next);
        }
        self.refuse_copies(reply, false, ceiling).await
    }

    async fn refuse_copies(&mut self, mut reply: Reply, synced: bool, ceiling: Duration) -> Reply {
        let mut left = 100;
        while reply.end == End::CopyIn && left > 0 {
            left -= 1;
            let mut refusal = message(b'f', b"no data\0");
            if synced {
                refusal.extend(message(b'S', b""));
            }
            let next = self.exchange(&refusal, Until::Ready, false, ceiling).await;
            reply.followed_by(next);
        }
        reply
    }

    /// Sends bytes, then ends what it sends, and reads until the server hangs up.
    pub async fn bytes(&mut self, bytes: &[u8], ceiling: Duration) -> Reply {
        self.exchange(bytes, Until::Closed, true, ceiling).await
    }

    /// Sends bytes and waits for nothing.
    pub async fn send(&mut self, bytes: &[u8]) {
        // The server may have hung up: then there is nobody to tell.
        _ = timeout(GREETING, self.stream.write_all(bytes)).await;
    }

    /// Writes and reads at once, so that neither side waits for the other to make room.
    async fn exchange(&mut self, send: &[u8], until: Until, shut: bool, ceiling: Duration) -> Reply {
        let start = Instant::now();
        let (mut reader, mut writer) = self.stream.split();
        let write = async {
            // The server may refuse before it has read everything; its answer is what counts.
            _ = writer.write_all(send).await;
            if shut {
                _ = writer.shutdown().await;
            }
        };
        let mut reply = Reply::new();
        let mut longest_silence = Duration::ZERO;
        let pending = &mut self.pending;
        let read = async {
            let mut chunk = vec![0; 65_536];
            let mut heard_at = start;
            loop {
                longest_silence = longest_silence.max(heard_at.elapsed());
                heard_at = Instant::now();
                match take_frames(pending, until, &mut reply) {
                    Some(end) => return end,
                    None => match reader.read(&mut chunk).await {
                        Ok(0) | Err(_) => return End::Closed,
                        Ok(n) => pending.extend_from_slice(&chunk[..n]),
                    },
                }
            }
        };
        let both = async {
            tokio::pin!(write, read);
            tokio::select! {
                end = &mut read => end,
                () = &mut write => read.await,
            }
        };
        let end = timeout(ceiling, both).await.unwrap_or(End::Silent);
        reply.end = end;
        reply.took = start.elapsed();
        reply.longest_silence = longest_silence;
        reply
    }
}

fn query(sql: &[u8]) -> Vec<u8> {
    message(b'Q', &[sql, b"\0"].concat())
}

/// Takes whole frames off the front; answers what ended the exchange, if one of them did.
fn take_frames(pending: &mut Vec<u8>, until: Until, reply: &mut Reply) -> Option<End> {
    let mut at = 0;
    let mut end = None;
    while end.is_none() && pending.len() - at >= 5 {
        let tag = pending[at];
        let length = u32::from_be_bytes(pending[at + 1..at + 5].try_into().expect("four bytes")) as usize;
        // Answers to SSLRequest and GSSENCRequest are one byte without a length.
        if until == Until::Closed && tag == b'N' && !(4..FRAME_BYTES_MAX).contains(&length) {
            at += 1;
            continue;
        }
        if !(4..FRAME_BYTES_MAX).contains(&length) || !tag.is_ascii_alphanumeric() {
            let shown = String::from_utf8_lossy(&pending[at..(at + 16).min(pending.len())]).into_owned();
            end = Some(End::Malformed(format!("a frame that begins with {shown:?}")));
            break;
        }
        if pending.len() - at < length + 1 {
            break;
        }
        let body = &pending[at + 5..at + 1 + length];
        match tag {
            b'E' => {
                reply.statements_count += 1;
                reply.errors_count += 1;
                if reply.errors.len() < ERRORS_MAX {
                    reply.errors.push(ServerError::parse(body));
                }
            }
            b'D' => {
                if reply.rows_count == 0 {
                    reply.first_value = first_value(body);
                }
                reply.rows_count += 1;
            }
            b'C' | b'I' => reply.statements_count += 1,
            b'Z' if until == Until::Ready => end = Some(End::Ready),
            b'G' if until == Until::Ready => end = Some(End::CopyIn),
            _ => {}
        }
        at += length + 1;
    }
    pending.drain(..at);
    end
}

fn first_value(row: &[u8]) -> Option<String> {
    let length = i32::from_be_bytes(row.get(2..6)?.try_into().ok()?);
    let value = row.get(6..6 + usize::try_from(length).ok()?)?;
    Some(String::from_utf8_lossy(value).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_taken_whole_and_errors_are_read() {
        let mut told = Reply::new();
        let error = message(b'E', b"SERROR\0C42601\0Msyntax error\0Hlook\0\0");
        let ready = message(b'Z', b"I");
        let mut pending = [&error[..], &ready[..3]].concat();
        assert_eq!(take_frames(&mut pending, Until::Ready, &mut told), None);
        assert_eq!(
            (told.errors[0].code.as_str(), told.errors[0].message.as_str()),
            ("42601", "syntax error")
        );
        pending.extend(&ready[3..]);
        assert_eq!(take_frames(&mut pending, Until::Ready, &mut told), Some(End::Ready));
        assert!(pending.is_empty());
    }

    #[test]
    fn what_is_no_frame_is_said() {
        let mut pending = b"HTTP/1.1 200".to_vec();
        let end = take_frames(&mut pending, Until::Ready, &mut Reply::new());
        assert!(matches!(end, Some(End::Malformed(_))));
    }

    #[test]
    fn the_first_value_of_the_first_row_is_kept() {
        let mut told = Reply::new();
        let mut pending = message(b'D', b"\0\x01\0\0\0\x0242");
        take_frames(&mut pending, Until::Ready, &mut told);
        assert_eq!((told.rows_count, told.first_value.as_deref()), (1, Some("42")));
    }
}

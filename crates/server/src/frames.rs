//! Frames on a socket: input cut by its lengths, output gathered and written.
//!
//! KEEPS: a frame's length is checked before its bytes are waited for; room grows with bytes that came, not
//! with lengths that were announced, and with a bound for all connections together; output waits for a slow reader with at most [`OUTPUT_BYTES`] and one
//! message more; whatever waits for the client ends at the deadline.

use crate::errors::error_response;
use crate::messages::{Frame, OPENING_BYTES_MAX, Opening, SMALL_BYTES_MAX, may_be_long};
use crate::socket::Socket;
use base::error::{SqlError, SqlResult, SqlState};
use bytes::{Buf, BufMut, BytesMut};
use pgwire::messages::PgWireBackendMessage as Out;
use pgwire::messages::response::{ReadyForQuery, SslResponse, TransactionStatus as WireStatus};
use runtime::GivesWay;
use session::{Deadline, TransactionStatus};
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

/// Why a connection is over.
#[derive(Debug)]
pub enum Ended {
    /// The client closed it, or said goodbye.
    Gone,
    Io(io::Error),
    /// Told to the client as FATAL.
    Refused(SqlError),
}

impl Ended {
    pub fn violation(what: impl Into<String>) -> Ended {
        Ended::Refused(SqlError::new(SqlState::PROTOCOL_VIOLATION, what))
    }
}

impl From<io::Error> for Ended {
    fn from(e: io::Error) -> Ended {
        Ended::Io(e)
    }
}

/// Frames on a socket. Output gathers until [`Stream::flush`].
pub struct Stream {
    socket: Socket,
    input: BytesMut,
    output: BytesMut,
    message_bytes_max: usize,
    large: Arc<LargeInputs>,
    /// Bytes of this connection's input that are counted there.
    counted: usize,
    /// When the connection ends, whatever it is doing.
    pub deadline: Option<Deadline>,
}

/// Output is written out before it grows beyond this, in bytes.
pub const OUTPUT_BYTES: usize = 64 << 10;

/// Buffers that grew beyond this for one message are given back after it, in bytes.
const KEPT_BYTES: usize = 256 << 10;

/// Frames that are looked at ahead of a statement at most.
const AHEAD_MAX: usize = 32;

/// How often a client that has sent ahead is looked at for whether it is still there.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// What follows a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// Sync, and nothing before it that could fail.
    Sync,
    /// Another message of the same pipeline, or an answer is wanted before there is one.
    More,
}

impl Stream {
    pub fn new(socket: TcpStream, message_bytes_max: usize, large: Arc<LargeInputs>) -> Stream {
        let (input, output) = (BytesMut::new(), BytesMut::new());
        let socket = Socket::Plain(socket);
        Stream { socket, input, output, message_bytes_max, large, counted: 0, deadline: None }
    }

    /// Says that TLS may begin, and lets it. Errors: 08P01 if bytes came before it, which would be taken for what
    /// the client says behind it.
    pub async fn encrypt(&mut self, acceptor: &TlsAcceptor) -> Result<(), Ended> {
        if !self.input.is_empty() {
            return Err(Ended::Refused(
                SqlError::new(SqlState::PROTOCOL_VIOLATION, "received unencrypted data after SSL request")
                    .detail(
                        "This could be either a client-software bug or evidence of an attempted \
                         man-in-the-middle attack.",
                    ),
            ));
        }
        self.send(Out::SslResponse(SslResponse::Accept))?;
        self.flush().await?;
        tokio::select! {
            biased;
            done = self.socket.encrypt(acceptor) => Ok(done?),
            // Nothing can be said before there is encryption.
            error = passed(self.deadline.as_ref()) => {
                Err(Ended::Io(io::Error::new(io::ErrorKind::TimedOut, error.to_string())))
            }
        }
    }

    pub fn is_encrypted(&self) -> bool {
        matches!(self.socket, Socket::Tls(_))
    }

    /// The common name in the certificate that the client has proved to be its own.
    pub fn common_name(&self) -> Option<String> {
        self.socket.client_certificate().and_then(crate::auth::common_name)
    }

    /// The next frame of a conversation that has started. May be dropped without losing input.
    pub async fn receive(&mut self) -> Result<Frame, Ended> {
        loop {
            if let Some((kind, length)) = self.header(0)?
                && self.input.len() > length
            {
                let mut whole = self.input.split_to(length + 1);
                whole.advance(5);
                if self.input.is_empty() && length > KEPT_BYTES {
                    self.input = BytesMut::new();
                }
                self.count()?;
                return Ok(Frame { kind, body: whole.freeze() });
            }
            self.fill().await?;
        }
    }

    /// Kind and length (without the kind) of the frame that begins so many bytes ahead, if they are there.
    /// Refuses kinds that are none and lengths that are impossible or too large.
    fn header(&self, at: usize) -> Result<Option<(u8, usize)>, Ended> {
        let Some(&kind) = self.input.get(at) else { return Ok(None) };
        let Some(may_be_long) = may_be_long(kind) else {
            return Err(Ended::violation(format!("invalid frontend message type {kind}")));
        };
        let Some(length) = self.input.get(at + 1..at + 5) else { return Ok(None) };
        let length = i32::from_be_bytes(length.try_into().expect("four bytes"));
        let limit = if may_be_long { self.message_bytes_max } else { SMALL_BYTES_MAX };
        match usize::try_from(length) {
            Ok(length) if (4..=limit).contains(&length) => Ok(Some((kind, length))),
            _ => Err(Ended::violation(format!("invalid message length {length}"))),
        }
    }

    /// What comes after the frame that was received last. Waits until that can be told, unless nothing more has
    /// to come before an answer is due: no client may expect one before it has sent Sync or Flush.
    pub async fn follows(&mut self, may_wait: bool) -> Result<Follows, Ended> {
        let (mut at, mut looked) = (0, 0);
        loop {
            match self.header(at)? {
                Some((b'S', _)) => return Ok(Follows::Sync),
                // Close cannot fail, so it does not make a statement one of several.
                Some((b'C', length)) if looked < AHEAD_MAX => {
                    looked += 1;
                    at += length + 1;
                }
                Some(_) => return Ok(Follows::More),
                None if may_wait => self.fill().await?,
                None => return Ok(Follows::More),
            }
        }
    }

    /// A packet before the conversation.
    pub async fn receive_opening(&mut self) -> Result<Opening, Ended> {
        loop {
            if let Some(length) = self.input.get(..4) {
                let length = u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
                if !(8..=OPENING_BYTES_MAX).contains(&length) {
                    return Err(Ended::violation("invalid length of startup packet"));
                }
                if self.input.len() >= length {
                    let mut whole = self.input.split_to(length);
                    whole.advance(4);
                    return Opening::read(whole.freeze()).map_err(Ended::Refused);
                }
            }
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> Result<(), Ended> {
        let Stream { socket, input, deadline, .. } = self;
        tokio::select! {
            biased;
            read = socket.read_buf(input) => match read? {
                0 => Err(Ended::Gone),
                _ => self.count(),
            },
            error = passed(deadline.as_ref()) => Err(Ended::Refused(error)),
        }
    }

    /// Counts what waits in the input, if it is much. Errors: 53200 if all connections' is more than may be.
    fn count(&mut self) -> Result<(), Ended> {
        let bytes = if self.input.len() > KEPT_BYTES { self.input.len() } else { 0 };
        let before = std::mem::replace(&mut self.counted, bytes);
        if bytes <= before {
            self.large.bytes.fetch_sub(before - bytes, Ordering::Relaxed);
            return Ok(());
        }
        let more = bytes - before;
        if self.large.bytes.fetch_add(more, Ordering::Relaxed) + more > self.large.bytes_max {
            let limit = self.large.bytes_max;
            return Err(Ended::Refused(
                SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory")
                    .detail(format!("Messages that are on their way may take {limit} bytes together."))
                    .hint("Try again later, or send less at once."),
            ));
        }
        Ok(())
    }

    /// Reads and forgets whatever comes until the client has closed its side.
    pub async fn drain(&mut self) {
        loop {
            self.input.clear();
            if self.fill().await.is_err() {
                return;
            }
        }
    }

    pub fn send(&mut self, message: Out) -> Result<(), Ended> {
        message.encode(&mut self.output).map_err(|e| Ended::Io(io::Error::other(e.to_string())))
    }

    /// Appends a message whose body is written in place. Errors: the body's, or 54000 for one that is too long;
    /// nothing of the message stays.
    pub fn message(&mut self, kind: u8, write: impl FnOnce(&mut BytesMut) -> SqlResult<()>) -> SqlResult<()> {
        let start = self.output.len();
        self.output.put_u8(kind);
        let written = wire::framed(&mut self.output, write);
        if written.is_err() {
            self.output.truncate(start);
        }
        written
    }

    pub async fn flush(&mut self) -> Result<(), Ended> {
        if self.output.is_empty() {
            return Ok(());
        }
        let Stream { socket, output, deadline, .. } = self;
        tokio::select! {
            biased;
            written = socket.write_out(&output[..]) => written?,
            // Part of a message may be written: nothing more can be said.
            error = passed(deadline.as_ref()) => {
                return Err(Ended::Io(io::Error::new(io::ErrorKind::TimedOut, error.to_string())));
            }
        }
        self.output.clear();
        if self.output.capacity() > KEPT_BYTES {
            self.output = BytesMut::new();
        }
        Ok(())
    }

    /// Writes out what has gathered, if it is much.
    pub async fn flush_if_full(&mut self) -> Result<(), Ended> {
        if self.output.len() >= OUTPUT_BYTES { self.flush().await } else { Ok(()) }
    }

    /// No more will be written.
    pub async fn close(&mut self) -> Result<(), Ended> {
        Ok(self.socket.shutdown().await?)
    }

    pub fn ready(&mut self, status: TransactionStatus) -> Result<(), Ended> {
        let status = match status {
            TransactionStatus::Idle => WireStatus::Idle,
            TransactionStatus::InTransaction => WireStatus::Transaction,
            TransactionStatus::Failed => WireStatus::Error,
        };
        self.send(Out::ReadyForQuery(ReadyForQuery::new(status)))
    }

    pub fn error(&mut self, error: &SqlError) -> Result<(), Ended> {
        self.send(Out::ErrorResponse(error_response(error, "ERROR")))
    }

    pub fn fatal(&mut self, error: &SqlError) -> Result<(), Ended> {
        self.send(Out::ErrorResponse(error_response(error, "FATAL")))
    }

    /// Runs a statement's future; gives it up if the client closes the connection meanwhile, or at the
    /// deadline.
    pub async fn attended<T>(&self, work: impl Future<Output = T>) -> Result<T, Ended> {
        tokio::pin!(work);
        let mut work = GivesWay::new(work);
        tokio::select! {
            biased;
            done = &mut work => Ok(done),
            () = self.closed() => Err(Ended::Gone),
            error = passed(self.deadline.as_ref()) => Err(Ended::Refused(error)),
        }
    }

    /// Ends when the client has closed its side, or its half of it: who stops listening for an answer and who
    /// stops asking look alike.
    async fn closed(&self) {
        let mut byte = [0u8; 1];
        let Some(socket) = self.socket.tcp() else { return };
        if !matches!(socket.peek(&mut byte).await, Ok(1)) {
            return;
        }
        // Data that it sent ahead hides the end from a read, and keeps the socket ready: look now and then.
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            match socket.ready(Interest::READABLE).await {
                Ok(ready) if !ready.is_read_closed() => {}
                _ => return,
            }
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.large.bytes.fetch_sub(self.counted, Ordering::Relaxed);
    }
}

/// Input of all connections of a front end that have more than [`KEPT_BYTES`] of it, in bytes.
pub struct LargeInputs {
    bytes: AtomicUsize,
    bytes_max: usize,
}

impl LargeInputs {
    pub fn new(bytes_max: usize) -> Arc<LargeInputs> {
        Arc::new(LargeInputs { bytes: AtomicUsize::new(0), bytes_max })
    }
}

/// Ends at the deadline, with its error; never without one.
async fn passed(deadline: Option<&Deadline>) -> SqlError {
    match deadline {
        Some(deadline) => {
            tokio::time::sleep_until(deadline.at).await;
            deadline.error.clone()
        }
        None => std::future::pending().await,
    }
}

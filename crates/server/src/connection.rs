//! One connection: reads messages, runs them, writes answers.
//!
//! KEEPS: an error inside an extended-protocol sequence skips everything up to its Sync; a client that
//! goes away while its statement runs takes the statement with it; bytes that are no message end this
//! connection and no other.

use crate::errors::{error_response, notice_response};
use crate::extended::Portals;
use crate::{Admission, Server, startup};
use base::error::{SqlError, SqlResult, SqlState};
use bytes::BytesMut;
use futures::FutureExt;
use pgwire::messages::copy::{CopyData, CopyDone, CopyInResponse, CopyOutResponse};
use pgwire::messages::data::{DataRow, FieldDescription, RowDescription};
use pgwire::messages::response::{
    CommandComplete, EmptyQueryResponse, ReadyForQuery, TransactionStatus as WireStatus,
};
use pgwire::messages::startup::ParameterStatus;
use pgwire::messages::{DecodeContext, PgWireBackendMessage as Out, PgWireFrontendMessage as In};
use query::{Column, CopyFormat, CopyOut, Response, Rows, Session, TransactionStatus};
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

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

/// Messages on a socket. Output gathers until [`Stream::flush`].
pub struct Stream {
    socket: TcpStream,
    input: BytesMut,
    output: BytesMut,
    context: DecodeContext,
    message_bytes_max: usize,
}

/// Output is written out before it grows beyond this, in bytes.
const OUTPUT_BYTES: usize = 64 << 10;

impl Stream {
    fn new(socket: TcpStream, message_bytes_max: usize) -> Stream {
        Stream {
            socket,
            input: BytesMut::with_capacity(8 << 10),
            output: BytesMut::with_capacity(8 << 10),
            context: DecodeContext::default(),
            message_bytes_max,
        }
    }

    /// The next message of a conversation that has started.
    pub async fn receive(&mut self) -> Result<In, Ended> {
        self.context.awaiting_frontend_ssl = false;
        self.context.awaiting_frontend_startup = false;
        self.next_message().await
    }

    /// A message before the conversation: encryption, cancellation or startup.
    pub async fn receive_startup(&mut self) -> Result<In, Ended> {
        self.context.awaiting_frontend_startup = true;
        // Startup packets have no type byte; the code behind the length tells which it is.
        loop {
            if self.input.len() >= 8 {
                let code = i32::from_be_bytes(self.input[4..8].try_into().expect("four bytes"));
                const SSL: i32 = 80_877_103;
                const GSS: i32 = 80_877_104;
                self.context.awaiting_frontend_ssl = code == SSL || code == GSS;
                return self.next_message().await;
            }
            self.fill().await?;
        }
    }

    async fn next_message(&mut self) -> Result<In, Ended> {
        loop {
            self.check_length()?;
            let (input, context) = (&mut self.input, &self.context);
            // The decoder trusts counts inside a message; a lie must cost this connection only.
            let decoded = catch_unwind(AssertUnwindSafe(|| In::decode(input, context)));
            match decoded {
                Ok(Ok(Some(message))) => return Ok(message),
                Ok(Ok(None)) => self.fill().await?,
                Ok(Err(e)) => return Err(Ended::violation(format!("malformed message: {e}"))),
                Err(_) => return Err(Ended::violation("malformed message: its fields exceed its length")),
            }
        }
    }

    /// Refuses a length that is impossible or too large before its bytes are waited for.
    fn check_length(&self) -> Result<(), Ended> {
        let at = usize::from(!self.context.awaiting_frontend_startup);
        let Some(length) = self.input.get(at..at + 4) else { return Ok(()) };
        let length = i32::from_be_bytes(length.try_into().expect("four bytes"));
        let limit = if self.context.awaiting_frontend_startup { 10_000 } else { self.message_bytes_max };
        if length < 4 || length as usize > limit {
            return Err(Ended::violation(format!("invalid message length {length}")));
        }
        Ok(())
    }

    async fn fill(&mut self) -> Result<(), Ended> {
        match self.socket.read_buf(&mut self.input).await? {
            0 => Err(Ended::Gone),
            _ => Ok(()),
        }
    }

    pub fn send(&mut self, message: Out) -> Result<(), Ended> {
        message.encode(&mut self.output).map_err(|e| Ended::Io(io::Error::other(e.to_string())))
    }

    pub async fn flush(&mut self) -> Result<(), Ended> {
        if !self.output.is_empty() {
            self.socket.write_all(&self.output).await?;
            self.output.clear();
        }
        Ok(())
    }

    /// Writes out what has gathered, if it is much.
    pub async fn flush_if_full(&mut self) -> Result<(), Ended> {
        if self.output.len() >= OUTPUT_BYTES { self.flush().await } else { Ok(()) }
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

    /// Runs a statement's future; gives it up if the client closes the connection meanwhile.
    pub async fn attended<T>(&self, work: impl Future<Output = T>) -> Result<T, Ended> {
        tokio::pin!(work);
        tokio::select! {
            biased;
            done = &mut work => Ok(done),
            () = self.closed() => Err(Ended::Gone),
        }
    }

    /// Ends when the client has closed its side. Data that it sent ahead hides the end; the next read
    /// finds it.
    async fn closed(&self) {
        let mut byte = [0u8; 1];
        match self.socket.peek(&mut byte).await {
            Ok(0) | Err(_) => {}
            Ok(_) => std::future::pending().await,
        }
    }
}

/// Serves one client from its first byte to its last.
pub async fn run(server: Arc<Server>, socket: TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let mut stream = Stream::new(socket, server.limits.message_bytes_max);
    let ended = match server.admit() {
        Some(mut admission) => {
            let talk = AssertUnwindSafe(talk(&server, &mut admission, &mut stream)).catch_unwind().await;
            // What a panic leaves behind is not to be trusted: the session ends, its transaction with it.
            talk.unwrap_or_else(|panic| Err(Ended::Refused(query::panics::error(panic))))
        }
        None => Err(Ended::Refused(
            SqlError::new(SqlState::TOO_MANY_CONNECTIONS, "sorry, too many clients already")
                .detail(format!("This server accepts {} connections.", server.limits.connections_max)),
        )),
    };
    match ended {
        Ok(()) | Err(Ended::Gone) => Ok(()),
        Err(Ended::Io(e)) => Err(e),
        Err(Ended::Refused(error)) => {
            _ = stream.send(Out::ErrorResponse(error_response(&error, "FATAL")));
            _ = stream.flush().await;
            Err(io::Error::other(error.to_string()))
        }
    }
}

async fn talk(server: &Arc<Server>, admission: &mut Admission, stream: &mut Stream) -> Result<(), Ended> {
    let Some(session) = startup::open(server, admission, stream).await? else { return Ok(()) };
    let mut conversation = Conversation { session, portals: Portals::default(), skipping: false };
    let ended = conversation.run(stream).await;
    conversation.session.close().await;
    ended
}

/// A session and its open portals.
struct Conversation {
    session: Session,
    portals: Portals,
    /// After an error in the extended protocol: everything up to the next Sync is thrown away.
    skipping: bool,
}

impl Conversation {
    async fn run(&mut self, stream: &mut Stream) -> Result<(), Ended> {
        loop {
            let message = stream.receive().await?;
            if self.skipping && !matches!(message, In::Sync(_) | In::Terminate(_)) {
                continue;
            }
            match message {
                In::Terminate(_) => return Ok(()),
                In::Query(query) => self.simple(stream, &query.query).await?,
                In::Sync(_) => {
                    self.skipping = false;
                    self.portals.end_of_sequence(self.session.transaction_status());
                    self.after_statement(stream)?;
                    stream.ready(self.session.transaction_status())?;
                    stream.flush().await?;
                }
                In::Flush(_) => stream.flush().await?,
                In::CopyData(_) | In::CopyDone(_) | In::CopyFail(_) => {
                    // The rest of a copy that failed: the client has not heard of it yet.
                }
                message @ (In::Parse(_) | In::Bind(_) | In::Describe(_) | In::Execute(_) | In::Close(_)) => {
                    if let Err(error) = self.extended(stream, message).await? {
                        self.session.fail().await;
                        self.session
                            .take_notices()
                            .iter()
                            .try_for_each(|n| stream.send(Out::NoticeResponse(notice_response(n))))?;
                        stream.error(&error)?;
                        self.skipping = true;
                    }
                    stream.flush_if_full().await?;
                }
                _ => return Err(Ended::violation("unexpected message")),
            }
        }
    }

    /// One message of the extended protocol. The outer error ends the connection, the inner one the
    /// sequence.
    async fn extended(&mut self, stream: &mut Stream, message: In) -> Result<SqlResult<()>, Ended> {
        let session = &mut self.session;
        match message {
            In::Parse(parse) => self.portals.parse(session, stream, parse).await,
            In::Bind(bind) => self.portals.bind(session, stream, bind),
            In::Describe(describe) => self.portals.describe(session, stream, describe),
            In::Close(close) => self.portals.close(session, stream, close),
            In::Execute(execute) => match self.portals.execute(session, stream, execute).await? {
                Ok(None) => Ok(Ok(())),
                Ok(Some(response)) => {
                    let sent = self.send_response(stream, response, None).await?;
                    self.after_statement(stream)?;
                    Ok(sent)
                }
                Err(error) => Ok(Err(error)),
            },
            _ => Ok(Ok(())),
        }
    }

    async fn simple(&mut self, stream: &mut Stream, sql: &str) -> Result<(), Ended> {
        let mut result = self.session.start_simple(sql);
        while result.is_ok() {
            let next = stream.attended(Box::pin(self.session.next_simple())).await?;
            result = match next {
                None => break,
                Some(Ok(response)) => {
                    self.send_notices(stream)?;
                    self.send_response(stream, response, Some(())).await?
                }
                Some(Err(error)) => Err(error),
            };
        }
        if result.is_err() {
            self.session.fail().await;
        }
        self.after_statement(stream)?;
        if let Err(error) = result {
            stream.error(&error)?;
        }
        stream.ready(self.session.transaction_status())?;
        stream.flush().await
    }

    /// Sends a response with its rows; `describe` precedes rows with their description, as the simple
    /// protocol wants it.
    async fn send_response(
        &mut self,
        stream: &mut Stream,
        response: Response,
        describe: Option<()>,
    ) -> Result<SqlResult<()>, Ended> {
        match response {
            Response::Empty => stream.send(Out::EmptyQueryResponse(EmptyQueryResponse::new()))?,
            Response::Command(tag) => stream.send(Out::CommandComplete(CommandComplete::new(tag)))?,
            Response::Rows(mut rows) => {
                if describe.is_some() {
                    stream.send(Out::RowDescription(row_description(&rows.columns, &[])))?;
                }
                return send_rows(stream, &mut rows, &[]).await;
            }
            Response::CopyOut(copy) => return send_copy(stream, copy).await,
            Response::CopyIn(format) => return self.receive_copy(stream, &format).await,
        }
        Ok(Ok(()))
    }

    async fn receive_copy(
        &mut self,
        stream: &mut Stream,
        format: &CopyFormat,
    ) -> Result<SqlResult<()>, Ended> {
        let columns = format.columns as i16;
        let code = i8::from(format.binary);
        let formats = vec![i16::from(code); format.columns];
        stream.send(Out::CopyInResponse(CopyInResponse::new(code, columns, formats)))?;
        stream.flush().await?;
        let mut binary = format.binary.then(|| crate::copy::Reader::new(format.types.clone()));
        loop {
            match stream.receive().await? {
                In::CopyData(data) => {
                    let taken = match &mut binary {
                        None => stream.attended(self.session.copy_data(&data.data)).await?,
                        Some(reader) => match reader.feed(&data.data) {
                            Ok(rows) => stream.attended(self.session.copy_rows(rows)).await?,
                            Err(error) => Err(error),
                        },
                    };
                    if let Err(error) = taken {
                        self.session.copy_fail("bad data");
                        return Ok(Err(error));
                    }
                }
                In::CopyDone(_) => {
                    if let Some(Err(error)) = binary.as_ref().map(crate::copy::Reader::finish) {
                        self.session.copy_fail("bad data");
                        return Ok(Err(error));
                    }
                    return Ok(match stream.attended(self.session.copy_done()).await? {
                        Ok(Response::Command(tag)) => {
                            stream.send(Out::CommandComplete(CommandComplete::new(tag)))?;
                            Ok(())
                        }
                        Ok(_) => Err(SqlError::internal("a copy ends with a command tag")),
                        Err(error) => Err(error),
                    });
                }
                In::CopyFail(fail) => return Ok(Err(self.session.copy_fail(&fail.message))),
                // Clients pipeline these behind the Execute that starts a copy.
                In::Flush(_) | In::Sync(_) => {}
                In::Terminate(_) => return Err(Ended::Gone),
                _ => {
                    self.session.copy_fail("unexpected message");
                    return Ok(Err(SqlError::new(
                        SqlState::PROTOCOL_VIOLATION,
                        "unexpected message type during COPY from stdin",
                    )));
                }
            }
        }
    }

    fn send_notices(&mut self, stream: &mut Stream) -> Result<(), Ended> {
        for notice in self.session.take_notices() {
            stream.send(Out::NoticeResponse(notice_response(&notice)))?;
        }
        Ok(())
    }

    /// Notices and changed settings, before the client goes on.
    fn after_statement(&mut self, stream: &mut Stream) -> Result<(), Ended> {
        self.send_notices(stream)?;
        for (name, value) in self.session.take_changed_parameters() {
            stream.send(Out::ParameterStatus(ParameterStatus::new(name, value)))?;
        }
        Ok(())
    }
}

/// Description of result columns. `formats`: none (all text), one for all, or one per column.
pub fn row_description(columns: &[Column], formats: &[i16]) -> RowDescription {
    let field = |(i, column): (usize, &Column)| {
        let (table, number) = column.origin.unwrap_or((0, 0));
        let size = crate::values::type_size(column.type_oid);
        FieldDescription::new(
            column.name.clone(),
            table as i32,
            number,
            column.type_oid,
            size,
            column.type_modifier,
            format_of(formats, i),
        )
    };
    RowDescription::new(columns.iter().enumerate().map(field).collect())
}

/// The format code of the i-th of several values.
pub fn format_of(formats: &[i16], i: usize) -> i16 {
    match formats {
        [] => 0,
        [all] => *all,
        each => each.get(i).copied().unwrap_or(0),
    }
}

/// Rows taken from a result at once.
const ROWS_AT_ONCE: usize = 256;

async fn send_rows(stream: &mut Stream, rows: &mut Rows, formats: &[i16]) -> Result<SqlResult<()>, Ended> {
    let mut count = 0;
    loop {
        match send_some_rows(stream, rows, formats, ROWS_AT_ONCE).await? {
            Ok(0) => break,
            Ok(n) => count += n as u64,
            Err(error) => return Ok(Err(error)),
        }
    }
    stream.send(Out::CommandComplete(CommandComplete::new(rows.complete(count))))?;
    Ok(Ok(()))
}

/// Sends up to `limit` rows and says how many there were.
pub async fn send_some_rows(
    stream: &mut Stream,
    rows: &mut Rows,
    formats: &[i16],
    limit: usize,
) -> Result<SqlResult<usize>, Ended> {
    let columns = rows.columns.clone();
    let some = match stream.attended(rows.stream.next_rows(limit)).await? {
        Ok(some) => some,
        Err(error) => return Ok(Err(error)),
    };
    for row in &some {
        let mut data = BytesMut::with_capacity(16 * columns.len());
        for (i, (value, column)) in row.iter().zip(columns.iter()).enumerate() {
            crate::values::write_field(&mut data, value, column, format_of(formats, i));
        }
        stream.send(Out::DataRow(DataRow::new(data, columns.len() as i16)))?;
        stream.flush_if_full().await?;
    }
    Ok(Ok(some.len()))
}

async fn send_copy(stream: &mut Stream, mut copy: CopyOut) -> Result<SqlResult<()>, Ended> {
    let columns = copy.format.columns;
    let code = i8::from(copy.format.binary);
    let formats = vec![i16::from(code); columns];
    stream.send(Out::CopyOutResponse(CopyOutResponse::new(code, columns as i16, formats)))?;
    if copy.format.binary {
        // The header comes with the first row, or with the end: drivers look for it there.
        let mut begun = crate::copy::header();
        loop {
            let rows = match stream.attended(copy.next_rows()).await? {
                Ok(rows) if rows.is_empty() => break,
                Ok(rows) => rows,
                Err(error) => return Ok(Err(error)),
            };
            for row in rows {
                let mut data = std::mem::take(&mut begun);
                data.extend_from_slice(&crate::copy::row(&row, copy.columns()));
                stream.send(Out::CopyData(CopyData::new(data.freeze())))?;
                stream.flush_if_full().await?;
            }
        }
        begun.extend_from_slice(&crate::copy::trailer());
        stream.send(Out::CopyData(CopyData::new(begun.freeze())))?;
    }
    while !copy.format.binary {
        let lines = match stream.attended(copy.next_lines()).await? {
            Ok(lines) if lines.is_empty() => break,
            Ok(lines) => lines,
            Err(error) => return Ok(Err(error)),
        };
        for line in lines {
            stream.send(Out::CopyData(CopyData::new(line.into())))?;
            stream.flush_if_full().await?;
        }
    }
    stream.send(Out::CopyDone(CopyDone::new()))?;
    stream.send(Out::CommandComplete(CommandComplete::new(copy.complete())))?;
    Ok(Ok(()))
}

//! One connection: reads messages, runs them, writes answers.
//!
//! KEEPS: an error inside an extended-protocol sequence is told at once and skips everything up to its Sync;
//! what a sequence has done takes effect at its Sync or not at all; a client that goes away while its statement
//! runs takes the statement with it; bytes that are no message end this connection and no other.

use crate::admission::Place;
use crate::errors::notice_response;
use crate::extended::Portals;
use crate::frames::{Ended, Stream};
use crate::messages::Message;
use crate::responses::{row_description, send_copy, send_rows};
use crate::{Registered, Server, auth, copy_in, startup};
use base::error::{SqlError, SqlResult, SqlState};
use futures::FutureExt;
use pgwire::messages::PgWireBackendMessage as Out;
use pgwire::messages::response::{CommandComplete, EmptyQueryResponse, NotificationResponse};
use pgwire::messages::startup::ParameterStatus;
use session::notifications::Notification;
use session::{Deadline, Response, Session, TransactionStatus};
use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::Instant;

/// How long a client that is refused may take to read why.
const FAREWELL: Duration = Duration::from_secs(1);

/// Serves one client from its first byte to its last.
pub async fn run(server: Arc<Server>, socket: TcpStream, peer: SocketAddr) -> io::Result<()> {
    let mut stream = Stream::new(socket, server.limits.message_bytes_max, server.large_inputs.clone());
    let ended = match begin(&server, &mut stream, peer).await {
        Ok(Some(mut conversation)) => conversation.hold(&mut stream).await,
        Ok(None) => Ok(()),
        Err(ended) => Err(ended),
    };
    match ended {
        Ok(()) | Err(Ended::Gone) => Ok(()),
        Err(Ended::Io(e)) => Err(e),
        Err(Ended::Refused(error)) => Err(io::Error::other(error.to_string())),
    }
}

/// From the first byte to the greeting: `None` if the client wanted no session.
async fn begin(
    server: &Arc<Server>,
    stream: &mut Stream,
    peer: SocketAddr,
) -> Result<Option<Conversation>, Ended> {
    let seat = server.admissions.sit(peer.ip());
    let timeout = server.limits.authentication_timeout;
    let late = SqlError::new(SqlState::QUERY_CANCELED, "canceling authentication due to timeout");
    stream.deadline = Some(Deadline { at: Instant::now() + timeout, error: late });
    let welcome = async {
        let settings = server.authenticator.current();
        let Some(wish) = startup::hear(server, &settings, stream).await? else { return Ok(None) };
        server.drain.check_open().map_err(Ended::Refused)?;
        auth::authenticate(server, &settings, stream, &wish, peer).await?;
        let place = server.admit(peer.ip(), &wish.user).map_err(Ended::Refused)?;
        let mut session = startup::open(server, &wish, peer).await.map_err(Ended::Refused)?;
        let (secret, registered) = server.register(session.process_id(), session.cancel_handle());
        startup::greet(stream, &wish, &mut session, secret).await?;
        Ok(Some(Conversation {
            server: server.clone(),
            session,
            portals: Portals::default(),
            is_in_sequence: false,
            skipping: false,
            _place: place,
            _registered: registered,
        }))
    };
    let begun = tokio::select! {
        biased;
        begun = welcome => begun,
        () = seat.taken_away() => Err(Ended::Refused(SqlError::new(
            SqlState::TOO_MANY_CONNECTIONS,
            "sorry, too many clients already",
        ))),
    };
    if let Err(Ended::Refused(error)) = &begun {
        // Closed with input unread the connection would be reset, and the client might never see the reason.
        stream.deadline = Some(Deadline { at: Instant::now() + FAREWELL, error: error.clone() });
        let farewell = async {
            stream.fatal(error)?;
            stream.flush().await?;
            stream.close().await?;
            stream.drain().await;
            Ok::<(), Ended>(())
        };
        tokio::select! {
            _ = farewell => {}
            () = seat.taken_away() => {}
        }
    }
    begun
}

/// A session and its open portals.
struct Conversation {
    server: Arc<Server>,
    session: Session,
    portals: Portals,
    /// Messages of the extended protocol have come, and not their Sync.
    is_in_sequence: bool,
    /// After an error in the extended protocol: everything up to the next Sync is thrown away.
    skipping: bool,
    _place: Place,
    _registered: Registered,
}

impl Conversation {
    /// Talks to the end, and tells the client if it is not the client's.
    async fn hold(&mut self, stream: &mut Stream) -> Result<(), Ended> {
        let talk = AssertUnwindSafe(self.run(stream)).catch_unwind().await;
        // What a panic leaves behind is not to be trusted: the session ends, its transaction with it.
        let has_panicked = talk.is_err();
        let mut ended = talk.unwrap_or_else(|panic| Err(Ended::Refused(sql::panics::error(panic))));
        if let Err(Ended::Refused(error)) = &mut ended {
            if self.session.is_in_doubt() {
                error.detail = Some("The transaction had been sent; its outcome is not known.".into());
            }
            stream.deadline = Some(Deadline { at: Instant::now() + FAREWELL, error: error.clone() });
            // A client that does not listen any more misses it.
            if stream.fatal(error).is_ok() {
                _ = stream.flush().await;
            }
        }
        if !has_panicked {
            self.session.close().await;
        }
        ended
    }

    async fn run(&mut self, stream: &mut Stream) -> Result<(), Ended> {
        loop {
            stream.deadline = self.session.idle_deadline();
            let is_open = self.is_in_sequence || self.session.transaction_status() != TransactionStatus::Idle;
            let mailbox = self.session.mailbox();
            let frame = tokio::select! {
                biased;
                error = mailbox.ended() => return Err(Ended::Refused(error)),
                frame = stream.receive() => frame?,
                () = mailbox.arrived(), if !is_open => {
                    self.send_notifications(stream)?;
                    stream.flush().await?;
                    continue;
                }
                error = self.server.drain.ends(is_open) => return Err(Ended::Refused(error)),
            };
            self.is_in_sequence = frame.is_extended() && frame.kind != b'S';
            if self.skipping && !matches!(frame.kind, b'S' | b'X') {
                continue;
            }
            stream.deadline = self.session.work_deadline();
            let (kind, is_extended) = (frame.kind, frame.is_extended());
            let message = match frame.read() {
                Ok(message) => message,
                // The rest of a copy that failed, whatever is in it.
                Err(_) if matches!(kind, b'd' | b'c' | b'f') => continue,
                Err(error) if is_extended => {
                    self.refuse(stream, &error).await?;
                    continue;
                }
                Err(error) => {
                    self.skipping = false;
                    self.answer(stream, Err(error)).await?;
                    continue;
                }
            };
            match message {
                Message::Terminate => return Ok(()),
                Message::Query(sql) => self.simple(stream, &sql).await?,
                Message::Sync => self.sync(stream).await?,
                Message::Flush => stream.flush().await?,
                // The rest of a copy that failed: the client has not heard of it yet.
                Message::CopyData(_) | Message::CopyDone | Message::CopyFail(_) => {}
                Message::FunctionCall => {
                    let error = SqlError::unsupported("the function call protocol")
                        .hint("Call the function in a SELECT.");
                    self.answer(stream, Err(error)).await?;
                }
                Message::Password => return Err(Ended::violation("unexpected message")),
                message => {
                    if let Err(error) = self.extended(stream, message).await? {
                        self.refuse(stream, &error).await?;
                    }
                    stream.flush_if_full().await?;
                }
            }
        }
    }

    /// An error inside a sequence: the client hears of it at once, and nothing counts before its Sync.
    async fn refuse(&mut self, stream: &mut Stream, error: &SqlError) -> Result<(), Ended> {
        self.session.fail().await;
        self.end_with_session(error)?;
        self.send_notices(stream)?;
        stream.error(error)?;
        self.skipping = true;
        stream.flush().await
    }

    /// A statement that was ended together with its session: the client hears why the session ended.
    fn end_with_session(&self, error: &SqlError) -> Result<(), Ended> {
        match self.session.mailbox().ending() {
            Some(why) if error.state == SqlState::QUERY_CANCELED => Err(Ended::Refused(why)),
            _ => Ok(()),
        }
    }

    /// The end of a sequence, at which it takes effect.
    async fn sync(&mut self, stream: &mut Stream) -> Result<(), Ended> {
        self.skipping = false;
        let synced = stream.attended(Box::pin(self.session.sync())).await?;
        self.portals.end_of_sequence(self.session.transaction_status());
        self.answer(stream, synced).await
    }

    /// Ends what is answered as a whole: an error, if there is one, and that the next message may come.
    async fn answer(&mut self, stream: &mut Stream, result: SqlResult<()>) -> Result<(), Ended> {
        if let Err(error) = &result {
            self.session.fail().await;
            self.end_with_session(error)?;
        }
        self.after_statement(stream)?;
        if let Err(error) = result {
            stream.error(&error)?;
        }
        self.send_notifications(stream)?;
        stream.ready(self.session.rest())?;
        stream.flush().await
    }

    /// One message of the extended protocol. The outer error ends the connection, the inner one the
    /// sequence.
    async fn extended(&mut self, stream: &mut Stream, message: Message) -> Result<SqlResult<()>, Ended> {
        let session = &mut self.session;
        match message {
            Message::Parse { name, sql, types } => {
                self.portals.parse(session, stream, name, &sql, &types).await
            }
            Message::Bind(bind) => self.portals.bind(session, stream, bind),
            Message::Describe(target) => self.portals.describe(session, stream, target),
            Message::Close(target) => self.portals.close(session, stream, target),
            Message::Execute { portal, rows_max } => {
                match self.portals.execute(session, stream, &portal, rows_max).await? {
                    Ok(None) => {
                        self.after_statement(stream)?;
                        Ok(Ok(()))
                    }
                    Ok(Some(response)) => {
                        self.send_notices(stream)?;
                        let sent = self.send_response(stream, response, false).await?;
                        self.after_statement(stream)?;
                        Ok(sent)
                    }
                    Err(error) => Ok(Err(error)),
                }
            }
            _ => Ok(Ok(())),
        }
    }

    async fn simple(&mut self, stream: &mut Stream, sql: &str) -> Result<(), Ended> {
        // What an unfinished sequence before it did, it takes along.
        let mut result = self.session.start_simple(sql);
        let mut is_answered = false;
        while result.is_ok() {
            let next = stream.attended(Box::pin(self.session.next_simple())).await?;
            result = match next {
                None => break,
                Some(Ok(response)) => {
                    is_answered = true;
                    self.send_notices(stream)?;
                    self.send_response(stream, response, true).await?
                }
                Some(Err(error)) => Err(error),
            };
            stream.deadline = self.session.work_deadline();
        }
        if result.is_ok() && !is_answered {
            stream.send(Out::EmptyQueryResponse(EmptyQueryResponse::new()))?;
        }
        self.portals.end_of_sequence(self.session.transaction_status());
        self.answer(stream, result).await
    }

    /// Sends a response with its rows, which the simple protocol wants described before.
    async fn send_response(
        &mut self,
        stream: &mut Stream,
        response: Response,
        describe: bool,
    ) -> Result<SqlResult<()>, Ended> {
        match response {
            Response::Empty => stream.send(Out::EmptyQueryResponse(EmptyQueryResponse::new()))?,
            Response::Command(tag) => stream.send(Out::CommandComplete(CommandComplete::new(tag)))?,
            Response::Rows(mut rows) => {
                if describe {
                    stream.send(Out::RowDescription(row_description(&rows.columns, &[])))?;
                }
                return send_rows(stream, &mut rows, &[], self.session.text_look()).await;
            }
            Response::CopyOut(copy) => return send_copy(stream, copy).await,
            Response::CopyIn(format) => return copy_in::receive(&mut self.session, stream, &format).await,
        }
        Ok(Ok(()))
    }

    fn send_notifications(&mut self, stream: &mut Stream) -> Result<(), Ended> {
        for Notification { process_id, channel, payload } in self.session.take_notifications() {
            let message = NotificationResponse::new(process_id, channel.to_string(), payload.to_string());
            stream.send(Out::NotificationResponse(message))?;
        }
        Ok(())
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

//! COPY FROM STDIN: data from the client until it says that it is done.
//!
//! KEEPS: the copy obeys `statement_timeout` and cancel requests while it waits for data; after an error what
//! the client still sends of it is thrown away by the conversation.

use crate::copy;
use crate::frames::{Ended, Stream};
use crate::messages::{Frame, Message};
use base::error::{SqlError, SqlResult, SqlState};
use pgwire::messages::PgWireBackendMessage as Out;
use pgwire::messages::copy::CopyInResponse;
use pgwire::messages::response::CommandComplete;
use session::{CopyFormat, Response, Session};

/// Takes a copy's data and answers its command tag.
pub async fn receive(
    session: &mut Session,
    stream: &mut Stream,
    format: &CopyFormat,
) -> Result<SqlResult<()>, Ended> {
    let columns = format.columns as i16;
    let code = i8::from(format.binary);
    let formats = vec![i16::from(code); format.columns];
    stream.send(Out::CopyInResponse(CopyInResponse::new(code, columns, formats)))?;
    stream.flush().await?;
    let mut reader = format.binary.then(|| copy::Reader::new(format));
    let deadline = session.statement_deadline();
    loop {
        let frame = tokio::select! {
            biased;
            frame = stream.receive() => frame?,
            error = session.interrupted(deadline) => {
                session.copy_fail("");
                return Ok(Err(error));
            }
        };
        let is_over = match take(session, stream, reader.as_mut(), frame).await? {
            Ok(is_over) => is_over,
            Err(error) => {
                session.copy_fail("");
                return Ok(Err(error));
            }
        };
        if is_over {
            return Ok(Ok(()));
        }
    }
}

/// Takes one frame of a copy; true after its last.
async fn take(
    session: &mut Session,
    stream: &mut Stream,
    reader: Option<&mut copy::Reader>,
    frame: Frame,
) -> Result<SqlResult<bool>, Ended> {
    let message = match frame.read() {
        Ok(message) => message,
        Err(error) => return Ok(Err(error)),
    };
    match message {
        Message::CopyData(data) => {
            let taken = match reader {
                None => stream.attended(session.copy_data(&data)).await?,
                Some(reader) => match reader.feed(&data) {
                    Ok(rows) => stream.attended(session.copy_rows(rows)).await?,
                    Err(error) => Err(error),
                },
            };
            Ok(taken.map(|()| false))
        }
        Message::CopyDone => {
            if let Some(Err(error)) = reader.map(|reader| reader.finish()) {
                return Ok(Err(error));
            }
            Ok(match stream.attended(session.copy_done()).await? {
                Ok(Response::Command(tag)) => {
                    stream.send(Out::CommandComplete(CommandComplete::new(tag)))?;
                    Ok(true)
                }
                Ok(_) => Err(SqlError::internal("a copy ends with a command tag")),
                Err(error) => Err(error),
            })
        }
        Message::CopyFail(reason) => Ok(Err(session.copy_fail(&reason))),
        // Clients pipeline these behind the Execute that starts a copy.
        Message::Flush | Message::Sync => Ok(Ok(false)),
        Message::Terminate => Err(Ended::Gone),
        _ => Ok(Err(SqlError::new(
            SqlState::PROTOCOL_VIOLATION,
            "unexpected message type during COPY from stdin",
        ))),
    }
}

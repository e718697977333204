//! The start of a conversation: encryption refused, parameters agreed, session opened.
//!
//! No authentication yet: whoever can connect is let in under the name it gives, so a server should
//! listen on loopback only.

use crate::connection::{Ended, Stream};
use crate::{Admission, Server};
use base::error::{SqlError, SqlState};
use pgwire::messages::response::{GssEncResponse, SslResponse};
use pgwire::messages::startup::{Authentication, BackendKeyData, ParameterStatus, SecretKey, Startup};
use pgwire::messages::{PgWireBackendMessage as Out, PgWireFrontendMessage as In, SslNegotiationMetaMessage};
use query::Session;
use std::sync::Arc;

/// Settings that every client is told.
const REPORTED: [&str; 11] = [
    "server_version",
    "server_encoding",
    "client_encoding",
    "DateStyle",
    "TimeZone",
    "IntervalStyle",
    "integer_datetimes",
    "standard_conforming_strings",
    "in_hot_standby",
    "is_superuser",
    "application_name",
];

/// Talks until the session is open; `None` if the client only wanted to cancel something.
pub async fn open(
    server: &Arc<Server>,
    admission: &mut Admission,
    stream: &mut Stream,
) -> Result<Option<Session>, Ended> {
    let startup = loop {
        match stream.receive_startup().await? {
            In::SslNegotiation(SslNegotiationMetaMessage::PostgresSsl(_)) => {
                stream.send(Out::SslResponse(SslResponse::Refuse))?;
                stream.flush().await?;
            }
            In::SslNegotiation(SslNegotiationMetaMessage::PostgresGss(_)) => {
                stream.send(Out::GssEncResponse(GssEncResponse::Refuse))?;
                stream.flush().await?;
            }
            In::SslNegotiation(_) => {}
            In::CancelRequest(cancel) => {
                // A connection that only cancels names no protocol version; its key comes as bytes.
                let secret = match &cancel.secret_key {
                    SecretKey::I32(secret) => Some(*secret),
                    SecretKey::Bytes(bytes) => bytes.as_ref().try_into().ok().map(i32::from_be_bytes),
                };
                if let Some(secret) = secret {
                    server.cancel(cancel.pid, secret);
                }
                return Ok(None);
            }
            In::Startup(startup) => break startup,
            _ => return Err(Ended::violation("expected a startup message")),
        }
    };
    let session = accept(server, startup)?;
    greet(admission, stream, session).await.map(Some)
}

fn accept(server: &Arc<Server>, startup: Startup) -> Result<Session, Ended> {
    if startup.protocol_number_major != 3 {
        return Err(Ended::violation(format!(
            "unsupported frontend protocol {}.{}: server supports 3.0",
            startup.protocol_number_major, startup.protocol_number_minor
        )));
    }
    let parameters = startup.parameters;
    let Some(user) = parameters.get("user") else {
        let error = SqlError::new(SqlState(*b"28000"), "no PostgreSQL user name specified in startup packet");
        return Err(Ended::Refused(error));
    };
    let database = parameters.get("database").unwrap_or(user);
    let mut session = Session::new(server.gateway.clone(), user, database);
    for (name, value) in &parameters {
        match name.as_str() {
            "user" | "database" | "replication" => {}
            "options" => {}
            // Protocol extensions that we do not know.
            name if name.starts_with("_pq_.") => {}
            name => session.set_parameter(name, value).map_err(Ended::Refused)?,
        }
    }
    Ok(session)
}

async fn greet(admission: &mut Admission, stream: &mut Stream, session: Session) -> Result<Session, Ended> {
    stream.send(Out::Authentication(Authentication::Ok))?;
    for name in REPORTED {
        if let Some(value) = session.parameter(name) {
            stream.send(Out::ParameterStatus(ParameterStatus::new(name.into(), value)))?;
        }
    }
    let (process, secret) = admission.register(session.cancel_handle());
    stream.send(Out::BackendKeyData(BackendKeyData::new(process, SecretKey::I32(secret))))?;
    stream.ready(session.transaction_status())?;
    stream.flush().await?;
    Ok(session)
}

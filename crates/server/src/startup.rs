//! The start of a conversation: encryption agreed or refused, parameters agreed, session opened.
//!
//! Between the parameters and the session the client proves who it is ([`crate::auth`]). KEEPS: a client that asks for a database that is not there, or for settings that
//! cannot be, is told so and has no session.

use crate::Server;
use crate::admission::Limits;
use crate::auth::Settings;
use crate::frames::{Ended, Stream};
use crate::messages::Opening;
use base::error::{SqlError, SqlResult, SqlState};
use pgwire::messages::PgWireBackendMessage as Out;
use pgwire::messages::response::{GssEncResponse, SslResponse};
use pgwire::messages::startup::{
    Authentication, BackendKeyData, NegotiateProtocolVersion, ParameterStatus, SecretKey,
};
use session::Session;
use std::net::SocketAddr;
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

/// What a client wants, once it has said so.
pub struct Wish {
    pub user: String,
    pub database: String,
    parameters: Vec<(String, String)>,
    /// Minor version of the protocol that it speaks.
    minor: u16,
}

/// Listens until the client has said who it is; `None` if it only wanted to cancel something.
pub async fn hear(
    server: &Arc<Server>,
    settings: &Settings,
    stream: &mut Stream,
) -> Result<Option<Wish>, Ended> {
    let (mut has_asked_ssl, mut has_asked_gss) = (false, false);
    loop {
        match stream.receive_opening().await? {
            Opening::Ssl if !std::mem::replace(&mut has_asked_ssl, true) => match &settings.tls {
                Some(tls) => stream.encrypt(&tls.acceptor).await?,
                None => {
                    stream.send(Out::SslResponse(SslResponse::Refuse))?;
                    stream.flush().await?;
                }
            },
            Opening::Gss if !std::mem::replace(&mut has_asked_gss, true) => {
                stream.send(Out::GssEncResponse(GssEncResponse::Refuse))?;
                stream.flush().await?;
            }
            Opening::Ssl | Opening::Gss => {
                let answered = if stream.is_encrypted() { "agreed" } else { "refused" };
                return Err(Ended::violation(format!("encryption was {answered} already")));
            }
            Opening::Cancel { process, secret } => {
                server.cancel(process, secret);
                return Ok(None);
            }
            Opening::Startup { major, minor, parameters } => {
                return wish(major, minor, parameters).map(Some).map_err(Ended::Refused);
            }
        }
    }
}

fn wish(major: u16, minor: u16, parameters: Vec<(String, String)>) -> SqlResult<Wish> {
    if major != 3 {
        return Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.0"),
        ));
    }
    let given = |name: &str| {
        let mut values = parameters.iter().filter(|(n, v)| n == name && !v.is_empty());
        values.next_back().map(|(_, value)| value.clone())
    };
    let Some(user) = given("user") else {
        return Err(SqlError::new(
            SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
            "no PostgreSQL user name specified in startup packet",
        ));
    };
    // PostgreSQL takes the user's name for the database's.
    let database = given("database").unwrap_or_else(|| user.clone());
    Ok(Wish { user, database, parameters, minor })
}

/// Opens the session that was wished for. Errors: 3D000, 42501, 53300, 55000, and what its settings are refused
/// with.
pub async fn open(server: &Arc<Server>, wish: &Wish, peer: SocketAddr) -> SqlResult<Session> {
    let database = server.gateway.database(&wish.user, &wish.database).await?;
    let mut session = Session::new(server.gateway.clone(), &wish.user, database.id);
    session.came_from(peer);
    tell_limits(&mut session, &server.limits);
    session.begin_with_settings();
    let is_options = |name: &str| name == "options";
    // The command line comes first, so that a parameter of its own prevails.
    for (_, options) in wish.parameters.iter().filter(|(name, _)| is_options(name)) {
        for (name, value) in crate::options::settings(options)? {
            session.set_option(&name, &value)?;
        }
    }
    for (name, value) in &wish.parameters {
        match name.as_str() {
            "user" | "database" => {}
            "replication" if matches!(value.as_str(), "false" | "off" | "no" | "0") => {}
            "replication" => return Err(SqlError::unsupported("a connection for replication")),
            name if is_options(name) => {}
            // Protocol extensions that we do not know: the client is told.
            name if name.starts_with("_pq_.") => {}
            name => session.set_parameter(name, value)?,
        }
    }
    Ok(session)
}

fn tell_limits(session: &mut Session, limits: &Limits) {
    session.tell("max_connections", limits.connections_max.to_string());
    session.tell("superuser_reserved_connections", limits.connections_reserved.to_string());
    session
        .tell("authentication_timeout", session::shown_ms(limits.authentication_timeout.as_millis() as u64));
}

/// Greets the client, which may send statements from now on.
pub async fn greet(
    stream: &mut Stream,
    wish: &Wish,
    session: &mut Session,
    secret: i32,
) -> Result<(), Ended> {
    let unknown: Vec<String> = wish
        .parameters
        .iter()
        .map(|(name, _)| name)
        .filter(|name| name.starts_with("_pq_."))
        .cloned()
        .collect();
    if wish.minor > 0 || !unknown.is_empty() {
        stream.send(Out::NegotiateProtocolVersion(NegotiateProtocolVersion::new(0, unknown)))?;
    }
    stream.send(Out::Authentication(Authentication::Ok))?;
    for name in REPORTED {
        if let Some(value) = session.parameter(name) {
            stream.send(Out::ParameterStatus(ParameterStatus::new(name.into(), value)))?;
        }
    }
    let key = BackendKeyData::new(session.process_id(), SecretKey::I32(secret));
    stream.send(Out::BackendKeyData(key))?;
    for notice in session.take_notices() {
        stream.send(Out::NoticeResponse(crate::errors::notice_response(&notice)))?;
    }
    stream.ready(session.rest())?;
    stream.flush().await
}

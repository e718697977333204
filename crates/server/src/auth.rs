//! Authentication: who a client is, before it has a session.
//!
//! IN: the user and database that a client names, where it comes from, its certificate. OUT: leave to log in, or the
//! error that PostgreSQL gives. KEEPS: a user that does not exist, one without a password, one whose password has
//! ended and a wrong password are told apart by nobody (28P01); rules and certificates are those of the time when
//! the connection began, and may be replaced at any time ([`Authenticator::replace`]).

mod hba;
mod tls;

pub use hba::Rules;
pub use tls::{Tls, TlsFiles};

pub(crate) use hba::{Arrival, Method};
pub(crate) use tls::common_name;

use crate::Server;
use crate::frames::{Ended, Stream};
use crate::startup::Wish;
use base::error::{SqlError, SqlResult, SqlState};
use base::roles::Roles;
use bytes::Bytes;
use pgwire::messages::PgWireBackendMessage as Out;
use pgwire::messages::startup::Authentication as Asked;
use scram::{Exchange, Mechanism, Verifier};
use std::net::SocketAddr;
use std::sync::{Arc, RwLock};

/// Rules and TLS as they hold for connections that begin now.
#[derive(Clone)]
pub struct Settings {
    pub rules: Rules,
    pub tls: Option<Tls>,
}

impl Default for Settings {
    /// Everybody is let in, without TLS.
    fn default() -> Settings {
        Settings { rules: Rules::trust(), tls: None }
    }
}

/// The settings that all front ends of a process share.
#[derive(Default)]
pub struct Authenticator(RwLock<Arc<Settings>>);

impl Authenticator {
    pub fn new(settings: Settings) -> Arc<Authenticator> {
        Arc::new(Authenticator(RwLock::new(Arc::new(settings))))
    }
    /// Settings for connections that begin from now on.
    pub fn replace(&self, settings: Settings) {
        *self.0.write().expect("nobody fails while holding it") = Arc::new(settings);
    }
    pub(crate) fn current(&self) -> Arc<Settings> {
        self.0.read().expect("nobody fails while holding it").clone()
    }
}

/// Bytes of a server's part of a nonce, before they are written as text.
const NONCE_BYTES: usize = 18;

/// Lets a client prove who it is, as the rule for it asks. Errors: 28000, 28P01, 08P01.
pub(crate) async fn authenticate(
    server: &Arc<Server>,
    settings: &Settings,
    stream: &mut Stream,
    wish: &Wish,
    peer: SocketAddr,
) -> Result<(), Ended> {
    // A node that has come back with its records knows no roles at first.
    let is_current = server.gateway.catch_up().await;
    let roles = server.gateway.catalog().roles.clone();
    let arrival = Arrival {
        address: peer.ip(),
        user: &wish.user,
        database: &wish.database,
        is_encrypted: stream.is_encrypted(),
    };
    match settings.rules.method(&arrival, &roles) {
        None => return Err(denied(format!("no pg_hba.conf entry for {arrival}"))),
        Some(Method::Reject) => {
            return Err(denied(format!("pg_hba.conf rejects connection for {arrival}")));
        }
        Some(Method::Trust) => {}
        Some(Method::Certificate) => {
            if stream.common_name().as_deref() != Some(wish.user.as_str()) {
                let user = &wish.user;
                return Err(denied(format!("certificate authentication failed for user \"{user}\"")));
            }
        }
        Some(Method::Scram) => {
            let verifier = verifier(&roles, &wish.user, server.gateway.now_us());
            let endpoint = settings.tls.as_ref().filter(|_| stream.is_encrypted());
            exchange(stream, wish, verifier, endpoint.and_then(|tls| tls.endpoint.as_deref())).await?;
        }
    }
    check_login(&roles, &wish.user, is_current).map_err(Ended::Refused)
}

/// A role that is there and may log in. `is_current`: no role is missing here. Errors: 28000, 57P03.
fn check_login(roles: &Roles, user: &str, is_current: bool) -> SqlResult<()> {
    let refused = |message| Err(SqlError::new(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, message));
    match roles.named(user) {
        None if roles.is_open() && is_current => Ok(()),
        None if !is_current => {
            let told = "the database system is starting up";
            Err(SqlError::new(SqlState::CANNOT_CONNECT_NOW, told)
                .detail(format!(
                    "Other regions do not answer, and without them it is not known whether there is a role \"{user}\"."
                ))
                .hint("Try again in a moment, or look at the other regions' processes."))
        }
        None => refused(format!("role \"{user}\" does not exist")),
        Some(role) if !role.can_login => refused(format!("role \"{user}\" is not permitted to log in")),
        Some(_) => Ok(()),
    }
}

fn denied(message: String) -> Ended {
    Ended::Refused(SqlError::new(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, message))
}

/// What the user's proof is held against; a mock if there is nothing that could be proved.
fn verifier(roles: &Roles, user: &str, now_us: i64) -> Verifier {
    let role = roles.named(user).filter(|role| role.valid_until_us.is_none_or(|end| now_us < end));
    let kept = role.and_then(|role| role.verifier.as_ref()).and_then(|kept| Verifier::parse(&kept.0));
    let secret = roles.mock_secret.as_ref().map_or("", |secret| secret.0.as_str());
    kept.unwrap_or_else(|| Verifier::mock(user, secret.as_bytes()))
}

/// The messages of SCRAM.
async fn exchange(
    stream: &mut Stream,
    wish: &Wish,
    verifier: Verifier,
    endpoint: Option<&[u8]>,
) -> Result<(), Ended> {
    let offered: &[Mechanism] =
        if endpoint.is_some() { &[Mechanism::Plus, Mechanism::Plain] } else { &[Mechanism::Plain] };
    let names = offered.iter().map(|mechanism| mechanism.name().to_string()).collect();
    stream.send(Out::Authentication(Asked::SASL(names)))?;
    stream.flush().await?;
    let (name, first) = initial_response(response(stream).await?).map_err(Ended::Refused)?;
    let mechanism = Mechanism::parse(&name).filter(|chosen| offered.contains(chosen));
    let Some(mechanism) = mechanism else {
        return Err(Ended::violation("client selected an invalid SASL authentication mechanism"));
    };
    let first = match first {
        Some(first) => first,
        // It waits for a challenge before it says anything.
        None => {
            stream.send(Out::Authentication(Asked::SASLContinue(Bytes::new())))?;
            stream.flush().await?;
            response(stream).await?
        }
    };
    let nonce = printable_nonce(&rand::random::<[u8; NONCE_BYTES]>());
    let begun = Exchange::begin(mechanism, &first, verifier, &nonce, endpoint);
    let (challenge, waiting) = begun.map_err(Ended::Refused)?;
    stream.send(Out::Authentication(Asked::SASLContinue(challenge.into())))?;
    stream.flush().await?;
    let last = response(stream).await?;
    match waiting.finish(&last).map_err(Ended::Refused)? {
        Some(proof) => stream.send(Out::Authentication(Asked::SASLFinal(proof.into()))),
        None => Err(Ended::Refused(SqlError::new(
            SqlState::INVALID_PASSWORD,
            format!("password authentication failed for user \"{}\"", wish.user),
        ))),
    }
}

/// The next message, which has to be an answer to what was asked.
async fn response(stream: &mut Stream) -> Result<Bytes, Ended> {
    let frame = stream.receive().await?;
    match frame.kind {
        b'p' => Ok(frame.body),
        b'X' => Err(Ended::Gone),
        kind => Err(Ended::violation(format!("expected SASL response, got message type {kind}"))),
    }
}

/// SASLInitialResponse: the mechanism, and the client's first message if it begins. Errors: 08P01.
fn initial_response(body: Bytes) -> SqlResult<(String, Option<Bytes>)> {
    let wrong = |what: &str| SqlError::new(SqlState::PROTOCOL_VIOLATION, what);
    let end = body.iter().position(|b| *b == 0).ok_or_else(|| wrong("invalid string in message"))?;
    let name = std::str::from_utf8(&body[..end]).map_err(|_| wrong("invalid string in message"))?.to_string();
    let rest = body.slice(end + 1..);
    let length = rest.first_chunk::<4>().ok_or_else(|| wrong("insufficient data left in message"))?;
    let first = rest.slice(4..);
    match i32::from_be_bytes(*length) {
        -1 if first.is_empty() => Ok((name, None)),
        length if usize::try_from(length) == Ok(first.len()) => Ok((name, Some(first))),
        _ => Err(wrong("invalid message format")),
    }
}

/// Printable text of random bytes: two digits for each.
fn printable_nonce(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::roles::{ROOT, Role, RoleChange, RoleId, Secret};

    #[test]
    fn an_initial_response_ends_where_it_says() {
        let read = |body: &[u8]| initial_response(Bytes::copy_from_slice(body));
        let whole = b"SCRAM-SHA-256\0\0\0\0\x02n,";
        assert_eq!(read(whole).unwrap(), ("SCRAM-SHA-256".into(), Some(Bytes::from_static(b"n,"))));
        assert_eq!(read(b"X\0\xff\xff\xff\xff").unwrap(), ("X".into(), None));
        for end in 0..whole.len() {
            assert_eq!(read(&whole[..end]).unwrap_err().state, SqlState::PROTOCOL_VIOLATION, "{end} bytes");
        }
        assert!(read(b"X\0\xff\xff\xff\xfe").is_err() && read(b"\xff\0\0\0\0\0").is_err());
    }

    #[test]
    fn whose_password_has_ended_is_asked_with_a_mock() {
        let mut roles = Roles::default();
        let kept = Verifier::new("secret", b"0123456789abcdef", 4096);
        let role = Role {
            id: RoleId(20_000),
            name: "ann".into(),
            verifier: Some(Secret(kept.text())),
            valid_until_us: Some(100),
            ..roles.roles[&ROOT].clone()
        };
        roles.apply(&RoleChange::Put(role)).unwrap();
        assert_eq!(verifier(&roles, "ann", 99), kept);
        assert_eq!(verifier(&roles, "ann", 100), Verifier::mock("ann", b""));
        assert_eq!(verifier(&roles, "bob", 99), Verifier::mock("bob", b""));
        assert_eq!(check_login(&roles, "bob", true).unwrap_err().message, "role \"bob\" does not exist");
        assert!(check_login(&Roles::default(), "bob", true).is_ok(), "no role was created");
        let unknown = check_login(&Roles::default(), "bob", false).unwrap_err();
        assert_eq!(unknown.state, SqlState::CANNOT_CONNECT_NOW, "it is not known whether one was");
    }
}

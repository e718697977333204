//! The four messages: client-first, server-first, client-final, server-final.

use crate::verifier::{Verifier, mac, sha256};
use base::error::{SqlError, SqlResult, SqlState};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

/// What a client chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// SCRAM-SHA-256.
    Plain,
    /// SCRAM-SHA-256-PLUS: bound to the TLS connection by the server's certificate.
    Plus,
}

impl Mechanism {
    pub fn parse(name: &str) -> Option<Mechanism> {
        match name {
            "SCRAM-SHA-256" => Some(Mechanism::Plain),
            "SCRAM-SHA-256-PLUS" => Some(Mechanism::Plus),
            _ => None,
        }
    }
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Plain => "SCRAM-SHA-256",
            Mechanism::Plus => "SCRAM-SHA-256-PLUS",
        }
    }
}

/// The channel binding that is offered: a hash of the server's certificate.
const BINDING: &str = "tls-server-end-point";

/// An exchange that waits for client-final.
pub struct Exchange {
    verifier: Verifier,
    nonce: String,
    /// The text that client-final has to repeat in `c=`, in base64.
    expected_binding: String,
    /// client-first-bare and server-first, as they were.
    transcript: String,
    is_bound: bool,
}

impl Exchange {
    /// Takes client-first and answers server-first. `endpoint` is the hash of the server's certificate, if there is
    /// TLS; `server_nonce` has to be random and printable. Errors: 08P01, 28000, 0A000.
    pub fn begin(
        mechanism: Mechanism,
        message: &[u8],
        verifier: Verifier,
        server_nonce: &str,
        endpoint: Option<&[u8]>,
    ) -> SqlResult<(String, Exchange)> {
        let text = text_of(message)?;
        let mut fields = text.splitn(3, ',');
        let (flag, identity, bare) = match (fields.next(), fields.next(), fields.next()) {
            (Some(flag), Some(identity), Some(bare)) => (flag, identity, bare),
            _ => return Err(malformed("Comma expected, but found end of message.")),
        };
        check_flag(mechanism, flag, endpoint.is_some())?;
        if identity.starts_with("a=") {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "client uses authorization identity, but it is not supported",
            ));
        }
        if !identity.is_empty() {
            return Err(malformed("Unexpected attribute before the user name."));
        }
        let mut fields = bare.split(',');
        let name = fields.next().unwrap_or_default();
        if name.starts_with("m=") {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "client requires an unsupported SCRAM extension",
            ));
        }
        // The user is the one of the start-up message, as in PostgreSQL.
        name.strip_prefix("n=").ok_or_else(|| malformed("Expected attribute \"n\"."))?;
        let client_nonce = fields
            .next()
            .and_then(|field| field.strip_prefix("r="))
            .ok_or_else(|| malformed("Expected attribute \"r\"."))?;
        if client_nonce.is_empty() || !client_nonce.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(violation("non-printable characters in SCRAM nonce"));
        }
        let is_bound = mechanism == Mechanism::Plus;
        let mut bound = format!("{flag},{identity},").into_bytes();
        if is_bound {
            bound.extend_from_slice(endpoint.unwrap_or_default());
        }
        let nonce = format!("{client_nonce}{server_nonce}");
        let server_first = format!("r={nonce},s={},i={}", BASE64.encode(&verifier.salt), verifier.iterations);
        let transcript = format!("{bare},{server_first}");
        let expected_binding = BASE64.encode(bound);
        Ok((server_first, Exchange { verifier, nonce, expected_binding, transcript, is_bound }))
    }

    /// Takes client-final and answers server-final; `None`: the proof is wrong. Errors: 08P01, 28000.
    pub fn finish(self, message: &[u8]) -> SqlResult<Option<String>> {
        let text = text_of(message)?;
        let (without_proof, proof) =
            text.rsplit_once(",p=").ok_or_else(|| malformed("Expected attribute \"p\"."))?;
        let mut fields = without_proof.split(',');
        let binding = fields
            .next()
            .and_then(|field| field.strip_prefix("c="))
            .ok_or_else(|| malformed("Expected attribute \"c\"."))?;
        if binding != self.expected_binding {
            return Err(if self.is_bound {
                SqlError::new(
                    SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
                    "SCRAM channel binding check failed",
                )
            } else {
                violation("unexpected SCRAM channel-binding attribute in client-final-message")
            });
        }
        let nonce = fields
            .next()
            .and_then(|field| field.strip_prefix("r="))
            .ok_or_else(|| malformed("Expected attribute \"r\"."))?;
        if nonce != self.nonce {
            return Err(violation("invalid SCRAM response").detail("Nonce does not match."));
        }
        let proof = BASE64.decode(proof).ok().and_then(|proof| <[u8; 32]>::try_from(proof).ok());
        let proof = proof.ok_or_else(|| malformed("Malformed proof in client-final-message."))?;
        let said = format!("{},{without_proof}", self.transcript);
        let signature = mac(&self.verifier.stored_key, said.as_bytes());
        let mut client_key = proof;
        client_key.iter_mut().zip(signature).for_each(|(byte, mask)| *byte ^= mask);
        if !is_equal(&sha256(&client_key), &self.verifier.stored_key) || self.verifier.is_mock {
            return Ok(None);
        }
        let proof = mac(&self.verifier.server_key, said.as_bytes());
        Ok(Some(format!("v={}", BASE64.encode(proof))))
    }
}

/// Whether a client's statement about channel binding fits what it chose and what was offered.
fn check_flag(mechanism: Mechanism, flag: &str, is_offered: bool) -> SqlResult<()> {
    match (flag, mechanism) {
        ("n", Mechanism::Plain) => Ok(()),
        ("y", Mechanism::Plain) if !is_offered => Ok(()),
        // Who stands between the two has taken the offer away.
        ("y", Mechanism::Plain) => Err(SqlError::new(
            SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
            "SCRAM channel binding negotiation error",
        )
        .detail(
            "The client supports SCRAM channel binding but thinks the server does not.  However, this server does \
             support channel binding.",
        )),
        ("n" | "y", Mechanism::Plus) => Err(malformed(
            "The client selected SCRAM-SHA-256-PLUS, but the SCRAM message does not include channel binding data.",
        )),
        (flag, mechanism) => match (flag.strip_prefix("p="), mechanism) {
            (Some(_), Mechanism::Plain) => Err(malformed(
                "The client selected SCRAM-SHA-256 without channel binding, but the SCRAM message includes channel \
                 binding data.",
            )),
            (Some(BINDING), Mechanism::Plus) => Ok(()),
            (Some(other), Mechanism::Plus) => {
                Err(violation(format!("unsupported SCRAM channel-binding type \"{other}\"")))
            }
            (None, _) => Err(malformed("Unexpected channel-binding flag.")),
        },
    }
}

fn text_of(message: &[u8]) -> SqlResult<&str> {
    if message.is_empty() {
        return Err(malformed("The message is empty."));
    }
    match std::str::from_utf8(message) {
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => Err(malformed("Message length does not match input length.")),
    }
}

/// Takes the same time wherever the two differ.
fn is_equal(a: &[u8; 32], b: &[u8; 32]) -> bool {
    a.iter().zip(b).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

fn violation(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::PROTOCOL_VIOLATION, message)
}

fn malformed(detail: impl Into<String>) -> SqlError {
    violation("malformed SCRAM message").detail(detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exchange of RFC 7677, section 3.
    const CLIENT_FIRST: &str = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
    const SERVER_NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    const CLIENT_FINAL: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                                p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

    fn verifier() -> Verifier {
        Verifier::new("pencil", &BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap(), 4096)
    }
    fn begin(first: &[u8]) -> SqlResult<(String, Exchange)> {
        Exchange::begin(Mechanism::Plain, first, verifier(), SERVER_NONCE, None)
    }

    #[test]
    fn the_example_of_the_standard() {
        let (first, exchange) = begin(CLIENT_FIRST.as_bytes()).unwrap();
        assert_eq!(first, format!("r=rOprNGfwEbeRWgbNEkqO{SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"));
        let last = exchange.finish(CLIENT_FINAL.as_bytes()).unwrap().unwrap();
        assert_eq!(last, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }

    #[test]
    fn a_wrong_proof_and_a_mock_are_refused_alike() {
        let (_, exchange) = begin(CLIENT_FIRST.as_bytes()).unwrap();
        let wrong = CLIENT_FINAL.replace("p=dH", "p=dI");
        assert_eq!(exchange.finish(wrong.as_bytes()), Ok(None));
        let mock = Verifier::mock("user", b"secret");
        let (first, exchange) =
            Exchange::begin(Mechanism::Plain, CLIENT_FIRST.as_bytes(), mock, SERVER_NONCE, None).unwrap();
        assert!(first.ends_with(",i=4096"));
        assert_eq!(exchange.finish(CLIENT_FINAL.as_bytes()), Ok(None));
    }

    #[test]
    fn odd_messages_are_refused_with_a_reason() {
        let refusal = |first: &[u8]| begin(first).err().map(|e| (e.state, e.message.clone()));
        let said = |state: SqlState, message: &str| Some((state, message.to_string()));
        let malformed = || said(SqlState::PROTOCOL_VIOLATION, "malformed SCRAM message");
        for first in [
            &b""[..],
            b"n",
            b"n,",
            b"n,,",
            b"x,,n=,r=a",
            b"n,b,n=,r=a",
            b"n,,r=a",
            b"n,,n=a",
            b"n,,n=\xff,r=a",
        ] {
            assert_eq!(refusal(first), malformed(), "{first:?}");
        }
        assert_eq!(refusal(b"p=tls-unique,,n=,r=a"), malformed(), "a binding that was not chosen");
        assert_eq!(refusal(b"n,a=root,n=,r=a").unwrap().0, SqlState::FEATURE_NOT_SUPPORTED);
        assert_eq!(refusal(b"n,,m=x,n=,r=a").unwrap().0, SqlState::FEATURE_NOT_SUPPORTED);
        assert_eq!(
            refusal(b"n,,n=,r=a\x07b"),
            said(SqlState::PROTOCOL_VIOLATION, "non-printable characters in SCRAM nonce")
        );
        assert_eq!(refusal(b"y,,n=,r=a"), None, "without TLS there is nothing to bind to");

        let refusal = |last: &str| {
            let (_, exchange) = begin(CLIENT_FIRST.as_bytes()).unwrap();
            exchange.finish(last.as_bytes()).err().map(|e| (e.message.clone(), e.detail.clone()))
        };
        let other_nonce = refusal(&CLIENT_FINAL.replace("r=r", "r=q")).unwrap();
        assert_eq!(other_nonce.1.as_deref(), Some("Nonce does not match."));
        let short = refusal(&CLIENT_FINAL.replace("dHzb", "")).unwrap();
        assert_eq!(short.1.as_deref(), Some("Malformed proof in client-final-message."));
        let other_binding = refusal(&CLIENT_FINAL.replace("biws", "eSws")).unwrap();
        assert_eq!(other_binding.0, "unexpected SCRAM channel-binding attribute in client-final-message");
        for end in 0..CLIENT_FINAL.len() {
            let (_, exchange) = begin(CLIENT_FIRST.as_bytes()).unwrap();
            assert!(exchange.finish(&CLIENT_FINAL.as_bytes()[..end]).is_err(), "{end} bytes");
        }
    }

    #[test]
    fn a_channel_binding_is_the_certificate_s() {
        let begin = |mechanism, first: &[u8]| {
            Exchange::begin(mechanism, first, verifier(), SERVER_NONCE, Some(b"hash"))
        };
        let state = |first: &[u8], mechanism| begin(mechanism, first).err().map(|e| e.state);
        let denied = Some(SqlState::INVALID_AUTHORIZATION_SPECIFICATION);
        assert_eq!(state(b"y,,n=,r=a", Mechanism::Plain), denied, "the offer was taken away on the way");
        assert_eq!(state(b"n,,n=,r=a", Mechanism::Plain), None);
        let violation = Some(SqlState::PROTOCOL_VIOLATION);
        assert_eq!(state(b"n,,n=,r=a", Mechanism::Plus), violation);
        assert_eq!(state(b"p=tls-unique,,n=,r=a", Mechanism::Plus), violation);
        let (_, exchange) = begin(Mechanism::Plus, b"p=tls-server-end-point,,n=,r=a").unwrap();
        let of_another = BASE64.encode(b"p=tls-server-end-point,,hasp");
        let last = format!("c={of_another},r=a{SERVER_NONCE},p={}", BASE64.encode([0; 32]));
        assert_eq!(exchange.finish(last.as_bytes()).err().map(|e| e.state), denied);
        let (_, exchange) = begin(Mechanism::Plus, b"p=tls-server-end-point,,n=,r=a").unwrap();
        let own = BASE64.encode(b"p=tls-server-end-point,,hash");
        let last = format!("c={own},r=a{SERVER_NONCE},p={}", BASE64.encode([0; 32]));
        assert_eq!(exchange.finish(last.as_bytes()), Ok(None), "bound, but without the password");
    }
}

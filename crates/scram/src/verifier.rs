//! What is kept of a password: `SCRAM-SHA-256$<iterations>:<salt>$<stored key>:<server key>`, as PostgreSQL writes it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::{digest, hmac, pbkdf2};
use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU32;

/// Rounds of hashing for a new verifier.
pub const ITERATIONS: u32 = 4096;

/// Bytes of a salt.
const SALT_BYTES: usize = 16;

const MECHANISM: &str = "SCRAM-SHA-256";

/// What proves that a client knows a password, and what proves to it that the server knows the verifier.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    pub(crate) iterations: u32,
    pub(crate) salt: Vec<u8>,
    pub(crate) stored_key: [u8; 32],
    pub(crate) server_key: [u8; 32],
    /// Nobody has this password.
    pub(crate) is_mock: bool,
}

impl Verifier {
    /// The verifier of a password. The salt has to be random.
    pub fn new(password: &str, salt: &[u8], iterations: u32) -> Verifier {
        // A password that cannot be normalised is taken as it is, as PostgreSQL and its clients do.
        let normal = stringprep::saslprep(password).unwrap_or(Cow::Borrowed(password));
        let rounds = NonZeroU32::new(iterations).unwrap_or(NonZeroU32::MIN);
        let mut salted = [0; 32];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, salt, normal.as_bytes(), &mut salted);
        Verifier {
            iterations: rounds.get(),
            salt: salt.to_vec(),
            stored_key: sha256(&mac(&salted, b"Client Key")),
            server_key: mac(&salted, b"Server Key"),
            is_mock: false,
        }
    }

    /// What a user is asked with that does not exist or has no password: always the same salt for one name, which
    /// nobody can tell from a real one without the secret. No proof satisfies it.
    pub fn mock(user: &str, secret: &[u8]) -> Verifier {
        let salt = mac(secret, user.as_bytes())[..SALT_BYTES].to_vec();
        let key = [0; 32];
        Verifier { iterations: ITERATIONS, salt, stored_key: key, server_key: key, is_mock: true }
    }

    /// Reads a verifier as it prints; `None`: it is something else, for instance a password.
    pub fn parse(text: &str) -> Option<Verifier> {
        let (mechanism, rest) = text.split_once('$')?;
        let (head, keys) = rest.split_once('$')?;
        let (iterations, salt) = head.split_once(':')?;
        let (stored, server) = keys.split_once(':')?;
        let key = |text: &str| <[u8; 32]>::try_from(BASE64.decode(text).ok()?).ok();
        let iterations: u32 = iterations.parse().ok().filter(|n| *n > 0)?;
        let salt = BASE64.decode(salt).ok()?;
        (mechanism == MECHANISM).then_some(())?;
        Some(Verifier {
            iterations,
            salt,
            stored_key: key(stored)?,
            server_key: key(server)?,
            is_mock: false,
        })
    }

    /// As it is kept.
    pub fn text(&self) -> String {
        let text = |bytes: &[u8]| BASE64.encode(bytes);
        format!(
            "{MECHANISM}${}:{}${}:{}",
            self.iterations,
            text(&self.salt),
            text(&self.stored_key),
            text(&self.server_key)
        )
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier")
    }
}

pub(crate) fn mac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text);
    tag.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    digest::digest(&digest::SHA256, bytes).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verifier_reads_as_it_prints_and_tells_nothing() {
        let verifier = Verifier::new("pencil", b"0123456789abcdef", ITERATIONS);
        assert_eq!(Verifier::parse(&verifier.text()).as_ref(), Some(&verifier));
        assert_eq!(format!("{verifier:?}"), "Verifier");
        for other in [
            "pencil",
            "SCRAM-SHA-256$4096:c2FsdA==$short:short",
            "SCRAM-SHA-1$4096:c2FsdA==$a:b",
            "SCRAM-SHA-256$0:c2FsdA==$a:b",
            "md5aabbccddeeff00112233445566778899",
        ] {
            assert_eq!(Verifier::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_mock_salt_depends_on_the_name_and_the_secret() {
        let salt = |user: &str, secret: &[u8]| Verifier::mock(user, secret).salt;
        assert_eq!(salt("a", b"s"), salt("a", b"s"));
        assert_ne!(salt("a", b"s"), salt("b", b"s"));
        assert_ne!(salt("a", b"s"), salt("a", b"t"));
        assert_eq!(salt("a", b"s").len(), SALT_BYTES);
    }
}

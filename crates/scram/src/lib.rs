//! SCRAM-SHA-256 (RFC 5802, RFC 7677) as a server speaks it, and the verifiers that are kept instead of passwords.
//!
//! IN: a client's messages; salts, nonces and the hash of the server's certificate are arguments. OUT: the
//! server's messages, or the error that PostgreSQL gives. KEEPS: a verifier does not tell the password, and does not
//! print; what a client is told before its proof was checked is the same whether its user exists or not.
//!
//! `pgwire` has an exchange too, which keeps the salted password and not PostgreSQL's verifier, takes a channel
//! binding without a certificate, and answers an unknown user otherwise than a wrong password.

mod exchange;
mod verifier;

pub use exchange::{Exchange, Mechanism};
pub use verifier::{ITERATIONS, Verifier};

//! How long a text may be that an operation makes of values.
//!
//! KEEPS: what an operation gets is within the bound, so that what it makes takes a small multiple of the bound before it
//! is looked at. Texts of arrays and of JSON double with each level at which they are quoted: without a look at every
//! level, forty levels are a terabyte.

use crate::error::{SqlError, SqlResult, SqlState};

/// Longest text that an expression over a row makes, in bytes: what is stored has at most half of it.
pub(crate) const TEXT_BYTES_MAX: usize = 32 << 20;

/// Errors: so many bytes are too long (54000).
pub(crate) fn check(bytes: usize) -> SqlResult<()> {
    if bytes <= TEXT_BYTES_MAX {
        return Ok(());
    }
    Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "requested length too large")
        .detail(format!("An expression over a row makes a text of at most {TEXT_BYTES_MAX} bytes.")))
}

//! Bytes that have to be text: UTF-8 without NUL, as PostgreSQL takes it.

use crate::error::{SqlError, SqlResult, SqlState};

/// The text that bytes hold. Errors: 22021 with the bytes that are none.
pub fn text(bytes: &[u8]) -> SqlResult<&str> {
    let text = std::str::from_utf8(bytes).map_err(|e| invalid(&bytes[e.valid_up_to()..]))?;
    match bytes.iter().position(|b| *b == 0) {
        Some(at) => Err(invalid(&bytes[at..])),
        None => Ok(text),
    }
}

/// The error about bytes that begin no character. PostgreSQL shows as many as the first one announces.
fn invalid(bytes: &[u8]) -> SqlError {
    let announced = match bytes.first() {
        Some(0xc0..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf7) => 4,
        _ => 1,
    };
    let shown: Vec<String> = bytes.iter().take(announced).map(|b| format!("0x{b:02x}")).collect();
    SqlError::new(
        SqlState::CHARACTER_NOT_IN_REPERTOIRE,
        format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" ")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_named() {
        assert_eq!(text("gä".as_bytes()).unwrap(), "gä");
        for (bytes, shown) in [
            (&b"a\xff\xfeb"[..], "0xff"),
            (b"a\0b", "0x00"),
            (b"\xe4bc", "0xe4 0x62 0x63"),
            (b"\xc3", "0xc3"),
        ] {
            let error = text(bytes).unwrap_err();
            assert_eq!(error.state, SqlState::CHARACTER_NOT_IN_REPERTOIRE);
            assert!(error.message.ends_with(&format!(": {shown}")), "{}", error.message);
        }
    }
}

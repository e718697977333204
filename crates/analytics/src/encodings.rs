//! Byte strings as texts: `encode` and `decode` with `hex`, `base64` and `escape`, as PostgreSQL writes and reads them, and
//! `convert_to` and `convert_from`.

use super::bytes_functions::{bytes_of, made};
use super::rowwise::{Cell, Returns};
use super::small_functions::{Small, text_of};
use base::error::SqlResult;
use base::text::encoding;
use base::{DataType, Datum, SqlError, SqlState};
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::{ScalarUDF, Signature, Volatility};

/// Characters in a line of `base64`.
const LINE: usize = 76;
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Makes the functions known, in the place of the library's: those write `base64` in one line, and no `escape`.
pub(super) fn install(context: &SessionContext) {
    let signature = Signature::any(2, Volatility::Immutable);
    let encode = Small {
        name: "encode",
        signature: signature.clone(),
        returns: Returns::Plain(DataType::Text),
        is_strict: true,
        compute: |cells| {
            let text = match (&cells[0], form_of(&cells[1])?.as_str()) {
                (Cell::Plain(Datum::Bytes(bytes)), "hex") => hex(bytes),
                (Cell::Plain(Datum::Bytes(bytes)), "base64") => base64(bytes),
                (Cell::Plain(Datum::Bytes(bytes)), "escape") => escaped(bytes),
                (Cell::Plain(Datum::Bytes(_)), form) => return Err(unknown_form(form)),
                _ => return Err(no_such("encode")),
            };
            Ok(Cell::Plain(Datum::text(text)))
        },
    };
    let decode = Small {
        name: "decode",
        signature,
        returns: Returns::Plain(DataType::Bytea),
        is_strict: true,
        compute: |cells| {
            let Cell::Plain(Datum::Text(text)) = &cells[0] else {
                return Err(no_such("decode"));
            };
            let bytes = match form_of(&cells[1])?.as_str() {
                "hex" => of_hex(text)?,
                "base64" => of_base64(text)?,
                "escape" => of_escaped(text)?,
                form => return Err(unknown_form(form)),
            };
            Ok(Cell::Plain(Datum::Bytes(bytes.into())))
        },
    };
    context.register_udf(ScalarUDF::new_from_impl(encode));
    context.register_udf(ScalarUDF::new_from_impl(decode));
    let converted: [(&'static str, DataType, fn(&[Cell]) -> SqlResult<Cell>); 2] = [
        ("convert_to", DataType::Bytea, |cells| {
            is_unicode(&form_of(&cells[1])?, "destination")?;
            made(text_of(&cells[0])?.unwrap_or_default().as_bytes())
        }),
        ("convert_from", DataType::Text, |cells| {
            is_unicode(&form_of(&cells[1])?, "source")?;
            Ok(Cell::Plain(Datum::text(encoding::text(bytes_of(&cells[0])?)?)))
        }),
    ];
    for (name, returns, compute) in converted {
        let signature = Signature::any(2, Volatility::Immutable);
        let function = Small { name, signature, returns: Returns::Plain(returns), is_strict: true, compute };
        context.register_udf(ScalarUDF::new_from_impl(function));
    }
}

/// Errors: 22023 for what is no encoding, 0A000 for any but UTF-8.
fn is_unicode(name: &str, which: &str) -> SqlResult<()> {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    match plain.as_str() {
        "utf8" | "unicode" => Ok(()),
        "latin1" | "iso88591" | "sqlascii" | "win1252" => {
            Err(SqlError::unsupported(format!("encoding {name}")).hint("Text is UTF-8."))
        }
        _ => Err(wrong(format!("invalid {which} encoding name \"{name}\""))),
    }
}

fn wrong(told: String) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, told)
}

fn no_such(function: &str) -> SqlError {
    let told = format!("function {function} does not exist for arguments of these types");
    SqlError::new(SqlState::UNDEFINED_FUNCTION, told).hint(
        "No function matches the given name and argument types. You might need to add explicit type casts.",
    )
}

fn unknown_form(form: &str) -> SqlError {
    wrong(format!("unrecognized encoding: \"{form}\"")).hint("There are hex, base64 and escape.")
}

fn form_of(cell: &Cell) -> SqlResult<String> {
    match cell {
        Cell::Plain(Datum::Text(form)) => Ok(form.to_ascii_lowercase()),
        _ => Err(wrong("an encoding is a text".into())),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn base64(bytes: &[u8]) -> String {
    let mut made = String::with_capacity(bytes.len().div_ceil(3) * 4 + bytes.len() / 57);
    for (nth, three) in bytes.chunks(3).enumerate() {
        let at = |n: usize| u32::from(three.get(n).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            let index = (bits >> (18 - 6 * digit)) as usize & 63;
            made.push(if digit <= three.len() { char::from(DIGITS[index]) } else { '=' });
        }
        // A line that is full ends, even if it is the last one, but for one that is filled up with `=`.
        if (nth + 1) * 4 % LINE == 0 && three.len() == 3 {
            made.push('\n');
        }
    }
    made
}

/// Zero bytes, those beyond ASCII and the backslash in three octal digits or doubled; others as they are.
fn escaped(bytes: &[u8]) -> String {
    let mut made = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'\\' => made.push_str("\\\\"),
            1..=127 => made.push(char::from(byte)),
            byte => made.push_str(&format!("\\{byte:03o}")),
        }
    }
    made
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

/// Errors: 22023.
fn of_hex(text: &str) -> SqlResult<Vec<u8>> {
    let mut halves = Vec::with_capacity(text.len());
    for c in text.chars().filter(|c| !is_blank(*c)) {
        let half = c.to_digit(16).ok_or_else(|| wrong(format!("invalid hexadecimal digit: \"{c}\"")))?;
        halves.push(half as u8);
    }
    if halves.len() % 2 > 0 {
        return Err(wrong("invalid hexadecimal data: odd number of digits".into()));
    }
    Ok(halves.chunks(2).map(|two| two[0] << 4 | two[1]).collect())
}

/// Errors: 22023.
fn of_base64(text: &str) -> SqlResult<Vec<u8>> {
    let (mut made, mut bits, mut count, mut ends) = (Vec::with_capacity(text.len() / 4 * 3), 0_u32, 0, 0);
    for c in text.chars().filter(|c| !is_blank(*c)) {
        if c == '=' {
            ends += 1;
            if count + ends < 3 || count + ends > 4 {
                return Err(wrong("unexpected \"=\" while decoding base64 sequence".into()));
            }
            continue;
        }
        let digit = DIGITS.iter().position(|digit| char::from(*digit) == c).filter(|_| ends == 0);
        let digit = digit
            .ok_or_else(|| wrong(format!("invalid symbol \"{c}\" found while decoding base64 sequence")))?;
        bits = bits << 6 | digit as u32;
        count += 1;
        if count == 4 {
            made.extend_from_slice(&bits.to_be_bytes()[1..]);
            (bits, count) = (0, 0);
        }
    }
    if (count + ends) % 4 > 0 {
        return Err(wrong("invalid base64 end sequence".into())
            .hint("Input data is missing padding, is truncated, or is otherwise corrupted."));
    }
    if ends > 0 {
        let bytes = (bits << (6 * ends)).to_be_bytes();
        made.extend_from_slice(&bytes[1..4 - ends]);
    }
    Ok(made)
}

/// Errors: 22P02.
fn of_escaped(text: &str) -> SqlResult<Vec<u8>> {
    let bytes = text.as_bytes();
    let (mut made, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        let octal = |n: usize, to: u8| bytes.get(at + n).copied().filter(|b| (b'0'..=to).contains(b));
        match (bytes[at], bytes.get(at + 1)) {
            (b'\\', Some(b'\\')) => {
                made.push(b'\\');
                at += 2;
            }
            (b'\\', _) => {
                let (Some(a), Some(b), Some(c)) = (octal(1, b'3'), octal(2, b'7'), octal(3, b'7')) else {
                    let told = "invalid input syntax for type bytea";
                    return Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, told));
                };
                made.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                at += 4;
            }
            (byte, _) => {
                made.push(byte);
                at += 1;
            }
        }
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        for length in [0, 1, 2, 3, 56, 57, 58, 200] {
            let bytes: Vec<u8> = (0..length).map(|n| (n * 37 % 256) as u8).collect();
            assert_eq!(of_hex(&hex(&bytes)).unwrap(), bytes);
            assert_eq!(of_base64(&base64(&bytes)).unwrap(), bytes);
            assert_eq!(of_escaped(&escaped(&bytes)).unwrap(), bytes);
            assert!(base64(&bytes).lines().all(|line| line.len() <= LINE));
        }
        assert_eq!(base64(b"123"), "MTIz");
        assert_eq!(base64(b"1"), "MQ==");
        assert_eq!((base64(&[0; 56]).len(), base64(&[0; 57]).len()), (LINE, LINE + 1));
        assert_eq!(escaped(&[0, b'a', b'\\', 200]), "\\000a\\\\\\310");
    }

    #[test]
    fn what_is_no_encoding_is_refused() {
        for text in ["MQ=", "M", "M===", "MQ==MQ==", "=", "M!"] {
            assert!(of_base64(text).is_err(), "{text}");
        }
        assert!(of_hex("abc").is_err());
        assert!(of_hex("0g").is_err());
        assert!(of_escaped("\\400").is_err());
        assert!(of_escaped("\\").is_err());
    }
}

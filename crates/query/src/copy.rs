//! The text forms of COPY.

use crate::response::CopyFormat;

/// Appends one line; `None` is null.
pub(crate) fn write_line(
    out: &mut Vec<u8>,
    format: &CopyFormat,
    fields: impl Iterator<Item = Option<String>>,
) {
    for (i, field) in fields.enumerate() {
        if i > 0 {
            out.push(format.delimiter);
        }
        match field {
            None => out.extend_from_slice(format.null.as_bytes()),
            Some(text) if format.csv => write_csv(out, format, &text),
            Some(text) => write_text(out, format, &text),
        }
    }
    out.push(b'\n');
}

fn write_csv(out: &mut Vec<u8>, format: &CopyFormat, text: &str) {
    let special = |b: u8| b == format.delimiter || b == format.quote || b == b'\n' || b == b'\r';
    // An unquoted null string would read back as null, and `\.` as the end.
    if text == format.null || text == "\\." || text.bytes().any(special) {
        out.push(format.quote);
        for b in text.bytes() {
            if b == format.quote || b == format.escape {
                out.push(format.escape);
            }
            out.push(b);
        }
        out.push(format.quote);
    } else {
        out.extend_from_slice(text.as_bytes());
    }
}

fn write_text(out: &mut Vec<u8>, format: &CopyFormat, text: &str) {
    for b in text.bytes() {
        let escaped = match b {
            b'\\' => b'\\',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            8 => b'b',
            11 => b'v',
            12 => b'f',
            b if b == format.delimiter => b,
            b => {
                out.push(b);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', escaped]);
    }
}

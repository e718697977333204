//! The text forms of COPY.

use crate::response::CopyFormat;
use base::SqlError;
use base::error::{SqlResult, SqlState};
use base::text::encoding;
use bytes::{BufMut, BytesMut};
use std::cmp::Ordering;
use wire::RowWriter;

/// Appends a row as a line.
pub(crate) fn write_line(
    out: &mut BytesMut,
    format: &CopyFormat,
    rows: &RowWriter<'_>,
    row: usize,
) -> SqlResult<()> {
    for column in 0..rows.width() {
        if column > 0 {
            out.put_u8(format.delimiter);
        }
        if rows.is_null(row, column) {
            out.put_slice(format.null.as_bytes());
            continue;
        }
        let start = out.len();
        rows.put(out, row, column)?;
        escape(out, start, format);
    }
    out.put_u8(b'\n');
    Ok(())
}

/// Appends the line of names before the rows.
pub(crate) fn write_header<'a>(
    out: &mut BytesMut,
    format: &CopyFormat,
    names: impl Iterator<Item = &'a str>,
) {
    for (i, name) in names.enumerate() {
        if i > 0 {
            out.put_u8(format.delimiter);
        }
        let start = out.len();
        out.put_slice(name.as_bytes());
        escape(out, start, format);
    }
    out.put_u8(b'\n');
}

/// Escapes or quotes the field that was written from somewhere on, if it could be misread.
fn escape(out: &mut BytesMut, start: usize, format: &CopyFormat) {
    let field = &out[start..];
    if format.csv {
        let special = |b: &u8| *b == format.delimiter || *b == format.quote || matches!(*b, b'\n' | b'\r');
        // An unquoted null string would read back as null, and `\.` as the end.
        let is_odd = field == format.null.as_bytes() || field == b"\\." || field.iter().any(special);
        if is_odd {
            let field = field.to_vec();
            out.truncate(start);
            quote(out, format, &field);
        }
    } else if field.iter().any(|b| escaped(*b, format).is_some()) {
        let field = field.to_vec();
        out.truncate(start);
        for b in field {
            match escaped(b, format) {
                Some(escaped) => out.put_slice(&[b'\\', escaped]),
                None => out.put_u8(b),
            }
        }
    }
}

fn quote(out: &mut BytesMut, format: &CopyFormat, field: &[u8]) {
    out.put_u8(format.quote);
    for &b in field {
        if b == format.quote || b == format.escape {
            out.put_u8(format.escape);
        }
        out.put_u8(b);
    }
    out.put_u8(format.quote);
}

/// What stands behind a backslash for a byte of text, if it cannot stand for itself.
fn escaped(b: u8, format: &CopyFormat) -> Option<u8> {
    match b {
        b'\\' => Some(b'\\'),
        b'\n' => Some(b'n'),
        b'\r' => Some(b'r'),
        b'\t' => Some(b't'),
        8 => Some(b'b'),
        11 => Some(b'v'),
        12 => Some(b'f'),
        b if b == format.delimiter => Some(b),
        _ => None,
    }
}

/// Cuts arriving bytes into records.
pub(crate) struct Records {
    format: CopyFormat,
    rest: Vec<u8>,
    /// Bytes of `rest` that were looked at, and whether they end inside quotes.
    scanned: usize,
    is_quoted: bool,
    /// They end with an escape that is no quote, which makes the quote behind it data.
    is_after_escape: bool,
    /// Lines seen, for messages.
    pub line: u64,
    skip_header: bool,
    /// Whether lines end with a carriage return too, as the first one says.
    has_returns: Option<bool>,
    /// `\.` was read.
    has_ended: bool,
}

/// One record's fields; `None` is null.
pub(crate) type Record = Vec<Option<String>>;

/// Longest record, in bytes.
const RECORD_BYTES_MAX: usize = 64 << 20;

impl Records {
    pub fn new(format: CopyFormat) -> Records {
        let skip_header = format.header;
        Records {
            format,
            rest: Vec::new(),
            scanned: 0,
            is_quoted: false,
            is_after_escape: false,
            line: 0,
            skip_header,
            has_returns: None,
            has_ended: false,
        }
    }

    /// Takes bytes and hands on complete records.
    pub fn feed(&mut self, data: &[u8], take: &mut impl FnMut(Record) -> SqlResult<()>) -> SqlResult<()> {
        self.rest.extend_from_slice(data);
        let rest = std::mem::take(&mut self.rest);
        let mut start = 0;
        let mut at = self.scanned;
        while at < rest.len() {
            let b = rest[at];
            if self.format.csv {
                self.note_quotes(b);
            }
            if b == b'\n' && !self.is_quoted && (self.format.csv || !is_escaped(&rest[start..at])) {
                self.record(&rest[start..at], true, take)?;
                start = at + 1;
            }
            at += 1;
        }
        self.rest = rest[start..].to_vec();
        self.scanned = self.rest.len();
        if self.rest.len() > RECORD_BYTES_MAX {
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "a COPY record is too long")
                .detail(format!("The limit is {RECORD_BYTES_MAX} bytes.")));
        }
        Ok(())
    }

    /// Whether the next byte of CSV stands inside quotes.
    fn note_quotes(&mut self, b: u8) {
        let (quote, escape) = (self.format.quote, self.format.escape);
        // A doubled quote toggles twice.
        let is_escape = b == escape && escape != quote;
        self.is_quoted ^= b == quote && !self.is_after_escape;
        // An escape that is escaped itself is data.
        self.is_after_escape = is_escape && self.is_quoted && !self.is_after_escape;
    }

    /// The last record, which may come without its line end.
    pub fn finish(&mut self, take: &mut impl FnMut(Record) -> SqlResult<()>) -> SqlResult<()> {
        if self.is_quoted {
            self.line += 1;
            let error = SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, "unterminated CSV quoted field");
            return Err(self.at(error, &self.rest));
        }
        let rest = std::mem::take(&mut self.rest);
        self.scanned = 0;
        if rest.is_empty() { Ok(()) } else { self.record(&rest, false, take) }
    }

    /// `is_ended`: a newline stands behind it.
    fn record(
        &mut self,
        line: &[u8],
        is_ended: bool,
        take: &mut impl FnMut(Record) -> SqlResult<()>,
    ) -> SqlResult<()> {
        if self.has_ended {
            return Ok(());
        }
        let without = line.strip_suffix(b"\r");
        let has_returns = *self.has_returns.get_or_insert(without.is_some());
        let is_mixed = is_ended && has_returns && without.is_none() && line != b"\\.";
        // Where lines end otherwise it is data, and found there.
        let line = without.filter(|_| has_returns || !is_ended).unwrap_or(line);
        if line == b"\\." {
            self.has_ended = true;
            return Ok(());
        }
        self.line += 1;
        if is_mixed {
            return Err(self.at(self.end_in_data("newline"), b""));
        }
        if std::mem::take(&mut self.skip_header) {
            return Ok(());
        }
        let fields = if self.format.csv { self.csv_fields(line) } else { self.text_fields(line) };
        let fields = fields.and_then(|fields| self.counted(fields));
        let result = fields.and_then(take).map_err(|e| self.at(e, line));
        if self.format.csv {
            // A quoted field may span lines.
            self.line += line.iter().filter(|b| **b == b'\n').count() as u64;
        }
        result
    }

    /// The error with the line it happened in, and the column if it says so.
    fn at(&self, mut error: SqlError, line: &[u8]) -> SqlError {
        let place = match (error.context.take(), encoding::text(line)) {
            (Some(column), _) => format!(", {column}"),
            (None, Ok(line)) => format!(": \"{}\"", shown(line)),
            (None, Err(_)) => String::new(),
        };
        error.context(format!("COPY {}, line {}{place}", self.format.table, self.line))
    }

    fn counted(&self, fields: Record) -> SqlResult<Record> {
        let message = match fields.len().cmp(&self.format.columns) {
            Ordering::Equal => return Ok(fields),
            Ordering::Less => match self.format.names.get(fields.len()) {
                Some(name) => format!("missing data for column \"{name}\""),
                None => "missing data for a column".into(),
            },
            Ordering::Greater => "extra data after last expected column".into(),
        };
        Err(SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message))
    }

    /// What ends lines, where the lines before end otherwise.
    fn end_in_data(&self, what: &str) -> SqlError {
        let (how, hint) = match self.format.csv {
            true => ("unquoted", format!("Use quoted CSV field to represent {what}.")),
            false => {
                let written = if what == "newline" { "\\n" } else { "\\r" };
                ("literal", format!("Use \"{written}\" to represent {what}."))
            }
        };
        SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, format!("{how} {what} found in data")).hint(hint)
    }

    fn text_fields(&self, line: &[u8]) -> SqlResult<Record> {
        let mut fields = Vec::with_capacity(self.format.columns);
        let mut start = 0;
        for at in 0..=line.len() {
            let is_end =
                at == line.len() || (line[at] == self.format.delimiter && !is_escaped(&line[start..at]));
            if !is_end {
                if line[at] == b'\r' && !is_escaped(&line[start..at]) {
                    return Err(self.end_in_data("carriage return"));
                }
                continue;
            }
            let raw = &line[start..at];
            start = at + 1;
            fields.push(match raw == self.format.null.as_bytes() {
                true => None,
                false => Some(utf8(unescape(raw))?),
            });
        }
        Ok(fields)
    }

    fn csv_fields(&self, line: &[u8]) -> SqlResult<Record> {
        let mut fields = Vec::with_capacity(self.format.columns);
        let mut field = Vec::new();
        let (mut is_quoted, mut was_quoted) = (false, false);
        let mut at = 0;
        loop {
            let byte = line.get(at).copied();
            match byte {
                Some(b) if is_quoted => {
                    let next = line.get(at + 1).copied();
                    if b == self.format.escape
                        && next.is_some_and(|n| n == self.format.quote || n == self.format.escape)
                    {
                        field.push(next.expect("just seen"));
                        at += 1;
                    } else if b == self.format.quote {
                        is_quoted = false;
                    } else {
                        field.push(b);
                    }
                }
                Some(b) if b == self.format.quote => {
                    is_quoted = true;
                    was_quoted = true;
                }
                Some(b'\r') => return Err(self.end_in_data("carriage return")),
                Some(b) if b != self.format.delimiter => field.push(b),
                end_or_delimiter => {
                    let raw = std::mem::take(&mut field);
                    let is_null = !was_quoted && raw == self.format.null.as_bytes();
                    fields.push(if is_null { None } else { Some(utf8(raw)?) });
                    was_quoted = false;
                    if end_or_delimiter.is_none() {
                        return Ok(fields);
                    }
                }
            }
            at += 1;
        }
    }
}

/// Whether what follows these bytes is escaped: an odd number of backslashes stands before it.
fn is_escaped(before: &[u8]) -> bool {
    before.iter().rev().take_while(|b| **b == b'\\').count() % 2 == 1
}

fn utf8(bytes: Vec<u8>) -> SqlResult<String> {
    encoding::text(&bytes).map(str::to_string)
}

/// Data as messages show it: no more of it than a line holds.
pub(crate) fn shown(text: &str) -> String {
    match text.char_indices().nth(100) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.into(),
    }
}

fn unescape(raw: &[u8]) -> Vec<u8> {
    if !raw.contains(&b'\\') {
        return raw.to_vec();
    }
    let mut out = Vec::with_capacity(raw.len());
    let mut at = 0;
    while at < raw.len() {
        if raw[at] != b'\\' || at + 1 == raw.len() {
            out.push(raw[at]);
            at += 1;
            continue;
        }
        at += 1;
        let digits = |radix: u32, max: usize, from: usize| {
            let digit = |b: &&u8| char::from(**b).is_digit(radix);
            raw[from.min(raw.len())..].iter().take(max).take_while(digit).count()
        };
        let number = |from: usize, count: usize, radix: u32| {
            let text = String::from_utf8_lossy(&raw[from..from + count]);
            u32::from_str_radix(&text, radix).unwrap_or(0) as u8
        };
        match raw[at] {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'v' => out.push(11),
            b'0'..=b'7' => {
                let count = digits(8, 3, at);
                out.push(number(at, count, 8));
                at += count;
                continue;
            }
            b'x' if digits(16, 2, at + 1) > 0 => {
                let count = digits(16, 2, at + 1);
                out.push(number(at + 1, count, 16));
                at += 1 + count;
                continue;
            }
            other => out.push(other),
        }
        at += 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{DataType, Datum};
    use sql::types::Column;

    fn format(csv: bool) -> CopyFormat {
        CopyFormat {
            csv,
            delimiter: if csv { b',' } else { b'\t' },
            quote: b'"',
            escape: b'"',
            null: if csv { String::new() } else { "\\N".into() },
            header: false,
            columns: 3,
            binary: false,
            types: Vec::new(),
            table: "t".into(),
            names: ["a", "b", "c"].map(String::from).to_vec(),
        }
    }

    #[test]
    fn what_is_written_reads_back_however_it_is_cut() {
        let rows: Vec<Record> = vec![
            vec![Some("plain".into()), None, Some("".into())],
            vec![Some("tab\tnew\nline\\back".into()), Some("\"quoted\", comma".into()), Some("\\N".into())],
            vec![Some("\\.".into()), Some("é\r".into()), Some(" x ".into())],
        ];
        for csv in [false, true] {
            let mut bytes = BytesMut::new();
            let value = |field: &Option<String>| field.as_ref().map_or(Datum::Null, Datum::text);
            let values = rows.iter().map(|row| row.iter().map(value).collect()).collect();
            let columns: Vec<_> = ["a", "b", "c"].map(|name| Column::new(name, DataType::Text)).into();
            let portion = wire::Portion::Values(values);
            let writer = portion.writer(&columns, &[], wire::Look::default()).unwrap();
            (0..rows.len()).for_each(|row| write_line(&mut bytes, &format(csv), &writer, row).unwrap());
            for piece in [1, 2, 7, bytes.len()] {
                let mut records = Records::new(format(csv));
                let mut read = Vec::new();
                let mut take = |record| {
                    read.push(record);
                    Ok(())
                };
                for part in bytes.chunks(piece) {
                    records.feed(part, &mut take).unwrap();
                }
                records.finish(&mut take).unwrap();
                assert_eq!(read, rows, "csv {csv}, pieces of {piece}");
            }
        }
    }

    #[test]
    fn lines_end_as_the_first_one_does() {
        let read = |csv: bool, text: &str| {
            let mut records = Records::new(CopyFormat { columns: 1, ..format(csv) });
            let mut read = Vec::new();
            let mut take = |record: Record| {
                read.extend(record.into_iter().flatten());
                Ok(())
            };
            let fed = records.feed(text.as_bytes(), &mut take).and_then(|()| records.finish(&mut take));
            fed.map_err(|e| (e.state, e.message.clone())).map(|()| read)
        };
        let mixed = |what: &str| Err((SqlState::BAD_COPY_FILE_FORMAT, format!("{what} found in data")));
        let rows = |rows: &[&str]| Ok(rows.iter().map(|row| row.to_string()).collect::<Vec<_>>());
        assert_eq!(read(false, "a\r\nb\r\nc"), rows(&["a", "b", "c"]));
        assert_eq!(read(false, "a\nb\r\n"), mixed("literal carriage return"));
        assert_eq!(read(false, "a\r\nb\n"), mixed("literal newline"));
        assert_eq!(read(false, "a\nb\rc\n"), mixed("literal carriage return"));
        assert_eq!(read(false, "a\\\rb\n"), rows(&["a\rb"]));
        assert_eq!(read(true, "a\n\"b\r\"\n"), rows(&["a", "b\r"]));
        assert_eq!(read(true, "a\nb\r\n"), mixed("unquoted carriage return"));
        assert_eq!(read(true, "a\r\n\"b\n\"\r\nc\n"), mixed("unquoted newline"));
    }

    #[test]
    fn a_quote_behind_the_escape_is_data() {
        let text = b"\"a\\\"b\",1,\n\"c\\\\\",\"\n\\\"\",\nx\\,y\\z,\n";
        for piece in 1..text.len() {
            let mut records = Records::new(CopyFormat { escape: b'\\', ..format(true) });
            let mut read = Vec::new();
            let mut take = |record: Record| {
                read.push(record.into_iter().flatten().collect::<Vec<_>>().join("|"));
                Ok(())
            };
            text.chunks(piece).for_each(|part| records.feed(part, &mut take).unwrap());
            records.finish(&mut take).unwrap();
            assert_eq!(read, ["a\"b|1", "c\\|\n\"", "x\\|y\\z"], "pieces of {piece}");
        }
    }

    #[test]
    fn a_wrong_number_of_fields_names_its_line() {
        let mut records = Records::new(format(false));
        let error = records.feed(b"a\tb\tc\nd\te\n", &mut |_| Ok(())).unwrap_err();
        assert_eq!(error.state, SqlState::BAD_COPY_FILE_FORMAT);
        assert_eq!(error.message, "missing data for column \"c\"");
        assert_eq!(error.context.as_deref(), Some("COPY t, line 2: \"d\te\""));
        let mut records = Records::new(format(true));
        let error = records.feed(b"a,\"b\nb\",c\nd,e,f\n1,2,3,4\n", &mut |_| Ok(())).unwrap_err();
        assert_eq!(error.context.as_deref(), Some("COPY t, line 4: \"1,2,3,4\""));
        for nul in [&b"a\tb\0\tc\n"[..], b"a\tb\\0\tc\n", b"a\tb\xff\tc\n"] {
            let error = Records::new(format(false)).feed(nul, &mut |_| Ok(())).unwrap_err();
            assert_eq!(error.state, SqlState::CHARACTER_NOT_IN_REPERTOIRE);
        }
    }
}

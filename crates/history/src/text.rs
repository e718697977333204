//! Histories as text: scenarios are written in it, failing runs are dumped in it and checked again.
//!
//! One line per operation, in the order of invocation; `#` starts a comment:
//!
//! ```text
//! load x y                                   # rows that exist before the first operation
//! txn t1 s1 [0,10] r(x)=0 w(x)=1             # committed; 0 is the initial state
//! txn t2 s2 [3,?] w(y)=1                     # outcome unknown
//! txn t3 s2 [5,9] aborted w(y)=2 d(x)        # aborted; a deletion
//! txn q1 s3 [12,20] after=t1 r(x)=1 r(z)=-   # carries t1's token; saw no row z
//! txn q2 s3 [30,40] s(a..n)={b:1,c:7}        # a range read, n excluded; `a..`, `..` have no bound
//! txn t4 s1 [50,60] r(l)=[4,5] a(l)=6        # a list, an append
//! ```
//!
//! Instants are nanoseconds. Bytes of a key other than letters, digits and `_ - / :` are written `%xx`.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;
use std::str::FromStr;

use crate::op::{Event, History, KeyId, OpId, Outcome, Seen, SessionId};
use crate::recorder::Recorder;

/// A line that is not a history, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Counted from one.
    pub line: usize,
    pub reason: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for ParseError {}

impl FromStr for History {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<History, ParseError> {
        let mut recorder = Recorder::new();
        let mut names = BTreeMap::new();
        for (index, line) in text.lines().enumerate() {
            let content = line.split('#').next().unwrap_or_default();
            parse_line(content, &mut recorder, &mut names)
                .map_err(|reason| ParseError { line: index + 1, reason })?;
        }
        Ok(recorder.finish())
    }
}

fn parse_line(line: &str, recorder: &mut Recorder, names: &mut BTreeMap<String, OpId>) -> Result<(), String> {
    let mut words = line.split_whitespace();
    match words.next() {
        None => Ok(()),
        Some("load") => {
            for word in words {
                recorder.loaded(&key_from(word)?);
            }
            Ok(())
        }
        Some("txn") => parse_op(words, recorder, names),
        Some(word) => Err(format!("a line starts with `txn` or `load`, not `{word}`")),
    }
}

fn parse_op<'t>(
    mut words: impl Iterator<Item = &'t str>,
    recorder: &mut Recorder,
    names: &mut BTreeMap<String, OpId>,
) -> Result<(), String> {
    let name = words.next().ok_or("a transaction has a name")?;
    let session = words.next().ok_or("a transaction has a session, `s1`")?;
    let session = session.strip_prefix('s').ok_or_else(|| format!("a session is `s1`, not `{session}`"))?;
    let interval = words.next().ok_or("a transaction has an interval, `[0,10]` or `[0,?]`")?;
    let (invoked, replied) = interval
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .and_then(|inner| inner.split_once(','))
        .ok_or_else(|| format!("an interval is `[0,10]` or `[0,?]`, not `{interval}`"))?;

    let invoked_ns = number(invoked)?;
    let op = recorder.try_begin(SessionId(number(session)?), invoked_ns)?;
    recorder.name(op, name);
    if names.insert(name.to_owned(), op).is_some() {
        return Err(format!("`{name}` is already taken"));
    }
    let mut aborted = false;
    for word in words {
        if word == "aborted" {
            aborted = true;
        } else if let Some(list) = word.strip_prefix("after=") {
            for from in list.split(',') {
                let from = *names.get(from).ok_or_else(|| format!("no earlier transaction `{from}`"))?;
                if from == op {
                    return Err("a token comes from an earlier transaction".to_owned());
                }
                recorder.token(op, from);
            }
        } else {
            let event = parse_event(word, recorder)?;
            recorder.push(op, event);
        }
    }
    if replied == "?" {
        if aborted {
            return Err("an unanswered transaction is not known to be aborted".to_owned());
        }
        recorder.unknown(op);
        return Ok(());
    }
    let replied_ns = number(replied)?;
    if replied_ns < invoked_ns {
        return Err(format!("answered at {replied_ns}, invoked at {invoked_ns}"));
    }
    if aborted {
        recorder.abort(op, replied_ns);
    } else {
        recorder.commit(op, replied_ns);
    }
    Ok(())
}

fn parse_event(word: &str, recorder: &mut Recorder) -> Result<Event, String> {
    let bad = || format!("`{word}` is none of r(x)=1 r(l)=[1,2] w(x)=1 a(l)=1 d(x) s(a..b)={{x:1}}");
    let (kind, rest) = word.split_once('(').ok_or_else(bad)?;
    let (target, rest) = rest.split_once(')').ok_or_else(bad)?;
    let value = rest.strip_prefix('=');
    match (kind, value) {
        ("r", Some(seen)) => recorder.read_event(&key_from(target)?, seen_from(seen)?),
        ("w", Some(value)) => recorder.write_event(&key_from(target)?, number(value)?, false),
        ("a", Some(value)) => recorder.write_event(&key_from(target)?, number(value)?, true),
        ("d", None) if rest.is_empty() => recorder.delete_event(&key_from(target)?),
        ("s", Some(rows)) => {
            let (low, high) = target.split_once("..").ok_or_else(bad)?;
            let (low, high) = (key_from(low)?, key_from(high)?);
            let rows = rows.strip_prefix('{').and_then(|r| r.strip_suffix('}')).ok_or_else(bad)?;
            let mut seen_rows = Vec::new();
            for row in split_outside_brackets(rows) {
                let (key, seen) = row.rsplit_once(':').ok_or_else(bad)?;
                seen_rows.push((key_from(key)?, seen_from(seen)?));
            }
            let high = (!high.is_empty()).then_some(high.as_str());
            recorder.scan_event(&low, high, seen_rows.iter().map(|(k, s)| (k.as_str(), s.clone())))
        }
        _ => Err(bad()),
    }
}

/// Splits at commas that do not stand inside `[…]`; nothing has no parts.
fn split_outside_brackets(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_i32);
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if start < text.len() {
        parts.push(&text[start..]);
    }
    parts
}

fn seen_from(text: &str) -> Result<Seen, String> {
    if let Some(list) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let values: Result<Vec<u64>, String> =
            list.split(',').filter(|part| !part.is_empty()).map(number).collect();
        return Ok(Seen::List(values?));
    }
    Ok(match text {
        "0" => Seen::Initial,
        "-" => Seen::Absent,
        _ => Seen::Value(number(text)?),
    })
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number"))
}

fn key_from(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if first != b'%' {
            bytes.push(first);
            rest = tail;
            continue;
        }
        let digits = tail.get(..2).and_then(|d| std::str::from_utf8(d).ok());
        let byte = digits.and_then(|d| u8::from_str_radix(d, 16).ok());
        bytes.push(byte.ok_or_else(|| format!("`{text}`: % is followed by two hex digits"))?);
        rest = &tail[2..];
    }
    String::from_utf8(bytes).map_err(|_| format!("`{text}` is not UTF-8"))
}

fn key_text(key: &str) -> String {
    let mut text = String::with_capacity(key.len());
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || b"_-/:".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02x}");
        }
    }
    text
}

impl History {
    /// One operation as a line of text.
    pub fn op_text(&self, id: OpId) -> String {
        let op = self.op(id);
        let mut line = format!("txn {} {} [{},", self.op_name(id), op.session, op.invoked_ns);
        match op.replied_ns() {
            Some(replied_ns) => line.push_str(&format!("{replied_ns}]")),
            None => line.push_str("?]"),
        }
        if let Outcome::Aborted { .. } = op.outcome {
            line.push_str(" aborted");
        }
        if !op.tokens.is_empty() {
            let names: Vec<String> = op.tokens.iter().map(|&t| self.op_name(t)).collect();
            line.push_str(&format!(" after={}", names.join(",")));
        }
        for event in &op.events {
            line.push(' ');
            line.push_str(&self.event_text(event));
        }
        line
    }

    fn event_text(&self, event: &Event) -> String {
        let name = |key: KeyId| key_text(self.key_name(key));
        match event {
            Event::Read { key, seen } => format!("r({})={}", name(*key), seen_text(seen)),
            Event::Write { key, value } => format!("w({})={value}", name(*key)),
            Event::Append { key, value } => format!("a({})={value}", name(*key)),
            Event::Delete { key } => format!("d({})", name(*key)),
            Event::Scan { low, high, rows } => {
                let high = high.as_deref().map(key_text).unwrap_or_default();
                let rows: Vec<String> =
                    rows.iter().map(|(key, seen)| format!("{}:{}", name(*key), seen_text(seen))).collect();
                format!("s({}..{high})={{{}}}", key_text(low), rows.join(","))
            }
        }
    }
}

fn seen_text(seen: &Seen) -> String {
    match seen {
        Seen::Initial => "0".to_owned(),
        Seen::Absent => "-".to_owned(),
        Seen::Value(value) => value.to_string(),
        Seen::List(values) => {
            let values: Vec<String> = values.iter().map(u64::to_string).collect();
            format!("[{}]", values.join(","))
        }
    }
}

/// The whole history; parsing it gives the same history again (keys may be numbered differently).
impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.loaded.is_empty() {
            let names: Vec<String> = self.loaded.iter().map(|&key| key_text(self.key_name(key))).collect();
            writeln!(f, "load {}", names.join(" "))?;
        }
        for id in 0..self.ops.len() {
            writeln!(f, "{}", self.op_text(OpId(id as u32)))?;
        }
        Ok(())
    }
}

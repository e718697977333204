//! What counts as a finding. Refusing is right, whatever the SQLSTATE, as long as it is the client's language: no
//! internal error, no structure of a plan, no hanging up on a statement, no silence.

use crate::client::{End, Reply, ServerError};
use serde::Serialize;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The process ended.
    Exit,
    /// Resident memory went above the ceiling.
    Memory,
    /// Another session waited too long.
    Stall,
    /// Another session's statement failed.
    Disturbed,
    /// No answer within the ceiling.
    Silence,
    /// An answer, long after `statement_timeout`.
    Late,
    /// The connection was closed without a word.
    Lost,
    /// An internal error reached the client.
    Internal,
    /// A message names types or plans of the implementation.
    Reveals,
    /// Bytes that are not the protocol.
    Malformed,
    /// The log tells of a panic.
    Panic,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Exit => "exit",
            Kind::Memory => "memory",
            Kind::Stall => "stall",
            Kind::Disturbed => "disturbed",
            Kind::Silence => "silence",
            Kind::Late => "late",
            Kind::Lost => "lost",
            Kind::Internal => "internal",
            Kind::Reveals => "reveals",
            Kind::Malformed => "malformed",
            Kind::Panic => "panic",
        }
    }
}

/// What a reply gives away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub kind: Kind,
    /// Alike for what is the same defect: numbers and quoted texts are left out.
    pub detail: String,
    /// As it was said.
    pub said: String,
}

/// How long an answer may take.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// `statement_timeout` of the attacking sessions.
    pub statement: Duration,
    /// Later than this after it is a finding.
    pub grace: Duration,
    /// No answer at all is a finding after this.
    pub ceiling: Duration,
}

/// What a message says when the server itself is at fault.
const AT_FAULT: &[&str] = &[
    "internal error",
    "Internal error",
    "defect in",
    "likely caused by a bug",
    "panicked",
    "unwrap()",
    "task was cancelled",
    "JoinError",
    "channel closed",
    "todo!",
];

/// Parts of messages that only an implementation says. PostgreSQL's own texts contain none of them.
const INSIDE: &[&str] = &[
    "DataFusion",
    "Error during planning",
    "Compute error",
    "Invalid argument error",
    "Arrow error",
    "RecordBatch",
    "LogicalPlan",
    "ScalarValue",
    "ScalarFunction",
    "ColumnarValue",
    "PhysicalExpr",
    "DataType::",
    "Projection:",
    "TableScan",
    "SubqueryAlias",
    "Aggregate:",
    "Utf8View",
    "LargeUtf8",
    "Decimal128",
    "Int64(",
    "Int32(",
    "Float64(",
    "Boolean(",
    "Some(",
    "None)",
    "Expr::",
    "Column {",
    "Field {",
    "Box<",
    "placeholder was not replaced",
    "schema mismatch",
    "UDF",
    "not yet implemented:",
];

/// What an error gives away, if it does.
pub fn internal(error: &ServerError) -> Option<Verdict> {
    let all = format!("{} {} {}", error.message, error.detail, error.hint);
    let has = |parts: &[&'static str]| parts.iter().copied().find(|part| all.contains(part));
    let said = || format!("{} {}", error.code, all.trim());
    if error.code.starts_with("XX") || has(AT_FAULT).is_some() {
        let detail = format!("{} {}", error.code, alike(&error.message));
        return Some(Verdict { kind: Kind::Internal, detail, said: said() });
    }
    // Names of types come in every combination: the beginning tells where the message is made.
    let part = has(INSIDE)?;
    let words: Vec<&str> = error.message.split_whitespace().take(3).collect();
    let detail = format!("{} {} … {part}", error.code, alike(&words.join(" ")));
    Some(Verdict { kind: Kind::Reveals, detail, said: said() })
}

/// Judges the answer to statements.
pub fn statement(reply: &Reply, patience: Patience) -> Option<Verdict> {
    let told = |kind, said: String| Some(Verdict { kind, detail: alike(&said), said });
    if let Some(verdict) = reply.errors.iter().find_map(internal) {
        return Some(verdict);
    }
    match &reply.end {
        End::Silent => told(Kind::Silence, format!("no answer within {} s", patience.ceiling.as_secs())),
        End::Malformed(what) => told(Kind::Malformed, what.clone()),
        // Hanging up is right after the server has said why.
        End::Closed if reply.errors.is_empty() => told(Kind::Lost, "closed without a word".into()),
        _ => lateness(reply, patience).map(|said| Verdict {
            kind: Kind::Late,
            detail: "answered late".into(),
            said,
        }),
    }
}

/// `statement_timeout` counts for each statement of a text by itself, and a server sends what it has while it goes on.
fn lateness(reply: &Reply, patience: Patience) -> Option<String> {
    let statements = u32::try_from(reply.statements_count.max(1)).unwrap_or(u32::MAX);
    if reply.longest_silence > patience.statement + patience.grace {
        return Some(format!("silent for {:.1} s", reply.longest_silence.as_secs_f64()));
    }
    let all = patience.statement.saturating_mul(statements).saturating_add(patience.grace);
    (reply.took > all).then(|| format!("{statements} statements took {:.1} s", reply.took.as_secs_f64()))
}

/// Judges the answer to bytes of which nothing is known: the server may say anything or hang up, but not hang.
pub fn bytes(reply: &Reply, patience: Patience) -> Option<Verdict> {
    if let Some(verdict) = reply.errors.iter().find_map(internal) {
        return Some(verdict);
    }
    match &reply.end {
        End::Silent => Some(Verdict {
            kind: Kind::Silence,
            detail: "not closed".into(),
            said: format!("not closed within {} s after the client's end", patience.ceiling.as_secs()),
        }),
        _ => None,
    }
}

/// The same text for the same defect: without numbers and what is quoted, and not too long.
pub fn alike(said: &str) -> String {
    let mut out = String::new();
    let mut quote: Option<char> = None;
    for c in said.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => {
                quote = None;
                out.push(c);
            }
            (Some(_), _) => {}
            (None, '"' | '\'' | '`') => {
                quote = Some(c);
                out.push(c);
            }
            (None, c) if c.is_ascii_digit() => {
                if !out.ends_with('#') {
                    out.push('#');
                }
            }
            (None, c) => out.push(c),
        }
        if out.chars().count() >= 90 {
            break;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(end: End, errors: Vec<ServerError>, took_ms: u64) -> Reply {
        let took = Duration::from_millis(took_ms);
        let statements_count = errors.len() as u64;
        Reply { end, errors_count: statements_count, errors, statements_count, took, ..Reply::new() }
    }
    fn error(code: &str, message: &str) -> ServerError {
        ServerError { code: code.into(), message: message.into(), ..ServerError::default() }
    }
    const PATIENCE: Patience = Patience {
        statement: Duration::from_secs(1),
        grace: Duration::from_secs(2),
        ceiling: Duration::from_secs(10),
    };

    #[test]
    fn each_kind_is_found_and_a_refusal_is_not() {
        let kind = |r: Reply| statement(&r, PATIENCE).map(|v| v.kind);
        assert_eq!(kind(reply(End::Ready, vec![error("42601", "syntax error at or near \"x\"")], 5)), None);
        assert_eq!(kind(reply(End::Closed, vec![error("54000", "message too large")], 5)), None);
        assert_eq!(kind(reply(End::Ready, vec![error("XX000", "oops")], 5)), Some(Kind::Internal));
        let shown = error("42883", "no function for [Int64(1), Utf8View]");
        assert_eq!(kind(reply(End::Ready, vec![shown], 5)), Some(Kind::Reveals));
        assert_eq!(kind(reply(End::Ready, vec![], 3500)), Some(Kind::Late));
        let mut many = Reply { statements_count: 4, ..reply(End::Ready, vec![], 3500) };
        assert_eq!(kind(many.clone()), None, "each has its own second");
        many.longest_silence = Duration::from_millis(3200);
        assert_eq!(kind(many), Some(Kind::Late));
        assert_eq!(kind(reply(End::Closed, vec![], 5)), Some(Kind::Lost));
        assert_eq!(kind(reply(End::Silent, vec![], 10_000)), Some(Kind::Silence));
        assert_eq!(kind(reply(End::Malformed("x".into()), vec![], 5)), Some(Kind::Malformed));
        assert_eq!(bytes(&reply(End::Closed, vec![], 5), PATIENCE), None);
        assert_eq!(bytes(&reply(End::Silent, vec![], 5), PATIENCE).unwrap().kind, Kind::Silence);
    }

    #[test]
    fn the_same_defect_reads_alike() {
        assert_eq!(alike("column \"a\" has 17 rows"), alike("column \"xyz\" has 4 rows"));
        assert_eq!(alike(&"x".repeat(1000)).len(), 90);
    }
}

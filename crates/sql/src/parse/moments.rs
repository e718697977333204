//! `date 'today'`, `'now'::timestamp`: texts that mean the time of the statement, as what computes it.
//!
//! KEEPS: a definition that is stored says no such thing, for it would mean another time whenever it is read.

use crate::names;
use crate::walk;
use base::DataType;
use sqlparser::ast::{self, CastKind, Expr, Statement, Value};
use std::ops::ControlFlow;

const WORDS: [&str; 5] = ["now", "today", "tomorrow", "yesterday", "allballs"];

/// Puts the calls in the place of such texts.
pub(super) fn settle(sql: &str, statements: &mut [Statement]) {
    let lower = sql.to_ascii_lowercase();
    if !WORDS.iter().any(|word| lower.contains(word)) {
        return;
    }
    let runs = |statement: &&mut Statement| {
        matches!(
            statement,
            Statement::Query(_)
                | Statement::Insert(_)
                | Statement::Update(_)
                | Statement::Delete(_)
                | Statement::Merge(_)
        )
    };
    for statement in statements.iter_mut().filter(runs) {
        let _: ControlFlow<()> = walk::expressions_mut(statement, |e| {
            if let Some(call) = call(e) {
                *e = call;
            }
            ControlFlow::Continue(())
        });
    }
}

/// What a text computes that goes into a column of a type; `None`: it is another expression, and what it says itself.
pub fn moment(e: &Expr, to: DataType) -> Option<Expr> {
    let Expr::Value(value) = e else { return None };
    let is_of_time =
        matches!(to, DataType::Date | DataType::Time | DataType::Timestamp | DataType::TimestampTz);
    if is_of_time { computed(&value.value, to, &to.name()) } else { None }
}

/// What such a text behind a type computes; `None`: it is another expression.
fn call(e: &Expr) -> Option<Expr> {
    let (value, data_type) = match e {
        Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, .. } => {
            match expr.as_ref() {
                Expr::Value(value) => (&value.value, data_type),
                _ => return None,
            }
        }
        Expr::TypedString(ast::TypedString { value, data_type, .. }) => (&value.value, data_type),
        _ => return None,
    };
    let Value::SingleQuotedString(_) = value else { return None };
    computed(value, names::data_type(data_type).ok()?, &data_type.to_string())
}

fn computed(value: &Value, to: DataType, written: &str) -> Option<Expr> {
    let Value::SingleQuotedString(text) = value else { return None };
    let word = text.trim().to_ascii_lowercase();
    let day = match word.as_str() {
        "now" | "today" => "current_date",
        "tomorrow" => "(current_date + 1)",
        "yesterday" => "(current_date - 1)",
        "allballs" => "'00:00:00'",
        _ => return None,
    };
    let computed = match (word.as_str(), to) {
        ("allballs", DataType::Time) => day,
        ("allballs", _) => return None,
        ("now", DataType::Timestamp) => "localtimestamp",
        ("now", DataType::TimestampTz) => "now()",
        ("now", DataType::Time) => "localtime",
        (_, DataType::Date | DataType::Timestamp | DataType::TimestampTz) => day,
        _ => return None,
    };
    super::parse_expr(&format!("CAST({computed} AS {written})")).ok()
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    #[test]
    fn words_for_moments_are_computed() {
        for (sql, wanted) in [
            ("select date 'Today'", "SELECT CAST(current_date AS DATE)"),
            ("select 'yesterday'::date", "SELECT CAST((current_date - 1) AS DATE)"),
            ("select 'now'::timestamp, 'now'::text", "SELECT CAST(localtimestamp AS TIMESTAMP), 'now'::TEXT"),
            ("select time 'allballs'", "SELECT CAST('00:00:00' AS TIME)"),
            ("select 'tomorrow'", "SELECT 'tomorrow'"),
        ] {
            assert_eq!(parse(sql).unwrap()[0].to_string(), wanted, "{sql}");
        }
        let stored = "create view v as select 'today'::date";
        assert!(parse(stored).unwrap()[0].to_string().contains("today"));
    }
}

//! How answers about the session look: their columns, and freshness in one line.

use super::explain::{ExplainOptions, Format};
use super::named::OUTCOME;
use super::settings::Settings;
use base::DataType;
use base::cut::Freshness;
use sql::types::Column;
use sqlparser::ast::{self, Statement};
use std::sync::Arc;

/// Columns that a utility statement answers with.
pub(super) fn columns(statement: &Statement) -> Option<Arc<Vec<Column>>> {
    let texts = |names: &[&str]| {
        Some(Arc::new(names.iter().map(|n| Column::new(*n, DataType::Text)).collect::<Vec<_>>()))
    };
    match statement {
        Statement::ShowVariable { variable } => {
            let name = shown_name(variable);
            if name.starts_with("expected.latency.") {
                return Some(Arc::new(latency_columns()));
            }
            match name.as_str() {
                CLOCKS => Some(Arc::new(clock_columns())),
                SURVIVAL => Some(Arc::new(survival_columns())),
                OUTCOME => texts(&[OUTCOME]),
                "all" => texts(&["name", "setting", "description"]),
                name => texts(&[&Settings::canonical(name).unwrap_or(name.into())]),
            }
        }
        Statement::Explain { .. } => Some(Arc::new(explain_columns(statement))),
        _ => None,
    }
}

/// `SHOW CLOCKS`: what this node has measured of others' clocks.
pub(super) const CLOCKS: &str = "clocks";

pub(super) fn clock_columns() -> Vec<Column> {
    vec![
        Column::new("region", DataType::Text),
        Column::new("bound_ms", DataType::Double),
        Column::new("peer_region", DataType::Text),
        Column::new("peer_ahead_at_least_ms", DataType::Double),
        Column::new("peer_ahead_at_most_ms", DataType::Double),
        Column::new("measured_ms_ago", DataType::Double),
        Column::new("state", DataType::Text),
    ]
}

/// `SHOW SURVIVAL`: how many more regions may be lost.
pub(super) const SURVIVAL: &str = "survival";

pub(super) fn survival_columns() -> Vec<Column> {
    vec![
        Column::new("guarantee", DataType::Text),
        Column::new("engine", DataType::Text),
        Column::new("survive", DataType::BigInt),
        Column::new("regions", DataType::BigInt),
        Column::new("up", DataType::BigInt),
        Column::new("not_up", DataType::Text),
        Column::new("may_still_be_lost", DataType::BigInt),
        Column::new("if_one_more_is_lost", DataType::Text),
    ]
}

pub(super) fn shown_name(variable: &[ast::Ident]) -> String {
    let words: Vec<String> = variable.iter().map(|i| i.value.to_lowercase()).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["transaction", "isolation", "level"] => "transaction_isolation".into(),
        ["time", "zone"] => "timezone".into(),
        ["session", "authorization"] => "session_authorization".into(),
        _ => words.join("."),
    }
}

/// Columns of `SHOW EXPECTED LATENCY`.
pub(super) fn latency_columns() -> Vec<Column> {
    vec![
        Column::new("operation", DataType::Text),
        Column::new("home", DataType::Text),
        Column::new("wan_round_trips", DataType::Double),
        Column::new("latency_ms", DataType::Double),
    ]
}

/// Object id of type json.
const JSON_OID: u32 = 114;
const XML_OID: u32 = 142;

/// The one column of its answer.
pub(super) fn explain_column(format: Format) -> Column {
    let text = Column::new("QUERY PLAN", DataType::Text);
    match format {
        Format::Json => Column { type_oid: JSON_OID, ..text },
        Format::Xml => Column { type_oid: XML_OID, ..text },
        Format::Text | Format::Yaml => text,
    }
}

/// Columns of its answer, as its options ask for; a wrong option is told when it runs.
fn explain_columns(explain: &Statement) -> Vec<Column> {
    vec![explain_column(ExplainOptions::of(explain).map_or(Format::Text, |options| options.format))]
}

/// A freshness report in one line, for people and programs: `name=…ms`, blank between.
pub(super) fn freshness(f: &Freshness) -> String {
    let ms = |ns: u64| ns as f64 / base::time::MS as f64;
    let delays = format!(
        "visibility_delay={:.3}ms staleness={:.3}ms coordination={:.3}ms wait={:.3}ms",
        ms(f.visibility_delay_ns()),
        ms(f.staleness_ns),
        ms(f.coordination_ns),
        ms(f.wait_ns)
    );
    match f.other_readers {
        0 => delays,
        others => format!("{delays} other_readers={others}"),
    }
}

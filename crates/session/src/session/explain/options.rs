//! Options of EXPLAIN, as PostgreSQL has them.

use super::super::settings;
use base::SqlError;
use base::error::{SqlResult, SqlState};
use sqlparser::ast::{AnalyzeFormat, AnalyzeFormatKind, Expr, Statement, Value};

/// How a plan is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) enum Format {
    Text,
    Json,
    Yaml,
    Xml,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) struct ExplainOptions {
    pub analyze: bool,
    pub format: Format,
    /// Whether the times of the whole statement are shown.
    pub summary: bool,
}

impl ExplainOptions {
    /// Errors: 42601 an option that there is not, 22023 a value that it does not take.
    pub fn of(statement: &Statement) -> SqlResult<ExplainOptions> {
        let Statement::Explain { analyze, options, format, .. } = statement else {
            return Err(SqlError::internal("these are options of EXPLAIN"));
        };
        let mut read = ExplainOptions { analyze: *analyze, format: Format::Text, summary: true };
        if let Some(AnalyzeFormatKind::Keyword(format) | AnalyzeFormatKind::Assignment(format)) = format {
            read.format = named(match format {
                AnalyzeFormat::TEXT => "text",
                AnalyzeFormat::JSON => "json",
                other => return Err(unrecognized_value("format", &other.to_string())),
            })?;
        }
        let (mut timing, mut wal) = (false, false);
        for option in options.iter().flatten() {
            let name = option.name.value.to_ascii_lowercase();
            let given = option.arg.as_ref().map(shown);
            let flag = || match given.as_deref() {
                None => Ok(true),
                Some(value) => settings::boolean(value).ok_or_else(|| {
                    SqlError::new(SqlState::SYNTAX_ERROR, format!("{name} requires a Boolean value"))
                }),
            };
            match name.as_str() {
                "analyze" => read.analyze = flag()?,
                "summary" => read.summary = flag()?,
                "timing" => timing = flag()?,
                "wal" => wal = flag()?,
                // There is nothing to leave out, and nothing more to say.
                "verbose" | "costs" | "settings" | "buffers" => _ = flag()?,
                "format" => match given.as_deref() {
                    Some(value) => read.format = named(value)?,
                    None => {
                        let message = "format requires a parameter";
                        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                    }
                },
                _ => {
                    return Err(SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        format!("unrecognized EXPLAIN option \"{name}\""),
                    ));
                }
            }
        }
        for (option, is_on) in [("WAL", wal), ("TIMING", timing)] {
            if is_on && !read.analyze {
                return Err(SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("EXPLAIN option {option} requires ANALYZE"),
                ));
            }
        }
        Ok(read)
    }
}

fn named(format: &str) -> SqlResult<Format> {
    match format.to_ascii_lowercase().as_str() {
        "text" => Ok(Format::Text),
        "json" => Ok(Format::Json),
        "yaml" => Ok(Format::Yaml),
        "xml" => Ok(Format::Xml),
        _ => Err(unrecognized_value("format", format)),
    }
}

fn unrecognized_value(option: &str, value: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_PARAMETER_VALUE,
        format!("unrecognized value for EXPLAIN option \"{option}\": \"{value}\""),
    )
}

/// An option's value as it was written, without quotes.
fn shown(value: &Expr) -> String {
    match value {
        Expr::Identifier(word) => word.value.clone(),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        other => other.to_string(),
    }
}

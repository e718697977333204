//! `SELECT set_config(name, value, is_local)`: SET as a function, which answers with the new value.
//!
//! It changes the session, so it stands alone: a list of such calls without FROM. Anywhere else it is refused.

use super::Session;
use super::own_calls::OwnFunction;
use super::settings::{self, Settings};
use crate::response::{Response, RowStream, Rows};
use base::error::{SqlResult, SqlState};
use base::{DataType, Datum, SqlError};
use sql::lower::Projection;
use sql::types::Column;
use sqlparser::ast;
use std::sync::Arc;

/// A list of such calls.
pub struct SetConfigPlan {
    /// Three values for each call: name, value, whether it ends with the transaction.
    arguments: Projection,
    pub columns: Arc<Vec<Column>>,
}

pub(super) const SET_CONFIG: OwnFunction = OwnFunction {
    name: "set_config",
    arguments: &["text", "text", "boolean"],
    last: None,
    // Over rows it is a function like others, which sets nothing where there is no row.
    over_rows: false,
};

impl SetConfigPlan {
    pub(super) fn new(arguments: Projection, names: Vec<String>) -> SetConfigPlan {
        let columns = names.into_iter().map(|name| Column::new(name, DataType::Text)).collect();
        SetConfigPlan { arguments, columns: Arc::new(columns) }
    }
}

impl Session {
    /// Gives a setting a value; `None`: its default.
    pub(super) fn assign(&mut self, name: &str, value: Option<&str>, is_local: bool) -> SqlResult<()> {
        if let Some(value) = value
            && name == "transaction_read_only"
            && self.transaction.is_some()
        {
            let mode = match settings::boolean(value) {
                Some(true) => ast::TransactionAccessMode::ReadOnly,
                _ => ast::TransactionAccessMode::ReadWrite,
            };
            return self.transaction_modes(&[ast::TransactionMode::AccessMode(mode)]);
        }
        let name = Settings::canonical(name)?;
        if name == "transaction_isolation" {
            return self.set_isolation(value);
        }
        match value {
            Some(value) => self.set_in(&name, value, is_local),
            None => self.reset(&name, is_local),
        }
    }

    /// SET transaction_isolation: of the open transaction; without one it has no effect. `None`: what new blocks get.
    fn set_isolation(&mut self, value: Option<&str>) -> SqlResult<()> {
        use ast::TransactionIsolationLevel::{ReadCommitted, ReadUncommitted, RepeatableRead, Serializable};
        let value = value.unwrap_or(self.settings.get("default_transaction_isolation")).to_ascii_lowercase();
        let level = match value.as_str() {
            settings::SERIALIZABLE => Serializable,
            settings::REPEATABLE_READ => RepeatableRead,
            settings::READ_COMMITTED => ReadCommitted,
            settings::READ_UNCOMMITTED => ReadUncommitted,
            _ => {
                let message = format!("invalid value for parameter \"transaction_isolation\": \"{value}\"");
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
            }
        };
        self.transaction_modes(&[ast::TransactionMode::IsolationLevel(level)])
    }

    pub(super) fn run_set_config(
        &mut self,
        plan: &SetConfigPlan,
        parameters: &[Datum],
    ) -> SqlResult<Response> {
        let arguments = self.constant_row(&plan.arguments, parameters)?;
        let mut row = Vec::with_capacity(plan.columns.len());
        for call in arguments.chunks(3) {
            let [name, value, is_local] = call else {
                return Err(SqlError::internal("three arguments for each call"));
            };
            let Datum::Text(name) = name else {
                return Err(SqlError::new(SqlState(*b"22004"), "SET requires parameter name"));
            };
            let value = match value {
                Datum::Text(value) => Some(value.as_ref()),
                _ => None,
            };
            // Outside a block, what is local ends with this statement; there is no compilation that could be set.
            let has_no_effect = name.eq_ignore_ascii_case("jit");
            match matches!(is_local, Datum::Bool(true)) {
                true if self.transaction.is_none() => row.push(Datum::text(value.unwrap_or_default())),
                _ if has_no_effect => row.push(Datum::text(value.unwrap_or_default())),
                is_local => {
                    self.assign(name, value, is_local)?;
                    let name = Settings::canonical(name)?;
                    row.push(Datum::text(self.show(&name)));
                }
            }
        }
        let stream = RowStream::values(vec![row]);
        Ok(Response::Rows(Rows { columns: plan.columns.clone(), stream, tag: "SELECT" }))
    }
}

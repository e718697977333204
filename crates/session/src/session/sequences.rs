//! `SELECT setval(sequence, value, is_called)`: where a sequence goes on.
//!
//! Gateways hand out values without asking each other, so a sequence is moved by a change of the catalog, which all of them
//! hear: its values count anew from there ([`Origin`](base::schema::Origin)). As any such change, it is undone with its
//! transaction.

use super::Session;
use super::own_calls::OwnFunction;
use super::plan::{Plan, SetValuePlan};
use crate::response::{Response, RowStream, Rows};
use base::error::{SqlResult, SqlState};
use base::roles::{Object, Privileges};
use base::schema::{Catalog, SchemaAction, SchemaChange, Sequence};
use base::{DataType, Datum, SqlError, TableId};
use sql::types::Column;
use std::sync::Arc;

pub(super) const SETVAL: OwnFunction = OwnFunction {
    name: "setval",
    arguments: &["text", "bigint", "boolean"],
    last: Some("true"),
    over_rows: true,
};

/// Moves before the session gives up on a catalog that keeps changing.
const ATTEMPTS: usize = 64;

impl SetValuePlan {
    pub(super) fn new(arguments: Plan, names: Vec<String>) -> SetValuePlan {
        let columns = names.into_iter().map(|name| Column::new(name, DataType::BigInt)).collect();
        SetValuePlan { arguments: Box::new(arguments), columns: Arc::new(columns) }
    }
}

impl Session {
    pub(super) async fn run_set_value(
        &mut self,
        plan: &SetValuePlan,
        parameters: &[Datum],
    ) -> SqlResult<Response> {
        self.refuse_if_read_only("setval()")?;
        let Response::Rows(mut asked) = Box::pin(self.run(&plan.arguments, parameters)).await? else {
            return Err(SqlError::internal("a query answers rows"));
        };
        let memory = self.gateway.rows_memory("arguments of setval");
        let asked = asked.stream.collect_within(&memory).await?;
        let mut rows = Vec::with_capacity(asked.len());
        for arguments in asked {
            let mut row = Vec::with_capacity(plan.columns.len());
            for call in arguments.chunks(3) {
                row.push(match call {
                    [Datum::Text(name), Datum::Int(value), Datum::Bool(is_called)] => {
                        let sequence = self.set_value(name, *value, *is_called).await?;
                        if *is_called {
                            self.given.set(sequence, *value);
                        }
                        Datum::Int(*value)
                    }
                    _ => Datum::Null,
                });
            }
            rows.push(row);
        }
        let stream = RowStream::values(rows);
        Ok(Response::Rows(Rows { columns: plan.columns.clone(), stream, tag: "SELECT" }))
    }

    /// The next value of a sequence here is this one, or the one behind it; no other gateway hands out any before.
    async fn set_value(&mut self, name: &str, value: i64, is_called: bool) -> SqlResult<TableId> {
        for _ in 0..ATTEMPTS {
            match self.transaction {
                Some(_) => self.prepare_own_catalog().await?,
                None => self.look_up_catalog(),
            }
            let (known, catalog) = (self.known.clone(), self.catalog());
            let sequence = sql::catalog::find_sequence(&catalog, &self.settings.search_path, name)?;
            self.permit_set_value(&catalog, sequence)?;
            let id = sequence.id;
            let next = next_value(sequence, value, is_called)?;
            let moved = self.gateway.node.generators.moved(sequence, next, is_called);
            let actions = vec![SchemaAction::CreateSequence(moved)];
            if self.transaction.is_some() {
                return self.open().change_catalog(&known, &actions).map(|()| id);
            }
            match self
                .submit_schema(SchemaChange {
                    database: self.database.id,
                    base_version: catalog.version,
                    actions,
                })
                .await
            {
                Err(error) if super::is_stale(&error) => self.refresh_catalog().await?,
                ended => return ended.map(|()| id),
            }
        }
        Err(base::schema::stale_schema())
    }

    fn permit_set_value(&self, catalog: &Catalog, sequence: &Sequence) -> SqlResult<()> {
        let object = Object::Relation(sequence.id);
        match catalog.roles.may(&self.standing(), &object, Privileges::UPDATE) {
            true => Ok(()),
            false => Err(sql::privileges::denied("sequence", &sequence.name)),
        }
    }
}

/// What a sequence gives behind a value, or from it on. Errors: 22003.
pub(super) fn next_value(sequence: &Sequence, value: i64, is_called: bool) -> SqlResult<i64> {
    let (least, most) = (sequence.limits.min, sequence.limits.max);
    let out_of_bounds = || {
        let (name, bounds) = (&sequence.name, format!("({least}..{most})"));
        let message = format!("setval: value {value} is out of bounds for sequence \"{name}\" {bounds}");
        SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
    };
    if !(least..=most).contains(&value) {
        return Err(out_of_bounds());
    }
    // Behind the last value a sequence ends, or begins again.
    let next = if is_called { value.checked_add(sequence.increment) } else { Some(value) };
    next.ok_or_else(out_of_bounds)
}

//! A procedure whose participants need each other's values.

use super::layout::{LISTS, Layout, Target};
use base::error::{SqlError, SqlResult, SqlState};
use base::schema::Catalog;
use base::topology::Topology;
use base::txn::procedure::{Exchange, Procedure, ProcedureContext, RowAccess, RowView};
use base::txn::{AccessSet, Submission, TxnProgram};
use base::{DataType, Datum, Key, Row, Token};
use std::sync::Arc;

/// `append_all(value, refuse_if_longer, shelf, key, shelf, key, …)`: appends one value to several lists,
/// or aborts everywhere if one of them is longer than that. Every participant returns what it was told by
/// all of them; a client can compare.
pub struct AppendAll;

impl AppendAll {
    pub const NAME: &'static str = "append_all";

    /// A call of it.
    pub fn call(layout: &Layout, targets: &[Target], value: u64, longest: usize, token: Token) -> Submission {
        let mut args = vec![Datum::Int(value as i64), Datum::Int(longest as i64)];
        let mut access = AccessSet::default();
        for target in targets {
            let item = target.item().expect("appends go to rows");
            args.extend([Datum::Int(item.shelf), Datum::Int(item.key)]);
            layout.access(&mut access, &item, base::txn::AccessMode::Write);
        }
        access.normalize();
        let program = TxnProgram::Procedure { name: AppendAll::NAME.into(), args };
        Submission {
            program: Arc::new(program),
            access: Arc::new(access),
            token,
            request: None,
            isolation: Default::default(),
        }
    }

    /// The lists named by a call that lie in this partition, in the call's order.
    fn keys_here(args: &[Datum], context: &ProcedureContext<'_>) -> Vec<Key> {
        let table = &context.catalog.tables[&LISTS];
        let here = base::schema::Location::One(context.partition);
        let pairs = args[2..].chunks_exact(2);
        pairs.filter(|pair| table.locate(&pair[0], context.topology) == here).map(Key::of).collect()
    }
}

fn text(row: &Row) -> Arc<str> {
    match row.get(2) {
        Datum::Text(text) => text,
        other => panic!("a list is stored as {other:?}"),
    }
}

impl Procedure for AppendAll {
    fn name(&self) -> &'static str {
        AppendAll::NAME
    }
    fn arguments(&self) -> Vec<(&'static str, DataType)> {
        vec![("value", DataType::BigInt), ("refuse_if_longer", DataType::BigInt)]
    }
    fn columns(&self) -> Vec<(&'static str, DataType)> {
        vec![("told", DataType::Text)]
    }
    fn declare(&self, _: &[Datum], _: &Catalog, _: &Topology) -> SqlResult<AccessSet> {
        Err(SqlError::unsupported("a call without its access set"))
    }
    fn gather(
        &self,
        args: &[Datum],
        context: &ProcedureContext<'_>,
        rows: &dyn RowView,
    ) -> SqlResult<Vec<Datum>> {
        let Datum::Int(longest) = args[1] else { panic!("the second argument is a number") };
        let mut told = Vec::new();
        for key in AppendAll::keys_here(args, context) {
            let row = rows.get(LISTS, &key).ok_or_else(|| SqlError::internal("a list is missing"))?;
            let text = text(&row);
            if text.matches(',').count() as i64 > longest {
                return Err(SqlError::new(SqlState::CHECK_VIOLATION, "a list is too long"));
            }
            told.push(Datum::Text(text));
        }
        Ok(told)
    }
    fn apply(
        &self,
        args: &[Datum],
        context: &ProcedureContext<'_>,
        exchange: &Exchange,
        rows: &mut dyn RowAccess,
    ) -> Vec<Row> {
        let Datum::Int(value) = args[0] else { panic!("the first argument is a number") };
        for key in AppendAll::keys_here(args, context) {
            let row = rows.get(LISTS, &key).expect("gathered a moment ago");
            let mut values = row.to_vec();
            values[2] = Datum::text(format!("{}{value},", text(&row)));
            rows.put(LISTS, key, Row::of(&values));
        }
        // One row: everything that was told, by participant.
        vec![Row::of(&exchange.values().flatten().cloned().collect::<Vec<_>>())]
    }
}

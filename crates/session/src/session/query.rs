//! Queries through DataFusion, in and out of transactions.

use super::Session;
use crate::response::{Response, RowStream, Rows};
use analytics::{self, Answer, Guard, How, OwnRows, QueryPlan};
use base::error::SqlResult;
use base::key::KeyRange;
use base::{DataType, Datum, Rank, SqlError, TableId};
use sql::lower::scope::ParameterTypes;
use sqlparser::ast::{self, Statement};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Session {
    pub(super) async fn run_query(&mut self, plan: &QueryPlan, parameters: &[Datum]) -> SqlResult<Response> {
        let mut answer = self.answer(plan, parameters).await?;
        // The statement goes on while its rows are fetched.
        answer.stream.guard(Some(Guard { cancel: self.cancel.clone(), deadline: self.cancel.deadline() }));
        let stream = RowStream::Batches(self.told_of(answer.stream));
        Ok(Response::Rows(Rows { columns: plan.columns.clone(), stream, tag: "SELECT" }))
    }

    /// Starts a query; inside a transaction at its cut, over its own writes, recorded as read.
    pub(super) async fn answer(&mut self, plan: &QueryPlan, parameters: &[Datum]) -> SqlResult<Answer> {
        let at = match self.transaction.is_some() && plan.reads_tables() {
            true => Some(self.pinned().await?.1),
            false => None,
        };
        let own_tables = self.own_tables(plan).await?;
        self.answer_at(plan, parameters, at, own_tables).await
    }

    /// The same with these rows as one table's.
    pub(super) async fn answer_over(
        &mut self,
        plan: &QueryPlan,
        parameters: &[Datum],
        table: TableId,
        rows: Vec<Arc<Vec<Datum>>>,
    ) -> SqlResult<Answer> {
        let at = self.pinned().await?.1;
        let mut own_tables = self.own_tables(plan).await?;
        own_tables.insert(table, rows);
        self.answer_at(plan, parameters, Some(at), own_tables).await
    }

    async fn answer_at(
        &mut self,
        plan: &QueryPlan,
        parameters: &[Datum],
        at: Option<Rank>,
        own_tables: BTreeMap<TableId, Vec<Arc<Vec<Datum>>>>,
    ) -> SqlResult<Answer> {
        self.show_opened();
        let how = How {
            at,
            consistency: self.level(),
            token: self.token.clone(),
            cancel: self.cancel.clone(),
            times: self.times(),
            transaction: self.transaction.as_ref().map(|open| open as &dyn OwnRows),
            own_tables,
        };
        let engine = self.gateway.analytics.clone();
        let mut answer = analytics::run(&engine, plan, parameters, how).await?;
        if let Some(token) = &answer.token {
            self.saw(token);
        }
        self.freshness = answer.freshness.or(self.freshness);
        self.sources = std::mem::take(&mut answer.sources);
        if let Some(measured) = &mut self.measured {
            measured.has_read |= !answer.reads.is_empty();
            measured.asked.extend(&answer.asked);
            let on_the_way_ns = |f: base::Freshness| f.coordination_ns + f.wait_ns;
            measured.waited_ns += answer.freshness.map_or(0, on_the_way_ns);
            self.operators = Some((answer.operators.clone(), answer.timing));
        }
        if let Some(transaction) = &mut self.transaction {
            for (table, partitions) in &answer.reads {
                for partition in partitions {
                    transaction.record_read(*partition, *table, KeyRange::all(), None, transaction.cut);
                }
            }
        }
        Ok(answer)
    }

    /// Rows of those of a query's tables that the open transaction has made or altered.
    async fn own_tables(&mut self, plan: &QueryPlan) -> SqlResult<BTreeMap<TableId, Vec<Arc<Vec<Datum>>>>> {
        let mut own_tables = BTreeMap::new();
        if let Some(parts) = self.transaction.as_ref().and_then(|t| t.parts.as_ref()) {
            let theirs =
                plan.tables().filter_map(|table| Some((table.id, parts.rows.get(&table.id)?.clone())));
            own_tables.extend(theirs);
        }
        let Some(own) = self.transaction.as_ref().and_then(|t| t.catalog.clone()) else {
            return Ok(own_tables);
        };
        for table in plan.tables().filter(|table| own.has_changed(table.id)) {
            let rows = self.all_rows(table).await?;
            own_tables.insert(table.id, rows.into_iter().map(|row| row.values).collect());
        }
        Ok(own_tables)
    }

    /// All rows of a result inside a statement, accounted until its end.
    pub(super) async fn collected(&mut self, stream: &mut RowStream) -> SqlResult<Vec<Vec<Datum>>> {
        let memory = self.gateway.rows_memory("rows of a query inside a statement");
        let rows = stream.collect_within(&memory).await?;
        self.hold_read(memory);
        Ok(rows)
    }

    /// All rows of a query inside a statement, whose first columns are to be assigned to some of these types.
    pub(super) async fn query_values(
        &mut self,
        query: &ast::Query,
        parameters: &[Datum],
        wanted: &[DataType],
    ) -> SqlResult<Vec<Vec<Datum>>> {
        let statement = Statement::Query(Box::new(query.clone()));
        let catalog = self.catalog();
        let mut types = ParameterTypes(parameters.iter().map(sql::types::type_of).collect());
        // Rows found by key are validated row by row, columns as a whole.
        let planning = || super::plan::plan(&self.context(&catalog), &statement, &mut types);
        let plan = sql::interrupt::during(&self.cancel, planning)?;
        match Box::pin(self.run(&plan, parameters)).await? {
            Response::Rows(mut rows) => {
                let mut collected = self.collected(&mut rows.stream).await?;
                let types = rows.columns.iter().map(|column| column.data_type).zip(wanted.iter().copied());
                super::zoned::cast_rows(&mut collected, types, self.settings.zone)?;
                Ok(collected)
            }
            _ => Err(SqlError::internal("a query answers rows")),
        }
    }
}

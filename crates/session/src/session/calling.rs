//! A procedure inside a transaction block: run at the gateway, over rows at the block's cut.
//!
//! Outside a block a procedure travels to its rows. Inside one, what it declares is read first, its halves run
//! over that, and what it writes joins the block's buffer: it is validated with the rest at COMMIT. KEEPS: a
//! procedure sees the block's own writes, and nothing that it did not declare.

use super::Session;
use super::attempts::Attempts;
use super::read::Wanted;
use super::transaction::SeenRow;
use crate::response::{Response, RowStream, Rows};
use crate::session::plan::CallPlan;
use base::error::SqlResult;
use base::key::KeyRange;
use base::schema::{Catalog, stale_schema};
use base::txn::procedure::{Exchange, ProcedureContext, RowAccess, RowView};
use base::txn::{AccessMode, AccessSet, Granule, TxnProgram};
use base::{Datum, Key, PartitionId, Row, SqlError, TableId};
use node::message::Call;
use node::request::{ReadingCall, Reply, Request};
use sql::lower::bind::Binding;
use sql::lower::keys::{Reach, Reached};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a procedure declared to touch at one partition.
struct View<'a> {
    catalog: &'a Catalog,
    rows: BTreeMap<(TableId, Key), Row>,
    /// Rows before the procedure wrote them.
    written: BTreeMap<(TableId, Key), Option<Row>>,
}

impl Session {
    /// `CALL`: outside a transaction block one ordered transaction.
    pub(super) async fn run_call(&mut self, plan: &CallPlan, parameters: &[Datum]) -> SqlResult<Response> {
        let in_block = self.transaction.is_some();
        self.refuse_if_read_only("CALL")?;
        let (gateway, catalog) = (self.gateway.clone(), self.catalog());
        let binding = Binding {
            parameters,
            times: self.times(),
            generators: &gateway.node.generators,
            catalog: &catalog,
        };
        let mut args = Vec::with_capacity(plan.arguments.len());
        for (expr, data_type) in &plan.arguments {
            args.push(data_type.coerce(binding.value(expr)?)?);
        }
        let mut access = plan.procedure.declare(&args, &catalog, gateway.cluster.topology())?;
        access.normalize();
        super::foreign_keys::refuse_procedure(&catalog, &access)?;
        let name = plan.procedure.name().to_string();
        let rows: Vec<Row> = match reads_only(&access) {
            _ if in_block => Box::pin(self.call_in_block(plan, &args, &access, &catalog)).await?,
            None if super::foreign_keys::concern_writes(&catalog, &access) => {
                let mut attempts = Attempts::default();
                loop {
                    self.begin_attempt(false, &attempts).await;
                    let result = Box::pin(self.call_in_block(plan, &args, &access, &catalog)).await;
                    if let Some(rows) = self.settle(result, &mut attempts).await? {
                        break rows;
                    }
                }
            }
            Some(partition) => {
                let access = access.by_partition.remove(&partition).unwrap_or_default();
                self.call_reading(partition, Call { name, args, access }).await?
            }
            None => {
                let _passed = self.pass_remote(&access).await;
                let results = self.submit(TxnProgram::Procedure { name, args }, access).await?;
                results.into_iter().flat_map(|r| r.rows).collect()
            }
        };
        if plan.columns.is_empty() {
            return Ok(Response::Command("CALL".into()));
        }
        let rows = rows.into_iter().map(|row| row.to_vec()).collect();
        Ok(Response::Rows(Rows {
            columns: plan.columns.clone(),
            stream: RowStream::values(rows),
            tag: "CALL",
        }))
    }

    /// A procedure that only reads needs no place in the order: it reads a strong cut.
    async fn call_reading(&mut self, partition: PartitionId, call: Call) -> SqlResult<Vec<Row>> {
        let request = Request::Call(ReadingCall { partition, call, token: self.token.clone() });
        match self.read_from_node(request).await? {
            Reply::Rows(rows) => {
                let rows = rows?;
                self.saw(&rows.token);
                self.freshness = Some(rows.freshness);
                Ok(rows.reads.into_iter().flatten().map(|(_, row)| row).collect())
            }
            _ => Err(super::wrong_reply()),
        }
    }

    /// Runs a procedure in the open block; answers its rows.
    pub(super) async fn call_in_block(
        &mut self,
        plan: &CallPlan,
        args: &[Datum],
        access: &AccessSet,
        catalog: &Arc<Catalog>,
    ) -> SqlResult<Vec<Row>> {
        self.pinned().await?;
        let mark = self.open().mark();
        let mut views = BTreeMap::new();
        for (&partition, accesses) in &access.by_partition {
            let granules = accesses.iter().map(|a| &a.granule);
            views.insert(partition, self.view(partition, granules, catalog).await?);
        }
        let gateway = self.gateway.clone();
        let topology = gateway.cluster.topology();
        let context = |partition| ProcedureContext { partition, catalog, topology };
        let mut exchange = Exchange::new();
        for (&partition, view) in &views {
            exchange.insert(partition, plan.procedure.gather(args, &context(partition), view)?);
        }
        let mut answer = Vec::new();
        for (&partition, view) in &mut views {
            answer.extend(plan.procedure.apply(args, &context(partition), &exchange, view));
        }
        for view in views.into_values() {
            for ((id, key), before) in &view.written {
                let table = catalog.table(*id).ok_or_else(stale_schema)?;
                let after = view.rows.get(&(*id, key.clone())).map(|row| table.complete(row));
                if let Some(values) = &after {
                    sql::lower::insert::check_row(table, values)?;
                }
                match (before, after) {
                    (Some(before), after) => {
                        let before = Arc::new(table.complete(before));
                        self.open().change(table, key.clone(), &before, after)?;
                    }
                    (None, Some(after)) => self.open().insert(table, key.clone(), after)?,
                    (None, None) => {}
                }
            }
        }
        self.keep_foreign_keys(mark).await?;
        Ok(answer)
    }

    async fn view<'a>(
        &mut self,
        partition: PartitionId,
        granules: impl Iterator<Item = &Granule>,
        catalog: &'a Arc<Catalog>,
    ) -> SqlResult<View<'a>> {
        let mut wanted: BTreeMap<TableId, BTreeSet<KeyRange>> = BTreeMap::new();
        for granule in granules {
            let (id, range) = match granule {
                Granule::Key(id, key) => (*id, KeyRange::point(key.clone())),
                Granule::Range(id, range) => (*id, range.clone()),
                Granule::Partition => {
                    return Err(SqlError::unsupported("this procedure inside a transaction block"));
                }
            };
            wanted.entry(id).or_default().insert(range);
        }
        let mut view = View { catalog, rows: BTreeMap::new(), written: BTreeMap::new() };
        for (id, ranges) in wanted {
            let (table, index) = match (catalog.table(id), catalog.index(id)) {
                (Some(table), _) => (table, None),
                (None, Some((table, index))) => (table, Some(index)),
                (None, None) => return Err(stale_schema()),
            };
            let reach = |range| Reach { range, partitions: vec![partition] };
            let reached = Reached { reaches: ranges.into_iter().map(reach).collect(), is_exact: true };
            let wanted = Wanted {
                table,
                index,
                reached: &reached,
                filter: None,
                descending: false,
                limit: None,
                columns: None,
                is_rewritten: true,
            };
            let rows: Vec<SeenRow> = self.read_seen(&wanted).await?;
            let here = |row: SeenRow| ((table.id, row.key), Row::of(&row.values));
            view.rows.extend(rows.into_iter().map(here));
        }
        Ok(view)
    }
}

impl View<'_> {
    fn in_table(&self, table: TableId) -> impl DoubleEndedIterator<Item = (&Key, &Row)> {
        let low = (table, Key::new());
        let high = (TableId(table.0 + 1), Key::new());
        self.rows.range(low..high).map(|((_, key), row)| (key, row))
    }

    fn remember(&mut self, table: TableId, key: &Key) {
        let before = self.rows.get(&(table, key.clone())).cloned();
        self.written.entry((table, key.clone())).or_insert(before);
    }
}

impl RowView for View<'_> {
    fn get(&self, table: TableId, key: &Key) -> Option<Row> {
        self.rows.get(&(table, key.clone())).cloned()
    }
    fn scan(
        &self,
        table: TableId,
        range: &KeyRange,
        descending: bool,
        visit: &mut dyn FnMut(&Key, &Row) -> bool,
    ) {
        let mut found: Vec<_> = self.in_table(table).filter(|(key, _)| range.contains(key)).collect();
        if descending {
            found.reverse();
        }
        found.into_iter().all(|(key, row)| visit(key, row));
    }
    fn scan_index(
        &self,
        index: TableId,
        range: &KeyRange,
        descending: bool,
        visit: &mut dyn FnMut(&Key, &Row) -> bool,
    ) {
        let Some((table, index)) = self.catalog.index(index) else { return };
        let rows = self.in_table(table.id);
        let entries = rows.map(|(key, row)| (table.index_entry_of_row(index, row, key), key, row));
        let mut found: Vec<_> = entries.filter(|(entry, ..)| range.contains(entry)).collect();
        found.sort_by(|a, b| a.0.cmp(&b.0));
        if descending {
            found.reverse();
        }
        found.into_iter().all(|(_, key, row)| visit(key, row));
    }
}

impl RowAccess for View<'_> {
    fn write(&mut self, table: TableId, key: Key, row: Option<Row>) {
        self.remember(table, &key);
        match row {
            Some(row) => _ = self.rows.insert((table, key), row),
            None => _ = self.rows.remove(&(table, key)),
        }
    }
}

/// The one partition at which a call reads, if it does nothing else.
fn reads_only(access: &AccessSet) -> Option<PartitionId> {
    let mut partitions = access.by_partition.iter();
    match (partitions.next(), partitions.next()) {
        (Some((partition, accesses)), None) => {
            accesses.iter().all(|a| a.mode == AccessMode::Read).then_some(*partition)
        }
        _ => None,
    }
}

//! Reads by rows, at a cut of their own or at the open transaction's.

use super::transaction::SeenRow;
use super::{Session, wrong_reply};
use crate::lower::Projection;
use crate::lower::bind::Binding;
use crate::lower::keys::Reached;
use crate::lower::select::RowSelectPlan;
use crate::response::{Response, RowStream, Rows};
use base::error::{SqlResult, SqlState};
use base::expr::Expr;
use base::key::KeyRange;
use base::schema::{Index, Table};
use base::txn::RowRead;
use base::{Datum, Key, PartitionId, Row, SqlError};
use node::request::{PinId, ReadRows, Reply, Request};
use std::cmp::Ordering;
use std::sync::Arc;

/// What to read of one table.
pub(super) struct Wanted<'a> {
    pub table: &'a Arc<Table>,
    pub index: Option<&'a Index>,
    pub reached: &'a Reached,
    pub filter: Option<Expr>,
    pub descending: bool,
    /// At most so many rows per range, in key order.
    pub limit: Option<u64>,
}

impl Session {
    /// Runs a SELECT that is answered from rows.
    pub(super) async fn run_rows(
        &mut self,
        plan: &RowSelectPlan,
        parameters: &[Datum],
    ) -> SqlResult<Response> {
        let gateway = self.gateway.clone();
        let catalog = self.catalog();
        let binding = Binding { parameters, now_us: self.now_us(), gateway: &gateway, catalog: &catalog };
        let reached = plan.path.reach(
            &plan.table,
            &binding,
            gateway.cluster.topology(),
            Some(gateway.cluster.region()),
        )?;
        let filter = plan.filter(&reached, &binding)?;
        let limit = count(plan.limit.as_ref(), &binding, "LIMIT")?;
        let offset = count(plan.offset.as_ref(), &binding, "OFFSET")?.unwrap_or(0);
        let is_one_range = reached.reaches.len() == 1 && reached.reaches[0].partitions.len() == 1;
        let natural = plan.natural.filter(|_| is_one_range || plan.order.is_empty());
        let wanted = Wanted {
            table: &plan.table,
            index: plan.index.as_ref(),
            reached: &reached,
            filter,
            descending: natural.unwrap_or(false),
            limit: limit.filter(|_| natural.is_some()).map(|l| l.saturating_add(offset)),
        };
        // The point read out of a transaction: one request, no bookkeeping.
        let mut rows = if self.transaction.is_none() {
            self.fetch(&wanted).await?
        } else {
            self.read_seen(&wanted, plan.for_update).await?
        };
        if !plan.aggregates.is_empty() {
            let results = plan
                .aggregates
                .iter()
                .map(|a| a.filled(&binding)?.over(rows.iter().map(|row| row.values.as_slice())))
                .collect::<SqlResult<Vec<_>>>()?;
            rows = vec![SeenRow { key: Key::new(), values: Arc::new(results) }];
        } else if natural.is_none() {
            sort(&mut rows, plan, &binding)?;
        }
        let kept = rows.into_iter().skip(offset as usize).take(limit.map_or(usize::MAX, |l| l as usize));
        let values = if plan.projection.is_identity {
            kept.map(|row| Arc::unwrap_or_clone(row.values)).collect()
        } else {
            let filled;
            let exprs = if plan.projection.has_holes {
                filled = binding.fill_all(&plan.projection.exprs)?;
                &filled
            } else {
                &plan.projection.exprs
            };
            kept.map(|row| exprs.iter().map(|e| e.eval(&row.values)).collect())
                .collect::<SqlResult<Vec<_>>>()?
        };
        Ok(Response::Rows(Rows {
            columns: plan.projection.columns.clone(),
            stream: RowStream::values(values),
            tag: "SELECT",
        }))
    }

    /// SELECT without FROM.
    pub(super) fn run_constant(&self, projection: &Projection, parameters: &[Datum]) -> SqlResult<Response> {
        let catalog = self.catalog();
        let binding =
            Binding { parameters, now_us: self.now_us(), gateway: &self.gateway, catalog: &catalog };
        let row = projection.exprs.iter().map(|e| binding.value(e)).collect::<SqlResult<Vec<_>>>()?;
        Ok(Response::Rows(Rows {
            columns: projection.columns.clone(),
            stream: RowStream::values(vec![row]),
            tag: "SELECT",
        }))
    }

    /// Rows at a cut chosen for this statement, or at the pinned one.
    async fn fetch(&mut self, wanted: &Wanted<'_>) -> SqlResult<Vec<SeenRow>> {
        let mut reads = Vec::new();
        for reach in &wanted.reached.reaches {
            for &partition in &reach.partitions {
                reads.push(wanted.read(partition, reach.range.clone()));
            }
        }
        let rows = self.request_rows(reads).await?;
        Ok(rows.into_iter().flatten().map(|(key, row)| wanted.seen(key, &row)).collect())
    }

    /// Rows in the open transaction, recorded as read.
    pub(super) async fn read_seen(
        &mut self,
        wanted: &Wanted<'_>,
        for_update: bool,
    ) -> SqlResult<Vec<SeenRow>> {
        if for_update && self.transaction.as_ref().is_some_and(|t| t.read_only) {
            return Err(SqlError::new(
                SqlState::READ_ONLY_SQL_TRANSACTION,
                "cannot execute SELECT FOR UPDATE in a read-only transaction",
            ));
        }
        let table = wanted.table;
        // Rows of the buffer may take the place of rows beyond the limit.
        let is_written = self.transaction.as_ref().is_some_and(|t| t.writes_to(table.id));
        let limit = wanted.limit.filter(|_| !is_written);
        let mut reads = Vec::new();
        let mut reaches = Vec::new();
        for reach in &wanted.reached.reaches {
            for &partition in &reach.partitions {
                let mut read = wanted.read(partition, reach.range.clone());
                read.limit = limit;
                reads.push(read);
                reaches.push((partition, &reach.range));
            }
        }
        let answered = self.request_rows(reads).await?;
        let transaction = self.transaction.as_mut().expect("an open transaction");
        let mut all = Vec::new();
        let mut merged: Vec<(&KeyRange, Vec<SeenRow>)> = Vec::new();
        for ((partition, range), rows) in reaches.into_iter().zip(answered) {
            let rows: Vec<SeenRow> = rows.into_iter().map(|(key, row)| wanted.seen(key, &row)).collect();
            // A read that stopped at its limit has seen nothing beyond its last row.
            let is_cut_short = limit.is_some_and(|l| rows.len() as u64 >= l && l > 0);
            let read_to = if is_cut_short { wanted.cut_short(range, rows.last()) } else { range.clone() };
            let granule = wanted.index.map_or(table.id, |i| i.id);
            transaction.record_read(partition, granule, read_to);
            if wanted.index.is_some() {
                for row in &rows {
                    transaction.record_read(partition, table.id, KeyRange::point(row.key.clone()));
                }
            }
            match merged.last_mut() {
                Some((last, before)) if *last == range => before.extend(rows),
                _ => merged.push((range, rows)),
            }
        }
        for (range, mut rows) in merged {
            transaction.overlay(table, wanted.index, range, wanted.descending, &mut rows);
            if is_written && let Some(filter) = &wanted.filter {
                let mut kept = Vec::with_capacity(rows.len());
                for row in rows {
                    if filter.holds(&row.values)? {
                        kept.push(row);
                    }
                }
                rows = kept;
            }
            all.extend(rows);
        }
        Ok(all)
    }

    /// Sends reads to the node; inside a transaction at its cut.
    pub(super) async fn request_rows(&mut self, reads: Vec<RowRead>) -> SqlResult<Vec<Vec<(Key, Row)>>> {
        if reads.is_empty() {
            return Ok(Vec::new());
        }
        let at = match self.transaction.is_some() {
            true => Some(self.pinned().await?.1),
            false => None,
        };
        let request = Request::ReadRows(ReadRows {
            at,
            consistency: self.settings.consistency,
            token: self.token.clone(),
            reads,
        });
        match self.gateway.cluster.request(request).await? {
            Reply::Rows(rows) => {
                let rows = rows?;
                self.token.join(&rows.token);
                self.freshness = Some(rows.freshness);
                Ok(rows.reads)
            }
            _ => Err(wrong_reply()),
        }
    }

    /// The open transaction's cut, chosen now if there is none yet.
    pub(super) async fn pinned(&mut self) -> SqlResult<(PinId, base::Rank)> {
        if let Some(pin) = self.transaction.as_ref().expect("an open transaction").pin {
            return Ok(pin);
        }
        let request = Request::Pin { consistency: self.settings.consistency, token: self.token.clone() };
        match self.gateway.cluster.request(request).await? {
            Reply::Pinned(pin) => {
                let pin = pin?;
                self.transaction.as_mut().expect("an open transaction").pin = Some(pin);
                Ok(pin)
            }
            _ => Err(wrong_reply()),
        }
    }
}

impl Wanted<'_> {
    fn read(&self, partition: PartitionId, range: KeyRange) -> RowRead {
        RowRead {
            partition,
            table: self.table.id,
            index: self.index.map(|i| i.id),
            range,
            filter: self.filter.clone(),
            limit: self.limit,
            descending: self.descending,
        }
    }

    fn seen(&self, key: Key, row: &Row) -> SeenRow {
        SeenRow { key, values: Arc::new(self.table.complete(row)) }
    }

    /// What was read of a range when reading stopped after a row.
    fn cut_short(&self, range: &KeyRange, last: Option<&SeenRow>) -> KeyRange {
        let Some(last) = last else { return range.clone() };
        let entry = match self.index {
            None => last.key.clone(),
            Some(index) => self.table.index_entry(index, &last.values, &last.key),
        };
        let mut read = range.clone();
        if self.descending {
            read.low = entry;
        } else {
            read.high = Some(entry.successor());
        }
        read
    }
}

/// A LIMIT or OFFSET; null is none. Errors: 2201W, 2201X.
fn count(expr: Option<&Expr>, binding: &Binding<'_>, what: &str) -> SqlResult<Option<u64>> {
    let Some(expr) = expr else { return Ok(None) };
    match base::DataType::BigInt.coerce(binding.value(expr)?)? {
        Datum::Null => Ok(None),
        value => u64::try_from(value.int()).map(Some).map_err(|_| {
            let state = if what == "LIMIT" { *b"2201W" } else { *b"2201X" };
            SqlError::new(SqlState(state), format!("{what} must not be negative"))
        }),
    }
}

fn sort(rows: &mut Vec<SeenRow>, plan: &RowSelectPlan, binding: &Binding<'_>) -> SqlResult<()> {
    let exprs = plan.order.iter().map(|o| binding.fill(&o.expr)).collect::<SqlResult<Vec<_>>>()?;
    let mut keyed = Vec::with_capacity(rows.len());
    for row in rows.drain(..) {
        let key = exprs.iter().map(|e| e.eval(&row.values)).collect::<SqlResult<Vec<_>>>()?;
        keyed.push((key, row));
    }
    keyed.sort_by(|(a, _), (b, _)| {
        for ((a, b), order) in a.iter().zip(b).zip(&plan.order) {
            let by_null = |null_first: bool| if null_first { Ordering::Less } else { Ordering::Greater };
            let ordering = match (a.is_null(), b.is_null()) {
                (true, true) => Ordering::Equal,
                (true, false) => by_null(order.nulls_first),
                (false, true) => by_null(!order.nulls_first),
                _ => {
                    let ordering = a.compare(b).unwrap_or(Ordering::Equal);
                    if order.descending { ordering.reverse() } else { ordering }
                }
            };
            if ordering != Ordering::Equal {
                return ordering;
            }
        }
        Ordering::Equal
    });
    rows.extend(keyed.into_iter().map(|(_, row)| row));
    Ok(())
}

//! Reads by rows, at a cut of their own or at the open transaction's.

use super::Session;
use super::transaction::{SeenRow, Transaction};
use super::turns::READS_AT_ONCE;
use crate::response::{Response, RowStream, Rows};
use base::cut::Consistency;
use base::error::SqlResult;
use base::expr::Expr;
use base::key::KeyRange;
use base::schema::{Index, Table};
use base::txn::{Isolation, RowRead};
use base::{Datum, Key, PartitionId, Rank, Row, Token};
use node::request::ReadRows;
use sql::lower::Projection;
use sql::lower::bind::Binding;
use sql::lower::keys::{Reach, Reached};
use sql::lower::select::{Order, Output, RowSelectPlan, locking_word};
use std::cmp::Ordering;
use std::sync::Arc;

/// What a row takes besides its bytes: its entry, its vector of values, its place in the answer.
const READ_ROW_BYTES: usize = 240;

/// Reads of less are not counted.
const COUNTED_BYTES_MIN: usize = 64 << 10;

/// What to read of one table.
pub(super) struct Wanted<'a> {
    pub table: &'a Arc<Table>,
    pub index: Option<&'a Index>,
    pub reached: &'a Reached,
    pub filter: Option<Expr>,
    pub descending: bool,
    /// At most so many rows per range, in key order.
    pub limit: Option<u64>,
    /// Columns that are looked at; `None`: all.
    pub columns: Option<&'a Arc<Vec<u16>>>,
    /// Rows will be written as a whole, so all their columns count as read.
    pub is_rewritten: bool,
}

/// The cut that a statement of an open transaction reads at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadAt {
    /// The transaction's.
    Cut,
    /// A new strong one.
    NewCut,
    /// A rank that was told after the statement began and is above all that was answered before; or the
    /// transaction's cut, if that is later.
    Rank(Rank),
}

impl ReadAt {
    /// Not before a rank that was told now.
    pub fn and_rank(self, rank: Rank) -> ReadAt {
        match self {
            ReadAt::Rank(other) => ReadAt::Rank(rank.max(other)),
            // Whatever a new cut would have to hold was answered by then.
            ReadAt::Cut | ReadAt::NewCut => ReadAt::Rank(rank),
        }
    }
}

/// What was found where.
pub(super) struct Looked<'a> {
    /// The cut it was read at.
    at: Rank,
    found: Vec<Found<'a>>,
}

/// Rows of one range at one partition, in key order or its reverse.
struct Found<'a> {
    partition: PartitionId,
    range: &'a KeyRange,
    rows: Vec<SeenRow>,
    /// How many rows were asked for at most.
    limit: Option<u64>,
    /// The transaction's own buffer says all; nothing was asked.
    is_own: bool,
}

impl Session {
    /// Runs a SELECT that is answered from rows.
    pub(super) async fn run_rows(
        &mut self,
        plan: &RowSelectPlan,
        parameters: &[Datum],
    ) -> SqlResult<Response> {
        if plan.is_locking {
            self.refuse_if_read_only(locking_word(plan.lock))?;
        }
        let gateway = self.gateway.clone();
        let catalog = self.catalog();
        let binding = Binding {
            parameters,
            times: self.times(),
            generators: &gateway.node.generators,
            catalog: &catalog,
        };
        let reached = plan.path.reach(
            &plan.table,
            &binding,
            gateway.cluster.topology(),
            Some(gateway.cluster.region()),
        )?;
        let filter = plan.filter(&reached, &binding)?;
        let (limit, offset) = plan.output.bounds(&binding)?;
        let is_one_range = reached.reaches.len() == 1 && reached.reaches[0].partitions.len() == 1;
        let is_ordered = plan.natural.is_some() && (is_one_range || plan.output.order.is_empty());
        let wanted = Wanted {
            table: &plan.table,
            index: plan.index.as_ref(),
            reached: &reached,
            filter,
            descending: plan.natural.unwrap_or(false),
            // The first rows of all are among the first of each range.
            limit: limit.filter(|_| plan.natural.is_some()).map(|l| l.saturating_add(offset)),
            columns: plan.columns.as_ref(),
            // What is locked below SERIALIZABLE may stand for anything in the row: serializable blocks need no such sign.
            is_rewritten: plan.is_locking
                && self.transaction.as_ref().is_some_and(|open| open.reading.level < Isolation::Serializable),
        };
        // The point read out of a transaction: one request, no bookkeeping.
        let rows = if self.transaction.is_none() {
            self.fetch(&wanted).await?
        } else {
            Box::pin(self.read_in_transaction(plan, &wanted)).await?
        };
        respond(&plan.output, &binding, rows, is_ordered)
    }

    /// SELECT without FROM.
    pub(super) fn run_constant(&self, projection: &Projection, parameters: &[Datum]) -> SqlResult<Response> {
        let row = self.constant_row(projection, parameters)?;
        Ok(Response::Rows(Rows {
            columns: projection.columns.clone(),
            stream: RowStream::values(vec![row]),
            tag: "SELECT",
        }))
    }

    /// Values that no table is asked for.
    pub(super) fn constant_row(
        &self,
        projection: &Projection,
        parameters: &[Datum],
    ) -> SqlResult<Vec<Datum>> {
        let catalog = self.catalog();
        let binding = Binding {
            parameters,
            times: self.times(),
            generators: &self.gateway.node.generators,
            catalog: &catalog,
        };
        projection.exprs.iter().map(|e| binding.value(e)).collect()
    }

    /// Rows at a cut chosen for this statement, or at the pinned one.
    async fn fetch(&mut self, wanted: &Wanted<'_>) -> SqlResult<Vec<SeenRow>> {
        let rows = self.request_rows(wanted.reads()).await?;
        Ok(rows.into_iter().flatten().map(|(key, row)| wanted.seen(key, &row)).collect())
    }

    /// Keys of rows, at such a cut.
    pub(super) async fn keys_of(&mut self, wanted: &Wanted<'_>) -> SqlResult<Vec<Key>> {
        let rows = self.request_rows(wanted.reads()).await?;
        Ok(rows.into_iter().flatten().map(|(key, _)| key).collect())
    }

    /// Rows in the open transaction, recorded as read.
    pub(super) async fn read_seen(&mut self, wanted: &Wanted<'_>) -> SqlResult<Vec<SeenRow>> {
        let looked = self.look(wanted, ReadAt::Cut).await?;
        self.record(wanted, looked)
    }

    /// Reads in the open transaction, at its cut or at a new one; nothing is recorded yet.
    pub(super) async fn look<'w>(&mut self, wanted: &Wanted<'w>, read_at: ReadAt) -> SqlResult<Looked<'w>> {
        let at = self.pinned().await?.1;
        let transaction = self.transaction.as_ref().expect("an open transaction");
        let table = wanted.table;
        let (mut reads, mut found) = (Vec::new(), Vec::new());
        for reach in &wanted.reached.reaches {
            let (range, id) = (&reach.range, table.id);
            let point = range.as_point().filter(|_| wanted.index.is_none());
            let is_own = point.is_some_and(|key| transaction.is_buffered(id, key));
            // Rows of the buffer may take the place of as many rows that are found.
            let limit =
                wanted.limit.map(|l| l.saturating_add(transaction.written_in(id, wanted.index, range)));
            for &partition in &reach.partitions {
                if !is_own {
                    reads.push(RowRead { limit, ..wanted.read(partition, range.clone()) });
                }
                found.push(Found { partition, range, rows: Vec::new(), limit, is_own });
            }
        }
        if reads.is_empty() {
            return Ok(Looked { at, found });
        }
        let asked_at = match read_at {
            // A snapshot stays as it is; a row that has changed since ends the transaction when it writes it.
            _ if transaction.reading.level == Isolation::Snapshot => Some(at),
            ReadAt::Cut => Some(at),
            ReadAt::NewCut => None,
            ReadAt::Rank(rank) => Some(rank.max(at)),
        };
        let (at, answered) = self.request_rows_at(reads, asked_at).await?;
        let open = self.open();
        (open.cut, open.reading.seen_at) = (open.cut.max(at), at);
        for (found, rows) in found.iter_mut().filter(|f| !f.is_own).zip(answered) {
            found.rows = rows.into_iter().map(|(key, row)| wanted.seen(key, &row)).collect();
        }
        Ok(Looked { at, found })
    }

    /// Records what was looked at as read, and lays the buffer over it.
    pub(super) fn record(&mut self, wanted: &Wanted<'_>, looked: Looked<'_>) -> SqlResult<Vec<SeenRow>> {
        let transaction = self.transaction.as_mut().expect("an open transaction");
        transaction.check_memory()?;
        for found in looked.found.iter().filter(|f| !f.is_own) {
            // A read that stopped at its limit has seen nothing beyond its last row.
            let is_cut_short = found.limit.is_some_and(|l| found.rows.len() as u64 >= l && l > 0);
            let range = match is_cut_short {
                true => wanted.cut_short(found.range, found.rows.last()),
                false => found.range.clone(),
            };
            let granule = wanted.index.map_or(wanted.table.id, |i| i.id);
            let columns = wanted.columns.filter(|_| wanted.index.is_none() && !wanted.is_rewritten);
            transaction.record_read(found.partition, granule, range, columns, looked.at);
            if wanted.index.is_some() {
                for row in &found.rows {
                    let range = KeyRange::point(row.key.clone());
                    transaction.record_read(found.partition, wanted.table.id, range, None, looked.at);
                }
            }
        }
        transaction.overlaid(wanted, looked)
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
        self.request_rows_at(reads, at).await.map(|(_, rows)| rows)
    }

    /// Sends reads to the node, at a cut or at a new strong one; answers the cut.
    async fn request_rows_at(
        &mut self,
        reads: Vec<RowRead>,
        at: Option<Rank>,
    ) -> SqlResult<(Rank, Vec<Vec<(Key, Row)>>)> {
        let Some(own) = self.transaction.as_ref().and_then(|t| t.catalog.clone()) else {
            return self.ask_rows(reads, at).await;
        };
        let asked: Vec<RowRead> = reads.iter().filter_map(|read| own.stored(read)).collect();
        let (at, answered) = match asked.is_empty() {
            true => (self.open().cut, Vec::new()),
            false => self.ask_rows(asked, at).await?,
        };
        let mut answered = answered.into_iter();
        let mut all = Vec::with_capacity(reads.len());
        for read in &reads {
            let rows = own.stored(read).and_then(|_| answered.next()).unwrap_or_default();
            all.push(own.answer(read, rows)?);
        }
        Ok((at, all))
    }

    /// The same. Many reads of this node's rows at a pinned cut go in parts: a node answers nobody else during a step.
    pub(super) async fn ask_rows(
        &mut self,
        reads: Vec<RowRead>,
        at: Option<Rank>,
    ) -> SqlResult<(Rank, Vec<Vec<(Key, Row)>>)> {
        let (Some(cut), true) = (at, reads.len() > READS_AT_ONCE) else {
            return self.ask_rows_at_once(reads, at).await;
        };
        let (topology, here) = (self.cluster().topology().clone(), self.cluster().node());
        if reads.iter().any(|read| topology.copy_near(read.partition, here) != here) {
            return self.ask_rows_at_once(reads, at).await;
        }
        let mut all = Vec::with_capacity(reads.len());
        for part in reads.chunks(READS_AT_ONCE) {
            all.extend(self.ask_rows_at_once(part.to_vec(), at).await?.1);
        }
        Ok((cut, all))
    }

    async fn ask_rows_at_once(
        &mut self,
        reads: Vec<RowRead>,
        at: Option<Rank>,
    ) -> SqlResult<(Rank, Vec<Vec<(Key, Row)>>)> {
        let (mut consistency, mut token) = (self.level(), self.token.clone());
        if let (None, Some(open)) = (at, &self.transaction)
            && self.settings.merges_epochs()
        {
            // Rows that were locked: what was answered here since is in the region's own state, and COMMIT asks the others.
            consistency = Consistency::Session;
            token.join(&Token::at(open.cut));
        }
        let read = ReadRows { at, consistency, token, reads };
        let rows = self.read_rows(read).await?;
        self.found_rows(rows)
    }

    fn found_rows(&mut self, rows: node::request::Rows) -> SqlResult<(Rank, Vec<Vec<(Key, Row)>>)> {
        self.saw(&rows.token);
        self.count_read(&rows.reads)?;
        self.freshness = Some(rows.freshness);
        Ok((rows.at, rows.reads))
    }

    /// Reserves what rows take once their values are built. Errors: 53200.
    fn count_read(&mut self, reads: &[Vec<(Key, Row)>]) -> SqlResult<()> {
        let rows = reads.iter().flatten();
        let bytes: usize = rows.map(|(key, row)| READ_ROW_BYTES + key.len() + 2 * row.len()).sum();
        if bytes < COUNTED_BYTES_MIN {
            return Ok(());
        }
        self.reserve_read(bytes)
    }
}

impl Transaction {
    /// Rows found, with the buffer over them.
    pub(super) fn overlaid(&self, wanted: &Wanted<'_>, looked: Looked<'_>) -> SqlResult<Vec<SeenRow>> {
        let mut merged: Vec<(&KeyRange, Vec<SeenRow>)> = Vec::new();
        for found in looked.found {
            match merged.last_mut() {
                Some((last, before)) if *last == found.range => before.extend(found.rows),
                _ => merged.push((found.range, found.rows)),
            }
        }
        let mut all = Vec::new();
        for (range, mut rows) in merged {
            let is_changed = self.overlay(wanted.table, wanted.index, range, wanted.descending, &mut rows);
            if is_changed && let Some(filter) = &wanted.filter {
                let mut kept = Vec::with_capacity(rows.len());
                for row in rows {
                    if filter.holds(&row.values)? {
                        kept.push(row);
                    }
                }
                rows = kept;
            }
            if all.is_empty() {
                all = rows;
            } else {
                all.extend(rows);
            }
        }
        Ok(all)
    }
}

impl Looked<'_> {
    /// Whether rows come from several places, each in an order of its own.
    pub(super) fn is_scattered(&self) -> bool {
        self.found.len() > 1
    }
    /// The rows found, where and under which key.
    pub(super) fn rows(&self) -> impl Iterator<Item = (PartitionId, &Key)> {
        self.found.iter().flat_map(|found| found.rows.iter().map(|row| (found.partition, &row.key)))
    }
    /// Takes only rows that `keep` wants.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&SeenRow) -> bool) {
        self.found.iter_mut().for_each(|found| found.rows.retain(&mut keep));
    }
    /// Records the rows found as read, one by one, without what lies between them.
    pub(super) fn record_rows(&self, table: &Table, transaction: &mut Transaction) {
        for found in &self.found {
            for row in &found.rows {
                let range = KeyRange::point(row.key.clone());
                transaction.record_read(found.partition, table.id, range, None, self.at);
            }
        }
    }
}

impl Wanted<'_> {
    /// Every range at every partition that it has to be read at.
    fn reads(&self) -> Vec<RowRead> {
        let reads = |reach: &Reach| {
            let range = reach.range.clone();
            reach.partitions.iter().map(move |&partition| (partition, range.clone())).collect::<Vec<_>>()
        };
        let reads = self.reached.reaches.iter().flat_map(reads);
        reads.map(|(partition, range)| self.read(partition, range)).collect()
    }

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
        let values = match self.columns.filter(|_| self.index.is_none()) {
            Some(columns) => self.table.complete_some(row, columns),
            None => self.table.complete(row),
        };
        SeenRow { key, values: Arc::new(values), packed: Some(row.clone()) }
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

/// Makes the answer of the rows that were found.
pub(super) fn respond(
    output: &Output,
    binding: &Binding<'_>,
    mut rows: Vec<SeenRow>,
    is_ordered: bool,
) -> SqlResult<Response> {
    let (limit, offset) = output.bounds(binding)?;
    if !output.aggregates.is_empty() {
        let results = output
            .aggregates
            .iter()
            .map(|a| a.filled(binding)?.over(rows.iter().map(|row| row.values.as_slice())))
            .collect::<SqlResult<Vec<_>>>()?;
        rows = vec![SeenRow::new(Key::new(), Arc::new(results))];
    } else if !is_ordered {
        sort(&mut rows, &output.order, binding)?;
    }
    let kept = rows.into_iter().skip(offset as usize).take(limit.map_or(usize::MAX, |l| l as usize));
    let projection = &output.projection;
    let values = if projection.is_identity {
        kept.map(|row| Arc::unwrap_or_clone(row.values)).collect()
    } else {
        let one = |row: SeenRow| projection.exprs.iter().map(|e| binding.eval(e, &row.values)).collect();
        kept.map(one).collect::<SqlResult<Vec<_>>>()?
    };
    Ok(Response::Rows(Rows {
        columns: projection.columns.clone(),
        stream: RowStream::values(values),
        tag: "SELECT",
    }))
}

fn sort(rows: &mut Vec<SeenRow>, order: &[Order], binding: &Binding<'_>) -> SqlResult<()> {
    let exprs = order.iter().map(|o| binding.fill(&o.expr)).collect::<SqlResult<Vec<_>>>()?;
    let mut keyed = Vec::with_capacity(rows.len());
    for row in rows.drain(..) {
        let key = exprs.iter().map(|e| e.eval(&row.values)).collect::<SqlResult<Vec<_>>>()?;
        keyed.push((key, row));
    }
    keyed.sort_by(|(a, _), (b, _)| {
        for ((a, b), order) in a.iter().zip(b).zip(order) {
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

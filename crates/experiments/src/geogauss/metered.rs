//! An engine whose executor's work costs its node time.
//!
//! KEEPS: the engine and its executor do what they do; every row that is read, computed, installed or looked at again adds
//! the same to the node's step, whichever engine asks for it.

use base::process::Unreadable;
use base::time::US;
use base::txn::{Applied, Gathered, ReadGranule, Submission, Transaction};
use base::write_set::{Evaluated, WriteSet};
use base::{Key, NodeId, PartitionId, Place, Rank, SqlError, TableId, Time, TxnId};
use sim::world::meter;
use std::collections::BTreeMap;
use txn::engine::{
    Answered, Command, CopyEnded, Engine, EngineEffects, EngineReport, Executor, Question, Record, Unanswered,
};

/// What work on a row takes, in ns.
#[derive(Clone, Copy, Debug)]
pub struct RowCosts {
    /// Finding and reading it.
    pub read_ns: u64,
    /// Computing what it becomes.
    pub compute_ns: u64,
    /// Writing it, with its indexes.
    pub install_ns: u64,
    /// Looking whether it has changed, or is there.
    pub check_ns: u64,
}

pub const ROW_COSTS: RowCosts =
    RowCosts { read_ns: 2 * US, compute_ns: US, install_ns: 2 * US, check_ns: US / 2 };

pub struct Metered<E> {
    pub engine: E,
    pub costs: RowCosts,
}

struct MeteredExecutor<'a> {
    executor: &'a mut dyn Executor,
    costs: RowCosts,
}

impl MeteredExecutor<'_> {
    fn charge(&self, rows: usize, row_ns: u64) {
        meter::add(rows as u64 * row_ns);
    }
}

impl Executor for MeteredExecutor<'_> {
    fn gather(&mut self, partition: PartitionId, transaction: &Transaction) -> Gathered {
        self.charge(transaction.access.at(partition).len(), self.costs.read_ns);
        self.executor.gather(partition, transaction)
    }
    fn apply(
        &mut self,
        partition: PartitionId,
        transaction: &Transaction,
        place: Place,
        exchange: &BTreeMap<PartitionId, Gathered>,
    ) -> Applied {
        let applied = self.executor.apply(partition, transaction, place, exchange);
        self.charge(applied.writes.len(), self.costs.compute_ns + self.costs.install_ns);
        applied
    }
    fn evaluate(&mut self, transaction: &Transaction, at: Rank) -> Result<Evaluated, SqlError> {
        let granules = transaction.access.by_partition.values().map(Vec::len).sum();
        self.charge(granules, self.costs.read_ns);
        let evaluated = self.executor.evaluate(transaction, at)?;
        let rows = evaluated.writes.values().map(|set| set.rows.len()).sum();
        self.charge(rows, self.costs.compute_ns);
        Ok(evaluated)
    }
    fn install(
        &mut self,
        partition: PartitionId,
        place: Place,
        writes: &BTreeMap<PartitionId, WriteSet>,
    ) -> Result<Applied, SqlError> {
        let rows = writes.get(&partition).map_or(0, |set| set.rows.len());
        self.charge(rows, self.costs.install_ns);
        self.executor.install(partition, place, writes)
    }
    fn is_unchanged(&self, read: &ReadGranule) -> bool {
        self.charge(1, self.costs.check_ns);
        self.executor.is_unchanged(read)
    }
    fn is_described_as_at(&self, partition: PartitionId, table: TableId, at: Rank) -> bool {
        self.executor.is_described_as_at(partition, table, at)
    }
    fn has_row(&self, partition: PartitionId, table: TableId, key: &Key) -> bool {
        self.charge(1, self.costs.check_ns);
        self.executor.has_row(partition, table, key)
    }
    fn begin_copy(&mut self, to: NodeId, partitions: &[PartitionId]) {
        self.executor.begin_copy(to, partitions);
    }
    fn next_block(&mut self, to: NodeId) -> Result<Option<(PartitionId, Vec<u8>)>, CopyEnded> {
        self.executor.next_block(to)
    }
    fn end_copy(&mut self, to: NodeId) {
        self.executor.end_copy(to);
    }
    fn forget(&mut self, partition: PartitionId) {
        self.executor.forget(partition);
    }
    fn restore(&mut self, partition: PartitionId, block: &[u8]) {
        self.executor.restore(partition, block);
    }
}

/// Calls the engine with the metered executor.
macro_rules! metered {
    ($self:ident, $executor:ident, |$engine:ident, $inner:ident| $call:expr) => {{
        let Metered { engine: $engine, costs } = $self;
        let $inner = &mut MeteredExecutor { executor: $executor, costs: *costs };
        $call
    }};
}

impl<E: Engine> Engine for Metered<E> {
    type Message = E::Message;

    fn start(&mut self, now: Time, out: &mut EngineEffects<Self>) {
        self.engine.start(now, out);
    }
    fn submit(
        &mut self,
        now: Time,
        submission: Submission,
        executor: &mut dyn Executor,
        out: &mut EngineEffects<Self>,
    ) -> TxnId {
        metered!(self, executor, |engine, inner| engine.submit(now, submission, inner, out))
    }
    fn message(
        &mut self,
        now: Time,
        from: NodeId,
        message: Self::Message,
        executor: &mut dyn Executor,
        out: &mut EngineEffects<Self>,
    ) {
        metered!(self, executor, |engine, inner| engine.message(now, from, message, inner, out))
    }
    fn next_wake(&self) -> Option<Time> {
        self.engine.next_wake()
    }
    fn goes_on(&self) -> bool {
        self.engine.goes_on()
    }
    fn wake(&mut self, now: Time, executor: &mut dyn Executor, out: &mut EngineEffects<Self>) {
        metered!(self, executor, |engine, inner| engine.wake(now, inner, out))
    }
    fn ask(
        &mut self,
        now: Time,
        question: Question,
        executor: &mut dyn Executor,
        out: &mut EngineEffects<Self>,
    ) -> Result<Option<Answered>, Unanswered> {
        metered!(self, executor, |engine, inner| engine.ask(now, question, inner, out))
    }
    fn admin(
        &mut self,
        now: Time,
        command: Command,
        executor: &mut dyn Executor,
        out: &mut EngineEffects<Self>,
    ) -> Result<TxnId, SqlError> {
        metered!(self, executor, |engine, inner| engine.admin(now, command, inner, out))
    }
    fn hand_over(&mut self, now: Time, executor: &mut dyn Executor, out: &mut EngineEffects<Self>) {
        metered!(self, executor, |engine, inner| engine.hand_over(now, inner, out))
    }
    fn leads(&self) -> usize {
        self.engine.leads()
    }
    fn set_floor(&mut self, floor: Option<Rank>) {
        self.engine.set_floor(floor);
    }
    fn resume(&mut self, now: Time, incarnation: u32, out: &mut EngineEffects<Self>) {
        self.engine.resume(now, incarnation, out);
    }
    fn stable(
        &mut self,
        now: Time,
        records: u64,
        executor: &mut dyn Executor,
        out: &mut EngineEffects<Self>,
    ) {
        metered!(self, executor, |engine, inner| engine.stable(now, records, inner, out))
    }
    fn image(&self) -> Vec<u8> {
        self.engine.image()
    }
    fn restore(&mut self, image: &[u8]) -> Result<(), Unreadable> {
        self.engine.restore(image)
    }
    fn replay(&mut self, record: Record, executor: &mut dyn Executor) -> Result<(), Unreadable> {
        metered!(self, executor, |engine, inner| engine.replay(record, inner))
    }
    fn recovered(&mut self) -> Time {
        self.engine.recovered()
    }
    fn absent(&self) -> Option<SqlError> {
        self.engine.absent()
    }
    fn report(&self) -> EngineReport {
        self.engine.report()
    }
}

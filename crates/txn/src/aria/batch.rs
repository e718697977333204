//! A batch: executed at the state before it, then committed.

use super::{Aria, Long, Message, Out};
use crate::engine::{Applied, EngineEffect, Executor};
use crate::geogauss::merge::{
    Candidate, Claim, Conflict, Isolation, Loss, Precedence, Rule, Snapshot, merge,
};
use crate::geogauss::message::Epoch;
use crate::share::{Share, merge as joined};
use base::commit::CommitRecord;
use base::order::StreamItem;
use base::txn::{Gathered, Outcome, StatementResult, Transaction};
use base::write_set::{Evaluated, WriteSet};
use base::{Key, Place, Rank, SqlError, TableId, Time, TxnId};
use std::collections::BTreeMap;

/// What a transaction would do.
#[derive(Clone, Debug)]
pub(super) struct Evaluation {
    transaction: Transaction,
    does: Does,
}

#[derive(Clone, Debug)]
enum Does {
    Write(Evaluated),
    /// A change of the catalog, which is executed at its place.
    ChangeCatalog,
    Fail(SqlError),
}

impl Evaluation {
    /// The place in the batch decides between two; changes of the catalog come first, alone.
    fn candidate(&self, nth: usize) -> Candidate<(TableId, Key)> {
        let claim = match &self.does {
            Does::Write(evaluated) => {
                let items = evaluated.writes.values().flat_map(WriteSet::items);
                Claim::Items(items.map(|(table, key)| (table, key.clone())).collect())
            }
            Does::ChangeCatalog => Claim::Catalog,
            Does::Fail(_) => Claim::Items(Vec::new()),
        };
        let changes_catalog = matches!(self.does, Does::ChangeCatalog);
        let csn = (nth as u64, self.transaction.id.coordinator);
        let precedence = Precedence::new(changes_catalog, Epoch(0), csn);
        Candidate { precedence, level: Isolation::Serializable, claim }
    }
}

impl Aria {
    /// Executes a batch that is complete; answers how long that lasts beside the work, and what it would do.
    pub(super) fn execute(&mut self, number: u64, executor: &mut dyn Executor) -> (u64, Vec<Evaluation>) {
        let mut all = std::mem::take(&mut self.carried);
        for member in self.members.values_mut() {
            let (_, transactions) = member.batches.get_mut(&number).expect("the batch is complete");
            all.append(transactions);
        }
        let lasts_ns = |long: Long| {
            let is_long = |txn: &Transaction| txn.id.sequence.is_multiple_of(long.every);
            if all.iter().any(is_long) { long.lasts_ns } else { 0 }
        };
        let lasts_ns = self.options.long.map_or(0, lasts_ns);
        let evaluate = |transaction: Transaction| {
            let does = match transaction.program.schema_change() {
                Some(_) => Does::ChangeCatalog,
                None => match executor.evaluate(&transaction, self.rank) {
                    Ok(evaluated) => Does::Write(evaluated),
                    Err(error) => Does::Fail(error),
                },
            };
            Evaluation { transaction, does }
        };
        (lasts_ns, all.into_iter().map(evaluate).collect())
    }

    pub(super) fn commit(
        &mut self,
        now: Time,
        number: u64,
        batch: Vec<Evaluation>,
        executor: &mut dyn Executor,
        out: &mut Out,
    ) {
        let closed = self.members.values_mut().map(|member| member.batches.remove(&number));
        let closed_at = closed.map(|batch| batch.expect("the batch is complete").0).max();
        let closed_at = closed_at.expect("this node is a member");
        let before = self.rank;
        self.rank = closed_at.rank().max(before.next());
        let candidates: Vec<_> = batch.iter().enumerate().map(|(n, of)| of.candidate(n)).collect();
        let mut ends = vec![None; batch.len()];
        let has_changed = false;
        let mut state = State { aria: self, batch: &batch, executor, ends: &mut ends, has_changed, out };
        let decisions = merge(Rule::Reserved, &candidates, &mut state);
        let rank = self.rank;
        for ((Evaluation { transaction, .. }, decision), end) in batch.into_iter().zip(decisions).zip(ends) {
            let outcome = match decision {
                Ok(()) => end.expect("who commits has an outcome"),
                Err(Loss::Failed(error)) => Outcome::Aborted(*error),
                Err(_) => {
                    self.counts.losses += 1;
                    self.carried.push(transaction);
                    continue;
                }
            };
            self.counts.commits += u64::from(outcome.is_committed());
            self.answer(now, (transaction.id, rank), outcome, closed_at);
        }
        self.committed = number;
        self.say_low(out);
        let below = self.floors.readers.map_or(before, |floor| floor.min(before));
        if below > self.floors.collected {
            self.floors.collected = below;
            out.push(EngineEffect::Collected { below });
        }
    }

    fn log_record(
        &mut self,
        (txn, rank): (TxnId, Rank),
        partition: base::PartitionId,
        applied: Applied,
        out: &mut Out,
    ) -> Vec<StatementResult> {
        let position = self.position(partition, rank);
        let Applied { results, writes, schema } = applied;
        let record = CommitRecord { txn, rank, partition, position, writes, schema };
        out.push(EngineEffect::Stream { partition, item: StreamItem::Record(record) });
        results
    }
}

/// The state before the batch, and what it becomes.
struct State<'a> {
    aria: &'a mut Aria,
    batch: &'a [Evaluation],
    executor: &'a mut dyn Executor,
    ends: &'a mut [Option<Outcome>],
    /// The catalog: what was evaluated before is evaluated anew in the next batch.
    has_changed: bool,
    out: &'a mut Vec<EngineEffect<Message>>,
}

impl Snapshot for State<'_> {
    fn admit(&mut self, nth: usize) -> Result<(), Loss> {
        match &self.batch[nth].does {
            Does::Fail(error) => Err(Loss::Failed(Box::new(error.clone()))),
            Does::Write(_) if self.has_changed => Err(Loss::Conflict(Conflict::Catalog)),
            _ => Ok(()),
        }
    }
    // Everything was evaluated at this very state.
    fn fits(&mut self, _: usize) -> bool {
        true
    }
    fn is_first_writer(&mut self, _: usize) -> bool {
        true
    }
    fn reads_hold(&mut self, nth: usize) -> bool {
        match &self.batch[nth].does {
            Does::Write(evaluated) => evaluated.reads.iter().all(|read| self.executor.is_unchanged(read)),
            _ => true,
        }
    }
    fn commit(&mut self, nth: usize) -> Result<(), Loss> {
        let Evaluation { transaction, does } = &self.batch[nth];
        let (txn, rank): (TxnId, Rank) = (transaction.id, self.aria.rank);
        let place = Place::new(rank, txn);
        let results = match does {
            Does::Write(Evaluated { results, writes, .. }) => {
                for &partition in writes.keys() {
                    let applied = self.executor.install(partition, place, writes);
                    // A table has changed its description: the next batch evaluates it anew.
                    let applied = applied.map_err(|_| Loss::Conflict(Conflict::Catalog))?;
                    self.aria.log_record((txn, rank), partition, applied, self.out);
                }
                results.clone().into_iter().collect()
            }
            _ => {
                let results = self.change_catalog(transaction, place)?;
                self.has_changed = true;
                results
            }
        };
        self.ends[nth] = Some(joined(std::iter::once(Share::Committed(results))));
        Ok(())
    }
}

impl State<'_> {
    fn change_catalog(
        &mut self,
        transaction: &Transaction,
        place: Place,
    ) -> Result<Vec<(base::PartitionId, Vec<StatementResult>)>, Loss> {
        let gather = |partition| (partition, self.executor.gather(partition, transaction));
        let gathered: BTreeMap<_, Gathered> = transaction.participants().map(gather).collect();
        if let Some(error) = Gathered::abort_of(gathered.values()) {
            return Err(Loss::Failed(Box::new(error.clone())));
        }
        let mut results = Vec::new();
        for partition in transaction.participants() {
            let applied = self.executor.apply(partition, transaction, place, &gathered);
            let id = (transaction.id, place.rank);
            results.push((partition, self.aria.log_record(id, partition, applied, self.out)));
        }
        Ok(results)
    }
}

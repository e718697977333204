//! Aria (Lu, Yu, Cao, Madden, VLDB 2020) with a copy of everything in every region: a baseline for experiments, which no
//! cluster of the product can choose. `experiments` runs it beside GeoGauss and Calvin.
//!
//! IN: submissions at any member, messages of other members, closes of readers. OUT: rows through the [`Executor`],
//! answers, each partition's stream. KEEPS:
//! 1. every member executes the same batches in the same order, so the state after a batch is the same everywhere;
//! 2. the transactions of a batch are evaluated at the state before it, and those that commit are serialisable in the
//!    order of the batch: a row has one writer, and nobody reads what an earlier one has written;
//! 3. a transaction that does not commit comes first in the next batch, so each commits or fails in the end;
//! 4. an answer follows the commit of its batch here, hence the end of that batch at every member.
//!
//! Members exchange what clients ask for, not what it writes: a batch is what every member has sent under its number. The
//! paper's three steps are here: *execution* at the last snapshot, *reservation* of writes (WAW), and the check of reads
//! (RAW), both by [`crate::geogauss::merge`] under `Rule::Reserved`. In Aria's favour a read is held against those that commit, and not
//! against those that reserve. Its reordering is not here.
//!
//! [`Barriers::Phases`] is how the published implementation runs several nodes: nobody commits a batch before all have
//! executed it, nor takes the next before all have committed. [`Barriers::None`] is the same without waiting for anybody
//! but for what is in the batch, which full copies allow.
//!
//! Short cuts of a baseline: links lose nothing and keep their order, nobody crashes, requests have no names.

mod batch;
#[cfg(test)]
mod tests;

use crate::engine::{
    Answer, Answered, Command, Engine, EngineEffect, EngineEffects, EngineReport, Executor, Question,
    Unanswered,
};
use crate::gate::ReplyGate;
use base::order::{Calibration, CloseTicket, Closed, StreamItem};
use base::time::MS;
use base::topology::Topology;
use base::txn::{Outcome, Submission, Transaction};
use base::{LogPosition, NodeId, PartitionId, Rank, SqlError, Time, TxnId};
use batch::Evaluation;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What members wait for between the steps of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Barriers {
    /// All members have executed before any commits, all have committed before any takes the next batch.
    #[default]
    Phases,
    None,
}

/// Some transactions take longer than their work: so long, each `every`-th of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Long {
    pub every: u64,
    pub lasts_ns: u64,
}

#[derive(Clone, Debug)]
pub struct Options {
    /// A member takes a batch no more often than this, in ns.
    pub batch_ns: u64,
    pub barriers: Barriers,
    pub long: Option<Long>,
}

impl Default for Options {
    fn default() -> Self {
        Options { batch_ns: 10 * MS, barriers: Barriers::Phases, long: None }
    }
}

/// What members tell each other, each to all others.
///
/// | message | carries | when |
/// |---|---|---|
/// | `Batch` | what clients of the member have asked for since its last one, and its clock | each `batch_ns` |
/// | `Executed` | | it has executed the batch |
/// | `Committed` | | it has committed the batch |
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    Batch { number: u64, closed_at: Time, transactions: Vec<Transaction> },
    Executed { number: u64 },
    Committed { number: u64 },
}

/// How far a member is, as another knows it.
#[derive(Clone, Debug, Default)]
struct Member {
    batches: BTreeMap<u64, (Time, Vec<Transaction>)>,
    executed: u64,
    committed: u64,
}

#[derive(Clone, Debug)]
pub struct Aria {
    topology: Arc<Topology>,
    me: NodeId,
    options: Options,
    clients: Clients,
    members: BTreeMap<NodeId, Member>,
    /// The last batch that this member has closed, and when it may close the next.
    closed: u64,
    next_close: Time,
    /// The last batch that is committed here, its rank, and what did not commit in it.
    committed: u64,
    rank: Rank,
    carried: Vec<Transaction>,
    /// The batch after that, evaluated; its transactions take until then.
    executing: Option<(Time, Vec<Evaluation>)>,
    logs: Vec<(LogPosition, Rank)>,
    waiting: VecDeque<(Rank, CloseTicket, PartitionId)>,
    floors: Floors,
    counts: Counts,
}

/// This member's clients.
#[derive(Clone, Debug, Default)]
struct Clients {
    incarnation: u32,
    named: u64,
    /// Asked for since the last batch.
    queue: Vec<Transaction>,
    submitted_at: BTreeMap<TxnId, Time>,
    gate: ReplyGate,
    gate_at: Option<Time>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Floors {
    /// The least cut that a reader uses.
    readers: Option<Rank>,
    /// Versions below are given up.
    collected: Rank,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    commits: u64,
    losses: u64,
}

type Out = Vec<EngineEffect<Message>>;

impl Aria {
    pub fn new(topology: Arc<Topology>, me: NodeId, incarnation: u32, options: Options) -> Aria {
        let members = topology.node_ids().map(|node| (node, Member::default())).collect();
        let logs = vec![(LogPosition(0), Rank::ZERO); topology.partitions.len()];
        Aria {
            topology,
            me,
            options,
            clients: Clients { incarnation, ..Clients::default() },
            members,
            closed: 0,
            next_close: Time::ZERO,
            committed: 0,
            rank: Rank::ZERO,
            carried: Vec::new(),
            executing: None,
            logs,
            waiting: VecDeque::new(),
            floors: Floors::default(),
            counts: Counts::default(),
        }
    }
    /// Transactions that have committed, and evaluations that have not.
    pub fn counts(&self) -> (u64, u64) {
        (self.counts.commits, self.counts.losses)
    }
    /// The last batch that is committed here.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    fn tell_all(&mut self, message: Message, out: &mut Out) {
        let others = self.members.keys().filter(|node| **node != self.me);
        out.extend(others.map(|to| EngineEffect::Send { to: *to, message: message.clone() }));
        self.heard(self.me, message);
    }
    fn heard(&mut self, from: NodeId, message: Message) {
        let Some(member) = self.members.get_mut(&from) else { return };
        match message {
            Message::Batch { number, closed_at, transactions } => {
                member.batches.insert(number, (closed_at, transactions));
            }
            Message::Executed { number } => member.executed = number,
            Message::Committed { number } => member.committed = number,
        }
    }
    fn all(&self, of: impl Fn(&Member) -> bool) -> bool {
        self.members.values().all(of)
    }
    fn waits_for_others(&self) -> bool {
        self.options.barriers == Barriers::Phases
    }

    /// Closes its own batch if it is time.
    fn close(&mut self, now: Time, out: &mut Out) {
        let is_taken = !self.waits_for_others() || self.all(|member| member.committed == self.closed);
        if now < self.next_close || !is_taken {
            return;
        }
        self.closed += 1;
        self.next_close = now + self.options.batch_ns;
        let transactions = std::mem::take(&mut self.clients.queue);
        self.tell_all(Message::Batch { number: self.closed, closed_at: now, transactions }, out);
    }

    /// Follows what has arrived to its end.
    fn settle(&mut self, now: Time, executor: &mut dyn Executor, out: &mut Out) {
        loop {
            self.close(now, out);
            let number = self.committed + 1;
            if self.executing.is_none() && self.all(|member| member.batches.contains_key(&number)) {
                let (lasts_ns, evaluated) = self.execute(number, executor);
                self.executing = Some((now + lasts_ns, evaluated));
            }
            let Some((until, _)) = &self.executing else { break };
            if now < *until {
                break;
            }
            if self.waits_for_others() && self.members[&self.me].executed < number {
                self.tell_all(Message::Executed { number }, out);
            }
            if self.waits_for_others() && !self.all(|member| member.executed >= number) {
                break;
            }
            let (_, evaluated) = self.executing.take().expect("looked at above");
            self.commit(now, number, evaluated, executor, out);
            if self.waits_for_others() {
                self.tell_all(Message::Committed { number }, out);
            }
        }
        while self.waiting.front().is_some_and(|(rank, ..)| *rank <= self.rank) {
            let (_, ticket, partition) = self.waiting.pop_front().expect("looked at above");
            let closed = Closed { position: self.logs[usize::from(partition.0)].0 };
            out.push(EngineEffect::Answered { ticket, result: Ok(Answered::Closed(closed)) });
        }
        let clock_bound_ns = (!self.topology.unbounded_clocks).then_some(self.topology.clock_bound_ns);
        self.clients.gate_at = self.clients.gate.open(now, clock_bound_ns, out);
    }

    fn answer(&mut self, now: Time, (txn, rank): (TxnId, Rank), outcome: Outcome, began: Time) {
        let Some(submitted_at) = self.clients.submitted_at.remove(&txn) else { return };
        let regions = self.members.keys().map(|node| self.topology.region_of(*node)).collect();
        let order_ns = began.since(submitted_at);
        let phases = vec![("order", order_ns), ("execute", now.since(began)), ("gate", now.0)];
        self.clients.gate.put(Answer { submitted_as: txn, txn, rank, outcome, phases, regions });
    }
}

impl Engine for Aria {
    type Message = Message;

    fn start(&mut self, now: Time, _: &mut EngineEffects<Self>) {
        self.next_close = now + self.options.batch_ns;
    }

    fn submit(
        &mut self,
        now: Time,
        submission: Submission,
        executor: &mut dyn Executor,
        out: &mut EngineEffects<Self>,
    ) -> TxnId {
        self.clients.named += 1;
        let id = TxnId {
            coordinator: self.me,
            incarnation: self.clients.incarnation,
            sequence: self.clients.named,
        };
        let Submission { program, access, token, .. } = submission;
        let after = token.rank;
        self.clients.queue.push(Transaction { id, program, access, min_rank: after, after, homes: None });
        self.clients.submitted_at.insert(id, now);
        self.settle(now, executor, out);
        id
    }

    fn message(
        &mut self,
        now: Time,
        from: NodeId,
        message: Message,
        executor: &mut dyn Executor,
        out: &mut EngineEffects<Self>,
    ) {
        self.heard(from, message);
        self.settle(now, executor, out);
    }

    fn next_wake(&self) -> Option<Time> {
        let is_taken = !self.waits_for_others() || self.all(|member| member.committed == self.closed);
        let close_at = is_taken.then_some(self.next_close);
        let own = self.members[&self.me].executed;
        let is_told = self.waits_for_others() && own > self.committed;
        let executed_at = self.executing.as_ref().filter(|_| !is_told).map(|(until, _)| *until);
        [close_at, executed_at, self.clients.gate_at].into_iter().flatten().min()
    }

    fn wake(&mut self, now: Time, executor: &mut dyn Executor, out: &mut EngineEffects<Self>) {
        self.settle(now, executor, out);
    }

    fn ask(
        &mut self,
        _: Time,
        question: Question,
        _: &mut dyn Executor,
        out: &mut EngineEffects<Self>,
    ) -> Result<Option<Answered>, Unanswered> {
        let rank = match question {
            Question::Close { ticket, close } if close.rank <= self.rank => {
                let closed = Closed { position: self.logs[usize::from(close.partition.0)].0 };
                out.push(EngineEffect::Answered { ticket, result: Ok(Answered::Closed(closed)) });
                return Ok(None);
            }
            Question::Close { ticket, close } => {
                let at = self.waiting.partition_point(|(rank, ..)| *rank <= close.rank);
                self.waiting.insert(at, (close.rank, ticket, close.partition));
                return Ok(None);
            }
            Question::Forget { ticket } => {
                self.waiting.retain(|(_, other, _)| *other != ticket);
                return Ok(None);
            }
            Question::WillClose { .. } => return Ok(None),
            Question::Calibration { partition } => {
                let (position, rank) = self.logs[usize::from(partition.0)];
                return Ok(Some(Answered::Calibration(Calibration { position, rank, low: self.rank })));
            }
            Question::SafeRank { .. } => self.rank,
            Question::LeastCut => Rank::ZERO,
            Question::Latest { .. } | Question::Timestamp => {
                return Err(Unanswered { question: question.name() });
            }
        };
        Ok(Some(Answered::Rank(rank)))
    }

    fn admin(
        &mut self,
        _: Time,
        _: Command,
        _: &mut dyn Executor,
        _: &mut EngineEffects<Self>,
    ) -> Result<TxnId, SqlError> {
        Err(SqlError::unsupported("moving homes with this engine"))
    }

    fn set_floor(&mut self, floor: Option<Rank>) {
        self.floors.readers = floor;
    }

    fn resume(&mut self, _: Time, incarnation: u32, _: &mut EngineEffects<Self>) {
        (self.clients.incarnation, self.clients.named) = (incarnation, 0);
    }

    fn absent(&self) -> Option<SqlError> {
        None
    }

    fn report(&self) -> EngineReport {
        let counters = BTreeMap::from([
            ("committed", self.counts.commits),
            ("evaluations that lost", self.counts.losses),
        ]);
        let held = BTreeMap::from([
            ("transactions under way", self.clients.submitted_at.len() as u64),
            ("transactions of the next batch", (self.clients.queue.len() + self.carried.len()) as u64),
            ("closes", self.waiting.len() as u64),
        ]);
        EngineReport { counters, held, ..EngineReport::default() }
    }
}

impl Aria {
    /// A record of a partition's log.
    fn position(&mut self, partition: PartitionId, rank: Rank) -> LogPosition {
        let (position, newest) = &mut self.logs[usize::from(partition.0)];
        (*position, *newest) = (position.next(), rank);
        *position
    }
    /// Everything up to this rank is in the streams.
    fn say_low(&self, out: &mut Out) {
        let partitions = self.topology.partition_ids();
        out.extend(
            partitions.map(|partition| EngineEffect::Stream { partition, item: StreamItem::Low(self.rank) }),
        );
    }
}

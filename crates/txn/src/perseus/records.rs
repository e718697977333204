//! What a node remembers beyond its process: records, and checkpoints that stand for those before.
//!
//! | kind | record | emitted |
//! |---|---|---|
//! | 1 | a transaction that takes part here, whom it depends on here, its pts, whether it comes too late to be judged | before PreAccept is answered |
//! | 2 | a ballot that is promised, and the place that is kept for a transaction that is not known | before Recover is answered |
//! | 3 | a decision that a recovery proposes, and its ballot | before Accept is answered |
//! | 4 | transactions that have their places, with decisions and ranks, and what others have read for them ([`Ended`]) | before this node says that it has executed so far (`Progress`) |
//! | 5 | a [`Ceiling`]: up to where this node's clock may show and ranks be closed | every half of [`Records::ceiling_ns`](super::Records) |
//!
//! IN: the same calls as without, and how many records are stable; a checkpoint ([`super::image`]) and the records behind
//! it. OUT: records; after a restart, a node that goes on. KEEPS:
//! 1. whatever is sent waits until all records before it are stable (the host sees to it). So an answer to PreAccept, a
//!    promise and an acceptance that anybody has heard of are on the disk of the node that gave them, and a decision, which
//!    is made from such answers only, can be made again from them;
//! 2. a transaction executes once the record of its place here is stable. The other participants' are, because they have
//!    answered; so are its ancestors', whose decisions come from such answers too. What is executed, streamed and read is
//!    therefore determined by what is on disks;
//! 3. a decision need not be on disk to be executed: until it is, this node says of no rank of it that it has executed, so
//!    nothing of the transaction is collected anywhere, and the others still have its decision, its ancestors and what
//!    they have read for it;
//! 4. no rank above a stable ceiling is closed; a node that comes back has closed everything up to its ceiling;
//! 5. a node executes again what its former lives had executed, at the same place and with the same reads, before anybody
//!    gets a copy of a log ([`EngineEffect::Restored`]). A decision may have to be asked for again, so that takes a while:
//!    until then logs lack what answers and cuts of former lives stand for, and the node is *behind*. Nothing else waits;
//! 6. what a transaction finds when it executes does not depend on when that is: versions of rows that it has to look at,
//!    because it has read before it was submitted, are kept from its PreAccept until it has executed. If they were collected
//!    before that, its record says so;
//! 7. what precedes a transaction here precedes it when records are repeated: whom it conflicts with is named in its
//!    record, also if that was done. What was collected by then need not be named, because its end is in a record before.
//!
//! A transaction that takes part at one node alone is decided with the record of its PreAccept. All that follows from it
//! follows again when that record is repeated.
//!
//! Repeating works the engine with its effects thrown away: a record puts a transaction where it was, and what can execute
//! then does. What is lost with the process is what a lost gateway loses: transactions that it coordinated are recovered by
//! their participants, clients were disconnected and may repeat their requests by name. What a node had learned and not
//! recorded it asks the others for when it starts. Positions of logs begin behind those of all former lives.

use super::message::{Ballot, Deadline, Decision, Dependency, Message};
use super::options::{Mutant, Timestamps};
use super::recorder::{Ceiling, Ended, Placed};
use super::state::Perseus;
use super::work::{Out, Work};
use crate::engine::{EngineEffect, Executor, Record};
use crate::graph::participants::Participants;
use crate::graph::vertex::{Ref, State};
use crate::records::{read, record};
use base::codec;
use base::order::{Close, CloseTicket};
use base::process::Unreadable;
use base::txn::{ClientRequest, Gathered, Transaction};
use base::{PartitionId, Rank, Time, TxnId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

const VERSION: u8 = 1;
const PRE_ACCEPTED: u8 = 1;
const PROMISED: u8 = 2;
const ACCEPTED: u8 = 3;
const ENDED: u8 = 4;
const CEILING: u8 = 5;
/// So many ends are recorded without waiting for the next report.
const ENDS_MAX: usize = 1_024;

/// Kind 1, as it is read.
type PreAccepted = (Transaction, Option<ClientRequest>, Vec<Dependency>, Rank, bool);

/// Kind 2.
#[derive(Serialize, Deserialize)]
struct Promised {
    txn: TxnId,
    participants: Participants,
    ballot: Ballot,
    /// The place that is kept.
    kept: Option<Rank>,
    /// See [`super::vertex::Remote::barred`].
    barred: bool,
}

impl Perseus {
    pub(super) fn is_recorded(&self) -> bool {
        self.cluster.options.records.is_some()
    }
    /// Ranks up to this may be closed.
    pub(super) fn closed_max(&self) -> Rank {
        match self.is_recorded() && !self.cluster.options.planted(Mutant::NoCeiling) {
            true => self.recorder.ceiling().closed,
            false => Rank::MAX,
        }
    }

    fn emit_record(&mut self, kind: u8, payload: Vec<u8>, out: &mut Out) -> u64 {
        out.push(record((kind, VERSION), payload));
        self.recorder.count()
    }
    /// The same, about a transaction.
    fn emit_record_of(&mut self, at: Ref, kind: u8, payload: Vec<u8>, out: &mut Out) {
        let number = self.emit_record(kind, payload, out);
        self.note_record(at, number);
    }

    /// The clock may go on, and readers close what is present.
    pub(super) fn record_ceiling(&mut self, now: Time, out: &mut Out) {
        if let Some(records) = self.cluster.options.records
            && now + records.ceiling_ns / 2 > self.recorder.wanted().clock
        {
            self.raise_ceiling(now, Rank::ZERO, out);
        }
    }
    fn raise_ceiling(&mut self, now: Time, rank: Rank, out: &mut Out) {
        let Some(records) = self.cluster.options.records else { return };
        let (wanted, clock) = (self.recorder.wanted(), now + records.ceiling_ns);
        // Readers elsewhere choose cuts by clocks of their own.
        let closed = clock.rank() + 3 * self.cluster.clock_bound_ns();
        let ceiling = Ceiling { clock: clock.max(wanted.clock), closed: closed.max(rank).max(wanted.closed) };
        let number = self.emit_record(CEILING, codec::encode(&ceiling), out);
        self.recorder.raise(number, ceiling);
    }
    /// Whether a reader has to wait until its rank may be closed.
    pub(super) fn holds_close(
        &mut self,
        now: Time,
        ticket: CloseTicket,
        close: &Close,
        out: &mut Out,
    ) -> bool {
        if close.rank <= self.closed_max() {
            return false;
        }
        base::sometimes!("a reader waits until its cut may be closed");
        if close.rank > self.recorder.wanted().closed {
            self.raise_ceiling(now, close.rank, out);
        }
        self.recorder.hold(ticket, close.clone());
        true
    }

    /// A reader wants no answer any more.
    pub(super) fn forget_close(&mut self, ticket: CloseTicket) {
        self.closes.cancel(ticket);
        self.recorder.cancel(ticket);
    }

    /// A transaction has taken its place here.
    pub(super) fn record_pre_accepted(&mut self, at: Ref, out: &mut Out) {
        if !self.is_recorded() {
            return;
        }
        let vertex = self.graph.live(at);
        let request = vertex.extra.remote.as_ref().and_then(|remote| remote.request);
        let transaction = vertex.transaction.as_ref().expect("it takes part here");
        let (pts, is_too_old) = (vertex.bound, vertex.extra.too_old);
        let payload = codec::encode(&(transaction, request, self.names(&vertex.deps), pts, is_too_old));
        self.emit_record_of(at, PRE_ACCEPTED, payload, out);
    }
    /// A ballot is promised, or a late PreAccept under it barred.
    pub(super) fn record_promise(&mut self, at: Ref, out: &mut Out) {
        if !self.is_recorded() || self.cluster.options.planted(Mutant::UnrecordedPromises) {
            return;
        }
        let vertex = self.graph.live(at);
        let remote = vertex.extra.remote.as_ref().expect("it has promised");
        let (ballot, barred) = (remote.ballot(), remote.barred);
        let (txn, participants) = (vertex.id, vertex.participants.clone());
        let kept = remote.placeholder.then_some(vertex.bound);
        let promised = Promised { txn, participants, ballot, kept, barred };
        self.emit_record_of(at, PROMISED, codec::encode(&promised), out);
    }
    /// A proposal is accepted.
    pub(super) fn record_accepted(&mut self, at: Ref, out: &mut Out) {
        if !self.is_recorded() || self.cluster.options.planted(Mutant::UnrecordedPromises) {
            return;
        }
        let vertex = self.graph.live(at);
        let remote = vertex.extra.remote.as_ref().expect("it has promised");
        let accepted = remote.accepted.as_ref().expect("it has accepted");
        let payload = codec::encode(&(vertex.id, accepted));
        self.emit_record_of(at, ACCEPTED, payload, out);
    }
    /// Transactions have their places. One that takes part here alone has it because of what is recorded already.
    pub(super) fn note_placed(&mut self, members: &[Ref], rank: Rank) {
        if !self.is_recorded() || members.len() == 1 && self.is_decided_alone(members[0]) {
            return;
        }
        for &at in members {
            let vertex = self.graph.live(at);
            if self.recorder.has_place(vertex.id) {
                continue;
            }
            let is_here = vertex.transaction.is_some();
            let dependencies = vertex.deps.iter().filter_map(|dependency| self.graph.get(*dependency));
            let placed = Placed {
                txn: vertex.id,
                participants: (!is_here).then(|| vertex.participants.clone()),
                dependencies: dependencies.map(|dependency| dependency.id).collect(),
                cts: vertex.bound,
                noop: vertex.extra.noop,
                rank,
                after: vertex.extra.after,
            };
            self.recorder.place(placed);
        }
    }
    /// Whether the record of its PreAccept decides it.
    fn is_decided_alone(&self, at: Ref) -> bool {
        let vertex = self.graph.live(at);
        let is_known = vertex.transaction.is_some() && !vertex.extra.noop;
        is_known && vertex.participants.nodes(&self.cluster.topology).len() == 1
    }
    /// A transaction executes with what others have read for it.
    pub(super) fn note_reads(&mut self, txn: TxnId, exchange: &BTreeMap<PartitionId, Gathered>) {
        if !self.is_recorded() || self.recorder.has_reads(txn) {
            return;
        }
        let others = exchange.iter().filter(|(partition, _)| self.local_index(**partition).is_none());
        let reads: Vec<_> = others.map(|(partition, gathered)| (*partition, gathered.clone())).collect();
        if !reads.is_empty() {
            self.recorder.ended.reads.push((txn, reads));
        }
    }
    /// Records what has ended, before this node says so.
    pub(super) fn record_ends(&mut self, out: &mut Out) {
        let ended = self.recorder.take_ended();
        if !ended.is_empty() && !self.cluster.options.planted(Mutant::UnrecordedEnds) {
            self.emit_record(ENDED, codec::encode(&ended), out);
        }
    }
    /// The same, if they are many.
    pub(super) fn record_many_ends(&mut self, out: &mut Out) {
        if self.recorder.has_begun && self.recorder.ended.placed.len() >= ENDS_MAX {
            self.record_ends(out);
        }
    }

    /// Whether a transaction's turn has come before the record of its place is stable: it waits then.
    pub(super) fn waits_for_disk(&mut self, at: Ref) -> bool {
        let number = self.graph.live(at).extra.recorded;
        if self.recorder.is_stable(number) || self.cluster.options.planted(Mutant::ExecuteBeforeSync) {
            return false;
        }
        self.recorder.wait(number, at);
        true
    }
    /// So many records of this life are stable: what waited for that goes on.
    pub(super) fn on_synced(&mut self, now: Time, records: u64, out: &mut Out) {
        let (ready, open) = self.recorder.synced(records);
        self.execute_later(ready);
        for (ticket, close) in open {
            self.open_close(now, ticket, close, out);
        }
    }

    // ---- a restart --------------------------------------------------------------------------------

    pub(super) fn take_record(
        &mut self,
        Record { kind, version, payload }: Record,
        executor: &mut dyn Executor,
    ) -> Result<(), Unreadable> {
        let mut unsaid = Out::new();
        match (kind, version) {
            (PRE_ACCEPTED, VERSION) => {
                self.repeat_pre_accepted(read("a transaction", &payload)?, &mut unsaid)?
            }
            (PROMISED, VERSION) => self.repeat_promise(read("a promised ballot", &payload)?)?,
            (ACCEPTED, VERSION) => {
                let (txn, accepted): (TxnId, (Ballot, Decision)) = read("a proposal", &payload)?;
                let at = self.graph.find(txn).filter(|at| self.graph.live(*at).state < State::Final);
                let at = at.ok_or_else(|| Unreadable(format!("a proposal for {txn}, which is not known")))?;
                let remote = self.remote(at);
                (remote.accepted, remote.barred) = (Some(accepted), true);
            }
            (ENDED, VERSION) => self.repeat_ends(read("ends of transactions", &payload)?, &mut unsaid)?,
            (CEILING, VERSION) => self.recorder.restore(read("a ceiling", &payload)?),
            _ => return Err(Unreadable(format!("a record of kind {kind}, version {version}"))),
        }
        self.settle(Time::ZERO, executor, &mut unsaid);
        Ok(())
    }

    fn repeat_pre_accepted(
        &mut self,
        (transaction, request, dependencies, pts, is_too_old): PreAccepted,
        unsaid: &mut Out,
    ) -> Result<(), Unreadable> {
        let txn = transaction.id;
        if let Some(at) = self.graph.find(txn) {
            let vertex = self.graph.live(at);
            let is_kept = vertex.extra.remote.as_ref().is_some_and(|remote| remote.placeholder);
            match vertex.state {
                State::Named => {}
                State::PreAccepted if is_kept => self.vacate(at),
                _ => return Err(Unreadable(format!("{txn} is pre-accepted twice"))),
            }
        }
        let participants = Participants::of(transaction.participants());
        if participants.iter().all(|partition| self.local_index(partition).is_none()) {
            return Err(Unreadable(format!("{txn} takes no part here")));
        }
        let at = self.named(txn, || participants);
        self.install_again(at, &transaction);
        let known = dependencies.iter().filter_map(|dependency| self.graph.find(dependency.txn));
        let deps = known.filter(|dependency| *dependency != at).collect();
        self.take_place(Time::ZERO, at, transaction, deps, (pts, is_too_old));
        if let Some(request) = request {
            self.remote(at).request = Some(request);
            self.claim(request, at);
        }
        if self.graph.live(at).participants.nodes(&self.cluster.topology).len() == 1 {
            self.decide_alone(at);
        } else {
            self.waits(at);
            self.remote(at).answer = Some(answer_of(txn, dependencies, pts));
        }
        unsaid.clear();
        Ok(())
    }

    fn repeat_promise(&mut self, promised: Promised) -> Result<(), Unreadable> {
        let Promised { txn, participants, ballot, kept, barred } = promised;
        let at = self.named(txn, || participants);
        let is_new = self.graph.live(at).state == State::Named;
        if is_new && kept.is_none() || self.graph.live(at).state >= State::Final {
            return Err(Unreadable(format!("a ballot of {txn}, which is not undecided here")));
        }
        let remote = self.remote(at);
        (remote.promised, remote.barred) = (Some(ballot), barred);
        if let Some(pts) = kept.filter(|_| is_new) {
            self.keep_place_at(Time::ZERO, at, pts);
        }
        Ok(())
    }

    /// Transactions that have their places in a checkpoint too are done with.
    fn repeat_ends(&mut self, Ended { placed, reads }: Ended, unsaid: &mut Out) -> Result<(), Unreadable> {
        self.recorder.repeated(&placed, &reads);
        let is_done_with = |perseus: &Perseus, txn: TxnId| {
            let at = perseus.graph.find(txn);
            at.map_or(perseus.collection.has_collected(txn), |at| {
                perseus.graph.live(at).state >= State::Emitted
            })
        };
        let placed: Vec<Placed> =
            placed.into_iter().filter(|placed| !is_done_with(self, placed.txn)).collect();
        for placed in &placed {
            if self.graph.find(placed.txn).is_none() {
                let Some(participants) = placed.participants.clone() else {
                    return Err(Unreadable(format!("an end of {}, which is not known", placed.txn)));
                };
                self.named(placed.txn, || participants);
            }
        }
        for placed in placed {
            let at = self.graph.find(placed.txn).expect("just inserted");
            // What has its place depends on what has, too: anything else was collected.
            for dependency in &placed.dependencies {
                if self.graph.find(*dependency).is_none() {
                    self.is_collected(*dependency);
                }
            }
            let name = |txn: TxnId| {
                let vertex = self.graph.live(self.graph.find(txn)?);
                Some(Dependency { txn, participants: vertex.participants.clone() })
            };
            let decision = placed.decision(name);
            if decision.cts < self.graph.live(at).bound {
                return Err(Unreadable(format!("{} is ranked below its place", placed.txn)));
            }
            if self.graph.live(at).state < State::Final {
                self.finalize(at, &decision, Rank::ZERO, unsaid);
                if self.graph.live(at).transaction.is_none() {
                    self.is_learned(at);
                }
            } else {
                self.search_again(at);
                self.search_later([at]);
            }
            self.was_ranked(at, placed.rank, placed.after);
        }
        for (txn, gathered) in reads {
            self.on_remote_read(txn, gathered);
        }
        Ok(())
    }

    /// All that its disk had was taken; answers what its clock may have shown.
    pub(super) fn come_back(&mut self) -> Time {
        let Ceiling { clock, closed } = self.recorder.ceiling();
        self.recorder.is_back = self.is_recorded() && self.gateway.incarnation() > 1;
        if self.cluster.options.planted(Mutant::NoCeiling) {
            return Time::ZERO;
        }
        self.has_promised(closed);
        clock
    }
    /// Once, before anything else happens behind a checkpoint: what could go on, does.
    pub(super) fn look_at_image(&mut self) {
        if std::mem::take(&mut self.recorder.lags) {
            let ready = self.graph.iter().filter(|(_, vertex)| vertex.transaction.is_some());
            let work = ready.filter_map(|(at, vertex)| match vertex.state {
                State::Final => Some(Work::Search(at)),
                State::Emitted if vertex.turn.has_come() => Some(Work::Execute(at)),
                _ => None,
            });
            let work: Vec<Work> = work.collect();
            self.do_later(work);
        }
    }

    /// The node starts: it goes on with what its disk had, if it had something, and records what it promises.
    pub(super) fn begin_records(&mut self, now: Time, out: &mut Out) {
        if !self.is_recorded() {
            return;
        }
        assert_eq!(self.cluster.options.timestamps, Timestamps::Clocks, "an oracle keeps no records");
        if std::mem::take(&mut self.recorder.is_back) {
            base::sometimes!("a participant comes back with what its disk has");
            self.recorder.begin();
            self.ask_what_is_missing(now, out);
            self.look_at_logs(out);
            self.wake_at(now);
        }
        self.recorder.has_begun = true;
        self.record_ceiling(now, out);
    }

    /// Deadlines of the former life are over. What others know of the transactions that have not ended here is asked for
    /// at once.
    fn ask_what_is_missing(&mut self, now: Time, out: &mut Out) {
        self.begin_reminders(now);
        self.begin_inquiries();
        let mut waiting: Vec<(Ref, TxnId)> = Vec::new();
        let mut undecided: Vec<Ref> = Vec::new();
        let mut lacking: BTreeSet<Ref> = BTreeSet::new();
        for (at, vertex) in self.graph.iter().filter(|(_, vertex)| vertex.transaction.is_some()) {
            match vertex.state {
                State::PreAccepted => undecided.push(at),
                State::Emitted if vertex.turn.has_come() => waiting.push((at, vertex.id)),
                _ => {}
            }
            // Where only its place is kept it has no effect.
            let is_kept = vertex.extra.remote.as_ref().is_some_and(|remote| remote.placeholder);
            if vertex.state < State::Executed && !is_kept {
                lacking.insert(at);
            }
        }
        self.recorder.fall_behind(lacking);
        self.begin_logs();
        let retry_at = now + self.cluster.options.retry_after_ns(&self.cluster.topology);
        for (_, txn) in waiting {
            if self.retry_exchange(txn, out) {
                self.remember(retry_at, Deadline::Exchange(txn), 0);
            }
        }
        for at in undecided {
            self.await_decision(now, at, out);
        }
    }

    /// A transaction has executed, perhaps again.
    pub(super) fn catches_up_with(&mut self, at: Ref) {
        self.recorder.executed(at);
    }
    /// Once this node has executed again what its former lives had, the subscribers of its logs get copies.
    pub(super) fn look_at_logs(&mut self, out: &mut Out) {
        if !self.recorder.catches_up() {
            return;
        }
        self.begin_streams();
        out.push(EngineEffect::Restored);
    }

    /// Asks another participant for the decision, and takes the transaction over if it does not come.
    fn await_decision(&mut self, now: Time, at: Ref, out: &mut Out) {
        self.waits_since(at, now);
        let vertex = self.graph.live(at);
        let (txn, nodes) = (vertex.id, vertex.participants.nodes(&self.cluster.topology));
        let patience_ns = self.patience_ns(txn, &nodes);
        self.remember(now + patience_ns, Deadline::Recovery(txn), 0);
        self.inquire_elsewhere(now, at, out);
    }
}

/// What PreAccept was answered, but for what others may have lacked then.
pub(super) fn answer_of(txn: TxnId, dependencies: Vec<Dependency>, pts: Rank) -> Message {
    let (ballot, fragments, delay_ns, sent_at) = (Ballot::FIRST, Vec::new(), 0, Time::ZERO);
    Message::PreAcceptOk { txn, ballot, dependencies, pts, fragments, delay_ns, sent_at }
}

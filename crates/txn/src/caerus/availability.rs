//! Sequences that nobody serves: what needs one is refused, what was in flight blocks its own rows, everything else
//! goes on.
//!
//! IN: at every tick, when each sequence was heard of and how far it is complete at this node. OUT: refusals of transactions that this gateway
//! has not sent anywhere, and of readers; "outcome unknown" for clients whose transaction is in flight. KEEPS:
//! 1. a transaction is refused only before its gateway has sent it to any sequence: nothing was ordered, and nothing
//!    will be;
//! 2. what was sent stays where it is and executes once the sequence is served again. Its client is told once, that
//!    the outcome is not known, and never again;
//! 3. a reader is refused, or it reads an exact cut: nothing is read from an incomplete sequence;
//! 4. silence decides only who waits and who is refused. No entry, stamp, promise or rank depends on it, so a region
//!    that is taken for lost in error costs refusals and nothing else.
//!
//! With K = 0 a sequence is silent while nothing of its leader is accepted here: it is lost, cut off, has fenced itself
//! because of its clock, or what it says is refused. With K > 0 it is silent while its closed timestamp (`low`) does not
//! grow here, so also if its leader cannot get as many copies as it needs. (Where clocks have no bound a closed
//! timestamp may be ahead of its leader's clock for long: there a leader that is heard of is never silent.) Time is
//! counted tick by tick, so a pause of this node itself is not held against others.
//!
//! With K = 0 nobody can lead for a silent region. A transaction that needs it is delayed at the gateway from early
//! on, which costs nothing (it could not complete before the region is heard of again), and keeps it out of the
//! sequences of living regions, where everything behind it would wait. Later it is refused. With K > 0 there is time
//! for another region to take the sequence over first.
//!
//! What is in flight at the loss, and what depends on it, is *blocked*. Whoever touches the same rows is refused too:
//! it would only be blocked behind. So the blocked are a fixed set, and limits on what a gateway may have under way
//! do not count them.
//!
//! Not here: a gateway without copies hears no sequences and refuses nothing by itself; where clocks have no bound a
//! reader that asks a silent leader for its cut waits.

use super::message::SequenceId;
use super::options::Mutant;
use super::requests::unknown;
use super::state::{Caerus, Out, sequences_in};
use crate::engine::{EngineEffect, RegionHealth, RegionState};
use crate::graph::vertex::{Ref, State};
use base::order::CloseTicket;
use base::time::{MS, SECOND};
use base::txn::{AccessMode, ClientRequest, Granule, Transaction};
use base::{Key, PartitionId, Rank, RegionId, SqlError, SqlState, TableId, Time, TxnId};
use std::collections::{BTreeMap, BTreeSet};

/// How often the blocked are looked for while a sequence is lost.
const SEARCH_EVERY_NS: u64 = 20 * MS;

/// What this node knows of silent sequences.
#[derive(Clone, Debug, Default)]
pub(super) struct Availability {
    silences: BTreeMap<SequenceId, Silence>,
    looked_at: Option<Time>,
    searched_at: Time,
    /// Sequences whose transactions are delayed at the gateway, as bits; those that are lost among them.
    delayed: u64,
    suspected: u64,
    pub lost: u64,
    pub blocked: Blocked,
    /// Transactions in flight of this gateway whose clients have been told that the outcome is not known.
    told: BTreeSet<TxnId>,
    /// Transactions and readers refused because of a sequence.
    refused: BTreeMap<SequenceId, u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Silence {
    low: Rank,
    heard_at: Time,
    for_ns: u64,
}

/// Transactions without a place that wait for lost sequences, and what they touch.
#[derive(Clone, Debug, Default)]
pub(super) struct Blocked {
    /// The sequences that each waits for.
    waiting: BTreeMap<Ref, u64>,
    rows: BTreeMap<(PartitionId, TableId, Key), (AccessMode, u64)>,
    /// By partition, what is no single row.
    ranges: BTreeMap<PartitionId, Vec<(Granule, AccessMode, u64)>>,
    requests: BTreeMap<ClientRequest, u64>,
}

impl Availability {
    /// Some sequence is silent.
    pub fn suspects(&self) -> bool {
        self.suspected != 0
    }
}

impl Blocked {
    pub fn len(&self) -> usize {
        self.waiting.len()
    }
    fn sequences_of(&self, at: Ref) -> u64 {
        self.waiting.get(&at).copied().unwrap_or(0)
    }
    fn add(&mut self, transaction: &Transaction, request: Option<ClientRequest>, sequences: u64) {
        for partition in transaction.participants() {
            for access in transaction.access.at(partition) {
                match &access.granule {
                    Granule::Key(table, key) => {
                        let row = self.rows.entry((partition, *table, key.clone()));
                        let known = row.or_insert((access.mode, sequences));
                        *known = (known.0.max(access.mode), known.1 | sequences);
                    }
                    other => {
                        let ranges = self.ranges.entry(partition).or_default();
                        ranges.push((other.clone(), access.mode, sequences));
                    }
                }
            }
        }
        if let Some(request) = request {
            *self.requests.entry(request).or_default() |= sequences;
        }
    }
    /// The lost sequences that an access waits for behind one of the blocked, as bits.
    fn in_the_way(&self, partition: PartitionId, granule: &Granule, mode: AccessMode) -> u64 {
        let conflicts = |other: AccessMode| mode == AccessMode::Write || other == AccessMode::Write;
        let first = |table| (partition, table, Key::new());
        let of_row = |(other, sequences): &(AccessMode, u64)| if conflicts(*other) { *sequences } else { 0 };
        let rows = match granule {
            Granule::Key(table, key) => self.rows.get(&(partition, *table, key.clone())).map_or(0, of_row),
            Granule::Range(table, range) => {
                let behind = self.rows.range(first(*table)..);
                let of_table = behind.take_while(|((p, t, _), _)| (*p, *t) == (partition, *table));
                of_table
                    .filter(|((_, _, key), _)| range.contains(key))
                    .fold(0, |all, (_, row)| all | of_row(row))
            }
            Granule::Partition => {
                let behind = self.rows.range(first(TableId(0))..);
                behind.take_while(|((p, _, _), _)| *p == partition).fold(0, |all, (_, row)| all | of_row(row))
            }
        };
        let ranges = self.ranges.get(&partition).into_iter().flatten();
        let met = ranges.filter(|(other, other_mode, _)| conflicts(*other_mode) && other.overlaps(granule));
        met.fold(rows, |all, (_, _, sequences)| all | sequences)
    }
}

impl Caerus {
    /// Looks for sequences that have fallen silent, or are heard of again.
    pub(super) fn look_for_silence(&mut self, now: Time, out: &mut Out) {
        if !self.cluster.is_replica {
            return;
        }
        let passed_ns = now.since(self.availability.looked_at.replace(now).unwrap_or(now));
        // More than that was a pause of this node.
        let rests_ns =
            self.cluster.options.idle_heartbeat_ns.unwrap_or(0).max(self.cluster.options.heartbeat_ns);
        let passed_ns =
            passed_ns.min(rests_ns.max(self.cluster.options.suspect_after_ns(&self.cluster.topology) / 8));
        let lost_before = self.availability.lost;
        (self.availability.delayed, self.availability.suspected, self.availability.lost) = (0, 0, 0);
        for sequence in self.cluster.running() {
            let log = self.logs.of(sequence);
            let (low, heard_at) = (log.low(), log.heard_at());
            let is_led_here = log.leads();
            let goes_by_word = self.cluster.copies_of(sequence) == 0 || self.cluster.is_unbounded();
            let known = self.availability.silences.entry(sequence).or_default();
            let is_alive = match goes_by_word {
                true => is_led_here || heard_at != known.heard_at,
                false => low > known.low,
            };
            match is_alive {
                true => *known = Silence { low, heard_at, for_ns: 0 },
                false => known.for_ns += passed_ns,
            }
            let (for_ns, (suspected_ns, lost_ns)) = (known.for_ns, self.cluster.patience_with(sequence));
            let bit = sequence.bit();
            if for_ns >= suspected_ns {
                base::sometimes!("a sequence falls silent");
                self.availability.suspected |= bit;
                if self.cluster.copies_of(sequence) == 0 {
                    self.availability.delayed |= bit;
                }
            }
            if for_ns >= lost_ns {
                self.availability.lost |= bit;
            }
        }
        let lost = self.availability.lost;
        if lost == 0 {
            if lost_before != 0 {
                base::sometimes!("a sequence that was lost is served again");
                self.availability.blocked = Blocked::default();
            }
            return;
        }
        if lost == lost_before && now < self.availability.searched_at + SEARCH_EVERY_NS {
            return;
        }
        self.availability.searched_at = now;
        self.availability.blocked = self.find_blocked();
        self.refuse_readers(out);
        self.tell_unknown(now);
    }

    /// Whoever lacks an entry of a lost sequence, and whoever depends on one that does.
    fn find_blocked(&self) -> Blocked {
        let lost = self.availability.lost;
        let mut dependents: BTreeMap<Ref, Vec<Ref>> = BTreeMap::new();
        let (mut blocked, mut todo) = (Blocked::default(), Vec::new());
        for (at, vertex) in self.merger.graph().iter().filter(|(_, vertex)| vertex.state < State::Emitted) {
            let missing = vertex.extra.regions & !vertex.extra.got & lost;
            if missing != 0 {
                blocked.waiting.insert(at, missing);
                todo.push(at);
            }
            for ahead in vertex.deps.iter().filter(|ahead| self.merger.graph().get(**ahead).is_some()) {
                dependents.entry(*ahead).or_default().push(at);
            }
        }
        while let Some(at) = todo.pop() {
            let sequences = blocked.waiting[&at];
            for dependent in dependents.get(&at).into_iter().flatten() {
                if !blocked.waiting.contains_key(dependent) {
                    blocked.waiting.insert(*dependent, sequences);
                    todo.push(*dependent);
                }
            }
        }
        for (at, sequences) in blocked.waiting.clone() {
            let vertex = self.merger.vertex(at);
            if let Some(transaction) = &vertex.transaction {
                blocked.add(transaction, vertex.extra.request, sequences);
            }
        }
        blocked
    }

    /// What a transaction that sets out needs: sequences that order it, as bits.
    fn needs(&self, transaction: &Transaction, request: Option<ClientRequest>) -> u64 {
        let is_move = self.gateway.is_moving(transaction.id);
        if is_move || transaction.program.schema_change().is_some() {
            return self.cluster.running().into_iter().fold(0, |all, sequence| all | sequence.bit());
        }
        let homes = self.residences.claims(&self.cluster, (transaction, request), self.gateway.count());
        let regions = match homes {
            None => self.cluster.regions_of(transaction),
            homes => self.cluster.regions_of(&Transaction { homes, ..transaction.clone() }),
        };
        regions | self.cluster.entrances(regions)
    }

    /// Whether a transaction that has not been sent anywhere has to be delayed, because of a silent region.
    pub(super) fn delays(&self, transaction: &Transaction, request: Option<ClientRequest>) -> bool {
        let delayed = self.availability.delayed;
        delayed != 0 && self.needs(transaction, request) & delayed != 0
    }

    /// Why a transaction that has not been sent anywhere is refused: it needs a lost sequence, or would wait behind
    /// a transaction that does.
    pub(super) fn refusal(
        &mut self,
        transaction: &Transaction,
        request: Option<ClientRequest>,
    ) -> Option<SqlError> {
        if self.availability.lost == 0 {
            return None;
        }
        let needed = self.needs(transaction, request) & self.availability.lost;
        if needed != 0 {
            let what = "What the transaction touches is ordered there. Nothing was ordered.";
            return Some(self.refused_for(needed, what));
        }
        let blocked = &self.availability.blocked;
        if let Some(sequences) = request.and_then(|request| blocked.requests.get(&request)) {
            base::sometimes!("a request is repeated while its first attempt is blocked");
            return Some(self.unknown_for(*sequences));
        }
        let accesses = transaction
            .participants()
            .flat_map(|p| transaction.access.at(p).iter().map(move |access| (p, access)));
        let met =
            accesses.fold(0, |all, (p, access)| all | blocked.in_the_way(p, &access.granule, access.mode));
        if met == 0 {
            return None;
        }
        base::sometimes!("a transaction would wait behind one that a lost region has not ordered");
        let what = "A transaction that waits for that region was ordered before on rows that this one touches. \
                    Nothing of this one was ordered.";
        Some(self.refused_for(met, what))
    }

    /// Why a reader that needs these sequences, or waits for what is blocked, is refused.
    fn refuse_reader(&mut self, ticket: CloseTicket, sequences: u64, what: &str, out: &mut Out) {
        base::sometimes!("a reader of what a lost region orders is refused");
        let error = self.refused_for(sequences, what);
        self.closes.cancel(ticket);
        out.push(EngineEffect::Answered { ticket, result: Err(error) });
    }

    /// Refuses a reader if it needs one of these sequences and that is lost; whether it did.
    pub(super) fn refuses_sequences(&mut self, ticket: CloseTicket, missing: u64, out: &mut Out) -> bool {
        let lost = missing & self.availability.lost;
        if lost != 0 && self.cluster.options.planted(Mutant::ReadWithoutLost) {
            self.close_without(ticket, out);
        } else if lost != 0 {
            let what = "What is read is ordered there, and what it ordered last is not known here.";
            self.refuse_reader(ticket, lost, what, out);
        }
        lost != 0
    }

    /// Refuses a reader if one of those that it waits for is blocked; whether it did.
    pub(super) fn refuses_blocked(
        &mut self,
        ticket: CloseTicket,
        blockers: impl Iterator<Item = Ref>,
        out: &mut Out,
    ) -> bool {
        let blocked = &self.availability.blocked;
        let sequences = blockers.fold(0, |all, at| all | blocked.sequences_of(at));
        if sequences != 0 {
            let what = "A transaction that waits for that region writes what is read.";
            self.refuse_reader(ticket, sequences, what, out);
        }
        sequences != 0
    }

    /// Refuses those readers that wait for what has turned out to be lost.
    fn refuse_readers(&mut self, out: &mut Out) {
        let missing: Vec<(CloseTicket, u64)> = self.closes.missing().collect();
        for (ticket, missing) in missing {
            self.refuses_sequences(ticket, missing, out);
        }
        let graph = self.merger.graph();
        let waits = self.closes.behind().map(|(slot, tickets)| (graph.at(slot), tickets.to_vec()));
        for (at, tickets) in waits.collect::<Vec<_>>() {
            for ticket in tickets {
                if self.closes.is_waiting(ticket) {
                    self.refuses_blocked(ticket, std::iter::once(at), out);
                }
            }
        }
    }

    /// Tells the clients of blocked transactions that the outcome is not known.
    fn tell_unknown(&mut self, now: Time) {
        let lost = self.availability.lost;
        let mut blocked = Vec::new();
        for (txn, outstanding) in self.gateway.outstanding() {
            if self.availability.told.contains(txn) {
                continue;
            }
            let behind =
                self.merger.graph().find(*txn).map_or(0, |at| self.availability.blocked.sequences_of(at));
            let sequences =
                behind | (outstanding.regions() | self.cluster.entrances(outstanding.regions())) & lost;
            if sequences != 0 {
                blocked.push((*txn, sequences));
            }
        }
        for (txn, sequences) in blocked {
            base::sometimes!("a client is told that a lost region leaves its transaction's outcome unknown");
            let error = self.unknown_for(sequences);
            self.availability.told.insert(txn);
            self.gateway.answer_unknown(now, &self.cluster, txn, error);
        }
    }

    /// A transaction of this gateway has ended; whether its client has been told something already.
    pub(super) fn was_told(&mut self, txn: TxnId) -> bool {
        self.availability.told.remove(&txn)
    }

    /// Whether this gateway may start another transaction. What is blocked is not counted.
    pub(super) fn has_room(&self) -> bool {
        let known = &self.availability;
        self.gateway.outstanding_count() < self.cluster.options.outstanding_max + known.told.len()
            && self.merger.unordered() < self.cluster.options.unordered_max + known.blocked.len()
    }

    fn refused_for(&mut self, sequences: u64, what: &str) -> SqlError {
        for sequence in sequences_in(sequences) {
            *self.availability.refused.entry(sequence).or_default() += 1;
        }
        let (names, are_several) = self.cluster.names(sequences);
        let (noun, verb) = if are_several { ("regions", "are") } else { ("region", "is") };
        let silences = sequences_in(sequences).filter_map(|s| self.availability.silences.get(&s));
        let silent_ns = silences.map(|silence| silence.for_ns).max().unwrap_or(0);
        let copies = sequences_in(sequences).map(|s| self.cluster.copies_of(s)).max().unwrap_or(0);
        let hint = match copies {
            0 => "Use what is homed in other regions, or repeat this once the region is back; meridian.regions tells. \
                  In a cluster started with --survive 1 another region takes over."
                .to_string(),
            copies => format!(
                "More is lost than this cluster survives (K = {copies}): repeat this once enough regions are back; \
                 meridian.regions tells."
            ),
        };
        SqlError::new(SqlState::CANNOT_CONNECT_NOW, format!("{noun} {names} {verb} not available"))
            .detail(format!("Nothing was heard of it for {:.1} s. {what}", silent_ns as f64 / SECOND as f64))
            .hint(hint)
    }

    fn unknown_for(&self, sequences: u64) -> SqlError {
        let (names, are_several) = self.cluster.names(sequences);
        let noun = if are_several { "regions" } else { "region" };
        let message = format!("the outcome of the transaction is not known: {noun} {names} fell silent");
        let state = match self.cluster.options.planted(Mutant::RefuseInFlight) {
            true => SqlState::CANNOT_CONNECT_NOW,
            false => unknown().state,
        };
        SqlError::new(state, message)
            .detail("It was being ordered. Once the region is back it takes effect completely, or not at all.")
            .hint("Look at the data once meridian.regions shows the region up, before you repeat the transaction.")
    }

    /// How each region is, as far as this node can tell.
    pub(super) fn health(&self) -> Vec<RegionHealth> {
        let all = (0..self.cluster.sequencers.len() as u16).map(RegionId);
        let known = &self.availability;
        let health = |region| {
            let sequences: u64 = self
                .cluster
                .running()
                .into_iter()
                .filter(|s| self.cluster.home_of(*s) == region)
                .fold(0, |all, s| all | s.bit());
            let silences = sequences_in(sequences).filter_map(|s| known.silences.get(&s));
            let state = match sequences {
                _ if sequences & known.lost != 0 => RegionState::Lost,
                _ if sequences & known.suspected != 0 => RegionState::Suspected,
                _ => RegionState::Up,
            };
            let behind = |waits: &u64| waits & sequences != 0;
            let rows = known.blocked.rows.values().filter(|(_, waits)| behind(waits)).count();
            let ranges =
                known.blocked.ranges.values().flatten().filter(|(_, _, waits)| behind(waits)).count();
            RegionHealth {
                region,
                state,
                silent_ns: silences.map(|silence| silence.for_ns).max().unwrap_or(0),
                blocked_transactions: known.blocked.waiting.values().filter(|waits| behind(waits)).count()
                    as u64,
                blocked_rows: (rows + ranges) as u64,
                refused: sequences_in(sequences).filter_map(|s| known.refused.get(&s)).sum(),
            }
        };
        all.map(health).collect()
    }
}

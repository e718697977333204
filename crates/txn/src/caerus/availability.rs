//! Sequences that nobody serves: what needs one is refused, what was in flight blocks its own rows, everything else
//! goes on.
//!
//! IN: at every tick, when each sequence was heard of and how far it is complete at this node; what a transaction that
//! sets out, or a reader, needs. OUT: refusals of transactions that this gateway
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
//! because of its clock, or what it says is refused. With K > 0 it is silent while its closed timestamp does not
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

mod blocked;

use self::blocked::Blocked;
use super::cluster::Cluster;
use super::logs::Logs;
use super::merger::Merger;
use super::message::{SequenceId, sequences_in};
use super::options::Mutant;
use super::requests::unknown;
use crate::engine::{RegionHealth, RegionState};
use crate::graph::vertex::Ref;
use base::time::{MS, SECOND};
use base::txn::{ClientRequest, Transaction};
use base::{Rank, SqlError, SqlState, Time};
use std::collections::BTreeMap;

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
    lost: u64,
    blocked: Blocked,
    /// Transactions and readers refused because of a sequence.
    refused: BTreeMap<SequenceId, u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Silence {
    closed: Rank,
    heard_at: Time,
    for_ns: u64,
}

impl Availability {
    /// Some sequence is silent.
    pub fn suspects(&self) -> bool {
        self.suspected != 0
    }
    /// Sequences that are lost, as bits.
    pub fn lost(&self) -> u64 {
        self.lost
    }
    /// Transactions that wait for them.
    pub fn blocked_count(&self) -> usize {
        self.blocked.len()
    }
    /// The lost sequences that a transaction waits for, as bits.
    pub fn awaited_by(&self, at: Ref) -> u64 {
        self.blocked.sequences_of(at)
    }

    /// Looks for sequences that have fallen silent, or are heard of again; whether the blocked have to be looked for.
    pub fn look(&mut self, now: Time, cluster: &Cluster, logs: &Logs) -> bool {
        let passed_ns = now.since(self.looked_at.replace(now).unwrap_or(now));
        // More than that was a pause of this node.
        let rests_ns =
            cluster.options.heartbeats.idle_every_ns.unwrap_or(0).max(cluster.options.heartbeats.every_ns);
        let passed_ns = passed_ns.min(rests_ns.max(cluster.options.suspect_after_ns(&cluster.topology) / 8));
        let lost_before = self.lost;
        (self.delayed, self.suspected, self.lost) = (0, 0, 0);
        for sequence in cluster.running() {
            let log = logs.of(sequence);
            let (closed, heard_at) = (log.closed(), log.heard_at());
            let goes_by_word = cluster.copies_of(sequence) == 0 || cluster.is_unbounded();
            let known = self.silences.entry(sequence).or_default();
            let is_alive = match goes_by_word {
                true => log.leads() || heard_at != known.heard_at,
                false => closed > known.closed,
            };
            match is_alive {
                true => *known = Silence { closed, heard_at, for_ns: 0 },
                false => known.for_ns += passed_ns,
            }
            let (for_ns, (suspected_ns, lost_ns)) = (known.for_ns, cluster.patience_with(sequence));
            let bit = sequence.bit();
            if for_ns >= suspected_ns {
                base::sometimes!("a sequence falls silent");
                self.suspected |= bit;
                if cluster.copies_of(sequence) == 0 {
                    self.delayed |= bit;
                }
            }
            if for_ns >= lost_ns {
                self.lost |= bit;
            }
        }
        if self.lost == 0 {
            if lost_before != 0 {
                base::sometimes!("a sequence that was lost is served again");
                self.blocked = Blocked::default();
            }
            return false;
        }
        let is_due = self.lost != lost_before || now >= self.searched_at + SEARCH_EVERY_NS;
        if is_due {
            self.searched_at = now;
        }
        is_due
    }

    /// Looks for those who wait for lost sequences.
    pub fn search(&mut self, merger: &Merger) {
        self.blocked = Blocked::behind(self.lost, merger);
    }

    /// Whether a transaction that has not been sent anywhere has to be delayed, because of a silent region. `needs`:
    /// sequences that order it, as bits.
    pub fn delays(&self, needs: impl FnOnce() -> u64) -> bool {
        self.delayed != 0 && needs() & self.delayed != 0
    }

    /// Why a transaction that has not been sent anywhere is refused: it needs a lost sequence, or would wait behind
    /// a transaction that does.
    pub fn refusal(
        &mut self,
        cluster: &Cluster,
        needs: impl FnOnce() -> u64,
        transaction: &Transaction,
        request: Option<ClientRequest>,
    ) -> Option<SqlError> {
        if self.lost == 0 {
            return None;
        }
        let needed = needs() & self.lost;
        if needed != 0 {
            let what = "What the transaction touches is ordered there. Nothing was ordered.";
            return Some(self.refuse(cluster, needed, what));
        }
        if let Some(sequences) = request.and_then(|request| self.blocked.attempt_of(request)) {
            base::sometimes!("a request is repeated while its first attempt is blocked");
            return Some(self.unknown(cluster, sequences));
        }
        let accesses = transaction
            .participants()
            .flat_map(|p| transaction.access.at(p).iter().map(move |access| (p, access)));
        let met = accesses
            .fold(0, |all, (p, access)| all | self.blocked.in_the_way(p, &access.granule, access.mode));
        if met == 0 {
            return None;
        }
        base::sometimes!("a transaction would wait behind one that a lost region has not ordered");
        let what = "A transaction that waits for that region was ordered before on rows that this one touches. \
                    Nothing of this one was ordered.";
        Some(self.refuse(cluster, met, what))
    }

    /// Why nobody can tell how a transaction in flight ends, if that is so. `at`: where it is known here; `regions`:
    /// sequences that order it.
    pub fn obscures(&self, cluster: &Cluster, at: Option<Ref>, regions: u64) -> Option<SqlError> {
        let behind = at.map_or(0, |at| self.blocked.sequences_of(at));
        let sequences = behind | (regions | cluster.entrances(regions)) & self.lost;
        (sequences != 0).then(|| self.unknown(cluster, sequences))
    }

    /// Refuses a transaction or a reader because of these sequences.
    pub fn refuse(&mut self, cluster: &Cluster, sequences: u64, what: &str) -> SqlError {
        for sequence in sequences_in(sequences) {
            *self.refused.entry(sequence).or_default() += 1;
        }
        let (names, are_several) = cluster.names(sequences);
        let (noun, verb) = if are_several { ("regions", "are") } else { ("region", "is") };
        let silences = sequences_in(sequences).filter_map(|s| self.silences.get(&s));
        let silent_ns = silences.map(|silence| silence.for_ns).max().unwrap_or(0);
        let copies = sequences_in(sequences).map(|s| cluster.copies_of(s)).max().unwrap_or(0);
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

    fn unknown(&self, cluster: &Cluster, sequences: u64) -> SqlError {
        let (names, are_several) = cluster.names(sequences);
        let noun = if are_several { "regions" } else { "region" };
        let message = format!("the outcome of the transaction is not known: {noun} {names} fell silent");
        let state = match cluster.options.planted(Mutant::RefuseInFlight) {
            true => SqlState::CANNOT_CONNECT_NOW,
            false => unknown().state,
        };
        SqlError::new(state, message)
            .detail("It was being ordered. Once the region is back it takes effect completely, or not at all.")
            .hint("Look at the data once meridian.regions shows the region up, before you repeat the transaction.")
    }

    /// How each region is, as far as this node can tell.
    pub fn health(&self, cluster: &Cluster, logs: &Logs) -> Vec<RegionHealth> {
        let is_led_elsewhere = |sequence: SequenceId| {
            cluster.region_of_term(logs.of(sequence).led_in()) != cluster.home_of(sequence)
        };
        let health = |region| {
            let sequences: u64 = cluster
                .running()
                .into_iter()
                .filter(|s| cluster.home_of(*s) == region)
                .fold(0, |all, s| all | s.bit());
            let silences = sequences_in(sequences).filter_map(|s| self.silences.get(&s));
            let state = match sequences {
                _ if sequences & self.lost != 0 => RegionState::Lost,
                _ if sequences & self.suspected != 0 => RegionState::Suspected,
                _ if sequences_in(sequences).any(is_led_elsewhere) => RegionState::TakenOver,
                _ => RegionState::Up,
            };
            let (blocked_transactions, blocked_rows) = self.blocked.count(sequences);
            RegionHealth {
                region,
                state,
                silent_ns: silences.map(|silence| silence.for_ns).max().unwrap_or(0),
                blocked_transactions,
                blocked_rows,
                refused: sequences_in(sequences).filter_map(|s| self.refused.get(&s)).sum(),
            }
        };
        cluster.topology.regions().map(health).collect()
    }
}

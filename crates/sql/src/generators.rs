//! Values that a gateway makes for statements: of sequences, hidden keys, random ones.
//!
//! KEEPS: no two gateways of a cluster, nor two lives of one, make the same value of a sequence or the same hidden key. Where a
//! life may lose what was kept of those before ([`Generators::told`]), other nodes know how many values it may hand out, before
//! any of them leaves the gateway; the next one begins behind so many.

use base::error::SqlResult;
use base::schema::{Origin, Sequence};
use base::{NodeId, SqlError, SqlState, TableId};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The generators of one gateway.
pub struct Generators {
    node: NodeId,
    /// Nodes of the cluster.
    nodes: usize,
    next_row_id: AtomicI64,
    /// Why no values of sequences are handed out here.
    closed: Option<String>,
    /// By sequence, and how often it was moved.
    sequences: Mutex<Counted>,
    /// `None`: this life's data end with it, and values begin again with the next.
    kept: Option<Arc<dyn KeptCounts>>,
    told: Telling,
    /// µs since 2000-01-01 UTC.
    clock: Option<Arc<dyn Fn() -> i64 + Send + Sync>>,
}

#[derive(Default)]
struct Counted {
    now: BTreeMap<Name, Given>,
    /// By former lives; this one has handed out none.
    before: BTreeMap<Name, Given>,
}

impl Counted {
    fn all(&self) -> impl Iterator<Item = (&Name, &Given)> {
        self.now.iter().chain(&self.before)
    }
}

/// Values of one sequence.
#[derive(Clone, Copy)]
struct Given {
    count: i64,
    /// As many are kept as handed out, whether they are or not.
    reserved: i64,
    /// Other nodes know that so many may be; `None`: they are not told.
    told: Option<i64>,
}

impl Given {
    /// Others should soon be told of more.
    fn runs_low(&self) -> bool {
        self.told.is_some_and(|told| self.count + ahead_of(self.count) / 2 > told)
    }
}

/// A sequence, and how often it was moved.
pub type Name = (TableId, u32);

/// The how-manyth draw of a value of which other nodes did not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Draw(u64);

/// What other nodes know of this gateway's values.
#[derive(Default)]
struct Telling {
    /// They are told.
    tells: bool,
    /// What they know of former lives has to come first.
    is_lost: AtomicBool,
    runs_low: AtomicBool,
    draws: AtomicU64,
    /// They know of all draws up to this one.
    told: AtomicU64,
}

/// What other nodes are to be told: how many values of each sequence may be handed out here.
pub struct Untold {
    pub counts: Vec<(Name, i64)>,
    draw: u64,
}

/// Others are told of so many values more than were handed out: a life that has lost its counts skips so many.
fn ahead_of(count: i64) -> i64 {
    count.clamp(SEQUENCE_BLOCK, AHEAD_MAX)
}
const AHEAD_MAX: i64 = 100_000;

/// Where a gateway's counts outlive it.
pub trait KeptCounts: Send + Sync {
    /// How many values of each sequence earlier lives may have handed out.
    fn all(&self) -> BTreeMap<Name, i64>;
    /// How many values of a sequence, that was moved so often, earlier lives may have handed out.
    fn reserved(&self, sequence: Name) -> i64;
    /// How often a sequence was moved before one of these values was handed out, at most.
    fn times_moved(&self, sequence: TableId) -> Option<u32>;
    /// Keeps that so many may have been. Errors: 53100, 58030, and nothing is handed out.
    fn reserve(&self, sequence: Name, count: i64) -> SqlResult<()>;
    /// Nothing was ever kept here: earlier lives had another directory, if there were any.
    fn is_new(&self) -> bool;
    /// Keeps that so many of each may have been, of which nothing was known here. Errors: as `reserve`.
    fn begin(&self, counts: BTreeMap<Name, i64>) -> SqlResult<()>;
}

/// Values of a sequence that one gateway hands out before it skips the other gateways' blocks.
const SEQUENCE_BLOCK: i64 = 100;

/// How many values of a sequence a node takes as handed out when there are other nodes: behind all that any of the
/// nodes before, each of which has handed out `count` at most, may have used.
pub fn count_among(count: i64, nodes_before: i64, nodes: i64) -> i64 {
    let blocks = (count + SEQUENCE_BLOCK - 1) / SEQUENCE_BLOCK;
    (blocks * nodes_before + nodes - 1) / nodes * SEQUENCE_BLOCK
}

/// Bits of a hidden row id that name its gateway.
const ROW_ID_NODE_BITS: u32 = 10;

impl Generators {
    /// Row ids count on from the clock, in µs, which keeps those of a gateway's next life apart from this one's, as long
    /// as it makes less than one row per µs.
    pub fn new(node: NodeId, nodes: usize, start_us: i64) -> Generators {
        let next_row_id = AtomicI64::new(start_us);
        let (closed, kept, clock) = (None, None, None);
        let (sequences, told) = (Mutex::default(), Telling::default());
        Generators { node, nodes, next_row_id, closed, sequences, kept, told, clock }
    }

    /// At a read-only replica, which has no turn: no value of a sequence is handed out, for this reason.
    pub fn closed(self, why: Option<String>) -> Generators {
        Generators { closed: why, ..self }
    }

    /// Sequences go on where earlier lives ended.
    pub fn kept_in(self, kept: Option<Arc<dyn KeptCounts>>) -> Generators {
        Generators { kept, ..self }
    }

    /// Other nodes are told how many values may be handed out here, as a directory in which counts are kept may be lost.
    /// An answer with a value waits until that has been done ([`Generators::is_told`]).
    pub fn told(self, tells: bool) -> Generators {
        let is_lost = tells && self.kept.as_ref().is_some_and(|kept| kept.is_new());
        let told = Telling { tells, is_lost: is_lost.into(), ..Telling::default() };
        if let Some(kept) = self.kept.as_ref().filter(|_| tells) {
            let before = |(name, count)| (name, Given { count, reserved: count, told: Some(0) });
            let mut sequences = self.sequences.lock().expect("no panic while counting");
            sequences.before = kept.all().into_iter().map(before).collect();
        }
        Generators { told, ..self }
    }

    /// Where the time is read, in µs since 2000-01-01 UTC.
    pub fn with_clock(self, clock: Arc<dyn Fn() -> i64 + Send + Sync>) -> Generators {
        Generators { clock: Some(clock), ..self }
    }

    /// The time as it is now; 0 without a clock.
    pub fn clock_us(&self) -> i64 {
        self.clock.as_ref().map_or(0, |clock| clock())
    }

    /// A value for the hidden key of a table without a primary key; unique in the cluster.
    pub fn next_row_id(&self) -> i64 {
        let count = self.next_row_id.fetch_add(1, Ordering::Relaxed);
        count << ROW_ID_NODE_BITS | i64::from(self.node.0)
    }

    /// Uniform in [0, 1).
    pub fn random_fraction(&self) -> f64 {
        (rand::random::<u64>() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A version 4 UUID.
    pub fn random_uuid(&self) -> [u8; 16] {
        *uuid::Uuid::new_v4().as_bytes()
    }

    /// The last value of a sequence that this gateway has handed out.
    pub fn handed_out(&self, sequence: &Sequence) -> Option<i64> {
        let given = *self.sequences.lock().expect("no panic while counting").now.get(&name_of(sequence))?;
        self.nth(sequence, given.count.checked_sub(1)?)
    }

    fn nth(&self, sequence: &Sequence, count: i64) -> Option<i64> {
        let (block, within) = (count / SEQUENCE_BLOCK, count % SEQUENCE_BLOCK);
        let nodes = self.nodes as i64;
        let turn = (i64::from(self.node.0) - i64::from(sequence.origin.first.0)).rem_euclid(nodes);
        let nth = (block * nodes + turn) * SEQUENCE_BLOCK + within;
        sequence.limits.nth(sequence.origin.value, sequence.increment, nth)
    }

    /// Whether others are told of this gateway's values.
    pub fn tells(&self) -> bool {
        self.told.tells
    }
    /// Nothing is kept of earlier lives, and what others know of them has not been asked yet.
    pub fn has_lost_counts(&self) -> bool {
        self.told.is_lost.load(Ordering::Relaxed)
    }
    /// So many values may have been handed out by earlier lives. Errors: they cannot be kept.
    pub fn begin_behind(&self, counts: BTreeMap<Name, i64>) -> SqlResult<()> {
        let before = |(name, count): (&Name, &i64)| {
            (*name, Given { count: *count, reserved: *count, told: Some(*count) })
        };
        let before = counts.iter().map(before).collect();
        if let Some(kept) = &self.kept {
            kept.begin(counts)?;
        }
        self.sequences.lock().expect("no panic while counting").before = before;
        self.told.is_lost.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Whether others know of what was handed out up to a draw.
    pub fn is_told(&self, draw: Draw) -> bool {
        draw.0 <= self.told.told.load(Ordering::Relaxed)
    }
    /// Others should be told of more, so that nobody has to wait for it.
    pub fn runs_low(&self) -> bool {
        self.told.runs_low.load(Ordering::Relaxed)
    }
    /// What others are to be told now.
    pub fn untold(&self) -> Untold {
        let sequences = self.sequences.lock().expect("no panic while counting");
        let low = sequences.all().filter(|(_, given)| given.runs_low());
        let counts = low.map(|(name, given)| (*name, given.count + ahead_of(given.count))).collect();
        Untold { counts, draw: self.told.draws.load(Ordering::Relaxed) }
    }
    /// They have been told, and will not forget it.
    pub fn were_told(&self, untold: &Untold) {
        let mut sequences = self.sequences.lock().expect("no panic while counting");
        let Counted { now, before } = &mut *sequences;
        for (name, count) in &untold.counts {
            let given = now.get_mut(name).or_else(|| before.get_mut(name));
            if let Some(told) = given.and_then(|given| given.told.as_mut()) {
                *told = (*told).max(*count);
            }
        }
        self.told.told.fetch_max(untold.draw, Ordering::Relaxed);
        self.told.runs_low.store(sequences.all().any(|(_, given)| given.runs_low()), Ordering::Relaxed);
    }

    /// Forgets what sequences that are gone have handed out.
    pub fn forget(&self, gone: &[TableId]) {
        let mut sequences = self.sequences.lock().expect("no panic while counting");
        sequences.now.retain(|(id, _), _| !gone.contains(id));
    }

    /// A sequence that goes on with a value at this gateway, and behind it at all others. `is_called` says whether it shows
    /// the value before it as its last one.
    pub fn moved(&self, sequence: &Sequence, value: i64, is_called: bool) -> Sequence {
        // A transaction that was undone may have counted from an origin that nobody else knows.
        let sequences = self.sequences.lock().expect("no panic while counting");
        let counted =
            sequences.now.keys().filter(|(id, _)| *id == sequence.id).map(|(_, times)| *times).max();
        let kept = self.kept.as_ref().and_then(|kept| kept.times_moved(sequence.id));
        let known = counted.max(kept).unwrap_or(0).max(sequence.origin.times_moved);
        let times_moved = known + 1;
        Sequence { origin: Origin { times_moved, value, is_called, first: self.node }, ..sequence.clone() }
    }

    /// The next value of a sequence. Gateways take turns in blocks that follow from the node's
    /// number, so that nothing has to be agreed on; values are unique but not in order across nodes.
    ///
    /// Errors: 2200H at the sequence's end; 25006 at a replica; those of keeping the count.
    pub fn next_value(&self, sequence: &Sequence) -> Result<i64, SqlError> {
        if let Some(why) = &self.closed {
            let message = "cannot execute nextval() at a read-only replica";
            return Err(SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message).hint(why));
        }
        if self.has_lost_counts() {
            let message = "the node does not know yet which values of sequences it has handed out";
            let detail = "Its data directory is new, and it asks the other nodes.";
            return Err(SqlError::new(SqlState::CANNOT_CONNECT_NOW, message).detail(detail));
        }
        // No life counts on what ends with a session.
        let kept = self.kept.as_ref().filter(|_| !crate::temporary::is_temporary(&sequence.schema));
        let mut sequences = self.sequences.lock().expect("no panic while counting");
        let name = name_of(sequence);
        let Counted { now, before } = &mut *sequences;
        let given = now.entry(name).or_insert_with(|| {
            if let Some(known) = before.remove(&name) {
                return known;
            }
            let reserved = kept.map_or(0, |kept| kept.reserved(name));
            let told = kept.filter(|_| self.told.tells).map(|_| 0);
            Given { count: reserved, reserved, told }
        });
        if let Some(kept) = kept.filter(|_| given.count == given.reserved) {
            kept.reserve(name, given.reserved + SEQUENCE_BLOCK)?;
            given.reserved += SEQUENCE_BLOCK;
        }
        let value = self.nth(sequence, given.count);
        if let Some(value) = value {
            given.count += 1;
            super::given::note(sequence.id, value, self.told.drawn(given));
        }
        value.ok_or_else(|| at_its_end(sequence))
    }
}

/// What a sequence gives behind so many values, counted from its declared start. Errors: 2200H.
pub fn nth(sequence: &Sequence, count: i64) -> Result<i64, SqlError> {
    let value = sequence.limits.nth(sequence.start, sequence.increment, count);
    value.ok_or_else(|| at_its_end(sequence))
}

fn at_its_end(sequence: &Sequence) -> SqlError {
    let (name, limits) = (&sequence.name, sequence.limits);
    let bound = match sequence.increment > 0 {
        true => format!("maximum value of sequence \"{name}\" ({})", limits.max),
        false => format!("minimum value of sequence \"{name}\" ({})", limits.min),
    };
    SqlError::new(SqlState(*b"2200H"), format!("nextval: reached {bound}"))
}

impl Telling {
    /// A value was handed out. Answers which draw it is, if others do not know of so many.
    fn drawn(&self, given: &Given) -> Option<Draw> {
        if given.runs_low() {
            self.runs_low.store(true, Ordering::Relaxed);
        }
        let is_untold = given.told.is_some_and(|told| given.count > told);
        is_untold.then(|| Draw(self.draws.fetch_add(1, Ordering::Relaxed) + 1))
    }
}

/// What counts are kept under: a sequence that was moved begins anew, and statements that were planned before count on.
fn name_of(sequence: &Sequence) -> Name {
    (sequence.id, sequence.origin.times_moved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::given::{GivenValues, within};
    use base::DataType;
    use base::schema::SequenceLimits;

    /// What a directory keeps.
    #[derive(Default)]
    struct Directory(Mutex<Option<BTreeMap<Name, i64>>>);
    impl KeptCounts for Directory {
        fn all(&self) -> BTreeMap<Name, i64> {
            self.0.lock().unwrap().clone().unwrap_or_default()
        }
        fn reserved(&self, sequence: Name) -> i64 {
            self.0.lock().unwrap().as_ref().and_then(|counts| counts.get(&sequence).copied()).unwrap_or(0)
        }
        fn times_moved(&self, _: TableId) -> Option<u32> {
            None
        }
        fn reserve(&self, sequence: Name, count: i64) -> SqlResult<()> {
            self.0.lock().unwrap().get_or_insert_default().insert(sequence, count);
            Ok(())
        }
        fn is_new(&self) -> bool {
            self.0.lock().unwrap().is_none()
        }
        fn begin(&self, counts: BTreeMap<Name, i64>) -> SqlResult<()> {
            *self.0.lock().unwrap() = Some(counts);
            Ok(())
        }
    }

    fn life(directory: &Arc<Directory>) -> Generators {
        Generators::new(NodeId(1), 3, 0).kept_in(Some(directory.clone())).told(true)
    }

    fn sequence() -> Sequence {
        Sequence {
            id: TableId(7),
            schema: "public".into(),
            name: "s".into(),
            start: 1,
            increment: 1,
            limits: SequenceLimits::declared(DataType::BigInt, 1),
            owner: None,
            origin: Origin::declared(1),
        }
    }

    #[test]
    fn a_life_that_has_lost_its_counts_begins_behind_what_others_were_told() {
        let sequence = sequence();
        let mut known = BTreeMap::new();
        let mut last = 0;
        for _ in 0..3 {
            let (life, session) = (life(&Arc::default()), Arc::new(GivenValues::default()));
            let next = || within(&session, || life.next_value(&sequence));
            assert_eq!(next().unwrap_err().state, SqlState::CANNOT_CONNECT_NOW);
            life.begin_behind(known.clone()).unwrap();
            for _ in 0..250 {
                let value = next().unwrap();
                assert!(value > last, "{value} was handed out before");
                if !life.is_told(session.untold()) {
                    let untold = life.untold();
                    known.extend(untold.counts.iter().copied());
                    life.were_told(&untold);
                }
                // Only now it leaves the gateway.
                assert!(life.is_told(session.untold()));
                last = value;
            }
        }
        assert!(last < 10_000, "{last}: hardly any are skipped");
    }

    #[test]
    fn others_are_told_before_anyone_waits_for_it() {
        let (sequence, session) = (sequence(), Arc::new(GivenValues::default()));
        let life = life(&Arc::default());
        life.begin_behind(BTreeMap::new()).unwrap();
        let next = || within(&session, || life.next_value(&sequence)).unwrap();
        next();
        assert!(!life.is_told(session.untold()) && life.runs_low());
        let mut waits = 0;
        for _ in 0..5_000 {
            next();
            if life.runs_low() {
                waits += u32::from(!life.is_told(session.untold()));
                life.were_told(&life.untold());
            }
        }
        assert_eq!(waits, 1, "for the first value alone");
    }
}

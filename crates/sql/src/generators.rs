//! Values that a gateway makes for statements: of sequences, hidden keys, random ones.
//!
//! KEEPS: no two gateways of a cluster, nor two lives of one, make the same value of a sequence or the same hidden key.

use base::error::SqlResult;
use base::schema::{Origin, Sequence};
use base::{NodeId, SqlError, SqlState, TableId};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
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
    sequences: Mutex<BTreeMap<(TableId, u32), Given>>,
    /// `None`: this life's data end with it, and values begin again with the next.
    kept: Option<Arc<dyn KeptCounts>>,
    /// µs since 2000-01-01 UTC.
    clock: Option<Arc<dyn Fn() -> i64 + Send + Sync>>,
}

/// Values of one sequence.
#[derive(Clone, Copy)]
struct Given {
    count: i64,
    /// As many are kept as handed out, whether they are or not.
    reserved: i64,
}

/// Where a gateway's counts outlive it.
pub trait KeptCounts: Send + Sync {
    /// How many values of a sequence, that was moved so often, earlier lives may have handed out.
    fn reserved(&self, sequence: (TableId, u32)) -> i64;
    /// How often a sequence was moved before one of these values was handed out, at most.
    fn times_moved(&self, sequence: TableId) -> Option<u32>;
    /// Keeps that so many may have been. Errors: 53100, 58030, and nothing is handed out.
    fn reserve(&self, sequence: (TableId, u32), count: i64) -> SqlResult<()>;
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
        Generators { node, nodes, next_row_id, closed, sequences: Mutex::default(), kept, clock }
    }

    /// At a read-only replica, which has no turn: no value of a sequence is handed out, for this reason.
    pub fn closed(self, why: Option<String>) -> Generators {
        Generators { closed: why, ..self }
    }

    /// Sequences go on where earlier lives ended.
    pub fn kept_in(self, kept: Option<Arc<dyn KeptCounts>>) -> Generators {
        Generators { kept, ..self }
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
        let given = *self.sequences.lock().expect("no panic while counting").get(&name_of(sequence))?;
        self.nth(sequence, given.count.checked_sub(1)?)
    }

    fn nth(&self, sequence: &Sequence, count: i64) -> Option<i64> {
        let (block, within) = (count / SEQUENCE_BLOCK, count % SEQUENCE_BLOCK);
        let nodes = self.nodes as i64;
        let turn = (i64::from(self.node.0) - i64::from(sequence.origin.first.0)).rem_euclid(nodes);
        let nth = (block * nodes + turn) * SEQUENCE_BLOCK + within;
        sequence.limits.nth(sequence.origin.value, sequence.increment, nth)
    }

    /// Forgets what sequences that are gone have handed out.
    pub fn forget(&self, gone: &[TableId]) {
        let mut sequences = self.sequences.lock().expect("no panic while counting");
        sequences.retain(|(id, _), _| !gone.contains(id));
    }

    /// A sequence that goes on with a value at this gateway, and behind it at all others. `is_called` says whether it shows
    /// the value before it as its last one.
    pub fn moved(&self, sequence: &Sequence, value: i64, is_called: bool) -> Sequence {
        // A transaction that was undone may have counted from an origin that nobody else knows.
        let sequences = self.sequences.lock().expect("no panic while counting");
        let counted = sequences.keys().filter(|(id, _)| *id == sequence.id).map(|(_, times)| *times).max();
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
        // No life counts on what ends with a session.
        let kept = self.kept.as_ref().filter(|_| !crate::temporary::is_temporary(&sequence.schema));
        let mut sequences = self.sequences.lock().expect("no panic while counting");
        let name = name_of(sequence);
        let given = sequences.entry(name).or_insert_with(|| {
            let reserved = kept.map_or(0, |kept| kept.reserved(name));
            Given { count: reserved, reserved }
        });
        if let Some(kept) = kept.filter(|_| given.count == given.reserved) {
            kept.reserve(name, given.reserved + SEQUENCE_BLOCK)?;
            given.reserved += SEQUENCE_BLOCK;
        }
        let value = self.nth(sequence, given.count);
        if let Some(value) = value {
            given.count += 1;
            super::given::note(sequence.id, value);
        }
        value.ok_or_else(|| {
            let (name, limits) = (&sequence.name, sequence.limits);
            let bound = match sequence.increment > 0 {
                true => format!("maximum value of sequence \"{name}\" ({})", limits.max),
                false => format!("minimum value of sequence \"{name}\" ({})", limits.min),
            };
            SqlError::new(SqlState(*b"2200H"), format!("nextval: reached {bound}"))
        })
    }
}

/// What counts are kept under: a sequence that was moved begins anew, and statements that were planned before count on.
fn name_of(sequence: &Sequence) -> (TableId, u32) {
    (sequence.id, sequence.origin.times_moved)
}

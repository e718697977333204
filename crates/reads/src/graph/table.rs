//! Where the graph keeps its vertices and logs. Hot: every record of every subscribed partition passes here.
//!
//! KEEPS: vertices stand in slots, found by their transaction's digest and walked by slot, never by hash; a
//! partition's entries stand by position in a ring, since streams bring them without gaps, and by rank in another.

use base::hash::PointMap;
use base::{LogPosition, PartitionId, Rank, Time, TxnId};
use smallvec::SmallVec;
use std::collections::VecDeque;

/// One transaction, as far as the streams have told.
#[derive(Clone, Debug)]
pub(super) struct VertexState {
    pub txn: TxnId,
    pub participants: SmallVec<[PartitionId; 8]>,
    pub dependencies: SmallVec<[TxnId; 2]>,
    pub after: Rank,
    pub logged: Places,
    /// Its rank, once a record of it has come; until then the least rank of its descendants that are known here.
    pub at_most: Rank,
    /// When its order arrived here.
    pub arrived: Time,
}

/// Where one transaction was logged: at few partitions, in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Places(SmallVec<[(PartitionId, LogPosition); 2]>);

impl Places {
    pub fn get(&self, partition: PartitionId) -> Option<LogPosition> {
        self.0.iter().find(|(p, _)| *p == partition).map(|(_, position)| *position)
    }
    pub fn contains(&self, partition: PartitionId) -> bool {
        self.get(partition).is_some()
    }
    pub fn insert(&mut self, partition: PartitionId, position: LogPosition) {
        match self.0.binary_search_by_key(&partition, |(p, _)| *p) {
            Ok(n) => self.0[n].1 = position,
            Err(n) => self.0.insert(n, (partition, position)),
        }
    }
    pub fn remove(&mut self, partition: PartitionId) {
        self.0.retain(|(p, _)| *p != partition);
    }
    pub fn iter(&self) -> impl Iterator<Item = (PartitionId, LogPosition)> + '_ {
        self.0.iter().copied()
    }
}

/// Vertices by transaction.
#[derive(Clone, Debug, Default)]
pub(super) struct Vertices {
    slots: Vec<Option<VertexState>>,
    free: Vec<u32>,
    by_id: PointMap<TxnId, u32>,
}

impl Vertices {
    pub fn get(&self, txn: &TxnId) -> Option<&VertexState> {
        self.slots[*self.by_id.get(txn)? as usize].as_ref()
    }
    pub fn get_mut(&mut self, txn: &TxnId) -> Option<&mut VertexState> {
        self.slots[*self.by_id.get(txn)? as usize].as_mut()
    }
    /// The vertex; one of which nothing is known yet if it is not there.
    pub fn or_new(&mut self, now: Time, txn: TxnId) -> &mut VertexState {
        let Vertices { slots, free, by_id } = self;
        let slot = *by_id.or_insert_with(txn, || {
            let state = Some(VertexState {
                txn,
                participants: SmallVec::new(),
                dependencies: SmallVec::new(),
                after: Rank::ZERO,
                logged: Places::default(),
                at_most: Rank::MAX,
                arrived: now,
            });
            match free.pop() {
                Some(slot) => {
                    slots[slot as usize] = state;
                    slot
                }
                None => {
                    slots.push(state);
                    u32::try_from(slots.len() - 1).expect("fewer than 2^32 vertices")
                }
            }
        });
        slots[slot as usize].as_mut().expect("a known transaction's slot is filled")
    }
    pub fn retain(&mut self, keep: impl Fn(&VertexState) -> bool) {
        for (slot, entry) in self.slots.iter_mut().enumerate() {
            if let Some(state) = entry
                && !keep(state)
            {
                self.by_id.remove(&state.txn);
                self.free.push(slot as u32);
                *entry = None;
            }
        }
    }
    /// All of them, by slot.
    pub fn iter(&self) -> impl Iterator<Item = &VertexState> {
        self.slots.iter().flatten()
    }
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut VertexState> {
        self.slots.iter_mut().flatten()
    }
    pub fn len(&self) -> usize {
        self.by_id.len()
    }
}

/// What one partition logged, as far as it is not collected.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    /// Position of the first entry.
    first: u64,
    /// By position; `None` is collected.
    entries: VecDeque<Option<(TxnId, Rank)>>,
    /// Ascending. Ranks come almost in order, so that a place is found near the end.
    by_rank: VecDeque<(Rank, LogPosition)>,
}

impl Log {
    pub fn insert(&mut self, position: LogPosition, txn: TxnId, rank: Rank) {
        if self.entries.is_empty() {
            self.first = position.0;
        }
        while position.0 < self.first {
            self.entries.push_front(None);
            self.first -= 1;
        }
        let nth = (position.0 - self.first) as usize;
        while self.entries.len() <= nth {
            self.entries.push_back(None);
        }
        self.entries[nth] = Some((txn, rank));
        let mut at = self.by_rank.len();
        while at > 0 && self.by_rank[at - 1] > (rank, position) {
            at -= 1;
        }
        if at == 0 || self.by_rank[at - 1] != (rank, position) {
            self.by_rank.insert(at, (rank, position));
        }
    }
    pub fn get(&self, position: LogPosition) -> Option<(TxnId, Rank)> {
        let nth = position.0.checked_sub(self.first)?;
        self.entries.get(usize::try_from(nth).ok()?).copied().flatten()
    }
    /// Entries from a position on.
    pub fn from(&self, position: LogPosition) -> impl Iterator<Item = (LogPosition, TxnId, Rank)> + '_ {
        let skipped = usize::try_from(position.0.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let entries = self.entries.range(skipped.min(self.entries.len())..);
        let begin = self.first + skipped.min(self.entries.len()) as u64;
        entries.zip(begin..).filter_map(|(entry, at)| entry.map(|(txn, rank)| (LogPosition(at), txn, rank)))
    }
    /// Entries ranked above this, by rank.
    pub fn above(&self, rank: Rank) -> impl Iterator<Item = (Rank, LogPosition)> + '_ {
        let begin = self.by_rank.partition_point(|(r, _)| *r <= rank);
        self.by_rank.range(begin..).copied()
    }
    /// Entries from the highest rank down.
    pub fn downwards(&self) -> impl Iterator<Item = (Rank, LogPosition)> + '_ {
        self.by_rank.iter().rev().copied()
    }
    /// Drops entries ranked at or below this.
    pub fn collect(&mut self, below: Rank) {
        while let Some((rank, position)) = self.by_rank.front().copied()
            && rank <= below
        {
            self.by_rank.pop_front();
            self.entries[(position.0 - self.first) as usize] = None;
        }
        while let Some(None) = self.entries.front() {
            self.entries.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::NodeId;
    use base::rng::Rng;
    use std::collections::BTreeMap;

    #[test]
    fn a_log_agrees_with_a_plain_map() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let (mut log, mut model) = (Log::default(), BTreeMap::new());
            let (mut next, mut below) = (rng.below(5), 0);
            for _ in 0..200 {
                if rng.chance(0.8) {
                    next += 1 + u64::from(rng.chance(0.05)) * 3;
                    let (position, rank) = (LogPosition(next), Rank(below + 1 + next + rng.below(9)));
                    let txn = TxnId { coordinator: NodeId(1), incarnation: 1, sequence: next };
                    log.insert(position, txn, rank);
                    model.insert(position, (txn, rank));
                } else {
                    below += rng.below(20);
                    log.collect(Rank(below));
                    model.retain(|_, (_, rank)| rank.0 > below);
                }
                let since = LogPosition(rng.below(next + 3));
                let expected = model.range(since..).map(|(at, (txn, rank))| (*at, *txn, *rank));
                assert!(log.from(since).eq(expected), "seed {seed}");
                assert_eq!(log.get(since), model.get(&since).copied());
                let above = Rank(below + rng.below(30));
                let mut ranked: Vec<_> = model.iter().map(|(at, (_, rank))| (*rank, *at)).collect();
                ranked.sort_unstable();
                assert!(log.downwards().eq(ranked.iter().rev().copied()));
                assert!(log.above(above).eq(ranked.into_iter().filter(|(rank, _)| *rank > above)));
            }
        }
    }
}

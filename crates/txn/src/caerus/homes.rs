//! Tables and partitions move to another home while everything goes on.
//!
//! IN: a wish to move a partition, or tables (a change of the catalog says so). OUT: a transaction that writes all of
//! those partitions and is ordered in every region. What moves by itself leaves what is homed with its partition for
//! good: from then on it counts its moves itself. KEEPS:
//! 1. a transaction says which homes it took what it touches to have, and the how-manyth; its regions follow from that,
//!    so they are the same for everybody, whenever they hear of a move. One that moves something is ordered everywhere,
//!    so it meets whatever touches its partitions, wherever that is homed;
//! 2. what touches something in its n-th home conflicts with what did so there, in the order of that home's sequence,
//!    and through the move with what did so before: the move comes after all that the old home ordered ahead of it, and
//!    ahead of all that the new one orders behind it;
//! 3. whatever says a home and stands behind the move away from it in that home's sequence takes no effect, in any
//!    region: its place in the sequence decides. Its gateway submits it again, as another transaction, once it knows
//!    better. Of a move the old home's sequence alone decides, so all that it moves is homed in one region;
//! 4. a gateway turns to a new home once the move has its place. By then the new home has ordered the move, stably, so
//!    whatever says the new home stands behind it there, under every later leader: nothing ever has to wait for a move
//!    that has yet to come (counted: `Residences::premature`). What says a home that its sequence has not come to all the
//!    same, because a gateway is wrong, takes no effect like what comes too late: it is not made to wait for a move that
//!    may never come, and holds up nobody;
//! 5. a reader that closes a rank, and finds that something it reads moved at or below it meanwhile, closes it at the
//!    new home too;
//! 6. a named request is also ordered where what never moved by itself is homed, so its attempts meet whatever moves in
//!    between.
//!
//! Rows stay where they are: every region has a copy. A partition that moves takes along what has not moved by itself.

mod image;
mod saying;

pub(super) use self::image::Resided;
use super::claims::{Claims, Step, claimed_by};
use super::cluster::Cluster;
use super::merger::{Graph, met_everywhere};
use super::message::{SequenceId, sequences_in};
use super::options::Mutant;
use super::requests::name_of;
use crate::graph::conflict::{ConflictIndex, Flaws};
use crate::graph::vertex::Ref;
use base::txn::{Access, ClientRequest, Granule, Home, Homed, Transaction};
use base::{PartitionId, Rank, RegionId, TableId};
use smallvec::{SmallVec, smallvec};
use std::collections::{BTreeMap, BTreeSet};

/// Of every partition: where things are homed, and who touched them last in each of their homes.
#[derive(Clone, Debug)]
pub(super) struct Residences {
    partitions: Vec<Partition>,
    /// Entries that said a home which their sequence had not come to.
    premature: u64,
}

/// A partition, as merged here.
#[derive(Clone, Debug)]
struct Partition {
    /// Before it has ever moved.
    origin: Home,
    /// Of all that has not moved by itself.
    rest: Residence,
    /// Tables and indexes that have, or are about to.
    tables: BTreeMap<TableId, Residence>,
}

/// Which of its partitions a transaction may wish to move, and where to.
pub(super) type Wish = Option<(PartitionId, RegionId)>;

/// Where something is homed.
#[derive(Clone, Debug)]
struct Residence {
    /// Since the last move that has its place here; `None` for what has not left its partition yet, as far as is known.
    home: Option<Home>,
    /// That move's rank.
    moved_at: Rank,
    /// Its homes, as far as sequences have come to them and not left them.
    eras: SmallVec<[Era; 1]>,
    /// The most moves that any of them came after.
    reached: u32,
}

/// Who touched what last, as one home ordered it.
#[derive(Clone, Debug)]
struct Era {
    home: Home,
    index: ConflictIndex,
    /// What has left it by itself, as far as this home's sequence has come.
    left: BTreeSet<TableId>,
}

impl Residence {
    fn at(home: Home, flaws: Flaws) -> Residence {
        let mut residence = Residence::unknown();
        residence.open(home, flaws);
        residence.home = Some(home);
        residence
    }
    fn unknown() -> Residence {
        Residence { home: None, moved_at: Rank::ZERO, eras: smallvec![], reached: 0 }
    }
    fn era(&mut self, home: Home) -> Option<&mut Era> {
        self.eras.iter_mut().find(|era| era.home == home)
    }
    /// Of several moves there the new home may order one first that the old one orders too late: it is open then.
    fn open(&mut self, home: Home, flaws: Flaws) -> &mut Era {
        if !self.eras.iter().any(|era| era.home == home) {
            let index = ConflictIndex::with_flaws(flaws);
            self.eras.push(Era { home, index, left: BTreeSet::new() });
            self.reached = self.reached.max(home.moves);
        }
        self.era(home).expect("it is open")
    }
}

impl Partition {
    /// Where a table of it is homed, or what has not moved by itself.
    fn home(&self, table: Option<TableId>) -> Home {
        let own = table.and_then(|table| self.tables.get(&table)?.home);
        own.unwrap_or_else(|| self.rest.home.expect("a partition is homed"))
    }
    /// Whether anything in it has moved, as far as gateways should know.
    fn has_moved(&self) -> bool {
        self.rest.home != Some(self.origin) || self.tables.values().any(|table| table.home.is_some())
    }
    fn moved(&self) -> impl Iterator<Item = TableId> + '_ {
        self.tables.iter().filter(|(_, known)| known.home.is_some()).map(|(table, _)| *table)
    }
    fn residence(&self, table: Option<TableId>) -> Option<&Residence> {
        table.map_or(Some(&self.rest), |table| self.tables.get(&table))
    }
    fn residence_mut(&mut self, table: Option<TableId>) -> Option<&mut Residence> {
        match table {
            None => Some(&mut self.rest),
            Some(table) => self.tables.get_mut(&table),
        }
    }
    /// Who touched something last in one of its homes; `None` if it has moved on from there, or not moved there yet.
    fn era(&mut self, table: Option<TableId>, home: Home) -> Option<&mut Era> {
        self.residence_mut(table)?.era(home)
    }
    /// Everything in it by itself.
    fn residences(&self) -> impl Iterator<Item = &Residence> {
        std::iter::once(&self.rest).chain(self.tables.values())
    }
    fn residences_mut(&mut self) -> impl Iterator<Item = &mut Residence> {
        std::iter::once(&mut self.rest).chain(self.tables.values_mut())
    }
    /// What of it is read or written through these granules, each thing once.
    fn touched<'a>(&self, granules: impl Iterator<Item = &'a Granule>) -> SmallVec<[Option<TableId>; 1]> {
        if self.tables.is_empty() {
            return smallvec![None];
        }
        let mut touched = SmallVec::new();
        for granule in granules {
            match granule.table() {
                Some(table) if self.tables.get(&table).is_some_and(|known| known.home.is_some()) => {
                    touched.push(Some(table));
                }
                Some(_) => touched.push(None),
                None => {
                    touched.push(None);
                    touched.extend(self.moved().map(Some));
                }
            }
        }
        touched.sort_unstable();
        touched.dedup();
        touched
    }
}

impl Residences {
    /// Everything is where it was before it ever moved.
    pub fn new(cluster: &Cluster) -> Residences {
        let partition = |id| {
            let origin = cluster.origin(id);
            let rest = Residence::at(origin, cluster.flaws());
            Partition { origin, rest, tables: BTreeMap::new() }
        };
        Residences { partitions: cluster.topology.partition_ids().map(partition).collect(), premature: 0 }
    }

    fn partition(&self, partition: PartitionId) -> &Partition {
        &self.partitions[usize::from(partition.0)]
    }
    fn partition_mut(&mut self, partition: PartitionId) -> &mut Partition {
        &mut self.partitions[usize::from(partition.0)]
    }

    /// Entries so far that said a home which their sequence had not come to.
    #[cfg(test)]
    pub fn premature(&self) -> u64 {
        self.premature
    }
    /// Granules remembered by the conflict indexes.
    pub fn granule_count(&self) -> usize {
        let known = self.partitions.iter().flat_map(Partition::residences);
        known.flat_map(|known| &known.eras).map(|era| era.index.len()).sum()
    }
    /// Forgets who is gone, a bit at a time.
    pub fn forget(&mut self, live: &impl Fn(Ref) -> bool) {
        let known = self.partitions.iter_mut().flat_map(Partition::residences_mut);
        known.flat_map(|known| &mut known.eras).for_each(|era| era.index.forget(live));
    }
    /// Where a table of a partition is homed, or what has not moved by itself.
    #[cfg(test)]
    pub fn home(&self, partition: PartitionId, table: Option<TableId>) -> Home {
        self.partition(partition).home(table)
    }
    /// The same at once.
    #[cfg(test)]
    pub fn forget_now(&mut self, live: &impl Fn(Ref) -> bool) {
        let known = self.partitions.iter_mut().flat_map(Partition::residences_mut);
        known.flat_map(|known| &mut known.eras).for_each(|era| era.index.forget_now(live));
    }

    /// The next entry of a sequence is this transaction: adds whom it meets among those that the sequence has ordered
    /// before. Answers whether something is not homed where it says, so that it takes no effect.
    pub fn meet(
        &mut self,
        (cluster, graph): (&Cluster, &Graph),
        at: Ref,
        (transaction, request): (&Transaction, Option<ClientRequest>),
        sequence: SequenceId,
        met: &mut Vec<Ref>,
    ) -> bool {
        let is_stale = match transaction.homes.as_ref().is_some_and(|homes| !homes.moves.is_empty()) {
            true => self.install_move((cluster, graph), at, transaction, sequence, met),
            false => transaction.participants().fold(false, |is_stale, partition| {
                self.install((cluster, graph), at, (transaction, request), (sequence, partition), met)
                    || is_stale
            }),
        };
        is_stale && !cluster.options.planted(Mutant::AcceptStaleHomes)
    }

    /// The next entry of a sequence accesses a partition: whom it meets, as far as this sequence has a say in it.
    fn install(
        &mut self,
        (cluster, graph): (&Cluster, &Graph),
        at: Ref,
        (transaction, request): (&Transaction, Option<ClientRequest>),
        (sequence, partition): (SequenceId, PartitionId),
        met: &mut Vec<Ref>,
    ) -> bool {
        let accesses = transaction.access.at(partition);
        let claims = cluster.claims_at(transaction, partition);
        let (mut is_here, mut is_stale) = (false, false);
        for &(table, home) in &claims {
            if SequenceId::of(home) != sequence {
                continue;
            }
            if !self.is_homed(partition, accesses, &claims, (table, home)) {
                base::sometimes!("a transaction comes to where something was homed before");
                is_stale = true;
                continue;
            }
            is_here = true;
            let request = request.filter(|_| table.is_none());
            let own;
            let accesses = match claims.len() == 1 && table.is_none() {
                true => accesses,
                false => {
                    own = claimed_by(accesses, &claims, table);
                    &own
                }
            };
            let era = self.partition_mut(partition).era(table, home).expect("looked up before");
            era.meet(graph, at, partition, (accesses, request), met);
        }
        if is_here {
            met_everywhere((cluster, graph), (partition, sequence), accesses, met);
        }
        is_stale
    }

    /// Whether a claim holds at this point of the home's sequence.
    fn is_homed(
        &mut self,
        partition: PartitionId,
        accesses: &[Access],
        claims: &Claims,
        (table, home): (Option<TableId>, Home),
    ) -> bool {
        let known = &mut self.partitions[usize::from(partition.0)];
        let Some(era) = known.era(table, home) else {
            let reached = known.residence(table).map_or(0, |known| known.reached);
            self.premature += u64::from(home.moves > reached);
            return false;
        };
        if era.left.is_empty() || table.is_some() {
            return true;
        }
        let is_named = |id: &TableId| claims.iter().any(|(named, _)| *named == Some(*id));
        accesses.iter().all(|access| match access.granule.table() {
            Some(id) => is_named(&id) || !era.left.contains(&id),
            None => era.left.iter().all(is_named),
        })
    }

    /// The next entry of a sequence moves something: it meets whatever is homed there and touches its partitions.
    fn install_move(
        &mut self,
        (cluster, graph): (&Cluster, &Graph),
        at: Ref,
        transaction: &Transaction,
        sequence: SequenceId,
        met: &mut Vec<Ref>,
    ) -> bool {
        let steps = cluster.steps(transaction);
        let mut is_stale = false;
        if steps.iter().any(|step| SequenceId::of(step.from) == sequence) {
            is_stale = !steps.iter().all(|step| self.takes_leave(transaction, step));
            if !is_stale {
                steps.iter().for_each(|step| self.leave(step));
            }
        }
        for step in steps.iter().filter(|step| SequenceId::of(step.to) == sequence) {
            let known = self.partition_mut(step.what.partition);
            let residence = match step.what.table {
                None => &mut known.rest,
                Some(table) => known.tables.entry(table).or_insert_with(Residence::unknown),
            };
            let era = residence.open(step.to, cluster.flaws());
            if step.what.table.is_none() {
                let claims = transaction.homes.iter().flat_map(|homes| homes.claims.keys());
                let own = claims.filter(|what| what.partition == step.what.partition);
                era.left.extend(own.filter_map(|what| what.table));
            }
        }
        let live = |at| graph.get(at).is_some();
        for partition in transaction.participants() {
            let accesses = transaction.access.at(partition);
            let here = self.partition_mut(partition).residences_mut().flat_map(|known| &mut known.eras);
            here.filter(|era| SequenceId::of(era.home) == sequence)
                .for_each(|era| era.index.install(at, accesses, &live, met));
        }
        for partition in transaction.participants() {
            let accesses = transaction.access.at(partition);
            met_everywhere((cluster, graph), (partition, sequence), accesses, met);
        }
        is_stale
    }

    /// Whether something is, at this point of the old home's sequence, where its move takes it to be.
    fn takes_leave(&mut self, transaction: &Transaction, step: &Step) -> bool {
        let Homed { partition, table } = step.what;
        let known = self.partition_mut(partition);
        let Some(era) = known.era(table.filter(|_| !step.leaves), step.from) else { return false };
        let homes = transaction.homes.as_ref().expect("it moves something");
        let is_named = |id: &TableId| homes.claims.contains_key(&Homed { partition, table: Some(*id) });
        match table {
            Some(table) => !step.leaves || !era.left.contains(&table),
            None => era.left.iter().all(is_named),
        }
    }

    fn leave(&mut self, step: &Step) {
        let known = self.partition_mut(step.what.partition);
        match step.what.table {
            Some(table) if step.leaves => {
                let era = known.rest.era(step.from).expect("just found");
                era.left.insert(table);
            }
            table => {
                let known = known.residence_mut(table).expect("just found");
                known.eras.retain(|era| era.home != step.from);
            }
        }
    }

    /// A transaction that takes effect has its place: if it moves something, that has another home.
    pub fn placed(&mut self, cluster: &Cluster, transaction: &Transaction, rank: Rank) {
        for Step { what, from, to, leaves } in cluster.steps(transaction) {
            let residence = self.partition_mut(what.partition).residence_mut(what.table);
            let residence = residence.expect("it was opened there");
            let before = if leaves { None } else { Some(from) };
            assert_eq!(residence.home, before, "{} moves from where it is", what.partition);
            (residence.home, residence.moved_at) = (Some(to), rank);
        }
    }

    /// Where things are homed that have moved.
    pub fn moved(&self) -> Vec<(Homed, Home)> {
        let mut homes: Vec<(Homed, Home)> = Vec::new();
        for (partition, known) in (0..).map(PartitionId).zip(&self.partitions) {
            if known.rest.home != Some(known.origin) {
                homes.push((Homed::rest_of(partition), known.home(None)));
            }
            let moved =
                known.moved().map(|table| (Homed { partition, table: Some(table) }, known.home(Some(table))));
            homes.extend(moved);
        }
        homes
    }

    /// Another node tells where things are homed that have moved; for one that merges nothing itself.
    pub fn learn(&mut self, homes: Vec<(Homed, Home)>) {
        for (what, home) in homes {
            let Some(known) = self.partitions.get_mut(usize::from(what.partition.0)) else { continue };
            let residence = match what.table {
                None => &mut known.rest,
                Some(table) => known.tables.entry(table).or_insert_with(Residence::unknown),
            };
            if residence.home.is_none_or(|known| known.moves < home.moves) {
                residence.home = Some(home);
            }
        }
    }

    /// The home of each thing at a partition that a reader of these granules reads.
    pub fn read(&self, partition: PartitionId, granules: &[Granule]) -> Claims {
        let known = self.partition(partition);
        known.touched(granules.iter()).into_iter().map(|table| (table, known.home(table))).collect()
    }

    /// Every sequence that orders anything at a partition, in order.
    pub fn homes_in(&self, partition: PartitionId) -> impl Iterator<Item = SequenceId> + use<> {
        let known = self.partition(partition).residences().filter_map(|known| known.home);
        sequences_in(known.fold(0, |all, home| all | SequenceId::of(home).bit()))
    }

    /// Whether everything up to this rank that touches something is known here by the move away from there.
    pub fn moved_later(&self, partition: PartitionId, table: Option<TableId>, rank: Rank) -> bool {
        self.partition(partition).residence(table).is_some_and(|known| known.moved_at > rank)
    }
}

impl Era {
    /// Adds whom a transaction meets among those that this home has ordered before.
    fn meet(
        &mut self,
        graph: &Graph,
        at: Ref,
        partition: PartitionId,
        (accesses, request): (&[Access], Option<ClientRequest>),
        met: &mut Vec<Ref>,
    ) {
        let index = &mut self.index;
        while let Some(table) = index.unordered_table(accesses) {
            let live = graph.iter().filter_map(|(_, vertex)| vertex.transaction.as_ref());
            index.order_table(table, live.flat_map(|transaction| transaction.access.at(partition)));
        }
        let live = |at| graph.get(at).is_some();
        index.install(at, accesses, &live, met);
        if let Some(request) = request {
            index.install(at, &[name_of(request)], &live, met);
        }
    }
}

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
//!    that has yet to come (counted: [`Caerus::premature`]). What says a home that its sequence has not come to all the
//!    same, because a gateway is wrong, takes no effect like what comes too late: it is not made to wait for a move that
//!    may never come, and holds up nobody;
//! 5. a reader that closes a rank, and finds that something it reads moved at or below it meanwhile, closes it at the
//!    new home too;
//! 6. a named request is also ordered where what never moved by itself is homed, so its attempts meet whatever moves in
//!    between.
//!
//! Rows stay where they are: every region has a copy. A partition that moves takes along what has not moved by itself.

use super::message::Message;
use super::options::{Mutant, Protocol};
use super::state::{Caerus, Out, Partition, regions_in};
use crate::graph::conflict::{ConflictIndex, Flaws};
use crate::graph::vertex::Ref;
use base::txn::{
    Access, AccessMode, AccessSet, ClientRequest, Granule, Home, Homed, Homes, Submission, Transaction,
    TxnProgram,
};
use base::{PartitionId, Rank, RegionId, SqlError, SqlState, TableId, Time, Token, TxnId};
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Where something is homed.
#[derive(Clone, Debug)]
pub(super) struct Residence {
    /// Since the last move that has its place here; `None` for what has not left its partition yet, as far as is known.
    pub home: Option<Home>,
    /// That move's rank.
    pub moved_at: Rank,
    /// Its homes, as far as sequences have come to them and not left them.
    pub eras: SmallVec<[Era; 1]>,
    /// The most moves that any of them came after.
    pub reached: u32,
}

/// Who touched what last, as one home ordered it.
#[derive(Clone, Debug)]
pub(super) struct Era {
    pub home: Home,
    pub index: ConflictIndex,
    /// What has left it by itself, as far as this home's sequence has come.
    pub left: BTreeSet<TableId>,
}

/// One step on the way of something that moves.
struct Step {
    what: Homed,
    from: Home,
    to: Home,
    /// It leaves the rest of its partition.
    leaves: bool,
}

/// The homes that a transaction says of one partition.
pub(super) type Claims = SmallVec<[(Option<TableId>, Home); 1]>;

impl Residence {
    pub fn at(home: Home, flaws: Flaws) -> Residence {
        let mut residence = Residence::unknown();
        residence.open(home, flaws);
        residence.home = Some(home);
        residence
    }
    fn unknown() -> Residence {
        Residence { home: None, moved_at: Rank::ZERO, eras: smallvec![], reached: 0 }
    }
    pub fn era(&mut self, home: Home) -> Option<&mut Era> {
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
    pub fn home(&self, table: Option<TableId>) -> Home {
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
    pub fn era(&mut self, table: Option<TableId>, home: Home) -> Option<&mut Era> {
        self.residence_mut(table)?.era(home)
    }
    /// Everything in it by itself.
    pub fn residences(&self) -> impl Iterator<Item = &Residence> {
        std::iter::once(&self.rest).chain(self.tables.values())
    }
    pub fn residences_mut(&mut self) -> impl Iterator<Item = &mut Residence> {
        std::iter::once(&mut self.rest).chain(self.tables.values_mut())
    }
    /// What of it is read or written through these granules, each thing once.
    pub fn touched<'a>(&self, granules: impl Iterator<Item = &'a Granule>) -> SmallVec<[Option<TableId>; 1]> {
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

/// The accesses that one claim of a partition is about.
fn claimed_by<'a>(accesses: &'a [Access], claims: &Claims, table: Option<TableId>) -> Vec<Access> {
    let is_named = |id: TableId| claims.iter().any(|(named, _)| *named == Some(id));
    let own = accesses.iter().filter(|access| match (access.granule.table(), table) {
        (None, _) => true,
        (Some(id), Some(table)) => id == table,
        (Some(id), None) => !is_named(id),
    });
    own.cloned().collect()
}

impl Caerus {
    /// The homes that a transaction took what it touches at a partition to have.
    pub(super) fn claims_at(&self, transaction: &Transaction, partition: PartitionId) -> Claims {
        let origin = (None, self.partition(partition).origin);
        let Some(homes) = &transaction.homes else { return smallvec![origin] };
        let last = Homed { partition, table: Some(TableId(u32::MAX)) };
        let named = homes.claims.range(Homed::rest_of(partition)..=last);
        let named: Claims = named.map(|(what, home)| (what.table, *home)).collect();
        if named.is_empty() { smallvec![origin] } else { named }
    }

    /// The sequences that order a transaction for what it does at a partition, as bits.
    pub(super) fn regions_at(&self, transaction: &Transaction, partition: PartitionId) -> u64 {
        if transaction.homes.is_none() {
            return 1 << self.partition(partition).origin.region.0;
        }
        let claims = self.claims_at(transaction, partition);
        claims.into_iter().fold(0, |all, (_, home)| all | 1 << home.region.0)
    }

    /// Whether one of these sequences orders a transaction for what it does at a partition.
    pub(super) fn is_ordered_at(
        &self,
        transaction: &Transaction,
        partition: PartitionId,
        regions: u64,
    ) -> bool {
        let moves = transaction.homes.as_ref().is_some_and(|homes| !homes.moves.is_empty());
        moves || self.regions_at(transaction, partition) & regions != 0
    }

    /// The same for what it does to this granule.
    pub(super) fn is_ordered_for(
        &self,
        transaction: &Transaction,
        partition: PartitionId,
        granule: &Granule,
        regions: u64,
    ) -> bool {
        let (Some(homes), Some(table)) = (&transaction.homes, granule.table()) else {
            return self.is_ordered_at(transaction, partition, regions);
        };
        match homes.claims.get(&Homed { partition, table: Some(table) }) {
            Some(home) => regions >> home.region.0 & 1 == 1,
            None => self.is_ordered_at(transaction, partition, regions),
        }
    }

    /// The sequences that order a transaction that moves something; `None` if it does not.
    pub(super) fn regions_of_move(&self, transaction: &Transaction) -> Option<u64> {
        let homes = transaction.homes.as_ref().filter(|homes| !homes.moves.is_empty())?;
        if self.options.planted(Mutant::MoveUnheardOf) {
            // Ordered at the new home alone.
            return Some(homes.moves.iter().fold(0, |all, (_, to)| all | 1 << to.0));
        }
        Some(self.ranking().into_iter().fold(0, |all, region| all | 1 << region.0))
    }

    fn steps(&self, transaction: &Transaction) -> Vec<Step> {
        let Some(homes) = &transaction.homes else { return Vec::new() };
        let step = |(what, region): &(Homed, RegionId)| {
            let rest = Homed::rest_of(what.partition);
            let origin = self.partition(what.partition).origin;
            let own = homes.claims.get(what).copied();
            let leaves = what.table.is_some() && own.is_none();
            let from = own.or_else(|| homes.claims.get(&rest).copied()).unwrap_or(origin);
            let moves = if leaves { 1 } else { from.moves + 1 };
            Step { what: *what, from, to: Home { region: *region, moves }, leaves }
        };
        homes.moves.iter().map(step).collect()
    }

    /// What a transaction that sets out now says about homes; `None` if nothing that it touches has ever moved.
    pub(super) fn claims(
        &self,
        (transaction, request): (&Transaction, Option<ClientRequest>),
    ) -> Option<Arc<Homes>> {
        let moved: SmallVec<[PartitionId; 4]> =
            transaction.participants().filter(|p| self.partition(*p).has_moved()).collect();
        if moved.is_empty() {
            return None;
        }
        let mut homes = Homes::default();
        for partition in moved {
            let known = self.partition(partition);
            let mut touched = known.touched(transaction.access.at(partition).iter().map(|a| &a.granule));
            if request.is_some() && !touched.contains(&None) {
                touched.push(None);
            }
            for table in touched {
                homes.claims.insert(Homed { partition, table }, self.told(known.home(table)));
            }
        }
        Some(Arc::new(homes))
    }

    fn told(&self, home: Home) -> Home {
        match self.options.planted(Mutant::WrongHomes) {
            // One time it is too few, one time too many, and then it is right.
            true => Home { moves: (home.moves + self.count as u32 % 3).saturating_sub(1), ..home },
            false => home,
        }
    }

    /// The same of a transaction that moves something.
    fn claims_of_move(&self, transaction: &Transaction, moves: Vec<(Homed, RegionId)>) -> Arc<Homes> {
        let mut homes = Homes { moves, ..Homes::default() };
        for partition in transaction.participants() {
            let known = self.partition(partition);
            let touched = known.touched([Granule::Partition].iter());
            homes
                .claims
                .extend(touched.into_iter().map(|table| (Homed { partition, table }, known.home(table))));
        }
        Arc::new(homes)
    }

    /// What a transaction of this gateway says about homes. Errors: it would move what is homed in several regions.
    pub(super) fn says(
        &mut self,
        transaction: &Transaction,
        request: Option<ClientRequest>,
    ) -> Result<Option<Arc<Homes>>, SqlError> {
        let wished = match self.moving.remove(&transaction.id) {
            Some((partition, to)) => vec![(Homed::rest_of(partition), to)],
            None => self.moved_by(transaction),
        };
        let targets = transaction.program.schema_change().into_iter().flat_map(|change| change.moves());
        if let Some(nowhere) = targets.map(|moved| moved.to).find(|to| !self.is_region(*to)) {
            let message = format!("region {nowhere} orders nothing, so nothing can be homed there");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        if wished.is_empty() {
            return Ok(self.claims((transaction, request)));
        }
        let home = |what: &Homed| self.partition(what.partition).home(what.table).region;
        let from: BTreeSet<RegionId> = wished.iter().map(|(what, _)| home(what)).collect();
        if from.len() > 1 {
            let error = SqlError::unsupported("moving what is homed in several regions at once");
            return Err(error.detail("Some of its partitions have moved by themselves."));
        }
        Ok(Some(self.claims_of_move(transaction, wished)))
    }

    /// Whether a region keeps copies, so that something can be ordered there.
    fn is_region(&self, region: RegionId) -> bool {
        self.sequencers.get(usize::from(region.0)).is_some_and(Option::is_some)
    }

    /// What a change of the catalog moves that is not there yet.
    fn moved_by(&self, transaction: &Transaction) -> Vec<(Homed, RegionId)> {
        let Some(change) = transaction.program.schema_change() else { return Vec::new() };
        if self.protocol() == Protocol::Calvin {
            return Vec::new(); // Everything is ordered in one place.
        }
        let mut moves = Vec::new();
        for moved in change.moves().filter(|moved| self.is_region(moved.to)) {
            for &partition in
                moved.partitions.iter().filter(|p| transaction.access.by_partition.contains_key(p))
            {
                let ids = moved.ids.iter().map(|id| Homed { partition, table: Some(*id) });
                let away = ids.filter(|what| self.partition(partition).home(what.table).region != moved.to);
                moves.extend(away.map(|what| (what, moved.to)));
            }
        }
        moves
    }

    /// Begins to move a partition.
    pub(super) fn begin_move(
        &mut self,
        now: Time,
        partition: PartitionId,
        to: RegionId,
    ) -> Result<TxnId, SqlError> {
        if let Some(absent) = self.not_whole() {
            return Err(absent);
        }
        let refuse = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
        if self.protocol() == Protocol::Calvin {
            return Err(SqlError::unsupported("moving homes with this engine"));
        }
        if self.topology.partitions.len() <= usize::from(partition.0) {
            return Err(refuse(format!("there is no partition {partition}")));
        }
        if !self.is_region(to) {
            return Err(refuse(format!("region {to} orders nothing, so nothing can be homed there")));
        }
        if self.partition(partition).home(None).region == to {
            return Err(refuse(format!("partition {partition} is homed in region {to} already")));
        }
        let mut access = AccessSet::default();
        access.add(partition, Granule::Partition, AccessMode::Write);
        let (program, access) = (Arc::new(TxnProgram::Statements(Vec::new())), Arc::new(access));
        let submission = Submission { program, access, token: Token::default(), request: None };
        let id = self.submitted(now, submission);
        self.moving.insert(id, (partition, to));
        Ok(id)
    }

    /// The next entry of a sequence accesses a partition: whom it meets, as far as this sequence has a say in it.
    pub(super) fn install(
        &mut self,
        at: Ref,
        (transaction, request): (&Transaction, Option<ClientRequest>),
        sequence: RegionId,
        partition: PartitionId,
        met: &mut Vec<Ref>,
    ) {
        let accesses = transaction.access.at(partition);
        let claims = self.claims_at(transaction, partition);
        let mut is_here = false;
        for &(table, home) in &claims {
            if home.region != sequence {
                continue;
            }
            if !self.is_homed(partition, accesses, &claims, (table, home)) {
                base::sometimes!("a transaction comes to where something was homed before");
                self.graph.live_mut(at).extra.stale |= !self.options.planted(Mutant::AcceptStaleHomes);
                continue;
            }
            is_here = true;
            let request = request.filter(|_| table.is_none());
            if claims.len() == 1 && table.is_none() {
                self.install_in(at, (partition, table, home), (accesses, request), met);
            } else {
                let accesses = claimed_by(accesses, &claims, table);
                self.install_in(at, (partition, table, home), (&accesses, request), met);
            }
        }
        if is_here {
            self.everyone(partition, sequence, accesses, met);
        }
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
    pub(super) fn install_move(
        &mut self,
        at: Ref,
        transaction: &Transaction,
        sequence: RegionId,
        met: &mut Vec<Ref>,
    ) {
        let steps = self.steps(transaction);
        if steps.iter().any(|step| step.from.region == sequence) {
            if steps.iter().all(|step| self.takes_leave(transaction, step)) {
                steps.iter().for_each(|step| self.leave(step));
            } else {
                self.graph.live_mut(at).extra.stale |= !self.options.planted(Mutant::AcceptStaleHomes);
            }
        }
        let flaws = self.flaws();
        for step in steps.iter().filter(|step| step.to.region == sequence) {
            let known = &mut self.partitions[usize::from(step.what.partition.0)];
            let residence = match step.what.table {
                None => &mut known.rest,
                Some(table) => known.tables.entry(table).or_insert_with(Residence::unknown),
            };
            let era = residence.open(step.to, flaws);
            if step.what.table.is_none() {
                let claims = transaction.homes.iter().flat_map(|homes| homes.claims.keys());
                let own = claims.filter(|what| what.partition == step.what.partition);
                era.left.extend(own.filter_map(|what| what.table));
            }
        }
        let graph = &self.graph;
        let live = |at| graph.get(at).is_some();
        for partition in transaction.participants() {
            let accesses = transaction.access.at(partition);
            let known = &mut self.partitions[usize::from(partition.0)];
            let here = known.residences_mut().flat_map(|known| &mut known.eras);
            here.filter(|era| era.home.region == sequence)
                .for_each(|era| era.index.install(at, accesses, &live, met));
        }
        for partition in transaction.participants() {
            self.everyone(partition, sequence, transaction.access.at(partition), met);
        }
    }

    /// Whether something is, at this point of the old home's sequence, where its move takes it to be.
    fn takes_leave(&mut self, transaction: &Transaction, step: &Step) -> bool {
        let Homed { partition, table } = step.what;
        let known = &mut self.partitions[usize::from(partition.0)];
        let Some(era) = known.era(table.filter(|_| !step.leaves), step.from) else { return false };
        let homes = transaction.homes.as_ref().expect("it moves something");
        let is_named = |id: &TableId| homes.claims.contains_key(&Homed { partition, table: Some(*id) });
        match table {
            Some(table) => !step.leaves || !era.left.contains(&table),
            None => era.left.iter().all(is_named),
        }
    }

    fn leave(&mut self, step: &Step) {
        let known = &mut self.partitions[usize::from(step.what.partition.0)];
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

    /// A transaction has its place. If it is a move that took effect, something has another home.
    pub(super) fn adopt(&mut self, at: Ref) {
        let vertex = self.graph.live(at);
        let (stale, rank) = (vertex.extra.stale, vertex.rank.expect("it has its place"));
        let steps =
            vertex.transaction.as_ref().map(|transaction| self.steps(transaction)).unwrap_or_default();
        if stale {
            // What it opened at the new home stays: another move there may follow it, or have been first.
            return;
        }
        for Step { what, from, to, leaves } in steps {
            let known = &mut self.partitions[usize::from(what.partition.0)];
            let residence = known.residence_mut(what.table).expect("it was opened there");
            let before = if leaves { None } else { Some(from) };
            assert_eq!(residence.home, before, "{} moves from where it is", what.partition);
            (residence.home, residence.moved_at) = (Some(to), rank);
        }
    }

    /// An attempt took no effect because something was not where its gateway took it to be: another one. (A
    /// partition's move is not tried again: whoever wanted it may want something else now.)
    pub(super) fn submit_again(
        &mut self,
        mut transaction: Transaction,
        request: Option<ClientRequest>,
        submitted_at: Time,
    ) {
        base::sometimes!("a transaction is submitted again because something has moved");
        let before = transaction.id;
        self.count += 1;
        transaction.id = TxnId { coordinator: self.me, incarnation: self.incarnation, sequence: self.count };
        transaction.homes = None;
        let submitted_as = self.again.remove(&before).unwrap_or(before);
        self.again.insert(transaction.id, submitted_as);
        // The move that it met may be known here and have no place yet: no sooner than with the next tick.
        self.held_back.push(((transaction, request), submitted_at));
    }

    /// Lets those go on that were held back.
    pub(super) fn let_go_on(&mut self) {
        self.waiting.extend(std::mem::take(&mut self.held_back));
    }

    /// Tells nodes without a copy, which hear no moves, where things are homed that have moved.
    pub(super) fn announce_homes(&mut self, out: &mut Out) {
        if self.sequencers[usize::from(self.region.0)] != Some(self.me) {
            return;
        }
        let mut homes: Vec<(Homed, Home)> = Vec::new();
        for partition in self.topology.partition_ids() {
            let known = self.partition(partition);
            if known.rest.home != Some(known.origin) {
                homes.push((Homed::rest_of(partition), known.home(None)));
            }
            let moved =
                known.moved().map(|table| (Homed { partition, table: Some(table) }, known.home(Some(table))));
            homes.extend(moved);
        }
        if homes.is_empty() {
            return;
        }
        for node in self.topology.node_ids() {
            if self.topology.region_of(node) == self.region && self.topology.copies_at(node).next().is_none()
            {
                self.send(node, Message::Homes { homes: homes.clone() }, out);
            }
        }
    }

    pub(super) fn on_homes(&mut self, homes: Vec<(Homed, Home)>) {
        for (what, home) in homes {
            let Some(known) = self.partitions.get_mut(usize::from(what.partition.0)) else { continue };
            if self.is_replica {
                continue;
            }
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
    pub(super) fn homes_read(&self, partition: PartitionId, granules: &[Granule]) -> Claims {
        let known = self.partition(partition);
        known.touched(granules.iter()).into_iter().map(|table| (table, known.home(table))).collect()
    }

    /// Every sequence that orders anything at a partition, in order.
    pub(super) fn homes_in(&self, partition: PartitionId) -> impl Iterator<Item = RegionId> + use<> {
        let known = self.partition(partition).residences().filter_map(|known| known.home);
        regions_in(known.fold(0, |all, home| all | 1 << home.region.0))
    }

    /// Whether everything up to this rank that touches something is known here by the move away from there.
    pub(super) fn moved_later(&self, partition: PartitionId, table: Option<TableId>, rank: Rank) -> bool {
        self.partition(partition).residence(table).is_some_and(|known| known.moved_at > rank)
    }
}

/// A move that executes nothing.
pub(super) fn is_bare_move(transaction: &Transaction) -> bool {
    transaction.homes.as_ref().is_some_and(|homes| !homes.moves.is_empty())
        && transaction.program.schema_change().is_none()
}

/// How an attempt ends that took no effect because a partition was not where it was taken to be.
pub(super) fn moved_away() -> SqlError {
    let error = SqlError::new(
        SqlState::SERIALIZATION_FAILURE,
        "could not move the partition: another move came first",
    );
    error.hint("Look where it is homed now, and retry if need be.")
}

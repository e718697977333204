//! What a transaction says about homes, and which sequences order it because of that.
//!
//! KEEPS: it follows from the transaction alone, so it is the same for every node, whenever that hears of a move
//! (see `homes`).

use super::cluster::Cluster;
use super::message::SequenceId;
use super::options::Mutant;
use base::txn::{Access, Granule, Home, Homed, Transaction};
use base::{PartitionId, RegionId, SqlError, SqlState, TableId};
use smallvec::{SmallVec, smallvec};

/// One step on the way of something that moves.
pub(super) struct Step {
    pub what: Homed,
    pub from: Home,
    pub to: Home,
    /// It leaves the rest of its partition.
    pub leaves: bool,
}

/// The homes that a transaction says of one partition.
pub(super) type Claims = SmallVec<[(Option<TableId>, Home); 1]>;

impl Cluster {
    /// Sequences that give a transaction its place, as bits.
    pub(super) fn regions_of(&self, transaction: &Transaction) -> u64 {
        let moves = self.regions_of_move(transaction);
        moves.unwrap_or_else(|| {
            transaction.participants().fold(0, |all, p| all | self.regions_at(transaction, p))
        })
    }

    /// The homes that a transaction took what it touches at a partition to have.
    pub(super) fn claims_at(&self, transaction: &Transaction, partition: PartitionId) -> Claims {
        let origin = (None, self.origin(partition));
        let Some(homes) = &transaction.homes else { return smallvec![origin] };
        let last = Homed { partition, table: Some(TableId(u32::MAX)) };
        let last = if self.options.planted(Mutant::ClaimsOfPartitionsOnly) {
            Homed::rest_of(partition)
        } else {
            last
        };
        let named = homes.claims.range(Homed::rest_of(partition)..=last);
        let named: Claims = named.map(|(what, home)| (what.table, *home)).collect();
        if named.is_empty() { smallvec![origin] } else { named }
    }

    /// The sequences that order a transaction for what it does at a partition, as bits.
    pub(super) fn regions_at(&self, transaction: &Transaction, partition: PartitionId) -> u64 {
        if transaction.homes.is_none() {
            return SequenceId::of(self.origin(partition)).bit();
        }
        let claims = self.claims_at(transaction, partition);
        claims.into_iter().fold(0, |all, (_, home)| all | SequenceId::of(home).bit())
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
        Some(self.ranking().into_iter().fold(0, |all, sequence| all | sequence.bit()))
    }

    /// What a transaction moves, and from where to where.
    pub(super) fn steps(&self, transaction: &Transaction) -> Vec<Step> {
        let Some(homes) = &transaction.homes else { return Vec::new() };
        let step = |(what, region): &(Homed, RegionId)| {
            let rest = Homed::rest_of(what.partition);
            let origin = self.origin(what.partition);
            let own = homes.claims.get(what).copied();
            let leaves = what.table.is_some() && own.is_none();
            let from = own.or_else(|| homes.claims.get(&rest).copied()).unwrap_or(origin);
            let moves = if leaves { 1 } else { from.moves + 1 };
            Step { what: *what, from, to: Home { region: *region, moves }, leaves }
        };
        homes.moves.iter().map(step).collect()
    }
}

/// The accesses that one claim of a partition is about.
pub(super) fn claimed_by<'a>(accesses: &'a [Access], claims: &Claims, table: Option<TableId>) -> Vec<Access> {
    let is_named = |id: TableId| claims.iter().any(|(named, _)| *named == Some(id));
    let own = accesses.iter().filter(|access| match (access.granule.table(), table) {
        (None, _) => true,
        (Some(id), Some(table)) => id == table,
        (Some(id), None) => !is_named(id),
    });
    own.cloned().collect()
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

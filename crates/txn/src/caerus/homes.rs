//! A partition moves to another home while everything goes on.
//!
//! IN: a wish to move a partition. OUT: a transaction that writes all of it and is ordered in both sequences, the
//! old home's and the new one's. KEEPS:
//! 1. a transaction says which home it took a partition to have, and the how-manyth; its regions follow from that, so
//!    they are the same for everybody, whenever they hear of the move;
//! 2. what accesses a partition in its n-th home conflicts with what did so there, in the order of that home's
//!    sequence, and through the move with what did so before: the move comes after all that the old home ordered ahead
//!    of it, and ahead of all that the new one orders behind it;
//! 3. whatever says a home and stands behind the move away from it in that home's sequence, or ahead of the move to it,
//!    takes no effect, in any region: its place in the sequence decides. Its gateway submits it again, as another
//!    transaction, once it knows better;
//! 4. a gateway turns to a new home once the move has its place, so the new home has ordered the move by then;
//! 5. a reader that closes a rank, and finds that the partition moved at or below it meanwhile, closes it at the new
//!    home too.
//!
//! Rows stay where they are: every region has a copy.

use super::message::Message;
use super::options::{Mutant, Protocol};
use super::state::{Caerus, Out, Partition};
use crate::graph::conflict::ConflictIndex;
use crate::graph::vertex::Ref;
use base::txn::{
    AccessMode, AccessSet, ClientRequest, Granule, Home, Homes, Submission, Transaction, TxnProgram,
};
use base::{PartitionId, Rank, RegionId, SqlError, SqlState, Time, Token, TxnId};
use std::sync::Arc;

/// Who touched what last, as one home ordered it.
#[derive(Clone, Debug)]
pub(super) struct Era {
    pub home: Home,
    pub index: ConflictIndex,
}

impl Partition {
    /// Who touched what last in one of its homes; `None` if it has moved on from there, or not moved there yet.
    pub fn era(&mut self, home: Home) -> Option<&mut ConflictIndex> {
        self.eras.iter_mut().find(|era| era.home == home).map(|era| &mut era.index)
    }
}

impl Caerus {
    /// The home that a transaction took a partition to have.
    pub(super) fn claimed(&self, transaction: &Transaction, partition: PartitionId) -> Home {
        let claims = transaction.homes.as_ref().and_then(|homes| homes.claims.get(&partition));
        claims.copied().unwrap_or(self.partition(partition).origin)
    }

    /// Where a transaction moves a partition, if it is a move.
    pub(super) fn moved_to(&self, transaction: &Transaction) -> Option<(PartitionId, Home)> {
        let (partition, region) = transaction.homes.as_ref()?.moves?;
        Some((partition, Home { region, moves: self.claimed(transaction, partition).moves + 1 }))
    }

    /// What a transaction that sets out now says about homes; `None` if nothing that it touches has ever moved.
    pub(super) fn claims(
        &self,
        transaction: &Transaction,
        moves: Option<(PartitionId, RegionId)>,
    ) -> Option<Arc<Homes>> {
        let moved = transaction.participants().filter(|p| self.partition(*p).home.moves > 0);
        let claims = moved.map(|p| (p, self.partition(p).home)).collect();
        let homes = Homes { claims, moves };
        (!homes.claims.is_empty() || moves.is_some()).then(|| Arc::new(homes))
    }

    /// Begins to move a partition.
    pub(super) fn begin_move(
        &mut self,
        now: Time,
        partition: PartitionId,
        to: RegionId,
    ) -> Result<TxnId, SqlError> {
        let refuse = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
        if self.protocol() != Protocol::Caerus {
            return Err(SqlError::unsupported("moving homes with this engine"));
        }
        if self.topology.partitions.len() <= usize::from(partition.0) {
            return Err(refuse(format!("there is no partition {partition}")));
        }
        if !self.exists(to) {
            return Err(refuse(format!("region {to} orders nothing, so nothing can be homed there")));
        }
        if self.partition(partition).home.region == to {
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
        let claimed = self.claimed(transaction, partition);
        let moved = self.moved_to(transaction).filter(|(moves, _)| *moves == partition).map(|(_, to)| to);
        if claimed.region == sequence {
            match self.partitions[partition.0 as usize].era(claimed) {
                Some(_) => self.install_in(at, claimed, partition, (transaction, request), met),
                None => {
                    base::sometimes!("a transaction comes to where its partition was homed before");
                    self.graph.live_mut(at).extra.stale |= !self.options.planted(Mutant::AcceptStaleHomes);
                }
            }
            if moved.is_some() {
                self.partitions[partition.0 as usize].eras.retain(|era| era.home != claimed);
            }
        }
        if let Some(home) = moved.filter(|home| home.region == sequence) {
            let flaws = self.flaws();
            let known = &mut self.partitions[partition.0 as usize];
            // Of several moves there the new home may order one first that the old one orders too late.
            if known.era(home).is_none() {
                known.eras.push(Era { home, index: ConflictIndex::with_flaws(flaws) });
            }
            self.install_in(at, home, partition, (transaction, request), met);
        }
    }

    /// A transaction has its place. If it is a move that took effect, the partition has another home.
    pub(super) fn adopt(&mut self, at: Ref) {
        let vertex = self.graph.live(at);
        let (stale, rank) = (vertex.extra.stale, vertex.rank.expect("it has its place"));
        let Some((partition, home)) = vertex.transaction.as_ref().and_then(|t| self.moved_to(t)) else {
            return;
        };
        let known = &mut self.partitions[partition.0 as usize];
        if stale {
            // What it opened at the new home stays: another move there may follow it, or have been first.
            base::sometimes!("of two moves of one partition the second takes no effect");
            return;
        }
        assert_eq!(home.moves, known.home.moves + 1, "{partition} moves from where it is");
        (known.home, known.moved_at) = (home, rank);
    }

    /// An attempt took no effect because a partition was not where its gateway took it to be: another one. (A move
    /// is not tried again: whoever wanted it may want something else now.)
    pub(super) fn submit_again(
        &mut self,
        mut transaction: Transaction,
        request: Option<ClientRequest>,
        submitted_at: Time,
    ) {
        base::sometimes!("a transaction is submitted again because a partition has moved");
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

    /// Tells nodes without a copy, which hear no moves, where partitions are homed that have moved.
    pub(super) fn announce_homes(&mut self, out: &mut Out) {
        if self.sequencers[usize::from(self.region.0)] != Some(self.me) {
            return;
        }
        let moved = self.partitions.iter().enumerate().filter(|(_, known)| known.home.moves > 0);
        let homes: Vec<(PartitionId, Home)> =
            moved.map(|(n, known)| (PartitionId(n as u16), known.home)).collect();
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

    pub(super) fn on_homes(&mut self, homes: Vec<(PartitionId, Home)>) {
        for (partition, home) in homes {
            if let Some(known) = self.partitions.get_mut(usize::from(partition.0))
                && !self.is_replica
                && home.moves > known.home.moves
            {
                known.home = home;
            }
        }
    }

    /// Whether a reader that has closed this rank at one home of a partition has to close it at a later one too.
    pub(super) fn moved_meanwhile(&self, partition: PartitionId, closed_at: Home) -> bool {
        self.partition(partition).home != closed_at && !self.options.planted(Mutant::CloseAtOldHome)
    }

    /// Whether everything up to this rank that accesses a partition is known here by the move away from there.
    pub(super) fn moved_later(&self, partition: PartitionId, rank: Rank) -> bool {
        self.partition(partition).moved_at > rank
    }
}

/// How an attempt ends that took no effect because a partition was not where it was taken to be.
pub(super) fn moved_away() -> SqlError {
    let error = SqlError::new(
        SqlState::SERIALIZATION_FAILURE,
        "could not move the partition: another move came first",
    );
    error.hint("Look where it is homed now, and retry if need be.")
}

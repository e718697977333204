//! What must hold of any run, judged from what clients, executors, readers and subscribers saw.

use super::{World, conflict};
use crate::caerus::{Caerus, Mutant};
use crate::engine::{Answer, Engine};
use crate::trial::executor::{self, Entry};
use base::order::StreamItem;
use base::txn::{Access, AccessMode, Outcome, Transaction};
use base::{NodeId, PartitionId, Place, Rank, SqlState, TxnId};
use std::collections::BTreeMap;

/// Everything at once; the first failure panics.
pub fn judge(world: &World) {
    world.check_invariants();
    everything_is_answered(world);
    let places = places(world);
    executor::follows_places(&world.rows);
    executor::replay(&world.rows, &places);
    real_time(world);
    closes(world, &places);
    finds(world, &places);
    streams(world);
    copies_agree(world);
    nothing_precedes_its_move(world);
    nothing_is_implausible(world);
}

/// As long as clocks are within their bound nobody says what others refuse.
fn nothing_is_implausible(world: &World) {
    for (n, node) in world.nodes.iter().enumerate() {
        assert!(
            node.report().refused_messages.is_empty(),
            "n{n} refused {:?}",
            node.report().refused_messages
        );
    }
}

/// Unless a gateway is wrong, nothing says a home that the home's sequence has not come to.
fn nothing_precedes_its_move(world: &World) {
    let is_wrong = |node: &Caerus| node.cluster.options.planted(Mutant::WrongHomes);
    assert!(
        world.nodes.iter().all(|node| node.residences.premature() == 0 || is_wrong(node)),
        "a move is late"
    );
}

fn everything_is_answered(world: &World) {
    for (txn, (at, access, _)) in &world.submitted {
        let Some((_, answer)) = world.answers.get(txn) else {
            let is_lost = world.dead.contains(&txn.coordinator) || world.is_forgotten(*txn);
            assert!(is_lost, "{txn} of {at:?} has no answer");
            continue;
        };
        let Outcome::Committed { results } = &answer.outcome else { continue };
        let partitions: Vec<_> = access.by_partition.keys().collect();
        for partition in &partitions {
            for node in holders(world, **partition) {
                let executed = |entry: &Entry| entry.txn == answer.txn && entry.partition == **partition;
                let ran = world.rows[node.0 as usize].log.iter().filter(|entry| executed(entry)).count();
                assert_eq!(ran, 1, "{txn} ran once at {node}'s copy of {partition}");
            }
        }
        // Participants' results in partition order, counts added.
        let rows: Vec<_> = results.iter().flat_map(|r| &r.rows).map(|row| row.get(0)).collect();
        let expected: Vec<_> = partitions.iter().map(|p| base::Datum::Int(i64::from(p.0))).collect();
        assert_eq!(rows, expected, "{txn}");
        assert_eq!(results.iter().map(|r| r.affected).sum::<u64>(), partitions.len() as u64);
    }
}

/// One place per transaction, the same in all regions.
fn places(world: &World) -> BTreeMap<TxnId, (Place, Transaction)> {
    let mut places: BTreeMap<TxnId, (Place, Transaction)> = BTreeMap::new();
    for entry in world.rows.iter().flat_map(|rows| &rows.log) {
        let known = places.entry(entry.txn).or_insert((entry.place, entry.transaction.clone()));
        assert_eq!(known.0, entry.place, "{} has one place", entry.txn);
    }
    for (txn, (place, _)) in &places {
        if let Some((_, answer)) = world.answers.get(txn).filter(|(_, answer)| !is_unknown(answer)) {
            assert_eq!((answer.txn, answer.rank), (*txn, place.rank), "{txn} was answered with its rank");
        }
    }
    places
}

/// Its client was told that nobody knows how it ended.
fn is_unknown(answer: &Answer) -> bool {
    matches!(&answer.outcome, Outcome::Aborted(error) if error.state == SqlState::TRANSACTION_RESOLUTION_UNKNOWN)
}

/// Submitted after an answer: ranked above it. Answered: in the past. Where clocks have no bound that is so for those
/// that conflict, and for what a session has seen.
fn real_time(world: &World) {
    if world.topology.unbounded_clocks {
        return real_time_of_conflicts(world);
    }
    let mut answered: Vec<(u64, Rank)> = Vec::new();
    for (at, answer) in world.answers.values() {
        assert!(answer.rank.0 <= at.0, "{} was answered at {at:?} with {:?}", answer.txn, answer.rank);
        answered.push((at.0, answer.rank));
    }
    answered.sort();
    let mut high = Rank::ZERO;
    for (_, rank) in &mut answered {
        high = high.max(*rank);
        *rank = high;
    }
    for (txn, (submitted_at, _, token)) in &world.submitted {
        let Some((_, answer)) = world.answers.get(txn) else { continue };
        if answer.txn != *txn {
            continue; // Its first attempt was answered, or will be.
        }
        if answer.outcome.is_committed() {
            assert!(*token < answer.rank, "{txn} is ranked above what its session has seen");
        }
        let before = answered.partition_point(|(at, _)| *at < submitted_at.0);
        if before > 0 {
            assert!(answered[before - 1].1 < answer.rank, "{txn} is ranked below an earlier answer");
        }
    }
}

fn real_time_of_conflicts(world: &World) {
    for (txn, (submitted_at, access, token)) in &world.submitted {
        let Some((_, answer)) = world.answers.get(txn).filter(|(_, answer)| answer.txn == *txn) else {
            continue;
        };
        // What found its partition moved away meets nobody, takes no effect, and may stand anywhere.
        if !answer.outcome.is_committed() {
            continue;
        }
        assert!(*token < answer.rank, "{txn} is ranked above what its session has seen");
        let answered = world.answers.values().filter(|(at, _)| at < submitted_at);
        for (at, earlier) in answered.filter(|(_, earlier)| earlier.outcome.is_committed()) {
            let Some((_, other, _)) = world.submitted.get(&earlier.txn) else { continue };
            let meet = |p: &PartitionId| conflict(access.at(*p), other.at(*p));
            if access.by_partition.keys().any(meet) {
                assert!(
                    earlier.rank < answer.rank,
                    "{txn} is ranked below {}, answered at {at:?}",
                    earlier.txn
                );
            }
        }
    }
}

/// A cut that was found holds whatever was answered before and writes what is read.
fn finds(world: &World, places: &BTreeMap<TxnId, (Place, Transaction)>) {
    for (ticket, (asked_at, node, partition, granules)) in &world.finds {
        let Some((_, found)) = world.found.get(ticket) else {
            assert!(world.dead.contains(node), "{ticket:?} never found its cut");
            continue;
        };
        let read = |granule: &_| Access { granule: Clone::clone(granule), mode: AccessMode::Read };
        let reads: Vec<Access> = granules.iter().map(read).collect();
        for (at, answer) in world.answers.values().filter(|(at, _)| at < asked_at) {
            let Some((place, transaction)) = places.get(&answer.txn) else { continue };
            let accesses = transaction.access.at(*partition).iter();
            let writes: Vec<_> = accesses.filter(|a| a.mode == AccessMode::Write).cloned().collect();
            if conflict(&reads, &writes) {
                let (txn, rank) = (answer.txn, place.rank);
                assert!(
                    rank <= *found,
                    "{txn} with {rank:?}, answered at {at:?}, is above what {ticket:?} found"
                );
            }
        }
    }
}

/// Whoever writes what was read and is ranked within the cut stood in the copy's log when it was closed.
fn closes(world: &World, places: &BTreeMap<TxnId, (Place, Transaction)>) {
    let mut positions: BTreeMap<(NodeId, PartitionId, TxnId), u64> = BTreeMap::new();
    for ((node, partition), items) in &world.streams {
        for item in items {
            if let StreamItem::Record(record) = item {
                positions.insert((*node, *partition, record.txn), record.position.0);
            }
        }
    }
    for (ticket, (_, node, close)) in &world.closes {
        let Some((_, result)) = world.closed.get(ticket) else {
            assert!(world.dead.contains(node), "{ticket:?} never closed");
            continue;
        };
        let Ok(closed) = result else { continue };
        let read = |granule: &_| Access { granule: Clone::clone(granule), mode: AccessMode::Read };
        let reads: Vec<Access> = close.granules.iter().map(read).collect();
        for (txn, (place, transaction)) in places {
            let accesses = transaction.access.at(close.partition).iter();
            let writes: Vec<_> = accesses.filter(|a| a.mode == AccessMode::Write).cloned().collect();
            if place.rank <= close.rank && conflict(&reads, &writes) {
                let rows = &world.rows[node.0 as usize];
                let is_copied = world.forgot.contains(node)
                    && rows.log.iter().any(|e| e.txn == *txn && e.partition == close.partition);
                let position = positions.get(&(*node, close.partition, *txn));
                let position = position.or(is_copied.then_some(&0));
                assert!(
                    position.is_some_and(|position| *position <= closed.position.0),
                    "{txn} with {:?} appeared at {node}'s {} after {:?} was closed",
                    place.rank,
                    close.partition,
                    close.rank
                );
            }
        }
    }
}

fn streams(world: &World) {
    for ((node, _), items) in &world.streams {
        let mut position = 0;
        for item in items {
            let StreamItem::Record(record) = item else { continue };
            if position == 0 && world.forgot.contains(node) {
                position = record.position.0 - 1; // Behind what was copied.
            }
            position += 1;
            assert_eq!(record.position.0, position, "positions are dense");
        }
    }
}

/// Nodes with a copy that are not lost.
fn holders(world: &World, partition: PartitionId) -> impl Iterator<Item = NodeId> + '_ {
    let holds = move |node: &NodeId| world.topology.holds(*node, partition) && !world.dead.contains(node);
    world.topology.node_ids().filter(holds)
}

/// Whoever holds a partition holds the same rows of it.
fn copies_agree(world: &World) {
    for partition in world.topology.partition_ids() {
        let mut copies = holders(world, partition).map(|node| {
            let values = world.rows[node.0 as usize].values.iter();
            values.filter(|((p, _), _)| *p == partition).collect::<Vec<_>>()
        });
        let first = copies.next().expect("a partition has a copy");
        assert!(copies.all(|copy| copy == first), "the copies of {partition} differ");
    }
}

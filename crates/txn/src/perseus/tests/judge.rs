//! What must hold of any run, judged from what clients, executors, readers and subscribers saw.

use super::{World, conflict};
use crate::trial::executor;
use base::order::StreamItem;
use base::txn::{AccessMode, Outcome, Transaction};
use base::{PartitionId, Place, Rank, TxnId};
use std::collections::{BTreeMap, BTreeSet};

/// Everything at once; the first failure panics.
pub fn judge(world: &World) {
    world.check_invariants();
    everything_is_answered(world);
    let places = places(world);
    executor::follows_places(&world.rows);
    executor::replay(&world.rows, &places);
    real_time(world);
    closes(world, &places);
    shown(world, &places);
    streams(world, &places);
    whole(world, &places);
    former_lives(world);
}

/// What a node has executed it executes again after a crash, as before, and before it gives anybody a copy.
fn former_lives(world: &World) {
    assert_eq!(world.lacking, [], "copies lack what had executed");
    let now = world.rows.iter().flat_map(|rows| &rows.log);
    let now: BTreeMap<_, _> = now.map(|entry| ((entry.txn, entry.partition), entry)).collect();
    for ((txn, partition), former) in &world.former {
        let Some(entry) = now.get(&(*txn, *partition)) else {
            panic!("{txn} had executed at {partition}, and is no more");
        };
        assert_eq!(
            (entry.place, entry.seen),
            (former.place, former.seen),
            "{txn} at {partition}, in two lives"
        );
    }
}

/// A transaction takes effect at all its participants or at none, and what a client wants is done once.
fn whole(world: &World, places: &BTreeMap<TxnId, (Place, Transaction)>) {
    let mut done: BTreeSet<(TxnId, PartitionId)> = BTreeSet::new();
    for entry in world.rows.iter().flat_map(|rows| &rows.log) {
        assert!(done.insert((entry.txn, entry.partition)), "{} took effect twice", entry.txn);
    }
    let mut wishes: BTreeMap<String, TxnId> = BTreeMap::new();
    for (txn, (_, transaction)) in places {
        for partition in transaction.participants() {
            assert!(done.contains(&(*txn, partition)), "{txn} took no effect at {partition}");
        }
        let wish = format!("{:?}", transaction.program);
        let twice = wishes.insert(wish, *txn);
        assert!(twice.is_none(), "{txn} did again what {twice:?} did");
    }
}

fn everything_is_answered(world: &World) {
    for (txn, (at, access, _)) in &world.submitted {
        if world.dead.contains(&txn.coordinator) {
            continue;
        }
        let Some((_, answer)) = world.answers.get(txn) else {
            assert!(is_of_former_life(world, *txn), "{txn} of {at:?} has no answer");
            continue;
        };
        if let Outcome::Committed { results } = &answer.outcome {
            let partitions: Vec<_> = access.by_partition.keys().collect();
            for partition in &partitions {
                let node = world.topology.node_of(**partition);
                let executed =
                    |entry: &executor::Entry| entry.txn == answer.txn && entry.partition == **partition;
                assert!(world.rows[node.0 as usize].log.iter().any(executed), "{txn} ran at {partition}");
            }
            // Participants' results in partition order, counts added.
            let rows: Vec<_> = results.iter().flat_map(|r| &r.rows).map(|row| row.get(0)).collect();
            let expected: Vec<_> = partitions.iter().map(|p| base::Datum::Int(i64::from(p.0))).collect();
            assert_eq!(rows, expected, "{txn}");
            assert_eq!(results.iter().map(|r| r.affected).sum::<u64>(), partitions.len() as u64);
        }
    }
}

/// Its gateway has crashed since.
pub fn is_of_former_life(world: &World, txn: TxnId) -> bool {
    txn.incarnation < world.nodes[usize::from(txn.coordinator.0)].gateway.incarnation()
}

/// What a reader was told to be closed had executed then, has since, and stays.
fn shown(world: &World, places: &BTreeMap<TxnId, (Place, Transaction)>) {
    let reading =
        |granule: &base::txn::Granule| base::txn::Access { granule: granule.clone(), mode: AccessMode::Read };
    for (close, executed) in &world.shown {
        for txn in executed {
            assert!(places.contains_key(txn), "{txn} was executed at {:?}, and is no more", close.partition);
        }
        let reads: Vec<_> = close.granules.iter().map(reading).collect();
        for (txn, (place, transaction)) in places {
            let accesses = transaction.access.at(close.partition).iter();
            let writes: Vec<_> =
                accesses.filter(|access| access.mode == AccessMode::Write).cloned().collect();
            let is_late = place.rank <= close.rank && conflict(&reads, &writes) && !executed.contains(txn);
            assert!(!is_late, "{txn} with {:?} was executed after {close:?} was closed", place.rank);
        }
    }
}

/// One place per transaction, the same everywhere.
fn places(world: &World) -> BTreeMap<TxnId, (Place, Transaction)> {
    let mut places: BTreeMap<TxnId, (Place, Transaction)> = BTreeMap::new();
    for entry in world.rows.iter().flat_map(|rows| &rows.log) {
        let known = places.entry(entry.txn).or_insert((entry.place, entry.transaction.clone()));
        assert_eq!(known.0, entry.place, "{} has one place", entry.txn);
    }
    for (_, answer) in world.answers.values() {
        if let Some((place, _)) = places.get(&answer.txn) {
            assert_eq!(answer.rank, place.rank, "{} was answered with its rank", answer.txn);
        }
    }
    places
}

/// Submitted after an answer: ranked above it. Answered: in the past.
fn real_time(world: &World) {
    let mut answered: Vec<(u64, Rank)> = Vec::new();
    for (at, answer) in world.answers.values() {
        assert!(answer.rank.0 <= at.0, "{} was answered at {at:?} with {:?}", answer.txn, answer.rank);
        answered.push((at.0, answer.rank));
    }
    answered.sort();
    let mut high = Rank::ZERO;
    let highs: Vec<(u64, Rank)> = answered
        .into_iter()
        .map(|(at, rank)| {
            high = high.max(rank);
            (at, high)
        })
        .collect();
    for (txn, (submitted_at, _, token)) in &world.submitted {
        if world.repeats.contains(txn) {
            continue;
        }
        if let Some((_, answer)) = world.answers.get(txn)
            && answer.outcome.is_committed()
        {
            assert!(*token < answer.rank, "{txn} is ranked above what its session has seen");
        }
        let before = highs.partition_point(|(at, _)| *at < submitted_at.0);
        if let Some((_, answer)) = world.answers.get(txn)
            && before > 0
        {
            assert!(highs[before - 1].1 < answer.rank, "{txn} is ranked below an earlier answer");
        }
    }
}

/// Whoever writes what was read and is ranked within the cut stood in the log when it was closed.
fn closes(world: &World, places: &BTreeMap<TxnId, (Place, Transaction)>) {
    let mut positions: BTreeMap<(PartitionId, TxnId), u64> = BTreeMap::new();
    for ((_, partition), items) in &world.streams {
        for item in items {
            if let StreamItem::Record(record) = item {
                positions.insert((*partition, record.txn), record.position.0);
            }
        }
    }
    for (ticket, (_, _, close)) in &world.closes {
        let Some((_, result)) = world.closed.get(ticket) else { panic!("{ticket:?} never closed") };
        let Ok(closed) = result else { continue };
        if world.disks.is_some() {
            continue; // Positions are of one life: see `shown`.
        }
        for (txn, (place, transaction)) in places {
            let reads: Vec<_> = close
                .granules
                .iter()
                .map(|g| base::txn::Access { granule: g.clone(), mode: AccessMode::Read })
                .collect();
            let writes: Vec<_> = transaction
                .access
                .at(close.partition)
                .iter()
                .filter(|access| access.mode == AccessMode::Write)
                .cloned()
                .collect();
            if place.rank <= close.rank && conflict(&reads, &writes) {
                let position = positions[&(close.partition, *txn)];
                assert!(
                    position <= closed.position.0,
                    "{txn} with {:?} appeared at {} after {:?} was closed",
                    place.rank,
                    close.partition,
                    close.rank
                );
            }
        }
    }
}

/// Positions are dense; a record comes after its vertex and all ancestors that anyone still keeps.
fn streams(world: &World, places: &BTreeMap<TxnId, (Place, Transaction)>) {
    let least = world.watermarks.iter().copied().max().unwrap_or_default();
    for ((node, _), items) in &world.streams {
        let mut vertices: BTreeSet<TxnId> = BTreeSet::new();
        let mut named: BTreeSet<TxnId> = BTreeSet::new();
        let mut position = 0;
        for item in items {
            match item {
                StreamItem::Vertex(vertex) => {
                    assert!(vertices.insert(vertex.txn), "{} is on the stream twice", vertex.txn);
                    named.extend(&vertex.dependencies);
                }
                StreamItem::Record(record) => {
                    let has_come_back = world.forgot.contains(node);
                    if position == 0 && has_come_back {
                        position = record.position.0 - 1;
                    }
                    position += 1;
                    assert_eq!(record.position.0, position, "positions are dense");
                    assert!(vertices.contains(&record.txn), "{} is on the stream", record.txn);
                    for ancestor in std::mem::take(&mut named) {
                        let collected = places.get(&ancestor).is_none_or(|(p, _)| p.rank <= least);
                        let there = vertices.contains(&ancestor);
                        assert!(
                            there || collected || has_come_back,
                            "{ancestor} is missing before {}",
                            record.txn
                        );
                    }
                }
                StreamItem::Low(_) => {}
            }
        }
    }
}

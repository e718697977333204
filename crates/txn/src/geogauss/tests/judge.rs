//! What must hold of any run at SERIALIZABLE, judged from what clients, executors, readers and subscribers saw.

use super::World;
use crate::trial::executor::look;
use base::hash::digest;
use base::order::StreamItem;
use base::txn::{Outcome, Transaction};
use base::write_set::WriteSet;
use base::{Datum, NodeId, PartitionId, Place, Rank, SqlState, TxnId};
use std::collections::{BTreeMap, BTreeSet};

/// Everything at once; the first failure panics.
pub fn judge(world: &World) {
    members_agree(world);
    answers(world);
    replay(world);
    real_time(world);
    streams(world);
    closes(world);
}

/// The same epochs, transactions and rows at all members, in the same order.
fn members_agree(world: &World) {
    let first = &world.nodes[0];
    for (node, rows) in world.nodes.iter().zip(&world.rows) {
        assert_eq!(node.absent(), None);
        assert_eq!(node.decided(), first.decided(), "decisions differ");
        assert_eq!(rows.installed, world.rows[0].installed, "rows are installed alike");
        assert_eq!(rows.values, world.rows[0].values);
        assert!(node.inbox.refused().is_empty(), "{:?}", node.inbox.refused());
    }
}

/// What committed: its place and what it wrote, in the order of installation.
fn committed(world: &World) -> Vec<(Place, BTreeMap<PartitionId, WriteSet>)> {
    let mut all: Vec<(Place, BTreeMap<PartitionId, WriteSet>)> = Vec::new();
    for (place, partition, writes) in &world.rows[0].installed {
        match all.last_mut().filter(|(last, _)| last == place) {
            Some((_, sets)) => assert!(sets.insert(*partition, writes.clone()).is_none(), "applied once"),
            None => all.push((*place, BTreeMap::from([(*partition, writes.clone())]))),
        }
    }
    all
}

/// Everybody is answered with what happened, and nothing happens twice.
fn answers(world: &World) {
    let places: BTreeMap<TxnId, Rank> =
        committed(world).into_iter().map(|(place, _)| (place.txn, place.rank)).collect();
    assert_eq!(places.len(), committed(world).len(), "a transaction takes effect once");
    let mut told = BTreeSet::new();
    for (txn, (at, access, _)) in &world.submitted {
        if world.dead.contains(&txn.coordinator)
            || world.is_forgotten(*txn) && !world.answers.contains_key(txn)
        {
            continue;
        }
        let Some((answered_at, answer)) = world.answers.get(txn) else {
            panic!("{txn} of {at:?} has no answer")
        };
        if !world.topology.unbounded_clocks {
            assert!(answer.rank.time() <= *answered_at, "{txn} is answered before its rank has passed");
        }
        match &answer.outcome {
            Outcome::Committed { results } => {
                assert_eq!(places.get(&answer.txn), Some(&answer.rank), "{txn} took effect where it says");
                let rows: Vec<_> = results.iter().flat_map(|r| &r.rows).map(|row| row.get(0)).collect();
                let expected: Vec<_> =
                    access.by_partition.keys().map(|p| Datum::Int(i64::from(p.0))).collect();
                assert_eq!(rows, expected, "{txn}");
            }
            // Its gateway was removed before it learnt the decision.
            Outcome::Aborted(error) if error.state == SqlState::TRANSACTION_RESOLUTION_UNKNOWN => {}
            Outcome::Aborted(_) => assert!(!places.contains_key(txn), "{txn} was aborted"),
        }
        let is_first = world.repeats.contains(txn) || told.insert(answer.txn);
        assert!(is_first, "{} answers two", answer.txn);
    }
    // Attempts of one request share what they touch.
    let mut wishes = BTreeSet::new();
    for txn in places.keys() {
        let wish = std::sync::Arc::as_ptr(&world.submitted[txn].1);
        assert!(wishes.insert(wish), "{txn} did again what another attempt has done");
    }
    let commits: BTreeSet<TxnId> = places.into_keys().collect();
    let heard: BTreeSet<TxnId> = world.answers.values().map(|(_, answer)| answer.txn).collect();
    let lost = |txn: &&TxnId| !world.dead.contains(&txn.coordinator) && !world.is_forgotten(**txn);
    let unheard: Vec<_> = commits.difference(&heard).filter(lost).collect();
    assert!(unheard.is_empty(), "{unheard:?} took effect and nobody was told");
}

/// One after another in the order of installation they read what they read.
fn replay(world: &World) {
    let mut values = BTreeMap::new();
    for (place, sets) in committed(world) {
        let (_, access, _) = &world.submitted[&place.txn];
        let transaction = Transaction {
            id: place.txn,
            program: std::sync::Arc::new(base::txn::TxnProgram::GiveUp),
            access: access.clone(),
            min_rank: Rank::ZERO,
            after: Rank::ZERO,
            homes: None,
        };
        let mut seen = 0;
        for partition in transaction.participants() {
            seen = digest(&(seen, partition, look(&values, partition, &transaction)));
        }
        let expected = digest(&(place.txn, seen)) as i64;
        for (partition, set) in &sets {
            for state in &set.rows {
                let row = state.row.as_ref().expect("rows stay");
                let (Datum::Int(n), value) = (row.get(0), row.get(1)) else { panic!("two numbers") };
                assert_eq!(value, Datum::Int(expected), "{} read something else serially", place.txn);
                values.insert((*partition, n), expected as u64);
            }
        }
    }
    assert_eq!(values, world.rows[0].values);
}

/// Whatever was submitted after an answer, or from a session that had seen a rank, comes later.
fn real_time(world: &World) {
    let committed = world.answers.iter().filter(|(_, (_, answer))| answer.outcome.is_committed());
    let ends: Vec<_> = committed
        .map(|(txn, (at, answer))| {
            let (submitted, _, seen) = &world.submitted[txn];
            (*submitted, *at, answer.rank, *seen, *txn)
        })
        .collect();
    for (submitted, _, rank, seen, txn) in &ends {
        if world.repeats.contains(txn) {
            continue;
        }
        assert!(rank > seen, "{txn} comes after what its session has seen");
        for (_, answered, earlier, _, other) in &ends {
            assert!(answered >= submitted || earlier < rank, "{other} was answered before {txn} came");
        }
    }
}

/// Positions are dense, ranks grow, nothing comes at or below a closed timestamp; all members stream the same.
fn streams(world: &World) {
    let mut records: BTreeMap<PartitionId, Vec<(Rank, TxnId)>> = BTreeMap::new();
    // A node that came back with a copy goes on where that ends.
    let whole = |node: &NodeId| !world.forgot.contains(node);
    let in_turn = world.streams.iter().filter(|((node, _), _)| whole(node));
    let in_turn = in_turn.chain(world.streams.iter().filter(|((node, _), _)| !whole(node)));
    for ((node, partition), items) in in_turn {
        let (mut low, mut said) = (Rank::ZERO, Vec::new());
        let first = items.iter().find_map(|item| match item {
            StreamItem::Record(record) => Some(record.position.0),
            _ => None,
        });
        let before = if whole(node) { 0 } else { first.unwrap_or(1) - 1 };
        for item in items {
            match item {
                StreamItem::Record(record) => {
                    said.push((record.rank, record.txn));
                    assert_eq!(record.position.0, before + said.len() as u64);
                    assert!(record.rank > low, "{} comes at {:?}, below a closed timestamp", record.txn, low);
                }
                StreamItem::Low(rank) => low = low.max(*rank),
                StreamItem::Vertex(_) => panic!("epochs have no vertices"),
            }
        }
        match records.get(partition) {
            Some(known) if first.is_some() => assert_eq!(known.get(before as usize..), Some(&said[..])),
            Some(known) => assert!(said.is_empty() && (known.is_empty() || !whole(node))),
            None if before == 0 => _ = records.insert(*partition, said),
            None => {}
        }
    }
}

/// Once a cut is closed nothing is added to it.
fn closes(world: &World) {
    for (ticket, (_, node, close)) in &world.closes {
        let Some((_, closed)) = world.closed.get(ticket) else { panic!("{ticket:?} is not closed") };
        let Ok(closed) = closed else {
            assert!(world.options.removes_lost, "it is within reach");
            continue;
        };
        let nothing = Vec::new();
        for item in world.streams.get(&(*node, close.partition)).unwrap_or(&nothing) {
            if let StreamItem::Record(record) = item
                && record.rank <= close.rank
                && !world.forgot.contains(node)
            {
                assert!(record.position <= closed.position, "{} came after its cut was closed", record.txn);
            }
        }
    }
}

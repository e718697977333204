//! Graphs as streams build them, and the sets that are closed under them.

use super::*;
use base::NodeId;
use base::commit::CommitRecord;

const A: u16 = 0;
const B: u16 = 1;
const C: u16 = 2;

fn t(sequence: u64) -> TxnId {
    TxnId { coordinator: NodeId(0), incarnation: 1, sequence }
}
fn p(n: u16) -> PartitionId {
    PartitionId(n)
}
fn vertex(txn: u64, participants: &[u16], dependencies: &[u64]) -> StreamItem {
    vertex_after(txn, participants, dependencies, 0)
}
fn vertex_after(txn: u64, participants: &[u16], dependencies: &[u64], after: u64) -> StreamItem {
    StreamItem::Vertex(Vertex {
        txn: t(txn),
        participants: participants.iter().map(|n| p(*n)).collect(),
        dependencies: dependencies.iter().map(|d| t(*d)).collect(),
        after: Rank(after),
    })
}
/// Ranked ten times its number.
fn record(txn: u64, partition: u16, position: u64) -> StreamItem {
    record_ranked(txn, partition, position, txn * 10)
}
fn record_ranked(txn: u64, partition: u16, position: u64, rank: u64) -> StreamItem {
    StreamItem::Record(CommitRecord {
        txn: t(txn),
        rank: Rank(rank),
        partition: p(partition),
        position: LogPosition(position),
        writes: vec![],
        schema: None,
    })
}
fn graph(items: &[(u16, StreamItem)]) -> DependencyGraph {
    let mut graph = DependencyGraph::default();
    items.iter().for_each(|(partition, item)| graph.receive(Time(1), p(*partition), item));
    graph
}
fn partitions(read: &[u16]) -> BTreeSet<PartitionId> {
    read.iter().map(|n| p(*n)).collect()
}
fn set(base: u64, above: &[(u16, &[u64])]) -> ClosedSet {
    let positions = |at: &[u64]| at.iter().map(|at| LogPosition(*at)).collect();
    let above = above.iter().map(|(n, at)| (p(*n), positions(at))).collect();
    ClosedSet { base: Rank(base), above }
}
/// What a query over these partitions reads that must see these transactions, when everything up to `low` has
/// come; and what it would wait for.
fn close_from(
    graph: &DependencyGraph,
    base: u64,
    low: u64,
    read: &[u16],
    required: &[u64],
) -> Result<ClosedSet, (PartitionId, Awaited)> {
    let partitions = partitions(read);
    let known = Known { partitions: &partitions, base: Rank(base), low: &|_| Rank(low), sessions: true };
    match graph.close(required.iter().map(|txn| t(*txn)), &known) {
        Closure::Closed(members) => {
            let set = graph.places(&members, &partitions);
            assert!(graph.is_closed(&set, &known), "{set:?}");
            Ok(set)
        }
        Closure::Waiting(missing) => {
            assert!(graph.is_missing(&missing, &known));
            Err((missing.partition, missing.awaited))
        }
    }
}
fn close(
    graph: &DependencyGraph,
    low: u64,
    read: &[u16],
    required: &[u64],
) -> Result<ClosedSet, (PartitionId, Awaited)> {
    close_from(graph, 0, low, read, required)
}
fn extend(graph: &DependencyGraph, low: u64, limit: &[(u16, u64)]) -> ClosedSet {
    let limit: Vector = limit.iter().map(|(n, at)| (p(*n), LogPosition(*at))).collect();
    let partitions = limit.keys().copied().collect();
    let known = Known { partitions: &partitions, base: Rank(low), low: &|_| Rank(low), sessions: true };
    let set = graph.places(&graph.extend(&limit, &known), &partitions);
    assert!(graph.is_closed(&set, &known), "{set:?}");
    set
}

/// T1{A} ← T2{A,B} ← T3{B,C}: a query over {A, C} that has T3 must have T1, though T2, the link
/// between them, was never asked for at B.
#[test]
fn an_ancestor_is_found_through_a_partition_that_is_not_read() {
    let mut items = vec![
        (C, vertex(1, &[A], &[])),
        (C, vertex(2, &[A, B], &[1])),
        (C, vertex(3, &[B, C], &[2])),
        (C, record(3, C, 1)),
    ];
    assert_eq!(close(&graph(&items), 0, &[A, C], &[3]), Err((p(A), Awaited::Record(t(2)))));
    items.push((A, record(2, A, 2)));
    assert_eq!(close(&graph(&items), 0, &[A, C], &[3]), Err((p(A), Awaited::Record(t(1)))));
    items.push((A, record(1, A, 1)));
    assert_eq!(close(&graph(&items), 0, &[A, C], &[3]), Ok(set(0, &[(A, &[1, 2]), (C, &[1])])));
    assert_eq!(close(&graph(&items), 10, &[A, C], &[]), Ok(set(0, &[(A, &[]), (C, &[])])));
}

/// T1 and T2 span A and B and are logged in opposite orders; T3 at A is not decided at B. Whoever must have T1
/// has neither of the others, although the logs have them before it.
#[test]
fn what_a_log_has_before_a_member_need_not_be_one() {
    let items = [
        (A, vertex(3, &[A, B], &[])),
        (A, record(3, A, 1)),
        (A, vertex(2, &[A, B], &[])),
        (A, record(2, A, 2)),
        (A, vertex(1, &[A, B], &[])),
        (A, record(1, A, 3)),
        (B, record(1, B, 1)),
        (B, record(2, B, 2)),
    ];
    assert_eq!(close(&graph(&items), 0, &[A, B], &[1]), Ok(set(0, &[(A, &[3]), (B, &[1])])));
    assert_eq!(extend(&graph(&items), 0, &[(A, 3), (B, 2)]), set(0, &[(A, &[2, 3]), (B, &[1, 2])]));
    assert_eq!(close(&graph(&items), 0, &[A, B], &[3]), Err((p(B), Awaited::Record(t(3)))));
}

#[test]
fn what_is_below_the_watermark_asks_for_nothing() {
    let mut graph = graph(&[(A, vertex(1, &[A, B], &[])), (A, record(1, A, 1))]);
    assert!(close(&graph, 0, &[A, B], &[1]).is_err());
    graph.collect(Rank(10));
    assert_eq!(graph.vertex_count(), 0);
    assert_eq!(close(&graph, 0, &[A, B], &[1]), Ok(set(0, &[(A, &[]), (B, &[])])));
}

#[test]
fn a_vertex_that_is_logged_elsewhere_is_collected_with_its_descendants() {
    let mut graph = graph(&[(A, vertex(1, &[C], &[])), (A, vertex(2, &[A], &[1])), (A, record(2, A, 1))]);
    graph.collect(Rank(19));
    assert_eq!(graph.vertex_count(), 2, "it may be ranked above");
    graph.collect(Rank(20));
    assert_eq!(graph.vertex_count(), 0);
}

#[test]
fn a_vertex_that_comes_again_after_its_collection_asks_for_nothing_for_long() {
    let mut graph = graph(&[(A, vertex(1, &[A], &[])), (A, record(1, A, 1))]);
    graph.collect(Rank(10));
    // Partition B did not know yet that it was collected.
    for item in [vertex(1, &[A], &[]), vertex(2, &[B], &[1]), record(2, B, 1)] {
        graph.receive(Time(2), p(B), &item);
    }
    assert!(close(&graph, 19, &[A, B], &[2]).is_err());
    assert_eq!(close(&graph, 20, &[A, B], &[2]), Ok(set(0, &[(A, &[]), (B, &[1])])));
}

/// A session writes T1 at A and then T2 at B. Nobody conflicts; still, T2 is not seen without T1.
/// The copy of a log brings vertices by their ids: here a child before its parent, which is collected where it was logged.
#[test]
fn a_copy_brings_ancestors_of_what_is_known_already_and_they_ask_for_nothing() {
    let mut graph = graph(&[(B, vertex(2, &[B], &[9])), (B, record(2, B, 1))]);
    let copy = [vertex(2, &[B], &[9]), vertex(9, &[A, B], &[])];
    copy.iter().for_each(|item| graph.receive(Time(2), p(A), item));
    let lacks = |graph: &DependencyGraph| {
        let partitions = partitions(&[A, B]);
        let known = Known { partitions: &partitions, base: Rank(5), low: &|_| Rank(30), sessions: true };
        !graph.lacking([t(2)], &known).is_empty()
    };
    assert!(lacks(&graph), "nothing tells yet that it is ranked below its child");
    graph.settle();
    assert!(!lacks(&graph));
}

#[test]
fn what_a_writers_session_had_seen_is_part_of_the_closure() {
    let mut graph = graph(&[
        (A, vertex(1, &[A], &[])),
        (A, record(1, A, 1)),
        (B, vertex_after(2, &[B], &[], 10)),
        (B, record(2, B, 1)),
    ]);
    assert_eq!(close(&graph, 9, &[A, B], &[2]), Err((p(A), Awaited::Low(Rank(10)))));
    let with_base = Ok(set(10, &[(A, &[]), (B, &[1])]));
    assert_eq!(close(&graph, 10, &[A, B], &[2]), with_base, "T1 is ranked up to there");
    assert_eq!(extend(&graph, 9, &[(A, 1), (B, 1)]), set(9, &[(A, &[1]), (B, &[])]));
    assert_eq!(extend(&graph, 10, &[(A, 1), (B, 1)]), set(10, &[(A, &[]), (B, &[1])]));
    let partitions = partitions(&[A, B]);
    let known = Known { partitions: &partitions, base: Rank::ZERO, low: &|_| Rank(9), sessions: false };
    let Closure::Closed(members) = graph.close([t(2)], &known) else { panic!("nothing but dependencies") };
    assert_eq!(members.above, [t(2)].into());
    graph.collect(Rank(10));
    assert_eq!(close(&graph, 10, &[A, B], &[2]), with_base);
}

/// At A: T1, then T2 whose ancestor T3 at B has not arrived, then T4 that depends on T2, then T5 alone.
#[test]
fn what_depends_on_a_straggler_is_left_out_with_it_and_nothing_else_is() {
    let mut items = vec![
        (A, vertex(1, &[A], &[])),
        (A, record(1, A, 1)),
        (A, vertex(3, &[B], &[])),
        (A, vertex(6, &[A], &[3])),
        (A, record(6, A, 2)),
        (A, vertex(7, &[A], &[6])),
        (A, record(7, A, 3)),
        (A, vertex(5, &[A], &[])),
        (A, record(5, A, 4)),
    ];
    let limit = [(A, 4), (B, 0)];
    assert_eq!(extend(&graph(&items), 0, &limit), set(0, &[(A, &[1, 4]), (B, &[])]));
    // A plan that waits long enough holds all of it.
    let partitions = partitions(&[A, B]);
    let known = Known { partitions: &partitions, base: Rank::ZERO, low: &|_| Rank::ZERO, sessions: true };
    let eta = |_, since: Time, exchanges| since + if exchanges { 200 } else { 100 };
    let plan = |until| {
        let limit = limit.iter().map(|(n, at)| (p(*n), LogPosition(*at))).collect();
        graph(&items).plan(&limit, &known, (Time(until), &eta)).above
    };
    assert_eq!(plan(100), [t(1), t(5)].into());
    assert_eq!(plan(101), [t(1), t(3), t(5), t(6), t(7)].into());
    items.push((B, record(3, B, 1)));
    assert_eq!(extend(&graph(&items), 0, &[(A, 4), (B, 1)]), set(0, &[(A, &[1, 2, 3, 4]), (B, &[1])]));
}

#[test]
fn a_cycle_is_in_or_out_as_a_whole() {
    let mut items = vec![
        (A, vertex(1, &[A, B], &[2])),
        (A, vertex(2, &[A, B], &[1])),
        (A, record_ranked(1, A, 1, 20)),
        (A, record_ranked(2, A, 2, 20)),
        (B, record_ranked(1, B, 1, 20)),
    ];
    assert_eq!(close(&graph(&items), 0, &[A, B], &[1]), Err((p(B), Awaited::Record(t(2)))));
    assert_eq!(extend(&graph(&items), 0, &[(A, 2), (B, 1)]), set(0, &[(A, &[]), (B, &[])]));
    items.push((B, record_ranked(2, B, 2, 20)));
    let all = set(0, &[(A, &[1, 2]), (B, &[1, 2])]);
    assert_eq!(close(&graph(&items), 0, &[A, B], &[1]), Ok(all.clone()));
    assert_eq!(extend(&graph(&items), 0, &[(A, 2), (B, 2)]), all);
}

/// Random graphs, held against all sets there are: what is required leads to the least closed set that has it,
/// or to a wait if there is none; extension leads to the greatest.
#[test]
fn the_least_and_the_greatest_closed_set_are_found() {
    let mut rng = base::rng::Rng::new(7);
    let (mut waits, mut leasts) = (0, 0);
    for _ in 0..600 {
        let mut items = Vec::new();
        let mut ends = [0u64; 3];
        let count = rng.between(3, 8) as u64;
        for txn in 1..=count {
            let participants: Vec<u16> = (0..3).filter(|_| rng.chance(0.5)).collect();
            let dependencies: Vec<u64> = (1..txn).filter(|_| rng.chance(0.3)).collect();
            let after = if rng.chance(0.3) { 10 * rng.below(txn) } else { 0 };
            for at in &participants {
                items.push((*at, vertex_after(txn, &participants, &dependencies, after)));
                if rng.chance(0.7) {
                    ends[usize::from(*at)] += 1;
                    items.push((*at, record(txn, *at, ends[usize::from(*at)])));
                }
            }
        }
        let graph = graph(&items);
        let low = 10 * rng.below(4);
        // As if everything up to there had arrived: only true if nothing at or below is missing.
        let gap = |state: &VertexState| {
            let missing = state.participants.iter().any(|p| !state.logged.contains(*p));
            missing && state.txn.sequence * 10 <= low
        };
        if graph.vertices.iter().any(gap) {
            continue;
        }
        let read = partitions(&[A, B, C]);
        let known = Known { partitions: &read, base: Rank(low), low: &|_| Rank(low), sessions: true };
        let all: Vec<ClosedSet> = (0..1u64 << count)
            .map(|bits| {
                let above = (1..=count).filter(|n| bits >> (n - 1) & 1 == 1 && n * 10 > low).map(t).collect();
                graph.places(&Members { base: Rank(low), above }, &read)
            })
            .filter(|set| graph.is_closed(set, &known))
            .collect();
        let limit = [(A, ends[0]), (B, ends[1]), (C, ends[2])];
        let greatest = extend(&graph, low, &limit);
        assert!(all.contains(&greatest));
        assert!(all.iter().all(|set| includes(&greatest, set)), "{items:?}");
        let txn = rng.between(1, count as i64) as u64;
        let mut of_it = graph.places(&Members { base: Rank(low), above: [t(txn)].into() }, &read);
        if txn * 10 <= low {
            of_it.above.values_mut().for_each(BTreeSet::clear);
        }
        // A vertex that stands in no log is nobody's requirement.
        if of_it.above.values().all(BTreeSet::is_empty) {
            continue;
        }
        let with_it: Vec<_> = all.iter().filter(|set| includes(set, &of_it)).collect();
        match close_from(&graph, low, low, &[A, B, C], &[txn]) {
            Err(_) => {
                waits += 1;
                assert!(with_it.is_empty());
            }
            Ok(least) => {
                leasts += 1;
                assert!(with_it.iter().all(|set| includes(set, &least)) && with_it.contains(&&least));
            }
        }
    }
    assert!(waits > 50 && leasts > 50, "{waits} {leasts}");
}

fn includes(large: &ClosedSet, small: &ClosedSet) -> bool {
    small.above.iter().all(|(p, positions)| positions.is_subset(&large.above[p]))
}

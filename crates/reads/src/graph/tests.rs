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
    StreamItem::Record(CommitRecord {
        txn: t(txn),
        rank: Rank(txn * 10),
        partition: p(partition),
        position: LogPosition(position),
        writes: vec![],
        touched: Default::default(),
        schema: None,
    })
}
fn vector(entries: &[(u16, u64)]) -> Vector {
    entries.iter().map(|(n, at)| (p(*n), LogPosition(*at))).collect()
}
fn graph(items: &[(u16, StreamItem)]) -> DependencyGraph {
    let mut graph = DependencyGraph::default();
    items.iter().for_each(|(partition, item)| graph.receive(Time(1), p(*partition), item));
    graph
}
/// Nothing is known to be complete but what `low` says.
fn close(graph: &DependencyGraph, required: &[(u16, u64)], low: u64) -> Closure {
    graph.close(&vector(required), &Known { base: Rank::ZERO, low: &|_| Rank(low), sessions: true })
}
fn waits_for(closure: Closure) -> (PartitionId, Awaited) {
    let Closure::Waiting(missing) = closure else { panic!("{closure:?}") };
    (missing[0].partition, missing[0].awaited)
}
fn done(closure: Closure) -> Vector {
    let Closure::Done { vector, .. } = closure else { panic!("{closure:?}") };
    vector
}
fn extend(graph: &DependencyGraph, required: &[(u16, u64)], limit: &[(u16, u64)]) -> Vector {
    let known = Known { base: Rank::ZERO, low: &|_| Rank::ZERO, sessions: true };
    let Closure::Done { vector: closed, members } = graph.close(&vector(required), &known) else {
        panic!("what is required waits")
    };
    let extended = graph.extend(&closed, &vector(limit), &members, &known);
    assert!(graph.is_closed(&extended, &known), "{extended:?}");
    extended
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
    let want = [(A, 0), (C, 1)];
    assert_eq!(waits_for(close(&graph(&items), &want, 0)).0, p(A));
    items.push((A, record(1, A, 1)));
    assert_eq!(waits_for(close(&graph(&items), &want, 0)), (p(A), Awaited::Record(t(2), Rank(30))));
    items.push((A, record(2, A, 2)));
    assert_eq!(done(close(&graph(&items), &want, 0)), vector(&[(A, 2), (C, 1)]));
}

#[test]
fn what_is_below_the_watermark_asks_for_nothing() {
    let mut graph = graph(&[(A, vertex(1, &[A, B], &[])), (A, record(1, A, 1))]);
    waits_for(close(&graph, &[(A, 1), (B, 0)], 0));
    graph.collect(Rank(10));
    assert_eq!(graph.vertex_count(), 0);
    assert_eq!(done(close(&graph, &[(A, 1), (B, 0)], 0)), vector(&[(A, 1), (B, 0)]));
}

#[test]
fn a_vertex_that_comes_again_after_its_collection_asks_for_nothing_for_long() {
    let mut graph = graph(&[(A, vertex(1, &[A], &[])), (A, record(1, A, 1))]);
    graph.collect(Rank(10));
    // Partition B did not know yet that it was collected.
    for item in [vertex(1, &[A], &[]), vertex(2, &[B], &[1]), record(2, B, 1)] {
        graph.receive(Time(2), p(B), &item);
    }
    let want = [(A, 1), (B, 1)];
    waits_for(close(&graph, &want, 19));
    assert_eq!(done(close(&graph, &want, 20)), vector(&want));
}

/// A session writes T1 at A and then T2 at B. Nobody conflicts; still, T2 is not seen without T1.
#[test]
fn what_a_writers_session_had_seen_is_part_of_the_closure() {
    let mut graph = graph(&[
        (A, vertex(1, &[A], &[])),
        (A, record(1, A, 1)),
        (B, vertex_after(2, &[B], &[], 10)),
        (B, record(2, B, 1)),
    ]);
    let want = [(A, 0), (B, 1)];
    assert_eq!(waits_for(close(&graph, &want, 9)), (p(A), Awaited::Low(Rank(10))));
    assert_eq!(done(close(&graph, &want, 10)), vector(&[(A, 1), (B, 1)]));
    let known = Known { base: Rank::ZERO, low: &|_| Rank(10), sessions: false };
    assert_eq!(done(graph.close(&vector(&want), &known)), vector(&want), "nothing but dependencies");
    graph.collect(Rank(10));
    assert_eq!(done(close(&graph, &[(A, 1), (B, 1)], 10)), vector(&[(A, 1), (B, 1)]));
}

/// At A: T1, then T2 whose ancestor T3 at B has not arrived, then T4 that depends on T2, then T5 alone.
#[test]
fn what_depends_on_a_straggler_is_left_out_with_it_and_so_is_what_the_log_has_after_it() {
    let mut items = vec![
        (A, vertex(1, &[A], &[])),
        (A, record(1, A, 1)),
        (A, vertex(3, &[B], &[])),
        (A, vertex(2, &[A], &[3])),
        (A, record(2, A, 2)),
        (A, vertex(4, &[A], &[2])),
        (A, record(4, A, 3)),
        (A, vertex(5, &[A], &[])),
        (A, record(5, A, 4)),
    ];
    let (required, limit) = ([(A, 0), (B, 0)], [(A, 4), (B, 0)]);
    assert_eq!(extend(&graph(&items), &required, &limit), vector(&[(A, 1), (B, 0)]));
    // A plan that waits long enough holds all of it.
    let known = Known { base: Rank::ZERO, low: &|_| Rank::ZERO, sessions: true };
    let eta = |_, since: Time, exchanges| since + if exchanges { 200 } else { 100 };
    let plan = |until| {
        let (closed, limit) = (vector(&required), vector(&limit));
        graph(&items).plan(&closed, &limit, &Default::default(), &known, (Time(until), &eta))
    };
    assert_eq!(plan(100), vector(&[(A, 1), (B, 0)]));
    assert_eq!(plan(101), vector(&limit));
    items.push((B, record(3, B, 1)));
    assert_eq!(extend(&graph(&items), &required, &[(A, 4), (B, 1)]), vector(&[(A, 4), (B, 1)]));
    assert_eq!(extend(&graph(&items), &required, &limit), vector(&[(A, 1), (B, 0)]), "T3 is outside");
}

#[test]
fn a_cycle_is_in_or_out_as_a_whole() {
    let mut items = vec![
        (A, vertex(1, &[A, B], &[2])),
        (A, vertex(2, &[A, B], &[1])),
        (A, record(1, A, 1)),
        (A, record(2, A, 2)),
        (B, record(1, B, 1)),
    ];
    assert_eq!(
        waits_for(close(&graph(&items), &[(A, 1), (B, 0)], 0)),
        (p(B), Awaited::Record(t(2), Rank(20)))
    );
    assert_eq!(extend(&graph(&items), &[(A, 0), (B, 0)], &[(A, 2), (B, 1)]), vector(&[(A, 0), (B, 0)]));
    items.push((B, record(2, B, 2)));
    let all = vector(&[(A, 2), (B, 2)]);
    assert_eq!(done(close(&graph(&items), &[(A, 1), (B, 0)], 0)), all);
    assert_eq!(extend(&graph(&items), &[(A, 0), (B, 0)], &[(A, 2), (B, 2)]), all);
}

/// Random graphs: the least closed vector is closed, and nothing between it and the greatest is missed; what
/// the base allows to skip makes no difference.
#[test]
fn extension_finds_the_greatest_closed_vector() {
    let mut rng = base::rng::Rng::new(7);
    for _ in 0..400 {
        let mut items = Vec::new();
        let mut ends = [0u64; 3];
        for txn in 1..=rng.between(3, 9) as u64 {
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
        let limit = vector(&[(A, ends[0]), (B, ends[1]), (C, ends[2])]);
        let lows = Rank(10 * rng.below(4));
        // As if everything up to there had arrived: only true if nothing at or below is missing.
        let gap = |txn: &VertexState| {
            let missing = txn.participants.iter().any(|p| !txn.logged.contains_key(p));
            missing && txn.rank.is_none_or(|rank| rank <= lows)
        };
        if graph.vertices.values().any(gap) {
            continue;
        }
        let known = Known { base: Rank::ZERO, low: &|_| lows, sessions: true };
        let none = vector(&[(A, 0), (B, 0), (C, 0)]);
        let extended = graph.extend(&none, &limit, &Default::default(), &known);
        let mut greatest = none.clone();
        for a in 0..=ends[0] {
            for b in 0..=ends[1] {
                for c in 0..=ends[2] {
                    let candidate = vector(&[(A, a), (B, b), (C, c)]);
                    if graph.is_closed(&candidate, &known) {
                        for (p, position) in &candidate {
                            greatest.entry(*p).and_modify(|g| *g = (*g).max(*position));
                        }
                    }
                }
            }
        }
        assert_eq!(extended, greatest);
        let based = Known { base: lows, ..known };
        let Closure::Done { vector: floor, members } = graph.close(&none, &based) else { panic!() };
        assert!(graph.is_closed(&floor, &known), "what lies below the base is closed");
        assert_eq!(graph.extend(&floor, &limit, &members, &based), greatest);
    }
}

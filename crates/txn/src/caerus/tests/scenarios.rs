//! Named scenarios: the paper's figures, and what has gone wrong in published systems.

use super::judge::judge;
use super::{Event, World, access, planted};
use crate::caerus::SequenceId;
use crate::caerus::message::{Append, Entry, Message};
use crate::caerus::options::{Admission, Ranks};
use crate::caerus::{Caerus, FutureRanks, Mutant, Options};
use crate::engine::{Engine, EngineEffect};
use crate::log;
use crate::trial::executor::Rows;
use base::schema::SchemaChange;
use base::time::MS;
use base::topology::{NodeSpec, Topology};
use base::txn::{Granule, Outcome, Transaction, TxnProgram};
use base::wan::Wan;
use base::{NodeId, Rank, RegionId, Time, Token, TxnId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

fn world(regions: usize) -> World {
    World::new(1, regions, 1, 0, Options::default())
}

/// One merger that is fed by hand: what every region must come to, whatever arrives when.
struct Merger {
    engine: Caerus,
    rows: Rows,
    next: [u64; 3],
}

impl Merger {
    /// Three regions with one partition each; the merger of a fourth, which orders nothing itself.
    fn new(mutant: Option<Mutant>) -> Merger {
        let wan = Wan::uniform("test", &["a", "b", "c", "d"], MS, 100 * MS);
        let mut topology = Topology::one_node_per_region(wan, 1);
        topology.partitions.truncate(3);
        topology.nodes.iter_mut().for_each(|node| node.subscribes.truncate(3));
        let mut topology = topology.replicated();
        topology.partitions.iter_mut().for_each(|partition| partition.copies.push(NodeId(3)));
        let options = Options { mutant, ..Options::default() };
        let engine = Caerus::new(Arc::new(topology), NodeId(3), 1, options);
        Merger { engine, rows: Rows::default(), next: [0; 3] }
    }
    /// The next entry of a sequence.
    fn append(&mut self, sequence: u16, n: u64, text: &str, stamp: u64) {
        let first = self.next[sequence as usize];
        self.next[sequence as usize] += 1;
        let entries = vec![Entry {
            transaction: named(n, text),
            stamp: Rank(stamp),
            collected: Rank::ZERO,
            request: None,
        }];
        self.receive(sequence, first, entries, 0);
    }
    fn receive(&mut self, sequence: u16, first: u64, entries: Vec<Entry>, closed: u64) {
        let (sequence, closed, sent_at) = (SequenceId(sequence), Rank(closed), Time::ZERO);
        let collected = Rank::ZERO;
        let term = u64::from(sequence.0);
        let said = log::Append { term, first, entries, closed, collected, sent_at, ..log::Append::default() };
        let append = Append { sequence, said, ..Append::default() };
        let message = Message::Append(append);
        let from = NodeId(sequence.0);
        self.engine.message(Time::from_ms(1), from, message, &mut self.rows, &mut Vec::new());
        self.engine.check_invariants();
    }
    /// Ids in the order of their places as far as known, with ranks; not their order of execution.
    fn places(&self) -> BTreeMap<u64, u64> {
        let known = self.engine.merger.graph().iter().filter_map(|(_, v)| Some((v.id.sequence, v.rank?.0)));
        known.collect()
    }
    /// Ids whose vertices have no place.
    fn waiting(&self) -> BTreeSet<u64> {
        let all = self.engine.merger.graph().iter().filter(|(_, v)| v.rank.is_none());
        all.map(|(_, v)| v.id.sequence).collect()
    }
}

fn named(n: u64, text: &str) -> Transaction {
    let program = Arc::new(TxnProgram::Procedure { name: "update".into(), args: Vec::new() });
    let id = TxnId { coordinator: NodeId(0), incarnation: 1, sequence: n };
    Transaction {
        id,
        program,
        access: Arc::new(access(text)),
        min_rank: Rank::ZERO,
        after: Rank::ZERO,
        homes: None,
    }
}

#[test]
fn figure_4a_a_transaction_in_three_sequences_follows_both_it_meets() {
    // A at region 0, B at 1, C at 2. T1 writes A, T2 writes B and C, T3 writes all.
    let mut merger = Merger::new(None);
    merger.append(0, 1, "w0.1", 10);
    merger.append(0, 3, "w0.1 w1.1 w2.1", 20);
    merger.append(1, 2, "w1.1 w2.1", 15);
    merger.append(1, 3, "w0.1 w1.1 w2.1", 25);
    assert_eq!(merger.places(), [(1, 10)].into());
    merger.append(2, 2, "w1.1 w2.1", 12);
    assert_eq!(merger.places(), [(1, 10), (2, 15)].into());
    merger.append(2, 3, "w0.1 w1.1 w2.1", 13);
    assert_eq!(merger.places(), [(1, 10), (2, 15), (3, 25)].into());
}

#[test]
fn figure_4b_opposite_orders_in_two_sequences_are_one_component() {
    let mut merger = Merger::new(None);
    merger.append(0, 1, "w0.1 w1.1", 10);
    merger.append(0, 2, "w0.1 w1.1", 11);
    merger.append(0, 3, "w0.1 w1.1 w2.1", 12);
    merger.append(1, 2, "w0.1 w1.1", 40);
    assert!(merger.places().is_empty(), "T2 waits for T1, which is not complete");
    merger.append(1, 1, "w0.1 w1.1", 41);
    assert_eq!(merger.places(), [(1, 41), (2, 41)].into());
    merger.append(1, 3, "w0.1 w1.1 w2.1", 50);
    merger.append(2, 3, "w0.1 w1.1 w2.1", 9);
    assert_eq!(merger.places()[&3], 50);
}

#[test]
fn figure_4c_readers_do_not_wait_for_each_other() {
    // T1 writes A; T2 and T3 read it, T3 together with something that has not arrived; T4 writes it.
    let mut merger = Merger::new(None);
    merger.append(0, 1, "w0.1", 10);
    merger.append(0, 3, "r0.1 w1.1", 11);
    merger.append(0, 2, "r0.1", 12);
    merger.append(0, 4, "w0.1", 13);
    assert_eq!(merger.places(), [(1, 10), (2, 12)].into());
    assert_eq!(merger.waiting(), [3, 4].into());
    merger.append(1, 3, "r0.1 w1.1", 30);
    assert_eq!(merger.places(), [(1, 10), (2, 12), (3, 30), (4, 31)].into());
}

#[test]
fn who_reads_and_writes_one_key_does_not_wait_for_itself() {
    let mut merger = Merger::new(None);
    merger.append(0, 1, "r0.1 w0.1 w0.0-3", 10);
    merger.append(0, 2, "w0.0-3 r0.1", 11);
    assert_eq!(merger.places(), [(1, 10), (2, 11)].into());
}

#[test]
fn a_ring_of_three_is_the_same_component_in_every_order_of_arrival() {
    let texts = [(1, "w0.1 w1.1"), (2, "w1.1 w2.1"), (3, "w2.1 w0.1")];
    // Each sequence orders its two so that everybody waits for the next.
    let sequences = [[1, 3], [2, 1], [3, 2]];
    let mut schedules: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..6 {
        let longer = schedules.iter().flat_map(|schedule| {
            let open = (0..3).filter(|s| schedule.iter().filter(|x| *x == s).count() < 2);
            open.map(|s| schedule.iter().copied().chain([s]).collect::<Vec<_>>()).collect::<Vec<_>>()
        });
        schedules = longer.collect();
    }
    assert_eq!(schedules.len(), 90);
    for schedule in schedules {
        let mut merger = Merger::new(None);
        let mut next = [0; 3];
        for sequence in schedule {
            let n = sequences[sequence][next[sequence]];
            let (_, text) = texts[n - 1];
            merger.append(sequence as u16, n as u64, text, 10 * (n as u64) + sequence as u64);
            next[sequence] += 1;
        }
        assert_eq!(merger.places(), [(1, 32), (2, 32), (3, 32)].into());
        let order: Vec<u64> = merger.rows.log.iter().map(|entry| entry.txn.sequence).collect();
        assert!(order.is_sorted(), "{order:?}");
    }
}

#[test]
fn a_rank_does_not_depend_on_when_the_one_ahead_got_its_place() {
    // T0 spans two regions and is stamped far ahead by one of them; T1 follows it in the other.
    let complete_first = {
        let mut merger = Merger::new(None);
        merger.append(0, 10, "w0.1 w1.1", 100);
        merger.append(1, 10, "w0.1 w1.1", 7000);
        assert_eq!(merger.places(), [(10, 7000)].into());
        // The sequence that T1 is in has not passed T0's rank: T0 is kept.
        merger.receive(1, 1, Vec::new(), 9000);
        merger.receive(0, 1, Vec::new(), 6999);
        merger.engine.collect();
        merger.append(0, 11, "w0.1", 7001 - 1);
        merger.places()[&11]
    };
    let complete_last = {
        let mut merger = Merger::new(None);
        merger.append(0, 10, "w0.1 w1.1", 100);
        merger.append(0, 11, "w0.1", 7001 - 1);
        merger.append(1, 10, "w0.1 w1.1", 7000);
        merger.places()[&11]
    };
    assert_eq!((complete_first, complete_last), (7001, 7001));
    // Once it has passed, nothing can come that T0 would matter to.
    let mut merger = Merger::new(None);
    merger.append(0, 10, "w0.1 w1.1", 100);
    merger.append(1, 10, "w0.1 w1.1", 7000);
    (0..3).for_each(|s| merger.receive(s, u64::from(s < 2), Vec::new(), 7000));
    merger.engine.collect();
    assert_eq!(merger.engine.vertex_count(), 0);
    merger.append(0, 11, "w0.1", 7001);
    assert_eq!(merger.places(), [(11, 7001)].into());
}

#[test]
fn a_gap_in_a_sequence_holds_back_what_is_behind_it() {
    let mut merger = Merger::new(None);
    let entry = |n, stamp| Entry {
        transaction: named(n, "w0.1"),
        stamp: Rank(stamp),
        collected: Rank::ZERO,
        request: None,
    };
    merger.receive(0, 1, vec![entry(2, 20)], 25);
    assert!(merger.places().is_empty());
    assert_eq!(
        merger.engine.logs.of(SequenceId(0)).closed(),
        Rank::ZERO,
        "the closed timestamp holds behind the gap only"
    );
    merger.receive(0, 0, vec![entry(1, 10)], 0);
    assert_eq!(merger.places(), [(1, 10), (2, 20)].into());
    assert_eq!(merger.engine.logs.of(SequenceId(0)).closed(), Rank(25));
}

#[test]
fn one_region_alone_answers_within_the_submission() {
    let mut world = world(3);
    let txn = world.submit(0, "w0.1 r0.2");
    assert_eq!(world.answer(txn).rank, world.now.rank());
    world.run_for_ms(1);
    let next = world.submit(0, "w0.1");
    assert!(world.answer(next).rank > world.answer(txn).rank);
    world.run_for_ms(500);
    assert_eq!(world.order(2, 0), [txn, next], "the others execute it too");
    judge(&world);
    world.check_empty();
}

#[test]
fn one_nanosecond_holds_many_transactions_in_order() {
    let mut world = world(1);
    let all: Vec<TxnId> = (0..20).map(|_| world.submit(0, "w0.1")).collect();
    world.run_for_ms(100);
    let ranks: Vec<Rank> = all.iter().map(|txn| world.answer(*txn).rank).collect();
    assert!(ranks.is_sorted_by(|a, b| a < b), "{ranks:?}");
    judge(&world);
}

#[test]
fn two_regions_take_one_round_trip_wherever_it_is_submitted() {
    // 100 ms between any two; the model of latency is: twice the one-way delay to the farthest region.
    for (gateway, text) in [(0, "w0.1 w1.1"), (0, "w0.1 w1.1 w2.1"), (0, "w1.1"), (2, "r0.1 w2.1")] {
        let mut world = world(3);
        let txn = world.submit(gateway, text);
        world.run_for_ms(500);
        let latency_ms = world.latency_ms(txn);
        // Future ranks add their margin.
        assert!((100.0..=102.1).contains(&latency_ms), "{text}: {latency_ms}");
        judge(&world);
    }
}

#[test]
fn opposite_submissions_end_in_one_order_everywhere() {
    let mut world = world(2);
    let t1 = world.submit(0, "w0.1 w1.1");
    let t2 = world.submit(1, "w0.1 w1.1");
    world.run_for_ms(2000);
    for node in 0..2 {
        for partition in 0..2 {
            assert_eq!(world.order(node, partition), [t1, t2]);
        }
    }
    assert_eq!(world.answer(t1).rank, world.answer(t2).rank, "one component, one rank");
    judge(&world);
}

#[test]
fn a_place_given_before_the_next_writer_arrives_is_the_same_place() {
    // W0 has its place in region 0 long before region 1 hears of it, with W1 right behind.
    let mut world = world(2);
    world.passes = Box::new(|from, to, message| {
        let append = matches!(message, Message::Append(_));
        !(append && from == NodeId(0) && to == NodeId(1))
    });
    let w0 = world.submit(0, "w0.1");
    world.run_for_ms(80);
    let w1 = world.submit(1, "w0.1 w1.1");
    world.run_for_ms(100);
    assert_eq!((world.order(0, 0), world.order(1, 0)), (vec![w0, w1], vec![]));
    world.passes = Box::new(|_, _, _| true);
    world.run_for_ms(3000);
    assert_eq!(world.order(1, 0), [w0, w1]);
    judge(&world);
    world.check_empty();
}

#[test]
fn a_gateway_that_dies_between_two_submissions_blocks_nobody() {
    let lost = |options| {
        let mut topology = Topology::one_node_per_region(Wan::preset("perseus3").unwrap(), 1);
        topology.nodes.push(NodeSpec { region: RegionId(0), subscribes: Vec::new() });
        let mut world = World::with(1, topology.replicated(), options);
        // Its second submission is lost, and then the gateway is.
        world.passes = Box::new(|from, to, _| from != NodeId(3) || to == NodeId(0));
        let t1 = world.submit(3, "w0.1 w1.1");
        world.run_for_ms(20);
        world.passes = Box::new(|from, to, _| from != NodeId(3) && to != NodeId(3));
        world.run_for_ms(200);
        let t2 = world.submit(1, "w1.1");
        let t3 = world.submit(0, "w0.1");
        world.run_for_ms(1000);
        assert!(!world.has_ended(&t1), "its gateway hears nothing");
        (world.order(1, 0), [t1, t3], world.has_ended(&t2))
    };
    let (order, expected, answered) = lost(Options::default());
    assert!(answered);
    assert_eq!(order, expected);
    let (order, _, _) = lost(planted(Mutant::NoOrphanRule));
    assert!(order.is_empty(), "without the rule everything behind it waits for ever");
}

#[test]
fn a_submission_that_comes_twice_is_ordered_once() {
    let mut world = world(2);
    // Acknowledgements are lost: whatever was sent is sent again.
    world.passes = Box::new(|_, _, message| {
        !matches!(message, Message::SubmitAck { .. } | Message::AppendAck { .. } | Message::Executed { .. })
    });
    let t1 = world.submit(0, "w0.1 w1.1");
    let t2 = world.submit(0, "w1.1");
    world.run_for_ms(1500);
    assert_eq!(world.order(0, 1), [t1, t2]);
    assert!(!world.has_ended(&t2), "the answer was lost");
    world.passes = Box::new(|_, _, _| true);
    world.run_for_ms(3000);
    judge(&world);
    world.check_empty();
}

#[test]
fn many_readers_then_a_writer() {
    let mut world = world(2);
    let w0 = world.submit(0, "w0.1");
    // Half of the readers also read at the other region, so they get their places at different times.
    let readers: Vec<TxnId> =
        (0..20).map(|n| world.submit(0, if n % 2 == 0 { "r0.1" } else { "r0.1 r1.1" })).collect();
    // Readers that span regions are delayed for as long as a message takes: this one comes after that.
    world.run_until(world.now + 1000);
    let w1 = world.submit(1, "w0.1");
    world.run_for_ms(2000);
    for node in 0..2 {
        let order = world.order(node, 0);
        let at = |txn| order.iter().position(|t| *t == txn).unwrap();
        assert!(readers.iter().all(|reader| at(w0) < at(*reader)));
        let before = readers.iter().filter(|reader| at(**reader) < at(w1)).count();
        assert!(before == 20, "{before}");
    }
    judge(&world);
}

#[test]
fn a_range_that_is_read_meets_the_row_that_is_inserted() {
    let mut world = world(2);
    let scan = world.submit(0, "r0.5-9 w1.1");
    let insert = world.submit(1, "w0.7 r1.1");
    world.run_for_ms(2000);
    assert_eq!(world.answer(scan).rank, world.answer(insert).rank, "they cross: one component");
    assert_eq!(world.order(0, 0), world.order(1, 0));
    judge(&world);
}

#[test]
fn an_abort_is_decided_alike_in_all_regions_and_keeps_its_place() {
    let mut aborted = 0;
    let mut world = world(3);
    for n in 0..40u16 {
        world.submit_as(n % 3, "maybe", access("w0.1 w1.1"), Token::default());
        world.run_for_ms(3);
    }
    world.run_for_ms(2000);
    for (_, answer) in world.answers.values() {
        aborted += u32::from(matches!(answer.outcome, Outcome::Aborted(_)));
    }
    assert!((1..40).contains(&aborted), "{aborted}");
    judge(&world);
}

#[test]
fn nodes_of_a_region_show_each_other_what_they_read() {
    let mut topology = Topology::one_node_per_region(Wan::preset("perseus3").unwrap().truncated(2), 2);
    let subscribes = topology.nodes[0].subscribes.clone();
    topology.nodes.push(NodeSpec { region: RegionId(0), subscribes: subscribes.clone() });
    topology.nodes.push(NodeSpec { region: RegionId(1), subscribes });
    topology.partitions[1].node = NodeId(2);
    topology.partitions[3].node = NodeId(3);
    let mut world = World::with(1, topology.replicated(), Options::default());
    let t1 = world.submit(0, "w0.1 r1.1");
    world.run_for_ms(20);
    // In-region: there and back between its two nodes.
    assert!(world.latency_ms(t1) < 10.0, "{}", world.latency_ms(t1));
    world.submit(0, "w0.1 w1.1 w2.1 w3.1");
    world.run_for_ms(20);
    // Reads are lost for a while.
    world.passes = Box::new(|_, _, message| !matches!(message, Message::Reads { .. }));
    world.run_for_ms(300);
    world.passes = Box::new(|_, _, _| true);
    world.run_for_ms(3000);
    judge(&world);
    world.check_empty();
}

#[test]
fn a_stalled_region_delays_those_who_read_it_and_nobody_else() {
    let mut world = world(3);
    world.run_for_ms(200);
    world.passes = Box::new(|from, _, _| from != NodeId(2));
    world.run_for_ms(200);
    let (before, cut) = (world.now, world.now.rank());
    world.close(1, 1, 0, cut, vec![Granule::Partition]);
    world.close(2, 1, 1, cut, vec![Granule::Partition]);
    world.close(3, 1, 2, cut, vec![Granule::Partition]);
    world.run_for_ms(300);
    let waited = |world: &World, n| world.closed.get(&base::order::CloseTicket(n)).map(|c| c.0.since(before));
    assert_eq!(waited(&world, 2), Some(0), "the own sequence closes at once");
    let other_ns = waited(&world, 1).unwrap();
    assert!((50 * MS..54 * MS).contains(&other_ns), "one one-way delay: {other_ns}");
    assert_eq!(waited(&world, 3), None);
    world.passes = Box::new(|_, _, _| true);
    world.run_for_ms(1000);
    judge(&world);
}

#[test]
fn local_readers_do_not_wait_for_transactions_that_span_regions() {
    let wait_ms = |future, lower_bounds| {
        let ranks = Ranks { future, lower_bounds, ..Ranks::default() };
        let options = Options { ranks, append_delay_percent: 0, ..Options::default() };
        let mut world = World::new(1, 2, 1, 0, options);
        world.submit(0, "w0.1 w1.1");
        world.run_for_ms(1);
        world.submit(0, "w0.1 w0.2");
        world.run_for_ms(20);
        let t: Rank = world.now.rank();
        world.close(1, 0, 0, t, vec![Granule::Partition]);
        world.run_for_ms(3000);
        judge(&world);
        world.closed[&base::order::CloseTicket(1)].0.since(t.time()) / MS
    };
    assert_eq!(wait_ms(FutureRanks::Measured, true), 0);
    assert!(wait_ms(FutureRanks::Off, true) > 50);
    assert!(wait_ms(FutureRanks::Measured, false) > 50);
    assert!(wait_ms(FutureRanks::Off, false) > 50);
}

#[test]
fn a_chain_behind_a_transaction_ranked_in_the_future_is_seen_with_it_or_not_at_all() {
    // Held, it would come behind the chain.
    let mut world = World::new(1, 2, 1, 0, Options { append_delay_percent: 0, ..Options::default() });
    let ahead = world.submit(0, "w0.1 w1.1");
    world.run_for_ms(1);
    let chain = ["w0.1 w0.2", "w0.2 w0.3", "w0.3"].map(|text| world.submit(0, text));
    let other = world.submit(0, "w0.9");
    for n in 0..60 {
        world.run_for_ms(5);
        world.close(n, 0, 0, world.now.rank(), vec![Granule::Partition]);
    }
    world.run_for_ms(1000);
    let mut seen = std::collections::BTreeSet::new();
    for n in 0..60 {
        let end = world.closed[&base::order::CloseTicket(n)].1.as_ref().unwrap().position.0;
        let cut = world.closes[&base::order::CloseTicket(n)].2.rank;
        let order = world.order(0, 0);
        // A copy has executed more than the cut holds; what counts is the rank.
        let sees = |txn| order[..end as usize].contains(&txn) && world.answer(txn).rank <= cut;
        assert!(sees(other), "nobody waits for the chain to see a stranger");
        let chain = chain.map(sees);
        assert!(chain.iter().all(|link| *link == sees(ahead)), "{n}: {chain:?}");
        seen.insert(sees(ahead));
    }
    assert_eq!(seen.len(), 2, "some cuts lie before and some behind");
    judge(&world);
}

#[test]
fn a_component_with_one_huge_stamp_is_seen_whole_or_not_at_all() {
    let future = FutureRanks::Scaled { percent: 200 };
    let ranks = Ranks { future, future_max_ns: Some(400 * MS), ..Ranks::default() };
    let options = Options { ranks, append_delay_percent: 0, ..Options::default() };
    let mut world = World::new(1, 2, 1, 0, options);
    let t1 = world.submit(0, "w0.1 w1.1");
    let t2 = world.submit(1, "w0.1 w1.1");
    let t3 = world.submit(0, "w0.1");
    for n in 0..40 {
        world.run_for_ms(10);
        let cut = world.now.rank();
        world.close(2 * n, 0, 0, cut, vec![Granule::Partition]);
        world.close(2 * n + 1, 1, 0, cut, vec![Granule::Partition]);
    }
    world.run_for_ms(1000);
    assert_eq!(world.answer(t1).rank, world.answer(t2).rank);
    // T2 came behind T3 in one sequence, so that all three are one.
    assert_eq!(world.answer(t3).rank, world.answer(t1).rank);
    judge(&world);
}

#[test]
fn a_token_or_a_cut_from_the_far_future_is_refused() {
    let mut world = world(2);
    let far = Token::at(Rank(world.now.0 + 3600 * 1000 * MS));
    let txn = world.submit_as(0, "update", access("w0.1"), far.clone());
    let Outcome::Aborted(error) = &world.answer(txn).outcome else { panic!("it was accepted") };
    assert_eq!(error.state.as_str(), "22023");
    world.close(1, 0, 0, far.rank, vec![Granule::Partition]);
    assert!(world.closed[&base::order::CloseTicket(1)].1.is_err());
    world.run_for_ms(300);
    judge(&world);
}

#[test]
fn a_gateway_refuses_what_it_cannot_queue() {
    let admission = Admission { outstanding_max: 1, queue_max: 2, ..Admission::default() };
    let options = Options { admission, ..Options::default() };
    let mut world = World::new(1, 2, 1, 0, options);
    let all: Vec<TxnId> = (0..4).map(|_| world.submit(0, "w0.1 w1.1")).collect();
    let Outcome::Aborted(error) = &world.answer(all[3]).outcome else { panic!("it was accepted") };
    assert_eq!(error.state.as_str(), "53400");
    world.run_for_ms(2000);
    assert!(all[..3].iter().all(|txn| world.answer(*txn).outcome.is_committed()));
    judge(&world);
}

#[test]
fn versions_are_collected_below_every_reader() {
    let mut world = world(2);
    let cut = world.now.rank();
    world.nodes[1].set_floor(Some(cut));
    world.submit(0, "w0.1 w1.1");
    world.run_for_ms(1000);
    assert!(world.watermarks.iter().all(|below| *below <= cut));
    world.nodes[1].set_floor(None);
    world.run_for_ms(1000);
    assert!(world.watermarks.iter().all(|below| *below > cut + 500 * MS));
}

#[test]
fn a_prefix_of_the_merged_order_shows_a_long_fork_and_ranks_do_not() {
    // T1 in region 0 and T2 in region 1 at one instant. A reader in each region, of both partitions.
    let seen = |mutant: Option<Mutant>| {
        let mut world = World::new(1, 2, 1, 0, Options { mutant, ..Options::default() });
        world.run_for_ms(200);
        let (t1, t2) = (world.submit(0, "w0.1"), world.submit(1, "w1.1"));
        world.run_for_ms(10);
        let cut = world.now.rank();
        for reader in 0..2 {
            for partition in 0..2 {
                world.close(
                    u64::from(2 * reader + partition),
                    reader,
                    partition,
                    cut,
                    vec![Granule::Partition],
                );
            }
        }
        world.run_for_ms(1000);
        let sees = |reader: u16, txn| {
            let partition = if txn == t1 { 0u16 } else { 1 };
            let ticket = base::order::CloseTicket(u64::from(2 * reader + partition));
            let end = world.closed[&ticket].1.as_ref().unwrap().position.0;
            world.order(reader, partition).iter().take(end as usize).any(|other| *other == txn)
        };
        [(sees(0, t1), sees(0, t2)), (sees(1, t1), sees(1, t2))]
    };
    assert_eq!(seen(Some(Mutant::PrefixReads)), [(true, false), (false, true)], "a fork");
    assert_eq!(seen(None), [(true, true), (true, true)]);
}

#[test]
fn an_entry_between_the_places_of_a_message_is_not_ours() {
    // An Append from somebody who does not order that region, and one for a region that does not exist.
    let mut merger = Merger::new(None);
    let mut out: Vec<EngineEffect<_>> = Vec::new();
    for sequence in [1, 9] {
        let entries = vec![Entry {
            transaction: named(1, "w1.1"),
            stamp: Rank(5),
            collected: Rank::ZERO,
            request: None,
        }];
        let (sequence, closed, sent_at) = (SequenceId(sequence), Rank::ZERO, Time::ZERO);
        let (first, collected) = (0, Rank::ZERO);
        let term = u64::from(sequence.0);
        let said = log::Append { term, first, entries, closed, collected, sent_at, ..log::Append::default() };
        let append = Append { sequence, said, ..Append::default() };
        let message = Message::Append(append);
        merger.engine.message(Time::from_ms(1), NodeId(2), message, &mut merger.rows, &mut out);
    }
    assert!(out.is_empty() && merger.engine.vertex_count() == 0);
}

#[test]
fn a_quiet_cluster_only_beats() {
    let mut world = world(2);
    world.run_for_ms(500);
    let messages = world.events.values().filter_map(|event| match event {
        Event::Message { message, .. } => Some(message),
        _ => None,
    });
    for message in messages {
        let beats = matches!(message, Message::Append(append) if append.said.entries.is_empty());
        let reports = matches!(message, Message::Progress { .. } | Message::Watermark { .. });
        assert!(beats || reports, "{message:?}");
    }
}

#[test]
fn one_copy_elsewhere_costs_a_round_trip_to_the_nearest_region() {
    let options = Options { copies_elsewhere: 1, ..Options::default() };
    let mut world = World::new(1, 3, 1, 0, options);
    let single = world.submit(0, "w0.1");
    let several = world.submit(0, "w0.1 w1.1");
    world.run_for_ms(1000);
    for txn in [single, several] {
        assert!((100.0..=104.1).contains(&world.latency_ms(txn)), "{}", world.latency_ms(txn));
    }
    judge(&world);
    // Whoever is not answered is not shown to readers either, and one that is stamped ahead delays none.
    world.submit(0, "w0.1");
    let cut = world.now.rank();
    world.close(1, 0, 0, cut, vec![Granule::Partition]);
    assert!(world.closed.contains_key(&base::order::CloseTicket(1)));
    world.run_for_ms(1000);
    judge(&world);
    world.check_empty();
}

#[test]
fn a_change_of_the_catalog_is_answered_once_every_region_has_it() {
    let mut world = world(3);
    let change = SchemaChange { database: Default::default(), base_version: 0, actions: Vec::new() };
    let ddl = world.submit_program(0, TxnProgram::Schema(change), access("w0 w1 w2"), Token::default());
    world.run_for_ms(120);
    assert!(!world.order(0, 0).is_empty() && !world.has_ended(&ddl));
    world.run_for_ms(500);
    assert!((150.0..160.0).contains(&world.latency_ms(ddl)), "{}", world.latency_ms(ddl));
    judge(&world);
    world.check_empty();
}

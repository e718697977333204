//! Named scenarios: each has gone wrong in a published system.

use super::judge::judge;
use super::{Event, World, access, planted};
use crate::engine::Engine;
use crate::graph::participants::Participants;
use crate::perseus::message::{Ballot, Decision, Dependency, Fragment, Known, Payload};
use crate::perseus::{FutureRanks, Message, Mutant, Options, Perseus};
use base::order::StreamItem;
use base::time::MS;
use base::topology::{NodeSpec, PartitionSpec, Topology};
use base::txn::{Granule, Outcome};
use base::wan::Wan;
use base::{NodeId, PartitionId, Rank, RegionId, Time, Token, TxnId};

fn world(regions: usize) -> World {
    World::new(1, regions, 1, 0, Options::default())
}

/// The order in which transactions executed at a partition.
fn order(world: &World, partition: u16) -> Vec<TxnId> {
    let node = world.topology.node_of(PartitionId(partition));
    let log = &world.rows[node.0 as usize].log;
    log.iter().filter(|e| e.partition.0 == partition).map(|e| e.txn).collect()
}

/// Delivers the oldest waiting message to `to` that `which` accepts, now.
fn deliver(world: &mut World, to: u16, which: impl Fn(&Message) -> bool) {
    let found = world.events.iter().find_map(|(at, event)| match event {
        Event::Message { to: node, message, .. } if node.0 == to && which(message) => Some(*at),
        _ => None,
    });
    let Some(Event::Message { from, message, .. }) =
        world.events.remove(&found.expect("such a message waits"))
    else {
        unreachable!("a message was found")
    };
    let mut out = Vec::new();
    let clock = world.clock(NodeId(to));
    world.nodes[to as usize].message(clock, from, message, &mut world.rows[to as usize], &mut out);
    world.effects(NodeId(to), out);
}

fn is_pre_accept(message: &Message, txn: TxnId) -> bool {
    matches!(message, Message::PreAccept { payload, .. } if payload.transaction.id == txn)
}

#[test]
fn a_transaction_that_meets_nobody_is_answered_within_its_submission() {
    let mut world = world(1);
    let txn = world.submit(0, access("w0.1 r0.2"));
    assert_eq!(world.answer(txn).rank, world.now.rank());
    assert_eq!(world.messages, 0);
    world.run_for_ms(1);
    let next = world.submit(0, access("w0.1"));
    assert!(world.answer(next).rank > world.answer(txn).rank);
    world.run_for_ms(200);
    judge(&world);
    world.check_empty();
}

#[test]
fn one_nanosecond_holds_many_transactions_in_order() {
    let mut world = world(1);
    let all: Vec<TxnId> = (0..20).map(|_| world.submit(0, access("w0.1"))).collect();
    world.run_for_ms(100);
    let ranks: Vec<Rank> = all.iter().map(|txn| world.answer(*txn).rank).collect();
    assert!(ranks.is_sorted_by(|a, b| a < b), "{ranks:?}");
    judge(&world);
}

#[test]
fn opposite_arrivals_at_two_nodes_end_in_one_order() {
    // T1 reaches node 0 first, T2 node 1: each sees only half of the conflict.
    let mut world = world(2);
    let t1 = world.submit(0, access("w0.1 w1.1"));
    let t2 = world.submit(1, access("w0.1 w1.1"));
    world.run_for_ms(2000);
    assert_eq!(order(&world, 0), [t1, t2]);
    assert_eq!(order(&world, 1), [t1, t2]);
    assert_eq!(world.answer(t1).rank, world.answer(t2).rank, "one component, one rank");
    judge(&world);
}

#[test]
fn a_ring_of_three_is_one_component_in_the_order_of_ids() {
    let mut world = world(3);
    let ring = [
        world.submit(0, access("w0.1 w1.1")),
        world.submit(1, access("w1.1 w2.1")),
        world.submit(2, access("w2.1 w0.1")),
    ];
    world.run_for_ms(3000);
    let ranks: Vec<Rank> = ring.iter().map(|txn| world.answer(*txn).rank).collect();
    assert!(ranks.iter().all(|rank| *rank == ranks[0]), "{ranks:?}");
    for partition in 0..3 {
        assert!(order(&world, partition).is_sorted());
    }
    judge(&world);
}

#[test]
fn a_stream_names_ancestors_that_the_partition_never_met() {
    // T0 at A, T1 at A and B, T2 at B and C: C learns of T0 although T2's coordinator never does.
    let options = Options { collect_every_ns: 5000 * MS, ..Options::default() };
    let mut world = World::new(1, 3, 1, 0, options);
    let t0 = world.submit(0, access("w0.1"));
    let t1 = world.submit(0, access("w0.1 w1.1"));
    let t2 = world.submit(2, access("w1.1 w2.1"));
    world.run_for_ms(2000);
    let items = world.stream(2);
    let vertices: Vec<TxnId> = items
        .iter()
        .filter_map(|item| match item {
            StreamItem::Vertex(vertex) => Some(vertex.txn),
            _ => None,
        })
        .collect();
    assert_eq!(vertices.len(), 3, "{vertices:?}");
    assert!(vertices.contains(&t0) && vertices.contains(&t1) && vertices.contains(&t2));
    assert!(matches!(items.last(), Some(StreamItem::Record(record)) if record.txn == t2));
    judge(&world);
}

#[test]
fn a_lost_commit_holds_up_the_question_but_not_the_answer() {
    // T1's Commit to B is lost at first; T2 depends on T1 at B and executes at C, which has to ask.
    let mut world = world(3);
    let t1 = world.submit(0, access("w0.1 w1.1"));
    world.run_for_ms(60);
    let t2 = world.submit(2, access("w1.1 w2.1"));
    world.passes = Box::new(|_, to, message| !(to == NodeId(1) && matches!(message, Message::Commit { .. })));
    world.run_for_ms(200);
    assert!(world.answers.is_empty());
    world.passes = Box::new(|_, _, _| true);
    world.run_for_ms(3000);
    assert_eq!(order(&world, 1), [t1, t2]);
    judge(&world);
}

#[test]
fn a_repeated_pre_accept_gets_the_stored_answer() {
    let mut world = world(2);
    let t1 = world.submit(0, access("w0.1 w1.1"));
    world.run_for_ms(60);
    // A conflicting transaction has come to node 1 in the meantime.
    let t2 = world.submit(1, access("w1.1"));
    let (payload, ballot) = (world.nodes[0].gateway.coordination(t1).unwrap().payload.clone(), Ballot::FIRST);
    let again = Message::PreAccept { payload, ballot, expected: Rank::ZERO, sent_at: world.now };
    let mut out = Vec::new();
    world.nodes[1].message(world.now, NodeId(0), again, &mut world.rows[1], &mut out);
    let [crate::engine::EngineEffect::Send { message, .. }] = &out[..] else { panic!("{out:?}") };
    let Message::PreAcceptOk { dependencies, .. } = message else { panic!("{message:?}") };
    assert!(dependencies.is_empty(), "what came later is not a dependency: {dependencies:?}");
    world.run_for_ms(2000);
    assert_eq!(order(&world, 1), [t1, t2]);
    judge(&world);
}

#[test]
fn independent_transactions_in_opposite_order_do_not_wait_for_each_other() {
    // Both are ready at both nodes, in opposite order, and exchange reads.
    let mut world = world(2);
    let x = world.submit(0, access("w0.1 w1.1"));
    let y = world.submit(1, access("w0.2 w1.2"));
    world.run_for_ms(400);
    assert!(world.answers.contains_key(&x) && world.answers.contains_key(&y));
    judge(&world);
}

#[test]
fn a_write_follows_the_reads_before_it() {
    let mut world = world(2);
    // T1 reads 1 at node 0 and is in flight; T2 overwrites what it read.
    let t1 = world.submit(0, access("r0.1 w1.1"));
    let t2 = world.submit(0, access("w0.1"));
    world.run_for_ms(2000);
    assert_eq!(order(&world, 0), [t1, t2]);
    judge(&world);
}

#[test]
fn ranges_meet_keys_and_the_whole_partition_meets_everything() {
    let mut world = world(2);
    let all = [
        world.submit(0, access("w0.5 w1.5")),
        world.submit(0, access("r0.0-9")),
        world.submit(0, access("w0.7")),
        world.submit(0, access("w0.6-8")),
        world.submit(0, access("r0.8")),
        world.submit(0, access("w0 w1")),
        world.submit(0, access("r0.1")),
        world.submit(0, access("r0")),
        world.submit(0, access("w0.19")),
    ];
    world.run_for_ms(3000);
    assert_eq!(order(&world, 0), all);
    judge(&world);
}

#[test]
fn an_abort_anywhere_is_an_abort_everywhere() {
    let mut aborted = 0;
    for seed in 0..40 {
        let mut world = World::new(seed, 2, 1, 0, Options::default());
        world.submit(0, access(&format!("w0.{} w1.{}", seed % 20, seed % 7)));
        world.run_for_ms(500);
        let text = format!("r0.{} w1.{} w0.3", seed % 20, seed % 7);
        let txn = world.submit_as(0, "maybe", access(&text), Token::default());
        world.run_for_ms(2000);
        if let Outcome::Aborted(error) = &world.answer(txn).outcome {
            assert_eq!(error.state, base::SqlState::CHECK_VIOLATION);
            aborted += 1;
        }
        judge(&world);
    }
    assert!(0 < aborted && aborted < 40, "{aborted}");
}

#[test]
fn a_gateway_without_rows_coordinates_for_others() {
    let wan = Wan::preset("perseus3").unwrap().truncated(2);
    let node = |r| NodeSpec { region: RegionId(r), subscribes: Vec::new() };
    let partition = |n| PartitionSpec { region: RegionId(n), node: NodeId(n), copies: Vec::new() };
    let topology = Topology {
        wan,
        nodes: vec![node(0), node(1), node(0)],
        partitions: vec![partition(0), partition(1)],
        clock_bound_ns: MS,
        unbounded_clocks: false,
        spread_over: 0,
        removed: Vec::new(),
    };
    let mut world = World::with(3, topology, Options::default());
    let far = world.submit(2, access("w1.1"));
    let both = world.submit(2, access("w0.1 w1.1"));
    let near = world.submit(2, access("w0.1"));
    let start = world.now;
    world.run_for_ms(2000);
    // One participant alone decides: one round trip, not two.
    let latency_ms = world.answers[&far].0.since(start) / MS;
    assert!((100..110).contains(&latency_ms), "{latency_ms}");
    assert!(world.answers.contains_key(&both) && world.answers.contains_key(&near));
    judge(&world);
    assert!(world.nodes.iter().all(|node| node.vertex_count() == 0));
}

#[test]
fn a_close_waits_for_the_writer_in_flight_and_only_for_it() {
    let options = Options { future_ranks: FutureRanks::Off, ..Options::default() };
    let mut world = World::new(1, 2, 1, 0, options);
    let txn = world.submit(0, access("w0.1 w1.1"));
    world.run_for_ms(10);
    let t = world.now.rank();
    world.close(
        1,
        0,
        t,
        access("r0.2").by_partition[&PartitionId(0)].iter().map(|a| a.granule.clone()).collect(),
    );
    assert!(world.closed.contains_key(&base::order::CloseTicket(1)), "key 2 is quiet");
    world.close(2, 0, t, vec![Granule::Partition]);
    assert!(!world.closed.contains_key(&base::order::CloseTicket(2)), "{txn} may be ranked below {t:?}");
    world.run_for_ms(2000);
    judge(&world);
    let waited_ms = world.closed[&base::order::CloseTicket(2)].0.since(t.time()) / MS;
    // The cts comes from node 1, 50 ms later than t: known to be out once committed.
    assert!((85..=95).contains(&waited_ms), "{waited_ms}");
}

#[test]
fn a_future_rank_keeps_local_readers_from_waiting() {
    let mut world = world(2);
    world.submit(0, access("w0.1 w1.1"));
    // A local transaction behind it inherits the future rank, and its bound says so.
    world.submit(0, access("w0.1 w0.2"));
    for (ticket, after_ms) in [(1, 10), (2, 40), (3, 60), (4, 40)] {
        world.run_for_ms(after_ms);
        let t = world.now.rank();
        world.close(ticket, 0, t, vec![Granule::Partition]);
        let closed = world.closed.get(&base::order::CloseTicket(ticket));
        assert_eq!(closed.map(|(at, _)| *at), Some(world.now), "{ticket}");
    }
    world.run_for_ms(2000);
    judge(&world);
}

#[test]
fn a_cut_or_token_from_another_world_is_refused() {
    let mut world = world(1);
    let far = Rank(world.now.0 + 3600 * base::time::SECOND);
    world.close(1, 0, far, vec![Granule::Partition]);
    let (_, refused) = &world.closed[&base::order::CloseTicket(1)];
    assert_eq!(refused.as_ref().unwrap_err().state, base::SqlState::INVALID_PARAMETER_VALUE);
    let txn = world.submit_as(0, "update", access("w0.1"), Token::at(far));
    let Outcome::Aborted(error) = &world.answer(txn).outcome else { panic!("it was accepted") };
    assert!(error.hint.is_some());
    assert!(world.rows[0].log.is_empty());
    // Nobody inherits the rank.
    world.run_for_ms(1);
    let next = world.submit(0, access("w0.1"));
    assert_eq!(world.answer(next).rank, world.now.rank());
}

#[test]
fn a_transaction_without_participants_just_ends() {
    let mut world = world(1);
    let txn = world.submit(0, access(""));
    world.run_for_ms(1);
    assert!(world.answer(txn).outcome.is_committed());
}

#[test]
fn a_lost_participant_blocks_its_transactions_keys_and_says_so() {
    let mut world = world(2);
    // Node 0 vanishes before it learns node 1's answer. It takes part itself, and may have decided.
    world.passes = Box::new(|from, to, message| {
        let first = matches!(message, Message::PreAccept { .. });
        (from != NodeId(0) && to != NodeId(0)) || first
    });
    let lost = world.submit(0, access("w0.1 w1.1"));
    world.run_for_ms(100);
    let blocked = world.submit(1, access("w1.1"));
    let free = world.submit(1, access("w1.2"));
    world.run_for_ms(5000);
    assert!(world.answers.contains_key(&free) && !world.answers.contains_key(&blocked));
    assert_eq!(world.nodes[1].stalled(world.now, 1000 * MS), [lost]);
    assert_eq!(world.nodes[1].stalled(world.now, 10_000 * MS), []);
    // It was only cut off.
    world.passes = Box::new(|_, _, _| true);
    world.run_for_ms(5000);
    judge(&world);
    world.check_empty();
}

/// Node 0 runs nothing, and each of the others a partition.
fn world_with_a_gateway_first(lease_ns: u64) -> World {
    let mut topology = Topology::one_node_per_region(Wan::preset("perseus3").unwrap(), 1);
    topology.nodes.insert(0, NodeSpec { region: RegionId(0), subscribes: Vec::new() });
    topology.partitions.iter_mut().for_each(|partition| partition.node.0 += 1);
    World::with(1, topology, Options { lease_ns, ..Options::default() })
}

fn least_watermark(world: &World) -> Rank {
    let alive = (0..4u16).filter(|n| !world.dead.contains(&NodeId(*n)));
    alive.map(|n| world.watermarks[n as usize]).min().unwrap()
}

#[test]
fn collection_outlives_every_node_that_runs_no_partition_the_first_one_included() {
    let mut world = world_with_a_gateway_first(2_000 * MS);
    world.submit(0, access("w0.1 w1.1"));
    world.run_for_ms(1_000);
    assert!(least_watermark(&world) > Rank::ZERO);
    world.dead.insert(NodeId(0));
    let lost_at = world.now.rank();
    for _ in 0..10 {
        world.submit(2, access("w0.1 w1.1"));
        world.run_for_ms(200);
    }
    world.run_for_ms(3_000);
    assert!(least_watermark(&world) > lost_at, "{:?}", world.watermarks);
    assert!((1..4).all(|n| world.nodes[n].vertex_count() == 0));
}

#[test]
fn no_node_that_runs_a_partition_can_be_collected_without_and_its_return_is_enough() {
    // The collector's, and another one.
    for gone in [1, 3] {
        let mut world = world_with_a_gateway_first(2_000 * MS);
        world.submit(2, access("w0.1 w1.1 w2.1"));
        world.run_for_ms(1_000);
        world.cut_off.insert(NodeId(gone));
        world.run_for_ms(200);
        let lost_at = world.now.rank();
        world.submit(2, access("w1.1"));
        world.run_for_ms(1_000);
        assert!(world.watermarks.iter().all(|below| *below < lost_at), "{:?}", world.watermarks);
        world.cut_off.clear();
        world.run_for_ms(1_000);
        assert!(least_watermark(&world) > lost_at, "{:?}", world.watermarks);
        judge(&world);
        world.check_empty();
    }
}

#[test]
fn a_reader_far_behind_keeps_its_past() {
    let mut world = world(2);
    world.submit(0, access("w0.1 w1.1"));
    world.run_for_ms(1000);
    let cut = world.now.rank();
    world.nodes[1].set_floor(Some(cut));
    for _ in 0..10 {
        world.submit(0, access("w0.1"));
        world.run_for_ms(100);
    }
    assert!(world.watermarks.iter().all(|below| *below < cut), "{:?}", world.watermarks);
    assert_eq!(world.nodes[0].vertex_count(), 10);
    world.nodes[1].set_floor(None);
    world.run_for_ms(1000);
    assert!(world.watermarks.iter().all(|below| *below > cut), "{:?}", world.watermarks);
    assert_eq!(world.nodes[0].vertex_count(), 0);
}

#[test]
fn ranks_agree_although_one_node_has_collected_and_another_has_not() {
    // W at A is ranked in the future behind F; T at A and B depends on W. B may learn of T after W
    // was collected, and must not rank T lower than A does.
    for seed in 0..30 {
        let options = Options { collect_every_ns: 3 * MS, ..Options::default() };
        let mut world = World::new(seed, 3, 1, 0, options);
        world.faults.jitter_ns = 150 * MS;
        for n in 0..15u64 {
            world.submit((n % 3) as u16, access("w0.1 w1.2"));
            world.submit(0, access("w0.1"));
            world.run_for_ms(7 * (seed % 5));
            world.submit(2, access("w1.2 w2.3"));
            world.run_for_ms(13);
            world.submit(1, access("w1.2 w2.4"));
            world.submit(2, access("w2.3 w2.4"));
        }
        world.run_for_ms(10_000);
        judge(&world);
    }
}

#[test]
fn two_round_trips_and_no_more() {
    // The latency of a quiet multi-region transaction, and of one that follows a local chain.
    let mut world = world(2);
    for _ in 0..30 {
        world.submit(0, access("w0.1"));
        world.run_for_ms(1);
    }
    let start = world.now;
    let txn = world.submit(0, access("w0.1 w1.1"));
    world.run_for_ms(1000);
    let latency_ms = world.answers[&txn].0.since(start) / MS;
    assert!((200..=203).contains(&latency_ms), "{latency_ms} ms at a round trip of 100");
    judge(&world);
}

#[test]
fn messages_in_any_order_within_a_transaction_are_understood() {
    let mut world = world(2);
    let t1 = world.submit(0, access("w0.1 w1.1"));
    let t2 = world.submit(0, access("w0.2 w1.1"));
    // T2's PreAccept overtakes T1's.
    deliver(&mut world, 1, |message| is_pre_accept(message, t2));
    deliver(&mut world, 1, |message| is_pre_accept(message, t1));
    world.run_until(Time::from_ms(4000));
    assert_eq!(order(&world, 1), [t2, t1]);
    judge(&world);
}

/// Node 2 gets T, which depends on V of node 0 alone, and V's own ancestors were collected unseen.
/// Answers what node 2 asks at once, and T's rank once V turns out to have `rank`.
fn rank_behind_a_truncated_closure(options: Options, rank: Rank) -> (bool, Rank) {
    let wan = Wan::preset("perseus3").unwrap();
    let topology = std::sync::Arc::new(Topology::one_node_per_region(wan, 1));
    let mut node = Perseus::new(topology.clone(), NodeId(2), 1, options);
    let mut rows = crate::trial::executor::Rows::default();
    let now = Time::from_ms(1000);
    let id = |sequence| TxnId { coordinator: NodeId(0), incarnation: 1, sequence };
    let program = base::txn::TxnProgram::Procedure { name: "update".into(), args: Vec::new() };
    let transaction = base::txn::Transaction {
        id: id(2),
        program: program.into(),
        access: access("w0.1 w2.1").into(),
        min_rank: Rank::ZERO,
        after: Rank::ZERO,
        homes: None,
    };
    let participants = |p| Participants::of(std::iter::once(PartitionId(p)));
    let cts = now.rank() + 10;
    let fragment = |rank| Fragment {
        txn: id(1),
        participants: participants(0),
        dependencies: Vec::new(),
        cts: now.rank(),
        noop: false,
        rank,
        inherited: Rank::ZERO,
        complete: true,
        lost: now.rank() + 9,
        dominates: Rank::ZERO,
        after: Rank::ZERO,
    };
    let dependency = Dependency { txn: id(1), participants: participants(0) };
    let decision = Decision { dependencies: vec![dependency], cts, noop: false };
    let payload = Payload { transaction, request: None };
    let values = base::txn::Gathered::Values(vec![base::Datum::Int(0)]);
    let messages = [
        Message::PreAccept { payload, ballot: Ballot::FIRST, expected: Rank::ZERO, sent_at: now },
        Message::Commit { txn: id(2), decision, fragments: vec![fragment(None)] },
        Message::RemoteRead { txn: id(2), gathered: vec![(PartitionId(0), values)], sent_at: now },
        Message::InquireReply { known: vec![Known::Final(fragment(Some(rank)))], watermark: Rank::ZERO },
    ];
    let mut out = Vec::new();
    for message in messages {
        node.message(now, NodeId(0), message, &mut rows, &mut out);
    }
    let sent: Vec<Message> = out
        .into_iter()
        .filter_map(|effect| match effect {
            crate::engine::EngineEffect::Send { message, .. } => Some(message),
            _ => None,
        })
        .collect();
    let asked = sent.iter().any(|message| matches!(message, Message::Inquire { .. }));
    let executed = sent.iter().find_map(|message| match message {
        Message::Executed { rank, .. } => Some(*rank),
        _ => None,
    });
    (asked, executed.expect("T executed"))
}

#[test]
fn a_rank_behind_collected_ancestors_is_asked_for() {
    let rank = Rank(Time::from_ms(1000).0 + 30);
    assert_eq!(rank_behind_a_truncated_closure(Options::default(), rank), (true, rank.next()));
    let (asked, wrong) = rank_behind_a_truncated_closure(planted(Mutant::RankFromTruncatedClosure), rank);
    assert!(!asked && wrong < rank, "the planted fault shows");
}

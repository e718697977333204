//! The engine's scenarios, each a sentence. Those of the merge alone are in `merge/tests.rs`.

use super::judge::judge;
use super::{World, access, world};
use crate::engine::{Answered, Engine, Question, RegionState};
use crate::geogauss::message::{Epoch, Message};
use crate::geogauss::{EpochPace, Geogauss, Isolation, Options, Rule};
use base::order::CloseTicket;
use base::time::MS;
use base::topology::{NodeSpec, Topology};
use base::txn::{Granule, Outcome};
use base::wan::Wan;
use base::{NodeId, PartitionId, Rank, RegionId, SqlError, Token};
use std::sync::Arc;

fn latency_ms(world: &World, txn: base::TxnId) -> u64 {
    (world.answers[&txn].0.0 - world.submitted[&txn].0.0) / MS
}

#[test]
fn a_commit_takes_one_one_way_delay_and_an_epoch_and_members_keep_pace() {
    let mut world = world(1, 3, Options::default());
    world.run_for_ms(100);
    // Wakes everybody.
    world.submit(0, "w0.1");
    world.run_for_ms(300);
    let txns: Vec<_> = (0..3)
        .map(|node| {
            world.run_for_ms(7);
            world.submit(node, &format!("w0.{}", 5 + node))
        })
        .collect();
    world.run_for_ms(300);
    for txn in txns {
        assert!(world.is_committed(txn));
        let ms = latency_ms(&world, txn);
        assert!((50..=61).contains(&ms), "{ms} ms: the delay is 50 and an epoch 10");
    }
    judge(&world);
}

#[test]
fn an_idle_cluster_wakes_up_for_a_transaction_and_a_reader() {
    let mut world = world(
        2,
        3,
        Options { pace: EpochPace { idle_every_ns: 250 * MS, ..EpochPace::default() }, ..Options::default() },
    );
    world.run_for_ms(5_000);
    let before = world.messages;
    world.run_for_ms(1_000);
    assert!(world.messages - before < 100, "{} messages a second", world.messages - before);
    let txn = world.submit(1, "w0.1 w1.1 r2.2");
    world.run_for_ms(400);
    assert!(world.is_committed(txn));
    assert!(latency_ms(&world, txn) <= 121, "a round trip and two epochs");
    world.run_for_ms(5_000);
    let granules = access("r0.1").by_partition[&PartitionId(0)].iter().map(|a| a.granule.clone()).collect();
    let rank = world.now.rank();
    world.close(1, 2, 0, rank, granules);
    let asked = world.now;
    world.run_for_ms(400);
    let took_ms = (world.closed[&CloseTicket(1)].0.0 - asked.0) / MS;
    assert!(took_ms <= 121, "{took_ms} ms");
    judge(&world);
}

#[test]
fn a_read_at_the_last_published_epoch_takes_no_message() {
    let mut world = world(3, 3, Options::default());
    world.submit(0, "w0.1");
    world.run_for_ms(500);
    let before = world.messages;
    let answered =
        world.ask_at(NodeId(2), world.clock(NodeId(2)), Question::Calibration { partition: PartitionId(0) });
    let low = answered.unwrap().unwrap().calibration().unwrap().low;
    world.close(1, 2, 0, low, vec![Granule::Partition]);
    assert!(world.closed.contains_key(&CloseTicket(1)), "it is closed already");
    assert_eq!(world.messages, before);
}

#[test]
fn what_was_answered_anywhere_is_within_the_latest_cut_without_a_message() {
    let mut world = world(4, 3, Options::default());
    for n in 0..20 {
        world.run_for_ms(9);
        let txn = world.submit(n % 3, &format!("w0.{n}"));
        while !world.answers.contains_key(&txn) {
            assert!(world.step(base::Time(u64::MAX)));
        }
        let rank = world.answer(txn).rank;
        for node in 0..3 {
            let (ticket, partition) = (CloseTicket(1000 + u64::from(n * 3 + node)), PartitionId(0));
            world.finds.insert(ticket, (world.now, NodeId(node), partition, vec![Granule::Partition]));
            let question = Question::Latest { ticket, partition, granules: vec![Granule::Partition] };
            let clock = world.clock(NodeId(node));
            assert_eq!(world.ask_at(NodeId(node), clock, question), Ok(None));
            assert!(world.found[&ticket].1 >= rank);
        }
    }
    world.run_for_ms(500);
    judge(&world);
}

#[test]
fn scenario_1_the_chain_is_decided_alike_over_links() {
    for rule in [Rule::Greedy, Rule::Reserved] {
        let mut world = world(5, 3, Options { rule, ..Options::default() });
        world.submit(0, "w0.5");
        world.run_for_ms(200);
        let _: Vec<_> = ["w0.1", "w0.1 w1.1", "w1.1"]
            .iter()
            .enumerate()
            .map(|(n, text)| world.submit(n as u16, text))
            .collect();
        world.run_for_ms(1000);
        judge(&world);
    }
}

#[test]
fn scenario_3_read_committed_loses_an_update_that_serializable_does_not() {
    let run = |isolation| {
        let mut world = world(6, 2, Options { isolation, attempts_max: 1, ..Options::default() });
        world.submit(0, "w0.1");
        world.run_for_ms(300);
        // B reads what A is about to change, and commits an epoch later.
        let a = world.submit(0, "w0.1");
        world.run_for_ms(15);
        let b = world.submit(1, "w0.1");
        world.run_for_ms(300);
        (world.is_committed(a), world.is_committed(b))
    };
    assert_eq!(run(Isolation::ReadCommitted), (true, true));
    for level in [Isolation::Snapshot, Isolation::RepeatableRead, Isolation::Serializable] {
        assert_eq!(run(level), (true, false), "{}", level.name());
    }
}

#[test]
fn who_lost_is_evaluated_again_until_it_commits() {
    let mut world = world(7, 3, Options::default());
    let txns: Vec<_> = (0..30)
        .map(|n| {
            world.run_for_ms(2);
            world.submit(n % 3, "w0.1")
        })
        .collect();
    world.run_for_ms(20_000);
    assert!(txns.iter().all(|txn| world.is_committed(*txn)));
    judge(&world);
}

#[test]
fn a_change_of_the_catalog_fails_only_what_uses_its_tables() {
    let mut world = world(16, 3, Options { attempts_max: 1, ..Options::default() });
    world.skews = vec![0; 3];
    // Wakes everybody.
    world.submit(0, "w0.1");
    world.run_for_ms(305);
    let change = world.drop_table(0, crate::trial::OTHER);
    let (beside, user) = (world.submit(1, "w0.5 r1.1"), world.submit(2, "w0.6 r1.101"));
    world.run_for_ms(20);
    let (behind, later_user) = (world.submit(1, "w1.7"), world.submit(2, "w1.107"));
    world.run_for_ms(400);
    assert_eq!(world.answer(beside).rank, world.answer(change).rank, "they are in one epoch");
    assert!(world.answer(behind).rank > world.answer(change).rank);
    assert!([change, beside, behind].into_iter().all(|txn| world.is_committed(txn)));
    for txn in [user, later_user] {
        let Outcome::Aborted(error) = &world.answer(txn).outcome else { panic!("its table is not there") };
        assert!(error.detail.as_ref().is_some_and(|detail| detail.contains("the catalog")), "{error:?}");
    }
    let afterwards = world.submit(2, "w0.6 w1.108");
    world.run_for_ms(300);
    assert!(world.is_committed(afterwards));
    assert!(world.nodes.iter().all(|node| node.decided() == world.nodes[0].decided()));
}

#[test]
fn scenario_11_a_clock_that_is_behind_catches_up_and_nobody_waits_for_it_long() {
    let mut world = world(8, 3, Options::default());
    world.skews = vec![0, -50 * MS as i64, 50 * MS as i64];
    world.topology = Arc::new(Topology { unbounded_clocks: true, ..(*world.topology).clone() });
    let txns: Vec<_> = (0..60)
        .map(|n| {
            world.run_for_ms(11);
            world.submit(n % 3, &format!("w0.{}", n % 20))
        })
        .collect();
    world.run_for_ms(1000);
    assert!(txns.iter().all(|txn| world.is_committed(*txn)));
    judge(&world);
}

#[test]
fn scenario_14_a_member_that_is_cut_off_publishes_nothing_and_all_go_on_afterwards() {
    let mut world = world(9, 3, Options { lost_after_ns: 2000 * MS, ..Options::default() });
    world.run_for_ms(200);
    world.cut_off.insert(NodeId(2));
    let here = world.submit(0, "w0.1");
    let there = world.submit(2, "w0.1");
    world.run_for_ms(1500);
    assert!(!world.answers.contains_key(&here) && !world.answers.contains_key(&there));
    world.run_for_ms(1500);
    let refused = |world: &mut World, node| {
        let txn = world.submit(node, "w0.2");
        world.run_for_ms(1);
        match &world.answer(txn).outcome {
            Outcome::Aborted(error) => error.state.as_str().to_string(),
            Outcome::Committed { .. } => panic!("it is refused"),
        }
    };
    assert_eq!(refused(&mut world, 0), "57P03");
    assert_eq!(refused(&mut world, 2), "57P03");
    let states: Vec<_> = world.nodes[0].report().regions.iter().map(|health| health.state).collect();
    assert_eq!(states, [RegionState::Up, RegionState::Up, RegionState::Lost]);
    world.cut_off.clear();
    world.run_for_ms(2000);
    assert!(world.is_committed(here) && world.is_committed(there));
    let again = world.submit(1, "w0.1 w2.3");
    world.run_for_ms(300);
    assert!(world.is_committed(again));
    judge(&world);
}

#[test]
fn scenario_18_one_member_and_seven() {
    for regions in [1, 7] {
        let mut world = world(10, regions, Options::default());
        for n in 0..40 {
            world.run_for_ms(4);
            world.submit(n % regions as u16, &format!("w0.{} r0.{}", n % 7, n % 5));
        }
        world.run_for_ms(10_000);
        judge(&world);
    }
}

/// A member's calls are repeated, as after a restart, and it goes on in another life.
#[test]
fn scenario_19_a_member_that_restarts_reuses_no_epoch_and_no_name() {
    let mut world = world(11, 3, Options::default());
    world.recorded = Some((NodeId(1), Vec::new()));
    for n in 0..30 {
        world.run_for_ms(8);
        world.submit(n % 3, &format!("w0.{}", n % 9));
    }
    let (_, calls) = world.recorded.take().expect("it was recorded");
    let mut again = Geogauss::new(world.topology.clone(), NodeId(1), 1, Options::default());
    let (mut rows, mut out) = (crate::trial::executor::Rows::default(), Vec::new());
    again.start(base::Time::from_ms(1000), &mut out);
    for (at, call) in calls {
        match call {
            crate::trial::world::Call::Submit(submission) => {
                _ = again.submit(at, submission, &mut rows, &mut out)
            }
            crate::trial::world::Call::Message(from, message) => {
                again.message(at, from, message, &mut rows, &mut out)
            }
            crate::trial::world::Call::Wake => again.wake(at, &mut rows, &mut out),
        }
    }
    assert_eq!(again.decided(), world.nodes[1].decided());
    assert_eq!(rows.installed, world.rows[1].installed, "the same calls lead to the same state");
    let open = again.clock.open();
    // Its clock was set back.
    let (now, mut out) = (base::Time::from_ms(1), Vec::new());
    again.resume(now, 2, &mut out);
    let submission = world.wish(access("w0.15"), "update", false);
    let txn = again.submit(now, submission, &mut rows, &mut out);
    assert_eq!((txn.incarnation, txn.sequence), (2, 1));
    assert!(again.clock.open() >= open, "no epoch is opened again");
    let entered = out.iter().find_map(|effect| match effect {
        crate::engine::EngineEffect::Send { message: Message::WriteSet { epoch, payload, .. }, .. } => {
            (payload.txn == txn).then_some(*epoch)
        }
        _ => None,
    });
    assert!(entered.is_some_and(|epoch| epoch >= open));
}

#[test]
fn a_request_that_is_repeated_anywhere_takes_effect_once() {
    let mut world = world(12, 3, Options::default());
    let wish = world.wish(access("w0.1 w2.3"), "update", true);
    let first = world.hand_in(0, wish.clone());
    world.run_for_ms(5);
    let meanwhile = world.repeat(1, &wish);
    world.run_for_ms(400);
    let later = world.repeat(2, &wish);
    world.run_for_ms(400);
    let ends: Vec<_> = [first, meanwhile, later].map(|txn| world.answer(txn).txn).to_vec();
    assert!(ends.windows(2).all(|pair| pair[0] == pair[1]), "{ends:?}");
    judge(&world);
}

#[test]
fn a_token_from_the_future_closes_epochs_early_and_one_from_too_far_is_refused() {
    let mut world = world(13, 3, Options::default());
    world.run_for_ms(100);
    let soon = Rank(world.now.0 + 100 * MS);
    let txn = world.submit_as(0, "update", access("w0.1"), Token::at(soon));
    let far = Rank(world.now.0 + 100_000 * MS);
    let refused = world.submit_as(0, "update", access("w0.2"), Token::at(far));
    world.run_for_ms(500);
    assert!(world.answer(txn).rank > soon && world.is_committed(txn));
    let Outcome::Aborted(error) = &world.answer(refused).outcome else { panic!("it is refused") };
    assert_eq!(error.state.as_str(), "22023");
    let error: &SqlError = error;
    assert!(error.message.contains("token"), "{error:?}");
    judge(&world);
}

#[test]
fn bad_input_is_refused_by_name() {
    let options = |epoch_ns| Options { epoch_ns, ..Options::default() };
    let state = |epoch_ns| options(epoch_ns).check().err().map(|error| error.state.as_str().to_string());
    assert_eq!((state(MS), state(500 * MS)), (None, None));
    assert_eq!(state(MS - 1).as_deref(), Some("22023"));
    assert_eq!(state(501 * MS).as_deref(), Some("22023"));
    let wan = Wan::uniform("test", &["a", "b"], MS, MS);
    let mut topology = Topology::one_node_per_region(wan, 1);
    let refused = |topology: &Topology| {
        Geogauss::check(&topology.clone().replicated()).err().map(|error| error.state.as_str().to_string())
    };
    assert_eq!(refused(&topology), None);
    topology.nodes.push(NodeSpec { region: RegionId(1), subscribes: Vec::new() });
    assert_eq!(refused(&topology).as_deref(), Some("0A000"), "a node without all partitions");
}

#[test]
fn a_member_whose_decisions_differ_takes_itself_out() {
    let mut world = world(14, 2, Options::default());
    world.submit(0, "w0.1");
    world.run_for_ms(300);
    let (epoch, digest) = world.nodes[0].decided();
    assert!(epoch > Epoch(0));
    let progress = crate::geogauss::message::Progress { decided: (epoch, digest ^ 1), ..Default::default() };
    let (mut rows, mut out) = (std::mem::take(&mut world.rows[0]), Vec::new());
    world.nodes[0].message(world.now, NodeId(1), Message::Alive { progress }, &mut rows, &mut out);
    assert_eq!(
        Engine::absent(&world.nodes[0]).map(|error| error.state.as_str().to_string()).as_deref(),
        Some("XX000")
    );
}

#[test]
fn a_member_without_its_memory_answers_nobody_and_says_why() {
    let (topology, options) = (world(15, 3, Options::default()).topology.clone(), Options::default());
    let mut node = Geogauss::rejoining(topology, NodeId(0), 2, options);
    assert_eq!(Engine::absent(&node).map(|error| error.state.as_str().to_string()).as_deref(), Some("0A000"));
    let (mut rows, mut out) = (crate::trial::executor::Rows::default(), Vec::new());
    node.start(base::Time::from_ms(1000), &mut out);
    node.wake(base::Time::from_ms(2000), &mut rows, &mut out);
    assert!(out.is_empty(), "it says nothing: it might close an epoch twice");
    let answered = node.ask(base::Time::from_ms(2000), Question::LeastCut, &mut rows, &mut out);
    assert_eq!(answered, Ok(Some(Answered::Rank(Rank::ZERO))));
}

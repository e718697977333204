//! Clients that repeat their requests.

use super::judge::judge;
use super::{World, access};
use crate::perseus::{Message, Options, Unfinished};
use base::time::{MS, SECOND};
use base::txn::Outcome;
use base::{NodeId, SqlState};

#[test]
fn a_request_repeated_at_the_same_gateway_is_done_once() {
    for text in ["w0.1", "w1.1", "w0.1 w1.1"] {
        let mut world = World::with_gateways(1, 1, Options::default());
        let wish = world.wish(access(text));
        let mut all = vec![world.hand_in(0, wish.clone())];
        for pause_ms in [0, 20, 70, 120, 300, 1000] {
            world.run_for_ms(pause_ms);
            all.push(world.repeat(0, &wish));
        }
        world.run_for_ms(10_000);
        judge(&world);
        let first = world.answer(all[0]).clone();
        for txn in all {
            let answer = world.answer(txn);
            assert_eq!((answer.txn, answer.rank), (first.txn, first.rank));
            assert_eq!(answer.outcome, first.outcome, "the same results");
        }
        world.check_empty();
    }
}

#[test]
fn a_request_repeated_at_every_gateway_at_once_is_done_once() {
    for seed in 0..10 {
        let mut world = World::with_gateways(seed, 3, Options::default());
        world.faults.jitter_ns = seed * 20_000_000;
        let wish = world.wish(access("w0.1 w1.1 w2.1"));
        world.hand_in(0, wish.clone());
        for gateway in 1..6 {
            world.repeat(gateway, &wish);
        }
        world.run_for_ms(60_000);
        judge(&world);
        assert_eq!(world.rows[0].log.len(), 1);
        assert!(world.answers.values().all(|(_, answer)| answer.outcome.is_committed()));
        assert_eq!(world.answers.len(), 6);
        world.check_empty();
    }
}

/// Each claims it at the participant that is near. They used to go on in step until both had given up.
#[test]
fn two_gateways_with_the_same_request_do_not_meet_for_ever() {
    for unfinished in [Unfinished::Complete, Unfinished::Abandon] {
        for recover_after_ms in [25, 50, 100, 200, 400] {
            let recover_after_ns = Some(recover_after_ms * MS);
            for apart_ms in [0, 10, 40] {
                let options = Options { recover_after_ns, unfinished, ..Options::default() };
                let mut world = World::with_gateways(1, 2, options);
                let wish = world.wish(access("w0.1 w1.1"));
                let first = world.hand_in(4, wish.clone());
                world.run_for_ms(apart_ms);
                let second = world.repeat(3, &wish);
                world.run_for_ms(30_000);
                judge(&world);
                for txn in [first, second] {
                    let outcome = &world.answer(txn).outcome;
                    assert!(
                        outcome.is_committed(),
                        "{unfinished:?} {recover_after_ms} {apart_ms}: {outcome:?}"
                    );
                }
                assert_eq!(world.rows[0].log.len(), 1);
                world.check_empty();
            }
        }
    }
}

/// One that was sent elsewhere may still take effect.
#[test]
fn a_gateway_that_gives_up_a_named_request_does_not_say_that_nothing_was_changed() {
    for is_named in [false, true] {
        let options = Options { unfinished: Unfinished::Abandon, ..Options::default() };
        let mut world = World::with_gateways(1, 2, options);
        let is_kept = |from, to| from == NodeId(3) && to == NodeId(1);
        world.passes = Box::new(move |from, to, message| {
            !is_kept(from, to) || !matches!(message, Message::PreAccept { .. })
        });
        let mut wish = world.wish(access("w0.1 w1.1"));
        wish.request = wish.request.filter(|_| is_named);
        let txn = world.hand_in(3, wish.clone());
        world.run_for_ms(120_000);
        let Outcome::Aborted(error) = &world.answer(txn).outcome else { panic!("it did not take effect") };
        let expected =
            if is_named { SqlState::TRANSACTION_RESOLUTION_UNKNOWN } else { SqlState::SERIALIZATION_FAILURE };
        assert_eq!(error.state, expected);
        assert!(error.hint.is_some());
        if is_named {
            let again = world.repeat(4, &wish);
            world.run_for_ms(10_000);
            assert!(world.answer(again).outcome.is_committed());
        }
        judge(&world);
        world.check_empty();
    }
}

#[test]
fn a_request_whose_result_may_be_forgotten_is_refused_rather_than_repeated() {
    let options = Options { keep_results_ns: SECOND, ..Options::default() };
    let mut world = World::with_gateways(1, 1, options);
    for text in ["w0.1", "w1.1", "w0.1 w1.1"] {
        let wish = world.wish(access(text));
        let first = world.hand_in(0, wish.clone());
        world.run_for_ms(500);
        let soon = world.repeat(0, &wish);
        world.run_for_ms(500);
        assert_eq!(world.answer(soon).txn, world.answer(first).txn);
        world.run_for_ms(5_000);
        for gateway in [0, 3] {
            let late = world.repeat(gateway, &wish);
            world.run_for_ms(5_000);
            let Outcome::Aborted(error) = &world.answer(late).outcome else { panic!("it was done again") };
            assert_eq!(error.state, SqlState::TRANSACTION_RESOLUTION_UNKNOWN);
            assert!(error.hint.is_some());
        }
    }
    assert!(world.nodes.iter().all(|node| node.requests.len() == 0), "nothing is remembered for ever");
    world.run_for_ms(20_000);
    world.check_empty();
}

#[test]
fn a_gateway_that_was_given_up_before_it_heard_of_an_end_says_that_it_is_not_known() {
    let mut world = World::with_gateways(1, 1, Options { lease_ns: SECOND, ..Options::default() });
    world.passes = Box::new(|_, to, message| to != NodeId(3) || !matches!(message, Message::Executed { .. }));
    let txn = world.submit(3, access("w0.1 w1.1"));
    world.run_for_ms(500);
    world.cut_off.insert(NodeId(3));
    world.passes = Box::new(|_, _, _| true);
    world.run_for_ms(5_000);
    assert_eq!(world.rows[0].log.len(), 1);
    assert_eq!(world.nodes[0].vertex_count(), 0, "it was collected");
    assert!(!world.answers.contains_key(&txn));
    world.cut_off.clear();
    world.run_for_ms(10_000);
    let Outcome::Aborted(error) = &world.answer(txn).outcome else { panic!("it cannot know the results") };
    assert_eq!(error.state, SqlState::TRANSACTION_RESOLUTION_UNKNOWN);
    world.check_empty();
}

//! Clients that repeat their requests, here and in other regions.

use super::World;
use super::judge::judge;
use crate::caerus::options::Collection;
use crate::caerus::{Mutant, Options};
use crate::trial::panics;
use base::SqlState;
use base::rng::Rng;
use base::time::SECOND;
use base::txn::Outcome;

#[test]
fn a_request_repeated_anywhere_is_done_once() {
    for copies_elsewhere in 0..2 {
        for text in ["w0.1", "w1.1", "w0.1 w1.1"] {
            let mut world = World::new(1, 3, 1, 0, Options { copies_elsewhere, ..Options::default() });
            let request = world.named();
            let mut all = vec![world.attempt(0, request, text)];
            for (nth, pause_ms) in [0, 20, 70, 120, 300, 1000].into_iter().enumerate() {
                world.run_for_ms(pause_ms);
                all.push(world.attempt(nth as u16 % 3, request, text));
            }
            world.run_for_ms(3000);
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
}

/// A client of a region that is lost repeats what it has no answer to in another one.
fn lost_with_its_gateway(seed: u64, mutant: Option<Mutant>) {
    let mut draw = Rng::new(seed);
    let options = Options { copies_elsewhere: 1, mutant, ..Options::default() };
    let mut world = World::new(seed, 3, 1, 0, options);
    let mut all = Vec::new();
    for n in 0..12u64 {
        world.run_for_ms(draw.below(40));
        let text = ["w0.1", "w0.1 w1.1", "w1.1 w2.1", "w0.2"][draw.below(4) as usize];
        let request = world.named();
        all.push((world.attempt((n % 3) as u16, request, text), request, text));
    }
    world.run_for_ms(draw.below(200));
    world.kill(0);
    world.run_for_ms(draw.below(3000));
    let mut again = Vec::new();
    for (first, request, text) in all {
        let gateway = 1 + draw.below(2) as u16;
        again.push((first, world.attempt(gateway, request, text)));
    }
    world.run_for_ms(12_000);
    judge(&world);
    for (first, again) in again {
        let end = world.answer(again).txn;
        let done = |txn| world.rows[1].log.iter().any(|entry| entry.txn == txn);
        assert!(done(end), "somebody did it");
        assert!(end == first || !done(first), "{first} and {end} did the same");
        assert!(end == again || !done(again), "{again} and {end} did the same");
    }
}

#[test]
fn a_request_whose_region_is_lost_is_done_once() {
    (0..40).for_each(|seed| lost_with_its_gateway(seed, None));
    assert!((0..10).any(|seed| panics(|| lost_with_its_gateway(seed, Some(Mutant::ForgetRequests)))));
}

#[test]
fn a_request_whose_result_may_be_forgotten_is_refused_rather_than_repeated() {
    let collection = Collection { keep_results_ns: SECOND, ..Collection::default() };
    let options = Options { collection, ..Options::default() };
    let mut world = World::new(1, 3, 1, 0, options);
    for text in ["w0.1", "w1.1", "w0.1 w1.1"] {
        let request = world.named();
        let first = world.attempt(0, request, text);
        world.run_for_ms(500);
        let soon = world.attempt(0, request, text);
        world.run_for_ms(500);
        assert_eq!(world.answer(soon).txn, world.answer(first).txn);
        world.run_for_ms(5000);
        let late = world.attempt(2, request, text);
        world.run_for_ms(1000);
        let Outcome::Aborted(error) = &world.answer(late).outcome else { panic!("it was done again") };
        assert_eq!(error.state, SqlState::TRANSACTION_RESOLUTION_UNKNOWN);
    }
    assert!(
        world.nodes.iter().all(|node| node.outcomes.request_count() == 0),
        "nothing is remembered for ever"
    );
    judge(&world);
}

//! Planted faults, each caught by a test: the tests can fail.

use super::judge::judge;
use super::random::{Gateways, run, run_with};
use super::{World, access, planted};
use crate::engine::Engine;
use crate::perseus::{FutureRanks, Mutant, Options};
use crate::trial::panics;
use base::Rank;
use base::time::MS;
use base::txn::Granule;

/// Whether some seed notices the fault.
fn caught(mutant: Mutant, seeds: std::ops::Range<u64>) -> bool {
    let mut seeds = seeds;
    seeds.any(|seed| panics(|| judge(&run(seed, 80, Some(planted(mutant))))))
}

#[test]
fn random_worlds_catch_what_is_planted() {
    for mutant in [
        Mutant::FirstAnswerOnly,
        Mutant::CutCycles,
        Mutant::RecomputedAnswers,
        Mutant::MissingAntiDependency,
        Mutant::CollectAlone,
        Mutant::ReplyAtCommit,
        Mutant::NoReplyGate,
        Mutant::PtsIsNow,
        Mutant::RankIsCts,
        Mutant::CloseIgnoresUndecided,
        Mutant::ExecuteBeforeFinal,
        Mutant::ForgetComponents,
    ] {
        assert!(caught(mutant, 0..100), "{mutant:?} goes unnoticed");
    }
}

#[test]
fn requests_that_are_forgotten_are_done_twice() {
    let run = |seed| judge(&run_with(seed, 80, Some(planted(Mutant::ForgetRequests)), Gateways::Mortal));
    assert!((0..50).any(|seed| panics(|| run(seed))));
}

#[test]
fn collecting_under_a_reader_is_noticed() {
    let mut world = World::new(1, 2, 1, 0, planted(Mutant::CollectWithoutFloor));
    let cut = world.now.rank();
    world.nodes[1].set_floor(Some(cut));
    world.run_for_ms(1000);
    assert!(world.watermarks.iter().any(|below| *below >= cut));
}

#[test]
fn without_either_rule_a_reader_waits_and_with_both_it_does_not() {
    let wait_ms = |future_ranks, lower_bounds| {
        let options = Options { future_ranks, lower_bounds, ..Options::default() };
        let mut world = World::new(1, 2, 1, 0, options);
        world.submit(0, access("w0.1 w1.1"));
        world.run_for_ms(1);
        world.submit(0, access("w0.1 w0.2"));
        world.run_for_ms(20);
        let t: Rank = world.now.rank();
        world.close(1, 0, t, vec![Granule::Partition]);
        world.run_for_ms(3000);
        judge(&world);
        world.closed[&base::order::CloseTicket(1)].0.since(t.time()) / MS
    };
    assert_eq!(wait_ms(FutureRanks::Measured, true), 0);
    assert!(wait_ms(FutureRanks::Off, true) > 50);
    assert!(wait_ms(FutureRanks::Measured, false) > 50);
    assert!(wait_ms(FutureRanks::Off, false) > 50);
}

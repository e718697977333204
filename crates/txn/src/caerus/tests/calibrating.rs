//! Cuts where clocks have no bound: what is asked of whom, what is waited for, and what is lost.

use super::judge::judge;
use super::random::run_in;
use super::recovery::turmoil_in;
use super::{World, planted};
use crate::baseline::{calvin, slog};
use crate::caerus::SequenceId;
use crate::caerus::{Mutant, Options, Routing};
use crate::trial::panics;
use base::NodeId;
use base::order::CloseTicket;
use base::time::MS;
use base::topology::Topology;
use base::txn::Granule;
use base::wan::Wan;

/// Regions 100 ms from each other, one partition each; clocks are this many ms off.
fn world(copies_elsewhere: usize, off_ms: [i64; 3], mutant: Option<Mutant>) -> World {
    let wan = Wan::uniform("test", &["a", "b", "c"], MS, 100 * MS);
    let topology = Topology { unbounded_clocks: true, ..Topology::one_node_per_region(wan, 1).replicated() };
    let mut world = World::with(1, topology, Options { copies_elsewhere, mutant, ..Options::default() });
    world.run_for_ms(2000);
    world.skews = off_ms.map(|ms| ms * MS as i64).to_vec();
    world.run_for_ms(500);
    world
}

fn whole() -> Vec<Granule> {
    vec![Granule::Partition]
}

/// How long a reader waited until its cut was found, and until it was closed, in ms.
fn waited_ms(world: &World, ticket: u64) -> (Option<u64>, Option<u64>) {
    let (asked_at, ..) = world.finds[&CloseTicket(ticket)];
    let ms = |at: base::Time| at.since(asked_at) / MS;
    let found = world.found.get(&CloseTicket(ticket)).map(|(at, _)| ms(*at));
    (found, world.closed.get(&CloseTicket(ticket)).map(|(at, _)| ms(*at)))
}

#[test]
fn a_cut_takes_a_round_trip_to_those_who_order_what_is_read_and_none_to_others() {
    let mut world = world(0, [2000, 0, -1500], None);
    world.submit(1, "w1.1");
    world.run_for_ms(200);
    // Nobody hears of region 2, and nobody of region 0 asks it.
    world.passes = Box::new(|from, to, _| from != NodeId(2) && to != NodeId(2));
    for (ticket, partition) in [(1, 0), (2, 1), (3, 2)] {
        world.find(ticket, 0, partition, whole());
    }
    world.run_for_ms(1000);
    assert_eq!(waited_ms(&world, 1), (Some(0), Some(0)), "the own sequence is asked at no cost");
    let (found, closed) = waited_ms(&world, 2);
    assert_eq!((found, closed), (Some(100), Some(100)), "a round trip, and the cut lies in the past");
    assert_eq!(waited_ms(&world, 3), (None, None), "whoever reads a stalled region waits for it");
    world.passes = Box::new(|_, _, _| true);
    world.run_for_ms(2000);
    judge(&world);
}

/// A cut at region 0's ranks, two seconds ahead of region 1's clock, and what region 1 answers later.
#[test]
fn a_sequence_whose_clock_is_behind_goes_on_above_the_cut() {
    let mut world = world(0, [2000, 0, 0], None);
    let ahead = world.submit(0, "w0.1 w1.1");
    world.run_for_ms(300);
    world.find(1, 2, 1, whole());
    world.run_for_ms(300);
    let (found, closed) = waited_ms(&world, 1);
    assert!(found.is_some() && closed.is_some(), "{found:?} {closed:?}");
    let later = world.submit(1, "w1.2");
    world.run_for_ms(300);
    assert!(world.answer(ahead).rank <= world.found[&CloseTicket(1)].1);
    assert!(world.answer(later).rank > world.found[&CloseTicket(1)].1);
    judge(&world);
}

/// A query that arrives after an answer sees it, wherever; a query that arrives before the second of two answers to
/// strangers may see that one alone.
#[test]
fn real_time_between_strangers_is_lost_and_nothing_else() {
    let mut world = world(0, [2000, 0, 0], None);
    let first = world.submit(0, "w0.1");
    world.run_for_ms(10);
    assert!(world.has_ended(&first), "nobody waits for clocks");
    let second = world.submit(1, "w1.1");
    world.run_for_ms(10);
    assert!(world.answer(second).rank < world.answer(first).rank, "the later one has the earlier place");
    // Those that conflict are in order, and so is a session that has seen the first.
    let meets = world.submit(1, "w0.1 w1.2");
    let seen = base::Token::at(world.answer(first).rank);
    let follows = world.submit_as(1, "update", super::access("w1.3"), seen);
    world.run_for_ms(400);
    assert!(world.answer(meets).rank > world.answer(first).rank);
    assert!(world.answer(follows).rank > world.answer(first).rank);
    judge(&world);
}

#[test]
fn readers_that_come_together_share_a_question_and_none_gets_an_answer_to_an_earlier_one() {
    let mut world = world(0, [0, 0, 0], None);
    let before = world.messages;
    for ticket in 0..20 {
        world.find(ticket, 0, 1, whole());
    }
    world.run_for_ms(1);
    assert!(world.messages - before < 10, "{}", world.messages - before);
    world.run_for_ms(500);
    // All but the first had come too late for the first question.
    assert_eq!(waited_ms(&world, 0).0, Some(100));
    assert!((1..20).all(|ticket| waited_ms(&world, ticket).0.is_some_and(|ms| (101..=104).contains(&ms))));
    judge(&world);
}

/// A leader that was replaced without its knowing, and a reader beside it.
#[test]
fn a_leader_that_others_do_not_follow_any_more_tells_no_end() {
    let stale = |mutant| {
        let mut world = world(1, [0, 0, 0], mutant);
        world.submit(0, "w0.1");
        world.run_for_ms(500);
        world.find(1, 0, 0, whole());
        world.run_for_ms(300);
        let others_confirm_ms = waited_ms(&world, 1).0.expect("it is connected");
        assert!(others_confirm_ms >= 100 || mutant.is_some(), "{others_confirm_ms}");
        world.cut_off(0);
        world.run_for_ms(3000);
        let outside = world.submit(1, "w0.1");
        world.run_for_ms(1000);
        assert!(world.has_ended(&outside));
        assert_ne!(world.nodes[1].leader_of(SequenceId(0)), NodeId(0));
        world.find(2, 0, 0, whole());
        world.run_for_ms(1000);
        let found = world.found.contains_key(&CloseTicket(2));
        let noticed = panics(|| {
            world.heal();
            world.run_for_ms(20_000);
            judge(&world);
        });
        (found, noticed)
    };
    assert_eq!(stale(None), (false, false));
    assert_eq!(stale(Some(Mutant::UnconfirmedEnd)), (true, true));
}

#[test]
fn random_worlds_without_a_bound_of_clocks_keep_all_but_real_time_of_strangers() {
    for seed in 0..25 {
        let world = run_in(seed, 150, None, true);
        judge(&world);
        assert!(world.found.len() > 3, "{}", world.found.len());
    }
    for (seed, routing) in (0..8).zip([slog::ROUTING, calvin::ROUTING].into_iter().cycle()) {
        judge(&run_in(seed, 100, Some(Options { routing, ..Options::default() }), true));
    }
}

#[test]
fn regions_may_be_lost_without_a_bound_of_clocks() {
    for seed in 0..25 {
        judge(&turmoil_in(seed, Routing::Direct, None, true));
    }
}

#[test]
fn random_worlds_catch_what_is_planted_in_calibration() {
    let caught = |mutant| {
        (0..150).any(|seed| {
            panics(|| judge(&run_in(seed, 150, Some(planted(mutant)), true)))
                || panics(|| judge(&turmoil_in(seed, Routing::Direct, Some(mutant), true)))
        })
    };
    let all = [
        Mutant::CalibrateBeforeArrival,
        Mutant::CalibrateHere,
        Mutant::UnconfirmedEnd,
        Mutant::RanksNotAwaited,
        Mutant::CloseIgnoresUndecided,
    ];
    let unnoticed: Vec<Mutant> = all.into_iter().filter(|mutant| !caught(*mutant)).collect();
    assert!(unnoticed.is_empty(), "{unnoticed:?} go unnoticed");
}

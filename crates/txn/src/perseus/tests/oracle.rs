//! Timestamps from one place, and safe ranks.

use super::judge::judge;
use super::random::run;
use super::{World, access};
use crate::engine::{Question, Unanswered};
use crate::perseus::{FutureRanks, Options, Timestamps};
use base::order::StreamItem;
use base::time::MS;
use base::{PartitionId, Rank};

fn central() -> Options {
    Options { timestamps: Timestamps::Central, future_ranks: FutureRanks::Off, ..Options::default() }
}

#[test]
fn random_worlds_with_an_oracle_are_serializable_in_rank_order() {
    for seed in 0..40 {
        let mut world = run(seed, 120, Some(central()));
        judge(&world);
        world.check_empty();
    }
}

#[test]
fn every_transaction_goes_to_the_oracle_even_one_that_stays_at_a_node() {
    let mut world = World::new(1, 2, 1, 0, central());
    let (near, far) = (world.submit(0, access("w0.1")), world.submit(1, access("w1.1")));
    world.run_for_ms(99);
    assert!(world.answers.contains_key(&near) && !world.answers.contains_key(&far));
    world.run_for_ms(2);
    assert!(world.answer(near).rank < world.answer(far).rank, "the oracle was asked in this order");
}

#[test]
fn a_lost_timestamp_is_asked_for_again() {
    let mut world = World::new(1, 2, 1, 0, central());
    world.passes = Box::new(|_, _, message| !matches!(message, super::Message::Timestamp { .. }));
    let txn = world.submit(1, access("w1.1"));
    world.run_for_ms(150);
    world.passes = Box::new(|_, _, _| true);
    assert!(!world.answers.contains_key(&txn));
    world.run_for_ms(600);
    assert!(world.answer(txn).outcome.is_committed());
}

#[test]
fn a_query_at_the_oracles_timestamp_sees_what_was_answered_before() {
    let mut world = World::new(3, 3, 1, MS, central());
    let txn = world.submit(1, access("w1.1 w2.1"));
    while !world.answers.contains_key(&txn) {
        world.run_for_ms(1);
    }
    let clock = world.clock(base::NodeId(0));
    let cut = world.ask_at(base::NodeId(0), clock, Question::Timestamp).expect("it is the oracle");
    let cut = cut.expect("at once").rank().unwrap();
    assert!(world.answer(txn).rank < cut);
    let clock = world.clock(base::NodeId(1));
    let refused = world.ask_at(base::NodeId(1), clock, Question::Timestamp);
    assert_eq!(refused, Err(Unanswered { question: "timestamp" }), "there is one oracle");
}

#[test]
fn nothing_appears_at_or_below_a_safe_rank() {
    for seed in 0..20 {
        let mut world =
            World::new(seed, 2, 1, MS, Options { future_ranks: FutureRanks::Off, ..Options::default() });
        world.faults.jitter_ns = 20 * MS;
        let mut safe: Vec<(usize, Rank)> = Vec::new();
        let mut held_back = false;
        for n in 0..200u64 {
            world.run_for_ms(3);
            let what = ["w0.1 w1.1", "w0.1", "w1.1", "w1.2"][(n % 4) as usize];
            world.submit((n % 2) as u16, access(what));
            let (at, clock) = (PartitionId(1), world.clock(base::NodeId(1)));
            let safe_rank = world.ask_at(base::NodeId(1), clock, Question::SafeRank { partition: at });
            let rank = safe_rank.expect("this engine can tell").expect("at once").rank().unwrap();
            held_back |= rank.0 + 30 * MS < clock.0;
            safe.push((world.stream(at.0).len(), rank));
        }
        world.run_for_ms(2000);
        let stream = world.stream(1);
        for (length, rank) in safe {
            let late = stream[length..].iter().find_map(|item| match item {
                StreamItem::Record(record) if record.rank <= rank => Some(record.rank),
                _ => None,
            });
            assert_eq!(late, None, "seed {seed}: below {rank}");
        }
        assert!(held_back, "what is undecided holds the safe rank back");
    }
}

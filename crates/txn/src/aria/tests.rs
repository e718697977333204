//! The baseline in small worlds: members agree, and what commits is serialisable.

use super::*;
use crate::trial::access;
use crate::trial::executor::look;
use crate::trial::world::{self, Subject};
use base::hash::digest;
use base::rng::Rng;
use base::txn::TxnProgram;
use base::wan::Wan;
use base::{Datum, Token};
use std::collections::BTreeSet;

type World = world::World<Aria>;

impl Subject for Aria {
    type Options = Options;
    const IS_TRACED: bool = false;

    fn make(topology: Arc<Topology>, me: NodeId, options: Options) -> Aria {
        Aria::new(topology, me, 1, options)
    }
}

fn world(seed: u64, regions: usize, options: Options) -> World {
    let wan = Wan::uniform("test", &["a", "b", "c"][..regions], MS, 40 * MS);
    World::with(seed, Topology::one_node_per_region(wan, 1).replicated(), options)
}

impl World {
    fn submit(&mut self, node: u16, name: &str, text: &str) -> TxnId {
        self.wishes += 1;
        let program = TxnProgram::Procedure { name: name.into(), args: vec![Datum::Int(self.wishes)] };
        let access = Arc::new(access(text));
        self.hand_in(
            node,
            Submission {
                program: Arc::new(program),
                access,
                token: Token::default(),
                request: None,
                isolation: Default::default(),
            },
        )
    }
}

/// Everybody has installed the same rows in the same order, which a serial execution explains, and is answered with
/// what happened.
fn check(world: &World) {
    for rows in &world.rows {
        assert_eq!(rows.installed, world.rows[0].installed);
        assert_eq!(rows.values, world.rows[0].values);
    }
    let mut values = BTreeMap::new();
    let mut places = BTreeMap::new();
    for (place, partition, writes) in &world.rows[0].installed {
        places.insert(place.txn, place.rank);
        let transaction = Transaction {
            id: place.txn,
            program: Arc::new(TxnProgram::GiveUp),
            access: world.submitted[&place.txn].1.clone(),
            min_rank: Rank::ZERO,
            after: Rank::ZERO,
            homes: None,
        };
        assert_eq!(transaction.participants().count(), 1, "these tests stay in one partition");
        let seen = digest(&(0_u64, *partition, look(&values, *partition, &transaction)));
        for state in &writes.rows {
            let row = state.row.as_ref().expect("rows stay");
            let (Datum::Int(n), Datum::Int(value)) = (row.get(0), row.get(1)) else { panic!("two numbers") };
            assert_eq!(value as u64, digest(&(place.txn, seen)), "{} reads this serially", place.txn);
            values.insert((*partition, n), value as u64);
        }
    }
    assert_eq!(values, world.rows[0].values);
    for txn in world.submitted.keys() {
        let answer = world.answer(*txn);
        match answer.outcome.is_committed() {
            true => assert_eq!(places.get(txn), Some(&answer.rank)),
            false => assert!(!places.contains_key(txn)),
        }
    }
    let ends: BTreeSet<TxnId> = world.submitted.keys().copied().collect();
    assert!(places.keys().all(|txn| ends.contains(txn)));
}

#[test]
fn one_writer_of_a_row_commits_in_a_batch_and_the_others_come_next() {
    for barriers in [Barriers::Phases, Barriers::None] {
        let mut world = world(1, 3, Options { barriers, ..Options::default() });
        let writers: Vec<TxnId> = (0..3).map(|node| world.submit(node, "update", "w0.1")).collect();
        let other = world.submit(2, "update", "w0.2");
        world.run_for_ms(1000);
        check(&world);
        let ranks: Vec<Rank> = writers.iter().map(|txn| world.answer(*txn).rank).collect();
        assert!(ranks[0] < ranks[1] && ranks[1] < ranks[2], "{ranks:?}");
        assert_eq!(world.answer(other).rank, ranks[0]);
        assert_eq!(world.nodes[1].counts(), (4, 3));
    }
}

#[test]
fn who_reads_what_an_earlier_one_writes_comes_next() {
    let mut world = world(1, 3, Options::default());
    let writer = world.submit(0, "update", "w0.1");
    let reader = world.submit(1, "update", "r0.1 w0.2");
    let earlier = world.submit(0, "update", "r0.2 w0.3");
    world.run_for_ms(1000);
    check(&world);
    let rank = |txn| world.answer(txn).rank;
    assert_eq!(rank(writer), rank(earlier), "it reads what a later one writes");
    assert!(rank(writer) < rank(reader));
}

/// With phases a batch costs three one-way delays and the wait for the batch before it; without, one.
#[test]
fn barriers_cost_their_delays() {
    let latency = |barriers| {
        let mut world = world(1, 3, Options { barriers, ..Options::default() });
        world.run_for_ms(500);
        let txn = world.submit(0, "update", "w0.1");
        let asked_at = world.now;
        world.run_for_ms(1000);
        check(&world);
        world.answers[&txn].0.since(asked_at)
    };
    assert!(latency(Barriers::None) <= 31 * MS, "{}", latency(Barriers::None));
    assert!(latency(Barriers::Phases) >= 40 * MS, "{}", latency(Barriers::Phases));
}

#[test]
fn a_long_transaction_holds_up_its_batch() {
    let long = Some(Long { every: 2, lasts_ns: 100 * MS });
    let mut world = world(1, 2, Options { long, barriers: Barriers::None, ..Options::default() });
    let asked_at = world.now;
    let short = world.submit(0, "update", "w0.1");
    world.submit(0, "update", "w0.2");
    world.run_for_ms(1000);
    check(&world);
    assert!(world.answers[&short].0.since(asked_at) >= 100 * MS);
}

#[test]
fn random_worlds_are_serialisable() {
    for seed in 0..30 {
        let mut knobs = Rng::new(seed).fork("knobs");
        let regions = 1 + knobs.below(3);
        let barriers = *knobs.pick(&[Barriers::Phases, Barriers::None]);
        let mut world = world(seed, regions as usize, Options { barriers, ..Options::default() });
        for _ in 0..40 {
            world.run_until(world.now + 1 + knobs.below(10 * MS));
            let mut key = || knobs.below(6);
            let text = format!("r0.{} w0.{} r0.{}-{}", key(), key(), key(), 4 + key());
            let name = if knobs.chance(0.2) { "maybe" } else { "update" };
            world.submit(knobs.below(regions) as u16, name, &text);
        }
        world.run_for_ms(10_000);
        check(&world);
    }
}

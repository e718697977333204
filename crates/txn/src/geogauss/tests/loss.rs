//! Members that are lost, with or without their memory, and come back: the scenarios of removal and rejoining, and random
//! worlds with loss.

use super::judge::judge;
use super::random::{self, Loss};
use super::{World, access, panics, world};
use crate::engine::Engine;
use crate::geogauss::message::Message;
use crate::geogauss::{EpochPace, Mutant, Options};
use base::time::MS;
use base::txn::Outcome;
use base::{NodeId, PartitionId, TxnId};

fn quorum() -> Options {
    Options { removes_lost: true, ..Options::default() }
}

fn busy(world: &mut World, nodes: &[u16], transactions: u16) -> Vec<TxnId> {
    let submit = |n: u16| {
        world.run_for_ms(7);
        world.submit(nodes[usize::from(n) % nodes.len()], &format!("w0.{n} r1.{}", 900 + n % 4))
    };
    (0..transactions).map(submit).collect()
}

fn state_of(world: &World, txn: TxnId) -> String {
    match &world.answer(txn).outcome {
        Outcome::Aborted(error) => error.state.as_str().to_string(),
        Outcome::Committed { .. } => "00000".into(),
    }
}

#[test]
fn quorum_exposure_costs_a_round_trip_and_an_epoch() {
    let mut world = world(1, 3, quorum());
    world.run_for_ms(100);
    busy(&mut world, &[0, 1, 2], 30);
    let txns = busy(&mut world, &[0, 1, 2], 30);
    world.run_for_ms(500);
    for txn in txns {
        let ms = (world.answers[&txn].0.0 - world.submitted[&txn].0.0) / MS;
        assert!((100..=111).contains(&ms), "{txn} took {ms} ms: {:?}", world.answer(txn));
    }
    judge(&world);
}

#[test]
fn a_lost_member_is_removed_and_the_others_go_on_within_two_seconds() {
    let mut world = world(2, 3, quorum());
    busy(&mut world, &[0, 1, 2], 40);
    world.lose(2);
    let lost_at = world.now;
    let here = world.submit(0, "w0.1");
    while !world.answers.contains_key(&here) {
        assert!(world.step(base::Time(u64::MAX)));
    }
    assert!(world.is_committed(here));
    let took_ms = (world.now.0 - lost_at.0) / MS;
    assert!(took_ms < 2000, "{took_ms} ms; 700 of them until it is suspected");
    let after = busy(&mut world, &[0, 1], 40);
    world.run_for_ms(500);
    assert!(after.iter().all(|txn| world.answers.contains_key(txn)));
    world.revive(2);
    world.run_for_ms(4000);
    assert!(world.nodes[2].came_back().is_some(), "{:?}", world.nodes[2].absent());
    busy(&mut world, &[0, 1, 2], 40);
    world.run_for_ms(3000);
    judge(&world);
}

#[test]
fn scenario_13_what_reached_one_survivor_only_is_decided_alike_and_no_answer_is_contradicted() {
    // Write sets, or ends, of the dying member reach one survivor only.
    for (seed, reaches_ends) in [(3, false), (4, true), (5, false), (6, true)] {
        let mut world = world(seed, 3, quorum());
        busy(&mut world, &[0, 1, 2], 30);
        world.passes = Box::new(move |from, to, message| {
            let is_end = matches!(message, Message::EndOfEpoch { .. });
            from != NodeId(2) || to != NodeId(1) || reaches_ends && is_end
        });
        let dying = [world.submit(2, "w0.1"), world.submit(2, "w1.2")];
        let rivals = [world.submit(1, "w0.1"), world.submit(0, "w1.2")];
        world.run_for_ms(40 + 15 * seed);
        world.kill(2);
        world.run_for_ms(3000);
        assert!(rivals.iter().all(|txn| world.answers.contains_key(txn)));
        world.passes = Box::new(|_, _, _| true);
        world.revive(2);
        world.run_for_ms(6000);
        for txn in dying {
            assert!(["00000", "57P03", "08007"].contains(&&*state_of(&world, txn)));
        }
        judge(&world);
    }
}

#[test]
fn scenario_14_a_member_that_is_cut_off_publishes_nothing_and_comes_back_with_a_copy() {
    let mut world = world(7, 3, quorum());
    busy(&mut world, &[0, 1, 2], 30);
    world.run_for_ms(300);
    world.cut_off.insert(NodeId(2));
    world.run_for_ms(100);
    let there = world.submit(2, "w0.1");
    let here = world.submit(0, "w0.1");
    world.run_for_ms(3000);
    assert!(world.is_committed(here) && !world.answers.contains_key(&there));
    world.cut_off.clear();
    world.run_for_ms(4000);
    assert_eq!(state_of(&world, there), "57P03", "it took no effect");
    let told = |outcome: &Outcome| matches!(outcome, Outcome::Aborted(error) if error.message.contains("was removed"));
    assert!(told(&world.answers[&there].1.outcome), "{:?}", world.answers[&there]);
    let again = world.submit(2, "w0.1 w2.3");
    world.run_for_ms(500);
    assert!(world.is_committed(again));
    judge(&world);
}

#[test]
fn scenario_15_the_member_that_removes_another_dies_meanwhile() {
    for delay_ms in [640, 700, 760, 820, 900] {
        let mut world = world(delay_ms, 5, quorum());
        busy(&mut world, &[0, 1, 2, 3, 4], 30);
        world.kill(4);
        world.run_for_ms(delay_ms);
        // It has the first turn.
        world.kill(0);
        world.run_for_ms(4000);
        let txns = busy(&mut world, &[1, 2, 3], 20);
        world.run_for_ms(1000);
        assert!(txns.iter().all(|txn| world.answers.contains_key(txn)), "{delay_ms}");
        world.revive(0);
        world.revive(4);
        world.run_for_ms(8000);
        judge(&world);
    }
}

#[test]
fn scenario_16_a_member_rejoins_while_load_runs() {
    let mut world = world(9, 3, quorum());
    busy(&mut world, &[0, 1, 2], 20);
    world.lose(1);
    busy(&mut world, &[0, 2], 150);
    world.revive(1);
    busy(&mut world, &[0, 2], 300);
    world.run_for_ms(1000);
    assert!(world.nodes[1].came_back().is_some(), "{:?}", world.nodes[1].absent());
    busy(&mut world, &[0, 1, 2], 30);
    world.run_for_ms(3000);
    judge(&world);
}

#[test]
fn links_between_two_members_that_fail_remove_nobody() {
    let mut world = world(10, 3, quorum());
    busy(&mut world, &[0, 1, 2], 20);
    world.passes = Box::new(|from, to, _| from.0 + to.0 != 1);
    let txns = busy(&mut world, &[0, 1, 2], 300);
    world.run_for_ms(2000);
    assert!(
        txns.iter().all(|txn| world.answers.contains_key(txn)),
        "the third member hands on what they miss"
    );
    assert_eq!(world.nodes[0].membership.known(), 0);
    world.passes = Box::new(|_, _, _| true);
    world.run_for_ms(1000);
    judge(&world);
}

#[test]
fn a_member_in_an_old_life_or_twice_is_refused_by_name() {
    let mut world = world(11, 3, quorum());
    busy(&mut world, &[0, 1, 2], 20);
    world.lose(2);
    world.lives = 6;
    world.run_for_ms(2000);
    world.revive(2);
    world.run_for_ms(4000);
    assert!(world.nodes[2].came_back().is_some());
    for incarnation in [3, 7] {
        let known = world.nodes[0].membership.known();
        let join = Message::Join { known, incarnation, is_ready: false };
        let (mut rows, mut out) = (std::mem::take(&mut world.rows[0]), Vec::new());
        let now = world.clock(NodeId(0));
        world.nodes[0].message(now, NodeId(2), join, &mut rows, &mut out);
        world.rows[0] = rows;
        let told = out.iter().any(|effect| {
            matches!(
                effect,
                crate::engine::EngineEffect::Send { message: Message::OldLife { incarnation: 7 }, .. }
            )
        });
        assert!(told, "{incarnation}");
    }
    assert_eq!(world.nodes[0].membership.known(), 2, "nobody was removed for it");
    // Of its removal a node may hear before others do.
    let join = Message::Join { known: 3, incarnation: 7, is_ready: false };
    let (mut rows, mut out) = (std::mem::take(&mut world.rows[0]), Vec::new());
    let now = world.clock(NodeId(0));
    world.nodes[0].message(now, NodeId(2), join, &mut rows, &mut out);
    world.rows[0] = rows;
    let is_told = |effect: &crate::engine::EngineEffect<Message>| {
        matches!(effect, crate::engine::EngineEffect::Send { message: Message::OldLife { .. }, .. })
    };
    assert!(!out.iter().any(is_told), "who knows more changes is not judged");
    let mut late = crate::geogauss::Geogauss::rejoining(world.topology.clone(), NodeId(2), 3, quorum());
    let (mut rows, mut out) = (crate::trial::executor::Rows::default(), Vec::new());
    late.message(world.now, NodeId(0), Message::OldLife { incarnation: 7 }, &mut rows, &mut out);
    let why = late.absent().expect("it answers nobody");
    assert!(why.message.contains("old life"), "{why:?}");
}

#[test]
fn without_a_majority_nothing_is_published_and_clients_are_told() {
    let mut world = world(12, 3, Options { lost_after_ns: 3000 * MS, ..quorum() });
    busy(&mut world, &[0, 1, 2], 20);
    world.run_for_ms(500);
    world.kill(1);
    world.kill(2);
    let waits = world.submit(0, "w0.1");
    world.run_for_ms(5000);
    let refused = world.submit(0, "w0.2");
    world.run_for_ms(10);
    assert_eq!(state_of(&world, refused), "57P03");
    assert!(!world.answers.contains_key(&waits));
    world.revive(1);
    world.revive(2);
    world.run_for_ms(6000);
    assert!(world.is_committed(waits));
    judge(&world);
}

/// A member may close so many epochs ahead of the last published one. Where fewer pass in that time than until an epoch is
/// published, epochs fall behind clocks for good, and strong reads, whose cuts clocks decide, wait longer and longer.
#[test]
fn epochs_follow_clocks_where_more_may_be_closed_than_pass_until_one_is_published() {
    let reads_after_ms = |ahead_max| {
        let pace = EpochPace { ahead_max, ..EpochPace::default() };
        let options = Options { epoch_ns: MS, pace, ..quorum() };
        let mut world = world(13, 3, options);
        busy(&mut world, &[0, 1, 2], 30);
        world.kill(2);
        world.run_for_ms(4000);
        world.revive(2);
        world.run_for_ms(4000);
        let (asked_at, rank) = (world.now, world.clock(NodeId(0)).rank());
        world.close(
            1,
            0,
            0,
            rank,
            access("r0.1").by_partition[&PartitionId(0)].iter().map(|a| a.granule.clone()).collect(),
        );
        world.run_for_ms(10_000);
        world.closed.values().next().map(|(at, closed)| (at.since(asked_at) / MS, closed.is_ok()))
    };
    assert_eq!(reads_after_ms(20), None, "20 ms of epochs, and 150 ms until one is published");
    let (took_ms, is_ok) = reads_after_ms(1000).expect("it is answered");
    assert!(is_ok && took_ms < 400, "{took_ms} ms");
}

/// Worlds of this many seeds; `MERIDIAN_SEEDS=5000` for a night.
fn seeds() -> u64 {
    std::env::var("MERIDIAN_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60)
}

fn worlds_with_loss(seeds: impl Iterator<Item = u64>) {
    for seed in seeds {
        judge(&random::run_with_loss(seed, 80, quorum(), Loss::Any));
    }
}

// A world takes a second: the even and the odd seeds are two tests, for two cores.
#[test]
fn random_worlds_with_loss_are_serializable_and_members_agree() {
    worlds_with_loss((0..seeds()).step_by(2));
}

#[test]
fn more_random_worlds_with_loss_are_serializable_and_members_agree() {
    worlds_with_loss((1..seeds()).step_by(2));
}

#[test]
fn faults_planted_in_removal_are_found() {
    for &mutant in Mutant::OF_LOSS {
        let finds = |seed| {
            let options = Options { mutant: Some(mutant), ..quorum() };
            panics(|| judge(&random::run_with_loss(seed, 60, options, Loss::Any)))
        };
        assert!((0..300).any(finds), "{mutant:?} goes unnoticed");
    }
}

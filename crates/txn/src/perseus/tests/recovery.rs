//! Coordinators die, at every step, or only seem to.

use super::judge::judge;
use super::{World, access, planted};
use crate::engine::{Engine, EngineEffect};
use crate::graph::participants::Participants;
use crate::perseus::message::{Ballot, Payload};
use crate::perseus::{Message, Mutant, Options, Perseus, Unfinished};
use base::time::MS;
use base::txn::{Submission, Transaction};
use base::{NodeId, PartitionId, Rank, TxnId};
use std::collections::BTreeSet;

const ALL: &str = "w0.1 w1.1 w2.1";

fn options(unfinished: Unfinished) -> Options {
    Options { unfinished, ..Options::default() }
}

/// Which of three participants a mask names.
fn named(mask: u32) -> BTreeSet<NodeId> {
    (0..3).filter(|n| mask >> n & 1 == 1).map(|n| NodeId(n as u16)).collect()
}

/// Nothing is blocked: a stranger gets through. Then all has to fit.
fn settle(world: &mut World) {
    let stranger = world.submit(4, access(ALL));
    world.run_for_ms(20_000);
    assert!(world.answer(stranger).outcome.is_committed());
    judge(world);
    for node in 0..3 {
        assert_eq!(world.nodes[node].stalled(world.now, 0), []);
        assert!(world.nodes[node].recoveries.len() == 0);
    }
}

fn effects_of(world: &World, submission: &Submission) -> BTreeSet<TxnId> {
    let log = world.rows.iter().flat_map(|rows| &rows.log);
    log.filter(|entry| entry.transaction.program == submission.program).map(|entry| entry.txn).collect()
}

#[test]
fn a_coordinator_that_dies_after_some_pre_accepts_leaves_one_end_and_a_retry_has_one_effect() {
    for unfinished in [Unfinished::Complete, Unfinished::Abandon] {
        for mask in 0..8 {
            let mut world = World::with_gateways(1, 2, options(unfinished));
            let reached = named(mask);
            world.passes = Box::new(move |from, to, _| from != NodeId(3) || reached.contains(&to));
            let wish = world.wish(access(ALL));
            let lost = world.hand_in(3, wish.clone());
            world.run_for_ms(1);
            world.dead.insert(NodeId(3));
            world.passes = Box::new(|_, _, _| true);
            if mask % 2 == 0 {
                world.run_for_ms(5_000);
                let effects = effects_of(&world, &wish);
                let expected = mask == 7 || mask != 0 && unfinished == Unfinished::Complete;
                assert_eq!(effects.contains(&lost), expected, "{mask:b} {unfinished:?}");
            }
            let again = world.repeat(4, &wish);
            settle(&mut world);
            assert!(world.answer(again).outcome.is_committed());
            assert_eq!(effects_of(&world, &wish), BTreeSet::from([world.answer(again).txn]), "{mask:b}");
        }
    }
}

#[test]
fn a_coordinator_that_dies_after_some_commits_has_committed() {
    for mask in 0..8 {
        let mut world = World::with_gateways(1, 2, options(Unfinished::Abandon));
        let reached = named(mask);
        world.passes = Box::new(move |from, to, message| {
            from != NodeId(3) || reached.contains(&to) || !matches!(message, Message::Commit { .. })
        });
        let wish = world.wish(access(ALL));
        let lost = world.hand_in(3, wish.clone());
        world.run_for_ms(101);
        world.dead.insert(NodeId(3));
        world.run_for_ms(5_000);
        world.passes = Box::new(|_, _, _| true);
        let again = world.repeat(4, &wish);
        settle(&mut world);
        assert_eq!(world.answer(again).txn, lost, "{mask:b}");
        assert_eq!(effects_of(&world, &wish), BTreeSet::from([lost]));
    }
}

#[test]
fn a_lost_coordinator_blocks_nobody_for_long() {
    let mut world = World::with_gateways(1, 2, Options::default());
    world.submit(3, access(ALL));
    world.run_for_ms(60);
    world.dead.insert(NodeId(3));
    let behind = world.submit(4, access("w0.1"));
    let start = world.now;
    world.run_for_ms(5_000);
    let waited_ms = world.answers[&behind].0.since(start) / MS;
    // Six round trips of 100 ms and a bit, then two more for the recovery.
    assert!(waited_ms < 1500, "{waited_ms}");
    judge(&world);
}

#[test]
fn a_coordinator_that_was_cut_off_learns_the_end_and_tells_its_client_once() {
    for unfinished in [Unfinished::Complete, Unfinished::Abandon] {
        for (after_ms, reached) in [(0, 0b001), (0, 0b011), (0, 0b111), (30, 0b111), (120, 0b111)] {
            let mut world = World::with_gateways(1, 2, options(unfinished));
            let reached = named(reached);
            world.passes = Box::new(move |from, to, _| from != NodeId(3) || reached.contains(&to));
            let wish = world.wish(access(ALL));
            let first = world.hand_in(3, wish.clone());
            world.run_for_ms(after_ms);
            world.cut_off.insert(NodeId(3));
            world.passes = Box::new(|_, _, _| true);
            world.run_for_ms(5_000);
            world.cut_off.clear();
            settle(&mut world);
            assert!(world.answer(first).outcome.is_committed());
            assert_eq!(effects_of(&world, &wish).len(), 1);
            world.run_for_ms(20_000);
            world.check_empty();
        }
    }
}

#[test]
fn impatient_participants_take_over_from_a_living_coordinator_and_from_each_other() {
    for unfinished in [Unfinished::Complete, Unfinished::Abandon] {
        for recover_after_ms in [1, 10, 40, 70, 110] {
            let options = Options {
                unfinished,
                recover_after_ns: Some(recover_after_ms * MS),
                retry_after_ns: Some(60 * MS),
                ..Options::default()
            };
            let mut world = World::with_gateways(recover_after_ms, 2, options);
            world.faults.jitter_ns = 30 * MS;
            for n in 0..20 {
                let text = ["w0.1 w1.1", "w1.1 w2.1", ALL, "w2.1 w0.1"][n % 4];
                world.submit([0, 3, 1, 4][n % 4], access(text));
                world.run_for_ms(7);
            }
            world.run_for_ms(60_000);
            judge(&world);
            world.check_empty();
        }
    }
}

#[test]
fn a_late_pre_accept_of_a_dead_coordinator_changes_nothing() {
    // Its PreAccept to node 1 is under way for a long time; meanwhile the others end the transaction.
    let mut world = World::with_gateways(1, 2, options(Unfinished::Abandon));
    world.passes =
        Box::new(|_, to, message| !(to == NodeId(1) && matches!(message, Message::PreAccept { .. })));
    let lost = world.submit(3, access(ALL));
    let payload = world.nodes[3].gateway.coordination(lost).unwrap().payload.clone();
    world.run_for_ms(1);
    world.dead.insert(NodeId(3));
    for wait_ms in [1_000, 200, 10_000] {
        world.run_for_ms(wait_ms);
        let late = Message::PreAccept {
            payload: payload.clone(),
            ballot: Ballot::FIRST,
            expected: Rank::ZERO,
            sent_at: world.now,
        };
        let mut out = Vec::new();
        let clock = world.clock(NodeId(1));
        world.nodes[1].message(clock, NodeId(3), late, &mut world.rows[1], &mut out);
        let accepted = |effect: &EngineEffect<Message>| {
            matches!(effect, EngineEffect::Send { message: Message::PreAcceptOk { .. }, .. })
        };
        assert!(!out.iter().any(accepted), "{out:?}");
        world.effects(NodeId(1), out);
    }
    world.passes = Box::new(|_, _, _| true);
    settle(&mut world);
    assert!(world.rows.iter().flat_map(|rows| &rows.log).all(|entry| entry.txn != lost));
}

#[test]
fn a_new_life_of_a_gateway_uses_new_ids_and_leaves_the_old_ones_to_others() {
    let mut world = World::with_gateways(1, 2, Options::default());
    let old = world.submit(3, access(ALL));
    world.run_for_ms(60);
    // Its memory is gone; answers to the old life still arrive.
    world.nodes[3] = Perseus::new(world.topology.clone(), NodeId(3), 2, Options::default());
    let new = world.submit(3, access(ALL));
    assert!(new.incarnation > old.incarnation && new != old);
    world.submitted.remove(&old);
    settle(&mut world);
    assert!(world.answer(new).outcome.is_committed());
    assert!(world.rows[0].log.iter().any(|entry| entry.txn == old), "the old one was recovered");
}

/// T1 is undecided at node 0 for a while. T, which writes the same key there, ends without effect meanwhile;
/// T2 comes after T.
fn behind_a_noop(mutant: Option<Mutant>) -> World {
    let mut world = World::with_gateways(1, 2, Options { mutant, ..options(Unfinished::Abandon) });
    let holds_up_t1 = |from: NodeId, to, message: &Message| {
        to == NodeId(0)
            && (from == NodeId(1) || from == NodeId(4) && matches!(message, Message::Commit { .. }))
    };
    world.passes = Box::new(move |from, to, message| !holds_up_t1(from, to, message));
    world.submit(4, access("w0.1 w1.5"));
    world.run_for_ms(110);
    world.passes = Box::new(move |from, to, message| {
        !holds_up_t1(from, to, message) && (from != NodeId(3) || to == NodeId(0))
    });
    world.submit(3, access("w0.1 w2.1"));
    world.run_for_ms(60);
    world.dead.insert(NodeId(3));
    world.submit(0, access("w0.1"));
    world.run_for_ms(5_000);
    world.passes = Box::new(|_, _, _| true);
    world.run_for_ms(20_000);
    world
}

#[test]
fn what_comes_after_a_noop_comes_after_what_the_noop_came_after() {
    judge(&behind_a_noop(None));
}

#[test]
#[should_panic]
fn a_noop_without_its_dependencies_is_noticed() {
    judge(&behind_a_noop(Some(Mutant::NoopForgetsDependencies)));
}

#[test]
#[should_panic]
fn a_participant_that_forgets_its_promise_is_noticed() {
    let mut world = World::with_gateways(1, 2, planted(Mutant::BallotNotPromised));
    for node in world.nodes.iter_mut() {
        node.cluster.options.unfinished = Unfinished::Abandon;
    }
    let transaction = Transaction {
        id: TxnId { coordinator: NodeId(3), incarnation: 1, sequence: 1 },
        program: world.wish(access(ALL)).program,
        access: access(ALL).into(),
        min_rank: Rank::ZERO,
        after: Rank::ZERO,
        homes: None,
    };
    let mut out = Vec::new();
    let payload = Payload { transaction, request: None };
    let participants = Participants::of((0..3).map(PartitionId));
    let ballot = Ballot { round: 1, node: NodeId(0) };
    let txn = payload.transaction.id;
    let messages = [
        Message::Recover { txn, participants, ballot, payload_wanted: false },
        Message::PreAccept { payload, ballot: Ballot::FIRST, expected: Rank::ZERO, sent_at: world.now },
    ];
    for message in messages {
        world.nodes[1].message(world.now, NodeId(0), message, &mut world.rows[1], &mut out);
    }
    let refused = out.iter().any(
        |effect| matches!(effect, EngineEffect::Send { message: Message::Refused { ballot: b, .. }, .. } if *b == ballot),
    );
    assert!(refused, "an older ballot is refused: {out:?}");
}

/// A gateway that takes no part ends a transaction without effect; its commits are slow, and a participant
/// loses patience before they arrive.
fn a_slow_noop(mutant: Option<Mutant>) -> World {
    let mut world = World::with_gateways(1, 2, Options { mutant, ..Options::default() });
    world.passes = Box::new(|from, to, message| {
        (from != NodeId(3) || to == NodeId(0))
            && (from != NodeId(4) || !matches!(message, Message::Commit { .. }))
    });
    let txn = world.submit(3, access(ALL));
    world.run_for_ms(60);
    world.dead.insert(NodeId(3));
    let participants = Participants::of((0..3).map(PartitionId));
    let mut out = Vec::new();
    world.nodes[4].cluster.options.unfinished = Unfinished::Abandon;
    world.nodes[4].recover(txn, participants, Ballot::FIRST, &mut out);
    world.effects(NodeId(4), out);
    world.run_for_ms(400);
    let accepted = |n: usize| {
        let engine = &world.nodes[n].graph;
        engine.live(engine.find(txn).unwrap()).extra.remote.as_ref().unwrap().accepted.clone()
    };
    let (_, decision) = accepted(1).expect("it was proposed");
    assert!(decision.noop && accepted(0) == accepted(2));
    while world.nodes[0].recoveries.ids().all(|led| *led != txn) {
        world.run_for_ms(1);
    }
    world.run_for_ms(110);
    let late = Message::Commit { txn, decision, fragments: Vec::new() };
    let mut out = Vec::new();
    world.nodes[2].message(world.now, NodeId(4), late, &mut world.rows[2], &mut out);
    world.effects(NodeId(2), out);
    world.passes = Box::new(|_, _, _| true);
    world.run_for_ms(20_000);
    world
}

#[test]
fn a_proposal_that_everybody_accepted_is_the_end_whoever_brings_it() {
    let world = a_slow_noop(None);
    judge(&world);
    assert!(world.rows.iter().all(|rows| rows.log.is_empty()));
}

#[test]
#[should_panic]
fn a_recovery_that_ignores_proposals_is_noticed() {
    judge(&a_slow_noop(Some(Mutant::IgnoreAccepted)));
}

#[test]
fn a_node_that_repeats_its_calls_is_the_same_and_goes_on_under_new_ids() {
    for seed in 0..6 {
        let options = Options { recover_after_ns: Some(150 * MS), ..Options::default() };
        let mut world = World::with_gateways(seed, 2, options.clone());
        world.faults = super::Faults { loss: 0.05, duplication: 0.1, jitter_ns: 40 * MS };
        world.recorded = Some((NodeId(0), Vec::new()));
        let started_at = world.clock(NodeId(0));
        let load = |world: &mut World| {
            for n in 0..40u16 {
                let text = ["w0.1 w1.1", "w0.1 r0.2", ALL, "w2.1 w0.2"][usize::from(n % 4)];
                world.submit([0, 3, 1, 4, 2][usize::from(n % 5)], access(text));
                world.run_for_ms(11);
            }
        };
        load(&mut world);
        let (_, calls) = world.recorded.take().unwrap();
        let mut again = Perseus::new(world.topology.clone(), NodeId(0), 1, options);
        let mut rows = crate::trial::executor::Rows::default();
        let mut out = Vec::new();
        again.start(started_at, &mut out);
        for (now, call) in calls {
            match call {
                crate::trial::world::Call::Submit(submission) => {
                    _ = again.submit(now, submission, &mut rows, &mut out)
                }
                crate::trial::world::Call::Message(from, message) => {
                    again.message(now, from, message, &mut rows, &mut out)
                }
                crate::trial::world::Call::Wake => again.wake(now, &mut rows, &mut out),
            }
        }
        assert_eq!(format!("{:?}", again), format!("{:?}", world.nodes[0]), "seed {seed}");
        world.events.retain(|_, event| !matches!(event, super::Event::Wake { node: NodeId(0), .. }));
        world.alarms[0] = crate::timers::Alarms::default();
        world.nodes[0] = again;
        world.rows[0] = rows;
        let mut out = Vec::new();
        let clock = world.clock(NodeId(0));
        world.nodes[0].resume(clock, 2, &mut out);
        world.effects(NodeId(0), out);
        assert_eq!(world.submit(0, access("w0.1")).incarnation, 2);
        load(&mut world);
        world.faults.loss = 0.0;
        world.run_for_ms(60_000);
        judge(&world);
        world.check_empty();
    }
}

//! A region is lost and nobody can lead for it: what needs it is refused, and nothing else waits.

use super::judge::judge;
use super::{Faults, World, access};
use crate::caerus::{Mutant, Options};
use crate::engine::{Engine, RegionState};
use crate::trial::panics;
use base::order::CloseTicket;
use base::rng::Rng;
use base::time::MS;
use base::topology::Topology;
use base::txn::{Granule, Outcome};
use base::wan::Wan;
use base::{NodeId, SqlError, Time, TxnId};

/// Three regions 100 ms from each other, one partition each, clocks within 1 ms.
fn world(copies_elsewhere: usize) -> World {
    planted_world(1, copies_elsewhere, None)
}
fn planted_world(seed: u64, copies_elsewhere: usize, mutant: Option<Mutant>) -> World {
    let wan = Wan::uniform("test", &["a", "b", "c"], MS, 100 * MS);
    let mut topology = Topology::one_node_per_region(wan, 1).replicated();
    topology.clock_bound_ns = MS;
    World::with(seed, topology, Options { copies_elsewhere, mutant, ..Options::default() })
}

/// Longer than it takes to give a region up for lost, with K = 0.
const LOST_MS: u64 = 1500;

fn refused(world: &World, txn: TxnId) -> &SqlError {
    match &world.answer(txn).outcome {
        Outcome::Aborted(error) => error,
        Outcome::Committed { .. } => panic!("{txn} needs the lost region"),
    }
}

fn granules(text: &str) -> Vec<Granule> {
    access(text).by_partition.into_values().flatten().map(|access| access.granule).collect()
}

/// Closes now, and says what came of it within some ms.
fn read(
    world: &mut World,
    ticket: u64,
    reader: u16,
    partition: u16,
    text: &str,
) -> Option<Result<(), SqlError>> {
    let rank = (world.clock(NodeId(reader)) + MS).rank();
    world.close(ticket, reader, partition, rank, granules(text));
    world.run_for_ms(300);
    world.closed.get(&CloseTicket(ticket)).map(|(_, result)| result.clone().map(|_| ()))
}

#[test]
fn what_needs_a_lost_region_is_refused_and_everything_else_goes_on() {
    let mut world = world(0);
    world.run_for_ms(500);
    // In flight at the loss: b is gone before its submission arrives there.
    let t = world.submit(0, "w0.1 w1.1");
    world.run_for_ms(1);
    let lost_at = world.now;
    world.kill(1);
    // Region a has appended it once it should be at b; this one comes behind it there.
    world.run_for_ms(110);
    let behind = world.submit(0, "w0.1");
    world.run_for_ms(150);
    let waiting = world.submit(0, "w0.2 w1.2");
    world.close(1, 0, 1, (world.clock(NodeId(0)) + MS).rank(), granules("r1.5"));
    world.run_for_ms(LOST_MS);
    // Within a second of suspicion (a fifth of a second after the loss) nobody waits for it any more.
    for txn in [t, behind] {
        let error = refused(&world, txn);
        assert!(error.state.as_str() == "08007" && error.message.contains("region b"), "{error:?}");
    }
    let error = refused(&world, waiting);
    assert!(error.state.as_str() == "57P03" && error.message.contains("region b"), "{error:?}");
    assert!(error.hint.as_ref().is_some_and(|hint| hint.contains("--survive 1")), "{error:?}");
    let (at, result) = &world.closed[&CloseTicket(1)];
    assert!(result.is_err() && at.since(lost_at) <= 1_500 * MS, "{at:?}");
    assert_eq!(world.nodes[0].unordered_count(), 2, "what was refused is in no sequence");

    let health = world.nodes[0].report().regions;
    let states: Vec<RegionState> = health.iter().map(|region| region.state).collect();
    assert_eq!(states, [RegionState::Up, RegionState::Lost, RegionState::Up]);
    assert_eq!((health[1].blocked_transactions, health[1].blocked_rows), (2, 2));

    // New ones are refused at once; whatever touches what is in flight, too; everything else is answered.
    for (node, text) in [(0, "w0.2 w1.2"), (2, "w1.9"), (0, "w0.1"), (2, "r0.1 w2.3")] {
        let txn = world.submit(node, text);
        world.run_for_ms(5);
        assert_eq!(refused(&world, txn).state.as_str(), "57P03", "{text}");
    }
    for n in 0..50u16 {
        let near = world.submit(0, &format!("w0.{}", 2 + n % 7));
        let far = world.submit(2, "w0.12 w2.3");
        world.run_for_ms(120);
        assert!(world.answer(near).outcome.is_committed() && world.answer(far).outcome.is_committed());
    }
    assert_eq!(read(&mut world, 2, 0, 0, "r0.2"), Some(Ok(())));
    assert_eq!(read(&mut world, 3, 2, 2, "r2.3"), Some(Ok(())));
    for (ticket, partition, text) in [(4, 0, "r0.1"), (5, 1, "r1.7")] {
        let error = read(&mut world, ticket, 0, partition, text).expect("no reader waits").unwrap_err();
        assert!(error.state.as_str() == "57P03" && error.message.contains("region b"), "{error:?}");
    }
    assert!(world.nodes[0].vertex_count() < 20, "{}", world.nodes[0].vertex_count());

    // It comes back with what it knew: what was in flight takes effect, and nobody is told twice.
    world.heal();
    world.run_for_ms(20_000);
    assert!(world.order(1, 0).contains(&t) && world.order(2, 0).contains(&behind));
    let after = world.submit(0, "w0.1 w1.1");
    world.run_for_ms(500);
    assert!(world.answer(after).outcome.is_committed());
    assert!(world.nodes[0].report().regions.iter().all(|region| region.state == RegionState::Up));
    judge(&world);
    world.check_empty();
}

#[test]
fn a_region_is_shown_as_taken_over_until_it_leads_again() {
    let mut world = world(1);
    world.run_for_ms(500);
    let states = |world: &World| -> Vec<RegionState> {
        world.nodes[0].report().regions.iter().map(|region| region.state).collect()
    };
    assert_eq!(states(&world), [RegionState::Up; 3]);
    world.kill(1);
    world.run_for_ms(10_000);
    assert_eq!(states(&world), [RegionState::Up, RegionState::TakenOver, RegionState::Up]);
    let txn = world.submit(0, "w0.1 w1.1");
    world.run_for_ms(1_000);
    assert!(world.answer(txn).outcome.is_committed(), "nothing waits for it");
    world.heal();
    world.run_for_ms(20_000);
    assert_eq!(states(&world), [RegionState::Up; 3]);
}

#[test]
fn a_short_silence_delays_and_refuses_nobody() {
    let mut world = world(0);
    world.run_for_ms(500);
    world.cut_off(1);
    world.run_for_ms(300);
    let t = world.submit(0, "w0.1 w1.1");
    world.run_for_ms(100);
    assert_eq!(world.nodes[0].unordered_count(), 0, "it blocks no rows meanwhile");
    let near = world.submit(0, "w0.1");
    world.run_for_ms(5);
    assert!(world.answer(near).outcome.is_committed());
    world.cut_off.clear();
    world.run_for_ms(400);
    assert!(world.answer(t).outcome.is_committed());
    judge(&world);
}

#[test]
fn a_gateway_takes_more_than_it_could_have_under_way() {
    let mut world = world(0);
    for node in &mut world.nodes {
        let options = node.options_mut();
        (options.admission.outstanding_max, options.admission.unordered_max) = (20, 40);
    }
    world.run_for_ms(500);
    for n in 0..60 {
        world.submit(0, &format!("w0.{n} w1.{n}"));
    }
    world.run_for_ms(1);
    world.kill(1);
    world.run_for_ms(LOST_MS);
    for n in 100..200 {
        let near = world.submit(0, &format!("w0.{n}"));
        world.run_for_ms(5);
        assert!(world.answer(near).outcome.is_committed());
    }
    world.heal();
    world.run_for_ms(30_000);
    judge(&world);
    world.check_empty();
}

#[test]
fn where_others_take_over_nobody_is_refused_and_where_too_many_are_lost_everybody_is_told() {
    let mut world = world(1);
    world.run_for_ms(500);
    world.kill(1);
    let mut all = Vec::new();
    for _ in 0..40 {
        all.push(world.submit(0, "w0.1 w1.1"));
        world.run_for_ms(100);
    }
    world.run_for_ms(3000);
    assert!(all.iter().all(|txn| world.answer(*txn).outcome.is_committed()));
    world.kill(2);
    world.run_for_ms(8000);
    let alone = world.submit(0, "w0.1");
    world.run_for_ms(10);
    let error = refused(&world, alone);
    assert!(error.hint.as_ref().is_some_and(|hint| hint.contains("K = 1")), "{error:?}");
    world.heal();
    world.run_for_ms(20_000);
    judge(&world);
    world.check_empty();
}

#[test]
fn a_pause_of_a_node_itself_is_not_held_against_others() {
    let mut world = world(0);
    world.run_for_ms(500);
    // Its process stands still for a minute: nothing arrives, no timer goes off, and then all of it at once.
    let until = world.now + 60_000 * MS;
    let events = std::mem::take(&mut world.events);
    world.events = events
        .into_iter()
        .map(|((at, n), event)| match &event {
            super::Event::Message { to, .. } if to.0 == 0 => ((Time(at.0.max(until.0)), n), event),
            super::Event::Wake { node, .. } if node.0 == 0 => ((Time(at.0.max(until.0)), n), event),
            _ => ((at, n), event),
        })
        .collect();
    world.passes = Box::new(|_, to, _| to.0 != 0);
    world.run_until(until);
    world.passes = Box::new(|_, _, _| true);
    let t = world.submit(0, "w0.1 w1.1");
    world.run_for_ms(1000);
    assert!(world.answer(t).outcome.is_committed());
    judge(&world);
}

/// Load and readers everywhere, while regions are lost or cut off one after the other and come back.
pub fn random(seed: u64, mutant: Option<Mutant>) -> World {
    let mut rng = Rng::new(seed).fork("losses");
    let mut world = planted_world(seed, 0, mutant);
    for node in &mut world.nodes {
        node.options_mut().lost_after_ns = Some(*rng.pick(&[210, 500]) * MS);
        node.options_mut().admission.outstanding_max = *rng.pick(&[3, 2000]);
        node.options_mut().admission.unordered_max = *rng.pick(&[5, 4000]);
    }
    world.faults = Faults {
        loss: *rng.pick(&[0.0, 0.05]),
        duplication: *rng.pick(&[0.0, 0.2]),
        jitter_ns: *rng.pick(&[0, 30 * MS]),
    };
    world.run_for_ms(300);
    for n in 0..240u64 {
        world.run_until(world.now + rng.below(25 * MS));
        match n % 80 {
            20 if rng.chance(0.5) => world.kill(rng.below(3) as u16),
            20 => world.cut_off(rng.below(3) as u16),
            60 => world.heal(),
            _ => {}
        }
        let node = rng.below(3) as u16;
        if world.dead.contains(&NodeId(node)) {
            continue;
        }
        let mut access = || format!("{}{}.{}", rng.pick(&["r", "w"]), rng.below(3), rng.below(4));
        let text = [access(), access()].join(" ");
        let text = if rng.chance(0.5) { format!("w{node}.{}", rng.below(4)) } else { text };
        world.submit(node, &text);
        if rng.chance(0.3) {
            let rank = (world.clock(NodeId(node)) + MS).rank();
            let (partition, key) = (rng.below(3) as u16, rng.below(4));
            world.close(n, node, partition, rank, granules(&format!("r0.{key}")));
        }
    }
    world.heal();
    world.run_for_ms(30_000);
    world
}

#[test]
fn random_losses_refuse_some_and_mislead_nobody() {
    let (mut refused, mut unknown) = (0, 0);
    for seed in 0..40 {
        let mut world = random(seed, None);
        judge(&world);
        // Of a gateway's former lives some words of bits stay.
        if world.lives == 1 {
            world.check_empty();
        }
        for (_, answer) in world.answers.values() {
            let Outcome::Aborted(error) = &answer.outcome else { continue };
            refused += u64::from(error.state.as_str() == "57P03");
            unknown += u64::from(error.state.as_str() == "08007");
        }
    }
    assert!(refused > 200 && unknown > 20, "{refused} {unknown}");
}

#[test]
fn what_is_planted_in_refusals_is_found() {
    for mutant in [Mutant::RefuseInFlight, Mutant::ReadWithoutLost] {
        let caught = (0..20).find(|seed| panics(|| judge(&random(*seed, Some(mutant)))));
        assert!(caught.is_some(), "{mutant:?}");
    }
}

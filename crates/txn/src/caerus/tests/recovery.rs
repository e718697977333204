//! Regions that are lost, or cut off and come back.

use super::judge::judge;
use super::{Faults, World, access};
use crate::baseline::{calvin, slog};
use crate::caerus::SequenceId;
use crate::caerus::message::Message;
use crate::caerus::options::{Batching, Collection, Heartbeats, Replication};
use crate::caerus::{Agreement, Mutant, Options, Routing};
use crate::engine::Engine;
use crate::trial::TABLE;
use crate::trial::panics;
use base::order::CloseTicket;
use base::rng::Rng;
use base::time::MS;
use base::topology::Topology;
use base::txn::Granule;
use base::wan::Wan;
use base::{NodeId, Token, TxnId};

/// Regions 100 ms from each other, K copies elsewhere, one partition each.
fn world(regions: usize, copies_elsewhere: usize, mutant: Option<Mutant>) -> World {
    let wan = Wan::uniform("test", &["a", "b", "c", "d", "e"][..regions], MS, 100 * MS);
    let topology = Topology::one_node_per_region(wan, 1).replicated();
    World::with(1, topology, Options { copies_elsewhere, mutant, ..Options::default() })
}

/// Long enough for any region to notice a loss and lead instead.
const TAKE_OVER_MS: u64 = 3000;

fn is_append(message: &Message) -> bool {
    matches!(message, Message::Append(append) if !append.said.entries.is_empty())
}

/// Who leads a sequence, at the node's knowledge.
fn leader(world: &World, node: u16, sequence: u16) -> NodeId {
    world.nodes[node as usize].leader_of(SequenceId(sequence))
}

#[test]
fn what_only_a_lost_region_knew_vanishes_and_was_not_answered() {
    let mut world = world(3, 1, None);
    world.submit(0, "w0.1");
    world.run_for_ms(500);
    world.passes = Box::new(|from, _, message| from != NodeId(0) || !is_append(message));
    let lost = world.submit(0, "w0.1");
    world.run_for_ms(300);
    assert!(!world.has_ended(&lost), "nobody else has it");
    world.kill(0);
    world.passes = Box::new(|_, _, _| true);
    world.run_for_ms(TAKE_OVER_MS);
    let again = world.submit(1, "w0.1");
    world.run_for_ms(500);
    assert!(world.answer(again).outcome.is_committed());
    assert!(!world.order(1, 0).contains(&lost));
    judge(&world);
    // It comes back, drops what it alone had, and its gateway's transaction is ordered after all.
    world.heal();
    world.run_for_ms(20_000);
    assert!(world.answer(lost).rank > world.answer(again).rank);
    assert_eq!(leader(&world, 2, 0), NodeId(0), "the region leads its own sequence again");
    judge(&world);
    world.check_empty();
}

#[test]
fn a_transaction_known_from_another_sequence_is_ordered_again_and_unblocks_others() {
    let lost = |mutant| {
        let mut world = world(3, 1, mutant);
        // Region 0's entry of it is in no other region.
        world.passes = Box::new(|from, _, message| from != NodeId(0) || !is_append(message));
        let t = world.submit(1, "w0.1 w1.1");
        world.run_for_ms(150);
        let behind = world.submit(2, "w1.1");
        world.run_for_ms(100);
        world.kill(0);
        world.passes = Box::new(|_, _, _| true);
        world.run_for_ms(TAKE_OVER_MS + 2000);
        judge(&world);
        (world.order(1, 1), [t, behind], world)
    };
    let (order, expected, _) = lost(None);
    assert_eq!(order, expected);
    // Its gateway lives and would submit it again; without one, only the rule is left.
    let orphan = |mutant| {
        let mut world = world(4, 1, mutant);
        world.passes = Box::new(|from, to, message| {
            (from != NodeId(0) || !is_append(message)) && (from != NodeId(3) || to != NodeId(0))
        });
        // Gateway 3 reaches region 1 alone, region 0 hears of it from there; both are lost.
        let t = world.submit(3, "w0.1 w1.1");
        world.run_for_ms(200);
        world.kill(3);
        world.kill(0);
        world.passes = Box::new(|_, _, _| true);
        world.run_for_ms(2 * TAKE_OVER_MS);
        world.order(1, 0) == [t] && world.order(2, 1) == [t]
    };
    // Two regions of four are lost, K is 1: nothing goes on, and nothing is guessed.
    assert!(!orphan(None));
    let orphan = |mutant| {
        let mut world = world(5, 2, mutant);
        world.passes = Box::new(|from, to, message| {
            (from != NodeId(0) || !is_append(message)) && (from != NodeId(4) || to != NodeId(0))
        });
        let t = world.submit(4, "w0.1 w1.1");
        world.run_for_ms(250);
        world.kill(4);
        world.kill(0);
        world.passes = Box::new(|_, _, _| true);
        world.run_for_ms(2 * TAKE_OVER_MS);
        let behind = world.submit(2, "w1.1");
        world.run_for_ms(1000);
        let ordered = world.order(1, 0) == [t] && world.order(2, 1) == [t, behind];
        if mutant.is_none() {
            judge(&world);
        }
        ordered
    };
    assert!(orphan(None));
    assert!(!orphan(Some(Mutant::NoOrphanRule)), "everything behind it waits for ever");
}

#[test]
fn with_two_lost_an_answer_needs_copies_of_all_that_is_ahead_of_it() {
    // K = 2, five regions. T0 is ahead of T in region 1's sequence, of which only region 0 has that piece. T is
    // in region 0's sequence too, which everybody has. Regions 0 and 1 are lost.
    let run = |mutant| {
        let mut world = world(5, 2, mutant);
        world.passes = Box::new(|from, to, message| {
            !(matches!(message, Message::Append(_)) && from == NodeId(1) && to.0 > 1)
        });
        let t0 = world.submit(1, "w1.1");
        world.run_for_ms(2);
        let t = world.submit(0, "w0.1 r1.1");
        world.run_for_ms(500);
        let told = world.has_ended(&t);
        world.kill(0);
        world.kill(1);
        world.passes = Box::new(|_, _, _| true);
        world.run_for_ms(2 * TAKE_OVER_MS);
        let last = world.submit(2, "w0.1 w1.1");
        world.run_for_ms(2000);
        assert!(!world.order(2, 1).contains(&t0), "nobody knows it any more");
        (told, world.has_ended(&last), panics(|| judge(&world)))
    };
    assert_eq!(run(None), (false, true, false), "three of five go on");
    // It was answered with what is lost, so it counts as ordered for good where nobody has it.
    assert_eq!(run(Some(Mutant::OwnEntriesOnly)), (true, false, true));
}

#[test]
fn a_region_that_is_cut_off_answers_nothing_that_it_could_lose() {
    let mut world = world(3, 1, None);
    world.submit(0, "w0.1");
    world.run_for_ms(500);
    world.cut_off(0);
    let inside: Vec<TxnId> = (0..3).map(|_| world.submit(0, "w0.1")).collect();
    world.run_for_ms(TAKE_OVER_MS);
    let outside = world.submit(1, "w0.1");
    world.run_for_ms(600);
    assert!(world.answer(outside).outcome.is_committed());
    assert!(inside.iter().all(|txn| !world.has_ended(txn)), "too few acknowledge");
    assert_eq!(world.nodes[0].logs.of(SequenceId(0)).merged(), 1, "and nothing is executed");
    assert!(world.nodes[0].logs.of(SequenceId(0)).end() > 1);
    world.heal();
    world.run_for_ms(20_000);
    for txn in inside {
        assert!(world.answer(txn).rank > world.answer(outside).rank);
    }
    assert_eq!(leader(&world, 1, 0), NodeId(0));
    judge(&world);
    world.check_empty();
}

#[test]
fn a_reader_that_is_cut_off_sees_nothing_stale() {
    let stale = |mutant| {
        let mut world = world(3, 1, mutant);
        world.submit(0, "w0.1");
        world.run_for_ms(500);
        world.cut_off(0);
        world.run_for_ms(100);
        world.close(1, 0, 0, world.now.rank(), vec![Granule::Partition]);
        assert!(world.closed.contains_key(&CloseTicket(1)), "others have granted that much");
        world.run_for_ms(TAKE_OVER_MS);
        let outside = world.submit(1, "w0.1");
        world.run_for_ms(1000);
        assert!(world.has_ended(&outside));
        world.close(2, 0, 0, world.now.rank(), vec![Granule::Partition]);
        let answered = world.closed.contains_key(&CloseTicket(2));
        let noticed = panics(|| {
            world.heal();
            world.run_for_ms(20_000);
            judge(&world);
        });
        (answered, noticed)
    };
    assert_eq!(stale(None), (false, false));
    let planted = stale(Some(Mutant::NoLease));
    assert_eq!(planted, (true, true));
}

#[test]
fn a_reader_waits_while_a_sequence_has_no_leader_and_misses_nothing() {
    let mut world = world(3, 1, None);
    let answered = world.submit(0, "w0.1");
    world.run_for_ms(500);
    assert!(world.has_ended(&answered));
    world.kill(0);
    world.run_for_ms(300);
    let cut = world.now.rank();
    world.close(1, 1, 0, cut, vec![Granule::Partition]);
    world.close(2, 1, 1, cut, vec![Granule::Partition]);
    world.run_for_ms(200);
    assert!(world.closed.contains_key(&CloseTicket(2)), "another sequence goes on");
    assert!(!world.closed.contains_key(&CloseTicket(1)), "nobody guesses");
    world.run_for_ms(TAKE_OVER_MS);
    assert!(world.closed.contains_key(&CloseTicket(1)), "the next leader tells its closed timestamp");
    let closed = |world: &World| world.nodes[1].logs.of(SequenceId(0)).closed();
    let before = closed(&world);
    assert!(before >= cut);
    world.heal();
    world.run_for_ms(20_000);
    assert!(
        leader(&world, 1, 0) == NodeId(0) && closed(&world) > before,
        "from leader to leader it only grows"
    );
    judge(&world);
}

/// A quiet sequence once had no leader for ever: its followers had all entries and had granted more than the next leader
/// asked for, so that they had nothing to acknowledge, and it never heard that they follow it.
#[test]
fn a_quiet_sequence_is_taken_over_from_a_leader_whose_clock_was_far_ahead() {
    let mut world = world(3, 1, None);
    // What it had granted lies above all that the next leader will ask for in this minute.
    world.skews[0] = 60_000 * MS as i64;
    // And nothing is collected that it might ask to tell.
    world.passes =
        Box::new(|_, _, message| !matches!(message, Message::Progress { .. } | Message::Watermark { .. }));
    world.run_for_ms(1000);
    world.kill(0);
    world.run_for_ms(2 * TAKE_OVER_MS);
    let next = leader(&world, 1, 0);
    assert_ne!(next, NodeId(0));
    assert!(
        world.nodes[usize::from(next.0)].logs.is_open(SequenceId(0)),
        "K others follow, and have all there is"
    );
}

#[test]
fn two_recoveries_in_a_row() {
    let mut world = world(5, 2, None);
    let first = world.submit(0, "w0.1");
    world.run_for_ms(500);
    world.kill(0);
    world.run_for_ms(TAKE_OVER_MS);
    let second = world.submit(3, "w0.1");
    world.run_for_ms(1000);
    assert!(world.has_ended(&second));
    let next = leader(&world, 3, 0);
    assert_ne!(next, NodeId(0));
    world.kill(world.topology.region_of(next).0);
    world.run_for_ms(2 * TAKE_OVER_MS);
    let third = world.submit(4, "w0.1");
    world.run_for_ms(1000);
    assert_eq!(world.order(4, 0), [first, second, third]);
    judge(&world);
    // A third loss is one too many: everything waits, until somebody is back.
    world.kill(if next == NodeId(3) { 2 } else { 3 });
    let fourth = world.submit(4, "w0.1 w4.1");
    world.run_for_ms(2 * TAKE_OVER_MS);
    assert!(!world.has_ended(&fourth));
    world.heal();
    world.run_for_ms(30_000);
    judge(&world);
    world.check_empty();
}

#[test]
fn one_broken_link_ends_no_term() {
    let mut world = world(3, 1, None);
    world.passes = Box::new(|from, to, _| from != NodeId(0) || to != NodeId(1));
    world.run_for_ms(2 * TAKE_OVER_MS);
    assert!((0..3).all(|n| leader(&world, n, 0) == NodeId(0)), "region 2 hears its leader");
    world.passes = Box::new(|_, _, _| true);
    world.submit(1, "w0.1 w1.1 w2.1");
    world.run_for_ms(2000);
    judge(&world);
}

/// The same few transactions, and a region that is lost after so many events; whether there were as many.
pub fn lose_after(routing: Routing, events: usize, region: u16, heals: bool) -> bool {
    let mut world = match routing {
        Routing::Direct => world(3, 1, None),
        slog::ROUTING | calvin::ROUTING => {
            let wan = Wan::uniform("test", &["a", "b", "c"], MS, 100 * MS);
            let topology = Topology::one_node_per_region(wan, 1).replicated();
            World::with(1, topology, Options { routing, ..Options::default() })
        }
    };
    world.submit(0, "w0.1 w1.1 w2.1");
    world.submit(1, "r0.1 w1.1");
    world.submit(2, "w2.1");
    // Heartbeats and their timers are most of all events; those that change nothing are passed over.
    let mut n = 0;
    let end = world.now + 400 * MS;
    while n < events {
        let next = world.events.first_key_value().map(|((at, _), event)| (*at, counts(event)));
        let Some((at, counted)) = next else { break };
        if at > end {
            return false;
        }
        n += usize::from(counted);
        world.step(end);
    }
    world.kill(region);
    world.run_for_ms(2 * TAKE_OVER_MS);
    let last = world.submit((region + 1) % 3, "w0.1 w1.1 w2.1");
    world.run_for_ms(1500);
    assert!(world.has_ended(&last), "region {region} after {events} events");
    judge(&world);
    if heals {
        world.heal();
        world.run_for_ms(20_000);
        judge(&world);
        world.check_empty();
    }
    true
}

/// Whether the loss of a region right after it might be told from the loss before.
pub fn counts(event: &super::Event) -> bool {
    let super::Event::Message { message, .. } = event else { return false };
    match message {
        Message::Append(append) => !append.said.entries.is_empty(),
        Message::Progress { .. } | Message::Watermark { .. } => false,
        _ => true,
    }
}

#[test]
fn a_region_may_be_lost_at_every_message() {
    for region in 0..3 {
        let mut events = 0;
        while lose_after(Routing::Direct, events, region, events % 4 == 0) {
            events += 1;
        }
        assert!(events > 20, "{events}");
    }
}

/// A world in which regions are lost or cut off and come back, the last for good perhaps.
pub fn turmoil(seed: u64, routing: Routing, mutant: Option<Mutant>) -> World {
    turmoil_in(seed, routing, mutant, false)
}

/// The same; perhaps clocks have no bound.
pub fn turmoil_in(seed: u64, routing: Routing, mutant: Option<Mutant>, unbounded_clocks: bool) -> World {
    let mut draw = Rng::new(seed).fork("turmoil");
    let (regions, copies_elsewhere) = *draw.pick(&[(3, 1), (3, 1), (4, 1), (5, 2)]);
    let wan = Wan::uniform("test", &["a", "b", "c", "d", "e"][..regions], MS, 20 * MS);
    let mut topology = Topology::one_node_per_region(wan, 1 + draw.below(2) as u16);
    topology.clock_bound_ns = *draw.pick(&[0, MS, 5 * MS]);
    if unbounded_clocks {
        (topology.clock_bound_ns, topology.unbounded_clocks) = (0, true);
    }
    let partitions = topology.partitions.len() as u64;
    let may_stay_lost = routing != slog::ROUTING;
    let options = Options {
        routing,
        copies_elsewhere: if routing == Routing::Direct { copies_elsewhere } else { 0 },
        batching: Batching { interval_ns: *draw.pick(&[0, 2 * MS]), ..Batching::default() },
        heartbeats: Heartbeats {
            every_ns: 5 * MS,
            idle_every_ns: mutant.is_none().then(|| 5 * MS << Rng::new(seed).fork("rest").below(4)),
        },
        replication: Replication {
            suspect_after_ns: Some(*draw.pick(&[100 * MS, 200 * MS])),
            lease_ns: draw.pick(&[None, Some(50 * MS), Some(400 * MS)]).to_owned(),
            agreement: if seed % 2 == 0 { Agreement::StandingLeader } else { Agreement::PaxosPerEntry },
            ..Replication::default()
        },
        // Regions are lost for longer, and shorter.
        collection: Collection { silence_ns: 300 * MS, ..Collection::default() },
        append_delay_percent: seed % 3 * 100,
        mutant,
        ..Options::default()
    };
    let mut world = World::with(seed, topology.replicated(), options);
    world.faults = Faults {
        loss: *draw.pick(&[0.0, 0.02]),
        duplication: *draw.pick(&[0.0, 0.1]),
        jitter_ns: *draw.pick(&[0, 5 * MS, 30 * MS]),
    };
    let mut moves = Rng::new(seed).fork("moves");
    let often = *moves.pick(&[0.0, 0.1]);
    let mut ticket = 0;
    for round in 0..4u64 {
        for _ in 0..25 {
            world.run_until(world.now + draw.below(20 * MS));
            let alive = |n: &u64| !world.dead.contains(&NodeId(*n as u16));
            let nodes: Vec<u64> = (0..regions as u64).filter(alive).collect();
            let node = *draw.pick(&nodes) as u16;
            let count = 1 + draw.below(2);
            let mut words: Vec<String> = Vec::new();
            for _ in 0..count {
                let mode = if draw.chance(0.7) { "w" } else { "r" };
                words.push(format!("{mode}{}.{}", draw.below(partitions), draw.below(3)));
            }
            let name = if draw.chance(0.2) { "maybe" } else { "update" };
            world.submit_as(node, name, access(&words.join(" ")), Token::default());
            if routing != calvin::ROUTING && moves.chance(often) {
                let to = moves.below(regions as u64) as u16;
                let partition = moves.below(partitions) as u16;
                match moves.below(3) {
                    0 => _ = world.move_home(node, partition, to),
                    1 => _ = world.move_table(node, TABLE, &[partition], to),
                    _ => _ = world.move_table(node, TABLE, &(0..partitions as u16).collect::<Vec<_>>(), to),
                }
            }
            if draw.chance(0.4) {
                let reader = *draw.pick(&nodes) as u16;
                let rank = (world.clock(NodeId(reader)) + world.topology.clock_bound_ns).rank();
                let partition = draw.below(partitions) as u16;
                ticket += 1;
                match unbounded_clocks {
                    true => world.find(ticket, reader, partition, vec![Granule::Partition]),
                    false => world.close(ticket, reader, partition, rank, vec![Granule::Partition]),
                }
            }
        }
        match round {
            0 | 2 => {
                let count = 1 + draw.below(copies_elsewhere as u64);
                for _ in 0..count {
                    let region = draw.below(regions as u64) as u16;
                    if draw.chance(0.5) { world.kill(region) } else { world.cut_off(region) }
                }
            }
            1 => world.heal(),
            _ => {}
        }
        if draw.chance(0.5) {
            world.run_for_ms(draw.below(600));
        }
    }
    world.faults.loss = 0.0;
    world.cut_off.clear();
    if draw.chance(0.7) || !may_stay_lost {
        world.heal();
    }
    world.run_for_ms(20_000);
    world
}

#[test]
fn random_worlds_lose_regions_and_nothing_that_was_answered() {
    for seed in 0..120 {
        let world = turmoil(seed, Routing::Direct, None);
        judge(&world);
    }
}

#[test]
fn random_worlds_catch_what_is_planted_in_recovery() {
    let caught =
        |mutant| (0..150).any(|seed| panics(|| judge(&turmoil(seed, Routing::Direct, Some(mutant)))));
    let all = [
        Mutant::ForgetPromises,
        Mutant::LeadAlone,
        Mutant::KeepOwnLog,
        Mutant::OwnEntriesOnly,
        Mutant::NoLease,
    ];
    let unnoticed: Vec<Mutant> = all.into_iter().filter(|mutant| !caught(*mutant)).collect();
    assert!(unnoticed.is_empty(), "{unnoticed:?} go unnoticed");
}

#[test]
fn a_node_that_is_about_to_end_hands_its_sequence_over_at_once_and_refuses_nobody() {
    for regions in [3, 5] {
        let mut world = world(regions, regions / 2, None);
        world.run_for_ms(500);
        world.hand_over(0);
        let began = world.now;
        let mut asked = Vec::new();
        // A round trip of 100 ms each for `Resigns`, the agreement, the promises and the first append.
        while world.nodes[0].leads() > 0 {
            assert!(world.now.since(began) < 500 * MS, "a leader that is lost is missed only after 800 ms");
            asked.push(world.submit(1, "w0.1"));
            world.run_for_ms(20);
        }
        world.run_for_ms(1000);
        assert!(asked.iter().all(|txn| world.answer(*txn).outcome.is_committed()));
        // It stays what it was until it is gone, and is not missed then.
        world.run_for_ms(5000);
        assert_ne!(leader(&world, 1, 0), NodeId(0), "it does not lead again");
        world.kill(0);
        let next = world.submit(1, "w0.1 w1.1");
        world.run_for_ms(400);
        assert!(world.answer(next).outcome.is_committed(), "nobody waits for who is gone");
        world.heal();
        world.run_for_ms(5000);
        judge(&world);
    }
}

#[test]
fn a_word_that_a_leader_resigns_counts_in_its_term_and_of_itself_only() {
    let mut world = world(3, 1, None);
    world.run_for_ms(500);
    let message = |term| Message::Resigns { sequence: SequenceId(0), term };
    for node in [1, 2] {
        // Of a node that does not lead in that term, and of a term that belongs to another one.
        world.send(NodeId(3 - node), NodeId(node), message(0));
        world.send(NodeId(0), NodeId(node), message(1));
    }
    world.run_for_ms(5000);
    assert_eq!(leader(&world, 1, 0), NodeId(0));
}

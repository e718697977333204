//! Regions that lose their memory and come back with another one's.

use super::judge::judge;
use super::{Event, World, access};
use crate::caerus::message::{CopyId, Message};
use crate::caerus::options::{Batching, Collection, Heartbeats, Replication};
use crate::caerus::{Mutant, Options};
use crate::caerus::{SequenceId, comes_back};
use crate::donor::{PIECE, WINDOW};
use crate::engine::{Engine, EngineEffect};
use crate::trial::panics;
use base::order::CloseTicket;
use base::rng::Rng;
use base::time::MS;
use base::topology::{NodeSpec, PartitionSpec, Topology};
use base::txn::{Granule, Outcome};
use base::wan::Wan;
use base::{NodeId, RegionId, SqlError, Token};
use std::cell::RefCell;
use std::rc::Rc;

fn world(regions: usize, copies_elsewhere: usize, mutant: Option<Mutant>) -> World {
    let wan = Wan::uniform("test", &["a", "b", "c", "d", "e"][..regions], MS, 100 * MS);
    let topology = Topology::one_node_per_region(wan, 1).replicated();
    let heartbeats = Heartbeats { every_ns: 10 * MS, ..Heartbeats::default() };
    let options = Options { copies_elsewhere, heartbeats, mutant, ..Options::default() };
    World::with(1, topology, options)
}

const TAKE_OVER_MS: u64 = 3000;

fn is_append(message: &Message) -> bool {
    matches!(message, Message::Append(append) if !append.said.entries.is_empty())
}

fn is_whole(world: &World, node: u16) -> bool {
    world.nodes[usize::from(node)].life.is_running()
}

/// A region loses its memory and begins again at once.
fn forgets(world: &mut World, region: u16) {
    world.lose(region);
    world.run_for_ms(100);
    world.heal();
}

#[test]
fn a_region_that_lost_its_memory_comes_back_with_all_that_was_answered_and_leads_again() {
    for regions in [3, 5] {
        let mut world = world(regions, regions / 2, None);
        let all: String = (0..regions).map(|n| format!("w{n}.1 ")).collect();
        let before: Vec<_> = (0..regions as u16).map(|n| world.submit(n, &all)).collect();
        world.run_for_ms(700);
        assert!(before.iter().all(|txn| world.has_ended(txn)));
        world.lose(0);
        world.run_for_ms(TAKE_OVER_MS);
        let meanwhile = world.submit(1, "w0.1 w1.1");
        world.run_for_ms(1000);
        assert!(world.has_ended(&meanwhile));
        world.heal();
        assert!(!is_whole(&world, 0));
        let early = world.submit(0, "w0.1");
        world.close(1, 0, 0, world.now.rank(), vec![Granule::Partition]);
        world.run_for_ms(1);
        let Outcome::Aborted(error) = &world.answer(early).outcome else { panic!("it knows nothing") };
        assert_eq!(error.state, base::SqlState::CANNOT_CONNECT_NOW);
        assert!(error.hint.is_some() && world.closed[&CloseTicket(1)].1.is_err());
        world.run_for_ms(20_000);
        assert!(is_whole(&world, 0));
        let (took_ns, bytes) = world.nodes[0].came_back().unwrap();
        println!("{regions} regions: whole again after {} ms with {bytes} bytes", took_ns / MS);
        assert!(took_ns <= 600 * MS, "a copy and an answer: {took_ns}");
        for node in 0..regions as u16 {
            assert_eq!(world.nodes[usize::from(node)].leader_of(SequenceId(0)), NodeId(0));
        }
        let after = world.submit(0, &all);
        world.run_for_ms(1000);
        assert!(world.answer(after).outcome.is_committed());
        judge(&world);
        world.run_for_ms(20_000);
        world.check_empty();
    }
}

#[test]
fn a_region_that_is_back_at_once_comes_back_all_the_same() {
    let mut world = world(3, 1, None);
    let first = world.submit(0, "w0.1 w1.1");
    world.run_for_ms(500);
    let lost = world.submit(0, "w0.1");
    world.run_for_ms(1);
    world.lose(0);
    world.heal();
    world.run_for_ms(20_000);
    assert!(is_whole(&world, 0) && !world.has_ended(&lost));
    let last = world.submit(0, "w0.1");
    world.run_for_ms(500);
    let order = world.order(1, 0);
    assert_eq!((order.first(), order.last()), (Some(&first), Some(&last)));
    judge(&world);
}

#[test]
fn what_is_kept_for_a_region_that_is_away_is_bounded_and_it_comes_back_with_a_copy() {
    let mut world = world(3, 1, None);
    for node in &mut world.nodes {
        node.logs.keep_at_most(200);
    }
    world.run_for_ms(500);
    world.cut_off(0);
    for n in 0..2000u32 {
        world.submit(1, &format!("w1.{}", n % 7));
        world.run_for_ms(5);
    }
    // It is silent three times, longer each time, before it is given up: some hundred entries more.
    for node in [1, 2] {
        let (kept, _) = world.nodes[node].logs.of(SequenceId(1)).kept_count();
        assert!(kept < 600, "{kept} entries are kept in the log of node {node}");
        assert!(world.nodes[node].logs.iter().all(|log| log.kept_count().1 < 600));
    }
    world.heal();
    world.run_for_ms(2000);
    let refused = world.submit(0, "w0.1");
    world.run_for_ms(10);
    let Outcome::Aborted(error) = &world.answer(refused).outcome else { panic!("it cannot catch up") };
    assert_eq!(error.state, base::SqlState::CANNOT_CONNECT_NOW);
    assert!(error.message.contains("away for too long"), "{error}");
    forgets(&mut world, 0);
    world.run_for_ms(20_000);
    assert!(is_whole(&world, 0));
    let after = world.submit(0, "w0.1 w1.1");
    world.run_for_ms(1000);
    assert!(world.answer(after).outcome.is_committed() && world.order(0, 1).contains(&after));
    judge(&world);
}

#[test]
fn without_copies_elsewhere_there_is_no_way_back_and_it_says_so() {
    let mut world = world(3, 0, None);
    world.submit(0, "w0.1");
    world.run_for_ms(500);
    world.lose(0);
    world.heal();
    world.run_for_ms(5000);
    assert!(!is_whole(&world, 0));
    let refused = world.submit(0, "w0.1");
    world.run_for_ms(1);
    let Outcome::Aborted(error) = &world.answer(refused).outcome else { panic!("it knows nothing") };
    assert!(error.message.contains("for good") && error.detail.as_ref().unwrap().contains("K = 0"));
    // What needs it is refused; the others go on with what does not.
    let needs = world.submit(1, "w0.1 w1.1");
    let goes_on = world.submit(1, "w2.1");
    world.run_for_ms(5000);
    assert!(!world.has_ended(&needs) && world.has_ended(&goes_on));
}

#[test]
fn a_node_that_orders_nothing_takes_a_later_copy_if_what_it_lacks_is_gone() {
    // Two nodes in each of three regions, K = 1; 1, 3 and 5 have the same copies, and order nothing.
    let wan = Wan::uniform("test", &["a", "b", "c"], MS, 100 * MS);
    let (mut nodes, mut partitions) = (Vec::new(), Vec::new());
    for n in 0..6 {
        let (region, node, copies) = (RegionId(n / 2), NodeId(n), Vec::new());
        nodes.push(NodeSpec { region, subscribes: Vec::new() });
        partitions.push(PartitionSpec { region, node, copies });
    }
    let topology = Topology::of(wan, nodes, partitions);
    let heartbeats = Heartbeats { every_ns: 10 * MS, ..Heartbeats::default() };
    let options = Options { copies_elsewhere: 1, heartbeats, ..Options::default() };
    let mut world = World::with(1, topology.replicated(), options);
    let (lost, donor, leader) = (NodeId(1), NodeId(3), NodeId(4));
    world.submit(4, "w5.1");
    world.run_for_ms(500);
    // The donor lacks what the lost node had, until its copy is written down.
    world.passes = Box::new(move |from, to, message| (from, to) != (leader, donor) || !is_append(message));
    let behind = world.submit(4, "w5.1");
    world.run_for_ms(500);
    assert!(world.order(1, 5).contains(&behind) && !world.order(3, 5).contains(&behind));
    world.dead.insert(lost);
    world.forgetful.insert(lost);
    world.run_for_ms(100);
    world.heal();
    world.run_for_ms(50);
    assert!(!is_whole(&world, 1));
    world.passes = Box::new(|_, _, message| !matches!(message, Message::CopyPart { .. }));
    world.run_for_ms(1000);
    assert!(world.order(3, 5).contains(&behind));
    world.passes = Box::new(|_, _, _| true);
    world.run_for_ms(20_000);
    assert!(is_whole(&world, 1));
    let after = world.submit(4, "w5.1");
    world.run_for_ms(1000);
    assert!(world.order(1, 5).contains(&after), "nothing lacks between its copy and what follows");
    judge(&world);
}

/// Five regions that were used, and the last of them is lost with its memory.
fn five_without_the_last() -> World {
    let mut world = world(5, 2, None);
    for n in 0..40u16 {
        world.submit(n % 5, &format!("w{}.{} w{}.1", n % 5, n % 7, (n + 1) % 5));
        world.run_for_ms(30);
    }
    world.run_for_ms(1000);
    world.lose(4);
    world.run_for_ms(TAKE_OVER_MS);
    world
}

#[test]
fn a_donor_that_falls_silent_is_replaced_and_lost_blocks_are_asked_for() {
    let mut world = five_without_the_last();
    // The nearest donor sends a few blocks, then nothing.
    world.passes = Box::new(|from, _, message| match message {
        Message::CopyPart { number, .. } => from != NodeId(0) || *number < 2,
        _ => true,
    });
    world.heal();
    world.run_for_ms(20_000);
    assert!(is_whole(&world, 4));
    world.faults.loss = 0.2;
    world.passes = Box::new(|_, _, _| true);
    world.lose(3);
    world.run_for_ms(TAKE_OVER_MS);
    world.heal();
    world.run_for_ms(10_000);
    world.faults.loss = 0.0;
    world.run_for_ms(20_000);
    assert!(is_whole(&world, 3));
    judge(&world);
}

#[test]
fn a_donor_makes_a_piece_of_a_copy_in_a_step_and_all_that_was_asked_for_in_several() {
    let mut world = five_without_the_last();
    let (donor, taker, now) = (0, NodeId(4), world.clock(NodeId(0)));
    let wanted = |from| Message::CopyWanted { copy: CopyId { life: 9, number: 1 }, from };
    let given = |out: &[EngineEffect<Message>]| {
        let numbers = out.iter().filter_map(|effect| match effect {
            EngineEffect::Send { to, message: Message::CopyPart { number, .. } } if *to == taker => {
                Some(*number)
            }
            _ => None,
        });
        numbers.collect::<Vec<u32>>()
    };
    let mut blocks = Vec::new();
    let mut out = Vec::new();
    world.nodes[donor].message(now, taker, wanted(0), &mut world.rows[donor], &mut out);
    loop {
        assert!(given(&out).len() as u32 <= PIECE, "{:?} in one step", given(&out));
        blocks.extend(given(&out));
        out.clear();
        if !world.nodes[donor].goes_on() {
            break;
        }
        world.nodes[donor].wake(now, &mut world.rows[donor], &mut out);
    }
    assert_eq!(blocks, (0..blocks.len() as u32).collect::<Vec<_>>());
    assert!(blocks.len() as u32 > 2 * PIECE && blocks.len() as u32 <= WINDOW, "{} blocks", blocks.len());
}

/// A change of the catalog ends a copy that is half there; silence of a donor is borne for longer than this.
#[test]
fn a_copy_that_cannot_be_finished_is_begun_again_at_once() {
    let mut world = five_without_the_last();
    world.passes = Box::new(|_, _, message| match message {
        Message::CopyPart { number, .. } => *number < 1,
        _ => true,
    });
    world.heal();
    world.run_for_ms(600);
    assert!(!is_whole(&world, 4));
    for node in 0..4 {
        world.nodes[node].life.donor = Default::default();
    }
    world.passes = Box::new(|_, _, _| true);
    // Until it asks again for what has not come, and three round trips.
    let widest_ms = world.nodes[0].cluster.topology.wan.widest_ns() / MS;
    world.run_for_ms(4 * widest_ms + 20 + 4 * widest_ms);
    assert!(is_whole(&world, 4));
    judge(&world);
}

type Held = Rc<RefCell<Vec<(NodeId, Message)>>>;

/// Region 2 has lost its memory and comes back; whatever of this kind is said to it stays on its way.
fn holding(kind: fn(&Message) -> bool) -> (World, Held) {
    let mut world = world(3, 1, None);
    world.submit(0, "w0.1 w1.1 w2.1");
    world.run_for_ms(500);
    let held = Held::default();
    let on_its_way = held.clone();
    world.passes = Box::new(move |from, to, message| {
        let is_held = to == NodeId(2) && kind(message);
        if is_held {
            on_its_way.borrow_mut().push((from, message.clone()));
        }
        !is_held
    });
    forgets(&mut world, 2);
    world.run_for_ms(600);
    assert!(!is_whole(&world, 2) && !held.borrow().is_empty());
    (world, held)
}

fn arrives_late(world: &mut World, held: &[(NodeId, Message)]) {
    for (from, message) in held {
        let (to, from, message) = (NodeId(2), *from, message.clone());
        world.schedule(world.now, Event::Message { to, from, message });
    }
}

#[test]
fn blocks_that_a_former_life_asked_for_are_not_mixed_with_a_later_copy() {
    let (mut world, held) = holding(|message| matches!(message, Message::CopyPart { .. }));
    let former = held.borrow().clone();
    let meanwhile = world.submit(0, "w0.2 w1.2 w2.2");
    world.run_for_ms(1000);
    assert!(world.has_ended(&meanwhile));
    forgets(&mut world, 2);
    world.run_for_ms(10);
    // Rows as they were before, and then the merger's state as it is now.
    let is_rows = |message: &Message| matches!(message, Message::CopyPart { number, .. } if *number > 0);
    let rows: Vec<_> = former.into_iter().filter(|(_, message)| is_rows(message)).collect();
    arrives_late(&mut world, &rows);
    world.passes = Box::new(|_, _, _| true);
    world.run_for_ms(20_000);
    assert!(is_whole(&world, 2));
    for partition in 0..3 {
        assert_eq!(world.order(2, partition), world.order(0, partition));
    }
    judge(&world);
}

#[test]
fn blocks_of_two_lives_of_a_donor_are_not_mixed() {
    let mut world = world(5, 2, None);
    let all = "w0.1 w1.1 w2.1 w3.1 w4.1";
    world.submit(0, all);
    world.run_for_ms(1000);
    world.lose(4);
    world.run_for_ms(100);
    // Its donor's first block is lost again and again, while the others arrive.
    world.passes = Box::new(|_, to, message| match message {
        Message::CopyPart { number, .. } => to != NodeId(4) || *number > 0,
        _ => true,
    });
    world.heal();
    world.run_for_ms(300);
    let meanwhile = world.submit(1, "w0.1 w1.1");
    world.run_for_ms(500);
    assert!(world.has_ended(&meanwhile));
    world.passes = Box::new(|_, to, message| to != NodeId(4) || !matches!(message, Message::CopyPart { .. }));
    world.lose(0);
    world.heal();
    world.run_for_ms(700);
    assert!(is_whole(&world, 0) && !is_whole(&world, 4));
    world.passes = Box::new(|_, _, _| true);
    world.run_for_ms(20_000);
    assert!(is_whole(&world, 4));
    for partition in 0..5 {
        assert_eq!(world.order(4, partition), world.order(1, partition), "partition {partition}");
    }
    judge(&world);
}

#[test]
fn the_word_that_a_former_life_asked_for_does_not_make_a_region_whole() {
    let (mut world, held) = holding(|message| matches!(message, Message::Rejoined { .. }));
    let former = held.borrow().clone();
    forgets(&mut world, 2);
    world.run_for_ms(600);
    arrives_late(&mut world, &former);
    world.run_for_ms(1);
    assert!(!is_whole(&world, 2), "others may have promised since");
    world.passes = Box::new(|_, _, _| true);
    world.run_for_ms(20_000);
    assert!(is_whole(&world, 2));
    judge(&world);
}

/// Region 2 has lost its memory and waits for the word of region 1, while region 0 goes on. Then region 0 is lost for
/// good; whether everything that it answered is still there.
fn loses_nothing_while_waiting(mutant: Option<Mutant>) -> bool {
    let mut world = world(3, 1, mutant);
    world.submit(0, "w0.1");
    world.run_for_ms(500);
    world.lose(2);
    world.run_for_ms(100);
    // Region 1 hears nothing of what region 0 orders, and its word is late.
    world.passes = Box::new(|from, to, message| match message {
        Message::Append(append) => from != NodeId(0) || to != NodeId(1) || append.said.entries.is_empty(),
        Message::Rejoined { .. } => from != NodeId(1),
        _ => true,
    });
    world.heal();
    world.run_for_ms(600);
    // What region 0 has said is not asked for again.
    world.passes = Box::new(|from, to, message| match message {
        Message::Append(append) => from != NodeId(0) || to != NodeId(1) || append.said.entries.is_empty(),
        Message::Rejoined { .. } => false,
        _ => true,
    });
    let last = world.submit(0, "w0.1");
    world.run_for_ms(600);
    let was_told = world.has_ended(&last);
    world.passes = Box::new(|from, to, message| match message {
        Message::Append(append) => from != NodeId(0) || append.said.entries.is_empty(),
        Message::Rejoined { .. } => from != NodeId(0),
        _ => from != NodeId(0) || to != NodeId(1),
    });
    world.run_for_ms(600);
    world.kill(0);
    world.passes = Box::new(|_, _, _| true);
    world.run_for_ms(2 * TAKE_OVER_MS);
    !was_told || world.order(1, 0).contains(&last) && !panics(|| judge(&world))
}

#[test]
fn a_region_that_is_not_whole_counts_for_no_copy() {
    assert!(loses_nothing_while_waiting(None));
    assert!(!loses_nothing_while_waiting(Some(Mutant::AckBeforeWhole)));
}

/// Region 0 answers with the copy in region 2, which loses its memory; region 1, cut off from region 0, stands for
/// its sequence. Whether everything that was answered is still there.
fn loses_nothing_by_a_vote(mutant: Option<Mutant>) -> bool {
    let mut world = world(3, 1, mutant);
    world.submit(0, "w0.1");
    world.run_for_ms(500);
    world.passes = Box::new(|from, to, _| from.0 + to.0 != 1);
    let last = world.submit(0, "w0.1");
    world.run_for_ms(300);
    assert!(world.has_ended(&last), "two regions have it");
    world.lose(2);
    world.heal();
    world.passes = Box::new(|from, to, _| from != NodeId(0) && to != NodeId(0));
    world.run_for_ms(2 * TAKE_OVER_MS);
    let next = world.submit(1, "w0.1");
    world.run_for_ms(2 * TAKE_OVER_MS);
    let is_led = world.nodes[1].leader_of(SequenceId(0)) != NodeId(0);
    let is_kept = world.order(1, 0).contains(&last);
    let is_answered = world.has_ended(&next);
    assert!(is_led || !is_answered);
    world.passes = Box::new(|_, _, _| true);
    !panics(|| {
        world.run_for_ms(20_000);
        judge(&world);
    }) && (is_kept || !is_led)
}

#[test]
fn a_region_that_is_not_whole_votes_for_nobody() {
    assert!(loses_nothing_by_a_vote(None));
    assert!(!loses_nothing_by_a_vote(Some(Mutant::VoteBeforeWhole)));
}

/// An entry of region 4's sequence is in region 1 alone, which acknowledges it, loses its memory and comes back by what the
/// others know, while region 4 is out of reach for less than an election takes. Whether all regions execute the entry.
fn sends_again_what_a_former_life_had(mutant: Option<Mutant>) -> bool {
    let mut world = world(5, 2, mutant);
    world.submit(4, "w4.1");
    world.run_for_ms(700);
    let is_of_leader = |from: NodeId, to: NodeId| [from, to].contains(&NodeId(4));
    world.passes = Box::new(move |from, to, _| !is_of_leader(from, to) || [from, to].contains(&NodeId(1)));
    let last = world.submit(4, "w4.1");
    world.run_for_ms(120);
    assert!(!world.has_ended(&last), "one other region is too few");
    world.passes = Box::new(move |from, to, _| !is_of_leader(from, to));
    world.lose(1);
    world.run_for_ms(10);
    world.heal();
    world.run_for_ms(600);
    assert!(is_whole(&world, 1));
    world.passes = Box::new(|_, _, _| true);
    world.run_for_ms(20_000);
    assert_eq!(world.nodes[1].leader_of(SequenceId(4)), NodeId(4));
    (0..5).all(|node| world.order(node, 4).contains(&last)) && !panics(|| judge(&world))
}

#[test]
fn what_a_former_life_of_a_region_had_is_sent_to_it_again() {
    assert!(sends_again_what_a_former_life_had(None));
    assert!(!sends_again_what_a_former_life_had(Some(Mutant::CountFormerLives)));
}

/// The same few transactions, and a region that is lost with its memory after so many events and comes back when
/// others have taken over, or at once; whether there were as many events.
fn lose_after(copies_elsewhere: usize, events: usize, region: u16, at_once: bool) -> bool {
    let regions = 2 * copies_elsewhere + 1;
    let mut world = world(regions, copies_elsewhere, None);
    world.submit(0, "w0.1 w1.1 w2.1");
    world.submit(1, "r0.1 w1.1");
    world.submit(2, "w2.1");
    let mut n = 0;
    let end = world.now + 400 * MS;
    while n < events {
        let next = world.events.first_key_value();
        let Some((at, counted)) = next.map(|((at, _), event)| (*at, super::recovery::counts(event))) else {
            break;
        };
        if at > end {
            return false;
        }
        n += usize::from(counted);
        world.step(end);
    }
    world.lose(region);
    if !at_once {
        world.run_for_ms(TAKE_OVER_MS);
    }
    world.heal();
    world.run_for_ms(4000);
    assert!(is_whole(&world, region), "region {region} after {events} events");
    let last = world.submit(region, "w0.1 w1.1 w2.1");
    world.run_for_ms(1500);
    assert!(world.has_ended(&last), "region {region} after {events} events");
    // Another one is lost for good: what came back counts as a copy.
    world.kill((region + 1) % regions as u16);
    world.run_for_ms(2 * TAKE_OVER_MS);
    let next = world.submit(region, "w0.1 w1.1 w2.1");
    world.run_for_ms(3000);
    assert!(world.has_ended(&next), "region {region} after {events} events");
    judge(&world);
    true
}

#[test]
fn a_region_may_lose_its_memory_at_every_message() {
    for region in 0..3 {
        let mut events = 0;
        while lose_after(1, events, region, events % 2 == 0) {
            events += 1;
        }
        assert!(events > 20, "{events}");
    }
}

#[test]
fn one_of_five_may_lose_its_memory_at_every_message() {
    for region in [0, 1, 4] {
        let mut events = usize::from(region);
        while lose_after(2, events, region, events % 2 == 0) {
            events += 7;
        }
        assert!(events > 30, "{events}");
    }
}

/// Regions lose their memory, or their power only, or are cut off, at any time, never more than K at once.
pub fn turmoil(seed: u64, mutant: Option<Mutant>) -> World {
    let mut draw = Rng::new(seed).fork("forgetting");
    let (regions, copies_elsewhere) = *draw.pick(&[(3, 1), (3, 1), (4, 1), (5, 2), (5, 2)]);
    let wan = Wan::uniform("test", &["a", "b", "c", "d", "e"][..regions], MS, 20 * MS);
    let mut topology = Topology::one_node_per_region(wan, 1 + draw.below(2) as u16);
    topology.clock_bound_ns = *draw.pick(&[0, MS, 5 * MS]);
    let partitions = topology.partitions.len() as u64;
    let options = Options {
        copies_elsewhere,
        batching: Batching { interval_ns: *draw.pick(&[0, 2 * MS]), ..Batching::default() },
        heartbeats: Heartbeats { every_ns: 5 * MS, ..Heartbeats::default() },
        replication: Replication {
            suspect_after_ns: Some(*draw.pick(&[100 * MS, 200 * MS])),
            lease_ns: draw.pick(&[None, Some(50 * MS), Some(400 * MS)]).to_owned(),
            ..Replication::default()
        },
        collection: Collection { silence_ns: *draw.pick(&[300 * MS, 2000 * MS]), ..Collection::default() },
        mutant,
        ..Options::default()
    };
    let mut world = World::with(seed, topology.replicated(), options);
    world.faults = super::Faults {
        loss: *draw.pick(&[0.0, 0.02]),
        duplication: *draw.pick(&[0.0, 0.1]),
        jitter_ns: *draw.pick(&[0, 5 * MS, 30 * MS]),
    };
    let mut ticket = 0;
    // Lost with their memory, and not whole again.
    let away = |world: &World| -> usize {
        let is_away = |n: &u16| {
            world.dead.contains(&NodeId(*n)) || world.cut_off.contains(&NodeId(*n)) || !is_whole(world, *n)
        };
        (0..regions as u16).filter(is_away).count()
    };
    for _ in 0..8u64 {
        for _ in 0..12 {
            world.run_until(world.now + draw.below(20 * MS));
            let node = draw.below(regions as u64) as u16;
            if world.dead.contains(&NodeId(node)) {
                continue;
            }
            let words: Vec<String> = (0..1 + draw.below(2))
                .map(|_| {
                    let mode = if draw.chance(0.7) { "w" } else { "r" };
                    format!("{mode}{}.{}", draw.below(partitions), draw.below(3))
                })
                .collect();
            if draw.chance(0.2) && world.request.is_none() {
                world.request = Some(world.named());
            }
            if is_whole(&world, node) {
                world.submit_as(node, "update", access(&words.join(" ")), Token::default());
                if draw.chance(0.1) {
                    let to = draw.below(regions as u64) as u16;
                    _ = world.move_home(node, draw.below(partitions) as u16, to);
                }
            }
            if draw.chance(0.4) {
                let rank = (world.clock(NodeId(node)) + world.topology.clock_bound_ns).rank();
                ticket += 1;
                world.close(ticket, node, draw.below(partitions) as u16, rank, vec![Granule::Partition]);
            }
        }
        if draw.chance(0.4) {
            world.heal();
        }
        while away(&world) < copies_elsewhere && draw.chance(0.7) {
            let region = draw.below(regions as u64) as u16;
            match draw.below(4) {
                0 => world.kill(region),
                1 => world.cut_off(region),
                _ => world.lose(region),
            }
        }
        world.run_for_ms(draw.below(500));
    }
    world.faults.loss = 0.0;
    world.heal();
    world.run_for_ms(15_000);
    world
}

#[test]
fn random_worlds_forget_regions_and_nothing_that_was_answered() {
    let mut back = 0;
    for seed in 0..60 {
        let world = turmoil(seed, None);
        for node in &world.nodes {
            assert!(node.life.is_running(), "seed {seed}: {} is not whole", node.cluster.me);
        }
        judge(&world);
        back += world.nodes.iter().filter(|node| node.came_back().is_some()).count();
    }
    assert!(back > 40, "{back}");
}

#[test]
fn random_worlds_catch_what_is_planted_in_rejoining() {
    let caught = |mutant| (0..150).find(|seed| panics(|| judge(&turmoil(*seed, Some(mutant)))));
    let all = [Mutant::AckBeforeWhole];
    let unnoticed: Vec<Mutant> = all.into_iter().filter(|mutant| caught(*mutant).is_none()).collect();
    assert!(unnoticed.is_empty(), "{unnoticed:?} go unnoticed");
}

/// Regions 0 and 1 lose their memory together. Whether both are whole in the end, and what region 0 says otherwise.
fn two_forget(regions: usize, copies_elsewhere: usize) -> (bool, Option<SqlError>) {
    let mut world = world(regions, copies_elsewhere, None);
    let before = world.submit(2, "w0.1 w2.1");
    world.run_for_ms(1000);
    world.lose(0);
    world.lose(1);
    world.run_for_ms(100);
    world.heal();
    world.run_for_ms(10_000);
    let are_whole = is_whole(&world, 0) && is_whole(&world, 1);
    if are_whole {
        assert_eq!(world.order(2, 0), [before]);
        let after = world.submit(0, "w0.1 w1.1");
        world.run_for_ms(2000);
        assert!(world.has_ended(&after));
        judge(&world);
    }
    (are_whole, world.nodes[0].absent())
}

#[test]
fn with_too_few_regions_two_that_lose_their_memory_together_say_that_they_cannot_come_back() {
    // With the word of K + 1 others, or of the only one that is left of K + 1.
    for (regions, copies) in [(5, 2), (3, 2)] {
        assert!(comes_back(regions, copies));
        assert_eq!(two_forget(regions, copies), (true, None), "{regions} regions, K = {copies}");
    }
    for (regions, copies) in [(4, 2), (5, 3)] {
        assert!(!comes_back(regions, copies), "a cluster like this is refused at the start");
        let (are_whole, said) = two_forget(regions, copies);
        let said = said.expect("it is not whole");
        assert!(!are_whole && said.message.contains("for good"), "{said:?}");
        let detail = said.detail.as_deref().expect("the reason");
        assert!(
            detail.contains(&format!("2 of {regions} regions")) && detail.contains("others that have not"),
            "{detail}"
        );
    }
    // One of four comes back as long as the others are there.
    let mut world = world(4, 2, None);
    world.submit(0, "w0.1 w1.1");
    world.run_for_ms(1000);
    world.lose(0);
    world.heal();
    world.run_for_ms(5000);
    assert!(is_whole(&world, 0));
}

//! Regions that lose their memory and come back with another one's.

mod pieces;
pub(super) mod schedules;

use super::World;
use super::judge::judge;
use crate::caerus::message::Message;
use crate::caerus::options::Heartbeats;
use crate::caerus::{Mutant, Options, SequenceId, comes_back};
use crate::engine::Engine;
use crate::trial::panics;
use base::order::CloseTicket;
use base::time::MS;
use base::topology::{NodeSpec, PartitionSpec, Topology};
use base::txn::{Granule, Outcome};
use base::wan::Wan;
use base::{NodeId, RegionId, SqlError};

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

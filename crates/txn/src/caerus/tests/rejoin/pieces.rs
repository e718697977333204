//! Copies that come in pieces: donors that fall silent, blocks that are late or of another copy.

use super::super::judge::judge;
use super::super::{Event, World};
use super::{TAKE_OVER_MS, forgets, is_whole, world};
use crate::caerus::message::{CopyId, Message};
use crate::donor::{PIECE, WINDOW};
use crate::engine::{Engine, EngineEffect};
use base::NodeId;
use base::time::MS;
use std::cell::RefCell;
use std::rc::Rc;

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

/// Region 2 has lost its memory and comes back; messages of this kind to it stay on their way.
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

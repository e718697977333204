//! Bytes that were changed.

use crate::{Dice, chance};
use rand::Rng;

/// One byte repeated may be a value within a value within a value: this many levels of it.
const LEVELS_MAX: usize = 200_000;

/// Changes bytes in one to four places.
pub fn damage(dice: &mut Dice, bytes: &mut Vec<u8>) {
    for _ in 0..dice.random_range(1..=4) {
        one_place(dice, bytes);
    }
    if chance(dice, 1) {
        let at = dice.random_range(0..=bytes.len());
        let levels = dice.random_range(0..LEVELS_MAX);
        let again = dice.random::<u8>() % 32;
        bytes.splice(at..at, std::iter::repeat_n(again, levels));
    }
}

fn one_place(dice: &mut Dice, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        bytes.push(dice.random());
        return;
    }
    let at = dice.random_range(0..bytes.len());
    let until = (at + dice.random_range(1..16)).min(bytes.len());
    match dice.random_range(0..7) {
        0 => bytes[at] ^= 1 << dice.random_range(0..8),
        1 => bytes[at] = dice.random(),
        // Lengths and numbers at the ends of their ranges.
        2 => bytes[at..until].fill(if dice.random() { 0xff } else { 0 }),
        3 => bytes.truncate(at),
        4 => {
            bytes.drain(at..until);
        }
        5 => {
            let copied = bytes[at..until].to_vec();
            let to = dice.random_range(0..=bytes.len());
            bytes.splice(to..to, copied);
        }
        _ => bytes.insert(at, dice.random()),
    }
}

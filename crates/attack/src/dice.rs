//! Draws of the generators.

use rand::Rng;
use rand_chacha::ChaCha8Rng;

/// Randomness that is the same on every machine and in every version.
pub type Dice = ChaCha8Rng;

/// One of several.
pub fn pick<'a, T: ?Sized>(dice: &mut Dice, of: &[&'a T]) -> &'a T {
    of[dice.random_range(0..of.len())]
}

/// A number between the two, each order of magnitude as likely as another.
pub fn magnitude(dice: &mut Dice, low: u32, high: u32) -> u32 {
    let exponent = dice.random_range(f64::from(low).ln()..=f64::from(high).ln());
    (exponent.exp() as u32).clamp(low, high)
}

pub fn chance(dice: &mut Dice, percent: u32) -> bool {
    dice.random_range(0..100) < percent
}

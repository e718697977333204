//! Feeds the parts of Meridian that read foreign bytes with generated and damaged inputs: values and messages of its encoding,
//! frames between nodes, a node's directory, texts of SQL.
//!
//! IN: a target, a seed and numbers of inputs; an input follows from these alone. OUT: findings: inputs for which a part
//! panicked, ended the process, took too long or broke what it promises. [`targets`] says what each promises.
//! `crates/attack` does the same to a whole server over the wire.
//!
//! Rooms: [`targets`] (inputs and promises), [`values`] (random values of any type that serde reads), [`damage`] (changed
//! bytes), [`drive`] (a process for each target, so that one that ends is a finding).

pub mod damage;
pub mod drive;
pub mod targets;
pub mod values;

/// Randomness that is the same on every machine and in every version.
pub type Dice = rand_chacha::ChaCha8Rng;

/// True in so many of a hundred cases.
pub(crate) fn chance(dice: &mut Dice, percent: u32) -> bool {
    rand::Rng::random_range(dice, 0..100) < percent
}

//! A store on a disk that misbehaves: by hand, at random, and with faults planted in the store.
//!
//! Suggested reading order: `disk` (what a disk may do), `scenarios` (by hand), `world` and `random` (seeds),
//! `mutants` (whether all this finds what is wrong).

mod disk;
#[cfg(feature = "mutants")]
mod mutants;
mod random;
mod scenarios;
mod world;

//! Whole groups of members: by hand, every way that a few events can go, and at random.
//!
//! Suggested reading order: `stage` and `scenarios` (by hand), `explorer` (everything small), `world` and
//! `random` (seeds), `plausibility` (what no member says), `mutants` (whether all this finds what is wrong).

mod explorer;
#[cfg(feature = "mutants")]
mod mutants;
mod plausibility;
mod random;
mod scenarios;
mod stage;
mod world;

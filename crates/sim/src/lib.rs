//! The virtual world: the same nodes as in production, under a clock, a network and disks that belong
//! to a seed.
//!
//! Suggested reading order: [`world`] (what drives a node), [`plan`] (what goes wrong, and when),
//! [`replay`] (how a failure is told); up to here nothing knows what a node does. Then [`cluster`] (real
//! nodes under load and faults, held against what they promise) and [`command`] (what `meridian sim` calls). Figures in
//! virtual time are taken by the crate `experiments`. How to use it: `docs/simulation.md`.

pub mod campaign;
pub mod cluster;
pub mod command;
pub mod plan;
#[cfg(feature = "mutants")]
pub mod planted;
pub mod replay;
pub mod world;

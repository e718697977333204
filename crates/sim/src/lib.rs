//! The virtual world: the same nodes as in production, under a clock, a network and disks that belong
//! to a seed.
//!
//! Suggested reading order: [`world`] (what drives a node), [`plan`] (what goes wrong, and when),
//! [`replay`] (how a failure is told). Nothing here knows what a node does: a [`world::World`] hosts any
//! [`base::process::Process`].

pub mod plan;
pub mod replay;
pub mod world;

//! Systems that Caerus is compared with, as ways of routing transactions into the same sequences.
//!
//! IN: nothing. OUT: for each system, which logs there are and how a cluster should run it. KEEPS: the engine
//! ([`crate::caerus`]) knows no system's name; merger, scheduler, readers and the proof of ranks are the same for all.
//!
//! In the baselines' favour: entries leave as soon as their link is idle, no epoch is waited for; the log of all regions
//! is led where it is decided soonest for all regions on average; every region executes, and a gateway is answered by
//! its own. Against them: a piece carries its whole transaction.

pub mod calvin;
pub mod slog;

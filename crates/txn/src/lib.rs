//! Who orders: the one contract every engine fulfils, and the engines.
//!
//! Suggested reading order: [`engine`], the shared [`timers`], [`graph`] and [`log`], then an engine.

pub mod any;
pub mod aria;
pub mod baseline;
pub mod caerus;
mod delays;
mod donor;
pub mod engine;
mod gate;
pub mod geogauss;
pub mod graph;
pub mod log;
pub mod perseus;
mod records;
mod share;
pub mod survival;
pub mod timers;
#[cfg(test)]
mod trial;
mod unfinished;

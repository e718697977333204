//! Who orders: the one contract every engine fulfils, and the engines.
//!
//! Suggested reading order: [`engine`], then an engine.

pub mod engine;

//! Hostile input over the wire, and what a running server does about it.
//!
//! Knows nothing of the server but its address: whatever speaks PostgreSQL's protocol can be attacked, and nothing
//! that is wrong inside can be wrong here as well.
//!
//! Suggested reading order: [`input`] (what is thrown), [`generate`] (where it comes from), [`judge`] (what counts as a
//! finding), [`drive`] (how a run goes).

pub mod args;
pub mod client;
pub mod copy;
pub mod dice;
pub mod drive;
pub mod generate;
pub mod input;
pub mod judge;
pub mod neighbour;
pub mod process;
pub mod programs;
pub mod report;
pub mod statements;
pub mod stored;
pub mod text;
pub mod wire;

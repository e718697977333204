//! A log that a group of members agrees on: entries in one order, none lost while a majority lives.
//!
//! The protocol is Raft (Ongaro and Ousterhout 2014) with pre-votes, and a leader lease for clocks of
//! bounded error. A [`Member`] is a pure state machine: messages, the clock and finished writes go in;
//! messages, writes and committed entries come out. A group of one member is a write-ahead log. The owner of
//! the state machine may pass in its encoded state, a [`Checkpoint`]: the log is then truncated before it, on disk too,
//! and a member that needs older entries gets the checkpoint instead.
//!
//! What always holds, and is asserted here or in `tests/`:
//! - *election safety*: a term has at most one leader;
//! - *log matching*: two logs with an entry of one index and term are equal up to it;
//! - *leader completeness*: a committed entry is in the log of every later leader;
//! - *state machine safety*: no two members hand out different entries at one index;
//! - *lease*: no two members hold a lease at one instant;
//! - nothing leaves a member that it could forget in a crash.
//!
//! Suggested reading order: [`entry`], [`message`], [`journal`] (what lies on disk), [`frame`] (how, on
//! the disks of simulations; real ones hold records of the crate `durability`), the log in memory, then [`member`].

pub mod entry;
pub mod frame;
pub mod journal;
pub mod member;
pub mod message;

mod log;

pub use entry::{Checkpoint, Entry, Index, Payload, Position, Term};
pub use journal::Corrupt;
pub use member::{Member, NotLeader, Options, Outputs};
pub use message::Message;

#[cfg(feature = "mutants")]
pub use member::Mutant;

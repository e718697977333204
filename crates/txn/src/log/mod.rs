//! A sequence that several regions keep alike, so that K of them may be lost: led in terms, taken over by election,
//! closed by timestamps.
//!
//! It knows nothing of what is in its entries but their stamps, and nothing of time but what it is told, so it can be
//! explored by itself (see the tests). Engines keep one [`Log`] for each sequence at each node; they carry its
//! [`Said`] to other nodes, take stable entries from it, and add entries where it leads.
//!
//! Where a node has a disk, what a log has to remember is recorded ([`kept`]), and brings it back.
//!
//! Suggested reading order: [`group`], [`said`], [`link`], `entries`, `leader`, [`member`], [`kept`].

pub mod entries;
pub mod group;
pub mod kept;
mod leader;
pub mod link;
pub mod member;
pub mod said;
#[cfg(test)]
mod tests;

pub use entries::Item;
pub use group::{Fault, Group, Term, Times};
pub use kept::{Change, Kept};
pub use member::{Due, Followed, Log};
pub use said::{Ack, Append, Grant, Posts, Said, Standing, Tail};

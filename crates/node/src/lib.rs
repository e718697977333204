//! One server as a pure state machine: an engine, its partitions, its dependency manager, its columns.
//!
//! [`Node::step`](base::process::Process::step) takes an event and a clock reading and answers with
//! effects. It joins who orders (`txn`) with who may see what (`reads`) and the two stores; it is the
//! only room that sees all four.
//!
//! Suggested reading order: [`request`] (what clients ask), [`message`] (what nodes say), [`node`],
//! `read` (the one path of every read), then the rooms it uses.

pub mod message;
pub mod node;
pub mod request;

pub mod clocks;
pub mod durable;

mod board;
mod columns;
mod data;
mod gateway;
pub mod locks;
mod printed;
mod questions;
mod read;
mod replicas;
pub mod streams;

pub use board::answer_published;
#[cfg(feature = "mutants")]
pub use node::Mutants;
pub use node::{Kept, Node, Options, Steps, Streaming, choice_at, rests_on_clocks};
pub use reads::replica::ReadPolicy;
pub use request::{Reply, Request};

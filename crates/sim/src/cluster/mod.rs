//! Real nodes in a virtual world, under load and faults, held against what they promise.
//!
//! IN: a seed, a [`Plan`](crate::plan::Plan), a consistency level. OUT: a [`Summary`](run::Summary), or what went wrong. A seed decides the
//! shape of the cluster, its knobs (small ones, so that every limit is met), the faults, and what every
//! client does. Three checks, each of which the others cannot replace:
//! - the copies agree: at one cut the columns of every node equal the rows ([`agreement`]);
//! - a model of the data: what an answer says is what that request can have done ([`session`]);
//! - the history: everything together is what the level promises, by an oracle that knows nothing of the
//!   protocol ([`book`], crate `history`).
//!
//! Reading order: [`layout`], [`procedure`], [`book`], [`session`], [`agreement`], then [`run`]; [`durable`]
//! does the same with nodes that survive crashes, and [`badges`] adds rows whose unique entries go from one to another.

pub mod agreement;
pub mod badges;
pub mod book;
pub mod columns;
pub mod definer;
mod deployment;
pub mod durable;
mod knobs;
pub mod layout;
pub mod mover;
mod others;
pub mod procedure;
pub mod run;
pub mod script_client;
pub mod session;

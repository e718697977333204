//! `meridian bench vodka`: how good a hybrid system is, for any server that speaks PostgreSQL's protocol.
//!
//! One command creates and loads the workload of [`workload::vodka`], lets terminals write to the T side at a fixed rate
//! while analysts ask the A side, and measures three things beside throughput and latency: whether each query's rows grow
//! as its tables do, how stale answers are, and how long a committed write takes to be visible.
//!
//! IN: URLs of one or two servers, sizes, rates. OUT: a folder with one page, CSVs and JSON.
//! KEEPS: what a run has measured is reported even if it ends early, and is marked as incomplete then; nothing is
//! dropped that is not the benchmark's, and nothing at all without `--drop`.
//!
//! Reading order: [`args`], [`run`], [`prepare`] (schema, load, what is there), [`tracker`] (what the client remembers),
//! [`transactions`], [`analysts`], [`probes`], [`plans`] (rows per operator), [`resources`], [`figures`], [`report`],
//! [`repeat`] (the same run several times), [`compare`].

pub mod analysts;
pub mod args;
pub mod compare;
pub mod figures;
pub mod plans;
pub mod prepare;
pub mod probes;
pub mod profile;
pub mod repeat;
pub mod report;
pub mod resources;
pub mod run;
pub mod terminals;
pub mod tracker;
pub mod transactions;

pub use args::{CompareArgs, VodkaArgs};
pub use compare::compare;
pub use run::run;

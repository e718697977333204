//! Scalar expressions over columns, with PostgreSQL's types and values.
//!
//! DataFusion types expressions by rules of its own and computes some of them otherwise than PostgreSQL: a cast
//! to integer cuts, a date plus an interval is a date, a month is longer than 30 days. Here operators, casts and
//! functions are given PostgreSQL's types ([`typing`]); those whose value would differ become calls of the
//! functions that rows are computed with ([`evaluated`]), so that an expression has one value wherever it is
//! evaluated. Arithmetic and comparisons of integers, floats and decimals keep DataFusion's kernels.
//!
//! Operators are settled while names are resolved ([`Operators`]), because DataFusion refuses at that point what
//! it has no rule for; casts and functions afterwards, and again when parameters are bound ([`settle`]).

mod evaluated;
mod functions;
mod kinds;
mod rule;
mod typing;
mod written;

pub(super) use rule::{Operators, settle};
pub(super) use written::{cast_to_interval, power_of_negative};

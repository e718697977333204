//! Regular expressions: PostgreSQL's functions of them, and the patterns of `~`.
//!
//! [`pattern`] says PostgreSQL's patterns in the words of the library. Everything that takes a pattern asks it.

mod functions;
mod pattern;

pub(super) use functions::{SETS, install, set_as_list, unnested};
pub(super) use pattern::settled_operand;

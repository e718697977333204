//! CH-benCHmark (Cole et al., "The mixed workload CH-benCHmark", DBTest 2011): TPC-C's tables, three
//! more, and 22 queries after TPC-H.
//!
//! Stock belongs to supplier `w_id * i_id mod 10000`; a customer's nation is the code of the first
//! character of its state, which is why there are 62 nations.

pub mod queries;
pub mod tables;

pub use queries::{QUERIES, Scope, query};
pub use tables::Table;

//! Analytical queries: DataFusion over column snapshots.
//!
//! A query is planned against the catalog; which partitions it can touch follows from the whole plan's
//! filters; then one snapshot of all its tables is opened, at one cut, while the physical plan is made.
//! From there on the query is a pure function of that snapshot.

pub mod types;

mod batches;
mod checks;
mod collapse;
mod collapse_exec;
mod complexity;
mod context;
mod empty_lists;
mod engine;
mod error;
mod exact_aggregates;
mod fields;
mod filters;
mod functions;
mod interruption;
mod lifted_subqueries;
mod lookup;
mod memory;
mod node_context;
mod only;
mod origins;
mod overlay;
mod plan;
mod plan_errors;
mod print;
mod provider;
mod prune;
mod query_plan;
mod regex_errors;
mod rewrite;
mod run;
mod same_names;
mod scalars;
mod scan;
mod set_types;
mod shape_errors;
mod shared;
mod snapshots;
mod system;
mod wording;
mod zones;

pub use batches::BatchStream;
pub(crate) use batches::{Guard, UNPACKED_BYTES};
pub(crate) use complexity::check_columns;
pub(crate) use context::Context;
pub(crate) use engine::Analytics;
pub(crate) use memory::{RowsMemory, row_bytes};
pub(crate) use node_context::NodeContext;
pub(crate) use overlay::OwnRows;
pub(crate) use plan::{plan, plan_with};
pub use query_plan::QueryPlan;
pub(crate) use run::{Answer, How, Operators, Timing, explain, run};
pub(crate) use snapshots::{HeldSnapshot, SnapshotGuard};

//! Analytical queries: DataFusion over column snapshots.
//!
//! A query is planned against the catalog; which partitions it can touch follows from the whole plan's
//! filters; then one snapshot of all its tables is opened, at one cut, while the physical plan is made.
//! From there on the query is a pure function of that snapshot.

pub mod activity;
pub mod types;

mod average_spans;
mod barriers;
mod batches;
mod bytes_functions;
mod checks;
mod clocks;
mod cluster;
mod coalesce;
mod collapse;
mod collapse_exec;
mod complexity;
mod composites;
mod context;
mod domains;
mod empty_lists;
mod encodings;
mod engine;
mod error;
mod exact_aggregates;
mod fields;
mod filters;
mod functions;
mod interruption;
mod json_functions;
mod kept_plans;
mod labels;
mod lateral;
mod lifted_subqueries;
mod lookup;
mod memory;
mod node_context;
mod number_functions;
mod only;
mod ordered_sets;
mod origins;
mod overlaps;
mod overlay;
mod plan;
mod plan_errors;
mod precision;
mod provider;
mod prune;
mod query_plan;
mod regexes;
mod rewrite;
mod row_locks;
mod rowwise;
mod run;
mod same_names;
mod scalars;
mod scan;
mod set_types;
mod sets;
mod shape_errors;
mod shared;
mod similar;
mod small_functions;
mod snapshots;
mod span_functions;
mod system;
mod templates;
mod wording;
mod zones;

pub use batches::{BatchStream, Guard, MESSAGE_GROWTH, PORTION_BYTES};
pub use cluster::{Cluster, NotAtReplica, ReplicaCommand, ReplicaHealth};
pub use complexity::check_columns;
pub use context::Context;
pub use engine::Analytics;
pub use memory::{RowsMemory, row_bytes};
pub use node_context::NodeContext;
pub use overlay::OwnRows;
pub use plan::{plan, plan_with};
pub use query_plan::QueryPlan;
pub use row_locks::check_row_locks;
pub use run::{Answer, How, Operators, Timing, explain, run};
pub use snapshots::{HeldSnapshot, SnapshotGuard};

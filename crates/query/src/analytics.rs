//! Analytical queries: DataFusion over column snapshots.

pub mod types;

//! SQL against a cluster of three regions in virtual time.

mod support;

#[path = "sql/analytics.rs"]
mod analytics;
#[path = "sql/ch.rs"]
mod ch;
#[path = "sql/contention.rs"]
mod contention;
#[path = "sql/cursors.rs"]
mod cursors;
#[path = "sql/ddl.rs"]
mod ddl;
#[path = "sql/dml.rs"]
mod dml;
#[path = "sql/foreign_keys.rs"]
mod foreign_keys;
#[path = "sql/homes.rs"]
mod homes;
#[path = "sql/levels.rs"]
mod levels;
#[path = "sql/migrations.rs"]
mod migrations;
#[path = "sql/queries.rs"]
mod queries;
#[path = "sql/transactions.rs"]
mod transactions;

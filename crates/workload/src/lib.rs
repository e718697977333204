//! Workloads: what is loaded, what is run, and what must hold afterwards.
//!
//! IN: sizes, a seed, the instant of loading. OUT: rows, SQL text, inputs of transactions, checks.
//! KEEPS: the same seed gives the same rows whatever the order in which tables and warehouses are
//! made, so that loaders may run in parallel.
//!
//! The SQL is plain PostgreSQL: the same text runs on a PostgreSQL server and here. Only the storage
//! parameters that say where rows live ([`table::Placement`]) are Meridian's.

pub mod accounts;
pub mod ch;
pub mod copy;
pub mod micro;
pub mod model;
pub mod movr;
pub mod random;
pub mod table;
pub mod tatp;
pub mod tpcc;
pub mod tpce;
pub mod vodka;
pub mod whole_rows;
pub mod ycsb;

/// Every stored procedure of the workloads, for `CALL`.
pub fn procedures() -> base::txn::procedure::Procedures {
    let mut procedures = base::txn::procedure::Procedures::default();
    tpcc::procedures::register(&mut procedures);
    tpce::procedures::register(&mut procedures);
    micro::register(&mut procedures);
    movr::register(&mut procedures);
    procedures
}

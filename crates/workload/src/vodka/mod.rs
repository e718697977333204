//! Vodka: a workload for hybrid systems whose queries keep their selectivity while the data grows, and the pure half of
//! its measurements.
//!
//! The schema merges TPC-C's with TPC-H's: `order_line` is LINEITEM, `orders` is ORDERS, `stock` is PARTSUPP, `item` is
//! PART. A sixth transaction, ReceiveGoods, ends the life of an order: it sets the date of receipt and the return flag
//! of its lines, so that no date that a query filters on stays null for ever. Every table's name begins with `vodka_`.
//!
//! IN: sizes, a seed, readings of the client's clock. OUT: rows, inputs, SQL text, parameters, figures.
//! KEEPS: the same seed gives the same rows and the same inputs; `ol_suppkey` and `s_suppkey` are both
//! `supply warehouse · item mod 10000 + 1`, so joins over the supplier lose no row; a line that was received was delivered
//! before; `ver` is 0 for loaded rows and grows by 1 with every update of the row.
//!
//! Reading order: [`tables`], [`load`], [`inputs`], [`queries`]; then what is measured: [`reservoir`] and [`predicate`]
//! (parameters), [`cardinality`] (rows per operator), [`model`] (latency over size), [`versions`] (freshness), [`marks`]
//! (HATtrick's freshness), [`sync`] (data sharing), [`frontier`] (throughput of either side beside the other), [`check`].

pub mod cardinality;
pub mod check;
pub mod frontier;
pub mod inputs;
pub mod load;
pub mod marks;
pub mod model;
pub mod predicate;
pub mod queries;
pub mod reservoir;
pub mod sync;
pub mod tables;
pub mod versions;

pub use tables::Table;

use crate::tpcc::Tpcc;

/// µs of a day.
pub const DAY_US: i64 = 86_400_000_000;

/// 1992-01-01 and 1998-08-02 in µs since 2000-01-01: the first date of a loaded order, and where the benchmark's own
/// clock stands at the instant of loading. All loaded orders are older.
pub const FIRST_ENTRY_US: i64 = -2922 * DAY_US;
pub const CLOCK_START_US: i64 = -517 * DAY_US;

/// Suppliers are numbered from 1.
pub const SUPPLIERS: i64 = 10_000;

/// Sizes and seed of one database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Vodka {
    /// TPC-C's sizes; its instant of loading is where [`Vodka::clock`] begins.
    pub tpcc: Tpcc,
}

impl Vodka {
    pub fn new(tpcc: Tpcc) -> Vodka {
        Vodka { tpcc }
    }
    /// The benchmark's clock, which dates orders: it stands at 1998-08-02 when the data is loaded and goes as fast as
    /// the client's. Both in µs since 2000-01-01.
    pub fn clock(&self, now_us: i64) -> i64 {
        CLOCK_START_US + (now_us - self.tpcc.loaded_at_us)
    }
    /// The instant of the client's clock at which the benchmark's shows this.
    pub fn wall(&self, clock_us: i64) -> i64 {
        clock_us - CLOCK_START_US + self.tpcc.loaded_at_us
    }
}

/// The supplier of an item at a warehouse.
pub fn supplier_of(supply_w: i32, item: i32) -> i32 {
    (i64::from(supply_w) * i64::from(item) % SUPPLIERS) as i32 + 1
}

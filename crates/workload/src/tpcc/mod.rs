//! TPC-C (revision 5.11), the order-entry half of CH-benCHmark.
//!
//! Keys lead with the warehouse, so that a warehouse is a unit of placement; `history` has a key of
//! its own (`h_w_id, h_id`), which the standard allows. Sizes can be shrunk for tests; the shape
//! (10 districts, as many orders as customers, 30 % of them undelivered) stays.

pub mod check;
pub mod inputs;
pub mod load;
pub mod procedures;
pub mod tables;

pub use inputs::{Input, Inputs, Kind, Mix};
pub use tables::Table;

use crate::table::Placement;
use base::schema::{Catalog, SchemaAction, SchemaChange};
use base::topology::Topology;

/// Districts of a warehouse.
pub const DISTRICTS: i32 = 10;

/// SQLSTATE by which `new_order` refuses an unknown item: the 1 % of orders that the standard rolls back.
pub const UNKNOWN_ITEM: &str = "P0002";

/// The five transactions as PL/pgSQL procedures with the names and arguments of our own, so that
/// one driver calls both. Several statements in one text.
pub const PLPGSQL: &str = include_str!("procedures.sql");

/// Sizes and seed of one database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tpcc {
    pub warehouses: i32,
    /// Items in the catalogue, and stock rows per warehouse: 100,000.
    pub items: i32,
    /// Customers, and orders at the start, per district: 3,000.
    pub customers: i32,
    /// The instant of loading, µs since 2000-01-01.
    pub loaded_at_us: i64,
    pub seed: u64,
}

impl Tpcc {
    /// Standard sizes.
    pub fn new(warehouses: i32) -> Tpcc {
        assert!(warehouses > 0, "TPC-C needs a warehouse");
        Tpcc { warehouses, items: 100_000, customers: 3_000, loaded_at_us: 0, seed: 1 }
    }
    /// Everything but the districts divided by `divisor`, for tests.
    pub fn shrunk(mut self, divisor: i32) -> Tpcc {
        assert!(divisor > 0, "sizes are divided by at least 1");
        self.items = (self.items / divisor).max(20);
        self.customers = (self.customers / divisor).max(10);
        self
    }
    pub fn loaded_at_us(self, us: i64) -> Tpcc {
        Tpcc { loaded_at_us: us, ..self }
    }
    pub fn seed(self, seed: u64) -> Tpcc {
        Tpcc { seed, ..self }
    }
    /// The first order of a district that is still undelivered at the start.
    pub fn first_undelivered(&self) -> i32 {
        self.customers * 7 / 10 + 1
    }
    /// The statements that make the tables, without secondary indexes.
    pub fn create_tables(&self, placement: &Placement) -> Vec<String> {
        Table::ALL.iter().map(|t| t.spec().create_table(placement, self.warehouses as u32)).collect()
    }
    /// The statements that make the secondary indexes.
    pub fn create_indexes(&self) -> Vec<String> {
        Table::ALL.iter().flat_map(|t| t.spec().create_indexes()).collect()
    }
    /// The catalog after those statements and CH-benCHmark's, for hosts without SQL.
    pub fn catalog(&self, placement: &Placement, topology: &Topology) -> Catalog {
        let mut catalog = Catalog::default();
        let added = crate::ch::Table::ALL.iter().map(|table| table.spec());
        for spec in Table::ALL.iter().map(|table| table.spec()).chain(added) {
            let table = spec.describe(placement, self.warehouses as u32, topology, catalog.next_id);
            let actions = vec![SchemaAction::CreateTable(table)];
            let change =
                SchemaChange { database: Default::default(), base_version: catalog.version, actions };
            catalog.apply(&change).expect("an empty catalog takes the benchmark's tables");
        }
        catalog
    }
}

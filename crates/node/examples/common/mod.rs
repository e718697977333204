//! What the measurements of a node share: TPC-C's tables at a node of one partition, a host, and CPU time.

#[allow(dead_code, reason = "each measurement uses its part")]
pub mod host;

use base::PartitionId;
use base::Row;
use base::schema::{Catalog, SchemaAction, SchemaChange};
use base::topology::Topology;
use base::txn::{AccessMode, AccessSet, Granule, OnConflict, Statement, TxnProgram};
use std::sync::Arc;
use std::time::Instant;
use workload::table::Placement;
use workload::tpcc::{Table, Tpcc};

/// The only partition.
pub const P: PartitionId = PartitionId(0);

/// Rows of one INSERT.
const ROWS: usize = 10_000;

/// CPU time of this thread in ns, so that neighbours on the machine do not count; where the system does
/// not tell, time since `start`.
pub fn cpu_ns(start: Instant) -> u64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let told = told.and_then(|text| text.split(' ').next()?.parse().ok());
    told.unwrap_or_else(|| start.elapsed().as_nanos() as u64)
}

fn whole() -> AccessSet {
    let mut whole = AccessSet::default();
    whole.add(P, Granule::Partition, AccessMode::Write);
    whole
}

/// Creates and fills the tables. `run` takes a transaction and answers with the catalog after it.
pub fn load(tpcc: &Tpcc, topology: &Topology, run: &mut dyn FnMut(TxnProgram, AccessSet) -> Arc<Catalog>) {
    let mut catalog = Arc::new(Catalog::default());
    for table in tpcc.catalog(&Placement::Plain, topology).tables.into_values() {
        let base_version = catalog.version;
        let actions = vec![SchemaAction::CreateTable(table.as_ref().clone())];
        catalog = run(
            TxnProgram::Schema(SchemaChange { database: Default::default(), base_version, actions }),
            whole(),
        );
    }
    for name in Table::ALL {
        let table = catalog.require(name.spec().name).expect("created").clone();
        let last = if name == Table::Item { 1 } else { tpcc.warehouses };
        for warehouse in 1..=last {
            let mut rows = tpcc.rows(name, warehouse).map(|row| Row::of(&row)).peekable();
            while rows.peek().is_some() {
                let insert = Statement::Insert {
                    table: table.id,
                    schema_version: table.version,
                    rows: rows.by_ref().take(ROWS).collect(),
                    on_conflict: OnConflict::Fail,
                    returning: None,
                };
                run(TxnProgram::Statements(vec![insert]), whole());
            }
        }
    }
}

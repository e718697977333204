//! TPC-C's NewOrder procedure against one partition, without an engine: how many a second on one
//! core, and how much memory rows take beside their plain encoding.
//!
//! `cargo run --release -p rowstore --example new_order -- [warehouses] [transactions]`

use base::schema::*;
use base::topology::Topology;
use base::txn::procedure::*;
use base::txn::*;
use base::wan::Wan;
use base::*;
use rowstore::Store;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use workload::tpcc::{Input, Inputs, Kind, Mix, Table as Name, Tpcc};

/// Counts what is allocated, as asked for, and how often.
struct Counting;
static BYTES: AtomicU64 = AtomicU64::new(0);
static CALLS: AtomicU64 = AtomicU64::new(0);

// SAFETY: passes every call on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size() as u64, Ordering::Relaxed);
        CALLS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// CPU time of this thread in ns, so that neighbours on the machine do not count; where the system does
/// not tell, time since `start`.
fn cpu_ns(start: Instant) -> u64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let told = told.and_then(|text| text.split(' ').next()?.parse().ok());
    told.unwrap_or_else(|| start.elapsed().as_nanos() as u64)
}

const P: PartitionId = PartitionId(0);

fn describe(name: Name, first_id: u32) -> Table {
    let spec = name.spec();
    let columns = spec.columns.iter().map(|(column, data_type)| Column {
        name: column.to_ascii_lowercase(),
        data_type: *data_type,
        not_null: !spec.nullable.contains(&column.to_ascii_lowercase().as_str()),
        default: None,
        missing: Datum::Null,
        identity: Identity::No,
        hidden: false,
    });
    let indexes = spec.indexes.iter().enumerate().map(|(n, (name, columns))| Index {
        id: TableId(first_id + 1 + n as u32),
        name: (*name).into(),
        columns: columns.iter().map(|c| spec.column(c)).collect(),
        unique: false,
        constraint: false,
    });
    Table {
        id: TableId(first_id),
        schema: "public".into(),
        name: spec.name.into(),
        version: 0,
        columns: columns.collect(),
        primary_key: spec.primary_key.iter().map(|c| spec.column(c)).collect(),
        primary_key_name: format!("{}_pkey", spec.name),
        indexes: indexes.collect(),
        checks: Vec::new(),
        placement: Placement::Home(RegionId(0)),
    }
}

struct Runner {
    store: Store,
    sequence: u64,
}

impl Runner {
    fn run(&mut self, program: TxnProgram, access: AccessSet) -> Outcome {
        self.sequence += 1;
        let id = TxnId { coordinator: NodeId(0), incarnation: 1, sequence: self.sequence };
        let transaction = Transaction {
            id,
            program: Arc::new(program),
            access: Arc::new(access),
            min_rank: Rank::ZERO,
            after: Rank::ZERO,
        };
        self.store.execute(&transaction, Place::new(Rank(self.sequence), id)).0
    }
}

fn main() {
    let start = Instant::now();
    let mut arguments = std::env::args().skip(1).map(|a| a.parse::<u64>().expect("a number"));
    let warehouses = arguments.next().unwrap_or(2) as i32;
    let transactions = arguments.next().unwrap_or(100_000);
    let topology = Arc::new(Topology::one_node_per_region(Wan::uniform("one", &["here"], 1, 1), 1));
    let mut procedures = Procedures::default();
    workload::tpcc::procedures::register(&mut procedures);
    let procedures = Arc::new(procedures);
    let store = Store::new(P, topology.clone(), procedures.clone());
    let mut runner = Runner { store, sequence: 0 };
    let mut whole = AccessSet::default();
    whole.add(P, Granule::Partition, AccessMode::Write);

    let tpcc = Tpcc::new(warehouses);
    let actions: Vec<SchemaAction> =
        (0..).zip(Name::ALL).map(|(n, name)| SchemaAction::CreateTable(describe(name, 1 + 10 * n))).collect();
    let outcome = runner.run(TxnProgram::Schema(SchemaChange { base_version: 0, actions }), whole.clone());
    assert!(outcome.is_committed());
    println!("table       rows      plain MB   held MB  ratio   load rows/s");
    let (mut all_plain, mut all_held) = (0, 0);
    for name in Name::ALL {
        let table = runner.store.catalog().require(name.spec().name).unwrap().clone();
        let (held, plain) = (BYTES.load(Ordering::Relaxed), runner.store.counters().bytes);
        let (mut count, mut spent_ns) = (0, 0);
        let last = if name == Name::Item { 1 } else { warehouses };
        for w in 1..=last {
            let mut rows = tpcc.rows(name, w).map(|row| Row::of(&row)).peekable();
            while rows.peek().is_some() {
                let batch: Vec<Row> = rows.by_ref().take(10_000).collect();
                count += batch.len() as u64;
                let insert = Statement::Insert {
                    table: table.id,
                    schema_version: table.version,
                    rows: batch,
                    on_conflict: OnConflict::Fail,
                    returning: None,
                };
                let begin = cpu_ns(start);
                let outcome = runner.run(TxnProgram::Statements(vec![insert]), whole.clone());
                spent_ns += cpu_ns(start) - begin;
                assert!(outcome.is_committed(), "{outcome:?}");
            }
        }
        let held = BYTES.load(Ordering::Relaxed) - held;
        let plain = runner.store.counters().bytes - plain;
        all_plain += plain;
        all_held += held;
        println!(
            "{:<11} {count:<9} {:>8.2} {:>9.2} {:>6.2} {:>12.0}",
            table.name,
            plain as f64 / 1e6,
            held as f64 / 1e6,
            held as f64 / plain as f64,
            count as f64 * 1e9 / spent_ns as f64
        );
    }
    println!(
        "all rows, primary keys and secondary indexes: {:.2} × plain",
        all_held as f64 / all_plain as f64
    );

    let mut terminals: Vec<Inputs> = (0..warehouses as u32)
        .map(|n| Inputs::new(&tpcc, Mix::only(Kind::NewOrder), n, warehouses as u32, 0))
        .collect();
    let catalog = runner.store.catalog().clone();
    let new_order = procedures.get("new_order").expect("registered above");
    let (mut count, mut spent_ns, mut allocations) = (0, 0, 0);
    while count < transactions {
        // Clients' work does not count.
        let calls: Vec<(Vec<Datum>, AccessSet)> = (0..500)
            .filter_map(|n| match terminals[n % warehouses as usize].next_input() {
                Input::NewOrder(n) if !n.rollback => {
                    let ints = [n.w, n.d, n.c].map(|i| Datum::Int(i64::from(i)));
                    let args: Vec<Datum> =
                        ints.into_iter().chain([Datum::text(n.lines_text()), Datum::Timestamp(1)]).collect();
                    let access = new_order.declare(&args, &catalog, &topology).expect("its tables exist");
                    Some((args, access))
                }
                _ => None,
            })
            .collect();
        count += calls.len() as u64;
        let (begin, before) = (cpu_ns(start), CALLS.load(Ordering::Relaxed));
        for (args, access) in calls {
            let outcome = runner.run(TxnProgram::Procedure { name: "new_order".into(), args }, access);
            assert!(outcome.is_committed(), "{outcome:?}");
            // As a cluster does it: a little at a time, a moment behind.
            let below = Rank(runner.sequence.saturating_sub(1_000));
            runner.store.collect(below, 64);
        }
        spent_ns += cpu_ns(start) - begin;
        allocations += CALLS.load(Ordering::Relaxed) - before;
    }
    let (count, spent) = (count as f64, spent_ns as f64 / 1e9);
    let allocations = allocations as f64 / count;
    println!("{:.0} NewOrder/s on one core, {allocations:.0} allocations each", count / spent);
    println!("{:?}", runner.store.counters());
}

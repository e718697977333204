//! NewOrder as a stored procedure against one partition, without an engine: how many a second on one
//! core, and how much memory rows take beside their plain encoding.
//!
//! `cargo run --release -p rowstore --example new_order -- [warehouses] [transactions]`

use base::key::KeyRange;
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
use workload::tpcc::tables::{customer, district, item, stock, warehouse};
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

struct NewOrder;

impl Procedure for NewOrder {
    fn name(&self) -> &'static str {
        "new_order"
    }
    fn arguments(&self) -> Vec<(&'static str, DataType)> {
        vec![
            ("w", DataType::Integer),
            ("d", DataType::Integer),
            ("c", DataType::Integer),
            ("lines", DataType::Text),
        ]
    }
    fn columns(&self) -> Vec<(&'static str, DataType)> {
        vec![("o_id", DataType::Integer)]
    }
    fn declare(&self, args: &[Datum], catalog: &Catalog, _: &Topology) -> base::error::SqlResult<AccessSet> {
        let [w, d, c, lines] = args else { return Err(SqlError::internal("four arguments")) };
        let id = |name| catalog.require(name).map(|table| table.id);
        let mut set = AccessSet::default();
        let two = [w.clone(), d.clone()];
        set.read_key(P, id("warehouse")?, Key::of(&two[..1]));
        set.write_key(P, id("district")?, Key::of(&two));
        set.read_key(P, id("customer")?, Key::of(&[w.clone(), d.clone(), c.clone()]));
        for (item, supply, _) in parse(lines) {
            set.read_key(P, id("item")?, Key::of(&[Datum::Int(item)]));
            set.write_key(P, id("stock")?, Key::of(&[Datum::Int(supply), Datum::Int(item)]));
        }
        let district = KeyRange::prefix(Key::of(&two));
        for name in ["orders", "new_order", "order_line"] {
            let table = catalog.require(name)?;
            set.add(P, Granule::Range(table.id, district.clone()), AccessMode::Write);
            for index in &table.indexes {
                set.add(P, Granule::Range(index.id, district.clone()), AccessMode::Write);
            }
        }
        set.normalize();
        Ok(set)
    }
    fn gather(
        &self,
        args: &[Datum],
        context: &ProcedureContext<'_>,
        rows: &dyn RowView,
    ) -> base::error::SqlResult<Vec<Datum>> {
        let items = context.catalog.require("item")?.id;
        let mut prices = Vec::with_capacity(15);
        for (id, _, _) in parse(&args[3]) {
            let row = rows
                .get(items, &Key::of(&[Datum::Int(id)]))
                .ok_or_else(|| SqlError::new(SqlState::NO_DATA, "item number is not valid"))?;
            prices.push(row.get(item::I_PRICE));
        }
        Ok(prices)
    }
    fn apply(
        &self,
        args: &[Datum],
        context: &ProcedureContext<'_>,
        exchange: &Exchange,
        rows: &mut dyn RowAccess,
    ) -> Vec<Row> {
        let id = |name| context.catalog.require(name).expect("checked by declare").id;
        let [w, d, c, lines] = args else { panic!("four arguments") };
        let prices = &exchange[&P];
        let two = [w.clone(), d.clone()];
        let tax = rows.get(id("warehouse"), &Key::of(&two[..1])).expect("a warehouse").get(warehouse::W_TAX);
        let customer_key = Key::of(&[w.clone(), d.clone(), c.clone()]);
        let discount = rows.get(id("customer"), &customer_key).expect("a customer").get(customer::C_DISCOUNT);
        let (districts, key) = (id("district"), Key::of(&two));
        let row = rows.get(districts, &key).expect("a district");
        let o_id = row.get(district::D_NEXT_O_ID).int();
        rows.put(districts, key, row.with(&[(district::D_NEXT_O_ID, Datum::Int(o_id + 1))]));
        let order = [w.clone(), d.clone(), Datum::Int(o_id)];
        let count = prices.len() as i64;
        let now = Datum::Timestamp(1);
        rows.put(
            id("orders"),
            Key::of(&order),
            Row::of(&[
                w.clone(),
                d.clone(),
                Datum::Int(o_id),
                c.clone(),
                now,
                Datum::Null,
                Datum::Int(count),
                Datum::Int(1),
            ]),
        );
        rows.put(id("new_order"), Key::of(&order), Row::of(&order));
        let (stocks, order_lines) = (id("stock"), id("order_line"));
        for (number, (item, supply, quantity)) in parse(lines).enumerate() {
            let key = Key::of(&[Datum::Int(supply), Datum::Int(item)]);
            let row = rows.get(stocks, &key).expect("a stock row");
            let left = row.get(stock::S_QUANTITY).int() - quantity;
            let left = if left < 10 { left + 91 } else { left };
            let info = row.get(stock::S_DIST_01 + d.int() as usize - 1);
            let changed = row.with(&[
                (stock::S_QUANTITY, Datum::Int(left)),
                (stock::S_YTD, Datum::Int(row.get(stock::S_YTD).int() + quantity)),
                (stock::S_ORDER_CNT, Datum::Int(row.get(stock::S_ORDER_CNT).int() + 1)),
            ]);
            rows.put(stocks, key, changed);
            let price = prices[number].decimal();
            let amount = price.checked_mul(base::decimal::Decimal::new(quantity.into(), 0)).expect("small");
            let line = [
                w.clone(),
                d.clone(),
                Datum::Int(o_id),
                Datum::Int(number as i64 + 1),
                Datum::Int(item),
                Datum::Int(supply),
                Datum::Null,
                Datum::Int(quantity),
                Datum::Decimal(amount),
                info,
            ];
            rows.put(order_lines, Key::of(&line[..4]), Row::of(&line));
        }
        vec![Row::of(&[Datum::Int(o_id), tax, discount])]
    }
}

/// `item:supply_w:quantity,…` as in the workload's procedures.
fn parse(lines: &Datum) -> impl Iterator<Item = (i64, i64, i64)> + '_ {
    lines.str().split(',').map(|line| {
        let mut numbers = line.split(':').map(|n| n.parse().expect("a number"));
        let mut next = || numbers.next().expect("three numbers");
        (next(), next(), next())
    })
}

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
        let transaction =
            Transaction { id, program: Arc::new(program), access: Arc::new(access), min_rank: Rank::ZERO };
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
    procedures.register(NewOrder);
    let store = Store::new(P, topology.clone(), Arc::new(procedures));
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
    let (mut count, mut spent_ns, mut allocations) = (0, 0, 0);
    while count < transactions {
        // Clients' work does not count.
        let calls: Vec<(Vec<Datum>, AccessSet)> = (0..500)
            .filter_map(|n| match terminals[n % warehouses as usize].next_input() {
                Input::NewOrder(n) if !n.rollback => {
                    let ints = [n.w, n.d, n.c].map(|i| Datum::Int(i64::from(i)));
                    let args: Vec<Datum> = ints.into_iter().chain([Datum::text(n.lines_text())]).collect();
                    let access = NewOrder.declare(&args, &catalog, &topology).expect("its tables exist");
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

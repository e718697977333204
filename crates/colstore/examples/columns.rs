//! How fast and how small column copies are: `cargo run --release -p colstore --example columns`.
//!
//! Loads order lines as TPC-C has them (and customers, for their texts), merges, collects, and scans
//! the copy beside the same batches as plain Arrow arrays in memory. Prints figures: processor time for
//! loading and merging, the best of seven on the wall for scans.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, RecordBatch};
use base::commit::{CommitRecord, RowWrite};
use base::decimal::Decimal;
use base::rng::Rng;
use base::schema::*;
use base::*;
use colstore::*;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

const P: PartitionId = PartitionId(0);
const WRITES_PER_RECORD: usize = 500;

/// Time on the processor where the system tells it (Linux), so that a busy machine does not blur the
/// figures; else time on the wall.
struct Clock(Duration);

impl Clock {
    fn now() -> Duration {
        let on_cpu = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
        let on_cpu = on_cpu.and_then(|text| text.split(' ').next()?.parse().ok()).map(Duration::from_nanos);
        let on_wall = || std::time::SystemTime::UNIX_EPOCH.elapsed().expect("after 1970");
        on_cpu.unwrap_or_else(on_wall)
    }
    fn start() -> Clock {
        Clock(Clock::now())
    }
    fn elapsed(&self) -> Duration {
        Clock::now() - self.0
    }
}

fn main() {
    let rows: i64 = std::env::args().nth(1).map_or(3_000_000, |n| n.parse().expect("a number of rows"));
    let order_line = table(
        1,
        "order_line",
        4,
        &[
            ("ol_w_id", DataType::Integer),
            ("ol_d_id", DataType::Integer),
            ("ol_o_id", DataType::Integer),
            ("ol_number", DataType::Integer),
            ("ol_i_id", DataType::Integer),
            ("ol_supply_w_id", DataType::Integer),
            ("ol_delivery_d", DataType::Timestamp),
            ("ol_quantity", DataType::Integer),
            ("ol_amount", DataType::Numeric { precision: 6, scale: 2 }),
            ("ol_dist_info", DataType::Char { length: 24 }),
        ],
    );
    let mut rng = Rng::new(1);
    run(&order_line, (0..rows).map(|i| order_line_row(&mut rng, i)), rows as usize);
    let mut text = vec![("c_w_id", DataType::Integer), ("c_id", DataType::Integer)];
    for name in ["c_first", "c_last", "c_city", "c_state", "c_zip", "c_phone", "c_credit", "c_data"] {
        text.push((name, DataType::Varchar { length: 500 }));
    }
    text.push(("c_balance", DataType::Numeric { precision: 12, scale: 2 }));
    text.push(("c_since", DataType::Timestamp));
    let customer = table(2, "customer", 2, &text);
    let mut rng = Rng::new(2);
    run(&customer, (0..rows / 10).map(|i| customer_row(&mut rng, i)), rows as usize / 10);
}

fn table(id: u32, name: &str, key: usize, columns: &[(&str, DataType)]) -> Table {
    let column = |(name, data_type): &(&str, DataType)| Column {
        name: name.to_string(),
        data_type: *data_type,
        not_null: false,
        default: None,
        missing: Datum::Null,
        identity: Identity::No,
        hidden: false,
    };
    Table {
        id: TableId(id),
        schema: "public".into(),
        name: name.into(),
        version: 0,
        columns: columns.iter().map(column).collect(),
        primary_key: (0..key).collect(),
        primary_key_name: format!("{name}_pkey"),
        indexes: vec![],
        checks: Default::default(),
        foreign: Default::default(),
        triggers: Default::default(),
        domains: Default::default(),
        partitioning: None,
        placement: Placement::Home(RegionId(0)),
    }
}

fn letters(rng: &mut Rng, low: i64, high: i64) -> Datum {
    const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let count = rng.between(low, high);
    Datum::text((0..count).map(|_| *rng.pick(ALPHABET) as char).collect::<String>())
}

/// Ten lines an order, 3000 orders a district, ten districts a warehouse; 70 % delivered at load.
fn order_line_row(rng: &mut Rng, i: i64) -> Vec<Datum> {
    let (order, warehouse, district) = (i / 10 % 3000, i / 300_000, i / 30_000 % 10);
    let delivered = order < 2100;
    let cents = if delivered { 0 } else { rng.between(1, 999_999) };
    vec![
        Datum::Int(warehouse + 1),
        Datum::Int(district + 1),
        Datum::Int(order + 1),
        Datum::Int(i % 10 + 1),
        Datum::Int(rng.between(1, 100_000)),
        Datum::Int(warehouse + 1),
        if delivered { Datum::Timestamp(800_000_000_000_000 + order * 1_000_003) } else { Datum::Null },
        Datum::Int(5),
        Datum::Decimal(Decimal::new(cents.into(), 2)),
        letters(rng, 24, 24),
    ]
}

fn customer_row(rng: &mut Rng, i: i64) -> Vec<Datum> {
    let name = format!("BAR{}OUGHT", i % 1000);
    vec![
        Datum::Int(i / 30_000 + 1),
        Datum::Int(i % 30_000 + 1),
        letters(rng, 8, 16),
        Datum::text(name),
        letters(rng, 10, 20),
        letters(rng, 2, 2),
        Datum::text(format!("{:04}11111", rng.below(10_000))),
        Datum::text(format!("{:016}", rng.below(10_000_000_000_000_000))),
        Datum::text(if rng.chance(0.1) { "BC" } else { "GC" }),
        letters(rng, 300, 500),
        Datum::Decimal(Decimal::new(-1000, 2)),
        Datum::Timestamp(800_000_000_000_000),
    ]
}

fn run(table: &Table, rows: impl Iterator<Item = Vec<Datum>>, count: usize) {
    println!("{} ({count} rows)", table.name);
    let mut catalog = Catalog::default();
    let actions = vec![SchemaAction::CreateTable(table.clone())];
    catalog
        .apply(&SchemaChange { database: Default::default(), base_version: 0, actions })
        .expect("empty so far");
    let mut plain_bytes = 0;
    let writes: Vec<RowWrite> = rows
        .map(|values| {
            let row = Row::of(&values);
            plain_bytes += row.len();
            RowWrite::new(table.id, table.key_of(&values), Some(row))
        })
        .collect();
    let records: Vec<CommitRecord> = writes
        .chunks(WRITES_PER_RECORD)
        .enumerate()
        .map(|(i, writes)| CommitRecord {
            txn: TxnId::MIN,
            rank: Rank(i as u64 + 1),
            partition: P,
            position: LogPosition(i as u64 + 1),
            writes: writes.to_vec(),
            schema: None,
        })
        .collect();
    drop(writes);

    let mut store = ColumnStore::new([P], Arc::new(catalog));
    let (mut apply_s, mut merge_s, mut step_ms) = (0.0, 0.0, 0.0f64);
    for some in records.chunks(8) {
        let start = Clock::start();
        some.iter().for_each(|record| store.apply(record));
        apply_s += start.elapsed().as_secs_f64();
        let record = some.last().expect("chunks are not empty");
        let start = Clock::start();
        // Half the records lie above the watermark while loading.
        store.merge_step(65_536, Rank(record.rank.0 / 2));
        let step = start.elapsed().as_secs_f64();
        merge_s += step;
        step_ms = step_ms.max(step * 1e3);
    }
    let cut = Cut::Rank(Rank(records.len() as u64));
    let start = Clock::start();
    while store.merge_step(usize::MAX, Rank(records.len() as u64)) > 0 {}
    merge_s += start.elapsed().as_secs_f64();
    let status = store.status();
    let rate = |s: f64| count as f64 / s / 1e3;
    println!(
        "  apply {:.0} k rows/s, merge {:.0} k rows/s, both {:.0} k rows/s; longest merge {step_ms:.1} ms",
        rate(apply_s),
        rate(merge_s),
        rate(apply_s + merge_s)
    );
    println!(
        "  {} segments, {} rows in the delta, {:.1} bytes/row, {:.3} x plain row encoding ({:.1})",
        status.segments,
        status.delta_rows,
        status.bytes as f64 / count as f64,
        status.bytes as f64 / plain_bytes as f64,
        plain_bytes as f64 / count as f64
    );

    let start = Instant::now();
    let snapshot = store.snapshot(&cut, table.id, &BTreeSet::from([P])).expect("newest cut");
    println!("  snapshot {:.3} ms", start.elapsed().as_secs_f64() * 1e3);
    assert_eq!(snapshot.rows_visible(), count);
    for (column, description) in table.columns.iter().enumerate() {
        measure(&snapshot, &description.name, &[column]);
    }
    measure(&snapshot, "all", &(0..table.columns.len()).collect::<Vec<_>>());
    // Overwrite 5 % and look again: blocks are filtered, not sliced.
    let start = Clock::start();
    let mut written = 0;
    for (i, record) in records.iter().filter(|r| r.position.0.is_multiple_of(20)).enumerate() {
        let (position, rank) = (records.len() + i + 1, records.len() + i + 1);
        let (rank, position) = (Rank(rank as u64), LogPosition(position as u64));
        store.apply(&CommitRecord { rank, position, ..record.clone() });
        written += record.writes.len();
    }
    println!(
        "  overwrite {:.0} k rows/s (rows in segments)",
        written as f64 / start.elapsed().as_secs_f64() / 1e3
    );
    let snapshot = store.snapshot(&cut, table.id, &BTreeSet::from([P])).expect("newest cut");
    measure(&snapshot, "all, 5 % overwritten since", &(0..table.columns.len()).collect::<Vec<_>>());
}

/// Reads every value once, from the copy and from plain arrays.
fn measure(snapshot: &TableSnapshot, name: &str, projection: &[usize]) {
    let batches = || (0..snapshot.unit_count()).flat_map(|unit| snapshot.scan(unit, projection, &[]));
    let plain: Vec<RecordBatch> = batches().collect();
    let (mut copy_ms, mut plain_ms) = (f64::MAX, f64::MAX);
    let (mut a, mut b) = (0, 0);
    for _ in 0..7 {
        let start = Instant::now();
        a = batches().map(|batch| digest(&batch)).fold(0, u64::wrapping_add);
        copy_ms = copy_ms.min(start.elapsed().as_secs_f64() * 1e3);
        let start = Instant::now();
        b = plain.iter().map(digest).fold(0, u64::wrapping_add);
        plain_ms = plain_ms.min(start.elapsed().as_secs_f64() * 1e3);
    }
    assert_eq!(a, b);
    println!("  scan {name:<28} {copy_ms:8.1} ms, plain arrays {plain_ms:8.1} ms");
}

fn digest(batch: &RecordBatch) -> u64 {
    batch.columns().iter().map(|c| digest_one(c)).fold(0, u64::wrapping_add)
}

fn digest_one(array: &dyn Array) -> u64 {
    use arrow_schema::DataType as Arrow;
    match array.data_type() {
        Arrow::Int32 => array.as_primitive::<Int32Type>().values().iter().map(|v| *v as u64).sum(),
        Arrow::Decimal128(..) => array
            .as_primitive::<Decimal128Type>()
            .values()
            .iter()
            .map(|v| *v as u64)
            .fold(0, u64::wrapping_add),
        Arrow::Timestamp(..) => array
            .as_primitive::<TimestampMicrosecondType>()
            .values()
            .iter()
            .map(|v| *v as u64)
            .fold(0, u64::wrapping_add),
        Arrow::Utf8View => array.as_string_view().lengths().map(u64::from).sum(),
        other => panic!("{other} is not in these tables"),
    }
}

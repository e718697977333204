//! The 22 CH queries on plain DataFusion over the same rows in memory: the yardstick for our own scans.
//!
//! `cargo run --release -p session --features yardstick --example plain_datafusion -- --warehouses 10`
//!
//! `--shrink N` divides the sizes, `--rounds N` repeats (medians count), `--partitions N` splits each table,
//! `--explain Q` prints a plan instead, and with SHOW set in the environment the answers are printed.

use base::{DataType, Datum};
use datafusion::arrow::array::{ArrayRef, Decimal128Builder, Int32Builder, Int64Builder, RecordBatch};
use datafusion::arrow::array::{StringBuilder, TimestampMicrosecondBuilder};
use datafusion::arrow::datatypes::{DataType as ArrowType, Field, Schema, TimeUnit};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use std::sync::Arc;
use std::time::Instant;
use workload::ch::{self, QUERIES, Scope, query};
use workload::table::TableSpec;
use workload::tpcc::{self, Tpcc};

/// µs from 1970 to 2000.
const EPOCH_2000_US: i64 = 946_684_800_000_000;
const ROWS_PER_BATCH: usize = 8192;

#[tokio::main]
async fn main() -> Result<()> {
    let arg = |name: &str, default: i32| {
        let mut args = std::env::args().skip_while(|arg| arg != name).skip(1);
        args.next().and_then(|value| value.parse().ok()).unwrap_or(default)
    };
    let (warehouses, shrink, rounds) = (arg("--warehouses", 1), arg("--shrink", 1), arg("--rounds", 3));
    let partitions = arg("--partitions", 2) as usize;
    let tpcc = Tpcc::new(warehouses).shrunk(shrink).loaded_at_us(850_000_000_000_000);
    let context = SessionContext::new();
    for table in tpcc::Table::ALL {
        let warehouses = if table == tpcc::Table::Item { 1 } else { warehouses };
        let rows = (1..=warehouses).flat_map(|w| tpcc.rows(table, w));
        register(&context, table.spec(), rows, partitions)?;
    }
    for table in ch::Table::ALL {
        register(&context, table.spec(), table.rows(tpcc.seed), partitions)?;
    }
    let explained = arg("--explain", 0) as usize;
    if explained > 0 {
        let sql = format!("EXPLAIN {}", query(explained, Scope::All));
        println!("{}", pretty_format_batches(&context.sql(&sql).await?.collect().await?)?);
        return Ok(());
    }
    let mut sum_ms = 0.0;
    for number in QUERIES {
        let sql = query(number, Scope::All);
        let mut times_ms: Vec<f64> = Vec::new();
        let mut rows = 0;
        for _ in 0..rounds {
            let begin = Instant::now();
            let batches = context.sql(&sql).await?.collect().await?;
            times_ms.push(begin.elapsed().as_secs_f64() * 1000.0);
            rows = batches.iter().map(RecordBatch::num_rows).sum();
            if std::env::var_os("SHOW").is_some() {
                println!("{}", pretty_format_batches(&batches)?);
            }
        }
        times_ms.sort_by(f64::total_cmp);
        let median_ms = times_ms[times_ms.len() / 2];
        sum_ms += median_ms;
        println!("Q{number:<3} {median_ms:>9.2} ms  {rows:>6} rows");
    }
    println!("sum {sum_ms:>9.2} ms");
    Ok(())
}

fn register(
    context: &SessionContext,
    spec: &TableSpec,
    rows: impl Iterator<Item = Vec<Datum>>,
    partitions: usize,
) -> Result<()> {
    let fields: Vec<Field> = spec
        .columns
        .iter()
        .map(|(name, data_type)| {
            let name = name.to_ascii_lowercase();
            let nullable = spec.nullable.contains(&name.as_str());
            Field::new(name, arrow_type(*data_type), nullable)
        })
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let mut parts: Vec<Vec<RecordBatch>> = vec![Vec::new(); partitions];
    let mut batch: Vec<Vec<Datum>> = Vec::with_capacity(ROWS_PER_BATCH);
    let mut rows = rows.peekable();
    let mut nth = 0;
    while rows.peek().is_some() {
        batch.clear();
        batch.extend(rows.by_ref().take(ROWS_PER_BATCH));
        let columns: Vec<ArrayRef> =
            (0..spec.columns.len()).map(|column| array(spec.columns[column].1, &batch, column)).collect();
        parts[nth % partitions].push(RecordBatch::try_new(schema.clone(), columns)?);
        nth += 1;
    }
    context.register_table(spec.name, Arc::new(MemTable::try_new(schema, parts)?))?;
    Ok(())
}

fn arrow_type(data_type: DataType) -> ArrowType {
    match data_type {
        DataType::Integer => ArrowType::Int32,
        DataType::BigInt => ArrowType::Int64,
        DataType::Numeric { precision, scale } => ArrowType::Decimal128(precision, scale as i8),
        DataType::Timestamp => ArrowType::Timestamp(TimeUnit::Microsecond, None),
        _ => ArrowType::Utf8,
    }
}

fn array(data_type: DataType, rows: &[Vec<Datum>], column: usize) -> ArrayRef {
    macro_rules! built {
        ($builder:expr, $datum:pat => $value:expr) => {{
            let mut builder = $builder;
            rows.iter().for_each(|row| match &row[column] {
                $datum => builder.append_value($value),
                _ => builder.append_null(),
            });
            Arc::new(builder.finish())
        }};
    }
    match arrow_type(data_type) {
        ArrowType::Int32 => built!(Int32Builder::new(), Datum::Int(i) => *i as i32),
        ArrowType::Int64 => built!(Int64Builder::new(), Datum::Int(i) => *i),
        decimal @ ArrowType::Decimal128(..) => {
            built!(Decimal128Builder::new().with_data_type(decimal), Datum::Decimal(d) => d.units())
        }
        ArrowType::Timestamp(..) => {
            built!(TimestampMicrosecondBuilder::new(), Datum::Timestamp(us) => us + EPOCH_2000_US)
        }
        _ => built!(StringBuilder::new(), Datum::Text(s) => s),
    }
}

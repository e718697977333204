//! The 22 queries of the benchmark of freshness, over columns and over the rows of the same snapshot.
//!
//! Inside one read-only block every table is read by key, which reads the store of rows, and every query is asked, which
//! reads columns. The rows then go into tables in memory of a planner and executor that know nothing of either store:
//! its answers to the same texts have to be the same.

use crate::vodka::rows;
use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType as ArrowType, Field, Schema, TimeUnit};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use std::sync::Arc;
use tokio_postgres::{Client, SimpleQueryMessage};
use workload::vodka::Table;
use workload::vodka::queries::{QUERIES, moving, query};

/// A moving date that leaves about half of what is loaded in each window.
const MIDDLE: &str = "select (extract(epoch from percentile_disc(0.5) within group (order by ol_delivery_d)) \
    - extract(epoch from timestamp '2000-01-01 00:00:00'))::bigint from vodka_order_line";

pub async fn all_queries_have_the_same_answers_over_rows_and_over_columns(client: &Client) {
    let middle_us = rows(client, MIDDLE).await[0][0].parse::<i64>().unwrap() * 1_000_000;
    let texts: Vec<(usize, String)> =
        QUERIES.map(|number| (number, query(number, moving(number).map(|_| middle_us)))).collect();

    client.batch_execute("begin isolation level repeatable read read only").await.unwrap();
    let plain = SessionContext::new();
    for table in Table::ALL {
        let by_key = by_key(table);
        let plan = rows(client, &format!("explain {by_key}")).await;
        assert!(plan[0][0].starts_with("Read rows of "), "{by_key}: {plan:?}");
        register(&plain, table, &values(client, &by_key).await);
    }
    let mut over_columns = Vec::new();
    for (_, text) in &texts {
        over_columns.push(values(client, text).await);
    }
    client.batch_execute("commit").await.unwrap();

    let mut empty = 0;
    for ((number, text), over_columns) in texts.iter().zip(over_columns) {
        let over_rows = answer(&plain, text).await;
        empty += usize::from(over_rows.is_empty());
        assert_eq!(over_rows.len(), over_columns.len(), "Q{number}: {over_rows:?}, {over_columns:?}");
        for (row, column) in over_rows.iter().flatten().zip(over_columns.iter().flatten()) {
            assert!(is_same(row.as_deref(), column.as_deref()), "Q{number}: {row:?} and {column:?}");
        }
    }
    // In so small a database a few find nothing.
    assert!(empty <= 6, "{empty} queries have no answer");
}

/// All rows of a table in the order of its key, which few rows are read in.
fn by_key(table: Table) -> String {
    let spec = table.spec();
    format!("select * from {} order by {} limit 1000000", spec.name, spec.primary_key.join(", "))
}

type Row = Vec<Option<String>>;

async fn values(client: &Client, sql: &str) -> Vec<Row> {
    let messages = client.simple_query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let row = |message| match message {
        SimpleQueryMessage::Row(row) => Some((0..row.len()).map(|n| row.get(n).map(String::from)).collect()),
        _ => None,
    };
    messages.into_iter().filter_map(row).collect()
}

fn register(plain: &SessionContext, table: Table, rows: &[Row]) {
    let spec = table.spec();
    let typed = |(at, (name, data_type)): (usize, &(&str, base::DataType))| {
        let texts: StringArray = rows.iter().map(|row| row[at].as_deref()).collect();
        let array = cast(&texts, &arrow_type(*data_type)).unwrap();
        (Field::new(name.to_ascii_lowercase(), array.data_type().clone(), true), array)
    };
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = spec.columns.iter().enumerate().map(typed).unzip();
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(schema.clone(), arrays).unwrap();
    let table = MemTable::try_new(schema, vec![vec![batch]]).unwrap();
    plain.register_table(spec.name, Arc::new(table)).unwrap();
}

fn arrow_type(data_type: base::DataType) -> ArrowType {
    match data_type {
        base::DataType::Integer => ArrowType::Int32,
        base::DataType::BigInt => ArrowType::Int64,
        base::DataType::Numeric { precision, scale } => ArrowType::Decimal128(precision, scale as i8),
        base::DataType::Timestamp => ArrowType::Timestamp(TimeUnit::Microsecond, None),
        _ => ArrowType::Utf8,
    }
}

async fn answer(plain: &SessionContext, text: &str) -> Vec<Row> {
    let batches =
        plain.sql(text).await.unwrap_or_else(|error| panic!("{text}: {error}")).collect().await.unwrap();
    let mut out = Vec::new();
    for batch in &batches {
        let options = FormatOptions::default().with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"));
        for at in 0..batch.num_rows() {
            let value = |array: &ArrayRef| {
                let formatter = ArrayFormatter::try_new(array.as_ref(), &options).unwrap();
                array.is_valid(at).then(|| formatter.value(at).to_string())
            };
            out.push(batch.columns().iter().map(value).collect());
        }
    }
    out
}

/// The same text, or numbers that differ by no more than how a system rounds a quotient.
fn is_same(a: Option<&str>, b: Option<&str>) -> bool {
    let numbers = (a.and_then(|a| a.parse::<f64>().ok()), b.and_then(|b| b.parse::<f64>().ok()));
    match numbers {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-5 * a.abs().max(1.0),
        _ => a == b,
    }
}

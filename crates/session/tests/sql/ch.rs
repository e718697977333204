//! The 22 queries of CH-benCHmark: columns at a cut answer what rows at the same cut do.

use crate::support::{Regions, run};
use analytics::types::{from_arrow, rows_of};
use base::{DataType, Datum};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use session::{Response, Session};
use std::sync::Arc;
use workload::ch::{self, QUERIES, Scope};
use workload::table::{Placement, TableSpec};
use workload::tpcc::{self, Tpcc};

async fn copy(s: &mut Session, spec: &TableSpec, rows: impl Iterator<Item = Vec<Datum>>) {
    assert_eq!(run(s, &spec.copy_in()).await, "COPY IN");
    let mut text = String::new();
    rows.for_each(|row| workload::copy::write_row(&mut text, &row));
    s.copy_data(text.as_bytes()).await.unwrap();
    s.copy_done().await.unwrap();
}

/// All rows of a table in the session's transaction, by rows, as a table of plain DataFusion.
async fn from_rows(s: &mut Session, context: &SessionContext, spec: &TableSpec) {
    let response = s.simple(&format!("select * from {} for update", spec.name)).await.pop().unwrap();
    let Ok(Response::Rows(mut rows)) = response else { panic!("{}", spec.name) };
    let rows = rows.stream.collect().await.unwrap();
    let arrays = spec.columns.iter().enumerate().map(|(i, (name, data_type))| {
        let values: Vec<Datum> = rows.iter().map(|row| row[i].clone()).collect();
        (name.to_ascii_lowercase(), colstore::array_of(*data_type, &values), true)
    });
    let batch = RecordBatch::try_from_iter_with_nullable(arrays).unwrap();
    let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
    context.register_table(spec.name, Arc::new(table)).unwrap();
}

fn printed(rows: Vec<Vec<Datum>>) -> Vec<String> {
    let mut lines: Vec<String> = rows
        .iter()
        .map(|row| {
            let cell = |v: &Datum| match v {
                // Sums of doubles depend on their order, and an average of whole numbers is one in plain DataFusion.
                Datum::Float(f) => format!("{f:.4}"),
                // A quotient has PostgreSQL's digits here, and fewer in plain DataFusion.
                Datum::Decimal(d) if d.scale() > 0 => {
                    base::text::display(&Datum::Decimal(d.round_at(4).unwrap_or(*d)))
                }
                v => base::text::display(v),
            };
            row.iter().map(cell).collect::<Vec<_>>().join("|")
        })
        .collect();
    lines.sort();
    lines
}

#[tokio::test]
async fn columns_answer_what_rows_at_the_same_cut_answer() {
    compare(Regions::new(), &[Scope::All, Scope::Warehouses(&[2]), Scope::Warehouses(&[1, 3])]).await;
}

#[tokio::test]
async fn columns_of_several_readers_answer_what_rows_at_the_same_cut_answer() {
    compare(Regions::split(), &[Scope::All, Scope::Warehouses(&[1, 3])]).await;
}

/// Every query over each scope: columns against rows, in one transaction.
async fn compare(regions: Regions, scopes: &[Scope<'_>]) {
    let mut s = regions.session(0);
    let names = ["us", "eu", "asia"].map(String::from).to_vec();
    let placement = Placement::RoundRobin(names);
    let tpcc = Tpcc::new(3).shrunk(100).loaded_at_us(850_000_000_000_000);
    let ddl = tpcc.create_tables(&placement).into_iter().chain(tpcc.create_indexes());
    for sql in ddl.chain(ch::tables::create_tables(&placement)) {
        assert!(run(&mut s, &sql).await.starts_with("CREATE"), "{sql}");
    }
    for table in tpcc::Table::ALL {
        let warehouses = if table == tpcc::Table::Item { 1 } else { 3 };
        copy(&mut s, table.spec(), (1..=warehouses).flat_map(|w| tpcc.rows(table, w))).await;
    }
    for table in ch::Table::ALL {
        copy(&mut s, table.spec(), table.rows(tpcc.seed)).await;
    }
    // Versions that are gone, rows that came and went.
    for sql in [
        "update order_line set ol_amount = ol_amount + 1, ol_delivery_d = '2026-01-01' where ol_w_id = 1 and ol_d_id = 1",
        "delete from new_order where no_w_id = 2 and no_d_id < 5",
        "update customer set c_balance = c_balance + 100 where c_w_id = 3",
        "update stock set s_quantity = s_quantity - 5, s_order_cnt = s_order_cnt + 3 where s_w_id = 2",
    ] {
        assert!(run(&mut s, sql).await.split(' ').next_back().unwrap().parse::<u64>().unwrap() > 0, "{sql}");
    }
    let answer =
        run(&mut s, "call payment(1, 1, 2, 3, 4, null, 42.50, 999999, timestamp '2026-11-21 12:00')").await;
    assert!(answer.starts_with("4|"), "{answer}");
    assert_eq!(run(&mut s, "select h_amount from history where h_w_id = 1 and h_id = 999999").await, "42.50");
    // In a block a procedure sees what the block has written, and is taken back with it.
    let call = "call payment(1, 1, 2, 3, 4, null, 7.25, 999998, timestamp '2026-11-21 12:00')";
    let balance = "select c_balance from customer where c_w_id = 2 and c_d_id = 3 and c_id = 4";
    let before = run(&mut s, balance).await;
    for (end, stays) in [("rollback", false), ("commit", true)] {
        assert_eq!(run(&mut s, "begin").await, "BEGIN");
        let raised = format!("update customer set c_balance = c_balance + 7.25 {}", &balance[30..]);
        assert_eq!(run(&mut s, &raised).await, "UPDATE 1");
        let answer = run(&mut s, call).await;
        assert!(answer.starts_with("4|"), "{answer}");
        assert_eq!(run(&mut s, balance).await, before, "what is added is paid");
        assert_eq!(run(&mut s, end).await, end.to_uppercase());
        let paid = run(&mut s, "select h_amount from history where h_w_id = 1 and h_id = 999998").await;
        assert_eq!(paid, if stays { "7.25" } else { "" });
        assert_eq!(run(&mut s, balance).await, before);
    }
    assert!(run(&mut s, "call payment(1)").await.starts_with("42883 procedure payment with 1 arguments"));
    let mut config = SessionConfig::new().with_target_partitions(2);
    config.options_mut().sql_parser.parse_float_as_decimal = true;
    let context = SessionContext::new_with_config(config);
    assert_eq!(run(&mut s, "begin").await, "BEGIN");
    for table in tpcc::Table::ALL {
        from_rows(&mut s, &context, table.spec()).await;
    }
    for table in ch::Table::ALL {
        from_rows(&mut s, &context, table.spec()).await;
    }
    let mut with_rows = 0;
    for number in QUERIES {
        for &scope in scopes {
            let sql = ch::query(number, scope);
            let response = s.simple(&sql).await.pop().unwrap();
            let ours = match response {
                Ok(Response::Rows(mut rows)) => rows.stream.collect().await.unwrap(),
                Ok(_) => panic!("Q{number} returns rows"),
                Err(e) => panic!("Q{number}: {e:?}"),
            };
            let batches = context.sql(&sql).await.unwrap().collect().await.unwrap();
            let mut theirs = Vec::new();
            for batch in &batches {
                let fields = batch.schema();
                let types: Vec<DataType> =
                    fields.fields().iter().map(|f| from_arrow(f.data_type())).collect();
                theirs.extend(rows_of(batch, &types).unwrap());
            }
            with_rows += usize::from(!ours.is_empty());
            assert_eq!(printed(ours), printed(theirs), "Q{number} {scope:?}");
        }
    }
    assert!(with_rows > 13 * scopes.len(), "most queries find something: {with_rows}");
    assert_eq!(run(&mut s, "commit").await, "COMMIT");
}

//! The drivers and the SQL against a real PostgreSQL, where one is installed: set
//! `MERIDIAN_TEST_POSTGRES_BINDIR`, or have `pg_config` on the path. Without one these tests say so and pass.

mod server;

use base::Datum;
use bench::args::{Common, Mode};
use bench::load::{Job, Loading, load};
use bench::server::Server;
use clap::Parser;
use server::PostgreSql;
use tokio_postgres::Client;
use workload::ch::{QUERIES, Scope, query};
use workload::model::Model;
use workload::table::Placement;
use workload::tpcc::{Inputs, Mix, PLPGSQL, Table, Tpcc};

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: bench::Command,
}

async fn bench(line: &str) -> anyhow::Result<()> {
    let words = std::iter::once("bench").chain(line.split_whitespace());
    bench::run(Cli::try_parse_from(words)?.command).await
}

async fn loaded(url: &str, tpcc: &Tpcc) -> (Server, Client) {
    let server = Server::reach(url, None).await.unwrap();
    let loading = Loading {
        placement: Placement::Plain,
        loaders: 2,
        rows_per_copy: 1000,
        drop: true,
        resume: false,
        show_progress: false,
    };
    load(&server, Job::tpcc(tpcc, &loading.placement), &loading).await.unwrap();
    let client = server.connect().await.unwrap();
    (server, client)
}

/// A value as PostgreSQL's `::text` shows it.
fn shown(value: &Datum) -> Option<String> {
    (!value.is_null()).then(|| base::text::display(value))
}

/// Every row of a table as text, in key order.
async fn rows(client: &Client, table: Table) -> Vec<Vec<Option<String>>> {
    let spec = table.spec();
    let columns: Vec<String> = spec.column_names().iter().map(|name| format!("{name}::text")).collect();
    // With the table's name: without it the columns' texts would be put in order.
    let key: Vec<String> = spec.primary_key.iter().map(|name| format!("{}.{name}", spec.name)).collect();
    let sql = format!("select {} from {} order by {}", columns.join(","), spec.name, key.join(","));
    let rows = client.query(&sql, &[]).await.unwrap();
    rows.iter().map(|row| (0..columns.len()).map(|n| row.get(n)).collect()).collect()
}

/// An SQL literal for a procedure's argument.
fn literal(value: &Datum) -> String {
    match value {
        Datum::Null => "NULL".into(),
        Datum::Text(_) => format!("'{}'", base::text::display(value)),
        Datum::Timestamp(_) => format!("timestamp '{}'", base::text::display(value)),
        other => base::text::display(other),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn our_procedures_do_what_their_plpgsql_twins_do() {
    let Some(postgres) = PostgreSql::start() else { return };
    let tpcc = Tpcc::new(2).shrunk(50).loaded_at_us(800_000_000_123_456);
    let (_, client) = loaded(&postgres.url, &tpcc).await;
    client.batch_execute(PLPGSQL).await.unwrap();
    let topology = base::topology::Topology::one_node_per_region(base::wan::Wan::preset("local").unwrap(), 1);
    let mut model = Model::new(tpcc.catalog(&Placement::Plain, &topology), topology);
    for table in Table::ALL {
        let id = model.catalog.require(table.spec().name).unwrap().id;
        let warehouses = if table == Table::Item { 1 } else { tpcc.warehouses };
        (1..=warehouses).for_each(|w| tpcc.rows(table, w).for_each(|row| model.insert(id, &row)));
    }
    let procedures = workload::procedures();
    let mix = Mix { remote_line: 0.2, remote_payment: 0.4, weights: [40, 40, 7, 7, 6], ..Mix::default() };
    let mut terminal = Inputs::new(&tpcc, mix, 0, 1, 1_000_000);
    for n in 0..600 {
        let (name, args) = terminal.at_random_warehouse().next_input().call(900_000_000_000_000 + n);
        let sql = format!("CALL {name}({})", args.iter().map(literal).collect::<Vec<_>>().join(", "));
        let theirs = client.simple_query(&sql).await;
        match (model.call(&**procedures.get(name).unwrap(), &args), theirs) {
            (Ok(ours), Ok(theirs)) => {
                let row = theirs.iter().find_map(|message| match message {
                    tokio_postgres::SimpleQueryMessage::Row(row) => Some(row),
                    _ => None,
                });
                let row = row.expect("a procedure returns a row");
                let theirs: Vec<Option<String>> =
                    (0..row.len()).map(|n| row.get(n).map(String::from)).collect();
                let ours: Vec<Option<String>> = ours[0].values().map(|value| shown(&value)).collect();
                assert_eq!(ours, theirs, "{sql}");
            }
            (Err(ours), Err(theirs)) => {
                assert_eq!(ours.state.as_str(), theirs.code().unwrap().code(), "{sql}")
            }
            (ours, theirs) => panic!("{sql}: {ours:?} but {theirs:?}"),
        }
    }
    for table in Table::ALL {
        let ours: Vec<Vec<Option<String>>> =
            model.rows(table.spec().name).iter().map(|row| row.iter().map(shown).collect()).collect();
        let theirs = rows(&client, table).await;
        assert_eq!(ours.len(), theirs.len(), "{table:?}");
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours, theirs, "{table:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_query_runs_and_a_scope_of_all_warehouses_changes_nothing() {
    let Some(postgres) = PostgreSql::start() else { return };
    let tpcc = Tpcc::new(2).shrunk(20).loaded_at_us(bench::load::now_us());
    let (_, client) = loaded(&postgres.url, &tpcc).await;
    let mut empty = Vec::new();
    for number in QUERIES {
        let [all, both, one] =
            [Scope::All, Scope::Warehouses(&[1, 2]), Scope::Warehouses(&[2])].map(|scope| {
                let client = &client;
                async move {
                    let sql = query(number, scope);
                    client
                        .simple_query(&sql)
                        .await
                        .unwrap_or_else(|error| panic!("Q{number}: {error:?}\n{sql}"))
                }
            });
        let text = |messages: Vec<tokio_postgres::SimpleQueryMessage>| {
            let mut rows: Vec<Vec<Option<String>>> = messages
                .iter()
                .filter_map(|message| match message {
                    tokio_postgres::SimpleQueryMessage::Row(row) => {
                        Some((0..row.len()).map(|n| row.get(n).map(String::from)).collect())
                    }
                    _ => None,
                })
                .collect();
            rows.sort();
            rows
        };
        let (all, both) = (text(all.await), text(both.await));
        // 19 names warehouses itself when it has no scope.
        if number != 19 {
            assert_eq!(all, both, "Q{number}");
        }
        text(one.await);
        if all.is_empty() {
            empty.push(number);
        }
    }
    // 22 looks for customers without an order; there are none.
    assert!(empty.contains(&22) && empty.len() < 6, "without rows: {empty:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn both_modes_keep_the_conditions_and_a_broken_one_is_found() {
    let Some(postgres) = PostgreSql::start() else { return };
    let url = &postgres.url;
    let text = |error: anyhow::Error| format!("{error:#}");
    let error = text(bench(&format!("tpcc --url {url}")).await.unwrap_err());
    assert!(error.contains("no TPC-C tables") && error.contains("--load"), "{error}");
    let dir = &postgres.dir;
    let outputs = format!("--json {0}/x.json --csv {0}/x.csv --html {0}/x.html", dir.display());
    let brief = "--clients 4 --duration 800ms --warmup 0s";
    bench(&format!("tpcc --url {url} {brief} --load --warehouses 2 --shrink 50 {outputs}")).await.unwrap();
    let json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(dir.join("x.json")).unwrap()).unwrap();
    assert!(json["sides"][0]["committed"].as_u64().unwrap() > 0, "{json}");
    assert_eq!(json["sides"][0]["checks"].as_array().unwrap().len(), 11);
    assert!(std::fs::read_to_string(dir.join("x.html")).unwrap().contains("<svg"));
    assert!(std::fs::read_to_string(dir.join("x.csv")).unwrap().contains("new_order"));
    bench(&format!("tpcc --url {url} {brief} --mode procedures --compare {url} --slices 2")).await.unwrap();
    bench(&format!("ch --url {url} --rounds 1 --queries 1,6,12 --scope 2 --terminals 2")).await.unwrap();
    bench(&format!("point --url {url} {brief} --load")).await.unwrap();
    bench(&format!("ycsb --url {url} {brief} --load --records 500 --workload d")).await.unwrap();
    bench(&format!("ycsb --url {url} {brief} --workload f --operations 3 --rate 200")).await.unwrap();
    let error = text(bench(&format!("tpcc --url {url} {brief} --load")).await.unwrap_err());
    assert!(error.contains("42P07") && error.contains("--drop"), "{error}");
    let error = text(bench(&format!("tpcc --url {url} {brief} --warehouses 3")).await.unwrap_err());
    assert!(error.contains("has 2 warehouses, not 3"), "{error}");

    let server = Server::reach(url, None).await.unwrap();
    let client = server.connect().await.unwrap();
    let broken = async || -> Vec<usize> {
        let results = bench::tpcc::check(&server).await.unwrap();
        results.iter().enumerate().filter(|(_, r)| r.violations != Some(0)).map(|(n, _)| n + 1).collect()
    };
    assert!(broken().await.is_empty());
    for (sql, conditions) in [
        ("update district set d_ytd = d_ytd + 1 where d_id = 3 and d_w_id = 1", vec![1, 9]),
        ("update district set d_next_o_id = d_next_o_id + 1 where d_id = 3 and d_w_id = 1", vec![2]),
        (
            "delete from order_line where ol_w_id = 1 and ol_d_id = 1 and ol_o_id = 60 and ol_number = 1",
            vec![4, 6],
        ),
        (
            "update customer set c_balance = c_balance + 1 where c_w_id = 2 and c_d_id = 2 and c_id = 2",
            vec![10, 11],
        ),
        ("update orders set o_carrier_id = null where o_w_id = 1 and o_d_id = 1 and o_id = 1", vec![5, 7]),
        (
            "delete from new_order where no_w_id = 1 and no_d_id = 4 and no_o_id = \
             (select min(no_o_id) + 1 from new_order where no_w_id = 1 and no_d_id = 4)",
            vec![3, 5],
        ),
    ] {
        assert_eq!(client.execute(sql, &[]).await.unwrap(), 1, "{sql}");
        let found = broken().await;
        assert!(conditions.iter().all(|n| found.contains(n)), "{sql}: {found:?}");
    }
    let error = text(bench(&format!("tpcc --url {url} {brief}")).await.unwrap_err());
    assert!(error.contains("is broken"), "{error}");
}

#[test]
fn the_defaults_are_those_of_a_real_run() {
    let line = ["bench", "tpcc", "--url", "postgres://h/d"];
    let bench::Command::Tpcc(args) = Cli::try_parse_from(line).unwrap().command else { panic!("it is tpcc") };
    let Common { clients, retries, load, isolation, .. } = args.common;
    assert_eq!((clients, retries, load, isolation), (8, 20, false, None));
    assert_eq!((args.mode, args.mix), (Mode::Interactive, vec![45, 43, 4, 4, 4]));
    assert!(Cli::try_parse_from(["bench", "tpcc", "--url", "x", "--drop"]).is_err(), "--drop needs --load");
}

//! The benchmark of freshness against the whole database: a small run, and three queries beside an oracle that reads the
//! rows and loops over them.

use crate::rows_and_columns::all_queries_have_the_same_answers_over_rows_and_over_columns;
use crate::server::Server;
use clap::{Args, FromArgMatches};
use std::collections::{BTreeMap, BTreeSet};
use tokio_postgres::Client;
use vodka::VodkaArgs;
use workload::vodka::queries::query;

fn arguments(given: &[&str]) -> VodkaArgs {
    let command = VodkaArgs::augment_args(clap::Command::new("vodka").no_binary_name(true));
    VodkaArgs::from_arg_matches(&command.try_get_matches_from(given).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_run_loads_measures_and_reports_and_its_joins_lose_no_row() {
    let server = Server::start_with(&["--regions", "us"], 1);
    let url = format!("postgres://tester@127.0.0.1:{}/meridian", server.ports[0]);
    let out = std::env::temp_dir().join(format!("vodka-{}", std::process::id()));
    let folder = out.to_string_lossy().into_owned();
    let common = ["--tp", url.as_str(), "--shrink", "100", "--out", folder.as_str()];
    let with = |more: &[&'static str]| arguments(&[&common[..], more].concat());
    let run = [
        "--tps",
        "40",
        "--duration",
        "3s",
        "--warmup",
        "500ms",
        "--probes",
        "3",
        "--sample",
        "5000",
        "--check",
        "--cardinality-at",
        "1s",
        "--frontier",
        "300ms",
        "--frontier-tp",
        "1",
        "--frontier-threads",
        "1",
        "--most-streams",
        "300ms",
        "--most-streams-limit",
        "2",
    ];
    vodka::run(with(&run)).await.unwrap();
    let summary = std::fs::read_to_string(out.join("summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    assert!(summary["incomplete"].is_null() && summary["tps"].as_f64().unwrap() > 1.0, "{summary}");
    assert!(summary["checks"].as_array().unwrap().iter().all(|check| check["violations"] == 0), "{summary}");
    // One server with one copy: whatever was answered before a query is in it.
    assert_eq!((&summary["freshness_ms"]["p99"], &summary["missing_rows"]), (&0.0.into(), &0.into()));
    assert_eq!(summary["hattrick_ms"]["p99"], 0.0, "{summary}");
    let queries = summary["queries"].as_array().unwrap();
    assert!(queries.len() == 22 && queries.iter().all(|q| q["cardinality_error"].is_number()), "{summary}");
    let run = std::fs::read_to_string(out.join("run.json")).unwrap();
    let run: serde_json::Value = serde_json::from_str(&run).unwrap();
    assert!(run["sync"]["probes"] == 3 && run["sync"]["given_up"] == 0, "{}", run["sync"]);
    assert!(run["cardinality_during"].as_array().is_some_and(|list| list.len() == 1), "{run}");
    assert!(run["most_streams"]["trials"].as_array().is_some_and(|list| !list.is_empty()), "{run}");
    let csv = std::fs::read_to_string(out.join("frontier.csv")).unwrap();
    assert!(csv.lines().count() == 4 && csv.contains("\n0,1,0.000,") && csv.contains("\n1,0,"), "{csv}");
    let csv = std::fs::read_to_string(out.join("result.csv")).unwrap();
    assert!(
        csv.starts_with("run,elapsed,latency,dblatency,ttype,rbk,dskipped,error\n")
            && csv.lines().count() > 20
    );
    assert!(std::fs::read_to_string(out.join("report.html")).unwrap().contains("<svg"));
    std::fs::remove_dir_all(&out).unwrap();

    // Another size is refused, and what is half loaded too.
    let other = vodka::run(with(&["--warehouses", "2"])).await.unwrap_err().to_string();
    assert!(other.contains("holds 1 warehouses, not 2"), "{other}");
    let other = vodka::run(with(&["--seed", "7"])).await.unwrap_err().to_string();
    assert!(other.contains("holds rows of seed 1, not 7"), "{other}");
    let client = server.session(0).await;
    oracle(&client).await;
    all_queries_have_the_same_answers_over_rows_and_over_columns(&client).await;
    client.batch_execute("drop table vodka_loaded").await.unwrap();
    let half = vodka::run(with(&[])).await.unwrap_err().to_string();
    assert!(half.contains("nothing tells what they are to hold") && half.contains("--drop"), "{half}");

    a_load_that_was_interrupted_goes_on(&client, async |more| vodka::run(with(more)).await).await;
}

/// As an interruption leaves it: some tables have all rows, some the first, others none.
async fn a_load_that_was_interrupted_goes_on(
    client: &Client,
    run: impl AsyncFn(&[&'static str]) -> anyhow::Result<()>,
) {
    const COUNTS: &str = "select (select count(*) from vodka_item), (select count(*) from vodka_history), \
        (select count(*) from vodka_order_line), (select sum(ol_amount) from vodka_order_line), \
        (select sum(s_quantity) from vodka_stock)";
    run(&["--load-only", "--drop"]).await.unwrap();
    let whole = rows(client, COUNTS).await;
    for interruption in [
        "update vodka_loaded set is_complete = false",
        "delete from vodka_item where i_id > 300",
        "delete from vodka_order_line where ol_d_id > 4 or ol_d_id = 4 and (ol_o_id > 7 or ol_o_id = 7 and ol_number > 2)",
        "delete from vodka_history",
        "delete from vodka_stock",
    ] {
        client.batch_execute(interruption).await.unwrap();
    }
    run(&["--load-only", "--check"]).await.unwrap();
    assert_eq!(rows(client, COUNTS).await, whole);
    assert_eq!(rows(client, "select is_complete from vodka_loaded").await, [["t"]]);
}

/// Rows as text, by the simple protocol.
pub async fn rows(client: &Client, sql: &str) -> Vec<Vec<String>> {
    let messages = client.simple_query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let row = |message: tokio_postgres::SimpleQueryMessage| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|n| row.get(n).unwrap_or("").to_string()).collect())
        }
        _ => None,
    };
    messages.into_iter().filter_map(row).collect()
}

/// Q9, Q20 and Q21 by loops over all rows.
async fn oracle(client: &Client) {
    let nations: BTreeMap<String, String> =
        rows(client, "select n_nationkey, n_name from vodka_nation").await.into_iter().map(two).collect();
    let suppliers: BTreeMap<String, (String, String, String)> =
        rows(client, "select su_suppkey, su_name, su_nationkey, su_address from vodka_supplier")
            .await
            .into_iter()
            .map(|r| (r[0].clone(), (r[1].clone(), nations[&r[2]].clone(), r[3].clone())))
            .collect();
    let items: BTreeMap<String, String> =
        rows(client, "select i_id, i_name from vodka_item").await.into_iter().map(two).collect();
    let stock: BTreeMap<(String, String), (String, f64, f64)> =
        rows(client, "select s_w_id, s_i_id, s_suppkey, s_supplycost, s_quantity from vodka_stock")
            .await
            .into_iter()
            .map(|r| ((r[0].clone(), r[1].clone()), (r[2].clone(), number(&r[3]), number(&r[4]))))
            .collect();
    let orders: BTreeMap<(String, String, String), String> =
        rows(client, "select o_w_id, o_d_id, o_id, o_entry_d from vodka_orders")
            .await
            .into_iter()
            .map(|r| ((r[0].clone(), r[1].clone(), r[2].clone()), r[3].clone()))
            .collect();
    let lines = rows(
        client,
        "select ol_w_id, ol_d_id, ol_o_id, ol_supply_w_id, ol_i_id, ol_suppkey, ol_amount, ol_discount, ol_quantity, \
         ol_delivery_d, ol_receiptdate, ol_commitdate from vodka_order_line",
    )
    .await;
    let order_of = |l: &[String]| (l[0].clone(), l[1].clone(), l[2].clone());
    let is_late = |l: &[String]| !l[10].is_empty() && l[10] > l[11];

    // Q21: suppliers who alone kept an order of several suppliers waiting.
    let mut by_order: BTreeMap<_, Vec<&Vec<String>>> = BTreeMap::new();
    lines.iter().for_each(|l| by_order.entry(order_of(l)).or_default().push(l));
    let mut waits: BTreeMap<String, u64> = BTreeMap::new();
    for l in lines.iter().filter(|l| is_late(l)) {
        let others: Vec<_> = by_order[&order_of(l)].iter().filter(|other| other[5] != l[5]).collect();
        if !others.is_empty() && !others.iter().any(|other| is_late(other)) {
            *waits.entry(suppliers[&l[5]].0.clone()).or_default() += 1;
        }
    }
    let mut waits: Vec<(u64, String)> = waits.into_iter().map(|(name, n)| (n, name)).collect();
    waits.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    let expected: Vec<Vec<String>> =
        waits.into_iter().take(10).map(|(n, name)| vec![name, n.to_string()]).collect();
    assert!(!expected.is_empty());
    // Of all nations: in so small a database the published one may have none.
    let all = |sql: String, nation: &str| sql.replace(&format!("n_name = '{nation}'"), "n_name <> ''");
    assert_eq!(rows(client, &all(query(21, None), "SAUDI ARABIA")).await, expected);

    // Q9: profit by nation and year; every line finds its stock.
    let mut profit: BTreeMap<(String, i64), f64> = BTreeMap::new();
    for l in lines.iter().filter(|l| items[&l[4]].contains("green")) {
        let (suppkey, cost, _) = &stock[&(l[3].clone(), l[4].clone())];
        assert_eq!(suppkey, &l[5], "a line's supplier is its stock's");
        let year = orders[&order_of(l)][..4].parse::<i64>().unwrap();
        let amount = number(&l[6]) * (1.0 - number(&l[7])) - cost * number(&l[8]);
        *profit.entry((suppliers[suppkey].1.clone(), -year)).or_default() += amount;
    }
    let found = rows(client, &query(9, None)).await;
    assert_eq!(found.len(), profit.len());
    for (row, ((nation, year), amount)) in found.iter().zip(&profit) {
        assert_eq!((&row[0], number(&row[1]) as i64), (nation, -year));
        assert!((number(&row[2]) - amount).abs() < 0.01, "{row:?}, {amount}");
    }

    // Q20: suppliers of one nation that have plenty of an item whose name begins with a word.
    let until = 0;
    let mut shipped: BTreeMap<(String, String), f64> = BTreeMap::new();
    for l in lines.iter().filter(|l| !l[9].is_empty() && l[9].as_str() < "2000-01-01") {
        *shipped.entry((l[3].clone(), l[4].clone())).or_default() += number(&l[8]);
    }
    let plenty = |(key, shipped): (&(String, String), &f64)| {
        let (suppkey, _, quantity) = &stock[key];
        let of_item = items[&key.1].starts_with("forest") && *quantity > 0.0005 * shipped;
        of_item.then(|| suppliers[suppkey].clone())
    };
    let expected: BTreeSet<(String, String, String)> = shipped.iter().filter_map(plenty).collect();
    let expected: Vec<Vec<String>> = expected.into_iter().map(|(name, _, at)| vec![name, at]).collect();
    assert!(!expected.is_empty());
    assert_eq!(rows(client, &all(query(20, Some(until)), "CANADA")).await, expected);
}

fn two(row: Vec<String>) -> (String, String) {
    (row[0].clone(), row[1].clone())
}

fn number(text: &str) -> f64 {
    text.parse().unwrap_or_else(|_| panic!("{text} is no number"))
}

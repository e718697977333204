//! Statements that are long or deep: executed, or refused with 54001, and nobody else notices.

use crate::server::{Server, failure, rows, run, value};
use std::time::Duration;
use tokio_postgres::Client;

/// A statement of n parts, for any n.
type Shape = (&'static str, fn(usize) -> String);

/// One production after the other, flat.
const LONG: &[Shape] = &[
    ("union all", |n| vec!["select 1"; n].join(" union all ")),
    ("union", |n| vec!["select 1"; n].join(" union ")),
    ("except", |n| vec!["select 1"; n].join(" except ")),
    ("and", |n| format!("select * from t where {}", vec!["id > 0"; n].join(" and "))),
    ("or", |n| (0..n).fold("select * from t where id = -1".into(), |s, i| s + &format!(" or id = {i}"))),
    ("plus", |n| format!("select {}", vec!["1"; n].join("+"))),
    ("plus of a column", |n| format!("select {} from t", vec!["id"; n].join("+"))),
    ("concatenation", |n| format!("select {}", vec!["'a'"; n].join("||"))),
    ("concatenation of a column", |n| format!("select {} from t", vec!["v"; n].join("||"))),
    ("casts", |n| format!("select 1{}", "::int".repeat(n))),
    ("is null", |n| format!("select 1{}", " is null".repeat(n))),
    ("not", |n| format!("select {} true", "not ".repeat(n))),
    ("signs", |n| format!("select {}1", "- ".repeat(n))),
    ("chained expressions of tables", |n| {
        let links = (1..n).fold("c0 as (select 1 as x)".to_string(), |s, i| {
            s + &format!(", c{i} as (select x from c{})", i - 1)
        });
        format!("with {links} select * from c{}", n.max(1) - 1)
    }),
    ("doubling expressions of tables", |n| {
        let links = (1..n).fold("c0 as (select 1 as x)".to_string(), |s, i| {
            s + &format!(", c{i} as (select a.x from c{0} a, c{0} b)", i - 1)
        });
        format!("with {links} select * from c{}", n.max(1) - 1)
    }),
    ("joins", |n| {
        (0..n).fold("select 1 from t".into(), |s, i| s + &format!(" join t t{i} on t{i}.id = t.id"))
    }),
    ("tables", |n| (0..n).fold("select 1 from t".into(), |s, i| s + &format!(", t t{i}"))),
    ("case arms", |n| format!("select case id {} end from t", "when 1 then 2 ".repeat(n.max(1)))),
    ("in list", |n| format!("select * from t where id in ({})", vec!["5"; n.max(1)].join(","))),
    ("columns", |n| format!("select {}", vec!["1"; n.max(1)].join(","))),
];

/// One production inside the other.
const DEEP: &[Shape] = &[
    ("parentheses", |n| format!("select {}1{}", "(".repeat(n), ")".repeat(n))),
    ("functions", |n| format!("select {}1{}", "abs(".repeat(n), ")".repeat(n))),
    ("unfinished functions", |n| format!("select {}", "abs(".repeat(n))),
    ("negations", |n| format!("select {}true{}", "not(".repeat(n), ")".repeat(n))),
    ("cases", |n| format!("select {}1{}", "case when true then ".repeat(n), " end".repeat(n))),
    ("subqueries", |n| format!("select {}1{}", "(select ".repeat(n), ")".repeat(n))),
    ("derived tables", |n| {
        let close: String = (0..n).map(|i| format!(") t{i}")).collect();
        format!("select * from {}(select 1) s{close}", "(select * from ".repeat(n))
    }),
    ("joins in parentheses", |n| format!("select 1 from {}t{}", "(".repeat(n), ")".repeat(n))),
    ("arrays", |n| format!("select {}1{}", "array[".repeat(n), "]".repeat(n))),
    ("coalesce", |n| format!("select {}1{}", "coalesce(null, ".repeat(n), ")".repeat(n))),
    ("intervals", |n| format!("select {}'1 day'", "interval ".repeat(n))),
    ("casts", |n| format!("select {}1{}", "cast(".repeat(n), " as int)".repeat(n))),
    ("rows", |n| format!("select {}1{}", "row(".repeat(n), ")".repeat(n))),
    ("in subqueries", |n| format!("select {}1{}", "1 in (select ".repeat(n), ")".repeat(n))),
    ("exists", |n| format!("select {}1{}", "exists (select ".repeat(n), ")".repeat(n))),
];

/// Executed or refused in PostgreSQL's words; anything else is a defect, and so is a connection that breaks.
async fn throw(client: &Client, name: &str, n: usize, sql: &str) {
    let answer = tokio::time::timeout(Duration::from_secs(120), client.simple_query(sql));
    let Err(error) = answer.await.unwrap_or_else(|_| panic!("{name} x{n}: no answer")) else { return };
    let told = error.as_db_error().unwrap_or_else(|| panic!("{name} x{n}: {error:?}"));
    // Too complex, or what PostgreSQL says of this shape; 54011 and 42P.. are about numbers of columns and names.
    let code = told.code().code();
    assert!(!code.starts_with("XX"), "{name} x{n}: {told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_statement_is_too_long_or_too_deep_for_the_server() {
    let mut server = Server::start_with(&["--regions", "us"], 1);
    let client = server.session(0).await;
    run(&client, "create table t (id int primary key, v text); insert into t values (1, 'a'), (2, 'b')")
        .await;
    run(&client, "set statement_timeout = '1s'").await;
    for (sizes, shapes) in [([300, 40_000], LONG), ([22, 5_000], DEEP)] {
        for (name, shape) in shapes {
            for n in sizes {
                throw(&client, name, n, &shape(n)).await;
                assert!(server.is_alive(), "{name} x{n}");
            }
        }
    }
    run(&client, "reset statement_timeout").await;
    // What is far beyond any use is refused, what programs write is answered.
    assert_eq!(failure(&client, &LONG[5].1(60_000)).await.0, "54001");
    assert_eq!(value(&client, &LONG[5].1(1_000)).await, "1000");
    assert_eq!(rows(&client, &LONG[0].1(500)).await.unwrap().len(), 500);
    assert_eq!(rows(&client, &LONG[3].1(20_000)).await.unwrap().len(), 2);
    assert_eq!(rows(&client, &LONG[4].1(5_000)).await.unwrap().len(), 2);
    assert_eq!(value(&client, &LONG[7].1(2_000)).await, "a".repeat(2_000));
    assert_eq!(value(&client, &DEEP[1].1(100)).await, "1");
    // Over columns, planning takes time with the cube of the depth.
    let differences = |n: usize| format!("select max(id{}) from t", " - id".repeat(n));
    assert_eq!(value(&client, &differences(150)).await, "-149");
    assert_eq!(failure(&client, &differences(250)).await.0, "54001");
    // What is far too deep is refused before a plan is made of it, which would take seconds.
    let zones = format!("select max(now()){} from t", " at time zone 'UTC'".repeat(1_000));
    let refused = client.simple_query(&zones).await.unwrap_err();
    let told = refused.as_db_error().unwrap();
    assert_eq!(told.code().code(), "54001");
    assert_eq!(
        told.detail(),
        Some("The statement has 1002 operators or calls inside each other; 400 are the most.")
    );
    // And with the square of a list's length.
    let sums = |n: usize| format!("select count(*){} from t", ", sum(id + 1)".repeat(n - 1));
    assert_eq!(failure(&client, &sums(1_665)).await.0, "54011");
    assert_eq!(failure(&client, &LONG[0].1(6_000)).await.0, "54001");
    // Too many joins to look for their order: the conditions still come with the tables they are of.
    let tables: Vec<String> = (0..45).map(|i| format!("t t{i}")).collect();
    let conditions: Vec<String> = (1..45).map(|i| format!("t{i}.id = t{}.id", i - 1)).collect();
    let joined = format!("select count(*) from {} where {}", tables.join(", "), conditions.join(" and "));
    assert_eq!(value(&client, &joined).await, "2");
    assert_eq!(value(&client, &DEEP[0].1(300)).await, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_definition_is_kept_and_used() {
    let mut server = Server::start_with(&["--regions", "us"], 1);
    let client = server.session(0).await;
    for terms in [685, 20_000] {
        let check = vec!["a <> 7"; terms].join(" and ");
        run(&client, &format!("create table k{terms} (id int primary key, a int check ({check}))")).await;
        run(&client, &format!("insert into k{terms} values (1, 1)")).await;
        assert_eq!(failure(&client, &format!("insert into k{terms} values (2, 7)")).await.0, "23514");
        assert_eq!(failure(&client, &format!("update k{terms} set a = 7")).await.0, "23514");
    }
    let sum = vec!["a"; 1_500].join("+");
    let definitions = [
        format!("create table s (id int primary key, a int check ({sum} > 0))"),
        format!("create table d (id int primary key, a int default {})", vec!["1"; 1_500].join("+")),
    ];
    for (table, definition) in ["s", "d"].iter().zip(definitions) {
        // Refused as a whole, or usable.
        if client.batch_execute(&definition).await.is_ok() {
            run(&client, &format!("insert into {table} (id, a) values (1, 1)")).await;
            run(&client, &format!("insert into {table} (id) values (2)")).await;
            assert_eq!(value(&client, &format!("select count(*) from {table}")).await, "2");
        }
    }
    assert!(server.is_alive());
}

#[tokio::test(flavor = "multi_thread")]
async fn planning_ends_when_it_is_canceled_or_takes_too_long() {
    let server = Server::start_with(&["--regions", "us"], 1);
    let client = server.session(0).await;
    run(&client, "create table t (id int primary key, v text)").await;
    // Hundreds of joins take far longer to plan than this.
    let joins = (0..200)
        .fold("select 1 from t".into(), |s: String, i| s + &format!(" join t t{i} on t{i}.id = t.id"));
    run(&client, "set statement_timeout = '100ms'").await;
    let (state, message) = failure(&client, &joins).await;
    assert_eq!((state.as_str(), message.as_str()), ("57014", "canceling statement due to statement timeout"));
    // The session goes on.
    assert_eq!(value(&client, "select count(*) from t").await, "0");
}

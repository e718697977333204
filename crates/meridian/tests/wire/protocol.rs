//! The extended protocol, cancelling, and what an error does to a transaction.

use crate::raw::{Raw, bind, execute, parse, parse_as, sync};
use crate::server::{Server, failure, rows, run, state, value};
use std::time::Duration;
use tokio_postgres::NoTls;

/// A query that takes much longer than the test.
const LONG: &str = "select count(*) from g a, g b, g c, g d where a.v + b.v + c.v + d.v = 7";
const GROUND: &str = "create table g (k int primary key, v int);
    insert into g select n, n from generate_series(1, 2000) as s(n)";

#[tokio::test(flavor = "multi_thread")]
async fn a_long_query_ends_when_it_is_canceled_or_takes_too_long() {
    let server = Server::start();
    let client = server.session(0).await;
    run(&client, GROUND).await;
    let token = client.cancel_token();
    let running = tokio::spawn(async move {
        let error = client.simple_query(LONG).await.expect_err("canceled");
        (client, error)
    });
    // A request that comes before the query has begun is void: ask until it is heard.
    while !running.is_finished() {
        tokio::time::sleep(Duration::from_millis(20)).await;
        token.cancel_query(NoTls).await.unwrap();
    }
    let (client, error) = running.await.unwrap();
    assert_eq!(state(&error), "57014");
    // The last request may be heard only now, and then ends the statement that runs, as in PostgreSQL.
    tokio::time::sleep(Duration::from_millis(200)).await;
    _ = client.simple_query("select 1").await;
    run(&client, "set statement_timeout = '150ms'").await;
    let (state, message) = failure(&client, LONG).await;
    assert_eq!((state.as_str(), message.as_str()), ("57014", "canceling statement due to statement timeout"));
    run(&client, "reset statement_timeout").await;
    assert_eq!(value(&client, "select count(*) from g").await, "2000");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_among_the_rows_fails_the_transaction() {
    let server = Server::start();
    let client = server.session(0).await;
    run(&client, GROUND).await;
    run(&client, "begin; insert into g values (9999, 0)").await;
    assert_eq!(failure(&client, "select 1 / (v - 5) from g").await.0, "22012");
    assert_eq!(failure(&client, "select 1").await.0, "25P02");
    assert!(client.query("select k from g where k = 1", &[]).await.is_err());
    run(&client, "rollback").await;
    // The statements of one text are one transaction.
    assert_eq!(
        failure(&client, "insert into g values (9999, 0); select 1 / (v - 5) from g").await.0,
        "22012"
    );
    assert_eq!(value(&client, "select count(*) from g where k = 9999").await, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_portal_hands_out_rows_in_portions() {
    let server = Server::start();
    let mut client = server.session(1).await;
    run(&client, GROUND).await;
    let transaction = client.transaction().await.unwrap();
    let portal = transaction.bind("select k from g where v > $1 order by k", &[&10i32]).await.unwrap();
    let mut seen: Vec<i32> = Vec::new();
    loop {
        let some = transaction.query_portal(&portal, 300).await.unwrap();
        if some.is_empty() {
            break;
        }
        assert!(some.len() <= 300);
        seen.extend(some.iter().map(|row| row.get::<_, i32>(0)));
    }
    assert_eq!(seen, (11..=2000).collect::<Vec<_>>());
    transaction.commit().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn values_come_back_in_binary_as_they_went() {
    let server = Server::start();
    let client = server.session(0).await;
    run(
        &client,
        "create table t (a smallint primary key, b int, c bigint, e real, f double precision, g text,
            h varchar(5), j boolean, o bytea)",
    )
    .await;
    let (a, b, c, e, f) = (1i16, -2i32, 3i64 << 40, 1.5f32, 0.1f64);
    let (g, h, j, o) = ("gä", "hh", true, vec![0u8, 255]);
    let insert = "insert into t values ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    assert_eq!(client.execute(insert, &[&a, &b, &c, &e, &f, &g, &h, &j, &o]).await.unwrap(), 1);
    client.execute("insert into t (a) values ($1)", &[&2i16]).await.unwrap();
    // By key from rows, and all of it from columns.
    for sql in ["select * from t where a = 1", "select * from t order by a"] {
        let row = client.query(sql, &[]).await.unwrap().remove(0);
        assert_eq!((row.get::<_, i16>(0), row.get::<_, i32>(1), row.get::<_, i64>(2)), (a, b, c));
        assert_eq!((row.get::<_, f32>(3), row.get::<_, f64>(4)), (e, f));
        assert_eq!((row.get::<_, &str>(5), row.get::<_, &str>(6)), (g, h));
        assert_eq!((row.get::<_, bool>(7), row.get::<_, Vec<u8>>(8)), (j, o.clone()));
    }
    let empty = client.query_one("select b, g, o from t where a = 2", &[]).await.unwrap();
    assert_eq!(empty.get::<_, Option<i32>>(0), None);
    assert_eq!(empty.get::<_, Option<&str>>(1), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prepared_statement_outlives_a_change_of_its_table() {
    let server = Server::start();
    let client = server.session(0).await;
    run(&client, GROUND).await;
    let get = client.prepare("select v from g where k = $1").await.unwrap();
    assert_eq!(client.query_one(&get, &[&7i32]).await.unwrap().get::<_, i32>(0), 7);
    run(&server.session(2).await, "alter table g add column w int default 3").await;
    assert_eq!(client.query_one(&get, &[&8i32]).await.unwrap().get::<_, i32>(0), 8);
    assert_eq!(rows(&client, "select * from g where k = 8").await.unwrap(), ["8|8|3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn arrays_are_bound_and_returned_in_binary() {
    let server = Server::start();
    let client = server.session(0).await;
    run(&client, GROUND).await;
    let count = "select count(*) from g where k = any($1)";
    let counted = async |keys: Vec<i32>| -> i64 { client.query_one(count, &[&keys]).await.unwrap().get(0) };
    assert_eq!(counted(vec![1, 2, 3, -4]).await, 3);
    assert_eq!(counted(vec![]).await, 0);
    let by_key =
        client.query("select v from g where k = any($1) order by k", &[&vec![7i32, 3]]).await.unwrap();
    assert_eq!(by_key.iter().map(|r| r.get::<_, i32>(0)).collect::<Vec<_>>(), [3, 7]);
    let texts = vec![Some("a b".to_string()), None, Some("\"".into())];
    let row =
        client.query_one("select array_agg(x) from unnest($1::text[]) as u(x)", &[&texts]).await.unwrap();
    assert_eq!(row.get::<_, Vec<Option<String>>>(0), texts);
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_are_known_in_a_transaction_that_changes_the_catalog() {
    let server = Server::start();
    let mut client = server.session(0).await;
    let transaction = client.transaction().await.unwrap();
    transaction.batch_execute("create table made (a int primary key, b text)").await.unwrap();
    let sum = transaction.query_one("select $1::int + $2::int", &[&1i32, &2i32]).await.unwrap();
    assert_eq!(sum.get::<_, i32>(0), 3);
    let written = transaction.execute("insert into made values ($1, $2)", &[&1i32, &"x"]).await.unwrap();
    assert_eq!(written, 1);
    transaction.commit().await.unwrap();
    assert_eq!(value(&client, "select b from made where a = 1").await, "x");
}

#[test]
fn a_completed_portal_answers_that_nothing_is_left() {
    let server = Server::start();
    let mut client = Raw::open(server.ports[0]);
    client.simple("create table g (k int primary key)");
    for (sql, first, again) in [
        ("select 1", "C SELECT 1", "C SELECT 0"),
        ("insert into g values (1) returning k", "C INSERT 0 1", "C INSERT 0 0"),
        ("insert into g values (2)", "C INSERT 0 1", "E 55000 portal \"p\" cannot be run"),
    ] {
        client.simple("begin");
        let answers =
            client.ask(&[parse("", sql), bind("p", "", &[], 0), execute("p"), execute("p"), sync()]);
        let told: Vec<&String> = answers.iter().filter(|line| line.starts_with(['C', 'E'])).collect();
        assert_eq!(told, [first, again], "{sql}");
        client.simple("rollback");
    }
}

#[test]
fn columns_say_the_modifiers_of_their_types() {
    let server = Server::start();
    let mut client = Raw::open(server.ports[0]);
    client.simple("create table g (k int primary key, x numeric(10, 2), s varchar(5), c char(4))");
    for (sql, told) in [
        ("select x, s, c from g", "T x:1700:655366:2*|s:1043:9:3*|c:1042:8:4*"),
        (
            "select x::numeric(5, 1), s::varchar(2), c::char(3) y, k::numeric from g",
            "T x:1700:327685:0|s:1043:6:0|y:1042:7:0|k:1700:-1:0",
        ),
        (
            "select now()::timestamp(1) a, now()::timestamptz(0) b, '10:00'::time(2) c, '1 s'::interval(3) d",
            "T a:1114:1:0|b:1184:0:0|c:1083:2:0|d:1186:2147418115:0",
        ),
        (
            "select g.*, count(*), 1 from g group by k",
            "T k:23:-1:1*|x:1700:655366:2*|s:1043:9:3*|c:1042:8:4*|count:20:-1:0|?column?:23:-1:0",
        ),
    ] {
        assert_eq!(client.simple(sql).first().map(String::as_str), Some(told), "{sql}");
    }
}

#[test]
fn infinities_in_binary_are_refused_by_name() {
    let server = Server::start();
    let mut client = Raw::open(server.ports[0]);
    let numeric = [0, 0, 0, 0, 0xd0, 0, 0, 0];
    for (oid, value, told) in [
        (1114, &i64::MAX.to_be_bytes()[..], "infinity of type timestamp without time zone is not supported"),
        (1184, &i64::MIN.to_be_bytes()[..], "infinity of type timestamp with time zone is not supported"),
        (1082, &i32::MAX.to_be_bytes()[..], "infinity of type date is not supported"),
        (1700, &numeric[..], "NaN and infinities of type numeric is not supported"),
    ] {
        let answers = client.ask(&[parse_as("", "select $1", &[oid]), bind("", "", &[value], 1), sync()]);
        assert_eq!(answers[1], format!("E 0A000 {told}"));
    }
}

//! What ordinary clients send: transactions with tables in them, cursors, binary copies, questions about tables.

use crate::server::{Server, failure, rows, run, state, value};
use futures::{SinkExt, StreamExt};
use tokio_postgres::binary_copy::{BinaryCopyInWriter, BinaryCopyOutStream};
use tokio_postgres::types::Type;

#[tokio::test(flavor = "multi_thread")]
async fn a_table_and_its_rows_come_in_one_transaction_or_not_at_all() {
    let server = Server::start();
    let (mut client, other) = (server.session(0).await, server.session(1).await);
    let transaction = client.transaction().await.unwrap();
    transaction.batch_execute("create table t (k serial primary key, v text)").await.unwrap();
    let insert = transaction.prepare("insert into t (v) values ($1) returning k").await.unwrap();
    for n in 1..=3i32 {
        let row = transaction.query_one(&insert, &[&n.to_string()]).await.unwrap();
        assert_eq!(row.get::<_, i32>(0), n);
    }
    assert_eq!(state(&rows(&other, "select * from t").await.unwrap_err()), "42P01");
    transaction.commit().await.unwrap();
    assert_eq!(value(&other, "select count(*) from t").await, "3");

    // A client that vanishes leaves nothing.
    let lost = server.session(0).await;
    run(&lost, "begin; create table lost (k int primary key); insert into lost values (1)").await;
    drop(lost);
    run(&client, "create table u as select k, v || v as vv from t").await;
    assert_eq!(rows(&client, "select * from u order by k").await.unwrap(), ["1|11", "2|22", "3|33"]);
    assert_eq!(failure(&client, "select * from lost").await.0, "42P01");

    // The second of two changes that began with the same catalog fails as a whole.
    run(&client, "begin; create table a (k int primary key); insert into a values (1)").await;
    run(&other, "create table b (k int primary key)").await;
    assert_eq!(failure(&client, "commit").await.0, "40001");
    assert_eq!(failure(&client, "select * from a").await.0, "42P01");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_one_copy_of_each_partition_a_table_comes_with_its_rows_too() {
    let server = Server::start_with(&["--engine", "perseus", "--partitions", "2"], 3);
    let sessions = [server.session(0).await, server.session(1).await, server.session(2).await];
    run(&sessions[0], "create table t (k int primary key, v int); insert into t values (1, 1), (2, 2)").await;
    run(&sessions[0], "begin; alter table t add column w int; update t set w = v; commit").await;
    for session in &sessions {
        assert_eq!(rows(session, "select k, w from t order by k").await.unwrap(), ["1|1", "2|2"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_is_read_in_portions() {
    let server = Server::start();
    let (mut client, other) = (server.session(0).await, server.session(0).await);
    run(&client, "create table t (k int primary key); insert into t select g from generate_series(1, 50) g")
        .await;
    let transaction = client.transaction().await.unwrap();
    transaction.batch_execute("declare \"C 1\" cursor for select k, k * 2 from t order by k").await.unwrap();
    run(&other, "delete from t where k > 10").await;
    let fetch = transaction.prepare("fetch forward 20 from \"C 1\"").await.unwrap();
    assert_eq!(fetch.columns().len(), 2);
    let mut read = Vec::new();
    loop {
        let portion = transaction.query(&fetch, &[]).await.unwrap();
        if portion.is_empty() {
            break;
        }
        read.extend(portion.iter().map(|row| row.get::<_, i32>(0)));
    }
    assert_eq!(read, (1..=50).collect::<Vec<_>>());
    transaction.batch_execute("close \"C 1\"").await.unwrap();
    transaction.commit().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_are_binary_in_and_out() {
    let server = Server::start();
    let client = server.session(0).await;
    run(&client, "create table t (k int primary key, s text, f double precision, n numeric(8,2))").await;
    let types = [Type::INT4, Type::TEXT, Type::FLOAT8];
    let sink = client.copy_in("copy t (k, s, f) from stdin (format binary)").await.unwrap();
    let mut writer = Box::pin(BinaryCopyInWriter::new(sink, &types));
    for k in 0..3000i32 {
        let text = (k % 2 == 0).then(|| format!("é{k}"));
        writer.as_mut().write(&[&k, &text, &(f64::from(k) / 2.0)]).await.unwrap();
    }
    assert_eq!(writer.as_mut().finish().await.unwrap(), 3000);
    assert_eq!(value(&client, "select count(*), count(s), sum(f) from t").await, "3000|1500|2249250");
    let stream =
        client.copy_out("copy (select * from t order by k) to stdout (format binary)").await.unwrap();
    let columns = [Type::INT4, Type::TEXT, Type::FLOAT8, Type::NUMERIC];
    let mut read = Box::pin(BinaryCopyOutStream::new(stream, &columns));
    let mut count = 0i32;
    while let Some(row) = read.next().await {
        let row = row.unwrap();
        assert_eq!((row.get::<i32>(0), row.get::<f64>(2)), (count, f64::from(count) / 2.0));
        assert_eq!(row.get::<Option<&str>>(1).is_some(), count % 2 == 0);
        count += 1;
    }
    assert_eq!(count, 3000);
    // Bytes that are none leave nothing, and the session goes on.
    for bytes in [&b"no copy at all\n"[..], b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x03\0\0\0\x02\0\0"] {
        let sink = client.copy_in("copy t (k, s, f) from stdin (format binary)").await.unwrap();
        let mut sink = Box::pin(sink);
        sink.send(bytes::Bytes::copy_from_slice(bytes)).await.unwrap();
        let error = sink.as_mut().finish().await.unwrap_err();
        assert!(["22P04", "22P03"].contains(&state(&error)), "{error:?}");
    }
    assert_eq!(value(&client, "select count(*) from t").await, "3000");
}

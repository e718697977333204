//! Levels of isolation as clients of several regions of engine `geogauss` get them.

use crate::server::*;

fn regions() -> Server {
    Server::start_with(&["--engine", "geogauss"], 3)
}

/// Adya's names of what the levels allow and forbid, by two clients of two regions.
#[tokio::test(flavor = "multi_thread")]
async fn each_level_shows_what_it_allows_and_never_what_it_forbids() {
    let server = regions();
    let (a, b) = (server.session(0).await, server.session(1).await);
    run(&a, "create table t (k int primary key, v int)").await;
    // Of each level, whether it shows: a row that differs when it is read again (G-single), a lost update of what the client
    // computed (P4), write skew (G2-item).
    for (level, rereads, loses, skews) in [
        ("serializable", false, false, false),
        ("repeatable read", false, false, true),
        ("read committed", true, true, true),
    ] {
        let begin = format!("begin isolation level {level}");
        let reset = "delete from t; insert into t values (1, 10), (2, 20)";
        run(&a, reset).await;
        run(&a, &begin).await;
        assert_eq!(value(&a, "show transaction_isolation").await, level);
        assert_eq!(value(&a, "select v from t where k = 1").await, "10");
        run(&b, "begin; update t set v = 11 where k = 1").await;
        assert_eq!(value(&a, "select v from t where k = 1").await, "10", "nothing dirty (G1a)");
        run(&b, "update t set v = 12 where k = 1; commit").await;
        let seen = value(&a, "select v from t where k = 1").await;
        assert_eq!(seen, if rereads { "12" } else { "10" }, "{level}: no half of it (G1b)");
        run(&a, "commit").await;

        run(&a, reset).await;
        run(&a, &begin).await;
        assert_eq!(value(&a, "select v from t where k = 1").await, "10");
        run(&b, "update t set v = v + 5 where k = 1").await;
        run(&a, "update t set v = 11 where k = 1").await;
        let ended = a.batch_execute("commit").await;
        assert_eq!(ended.is_ok(), loses, "{level}: {ended:?}");
        ended.err().iter().for_each(|error| assert_eq!(state(error), "40001"));

        run(&a, reset).await;
        for (client, k) in [(&a, 1), (&b, 2)] {
            run(client, &begin).await;
            assert_eq!(value(client, "select sum(v) from t").await, "30");
            run(client, &format!("update t set v = 0 where k = {k}")).await;
        }
        let ended = [a.batch_execute("commit").await, b.batch_execute("commit").await];
        assert_eq!(ended.iter().all(Result::is_ok), skews, "{level}: {ended:?}");
    }
    // What no level allows: that a statement's own change of a row takes back another one (P4 within a statement). In tables of
    // their own: where regions have competed for a row, the second statement would wait for the first block.
    for level in ["serializable", "repeatable read", "read committed"] {
        let table = level.replace(' ', "_") + "_t";
        let made = format!("create table {table} (k int primary key, v int) with (home = 'us')");
        run(&a, &format!("{made}; insert into {table} values (1, 10)")).await;
        run(&a, &format!("begin isolation level {level}")).await;
        run(&a, &format!("update {table} set v = v + 1 where k = 1")).await;
        run(&b, &format!("update {table} set v = v + 100 where k = 1")).await;
        assert_eq!(state(&a.batch_execute("commit").await.expect_err(level)), "40001");
        assert_eq!(value(&b, &format!("select v from {table}")).await, "110");
    }
}

/// The level of a session, of a text and of drivers that set it when they connect.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_choose_levels_as_in_postgresql() {
    let server = regions();
    let config = format!(
        "host=127.0.0.1 port={} user=tester dbname=meridian options='-c default_transaction_isolation=read\\\\ committed'",
        server.ports[0]
    );
    let (client, connection) = tokio_postgres::connect(&config, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    run(&client, "create table t (k int primary key)").await;
    assert_eq!(value(&client, "show default_transaction_isolation").await, "read committed");
    run(&client, "begin").await;
    assert_eq!(value(&client, "show transaction_isolation").await, "read committed");
    run(&client, "commit; set session characteristics as transaction isolation level repeatable read; begin")
        .await;
    assert_eq!(value(&client, "show transaction_isolation").await, "repeatable read");
    run(&client, "set transaction isolation level read committed").await;
    assert_eq!(value(&client, "show transaction_isolation").await, "read committed");
    assert_eq!(value(&client, "select count(*) from t").await, "0");
    let (code, _) = failure(&client, "set transaction isolation level serializable").await;
    assert_eq!(code, "25001", "the block has read");
}

/// Increments by blocks at READ COMMITTED in all regions: who is told COMMIT has counted, and nobody else.
#[tokio::test(flavor = "multi_thread")]
async fn increments_at_read_committed_add_up() {
    let server = regions();
    let first = server.session(0).await;
    run(&first, "create table c (k int primary key, v int); insert into c values (1, 0)").await;
    let mut clients = Vec::new();
    for n in 0..6 {
        let client = server.session(n % 3).await;
        clients.push(tokio::spawn(async move {
            let mut counted = 0;
            for _ in 0..20 {
                let block = "begin isolation level read committed; update c set v = v + 1 where k = 1";
                run(&client, block).await;
                match client.batch_execute("commit").await {
                    Ok(()) => counted += 1,
                    Err(error) => assert_eq!(state(&error), "40001"),
                }
            }
            counted
        }));
    }
    let mut counted = 0;
    for client in clients {
        counted += client.await.unwrap();
    }
    assert_eq!(value(&first, "select v from c where k = 1").await, counted.to_string());
    assert!(counted >= 20, "{counted}");
}

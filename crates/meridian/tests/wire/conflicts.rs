//! What concurrent transactions may see and do, whichever engine orders them.

use crate::server::{Server, rows, run, state, value};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[tokio::test(flavor = "multi_thread")]
async fn of_two_transactions_in_conflict_one_gets_40001_with_table_and_key() {
    for server in Server::with_each_engine(&[]) {
        two_in_conflict(server).await;
    }
}

async fn two_in_conflict(server: Server) {
    let (a, b) = (server.session(0).await, server.session(1).await);
    run(&a, "create table t (k int primary key, v int); insert into t values (1, 1), (2, 2)").await;
    for session in [&a, &b] {
        run(session, "begin; select v from t where k = 1").await;
        run(session, "update t set v = v + 10 where k = 1").await;
    }
    let outcomes = [a.simple_query("commit").await, b.simple_query("commit").await];
    let failures: Vec<_> = outcomes.iter().filter_map(|o| o.as_ref().err()).collect();
    assert_eq!(failures.len(), 1, "{outcomes:?}");
    let told = failures[0].as_db_error().unwrap();
    assert_eq!(told.code().code(), "40001");
    let detail = told.detail().unwrap_or_default();
    assert!(told.table() == Some("t") || detail.contains("\"t\""), "{told:?}");
    assert!(detail.contains("(k)=(1)"), "{told:?}");
    assert_eq!(value(&a, "select v from t where k = 1").await, "11");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_phantom_in_a_range_that_was_read_fails_the_reader_that_writes() {
    for server in Server::with_each_engine(&[]) {
        phantom(server).await;
    }
}

async fn phantom(server: Server) {
    let (a, b) = (server.session(0).await, server.session(2).await);
    run(&a, "create table t (k int primary key, v int); insert into t values (1, 1), (100, 0)").await;
    for read in ["select v from t where k between 10 and 20", "select sum(v) from t where k > 10"] {
        run(&a, &format!("begin; {read}; update t set v = 7 where k = 1")).await;
        run(&b, "insert into t values (15, 15)").await;
        let error = a.simple_query("commit").await.expect_err(read);
        assert_eq!(state(&error), "40001", "{read}");
        run(&b, "delete from t where k = 15").await;
    }
    assert_eq!(value(&a, "select v from t where k = 1").await, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn increments_of_eight_clients_never_abort_and_add_up() {
    for server in Server::with_each_engine(&[]) {
        increments(server).await;
    }
}

async fn increments(server: Server) {
    let first = server.session(0).await;
    run(&first, "create table c (k int primary key, v int); insert into c values (1, 0)").await;
    let mut clients = Vec::new();
    for n in 0..8 {
        let client = server.session(n % 3).await;
        clients.push(tokio::spawn(async move {
            for _ in 0..50 {
                client.execute("update c set v = v + 1 where k = $1", &[&1i32]).await.unwrap();
            }
        }));
    }
    for client in clients {
        client.await.unwrap();
    }
    assert_eq!(value(&first, "select v from c where k = 1").await, "400");
}

#[tokio::test(flavor = "multi_thread")]
async fn transfers_between_regions_keep_the_total_that_every_region_sees() {
    for server in Server::with_each_engine(&[]) {
        transfers(server).await;
    }
}

async fn transfers(server: Server) {
    let first = server.session(0).await;
    run(
        &first,
        "create table acc (id int primary key, bal int)
            with (home_by = 'id', home_map = 'list(1:us, 2:eu, 3:asia)')",
    )
    .await;
    run(&first, "insert into acc values (1, 1000), (2, 1000), (3, 1000)").await;
    let done = Arc::new(AtomicBool::new(false));
    let mut readers = Vec::new();
    for region in 0..3 {
        let (client, done) = (server.session(region).await, done.clone());
        readers.push(tokio::spawn(async move {
            let mut rounds = 0;
            while rounds < 20 || !done.load(Ordering::SeqCst) {
                let seen = value(&client, "select sum(bal), count(*) from acc").await;
                assert_eq!(seen, "3000|3", "region {region}, round {rounds}");
                rounds += 1;
            }
        }));
    }
    let mut writers = Vec::new();
    for region in 0..3usize {
        let client = server.session(region).await;
        writers.push(tokio::spawn(async move {
            let (mut committed, mut n) = (0, 0);
            while committed < 15 {
                n += 1;
                let (from, to) = (region + 1, (region + 1 + n % 2) % 3 + 1);
                let sql = format!(
                    "begin; update acc set bal = bal - 5 where id = {from};
                     update acc set bal = bal + 5 where id = {to}; commit"
                );
                match client.simple_query(&sql).await {
                    Ok(_) => committed += 1,
                    Err(e) => {
                        assert_eq!(state(&e), "40001", "{e:?}");
                        run(&client, "rollback").await;
                    }
                }
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    done.store(true, Ordering::SeqCst);
    for reader in readers {
        reader.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_region_sees_a_commit_as_soon_as_it_is_answered() {
    for server in Server::with_each_engine(&[]) {
        commits_are_seen(server).await;
    }
}

async fn commits_are_seen(server: Server) {
    let sessions = [server.session(0).await, server.session(1).await, server.session(2).await];
    run(&sessions[0], "create table t (k int primary key, v int); insert into t values (1, 0)").await;
    for round in 1..=100 {
        let writer = &sessions[round % 3];
        run(writer, &format!("update t set v = {round} where k = 1; insert into t values ({round} + 1, 0)"))
            .await;
        for (region, reader) in sessions.iter().enumerate() {
            let seen = rows(reader, "select max(v), count(*) from t").await.unwrap();
            assert_eq!(seen, [format!("{round}|{}", round + 1)], "region {region}");
            assert_eq!(value(reader, "select v from t where k = 1").await, round.to_string());
        }
    }
}

/// Blocks that lock one row, from its own region and from two that are far from it. What those read is older by the
/// way, so that without locks at the row's home they would hardly ever commit.
#[tokio::test(flavor = "multi_thread")]
async fn writers_far_from_a_hot_row_get_their_turns() {
    let server = Server::start_on("perseus3", &[], 3);
    let first = server.session(0).await;
    run(&first, "create table hot (k int primary key, v int) with (home = 'us')").await;
    run(&first, "insert into hot values (1, 0)").await;
    let ends_at = std::time::Instant::now() + std::time::Duration::from_secs(6);
    let places = [0, 0, 0, 0, 1, 1, 2, 2];
    let mut clients = Vec::new();
    for region in places {
        let client = server.session(region).await;
        clients.push(tokio::spawn(async move {
            let mut commits = 0;
            while std::time::Instant::now() < ends_at {
                run(&client, "begin; select v from hot where k = 1 for update").await;
                run(&client, "update hot set v = v + 1 where k = 1").await;
                match client.simple_query("commit").await {
                    Ok(_) => commits += 1,
                    Err(error) => assert_eq!(state(&error), "40001", "{error:?}"),
                }
            }
            commits
        }));
    }
    let mut commits = Vec::new();
    for client in clients {
        commits.push(client.await.unwrap());
    }
    // A turn of a far client takes two round trips of its own; near ones go on meanwhile, as fast as the machine is.
    let least: u64 = *commits[4..].iter().min().unwrap();
    println!("commits by client, four near and four far: {commits:?}");
    assert!(least >= 4, "{commits:?}");
    assert_eq!(value(&first, "select v from hot where k = 1").await, commits.iter().sum::<u64>().to_string());
}

/// A statement that reads its whole table from afar is committed while the table's home writes without a pause: its
/// writers wait for it after its second attempt.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_of_a_whole_table_ends_beside_writers_at_its_home() {
    let server = Server::start_on("perseus3", &[], 3);
    let home = server.session(0).await;
    run(&home, "create table hot (k int primary key, n int, v text) with (home = 'us')").await;
    run(&home, "insert into hot select g, 0, 'abc' from generate_series(1, 100) as s(g)").await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    for first in [1, 51] {
        let (writer, stop) = (server.session(0).await, stop.clone());
        writers.push(tokio::spawn(async move {
            let mut count = 0u32;
            while !stop.load(Ordering::Relaxed) {
                let k = first + count % 50;
                run(&writer, &format!("update hot set n = n + 1 where k = {k}")).await;
                count += 1;
            }
            count
        }));
    }
    let far = server.session(1).await;
    for _ in 0..2 {
        run(&far, "update hot set v = regexp_replace(v, 'b', 'bb')").await;
    }
    stop.store(true, Ordering::Relaxed);
    let mut written = 0;
    for writer in writers {
        written += writer.await.expect("a writer ends");
    }
    assert_eq!(value(&home, "select sum(n) from hot").await, written.to_string());
    assert_eq!(value(&home, "select count(*) from hot where v = 'abbbc'").await, "100");
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_that_read_whole_tables_end_while_others_write_them() {
    const ROWS: u32 = 6_000;
    let server = Server::start();
    let home = server.session(0).await;
    run(
        &home,
        "create table t (id int primary key, a int, b text); create table u (id int primary key, a int)",
    )
    .await;
    run(&home, &format!("insert into t select g, g % 100, 'x' || g from generate_series(1, {ROWS}) g")).await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    for nth in 0..4 {
        let (client, stop) = (server.session(0).await, stop.clone());
        writers.push(tokio::spawn(async move {
            let (mut at, mut done) = (nth, 0);
            while !stop.load(Ordering::SeqCst) {
                at = (at * 73 + 41) % ROWS + 1;
                let new = 10_000 + nth * 1_000_000 + done;
                for sql in [
                    format!("update t set a = a + 1 where id = {at}"),
                    format!("insert into t values ({new}, 1, 'new')"),
                    format!("delete from t where id = {new}"),
                ] {
                    client.batch_execute(&sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
                    done += 1;
                }
            }
            done
        }));
    }
    // Near the table, and from another region.
    for region in [0, 1] {
        let client = server.session(region).await;
        for sql in [
            "create table c as select * from t",
            "insert into u select id, a from t where a > 5 on conflict do nothing",
            "create materialized view v as select a, count(*) from t group by a",
            "refresh materialized view v",
            "update t set b = c.b || '!' from c where c.id = t.id and c.id % 50 = 0",
            "drop materialized view v; drop table c; delete from u",
            "alter table t alter column a type bigint",
            "alter table t alter column a type int",
        ] {
            let ended =
                tokio::time::timeout(std::time::Duration::from_secs(60), client.batch_execute(sql)).await;
            ended.expect(sql).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
        }
    }
    stop.store(true, Ordering::SeqCst);
    for writer in writers {
        assert!(writer.await.expect("no writer fails") > 0);
    }
    assert_eq!(value(&home, &format!("select count(*) from t where id <= {ROWS}")).await, ROWS.to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_statements_that_insert_the_same_keys_from_queries_one_succeeds() {
    for server in Server::with_each_engine(&[]) {
        let home = server.session(0).await;
        run(&home, "create table k (id int primary key, who int, mark int unique)").await;
        run(
            &home,
            "create table source (id int primary key); insert into source select generate_series(1, 300)",
        )
        .await;
        for keys in ["id, {who}, null", "{who} * 1000 + id, {who}, id"] {
            let mut inserting = Vec::new();
            for who in 1..=4 {
                let client = server.session(who % 2).await;
                let sql =
                    format!("insert into k select {keys} from source").replace("{who}", &who.to_string());
                inserting.push(tokio::spawn(async move { client.batch_execute(&sql).await }));
            }
            let mut succeeded = 0;
            for insert in inserting {
                match insert.await.expect("no client fails") {
                    Ok(()) => succeeded += 1,
                    Err(e) => assert_eq!(state(&e), "23505", "{e}"),
                }
            }
            assert_eq!(succeeded, 1, "{keys}");
            assert_eq!(rows(&home, "select count(*), count(distinct who) from k").await.unwrap(), ["300|1"]);
            run(&home, "delete from k").await;
        }
    }
}

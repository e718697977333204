//! Temporary tables and those who made them: nobody else reaches them, and they are gone when their session is.

use crate::server::{Server, failure, rows, run, value};
use std::time::Duration;
use tokio_postgres::Client;

const LEFT: &str = "select count(*) from pg_namespace where nspname like 'pg\\_temp\\_%'";

/// Waits until no schema of temporary tables is left.
async fn until_none_is_left(client: &Client) {
    for _ in 0..200 {
        if value(client, LEFT).await == "0" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let left = rows(client, "select nspname from pg_namespace").await.unwrap();
    panic!("temporary tables are left after 20 s: {left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn temporary_tables_are_their_sessions_own_with_each_engine() {
    for server in Server::with_each_engine(&[]) {
        let watcher = server.session(0).await;
        run(&watcher, "create table shared (id int primary key); insert into shared values (1), (2)").await;
        let mut sessions = Vec::new();
        for n in 0..6 {
            let session = server.session(n % 3).await;
            run(&session, "create temp table shared (id int primary key, own int)").await;
            run(&session, &format!("insert into shared select id, {n} from public.shared")).await;
            sessions.push(session);
        }
        for (n, session) in sessions.iter().enumerate() {
            assert_eq!(
                value(session, "select min(own), max(own), count(*) from shared").await,
                format!("{n}|{n}|2")
            );
        }
        assert_eq!(value(&watcher, "select count(*) from shared").await, "2");
        let name = "select nspname || '.shared' from pg_namespace where nspname like 'pg\\_temp\\_%' limit 1";
        let other = value(&watcher, name).await;
        for statement in ["select * from", "delete from", "drop table", "truncate", "insert into", "lock"] {
            let text = match statement {
                "insert into" => format!("insert into {other} values (3, 3)"),
                _ => format!("{statement} {other}"),
            };
            assert_eq!(failure(&watcher, &format!("begin; {text}")).await.0, "42P01", "{text}");
            run(&watcher, "rollback").await;
        }
        drop(sessions);
        until_none_is_left(&watcher).await;
        assert_eq!(value(&watcher, "select count(*) from pg_class where relname like 'shared%'").await, "2");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_come_and_go_leave_nothing_behind() {
    let server = Server::start();
    let watcher = server.session(0).await;
    let mut all = Vec::new();
    for n in 0..24 {
        let session = server.session(n % 3).await;
        all.push(tokio::spawn(async move {
            run(&session, "create temp table mine (id serial primary key, v text)").await;
            run(&session, "insert into mine (v) values ('x')").await;
            run(&session, "begin; create temp table more as select * from mine; rollback").await;
            assert_eq!(value(&session, "select count(*) from mine").await, "1");
        }));
    }
    for one in all {
        one.await.unwrap();
    }
    // Blocks of one region that overlap are no changes of one another's catalog.
    let mut blocks = Vec::new();
    for n in 0..8 {
        let session = server.session(1).await;
        run(&session, "begin; create temp table mine (id serial primary key, v text unique)").await;
        run(&session, &format!("insert into mine (v) values ('{n}'); create index on mine (v, id)")).await;
        blocks.push(session);
    }
    for (n, session) in blocks.iter().enumerate() {
        run(session, "commit").await;
        assert_eq!(value(session, &format!("select v from mine where v = '{n}'")).await, n.to_string());
    }
    drop(blocks);
    until_none_is_left(&watcher).await;
    for catalog in ["pg_class where relname like 'mine%' or relname like 'more%'", "pg_attrdef"] {
        assert_eq!(value(&watcher, &format!("select count(*) from {catalog}")).await, "0", "{catalog}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_server_left_is_dropped_when_it_is_back() {
    let path = std::env::temp_dir().join(format!("meridian-{}-temporary", std::process::id()));
    _ = std::fs::remove_dir_all(&path);
    let start =
        || Server::start_with(&["--regions", "us", "--data", path.to_str().expect("a plain name")], 1);
    let server = start();
    let client = server.session(0).await;
    run(&client, "create table kept (id int); create temp table kept (id serial, v int); insert into kept (v) values (1)")
        .await;
    assert_eq!(value(&client, LEFT).await, "1");
    drop(server);
    let server = start();
    let client = server.session(0).await;
    assert_eq!(value(&client, "select count(*) from kept").await, "0");
    until_none_is_left(&client).await;
    assert_eq!(value(&client, "select count(*) from pg_class where relname like 'kept%'").await, "1");
    run(&client, "create temp table kept (id serial, v int); insert into kept (v) values (7)").await;
    assert_eq!(value(&client, "select id, v from kept").await, "1|7");
    drop(server);
    _ = std::fs::remove_dir_all(&path);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_gets_a_session_back_without_temporary_tables() {
    let server = Server::start();
    let client = server.session(1).await;
    run(&client, "create table t (id int); insert into t values (1)").await;
    let count = client.prepare("select count(*) from t").await.unwrap();
    assert_eq!(client.query_one(&count, &[]).await.unwrap().get::<_, i64>(0), 1);
    run(&client, "create temp table t (id int)").await;
    assert_eq!(client.query_one(&count, &[]).await.unwrap().get::<_, i64>(0), 0);
    run(&client, "begin; drop table t").await;
    assert_eq!(client.query_one(&count, &[]).await.unwrap().get::<_, i64>(0), 1);
    run(&client, "rollback").await;
    assert_eq!(client.query_one(&count, &[]).await.unwrap().get::<_, i64>(0), 0);
    run(&client, "discard all").await;
    assert_eq!(value(&client, "select count(*) from t").await, "1");
    assert_eq!(value(&client, LEFT).await, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_make_temporary_tables_is_told() {
    let server = Server::start();
    let root = server.session_of(0, "root").await.unwrap();
    run(&root, "create user ann; create table t (id int); grant select on t to ann").await;
    let ann = server.session_of(0, "ann").await.unwrap();
    run(&ann, "create temp table own as select * from t; insert into own values (1); drop table own").await;
    run(&root, "revoke temporary on database meridian from public").await;
    let (state, told) = failure(&ann, "create temp table own (a int)").await;
    assert_eq!(
        (state.as_str(), told.as_str()),
        ("42501", "permission denied to create temporary tables in database \"meridian\"")
    );
}

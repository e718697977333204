//! Changes of the catalog while others read and write.

use crate::server::{Server, failure, rows, run, state, value};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[tokio::test(flavor = "multi_thread")]
async fn columns_and_indexes_added_under_load_lose_nothing() {
    let server = Server::start();
    let first = server.session(0).await;
    run(&first, "create table t (k int primary key, owner int not null, v int not null)").await;
    let done = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    for n in 0..3i32 {
        let (client, done) = (server.session(n as usize).await, done.clone());
        writers.push(tokio::spawn(async move {
            let mut k = 0i32;
            while k < 30 || !done.load(Ordering::SeqCst) {
                let sql = "insert into t (k, owner, v) values ($1, $2, 1)";
                client.execute(sql, &[&(k * 3 + n), &n]).await.unwrap();
                let changed = client.execute("update t set v = v + 1 where k = $1", &[&(k * 3 + n)]).await;
                assert_eq!(changed.unwrap(), 1);
                k += 1;
            }
            i64::from(k)
        }));
    }
    run(&first, "alter table t add column note text not null default 'none'").await;
    run(&first, "create index t_owner on t (owner)").await;
    run(&first, "alter table t add column extra int").await;
    run(&first, "create unique index t_k on t (k)").await;
    done.store(true, Ordering::SeqCst);
    let mut written = Vec::new();
    for writer in writers {
        written.push(writer.await.unwrap());
    }
    let total: i64 = written.iter().sum();
    let everything = "select count(*), sum(v), count(note), count(extra) from t";
    for region in 0..3 {
        let client = server.session(region).await;
        assert_eq!(value(&client, everything).await, format!("{total}|{}|{total}|0", 2 * total));
        // The index answers what the table holds.
        for (n, count) in written.iter().enumerate() {
            run(&client, "begin").await;
            let by_index = format!("select k from t where owner = {n} for update");
            assert_eq!(rows(&client, &by_index).await.unwrap().len() as i64, *count);
            run(&client, "rollback").await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_index_leaves_nothing_behind() {
    let server = Server::start();
    let client = server.session(0).await;
    run(&client, "create table t (k int primary key, v int); insert into t values (1, 5), (2, 5)").await;
    let (state, _) = failure(&client, "create unique index t_v on t (v)").await;
    assert_eq!(state, "23505");
    run(&client, "insert into t values (3, 5)").await;
    run(&client, "create index t_v on t (v)").await;
    assert_eq!(value(&client, "select count(*) from t where v = 5").await, "3");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_that_wrote_a_table_which_another_session_changes_is_told_so_at_its_next_statement() {
    for engine in ["caerus", "perseus", "geogauss", "slog", "calvin"] {
        let server = Server::start_with(&["--engine", engine], 3);
        let (client, other) = (server.session(0).await, server.session(0).await);
        run(&client, "create table t (id int primary key, v int not null)").await;
        run(&client, "insert into t values (1, 1), (2, 2)").await;
        let body = "begin update t set v = v + 1 where id = 1; end";
        run(&client, &format!("create procedure bump() language plpgsql as $${body}$$")).await;
        run(&client, "prepare again as update t set v = v + 1 where id = 1").await;
        let prepared = client.prepare("update t set v = v + $1 where id = 1").await.unwrap();
        let mut changes = 0;
        let mut change = async || {
            changes += 1;
            let sql = match changes % 2 {
                0 => format!("create index on t ((v + {changes}))"),
                _ => format!("alter table t add column w{changes} int default 7"),
            };
            run(&other, &sql).await;
        };
        for next in [
            "select * from t where id = 1",
            "select count(*) from t",
            "update t set v = v + 1 where id = 1",
            "insert into t values (3, 3)",
            "insert into t values (1, 1) on conflict (id) do update set v = 5",
            "delete from t where id = 1",
            "execute again",
            "call bump()",
            "copy t from stdin",
            "create table more (id int primary key)",
            "commit",
        ] {
            run(&client, "begin; update t set v = v + 1 where id = 1").await;
            change().await;
            let told = failure(&client, next).await;
            let says = "the table \"t\" was changed while this transaction ran";
            assert_eq!(told, ("40001".into(), says.into()), "{engine}: {next}");
            run(&client, "rollback").await;
        }
        run(&client, "begin; update t set v = v + 1 where id = 1").await;
        change().await;
        let told = client.execute(&prepared, &[&1i32]).await.unwrap_err();
        assert_eq!(state(&told), "40001", "{engine}");
        run(&client, "rollback").await;
        // A temporary table of the block's own does not take the rows along.
        run(&client, "begin; create temp table x (a int); update t set v = v + 1 where id = 1").await;
        change().await;
        assert_eq!(failure(&client, "commit").await.0, "40001", "{engine}");
        // What is taken back is written no more.
        run(&client, "begin; savepoint s; update t set v = v + 1 where id = 1").await;
        change().await;
        assert_eq!(failure(&client, "update t set v = v + 1 where id = 1").await.0, "40001", "{engine}");
        run(&client, "rollback to s").await;
        assert_eq!(value(&client, "select 1").await, "1", "{engine}");
        run(&client, "rollback").await;
        run(&client, "begin; update t set v = v + 1 where id = 1").await;
        run(&other, "drop table t").await;
        let told = failure(&client, "select 1").await.1;
        assert_eq!(told, "the table \"t\" was dropped while this transaction ran", "{engine}");
        run(&client, "rollback").await;
    }
}

/// A column that gets another type has its table written anew, under another number.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_written_anew_fails_no_single_statement() {
    for engine in ["caerus", "perseus", "geogauss"] {
        let server = Server::start_with(&["--engine", engine], 3);
        let (first, other) = (server.session(0).await, server.session(0).await);
        run(
            &first,
            "create table z (i int primary key); create table t (id int primary key, v int);
             create table c (id int primary key, t int references t); insert into t values (1, 1)",
        )
        .await;
        for (read, made) in
            [("select * from t where id = 1", "bigint"), ("select count(*), sum(v) from t", "int")]
        {
            run(&first, "begin; select * from z where i = 1").await;
            run(&other, &format!("alter table t alter v type {made}")).await;
            assert_eq!(failure(&first, read).await.0, "40001", "{engine}: {read}");
            run(&first, "rollback").await;
        }
        let done = Arc::new(AtomicBool::new(false));
        let mut clients = Vec::new();
        for n in 0..3 {
            let (client, done) = (server.session(n).await, done.clone());
            clients.push(tokio::spawn(async move {
                for nth in 0.. {
                    for statement in [
                        "select v from t where id = 1",
                        "select count(*) from t",
                        "update t set v = v + (select min(id) from t) where id = 1",
                        "with x as (update t set v = v + 1 where id = 1 returning v) select v from x",
                        &format!("insert into c values ({n} * 100000 + {nth}, 1)"),
                    ] {
                        run(&client, statement).await;
                    }
                    if done.load(Ordering::SeqCst) {
                        break;
                    }
                }
            }));
        }
        for _ in 0..8 {
            run(&other, "alter table t alter v type bigint").await;
            run(&other, "alter table t alter v type int").await;
        }
        done.store(true, Ordering::SeqCst);
        for client in clients {
            client.await.unwrap();
        }
    }
}

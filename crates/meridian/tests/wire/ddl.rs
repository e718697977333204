//! Changes of the catalog while others read and write.

use crate::server::{Server, failure, rows, run, value};
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

//! Materialized views while what they read is written: who reads one sees the rows of one refresh.

use crate::server::{Server, failure, run, value};

const ROWS: usize = 20;

#[tokio::test(flavor = "multi_thread")]
async fn readers_see_one_refresh_or_the_next_with_each_engine() {
    for server in Server::with_each_engine(&[]) {
        let writer = server.session(0).await;
        run(&writer, "create table t (id int primary key, v int)").await;
        run(&writer, &format!("insert into t select i, 0 from generate_series(1, {ROWS}) i")).await;
        run(&writer, "create materialized view m as select id, v from t").await;
        let mut others = Vec::new();
        for n in 0..2 {
            let session = server.session(n).await;
            others.push(tokio::spawn(async move {
                for _ in 0..3 {
                    run(&session, "refresh materialized view m").await;
                }
            }));
        }
        let reader = server.session(2).await;
        let reading = tokio::spawn(async move {
            for _ in 0..20 {
                let seen =
                    value(&reader, "select count(*), count(distinct v), count(distinct id) from m").await;
                assert_eq!(seen, format!("{ROWS}|1|{ROWS}"));
            }
        });
        for _ in 0..5 {
            run(&writer, "update t set v = v + 1").await;
        }
        for other in others.into_iter().chain([reading]) {
            other.await.unwrap();
        }
        run(&writer, "refresh materialized view m").await;
        assert_eq!(value(&writer, "select min(v), max(v), count(*) from m").await, format!("5|5|{ROWS}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_is_refreshed_by_its_owner_with_the_owners_rights() {
    let server = Server::start();
    let root = server.session_of(0, "root").await.unwrap();
    run(
        &root,
        "create user ann; create user bob; create table hidden (id int); insert into hidden values (1)",
    )
    .await;
    run(&root, "create schema views; grant all on schema views to ann; grant usage on schema views to bob")
        .await;
    let ann = server.session_of(1, "ann").await.unwrap();
    let told = failure(&ann, "create materialized view views.m as select id from hidden").await;
    assert_eq!(told, ("42501".into(), "permission denied for table hidden".into()));
    run(&root, "grant select on hidden to ann").await;
    run(&ann, "create materialized view views.m as select id from hidden").await;
    let bob = server.session_of(2, "bob").await.unwrap();
    assert_eq!(failure(&bob, "select * from views.m").await.0, "42501");
    run(&ann, "grant select on views.m to bob").await;
    assert_eq!(value(&bob, "select count(*) from views.m").await, "1");
    let told = failure(&bob, "refresh materialized view views.m").await;
    assert_eq!(told, ("42501".into(), "must be owner of materialized view m".into()));
    // Root refreshes what ann may not read any more.
    run(&root, "revoke select on hidden from ann").await;
    assert_eq!(failure(&root, "refresh materialized view views.m").await.0, "42501");
    assert_eq!(value(&bob, "select count(*) from views.m").await, "1");
}

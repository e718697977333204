//! Blocks whose changes of the catalog are ordered behind changes by others: of temporary relations, and of sequences.

use crate::server::{Server, failure, run, state, until_done, value};

/// Of each: what is there, what a block makes over it, and what becomes of it meanwhile.
const USES: [[&str; 3]; 10] = [
    ["create type mood as enum ('x')", "create temp table own (m mood)", "drop type mood"],
    ["create type many as enum ('x')", "create temp table own (m many[])", "alter type many add value 'y'"],
    [
        "create type cast_to as enum ('x')",
        "create temp view own as select 'x'::cast_to::text as m",
        "drop type cast_to",
    ],
    ["create domain small as int check (value < 9)", "create temp table own (n small)", "drop domain small"],
    [
        "create sequence counter",
        "create temp table own (n int default nextval('counter'))",
        "drop sequence counter",
    ],
    ["create table gone (v int)", "create temp view own as select v from gone", "drop table gone"],
    [
        "create table was (v int)",
        "create temp view own as select v from was",
        "alter table was rename to became",
    ],
    [
        "create table narrow (v int, w int)",
        "create temp view own as select v from narrow",
        "alter table narrow drop column v",
    ],
    [
        "create function plus(n int) returns int language sql as 'select n + 1'",
        "create temp view own as select plus(1) as n",
        "drop function plus",
    ],
    [
        "create schema shop; create table shop.goods (v int)",
        "create temp view own as select v from shop.goods",
        "drop schema shop cascade",
    ],
];

#[tokio::test(flavor = "multi_thread")]
async fn what_a_temporary_relation_refers_to_is_there_when_it_commits() {
    let server = Server::start();
    let (a, b) = (server.session(0).await, server.session(1).await);
    for [there, over, change] in USES {
        run(&a, there).await;
        run(&a, "begin").await;
        run(&a, over).await;
        until_done(&b, change).await;
        assert_eq!(failure(&a, "commit").await.0, "40001", "{change}");
        assert_eq!(failure(&a, "select * from own").await.0, "42P01", "{change}");
    }
    // What it does not refer to may change.
    run(&a, "create type used as enum ('x'); create type unused as enum ('x'); create table beside (v int)")
        .await;
    run(&a, "begin; create temp table own (u used)").await;
    run(&a, "insert into own values ('x')").await;
    until_done(&b, "drop table beside").await;
    until_done(&b, "alter type unused add value 'y'").await;
    run(&a, "commit").await;
    assert_eq!(value(&a, "select u::text || pg_typeof(u) from own").await, "xused");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_whose_temporary_table_ends_with_it_is_serializable() {
    let server = Server::start_with(&["--engine", "geogauss"], 3);
    let (a, b) = (server.session(0).await, server.session(1).await);
    run(&a, "create table t (id int primary key, v int); insert into t values (1, 1)").await;
    until_done(&b, "select id from t").await;
    for level in ["read committed", "repeatable read"] {
        for (client, id) in [(&a, 10), (&b, 11)] {
            run(client, &format!("begin isolation level {level}")).await;
            run(client, "create temp table own (i int) on commit drop").await;
            run(client, &format!("insert into t select {id}, sum(v) from t")).await;
        }
        let ended = [a.batch_execute("commit").await, b.batch_execute("commit").await];
        assert!(ended.iter().any(Result::is_err), "{level}: write skew");
        ended.iter().filter_map(|end| end.as_ref().err()).for_each(|error| assert_eq!(state(error), "40001"));
        run(&a, "delete from t where id > 1").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_that_moves_a_sequence_commits_beside_temporary_tables() {
    for server in Server::with_all_engines() {
        let (a, b) = (server.session(0).await, server.session(1).await);
        run(&a, "create sequence s; create table t (id serial primary key, v int)").await;
        run(&a, "insert into t (v) values (1), (2)").await;
        until_done(&b, "select id from t").await;
        run(&a, "begin; select setval('s', 50)").await;
        run(&b, "create temp table own (i int)").await;
        run(&a, "commit").await;
        assert_eq!(value(&a, "select nextval('s')").await, "51");
        run(&a, "begin; truncate t restart identity").await;
        run(&b, "drop table own").await;
        run(&a, "commit").await;
        assert_eq!(value(&a, "insert into t (v) values (3) returning id").await, "1");
        // Another session has moved it.
        run(&a, "begin; select setval('s', 100)").await;
        run(&b, "select setval('s', 200)").await;
        assert_eq!(failure(&a, "commit").await.0, "40001");
    }
}

//! Statements about the session and about other statements, as far as it takes texts of several statements, data that is
//! copied or memory to show them.

use crate::notifications::Hearer;
use crate::raw::{Raw, run as run_extended, sync};
use crate::server::{Server, failure, rows, run, state, value};
use futures::SinkExt;
use tokio_postgres::Client;

#[tokio::test(flavor = "multi_thread")]
async fn what_a_text_or_a_pipeline_says_belongs_to_its_transaction() {
    let server = Server::start_with(&["--regions", "us"], 1);
    let mut hearer = Hearer::new(&server, 0).await;
    let client = server.session(0).await;
    run(&hearer.client, "listen news").await;

    for failing in ["notify news, 'x'; select 1/0", "select pg_notify('news', 'x'); select 1/0"] {
        assert_eq!(failure(&client, failing).await.0, "22012");
    }
    let mut raw = Raw::open(server.ports[0]);
    let answer = raw.ask(&[run_extended("notify news, 'x'"), run_extended("select 1/0"), sync()]);
    assert!(answer.iter().any(|line| line.starts_with("E 22012")), "{answer:?}");
    assert_eq!(failure(&client, "listen lost; select 1/0").await.0, "22012");
    hearer.hears_no_more().await;

    run(&client, "notify news, 'a'; select 1; notify news, 'b'; notify news, 'a'").await;
    raw.ask(&[run_extended("notify news, 'c'"), run_extended("select 1"), sync()]);
    assert_eq!(hearer.hears(3).await, ["news a", "news b", "news c"]);
    // What precedes a BEGIN in a text belongs to the block.
    run(&client, "notify news, 'block'; begin; select 1").await;
    hearer.hears_no_more().await;
    run(&client, "commit").await;
    assert_eq!(hearer.hears(1).await, ["news block"]);
    // Each is said once, and again after it was taken back.
    run(&client, "begin; savepoint s; notify news, 'd'; rollback to s; notify news, 'd'; notify news, 'd'")
        .await;
    run(&client, "commit").await;
    assert_eq!(hearer.hears(1).await, ["news d"]);
    hearer.hears_no_more().await;
}

#[tokio::test]
async fn what_functions_give_and_transactions_say_is_counted_while_it_grows() {
    let server = Server::start_with(&["--regions", "us", "--query-memory-mib", "64"], 1);
    let client = server.session(0).await;
    run(
        &client,
        "create function wide(i int) returns text language plpgsql as $$ begin return repeat('x', 1000000); end $$",
    )
    .await;
    for sql in [
        "select wide(i) from generate_series(1, 100000) i",
        "select i, wide(i), wide(i + 1) from generate_series(1, 100000) i",
    ] {
        assert_eq!(failure(&client, sql).await.0, "53200", "{sql}");
    }
    assert_eq!(rows(&client, "select wide(i) from generate_series(1, 5) i").await.unwrap().len(), 5);

    let say = "do $$ begin for i in 1..10000000 loop perform pg_notify('c', repeat('x', 7000) || i); end loop; end $$";
    let full = ("54000".to_string(), "too many notifications in the NOTIFY queue".to_string());
    assert_eq!(failure(&client, say).await, full);
    run(&client, "begin; notify c, 'x'; savepoint s").await;
    assert_eq!(failure(&client, say).await, full);
    run(&client, "rollback to s; notify c, 'y'; commit").await;
    // What is said again and again is said once.
    run(
        &client,
        "do $$ begin for i in 1..5000 loop perform pg_notify('c', repeat('x', 7000)); end loop; end $$",
    )
    .await;
}

/// Copies data into a table; answers the SQLSTATE of what went wrong, if anything did.
async fn copied(client: &Client, sql: &str, data: &'static [u8]) -> String {
    let sink = client.copy_in::<_, bytes::Bytes>(sql).await.unwrap();
    let mut sink = Box::pin(sink);
    // However it is cut.
    for piece in data.chunks(3) {
        sink.send(bytes::Bytes::from_static(piece)).await.expect("errors come at the end");
    }
    sink.as_mut().finish().await.err().map_or_else(String::new, |error| state(&error).to_string())
}

#[tokio::test]
async fn an_escape_that_is_no_quote_keeps_records_whole() {
    let server = Server::start_with(&["--regions", "us"], 1);
    let client = server.session(0).await;
    run(&client, "create table t (word text, n int)").await;
    let copy = "copy t from stdin (format csv, escape '\\')";
    let data = b"\"a\\\"b\",1\n\"two\nlines\\\"\n\",2\n\"end\\\\\",3\nplain\\,4\n";
    assert_eq!(copied(&client, copy, data).await, "");
    assert_eq!(
        rows(&client, "select replace(word, chr(10), '/'), n from t order by n").await.unwrap(),
        ["a\"b|1", "two/lines\"/|2", "end\\|3", "plain\\|4"]
    );
    assert_eq!(copied(&client, copy, b"\"a\\\",1\n").await, "22P04");
}

#[tokio::test]
async fn a_built_in_procedure_writes_no_table_that_has_something_computed() {
    let server = Server::start_with(&["--regions", "us"], 1);
    let client = server.session(0).await;
    let columns: Vec<String> = (0..10).map(|n| format!("c{n} bigint not null")).collect();
    let columns = columns.join(", ");
    let create =
        format!("create table micro (m_home bigint, m_key bigint, {columns}, primary key (m_home, m_key))");
    let fill = "insert into micro select 1, k, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0 from generate_series(1, 2) k";
    let call = "call micro_move(0, 1, '1,1,1,2')";
    let moved = "select string_agg(c0::text, ' ' order by m_key) from micro";
    for (change, hint) in [
        (
            "alter table micro add column twice bigint generated always as (c0 * 2) stored",
            "generated columns",
        ),
        ("create index on micro ((c0 * 2))", "indexes over expressions"),
    ] {
        run(&client, &create).await;
        run(&client, fill).await;
        run(&client, call).await;
        assert_eq!(value(&client, moved).await, "4 6");
        run(&client, change).await;
        for sql in [call.to_string(), format!("begin; {call}")] {
            let error = client.simple_query(&sql).await.expect_err(change);
            let told = error.as_db_error().expect("the server's");
            assert_eq!(
                (told.code().code(), told.message().contains("\"micro\"")),
                ("0A000", true),
                "{error}"
            );
            assert!(told.hint().is_some_and(|told| told.contains(hint)), "{told:?}");
        }
        run(&client, "rollback").await;
        assert_eq!(value(&client, moved).await, "4 6");
        run(&client, "drop table micro").await;
    }
}

#[tokio::test]
async fn a_chained_block_has_the_level_of_the_one_before() {
    let server = Server::start_with(&["--engine", "geogauss"], 3);
    let client = server.session(0).await;
    for level in ["read committed", "repeatable read", "serializable"] {
        run(&client, &format!("begin isolation level {level}, read only")).await;
        for chain in ["commit and chain", "rollback and chain"] {
            run(&client, chain).await;
            assert_eq!(value(&client, "show transaction_isolation").await, level, "{chain}");
            assert_eq!(value(&client, "show transaction_read_only").await, "on", "{chain}");
        }
        run(&client, "commit").await;
        assert_eq!(value(&client, "show transaction_read_only").await, "off");
    }
}

#[tokio::test]
async fn explain_analyze_runs_a_statement_or_refuses_it() {
    let server = Server::start_with(&["--regions", "us"], 1);
    let client = server.session(0).await;
    let shown =
        rows(&client, "explain analyze create table x as select i from generate_series(1, 3) i").await;
    assert!(shown.unwrap().contains(&"Rows: 3".to_string()));
    assert_eq!(value(&client, "select count(*) from x").await, "3");
    run(&client, "prepare few (int) as select i from x where i > $1").await;
    let shown = rows(&client, "explain analyze execute few(1)").await.unwrap();
    assert!(shown.contains(&"Rows: 2".to_string()), "{shown:?}");
    for refused in ["create table y (a int)", "create view v as select 1 as a"] {
        assert_eq!(failure(&client, &format!("explain analyze {refused}")).await.0, "0A000", "{refused}");
        run(&client, &format!("explain {refused}")).await;
    }
    assert_eq!(
        failure(&client, "begin read only; explain analyze create table y as select 1 a").await.0,
        "25006"
    );
    run(&client, "rollback").await;
    assert_eq!(failure(&client, "select * from y").await.0, "42P01");
}

//! PL/pgSQL over connections: notices, contexts of errors, both protocols, and programs that do not end by themselves.
//! What statements answer stands in `tests/slt/plpgsql.slt`.

use crate::raw::{Raw, bind, execute, parse, sync};
use crate::server::{Server, failure, rows, run, value};
use std::time::{Duration, Instant};

const SMALL: &[&str] = &["--regions", "us"];

#[test]
fn notices_and_places_of_errors_are_told() {
    let server = Server::start_with(SMALL, 1);
    let mut client = Raw::open(server.ports[0]);
    let said = client.simple(
        "do $$ begin
           for i in 1..2 loop raise notice 'step %', i; end loop;
           raise warning 'slow' using errcode = '01234';
           raise debug 'not shown';
           raise exception 'stop %', 3 using errcode = 'unique_violation';
         end $$",
    );
    assert_eq!(
        said,
        [
            "N 00000 step 1",
            "N 00000 step 2",
            "N 01234 slow",
            "E 23505 stop 3 [PL/pgSQL function inline_code_block line 5 at RAISE]",
            "Z I",
        ]
    );
    client.simple(
        "create function f(a int, b text) returns int language plpgsql as $$\nbegin\n  return 1 / a;\nend $$",
    );
    client.simple("create function g(a int) returns int language plpgsql as $$ begin\n perform f(a, 'x');\n return 1; end $$");
    let failed = "E 22012 division by zero [PL/pgSQL function f(integer,text) line 3 at RETURN\n\
                  SQL statement \"SELECT f(a, 'x')\"\nPL/pgSQL function g(integer) line 2 at PERFORM]";
    assert_eq!(client.simple("select g(0)")[0], failed);
    client.simple("create table t (id int primary key)");
    let told = client.simple("do $$ begin insert into t values (1);\n insert into t values (1); end $$");
    assert!(told[0].starts_with("E 23505"), "{told:?}");
    let place = "[SQL statement \"insert into t values (1)\"\nPL/pgSQL function inline_code_block line 2 at SQL statement]";
    assert!(told[0].ends_with(place), "{told:?}");
    assert_eq!(client.simple("select count(*) from t")[1], "D 0");
}

#[test]
fn notices_are_kept_up_to_a_number_and_a_size() {
    let server = Server::start_with(SMALL, 1);
    let mut client = Raw::open(server.ports[0]);
    for (count, text, kept) in [(1_100, "'x'", 1_000), (10, "repeat('x', 1000000)", 4)] {
        let body = format!("begin for i in 1..{count} loop raise notice '% %', i, {text}; end loop; end");
        let said = client.simple(&format!("do $$ {body} $$"));
        assert_eq!(said.len(), kept + 3, "the notices, a warning, the answer, ready");
        assert!(said[kept - 1].starts_with(&format!("N 00000 {kept} x")));
        let missing = count - kept;
        assert_eq!(said[kept], format!("N 01000 {missing} further notices of the statement are not shown"));
        assert_eq!(said[kept + 1], "C DO");
    }
    assert_eq!(client.simple("do $$ begin raise notice 'again'; end $$")[0], "N 00000 again");
}

#[test]
fn both_protocols_run_programs() {
    let server = Server::start_with(SMALL, 1);
    let mut client = Raw::open(server.ports[0]);
    client.simple("create table t (id int primary key, v text)");
    client.simple(
        "create function put(id int, v text) returns int language plpgsql as $$
         begin insert into t values (put.id, put.v); raise notice 'put %', v; return id * 10; end $$",
    );
    let extended = |client: &mut Raw, sql: &str, values: &[&str]| {
        let values: Vec<&[u8]> = values.iter().map(|value| value.as_bytes()).collect();
        client.ask(&[parse("", sql), bind("", "", &values, 0), execute(""), sync()])
    };
    let answer = extended(&mut client, "select put($1, $2)", &["7", "seven"]);
    assert!(answer.contains(&"N 00000 put seven".to_string()), "{answer:?}");
    assert!(answer.contains(&"D 70".to_string()), "{answer:?}");
    assert!(answer.contains(&"C SELECT 1".to_string()), "{answer:?}");
    let answer = extended(&mut client, "do $$ begin insert into t values (8, 'eight'); end $$", &[]);
    assert!(answer.contains(&"C DO".to_string()), "{answer:?}");
    assert_eq!(client.simple("select id, v from t order by id")[1..3], ["D 7|seven", "D 8|eight"]);
    // A text of several statements is one transaction.
    let answer = client.simple("select put(9, 'nine'); do $$ begin raise exception 'no'; end $$");
    assert!(answer.iter().any(|line| line.starts_with("E P0001 no")), "{answer:?}");
    assert_eq!(client.simple("select count(*) from t")[1], "D 2");
}

#[tokio::test(flavor = "multi_thread")]
async fn loops_without_an_end_are_ended() {
    let server = Server::start_with(SMALL, 1);
    let client = server.session(0).await;
    let other = server.session(0).await;
    run(&client, "create table t (id int primary key); insert into t values (1)").await;
    run(&client, "set statement_timeout = '300ms'").await;
    for body in [
        "loop null; end loop;",
        "while true loop n := n + 1; end loop;",
        "for i in 1..2000000000 loop n := i; end loop;",
        "loop perform count(*) from t; end loop;",
        "loop update t set id = id where id = 1; end loop;",
        "loop begin perform 1 / 0; exception when others then null; end; end loop;",
        "loop begin loop null; end loop; exception when query_canceled then null; end; end loop;",
        "loop execute 'select 1' into n; end loop;",
        "loop raise notice 'again'; end loop;",
    ] {
        let began = Instant::now();
        let text = format!("do $$ declare n int := 0; begin {body} end $$");
        assert_eq!(failure(&client, &text).await.0, "57014", "{body}");
        assert!(began.elapsed() < Duration::from_secs(8), "{body}: {:?}", began.elapsed());
        assert_eq!(value(&other, "select count(*) from t").await, "1");
    }
    run(&client, "reset statement_timeout").await;
    let cancel = client.cancel_token();
    let canceling = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(200)).await;
        cancel.cancel_query(tokio_postgres::NoTls).await.expect("it is taken");
    });
    assert_eq!(failure(&client, "do $$ begin loop null; end loop; end $$").await.0, "57014");
    canceling.await.unwrap();
    assert_eq!(value(&client, "select 1").await, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_grows_without_an_end_is_refused() {
    let mut server = Server::start_with(&["--regions", "us", "--query-memory-mib", "64"], 1);
    let client = server.session(0).await;
    run(&client, "set statement_timeout = '60s'").await;
    run(
        &client,
        "create function deep(n int) returns int language plpgsql as $$ begin return deep(n + 1); end $$",
    )
    .await;
    assert_eq!(failure(&client, "select deep(1)").await.0, "54001");
    // Each level may catch it.
    run(
        &client,
        "create function stubborn(n int) returns int language plpgsql as $$ begin return stubborn(n + 1); \
         exception when others then return n; end $$",
    )
    .await;
    assert_eq!(value(&client, "select stubborn(1) > 10").await, "t");
    let doubling = "do $$ declare s text := 'x'; begin loop s := s || s; end loop; end $$";
    let (state, message) = failure(&client, doubling).await;
    assert!(["53200", "54000"].contains(&state.as_str()), "{state} {message}");
    let rows_of = "create function rows_of() returns setof text language plpgsql as $$ begin loop return next repeat('x', \
                   10000); end loop; end $$";
    run(&client, rows_of).await;
    assert_eq!(failure(&client, "select * from rows_of()").await.0, "53200");
    for (text, state) in [
        ("nonsense", "42601"),
        ("select 1; select 2", "0A000"),
        ("select $1", "42P02"),
        ("begin", "0A000"),
        ("commit", "0A000"),
        ("copy t from stdin", "0A000"),
        ("select ((((", "42601"),
        ("select 'x", "42601"),
        ("do $x$ begin execute ''nonsense''; end $x$", "42601"),
    ] {
        let told = failure(&client, &format!("do $$ begin execute '{text}'; end $$")).await;
        assert_eq!(told.0, state, "{text}: {}", told.1);
    }
    assert!(server.is_alive());
    assert_eq!(rows(&client, "select 1").await.unwrap(), ["1"]);
}

/// Programs of several regions that meet: each is executed as if it were alone.
#[tokio::test(flavor = "multi_thread")]
async fn programs_that_meet_are_executed_again() {
    for server in Server::with_each_engine(&[]) {
        let first = server.session(0).await;
        run(
            &first,
            "create table accounts (id int primary key, amount int); insert into accounts values (1, 0)",
        )
        .await;
        run(
            &first,
            "create function add_one() returns int language plpgsql as $$ declare n int; begin
             select amount into n from accounts where id = 1;
             update accounts set amount = n + 1 where id = 1;
             return n + 1; end $$",
        )
        .await;
        let mut running = Vec::new();
        for region in 0..3 {
            let client = server.session(region).await;
            running.push(tokio::spawn(async move {
                for _ in 0..5 {
                    run(&client, "select add_one()").await;
                }
            }));
        }
        for one in running {
            one.await.expect("no program fails");
        }
        assert_eq!(value(&first, "select amount from accounts").await, "15");
    }
}

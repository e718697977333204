//! Memory that clients ask for: refused beyond its limits, and given back.

use super::raw::{Raw, query};
use super::server::{Server, failure, rows, run, state, value};
use std::time::{Duration, Instant};

/// What statements may take together, and what the process may have beside it: its baseline, what is stored, and
/// what the allocator keeps for a while.
const QUERY_MIB: u64 = 64;
const BESIDE_MIB: u64 = 320;

/// Statements that ask for far more than there is, and the states they may be refused with.
const HOSTILE: &[(&str, &[&str])] = &[
    ("select length(repeat('x', 2000000000))", &["54000"]),
    ("explain analyze select length(repeat('x', 2000000000))", &["54000"]),
    ("select length(repeat('x', 1000000000))", &["53200"]),
    ("select length(lpad('x', 1000000000, 'yz'))", &["53200"]),
    ("select length(rpad('x', 2000000000, 'yz'))", &["53200", "54000"]),
    ("select length(repeat('x', 20000000) || repeat('y', 20000000) || repeat('z', 20000000))", &["53200"]),
    (
        "select length(concat(repeat('x', 20000000), repeat('y', 20000000), repeat('z', 20000000)))",
        &["53200"],
    ),
    ("select length(concat_ws(repeat('-', 10000000), 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'))", &["53200"]),
    ("select length(replace(repeat('x', 1000000), 'x', repeat('y', 1000)))", &["53200"]),
    ("select length(regexp_replace(repeat('x', 1000000), 'x', repeat('y', 1000), 'g'))", &["53200"]),
    ("select array_length(array_repeat('x', 1000000000), 1)", &["53200"]),
    ("select array_length(string_to_array(repeat('x,', 20000000), ','), 1)", &["53200"]),
    ("select count(*) from unnest(string_to_array(repeat('x,', 20000000), ',')) u", &["53200"]),
    (
        "select max(length(s)) from (select repeat('x', 1000000) s, \
         unnest(string_to_array(repeat('x,', 10000), ',')) u) q",
        &["53200"],
    ),
    ("select sum(length(a.s || b.v)) from (select repeat('x', 1000000) s) a, t b", &["53200"]),
    ("select count(*) from (select repeat('x', 1000000) s, id from t) q where s <> 'a'", &["53200"]),
    ("select repeat('x', 3000000) from t", &["53200"]),
    ("select concat(repeat('x', 1000000), repeat('y', 1000000), v) from t", &["53200"]),
    ("select count(*) from (select string_agg(v, ',') over () s from t) q where s <> 'a'", &["53200"]),
    ("select length(string_agg(repeat(v, 10000), ',')) from t", &["53200"]),
    ("select array_length(array_agg(repeat(a.v, 1000)), 1) from t a, t b", &["53200"]),
    ("select a.v, b.v, count(*) from t a, t b group by a.v, b.v order by count(*) limit 1", &["53200"]),
    ("select a.v || b.v x from t a, t b order by x", &["53200"]),
    // 8 million groups of one batch.
    (
        "select count(*) from (select id a, id + 1 b, id + 2 c, id + 3 d, id + 4 e, id + 5 f, id + 6 g, id + 7 h, \
         id + 8 i, id + 9 j, id + 10 k, id + 11 l from t) q group by cube (a, b, c, d, e, f, g, h, i, j, k, l)",
        &["53200"],
    ),
    ("create table made as select a.id * 100000 + b.id id, a.v from t a, t b", &["53200"]),
    ("insert into t select 100000 + a.id * 10000 + b.id, a.v from t a, t b", &["53200"]),
    ("begin; declare c cursor with hold for select a.v, b.v from t a, t b; commit", &["53200"]),
    ("begin; declare c cursor for select a.v, b.v from t a, t b; fetch all c; commit", &["53200"]),
    (
        "with recursive r as (select 1 n, 'x'::text s union all select n + 1, s || s from r where n < 40) \
         select max(length(s)) from r",
        &["53200"],
    ),
    // Few bytes that are shown with tens of MiB of blanks.
    ("select * from padded", &["53200"]),
    ("select * from padded where id = 1", &["53200"]),
    ("update long set v = v || v || v || v || v || v where id = 1", &["54000"]),
    (
        "select length(v || v || v || v || v || v || v || v || v || v || v || v || v || v) from long where id = 1",
        &["54000"],
    ),
];

#[tokio::test]
async fn what_is_asked_for_is_refused_beyond_the_limit_and_others_go_on() {
    let server = Server::start_with(&["--regions", "us", "--query-memory-mib", "64"], 1);
    let (client, other) = (server.session(0).await, server.session(0).await);
    let columns: Vec<String> = (1..=4).map(|n| format!("c{n} char(10485760)")).collect();
    let padded = format!("create table padded (id int primary key, {})", columns.join(", "));
    for setup in [
        "create table t (id int primary key, v text)",
        "insert into t select n, 'value ' || n from generate_series(1, 2000) s(n)",
        "create table long (id int primary key, v text)",
        "insert into long select 1, repeat('x', 5000000)",
        "select count(*) from t, long",
        &padded,
        "insert into padded (id, c1, c2, c3, c4) values (1, 'a', 'b', 'c', 'd')",
    ] {
        run(&client, setup).await;
    }
    let before_mib = server.status_mib("VmRSS:");
    for (sql, states) in HOSTILE {
        let (state, message) = failure(&client, sql).await;
        assert!(states.contains(&state.as_str()), "{sql}: {state} {message}");
        run(&client, "rollback").await;
        assert_eq!(value(&other, "select count(*) from t").await, "2000", "after {sql}");
    }
    let most_mib = server.status_mib("VmHWM:");
    assert!(
        most_mib <= before_mib + QUERY_MIB * 11 / 10 + BESIDE_MIB,
        "{before_mib} MiB before, {most_mib} MiB at most"
    );
    // What fits is answered, however much of it there is in all.
    for (sql, wanted) in [
        ("select sum(length(repeat(v, 1000))) from t", "18893000"),
        ("select count(*) from unnest(string_to_array(repeat('x,', 500000), ',')) u", "500001"),
        ("select length(repeat('x', 20000000))", "20000000"),
        ("select repeat('ab', 3) || 'c' || null is null", "t"),
    ] {
        assert_eq!(answered(&client, sql).await, wanted, "{sql}");
    }
}

/// Arrays that applications send: as values, where rows are looked for, and as rows.
#[tokio::test]
async fn an_array_of_many_elements_is_one_value() {
    let server = Server::start_with(&["--regions", "us", "--query-memory-mib", "64"], 1);
    let client = server.session(0).await;
    run(&client, "create table t (id int primary key, a bigint, v text)").await;
    run(&client, "insert into t select n, n, 'v' || n from generate_series(1, 2000) s(n)").await;
    run(&client, "insert into t (id) values (0)").await;
    value(&client, "select count(*) from t").await;
    let before_mib = server.status_mib("VmRSS:");
    let many: Vec<i32> = (1000..101_000).collect();
    let with_null: Vec<Option<i64>> = many.iter().map(|n| Some(i64::from(*n))).chain([None]).collect();
    let texts: Vec<String> = many.iter().map(|n| format!("v{n}")).collect();
    let quoted: Vec<String> = many.iter().map(|n| format!("a \"b\" \\ {{{n}}}, c")).collect();
    let ask = async |sql: &str, value: &(dyn tokio_postgres::types::ToSql + Sync)| {
        let rows = client.query(sql, &[value]).await;
        rows.unwrap_or_else(|e| panic!("{sql}: {e:?}"))[0].get::<_, i64>(0)
    };
    assert_eq!(ask("select cardinality($1::int[])::bigint", &many).await, 100_000);
    assert_eq!(ask("select sum(x) from unnest($1::int[]) u(x)", &many).await, 5_099_950_000);
    assert_eq!(ask("select count(*) from t where a = any($1::bigint[])", &with_null).await, 1001);
    assert_eq!(ask("select count(*) from t where a <> all($1::int[])", &many).await, 999);
    assert_eq!(ask("select count(*) from t where a <> all($1::bigint[])", &with_null).await, 0);
    assert_eq!(ask("select count(*) from t where id = any($1)", &many).await, 1001);
    assert_eq!(ask("select count(*) from t where v = any($1)", &texts).await, 1001);
    assert_eq!(ask("select count(*) from t where id > 0 and v <> all($1)", &texts).await, 999);
    assert_eq!(ask("select count(distinct x) from unnest($1::text[]) u(x)", &quoted).await, 100_000);
    let kept = "with kept as (select $1::text[] as a) select length(a[2])::bigint from kept";
    assert_eq!(ask(kept, &quoted).await, quoted[1].len() as i64);
    let most_mib = server.status_mib("VmHWM:");
    assert!(
        most_mib <= before_mib + QUERY_MIB * 11 / 10 + BESIDE_MIB,
        "{before_mib} MiB before, {most_mib} MiB at most"
    );
}

/// A pattern that is computed is not made a regular expression, which takes hundreds of times its length.
#[tokio::test]
async fn long_patterns_of_like_take_no_more_than_they_are_long() {
    let server = Server::start_with(&["--regions", "us", "--query-memory-mib", "64"], 1);
    let client = server.session(0).await;
    let before_mib = server.status_mib("VmRSS:");
    for (pattern, wanted) in [
        ("repeat('%', 1000000) || 'y'", "f|t"),
        ("repeat('%', 1000000) || 'x'", "t|f"),
        ("repeat('_', 1000000)", "f|t"),
        ("'x' || repeat('%', 1)", "t|f"),
    ] {
        let sql = format!("select 'x' like {pattern}, 'x' not like {pattern}");
        assert_eq!(rows(&client, &sql).await.unwrap(), [wanted], "{pattern}");
    }
    assert_eq!(value(&client, "select 'X' ilike repeat('x', 1) || '%'").await, "t");
    assert_eq!(value(&client, "select ('x' like null || 'x') is null").await, "t");
    let most_mib = server.status_mib("VmHWM:");
    assert!(most_mib <= before_mib + 150, "{before_mib} MiB before, {most_mib} MiB at most");
}

/// Clients that ask for much and take nothing of it.
#[tokio::test]
async fn answers_that_nobody_takes_are_bounded() {
    let server = Server::start_with(&["--regions", "us", "--query-memory-mib", "64"], 1);
    let other = server.session(0).await;
    assert_eq!(value(&other, "select 1").await, "1");
    let before_mib = server.status_mib("VmRSS:");
    let mut held = Vec::new();
    for _ in 0..12 {
        let mut client = Raw::open(server.ports[0]);
        client.send(&query("select repeat('x', 1000), i from generate_series(1, 2000000) s(i)"));
        held.push(client);
    }
    tokio::time::sleep(Duration::from_secs(4)).await;
    let most_mib = server.status_mib("VmHWM:");
    assert!(
        most_mib <= before_mib + QUERY_MIB * 11 / 10 + BESIDE_MIB,
        "{before_mib} MiB before, {most_mib} MiB at most"
    );
    assert_eq!(value(&other, "select 2").await, "2");
}

/// The only value that a statement answers with. Parts of one before it, which was refused, may still be on their way to an
/// end, and have memory until then.
async fn answered(client: &tokio_postgres::Client, sql: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match rows(client, sql).await {
            Ok(rows) => return rows.concat(),
            Err(error) if state(&error) == "53200" && Instant::now() < deadline => {}
            Err(error) => panic!("{sql}: {error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Each connection's thread goes deep once. What its stack took then does not stay for as long as it is connected.
#[tokio::test]
async fn stacks_of_connections_that_went_deep_are_given_back() {
    const CONNECTIONS: usize = 40;
    const LEVELS: usize = 190;
    let server = Server::start_with(&["--regions", "us"], 1);
    let deep = format!("{}select 1 as a{}", "select * from (".repeat(LEVELS), ") q".repeat(LEVELS));
    let mut held = vec![server.session(0).await];
    assert_eq!(value(&held[0], &deep).await, "1");
    let before_mib = server.status_mib("VmRSS:");
    while held.len() < CONNECTIONS {
        let client = server.session(0).await;
        assert_eq!(value(&client, &deep).await, "1");
        held.push(client);
    }
    let after_mib = server.status_mib("VmRSS:");
    // A connection has about 1 MiB; with its touched stack it would have 4.
    let more_mib = after_mib.saturating_sub(before_mib);
    assert!(more_mib <= 100, "{CONNECTIONS} connections keep {more_mib} MiB more than one");
}

/// What a transaction at the other end of this writes until the first one is told that it is too old.
async fn is_told_too_old(server: &Server, holder: &tokio_postgres::Client, is_busy: bool) {
    let writer = server.session(0).await;
    let wide = "x".repeat(20_000);
    let started = Instant::now();
    loop {
        if is_busy {
            for _ in 0..20 {
                run(&writer, &format!("update hot set v = '{wide}' where id = 1")).await;
            }
        }
        match rows(holder, "select n from seen order by id").await {
            // Right, as long as there is an answer.
            Ok(seen) => assert_eq!(seen, ["1", "2"]),
            Err(e) => {
                assert_eq!(state(&e), "72000", "{e:?}");
                return;
            }
        }
        assert!(started.elapsed() < Duration::from_secs(30), "the snapshot is kept");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn open_transactions_hold_back_no_more_than_they_may() {
    let setup = "create table seen (id int primary key, n int); insert into seen values (1, 1), (2, 2); \
                 create table hot (id int primary key, v text); insert into hot values (1, '')";
    // By memory: the oldest goes, a younger one stays.
    let server = Server::start_with(&["--regions", "us", "--old-versions-mib", "4"], 1);
    let (holder, younger, other) =
        (server.session(0).await, server.session(0).await, server.session(0).await);
    run(&other, setup).await;
    run(&holder, "set application_name = 'sleeper'; begin; select n from seen order by id").await;
    run(&other, "update seen set n = n + 10").await;
    assert_eq!(value(&other, "select application_name from meridian.snapshots").await, "sleeper");
    is_told_too_old(&server, &holder, true).await;
    assert_eq!(failure(&holder, "select 1").await.0, "25P02");
    run(&holder, "rollback").await;
    assert_eq!(value(&other, "select count(*) from meridian.snapshots").await, "0");
    assert_eq!(rows(&holder, "select n from seen order by id").await.unwrap(), ["11", "12"]);
    // One that begins now meets no old versions: it is left alone for longer than anybody looks.
    run(&younger, "begin; select n from seen").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(rows(&younger, "select n from seen order by id").await.unwrap(), ["11", "12"]);
    run(&younger, "update seen set n = n + 1; commit").await;

    // By age, with nobody writing; what rests on the snapshot is not committed.
    let server = Server::start_with(&["--regions", "us", "--old-versions-age", "1"], 1);
    let (holder, writer) = (server.session(0).await, server.session(0).await);
    run(&writer, setup).await;
    run(&holder, "begin; select n from seen order by id").await;
    run(&writer, "begin; select n from seen; update seen set n = 5").await;
    is_told_too_old(&server, &holder, false).await;
    // The other one is a little younger.
    let (other, started) = (server.session(0).await, Instant::now());
    while value(&other, "select count(*) from meridian.snapshots where not is_too_old").await != "0" {
        assert!(started.elapsed() < Duration::from_secs(30), "the younger snapshot is kept");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(failure(&writer, "commit").await.0, "72000");
    assert_eq!(rows(&holder, "rollback; select n from seen order by id").await.unwrap(), ["1", "2"]);
}

#[tokio::test]
async fn windows_and_patterns_reserve_what_they_take() {
    let server = Server::start_with(&["--regions", "us", "--query-memory-mib", "64"], 1);
    let client = server.session(0).await;
    run(&client, "create table t (id int primary key, v text)").await;
    run(&client, "insert into t select n, 'value ' || n from generate_series(1, 10) s(n)").await;
    let windows = |count: usize| {
        let calls: Vec<_> = (0..count).map(|n| format!("sum(id) over (order by id + {n})")).collect();
        format!("select {} from t", calls.join(", "))
    };
    assert_eq!(rows(&client, &windows(20)).await.unwrap().len(), 10);
    // Each of 1,000 windows becomes an operator with a column for each one before it.
    assert_eq!(failure(&client, &windows(1_000)).await.0, "53200");
    let same: Vec<_> = (0..1_000).map(|n| format!("sum(id) over (order by id) s{n}")).collect();
    assert_eq!(rows(&client, &format!("select {} from t", same.join(", "))).await.unwrap().len(), 10);
    let matching = |op: &str, pattern: &str| format!("select count(*) from t where v {op} '{pattern}'");
    assert_eq!(value(&client, &matching("~", &"(a|b)".repeat(1_000))).await, "0");
    assert_eq!(failure(&client, &matching("~", &"(a|b)".repeat(40_000))).await.0, "53200");
    // LIKE has no limit but that of a statement.
    assert_eq!(value(&client, &matching("like", &"%a".repeat(100_000))).await, "0");
    assert_eq!(value(&client, &matching("like", &format!("{}value 7", "%".repeat(100_000)))).await, "1");
    assert_eq!(value(&client, &matching("not ilike", &format!("{}VALUE 7", "%".repeat(100_000)))).await, "9");
}

#[tokio::test]
async fn a_session_keeps_large_prepared_statements_within_limits() {
    let server = Server::start_with(&["--regions", "us", "--query-memory-mib", "64"], 1);
    let client = server.session(0).await;
    run(&client, "create table t (id int primary key, v text)").await;
    let numbers: Vec<_> = (0..15_000).map(|n| n.to_string()).collect();
    let listed = numbers.join(", ");
    let prepare = |n: usize| format!("prepare p{n} as select id from t where id in ({listed})");
    let mut kept = 0;
    let refused = loop {
        match client.batch_execute(&prepare(kept)).await {
            Ok(()) => kept += 1,
            Err(error) => break error,
        }
        assert!(kept < 60, "each takes about 7 MiB");
    };
    assert_eq!(state(&refused), "53200");
    assert!(kept >= 2, "some are free: {refused}");
    assert!(rows(&client, &format!("execute p{}", kept - 1)).await.unwrap().is_empty());
    // What is given up makes room.
    run(&client, "deallocate p0").await;
    run(&client, &prepare(0)).await;
    run(&client, "deallocate all").await;
    run(&client, &prepare(0)).await;
    // What drivers keep goes unnoticed.
    for n in 0..1_000 {
        run(&client, &format!("prepare short{n} as select id, v from t where id = $1 and v <> 'text {n}'"))
            .await;
    }
}

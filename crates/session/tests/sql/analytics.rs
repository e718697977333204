//! What analytical plans do by themselves: filters in the scan, rows collapsed before joins, aggregates
//! shared, memory bounded. Every answer is what plain SQL says.

use crate::check;
use crate::support::{Regions, run};
use session::GatewayConfig;

#[tokio::test]
async fn scans_filter_exactly_what_a_cut_and_a_transaction_show() {
    let regions = Regions::new();
    let mut s = regions.session(0);
    check!(s,
        "create table t (id int primary key, d int, v int, x text)" => "CREATE TABLE",
        "insert into t values (1, 0, 1, 'a'), (2, 2, 10, 'b'), (3, null, 7, 'c'), (4, 5, 100, null)" => "INSERT 0 4",
        "delete from t where id = 1" => "DELETE 1",
        // The deleted row would divide by zero.
        "select id from t where v / d > 1 order by id" => "2\n4",
        "select id from t where d is null and v > 5 and x like 'c%'" => "3",
        "select id from t where d is not null and x is null" => "4",
        "select count(*) from t where v > 1000 or d in (2, 5)" => "2",
        "begin" => "BEGIN",
        "insert into t values (5, 1, 50, 'b')" => "INSERT 0 1",
        "update t set v = 1000 where id = 2" => "UPDATE 1",
        "delete from t where id = 4" => "DELETE 1",
        "select id, v from t where v >= 50 and x = 'b' order by id" => "2|1000\n5|50",
        "select x, sum(v) from t where v > 5 group by x order by x" => "b|1050\nc|7",
        "rollback" => "ROLLBACK",
        "select sum(v) from t where d >= 2" => "110",
        "select id from t order by v desc limit 2" => "4\n2",
    );
}

#[tokio::test]
async fn rows_of_one_key_are_made_one_before_a_join() {
    let regions = Regions::new();
    let mut s = regions.session(0);
    check!(s,
        "create table head (o int primary key, c text, n int)" => "CREATE TABLE",
        "create table line (o int, l int, amount numeric(6,2), q int, primary key (o, l))" => "CREATE TABLE",
        "insert into head values (1, 'x', 10), (2, 'y', 20), (3, 'x', 30), (4, 'z', 40)" => "INSERT 0 4",
        "insert into line values (1, 1, 1.5, 1), (1, 2, 2.5, null), (2, 1, null, 5), (2, 2, null, 7),
            (3, 1, 10, 1), (3, 2, 20, 1), (3, 3, 30, 1)" => "INSERT 0 7",
        // Sums and counts over the repeated side.
        "select c, sum(amount), count(amount), count(*), sum(q) from head join line on head.o = line.o
            group by c order by c" => "x|64.00|5|5|4\ny|null|0|2|12",
        // Sums over the other side: each row counts as often as it is repeated.
        "select c, sum(n), count(*) from head, line where head.o = line.o group by c order by c"
            => "x|110|5\ny|40|2",
        "select sum(amount), count(amount), count(*) from head, line where head.o = line.o and c = 'none'"
            => "null|0|0",
        "select sum(amount), count(*) from head, line where head.o = line.o and c = 'x'" => "64.00|5",
        // What a condition needs of a line keeps lines apart.
        "select c, sum(amount) from head, line where head.o = line.o and n > q * 10 group by c order by c"
            => "x|60.00",
        "select c, count(line.l), sum(amount) from head left join line on head.o = line.o group by c order by c"
            => "x|5|64.00\ny|2|null\nz|0|null",
        "select h.o from head h where exists (select 1 from line l where l.o = h.o and l.q < h.n) order by o"
            => "1\n2\n3",
        "select h.o from head h where not exists (select 1 from line l where l.o = h.o) order by o" => "4",
        // Distinct values do not add up: left alone.
        "select count(distinct q), avg(amount) from head, line where head.o = line.o" => "3|12.80000000000000000000",
    );
    let shown =
        run(&mut s, "explain select c, sum(amount) from head join line on head.o = line.o group by c").await;
    assert!(shown.contains("CollapseExec: keys=[o], partials=[Sum(amount"), "{shown}");
    // An average is a sum and a count.
    let shown =
        run(&mut s, "explain select c, avg(amount) from head join line on head.o = line.o group by c").await;
    assert!(shown.contains("CollapseExec: keys=[o], partials=[Sum(amount@1), Count(amount@1)]"), "{shown}");
    let alone =
        run(&mut s, "explain select c, max(amount) from head join line on head.o = line.o group by c").await;
    assert!(!alone.contains("CollapseExec"), "{alone}");
}

#[tokio::test]
async fn an_aggregate_named_twice_is_computed_once() {
    let regions = Regions::new();
    let mut s = regions.session(0);
    let sql = "with r as (select g, sum(v) as s from t group by g) select g from r where s = (select max(s) from r)";
    check!(s,
        "create table t (id int primary key, g int, v int)" => "CREATE TABLE",
        "insert into t values (1, 1, 5), (2, 1, 6), (3, 2, 11), (4, 3, 2)" => "INSERT 0 4",
        &format!("{sql} order by g") => "1\n2",
        "with r as (select g, count(*) as n from t group by g) select a.g, b.g from r a, r b where a.n < b.n order by 1"
            => "2|1\n3|1",
    );
    let shown = run(&mut s, &format!("explain {sql}")).await;
    assert_eq!(shown.matches("SharedExec: number=0").count(), 2, "{shown}");
}

#[tokio::test]
async fn a_recursive_query_reads_its_tables_at_every_step() {
    let regions = Regions::new();
    let mut s = regions.session(0);
    check!(s,
        "create table edge (a int primary key, b int)" => "CREATE TABLE",
        "insert into edge values (1, 2), (2, 3), (3, 4), (7, 8)" => "INSERT 0 4",
        "with recursive r as (select 1 as n union all select b from r join edge on a = n) select n from r order by n"
            => "1\n2\n3\n4",
    );
}

#[tokio::test]
async fn a_query_that_needs_too_much_memory_ends_and_says_so() {
    let regions =
        Regions::with_config(GatewayConfig { query_memory_bytes: 256 << 10, ..GatewayConfig::default() });
    let mut s = regions.session(0);
    check!(s,
        "create table t (id int primary key)" => "CREATE TABLE",
        "insert into t values (1), (2)" => "INSERT 0 2",
    );
    let big = "select v from generate_series(1, 200000) as g(v) order by v desc";
    assert_eq!(run(&mut s, big).await, "53200 out of memory");
    // What it held is free again.
    check!(s, "select count(*) from t where id > 0" => "2", "select v from generate_series(1, 3) as g(v) order by v desc"
        => "3\n2\n1");
}

/// No region keeps all columns: who takes the query coordinates it.
#[tokio::test]
async fn queries_over_columns_of_several_regions_answer_as_one_does() {
    let regions = Regions::split();
    let mut s = regions.session(0);
    check!(s,
        "create table t (id int primary key, v int, x text) with (home_by = 'id', home_map = 'hash')" => "CREATE TABLE",
        "insert into t select n, n % 10, 'text of row ' || n from generate_series(1, 500) as g(n)" => "INSERT 0 500",
        "delete from t where id = 7" => "DELETE 1",
        "select count(*), sum(v), max(x) from t" => "499|2243|text of row 99",
        "select id, x from t where v = 3 and id < 40 order by id" => "3|text of row 3\n13|text of row 13\n23|text of row 23\n33|text of row 33",
        "select count(*) from t as a join t as b on a.id = b.v + 1 where b.v < 5 and a.v > 2" => "150",
    );
    for level in ["rss", "regular", "session", "stale"] {
        let mut other = regions.session(2);
        let level = format!("set meridian.consistency = '{level}'");
        check!(other,
            level.as_str() => "SET",
            "select count(*) from t where v >= 0" => "499",
        );
    }
    // In a block: at its cut, over its own writes.
    check!(s,
        "begin" => "BEGIN",
        "update t set v = 1000 where id in (1, 2, 3)" => "UPDATE 3",
        "insert into t values (501, 1000, 'new')" => "INSERT 0 1",
        "delete from t where id = 500" => "DELETE 1",
        "select count(*), sum(v) from t" => "499|6237",
        "select count(*) from t where v = 1000" => "4",
        "commit" => "COMMIT",
        "select count(*), sum(v) from t" => "499|6237",
        "alter table t add column w int default 5" => "ALTER TABLE",
        "select sum(w) from t" => "2495",
    );
    let explained = run(&mut s, "explain analyze select sum(v) from t where v > 5").await;
    let readers: Vec<&str> = explained.lines().filter(|line| line.starts_with("Reader ")).collect();
    assert_eq!(readers.len(), 3, "{explained}");
    assert!(readers[0].starts_with("Reader n0 (us): partitions p0 p1; coordinator"), "{explained}");
    assert!(readers[2].starts_with("Reader n2 (asia): partitions p4 p5;"), "{explained}");
    let freshness = run(&mut s, "show meridian.freshness").await;
    assert!(freshness.ends_with("other_readers=2"), "{freshness}");
    let sent = |line: &str| -> u64 {
        let words: Vec<&str> = line.split(' ').collect();
        let at = words.iter().position(|w| *w == "rows").expect(line);
        words[at - 1].parse().unwrap()
    };
    let rows: u64 = readers[1..].iter().map(|line| sent(line)).sum();
    assert!(rows < 200, "rows that fail the filter stay where they are: {rows} of 333\n{explained}");
}

//! Queries through DataFusion.

use crate::check;
use crate::support::{Regions, run};
use txn::any::EngineKind;

#[tokio::test]
async fn queries_join_group_and_sort() {
    let regions = Regions::new();
    let mut s = regions.session(0);
    check!(s,
        "create table c (id int primary key, region text)" => "CREATE TABLE",
        "create table o (id int primary key, c_id int, amount numeric(8,2))" => "CREATE TABLE",
        "insert into c values (1, 'n'), (2, 's'), (3, 's')" => "INSERT 0 3",
        "insert into o values (1, 1, 10.5), (2, 2, 20), (3, 2, 5), (4, 3, 1)" => "INSERT 0 4",
        "select region, sum(amount), count(*) from o join c on c.id = o.c_id group by region order by region"
            => "n|10.50|1\ns|26.00|3",
        "select region from c where not exists (select 1 from o where c_id = c.id and amount > 4)" => "s",
        "with big as (select * from o where amount > 4) select max(amount) from big" => "20.00",
        "select id from o where amount > (select avg(amount) from o) order by id" => "1\n2",
        "select 7 / 2, 7 % 2, 1.5 + 1, 'a' || 'b', true" => "3|1|2.5|ab|t",
        "values (1, 'x'), (2, 'y')" => "1|x\n2|y",
        "select nope from c, o" => "42703 column \"nope\" does not exist",
        "select id from c, o" => "42702 column reference \"id\" is ambiguous",
        "select nofunction(1)" => "42883 function nofunction does not exist",
        "select * from nowhere, c" => "42P01 relation \"nowhere\" does not exist",
        "select 1 / 0 from c" => "22012 division by zero",
        "selec 1" => "42601 syntax error at or near \"selec\"",
    );
    assert!(run(&mut s, "select version()").await.starts_with("PostgreSQL 15"));
}

#[tokio::test]
async fn explain_says_where_a_statement_goes() {
    for (engine, trips) in
        [(EngineKind::Caerus, "WAN round trips: 1 ("), (EngineKind::Perseus, "WAN round trips: 1 to 2 (")]
    {
        explains(Regions::with_engine(engine), trips).await;
    }
}

/// `trips`: what an update elsewhere takes.
async fn explains(regions: Regions, trips: &str) {
    let mut s = regions.session(0);
    check!(s, "create table w (w_id int primary key, x int) with (home_by = 'w_id', home_map = 'list(1:us, 2:eu)')"
        => "CREATE TABLE", "insert into w values (1, 1), (2, 2)" => "INSERT 0 2");
    let near = run(&mut s, "explain select x from w where w_id = 1").await;
    assert!(near.contains("rows of w by primary key") && near.contains("WAN round trips: 0"), "{near}");
    let far = run(&mut s, "explain update w set x = 1 where w_id = 2").await;
    assert!(far.contains("Regions: eu") && far.contains(trips), "{far}");
    check!(s, "create table o (w int, d int, id int, c int, primary key (w, d, id))" => "CREATE TABLE",
        "create index o_c on o (w, d, c)" => "CREATE INDEX",
        "insert into o values (1, 1, 1, 7), (1, 1, 2, 8), (1, 1, 3, 7), (1, 2, 4, 7)" => "INSERT 0 4",
        "select id from o where w = 1 and d = 1 and c = 7 order by id desc limit 1" => "3",
        "select id from o where w = 1 and d = 1 and c = 7 order by id" => "1\n3");
    let by_index =
        run(&mut s, "explain select id from o where w = 1 and d = 1 and c = 7 order by id desc").await;
    assert!(by_index.contains("rows of o by index o_c"), "{by_index}");
    let columns = run(&mut s, "explain select x, count(*) from w where w_id = 2 group by x").await;
    assert!(columns.contains("Query over columns") && columns.contains("1 of 6 partitions"), "{columns}");
    let analyzed = run(&mut s, "explain analyze select sum(x) from w").await;
    assert!(analyzed.contains("Freshness: visibility_delay="), "{analyzed}");
    assert!(analyzed.contains("Cut: by the clock, now + 0.000 ms"), "{analyzed}");
    assert!(analyzed.contains("Newest transaction in the cut: "), "{analyzed}");
    assert!(analyzed.contains("ColumnScan: table=w") && analyzed.contains("output_rows="), "{analyzed}");
    let analyzed = run(&mut s, "explain analyze update w set x = 5 where w_id = 2").await;
    assert!(analyzed.contains("Transaction ") && analyzed.contains("regions eu"), "{analyzed}");
    assert!(run(&mut s, "show meridian.freshness").await.contains("staleness"));
}

/// What psql 15 sends for its backslash commands.
const PSQL: &str = include_str!("psql.sql");

#[tokio::test]
async fn psql_s_questions_about_tables_are_answered() {
    let regions = Regions::new();
    let mut s = regions.session(0);
    check!(s,
        "create table t (id serial primary key, a text unique, b int check (b > 0), c numeric(5,2) default 3)"
            => "CREATE TABLE",
        "create index t_b on t (b)" => "CREATE INDEX");
    let oid = run(&mut s, "select oid from pg_class where relname = 't'").await;
    let index = run(&mut s, "select oid from pg_class where relname = 't_b'").await;
    let mut printed = String::new();
    for question in PSQL.split(";\n").map(str::trim).filter(|q| !q.is_empty()) {
        let question = question.replace("16385", &oid).replace("16397", &index);
        let answer = run(&mut s, &question).await;
        printed.push_str(&answer);
        printed.push_str("\n--\n");
    }
    let printed = printed.replace(&oid, "OID").replace(&index, "INDEX");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write("tests/sql/psql.txt", &printed).unwrap();
        return;
    }
    assert_eq!(printed, include_str!("psql.txt"), "{printed}");
}

#[tokio::test]
async fn constants_are_typed_and_checked_as_in_postgresql() {
    let regions = Regions::new();
    let mut s = regions.session(0);
    check!(s,
        "select 1" => "1",
        "select 2147483647 + 1" => "22003 integer out of range",
        "select 10 / 3, mod(7, 3), length('abc'), '5'::int + 1, null" => "3|1|3|6|null",
        "select 1 / 0" => "22012 division by zero",
        "select current_user, current_schema()" => "tester|public",
        "select timestamp '2026-05-17 10:00' + interval '1 day', interval '90 minutes'" =>
            "2026-05-18 10:00:00|01:30:00",
        "select date '2026-02-31', interval '1 day'" => "22008 date/time field value out of range: \"2026-02-31\"",
        "select mod(v, 3), array[v, 2] from generate_series(4, 5) as g(v) order by 1" => "1|{4,2}\n2|{5,2}",
        "create table t (a int primary key)" => "CREATE TABLE",
        "show expected latency for table t in region eu" => "read of a row|us|0.5|50\nwrite of a row|us|1|100",
        "show expected latency for table t in region mars" => "22023 region \"mars\" does not exist",
    );
}

#[tokio::test]
async fn a_parameter_of_a_function_is_text_where_nobody_says_otherwise() {
    let regions = Regions::new();
    let mut s = regions.session(0);
    for (sql, wanted) in [("select length($1)", "3"), ("select reverse($1)", "cba")] {
        let prepared = s.prepare(sql, &[]).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
        assert_eq!(prepared.parameters[0].data_type, base::DataType::Text, "{sql}");
        let Ok(session::Response::Rows(mut rows)) =
            s.execute(&prepared, vec![base::Datum::text("abc")]).await
        else {
            panic!("{sql} returns rows");
        };
        let rows = rows.stream.collect().await.unwrap();
        assert_eq!(base::text::display(&rows[0][0]), wanted, "{sql}");
    }
}

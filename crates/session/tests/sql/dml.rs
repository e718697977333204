//! One-shot statements; over engine perseus, so that both engines meet all kinds of them.

use crate::check;
use crate::support::Regions;
use txn::any::EngineKind;

#[tokio::test]
async fn rows_are_written_and_read_by_key_range_and_index() {
    let regions = Regions::with_engine(EngineKind::Perseus);
    let mut s = regions.session(0);
    check!(s,
        "create table o (w int, d int, id int, c text, amount numeric(6,2), primary key (w, d, id))
            with (home_by = 'w', home_map = 'list(1:us, 2:eu)')" => "CREATE TABLE",
        "create index o_c on o (w, c)" => "CREATE INDEX",
        "insert into o values (1,1,1,'a',1.5), (1,1,2,'b',2.5), (1,2,1,'a',3.5), (2,1,1,'a',4.5)" => "INSERT 0 4",
        "select id, amount from o where w = 1 and d = 1 order by id desc" => "2|2.50\n1|1.50",
        "select id from o where w = 1 and d = 1 and id > 1" => "2",
        "select id from o where w = 1 and d = 1 order by id limit 1" => "1",
        "select d, id from o where w = 1 and c = 'a' order by d" => "1|1\n2|1",
        "select amount from o where w in (1, 2) and d = 1 and id = 1 order by amount" => "1.50\n4.50",
        "select amount * 2, upper(c) from o where w = 2 and d = 1 and id = 1" => "9.00|A",
        "select sum(amount), count(*), max(id), coalesce(min(c), '-'), avg(amount), count(distinct d) from o
            where w = 1 and d = 1" => "4.00|2|2|a|2.0000000000000000|1",
        "select sum(amount), count(*), coalesce(max(id), 0) from o where w = 9 and d = 9" => "null|0|0",
        "select sum(amount), c from o where w = 1 and d = 1" =>
            "42803 column \"o.c\" must appear in the GROUP BY clause or be used in an aggregate function",
        "update o set amount = amount + 1 where w = 1 and d = 1 and id = 1" => "UPDATE 1",
        "update o set c = 'z' where w = 1 returning d, id, c" => "1|1|z\n1|2|z\n2|1|z",
        "select count(*) from o where w = 1 and c = 'z'" => "3",
        "delete from o where w = 1 and d = 1" => "DELETE 2",
        "update o set amount = 0 where id = 77" => "UPDATE 0",
        "update o set nope = 1" => "42703 column \"nope\" of relation \"o\" does not exist",
        "update o set amount = 'x' where w = 1" => "22P02 invalid input syntax for type numeric: \"x\"",
        "select c + 1 from o where w = 1 and d = 2 and id = 1" => "42883 operator does not exist: text + integer",
        "select id / 0 from o where w = 1 and d = 2 and id = 1" => "22012 division by zero",
        "select nope from o where w = 1" => "42703 column \"nope\" does not exist",
        "select o.id from o p where p.w = 1" => "42P01 missing FROM-clause entry for table \"o\"",
        "select * from o where w = 'x'" => "22P02 invalid input syntax for type integer: \"x\"",
        "delete from o" => "DELETE 2",
    );
}

#[tokio::test]
async fn statements_that_need_a_query_take_effect_completely() {
    let regions = Regions::with_engine(EngineKind::Perseus);
    let mut s = regions.session(0);
    check!(s,
        "create table a (id int primary key, x int)" => "CREATE TABLE",
        "create table b (id int primary key, y int)" => "CREATE TABLE",
        "insert into a select v, v * 10 from generate_series(1, 5) as g(v)" => "INSERT 0 5",
        "insert into b select id, x + 1 from a where id > 2" => "INSERT 0 3",
        "update a set x = b.y from b where a.id = b.id" => "UPDATE 3",
        "select * from a order by id" => "1|10\n2|20\n3|31\n4|41\n5|51",
        "delete from a using b where a.id = b.id and b.y > 40" => "DELETE 2",
        "update a set x = (select max(y) from b) where id = 1" => "UPDATE 1",
        "select x from a where id = 1" => "51",
        "update a set id = id + 100" => "UPDATE 3",
        "select id from a order by id" => "101\n102\n103",
        "update a set id = 7" => "23505 duplicate key value violates unique constraint \"a_pkey\"",
        "select count(*) from a" => "3",
        // A table without a primary key has a hidden one.
        "create table h (x int, y int)" => "CREATE TABLE",
        "insert into h values (101, 0), (101, 0), (5, 5)" => "INSERT 0 3",
        "update h set y = a.x from a where a.id = h.x" => "UPDATE 2",
        "alter table h add column z int default 1" => "ALTER TABLE",
        "update h set z = (select count(*) from a) where y = 5" => "UPDATE 1",
        "select * from h order by x" => "5|5|3\n101|51|1\n101|51|1",
        "delete from h where x = 101 returning z" => "1\n1",
    );
}

#[tokio::test]
async fn what_cannot_be_stored_is_refused() {
    let regions = Regions::with_engine(EngineKind::Perseus);
    let mut s = regions.session(0);
    let long = "x".repeat(17 << 20);
    check!(s, "create table t (a int primary key, b text)" => "CREATE TABLE");
    let answer = crate::support::run(&mut s, &format!("insert into t values (1, '{long}')")).await;
    assert!(answer.starts_with("54000 row is too big"), "{}", &answer[..answer.len().min(40)]);
    check!(s, "select count(*) from t" => "0",
        "insert into t values (1, 'a', 2)" => "42601 INSERT has more expressions than target columns",
        "insert into t (a, a) values (1, 2)" => "42701 column \"a\" specified more than once",
        "insert into t select 1, 2, 3" => "42601 INSERT has more expressions than target columns",
        "select $1" => "42P02 there is no parameter $1");
}

#[tokio::test]
async fn prepared_statements_are_planned_once_and_replanned_after_ddl() {
    let regions = Regions::with_engine(EngineKind::Perseus);
    let mut s = regions.session(0);
    check!(s,
        "create table t (a int primary key, b text)" => "CREATE TABLE",
        "prepare put (int, text) as insert into t values ($1, $2)" => "PREPARE",
        "prepare get as select b from t where a = $1" => "PREPARE",
        "execute put (1, 'one')" => "INSERT 0 1",
        "execute get (1)" => "one",
        "alter table t add column c int default 5" => "ALTER TABLE",
        "execute put (2, 'two')" => "INSERT 0 1",
        "execute get (2)" => "two",
        "select c from t where a = 2" => "5",
        "deallocate get" => "DEALLOCATE",
        "execute get (1)" => "26000 prepared statement \"get\" does not exist",
    );
    let prepared = s.prepare("select a, b from t where a = $1 and b like $2", &[]).await.unwrap();
    assert_eq!(
        prepared.parameters,
        [base::DataType::Integer, base::DataType::Text].map(session::ParameterType::from)
    );
    let names: Vec<_> = prepared.columns.as_ref().unwrap().iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    let values = vec![base::Datum::Int(2), base::Datum::text("t%")];
    let session::Response::Rows(mut rows) = s.execute(&prepared, values).await.unwrap() else { panic!() };
    assert_eq!(rows.stream.collect().await.unwrap(), [[base::Datum::Int(2), base::Datum::text("two")]]);
}

#[tokio::test]
async fn copies_go_in_and_out() {
    let regions = Regions::with_engine(EngineKind::Perseus);
    let mut s = regions.session(0);
    check!(s, "create table t (a int primary key, b text, c numeric(5,2))" => "CREATE TABLE",
        "copy t (a, b) from stdin" => "COPY IN");
    s.copy_data(b"1\tone\n2\t").await.unwrap();
    s.copy_data(b"\\N\n3\tta\\tb\n").await.unwrap();
    let done = s.copy_done().await.unwrap();
    assert!(matches!(done, session::Response::Command(tag) if tag == "COPY 3"));
    check!(s,
        "copy (select * from t order by a) to stdout" => "1\tone\t\\N\n2\t\\N\t\\N\n3\tta\\tb\t\\N",
        "copy (select * from t order by 1) to stdout with (format csv, header)" => "a,b,c\n1,one,\n2,,\n3,ta\tb,",
        "copy t from stdin with (format csv)" => "COPY IN",
    );
    s.copy_data(b"4,four,4.5\n1,again,1\n").await.unwrap();
    let error = s.copy_done().await.err().unwrap();
    assert_eq!(error.state.as_str(), "23505");
    check!(s, "select count(*) from t" => "3", "copy t from stdin" => "COPY IN");
    let error = s.copy_data(b"x\ty\tz\n").await.unwrap_err();
    assert_eq!(error.state.as_str(), "22P02");
    check!(s, "copy t from '/etc/passwd'" => "42501 COPY to or from a file or program on the server is not allowed");
}

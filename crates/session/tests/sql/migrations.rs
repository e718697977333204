//! Changes of the catalog and rows in one transaction.

use crate::check;
use crate::support::{Regions, run};

#[tokio::test]
async fn a_block_creates_a_table_and_fills_it_or_does_neither() {
    let regions = Regions::new();
    let (mut s, mut other) = (regions.session(0), regions.session(1));
    check!(s,
        "begin" => "BEGIN",
        "create table t (id serial primary key, name text unique, n int default 7)" => "CREATE TABLE",
        "insert into t (name) values ('a'), ('b') returning id, n" => "1|7\n2|7",
        "insert into t (name) values ('b') on conflict (name) do update set n = t.n + 1" => "INSERT 0 1",
        "update t set name = 'c' where name = 'a'" => "UPDATE 1",
        "select * from t where id = 1" => "1|c|7",
        "select name from t where name = 'b'" => "b",
        "select count(*), sum(n) from t" => "2|15",
        "select a.name, b.name from t a, t b where a.n < b.n" => "c|b",
    );
    check!(other, "select * from t" => "42P01 relation \"t\" does not exist");
    check!(s, "commit" => "COMMIT", "select * from t order by id" => "1|c|7\n2|b|8");
    check!(other,
        "select * from t order by id" => "1|c|7\n2|b|8",
        "insert into t (id, name) values (9, 'b')" =>
            "23505 duplicate key value violates unique constraint \"t_name_key\"",
    );
    check!(s,
        "begin" => "BEGIN", "create table u (k serial primary key)" => "CREATE TABLE",
        "insert into u default values returning k" => "1",
        "insert into u values (1)" => "23505 duplicate key value violates unique constraint \"u_pkey\"",
        "commit" => "ROLLBACK", "select * from u" => "42P01 relation \"u\" does not exist",
        // What came to nothing leaves no trace in what comes after.
        "create table u (k serial primary key)" => "CREATE TABLE",
        "insert into u default values returning k" => "1",
    );
}

#[tokio::test]
async fn a_block_alters_a_table_with_rows_and_writes_them() {
    let regions = Regions::new();
    let mut s = regions.session(0);
    check!(s,
        "create table t (k int primary key, v int)" => "CREATE TABLE",
        "insert into t values (1, 10), (2, 20), (3, 30), (4, 40), (5, 50)" => "INSERT 0 5",
        "begin" => "BEGIN",
        "update t set v = 0 where k = 5" => "UPDATE 1",
        "alter table t add column w int default 3" => "ALTER TABLE",
        "select * from t where k = 5" => "5|0|3",
        "select * from t where k = 4" => "4|40|3",
        "select sum(v), sum(w) from t" => "100|15",
        "update t set w = k where v > 20" => "UPDATE 2",
        "select k, w from t where w > 3" => "4|4",
        "create index t_w on t (w)" => "CREATE INDEX",
        "select k from t where w = 3 order by k limit 2 for update" => "1\n2",
        "delete from t where w = 4" => "DELETE 1",
        "insert into t values (6, 60, 6)" => "INSERT 0 1",
        "alter table t add constraint small check (v <= 60)" => "ALTER TABLE",
        "commit" => "COMMIT",
        "select * from t order by k" => "1|10|3\n2|20|3\n3|30|3\n5|0|3\n6|60|6",
        "begin" => "BEGIN", "select k from t where w = 3 order by k for update" => "1\n2\n3\n5",
        "commit" => "COMMIT",
        "insert into t values (7, 70)" =>
            "23514 new row for relation \"t\" violates check constraint \"small\"",
        // A constraint holds for what the transaction leaves.
        "begin" => "BEGIN", "update t set v = 1 where k = 6" => "UPDATE 1",
        "alter table t add constraint smaller check (v < 31)" => "ALTER TABLE", "commit" => "COMMIT",
        "begin" => "BEGIN", "insert into t values (8, 1)" => "INSERT 0 1",
        "alter table t add constraint tiny check (v < 2)" =>
            "23514 check constraint \"tiny\" of relation \"t\" is violated by some row",
        "commit" => "ROLLBACK",
        "select count(*) from t" => "5",
        "begin" => "BEGIN", "insert into t values (8, 2)" => "INSERT 0 1",
        "alter table t add constraint tiny check (v <> 2)" =>
            "23514 check constraint \"tiny\" of relation \"t\" is violated by some row",
        "commit" => "ROLLBACK",
        "begin" => "BEGIN", "alter table t add column x int" => "ALTER TABLE",
        "alter table t alter x set not null" => "23502 column \"x\" of relation \"t\" contains null values",
        "rollback" => "ROLLBACK",
        "begin" => "BEGIN", "alter table t add constraint tiny check (v <> 25)" => "ALTER TABLE",
    );
    // A row that another writes meanwhile is found by COMMIT.
    let mut other = regions.session(0);
    check!(other, "insert into t values (8, 25)" => "INSERT 0 1");
    check!(s,
        "commit" => "23514 check constraint \"tiny\" of relation \"t\" is violated by some row",
        "select count(*) from t" => "6",
        "insert into t values (9, 2)" => "INSERT 0 1",
    );
}

#[tokio::test]
async fn a_unique_index_follows_what_the_same_transaction_writes() {
    let regions = Regions::new();
    let mut s = regions.session(0);
    check!(s,
        "create table t (k int primary key, v int) with (replicated = true)" => "CREATE TABLE",
        "insert into t values (1, 1), (2, 1), (3, 3)" => "INSERT 0 3",
        "create unique index t_v on t (v)" => "23505 could not create unique index \"t_v\"",
        "begin" => "BEGIN", "update t set v = 2 where k = 1" => "UPDATE 1",
        "create unique index t_v on t (v)" => "CREATE INDEX",
        "insert into t values (4, 4)" => "INSERT 0 1", "commit" => "COMMIT",
        "insert into t values (5, 1)" => "23505 duplicate key value violates unique constraint \"t_v\"",
        "insert into t values (5, 2)" => "23505 duplicate key value violates unique constraint \"t_v\"",
        "update t set v = 5 where k = 2" => "UPDATE 1",
        "insert into t values (5, 1)" => "INSERT 0 1",
        "drop index t_v" => "DROP INDEX",
        "begin" => "BEGIN", "create unique index t_v on t (v)" => "CREATE INDEX",
        "insert into t values (6, 3)" => "23505 duplicate key value violates unique constraint \"t_v\"",
        "commit" => "ROLLBACK", "select count(*) from t" => "5",
    );
}

#[tokio::test]
async fn a_unique_index_without_the_partition_column_takes_rows_that_are_there() {
    let regions = Regions::new();
    let mut s = regions.session(0);
    check!(s,
        "create table p (w int, k int, code text, primary key (w, k)) \
            with (home_by = 'w', home_map = 'list(1:us, 2:eu, 3:asia)')" => "CREATE TABLE",
        "insert into p values (1, 1, 'a'), (2, 1, 'b'), (3, 1, 'b'), (1, 2, null), (2, 2, null)" => "INSERT 0 5",
        "create unique index p_code on p (code)" => "23505 could not create unique index \"p_code\"",
        "update p set code = 'c' where w = 3" => "UPDATE 1",
        "create unique index p_code on p (code)" => "CREATE INDEX",
        "insert into p values (3, 9, 'a')" => "23505 duplicate key value violates unique constraint \"p_code\"",
        "delete from p where w = 1 and k = 1" => "DELETE 1",
        "insert into p values (3, 9, 'a')" => "INSERT 0 1",
        "begin" => "BEGIN", "alter table p add column e text" => "ALTER TABLE",
        "update p set e = code" => "UPDATE 5",
        "alter table p add constraint p_e unique (e)" => "ALTER TABLE", "commit" => "COMMIT",
        "insert into p values (1, 7, 'z', 'c')" => "23505 duplicate key value violates unique constraint \"p_e\"",
        "select w, k, code, e from p order by w, k" => "1|2|null|null\n2|1|b|b\n2|2|null|null\n3|1|c|c\n3|9|a|a",
    );
}

#[tokio::test]
async fn tables_are_replaced_and_savepoints_take_changes_back() {
    let regions = Regions::new();
    let mut s = regions.session(0);
    check!(s,
        "create table t (k int primary key); insert into t values (1), (2)" => "CREATE TABLE\nINSERT 0 2",
        "begin" => "BEGIN", "insert into t values (3)" => "INSERT 0 1",
        "drop table t" => "DROP TABLE", "select * from t" => "42P01 relation \"t\" does not exist",
        "rollback" => "ROLLBACK", "select count(*) from t" => "2",
        "begin" => "BEGIN", "drop table t" => "DROP TABLE",
        "create table t (k text primary key, v int)" => "CREATE TABLE",
        "insert into t values ('x', 1)" => "INSERT 0 1", "select * from t" => "x|1", "commit" => "COMMIT",
        "select * from t" => "x|1",
        "begin" => "BEGIN", "insert into t values ('y', 2)" => "INSERT 0 1", "savepoint a" => "SAVEPOINT",
        "alter table t add column w int default 5" => "ALTER TABLE", "update t set w = v" => "UPDATE 2",
        "create table u (k int primary key)" => "CREATE TABLE", "insert into u values (1)" => "INSERT 0 1",
        "select * from t order by k" => "x|1|1\ny|2|2",
        "rollback to a" => "ROLLBACK",
        "select * from t order by k" => "x|1\ny|2",
        "select * from u" => "42P01 relation \"u\" does not exist",
        "rollback to a" => "ROLLBACK",
        "alter table t add column z int default 6" => "ALTER TABLE", "commit" => "COMMIT",
        "select * from t order by k" => "x|1|6\ny|2|6",
    );
}

#[tokio::test]
async fn one_text_takes_effect_as_a_whole() {
    let regions = Regions::new();
    let mut s = regions.session(0);
    check!(s,
        "create table t (k int primary key); insert into t values (1); insert into t values (1)" =>
            "CREATE TABLE\nINSERT 0 1\n23505 duplicate key value violates unique constraint \"t_pkey\"",
        "select * from t" => "42P01 relation \"t\" does not exist",
    );
}

#[tokio::test]
async fn what_a_block_with_changes_read_is_validated() {
    let regions = Regions::new();
    let (mut s, mut other) = (regions.session(0), regions.session(0));
    check!(s, "create table t (k int primary key, v int)" => "CREATE TABLE",
        "insert into t values (1, 1), (2, 2)" => "INSERT 0 2");
    for (change, ends) in
        [("update t set v = v + 1 where k = 1", "40001"), ("create table w (k int)", "40001")]
    {
        check!(s, "begin" => "BEGIN", "create table sums (s bigint)" => "CREATE TABLE",
            "insert into sums select sum(v) from t" => "INSERT 0 1");
        let changed = run(&mut other, change).await;
        assert!(["UPDATE 1", "CREATE TABLE"].contains(&changed.as_str()), "{changed}");
        let end = run(&mut s, "commit").await;
        assert!(end.starts_with(ends), "{change}: {end}");
        check!(s, "select * from sums" => "42P01 relation \"sums\" does not exist");
    }
}

#[tokio::test]
async fn a_query_makes_a_table() {
    let regions = Regions::new();
    let mut s = regions.session(0);
    check!(s,
        "create table t (k int primary key, v numeric(8,2), n text)" => "CREATE TABLE",
        "insert into t values (1, 1.5, 'a'), (2, 2.25, null)" => "INSERT 0 2",
        "create table c as select k, v, n, v * 2 as d, now() > '2000-01-01' as b from t" => "SELECT 2",
        "select k, v, n, b from c order by k" => "1|1.50|a|t\n2|2.25|null|t",
        "insert into c (k) values (1)" => "INSERT 0 1",
        "create table c as select 1" => "42P07 relation \"c\" already exists",
        "create table if not exists c as select 1" => "CREATE TABLE AS",
        "create table d with (home = 'asia') as select k as x, n as y from t" => "SELECT 2",
        "select y from d where x = 1" => "a",
        "select k, count(*) as n into e from c group by k" => "SELECT 2",
        "select * from e order by k" => "1|2\n2|1",
        "create table f as select 1 as a, 2 as a" => "42701 column \"a\" specified more than once",
        "create table f as select 1 / (k - 1) from t" => "22012 division by zero",
        "select * from f" => "42P01 relation \"f\" does not exist",
        "begin" => "BEGIN", "create table f as select k as kk from c" => "SELECT 3",
        "insert into f values (7)" => "INSERT 0 1", "select sum(kk) from f" => "11",
        "rollback" => "ROLLBACK", "select * from f" => "42P01 relation \"f\" does not exist",
        "create table g as select * from missing" => "42P01 relation \"missing\" does not exist",
    );
}

//! Where tables and rows are homed, and how that changes.

use crate::check;
use crate::support::{Regions, run};
use session::Session;
use txn::any::EngineKind;

/// How many WAN round trips the last line about them says.
async fn trips(session: &mut Session, sql: &str) -> String {
    let plan = run(session, &format!("explain {sql}")).await;
    let line = plan.lines().find_map(|line| line.trim().strip_prefix("WAN round trips: ")).expect(&plan);
    line.split_whitespace().next().unwrap().to_string()
}

/// Where a statement went, once it ran.
async fn went(session: &mut Session, sql: &str) -> String {
    let plan = run(session, &format!("explain analyze {sql}")).await;
    let line = plan.lines().find(|line| line.starts_with("Transaction ")).expect(&plan);
    line.split_once("regions ").unwrap().1.to_string()
}

#[tokio::test]
async fn a_table_moves_to_another_region_and_its_rows_stay_where_they_are() {
    for kind in [EngineKind::Caerus, EngineKind::Slog] {
        let regions = Regions::with_engine(kind);
        let (mut us, mut eu) = (regions.session(0), regions.session(1));
        check!(us,
            "create table t (k int primary key, v int, u int unique)" => "CREATE TABLE",
            "create index t_v on t (v)" => "CREATE INDEX",
            "create table other (k int primary key, v int)" => "CREATE TABLE",
            "insert into t select n, n * 10, n from generate_series(1, 20) n" => "INSERT 0 20",
            "insert into other values (1, 1)" => "INSERT 0 1",
            "alter table t set (home = 'moon')" => "22023 region \"moon\" does not exist",
            "alter table t set (hame = 'eu')" => "22023 unrecognized parameter \"hame\"",
            "alter table nobody set (home = 'eu')" => "42P01 relation \"nobody\" does not exist",
            "begin" => "BEGIN",
            "alter table t set (home = 'eu')" =>
                "25001 ALTER TABLE … SET (home = …) cannot run inside a transaction block",
            "rollback" => "ROLLBACK",
        );
        let update = "update t set v = v + 1 where k = 7";
        assert_eq!([trips(&mut us, update).await, trips(&mut eu, update).await], ["0", "1"]);
        assert_eq!(went(&mut eu, update).await, "us");
        check!(us, "alter table t set (home = 'eu')" => "ALTER TABLE");
        assert_eq!([trips(&mut us, update).await, trips(&mut eu, update).await], ["1", "0"]);
        assert_eq!(went(&mut eu, update).await, "eu");
        assert_eq!(went(&mut us, "insert into t values (21, 210, 21)").await, "eu");
        assert_eq!(went(&mut eu, "update other set v = 2 where k = 1").await, "us");
        let mut fresh = regions.session(2);
        check!(fresh,
            "select home from meridian.tables where table_name = 't'" => "eu",
            "select reloptions from pg_class where relname = 't'" => "{home=eu}",
            "show expected latency for table t in region eu" => "read of a row|eu|0|0\nwrite of a row|eu|0|0",
            "select count(*), sum(v) from t" => "21|2312",
            "select k from t where v = 72" => "7",
            "insert into t values (22, 1, 7)" => "23505 duplicate key value violates unique constraint \"t_u_key\"",
            "alter table t set (home = 'eu')" => "ALTER TABLE",
        );
        // An index that is made later goes where its table is.
        check!(us,
            "alter table t add column w int default 5" => "ALTER TABLE",
            "create index t_w on t (w)" => "CREATE INDEX",
        );
        assert_eq!(went(&mut eu, "update t set w = 6 where k = 3").await, "eu");
        check!(us, "begin; create unique index t_uw on t (u, w); commit" => "BEGIN\nCREATE INDEX\nCOMMIT");
        assert_eq!(went(&mut eu, "insert into t values (23, 2, 23, 8)").await, "eu");
        check!(eu,
            "begin; update t set w = 7 where k = 4; update other set v = 3 where k = 1; commit" =>
                "BEGIN\nUPDATE 1\nUPDATE 1\nCOMMIT",
            "select w from t where k in (3, 4) order by w" => "6\n7",
            "alter table t set (home = 'us'); select v from other where k = 1" => "ALTER TABLE\n3",
        );
        assert_eq!(went(&mut us, update).await, "us");
        check!(us,
            "truncate t" => "TRUNCATE TABLE",
            "alter table t set (home = 'asia')" => "ALTER TABLE",
            "drop table t" => "DROP TABLE",
            "create table t (k int primary key)" => "CREATE TABLE",
            "select home from meridian.tables where table_name = 't'" => "us",
        );
    }
}

#[tokio::test]
async fn a_table_whose_rows_have_to_move_is_written_anew() {
    for kind in [EngineKind::Perseus, EngineKind::Caerus, EngineKind::Calvin] {
        let regions = Regions::with_engine(kind);
        let (mut us, mut eu) = (regions.session(0), regions.session(1));
        check!(us,
            "create table t (id serial, region text, v int unique, constraint positive check (v > 0), primary key (id, region))"
                => "CREATE TABLE",
            "create index t_v on t (v, id)" => "CREATE INDEX",
            "insert into t (region, v) values ('us', 1), ('eu', 2), ('asia', 3), ('eu', 4)" => "INSERT 0 4",
            "alter table t set (home_by = 'region')" => "ALTER TABLE",
            "select home from meridian.tables where table_name = 't'" => "region name",
        );
        let update = "update t set v = v + 10 where id = 2 and region = 'eu'";
        assert_eq!(trips(&mut eu, update).await, "0", "{kind:?}");
        check!(eu,
            update => "UPDATE 1",
            "select * from t order by id" => "1|us|1\n2|eu|12\n3|asia|3\n4|eu|4",
            "insert into t (region, v) values ('eu', 3)" =>
                "23505 duplicate key value violates unique constraint \"t_v_key\"",
            "insert into t (region, v) values ('eu', 0)" =>
                "23514 new row for relation \"t\" violates check constraint \"positive\"",
            "insert into t (region, v) values ('eu', 7) returning id > 4" => "t",
            "begin" => "BEGIN",
            "update t set v = 20 where id = 1 and region = 'us'" => "UPDATE 1",
            "alter table t set (home_by = 'id', home_map = 'hash')" => "ALTER TABLE",
            "delete from t where v = 3" => "DELETE 1",
            "commit" => "COMMIT",
            "select v from t order by v" => "4\n7\n12\n20",
        );
        check!(us,
            "begin" => "BEGIN",
            "alter table t set (replicated = true)" => "ALTER TABLE",
            "rollback" => "ROLLBACK",
            "alter table t set (home = 'asia')" => "ALTER TABLE",
            "select home from meridian.tables where table_name = 't'" => "asia",
            "select v from t order by v" => "4\n7\n12\n20",
            "update t set v = v + 100 where v < 10" => "UPDATE 2",
            "select sum(v) from t" => "243",
        );
    }
}

#[tokio::test]
async fn a_row_moves_with_the_column_that_says_its_home() {
    for kind in EngineKind::ALL {
        let regions = Regions::with_engine(kind);
        let (mut us, mut eu) = (regions.session(0), regions.session(1));
        check!(us,
            "create table t (id int, region text, v int, name text unique, primary key (id, region))
                with (home_by = 'region')" => "CREATE TABLE",
            "create index t_v on t (v)" => "CREATE INDEX",
            "insert into t values (1, 'us', 10, 'a'), (2, 'us', 20, 'b'), (3, 'eu', 30, 'c'), (4, 'asia', 40, 'd')"
                => "INSERT 0 4",
            "update t set region = 'eu' where id = 1 and region = 'us' returning id, region, v" => "1|eu|10",
            "select * from t where id = 1" => "1|eu|10|a",
            "select id from t where region = 'eu' order by id" => "1\n3",
            "select id from t where v = 10" => "1",
            "update t set region = 'us', id = 3 where id = 3 returning *" => "3|us|30|c",
            "insert into t values (9, 'asia', 0, 'a')" =>
                "23505 duplicate key value violates unique constraint \"t_name_key\"",
            "insert into t values (2, 'eu', 0, 'e')" => "INSERT 0 1",
            "update t set region = 'eu' where id = 2 and region = 'us'" =>
                "23505 duplicate key value violates unique constraint \"t_pkey\"",
            "delete from t where name = 'e'" => "DELETE 1",
            "update t set region = 'asia' where v >= 20" => "UPDATE 3",
            "select id, region from t order by id" => "1|eu\n2|asia\n3|asia\n4|asia",
            "update t set region = 'us' where name = 'd' returning v" => "40",
            "insert into t values (1, 'eu', 11, 'z') on conflict (id, region) do update set region = 'us', v = 11
                returning *" => "1|us|11|a",
            // Two at once: one of them finds the row gone.
            "begin" => "BEGIN",
            "update t set region = 'eu' where id = 1 and region = 'us'" => "UPDATE 1",
        );
        check!(eu, "update t set v = 12 where id = 1 and region = 'us'" => "UPDATE 1");
        let lost = run(&mut us, "commit").await;
        assert!(lost.starts_with("40001"), "{kind:?}: {lost}");
        check!(us,
            "update t set region = 'eu' where id = 1 and region = 'us'" => "UPDATE 1",
            "select v, region from t where id = 1" => "12|eu",
            "update t set v = 13 where id = 1 and region = 'us'" => "UPDATE 0",
            "select count(*), sum(v) from t" => "4|102",
        );
        let update = "update t set v = 14 where id = 1 and region = 'eu'";
        if kind == EngineKind::Geogauss {
            assert_eq!(went(&mut eu, update).await, "us, eu, asia", "everybody takes part in every epoch");
            continue;
        }
        assert_eq!([trips(&mut eu, update).await, went(&mut eu, update).await], ["0", "eu"]);
    }
}

#[tokio::test]
async fn a_column_that_says_nothing_of_regions_needs_a_map() {
    let regions = Regions::new();
    let mut s = regions.session(0);
    check!(s,
        "create table t (k int primary key) with (home_by = 'k')" =>
            "22023 home_by = 'k' does not say which values live where",
        "create table t (k text primary key) with (home_by = 'k')" => "CREATE TABLE",
        "insert into t values ('eu'), ('us'), ('elsewhere')" => "INSERT 0 3",
    );
    let plan = run(&mut s, "explain update t set k = k where k = 'eu'").await;
    assert!(plan.contains("Home: by k (name)") && plan.contains("Regions: eu"), "{plan}");
}

//! SQL cursors; over engine perseus, as in `dml`.

use crate::check;
use crate::support::Regions;
use txn::any::EngineKind;

#[tokio::test]
async fn a_cursor_shows_the_rows_of_its_declaration() {
    let regions = Regions::with_engine(EngineKind::Perseus);
    let (mut s, mut other) = (regions.session(0), regions.session(0));
    check!(s,
        "create table t (k int primary key, v int)" => "CREATE TABLE",
        "insert into t values (1, 1), (2, 2), (3, 3), (4, 4), (5, 5)" => "INSERT 0 5",
        "declare c cursor for select k from t" => "25P01 DECLARE CURSOR can only be used in transaction blocks",
        "begin" => "BEGIN",
        "declare c cursor for select k, sum(v) from t group by k order by k" => "DECLARE CURSOR",
    );
    check!(other, "update t set v = 100" => "UPDATE 5");
    check!(s,
        "insert into t values (6, 6)" => "INSERT 0 1",
        "fetch c" => "1|1", "fetch forward 2 from c" => "2|2\n3|3", "move 1 in c" => "MOVE 1",
        "fetch all from c" => "5|5", "fetch all from c" => "",
        "close c" => "CLOSE CURSOR",
        "fetch c" => "34000 cursor \"c\" does not exist",
        "rollback" => "ROLLBACK",
        "begin" => "BEGIN", "declare c no scroll cursor for select k from t where k <= 3" => "DECLARE CURSOR",
        "declare c cursor for select 1" => "42P03 cursor \"c\" already exists", "rollback" => "ROLLBACK",
        "begin" => "BEGIN", "declare c cursor for select k from t order by k" => "DECLARE CURSOR",
        "fetch relative 2 from c" => "2", "fetch absolute 4 from c" => "4",
        "fetch prior from c" => "3", "fetch all from c" => "4\n5", "fetch 0 from c" => "",
        "fetch backward 2 from c" => "5\n4", "move last in c" => "MOVE 1", "fetch 0 from c" => "5",
        "commit" => "COMMIT", "fetch c" => "34000 cursor \"c\" does not exist",
        "begin" => "BEGIN", "declare c no scroll cursor for select k from t" => "DECLARE CURSOR",
        "move 2 in c" => "MOVE 2", "fetch prior from c" => "55000 cursor can only scan forward",
        "commit" => "ROLLBACK",
        "begin" => "BEGIN", "declare c scroll cursor for select k from t order by k" => "DECLARE CURSOR",
        "fetch last c" => "5", "fetch backward 2 from c" => "4\n3", "fetch first from c" => "1",
        "move forward all in c" => "MOVE 4", "fetch backward all from c" => "5\n4\n3\n2\n1",
        "commit" => "COMMIT",
    );
}

#[tokio::test]
async fn a_cursor_with_hold_outlives_its_transaction() {
    let regions = Regions::with_engine(EngineKind::Perseus);
    let mut s = regions.session(0);
    check!(s,
        "create table t (k int primary key)" => "CREATE TABLE", "insert into t values (1), (2)" => "INSERT 0 2",
        "begin" => "BEGIN", "declare gone cursor for select k from t" => "DECLARE CURSOR",
        "declare kept cursor with hold for select k from t order by k" => "DECLARE CURSOR",
        "fetch kept" => "1", "commit" => "COMMIT",
        "fetch gone" => "34000 cursor \"gone\" does not exist",
        "drop table t" => "DROP TABLE",
        "fetch kept" => "2",
        "begin" => "BEGIN", "declare lost cursor with hold for select 1" => "DECLARE CURSOR", "rollback" => "ROLLBACK",
        "fetch lost" => "34000 cursor \"lost\" does not exist",
        "fetch backward 2 from kept" => "1",
        "close all" => "CLOSE CURSOR ALL", "fetch kept" => "34000 cursor \"kept\" does not exist",
    );
}

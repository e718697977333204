//! Foreign keys while clients of several regions write both sides at once: no row is left that references nothing.

use crate::check;
use crate::support::{Regions, run};
use base::rng::Rng;
use base::time::{MS, SECOND};
use session::Session;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use txn::any::EngineKind;

type Client<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// How statements ended: `ok`, or the SQLSTATE.
type Ends = RefCell<BTreeMap<String, u64>>;

/// Keys that are fought over.
const KEYS: u64 = 6;

/// One client alone: its queries are computed by tasks of a runtime.
fn alone<T>(client: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(client)
}

/// Tables homed by row in three regions: rows of `child` and `leaf` live elsewhere than those that they reference. `child`
/// is found by an index, `leaf` by looking at every row; both are deferred or not.
async fn create(session: &mut Session, has_keys: bool) {
    let keys: [&str; 2] = match has_keys {
        true => [
            "references parent (id)",
            "references child (id) on delete cascade deferrable initially deferred",
        ],
        false => ["", ""],
    };
    let placed = "with (home_by = 'id', home_map = 'hash')";
    for sql in [
        format!("create table parent (id int primary key, v int) {placed}"),
        format!("create table child (id int primary key, p int {}) {placed}", keys[0]),
        "create index child_p on child (p)".into(),
        format!("create table leaf (id int primary key, c int {}) {placed}", keys[1]),
    ] {
        let told = run(session, &sql).await;
        assert!(told.starts_with("CREATE"), "{sql}: {told}");
    }
}

/// One client's statements, drawn at random, until a time.
async fn writes(mut session: Session, regions: &Regions, seed: u64, ends: &Ends) {
    let mut rng = Rng::new(seed);
    let until = regions.now() + 3 * SECOND;
    let mut next_id = 1_000 * (seed + 1);
    while regions.now() < until {
        let (key, other) = (rng.below(KEYS), rng.below(KEYS));
        next_id += 1;
        let sql = match rng.below(9) {
            0 | 1 => format!(
                "insert into parent values ({key}, 0) on conflict (id) do update set v = parent.v + 1"
            ),
            2 => format!("delete from parent where id = {key}"),
            3 => format!("insert into child values ({next_id}, {key})"),
            4 => format!("update child set p = {other} where p = {key}"),
            5 => format!(
                "begin; insert into leaf values ({next_id}, -{next_id}); insert into child values (-{next_id}, {key}); commit"
            ),
            6 => format!("delete from child where p = {key}"),
            7 => format!("insert into leaf values ({next_id}, {})", next_id - rng.below(8)),
            _ => format!(
                "begin; delete from child where p = {key}; delete from parent where id = {key}; commit"
            ),
        };
        // In blocks: a statement alone is repeated after a pause in real time.
        let sql = if sql.starts_with("begin") { sql } else { format!("begin; {sql}; commit") };
        let told = run(&mut session, &sql).await;
        let failed = told.lines().find(|line| line.split(' ').next().is_some_and(is_state));
        let end = failed.and_then(|line| line.split(' ').next()).unwrap_or("ok").to_string();
        assert!(["ok", "23503", "23505", "40001", "40P01"].contains(&end.as_str()), "{sql}: {told}");
        *ends.borrow_mut().entry(end).or_default() += 1;
        run(&mut session, "rollback").await;
        regions.pause(rng.below(20) * MS).await;
    }
}

fn is_state(word: &str) -> bool {
    word.len() == 5 && word.chars().all(|c| c.is_ascii_digit() || c.is_ascii_uppercase()) && word != "BEGIN"
}

/// Runs clients of all regions; answers how many rows reference nothing, and how statements ended.
fn fight(engine: EngineKind, has_keys: bool, seed: u64) -> (String, BTreeMap<String, u64>) {
    let regions = Regions::with_engine(engine);
    let mut first = regions.session(0);
    alone(create(&mut first, has_keys));
    let ends = Ends::default();
    let clients = (0..6).map(|n| -> Client<'_> {
        let session = regions.session(n as usize % 3);
        Box::pin(writes(session, &regions, seed * 10 + n, &ends))
    });
    regions.run_together(clients.collect());
    let orphans = alone(async {
        let sql = "select (select count(*) from child c where c.p is not null and not exists (select 1 from parent where id = c.p)) \
                   + (select count(*) from leaf l where l.c is not null and not exists (select 1 from child where id = l.c))";
        run(&mut first, sql).await
    });
    (orphans, ends.into_inner())
}

#[test]
fn no_row_is_left_that_references_nothing_whatever_regions_write_at_once() {
    for (engine, seed) in [(EngineKind::Caerus, 1), (EngineKind::Perseus, 2), (EngineKind::Geogauss, 3)] {
        let (orphans, ends) = fight(engine, true, seed);
        assert_eq!(orphans, "0", "{engine:?} {ends:?}");
        // It was a fight: some went through, and some met a key.
        assert!(ends["ok"] > 20 && ends["23503"] > 3, "{engine:?} {ends:?}");
    }
}

#[test]
fn without_the_keys_the_same_clients_leave_orphans() {
    let (orphans, ends) = fight(EngineKind::Caerus, false, 1);
    assert!(orphans.parse::<u64>().unwrap() > 0, "{orphans} {ends:?}");
}

#[test]
fn a_key_added_late_holds_for_those_who_planned_without_it() {
    let regions = Regions::new();
    let (mut us, mut eu) = (regions.session(0), regions.session(1));
    alone(async {
        check!(us,
            "create table p (id int primary key)" => "CREATE TABLE",
            "create table c (id int primary key, p int)" => "CREATE TABLE",
            "insert into p values (1), (2)" => "INSERT 0 2",
        );
        check!(eu, "begin; delete from p where id = 1" => "BEGIN\nDELETE 1");
        check!(us,
            "insert into c values (1, 1)" => "INSERT 0 1",
            "alter table c add constraint k foreign key (p) references p" => "ALTER TABLE",
        );
        let told = run(&mut eu, "commit").await;
        assert!(told.starts_with("40001"), "{told}");
        let told = run(&mut eu, "delete from p where id = 1").await;
        assert!(told.starts_with("23503"), "{told}");
        check!(eu, "delete from p where id = 2" => "DELETE 1", "select id from p" => "1");
    });
}

#[test]
fn explain_says_what_the_checks_cost() {
    let regions = Regions::new();
    let mut us = regions.session(0);
    alone(async {
        check!(us,
            "create table p (id int primary key, v int)" => "CREATE TABLE",
            "create table c (id int primary key, p int constraint k references p on delete cascade)" => "CREATE TABLE",
        );
        let insert = run(&mut us, "explain insert into c values (1, 1)").await;
        assert!(insert.contains("Foreign key k: reads the row of p that is referenced"), "{insert}");
        let delete = run(&mut us, "explain delete from p where id = 1").await;
        assert!(delete.contains("Foreign key k: deletes rows of c by a look at every row"), "{delete}");
        check!(us, "create index c_p on c (p)" => "CREATE INDEX");
        let delete = run(&mut us, "explain delete from p where id = 1").await;
        assert!(delete.contains("Foreign key k: deletes rows of c by index c_p"), "{delete}");
        let update = run(&mut us, "explain update p set v = 1 where id = 1").await;
        assert!(!update.contains("Foreign key"), "{update}");
    });
}

#[test]
fn copies_procedures_and_savepoints_keep_them() {
    let regions = Regions::new();
    let mut us = regions.session(0);
    alone(async {
        check!(us,
            "create table p (id int primary key)" => "CREATE TABLE",
            "create table c (id int primary key, p int constraint k references p deferrable initially deferred)" => "CREATE TABLE",
            "insert into p values (1)" => "INSERT 0 1",
        );
        check!(us, "copy c from stdin" => "COPY IN");
        us.copy_data(b"1\t1\n2\t9\n").await.unwrap();
        let failed = us.copy_done().await.map(|_| ()).unwrap_err();
        assert_eq!(failed.message, "insert or update on table \"c\" violates foreign key constraint \"k\"");
        check!(us, "copy c from stdin" => "COPY IN");
        us.copy_data(b"1\t1\n").await.unwrap();
        assert!(us.copy_done().await.is_ok());
        check!(us,
            "begin; insert into c values (5, 5)" => "BEGIN\nINSERT 0 1",
            "savepoint s; set constraints k immediate" => "SAVEPOINT\n23503 insert or update on table \"c\" violates foreign key constraint \"k\"",
            "rollback to s" => "ROLLBACK",
            "insert into p values (5)" => "INSERT 0 1",
            "set constraints k immediate" => "SET CONSTRAINTS",
            "delete from c where id = 5" => "DELETE 1",
            "rollback to s" => "ROLLBACK",
        );
        // The row of before the savepoint is there again, and what it references is not.
        let told = run(&mut us, "commit").await;
        assert!(told.starts_with("23503"), "{told}");
        check!(us, "select * from c" => "1|1");
    });
}

//! Several databases: made, seen from every region, dropped while others use them; and the programs that do so.

use crate::dumps::{is_there, of_port, text};
use crate::server::{Server, failure, rows, run, state, value};
use std::time::Duration;
use tokio_postgres::Client;

/// A session in a database of a name.
async fn session(server: &Server, region: usize, database: &str) -> Client {
    server.session_in(region, "tester", database).await.unwrap_or_else(|e| panic!("{database}: {e:?}"))
}

/// The SQLSTATE that a connection to a database ends with.
async fn refused(server: &Server, region: usize, database: &str) -> String {
    match server.session_in(region, "tester", database).await {
        Ok(_) => String::new(),
        Err(error) => state(&error).to_string(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_is_there_in_every_region_once_it_was_made_and_gone_once_it_was_dropped() {
    // Over a WAN the other regions hear of it long after it was answered.
    let far = ["caerus", "perseus", "geogauss"]
        .into_iter()
        .map(|engine| Server::start_on("perseus3", &["--engine", engine], 3));
    for server in Server::with_each_engine(&[]).chain(far) {
        let maker = server.session(0).await;
        for round in 0..4 {
            let name = format!("round{round}");
            run(&maker, &format!("create database {name}")).await;
            let there = session(&server, 1 + round % 2, &name).await;
            run(&there, "create table t (k int primary key); insert into t values (1)").await;
            assert_eq!(value(&session(&server, 0, &name).await, "select count(*) from t").await, "1");
            drop(there);
            run(&maker, &format!("drop database {name} with (force)")).await;
            assert_eq!(refused(&server, 0, &name).await, "3D000");
        }
        assert_eq!(refused(&server, 2, "nowhere").await, "3D000");
        assert_eq!(refused(&server, 2, "template1").await, "55000");
        assert_eq!(
            value(&session(&server, 2, "postgres").await, "select current_database()").await,
            "postgres"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_name_means_another_table_in_another_database_in_every_region() {
    let server = Server::start();
    let maker = server.session(0).await;
    run(&maker, "create database other; ").await;
    run(&maker, "create table t (k int primary key, v text) with (home_by = 'k', home_map = 'hash')").await;
    let other = session(&server, 1, "other").await;
    run(&other, "create table t (name text primary key, price numeric, at date default '2026-02-03')").await;
    run(&other, "create table child (id serial primary key, t text references t on delete cascade)").await;
    run(&maker, "insert into t select g, 'v' || g from generate_series(1, 100) g").await;
    run(&other, "insert into t (name, price) select 'n' || g, g * 1.5 from generate_series(1, 50) g").await;
    run(&other, "insert into child (t) select name from t").await;
    for region in 0..3 {
        let (first, second) = (server.session(region).await, session(&server, region, "other").await);
        assert_eq!(value(&first, "select count(*) || ' ' || sum(k) from t").await, "100 5050");
        assert_eq!(value(&first, "select v from t where k = 7").await, "v7");
        assert_eq!(value(&second, "select count(*) || ' ' || sum(price)::float8 from t").await, "50 1912.5");
        assert_eq!(value(&second, "select at from t where name = 'n7'").await, "2026-02-03");
        assert_eq!(failure(&first, "select price from t").await.0, "42703");
        assert_eq!(failure(&first, "select * from child").await.0, "42P01");
        let listed = "select string_agg(relname, ',' order by relname) from pg_class where relkind = 'r' \
                      and relnamespace = 'public'::regnamespace";
        assert_eq!(value(&first, listed).await, "t");
        assert_eq!(value(&second, listed).await, "child,t");
    }
    run(&other, "delete from t where name = 'n3'; alter table t add column more int default 4").await;
    assert_eq!(value(&other, "select count(*) from child").await, "49");
    assert_eq!(value(&maker, "select count(*) from t").await, "100");
    // A name of the other database does not make it another relation.
    run(&maker, "drop table t").await;
    assert_eq!(value(&other, "select sum(more) from t").await, "196");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_is_dropped_under_load_and_its_sessions_end() {
    let server = Server::start();
    let maker = server.session(0).await;
    run(&maker, "create database busy; ").await;
    let mut at_work = Vec::new();
    let first = session(&server, 0, "busy").await;
    run(&first, "create table t (k bigserial primary key, v int)").await;
    for region in [0, 1, 2, 0, 1, 2] {
        let client = session(&server, region, "busy").await;
        at_work.push(tokio::spawn(async move {
            let mut count = 0;
            loop {
                match client.simple_query("insert into t (v) values (1); select count(*) from t").await {
                    Ok(_) => count += 1,
                    Err(error) if ["40001", "40P01"].contains(&state(&error)) => {}
                    // The table is on its way to this region.
                    Err(error) if count == 0 && state(&error) == "42P01" => {}
                    Err(error) => return (count, state(&error).to_string(), client.is_closed()),
                }
            }
        }));
    }
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    let (code, message) = failure(&maker, "drop database busy").await;
    assert_eq!(
        (code.as_str(), message.as_str()),
        ("55006", "database \"busy\" is being accessed by other users")
    );
    run(&first, "begin; insert into t (v) values (2)").await;
    run(&maker, "drop database busy with (force)").await;
    let mut done = 0;
    for worker in at_work {
        let ended = tokio::time::timeout(Duration::from_secs(30), worker).await.expect("it ends");
        let (count, code, _) = ended.expect("no panic");
        done += count;
        assert!(["57P01", "57014", "42P01", "40003", ""].contains(&code.as_str()), "{code}");
    }
    assert!(done > 0);
    for _ in 0..300 {
        if first.is_closed() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(first.is_closed(), "a session in a block ends too");
    assert_eq!(
        rows(&maker, "select datname from pg_stat_activity where datname = 'busy'").await.unwrap(),
        [""; 0]
    );
    run(&maker, "create database busy").await;
    let again = session(&server, 1, "busy").await;
    assert_eq!(failure(&again, "select * from t").await.0, "42P01");
    run(&again, "create table t (k int primary key); insert into t values (1)").await;
    assert_eq!(value(&again, "select count(*) from t").await, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_database_answers_to_its_new_name() {
    let server = Server::start();
    let maker = server.session(0).await;
    run(&maker, "create database old").await;
    let inside = session(&server, 1, "old").await;
    run(&inside, "create table t (k int primary key); insert into t values (5)").await;
    assert_eq!(failure(&maker, "alter database old rename to new").await.0, "55006");
    drop(inside);
    for _ in 0..300 {
        if maker.batch_execute("alter database old rename to new").await.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(refused(&server, 2, "old").await, "3D000");
    let renamed = session(&server, 2, "new").await;
    assert_eq!(value(&renamed, "select current_database() || k from new.public.t").await, "new5");
}

#[tokio::test(flavor = "multi_thread")]
async fn channels_and_listed_sessions_are_a_databases() {
    let server = Server::start();
    let maker = server.session(0).await;
    run(&maker, "create database other").await;
    let other = session(&server, 0, "other").await;
    let told = "select a.datname, a.datid = d.oid from pg_stat_activity a join pg_database d on d.datname = a.datname \
                order by 1";
    assert_eq!(rows(&other, told).await.unwrap(), ["meridian|t", "other|t"]);
    run(&maker, "set search_path = public; begin; create table t (k int); commit").await;
    let prepared = other.prepare("select 1 from pg_class where relname = 't'").await.unwrap();
    assert!(other.query(&prepared, &[]).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn databases_outlive_a_restart() {
    let data = std::env::temp_dir().join(format!("meridian-databases-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&data);
    let arguments = ["--data", data.to_str().unwrap(), "--regions", "us"];
    {
        let server = Server::start_with(&arguments, 1);
        run(&server.session(0).await, "create database kept").await;
        let kept = session(&server, 0, "kept").await;
        run(&kept, "create table t (k int primary key); insert into t values (8)").await;
    }
    let server = Server::start_with(&arguments, 1);
    assert_eq!(value(&session(&server, 0, "kept").await, "select k from t").await, "8");
    assert_eq!(failure(&server.session(0).await, "select k from t").await.0, "42P01");
    drop(server);
    std::fs::remove_dir_all(&data).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_of_postgresql_make_list_dump_and_drop_databases() {
    if !["createdb", "dropdb", "psql", "pg_dump", "pg_dumpall"].into_iter().all(is_there) {
        return;
    }
    let server = Server::start_with(&["--regions", "us"], 1);
    let port = server.ports[0];
    run(&server.session(0).await, "create role tester login superuser").await;
    text(of_port("createdb", port, &["shop", "what is sold"]));
    text(of_port("createdb", port, &["-T", "template0", "-E", "UTF8", "-O", "root", "gone"]));
    let inside = session(&server, 0, "shop").await;
    run(&inside, "create table t (k int primary key, v text); insert into t values (1, 'one')").await;
    run(&inside, "create role clerk login; grant select on t to clerk").await;
    run(&inside, "alter role clerk set search_path = own, public").await;
    run(&inside, "alter database shop set app.tenant = 'the shop'").await;
    let listed = text(of_port("psql", port, &["-d", "postgres", "-l"]));
    for name in ["shop", "gone", "meridian", "postgres", "template0", "template1"] {
        assert!(
            listed.lines().any(|line| line.split('|').next().is_some_and(|n| n.trim() == name)),
            "{listed}"
        );
    }
    text(of_port("dropdb", port, &["gone"]));
    assert!(!of_port("dropdb", port, &["gone"]).status.success());
    text(of_port("dropdb", port, &["--if-exists", "gone"]));
    let switched =
        text(of_port("psql", port, &["-d", "postgres", "-Atc", "\\c shop", "-c", "select v from t"]));
    assert!(switched.ends_with("one\n"), "{switched}");

    // A dump that makes the database, and one of all of them.
    let made = text(of_port("pg_dump", port, &["-C", "-d", "shop"]));
    assert!(made.contains("CREATE DATABASE shop") && made.contains("COMMENT ON DATABASE shop"), "{made}");
    let all = text(of_port("pg_dumpall", port, &["-l", "postgres"]));
    assert!(
        all.contains("ALTER ROLE clerk SET search_path TO 'own', 'public'")
            && all.contains("CREATE TABLE public.t"),
        "{all}"
    );
    for script in [made, all] {
        let other = Server::start_with(&["--regions", "us"], 1);
        let path =
            std::env::temp_dir().join(format!("meridian-all-{}-{}.sql", std::process::id(), other.ports[0]));
        std::fs::write(&path, &script).unwrap();
        if !script.contains("CREATE ROLE clerk") {
            let root = other.session_in(0, "root", "meridian").await.unwrap();
            run(&root, "create role clerk login; create role tester login superuser").await;
        }
        let loaded =
            of_port("psql", other.ports[0], &["-U", "root", "-d", "postgres", "-qf", path.to_str().unwrap()]);
        let told = String::from_utf8_lossy(&loaded.stderr).into_owned();
        let wrong: Vec<&str> = told
            .lines()
            .filter(|line| line.contains("ERROR"))
            .filter(|line| {
                !line.contains("\"root\" already exists") && !line.contains("\"meridian\" already exists")
            })
            .collect();
        assert!(wrong.is_empty(), "{wrong:?}");
        let inside = other.session_in(0, "root", "shop").await.expect("it was made");
        assert_eq!(value(&inside, "select v from t where k = 1").await, "one");
        assert_eq!(value(&inside, "show app.tenant").await, "the shop");
        std::fs::remove_file(&path).unwrap();
    }
}

//! Triggers over connections: beside concurrent writers of all regions, with errors, cancels and recursion, and what clients
//! are told. What statements answer stands in `tests/slt/triggers.slt`.

use crate::raw::Raw;
use crate::server::*;
use bytes::Bytes;
use futures::SinkExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio_postgres::Client;

const SMALL: &[&str] = &["--regions", "us"];
const ENGINES: [&str; 3] = ["caerus", "perseus", "geogauss"];

/// Says a statement until it met nobody.
async fn insist(client: &Client, sql: &str) {
    while let Err(error) = client.batch_execute(sql).await {
        _ = client.batch_execute("ROLLBACK").await;
        assert_eq!(state(&error), "40001", "{sql}: {error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_is_seen_by_every_region_once_it_was_made() {
    for engine in ENGINES {
        let server = Server::start_with(&["--engine", engine], 3);
        let client = server.session(0).await;
        run(
            &client,
            "CREATE TABLE t (id int PRIMARY KEY, seen int DEFAULT 0) WITH (home_by = id, home_map = 'hash');
             CREATE TABLE log (id int PRIMARY KEY);
             CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS
               $$ BEGIN NEW.seen := NEW.seen + 1; RETURN NEW; END $$;
             CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
               $$ BEGIN INSERT INTO log VALUES (NEW.id); RETURN NULL; END $$",
        )
        .await;
        let (made, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let mut writers = Vec::new();
        for nth in 0..3 {
            let (client, made, stop) = (server.session(nth).await, made.clone(), stop.clone());
            writers.push(tokio::spawn(async move {
                let mut behind = Vec::new();
                let mut id = nth as i32;
                while !stop.load(Ordering::SeqCst) {
                    id += 3;
                    if made.load(Ordering::SeqCst) {
                        behind.push(id);
                    }
                    insist(&client, &format!("INSERT INTO t VALUES ({id})")).await;
                    if id % 2 == 0 {
                        insist(&client, &format!("UPDATE t SET seen = seen WHERE id = {id}")).await;
                    }
                }
                behind
            }));
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        run(&client, "CREATE TRIGGER see BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION see()").await;
        run(&client, "CREATE TRIGGER note AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION note()").await;
        made.store(true, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(500)).await;
        stop.store(true, Ordering::SeqCst);
        let mut behind = Vec::new();
        for writer in writers {
            behind.extend(writer.await.expect("no writer fails"));
        }
        assert!(behind.len() >= 3, "{engine}: {} rows", behind.len());
        let list = behind.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let seen = format!("SELECT count(*) FROM t WHERE seen = 1 AND id IN ({list})");
        assert_eq!(value(&client, &seen).await, behind.len().to_string(), "{engine}");
        let logged = format!("SELECT count(*) FROM log WHERE id IN ({list})");
        assert_eq!(value(&client, &logged).await, behind.len().to_string(), "{engine}");
        // The second one came behind the first: whoever it saw the first has changed.
        let unseen = "SELECT count(*) FROM log JOIN t ON t.id = log.id WHERE seen <> 1";
        assert_eq!(value(&client, unseen).await, "0", "{engine}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_that_triggers_keep_lose_nothing() {
    const EACH: usize = 12;
    for engine in ENGINES {
        let server = Server::start_with(&["--engine", engine], 3);
        let client = server.session(0).await;
        run(
            &client,
            "CREATE TABLE posts (id int PRIMARY KEY, comments int NOT NULL DEFAULT 0, touched int NOT NULL DEFAULT 0);
             CREATE TABLE comments (id int PRIMARY KEY, post int NOT NULL REFERENCES posts ON DELETE CASCADE);
             CREATE FUNCTION count_comments() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
               IF TG_OP = 'INSERT' THEN UPDATE posts SET comments = comments + 1 WHERE id = NEW.post;
               ELSE UPDATE posts SET comments = comments - 1 WHERE id = OLD.post; END IF;
               RETURN NULL; END $$;
             CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
               PERFORM count(*) FROM comments;
               NEW.touched := OLD.touched + 1; RETURN NEW; END $$;
             CREATE TRIGGER counted AFTER INSERT OR DELETE ON comments FOR EACH ROW EXECUTE FUNCTION count_comments();
             CREATE TRIGGER touch BEFORE UPDATE ON posts FOR EACH ROW EXECUTE FUNCTION touch();
             INSERT INTO posts VALUES (1), (2)",
        )
        .await;
        let mut writers = Vec::new();
        for nth in 0..3 {
            let client = server.session(nth).await;
            writers.push(tokio::spawn(async move {
                for round in 0..EACH {
                    let id = nth * 1000 + round;
                    insist(&client, &format!("INSERT INTO comments VALUES ({id}, 1)")).await;
                    if round % 3 == 0 {
                        insist(&client, &format!("DELETE FROM comments WHERE id = {id}")).await;
                    }
                    // What a trigger reads does not let the row of the statement be an older one.
                    let update = "BEGIN ISOLATION LEVEL READ COMMITTED; \
                                  UPDATE posts SET comments = comments + 1 WHERE id = 2; COMMIT";
                    insist(&client, update).await;
                }
            }));
        }
        for writer in writers {
            writer.await.expect("no writer fails");
        }
        let kept = value(&client, "SELECT count(*) FROM comments").await;
        assert_eq!(kept, (3 * (EACH - EACH / 3)).to_string(), "{engine}");
        let counted = "SELECT comments, touched FROM posts ORDER BY id";
        let updates = 3 * (EACH + EACH / 3);
        let wanted = [format!("{kept}|{updates}"), format!("{0}|{0}", 3 * EACH)];
        assert_eq!(rows(&client, counted).await.unwrap(), wanted, "{engine}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_in_a_trigger_leaves_nothing() {
    for server in Server::with_each_engine(&[]) {
        let client = server.session(0).await;
        run(
            &client,
            "CREATE TABLE t (id int PRIMARY KEY, n int); CREATE TABLE log (id serial PRIMARY KEY, n int);
             CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
               INSERT INTO log (n) VALUES (NEW.n);
               IF NEW.n = 13 THEN RAISE EXCEPTION 'no %', NEW.n USING ERRCODE = '22000'; END IF;
               IF NEW.n = 14 THEN PERFORM pg_sleep(60); END IF;
               IF NEW.n = 15 THEN LOOP NULL; END LOOP; END IF;
               RETURN NEW; END $$;
             CREATE TRIGGER a BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION note();
             CREATE TRIGGER b AFTER INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION note();
             INSERT INTO t VALUES (1, 1)",
        )
        .await;
        let nothing = |client: Arc<Client>| async move {
            assert_eq!(rows(&client, "SELECT * FROM t").await.unwrap(), ["1|1"]);
            assert_eq!(value(&client, "SELECT count(*) FROM log").await, "2");
        };
        let client = Arc::new(client);
        for sql in [
            "INSERT INTO t VALUES (2, 2), (3, 13), (4, 4)",
            "UPDATE t SET n = 13",
            "INSERT INTO t VALUES (1, 5) ON CONFLICT (id) DO UPDATE SET n = 13",
            "MERGE INTO t USING (VALUES (1, 13)) s (i, m) ON id = i WHEN MATCHED THEN UPDATE SET n = m",
            "WITH x AS (INSERT INTO t VALUES (5, 5) RETURNING id) INSERT INTO t SELECT id + 1, 13 FROM x",
        ] {
            assert_eq!(failure(&client, sql).await, ("22000".into(), "no 13".into()), "{sql}");
            nothing(client.clone()).await;
        }
        run(&client, "SET statement_timeout = '300ms'").await;
        for sql in ["INSERT INTO t VALUES (2, 14)", "UPDATE t SET n = 15", "INSERT INTO t VALUES (2, 15)"] {
            let began = Instant::now();
            assert_eq!(failure(&client, sql).await.0, "57014", "{sql}");
            assert!(began.elapsed() < Duration::from_secs(8), "{sql}: {:?}", began.elapsed());
            nothing(client.clone()).await;
        }
        run(&client, "RESET statement_timeout").await;
        let cancel = client.cancel_token();
        let canceling = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(200)).await;
            cancel.cancel_query(tokio_postgres::NoTls).await.expect("it is taken");
        });
        assert_eq!(failure(&client, "INSERT INTO t VALUES (2, 14)").await.0, "57014");
        canceling.await.unwrap();
        nothing(client.clone()).await;
        // A block goes on behind a savepoint.
        run(&client, "BEGIN; INSERT INTO t VALUES (7, 7); SAVEPOINT s").await;
        assert_eq!(failure(&client, "UPDATE t SET n = n + 6").await.0, "22000");
        run(&client, "ROLLBACK TO s; UPDATE t SET n = 8 WHERE id = 7; COMMIT").await;
        assert_eq!(rows(&client, "SELECT * FROM t ORDER BY id").await.unwrap(), ["1|1", "7|8"]);
        assert_eq!(value(&client, "SELECT count(*) FROM log").await, "6");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn triggers_without_an_end_are_refused() {
    let mut server = Server::start_with(SMALL, 1);
    let client = server.session(0).await;
    run(
        &client,
        "CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY, n int);
         CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS
           $$ BEGIN INSERT INTO t VALUES (NEW.id + 1); RETURN NEW; END $$;
         CREATE FUNCTION twice() RETURNS trigger LANGUAGE plpgsql AS
           $$ BEGIN UPDATE u SET n = n + 1 WHERE id <> NEW.id; RETURN NULL; END $$;
         CREATE TRIGGER again AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION again();
         CREATE TRIGGER twice AFTER UPDATE ON u FOR EACH ROW EXECUTE FUNCTION twice();
         INSERT INTO u VALUES (1, 1), (2, 1)",
    )
    .await;
    for sql in ["INSERT INTO t VALUES (1)", "UPDATE u SET n = 1 WHERE id = 1"] {
        assert_eq!(failure(&client, sql).await, ("54001".into(), "stack depth limit exceeded".into()));
    }
    run(&client, "DROP TRIGGER again ON t; CREATE TRIGGER again BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION again()")
        .await;
    assert_eq!(failure(&client, "INSERT INTO t VALUES (1)").await.0, "54001");
    assert_eq!(value(&client, "SELECT count(*) FROM t").await, "0");
    // One that ends by itself in time.
    run(&client, "CREATE OR REPLACE TRIGGER again BEFORE INSERT ON t FOR EACH ROW WHEN (NEW.id < 100) EXECUTE FUNCTION again()")
        .await;
    run(&client, "INSERT INTO t VALUES (1)").await;
    assert_eq!(value(&client, "SELECT count(*) FROM t").await, "100");
    assert!(server.is_alive());
}

#[test]
fn clients_are_told_what_triggers_say() {
    let server = Server::start_with(SMALL, 1);
    let mut client = Raw::open(server.ports[0]);
    client.simple("create table t (id int primary key, n int)");
    client.simple(
        "create function note() returns trigger language plpgsql as $$ begin
           raise notice '% % %', tg_when, tg_op, tg_argv[0];
           if new.n = 13 then raise exception 'no'; end if;
           if new.n < 0 then return null; end if;
           return new; end $$",
    );
    client.simple("create trigger a before insert or update on t for each row execute function note('x')");
    client.simple("create trigger b after insert on t for each row execute function note('y')");
    let said = client.simple("insert into t values (1, 1), (2, -1)");
    let wanted = [
        "N 00000 BEFORE INSERT x",
        "N 00000 BEFORE INSERT x",
        "N 00000 AFTER INSERT y",
        "C INSERT 0 1",
        "Z I",
    ];
    assert_eq!(said, wanted);
    let said = client.simple("update t set n = 13");
    assert_eq!(said[0], "N 00000 BEFORE UPDATE x");
    assert_eq!(said[1], "E P0001 no [PL/pgSQL function note() line 3 at RAISE]");
    let said = client.simple("update t set n = -1 returning id");
    assert_eq!(&said[said.len() - 2..], ["C UPDATE 0", "Z I"]);
}

#[tokio::test]
async fn copied_rows_fire_triggers() {
    let server = Server::start();
    let client = server.session(1).await;
    run(
        &client,
        "CREATE TABLE t (id int PRIMARY KEY, a text NOT NULL CHECK (a <> 'bad'), b int);
         CREATE TABLE log (n int);
         CREATE FUNCTION fix() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
           IF NEW.id % 10 = 0 THEN RETURN NULL; END IF;
           NEW.a := coalesce(NEW.a, 'was null'); NEW.b := NEW.id * 2; RETURN NEW; END $$;
         CREATE FUNCTION done() RETURNS trigger LANGUAGE plpgsql AS
           $$ BEGIN INSERT INTO log SELECT count(*) FROM t; RETURN NULL; END $$;
         CREATE TRIGGER fix BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION fix();
         CREATE TRIGGER done AFTER INSERT ON t EXECUTE FUNCTION done()",
    )
    .await;
    let text: String =
        (1..=100).map(|n| format!("{n}\t{}\n", if n % 7 == 0 { "\\N" } else { "a" })).collect();
    let copy = |text: String| {
        let client = &client;
        async move {
            let sink = client.copy_in("COPY t (id, a) FROM STDIN").await?;
            let mut sink = Box::pin(sink);
            sink.send(Bytes::from(text)).await?;
            sink.as_mut().finish().await
        }
    };
    assert_eq!(copy(text).await.unwrap(), 90);
    assert_eq!(value(&client, "SELECT n FROM log").await, "90");
    let seen = "SELECT count(*), sum(b), count(*) FILTER (WHERE a = 'was null') FROM t";
    let sum: i32 = (1..=100).filter(|n| n % 10 != 0).map(|n| 2 * n).sum();
    assert_eq!(rows(&client, seen).await.unwrap(), [format!("90|{sum}|13")]);
    let error = copy("201\ta\n202\tbad\n".into()).await.unwrap_err();
    assert_eq!(state(&error), "23514");
    assert_eq!(value(&client, "SELECT count(*) FROM t").await, "90");
}

//! A backup of a cluster in use, restored into another one.

use crate::server::*;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Whether `meridian backup` succeeds, and what it says.
fn backup(arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_meridian"));
    let output = command.arg("backup").args(arguments).output().expect("the command runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

fn succeeds(arguments: &[&str]) -> String {
    let (succeeded, said) = backup(arguments);
    assert!(succeeded, "{arguments:?}: {said}");
    said
}
fn fails(arguments: &[&str]) -> String {
    let (succeeded, said) = backup(arguments);
    assert!(!succeeded, "{arguments:?}: {said}");
    said
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain name")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_a_cluster_in_use_is_one_cut_and_is_restored_into_an_empty_one() {
    let root = Directory(std::env::temp_dir().join(format!("meridian-{}-backup", std::process::id())));
    std::fs::create_dir_all(&root.0).unwrap();
    let (to, data) = (root.0.join("backup"), root.0.join("data"));
    let source = Server::start_with(&["--regions", "us,eu"], 2);
    let client = source.session(0).await;
    run(&client, "CREATE SCHEMA \"Shop\"").await;
    run(&client, "CREATE SEQUENCE numbers INCREMENT BY 3 START WITH 7").await;
    run(&client, "CREATE SEQUENCE used; SELECT nextval('used'); SELECT nextval('used')").await;
    run(
        &client,
        "CREATE TABLE counted (id SERIAL PRIMARY KEY, v INT); INSERT INTO counted (v) VALUES (1), (2)",
    )
    .await;
    run(
        &client,
        "CREATE FUNCTION thrice(x INT) RETURNS INT LANGUAGE sql AS 'SELECT x * 3'; \
         ALTER TABLE counted ALTER v SET DEFAULT thrice(5); \
         CREATE FUNCTION \"Shop\".all_counted() RETURNS SETOF counted LANGUAGE sql AS 'SELECT * FROM counted'",
    )
    .await;
    run(
        &client,
        "CREATE TABLE \"Shop\".\"Odd names\" (\"Id\" INT PRIMARY KEY, t TEXT, n NUMERIC(10,2) DEFAULT 1.50, \
         b BYTEA, at TIMESTAMPTZ, CHECK (\"Id\" >= 0), CONSTRAINT once UNIQUE (t), \
         g INT GENERATED ALWAYS AS IDENTITY, s SERIAL, \
         twice INT GENERATED ALWAYS AS (\"Id\" * 2) STORED)",
    )
    .await;
    run(&client, "INSERT INTO \"Shop\".\"Odd names\" VALUES (1, E'tab\\tand\\nline\\\\', 2.25, '\\x00ff', '2026-01-02 03:04:05+00'), (2, NULL, NULL, NULL, NULL)").await;
    run(&client, "CREATE INDEX by_time ON \"Shop\".\"Odd names\" (at, n)").await;
    run(
        &client,
        "CREATE FUNCTION \"Shop\".doubled() RETURNS trigger LANGUAGE plpgsql AS \
           $$ BEGIN NEW.v := NEW.v * TG_ARGV[0]::int; RETURN NEW; END $$; \
         CREATE TRIGGER doubled BEFORE INSERT ON counted FOR EACH ROW WHEN (NEW.v < 10) \
           EXECUTE FUNCTION \"Shop\".doubled(2); \
         CREATE TRIGGER silent BEFORE INSERT ON counted FOR EACH ROW EXECUTE FUNCTION \"Shop\".doubled(0); \
         ALTER TABLE counted DISABLE TRIGGER silent",
    )
    .await;
    run(&client, "CREATE TABLE us_side (id INT PRIMARY KEY, balance INT NOT NULL) WITH (home = 'us')").await;
    run(&client, "CREATE TABLE eu_side (id INT PRIMARY KEY, balance INT NOT NULL) WITH (home = 'eu')").await;
    run(&client, "INSERT INTO us_side VALUES (1, 1000); INSERT INTO eu_side VALUES (1, 1000)").await;
    // Money moves between tables that two regions order, all the time.
    let is_over = Arc::new(AtomicBool::new(false));
    let (over, mover) = (is_over.clone(), source.session(0).await);
    let moving = tokio::spawn(async move {
        let mut moved = 0;
        while !over.load(Relaxed) {
            let sql = "BEGIN; UPDATE us_side SET balance = balance - 1 WHERE id = 1; \
                       UPDATE eu_side SET balance = balance + 1 WHERE id = 1; COMMIT";
            // A test that failed has no server any more.
            match mover.batch_execute(sql).await {
                Ok(()) => moved += 1,
                Err(_) if mover.is_closed() => break,
                Err(_) => {}
            }
        }
        moved
    });
    let (url, to_text) = (source.url(0), text(&to).to_string());
    let said = tokio::task::spawn_blocking(move || succeeds(&["create", "--url", &url, "--to", &to_text]));
    let said = said.await.unwrap();
    assert!(said.contains("4 tables, 6 rows"), "{said}");
    is_over.store(true, Relaxed);
    assert!(moving.await.unwrap() > 0);
    assert!(fails(&["create", "--url", &source.url(0), "--to", text(&to)]).contains("holds files"));
    assert!(succeeds(&["verify", "--from", &format!("file://{}", text(&to))]).contains("is whole"));
    // It goes nowhere but into an empty cluster, and only as it was written.
    assert!(
        fails(&["restore", "--from", text(&to), "--url", &source.url(0)]).contains("the database has tables")
    );
    let file = to.join("tables/0001.copy");
    let whole = std::fs::read(&file).unwrap();
    let mut damaged = whole.clone();
    damaged[0] ^= 1;
    std::fs::write(&file, &damaged).unwrap();
    let target = Server::start_with(&["--regions", "us", "--data", text(&data)], 1);
    let said = fails(&["restore", "--from", text(&to), "--url", &target.url(0)]);
    assert!(said.contains("tables/0001.copy") && said.contains("its digest differs"), "{said}");
    std::fs::write(&file, &whole[1..]).unwrap();
    assert!(fails(&["verify", "--from", text(&to)]).contains(&format!("and {} were written", whole.len())));
    std::fs::write(&file, &whole).unwrap();
    let manifest = std::fs::read_to_string(to.join("manifest.json")).unwrap();
    let later = manifest.replace("\"format\": 1", "\"format\": 9");
    std::fs::write(to.join("manifest.json"), later).unwrap();
    assert!(fails(&["verify", "--from", text(&to)]).contains("has format 9; this program reads format 1"));
    std::fs::write(to.join("manifest.json"), manifest).unwrap();
    // Another number of regions.
    succeeds(&["restore", "--from", text(&to), "--url", &target.url(0), "--without-placement"]);
    let restored = target.session(0).await;
    let sums = "SELECT (SELECT sum(balance) FROM us_side) + (SELECT sum(balance) FROM eu_side)";
    assert_eq!(value(&restored, sums).await, "2000");
    let odd = "SELECT * FROM \"Shop\".\"Odd names\" ORDER BY 1";
    assert_eq!(rows(&restored, odd).await.unwrap(), rows(&client, odd).await.unwrap());
    assert_eq!(value(&restored, "SELECT nextval('numbers')").await, "7");
    assert_eq!(value(&restored, "SELECT nextval('used')").await, "3", "it goes on where it stood");
    assert_eq!(rows(&restored, "SELECT v FROM counted ORDER BY id").await.unwrap(), ["1", "2"]);
    let inserted = rows(&restored, "INSERT INTO counted (v) VALUES (3) RETURNING id, v").await.unwrap();
    assert_eq!(inserted, ["3|6"], "a trigger fires, and none that was disabled");
    assert_eq!(value(&restored, "INSERT INTO counted (v) VALUES (DEFAULT) RETURNING v").await, "15");
    assert_eq!(value(&restored, "SELECT max(v) FROM \"Shop\".all_counted()").await, "15");
    for (sql, state) in [
        ("INSERT INTO \"Shop\".\"Odd names\" (\"Id\") VALUES (-1)", "23514"),
        (
            "INSERT INTO \"Shop\".\"Odd names\" (\"Id\", t) SELECT 3, t FROM \"Shop\".\"Odd names\" WHERE \"Id\" = 1",
            "23505",
        ),
        ("INSERT INTO us_side VALUES (2, NULL)", "23502"),
    ] {
        assert_eq!(failure(&restored, sql).await.0, state, "{sql}");
    }
    run(&restored, "INSERT INTO \"Shop\".\"Odd names\" (\"Id\") VALUES (3)").await;
    assert_eq!(value(&restored, "SELECT n FROM \"Shop\".\"Odd names\" WHERE \"Id\" = 3").await, "1.50");
    let indexes = "SELECT indexname FROM pg_indexes WHERE tablename = 'Odd names' ORDER BY 1";
    assert_eq!(rows(&restored, indexes).await.unwrap(), rows(&client, indexes).await.unwrap());
}

/// Everything that refers to something else.
const RELATED: &str = "
    CREATE SCHEMA shop; COMMENT ON SCHEMA shop IS 'all of it';
    CREATE TYPE mood AS ENUM ('sad', 'o''k');
    CREATE DOMAIN positive AS int CHECK (VALUE > 0);
    COMMENT ON TYPE mood IS 'how it feels'; COMMENT ON DOMAIN positive IS 'more than nothing';
    CREATE TABLE shop.customers (id int, region text, name text, m mood DEFAULT 'sad', n positive,
        PRIMARY KEY (id, region), CONSTRAINT named UNIQUE (name));
    CREATE TABLE shop.orders (id bigint GENERATED ALWAYS AS IDENTITY (START WITH 100 INCREMENT BY 10) PRIMARY KEY,
        customer int, region text, parent bigint REFERENCES shop.orders ON DELETE CASCADE, amount numeric(10, 2),
        FOREIGN KEY (customer, region) REFERENCES shop.customers ON UPDATE CASCADE DEFERRABLE INITIALLY DEFERRED);
    COMMENT ON TABLE shop.orders IS 'what they buy';
    COMMENT ON COLUMN shop.orders.amount IS 'in ''euro''';
    COMMENT ON CONSTRAINT named ON shop.customers IS 'one each';
    INSERT INTO shop.customers VALUES (1, 'eu', 'ann', 'o''k', 3), (2, 'us', NULL, NULL, NULL);
    INSERT INTO shop.orders (customer, region, amount) VALUES (1, 'eu', 10.50), (2, 'us', -2);
    UPDATE shop.orders SET parent = 100 WHERE id = 110;
    ALTER TABLE shop.orders ADD CONSTRAINT earned CHECK (amount > 0) NOT VALID;
    CREATE INDEX orders_by_half ON shop.orders ((amount / 2) DESC) INCLUDE (region) WHERE amount > 0;
    COMMENT ON INDEX shop.orders_by_half IS 'why not';
    CREATE VIEW latest AS SELECT 1 AS id;
    CREATE VIEW shop.rich AS SELECT id, amount FROM shop.orders WHERE amount > 1 WITH CASCADED CHECK OPTION;
    CREATE OR REPLACE VIEW latest AS SELECT max(id)::int AS id FROM shop.rich;
    COMMENT ON VIEW latest IS 'made before what it reads';
    CREATE MATERIALIZED VIEW shop.totals AS SELECT region, sum(amount) AS total FROM shop.orders GROUP BY region;
    CREATE UNIQUE INDEX totals_by_region ON shop.totals (region);
    COMMENT ON MATERIALIZED VIEW shop.totals IS 'kept';
    CREATE MATERIALIZED VIEW unfilled AS SELECT * FROM shop.totals WITH NO DATA;
    CREATE FUNCTION shop.orders_of(who int) RETURNS SETOF shop.orders LANGUAGE sql AS
        'SELECT * FROM shop.orders WHERE customer = who';
    COMMENT ON FUNCTION shop.orders_of(int) IS 'theirs';
    CREATE VIEW of_ann AS SELECT id FROM shop.orders_of(1);
    CREATE FUNCTION doubled() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
    CREATE TRIGGER doubled BEFORE INSERT ON shop.orders FOR EACH ROW EXECUTE FUNCTION doubled();
    COMMENT ON TRIGGER doubled ON shop.orders IS 'nothing yet';
    CREATE TABLE shop.visits (day date, region text, n int CHECK (n > 0), PRIMARY KEY (day, region)) PARTITION BY RANGE (day);
    CREATE TABLE shop.visits_24 PARTITION OF shop.visits FOR VALUES FROM ('2024-01-01') TO ('2025-01-01')
        PARTITION BY LIST (region);
    CREATE TABLE shop.eu_24 PARTITION OF shop.visits_24 FOR VALUES IN ('eu', 'ch');
    CREATE TABLE shop.visits_24_rest PARTITION OF shop.visits_24 DEFAULT;
    CREATE TABLE shop.visits_old PARTITION OF shop.visits FOR VALUES FROM (MINVALUE) TO ('2024-01-01');
    COMMENT ON TABLE shop.visits IS 'who came';
    COMMENT ON TABLE shop.eu_24 IS 'few';
    CREATE INDEX visits_by_n ON shop.visits (n);
    INSERT INTO shop.visits VALUES ('2023-12-31', 'eu', 1), ('2024-01-01', 'eu', 2), ('2024-05-05', 'us', 4);
    CREATE VIEW shop.in_24 AS SELECT n FROM shop.visits_24;
    CREATE SEQUENCE free MINVALUE -5 START WITH -5; COMMENT ON SEQUENCE free IS 'to all'";

#[tokio::test(flavor = "multi_thread")]
async fn what_refers_to_other_things_is_restored_and_its_backup_is_the_same() {
    let root = Directory(std::env::temp_dir().join(format!("meridian-{}-related", std::process::id())));
    std::fs::create_dir_all(&root.0).unwrap();
    let server = Server::start_with(&["--regions", "us"], 1);
    let client = server.session(0).await;
    run(&client, RELATED).await;
    run(&client, "CREATE DATABASE copy").await;
    let of = |database: &str| server.url(0).replace("/meridian", &format!("/{database}"));
    let (first, second) = (root.0.join("first"), root.0.join("second"));
    let (source, target) = (server.url(0), of("copy"));
    assert_ne!(source, target);
    succeeds(&["create", "--url", &source, "--to", text(&first)]);
    succeeds(&["restore", "--from", text(&first), "--url", &target]);
    succeeds(&["create", "--url", &target, "--to", text(&second)]);
    let manifest = |of: &Path| -> serde_json::Value {
        let read = std::fs::read_to_string(of.join("manifest.json")).unwrap();
        serde_json::from_str::<serde_json::Value>(&read).unwrap()["manifest"].take()
    };
    let (first, second) = (manifest(&first), manifest(&second));
    for part in ["before", "after"] {
        assert_eq!(first[part], second[part], "{part}");
    }
    let copy = server.session_in(0, "root", "copy").await.unwrap();
    for (sql, expected) in [
        ("SELECT id FROM latest", "100"),
        ("SELECT string_agg(region || total, ', ' ORDER BY region) FROM shop.totals", "eu10.50, us-2.00"),
        ("SELECT id FROM of_ann", "100"),
        ("INSERT INTO shop.orders (customer, region, amount) VALUES (1, 'eu', 1) RETURNING id", "120"),
        ("SELECT obj_description('shop.totals'::regclass, 'pg_class')", "kept"),
        ("SELECT col_description('shop.orders'::regclass, 5)", "in 'euro'"),
        ("SELECT m FROM shop.customers WHERE id = 1", "o'k"),
        ("SELECT string_agg(n::text, ' ' ORDER BY n) FROM shop.visits", "1 2 4"),
        ("SELECT sum(n) FROM shop.in_24", "6"),
        ("SELECT n FROM shop.eu_24", "2"),
        ("SELECT obj_description('shop.eu_24'::regclass, 'pg_class')", "few"),
        ("INSERT INTO shop.visits VALUES ('2024-06-06', 'ch', 8) RETURNING n", "8"),
        ("SELECT sum(n) FROM shop.eu_24", "10"),
    ] {
        assert_eq!(value(&copy, sql).await, expected, "{sql}");
    }
    for (sql, state) in [
        ("SELECT * FROM unfilled", "55000"),
        ("INSERT INTO shop.orders (amount) VALUES (0)", "23514"),
        ("INSERT INTO shop.orders (customer, region, amount) VALUES (9, 'eu', 1)", "23503"),
        ("INSERT INTO shop.customers (id, region, name) VALUES (3, 'eu', 'ann')", "23505"),
        ("INSERT INTO shop.rich (amount) VALUES (0.5)", "44000"),
        ("INSERT INTO shop.visits VALUES ('2025-01-01', 'eu', 1)", "23514"),
        ("INSERT INTO shop.eu_24 VALUES ('2024-01-01', 'eu', 1)", "23505"),
    ] {
        assert_eq!(failure(&copy, sql).await.0, state, "{sql}");
    }
}

//! `pg_dump` of a server is loaded into another one with `psql`; so is a dump of PostgreSQL's.
//!
//! These programs of PostgreSQL's are no part of this repository: where they are missing the tests say so and end.

use crate::server::{Server, failure, run, value};
use std::process::{Command, Output};
use tokio_postgres::Client;

/// Everything that a dump has to tell.
const MADE: &str = "
    CREATE TABLE customers (id serial PRIMARY KEY, name varchar(40) NOT NULL UNIQUE, born date,
        balance numeric(12,2) DEFAULT 0 CHECK (balance >= 0), note text);
    COMMENT ON TABLE customers IS 'who buys';
    COMMENT ON COLUMN customers.note IS 'free ''text''';
    CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        customer int NOT NULL REFERENCES customers (id) ON DELETE CASCADE, at timestamptz DEFAULT now(), data bytea,
        u uuid, ok boolean, f double precision, c char(3));
    CREATE INDEX orders_customer ON orders (customer);
    CREATE UNIQUE INDEX customers_lower ON customers (lower(name)) WHERE balance > 0 AND note IS DISTINCT FROM 'gone';
    CREATE INDEX customers_sum ON customers ((balance + id) DESC, lower(name || 'x')) INCLUDE (born) WHERE name IN ('a', 'b');
    CREATE VIEW rich AS SELECT id, name FROM customers WHERE balance > 100;
    CREATE SEQUENCE free INCREMENT BY 5 START WITH 10;
    SELECT nextval('free');
    SELECT nextval('free');
    INSERT INTO customers (name, born, balance, note) VALUES ('ann', '1990-01-02', 500, E'tab\\there\\nnew \\\\ line'),
        ('bob', NULL, 3.5, NULL);
    INSERT INTO orders (customer, at, data, u, ok, f, c) VALUES
        (1, '2024-02-03 04:05:06.789+00', '\\xdeadbeef', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', true, 1.5, 'ab'),
        (2, '2024-01-01 00:00:00+00', NULL, NULL, NULL, 'NaN', NULL);
    CREATE TYPE mood AS ENUM ('sad', 'o''k', 'happy');
    ALTER TYPE mood ADD VALUE 'low' BEFORE 'o''k';
    CREATE TABLE feels (id int PRIMARY KEY, m mood DEFAULT 'low' CHECK (m <> 'sad'));
    INSERT INTO feels VALUES (1, 'happy'), (2, 'o''k');
    CREATE SCHEMA other;
    CREATE TABLE other.plain (a int, b text);
    INSERT INTO other.plain VALUES (1, 'x'), (2, NULL);
    CREATE FUNCTION renoted() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN NEW.note := TG_ARGV[0] || NEW.name; RETURN NEW; END $$;
    CREATE TRIGGER renoted BEFORE INSERT OR UPDATE OF name ON customers FOR EACH ROW WHEN (NEW.note IS NULL)
        EXECUTE FUNCTION renoted('it''s ');
    CREATE TRIGGER silent AFTER DELETE ON customers EXECUTE FUNCTION renoted();
    ALTER TABLE customers DISABLE TRIGGER silent;
    COMMENT ON TRIGGER renoted ON customers IS 'why'";

/// What is asked of both, and what it is everywhere.
const ASKED: &[(&str, &str)] = &[
    (
        "SELECT string_agg(concat_ws('/', id, name, born, balance, note), '; ' ORDER BY id) FROM customers",
        "1/ann/1990-01-02/500.00/tab\there\nnew \\ line; 2/bob/3.50",
    ),
    (
        "SELECT string_agg(concat_ws('/', id, customer, at, data, u, ok::text, f, c), '; ' ORDER BY id) FROM orders",
        "1/1/2024-02-03 04:05:06.789+00/\\xdeadbeef/a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11/true/1.5/ab ; \
         2/2/2024-01-01 00:00:00+00/NaN",
    ),
    ("SELECT string_agg(concat_ws('/', a, b), '; ' ORDER BY a) FROM other.plain", "1/x; 2"),
    ("SELECT name FROM rich", "ann"),
    ("SELECT string_agg(concat_ws('/', id, m), '; ' ORDER BY m) FROM feels", "2/o'k; 1/happy"),
    ("INSERT INTO feels (id) VALUES (3) RETURNING m", "low"),
    ("SELECT obj_description('customers'::regclass, 'pg_class')", "who buys"),
    ("INSERT INTO customers (name) VALUES ('eve') RETURNING id", "3"),
    ("SELECT note FROM customers WHERE id = 3", "it's eve"),
    (
        "SELECT string_agg(concat_ws('/', tgname, tgenabled, obj_description(oid, 'pg_trigger')), '; ' ORDER BY tgname) \
         FROM pg_trigger WHERE NOT tgisinternal",
        "renoted/O/why; silent/D",
    ),
    ("INSERT INTO orders (customer) VALUES (3) RETURNING id", "3"),
    ("SELECT nextval('free')", "20"),
];

pub fn is_there(program: &str) -> bool {
    let is_there =
        Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !is_there {
        eprintln!("{program} is not installed: nothing is tried");
    }
    is_there
}

fn of_server(program: &str, server: &Server, arguments: &[&str]) -> Output {
    of_port(program, server.ports[0], &[&["-d", "meridian"], arguments].concat())
}

/// What a program says of a server, in whatever database.
pub fn of_port(program: &str, port: u16, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(["-h", "127.0.0.1", "-p", &port.to_string(), "-U", "tester"]);
    command.args(arguments).env("PGCONNECT_TIMEOUT", "10").output().expect("it runs")
}

pub fn text(output: Output) -> String {
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

pub fn dumped(server: &Server, arguments: &[&str]) -> String {
    let all = text(of_server("pg_dump", server, arguments));
    // A line with a random word.
    let lines =
        all.lines().filter(|line| !line.starts_with("\\restrict") && !line.starts_with("\\unrestrict"));
    lines.map(|line| format!("{line}\n")).collect()
}

/// Loads a script into a new server; everything in it has to be accepted.
pub fn loaded(script: &str, name: &str) -> Server {
    let server = Server::start_with(&["--regions", "us"], 1);
    let path = std::env::temp_dir().join(format!("meridian-{}-{name}.sql", std::process::id()));
    std::fs::write(&path, script).expect("it is written");
    let file = path.to_str().expect("a path of text");
    text(of_server("psql", &server, &["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", file]));
    std::fs::remove_file(path).expect("it is there");
    server
}

async fn holds_everything(client: &Client) {
    for (query, expected) in ASKED {
        assert_eq!(value(client, query).await, *expected, "{query}");
    }
    assert_eq!(failure(client, "INSERT INTO orders (customer) VALUES (99)").await.0, "23503");
    assert_eq!(failure(client, "UPDATE customers SET balance = -1").await.0, "23514");
    assert_eq!(failure(client, "INSERT INTO customers (name) VALUES ('ann')").await.0, "23505");
    let same = "INSERT INTO customers (name, balance) VALUES ('ANN', 5)";
    let (state, told) = failure(client, same).await;
    assert!(state == "23505" && told.contains("customers_lower"), "{told}");
}

/// A table with two partitions.
const PARTITIONED: &str = "
    CREATE TABLE visits (day date, region text, n int DEFAULT 1, PRIMARY KEY (day, region), CHECK (n > 0))
        PARTITION BY RANGE (day);
    CREATE TABLE visits_24 PARTITION OF visits FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
    CREATE TABLE visits_rest PARTITION OF visits DEFAULT;
    CREATE INDEX visits_by_n ON visits (n);
    INSERT INTO visits VALUES ('2024-01-01', 'eu', 2), ('2025-01-01', 'eu', 4);";

#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_dumped_as_postgresql_has_them() {
    if !is_there("pg_dump") || !is_there("psql") {
        return;
    }
    let first = Server::start_with(&["--regions", "us"], 1);
    run(&first.session(0).await, PARTITIONED).await;
    let dump = dumped(&first, &["--no-owner"]);
    for part in [
        ")\nPARTITION BY RANGE (day);",
        "CREATE TABLE public.visits_24 (\n    day date NOT NULL,",
        "ALTER TABLE ONLY public.visits ATTACH PARTITION public.visits_24 \
         FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');",
        "ALTER TABLE ONLY public.visits ATTACH PARTITION public.visits_rest DEFAULT;",
        "COPY public.visits_24 (day, region, n) FROM stdin;\n2024-01-01\teu\t2\n",
    ] {
        assert!(dump.contains(part), "{part}: {dump}");
    }
    assert!(!dump.contains("COPY public.visits (") && !dump.contains("VIEW"), "{dump}");
    let second = loaded(&dump, "partitions");
    assert_eq!(dumped(&second, &["--no-owner"]), dump, "nothing is lost or added");
    let client = second.session(0).await;
    assert_eq!(value(&client, "SELECT n FROM visits_24").await, "2");
    assert_eq!(value(&client, "SELECT sum(n) FROM visits").await, "6");
    assert_eq!(failure(&client, "INSERT INTO visits_24 VALUES ('2025-01-01', 'us')").await.0, "23514");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dump_loads_into_another_server() {
    if !is_there("pg_dump") || !is_there("psql") {
        return;
    }
    let first = Server::start_with(&["--regions", "us"], 1);
    run(&first.session(0).await, MADE).await;
    let dump = dumped(&first, &["--no-owner"]);
    let second = loaded(&dump, "whole");
    assert_eq!(dumped(&second, &["--no-owner"]), dump, "nothing is lost or added");
    holds_everything(&second.session(0).await).await;
    holds_everything(&first.session(0).await).await;
    // In parts.
    assert!(dumped(&first, &["-t", "other.*"]).contains("CREATE TABLE other.plain"));
    assert!(!dump.contains("CREATE SCHEMA meridian") && !dump.contains("REVOKE"), "{dump}");
    let schema = dumped(&first, &["--schema-only", "--no-owner"]);
    let rows = dumped(&first, &["--data-only", "--inserts", "-t", "customers"]);
    assert!(rows.contains("INSERT INTO public.customers VALUES (1, 'ann', '1990-01-02', 500.00, "), "{rows}");
    assert!(!rows.contains("public.orders") && !schema.contains("COPY public"));
    let third = loaded(&format!("{schema}{rows}"), "parts");
    assert_eq!(value(&third.session(0).await, "SELECT count(*) FROM customers").await, "3");
}

#[tokio::test(flavor = "multi_thread")]
async fn domains_and_what_sequences_count_are_dumped() {
    if !is_there("pg_dump") || !is_there("psql") {
        return;
    }
    let first = Server::start_with(&["--regions", "us"], 1);
    let made = "
        CREATE DOMAIN positive AS int DEFAULT 7 NOT NULL CONSTRAINT above CHECK (VALUE > 0) CHECK (VALUE <> 13);
        CREATE SCHEMA other;
        CREATE DOMAIN other.word AS varchar(5);
        CREATE TYPE mood AS ENUM ('sad', 'glad');
        COMMENT ON DOMAIN positive IS 'more than nothing';
        COMMENT ON TYPE mood IS 'how it feels';
        CREATE TABLE t (id int PRIMARY KEY, p positive, w other.word);
        INSERT INTO t VALUES (1, 2, 'abc');
        CREATE SEQUENCE s AS smallint INCREMENT BY -2 MINVALUE -9 MAXVALUE 5 START WITH 3 CYCLE;
        SELECT nextval('s')";
    run(&first.session(0).await, made).await;
    let dump = dumped(&first, &["--no-owner"]);
    let second = loaded(&dump, "domains");
    assert_eq!(dumped(&second, &["--no-owner"]), dump, "nothing is lost or added");
    let client = second.session(0).await;
    let said =
        "SELECT obj_description('positive'::regtype, 'pg_type'), obj_description('mood'::regtype, 'pg_type')";
    assert_eq!(value(&client, said).await, "more than nothing|how it feels");
    assert_eq!(failure(&client, "INSERT INTO t VALUES (2, 13)").await.0, "23514");
    assert_eq!(failure(&client, "INSERT INTO t VALUES (2, NULL)").await.0, "23502");
    assert_eq!(failure(&client, "INSERT INTO t VALUES (2, 1, 'abcdef')").await.0, "22001");
    assert_eq!(value(&client, "INSERT INTO t (id) VALUES (2) RETURNING p").await, "7");
    assert_eq!(value(&client, "SELECT nextval('s'), nextval('s'), nextval('s')").await, "1|-1|-3");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dump_of_postgresql_loads() {
    if !is_there("psql") {
        return;
    }
    let server = loaded(include_str!("dumps/postgresql15.sql"), "postgresql");
    holds_everything(&server.session(0).await).await;
}

//! Functions of users as clients see them: psql's `\df` and `\sf`, privileges, dumps, limits.

use crate::dumps::{dumped, is_there, loaded};
use crate::server::{Server, failure, run, value};

fn psql(server: &Server, words: &str) -> String {
    let output = std::process::Command::new("psql")
        .args(["-X", "-h", "127.0.0.1", "-p", &server.ports[0].to_string(), "-U", "root", "-d", "meridian"])
        .args(["-c", words])
        .output()
        .expect("it runs");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

const MADE: &str = "
    CREATE TYPE mood AS ENUM ('sad', 'ok');
    CREATE DOMAIN positive AS int CHECK (VALUE > 0);
    CREATE TABLE t (id int PRIMARY KEY, name text);
    INSERT INTO t VALUES (1, 'one'), (2, 'two');
    CREATE FUNCTION add(a int, b int DEFAULT 1) RETURNS int LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
        AS $$ SELECT a + b -- it's $x$ $$;
    CREATE FUNCTION moods(m mood, p positive) RETURNS mood LANGUAGE sql AS 'SELECT m';
    CREATE FUNCTION all_t() RETURNS SETOF t LANGUAGE sql STABLE ROWS 5 AS 'SELECT * FROM t';
    CREATE FUNCTION named(n int) RETURNS TABLE (id int, \"Name\" text) LANGUAGE sql AS 'SELECT * FROM t WHERE id >= n';
    CREATE FUNCTION standard(x int) RETURNS int RETURN x * 2;
    CREATE FUNCTION language_of() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN 1; END $$;
    CREATE PROCEDURE rename(i int, s text) LANGUAGE sql AS 'UPDATE t SET name = s WHERE id = i';
    COMMENT ON FUNCTION add(int, int) IS 'adds';
    CREATE VIEW v AS SELECT id, add(id) AS more FROM t;
    CREATE TABLE d (id int PRIMARY KEY, x int DEFAULT add(20, 22))";

#[tokio::test(flavor = "multi_thread")]
async fn psql_lists_and_shows_functions() {
    if !is_there("psql") {
        return;
    }
    let server = Server::start();
    let client = server.session(0).await;
    run(&client, MADE).await;
    let listed = psql(&server, "\\df");
    let listed = listed.split_whitespace().collect::<Vec<_>>().join(" ");
    for line in [
        "public | add | integer | a integer, b integer DEFAULT 1 | func",
        "public | all_t | SETOF t | | func",
        "public | moods | mood | m mood, p positive | func",
        "public | rename | | IN i integer, IN s text | proc",
    ] {
        assert!(listed.contains(line), "{listed}");
    }
    assert!(listed.contains("TABLE(id integer, \"Name\" text)"), "{listed}");
    let shown = psql(&server, "\\sf add");
    let wanted = "CREATE OR REPLACE FUNCTION public.add(a integer, b integer DEFAULT 1)\n RETURNS integer\n \
        LANGUAGE sql\n IMMUTABLE PARALLEL SAFE STRICT\nAS $function$ SELECT a + b -- it's $x$ $function$\n";
    assert_eq!(shown, wanted);
    let detailed = psql(&server, "\\df+ add");
    assert!(detailed.contains("adds") && detailed.contains("immutable"), "{detailed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_are_dumped_and_loaded() {
    if !is_there("pg_dump") || !is_there("psql") {
        return;
    }
    let first = Server::start_with(&["--regions", "us"], 1);
    run(&first.session(0).await, MADE).await;
    let dump = dumped(&first, &["--no-owner"]);
    let second = loaded(&dump, "functions");
    assert_eq!(dumped(&second, &["--no-owner"]), dump, "nothing is lost or added");
    let client = second.session(0).await;
    for (asked, wanted) in [
        ("SELECT add(1)", "2"),
        ("SELECT standard(4)", "8"),
        ("SELECT max(more)::text FROM v", "3"),
        ("SELECT count(*)::text FROM all_t()", "2"),
        ("SELECT max(\"Name\") FROM named(2)", "two"),
        ("SELECT moods('ok', 3)::text", "ok"),
        ("INSERT INTO d (id) VALUES (1) RETURNING x", "42"),
        ("SELECT max(obj_description(oid, 'pg_proc')) FROM pg_proc WHERE proname = 'add'", "adds"),
        ("SELECT prosrc FROM pg_proc WHERE proname = 'language_of'", " BEGIN RETURN 1; END "),
    ] {
        assert_eq!(value(&client, asked).await, wanted, "{asked}");
    }
    run(&client, "CALL rename(1, 'first')").await;
    assert_eq!(value(&client, "SELECT name FROM t WHERE id = 1").await, "first");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_reads_with_the_rights_of_whoever_calls() {
    let server = Server::start();
    let root = server.session_of(0, "root").await.expect("it accepts");
    run(
        &root,
        "CREATE TABLE secret (id int PRIMARY KEY); INSERT INTO secret VALUES (7);
         CREATE FUNCTION reveal() RETURNS int LANGUAGE sql AS 'SELECT id FROM secret';
         CREATE FUNCTION harmless(x int) RETURNS int LANGUAGE sql AS 'SELECT x + 1';
         CREATE VIEW over_it AS SELECT reveal() AS r;
         CREATE ROLE ann LOGIN; GRANT SELECT ON over_it TO ann",
    )
    .await;
    let ann = server.session_of(0, "ann").await.expect("it accepts");
    assert_eq!(value(&ann, "SELECT harmless(1)").await, "2");
    for refused in ["SELECT reveal()", "SELECT r FROM over_it", "CREATE FUNCTION f() RETURNS int RETURN 1"] {
        assert_eq!(failure(&ann, refused).await.0, "42501", "{refused}");
    }
    for refused in ["DROP FUNCTION harmless(int)", "ALTER FUNCTION harmless(int) RENAME TO mine"] {
        assert_eq!(failure(&ann, refused).await.0, "42501", "{refused}");
    }
    run(&root, "REVOKE EXECUTE ON FUNCTION harmless(x integer) FROM PUBLIC").await;
    assert_eq!(failure(&ann, "SELECT harmless(1)").await.0, "42501");
    run(&root, "GRANT ALL ON FUNCTION harmless(int) TO ann").await;
    assert_eq!(value(&ann, "SELECT harmless(1)").await, "2");
    run(&root, "ALTER FUNCTION harmless(int) OWNER TO ann").await;
    run(&ann, "COMMENT ON FUNCTION harmless(int) IS 'mine'; DROP FUNCTION harmless(int)").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_function_costs_is_bounded() {
    let server = Server::start();
    let client = server.session(0).await;
    let arguments = |count: usize| vec!["int"; count].join(", ");
    let made = |count: usize| {
        format!("CREATE FUNCTION many({}) RETURNS int LANGUAGE sql AS 'SELECT 1'", arguments(count))
    };
    run(&client, &made(100)).await;
    assert_eq!(failure(&client, &made(101)).await.0, "54023");
    assert_eq!(failure(&client, &made(10_000)).await.0, "54023");
    let long = |bytes: usize| {
        format!(
            "CREATE FUNCTION long{bytes}() RETURNS int LANGUAGE sql AS 'SELECT 1 --{}'",
            "x".repeat(bytes)
        )
    };
    run(&client, &long(1_000_000)).await;
    assert_eq!(failure(&client, &long(1 << 20)).await.0, "54000");
    // A body that reads its argument twice doubles with each call around it.
    run(&client, "CREATE FUNCTION double(x numeric) RETURNS numeric LANGUAGE sql AS 'SELECT x + x'").await;
    let nested = |depth: usize| format!("SELECT {}1{}", "double(".repeat(depth), ")".repeat(depth));
    assert_eq!(value(&client, &nested(10)).await, "1024");
    assert_eq!(failure(&client, &nested(30)).await.0, "54001");
    for nth in 1..40 {
        let of = if nth == 1 { "1".to_string() } else { format!("chain{}()", nth - 1) };
        let sql = format!(
            "SET check_function_bodies = off; CREATE FUNCTION chain{nth}() RETURNS int LANGUAGE sql AS 'SELECT {of}'"
        );
        run(&client, &sql).await;
    }
    assert_eq!(value(&client, "SELECT chain32()").await, "1");
    assert_eq!(failure(&client, "SELECT chain39()").await.0, "54001");
    run(&client, "CREATE FUNCTION loops(i int) RETURNS int LANGUAGE sql AS 'SELECT 1; SELECT loops(i)'")
        .await;
    assert_eq!(failure(&client, "SELECT loops(1)").await.0, "54001");
}

//! Roles and privileges over the regions, and over a restart.

use crate::server::*;
use tokio_postgres::Client;

/// What is denied, by its message.
async fn denied(client: &Client, sql: &str) -> String {
    let (state, message) = failure(client, sql).await;
    assert_eq!(state, "42501", "{sql}: {message}");
    message
}

async fn refused(client: &Client, sql: &str) -> (String, String) {
    failure(client, sql).await
}

fn said(state: &str, message: &str) -> (String, String) {
    (state.into(), message.into())
}

#[tokio::test(flavor = "multi_thread")]
async fn privileges_hold_in_every_region() {
    let server = Server::start();
    let root = server.session_of(0, "root").await.unwrap();
    run(
        &root,
        "CREATE TABLE t (k INT PRIMARY KEY, x INT, secret TEXT); CREATE SEQUENCE s; \
         INSERT INTO t VALUES (1, 10, 'hidden'); \
         CREATE ROLE readers; CREATE USER ann; CREATE USER bob; GRANT SELECT ON t TO readers; GRANT readers TO ann; \
         GRANT SELECT (k, x), UPDATE (x) ON t TO bob",
    )
    .await;
    let told = server.session_of(0, "tester").await.err().unwrap();
    assert_eq!(state(&told), "28000");

    // Another region knows them too.
    let ann = server.session_of(1, "ann").await.unwrap();
    assert_eq!(value(&ann, "SELECT secret FROM t").await, "hidden");
    let select = ann.prepare("SELECT secret FROM t WHERE k = $1").await.unwrap();
    assert_eq!(ann.query(&select, &[&1]).await.unwrap().len(), 1);
    for sql in [
        "INSERT INTO t VALUES (2, 1, 'x')",
        "UPDATE t SET x = 1",
        "DELETE FROM t WHERE k = 1",
        "TRUNCATE t",
        "COPY t FROM STDIN",
        "SELECT k FROM t FOR UPDATE",
    ] {
        assert_eq!(denied(&ann, sql).await, "permission denied for table t", "{sql}");
    }
    for sql in ["ALTER TABLE t ADD COLUMN y INT", "DROP TABLE t", "CREATE INDEX i ON t (x)"] {
        assert_eq!(denied(&ann, sql).await, "must be owner of table t", "{sql}");
    }
    assert_eq!(denied(&ann, "CREATE TABLE u (k INT)").await, "permission denied for schema public");
    assert_eq!(denied(&ann, "CREATE SCHEMA own").await, "permission denied for database meridian");
    assert_eq!(denied(&ann, "SELECT nextval('s')").await, "permission denied for sequence s");
    assert_eq!(denied(&ann, "CREATE ROLE eve").await, "permission denied to create role");
    assert_eq!(denied(&ann, "SELECT * FROM pg_authid").await, "permission denied for table pg_authid");

    // Columns.
    let bob = server.session_of(2, "bob").await.unwrap();
    assert_eq!(rows(&bob, "SELECT k, x FROM t").await.unwrap(), ["1|10"]);
    run(&bob, "UPDATE t SET x = x + 1 WHERE k = 1").await;
    for sql in [
        "SELECT * FROM t",
        "SELECT secret FROM t",
        "UPDATE t SET secret = ''",
        "SELECT k FROM t ORDER BY secret",
    ] {
        assert_eq!(denied(&bob, sql).await, "permission denied for table t", "{sql}");
    }
    assert_eq!(
        value(
            &bob,
            "SELECT has_column_privilege('t', 'x', 'UPDATE') AND NOT has_table_privilege('t', 'SELECT')"
        )
        .await,
        "t"
    );

    // A change takes its place like any other change of the catalog; prepared statements are asked again.
    run(&root, "BEGIN; REVOKE readers FROM ann; ROLLBACK").await;
    assert_eq!(ann.query(&select, &[&1]).await.unwrap().len(), 1);
    run(&root, "REVOKE readers FROM ann").await;
    let sees = async |client: &Client| client.query(&select, &[&1]).await;
    let error = loop {
        // The other region executes the change a moment after it was answered here.
        match sees(&ann).await {
            Ok(_) => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
            Err(error) => break error,
        }
    };
    assert_eq!(state(&error), "42501");

    // Whom a session acts as.
    assert_eq!(
        refused(&ann, "SET ROLE readers").await,
        said("42501", "permission denied to set role \"readers\"")
    );
    assert_eq!(refused(&ann, "SET ROLE no_one").await, said("22023", "role \"no_one\" does not exist"));
    assert_eq!(
        refused(&ann, "SET SESSION AUTHORIZATION bob").await,
        said("42501", "permission denied to set session authorization \"bob\"")
    );
    run(&root, "SET ROLE bob").await;
    assert_eq!(value(&root, "SELECT current_user").await, "bob");
    assert_eq!(value(&root, "SELECT session_user").await, "root");
    assert_eq!(value(&root, "SHOW is_superuser").await, "off");
    assert_eq!(denied(&root, "SELECT * FROM t").await, "permission denied for table t");
    run(&root, "RESET ROLE").await;
    run(&root, "BEGIN; SET LOCAL ROLE bob; COMMIT; SELECT * FROM t").await;
    run(&root, "SET SESSION AUTHORIZATION ann").await;
    assert_eq!(value(&root, "SELECT current_user").await, "ann");
    run(&root, "SET SESSION AUTHORIZATION DEFAULT").await;

    // Owners.
    run(&root, "GRANT CREATE ON SCHEMA public TO ann; ALTER TABLE t OWNER TO bob").await;
    let ann_creates = async || loop {
        match ann.batch_execute("CREATE TABLE own (k INT PRIMARY KEY)").await {
            Ok(()) => break,
            Err(error) => assert_eq!(state(&error), "42501"),
        }
    };
    ann_creates().await;
    assert_eq!(value(&ann, "SELECT tableowner FROM pg_tables WHERE tablename = 'own'").await, "ann");
    run(&ann, "GRANT SELECT ON own TO PUBLIC; INSERT INTO own VALUES (1)").await;
    assert_eq!(refused(&root, "DROP ROLE ann").await.0, "2BP01");
    assert_eq!(refused(&root, "DROP ROLE no_one").await, said("42704", "role \"no_one\" does not exist"));
    assert_eq!(refused(&root, "CREATE ROLE ann").await, said("42710", "role \"ann\" already exists"));
    assert_eq!(refused(&root, "GRANT bob TO readers; GRANT readers TO bob").await.0, "0LP01");

    // What the catalog tells.
    run(&root, "GRANT readers TO ann WITH ADMIN OPTION").await;
    assert_eq!(
        rows(&root, "SELECT rolname, rolsuper, rolcanlogin FROM pg_roles ORDER BY 1").await.unwrap(),
        ["ann|f|t", "bob|f|t", "readers|f|f", "root|t|t"]
    );
    assert_eq!(
        value(
            &root,
            "SELECT m.rolname FROM pg_auth_members a JOIN pg_roles m ON m.oid = a.member WHERE a.admin_option"
        )
        .await,
        "ann"
    );
    assert_eq!(
        rows(
            &root,
            "SELECT grantee, privilege_type FROM information_schema.table_privileges \
             WHERE table_name = 't' AND grantee <> 'bob'"
        )
        .await
        .unwrap(),
        ["readers|SELECT"]
    );
    assert_eq!(
        value(&root, "SELECT relacl FROM pg_class WHERE relname = 't'").await,
        "{bob=arwdDxt/bob,readers=r/bob}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_survive_a_restart() {
    let path = std::env::temp_dir().join(format!("meridian-{}-roles", std::process::id()));
    _ = std::fs::remove_dir_all(&path);
    let arguments = ["--regions", "us", "--data", path.to_str().expect("a plain name")];
    {
        let server = Server::start_with(&arguments, 1);
        let root = server.session_of(0, "root").await.unwrap();
        run(&root, "CREATE TABLE t (k INT PRIMARY KEY); CREATE USER ann; GRANT SELECT ON t TO ann").await;
    }
    let server = Server::start_with(&arguments, 1);
    assert_eq!(state(&server.session_of(0, "tester").await.err().unwrap()), "28000");
    let ann = server.session_of(0, "ann").await.unwrap();
    assert_eq!(value(&ann, "SELECT count(*) FROM t").await, "0");
    assert_eq!(denied(&ann, "DELETE FROM t").await, "permission denied for table t");
    _ = std::fs::remove_dir_all(&path);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_table_made_anew_counts_with_stays_its_grantees() {
    let server = Server::start_with(&["--regions", "us"], 1);
    let root = server.session_of(0, "root").await.unwrap();
    run(&root, "CREATE ROLE clerk LOGIN; CREATE TABLE t (id SERIAL PRIMARY KEY, a INT)").await;
    run(&root, "GRANT USAGE ON SEQUENCE t_id_seq TO clerk").await;
    run(&root, "ALTER TABLE t ALTER COLUMN a TYPE BIGINT USING a + 1").await;
    let clerk = server.session_of(0, "clerk").await.unwrap();
    assert_eq!(value(&clerk, "SELECT nextval('t_id_seq')").await, "1");
}

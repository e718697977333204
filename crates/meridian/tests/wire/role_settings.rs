//! What sessions begin with: ALTER ROLE … SET and ALTER DATABASE … SET.

use crate::server::*;
use tokio_postgres::Client;

async fn shown(client: &Client, name: &str) -> String {
    value(client, &format!("SHOW {name}")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_begin_with_what_is_set_for_their_role_and_database() {
    let data = std::env::temp_dir().join(format!("meridian-begin-with-{}", std::process::id()));
    let arguments = ["--data", data.to_str().unwrap()];
    let server = Server::start_with(&arguments, 3);
    let root = server.session_of(0, "root").await.unwrap();
    run(&root, "CREATE ROLE ann LOGIN; CREATE ROLE bob LOGIN").await;
    run(&root, "CREATE DATABASE shop").await;
    run(
        &root,
        "ALTER ROLE ALL SET statement_timeout = '1s'; ALTER USER ann SET statement_timeout = '3s'; \
         ALTER ROLE ann IN DATABASE shop SET statement_timeout = '4s'; \
         ALTER ROLE ann SET search_path TO own, public; ALTER ROLE bob SET app.note = 'bob''s'",
    )
    .await;
    for sql in [
        "ALTER DATABASE shop SET statement_timeout TO 2000",
        "ALTER DATABASE shop SET timezone = 'Asia/Tokyo'",
    ] {
        run(&root, sql).await;
    }
    // This session had begun before.
    assert_eq!(shown(&root, "statement_timeout").await, "0");
    let expected = [
        ("bob", "meridian", "1s", "UTC"),
        ("bob", "shop", "2s", "Asia/Tokyo"),
        ("ann", "meridian", "3s", "UTC"),
        ("ann", "shop", "4s", "Asia/Tokyo"),
    ];
    let check = async |server: &Server| {
        for (user, database, timeout, zone) in expected {
            let session = server.session_in(1, user, database).await.unwrap();
            assert_eq!(shown(&session, "statement_timeout").await, timeout, "{user} in {database}");
            assert_eq!(shown(&session, "timezone").await, zone, "{user} in {database}");
            run(&session, "SET statement_timeout = 77; RESET statement_timeout").await;
            assert_eq!(shown(&session, "statement_timeout").await, timeout, "{user} in {database}");
        }
    };
    check(&server).await;
    let ann = server.session_in(0, "ann", "shop").await.unwrap();
    assert_eq!(value(&ann, "SELECT current_setting('search_path')").await, "own, public");
    let bob = server.session_in(0, "bob", "meridian").await.unwrap();
    assert_eq!(value(&bob, "SELECT current_setting('app.note')").await, "bob's");

    // A restart keeps them; what is reset or dropped is gone.
    drop((root, ann, bob));
    drop(server);
    let server = Server::start_with(&arguments, 3);
    check(&server).await;
    let root = server.session_of(0, "root").await.unwrap();
    run(&root, "ALTER ROLE ann RESET ALL; ALTER ROLE ann IN DATABASE shop SET statement_timeout TO DEFAULT")
        .await;
    run(&root, "ALTER DATABASE shop RESET statement_timeout").await;
    let ann = server.session_in(0, "ann", "shop").await.unwrap();
    assert_eq!(shown(&ann, "statement_timeout").await, "1s");
    drop(ann);
    run(&root, "DROP ROLE bob").await;
    run(&root, "DROP DATABASE shop WITH (FORCE)").await;
    let left = rows(&root, "SELECT setdatabase, setrole, setconfig FROM pg_db_role_setting").await.unwrap();
    assert_eq!(left, ["0|0|{statement_timeout=1s}"]);
    drop(server);
    std::fs::remove_dir_all(&data).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_of_others_are_for_superusers_and_values_are_checked() {
    let server = Server::start_with(&["--regions", "us"], 1);
    let root = server.session_of(0, "root").await.unwrap();
    run(&root, "CREATE ROLE ann LOGIN; CREATE ROLE bob LOGIN; CREATE ROLE maker LOGIN CREATEROLE").await;
    let ann = server.session_of(0, "ann").await.unwrap();
    let maker = server.session_of(0, "maker").await.unwrap();
    run(&ann, "ALTER ROLE ann SET work_mem = '8MB'; ALTER ROLE CURRENT_USER SET app.of = 'ann'").await;
    run(&maker, "ALTER ROLE bob SET app.of = 'maker'").await;
    for (client, sql, state) in [
        (&ann, "ALTER ROLE bob SET app.of = 'ann'", "42501"),
        (&ann, "ALTER ROLE ALL SET app.of = 'ann'", "42501"),
        (&ann, "ALTER DATABASE meridian SET app.of = 'ann'", "42501"),
        (&maker, "ALTER ROLE root SET app.of = 'maker'", "42501"),
        (&root, "ALTER ROLE nobody SET app.of = 'x'", "42704"),
        (&root, "ALTER ROLE ann SET nothing_of_this_name = 'x'", "42704"),
        (&root, "ALTER ROLE ann SET statement_timeout = 'soon'", "22023"),
        (&root, "ALTER ROLE ann SET server_version = '9'", "55P02"),
        (&root, "ALTER ROLE ann SET role = 'root'", "0A000"),
        (&root, "ALTER ROLE ann IN DATABASE nowhere SET app.of = 'x'", "3D000"),
        (&root, "ALTER DATABASE nowhere SET app.of = 'x'", "3D000"),
        (&root, "ALTER DATABASE meridian SET app.of", "42601"),
        (&root, "ALTER DATABASE meridian SET app.of TO DEFAULT, 'x'", "42601"),
    ] {
        assert_eq!(failure(client, sql).await.0, state, "{sql}");
    }
    let shown = "SELECT rolname || ': ' || array_to_string(rolconfig, ';') FROM pg_roles \
                 WHERE rolconfig IS NOT NULL ORDER BY 1";
    assert_eq!(rows(&root, shown).await.unwrap(), ["ann: app.of=ann;work_mem=8MB", "bob: app.of=maker"]);
}

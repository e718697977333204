//! Enumerated types as drivers meet them: object ids, the catalog's rows, parameters and results in both forms, copies;
//! and what a kill, a backup and a restore leave of them. What statements answer stands in `tests/slt/enums.slt`.

use crate::server::*;
use bytes::BytesMut;
use futures::{SinkExt, TryStreamExt};
use std::error::Error;
use std::path::PathBuf;
use std::process::Command;
use tokio_postgres::types::{FromSql, IsNull, Kind, ToSql, Type, to_sql_checked};

/// A label in its binary form, as a driver knows it: of a type that it has looked up.
#[derive(Clone, Debug, PartialEq)]
struct Label(&'static str);

impl ToSql for Label {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }
    fn accepts(of: &Type) -> bool {
        matches!(of.kind(), Kind::Enum(_))
    }
    to_sql_checked!();
}

#[derive(Debug, PartialEq)]
struct Read(String);

impl<'a> FromSql<'a> for Read {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Read, Box<dyn Error + Sync + Send>> {
        Ok(Read(std::str::from_utf8(raw)?.to_string()))
    }
    fn accepts(of: &Type) -> bool {
        matches!(of.kind(), Kind::Enum(_))
    }
}

const MADE: &str = "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy'); \
                    CREATE TABLE people (id INT PRIMARY KEY, m mood DEFAULT 'ok', n mood UNIQUE); \
                    CREATE INDEX ON people (m)";

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_finds_the_type_and_its_labels_travel_in_both_forms() {
    let server = Server::start();
    let client = server.session(0).await;
    run(&client, MADE).await;
    let insert = client.prepare("INSERT INTO people VALUES ($1, $2, $3)").await.unwrap();
    let of = &insert.params()[1];
    assert_eq!((of.name(), of.schema()), ("mood", "public"));
    let labels: Vec<String> = ["sad", "ok", "happy"].map(String::from).to_vec();
    assert_eq!(*of.kind(), Kind::Enum(labels));
    let oid = value(&client, "SELECT oid FROM pg_type WHERE typname = 'mood'").await;
    assert_eq!(of.oid().to_string(), oid);
    assert_eq!(value(&client, "SELECT 'mood'::regtype::oid").await, oid);
    for (id, m, n) in [(1, "happy", "sad"), (2, "sad", "ok"), (3, "ok", "happy")] {
        client.execute(&insert, &[&id, &Label(m), &Label(n)]).await.unwrap();
    }
    let wrong = client.execute(&insert, &[&4, &Label("glad"), &Label("sad")]).await.unwrap_err();
    assert_eq!(state(&wrong), "22P02");
    // By key from rows, and over columns.
    for select in ["SELECT m FROM people WHERE id = 1", "SELECT max(m) FROM people"] {
        let prepared = client.prepare(select).await.unwrap();
        assert_eq!(prepared.columns()[0].type_().oid().to_string(), oid, "{select}");
        let row = client.query_one(&prepared, &[]).await.unwrap();
        assert_eq!(row.get::<_, Read>(0), Read("happy".into()), "{select}");
        assert_eq!(rows(&client, select).await.unwrap(), ["happy"], "{select}");
    }
    for select in [
        "SELECT id FROM people WHERE m > $1 ORDER BY m",
        "SELECT id FROM people WHERE id < 9 AND $1 < m ORDER BY m",
        "SELECT id FROM people WHERE m > $1::mood ORDER BY m",
    ] {
        let found =
            client.query(select, &[&Label("sad")]).await.unwrap_or_else(|e| panic!("{select}: {e:?}"));
        let found: Vec<i32> = found.iter().map(|row| row.get(0)).collect();
        assert_eq!(found, [3, 1], "{select}");
    }
    let found = client.query_one("SELECT id FROM people WHERE n = $1", &[&Label("ok")]).await.unwrap();
    assert_eq!(found.get::<_, i32>(0), 2);
    // A cast of a text parameter is for the server to read.
    let cast = client.query_one("SELECT $1::text::mood", &[&"ok"]).await.unwrap();
    assert_eq!(cast.get::<_, Read>(0), Read("ok".into()));
    // A statement that was prepared before sees labels that came later.
    let all = client.prepare("SELECT m FROM people WHERE id < 9 ORDER BY m").await.unwrap();
    run(&client, "ALTER TYPE mood ADD VALUE 'low' BEFORE 'ok'").await;
    run(&client, "INSERT INTO people VALUES (5, 'low', 'low')").await;
    let found = client.query(&all, &[]).await.unwrap();
    let found: Vec<Read> = found.iter().map(|row| row.get(0)).collect();
    assert_eq!(found, ["sad", "low", "ok", "happy"].map(|text| Read(text.into())));
    copies(&client).await;
    // psql's `\dT+`.
    let told = "SELECT n.nspname as \"Schema\", pg_catalog.format_type(t.oid, NULL) AS \"Name\", t.typname AS \
        \"Internal name\", CASE WHEN t.typrelid != 0 THEN CAST('tuple' AS pg_catalog.text) WHEN t.typlen < 0 THEN \
        CAST('var' AS pg_catalog.text) ELSE CAST(t.typlen AS pg_catalog.text) END AS \"Size\", \
        pg_catalog.array_to_string( ARRAY( SELECT e.enumlabel FROM pg_catalog.pg_enum e WHERE e.enumtypid = t.oid \
        ORDER BY e.enumsortorder ), E'\\n' ) AS \"Elements\", pg_catalog.pg_get_userbyid(t.typowner) AS \"Owner\" \
        FROM pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace WHERE (t.typrelid = 0 \
        OR (SELECT c.relkind = 'c' FROM pg_catalog.pg_class c WHERE c.oid = t.typrelid)) AND NOT EXISTS(SELECT 1 FROM \
        pg_catalog.pg_type el WHERE el.oid = t.typelem AND el.typarray = t.oid) AND n.nspname <> 'pg_catalog' AND \
        n.nspname <> 'information_schema' AND pg_catalog.pg_type_is_visible(t.oid) ORDER BY 1, 2";
    let told = rows(&client, told).await.unwrap();
    assert_eq!(told, ["public|mood|mood|4|sad\nlow\nok\nhappy|tester"]);
    let column = "SELECT data_type, udt_name FROM information_schema.columns WHERE column_name = 'm' \
                  AND table_name = 'people'";
    assert_eq!(rows(&client, column).await.unwrap(), ["USER-DEFINED|mood"]);
    let shown = "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attname = 'n' \
                 AND attrelid = 'people'::regclass";
    assert_eq!(value(&client, shown).await, "mood");
}

#[tokio::test(flavor = "multi_thread")]
async fn arrays_of_labels_travel_in_both_forms() {
    let server = Server::start();
    let client = server.session(0).await;
    run(&client, "CREATE TYPE mood AS ENUM ('sad', 'ok', 'very happy'); CREATE TABLE days (id INT PRIMARY KEY, m mood, ms mood[])")
        .await;
    let insert = client.prepare("INSERT INTO days VALUES ($1, $2, $3)").await.unwrap();
    let of = &insert.params()[2];
    assert_eq!(of.name(), "_mood");
    assert!(matches!(of.kind(), Kind::Array(element) if element.name() == "mood"), "{:?}", of.kind());
    for (id, m, ms) in [
        (1, "sad", vec![]),
        (2, "ok", vec![Label("very happy"), Label("sad")]),
        (3, "sad", vec![Label("ok")]),
    ] {
        client.execute(&insert, &[&id, &Label(m), &ms]).await.unwrap();
    }
    let wrong = client.execute(&insert, &[&4, &Label("ok"), &vec![Label("glad")]]).await.unwrap_err();
    assert_eq!(state(&wrong), "22P02");
    // By key from rows, and over columns.
    for select in ["SELECT ms FROM days WHERE id = 2", "SELECT ms FROM days WHERE cardinality(ms) > 1"] {
        let row = client.query_one(select, &[]).await.unwrap_or_else(|e| panic!("{select}: {e:?}"));
        let read: Vec<Read> = row.get(0);
        assert_eq!(read, ["very happy", "sad"].map(|text| Read(text.into())), "{select}");
        assert_eq!(rows(&client, select).await.unwrap(), ["{\"very happy\",sad}"], "{select}");
    }
    let gathered = client.query_one("SELECT array_agg(m ORDER BY m) FROM days", &[]).await.unwrap();
    assert_eq!(gathered.get::<_, Vec<Read>>(0), ["sad", "sad", "ok"].map(|text| Read(text.into())));
    for (select, labels, found) in [
        ("SELECT id FROM days WHERE m = ANY($1) ORDER BY id", vec![Label("sad")], vec![1, 3]),
        (
            "SELECT id FROM days WHERE m = ANY($1::mood[]) ORDER BY id",
            vec![Label("ok"), Label("sad")],
            vec![1, 2, 3],
        ),
        ("SELECT id FROM days WHERE m <> ALL($1) ORDER BY id", vec![], vec![1, 2, 3]),
        ("SELECT id FROM days WHERE ms = $1 ORDER BY id", vec![Label("ok")], vec![3]),
    ] {
        let rows = client.query(select, &[&labels]).await.unwrap_or_else(|e| panic!("{select}: {e:?}"));
        let ids: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
        assert_eq!(ids, found, "{select}");
    }
    // As a driver that knows the type's object id declares it.
    let array = of.clone();
    let declared = client.prepare_typed("SELECT id FROM days WHERE m = ANY($1)", &[array]).await.unwrap();
    assert_eq!(client.query(&declared, &[&vec![Label("ok")]]).await.unwrap().len(), 1);
}

/// Out and in again, in text and in binary.
async fn copies(client: &tokio_postgres::Client) {
    for form in ["", "(FORMAT csv)", "(FORMAT binary)"] {
        run(client, "DROP TABLE IF EXISTS again; CREATE TABLE again (id INT PRIMARY KEY, m mood, n mood)")
            .await;
        let out = client.copy_out(&format!("COPY people TO STDOUT {form}")).await.unwrap();
        let pieces: Vec<_> = out.try_collect().await.unwrap();
        let sink = client.copy_in(&format!("COPY again FROM STDIN {form}")).await.unwrap();
        let mut sink = Box::pin(sink);
        for piece in pieces {
            sink.send(piece).await.unwrap();
        }
        sink.as_mut().finish().await.unwrap();
        let same = "SELECT count(*) FROM people p JOIN again a ON a.id = p.id AND a.m = p.m AND a.n = p.n";
        assert_eq!(value(client, same).await, "4", "{form}");
    }
    let sink = client.copy_in("COPY again FROM STDIN").await.unwrap();
    let mut sink = Box::pin(sink);
    sink.send(bytes::Bytes::from_static(b"9\tglad\tok\n")).await.unwrap();
    assert_eq!(state(&sink.as_mut().finish().await.unwrap_err()), "22P02");
}

struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

const ASKED: &str = "SELECT id, m, n FROM people ORDER BY m, id";
const THERE: [&str; 3] = ["2|sad|NULL", "1|low|ok", "3|happy|great"];

async fn check(client: &tokio_postgres::Client) {
    assert_eq!(rows(client, ASKED).await.unwrap(), THERE);
    assert_eq!(rows(client, "SELECT id FROM people WHERE m > 'sad' ORDER BY m").await.unwrap(), ["1", "3"]);
    assert_eq!(rows(client, "SELECT id FROM people WHERE id = 1 AND m = 'low'").await.unwrap(), ["1"]);
    run(client, "INSERT INTO people (id) VALUES (4)").await;
    assert_eq!(value(client, "SELECT m FROM people WHERE id = 4").await, "fine");
    assert_eq!(failure(client, "INSERT INTO people VALUES (5, 'glad')").await.0, "22P02");
    run(client, "ALTER TYPE mood ADD VALUE 'new' AFTER 'sad'; UPDATE people SET m = 'new' WHERE id = 4")
        .await;
    assert_eq!(rows(client, "SELECT id FROM people WHERE m < 'low' ORDER BY m").await.unwrap(), ["2", "4"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn they_survive_a_kill_a_backup_and_a_restore() {
    let root = std::env::temp_dir().join(format!("meridian-{}-enums", std::process::id()));
    _ = std::fs::remove_dir_all(&root);
    std::fs::create_dir_all(&root).unwrap();
    let root = Directory(root);
    let data = root.0.join("data");
    let data = data.to_str().unwrap().to_string();
    let start = || Server::start_with(&["--regions", "us", "--data", &data], 1);
    let backup = {
        let server = start();
        let client = server.session(0).await;
        run(&client, MADE).await;
        run(&client, "INSERT INTO people VALUES (1, 'ok', 'ok'), (2, 'sad', NULL)").await;
        run(&client, "ALTER TYPE mood ADD VALUE 'low' BEFORE 'ok'; ALTER TYPE mood ADD VALUE 'great'").await;
        run(&client, "ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'; UPDATE people SET m = 'low', n = 'fine' WHERE id = 1")
            .await;
        run(
            &client,
            "ALTER TYPE mood RENAME VALUE 'fine' TO 'ok'; INSERT INTO people VALUES (3, 'happy', 'great')",
        )
        .await;
        let to = root.0.join("backup").to_str().unwrap().to_string();
        let url = server.url(0);
        let made = tokio::task::spawn_blocking({
            let to = to.clone();
            move || {
                Command::new(env!("CARGO_BIN_EXE_meridian"))
                    .args(["backup", "create", "--url", &url, "--to", &to])
                    .output()
            }
        });
        let made = made.await.unwrap().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        run(&client, "ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'; UPDATE people SET n = 'low' WHERE id = 1")
            .await;
        run(&client, "ALTER TYPE mood ADD VALUE 'ok' AFTER 'fine'; UPDATE people SET n = 'ok' WHERE id = 1")
            .await;
        to
    };
    // The process was killed.
    let server = start();
    check(&server.session(0).await).await;
    drop(server);
    let other = Server::start();
    let url = other.url(0);
    let restored = tokio::task::spawn_blocking(move || {
        let arguments = ["backup", "restore", "--url", &url, "--from", &backup];
        Command::new(env!("CARGO_BIN_EXE_meridian")).args(arguments).output()
    });
    let restored = restored.await.unwrap().unwrap();
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    let client = other.session(0).await;
    assert_eq!(rows(&client, ASKED).await.unwrap(), THERE);
    let labels = "SELECT enumlabel FROM pg_enum ORDER BY enumsortorder";
    assert_eq!(rows(&client, labels).await.unwrap(), ["sad", "low", "ok", "happy", "great"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_region_and_engine_knows_them() {
    for server in Server::with_each_engine(&[]) {
        let (us, eu) = (server.session(0).await, server.session(1).await);
        run(&us, MADE).await;
        run(&eu, "INSERT INTO people VALUES (1, 'happy'), (2, 'sad')").await;
        run(&eu, "ALTER TYPE mood ADD VALUE 'low' BEFORE 'ok'; INSERT INTO people VALUES (3, 'low')").await;
        assert_eq!(
            rows(&us, "SELECT id, m FROM people ORDER BY m").await.unwrap(),
            ["2|sad", "3|low", "1|happy"]
        );
        assert_eq!(rows(&us, "SELECT m FROM people WHERE id = 3").await.unwrap(), ["low"]);
        run(&us, "UPDATE people SET m = 'ok' WHERE m = 'low'").await;
        assert_eq!(
            rows(&eu, "SELECT m, count(*) FROM people GROUP BY m ORDER BY m").await.unwrap(),
            ["sad|1", "ok|1", "happy|1"]
        );
        assert_eq!(failure(&eu, "DROP TYPE mood").await.0, "2BP01");
        run(&eu, "DROP TYPE mood CASCADE").await;
        assert_eq!(rows(&us, "SELECT * FROM people ORDER BY id").await.unwrap(), ["1", "2", "3"]);
    }
}

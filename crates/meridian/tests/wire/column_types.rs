//! Intervals, times of day, JSON and arrays as columns: their object ids, their binary forms as parameters, results and
//! copies, and what a kill, a backup and a restore leave of them.

use crate::server::*;
use bytes::{BufMut, BytesMut};
use futures::{SinkExt, TryStreamExt};
use std::error::Error;
use std::path::PathBuf;
use std::process::Command;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

/// A value of any type in its binary form.
#[derive(Clone, Debug, PartialEq)]
struct Binary(Vec<u8>);

impl ToSql for Binary {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_slice(&self.0);
        Ok(IsNull::No)
    }
    fn accepts(_: &Type) -> bool {
        true
    }
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Binary {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Binary, Box<dyn Error + Sync + Send>> {
        Ok(Binary(raw.to_vec()))
    }
    fn accepts(_: &Type) -> bool {
        true
    }
}

const TABLE: &str = "CREATE TABLE x (id INT PRIMARY KEY, i INTERVAL, t TIME, j JSON, b JSONB, n INT[], s TEXT[], \
                     UNIQUE (i, t), UNIQUE (b))";
const TYPES: [Type; 7] =
    [Type::INT4, Type::INTERVAL, Type::TIME, Type::JSON, Type::JSONB, Type::INT4_ARRAY, Type::TEXT_ARRAY];

/// What PostgreSQL 15 sends of these values in binary.
fn values() -> Vec<(&'static str, Binary)> {
    let hex = |text: &str| {
        let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
        Binary((0..text.len()).step_by(2).map(byte).collect())
    };
    vec![
        ("1", hex("00000001")),
        ("1 year 2 mons 3 days 04:05:06.789", hex("000000036c97ca88000000030000000e")),
        ("13:45:07.25", hex("0000000b86dcaf50")),
        ("{ \"b\":1}", hex("7b202262223a317d")),
        ("{\"a\": 1}", hex("017b2261223a20317d")),
        (
            "{1,NULL,-3}",
            hex("00000001000000010000001700000003000000010000000400000001ffffffff00000004fffffffd"),
        ),
        ("{a,\"b c\"}", hex("0000000100000000000000190000000200000001000000016100000003622063")),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn they_travel_in_text_and_in_binary() {
    let server = Server::start();
    let client = server.session(0).await;
    run(&client, TABLE).await;
    let insert = client.prepare("INSERT INTO x VALUES ($1, $2, $3, $4, $5, $6, $7)").await.unwrap();
    assert_eq!(insert.params(), TYPES);
    let values = values();
    let parameters: Vec<&(dyn ToSql + Sync)> = values.iter().map(|(_, v)| v as &(dyn ToSql + Sync)).collect();
    client.execute(&insert, &parameters).await.unwrap();
    let texts: Vec<&str> = values.iter().map(|(text, _)| *text).collect();
    // By key from rows, and over columns.
    for select in ["SELECT * FROM x WHERE id = 1", "SELECT * FROM x", "SELECT * FROM x WHERE id + 0 = 1"] {
        assert_eq!(rows(&client, select).await.unwrap(), [texts.join("|")], "{select}");
        let prepared = client.prepare(select).await.unwrap();
        let types: Vec<Type> = prepared.columns().iter().map(|c| c.type_().clone()).collect();
        assert_eq!(types, TYPES, "{select}");
        let row = client.query_one(&prepared, &[]).await.unwrap();
        for (n, (text, binary)) in values.iter().enumerate() {
            assert_eq!(row.get::<_, Binary>(n), *binary, "{select}: {text}");
        }
    }
    for (sql, wanted) in [
        ("SELECT id FROM x WHERE b @> $1", Type::JSONB),
        ("SELECT id FROM x WHERE i = $1", Type::INTERVAL),
        ("SELECT id FROM x WHERE t <= $1", Type::TIME),
        ("SELECT id FROM x WHERE id = 1 AND n = $1", Type::INT4_ARRAY),
    ] {
        let prepared = client.prepare(sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
        assert_eq!(prepared.params(), [wanted.clone()], "{sql}");
        let at = TYPES.iter().position(|t| *t == wanted).unwrap();
        let found =
            client.query(&prepared, &[&values[at].1]).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
        assert_eq!(found.len(), 1, "{sql}");
    }
    let member = client.query_one("SELECT b ->> $1 FROM x WHERE id = 1", &[&"a"]).await.unwrap();
    assert_eq!(member.get::<_, String>(0), "1");
    let numbers = client.query_one("SELECT n FROM x WHERE id = 1", &[]).await.unwrap();
    assert_eq!(numbers.get::<_, Vec<Option<i32>>>(0), [Some(1), None, Some(-3)]);
    client
        .execute("UPDATE x SET n = $1, s = $2 WHERE id = 1", &[&vec![7], &Vec::<String>::new()])
        .await
        .unwrap();
    assert_eq!(value(&client, "SELECT n || 8, s FROM x WHERE id = 1").await, "{7,8}|{}");
    // Wrong bytes.
    for (n, wrong) in [
        (1, vec![0; 15]),
        (2, vec![0xff; 8]),
        (4, b"\x02{}".to_vec()),
        (4, b"\x01{".to_vec()),
        (5, vec![0; 3]),
    ] {
        let mut wrongs: Vec<Binary> = values.iter().map(|(_, v)| v.clone()).collect();
        wrongs[n] = Binary(wrong);
        let parameters: Vec<&(dyn ToSql + Sync)> = wrongs.iter().map(|v| v as &(dyn ToSql + Sync)).collect();
        let error = client.execute(&insert, &parameters).await.unwrap_err();
        assert!(["22P03", "22P02"].contains(&state(&error)), "{n}: {error:?}");
    }
    copies(&client).await;
}

/// A table's copy in each format makes the same table.
/// The operands of a set operation have one type, and it is what a client is told. Once a client was told that of the first
/// operand where a statement had a parameter, depended on the hour, or had groups of several kinds.
#[tokio::test(flavor = "multi_thread")]
async fn operands_of_a_set_operation_have_one_type() {
    let server = Server::start();
    let client = server.session(0).await;
    run(&client, "CREATE TABLE a (id INT PRIMARY KEY, n NUMERIC(8,2))").await;
    run(&client, "INSERT INTO a VALUES (1, 2.5)").await;
    for sql in [
        "SELECT id FROM a UNION ALL SELECT n FROM a",
        "SELECT id FROM a UNION ALL SELECT n FROM a WHERE id = $1",
        "SELECT id FROM a UNION SELECT n FROM a WHERE now() IS NOT NULL",
        "SELECT sum(id) FROM a GROUP BY GROUPING SETS ((id), ()) UNION ALL SELECT n FROM a",
    ] {
        let prepared = client.prepare(sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
        assert_eq!(*prepared.columns()[0].type_(), Type::NUMERIC, "{sql}");
    }
}

async fn copies(client: &tokio_postgres::Client) {
    run(client, "INSERT INTO x (id) VALUES (2)").await;
    run(client, "INSERT INTO x VALUES (3, '-1 day', '24:00', '\"a\\tb\"', '[\"\\\\n\", 1.50]', '{}', '{\",\",NULL,\"\"}')").await;
    let wanted = rows(client, "SELECT * FROM x ORDER BY id").await.unwrap();
    for format in ["text", "csv", "binary"] {
        let copied = client.copy_out(&format!("COPY x TO STDOUT (FORMAT {format})")).await.unwrap();
        let bytes: Vec<bytes::Bytes> = copied.try_collect().await.unwrap();
        run(client, "TRUNCATE x").await;
        let sink =
            client.copy_in::<_, bytes::Bytes>(&format!("COPY x FROM STDIN (FORMAT {format})")).await.unwrap();
        let mut sink = Box::pin(sink);
        for some in bytes {
            sink.send(some).await.unwrap();
        }
        assert_eq!(sink.as_mut().finish().await.unwrap(), 3, "{format}");
        assert_eq!(rows(client, "SELECT * FROM x ORDER BY id").await.unwrap(), wanted, "{format}");
    }
}

/// A directory that is gone when the test is.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn they_survive_a_kill_and_a_backup() {
    let root = Directory(std::env::temp_dir().join(format!("meridian-{}-column-types", std::process::id())));
    std::fs::create_dir_all(&root.0).unwrap();
    let (data, to) = (root.0.join("data"), root.0.join("backup"));
    let start = || Server::start_with(&["--regions", "us", "--data", data.to_str().unwrap()], 1);
    let select = "SELECT * FROM x ORDER BY id";
    let mut wanted = Vec::new();
    for life in 0..2 {
        let server = start();
        let client = server.session(0).await;
        if life == 0 {
            run(&client, TABLE).await;
            run(&client, "ALTER TABLE x ADD COLUMN more JSONB DEFAULT '{\"b\": [1, 1.50]}' NOT NULL").await;
            run(
                &client,
                "INSERT INTO x VALUES (1, '1 mon -2 days 03:00', '10:00', '{ }', '{\"z\": 1, \"a\": null}', '{1,NULL}', '{}'), \
                 (2, NULL, NULL, NULL, NULL, NULL, NULL)",
            )
            .await;
            wanted = rows(&client, select).await.unwrap();
        }
        assert_eq!(rows(&client, select).await.unwrap(), wanted, "life {life}");
        assert_eq!(
            failure(&client, "INSERT INTO x (id, b) VALUES (3, '{\"a\":null,\"z\":1.0}')").await.0,
            "23505"
        );
        if life == 1 {
            let url = server.url(0);
            let meridian = |arguments: &[&str]| {
                let mut command = Command::new(env!("CARGO_BIN_EXE_meridian"));
                let output = command.arg("backup").args(arguments).output().expect("the command runs");
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            };
            meridian(&["create", "--url", &url, "--to", to.to_str().unwrap()]);
            let target = Server::start_with(&["--regions", "us"], 1);
            meridian(&["restore", "--from", to.to_str().unwrap(), "--url", &target.url(0)]);
            let restored = target.session(0).await;
            assert_eq!(rows(&restored, select).await.unwrap(), wanted);
            assert_eq!(value(&restored, "SELECT more -> 'b' -> 1 FROM x WHERE id = 1").await, "1.50");
        }
    }
}

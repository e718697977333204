//! Time zones of sessions: texts of moments follow them on every path, binary values do not.

use crate::server::*;
use futures::{SinkExt, TryStreamExt};
use std::pin::pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio_postgres::{Client, NoTls};

/// A session that asks for a zone when it connects.
async fn session_in(server: &Server, zone: &str) -> Client {
    let config = format!(
        "host=127.0.0.1 port={} user=tester dbname=meridian options='-c timezone={zone}'",
        server.ports[0]
    );
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await.expect("it accepts");
    tokio::spawn(connection);
    client
}

/// What COPY says of a table.
async fn copied(client: &Client, sql: &str) -> String {
    let pieces: Vec<_> = client.copy_out(sql).await.expect(sql).try_collect().await.expect(sql);
    String::from_utf8(pieces.concat()).expect("text")
}

#[tokio::test]
async fn a_session_s_zone_decides_on_texts_and_not_on_binary_values() {
    for server in Server::with_each_engine(&[]) {
        let tokyo = session_in(&server, "asia/tokyo").await;
        assert_eq!(value(&tokyo, "SHOW timezone").await, "Asia/Tokyo");
        run(&tokyo, "CREATE TABLE z (id int PRIMARY KEY, at timestamptz, day date)").await;
        run(&tokyo, "INSERT INTO z VALUES (1, '2024-01-01', '2024-01-01')").await;
        assert_eq!(value(&tokyo, "SELECT at FROM z WHERE id = 1").await, "2024-01-01 00:00:00+09");

        // 2024-01-01 00:00 in Tokyo.
        let moment = UNIX_EPOCH + Duration::from_secs(1_704_034_800);
        let row = tokyo.query_one("SELECT at, at::date = day FROM z WHERE id = 1", &[]).await.unwrap();
        assert_eq!((row.get::<_, SystemTime>(0), row.get::<_, bool>(1)), (moment, true));
        let sql = "SELECT id FROM z WHERE at = $1 AND at = $2::text::timestamptz AND day = at";
        assert_eq!(tokyo.query_one(sql, &[&moment, &"2024-01-01"]).await.unwrap().get::<_, i32>(0), 1);

        // A statement that was prepared in one zone follows the session to another.
        let sql =
            "SELECT at::text, date_trunc('day', at)::text, (at + interval '1 day')::text FROM z WHERE id = 1";
        let prepared = tokyo.prepare(sql).await.unwrap();
        let told = async || -> Vec<String> {
            let row = tokyo.query_one(&prepared, &[]).await.unwrap();
            (0..3).map(|n| row.get(n)).collect()
        };
        let day = "2024-01-01 00:00:00+09";
        assert_eq!(told().await, [day, day, "2024-01-02 00:00:00+09"]);
        run(&tokyo, "SET timezone = 'America/New_York'").await;
        let shown = ["2023-12-31 10:00:00-05", "2023-12-31 00:00:00-05", "2024-01-01 10:00:00-05"];
        assert_eq!(told().await, shown);
        run(&tokyo, "RESET timezone").await;
        assert_eq!(told().await[0], day);

        let mut sink = pin!(tokyo.copy_in("COPY z FROM STDIN").await.unwrap());
        sink.send(bytes::Bytes::from("2\t2024-07-01 10:00\t2024-07-01\n")).await.unwrap();
        sink.finish().await.unwrap();
        let sql = "COPY (SELECT at, array[at] FROM z WHERE id = 2) TO STDOUT WITH (FORMAT csv)";
        let shown = "2024-07-01 10:00:00+09,\"{\"\"2024-07-01 10:00:00+09\"\"}\"\n";
        assert_eq!(copied(&tokyo, sql).await, shown);

        // What one session wrote another one sees in its own zone, and changes in it.
        let berlin = session_in(&server, "Europe/Berlin").await;
        let all = "SELECT at, day FROM z ORDER BY id";
        let seen = ["2023-12-31 16:00:00+01|2024-01-01", "2024-07-01 03:00:00+02|2024-07-01"];
        assert_eq!(rows(&berlin, all).await.unwrap(), seen);
        run(&berlin, "UPDATE z SET at = day WHERE id = 1; UPDATE z SET day = at WHERE at::date = day").await;
        assert_eq!(rows(&berlin, all).await.unwrap()[0], "2024-01-01 00:00:00+01|2024-01-01");
        assert_eq!(rows(&tokyo, all).await.unwrap()[0], "2024-01-01 08:00:00+09|2024-01-01");
        assert_eq!(failure(&berlin, "SET timezone = 'Nowhere'").await.0, "22023");
    }
}

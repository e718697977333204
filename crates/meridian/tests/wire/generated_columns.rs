//! Generated columns survive what tables survive: kills, checkpoints, copies, each engine.

use crate::server::*;
use futures::{SinkExt, TryStreamExt};
use std::pin::pin;

#[tokio::test(flavor = "multi_thread")]
async fn generated_columns_are_there_after_a_kill_and_go_on() {
    for engine in ["caerus", "perseus", "geogauss"] {
        let path = std::env::temp_dir().join(format!("meridian-{}-generated-{engine}", std::process::id()));
        _ = std::fs::remove_dir_all(&path);
        let data = path.to_str().expect("a plain name");
        let start = || Server::start_with(&["--regions", "us", "--engine", engine, "--data", data], 1);
        let server = start();
        let client = server.session(0).await;
        run(&client, "CREATE TABLE g (id int PRIMARY KEY, a int, b int GENERATED ALWAYS AS (a * 2) STORED)")
            .await;
        run(&client, "CREATE INDEX ON g (b); INSERT INTO g (id, a) VALUES (1, 1), (2, 2), (3, 3)").await;
        run(&client, "UPDATE g SET a = a + 10 WHERE id = 2; UPDATE g SET a = a WHERE b = 6").await;
        let insert = client.prepare("INSERT INTO g (id, a) VALUES ($1, $2) RETURNING b").await.unwrap();
        assert_eq!(client.query_one(&insert, &[&4i32, &40i32]).await.unwrap().get::<_, i32>(0), 80);
        drop(server);

        let server = start();
        let client = server.session(0).await;
        let all = "SELECT id, a, b FROM g ORDER BY id";
        assert_eq!(rows(&client, all).await.unwrap(), ["1|1|2", "2|12|24", "3|3|6", "4|40|80"], "{engine}");
        assert_eq!(rows(&client, "SELECT sum(b) FROM g WHERE b > 2").await.unwrap(), ["110"], "{engine}");
        let mut sink = pin!(client.copy_in("COPY g FROM STDIN").await.unwrap());
        sink.send(bytes::Bytes::from("5\t50\n")).await.unwrap();
        sink.finish().await.unwrap();
        run(&client, "UPDATE g SET a = 0 WHERE id = 1").await;
        let pieces: Vec<_> = client.copy_out("COPY g TO STDOUT").await.unwrap().try_collect().await.unwrap();
        let copied = String::from_utf8(pieces.concat()).expect("text");
        assert!(copied.lines().any(|line| line == "5\t50"), "{copied}");
        let found = rows(&client, "SELECT id FROM g WHERE b IN (0, 100) ORDER BY id").await.unwrap();
        assert_eq!(found, ["1", "5"], "{engine}");
        assert_eq!(failure(&client, "COPY g (id, b) FROM STDIN").await.0, "42P10", "{engine}");
        assert_eq!(failure(&client, "INSERT INTO g VALUES (6, 1, 1)").await.0, "428C9", "{engine}");
        _ = std::fs::remove_dir_all(&path);
    }
}

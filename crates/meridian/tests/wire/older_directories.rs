//! Directories that programs of older versions of `base::codec` have written: this one opens them, finds what was there,
//! and goes on. They lie in `tests/directories`, by version; how one is made stands at [`Kind::make`].

use crate::durable::Directory;
use crate::server::{Server, failure, rows, run, value};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio_postgres::Client;

#[path = "older_directories/packed.rs"]
mod packed;

/// Before the checkpoint, and behind it.
const FIRST: &str = include_str!("../directories/first.sql");
const SECOND: &str = include_str!("../directories/second.sql");

/// How a directory was made.
#[derive(Clone, Copy, Debug)]
struct Kind {
    /// Of its file.
    name: &'static str,
    arguments: &'static [&'static str],
    regions: usize,
    /// Nodes that had written a checkpoint of what came first; 0: everything is in the log.
    checkpoints: usize,
}

const KINDS: [Kind; 5] = [
    Kind {
        name: "caerus",
        arguments: &["--engine", "caerus", "--regions", "us"],
        regions: 1,
        checkpoints: 1,
    },
    Kind {
        name: "caerus-three-regions",
        arguments: &["--engine", "caerus", "--survive", "1"],
        regions: 3,
        checkpoints: 0,
    },
    Kind { name: "geogauss-three-regions", arguments: &["--engine", "geogauss"], regions: 3, checkpoints: 3 },
    Kind {
        name: "perseus",
        arguments: &["--engine", "perseus", "--regions", "us"],
        regions: 1,
        checkpoints: 0,
    },
    Kind { name: "perseus-three-regions", arguments: &["--engine", "perseus"], regions: 3, checkpoints: 1 },
];

/// Directories of older versions, one folder each.
fn stored() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/directories")
}

/// What a start makes anew.
fn is_left_out(path: &str) -> bool {
    path == "lock" || path == "reserve"
}

impl Kind {
    fn start(&self, directory: &Directory) -> Server {
        let more = ["--checkpoint-mib", "1", "--data", directory.text()];
        let arguments: Vec<&str> = self.arguments.iter().copied().chain(more).collect();
        Server::start_with(&arguments, self.regions)
    }

    /// Fills a directory with this program; the process is killed. Before [`base::codec::VERSION`] grows,
    /// `MERIDIAN_KEEP_DIRECTORIES=1 cargo test -p meridian --test wire older_directories` puts what this makes among the
    /// stored ones.
    async fn make(&self, directory: &Directory) -> Vec<u8> {
        let server = self.start(directory);
        let client = root(&server, 0).await;
        run(&client, FIRST).await;
        if self.checkpoints > 0 {
            // So much is due for a checkpoint, and packs to nothing.
            run(&client, "CREATE TABLE large (id INT PRIMARY KEY, text TEXT)").await;
            run(&client, "INSERT INTO large VALUES (1, repeat('x', 1200000))").await;
            let are_written =
                |newest: &[u64]| newest.iter().filter(|number| **number > 0).count() >= self.checkpoints;
            self.wait_for_checkpoints(directory, are_written).await;
            run(&client, "DROP TABLE large").await;
        }
        run(&client, SECOND).await;
        drop((client, server));
        packed::pack(&directory.0, &is_left_out)
    }

    /// Waits until the newest checkpoints of the nodes are as they should be.
    async fn wait_for_checkpoints(&self, directory: &Directory, is_so: impl Fn(&[u64]) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !is_so(&self.newest_checkpoints(directory)) {
            assert!(Instant::now() < deadline, "{}: no checkpoint is written", self.name);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Of each node the number of its newest complete checkpoint; 0: it has none.
    fn newest_checkpoints(&self, directory: &Directory) -> Vec<u64> {
        let newest = |node: usize| {
            let path = directory.0.join(format!("node-{node}/checkpoint"));
            let all = std::fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
            let complete = all.filter(|checkpoint| checkpoint.path().join("manifest").exists());
            complete.filter_map(|checkpoint| checkpoint.file_name().to_str()?.parse().ok()).max().unwrap_or(0)
        };
        (0..self.regions).map(newest).collect()
    }

    /// This program opens the directory, goes on, and opens it again.
    async fn is_opened(&self, packed: &[u8], of: &str) {
        let directory = Directory::new(&format!("older-{of}-{}", self.name));
        packed::unpack(packed, &directory.0);
        let server = self.start(&directory);
        let last = root(&server, self.regions - 1).await;
        has_what_was_there(&last, self.name).await;
        let client = root(&server, 0).await;
        has_what_was_there(&client, self.name).await;
        goes_on(&client, self.name).await;
        drop((client, last, server));
        // Records of both versions are in the log, and checkpoints of the older one.
        let server = self.start(&directory);
        let client = root(&server, 0).await;
        has_what_was_added(&client, self.name).await;
        if self.checkpoints > 0 {
            // Then a checkpoint of this version, and what is behind it.
            let before = self.newest_checkpoints(&directory);
            run(&client, "CREATE TABLE larger (id INT PRIMARY KEY, text TEXT)").await;
            run(&client, "INSERT INTO larger VALUES (1, repeat('y', 1200000))").await;
            let text = "SELECT length(text) FROM larger";
            assert_eq!(value(&client, text).await, "1200000", "{}", self.name);
            self.wait_for_checkpoints(&directory, |newest| *newest != *before).await;
            drop((client, server));
            let server = self.start(&directory);
            let client = root(&server, 0).await;
            assert_eq!(value(&client, text).await, "1200000", "{}", self.name);
            has_what_was_added(&client, self.name).await;
        }
    }
}

/// A session of the user whom everything belongs to.
async fn root(server: &Server, region: usize) -> Client {
    server.session_of(region, "root").await.expect("it accepts")
}

async fn finds(client: &Client, name: &str, sql: &str, expected: &[&str]) {
    let found = rows(client, sql).await.unwrap_or_else(|error| panic!("{name}: {sql}: {error:?}"));
    assert_eq!(found, expected, "{name}: {sql}");
}

/// Rows and definitions of every kind, and what they do.
async fn has_what_was_there(client: &Client, name: &str) {
    let all: [(&str, &[&str]); 14] = [
        (
            "SELECT id, name, feels, done, born, tags, facts, name_length FROM people ORDER BY id",
            &[
                r#"1|Ada|happy|100|1815-12-10|{one,two}|{"knows": ["Charles"]}|3"#,
                "3|Grace H.|ok|0|1906-12-09|{}|{}|8",
            ],
        ),
        (
            "SELECT id, writer, pages, sent = '1843-07-01 10:00:00+00', read FROM letters ORDER BY id",
            &["1|1|2.50|t|t"],
        ),
        ("SELECT * FROM happy_people", &["1|Ada"]),
        ("SELECT doubled(21), described(3)", &["42|Grace H. is ok"]),
        ("SELECT * FROM measured ORDER BY at", &["2024-03-01|1", "2024-04-01|3", "2025-03-01|2"]),
        ("SELECT value FROM measured_2024 ORDER BY at", &["1", "3"]),
        ("SELECT * FROM more.boxes ORDER BY id", &["1|large|1", "2|large|3", "3|NULL|NULL"]),
        ("SELECT * FROM visits ORDER BY place", &["garden|2|1", "home|1|1"]),
        ("SELECT * FROM written", &["UPDATE|1"]),
        ("SELECT * FROM pages_by_writer ORDER BY writer", &["1|2.50", "2|11.00"]),
        ("SELECT obj_description('people'::regclass)", &["Who there is"]),
        ("SELECT setconfig FROM pg_db_role_setting", &["{statement_timeout=7s}"]),
        (
            "SELECT indexdef FROM pg_indexes WHERE indexname = 'people_lower'",
            &["CREATE INDEX people_lower ON public.people USING btree (lower(name)) WHERE (done > 5)"],
        ),
        (
            "SELECT has_table_privilege('reader', 'people', 'SELECT'), \
             has_table_privilege('reader', 'letters', 'SELECT')",
            &["t|f"],
        ),
    ];
    for (sql, expected) in all {
        finds(client, name, sql, expected).await;
    }
}

/// Constraints hold, and everything that was defined is used and changed.
async fn goes_on(client: &Client, name: &str) {
    let refused = [
        ("INSERT INTO people (id, name, done) VALUES (4, 'Bob', 101)", "23514"),
        ("INSERT INTO people (id, name, feels) VALUES (4, 'Bob', 'furious')", "22P02"),
        ("INSERT INTO people (id, name) VALUES (4, 'Ada')", "23505"),
        ("INSERT INTO letters (writer, pages) VALUES (2, 1)", "23503"),
        ("INSERT INTO letters (writer, pages) VALUES (1, 0)", "23514"),
        ("INSERT INTO visits VALUES ('moon', 1)", "23514"),
    ];
    for (sql, expected) in refused {
        assert_eq!(failure(client, sql).await.0, expected, "{name}: {sql}");
    }
    finds(client, name, "SELECT nextval('numbers') > 20", &["t"]).await;
    finds(client, name, "INSERT INTO letters (writer, pages) VALUES (1, 1) RETURNING id > 2", &["t"]).await;
    for sql in [
        "CALL renames(1, 'Ada L.')",
        "INSERT INTO more.boxes VALUES (4, 'small', 1)",
        "INSERT INTO measured VALUES ('2024-05-01', 5)",
        "REFRESH MATERIALIZED VIEW pages_by_writer",
        "ALTER TABLE people ADD COLUMN later INT DEFAULT 7",
        "ALTER TYPE mood ADD VALUE 'furious'",
        "CREATE TABLE visits_away PARTITION OF visits FOR VALUES IN ('moon')",
        "INSERT INTO visits VALUES ('moon', 1)",
        "CREATE OR REPLACE FUNCTION doubled(n INT) RETURNS INT LANGUAGE sql IMMUTABLE AS 'SELECT n + n + 0'",
        "CREATE VIEW counted AS SELECT count(*) AS n FROM visits",
    ] {
        run(client, sql).await;
    }
    run(client, "INSERT INTO people (id, name, feels) VALUES (4, 'Bob', 'furious')").await;
    has_what_was_added(client, name).await;
}

/// What [`goes_on`] has written.
async fn has_what_was_added(client: &Client, name: &str) {
    let all: [(&str, &[&str]); 7] = [
        (
            "SELECT id, name, feels, later FROM people ORDER BY id",
            &["1|Ada L.|happy|7", "3|Grace H.|ok|7", "4|Bob|furious|7"],
        ),
        ("SELECT * FROM happy_people", &["1|Ada L."]),
        ("SELECT * FROM written ORDER BY id", &["UPDATE|1", "INSERT|4"]),
        ("SELECT * FROM pages_by_writer", &["1|3.50"]),
        ("SELECT value FROM measured_2024 ORDER BY at", &["1", "3", "5"]),
        ("SELECT * FROM counted", &["3"]),
        ("SELECT doubled(id) FROM more.boxes ORDER BY id", &["2", "4", "6", "8"]),
    ];
    for (sql, expected) in all {
        finds(client, name, sql, expected).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_of_an_older_version_is_opened_and_goes_on() {
    for version in base::codec::OLDEST..base::codec::VERSION {
        for kind in KINDS {
            let path = stored().join(format!("{version}/{}.packed", kind.name));
            let packed = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            kind.is_opened(&packed, &version.to_string()).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_of_this_version_is_opened_and_goes_on() {
    let version = base::codec::VERSION;
    for kind in KINDS {
        let packed = kind.make(&Directory::new(&format!("made-{}", kind.name))).await;
        kind.is_opened(&packed, "own").await;
        if std::env::var_os("MERIDIAN_KEEP_DIRECTORIES").is_some() {
            let folder = stored().join(version.to_string());
            std::fs::create_dir_all(&folder).expect("room");
            std::fs::write(folder.join(format!("{}.packed", kind.name)), packed).expect("room");
        }
    }
}

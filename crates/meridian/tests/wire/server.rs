//! A running database of three regions, and connections to them.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tokio_postgres::{Client, Error, NoTls, SimpleQueryMessage};

/// `meridian start` on free ports; dropping it ends the process.
pub struct Server {
    process: Child,
    pub ports: Vec<u16>,
}

impl Server {
    /// Three regions with in-process delays only.
    pub fn start() -> Server {
        Server::start_with(&[], 3)
    }

    /// Three regions of each engine that databases are run with, one database after the other: what holds with the
    /// default has to hold with the other one as well.
    pub fn with_each_engine(arguments: &[&str]) -> impl Iterator<Item = Server> {
        ["caerus", "perseus"].into_iter().map(move |engine| {
            let all: Vec<&str> = arguments.iter().copied().chain(["--engine", engine]).collect();
            Server::start_with(&all, 3)
        })
    }

    /// The same with `geogauss`, too.
    pub fn with_all_engines() -> impl Iterator<Item = Server> {
        let engines = ["caerus", "perseus", "geogauss"];
        engines.into_iter().map(|engine| Server::start_with(&["--engine", engine], 3))
    }

    /// With more arguments, which make this many regions.
    pub fn start_with(arguments: &[&str], regions: usize) -> Server {
        Server::start_on("local", arguments, regions)
    }

    /// The same with the delays of a WAN between the regions.
    pub fn start_on(wan: &str, arguments: &[&str], regions: usize) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_meridian"));
        command.args(["start", "--port", "0", "--wan", wan]).args(arguments);
        Server::launch(command, regions)
    }

    /// Of a command that runs `meridian start`, perhaps after something else.
    pub fn launch(mut command: Command, regions: usize) -> Server {
        let spawned = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn();
        let mut process = spawned.expect("the command starts");
        let mut lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        let mut ports = Vec::new();
        while ports.len() < regions {
            let line = lines.next().expect("it prints its regions").expect("text");
            let mut words = line.split_whitespace().skip_while(|w| *w != "-p");
            if let (Some("-p"), Some(port)) = (words.next(), words.next()) {
                ports.push(port.parse().expect("a port"));
            }
        }
        Server { process, ports }
    }

    /// A session in the n-th region.
    pub async fn session(&self, region: usize) -> Client {
        let config = format!("host=127.0.0.1 port={} user=tester dbname=meridian", self.ports[region]);
        let (client, connection) = tokio_postgres::connect(&config, NoTls).await.expect("it accepts");
        tokio::spawn(connection);
        client
    }

    /// A session of another user in the n-th region. Errors: the user is refused.
    pub async fn session_of(&self, region: usize, user: &str) -> Result<Client, Error> {
        self.session_in(region, user, "meridian").await
    }

    /// The same in a database. Errors: it is not there, too.
    pub async fn session_in(&self, region: usize, user: &str, database: &str) -> Result<Client, Error> {
        let port = self.ports[region];
        let config = format!("host=127.0.0.1 port={port} user={user} dbname='{database}'");
        let (client, connection) = tokio_postgres::connect(&config, NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    pub fn process_id(&self) -> u32 {
        self.process.id()
    }
    /// Where the n-th region listens.
    pub fn url(&self, region: usize) -> String {
        format!("postgres://tester@127.0.0.1:{}/meridian", self.ports[region])
    }

    /// Asks the process to read its rules and certificates again.
    pub fn hang_up(&self) {
        let process = self.process.id().to_string();
        let sent = Command::new("kill").args(["-HUP", &process]).status().expect("kill is there");
        assert!(sent.success());
    }

    /// A line of the process's status, in MiB: `VmRSS:` is what it has, `VmHWM:` the most that it had.
    pub fn status_mib(&self, line: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("it runs");
        let found = status.lines().find_map(|l| l.strip_prefix(line)).expect("a line of the status");
        found.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).expect("KiB") >> 10
    }

    /// Whether the process still runs.
    pub fn is_alive(&mut self) -> bool {
        self.process.try_wait().expect("it is our child").is_none()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

/// The SQLSTATE of an error; empty if it is not the server's.
pub fn state(error: &Error) -> &str {
    error.code().map_or("", |c| c.code())
}

/// Runs a text; rows come as `a|b`.
pub async fn rows(client: &Client, sql: &str) -> Result<Vec<String>, Error> {
    let messages = client.simple_query(sql).await?;
    Ok(messages
        .iter()
        .filter_map(|m| match m {
            SimpleQueryMessage::Row(row) => {
                let shown: Vec<&str> = (0..row.len()).map(|i| row.get(i).unwrap_or("NULL")).collect();
                Some(shown.join("|"))
            }
            _ => None,
        })
        .collect())
}

/// The single value of a query.
pub async fn value(client: &Client, sql: &str) -> String {
    rows(client, sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}")).remove(0)
}

/// Runs a text that has to succeed.
pub async fn run(client: &Client, sql: &str) {
    client.batch_execute(sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
}

/// Runs a text until it succeeds: a region may not know yet what another has changed of the catalog.
pub async fn until_done(client: &Client, sql: &str) {
    for _ in 0..500 {
        if client.batch_execute(sql).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    run(client, sql).await;
}

/// Runs a text that has to fail, and answers its SQLSTATE and message.
pub async fn failure(client: &Client, sql: &str) -> (String, String) {
    let error = client.simple_query(sql).await.expect_err(sql);
    let told = error.as_db_error().unwrap_or_else(|| panic!("{sql}: {error:?}"));
    (told.code().code().into(), told.message().into())
}

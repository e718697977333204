//! Reaching a server, and finding out what it is.

use crate::args::Isolation;
use crate::traffic::{Counted, Traffic};
use anyhow::{Context, anyhow, bail};
use std::str::FromStr;
use std::sync::Arc;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls};

/// What kind of server answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flavour {
    Meridian,
    PostgreSql,
    /// Something else that speaks the protocol.
    Other,
}

/// A server that was reached once.
#[derive(Clone, Debug)]
pub struct Server {
    config: Config,
    isolation: Option<Isolation>,
    traffic: Arc<Traffic>,
    /// The URL without its password.
    pub url: String,
    /// What `select version()` says.
    pub version: String,
    pub flavour: Flavour,
    /// What `show transaction_isolation` says on a connection of ours.
    pub transaction_isolation: String,
    /// Settings that a reader of figures wants to know, as the server shows them.
    pub settings: Vec<(String, String)>,
}

/// What is asked of each kind of server.
const SETTINGS_POSTGRESQL: [&str; 5] =
    ["fsync", "synchronous_commit", "shared_buffers", "work_mem", "max_parallel_workers_per_gather"];
const SETTINGS_MERIDIAN: [&str; 2] = ["meridian.engine", "meridian.consistency"];

impl Server {
    /// Connects once and asks who is there.
    pub async fn reach(url: &str, isolation: Option<Isolation>) -> anyhow::Result<Server> {
        if !url.contains("://") && !url.contains('=') {
            bail!("'{url}' is not a server's URL: write postgres://user@host:port/database");
        }
        let config = Config::from_str(url).map_err(|error| {
            anyhow!("'{url}' is not a server's URL ({error}): write postgres://user@host:port/database")
        })?;
        let mut server = Server {
            url: without_password(url),
            config,
            isolation,
            traffic: Arc::default(),
            version: String::new(),
            flavour: Flavour::Other,
            transaction_isolation: String::new(),
            settings: Vec::new(),
        };
        let client = server.connect().await?;
        let ask = |sql: String| {
            let client = &client;
            async move {
                let row = client.query_one(&sql, &[]).await.map_err(explain)?;
                row.try_get::<_, String>(0).with_context(|| format!("read the answer to {sql}"))
            }
        };
        server.version = ask("select version()".into()).await.context("ask the server for its version")?;
        server.transaction_isolation =
            ask("show transaction_isolation".into()).await.unwrap_or_else(|_| "unknown".into());
        server.flavour = match &server.version {
            version if version.to_ascii_lowercase().contains("meridian") => Flavour::Meridian,
            version if version.starts_with("PostgreSQL") => Flavour::PostgreSql,
            _ => Flavour::Other,
        };
        let settings: &[&str] = match server.flavour {
            Flavour::Meridian => &SETTINGS_MERIDIAN,
            Flavour::PostgreSql => &SETTINGS_POSTGRESQL,
            Flavour::Other => &[],
        };
        for setting in settings {
            // A setting that this version does not have is left out.
            if let Ok(value) = ask(format!("show {setting}")).await {
                server.settings.push((setting.to_string(), value));
            }
        }
        Ok(server)
    }

    /// A new connection, with the isolation level that was asked for.
    pub async fn connect(&self) -> anyhow::Result<Client> {
        let stream = Counted::open(&self.config, &self.traffic).await.map_err(|e| self.unreachable(&e))?;
        let connected = self.config.connect_raw(stream, NoTls).await;
        let (client, connection) = connected.map_err(|error| match error.as_db_error() {
            Some(_) => explain(error).context(format!("the server at {} refused the connection", self.url)),
            None => self.unreachable(&error),
        })?;
        #[expect(
            clippy::disallowed_methods,
            reason = "the connection ends when its client is dropped; its error reaches whoever waits for an answer"
        )]
        tokio::spawn(async move { drop(connection.await) });
        if let Some(isolation) = self.isolation {
            let sql =
                format!("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL {}", isolation.sql());
            client.batch_execute(&sql).await.map_err(explain).context("set the isolation level")?;
        }
        Ok(client)
    }

    /// What went over its connections, those of all clones together.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Where the server is, for suggestions and reports: short, without the password.
    pub fn short_name(&self) -> String {
        let kind = match self.flavour {
            Flavour::Meridian => "Meridian",
            Flavour::PostgreSql => "PostgreSQL",
            Flavour::Other => "server",
        };
        // "PostgreSQL 15.18 (Debian …)" → "PostgreSQL 15.18".
        let number =
            self.version.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
        let version = if self.flavour == Flavour::PostgreSql { number } else { None };
        let mut name = kind.to_string();
        if let Some(version) = version {
            name += &format!(" {version}");
        }
        if let Some(port) = self.config.get_ports().first() {
            name += &format!(" :{port}");
        }
        if let Some(database) = self.config.get_dbname() {
            name += &format!("/{database}");
        }
        name
    }

    fn unreachable(&self, error: &dyn std::error::Error) -> anyhow::Error {
        let hint =
            "Is it running, and are host and port right? `meridian demo` starts one and prints its URL.";
        anyhow!("cannot reach {}: {}\n{hint}", self.url, chain(error))
    }
}

/// An error of the server as it would be printed by psql, or of the connection.
pub fn explain(error: tokio_postgres::Error) -> anyhow::Error {
    let Some(db) = error.as_db_error() else { return anyhow!("{}", chain(&error)) };
    let mut text = format!("{}: {} (SQLSTATE {})", db.severity(), db.message(), db.code().code());
    for (word, part) in [("DETAIL", db.detail()), ("HINT", db.hint())] {
        if let Some(part) = part {
            text += &format!("\n{word}: {part}");
        }
    }
    anyhow!(text)
}

/// True if the server says that a table, column, function or schema is not there.
pub fn is_missing_schema(error: &tokio_postgres::Error) -> bool {
    [
        &SqlState::UNDEFINED_TABLE,
        &SqlState::UNDEFINED_COLUMN,
        &SqlState::UNDEFINED_FUNCTION,
        &SqlState::INVALID_SCHEMA_NAME,
    ]
    .iter()
    .any(|state| error.code() == Some(*state))
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let more = cause.to_string();
        if !text.contains(&more) {
            text += &format!(": {more}");
        }
        source = cause.source();
    }
    text
}

fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        let words = url.split_whitespace().filter(|word| !word.starts_with("password="));
        return words.collect::<Vec<_>>().join(" ");
    };
    match rest.split_once('@') {
        Some((user, place)) => format!("{scheme}://{}@{place}", user.split(':').next().unwrap_or("")),
        None => url.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_repeated() {
        assert_eq!(without_password("postgres://me:secret@h:1/db"), "postgres://me@h:1/db");
        assert_eq!(without_password("postgres://h:1/db"), "postgres://h:1/db");
        assert_eq!(without_password("host=h password=secret user=me"), "host=h user=me");
    }

    #[tokio::test]
    async fn what_is_no_url_or_nobody_answers_is_said_with_advice() {
        let wrong = Server::reach("localhost", None).await.unwrap_err();
        assert!(wrong.to_string().contains("postgres://user@host:port/database"), "{wrong}");
        let nobody = Server::reach("postgres://me:secret@127.0.0.1:1/db", None).await.unwrap_err();
        let text = nobody.to_string();
        assert!(
            text.contains("cannot reach postgres://me@127.0.0.1:1/db") && text.contains("demo"),
            "{text}"
        );
        assert!(!text.contains("secret"));
    }
}

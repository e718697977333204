//! LISTEN and NOTIFY between sessions of several regions.

use crate::server::{Server, failure, rows, run};
use futures::{StreamExt, stream};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_postgres::{AsyncMessage, Client, NoTls};

/// A session, and what others tell it.
pub struct Hearer {
    pub client: Client,
    heard: UnboundedReceiver<(i32, String, String)>,
}

impl Hearer {
    pub async fn new(server: &Server, region: usize) -> Hearer {
        let (client, mut connection) =
            tokio_postgres::connect(&server.url(region), NoTls).await.expect("it accepts");
        let (tell, heard) = unbounded_channel();
        tokio::spawn(async move {
            let mut messages = stream::poll_fn(move |cx| connection.poll_message(cx));
            while let Some(Ok(message)) = messages.next().await {
                if let AsyncMessage::Notification(told) = message {
                    _ = tell.send((told.process_id(), told.channel().into(), told.payload().into()));
                }
            }
        });
        Hearer { client, heard }
    }

    /// The next messages as `channel payload`.
    pub async fn hears(&mut self, count: usize) -> Vec<String> {
        let mut all = Vec::new();
        while all.len() < count {
            let next = tokio::time::timeout(Duration::from_secs(30), self.heard.recv()).await;
            let (_, channel, payload) = next.expect("it is told in time").expect("it is connected");
            all.push(format!("{channel} {payload}"));
        }
        all
    }

    /// Nothing more has come, once an own message has made the way.
    pub async fn hears_no_more(&mut self) {
        run(&self.client, "listen marks; notify marks, 'end'").await;
        assert_eq!(self.hears(1).await, ["marks end"]);
        run(&self.client, "unlisten marks").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_all_regions_hear_what_was_committed_in_its_order_and_once() {
    let server = Server::start();
    let mut here = Hearer::new(&server, 0).await;
    let mut there = Hearer::new(&server, 2).await;
    let said = server.session(1).await;
    run(&here.client, "listen news").await;
    run(&there.client, "listen News; listen \"Other\"").await;

    run(&said, "notify news").await;
    run(&said, "select pg_notify('news', 'a' || 1), pg_notify('Other', null)").await;
    assert_eq!(here.hears(2).await, ["news ", "news a1"]);
    assert_eq!(there.hears(3).await, ["news ", "news a1", "Other "]);

    // In a block: at its end, and each once.
    run(&said, "begin; notify news, 'x'; notify news, 'y'; notify news, 'x'").await;
    run(&said, "savepoint s; notify news, 'undone'; rollback to s; select pg_notify('news', 'z')").await;
    here.hears_no_more().await;
    run(&said, "commit").await;
    assert_eq!(here.hears(3).await, ["news x", "news y", "news z"]);
    assert_eq!(there.hears(3).await, ["news x", "news y", "news z"]);
    run(&said, "begin; notify news, 'undone'; rollback").await;
    assert_eq!(failure(&said, "begin; notify news, 'undone'; select 1/0").await.0, "22012");
    run(&said, "rollback").await;
    here.hears_no_more().await;

    // Who is in a block hears at its end; what is said of oneself comes, too.
    run(&here.client, "begin; notify news, 'own'").await;
    run(&said, "notify news, 'while'").await;
    run(&here.client, "commit").await;
    assert_eq!(here.hears(2).await, ["news while", "news own"]);

    run(&here.client, "unlisten news").await;
    run(&there.client, "begin; unlisten *; rollback").await;
    run(&said, "notify news, 'last'").await;
    assert_eq!(there.hears(3).await, ["news while", "news own", "news last"]);
    here.hears_no_more().await;
    run(&there.client, "discard all").await;
    run(&said, "notify news, 'unheard'").await;
    there.hears_no_more().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sender_is_named_and_wrong_names_are_refused() {
    let server = Server::start_with(&["--regions", "us"], 1);
    let mut hearer = Hearer::new(&server, 0).await;
    let client = server.session(0).await;
    run(&hearer.client, "listen c").await;
    let process = rows(&client, "select pg_backend_pid()").await.unwrap().remove(0);
    run(&client, "notify c, 'it''s'").await;
    let heard = hearer.heard.recv().await.unwrap();
    assert_eq!(heard, (process.parse().unwrap(), "c".into(), "it's".into()));
    let refused = |told: &str| ("22023".to_string(), told.to_string());
    assert_eq!(failure(&client, "select pg_notify('', 'x')").await, refused("channel name cannot be empty"));
    assert_eq!(
        failure(&client, "select pg_notify(null, 'x')").await,
        refused("channel name cannot be empty")
    );
    let long = format!("select pg_notify('{}', 'x')", "c".repeat(64));
    assert_eq!(failure(&client, &long).await, refused("channel name too long"));
    let long = format!("notify c, '{}'", "x".repeat(8000));
    assert_eq!(failure(&client, &long).await, refused("payload string too long"));
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_hears_what_a_statement_says_that_fails() {
    let server = Server::start();
    let mut hearer = Hearer::new(&server, 1).await;
    let client = server.session(0).await;
    run(&hearer.client, "listen c").await;
    run(&client, "create table t (id int primary key); insert into t values (1), (2), (3)").await;
    let body = "begin perform pg_notify('c', 'said ' || x); return 1 / (x - 2); end";
    run(&client, &format!("create function says(x int) returns int language plpgsql as $${body}$$")).await;
    let later_row = "select pg_notify(case id when 3 then '' else 'c' end, 'row ' || id) from t order by id";
    for (sql, state) in [
        ("select pg_notify('c', 'row ' || 1 / (id - 2)) from t", "22012"),
        (later_row, "22023"),
        ("select pg_notify('c', 'first'), pg_notify('', 'second')", "22023"),
        ("select says(id) from t order by id", "22012"),
    ] {
        assert_eq!(failure(&client, sql).await.0, state, "{sql}");
        let alone = client.query(sql, &[]).await;
        assert!(alone.is_err(), "{sql}");
        hearer.hears_no_more().await;
    }
    run(&client, "set statement_timeout = '200ms'").await;
    let late = "select pg_notify('c', 'late'), pg_sleep(20)";
    assert_eq!(failure(&client, late).await.0, "57014");
    hearer.hears_no_more().await;
    run(&client, "reset statement_timeout").await;
    // In a block that goes back behind it.
    run(&client, "begin; select pg_notify('c', 'before'); savepoint s").await;
    assert_eq!(failure(&client, later_row).await.0, "22023");
    run(&client, "rollback to s; select pg_notify('c', 'undone'); rollback to s").await;
    run(&client, "select pg_notify('c', 'after'); commit").await;
    assert_eq!(hearer.hears(2).await, ["c before", "c after"]);
    // One that succeeds says all of it, each once.
    run(&client, "select pg_notify('c', 'row ' || id / 2) from t order by id").await;
    assert_eq!(hearer.hears(2).await, ["c row 0", "c row 1"]);
    hearer.hears_no_more().await;
}

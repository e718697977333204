//! Clients of the A side: streams of the 22 queries, and executions that tell their rows per operator.

use crate::plans;
use crate::profile::Profile;
use crate::terminals::Shared;
use crate::tracker::Tracker;
use anyhow::Context;
use bench::ch::{count_rows, freshness};
use bench::measure::Freshness;
use bench::server::{Server, explain};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio_postgres::{Client, SimpleQueryMessage};
use workload::vodka::cardinality::{Operator, Sizes};
use workload::vodka::queries::{moving, query};

/// One execution.
#[derive(Clone, Debug)]
pub struct QueryLine {
    pub number: usize,
    pub stream: u32,
    pub elapsed_ms: u64,
    pub latency_ms: f64,
    pub rows: u64,
    pub sizes: Sizes,
    pub visibility: Option<Freshness>,
    pub error: String,
}

/// What queries are asked, and with which parameters.
#[derive(Clone, Debug)]
pub struct Questions {
    pub numbers: Vec<usize>,
    /// The share that each moving query keeps.
    pub alphas: BTreeMap<usize, f64>,
    /// The negative control: parameters that stay.
    pub fixed: Option<BTreeMap<usize, i64>>,
}

impl Questions {
    /// The parameter for now.
    pub fn parameter(&self, number: usize, tracker: &Tracker) -> Option<i64> {
        let window = moving(number)?;
        if let Some(fixed) = &self.fixed {
            return fixed.get(&number).copied();
        }
        tracker.parameter(&window, self.alphas[&number])
    }
    /// Keeps today's parameters from now on.
    pub fn fix(&mut self, tracker: &Tracker) {
        self.fixed =
            Some(self.alphas.keys().filter_map(|n| Some((*n, self.parameter(*n, tracker)?))).collect());
    }
    fn text(&self, number: usize, tracker: &Tracker) -> String {
        query(number, self.parameter(number, tracker))
    }
}

/// A connection for queries.
///
/// # Errors
/// If the server refuses it or what the profile says.
pub async fn connect(server: &Server, profile: &Profile) -> anyhow::Result<Client> {
    let client = server.connect().await?;
    for sql in &profile.analyst_session {
        client
            .batch_execute(sql)
            .await
            .map_err(explain)
            .with_context(|| format!("prepare an analyst: {sql}"))?;
    }
    Ok(client)
}

/// The process that serves a connection.
///
/// # Errors
/// If the server does not tell.
pub async fn process(client: &Client) -> anyhow::Result<u32> {
    let row = client.query_one("select pg_backend_pid()", &[]).await.map_err(explain)?;
    let process: i32 = row.try_get(0).context("read the id of the process that serves a connection")?;
    process.try_into().context("read the id of the process that serves a connection")
}

/// Asks one query after the other until told to stop.
pub struct Stream {
    pub client: Client,
    pub number: u32,
    pub streams: u32,
    pub questions: Arc<Questions>,
    pub profile: Profile,
    pub began: Instant,
    pub lines: Arc<Mutex<Vec<QueryLine>>>,
    pub stop: Arc<AtomicBool>,
}

impl Stream {
    /// # Errors
    /// If the connection is lost; a query that fails otherwise is noted and the next one asked.
    pub async fn run(self, shared: Arc<Shared>) -> anyhow::Result<()> {
        let tracker = &shared.tracker;
        let mut numbers = self.questions.numbers.clone();
        // Streams begin at different queries, so that they do not all ask the same at once.
        let begin = self.number as usize * numbers.len() / self.streams.max(1) as usize;
        numbers.rotate_left(begin);
        for round in 1.. {
            let round_began = Instant::now();
            for &number in &numbers {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let line = self.ask(number, tracker).await?;
                self.lines.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(line);
            }
            println!(
                "stream {}: round {round} of {} queries in {:.1} s",
                self.number + 1,
                numbers.len(),
                round_began.elapsed().as_secs_f64()
            );
            // A round of nothing but errors would spin.
            if round_began.elapsed() < Duration::from_millis(10) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        Ok(())
    }

    async fn ask(&self, number: usize, tracker: &Tracker) -> anyhow::Result<QueryLine> {
        let (sql, sizes) = (self.questions.text(number, tracker), tracker.sizes());
        let begin = Instant::now();
        let mut line = QueryLine {
            number,
            stream: self.number,
            elapsed_ms: begin.duration_since(self.began).as_millis() as u64,
            latency_ms: 0.0,
            rows: 0,
            sizes,
            visibility: None,
            error: String::new(),
        };
        match count_rows(&self.client, &sql).await {
            Ok(rows) => line.rows = rows,
            Err(error) if error.as_db_error().is_none() => {
                return Err(explain(error).context(format!("an analyst lost its connection in Q{number}")));
            }
            Err(error) => line.error = format!("{:#}", explain(error)),
        }
        line.latency_ms = begin.elapsed().as_secs_f64() * 1000.0;
        if self.profile.tells_freshness && line.error.is_empty() {
            line.visibility = freshness(&self.client).await.unwrap_or(None);
        }
        Ok(line)
    }
}

/// Rows per operator of each query, and the tables' sizes when it began.
pub type Plans = BTreeMap<usize, Result<(Operator, Sizes), String>>;

/// Executes each query once and reads its plan.
///
/// # Errors
/// If the connection is lost.
pub async fn executed_plans(
    client: &Client,
    profile: &Profile,
    questions: &Questions,
    tracker: &Tracker,
) -> anyhow::Result<Plans> {
    let mut out = Plans::new();
    if profile.explain.is_empty() {
        return Ok(out);
    }
    for &number in &questions.numbers {
        out.insert(number, executed_plan(client, profile, questions, tracker, number).await?);
    }
    Ok(out)
}

async fn executed_plan(
    client: &Client,
    profile: &Profile,
    questions: &Questions,
    tracker: &Tracker,
    number: usize,
) -> anyhow::Result<Result<(Operator, Sizes), String>> {
    let sizes = tracker.sizes();
    let sql = format!("{} {}", profile.explain, questions.text(number, tracker));
    Ok(match client.simple_query(&sql).await {
        Ok(messages) => {
            let lines = messages.iter().filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => row.get(0),
                _ => None,
            });
            let text = lines.collect::<Vec<_>>().join("\n");
            plans::parse(&text).map(|plan| (plan, sizes)).map_err(|error| format!("{error:#}"))
        }
        Err(error) if error.as_db_error().is_none() => {
            return Err(explain(error).context(format!("the connection was lost in Q{number}")));
        }
        Err(error) => Err(format!("{:#}", explain(error))),
    })
}

/// Plans that were read while the run went on.
#[derive(Clone, Debug)]
pub struct PlansAt {
    /// Since the run's begin.
    pub at_s: f64,
    pub sizes: Sizes,
    pub plans: Plans,
}

/// Reads all plans at each of the instants, in order; ends early if told to stop.
///
/// # Errors
/// If the connection is lost.
pub async fn plans_during(
    client: Client,
    profile: Profile,
    questions: Arc<Questions>,
    shared: Arc<Shared>,
    instants: Vec<Duration>,
    out: Arc<Mutex<Vec<PlansAt>>>,
    stop: Arc<AtomicBool>,
) -> anyhow::Result<()> {
    let begin = Instant::now();
    for instant in instants {
        while begin.elapsed() < instant {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let left = instant.saturating_sub(begin.elapsed());
            tokio::time::sleep(left.min(Duration::from_millis(200))).await;
        }
        let (at_s, sizes) = (begin.elapsed().as_secs_f64(), shared.tracker.sizes());
        let mut plans = Plans::new();
        for &number in &questions.numbers {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let plan = executed_plan(&client, &profile, &questions, &shared.tracker, number).await?;
            plans.insert(number, plan);
        }
        let read = PlansAt { at_s, sizes, plans };
        out.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(read);
    }
    Ok(())
}

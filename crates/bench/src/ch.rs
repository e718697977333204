//! CH-benCHmark's 22 queries, by themselves or beside a TPC-C load.

use crate::args::ChArgs;
use crate::drive::{Pace, Side, Worker, run_sides};
use crate::load::prepare_tpcc;
use crate::measure::{Done, End, Freshness};
use crate::report::{self, Report};
use crate::server::{Flavour, Server, explain, is_missing_schema};
use crate::tpcc::{kinds, prepare_procedures, terminals, urls};
use anyhow::{Context, bail};
use futures::TryStreamExt;
use futures::future::BoxFuture;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio_postgres::Client;
use workload::ch::{Scope, query};
use workload::tpcc::Mix;

/// A stream of queries; its list ends with each round and begins anew in the next turn.
struct Analyst {
    client: Client,
    /// Position among the kinds, and text.
    queries: Vec<(usize, String)>,
    next: usize,
    tells_freshness: bool,
    /// Rounds that this server's analysts have finished.
    finished: Arc<AtomicU32>,
}

impl Analyst {
    async fn ask(&mut self) -> anyhow::Result<Done> {
        let (kind, sql) = &self.queries[self.next];
        self.next += 1;
        let done = Done { kind: *kind, ..Done::default() };
        let begin = Instant::now();
        match count_rows(&self.client, sql).await {
            Ok(rows) => {
                let took = Some(begin.elapsed());
                let freshness = if self.tells_freshness { freshness(&self.client).await? } else { None };
                Ok(Done { rows, took, freshness, ..done })
            }
            Err(error) if error.as_db_error().is_none() || is_missing_schema(&error) => {
                Err(explain(error).context(format!("ask {sql}")))
            }
            Err(error) => {
                let state = error.code().map_or("?", |state| state.code()).to_string();
                Ok(Done { end: End::Failed { state, message: format!("{:#}", explain(error)) }, ..done })
            }
        }
    }
}

impl Worker for Analyst {
    fn next(&mut self) -> BoxFuture<'_, anyhow::Result<Option<Done>>> {
        Box::pin(async {
            if self.next == self.queries.len() {
                self.next = 0;
                return Ok(None);
            }
            let done = self.ask().await?;
            if self.next == self.queries.len() {
                self.finished.fetch_add(1, Ordering::Relaxed);
            }
            Ok(Some(done))
        })
    }
}

/// A TPC-C client that goes on as long as analysts do.
struct Beside {
    terminal: Box<dyn Worker>,
    /// Rounds of all analysts at the end of this turn, and how many more a turn brings.
    until: u32,
    analysts: u32,
    finished: Arc<AtomicU32>,
}

impl Worker for Beside {
    fn next(&mut self) -> BoxFuture<'_, anyhow::Result<Option<Done>>> {
        if self.finished.load(Ordering::Relaxed) >= self.until {
            self.until += self.analysts;
            return Box::pin(async { Ok(None) });
        }
        self.terminal.next()
    }
}

/// What Meridian says of the session's last query (`staleness=…ms coordination=…ms wait=…ms`); `None` if the
/// session has not run one.
pub async fn freshness(client: &Client) -> anyhow::Result<Option<Freshness>> {
    let row = client.query_one("SHOW meridian.freshness", &[]).await.map_err(explain);
    let text: String = row.context("ask for the query's freshness")?.try_get(0)?;
    let part = |name: &str| {
        let word = text.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))?;
        word.trim_end_matches("ms").parse::<f64>().ok()
    };
    Ok((|| {
        Some(Freshness {
            staleness_ms: part("staleness")?,
            coordination_ms: part("coordination")?,
            wait_ms: part("wait")?,
        })
    })())
}

/// Runs a query and reads all of its answer.
pub async fn count_rows(client: &Client, sql: &str) -> Result<u64, tokio_postgres::Error> {
    let no_arguments: [i32; 0] = [];
    let mut rows = pin!(client.query_raw(sql, no_arguments).await?);
    let mut count = 0;
    while rows.try_next().await?.is_some() {
        count += 1;
    }
    Ok(count)
}

/// `bench ch`.
pub async fn run(args: ChArgs) -> anyhow::Result<()> {
    let common = &args.common;
    let numbers = &args.queries.0;
    let mut names: Vec<String> = numbers.iter().map(|n| format!("Q{n}")).collect();
    if args.terminals > 0 {
        names.extend(kinds());
    }
    let mut sides = Vec::new();
    let mut warehouses = 0;
    for url in urls(common) {
        let server = Server::reach(url, common.isolation).await?;
        println!("{}: {}", server.url, server.version);
        let tpcc = prepare_tpcc(&server, common, &args.sizes).await?;
        warehouses = tpcc.warehouses;
        if let Some(w) = args.scope.iter().find(|&&w| w < 1 || w > warehouses) {
            bail!("--scope: there is no warehouse {w}, only 1 to {warehouses}");
        }
        let scope = if args.scope.is_empty() { Scope::All } else { Scope::Warehouses(&args.scope) };
        let finished = Arc::new(AtomicU32::new(0));
        let mut workers: Vec<Box<dyn Worker>> = Vec::new();
        for n in 0..args.analysts {
            let mut queries: Vec<(usize, String)> =
                numbers.iter().map(|&q| query(q, scope)).enumerate().collect();
            // Analysts begin at different queries, so that they do not all ask the same at once.
            let begin = n as usize * numbers.len() / args.analysts as usize;
            queries.rotate_left(begin);
            let client = server.connect().await?;
            workers.push(Box::new(Analyst {
                client,
                queries,
                next: 0,
                tells_freshness: server.flavour == Flavour::Meridian,
                finished: finished.clone(),
            }));
        }
        if args.terminals > 0 {
            prepare_procedures(&server, args.mode).await?;
            let mix = Mix::default();
            let beside =
                terminals(&server, &tpcc, &mix, args.mode, args.terminals, common, numbers.len()).await?;
            for terminal in beside {
                let (until, finished) = (args.analysts, finished.clone());
                workers.push(Box::new(Beside { terminal, until, analysts: args.analysts, finished }));
            }
        }
        sides.push(Side::new(server, workers, &names));
    }
    if common.rate.is_some() {
        bail!("--rate does not go with ch: choose fewer --terminals instead");
    }
    // A turn ends with its round, not with the clock.
    let duration = Duration::from_secs(24 * 3600) * args.rounds;
    let pace = Pace { duration, warmup: Duration::ZERO, slices: args.rounds, rate: None };
    run_sides(&mut sides, pace).await?;
    let reads = if args.scope.is_empty() { "all".into() } else { format!("{:?}", args.scope) };
    let title = format!(
        "CH-benCHmark, {warehouses} warehouses (queries read {reads}), {} analysts, {} rounds, {} terminals",
        args.analysts, args.rounds, args.terminals
    );
    report::finish(&Report::of("ch", title, common, &sides), common)
}

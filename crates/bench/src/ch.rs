//! CH-benCHmark's 22 queries, by themselves or beside a TPC-C load.

use crate::args::ChArgs;
use crate::drive::{Pace, Side, Worker, run_sides};
use crate::load::prepare_tpcc;
use crate::measure::{Done, End};
use crate::report::{self, Report};
use crate::server::{Server, explain, is_missing_schema};
use crate::tpcc::{kinds, prepare_procedures, terminals, urls};
use anyhow::{anyhow, bail};
use futures::TryStreamExt;
use futures::future::BoxFuture;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio_postgres::Client;
use workload::ch::{Scope, query};
use workload::tpcc::Mix;

/// A stream of queries.
struct Analyst {
    client: Client,
    /// Position among the kinds, and text.
    queries: Vec<(usize, String)>,
    next: usize,
    rounds_left: u32,
    /// Analysts of this server that have not finished.
    busy: Arc<AtomicU32>,
}

impl Worker for Analyst {
    fn next(&mut self) -> BoxFuture<'_, anyhow::Result<Option<Done>>> {
        Box::pin(async {
            if self.rounds_left == 0 {
                return Ok(None);
            }
            let (kind, sql) = &self.queries[self.next];
            let done = match count_rows(&self.client, sql).await {
                Ok(rows) => Done { kind: *kind, rows, ..Done::default() },
                Err(error) if error.as_db_error().is_none() || is_missing_schema(&error) => {
                    return Err(explain(error).context("a query"));
                }
                Err(error) => {
                    let state = error.code().map_or("?", |state| state.code()).to_string();
                    let end = End::Failed { state, message: format!("{:#}", explain(error)) };
                    Done { kind: *kind, end, ..Done::default() }
                }
            };
            self.next += 1;
            if self.next == self.queries.len() {
                self.next = 0;
                self.rounds_left -= 1;
                if self.rounds_left == 0 {
                    self.busy.fetch_sub(1, Ordering::Relaxed);
                }
            }
            Ok(Some(done))
        })
    }
}

/// A TPC-C client that goes on as long as analysts do.
struct Beside {
    terminal: Box<dyn Worker>,
    busy: Arc<AtomicU32>,
}

impl Worker for Beside {
    fn next(&mut self) -> BoxFuture<'_, anyhow::Result<Option<Done>>> {
        if self.busy.load(Ordering::Relaxed) == 0 {
            return Box::pin(async { Ok(None) });
        }
        self.terminal.next()
    }
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
        let busy = Arc::new(AtomicU32::new(args.analysts));
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
                rounds_left: args.rounds,
                busy: busy.clone(),
            }));
        }
        if args.terminals > 0 {
            prepare_procedures(&server, args.mode).await?;
            let mix = Mix::default();
            let beside =
                terminals(&server, &tpcc, &mix, args.mode, args.terminals, common, numbers.len()).await?;
            for terminal in beside {
                workers.push(Box::new(Beside { terminal, busy: busy.clone() }));
            }
        }
        sides.push(Side::new(server, workers, &names));
    }
    // Rounds end a run. Each server does all of its rounds in one turn, then comes the next.
    let week = Duration::from_secs(7 * 24 * 3600);
    let rate = if args.terminals > 0 && common.rate.is_some() {
        return Err(anyhow!("--rate does not go with ch: choose fewer --terminals instead"));
    } else {
        None
    };
    let pace = Pace { duration: week, warmup: Duration::ZERO, slices: 1, rate };
    run_sides(&mut sides, pace).await?;
    let reads = if args.scope.is_empty() { "all".into() } else { format!("{:?}", args.scope) };
    let title = format!(
        "CH-benCHmark, {warehouses} warehouses (queries read {reads}), {} analysts, {} rounds, {} terminals",
        args.analysts, args.rounds, args.terminals
    );
    report::finish(&Report::of("ch", title, common, &sides), common)
}

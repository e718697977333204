//! TPC-C against a server: load, run, check.

pub mod interactive;
pub mod procedures;

use crate::args::{Common, Mode, TpccArgs};
use crate::drive::{Pace, Side, Worker, run_sides};
use crate::load::{now_us, prepare_tpcc};
use crate::measure::Done;
use crate::report::{self, CheckResult, Report};
use crate::server::{Flavour, Server, explain};
use crate::statements::{Attempts, Connection};
use anyhow::{Context, bail};
use futures::future::BoxFuture;
use tokio_postgres::Client;
use workload::tpcc::check::CONDITIONS;
use workload::tpcc::{Inputs, Kind, Mix, PLPGSQL, Tpcc};

/// One terminal: a connection and the transactions that its operator asks for.
pub struct Terminal {
    connection: Connection,
    inputs: Inputs,
    mode: Mode,
    retries: u32,
    /// Kinds of work are numbered from here (CH counts its queries first).
    first_kind: usize,
}

impl Terminal {
    pub fn new(client: Client, inputs: Inputs, mode: Mode, retries: u32, first_kind: usize) -> Terminal {
        Terminal { connection: Connection::new(client), inputs, mode, retries, first_kind }
    }
    /// Runs one transaction to its end.
    ///
    /// # Errors
    /// See [`Attempts::judge`].
    pub async fn run_one(&mut self) -> anyhow::Result<Done> {
        let input = self.inputs.next_input();
        let mut attempts = Attempts::new(self.first_kind + input.kind() as usize, self.retries);
        loop {
            let result = match self.mode {
                Mode::Interactive => interactive::run(&mut self.connection, &input).await,
                Mode::Procedures => procedures::run(&mut self.connection, &input).await,
            };
            if let Some(done) = attempts.judge(result)? {
                return Ok(done);
            }
        }
    }
}

impl Worker for Terminal {
    fn next(&mut self) -> BoxFuture<'_, anyhow::Result<Option<Done>>> {
        Box::pin(async { self.run_one().await.map(Some) })
    }
}

/// Names of the five transactions.
pub fn kinds() -> Vec<String> {
    Kind::ALL.iter().map(|kind| kind.name().to_string()).collect()
}

/// Terminals with a connection each, spread over the warehouses.
pub async fn terminals(
    server: &Server,
    tpcc: &Tpcc,
    mix: &Mix,
    mode: Mode,
    count: u32,
    common: &Common,
    first_kind: usize,
) -> anyhow::Result<Vec<Box<dyn Worker>>> {
    let history_base = now_us();
    let mut workers: Vec<Box<dyn Worker>> = Vec::new();
    for n in 0..count {
        let client = server.connect().await?;
        let inputs = Inputs::new(tpcc, mix.clone(), n, count, history_base);
        workers.push(Box::new(Terminal::new(client, inputs, mode, common.retries, first_kind)));
    }
    Ok(workers)
}

/// Makes the PL/pgSQL procedures where the server has none of its own.
pub async fn prepare_procedures(server: &Server, mode: Mode) -> anyhow::Result<()> {
    if mode == Mode::Procedures && server.flavour != Flavour::Meridian {
        let client = server.connect().await?;
        client.batch_execute(PLPGSQL).await.map_err(explain).context("create the PL/pgSQL procedures")?;
    }
    Ok(())
}

/// Runs the consistency conditions; each with the number of rows that break it.
pub async fn check(server: &Server) -> anyhow::Result<Vec<CheckResult>> {
    let client = server.connect().await?;
    let mut results = Vec::new();
    for condition in CONDITIONS {
        let rows = client.query(condition.violations, &[]).await;
        results.push(CheckResult {
            name: format!("TPC-C condition {}: {}", condition.number, condition.says),
            violations: rows.as_ref().map(|rows| rows.len() as u64).ok(),
            error: rows.err().map(|error| format!("{:#}", explain(error))),
        });
    }
    Ok(results)
}

/// `bench tpcc`.
pub async fn run(args: TpccArgs) -> anyhow::Result<()> {
    let Ok(weights) = <[u32; 5]>::try_from(args.mix.clone()) else {
        bail!("--mix needs five weights such as 45,43,4,4,4");
    };
    if weights.iter().sum::<u32>() == 0 {
        bail!("--mix gives no transaction any weight");
    }
    let mix = Mix {
        weights,
        remote_line: args.remote_lines / 100.0,
        remote_payment: args.remote_payments / 100.0,
        ..Mix::default()
    };
    let mut sides = Vec::new();
    let mut warehouses = 0;
    for url in urls(&args.common) {
        let server = Server::reach(url, args.common.isolation).await?;
        println!("{}: {}", server.url, server.version);
        let tpcc = prepare_tpcc(&server, &args.common, &args.sizes).await?;
        if !sides.is_empty() && tpcc.warehouses != warehouses {
            bail!(
                "{warehouses} warehouses on one server and {} on the other: \
                 say --warehouses, or load both with --load",
                tpcc.warehouses
            );
        }
        warehouses = tpcc.warehouses;
        prepare_procedures(&server, args.mode).await?;
        let workers =
            terminals(&server, &tpcc, &mix, args.mode, args.common.clients, &args.common, 0).await?;
        sides.push(Side::new(server, workers, &kinds()));
    }
    run_sides(&mut sides, Pace::of(&args.common)).await?;
    let mode = match args.mode {
        Mode::Interactive => "interactive",
        Mode::Procedures => "procedures",
    };
    let title = format!("TPC-C, {warehouses} warehouses, {} clients, {mode}", args.common.clients);
    let mut report = Report::of("tpcc", title, &args.common, &sides);
    if !args.no_check {
        for (side, figures) in sides.iter().zip(&mut report.sides) {
            figures.checks = check(&side.server).await?;
        }
    }
    report::finish(&report, &args.common)
}

/// The servers to measure, in order.
pub fn urls(common: &Common) -> impl Iterator<Item = &str> {
    [Some(&common.url), common.compare.as_ref()].into_iter().flatten().map(String::as_str)
}

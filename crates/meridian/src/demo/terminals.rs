//! TPC-C terminals: one connection each, transactions at a given rate.

use super::DemoArgs;
use super::figures::{Figures, Transaction};
use crate::database::Region;
use base::rng::Rng;
use bench::statements::{Attempt, Connection, Failure};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use workload::tpcc::{Inputs, Mix, Tpcc};

/// Region of a warehouse: regions take warehouses in turn.
pub fn region_of(warehouse: i32, regions: usize) -> usize {
    (warehouse - 1) as usize % regions
}

pub struct Terminal {
    url: String,
    region: usize,
    regions: usize,
    inputs: Inputs,
    rng: Rng,
    /// Mean time between two transactions.
    pause: Duration,
}

impl Terminal {
    pub fn new(
        args: &DemoArgs,
        tpcc: &Tpcc,
        regions: &[Region],
        warehouse: i32,
        terminal: u32,
        history_base: i64,
    ) -> Terminal {
        let region = region_of(warehouse, regions.len());
        let all = args.terminals * args.warehouses as u32;
        let nth = (warehouse - 1) as u32 * args.terminals + terminal;
        Terminal {
            url: regions[region].url(),
            region,
            regions: regions.len(),
            inputs: Inputs::new(tpcc, Mix::default(), nth, all, history_base).at(warehouse),
            rng: Rng::new(args.seed).fork_nth("pace", u64::from(nth)),
            pause: Duration::from_secs_f64(f64::from(args.terminals) / args.rate),
        }
    }

    /// Runs until it is told to stop or its connection is lost.
    pub async fn run(mut self, figures: Arc<Figures>, stopped: watch::Receiver<bool>) {
        if let Err(error) = self.work(&figures, stopped).await {
            figures.error(format!("{error:#}"));
        }
    }

    async fn work(&mut self, figures: &Figures, mut stopped: watch::Receiver<bool>) -> anyhow::Result<()> {
        let server = bench::server::Server::reach(&self.url, None).await?;
        let mut connection = Connection::new(server.connect().await?);
        while !*stopped.borrow() {
            // Exponential pauses: arrivals do not fall into step.
            let unit: f64 = self.rng.unit();
            let pause = self.pause.mul_f64(-(1.0 - unit).ln());
            tokio::select! {
                () = tokio::time::sleep(pause.min(Duration::from_secs(10))) => {}
                _ = stopped.changed() => break,
            }
            let input = self.inputs.next_input();
            let others: Vec<usize> = input
                .remote_warehouses()
                .iter()
                .map(|w| region_of(*w, self.regions))
                .filter(|r| *r != self.region)
                .collect();
            let start = Instant::now();
            let result = bench::tpcc::procedures::run(&mut connection, &input).await;
            let transaction = Transaction { region: self.region, others, latency: start.elapsed() };
            match result {
                Ok(Attempt::Committed { .. }) => figures.committed(transaction),
                // One NewOrder in a hundred names an item that does not exist: TPC-C wants it so.
                Ok(Attempt::RolledBack) => figures.rolled_back(self.region),
                Err(Failure::Wrong(what)) => figures.error(what),
                Err(Failure::Server(error)) => {
                    let Some(db) = error.as_db_error() else { return Err(bench::server::explain(error)) };
                    figures.aborted(self.region, db.code().code(), db.message());
                }
            }
        }
        Ok(())
    }
}

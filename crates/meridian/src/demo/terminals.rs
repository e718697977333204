//! TPC-C terminals: one connection each, transactions at a given rate. A terminal whose region is lost goes on
//! at the nearest region that answers, and comes home when it can.

use super::DemoArgs;
use super::audit::{Ledger, PaymentKey};
use super::figures::{Figures, Transaction};
use crate::database::Region;
use base::RegionId;
use base::rng::Rng;
use base::topology::Topology;
use bench::statements::{Attempt, Connection, Failure};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio_postgres::error::SqlState;
use workload::tpcc::{Input, Inputs, Mix, Tpcc};

/// Region of a warehouse: regions take warehouses in turn.
pub fn region_of(warehouse: i32, regions: usize) -> usize {
    (warehouse - 1) as usize % regions
}

pub struct Terminal {
    /// Index and URL of each region, the nearest first: the terminal's own is the first.
    nearest: Vec<(usize, String)>,
    region: usize,
    regions: usize,
    inputs: Inputs,
    rng: Rng,
    /// A region that refused a transaction, and when.
    avoided: Option<(usize, Instant)>,
    /// Mean time between two transactions.
    pause: Duration,
}

/// How long a terminal that is away stays there before it looks whether its own region answers.
const AWAY: Duration = Duration::from_secs(2);

/// A region that has not accepted a connection after this does not answer.
const CONNECT: Duration = Duration::from_secs(2);

/// What ended a stay at a region.
enum Stay {
    /// The demo is over.
    Over,
    /// The connection broke.
    Lost,
    /// The node has fenced itself.
    Refused,
    /// It is time to look whether the own region is back.
    LookHome,
}

impl Terminal {
    pub fn new(
        args: &DemoArgs,
        tpcc: &Tpcc,
        topology: &Topology,
        regions: &[Region],
        warehouse: i32,
        terminal: u32,
        history_base: i64,
    ) -> Terminal {
        let region = region_of(warehouse, regions.len());
        let all = args.terminals * args.warehouses as u32;
        let nth = (warehouse - 1) as u32 * args.terminals + terminal;
        let id = |r: usize| RegionId(r as u16);
        let mut nearest: Vec<(usize, String)> = regions.iter().map(Region::url).enumerate().collect();
        nearest.sort_by_key(|(r, _)| (*r != region, topology.wan.round_trip_ns(id(region), id(*r)), *r));
        Terminal {
            nearest,
            avoided: None,
            region,
            regions: regions.len(),
            inputs: Inputs::new(tpcc, Mix::default(), nth, all, history_base).at(warehouse),
            rng: Rng::new(args.seed).fork_nth("pace", u64::from(nth)),
            pause: Duration::from_secs_f64(f64::from(args.terminals) / args.rate),
        }
    }

    /// Runs until it is told to stop.
    pub async fn run(
        mut self,
        figures: Arc<Figures>,
        ledger: Arc<Ledger>,
        mut stopped: watch::Receiver<bool>,
    ) {
        while !*stopped.borrow() {
            let Some((at, connection)) = self.connect().await else {
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_millis(100)) => continue,
                    _ = stopped.changed() => return,
                }
            };
            match self.stay(at, connection, &figures, &ledger, &mut stopped).await {
                Stay::Over => return,
                Stay::LookHome => {}
                Stay::Refused => self.avoided = Some((at, Instant::now())),
                Stay::Lost => figures.lost_connection(self.region),
            }
        }
    }

    /// A connection to the nearest region that accepts one, and has not refused a transaction just now.
    async fn connect(&self) -> Option<(usize, Connection)> {
        let avoided = self.avoided.filter(|(_, since)| since.elapsed() < AWAY).map(|(region, _)| region);
        for (region, url) in self.nearest.iter().filter(|(region, _)| Some(*region) != avoided) {
            let connecting = async { bench::server::Server::reach(url, None).await?.connect().await };
            if let Ok(Ok(client)) = tokio::time::timeout(CONNECT, connecting).await {
                return Some((*region, Connection::new(client)));
            }
        }
        None
    }

    /// Runs transactions at one region.
    async fn stay(
        &mut self,
        at: usize,
        mut connection: Connection,
        figures: &Figures,
        ledger: &Ledger,
        stopped: &mut watch::Receiver<bool>,
    ) -> Stay {
        let arrived = Instant::now();
        while !*stopped.borrow() {
            if at != self.region && arrived.elapsed() > AWAY {
                return Stay::LookHome;
            }
            // Exponential pauses: arrivals do not fall into step.
            let unit: f64 = self.rng.unit();
            let pause = self.pause.mul_f64(-(1.0 - unit).ln());
            tokio::select! {
                () = tokio::time::sleep(pause.min(Duration::from_secs(10))) => {}
                _ = stopped.changed() => break,
            }
            let input = self.inputs.next_input();
            let payment: Option<PaymentKey> = match &input {
                Input::Payment(p) => Some((p.w, p.history)),
                _ => None,
            };
            payment.iter().for_each(|p| ledger.asked(*p));
            let start = Instant::now();
            let result = bench::tpcc::procedures::run(&mut connection, &input).await;
            let transaction = self.transaction(&input, at, start.elapsed());
            match result {
                Ok(Attempt::Committed { .. }) => {
                    payment.iter().for_each(|p| ledger.answered(*p));
                    figures.committed(transaction);
                }
                // One NewOrder in a hundred names an item that does not exist: TPC-C wants it so.
                Ok(Attempt::RolledBack) => figures.rolled_back(self.region),
                Err(Failure::Wrong(what)) => figures.error(what),
                Err(Failure::Server(error)) => {
                    let Some(db) = error.as_db_error() else { return Stay::Lost };
                    if [SqlState::TRANSACTION_RESOLUTION_UNKNOWN, SqlState::ADMIN_SHUTDOWN]
                        .contains(db.code())
                    {
                        return Stay::Lost;
                    }
                    payment.iter().for_each(|p| ledger.refused(*p));
                    figures.aborted(self.region, db.code().code(), db.message());
                    if *db.code() == SqlState::CANNOT_CONNECT_NOW {
                        return Stay::Refused;
                    }
                }
            }
        }
        Stay::Over
    }

    fn transaction(&self, input: &Input, at: usize, latency: Duration) -> Transaction {
        let warehouses = input.remote_warehouses();
        let others = warehouses.iter().map(|w| region_of(*w, self.regions)).filter(|r| *r != self.region);
        Transaction { region: self.region, is_away: at != self.region, others: others.collect(), latency }
    }
}

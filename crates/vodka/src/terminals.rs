//! Clients of the T side.

use crate::prepare;
use crate::tracker::{Mark, Tracker};
use crate::transactions::{self, Now};
use bench::drive::Worker;
use bench::load::now_us;
use bench::measure::Done;
use bench::server::Server;
use bench::statements::{Attempts, Connection};
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use workload::vodka::Vodka;
use workload::vodka::inputs::{Inputs, Kind, Mix, ReceivePointers};

const RETRIES: u32 = 20;

/// A line of result.csv, as the original tool has it.
#[derive(Clone, Debug)]
pub struct TxnLine {
    pub elapsed_ms: u64,
    pub latency_ms: f64,
    pub kind: Kind,
    pub rolled_back: bool,
    pub skipped: u64,
    pub error: String,
}

/// Pointers of each warehouse, with a lock that is held while goods are received there.
pub type Pointers = BTreeMap<i32, tokio::sync::Mutex<ReceivePointers>>;

/// What all terminals share.
pub struct Shared {
    pub vodka: Vodka,
    pub tracker: Tracker,
    pub pointers: Pointers,
    pub steady_balances: bool,
    /// Transactions that write count their terminal's number in `vodka_freshness` up.
    pub freshness_table: bool,
    pub began: Instant,
    lines: Mutex<Vec<TxnLine>>,
}

impl Shared {
    pub fn new(
        vodka: Vodka,
        tracker: Tracker,
        pointers: Pointers,
        steady_balances: bool,
        freshness_table: bool,
    ) -> Shared {
        let (began, lines) = (Instant::now(), Mutex::default());
        Shared { vodka, tracker, pointers, steady_balances, freshness_table, began, lines }
    }
    pub fn take_lines(&self) -> Vec<TxnLine> {
        std::mem::take(&mut self.lines.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }
    fn now(&self) -> Now {
        let wall_us = now_us();
        Now { wall_us, bench_us: self.vodka.clock(wall_us) }
    }
}

struct Terminal {
    connection: Connection,
    inputs: Inputs,
    shared: Arc<Shared>,
    /// From 0.
    number: i32,
    /// The number that it gave its last attempt. It begins at the µs of its start, above those of earlier terminals.
    last_mark: i64,
}

impl Terminal {
    /// The number for an attempt; each has its own, since the one before may have committed unnoticed.
    fn next_mark(&mut self) -> Option<Mark> {
        if !(self.shared.freshness_table && self.shared.tracker.tracks()) {
            return None;
        }
        self.last_mark += 1;
        Some(Mark { terminal: (self.inputs.warehouse(), self.number), number: self.last_mark })
    }
    async fn run_one(&mut self) -> anyhow::Result<Done> {
        let input = self.inputs.next_input();
        let (w, kind) = (self.inputs.warehouse(), input.kind());
        let begin = Instant::now();
        let mut attempts = Attempts::new(kind as usize, RETRIES);
        let shared = self.shared.clone();
        // Other terminals of the warehouse may receive goods too: the lock lasts until the pointers have moved.
        let mut pointers = match kind {
            Kind::ReceiveGoods => Some(shared.pointers[&w].lock().await),
            _ => None,
        };
        loop {
            let none = ReceivePointers::new([0; 10]);
            let at = pointers.as_deref().unwrap_or(&none);
            let now = shared.now();
            let mark = self.next_mark();
            let steady = shared.steady_balances;
            let outcome = transactions::run_marked(&mut self.connection, &input, now, at, steady, mark).await;
            let committed_us = now_us();
            if outcome.in_doubt {
                shared.tracker.in_doubt(&outcome.deeds, now.wall_us);
            }
            let committed = matches!(outcome.result, Ok(bench::statements::Attempt::Committed { .. }));
            if committed {
                if let Some(pointers) = pointers.as_deref_mut() {
                    pointers.committed(&outcome.deeds.received);
                }
                shared.tracker.committed(&outcome.deeds, committed_us);
            }
            if let Some(done) = attempts.judge(outcome.result)? {
                self.note(kind, &done, begin, outcome.deeds.delivered_orders);
                return Ok(done);
            }
        }
    }
    fn note(&self, kind: Kind, done: &Done, begin: Instant, delivered: u64) {
        use bench::measure::End;
        let line = TxnLine {
            elapsed_ms: begin.duration_since(self.shared.began).as_millis() as u64,
            latency_ms: begin.elapsed().as_secs_f64() * 1000.0,
            kind,
            rolled_back: done.end == End::RolledBack,
            skipped: if kind == Kind::Delivery && done.end == End::Committed {
                10 - delivered.min(10)
            } else {
                0
            },
            error: match &done.end {
                End::Failed { state, .. } => state.clone(),
                _ => String::new(),
            },
        };
        self.shared.lines.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(line);
    }
}

impl Worker for Terminal {
    fn next(&mut self) -> BoxFuture<'_, anyhow::Result<Option<Done>>> {
        Box::pin(async { self.run_one().await.map(Some) })
    }
}

/// Terminals with a connection each, spread over the warehouses.
///
/// # Errors
/// If the server refuses a connection.
pub async fn terminals(
    server: &Server,
    shared: &Arc<Shared>,
    mix: &Mix,
    count: u32,
) -> anyhow::Result<Vec<Box<dyn Worker>>> {
    let history_base = now_us();
    let mut workers: Vec<Box<dyn Worker>> = Vec::new();
    let inputs = (0..count).map(|n| Inputs::new(&shared.vodka, mix, n, count, history_base));
    let inputs: Vec<Inputs> = inputs.collect();
    if shared.freshness_table {
        let places: Vec<(i32, i32)> = inputs.iter().map(Inputs::warehouse).zip(0..).collect();
        prepare::enter_terminals(server, &places).await?;
    }
    for (inputs, number) in inputs.into_iter().zip(0..) {
        let client = server.connect().await?;
        workers.push(Box::new(Terminal {
            connection: Connection::new(client),
            inputs,
            shared: shared.clone(),
            number,
            last_mark: history_base,
        }));
    }
    Ok(workers)
}

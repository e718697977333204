//! Other people's sessions: a read by key, a write by key and a small analytical query, again and again, in the region
//! that is attacked and in another. Their latencies are what an attack may not change.
//!
//! A latency counts for every interval that it took (as if a statement had been due in each), so that one long stall
//! is not hidden by being one sample. A pulse in the driver itself tells when the machine, not the server, was late.

use crate::client::{Connection, End, Reply};
use crate::drive::Target;
use hdrhistogram::Histogram;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Errand {
    Read,
    Write,
    Analyse,
}

impl Errand {
    pub const ALL: [Errand; 3] = [Errand::Read, Errand::Write, Errand::Analyse];
    pub fn name(self) -> &'static str {
        match self {
            Errand::Read => "read",
            Errand::Write => "write",
            Errand::Analyse => "analyse",
        }
    }
    fn pause(self) -> Duration {
        match self {
            Errand::Read | Errand::Write => Duration::from_millis(5),
            Errand::Analyse => Duration::from_millis(20),
        }
    }
    fn sql(self, table: &str, n: u64) -> String {
        let key = n % ROWS;
        match self {
            Errand::Read => format!("select v from {table} where k = {key}"),
            Errand::Write => format!("update {table} set v = v + 1 where k = {key}"),
            Errand::Analyse => format!("select count(*), sum(v), max(k) from {table} where v >= 0"),
        }
    }
}

const ROWS: u64 = 100;
/// Longer than any stall that is measured.
const PATIENCE: Duration = Duration::from_secs(60);
const LATENCY_US_MAX: u64 = 120_000_000;
const RETRY: Duration = Duration::from_millis(50);

/// Something that happened to another session.
#[derive(Clone, Debug)]
pub struct Suffered {
    pub from: Instant,
    pub to: Instant,
    pub errand: Errand,
    /// What it was told, if its statement failed.
    pub error: Option<String>,
}

/// What all neighbours measured.
#[derive(Default)]
pub struct Ledger {
    inner: Mutex<Inner>,
}
#[derive(Default)]
struct Inner {
    /// By phase and errand, in microseconds.
    latencies: BTreeMap<(String, Errand), Histogram<u64>>,
    phase: String,
    suffered: Vec<Suffered>,
    /// When the driver itself was late, the newest last.
    late: VecDeque<(Instant, Instant)>,
}

impl Ledger {
    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().expect("no panic while it is held")
    }
    /// From now on latencies belong to this phase.
    pub fn enter(&self, phase: &str) {
        self.inner().phase = phase.into();
    }
    /// What happened since the last call.
    pub fn take_suffered(&self) -> Vec<Suffered> {
        std::mem::take(&mut self.inner().suffered)
    }
    pub fn latencies(&self) -> BTreeMap<(String, Errand), Histogram<u64>> {
        self.inner().latencies.clone()
    }

    /// Whether the driver itself was late for most of the time.
    pub fn machine_was_late(&self, from: Instant, to: Instant) -> bool {
        let overlap = |&(a, b): &(Instant, Instant)| b.min(to).saturating_duration_since(a.max(from));
        let late: Duration = self.inner().late.iter().map(overlap).sum();
        late * 2 > to - from
    }

    fn record(&self, errand: Errand, took: Duration) {
        let mut inner = self.inner();
        let phase = inner.phase.clone();
        if phase.is_empty() {
            return;
        }
        let latencies = inner.latencies.entry((phase, errand)).or_insert_with(histogram);
        let (us, pause_us) = (took.as_micros() as u64, errand.pause().as_micros() as u64);
        latencies.record_correct(us.min(LATENCY_US_MAX), pause_us).expect("within the bounds");
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_US_MAX, 3).expect("bounds are in order")
}

/// One errand in one region, until the target says stop.
pub async fn live(target: &Target, ledger: &Ledger, region: usize, errand: Errand, stall: Duration) {
    let table = format!("neighbour{region}{}", errand.name());
    let mut n = 0;
    while !target.is_stopping() {
        let Some(mut connection) = settle(target, region, &table).await else {
            tokio::time::sleep(RETRY).await;
            continue;
        };
        while !target.is_stopping() {
            n += 1;
            let life = target.life();
            let from = Instant::now();
            let reply = connection.query(errand.sql(&table, n).as_bytes(), PATIENCE).await;
            let to = Instant::now();
            if target.life() != life || target.is_down() {
                break;
            }
            let error = failure(&reply);
            ledger.record(errand, to - from);
            let lost = reply.end != End::Ready;
            if to - from > stall || error.is_some() {
                // Whoever loses its connection because the process ended does not suffer from something else.
                tokio::time::sleep(RETRY).await;
                if target.life() != life || target.is_down() {
                    break;
                }
                ledger.inner().suffered.push(Suffered { from, to, errand, error });
            }
            if lost {
                break;
            }
            tokio::time::sleep(errand.pause()).await;
        }
    }
}

fn failure(reply: &Reply) -> Option<String> {
    match (&reply.end, reply.errors.first()) {
        (_, Some(error)) => Some(format!("{} {}", error.code, error.message)),
        (End::Ready | End::Silent, None) => None,
        (end, None) => Some(format!("{end:?}")),
    }
}

/// A connection, and a table with rows.
async fn settle(target: &Target, region: usize, table: &str) -> Option<Connection> {
    let address = target.address(region)?;
    let mut connection = Connection::greeted(address).await.ok()?.ok()?;
    let create = format!("create table if not exists {table} (k int primary key, v bigint not null)");
    let fill = format!(
        "insert into {table} select n, 0 from generate_series(0, {}) g(n) on conflict do nothing",
        ROWS - 1
    );
    for sql in [create, fill] {
        connection.query(sql.as_bytes(), PATIENCE).await;
    }
    Some(connection)
}

/// Notes when the driver's own timers are late.
pub async fn pulse(target: &Target, ledger: &Ledger) {
    const BEAT: Duration = Duration::from_millis(5);
    const KEPT: usize = 10_000;
    while !target.is_stopping() {
        let from = Instant::now();
        tokio::time::sleep(BEAT).await;
        let to = Instant::now();
        if to - from > BEAT * 6 {
            let mut inner = ledger.inner();
            inner.late.push_back((from, to));
            if inner.late.len() > KEPT {
                inner.late.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_counts_for_every_interval_that_it_took() {
        let ledger = Ledger::default();
        ledger.enter("deep");
        (0..100).for_each(|_| ledger.record(Errand::Read, Duration::from_millis(1)));
        ledger.record(Errand::Read, Duration::from_secs(1));
        let all = ledger.latencies();
        let read = &all[&("deep".to_string(), Errand::Read)];
        assert!(read.value_at_quantile(0.5) > 100_000, "{}", read.value_at_quantile(0.5));
    }

    #[test]
    fn the_machine_is_late_only_if_the_driver_was_for_most_of_the_time() {
        let ledger = Ledger::default();
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        ledger.inner().late.push_back((at(100), at(200)));
        assert!(ledger.machine_was_late(at(100), at(250)));
        assert!(!ledger.machine_was_late(at(100), at(500)));
        assert!(!ledger.machine_was_late(at(300), at(400)));
    }
}

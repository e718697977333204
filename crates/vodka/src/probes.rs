//! Questions to the A side while the T side writes: how fresh is an answer, by the rows in it and by `vodka_freshness`, and
//! when is a write visible.

use crate::terminals::Shared;
use crate::transactions::stamp;
use bench::load::now_us;
use bench::server::explain;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio_postgres::Client;
use tokio_postgres::types::Type;
use workload::tpcc::DISTRICTS;
use workload::vodka::marks::{MarkReading, Terminal};
use workload::vodka::sync::{Probe, Write, probe};
use workload::vodka::versions::{Columns, Reading, RowKey, Written};

/// Versions of lines that nothing was written to for this long are forgotten.
const FORGET_AFTER_US: i64 = 120_000_000;

/// Looks of one probe that are under way at the same time, over one connection.
const LOOKS_MAX: usize = 32;

/// One answer to a freshness query.
#[derive(Clone, Debug)]
pub struct FreshnessLine {
    /// `ConsistencyCheck`: lines written within the window. `CustomerCheck`: balances of one district.
    pub query: &'static str,
    pub elapsed_ms: u64,
    pub latency_ms: f64,
    pub rows: u64,
    pub reading: Reading,
    pub versions: usize,
    pub version_bytes: usize,
}

const LINES: &str = "select ol_w_id, ol_d_id, ol_o_id, ol_number, ver, ol_delivery_d, ol_receiptdate, \
    ol_returnflag, ol_shipmode from vodka_order_line where write_ts between $1 and $2";
const CUSTOMERS: &str =
    "select c_w_id, c_d_id, c_id, ver, c_balance from vodka_customer where c_w_id = $1 and c_d_id = $2";

/// Asks both queries again and again until told to stop.
///
/// # Errors
/// If the server refuses a query or the connection is lost.
pub async fn freshness(
    client: Client,
    shared: Arc<Shared>,
    every: Duration,
    window: Duration,
    lines: Arc<std::sync::Mutex<Vec<FreshnessLine>>>,
    stop: Arc<AtomicBool>,
) -> anyhow::Result<()> {
    let of_lines = client.prepare_typed(LINES, &[Type::TIMESTAMP, Type::TIMESTAMP]).await.map_err(explain)?;
    let of_customers = client.prepare_typed(CUSTOMERS, &[Type::INT4, Type::INT4]).await.map_err(explain)?;
    let districts = shared.vodka.tpcc.warehouses * DISTRICTS;
    let mut turn = 0;
    let mut next = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let began_us = now_us();
        let range = Written { from_us: began_us - window.as_micros() as i64, to_us: began_us };
        let begin = Instant::now();
        let rows =
            client.query(&of_lines, &[&stamp(range.from_us), &stamp(range.to_us)]).await.map_err(explain)?;
        let mut answer = Vec::with_capacity(rows.len());
        for row in &rows {
            let key = RowKey::order_line(row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
            answer.push((key, row.try_get::<_, i32>(4)? as u32));
        }
        let took = begin.elapsed();
        note(
            &shared,
            &lines,
            "ConsistencyCheck",
            &answer,
            Columns::LINE,
            (began_us, begin, took),
            Some(range),
        );

        let (w, d) = (turn / DISTRICTS % (districts / DISTRICTS) + 1, turn % DISTRICTS + 1);
        turn += 1;
        let (began_us, begin) = (now_us(), Instant::now());
        let rows = client.query(&of_customers, &[&w, &d]).await.map_err(explain)?;
        let mut answer = Vec::with_capacity(rows.len());
        for row in &rows {
            let key = RowKey::customer(row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            answer.push((key, row.try_get::<_, i32>(3)? as u32));
        }
        let took = begin.elapsed();
        note(&shared, &lines, "CustomerCheck", &answer, Columns::BALANCE, (began_us, begin, took), None);

        forget_old(&shared);
        next = (next + every).max(Instant::now());
        tokio::time::sleep_until(next.into()).await;
    }
    Ok(())
}

/// Forgets versions of lines that nothing was written to for long.
pub fn forget_old(shared: &Shared) {
    shared.tracker.versions().forget(now_us() - FORGET_AFTER_US);
}

fn note(
    shared: &Shared,
    lines: &std::sync::Mutex<Vec<FreshnessLine>>,
    query: &'static str,
    answer: &[(RowKey, u32)],
    read: Columns,
    (began_us, begin, took): (i64, Instant, Duration),
    range: Option<Written>,
) {
    let (reading, versions, version_bytes) = {
        let mut store = shared.tracker.versions();
        let reading = store.measure(answer, read, began_us, range);
        (reading, store.versions_count(), store.bytes())
    };
    let line = FreshnessLine {
        query,
        elapsed_ms: begin.duration_since(shared.began).as_millis() as u64,
        latency_ms: took.as_secs_f64() * 1000.0,
        rows: answer.len() as u64,
        reading,
        versions,
        version_bytes,
    };
    lines.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(line);
}

/// One answer of HATtrick's kind.
#[derive(Clone, Debug)]
pub struct MarkLine {
    pub elapsed_ms: u64,
    pub latency_ms: f64,
    /// Terminals that the answer shows.
    pub terminals: u64,
    pub reading: MarkReading,
}

/// One statement, so that both tables are read in one snapshot, and over columns where there are any.
const MARKS: &str = "select f_w_id, f_terminal, f_n, (select count(*) from vodka_order_line \
    where write_ts between $1 and $2) as written from vodka_freshness";

/// Asks how many lines were written within the window, and which transactions the answer shows, until told to stop.
///
/// # Errors
/// If the server refuses the query or the connection is lost.
pub async fn marks(
    client: Client,
    shared: Arc<Shared>,
    every: Duration,
    window: Duration,
    lines: Arc<std::sync::Mutex<Vec<MarkLine>>>,
    stop: Arc<AtomicBool>,
) -> anyhow::Result<()> {
    let statement =
        client.prepare_typed(MARKS, &[Type::TIMESTAMP, Type::TIMESTAMP]).await.map_err(explain)?;
    let mut next = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let (began_us, begin) = (now_us(), Instant::now());
        let (from, to) = (stamp(began_us - window.as_micros() as i64), stamp(began_us));
        let rows = client.query(&statement, &[&from, &to]).await.map_err(explain)?;
        let latency_ms = begin.elapsed().as_secs_f64() * 1000.0;
        let mut answer: Vec<(Terminal, i64)> = Vec::with_capacity(rows.len());
        for row in &rows {
            answer.push(((row.try_get(0)?, row.try_get(1)?), row.try_get::<_, i64>(2)?));
        }
        let line = MarkLine {
            elapsed_ms: begin.duration_since(shared.began).as_millis() as u64,
            latency_ms,
            terminals: answer.len() as u64,
            reading: shared.tracker.measure_marks(&answer, began_us),
        };
        lines.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(line);
        next = (next + every).max(Instant::now());
        tokio::time::sleep_until(next.into()).await;
    }
    Ok(())
}

/// What one probe of data sharing found.
#[derive(Clone, Debug)]
pub struct SyncLine {
    pub elapsed_ms: u64,
    pub partitions: usize,
    /// `None`: a write was not visible before the probe gave up.
    pub probe: Option<Probe>,
}

/// Measures at `count` instants, drawn over `duration`, how long the writes committed before are in becoming visible.
///
/// # Errors
/// If the server refuses a query or the connection is lost.
pub async fn sync(
    client: Client,
    shared: Arc<Shared>,
    count: u32,
    duration: Duration,
    timeout: Duration,
    lines: Arc<std::sync::Mutex<Vec<SyncLine>>>,
    stop: Arc<AtomicBool>,
) -> anyhow::Result<()> {
    let of_line = client
        .prepare(
            "select ver from vodka_order_line where ol_w_id = $1 and ol_d_id = $2 and ol_o_id = $3 and ol_number = $4",
        )
        .await
        .map_err(explain)?;
    let of_customer = client
        .prepare("select ver from vodka_customer where c_w_id = $1 and c_d_id = $2 and c_id = $3")
        .await
        .map_err(explain)?;
    let mut rng = base::rng::Rng::new(shared.vodka.tpcc.seed).fork("probes");
    let mut instants: Vec<f64> = (0..count).map(|_| 0.05 + 0.9 * rng.unit()).collect();
    instants.sort_by(f64::total_cmp);
    let begin = Instant::now();
    for instant in instants {
        tokio::time::sleep_until((begin + duration.mul_f64(instant)).into()).await;
        let at = Instant::now();
        let mut frozen = shared.tracker.last_writes();
        // The latest first: it is the paper's, and is looked for before the others are.
        frozen.sort_by_key(|(_, write)| std::cmp::Reverse(write.committed_us));
        let mut seen = BTreeMap::<i32, f64>::new();
        // When a write was last looked for in vain, and how far off the instant may be at which it was seen.
        let (mut missed_ms, mut error_ms) = (BTreeMap::<i32, f64>::new(), 0.0f64);
        'waiting: while seen.len() < frozen.len() {
            let waiting = frozen.iter().filter(|(partition, _)| !seen.contains_key(partition));
            let waiting: Vec<(i32, Write)> = waiting.copied().collect();
            for some in waiting.chunks(LOOKS_MAX) {
                let mut looks = Vec::with_capacity(some.len());
                for (partition, write) in some {
                    looks.push(look(&client, &of_line, &of_customer, at, *partition, *write));
                }
                for done in futures::future::try_join_all(looks).await? {
                    if done.is_visible {
                        let since_ms = missed_ms.get(&done.partition).copied().unwrap_or(done.sent_ms);
                        error_ms = error_ms.max((done.received_ms - since_ms) / 2.0);
                        seen.insert(done.partition, done.received_ms);
                    } else {
                        missed_ms.insert(done.partition, done.sent_ms);
                    }
                }
                if at.elapsed() > timeout || stop.load(Ordering::Relaxed) {
                    break 'waiting;
                }
            }
        }
        let line = SyncLine {
            elapsed_ms: at.duration_since(shared.began).as_millis() as u64,
            partitions: frozen.len(),
            probe: probe(&frozen, &seen, error_ms),
        };
        if line.partitions > 0 {
            lines.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(line);
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(())
}

/// One look for a write, in ms since the probe's instant.
struct Look {
    partition: i32,
    sent_ms: f64,
    received_ms: f64,
    is_visible: bool,
}

async fn look(
    client: &Client,
    of_line: &tokio_postgres::Statement,
    of_customer: &tokio_postgres::Statement,
    at: Instant,
    partition: i32,
    write: Write,
) -> anyhow::Result<Look> {
    let ms = || at.elapsed().as_secs_f64() * 1000.0;
    let sent_ms = ms();
    let is_visible = is_visible(client, of_line, of_customer, &write).await?;
    Ok(Look { partition, sent_ms, received_ms: ms(), is_visible })
}

async fn is_visible(
    client: &Client,
    of_line: &tokio_postgres::Statement,
    of_customer: &tokio_postgres::Statement,
    write: &Write,
) -> anyhow::Result<bool> {
    let (w, d, id, number) = write.key.parts();
    let row = match write.key.is_customer() {
        true => client.query_opt(of_customer, &[&w, &d, &id]).await,
        false => client.query_opt(of_line, &[&w, &d, &id, &number]).await,
    };
    let Some(row) = row.map_err(explain)? else { return Ok(false) };
    Ok(row.try_get::<_, i32>(0)? as u32 >= write.version)
}

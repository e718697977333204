//! Before a run: are the servers there and fit, is the data loaded, where do its dates and pointers stand.

use crate::args::VodkaArgs;
use crate::terminals::Pointers;
use crate::transactions::{UNIX_TO_2000_US, unstamp};
use anyhow::{Context, anyhow, bail};
use bench::load::{Job, Loading, load, now_us};
use bench::report::CheckResult;
use bench::server::{Flavour, Server, explain, is_missing_schema};
use futures::TryStreamExt;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::{Duration, Instant};
use tokio_postgres::Client;
use workload::table::Placement;
use workload::tpcc::{DISTRICTS, Tpcc};
use workload::vodka::cardinality::Sizes;
use workload::vodka::inputs::ReceivePointers;
use workload::vodka::queries::{DateColumn, QUERIES, moving};
use workload::vodka::reservoir::Reservoir;
use workload::vodka::tables::{FRESHNESS, LOADED};
use workload::vodka::{Table, Vodka, check};

/// Clocks that are further apart than this are worth a word.
const SKEW_NOTED_MS: f64 = 100.0;

/// Where a server's clock stands against the client's.
#[derive(Clone, Debug, Serialize)]
pub struct Clock {
    pub offset_ms: f64,
    /// Half the round trip: how far off the offset may be.
    pub error_ms: f64,
}

/// Asks a server for the time, as µs since 1970 so that its time zone does not matter. `None` if it cannot tell.
pub async fn clock(client: &Client) -> Option<Clock> {
    let (before, begin) = (now_us(), Instant::now());
    let row = client.query_one("select (extract(epoch from now()) * 1000000)::bigint", &[]).await.ok()?;
    let half_us = begin.elapsed().as_micros() as f64 / 2.0;
    Some(clock_of(row.try_get(0).ok()?, before, half_us))
}

/// From the server's µs since 1970, the client's µs since 2000 before it asked, and half the round trip.
fn clock_of(server_us: i64, before_us: i64, half_us: f64) -> Clock {
    let offset_us = (server_us - UNIX_TO_2000_US - before_us) as f64 - half_us;
    Clock { offset_ms: offset_us / 1000.0, error_ms: half_us / 1000.0 }
}

/// A sentence about clocks that are apart; our own figures take all times from the client's.
pub fn clock_note(name: &str, clock: &Clock) -> Option<String> {
    (clock.offset_ms.abs() > SKEW_NOTED_MS + clock.error_ms).then(|| {
        format!(
            "the clock of {name} is {:.0} ms {} the client's; figures use the client's clock only",
            clock.offset_ms.abs(),
            if clock.offset_ms > 0.0 { "ahead of" } else { "behind" }
        )
    })
}

/// Refuses a T side that takes no writes.
///
/// # Errors
/// If it is a replica.
pub async fn refuse_a_follower(tp: &Server) -> anyhow::Result<()> {
    let client = tp.connect().await?;
    if let Ok(row) = client.query_one("select pg_is_in_recovery()", &[]).await {
        if row.try_get::<_, bool>(0).unwrap_or(false) {
            bail!("{} is a read-only replica: it can be --ap, but --tp needs its primary.", tp.url);
        }
    }
    Ok(())
}

/// Refuses before anything is begun if a server has too few connections left.
///
/// # Errors
/// If it says so.
pub async fn enough_connections(server: &Server, needed: u32) -> anyhow::Result<()> {
    if server.flavour != Flavour::PostgreSql {
        return Ok(());
    }
    let client = server.connect().await?;
    let sql = "select current_setting('max_connections')::int - count(*)::int from pg_stat_activity \
        where backend_type = 'client backend'";
    let Ok(row) = client.query_one(sql, &[]).await else { return Ok(()) };
    let left: i32 = row.try_get(0)?;
    if i64::from(left) < i64::from(needed) {
        bail!(
            "{} has {left} connections left and this run needs {needed}.\n\
             Ask for fewer --tp-threads or --ap-threads, or raise max_connections there.",
            server.url
        );
    }
    Ok(())
}

/// Makes sure that the T side holds the data, and that the A side shows it.
///
/// # Errors
/// If it holds something else, or the A side does not follow the T side.
pub async fn prepare(tp: &Server, ap: &Server, args: &VodkaArgs) -> anyhow::Result<(Vodka, Option<f64>)> {
    let client = tp.connect().await?;
    let mut rows_per_s = None;
    let vodka = match found(&client).await? {
        Found::Noted { vodka, is_complete } if !args.data.drop => {
            if let Some(why) = mismatch(&vodka.tpcc, &wanted(args)) {
                bail!("{} {why}", tp.url);
            }
            let warehouses = vodka.tpcc.warehouses;
            if is_complete {
                println!("{} is loaded: {warehouses} warehouses", tp.short_name());
            } else {
                println!("{}: a load was interrupted and goes on", tp.short_name());
                rows_per_s = Some(fill(tp, &client, &vodka, args, true).await?);
            }
            vodka
        }
        Found::Parts(names) if !args.data.drop => bail!(
            "{} has tables of these names, but nothing tells what they are to hold: {}.\n\
             Either a load was interrupted while it made them or they are somebody else's. Add --drop to drop them \
             and load anew.",
            tp.url,
            names.join(", ")
        ),
        _ => {
            let vodka = Vodka::new(wanted(args).loaded_at_us(now_us()));
            rows_per_s = Some(fill(tp, &client, &vodka, args, false).await?);
            vodka
        }
    };
    let with_table = !args.watch.no_freshness_table;
    if with_table && !has_freshness_table(&client).await? {
        // Loaded before the benchmark had it.
        let sql = FRESHNESS.create_table(&placement(args), vodka.tpcc.warehouses as u32);
        client.batch_execute(&sql).await.map_err(explain).context("make vodka_freshness")?;
    }
    follow(ap, &vodka, with_table).await?;
    Ok((vodka, rows_per_s))
}

fn wanted(args: &VodkaArgs) -> Tpcc {
    Tpcc::new(args.data.warehouses).shrunk(args.data.shrink).seed(args.data.seed)
}

/// In what the loaded data is not what the flags ask for, and which flags would use it.
fn mismatch(loaded: &Tpcc, wanted: &Tpcc) -> Option<String> {
    let Tpcc { warehouses, items, customers, seed, .. } = *loaded;
    if warehouses != wanted.warehouses {
        return Some(format!(
            "holds {warehouses} warehouses, not {}.\n\
             Add --drop to load it anew, or --warehouses {warehouses} to use it.",
            wanted.warehouses
        ));
    }
    if (items, customers) != (wanted.items, wanted.customers) {
        let is_same = |shrink: &i32| {
            let sizes = Tpcc::new(warehouses).shrunk(*shrink);
            (sizes.items, sizes.customers) == (items, customers)
        };
        let advice =
            (1..=300).find(is_same).map_or(String::new(), |n| format!(", or --shrink {n} to use it"));
        return Some(format!(
            "holds {items} items and {customers} customers a district, not {} and {}.\n\
             Add --drop to load it anew{advice}.",
            wanted.items, wanted.customers
        ));
    }
    (seed != wanted.seed).then(|| {
        format!(
            "holds rows of seed {seed}, not {}.\nAdd --drop to load it anew, or --seed {seed} to use it.",
            wanted.seed
        )
    })
}

fn placement(args: &VodkaArgs) -> Placement {
    match args.data.regions.is_empty() {
        true => Placement::Plain,
        false => Placement::RoundRobin(args.data.regions.clone()),
    }
}

async fn has_freshness_table(client: &Client) -> anyhow::Result<bool> {
    match client.simple_query("select 1 from vodka_freshness limit 1").await {
        Ok(_) => Ok(true),
        Err(error) if is_missing_schema(&error) => Ok(false),
        Err(error) => Err(explain(error).context("look for vodka_freshness")),
    }
}

/// Gives each terminal, by its warehouse and its number, a row in `vodka_freshness`, unless it has one.
///
/// # Errors
/// If a statement fails.
pub async fn enter_terminals(tp: &Server, places: &[(i32, i32)]) -> anyhow::Result<()> {
    let client = tp.connect().await?;
    let sql = "select f_w_id, f_terminal from vodka_freshness";
    let mut there = BTreeSet::new();
    for row in client.query(sql, &[]).await.map_err(explain).context(sql)? {
        there.insert((row.try_get::<_, i32>(0)?, row.try_get::<_, i32>(1)?));
    }
    let missing = places.iter().filter(|place| !there.contains(*place));
    let missing: Vec<String> = missing.map(|(w, terminal)| format!("({w}, {terminal}, 0)")).collect();
    for some in missing.chunks(500) {
        let sql = format!("insert into vodka_freshness (f_w_id, f_terminal, f_n) values {}", some.join(", "));
        client.batch_execute(&sql).await.map_err(explain).context("enter terminals in vodka_freshness")?;
    }
    Ok(())
}

enum Found {
    Nothing,
    /// Tables, but not the row that tells what they hold.
    Parts(Vec<&'static str>),
    Noted {
        vodka: Vodka,
        is_complete: bool,
    },
}

async fn found(client: &Client) -> anyhow::Result<Found> {
    let mut there = Vec::new();
    for spec in Table::ALL.iter().map(|table| table.spec()).chain([&LOADED]) {
        match client.simple_query(&format!("select 1 from {} limit 1", spec.name)).await {
            Ok(_) => there.push(spec.name),
            Err(error) if is_missing_schema(&error) => {}
            Err(error) => return Err(explain(error).context(format!("look for {}", spec.name))),
        }
    }
    if there.is_empty() {
        return Ok(Found::Nothing);
    }
    match client
        .query_opt("select warehouses, items, customers, seed, loaded_at, is_complete from vodka_loaded", &[])
        .await
    {
        Ok(Some(row)) if there.len() == Table::ALL.len() + 1 => Ok(Found::Noted {
            vodka: Vodka::new(Tpcc {
                warehouses: row.try_get(0)?,
                items: row.try_get(1)?,
                customers: row.try_get(2)?,
                seed: row.try_get::<_, i64>(3)? as u64,
                loaded_at_us: row.try_get(4)?,
            }),
            is_complete: row.try_get(5)?,
        }),
        _ => Ok(Found::Parts(there)),
    }
}

/// Loads, or goes on with a load; returns rows per second.
async fn fill(
    tp: &Server,
    client: &Client,
    vodka: &Vodka,
    args: &VodkaArgs,
    resume: bool,
) -> anyhow::Result<f64> {
    let placement = placement(args);
    let job = Job::vodka(vodka, &placement);
    let loading = Loading {
        placement,
        loaders: args.data.loaders,
        rows_per_copy: 10_000,
        drop: args.data.drop,
        resume,
        show_progress: true,
    };
    let begin = Instant::now();
    let rows = load(tp, job, &loading).await.context("load the benchmark's tables")?;
    let rows_per_s = rows as f64 / begin.elapsed().as_secs_f64();
    client
        .batch_execute(&Vodka::note_end())
        .await
        .map_err(explain)
        .context("note that everything is loaded")?;
    Ok(rows_per_s)
}

/// Waits until the A side shows the load, and `vodka_freshness` if it is used.
async fn follow(ap: &Server, vodka: &Vodka, with_table: bool) -> anyhow::Result<()> {
    let client = ap.connect().await?;
    let begin = Instant::now();
    let mut said = false;
    loop {
        let shows = match found(&client).await {
            Ok(Found::Noted { vodka: there, is_complete: true }) => {
                there.tpcc.loaded_at_us == vodka.tpcc.loaded_at_us
            }
            // What it shows may still be on its way.
            Ok(_) => false,
            Err(error) => return Err(error.context(format!("{} does not answer any more", ap.url))),
        };
        if shows && (!with_table || has_freshness_table(&client).await?) {
            return Ok(());
        }
        if begin.elapsed() > Duration::from_secs(120) {
            bail!(
                "{} does not show what was loaded on the T side within two minutes.\n\
                 Is it a replica of it, and is replication running?",
                ap.url
            );
        }
        if !said && begin.elapsed() > Duration::from_secs(2) {
            println!("waiting for {} to show what was loaded", ap.short_name());
            said = true;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Runs the conditions; each with the number of rows that break it.
///
/// # Errors
/// If the server cannot be reached.
pub async fn check(server: &Server, vodka: &Vodka) -> anyhow::Result<Vec<CheckResult>> {
    let client = server.connect().await?;
    let mut results = Vec::new();
    for condition in check::conditions(vodka) {
        let rows = client.query(&condition.violations, &[]).await;
        results.push(CheckResult {
            name: condition.name,
            violations: rows.as_ref().map(|rows| rows.len() as u64).ok(),
            error: rows.err().map(|error| format!("{:#}", explain(error))),
        });
    }
    Ok(results)
}

/// How many rows there are of the tables that change.
///
/// # Errors
/// If a query fails.
pub async fn sizes(client: &Client) -> anyhow::Result<Sizes> {
    let count = |sql: &'static str| async move {
        let row = client.query_one(sql, &[]).await.map_err(explain).context(sql)?;
        (0..row.len()).map(|n| Ok(row.try_get::<_, i64>(n)? as u64)).collect::<anyhow::Result<Vec<u64>>>()
    };
    let lines =
        count("select count(*), count(ol_delivery_d), count(ol_receiptdate) from vodka_order_line").await?;
    Ok(Sizes {
        history: count("select count(*) from vodka_history").await?[0],
        orders: count("select count(*) from vodka_orders").await?[0],
        new_orders: count("select count(*) from vodka_new_order").await?[0],
        lines: lines[0],
        delivered: lines[1],
        received: lines[2],
    })
}

/// Samples of the three date columns.
///
/// # Errors
/// If a query fails.
pub async fn samples(
    client: &Client,
    capacity: u32,
    seed: u64,
) -> anyhow::Result<BTreeMap<DateColumn, Reservoir>> {
    let mut out = BTreeMap::new();
    for column in DateColumn::ALL {
        let (table, name) = column.name();
        let sql = format!("select {name} from {table} where {name} is not null");
        let none: [i32; 0] = [];
        let mut rows = pin!(client.query_raw(&sql, none).await.map_err(explain).context(sql.clone())?);
        let mut values = Vec::new();
        while let Some(row) = rows.try_next().await.map_err(explain).context(sql.clone())? {
            values.push(unstamp(row.try_get(0)?));
        }
        let mut sample = Reservoir::new(capacity as usize, base::rng::Rng::new(seed).fork(name));
        sample.fill(values);
        if sample.is_empty() {
            bail!(
                "{table}.{name} holds no date: the data is not what was loaded. Add --drop to load it anew."
            );
        }
        out.insert(column, sample);
    }
    Ok(out)
}

/// The share of rows that each moving query keeps: what TPC-H's constant selects now.
pub fn alphas(samples: &BTreeMap<DateColumn, Reservoir>) -> BTreeMap<usize, f64> {
    let of = |number: usize| {
        let window = moving(number)?;
        let mut parts = window.constant.split('-').map(|part| part.parse::<i64>().ok());
        let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
        let day = base::text::day_number(year, month as u32, day as u32)?;
        let share = samples[&window.column].share_below(i64::from(day) * workload::vodka::DAY_US);
        // A constant outside of the data says nothing.
        Some((number, if (0.01..=0.99).contains(&share) { share } else { window.fallback }))
    };
    QUERIES.filter_map(of).collect()
}

/// The oldest order of each district that was not received.
///
/// # Errors
/// If the query fails.
pub async fn pointers(client: &Client, vodka: &Vodka) -> anyhow::Result<Pointers> {
    let sql = "select ol_w_id, ol_d_id, min(ol_o_id) from vodka_order_line where ol_receiptdate is null \
        group by ol_w_id, ol_d_id";
    let next = vodka.tpcc.customers + 1;
    let mut by_warehouse: BTreeMap<i32, [i32; DISTRICTS as usize]> =
        (1..=vodka.tpcc.warehouses).map(|w| (w, [next; DISTRICTS as usize])).collect();
    for row in client.query(sql, &[]).await.map_err(explain).context(sql)? {
        let (w, d, o): (i32, i32, i32) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let place =
            by_warehouse.get_mut(&w).and_then(|districts| districts.get_mut((d - 1) as usize)).ok_or_else(
                || anyhow!("there is an order of district {d} of warehouse {w}, which does not exist"),
            )?;
        *place = o;
    }
    Ok(by_warehouse
        .into_iter()
        .map(|(w, next)| (w, tokio::sync::Mutex::new(ReceivePointers::new(next))))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_compared_by_its_instant() {
        // 2000-01-01 00:00:01 at the server; the client asked half a second before, and the answer took 200 ms.
        let clock = clock_of(UNIX_TO_2000_US + 1_000_000, 500_000, 100_000.0);
        assert_eq!((clock.offset_ms, clock.error_ms), (400.0, 100.0));
        assert!(clock_note("the A side", &clock).unwrap().contains("400 ms ahead of"));
        assert!(clock_note("the A side", &clock_of(UNIX_TO_2000_US, 50_000, 1_000.0)).is_none());
    }

    #[test]
    fn data_of_other_sizes_or_of_another_seed_is_refused_with_the_flag_that_uses_it() {
        let loaded = Tpcc::new(2).shrunk(10).seed(7);
        assert_eq!(mismatch(&loaded, &loaded.clone().loaded_at_us(5)), None);
        let of = |wanted: Tpcc| mismatch(&loaded, &wanted).unwrap();
        assert!(of(Tpcc::new(3).shrunk(10).seed(7)).contains("holds 2 warehouses, not 3"));
        let sizes = of(Tpcc::new(2).seed(7));
        assert!(sizes.contains("10000 items and 300 customers") && sizes.contains("--shrink 10 "), "{sizes}");
        assert!(of(Tpcc::new(2).shrunk(10)).contains("--seed 7 to use it"));
        let odd = Tpcc { items: 77, ..loaded.clone() };
        assert!(!mismatch(&odd, &loaded).unwrap().contains("--shrink"));
    }
}

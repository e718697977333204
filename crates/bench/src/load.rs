//! Making tables and filling them: DDL, then COPY on several connections side by side.

use crate::args::{Common, Sizes};
use crate::server::{Flavour, Server, explain};
use anyhow::{Context, anyhow, bail};
use bytes::Bytes;
use futures::SinkExt;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};
use tokio_postgres::{Client, error::SqlState};
use workload::copy::write_row;
use workload::table::{Home, Placement, TableSpec};
use workload::tpcc::Tpcc;
use workload::vodka::{self, Vodka};
use workload::{accounts, ch, tpcc, ycsb};

/// Seconds from 1970 to 2000, PostgreSQL's epoch.
const UNIX_TO_2000_S: u64 = 946_684_800;

/// Now, in µs since 2000-01-01.
pub fn now_us() -> i64 {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (since_1970.saturating_sub(Duration::from_secs(UNIX_TO_2000_S))).as_micros() as i64
}

/// How to load.
#[derive(Clone, Debug)]
pub struct Loading {
    pub placement: Placement,
    /// Connections side by side.
    pub loaders: u32,
    pub rows_per_copy: u32,
    /// Drop tables of these names before.
    pub drop: bool,
    /// Go on with a load that was interrupted: tables that are there keep their rows.
    pub resume: bool,
    /// Draw a progress bar (lines every tenth if standard error is no terminal).
    pub show_progress: bool,
}

impl Loading {
    pub fn of(common: &Common) -> Loading {
        Loading {
            placement: placement(common),
            loaders: common.loaders,
            rows_per_copy: common.copy_rows,
            drop: common.drop,
            resume: false,
            show_progress: true,
        }
    }
}

fn placement(common: &Common) -> Placement {
    if common.regions.is_empty() { Placement::Plain } else { Placement::RoundRobin(common.regions.clone()) }
}

/// Some rows of one table. One connection writes them in their order, a COPY after the other: an interrupted load has
/// written the first of them.
struct Part {
    table: &'static TableSpec,
    /// The value of the table's home column, if that tells this part from others of the table.
    home: Option<i32>,
    /// Made when their turn comes.
    make_rows: Box<dyn FnOnce() -> Rows + Send>,
}

type Rows = Box<dyn Iterator<Item = Vec<base::Datum>> + Send>;

impl Part {
    /// How many of its rows are there.
    fn count(&self) -> String {
        let table = self.table.name;
        match (self.table.home, self.home) {
            (Home::By(column), Some(value)) => {
                format!("SELECT count(*) FROM {table} WHERE {column} = {value}")
            }
            _ => format!("SELECT count(*) FROM {table}"),
        }
    }
}

/// A schema and its rows.
pub struct Job {
    tables: Vec<&'static TableSpec>,
    create: Vec<String>,
    /// Run before anything is loaded, but not when a load goes on.
    begin: Option<String>,
    parts: VecDeque<Part>,
    rows_expected: u64,
}

impl Job {
    /// TPC-C with CH-benCHmark's three tables.
    pub fn tpcc(sizes: &Tpcc, placement: &Placement) -> Job {
        let mut create = sizes.create_tables(placement);
        create.extend(ch::tables::create_tables(placement));
        create.extend(sizes.create_indexes());
        let mut job = Job {
            tables: tpcc::Table::ALL
                .iter()
                .map(|t| t.spec())
                .chain(ch::Table::ALL.iter().map(|t| t.spec()))
                .collect(),
            create,
            begin: None,
            parts: VecDeque::new(),
            rows_expected: 0,
        };
        for table in ch::Table::ALL {
            let seed = sizes.seed;
            job.add(table.spec(), None, table.rows_count(), move || table.rows(seed));
        }
        for warehouse in 1..=sizes.warehouses {
            for table in tpcc::Table::ALL {
                if table == tpcc::Table::Item && warehouse > 1 {
                    continue;
                }
                let (of, count) = (sizes.clone(), sizes.rows_count(table));
                job.add(table.spec(), Some(warehouse), count, move || of.rows(table, warehouse));
            }
        }
        job
    }
    /// Vodka's tables, and the row that tells what they are to hold.
    pub fn vodka(sizes: &Vodka, placement: &Placement) -> Job {
        let mut job = Job {
            tables: vodka::Table::ALL
                .iter()
                .map(|t| t.spec())
                .chain([&vodka::tables::FRESHNESS, &vodka::tables::LOADED])
                .collect(),
            create: vodka::tables::create(placement, sizes.tpcc.warehouses as u32),
            begin: Some(sizes.note_begin()),
            parts: VecDeque::new(),
            rows_expected: 0,
        };
        for warehouse in 1..=sizes.tpcc.warehouses {
            for table in vodka::Table::ALL {
                if table.is_shared() && warehouse > 1 {
                    continue;
                }
                let (of, count) = (sizes.clone(), sizes.rows_count(table));
                let home = (!table.is_shared()).then_some(warehouse);
                job.add(table.spec(), home, count, move || of.rows(table, warehouse));
            }
        }
        job
    }
    pub fn ycsb(records: i64, seed: u64, placement: &Placement) -> Job {
        let mut job = Job::single(&ycsb::USERTABLE, placement);
        for first in (0..records).step_by(50_000) {
            let keys = first..records.min(first + 50_000);
            let count = (keys.end - keys.start) as u64;
            job.add(&ycsb::USERTABLE, None, count, move || {
                Box::new(keys.map(move |key| ycsb::row(seed, key)))
            });
        }
        job
    }
    pub fn accounts(count: i64, placement: &Placement) -> Job {
        let mut job = Job::single(&accounts::ACCOUNTS, placement);
        job.add(&accounts::ACCOUNTS, None, count as u64, move || Box::new(accounts::rows(count)));
        job
    }

    fn single(table: &'static TableSpec, placement: &Placement) -> Job {
        // One table of keys has no warehouses to place in turn.
        let placement = if *placement == Placement::Plain { Placement::Plain } else { Placement::Hash };
        Job {
            tables: vec![table],
            create: vec![table.create_table(&placement, 0)],
            begin: None,
            parts: VecDeque::new(),
            rows_expected: 0,
        }
    }
    fn add(
        &mut self,
        table: &'static TableSpec,
        home: Option<i32>,
        count: u64,
        rows: impl FnOnce() -> Rows + Send + 'static,
    ) {
        self.rows_expected += count;
        self.parts.push_back(Part { table, home, make_rows: Box::new(rows) });
    }
}

/// Makes the tables and fills them; returns the number of rows that it wrote.
pub async fn load(server: &Server, job: Job, loading: &Loading) -> anyhow::Result<u64> {
    let begin = Instant::now();
    let client = server.connect().await?;
    let names: Vec<&str> = job.tables.iter().map(|table| table.name).collect();
    if loading.drop {
        for name in &names {
            let sql = format!("DROP TABLE IF EXISTS {name}");
            client.batch_execute(&sql).await.map_err(explain).with_context(|| sql.clone())?;
        }
    }
    for sql in &job.create {
        if let Err(error) = client.batch_execute(sql).await {
            let exists = error.code() == Some(&SqlState::DUPLICATE_TABLE);
            if exists && loading.resume {
                continue;
            }
            let hint =
                if exists { "\nLeave --load out to use it, or add --drop to make it anew." } else { "" };
            let first_line = sql.lines().next().unwrap_or_default().trim_end_matches(" (");
            return Err(anyhow!("{first_line}: {:#}{hint}", explain(error)));
        }
    }
    if let Some(sql) = job.begin.filter(|_| !loading.resume) {
        client.batch_execute(&sql).await.map_err(explain).with_context(|| sql.clone())?;
    }
    let progress = Arc::new(Progress::new(job.rows_expected, loading.show_progress, &server.short_name()));
    let parts = Arc::new(Mutex::new(job.parts));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..loading.loaders {
        let client = server.connect().await?;
        tasks.spawn(loader(client, parts.clone(), loading.clone(), progress.clone()));
    }
    let mut rows = 0;
    while let Some(result) = tasks.join_next().await {
        rows += result.context("a loader broke down")??;
    }
    if server.flavour == Flavour::PostgreSql {
        for name in &names {
            let sql = format!("VACUUM ANALYZE {name}");
            client.batch_execute(&sql).await.map_err(explain).with_context(|| sql.clone())?;
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    progress.finish();
    println!(
        "loaded {rows} rows into {} in {seconds:.1} s ({:.0} rows/s)",
        server.short_name(),
        rows as f64 / seconds
    );
    Ok(rows)
}

/// Loads parts until none is left.
async fn loader(
    client: Client,
    parts: Arc<Mutex<VecDeque<Part>>>,
    loading: Loading,
    progress: Arc<Progress>,
) -> anyhow::Result<u64> {
    let mut total = 0;
    loop {
        let next = parts.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).pop_front();
        let Some(part) = next else { return Ok(total) };
        let copy_in = part.table.copy_in();
        let mut there = 0;
        if loading.resume {
            let count = part.count();
            let row = client.query_one(&count, &[]).await.map_err(explain).with_context(|| count.clone())?;
            there = row.try_get::<_, i64>(0)? as u64;
        }
        let mut rows = (part.make_rows)().peekable();
        for _ in 0..there {
            rows.next().with_context(|| format!("{} holds more than was loaded", part.table.name))?;
        }
        progress.add(there);
        while rows.peek().is_some() {
            let written = copy(&client, &copy_in, &mut rows, loading.rows_per_copy)
                .await
                .map_err(explain)
                .with_context(|| copy_in.clone())?;
            total += written;
            progress.add(written);
        }
    }
}

/// One COPY of at most `limit` rows.
async fn copy(
    client: &Client,
    copy_in: &str,
    rows: &mut (dyn Iterator<Item = Vec<base::Datum>> + Send),
    limit: u32,
) -> Result<u64, tokio_postgres::Error> {
    const PIECE_BYTES: usize = 64 * 1024;
    let mut sink = pin!(client.copy_in::<_, Bytes>(copy_in).await?);
    let mut text = String::with_capacity(PIECE_BYTES + 2048);
    for row in rows.take(limit as usize) {
        write_row(&mut text, &row);
        if text.len() >= PIECE_BYTES {
            sink.send(Bytes::from(std::mem::take(&mut text))).await?;
        }
    }
    if !text.is_empty() {
        sink.send(Bytes::from(text)).await?;
    }
    sink.finish().await
}

/// A bar on a terminal, a line every tenth elsewhere.
struct Progress {
    bar: ProgressBar,
    expected: u64,
    lines: bool,
    name: String,
}

impl Progress {
    fn new(expected: u64, show: bool, name: &str) -> Progress {
        let bar = if show { ProgressBar::new(expected) } else { ProgressBar::hidden() };
        let lines = show && bar.is_hidden();
        let style = ProgressStyle::with_template(
            "loading {msg} {bar:40} {human_pos}/{human_len} rows  {per_sec}  {eta} left",
        );
        if let Ok(style) = style {
            bar.set_style(style);
        }
        bar.set_message(name.to_string());
        if lines {
            // A bar that draws nothing still counts.
            bar.set_draw_target(ProgressDrawTarget::hidden());
            bar.set_length(expected);
        }
        Progress { bar, expected, lines, name: name.into() }
    }
    fn add(&self, rows: u64) {
        let tenth = |position: u64| position * 10 / self.expected.max(1);
        let before = self.bar.position();
        self.bar.inc(rows);
        let after = before + rows;
        if self.lines && tenth(before) < tenth(after) {
            println!("loading {}: {after} of about {} rows", self.name, self.expected);
        }
    }
    fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Makes and fills TPC-C's and CH-benCHmark's tables if asked to; finds out what is there otherwise.
pub async fn prepare_tpcc(server: &Server, common: &Common, sizes: &Sizes) -> anyhow::Result<Tpcc> {
    if common.load {
        let tpcc = Tpcc::new(sizes.warehouses.unwrap_or(1)).shrunk(sizes.shrink).seed(common.seed);
        let tpcc = tpcc.loaded_at_us(now_us());
        let loading = Loading::of(common);
        load(server, Job::tpcc(&tpcc, &loading.placement), &loading).await?;
    }
    let client = server.connect().await?;
    let found = tpcc_sizes(server, &client).await?.seed(common.seed);
    match sizes.warehouses {
        Some(wanted) if wanted > found.warehouses => bail!(
            "{} has {} warehouses, not {wanted}.\nLoad as many: add --load --drop, or ask for fewer.",
            server.url,
            found.warehouses
        ),
        Some(wanted) => Ok(Tpcc { warehouses: wanted, ..found }),
        None => Ok(found),
    }
}

/// What a loaded database holds.
async fn tpcc_sizes(server: &Server, client: &Client) -> anyhow::Result<Tpcc> {
    let count = |sql: &'static str| async move {
        match client.query_one(sql, &[]).await {
            Ok(row) => match row.try_get::<_, Option<i64>>(0) {
                Ok(Some(count)) if count > 0 => Ok(count as i32),
                Ok(_) => {
                    Err(anyhow!("the tables at {} are empty.\nFill them: add --load --drop.", server.url))
                }
                Err(error) => Err(anyhow!("{sql}: {error}")),
            },
            Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => Err(anyhow!(
                "there are no TPC-C tables at {}: {:#}\nMake and fill them: add --load --warehouses N.",
                server.url,
                explain(error)
            )),
            Err(error) => Err(explain(error).context(sql)),
        }
    };
    let mut tpcc = Tpcc::new(count("select count(*) from warehouse").await?);
    tpcc.items = count("select count(*) from item").await?;
    tpcc.customers = count("select count(*) from customer where c_w_id = 1 and c_d_id = 1").await?;
    Ok(tpcc)
}

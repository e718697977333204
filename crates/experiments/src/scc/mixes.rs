//! Figures 9, 10 and 12: TPC-C, TATP, and a mix of inserts, updates and reads, at one replica.

use super::figures::{claim, claim_strong, lacks_pct, measured_ns};
use super::session::{Common, Script, Session};
use super::tatp::Tatp;
use super::tpcc::{Reading, Writing};
use super::trading::{Recent, Trading};
use super::{Cluster, Measured, PRIMARY, Point, READ_WAIT, SCC, STALE, WRITER, Way, conditions, run_through};
use crate::plot::Plot;
use crate::populate;
use crate::{Experiment, Findings, Line, Report, Scale, cell, number};
use base::NodeId;
use base::rng::Rng;
use base::schema::Catalog;
use base::time::MS;
use serde_json::json;
use std::rc::Rc;
use std::sync::Arc;
use workload::micro::MICRO;
use workload::table::{Placement, TableSpec};
use workload::tatp;
use workload::tpcc::{Inputs, Mix, Table, Tpcc};

const REPLICA: NodeId = NodeId(1);

/// What is loaded, and what clients do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    /// As many terminals that write as clients that read.
    Tpcc,
    Tatp,
    Trading,
}

type Case = (Load, Way, u32);

fn cases(load: Load, clients: &[u32]) -> Vec<Case> {
    let ways = [PRIMARY, READ_WAIT, SCC, STALE].into_iter();
    ways.flat_map(|way| clients.iter().map(move |clients| (load, way, *clients))).collect()
}
fn names(cases: Vec<Case>) -> Vec<String> {
    let name = |(load, way, clients): Case| format!("{}, {clients} clients, {}", way.name, load.name());
    cases.into_iter().map(name).collect()
}

// ---- the figures --------------------------------------------------------------------------------------

const CLIENTS: [u32; 4] = [16, 32, 64, 128];

pub const FIG9: Experiment = Experiment {
    name: "scc-fig9",
    question: "TPC-C: what do the transactions that only read do at one replica, beside terminals that write?",
    parts: |_| names(cases(Load::Tpcc, &CLIENTS)),
    run: |scale, seed, part, tell| run(cases(Load::Tpcc, &CLIENTS)[part], scale, seed, tell),
    conclude: |report| conclude(report, Load::Tpcc, "reads_per_s"),
};

pub const FIG10: Experiment = Experiment {
    name: "scc-fig10",
    question: "TATP: four transactions of five read at one replica, the others write.",
    parts: |_| names(cases(Load::Tatp, &CLIENTS)),
    run: |scale, seed, part, tell| run(cases(Load::Tatp, &CLIENTS)[part], scale, seed, tell),
    conclude: |report| conclude(report, Load::Tatp, "transactions_per_s"),
};

pub const FIG12: Experiment = Experiment {
    name: "scc-fig12",
    question: "Inserts, updates and reads as 3:2:5, reads of what was written last: how many are stale?",
    parts: |_| names(cases(Load::Trading, &CLIENTS)),
    run: |scale, seed, part, tell| run(cases(Load::Trading, &CLIENTS)[part], scale, seed, tell),
    conclude: |report| conclude(report, Load::Trading, "transactions_per_s"),
};

fn conclude(report: &mut Report, load: Load, throughput: &str) {
    claim_strong(report);
    let most = CLIENTS[CLIENTS.len() - 1];
    let of = |policy: &str| {
        let is = |row: &&Line| cell(row, "policy") == policy && number(row, "clients") == Some(most.into());
        report.rows.iter().find(is)
    };
    let lost = lacks_pct(of("scc"), of("stale"), throughput);
    let what = format!("{}: throughput lost to strong reads, {most} clients (%)", load.name());
    claim(report, &what, 5.0, lost);
    for column in [throughput, "latency_ms.p90"] {
        let caption = format!("{}: {}", load.name(), crate::plot::words(column));
        report.show(Plot::lines(&caption, &report.rows, &["policy"], ("clients", column)));
    }
}

// ---- a run --------------------------------------------------------------------------------------------

fn run((load, way, clients): Case, scale: Scale, seed: u64, tell: &mut dyn FnMut(f64)) -> Findings {
    let point = Point { measured_ns: measured_ns(scale), ..Point::of(way) };
    let mut world = point.world(seed);
    let catalog = load.fill(&mut world, scale, seed);
    let begin = world.now() + 50 * MS;
    let common = Rc::new(Common::new(begin, begin + point.measured_ns));
    let rng = Rng::new(seed).fork("mix");
    for (nth, (node, script)) in load.scripts(&catalog, clients, (scale, seed)).into_iter().enumerate() {
        world.client(Session::new(&common, node, script, rng.fork_nth("client", nth as u64)));
    }
    let fetches = run_through(&mut world, (begin, common.until), tell);
    let seen = std::mem::take(&mut *common.seen.borrow_mut());
    let (reads, writes) = (seen.latencies_ns.len(), seen.write_latencies_ns.len());
    let stale_pct = 100.0 * seen.stale as f64 / reads.max(1) as f64;
    let measured = Measured::of(seen, fetches, point.measured_ns);
    let mut row = measured.line(way.name, 1, load.name(), clients);
    let per_s = |count: usize| json!(count as f64 * 1e9 / point.measured_ns as f64);
    row.push(("clients", json!(clients)));
    row.push(("reads_per_s", per_s(reads)));
    row.push(("transactions_per_s", per_s(reads + writes)));
    row.push(("stale_pct", json!(stale_pct)));
    let mut conditions = conditions();
    conditions.retain(|(name, _)| !matches!(*name, "rows" | "a read"));
    conditions.push(("seconds measured", json!(point.measured_ns as f64 / 1e9)));
    conditions.push(("rows", json!(load.size(scale))));
    conditions.push(("a transaction", json!(load.transaction())));
    Findings { conditions, rows: vec![row], claims: Vec::new() }
}

fn tpcc(scale: Scale, seed: u64) -> Tpcc {
    let warehouses = match scale {
        Scale::Small => 20,
        Scale::Paper => 60,
    };
    Tpcc::new(warehouses).shrunk(500).seed(seed)
}
fn subscribers(scale: Scale) -> i64 {
    match scale {
        Scale::Small => 5_000,
        Scale::Paper => 100_000,
    }
}

impl Load {
    fn name(self) -> &'static str {
        match self {
            Load::Tpcc => "TPC-C, read-only transactions",
            Load::Tatp => "TATP",
            Load::Trading => "3:2:5 of inserts, updates, reads",
        }
    }
    fn size(self, scale: Scale) -> String {
        match self {
            Load::Tpcc => {
                let Tpcc { warehouses, items, customers, .. } = tpcc(scale, 0);
                format!("{warehouses} warehouses of {items} items and {customers} customers a district")
            }
            Load::Tatp => format!("{} subscribers", subscribers(scale)),
            Load::Trading => "those that are inserted".into(),
        }
    }
    fn transaction(self) -> &'static str {
        match self {
            Load::Tpcc => {
                "OrderStatus or StockLevel, three statements each; as many terminals write (45:43:4 of NewOrder, Payment, \
                 Delivery)"
            }
            Load::Tatp => "35:10:35 of three that read, 2:14:2:2 of four that write; every client has both",
            Load::Trading => "one statement; a read is of one of the 16 rows whose writes were answered last",
        }
    }

    fn fill(self, world: &mut Cluster, scale: Scale, seed: u64) -> Arc<Catalog> {
        let topology = world.topology().clone();
        let specs: Vec<&TableSpec> = match self {
            Load::Tpcc => Table::ALL.iter().map(|table| table.spec()).collect(),
            Load::Tatp => tatp::TABLES.to_vec(),
            Load::Trading => vec![&MICRO],
        };
        let change = populate::schema(specs.into_iter(), &Placement::Hash, 1, &topology);
        let catalog = populate::create(world, change);
        match self {
            Load::Tpcc => {
                let tpcc = tpcc(scale, seed);
                let of = |table: Table, w| tpcc.rows(table, w).map(move |values| (table.spec().name, values));
                let homed = Table::ALL.into_iter().filter(|table| *table != Table::Item);
                let rows = (1..=tpcc.warehouses).flat_map(|w| homed.clone().flat_map(move |t| of(t, w)));
                populate::fill(world, &catalog, of(Table::Item, 1).chain(rows));
            }
            Load::Tatp => {
                let tatp = tatp::Tatp { subscribers: subscribers(scale), seed };
                populate::fill(world, &catalog, tatp.rows());
            }
            Load::Trading => {}
        }
        catalog
    }

    /// The scripts of all clients, each with the node where it reads.
    fn scripts(
        self,
        catalog: &Arc<Catalog>,
        clients: u32,
        (scale, seed): (Scale, u64),
    ) -> Vec<(NodeId, Box<dyn Script>)> {
        match self {
            Load::Tpcc => terminals(catalog, clients, &tpcc(scale, seed)),
            Load::Tatp => {
                let tatp = tatp::Tatp { subscribers: subscribers(scale), seed };
                let script = |nth| Tatp::new(catalog, tatp::Ops::new(tatp, (nth, clients)));
                (0..clients).map(|nth| (REPLICA, Box::new(script(nth)) as Box<dyn Script>)).collect()
            }
            Load::Trading => {
                let (recent, rng) = (Recent::default(), Rng::new(seed).fork("trading"));
                let script = |nth: u32| {
                    let next = (i64::from(nth), i64::from(clients));
                    Trading::new(catalog, &recent, next, rng.fork_nth("client", u64::from(nth)))
                };
                (0..clients).map(|nth| (REPLICA, Box::new(script(nth)) as Box<dyn Script>)).collect()
            }
        }
    }
}

/// As many terminals that write as clients that read.
fn terminals(catalog: &Arc<Catalog>, clients: u32, tpcc: &Tpcc) -> Vec<(NodeId, Box<dyn Script>)> {
    let topology = Arc::new(super::topology(1));
    let procedures = Arc::new(workload::procedures());
    // Each has inputs of its own.
    let inputs =
        |weights, nth| Inputs::new(tpcc, Mix { weights, ..Mix::default() }, nth, 2 * clients, 1 << 40);
    let mut scripts: Vec<(NodeId, Box<dyn Script>)> = Vec::new();
    for nth in 0..clients {
        let reading = Reading::new(catalog, inputs([0, 0, 1, 0, 1], nth));
        scripts.push((REPLICA, Box::new(reading)));
        let writing = Writing {
            catalog: catalog.clone(),
            topology: topology.clone(),
            procedures: procedures.clone(),
            inputs: inputs([45, 43, 0, 4, 0], clients + nth),
            doing: None,
        };
        scripts.push((WRITER, Box::new(writing)));
    }
    scripts
}

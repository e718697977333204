//! `caerus-fault`: a region is lost under load.
//!
//! Clients of all regions begin rides; after a while every node of one region is gone for good, its clients with it.
//! The others' clients go on, and some of what they touch was homed there. Afterwards every ride whose beginning
//! was answered, by whomever, must be at every copy that is left.

use super::load::Done;
use super::scene::{self, CAERUS, CALVIN, Case, Place, Size, System, Workload, conditions};
use crate::plot::Plot;
use crate::{Claim, Experiment, Findings, Line, Scale, number, quantile_ms};
use base::time::{MS, SECOND};
use base::{Key, RegionId, Time};
use serde_json::json;
use sim::world::Fault;
use workload::movr::RIDES;

pub const EXPERIMENT: Experiment = Experiment {
    name: "caerus-fault",
    question: "A region is lost under load: is anything lost that was answered, and for how long is there no service?",
    parts: |_| systems().iter().map(|system| system.name.to_string()).collect(),
    run,
    conclude: |report| {
        let caption =
            "Commits per 100 ms that touch what was homed in the lost region, by time after the loss";
        let rows: Vec<Line> =
            report.rows.iter().filter(|row| number(row, "after_ms").is_some()).cloned().collect();
        report.show(Plot::lines(caption, &rows, &["system"], ("after_ms", "commits")));
        report.rows.retain(|row| number(row, "after_ms").is_none());
    },
};

const CLIENTS: u32 = 120;
/// The one that leads the log of all regions, where there is one.
const LOST: RegionId = RegionId(2);
const LOST_AFTER_NS: u64 = 2 * SECOND;
const LASTS_NS: u64 = 8 * SECOND;

/// Leaders are missed after the default of 1,300 ms, or after this.
const SOON_NS: u64 = 600 * MS;

fn systems() -> [System; 6] {
    let [k1, k2] = [("caerus, K 1", 1), ("caerus, K 2", 2)].map(|(name, copies_elsewhere)| System {
        name,
        copies_elsewhere,
        ..CAERUS
    });
    let soon = |name, system| System { name, suspect_after_ns: Some(SOON_NS), ..system };
    [
        k1,
        k2,
        CALVIN,
        soon("caerus, K 1, missed after 0.6 s", k1),
        soon("caerus, K 2, missed after 0.6 s", k2),
        soon("calvin, missed after 0.6 s", CALVIN),
    ]
}

fn run(scale: Scale, seed: u64, part: usize, tell: &mut dyn FnMut(f64)) -> Findings {
    let system = systems()[part];
    let workload = Workload::BeginRide { close: 0.20, far: 0.10 };
    let case = Case { system, workload, place: Place::AndAsia, clients: CLIENTS };
    let size = Size { measured_ns: LASTS_NS, ..Size::of(scale) };
    let (mut world, shared) = scene::stage(&case, &size, seed);
    shared.seen.borrow_mut().committed = Some(Vec::new());
    let lost_at = shared.begin + LOST_AFTER_NS;
    let topology = shared.topology.clone();
    let lost: Vec<_> = topology.node_ids().filter(|node| topology.region_of(*node) == LOST).collect();
    lost.iter().for_each(|node| world.fault_at(lost_at, Fault::Crash(*node)));
    let until = shared.until + 10 * SECOND;
    while world.now() < until {
        world.run_until(world.now() + 100 * MS);
        tell(1.0 - until.since(world.now()) as f64 / until.since(shared.begin) as f64);
    }
    let mut seen = shared.seen.borrow_mut();
    seen.close(until);

    // Every answered ride is at every copy that is left.
    let table = shared.catalog.require(RIDES.name).expect("a table of MovR");
    let committed = seen.committed.take().expect("they were kept");
    let mut missing = 0;
    for args in &committed {
        let (home, ride) = (args[2].clone(), args[4].clone());
        let base::schema::Location::One(partition) = table.locate(&home, &topology) else {
            unreachable!("rides have homes")
        };
        let key = Key::of(&[home, ride]);
        let left =
            topology.node_ids().filter(|node| !lost.contains(node) && topology.holds(*node, partition));
        for node in left {
            let store = world.node(node).expect("it is up").store(partition);
            missing += u64::from(store.get(table.id, &key).is_none());
        }
    }
    let ended = |done: &Done| done.asked_at + done.latency_ns;
    let service = |is: &dyn Fn(&Done) -> bool| -> u64 {
        let mut ends: Vec<Time> = seen.done.iter().filter(|done| is(done)).map(ended).collect();
        ends.retain(|at| lost_at <= *at && *at <= shared.until);
        ends.sort_unstable();
        let from = std::iter::once(lost_at).chain(ends.iter().copied());
        let to = ends.iter().copied().chain([shared.until]);
        from.zip(to).map(|(from, to)| to.since(from)).max().unwrap_or(0)
    };
    let latency = |is: &dyn Fn(&Done) -> bool| {
        let mut latencies: Vec<u64> =
            seen.done.iter().filter(|done| is(done)).map(|d| d.latency_ns).collect();
        quantile_ms(&mut latencies, 0.5)
    };
    let touches_lost = |done: &Done| done.regions >> LOST.0 & 1 == 1;
    let without_ms = service(&touches_lost) as f64 / 1e6;
    let row: Line = vec![
        ("system", json!(system.name)),
        ("answered", json!(committed.len())),
        ("answered_and_lost", json!(missing)),
        ("without_service_ms", json!(without_ms)),
        ("without_service_elsewhere_ms", json!(service(&|done| !touches_lost(done)) as f64 / 1e6)),
        ("p50_before_ms", latency(&|done| ended(done) < lost_at)),
        ("p50_after_ms", latency(&|done| done.asked_at > lost_at + 3 * SECOND)),
        ("unanswered", json!(seen.unanswered)),
    ];
    let mut rows = vec![row];
    for slot in 0..(LASTS_NS - LOST_AFTER_NS + SECOND) / (100 * MS) {
        let from = lost_at + slot * 100 * MS - SECOND;
        let within =
            |done: &&Done| touches_lost(done) && from <= ended(done) && ended(done) < from + 100 * MS;
        rows.push(vec![
            ("system", json!(system.name)),
            ("after_ms", json!(slot as f64 * 100.0 - 1000.0)),
            ("commits", json!(seen.done.iter().filter(within).count())),
        ]);
    }
    let claims = vec![
        Claim { what: format!("{}: answered and lost", system.name), bound: 0.0, found: missing as f64 },
        Claim {
            what: format!("{}: unanswered at the end", system.name),
            bound: 0.0,
            found: seen.unanswered as f64,
        },
    ];
    let mut conditions = conditions(&size);
    let elsewhere = ["K", "TPC-C", "seconds measured, after 1 of warm-up"];
    conditions.retain(|(name, _)| !elsewhere.contains(name));
    conditions.push(("seconds, and when the region is lost", json!("8, after 2")));
    conditions.push(("clients", json!(CLIENTS)));
    conditions.push(("lost", json!("all nodes of region 2 (france), for good, with their clients")));
    conditions.push(("a leader is missed after (ms), unless said otherwise", json!(1300)));
    Findings { conditions, rows, claims }
}

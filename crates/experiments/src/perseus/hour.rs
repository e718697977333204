//! `perseus-hour`: low load for an hour of virtual time, and what nodes hold of it.
//!
//! Entries are counted ([`node::Node::held`]) ten times a minute, over all nodes; the most of the last half is held
//! against the most of the first. The micro-workload changes rows and adds none, so whatever grows is not
//! collected. One node of readers is cut off for half a minute, beyond its lease, and comes back.

use super::deployment::{Analytics, Deployment, Window};
use super::load::Cluster;
use super::scenes::{self, Clients, Queries};
use super::systems;
use crate::plot::Plot;
use crate::{Claim, Experiment, Findings, Report, Scale};
use base::NodeId;
use base::time::{MS, SECOND};
use serde_json::json;
use sim::world::Fault;
use std::collections::{BTreeMap, BTreeSet};
use workload::micro::Micro;

pub const EXPERIMENT: Experiment = Experiment {
    name: "perseus-hour",
    question: "Does memory stay flat in an hour of low load?",
    parts: |_| vec!["regular".into()],
    run,
    conclude,
};

/// Counts are taken this often.
const EVERY_NS: u64 = 6 * SECOND;
/// Some entries come and go: so many more in the second half are no growth. Old versions stay in columns until a
/// merge is worth it, at each of the five nodes that keep any.
fn slack(entries: &str) -> u64 {
    match entries {
        "column versions" => 5 * colstore::Options::default().merge_rows_min as u64,
        _ => 64,
    }
}

fn run(scale: Scale, seed: u64, _: usize, tell: &mut dyn FnMut(f64)) -> Findings {
    let minutes = match scale {
        Scale::Small => 3,
        Scale::Paper => 60,
    };
    let deployment = Deployment::new(1, Analytics::PerDataCentre);
    let sizes = Micro { homes: 20, keys_per_home: 50, skew: 0.5, keys_per_transaction: 4, remote: 0.3 };
    let queries = Queries { think_ns: 500 * MS, cpu_ns: 0 };
    let clients = Clients { terminals: 20, think_ns: 1000 * MS, analysts: 2, queries };
    let span = Window::seconds(10, 60 * minutes);
    // Nobody asks the last but one: its data centre's own columns are at the last.
    let away = BTreeSet::from([NodeId(deployment.topology().nodes.len() as u16 - 2)]);
    let system = systems::REGULAR;
    let mut scene =
        scenes::micro_scene(&deployment, &system, &sizes, clients, scenes::Scope::Local, span, seed);
    let (begin, until) = (scene.shared.begin, scene.shared.until);
    let third_ns = until.since(begin) / 3;
    scene.world.fault_at(begin + third_ns, Fault::Separate(away));
    scene.world.fault_at(begin + third_ns + 30 * SECOND, Fault::Reconnect);
    let mut most: BTreeMap<&'static str, [u64; 2]> = BTreeMap::new();
    scene.world.run_until(begin);
    let half = begin + until.since(begin) / 2;
    while scene.world.now() < until {
        let at = scene.world.now() + EVERY_NS;
        scene.world.run_until(at);
        let nth = usize::from(at > half);
        for (what, count) in held(&scene.world) {
            let most = &mut most.entry(what).or_default()[nth];
            *most = count.max(*most);
        }
        tell(at.since(begin) as f64 / until.since(begin) as f64);
    }
    let seen = scene.shared.take_seen();
    let rows = most.iter().map(|(what, [first, second])| {
        vec![
            ("entries", json!(what)),
            ("most_in_first_half", json!(first)),
            ("most_in_second_half", json!(second)),
        ]
    });
    let growth = |(what, [first, second]): (&&str, &[u64; 2])| {
        second.saturating_sub(slack(what)) as f64 / *first.max(&1) as f64
    };
    let worst = most.iter().map(growth).fold(0.0, f64::max);
    let mut conditions = deployment.conditions();
    conditions.extend([
        ("minutes of virtual time", json!(minutes)),
        ("transactions answered", json!(seen.committed + seen.aborted)),
        ("queries answered", json!(seen.queries.len())),
        ("messages", json!(scene.world.counters().messages())),
        ("entries are counted every (s)", json!(EVERY_NS / SECOND)),
        ("a node of readers is cut off for (s), a third into it", json!(30)),
    ]);
    let what = "most entries in the second half, less what may come and go, by the most in the first".into();
    Findings { conditions, rows: rows.collect(), claims: vec![Claim { what, bound: 1.2, found: worst }] }
}

/// Entries of all nodes.
fn held(world: &Cluster) -> BTreeMap<&'static str, u64> {
    let mut all = BTreeMap::new();
    for node in world.topology().node_ids().filter_map(|id| world.node(id)) {
        node.held().into_iter().for_each(|(what, count)| *all.entry(what).or_default() += count);
    }
    all
}

fn conclude(report: &mut Report) {
    let pieces = ["most_in_first_half"];
    report.show(Plot::stacked("Entries held by all nodes", &report.rows, &["entries"], "entries", &pieces));
}

//! Baselines' ways of reading, each held against what it claims, and shown to lack what it does not claim.

use base::cut::Consistency;
use base::time::{MS, SECOND};
use base::topology::{NodeSpec, Topology};
use base::wan::Wan;
use base::{NodeId, PartitionId, RegionId, Token};
use history::{Guarantee, check};
use node::request::{OpenSnapshot, Reply, Request};
use reads::protocol::Baseline;
use sim::cluster::layout::{LISTS, Layout};
use sim::cluster::run::{Case, Subject, promised_by, record, run, set_up, world};
use sim::cluster::script_client::ScriptClient;
use sim::plan::Plan;
use sim::world::Setup;
use std::collections::BTreeSet;
use std::sync::Arc;

const PLANS: [&str; 6] =
    ["wan3-calm", "wan3-lossy", "wan3-jittery", "wan3-partitions", "wan3-clock-skew", "wan2-mixed"];

fn case(baseline: Baseline, plan: &str, seed: u64) -> Case {
    Case { baseline: Some(baseline), ..Case::new(seed, Plan::named(plan).unwrap(), Consistency::Rss) }
}

/// A few seeds of every plan.
fn keeps(baseline: Baseline) {
    for plan in PLANS {
        for seed in 1..=3 {
            let summary = run(&case(baseline, plan, seed));
            let summary = summary.unwrap_or_else(|e| panic!("{} {plan} {seed}: {e}", baseline.name()));
            assert!(summary.operations > 0);
        }
    }
}

/// Some seed shows clients something that `guarantee` forbids, although the baseline kept what it promises.
fn lacks(baseline: Baseline, guarantee: Guarantee) {
    for seed in 1..=40 {
        let ((all, _), result) = record(&case(baseline, "wan3-calm", seed));
        result.unwrap();
        assert!(check(&all, promised_by(baseline)).is_ok());
        if check(&all, guarantee).is_err() {
            return;
        }
    }
    panic!("{} kept {guarantee} in every seed", baseline.name());
}

#[test]
fn safe_timestamps_are_serializable_and_keep_sessions() {
    keeps(Baseline::SafeTimestamp);
}

#[test]
fn safe_timestamps_miss_what_was_answered_before() {
    lacks(Baseline::SafeTimestamp, Guarantee::Regular);
}

#[test]
fn central_timestamps_are_regular_and_serializable() {
    keeps(Baseline::CentralTimestamp);
}

#[test]
fn batch_cuts_are_serializable() {
    keeps(Baseline::BatchCut);
}

#[test]
fn batch_cuts_miss_what_was_answered_before_and_even_a_sessions_own_writes() {
    lacks(Baseline::BatchCut, Guarantee::Regular);
    lacks(Baseline::BatchCut, Guarantee::Session);
}

#[test]
fn synchronous_replicas_are_regular_and_serializable() {
    keeps(Baseline::SynchronousReplica);
}

#[test]
fn baselines_are_found_by_name() {
    for baseline in Baseline::ALL {
        assert_eq!(Baseline::parse(baseline.name()), Some(baseline));
        assert!(sim::command::ENGINES.contains(&format!("perseus+{}", baseline.name()).as_str()));
    }
    assert_eq!(Baseline::parse("spanner"), None);
}

/// A floor that is made of what is collected already would hold collection where it is, as long as one query
/// begins before another ends.
#[test]
fn queries_that_are_always_open_do_not_stop_collection_by_baselines_or_levels() {
    let levels = [Consistency::Rss, Consistency::Regular].map(|level| (None, level));
    // The others' queries ask nobody, and are answered at once.
    let baselines =
        [Baseline::CentralTimestamp, Baseline::BatchCut].map(|baseline| (Some(baseline), Consistency::Rss));
    for (baseline, consistency) in levels.into_iter().chain(baselines) {
        let mut topology = Topology::one_node_per_region(Wan::preset("perseus3").unwrap().truncated(2), 1);
        let partitions: Vec<PartitionId> = topology.partition_ids().collect();
        topology.nodes.push(NodeSpec { region: RegionId(0), subscribes: partitions.clone() });
        let reader = NodeId(2);
        let layout = Arc::new(Layout::new(Arc::new(topology.clone()), 1, 1));
        let engine = txn::perseus::Options {
            timestamps: match baseline {
                Some(Baseline::CentralTimestamp) => txn::perseus::Timestamps::Central,
                _ => txn::perseus::Timestamps::Clocks,
            },
            ..Default::default()
        };
        let mut world =
            world(Setup::calm(topology, 1), engine, node::Options { baseline, ..Default::default() });
        set_up(&mut world, &layout);
        let began = world.now();
        for _ in 0..4 {
            let partitions: BTreeSet<PartitionId> = partitions.iter().copied().collect();
            let (client, _) = ScriptClient::<Subject>::new(move |replies| {
                assert!(!matches!(replies.last(), Some(Reply::Snapshot(Err(_)))), "a query is refused");
                let tables = [(LISTS, partitions.clone())].into();
                let open = OpenSnapshot {
                    at: None,
                    consistency,
                    token: Token::default(),
                    tables,
                    wanted: Default::default(),
                };
                Some((reader, Request::OpenSnapshot(open)))
            });
            world.client(client);
            let until = world.now() + 23 * MS;
            world.run_until(until);
        }
        world.run_until(began + 6 * SECOND);
        let (client, replies) = ScriptClient::<Subject>::new(|replies| {
            replies.is_empty().then_some((NodeId(0), Request::Status))
        });
        world.client(client);
        world.run_until(began + 7 * SECOND);
        let Some(Reply::Status(status)) = replies.borrow_mut().pop() else { panic!("no status") };
        let collected_below = status.collected_below;
        assert!(
            collected_below > (began + 2 * SECOND).rank(),
            "{baseline:?} {consistency:?}: {collected_below}"
        );
    }
}

//! SLOG and Calvin: what their papers say of them, and that what is planted is noticed.

use super::exhaustive::explore;
use super::judge::judge;
use super::random::run;
use super::recovery::{lose_after, turmoil};
use super::{Faults, World};
use crate::baseline::{calvin, slog};
use crate::caerus::message::Message;
use crate::caerus::options::{Ranks, Replication};
use crate::caerus::{Agreement, FutureRanks, Mutant, Options, Routing};
use crate::trial::panics;
use base::time::MS;
use base::topology::{NodeSpec, PartitionSpec, Topology};
use base::txn::Granule;
use base::wan::Wan;
use base::{NodeId, RegionId, TxnId};

const BOTH: [Routing; 2] = [slog::ROUTING, calvin::ROUTING];

fn options(routing: Routing) -> Options {
    match routing {
        Routing::Direct => Options::default(),
        slog::ROUTING => slog::options(),
        calvin::ROUTING => calvin::options(),
    }
}

/// Regions `across_ms` from each other, one partition each.
fn world(regions: usize, across_ms: u64, options: Options) -> World {
    let wan = Wan::uniform("test", &["a", "b", "c", "d", "e"][..regions], MS, across_ms * MS);
    World::with(1, Topology::one_node_per_region(wan, 1).replicated(), options)
}

#[test]
fn random_worlds_are_serializable_in_rank_order_in_all_regions() {
    for routing in BOTH {
        for seed in 0..25 {
            let mut world = run(seed, 120, Some(options(routing)));
            judge(&world);
            world.check_empty();
        }
    }
}

#[test]
fn random_worlds_lose_regions_and_nothing_that_was_answered() {
    // With SLOG a region that is lost comes back with what it knew, or everything of its waits.
    for routing in BOTH {
        for seed in 0..25 {
            judge(&turmoil(seed, routing, None));
        }
    }
}

#[test]
fn calvin_may_lose_a_region_at_every_message() {
    for region in 0..3 {
        let mut events = 0;
        while lose_after(calvin::ROUTING, events, region, events % 4 == 0) {
            events += 1;
        }
        assert!(events > 10, "{events}");
    }
}

#[test]
fn every_order_of_a_few_messages() {
    let crossed = [(0, "w0.1 w1.1"), (1, "w1.1 w0.1")];
    for routing in BOTH {
        explore(2, &options(routing), &crossed, usize::MAX);
        for c in ["w0.1", "w1.1", "r0.1", "r1.1 w0.2"] {
            let states = explore(2, &options(routing), &[crossed[0], crossed[1], (0, c)], 4000);
            assert!(states > 30, "{states}");
        }
        let ring = [(0, "w0.1 w1.1"), (1, "w1.1 w2.1"), (2, "w2.1 w0.1")];
        let states = explore(3, &options(routing), &ring, 3000);
        assert!(states > 1000, "{states}");
    }
}

#[test]
fn slog_those_of_several_regions_crossed_with_those_of_one_wait_for_nobody_in_a_circle() {
    let mut world = world(3, 40, slog::options());
    world.faults = Faults { jitter_ns: 30 * MS, ..Faults::default() };
    let mut all = Vec::new();
    for n in 0..300u16 {
        let text = ["w0.1 w1.1", "w1.1", "w1.1 w2.1", "w0.1", "w2.1 w0.1", "w2.1"][usize::from(n % 6)];
        all.push(world.submit(n * 7 % 3, text));
        world.run_for_ms(1);
    }
    world.run_for_ms(3000);
    assert!(all.iter().all(|txn| world.has_ended(txn)));
    judge(&world);
    // Those that several logs have are in the same order in each of them.
    let spans = |txn: &TxnId| world.submitted[txn].1.by_partition.len() > 1;
    let order = |partition| world.order(0, partition).into_iter().filter(spans).collect::<Vec<_>>();
    let [first, second] = [order(0), order(1)];
    let shared: Vec<TxnId> = first.iter().copied().filter(|txn| second.contains(txn)).collect();
    assert!(second.into_iter().filter(|txn| shared.contains(txn)).eq(shared.iter().copied()));
    assert_eq!(shared.len(), 50);
    world.run_for_ms(1000);
    world.check_empty();
}

#[test]
fn calvin_empty_epochs_advance() {
    let mut world = world(3, 40, calvin::options());
    world.run_for_ms(500);
    for region in 0..3 {
        world.close(u64::from(region), region, 1, world.now.rank(), vec![Granule::Partition]);
    }
    world.run_for_ms(60);
    assert_eq!(world.closed.len(), 3, "nobody writes, and readers of all regions go on");
    let collected = world.watermarks.clone();
    world.run_for_ms(500);
    assert!(world.watermarks.iter().zip(&collected).all(|(now, before)| now > before));
    judge(&world);
}

#[test]
fn what_an_order_of_all_regions_costs() {
    // Region 0 is 10 ms from 1, and 2 is 50 ms from both: 0 leads, and 0 and 1 are a majority.
    let wan = |routing| {
        let mut wan = Wan::uniform("test", &["a", "b", "c"], MS, 50 * MS);
        (wan.round_trip_ns[0][1], wan.round_trip_ns[1][0]) = (10 * MS, 10 * MS);
        let options = Options { ranks: unadjusted(), ..options(routing) };
        World::with(1, Topology::one_node_per_region(wan, 1).replicated(), options)
    };
    let measure = |routing, gateway: u16, text: &str| {
        let mut world = wan(routing);
        world.run_for_ms(200);
        let txn = world.submit(gateway, text);
        world.run_for_ms(1000);
        judge(&world);
        world.latency_ms(txn)
    };
    let near = |found: f64, expected: f64| {
        assert!((expected..=expected + 3.0).contains(&found), "{found}, not {expected}")
    };
    // Calvin: to the leader and back, whatever is touched; what comes from it is in two of three regions. The
    // leader itself waits for another's word.
    for text in ["w0.1", "w2.1", "w0.1 w1.1 w2.1"] {
        near(measure(calvin::ROUTING, 0, text), 10.0);
        near(measure(calvin::ROUTING, 1, text), 5.0 + 5.0);
        near(measure(calvin::ROUTING, 2, text), 25.0 + 25.0);
    }
    // SLOG: at home nothing; elsewhere the way there and back.
    near(measure(slog::ROUTING, 1, "w1.1"), 0.0);
    near(measure(slog::ROUTING, 2, "w1.1"), 50.0);
    // Several regions: to the leader; until each has the order; and the latest piece's way.
    near(measure(slog::ROUTING, 1, "w0.1 w1.1"), 5.0 + 10.0 + 5.0);
    near(measure(slog::ROUTING, 0, "w0.1 w2.1"), 25.0 + 25.0);
    near(measure(slog::ROUTING, 2, "w0.1 w2.1"), 25.0 + 10.0 + 25.0);
    // And Caerus one round trip to the farthest.
    near(measure(Routing::Direct, 1, "w0.1 w1.1"), 10.0);
    near(measure(Routing::Direct, 2, "w0.1 w2.1"), 50.0);
}

/// Stamps are clock readings.
fn unadjusted() -> Ranks {
    Ranks { future: FutureRanks::Off, ..Ranks::default() }
}
fn two_rounds() -> Replication {
    Replication { agreement: Agreement::PaxosPerEntry, ..Replication::default() }
}
fn three_machines() -> Replication {
    Replication { machines_inside: 3, ..Replication::default() }
}

/// What a transaction of all three regions costs the leader's own clients with Calvin, where Paxos decides each entry.
fn two_rounds_ms(mutant: Option<Mutant>) -> f64 {
    let options = Options { ranks: unadjusted(), replication: two_rounds(), mutant, ..calvin::options() };
    let mut world = world(3, 40, options);
    world.run_for_ms(200);
    let leader = world.nodes[0].cluster.global.expect("there is a log of all regions").home.0;
    let txn = world.submit(leader, "w0.1 w1.1 w2.1");
    world.run_for_ms(1000);
    judge(&world);
    world.latency_ms(txn)
}

#[test]
fn paxos_for_each_entry_takes_a_round_more() {
    let found = two_rounds_ms(None);
    assert!((80.0..83.0).contains(&found), "{found}");
    // Nothing is acted on before its first round is over: without it, half the time is enough.
    assert!(two_rounds_ms(Some(Mutant::SkipFirstRound)) < 45.0);
    // A round that is lost is asked for again.
    let options = Options { replication: two_rounds(), ..calvin::options() };
    let mut world = world(3, 40, options);
    world.run_for_ms(200);
    world.passes = Box::new(|_, _, message| !matches!(message, Message::Prepared { .. }));
    let txn = world.submit(0, "w0.1");
    world.run_for_ms(500);
    assert!(!world.has_ended(&txn), "nobody has promised its place");
    world.passes = Box::new(|_, _, _| true);
    world.run_for_ms(1000);
    judge(&world);
    world.check_empty();
}

/// Two regions of three nodes each, which keep their region's sequence together.
fn three_inside(routing: Routing, mutant: Option<Mutant>) -> World {
    let wan = Wan::uniform("test", &["a", "b"], MS, 40 * MS);
    let (mut nodes, mut partitions) = (Vec::new(), Vec::new());
    for region in (0..6).map(|n| RegionId(n / 3)) {
        let (node, copies) = (NodeId(nodes.len() as u16), Vec::new());
        nodes.push(NodeSpec { region, subscribes: Vec::new() });
        partitions.push(PartitionSpec { region, node, copies });
    }
    let topology = Topology::of(wan, nodes, partitions).replicated();
    let options = Options { replication: three_machines(), ranks: unadjusted(), mutant, ..options(routing) };
    World::with(1, topology, options)
}

/// Nothing is answered, nor goes elsewhere, that only one machine of a region has.
fn one_machine_has_it(routing: Routing, mutant: Option<Mutant>) {
    let mut world = three_inside(routing, mutant);
    world.run_for_ms(100);
    let kept_for = world.submit(0, "w0.1");
    let everywhere = world.submit(0, "w0.2 w3.2");
    world.run_for_ms(300);
    // The leader asks one of two, which has it and says so.
    assert!((1.0..3.0).contains(&world.latency_ms(kept_for)), "{}", world.latency_ms(kept_for));
    assert!(world.has_ended(&everywhere));
    world.passes = Box::new(|from, to, _| from != NodeId(0) || to.0 > 2);
    let lost = [world.submit(0, "w0.1"), world.submit(0, "w0.2 w3.2")];
    world.run_for_ms(300);
    assert!(lost.iter().all(|txn| !world.has_ended(txn)), "one machine has them");
    assert!(!world.order(3, 0).contains(&lost[0]), "nor do others know");
    world.passes = Box::new(|from, to, _| (from, to) != (NodeId(0), NodeId(1)));
    world.run_for_ms(1000);
    assert!(lost.iter().all(|txn| world.has_ended(txn)), "two are enough");
    world.passes = Box::new(|_, _, _| true);
    world.run_for_ms(2000);
    judge(&world);
    world.check_empty();
}

#[test]
fn an_entry_counts_once_two_machines_of_three_have_it() {
    for routing in [Routing::Direct, slog::ROUTING] {
        one_machine_has_it(routing, None);
        assert!(panics(|| one_machine_has_it(routing, Some(Mutant::CountBeforeKept))));
    }
}

#[test]
fn calvin_loses_its_leader_and_goes_on_and_slog_waits_for_its_own() {
    for routing in BOTH {
        let mut world = world(3, 40, options(routing));
        world.run_for_ms(200);
        let leader = world.nodes[0].cluster.global.expect("there is a log of all regions").home.0;
        let gateway = (leader + 1) % 3;
        let before = world.submit(gateway, "w0.1 w1.1 w2.1");
        world.run_for_ms(500);
        world.kill(leader);
        let meanwhile = world.submit(gateway, "w0.1 w1.1 w2.1");
        let own = world.submit(gateway, &format!("w{gateway}.2"));
        world.run_for_ms(5000);
        assert!(world.has_ended(&before) && world.has_ended(&own));
        // The lost region's own log is nobody else's.
        assert_eq!(world.has_ended(&meanwhile), routing == calvin::ROUTING);
        world.heal();
        world.run_for_ms(10_000);
        judge(&world);
        world.check_empty();
    }
}

/// A leader that answers and is lost at once.
fn answered_and_lost(routing: Routing, mutant: Option<Mutant>) {
    let mut world = world(3, 40, Options { mutant, ..options(routing) });
    world.run_for_ms(200);
    let leader = world.nodes[0].cluster.global.expect("there is a log of all regions").home;
    world.passes = Box::new(move |from, to, _| from.0 != leader.0 || to.0 == leader.0);
    world.submit(leader.0, "w0.1 w1.1 w2.1");
    world.run_for_ms(100);
    world.kill(leader.0);
    world.passes = Box::new(|_, _, _| true);
    world.run_for_ms(5000);
    let last = world.submit((leader.0 + 1) % 3, "w0.1");
    world.run_for_ms(1000);
    assert!(world.has_ended(&last));
    judge(&world);
    world.heal();
    world.run_for_ms(10_000);
    judge(&world);
}

#[test]
fn what_is_planted_is_noticed() {
    answered_and_lost(calvin::ROUTING, None);
    assert!(panics(|| answered_and_lost(calvin::ROUTING, Some(Mutant::ActBeforeAgreement))));
    let caught = |routing, mutant| {
        let planted = Options { mutant: Some(mutant), ..options(routing) };
        (0..60).any(|seed| panics(|| judge(&run(seed, 80, Some(planted.clone())))))
    };
    let all = [
        (slog::ROUTING, Mutant::PiecesAsTheyCome),
        // It executes with the first piece.
        (slog::ROUTING, Mutant::PlaceIncomplete),
        (slog::ROUTING, Mutant::MissingAntiDependency),
        (slog::ROUTING, Mutant::ForgetEmittedRanks),
        (slog::ROUTING, Mutant::CloseIgnoresUndecided),
        (slog::ROUTING, Mutant::NoReplyGate),
        (calvin::ROUTING, Mutant::MissingAntiDependency),
        (calvin::ROUTING, Mutant::InvertedWriteWrite),
        (calvin::ROUTING, Mutant::PrefixReads),
        (calvin::ROUTING, Mutant::StampIsNow),
    ];
    let unnoticed: Vec<_> = all.into_iter().filter(|(routing, mutant)| !caught(*routing, *mutant)).collect();
    assert!(unnoticed.is_empty(), "{unnoticed:?} go unnoticed");
    let caught =
        |mutant| (0..240).any(|seed| panics(|| judge(&turmoil(seed, calvin::ROUTING, Some(mutant)))));
    let all = [Mutant::LeadAlone, Mutant::KeepOwnLog, Mutant::ForgetPromises, Mutant::ActBeforeAgreement];
    let unnoticed: Vec<_> = all.into_iter().filter(|mutant| !caught(*mutant)).collect();
    assert!(unnoticed.is_empty(), "{unnoticed:?} go unnoticed");
}

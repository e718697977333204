//! Latencies in virtual time, under a load like TPC-C's: what the protocol should cost, and no more.

use super::{Faults, World, access};
use crate::caerus::options::Ranks;
use crate::caerus::{FutureRanks, Options};
use base::TxnId;
use base::order::CloseTicket;
use base::rng::Rng;
use base::time::{MS, SECOND};
use base::txn::Granule;
use std::collections::BTreeSet;

const PER_REGION: u64 = 10;

/// A partition is a warehouse: key 0 its row, 1 to 10 districts, then customers, then stock.
fn transaction(draw: &mut Rng, home: u64) -> String {
    let district = 1 + draw.below(10);
    let mut other = home;
    while other == home {
        other = draw.below(3 * PER_REGION);
    }
    let customer = 100 + draw.below(30_000);
    if draw.chance(0.5) {
        let mut text = format!("r{home}.0 w{home}.{district} r{home}.{customer}");
        for _ in 0..10 {
            let supplier = if draw.chance(0.01) { other } else { home };
            text += &format!(" w{supplier}.{}", 100_000 + draw.below(100_000));
        }
        text
    } else {
        let payer = if draw.chance(0.15) { other } else { home };
        format!("w{home}.0 w{home}.{district} w{payer}.{customer}")
    }
}

struct Measured {
    single_ms: Vec<f64>,
    multi_ms: Vec<f64>,
    close_ms: Vec<f64>,
}

fn at(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * share) as usize]
}

fn measure(options: Options) -> Measured {
    let mut world = World::new(1, 3, PER_REGION as u16, 0, options);
    world.faults = Faults { jitter_ns: 4 * MS, ..Faults::default() };
    let mut draw = Rng::new(1);
    let mut spans: Vec<(TxnId, bool)> = Vec::new();
    let mut tickets = Vec::new();
    let end = world.now + 4 * SECOND;
    while world.now < end {
        // 10 transactions per second and warehouse.
        world.run_until(world.now + 1 + draw.below(2 * SECOND / (10 * 3 * PER_REGION)));
        let home = draw.below(3 * PER_REGION);
        let text = transaction(&mut draw, home);
        let set = access(&text);
        let regions: BTreeSet<u64> = set.by_partition.keys().map(|p| u64::from(p.0) / PER_REGION).collect();
        let txn = world.submit((home / PER_REGION) as u16, &text);
        spans.push((txn, regions.len() > 1));
        if draw.chance(0.2) {
            let ticket = tickets.len() as u64;
            tickets.push(CloseTicket(ticket));
            let partition = draw.below(3 * PER_REGION);
            let reader = (partition / PER_REGION) as u16;
            world.close(ticket, reader, partition as u16, world.now.rank(), vec![Granule::Partition]);
        }
    }
    world.run_for_ms(5000);
    let mut measured = Measured { single_ms: Vec::new(), multi_ms: Vec::new(), close_ms: Vec::new() };
    for (txn, spans) in spans {
        let list = if spans { &mut measured.multi_ms } else { &mut measured.single_ms };
        list.push(world.latency_ms(txn));
    }
    for ticket in tickets {
        let waited_ns = world.closed[&ticket].0.since(world.closes[&ticket].0);
        measured.close_ms.push(waited_ns as f64 / MS as f64);
    }
    for list in [&mut measured.single_ms, &mut measured.multi_ms, &mut measured.close_ms] {
        list.sort_by(f64::total_cmp);
    }
    measured
}

#[test]
fn one_region_answers_at_once_and_several_after_one_round_trip() {
    let with = measure(Options::default());
    assert!(at(&with.single_ms, 0.5) < 1.0);
    // A round trip is 100 to 108 ms; a batch's interval is 2.
    assert!(at(&with.multi_ms, 0.5) < 1.05 * 104.0 + 2.0, "{}", at(&with.multi_ms, 0.5));
    assert!(at(&with.close_ms, 0.5) == 0.0);
    assert!(at(&with.close_ms, 0.95) < 10.0, "{}", at(&with.close_ms, 0.95));
    let ranks = Ranks { future: FutureRanks::Off, ..Ranks::default() };
    let without = measure(Options { ranks, ..Options::default() });
    let (with, without) = (at(&with.close_ms, 0.95), at(&without.close_ms, 0.95));
    assert!(without > 20.0, "the rule buys something: {with} and {without}");
}

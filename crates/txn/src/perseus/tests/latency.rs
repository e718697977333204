//! Latencies in virtual time, under a load like TPC-C's: what the protocol should cost, and no more.

use super::{Faults, World, access};
use crate::perseus::{FutureRanks, Options};
use base::TxnId;
use base::order::CloseTicket;
use base::rng::Rng;
use base::time::{MS, SECOND};
use base::txn::Granule;

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
        let regions: std::collections::BTreeSet<u64> =
            set.by_partition.keys().map(|p| u64::from(p.0) / PER_REGION).collect();
        let txn = world.submit((home / PER_REGION) as u16, set);
        spans.push((txn, regions.len() > 1));
        if draw.chance(0.2) {
            let ticket = tickets.len() as u64;
            tickets.push(CloseTicket(ticket));
            world.close(
                ticket,
                draw.below(3 * PER_REGION) as u16,
                world.now.rank(),
                vec![Granule::Partition],
            );
        }
    }
    world.run_for_ms(5000);
    let mut measured = Measured { single_ms: Vec::new(), multi_ms: Vec::new(), close_ms: Vec::new() };
    for (txn, spans) in spans {
        let latency_ns = world.answers[&txn].0.since(world.submitted[&txn].0);
        let list = if spans { &mut measured.multi_ms } else { &mut measured.single_ms };
        list.push(latency_ns as f64 / MS as f64);
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
fn a_quiet_region_answers_at_once_and_others_after_two_round_trips() {
    let with = measure(Options::default());
    assert!(at(&with.single_ms, 0.5) < 1.0);
    // A round trip is 100 to 108 ms.
    assert!(at(&with.multi_ms, 0.5) < 2.1 * 108.0 + 10.0);
    assert!(at(&with.close_ms, 0.5) == 0.0 && at(&with.close_ms, 0.99) < 15.0);
    let without = measure(Options { future_ranks: FutureRanks::Off, ..Options::default() });
    assert!(at(&without.close_ms, 0.9) > 20.0, "the rule buys something");
}

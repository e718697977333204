//! What clients of a small world ask for: transactions of every shape, or a load like TPC-C's with its latencies.

use super::access;
use super::world::{Faults, Subject, World};
use base::TxnId;
use base::order::CloseTicket;
use base::rng::Rng;
use base::time::{MS, SECOND};
use std::collections::BTreeSet;

/// A transaction of a client in this region, as [`access`] reads it: keys and ranges of a few partitions, with probability
/// `multi` of several regions; and now and then DDL, which conflicts with everything.
pub fn transaction(
    draw: &mut Rng,
    region: u16,
    regions: u16,
    partitions: u16,
    keys: u64,
    multi: f64,
) -> String {
    if draw.chance(0.01) {
        return (0..regions * partitions).map(|p| format!("w{p} ")).collect();
    }
    let mut words = Vec::new();
    let remote = draw.chance(multi);
    let spread = if remote { 1 + draw.below(3) } else { 1 };
    for nth in 0..=spread {
        let region = if remote && nth > 0 { draw.below(u64::from(regions)) as u16 } else { region };
        let partition = u64::from(region * partitions) + draw.below(u64::from(partitions));
        words.push(word(draw, partition, keys));
    }
    words.join(" ")
}

/// A key of a partition, or a few, read or written.
pub fn word(draw: &mut Rng, partition: u64, keys: u64) -> String {
    let mode = if draw.chance(0.6) { "w" } else { "r" };
    let low = draw.below(keys);
    match draw.below(10) {
        0 => format!("{mode}{partition}.{low}-{}", low + draw.below(4)),
        _ => format!("{mode}{partition}.{low}"),
    }
}

/// Regions of the load that is measured, and warehouses in each: one is a partition.
const REGIONS: u64 = 3;
pub const PER_REGION: u64 = 10;

/// Latencies, in order.
#[derive(Default)]
pub struct Latencies {
    pub single_ms: Vec<f64>,
    pub multi_ms: Vec<f64>,
    pub close_ms: Vec<f64>,
}

/// So many of these are at most this.
pub fn at(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * share) as usize]
}

/// Four seconds of TPC-C in a world of three regions. `submit` hands a transaction to a region, `close` closes all of a
/// partition now.
pub fn measure<E: Subject>(
    mut world: World<E>,
    submit: impl Fn(&mut World<E>, u16, &str) -> TxnId,
    close: impl Fn(&mut World<E>, u64, u16),
) -> Latencies {
    world.faults = Faults { jitter_ns: 4 * MS, ..Faults::default() };
    let mut draw = Rng::new(1);
    let mut spans: Vec<(TxnId, bool)> = Vec::new();
    let mut tickets = Vec::new();
    let end = world.now + 4 * SECOND;
    while world.now < end {
        // 10 transactions per second and warehouse.
        world.run_until(world.now + 1 + draw.below(2 * SECOND / (10 * REGIONS * PER_REGION)));
        let home = draw.below(REGIONS * PER_REGION);
        let text = tpcc(&mut draw, home);
        let set = access(&text);
        let regions: BTreeSet<u64> = set.by_partition.keys().map(|p| u64::from(p.0) / PER_REGION).collect();
        spans.push((submit(&mut world, (home / PER_REGION) as u16, &text), regions.len() > 1));
        if draw.chance(0.2) {
            let ticket = tickets.len() as u64;
            tickets.push(CloseTicket(ticket));
            close(&mut world, ticket, draw.below(REGIONS * PER_REGION) as u16);
        }
    }
    world.run_for_ms(5000);
    let mut latencies = Latencies::default();
    for (txn, spans) in spans {
        let latency_ns = world.answers[&txn].0.since(world.submitted[&txn].0);
        let list = if spans { &mut latencies.multi_ms } else { &mut latencies.single_ms };
        list.push(latency_ns as f64 / MS as f64);
    }
    for ticket in tickets {
        let waited_ns = world.closed[&ticket].0.since(world.closes[&ticket].0);
        latencies.close_ms.push(waited_ns as f64 / MS as f64);
    }
    for list in [&mut latencies.single_ms, &mut latencies.multi_ms, &mut latencies.close_ms] {
        list.sort_by(f64::total_cmp);
    }
    latencies
}

/// A partition is a warehouse: key 0 its row, 1 to 10 districts, then customers, then stock.
fn tpcc(draw: &mut Rng, home: u64) -> String {
    let district = 1 + draw.below(10);
    let mut other = home;
    while other == home {
        other = draw.below(REGIONS * PER_REGION);
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

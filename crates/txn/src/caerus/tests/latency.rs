//! Latencies in virtual time, under a load like TPC-C's: what the protocol should cost, and no more.

use super::World;
use crate::caerus::options::Ranks;
use crate::caerus::{FutureRanks, Options};
use crate::trial::load::{self, Latencies, PER_REGION, at};
use base::txn::Granule;

fn measure(options: Options) -> Latencies {
    let world = World::new(1, 3, PER_REGION as u16, 0, options);
    load::measure(
        world,
        |world, region, text| world.submit(region, text),
        |world, ticket, partition| {
            let reader = partition / PER_REGION as u16;
            world.close(ticket, reader, partition, world.now.rank(), vec![Granule::Partition]);
        },
    )
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

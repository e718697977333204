//! Latencies in virtual time, under a load like TPC-C's: what the protocol should cost, and no more.

use super::World;
use crate::perseus::{FutureRanks, Options};
use crate::trial::access;
use crate::trial::load::{self, Latencies, PER_REGION, at};
use base::txn::Granule;

fn measure(options: Options) -> Latencies {
    let world = World::new(1, 3, PER_REGION as u16, 0, options);
    load::measure(
        world,
        |world, region, text| world.submit(region, access(text)),
        |world, ticket, partition| {
            world.close(ticket, partition, world.now.rank(), vec![Granule::Partition]);
        },
    )
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

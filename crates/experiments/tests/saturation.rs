//! Goodput beyond saturation, in virtual time: the figures are the same on every machine.

use base::time::MS;
use experiments::Scale;
use experiments::deterministic::scene::{self, Case, Place, Size, Workload};
use sim::world::Cost;

/// Commits within the window that is measured, and what was asked for in it.
fn goodput(clients: u32) -> (u64, u64) {
    // Nodes ten times slower per byte than at scale `small` are as saturated with a tenth of its load, and cheap to run.
    let size = Size::of(Scale::Small);
    let cost = Cost { kilobyte_ns: 10 * size.cost.kilobyte_ns, ..size.cost };
    let (per_client_per_s, homes_per_region) = (4, 4);
    let (warm_up_ns, measured_ns) = (500 * MS, 700 * MS);
    let size = Size { per_client_per_s, homes_per_region, warm_up_ns, measured_ns, cost, ..size };
    let workload = Workload::NewOrder { of_multi_warehouse: 1.0 };
    let case = Case { system: scene::CAERUS, workload, place: Place::AndAsia, clients };
    let shared = scene::run(&case, &size, 31337, &mut |_| {});
    let seen = shared.seen.borrow();
    (seen.throughput, per_client_per_s * u64::from(clients) * measured_ns / (1000 * MS))
}

/// What cannot be served must cost little: nothing is sent again because a node is slow, batches grow.
#[test]
fn twice_the_saturating_load_leaves_nine_tenths_of_the_goodput() {
    let (saturated, asked) = goodput(150);
    assert!(10 * saturated < 9 * asked, "{saturated} of {asked}: it is to be saturated");
    let (beyond, asked) = goodput(300);
    println!("{saturated} commits, with twice the load {beyond} of {asked}");
    assert!(10 * beyond >= 9 * saturated, "{saturated} commits, with twice the load {beyond} of {asked}");
}

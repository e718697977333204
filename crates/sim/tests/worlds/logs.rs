//! Engines slog and calvin under the same load and faults: whoever is compared with is correct as well.

use base::cut::Consistency;
use sim::cluster::run::{self, Case};
use sim::command::guarded;
use sim::plan::{Mix, Plan};
use txn::any::EngineKind;

/// Runs seeds; the first that fails is the test's failure.
fn seeds(engine: EngineKind, plan: &str, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let case = Case { engine, ..Case::new(seed, Plan::named(plan).unwrap(), Consistency::Rss) };
        guarded(&case, engine.name(), || run::run(&case)).unwrap_or_else(|e| panic!("{e}"));
    }
}

#[test]
fn queries_are_regular_sequential_on_ordered_logs_too() {
    for engine in [EngineKind::Slog, EngineKind::Calvin] {
        for mix in
            [Mix::Calm, Mix::Lossy, Mix::Jittery, Mix::Partitions, Mix::ClockSkew, Mix::Mixed, Mix::Crash]
        {
            seeds(engine, &format!("wan3-{}", mix.name()), 0..8);
        }
        seeds(engine, "wan5-partitions", 0..3);
        seeds(engine, "azure6-mixed", 0..2);
        seeds(engine, "wan2-mixed", 0..3);
    }
    // A new leader gave up versions that one it had taken over, and not merged, had read.
    seeds(EngineKind::Calvin, "wan3-mixed", 27..28);
}

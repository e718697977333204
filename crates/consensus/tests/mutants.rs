//! The checks bite: faults planted in a member are found by some seed. Rarer ones have scenarios.

mod harness;

use base::time::MS;
use consensus::Mutant;
use harness::{Plan, run};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Seeds tried before a fault counts as missed.
const SEEDS: u64 = 60;

/// The first seed that finds the fault.
fn finds(mutant: Mutant) -> Option<u64> {
    (0..SEEDS).find(|&seed| {
        let mut plan = Plan::draw(seed);
        plan.options.mutant = Some(mutant);
        if plan.members == 1 {
            plan.members = 3;
        }
        plan.active_ns = 800 * MS;
        // Trouble that comes often, and disks that are slow enough for it to come between.
        plan.trouble_every_ns = 20 * MS;
        plan.sync_ns_max = plan.sync_ns_max.max(5 * MS);
        if seed % 2 == 0 {
            plan.options.election_ns = (40 * MS, 60 * MS);
            plan.delay_ns_max = 10 * MS;
        }
        catch_unwind(AssertUnwindSafe(|| run(plan))).is_err()
    })
}

#[test]
fn planted_faults_are_found() {
    std::panic::set_hook(Box::new(|_| {}));
    let all = [Mutant::AnswersBeforeSync, Mutant::VotesForShorterLogs, Mutant::HalfIsEnough];
    let found = all.iter().map(|&mutant| {
        let seed = finds(mutant);
        println!("{mutant:?}: {seed:?}");
        (mutant, seed)
    });
    let found: Vec<_> = found.collect();
    _ = std::panic::take_hook();
    let missed: Vec<_> = found.iter().filter(|(_, seed)| seed.is_none()).collect();
    assert!(missed.is_empty(), "no seed finds {missed:?}");
}

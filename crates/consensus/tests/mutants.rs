//! The checks bite: faults planted in a member are found by some seed. Not by so few: `ForgetsPromise` (one
//! seed in thousands), `ForgetsVote`, `CommitsOldTerms`, `BreaksPromise` and `TrustsClocks`; these need scenarios.

mod harness;

use base::time::MS;
use consensus::Mutant;
use harness::{Plan, run};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Seeds tried before a fault counts as missed.
const SEEDS: u64 = 400;

/// The first seed that finds the fault.
fn finds(mutant: Mutant) -> Option<u64> {
    (0..SEEDS).find(|&seed| {
        let mut plan = Plan::draw(seed);
        plan.options.mutant = Some(mutant);
        // Only what goes wrong is of interest: much trouble, slow disks, votes that are always wanted.
        (plan.active_ns, plan.demands_progress) = (1_000 * MS, false);
        plan.trouble_every_ns = [10, 20, 60, 120][seed as usize / 4 % 4] * MS;
        plan.sync_ns_max = plan.sync_ns_max.max(5 * MS);
        plan.members = if seed % 4 == 3 { 5 } else { 3 };
        if seed % 2 == 0 {
            plan.options.election_ns = (40 * MS, 60 * MS);
            plan.delay_ns_max = 10 * MS;
        }
        if seed % 3 == 0 {
            (plan.options.lease_ns, plan.options.clock_bound_ns) = (0, 0);
        }
        if seed % 5 < 2 {
            (plan.options.message_bytes_max, plan.options.messages_ahead_max) = (1, 1);
        }
        catch_unwind(AssertUnwindSafe(|| run(plan))).is_err()
    })
}

#[test]
fn planted_faults_are_found() {
    std::panic::set_hook(Box::new(|_| {}));
    let all = [
        Mutant::AnswersBeforeSync,
        Mutant::VotesForShorterLogs,
        Mutant::HalfIsEnough,
        Mutant::KeepsConflicts,
        Mutant::CommitsUnmatched,
    ];
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

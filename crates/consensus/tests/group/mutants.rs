//! The checks bite: each fault planted in a member is found by a scene, by some seed, or by exploring.

use crate::explorer::{SCOPES, explore};
use crate::scenarios::SCENES;
use crate::world::{Plan, run};
use base::time::MS;
use consensus::{Mutant, Options};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Seeds tried before a fault counts as missed by chance.
const SEEDS: u64 = 120;

fn breaks(run: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(run)).is_err()
}

fn planted(mutant: Mutant) -> Options {
    Options { mutant: Some(mutant), ..Options::default() }
}

/// The first seed that finds the fault.
fn seed_that_finds(mutant: Mutant) -> Option<u64> {
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
        if seed % 7 < 3 {
            (plan.checkpoints, plan.options.entries_kept) = (0.1, 0);
        }
        if seed % 5 < 2 {
            (plan.options.message_bytes_max, plan.options.messages_ahead_max) = (1, 1);
        }
        breaks(|| _ = run(plan))
    })
}

/// What finds the fault: the cheapest first.
fn found_by(mutant: Mutant) -> Option<String> {
    let mut scenes = SCENES.iter().filter(|(_, scene)| breaks(|| scene(planted(mutant))));
    let mut scopes = SCOPES.iter().filter(|(_, scope)| breaks(|| _ = explore(&planted(mutant), *scope)));
    let by_scene = scenes.next().map(|(name, _)| format!("scene {name:?}"));
    by_scene
        .or_else(|| seed_that_finds(mutant).map(|seed| format!("seed {seed}")))
        .or_else(|| scopes.next().map(|(name, _)| format!("exploring {name:?}")))
}

#[test]
fn planted_faults_are_found() {
    std::panic::set_hook(Box::new(|_| {}));
    let found = Mutant::ALL.map(|mutant| (mutant, found_by(mutant)));
    _ = std::panic::take_hook();
    for (mutant, by) in &found {
        println!("{mutant:?}: {}", by.as_deref().unwrap_or("nothing"));
    }
    let missed: Vec<_> = found.iter().filter(|(_, by)| by.is_none()).map(|(m, _)| m).collect();
    assert!(missed.is_empty(), "nothing finds {missed:?}");
}

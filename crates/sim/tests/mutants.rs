//! The checks bite: each fault that can be planted in the engine is found by some seed. (One is too rare
//! for that: `RankFromTruncatedClosure` is found by the engine's own exhaustive tests.)

use base::cut::Consistency;
use sim::cluster::run::{self, Case};
use sim::command::guarded;
use sim::plan::Plan;
use txn::perseus::Mutant;

/// Seeds tried before a fault counts as missed.
const SEEDS: u64 = 150;

/// The first seed that finds the fault, and how.
fn finds(mutant: Mutant) -> Option<(u64, String)> {
    let plans =
        ["wan3-mixed", "wan3-calm", "wan3-lossy", "wan3-jittery"].map(|name| Plan::named(name).unwrap());
    (0..SEEDS).find_map(|seed| {
        let plan = plans[seed as usize % plans.len()].clone();
        let level = if seed % 5 == 4 { Consistency::Regular } else { Consistency::Rss };
        let case = Case { mutant: Some(mutant), ..Case::new(seed, plan, level) };
        let failure = guarded(&case, "perseus", || run::run(&case)).err()?;
        let what = failure.to_string();
        Some((seed, what.lines().nth(1).unwrap_or_default().to_string()))
    })
}

#[test]
fn every_planted_fault_is_found() {
    let faults = [
        Mutant::FirstAnswerOnly,
        Mutant::CutCycles,
        Mutant::RecomputedAnswers,
        Mutant::MissingAntiDependency,
        Mutant::CollectWithoutFloor,
        Mutant::CollectAlone,
        Mutant::ReplyAtCommit,
        Mutant::NoReplyGate,
        Mutant::PtsIsNow,
        Mutant::RankIsCts,
        Mutant::CloseIgnoresUndecided,
        Mutant::ExecuteBeforeFinal,
        Mutant::ForgetComponents,
    ];
    let mut missed = Vec::new();
    for mutant in faults {
        match finds(mutant) {
            Some((seed, how)) => println!("{mutant:?}: seed {seed}, {how}"),
            None => missed.push(mutant),
        }
    }
    assert!(missed.is_empty(), "{SEEDS} seeds found nothing wrong with {missed:?}");
}

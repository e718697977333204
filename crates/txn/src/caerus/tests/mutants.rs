//! Planted faults, each caught by a test: the tests can fail.

use super::judge::judge;
use super::planted;
use super::random::run;
use crate::caerus::Mutant;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Whether some seed notices the fault.
fn caught(mutant: Mutant, mut seeds: std::ops::Range<u64>) -> bool {
    seeds.any(|seed| catch_unwind(AssertUnwindSafe(|| judge(&run(seed, 80, Some(planted(mutant)))))).is_err())
}

#[test]
fn random_worlds_catch_what_is_planted() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let unnoticed: Vec<Mutant> = [
        Mutant::InvertedWriteWrite,
        Mutant::MissingAntiDependency,
        Mutant::OrderByRecycledIds,
        Mutant::PlaceIncomplete,
        Mutant::ForgetEmittedRanks,
        Mutant::ForgetComponents,
        Mutant::BoundAboveComponent,
        Mutant::CloseIgnoresUndecided,
        Mutant::PrefixReads,
        Mutant::StampIsNow,
        Mutant::NoReplyGate,
    ]
    .into_iter()
    .filter(|mutant| !caught(*mutant, 0..100))
    .collect();
    std::panic::set_hook(hook);
    assert!(unnoticed.is_empty(), "{unnoticed:?} go unnoticed");
}

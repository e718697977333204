//! Planted faults, each caught by a test: the tests can fail.

use super::judge::judge;
use super::planted;
use super::random::run;
use crate::caerus::Mutant;
use crate::trial::panics;

/// Whether some seed notices the fault.
fn caught(mutant: Mutant, mut seeds: std::ops::Range<u64>) -> bool {
    seeds.any(|seed| panics(|| judge(&run(seed, 80, Some(planted(mutant))))))
}

#[test]
fn random_worlds_catch_what_is_planted() {
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
    assert!(unnoticed.is_empty(), "{unnoticed:?} go unnoticed");
}

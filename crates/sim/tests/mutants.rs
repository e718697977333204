//! The checks bite: each fault that can be planted in the engine, and in how cuts are chosen, is found by
//! some seed. (Three are too rare for that: `RankFromTruncatedClosure` is found by the engine's own exhaustive
//! tests, `NoSessionEdges` by scenarios, and `CountFormerLives` by one in `txn`.)

use base::cut::Consistency;
use sim::cluster::run::{self, Case};
use sim::command::guarded;
use sim::plan::Plan;
use txn::any::EngineKind;
use txn::perseus::Mutant;

/// Seeds tried before a fault counts as missed.
const SEEDS: u64 = 600;

/// The first seed that finds the fault, and how.
fn finds(plant: impl Fn(&mut Case), levels: &[Consistency], seeds: u64) -> Option<(u64, String)> {
    finds_in(&["wan3-mixed", "wan3-calm", "wan3-lossy", "wan3-jittery"], plant, levels, seeds)
}

fn finds_in(
    plans: &[&str],
    plant: impl Fn(&mut Case),
    levels: &[Consistency],
    seeds: u64,
) -> Option<(u64, String)> {
    let plans: Vec<Plan> = plans.iter().map(|name| Plan::named(name).unwrap()).collect();
    (0..seeds).find_map(|seed| {
        let plan = plans[seed as usize % plans.len()].clone();
        let mut case = Case::new(seed, plan, levels[seed as usize % levels.len()]);
        plant(&mut case);
        let failure = guarded(&case, "perseus", || run::run(&case)).err()?;
        let what = failure.to_string();
        Some((seed, what.lines().nth(1).unwrap_or_default().to_string()))
    })
}

#[test]
fn every_fault_planted_in_recovery_is_found_where_gateways_die() {
    let faults = [
        Mutant::RecoverFromMajority,
        Mutant::BallotNotPromised,
        Mutant::UnknownIsEmpty,
        Mutant::ForgetRequests,
    ];
    let mut missed = Vec::new();
    for mutant in faults {
        let plans = ["wan3-deaths", "wan3-mixed", "wan2-deaths"];
        let plant = |case: &mut Case| {
            case.mutants.perseus = Some(mutant);
            // How queries read is not looked at here.
            case.stays_home = true;
        };
        match finds_in(&plans, plant, &[Consistency::Rss], 3 * SEEDS) {
            Some((seed, how)) => println!("{mutant:?}: seed {seed}, {how}"),
            None => missed.push(mutant),
        }
    }
    assert!(missed.is_empty(), "{} seeds found nothing wrong with {missed:?}", 3 * SEEDS);
}

#[test]
fn every_fault_planted_in_the_engine_is_found() {
    use Consistency::{Regular, Rss};
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
        let plant = |case: &mut Case| {
            case.mutants.perseus = Some(mutant);
            case.stays_home = true;
        };
        match finds(plant, &[Rss, Rss, Rss, Rss, Regular], SEEDS) {
            Some((seed, how)) => println!("{mutant:?}: seed {seed}, {how}"),
            None => missed.push(mutant),
        }
    }
    assert!(missed.is_empty(), "{SEEDS} seeds found nothing wrong with {missed:?}");
}

#[test]
fn every_fault_planted_in_the_choice_of_cuts_is_found() {
    use reads::rule::Mutant;
    let faults = [
        (Mutant::KeepDescendants, Consistency::Regular),
        (Mutant::TokenWithoutAncestors, Consistency::Regular),
        (Mutant::CalibrateBeforeArrival, Consistency::Regular),
        (Mutant::RaiseUnclosed, Consistency::Rss),
        (Mutant::CloseAtCoordinatorOnly, Consistency::Rss),
        (Mutant::CloseAtCoordinatorOnly, Consistency::Regular),
        (Mutant::OwnCutAtEachReader, Consistency::Rss),
        (Mutant::OwnCutAtEachReader, Consistency::Regular),
    ];
    let mut missed = Vec::new();
    for (mutant, level) in faults {
        let of_several = matches!(mutant, Mutant::CloseAtCoordinatorOnly | Mutant::OwnCutAtEachReader);
        let plant = |case: &mut Case| {
            case.mutants.reads = Some(mutant);
            case.stays_home = !of_several;
        };
        match finds(plant, &[level], 2 * SEEDS) {
            Some((seed, how)) => println!("{mutant:?}: seed {seed}, {how}"),
            None => missed.push((mutant, level)),
        }
    }
    assert!(missed.is_empty(), "seeds found nothing wrong with {missed:?}");
}

/// Those that need more luck than that are found by the engine's own tests of calibration.
#[test]
fn faults_planted_in_calibration_are_found() {
    use txn::caerus::Mutant;
    let faults = [Mutant::CalibrateBeforeArrival, Mutant::CalibrateHere, Mutant::CloseIgnoresUndecided];
    let mut missed = Vec::new();
    for mutant in faults {
        let plant = |case: &mut Case| {
            (case.engine, case.unbounded_clocks) = (EngineKind::Caerus, true);
            case.mutants.caerus = Some(mutant);
        };
        let plans = ["wan3-partitions", "wan3-mixed", "wan3-calm", "wan3-jittery"];
        match finds_in(&plans, plant, &[Consistency::Regular], SEEDS) {
            Some((seed, how)) => println!("{mutant:?}: seed {seed}, {how}"),
            None => missed.push(mutant),
        }
    }
    assert!(missed.is_empty(), "{SEEDS} seeds found nothing wrong with {missed:?}");
}

#[test]
fn a_clock_that_drifts_and_that_nobody_watches_is_found() {
    for engine in [EngineKind::Perseus, EngineKind::Caerus] {
        let plant = |case: &mut Case| (case.engine, case.mutants.unwatched) = (engine, true);
        let found = finds_in(&["wan3-drift"], plant, &[Consistency::Rss], SEEDS);
        let (seed, how) = found.unwrap_or_else(|| panic!("{SEEDS} seeds of {} found nothing", engine.name()));
        println!("{}: seed {seed}, {how}", engine.name());
    }
}

/// A sample of what the campaign's own runs find: faults in delayed appends, claims, grants and leases, each found by one
/// of its first seeds. `sim::planted` hunts all of them for as long as it is given.
#[test]
fn a_campaign_finds_what_is_planted_in_its_first_seeds() {
    use sim::planted::Planted;
    use txn::caerus::Mutant;
    let faults =
        [Mutant::AppendTwice, Mutant::StampOnArrival, Mutant::ClaimsOfPartitionsOnly, Mutant::ForgetGrants];
    let mut missed = Vec::new();
    for mutant in faults {
        match Planted::Caerus(mutant).found_by(0..100) {
            Some((seed, how)) => println!("{mutant:?}: seed {seed}, {how}"),
            None => missed.push(mutant),
        }
    }
    assert!(missed.is_empty(), "the campaign's first seeds found nothing wrong with {missed:?}");
}

/// Panics unless this seed of the campaign finds the fault. What changes how steps are taken changes the runs of all seeds;
/// a hunt then tells another seed.
fn expect_found(planted: sim::planted::Planted, seed: u64) {
    let (found, name) = (planted.found_by([seed].into_iter()), planted.name());
    println!("{name}: {found:?}");
    let kind = name.rsplit(' ').next().unwrap_or_default();
    assert!(
        found.is_some(),
        "seed {seed} found nothing wrong with {name}; for another seed: \
         cargo run -p sim --features mutants --example seeds -- mutants 600 hunt.json {kind}"
    );
}

/// The same of what programs and blocks leave out of their access sets: the unique entries that their rows give up.
#[test]
fn a_campaign_finds_unique_entries_that_are_given_up_and_not_declared() {
    use sim::cluster::badges::tables::Undeclared;
    use sim::planted::Planted;
    for (undeclared, seed) in
        [(Undeclared::ByDeletes, 375), (Undeclared::ByUpdates, 21), (Undeclared::ByBlocks, 276)]
    {
        expect_found(Planted::Undeclared(undeclared), seed);
    }
}

/// The same of faults in how an index is built in several transactions: in programs that enter rows, in writes meanwhile, and
/// in the client that ends too early.
#[test]
fn a_campaign_finds_indexes_that_are_built_wrongly() {
    use rowstore::Mutant;
    use sim::cluster::badges::builder::Fault;
    use sim::planted::Planted;
    let faults = [
        (Planted::Rows(Mutant::SkipLastRow), 65),
        (Planted::Rows(Mutant::EnterEarlierRow), 65),
        (Planted::Rows(Mutant::WritePastIndex), 20),
        (Planted::Rows(Mutant::EnterUnchecked), 674),
        (Planted::Rows(Mutant::WriteUnchecked), 57),
        (Planted::Builds(Fault::EndEarly), 99),
    ];
    for (planted, seed) in faults {
        expect_found(planted, seed);
    }
}

/// The same of faults in how a region comes back without its memory, in the leases of readers, and in what ends without
/// effect, by the first of its seeds that finds each.
#[test]
fn a_campaign_finds_what_is_planted_in_rejoining_in_leases_and_in_no_ops() {
    use sim::planted::Planted;
    use txn::caerus;
    let faults = [
        (Planted::Caerus(caerus::Mutant::StandWithOne), 108),
        (Planted::Caerus(caerus::Mutant::StandWithFirst), 108),
        (Planted::Caerus(caerus::Mutant::StandUnbound), 2316),
        (Planted::Caerus(caerus::Mutant::NoLease), 996),
        (Planted::Reads(reads::rule::Mutant::ReadAfterLease), 6385),
        (Planted::Perseus(Mutant::NoopForgetsDependencies), 762),
    ];
    for (planted, seed) in faults {
        expect_found(planted, seed);
    }
}

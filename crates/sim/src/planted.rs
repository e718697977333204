//! Faults planted in the code under test, and which of the campaign's seeds find them.
//!
//! IN: a [`Planted`] fault. OUT: the first seed of a campaign that fails with it, and how. KEEPS: a fault is tried in
//! the runs of a campaign, with their engine, plan, level and knobs; runs that cannot reach it are left
//! out; a seed that fails without the fault too finds nothing. What was tried is kept in a [`Hunt`], which can be broken
//! off and continued.

use crate::campaign::Run;
use crate::cluster::badges::{self, builder, tables::Undeclared};
use crate::cluster::durable;
use crate::cluster::run::{self as cluster, Case};
use crate::command::{Trouble, guarded};
use crate::plan::Mix;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;
use txn::{caerus, geogauss, perseus};

/// A fault, by the part that it is planted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    Perseus(perseus::Mutant),
    Caerus(caerus::Mutant),
    Geogauss(geogauss::Mutant),
    /// How cuts are chosen.
    Reads(reads::rule::Mutant),
    /// The log that the machines of a durable node agree on.
    Log(consensus::Mutant),
    /// Nobody watches the clocks of a cluster with this engine.
    UnwatchedClocks(&'static str),
    /// What programs declare.
    Undeclared(Undeclared),
    /// How stores keep an index that is being built.
    Rows(rowstore::Mutant),
    /// How a client builds one.
    Builds(builder::Fault),
}

impl Planted {
    /// Every fault that runs of a campaign can reach. The others need what no run has: a peer that lies, several
    /// machines for a region's sequence, an agreement in two rounds.
    pub fn all() -> Vec<Planted> {
        use caerus::Mutant::*;
        let reachable =
            |m: &&caerus::Mutant| !matches!(m, WrongHomes | TrustStamps | CountBeforeKept | SkipFirstRound);
        let perseus = perseus::Mutant::ALL.iter().copied().map(Planted::Perseus);
        let caerus = caerus::Mutant::ALL.iter().filter(reachable).copied().map(Planted::Caerus);
        let geogauss = geogauss::Mutant::ALL.iter().chain(geogauss::Mutant::OF_LOSS);
        let geogauss = geogauss.copied().map(Planted::Geogauss);
        let reads = reads::rule::Mutant::ALL.into_iter().map(Planted::Reads);
        // Nodes take no checkpoints.
        let log = consensus::Mutant::ALL.into_iter().filter(|m| *m != consensus::Mutant::ChecksOutVote);
        let unwatched = ["perseus", "caerus"].map(Planted::UnwatchedClocks);
        perseus
            .chain(caerus)
            .chain(geogauss)
            .chain(reads)
            .chain(log.map(Planted::Log))
            .chain(unwatched)
            .chain(Undeclared::ALL.map(Planted::Undeclared))
            .chain(rowstore::Mutant::ALL.map(Planted::Rows))
            .chain([Planted::Builds(builder::Fault::EndEarly)])
            .collect()
    }

    pub fn name(self) -> String {
        match self {
            Planted::Perseus(mutant) => format!("perseus {mutant:?}"),
            Planted::Caerus(mutant) => format!("caerus {mutant:?}"),
            Planted::Geogauss(mutant) => format!("geogauss {mutant:?}"),
            Planted::Reads(mutant) => format!("reads {mutant:?}"),
            Planted::Log(mutant) => format!("consensus {mutant:?}"),
            Planted::UnwatchedClocks(engine) => format!("{engine} UnwatchedClocks"),
            Planted::Undeclared(what) => format!("undeclared {what:?}"),
            Planted::Rows(mutant) => format!("rows {mutant:?}"),
            Planted::Builds(fault) => format!("builds {fault:?}"),
        }
    }

    /// Whether the run of a seed can reach the fault.
    fn concerns(self, seed: u64, run: &Run) -> bool {
        let Run::Plain { engine, plan, .. } = run else { return matches!(self, Planted::Log(_)) };
        let has = |of: fn(Mix) -> bool| {
            let name = plan.split_once('-').map_or("", |(_, name)| name);
            Mix::every().any(|mix| mix.name() == name && of(mix))
        };
        match self {
            Planted::Perseus(mutant) => {
                use perseus::Mutant::*;
                match mutant {
                    NoopForgetsDependencies => *engine == "perseus" && has(|mix| mix == Mix::HalfTold),
                    RecoverFromMajority | BallotNotPromised | IgnoreAccepted | UnknownIsEmpty => {
                        *engine == "perseus" && has(Mix::takes_gateways)
                    }
                    NoCeiling | ExecuteBeforeSync | UnrecordedPromises | UnrecordedEnds => {
                        *engine == "perseus+records" && has(Mix::loses_regions)
                    }
                    _ => *engine == "perseus",
                }
            }
            // Below SERIALIZABLE less is promised.
            Planted::Geogauss(geogauss::Mutant::ExposeEarly) => {
                matches!(*engine, "geogauss" | "geogauss+unbounded-clocks") && has(Mix::loses_regions)
            }
            Planted::Geogauss(_) => matches!(*engine, "geogauss" | "geogauss+unbounded-clocks"),
            Planted::Caerus(mutant) => {
                use caerus::Mutant::*;
                // Those come back with what they recorded.
                let forgets = engine.starts_with("caerus") && *engine != "caerus+records";
                match mutant {
                    NoCeiling | UnrecordedTerms | CountBeforeSync => {
                        *engine == "caerus+records" && has(Mix::loses_regions)
                    }
                    PiecesAsTheyCome => *engine == "slog",
                    ActBeforeAgreement => matches!(*engine, "slog" | "calvin"),
                    CalibrateBeforeArrival | CalibrateHere | UnconfirmedEnd | RanksNotAwaited => {
                        *engine == "caerus+unbounded-clocks"
                    }
                    AckBeforeWhole | VoteBeforeWhole => forgets && has(Mix::loses_regions),
                    // Others need an accident that the other plans have no time for.
                    StandWithOne | StandUnbound | StandWithFirst | CountFormerLives => {
                        forgets && has(|mix| mix == Mix::TakeOvers)
                    }
                    CloseAtOldHome => *engine == "caerus" && has(|mix| mix == Mix::Moves),
                    ForgetPromises | LeadAlone | KeepOwnLog | NoLease | ForgetGrants | ReleaseWhenMerged => {
                        engine.starts_with("caerus") && has(|mix| mix.separates() || mix.loses_regions())
                    }
                    _ => engine.starts_with("caerus"),
                }
            }
            // Only cuts that name transactions rest on what is collected.
            Planted::Reads(reads::rule::Mutant::ReadAfterLease) => {
                *engine == "perseus" && has(|mix| mix == Mix::SilentReaders)
            }
            Planted::Reads(_) => matches!(*engine, "perseus" | "caerus" | "caerus+unbounded-clocks"),
            Planted::Log(_) => false,
            Planted::UnwatchedClocks(of) => *engine == of && has(Mix::leads_clocks_astray),
            // Engine `geogauss` goes by what transactions have written, not by what they have declared.
            Planted::Undeclared(_) => !engine.starts_with("geogauss") && badges::are_drawn(seed),
            Planted::Rows(_) | Planted::Builds(_) => {
                let are_built = badges::are_drawn(seed) && badges::builds_drawn(seed) > 0;
                are_built && !engine.starts_with("geogauss")
            }
        }
    }

    fn plant(self, case: &mut Case) {
        match self {
            Planted::Perseus(mutant) => case.mutants.perseus = Some(mutant),
            Planted::Caerus(mutant) => case.mutants.caerus = Some(mutant),
            Planted::Geogauss(mutant) => case.mutants.geogauss = Some(mutant),
            Planted::Reads(mutant) => case.mutants.reads = Some(mutant),
            Planted::Log(_) => {}
            Planted::UnwatchedClocks(_) => case.mutants.unwatched = true,
            Planted::Undeclared(what) => case.mutants.undeclared = Some(what),
            Planted::Rows(mutant) => case.mutants.rows = Some(mutant),
            Planted::Builds(fault) => case.mutants.builds = Some(fault),
        }
    }

    /// What a seed of a campaign finds with the fault, and would not find without it. `None` beside a run that cannot
    /// reach it.
    pub fn tried(self, seed: u64) -> Option<Result<(), String>> {
        let run = Run::of(seed);
        if !self.concerns(seed, &run) {
            return None;
        }
        let ended = match (&run, self) {
            (Run::Durable { .. }, Planted::Log(mutant)) => run.durable(seed).and_then(|case| {
                run.run_durable(&durable::Case { mutant: Some(mutant), ..case }).map(|_| ())
            }),
            _ => run.plain(seed).and_then(|mut case| {
                // Clients with badges find these; other faults are aimed at without them.
                case.badges &= matches!(self, Planted::Undeclared(_) | Planted::Rows(_) | Planted::Builds(_));
                self.plant(&mut case);
                guarded(&case, &self.name(), || cluster::run(&case)).map(|_| ())
            }),
        };
        let Err(Trouble::Failed(failure)) = ended else { return Some(Ok(())) };
        let is_its_own = run.run(seed).is_err();
        Some(if is_its_own { Ok(()) } else { Err(failure.what.lines().next().unwrap_or_default().into()) })
    }

    /// The first of these seeds that finds it.
    pub fn found_by(self, seeds: impl Iterator<Item = u64>) -> Option<(u64, String)> {
        seeds.into_iter().find_map(|seed| Some((seed, self.tried(seed)?.err()?)))
    }
}

/// What a hunt has tried and found, by fault.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Hunt {
    pub faults: BTreeMap<String, Prey>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Prey {
    /// The next seed, and how many before it could reach the fault.
    pub next: u64,
    pub tried: u64,
    /// The seed that found it, and how.
    pub found: Option<(u64, String)>,
}

impl Hunt {
    /// Tries one seed more for the fault that was tried least and is not found, of those with such a name; false if
    /// there is none.
    pub fn step(&mut self, is_wanted: &dyn Fn(&str) -> bool) -> bool {
        let wanted = Planted::all().into_iter().filter(|planted| is_wanted(&planted.name()));
        let faults = wanted.map(|planted| {
            let prey = self.faults.get(&planted.name()).cloned().unwrap_or_default();
            (planted, prey)
        });
        let least = faults.filter(|(_, prey)| prey.found.is_none()).min_by_key(|(_, prey)| prey.tried);
        let Some((planted, mut prey)) = least else { return false };
        let tried = (prey.next..).find_map(|seed| Some((seed, planted.tried(seed)?)));
        let (seed, result) = tried.expect("a campaign comes back to every engine");
        (prey.next, prey.tried) = (seed + 1, prey.tried + 1);
        prey.found = result.err().map(|how| (seed, how));
        self.faults.insert(planted.name(), prey);
        true
    }
    pub fn report(&self) -> String {
        let mut text = String::new();
        for (name, Prey { tried, found, .. }) in &self.faults {
            _ = match found {
                Some((seed, how)) => writeln!(text, "{tried:>6}  {name}: seed {seed}, {how}"),
                None => writeln!(text, "{tried:>6}  {name}: not found"),
            };
        }
        text
    }
}

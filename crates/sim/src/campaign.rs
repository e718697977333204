//! A long run over everything that there is: engines, plans, levels and durable nodes in turn, seed after seed. It can
//! be left off and gone on with, and adds up.
//!
//! IN: a [`Campaign`], as far as it has come. OUT: the same, further. KEEPS: the n-th run is the same whoever does it
//! and whenever; a seed that fails is written down and the next one goes on; [`Campaign::missed`] names what a run of
//! this size has to reach and has not.

use crate::cluster::badges;
use crate::cluster::durable::{self, Trouble as Crashes};
use crate::cluster::run::{self as cluster, Case};
use crate::command::{PROBES, Trouble, case, guarded};
use crate::plan::{Mix, Plan};
use crate::replay::{Replay, guard};
use base::check::probes;
use base::cut::Consistency;
use base::rng::Rng;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;
use txn::any::EngineKind;

/// Engines whose every level keeps its promise, each taken as often as it stands here.
const ENGINES: [&str; 11] = [
    "caerus",
    "perseus",
    "caerus",
    "caerus+unbounded-clocks",
    GEOGAUSS,
    "caerus",
    "perseus",
    "slog",
    "calvin",
    RECORDS,
    GEOGAUSS,
];
/// Stands for one of these.
const GEOGAUSS: &str = "geogauss";
const OF_GEOGAUSS: [&str; 5] =
    [GEOGAUSS, GEOGAUSS, "geogauss+unbounded-clocks", "geogauss+snapshot", "geogauss+repeatable-read"];
/// Nodes that keep what they record, and come back with it: all of a cluster may crash together.
const RECORDS: &str = "caerus+records";
const OF_RECORDS: [&str; 4] = [RECORDS, "perseus+records", "slog+records", "calvin+records"];
const DISTANCES: [&str; 8] = ["wan3", "wan3", "wan4", "wan3", "wan5", "wan3", "azure6", "wan2"];
/// A region that has lost its memory needs two others.
const DISTANCES_OF_LOST: [&str; 5] = ["wan3", "wan5", "wan3", "wan4", "azure6"];
/// With five regions two may be lost, so that some others know of a promise and some do not.
const DISTANCES_OF_TAKE_OVERS: [&str; 6] = ["azure6", "wan3", "wan5", "azure6", "wan4", "wan5"];
/// One participant is heard and another one is not.
const DISTANCES_OF_HALF_TOLD: [&str; 4] = ["wan3", "wan4", "wan3", "wan5"];
/// A home far away has executed a move, and answers, long before a region hears of it that is near the former home.
const DISTANCES_OF_MOVES: [&str; 4] = ["azure6", "wan3", "azure6", "china3"];
/// Durable nodes, each with how many machines, where the case may choose.
const DURABLE_ENGINES: [&str; 7] = ["perseus", "caerus", "perseus", "slog", "caerus", "calvin", "geogauss"];
const DURABLE_DISTANCES: [&str; 4] = ["wan3", "wan4", "wan2", "wan3"];

/// A long run as far as it has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Campaign {
    /// The next seed.
    pub next: u64,
    /// By engine: seeds, operations that clients saw, and seeds that failed.
    pub engines: BTreeMap<String, Count>,
    /// By plan, how many seeds.
    pub plans: BTreeMap<String, u64>,
    pub probes: BTreeMap<String, u64>,
    /// Lines that repeat what failed, with what was wrong.
    pub failures: Vec<String>,
    pub seconds: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    pub seeds: u64,
    pub operations: u64,
    pub failed: u64,
}

/// What a seed of a campaign runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Run {
    Plain { engine: &'static str, plan: String, level: Consistency },
    Durable { engine: &'static str, plan: String, level: Consistency, copies: u16, crashes: Crashes },
}

impl Run {
    /// The run of a seed.
    pub fn of(seed: u64) -> Run {
        // Engines come in turn, everything else is drawn: a short campaign has something of all.
        let kind = (seed % (ENGINES.len() as u64 + 1)) as usize;
        let mut rng = Rng::new(seed).fork("campaign");
        let mut next = |count: usize| rng.below(count as u64) as usize;
        let mixes: Vec<Mix> = Mix::ALL.into_iter().chain(Mix::REPLICATED).collect();
        if kind == ENGINES.len() {
            let crashes =
                [Crashes::Restarts, Crashes::LeaderLost, Crashes::FollowerLost, Crashes::RegionRestarts]
                    [next(4)];
            let copies = match crashes {
                Crashes::Restarts | Crashes::RegionRestarts => [1, 3][next(2)],
                Crashes::LeaderLost | Crashes::FollowerLost => 3,
            };
            let engine = DURABLE_ENGINES[next(DURABLE_ENGINES.len())];
            let mixes = [Mix::Calm, Mix::Lossy, Mix::Jittery, Mix::ClockSkew, Mix::Mixed, Mix::Partitions];
            let mix = mixes[next(mixes.len())];
            let level = Consistency::ALL[next(4)];
            let plan = format!("{}-{}", DURABLE_DISTANCES[next(DURABLE_DISTANCES.len())], mix.name());
            return Run::Durable { engine, plan, level, copies, crashes };
        }
        let engine = match ENGINES[kind] {
            GEOGAUSS => OF_GEOGAUSS[next(OF_GEOGAUSS.len())],
            RECORDS => OF_RECORDS[next(OF_RECORDS.len())],
            engine => engine,
        };
        let mix = match engine {
            "caerus" => mixes[next(mixes.len())],
            // For half of the seeds nodes with partitions crash.
            _ if OF_RECORDS.contains(&engine) && next(2) == 0 => Mix::REPLICATED[next(Mix::REPLICATED.len())],
            _ if OF_GEOGAUSS.contains(&engine) => Mix::ALL_MEMBERS[next(Mix::ALL_MEMBERS.len())],
            // Clocks that have no bound cannot leave it.
            "caerus+unbounded-clocks" => {
                [Mix::Calm, Mix::Lossy, Mix::Jittery, Mix::Partitions, Mix::Mixed, Mix::Forgets][next(6)]
            }
            // By a stream of its own, which leaves alone what the other seeds draw.
            "perseus" if Rng::new(seed).fork("recovered").chance(0.1) => Mix::HalfTold,
            _ => Mix::ALL[next(Mix::ALL.len())],
        };
        let levels = match engine {
            "caerus+unbounded-clocks" | "geogauss+unbounded-clocks" => &Consistency::ALL[1..],
            _ => &Consistency::ALL[..],
        };
        let level = match (engine, mix) {
            // Only there do cuts name transactions, and rest on what is collected.
            ("perseus", Mix::SilentReaders) if next(2) == 0 => Consistency::Regular,
            _ => levels[next(levels.len())],
        };
        let distances = match mix {
            Mix::TakeOvers => DISTANCES_OF_TAKE_OVERS[next(DISTANCES_OF_TAKE_OVERS.len())],
            Mix::Moves => DISTANCES_OF_MOVES[next(DISTANCES_OF_MOVES.len())],
            Mix::HalfTold => DISTANCES_OF_HALF_TOLD[next(DISTANCES_OF_HALF_TOLD.len())],
            mix if mix.loses_regions() => DISTANCES_OF_LOST[next(DISTANCES_OF_LOST.len())],
            _ => DISTANCES[next(DISTANCES.len())],
        };
        Run::Plain { engine, plan: format!("{distances}-{}", mix.name()), level }
    }

    fn engine(&self) -> &'static str {
        match self {
            Run::Plain { engine, .. } => engine,
            Run::Durable { engine: "perseus", .. } => "perseus, durable",
            Run::Durable { engine: "caerus", .. } => "caerus, durable",
            Run::Durable { engine: "slog", .. } => "slog, durable",
            Run::Durable { engine: "calvin", .. } => "calvin, durable",
            Run::Durable { .. } => "geogauss, durable",
        }
    }
    fn plan(&self) -> &str {
        match self {
            Run::Plain { plan, .. } | Run::Durable { plan, .. } => plan,
        }
    }

    /// Runs the seed; answers how many operations clients saw.
    pub fn run(&self, seed: u64) -> Result<usize, Trouble> {
        match self {
            Run::Plain { engine, .. } => {
                let case = self.plain(seed)?;
                Ok(guarded(&case, engine, || cluster::run(&case))?.operations)
            }
            Run::Durable { .. } => self.run_durable(&self.durable(seed)?),
        }
    }

    /// The case of a seed, of nodes that are not durable.
    pub(crate) fn plain(&self, seed: u64) -> Result<Case, Trouble> {
        let Run::Plain { engine, plan, level } = self else { unreachable!("its nodes are durable") };
        case(seed, plan, engine, *level)
    }
    /// The case of a seed, of durable nodes.
    pub(crate) fn durable(&self, seed: u64) -> Result<durable::Case, Trouble> {
        let Run::Durable { engine, plan, level, copies, crashes } = self else {
            unreachable!("its nodes are not durable")
        };
        Ok(durable::Case {
            engine: EngineKind::parse(engine).expect("an engine of this list"),
            consistency: *level,
            badges: badges::are_drawn(seed),
            ..durable::Case::new(seed, Plan::named(plan).map_err(Trouble::Usage)?, *copies, *crashes)
        })
    }
    pub(crate) fn run_durable(&self, case: &durable::Case) -> Result<usize, Trouble> {
        let durable::Case { seed, copies, trouble, .. } = case;
        let replay = Replay {
            seed: *seed,
            plan: case.plan.name(),
            engine: format!("{} (durable, {copies} copies, {trouble:?})", case.engine.name()),
            consistency: case.consistency.name(),
        };
        let run = guard(&replay, || durable::run(case));
        Ok(run.map_err(|failure| Trouble::Failed(Box::new(failure)))?.operations)
    }
}

impl Campaign {
    /// Runs the next seed.
    pub fn step(&mut self) -> Result<(), Trouble> {
        let seed = self.next;
        let run = Run::of(seed);
        let before = probes();
        let count = self.engines.entry(run.engine().into()).or_default();
        count.seeds += 1;
        match run.run(seed) {
            Ok(operations) => count.operations += operations as u64,
            Err(Trouble::Failed(failure)) => {
                count.failed += 1;
                let what: Vec<String> = failure.to_string().lines().take(2).map(String::from).collect();
                self.failures.push(format!("sim campaign --seed {seed}: {}", what.join("\n")));
            }
            Err(usage) => return Err(usage),
        }
        *self.plans.entry(run.plan().into()).or_default() += 1;
        for (probe, n) in probes() {
            let new = n - before.get(probe).copied().unwrap_or(0);
            if new > 0 {
                *self.probes.entry(probe.into()).or_default() += new;
            }
        }
        self.next = seed + 1;
        Ok(())
    }

    /// Runs seeds until `elapsed_s` says that it is enough, and has what there is kept now and then.
    pub fn go_on(
        &mut self,
        seconds: f64,
        elapsed_s: &mut dyn FnMut() -> f64,
        keep: &mut dyn FnMut(&Campaign),
    ) -> Result<(), Trouble> {
        let (before_s, mut kept_s) = (self.seconds, 0.0);
        while elapsed_s() < seconds {
            self.step()?;
            self.seconds = before_s + elapsed_s();
            if elapsed_s() - kept_s > KEEP_EVERY_S {
                kept_s = elapsed_s();
                keep(self);
            }
        }
        keep(self);
        Ok(())
    }

    /// As it is kept in a file.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("it has names for keys")
    }
    pub fn from_json(text: &str) -> Result<Campaign, Trouble> {
        serde_json::from_str(text).map_err(|e| Trouble::Usage(format!("this is no campaign: {e}")))
    }

    pub fn seeds(&self) -> u64 {
        self.engines.values().map(|count| count.seeds).sum()
    }

    /// Probes of the recorded list that were not reached; none are asked for before `seeds` are as many as the list
    /// was made with.
    pub fn missed(&self) -> Vec<&'static str> {
        if self.seeds() < RECORDED_WITH {
            return Vec::new();
        }
        RECORDED.lines().filter(|probe| !probe.is_empty() && !self.probes.contains_key(*probe)).collect()
    }

    /// Whether everything was as promised, and everything of the recorded list was reached.
    pub fn is_good(&self) -> bool {
        self.failures.is_empty() && self.missed().is_empty()
    }

    /// What happened so far, for a person.
    pub fn report(&self) -> String {
        let mut text =
            format!("{} seeds in {:.0} s, the next is {}\n", self.seeds(), self.seconds, self.next);
        for (engine, Count { seeds, operations, failed }) in &self.engines {
            _ = writeln!(text, "{seeds:>9} seeds {operations:>11} operations {failed:>4} failed  {engine}");
        }
        _ = writeln!(text, "plans:");
        self.plans.iter().for_each(|(plan, n)| _ = writeln!(text, "{n:>9}  {plan}"));
        _ = writeln!(text, "never reached:");
        for (probe, file) in PROBES.iter().filter(|(probe, _)| !self.probes.contains_key(*probe)) {
            _ = writeln!(text, "           {probe} ({file})");
        }
        for probe in self.missed() {
            _ = writeln!(text, "missed, though recorded: {probe}");
        }
        self.failures.iter().for_each(|failure| _ = writeln!(text, "FAILED {failure}"));
        text
    }
}

/// So much is lost at most if it is broken off.
const KEEP_EVERY_S: f64 = 10.0;

/// Probes that a campaign of [`RECORDED_WITH`] seeds reaches.
const RECORDED: &str = include_str!("../probes.txt");
const RECORDED_WITH: u64 = 5_000;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_campaign_takes_everything_in_turn_and_goes_on_where_it_was() {
        let runs: Vec<Run> = (0..20_000).map(Run::of).collect();
        let plans: BTreeSet<&str> = runs.iter().map(Run::plan).collect();
        for mix in Mix::every() {
            assert!(plans.iter().any(|plan| plan.ends_with(&format!("-{}", mix.name()))), "{mix:?}");
        }
        for plan in &plans {
            Plan::named(plan).unwrap_or_else(|e| panic!("{e}"));
        }
        let engines: BTreeSet<&str> = runs.iter().map(Run::engine).collect();
        assert_eq!(engines.len(), 18);
        let mut campaign = Campaign::default();
        (0..4).for_each(|_| campaign.step().unwrap());
        let mut again = Campaign::from_json(&campaign.to_json()).unwrap();
        again.step().unwrap();
        assert_eq!((again.next, again.seeds(), again.failures.len()), (5, 5, 0), "{:?}", again.failures);
    }

    #[test]
    fn the_recorded_list_names_probes_that_there_are() {
        for probe in RECORDED.lines() {
            assert!(PROBES.iter().any(|(name, _)| *name == probe), "no probe {probe:?}");
        }
        let campaign = Campaign {
            engines: [("caerus".to_string(), Count { seeds: RECORDED_WITH, ..Count::default() })].into(),
            ..Campaign::default()
        };
        assert_eq!(campaign.missed().len(), RECORDED.lines().count());
        assert!(RECORDED.is_empty() || !campaign.is_good());
    }
}

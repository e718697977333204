//! What `meridian sim …` does, without its flags, its clock and its files.
//!
//! Each function takes plain options and answers with text or a value; the command maps flags to options,
//! prints, and writes files. What needs to know how long it has been running is told.

use crate::cluster::badges;
use crate::cluster::run::{self as cluster};
use crate::cluster::run::{Case, Conduct, Summary};
use crate::plan::{Mix, Plan};
use crate::replay::{Failure, Replay, guard, run_twice};
use base::check::probes;
use base::cut::Consistency;
use reads::protocol::Baseline;
use reads::rule::printed::Printed;
use std::collections::BTreeMap;
use std::fmt::Write;
use txn::any::EngineKind;
use txn::geogauss::Isolation;
use txn::perseus::printed::{self as order, Majority, Rule};

/// The engines there are, and after a plus sign how queries are read instead of by levels: by PERSEUS' algorithm
/// as it was published, which promises nothing, or as a baseline does; that clocks have no bound; that nodes keep what they
/// record, and come back with it; or at which level transactions commit.
pub const ENGINES: [&str; 21] = [
    "perseus",
    "caerus",
    "slog",
    "calvin",
    "geogauss",
    "caerus+unbounded-clocks",
    "geogauss+unbounded-clocks",
    "geogauss+snapshot",
    "geogauss+repeatable-read",
    "geogauss+sql-repeatable-read",
    "geogauss+sql-read-committed",
    "caerus+records",
    "perseus+records",
    "slog+records",
    "calvin+records",
    "perseus+printed",
    PRINTED_ORDER,
    "perseus+safe-timestamp",
    "perseus+central-timestamp",
    "perseus+batch-cut",
    "perseus+synchronous-replica",
];

/// Not an engine of a cluster: transactions ordered by PERSEUS' Alg. 1 as it was published, in a world of their own.
/// `sim run` shows what a seed does to each of its cases, and to the same under the engine's rule.
pub const PRINTED_ORDER: &str = "perseus+printed-order";

/// Every probe in the crates under test, with the file it stands in.
pub(crate) static PROBES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/probes.rs"));

/// `sim run`.
#[derive(Clone, Debug)]
pub struct RunOptions {
    pub seed: u64,
    /// See [`Plan::named`].
    pub plan: String,
    pub engine: String,
    pub consistency: Consistency,
    /// How many of the last events to print with a failure.
    pub trace_lines: usize,
    /// Run the seed a second time and compare.
    pub twice: bool,
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions {
            seed: 1,
            plan: "wan3-lossy".into(),
            engine: EngineKind::default().name().into(),
            consistency: Consistency::Rss,
            trace_lines: 0,
            twice: false,
        }
    }
}

/// `sim soak`.
#[derive(Clone, Debug)]
pub struct SoakOptions {
    pub seconds: f64,
    pub first_seed: u64,
    /// Plans taken in turn; empty: every plan.
    pub plans: Vec<String>,
    pub engine: String,
    /// Levels taken in turn; empty: every level.
    pub levels: Vec<Consistency>,
}

impl Default for SoakOptions {
    fn default() -> Self {
        let (plans, levels) = (Vec::new(), Vec::new());
        SoakOptions {
            seconds: 60.0,
            first_seed: 1,
            plans,
            engine: EngineKind::default().name().into(),
            levels,
        }
    }
}

/// Why a command ends without a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The options make no sense; the text says which do.
    Usage(String),
    /// A seed went wrong.
    Failed(Box<Failure>),
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Trouble::Usage(what) => f.write_str(what),
            Trouble::Failed(failure) => failure.fmt(f),
        }
    }
}
impl std::error::Error for Trouble {}

/// Runs one seed and says what happened.
pub fn run(options: &RunOptions) -> Result<String, Trouble> {
    if options.engine == PRINTED_ORDER {
        return Ok(printed_order(options.seed));
    }
    let case = case(options.seed, &options.plan, &options.engine, options.consistency)?;
    let conduct = Conduct { trace_lines: options.trace_lines, ..case.conduct };
    let case = Case { conduct, ..case };
    let summary = if options.twice {
        guarded(&case, &options.engine, || run_twice(|| cluster::run(&case)).and_then(|once| once))
    } else {
        guarded(&case, &options.engine, || cluster::run(&case))
    }?;
    Ok(describe(&case, &summary))
}

/// Runs one seed after another until `elapsed_s` says that it is enough, or one fails. `tell` hears about
/// progress. The answer lists what was reached and how often.
pub fn soak(
    options: &SoakOptions,
    elapsed_s: &mut dyn FnMut() -> f64,
    tell: &mut dyn FnMut(&str),
) -> Result<String, Trouble> {
    let plans: Vec<String> = match options.plans.is_empty() {
        true => {
            let mixes: &[Mix] =
                if options.engine.starts_with("geogauss") { &Mix::ALL_MEMBERS } else { &Mix::ALL };
            mixes.iter().map(|mix| format!("wan3-{}", mix.name())).collect()
        }
        false => options.plans.clone(),
    };
    let mut levels =
        if options.levels.is_empty() { Consistency::ALL.to_vec() } else { options.levels.clone() };
    if options.levels.is_empty() && options.engine.ends_with("+unbounded-clocks") {
        levels.retain(|level| *level != Consistency::Rss); // Refused there.
    }
    let (mut seed, mut operations, mut told_s) = (options.first_seed, 0, 0.0);
    let mut tally: BTreeMap<&'static str, u64> = BTreeMap::new();
    while elapsed_s() < options.seconds {
        let turn = (seed - options.first_seed) as usize;
        let level = levels[turn / plans.len() % levels.len()];
        let case = case(seed, &plans[turn % plans.len()], &options.engine, level)?;
        let summary = guarded(&case, &options.engine, || cluster::run(&case))?;
        operations += summary.operations;
        summary.tally.into_iter().for_each(|(what, n)| *tally.entry(what).or_default() += n);
        seed += 1;
        if elapsed_s() - told_s > 10.0 {
            told_s = elapsed_s();
            tell(&format!("{} seeds, {operations} operations, {told_s:.0} s", seed - options.first_seed));
        }
    }
    let mut text = format!("{} seeds, {operations} operations, all as promised\n", seed - options.first_seed);
    tally.iter().for_each(|(what, n)| _ = writeln!(text, "{n:>12}  {what}"));
    _ = writeln!(text, "probes:");
    let reached = probes();
    reached.iter().for_each(|(probe, n)| _ = writeln!(text, "{n:>12}  {probe}"));
    _ = writeln!(text, "never reached:");
    for (probe, file) in PROBES.iter().filter(|(probe, _)| !reached.contains_key(probe)) {
        _ = writeln!(text, "              {probe} ({file})");
    }
    Ok(text)
}

/// The case of a seed: a plan by its name ([`Plan::named`]), an engine by its name ([`ENGINES`]).
pub fn case(seed: u64, plan: &str, engine: &str, level: Consistency) -> Result<Case, Trouble> {
    let unknown = || Trouble::Usage(format!("no engine {engine:?}; there is {}", ENGINES.join(", ")));
    if engine == PRINTED_ORDER {
        return Err(Trouble::Usage(format!("{engine} runs in a world of its own: with `sim run` only")));
    }
    let plan = Plan::named(plan).map_err(Trouble::Usage)?;
    let mut case = Case::new(seed, plan, level);
    let (name, variant) = engine.split_once('+').unwrap_or((engine, ""));
    case.engine = EngineKind::parse(name).ok_or_else(unknown)?;
    match variant {
        "" => {}
        _ if !ENGINES.contains(&engine) => return Err(unknown()),
        "printed" => case.printed = Some(Printed::default()),
        "unbounded-clocks" => case.unbounded_clocks = true,
        "records" => case.records = true,
        "snapshot" => case.isolation = Isolation::Snapshot,
        "repeatable-read" => case.isolation = Isolation::RepeatableRead,
        "sql-repeatable-read" => case.blocks = Isolation::Snapshot,
        "sql-read-committed" => case.blocks = Isolation::ReadCommitted,
        baseline => case.baseline = Some(Baseline::parse(baseline).ok_or_else(unknown)?),
    }
    // The rules of other systems are not held against it.
    case.badges = case.baseline.is_none() && case.printed.is_none() && badges::are_drawn(seed);
    let Case { plan, engine, unbounded_clocks, .. } = &case;
    if *unbounded_clocks && (*engine == EngineKind::Perseus || level == Consistency::Rss) {
        return Err(Trouble::Usage(
            "without a bound of clocks run engine caerus or geogauss and not at level rss".into(),
        ));
    }
    if *engine == EngineKind::Geogauss && !Mix::ALL_MEMBERS.contains(&plan.mix) {
        let mixes = Mix::ALL_MEMBERS.map(Mix::name).join(", ");
        return Err(Trouble::Usage(format!(
            "engine geogauss needs every region but one, and clocks within their bound: plan {} is not for it; of each \
             distance there are {mixes}",
            plan.name()
        )));
    }
    if plan.mix.loses_regions() {
        if !matches!(engine, EngineKind::Caerus | EngineKind::Geogauss) && !case.records {
            return Err(Trouble::Usage(format!(
                "a region that loses its memory comes back with engines caerus and geogauss only: plan {} is not for {name}",
                plan.name()
            )));
        }
        if plan.wan.region_count() < 3 {
            return Err(Trouble::Usage(format!(
                "a region that loses its memory needs the word of K + 1 others, with K at least 1: plan {} has {} \
                 regions, and needs three",
                plan.name(),
                plan.wan.region_count()
            )));
        }
    }
    Ok(case)
}

/// Runs under [`guard`], with the line that repeats it.
pub fn guarded(
    case: &Case,
    engine: &str,
    run: impl FnOnce() -> Result<Summary, String>,
) -> Result<Summary, Trouble> {
    let replay = Replay {
        seed: case.seed,
        plan: case.plan.name(),
        engine: engine.into(),
        consistency: case.consistency.name(),
    };
    guard(&replay, run).map_err(|failure| Trouble::Failed(Box::new(failure)))
}

/// Runs cases and adds up what their clients did; panics with the first that fails.
pub fn tally(cases: impl Iterator<Item = Case>) -> BTreeMap<&'static str, u64> {
    let mut tally = BTreeMap::new();
    for case in cases {
        let run = guarded(&case, case.engine.name(), || cluster::run(&case));
        let summary = run.unwrap_or_else(|trouble| panic!("{trouble}"));
        summary.tally.into_iter().for_each(|(what, n)| *tally.entry(what).or_default() += n);
    }
    tally
}

/// Faults of PERSEUS' Alg. 1 as it was published, in each of its cases, by both readings of its majority.
fn printed_order(seed: u64) -> String {
    let mut text = format!("PERSEUS' Alg. 1, messages in the order of seed {seed}\n");
    for case in order::cases() {
        _ = writeln!(text, "{} (partition, key): {:?}", case.name, case.touches);
        for (name, rule) in [
            ("as printed, a majority of equal reports", Rule::Printed(Majority::OfReports)),
            ("as printed, a majority of answers", Rule::Printed(Majority::OfAnswers)),
            ("the engine's rule", Rule::Mended),
        ] {
            let faults = order::run(&case, rule, seed);
            _ = writeln!(text, "  {name}: {}", if faults.is_empty() { "no fault" } else { "" });
            faults.iter().for_each(|fault| _ = writeln!(text, "    {}: {fault:?}", fault.name()));
        }
    }
    text
}

fn describe(case: &Case, summary: &Summary) -> String {
    let counters = &summary.counters;
    let mut text = format!(
        "seed {} at {}, level {}: as promised\n{} operations in {:.1} s of virtual time, trace {:016x}\n",
        case.seed,
        case.plan.name(),
        case.consistency.name(),
        summary.operations,
        summary.lasted_ns as f64 / 1e9,
        summary.trace_hash
    );
    for (class, traffic) in [("inside regions", counters.inside), ("across regions", counters.across)] {
        _ = writeln!(
            text,
            "{:>8} messages {class}: {} bytes, {} lost, {} doubled",
            traffic.sent, traffic.bytes, traffic.lost, traffic.duplicated
        );
    }
    summary.tally.iter().for_each(|(what, n)| _ = writeln!(text, "{n:>8} {what}"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_printed_order_is_shown_beside_the_engine_s() {
        let text =
            run(&RunOptions { engine: PRINTED_ORDER.into(), seed: 0, ..RunOptions::default() }).unwrap();
        assert!(text.contains("no serial order: Circle") && text.contains("the engine's rule: no fault"));
        assert_eq!(text.matches("the engine's rule: no fault").count(), order::cases().len());
    }

    #[test]
    fn regions_lose_their_memory_only_where_they_can_come_back() {
        let refused = |plan, engine| case(1, plan, engine, Consistency::Regular).unwrap_err().to_string();
        for plan in ["wan3-forgets", "wan5-everything"] {
            assert!(case(1, plan, "caerus", Consistency::Regular).is_ok());
            for engine in ["perseus", "slog", "calvin"] {
                assert!(refused(plan, engine).contains("with engines caerus and geogauss only"));
            }
        }
        assert!(case(1, "wan3-forgets", "geogauss", Consistency::Regular).is_ok());
        assert!(refused("wan3-everything", "geogauss").contains("of each distance there are"));
        assert!(refused("wan2-forgets", "caerus").contains("has 2 regions, and needs three"));
    }

    #[test]
    fn probes_are_listed_from_the_sources() {
        let known = |probe: &str| PROBES.iter().any(|(name, _)| *name == probe);
        assert!(known("a fetch serves several reads") && known("a stream is sent again"));
        assert!(!known("…"), "not those in documentation");
    }
}

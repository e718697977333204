//! The event loops of regions run on any number of threads, and nothing that happens depends on it.

use base::cut::Consistency;
use sim::cluster::run::{self, Case, Conduct};
use sim::command;
use sim::plan::Plan;
use txn::any::EngineKind;

/// Histories and all that a summary counts, a hash of every event among it, on one thread and on more: over what goes
/// wrong between regions, at nodes, with clocks, and while clients of no region move homes and change the catalog.
#[test]
fn any_number_of_threads_sees_the_same() {
    let (mut answered, mut moved, mut recorded) = (0, 0, 0);
    for (nth, (engine, plan)) in (0..).zip([
        ("perseus", "wan3-calm"),
        ("caerus", "wan3-mixed"),
        ("geogauss", "wan5-lossy"),
        ("perseus", "china3-partitions"),
        ("caerus", "wan3-drift-forgets"),
        ("slog", "wan3-mixed"),
        ("caerus+records", "wan3-forgets"),
        ("calvin", "wan5-lossy"),
        ("caerus", "china3-partitions"),
        ("geogauss", "wan3-mixed"),
    ]) {
        let case = command::case(40 + nth, plan, engine, Consistency::Rss).unwrap();
        let conduct = Conduct { in_regions: true, ..Conduct::default() };
        let case = Case { conduct, ..case };
        let (histories, summary) = run::record(&case);
        let summary = summary.unwrap_or_else(|what| panic!("{engine}, {plan}, seed {}: {what}", case.seed));
        answered += summary.operations;
        recorded += summary.counters.records_persisted;
        moved += summary.tally.get("moves").copied().unwrap_or(0);
        for threads in [2, 3] {
            let (histories_then, then) =
                run::record(&Case { conduct: Conduct { threads, ..conduct }, ..case.clone() });
            assert_eq!(
                Ok(&summary),
                then.as_ref(),
                "{engine}, {plan}, seed {}, {threads} threads",
                case.seed
            );
            assert!(histories == histories_then, "{engine}, {plan}, seed {}, {threads} threads", case.seed);
        }
    }
    assert!(answered >= 300 && moved > 0, "{answered} operations, {moved} moves");
    assert!(recorded > 0, "nothing is recorded");
}

/// They keep what they promise, too, where sessions live in regions.
#[test]
fn sessions_in_regions_see_what_is_promised() {
    for seed in 0..2 {
        for plan in ["wan3-mixed", "wan4-clock-skew"] {
            for engine in [EngineKind::Caerus, EngineKind::Perseus, EngineKind::Geogauss] {
                let case = Case::new(seed, Plan::named(plan).unwrap(), Consistency::Rss);
                let conduct = Conduct { in_regions: true, ..Conduct::default() };
                let case = Case { engine, conduct, ..case };
                run::run(&case).unwrap_or_else(|what| panic!("{plan}, {engine:?}, seed {seed}: {what}"));
            }
        }
    }
}

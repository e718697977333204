//! On histories small enough to try every order, the checker and the oracle agree.

use std::cell::Cell;
use std::collections::BTreeMap;

use crate::oracle::{Demand, Oracle};
use crate::plan::{Action, Clock, Plan, actions, history, plans, runner};
use history::{Guarantee, History, check};
use proptest::strategy::Strategy;

type Verdicts = Vec<(Guarantee, bool)>;

fn oracle(history: &History, snapshots: bool) -> Verdicts {
    let oracle = Oracle::new(history);
    let mut verdicts = vec![
        (Guarantee::Serializable, oracle.serial(Demand::Nothing)),
        (Guarantee::StrictSerializable, oracle.serial(Demand::Strict)),
        (Guarantee::Rss, oracle.serial(Demand::Rss)),
        (Guarantee::Closed, oracle.serial_per_query(Demand::Nothing)),
    ];
    // The oracle's orders with one query each cannot see a token that another query handed on.
    let handed_by_query =
        history.ops().iter().flat_map(|op| &op.tokens).any(|&from| history.op(from).is_read_only());
    if !handed_by_query {
        verdicts.push((Guarantee::Regular, oracle.serial_per_query(Demand::Conflicting)));
    }
    if snapshots {
        verdicts.push((Guarantee::SnapshotIsolation, oracle.snapshot()));
    }
    verdicts
}

/// Runs the plans; `complete` demands agreement, otherwise only that what is reported is true.
/// Returns for each guarantee how often the oracle saw it kept, broken, and broken without a report.
fn compare(
    cases: u32,
    plans: impl Strategy<Value = Plan>,
    snapshots: bool,
    complete: bool,
) -> BTreeMap<String, [u32; 3]> {
    let counts = Cell::new(BTreeMap::<String, [u32; 3]>::new());
    let result = runner(cases).run(&plans, |plan| {
        let history = history(&plan, Clock::Planned);
        let mut tally = counts.take();
        for (guarantee, kept) in oracle(&history, snapshots) {
            let verdict = check(&history, guarantee);
            let entry = tally.entry(guarantee.to_string()).or_default();
            entry[usize::from(!kept)] += 1;
            match verdict {
                Ok(_) if kept => {}
                Ok(_) if complete => panic!("{guarantee} is broken, not reported:\n{history}"),
                Ok(_) => entry[2] += 1,
                Err(violation) => assert!(!kept, "{guarantee} is kept, yet {violation}\n{history}"),
            }
        }
        counts.set(tally);
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
    counts.take()
}

fn expect_both_verdicts(tally: &BTreeMap<String, [u32; 3]>, at_least: u32) {
    for (guarantee, [kept, broken, _]) in tally {
        assert!(*kept.min(broken) >= at_least, "{guarantee}: {kept} kept, {broken} broken");
    }
}

/// Every write follows a read of its key, or appends to a list.
fn recoverable() -> impl Strategy<Value = Action> + Clone {
    actions([4, 4, 0, 0, 1, 2])
}

#[test]
fn the_checker_agrees_with_all_orders_of_five() {
    let tally = compare(12_000, plans(2..=5, 3, recoverable()), false, true);
    expect_both_verdicts(&tally, 800);
}

#[test]
fn the_checker_agrees_with_all_orders_of_six() {
    let tally = compare(4_000, plans(6..=6, 2, recoverable()), false, true);
    expect_both_verdicts(&tally, 100);
}

#[test]
fn the_checker_agrees_with_all_snapshots_of_four() {
    let tally = compare(6_000, plans(2..=4, 3, recoverable()), true, true);
    expect_both_verdicts(&tally, 300);
}

#[test]
fn blind_writes_and_deletions_are_never_accused_wrongly() {
    let tally = compare(12_000, plans(2..=5, 2, actions([4, 2, 3, 2, 2, 0])), false, false);
    expect_both_verdicts(&tally, 500);
    // What stays unseen is rare.
    for (guarantee, [_, broken, unseen]) in &tally {
        assert!(unseen * 5 < *broken, "{guarantee}: {unseen} of {broken} unseen");
    }
}

//! Properties of histories too large for trying every order.

use crate::plan::{Action, Clock, Ending, Plan, actions, history, plans, runner};
use history::{AntiDependencies, Guarantee, History, RealTime, Recorder, Rules, SessionId, check};
use proptest::strategy::Strategy;

fn run(cases: u32, plans: impl Strategy<Value = Plan>, property: impl Fn(&Plan)) {
    let result = runner(cases).run(&plans, |plan| {
        property(&plan);
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
}

fn any_action() -> impl Strategy<Value = Action> + Clone {
    actions([4, 3, 2, 1, 2, 0])
}

fn recoverable() -> impl Strategy<Value = Action> + Clone {
    actions([4, 4, 0, 0, 1, 2])
}

#[test]
fn what_ran_serially_keeps_every_guarantee() {
    run(600, plans(1..=60, 0, any_action()), |plan| {
        let history = history(plan, Clock::Serial);
        for guarantee in Guarantee::NAMED {
            if let Err(violation) = check(&history, guarantee) {
                panic!("{violation}\n{history}");
            }
        }
    });
}

#[test]
fn one_lie_about_a_read_is_caught_when_the_clock_leaves_one_order() {
    let caught = std::cell::Cell::new(0);
    let answered = plans(2..=30, 1, recoverable()).prop_map(|mut plan| {
        // An unanswered operation may take effect late, whatever the clock says.
        for op in &mut plan.ops {
            if matches!(op.ending, Ending::UnknownApplied | Ending::UnknownLost) {
                op.ending = Ending::Committed;
            }
        }
        plan
    });
    run(1_500, answered, |plan| {
        let honest = Plan { lies: Vec::new(), ..plan.clone() };
        let (honest, lying) = (history(&honest, Clock::OneByOne), history(plan, Clock::OneByOne));
        let kept = check(&lying, Guarantee::StrictSerializable).is_ok();
        assert_eq!(kept, honest == lying, "{lying}");
        caught.set(caught.get() + u32::from(!kept));
    });
    assert!(caught.get() > 300, "only {} lies were told", caught.get());
}

#[test]
fn a_stronger_guarantee_implies_the_weaker_one() {
    use Guarantee::*;
    const FRESH: Guarantee = Freshness { lag_ns: 0 };
    let implies = [
        (StrictSerializable, Rss),
        (Rss, Serializable),
        (Rss, Regular),
        (Rss, Session),
        (Regular, Closed),
        (Regular, FRESH),
        (FRESH, Freshness { lag_ns: 5_000 }),
        (Serializable, Closed),
        (Serializable, SnapshotIsolation),
        (Closed, ReadAtomic),
        (SnapshotIsolation, ReadAtomic),
        (Session, ReadAtomic),
        (ReadAtomic, ReadCommitted),
    ];
    let apart = std::cell::Cell::new([0; 13]);
    run(6_000, plans(2..=12, 2, actions([4, 4, 1, 1, 1, 0])), |plan| {
        let history = history(plan, Clock::Serial);
        let mut counts = apart.get();
        for (count, (stronger, weaker)) in counts.iter_mut().zip(implies) {
            match (check(&history, stronger), check(&history, weaker)) {
                (Ok(_), Err(violation)) => panic!("{stronger} but {violation}\n{history}"),
                (Err(_), Ok(_)) => *count += 1,
                _ => {}
            }
        }
        apart.set(counts);
    });
    for (count, (stronger, weaker)) in apart.get().into_iter().zip(implies) {
        assert!(count > 0, "{stronger} and {weaker} were never told apart");
    }
}

#[test]
fn a_dumped_history_reads_back_the_same() {
    run(300, plans(0..=20, 2, any_action()), |plan| {
        let text = history(plan, Clock::Planned).to_string();
        let again: History = text.parse().unwrap();
        assert_eq!(text, again.to_string());
    });
}

/// Many sessions that read two keys and overwrite one, queries over ranges, hot keys.
fn large(ops_count: u64) -> History {
    let mut recorder = Recorder::new();
    let mut newest = vec![0; 512];
    for step in 0..ops_count {
        let op = recorder.begin(SessionId(step % 50), step * 10);
        let (first, second) = ((step * 7919 % 512) as usize, (step % 8) as usize);
        if step % 10 == 0 {
            let rows: Vec<(String, history::Seen)> = (first..(first + 8).min(512))
                .filter(|&key| newest[key] > 0)
                .map(|key| (format!("k{key:03}"), history::Seen::Value(newest[key])))
                .collect();
            let high = format!("k{:03}", first + 8);
            let rows = rows.iter().map(|(key, seen)| (key.as_str(), seen.clone()));
            recorder.scan(op, &format!("k{first:03}"), Some(&high), rows);
        } else {
            for key in [first, second] {
                recorder.read(op, &format!("k{key:03}"), newest[key]);
            }
            newest[first] = step + 1;
            recorder.write(op, &format!("k{first:03}"), step + 1);
        }
        recorder.commit(op, step * 10 + 300);
    }
    recorder.finish()
}

#[test]
fn graphs_grow_linearly() {
    for guarantee in Guarantee::NAMED {
        let edges = |ops_count| check(&large(ops_count), guarantee).unwrap().edges_count;
        let (small, big) = (edges(10_000), edges(40_000));
        assert!(big * 10 <= small * 42, "{guarantee}: {small} edges, four times the history has {big}");
    }
}

#[test]
fn one_wrong_read_in_a_large_history_is_explained_in_a_few_lines() {
    let text = large(10_000).to_string();
    // The last query returns one row as it was long ago.
    let stale = "txn late s99 [999999,1000000] r(k001)=0\n";
    let history: History = format!("{text}{stale}").parse().unwrap();
    let violation = check(&history, Guarantee::Rss).unwrap_err();
    assert!(violation.ops.len() <= 3, "{violation}");

    let everything = Rules {
        anti_dependencies: AntiDependencies::All,
        sessions: true,
        tokens: true,
        real_time: RealTime::All,
    };
    assert!(check(&history, Guarantee::Custom(everything)).is_err());
    assert!(check(&history, Guarantee::Custom(Rules { real_time: RealTime::Ignored, ..everything })).is_ok());
}

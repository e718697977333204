//! Writers of several regions compete for one row: those who are far from it get their turns.

use crate::support::{Regions, run};
use base::Time;
use base::time::{MS, SECOND};
use session::Session;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use txn::any::EngineKind;

/// What a client came to.
#[derive(Clone, Debug, Default)]
struct Tally {
    commits: u64,
    failures: u64,
    /// The longest time without a commit, once there was one.
    gap_ns: u64,
    last: Option<Time>,
}

type Client<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// What a client does between two transactions. (Steps of nodes take no time here.)
const WORK_NS: u64 = 2 * MS;

/// Increments the row in blocks until a time.
async fn increments(mut session: Session, regions: &Regions, until: Time, tally: &RefCell<Tally>) {
    while regions.now() < until {
        run(&mut session, "begin").await;
        run(&mut session, "select v from t where k = 1 for update").await;
        run(&mut session, "update t set v = v + 1 where k = 1").await;
        let ended = run(&mut session, "commit").await;
        let mut tally = tally.borrow_mut();
        if ended == "COMMIT" {
            tally.commits += 1;
            let gap_ns = tally.last.map_or(0, |last| regions.now().since(last));
            tally.gap_ns = tally.gap_ns.max(gap_ns);
            tally.last = Some(regions.now());
        } else {
            assert!(ended.starts_with("40001"), "{ended}");
            tally.failures += 1;
        }
        drop(tally);
        regions.pause(WORK_NS).await;
    }
}

/// Increments it with statements that are ordered as a whole.
async fn one_shots(mut session: Session, regions: &Regions, until: Time, tally: &RefCell<Tally>) {
    while regions.now() < until {
        assert_eq!(run(&mut session, "update t set v = v + 1 where k = 1").await, "UPDATE 1");
        tally.borrow_mut().commits += 1;
        regions.pause(WORK_NS).await;
    }
}

fn alone(regions: &Regions, clients: Vec<Client<'_>>) {
    regions.run_together(clients);
}

#[test]
fn writers_far_from_a_hot_row_get_their_turns_with_each_engine() {
    for engine in [EngineKind::Caerus, EngineKind::Perseus] {
        let regions = Regions::with_engine(engine);
        let mut first = regions.session(0);
        alone(
            &regions,
            vec![Box::pin(async {
                run(&mut first, "create table t (k int primary key, v int) with (home = 'us')").await;
                assert_eq!(run(&mut first, "insert into t values (1, 0)").await, "INSERT 0 1");
            })],
        );
        let until = regions.now() + 4 * SECOND;
        // Two near the row, two and one far from it, and one far that has no blocks.
        let places = [0, 0, 1, 1, 2, 2];
        let tallies = vec![RefCell::new(Tally::default()); places.len()];
        let client = |n: usize| -> Client<'_> {
            let (session, tally) = (regions.session(places[n]), &tallies[n]);
            match n + 1 == places.len() {
                false => Box::pin(increments(session, &regions, until, tally)),
                true => Box::pin(one_shots(session, &regions, until, tally)),
            }
        };
        regions.run_together((0..places.len()).map(client).collect());
        let told: Vec<Tally> = tallies.iter().map(|tally| tally.borrow().clone()).collect();
        let shown = format!("{engine:?} {told:#?}");
        let far = &told[2..5];
        // Each far attempt needs two round trips or more by itself, and each waits for the turns of those before it.
        let least = far.iter().map(|tally| tally.commits).min().unwrap();
        assert!(least >= 4, "{shown}");
        // A client that waits is passed by nobody who came later: six turns of at most three round trips.
        assert!(told[..5].iter().all(|tally| tally.gap_ns < 2 * SECOND), "{shown}");
        // Once it is known that the row is contended, waiting takes the place of failing.
        assert!(far.iter().all(|tally| tally.failures <= 2), "{shown}");
        let mut sum = String::new();
        let total = told.iter().map(|tally| tally.commits).sum::<u64>();
        alone(
            &regions,
            vec![Box::pin(async {
                sum = run(&mut first, "select v from t where k = 1").await;
            })],
        );
        assert_eq!(sum, total.to_string(), "{shown}");
    }
}

#[test]
fn a_far_transaction_that_stands_still_delays_others_for_its_lease_only() {
    let regions = Regions::new();
    let (mut near, mut far) = (regions.session(0), regions.session(1));
    alone(
        &regions,
        vec![Box::pin(async {
            run(&mut near, "create table t (k int primary key, v int) with (home = 'us')").await;
            run(&mut near, "insert into t values (1, 0)").await;
            // One failure, and the next comes with a lock.
            run(&mut far, "begin; select v from t where k = 1 for update").await;
            assert_eq!(run(&mut near, "update t set v = v + 1 where k = 1").await, "UPDATE 1");
            run(&mut far, "update t set v = v + 1 where k = 1").await;
            assert!(run(&mut far, "commit").await.starts_with("40001"));
            run(&mut far, "begin; select v from t where k = 1 for update").await;
            let began = regions.now();
            assert_eq!(run(&mut near, "update t set v = v + 1 where k = 1").await, "UPDATE 1");
            let waited_ns = regions.now().since(began);
            assert!((800 * MS..2 * SECOND).contains(&waited_ns), "{waited_ns}");
            // Its lock is gone, and validation knows what happened since.
            run(&mut far, "update t set v = v + 1 where k = 1").await;
            assert!(run(&mut far, "commit").await.starts_with("40001"));
            // One that ends gives way at once, whatever became of it.
            run(&mut far, "begin; select v from t where k = 1 for update; rollback").await;
            let began = regions.now();
            assert_eq!(run(&mut near, "update t set v = v + 1 where k = 1").await, "UPDATE 1");
            assert!(regions.now().since(began) < 300 * MS);
            assert_eq!(run(&mut near, "select v from t where k = 1").await, "3");
        })],
    );
}

#[test]
fn a_circle_through_two_homes_ends_by_itself() {
    let regions = Regions::new();
    let (mut us, mut eu) = (regions.session(0), regions.session(1));
    alone(
        &regions,
        vec![Box::pin(async {
            run(&mut us, "create table a (k int primary key, v int) with (home = 'us')").await;
            run(&mut us, "create table b (k int primary key, v int) with (home = 'eu')").await;
            run(&mut us, "insert into a values (1, 0)").await;
            run(&mut us, "insert into b values (1, 0)").await;
            for (far, near, table) in [(&mut eu, "us", "a"), (&mut us, "eu", "b")] {
                let mut near = regions.session(usize::from(near == "eu"));
                run(far, &format!("begin; select v from {table} where k = 1 for update")).await;
                run(&mut near, &format!("update {table} set v = 1 where k = 1")).await;
                run(far, &format!("update {table} set v = 2 where k = 1")).await;
                assert!(run(far, "commit").await.starts_with("40001"));
            }
        })],
    );
    let began = regions.now();
    let ended = RefCell::new(Vec::new());
    let client = |mut session: Session, own: &'static str, other: &'static str| -> Client<'_> {
        let ended = &ended;
        Box::pin(async move {
            run(&mut session, &format!("begin; update {own} set v = v + 1 where k = 1")).await;
            run(&mut session, &format!("update {other} set v = v + 1 where k = 1")).await;
            let end = run(&mut session, "commit").await;
            ended.borrow_mut().push(end);
        })
    };
    regions.run_together(vec![client(us, "a", "b"), client(eu, "b", "a")]);
    assert!(regions.now().since(began) < 4 * SECOND);
    let ended = ended.into_inner();
    assert!(ended.iter().any(|end| end == "COMMIT"), "{ended:?}");
    assert!(ended.iter().all(|end| end == "COMMIT" || end.starts_with("40001")), "{ended:?}");
}

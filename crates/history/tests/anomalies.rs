//! Each anomaly is found under every guarantee that forbids it, and under no other.

use history::{Anomaly, Guarantee, History, check};

use Guarantee::{
    Closed, ReadAtomic, ReadCommitted, Regular, Rss, Serializable, Session, SnapshotIsolation,
    StrictSerializable,
};

const FRESH: Guarantee = Guarantee::Freshness { lag_ns: 0 };

const ALL_BUT_FRESH: [Guarantee; 9] = [
    ReadCommitted,
    ReadAtomic,
    Session,
    SnapshotIsolation,
    Closed,
    Regular,
    Serializable,
    Rss,
    StrictSerializable,
];

/// Checks a scenario against all named guarantees: broken are exactly those listed, each with this
/// anomaly.
#[track_caller]
fn expect(scenario: &str, broken: &[(Guarantee, Anomaly)]) {
    let history: History = scenario.parse().unwrap();
    for guarantee in Guarantee::NAMED {
        let expected = broken.iter().find(|b| b.0 == guarantee).map(|b| b.1);
        match check(&history, guarantee) {
            Ok(_) => assert_eq!(None, expected, "{guarantee} should be broken by\n{history}"),
            Err(violation) => assert_eq!(Some(violation.anomaly), expected, "{violation}"),
        }
    }
}

/// Everywhere the same anomaly.
fn all(anomaly: Anomaly, guarantees: &[Guarantee]) -> Vec<(Guarantee, Anomaly)> {
    guarantees.iter().map(|&guarantee| (guarantee, anomaly)).collect()
}

#[test]
fn a_serial_history_keeps_everything() {
    expect(
        "load x
         txn t1 s1 [0,10] r(x)=0 w(x)=1 r(x)=1
         txn t2 s2 [20,30] r(x)=1 r(y)=- w(y)=2
         txn t3 s2 [40,50] aborted r(x)=1 w(x)=7
         txn q1 s3 [60,70] s(..)={x:1,y:2}
         txn t4 s1 [80,90] after=q1 r(l)=[] a(l)=1 a(l)=2 r(l)=[1,2] d(y)
         txn q2 s3 [95,99] s(a..z)={x:1,l:[1,2]}",
        &[],
    );
}

#[test]
fn lost_update_of_a_register() {
    let broken = [SnapshotIsolation, Closed, Regular, Serializable, Rss, StrictSerializable];
    expect(
        "txn t1 s1 [0,10] r(x)=0 w(x)=1
         txn t2 s2 [5,15] r(x)=0 w(x)=2",
        &all(Anomaly::LostUpdate, &broken),
    );
}

#[test]
fn lost_update_of_a_list() {
    let broken = [SnapshotIsolation, Closed, Regular, Serializable, Rss, StrictSerializable];
    expect(
        "txn t1 s1 [0,10] r(x)=[] a(x)=1
         txn t2 s2 [5,15] r(x)=[] a(x)=2
         txn q1 s3 [7,20] r(x)=[1,2]",
        &all(Anomaly::LostUpdate, &broken),
    );
}

#[test]
fn ones_own_view_of_a_list_says_nothing_about_its_order() {
    // t1 saw its append come first; q1 sees another one there.
    let broken = [SnapshotIsolation, Closed, Regular, Serializable, Rss, StrictSerializable];
    expect(
        "txn t1 s1 [0,10] a(x)=1 r(x)=[1]
         txn t2 s2 [5,15] a(x)=2
         txn q1 s3 [7,20] r(x)=[2]",
        &all(Anomaly::LostUpdate, &broken),
    );
}

#[test]
fn a_second_look_that_sees_something_else() {
    let broken =
        [ReadAtomic, Session, SnapshotIsolation, Closed, Regular, Serializable, Rss, StrictSerializable];
    expect(
        "txn t1 s1 [0,10] w(x)=1
         txn t2 s2 [0,10] r(x)=1 w(x)=2
         txn t3 s3 [0,10] r(x)=1 r(x)=2 w(x)=3",
        &all(Anomaly::FracturedRead, &broken),
    );
}

#[test]
fn lost_updates_do_not_excuse_weak_guarantees() {
    // Each of two that overwrote one version reads a part of the other.
    let lost = all(
        Anomaly::LostUpdate,
        &[SnapshotIsolation, Closed, Regular, Serializable, Rss, StrictSerializable],
    );
    let torn = all(Anomaly::FracturedRead, &[ReadAtomic, Session]);
    for text in [
        "txn t1 s1 [0,10] r(x)=0 r(y)=2 w(x)=1
         txn t2 s2 [5,15] r(x)=0 w(x)=2 w(y)=2",
        "txn t1 s1 [0,10] r(x)=0 w(x)=1 w(y)=1
         txn t2 s2 [5,15] r(x)=0 r(y)=1 w(x)=2",
        "txn t1 s1 [0,10] r(x)=0 r(y)=3 w(x)=1
         txn t2 s2 [5,15] r(x)=0 w(x)=2
         txn t3 s3 [6,15] r(x)=0 w(x)=3 w(y)=3",
        "txn t1 s1 [0,10] r(x)=0 w(x)=1 w(y)=1
         txn t2 s2 [5,15] r(x)=0 w(x)=2
         txn t3 s3 [6,15] r(x)=0 r(y)=1 w(x)=3",
    ] {
        expect(text, &[lost.clone(), torn.clone()].concat());
    }
}

#[test]
fn write_skew() {
    let broken = [Closed, Regular, Serializable, Rss, StrictSerializable];
    expect(
        "txn t1 s1 [0,10] r(x)=0 r(y)=0 w(x)=1
         txn t2 s2 [5,15] r(x)=0 r(y)=0 w(y)=2",
        &all(Anomaly::WriteSkew, &broken),
    );
}

#[test]
fn write_skew_past_appends_that_nobody_saw() {
    expect(
        "txn q0 s0 [0,20] r(x)=[] r(y)=[]
         txn t1 s1 [0,20] r(x)=[] a(y)=1
         txn t2 s2 [0,20] r(y)=[] a(x)=2
         txn t3 s3 [0,20] a(x)=3 a(y)=3",
        &all(Anomaly::WriteSkew, &[Closed, Regular, Serializable, Rss, StrictSerializable]),
    );
}

#[test]
fn a_phantom_through_range_reads() {
    let broken = [Closed, Regular, Serializable, Rss, StrictSerializable];
    expect(
        "txn t1 s1 [0,10] s(a..n)={} w(b)=1
         txn t2 s2 [5,15] s(a..n)={} w(c)=2",
        &all(Anomaly::Phantom, &broken),
    );
}

#[test]
fn a_range_read_that_misses_one_row_of_a_transaction() {
    let broken =
        [ReadAtomic, Session, SnapshotIsolation, Closed, Regular, Serializable, Rss, StrictSerializable];
    expect(
        "txn t1 s1 [0,10] w(b)=1 w(c)=1
         txn q1 s2 [5,15] s(a..n)={b:1}",
        &all(Anomaly::Phantom, &broken),
    );
}

#[test]
fn ranges_end_before_their_upper_bound() {
    expect(
        "txn t1 s1 [0,10] w(b)=1 w(n)=1
         txn q1 s2 [20,25] s(a..n)={b:1}",
        &[],
    );
}

#[test]
fn long_fork() {
    // Two queries see two independent writers in opposite orders; each query alone is fine.
    let broken = [SnapshotIsolation, Serializable, Rss, StrictSerializable];
    expect(
        "txn t1 s1 [0,50] r(x)=0 w(x)=1
         txn t2 s2 [0,50] r(y)=0 w(y)=1
         txn q1 s3 [10,20] r(x)=1 r(y)=0
         txn q2 s4 [10,20] r(x)=0 r(y)=1",
        &all(Anomaly::LongFork, &broken),
    );
}

#[test]
fn stale_read_of_a_register() {
    let broken = [FRESH, Regular, Rss, StrictSerializable];
    expect(
        "txn t1 s1 [0,10] r(x)=0 w(x)=1
         txn q1 s2 [20,30] r(x)=0",
        &all(Anomaly::StaleRead, &broken),
    );
}

#[test]
fn stale_read_by_a_writer() {
    let broken = [FRESH, Regular, Rss, StrictSerializable];
    expect(
        "txn t1 s1 [0,10] a(x)=1
         txn t2 s1 [20,30] a(x)=2
         txn t3 s2 [40,50] r(x)=[1] w(y)=3
         txn q1 s3 [60,70] r(x)=[1,2]",
        &all(Anomaly::StaleRead, &broken),
    );
}

#[test]
fn stale_read_among_blind_writes() {
    // No value tells the order of 1 and 2, the clock does.
    let broken = [FRESH, Regular, Rss, StrictSerializable];
    expect(
        "txn t1 s1 [0,10] w(x)=1
         txn t2 s2 [20,30] w(x)=2
         txn q1 s3 [40,50] r(x)=1",
        &all(Anomaly::StaleRead, &broken),
    );
}

#[test]
fn stale_by_a_later_version_that_was_answered_first() {
    // t1 still runs when q1 begins, but t2, which overwrote t1, is done.
    expect(
        "txn t1 s1 [0,90] r(x)=0 w(x)=1
         txn t2 s2 [5,10] r(x)=1 w(x)=2
         txn q1 s3 [20,30] r(x)=0",
        &all(Anomaly::StaleRead, &[FRESH, Regular, Rss, StrictSerializable]),
    );
}

#[test]
fn the_newest_version_is_fresh_whatever_the_clock_says() {
    expect(
        "txn t1 s1 [0,10] r(x)=2 w(x)=1
         txn t2 s2 [20,30] w(x)=2
         txn q1 s3 [40,50] r(x)=1",
        &all(Anomaly::RealTimeInversion, &[Regular, Rss, StrictSerializable]),
    );
}

#[test]
fn a_finished_writer_counts_even_where_the_order_of_versions_is_open() {
    // x=2 was answered before q1 began, so q1 comes after t2, and after t3 from which t2 read.
    for writes in ["", "w(v)=1"] {
        expect(
            &format!(
                "txn t3 s1 [0,90] r(y)=0 w(y)=3 w(z)=3
                 txn t2 s2 [0,10] r(z)=3 w(x)=2
                 txn t1 s3 [0,20] w(x)=1
                 txn q1 s4 [30,40] r(x)=1 r(y)=0 {writes}"
            ),
            &all(Anomaly::RealTimeInversion, &[Regular, Rss, StrictSerializable]),
        );
    }
}

#[test]
fn a_finished_deletion_counts_even_where_it_may_be_another_one() {
    // q1 saw one of two deletions; whichever it was, t2 is behind it, and t3 behind t2.
    expect(
        "txn t3 s1 [0,90] r(y)=0 w(y)=3 w(z)=3
         txn t2 s2 [0,10] r(z)=3 d(x)
         txn t1 s3 [0,20] d(x)
         txn q1 s4 [30,40] r(x)=- r(y)=0",
        &all(Anomaly::RealTimeInversion, &[Regular, Rss, StrictSerializable]),
    );
}

#[test]
fn stale_within_the_lag() {
    let history: History = "txn t1 s1 [0,10] r(x)=0 w(x)=1
                            txn q1 s2 [20,30] r(x)=0"
        .parse()
        .unwrap();
    assert!(check(&history, Guarantee::Freshness { lag_ns: 10 }).is_ok());
    assert!(check(&history, Guarantee::Freshness { lag_ns: 9 }).is_err());
}

#[test]
fn a_read_concurrent_with_a_write_may_miss_it() {
    expect(
        "txn t1 s1 [0,20] r(x)=0 w(x)=1
         txn q1 s2 [20,30] r(x)=0",
        &[],
    );
}

#[test]
fn session_order_broken() {
    // One client writes at A, then at B; a query sees the second without the first.
    expect(
        "txn t1 s1 [0,10] r(x)=0 w(x)=1
         txn q1 s2 [5,40] r(x)=0 r(y)=1
         txn t2 s1 [20,30] r(y)=0 w(y)=1",
        &all(Anomaly::SessionOrder, &[Session, Rss, StrictSerializable]),
    );
}

#[test]
fn a_session_forgets_what_it_saw() {
    expect(
        "txn t1 s1 [0,90] r(x)=0 w(x)=1
         txn q1 s2 [10,20] r(x)=1
         txn q2 s2 [30,40] r(x)=0",
        &all(Anomaly::SessionOrder, &[Session, Rss, StrictSerializable]),
    );
}

#[test]
fn a_session_does_not_read_its_own_write() {
    expect(
        "txn t1 s1 [0,10] r(x)=0 w(x)=1
         txn q1 s1 [20,40] r(x)=0",
        &[
            (Session, Anomaly::SessionOrder),
            (FRESH, Anomaly::StaleRead),
            (Regular, Anomaly::StaleRead),
            (Rss, Anomaly::SessionOrder),
            (StrictSerializable, Anomaly::SessionOrder),
        ],
    );
}

#[test]
fn a_session_goes_on_at_the_instant_of_its_answer() {
    // At one instant the clock puts nothing in order, the session does.
    expect(
        "txn t1 s1 [0,10] r(x)=0 w(x)=1
         txn q1 s1 [10,20] r(x)=0",
        &all(Anomaly::SessionOrder, &[Session, Rss, StrictSerializable]),
    );
}

#[test]
fn overlapping_operations_of_a_session_are_not_ordered() {
    expect(
        "txn t1 s1 [0,10] r(x)=0 w(x)=1
         txn q1 s1 [5,20] r(x)=0
         txn q2 s1 [30,40] r(x)=1",
        &[],
    );
    expect(
        "txn t1 s1 [0,10] r(x)=0 w(x)=1
         txn q1 s1 [5,20] r(x)=1
         txn q2 s1 [30,40] r(x)=0",
        &[
            (Session, Anomaly::SessionOrder),
            (FRESH, Anomaly::StaleRead),
            (Regular, Anomaly::StaleRead),
            (Rss, Anomaly::SessionOrder),
            (StrictSerializable, Anomaly::SessionOrder),
        ],
    );
}

#[test]
fn an_aborted_operation_hands_a_token_on() {
    expect(
        "txn t1 s1 [0,90] r(x)=0 w(x)=1
         txn q1 s2 [10,20] r(x)=1
         txn t2 s2 [30,40] aborted w(y)=2
         txn q2 s3 [50,60] after=t2 r(x)=0",
        &all(Anomaly::SessionOrder, &[Session, Rss, StrictSerializable]),
    );
}

#[test]
fn an_operation_without_an_answer_hands_nothing_on() {
    expect(
        "txn t1 s1 [0,10] r(x)=0 w(x)=1
         txn t2 s1 [10,?] w(y)=2
         txn q1 s3 [10,60] after=t2 r(x)=0",
        &[],
    );
}

#[test]
fn token_order_broken() {
    // t1's parent t0 is missing although q1 carries t1's token.
    expect(
        "txn t0 s1 [0,90] r(x)=0 w(x)=1 w(y)=1
         txn t1 s2 [10,20] r(y)=1 w(y)=2
         txn q1 s3 [30,40] after=t1 r(x)=0",
        &all(Anomaly::TokenOrder, &[Session, Regular, Rss, StrictSerializable]),
    );
}

#[test]
fn real_time_inversion_of_writers_that_do_not_conflict() {
    // t1 was answered before t2 of another client began; a query sees t2 without t1.
    expect(
        "txn t1 s1 [0,10] r(x)=0 w(x)=1
         txn q1 s3 [5,40] r(x)=0 r(y)=1
         txn t2 s2 [20,30] r(y)=0 w(y)=1",
        &all(Anomaly::RealTimeInversion, &[Rss, StrictSerializable]),
    );
}

#[test]
fn real_time_inversion_between_queries_breaks_strictness_only() {
    expect(
        "txn t1 s1 [0,90] r(x)=0 w(x)=1
         txn q1 s2 [10,20] r(x)=1
         txn q2 s3 [30,40] r(x)=0",
        &all(Anomaly::RealTimeInversion, &[StrictSerializable]),
    );
}

#[test]
fn aborted_read() {
    expect(
        "txn t1 s1 [0,10] aborted w(x)=1
         txn q1 s2 [20,30] r(x)=1",
        &all(Anomaly::AbortedRead, &Guarantee::NAMED),
    );
    expect(
        "txn t1 s1 [0,10] aborted a(x)=1
         txn t2 s1 [11,12] a(x)=2
         txn q1 s2 [20,30] r(x)=[1,2]",
        &all(Anomaly::AbortedRead, &Guarantee::NAMED),
    );
}

#[test]
fn intermediate_read() {
    expect(
        "txn t1 s1 [0,10] w(x)=1 w(x)=2
         txn q1 s2 [20,30] r(x)=1",
        &all(Anomaly::IntermediateRead, &Guarantee::NAMED),
    );
    expect(
        "txn t1 s1 [0,10] a(x)=1 a(x)=2
         txn q1 s2 [20,30] r(x)=[1]",
        &all(Anomaly::IntermediateRead, &Guarantee::NAMED),
    );
}

#[test]
fn values_from_nowhere() {
    let everywhere = all(Anomaly::GarbageRead, &Guarantee::NAMED);
    expect("txn q1 s2 [20,30] r(x)=1", &everywhere);
    expect("txn q1 s2 [20,30] r(x)=[1]", &everywhere);
    expect("load x\ntxn q1 s2 [20,30] r(x)=-", &everywhere);
    expect("load x\ntxn q1 s2 [20,30] s(a..z)={}", &everywhere);
    expect("txn t1 s1 [0,1] w(x)=1\ntxn q1 s2 [20,30] s(a..c)={x:1}", &everywhere);
}

#[test]
fn own_writes_are_seen() {
    let everywhere = all(Anomaly::Internal, &Guarantee::NAMED);
    expect("txn t1 s1 [0,10] w(x)=1 r(x)=0", &everywhere);
    expect("txn t1 s1 [0,10] r(x)=1 w(x)=1", &everywhere);
    expect("txn t1 s1 [0,10] w(x)=1 d(x) r(x)=1", &everywhere);
    expect("txn t1 s1 [0,10] w(x)=1 s(..)={}", &everywhere);
    expect("txn t1 s1 [0,10] a(x)=1 r(x)=[]", &everywhere);
    expect("txn t1 s1 [0,10] w(x)=1 d(x) r(x)=- s(..)={}", &[]);
}

#[test]
fn appends_happen_once() {
    expect(
        "txn t1 s1 [0,10] a(x)=1
         txn t2 s1 [11,12] a(x)=2
         txn q1 s2 [20,30] r(x)=[1,2,1]",
        &all(Anomaly::DuplicateWrite, &Guarantee::NAMED),
    );
}

#[test]
fn lists_do_not_fork() {
    expect(
        "txn t1 s1 [0,10] a(x)=1
         txn t2 s2 [0,10] a(x)=2
         txn q1 s3 [20,30] r(x)=[1,2]
         txn q2 s4 [20,30] r(x)=[2]",
        &all(Anomaly::ForkedVersions, &Guarantee::NAMED),
    );
}

#[test]
fn fractured_read() {
    let broken =
        [ReadAtomic, Session, SnapshotIsolation, Closed, Regular, Serializable, Rss, StrictSerializable];
    expect(
        "txn t1 s1 [0,50] r(x)=0 r(y)=0 w(x)=1 w(y)=1
         txn q1 s2 [10,20] r(x)=1 r(y)=0",
        &all(Anomaly::FracturedRead, &broken),
    );
    // The version missed lies two writers back.
    expect(
        "txn t0 s1 [0,90] r(y)=0 w(y)=1
         txn t1 s2 [0,90] r(x)=0 r(y)=1 w(x)=2 w(y)=2
         txn q1 s3 [10,20] r(x)=2 r(y)=0",
        &all(Anomaly::FracturedRead, &broken),
    );
}

#[test]
fn a_cut_that_is_not_closed() {
    // q1 sees t2 but not t1, on which t2 depends; no transaction is seen in part, no session broken.
    let broken = [SnapshotIsolation, Closed, Regular, Serializable, Rss, StrictSerializable];
    expect(
        "txn t1 s1 [0,90] a(x)=1 a(y)=1
         txn t2 s2 [0,90] a(y)=2 a(z)=2
         txn q0 s3 [0,90] r(x)=[1] r(y)=[1,2]
         txn q1 s4 [0,90] r(x)=[] r(z)=[2]",
        &all(Anomaly::ReadSkew, &broken),
    );
}

#[test]
fn dirty_write() {
    expect(
        "txn t1 s1 [0,10] a(x)=1 a(y)=1
         txn t2 s2 [0,10] a(x)=2 a(y)=2
         txn q1 s3 [0,30] r(x)=[1,2]
         txn q2 s4 [0,30] r(y)=[2,1]",
        &all(Anomaly::DirtyWrite, &ALL_BUT_FRESH),
    );
}

#[test]
fn circular_information_flow() {
    expect(
        "txn t1 s1 [0,10] w(x)=1 r(y)=2
         txn t2 s2 [0,10] w(y)=2 r(x)=1",
        &all(Anomaly::CircularInformationFlow, &ALL_BUT_FRESH),
    );
}

#[test]
fn a_cycle_of_three_anti_dependencies() {
    let broken = [Closed, Regular, Serializable, Rss, StrictSerializable];
    expect(
        "txn t1 s1 [0,10] r(x)=0 w(y)=1
         txn t2 s2 [0,10] r(y)=0 w(z)=1
         txn t3 s3 [0,10] r(z)=0 w(x)=1",
        &all(Anomaly::AntiDependencyCycle, &broken),
    );
}

#[test]
fn an_observed_unknown_counts_as_committed() {
    let text = "txn t1 s1 [0,?] r(x)=0 r(y)=0 w(x)=1 w(y)=1
                txn q1 s2 [10,20] r(x)=1 r(y)=0";
    let violation = check(&text.parse().unwrap(), Rss).unwrap_err();
    assert_eq!(violation.anomaly, Anomaly::FracturedRead);

    let text = "txn t1 s1 [0,?] r(x)=0 w(x)=1
                txn q1 s2 [10,20] r(x)=0
                txn q2 s2 [30,40] r(x)=0";
    let report = check(&text.parse().unwrap(), StrictSerializable).unwrap();
    assert_eq!((report.unknown_observed_count, report.unknown_ignored_count), (0, 1));

    // It may also take effect late.
    let text = "txn t1 s1 [0,?] r(x)=0 w(x)=1
                txn q1 s2 [10,20] r(x)=0
                txn q2 s2 [30,40] r(x)=1";
    let report = check(&text.parse().unwrap(), StrictSerializable).unwrap();
    assert_eq!((report.unknown_observed_count, report.unknown_ignored_count), (1, 0));
}

#[test]
fn unrecoverable_orders_are_counted_not_guessed() {
    let text = "txn t1 s1 [0,90] w(x)=1
                txn t2 s2 [0,90] w(x)=2
                txn q1 s3 [0,90] r(x)=1
                txn q2 s4 [0,90] r(x)=2";
    let report = check(&text.parse().unwrap(), StrictSerializable).unwrap();
    assert_eq!(report.open_pairs_count, 1);

    let text = "txn t1 s1 [0,10] w(x)=1 w(y)=1
                txn t2 s2 [0,10] d(x)
                txn q1 s3 [0,10] r(x)=- r(y)=1";
    let report = check(&text.parse().unwrap(), StrictSerializable).unwrap();
    assert_eq!(report.ambiguous_reads_count, 1);
}

#[test]
fn a_blind_write_follows_a_chain_that_leaves_no_room() {
    let text = "txn t1 s1 [0,90] r(x)=0 w(x)=1 w(y)=1
                txn t2 s2 [0,90] w(x)=2 r(y)=0";
    let violation = check(&text.parse().unwrap(), Serializable).unwrap_err();
    assert_eq!(violation.anomaly, Anomaly::ReadSkew, "{violation}");
}

#[test]
fn a_counter_example_reads_as_an_argument() {
    let text = "txn t1 s1 [0,50] r(x)=0 w(x)=1
txn t2 s2 [0,50] r(y)=0 w(y)=1
txn q1 s3 [10,20] r(x)=1 r(y)=0
txn q2 s4 [10,20] r(x)=0 r(y)=1
txn t3 s4 [60,70] r(y)=1 w(y)=2";
    let violation = check(&text.parse().unwrap(), Rss).unwrap_err();
    assert_eq!(
        violation.to_string(),
        "not rss: long fork
  t1 before q1: q1 read x=1, written by t1
  q1 before t2: q1 read y's initial state, t2 wrote the later y=1
  t2 before q2: q2 read y=1, written by t2
  q2 before t1: q2 read x's initial state, t1 wrote the later x=1
where
  txn t1 s1 [0,50] r(x)=0 w(x)=1
  txn t2 s2 [0,50] r(y)=0 w(y)=1
  txn q1 s3 [10,20] r(x)=1 r(y)=0
  txn q2 s4 [10,20] r(x)=0 r(y)=1
"
    );
}

//! Scenes that chance plays too rarely: each is a way to lose something if one rule was missing.

use crate::stage::Stage;
use base::time::MS;
use consensus::{Index, Message, Options};

/// By name. They panic if something is lost.
pub const SCENES: [(&str, fn(Options)); 6] = [
    ("old terms", an_old_term_is_not_committed_by_counting),
    ("vote", a_vote_survives_a_restart),
    ("checkpoint", a_vote_survives_a_checkpoint),
    ("promise", a_promise_keeps_a_candidate_out),
    ("restart", a_promise_survives_a_restart),
    ("clocks", a_lease_ends_before_the_slowest_promise),
];

fn with_lease(options: Options, clock_bound_ns: u64) -> Options {
    let election_ns = (40 * MS, 60 * MS);
    Options { heartbeat_ns: 5 * MS, election_ns, lease_ns: 100 * MS, clock_bound_ns, ..options }
}

/// Figure 8 of the paper: an entry of an earlier term, found at a majority, may still be replaced by a
/// leader who never saw it.
fn an_old_term_is_not_committed_by_counting(options: Options) {
    // Entries go one by one.
    let options = Options { lease_ns: 0, message_bytes_max: 1, messages_ahead_max: 1, ..options };
    let mut stage = Stage::new(options, [0; 3]);
    assert!(stage.elect(0, &[1]));
    stage.wake(0);
    stage.carry_among(&[0, 1, 2]);
    assert!((0..3).all(|m| stage.last(m) == Index(1)), "the opening entry is everywhere");
    stage.propose(0, "old");
    stage.lose_everything();
    assert!(stage.elect(2, &[1]), "without having seen that entry");
    assert_eq!((stage.last(0), stage.last(2)), (Index(2), Index(2)));
    assert!(stage.elect(0, &[1]), "the first leader again, in a later term");
    // Its entry of the earlier term reaches a majority, the one of this term does not.
    stage.wake(0);
    stage.carry(|from, to, _| from != 2 && to != 2, |stage| stage.last(1) == Index(2));
    stage.carry(|_, to, message| to == 0 && matches!(message, Message::Appended { .. }), |_| false);
    assert_eq!((stage.last(0), stage.last(1)), (Index(3), Index(2)));
    // The other one hears of the term and nothing else.
    let is_heartbeat = |message: &Message| matches!(message, Message::Append(a) if a.entries.is_empty());
    stage.carry(|_, to, message| to == 2 && is_heartbeat(message), |_| false);
    stage.lose_everything();
    // It leads again, and what it has goes everywhere.
    assert!(stage.elect(2, &[1]));
    for _ in 0..3 {
        stage.wake(2);
        stage.carry_among(&[1, 2]);
    }
    assert_eq!(stage.last(1), stage.last(2));
}

/// Two candidates of one term; the third member votes for one, restarts, and is asked by the other.
fn a_vote_survives_a_restart(options: Options) {
    let mut stage = Stage::new(Options { lease_ns: 0, ..options }, [0; 3]);
    stage.wake(0);
    stage.wake(1);
    // Both are told that a campaign has a chance; one of them hears it late.
    stage.carry(|_, to, message| to == 2 && matches!(message, Message::AskBefore { .. }), |_| false);
    stage.carry(|from, to, _| from != 1 && to != 1, |stage| stage.leads(0));
    assert!(stage.leads(0));
    stage.restart(2);
    stage.now_ns += 1;
    stage.carry(|from, to, _| from != 0 && to != 0, |_| false);
    assert!(!stage.leads(1), "the vote was given");
}

/// The same, with a checkpoint between the vote and the restart. Who votes led before.
fn a_vote_survives_a_checkpoint(options: Options) {
    let mut stage = Stage::new(Options { lease_ns: 0, ..options }, [0; 3]);
    assert!(stage.elect(0, &[1, 2]));
    for _ in 0..2 {
        stage.wake(0);
        stage.carry_among(&[0, 1, 2]);
    }
    stage.wake(1);
    stage.wake(2);
    stage.carry(|_, to, message| to == 0 && matches!(message, Message::AskBefore { .. }), |_| false);
    stage.carry(|from, to, _| from != 2 && to != 2, |stage| stage.leads(1));
    assert!(stage.leads(1));
    stage.checkpoint(0);
    stage.restart(0);
    stage.now_ns += 1;
    stage.carry(|from, to, _| from != 1 && to != 1, |_| false);
    assert!(!stage.leads(2), "the vote was given");
}

/// Member 0 leads and all have what it has. Then member 2 hears it no more, and member 1 promises anew.
fn led_by_the_first(options: Options, errors_ns: [i64; 3]) -> Stage {
    let mut stage = Stage::new(options, errors_ns);
    assert!(stage.elect(0, &[1, 2]));
    stage.wake(0);
    stage.carry_among(&[0, 1, 2]);
    stage.now_ns += 50 * MS;
    stage.wake(0);
    stage.carry_among(&[0, 1]);
    stage.lose_everything();
    assert!(stage.has_lease(0));
    stage
}

/// A candidate that does not hear the leader asks a member that does.
fn a_promise_keeps_a_candidate_out(options: Options) {
    let stage = led_by_the_first(with_lease(options, 0), [0; 3]);
    takes_over_only_after_the_lease(stage);
}

/// The same, but that member restarts in between.
fn a_promise_survives_a_restart(options: Options) {
    let mut stage = led_by_the_first(with_lease(options, 0), [0; 3]);
    stage.restart(1);
    takes_over_only_after_the_lease(stage);
}

/// Member 2 tries; while member 0 has its lease it must not get one, afterwards it does.
fn takes_over_only_after_the_lease(mut stage: Stage) {
    let mut attempts = 0;
    while stage.has_lease(0) {
        attempts += 1;
        leads_with_a_lease(&mut stage);
    }
    assert!(0 < attempts, "nobody tried");
    // What a restarted member may have promised lasts a little longer.
    stage.now_ns += 100 * MS;
    assert!((0..4).any(|_| leads_with_a_lease(&mut stage)), "the lease is over");
}

/// Member 2 campaigns with member 1, and gets a lease if it can.
fn leads_with_a_lease(stage: &mut Stage) -> bool {
    stage.wake(2);
    stage.carry_among(&[1, 2]);
    stage.has_lease(2)
}

/// A slow leader and a fast member: the promise is over early, and the lease has to be earlier.
fn a_lease_ends_before_the_slowest_promise(options: Options) {
    let bound_ns = 10 * MS;
    let errors_ns = [-(bound_ns as i64), bound_ns as i64, 0];
    let mut stage = led_by_the_first(with_lease(options, bound_ns), errors_ns);
    // Member 1 is free from here on, and not much earlier.
    stage.now_ns += 100 * MS + 1;
    let free_ns = stage.now_ns;
    assert!((0..3).any(|_| leads_with_a_lease(&mut stage)));
    assert!(stage.now_ns < free_ns + 10 * MS, "it tried late");
}

#[test]
fn every_scene_ends_well() {
    for (name, scene) in SCENES {
        println!("{name}");
        scene(Options::default());
    }
}

//! What no correct member says: it changes nothing, no member fails because of it, and it is counted.

use crate::stage::Stage;
use base::Time;
use base::time::SECOND;
use consensus::message::{Append, Matched};
use consensus::{Checkpoint, Entry, Index, Message, Options, Payload, Position, Term};

fn at(term: u64, index: u64) -> Position {
    Position { term: Term(term), index: Index(index) }
}

fn append(term: Term, previous: Position, terms: &[u64], sent: Time) -> Message {
    let entry = |term: &u64| Entry { term: Term(*term), payload: Payload::new(vec![9]) };
    let entries = terms.iter().map(entry).collect();
    Message::Append(Append { term, previous, entries, commit: Index(1), everywhere: Index::ZERO, sent })
}

fn appended(term: Term, sent: Time, matched: u64) -> Message {
    Message::Appended { term, sent, result: Ok(Matched(Index(matched))) }
}

/// A leader with two followers, and entries that all have committed.
fn settled() -> Stage {
    let mut stage = Stage::new(Options::default(), [0; 3]);
    assert!(stage.elect(0, &[1, 2]));
    stage.propose(0, "known");
    for _ in 0..3 {
        stage.wake(0);
        stage.carry_among(&[0, 1, 2]);
    }
    assert!((0..3).all(|m| stage.last(m) == Index(2)));
    stage
}

#[test]
fn whatever_is_out_of_range_changes_nothing() {
    let mut stage = settled();
    let (now, far) = (Time(stage.now_ns), Time(stage.now_ns + 10 * SECOND));
    let term = stage.term(0);
    let (next, endless, t) = (term.next(), Term(u64::MAX), term.0);
    let install = |at: Position, sent: Time| {
        let checkpoint = Checkpoint { at, state: Payload::new(vec![1]) };
        Message::Install { term: next, checkpoint, sent }
    };
    let to_all = vec![
        Message::AskBefore { term: endless, last: at(t, 2) },
        Message::AskVote { term: endless, last: at(t, 2) },
        Message::AskVote { term: next, last: at(t, u64::MAX) },
        Message::AskVote { term: next, last: at(next.0, 2) },
        Message::Vote { term: endless },
        append(endless, at(t, 2), &[], now),
        append(next, at(t, u64::MAX), &[t, t], now),
        append(next, at(t, 2), &[t + 1, t], now),
        append(next, at(t, 2), &[endless.0], now),
        append(next, at(t, 2), &[], far),
        append(next, at(0, 0), &[next.0], now),
        install(at(t, u64::MAX), now),
        install(at(endless.0, 3), now),
        install(at(t, 3), far),
        appended(endless, now, 2),
    ];
    let to_leader = vec![
        append(term, at(t, 2), &[], now),
        appended(term, far, 2),
        appended(term, now, 3),
        appended(term, now, u64::MAX),
    ];
    for (m, messages) in [(0, [to_all.clone(), to_leader].concat()), (1, to_all)] {
        for (n, message) in messages.into_iter().enumerate() {
            let (said, before) = (format!("{message:?}"), stage.state(m));
            stage.hears(m, 2, message);
            assert_eq!(stage.refused(m, 2), n as u64 + 1, "{said}");
            assert_eq!(stage.state(m), before, "{said}");
        }
    }
    // All goes on.
    stage.propose(0, "next");
    for _ in 0..3 {
        stage.wake(0);
        stage.carry_among(&[0, 1, 2]);
    }
    assert!((0..3).all(|m| stage.last(m) == Index(3)) && stage.has_lease(0));
}

/// Clocks at the ends of their bound, and answers that come late, are nobody's fault.
#[test]
fn nothing_that_a_correct_member_says_is_refused() {
    let bound_ns = SECOND / 100;
    let options = Options { clock_bound_ns: bound_ns, ..Options::default() };
    let mut stage = Stage::new(options, [bound_ns as i64, -(bound_ns as i64), 0]);
    assert!(stage.elect(0, &[1, 2]));
    stage.propose(0, "one");
    stage.wake(0);
    stage.carry_among(&[0, 1, 2]);
    stage.now_ns += 10 * SECOND;
    assert!(stage.elect(1, &[2]));
    stage.propose(1, "another");
    for _ in 0..3 {
        stage.wake(1);
        stage.carry_among(&[0, 1, 2]);
    }
    assert!((0..3).all(|m| stage.last(m) == Index(4)));
    assert!((0..3).all(|m| (0..3).all(|from| stage.refused(m, from) == 0)));
}

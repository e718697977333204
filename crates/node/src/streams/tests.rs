//! Batches that are lost, repeated and late; subscribers that come back.

use super::*;
use crate::message::Life;

const PEER: NodeId = NodeId(1);

fn item(n: u64) -> StreamItem {
    StreamItem::Low(Rank(n))
}
fn patience(_: NodeId) -> u64 {
    10
}
/// Delivers everything; how many items were taken, and whether a generation began.
fn deliver(batches: Vec<Batch>, inn: &mut Incoming) -> (usize, bool) {
    let mut taken = (0, false);
    for (_, generation, first, items) in batches {
        let begins = inn.receive((generation, Life::default()), first, items);
        taken = (taken.0 + inn.take(usize::MAX).len(), taken.1 | begins);
    }
    taken
}

#[test]
fn lost_and_repeated_batches_arrive_once_and_in_order() {
    let mut out = Outgoing::new([PEER].into_iter());
    let mut inn = Incoming::default();
    (0..4).for_each(|n| out.push(item(n)));
    let lost = out.unsent(Time(0), &patience);
    assert_eq!(lost.len(), 1);
    out.push(item(4));
    assert_eq!(deliver(out.unsent(Time(1), &patience), &mut inn).0, 0, "a gap holds the rest back");
    assert!(out.resend(Time(5), &patience).is_empty(), "not silent long enough");
    let again = out.resend(Time(10), &patience);
    assert_eq!(deliver(again.clone(), &mut inn).0, 5);
    assert_eq!(deliver(again, &mut inn).0, 0, "repeated items are dropped");
    assert!(!out.acknowledged(Time(11), PEER, inn.ack(), 10));
    assert!(out.is_settled());
}

#[test]
fn who_returns_after_its_lease_in_the_middle_of_a_copy_gets_another_one() {
    let logged =
        |position| Feed::CopyLogged { position: LogPosition(position), txn: TxnId::default(), rank: Rank(1) };
    let copied = |out: &mut Outgoing, at| {
        out.restart(Time(at), PEER, (0..3).map(logged).collect());
        out.go_on_copying(PEER, Feed::CopyEnds { low: Rank(1) });
    };
    for (arrived, goes_on) in [(0, false), (3, false), (4, true)] {
        let mut out = Outgoing::new([PEER].into_iter());
        copied(&mut out, 0);
        _ = out.unsent(Time(0), &patience);
        out.expire(Time(1));
        let ack = Ack { since: Time(0), generation: 1, next: arrived };
        assert_eq!(out.acknowledged(Time(20), PEER, ack, 10), !goes_on, "{arrived} items of the copy");
        if !goes_on {
            copied(&mut out, 20);
        }
        out.push(item(1));
        let mut sent = out.unsent(Time(21), &patience);
        sent.extend(out.resend(Time(40), &patience));
        let (_, generation, first, _) = &sent[0];
        assert_eq!((*generation, *first), if goes_on { (1, 4) } else { (2, 0) });
    }
}

#[test]
fn who_is_silent_gets_a_probe_and_everything_once_it_answers() {
    let mut out = Outgoing::new([PEER].into_iter());
    let mut inn = Incoming::default();
    (0..10_000).for_each(|n| out.push(item(n)));
    assert_eq!(out.unsent(Time(0), &patience).len(), 10_000usize.div_ceil(BATCH_ITEMS_MAX));
    let sent = |batches: &[Batch]| batches.iter().map(|(.., items)| items.len() as u64).sum::<u64>();
    for at in [10, 30, 70, 150] {
        assert_eq!(sent(&out.resend(Time(at), &patience)), PROBE_ITEMS);
    }
    let (mut taken, mut answers) = (0, 0);
    let mut batches = out.resend(Time(230), &patience);
    while taken < 10_000 {
        taken += deliver(batches, &mut inn).0;
        answers += 1;
        assert!(!out.acknowledged(Time(240), PEER, inn.ack(), 10));
        batches = out.unsent(Time(240), &patience);
    }
    assert!(answers <= 9, "each answer lets twice as much go: {answers}");
    assert!(out.is_settled());
}

#[test]
fn who_is_silent_again_is_borne_twice_as_long_until_it_has_caught_up() {
    let mut out = Outgoing::new([PEER].into_iter());
    let mut inn = Incoming::default();
    out.push(item(0));
    assert_eq!(out.unsent(Time(0), &patience).len(), 1);
    assert_eq!(out.resend(Time(10), &patience).len(), 1);
    assert!(out.resend(Time(29), &patience).is_empty());
    assert_eq!(out.resend(Time(30), &patience).len(), 1);
    assert!(out.resend(Time(69), &patience).is_empty());
    deliver(out.resend(Time(70), &patience), &mut inn);
    assert!(!out.acknowledged(Time(71), PEER, inn.ack(), 10));
    out.push(item(1));
    assert_eq!(out.unsent(Time(80), &patience).len(), 1);
    assert_eq!(out.resend(Time(90), &patience).len(), 1, "as at first");
}

#[test]
fn who_lacks_the_same_gets_the_same_batch() {
    let other = NodeId(2);
    let mut out = Outgoing::new([PEER, other].into_iter());
    let mut inn = Incoming::default();
    out.push(item(0));
    let batches = out.unsent(Time(0), &patience);
    assert_eq!(batches.iter().map(|b| b.0.clone()).collect::<Vec<_>>(), [vec![PEER, other]]);
    deliver(batches, &mut inn);
    assert!(!out.acknowledged(Time(1), PEER, inn.ack(), 10));
    out.push(item(1));
    let again = out.resend(Time(10), &patience);
    let sent: Vec<_> = again.iter().map(|(to, _, first, items)| (to.clone(), *first, items.len())).collect();
    assert_eq!(sent, [(vec![PEER], 1, 1), (vec![other], 0, 2)]);
}

#[test]
fn a_subscriber_beyond_its_lease_holds_up_nobody_and_gets_a_copy_when_it_returns() {
    let mut out = Outgoing::new([PEER].into_iter());
    let mut inn = Incoming::default();
    inn.begin(Time(1));
    assert!(!out.acknowledged(Time(1), PEER, inn.ack(), 10), "its first word");
    (0..4).for_each(|n| out.push(item(n)));
    assert_eq!(deliver(out.unsent(Time(1), &patience), &mut inn).0, 4);
    assert!(!out.acknowledged(Time(2), PEER, inn.ack(), 10));
    out.push(item(4));
    out.expire(Time(3));
    (5..9).for_each(|n| out.push(item(n)));
    assert!(out.is_settled() && out.unsent(Time(20), &patience).is_empty());
    assert!(out.acknowledged(Time(30), PEER, inn.ack(), 10), "what it lacks is gone");
    out.restart(Time(30), PEER, Vec::new());
    out.go_on_copying(PEER, Feed::CopyEnds { low: Rank(8) });
    out.push(item(9));
    assert_eq!(deliver(out.unsent(Time(30), &patience), &mut inn), (2, true));
    assert!(!out.acknowledged(Time(31), PEER, inn.ack(), 10));
    assert!(out.is_settled());
}

#[test]
fn a_sender_without_memory_gives_its_subscribers_copies() {
    let mut former = Outgoing::new([PEER].into_iter());
    let mut inn = Incoming::default();
    inn.begin(Time(1));
    assert!(!former.acknowledged(Time(1), PEER, inn.ack(), 10));
    former.restart(Time(1), PEER, Vec::new());
    former.go_on_copying(PEER, Feed::CopyEnds { low: Rank(1) });
    former.push(item(0));
    assert_eq!(deliver(former.unsent(Time(1), &patience), &mut inn), (2, true));
    let mut out = Outgoing::new([PEER].into_iter());
    out.begin_anew();
    out.push(item(1));
    assert!(out.unsent(Time(2), &patience).is_empty(), "it may lack anything");
    assert!(out.acknowledged(Time(3), PEER, inn.ack(), 10));
    out.restart(Time(3), PEER, Vec::new());
    out.go_on_copying(PEER, Feed::CopyEnds { low: Rank(2) });
    out.push(item(2));
    assert_eq!(deliver(out.unsent(Time(3), &patience), &mut inn), (2, true));
}

#[test]
fn what_a_former_life_of_the_sender_had_begun_is_not_taken_for_the_present_one() {
    let copy = |out: &mut Outgoing, since| {
        out.restart(Time(since), PEER, Vec::new());
        out.go_on_copying(PEER, Feed::CopyEnds { low: Rank(since) });
        out.push(item(since));
        out.unsent(Time(since), &patience)
    };
    let take = |inn: &mut Incoming, life, batches: &[Batch]| {
        let mut taken = (0, false);
        for (_, generation, first, items) in batches.iter().cloned() {
            let begins = inn.receive((generation, Life(Time(life))), first, items);
            taken = (taken.0 + inn.take(usize::MAX).len(), taken.1 | begins);
        }
        taken
    };
    let mut inn = Incoming::default();
    inn.begin(Time(1));
    let mut former = Outgoing::new([PEER].into_iter());
    assert!(!former.acknowledged(Time(1), PEER, inn.ack(), 10));
    let heard = inn.ack();
    let late = copy(&mut former, 1);
    let mut present = Outgoing::new([PEER].into_iter());
    present.begin_anew();
    assert!(present.acknowledged(Time(2), PEER, heard, 10));
    let sent = copy(&mut present, 2);
    assert_eq!(late[0].1, sent[0].1, "of one generation");
    assert_eq!(take(&mut inn, 1, &late), (2, true));
    assert_eq!(take(&mut inn, 2, &sent), (2, true), "it begins anew");
    assert_eq!(take(&mut inn, 1, &late), (0, false));
}

#[test]
fn a_subscriber_without_memory_begins_again_whatever_its_former_life_still_says() {
    let mut out = Outgoing::new([PEER].into_iter());
    let mut former = Incoming::default();
    former.begin(Time(1));
    assert!(!out.acknowledged(Time(1), PEER, former.ack(), 10));
    (0..4).for_each(|n| out.push(item(n)));
    deliver(out.unsent(Time(1), &patience), &mut former);
    let late = former.ack();
    assert!(!out.acknowledged(Time(2), PEER, late, 10));
    let mut inn = Incoming::default();
    inn.begin(Time(5));
    assert!(out.acknowledged(Time(6), PEER, inn.ack(), 10));
    out.restart(Time(6), PEER, Vec::new());
    out.go_on_copying(PEER, Feed::CopyEnds { low: Rank(3) });
    assert!(!out.acknowledged(Time(7), PEER, late, 10), "a word of its former life");
    assert!(!out.acknowledged(Time(7), PEER, inn.ack(), 10));
    assert_eq!(deliver(out.unsent(Time(7), &patience), &mut inn), (1, true));
    assert!(!out.acknowledged(Time(8), PEER, inn.ack(), 10));
    assert!(out.is_settled());
}

/// What is acknowledged may be lost on its way, so the sender may not know that there is anything to replace.
#[test]
fn who_wants_another_copy_before_its_sender_heard_of_the_first_gets_one() {
    for has_copy in [false, true] {
        let mut out = Outgoing::new([PEER].into_iter());
        let mut inn = Incoming::default();
        inn.begin(Time(1));
        assert!(!out.acknowledged(Time(1), PEER, inn.ack(), 10), "its first word");
        if has_copy {
            out.restart(Time(1), PEER, Vec::new());
            out.go_on_copying(PEER, Feed::CopyEnds { low: Rank(0) });
        }
        out.push(item(1));
        assert_eq!(deliver(out.unsent(Time(1), &patience), &mut inn), (1 + usize::from(has_copy), has_copy));
        inn.begin(Time(2));
        out.push(item(2));
        let late = out.unsent(Time(2), &patience);
        assert_eq!(deliver(late, &mut inn).0, 0, "it goes on with nothing");
        assert!(out.acknowledged(Time(3), PEER, inn.ack(), 10), "a copy: {has_copy}");
        out.restart(Time(3), PEER, Vec::new());
        out.go_on_copying(PEER, Feed::CopyEnds { low: Rank(2) });
        assert_eq!(deliver(out.unsent(Time(3), &patience), &mut inn), (1, true));
        assert!(!out.acknowledged(Time(4), PEER, inn.ack(), 10));
        assert!(out.is_settled());
    }
}

#[test]
fn whose_first_word_is_lost_follows_the_log_from_its_beginning() {
    let mut out = Outgoing::new([PEER].into_iter());
    let mut inn = Incoming::default();
    inn.begin(Time(1));
    out.push(item(1));
    assert_eq!(deliver(out.unsent(Time(1), &patience), &mut inn), (1, false));
    assert!(!out.acknowledged(Time(2), PEER, inn.ack(), 10), "it needs no copy");
    assert!(out.is_settled());
}

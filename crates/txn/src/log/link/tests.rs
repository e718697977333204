//! Links that lose, repeat and reorder, and peers that are slow or gone.

use super::*;
use base::rng::Rng;
use base::time::MS;

#[test]
fn a_peer_that_is_silent_costs_little_and_has_everything_soon_after_it_is_back() {
    let (dead, alive) = (NodeId(1), NodeId(2));
    let peers = [dead, alive].into_iter().map(|node| (node, Patience::new(10 * MS, 0)));
    let mut outbox = Outbox::new(peers);
    let mut inbox = Inbox::default();
    let (mut received, mut sent_late, mut ms) = (Vec::new(), 0, 0);
    while ms < 30_000 {
        let now = Time::from_ms(ms);
        outbox.push(ms);
        outbox.overdue(now);
        let end = outbox.end();
        for (node, first, items, _) in outbox.unsent(now, |_| end) {
            match node == dead {
                true if ms >= 10_000 => sent_late += items.len(),
                true => {}
                false => {
                    let next = first + items.len() as u64;
                    outbox.acknowledged(now, node, next, false, now);
                }
            }
        }
        ms += 1;
    }
    assert!(sent_late <= 11, "{sent_late} items in 20 s");
    while received.len() < 30_000 {
        let now = Time::from_ms(ms);
        outbox.overdue(now);
        for node in outbox.to_greet(now, 50 * MS) {
            let gap = outbox.sent_to(node) > inbox.next();
            outbox.acknowledged(now, node, inbox.next(), gap, now);
        }
        let end = outbox.end();
        let batches = outbox.unsent(now, |_| end);
        assert!(batches.len() <= 1 + BATCHES_MAX, "one step is short");
        for (node, first, items, _) in batches {
            inbox.receive(first, items, &mut received);
            outbox.acknowledged(now, node, inbox.next(), inbox.has_gap(), now);
        }
        ms += 1;
    }
    assert!(ms < 30_000 + 50 + 30, "it took until {ms}");
    assert!(outbox.is_settled() && received.iter().copied().eq(0..30_000));
}

#[test]
fn what_a_busy_peer_cannot_work_off_waits_where_it_is() {
    // It works off one item in a ms, and two come.
    let busy = NodeId(1);
    let mut outbox = Outbox::new([(busy, Patience::new(30 * MS, 0))].into_iter()).yielding();
    let (mut queue, mut longest, mut done) = (VecDeque::<(u64, Time)>::new(), 0, 0);
    for ms in 0..20_000u64 {
        let now = Time::from_ms(1 + ms);
        (0..2).for_each(|n| outbox.push(2 * ms + n));
        outbox.overdue(now);
        let end = outbox.end();
        for (_, first, items, _) in outbox.unsent(now, |_| end) {
            queue.extend((first..).zip(&items).map(|(index, _)| (index + 1, now)));
        }
        if let Some((next, sent_at)) = queue.pop_front() {
            done += 1;
            outbox.acknowledged(now, busy, next, false, sent_at);
        }
        longest = longest.max(if ms > 2_000 { queue.len() } else { 0 });
    }
    assert!(longest <= 60, "{longest} items wait at the peer");
    assert!(done >= 19_900, "and it always has something to do: {done}");
    assert!(outbox.resent_count <= 10, "before it is measured how busy it is: {}", outbox.resent_count);
}

#[test]
fn a_slow_peer_is_not_sent_again_what_it_has() {
    // It answers in order, after a while that grows to a hundred times what was expected.
    let slow = NodeId(1);
    let mut outbox = Outbox::new([(slow, Patience::new(30 * MS, 0))].into_iter());
    let mut answers: VecDeque<(u64, u64, Time)> = VecDeque::new();
    for ms in 0..20_000u64 {
        let now = Time::from_ms(ms);
        outbox.push(ms);
        outbox.overdue(now);
        let end = outbox.end();
        for (_, first, items, _) in outbox.unsent(now, |_| end) {
            let busy_ms = 20 + (ms / 8).min(2_000);
            let at = answers.back().map_or(0, |(at, ..)| *at).max(ms + busy_ms);
            answers.push_back((at, first + items.len() as u64, now));
        }
        while let Some((_, next, sent_at)) = answers.pop_front_if(|(at, ..)| *at <= ms) {
            outbox.acknowledged(now, slow, next, false, sent_at);
        }
    }
    assert_eq!(outbox.resent_count, 0);
}

#[test]
fn whatever_the_link_does_everything_arrives_once_and_in_order() {
    for seed in 0..50 {
        let mut rng = Rng::new(seed);
        let peers = [NodeId(1), NodeId(2)];
        let mut outbox = Outbox::new(peers.iter().map(|node| (*node, Patience::new(10, 0))));
        let mut inboxes = [Inbox::default(), Inbox::default()];
        let mut received = [Vec::new(), Vec::new()];
        let mut flying: Vec<Batch<u64>> = Vec::new();
        for step in 0..2000u64 {
            let now = Time(step);
            if step < 200 {
                outbox.push(step);
            }
            outbox.overdue(now);
            let end = outbox.end();
            flying.extend(outbox.unsent(now, |_| end).into_iter().filter(|_| rng.chance(0.7)));
            if !flying.is_empty() && rng.chance(0.5) {
                let nth = rng.below(flying.len() as u64) as usize;
                let (node, first, items, _) = flying[nth].clone();
                if rng.chance(0.8) {
                    flying.remove(nth);
                }
                let n = usize::from(node.0) - 1;
                inboxes[n].receive(first, items, &mut received[n]);
                if rng.chance(0.8) {
                    let (next, gap) = (inboxes[n].next(), inboxes[n].has_gap());
                    outbox.acknowledged(now, node, next, gap, Time::ZERO);
                }
            }
        }
        assert!(outbox.is_settled(), "seed {seed}");
        for received in received {
            assert!(received.iter().copied().eq(0..200), "seed {seed}");
        }
    }
}

//! Sharing by example, and every order of a few events: no read is served with an answer from before it arrived, and each
//! way of reuse but the strict one is found out.

use super::*;
use base::PartitionId;

#[test]
fn an_answer_serves_whoever_had_arrived_when_its_question_was_sent() {
    let (p, mut fetches) = (PartitionId(1), Fetches::<PartitionId, u32, ()>::new(Reuse::Strict));
    let want = |fetches: &mut Fetches<PartitionId, u32, ()>, at, query| {
        let arrived = fetches.arrival();
        fetches.want(Time(at), 10, p, arrived, query)
    };
    assert_eq!(want(&mut fetches, 100, 1), Want::Ask(Stamp(1)));
    assert_eq!(want(&mut fetches, 102, 2), Want::AskAt(Time(110)), "questions are a gap apart");
    assert_eq!(want(&mut fetches, 103, 3), Want::Join);
    assert_eq!(fetches.due(Time(110), &p), Some(Stamp(2)));
    assert_eq!(fetches.due(Time(110), &p), None);
    assert_eq!(want(&mut fetches, 130, 4), Want::Ask(Stamp(3)));
    assert_eq!(want(&mut fetches, 131, 5), Want::AskAt(Time(140)));
    assert_eq!(fetches.answered(&p, Stamp(1), ()), [1].into());
    assert_eq!(fetches.answered(&p, Stamp(3), ()), [2, 3, 4].into(), "an earlier answer was lost");
    assert_eq!(fetches.answered(&p, Stamp(2), ()), [].into());
    assert_eq!(fetches.due(Time(140), &p), Some(Stamp(4)));
    assert_eq!(fetches.forget(5), vec![(p, Stamp(4))]);
    assert_eq!(fetches.answered(&p, Stamp(4), ()), [].into());
    assert_eq!(want(&mut fetches, 141, 6), Want::Ask(Stamp(5)), "nothing is under way");
}

#[test]
fn a_read_that_wants_late_is_served_with_what_was_asked_since_it_arrived() {
    let mut fetches = Fetches::<(), u32, u32>::new(Reuse::Strict);
    let (early, late) = (fetches.arrival(), 10);
    assert_eq!(fetches.want(Time(0), 10, (), early, 1), Want::Ask(Stamp(1)));
    assert_eq!(fetches.want(Time(1), 10, (), early, 2), Want::Join, "the question was sent after it arrived");
    let arrived = fetches.arrival();
    assert_eq!(fetches.answered(&(), Stamp(1), 7), [1, 2].into());
    assert_eq!(fetches.want(Time(late), 10, (), early, 3), Want::Known(7));
    assert_eq!(
        fetches.want(Time(late), 10, (), arrived, 4),
        Want::Ask(Stamp(2)),
        "it arrived behind the question"
    );
    fetches.distrust(&());
    assert_eq!(fetches.want(Time(late), 10, (), early, 5), Want::Join, "the next will do, the last is void");
}

/// A writer with a counter, a reader's node, messages in transit. Reads arrive, and want at once or later.
#[derive(Clone)]
struct Model {
    fetches: Fetches<(), u32, u64>,
    now: u64,
    written: u64,
    /// Questions on their way to the writer, answers on their way back.
    asked: Vec<Stamp>,
    told: Vec<(Stamp, u64)>,
    /// When it arrived, what had been written then, whether it has wanted, and what it was served with.
    reads: Vec<(Stamp, u64, bool, Option<u64>)>,
    timer: Option<u64>,
    sent: usize,
}

const GAP_NS: u64 = 3;

impl Model {
    fn new(reuse: Reuse) -> Model {
        let fetches = Fetches::new(reuse);
        let (asked, told, reads) = (Vec::new(), Vec::new(), Vec::new());
        Model { fetches, now: 0, written: 0, asked, told, reads, timer: None, sent: 0 }
    }
    fn send(&mut self, sent: Stamp) {
        self.asked.push(sent);
        self.sent += 1;
    }
    fn want(&mut self, nth: usize) {
        self.reads[nth].2 = true;
        match self.fetches.want(Time(self.now), GAP_NS, (), self.reads[nth].0, nth as u32) {
            Want::Known(value) => self.reads[nth].3 = Some(value),
            Want::Ask(sent) => self.send(sent),
            Want::AskAt(at) => self.timer = Some(at.0),
            Want::Join => {}
        }
    }
    /// Every state that one more event leads to.
    fn successors(&self, reads_max: usize) -> Vec<Model> {
        let mut all = Vec::new();
        let mut with = |change: &dyn Fn(&mut Model)| {
            let mut next = self.clone();
            next.now += 1;
            change(&mut next);
            if let Some(at) = next.timer.filter(|at| *at <= next.now) {
                next.timer = None;
                if let Some(sent) = next.fetches.due(Time(at), &()) {
                    next.send(sent);
                }
            }
            all.push(next);
        };
        if self.written < 2 {
            with(&|next| next.written += 1);
        }
        if self.reads.len() < reads_max {
            for wants in [true, false] {
                with(&|next| {
                    next.reads.push((next.fetches.arrival(), next.written, false, None));
                    if wants {
                        next.want(next.reads.len() - 1);
                    }
                });
            }
        }
        for (nth, read) in self.reads.iter().enumerate().filter(|(_, read)| !read.2) {
            _ = read;
            with(&|next| next.want(nth));
        }
        for nth in 0..self.asked.len() {
            with(&|next| {
                let sent = next.asked.remove(nth);
                next.told.push((sent, next.written));
            });
        }
        for nth in 0..self.told.len() {
            with(&|next| {
                let (sent, value) = next.told.remove(nth);
                for read in next.fetches.answered(&(), sent, value) {
                    next.reads[read as usize].3 = Some(value);
                }
            });
        }
        all
    }
    fn is_stale(&self) -> bool {
        self.reads.iter().any(|(_, written, _, served)| served.is_some_and(|value| value < *written))
    }
}

/// Whether some order of so many events serves a read with what is older than it, and how many states there are.
fn explore(model: &Model, reads_max: usize, events: usize, states: &mut usize) -> bool {
    *states += 1;
    if model.is_stale() {
        return true;
    }
    events > 0 && model.successors(reads_max).iter().any(|next| explore(next, reads_max, events - 1, states))
}

#[test]
fn no_order_of_events_serves_a_read_with_what_is_older_than_it() {
    let mut states = 0;
    assert!(!explore(&Model::new(Reuse::Strict), 3, 9, &mut states));
    assert!(states > 50_000, "{states} states are too few to mean anything");
}

#[test]
fn every_other_way_of_reuse_is_found_out() {
    for (reuse, events) in [(Reuse::AtOrBefore, 9), (Reuse::LateArrivals, 9)] {
        assert!(explore(&Model::new(reuse), 3, events, &mut 0), "{reuse:?}");
    }
    // Answers that overtake each other: the earlier one must not take the later one's place. What it holds is older than
    // its stamp says, so a read between the two is served with too little.
    let mut fetches = Fetches::<(), u32, u64>::new(Reuse::LastAnswer);
    let arrived = fetches.arrival();
    assert_eq!(fetches.want(Time(0), 1, (), arrived, 0), Want::Ask(Stamp(1)));
    let between = fetches.arrival();
    assert_eq!(fetches.want(Time(5), 1, (), between, 1), Want::Ask(Stamp(2)));
    fetches.answered(&(), Stamp(2), 9);
    fetches.answered(&(), Stamp(1), 3);
    assert_ne!(fetches.want(Time(9), 1, (), between, 2), Want::Known(9), "the fault is there");
    let mut strict = Fetches::<(), u32, u64>::new(Reuse::Strict);
    assert_eq!(strict.want(Time(0), 1, (), arrived, 0), Want::Ask(Stamp(1)));
    assert_eq!(strict.want(Time(5), 1, (), between, 1), Want::Ask(Stamp(2)));
    strict.answered(&(), Stamp(2), 9);
    strict.answered(&(), Stamp(1), 3);
    assert_eq!(strict.want(Time(9), 1, (), between, 2), Want::Known(9));
}

#[test]
fn the_number_of_fetches_does_not_grow_with_the_number_of_reads() {
    for reads in [10, 1_000] {
        let mut fetches = Fetches::<(), u32, ()>::new(Reuse::Strict);
        let (mut sent, mut timer) = (Vec::new(), None);
        for now in 0..1_000 {
            if timer == Some(Time(now)) {
                timer = None;
                sent.extend(fetches.due(Time(now), &()).map(|stamp| (now, stamp)));
            }
            if (now * reads) % 1_000 < reads {
                let arrived = fetches.arrival();
                match fetches.want(Time(now), 100, (), arrived, now as u32) {
                    Want::Ask(stamp) => sent.push((now, stamp)),
                    Want::AskAt(at) => timer = Some(at),
                    _ => {}
                }
            }
            // The way there and back takes 50.
            for (_, stamp) in sent.iter().filter(|(at, _)| at + 50 == now) {
                fetches.answered(&(), *stamp, ());
            }
        }
        assert!(sent.len() <= 20, "{} fetches for {reads} reads", sent.len());
    }
}

//! The tracker by example, and every order of the steps of a writer, a replica and a reader.

use super::*;
use base::Datum;
use std::collections::BTreeSet;

const T: TableId = TableId(1);

fn key(n: i64) -> Key {
    Key::of(&[Datum::Int(n)])
}

#[test]
fn a_shared_slot_only_lengthens_waits() {
    let ample = Sizes { tables: 64, granules: 1 << 16 };
    for sizes in [ample, Sizes { tables: 1, granules: 3 }] {
        let mut tracker = Tracker::plain(sizes, LogPosition(0));
        let mut truth = std::collections::BTreeMap::new();
        for position in 1..=200u64 {
            let (table, n) = (TableId((position % 3) as u32), (position * 7919 % 40) as i64 * 100);
            tracker.modified(table, &key(n), LogPosition(position));
            truth.insert((table, n), position);
        }
        let (mut exact, mut late) = (0, 0);
        for ((table, n), position) in &truth {
            let told = tracker.of(&Granule::Key(*table, key(*n))).0;
            assert!(told >= *position, "{table:?} {n}");
            exact += usize::from(told == *position);
            late += usize::from(told > *position);
        }
        assert_eq!(late == 0, sizes == ample, "{exact} exact, {late} late");
    }
}

#[test]
fn who_does_not_know_what_was_before_starts_at_a_floor() {
    let mut tracker = Tracker::plain(Sizes { tables: 4, granules: 16 }, LogPosition(90));
    assert_eq!(tracker.of(&Granule::Key(T, key(1))), LogPosition(90));
    tracker.modified(T, &key(1), LogPosition(91));
    assert_eq!(tracker.of(&Granule::Key(T, key(1))), LogPosition(91));
    tracker.modified_all(LogPosition(92));
    assert_eq!(
        tracker.of(&Granule::Key(T, key(1))),
        LogPosition(92),
        "a change of the catalog is everywhere"
    );
}

/// Faults of the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// As printed: a granule has the position of what was logged of it, which is before the commit record.
    PagePosition,
    /// A commit is published before the slots have it.
    PublishFirst,
}

/// How a reader of the model asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    /// The slots with the published position, or later.
    InOrder,
    /// As caching each level by itself allows: slots first, all of them after the read arrived.
    SlotsFirst,
}

/// A writer commits two transactions, the first over granules 0 and 1, the second over 0. A transaction's log is one entry
/// for each granule, then its commit record; a replica that has not applied the commit record shows nothing of it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Model {
    /// Steps that the writer has taken: of each transaction log, commit, (slots, publish), reply.
    writer: usize,
    published: u64,
    slots: [u64; 2],
    applied: u64,
    reader: usize,
    /// Transactions that were answered when the read arrived.
    answered: usize,
    cut: u64,
    fetched: [u64; 2],
    /// Transactions that the read saw in each granule.
    seen: [Vec<usize>; 2],
}

const WRITES: [&[usize]; 2] = [&[0, 1], &[0]];
const LOGGED: [[u64; 2]; 2] = [[1, 2], [4, 0]];
const COMMITS: [u64; 2] = [3, 5];

impl Model {
    fn write(&mut self, fault: Option<Fault>) -> bool {
        let (txn, step) = (self.writer / 5, self.writer % 5);
        if txn == 2 {
            return false;
        }
        let slots_step = if fault == Some(Fault::PublishFirst) { 3 } else { 2 };
        match step {
            0 | 1 | 4 => {}
            step if step == slots_step => {
                for granule in WRITES[txn] {
                    self.slots[*granule] = match fault {
                        Some(Fault::PagePosition) => LOGGED[txn][*granule],
                        _ => COMMITS[txn],
                    };
                }
            }
            _ => self.published = COMMITS[txn],
        }
        self.writer += 1;
        true
    }
    /// What is in the log by now.
    fn end(&self) -> u64 {
        let (txn, step) = (self.writer / 5, self.writer % 5);
        match (txn, step) {
            (2, _) => 5,
            (txn, 0) => {
                if txn == 0 {
                    0
                } else {
                    3
                }
            }
            (txn, 1) => COMMITS[txn] - 1,
            (txn, _) => COMMITS[txn],
        }
    }
    fn apply(&mut self) -> bool {
        let can = self.applied < self.end();
        self.applied += u64::from(can);
        can
    }
    fn read(&mut self, asks: Asks) -> bool {
        match (self.reader, asks) {
            (0, _) => self.answered = self.writer / 5,
            (1, Asks::InOrder) | (3, Asks::SlotsFirst) => self.cut = self.published,
            (2 | 3, Asks::InOrder) => self.fetched[self.reader - 2] = self.slots[self.reader - 2],
            (1 | 2, Asks::SlotsFirst) => self.fetched[self.reader - 1] = self.slots[self.reader - 1],
            (4 | 5, _) => {
                let granule = self.reader - 4;
                if self.applied < self.cut.min(self.fetched[granule]) {
                    return false;
                }
                let is_seen = |txn: &usize| {
                    let commit = COMMITS[*txn];
                    WRITES[*txn].contains(&granule) && commit <= self.cut && commit <= self.applied
                };
                self.seen[granule] = (0..2).filter(is_seen).collect();
            }
            _ => return false,
        }
        self.reader += 1;
        true
    }
    /// Once the read is over: something answered before it is missing, or it saw half of a transaction.
    fn is_wrong(&self) -> bool {
        let lacks = |txn: usize| WRITES[txn].iter().any(|granule| !self.seen[*granule].contains(&txn));
        let is_half = self.seen[0].contains(&0) != self.seen[1].contains(&0);
        self.reader == 6 && ((0..self.answered).any(lacks) || is_half)
    }
}

/// Whether some order of steps goes wrong, and how many states there are.
fn explore(asks: Asks, fault: Option<Fault>) -> (bool, usize) {
    let start = Model {
        writer: 0,
        published: 0,
        slots: [0; 2],
        applied: 0,
        reader: 0,
        answered: 0,
        cut: 0,
        fetched: [0; 2],
        seen: [Vec::new(), Vec::new()],
    };
    let (mut open, mut known) = (vec![start.clone()], BTreeSet::from([start]));
    let mut is_wrong = false;
    while let Some(model) = open.pop() {
        is_wrong |= model.is_wrong();
        let steps: [&dyn Fn(&mut Model) -> bool; 3] =
            [&|m| m.write(fault), &|m| m.apply(), &|m| m.read(asks)];
        for step in steps {
            let mut next = model.clone();
            if step(&mut next) && known.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    (is_wrong, known.len())
}

#[test]
fn no_order_of_steps_shows_a_stale_read_or_half_a_transaction() {
    let (is_wrong, states) = explore(Asks::InOrder, None);
    assert!(!is_wrong && states > 1_000, "{states} states");
}

#[test]
fn every_fault_goes_wrong_in_some_order() {
    assert!(explore(Asks::InOrder, Some(Fault::PagePosition)).0, "a commit record is later than its pages");
    assert!(explore(Asks::InOrder, Some(Fault::PublishFirst)).0, "a slot lacks what is published");
    assert!(explore(Asks::SlotsFirst, None).0, "a slot is older than the cut that it is used with");
}

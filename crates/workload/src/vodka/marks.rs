//! HATtrick's freshness: each transaction that writes counts its terminal's number in `vodka_freshness` up, and an
//! analytical query reads that table within its own snapshot.
//!
//! The client knows when each number's commit was acknowledged. An answer is as old as the first transaction that was
//! acknowledged before the query began and that its snapshot does not show. Unlike Eq. 16 this needs no row of the
//! transaction to be in the answer, and unlike it the figure grows with the time at which one asks.
//!
//! IN: numbers after their commits, answers as (terminal, number). OUT: readings, in µs.
//! KEEPS: a terminal's numbers and its acknowledgements grow together; an acknowledgement is dropped only if it was
//! visible and is old, so that an answer from another replica that lags a little still finds it.

use std::collections::{BTreeMap, VecDeque};

/// A terminal: its warehouse, and its number.
pub type Terminal = (i32, i32);

/// Acknowledgements that were visible stay for this long.
const KEPT_US: i64 = 120_000_000;

/// What one answer shows of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MarkReading {
    /// The query's begin less the first acknowledgement that its snapshot does not show; 0 if it shows all.
    pub freshness_us: i64,
    /// Transactions that were acknowledged before the query began and that its snapshot does not show.
    pub unseen: u64,
}

#[derive(Clone, Copy, Debug)]
struct Acknowledged {
    number: i64,
    at_us: i64,
}

/// Acknowledged transactions by terminal.
#[derive(Clone, Default, Debug)]
pub struct Marks {
    by_terminal: BTreeMap<Terminal, VecDeque<Acknowledged>>,
}

impl Marks {
    /// A transaction's commit was acknowledged. A number that is not above the terminal's last one is ignored.
    pub fn acknowledged(&mut self, terminal: Terminal, number: i64, at_us: i64) {
        let list = self.by_terminal.entry(terminal).or_default();
        match list.back() {
            Some(last) if last.number >= number => {}
            // The clock may have been set back: acknowledgements stay in order.
            last => {
                let at_us = last.map_or(at_us, |last| last.at_us.max(at_us));
                list.push_back(Acknowledged { number, at_us });
            }
        }
    }
    /// How old an answer is to a query that began at `began_us`. A terminal that is not in the answer shows nothing.
    pub fn measure(&mut self, answer: &[(Terminal, i64)], began_us: i64) -> MarkReading {
        let shown: BTreeMap<Terminal, i64> = answer.iter().copied().collect();
        let mut reading = MarkReading::default();
        for (terminal, list) in &mut self.by_terminal {
            let shown = shown.get(terminal).copied().unwrap_or(i64::MIN);
            let seen = list.partition_point(|one| one.number <= shown);
            let before = list.partition_point(|one| one.at_us <= began_us);
            if seen < before {
                reading.unseen += (before - seen) as u64;
                reading.freshness_us = reading.freshness_us.max(began_us - list[seen].at_us);
            }
            while list.front().is_some_and(|one| one.number <= shown && one.at_us < began_us - KEPT_US) {
                list.pop_front();
            }
        }
        reading
    }
    /// Acknowledgements that are kept.
    pub fn count(&self) -> usize {
        self.by_terminal.values().map(VecDeque::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Terminal = (1, 0);
    const B: Terminal = (2, 1);

    fn marks() -> Marks {
        let mut marks = Marks::default();
        for (terminal, number, at_us) in
            [(A, 11, 100), (B, 21, 150), (A, 12, 200), (B, 23, 250), (A, 13, 300)]
        {
            marks.acknowledged(terminal, number, at_us);
        }
        marks
    }

    #[test]
    fn an_answer_is_as_old_as_the_first_acknowledged_transaction_that_it_does_not_show() {
        let reading = |answer: &[(Terminal, i64)], began_us| {
            let reading = marks().measure(answer, began_us);
            (reading.freshness_us, reading.unseen)
        };
        assert_eq!(reading(&[(A, 13), (B, 23)], 1_000), (0, 0));
        assert_eq!(reading(&[(A, 12), (B, 23)], 1_000), (700, 1));
        assert_eq!(reading(&[(A, 12), (B, 20)], 1_000), (850, 3));
        // Number 22 was rolled back: nothing is missed without it.
        assert_eq!(reading(&[(A, 13), (B, 22)], 1_000), (750, 1));
        // A terminal of which nothing has arrived.
        assert_eq!(reading(&[(B, 23)], 1_000), (900, 3));
        // What is acknowledged after the query began is concurrent, and may be shown all the same.
        assert_eq!(reading(&[(A, 11), (B, 21)], 160), (0, 0));
        assert_eq!(reading(&[(A, 13), (B, 23)], 160), (0, 0));
        assert_eq!(Marks::default().measure(&[(A, 1)], 5), MarkReading::default());
    }

    #[test]
    fn what_was_seen_is_kept_for_a_while_and_what_was_not_seen_for_ever() {
        let mut marks = marks();
        let late = 300 + 2 * KEPT_US;
        assert_eq!(marks.measure(&[(A, 12), (B, 23)], late).unseen, 1);
        assert_eq!(marks.count(), 1);
        marks.acknowledged(A, 12, late);
        marks.acknowledged(A, 14, 200);
        assert_eq!(marks.measure(&[(A, 13)], late).freshness_us, late - 300);
        let mut marks = self::marks();
        assert_eq!(marks.measure(&[(A, 13), (B, 23)], 1_000).unseen, 0);
        // Another replica, which lags.
        assert_eq!(marks.measure(&[(A, 11), (B, 23)], 1_000), MarkReading { freshness_us: 800, unseen: 2 });
    }
}

//! What a partition's node publishes, so that a replica fetches a cut and the last writers of what it reads without a step
//! of that node: PolarDB-SCC's one-sided read of the timestamp and the modification tracker (§4.3).
//!
//! IN: what was executed, what was closed. OUT: a cut with positions, or nothing: then the replica asks. KEEPS: the writer
//! raises slots, then the end of the log, then `executed`, then `closed`, and all of it before it lets anybody know of the
//! step; a reader loads `closed`, then `executed`, then slots.
//!
//! Why a cut at `closed` is strong: a transaction that was answered before the load was executed by a step that had ended,
//! so `executed` is at least its rank; where `closed >= executed`, the cut holds it. Of everything in the cut the slots
//! know, for they are loaded later. That argument needs every answer to come after execution at the *one* copy of the
//! partition; with several copies an answer may be ahead of this one, and only a cut that the replica's own clock asks for
//! will do.
//!
//! | PolarDB-SCC | here |
//! |---|---|
//! | `CTS_rw_max`, in the RW node's registered memory | `closed`: a rank below which nothing more is added |
//! | timestamp slots of the tracker, there | [`Tracker`] over [`SharedSlots`], or over a mapping of them |

use super::tracker::{Memory, SharedSlots, Sizes, Slots, Tracker};
use base::txn::Granule;
use base::{LogPosition, Rank};
use std::sync::Arc;

/// Of one partition. Clones share the memory; one of them writes.
#[derive(Clone, Debug)]
pub struct Published {
    tracker: Tracker<SharedSlots>,
}

/// What a replica needs of a cut.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// A cut that holds whatever was answered anywhere before the question was sent.
    pub at: Rank,
    /// What the sessions that ask have seen, and the catalog that they know: no cut is below.
    pub least: Rank,
}

impl Published {
    pub fn new(sizes: Sizes, floor: LogPosition) -> Published {
        Published { tracker: Tracker::shared(sizes, floor) }
    }
    /// In memory that a host lends; see [`Tracker::lent`].
    pub fn lent(memory: Arc<dyn Memory>, sizes: Sizes, floor: LogPosition) -> Published {
        Published { tracker: Tracker::lent(memory, sizes, floor) }
    }
    pub fn tracker(&self) -> &Tracker<SharedSlots> {
        &self.tracker
    }
    pub fn tracker_mut(&mut self) -> &mut Tracker<SharedSlots> {
        &mut self.tracker
    }

    // ---- the writer ---------------------------------------------------------------------------------

    pub fn executed(&mut self, rank: Rank) {
        self.tracker.execute(rank);
    }
    pub fn close(&mut self, rank: Rank) {
        self.tracker.close(rank);
    }
    /// Whether a fetch would find a cut now.
    pub fn is_closed(&self) -> bool {
        self.tracker.closed() >= self.tracker.executed()
    }

    // ---- readers ------------------------------------------------------------------------------------

    /// See [`Tracker::fetch`].
    pub fn fetch<'a>(
        &self,
        needs: Needs,
        watched: impl Iterator<Item = &'a Granule>,
    ) -> Option<(Rank, Vec<LogPosition>)> {
        self.tracker.fetch(needs, watched)
    }
}

impl<S: Slots> Tracker<S> {
    /// A cut, and of each granule the last record at or before it that may have written there. `None`: nothing that is
    /// published will do.
    pub fn fetch<'a>(
        &self,
        needs: Needs,
        watched: impl Iterator<Item = &'a Granule>,
    ) -> Option<(Rank, Vec<LogPosition>)> {
        let closed = self.closed();
        let executed = self.executed();
        let holds_all = closed >= needs.at || closed >= executed && closed >= needs.least;
        if !holds_all || closed == Rank::ZERO {
            return None;
        }
        // Records behind it are ranked above the cut.
        let end = self.published();
        Some((closed, watched.map(|granule| self.of(granule).min(end)).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Datum, Key, TableId};
    use std::sync::atomic::AtomicU64;
    use std::sync::atomic::Ordering::{Acquire, Release};

    const SIZES: Sizes = Sizes { tables: 16, granules: 64 };
    const TABLE: TableId = TableId(7);

    fn key(key: i64) -> Key {
        Key::of(&[Datum::Int(1), Datum::Int(key)])
    }
    fn granule(of: i64) -> Granule {
        Granule::Key(TABLE, key(of))
    }
    fn wrote(published: &mut Published, of: i64, at: LogPosition, rank: Rank) {
        published.tracker_mut().modified(TABLE, &key(of), at);
        published.tracker_mut().publish(at);
        published.executed(rank);
    }
    const fn needs(at: u64, least: u64) -> Needs {
        Needs { at: Rank(at), least: Rank(least) }
    }

    #[test]
    fn a_cut_holds_what_was_executed_and_what_the_session_has_seen() {
        let mut published = Published::new(SIZES, LogPosition(0));
        let fetch = |published: &Published, needs| published.fetch(needs, [granule(1)].iter());
        assert_eq!(fetch(&published, needs(50, 0)), None, "nothing is closed");
        published.close(Rank(40));
        assert_eq!(fetch(&published, needs(50, 0)), Some((Rank(40), vec![LogPosition(0)])));
        wrote(&mut published, 1, LogPosition(1), Rank(45));
        assert_eq!(fetch(&published, needs(50, 0)), None, "its writer may have been told");
        published.close(Rank(47));
        assert_eq!(fetch(&published, needs(50, 0)), Some((Rank(47), vec![LogPosition(1)])));
        assert_eq!(fetch(&published, needs(50, 48)), None, "the session has seen more");
        // Of a transaction that is being executed elsewhere and ranked high, a cut asked for by clock knows enough.
        wrote(&mut published, 2, LogPosition(2), Rank(99));
        assert_eq!(fetch(&published, needs(47, 0)), Some((Rank(47), vec![LogPosition(1)])));
    }

    /// What a writer does of a transaction.
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Do {
        Slot,
        End,
        Executed,
        Close,
        Answer,
    }

    /// Whether some fetch between two steps of a writer that does things in this order misses what was answered, or does
    /// not know the position of what its cut holds. `at`: of the fetch.
    fn goes_wrong(order: [Do; 5], at: u64) -> bool {
        let mut published = Published::new(SIZES, LogPosition(0));
        published.close(Rank(1));
        let mut answered = 0;
        for n in 1..=4_u64 {
            for step in order {
                match step {
                    Do::Slot => published.tracker_mut().modified(TABLE, &key(n as i64), LogPosition(n)),
                    Do::End => published.tracker_mut().publish(LogPosition(n)),
                    Do::Executed => published.executed(Rank(10 * n)),
                    Do::Close => published.close(Rank(10 * n + 5)),
                    Do::Answer => answered = n,
                }
                let granules: Vec<Granule> = (1..=4).map(granule).collect();
                let Some((cut, positions)) = published.fetch(needs(at, 0), granules.iter()) else { continue };
                let lacks = |n: u64| 10 * n <= cut.0 && positions[n as usize - 1] < LogPosition(n);
                if cut < Rank(10 * answered) || (1..=4).any(lacks) {
                    return true;
                }
            }
        }
        false
    }

    #[test]
    fn a_writer_publishes_in_one_order_and_every_other_shows() {
        use Do::*;
        assert!(!goes_wrong([Slot, End, Executed, Close, Answer], u64::MAX));
        // An answer need not wait for the close: until then nothing is fetched.
        assert!(!goes_wrong([Slot, End, Executed, Answer, Close], u64::MAX));
        for (order, fault) in [
            ([Close, Slot, End, Executed, Answer], "closed before the tracker knows"),
            ([Slot, Close, End, Executed, Answer], "closed before the end of the log is published"),
            ([Slot, End, Answer, Executed, Close], "answered before others can tell that it was executed"),
        ] {
            assert!(goes_wrong(order, u64::MAX), "{fault}");
        }
        assert!(goes_wrong([Slot, End, Executed, Answer, Close], 0), "any closed rank is taken for a cut");
    }

    /// A reader beside a writer: whatever the writer has told of before a fetch is in the fetch's cut, and the fetch knows
    /// its position.
    #[test]
    fn a_fetch_beside_the_writer_misses_nothing_that_was_answered() {
        let published = Published::new(Sizes { tables: 1, granules: 8 }, LogPosition(0));
        let answered = AtomicU64::new(0);
        const TRANSACTIONS: u64 = 20_000;
        std::thread::scope(|scope| {
            let mut writer = published.clone();
            let told = &answered;
            scope.spawn(move || {
                for n in 1..=TRANSACTIONS {
                    wrote(&mut writer, (n % 4) as i64, LogPosition(n), Rank(10 * n));
                    writer.close(Rank(10 * n + 5));
                    told.store(n, Release);
                }
            });
            let mut served = 0;
            let mut before = 0;
            // The last fetch is made once the writer is done, so one is served however threads are scheduled.
            while before < TRANSACTIONS {
                before = answered.load(Acquire);
                let granules: Vec<Granule> = (0..4).map(granule).collect();
                let Some((cut, positions)) = published.fetch(needs(u64::MAX, 0), granules.iter()) else {
                    continue;
                };
                served += 1;
                assert!(cut.0 >= 10 * before, "transaction {before} was answered and is above {cut}");
                // The last writers at or below the cut are among the last four transactions.
                let last = (cut.0 - 5) / 10;
                for nth in 0..4u64.min(last) {
                    let n = last - nth;
                    assert!(positions[(n % 4) as usize].0 >= n, "transaction {n} is in the cut {cut}");
                }
            }
            assert!(served > 0);
        });
    }
}

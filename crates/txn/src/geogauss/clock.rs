//! The epoch clock: which epoch of this member is open, and when it closes.
//!
//! IN: the member's clock, epochs that others have closed, how far epochs are published, whether clients are at work.
//! OUT: which epochs to close now, when to look again. KEEPS: `open` only grows, so nobody enters a closed epoch; an
//! epoch is never closed more than [`EpochPace::ahead_max`] after the last published one (but the first time, which begins the
//! count); what a clock shows decides when an epoch closes and its rank, never who is in it.
//!
//! A member whose clock is slow closes early once it hears that others are ahead, which is always safe; one whose clock
//! is fast waits for the others. While nobody works epochs are closed many at a time, and a member that hears of it
//! follows at once.

use super::message::Epoch;
use super::options::{EpochPace, Options};
use base::{Rank, Time};

#[derive(Clone, Debug)]
pub(super) struct EpochClock {
    epoch_ns: u64,
    pace: EpochPace,
    /// Accepts transactions.
    open: Epoch,
    /// The last epoch of the first closing.
    begun: Option<Epoch>,
    closed_at: Time,
    busy_until: Time,
}

impl EpochClock {
    pub fn new(options: &Options) -> EpochClock {
        EpochClock {
            epoch_ns: options.epoch_ns,
            pace: options.pace,
            open: Epoch(1),
            begun: None,
            closed_at: Time::ZERO,
            busy_until: Time::ZERO,
        }
    }

    pub fn open(&self) -> Epoch {
        self.open
    }
    /// The rank of everything in an epoch, and its end on the scale of clocks.
    pub fn rank(&self, epoch: Epoch) -> Rank {
        Rank(epoch.0.saturating_mul(self.epoch_ns))
    }
    /// The first epoch whose rank is at least this one.
    pub fn epoch_at(&self, rank: Rank) -> Epoch {
        Epoch(rank.0.div_ceil(self.epoch_ns))
    }
    /// The last epoch whose rank is at most this one.
    pub fn epoch_within(&self, rank: Rank) -> Epoch {
        Epoch(rank.0 / self.epoch_ns)
    }

    /// This node becomes a member with this epoch. One that was a member before has closed no later one that counts.
    pub fn begin_at(&mut self, from: Epoch) {
        (self.open, self.begun) = (from, Some(from.previous()));
    }

    /// It had closed everything up to this epoch in a former life.
    pub fn come_back(&mut self, closed: Epoch) {
        if closed >= self.open {
            (self.open, self.begun) = (closed.next(), Some(closed));
        }
    }

    /// Somebody works until then.
    pub fn keep_busy(&mut self, until: Time) {
        self.busy_until = self.busy_until.max(until);
    }
    pub fn is_busy(&self, now: Time) -> bool {
        now < self.busy_until
    }

    /// The last epoch that may be closed while this one is published.
    fn limit(&self, published: Epoch) -> Epoch {
        let ahead = |begun: Epoch| Epoch(begun.max(published).0.saturating_add(self.pace.ahead_max));
        self.begun.map_or(Epoch(u64::MAX), ahead)
    }
    /// When the open epoch ends, and is closed if nothing holds that up.
    fn ends_at(&self) -> Time {
        self.rank(self.open).time()
    }
    /// When to look again. `None`: not before another epoch is published.
    pub fn next(&self, published: Epoch) -> Option<Time> {
        let at = match self.begun {
            None => self.ends_at(),
            Some(_) if self.is_busy(self.ends_at()) => self.ends_at(),
            Some(_) => self.ends_at().max(self.closed_at + self.pace.idle_every_ns),
        };
        (self.open <= self.limit(published)).then_some(at)
    }
    /// The last of the epochs that are to be closed now.
    pub fn due(&self, now: Time, published: Epoch) -> Option<Epoch> {
        // As `next` says: an epoch that ended while somebody worked is closed when it may be, however late that is.
        let rests = !self.is_busy(self.ends_at())
            && self.begun.is_some()
            && now < self.closed_at + self.pace.idle_every_ns;
        let last = self.epoch_within(now.rank()).min(self.limit(published));
        (!rests && last >= self.open).then_some(last)
    }
    /// The same, as another member has closed this epoch.
    pub fn follow(&self, now: Time, closed: Epoch, published: Epoch) -> Option<Epoch> {
        let last = match self.is_busy(now) {
            true => Epoch(closed.0.saturating_sub(self.pace.behind_max + 1)),
            false => closed,
        };
        let last = last.min(self.limit(published));
        (last >= self.open).then_some(last)
    }
    /// Closes the open epoch and all up to this one; answers the first of them.
    pub fn close(&mut self, now: Time, last: Epoch) -> Epoch {
        assert!(self.open <= last, "an epoch is closed once");
        let first = std::mem::replace(&mut self.open, last.next());
        self.begun.get_or_insert(last);
        self.closed_at = now;
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::time::MS;

    fn clock() -> EpochClock {
        let pace = EpochPace { ahead_max: 5, idle_every_ns: 100 * MS, ..EpochPace::default() };
        let options = Options { pace, ..Options::default() };
        EpochClock::new(&options)
    }

    #[test]
    fn ranks_and_epochs_agree() {
        let clock = clock();
        assert_eq!(clock.rank(Epoch(3)), Rank(30 * MS));
        for (rank, at, within) in [(0, 0, 0), (1, 1, 0), (10 * MS, 1, 1), (10 * MS + 1, 2, 1)] {
            assert_eq!(clock.epoch_at(Rank(rank)), Epoch(at));
            assert_eq!(clock.epoch_within(Rank(rank)), Epoch(within));
        }
    }

    #[test]
    fn a_busy_member_closes_each_epoch_as_it_ends_and_an_idle_one_many_at_once() {
        let mut clock = clock();
        assert_eq!(clock.due(Time::from_ms(1000), Epoch(0)), Some(Epoch(100)), "it begins at its clock");
        assert_eq!(clock.close(Time::from_ms(1000), Epoch(100)), Epoch(1));
        clock.keep_busy(Time::from_ms(1050));
        assert_eq!(clock.next(Epoch(100)), Some(Time::from_ms(1010)));
        assert_eq!(clock.due(Time::from_ms(1009), Epoch(100)), None);
        assert_eq!(clock.due(Time::from_ms(1010), Epoch(100)), Some(Epoch(101)));
        clock.close(Time::from_ms(1049), Epoch(104));
        assert_eq!(clock.due(Time::from_ms(1060), Epoch(104)), None, "it rests");
        assert_eq!(clock.next(Epoch(104)), Some(Time::from_ms(1149)));
        assert_eq!(clock.due(Time::from_ms(1149), Epoch(110)), Some(Epoch(114)));
    }

    /// Otherwise `next` would name the past, and its member would be woken again and again without anything to do.
    #[test]
    fn an_epoch_that_was_held_up_is_closed_though_nobody_works_any_more() {
        let mut clock = clock();
        clock.close(Time::from_ms(1000), Epoch(100));
        clock.keep_busy(Time::from_ms(1070));
        clock.close(Time::from_ms(1062), Epoch(105));
        assert_eq!(clock.next(Epoch(100)), None, "five ahead of what is published");
        assert_eq!(clock.next(Epoch(105)), Some(Time::from_ms(1060)));
        assert_eq!(clock.due(Time::from_ms(1100), Epoch(105)), Some(Epoch(110)));
        clock.close(Time::from_ms(1100), Epoch(110));
        assert_eq!(clock.next(Epoch(110)), Some(Time::from_ms(1200)), "now it rests");
    }

    #[test]
    fn scenario_11_a_fast_clock_is_held_back_and_a_slow_one_catches_up() {
        let mut fast = clock();
        fast.close(Time::from_ms(1000), Epoch(100));
        fast.keep_busy(Time::from_ms(99_000));
        assert_eq!(
            fast.due(Time::from_ms(3000), Epoch(100)),
            Some(Epoch(105)),
            "five ahead of what is published"
        );
        fast.close(Time::from_ms(3000), Epoch(105));
        assert_eq!((fast.due(Time::from_ms(3100), Epoch(100)), fast.next(Epoch(100))), (None, None));
        let mut slow = clock();
        slow.close(Time::from_ms(950), Epoch(95));
        slow.keep_busy(Time::from_ms(99_000));
        assert_eq!(slow.follow(Time::from_ms(955), Epoch(98), Epoch(95)), None, "two behind are no harm");
        assert_eq!(slow.follow(Time::from_ms(955), Epoch(105), Epoch(98)), Some(Epoch(102)));
        let mut idle = clock();
        idle.close(Time::from_ms(950), Epoch(95));
        assert_eq!(
            idle.follow(Time::from_ms(955), Epoch(98), Epoch(95)),
            Some(Epoch(98)),
            "it follows at once"
        );
    }
}

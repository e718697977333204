//! Deadlines: an engine's own, and those that its host keeps for it.
//!
//! An engine keeps its reminders to itself ([`Timers`]) and tells the host one thing, when it wants to be woken next
//! ([`Engine::next_wake`](crate::engine::Engine::next_wake)). KEEPS: reminders come in the order of their times, those
//! of one time in the order in which they were set; [`Alarms`] has the host wake the engine no later than it asked to
//! be, and sets no more alarms than there were different times to be woken at.

use base::Time;
use std::collections::{BTreeMap, BTreeSet};

/// What an engine is to be reminded of, and when.
#[derive(Clone, Debug)]
pub struct Timers<T> {
    set: BTreeMap<(Time, u64), T>,
    count: u64,
}

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Timers { set: BTreeMap::new(), count: 0 }
    }
}

/// Where [`Timers`] stood at some moment.
#[derive(Clone, Copy, Debug)]
pub struct Mark(u64);

impl<T> Timers<T> {
    pub fn set(&mut self, at: Time, timer: T) {
        self.count += 1;
        self.set.insert((at, self.count), timer);
    }
    /// When the first of them is due.
    pub fn next(&self) -> Option<Time> {
        self.set.first_key_value().map(|((at, _), _)| *at)
    }
    /// Whoever is woken takes what was set before, not what it sets meanwhile: that comes with the next wake-up.
    pub fn mark(&self) -> Mark {
        Mark(self.count)
    }
    /// Takes the first that is due and was set before this mark.
    pub fn due(&mut self, now: Time, mark: Mark) -> Option<T> {
        let mut due = self.set.range(..=(now, u64::MAX)).map(|(key, _)| *key);
        let key = due.find(|(_, number)| *number <= mark.0)?;
        self.set.remove(&key)
    }
    /// A new life begins.
    pub fn clear(&mut self) {
        self.set.clear();
    }
}

/// Timers of which one is set at most.
impl<T: PartialEq> Timers<T> {
    /// When this one is due, if it is set.
    pub fn at(&self, timer: &T) -> Option<Time> {
        self.set.iter().find(|(_, other)| *other == timer).map(|((at, _), _)| *at)
    }
    /// It comes at this time, and not when it was set for before.
    pub fn reset(&mut self, at: Time, timer: T) {
        self.set.retain(|_, other| *other != timer);
        self.set(at, timer);
    }
    /// It comes at this time, or when it was set for before if that is earlier.
    pub fn set_by(&mut self, at: Time, timer: T) {
        if self.at(&timer).is_none_or(|set| at < set) {
            self.reset(at, timer);
        }
    }
}

/// The alarms that a host has set for one engine. A host cannot take an alarm back: the engine may have found another
/// time meanwhile, or have nothing to do.
#[derive(Clone, Debug, Default)]
pub struct Alarms {
    set: BTreeSet<Time>,
    goes_on: bool,
}

impl Alarms {
    /// When to set one more alarm, as the engine wants to be woken then. An earlier one serves, too: the engine is
    /// asked again after it.
    pub fn arm(&mut self, next: Option<Time>) -> Option<Time> {
        let at = next?;
        if self.set.first().is_some_and(|first| *first <= at) {
            return None;
        }
        self.set.insert(at);
        Some(at)
    }
    /// Whether to wake the engine once everything that waits for its host has had its turn: it wants that
    /// ([`Engine::goes_on`](crate::engine::Engine::goes_on)), and nobody has seen to it.
    pub fn go_on(&mut self, wants: bool) -> bool {
        wants && !std::mem::replace(&mut self.goes_on, true)
    }
    /// It is woken for that now.
    pub fn went_on(&mut self) {
        self.goes_on = false;
    }
    /// The alarm of this time has gone off; whatever the clock shows now.
    pub fn went_off(&mut self, at: Time) {
        self.set.remove(&at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reminders_come_in_the_order_of_their_times_and_then_of_being_set() {
        let mut timers = Timers::default();
        for (at, name) in [(5, "c"), (3, "a"), (5, "d"), (3, "b"), (9, "e")] {
            timers.set(Time(at), name);
        }
        timers.reset(Time(7), "d");
        timers.set_by(Time(8), "d");
        timers.set_by(Time(8), "e");
        let mut came = Vec::new();
        while let Some(at) = timers.next() {
            assert_eq!(timers.due(Time(at.0 - 1), timers.mark()), None, "not before its time");
            came.extend(timers.due(at, timers.mark()).map(|name| (at.0, name)));
        }
        assert_eq!(came, [(3, "a"), (3, "b"), (5, "c"), (7, "d"), (8, "e")]);
    }

    #[test]
    fn what_is_set_while_timers_are_taken_is_taken_with_the_next_wake_up() {
        let mut timers = Timers::default();
        timers.set(Time(2), "b");
        timers.set(Time(3), "c");
        let mark = timers.mark();
        timers.set(Time(1), "a");
        assert_eq!([(); 3].map(|()| timers.due(Time(9), mark)), [Some("b"), Some("c"), None]);
        assert_eq!((timers.next(), timers.due(Time(9), timers.mark())), (Some(Time(1)), Some("a")));
    }

    #[test]
    fn an_engine_is_woken_when_it_asked_and_alarms_do_not_multiply() {
        let (mut alarms, mut set, mut woken) = (Alarms::default(), BTreeSet::new(), 0);
        // It always has something to do at 1000, and something else every 10.
        let mut soon = 10;
        for now in 0..1000 {
            if set.remove(&now) {
                alarms.went_off(Time(now));
                woken += 1;
                assert_eq!(soon, now, "woken when it asked");
                soon += 10;
            }
            if let Some(at) = alarms.arm([Time(soon), Time(1000)].into_iter().min()) {
                assert!(set.insert(at.0), "no time twice");
            }
        }
        assert_eq!((woken, set.len()), (99, 1));
    }
}

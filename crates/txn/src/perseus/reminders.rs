//! When this node does something by itself.
//!
//! IN: what to ask again for, and when. OUT: the engine's next wake-up, and what is overdue then. KEEPS: a deadline that
//! was not forgotten comes up once.

use super::message::{Deadline, Timer};
use crate::timers::{Mark, Timers};
use base::Time;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
pub(super) struct Reminders {
    /// With how often each was asked for again.
    deadlines: BTreeMap<(Time, Deadline), u32>,
    timers: Timers<Timer>,
}

impl Reminders {
    /// Asks again at `at` if the deadline still means something then.
    pub fn remember(&mut self, at: Time, deadline: Deadline, attempt: u32) {
        self.deadlines.insert((at, deadline), attempt);
    }
    pub fn forget(&mut self, at: Time, deadline: Deadline) {
        self.deadlines.remove(&(at, deadline));
    }
    /// Takes the next deadline that has passed.
    pub fn overdue(&mut self, now: Time) -> Option<(Deadline, u32)> {
        let first = self.deadlines.first_entry().filter(|first| first.key().0 <= now)?;
        let ((_, deadline), attempt) = first.remove_entry();
        Some((deadline, attempt))
    }
    /// Makes sure that the earliest deadline is looked at.
    pub fn arm(&mut self) {
        if let Some(((at, _), _)) = self.deadlines.first_key_value() {
            self.timers.set_by(*at, Timer::Retry);
        }
    }
    /// The reply gate opens for the next answer then.
    pub fn gate_at(&mut self, at: Time) {
        self.timers.set_by(at, Timer::Gate);
    }
    /// Something is to be looked at then.
    pub fn wake_at(&mut self, at: Time) {
        self.timers.set_by(at, Timer::Retry);
    }
    /// The next report to the collector.
    pub fn collect_at(&mut self, at: Time) {
        self.timers.set(at, Timer::Collect);
    }
    /// A new life begins: timers of the former one are gone.
    pub fn resume(&mut self) {
        self.timers.clear();
    }
    /// When the engine has to be woken.
    pub fn next(&self) -> Option<Time> {
        self.timers.next()
    }
    pub fn mark(&self) -> Mark {
        self.timers.mark()
    }
    pub fn due(&mut self, now: Time, mark: Mark) -> Option<Timer> {
        self.timers.due(now, mark)
    }
    pub fn deadline_count(&self) -> usize {
        self.deadlines.len()
    }
    #[cfg(test)]
    pub fn deadlines(&self) -> impl Iterator<Item = &(Time, Deadline)> {
        self.deadlines.keys()
    }
}

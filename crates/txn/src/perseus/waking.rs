//! What this node does by itself: what is overdue is asked for again, and the collector hears from it.
//!
//! IN: deadlines, alarms, the time. OUT: messages that are said again. KEEPS: deadlines and timers are set here alone.

use super::message::{Deadline, Timer};
use super::reminders::Reminders;
use super::state::Perseus;
use super::work::Out;
use crate::engine::Executor;
use base::Time;

impl Perseus {
    /// A life begins: of a former one nothing is left to be asked for again.
    pub(super) fn begin_reminders(&mut self, now: Time) {
        self.reminders = Reminders::default();
        self.reminders.collect_at(now + self.cluster.options.collect_every_ns);
    }
    /// A life goes on with what the former one had under way.
    pub(super) fn resume_reminders(&mut self, now: Time) {
        self.reminders.resume();
        self.reminders.collect_at(now);
    }
    /// Asks again at `at`, after this attempt, if the deadline still means something then.
    pub(super) fn remember(&mut self, at: Time, deadline: Deadline, attempt: u32) {
        self.reminders.remember(at, deadline, attempt);
    }
    /// Nothing has to be asked at `at` any more.
    pub(super) fn forget_deadline(&mut self, at: Time, deadline: Deadline) {
        self.reminders.forget(at, deadline);
    }
    /// The reply gate opens for the next answer then.
    pub(super) fn gate_at(&mut self, at: Time) {
        self.reminders.gate_at(at);
    }
    /// Something is to be looked at then.
    pub(super) fn wake_at(&mut self, at: Time) {
        self.reminders.wake_at(at);
    }
    /// Makes sure that the earliest deadline is looked at.
    pub(super) fn arm_reminders(&mut self) {
        self.reminders.arm();
    }

    /// Does what has come due.
    pub(super) fn remind_of_all(&mut self, now: Time, executor: &mut dyn Executor, out: &mut Out) {
        let mark = self.reminders.mark();
        while let Some(timer) = self.reminders.due(now, mark) {
            self.remind(now, timer, executor, out);
        }
    }

    /// What a reminder is about.
    pub(super) fn remind(&mut self, now: Time, timer: Timer, executor: &mut dyn Executor, out: &mut Out) {
        match timer {
            Timer::Gate => {}
            Timer::Retry => self.retry(now, out),
            Timer::Collect => {
                self.report_progress(now, out);
                self.reminders.collect_at(now + self.cluster.options.collect_every_ns);
            }
        }
        self.settle(now, executor, out);
    }

    /// Asks again for whatever is overdue.
    fn retry(&mut self, now: Time, out: &mut Out) {
        while let Some((deadline, attempt)) = self.reminders.overdue(now) {
            let again = match deadline {
                Deadline::Coordination(txn) => self.retry_coordination(now, txn, out),
                Deadline::Exchange(txn) => self.retry_exchange(txn, out),
                Deadline::Inquiry(txn) => self.retry_inquiry(txn, out),
                Deadline::Recovery(txn) => self.retry_recovery(now, txn, out),
                Deadline::Attendance(txn) => self.retry_attendance(txn, out),
                Deadline::Again(last) => self.go_on_after(now, last, out),
            };
            if again {
                let pause =
                    self.cluster.options.retry_after_ns(&self.cluster.topology) << (attempt + 1).min(16);
                let at = now + pause.min(self.cluster.options.retry_max_ns);
                self.remember(at, deadline, attempt + 1);
            }
        }
    }
}

//! When this node does something by itself: its deadlines, and the idle back-off.
//!
//! A sequencer tells all mergers every two milliseconds how far its sequence is complete, so that a reader elsewhere
//! waits no longer for that than it has to. In a cluster that nobody uses this is all that happens: thousands of
//! messages a second, each an entry in the logs of nodes that keep one. So an idle node ticks less often. KEEPS:
//! 1. while anything is under way that a tick would have to look after, there is one every heartbeat;
//! 2. there is always a tick to come, and one deadline of each other kind at most;
//! 3. no node is taken for lost because it backs off: where others take over it does so for a part of that time only, and
//!    elsewhere its silence is borne for longer (see `availability`).

use super::cluster::Cluster;
use super::message::Timer;
use super::options::Options;
use super::pacing::Pace;
use crate::timers::{Mark, Timers};
use base::Time;

/// For so many heartbeats after the last thing that happened a node goes on as if more were to come.
const LINGER: u64 = 250;

/// When this node does something by itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Wakes {
    timers: Timers<Timer>,
    pace: Pace,
    rest: Rest,
}

impl Wakes {
    /// A new life begins: reminders of the former one are gone.
    pub fn resume(&mut self) {
        self.timers.clear();
        self.rest = Rest::default();
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
    /// The least time between two messages on one link.
    pub fn interval_ns(&self, options: &Options) -> u64 {
        self.pace.interval_ns(options)
    }
    /// Something has to be sent at `at`. What was due before now is sent with this.
    pub fn flush_by(&mut self, now: Time, at: Time) {
        if self.timers.at(&Timer::Flush).is_none_or(|set| at < set || set <= now) {
            self.timers.reset(at, Timer::Flush);
        }
    }
    /// The reply gate opens for the next answer then.
    pub fn gate_at(&mut self, at: Time) {
        self.timers.set_by(at, Timer::Gate);
    }
    pub fn collect_at(&mut self, at: Time) {
        self.timers.set(at, Timer::Collect);
    }
    pub fn tick_at(&mut self, at: Time) {
        self.rest.set += 1;
        self.rest.due = at;
        self.timers.set(at, Timer::Tick);
    }

    /// A tick has come and was worked off: the next one.
    pub fn ticked(&mut self, now: Time, is_busy: bool, cluster: &Cluster) {
        self.rest.set -= 1;
        if self.rest.set == 0 {
            // What stood before it in the node's queue made it wait.
            self.pace.late(now.since(self.rest.due), &cluster.options);
        }
        if is_busy {
            self.rest.busy_at = now;
        }
        if self.rest.set > 0 {
            return; // The one that was set before something happened.
        }
        let heartbeat_ns = cluster.options.heartbeats.every_ns;
        let interval_ns = match cluster.options.heartbeats.idle_every_ns {
            Some(idle_ns) if now.since(self.rest.busy_at) > LINGER * heartbeat_ns => {
                let bound_ns = match cluster.survives() {
                    true => cluster.options.suspect_after_ns(&cluster.topology) / 8,
                    false => u64::MAX,
                };
                idle_ns.min(bound_ns).max(heartbeat_ns)
            }
            _ => heartbeat_ns,
        };
        self.rest.is_long = interval_ns > heartbeat_ns;
        self.tick_at(now + interval_ns);
    }
    /// The next tick is later than a heartbeat.
    pub fn rests(&self) -> bool {
        self.rest.is_long
    }
    /// Something happens: the next tick comes after a heartbeat.
    pub fn rouse(&mut self, now: Time, cluster: &Cluster) {
        base::sometimes!("a node that rested is roused");
        self.rest.is_long = false;
        self.rest.busy_at = now;
        self.tick_at(now + cluster.options.heartbeats.every_ns);
    }
}

/// When to look around next.
#[derive(Clone, Debug, Default)]
struct Rest {
    /// Ticks that are set and have not come.
    set: u32,
    /// The next one is later than a heartbeat.
    is_long: bool,
    busy_at: Time,
    /// When the one that was set last is due.
    due: Time,
}

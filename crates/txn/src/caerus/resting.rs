//! Where nothing happens, nodes look around less often.
//!
//! A sequencer tells all mergers every two milliseconds how far its sequence is complete, so that a reader elsewhere
//! waits no longer for that than it has to. In a cluster that nobody uses this is all that happens: thousands of
//! messages a second, each an entry in the logs of nodes that keep one. KEEPS:
//! 1. while anything is under way that a tick would have to look after, there is one every heartbeat;
//! 2. there is always a tick to come;
//! 3. nobody is taken for lost because it rests: where others take over it rests for a part of that time only, and
//!    elsewhere its silence is borne for longer than it rests (see `availability`).

use super::message::Timer;
use super::state::{Caerus, Out};
use crate::engine::EngineEffect;
use base::Time;

/// For so many heartbeats after the last thing that happened a node goes on as if more were to come.
const LINGER: u64 = 250;

/// When to look around next.
#[derive(Clone, Debug, Default)]
pub(super) struct Rest {
    /// Ticks that are set and have not come.
    set: u32,
    /// The next one is later than a heartbeat.
    is_long: bool,
    busy_at: Time,
    /// When the one that was set last is due.
    due: Time,
}

impl Caerus {
    pub(super) fn tick_at(&mut self, at: Time, out: &mut Out) {
        self.rest.set += 1;
        self.rest.due = at;
        out.push(EngineEffect::Timer { at, timer: Timer::Tick });
    }

    /// A tick has come and was worked off: the next one.
    pub(super) fn ticked(&mut self, now: Time, out: &mut Out) {
        self.rest.set -= 1;
        if self.rest.set == 0 {
            // What stood before it in the node's queue made it wait.
            self.pace.late(now.since(self.rest.due), &self.options);
        }
        if self.is_busy() {
            self.rest.busy_at = now;
        }
        if self.rest.set > 0 {
            return; // The one that was set before something happened.
        }
        let heartbeat_ns = self.options.heartbeat_ns;
        let interval_ns = match self.options.idle_heartbeat_ns {
            Some(idle_ns) if now.since(self.rest.busy_at) > LINGER * heartbeat_ns => {
                let bound_ns = match self.survives() {
                    true => self.options.suspect_after_ns(&self.topology) / 8,
                    false => u64::MAX,
                };
                idle_ns.min(bound_ns).max(heartbeat_ns)
            }
            _ => heartbeat_ns,
        };
        self.rest.is_long = interval_ns > heartbeat_ns;
        self.tick_at(now + interval_ns, out);
    }

    /// Something may have happened: whoever rests looks around soon.
    pub(super) fn rouse(&mut self, now: Time, out: &mut Out) {
        if self.rest.is_long && self.is_busy() {
            base::sometimes!("a node that rested is roused");
            self.rest.is_long = false;
            self.rest.busy_at = now;
            self.tick_at(now + self.options.heartbeat_ns, out);
        }
    }

    /// Whether something is under way here. Readers that wait do not count: there are always some that follow
    /// the streams.
    fn is_busy(&self) -> bool {
        !(self.joining.is_none()
            && self.handed_out.is_empty()
            && self.outstanding.is_empty()
            && self.waiting.is_empty()
            && self.held_back.is_empty()
            && self.gate.is_empty()
            && self.unordered == 0
            && self.pending.is_empty()
            && self.kept.is_empty()
            && self.exchanging.is_empty()
            && self.early_reads.is_empty()
            && self.candidacies.is_empty()
            && self.finding.is_empty()
            && self.links.values().all(|link| link.outbox.is_settled())
            && self.leading.values().all(|sequencer| {
                sequencer.is_open
                    && sequencer.log.is_settled()
                    && sequencer.preparing.is_empty()
                    && sequencer.confirming.is_settled()
            })
            && self.sequences.iter().all(|sequence| sequence.unmerged().next().is_none()))
    }
}

//! Where nothing happens, nodes look around less often.
//!
//! A sequencer tells all mergers every two milliseconds how far its sequence is complete, so that a reader elsewhere
//! waits no longer for that than it has to. In a cluster that nobody uses this is all that happens: thousands of
//! messages a second, each an entry in the logs of nodes that keep one. KEEPS:
//! 1. while anything is under way that a tick would have to look after, there is one every heartbeat;
//! 2. there is always a tick to come;
//! 3. nobody is taken for lost because it rests: where others take over it rests for a part of that time only, and
//!    elsewhere its silence is borne for longer than it rests (see `availability`).

use super::state::Caerus;
use base::Time;

impl Caerus {
    /// A tick has come and was worked off: the next one.
    pub(super) fn ticked(&mut self, now: Time) {
        let is_busy = self.is_busy();
        self.wakes.ticked(now, is_busy, &self.cluster);
    }

    /// Something may have happened: whoever rests looks around soon.
    pub(super) fn rouse(&mut self, now: Time) {
        if self.wakes.rests() && self.is_busy() {
            self.wakes.rouse(now, &self.cluster);
        }
    }

    /// Whether something is under way here. Readers that wait do not count: there are always some that follow
    /// the streams.
    fn is_busy(&self) -> bool {
        !(self.life.is_running()
            && self.life.donor.is_idle()
            && self.gateway.is_settled()
            && self.merger.is_settled()
            && self.scheduler.is_settled()
            && self.readers.is_settled()
            && self.logs.is_settled())
    }
}

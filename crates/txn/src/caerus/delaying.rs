//! When a transaction that spans regions takes its place in a nearer region's sequence.
//!
//! It is complete, wherever it was begun, when the entry of its farthest region has come back: a round trip after
//! it set out. A nearer region that appends it as soon as it arrives makes whoever comes behind it there wait for
//! most of that round trip; the farthest one makes nobody wait. The nearer one may as well append it later: as long
//! as its entry is there when the farthest one's is, nothing is answered later. So each region delays the append until it is
//! at the farthest too ([`Options::append_delay_percent`] = 100): then it is complete in two regions at about the same
//! time, half a round trip after both have appended it, and whoever waits behind it waits half as long at most. With K > 0
//! an entry counts later; its append is delayed by as much less.
//!
//! KEEPS: only when an entry is appended changes, as if its submission had taken longer on the way: stamps are made
//! when it is, and whoever is heard of from another sequence is appended at once. What is delayed is in nobody's
//! sequence yet; if this node does not lead any more it is submitted again, like whatever got lost on the way.
//!
//! [`Options::append_delay_percent`]: super::Options::append_delay_percent

use super::message::{SequenceId, sequences_in};
use super::state::Caerus;
use base::NodeId;
use base::txn::Transaction;

impl Caerus {
    /// How long the leader of one of its `regions`, at `node`, delays the append of a transaction.
    pub(super) fn append_delay_ns(&self, node: NodeId, transaction: &Transaction, regions: u64) -> u64 {
        if self.cluster.options.append_delay_percent == 0
            || !self.cluster.is_direct()
            || regions.count_ones() == 1
        {
            return 0;
        }
        let gateway = transaction.id.coordinator;
        let one_way_ns = |from, to| self.delays.one_way_ns(from, to);
        let there_ns = one_way_ns(gateway, node);
        let leaders = || sequences_in(regions).map(|region| self.leader_of(region));
        let farthest_ns = leaders().map(|other| one_way_ns(gateway, other)).max().unwrap_or(0);
        let delay_ns = farthest_ns.saturating_sub(there_ns) * self.cluster.options.append_delay_percent / 100;
        // The own entry has to count by the time when the others are here.
        let others = leaders().map(|other| one_way_ns(gateway, other) + one_way_ns(other, node));
        let own = SequenceId(self.cluster.topology.region_of(node).0);
        let counts_ns = self.stable_after_ns(own, node);
        let room_ns = others.max().unwrap_or(0).saturating_sub(there_ns + counts_ns);
        // However wrong what was measured may be.
        delay_ns.min(room_ns).min(self.cluster.topology.wan.widest_ns())
    }
}

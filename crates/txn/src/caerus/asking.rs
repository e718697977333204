//! Asking the other nodes of this region for reads that have not come.
//!
//! KEEPS: reads are asked for that have been waited for longer than reads usually are; a node is asked for a bounded
//! number at once, and one that does not answer for less each time, and half as often: it may be gone, and whatever
//! waits for it waits in any case. Any word of it that brings reads begins anew.

use super::cluster::Cluster;
use super::merger::Merger;
use super::message::Message;
use super::work::Todo;
use base::patience::{MOST_NS, Patience};
use base::topology::Topology;
use base::{NodeId, PartitionId, RegionId, Time, TxnId};
use std::collections::BTreeMap;

/// Asked of one node at once, at most.
const ASKED_MAX: u32 = 64;

#[derive(Clone, Debug)]
pub(super) struct Asking {
    /// How long reads are waited for.
    waits: Patience,
    /// Nothing is looked at before this.
    look_at: Time,
    nodes: BTreeMap<NodeId, Asked>,
    /// Questions so far.
    pub count: u64,
}

/// Of one node: nothing is asked before `at`; how often it was asked without bringing anything.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    at: Time,
    silences: u32,
    now: u32,
}

impl Asking {
    pub fn new(topology: &Topology, region: RegionId) -> Asking {
        let nominal_ns = 4 * topology.wan.round_trip_ns(region, region);
        let waits = Patience::new(nominal_ns, nominal_ns);
        Asking { waits, look_at: Time::ZERO, nodes: BTreeMap::new(), count: 0 }
    }
    /// Reads that were waited for since then are all here.
    pub fn came(&mut self, now: Time, since: Time) {
        // How long somebody was gone says nothing of how long reads take.
        self.waits.measured(now, since.max(now - MOST_NS));
    }
    /// A node has brought reads.
    pub fn heard(&mut self, node: NodeId) {
        if let Some(asked) = self.nodes.get_mut(&node).filter(|asked| asked.silences > 0) {
            *asked = Asked::default();
            self.look_at = Time::ZERO;
        }
    }
    /// Whether one more thing may be asked of a node now.
    fn may_ask(&mut self, now: Time, node: NodeId) -> bool {
        let asked = self.nodes.entry(node).or_default();
        let most = (ASKED_MAX >> (2 * asked.silences).min(6)).max(1);
        let may = asked.at <= now && asked.now < most;
        asked.now += u32::from(may);
        self.count += u64::from(may);
        may
    }
    /// All questions that may go have gone.
    fn asked(&mut self, now: Time) {
        let wait_ns = self.waits.ns();
        for asked in self.nodes.values_mut().filter(|asked| asked.now > 0) {
            asked.now = 0;
            asked.at = now + (wait_ns << asked.silences.min(16)).min(MOST_NS.max(wait_ns));
            asked.silences += 1;
        }
        self.look_at = now + wait_ns / 4;
    }
}

impl Asking {
    /// Asks the other nodes of this region for reads of `exchanging` that are overdue.
    pub fn ask(
        &mut self,
        now: Time,
        cluster: &Cluster,
        merger: &Merger,
        exchanging: &BTreeMap<TxnId, Time>,
        todo: &mut Todo<'_>,
    ) {
        if now < self.look_at || exchanging.is_empty() {
            return;
        }
        let wait_ns = self.waits.ns();
        let overdue = exchanging.iter().filter(|(_, since)| now.since(**since) > wait_ns);
        let own = cluster.sequencers[usize::from(cluster.region.0)]
            .expect("a region that executes has a sequencer");
        for (&txn, _) in overdue {
            let at = merger.graph().find(txn).expect("what waits for reads is kept");
            let vertex = merger.vertex(at);
            let transaction = vertex.transaction.as_ref().expect("entries carry them");
            let reads = vertex.extra.exchange.as_ref().map(|exchange| &exchange.reads);
            let lacks = |p: &PartitionId| reads.is_none_or(|reads| !reads.contains_key(p));
            let near = |p| cluster.topology.copy_near(p, own);
            let mut nodes: Vec<NodeId> = transaction.participants().filter(lacks).map(near).collect();
            nodes.sort_unstable();
            nodes.dedup();
            for node in nodes {
                if node != cluster.me && self.may_ask(now, node) {
                    base::sometimes!("reads are asked for");
                    todo.send(node, Message::ReadsWanted { txn });
                }
            }
        }
        self.asked(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::time::{MS, SECOND};
    use base::wan::Wan;

    #[test]
    fn a_node_that_is_gone_is_asked_little_and_one_that_is_back_for_everything() {
        let topology = Topology::one_node_per_region(Wan::preset("perseus3").unwrap(), 1);
        let (mut asking, node) = (Asking::new(&topology, RegionId(0)), NodeId(1));
        let ask = |asking: &mut Asking, now| {
            let before = asking.count;
            (0..1000).for_each(|_| _ = asking.may_ask(now, node));
            asking.asked(now);
            asking.count - before
        };
        let mut now = Time::from_ms(1000);
        let asked: u64 = (0..30 * SECOND / (2 * MS))
            .map(|_| {
                now = now + 2 * MS;
                ask(&mut asking, now)
            })
            .sum();
        assert!((64..150).contains(&asked), "{asked} in 30 s");
        asking.heard(node);
        assert_eq!(ask(&mut asking, now), u64::from(ASKED_MAX));
        asking.heard(node);
        assert_eq!(ask(&mut asking, now), u64::from(ASKED_MAX));
    }
}

//! Links from the nodes of one region to all others: distance, jitter, loss, duplication, reordering, cuts. Hot.
//!
//! KEEPS: a message to oneself is neither delayed nor lost; no message is faster than its distance, on which the event
//! loops of other regions rely.

use base::rng::Rng;
use base::topology::Topology;
use base::wan::Wan;
use base::{NodeId, RegionId, Time};
use std::collections::BTreeSet;

/// What links do to messages, beyond their distance.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Links {
    pub inside: LinkFaults,
    pub across: LinkFaults,
}

impl Links {
    pub fn everywhere(faults: LinkFaults) -> Links {
        Links { inside: faults, across: faults }
    }
}

/// What one class of links does to a message.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkFaults {
    pub jitter: Jitter,
    /// Probability that a message never arrives.
    pub loss: f64,
    /// Probability that it arrives once more, later.
    pub duplication: f64,
    /// Probability that it is held back by up to four nominal delays, so that later ones overtake it.
    pub reordering: f64,
    /// As over TCP: a message does not overtake its predecessor on the same link.
    pub in_order: bool,
}

/// Delay on top of the distance.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Jitter {
    #[default]
    None,
    /// Anything up to this many ns.
    Uniform { max_ns: u64 },
    /// Halves with every `half_ns`: mostly little, seldom much, never more than 16 times as much.
    Tail { half_ns: u64 },
}

impl Jitter {
    pub fn draw_ns(self, rng: &mut Rng) -> u64 {
        match self {
            Jitter::None => 0,
            Jitter::Uniform { max_ns } => rng.below(max_ns + 1),
            Jitter::Tail { half_ns } => {
                let halvings = u64::from(rng.next_u64().trailing_zeros().min(15));
                halvings * half_ns + rng.below(half_ns + 1)
            }
        }
    }
}

/// How far apart two nodes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distance {
    Same,
    Inside,
    Across,
}

impl Distance {
    pub fn between(topology: &Topology, a: NodeId, b: NodeId) -> Distance {
        match topology.region_of(a) == topology.region_of(b) {
            _ if a == b => Distance::Same,
            true => Distance::Inside,
            false => Distance::Across,
        }
    }
}

/// When a message arrives: not at all, once, or twice.
pub(crate) struct Fate {
    pub arrives: Option<Time>,
    pub again: Option<Time>,
}

pub(crate) struct Network {
    links: Links,
    rng: Rng,
    count: usize,
    /// Senders: the nodes of one region.
    own: Vec<NodeId>,
    /// By `place of the sender among own * count + to`.
    pairs: Vec<Pair>,
    /// Cut links, of all regions: what is on its way when a link is cut is lost at the receiver.
    cuts: BTreeSet<(NodeId, NodeId)>,
}

#[derive(Clone, Copy)]
struct Pair {
    distance: Distance,
    one_way_ns: u64,
    last_arrival: Time,
}

impl Network {
    pub fn new(topology: &Topology, own: Vec<NodeId>, links: Links, rng: Rng) -> Network {
        let pair = |from: NodeId, to: NodeId| Pair {
            distance: Distance::between(topology, from, to),
            one_way_ns: topology.one_way_ns(from, to),
            last_arrival: Time::ZERO,
        };
        let pairs = own.iter().flat_map(|a| topology.node_ids().map(move |b| pair(*a, b))).collect();
        Network { links, rng, count: topology.nodes.len(), own, pairs, cuts: BTreeSet::new() }
    }
    pub fn set_links(&mut self, links: Links) {
        self.links = links;
    }
    pub fn set_distances(&mut self, topology: &Topology, wan: &Wan) {
        let region = |node: NodeId| -> RegionId { topology.region_of(node) };
        for (nth, pair) in self.pairs.iter_mut().enumerate() {
            let (from, to) = (self.own[nth / self.count], NodeId((nth % self.count) as u16));
            pair.one_way_ns = if from == to { 0 } else { wan.one_way_ns(region(from), region(to)) };
        }
    }
    /// Of two different nodes.
    pub fn cut(&mut self, from: NodeId, to: NodeId) {
        if from != to {
            self.cuts.insert((from, to));
        }
    }
    pub fn reconnect(&mut self) {
        self.cuts.clear();
    }
    pub fn is_cut(&self, from: NodeId, to: NodeId) -> bool {
        !self.cuts.is_empty() && self.cuts.contains(&(from, to))
    }
    /// A message leaves at `now`, from the n-th of the region's nodes.
    pub fn send(&mut self, now: Time, nth: usize, to: NodeId) -> (Distance, Fate) {
        let is_cut = self.is_cut(self.own[nth], to);
        let Network { links, rng, count, pairs, .. } = self;
        let pair = &mut pairs[nth * *count + to.0 as usize];
        let faults = match pair.distance {
            Distance::Same => return (pair.distance, Fate { arrives: Some(now), again: None }),
            Distance::Inside => &links.inside,
            Distance::Across => &links.across,
        };
        if is_cut || (faults.loss > 0.0 && rng.chance(faults.loss)) {
            return (pair.distance, Fate { arrives: None, again: None });
        }
        let mut arrives = now + pair.one_way_ns + faults.jitter.draw_ns(rng);
        if faults.reordering > 0.0 && rng.chance(faults.reordering) {
            arrives = arrives + rng.below(4 * pair.one_way_ns + 1);
        }
        if faults.in_order {
            arrives = arrives.max(pair.last_arrival);
            pair.last_arrival = arrives;
        }
        let twice = faults.duplication > 0.0 && rng.chance(faults.duplication);
        let again = twice.then(|| arrives + rng.below(4 * pair.one_way_ns + 1));
        (pair.distance, Fate { arrives: Some(arrives), again })
    }
}

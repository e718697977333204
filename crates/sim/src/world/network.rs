//! Links between nodes: distance, jitter, loss, duplication, reordering, cuts. Hot.
//!
//! KEEPS: a message to oneself is neither delayed nor lost.

use base::rng::Rng;
use base::topology::Topology;
use base::{NodeId, Time};

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

/// When a message arrives: not at all, once, or twice.
pub(crate) struct Fate {
    pub arrives: Option<Time>,
    pub again: Option<Time>,
}

pub(crate) struct Network {
    links: Links,
    rng: Rng,
    count: usize,
    /// By `from * count + to`.
    pairs: Vec<Pair>,
}

#[derive(Clone, Copy)]
struct Pair {
    distance: Distance,
    one_way_ns: u64,
    cut: bool,
    last_arrival: Time,
}

impl Network {
    pub fn new(topology: &Topology, links: Links, rng: Rng) -> Network {
        let count = topology.nodes.len();
        let pair = |from: NodeId, to: NodeId| Pair {
            distance: if from == to {
                Distance::Same
            } else if topology.region_of(from) == topology.region_of(to) {
                Distance::Inside
            } else {
                Distance::Across
            },
            one_way_ns: topology.one_way_ns(from, to),
            cut: false,
            last_arrival: Time::ZERO,
        };
        let pairs = topology.node_ids().flat_map(|a| topology.node_ids().map(move |b| pair(a, b))).collect();
        Network { links, rng, count, pairs }
    }
    pub fn set_links(&mut self, links: Links) {
        self.links = links;
    }
    pub fn set_distances(&mut self, topology: &Topology) {
        for from in topology.node_ids() {
            for to in topology.node_ids() {
                self.pair(from, to).one_way_ns = topology.one_way_ns(from, to);
            }
        }
    }
    pub fn set_cut(&mut self, from: NodeId, to: NodeId, cut: bool) {
        let pair = self.pair(from, to);
        pair.cut = cut && pair.distance != Distance::Same;
    }
    pub fn reconnect(&mut self) {
        self.pairs.iter_mut().for_each(|p| p.cut = false);
    }
    pub fn is_cut(&self, from: NodeId, to: NodeId) -> bool {
        self.pairs[from.0 as usize * self.count + to.0 as usize].cut
    }
    pub fn distance(&self, from: NodeId, to: NodeId) -> Distance {
        self.pairs[from.0 as usize * self.count + to.0 as usize].distance
    }
    /// A message leaves at `now`.
    pub fn send(&mut self, now: Time, from: NodeId, to: NodeId) -> Fate {
        let Network { links, rng, count, pairs } = self;
        let pair = &mut pairs[from.0 as usize * *count + to.0 as usize];
        let faults = match pair.distance {
            Distance::Same => return Fate { arrives: Some(now), again: None },
            Distance::Inside => &links.inside,
            Distance::Across => &links.across,
        };
        if pair.cut || (faults.loss > 0.0 && rng.chance(faults.loss)) {
            return Fate { arrives: None, again: None };
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
        Fate { arrives: Some(arrives), again }
    }
    fn pair(&mut self, from: NodeId, to: NodeId) -> &mut Pair {
        &mut self.pairs[from.0 as usize * self.count + to.0 as usize]
    }
}

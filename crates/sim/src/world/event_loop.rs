//! One event loop: a data centre's nodes and clients, with a queue, random streams and counters of its own. Or the clients
//! outside of all data centres, which have no nodes.
//!
//! IN: events, from its own queue and from other loops' parcels; an instant up to which they may happen. OUT: [`Parcel`]s
//! for other loops. KEEPS: what happens here depends on the events alone, not on when they were pushed or on which thread
//! the loop runs: at one instant they happen by [`Order`], which is the causing loop's. A parcel for another region
//! happens at least the distance between the two later.

use super::client::{Client, ClientEffects, ClientEvent, ClientRef};
use super::disk::DiskModel;
use super::network::{Distance, Network};
use super::queue::{Order, Queue};
use super::trace::Trace;
use super::{Arrival, Cost, Counters, Host, Setup, Traffic, Wire};
use base::process::{Effects, Process};
use base::rng::Rng;
use base::topology::Topology;
use base::wan::Wan;
use base::{NodeId, RegionId, RequestId, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Which loop: 0 is outside, n + 1 is region n.
pub(super) type Origin = u16;
pub(super) const OUTSIDE: Origin = 0;

/// Where every node is, for all loops.
pub(super) struct Places {
    pub topology: Topology,
    /// Its loop, and its place among that loop's nodes.
    pub of: Vec<(Origin, u32)>,
}

impl Places {
    pub fn new(topology: &Topology) -> Places {
        let mut counts = BTreeMap::<RegionId, u32>::new();
        let place = |node: NodeId| {
            let region = topology.region_of(node);
            let count = counts.entry(region).or_default();
            *count += 1;
            (region.0 + 1, *count - 1)
        };
        Places { of: topology.node_ids().map(place).collect(), topology: topology.clone() }
    }
}

/// An event that one loop caused at another.
pub(super) struct Parcel<P: Process> {
    pub to: Origin,
    pub at: Time,
    order: Order,
    happening: Happening<P>,
}

/// What happens at an instant.
pub(super) enum Happening<P: Process> {
    Arrive {
        node: NodeId,
        arrival: Arrival<P>,
    },
    /// The memory of a node is looked at.
    Look {
        by: NodeId,
        life: u32,
        of: NodeId,
        message: P::Message,
    },
    /// Nothing published there answers: the message is sent.
    Unseen {
        by: NodeId,
        life: u32,
        of: NodeId,
        message: P::Message,
    },
    /// A busy node becomes free and takes what waits next.
    Free {
        node: NodeId,
    },
    /// `answers`: it is what came of something that the client had asked for.
    Client {
        client: u32,
        event: ClientEvent<P>,
        answers: bool,
    },
    /// A client has a machine do something beside its node.
    Work {
        node: NodeId,
        client: ClientRef,
        number: u64,
        cpu_ns: u64,
    },
    /// The first work of a machine may be done.
    Worked {
        node: NodeId,
    },
}

/// See the module. `C` is what its clients are: those of a region have to bear being moved between threads.
pub(super) struct EventLoop<P: Process, C: ?Sized> {
    pub now: Time,
    pub agenda: Agenda<P>,
    pub hosts: Vec<Host<P>>,
    clients: Clients<C>,
    /// Requests that its nodes have to answer, and who waits.
    pub pending: BTreeMap<RequestId, (ClientRef, NodeId)>,
    pub network: Network,
    places: Arc<Places>,
    /// Distances between regions, as they are now.
    wan: Wan,
    pub(super) disk_rng: Rng,
    pub(super) conditions: Conditions,
    pub(super) effects: Effects<P>,
    pub trace: Trace,
    pub counters: Counters,
    /// Events that have happened here.
    pub events: u64,
}

/// What is to happen, here and, because of this loop, elsewhere.
pub(super) struct Agenda<P: Process> {
    origin: Origin,
    pub queue: Queue<Happening<P>>,
    /// Events that this loop has caused.
    caused: u64,
    /// For other loops; whoever runs this one delivers them.
    pub outbox: Vec<Parcel<P>>,
}

impl<P: Process> Agenda<P> {
    /// Something is to happen here.
    pub fn push(&mut self, at: Time, happening: Happening<P>) {
        let order = self.next_order();
        self.queue.push(at, order, happening);
    }
    /// Something is to happen at a loop, this one or another.
    pub fn push_to(&mut self, to: Origin, at: Time, happening: Happening<P>) {
        let order = self.next_order();
        match to == self.origin {
            true => self.queue.push(at, order, happening),
            false => self.outbox.push(Parcel { to, at, order, happening }),
        }
    }
    fn next_order(&mut self) -> Order {
        self.caused += 1;
        Order::new(self.origin, self.caused)
    }
}

/// Those who live here.
struct Clients<C: ?Sized> {
    all: Vec<Option<Box<C>>>,
    /// What they have asked for and not been given yet.
    awaited: u64,
    next_request: u64,
}

/// How good machines are.
pub(super) struct Conditions {
    pub disks: DiskModel,
    pub cost: Cost,
    pub wire: Wire,
    client_one_way_ns: u64,
}

/// The loop of a data centre.
pub(super) type RegionLoop<P> = EventLoop<P, dyn Client<P> + Send>;
/// The loop of what is outside of all.
pub(super) type OutsideLoop<P> = EventLoop<P, dyn Client<P>>;

impl<P: Process, C: Client<P> + ?Sized> EventLoop<P, C> {
    pub fn new(setup: &Setup, places: &Arc<Places>, origin: Origin) -> EventLoop<P, C> {
        let rng = Rng::new(setup.seed);
        let topology = &setup.topology;
        let own = topology.node_ids().filter(|node| places.of[node.0 as usize].0 == origin);
        let own: Vec<NodeId> = own.collect();
        let host = |node: &NodeId| {
            let rng = rng.fork_nth("clock", u64::from(node.0));
            Host::new(setup.clocks, topology.clock_bound_ns, rng)
        };
        let Setup { disks, cost, wire, client_one_way_ns, .. } = *setup;
        let network = rng.fork_nth("network", u64::from(origin));
        EventLoop {
            now: super::BEGIN,
            agenda: Agenda { origin, queue: Queue::new(), caused: 0, outbox: Vec::new() },
            hosts: own.iter().map(host).collect(),
            clients: Clients { all: Vec::new(), awaited: 0, next_request: u64::from(origin) << 48 },
            pending: BTreeMap::new(),
            network: Network::new(topology, own, setup.links, network),
            places: places.clone(),
            wan: topology.wan.clone(),
            disk_rng: rng.fork_nth("disk", u64::from(origin)),
            conditions: Conditions { disks, cost, wire, client_one_way_ns },
            effects: Effects::new(),
            trace: Trace::new(setup.seed),
            counters: Counters::default(),
            events: 0,
        }
    }

    /// What happens before `until` happens, unless there have been `events_max` events; true if all of it did.
    pub fn run(&mut self, until: Time, events_max: u64) -> bool {
        while self.next_at().is_some_and(|at| at < until) {
            if self.events >= events_max {
                return false;
            }
            self.step();
        }
        true
    }
    /// The next event happens.
    pub fn step(&mut self) {
        let (at, happening) = self.agenda.queue.pop().expect("the caller has seen it");
        assert!(self.now <= at, "time runs forward");
        (self.now, self.events) = (at, self.events + 1);
        match happening {
            Happening::Arrive { node, arrival } => self.arrive(node, arrival),
            Happening::Look { by, life, of, message } => self.look(by, life, of, message),
            Happening::Unseen { by, life, of, message } => self.unseen(by, life, of, message),
            Happening::Free { node } => self.free(node),
            Happening::Client { client, event, answers } => {
                self.clients.awaited -= u64::from(answers);
                self.step_client(client, event);
            }
            Happening::Work { node, client, number, cpu_ns } => self.begin_work(node, client, cpu_ns, number),
            Happening::Worked { node } => self.worked(node),
        }
    }
    /// An event that another loop caused.
    pub fn deliver(&mut self, parcel: Parcel<P>) {
        assert!(self.now <= parcel.at, "nothing happens in the past");
        self.agenda.queue.push(parcel.at, parcel.order, parcel.happening);
    }

    /// Whoever drives the loops does something here at this instant.
    pub fn arrive_at(&mut self, now: Time) {
        self.now = now;
    }
    pub fn charge(&mut self, cost: Cost) {
        self.conditions.cost = cost;
    }
    pub fn set_distances(&mut self, wan: &Wan) {
        self.network.set_distances(&self.places.topology, wan);
        self.wan = wan.clone();
    }
    pub fn next(&self) -> Option<(Time, Order)> {
        self.agenda.queue.next()
    }
    pub fn next_at(&self) -> Option<Time> {
        self.agenda.queue.next_at()
    }
    /// Whether its clients wait for anything.
    pub fn awaits(&self) -> bool {
        self.clients.awaited > 0
    }
    pub(super) fn push(&mut self, at: Time, happening: Happening<P>) {
        self.agenda.push(at, happening);
    }
    pub(super) fn host(&mut self, node: NodeId) -> &mut Host<P> {
        let (origin, nth) = self.places.of[node.0 as usize];
        debug_assert_eq!(origin, self.agenda.origin, "{node} is elsewhere");
        &mut self.hosts[nth as usize]
    }
    pub(super) fn place(&self, node: NodeId) -> usize {
        self.places.of[node.0 as usize].1 as usize
    }
    pub(super) fn traffic(&mut self, distance: Distance) -> &mut Traffic {
        match distance {
            Distance::Same => &mut self.counters.to_self,
            Distance::Inside => &mut self.counters.inside,
            Distance::Across => &mut self.counters.across,
        }
    }
    /// Of the loop where a node lives.
    pub(super) fn loop_of(&self, node: NodeId) -> Origin {
        self.places.of[usize::from(node.0)].0
    }
    pub(super) fn distance(&self, a: NodeId, b: NodeId) -> Distance {
        Distance::between(&self.places.topology, a, b)
    }

    /// Between a client and a node, one way. A client of another region is as far away as that region is; one that is
    /// outside of all is as near as those of the node's own.
    fn client_way_ns(&self, client: Origin, node: Origin) -> u64 {
        let apart_ns = match client == OUTSIDE || client == node {
            true => 0,
            false => self.wan.one_way_ns(RegionId(client - 1), RegionId(node - 1)),
        };
        self.conditions.client_one_way_ns + apart_ns
    }
    /// A client learns what came of what it asked of a node here.
    pub(super) fn tell(&mut self, at: Time, client: ClientRef, event: ClientEvent<P>) {
        let at = at + self.client_way_ns(client.origin, self.agenda.origin);
        self.agenda.push_to(
            client.origin,
            at,
            Happening::Client { client: client.nth, event, answers: true },
        );
    }

    pub fn add(&mut self, client: Box<C>) {
        let nth = self.clients.all.len() as u32;
        self.clients.all.push(Some(client));
        self.push(self.now, Happening::Client { client: nth, event: ClientEvent::Start, answers: false });
    }
    pub fn is_done(&self) -> bool {
        self.clients.all.iter().flatten().all(|client| client.is_done())
    }
    fn step_client(&mut self, nth: u32, event: ClientEvent<P>) {
        let now = self.now;
        let (kind, detail) = match &event {
            ClientEvent::Start => (7, 0),
            ClientEvent::Wake(number) => (8, *number),
            ClientEvent::Reply { id, .. } => (9, id.0),
            ClientEvent::Lost { id } => (10, id.0),
        };
        self.trace_event((now.0, u64::from(nth)), kind, detail);
        let mut client = self.clients.all[nth as usize].take().expect("a client does not run inside itself");
        let mut effects = ClientEffects::new(self.clients.next_request);
        client.step(now, event, &mut effects);
        self.clients.all[nth as usize] = Some(client);
        self.clients.next_request = effects.next_request;
        let client = ClientRef { origin: self.agenda.origin, nth };
        for (id, node, request) in effects.asks {
            self.counters.requests += 1;
            self.clients.awaited += 1;
            let to = self.loop_of(node);
            let at = now + self.client_way_ns(self.agenda.origin, to);
            let arrival = Arrival::Request { id, client, request };
            self.agenda.push_to(to, at, Happening::Arrive { node, arrival });
        }
        for (node, cpu_ns, number) in effects.work {
            self.clients.awaited += 1;
            let to = self.loop_of(node);
            let at = now + self.client_way_ns(self.agenda.origin, to);
            self.agenda.push_to(to, at, Happening::Work { node, client, number, cpu_ns });
        }
        for (at, number) in effects.wakes {
            let event = ClientEvent::Wake(number);
            self.push(at.max(now), Happening::Client { client: nth, event, answers: false });
        }
    }

    pub(super) fn trace_event(&mut self, (at, node): (u64, u64), kind: u64, detail: u64) {
        self.trace.word(at);
        self.trace.word(kind << 32 | node);
        self.trace.word(detail);
    }
}

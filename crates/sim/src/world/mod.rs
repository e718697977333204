//! A world of nodes and clients in virtual time.
//!
//! IN: a topology, a seed, a factory of nodes, clients, fault steps. OUT: what the clients saw, counters,
//! a trace hash. KEEPS: each region has an event loop, in which events happen in the order of (time, who caused them, how
//! many that one had caused before); nothing depends on anything but the seed, not on the threads that run the loops
//! either (`windows`); a node's clock never runs backwards and stays within ε of true time; every message passes
//! through the codec, unless [`Wire::Measured`] asks for speed; a request is answered at most once, and never by a node that has crashed since.
//!
//! Reading order: [`queue`], [`clock`], [`network`], [`disk`], [`client`], then an event loop (`event_loop`, `machines`,
//! `work`), how loops run side by side (`windows`, `threads`), and the world itself.

pub mod client;
pub mod clock;
pub mod disk;
pub mod meter;
pub mod network;
pub mod queue;
pub mod recording;
pub mod trace;

mod event_loop;
mod loading;
mod machines;
mod run;
mod threads;
mod windows;
mod work;

pub use run::Stuck;

use base::process::{PersistToken, Process};
use base::topology::Topology;
use base::wan::Wan;
use base::{NodeId, RegionId, RequestId, Time};
use client::{Client, ClientRef};
use clock::ClockModel;
use disk::DiskModel;
use event_loop::{EventLoop, OUTSIDE, OutsideLoop, Parcel, Places, RegionLoop};
use machines::Host;
use network::Links;
use queue::{Order, Queue};
use std::collections::BTreeSet;
use std::sync::Arc;
use threads::Threads;
use trace::Trace;
use windows::{Alone, Apart, Crew};

/// True time at which every world begins: late enough that a clock may be behind.
pub const BEGIN: Time = Time(10 * base::time::SECOND);

/// What a step costs a node, which is a server with one queue: nothing else happens there meanwhile,
/// and what the step sends leaves when it is done. Zero by default: then nodes are infinitely fast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    pub event_ns: u64,
    /// Per 1024 bytes of an incoming message.
    pub kilobyte_ns: u64,
    /// Per 1024 bytes of a message to be sent, once for all receivers.
    pub encode_kilobyte_ns: u64,
    /// Per message sent to a node, and per 1024 bytes of it.
    pub send_ns: u64,
    pub send_kilobyte_ns: u64,
    /// To look at what a peer has published ([`base::process::Effect::Load`]), for the node that looks: half when it begins,
    /// half when the answer is there. It takes no time of the peer, and the answer waits for the end of a step, not for
    /// what is queued. This is a one-sided read of a network card (RDMA): the requester posts work and polls for its
    /// completion, the other machine's processor takes no part.
    pub load_ns: u64,
    /// From an effect that asks for a long computation to its result, which costs the node nothing.
    pub computation_ns: u64,
    /// Cores of a machine, for what clients have it do beside its node; 0 is one. Steps and computations come
    /// first: what they take, that work does not get.
    pub cores: u32,
}

/// How messages travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wire {
    /// As bytes: encoded by the sender, decoded by the receiver.
    #[default]
    Encoded,
    /// As they are, and only their length is taken: for large worlds, where the codec would be a large part of
    /// the work and has been tried in small ones.
    Measured,
}

/// How good the machines of a world are.
#[derive(Clone, Debug)]
pub struct Setup {
    pub topology: Topology,
    pub seed: u64,
    pub links: Links,
    pub clocks: ClockModel,
    pub disks: DiskModel,
    pub cost: Cost,
    pub wire: Wire,
    /// From a client to its region's node and back, each way, in ns.
    pub client_one_way_ns: u64,
}

impl Setup {
    /// A world without faults: perfect links at the topology's distances, clocks within its ε.
    pub fn calm(topology: Topology, seed: u64) -> Setup {
        Setup {
            topology,
            seed,
            links: Links::default(),
            clocks: ClockModel::default(),
            disks: DiskModel::default(),
            cost: Cost::default(),
            wire: Wire::default(),
            client_one_way_ns: 0,
        }
    }
}

/// Something that goes wrong, or right again, at an instant.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// No messages between these nodes and all others, either way.
    Separate(BTreeSet<NodeId>),
    /// No messages from the one to the other; the way back stays open.
    CutOneWay { from: NodeId, to: NodeId },
    /// Every link open again.
    Reconnect,
    /// The node stops: its memory is gone, its disk stays.
    Crash(NodeId),
    /// A crashed node comes back as a new incarnation.
    Restart(NodeId),
    /// Other link faults from now on.
    Links(Links),
    /// Other distances from now on.
    Distances(Wan),
    /// The machine's clock gains this many ns with each ms, or loses them.
    Stray { node: NodeId, ns_per_ms: i64 },
    /// It comes back within its bound.
    Mend(NodeId),
}

/// A node that was made, and when it starts: once its machine's clock shows more than this.
pub struct Booted<P> {
    pub node: P,
    pub starts_after: Time,
}

/// Builds a node: its id, which life this is (from 0), and what its disk holds.
pub type Factory<P> = Box<dyn FnMut(NodeId, u32, &[Vec<u8>]) -> Booted<P>>;

/// See the module.
pub struct World<P: Process> {
    now: Time,
    topology: Topology,
    /// Clients that live in no region.
    outside: OutsideLoop<P>,
    /// By region.
    regions: Vec<Box<RegionLoop<P>>>,
    places: Arc<Places>,
    apart: Apart,
    /// On their way from one loop to others.
    parcels: Vec<Parcel<P>>,
    faults: Queue<Fault>,
    faults_count: u64,
    crew: Box<dyn Crew<P>>,
    factory: Factory<P>,
    trace_lines: usize,
    /// Events until all clients are done, at most: nodes that keep each other busy make no progress either.
    events_max: u64,
}

/// Something that a client has a machine do; see [`client::ClientEffects::work`].
struct Work {
    client: ClientRef,
    number: u64,
    /// Of one core.
    left_ns: u64,
}

/// What arrives at a node. Things of a former life are thrown away; messages find whoever lives there.
enum Arrival<P: Process> {
    Start {
        life: u32,
    },
    Message {
        from: NodeId,
        cargo: Cargo<P::Message>,
    },
    /// What a peer has published.
    Loaded {
        life: u32,
        of: NodeId,
        message: P::Message,
    },
    Timer {
        life: u32,
        at: Time,
        timer: P::Timer,
    },
    Request {
        id: RequestId,
        client: ClientRef,
        request: P::Request,
    },
    Persisted {
        life: u32,
        token: PersistToken,
    },
    /// Records up to this one are synced.
    Stable {
        life: u32,
        token: PersistToken,
    },
    Computed {
        life: u32,
        computed: P::Computed,
    },
}

/// A message on its way; see [`Wire`].
#[derive(Clone)]
enum Cargo<M> {
    Bytes(Arc<[u8]>),
    Measured { message: M, length: u64 },
}

/// What happened in a world so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Steps of nodes.
    pub steps: u64,
    /// Messages to oneself, inside a region, across regions.
    pub to_self: Traffic,
    pub inside: Traffic,
    pub across: Traffic,
    pub requests: u64,
    pub replies: u64,
    /// Requests whose node crashed before it answered.
    pub requests_lost: u64,
    pub records_persisted: u64,
    pub crashes: u64,
}

/// Messages of one class of links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub sent: u64,
    pub bytes: u64,
    /// By loss, by a cut link or because nobody lived there.
    pub lost: u64,
    pub duplicated: u64,
}

impl Counters {
    /// Messages sent, whatever the distance.
    pub fn messages(&self) -> u64 {
        self.to_self.sent + self.inside.sent + self.across.sent
    }
    fn add(&mut self, other: &Counters) {
        let Counters { steps, to_self, inside, across, requests, replies, .. } = other;
        let Counters { requests_lost, records_persisted, crashes, .. } = other;
        self.steps += steps;
        self.to_self.add(to_self);
        self.inside.add(inside);
        self.across.add(across);
        self.requests += requests;
        self.replies += replies;
        self.requests_lost += requests_lost;
        self.records_persisted += records_persisted;
        self.crashes += crashes;
    }
}

impl Traffic {
    fn add(&mut self, other: &Traffic) {
        let Traffic { sent, bytes, lost, duplicated } = other;
        self.sent += sent;
        self.bytes += bytes;
        self.lost += lost;
        self.duplicated += duplicated;
    }
}

impl<P: Process> World<P> {
    /// A world at [`BEGIN`]; every node gets its `Start` first of all.
    pub fn new(setup: Setup, mut factory: impl FnMut(NodeId, u32, &[Vec<u8>]) -> P + 'static) -> World<P> {
        World::with_clocks(setup, move |node, life, records| Booted {
            node: factory(node, life, records),
            starts_after: Time::ZERO,
        })
    }

    /// One whose nodes may have to wait for their clocks after a crash, as hosts let them.
    pub fn with_clocks(
        setup: Setup,
        factory: impl FnMut(NodeId, u32, &[Vec<u8>]) -> Booted<P> + 'static,
    ) -> World<P> {
        setup.topology.check();
        let places = Arc::new(Places::new(&setup.topology));
        let origins = 1..=setup.topology.wan.region_count() as u16;
        let mut world = World {
            now: BEGIN,
            outside: EventLoop::new(&setup, &places, OUTSIDE),
            regions: origins.map(|origin| Box::new(EventLoop::new(&setup, &places, origin))).collect(),
            places,
            apart: Apart::new(&setup.topology, &setup.topology.wan),
            parcels: Vec::new(),
            faults: Queue::new(),
            faults_count: 0,
            crew: Box::new(Alone),
            factory: Box::new(factory),
            trace_lines: 0,
            events_max: u64::MAX,
            topology: setup.topology,
        };
        for node in world.topology.node_ids() {
            world.boot(node);
        }
        world
    }

    /// Adds a client that lives in no region; it gets [`ClientEvent::Start`](client::ClientEvent::Start) now.
    pub fn client(&mut self, client: impl Client<P> + 'static) {
        self.outside.arrive_at(self.now);
        self.outside.add(Box::new(client));
    }
    /// Adds a client that lives in a region. To nodes of other regions it is as far as that region is.
    pub fn client_in(&mut self, region: RegionId, client: impl Client<P> + Send + 'static) {
        let event_loop = &mut self.regions[usize::from(region.0)];
        event_loop.arrive_at(self.now);
        event_loop.add(Box::new(client));
    }
    /// Runs regions on so many threads from now on, instead of the one that asks. It changes nothing of what happens.
    pub fn threads(&mut self, count: usize)
    where
        P: Send + 'static,
    {
        self.crew = match count {
            0 | 1 => Box::new(Alone),
            _ => Box::new(Threads::new(count)),
        };
    }
    /// What steps cost from now on: loading may be cheaper than what is measured.
    pub fn charge(&mut self, cost: Cost) {
        self.regions.iter_mut().for_each(|region| region.charge(cost));
    }
    /// Something goes wrong at `at`, or now if that has passed, before whatever else happens then.
    pub fn fault_at(&mut self, at: Time, fault: Fault) {
        self.faults_count += 1;
        self.faults.push(at.max(self.now), Order::new(OUTSIDE, self.faults_count), fault);
    }
    /// Lines of the last `count` events are kept, for whoever reads a failure.
    pub fn keep_trace(&mut self, count: usize) {
        self.trace_lines = count;
        self.outside.trace.keep(count);
        self.regions.iter_mut().for_each(|region| region.trace.keep(count));
    }
    /// Takes so many events without an end for no progress; see [`World::run_to_rest`].
    pub fn allow_events(&mut self, events_max: u64) {
        self.events_max = events_max;
    }

    /// True time.
    pub fn now(&self) -> Time {
        self.now
    }
    pub fn topology(&self) -> &Topology {
        &self.topology
    }
    /// The node that lives there; `None` while it is down.
    pub fn node(&self, node: NodeId) -> Option<&P> {
        self.host(node).node.as_ref()
    }
    /// What steps and computations have taken of a machine so far, in ns of one core.
    pub fn used_ns(&self, node: NodeId) -> u64 {
        self.host(node).used_ns
    }
    /// What has arrived at a node and waits for its turn.
    pub fn queue_len(&self, node: NodeId) -> usize {
        self.host(node).inbox.len()
    }
    pub fn counters(&self) -> Counters {
        let mut sum = self.outside.counters.clone();
        self.regions.iter().for_each(|region| sum.add(&region.counters));
        sum
    }
    /// A hash of every event so far, in order by region: equal for equal seeds, on every machine, whoever ran them.
    pub fn trace_hash(&self) -> u64 {
        let mut hash = Trace::new(0);
        hash.word(self.outside.trace.hash());
        self.regions.iter().for_each(|region| hash.word(region.trace.hash()));
        hash.hash()
    }
    /// The last events, oldest first; see [`World::keep_trace`].
    pub fn trace_tail(&self) -> impl Iterator<Item = &str> {
        let regions = self.regions.iter().flat_map(|region| region.trace.tail());
        let mut lines: Vec<(Time, &str)> = self.outside.trace.tail().chain(regions).collect();
        lines.sort_by_key(|(at, _)| *at);
        let first = lines.len().saturating_sub(self.trace_lines);
        lines.into_iter().skip(first).map(|(_, line)| line)
    }
    /// Requests that nobody answered yet, with the node that was asked.
    pub fn unanswered(&self) -> impl Iterator<Item = (RequestId, NodeId)> + '_ {
        let pending = self.regions.iter().flat_map(|region| &region.pending);
        pending.map(|(&id, &(_, node))| (id, node))
    }
    /// True when every client is done.
    pub fn is_done(&self) -> bool {
        self.outside.is_done() && self.regions.iter().all(|region| region.is_done())
    }

    fn host(&self, node: NodeId) -> &Host<P> {
        let (origin, nth) = self.places.of[usize::from(node.0)];
        &self.regions[usize::from(origin) - 1].hosts[nth as usize]
    }
    fn region_mut(&mut self, node: NodeId) -> &mut RegionLoop<P> {
        &mut self.regions[usize::from(self.topology.region_of(node).0)]
    }
}

/// A world that ends in a panic says what happened last, if it was asked to remember.
impl<P: Process> Drop for World<P> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.trace_tail().for_each(|line| eprintln!("{line}"));
        }
    }
}

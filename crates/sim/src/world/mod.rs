//! A world of nodes and clients in virtual time.
//!
//! IN: a topology, a seed, a factory of nodes, clients, fault steps. OUT: what the clients saw, counters,
//! a trace hash. KEEPS: events happen in the order of (time, sequence); nothing depends on anything but
//! the seed; a node's clock never runs backwards and stays within ε of true time; every message passes
//! through the codec, unless [`Wire::Measured`] asks for speed; a request is answered at most once, and never by a node that has crashed since.
//!
//! Reading order: [`queue`], [`clock`], [`network`], [`disk`], [`client`], then the world itself.

pub mod client;
pub mod clock;
pub mod disk;
pub mod network;
pub mod queue;
pub mod trace;

mod run;
mod work;

pub use run::Stuck;

use crate::world::client::{Client, ClientEvent, ClientId};
use crate::world::clock::{Clock, ClockModel};
use crate::world::disk::{Disk, DiskModel};
use crate::world::network::{Links, Network};
use crate::world::queue::Queue;
use crate::world::trace::Trace;
use base::process::{Effects, PersistToken, Process};
use base::rng::Rng;
use base::topology::Topology;
use base::wan::Wan;
use base::{NodeId, RequestId, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

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

/// Builds a node: its id, which life this is (from 0), and what its disk holds.
pub type Factory<P> = Box<dyn FnMut(NodeId, u32, &[Vec<u8>]) -> P>;

/// See the module.
pub struct World<P: Process> {
    now: Time,
    topology: Topology,
    queue: Queue<Happening<P>>,
    nodes: Vec<Host<P>>,
    clients: Vec<Option<Box<dyn Client<P>>>>,
    network: Network,
    disk_rng: Rng,
    disks: DiskModel,
    cost: Cost,
    wire: Wire,
    client_one_way_ns: u64,
    factory: Factory<P>,
    /// Requests without an answer, and who waits.
    pending: BTreeMap<RequestId, (ClientId, NodeId)>,
    /// Requests whose client went away; an answer to one is thrown away.
    vanished: BTreeSet<RequestId>,
    next_request: u64,
    effects: Effects<P>,
    trace: Trace,
    counters: Counters,
    /// Events until all clients are done, at most: nodes that keep each other busy make no progress either.
    events_max: u64,
}

/// A machine: its clock and disk outlive the node that runs on it.
struct Host<P: Process> {
    node: Option<P>,
    life: u32,
    clock: Clock,
    disk: Disk,
    busy_until: Time,
    /// What arrived while the node was busy, first in, first out.
    inbox: VecDeque<Arrival<P>>,
    /// A [`Happening::Free`] is on its way.
    wakes: bool,
    /// What steps and computations have taken of this machine so far, in ns of one core.
    used_ns: u64,
    /// Clients' work, first in, first out; of the first, when it began and `used_ns` then.
    work: VecDeque<Work>,
    work_began: (Time, u64),
}

/// Something that a client has a machine do; see [`client::ClientEffects::work`].
struct Work {
    client: ClientId,
    number: u64,
    /// Of one core.
    left_ns: u64,
}

/// What happens at an instant.
enum Happening<P: Process> {
    Arrive {
        node: NodeId,
        arrival: Arrival<P>,
    },
    /// A busy node becomes free and takes what waits next.
    Free {
        node: NodeId,
    },
    Client {
        client: ClientId,
        event: ClientEvent<P>,
    },
    /// The first work of a machine may be done.
    Worked {
        node: NodeId,
    },
    Fault(Fault),
}

/// What arrives at a node. Things of a former life are thrown away; messages find whoever lives there.
enum Arrival<P: Process> {
    Start { life: u32 },
    Message { from: NodeId, parcel: Parcel<P::Message> },
    Timer { life: u32, at: Time, timer: P::Timer },
    Request { id: RequestId, request: P::Request },
    Vanished { life: u32, id: RequestId },
    Persisted { life: u32, token: PersistToken },
    Computed { life: u32, computed: P::Computed },
}

/// A message on its way; see [`Wire`].
#[derive(Clone)]
enum Parcel<M> {
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
}

impl<P: Process> World<P> {
    /// A world at [`BEGIN`]; every node gets its `Start` first of all.
    pub fn new(setup: Setup, factory: impl FnMut(NodeId, u32, &[Vec<u8>]) -> P + 'static) -> World<P> {
        setup.topology.check();
        let rng = Rng::new(setup.seed);
        let count = setup.topology.nodes.len();
        let hosts = (0..count as u64).map(|n| Host {
            node: None,
            life: 0,
            clock: Clock::new(setup.clocks, setup.topology.clock_bound_ns, rng.fork_nth("clock", n)),
            disk: Disk::default(),
            busy_until: BEGIN,
            inbox: VecDeque::new(),
            wakes: false,
            used_ns: 0,
            work: VecDeque::new(),
            work_began: (BEGIN, 0),
        });
        let mut world = World {
            now: BEGIN,
            queue: Queue::new(),
            nodes: hosts.collect(),
            clients: Vec::new(),
            network: Network::new(&setup.topology, setup.links, rng.fork("network")),
            disk_rng: rng.fork("disk"),
            disks: setup.disks,
            cost: setup.cost,
            wire: setup.wire,
            client_one_way_ns: setup.client_one_way_ns,
            factory: Box::new(factory),
            pending: BTreeMap::new(),
            vanished: BTreeSet::new(),
            next_request: 0,
            effects: Effects::new(),
            trace: Trace::new(setup.seed),
            counters: Counters::default(),
            events_max: u64::MAX,
            topology: setup.topology,
        };
        for node in world.topology.node_ids() {
            world.boot(node);
        }
        world
    }

    /// Adds a client; it gets [`ClientEvent::Start`] now.
    pub fn client(&mut self, client: impl Client<P> + 'static) -> ClientId {
        let id = ClientId(self.clients.len() as u32);
        self.clients.push(Some(Box::new(client)));
        self.queue.push(self.now, Happening::Client { client: id, event: ClientEvent::Start });
        id
    }
    /// What steps cost from now on: loading may be cheaper than what is measured.
    pub fn charge(&mut self, cost: Cost) {
        self.cost = cost;
    }
    /// Something goes wrong at `at`, or now if that has passed.
    pub fn fault_at(&mut self, at: Time, fault: Fault) {
        self.queue.push(at.max(self.now), Happening::Fault(fault));
    }
    /// Lines of the last `count` events are kept, for whoever reads a failure.
    pub fn keep_trace(&mut self, count: usize) {
        self.trace.keep(count);
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
        self.nodes[node.0 as usize].node.as_ref()
    }
    /// What steps and computations have taken of a machine so far, in ns of one core.
    pub fn used_ns(&self, node: NodeId) -> u64 {
        self.nodes[node.0 as usize].used_ns
    }
    /// What has arrived at a node and waits for its turn.
    pub fn queue_len(&self, node: NodeId) -> usize {
        self.nodes[node.0 as usize].inbox.len()
    }
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
    /// A hash of every event so far, in order: equal for equal seeds, on every machine.
    pub fn trace_hash(&self) -> u64 {
        self.trace.hash()
    }
    /// The last events, oldest first; see [`World::keep_trace`].
    pub fn trace_tail(&self) -> impl Iterator<Item = &str> {
        self.trace.tail()
    }
    /// Requests that nobody answered yet, with the node that was asked.
    pub fn unanswered(&self) -> impl Iterator<Item = (RequestId, NodeId)> + '_ {
        self.pending.iter().map(|(&id, &(_, node))| (id, node))
    }
    /// True when every client is done.
    pub fn is_done(&self) -> bool {
        self.clients.iter().flatten().all(|c| c.is_done())
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

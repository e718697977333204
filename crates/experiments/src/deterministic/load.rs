//! Clients in open loops, and what they saw.

use super::scene::kind_of;
use crate::populate::submission;
use base::process::Process;
use base::rng::Rng;
use base::schema::Catalog;
use base::topology::Topology;
use base::txn::procedure::Procedures;
use base::txn::{Outcome, TxnProgram};
use base::{Datum, NodeId, RegionId, RequestId, Time};
use node::request::{Reply, Request};
use sim::world::client::{Client, ClientEffects, ClientEvent};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

/// Where a transaction's data is homed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// In one region.
    Single,
    /// In several that are near each other.
    Close,
    /// In several, some far from others.
    Far,
}

impl Kind {
    pub const ALL: [Kind; 3] = [Kind::Single, Kind::Close, Kind::Far];
    pub fn name(self) -> &'static str {
        match self {
            Kind::Single => "single",
            Kind::Close => "close",
            Kind::Far => "far",
        }
    }
}

/// One transaction of the measured window.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    pub kind: Kind,
    pub asked_at: Time,
    pub latency_ns: u64,
    /// Nominal round trip from its gateway to the farthest region that it touches; 0 if that is the own one.
    pub farthest_ns: u64,
    /// Regions where what it touches is homed, as bits.
    pub regions: u64,
}

/// What nodes did meanwhile, all together unless said otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct Costs {
    pub messages: u64,
    pub bytes: u64,
    /// Entries and submissions sent, and those sent again.
    pub sent: u64,
    pub resent: u64,
    /// Of the busiest node.
    pub used_ns: u64,
    /// Most that waited at a node.
    pub queued: u64,
}

/// What was seen by all clients.
#[derive(Debug, Default)]
pub struct Seen {
    pub done: Vec<Done>,
    /// Answered within the window, whenever they were asked.
    pub throughput: u64,
    /// Asked within the window and not answered when the run was over.
    pub unanswered: u64,
    /// Within the window.
    pub costs: Costs,
    waiting: BTreeMap<RequestId, Done>,
    /// Calls that were answered with a commit, whenever: kept on demand.
    pub committed: Option<Vec<Vec<Datum>>>,
}

impl Seen {
    /// The run is over: whoever has no answer has waited until now.
    pub fn close(&mut self, now: Time) {
        let waiting = std::mem::take(&mut self.waiting);
        self.unanswered = waiting.len() as u64;
        self.done
            .extend(waiting.into_values().map(|done| Done { latency_ns: now.since(done.asked_at), ..done }));
    }
}

/// What clients of one run have in common.
pub struct Shared {
    pub catalog: Arc<Catalog>,
    pub topology: Arc<Topology>,
    pub procedures: Arc<Procedures>,
    pub begin: Time,
    pub until: Time,
    pub seen: RefCell<Seen>,
}

impl Shared {
    pub fn new(
        catalog: Arc<Catalog>,
        topology: Arc<Topology>,
        procedures: Arc<Procedures>,
        begin: Time,
        measured_ns: u64,
    ) -> Shared {
        let seen = RefCell::new(Seen::default());
        Shared { catalog, topology, procedures, begin, until: begin + measured_ns, seen }
    }
}

/// A home's clients together: calls come at random, about `every_ns` apart.
pub struct Clients {
    pub shared: Rc<Shared>,
    pub gateway: NodeId,
    pub calls: Box<dyn FnMut(Time) -> (&'static str, Vec<Datum>)>,
    pub every_ns: u64,
    pub rng: Rng,
    pub waiting: BTreeMap<RequestId, (Done, Vec<Datum>)>,
}

impl<P: Process<Request = Request, Reply = Reply>> Client<P> for Clients {
    fn step(&mut self, now: Time, event: ClientEvent<P>, out: &mut ClientEffects<P>) {
        let shared = self.shared.clone();
        let is_measured = |at: Time| shared.begin <= at && at < shared.until;
        match event {
            ClientEvent::Start => out.wake_at(now + self.rng.below(2 * self.every_ns), 0),
            ClientEvent::Wake(_) if now < shared.until => {
                let (name, args) = (self.calls)(now);
                let procedure = shared.procedures.get(name).expect("a registered procedure");
                let access = procedure.declare(&args, &shared.catalog, &shared.topology);
                let access = access.unwrap_or_else(|e| panic!("{name} cannot be declared: {e}"));
                let regions: BTreeSet<RegionId> =
                    access.by_partition.keys().map(|p| shared.topology.region_of_partition(*p)).collect();
                let here = shared.topology.region_of(self.gateway);
                let away = regions.iter().filter(|region| **region != here);
                let round_trip_ns = |region: &RegionId| shared.topology.wan.round_trip_ns(here, *region);
                let done = Done {
                    kind: kind_of(&shared.topology, regions.iter().copied()),
                    asked_at: now,
                    latency_ns: 0,
                    farthest_ns: away.map(round_trip_ns).max().unwrap_or(0),
                    regions: regions.iter().fold(0, |bits, region| bits | 1 << region.0),
                };
                let program = TxnProgram::Procedure { name: name.into(), args: args.clone() };
                let id = out.ask(self.gateway, Request::Submit(submission(program, access)));
                self.waiting.insert(id, (done, args));
                if is_measured(now) {
                    shared.seen.borrow_mut().waiting.insert(id, done);
                }
                out.wake_at(now + 1 + self.rng.below(2 * self.every_ns), 0);
            }
            ClientEvent::Wake(_) => {}
            ClientEvent::Reply { id, reply: Reply::Submitted(answer) } => {
                let (done, args) = self.waiting.remove(&id).expect("asked before");
                let answer = answer.unwrap_or_else(|e| panic!("a transaction is refused: {e}"));
                if let Outcome::Aborted(error) = &answer.outcome {
                    panic!("nothing here aborts: {error}");
                }
                let mut seen = shared.seen.borrow_mut();
                seen.throughput += u64::from(is_measured(now));
                if seen.waiting.remove(&id).is_some() {
                    seen.done.push(Done { latency_ns: now.since(done.asked_at), ..done });
                }
                if let Some(committed) = &mut seen.committed {
                    committed.push(args);
                }
            }
            // Its region is lost, and its clients with it.
            ClientEvent::Lost { id } => {
                self.waiting.remove(&id);
                shared.seen.borrow_mut().waiting.remove(&id);
                self.every_ns = u64::MAX / 4;
            }
            _ => panic!("an answer to another question"),
        }
    }
    fn is_done(&self) -> bool {
        self.waiting.is_empty()
    }
}

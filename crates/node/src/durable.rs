//! A node that survives: its inputs are a replicated log, and its state is what they add up to.
//!
//! IN: the events of a machine. OUT: its effects. KEEPS: every event that changes the node is an entry of the
//! log, stamped with the leader's clock; every member of the group steps the same entries in the same order;
//! what the node then wants leaves its machine only after the entry was committed, that is stored by a
//! majority of the group. So nothing that anyone was ever told can be forgotten while a majority lives:
//! *persist before every reply* holds by construction, for any engine. A restart is a replay.
//!
//! Three kinds of effects:
//! - **to other nodes**: sent by the leader, for entries of its own term. After a change of leaders some are
//!   sent twice or never, as over any link; protocols live with that.
//! - **replies**: given by the machine that the client asked, when it steps the entry. Any member takes
//!   requests; they travel to the leader and are entered once, however often they are sent.
//! - **timers and computations**: part of the state, by number. The leader enters that a timer is due or
//!   that a computation is done; the result is the same everywhere, so only its number is logged.
//!
//! Messages between nodes name *nodes*; machines find the leader of a node's group: whoever spoke for it
//! last, another member after some silence, and members that do not lead pass messages on.
//!
//! A group of one is a write-ahead log. A node that is not wrapped pays nothing.
//!
//! Stamps: `max(the leader's clock, every stamp before it)`. Each term is within ε of true time from above
//! when it is made, so the maximum is too; and a stamp is taken after its event.

mod apply;
mod clients;
mod groups;
mod routes;

pub use groups::Groups;

use crate::durable::apply::State;
use crate::durable::clients::Clients;
use crate::durable::routes::Routes;
use base::process::{Effects, Event, Process};
use base::rng::Rng;
use base::time::MS;
use base::{NodeId, RequestId, Time, codec};
use consensus::{Corrupt, Member, Outputs, Payload, Term};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A node whose inputs can be logged.
pub trait Replicable: Process<Request: Serialize + DeserializeOwned> {
    /// The clients of these requests are gone, answered or not, with whatever they hold here.
    fn lost(&mut self, now: Time, of: &dyn Fn(RequestId) -> bool, out: &mut Effects<Self>)
    where
        Self: Sized;
}

/// How a durable node behaves; the same at all members of its group.
#[derive(Clone, Debug)]
pub struct Options {
    pub log: consensus::Options,
    /// A request that has not been entered is sent again after this long.
    pub retry_ns: u64,
    /// A group that has not been heard for this long is spoken to through its next member.
    pub patience_ns: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options { log: consensus::Options::default(), retry_ns: 50 * MS, patience_ns: 400 * MS }
    }
}

/// Between machines. `M` is the node's own language.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Message<M> {
    /// Among the members of a group.
    Log(consensus::Message),
    /// From a node to the receiver's. `hops`: how often it was passed on.
    Node { from: NodeId, hops: u8, message: M },
    /// A member's client wants this; sent again until it is entered.
    Client(ClientItem),
    /// The sender leads this node's group.
    Leads { node: NodeId },
}

/// What a member's clients do, numbered by the member in each of its lives.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClientItem {
    pub member: NodeId,
    pub life: u32,
    pub sequence: u64,
    /// The member has stepped everything before this number.
    pub settled: u64,
    pub act: ClientAct,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ClientAct {
    /// A life begins: clients of earlier ones are gone.
    Hello,
    /// An encoded request.
    Request(Payload),
    /// The client of this request went away.
    Vanished(RequestId),
}

/// What the log consists of. Encoded with its stamp.
#[derive(Debug, Serialize, Deserialize)]
enum Input<M> {
    /// First of all.
    Start,
    Message {
        from: NodeId,
        message: M,
    },
    /// The timer of this number is due.
    Timer(u64),
    /// The computation of this number is done.
    Computed(u64),
    Client(ClientItem),
}

/// The machine's only timer: something may be due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake;

/// See the module.
pub struct Durable<P: Replicable> {
    machine: NodeId,
    node: NodeId,
    log: Member,
    state: State<P>,
    clients: Clients,
    routes: Routes,
    /// Greatest stamp given or seen.
    stamped: Time,
    /// The term in which this member last was ready to enter events.
    ready_in: Option<Term>,
    armed: Option<Time>,
    outputs: Outputs,
    effects: Effects<P>,
}

impl<P: Replicable> Durable<P> {
    /// A machine's node, from what its disk holds. `node` must be as it was made in its first life: the
    /// log leads it to where it was. Errors if the records are not this machine's log.
    pub fn new(
        machine: NodeId,
        groups: Arc<Groups>,
        options: Options,
        rng: Rng,
        records: &[Vec<u8>],
        node: P,
    ) -> Result<Durable<P>, Corrupt> {
        let name = groups.node_of(machine);
        let log = Member::new(machine, groups.members(name), options.log, rng, records)?;
        Ok(Durable {
            machine,
            node: name,
            clients: Clients::new(machine, log.life(), options.retry_ns),
            routes: Routes::new(name, groups, options.patience_ns),
            log,
            state: State::new(node),
            stamped: Time::ZERO,
            ready_in: None,
            armed: None,
            outputs: Outputs::default(),
            effects: Effects::new(),
        })
    }

    /// The node as of the last entry stepped here.
    pub fn inner(&self) -> &P {
        &self.state.node
    }
    pub fn log(&self) -> &Member {
        &self.log
    }
    /// Entries stepped here so far.
    pub fn steps(&self) -> u64 {
        self.state.steps
    }
    /// True when this member leads and has stepped everything that was ever answered.
    pub fn is_ready(&self) -> bool {
        self.log.is_ready() && !self.state.is_stalled()
    }

    /// Enters an event. Only a ready leader does: its stamps are above all others.
    fn enter(&mut self, now: Time, input: &Input<P::Message>) {
        self.stamped = self.stamped.max(now);
        let entry = Payload::new(codec::encode(&(self.stamped, input)));
        let proposed = self.log.propose(now, entry, &mut self.outputs);
        proposed.expect("only a leader enters events");
    }

    fn client(&mut self, now: Time, act: ClientAct, of: Option<RequestId>, out: &mut Effects<Self>) {
        let item = self.clients.add(now, act, of);
        self.forward(now, item, out);
    }

    /// Brings a client's item to the leader, if there is one; otherwise it is tried again. Before this life is
    /// stored nothing leaves: the next life would give its numbers once more.
    fn forward(&mut self, now: Time, item: ClientItem, out: &mut Effects<Self>) {
        if !self.log.is_born() {
            return;
        }
        if self.is_ready() {
            if self.clients.enters(self.log.term(), &item) {
                self.enter(now, &Input::Client(item));
            }
        } else if let Some(leader) = self.log.leader().filter(|l| *l != self.machine) {
            out.send(leader, Message::Client(item));
        }
    }

    /// Carries out what the log wants and steps what it has committed, until nothing is left to do.
    fn pump(&mut self, now: Time, out: &mut Effects<Self>) {
        loop {
            for (to, message) in self.outputs.messages.drain(..) {
                out.send(to, Message::Log(message));
            }
            if let Some((token, record)) = self.outputs.persist.take() {
                out.persist(token, record);
            }
            assert!(self.outputs.replace.is_none(), "nodes take no checkpoints");
            self.apply_committed(now, out);
            let begins = self.is_ready() && self.ready_in != Some(self.log.term());
            if begins {
                self.begin_to_lead(now, out);
            }
            let is_due = self.is_ready() && self.enter_due(now);
            if !begins && !is_due && self.outputs.messages.is_empty() && self.outputs.persist.is_none() {
                break;
            }
        }
        self.log.release();
        self.arm(now, out);
    }

    fn begin_to_lead(&mut self, now: Time, out: &mut Effects<Self>) {
        self.ready_in = Some(self.log.term());
        self.state.timers.nothing_entered();
        if !self.state.started {
            self.enter(now, &Input::Start);
        }
        for number in self.state.begin_computations(out) {
            self.enter(now, &Input::Computed(number));
        }
        for item in self.clients.all(now) {
            self.forward(now, item, out);
        }
        self.routes.announce(out);
    }

    fn enter_due(&mut self, now: Time) -> bool {
        let due = self.state.timers.due(now);
        due.iter().for_each(|number| self.enter(now, &Input::Timer(*number)));
        !due.is_empty()
    }

    fn arm(&mut self, now: Time, out: &mut Effects<Self>) {
        let mut next = self.log.wake_at().min(self.clients.retry_at());
        if self.is_ready() {
            next = next.min(self.state.timers.next());
        }
        if next < Time::MAX && self.armed.is_none_or(|armed| next < armed) {
            let at = next.max(now);
            self.armed = Some(at);
            out.timer(Wake, at);
        }
    }
}

impl<P: Replicable> Process for Durable<P> {
    type Message = Message<P::Message>;
    type Timer = Wake;
    type Request = P::Request;
    type Reply = P::Reply;
    /// With the computation's number.
    type Computed = (u64, P::Computed);

    fn step(&mut self, now: Time, event: Event<Self>, out: &mut Effects<Self>) {
        match event {
            Event::Start => {
                self.log.start(now, &mut self.outputs);
                self.client(now, ClientAct::Hello, None, out);
            }
            Event::Message { from, message: Message::Log(message) } => {
                self.log.message(now, from, message, &mut self.outputs);
            }
            Event::Message { from: machine, message: Message::Node { from, hops, message } } => {
                if !self.routes.may_say(machine, from) {
                    return;
                }
                self.routes.heard(machine, from);
                if self.is_ready() {
                    self.enter(now, &Input::Message { from, message });
                } else if let Some(leader) = self.log.leader().filter(|l| *l != self.machine && hops < 2) {
                    out.send(leader, Message::Node { from, hops: hops + 1, message });
                }
            }
            Event::Message { message: Message::Client(item), .. } => {
                if self.is_ready() && self.clients.enters(self.log.term(), &item) {
                    self.enter(now, &Input::Client(item));
                }
            }
            Event::Message { from, message: Message::Leads { node } } => self.routes.heard(from, node),
            Event::Timer(Wake) => {
                self.armed = self.armed.filter(|armed| now < *armed);
                self.log.wake(now, &mut self.outputs);
                for item in self.clients.due(now) {
                    self.forward(now, item, out);
                }
            }
            Event::Request { id, request } => {
                let request = Payload::new(codec::encode(&request));
                self.client(now, ClientAct::Request(request), Some(id), out);
            }
            Event::Vanished { id } => {
                if let Some(entered) = self.clients.vanished(id) {
                    self.client(now, ClientAct::Vanished(entered), None, out);
                }
            }
            Event::Persisted(token) => {
                let was_born = self.log.is_born();
                self.log.persisted(now, token, &mut self.outputs);
                if !was_born {
                    self.clients.all(now).into_iter().for_each(|item| self.forward(now, item, out));
                }
            }
            Event::Stable { .. } => {}
            Event::Computed((number, computed)) => {
                let is_news = self.state.computed(number, computed);
                if is_news && self.is_ready() {
                    self.enter(now, &Input::Computed(number));
                }
            }
        }
        self.pump(now, out);
    }
}

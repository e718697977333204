//! Stepping committed entries.
//!
//! KEEPS: what is here is a function of the entries stepped so far, whichever machine steps them; an item
//! of a client is stepped once.

use super::clients::Stepped;
use super::{ClientAct, ClientItem, Durable, Input, Message, Replicable};
use base::process::{Computation, Effect, Effects, Event, PersistToken, Process};
use base::{NodeId, RequestId, Time, codec};
use consensus::{Payload, Position};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Bits of an entered request's id that name the member.
const MEMBER_BITS: u32 = 16;

/// The node and what surrounds it, as of the last entry stepped.
pub(super) struct State<P: Replicable> {
    pub node: P,
    pub started: bool,
    pub steps: u64,
    /// The node's clock: the greatest stamp stepped.
    now: Time,
    pub timers: Timers<P::Timer>,
    computations: BTreeMap<u64, Computing<P>>,
    next_computation: u64,
    book: BTreeMap<NodeId, Book>,
    /// Committed, but it says that a computation is done which is still running here.
    stalled: Option<(Position, Payload)>,
}

/// A long computation of the node.
enum Computing<P: Process> {
    /// Nobody works on it here: another member leads.
    Idle(Computation<P>),
    Running,
    /// Done here; the entry that says so is not stepped yet.
    Done(P::Computed),
}

/// A member's client items that were stepped.
#[derive(Debug, Default)]
pub(super) struct Book {
    life: u32,
    /// Everything before it was stepped.
    settled: u64,
    stepped: BTreeSet<u64>,
}

impl Book {
    /// A member has begun another life; answers whether this is news. Its items may come in any order.
    fn begins(&mut self, life: u32) -> bool {
        let begins = self.life < life;
        if begins {
            *self = Book { life, ..Book::default() };
        }
        begins
    }
    /// True the first time.
    fn is_new(&mut self, item: &ClientItem) -> bool {
        if item.life < self.life {
            return false;
        }
        self.settled = self.settled.max(item.settled);
        self.stepped = self.stepped.split_off(&self.settled);
        self.settled <= item.sequence && self.stepped.insert(item.sequence)
    }
}

/// Timers that the node has set.
pub(super) struct Timers<T> {
    next: u64,
    at: BTreeMap<u64, Time>,
    by_time: BTreeMap<(Time, u64), T>,
    /// As leader: entered as due, not stepped yet.
    entered: BTreeSet<u64>,
}

impl<T: Clone> Timers<T> {
    fn new() -> Timers<T> {
        Timers { next: 0, at: BTreeMap::new(), by_time: BTreeMap::new(), entered: BTreeSet::new() }
    }
    fn set(&mut self, at: Time, timer: T) {
        self.next += 1;
        self.at.insert(self.next, at);
        self.by_time.insert((at, self.next), timer);
    }
    fn take(&mut self, number: u64) -> Option<T> {
        self.entered.remove(&number);
        let at = self.at.remove(&number)?;
        self.by_time.remove(&(at, number))
    }
    /// Numbers of timers to enter now.
    pub fn due(&mut self, now: Time) -> Vec<u64> {
        let due = self.by_time.range(..=(now, u64::MAX)).map(|(&(_, number), _)| number);
        let due: Vec<u64> = due.filter(|number| !self.entered.contains(number)).collect();
        self.entered.extend(&due);
        due
    }
    /// When the next timer has to be entered.
    pub fn next(&self) -> Time {
        let mut waiting = self.by_time.keys().filter(|(_, number)| !self.entered.contains(number));
        waiting.next().map_or(Time::MAX, |(at, _)| *at)
    }
    /// What another leader entered may never be stepped.
    pub fn nothing_entered(&mut self) {
        self.entered.clear();
    }
}

impl<P: Replicable> State<P> {
    pub fn new(node: P) -> State<P> {
        State {
            node,
            started: false,
            steps: 0,
            now: Time::ZERO,
            timers: Timers::new(),
            computations: BTreeMap::new(),
            next_computation: 0,
            book: BTreeMap::new(),
            stalled: None,
        }
    }

    pub fn is_stalled(&self) -> bool {
        self.stalled.is_some()
    }

    /// Starts what nobody works on here; answers the numbers of what is done already.
    pub fn begin_computations(&mut self, out: &mut Effects<Durable<P>>) -> Vec<u64> {
        let mut done = Vec::new();
        for (&number, computing) in &mut self.computations {
            match std::mem::replace(computing, Computing::Running) {
                Computing::Idle(work) => out.compute(move || (number, work())),
                Computing::Running => {}
                Computing::Done(computed) => {
                    *computing = Computing::Done(computed);
                    done.push(number);
                }
            }
        }
        done
    }

    /// A computation was done here. False if the log has gone past it.
    pub fn computed(&mut self, number: u64, computed: P::Computed) -> bool {
        match self.computations.get_mut(&number) {
            Some(computing) => {
                *computing = Computing::Done(computed);
                self.stalled.is_none()
            }
            None => false,
        }
    }
}

impl<P: Replicable> Durable<P> {
    /// Steps what is committed.
    pub(super) fn apply_committed(&mut self, now: Time, out: &mut Effects<Self>) {
        loop {
            let next = self.state.stalled.take().or_else(|| self.log.next_committed());
            let Some((position, payload)) = next else { return };
            let (stamp, input): (Time, Input<P::Message>) = codec::decode(payload.bytes())
                .unwrap_or_else(|e| panic!("entry {position:?} of {} cannot be read: {e}", self.node));
            if let Input::Computed(number) = input
                && matches!(self.state.computations.get(&number), Some(Computing::Running))
            {
                base::sometimes!("the log waits for a computation of this machine");
                self.state.stalled = Some((position, payload));
                return;
            }
            self.stamped = self.stamped.max(stamp);
            self.state.now = self.state.now.max(stamp);
            self.state.steps += 1;
            // Whoever led before has sent what was to be sent, or it is lost as messages are.
            let speaks = self.log.is_leader() && position.term == self.log.term();
            self.apply(now, position, input, speaks, out);
        }
    }

    fn apply(
        &mut self,
        now: Time,
        position: Position,
        input: Input<P::Message>,
        speaks: bool,
        out: &mut Effects<Self>,
    ) {
        let event = match input {
            Input::Start if self.state.started => return,
            Input::Start => {
                self.state.started = true;
                Event::Start
            }
            Input::Message { from, message } => Event::Message { from, message },
            Input::Timer(number) => match self.state.timers.take(number) {
                Some(timer) => Event::Timer(timer),
                None => return,
            },
            Input::Computed(number) => match self.state.computations.remove(&number) {
                Some(Computing::Done(computed)) => Event::Computed(computed),
                Some(Computing::Idle(work)) => Event::Computed(work()),
                Some(Computing::Running) => unreachable!("such an entry waits"),
                None => return,
            },
            Input::Client(item) => match self.client_item(now, position, item, speaks, out) {
                Some(event) => event,
                None => return,
            },
        };
        self.step_node(now, event, speaks, out);
    }

    fn client_item(
        &mut self,
        now: Time,
        position: Position,
        item: ClientItem,
        speaks: bool,
        out: &mut Effects<Self>,
    ) -> Option<Event<P>> {
        let entered = RequestId(position.index.0 << MEMBER_BITS | u64::from(item.member.0));
        let book = self.state.book.entry(item.member).or_default();
        let (begins, is_new) = (book.begins(item.life), book.is_new(&item));
        let stepped = self.clients.stepped(&item, entered);
        if begins {
            let member = u64::from(item.member.0);
            let of = |id: RequestId| id.0 % (1 << MEMBER_BITS) == member && id.0 < entered.0;
            let mut effects = std::mem::take(&mut self.effects);
            self.state.node.lost(self.state.now, &of, &mut effects);
            self.carry_out(now, effects, speaks, out);
        }
        if !is_new {
            return None;
        }
        match item.act {
            ClientAct::Hello => None,
            ClientAct::Vanished(id) => Some(Event::Vanished { id }),
            ClientAct::Request(bytes) => {
                if stepped == Stepped::Abandoned {
                    self.client(now, ClientAct::Vanished(entered), None, out);
                }
                let request = codec::decode(bytes.bytes())
                    .unwrap_or_else(|e| panic!("a request of {} cannot be read: {e}", item.member));
                Some(Event::Request { id: entered, request })
            }
        }
    }

    fn step_node(&mut self, now: Time, event: Event<P>, speaks: bool, out: &mut Effects<Self>) {
        let mut effects = std::mem::take(&mut self.effects);
        self.state.node.step(self.state.now, event, &mut effects);
        self.carry_out(now, effects, speaks, out);
    }

    /// What the node wants; messages to itself are part of the same entry, so that none is ever lost.
    fn carry_out(&mut self, now: Time, mut effects: Effects<P>, speaks: bool, out: &mut Effects<Self>) {
        let mut own: VecDeque<Event<P>> = VecDeque::new();
        loop {
            for effect in effects.drain() {
                match effect {
                    Effect::Send { to, message } if to == self.node => {
                        own.push_back(Event::Message { from: self.node, message });
                    }
                    // What a log of inputs replays must not depend on when somebody looked.
                    Effect::Send { to, message } | Effect::Load { of: to, message } => {
                        if speaks {
                            let machine = self.routes.to(now, to);
                            out.send(machine, Message::Node { from: self.node, hops: 0, message });
                        }
                    }
                    Effect::SendAll { mut to, message } => {
                        if to.contains(&self.node) {
                            own.push_back(Event::Message { from: self.node, message: message.clone() });
                            to.retain(|to| *to != self.node);
                        }
                        if speaks {
                            let machines = to.into_iter().map(|to| self.routes.to(now, to)).collect();
                            out.send_all(machines, Message::Node { from: self.node, hops: 0, message });
                        }
                    }
                    Effect::Timer { at, timer } => self.state.timers.set(at, timer),
                    // Elsewhere it would be an entry of its own, to be written and synced.
                    Effect::GiveWay { timer } => own.push_back(Event::Timer(timer)),
                    Effect::Reply { id, reply } => {
                        if let Some(id) = self.clients.answered(id) {
                            out.reply(id, reply);
                        }
                    }
                    Effect::Record(_) => unreachable!("a node whose inputs are logged records nothing"),
                    // Stored already: as the entry it follows from.
                    Effect::Persist { token: PersistToken(n), .. } => {
                        own.push_back(Event::Persisted(PersistToken(n)));
                    }
                    Effect::Compute(work) => {
                        self.state.next_computation += 1;
                        let number = self.state.next_computation;
                        let computing = if speaks {
                            out.compute(move || (number, work()));
                            Computing::Running
                        } else {
                            Computing::Idle(work)
                        };
                        self.state.computations.insert(number, computing);
                    }
                }
            }
            let Some(event) = own.pop_front() else { break };
            self.state.node.step(self.state.now, event, &mut effects);
        }
        self.effects = effects;
    }
}

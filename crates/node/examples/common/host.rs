//! A host with a virtual clock for one node: its timers, and what it wants of the world.
//!
//! IN: events, the passing of time. OUT: messages, replies and computations, in order, for whoever drives it.

use base::process::{Computation, Effect, Effects, Event, Process};
use base::{NodeId, RequestId, Time};
use node::{Node, Reply, Request};
use std::collections::BTreeMap;
use txn::engine::Engine;

/// A message and whom it goes to.
pub type Sent<E> = (Vec<NodeId>, <Node<E> as Process>::Message);

/// One node and its time.
pub struct Host<E: Engine> {
    pub node: Node<E>,
    pub now: Time,
    pub sent: Vec<Sent<E>>,
    pub replies: Vec<(RequestId, Reply)>,
    /// Background work, not done yet.
    pub work: Vec<Computation<Node<E>>>,
    timers: BTreeMap<(Time, u64), <Node<E> as Process>::Timer>,
    timer_count: u64,
    requests: u64,
    effects: Effects<Node<E>>,
}

impl<E: Engine> Host<E> {
    /// A node begins.
    pub fn new(node: Node<E>, now: Time) -> Host<E> {
        let mut host = Host {
            node,
            now,
            sent: Vec::new(),
            replies: Vec::new(),
            work: Vec::new(),
            timers: BTreeMap::new(),
            timer_count: 0,
            requests: 0,
            effects: Effects::new(),
        };
        host.step(Event::Start);
        host
    }

    pub fn step(&mut self, event: Event<Node<E>>) {
        self.node.step(self.now, event, &mut self.effects);
        for effect in self.effects.drain() {
            let (at, timer) = match effect {
                Effect::Timer { at, timer } => (at, timer),
                Effect::GiveWay { timer } => (self.now, timer),
                Effect::Send { to, message } | Effect::Load { of: to, message } => {
                    self.sent.push((vec![to], message));
                    continue;
                }
                Effect::SendAll { to, message } => {
                    self.sent.push((to, message));
                    continue;
                }
                Effect::Reply { id, reply } => {
                    self.replies.push((id, reply));
                    continue;
                }
                Effect::Compute(work) => {
                    self.work.push(work);
                    continue;
                }
                Effect::Persist { .. } | Effect::Record(_) => unreachable!("nothing is persistent here"),
            };
            self.timer_count += 1;
            self.timers.insert((at, self.timer_count), timer);
        }
    }

    pub fn request(&mut self, request: Request) -> RequestId {
        self.requests += 1;
        let id = RequestId(self.requests);
        self.step(Event::Request { id, request });
        id
    }

    /// When the next timer is due.
    pub fn next_timer(&self) -> Option<Time> {
        self.timers.first_key_value().map(|((at, _), _)| *at)
    }
    /// Steps the next timer.
    pub fn step_timer(&mut self) {
        let Some(((at, _), timer)) = self.timers.pop_first() else { return };
        self.now = self.now.max(at);
        self.step(Event::Timer(timer));
    }
    /// Time passes; background work is done by `compute` as soon as there is some.
    pub fn pass(&mut self, until: Time, mut compute: impl FnMut(&mut Host<E>)) {
        while self.next_timer().is_some_and(|at| at <= until) {
            self.step_timer();
            compute(self);
        }
        self.now = until;
    }
    /// Does the background work that there is.
    pub fn compute(&mut self) {
        while let Some(work) = self.work.pop() {
            let computed = work();
            self.step(Event::Computed(computed));
        }
    }
}

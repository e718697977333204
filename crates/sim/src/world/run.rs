//! The world's loop: takes the next event, hands it to whom it concerns, carries out what they want.

use super::client::{ClientEffects, ClientEvent, ClientId};
use super::network::Distance;
use super::{Arrival, Fault, Happening, Parcel, Traffic, Wire, World};
use base::process::{Effect, Effects, Event, Process};
use base::{NodeId, RequestId, Time, codec};
use std::sync::Arc;

/// Why a world did not come to rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    pub at: Time,
    pub unanswered: Vec<(RequestId, NodeId)>,
}

impl std::fmt::Display for Stuck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no progress by {:?}: unanswered", self.at)?;
        self.unanswered.iter().take(10).try_for_each(|(id, node)| write!(f, " {id} at {node}"))
    }
}

impl<P: Process> World<P> {
    /// Takes the next event; false if there is none.
    pub fn step(&mut self) -> bool {
        let Some((at, happening)) = self.queue.pop() else { return false };
        assert!(self.now <= at, "time runs forward");
        self.now = at;
        match happening {
            Happening::Arrive { node, arrival } => self.arrive(node, arrival),
            Happening::Free { node } => self.free(node),
            Happening::Client { client, event } => self.step_client(client, event),
            Happening::Worked { node } => self.worked(node),
            Happening::Fault(fault) => self.apply(fault),
        }
        true
    }
    /// Runs until true time `at`.
    pub fn run_until(&mut self, at: Time) {
        while self.queue.next_at().is_some_and(|next| next <= at) {
            self.step();
        }
        self.now = self.now.max(at);
    }
    /// Runs until every client is done; an error if they are not by `limit`.
    pub fn run_to_rest(&mut self, limit: Time) -> Result<(), Stuck> {
        let mut events = 0;
        while !self.is_done() {
            events += 64;
            // Looking at every client after every event would cost more than the events.
            for _ in 0..64 {
                if events > self.events_max || self.queue.next_at().is_none_or(|next| next > limit) {
                    return if self.is_done() { Ok(()) } else { Err(self.stuck()) };
                }
                self.step();
            }
        }
        Ok(())
    }
    fn stuck(&self) -> Stuck {
        Stuck { at: self.now, unanswered: self.unanswered().collect() }
    }

    pub(super) fn boot(&mut self, node: NodeId) {
        let host = &mut self.nodes[node.0 as usize];
        assert!(host.node.is_none(), "{node} is up");
        host.node = Some((self.factory)(node, host.life, &host.disk.records()));
        host.busy_until = self.now;
        let life = host.life;
        // At once and directly: nothing may come before it.
        self.arrive(node, Arrival::Start { life });
    }
    fn crash(&mut self, node: NodeId) {
        let host = &mut self.nodes[node.0 as usize];
        if host.node.take().is_none() {
            return;
        }
        self.counters.crashes += 1;
        host.life += 1;
        host.inbox.clear();
        host.disk.crash(&mut self.disk_rng);
        host.disk.free_at = self.now;
        let lost: Vec<RequestId> =
            self.pending.iter().filter(|(_, (_, at))| *at == node).map(|(&id, _)| id).collect();
        lost.into_iter().for_each(|id| self.lose_request(id));
    }
    fn lose_request(&mut self, id: RequestId) {
        let Some((client, _)) = self.pending.remove(&id) else { return };
        self.counters.requests_lost += 1;
        let at = self.now + self.client_one_way_ns;
        self.queue.push(at, Happening::Client { client, event: ClientEvent::Lost { id } });
    }

    fn apply(&mut self, fault: Fault) {
        self.trace.word(0x666);
        let now = self.now;
        self.trace.line(|| format!("{now:?} fault {fault:?}"));
        match fault {
            Fault::Separate(apart) => {
                for a in self.topology.node_ids() {
                    for b in self.topology.node_ids() {
                        if apart.contains(&a) != apart.contains(&b) {
                            self.network.set_cut(a, b, true);
                        }
                    }
                }
            }
            Fault::CutOneWay { from, to } => self.network.set_cut(from, to, true),
            Fault::Reconnect => self.network.reconnect(),
            Fault::Crash(node) => self.crash(node),
            Fault::Restart(node) => {
                if self.nodes[node.0 as usize].node.is_none() {
                    self.boot(node);
                }
            }
            Fault::Links(links) => self.network.set_links(links),
            Fault::Distances(wan) => {
                let mut topology = self.topology.clone();
                topology.wan = wan;
                self.network.set_distances(&topology);
            }
            Fault::Stray { node, ns_per_ms } => self.nodes[node.0 as usize].clock.stray(self.now, ns_per_ms),
            Fault::Mend(node) => self.nodes[node.0 as usize].clock.mend(self.now),
        }
    }

    fn arrive(&mut self, node: NodeId, arrival: Arrival<P>) {
        let host = &mut self.nodes[node.0 as usize];
        if host.inbox.is_empty() && host.busy_until <= self.now {
            return self.take(node, arrival);
        }
        host.inbox.push_back(arrival);
        if !host.wakes {
            host.wakes = true;
            self.queue.push(host.busy_until.max(self.now), Happening::Free { node });
        }
    }
    fn free(&mut self, node: NodeId) {
        let host = &mut self.nodes[node.0 as usize];
        host.wakes = false;
        let Some(arrival) = host.inbox.pop_front() else { return };
        self.take(node, arrival);
        let host = &mut self.nodes[node.0 as usize];
        if !host.inbox.is_empty() && !host.wakes {
            host.wakes = true;
            self.queue.push(host.busy_until.max(self.now), Happening::Free { node });
        }
    }

    /// The node takes what arrived, unless that was meant for a former life.
    fn take(&mut self, node: NodeId, arrival: Arrival<P>) {
        let now = self.now;
        let host = &mut self.nodes[node.0 as usize];
        let life = host.life;
        if host.node.is_none() {
            match arrival {
                Arrival::Message { from, .. } => self.traffic(from, node).lost += 1,
                Arrival::Request { id, .. } => self.lose_request(id),
                _ => {}
            }
            return;
        }
        let local = host.clock.read(now);
        let (mut bytes_in, tag) = (0, (now.0, u64::from(node.0)));
        let event: Event<P> = match arrival {
            Arrival::Start { life: of } | Arrival::Vanished { life: of, .. } if of != life => return,
            Arrival::Timer { life: of, .. } | Arrival::Persisted { life: of, .. } if of != life => return,
            Arrival::Computed { life: of, .. } if of != life => return,
            Arrival::Start { .. } => {
                self.trace_event(tag, 1, u64::from(life));
                Event::Start
            }
            Arrival::Message { from, parcel } => {
                if self.network.is_cut(from, node) {
                    self.traffic(from, node).lost += 1;
                    return;
                }
                self.trace_event(tag, 2, u64::from(from.0));
                let message = match parcel {
                    Parcel::Bytes(bytes) => {
                        self.trace.bytes(&bytes);
                        bytes_in = bytes.len() as u64;
                        codec::decode(&bytes)
                            .unwrap_or_else(|e| panic!("a message from {from} to {node} cannot be read: {e}"))
                    }
                    Parcel::Measured { message, length } => {
                        self.trace.word(length);
                        bytes_in = length;
                        message
                    }
                };
                Event::Message { from, message }
            }
            Arrival::Timer { at, timer, .. } => {
                if local < at {
                    // The clock ran slower than it did when the timer was set.
                    let due = now + (at.0 - local.0);
                    self.queue
                        .push(due, Happening::Arrive { node, arrival: Arrival::Timer { life, at, timer } });
                    return;
                }
                self.trace_event(tag, 3, at.0);
                Event::Timer(timer)
            }
            Arrival::Request { id, request } => {
                if !self.pending.contains_key(&id) {
                    return;
                }
                self.trace_event(tag, 4, id.0);
                Event::Request { id, request }
            }
            Arrival::Vanished { id, .. } => {
                self.trace_event(tag, 5, id.0);
                Event::Vanished { id }
            }
            Arrival::Persisted { token, .. } => {
                host.disk.synced(token);
                self.counters.records_persisted += 1;
                self.trace_event(tag, 6, token.0);
                Event::Persisted(token)
            }
            Arrival::Computed { computed, .. } => {
                self.trace_event(tag, 11, 0);
                Event::Computed(computed)
            }
        };
        self.trace.line(|| {
            let what = match &event {
                Event::Start => format!("starts, life {life}"),
                Event::Message { from, message } => format!("hears {from}: {message:?}"),
                Event::Timer(timer) => format!("timer {timer:?}"),
                Event::Request { id, .. } => format!("is asked {id}"),
                Event::Vanished { id } => format!("loses the client of {id}"),
                Event::Persisted(token) => format!("has stored {}", token.0),
                Event::Computed(_) => "has computed".into(),
            };
            format!("{now:?} {node} (clock {local:?}) {what}")
        });
        self.counters.steps += 1;
        let mut effects = std::mem::replace(&mut self.effects, Effects::new());
        let host = &mut self.nodes[node.0 as usize];
        host.node.as_mut().expect("looked up above").step(local, event, &mut effects);
        let mut done = now + self.cost.event_ns + self.cost.kilobyte_ns * bytes_in / 1024;
        for effect in effects.drain() {
            done = self.carry_out(node, local, done, effect);
        }
        self.effects = effects;
        let host = &mut self.nodes[node.0 as usize];
        host.busy_until = done;
        host.used_ns += done.since(now);
    }

    fn trace_event(&mut self, (at, node): (u64, u64), kind: u64, detail: u64) {
        self.trace.word(at);
        self.trace.word(kind << 32 | node);
        self.trace.word(detail);
    }

    /// Answers when the node is done with it.
    fn carry_out(&mut self, node: NodeId, local: Time, done: Time, effect: Effect<P>) -> Time {
        match effect {
            Effect::Send { to, message } => return self.send(node, done, &[to], message),
            Effect::SendAll { to, message } => return self.send(node, done, &to, message),
            Effect::Timer { at, timer } => {
                let due = (self.now + at.since(local)).max(done);
                let life = self.nodes[node.0 as usize].life;
                self.queue.push(due, Happening::Arrive { node, arrival: Arrival::Timer { life, at, timer } });
            }
            Effect::GiveWay { timer } => {
                let life = self.nodes[node.0 as usize].life;
                let arrival = Arrival::Timer { life, at: local, timer };
                self.queue.push(done, Happening::Arrive { node, arrival });
            }
            Effect::Reply { id, reply } => {
                let Some((client, at)) = self.pending.remove(&id) else {
                    assert!(self.vanished.remove(&id), "{node} answers {id}, which awaits no answer");
                    return done;
                };
                assert_eq!(at, node, "{node} answers {id}, which was asked of {at}");
                self.counters.replies += 1;
                let event = ClientEvent::Reply { id, reply };
                self.queue.push(done + self.client_one_way_ns, Happening::Client { client, event });
            }
            Effect::Compute(work) => {
                let host = &mut self.nodes[node.0 as usize];
                host.used_ns += self.cost.computation_ns;
                let life = host.life;
                let at = done + self.cost.computation_ns;
                let arrival = Arrival::Computed { life, computed: work() };
                self.queue.push(at, Happening::Arrive { node, arrival });
            }
            Effect::Persist { token, record } => {
                let sync_ns = self.disks.draw_ns(&mut self.disk_rng);
                let host = &mut self.nodes[node.0 as usize];
                let at = done.max(host.disk.free_at) + sync_ns;
                host.disk.free_at = at;
                host.disk.write(token, record);
                let arrival = Arrival::Persisted { life: host.life, token };
                self.queue.push(at, Happening::Arrive { node, arrival });
            }
        }
        done
    }

    /// A message leaves for each of these nodes, encoded once; answers when all have left.
    fn send(&mut self, node: NodeId, mut done: Time, to: &[NodeId], message: P::Message) -> Time {
        let (parcel, length) = match self.wire {
            Wire::Encoded => {
                let bytes: Arc<[u8]> = codec::encode(&message).into();
                let length = bytes.len() as u64;
                (Parcel::Bytes(bytes), length)
            }
            Wire::Measured => {
                let length = codec::encoded_len(&message) as u64;
                (Parcel::Measured { message, length }, length)
            }
        };
        done = done + self.cost.encode_kilobyte_ns * length / 1024;
        for &to in to {
            done = done + self.cost.send_ns + self.cost.send_kilobyte_ns * length / 1024;
            let fate = self.network.send(done, node, to);
            let traffic = self.traffic(node, to);
            traffic.sent += 1;
            traffic.bytes += length;
            traffic.lost += u64::from(fate.arrives.is_none());
            traffic.duplicated += u64::from(fate.again.is_some());
            for at in fate.again.into_iter().chain(fate.arrives) {
                let arrival = Arrival::Message { from: node, parcel: parcel.clone() };
                self.queue.push(at, Happening::Arrive { node: to, arrival });
            }
        }
        done
    }

    fn step_client(&mut self, id: ClientId, event: ClientEvent<P>) {
        let (now, nth) = (self.now, id.0 as usize);
        let (kind, detail) = match &event {
            ClientEvent::Start => (7, 0),
            ClientEvent::Wake(number) => (8, *number),
            ClientEvent::Reply { id, .. } => (9, id.0),
            ClientEvent::Lost { id } => (10, id.0),
        };
        self.trace_event((now.0, u64::from(id.0)), kind, detail);
        let mut client = self.clients[nth].take().expect("a client does not run inside itself");
        let mut effects = ClientEffects::new(self.next_request);
        client.step(now, event, &mut effects);
        self.clients[nth] = Some(client);
        self.next_request = effects.next_request;
        for (request_id, node, request) in effects.asks {
            self.counters.requests += 1;
            self.pending.insert(request_id, (id, node));
            let arrival = Arrival::Request { id: request_id, request };
            self.queue.push(now + self.client_one_way_ns, Happening::Arrive { node, arrival });
        }
        for (node, cpu_ns, number) in effects.work {
            self.begin_work(node, id, cpu_ns, number);
        }
        for (at, number) in effects.wakes {
            let event = ClientEvent::Wake(number);
            self.queue.push(at.max(now), Happening::Client { client: id, event });
        }
        for request_id in effects.vanished {
            if let Some((_, node)) = self.pending.remove(&request_id) {
                self.vanished.insert(request_id);
                let life = self.nodes[node.0 as usize].life;
                let arrival = Arrival::Vanished { life, id: request_id };
                self.queue.push(now + self.client_one_way_ns, Happening::Arrive { node, arrival });
            }
        }
    }

    fn traffic(&mut self, from: NodeId, to: NodeId) -> &mut Traffic {
        match self.network.distance(from, to) {
            Distance::Same => &mut self.counters.to_self,
            Distance::Inside => &mut self.counters.inside,
            Distance::Across => &mut self.counters.across,
        }
    }
}

//! What an event loop does with its nodes: hands them what arrives, and carries out what they want. Hot.

use super::client::{Client, ClientEvent, ClientRef};
use super::clock::{Clock, ClockModel};
use super::disk::Disk;
use super::event_loop::{EventLoop, Happening};
use super::meter;
use super::recording::Recorded;
use super::{Arrival, BEGIN, Booted, Cargo, Wire, Work};
use base::process::{Effect, Effects, Event, Process};
use base::rng::Rng;
use base::{NodeId, RequestId, Time, codec};
use std::collections::VecDeque;
use std::sync::Arc;

/// A machine: its clock and disk outlive the node that runs on it.
pub(super) struct Host<P: Process> {
    pub node: Option<P>,
    pub life: u32,
    pub clock: Clock,
    pub disk: Disk,
    pub recorded: Recorded<P>,
    pub busy_until: Time,
    /// Its node starts once its clock shows more.
    pub starts_after: Time,
    /// What arrived while the node was busy, first in, first out.
    pub inbox: VecDeque<Arrival<P>>,
    /// A [`Happening::Free`] is on its way.
    wakes: bool,
    /// What steps and computations have taken of this machine so far, in ns of one core.
    pub used_ns: u64,
    /// Clients' work, first in, first out; of the first, when it began and `used_ns` then.
    pub work: VecDeque<Work>,
    pub work_began: (Time, u64),
}

impl<P: Process> Host<P> {
    pub fn new(clocks: ClockModel, clock_bound_ns: u64, rng: Rng) -> Host<P> {
        Host {
            node: None,
            life: 0,
            clock: Clock::new(clocks, clock_bound_ns, rng),
            disk: Disk::default(),
            recorded: Recorded::default(),
            busy_until: BEGIN,
            starts_after: Time::ZERO,
            inbox: VecDeque::new(),
            wakes: false,
            used_ns: 0,
            work: VecDeque::new(),
            work_began: (BEGIN, 0),
        }
    }
}

impl<P: Process, C: Client<P> + ?Sized> EventLoop<P, C> {
    /// A machine gets a node; `process` makes it from the number of its life and what the disk holds, and tells when it starts.
    pub fn boot(&mut self, now: Time, node: NodeId, process: impl FnOnce(u32, &[Vec<u8>]) -> Booted<P>) {
        self.arrive_at(now);
        let host = self.host(node);
        assert!(host.node.is_none(), "{node} is up");
        let booted = process(host.life, &host.disk.records());
        (host.node, host.starts_after) = (Some(booted.node), booted.starts_after);
        host.busy_until = now;
        let life = host.life;
        // At once and directly: nothing may come before it.
        self.arrive(node, Arrival::Start { life });
    }
    pub fn crash(&mut self, now: Time, node: NodeId) {
        self.arrive_at(now);
        let place = self.place(node);
        let host = &mut self.hosts[place];
        if host.node.take().is_none() {
            return;
        }
        self.counters.crashes += 1;
        host.life += 1;
        host.inbox.clear();
        // A lost machine is busy with nothing. Else messages of now would wait and reach the node that is started here later.
        host.busy_until = now;
        host.disk.crash(&mut self.disk_rng);
        host.disk.free_at = now;
        host.recorded = Recorded::default();
        let lost = self.pending.extract_if(.., |_, (_, at)| *at == node);
        let lost: Vec<(RequestId, ClientRef)> = lost.map(|(id, (client, _))| (id, client)).collect();
        lost.into_iter().for_each(|(id, client)| self.lose_request(id, client));
    }
    fn lose_request(&mut self, id: RequestId, client: ClientRef) {
        self.counters.requests_lost += 1;
        self.tell(self.now, client, ClientEvent::Lost { id });
    }

    pub(super) fn arrive(&mut self, node: NodeId, arrival: Arrival<P>) {
        let (now, place) = (self.now, self.place(node));
        if let Arrival::Request { id, client, .. } = &arrival {
            self.pending.insert(*id, (*client, node));
        }
        let host = &mut self.hosts[place];
        if host.inbox.is_empty() && host.busy_until <= now {
            return self.take(node, arrival);
        }
        match arrival {
            // Seen between two steps.
            Arrival::Loaded { .. } => host.inbox.push_front(arrival),
            _ => host.inbox.push_back(arrival),
        }
        self.wake(node);
    }
    pub(super) fn free(&mut self, node: NodeId) {
        let host = self.host(node);
        host.wakes = false;
        let Some(arrival) = host.inbox.pop_front() else { return };
        self.take(node, arrival);
        self.wake(node);
    }
    /// It takes what waits once it is free.
    fn wake(&mut self, node: NodeId) {
        let now = self.now;
        let host = self.host(node);
        if !host.inbox.is_empty() && !host.wakes {
            host.wakes = true;
            let at = host.busy_until.max(now);
            self.push(at, Happening::Free { node });
        }
    }

    /// The node takes what arrived, unless that was meant for a former life.
    fn take(&mut self, node: NodeId, arrival: Arrival<P>) {
        let (now, place) = (self.now, self.place(node));
        let host = &mut self.hosts[place];
        let life = host.life;
        if host.node.is_none() {
            match arrival {
                Arrival::Message { from, .. } => self.lose_message(from, node),
                Arrival::Request { id, client, .. } => {
                    self.pending.remove(&id);
                    self.lose_request(id, client);
                }
                _ => {}
            }
            return;
        }
        let local = host.clock.read(now);
        let (mut bytes_in, tag, mut released) = (0, (now.0, u64::from(node.0)), now);
        let mut event_ns = self.conditions.cost.event_ns;
        let event: Event<P> = match arrival {
            Arrival::Start { life: of } if of != life => return,
            Arrival::Timer { life: of, .. } | Arrival::Persisted { life: of, .. } if of != life => return,
            Arrival::Computed { life: of, .. } | Arrival::Stable { life: of, .. } if of != life => return,
            Arrival::Loaded { life: of, .. } if of != life => return,
            Arrival::Start { .. } if local <= host.starts_after => {
                // As a host waits for its clock. What arrives meanwhile waits behind.
                host.busy_until = now + (host.starts_after.since(local) + 1);
                host.inbox.push_front(arrival);
                return self.wake(node);
            }
            Arrival::Start { .. } => {
                self.trace_event(tag, 1, u64::from(life));
                Event::Start
            }
            Arrival::Message { from, cargo } => {
                if self.network.is_cut(from, node) {
                    return self.lose_message(from, node);
                }
                self.trace_event(tag, 2, u64::from(from.0));
                let message = match cargo {
                    Cargo::Bytes(bytes) => {
                        self.trace.bytes(&bytes);
                        bytes_in = bytes.len() as u64;
                        codec::decode(&bytes)
                            .unwrap_or_else(|e| panic!("a message from {from} to {node} cannot be read: {e}"))
                    }
                    Cargo::Measured { message, length } => {
                        self.trace.word(length);
                        bytes_in = length;
                        message
                    }
                };
                Event::Message { from, message }
            }
            Arrival::Loaded { of, message, .. } => {
                self.trace_event(tag, 13, u64::from(of.0));
                event_ns = self.conditions.cost.load_ns.div_ceil(2);
                Event::Message { from: of, message }
            }
            Arrival::Timer { at, timer, .. } => {
                if local < at {
                    // The clock ran slower than it did when the timer was set.
                    let due = now + (at.0 - local.0);
                    let arrival = Arrival::Timer { life, at, timer };
                    return self.push(due, Happening::Arrive { node, arrival });
                }
                self.trace_event(tag, 3, at.0);
                Event::Timer(timer)
            }
            Arrival::Request { id, request, .. } => {
                self.trace_event(tag, 4, id.0);
                Event::Request { id, request }
            }
            Arrival::Persisted { token, .. } => {
                host.disk.synced(token);
                self.counters.records_persisted += 1;
                self.trace_event(tag, 6, token.0);
                Event::Persisted(token)
            }
            Arrival::Stable { token, .. } => {
                host.disk.synced(token);
                self.counters.records_persisted += 1;
                self.trace_event(tag, 12, token.0);
                released = self.release(node, local, token.0);
                Event::Stable { records: token.0 }
            }
            Arrival::Computed { computed, .. } => {
                self.trace_event(tag, 11, 0);
                Event::Computed(computed)
            }
        };
        self.trace.line(now, || {
            let what = match &event {
                Event::Start => format!("starts, life {life}"),
                Event::Message { from, message } => format!("hears {from}: {message:?}"),
                Event::Timer(timer) => format!("timer {timer:?}"),
                Event::Request { id, .. } => format!("is asked {id}"),
                Event::Vanished { id } => format!("loses the client of {id}"),
                Event::Persisted(token) => format!("has stored {}", token.0),
                Event::Stable { records } => format!("has recorded {records}"),
                Event::Computed(_) => "has computed".into(),
            };
            format!("{now:?} {node} (clock {local:?}) {what}")
        });
        self.counters.steps += 1;
        let mut effects = std::mem::replace(&mut self.effects, Effects::new());
        let host = &mut self.hosts[place];
        host.recorded.begin_step();
        host.node.as_mut().expect("looked up above").step(local, event, &mut effects);
        let bytes_ns = self.conditions.cost.kilobyte_ns * bytes_in / 1024;
        let mut done = released + event_ns + bytes_ns + meter::take();
        for effect in effects.drain() {
            done = self.carry_out_or_hold(node, local, done, effect);
        }
        self.effects = effects;
        let host = &mut self.hosts[place];
        host.busy_until = done;
        host.used_ns += done.since(now);
    }

    fn lose_message(&mut self, from: NodeId, to: NodeId) {
        let distance = self.distance(from, to);
        self.traffic(distance).lost += 1;
    }

    /// Answers when the node is done with it.
    pub(super) fn carry_out(&mut self, node: NodeId, local: Time, done: Time, effect: Effect<P>) -> Time {
        let place = self.place(node);
        match effect {
            Effect::Send { to, message } => return self.send(node, done, &[to], message),
            Effect::SendAll { to, message } => return self.send(node, done, &to, message),
            Effect::Load { of, message } => return self.begin_load(node, done, of, message),
            Effect::Timer { at, timer } => {
                let due = (self.now + at.since(local)).max(done);
                let life = self.hosts[place].life;
                self.push(due, Happening::Arrive { node, arrival: Arrival::Timer { life, at, timer } });
            }
            Effect::GiveWay { timer } => {
                let life = self.hosts[place].life;
                let arrival = Arrival::Timer { life, at: local, timer };
                self.push(done, Happening::Arrive { node, arrival });
            }
            Effect::Reply { id, reply } => {
                let waiting = self.pending.remove(&id);
                let (client, at) =
                    waiting.unwrap_or_else(|| panic!("{node} answers {id}, which awaits no answer"));
                assert_eq!(at, node, "{node} answers {id}, which was asked of {at}");
                self.counters.replies += 1;
                self.tell(done, client, ClientEvent::Reply { id, reply });
            }
            Effect::Compute(work) => {
                let host = &mut self.hosts[place];
                host.used_ns += self.conditions.cost.computation_ns;
                let life = host.life;
                let at = done + self.conditions.cost.computation_ns;
                let arrival = Arrival::Computed { life, computed: work() };
                self.push(at, Happening::Arrive { node, arrival });
            }
            Effect::Record(record) => {
                let (at, arrival) = self.write_record(node, done, &record);
                self.push(at, Happening::Arrive { node, arrival });
            }
            Effect::Persist { token, record } => {
                let sync_ns = self.conditions.disks.draw_ns(&mut self.disk_rng);
                let host = &mut self.hosts[place];
                let at = done.max(host.disk.free_at) + sync_ns;
                host.disk.free_at = at;
                host.disk.write(token, record);
                let arrival = Arrival::Persisted { life: host.life, token };
                self.push(at, Happening::Arrive { node, arrival });
            }
        }
        done
    }

    /// A message leaves for each of these nodes, encoded once; answers when all have left.
    pub(super) fn send(&mut self, node: NodeId, mut done: Time, to: &[NodeId], message: P::Message) -> Time {
        let place = self.place(node);
        let (cargo, length) = match self.conditions.wire {
            Wire::Encoded => {
                let bytes: Arc<[u8]> = codec::encode(&message).into();
                let length = bytes.len() as u64;
                (Cargo::Bytes(bytes), length)
            }
            Wire::Measured => {
                let length = codec::encoded_len(&message) as u64;
                (Cargo::Measured { message, length }, length)
            }
        };
        done = done + self.conditions.cost.encode_kilobyte_ns * length / 1024;
        for &to in to {
            done =
                done + self.conditions.cost.send_ns + self.conditions.cost.send_kilobyte_ns * length / 1024;
            let (distance, fate) = self.network.send(done, place, to);
            let traffic = self.traffic(distance);
            traffic.sent += 1;
            traffic.bytes += length;
            traffic.lost += u64::from(fate.arrives.is_none());
            traffic.duplicated += u64::from(fate.again.is_some());
            for at in fate.again.into_iter().chain(fate.arrives) {
                let arrival = Arrival::Message { from: node, cargo: cargo.clone() };
                let home = self.loop_of(to);
                self.agenda.push_to(home, at, Happening::Arrive { node: to, arrival });
            }
        }
        done
    }

    /// Something that is no message goes from a machine to a node as links carry it, or is lost.
    pub(super) fn carry(&mut self, place: usize, leaves: Time, to: NodeId, happening: Happening<P>) {
        let (_, fate) = self.network.send(leaves, place, to);
        if let Some(at) = fate.arrives {
            let home = self.loop_of(to);
            self.agenda.push_to(home, at, happening);
        }
    }
}

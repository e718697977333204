//! What nodes record, on their disks, and what waits for it.
//!
//! KEEPS: as every host's: what is sent waits for all records before it, a reply for those of its own step. Records that
//! gather while the disk is busy share the next sync. A node that boots is given what was synced, and a beginning of
//! the rest.

use super::Arrival;
use super::client::Client;
use super::event_loop::EventLoop;
use base::process::{Effect, PersistToken, Process, Record};
use base::{NodeId, Time, codec};
use std::collections::VecDeque;

/// A node's records in this life.
pub(super) struct Recorded<P: Process> {
    emitted: u64,
    stable: u64,
    /// The current step has recorded something.
    in_step: bool,
    /// When the sync that is under way is done, and the one after it.
    synced_at: (Time, Time),
    held: VecDeque<(u64, Effect<P>)>,
}

impl<P: Process> Default for Recorded<P> {
    fn default() -> Self {
        let (synced_at, held) = ((Time::ZERO, Time::ZERO), VecDeque::new());
        Recorded { emitted: 0, stable: 0, in_step: false, synced_at, held }
    }
}

impl<P: Process> Recorded<P> {
    pub fn begin_step(&mut self) {
        self.in_step = false;
    }
    /// Whether an effect of the current step has to wait.
    fn holds(&self, effect: &Effect<P>) -> bool {
        match effect {
            Effect::Send { .. } | Effect::SendAll { .. } => self.stable < self.emitted,
            Effect::Reply { .. } => self.in_step && self.stable < self.emitted,
            _ => false,
        }
    }
    /// When a record that is written now is synced.
    fn sync(&mut self, now: Time, sync_ns: u64) -> Time {
        let (busy_until, next) = &mut self.synced_at;
        if *next <= now {
            (*busy_until, *next) = (now + sync_ns, now + sync_ns);
        } else if *busy_until <= now {
            (*busy_until, *next) = (*next, *next + sync_ns);
        } else if *next == *busy_until {
            *next = *busy_until + sync_ns;
        }
        *next
    }
}

impl<P: Process, C: Client<P> + ?Sized> EventLoop<P, C> {
    /// An effect is carried out now, or once what was recorded is stable; answers when the node is done with it.
    pub(super) fn carry_out_or_hold(
        &mut self,
        node: NodeId,
        local: Time,
        done: Time,
        effect: Effect<P>,
    ) -> Time {
        let recorded = &mut self.host(node).recorded;
        if recorded.holds(&effect) {
            recorded.held.push_back((recorded.emitted, effect));
            return done;
        }
        self.carry_out(node, local, done, effect)
    }

    /// Answers when it is synced, and what tells the node.
    pub(super) fn write_record(&mut self, node: NodeId, done: Time, record: &Record) -> (Time, Arrival<P>) {
        let sync_ns = self.conditions.disks.draw_ns(&mut self.disk_rng);
        let host = self.host(node);
        let recorded = &mut host.recorded;
        recorded.emitted += 1;
        recorded.in_step = true;
        let (token, at) = (PersistToken(recorded.emitted), recorded.sync(done, sync_ns));
        host.disk.write(token, encode(record));
        (at, Arrival::Stable { life: host.life, token })
    }

    /// So many records are stable: what waited for them leaves. Answers when the node is done with that.
    pub(super) fn release(&mut self, node: NodeId, local: Time, records: u64) -> Time {
        let mut done = self.now;
        self.host(node).recorded.stable = records;
        loop {
            let held = &mut self.host(node).recorded.held;
            let Some((_, effect)) = held.pop_front_if(|(needed, _)| *needed <= records) else {
                return done;
            };
            done = self.carry_out(node, local, done, effect);
        }
    }
}

/// A record as the disk has it, and back.
pub fn encode(record: &Record) -> Vec<u8> {
    codec::encode(&(record.owner, record.kind, record.version, &record.payload))
}
pub fn decode(bytes: &[u8]) -> Record {
    let (owner, kind, version, payload) = codec::decode(bytes).expect("the disk keeps what it was given");
    Record { owner, kind, version, payload }
}

//! Nodes that look at what peers have published, without a step of theirs ([`base::process::Effect::Load`]).
//!
//! KEEPS: it takes the way there and the way back, loses what links lose, and takes no time of the peer; a peer that is down
//! answers nothing. The peer's loop looks, so that it sees what is published at that instant.

use super::Arrival;
use super::client::Client;
use super::event_loop::{EventLoop, Happening};
use base::process::Process;
use base::{NodeId, Time};

impl<P: Process, C: Client<P> + ?Sized> EventLoop<P, C> {
    /// Answers when the node is done with beginning it.
    pub(super) fn begin_load(&mut self, by: NodeId, done: Time, of: NodeId, message: P::Message) -> Time {
        let done = done + self.conditions.cost.load_ns / 2;
        let (place, life) = (self.place(by), self.host(by).life);
        self.carry(place, done, of, Happening::Look { by, life, of, message });
        done
    }

    pub(super) fn look(&mut self, by: NodeId, life: u32, of: NodeId, message: P::Message) {
        let place = self.place(of);
        let Some(peer) = &self.hosts[place].node else { return };
        let answer = peer.published().and_then(|published| published.answer(&message));
        if self.network.is_cut(by, of) {
            return;
        }
        let seen = match answer {
            Some(message) => Happening::Arrive { node: by, arrival: Arrival::Loaded { life, of, message } },
            None => Happening::Unseen { by, life, of, message },
        };
        self.carry(place, self.now, by, seen);
    }

    pub(super) fn unseen(&mut self, by: NodeId, life: u32, of: NodeId, message: P::Message) {
        if self.host(by).life == life {
            self.send(by, self.now, &[of], message);
        }
    }
}

//! Which machine speaks for a node.
//!
//! A guess is never wrong for long: whoever is asked passes a message on, and silence moves the guess.

use super::{Durable, Groups, Message, Replicable};
use base::process::Effects;
use base::{NodeId, Time};
use std::sync::Arc;

pub(super) struct Routes {
    me: NodeId,
    groups: Arc<Groups>,
    patience_ns: u64,
    /// By node.
    guesses: Vec<Guess>,
}

#[derive(Clone, Debug)]
struct Guess {
    machine: NodeId,
    /// Spoken to since then without having heard anything.
    unheard_since: Option<Time>,
}

impl Routes {
    pub fn new(me: NodeId, groups: Arc<Groups>, patience_ns: u64) -> Routes {
        let mut guesses: Vec<Guess> = Vec::new();
        for machine in groups.machines() {
            if groups.node_of(machine).0 as usize == guesses.len() {
                guesses.push(Guess { machine, unheard_since: None });
            }
        }
        Routes { me, groups, patience_ns, guesses }
    }

    /// Whether a machine may hand on what this node said: it keeps the node, or is of this group and passes on what it
    /// was sent. Who the machine is, the host knows.
    pub fn may_say(&self, machine: NodeId, node: NodeId) -> bool {
        let is_member = |of: NodeId| self.groups.members(of).contains(&machine);
        is_member(self.me) || usize::from(node.0) < self.guesses.len() && is_member(node)
    }

    /// A machine has spoken for a node.
    pub fn heard(&mut self, machine: NodeId, node: NodeId) {
        if self.groups.members(node).contains(&machine) {
            self.guesses[node.0 as usize] = Guess { machine, unheard_since: None };
        }
    }

    /// The machine to send a message for this node to.
    pub fn to(&mut self, now: Time, node: NodeId) -> NodeId {
        let members = self.groups.members(node);
        let guess = &mut self.guesses[node.0 as usize];
        let since = *guess.unheard_since.get_or_insert(now);
        if self.patience_ns < now.since(since) && members.len() > 1 {
            base::sometimes!("a silent group is spoken to through another member");
            let nth = members.iter().position(|m| *m == guess.machine).expect("guesses are members");
            *guess = Guess { machine: members[(nth + 1) % members.len()], unheard_since: Some(now) };
        }
        guess.machine
    }

    /// Tells everyone that this machine leads.
    pub fn announce<P: Replicable>(&self, out: &mut Effects<Durable<P>>) {
        if self.groups.members(self.me).len() == 1 {
            return;
        }
        let node = self.me;
        let strangers = self.groups.machines().filter(|m| self.groups.node_of(*m) != node);
        strangers.for_each(|machine| out.send(machine, Message::Leads { node }));
    }
}

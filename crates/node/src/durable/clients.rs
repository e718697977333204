//! Clients of this machine, on their way into the log.
//!
//! KEEPS: an item is sent until it has been stepped here; a leader enters an item once in its term; across
//! terms [`Book`](super::apply::Book) sees to it that it is stepped once.

use super::{ClientAct, ClientItem};
use base::{NodeId, RequestId, Time};
use consensus::Term;
use std::collections::{BTreeMap, BTreeSet};

pub(super) struct Clients {
    member: NodeId,
    life: u32,
    retry_ns: u64,
    next: u64,
    /// Not stepped yet.
    open: BTreeMap<u64, Open>,
    /// Stepped and not answered: the entered request's id, and the machine's own.
    waiting: BTreeMap<RequestId, RequestId>,
    entered_of: BTreeMap<RequestId, RequestId>,
    /// As leader: what was entered in this term, by member, life and number.
    entered: (Term, BTreeSet<(NodeId, u32, u64)>),
}

struct Open {
    act: ClientAct,
    /// The request at this machine; `None` once its client went away.
    of: Option<RequestId>,
    is_request: bool,
    retry_at: Time,
}

impl Clients {
    pub fn new(member: NodeId, life: u32, retry_ns: u64) -> Clients {
        Clients {
            member,
            life,
            retry_ns,
            next: 0,
            open: BTreeMap::new(),
            waiting: BTreeMap::new(),
            entered_of: BTreeMap::new(),
            entered: (Term(0), BTreeSet::new()),
        }
    }

    pub fn add(&mut self, now: Time, act: ClientAct, of: Option<RequestId>) -> ClientItem {
        let sequence = self.next;
        self.next += 1;
        let is_request = of.is_some();
        let retry_at = now + self.retry_ns;
        self.open.insert(sequence, Open { act: act.clone(), of, is_request, retry_at });
        self.item(sequence, act)
    }

    fn item(&self, sequence: u64, act: ClientAct) -> ClientItem {
        let settled = self.open.keys().next().copied().unwrap_or(self.next);
        ClientItem { member: self.member, life: self.life, sequence, settled, act }
    }

    /// Everything that was not stepped yet.
    pub fn all(&mut self, now: Time) -> Vec<ClientItem> {
        self.open.values_mut().for_each(|open| open.retry_at = now);
        self.due(now)
    }

    /// What has to be sent again.
    pub fn due(&mut self, now: Time) -> Vec<ClientItem> {
        let mut due = Vec::new();
        for (&sequence, open) in &mut self.open {
            if open.retry_at <= now {
                open.retry_at = now + self.retry_ns;
                due.push((sequence, open.act.clone()));
            }
        }
        due.into_iter().map(|(sequence, act)| self.item(sequence, act)).collect()
    }

    pub fn retry_at(&self) -> Time {
        self.open.values().map(|open| open.retry_at).min().unwrap_or(Time::MAX)
    }

    /// As leader: true the first time that this item is seen in this term.
    pub fn enters(&mut self, term: Term, item: &ClientItem) -> bool {
        if self.entered.0 != term {
            self.entered = (term, BTreeSet::new());
        }
        let entered = &mut self.entered.1;
        // What its member has settled will not be sent again, or is stepped without effect.
        let settled = (item.member, item.life, 0)..(item.member, item.life, item.settled);
        while let Some(&old) = entered.range(settled.clone()).next() {
            entered.remove(&old);
        }
        entered.insert((item.member, item.life, item.sequence))
    }

    /// An item of this machine's present life was stepped, as this request. A client that went away
    /// meanwhile is answered: its request is to be ended.
    pub fn stepped(&mut self, item: &ClientItem, entered: RequestId) -> Stepped {
        if (item.member, item.life) != (self.member, self.life) {
            return Stepped::Elsewhere;
        }
        let Some(open) = self.open.remove(&item.sequence) else { return Stepped::Elsewhere };
        match open.of {
            Some(id) => {
                self.waiting.insert(entered, id);
                self.entered_of.insert(id, entered);
                Stepped::Here
            }
            None if open.is_request => Stepped::Abandoned,
            None => Stepped::Here,
        }
    }

    /// The machine's own id of a request that is answered now; `None` if nobody waits for it here.
    pub fn answered(&mut self, entered: RequestId) -> Option<RequestId> {
        let id = self.waiting.remove(&entered)?;
        self.entered_of.remove(&id);
        Some(id)
    }

    /// A client went away. Answers the entered request to end, if it was stepped already.
    pub fn vanished(&mut self, id: RequestId) -> Option<RequestId> {
        if let Some(entered) = self.entered_of.remove(&id) {
            self.waiting.remove(&entered);
            return Some(entered);
        }
        // Its number stays: what was sent may still be entered.
        let open = self.open.values_mut().find(|open| open.of == Some(id));
        open.into_iter().for_each(|open| open.of = None);
        None
    }
}

/// What stepping an item means for this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stepped {
    Here,
    /// Of this machine, but its client went away before.
    Abandoned,
    Elsewhere,
}

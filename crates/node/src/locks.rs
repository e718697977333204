//! Row locks between regions: what a node keeps for them.
//!
//! A gateway whose transactions lose at validation to writers nearer to a row asks the row's *home*, the node that
//! orders it, to lock the row: there whoever comes waits behind whoever came before, in whichever region either is.
//!
//! IN: wishes of this node's gateway for rows homed elsewhere; wishes of other nodes for rows homed here, which this
//! node's gateway serves from its own table of locks ([`Request::ServeLocks`](crate::Request::ServeLocks)), since its
//! own sessions lock rows there without asking anybody. OUT: [`LockMessage`]s, grants. KEEPS:
//! 1. a wish is answered once: granted, refused, or given up because the home is silent;
//! 2. what is granted ends when its transaction has executed here or its gateway says so, and at the latest with its
//!    lease, so a gateway that is lost or idle delays others by no more than that.
//!
//! Locks decide who waits and never what is right; validation does that. So a message that is lost, an expired lease
//! or a home that begins anew costs fairness and retries, never a wrong answer.

use crate::message::QuestionId;
use base::{Key, NodeId, Rank, RequestId, SqlError, TableId, Time};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A transaction that locks rows of other regions; never used again by its gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LockOwner(pub u64);

pub type RowName = (TableId, Key);

/// One wish of a transaction: rows that it wants to lock together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WishName {
    /// Whose gateway runs the transaction.
    pub node: NodeId,
    pub owner: LockOwner,
    pub wish: QuestionId,
}

/// Between a gateway's node and the home of rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum LockMessage {
    /// Gateway → home: lock these rows, in this order; repeated until it is answered.
    Want { owner: LockOwner, wish: QuestionId, rows: Vec<RowName> },
    /// Home → gateway, to a repeated wish: it waits for others.
    Queued { wish: QuestionId },
    /// Home → gateway: the rows are locked. Everything that was answered before has a rank of at most `at`.
    Granted { wish: QuestionId, at: Rank, waited: bool },
    /// Home → gateway: waiting would never end.
    Refused { wish: QuestionId, error: SqlError },
    /// Gateway → home: the transaction is over, or only this wish of it.
    Release { owner: LockOwner, wish: Option<QuestionId> },
    /// Home → all: writers of several regions compete for rows of this table.
    Contended { table: TableId },
}

/// What a node's gateway is told while it serves locks, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum LockEvent {
    /// Lock these rows for a transaction of another region, in this order, and tell when that is done.
    Want { name: WishName, rows: Vec<RowName> },
    /// It ended, or its lease did: unlock them, or wait no more.
    Ended { name: WishName },
    /// Writers of several regions compete for rows of this table, which is homed elsewhere.
    Contended { table: TableId },
}

/// A wish of this node's gateway that is not answered.
pub struct Wish {
    pub request: RequestId,
    pub home: NodeId,
    pub owner: LockOwner,
    pub rows: Vec<RowName>,
    /// How often it was repeated since the home was heard of last.
    pub silent: u32,
    /// It is given up then.
    pub until: Option<Time>,
}

/// Of another node, for rows homed here.
pub struct Granted {
    /// `None`: it waits.
    pub at: Option<(Rank, bool)>,
    pub rows: Vec<RowName>,
}

/// What a node keeps for locks between regions.
#[derive(Default)]
pub struct RemoteLocks {
    pub wishes: BTreeMap<QuestionId, Wish>,
    /// For rows homed here.
    pub served: BTreeMap<WishName, Granted>,
    /// Granted rows of `served`, each with whom it is granted to.
    pub granted: BTreeMap<RowName, WishName>,
    /// The gateway's open request, and what it is to be told next.
    pub server: Option<RequestId>,
    /// A gateway has begun to serve: events are kept for it.
    pub is_served: bool,
    pub events: VecDeque<LockEvent>,
    /// Tables that others were told of, and when.
    pub told: BTreeMap<TableId, Time>,
}

impl RemoteLocks {
    /// Forgets a wish of another node; the gateway is to unlock its rows.
    pub fn end(&mut self, name: WishName) {
        let Some(served) = self.served.remove(&name) else { return };
        for row in served.rows {
            if self.granted.get(&row) == Some(&name) {
                self.granted.remove(&row);
            }
        }
        self.event(LockEvent::Ended { name });
    }

    /// Forgets everything that a transaction of another node wants or has here.
    pub fn end_all(&mut self, node: NodeId, owner: LockOwner) {
        let first = WishName { node, owner, wish: QuestionId(0) };
        let last = WishName { wish: QuestionId(u64::MAX), ..first };
        let names: Vec<WishName> = self.served.range(first..=last).map(|(name, _)| *name).collect();
        names.into_iter().for_each(|name| self.end(name));
    }

    /// Transactions of another node whose rows here one of its transactions has just written: they are over.
    pub fn ended_by(&self, node: NodeId, written: &[RowName]) -> BTreeSet<LockOwner> {
        let names = written.iter().filter_map(|row| self.granted.get(row));
        names.filter(|name| name.node == node).map(|name| name.owner).collect()
    }

    pub fn event(&mut self, event: LockEvent) {
        if self.is_served {
            self.events.push_back(event);
        }
    }
}

//! Transactions as vertices of the dependency graph, in a slab with generations.
//!
//! KEEPS: a vertex's state only grows; once final, its dependencies, `cts` and (once emitted) `rank`
//! never change. A [`Ref`] whose generation is over names a vertex that was collected: its rank lies at
//! or below the watermark.

use super::component::Searched;
use super::participants::Participants;
use super::turns::Turn;
use base::hash::PointMap;
use base::txn::Transaction;
use base::{Rank, TxnId};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::num::NonZeroU32;

/// Names a vertex at this node, for as long as it is kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ref {
    pub slot: u32,
    /// Never 0, so that an optional reference is no larger.
    generation: NonZeroU32,
}

/// How far a transaction has come at this node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum State {
    /// Named as a dependency by someone; nothing else is known.
    Named,
    /// In the conflict index; its final dependencies are not known yet.
    PreAccepted,
    /// Its final dependencies are known.
    Final,
    /// Its whole ancestor closure is final, and its rank is known. If it takes part here, it is ready.
    Emitted,
    /// Executed at this node (or not executed here because it takes no part).
    Executed,
    /// Executed, and so is every member of its component that takes part here.
    Done,
}

/// Dependencies, as slab references.
pub type Refs = SmallVec<[Ref; 6]>;

/// One transaction. `X` is what the engine keeps beside it.
#[derive(Clone, Debug)]
pub struct Vertex<X> {
    pub id: TxnId,
    pub participants: Participants,
    /// Present if it was pre-accepted here: this node takes part.
    pub transaction: Option<Transaction>,
    pub state: State,
    /// Lower bound of the final `cts`: the largest pts known here, then `cts` itself.
    pub bound: Rank,
    /// Valid from [`State::Emitted`] on; before that, set only if another node computed it.
    pub rank: Option<Rank>,
    /// Valid from [`State::Final`] on. May hold references to collected vertices.
    pub deps: Refs,
    /// What searches for components note here.
    pub searched: Searched,
    /// When it executes here.
    pub turn: Turn,
    pub extra: X,
}

/// All vertices held at a node.
#[derive(Clone, Debug)]
pub struct Vertices<X> {
    slots: Vec<Slot<X>>,
    free: Vec<u32>,
    by_id: PointMap<TxnId, u32>,
    pub(super) walks: u64,
}

#[derive(Clone, Debug)]
struct Slot<X> {
    generation: NonZeroU32,
    vertex: Option<Vertex<X>>,
}

impl<X> Default for Vertices<X> {
    fn default() -> Self {
        Vertices { slots: Vec::new(), free: Vec::new(), by_id: PointMap::default(), walks: 0 }
    }
}

impl<X: Default> Vertices<X> {
    /// Adds a vertex of which only the name is known.
    pub fn insert(&mut self, id: TxnId, participants: Participants) -> Ref {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: NonZeroU32::MIN, vertex: None });
            u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 vertices")
        });
        assert!(self.by_id.insert(id, slot).is_none(), "{id} is in the graph already");
        let entry = &mut self.slots[slot as usize];
        entry.vertex = Some(Vertex {
            id,
            participants,
            transaction: None,
            state: State::Named,
            bound: Rank::ZERO,
            rank: None,
            deps: Refs::new(),
            searched: Searched::default(),
            turn: Turn::default(),
            extra: X::default(),
        });
        Ref { slot, generation: entry.generation }
    }
}

impl<X> Vertices<X> {
    pub fn find(&self, id: TxnId) -> Option<Ref> {
        self.by_id.get(&id).map(|&slot| self.at(slot))
    }
    /// The reference of an occupied slot.
    pub fn at(&self, slot: u32) -> Ref {
        Ref { slot, generation: self.slots[slot as usize].generation }
    }
    /// `None` once it is collected.
    pub fn get(&self, at: Ref) -> Option<&Vertex<X>> {
        let slot = &self.slots[at.slot as usize];
        if slot.generation == at.generation { slot.vertex.as_ref() } else { None }
    }
    pub fn get_mut(&mut self, at: Ref) -> Option<&mut Vertex<X>> {
        let slot = &mut self.slots[at.slot as usize];
        if slot.generation == at.generation { slot.vertex.as_mut() } else { None }
    }
    /// A vertex that cannot have been collected.
    pub fn live(&self, at: Ref) -> &Vertex<X> {
        self.get(at).expect("the vertex is still needed")
    }
    pub fn live_mut(&mut self, at: Ref) -> &mut Vertex<X> {
        self.get_mut(at).expect("the vertex is still needed")
    }
    pub fn remove(&mut self, at: Ref) -> Vertex<X> {
        let slot = &mut self.slots[at.slot as usize];
        assert_eq!(slot.generation, at.generation, "a vertex is collected once");
        let vertex = slot.vertex.take().expect("a vertex is collected once");
        slot.generation = slot.generation.checked_add(1).unwrap_or(NonZeroU32::MIN);
        self.free.push(at.slot);
        self.by_id.remove(&vertex.id);
        vertex
    }
    pub fn len(&self) -> usize {
        self.by_id.len()
    }
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }
    /// Every vertex, by slot.
    pub fn iter(&self) -> impl Iterator<Item = (Ref, &Vertex<X>)> {
        self.slots.iter().enumerate().filter_map(|(slot, entry)| {
            let at = Ref { slot: slot as u32, generation: entry.generation };
            entry.vertex.as_ref().map(|vertex| (at, vertex))
        })
    }
}

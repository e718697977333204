//! What a node remembers of its own memory: whether it has lost it, what it has of a copy, copies that others take.
//!
//! KEEPS: a node that has lost its memory is recovering until it has a copy and the word of enough others; it is recovered
//! once in a life.

use super::super::cluster::Refused;
use super::super::message::{CopyId, Part, SequenceId, Standing};
use super::super::record_kinds::Recorded;
use crate::donor::Donor;
use base::{NodeId, PartitionId, Rank, Time};
use std::collections::{BTreeMap, BTreeSet};

/// This node's memory, and copies of it.
#[derive(Clone, Debug)]
pub(in crate::caerus) struct Life {
    /// The incarnation that it began with.
    born: u32,
    mode: Mode,
    /// There is nothing that it could have forgotten.
    is_new: bool,
    /// Nobody keeps any more what this node lacks of a sequence: it was silent for too long.
    left_behind: Option<SequenceId>,
    /// It was lost before, and came back so.
    rejoined: Option<Rejoined>,
    /// Copies that others take, who have lost theirs.
    pub donor: Donor,
    /// What is recorded of it, beside the sequences.
    pub recorded: Recorded,
}

#[derive(Clone, Debug)]
enum Mode {
    Running,
    /// It has lost its memory and is not whole.
    Recovering(Box<Joining>),
}

impl Life {
    pub fn new(born: u32) -> Life {
        Life {
            born,
            mode: Mode::Running,
            is_new: false,
            left_behind: None,
            rejoined: None,
            donor: Donor::default(),
            recorded: Recorded::default(),
        }
    }
    /// It has lost the memory of its former lives.
    pub fn recovering(born: u32, refused: Option<Refused>) -> Life {
        Life { mode: Mode::Recovering(Box::new(Joining::new(born, refused))), ..Life::new(born) }
    }
    /// The node is new: it has never had a memory.
    pub fn beginning(born: u32, refused: Option<Refused>) -> Life {
        Life { is_new: true, ..Life::recovering(born, refused) }
    }
    /// The incarnation that this memory began with; names the links to sequencers.
    pub fn born(&self) -> u32 {
        self.born
    }
    pub fn is_running(&self) -> bool {
        matches!(self.mode, Mode::Running)
    }
    /// The node of a new region that does not have its first copy yet: it has made no promises that it could have lost.
    pub fn is_new(&self) -> bool {
        self.is_new && !self.is_running()
    }
    /// It is not whole and may be one day.
    pub fn may_come_back(&self) -> bool {
        self.joining().is_some_and(|joining| joining.refused.is_none())
    }
    /// It lacks entries of a sequence that are gone everywhere.
    pub fn leave_behind(&mut self, sequence: SequenceId) {
        self.left_behind = Some(sequence);
    }
    /// Such a sequence, if there is one.
    pub fn left_behind(&self) -> Option<SequenceId> {
        self.left_behind
    }
    /// Since it came back without its memory: what was executed before this is not all known here.
    pub fn rejoined_at(&self) -> Option<Rank> {
        self.rejoined.map(|rejoined| rejoined.at)
    }
    /// How long coming back took, in ns, and how many bytes the copy had.
    pub fn came_back(&self) -> Option<(u64, u64)> {
        self.rejoined.map(|rejoined| (rejoined.took_ns, rejoined.bytes))
    }
    /// Its disk has what it knew when it was whole.
    pub fn remembered(&mut self) {
        self.mode = Mode::Running;
    }
    /// It comes back with what its disk has: how transactions ended before the checkpoint is not known.
    pub fn restarted(&mut self, now: Time) {
        self.rejoined = Some(Rejoined { took_ns: 0, bytes: 0, at: now.rank() });
    }
    /// The node has a copy and the word of enough others: it is recovered. What they have said.
    pub(super) fn recovered(&mut self, now: Time) -> BTreeMap<NodeId, Vec<Standing>> {
        let Mode::Recovering(joining) = std::mem::replace(&mut self.mode, Mode::Running) else {
            unreachable!("it was recovering");
        };
        let took_ns = now.since(joining.began.unwrap_or(now));
        self.rejoined = Some(Rejoined { took_ns, bytes: joining.bytes, at: now.rank() });
        joining.answers.unwrap_or_default()
    }
    pub(super) fn joining(&self) -> Option<&Joining> {
        match &self.mode {
            Mode::Running => None,
            Mode::Recovering(joining) => Some(joining),
        }
    }
    pub(super) fn joining_mut(&mut self) -> Option<&mut Joining> {
        match &mut self.mode {
            Mode::Running => None,
            Mode::Recovering(joining) => Some(joining),
        }
    }
}

/// A node that is not whole.
#[derive(Clone, Debug)]
pub(in crate::caerus) struct Joining {
    /// It never will be.
    pub(super) refused: Option<Refused>,
    pub(super) began: Option<Time>,
    /// Who gives the copy, and the life in which it is made, once a block has come.
    pub(super) donor: Option<(NodeId, Option<u32>)>,
    /// Donors that were silent, or whose copy was too old, since all were.
    pub(super) tried: BTreeSet<NodeId>,
    /// Numbered from 1 on in this life; 0: none has been asked for.
    pub(super) copy: CopyId,
    pub(super) heard_at: Time,
    pub(super) asked_at: Time,
    pub(super) next: u32,
    pub(super) of: Option<u32>,
    pub(super) early: BTreeMap<u32, Part>,
    /// Of the merger's state, so far.
    pub(super) state: Vec<u8>,
    pub(super) rows: BTreeSet<PartitionId>,
    pub(super) bytes: u64,
    /// Others that have lost their memory too, and ask where they stand.
    pub(super) others: BTreeSet<NodeId>,
    /// What other regions have said, once the copy is here.
    pub(super) answers: Option<BTreeMap<NodeId, Vec<Standing>>>,
}

impl Joining {
    fn new(life: u32, refused: Option<Refused>) -> Joining {
        Joining {
            refused,
            began: None,
            donor: None,
            tried: BTreeSet::new(),
            copy: CopyId { life, number: 0 },
            heard_at: Time::ZERO,
            asked_at: Time::ZERO,
            next: 0,
            of: None,
            early: BTreeMap::new(),
            state: Vec::new(),
            rows: BTreeSet::new(),
            bytes: 0,
            others: BTreeSet::new(),
            answers: None,
        }
    }
}

/// How a node came back.
#[derive(Clone, Copy, Debug)]
struct Rejoined {
    took_ns: u64,
    bytes: u64,
    /// What was executed before is not all known here.
    at: Rank,
}

//! Who keeps a sequence, and how long they wait for each other. Nothing of it changes.

use base::patience::Patience;
use base::{NodeId, RegionId};

/// When somebody led a sequence. A term belongs to the region `term % regions`, so no two regions ever lead in the
/// same one; a sequence begins in the term that is its home region's number.
pub type Term = u64;

#[derive(Clone, Debug)]
pub struct Group {
    pub me: NodeId,
    /// Of this node.
    pub region: RegionId,
    /// By region: the node that votes for it, and leads in its terms.
    pub voters: Vec<Option<NodeId>>,
    /// The region that leads as long as it is not lost.
    pub home: RegionId,
    /// K: how many other regions must have an entry before it is stable.
    pub copies: usize,
    /// The other nodes that keep the sequence, each with how long to wait for its first answer.
    pub replicas: Vec<(NodeId, Patience)>,
    /// Of these, those in this node's region of which, with it, a majority must have an entry before others get it.
    pub inside: Vec<NodeId>,
    /// Entries kept for replicas that are silent, at most.
    pub backlog_max: usize,
    /// Entries are stable as soon as they are here: nobody else has to have them.
    pub acts_at_once: bool,
    pub times: Times,
    #[cfg(any(test, feature = "mutants"))]
    pub fault: Option<Fault>,
}

/// In ns.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// A leader that is silent for so long may be lost.
    pub suspect_ns: u64,
    /// The widest round trip.
    pub widest_ns: u64,
    /// How far ahead of its clock a leader has closed timestamps granted.
    pub lease_ns: u64,
    pub heartbeat_ns: u64,
    /// How far a clock may be off.
    pub clock_bound_ns: u64,
    /// How far ahead a leader records what it may tell.
    pub ceiling_ns: u64,
}

/// Faults that tests plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A region that has promised to follow nobody below a term goes on following.
    ForgetPromises,
    /// A region leads with its own promise alone.
    LeadAlone,
    /// A new leader goes on with its own log, not with the best among those that promised.
    KeepOwnLog,
    /// A leader tells its closed timestamp whether or not others have granted it.
    NoLease,
    /// An entry of another region's leader counts as soon as it is here.
    StableOnArrival,
    /// An entry goes out before a majority of its region's machines has it.
    CountBeforeKept,
    /// A leader tells where its log ends without asking whether it still leads.
    UnconfirmedEnd,
    /// Entries are let go of once they are merged here, not once every replica has merged them.
    ReleaseWhenMerged,
    /// A new leader stamps without regard to what others have granted its predecessors.
    ForgetGrants,
    /// A node that comes back without its memory is bound by no promise of its former lives.
    StandUnbound,
    /// A node that comes back without its memory takes the first log that it is told of, not the best.
    StandWithFirst,
    /// A leader tells its closed timestamp whether or not a ceiling above it is on disk.
    NoCeiling,
    /// What a node promises, and the terms that it knows, are not recorded.
    UnrecordedTerms,
    /// An entry counts as being here before it is on disk.
    CountBeforeSync,
}

impl Group {
    /// The region that leads in a term.
    pub fn region_of_term(&self, term: Term) -> RegionId {
        RegionId((term % self.voters.len() as Term) as u16)
    }
    /// Who leads in a term; `None`: nobody can.
    pub fn leader_in(&self, term: Term) -> Option<NodeId> {
        self.voters[usize::from(self.region_of_term(term).0)]
    }
    /// The region that a node votes for.
    pub fn region_of_voter(&self, node: NodeId) -> Option<RegionId> {
        self.voters.iter().position(|voter| *voter == Some(node)).map(|n| RegionId(n as u16))
    }
    /// Whether this node votes for its region on who leads.
    pub fn votes(&self) -> bool {
        self.copies > 0 && self.voters[usize::from(self.region.0)] == Some(self.me)
    }
    /// As many regions as have to promise.
    pub fn promises_needed(&self) -> usize {
        match self.planted(Fault::LeadAlone) {
            true => 1,
            false => self.voters.iter().flatten().count() - self.copies,
        }
    }
    /// As many as have to miss the leader before anybody stands: fewer than K + 1 could make nothing stable.
    pub fn agreements_needed(&self) -> usize {
        match self.planted(Fault::LeadAlone) {
            true => 1,
            false => self.promises_needed().max(self.copies + 1),
        }
    }
    pub fn other_voters(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.voters.iter().flatten().copied().filter(|node| *node != self.me)
    }
    pub fn is_replica(&self, node: NodeId) -> bool {
        self.replicas.iter().any(|(replica, _)| *replica == node)
    }
    /// Whether this fault is planted; never in production.
    #[cfg(any(test, feature = "mutants"))]
    #[inline]
    pub fn planted(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }
    #[cfg(not(any(test, feature = "mutants")))]
    #[inline]
    pub fn planted(&self, _: Fault) -> bool {
        false
    }
}

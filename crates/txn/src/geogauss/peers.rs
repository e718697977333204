//! The other nodes, as far as this one has heard of them: members, and nodes that would be let in.
//!
//! IN: what came of each, when, and how far it says it is; the times at which this node looks. OUT: who is silent, and for
//! how long; what a majority has; the epoch that everybody has published. KEEPS: silence decides who is refused, and who
//! is proposed for removal, and nothing else. Time is counted look by look, so a pause of this node itself is not held
//! against others. What counts for [`Peers::majority_has`] was said by members that took part in no change that this node
//! does not know (see `membership`).

use super::cluster::Cluster;
use super::membership::Membership;
use super::message::{Epoch, Progress, Seat};
use crate::engine::{RegionHealth, RegionState};
use base::time::SECOND;
use base::{NodeId, SqlError, SqlState, Time};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Default)]
pub(super) struct Peers {
    known: BTreeMap<NodeId, Peer>,
    /// What this node itself has said while that counted.
    own: BTreeMap<Seat, Epoch>,
    newcomers: BTreeMap<NodeId, Waiting>,
    looked_at: Option<Time>,
    /// Transactions and readers refused because of a member.
    refused: u64,
}

#[derive(Clone, Debug, Default)]
struct Peer {
    silent_ns: u64,
    published: Epoch,
    /// What it has of each member.
    have: BTreeMap<Seat, Epoch>,
    /// The same, as far as it counts.
    stated: BTreeMap<Seat, Epoch>,
    /// Members that it has not heard for long.
    doubts: BTreeSet<Seat>,
    /// It has come back without what it knew.
    has_forgotten: bool,
}

/// A node that would be let in.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub incarnation: u32,
    /// It has a copy, and keeps up.
    pub is_ready: bool,
    silent_ns: u64,
    /// Everything behind is kept for it.
    has: BTreeMap<Seat, Epoch>,
}

impl Peers {
    pub fn new(others: impl Iterator<Item = NodeId>) -> Peers {
        Peers { known: others.map(|node| (node, Peer::default())).collect(), ..Peers::default() }
    }
    /// Something came of a member.
    pub fn heard(&mut self, from: NodeId) {
        if let Some(peer) = self.known.get_mut(&from) {
            peer.silent_ns = 0;
        }
    }
    /// The same of what only it sends by itself.
    pub fn heard_seat(&mut self, membership: &Membership, from: NodeId, of: Seat) {
        if of.node == from && membership.is_seat(of) {
            self.heard(from);
        }
    }
    /// A member, or a node that would be let in, says how far it is. `counts`: see the module.
    pub fn told(&mut self, from: NodeId, progress: &Progress, counts: bool) {
        if let Some(waiting) = self.newcomers.get_mut(&from) {
            waiting.silent_ns = 0;
            raise(&mut waiting.has, &progress.have);
        }
        let Some(peer) = self.known.get_mut(&from) else { return };
        peer.published = progress.published.max(peer.published);
        raise(&mut peer.have, &progress.have);
        if counts {
            raise(&mut peer.stated, &progress.have);
        }
        peer.doubts.clone_from(&progress.doubts);
    }
    /// The same of this node.
    pub fn state(&mut self, have: &BTreeMap<Seat, Epoch>) {
        raise(&mut self.own, have);
    }
    /// It has a new life without what the former one knew.
    pub fn has_forgotten(&mut self, node: NodeId) {
        if let Some(peer) = self.known.get_mut(&node) {
            peer.has_forgotten = true;
        }
    }
    /// It is a member no more, or one again: what it said before was of another seat.
    pub fn reseated(&mut self, node: NodeId, published: Epoch) {
        if let Some(peer) = self.known.get_mut(&node) {
            *peer = Peer { published, ..Peer::default() };
        }
        self.newcomers.remove(&node);
    }

    // ---- newcomers --------------------------------------------------------------------------------

    /// A node would be let in. From now on everything is kept for it until it says that it has it.
    pub fn would_join(&mut self, node: NodeId, incarnation: u32, is_ready: bool) {
        let begins = || Waiting { incarnation, is_ready, silent_ns: 0, has: BTreeMap::new() };
        let waiting = self.newcomers.entry(node).or_insert_with(begins);
        if waiting.incarnation < incarnation {
            *waiting = begins();
        }
        (waiting.silent_ns, waiting.is_ready) = (0, is_ready);
        if !is_ready {
            // It may have begun another copy.
            waiting.has.clear();
        }
    }
    pub fn newcomers(&self) -> impl Iterator<Item = (NodeId, &Waiting)> {
        self.newcomers.iter().map(|(node, waiting)| (*node, waiting))
    }
    /// Forgets newcomers that have been silent for so long.
    pub fn drop_silent_newcomers(&mut self, silent_ns: u64) {
        self.newcomers.retain(|_, waiting| waiting.silent_ns < silent_ns);
    }

    // ---- what others have -------------------------------------------------------------------------

    /// All members and newcomers have everything of this member up to there.
    pub fn everywhere(&self, membership: &Membership, seat: Seat) -> Epoch {
        let members = membership.seats().filter_map(|member| {
            let peer = self.known.get(&member.node)?;
            Some(peer.have.get(&seat).copied().unwrap_or_default().max(peer.published))
        });
        let newcomers =
            self.newcomers.values().map(|waiting| waiting.has.get(&seat).copied().unwrap_or_default());
        members.chain(newcomers).min().unwrap_or(Epoch(u64::MAX))
    }
    /// A member lacks something of this seat behind that epoch.
    pub fn has(&self, node: NodeId, seat: Seat) -> Epoch {
        let peer = self.known.get(&node);
        peer.map_or(Epoch(0), |peer| peer.have.get(&seat).copied().unwrap_or_default().max(peer.published))
    }
    pub fn published_of(&self, node: NodeId) -> Epoch {
        self.known.get(&node).map_or(Epoch(0), |peer| peer.published)
    }
    /// Other nodes that have this epoch of a member, but for the member's own.
    pub fn holders(&self, seat: Seat, epoch: Epoch) -> Vec<NodeId> {
        let holds = |(node, peer): (&NodeId, &Peer)| {
            let has = peer.published >= epoch || peer.have.get(&seat).is_some_and(|has| *has >= epoch);
            (*node != seat.node && has).then_some(*node)
        };
        self.known.iter().filter_map(holds).collect()
    }
    /// A majority of the members has everything of this seat up to there.
    pub fn majority_has(&self, membership: &Membership, me: NodeId, seat: Seat) -> Epoch {
        let stated = |node: NodeId| match node == me {
            true => self.own.get(&seat),
            false => self.known.get(&node).and_then(|peer| peer.stated.get(&seat)),
        };
        let mut all: Vec<Epoch> =
            membership.seats().map(|member| stated(member.node).copied().unwrap_or_default()).collect();
        all.sort_unstable();
        all.len().checked_sub(membership.majority()).map_or(Epoch(0), |nth| all[nth])
    }
    /// The last epoch that all other members have published.
    pub fn published_by_all(&self, membership: &Membership) -> Epoch {
        let published = membership.seats().filter_map(|seat| self.known.get(&seat.node));
        published.map(|peer| peer.published).min().unwrap_or(Epoch(u64::MAX))
    }

    // ---- silence ----------------------------------------------------------------------------------

    /// Some time has passed; of more than `at_most_ns` this node itself did not look.
    pub fn look(&mut self, now: Time, at_most_ns: u64) {
        let passed_ns = now.since(self.looked_at.replace(now).unwrap_or(now)).min(at_most_ns);
        self.known.values_mut().for_each(|peer| peer.silent_ns += passed_ns);
        self.newcomers.values_mut().for_each(|waiting| waiting.silent_ns += passed_ns);
    }
    /// Members that this one has not heard for so long, or that have forgotten what they knew.
    pub fn doubted(&self, membership: &Membership, silent_ns: u64) -> BTreeSet<Seat> {
        let is_doubted = |seat: &Seat| {
            let peer = self.known.get(&seat.node);
            peer.is_some_and(|peer| peer.silent_ns >= silent_ns || peer.has_forgotten)
        };
        membership.seats().filter(is_doubted).collect()
    }
    /// So many other members doubt this one.
    pub fn doubters(&self, membership: &Membership, of: Seat) -> usize {
        let doubts = |seat: &Seat| {
            self.known.get(&seat.node).is_some_and(|peer| *seat != of && peer.doubts.contains(&of))
        };
        membership.seats().filter(doubts).count()
    }

    /// Errors: a member is lost; until it is back, or removed, no epoch is published.
    pub fn check(&mut self, cluster: &Cluster, membership: &Membership) -> Result<(), SqlError> {
        let lost_ns = cluster.options.lost_after_ns;
        let lost: Vec<(NodeId, u64)> = membership
            .seats()
            .filter_map(|seat| Some((seat.node, self.known.get(&seat.node)?.silent_ns)))
            .filter(|(_, silent_ns)| *silent_ns >= lost_ns)
            .collect();
        let Some(&(node, silent_ns)) = lost.first() else { return Ok(()) };
        self.refused += 1;
        let topology = &cluster.topology;
        let name = topology.region_name(topology.region_of(node));
        let error = SqlError::new(SqlState::CANNOT_CONNECT_NOW, format!("region {name} is not available"));
        let silent_s = silent_ns as f64 / SECOND as f64;
        let members = membership.seats().count();
        let why = match cluster.options.removes_lost {
            false => "Engine geogauss publishes no epoch without every member, unless lost ones are removed."
                .into(),
            true => format!(
                "Of {members} members {} have to agree to its removal, and {} are silent.",
                membership.majority(),
                lost.len()
            ),
        };
        Err(error
            .detail(format!("Nothing was heard of it for {silent_s:.1} s. {why}"))
            .hint("Bring the region back with its memory; levels session and stale read on meanwhile."))
    }
    /// How each region is, as far as this node can tell.
    pub fn health(
        &self,
        cluster: &Cluster,
        membership: &Membership,
        blocked_transactions: u64,
    ) -> Vec<RegionHealth> {
        let health = |node: NodeId| {
            let silent_ns = self.known.get(&node).map_or(0, |peer| peer.silent_ns);
            let state = match silent_ns {
                _ if membership.seat_of(node).is_none() => RegionState::Removed,
                ns if ns >= cluster.options.lost_after_ns => RegionState::Lost,
                ns if ns >= cluster.options.lost_after_ns / 4 => RegionState::Suspected,
                _ => RegionState::Up,
            };
            let is_up = state == RegionState::Up;
            // What a removed region would have ordered nobody waits for.
            let blocks = !is_up && membership.seat_of(node).is_some();
            RegionHealth {
                region: cluster.topology.region_of(node),
                state,
                silent_ns: if is_up { 0 } else { silent_ns },
                blocked_transactions: if blocks { blocked_transactions } else { 0 },
                blocked_rows: 0,
                refused: if is_up { 0 } else { self.refused },
            }
        };
        cluster.topology.node_ids().map(health).collect()
    }
}

fn raise(known: &mut BTreeMap<Seat, Epoch>, told: &BTreeMap<Seat, Epoch>) {
    for (seat, epoch) in told {
        let known = known.entry(*seat).or_default();
        *known = (*known).max(*epoch);
    }
}

//! What a member remembers, and what it does about what happens.

use super::clock::EpochClock;
use super::cluster::Cluster;
use super::gateway::Gateway;
use super::governing::Government;
use super::inbox::Inbox;
use super::joining::Joining;
use super::membership::Membership;
use super::message::{Epoch, Message, Progress, Seat};
use super::options::{Mutant, Options};
use super::outbox::Outbox;
use super::peers::Peers;
use super::publishing::Published;
use super::readers::Readers;
use super::records::Records;
use super::requests::Requests;
use crate::donor::Donor;
use crate::engine::{EngineEffect, Executor};
use base::topology::Topology;
use base::{NodeId, Rank, SqlError, Time};
use std::collections::BTreeSet;
use std::sync::Arc;

pub(super) type Out = Vec<EngineEffect<Message>>;

/// The engine at one node: parts that own what they remember.
#[derive(Clone, Debug)]
pub struct Geogauss {
    pub(super) cluster: Cluster,
    pub(super) clock: EpochClock,
    pub(super) membership: Membership,
    pub(super) government: Government,
    pub(super) outbox: Outbox,
    pub(super) inbox: Inbox,
    pub(super) peers: Peers,
    pub(super) published: Published,
    pub(super) requests: Requests,
    pub(super) gateway: Gateway,
    pub(super) readers: Readers,
    floors: Floors,
    pace: Pace,
    pub(super) life: Life,
    pub(super) records: Records,
}

/// When something is said, or let out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// When something was last sent to everybody.
    said_at: Time,
    beat_at: Time,
    gate_at: Option<Time>,
    /// Something came that others wait to hear of.
    owes_word: bool,
}

/// Whether the node takes part, and copies that it or others need to do so.
#[derive(Clone, Debug, Default)]
pub(super) struct Life {
    /// It has no seat, or has not caught up since it was given one.
    pub joining: Option<Joining>,
    pub donor: Donor,
    /// How long it took to come back, in ns, and the bytes of the copy.
    pub came_back: Option<(u64, u64)>,
    /// Why this node takes part in nothing any more.
    pub failed: Option<SqlError>,
}

/// What is still read.
#[derive(Clone, Copy, Debug, Default)]
struct Floors {
    /// Least cut of this node's readers.
    readers: Option<Rank>,
    /// The same as others were told; it never falls.
    told: Rank,
    /// What no reader of any member needs was given up up to here.
    collected: Rank,
}

impl Floors {
    /// What others are told while everything up to this rank is published.
    fn tell(&mut self, published: Rank) -> Rank {
        let floor = self.readers.map_or(published, |floor| floor.min(published));
        self.told = self.told.max(floor);
        self.told
    }
}

impl Geogauss {
    /// An engine for `me` in its `incarnation`-th life. Panics if the options are out of range or a node does not keep
    /// every partition ([`Options::check`], [`Geogauss::check`]).
    pub fn new(topology: Arc<Topology>, me: NodeId, incarnation: u32, options: Options) -> Geogauss {
        let checked = options.check().and_then(|()| Cluster::check(&topology));
        checked.unwrap_or_else(|error| panic!("{}", error.message));
        let ignores_counts = options.planted(Mutant::IgnoreCounts);
        let cluster = Cluster { topology, me, options };
        let mut membership = Membership::new(me, cluster.members(), true);
        membership.heard_incarnation(me, incarnation);
        Geogauss {
            clock: EpochClock::new(&cluster.options),
            government: Government::default(),
            outbox: Outbox::default(),
            inbox: Inbox::new(membership.seats(), ignores_counts),
            peers: Peers::new(cluster.others()),
            published: Published::new(cluster.topology.partitions.len()),
            requests: Requests::default(),
            gateway: Gateway::new(me, incarnation),
            readers: Readers::default(),
            floors: Floors::default(),
            pace: Pace::default(),
            life: Life::default(),
            records: Records::default(),
            membership,
            cluster,
        }
    }
    /// The same for a node that has lost what it knew: its seat is of a former life, and it comes back on another one,
    /// where lost members are removed at all.
    pub fn rejoining(topology: Arc<Topology>, me: NodeId, incarnation: u32, options: Options) -> Geogauss {
        let failed = (!options.removes_lost).then(Geogauss::cannot_rejoin);
        let mut node = Geogauss::new(topology, me, incarnation, options);
        node.membership.leave();
        node.life = Life { failed, joining: Some(Joining::new(incarnation)), ..Life::default() };
        node
    }
    /// Errors: a node that loses its memory cannot come back, and why.
    pub fn check_rejoins(&self) -> Result<(), SqlError> {
        if self.cluster.options.removes_lost { Ok(()) } else { Err(Geogauss::cannot_rejoin()) }
    }
    /// How long coming back took, in ns, and how many bytes the copy had, if this node has come back.
    pub fn came_back(&self) -> Option<(u64, u64)> {
        self.life.came_back
    }
    pub(super) fn absent(&self) -> Option<SqlError> {
        let topology = &self.cluster.topology;
        let region = || topology.region_name(topology.region_of(self.cluster.me));
        let joining = self.life.joining.as_ref().map(|joining| joining.reason(region()));
        self.life.failed.clone().or(joining)
    }
    /// It has a state that is worth going on from.
    pub(super) fn is_current(&self) -> bool {
        self.life.joining.as_ref().is_none_or(Joining::is_restored)
    }
    pub fn cannot_rejoin() -> SqlError {
        SqlError::unsupported("the return of a region that has lost its memory with engine geogauss")
            .detail("The others wait for epochs that it has closed and does not remember.")
            .hint("With --survive 1 the others remove it, and it comes back with a copy.")
    }
    /// Errors: the engine cannot run in this cluster.
    pub fn check(topology: &Topology) -> Result<(), SqlError> {
        Cluster::check(topology)
    }

    /// The last published epoch, and the digest of all decisions up to there.
    pub fn decided(&self) -> (Epoch, u64) {
        self.published.decided()
    }

    // ---- what is said -----------------------------------------------------------------------------

    pub(super) fn progress(&self) -> Progress {
        Progress {
            seat: self.membership.seat(),
            incarnation: self.gateway.incarnation(),
            known: self.membership.known(),
            stage: self.membership.stage(),
            have: self.told_have(),
            published: self.published.epoch(),
            decided: self.published.decided(),
            doubts: self.government.doubts.clone(),
        }
    }
    /// Says it to all other members, and to nodes that would be let in.
    pub(super) fn tell_all(&mut self, now: Time, message: &Message, out: &mut Out) {
        self.pace.said_at = now;
        // Everything but a write set says how far this node is.
        self.pace.owes_word &= matches!(message, Message::WriteSet { .. });
        let me = self.cluster.me;
        let newcomers = self.peers.newcomers().map(|(node, _)| node);
        let to: BTreeSet<NodeId> = match self.membership.seat() {
            Some(_) => self.membership.seats().map(|seat| seat.node).chain(newcomers).collect(),
            None => self.cluster.others().collect(),
        };
        let told = to.into_iter().filter(|node| *node != me);
        out.extend(told.map(|to| EngineEffect::Send { to, message: message.clone() }));
    }

    // ---- time -------------------------------------------------------------------------------------

    /// What is missing is asked for, what was not acknowledged is said again.
    fn beat(&mut self, now: Time, out: &mut Out) {
        let beat_ns = self.cluster.options.beat_ns;
        self.look_at_silence(now);
        self.ask_for_missing(now, out);
        if now < self.pace.beat_at {
            return;
        }
        self.pace.beat_at = now + beat_ns;
        if now.since(self.pace.said_at) < beat_ns {
            // While epochs go on, the next end shows what is missing.
            return;
        }
        if !self.is_current() {
            return; // What it has will be replaced by a copy.
        }
        let progress = self.progress();
        let Some(me) = self.membership.seat() else {
            return self.tell_all(now, &Message::Alive { progress }, out);
        };
        self.pace.said_at = now;
        // A member that was removed is told so when it is heard, and it hears of those that it takes for members.
        let newcomers: Vec<NodeId> = self.peers.newcomers().map(|(node, _)| node).collect();
        let members: Vec<Seat> = self.membership.seats().filter(|seat| *seat != me).collect();
        for to in members.into_iter().map(|seat| seat.node).chain(newcomers) {
            let progress = progress.clone();
            let message = match self.outbox.unacknowledged(me, self.peers.has(to, me)) {
                Some(segment) => Message::EndOfEpoch { of: me, segment, progress, is_busy: false },
                None => Message::Alive { progress },
            };
            out.push(EngineEffect::Send { to, message });
        }
    }

    /// What one call has brought about is followed to its end.
    pub(super) fn settle(&mut self, now: Time, executor: &mut dyn Executor, out: &mut Out) {
        if self.life.failed.is_none() {
            if !self.is_recorded() {
                self.look(now, out);
            }
            self.govern(now, out);
            if self.is_current() {
                self.publish(now, executor, out);
                self.serve_again(now);
            }
            // A record holds up what follows it: what is answered comes before.
            self.let_out(now, out);
            self.answer_readers(out);
            self.pace.owes_word |= self.keep_news(out);
            if self.is_recorded() {
                self.look(now, out);
            }
            // To be evaluated again may bring about nothing that is complete at once, but where there is one member.
            self.evaluate_parked(now, executor, out);
            if self.pace.owes_word {
                let progress = self.progress();
                self.tell_all(now, &Message::Alive { progress }, out);
            }
            self.beat(now, out);
            self.go_on_joining(now, out);
            let retry_ns = self.cluster.options.retry_after_ns(&self.cluster.topology);
            self.life.donor.drop_unwanted(now, retry_ns, executor);
        }
        self.let_out(now, out);
    }

    /// Answers leave whose time has come.
    fn let_out(&mut self, now: Time, out: &mut Out) {
        self.pace.gate_at = self.answer_clients(now, out);
    }

    pub(super) fn next_wake(&self) -> Option<Time> {
        if self.life.failed.is_some() {
            return self.pace.gate_at;
        }
        let pull_after_ns = self.cluster.options.pull_after_ns(&self.cluster.topology);
        let times = [
            self.clock.next(self.published.epoch()).filter(|_| self.membership.seat().is_some()),
            self.inbox.next_look(pull_after_ns),
            self.pace.gate_at,
            Some(self.pace.beat_at),
        ];
        times.into_iter().flatten().min()
    }

    // ---- readers ----------------------------------------------------------------------------------

    /// Everything up to this rank is published.
    pub(super) fn low(&self) -> Rank {
        self.clock.rank(self.published.epoch())
    }
    /// Whatever was answered before now, anywhere, is ranked at or below: it was published, which took this member's end
    /// of that epoch. Where members are removed, the epoch that is open: if this member was removed meanwhile, and
    /// others went on without it, it will never be published here.
    pub(super) fn latest(&self) -> Rank {
        let open = self.clock.open();
        self.clock.rank(if self.cluster.options.removes_lost { open } else { open.previous() })
    }
    pub(super) fn collected(&self) -> Rank {
        self.floors.collected
    }
    /// What this member tells others that is still read.
    pub(super) fn tell_floor(&mut self) -> Rank {
        self.floors.tell(self.low())
    }
    /// What others were told that is still read.
    pub(super) fn told_floor(&self) -> Rank {
        self.floors.told
    }
    pub(super) fn set_told_floor(&mut self, told: Rank) {
        self.floors.told = self.floors.told.max(told);
    }
    /// Nobody reads below.
    pub(super) fn take_floor(&mut self, floor: Rank, out: &mut Out) {
        if floor > self.floors.collected {
            self.floors.collected = floor;
            out.push(EngineEffect::Collected { below: floor });
        }
    }
    pub(super) fn set_floor(&mut self, floor: Option<Rank>) {
        self.floors.readers = floor;
    }
    /// This node takes part in nothing any more.
    pub(super) fn stop_for_good(&mut self, error: SqlError) {
        self.life.failed.get_or_insert(error);
    }

    /// A new life: what the former one had under way goes on.
    pub(super) fn begin_life(&mut self, now: Time, incarnation: u32) {
        self.resume_gateway(incarnation);
        (self.pace.beat_at, self.pace.said_at) = (now, Time::ZERO);
    }
}

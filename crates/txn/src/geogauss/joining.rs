//! A node without a seat: it has lost its memory, or was removed while it was out of reach. It comes back with a copy.
//!
//! IN: blocks of a member's copy, epochs of members, changes of the membership. OUT: the state as of an epoch that the
//! donor had published, and all that follows; a wish to be let in. KEEPS, until it has a seat:
//! 1. it closes no epoch, promises nothing, and what it has counts for no majority;
//! 2. it answers no client and no reader;
//! 3. a copy is of one moment, state and rows; members keep every epoch behind it until this node has that;
//! 4. then it publishes epochs as a member does, and asks to be let in. Its first epoch comes with the change; clients
//!    are served once everything before that is published here, so it knows whatever was answered before.
//!
//! A node that kept its memory does the same: what others have merged since need not be kept by anybody any more. Its
//! clients are told that the end of what they asked is unknown, unless it was in an epoch that does not count.

use super::inbox::Arrived;
use super::membership::{Change, Newcomer};
use super::message::{Epoch, Message, Seat};
use super::outbox::Outbox;
use super::publishing::Published;
use super::requests::Requests;
use super::state::{Geogauss, Out};
use crate::donor::{Blocks, CopyId, Given, Part, SILENCE_DOUBLINGS_MAX, WINDOW, Wish};
use crate::engine::{EngineEffect, Executor};
use base::codec;
use base::{NodeId, PartitionId, Rank, SqlError, SqlState, Time};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What a member's state is made of, beside rows.
#[derive(Serialize, Deserialize)]
pub(super) struct Image {
    pub changes: Vec<Change>,
    pub arrived: BTreeMap<Seat, Arrived>,
    pub published: Published,
    pub requests: Requests,
    pub collected: Rank,
}

/// How far a node without a seat is.
#[derive(Clone, Debug)]
pub(super) struct Joining {
    copy: CopyId,
    /// Whose copy is arriving, and in which life it makes it.
    donor: Option<(NodeId, Option<u32>)>,
    tried: Vec<NodeId>,
    next: u32,
    of: Option<u32>,
    early: BTreeMap<u32, Part>,
    state: Vec<u8>,
    rows: BTreeSet<PartitionId>,
    bytes: u64,
    times: Times,
    /// The copy is here; epochs behind it are published since.
    is_restored: bool,
    /// It is let in, and its clients are once this epoch is published.
    serves_after: Option<Epoch>,
    /// Others know a later life of this node.
    refused: Option<u32>,
    /// It has kept its memory, and learnt that it was removed.
    was_removed: bool,
}

/// When a node without a seat did what.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    began: Option<Time>,
    asked_at: Time,
    heard_at: Time,
    /// When an epoch was published last, and which.
    moved: (Time, Epoch),
}

impl Joining {
    pub fn new(life: u32) -> Joining {
        Joining {
            copy: CopyId { life, number: 0 },
            donor: None,
            tried: Vec::new(),
            next: 0,
            of: None,
            early: BTreeMap::new(),
            state: Vec::new(),
            rows: BTreeSet::new(),
            bytes: 0,
            times: Times::default(),
            is_restored: false,
            serves_after: None,
            refused: None,
            was_removed: false,
        }
    }
    /// The same for a node that learns that others removed it.
    pub fn removed(life: u32) -> Joining {
        Joining { was_removed: true, ..Joining::new(life) }
    }
    /// A member that was let in by its seat's first epoch, and comes back with what its disk has.
    pub fn let_in(life: u32, from: Epoch) -> Joining {
        Joining { is_restored: true, serves_after: Some(from.previous()), ..Joining::new(life) }
    }
    pub fn is_restored(&self) -> bool {
        self.is_restored
    }
    pub fn refuse(&mut self, incarnation: u32) {
        self.refused = Some(incarnation);
    }

    /// Why nobody is answered.
    pub fn reason(&self, region: &str) -> SqlError {
        let state = SqlState::CANNOT_CONNECT_NOW;
        if let Some(known) = self.refused {
            let message = format!("region {region} came back in an old life");
            return SqlError::new(state, message)
                .detail(format!(
                    "The other regions know its incarnation {known}, and this is {}.",
                    self.copy.life
                ))
                .hint(
                    "Two processes may run as the same node, or it was started from an old copy of its data.",
                );
        }
        let progress = match (self.of, self.serves_after) {
            (_, Some(_)) => "It is a member again, and publishes what was decided meanwhile.".into(),
            _ if self.is_restored => "It has a copy, and catches up.".into(),
            (Some(of), _) => format!("It has {} of {of} blocks of another region's copy.", self.next),
            (None, _) if self.next > 0 => format!("It has {} blocks of another region's copy.", self.next),
            (None, _) => "It has asked another region for a copy.".into(),
        };
        let message = match self.was_removed {
            true => format!("region {region} was removed from the cluster and is coming back"),
            false => format!("region {region} is not a member and is coming back"),
        };
        SqlError::new(state, message)
            .detail(progress)
            .hint("Connect to another region, or try again in a moment.")
    }
}

impl Geogauss {
    /// This node has lost its seat; of what it sent `last` is the last that counts.
    pub(super) fn fall_out(&mut self, now: Time, last: Epoch, out: &mut Out) {
        base::sometimes!("a member finds that it was removed");
        self.life.joining = Some(Joining::removed(self.gateway.incarnation()));
        self.give_up_transactions(now, last);
        self.refuse_readers(out);
    }

    /// This node is a member again.
    pub(super) fn let_in(&mut self, now: Time, newcomer: Newcomer, out: &mut Out) {
        let Some(joining) = self.life.joining.as_mut().filter(|joining| joining.is_restored) else { return };
        if newcomer.incarnation != self.gateway.incarnation() {
            return; // Of a former life; it will be found out.
        }
        base::sometimes!("a node that was not a member is let in");
        joining.serves_after = Some(newcomer.from.previous());
        self.record_seat(newcomer.from, out);
        self.take_seat(newcomer.from);
        self.look(now, out);
    }

    /// Another member has heard of a later life of this node, or of this one.
    pub(super) fn on_old_life(&mut self, incarnation: u32) {
        let own = self.gateway.incarnation();
        if let Some(joining) = self.life.joining.as_mut().filter(|_| own <= incarnation) {
            joining.refuse(incarnation);
        }
    }

    /// The same in a former life: it comes back with its seat, and goes on from there.
    pub(super) fn was_let_in(&mut self, from: Epoch) {
        self.life.joining = Some(Joining::let_in(self.gateway.incarnation(), from));
    }
    /// In a former life it had come back from whatever it had lost before.
    pub(super) fn had_come_back(&mut self) {
        self.life.joining = None;
    }

    /// Serves clients again, once it knows what was answered before.
    pub(super) fn serve_again(&mut self, now: Time) {
        let published = self.published.epoch();
        let Some(joining) = &self.life.joining else { return };
        if joining.serves_after.is_some_and(|after| published >= after) {
            base::sometimes!("a region that came back serves clients");
            self.life.came_back = Some((now.since(joining.times.began.unwrap_or(now)), joining.bytes));
            self.life.joining = None;
        }
    }

    /// Asks for what lacks, again and again.
    pub(super) fn go_on_joining(&mut self, now: Time, out: &mut Out) {
        let retry_ns = self.cluster.options.retry_after_ns(&self.cluster.topology);
        let donors = self.cluster.donors();
        let published = self.published.epoch();
        let incarnation = self.gateway.incarnation();
        let known = self.membership.known();
        let Some(joining) = self.life.joining.as_mut() else { return };
        if joining.serves_after.is_some() || joining.refused.is_some() {
            return;
        }
        joining.times.began.get_or_insert(now);
        if joining.is_restored {
            if published > joining.times.moved.1 {
                joining.times.moved = (now, published);
            } else if now.since(joining.times.moved.0) > 8 * retry_ns + 2 * self.cluster.options.lost_after_ns
            {
                base::sometimes!("a newcomer cannot catch up and takes another copy");
                joining.is_restored = false;
                joining.donor = None;
            }
        }
        if now.since(joining.times.asked_at) < retry_ns / 2 {
            return;
        }
        joining.times.asked_at = now;
        let is_restored = joining.is_restored;
        let donor = joining.donor.map(|(node, _)| node);
        let is_ready = is_restored && self.keeps_up();
        let join = Message::Join { known, incarnation, is_ready };
        out.extend(donors.iter().map(|to| EngineEffect::Send { to: *to, message: join.clone() }));
        if is_restored {
            return;
        }
        let joining = self.life.joining.as_mut().expect("just seen");
        // Each time a donor is given longer.
        let doublings = (joining.copy.number + 1).min(SILENCE_DOUBLINGS_MAX);
        if donor.is_some() && now.since(joining.times.heard_at) > retry_ns << doublings {
            base::sometimes!("a node that comes back asks another donor");
            joining.tried.extend(joining.donor.take().map(|(node, _)| node));
        }
        if joining.donor.is_none() {
            if donors.iter().all(|node| joining.tried.contains(node)) {
                joining.tried.clear();
            }
            let untried = donors.iter().find(|node| !joining.tried.contains(node));
            let Some(donor) = untried else { return };
            joining.donor = Some((*donor, None));
            joining.copy.number += 1;
            (joining.next, joining.of, joining.times.heard_at) = (0, None, now);
            joining.early.clear();
            joining.state.clear();
            joining.rows.clear();
        }
        self.ask_blocks(out);
    }
    /// It lacks no more than is on its way.
    fn keeps_up(&self) -> bool {
        let margin_ns = 4 * self.cluster.topology.wan.widest_ns() + 200 * base::time::MS;
        let margin = margin_ns.div_ceil(self.cluster.options.epoch_ns);
        let seen = self.cluster.others().map(|node| self.peers.published_of(node)).max().unwrap_or_default();
        self.published.epoch().0 + margin >= seen.0
    }

    fn ask_blocks(&mut self, out: &mut Out) {
        let Some(joining) = &self.life.joining else { return };
        let Some((donor, _)) = joining.donor else { return };
        let message = Message::CopyWanted { copy: joining.copy, from: joining.next };
        out.push(EngineEffect::Send { to: donor, message });
    }

    pub(super) fn on_copy_part(
        &mut self,
        now: Time,
        from: NodeId,
        (copy, by, number, of, part): (CopyId, u32, u32, Option<u32>, Part),
        executor: &mut dyn Executor,
        out: &mut Out,
    ) {
        let Some(joining) = self.life.joining.as_mut() else { return };
        let Some((_, life)) = joining.donor.as_mut().filter(|(donor, _)| *donor == from) else { return };
        if joining.copy != copy || joining.is_restored || life.is_some_and(|life| by < life) {
            return;
        }
        if *life.get_or_insert(by) != by {
            joining.donor = None; // It has lost its memory meanwhile.
            return;
        }
        (joining.times.heard_at, joining.of) = (now, of.or(joining.of));
        if number >= joining.next {
            joining.early.insert(number, part);
        }
        let mut blocks = Vec::new();
        while let Some(part) = joining.early.remove(&joining.next) {
            joining.next += 1;
            match part {
                Part::State(bytes) => {
                    joining.bytes += bytes.len() as u64;
                    joining.state.extend(bytes);
                }
                Part::Rows { partition, bytes } => {
                    joining.bytes += bytes.len() as u64;
                    let is_first = joining.rows.insert(partition);
                    if is_first {
                        executor.forget(partition);
                    }
                    executor.restore(partition, &bytes);
                    blocks.push((is_first, partition, bytes));
                }
            }
        }
        let (next, is_window, of) = (joining.next, joining.next % WINDOW == 0, joining.of);
        for (is_first, partition, bytes) in &blocks {
            self.record_copied((*is_first, *partition, bytes), out);
        }
        if of != Some(next) {
            if is_window {
                self.ask_blocks(out);
            }
            return;
        }
        let joining = self.life.joining.as_mut().expect("just seen");
        let state = std::mem::take(&mut joining.state);
        match codec::decode::<Image>(&state) {
            Ok(image) => self.take_over(now, image, out),
            // A donor of another version. Another one may do.
            Err(_) => joining.tried.extend(joining.donor.take().map(|(node, _)| node)),
        }
    }

    fn take_over(&mut self, now: Time, image: Image, out: &mut Out) {
        base::sometimes!("a node without a seat has a copy");
        self.ask_blocks(out); // Tells the donor that all has come.
        let Image { changes, arrived, published, requests, collected } = image;
        self.take_chain(changes);
        self.go_on_from(arrived, Outbox::default());
        let moved = (now, published.epoch());
        (self.published, self.requests) = (published, requests);
        let joining = self.life.joining.as_mut().expect("a copy was asked for");
        (joining.is_restored, joining.times.moved) = (true, moved);
        self.record_whole(out);
        out.push(EngineEffect::Restored);
        self.take_floor(collected, out);
        // It may have been let in while it took another copy.
        let own = |newcomer: &Newcomer| newcomer.node == self.cluster.me;
        let added =
            self.membership.changes().iter().filter_map(|change| change.added).filter(own).next_back();
        if let Some(newcomer) = added.filter(|_| self.membership.seat_of(self.cluster.me).is_some()) {
            self.let_in(now, newcomer, out);
        }
    }

    /// The copy that is arriving cannot be finished: another one is begun.
    pub(super) fn on_copy_ended(&mut self, now: Time, from: NodeId, copy: CopyId, out: &mut Out) {
        let Some(joining) = self.life.joining.as_mut() else { return };
        let gives = joining.donor.is_some_and(|(donor, _)| donor == from);
        if gives && joining.copy == copy && !joining.is_restored {
            joining.donor = None;
            joining.times.asked_at = Time::ZERO;
            self.go_on_joining(now, out);
        }
    }

    // ---- at a member ------------------------------------------------------------------------------

    /// This member's state as another node gets it, beside rows.
    pub(super) fn copied_image(&self) -> Image {
        Image {
            changes: self.membership.changes().to_vec(),
            arrived: self.inbox.members().clone(),
            published: self.published.clone(),
            requests: self.requests.clone(),
            collected: self.collected(),
        }
    }

    pub(super) fn on_copy_wanted(
        &mut self,
        now: Time,
        from: NodeId,
        (copy, first): (CopyId, u32),
        executor: &mut dyn Executor,
        out: &mut Out,
    ) {
        let is_waiting = self.peers.newcomers().any(|(node, _)| node == from);
        if self.membership.seat().is_none() || self.life.joining.is_some() || !is_waiting {
            return;
        }
        match self.life.donor.wish(from, copy, first) {
            Wish::Over => return,
            Wish::Ended => {
                return out.push(EngineEffect::Send { to: from, message: Message::CopyEnded { copy } });
            }
            Wish::Further => {}
            Wish::Anew => {
                base::sometimes!("a member gives another node a copy of everything");
                let image = self.copied_image();
                let partitions: Vec<PartitionId> = self.cluster.topology.partition_ids().collect();
                executor.begin_copy(from, &partitions);
                self.life.donor.begin(now, from, (copy, self.gateway.incarnation()), &codec::encode(&image));
            }
        }
        let retry_ns = self.cluster.options.retry_after_ns(&self.cluster.topology);
        let mut given = Some((from, self.life.donor.hand_out(now, retry_ns, (from, first), executor)));
        // All that was asked for in one step.
        while let Some((to, part)) = given {
            match part {
                Given::Nothing => {}
                Given::Ended(copy) => {
                    out.push(EngineEffect::Send { to, message: Message::CopyEnded { copy } });
                }
                Given::Blocks(Blocks { copy, by, of, first, parts }) => {
                    out.extend((first..).zip(parts).map(|(number, part)| EngineEffect::Send {
                        to,
                        message: Message::CopyPart { copy, by, number, of, part },
                    }));
                }
            }
            given = self.life.donor.go_on(executor);
        }
    }
}

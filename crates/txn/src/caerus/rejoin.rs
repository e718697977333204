//! A region that lost its memory comes back: with a copy from elsewhere, and bound by what it has forgotten.
//!
//! IN: blocks of another node's copy; what the other regions' nodes that vote have promised and hold. OUT: a node
//! that stands where a node might stand that never lost anything. KEEPS, until it is whole:
//! 1. it votes for nobody, grants nothing, is counted among no copies, answers no reader and no client;
//! 2. it has a new life, and others hear of it: whoever has answered it counts nothing that a former life of it has
//!    said, and tells its life with everything that is counted itself;
//! 3. it is whole once it has a copy of the merger's state and of all rows as of one moment, and then, for each
//!    sequence, the promises, the grants and the logs of a quorum of the others: N − K of them, and K + 1 of them
//!    unless a candidate's own promise is enough. It has promised the latest term among theirs, and its log is the
//!    best of theirs, as far back as it is kept: others may lack what this region does not.
//! 4. blocks and answers count only in the life that asked for them: those that a former life asked for may come late,
//!    and are of another moment. So are blocks that another life of the donor has made.
//!
//! Why nothing answered is lost. What was answered rests on entries that K + 1 regions held in one term. If a former
//! life of this one was among them there are K others, and among any N − K others at least one of those: it held the
//! entry when it was asked here, so the entry is in the best log; or it came to hold it later, then it said so with
//! the new life's number, and the leader did not count the former life any more. The same holds of grants, and of a
//! leader that is a former life itself: K others had to acknowledge.
//!
//! Why no promise is broken. A promise that somebody leads by was given together with N − K − 1 others (the
//! candidate among them), so one of any K + 1 others gave it too: before it was asked here, then the term is known
//! here; or later, then with the new life's number, and the candidate counts the former life's promise no more.
//! Where N − K is 1 a candidate leads by its own promise, and its term is known to whoever agreed to it.
//!
//! Where more than K have lost their memory together the word of so many others may not be to be had. None of them comes
//! back then, and each says so as soon as it hears of the others: fewer answers could miss a promise, and guessing would
//! lose what was answered under it. Clusters where K would be too many already (two of four with K = 2) are refused at
//! the start (`comes_back`).
//!
//! What K regions lost may lack is with the others as ever: a region counts among the K until it is whole. So
//! K = 0 has no way back: what only the lost region had is nowhere, and where its sequence ended nobody can tell.
//! It says so to whoever asks, and everything that needs it is refused (see `availability`); nothing is guessed.
//!
//! Where nodes keep records, a node that lost its directory records the blocks of rows as they come and, when it is whole,
//! all else at once, so nobody hears of it before its disk has what it has promised again. If it ends before that, the next
//! start begins anew, in a later life.
//!
//! The copy comes in blocks of bounded size, so many at a time; what has come need not come again. All blocks are of the
//! moment when the copy began, and the donor makes them as they are asked for, while it goes on: it leaves out what was
//! applied since ([`Executor::begin_copy`]). A change of its catalog ends the copy; the donor says so, and another one is begun. A donor that is
//! silent is given up, and another's copy begun from its beginning. Entries behind the copy are kept by whoever leads
//! until every copy has merged them, this one by its former life's word; should that have been further than the
//! donor, the answers of the others say that something is gone, and a later copy is asked for.

pub(super) mod life;

use super::cluster::Refused;
use super::image::Image;
use super::message::{CopyId, Lives, Message, Part, SequenceId, Standing, Term};
use super::options::Mutant;
use super::state::Caerus;
use super::work::Out;
use crate::donor::{Blocks, Given, SILENCE_DOUBLINGS_MAX, WINDOW, Wish};
use crate::engine::{EngineEffect, Executor};
use base::codec;
use base::{NodeId, PartitionId, Rank, SqlError, SqlState, Time};
use std::collections::BTreeMap;

impl Caerus {
    /// Why nobody is answered here: the node has lost its memory and is not whole again.
    pub(super) fn not_whole(&self) -> Option<SqlError> {
        let region = self.cluster.topology.region_name(self.cluster.region);
        let state = SqlState::CANNOT_CONNECT_NOW;
        if let Some(sequence) = self.life.left_behind() {
            let of = self.cluster.topology.region_name(self.cluster.home_of(sequence));
            let message = format!("region {region} was away for too long and cannot catch up");
            return Some(
                SqlError::new(state, message)
                    .detail(format!("Other regions do not keep any more what it lacks of region {of}'s transactions."))
                    .hint("Start it without what it knew: it takes a copy from another region. Connect to another one meanwhile."),
            );
        }
        let joining = self.life.joining()?;
        if let Some(refused) = joining.refused {
            let error = SqlError::new(state, format!("region {region} has lost its memory for good"));
            let (detail, hint) = match refused {
                Refused::NothingElsewhere => (
                    "Nothing was kept in other regions (K = 0), so what it ordered last is nowhere, and nobody can \
                     tell what that was.",
                    "Connect to another region for what is not homed here; with --survive 1 or more a region can \
                     come back.",
                ),
                Refused::NobodyAlike => (
                    "No node of another region keeps copies of the same partitions, and none can be put together \
                     from several.",
                    "Connect to another region.",
                ),
            };
            return Some(error.detail(detail).hint(hint));
        }
        let voters = self.cluster.sequencers.iter().flatten().count();
        let (needed, forgot) = (self.cluster.answers_needed(), joining.others.len() + 1);
        let asks_nobody = self.life.is_new() && !self.cluster.survives();
        if voters - forgot < needed && !asks_nobody {
            let error = SqlError::new(state, format!("region {region} has lost its memory for good"));
            let copies = self
                .cluster
                .running()
                .into_iter()
                .map(|sequence| self.cluster.copies_of(sequence))
                .max()
                .unwrap_or(0);
            return Some(
                error
                    .detail(format!(
                        "{forgot} of {voters} regions have lost their memory together. To come back, each needs the \
                         word of {needed} others that have not (K = {copies}): fewer might not know what it has promised.",
                    ))
                    .hint(
                        "What the others hold can be read there at level stale. With 2 K + 1 regions or more, K that \
                         lose their memory together come back.",
                    ),
            );
        }
        let what =
            if self.life.is_new() { "joins the cluster" } else { "has lost its memory and is coming back" };
        let error = SqlError::new(state, format!("region {region} {what}"));
        let progress = match (joining.of, &joining.answers) {
            (_, Some(answers)) => format!("It has a copy and the word of {} other regions.", answers.len()),
            (Some(of), None) => format!("It has {} of {of} blocks of another region's copy.", joining.next),
            (None, None) if joining.next > 0 => {
                format!("It has {} blocks of another region's copy.", joining.next)
            }
            (None, None) => "It has asked another region for a copy.".into(),
        };
        Some(error.detail(progress).hint("Connect to another region, or try again in a moment."))
    }

    /// Its disk is that of a node that was not whole yet: it goes by its present life.
    pub(super) fn begin_later_life(&mut self) {
        if self.life.is_new() && !self.cluster.survives() {
            return; // It has said nothing that would have to be forgotten.
        }
        let (me, born) = (self.cluster.me, self.life.born());
        self.reborn(me, born);
    }

    /// Whether this node could come back if it lost its memory. Errors: 0A000, and why not.
    pub fn check_rejoins(&self, engine: &str) -> Result<(), SqlError> {
        let refused = match self.cluster.is_replica {
            true => self.cluster.refused(),
            false => None,
        };
        let Some(refused) = refused else { return Ok(()) };
        let message = format!("a region that has lost its memory cannot come back with engine {engine}");
        let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
        Err(match refused {
            Refused::NothingElsewhere => error
                .detail("Nothing is kept in other regions (K = 0), so what the region ordered last is nowhere else.")
                .hint("With --survive 1 or more, engine caerus can come back."),
            Refused::NobodyAlike => error.detail(
                "No node of another region keeps copies of the same partitions, and none can be put together from \
                 several.",
            ),
        })
    }

    /// Asks for what lacks, again and again.
    pub(super) fn go_on_joining(&mut self, now: Time, out: &mut Out) {
        let patience_ns = self.cluster.options.retry_after_ns(&self.cluster.topology);
        let donors = self.cluster.donors();
        let Some(joining) = self.life.joining_mut().filter(|joining| joining.refused.is_none()) else {
            return;
        };
        joining.began.get_or_insert(now);
        if joining.answers.is_some() {
            if now.since(joining.asked_at) >= patience_ns / 2 {
                self.ask_standings(now, out);
            }
            return;
        }
        // Each time a donor is given longer.
        let doublings = (joining.copy.number + 1).min(SILENCE_DOUBLINGS_MAX);
        if joining.donor.is_some() && now.since(joining.heard_at) > patience_ns << doublings {
            base::sometimes!("a region that comes back asks another donor");
            joining.tried.extend(joining.donor.take().map(|(node, _)| node));
        }
        if joining.donor.is_none() {
            let untried = donors.iter().find(|node| !joining.tried.contains(node));
            let Some(donor) = untried.or(donors.first()) else { return };
            if untried.is_none() {
                joining.tried.clear();
            }
            joining.donor = Some((*donor, None));
            joining.copy.number += 1;
            (joining.next, joining.of, joining.heard_at) = (0, None, now);
            joining.early.clear();
            joining.state.clear();
            joining.rows.clear();
            return self.ask_blocks(now, out);
        }
        if now.since(joining.asked_at.max(joining.heard_at)) >= patience_ns {
            self.ask_blocks(now, out);
        }
    }

    fn ask_blocks(&mut self, now: Time, out: &mut Out) {
        let Some(joining) = self.life.joining_mut() else { return };
        let Some((donor, _)) = joining.donor else { return };
        joining.asked_at = now;
        let message = Message::CopyWanted { copy: joining.copy, from: joining.next };
        self.send(donor, message, out);
    }

    pub(super) fn on_copy_part(
        &mut self,
        now: Time,
        from: NodeId,
        (copy, by, number, of, part): (CopyId, u32, u32, Option<u32>, Part),
        executor: &mut dyn Executor,
        out: &mut Out,
    ) {
        let Some(joining) = self.life.joining_mut() else { return };
        let Some((_, life)) = joining.donor.as_mut().filter(|(donor, _)| *donor == from) else { return };
        if joining.copy != copy || joining.answers.is_some() || life.is_some_and(|life| by < life) {
            return;
        }
        if *life.get_or_insert(by) != by {
            base::sometimes!("a donor lost its memory while it was giving a copy");
            joining.donor = None;
            return self.go_on_joining(now, out);
        }
        (joining.heard_at, joining.of) = (now, of.or(joining.of));
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
        let (next, of, is_window) = (joining.next, joining.of, joining.next % WINDOW == 0);
        for (is_first, partition, bytes) in blocks {
            self.record_copied((is_first, partition, &bytes), out);
        }
        if of != Some(next) {
            if is_window {
                self.ask_blocks(now, out);
            }
            return;
        }
        let Some(joining) = self.life.joining_mut() else { return };
        let state = std::mem::take(&mut joining.state);
        self.ask_blocks(now, out); // Tells the donor that all has come.
        let Ok(image) = codec::decode::<Image>(&state) else {
            // A donor of another version. Another one may do.
            let joining = self.life.joining_mut().expect("just found");
            return joining.tried.extend(joining.donor.take().map(|(node, _)| node));
        };
        self.forget_merged();
        self.take_over(image);
        self.life.joining_mut().expect("just found").answers = Some(BTreeMap::new());
        if self.life.is_new() && !self.cluster.survives() {
            // Nobody else can lead what others lead, and they keep all that is behind this copy.
            return self.become_whole(now, out);
        }
        // A node that does not vote is bound by nothing, but what it lacks behind its copy may be gone as well.
        self.ask_standings(now, out);
    }

    /// The copy that is arriving cannot be finished: another one is begun at once, by the same donor if it is the nearest.
    pub(super) fn on_copy_ended(&mut self, now: Time, from: NodeId, copy: CopyId, out: &mut Out) {
        let Some(joining) = self.life.joining_mut() else { return };
        let gives = joining.donor.is_some_and(|(donor, _)| donor == from);
        if gives && joining.copy == copy && joining.answers.is_none() {
            base::sometimes!("a region that comes back hears that its copy cannot be finished");
            joining.donor = None;
            self.go_on_joining(now, out);
        }
    }

    fn ask_standings(&mut self, now: Time, out: &mut Out) {
        let merged: Vec<u64> = self.logs.iter().map(|log| log.merged()).collect();
        let Some(joining) = self.life.joining_mut() else { return };
        joining.asked_at = now;
        let copy = joining.copy;
        for node in self.cluster.sequencers.clone().into_iter().flatten() {
            if node != self.cluster.me {
                let message = Message::Rejoin { copy, merged: merged.clone() };
                self.send(node, message, out);
            }
        }
    }

    /// A region comes back and wants to know where it stands. From now on nothing that it said before counts here.
    pub(super) fn on_rejoin(&mut self, from: NodeId, copy: CopyId, merged: &[u64], out: &mut Out) {
        let votes = self.cluster.sequencers[self.cluster.region.0 as usize] == Some(self.cluster.me);
        if !votes || merged.len() != self.logs.len() || !self.hear_lives(from, &[(from, copy.life)].into()) {
            return;
        }
        let standings = self.logs.iter().zip(merged).map(|(log, merged)| log.standing_for(*merged));
        let standings = standings.collect();
        self.record_lives(out);
        let lives = self.logs.lives().clone();
        self.send(from, Message::Rejoined { copy, lives, standings }, out);
    }

    pub(super) fn on_rejoined(
        &mut self,
        now: Time,
        from: NodeId,
        copy: CopyId,
        lives: &Lives,
        standings: Vec<Standing>,
        out: &mut Out,
    ) {
        let is_whole = self.life.joining().is_none_or(|joining| joining.copy != copy);
        if is_whole || standings.len() != self.logs.len() || !self.hear_lives(from, lives) {
            return;
        }
        let needed = self.cluster.answers_needed();
        let running = self.cluster.running();
        let joining = self.life.joining_mut().expect("just seen");
        let Some(answers) = &mut joining.answers else { return };
        let lacks = |sequence: &SequenceId| standings[usize::from(sequence.0)].tail.is_none();
        if running.iter().any(lacks) {
            base::sometimes!("what a region that comes back lacks is gone: it takes a later copy");
            joining.answers = None;
            joining.donor = None;
            return self.go_on_joining(now, out);
        }
        answers.insert(from, standings);
        if answers.len() >= needed {
            self.become_whole(now, out);
        }
    }

    fn become_whole(&mut self, now: Time, out: &mut Out) {
        let standings = self.life.recovered(now);
        self.stand_with(now, standings.into_values());
        self.record_whole(out);
        base::sometimes!("a region that lost its memory is whole again");
        out.push(EngineEffect::Restored);
        if self.collector.given_up() > Rank::ZERO {
            out.push(EngineEffect::Collected { below: self.collector.given_up() });
        }
        self.report_progress(now, out);
    }

    /// How long coming back took, in ns, and how many bytes the copy had, if this node had lost its memory.
    pub fn came_back(&self) -> Option<(u64, u64)> {
        self.life.came_back()
    }

    /// Another node has lost its memory and wants a copy, from a block on.
    pub(super) fn on_copy_wanted(
        &mut self,
        now: Time,
        from: NodeId,
        (copy, first): (CopyId, u32),
        executor: &mut dyn Executor,
        out: &mut Out,
    ) {
        match self.life.donor.wish(from, copy, first) {
            Wish::Over => return,
            Wish::Ended => return self.send(from, Message::CopyEnded { copy }, out),
            Wish::Further => {}
            Wish::Anew => {
                base::sometimes!("a region gives another one a copy of everything");
                let state = codec::encode(&self.merged_image());
                let partitions: Vec<PartitionId> = self.cluster.topology.copies_at(self.cluster.me).collect();
                executor.begin_copy(from, &partitions);
                let by = self.life.born();
                self.life.donor.begin(now, from, (copy, by), &state);
            }
        }
        let patience_ns = self.cluster.options.retry_after_ns(&self.cluster.topology);
        let given = self.life.donor.hand_out(now, patience_ns, (from, first), executor);
        self.give(from, given, out);
    }

    /// The next piece of a copy that another node has asked for.
    pub(super) fn go_on_giving(&mut self, executor: &mut dyn Executor, out: &mut Out) {
        if let Some((to, given)) = self.life.donor.go_on(executor) {
            self.give(to, given, out);
        }
    }

    fn give(&mut self, to: NodeId, given: Given, out: &mut Out) {
        match given {
            Given::Nothing => {}
            Given::Ended(copy) => self.send(to, Message::CopyEnded { copy }, out),
            Given::Blocks(Blocks { copy, by, of, first, parts }) => {
                for (number, part) in (first..).zip(parts) {
                    self.send(to, Message::CopyPart { copy, by, number, of, part }, out);
                }
            }
        }
    }

    /// Lets go of copies that nobody has asked for in a while.
    pub(super) fn drop_unwanted_copies(&mut self, now: Time, executor: &mut dyn Executor) {
        let patience_ns = self.cluster.options.retry_after_ns(&self.cluster.topology);
        self.life.donor.drop_unwanted(now, patience_ns, executor);
    }

    /// What lacks here is gone everywhere, unless it has come from an earlier leader.
    pub(super) fn on_left_behind(&mut self, from: NodeId, sequence: SequenceId, term: Term, first: u64) {
        if self.cluster.exists(sequence) && self.logs.of(sequence).is_left_behind(from, term, first) {
            base::sometimes!("a region finds that it was left behind");
            self.life.leave_behind(sequence);
        }
    }

    /// A node that is not whole notes who else is not, and says nothing. (With a planted fault it answers as if it had
    /// never lost anything.)
    pub(super) fn while_joining(&mut self, now: Time, from: NodeId, message: Message, out: &mut Out) {
        match message {
            Message::Append(append)
                if self.cluster.options.planted(Mutant::AckBeforeWhole)
                    && !append.said.entries.is_empty() =>
            {
                let (sequence, term) = (append.sequence, append.said.term);
                let next = append.said.first + append.said.entries.len() as u64;
                let (granted, probe, lives) =
                    (append.said.wanted, append.said.probe, self.logs.lives().clone());
                let (merged, gap, echo) = (0, false, append.said.sent_at);
                let ack =
                    Message::AppendAck { sequence, term, next, merged, gap, granted, probe, lives, echo };
                self.send(from, ack, out);
            }
            Message::Rejoin { .. } => {
                if let Some(joining) = self.life.joining_mut()
                    && self.cluster.sequencers.contains(&Some(from))
                {
                    base::sometimes!("two regions that have lost their memory hear of each other");
                    joining.others.insert(from);
                }
            }
            message @ (Message::Suspect { .. } | Message::Elect { .. })
                if self.cluster.options.planted(Mutant::VoteBeforeWhole) =>
            {
                self.handle(now, from, message, out)
            }
            _ => {}
        }
    }
}

//! One member of a group.
//!
//! IN: proposals, messages, finished writes, the clock. OUT: [`Outputs`], and committed entries in order
//! ([`Member::next_committed`]). KEEPS: `taken ≤ commit ≤ last`; the term, the vote and every entry that a
//! message speaks of are on stable storage before the message leaves (an `Append` excepted: the leader's
//! own copy counts only once it is stored); a committed entry is never truncated.
//!
//! One write is under way at a time; records that arrive meanwhile are gathered for the next one. This is group
//! commit, and it means that only the last write can be torn.

mod election;
mod options;
mod plausibility;
mod reach;
mod replication;

#[cfg(feature = "mutants")]
pub use options::Mutant;
pub use options::Options;
pub use plausibility::Refusals;

use crate::entry::{Checkpoint, Entry, Index, Payload, Position, Term};
use crate::journal::{self, Corrupt, Item};
use crate::log::Log;
use crate::message::Message;
use base::process::PersistToken;
use base::rng::Rng;
use base::{NodeId, Time};
use reach::Reach;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What a member asks of its host, in order.
#[derive(Debug, Default)]
pub struct Outputs {
    pub messages: Vec<(NodeId, Message)>,
    /// At most one write is under way, of this kind or the next.
    pub persist: Option<(PersistToken, Vec<u8>)>,
    /// To be written instead of everything written before: once it is done there is nothing else, and until
    /// then all of that is there.
    pub replace: Option<(PersistToken, Vec<u8>)>,
}

/// Only a leader takes proposals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotLeader {
    /// Who probably leads.
    pub leader: Option<NodeId>,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Member {
    me: NodeId,
    members: Vec<NodeId>,
    options: Options,
    rng: Rng,
    life: u32,
    term: Term,
    vote: Option<NodeId>,
    log: Log,
    reach: Reach,
    /// The latest one.
    checkpoint: Option<Checkpoint>,
    /// The caller has not been told of it yet.
    restores: bool,
    role: Role,
    waits: Waits,
    disk: Disk,
    refused: Refusals,
}

/// Readings of this member's clock that it waits for.
#[derive(Clone, Copy, Debug)]
struct Waits {
    /// Silence until this reading leads to a campaign.
    campaign_at: Time,
    /// No vote for another leader, and no campaign, before this reading.
    promised_until: Time,
}

/// What a member is at the moment.
#[derive(Clone, Debug)]
enum Role {
    Follower {
        leader: Option<NodeId>,
    },
    /// Asks whether a campaign has a chance.
    Sounding {
        would: BTreeSet<NodeId>,
    },
    /// Its own vote counts once this write is done.
    Candidate {
        votes: BTreeSet<NodeId>,
        own_write: u64,
    },
    Leader(Leading),
}

#[derive(Clone, Debug)]
struct Leading {
    /// Its opening entry. Once that is committed, so is everything that earlier leaders committed.
    opening: Index,
    followers: BTreeMap<NodeId, Follower>,
    heartbeat_at: Time,
    began: Time,
}

#[derive(Clone, Debug)]
struct Follower {
    /// Everything up to it is stored there.
    matched: Index,
    /// What to send next.
    next: Index,
    /// Messages with entries that were not answered yet.
    ahead: u32,
    /// When the latest append that it answered was sent. Answers to earlier ones, doubled ones included, move
    /// nothing back and let nothing more out: traffic would grow by itself.
    heard: Option<Time>,
}

/// Writes: what waits, what is under way, and what waits for them.
#[derive(Clone, Debug, Default)]
struct Disk {
    pending: Vec<Item>,
    /// The next write begins the journal anew.
    replaces: bool,
    /// Writes handed over, and how many of them are done: at most one is not.
    handed: u64,
    done: u64,
    /// The log's end once the write under way is done.
    stores: Index,
    /// Messages, with the write that has to be done before they leave.
    held: VecDeque<(u64, NodeId, Message)>,
}

impl Disk {
    /// The write that carries everything said so far.
    fn last_write(&self) -> u64 {
        self.handed + u64::from(!self.pending.is_empty() || self.replaces)
    }
}

impl Member {
    /// A member from what its disk holds. `members` is the whole group, the same at every member for ever.
    /// Errors if the records are not a log of this member.
    pub fn new(
        me: NodeId,
        members: &[NodeId],
        options: Options,
        rng: Rng,
        records: &[Vec<u8>],
    ) -> Result<Member, Corrupt> {
        assert!(members.contains(&me), "{me} is no member");
        assert!(members.iter().collect::<BTreeSet<_>>().len() == members.len(), "members differ");
        assert!(
            options.heartbeat_ns < options.election_ns.0 && options.election_ns.0 <= options.election_ns.1
        );
        let found = journal::recover(me, records)?;
        Ok(Member {
            me,
            members: members.to_vec(),
            options,
            rng: rng.fork_nth("member", u64::from(found.lives)),
            life: found.lives + 1,
            term: found.term,
            vote: found.vote,
            reach: Reach::of(found.log.base().index, found.log.last().index),
            // What a checkpoint holds was committed.
            restores: found.checkpoint.is_some(),
            checkpoint: found.checkpoint,
            log: found.log,
            role: Role::Follower { leader: None },
            waits: Waits { campaign_at: Time::ZERO, promised_until: Time::ZERO },
            disk: Disk::default(),
            refused: Refusals::new(),
        })
    }

    /// First call in a life.
    pub fn start(&mut self, now: Time, out: &mut Outputs) {
        self.disk.pending.push(Item::Life(self.me));
        // A former life may have promised anything up to now, by a clock that was ahead.
        let e = self.options.clock_bound_ns;
        let forgets = self.life == 1 || self.members.len() == 1 || self.is_planted_forgets_promise();
        self.waits.promised_until = if forgets { Time::ZERO } else { now + self.options.lease_ns + 4 * e };
        self.expect_leader(now);
        if self.members.len() == 1 {
            self.campaign(now);
        }
        self.finish(now, out);
    }

    /// Appends an entry; it is committed once [`Member::next_committed`] hands it out, if ever.
    pub fn propose(&mut self, now: Time, payload: Payload, out: &mut Outputs) -> Result<Position, NotLeader> {
        assert!(!payload.is_empty(), "an empty entry says nothing");
        if !matches!(self.role, Role::Leader(_)) {
            return Err(NotLeader { leader: self.leader() });
        }
        let position = self.append_own(payload);
        self.finish(now, out);
        Ok(position)
    }

    /// A message from another member.
    pub fn message(&mut self, now: Time, from: NodeId, message: Message, out: &mut Outputs) {
        if from == self.me || !self.members.contains(&from) {
            return; // A stranger; no guess about what it means.
        }
        if !self.is_plausible(now, from, &message) {
            return;
        }
        match message {
            Message::AskBefore { term, last } => self.would_vote(now, from, term, last),
            Message::WouldVote { term } => self.encouraged(now, from, term),
            Message::AskVote { term, last } => self.asked_for_vote(now, from, term, last),
            Message::Vote { term } => self.voted(now, from, term),
            Message::Append(append) => self.append(now, from, append),
            Message::Install { term, checkpoint, sent } => self.install(now, from, term, checkpoint, sent),
            Message::Appended { term, sent, result } => self.appended(now, from, term, sent, result),
        }
        self.finish(now, out);
    }

    /// The write with this token is on stable storage.
    pub fn persisted(&mut self, now: Time, token: PersistToken, out: &mut Outputs) {
        assert_eq!(token.0, self.disk.handed, "one write at a time");
        self.disk.done = token.0;
        self.reach.store_to(self.disk.stores);
        assert!(self.reach.stored() <= self.last().index);
        if matches!(self.role, Role::Candidate { own_write, .. } if own_write <= token.0) {
            self.voted(now, self.me, self.term);
        }
        self.advance_commit();
        self.finish(now, out);
    }

    /// To be called at [`Member::wake_at`], or whenever.
    pub fn wake(&mut self, now: Time, out: &mut Outputs) {
        match &self.role {
            Role::Leader(leading) if leading.heartbeat_at <= now => self.beat(now),
            Role::Leader(_) => {}
            _ if self.waits.campaign_at <= now => self.sound(now),
            _ => {}
        }
        self.finish(now, out);
    }

    /// The next clock reading at which a timer fires.
    pub fn wake_at(&self) -> Time {
        match &self.role {
            Role::Leader(_) if self.members.len() == 1 => Time::MAX,
            Role::Leader(leading) => leading.heartbeat_at,
            _ => self.waits.campaign_at,
        }
    }

    /// The next committed entry that was not handed out in this life; leaders' opening entries are skipped.
    pub fn next_committed(&mut self) -> Option<(Position, Payload)> {
        assert!(!self.restores, "a checkpoint comes first");
        while let Some(index) = self.reach.take_next() {
            let entry = self.log.get(index).expect("what was not handed out is not released");
            if !entry.payload.is_empty() {
                return Some((Position { term: entry.term, index }, entry.payload.clone()));
            }
        }
        None
    }

    /// A state that takes the place of the caller's, to be asked for before [`Member::next_committed`]: at the
    /// beginning of a life, and after a message or a write.
    pub fn next_checkpoint(&mut self) -> Option<Checkpoint> {
        let restores = std::mem::take(&mut self.restores);
        self.checkpoint.clone().filter(|_| restores)
    }

    /// Everything handed out so far adds up to `state`. The journal begins anew with it.
    pub fn checkpoint(&mut self, now: Time, state: Payload, out: &mut Outputs) {
        assert!(!self.restores, "the state is older than what was installed");
        let at = self.log.position(self.reach.taken()).expect("what was handed out last is kept");
        if at.index == Index::ZERO || self.checkpoint.as_ref().is_some_and(|known| known.at == at) {
            return;
        }
        self.checkpoint = Some(Checkpoint { at, state });
        self.disk.replaces = true;
        self.finish(now, out);
    }

    /// Lets go of entries that were handed out here and that every member has stored, or that a checkpoint
    /// holds: they will not be needed again. Without it the whole log stays in memory.
    pub fn release(&mut self) {
        let held = self.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.at.index.0);
        let needless = self.reach.everywhere().max(Index(held.saturating_sub(self.options.entries_kept)));
        let mut upto = needless.min(self.reach.taken()).min(self.reach.stored());
        if self.disk.replaces {
            // What follows the checkpoint is still to be written.
            upto = upto.min(Index(held));
        }
        if self.log.base().index < upto {
            self.log.release(upto);
        }
    }

    // ---- what it knows ----------------------------------------------------------------------------

    pub fn id(&self) -> NodeId {
        self.me
    }
    /// Which life this is, from 1.
    pub fn life(&self) -> u32 {
        self.life
    }
    /// True once this life cannot be forgotten: what it numbers by itself is never numbered again.
    pub fn is_born(&self) -> bool {
        self.disk.done > 0
    }
    pub fn term(&self) -> Term {
        self.term
    }
    pub fn is_leader(&self) -> bool {
        matches!(self.role, Role::Leader(_))
    }
    /// True if this member leads and has handed out everything that earlier leaders committed: it knows the
    /// present.
    pub fn is_ready(&self) -> bool {
        match &self.role {
            Role::Leader(leading) => leading.opening <= self.reach.taken(),
            _ => false,
        }
    }
    /// Who probably leads.
    pub fn leader(&self) -> Option<NodeId> {
        match &self.role {
            Role::Leader(_) => Some(self.me),
            Role::Follower { leader } => *leader,
            _ => None,
        }
    }
    /// Where the log ends.
    pub fn last(&self) -> Position {
        self.log.last()
    }
    /// Everything up to it is committed, as far as this member knows.
    pub fn commit(&self) -> Index {
        self.reach.commit()
    }
    /// An entry that is still in memory.
    pub fn entry(&self, index: Index) -> Option<&Entry> {
        self.log.get(index)
    }
    /// Entries up to here are no longer in memory.
    pub fn released(&self) -> Index {
        self.log.base().index
    }

    // ---- tools ------------------------------------------------------------------------------------

    fn majority(&self) -> usize {
        #[cfg(feature = "mutants")]
        if self.options.mutant == Some(Mutant::HalfIsEnough) {
            return self.members.len() / 2;
        }
        self.members.len() / 2 + 1
    }

    fn others(&self) -> impl Iterator<Item = NodeId> + use<> {
        let me = self.me;
        self.members.clone().into_iter().filter(move |m| *m != me)
    }

    /// Sends once everything said so far is stored.
    fn send(&mut self, to: NodeId, message: Message) {
        #[cfg(feature = "mutants")]
        if self.options.mutant == Some(Mutant::AnswersBeforeSync) {
            return self.disk.held.push_front((0, to, message));
        }
        self.disk.held.push_back((self.disk.last_write(), to, message));
    }

    fn remember_term(&mut self, term: Term, vote: Option<NodeId>) {
        assert!(self.term <= term, "terms grow");
        assert!(self.term < term || self.vote.is_none() || self.vote == vote, "one vote in a term");
        (self.term, self.vote) = (term, vote);
        #[cfg(feature = "mutants")]
        if self.options.mutant == Some(Mutant::ForgetsVote) {
            return self.disk.pending.push(Item::Term { term, vote: None });
        }
        self.disk.pending.push(Item::Term { term, vote });
    }

    fn append_own(&mut self, payload: Payload) -> Position {
        let index = self.last().index.next();
        let entry = Entry { term: self.term, payload };
        self.log.push(entry.clone());
        self.store(index, vec![entry]);
        Position { term: self.term, index }
    }

    fn store(&mut self, first: Index, entries: Vec<Entry>) {
        // Entries that follow each other become one item of the journal.
        if let Some(Item::Entries { first: before, entries: gathered }) = self.disk.pending.last_mut()
            && before.0 + gathered.len() as u64 == first.0
        {
            return gathered.extend(entries);
        }
        self.disk.pending.push(Item::Entries { first, entries });
    }

    /// All that has to be remembered, beginning with the checkpoint.
    fn whole_journal(&self) -> Vec<Item> {
        let checkpoint = self.checkpoint.clone().expect("there is one");
        let first = checkpoint.at.index.next();
        let entries = self.log.after(checkpoint.at.index);
        #[allow(unused_mut)]
        let mut vote = self.vote;
        #[cfg(feature = "mutants")]
        if self.options.mutant == Some(Mutant::ChecksOutVote) {
            vote = None;
        }
        let (of, lives, term) = (self.me, self.life, self.term);
        let begins = Item::Checkpoint { of, lives, term, vote, checkpoint };
        vec![begins, Item::Entries { first, entries }]
    }

    fn expect_leader(&mut self, now: Time) {
        let (least, most) = self.options.election_ns;
        self.waits.campaign_at = now + least + self.rng.below(most - least + 1);
    }

    /// The end of every call: sends what is new to followers, starts the next write, lets messages go.
    fn finish(&mut self, now: Time, out: &mut Outputs) {
        self.replicate(now, out);
        let disk = &mut self.disk;
        if disk.handed == disk.done && (disk.replaces || !disk.pending.is_empty()) {
            disk.handed += 1;
            disk.stores = self.log.last().index;
            assert!(out.persist.is_none() && out.replace.is_none(), "one write at a time");
            let token = PersistToken(disk.handed);
            let pending = std::mem::take(&mut disk.pending);
            if std::mem::take(&mut disk.replaces) {
                out.replace = Some((token, journal::encode(&self.whole_journal())));
            } else {
                out.persist = Some((token, journal::encode(&pending)));
            }
        }
        let disk = &mut self.disk;
        while disk.held.front().is_some_and(|(write, ..)| *write <= disk.done) {
            let (_, to, message) = disk.held.pop_front().expect("was looked at");
            out.messages.push((to, message));
        }
        self.reach.check(self.last().index);
    }

    #[cfg(feature = "mutants")]
    fn is_planted_forgets_promise(&self) -> bool {
        self.options.mutant == Some(Mutant::ForgetsPromise)
    }
    #[cfg(not(feature = "mutants"))]
    fn is_planted_forgets_promise(&self) -> bool {
        false
    }
}

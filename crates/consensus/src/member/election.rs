//! Leader election: pre-votes, votes, promises, the lease.
//!
//! The lease. An append sent at reading s of the leader's clock and answered is a promise of the answering
//! member: no vote for another, and no campaign, before its own clock shows more than s + L + 2ε. The
//! leader holds the lease while its clock shows less than s + L, for the latest s that a majority has
//! answered (itself at any time). At true time τ the one clock shows at least τ − ε and the other at most
//! τ + ε, so the lease is over by s + L + ε at the latest and no such vote is given before; and a new leader
//! needs the vote of one of that majority. A promise lives in memory: a member that restarts keeps the
//! greatest it may have given.

use super::*;

impl Member {
    /// No leader was heard for a while: would the others vote for this member? A group of one need not ask.
    pub(super) fn sound(&mut self, now: Time) {
        self.expect_leader(now);
        if now <= self.waits.promised_until {
            self.waits.campaign_at = self.waits.campaign_at.max(self.waits.promised_until + 1);
            return;
        }
        self.role = Role::Sounding { would: BTreeSet::from([self.me]) };
        let (term, last) = (self.term.next(), self.last());
        self.others().for_each(|m| self.send(m, Message::AskBefore { term, last }));
        if self.majority() <= 1 {
            self.campaign(now);
        }
    }

    pub(super) fn would_vote(&mut self, now: Time, from: NodeId, term: Term, last: Position) {
        if self.term < term && self.is_free(now) && self.accepts(last) {
            self.send(from, Message::WouldVote { term });
        }
    }

    pub(super) fn encouraged(&mut self, now: Time, from: NodeId, term: Term) {
        let majority = self.majority();
        let Role::Sounding { would } = &mut self.role else { return };
        if term != self.term.next() {
            return;
        }
        would.insert(from);
        if majority <= would.len() {
            self.campaign(now);
        }
    }

    /// A new term with oneself as candidate.
    pub(super) fn campaign(&mut self, now: Time) {
        assert!(
            now > self.waits.promised_until || self.members.len() == 1,
            "a promise forbids this campaign"
        );
        self.expect_leader(now);
        self.remember_term(self.term.next(), Some(self.me));
        self.role = Role::Candidate { votes: BTreeSet::new(), own_write: self.disk.last_write() };
        let (term, last) = (self.term, self.last());
        self.others().for_each(|m| self.send(m, Message::AskVote { term, last }));
    }

    pub(super) fn asked_for_vote(&mut self, now: Time, from: NodeId, term: Term, last: Position) {
        // Promised members do not even learn the term: it would unseat the leader they promised.
        if term < self.term || !self.is_free(now) {
            return;
        }
        if self.term < term {
            self.follow(now, term, None);
        }
        let undecided = self.vote.is_none_or(|vote| vote == from);
        if matches!(self.role, Role::Follower { .. }) && undecided && self.accepts(last) {
            if self.vote.is_none() {
                self.remember_term(term, Some(from));
            }
            self.expect_leader(now);
            self.send(from, Message::Vote { term });
        }
    }

    pub(super) fn voted(&mut self, now: Time, from: NodeId, term: Term) {
        let majority = self.majority();
        let Role::Candidate { votes, .. } = &mut self.role else { return };
        if term != self.term {
            return;
        }
        votes.insert(from);
        // A majority without oneself is none: the own vote may not be stored yet.
        if majority <= votes.len() && votes.contains(&self.me) {
            self.lead(now);
        }
    }

    fn lead(&mut self, now: Time) {
        let next = self.last().index.next();
        let fresh = || Follower { matched: Index::ZERO, next, ahead: 0, heard: None };
        let followers = self.others().map(|m| (m, fresh())).collect();
        let opening = self.append_own(Payload::default()).index;
        self.role = Role::Leader(Leading { opening, followers, heartbeat_at: now, began: now });
        if self.members.len() > 1 {
            self.beat(now);
        }
    }

    /// Follows in this term from now on; `leader` if it is known.
    pub(super) fn follow(&mut self, now: Time, term: Term, leader: Option<NodeId>) {
        if self.term < term {
            self.remember_term(term, None);
        }
        if !matches!(self.role, Role::Follower { .. }) {
            self.expect_leader(now);
        }
        self.role = Role::Follower { leader };
    }

    /// The reading up to which no other member can lead; `None` if this member has no lease at all.
    pub fn lease_until(&self) -> Option<Time> {
        let Role::Leader(leading) = &self.role else { return None };
        if self.members.len() == 1 {
            return Some(Time::MAX);
        }
        let mut heard: Vec<Time> = leading.followers.values().filter_map(|f| f.heard).collect();
        heard.sort_unstable_by(|a, b| b.cmp(a));
        // With oneself this many others are a majority.
        let since = *heard.get(self.majority().saturating_sub(2))?;
        #[cfg(feature = "mutants")]
        if self.options.mutant == Some(Mutant::TrustsClocks) {
            return Some(since + self.options.lease_ns + 2 * self.options.clock_bound_ns);
        }
        Some(since + self.options.lease_ns)
    }

    /// True while this member leads and knows that nobody else does.
    pub fn has_lease(&self, now: Time) -> bool {
        self.lease_until().is_some_and(|until| now < until)
    }

    /// Bound by no promise to a living leader.
    fn is_free(&self, now: Time) -> bool {
        #[cfg(feature = "mutants")]
        if self.options.mutant == Some(Mutant::BreaksPromise) {
            return true;
        }
        now > self.waits.promised_until && !self.has_lease(now)
    }

    pub(super) fn promise(&mut self, sent: Time) {
        let until = sent + self.options.lease_ns + 2 * self.options.clock_bound_ns;
        self.waits.promised_until = self.waits.promised_until.max(until);
    }

    /// A log that ends here lacks nothing that is committed and that this member has.
    fn accepts(&self, last: Position) -> bool {
        #[cfg(feature = "mutants")]
        if self.options.mutant == Some(Mutant::VotesForShorterLogs) {
            return true;
        }
        self.last() <= last
    }
}

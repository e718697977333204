//! Who leads: a node stands if its leader is silent, and leads with the promises of all regions but K; and how a node goes
//! on that has lost its memory, or that has what its disk has.

use super::super::entries::Item;
use super::super::group::{Fault, Term};
use super::super::kept::{Change, Kept};
use super::super::leader::Leader;
use super::super::link::Outbox;
use super::super::said::{Grant, Posts, Said, Standing, Tail};
use super::{Log, Terms};
use base::{NodeId, Rank, RegionId, Time};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// This node would lead.
#[derive(Clone, Debug)]
pub(super) struct Candidacy<E> {
    term: Term,
    /// Regions that miss the leader too, and then what they promised.
    agreed: BTreeSet<RegionId>,
    promised: Option<BTreeMap<RegionId, Tail<E>>>,
    /// When it has failed.
    until: Time,
}

impl<E> Candidacy<E> {
    pub(super) fn term(&self) -> Term {
        self.term
    }
    /// It has asked for promises.
    pub(super) fn stands(&self) -> bool {
        self.promised.is_some()
    }
    /// What a region had said, it said in a life that is over.
    pub(super) fn forget(&mut self, region: RegionId) {
        self.agreed.remove(&region);
        if let Some(promised) = &mut self.promised {
            promised.remove(&region);
        }
    }
}

impl<E: Item> Log<E> {
    /// Stands if the leader is silent, or if this is the region that the sequence belongs to. Whether it leads now.
    pub fn watch(&mut self, now: Time, posts: &mut Posts<E>) -> bool {
        let group = self.group.clone();
        if let Some(told_at) = self.resigning {
            self.resign_again(now, told_at, posts);
            return false;
        }
        if !group.votes() || self.leader.is_some() {
            return false;
        }
        if let Some(candidacy) = &self.candidacy {
            if now < candidacy.until {
                return false;
            }
            self.candidacy = None;
        }
        let (suspect_ns, widest_ns) = (group.times.suspect_ns, group.times.widest_ns);
        let regions = group.voters.len() as u64;
        let Terms { promised, led_in, led_at, heard_at, .. } = self.terms;
        // One after the other, so that not all stand at once.
        let turn = (regions + u64::from(group.region.0) - promised % regions) % regions;
        let is_silent =
            now.since(heard_at) >= suspect_ns + turn * widest_ns || self.is_resigned_for(now, turn);
        let is_calm = now.since(heard_at) < suspect_ns / 4 && now.since(led_at) > 2 * suspect_ns;
        let is_home = group.home == group.region && is_calm && self.entries.is_caught_up(led_in);
        if !is_silent && !is_home {
            return false;
        }
        let mut term = self.terms.highest + 1;
        while group.region_of_term(term) != group.region {
            term += 1;
        }
        base::sometimes!("a region would lead a sequence");
        let until = now + 2 * widest_ns + suspect_ns / 2 + turn * widest_ns;
        let agreed = [group.region].into();
        self.candidacy = Some(Candidacy { term, agreed, promised: None, until });
        group.other_voters().for_each(|node| posts.push((node, Said::Suspect { term })));
        self.agreed(now, posts)
    }

    /// A candidate asks whether the leader is missed here too.
    pub fn on_suspect(&mut self, now: Time, from: NodeId, term: Term, posts: &mut Posts<E>) {
        if self.group.leader_in(term) != Some(from) || !self.group.votes() {
            return;
        }
        let is_home = self.group.region_of_term(term) == self.group.home;
        self.terms.highest = self.terms.highest.max(term);
        let is_silent =
            now.since(self.terms.heard_at) >= self.group.times.suspect_ns / 2 || self.is_resigned_for(now, 0);
        if term <= self.terms.promised {
            posts.push((from, Said::Overtaken { term: self.terms.promised }));
        } else if is_silent && self.leader.is_none() || is_home || self.resigning.is_some() {
            posts.push((from, Said::Agreed { term }));
        }
    }

    /// This node is about to end. It stands no more; where it leads, it goes on until another one does, and asks for that.
    pub fn resign(&mut self, now: Time, posts: &mut Posts<E>) {
        self.candidacy = None;
        self.tell_resigning(now, posts);
    }
    /// The same again after a while, since messages may be lost.
    fn resign_again(&mut self, now: Time, told_at: Time, posts: &mut Posts<E>) {
        if now.since(told_at) >= self.group.times.suspect_ns / 4 {
            self.tell_resigning(now, posts);
        }
    }
    fn tell_resigning(&mut self, now: Time, posts: &mut Posts<E>) {
        self.resigning = Some(now);
        if let Some(term) = self.term().filter(|_| self.group.votes()) {
            self.group.other_voters().for_each(|node| posts.push((node, Said::Resigns { term })));
        }
    }
    /// The leader of a term asks others to lead. It decides only when somebody stands: promises decide who leads.
    pub fn on_resigns(&mut self, now: Time, from: NodeId, term: Term) {
        let is_known = self.terms.resigned.is_some_and(|(known, _)| term <= known);
        if self.group.leader_in(term) == Some(from) && self.group.votes() && !is_known {
            self.terms.resigned = Some((term, now));
        }
    }
    /// Whether the leader that is followed has asked others to lead, long enough ago for those whose turn is before this
    /// one's.
    fn is_resigned_for(&self, now: Time, turn: u64) -> bool {
        let Terms { resigned, led_in, .. } = self.terms;
        let pause_ns = 2 * (self.group.times.widest_ns + self.group.times.heartbeat_ns);
        let is_due = |at: Time| now.since(at) >= turn.saturating_sub(1) * pause_ns;
        resigned.is_some_and(|(term, at)| term >= led_in && is_due(at))
    }

    /// Another region misses the leader too. Whether this node leads now.
    pub fn on_agreed(&mut self, now: Time, from: NodeId, term: Term, posts: &mut Posts<E>) -> bool {
        let Some(region) = self.group.region_of_voter(from) else { return false };
        let Some(candidacy) = self.candidacy.as_mut().filter(|own| own.term == term) else { return false };
        candidacy.agreed.insert(region);
        self.agreed(now, posts)
    }

    /// Enough others miss the leader: asks for promises.
    fn agreed(&mut self, now: Time, posts: &mut Posts<E>) -> bool {
        let enough = self.group.agreements_needed();
        let Some(candidacy) = &mut self.candidacy else { return false };
        let term = candidacy.term;
        if candidacy.promised.is_some() || candidacy.agreed.len() < enough || term <= self.terms.promised {
            return false;
        }
        base::sometimes!("a region stands for election");
        (self.terms.promised, self.terms.highest) = (term, self.terms.highest.max(term));
        let entries = &self.entries;
        let (merged, accepted, end) = (entries.merged(), entries.accepted(), entries.end());
        let own = Tail { accepted, end, granted: entries.granted(), entries: Vec::new() };
        candidacy.promised = Some([(self.group.region, own)].into());
        for node in self.group.other_voters() {
            posts.push((node, Said::Elect { term, merged, accepted, end }));
        }
        self.elected(now)
    }

    /// A candidate asks to follow nobody below its term.
    pub fn on_elect(
        &mut self,
        now: Time,
        from: NodeId,
        term: Term,
        (merged, accepted, end): (u64, Term, u64),
        posts: &mut Posts<E>,
    ) {
        if self.group.leader_in(term) != Some(from) || !self.group.votes() {
            return;
        }
        self.terms.highest = self.terms.highest.max(term);
        if term < self.terms.promised {
            return posts.push((from, Said::Overtaken { term: self.terms.promised }));
        }
        if !self.group.planted(Fault::ForgetPromises) {
            self.terms.promised = term;
            self.terms.heard_at = now;
            self.candidacy = None;
            self.step_down(now, term);
        }
        if let Some(tail) = self.entries.tail(merged, accepted, end) {
            posts.push((from, Said::Promise { term, tail }));
        }
    }

    /// Another region follows nobody below this term. Whether this node leads now.
    pub fn on_promise(&mut self, now: Time, from: NodeId, term: Term, tail: Tail<E>) -> bool {
        let Some(region) = self.group.region_of_voter(from) else { return false };
        let own = self.candidacy.as_mut().filter(|own| own.term == term);
        let Some(promised) = own.and_then(|own| own.promised.as_mut()) else { return false };
        promised.insert(region, tail);
        self.elected(now)
    }

    /// Enough have promised: leads, with the best log among theirs.
    fn elected(&mut self, now: Time) -> bool {
        let needed = self.group.promises_needed();
        let candidacy =
            self.candidacy.take_if(|own| own.promised.as_ref().is_some_and(|p| p.len() >= needed));
        let Some(Candidacy { term, promised: Some(promised), .. }) = candidacy else { return false };
        let best = promised.iter().max_by_key(|(region, tail)| (tail.accepted, tail.end, Reverse(**region)));
        let (&best, tail) = best.expect("one is its own");
        let granted = match self.group.planted(Fault::ForgetGrants) {
            true => Grant::default(),
            false => promised.values().fold(Grant::default(), |all, tail| all.max(tail.granted)),
        };
        assert_eq!(self.terms.promised, term, "a candidate promises itself");
        let is_longer = (tail.accepted, tail.end) > (self.entries.accepted(), self.entries.end());
        if best != self.group.region && is_longer && !self.group.planted(Fault::KeepOwnLog) {
            base::sometimes!("a leader goes on with another region's log");
            self.entries.adopt_tail(term, tail);
        }
        base::sometimes!("a region leads another's sequence");
        self.entries.lead(term);
        (self.terms.led_in, self.terms.led_at) = (term, now);
        let (first, entries) = self.entries.kept();
        let leader = Leader::new(&self.group, now, term, (first, entries.clone()), granted);
        self.leader = Some(Box::new(leader));
        true
    }

    /// There is a later term than one that this node knows.
    pub fn on_overtaken(&mut self, now: Time, term: Term) {
        self.terms.highest = self.terms.highest.max(term);
        if self.term().is_some_and(|own| own < term) {
            self.terms.promised = self.terms.promised.max(term);
            self.step_down(now, term);
        }
        if self.candidacy.as_ref().is_some_and(|candidacy| candidacy.term < term) {
            self.candidacy = None;
        }
    }

    // Loss of memory; see `caerus::rejoin`.

    /// What a node of a region said, it said in a life that is over.
    pub fn forget(&mut self, node: NodeId, region: RegionId) {
        if let Some(leader) = &mut self.leader {
            leader.begin_again(node, self.entries.kept());
        }
        if let Some(candidacy) = &mut self.candidacy {
            candidacy.forget(region);
        }
    }
    /// What this node has promised, and its log, for one that has lost both and has merged `merged` entries.
    pub fn standing_for(&self, merged: u64) -> Standing<E> {
        let Terms { promised, highest, led_in, .. } = self.terms;
        Standing { promised, highest, led_in, tail: self.entries.whole_tail(merged) }
    }
    /// Begins where another node's copy stands; nothing behind that is here.
    pub fn take_over(&mut self, merged: u64, closed: Rank, collected: Rank) {
        self.entries.take_over(merged, closed, collected);
    }
    /// Has promised what any of these regions has, and has the best of their logs, as a new leader would.
    pub fn stand_with(&mut self, now: Time, others: Vec<Standing<E>>) {
        let mut tails = Vec::new();
        for other in others {
            let Standing { promised, highest, led_in, tail } = other;
            if !self.group.planted(Fault::StandUnbound) {
                self.terms.promised = self.terms.promised.max(promised);
                self.terms.highest = self.terms.highest.max(highest).max(promised);
                self.terms.led_in = self.terms.led_in.max(led_in);
            }
            tails.extend(tail);
        }
        (self.terms.heard_at, self.terms.led_at) = (now, now);
        if self.group.planted(Fault::StandWithFirst) {
            tails.truncate(1);
        }
        if let Some(accepted) = self.entries.stand_with(tails) {
            self.terms.promised = self.terms.promised.max(accepted);
        }
    }

    // Other nodes; see `caerus::change`.

    /// Where the log ends, if all of it is merged here, and on this node's disk.
    pub fn point(&self) -> Option<u64> {
        let end = self.entries.end();
        let is_merged = self.entries.merged() == end && self.entries.unmerged().next().is_none();
        let is_kept = self.entries.disk_seen().is_some_and(|disk| disk.synced() >= end);
        (is_merged && is_kept && self.candidacy.is_none()).then_some(end)
    }
    /// All of it is known to be stable.
    pub fn all_is_stable(&mut self) {
        self.entries.stable_to(self.entries.end());
    }
    /// No more than this was told of the log by this node, or by others because this one let them.
    pub fn told_at_most(&self) -> Grant {
        let told = self.leader.as_ref().map_or(Rank::ZERO, |leader| leader.closed());
        let told = Grant { closed: told.max(self.entries.closed()), collected: self.entries.collected() };
        let on_disk = self.entries.disk_seen().map(|disk| disk.granted.max(disk.wanted()));
        self.entries.granted().max(told).max(on_disk.unwrap_or_default())
    }

    // On disk; see `kept`.

    /// What has to be remembered is recorded from now on.
    pub fn record(&mut self) {
        self.entries.record(self.terms_to_keep());
    }
    fn terms_to_keep(&self) -> (Term, Term) {
        match self.group.planted(Fault::UnrecordedTerms) {
            true => Default::default(),
            false => (self.terms.promised, self.terms.highest),
        }
    }
    /// Changes to record, in order, before anything is said because of them; `number` counts the node's records.
    pub fn take_changes(&mut self, number: &mut u64) -> Vec<Change<E>> {
        let terms = self.terms_to_keep();
        self.entries.take_changes(terms, number)
    }
    /// So many of the node's records are stable; whether more entries are, and a closed timestamp that may be told and
    /// could not be before.
    pub fn on_synced(&mut self, records: u64) -> (bool, Option<Rank>) {
        let is_more = self.entries.synced(records);
        let leads = self.leads();
        (is_more, self.entries.disk().and_then(|disk| disk.take_short()).filter(|_| leads))
    }

    /// A closed timestamp that this node would tell, as far as it may.
    pub(super) fn bounded(&mut self, rank: Rank) -> Rank {
        let (watermark, ceiling_ns) = (self.watermark, self.group.times.ceiling_ns);
        let is_bound = self.leader.is_some() && !self.group.planted(Fault::NoCeiling);
        match self.entries.disk().filter(|_| is_bound) {
            Some(disk) => disk.bound(rank, watermark, ceiling_ns),
            None => rank,
        }
    }
    /// Versions that may be given up, as far as this node may say so.
    pub(super) fn watermark_to_tell(&self) -> Rank {
        self.entries.disk_seen().map_or(self.watermark, |disk| self.watermark.min(disk.ceiling().collected))
    }
    /// What is merged here, as far as others may let go of it.
    pub(super) fn settled(&self) -> u64 {
        let merged = self.entries.merged();
        self.entries.disk_seen().map_or(merged, |disk| merged.min(disk.settled))
    }
    /// Entries before this are stable as far as they are on this node's disk.
    pub(super) fn claim_to(&mut self, claimed: u64) {
        match self.group.planted(Fault::CountBeforeSync) {
            true => self.entries.stable_to(claimed),
            false => self.entries.claim_to(claimed),
        }
    }

    /// For a checkpoint.
    pub fn kept(&self) -> Kept<E> {
        // With K > 0 the log itself keeps what others may lack. Before a node starts again its outbox is of no log.
        let is_own = |outbox: &&Outbox<E>| self.group.copies == 0 && outbox.end() == self.entries.end();
        let outbox = self.outbox().filter(is_own);
        let outbox = outbox.map(|outbox| (outbox.first(), outbox.items().cloned().collect()));
        self.entries.to_keep((self.terms.promised, self.terms.highest), outbox)
    }
    /// Is what a checkpoint says, before anything else.
    pub fn take_kept(&mut self, kept: Kept<E>) {
        (self.terms.promised, self.terms.highest) = (kept.promised, kept.highest);
        self.entries.take_kept(kept);
    }
    /// Repeats a change; false: it does not follow from those before.
    pub fn replay(&mut self, change: Change<E>) -> bool {
        if let Change::Terms { promised, highest } = change {
            self.terms.promised = self.terms.promised.max(promised);
            self.terms.highest = self.terms.highest.max(highest);
        }
        self.entries.replay(change)
    }
    /// Everything was repeated: it goes on from there. A region whose sequence nobody else may lead (K = 0) leads it
    /// again, in a term of its own: who follows says how far it is, and gateways send again what was under way.
    /// `leads`: it led from the beginning.
    pub fn restarted(&mut self, now: Time, leads: bool) {
        let (accepted, hearing) = (self.entries.accepted(), self.entries.hearing());
        let known = accepted.max(hearing);
        self.terms.promised = self.terms.promised.max(known);
        self.terms.highest = self.terms.highest.max(self.terms.promised);
        self.terms.led_in = known;
        (self.terms.heard_at, self.terms.led_at) = (now, now);
        self.leader = None;
        self.entries.restarted(self.terms_to_keep());
        let (first, mut lacking) = self.entries.split_merged();
        if self.group.copies == 0 {
            // What is here comes from its leader's disk.
            self.entries.stable_to(self.entries.end());
        }
        if !leads || self.group.copies > 0 {
            return;
        }
        let regions = self.group.voters.len() as Term;
        let term =
            self.terms.highest + regions - (self.terms.highest % regions) + Term::from(self.group.home.0);
        (self.terms.promised, self.terms.highest) = (term, term);
        (self.terms.led_in, self.terms.led_at) = (term, now);
        self.entries.lead(term);
        lacking.extend(self.entries.unmerged().cloned());
        let floor = self.entries.granted_on_disk();
        self.leader = Some(Box::new(Leader::new(&self.group, now, term, (first, lacking.into()), floor)));
    }
}

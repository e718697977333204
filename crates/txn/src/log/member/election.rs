//! Who leads: a node stands if its leader is silent, and leads with the promises of all regions but K.

use super::super::entries::Item;
use super::super::group::{Fault, Term};
use super::super::leader::Leader;
use super::super::said::{Grant, Posts, Said, Tail};
use super::{Log, Terms};
use base::{NodeId, RegionId, Time};
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
        let is_silent = now.since(heard_at) >= suspect_ns + turn * widest_ns;
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
        let is_silent = now.since(self.terms.heard_at) >= self.group.times.suspect_ns / 2;
        if term <= self.terms.promised {
            posts.push((from, Said::Overtaken { term: self.terms.promised }));
        } else if is_silent && self.leader.is_none() || is_home {
            posts.push((from, Said::Agreed { term }));
        }
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
            self.entries.adopt(term, tail.entries.clone());
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
}

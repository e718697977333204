//! A region is lost, or cut off: another one leads its sequence, and hands it back.
//!
//! IN: silence of a sequence's leader; what other regions say to a candidate. OUT: a leader of a later term,
//! with everything in its log that anybody may have been told of. KEEPS:
//! 1. one region leads in a term, and only with the promises of all regions but K;
//! 2. a promise is kept before it leaves: whoever gave it takes nothing of earlier terms, so whoever led before
//!    finds too few to make anything stable: it answers nothing that could be lost, and grants run out under
//!    what it tells readers;
//! 3. nothing is added before K others have all that was taken over;
//! 4. whoever is known from another sequence, or to its gateway, and belongs into this one is added then.
//!
//! The rest vanishes: it was in fewer than K + 1 regions, so nobody was told of it. More than K regions lost:
//! too few are left to promise, or to make anything stable. What needs the sequence is refused (see `availability`);
//! nothing is guessed.
//!
//! A candidate asks first whether others miss the leader too, and leaves its term alone until enough do: one
//! broken link does not end a term. The region that the sequence belongs to stands by itself once it has caught
//! up and its links have been calm for a while: it orders its own at home.

use super::message::{Grant, Message, Tail, Term};
use super::options::Mutant;
use super::rounds::inside;
use super::sequencer::Sequencer;
use super::state::{Caerus, Out};
use base::{NodeId, RegionId, Time};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// This node would lead a sequence.
#[derive(Clone, Debug)]
pub(super) struct Candidacy {
    term: Term,
    /// Regions that miss the leader too, and then what they promised.
    agreed: BTreeSet<RegionId>,
    promised: Option<BTreeMap<RegionId, Tail>>,
    /// When it has failed.
    until: Time,
}

impl Candidacy {
    /// It has asked for promises in this term.
    pub fn stands_in(&self, term: Term) -> bool {
        self.term == term && self.promised.is_some()
    }
    /// What a region had said, it said in a life that is over.
    pub fn forget(&mut self, region: RegionId) {
        self.agreed.remove(&region);
        if let Some(promised) = &mut self.promised {
            promised.remove(&region);
        }
    }
}

impl Caerus {
    /// Who leads a sequence, and in which term, as far as is known here.
    pub(super) fn leader(&self, sequence: RegionId) -> (NodeId, Term) {
        (self.leader_of(sequence), self.sequences[sequence.0 as usize].led_in)
    }
    /// Who leads a sequence, as far as is known here.
    pub(super) fn leader_of(&self, sequence: RegionId) -> NodeId {
        let region = self.cluster.region_of_term(self.sequences[sequence.0 as usize].led_in);
        self.cluster.sequencers[region.0 as usize].expect("a region that leads has a node for it")
    }
    pub(super) fn tell_voters(&mut self, message: &Message, out: &mut Out) {
        for node in self.cluster.sequencers.clone().into_iter().flatten() {
            if node != self.cluster.me {
                self.send(node, message.clone(), out);
            }
        }
    }

    /// Stands for sequences whose leaders are silent, and for the own one.
    pub(super) fn watch(&mut self, now: Time, out: &mut Out) {
        let suspect_ns = self.cluster.options.suspect_after_ns(&self.cluster.topology);
        let widest_ns = self.cluster.topology.wan.widest_ns();
        let regions = self.cluster.sequencers.len() as u64;
        for sequence in self.cluster.running() {
            if !self.cluster.votes(sequence) || self.leading.contains_key(&sequence) {
                continue;
            }
            if let Some(candidacy) = self.candidacies.get(&sequence) {
                if now < candidacy.until {
                    continue;
                }
                self.candidacies.remove(&sequence);
            }
            let known = &self.sequences[sequence.0 as usize];
            // One after the other, so that not all stand at once.
            let turn = (regions + u64::from(self.cluster.region.0) - known.promised % regions) % regions;
            let is_silent = now.since(known.heard_at) >= suspect_ns + turn * widest_ns;
            let is_calm =
                now.since(known.heard_at) < suspect_ns / 4 && now.since(known.led_at) > 2 * suspect_ns;
            let is_home =
                self.cluster.home_of(sequence) == self.cluster.region && is_calm && known.is_caught_up();
            if !is_silent && !is_home {
                continue;
            }
            let mut term = known.highest + 1;
            while self.cluster.region_of_term(term) != self.cluster.region {
                term += 1;
            }
            base::sometimes!("a region would lead a sequence");
            let until = now + 2 * widest_ns + suspect_ns / 2 + turn * widest_ns;
            let agreed = [self.cluster.region].into();
            self.candidacies.insert(sequence, Candidacy { term, agreed, promised: None, until });
            self.tell_voters(&Message::Suspect { sequence, term }, out);
            self.agreed(now, sequence, out);
        }
    }

    pub(super) fn on_suspect(
        &mut self,
        now: Time,
        from: NodeId,
        sequence: RegionId,
        term: Term,
        out: &mut Out,
    ) {
        if !self.cluster.speaks(from, sequence, term) || !self.cluster.votes(sequence) {
            return;
        }
        let is_home = self.cluster.topology.region_of(from) == self.cluster.home_of(sequence);
        let suspect_ns = self.cluster.options.suspect_after_ns(&self.cluster.topology);
        let known = &mut self.sequences[sequence.0 as usize];
        known.highest = known.highest.max(term);
        let is_lost = now.since(known.heard_at) >= suspect_ns / 2 && !self.leading.contains_key(&sequence);
        if term <= known.promised {
            let term = known.promised;
            self.send(from, Message::Overtaken { sequence, term }, out);
        } else if is_lost || is_home {
            self.send(from, Message::Agreed { sequence, term }, out);
        }
    }

    pub(super) fn on_agreed(
        &mut self,
        now: Time,
        from: NodeId,
        sequence: RegionId,
        term: Term,
        out: &mut Out,
    ) {
        let region = self.cluster.topology.region_of(from);
        if self.cluster.sequencers[region.0 as usize] == Some(from)
            && let Some(candidacy) = self.candidacies.get_mut(&sequence)
            && candidacy.term == term
        {
            candidacy.agreed.insert(region);
            self.agreed(now, sequence, out);
        }
    }

    /// Enough others miss the leader: stands for election.
    fn agreed(&mut self, now: Time, sequence: RegionId, out: &mut Out) {
        // Fewer than K + 1 could make nothing stable.
        let enough = self.cluster.promises_needed(sequence).max(self.cluster.copies_of(sequence) + 1);
        let enough = if self.cluster.options.planted(Mutant::LeadAlone) { 1 } else { enough };
        let Some(candidacy) = self.candidacies.get_mut(&sequence) else { return };
        let known = &mut self.sequences[sequence.0 as usize];
        if candidacy.promised.is_some() || candidacy.agreed.len() < enough || candidacy.term <= known.promised
        {
            return;
        }
        base::sometimes!("a region stands for election");
        let term = candidacy.term;
        (known.promised, known.highest) = (term, known.highest.max(term));
        let (merged, accepted, end) = (known.merged, known.accepted, known.end());
        let own = Tail { accepted, end, granted: known.granted, entries: Vec::new() };
        candidacy.promised = Some([(self.cluster.region, own)].into());
        self.tell_voters(&Message::Elect { sequence, term, merged, accepted, end }, out);
        self.promised(now, sequence, out);
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn on_elect(
        &mut self,
        now: Time,
        from: NodeId,
        sequence: RegionId,
        term: Term,
        merged: u64,
        (accepted, end): (Term, u64),
        out: &mut Out,
    ) {
        if !self.cluster.speaks(from, sequence, term) || !self.cluster.votes(sequence) {
            return;
        }
        let known = &mut self.sequences[sequence.0 as usize];
        known.highest = known.highest.max(term);
        if term < known.promised {
            let term = known.promised;
            return self.send(from, Message::Overtaken { sequence, term }, out);
        }
        if !self.cluster.options.planted(Mutant::ForgetPromises) {
            known.promised = term;
            known.heard_at = now;
            self.candidacies.remove(&sequence);
            self.step_down(now, sequence, term);
        }
        if let Some(tail) = self.sequences[sequence.0 as usize].tail(merged, accepted, end) {
            let lives = self.lives.clone();
            self.send(from, Message::Promise { sequence, term, tail, lives }, out);
        }
    }

    pub(super) fn on_promise(
        &mut self,
        now: Time,
        from: NodeId,
        sequence: RegionId,
        term: Term,
        tail: Tail,
        out: &mut Out,
    ) {
        let region = self.cluster.topology.region_of(from);
        if self.cluster.sequencers[region.0 as usize] == Some(from)
            && let Some(candidacy) = self.candidacies.get_mut(&sequence)
            && candidacy.term == term
            && let Some(promised) = &mut candidacy.promised
        {
            promised.insert(region, tail);
            self.promised(now, sequence, out);
        }
    }

    /// Enough have promised: leads, with the best log among theirs.
    fn promised(&mut self, now: Time, sequence: RegionId, out: &mut Out) {
        let needed = self.cluster.promises_needed(sequence);
        let candidacy = self.candidacies.get(&sequence).expect("it stands");
        let Some(promised) = candidacy.promised.as_ref().filter(|promised| promised.len() >= needed) else {
            return;
        };
        let term = candidacy.term;
        let best = promised.iter().max_by_key(|(region, tail)| (tail.accepted, tail.end, Reverse(**region)));
        let (&best, tail) = best.expect("one is its own");
        let granted = promised.values().fold(Grant::default(), |all, tail| all.max(tail.granted));
        let known = &mut self.sequences[sequence.0 as usize];
        assert_eq!(known.promised, term, "a candidate promises itself");
        let is_longer = (tail.accepted, tail.end) > (known.accepted, known.end());
        if best != self.cluster.region && is_longer && !self.cluster.options.planted(Mutant::KeepOwnLog) {
            base::sometimes!("a leader goes on with another region's log");
            known.adopt(term, tail.entries.clone());
        }
        base::sometimes!("a region leads another's sequence");
        known.lead(now, term);
        let (first, entries) = known.kept();
        let kept = (first, entries.clone());
        self.candidacies.remove(&sequence);
        let mut sequencer =
            Sequencer::new(&self.cluster.topology, self.cluster.me, &self.cluster.options, now, term, kept);
        sequencer.floor = granted;
        if !self.cluster.is_global(sequence) {
            sequencer.inside = inside(&self.cluster.topology, self.cluster.me, &self.cluster.options);
        }
        self.leading.insert(sequence, sequencer);
        self.gateway.turn_inside(sequence);
        self.announce(sequence, out);
        self.beat(now, sequence, out);
    }

    /// K others have what was taken over: adds who belongs here, and is open.
    pub(super) fn opened(&mut self, now: Time, sequence: RegionId, out: &mut Out) {
        let sequencer = self.leading.get_mut(&sequence).expect("it is led here");
        let known = &self.sequences[sequence.0 as usize];
        assert!(known.merged >= sequencer.since, "what was taken over is safe, and merged");
        sequencer.is_open = true;
        let bit = 1u64 << sequence.0;
        let mut lacking = BTreeMap::new();
        if self.cluster.orders_orphans() {
            for (_, vertex) in self.merger.graph().iter() {
                if vertex.extra.regions & bit != 0 && vertex.extra.got & bit == 0 {
                    let transaction = vertex.transaction.clone().expect("entries carry whole transactions");
                    lacking.insert(vertex.id, (transaction, vertex.extra.request));
                }
            }
        }
        for (txn, outstanding) in self.gateway.outstanding() {
            if self.cluster.entrances(outstanding.regions()) & bit != 0 {
                lacking.insert(*txn, outstanding.named());
            }
        }
        for named in lacking.into_values() {
            if !self.is_ordered(sequence, named.0.id) {
                base::sometimes!("a new leader orders what the lost one did not");
                self.order(now, sequence, named, out);
            }
        }
    }

    /// Tells nodes without a copy, which hear no entries, who leads.
    pub(super) fn announce(&mut self, sequence: RegionId, out: &mut Out) {
        let sequencer = &self.leading[&sequence];
        let term = sequencer.term;
        if term == Term::from(self.cluster.home_of(sequence).0) {
            return; // As they know.
        }
        let hear = sequencer.replicas.clone();
        for node in self.cluster.topology.node_ids() {
            if node != self.cluster.me && !hear.contains(&node) {
                self.send(node, Message::Leads { sequence, term }, out);
            }
        }
    }

    /// A leader of this term is heard of: nobody here leads below it, and gateways turn to it.
    pub(super) fn leads(&mut self, now: Time, sequence: RegionId, term: Term) {
        let known = &mut self.sequences[sequence.0 as usize];
        known.highest = known.highest.max(term);
        if term <= known.led_in {
            return;
        }
        (known.led_in, known.led_at) = (term, now);
        self.step_down(now, sequence, term);
        if self.candidacies.get(&sequence).is_some_and(|candidacy| candidacy.term <= term) {
            self.candidacies.remove(&sequence);
        }
        self.gateway.turn_to(&self.cluster, sequence, self.leader(sequence));
    }

    fn step_down(&mut self, now: Time, sequence: RegionId, term: Term) {
        if self.leading.get(&sequence).is_some_and(|sequencer| sequencer.term < term) {
            base::sometimes!("a leader finds that its term is over");
            self.leading.remove(&sequence);
            self.sequences[sequence.0 as usize].heard_at = now;
        }
    }

    pub(super) fn on_overtaken(&mut self, now: Time, sequence: RegionId, term: Term) {
        let Some(known) = self.sequences.get_mut(sequence.0 as usize) else { return };
        known.highest = known.highest.max(term);
        if self.leading.get(&sequence).is_some_and(|sequencer| sequencer.term < term) {
            known.promised = known.promised.max(term);
            self.step_down(now, sequence, term);
        }
        if self.candidacies.get(&sequence).is_some_and(|candidacy| candidacy.term < term) {
            self.candidacies.remove(&sequence);
        }
    }

    pub(super) fn on_leads(&mut self, now: Time, from: NodeId, sequence: RegionId, term: Term) {
        let exists = self.cluster.exists(sequence);
        // Whoever else says so has heard it of the leader.
        let can = self.cluster.sequencers[self.cluster.region_of_term(term).0 as usize].is_some();
        if exists && can && self.cluster.topology.nodes.len() > usize::from(from.0) {
            self.leads(now, sequence, term);
        }
    }

    /// What lacks here is gone everywhere, unless it has come from an earlier leader.
    pub(super) fn on_left_behind(&mut self, from: NodeId, sequence: RegionId, term: Term, first: u64) {
        if self.cluster.speaks(from, sequence, term) && self.cluster.copies_of(sequence) > 0 {
            let known = &self.sequences[usize::from(sequence.0)];
            if term >= known.led_in && known.merged < first {
                base::sometimes!("a region finds that it was left behind");
                self.left_behind = Some(sequence);
            }
        }
    }
}

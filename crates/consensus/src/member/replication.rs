//! Entries from the leader to the others, and when they are committed.

use super::*;
use crate::message::{Append, Matched, Mismatch};

impl Member {
    // ---- the leader -------------------------------------------------------------------------------

    /// Speaks to every follower, and stops leading if a majority has been silent for an election's time:
    /// clients then look elsewhere.
    pub(super) fn beat(&mut self, now: Time) {
        let patience_ns = self.options.election_ns.1;
        let needed = self.majority() - 1;
        let Role::Leader(leading) = &mut self.role else { unreachable!("only leaders beat") };
        let lively = |f: &Follower| now.since(f.heard.unwrap_or(leading.began)) <= patience_ns;
        if leading.followers.values().filter(|f| lively(f)).count() < needed {
            base::sometimes!("a leader that nobody answers stops leading");
            return self.follow(now, self.term, None);
        }
        leading.heartbeat_at = now + self.options.heartbeat_ns;
        for follower in leading.followers.values_mut() {
            // Whatever was not answered by now may be lost.
            follower.ahead = 0;
        }
        let followers: Vec<NodeId> = leading.followers.keys().copied().collect();
        for to in followers {
            let Role::Leader(leading) = &self.role else { unreachable!("only leaders beat") };
            // Who gets a checkpoint instead needs no heartbeat.
            let previous = leading.followers[&to].next.previous().max(self.log.base().index);
            let append = self.append_message(now, previous, Vec::new());
            self.send(to, append);
        }
    }

    fn append_message(&self, now: Time, previous: Index, entries: Vec<Entry>) -> Message {
        let previous = self.log.position(previous).expect("entries that a follower lacks are kept");
        let (term, commit, everywhere) = (self.term, self.reach.commit(), self.reach.everywhere());
        Message::Append(Append { term, previous, entries, commit, everywhere, sent: now })
    }

    /// Sends what followers lack. These messages do not wait for the leader's own disk.
    pub(super) fn replicate(&mut self, now: Time, out: &mut Outputs) {
        let (last, ahead_max) = (self.last().index, self.options.messages_ahead_max);
        let Role::Leader(leading) = &self.role else { return };
        let lacks = |f: &Follower| f.next <= last && f.ahead < ahead_max;
        let lacking: Vec<(NodeId, Index)> =
            leading.followers.iter().filter(|(_, f)| lacks(f)).map(|(&m, f)| (m, f.next)).collect();
        for (to, first) in lacking {
            if first <= self.log.base().index {
                self.send_checkpoint(now, to, out);
                continue;
            }
            let entries = self.log.batch(first, self.options.message_bytes_max);
            let next = Index(first.0 + entries.len() as u64);
            let append = self.append_message(now, first.previous(), entries);
            out.messages.push((to, append));
            let Role::Leader(leading) = &mut self.role else { unreachable!("leads") };
            let follower = leading.followers.get_mut(&to).expect("is one");
            (follower.next, follower.ahead) = (next, follower.ahead + 1);
        }
    }

    /// For a member that lacks entries which are here no more.
    fn send_checkpoint(&mut self, now: Time, to: NodeId, out: &mut Outputs) {
        base::sometimes!("a member behind the log's beginning gets a checkpoint");
        let checkpoint =
            self.checkpoint.clone().expect("what is released is stored everywhere or held by one");
        let next = checkpoint.at.index.next();
        out.messages.push((to, Message::Install { term: self.term, checkpoint, sent: now }));
        let Role::Leader(leading) = &mut self.role else { unreachable!("leads") };
        let follower = leading.followers.get_mut(&to).expect("is one");
        (follower.next, follower.ahead) = (next, follower.ahead + 1);
    }

    pub(super) fn appended(
        &mut self,
        now: Time,
        from: NodeId,
        term: Term,
        sent: Time,
        result: Result<Matched, Mismatch>,
    ) {
        if self.term < term {
            base::sometimes!("a leader learns of a later term from a follower");
            return self.follow(now, term, None);
        }
        let (last, base) = (self.last().index, self.log.base().index);
        let Role::Leader(leading) = &mut self.role else { return };
        if term < self.term {
            return;
        }
        assert!(sent <= now, "an answer to the future");
        let follower = leading.followers.get_mut(&from).expect("members are fixed");
        let is_news = follower.heard < Some(sent);
        if is_news {
            follower.heard = Some(sent);
            follower.ahead = follower.ahead.saturating_sub(1);
        }
        match result {
            Ok(Matched(index)) => {
                assert!(index <= last, "{from} has entries that its leader lacks");
                follower.matched = follower.matched.max(index);
                follower.next = follower.next.max(index.next());
            }
            Err(Mismatch { .. }) if !is_news => {}
            Err(Mismatch { retry_from }) => {
                base::sometimes!("a follower's log has to be found first");
                // What is on every disk is stored there, even if it has forgotten that it is committed.
                let there = follower.matched.max(base.min(self.reach.everywhere()));
                follower.next = follower.next.min(retry_from).max(there.next());
            }
        }
        self.advance_commit();
    }

    /// Commits what a majority has stored. Entries of earlier terms are committed by one of this term
    /// behind them, never by counting: a later leader might still replace them.
    pub(super) fn advance_commit(&mut self) {
        let Role::Leader(leading) = &self.role else { return };
        let mut stored: Vec<Index> = leading.followers.values().map(|f| f.matched).collect();
        stored.push(self.reach.stored());
        stored.sort_unstable_by(|a, b| b.cmp(a));
        let at_majority = stored[self.majority() - 1];
        let everywhere = *stored.last().expect("oneself at least");
        self.reach.is_everywhere(everywhere);
        #[allow(unused_mut)]
        let mut is_own = self.log.position(at_majority).is_some_and(|p| p.term == self.term);
        #[cfg(feature = "mutants")]
        {
            is_own |= self.options.mutant == Some(Mutant::CommitsOldTerms);
        }
        if is_own {
            self.reach.commit_to(at_majority);
        }
    }

    // ---- a follower -------------------------------------------------------------------------------

    pub(super) fn append(&mut self, now: Time, from: NodeId, append: Append) {
        let Append { term, previous, entries, commit, everywhere, sent } = append;
        if term < self.term {
            let retry_from = previous.index.next();
            let refusal = Err(Mismatch { retry_from });
            return self.send(from, Message::Appended { term: self.term, sent, result: refusal });
        }
        assert!(!self.is_leader() || self.term < term, "two leaders in {term:?}: {} and {from}", self.me);
        self.follow(now, term, Some(from));
        self.expect_leader(now);
        self.promise(sent);
        let result = self.match_and_store(previous, entries);
        if let Ok(Matched(matched)) = result {
            #[allow(unused_mut)]
            let mut known = commit.min(matched);
            #[cfg(feature = "mutants")]
            if self.options.mutant == Some(Mutant::CommitsUnmatched) {
                known = commit.min(self.last().index);
            }
            self.reach.commit_to(known);
            self.reach.is_everywhere(everywhere);
        }
        self.send(from, Message::Appended { term, sent, result });
    }

    /// Takes a checkpoint instead of the entries that it holds, unless these are here and committed.
    pub(super) fn install(
        &mut self,
        now: Time,
        from: NodeId,
        term: Term,
        checkpoint: Checkpoint,
        sent: Time,
    ) {
        let at = checkpoint.at;
        if term < self.term {
            let refusal = Err(Mismatch { retry_from: at.index.next() });
            return self.send(from, Message::Appended { term: self.term, sent, result: refusal });
        }
        assert!(!self.is_leader() || self.term < term, "two leaders in {term:?}: {} and {from}", self.me);
        self.follow(now, term, Some(from));
        self.expect_leader(now);
        self.promise(sent);
        if self.reach.commit() < at.index {
            if self.log.position(at.index) == Some(at) {
                self.log.release(at.index);
            } else {
                self.log = Log::from(at);
            }
            self.reach.take_state(at.index);
            let last = self.last().index;
            self.reach.cut(last);
            self.disk.stores = self.disk.stores.min(last);
            (self.checkpoint, self.restores) = (Some(checkpoint), true);
            self.disk.replaces = true;
        }
        self.send(from, Message::Appended { term, sent, result: Ok(Matched(at.index)) });
    }

    /// Makes the log equal to the leader's up to the last of these entries.
    fn match_and_store(&mut self, previous: Position, entries: Vec<Entry>) -> Result<Matched, Mismatch> {
        let base = self.log.base();
        // What was released is committed, so it is the leader's as well.
        let fits = previous.index <= base.index || self.log.position(previous.index) == Some(previous);
        if !fits {
            return Err(Mismatch { retry_from: self.retry_from(previous) });
        }
        let matched = Index(previous.index.0 + entries.len() as u64);
        let indices = (previous.index.0 + 1..).map(Index);
        let mut new: Vec<(Index, Entry)> = indices.zip(entries).filter(|(i, _)| base.index < *i).collect();
        let known = new.iter().take_while(|(i, e)| self.log.get(*i).is_some_and(|mine| mine.term == e.term));
        let known = known.count();
        new.drain(..known);
        #[cfg(feature = "mutants")]
        if self.options.mutant == Some(Mutant::KeepsConflicts) {
            new.retain(|(i, _)| self.last().index < *i);
            let end = self.last().term;
            new.retain(|(_, e)| end <= e.term);
        }
        let Some(&(first, _)) = new.first() else { return Ok(Matched(matched)) };
        if first <= self.last().index {
            base::sometimes!("entries of a former leader are replaced");
            assert!(self.reach.commit() < first, "committed entries stay");
            self.log.truncate(first.previous());
            self.reach.cut(first.previous());
            self.disk.stores = self.disk.stores.min(first.previous());
        }
        let entries: Vec<Entry> = new.into_iter().map(|(_, entry)| entry).collect();
        entries.iter().for_each(|entry| self.log.push(entry.clone()));
        self.store(first, entries);
        Ok(Matched(matched))
    }

    /// Where the logs may agree: behind the own end, or before the whole term that differs.
    fn retry_from(&self, previous: Position) -> Index {
        let last = self.last().index;
        if last < previous.index {
            return last.next();
        }
        let term = self.log.position(previous.index).expect("within the log").term;
        let mut first = previous.index;
        while self.reach.commit().next() < first
            && self.log.position(first.previous()).is_some_and(|p| p.term == term)
        {
            first = first.previous();
        }
        first
    }
}

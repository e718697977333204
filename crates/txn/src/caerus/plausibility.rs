//! What no correct peer says is refused before anything of it is used: ranks too far ahead, terms and indexes that
//! do not exist.
//!
//! IN: every message of another node. OUT: whether it is handled; refusals are counted by sender and reason
//! ([`EngineReport`](crate::engine::EngineReport)). KEEPS: a message of a node whose clock is within its bound is never
//! refused; a refused one changes nothing, so it is as if the network had lost it.
//!
//! How far ahead a rank may be. Let ε bound every clock and δ be the largest distance of a stamp into the future
//! (at least 2 ε). A cut or a token is at most its node's clock + ε + δ, so at most true time + 2 ε + δ. A stamp is at
//! most the sequencer's clock + ε + δ, or one above a cut, a token or a closed timestamp, which is promised no
//! further than to a cut. The receiver's clock is at least true time − ε. So whatever exceeds its clock + 3 ε + δ (and
//! the lease, for what K > 0 grants in advance) is the word of a clock that is out of its bound. Entries are refused
//! by all other regions before they are copied, so with K > 0 one bad stamp counts nowhere, and is inherited by
//! nobody who writes its rows later. Once real time has come near it the message passes.

use super::message::{Append, Entry, Message, SequenceId, Tail, Term};
use super::options::Mutant;
use super::state::Caerus;
use crate::log;
use base::{NodeId, Rank, Time};
use std::collections::BTreeMap;

/// Terms and indexes that are further ahead than this of what is known here are no cluster's.
const AHEAD_MAX: u64 = 1 << 40;

/// Refused messages, by sender and reason.
pub(super) type Refusals = BTreeMap<(NodeId, &'static str), u64>;

impl Caerus {
    /// Whether a message of another node is handled; counts those that are not.
    pub(super) fn is_plausible(&mut self, now: Time, from: NodeId, message: &Message) -> bool {
        if self.cluster.options.planted(Mutant::TrustStamps) {
            return true;
        }
        let Err(reason) = self.check(now, message) else { return true };
        base::sometimes!("a message that no correct node sends is refused");
        *self.refused_messages.entry((from, reason)).or_default() += 1;
        false
    }

    fn check(&self, now: Time, message: &Message) -> Result<(), &'static str> {
        let latest = self.cluster.latest_stamp(now);
        let rank =
            |rank: Rank| if rank <= latest { Ok(()) } else { Err("a rank too far ahead of this clock") };
        match message {
            Message::Submit { first, transactions, .. } => {
                index(0, *first, transactions.len())?;
                transactions
                    .iter()
                    .try_for_each(|(transaction, _)| rank(transaction.min_rank.max(transaction.after)))
            }
            Message::Append(append) => {
                self.check_append(append)?;
                let said = &append.said;
                let stamps = said.entries.iter().map(|entry| entry.stamp.max(entry.transaction.min_rank));
                let all =
                    stamps.chain([said.closed, said.wanted.closed, said.collected, said.wanted.collected]);
                all.into_iter().try_for_each(rank)
            }
            Message::AppendAck { sequence, term, next, merged, granted, .. } => {
                self.check_term(*sequence, *term)?;
                index(self.end_of(*sequence), *next.max(merged), 0)?;
                rank(granted.closed.max(granted.collected))
            }
            Message::Promise { sequence, term, tail, .. } => {
                self.check_term(*sequence, *term)?;
                self.check_promised(*sequence, *term, tail)?;
                self.check_tail_ranks(tail, rank)
            }
            Message::Rejoined { standings, .. } => {
                standings.iter().enumerate().try_for_each(|(n, standing)| {
                    let term = standing.promised.max(standing.highest).max(standing.led_in);
                    self.check_term(SequenceId(n as u16), term)?;
                    let Some(tail) = &standing.tail else { return Ok(()) };
                    check_tail(tail)?;
                    self.check_tail_ranks(tail, rank)
                })
            }
            Message::Suspect { sequence, term }
            | Message::Agreed { sequence, term }
            | Message::Overtaken { sequence, term }
            | Message::Leads { sequence, term }
            | Message::Resigns { sequence, term }
            | Message::SubmitAck { sequence, term, .. }
            | Message::Prepare { sequence, term, .. }
            | Message::Prepared { sequence, term, .. }
            | Message::Calibrated { sequence, term, .. } => self.check_term(*sequence, *term),
            Message::Elect { sequence, term, merged, end, .. } => {
                self.check_term(*sequence, *term)?;
                index(self.end_of(*sequence), *end.max(merged), 0)
            }
            Message::Executed { end, .. } => rank(end.1),
            Message::Progress { done, executed, .. } if !self.cluster.is_unbounded() => {
                rank(*done)?;
                executed.map_or(Ok(()), rank)
            }
            Message::Watermark { term, rank: below, ready, .. } if !self.cluster.is_unbounded() => {
                index(0, *term, 0)?;
                // All keep copies of nothing, or nobody does: then there is no such rank.
                rank(*below)?;
                if *ready == Rank::MAX { Ok(()) } else { rank(*ready) }
            }
            _ => Ok(()),
        }
    }

    fn end_of(&self, sequence: SequenceId) -> u64 {
        self.logs.get(sequence).map_or(0, |log| log.end())
    }

    fn check_term(&self, sequence: SequenceId, term: Term) -> Result<(), &'static str> {
        let known = self.logs.get(sequence).ok_or("a sequence that does not exist")?;
        if term <= known.highest() + AHEAD_MAX { Ok(()) } else { Err("a term too far ahead") }
    }

    fn check_append(&self, append: &Append) -> Result<(), &'static str> {
        let Append { sequence, said, .. } = append;
        let log::Append { term, since, first, stable, everywhere, .. } = said;
        self.check_term(*sequence, *term)?;
        let known = self.logs.of(*sequence);
        let furthest = *since.max(first).max(stable).max(everywhere);
        index(known.end(), furthest, said.entries.len())?;
        if self.cluster.options.planted(Mutant::StampIsNow) {
            return Ok(());
        }
        // What is merged already was stamped below what has been told since.
        let new = (*first..).zip(&said.entries).filter(|(index, _)| *index >= known.merged());
        let is_late = |(_, entry): (u64, &Entry)| entry.stamp <= known.closed();
        match *term >= known.promised() && new.into_iter().any(is_late) {
            true => Err("a stamp at or below what its sequence has promised"),
            false => Ok(()),
        }
    }

    fn check_promised(&self, sequence: SequenceId, term: Term, tail: &Tail) -> Result<(), &'static str> {
        let stands = self.logs.get(sequence).is_some_and(|log| log.stands_in(term));
        let merged = self.logs.get(sequence).map_or(0, |log| log.merged());
        check_tail(tail)?;
        // It was asked for from where this log had been merged, which may go on until the answer comes.
        if stands && !tail.entries.is_empty() && tail.end - tail.entries.len() as u64 > merged {
            return Err("a log that begins behind where it was asked for");
        }
        Ok(())
    }

    fn check_tail_ranks(
        &self,
        tail: &Tail,
        rank: impl Fn(Rank) -> Result<(), &'static str>,
    ) -> Result<(), &'static str> {
        rank(tail.granted.closed.max(tail.granted.collected))?;
        tail.entries.iter().try_for_each(|entry| rank(entry.stamp))
    }
}

fn index(known: u64, first: u64, count: usize) -> Result<(), &'static str> {
    match first.checked_add(count as u64) {
        Some(end) if end <= known.saturating_add(AHEAD_MAX) => Ok(()),
        _ => Err("an index too far ahead"),
    }
}

fn check_tail(tail: &Tail) -> Result<(), &'static str> {
    index(0, tail.end, 0)?;
    if tail.end < tail.entries.len() as u64 { Err("a log longer than its end") } else { Ok(()) }
}

//! What no correct member says is refused before anything of it is used, and counted by sender and reason.
//!
//! IN: every message of another member. OUT: whether it is handled. KEEPS: a message of a member whose clock is within ε
//! of true time, or not much more than that, is never refused; a refused one changes nothing, so it is as if the network had
//! lost it. What is checked is what would otherwise be asserted, overflow, or bind this member for ever.

use super::*;
use crate::message::{Append, Matched};

/// Messages refused, by sender and reason.
pub type Refusals = BTreeMap<(NodeId, &'static str), u64>;

/// Terms and indices that are further ahead than this of what is known here are no group's.
const AHEAD_MAX: u64 = 1 << 40;

impl Member {
    /// What other members have said and no correct one says.
    pub fn refused(&self) -> &Refusals {
        &self.refused
    }

    /// Whether a message is handled; counts it if not.
    pub(super) fn is_plausible(&mut self, now: Time, from: NodeId, message: &Message) -> bool {
        let Err(reason) = self.check(now, message) else { return true };
        base::sometimes!("a message that no correct member of a group sends is refused");
        *self.refused.entry((from, reason)).or_default() += 1;
        false
    }

    fn check(&self, now: Time, message: &Message) -> Result<(), &'static str> {
        let term = message.term();
        refuse_if(term.0 > self.term.0.saturating_add(AHEAD_MAX), "a term too far ahead")?;
        match message {
            Message::AskBefore { last, .. } | Message::AskVote { last, .. } => {
                self.check_index(last.index)?;
                // A candidate asks in a term that is after its own log's.
                refuse_if(last.term >= term, "a log of a later term than its member's")
            }
            Message::WouldVote { .. } | Message::Vote { .. } => Ok(()),
            Message::Append(append) => {
                self.check_sent(now, append.sent)?;
                self.check_entries(append)
            }
            Message::Install { checkpoint: Checkpoint { at, .. }, sent, .. } => {
                self.check_sent(now, *sent)?;
                self.check_index(at.index)?;
                refuse_if(at.term > term, "a log of a later term than its member's")?;
                self.check_leads(term)
            }
            // To a former term's appends it is an answer to another leader.
            Message::Appended { sent, result, .. } if self.is_leader() && term == self.term => {
                refuse_if(now < *sent, "an answer to what was not sent yet")?;
                let lacks = |Matched(index): &Matched| *index > self.last().index;
                refuse_if(result.as_ref().is_ok_and(lacks), "entries that the leader of the term has not")
            }
            Message::Appended { .. } => Ok(()),
        }
    }

    fn check_entries(&self, append: &Append) -> Result<(), &'static str> {
        let Append { term, previous, entries, everywhere, .. } = append;
        [previous.index, *everywhere].into_iter().try_for_each(|index| self.check_index(index))?;
        let terms = [previous.term].into_iter().chain(entries.iter().map(|entry| entry.term)).chain([*term]);
        refuse_if(!terms.is_sorted(), "entries whose terms do not grow")?;
        // Of an earlier term it is answered that this one has begun.
        if *term < self.term {
            return Ok(());
        }
        self.check_leads(*term)?;
        let differs = |(index, entry): (u64, &Entry)| {
            let mine = self.log.position(Index(index)).filter(|mine| mine.index <= self.reach.commit());
            mine.is_some_and(|mine| mine.term != entry.term)
        };
        let differ = (previous.index.0 + 1..).zip(entries).any(differs);
        refuse_if(differ, "other entries than those that are committed")
    }

    fn check_leads(&self, term: Term) -> Result<(), &'static str> {
        refuse_if(self.is_leader() && term == self.term, "another leader in this member's term")
    }

    fn check_index(&self, index: Index) -> Result<(), &'static str> {
        refuse_if(index.0 > self.last().index.0.saturating_add(AHEAD_MAX), "an index too far ahead")
    }

    /// A promise counts from when an append was sent.
    fn check_sent(&self, now: Time, sent: Time) -> Result<(), &'static str> {
        let Options { clock_bound_ns, lease_ns, .. } = self.options;
        refuse_if(sent > now + 2 * clock_bound_ns + lease_ns, "a time too far ahead of this clock")
    }
}

fn refuse_if(is_wrong: bool, reason: &'static str) -> Result<(), &'static str> {
    if is_wrong { Err(reason) } else { Ok(()) }
}

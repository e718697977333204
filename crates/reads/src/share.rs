//! Fetches shared between the reads of one node: one answer serves every read that arrived before its question was
//! sent (PolarDB-SCC §4.1, "Linear Lamport timestamp").
//!
//! A strong read has to learn something of the node that writes (how far a partition has executed, which rank it has
//! closed) that is no older than the read itself. A question that is sent after the read arrived is answered after it
//! arrived, so its answer will do, whoever asked. IN: reads that want what is fetched under a key; answers. OUT: when to
//! ask, and whom an answer serves. KEEPS: an answer serves only reads that had arrived *before* its question was sent
//! (the first time; a repetition is later still), however answers overtake each other; what is known under a key is
//! replaced only by the answer to a later question. Questions under one key are a gap apart, or follow each other's answers,
//! as their owner likes, so their number does not grow with the number of reads; a read waits for its question no longer
//! than the gap.
//!
//! Before and after are counted, never read off a clock: a [`Stamp`] is the number of questions sent so far. The clock
//! only says when the gap is over.
//!
//! | PolarDB-SCC | here |
//! |---|---|
//! | arrival time of a request | [`Fetches::arrival`] |
//! | `TS_ro`, taken when a fetch is sent | the [`Stamp`] of the question |
//! | the tuple ⟨`TS_rw`, `TS_ro`⟩ | what is known under a key |
//! | wait for the fetch that is under way | [`Want::Join`] |

use base::Time;
use std::collections::{BTreeMap, BTreeSet};

#[cfg(test)]
mod tests;

/// How many questions had been sent at some moment, that of the moment itself included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(u64);

/// Which reads an answer serves. Every way but the strict one is a fault that tests plant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reuse {
    /// Those that had arrived before the question was sent.
    #[default]
    Strict,
    /// What had been asked when a read arrived serves it, too.
    AtOrBefore,
    /// Whoever waits when the answer comes.
    LateArrivals,
    /// As `Strict`, but whichever answer comes last is kept, not that to the last question.
    LastAnswer,
}

/// Who waits for what. `K` names what is fetched, `Q` a read, `V` is what an answer says.
#[derive(Clone, Debug)]
pub struct Fetches<K, Q, V> {
    sent: Stamp,
    links: BTreeMap<K, Link<Q, V>>,
    reuse: Reuse,
}

#[derive(Clone, Debug)]
struct Link<Q, V> {
    sent_at: Time,
    /// Questions under way, each with those that wait for it: all arrived before it was sent.
    under_way: BTreeMap<Stamp, BTreeSet<Q>>,
    /// Those that wait for the next question.
    gathered: BTreeSet<Q>,
    /// The answer to the latest question that was answered.
    known: Option<(Stamp, V)>,
}

/// What to do for a read that wants what is fetched under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Want<V> {
    /// An answer to a question that was sent after the read had arrived is here.
    Known(V),
    /// Ask now; the question has this stamp.
    Ask(Stamp),
    /// Call [`Fetches::due`] then.
    AskAt(Time),
    /// A question that will do is under way, or will be sent.
    Join,
}

impl<K: Clone + Ord, Q: Copy + Ord, V: Clone> Fetches<K, Q, V> {
    pub fn new(reuse: Reuse) -> Fetches<K, Q, V> {
        Fetches { sent: Stamp::default(), links: BTreeMap::new(), reuse }
    }

    /// The moment at which a read arrives that arrives now.
    pub fn arrival(&self) -> Stamp {
        self.sent
    }

    /// A read that arrived then wants what is fetched under a key, which is asked for at most once every `gap_ns`.
    pub fn want(&mut self, now: Time, gap_ns: u64, key: K, arrived: Stamp, query: Q) -> Want<V> {
        let reuse = self.reuse;
        let serves = |sent: Stamp| match reuse {
            Reuse::AtOrBefore => arrived <= sent,
            _ => arrived < sent,
        };
        let Some(link) = self.links.get_mut(&key) else {
            self.sent = self.sent.next();
            let under_way = BTreeMap::from([(self.sent, BTreeSet::from([query]))]);
            self.links.insert(key, Link { sent_at: now, under_way, gathered: BTreeSet::new(), known: None });
            return Want::Ask(self.sent);
        };
        if let Some((_, value)) = link.known.as_ref().filter(|(sent, _)| serves(*sent)) {
            base::sometimes!("a fetch serves a read that wants it after it has come");
            return Want::Known(value.clone());
        }
        if let Some((_, waiting)) = link.under_way.iter_mut().find(|(sent, _)| serves(**sent)) {
            waiting.insert(query);
            return Want::Join;
        }
        if !link.under_way.is_empty() {
            base::sometimes!("a read arrives while a fetch is under way");
        }
        let due = link.sent_at + gap_ns.max(1);
        let (is_idle, is_first) = (link.is_idle(), link.gathered.is_empty());
        link.gathered.insert(query);
        match is_first {
            _ if is_idle || due <= now => {
                self.sent = self.sent.next();
                link.send(now, self.sent);
                Want::Ask(self.sent)
            }
            true => Want::AskAt(due),
            false => Want::Join,
        }
    }

    /// The gap after a question has passed. The stamp of the next one, if it is to be asked now.
    pub fn due(&mut self, now: Time, key: &K) -> Option<Stamp> {
        let link = self.links.get_mut(key).filter(|link| !link.gathered.is_empty())?;
        self.sent = self.sent.next();
        link.send(now, self.sent);
        Some(self.sent)
    }

    /// When the next question is due if the gap is this one; none if nobody waits for it.
    pub fn when_due(&self, gap_ns: u64, key: &K) -> Option<Time> {
        let link = self.links.get(key).filter(|link| !link.gathered.is_empty());
        link.map(|link| link.sent_at + gap_ns.max(1))
    }

    /// Who waits for a question that is under way, and for it alone.
    pub fn waiting(&self, key: &K, sent: Stamp) -> impl Iterator<Item = Q> {
        let waiting = self.links.get(key).and_then(|link| link.under_way.get(&sent));
        waiting.into_iter().flatten().copied()
    }

    /// The answer to the question with this stamp came, which says the same to everybody: whom it serves.
    pub fn answered(&mut self, key: &K, sent: Stamp, value: V) -> BTreeSet<Q> {
        let Some(link) = self.links.get_mut(key) else { return BTreeSet::new() };
        // A read that waits for an earlier question arrived earlier.
        let later = link.under_way.split_off(&sent.next());
        let served = std::mem::replace(&mut link.under_way, later).into_values().flatten();
        let mut served: BTreeSet<Q> = served.collect();
        if self.reuse == Reuse::LateArrivals {
            served.extend(std::mem::take(&mut link.under_way).into_values().flatten());
            served.append(&mut link.gathered);
        }
        if served.len() > 1 {
            base::sometimes!("a fetch serves several reads");
        }
        let is_later = link.known.as_ref().is_none_or(|(known, _)| *known < sent);
        if is_later || self.reuse == Reuse::LastAnswer {
            link.known = Some((sent, value));
        }
        served
    }

    /// The same of a question that named what its reads want: it says nothing to others.
    pub fn answered_alone(&mut self, key: &K, sent: Stamp) -> BTreeSet<Q> {
        let Some(link) = self.links.get_mut(key) else { return BTreeSet::new() };
        let mut served = link.under_way.remove(&sent).unwrap_or_default();
        if self.reuse == Reuse::LateArrivals {
            served.extend(std::mem::take(&mut link.under_way).into_values().flatten());
            served.append(&mut link.gathered);
        }
        if served.len() > 1 {
            base::sometimes!("a fetch serves several reads");
        }
        self.links.retain(|_, link| !link.is_idle() || link.known.is_some());
        served
    }

    /// A read has ended. Returns the questions that nobody needs any more.
    pub fn forget(&mut self, query: Q) -> Vec<(K, Stamp)> {
        let mut unneeded = Vec::new();
        for (key, link) in &mut self.links {
            link.gathered.remove(&query);
            link.under_way.retain(|sent, waiting| {
                let was_there = waiting.remove(&query);
                if was_there && waiting.is_empty() {
                    unneeded.push((key.clone(), *sent));
                }
                !waiting.is_empty()
            });
        }
        self.links.retain(|_, link| !link.is_idle() || link.known.is_some());
        unneeded
    }

    /// Who answers under this key is another one now: what its predecessor said is void.
    pub fn distrust(&mut self, key: &K) {
        if let Some(link) = self.links.get_mut(key) {
            link.known = None;
        }
        self.links.retain(|_, link| !link.is_idle() || link.known.is_some());
    }
}

impl Stamp {
    fn next(self) -> Stamp {
        Stamp(self.0 + 1)
    }
}

impl<Q: Ord, V> Link<Q, V> {
    fn send(&mut self, now: Time, sent: Stamp) {
        self.sent_at = now;
        let gathered = std::mem::take(&mut self.gathered);
        self.under_way.insert(sent, gathered);
    }
    fn is_idle(&self) -> bool {
        self.under_way.is_empty() && self.gathered.is_empty()
    }
}

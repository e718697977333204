//! Calibrations shared between queries.
//!
//! IN: queries that need to know how far a partition has executed; answers. OUT: when to ask, and which queries an
//! answer serves. KEEPS: an answer serves only queries that had arrived before its question was *sent* (the first
//! time; a repetition is later still): what had been answered to clients before a query arrived is then
//! executed at the partition, and counted. Questions to one partition are a gap apart, so their number does not
//! grow with the number of queries; a query waits for its question no longer than the gap.

use base::{PartitionId, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Who waits for which partition's calibration. `Q` names a query; a question is named by its partition and when
/// it was sent.
#[derive(Clone, Debug)]
pub struct Calibrations<Q> {
    links: BTreeMap<PartitionId, Link<Q>>,
    serve_late_arrivals: bool,
}

#[derive(Clone, Debug)]
struct Link<Q> {
    sent_at: Time,
    /// Questions under way, each with those who arrived before it was sent and after the one before.
    under_way: BTreeMap<Time, BTreeSet<Q>>,
    /// Arrived since.
    gathered: BTreeSet<Q>,
}

/// What to do for a query that wants a partition's calibration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Ask now.
    Ask,
    /// Call [`Calibrations::due`] then.
    AskAt(Time),
    /// A question will be sent.
    Join,
}

impl<Q: Copy + Ord> Calibrations<Q> {
    /// `serve_late_arrivals`: a planted fault, an answer serves every query that waits when it arrives.
    pub fn new(serve_late_arrivals: bool) -> Calibrations<Q> {
        Calibrations { links: BTreeMap::new(), serve_late_arrivals }
    }

    /// A query wants a partition's calibration, which is asked for at most once every `gap_ns`.
    pub fn want(&mut self, now: Time, gap_ns: u64, partition: PartitionId, query: Q) -> Want {
        let Some(link) = self.links.get_mut(&partition) else {
            let under_way = BTreeMap::from([(now, BTreeSet::from([query]))]);
            self.links.insert(partition, Link { sent_at: now, under_way, gathered: BTreeSet::new() });
            return Want::Ask;
        };
        base::sometimes!("a query arrives while a calibration is under way");
        let due = link.sent_at + gap_ns.max(1);
        let is_first = link.gathered.is_empty();
        link.gathered.insert(query);
        match is_first {
            _ if due <= now => {
                link.send(now);
                Want::Ask
            }
            true => Want::AskAt(due),
            false => Want::Join,
        }
    }

    /// The gap after a question has passed. Whether to ask again.
    pub fn due(&mut self, now: Time, partition: PartitionId) -> bool {
        let link = self.links.get_mut(&partition).filter(|link| !link.gathered.is_empty());
        link.is_some_and(|link| {
            link.send(now);
            true
        })
    }

    /// The answer to the question sent at this time came: whom it serves.
    pub fn answered(&mut self, partition: PartitionId, sent_at: Time) -> BTreeSet<Q> {
        let Some(link) = self.links.get_mut(&partition) else { return BTreeSet::new() };
        // A query that waits for an earlier question arrived earlier.
        let later = link.under_way.split_off(&(sent_at + 1));
        let mut served: BTreeSet<Q> =
            std::mem::replace(&mut link.under_way, later).into_values().flatten().collect();
        if self.serve_late_arrivals {
            served.extend(std::mem::take(&mut link.under_way).into_values().flatten());
            served.append(&mut link.gathered);
        }
        if served.len() > 1 {
            base::sometimes!("a calibration serves several queries");
        }
        self.links.retain(|_, link| !link.is_idle());
        served
    }

    /// A query was cancelled. Returns the questions that no query needs any more.
    pub fn forget(&mut self, query: Q) -> Vec<(PartitionId, Time)> {
        let mut idle = Vec::new();
        for (partition, link) in &mut self.links {
            link.gathered.remove(&query);
            link.under_way.retain(|sent_at, waiting| {
                waiting.remove(&query);
                if waiting.is_empty() {
                    idle.push((*partition, *sent_at));
                }
                !waiting.is_empty()
            });
        }
        self.links.retain(|_, link| !link.is_idle());
        idle
    }
}

impl<Q: Ord> Link<Q> {
    fn send(&mut self, now: Time) {
        self.sent_at = now;
        self.under_way.entry(now).or_default().append(&mut self.gathered);
    }
    fn is_idle(&self) -> bool {
        self.under_way.is_empty() && self.gathered.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_serves_whoever_had_arrived_when_its_question_was_sent() {
        let (p, mut calibrations) = (PartitionId(1), Calibrations::new(false));
        assert_eq!(calibrations.want(Time(100), 10, p, 1), Want::Ask);
        assert_eq!(
            calibrations.want(Time(102), 10, p, 2),
            Want::AskAt(Time(110)),
            "questions are a gap apart"
        );
        assert_eq!(calibrations.want(Time(103), 10, p, 3), Want::Join);
        assert!(calibrations.due(Time(110), p));
        assert!(!calibrations.due(Time(110), p));
        assert_eq!(calibrations.want(Time(130), 10, p, 4), Want::Ask);
        assert_eq!(calibrations.want(Time(131), 10, p, 5), Want::AskAt(Time(140)));
        assert_eq!(calibrations.answered(p, Time(100)), [1].into());
        assert_eq!(calibrations.answered(p, Time(130)), [2, 3, 4].into(), "an earlier answer was lost");
        assert_eq!(calibrations.answered(p, Time(110)), [].into());
        assert!(calibrations.due(Time(140), p));
        assert_eq!(calibrations.forget(5), vec![(p, Time(140))]);
        assert_eq!(calibrations.answered(p, Time(140)), [].into());
        assert_eq!(calibrations.want(Time(141), 10, p, 6), Want::Ask, "nothing is under way");
    }
}

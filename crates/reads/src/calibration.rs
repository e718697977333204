//! Calibrations shared between queries.
//!
//! IN: queries that need to know how far a partition is; answers. OUT: when to ask, and whom an answer
//! serves. KEEPS: an answer serves only queries that had arrived before its question was *sent* (the first
//! time; a repetition is later still): what had been answered to clients before a query arrived is then
//! executed at the partition, and counted. One question per partition is under way at most, so the number
//! of questions does not grow with the number of queries.

use base::PartitionId;
use std::collections::{BTreeMap, BTreeSet};

/// Who waits for which partition's calibration. `Q` names a query.
#[derive(Clone, Debug)]
pub struct Calibrations<Q> {
    links: BTreeMap<PartitionId, Link<Q>>,
    serve_late_arrivals: bool,
}

#[derive(Clone, Debug)]
struct Link<Q> {
    /// Arrived before the question that is under way was sent.
    served: BTreeSet<Q>,
    /// Arrived since.
    next: BTreeSet<Q>,
}

impl<Q: Copy + Ord> Calibrations<Q> {
    /// `serve_late_arrivals`: a planted fault, an answer serves whoever waits when it comes.
    pub fn new(serve_late_arrivals: bool) -> Calibrations<Q> {
        Calibrations { links: BTreeMap::new(), serve_late_arrivals }
    }

    /// A query wants a partition's calibration. True: ask now.
    pub fn want(&mut self, partition: PartitionId, query: Q) -> bool {
        match self.links.get_mut(&partition) {
            Some(link) => {
                base::sometimes!("a query arrives while a calibration is under way");
                link.next.insert(query);
                false
            }
            None => {
                let link = Link { served: BTreeSet::from([query]), next: BTreeSet::new() };
                self.links.insert(partition, link);
                true
            }
        }
    }

    /// The answer came. Whom it serves, and whether to ask again for those who came too late for it.
    pub fn answered(&mut self, partition: PartitionId) -> (BTreeSet<Q>, bool) {
        let Some(link) = self.links.get_mut(&partition) else { return (BTreeSet::new(), false) };
        let mut served = std::mem::replace(&mut link.served, std::mem::take(&mut link.next));
        if self.serve_late_arrivals {
            served.append(&mut link.served);
        }
        let again = !link.served.is_empty();
        if served.len() > 1 {
            base::sometimes!("a calibration serves several queries");
        }
        if !again {
            self.links.remove(&partition);
        }
        (served, again)
    }

    /// A query went away. The partitions whose question nobody needs any more.
    pub fn forget(&mut self, query: Q) -> Vec<PartitionId> {
        let mut idle = Vec::new();
        self.links.retain(|partition, link| {
            link.served.remove(&query);
            link.next.remove(&query);
            // A question that others came too late for goes on: its end makes room for theirs.
            let needed = !(link.served.is_empty() && link.next.is_empty());
            if !needed {
                idle.push(*partition);
            }
            needed
        });
        idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_serves_whoever_had_arrived_when_its_question_was_sent() {
        let (p, mut calibrations) = (PartitionId(1), Calibrations::new(false));
        assert!(calibrations.want(p, 1));
        assert!(!calibrations.want(p, 2), "one question per link");
        assert!(!calibrations.want(p, 3));
        assert_eq!(calibrations.answered(p), ([1].into(), true));
        assert!(!calibrations.want(p, 4));
        assert_eq!(calibrations.answered(p), ([2, 3].into(), true));
        assert_eq!(calibrations.answered(p), ([4].into(), false));
        assert!(calibrations.want(p, 5));
        assert_eq!(calibrations.forget(5), vec![p]);
        assert_eq!(calibrations.answered(p), ([].into(), false));
    }
}

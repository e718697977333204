//! What this node's partitions publish, by partition, for peers that reach its memory; see [`reads::replica::published`].
//!
//! KEEPS: a partition is put up once and stays; what is put up answers only [`Question::Fetch`] of one partition.

use crate::message::{AnswerBody, Life, Message, Question};
use base::txn::Granule;
use base::{LogPosition, PartitionId, Rank, Time};
use reads::replica::published::{Needs, Published};
use std::sync::OnceLock;

/// See the module.
#[derive(Default)]
pub struct Board {
    places: Box<[OnceLock<Published>]>,
    /// Of the node.
    life: OnceLock<Life>,
}

impl Board {
    /// For so many partitions; for none: nobody may look.
    pub fn new(partitions: usize) -> Board {
        Board { places: (0..partitions).map(|_| OnceLock::new()).collect(), life: OnceLock::new() }
    }
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
    /// The node's life begins.
    pub fn begin(&self, now: Time) {
        _ = self.life.set(Life(now));
    }
    /// `None`: it has not begun.
    pub fn life(&self) -> Option<Life> {
        self.life.get().copied()
    }
    pub fn put(&self, partition: PartitionId, published: &Published) {
        if let Some(place) = self.places.get(usize::from(partition.0)) {
            place.get_or_init(|| published.clone());
        }
    }
}

impl<M> base::process::Published<Message<M>> for Board {
    fn answer(&self, message: &Message<M>) -> Option<Message<M>> {
        answer_published(message, |partition, needs, watched| {
            let life = self.life()?;
            let published = self.places.get(usize::from(partition.0))?.get()?;
            let (at, positions) = published.fetch(needs, watched.iter().copied())?;
            Some((life, at, positions))
        })
    }
}

/// What a partition's node would answer to this message, if it is a question that what is published may answer. `load`
/// finds in it a cut for these needs and the last writers of these granules, in this order, and whose life it is of; `None`:
/// the node has to be asked.
pub fn answer_published<M>(
    message: &Message<M>,
    load: impl FnOnce(PartitionId, Needs, &[&Granule]) -> Option<(Life, Rank, Vec<LogPosition>)>,
) -> Option<Message<M>> {
    let Message::Ask { question, partition, what } = message else { return None };
    let Question::Fetch { at, least: Some(least), closed, watched } = what else { return None };
    let needs = Needs { at: *at, least: *least };
    let watched: Vec<&Granule> = closed.iter().chain(watched).collect();
    let (life, at, positions) = load(*partition, needs, &watched)?;
    Some(Message::Told {
        question: *question,
        partition: *partition,
        life,
        waited_ns: 0,
        answer: Ok(AnswerBody::Loaded { at, positions }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::QuestionId;

    type Found = Option<(Life, Rank, Vec<LogPosition>)>;

    fn never(_: PartitionId, _: Needs, _: &[&Granule]) -> Found {
        panic!("it is for the partition's node")
    }
    fn nothing(_: PartitionId, _: Needs, _: &[&Granule]) -> Found {
        None
    }

    #[test]
    fn only_a_question_that_what_is_published_may_answer_is_looked_up() {
        let granule = Granule::Partition;
        let what = |least| Question::Fetch {
            at: Rank(9),
            least,
            closed: vec![granule.clone()],
            watched: Vec::new(),
        };
        let ask = |what| Message::<()>::Ask { question: QuestionId(3), partition: PartitionId(1), what };
        let load = |partition: PartitionId, needs: Needs, watched: &[&Granule]| {
            assert_eq!((partition, needs.at, needs.least), (PartitionId(1), Rank(9), Rank(4)));
            assert_eq!(watched, [&granule]);
            Some((Life(Time(7)), Rank(8), vec![LogPosition(5)]))
        };
        let answered = answer_published(&ask(what(Some(Rank(4)))), load);
        let Some(Message::Told { question, life, answer: Ok(AnswerBody::Loaded { at, positions }), .. }) =
            answered
        else {
            panic!("it is not answered");
        };
        assert_eq!((question, life), (QuestionId(3), Life(Time(7))));
        assert_eq!((at, positions), (Rank(8), vec![LogPosition(5)]));
        assert!(answer_published(&ask(what(None)), never).is_none(), "one cut for several partitions");
        assert!(answer_published(&ask(Question::Calibrate), never).is_none());
        assert!(answer_published(&ask(what(Some(Rank(4)))), nothing).is_none());
    }
}

//! What this node's partitions publish, by partition, for peers that reach its memory; see [`reads::replica::published`].
//!
//! KEEPS: a partition is put up once and stays; what is put up answers only [`Question::Fetch`] of one partition.

use crate::message::{AnswerBody, Life, Message, Question};
use base::{PartitionId, Time};
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
    pub fn put(&self, partition: PartitionId, published: &Published) {
        if let Some(place) = self.places.get(usize::from(partition.0)) {
            place.get_or_init(|| published.clone());
        }
    }
}

impl<M> base::process::Published<Message<M>> for Board {
    fn answer(&self, message: &Message<M>) -> Option<Message<M>> {
        let Message::Ask { question, partition, what } = message else { return None };
        let Question::Fetch { at, least: Some(least), closed, watched } = what else { return None };
        let life = *self.life.get()?;
        let published = self.places.get(usize::from(partition.0))?.get()?;
        let needs = Needs { at: *at, least: *least };
        let (at, positions) = published.fetch(needs, closed.iter().chain(watched))?;
        Some(Message::Told {
            question: *question,
            partition: *partition,
            life,
            waited_ns: 0,
            answer: Ok(AnswerBody::Loaded { at, positions }),
        })
    }
}

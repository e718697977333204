//! Readers that wait until an epoch is published here.
//!
//! IN: closes, with the last epoch that their cuts hold; published epochs. OUT: answers. KEEPS: a reader is answered
//! once every epoch within its cut is published: nothing will be added to them, here or anywhere.

use super::message::Epoch;
use base::PartitionId;
use base::order::CloseTicket;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
pub(super) struct Readers {
    waiting: BTreeMap<(Epoch, CloseTicket), PartitionId>,
    epochs: BTreeMap<CloseTicket, Epoch>,
}

impl Readers {
    pub fn wait(&mut self, ticket: CloseTicket, until: Epoch, partition: PartitionId) {
        self.waiting.insert((until, ticket), partition);
        self.epochs.insert(ticket, until);
    }
    /// The reader went away.
    pub fn cancel(&mut self, ticket: CloseTicket) {
        if let Some(epoch) = self.epochs.remove(&ticket) {
            self.waiting.remove(&(epoch, ticket));
        }
    }
    /// The next reader whose cut is published.
    pub fn pop(&mut self, published: Epoch) -> Option<(CloseTicket, PartitionId)> {
        let first = self.waiting.first_entry().filter(|first| first.key().0 <= published)?;
        let ((_, ticket), partition) = first.remove_entry();
        self.epochs.remove(&ticket);
        Some((ticket, partition))
    }
    /// Nobody will be answered here.
    pub fn give_up(&mut self) -> Vec<CloseTicket> {
        self.waiting.clear();
        std::mem::take(&mut self.epochs).into_keys().collect()
    }
    pub fn len(&self) -> usize {
        self.waiting.len()
    }
}

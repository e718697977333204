//! A reader closes a rank: it is answered once everything up to there is published.
//!
//! KEEPS: no cut too far in the future is waited for; who reads keeps epochs going.

use super::options::Mutant;
use super::state::{Geogauss, Out};
use crate::engine::{Answered, EngineEffect};
use base::order::{Close, CloseTicket, Closed};
use base::txn::Granule;
use base::{PartitionId, SqlError, SqlState, Time};

impl Geogauss {
    pub(super) fn open_close(&mut self, now: Time, ticket: CloseTicket, close: Close, out: &mut Out) {
        let Close { partition, rank, granules } = close;
        let limit = self.cluster.latest_cut(now);
        if rank > limit {
            let message = "the cut asked for lies too far in the future";
            let error = SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
            let error = error
                .detail(format!("Its rank is {rank}, the largest acceptable one {limit}."))
                .hint("The session's token comes from another cluster, or a clock is out of its bound.");
            return out.push(EngineEffect::Answered { ticket, result: Err(error) });
        }
        if let Some(absent) = self.absent() {
            return out.push(EngineEffect::Answered { ticket, result: Err(absent) });
        }
        let until = self.clock.epoch_within(rank);
        if until <= self.published.epoch() || self.cluster.options.planted(Mutant::CloseEarly) {
            return self.answer_close(ticket, partition, out);
        }
        // What keeps streams going asks for whole partitions, all the time, and takes what comes. A reader does not.
        if granules != [Granule::Partition] {
            if let Err(error) = self.available() {
                return out.push(EngineEffect::Answered { ticket, result: Err(error) });
            }
            self.keep_busy(now, 1);
        }
        self.readers.wait(ticket, until, partition);
    }
    fn answer_close(&self, ticket: CloseTicket, partition: PartitionId, out: &mut Out) {
        let closed = Closed { position: self.published.log(partition).0 };
        out.push(EngineEffect::Answered { ticket, result: Ok(Answered::Closed(closed)) });
    }
    /// Readers whose cuts are published are answered.
    pub(super) fn answer_readers(&mut self, out: &mut Out) {
        while let Some((ticket, partition)) = self.readers.pop(self.published.epoch()) {
            self.answer_close(ticket, partition, out);
        }
    }
    /// Nothing more is published here: those that wait are told why.
    pub(super) fn refuse_readers(&mut self, out: &mut Out) {
        for ticket in self.readers.give_up() {
            let error = self.absent().expect("who refuses readers takes no part");
            out.push(EngineEffect::Answered { ticket, result: Err(error) });
        }
    }
    pub(super) fn forget_reader(&mut self, ticket: CloseTicket) {
        self.readers.cancel(ticket);
    }
}

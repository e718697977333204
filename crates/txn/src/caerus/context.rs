//! What readers see of other parts, and where their answers go. KEEPS: readers change nothing of what they see, except that
//! they count the questions that availability refuses.

use super::availability::Availability;
use super::cluster::Cluster;
use super::collection::collector::{Collector, executed_to};
use super::homes::Residences;
use super::logs::Logs;
use super::merger::Merger;
use super::message::{Message, SequenceId};
use super::scheduler::Scheduler;
use super::work::Todo;
use crate::engine::{Answered, EngineEffect};
use base::order::CloseTicket;
use base::{NodeId, Rank, SqlError};

/// See the module.
pub(super) struct Context<'a> {
    pub cluster: &'a Cluster,
    pub residences: &'a Residences,
    pub logs: &'a Logs,
    pub merger: &'a Merger,
    pub scheduler: &'a Scheduler,
    pub collector: &'a Collector,
    /// It counts whom it refuses.
    pub availability: &'a mut Availability,
    pub todo: Todo<'a>,
}

impl Context<'_> {
    pub fn answer(&mut self, ticket: CloseTicket, result: Result<Answered, SqlError>) {
        self.todo.effect(EngineEffect::Answered { ticket, result });
    }
    /// How long the leader of a sequence may take to answer.
    pub fn patience_ns(&self, sequence: SequenceId) -> u64 {
        let Cluster { options, topology, me, .. } = self.cluster;
        options.patience_ns(topology, *me, self.logs.of(sequence).leader())
    }
    /// Asks who leads a sequence, if that is in this region, to tell its closed timestamp to a replica. What is lost comes
    /// with a heartbeat.
    pub fn want_closed(&mut self, sequence: SequenceId, rank: Rank, at: NodeId) {
        let leader = self.logs.of(sequence).leader();
        if leader != self.cluster.me && self.cluster.topology.region_of(leader) == self.cluster.region {
            self.todo.send(leader, Message::CloseWanted { sequence, rank, at });
        }
    }
    /// No cut of this node, now or later, is below; where clocks are bounded they see to that.
    pub fn least_cut(&self) -> Rank {
        match self.cluster.is_replica {
            true => executed_to(self.cluster, self.logs, self.merger).unwrap_or_default(),
            false => self.collector.ready(),
        }
    }
}

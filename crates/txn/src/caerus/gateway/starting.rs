//! A transaction that waited sets out: it is refused, delayed, or sent to the sequences that order it. Its client is told
//! how it ended, or that this is not known, if a sequence that orders it falls silent first.

use super::super::cluster::Cluster;
use super::super::homes::Residences;
use super::super::message::{Named, SequenceId, Share, sequences_in};
use super::super::state::Caerus;
use super::super::work::Out;
use super::Gateway;
use base::txn::{ClientRequest, Submission, Transaction};
use base::{NodeId, PartitionId, Rank, RegionId, SqlError, Time, TxnId};

impl Caerus {
    /// A client submits a transaction, which waits until there is room.
    pub(in crate::caerus) fn take_submission(&mut self, now: Time, submission: Submission) -> TxnId {
        self.gateway.submit(now, &self.cluster, submission, self.not_whole())
    }
    /// A home is to move. Errors: it cannot go there.
    pub(in crate::caerus) fn take_move(
        &mut self,
        now: Time,
        partition: PartitionId,
        to: RegionId,
    ) -> Result<TxnId, SqlError> {
        let submission = self.residences.move_of(&self.cluster, partition, to)?;
        let id = self.gateway.submit(now, &self.cluster, submission, None);
        self.gateway.moves(id, partition, to);
        Ok(id)
    }
    /// A life goes on with what the former one had under way.
    pub(in crate::caerus) fn begin_life(&mut self, incarnation: u32) {
        self.gateway.resume(incarnation);
    }

    /// Starts transactions that wait, as far as there is room; whether it did.
    pub(in crate::caerus) fn release(&mut self, now: Time, out: &mut Out) -> bool {
        let mut any = false;
        while self.has_room()
            && let Some((named, submitted_at)) = self.gateway.waiting.pop_front()
        {
            any = true;
            self.begin(now, named, submitted_at, out);
        }
        if self.gateway.waiting_count() > 0 {
            base::sometimes!("a gateway holds transactions back");
        }
        any
    }

    /// Whether this gateway may start another transaction. What is blocked is not counted.
    fn has_room(&self) -> bool {
        let options = &self.cluster.options;
        self.gateway.outstanding_count() < options.admission.outstanding_max + self.outcomes.obscured_count()
            && self.merger.unordered() < options.admission.unordered_max + self.availability.blocked_count()
    }

    fn begin(&mut self, now: Time, (mut transaction, mut request): Named, submitted_at: Time, out: &mut Out) {
        let txn = transaction.id;
        let (cluster, gateway, residences) = (&self.cluster, &self.gateway, &self.residences);
        let needs = || needs(cluster, gateway, residences, (&transaction, request));
        if let Some(error) = self.availability.refusal(cluster, needs, &transaction, request) {
            self.gateway.moving.remove(&txn);
            return self.gateway.refuse(now, &self.cluster, txn, error, submitted_at);
        }
        if self.availability.delays(needs) {
            base::sometimes!("a gateway delays what needs a silent region");
            return self.gateway.held_back.push(((transaction, request), submitted_at));
        }
        let (wish, attempt) = (self.gateway.moving.remove(&txn), self.gateway.count);
        transaction.homes = match self.residences.says(&self.cluster, (&transaction, request), wish, attempt)
        {
            Ok(homes) => homes,
            Err(error) => return self.gateway.refuse(now, &self.cluster, txn, error, submitted_at),
        };
        if transaction.homes.as_ref().is_some_and(|homes| !homes.moves.is_empty()) {
            // Repeated, it finds everything where it should be.
            request = None;
        }
        let regions = self.cluster.regions_of(&transaction);
        let named = (transaction, request);
        self.gateway.open(now, &self.cluster, named.clone(), regions, submitted_at);
        for sequence in sequences_in(self.cluster.entrances(regions)) {
            if self.logs.is_open(sequence) {
                self.arrive(now, sequence, named.clone(), out);
                continue;
            }
            let leader = self.leader(sequence);
            if leader.0 != self.cluster.me {
                self.gateway.push(&self.cluster, sequence, leader, named.clone());
            }
            // Who leads and is not open yet looks here when it is, and who does not any more when it hears
            // who does.
        }
    }

    /// Another node leads a sequence now, or this one: what this gateway has under way goes there.
    pub(in crate::caerus) fn follow_leader(&mut self, sequence: SequenceId) {
        match self.logs.leads(sequence) {
            true => self.gateway.turn_inside(sequence),
            false => self.gateway.turn_to(&self.cluster, sequence, self.leader(sequence)),
        }
    }

    /// Looks for sequences that nobody serves: refuses readers that need them, and tells clients that wait for them.
    pub(in crate::caerus) fn look_for_silence(&mut self, now: Time, out: &mut Out) {
        if !self.cluster.is_replica || !self.availability.look(now, &self.cluster, &self.logs) {
            return;
        }
        self.availability.search(&self.merger);
        self.refuse_readers(out);
        let (cluster, graph, known) = (&self.cluster, self.merger.graph(), &self.availability);
        let in_flight = self.gateway.outstanding().filter(|(txn, _)| !self.outcomes.is_obscured(**txn));
        let obscured = in_flight.filter_map(|(txn, outstanding)| {
            Some((*txn, known.obscures(cluster, graph.find(*txn), outstanding.regions())?))
        });
        for (txn, error) in obscured.collect::<Vec<_>>() {
            base::sometimes!("a client is told that a lost region leaves its transaction's outcome unknown");
            self.obscure(txn);
            self.gateway.answer_unknown(now, &self.cluster, txn, error);
        }
    }

    /// A node of the answering region tells how a transaction of this gateway ended there.
    pub(in crate::caerus) fn on_executed(
        &mut self,
        now: Time,
        from: NodeId,
        txn: TxnId,
        end: (TxnId, Rank),
        share: Share,
    ) {
        let Some(outstanding) = self.gateway.told(from, txn, end, share) else { return };
        if !self.was_obscured(txn) {
            self.gateway.end(now, &self.cluster, end, outstanding);
        }
    }
}

/// What a transaction that sets out needs: sequences that order it, as bits.
fn needs(
    cluster: &Cluster,
    gateway: &Gateway,
    residences: &Residences,
    (transaction, request): (&Transaction, Option<ClientRequest>),
) -> u64 {
    if gateway.is_moving(transaction.id) || transaction.program.schema_change().is_some() {
        return cluster.running().into_iter().fold(0, |all, sequence| all | sequence.bit());
    }
    let homes = residences.claims(cluster, (transaction, request), gateway.count());
    let regions = match homes {
        None => cluster.regions_of(transaction),
        homes => cluster.regions_of(&Transaction { homes, ..transaction.clone() }),
    };
    regions | cluster.entrances(regions)
}

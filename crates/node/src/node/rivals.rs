//! Other systems' ways of reading (see [`reads::rival`]): what a node announces, batches, asks and holds back.
//!
//! IN: streams and acknowledgements of this node's partitions, announcements and reports of others. OUT:
//! announcements, reports, answers of writers once every copy has them. KEEPS: whoever may still read at a cut
//! keeps its versions from being collected; a writer that is held back is answered once.
//!
//! Batch cuts are old, and a query may read one for a while after it has learned of it. That holds up nothing but
//! the merging of columns, each node for itself: what the engine keeps for conflicts (and tells others with every
//! transaction) need not wait for readers of ranks.

use super::*;
use crate::message::{AnswerBody, Question, RivalMessage};
use crate::questions::Owner;
use base::order::StreamItem;
use reads::batches::{BatchManager, Batcher, HOLD_NS};
use reads::rival::Rival;
use reads::snapshot::batch_cut::BatchCutQuery;
use reads::snapshot::central_timestamp::CentralTimestampQuery;
use reads::snapshot::safe_timestamp::SafeTimestampQuery;
use reads::snapshot::synchronous_replica::SynchronousReplicaQuery;
use reads::snapshot::{Ask, QueryMeta};
use std::collections::VecDeque;

/// What a node keeps for the rival that its cluster runs.
pub(super) struct RivalState {
    pub kind: Rival,
    /// Safe timestamps and batch cuts: how far each partition here is safe, as its stream says.
    announced: BTreeMap<PartitionId, Rank>,
    /// Batch cuts: one per partition here.
    batchers: BTreeMap<PartitionId, Batcher>,
    /// Batch cuts, at the central node.
    manager: Option<BatchManager>,
    /// Synchronous replicas: partitions of transactions that were submitted here.
    submitted: BTreeMap<TxnId, Vec<PartitionId>>,
    /// Executed, not at every copy yet: at how many partitions.
    held: BTreeMap<TxnId, (Answer, usize)>,
    /// Records that some copy has not acknowledged, by stream index.
    unacknowledged: BTreeMap<PartitionId, VecDeque<(u64, TxnId)>>,
    /// Batch cuts: what was collected lately, and when; columns keep it for a while.
    spared: VecDeque<(Time, Rank)>,
    spared_below: Rank,
    /// Who waits for such a record.
    waiting: BTreeMap<(PartitionId, TxnId), BTreeSet<(NodeId, QuestionId)>>,
}

impl RivalState {
    pub fn new(kind: Rival, me: NodeId, topology: &Topology) -> RivalState {
        let central = topology.node_of(CENTRAL) == me;
        let batching = kind == Rival::BatchCut;
        RivalState {
            kind,
            announced: BTreeMap::new(),
            batchers: topology
                .partitions_at(me)
                .filter(|_| batching)
                .map(|p| (p, Batcher::default()))
                .collect(),
            manager: (batching && central).then(|| BatchManager::new(topology.partition_ids())),
            submitted: BTreeMap::new(),
            held: BTreeMap::new(),
            unacknowledged: BTreeMap::new(),
            spared: VecDeque::new(),
            spared_below: Rank::ZERO,
            waiting: BTreeMap::new(),
        }
    }

    /// Everything at or below `below` may be collected, were it not for this rival's queries: up to where columns
    /// may forget now. A barrier is published about as early as what it closes may be collected; sparing it for
    /// twice the time that a query has leaves room for reports that are lost. A query whose barrier lies below
    /// all the same is refused by the columns.
    pub fn spare(&mut self, now: Time, below: Rank) -> Rank {
        if self.kind != Rival::BatchCut {
            return below;
        }
        self.spared.push_back((now, below));
        while let Some((_, rank)) = self.spared.pop_front_if(|(at, _)| *at + 2 * HOLD_NS <= now) {
            self.spared_below = rank;
        }
        self.spared_below
    }

    /// A transaction that will be answered here.
    pub fn submitted(&mut self, txn: TxnId, partitions: Vec<PartitionId>) {
        if self.kind == Rival::SynchronousReplica {
            self.submitted.insert(txn, partitions);
        }
    }

    /// An item gets this index on a partition's stream to other nodes, if there are any.
    pub fn streams(&mut self, partition: PartitionId, index: Option<u64>, item: &StreamItem) {
        match (self.kind, item, index) {
            (Rival::SynchronousReplica, StreamItem::Record(record), Some(index)) => {
                self.unacknowledged.entry(partition).or_default().push_back((index, record.txn));
            }
            (Rival::SafeTimestamp | Rival::BatchCut, StreamItem::Low(rank), _) => {
                let announced = self.announced.entry(partition).or_default();
                *announced = (*announced).max(*rank);
            }
            _ => {}
        }
    }
}

/// Where central services live.
pub(super) const CENTRAL: PartitionId = PartitionId(0);

impl<E: Engine> Node<E> {
    /// The rival's rule for a strong query that arrives now, and the floor to hold meanwhile.
    pub(super) fn rival_rule(&self, meta: QueryMeta) -> Option<(Box<dyn SnapshotRule>, Rank)> {
        let rival = self.rival.as_ref()?;
        // Whatever the oracle will say lies above the true time of the arrival.
        let arrived = (meta.arrived - 2 * self.topology.clock_bound_ns).rank();
        Some(match rival.kind {
            Rival::SafeTimestamp => (Box::new(SafeTimestampQuery::new(meta)), self.columns.safe()),
            Rival::CentralTimestamp => (Box::new(CentralTimestampQuery::new(meta)), arrived),
            // Its columns are spared for long enough.
            Rival::BatchCut => (Box::new(BatchCutQuery::new(meta)), arrived),
            Rival::SynchronousReplica => {
                let query = SynchronousReplicaQuery::new(meta, &self.columns);
                let cut = query.cut();
                (Box::new(query), cut)
            }
        })
    }

    /// The question that an [`Ask`] stands for.
    pub(super) fn question_of(ask: Ask) -> (PartitionId, Question) {
        let partition = ask.partition();
        let what = match ask {
            Ask::Close(close) => Question::Close(close),
            Ask::Calibrate(_) => Question::Calibrate,
            Ask::Latest(_, granules) => Question::Latest(granules),
            Ask::Record(_, txn) => Question::Record(txn),
            Ask::Timestamp => Question::Timestamp,
            Ask::Batches => Question::Batches,
        };
        (partition, what)
    }

    // ---- announcements and batches ----------------------------------------------------------------

    pub(super) fn arm_rival(&mut self, now: Time, out: &mut Effects<Self>) {
        let interval_ns = self.rival.as_ref().and_then(|rival| rival.kind.interval_ns());
        // Nodes do not announce in step: each begins at its own moment of the interval.
        if let Some(interval_ns) = interval_ns {
            let phase_ns = interval_ns * (u64::from(self.id.0) * 7 % 30) / 30;
            out.timer(Timer::Rival, now + interval_ns + phase_ns);
        }
    }

    pub(super) fn rival_tick(&mut self, now: Time, out: &mut Effects<Self>) {
        let Some(kind) = self.rival.as_ref().map(|rival| rival.kind) else { return };
        match kind {
            Rival::SafeTimestamp => self.spread(now, out),
            Rival::BatchCut => self.close_batches(now, out),
            Rival::CentralTimestamp | Rival::SynchronousReplica => {}
        }
        self.tell_floor();
        if let Some(interval_ns) = kind.interval_ns() {
            out.timer(Timer::Rival, now + interval_ns);
        }
    }

    /// Puts on each stream how far its partition is safe, so that what lies below has arrived when a subscriber
    /// learns it. Answers what was announced so far.
    fn announce(&mut self, now: Time, out: &mut Effects<Self>) -> Vec<(PartitionId, Rank)> {
        let partitions: Vec<PartitionId> = self.topology.partitions_at(self.id).collect();
        for &partition in &partitions {
            let safe = self.ask_at_once(now, txn::engine::Question::SafeRank { partition });
            match safe.and_then(Answered::rank) {
                Ok(rank) => self.stream(now, partition, StreamItem::Low(rank), out),
                // This engine cannot tell without waiting.
                Err(_) => self.publish_low(now, partition, out),
            }
        }
        if !partitions.is_empty() {
            self.flush(now, out);
        }
        let announced = self.rival.iter().flat_map(|rival| &rival.announced);
        announced.map(|(partition, rank)| (*partition, *rank)).collect()
    }

    /// Tells nodes with columns how far partitions are safe whose streams they do not get.
    fn spread(&mut self, now: Time, out: &mut Effects<Self>) {
        let ranks = self.announce(now, out);
        let topology = self.topology.clone();
        for node in topology.node_ids() {
            let subscribes = &topology.nodes[node.0 as usize].subscribes;
            let lacks_one = ranks.iter().any(|(p, _)| !subscribes.contains(p));
            if node != self.id && !subscribes.is_empty() && lacks_one {
                self.send(node, Message::Rival(RivalMessage::Safe { ranks: ranks.clone() }), out);
            }
        }
        self.columns.hear(&ranks);
    }

    fn close_batches(&mut self, now: Time, out: &mut Effects<Self>) {
        let central = self.topology.node_of(CENTRAL);
        for (partition, safe) in self.announce(now, out) {
            let Some(rival) = &mut self.rival else { return };
            let Some(interval_ns) = rival.kind.interval_ns() else { return };
            let Some(batcher) = rival.batchers.get_mut(&partition) else { continue };
            let barrier = batcher.close(safe, interval_ns);
            let report = RivalMessage::Batch { partition, barrier };
            match central == self.id {
                true => self.on_rival(now, report, out),
                false => self.send(central, Message::Rival(report), out),
            }
        }
    }

    pub(super) fn on_rival(&mut self, now: Time, message: RivalMessage, out: &mut Effects<Self>) {
        let Some(rival) = &mut self.rival else { return };
        match message {
            RivalMessage::Safe { ranks } => {
                self.columns.hear(&ranks);
                self.finish_queries(now, out);
            }
            RivalMessage::Batch { partition, barrier } => {
                let Some(manager) = &mut rival.manager else { return };
                manager.report(partition, barrier);
            }
        }
    }

    // ---- questions --------------------------------------------------------------------------------

    /// Answers a question that only rivals ask; `Replicated` possibly later.
    pub(super) fn serve_rival(
        &mut self,
        now: Time,
        from: NodeId,
        question: QuestionId,
        partition: PartitionId,
        what: &Question,
        out: &mut Effects<Self>,
    ) {
        let answer = match (what, &mut self.rival) {
            (Question::Timestamp, _) => {
                let answered = self.ask_at_once(now, txn::engine::Question::Timestamp);
                let refused = |_| SqlError::unsupported("a central timestamp with this engine's options");
                answered.and_then(Answered::rank).map(AnswerBody::Timestamp).map_err(refused)
            }
            (Question::Batches, Some(RivalState { manager: Some(manager), .. })) => {
                Ok(AnswerBody::Batches(manager.published()))
            }
            (Question::Replicated(txn), Some(rival)) => {
                let records = rival.unacknowledged.get(&partition);
                if records.is_some_and(|records| records.iter().any(|(_, other)| other == txn)) {
                    rival.waiting.entry((partition, *txn)).or_default().insert((from, question));
                    return;
                }
                Ok(AnswerBody::Replicated)
            }
            _ => Err(SqlError::unsupported("a batch cut in a cluster that does not run them")),
        };
        self.answer(now, from, question, partition, 0, answer, out);
    }

    // ---- synchronous replicas ---------------------------------------------------------------------

    /// A transaction has been executed everywhere: answers it, or asks its partitions whether every copy has
    /// it, which it is answered after.
    pub(super) fn answer_when_copied(&mut self, now: Time, answer: Answer, out: &mut Effects<Self>) {
        let Some(rival) = &mut self.rival else { return self.answered(now, answer, out) };
        let txn = answer.txn;
        let partitions = rival.submitted.remove(&answer.submitted_as).unwrap_or_default();
        if partitions.is_empty() || !answer.outcome.is_committed() {
            return self.answered(now, answer, out);
        }
        rival.held.insert(txn, (answer, partitions.len()));
        for partition in partitions {
            let question = self.questions.next_question();
            self.ask(now, question, partition, Question::Replicated(txn), Owner::Copies(txn), out);
        }
    }

    /// Every copy of one of its partitions has it.
    pub(super) fn copied(&mut self, now: Time, txn: TxnId, out: &mut Effects<Self>) {
        let Some(rival) = &mut self.rival else { return };
        let Some((_, open)) = rival.held.get_mut(&txn) else { return };
        *open -= 1;
        if *open == 0 {
            let (answer, _) = rival.held.remove(&txn).expect("just found");
            self.answered(now, answer, out);
        }
    }

    /// Every subscriber has acknowledged a partition's stream up to `everywhere`.
    pub(super) fn rival_acknowledged(
        &mut self,
        now: Time,
        partition: PartitionId,
        everywhere: u64,
        out: &mut Effects<Self>,
    ) {
        let Some(rival) = &mut self.rival else { return };
        let Some(records) = rival.unacknowledged.get_mut(&partition) else { return };
        let mut told = Vec::new();
        while let Some((index, txn)) = records.front()
            && *index < everywhere
        {
            told.extend(rival.waiting.remove(&(partition, *txn)).into_iter().flatten());
            records.pop_front();
        }
        for (from, question) in told {
            self.answer(now, from, question, partition, 0, Ok(AnswerBody::Replicated), out);
        }
    }
}

//! What a node remembers, and the loop that settles everything one event brings about.

use super::asking::Asking;
use super::availability::Availability;
use super::batcher::{Link, Outstanding};
use super::calibrating::{Calibrations, Finding};
use super::closing::Closing;
use super::collection::Collector;
use super::homes::Residence;
use super::message::{Lives, Message, Named, Share, Term, Timer};
use super::options::{Mutant, Options};
use super::pacing::Pace;
use super::plausibility::Refusals;
use super::protocol::Global;
use super::recovery::Candidacy;
use super::rejoin::{HandedOut, Joining, Rejoined};
use super::requests::Requests;
use super::resting::Rest;
use super::rounds::inside;
use super::sequence::Sequence;
use super::sequencer::Sequencer;
use crate::delays::Delays;
use crate::engine::{Answer, EngineEffect, Executor};
use crate::graph::conflict::Flaws;
use crate::graph::vertex::{Ref, Vertices};
use base::order::CloseTicket;
use base::topology::Topology;
use base::txn::{ClientRequest, Gathered, Home, Transaction};
use base::{LogPosition, NodeId, PartitionId, Rank, RegionId, TableId, Time, TxnId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

pub(super) type Out = Vec<EngineEffect<Message, Timer>>;

/// The engine at one node.
#[derive(Clone, Debug)]
pub struct Caerus {
    pub(super) topology: Arc<Topology>,
    pub(super) me: NodeId,
    pub(super) region: RegionId,
    pub(super) incarnation: u32,
    /// The incarnation that this memory began with; names the links to sequencers.
    pub(super) born: u32,
    pub(super) options: Options,
    /// It merges and executes: it keeps a copy of some partition.
    pub(super) is_replica: bool,
    /// By region: the node that orders there, as long as the region leads its own sequence, and that votes for
    /// it. It has all the region has, as far as others may rely on it.
    pub(super) sequencers: Vec<Option<NodeId>>,
    /// The sequence of all regions, if the protocol has one.
    pub(super) global: Option<Global>,

    /// This node has lost its memory and is not whole.
    pub(super) joining: Option<Box<Joining>>,
    /// Nobody keeps any more what this node lacks of a sequence: it was silent for too long.
    pub(super) left_behind: Option<RegionId>,
    /// It was so, and is whole again.
    pub(super) rejoined: Option<Rejoined>,
    /// Of nodes that lost their memory, this one among them.
    pub(super) lives: Lives,
    /// Copies that such nodes take from here.
    pub(super) handed_out: BTreeMap<NodeId, HandedOut>,

    // The gateway.
    pub(super) count: u64,
    pub(super) waiting: VecDeque<(Named, Time)>,
    /// What was submitted under another id before.
    pub(super) again: BTreeMap<TxnId, TxnId>,
    /// Of these, those that wait for the next tick.
    pub(super) held_back: Vec<(Named, Time)>,
    /// Moves that wait.
    pub(super) moving: BTreeMap<TxnId, (PartitionId, RegionId)>,
    pub(super) outstanding: BTreeMap<TxnId, Outstanding>,
    pub(super) deadlines: BTreeMap<(Time, TxnId), u32>,
    /// To the leaders of sequences that this node does not lead.
    pub(super) links: BTreeMap<RegionId, Link>,
    /// Answers whose rank does not lie in the past yet.
    pub(super) gate: BTreeMap<(Rank, TxnId), Answer>,
    pub(super) gate_timer: Option<Time>,
    /// Largest rank answered here: what is submitted here later is ranked above it.
    pub(super) answered: Rank,

    pub(super) availability: Availability,
    pub(super) refused_messages: Refusals,

    /// Sequences that this node leads: its region's, and those of regions that were lost.
    pub(super) leading: BTreeMap<RegionId, Sequencer>,
    pub(super) candidacies: BTreeMap<RegionId, Candidacy>,
    pub(super) flush_timer: Option<Time>,
    pub(super) pace: Pace,
    pub(super) rest: Rest,

    // The merger.
    /// By region, and that of all regions behind them, as it arrives here.
    pub(super) sequences: Vec<Sequence>,
    pub(super) partitions: Vec<Partition>,
    /// Entries that said a home which their sequence had not come to.
    pub(super) premature: u64,
    pub(super) graph: Vertices<Extra>,
    /// Vertices without a final place.
    pub(super) unordered: usize,
    pub(super) groups: BTreeMap<u32, Group>,
    pub(super) groups_made: u32,
    /// Take part here and have not executed, by the lower bound of their rank.
    pub(super) pending: BTreeSet<(Rank, u32)>,
    /// Done here, and kept because a later entry might have to be ranked above them.
    pub(super) kept: BTreeSet<(Rank, u32)>,
    /// Wait for reads of another node of this region, since when; and what is known of those nodes.
    pub(super) exchanging: BTreeMap<TxnId, Time>,
    pub(super) asking: Asking,
    /// Reads of other nodes whose transaction is not known here, and since when.
    pub(super) early_reads: BTreeMap<TxnId, (Time, Vec<(PartitionId, Gathered)>)>,
    /// Ends that a gateway elsewhere may ask for.
    pub(super) outcomes: BTreeMap<TxnId, ((TxnId, Rank), Share)>,
    pub(super) requests: Requests,

    // Readers.
    pub(super) closes: BTreeMap<CloseTicket, Closing>,
    /// Closes to look at again when this slot changes.
    pub(super) close_waits: BTreeMap<u32, Vec<CloseTicket>>,
    pub(super) floor: Option<Rank>,
    /// Where clocks have no bound: readers that find their cut, questions for them, those that have come to know
    /// another home since, and when lows were asked for.
    pub(super) finding: BTreeMap<CloseTicket, Finding>,
    pub(super) calibrations: BTreeMap<RegionId, Calibrations>,
    pub(super) wanted_later: Vec<(RegionId, CloseTicket)>,
    pub(super) lows_asked: BTreeMap<RegionId, (Time, Rank)>,
    /// By sequence and copy: the largest rank that a reader here has had hastened.
    pub(super) hastened: BTreeMap<(RegionId, NodeId), Rank>,

    pub(super) collector: Collector,
    pub(super) watermark: Rank,
    /// Every copy has executed everything up to here.
    pub(super) ready: Rank,
    /// Versions at or below this have been given up here.
    pub(super) given_up: Rank,
    /// What transactions that have not executed here read, and at which cut.
    pub(super) read_below: BTreeSet<(Rank, u32)>,
    pub(super) delays: Delays,
    pub(super) work: VecDeque<Work>,
    /// Reused: whom an entry conflicts with.
    pub(super) scratch: Vec<Ref>,
}

/// One partition, as merged and (perhaps) executed here.
#[derive(Clone, Debug)]
pub(super) struct Partition {
    /// Before it has ever moved.
    pub origin: Home,
    /// Of all that has not moved by itself.
    pub rest: Residence,
    /// Tables and indexes that have, or are about to.
    pub tables: BTreeMap<TableId, Residence>,
    /// This node keeps a copy.
    pub local: bool,
    pub position: LogPosition,
    pub rank_max: Rank,
    /// Somebody reads the stream.
    pub streams: bool,
}

/// What this engine keeps beside a vertex.
#[derive(Clone, Debug, Default)]
pub(super) struct Extra {
    /// Sequences that order it, as bits.
    pub regions: u64,
    /// Sequences whose entry has arrived.
    pub got: u64,
    /// Edges of vertices without a place that lead here.
    pub holders: u32,
    /// Its client's name for it.
    pub request: Option<ClientRequest>,
    /// It aborts if it read below this: the largest of its entries'.
    pub collected: Rank,
    /// Something was not homed where it says: it takes no effect.
    pub stale: bool,
    /// It takes part at this node.
    pub local: bool,
    /// It takes part at no other node of this region.
    pub alone: bool,
    pub ordered_at: Time,
    /// Present for transactions that take part at several nodes of this region.
    pub exchange: Option<Box<Exchange>>,
}

/// Reads that nodes of one region show each other.
#[derive(Clone, Debug, Default)]
pub(super) struct Exchange {
    pub reads: BTreeMap<PartitionId, Gathered>,
    /// Own reads are in it.
    pub gathered: bool,
}

/// A component with several members here.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub members: Vec<Ref>,
    pub unexecuted: usize,
}

/// What is left to do within the current call.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// A message to oneself.
    Deliver(Message),
    /// A complete transaction may have got its place.
    Search(Ref),
    /// All predecessors are done.
    Execute(Ref),
}

impl Caerus {
    /// An engine for `me` in its `incarnation`-th life. Every region that runs partitions must keep a
    /// copy of all of them ([`Topology::replicated`]).
    pub fn new(topology: Arc<Topology>, me: NodeId, incarnation: u32, options: Options) -> Caerus {
        let regions: Vec<RegionId> = (0..topology.wan.region_count() as u16).map(RegionId).collect();
        assert!(regions.len() < 64, "fewer than 64 regions");
        let sequencers: Vec<Option<NodeId>> = regions.iter().map(|r| topology.sequencer_of(*r)).collect();
        let region = topology.region_of(me);
        let global = options.protocol.has_global().then(|| Global::of(&topology, &sequencers));
        let flaws = flaws(&options);
        for partition in topology.partition_ids() {
            for sequencer in sequencers.iter().flatten() {
                let near = topology.copy_near(partition, *sequencer);
                assert_eq!(
                    topology.region_of(near),
                    topology.region_of(*sequencer),
                    "{partition} everywhere"
                );
            }
        }
        let partition = |id| {
            let region = match global {
                Some(global) if !options.protocol.has_regional() => global.number,
                _ => topology.region_of_partition(id),
            };
            let home = Home { region, moves: 0 };
            Partition {
                origin: home,
                rest: Residence::at(home, flaws),
                tables: BTreeMap::new(),
                local: topology.holds(me, id),
                position: LogPosition(0),
                rank_max: Rank::ZERO,
                streams: topology.subscribers_of(id).any(|n| topology.copy_near(id, n) == me),
            }
        };
        let partitions = topology.partition_ids().map(partition).collect();
        let is_replica = topology.copies_at(me).next().is_some();
        let elsewhere = sequencers.iter().flatten().count().saturating_sub(1);
        assert!(options.copies_elsewhere <= elsewhere, "K is at most the number of other regions");
        let is_sequencer = sequencers[region.0 as usize] == Some(me);
        let own = (is_sequencer && options.protocol.has_regional()).then_some(region);
        let everybodys =
            global.filter(|global| is_sequencer && global.home == region).map(|global| global.number);
        let lead = |sequence| {
            let (term, nothing) = (Term::from(region.0), (0, VecDeque::new()));
            let mut sequencer = Sequencer::new(&topology, me, &options, Time::ZERO, term, nothing);
            sequencer.is_open = true;
            if global.is_none_or(|global| global.number != sequence) {
                sequencer.inside = inside(&topology, me, &options);
            }
            (sequence, sequencer)
        };
        let leading = own.into_iter().chain(everybodys).map(lead).collect();
        let (keeps, waits) = (options.copies_elsewhere > 0, options.machines_inside > 1);
        let regional = regions.iter().map(|region| Sequence::of(*region, keeps, waits));
        let everybodys = global.map(|global| Sequence::of(global.home, global.copies > 0, false));
        let sequences = regional.chain(everybodys).collect();
        Caerus {
            me,
            region,
            incarnation,
            born: incarnation,
            is_replica,
            joining: None,
            left_behind: None,
            rejoined: None,
            lives: Lives::new(),
            handed_out: BTreeMap::new(),
            count: 0,
            waiting: VecDeque::new(),
            again: BTreeMap::new(),
            held_back: Vec::new(),
            moving: BTreeMap::new(),
            outstanding: BTreeMap::new(),
            deadlines: BTreeMap::new(),
            links: BTreeMap::new(),
            gate: BTreeMap::new(),
            gate_timer: None,
            answered: Rank::ZERO,
            availability: Availability::default(),
            refused_messages: Refusals::new(),
            leading,
            candidacies: BTreeMap::new(),
            flush_timer: None,
            pace: Pace::default(),
            rest: Rest::default(),
            sequences,
            partitions,
            premature: 0,
            graph: Vertices::default(),
            unordered: 0,
            groups: BTreeMap::new(),
            groups_made: 0,
            pending: BTreeSet::new(),
            kept: BTreeSet::new(),
            exchanging: BTreeMap::new(),
            asking: Asking::new(&topology, region),
            early_reads: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            requests: Requests::default(),
            closes: BTreeMap::new(),
            close_waits: BTreeMap::new(),
            floor: None,
            finding: BTreeMap::new(),
            calibrations: BTreeMap::new(),
            wanted_later: Vec::new(),
            lows_asked: BTreeMap::new(),
            hastened: BTreeMap::new(),
            collector: Collector::new(),
            watermark: Rank::ZERO,
            ready: Rank::ZERO,
            given_up: Rank::ZERO,
            read_below: BTreeSet::new(),
            delays: Delays::new(&topology),
            work: VecDeque::new(),
            scratch: Vec::new(),
            sequencers,
            global,
            topology,
            options,
        }
    }

    /// An engine that has lost the memory of its former lives, in its `incarnation`-th one. A node with copies gets
    /// them from elsewhere before anybody is answered; see `rejoin`.
    pub fn rejoining(topology: Arc<Topology>, me: NodeId, incarnation: u32, options: Options) -> Caerus {
        let mut engine = Caerus::new(topology, me, incarnation, options);
        if engine.is_replica {
            engine.leading.clear();
            engine.joining = Some(Box::new(Joining::new(engine.refused())));
            engine.lives.insert(me, incarnation);
        }
        engine
    }

    /// Vertices held now.
    pub fn vertex_count(&self) -> usize {
        self.graph.len()
    }
    /// Transactions known here that have no final place yet.
    pub fn unordered_count(&self) -> usize {
        self.unordered
    }
    /// Granules remembered by the conflict indexes.
    pub fn granule_count(&self) -> usize {
        let residences = self.partitions.iter().flat_map(Partition::residences);
        residences.flat_map(|known| &known.eras).map(|era| era.index.len()).sum()
    }

    pub(super) fn partition(&self, partition: PartitionId) -> &Partition {
        &self.partitions[partition.0 as usize]
    }
    pub(super) fn flaws(&self) -> Flaws {
        flaws(&self.options)
    }
    pub(super) fn clock_bound_ns(&self) -> u64 {
        self.topology.clock_bound_ns
    }
    /// Sequences that give a transaction its place, as bits.
    pub(super) fn regions_of(&self, transaction: &Transaction) -> u64 {
        let moves = self.regions_of_move(transaction);
        moves.unwrap_or_else(|| {
            transaction.participants().fold(0, |all, p| all | self.regions_at(transaction, p))
        })
    }
    /// The region whose nodes answer: the gateway's own if it orders the transaction or regions may be lost,
    /// else the nearest that does. (A copy that comes here from another region makes an entry stable for K = 1,
    /// so asking those who ordered it would not be faster.)
    pub(super) fn answering_region(&self, gateway: NodeId, regions: u64) -> RegionId {
        let origin = self.topology.region_of(gateway);
        let regions = self.witnesses(regions);
        let near = |region: &RegionId| (self.topology.wan.round_trip_ns(origin, *region), *region);
        let ordering = regions_in(regions);
        let has_copies = self.sequencers[origin.0 as usize].is_some();
        if regions >> origin.0 & 1 == 1 || self.survives() && has_copies {
            return origin;
        }
        ordering.min_by_key(near).expect("a transaction is ordered somewhere")
    }

    pub(super) fn send(&mut self, to: NodeId, message: Message, out: &mut Out) {
        if to == self.me {
            self.work.push_back(Work::Deliver(message));
        } else {
            out.push(EngineEffect::Send { to, message });
        }
    }

    pub(super) fn handle(&mut self, now: Time, from: NodeId, message: Message, out: &mut Out) {
        match message {
            Message::Submit { sequence, term, incarnation, first, transactions, sent_at } => {
                self.delays.arrived(from, self.me, now.since(sent_at));
                self.on_submit(now, from, sequence, term, incarnation, (first, transactions, sent_at), out)
            }
            Message::SubmitAck { sequence, term, incarnation, next, gap, echo } => {
                self.on_submit_ack(now, from, sequence, term, incarnation, next, (gap, echo))
            }
            Message::Append(append) => {
                self.delays.arrived(from, self.me, now.since(append.sent_at));
                self.on_append(now, from, append, out)
            }
            Message::AppendAck { sequence, term, next, merged, gap, granted, probe, lives, echo } => {
                if self.hear_lives(from, &lives) {
                    let (arrived, promised) = ((next, merged, gap, echo), (granted, probe));
                    self.on_append_ack(now, from, sequence, term, arrived, promised, out)
                }
            }
            Message::LeftBehind { sequence, term, first } => self.on_left_behind(from, sequence, term, first),
            Message::LowWanted { sequence, rank, at } => self.on_low_wanted(now, at, sequence, rank, out),
            Message::Prepare { sequence, term, round } => self.on_prepare(from, sequence, term, round, out),
            Message::Prepared { sequence, term, round } => {
                self.on_prepared(now, from, sequence, term, round, out)
            }
            Message::Calibrate { sequence, number } => self.on_calibrate(now, from, sequence, number, out),
            Message::Calibrated { sequence, term, number, end } => {
                self.on_calibrated(sequence, number, (term, end), out)
            }
            Message::Suspect { sequence, term } => self.on_suspect(now, from, sequence, term, out),
            Message::Agreed { sequence, term } => self.on_agreed(now, from, sequence, term, out),
            Message::Elect { sequence, term, merged, accepted, end } => {
                self.on_elect(now, from, sequence, term, merged, (accepted, end), out)
            }
            Message::Promise { sequence, term, tail, lives } => {
                if self.hear_lives(from, &lives) {
                    self.on_promise(now, from, sequence, term, tail, out)
                }
            }
            Message::Overtaken { sequence, term } => self.on_overtaken(now, sequence, term),
            Message::Leads { sequence, term } => self.on_leads(now, from, sequence, term),
            Message::Reads { txn, gathered } => self.on_reads(now, from, txn, gathered),
            Message::ReadsWanted { txn } => self.on_reads_wanted(from, txn, out),
            Message::Homes { homes } => self.on_homes(homes),
            Message::Executed { txn, end, share } => self.on_executed(now, from, txn, end, share),
            Message::OutcomeWanted { txn } => self.on_outcome_wanted(from, txn, out),
            Message::Progress { done, executed, floor, delays_ns } => {
                self.on_progress(now, from, (done, executed), floor, delays_ns, out)
            }
            Message::Watermark { term, rank, ready, floors, delays_ns } => {
                self.delays.share(self.me, delays_ns);
                self.on_watermark(term, (rank, ready), &floors, out)
            }
            Message::Rejoin { life, copy, merged } => self.on_rejoin(from, life, copy, &merged, out),
            Message::Rejoined { copy, lives, standings } => {
                self.on_rejoined(now, from, copy, &lives, standings, out)
            }
            Message::CopyWanted { .. } | Message::CopyPart { .. } => {
                unreachable!("whoever asks for a copy is not this node")
            }
        }
    }

    /// Does everything that follows within this call, then sets the timers.
    pub(super) fn settle(&mut self, now: Time, executor: &mut dyn Executor, out: &mut Out) {
        self.release_held(now, out);
        loop {
            while let Some(work) = self.work.pop_front() {
                match work {
                    Work::Deliver(message) => self.handle(now, self.me, message, out),
                    Work::Search(root) => self.search(now, root, out),
                    Work::Execute(at) => self.execute(now, at, executor, out),
                }
            }
            self.open_gate(now, out);
            if !self.release(now, out) {
                break;
            }
        }
        self.flush(now, out);
        self.rouse(now, out);
    }
}

fn flaws(options: &Options) -> Flaws {
    Flaws {
        forget_readers: options.planted(Mutant::MissingAntiDependency),
        forget_writers: options.planted(Mutant::InvertedWriteWrite),
    }
}

/// The regions of a set of bits, in order.
pub(super) fn regions_in(bits: u64) -> impl Iterator<Item = RegionId> {
    (0..64).filter(move |n| bits >> n & 1 == 1).map(RegionId)
}

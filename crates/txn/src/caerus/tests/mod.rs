//! The engine in a small world ([`crate::trial::world`]): regions that are lost and come back, homes that move, readers of
//! the nearest copy.
//!
//! Suggested reading order: this file, the modules below.

mod availability;
mod baselines;
mod calibrating;
mod change;
mod collecting;
mod exhaustive;
mod flushing;
mod homes;
mod judge;
mod latency;
mod mutants;
mod plausibility;
mod random;
mod readers;
mod records;
mod recovery;
mod rejoin;
mod repeats;
mod resting;
mod scenarios;
mod traces;

use super::{Caerus, Message, Mutant, Options, SequenceId};
use crate::engine::{Command, Engine, Question};
use crate::timers::Alarms;
use crate::trial::executor::Rows;
use crate::trial::world::{Faults, Subject};
use crate::trial::{access, conflict};
use base::order::{Close, CloseTicket};
use base::schema::{MoveHome, SchemaAction, SchemaChange};
use base::time::MS;
use base::topology::Topology;
use base::txn::{AccessMode, AccessSet, ClientRequest, Granule, Outcome, Submission, TxnProgram};
use base::wan::Wan;
use base::{Datum, NodeId, PartitionId, Rank, RegionId, SqlError, SqlState, TableId, Token, TxnId};
use std::collections::BTreeSet;
use std::sync::Arc;

type World = crate::trial::world::World<Caerus>;
type Event = crate::trial::world::Event<Message>;

impl Subject for Caerus {
    type Options = Options;
    const IS_TRACED: bool = true;
    fn make(topology: Arc<Topology>, me: NodeId, options: Options) -> Caerus {
        Caerus::new(topology, me, 1, options)
    }
    fn reborn(topology: Arc<Topology>, me: NodeId, incarnation: u32, options: Options) -> Caerus {
        Caerus::new(topology, me, incarnation, options)
    }
    fn replaced(topology: Arc<Topology>, me: NodeId, incarnation: u32, options: Options) -> Caerus {
        Caerus::rejoining(topology, me, incarnation, options)
    }
    fn joining(topology: Arc<Topology>, me: NodeId, incarnation: u32, options: Options) -> Caerus {
        Caerus::joining(topology, me, incarnation, options)
    }
}

impl World {
    /// `partitions` per region, one node each region, `perseus3` distances.
    fn new(seed: u64, regions: usize, partitions: u16, clock_bound_ns: u64, options: Options) -> World {
        let wan = Wan::preset("perseus3").unwrap().truncated(regions);
        let mut topology = Topology::one_node_per_region(wan, partitions).replicated();
        topology.clock_bound_ns = clock_bound_ns;
        World::with(seed, topology, options)
    }

    fn submit(&mut self, node: u16, text: &str) -> TxnId {
        self.submit_as(node, "update", access(text), Token::default())
    }
    fn submit_as(&mut self, node: u16, name: &str, access: AccessSet, token: Token) -> TxnId {
        let program = TxnProgram::Procedure { name: name.into(), args: vec![Datum::Int(1)] };
        self.submit_program(node, program, access, token)
    }
    fn submit_program(&mut self, node: u16, program: TxnProgram, access: AccessSet, token: Token) -> TxnId {
        let (access, program) = (Arc::new(access), Arc::new(program));
        let request = self.request.take();
        self.hand_in(node, Submission { program, access, token, request, isolation: Default::default() })
    }
    /// An attempt of a client's request.
    fn attempt(&mut self, node: u16, request: ClientRequest, text: &str) -> TxnId {
        self.request = Some(request);
        self.submit(node, text)
    }
    /// Moves a partition's home.
    fn move_home(&mut self, node: u16, partition: u16, to: u16) -> Result<TxnId, SqlError> {
        let (clock, n, mut out) = (self.clock(NodeId(node)), usize::from(node), Vec::new());
        let (partition, to) = (PartitionId(partition), RegionId(to));
        let command = Command::MoveHome { partition, to };
        let result = self.nodes[n].admin(clock, command, &mut self.rows[n], &mut out);
        self.effects(NodeId(node), out);
        result
    }
    /// Moves a table of some partitions, as a change of the catalog does.
    fn move_table(&mut self, node: u16, table: TableId, partitions: &[u16], to: u16) -> TxnId {
        let (program, access) = moving(table, partitions, to);
        self.submit_program(node, program, access, Token::default())
    }
    /// A name for a request.
    fn named(&mut self) -> ClientRequest {
        ClientRequest { client: 7, number: self.rng.below(u64::MAX), issued_at: self.now }
    }
    /// Closes at the copy that lies nearest to `reader`.
    fn close(&mut self, ticket: u64, reader: u16, partition: u16, rank: Rank, granules: Vec<Granule>) {
        let partition = PartitionId(partition);
        let node = self.topology.copy_near(partition, NodeId(reader));
        if node != NodeId(reader) {
            self.will_close(reader, partition, rank);
        }
        self.close_at(CloseTicket(ticket), node, Close { partition, rank, granules });
    }

    /// Finds a cut at the copy that lies nearest to `reader`, and closes it there.
    fn find(&mut self, ticket: u64, reader: u16, partition: u16, granules: Vec<Granule>) {
        let partition = PartitionId(partition);
        let node = self.topology.copy_near(partition, NodeId(reader));
        let (ticket, clock) = (CloseTicket(ticket), self.clock(node));
        self.finds.insert(ticket, (self.now, node, partition, granules.clone()));
        let answered = self.ask_at(node, clock, Question::Latest { ticket, partition, granules });
        assert_eq!(answered, Ok(None), "the answer is an effect");
    }

    /// A reader's question is about to leave for the nearest copy.
    fn will_close(&mut self, reader: u16, partition: PartitionId, rank: Rank) {
        let reader = NodeId(reader);
        let answered = self.ask_at(reader, self.clock(reader), Question::WillClose { partition, rank });
        assert_eq!(answered, Ok(None));
    }

    /// A node is told that its process is about to end.
    fn hand_over(&mut self, node: u16) {
        let (clock, n, mut out) = (self.clock(NodeId(node)), usize::from(node), Vec::new());
        self.nodes[n].hand_over(clock, &mut self.rows[n], &mut out);
        self.effects(NodeId(node), out);
    }

    fn nodes_of(&self, region: u16) -> BTreeSet<NodeId> {
        let nodes = self.topology.node_ids();
        nodes.filter(|node| self.topology.region_of(*node).0 == region).collect()
    }
    fn kill(&mut self, region: u16) {
        let nodes = self.nodes_of(region);
        self.dead.extend(nodes);
    }
    /// Everybody who is down comes back with what it knew, and all links work again.
    fn heal(&mut self) {
        self.cut_off.clear();
        for node in std::mem::take(&mut self.dead) {
            self.lives += 1;
            let is_its = |event: &Event| matches!(event, Event::Wake { node: at, .. } if *at == node);
            self.events.retain(|_, event| !is_its(event));
            self.alarms[usize::from(node.0)] = Alarms::default();
            let mut out = Vec::new();
            let clock = self.clock(node);
            if self.forgetful.remove(&node) {
                self.forget(node);
                self.nodes[node.0 as usize].start(clock, &mut out);
            } else {
                self.nodes[node.0 as usize].resume(clock, self.lives, &mut out);
            }
            self.effects(node, out);
        }
    }
    /// A region is lost with all it knew.
    fn lose(&mut self, region: u16) {
        let nodes = self.nodes_of(region);
        self.forgetful.extend(&nodes);
        self.dead.extend(nodes);
    }
    /// What a node knew is gone, and whoever it had to do with.
    fn forget(&mut self, node: NodeId) {
        let n = node.0 as usize;
        self.nodes[n] = Caerus::rejoining(self.topology.clone(), node, self.lives, self.options.clone());
        self.rows[n] = Rows::default();
        self.watermarks[n] = Rank::ZERO;
        self.streams.retain(|(at, _), _| *at != node);
        let gone: Vec<CloseTicket> =
            self.closes.iter().filter(|(_, (_, at, _))| *at == node).map(|(ticket, _)| *ticket).collect();
        for ticket in gone {
            self.closes.remove(&ticket);
            self.closed.remove(&ticket);
        }
        self.forgot.insert(node);
    }
    /// A transaction whose gateway lost its memory before it could answer.
    fn is_forgotten(&self, txn: TxnId) -> bool {
        self.forgot.contains(&txn.coordinator)
            && txn.incarnation < self.nodes[txn.coordinator.0 as usize].life.born()
    }
    fn cut_off(&mut self, region: u16) {
        let nodes = self.nodes_of(region);
        self.cut_off.extend(nodes);
    }
    /// Whether its client knows how a transaction ended. Who is told that a region is not available does not.
    fn has_ended(&self, txn: &TxnId) -> bool {
        let silent = [SqlState::CANNOT_CONNECT_NOW, SqlState::TRANSACTION_RESOLUTION_UNKNOWN];
        let is_silent =
            |outcome: &Outcome| matches!(outcome, Outcome::Aborted(e) if silent.contains(&e.state));
        self.answers.get(txn).is_some_and(|(_, answer)| !is_silent(&answer.outcome))
    }
    fn latency_ms(&self, txn: TxnId) -> f64 {
        self.answers[&txn].0.since(self.submitted[&txn].0) as f64 / MS as f64
    }
    /// The order in which transactions executed at a node's copy of a partition.
    fn order(&self, node: u16, partition: u16) -> Vec<TxnId> {
        let log = self.rows[node as usize].log.iter();
        log.filter(|entry| entry.partition.0 == partition).map(|entry| entry.txn).collect()
    }
    /// Nothing is kept of transactions that have ended long ago.
    fn check_empty(&mut self) {
        for node in &mut self.nodes {
            assert_eq!(node.vertex_count(), 0);
            assert!(node.merger.is_settled() && node.gateway.is_empty() && node.scheduler.is_empty());
            assert!(node.outcomes.is_empty());
            assert!(node.readers.is_empty());
            assert!(node.logs.is_empty());
            for sequence in (0..node.logs.len() as u16).map(SequenceId) {
                let words = node.logs.seen(sequence).words();
                assert!(words < node.cluster.topology.nodes.len() + self.lives as usize);
            }
            let graph = node.merger.graph();
            node.residences.forget_now(&|at| graph.get(at).is_some());
            assert_eq!(node.granule_count(), 0);
        }
    }
    fn check_invariants(&self) {
        // One that comes back is not what it was before it has started.
        let starts = |n: usize| self.disks.is_some() && self.dead.contains(&NodeId(n as u16));
        let nodes = self.nodes.iter().enumerate().filter(|(n, _)| !starts(*n));
        nodes.for_each(|(_, node)| node.check_invariants());
    }
}

/// A change of the catalog that moves a table, over all of these partitions.
fn moving(table: TableId, partitions: &[u16], to: u16) -> (TxnProgram, AccessSet) {
    let mut access = AccessSet::default();
    let partitions: Vec<PartitionId> = partitions.iter().copied().map(PartitionId).collect();
    partitions.iter().for_each(|p| access.add(*p, Granule::Partition, AccessMode::Write));
    let moved = MoveHome { table, ids: vec![table], partitions, to: RegionId(to) };
    (
        TxnProgram::Schema(SchemaChange {
            database: Default::default(),
            base_version: 0,
            actions: vec![SchemaAction::MoveHome(moved)],
        }),
        access,
    )
}

fn planted(mutant: Mutant) -> Options {
    Options { mutant: Some(mutant), ..Options::default() }
}

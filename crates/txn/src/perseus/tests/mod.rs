//! The engine in a small world ([`crate::trial::world`]): one copy of each partition, gateways that die, requests that are
//! repeated.
//!
//! Suggested reading order: this file, the modules below.

mod deaths;
mod exhaustive;
mod footprint;
mod judge;
mod latency;
mod mutants;
mod oracle;
mod plausibility;
mod random;
mod records;
mod recovery;
mod repeats;
mod scenarios;

use super::{Message, Mutant, Options, Perseus};
use crate::trial::world::{Faults, Subject};
use crate::trial::{access, conflict};
use base::order::{Close, CloseTicket, StreamItem};
use base::topology::{NodeSpec, Topology};
use base::txn::{AccessSet, ClientRequest, Granule, Submission, TxnProgram};
use base::wan::Wan;
use base::{Datum, NodeId, PartitionId, Rank, RegionId, Token, TxnId};
use std::sync::Arc;

type World = crate::trial::world::World<Perseus>;
type Event = crate::trial::world::Event<Message>;

impl Subject for Perseus {
    type Options = Options;
    const IS_TRACED: bool = false;
    const FALLS_OUT: bool = true;
    fn make(topology: Arc<Topology>, me: NodeId, options: Options) -> Perseus {
        Perseus::new(topology, me, 1, options)
    }
    fn reborn(topology: Arc<Topology>, me: NodeId, incarnation: u32, options: Options) -> Perseus {
        Perseus::new(topology, me, incarnation, options)
    }
}

impl World {
    /// `partitions` per region, one node each region, `perseus3` distances.
    fn new(seed: u64, regions: usize, partitions: u16, clock_bound_ns: u64, options: Options) -> World {
        let wan = Wan::preset("perseus3").unwrap().truncated(regions);
        let mut topology = Topology::one_node_per_region(wan, partitions);
        topology.clock_bound_ns = clock_bound_ns;
        World::with(seed, topology, options)
    }
    /// One partition in each of three regions, and `gateways` nodes without any, from node 3 on.
    fn with_gateways(seed: u64, gateways: u16, options: Options) -> World {
        let mut topology = Topology::one_node_per_region(Wan::preset("perseus3").unwrap(), 1);
        for n in 0..gateways {
            topology.nodes.push(NodeSpec { region: RegionId(n % 3), subscribes: Vec::new() });
        }
        World::with(seed, topology, options)
    }

    fn submit(&mut self, node: u16, access: AccessSet) -> TxnId {
        self.submit_as(node, "update", access, Token::default())
    }
    fn submit_as(&mut self, node: u16, name: &str, access: AccessSet, token: Token) -> TxnId {
        self.wishes += 1;
        let args = vec![Datum::Int(self.wishes)];
        let program = Arc::new(TxnProgram::Procedure { name: name.into(), args });
        self.hand_in(
            node,
            Submission {
                program,
                access: Arc::new(access),
                token,
                request: None,
                isolation: Default::default(),
            },
        )
    }
    /// A submission with a name, to be handed in as often as one likes.
    fn wish(&mut self, access: AccessSet) -> Submission {
        self.wishes += 1;
        let args = vec![Datum::Int(self.wishes)];
        let program = Arc::new(TxnProgram::Procedure { name: "update".into(), args });
        let (client, number, issued_at) = (7, self.wishes as u64, self.now);
        let request = Some(ClientRequest { client, number, issued_at });
        Submission {
            program,
            access: Arc::new(access),
            token: Token::default(),
            request,
            isolation: Default::default(),
        }
    }
    fn repeat(&mut self, node: u16, submission: &Submission) -> TxnId {
        let txn = self.hand_in(node, submission.clone());
        self.repeats.insert(txn);
        txn
    }
    fn close(&mut self, ticket: u64, partition: u16, rank: Rank, granules: Vec<Granule>) {
        let node = self.topology.node_of(PartitionId(partition));
        self.close_at(CloseTicket(ticket), node, Close { partition: PartitionId(partition), rank, granules });
    }
    /// What a partition has streamed.
    fn stream(&self, partition: u16) -> &[StreamItem] {
        let partition = PartitionId(partition);
        self.streams.get(&(self.topology.node_of(partition), partition)).map_or(&[], Vec::as_slice)
    }
    /// Nothing is kept of transactions that have ended long ago.
    fn check_empty(&mut self) {
        for node in &mut self.nodes {
            assert_eq!(node.vertex_count(), 0);
            assert_eq!(node.schedule.pending_count() + node.schedule.turns.group_count(), 0);
            assert_eq!(node.gateway.under_way() + node.gateway.answer_counts().0, 0);
            assert_eq!(node.recoveries.len() + node.requests.attended_count(), 0);
            assert_eq!(node.inquiries.len() + node.reminders.deadline_count(), 0);
            assert_eq!(node.closes.len(), 0);
            node.partitions.conflicts.forget_now(&node.graph);
            assert_eq!(node.granule_count(), 0);
        }
    }
    fn check_invariants(&self) {
        self.nodes.iter().for_each(Perseus::check_invariants);
    }
}

fn planted(mutant: Mutant) -> Options {
    Options { mutant: Some(mutant), ..Options::default() }
}

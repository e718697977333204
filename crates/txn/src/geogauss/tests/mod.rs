//! The engine in small worlds.

mod judge;
mod loss;
mod random;
mod records;
mod scenarios;

use super::*;
use crate::timers::Alarms;
use crate::trial::executor::Rows;
use crate::trial::world::{self, Event, Subject};
pub(super) use crate::trial::{access, panics};
use base::order::{Close, CloseTicket};
use base::schema::{SchemaAction, SchemaChange};
use base::topology::Topology;
use base::txn::{AccessSet, ClientRequest, Granule, TxnProgram};
use base::wan::Wan;
use base::{Datum, PartitionId, TableId, Token};
use std::sync::Arc;

pub(super) type World = world::World<Geogauss>;

impl Subject for Geogauss {
    type Options = Options;
    const IS_TRACED: bool = false;
    const FALLS_OUT: bool = true;

    fn make(topology: Arc<Topology>, me: NodeId, options: Options) -> Geogauss {
        Geogauss::new(topology, me, 1, options)
    }
    fn reborn(topology: Arc<Topology>, me: NodeId, incarnation: u32, options: Options) -> Geogauss {
        Geogauss::new(topology, me, incarnation, options)
    }
    fn replaced(topology: Arc<Topology>, me: NodeId, incarnation: u32, options: Options) -> Geogauss {
        Geogauss::rejoining(topology, me, incarnation, options)
    }
}

/// So many regions of one partition each, 50 ms apart.
fn world(seed: u64, regions: usize, options: Options) -> World {
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    let wan = Wan::uniform("test", &names[..regions], base::time::MS, 100 * base::time::MS);
    World::with(seed, Topology::one_node_per_region(wan, 1).replicated(), options)
}

impl World {
    fn submit(&mut self, node: u16, text: &str) -> TxnId {
        self.submit_as(node, "update", access(text), Token::default())
    }
    fn submit_as(&mut self, node: u16, name: &str, access: AccessSet, token: Token) -> TxnId {
        let wish = self.wish(access, name, false);
        self.hand_in(node, Submission { token, ..wish })
    }
    /// A submission, to be handed in as often as one likes if it is named.
    fn wish(&mut self, access: AccessSet, name: &str, is_named: bool) -> Submission {
        self.wishes += 1;
        let args = vec![Datum::Int(self.wishes)];
        let program = Arc::new(TxnProgram::Procedure { name: name.into(), args });
        let (client, number, issued_at) = (7, self.wishes as u64, self.now);
        let request = is_named.then_some(ClientRequest { client, number, issued_at });
        Submission {
            program,
            access: Arc::new(access),
            token: Token::default(),
            request,
            isolation: Default::default(),
        }
    }
    /// A change of the catalog that drops a table, in a cluster of three partitions.
    fn drop_table(&mut self, node: u16, table: TableId) -> TxnId {
        let actions = vec![SchemaAction::DropTable(table)];
        let change = SchemaChange { database: Default::default(), base_version: 0, actions };
        let wish = self.wish(access("r0 r1 r2"), "change", false);
        self.hand_in(node, Submission { program: Arc::new(TxnProgram::Schema(change)), ..wish })
    }
    fn repeat(&mut self, node: u16, submission: &Submission) -> TxnId {
        let txn = self.hand_in(node, submission.clone());
        self.repeats.insert(txn);
        txn
    }
    fn close(&mut self, ticket: u64, node: u16, partition: u16, rank: Rank, granules: Vec<Granule>) {
        let partition = PartitionId(partition);
        self.close_at(CloseTicket(ticket), NodeId(node), Close { partition, rank, granules });
    }
    /// A node stands still and keeps what it knows; or loses it.
    fn kill(&mut self, node: u16) {
        self.dead.insert(NodeId(node));
    }
    fn lose(&mut self, node: u16) {
        self.forgetful.insert(NodeId(node));
        self.kill(node);
    }
    /// It runs again.
    fn revive(&mut self, node: u16) {
        let (node, n) = (NodeId(node), usize::from(node));
        if !self.dead.remove(&node) {
            return;
        }
        self.lives += 1;
        let is_its = |event: &Event<Message>| matches!(event, Event::Wake { node: at, .. } if *at == node);
        self.events.retain(|_, event| !is_its(event));
        self.alarms[n] = Alarms::default();
        let (clock, mut out) = (self.clock(node), Vec::new());
        if self.forgetful.remove(&node) {
            self.nodes[n] =
                Geogauss::rejoining(self.topology.clone(), node, self.lives, self.options.clone());
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
            self.nodes[n].start(clock, &mut out);
        } else {
            self.nodes[n].resume(clock, self.lives, &mut out);
        }
        self.effects(node, out);
    }
    /// Its gateway lost its memory before it could answer.
    fn is_forgotten(&self, txn: TxnId) -> bool {
        let node = txn.coordinator;
        self.forgot.contains(&node) && txn.incarnation < self.nodes[usize::from(node.0)].gateway.incarnation()
    }
    fn is_committed(&self, txn: TxnId) -> bool {
        self.answer(txn).outcome.is_committed()
    }
}

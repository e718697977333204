//! A client that moves homes while others work: of tables over a region's partitions, as ALTER TABLE does, and of
//! whole partitions.

use super::book::SharedBook;
use super::layout::{LISTS, Layout, REGISTERS};
use crate::world::client::{Client, ClientEffects, ClientEvent};
use base::process::Process;
use base::rng::Rng;
use base::schema::{MoveHome, SchemaAction, SchemaChange};
use base::topology::Topology;
use base::txn::{AccessMode, AccessSet, Granule, Outcome, Submission, TxnProgram};
use base::{NodeId, PartitionId, RegionId, SqlState, TableId, Time, Token};
use node::request::{Reply, Request};
use std::sync::Arc;

pub struct Mover {
    layout: Arc<Layout>,
    book: SharedBook,
    rng: Rng,
    gateways: Vec<NodeId>,
    left: u32,
    pause_ns_max: u64,
    is_done: bool,
    /// Half of the moves are of the first partition, which is homed here, from a gateway here.
    one: Option<RegionId>,
    /// Tables that are moved, each with its indexes.
    movable: Vec<Vec<TableId>>,
}

impl Mover {
    /// One who moves `moves` times, at most `pause_ns_max` apart.
    pub fn new(
        layout: Arc<Layout>,
        book: SharedBook,
        rng: Rng,
        gateways: Vec<NodeId>,
        moves: u32,
        pause_ns_max: u64,
    ) -> Mover {
        let (is_done, one, movable) = (false, None, vec![vec![LISTS], vec![REGISTERS]]);
        Mover { layout, book, rng, gateways, left: moves, pause_ns_max, is_done, one, movable }
    }

    /// The same of these tables too, each with its indexes.
    pub fn and_of(mut self, tables: impl Iterator<Item = Vec<TableId>>) -> Mover {
        self.movable.extend(tables);
        self
    }

    /// The same; half of the moves are of one partition, each ordered first where it is homed: there the move is over
    /// last, while the new home goes on already.
    pub fn of_one(mut self) -> Mover {
        self.one = Some(self.layout.topology.region_of_partition(PartitionId(0)));
        self
    }

    /// Where to ask, and what.
    fn wish(&mut self) -> (NodeId, Request) {
        let topology = self.layout.topology.clone();
        if let Some(home) = self.one
            && self.rng.chance(0.5)
        {
            let others = (0..topology.wan.region_count() as u16).map(RegionId).filter(|other| *other != home);
            let to = *self.rng.pick(&others.collect::<Vec<_>>());
            self.one = Some(to);
            let near: Vec<NodeId> =
                self.gateways.iter().copied().filter(|n| topology.region_of(*n) == home).collect();
            let gateways = if near.is_empty() { &self.gateways } else { &near };
            return (*self.rng.pick(gateways), Request::MoveHome { partition: PartitionId(0), to });
        }
        let wish = self.any_wish(&topology);
        (*self.rng.pick(&self.gateways), wish)
    }
    fn any_wish(&mut self, topology: &Topology) -> Request {
        let region = |rng: &mut Rng| RegionId(rng.below(topology.wan.region_count() as u64) as u16);
        let to = region(&mut self.rng);
        if self.rng.chance(0.3) {
            let partitions: Vec<_> = topology.partition_ids().collect();
            return Request::MoveHome { partition: *self.rng.pick(&partitions), to };
        }
        let ids = self.rng.pick(&self.movable).clone();
        let from = region(&mut self.rng);
        let mut partitions: Vec<_> = topology.partitions_in(from).collect();
        if self.rng.chance(0.3) {
            partitions.truncate(1);
        }
        Request::Submit(move_table(&self.layout, MoveHome { table: ids[0], ids, partitions, to }))
    }

    fn later<P: Process>(&mut self, now: Time, out: &mut ClientEffects<P>) {
        match self.left {
            0 => self.is_done = true,
            _ => out.wake_at(now + self.rng.below(self.pause_ns_max + 1), 0),
        }
    }
}

/// The change of the catalog that moves a table.
pub fn move_table(layout: &Layout, moved: MoveHome) -> Submission {
    let mut access = AccessSet::default();
    layout.topology.partition_ids().for_each(|p| access.add(p, Granule::Partition, AccessMode::Write));
    let change = SchemaChange {
        database: Default::default(),
        base_version: 0,
        actions: vec![SchemaAction::MoveHome(moved)],
    };
    let (program, access) = (Arc::new(TxnProgram::Schema(change)), Arc::new(access));
    Submission { program, access, token: Token::default(), request: None, isolation: Default::default() }
}

impl<P: Process<Request = Request, Reply = Reply>> Client<P> for Mover {
    fn step(&mut self, now: Time, event: ClientEvent<P>, out: &mut ClientEffects<P>) {
        match event {
            ClientEvent::Start => self.later(now, out),
            ClientEvent::Wake(_) => {
                self.left -= 1;
                let (gateway, wish) = self.wish();
                out.ask(gateway, wish);
            }
            ClientEvent::Lost { .. } => self.later(now, out),
            ClientEvent::Reply { reply, .. } => {
                let Reply::Submitted(answer) = reply else { panic!("a move is answered like a transaction") };
                match answer.map(|answer| answer.outcome) {
                    Ok(Outcome::Committed { .. }) => self.book.open().count("moves"),
                    Ok(Outcome::Aborted(error)) | Err(error) => {
                        // Homed here and there, there already, or moved by somebody else; the node is out.
                        let expected = [
                            SqlState::FEATURE_NOT_SUPPORTED,
                            SqlState::INVALID_PARAMETER_VALUE,
                            SqlState::SERIALIZATION_FAILURE,
                            SqlState::TRANSACTION_RESOLUTION_UNKNOWN,
                            SqlState::CANNOT_CONNECT_NOW,
                        ];
                        assert!(expected.contains(&error.state), "{error}");
                    }
                }
                self.later(now, out);
            }
        }
    }
    fn is_done(&self) -> bool {
        self.is_done
    }
}

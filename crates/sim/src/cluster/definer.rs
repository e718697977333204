//! A client that changes the catalog while others work, and reads each table at a gateway that lists it.
//!
//! KEEPS: it carries no token, so whatever a gateway knows it has to read by itself, at every level.

use super::book::SharedBook;
use super::layout::Layout;
use crate::world::client::{Client, ClientEffects, ClientEvent};
use base::cut::Consistency;
use base::key::KeyRange;
use base::process::Process;
use base::rng::Rng;
use base::schema::{Catalog, SchemaAction, SchemaChange};
use base::txn::{AccessMode, AccessSet, Granule, Outcome, RowRead, Submission, TxnProgram};
use base::{DataType, Datum, NodeId, PartitionId, SqlError, SqlState, TableId, Time, Token};
use node::request::{OpenSnapshot, ReadRows, Reply, Request};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub struct Definer {
    layout: Arc<Layout>,
    book: SharedBook,
    rng: Rng,
    gateways: Vec<NodeId>,
    consistency: Consistency,
    left: u32,
    pause_ns_max: u64,
    at: NodeId,
    is_done: bool,
}

impl Definer {
    /// One who changes or reads something `steps` times, at most `pause_ns_max` apart.
    pub fn new(
        layout: Arc<Layout>,
        book: SharedBook,
        rng: Rng,
        gateways: Vec<NodeId>,
        consistency: Consistency,
        (steps, pause_ns_max): (u32, u64),
    ) -> Definer {
        let at = gateways[0];
        Definer { layout, book, rng, gateways, consistency, left: steps, pause_ns_max, at, is_done: false }
    }

    /// What it asks of a gateway that knows this catalog.
    fn wish(&mut self, catalog: &Catalog) -> Option<Request> {
        let listed: Vec<TableId> = catalog.tables.keys().copied().collect();
        if listed.is_empty() {
            return None; // A gateway without rows.
        }
        let table = *self.rng.pick(&listed);
        let own = catalog.table(table).filter(|table| table.name.starts_with(OWN));
        match self.rng.below(5) {
            0 => {
                let id = TableId(catalog.next_id);
                let created = self.layout.another(id, &format!("{OWN}{}", id.0));
                Some(self.change(catalog, SchemaAction::CreateTable(created)))
            }
            1 if own.is_some() => {
                let mut altered = own.expect("just seen").as_ref().clone();
                let mut added = altered.columns[2].clone();
                added.name = format!("added{}", altered.columns.len());
                (added.data_type, added.missing) = (DataType::BigInt, Datum::Int(0));
                altered.columns.push(added);
                Some(self.change(catalog, SchemaAction::AlterTable(altered)))
            }
            2 => {
                let subscribes = &self.layout.topology.nodes[self.at.0 as usize].subscribes;
                let kept: BTreeSet<PartitionId> = subscribes.iter().copied().collect();
                (!kept.is_empty()).then(|| {
                    Request::OpenSnapshot(OpenSnapshot {
                        at: None,
                        consistency: self.consistency,
                        token: Token::default(),
                        tables: [(table, kept)].into(),
                        wanted: BTreeMap::new(),
                    })
                })
            }
            _ => {
                let partitions: Vec<PartitionId> = self.layout.topology.partition_ids().collect();
                let read = RowRead {
                    partition: *self.rng.pick(&partitions),
                    table,
                    index: None,
                    range: KeyRange::all(),
                    filter: None,
                    limit: None,
                    descending: false,
                };
                let (consistency, token) = (self.consistency, Token::default());
                Some(Request::ReadRows(ReadRows { at: None, consistency, token, reads: vec![read] }))
            }
        }
    }

    fn change(&self, catalog: &Catalog, action: SchemaAction) -> Request {
        let mut access = AccessSet::default();
        self.layout
            .topology
            .partition_ids()
            .for_each(|p| access.add(p, Granule::Partition, AccessMode::Write));
        let change = SchemaChange {
            database: Default::default(),
            base_version: catalog.version,
            actions: vec![action],
        };
        let (program, access) = (Arc::new(TxnProgram::Schema(change)), Arc::new(access));
        Request::Submit(Submission {
            program,
            access,
            token: Token::default(),
            request: None,
            isolation: Default::default(),
        })
    }

    fn later<P: Process>(&mut self, now: Time, out: &mut ClientEffects<P>) {
        match self.left {
            0 => self.is_done = true,
            _ => out.wake_at(now + self.rng.below(self.pause_ns_max + 1), 0),
        }
    }

    fn learn(&mut self, what: &'static str, result: Result<(), SqlError>) {
        match result {
            Ok(()) => self.book.open().count(what),
            // Somebody else changed the catalog; or a region or reader is out of reach.
            Err(error) => {
                let expected = [
                    SqlState::SERIALIZATION_FAILURE,
                    SqlState::TRANSACTION_RESOLUTION_UNKNOWN,
                    SqlState::CANNOT_CONNECT_NOW,
                    SqlState::SNAPSHOT_TOO_OLD,
                    SqlState::CONNECTION_FAILURE,
                ];
                assert!(expected.contains(&error.state), "{what} at {}: {error}", self.at);
            }
        }
    }
}

/// How the names of its tables begin.
const OWN: &str = "defined";

impl<P: Process<Request = Request, Reply = Reply>> Client<P> for Definer {
    fn step(&mut self, now: Time, event: ClientEvent<P>, out: &mut ClientEffects<P>) {
        match event {
            ClientEvent::Start | ClientEvent::Lost { .. } => self.later(now, out),
            ClientEvent::Wake(_) => {
                self.left -= 1;
                self.at = *self.rng.pick(&self.gateways);
                out.ask(self.at, Request::Catalog);
            }
            ClientEvent::Reply { reply, .. } => {
                match reply {
                    Reply::Catalog(catalog) => {
                        if let Some(wish) = self.wish(&catalog) {
                            out.ask(self.at, wish);
                            return;
                        }
                    }
                    Reply::Submitted(answer) => {
                        let end = answer.and_then(|answer| match answer.outcome {
                            Outcome::Committed { .. } => Ok(()),
                            Outcome::Aborted(error) => Err(error),
                        });
                        self.learn("changes of the catalog", end);
                    }
                    Reply::Rows(rows) => self.learn("rows read without a token", rows.map(|_| ())),
                    Reply::Snapshot(snapshot) => {
                        self.learn("columns read without a token", snapshot.map(|_| ()));
                    }
                    _ => panic!("an answer to another question"),
                }
                self.later(now, out);
            }
        }
    }
    fn is_done(&self) -> bool {
        self.is_done
    }
}

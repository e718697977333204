//! A client that makes a second unique index over the badges of shelves while others take them, as CREATE UNIQUE INDEX does on
//! a large table: it marks the index as being built, has rows entered by ordered programs, a range of keys at a time, takes the
//! mark away, and drops the index again.
//!
//! KEEPS: a range whose end is not known is entered again; the mark goes once every partition's keys have been entered.

use super::holder::{Surroundings, is_refusal};
use super::tables::{KEYS, Scope, Tables, key, submission};
use crate::world::client::{Client, ClientEffects, ClientEvent};
use base::key::KeyRange;
use base::process::Process;
use base::rng::Rng;
use base::schema::{Catalog, Index, SchemaAction, SchemaChange, Table};
use base::txn::{AccessMode, AccessSet, Granule, Outcome, Statement, Submission, TxnProgram};
use base::{Key, NodeId, PartitionId, SqlError, SqlState, TableId, Time, Token};
use node::request::{Reply, Request, Submitted};
use std::collections::BTreeMap;

/// The table whose index it makes: an entry is beside its row.
const SCOPE: Scope = Scope::Shelf;

pub struct Builder {
    around: Surroundings,
    rng: Rng,
    at: NodeId,
    left: u32,
    token: Token,
    /// Of the index that is being built, up to where rows are entered, by partition. `None`: to their end.
    entered: (TableId, BTreeMap<PartitionId, Option<Key>>),
    doing: Doing,
}

enum Doing {
    Nothing,
    Asking,
    /// The mark is set.
    Beginning,
    Entering(PartitionId, KeyRange),
    /// The mark goes.
    Ending,
    Dropping,
}

impl Builder {
    /// One who takes `steps` steps.
    pub fn new(around: Surroundings, rng: Rng, steps: u32, loaded: Token) -> Builder {
        let (at, entered) = (around.gateways[0], (TableId(0), BTreeMap::new()));
        Builder { around, rng, at, left: steps, token: loaded, entered, doing: Doing::Nothing }
    }

    /// The next step of what a gateway knows of the table.
    fn step_of(&mut self, catalog: &Catalog, table: &Table) -> (Doing, Submission) {
        let Some(built) = table.indexes.get(1) else {
            let mut next = table.clone();
            let form = base::schema::IndexForm { is_building: true, ..Default::default() };
            let (id, name) = (TableId(catalog.next_id), "built".into());
            next.indexes.push(Index { id, name, form, ..table.indexes[0].clone() });
            return (Doing::Beginning, self.alter(catalog, next));
        };
        let mut next = table.clone();
        if !built.form.is_building {
            next.indexes.pop();
            return (Doing::Dropping, self.alter(catalog, next));
        }
        if self.entered.0 != built.id {
            let partitions = self.around.tables.partitions(SCOPE).into_iter();
            self.entered = (built.id, partitions.map(|partition| (partition, Some(Key::new()))).collect());
        }
        let next_range = self.entered.1.iter().find_map(|(of, low)| Some((*of, low.clone()?)));
        let Some((partition, low)) = next_range else {
            next.indexes[1].form.is_building = false;
            return (Doing::Ending, self.alter(catalog, next));
        };
        let target = KeyRange { high: self.draw_high(&low), low };
        let mut access = AccessSet::default();
        Tables::write_range(&mut access, table.id, &target, &[partition]);
        Tables::write_range(&mut access, built.id, &KeyRange::all(), &[partition]);
        let enter = Statement::Enter {
            table: table.id,
            schema_version: table.version,
            index: built.id,
            target: target.clone(),
        };
        let program = TxnProgram::Statements(vec![enter]);
        (Doing::Entering(partition, target), submission(program, access, self.token.clone()))
    }

    /// Where a batch ends; `None`: with the last key.
    fn draw_high(&mut self, low: &Key) -> Option<Key> {
        let shelves = self.around.tables.shelves.iter().map(|(shelf, _)| *shelf);
        let all = shelves.flat_map(|shelf| (0..KEYS).map(move |number| key(shelf, number)));
        let mut later: Vec<Key> = all.filter(|key| key > low).collect();
        later.sort();
        later.into_iter().nth(self.rng.below(4) as usize)
    }

    fn alter(&self, catalog: &Catalog, next: Table) -> Submission {
        let mut access = AccessSet::default();
        let partitions = self.around.tables.topology.partition_ids();
        partitions.for_each(|p| access.add(p, Granule::Partition, AccessMode::Write));
        let change = SchemaChange {
            database: Default::default(),
            base_version: catalog.version,
            actions: vec![SchemaAction::AlterTable(next)],
        };
        submission(TxnProgram::Schema(change), access, self.token.clone())
    }

    fn learn<P>(&mut self, now: Time, reply: Reply, out: &mut ClientEffects<P>)
    where
        P: Process<Request = Request, Reply = Reply>,
    {
        match (std::mem::replace(&mut self.doing, Doing::Nothing), reply) {
            (Doing::Asking, Reply::Catalog(catalog)) => {
                let Some(table) = catalog.table(SCOPE.table()).cloned() else {
                    return self.later(now, out); // A gateway without rows.
                };
                let (doing, submission) = self.step_of(&catalog, &table);
                out.ask(self.at, Request::Submit(submission));
                self.doing = doing;
            }
            (doing, Reply::Submitted(answer)) => {
                match answer {
                    Ok(Submitted { outcome: Outcome::Committed { .. }, token, .. }) => {
                        self.token.join(&token);
                        self.done(doing);
                    }
                    Ok(Submitted { outcome: Outcome::Aborted(error), .. }) | Err(error) => {
                        check_refused(&error);
                    }
                }
                self.later(now, out);
            }
            _ => panic!("an answer to another question"),
        }
    }

    fn done(&mut self, doing: Doing) {
        let mut book = self.around.book.open();
        match doing {
            Doing::Entering(partition, target) => {
                book.count("ranges of badges entered into an index");
                self.entered.1.insert(partition, target.high);
            }
            Doing::Ending => book.count("indexes of badges built"),
            _ => {}
        }
    }

    fn later<P: Process>(&mut self, now: Time, out: &mut ClientEffects<P>) {
        self.left -= 1;
        self.doing = Doing::Nothing;
        if self.left > 0 {
            out.wake_at(now + self.rng.below(self.around.pause_ns_max + 1), 0);
        }
    }
}

/// Others change the catalog; a region is out of reach.
fn check_refused(error: &SqlError) {
    let expected = [SqlState::SERIALIZATION_FAILURE, SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE];
    assert!(is_refusal(error) || expected.contains(&error.state), "an index over badges: {error}");
}

impl<P: Process<Request = Request, Reply = Reply>> Client<P> for Builder {
    fn step(&mut self, now: Time, event: ClientEvent<P>, out: &mut ClientEffects<P>) {
        match event {
            ClientEvent::Start => out.wake_at(now + self.rng.below(self.around.pause_ns_max + 1), 0),
            ClientEvent::Wake(_) => {
                self.at = *self.rng.pick(&self.around.gateways);
                out.ask(self.at, Request::Catalog);
                self.doing = Doing::Asking;
            }
            ClientEvent::Reply { reply, .. } => self.learn(now, reply, out),
            ClientEvent::Lost { .. } => self.later(now, out),
        }
    }
    fn is_done(&self) -> bool {
        self.left == 0
    }
}

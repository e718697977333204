//! A client that makes a second index over the rows of shelves while others write them, as CREATE INDEX does on a large table:
//! it marks the index as being built, has rows entered by ordered programs, a range of keys at a time, takes the mark away,
//! looks at all rows by both ways, and drops the index again. The index is over badges, which differ already, or over what two
//! rows may have alike, which may be the shelf alone; a unique one then cannot be built, or refuses a writer.
//!
//! KEEPS: a range whose end is not known is entered again; the mark goes once every partition's keys have been entered; an
//! index that cannot be built is dropped.

use super::holder::{Surroundings, is_refusal};
use super::tables::{BADGE, KEYS, OLD_BADGE, SECOND_INDEX, SHELF, Scope, Tables, VALUE, key, submission};
use super::{Company, Holder};
use crate::world::client::{Client, ClientEffects, ClientEvent};
use base::cut::Consistency;
use base::key::KeyRange;
use base::process::Process;
use base::rng::Rng;
use base::schema::{Catalog, Index, IndexForm, SchemaAction, SchemaChange, Table};
use base::txn::{AccessMode, AccessSet, Granule, Outcome, RowRead, Statement, Submission, TxnProgram};
use base::{Datum, Key, NodeId, PartitionId, SqlError, SqlState, TableId, Time, Token};
use node::request::{ReadRows, Reply, Request, Rows, Submitted};
use std::collections::{BTreeMap, BTreeSet};

/// The table whose index it makes: an entry is beside its row.
pub const SCOPE: Scope = Scope::Shelf;

/// What such a client can do wrong: a planted fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The mark goes before the last range is entered.
    EndEarly,
}

pub struct Builder {
    around: Surroundings,
    rng: Rng,
    at: NodeId,
    left: u32,
    token: Token,
    /// Of the index that is being built, up to where rows are entered, by partition. `None`: to their end.
    entered: (TableId, BTreeMap<PartitionId, Option<Key>>),
    /// An index that cannot be built.
    abandoned: Option<TableId>,
    fault: Option<Fault>,
    doing: Doing,
}

enum Doing {
    Nothing,
    Asking,
    /// The mark is set.
    Beginning,
    Entering {
        partition: PartitionId,
        target: KeyRange,
        /// Whether it may turn out that two rows have one entry.
        may_fail: bool,
    },
    /// The mark goes.
    Ending,
    /// All rows by their keys and through the index, at one cut.
    Looking(Index),
    Dropping,
}

impl Builder {
    pub fn new(around: Surroundings, rng: Rng, company: Company, loaded: Token) -> Builder {
        let (at, entered) = (around.gateways[0], (TableId(0), BTreeMap::new()));
        let (left, fault, doing) = (company.builds, company.builds_wrongly, Doing::Nothing);
        Builder { around, rng, at, left, token: loaded, entered, abandoned: None, fault, doing }
    }

    /// The next step of what a gateway knows of the table.
    fn step_of(&mut self, catalog: &Catalog, table: &Table) -> (Doing, Request) {
        let mut next = table.clone();
        let Some(built) = table.indexes.get(1) else {
            next.indexes.push(self.draw_index(catalog));
            return (Doing::Beginning, self.alter(catalog, next));
        };
        if !built.form.is_building && self.rng.chance(0.5) {
            return (Doing::Looking(built.clone()), self.look(built.id));
        }
        if !built.form.is_building || self.abandoned == Some(built.id) {
            next.indexes.pop();
            return (Doing::Dropping, self.alter(catalog, next));
        }
        if self.entered.0 != built.id {
            let partitions = self.around.tables.partitions(SCOPE).into_iter();
            self.entered = (built.id, partitions.map(|partition| (partition, Some(Key::new()))).collect());
        }
        let next_range = self.entered.1.iter().find_map(|(of, low)| Some((*of, low.clone()?)));
        let next_range = next_range.map(|(of, low)| (of, KeyRange { high: self.draw_high(of, &low), low }));
        let ends_early = |target: &KeyRange| self.fault == Some(Fault::EndEarly) && target.high.is_none();
        let Some((partition, target)) = next_range.filter(|(_, target)| !ends_early(target)) else {
            next.indexes[1].form.is_building = false;
            return (Doing::Ending, self.alter(catalog, next));
        };
        let mut access = AccessSet::default();
        Tables::write_range(&mut access, table.id, &target, &[partition]);
        if built.unique {
            Tables::write_range(&mut access, built.id, &KeyRange::all(), &[partition]);
        }
        let enter = Statement::Enter {
            table: table.id,
            schema_version: table.version,
            index: built.id,
            target: target.clone(),
        };
        let program = submission(TxnProgram::Statements(vec![enter]), access, self.token.clone());
        let may_fail = built.unique && !built.columns.contains(&BADGE);
        (Doing::Entering { partition, target, may_fail }, Request::Submit(program))
    }

    fn draw_index(&mut self, catalog: &Catalog) -> Index {
        let form = IndexForm { is_building: true, ..Default::default() };
        let columns = match *self.rng.pick(&[SHELF, BADGE, VALUE, OLD_BADGE]) {
            SHELF => vec![SHELF],
            column => vec![SHELF, column],
        };
        let unique = self.rng.chance(0.7);
        let (id, name) = (TableId(catalog.next_id), SECOND_INDEX.into());
        Index { id, name, columns, unique, constraint: unique, form }
    }

    fn look(&self, built: TableId) -> Request {
        let partitions = self.around.tables.partitions(SCOPE).into_iter();
        let of = |partition: PartitionId, index: Option<TableId>| {
            let (table, range, filter, limit) = (SCOPE.table(), KeyRange::all(), None, None);
            RowRead { partition, table, index, range, filter, limit, descending: false }
        };
        let reads = partitions.flat_map(|partition| [None, Some(built)].map(|index| of(partition, index)));
        let (consistency, token) = (Consistency::Regular, self.token.clone());
        Request::ReadRows(ReadRows { at: None, consistency, token, reads: reads.collect() })
    }

    /// Where a batch of a partition's keys ends; `None`: with the last one.
    fn draw_high(&mut self, partition: PartitionId, low: &Key) -> Option<Key> {
        let tables = &self.around.tables;
        let are_there = |shelf: &i64| tables.homes(SCOPE, *shelf).contains(&partition);
        let shelves = tables.shelves.iter().map(|(shelf, _)| *shelf).filter(are_there);
        let all = shelves.flat_map(|shelf| (0..KEYS).map(move |number| key(shelf, number)));
        let mut later: Vec<Key> = all.filter(|key| key > low).collect();
        later.sort();
        later.into_iter().nth(self.rng.below(4) as usize)
    }

    fn alter(&self, catalog: &Catalog, next: Table) -> Request {
        let mut access = AccessSet::default();
        let partitions = self.around.tables.topology.partition_ids();
        partitions.for_each(|p| access.add(p, Granule::Partition, AccessMode::Write));
        let change = SchemaChange {
            database: Default::default(),
            base_version: catalog.version,
            actions: vec![SchemaAction::AlterTable(next)],
        };
        let change: Submission = submission(TxnProgram::Schema(change), access, self.token.clone());
        Request::Submit(change)
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
                let (doing, request) = self.step_of(&catalog, &table);
                out.ask(self.at, request);
                self.doing = doing;
            }
            (Doing::Looking(index), Reply::Rows(answer)) => {
                match answer {
                    Ok(rows) => {
                        check_ways(&rows, &index);
                        self.token.join(&rows.token);
                        self.around.book.open().count("built indexes looked at both ways");
                    }
                    Err(error) => check_refused(&error),
                }
                self.later(now, out);
            }
            (doing, Reply::Submitted(answer)) => {
                match answer {
                    Ok(Submitted { outcome: Outcome::Committed { .. }, token, .. }) => {
                        self.token.join(&token);
                        self.done(doing);
                    }
                    Ok(Submitted { outcome: Outcome::Aborted(error), .. }) | Err(error) => match doing {
                        Doing::Entering { may_fail: true, .. }
                            if error.state == SqlState::UNIQUE_VIOLATION =>
                        {
                            self.around.book.open().count("indexes that could not be built");
                            self.abandoned = Some(self.entered.0);
                        }
                        _ => check_refused(&error),
                    },
                }
                self.later(now, out);
            }
            _ => panic!("an answer to another question"),
        }
    }

    fn done(&mut self, doing: Doing) {
        let mut book = self.around.book.open();
        match doing {
            Doing::Entering { partition, target, .. } => {
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

/// Panics if rows by their keys, each time the first, are not those through the index, or two have one entry.
fn check_ways(rows: &Rows, index: &Index) {
    for ways in rows.reads.chunks_exact(2) {
        let [by_key, by_index] = [0, 1].map(|way| {
            let mut holders: Vec<Holder> = ways[way].iter().map(|(_, row)| Holder::of_row(row)).collect();
            holders.sort();
            holders
        });
        assert_eq!(by_key, by_index, "rows and entries of a built index differ at one cut ({})", rows.at);
        assert!(has_single_entries(index, &by_key), "two rows have one entry of an index: {by_key:?}");
    }
}

/// Whether no two rows have one entry of an index, if it is unique.
pub fn has_single_entries<'a>(index: &Index, rows: impl IntoIterator<Item = &'a Holder>) -> bool {
    let mut seen = BTreeSet::new();
    rows.into_iter().all(|holder| {
        let values = holder.values();
        let entry: Vec<Datum> = index.columns.iter().map(|column| values[*column].clone()).collect();
        !index.unique || entry.iter().any(Datum::is_null) || seen.insert(Key::of(&entry))
    })
}

/// Others change the catalog; a region is out of reach; a cut is too old.
fn check_refused(error: &SqlError) {
    let expected = [
        SqlState::SERIALIZATION_FAILURE,
        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
        SqlState::SNAPSHOT_TOO_OLD,
    ];
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

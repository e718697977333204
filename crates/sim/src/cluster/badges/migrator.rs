//! A client that changes the tables while others write their rows: it adds columns, and for half of the time writes all
//! rows anew in the same transaction, as ALTER TABLE does where rows have to follow.
//!
//! KEEPS: what it writes rests on what it read at one cut; others learn of the change when a program of theirs is refused.

use super::super::book::Entry;
use super::holder::{Surroundings, is_refusal};
use super::tables::{Scope, Tables, key, submission};
use super::{Change, Holder, check_unique, possible_writes, record_changes, see_shelf};
use crate::world::client::{Client, ClientEffects, ClientEvent};
use base::key::KeyRange;
use base::process::Process;
use base::rng::Rng;
use base::schema::{Catalog, SchemaAction, SchemaChange};
use base::txn::{
    AccessMode, AccessSet, Granule, Migration, Outcome, ReadGranule, RowRead, Submission, TxnProgram,
    Validated, ValidatedWrite, WriteKind,
};
use base::{DataType, Datum, NodeId, SqlError, SqlState, Time, Token};
use node::request::{PinId, ReadRows, Reply, Request, Rows, Submitted};
use std::sync::Arc;

pub struct Migrator {
    id: u32,
    around: Surroundings,
    rng: Rng,
    at: NodeId,
    left: u32,
    token: Token,
    doing: Doing,
}

enum Doing {
    Nothing,
    Asking,
    /// The change is on its way, without rows.
    Altering,
    Pinning {
        scope: Scope,
        catalog: Arc<Catalog>,
    },
    Reading {
        scope: Scope,
        catalog: Arc<Catalog>,
        pin: PinId,
    },
    Committing {
        entry: Entry,
        scope: Scope,
        pin: PinId,
        rows: Vec<Holder>,
        changes: Vec<Change>,
    },
    Unpinning,
}

impl Migrator {
    /// One who changes something `steps` times.
    pub fn new(id: u32, around: Surroundings, rng: Rng, steps: u32, loaded: Token) -> Migrator {
        let at = around.gateways[0];
        Migrator { id, around, rng, at, left: steps, token: loaded, doing: Doing::Nothing }
    }

    fn learn<P>(&mut self, now: Time, reply: Reply, out: &mut ClientEffects<P>)
    where
        P: Process<Request = Request, Reply = Reply>,
    {
        match (std::mem::replace(&mut self.doing, Doing::Nothing), reply) {
            (Doing::Asking, Reply::Catalog(catalog)) => {
                let scope = *self.rng.pick(&Scope::EVERY);
                if catalog.table(scope.table()).is_none() {
                    return self.later(now, out); // A gateway without rows.
                }
                if self.rng.chance(0.5) {
                    let change = addition(&catalog, scope);
                    let everywhere = everywhere(&self.around.tables);
                    out.ask(
                        self.at,
                        Request::Submit(submission(
                            TxnProgram::Schema(change),
                            everywhere,
                            self.token.clone(),
                        )),
                    );
                    self.doing = Doing::Altering;
                    return;
                }
                let consistency = self.around.habits.consistency;
                out.ask(self.at, Request::Pin { consistency, token: self.token.clone() });
                self.doing = Doing::Pinning { scope, catalog };
            }
            (Doing::Altering, Reply::Submitted(answer)) => {
                match answer {
                    Ok(Submitted { outcome: Outcome::Committed { .. }, token, .. }) => {
                        self.around.book.open().count("columns added to badges");
                        self.token.join(&token);
                    }
                    Ok(Submitted { outcome: Outcome::Aborted(error), .. }) | Err(error) => {
                        check_refused(&error)
                    }
                }
                self.later(now, out);
            }
            (Doing::Pinning { scope, catalog }, Reply::Pinned(Ok((pin, at)))) => {
                let reads = self.around.tables.partitions(scope).into_iter().map(|partition| {
                    let (table, index, range) = (scope.table(), None, KeyRange::all());
                    RowRead { partition, table, index, range, filter: None, limit: None, descending: false }
                });
                let (consistency, token) = (self.around.habits.consistency, self.token.clone());
                let read = ReadRows { at: Some(at), consistency, token, reads: reads.collect() };
                out.ask(self.at, Request::ReadRows(read));
                self.doing = Doing::Reading { scope, catalog, pin };
            }
            (Doing::Pinning { .. }, Reply::Pinned(Err(error))) => {
                check_refused(&error);
                self.later(now, out);
            }
            (Doing::Reading { scope, catalog, pin }, Reply::Rows(Ok(rows))) => {
                self.migrate(now, scope, &catalog, pin, &rows, out);
            }
            (Doing::Reading { pin, .. }, Reply::Rows(Err(error))) => {
                check_refused(&error);
                self.unpin(pin, out);
            }
            (Doing::Committing { entry, scope, pin, rows, changes }, Reply::Submitted(answer)) => {
                self.migrated(now, entry, scope, (&rows, &changes), answer);
                self.unpin(pin, out);
            }
            (Doing::Unpinning, Reply::Unpinned) => self.later(now, out),
            _ => panic!("an answer to another question"),
        }
    }

    /// All rows get other values, and some of them other badges or none, with one column more.
    fn migrate<P>(
        &mut self,
        now: Time,
        scope: Scope,
        catalog: &Catalog,
        pin: PinId,
        read: &Rows,
        out: &mut ClientEffects<P>,
    ) where
        P: Process<Request = Request, Reply = Reply>,
    {
        let tables = self.around.tables.clone();
        // What every partition has is read and written in all of them, and is one row.
        let copies = if scope == Scope::Copied { 1 } else { read.reads.len() };
        let found = read.reads[..copies].iter().flatten().map(|(_, row)| Holder::of_row(row));
        let rows: Vec<Holder> = found.collect();
        check_unique(scope, &rows);
        let mut book = self.around.book.open();
        let changes = rows.iter().map(|row| {
            let badge = row.badge.filter(|_| !self.rng.chance(0.2));
            let before = Some((row.badge, row.value));
            Change::made(Holder { badge, value: book.fresh(), before, ..row.clone() })
        });
        let changes: Vec<Change> = changes.collect();
        let entry = book.begin(self.id, now, true, &[]);
        book.may_write(entry, now, possible_writes(scope, &changes));
        drop(book);
        let program = TxnProgram::Migration(migration(&tables, scope, catalog, read, &changes));
        let submission: Submission = submission(program, everywhere(&tables), self.token.clone());
        out.ask(self.at, Request::Submit(submission));
        self.doing = Doing::Committing { entry, scope, pin, rows, changes };
    }

    fn migrated(
        &mut self,
        now: Time,
        entry: Entry,
        scope: Scope,
        (rows, changes): (&[Holder], &[Change]),
        answer: Result<Submitted, SqlError>,
    ) {
        let mut book = self.around.book.open();
        match answer {
            Ok(Submitted { outcome: Outcome::Committed { .. }, token, .. }) => {
                let shelves = self.around.tables.shelves.iter();
                shelves.for_each(|(shelf, _)| see_shelf(&mut book, entry, scope, *shelf, rows));
                record_changes(&mut book, entry, scope, changes);
                book.count("tables of badges written anew");
                book.commit(entry, now);
                self.token.join(&token);
            }
            Ok(Submitted { outcome: Outcome::Aborted(error), .. }) | Err(error) => {
                check_refused(&error);
                match error.state {
                    SqlState::TRANSACTION_RESOLUTION_UNKNOWN => book.unknown(entry),
                    _ => book.abort(entry, now),
                }
            }
        }
    }

    fn unpin<P>(&mut self, pin: PinId, out: &mut ClientEffects<P>)
    where
        P: Process<Request = Request, Reply = Reply>,
    {
        out.ask(self.at, Request::Unpin(pin));
        self.doing = Doing::Unpinning;
    }

    fn later<P: Process>(&mut self, now: Time, out: &mut ClientEffects<P>) {
        self.left -= 1;
        self.doing = Doing::Nothing;
        if self.left > 0 {
            out.wake_at(now + self.rng.below(self.around.pause_ns_max + 1), 0);
        }
    }
}

/// Others change the catalog or the rows; a region is out of reach; a cut is too old.
fn check_refused(error: &SqlError) {
    let expected = [
        SqlState::SERIALIZATION_FAILURE,
        SqlState::SNAPSHOT_TOO_OLD,
        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
    ];
    assert!(
        is_refusal(error) || expected.contains(&error.state),
        "a change of the tables of badges: {error}"
    );
}

/// One column more.
fn addition(catalog: &Catalog, scope: Scope) -> SchemaChange {
    let mut altered = catalog.tables[&scope.table()].as_ref().clone();
    let mut added = altered.columns[0].clone();
    added.name = format!("added{}", altered.columns.len());
    (added.data_type, added.missing) = (DataType::BigInt, Datum::Int(0));
    altered.columns.push(added);
    SchemaChange {
        database: Default::default(),
        base_version: catalog.version,
        actions: vec![SchemaAction::AlterTable(altered)],
    }
}

fn everywhere(tables: &Tables) -> AccessSet {
    let mut access = AccessSet::default();
    tables.topology.partition_ids().for_each(|p| access.add(p, Granule::Partition, AccessMode::Write));
    access
}

/// A column more, and these rows with it; valid if no row has changed since they were read.
fn migration(tables: &Tables, scope: Scope, catalog: &Catalog, read: &Rows, changes: &[Change]) -> Migration {
    let change = addition(catalog, scope);
    let (table, range, at) = (scope.table(), KeyRange::all(), read.at);
    let partitions = tables.partitions(scope).into_iter();
    let reads =
        partitions.map(|partition| ReadGranule { partition, table, range: range.clone(), columns: None, at });
    let after = changes.iter().filter_map(|change| change.after.as_ref());
    let writes = after.flat_map(|holder| {
        let homes = tables.homes(scope, holder.shelf).into_iter();
        homes.map(move |partition| ValidatedWrite {
            partition,
            table,
            schema_version: catalog.version + 1,
            key: key(holder.shelf, holder.key),
            kind: WriteKind::Put,
            row: Some(holder.row()),
        })
    });
    let rows = Validated { reads: reads.collect(), writes: writes.collect() };
    Migration { change, rows }
}

impl<P: Process<Request = Request, Reply = Reply>> Client<P> for Migrator {
    fn step(&mut self, now: Time, event: ClientEvent<P>, out: &mut ClientEffects<P>) {
        match event {
            ClientEvent::Start => out.wake_at(now + self.rng.below(self.around.pause_ns_max + 1), 0),
            ClientEvent::Wake(_) => {
                self.at = *self.rng.pick(&self.around.gateways);
                out.ask(self.at, Request::Catalog);
                self.doing = Doing::Asking;
            }
            ClientEvent::Reply { reply, .. } => self.learn(now, reply, out),
            ClientEvent::Lost { .. } => {
                if let Doing::Committing { entry, .. } = &self.doing {
                    self.around.book.open().unknown(*entry);
                }
                self.later(now, out);
            }
        }
    }
    fn is_done(&self) -> bool {
        self.left == 0
    }
}

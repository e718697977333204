//! Transactions as they are sent to every participant and executed deterministically there: programs and access sets.
//!
//! A program runs in two halves. *Gather* reads at one participant, decides whether the transaction
//! must abort there, and sends values to the others; *apply* has the values of all participants and writes. All
//! aborts are decided by what was gathered, so every participant comes to the same decision.

pub mod procedure;

use crate::commit::RowWrite;
use crate::expr::Expr;
use crate::key::KeyRange;
use crate::schema::SchemaChange;
use crate::{Datum, Key, PartitionId, Rank, Row, SqlError, SqlState, TableId, Time, Token, TxnId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A transaction on its way to its participants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transaction {
    pub id: TxnId,
    pub program: Arc<TxnProgram>,
    pub access: Arc<AccessSet>,
    /// The transaction's rank must be greater: its session has seen everything up to here.
    pub min_rank: Rank,
    /// What the session itself said that it has seen; never more than `min_rank`, to which a gateway may
    /// add. A reader of this transaction reads everything up to here as well.
    pub after: Rank,
    /// What its gateway knew of homes that have moved, if any of those it touches has, or does with it.
    pub homes: Option<Arc<Homes>>,
}

/// Where something is ordered: in this region, after so many moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Home {
    pub region: crate::RegionId,
    pub moves: u32,
}

/// What has one home: a table or an index of a partition that was moved separately, or (`None`) everything else in
/// the partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Homed {
    pub partition: PartitionId,
    pub table: Option<TableId>,
}

impl Homed {
    /// All of a partition that was not moved separately.
    pub fn rest_of(partition: PartitionId) -> Homed {
        Homed { partition, table: None }
    }
}

/// Homes as a transaction's gateway took them to be. At a partition of which nothing is named the transaction
/// touches nothing that has ever moved; of any other, all that it touches is named.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Homes {
    pub claims: BTreeMap<Homed, Home>,
    /// It moves these to that region.
    pub moves: Vec<(Homed, crate::RegionId)>,
}

impl Transaction {
    /// Partitions that take part, in order.
    pub fn participants(&self) -> impl Iterator<Item = PartitionId> + '_ {
        self.access.by_partition.keys().copied()
    }
}

/// The work itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum TxnProgram {
    /// A registered procedure; its access set follows from its arguments.
    Procedure { name: String, args: Vec<Datum> },
    /// One-shot SQL whose keys or key ranges are known; executed in order at its place. Never a
    /// conflict abort.
    Statements(Vec<Statement>),
    /// An interactive transaction: valid if nothing it read changed since it read it.
    Validated(Validated),
    /// DDL.
    Schema(SchemaChange),
    /// DDL and rows, in one.
    Migration(Migration),
    /// Nothing, and that fails: under the name of a request it sees to it that no attempt of it takes effect any more,
    /// if none has.
    GiveUp,
}

/// One statement. Column numbers index the table's columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Statement {
    Insert {
        table: TableId,
        schema_version: u64,
        /// Complete rows, defaults filled in and values coerced.
        rows: Vec<Row>,
        on_conflict: OnConflict,
        returning: Option<Vec<Expr>>,
    },
    Update {
        table: TableId,
        schema_version: u64,
        target: KeyRange,
        filter: Option<Expr>,
        /// New values; neither primary-key columns nor columns of a unique entry homed elsewhere.
        set: Vec<(usize, Expr)>,
        returning: Option<Vec<Expr>>,
    },
    Delete {
        table: TableId,
        schema_version: u64,
        target: KeyRange,
        filter: Option<Expr>,
        returning: Option<Vec<Expr>>,
    },
    /// A read that takes its place in the order.
    Select { table: TableId, schema_version: u64, target: KeyRange, filter: Option<Expr>, columns: Vec<Expr> },
    /// TRUNCATE: removes every row of the table.
    Truncate { table: TableId, schema_version: u64 },
    /// Enters the rows of a range into an index that is being built, where they are not in it yet.
    Enter { table: TableId, schema_version: u64, index: TableId, target: KeyRange },
}

/// What an INSERT does when a unique key is taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum OnConflict {
    /// Abort with 23505.
    Fail,
    /// Skip the row; `index` limits it to one constraint (`None`: any; the primary key is the table's own id).
    Nothing { index: Option<TableId> },
    /// Update the existing row. In expressions, columns 0..n are the existing row's and n..2n the
    /// proposed ("excluded") one's.
    Update { index: TableId, set: Vec<(usize, Expr)>, filter: Option<Expr> },
}

/// An interactive transaction's reads and writes. Every read is judged by its own cut: unchanged from there
/// to the transaction's place, all of them are what a reader at that place would see.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Validated {
    pub reads: Vec<ReadGranule>,
    /// Final state of each row written, one entry per row.
    pub writes: Vec<ValidatedWrite>,
}

/// A change of the catalog together with rows. What was read is judged before the change; rows are written
/// after it, and name the versions of their tables that the change makes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Migration {
    pub change: SchemaChange,
    pub rows: Validated,
}

impl TxnProgram {
    /// The change of the catalog in it, if there is one.
    pub fn schema_change(&self) -> Option<&SchemaChange> {
        match self {
            TxnProgram::Schema(change) | TxnProgram::Migration(Migration { change, .. }) => Some(change),
            _ => None,
        }
    }
    /// What an interactive transaction read and wrote.
    pub fn validated(&self) -> Option<&Validated> {
        match self {
            TxnProgram::Validated(rows) | TxnProgram::Migration(Migration { rows, .. }) => Some(rows),
            _ => None,
        }
    }
}

/// Something that was read: no version in it may be newer than the cut.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ReadGranule {
    pub partition: PartitionId,
    /// A table, or a secondary index.
    pub table: TableId,
    pub range: KeyRange,
    /// The columns of the table that were looked at: rows may have changed in others. `None`: any newer
    /// version counts, even one of a row that came and went.
    pub columns: Option<Vec<u16>>,
    /// The cut at which it was read, exactly.
    pub at: Rank,
}

/// A row's final state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ValidatedWrite {
    pub partition: PartitionId,
    pub table: TableId,
    pub schema_version: u64,
    pub key: Key,
    pub kind: WriteKind,
    /// `None` deletes.
    pub row: Option<Row>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WriteKind {
    /// The key must be free, else 23505.
    Insert,
    /// The row was read by this transaction (or is written blindly); its presence is not asked again.
    Put,
}

/// What a transaction touches, by partition.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct AccessSet {
    pub by_partition: BTreeMap<PartitionId, Vec<Access>>,
}

/// One granule touched at one partition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Access {
    pub granule: Granule,
    pub mode: AccessMode,
}

/// What is touched. Row keys, key ranges and index entries share one hierarchy: a row key conflicts
/// with every range that contains it and with its whole partition, so intention modes (IR, IW) are
/// implied by the structure rather than declared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Granule {
    /// A row (table) or an index entry (index).
    Key(TableId, Key),
    Range(TableId, KeyRange),
    /// Everything in the partition, the catalog included: DDL.
    Partition,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum AccessMode {
    Read,
    Write,
}

impl Granule {
    /// The table or index that it is of; `None`: all of its partition.
    pub fn table(&self) -> Option<TableId> {
        match self {
            Granule::Key(table, _) | Granule::Range(table, _) => Some(*table),
            Granule::Partition => None,
        }
    }
    /// Whether two granules of one partition have something in common.
    pub fn overlaps(&self, other: &Granule) -> bool {
        match (self, other) {
            (Granule::Partition, _) | (_, Granule::Partition) => true,
            (Granule::Key(t, a), Granule::Key(u, b)) => t == u && a == b,
            (Granule::Key(t, key), Granule::Range(u, range))
            | (Granule::Range(u, range), Granule::Key(t, key)) => t == u && range.contains(key),
            (Granule::Range(t, a), Granule::Range(u, b)) => t == u && a.overlaps(b),
        }
    }
    /// A range granule, or a key granule if the range holds exactly one key.
    pub fn of(table: TableId, range: KeyRange) -> Granule {
        match range.as_point() {
            Some(key) => Granule::Key(table, key.clone()),
            None => Granule::Range(table, range),
        }
    }
}

impl AccessSet {
    pub fn add(&mut self, partition: PartitionId, granule: Granule, mode: AccessMode) {
        self.by_partition.entry(partition).or_default().push(Access { granule, mode });
    }
    pub fn read_key(&mut self, partition: PartitionId, table: TableId, key: Key) {
        self.add(partition, Granule::Key(table, key), AccessMode::Read);
    }
    pub fn write_key(&mut self, partition: PartitionId, table: TableId, key: Key) {
        self.add(partition, Granule::Key(table, key), AccessMode::Write);
    }
    /// Sorts and removes duplicates; a granule both read and written counts as written.
    pub fn normalize(&mut self) {
        for accesses in self.by_partition.values_mut() {
            // Write sorts after Read: walking backwards keeps the stronger of two.
            accesses.sort_unstable();
            accesses.reverse();
            accesses.dedup_by(|later, kept| later.granule == kept.granule);
            accesses.reverse();
        }
    }
    pub fn at(&self, partition: PartitionId) -> &[Access] {
        self.by_partition.get(&partition).map_or(&[], Vec::as_slice)
    }
}

/// What gathering found at one participant; travels to the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Gathered {
    /// Values for the others, meaning decided by the program.
    Values(Vec<Datum>),
    /// The transaction aborts, at every participant, for this reason.
    Abort(SqlError),
}

impl Gathered {
    /// What a transaction aborts with, after what its participants have answered. Whoever must retry is told so, rather than
    /// what it would have run into: another participant may have judged rows that are not as the transaction saw them.
    pub fn abort_of<'g>(answers: impl IntoIterator<Item = &'g Gathered>) -> Option<&'g SqlError> {
        let aborts = answers.into_iter().filter_map(|answer| match answer {
            Gathered::Abort(error) => Some(error),
            Gathered::Values(_) => None,
        });
        aborts.min_by_key(|error| error.state != SqlState::SERIALIZATION_FAILURE)
    }
}

/// The end of a transaction at one participant, and (merged) for its client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Outcome {
    Committed {
        /// Rows to return, per statement.
        results: Vec<StatementResult>,
    },
    /// Decided deterministically; nothing was written anywhere.
    Aborted(SqlError),
}

impl Outcome {
    pub fn is_committed(&self) -> bool {
        matches!(self, Outcome::Committed { .. })
    }
}

/// What one statement (or a procedure) returned at one participant; participants' results of a
/// statement are concatenated in partition order and their counts added.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct StatementResult {
    pub rows: Vec<Row>,
    /// Rows inserted, updated or deleted.
    pub affected: u64,
}

/// What a transaction did at one partition.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Applied {
    pub results: Vec<StatementResult>,
    /// Rows written here, in order.
    pub writes: Vec<RowWrite>,
    /// A change of the catalog, taking effect at the transaction's place.
    pub schema: Option<SchemaChange>,
}

/// Rows wanted at a cut, of one table or index at one partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RowRead {
    pub partition: PartitionId,
    pub table: TableId,
    /// Read through this secondary index; `range` is then over its entries.
    pub index: Option<TableId>,
    pub range: KeyRange,
    /// Rows that do not satisfy it are not sent (they still count as read).
    pub filter: Option<Expr>,
    pub limit: Option<u64>,
    pub descending: bool,
}

/// A client's transaction, before it has an id.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Submission {
    pub program: Arc<TxnProgram>,
    pub access: Arc<AccessSet>,
    pub token: Token,
    /// Present if the client may repeat it, here or at another gateway, and wants it done once.
    pub request: Option<ClientRequest>,
    /// What it asks for; an engine may give more. All but `geogauss` give serializable.
    pub isolation: Isolation,
}

/// What a transaction is promised about what it read, from the weakest on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Isolation {
    /// Everything that it read was committed. Of two updates of a row in different epochs the later one wins, whatever
    /// it has read.
    ReadCommitted,
    /// First committer wins: nothing that it writes has changed since its snapshot.
    Snapshot,
    /// The same, and nothing that it read has changed before its epoch.
    RepeatableRead,
    /// The same, and nothing that it read is written by who commits ahead of it in its epoch.
    #[default]
    Serializable,
}

impl Isolation {
    pub const ALL: [Isolation; 4] =
        [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::RepeatableRead, Isolation::Serializable];

    pub fn name(self) -> &'static str {
        match self {
            Isolation::ReadCommitted => "read committed",
            Isolation::Snapshot => "snapshot",
            Isolation::RepeatableRead => "repeatable read",
            Isolation::Serializable => "serializable",
        }
    }
}

/// How [`TxnProgram::GiveUp`] ends, and attempts that come behind it.
pub fn given_up() -> SqlError {
    SqlError::new(GIVEN_UP, "the named request was given up before it took effect")
        .detail("Its outcome was asked for by SHOW meridian.request_outcome.")
        .hint("Run the transaction again under a new name.")
}
pub fn is_given_up(error: &SqlError) -> bool {
    error.state == GIVEN_UP
}
/// "Transaction rollback"; nothing else answers it.
const GIVEN_UP: SqlState = SqlState(*b"40000");

/// Names a client's request across its repetitions: each repetition gets the end of the first attempt
/// that took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClientRequest {
    /// Unique among clients; a client draws it at random.
    pub client: u64,
    /// The client's own number for the request, never used twice.
    pub number: u64,
    /// A clock reading taken before it was first sent. Once results of that time are forgotten, a
    /// repetition is refused rather than executed again.
    pub issued_at: Time,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_must_retry_is_told_so() {
        let abort = |state, text: &str| Gathered::Abort(SqlError::new(state, text));
        let taken = abort(SqlState::UNIQUE_VIOLATION, "taken");
        let changed = abort(SqlState::SERIALIZATION_FAILURE, "changed");
        let told = |answers: &[&Gathered]| {
            Gathered::abort_of(answers.iter().copied()).map(|error| error.message.clone())
        };
        let fine = Gathered::Values(Vec::new());
        assert_eq!(told(&[&fine]), None);
        assert_eq!(told(&[&fine, &taken]).as_deref(), Some("taken"));
        assert_eq!(told(&[&taken, &changed]).as_deref(), Some("changed"));
        assert_eq!(told(&[&abort(SqlState::CHECK_VIOLATION, "first"), &taken]).as_deref(), Some("first"));
    }
}

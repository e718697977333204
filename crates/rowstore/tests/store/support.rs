//! A few partitions without an engine: transactions run one after another at growing ranks, at all
//! their participants, as an engine would run them.

#![allow(dead_code, reason = "each test file uses its part")]

use base::commit::CommitRecord;
use base::expr::{BinaryOperator, Expr};
use base::key::KeyRange;
use base::schema::*;
use base::topology::Topology;
use base::txn::procedure::Procedures;
use base::txn::*;
use base::wan::Wan;
use base::*;
use rowstore::{Begun, EvaluatedHere, Store, Unfinished};
use std::collections::BTreeMap;
use std::sync::Arc;

pub struct World {
    pub stores: Vec<Store>,
    pub topology: Arc<Topology>,
    pub rank: u64,
    /// What was prepared while gathering is forgotten, as if memory were short.
    pub forget_prepared: bool,
    /// Stores where everything is evaluated at a rank and its write set installed at its place: they have to say and
    /// become the same.
    twins: Option<Vec<Store>>,
    /// Read-only replicas that follow the logs: they have to say the same to readers.
    followers: Option<Vec<Store>>,
    /// How often an execution went on in another step.
    pub pauses: u64,
    unfinished: BTreeMap<PartitionId, Unfinished>,
    /// Of all ranks so far.
    highest: u64,
    sequence: u64,
}

fn in_steps<T>(pauses: &mut u64, mut step: impl FnMut() -> Option<T>) -> T {
    loop {
        match step() {
            Some(done) => return done,
            None => *pauses += 1,
        }
    }
}

impl World {
    pub fn new(partitions: u16) -> World {
        World::with_procedures(partitions, Procedures::default())
    }
    pub fn with_procedures(partitions: u16, procedures: Procedures) -> World {
        let wan = Wan::uniform("test", &["here"], 1, 1);
        let topology = Arc::new(Topology::one_node_per_region(wan, partitions));
        let procedures = Arc::new(procedures);
        let store = |p| Store::new(PartitionId(p), topology.clone(), procedures.clone());
        World {
            stores: (0..partitions).map(&store).collect(),
            twins: Some((0..partitions).map(&store).collect()),
            followers: Some((0..partitions).map(&store).collect()),
            topology: topology.clone(),
            rank: 0,
            forget_prepared: false,
            pauses: 0,
            unfinished: BTreeMap::new(),
            highest: 0,
            sequence: 0,
        }
    }
    /// With a fault in its stores.
    #[cfg(feature = "mutants")]
    pub fn planted(self, mutant: rowstore::Mutant) -> World {
        let stores = self.stores.into_iter().map(|store| store.with_mutant(Some(mutant)));
        World { stores: stores.collect(), ..self }
    }
    pub fn catalog(&self) -> Arc<Catalog> {
        self.stores[0].catalog().clone()
    }
    pub fn table(&self, name: &str) -> Arc<Table> {
        self.catalog().require(name).unwrap().clone()
    }
    pub fn version(&self, table: TableId) -> u64 {
        self.catalog().table(table).unwrap().version
    }
    pub fn now(&self) -> Rank {
        Rank(self.rank)
    }

    /// Declares everything everywhere.
    pub fn everything(&self) -> AccessSet {
        let mut access = AccessSet::default();
        self.topology.partition_ids().for_each(|p| access.add(p, Granule::Partition, AccessMode::Write));
        access
    }
    pub fn transaction(&mut self, program: TxnProgram, access: AccessSet) -> Transaction {
        self.sequence += 1;
        let id = TxnId { coordinator: NodeId(0), incarnation: 1, sequence: self.sequence };
        Transaction {
            id,
            program: Arc::new(program),
            access: Arc::new(access),
            min_rank: Rank::ZERO,
            after: Rank::ZERO,
            homes: None,
        }
    }
    /// Runs at the next rank.
    pub fn run_declared(&mut self, program: TxnProgram, access: AccessSet) -> Outcome {
        self.rank += 10;
        let transaction = self.transaction(program, access);
        self.run_at(&transaction, self.rank)
    }
    pub fn run_at(&mut self, transaction: &Transaction, rank: u64) -> Outcome {
        self.highest = self.highest.max(rank);
        let participants: Vec<PartitionId> = transaction.participants().collect();
        // Where steps end makes no difference.
        let units = [1, 3, u64::MAX][transaction.id.sequence as usize % 3];
        let mut gathered: BTreeMap<PartitionId, Gathered> = BTreeMap::new();
        for p in &participants {
            let store = &mut self.stores[p.0 as usize];
            let unfinished = self.unfinished.entry(*p).or_default();
            let step = || store.gather_some(unfinished, transaction, units);
            gathered.insert(*p, in_steps(&mut self.pauses, step));
        }
        if let Some(error) = Gathered::abort_of(gathered.values()) {
            participants.iter().for_each(|p| self.stores[p.0 as usize].forget(transaction.id));
            self.twins_abort(transaction, error);
            return Outcome::Aborted(error.clone());
        }
        let place = Place::new(Rank(rank), transaction.id);
        let mut merged: Vec<StatementResult> = Vec::new();
        let mut applied_at = BTreeMap::new();
        for p in &participants {
            if self.forget_prepared {
                self.stores[p.0 as usize].forget(transaction.id);
            }
            let store = &mut self.stores[p.0 as usize];
            let unfinished = self.unfinished.entry(*p).or_default();
            let applied = in_steps(&mut self.pauses, || {
                store.apply_some(unfinished, transaction, place, &gathered, units)
            });
            merged.resize_with(merged.len().max(applied.results.len()), Default::default);
            for (all, part) in merged.iter_mut().zip(&applied.results) {
                all.rows.extend(part.rows.iter().cloned());
                all.affected += part.affected;
            }
            self.follow(*p, place, &applied);
            applied_at.insert(*p, applied);
        }
        self.twins_commit(transaction, place, &gathered, applied_at);
        Outcome::Committed { results: merged }
    }

    /// A part of what happens to these stores happens to them alone.
    pub fn without_twins(mut self) -> World {
        (self.twins, self.followers) = (None, None);
        self
    }
    /// What is decided by entries that came late is decided where transactions are executed, and nowhere else.
    pub fn without_evaluation(mut self) -> World {
        self.twins = None;
        self
    }
    fn follow(&mut self, partition: PartitionId, place: Place, applied: &Applied) {
        let Some(followers) = &mut self.followers else { return };
        let (writes, schema) = (applied.writes.clone(), applied.schema.clone());
        let (txn, rank, position) = (place.txn, place.rank, LogPosition(1));
        let record = CommitRecord { txn, rank, partition, position, writes, schema };
        // As it travels.
        followers[partition.0 as usize].follow(&base::codec::decode(&base::codec::encode(&record)).unwrap());
    }
    fn evaluate_twins(
        twins: &[Store],
        transaction: &Transaction,
        at: Rank,
    ) -> Result<BTreeMap<PartitionId, EvaluatedHere>, SqlError> {
        let participants: Vec<PartitionId> = transaction.participants().collect();
        let begin = |p: &PartitionId| (*p, twins[p.0 as usize].begin_evaluation(transaction, at));
        let begun: Vec<_> = participants.iter().map(begin).collect();
        let refused = begun.iter().filter_map(|(_, begun)| begun.as_ref().err());
        let retry = |error: &&SqlError| error.state != SqlState::SERIALIZATION_FAILURE;
        if let Some(error) = refused.min_by_key(retry) {
            return Err(error.clone());
        }
        let begun: BTreeMap<_, _> = begun.into_iter().map(|(p, begun)| (p, begun.ok().unwrap())).collect();
        let exchange = begun.iter().map(|(p, begun)| (*p, begun.values.clone())).collect();
        let finish = |(p, begun): (PartitionId, Begun)| {
            Ok((p, twins[p.0 as usize].finish_evaluation(transaction, at, begun, &exchange)?))
        };
        begun.into_iter().map(finish).collect()
    }
    fn twins_abort(&mut self, transaction: &Transaction, error: &SqlError) {
        let Some(twins) = &self.twins else { return };
        let is_schema_change =
            matches!(&*transaction.program, TxnProgram::Schema(_) | TxnProgram::Migration(_));
        // Whether its reads are valid is not the store's to say.
        let is_validated = matches!(&*transaction.program, TxnProgram::Validated(_));
        if is_schema_change || is_validated && error.state == SqlState::SERIALIZATION_FAILURE {
            return;
        }
        let refused = World::evaluate_twins(twins, transaction, Rank(self.highest)).err();
        assert_eq!(refused.as_ref(), Some(error), "evaluated over all rows so far");
    }
    fn twins_commit(
        &mut self,
        transaction: &Transaction,
        place: Place,
        gathered: &BTreeMap<PartitionId, Gathered>,
        applied: BTreeMap<PartitionId, Applied>,
    ) {
        let Some(twins) = &mut self.twins else { return };
        if matches!(&*transaction.program, TxnProgram::Schema(_) | TxnProgram::Migration(_)) {
            let refused = World::evaluate_twins(twins, transaction, Rank(self.highest)).unwrap_err();
            assert_eq!(refused.state, SqlState::FEATURE_NOT_SUPPORTED, "{refused:?}");
            for p in applied.keys() {
                assert!(matches!(twins[p.0 as usize].gather(transaction), Gathered::Values(_)));
                twins[p.0 as usize].apply(transaction, place, gathered);
            }
            return;
        }
        let evaluated = World::evaluate_twins(twins, transaction, Rank(self.highest))
            .unwrap_or_else(|error| panic!("it is executed without an error, but evaluated: {error:?}"));
        let writes: BTreeMap<_, _> = evaluated.iter().map(|(p, here)| (*p, here.writes.clone())).collect();
        // As it travels.
        let writes = base::codec::decode(&base::codec::encode(&writes)).unwrap();
        for (p, applied) in applied {
            assert_eq!(evaluated[&p].results, applied.results, "results at {p}");
            let installed = twins[p.0 as usize].install_writes(place, &writes).unwrap();
            assert_eq!(installed.writes, applied.writes, "the commit record at {p}");
        }
    }
    pub fn run(&mut self, program: TxnProgram) -> Outcome {
        let access = self.everything();
        self.run_declared(program, access)
    }
    pub fn statement(&mut self, statement: Statement) -> Result<StatementResult, SqlError> {
        match self.run(TxnProgram::Statements(vec![statement])) {
            Outcome::Committed { mut results } => Ok(results.remove(0)),
            Outcome::Aborted(error) => Err(error),
        }
    }
    pub fn schema(&mut self, actions: Vec<SchemaAction>) -> Result<(), SqlError> {
        let base_version = self.catalog().version;
        match self.run(TxnProgram::Schema(SchemaChange {
            database: Default::default(),
            base_version,
            actions,
        })) {
            Outcome::Committed { .. } => Ok(()),
            Outcome::Aborted(error) => Err(error),
        }
    }
    pub fn insert(&mut self, table: TableId, rows: &[&[Datum]]) -> Result<StatementResult, SqlError> {
        self.insert_or(table, rows, OnConflict::Fail)
    }
    pub fn insert_or(
        &mut self,
        table: TableId,
        rows: &[&[Datum]],
        on_conflict: OnConflict,
    ) -> Result<StatementResult, SqlError> {
        let schema_version = self.version(table);
        let rows = rows.iter().map(|r| Row::of(r)).collect();
        self.statement(Statement::Insert { table, schema_version, rows, on_conflict, returning: None })
    }
    pub fn update(
        &mut self,
        table: TableId,
        target: KeyRange,
        set: Vec<(usize, Expr)>,
    ) -> Result<StatementResult, SqlError> {
        let schema_version = self.version(table);
        self.statement(Statement::Update {
            table,
            schema_version,
            target,
            filter: None,
            set,
            returning: None,
        })
    }
    pub fn delete(&mut self, table: TableId, target: KeyRange) -> Result<StatementResult, SqlError> {
        let schema_version = self.version(table);
        self.statement(Statement::Delete { table, schema_version, target, filter: None, returning: None })
    }
    /// A validated transaction that read at one cut; it declares what it reads and writes, and every partition.
    pub fn validated(
        &mut self,
        read_at: Rank,
        mut reads: Vec<ReadGranule>,
        writes: Vec<ValidatedWrite>,
    ) -> Result<(), SqlError> {
        reads.iter_mut().for_each(|read| read.at = read_at);
        match self.run(TxnProgram::Validated(Validated { reads, writes })) {
            Outcome::Committed { .. } => Ok(()),
            Outcome::Aborted(error) => Err(error),
        }
    }
    /// A change of the catalog with rows, as they will be described.
    pub fn migrate(
        &mut self,
        actions: Vec<SchemaAction>,
        writes: Vec<ValidatedWrite>,
    ) -> Result<(), SqlError> {
        let change =
            SchemaChange { database: Default::default(), base_version: self.catalog().version, actions };
        let rows = Validated { reads: Vec::new(), writes };
        match self.run(TxnProgram::Migration(Migration { change, rows })) {
            Outcome::Committed { .. } => Ok(()),
            Outcome::Aborted(error) => Err(error),
        }
    }
    /// Where a row lives.
    pub fn home(&self, table: TableId, values: &[Datum]) -> PartitionId {
        match self.catalog().table(table).unwrap().locate_row(values, &self.topology) {
            Location::One(partition) => partition,
            Location::Everywhere => PartitionId(0),
        }
    }
    pub fn write(&self, table: TableId, values: &[Datum], kind: WriteKind) -> ValidatedWrite {
        let catalog = self.catalog();
        let desc = catalog.table(table).unwrap();
        ValidatedWrite {
            partition: self.home(table, values),
            table,
            schema_version: desc.version,
            key: desc.key_of(values),
            kind,
            row: Some(Row::of(values)),
        }
    }
    pub fn removal(&self, table: TableId, values: &[Datum]) -> ValidatedWrite {
        ValidatedWrite { row: None, ..self.write(table, values, WriteKind::Put) }
    }
    /// All rows of a table at a cut, over all partitions, by key.
    pub fn rows_at(&self, table: TableId, cut: Rank) -> BTreeMap<Key, Row> {
        let mut rows = BTreeMap::new();
        for store in &self.stores {
            rows.extend(store.read(&whole(store.partition(), table), cut).unwrap());
        }
        rows
    }
    pub fn rows(&self, table: TableId) -> Vec<Vec<Datum>> {
        self.rows_at(table, self.now()).values().map(Row::to_vec).collect()
    }
    pub fn check(&self) {
        self.stores.iter().for_each(Store::check_invariants);
        for (follower, store) in self.followers.iter().flatten().zip(&self.stores) {
            for (id, table) in &self.catalog().tables {
                let indexes = table.indexes.iter().filter(|index| !index.form.is_building);
                for index in std::iter::once(None).chain(indexes.map(|index| Some(index.id))) {
                    let read = RowRead { index, ..whole(store.partition(), *id) };
                    for cut in [self.now(), Rank(self.now().0 / 2)] {
                        // What an index shows at cuts before it is asked by nobody.
                        if index.is_some() && store.changed_above(cut, |table| table == *id).is_some() {
                            continue;
                        }
                        if let Ok(rows) = store.read(&read, cut) {
                            assert_eq!(
                                follower.read(&read, cut).unwrap(),
                                rows,
                                "{id} by {index:?} at {cut}"
                            );
                        }
                    }
                }
            }
        }
        for (twin, store) in self.twins.iter().flatten().zip(&self.stores) {
            twin.check_invariants();
            for id in self.catalog().tables.keys() {
                let rows = |store: &Store| store.read(&whole(store.partition(), *id), self.now()).unwrap();
                assert_eq!(rows(twin), rows(store), "rows of {id} at {}", store.partition());
            }
        }
    }
}

pub fn whole(partition: PartitionId, table: TableId) -> RowRead {
    RowRead {
        partition,
        table,
        index: None,
        range: KeyRange::all(),
        filter: None,
        limit: None,
        descending: false,
    }
}

pub fn int(value: i64) -> Datum {
    Datum::Int(value)
}
pub fn key(values: &[i64]) -> Key {
    Key::of(&values.iter().map(|v| Datum::Int(*v)).collect::<Vec<_>>())
}
pub fn point(values: &[i64]) -> KeyRange {
    KeyRange::point(key(values))
}
pub fn plus(column: usize, by: i64) -> Expr {
    Expr::binary(BinaryOperator::Add, Expr::Column(column), Expr::constant(by))
}

pub fn column(name: &str, data_type: DataType, not_null: bool) -> Column {
    Column {
        name: name.into(),
        data_type,
        not_null,
        default: None,
        missing: Datum::Null,
        identity: Identity::No,
        hidden: false,
    }
}

/// `name (a bigint, b bigint, c bigint, d text, PRIMARY KEY (a, b))`, by hash of `a`.
pub fn table(id: u32, name: &str) -> Table {
    Table {
        id: TableId(id),
        schema: "public".into(),
        name: name.into(),
        version: 0,
        columns: vec![
            column("a", DataType::BigInt, true),
            column("b", DataType::BigInt, true),
            column("c", DataType::BigInt, false),
            column("d", DataType::Text, false),
        ],
        primary_key: vec![0, 1],
        primary_key_name: format!("{name}_pkey"),
        indexes: Vec::new(),
        checks: Default::default(),
        foreign: Default::default(),
        triggers: Default::default(),
        domains: Default::default(),
        partitioning: None,
        placement: Placement::HomeBy { column: 0, regions: RegionMap::Hash },
    }
}
pub fn index(id: u32, name: &str, columns: &[usize], unique: bool) -> Index {
    let form = Default::default();
    Index { id: TableId(id), name: name.into(), columns: columns.into(), unique, constraint: unique, form }
}

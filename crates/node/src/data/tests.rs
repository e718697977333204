//! An engine that evaluates first and installs later gets the same rows, index entries and commit records as one that
//! executes in order, and copies under way leave out what was installed since they began.

use super::*;
use base::expr::{BinaryOperator, Expr};
use base::key::KeyRange;
use base::rng::Rng;
use base::schema::*;
use base::txn::*;
use base::wan::Wan;
use base::{DataType, Datum};

const T: TableId = TableId(1);
const OTHER: NodeId = NodeId(9);
const PARTITIONS: [PartitionId; 2] = [PartitionId(0), PartitionId(1)];

struct Pair {
    topology: Arc<Topology>,
    /// Executes at places, in order.
    ordered: Data,
    /// Evaluates at the newest rank and installs.
    evaluated: Data,
    sequence: u64,
}

impl Pair {
    fn new() -> Pair {
        let topology = Arc::new(Topology::one_node_per_region(Wan::uniform("test", &["here"], 1, 1), 2));
        let data = || {
            let mut data = Data::new(topology.clone(), Arc::default(), PARTITIONS.into_iter());
            data.note_writes(true);
            data
        };
        let mut pair = Pair { ordered: data(), evaluated: data(), topology: topology.clone(), sequence: 0 };
        let change = SchemaChange {
            database: Default::default(),
            base_version: 0,
            actions: vec![SchemaAction::CreateTable(table())],
        };
        let transaction = pair.transaction(TxnProgram::Schema(change));
        let place = Place::new(Rank(1), transaction.id);
        execute(&mut pair.ordered, &transaction, place).expect("it is created");
        execute(&mut pair.evaluated, &transaction, place).expect("it is created");
        assert!(
            pair.evaluated.evaluate(&transaction, Rank(1)).is_err(),
            "a change of the catalog needs a place"
        );
        pair
    }
    fn transaction(&mut self, program: TxnProgram) -> Transaction {
        self.sequence += 1;
        let mut access = AccessSet::default();
        PARTITIONS.into_iter().for_each(|p| access.add(p, Granule::Partition, AccessMode::Write));
        Transaction {
            id: TxnId { coordinator: NodeId(0), incarnation: 1, sequence: self.sequence },
            program: Arc::new(program),
            access: Arc::new(access),
            min_rank: Rank::ZERO,
            after: Rank::ZERO,
            homes: None,
        }
    }
    /// Runs it at both, at this rank; what it says, and whether it committed.
    fn run(&mut self, program: TxnProgram, rank: u64) -> bool {
        let transaction = self.transaction(program);
        let place = Place::new(Rank(rank), transaction.id);
        let expected = execute(&mut self.ordered, &transaction, place);
        let evaluated = self.evaluated.evaluate(&transaction, Rank(rank));
        let (applied, evaluated) = match (expected, evaluated) {
            (Ok(applied), Ok(evaluated)) => (applied, evaluated),
            (Err(expected), Err(error)) => {
                assert_eq!(error, expected);
                return false;
            }
            (expected, evaluated) => panic!("{:?}: {expected:?}, {evaluated:?}", transaction.program),
        };
        for (partition, applied) in applied {
            assert_eq!(evaluated.results[&partition], applied.results, "results at {partition}");
            let installed =
                self.evaluated.install(partition, place, &evaluated.writes).expect("nothing changed");
            assert_eq!(installed.writes, applied.writes, "the commit record at {partition}");
        }
        true
    }
    /// Of the table's description.
    fn version(&self) -> u64 {
        self.ordered.catalog().table(T).expect("created").version
    }
    fn expect_same_rows(&self) {
        for partition in PARTITIONS {
            let blocks = |data: &Data| {
                let store = data.store(partition);
                store.check_invariants();
                let mut plan = store.begin_copy();
                let block = || store.copy_more(&mut plan, &|_| false).expect("the catalog stays");
                std::iter::from_fn(block).collect::<Vec<_>>()
            };
            assert_eq!(blocks(&self.ordered), blocks(&self.evaluated), "all versions at {partition}");
        }
    }
}

fn execute(
    data: &mut Data,
    transaction: &Transaction,
    place: Place,
) -> Result<BTreeMap<PartitionId, Applied>, SqlError> {
    let gathered: BTreeMap<PartitionId, Gathered> =
        transaction.participants().map(|p| (p, data.gather(p, transaction))).collect();
    for gathered in gathered.values() {
        if let Gathered::Abort(error) = gathered {
            PARTITIONS.into_iter().for_each(|p| data.store_mut(p).forget(transaction.id));
            return Err(error.clone());
        }
    }
    let partitions = gathered.keys().copied().collect::<Vec<_>>().into_iter();
    Ok(partitions.map(|p| (p, data.apply(p, transaction, place, &gathered))).collect())
}

/// `t (id bigint PRIMARY KEY, n bigint, name text)` by hash of `id`, indexed by `n`.
fn table() -> Table {
    let column = |name: &str, data_type: DataType| Column {
        name: name.into(),
        data_type,
        not_null: false,
        default: None,
        missing: Datum::Null,
        identity: Identity::No,
        hidden: false,
    };
    let by_n = Index {
        id: TableId(2),
        name: "t_n".into(),
        columns: vec![1],
        unique: false,
        constraint: false,
        form: Default::default(),
    };
    Table {
        id: T,
        schema: "public".into(),
        name: "t".into(),
        version: 0,
        columns: vec![
            Column { not_null: true, ..column("id", DataType::BigInt) },
            column("n", DataType::BigInt),
            column("name", DataType::Text),
        ],
        primary_key: vec![0],
        primary_key_name: "t_pkey".into(),
        indexes: vec![by_n],
        checks: Default::default(),
        foreign: Default::default(),
        triggers: Default::default(),
        domains: Default::default(),
        partitioning: None,
        placement: Placement::HomeBy { column: 0, regions: RegionMap::Hash },
    }
}

fn random_statement(rng: &mut Rng, schema_version: u64) -> Statement {
    let (table, returning) = (T, Some(vec![Expr::Column(0), Expr::Column(1)]));
    let (id, n) = (rng.below(12) as i64, rng.below(5) as i64);
    let is_n = Expr::binary(BinaryOperator::Equal, Expr::Column(1), Expr::constant(n));
    let range = match rng.below(3) {
        0 => KeyRange::point(Key::of(&[Datum::Int(id)])),
        _ => KeyRange::all(),
    };
    match rng.below(5) {
        0 | 1 => {
            let rows = (0..rng.between(1, 3)).map(|more| {
                Row::of(&[Datum::Int((id + more) % 12), Datum::Int(n), Datum::text(format!("{n}"))])
            });
            let on_conflict = match rng.below(3) {
                0 => OnConflict::Fail,
                1 => OnConflict::Nothing { index: None },
                _ => OnConflict::Update { index: T, set: vec![(1, Expr::Column(4))], filter: None },
            };
            Statement::Insert { table, schema_version, rows: rows.collect(), on_conflict, returning }
        }
        2 | 3 => {
            let set = vec![(1, Expr::binary(BinaryOperator::Add, Expr::Column(1), Expr::constant(1i64)))];
            let filter = rng.chance(0.5).then_some(is_n);
            Statement::Update { table, schema_version, target: range, filter, set, returning }
        }
        _ => Statement::Delete { table, schema_version, target: range, filter: Some(is_n), returning },
    }
}

#[test]
fn random_programs_evaluated_and_installed_leave_the_same_rows_as_executed() {
    let (mut commits, mut aborts) = (0, 0);
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut pair = Pair::new();
        let mut rank = 1;
        for _ in 0..40 {
            // Ties in rank happen.
            rank += rng.below(3);
            let statements = vec![random_statement(&mut rng, pair.version())];
            match pair.run(TxnProgram::Statements(statements), rank) {
                true => commits += 1,
                false => aborts += 1,
            }
        }
        pair.expect_same_rows();
        let [ordered, evaluated] = [&mut pair.ordered, &mut pair.evaluated].map(Data::take_written);
        // What applying notes is what was declared; whoever installs knows the rows.
        let of = |written: Vec<Written>| {
            written.into_iter().map(|(rank, node, _)| (rank, node)).collect::<Vec<_>>()
        };
        assert_eq!(of(ordered), of(evaluated));
    }
    assert!(commits > 500 && aborts > 50, "{commits} committed, {aborts} aborted");
}

/// Rows with these ids.
fn insert(schema_version: u64, ids: std::ops::Range<i64>) -> TxnProgram {
    let rows = ids.map(|id| Row::of(&[Datum::Int(id), Datum::Int(1), Datum::Null])).collect();
    let (table, on_conflict) = (T, OnConflict::Fail);
    let insert = Statement::Insert { table, schema_version, rows, on_conflict, returning: None };
    TxnProgram::Statements(vec![insert])
}

#[test]
fn what_is_installed_while_a_copy_is_made_is_not_in_it() {
    let mut pair = Pair::new();
    let schema_version = pair.version();
    let insert = |ids| insert(schema_version, ids);
    assert!(pair.run(insert(0..50), 10));
    let copied = |data: &mut Data| {
        let mut rows = 0;
        while let Some(piece) = data.more_rows(PARTITIONS[0], OTHER, 7) {
            match piece {
                RowPiece::Rows(_, some) => {
                    assert!(some.len() <= 7, "a piece is bounded");
                    rows += some.len();
                }
                RowPiece::Ends { low } => {
                    assert_eq!(low, Rank(10));
                    return rows;
                }
                RowPiece::Outdated => panic!("no table has changed"),
            }
        }
        panic!("a copy has an end")
    };
    let before = pair.evaluated.store(PARTITIONS[0]).row_count(T) as usize;
    for data in [&mut pair.ordered, &mut pair.evaluated] {
        data.begin_rows(PARTITIONS[0], OTHER, Rank(10));
        data.begin_copy(OTHER, &PARTITIONS);
    }
    assert!(pair.run(insert(50..100), 11));
    for data in [&mut pair.ordered, &mut pair.evaluated] {
        assert_eq!(copied(data), before);
        data.collect_below(Rank(12));
        data.maintain();
        assert!(data.is_collecting(), "nothing is collected while a copy is made");
        let mut blocks = Vec::new();
        while let Ok(Some((partition, block))) = data.next_block(OTHER) {
            blocks.push((partition, block));
        }
        data.end_copy(OTHER);
        let mut other = Data::new(pair.topology.clone(), Arc::default(), PARTITIONS.into_iter());
        blocks.iter().for_each(|(partition, block)| other.restore(*partition, block));
        assert_eq!(other.row_count(T), 50);
        data.maintain();
        assert!(!data.is_collecting());
    }
}

#[test]
fn a_copy_that_begins_while_a_transaction_is_applied_in_steps_leaves_it_out() {
    let mut pair = Pair::new();
    let schema_version = pair.version();
    let insert = |ids| insert(schema_version, ids);
    assert!(pair.run(insert(0..50), 10));
    let before = pair.ordered.row_count(T) as usize;
    let mut data = pair.ordered.in_steps_of(7);
    data.take_written();
    let transaction = {
        let mut access = AccessSet::default();
        PARTITIONS.into_iter().for_each(|p| access.add(p, Granule::Partition, AccessMode::Write));
        Transaction {
            id: TxnId { coordinator: NodeId(0), incarnation: 1, sequence: 99 },
            program: Arc::new(insert(50..100)),
            access: Arc::new(access),
            min_rank: Rank::ZERO,
            after: Rank::ZERO,
            homes: None,
        }
    };
    let place = Place::new(Rank(11), transaction.id);
    let mut gathered = BTreeMap::new();
    let mut steps = 0;
    for partition in PARTITIONS {
        let values = loop {
            steps += 1;
            if let Some(values) = data.gather_some(partition, &transaction) {
                break values;
            }
        };
        gathered.insert(partition, values);
    }
    assert!(steps > 10, "{steps} steps");
    // At every moment a copy has the rows from before, until the transaction is applied at both partitions.
    let copied = |data: &mut Data| {
        data.begin_copy(OTHER, &PARTITIONS);
        let mut rows = 0;
        let mut other = Data::new(pair.topology.clone(), Arc::default(), PARTITIONS.into_iter());
        while let Ok(Some((partition, block))) = data.next_block(OTHER) {
            other.restore(partition, &block);
        }
        data.end_copy(OTHER);
        for partition in PARTITIONS {
            data.begin_rows(partition, OTHER, Rank(10));
            while let Some(RowPiece::Rows(_, some)) = data.more_rows(partition, OTHER, 7) {
                rows += some.len();
            }
        }
        assert_eq!(other.row_count(T) as usize, rows);
        rows
    };
    let mut steps = 0;
    for partition in PARTITIONS {
        loop {
            assert_eq!(copied(&mut data), before, "after {steps} steps");
            steps += 1;
            if data.apply_some(partition, &transaction, place, &gathered).is_some() {
                break;
            }
        }
    }
    assert!(steps > 10, "{steps} steps");
    assert_eq!(copied(&mut data), 100);
    assert_eq!(data.take_written().len(), 2, "noted once at each partition");
}

#[test]
fn a_transaction_is_evaluated_where_all_of_its_participants_are() {
    let mut pair = Pair::new();
    let topology = pair.topology.clone();
    let mut half = Data::new(topology, Arc::default(), [PARTITIONS[0]].into_iter());
    let transaction = pair.transaction(TxnProgram::Statements(Vec::new()));
    let refused = half.evaluate(&transaction, Rank(1)).unwrap_err();
    assert!(refused.message.contains("where there is a copy of"), "{refused}");
}

fn topology_of(regions: &[&str]) -> Arc<Topology> {
    let topology = Topology::one_node_per_region(Wan::uniform("test", regions, 1, 1), 1).replicated();
    Arc::new(Topology { spread_over: 2, ..topology })
}

/// All that a node of a cluster of two regions has, with a table like this that holds these rows, each where it belongs;
/// as it is when a third region has joined.
fn grown(table: Table, rows: &[(i64, &str)]) -> Result<Data, Unreadable> {
    let (before, after) = (topology_of(&["us", "eu"]), topology_of(&["us", "eu", "ap"]));
    let mut data = Data::new(before.clone(), Arc::default(), before.copies_at(NodeId(0)));
    let mut sequence = 0;
    let mut run = |data: &mut Data, program: TxnProgram, partitions: Vec<PartitionId>| {
        sequence += 1;
        let mut access = AccessSet::default();
        partitions.iter().for_each(|p| access.add(*p, Granule::Partition, AccessMode::Write));
        let transaction = Transaction {
            id: TxnId { coordinator: NodeId(0), incarnation: 1, sequence },
            program: Arc::new(program),
            access: Arc::new(access),
            min_rank: Rank::ZERO,
            after: Rank::ZERO,
            homes: None,
        };
        let place = Place::new(Rank(sequence), transaction.id);
        let gathered: BTreeMap<PartitionId, Gathered> =
            partitions.iter().map(|p| (*p, data.gather(*p, &transaction))).collect();
        partitions.iter().for_each(|p| _ = data.apply(*p, &transaction, place, &gathered));
    };
    let create = SchemaChange {
        database: Default::default(),
        base_version: 0,
        actions: vec![SchemaAction::CreateTable(table.clone())],
    };
    run(&mut data, TxnProgram::Schema(create), before.partition_ids().collect());
    for (id, name) in rows {
        let values = [Datum::Int(*id), Datum::Int(1), Datum::text(*name)];
        let at = match table.locate_row(&values, &before) {
            Location::One(partition) => vec![partition],
            Location::Everywhere => before.partition_ids().collect(),
        };
        let version = data.catalog().table(T).expect("created").version;
        let row = Row::of(&values);
        let (rows, on_conflict) = (vec![row], OnConflict::Fail);
        let insert =
            Statement::Insert { table: T, schema_version: version, rows, on_conflict, returning: None };
        run(&mut data, TxnProgram::Statements(vec![insert]), at);
    }
    // As a restart takes it.
    let mut next = Data::new(after.clone(), Arc::default(), after.copies_at(NodeId(0)));
    data.begin_copy(OTHER, &before.partition_ids().collect::<Vec<_>>());
    while let Ok(Some((partition, block))) = data.next_block(OTHER) {
        next.restore(partition, &block);
    }
    next.extend(&before, &after).map(|()| next)
}

#[test]
fn a_new_partition_begins_with_the_catalog_and_what_every_partition_has() {
    let new = PartitionId(2);
    let everywhere = Table { placement: Placement::Replicated, ..table() };
    let data = grown(everywhere, &[(1, "a"), (2, "b")]).unwrap();
    assert!(data.store(new).catalog().table(T).is_some());
    for id in [1, 2] {
        assert!(data.has_row(new, T, &Key::of(&[Datum::Int(id)])), "row {id}");
    }
    let spread = grown(table(), &[(1, "a"), (2, "b"), (3, "c")]).unwrap();
    assert_eq!(spread.store(new).row_count(T), 0, "rows stay where they are");
    assert_eq!(spread.row_count(T), 3);
}

#[test]
fn rows_that_name_the_new_region_keep_it_out() {
    let named = Table {
        primary_key: vec![2, 0],
        placement: Placement::HomeBy { column: 2, regions: RegionMap::Name },
        ..table()
    };
    assert!(grown(named.clone(), &[(1, "us"), (2, "mars")]).is_ok());
    let why = grown(named, &[(1, "us"), (2, "ap")]).err().expect("it would be elsewhere").0;
    assert!(why.contains("rows of table t with name = 'ap'"), "{why}");
}

/// `meridian cluster join` looks for them too; they may be inserted while the nodes stop.
#[test]
fn rows_that_name_a_new_region_keep_it_out() {
    let of = |names: &[&str]| Topology {
        spread_over: 2,
        ..Topology::one_node_per_region(Wan::uniform("test", names, 1, 1), 1)
    };
    let (before, after) = (of(&["us", "eu"]), of(&["us", "eu", "ap"]));
    let mut table = table();
    table.columns[0].data_type = DataType::Text;
    table.placement = Placement::HomeBy { column: 0, regions: RegionMap::Name };
    let change = SchemaChange {
        database: Default::default(),
        base_version: 0,
        actions: vec![SchemaAction::CreateTable(table)],
    };
    let mut numbered = Pair::new();
    let mut data = Data::new(Arc::new(before.clone()), Arc::default(), PARTITIONS.into_iter());
    let mut run = |data: &mut Data, program, rank| {
        let transaction = numbered.transaction(program);
        execute(data, &transaction, Place::new(Rank(rank), transaction.id)).expect("nothing is in its way");
    };
    run(&mut data, TxnProgram::Schema(change), 1);
    for (rank, region) in [(2, "us"), (3, "mars"), (4, "ap")] {
        data.extend(&before, &after).expect("no row names the new region");
        let insert = Statement::Insert {
            table: T,
            schema_version: data.catalog().table(T).expect("created").version,
            rows: vec![Row::of(&[Datum::text(region), Datum::Int(1), Datum::Null])],
            on_conflict: OnConflict::Fail,
            returning: None,
        };
        run(&mut data, TxnProgram::Statements(vec![insert]), rank);
    }
    let refused = data.extend(&before, &after).unwrap_err().to_string();
    assert!(refused.contains("rows of table t with id = 'ap' would belong to the new region"), "{refused}");
}

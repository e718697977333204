//! Procedures over the store: exchange between partitions, and what happens outside the declared set.

use crate::support::*;
use base::commit::Change;
use base::error::SqlResult;
use base::key::KeyRange;
use base::schema::*;
use base::topology::Topology;
use base::txn::procedure::*;
use base::txn::*;
use base::*;

const T: TableId = TableId(1);

/// `move_c(from a, to a, touches)`: moves c of row (from, 1) to row (to, 1), which may live elsewhere, in
/// several writes. `touches` asks for a mistake.
struct MoveC;

const HONEST: i64 = 0;
const READS_MORE: i64 = 1;
const WRITES_MORE: i64 = 2;
const SCANS_MORE: i64 = 3;
const PANICS: i64 = 4;

fn home(table: &Table, a: &Datum, topology: &Topology) -> PartitionId {
    match table.locate(a, topology) {
        Location::One(partition) => partition,
        Location::Everywhere => panic!("not replicated"),
    }
}

impl Procedure for MoveC {
    fn name(&self) -> &'static str {
        "move_c"
    }
    fn arguments(&self) -> Vec<(&'static str, DataType)> {
        vec![("from", DataType::BigInt), ("to", DataType::BigInt), ("touches", DataType::BigInt)]
    }
    fn columns(&self) -> Vec<(&'static str, DataType)> {
        vec![("c", DataType::BigInt)]
    }
    fn declare(&self, args: &[Datum], catalog: &Catalog, topology: &Topology) -> SqlResult<AccessSet> {
        let mut access = AccessSet::default();
        for a in &args[..2] {
            access.write_key(home(catalog.require("t")?, a, topology), T, key(&[a.int(), 1]));
        }
        access.normalize();
        Ok(access)
    }
    fn gather(
        &self,
        args: &[Datum],
        context: &ProcedureContext<'_>,
        rows: &dyn RowView,
    ) -> SqlResult<Vec<Datum>> {
        match args[2].int() {
            READS_MORE => _ = rows.get(T, &key(&[99, 1])),
            SCANS_MORE => rows.scan(T, &KeyRange::all(), false, &mut |_, _| true),
            PANICS => panic!("a defect"),
            _ => {}
        }
        if home(context.catalog.require("t")?, &args[0], context.topology) != context.partition {
            return Ok(vec![]);
        }
        let row = rows.get(T, &key(&[args[0].int(), 1]));
        let row = row.ok_or_else(|| SqlError::new(SqlState::NO_DATA, "nothing to move"))?;
        Ok(vec![row.get(2)])
    }
    fn apply(
        &self,
        args: &[Datum],
        context: &ProcedureContext<'_>,
        exchange: &Exchange,
        rows: &mut dyn RowAccess,
    ) -> Vec<Row> {
        let table = context.catalog.require("t").unwrap();
        let here = |a: &Datum| home(table, a, context.topology) == context.partition;
        let c = exchange.values().flatten().next().expect("the giver gathered it").int();
        if here(&args[0]) {
            rows.delete(T, &key(&[args[0].int(), 1]));
        }
        if args[2].int() == WRITES_MORE {
            rows.delete(T, &key(&[99, 1]));
        }
        if here(&args[1]) {
            let to = key(&[args[1].int(), 1]);
            for value in [c - 1, c] {
                rows.put(T, to.clone(), Row::of(&[args[1].clone(), int(1), int(value), Datum::Null]));
                assert_eq!(rows.get(T, &to).expect("own write").get(2), int(value));
            }
            return vec![Row::of(&[int(c)])];
        }
        vec![]
    }
}

/// `sum_c(a, touches)`: sums c of the rows (a, _).
struct SumC;

impl Procedure for SumC {
    fn name(&self) -> &'static str {
        "sum_c"
    }
    fn arguments(&self) -> Vec<(&'static str, DataType)> {
        vec![("a", DataType::BigInt), ("touches", DataType::BigInt)]
    }
    fn columns(&self) -> Vec<(&'static str, DataType)> {
        vec![("sum", DataType::BigInt)]
    }
    fn declare(&self, args: &[Datum], catalog: &Catalog, topology: &Topology) -> SqlResult<AccessSet> {
        let mut access = AccessSet::default();
        let range = Granule::Range(T, KeyRange::prefix(key(&[args[0].int()])));
        access.add(home(catalog.require("t")?, &args[0], topology), range, AccessMode::Read);
        Ok(access)
    }
    fn gather(&self, args: &[Datum], _: &ProcedureContext<'_>, rows: &dyn RowView) -> SqlResult<Vec<Datum>> {
        let mut sum = 0;
        rows.scan(T, &KeyRange::prefix(key(&[args[0].int()])), false, &mut |key, row| {
            assert_eq!(rows.get(T, key).as_ref(), Some(row));
            sum += row.get(2).int();
            true
        });
        match args[1].int() {
            READS_MORE => _ = rows.get(T, &key(&[99, 1])),
            PANICS => panic!("a defect"),
            _ => {}
        }
        Ok(vec![int(sum)])
    }
    fn apply(
        &self,
        args: &[Datum],
        context: &ProcedureContext<'_>,
        exchange: &Exchange,
        rows: &mut dyn RowAccess,
    ) -> Vec<Row> {
        if args[1].int() == WRITES_MORE {
            rows.delete(T, &key(&[args[0].int(), 1]));
        }
        vec![Row::of(&exchange[&context.partition])]
    }
}

fn world() -> World {
    let mut procedures = Procedures::default();
    procedures.register(MoveC);
    procedures.register(SumC);
    let mut world = World::with_procedures(4, procedures);
    world.schema(vec![SchemaAction::CreateTable(table(1, "t"))]).unwrap();
    world.insert(T, &[&[int(1), int(1), int(77), Datum::Null]]).unwrap();
    world
}
fn call(world: &mut World, from: i64, to: i64, touches: i64) -> Outcome {
    let args = vec![int(from), int(to), int(touches)];
    let access = MoveC.declare(&args, &world.catalog(), &world.topology).unwrap();
    world.run_declared(TxnProgram::Procedure { name: "move_c".into(), args }, access)
}

#[test]
fn values_gathered_at_one_partition_are_written_at_another() {
    let mut w = world();
    for a in 1..10 {
        let before = w.now();
        let Outcome::Committed { results } = call(&mut w, a, a + 1, HONEST) else { panic!("aborted") };
        assert_eq!(results[0].rows, [Row::of(&[int(77)])]);
        assert_eq!(w.rows(T), [[int(a + 1), int(1), int(77), Datum::Null]]);
        assert_eq!(w.rows_at(T, before).len(), 1);
        w.check();
    }
    let Outcome::Aborted(e) = call(&mut w, 1, 2, HONEST) else { panic!("moved nothing") };
    assert_eq!(e.state, SqlState::NO_DATA);
}

#[test]
fn a_row_written_twice_is_one_write_of_the_record() {
    let mut w = world();
    let args = vec![int(1), int(1), int(HONEST)];
    let access = MoveC.declare(&args, &w.catalog(), &w.topology).unwrap();
    let home = w.home(T, &[int(1)]);
    w.rank += 10;
    let transaction = w.transaction(TxnProgram::Procedure { name: "move_c".into(), args }, access);
    let place = Place::new(Rank(w.rank), transaction.id);
    let (_, applied) = w.stores[home.0 as usize].execute(&transaction, place);
    let expected = Row::of(&[int(1), int(1), int(77), Datum::Null]);
    assert_eq!(applied.writes.len(), 1, "{:?}", applied.writes);
    // Deleted first: what it was is forgotten.
    assert_eq!(applied.writes[0].change, Change::Put(expected));
    w.check();
}

#[test]
fn reading_outside_the_declared_set_aborts() {
    for touches in [READS_MORE, SCANS_MORE] {
        let mut w = world();
        let before = w.rows(T);
        let Outcome::Aborted(e) = call(&mut w, 1, 2, touches) else { panic!("it was let through") };
        assert!(e.message.contains("outside its declared set"), "{e}");
        assert_eq!(w.rows(T), before);
    }
}

#[test]
fn a_panic_aborts_its_transaction_and_nothing_else() {
    let mut w = world();
    let before = w.rows(T);
    let Outcome::Aborted(told) = call(&mut w, 1, 2, PANICS) else { panic!("it was let through") };
    assert_eq!(told.state, SqlState::INTERNAL_ERROR);
    assert!(told.detail.as_deref().is_some_and(|detail| detail.contains("rolled back everywhere")), "{told}");
    assert_eq!(w.rows(T), before);
    w.check();
    assert!(call(&mut w, 1, 2, HONEST).is_committed());
    let home = w.home(T, &[int(2)]);
    let args = vec![int(2), int(PANICS)];
    let access = SumC.declare(&args, &w.catalog(), &w.topology).unwrap();
    let told = w.stores[home.0 as usize].call_at(w.now(), "sum_c", &args, access.at(home)).unwrap_err();
    assert_eq!((told.state, told.detail.as_deref()), (SqlState::INTERNAL_ERROR, None));
}

#[test]
#[should_panic(expected = "outside its declared set")]
fn writing_outside_the_declared_set_is_a_defect() {
    call(&mut world(), 1, 2, WRITES_MORE);
}

#[test]
fn a_call_that_only_reads_reads_the_cut_and_leaves_it_as_it_is() {
    let mut w = world();
    let home = w.home(T, &[int(1)]);
    let call = |w: &World, cut: Rank, touches: i64| {
        let args = vec![int(1), int(touches)];
        let access = SumC.declare(&args, &w.catalog(), &w.topology).unwrap();
        w.stores[home.0 as usize].call_at(cut, "sum_c", &args, access.at(home))
    };
    let before = w.now();
    w.insert(T, &[&[int(1), int(2), int(5), Datum::Null]]).unwrap();
    let after = w.now();
    assert_eq!(call(&w, before, HONEST).unwrap(), [Row::of(&[int(77)])]);
    assert_eq!(call(&w, after, HONEST).unwrap(), [Row::of(&[int(82)])]);
    for touches in [READS_MORE, WRITES_MORE] {
        let error = call(&w, after, touches).unwrap_err();
        assert!(error.message.contains("outside its declared set"), "{error}");
    }
    assert_eq!(w.rows_at(T, after).len(), 2);
    let access = [Access { granule: Granule::Partition, mode: AccessMode::Write }];
    let error = w.stores[home.0 as usize].call_at(after, "sum_c", &[int(1), int(HONEST)], &access);
    assert!(error.unwrap_err().message.contains("needs a place"));
}

#[test]
fn an_unknown_procedure_aborts() {
    let mut w = world();
    let Outcome::Aborted(e) = w.run(TxnProgram::Procedure { name: "nobody".into(), args: vec![] }) else {
        panic!("it ran")
    };
    assert_eq!(e.state, SqlState::UNDEFINED_FUNCTION);
}

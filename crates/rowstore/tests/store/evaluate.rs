//! Evaluation at a rank that is not the newest, and what keeps a write set from being installed. That evaluating and
//! installing does what executing does is asked of every transaction of the other tests (`support`).

use crate::support::*;
use base::key::KeyRange;
use base::schema::*;
use base::txn::*;
use base::write_set::WriteSet;
use base::*;
use std::collections::BTreeMap;

const T: TableId = TableId(1);
const P: PartitionId = PartitionId(0);

fn add_one(world: &mut World) -> Transaction {
    let set = vec![(2, plus(2, 1))];
    let (table, schema_version, target) = (T, world.version(T), KeyRange::all());
    let update = Statement::Update { table, schema_version, target, filter: None, set, returning: None };
    let access = world.everything();
    world.transaction(TxnProgram::Statements(vec![update]), access)
}

fn evaluate(world: &World, transaction: &Transaction, at: Rank) -> Result<rowstore::EvaluatedHere, SqlError> {
    let begun = world.stores[0].begin_evaluation(transaction, at)?;
    let exchange = [(P, begun.values.clone())].into();
    world.stores[0].finish_evaluation(transaction, at, begun, &exchange)
}

#[test]
fn a_transaction_is_evaluated_over_rows_as_of_its_rank_and_writes_nothing() {
    let mut w = World::new(1).without_twins();
    w.schema(vec![SchemaAction::CreateTable(table(1, "t"))]).unwrap();
    w.insert(T, &[&[int(1), int(1), int(10), Datum::text("x")]]).unwrap();
    let before = w.now();
    w.update(T, KeyRange::all(), vec![(2, plus(2, 100))]).unwrap();
    let (rows, transaction) = (w.rows(T), add_one(&mut w));
    for (at, expected) in [(before, 11), (w.now(), 111)] {
        let here = evaluate(&w, &transaction, at).unwrap();
        let [state] = &here.writes.rows[..] else { panic!("{here:?}") };
        assert_eq!(state.row.as_ref().unwrap().get(2), int(expected), "at {at}");
        assert!(
            here.reads.iter().any(|read| read.table == T && read.range == KeyRange::all() && read.at == at)
        );
        assert_eq!(here.writes.items().collect::<Vec<_>>(), [(T, &key(&[1, 1]))]);
    }
    assert_eq!(w.rows(T), rows);
}

#[test]
fn a_table_that_has_changed_its_description_makes_a_transaction_retry_and_installs_nothing() {
    let mut w = World::new(1).without_twins();
    w.schema(vec![SchemaAction::CreateTable(table(1, "t"))]).unwrap();
    w.insert(T, &[&[int(1), int(1), int(10), Datum::text("x")]]).unwrap();
    let (at, transaction) = (w.now(), add_one(&mut w));
    let writes: BTreeMap<PartitionId, WriteSet> =
        [(P, evaluate(&w, &transaction, at).unwrap().writes)].into();
    let mut altered = Table::clone(&w.table("t"));
    altered.columns.push(column("e", DataType::BigInt, false));
    w.schema(vec![SchemaAction::AlterTable(altered)]).unwrap();
    let rows = w.rows(T);
    let refused = evaluate(&w, &transaction, at).unwrap_err();
    assert_eq!(refused.state, SqlState::SERIALIZATION_FAILURE, "{refused:?}");
    let place = Place::new(w.now() + 10, transaction.id);
    let refused = w.stores[0].install_writes(place, &writes).unwrap_err();
    assert_eq!(refused.state, SqlState::SERIALIZATION_FAILURE, "{refused:?}");
    assert_eq!(w.rows(T), rows);
}

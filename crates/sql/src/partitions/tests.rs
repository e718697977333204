//! Conditions of partitions of a table `t (a, b, c)`, whose partitions have the ids from 10 on.

use super::*;
use base::partitioning::Strategy;
use base::views::CheckOption;

fn keys(strategy: Strategy, columns: &[usize]) -> Option<Arc<Partitioning>> {
    let keys = columns.iter().map(|column| PartitionKey::Column(*column)).collect();
    Some(Arc::new(Partitioning { strategy, keys }))
}

fn table(divides: Option<Arc<Partitioning>>) -> Table {
    let columns = [("a", DataType::Integer), ("b", DataType::Integer), ("c", DataType::Text)];
    let columns = columns.map(|(name, data_type)| (name.to_string(), data_type)).to_vec();
    let shape = View::shape(TableId(1), "public".into(), "t".into(), columns);
    Table { partitioning: divides, ..shape }
}

fn part(id: u32, parent: u32, bound: Bound, divides: Option<Arc<Partitioning>>) -> View {
    let shape = View::shape(TableId(id), "public".into(), format!("p{id}"), Vec::new());
    View {
        shape: Arc::new(Table { partitioning: divides, ..shape }),
        type_oids: Vec::new(),
        definition: String::new(),
        uses: Default::default(),
        check_option: CheckOption::Cascaded,
        partition: Some(Partition { parent: TableId(parent), bound }),
        security: Default::default(),
    }
}

fn at(value: i64) -> Limit {
    Limit::At(Datum::Int(value))
}

fn range(from: &[Limit], to: &[Limit]) -> Bound {
    Bound::Range { from: from.to_vec(), to: to.to_vec() }
}

fn list(values: &[Datum]) -> Bound {
    Bound::List(values.to_vec())
}

#[test]
fn ranges_that_touch_are_compared_with_once() {
    let table = table(keys(Strategy::Range, &[0]));
    let views = [
        part(10, 1, range(&[at(10)], &[at(20)]), None),
        part(11, 1, range(&[Limit::Min], &[at(10)]), None),
        part(12, 1, range(&[at(30)], &[Limit::Max]), None),
    ];
    let tree = Tree::of(&table, views.iter());
    assert_eq!(tree.condition(TableId(10)), "(a IS NOT NULL AND a >= 10 AND a < 20)");
    assert_eq!(tree.taken().unwrap(), "(a IS NOT NULL AND a < 20) OR (a IS NOT NULL AND a >= 30)");
    assert_eq!(Tree::of(&table, std::iter::empty()).taken().unwrap(), "false");
}

#[test]
fn a_default_partition_has_what_is_left() {
    let table = table(keys(Strategy::List, &[2]));
    let views = [
        part(10, 1, list(&[Datum::text("it's"), Datum::Null]), None),
        part(11, 1, list(&[Datum::text("x")]), None),
        part(12, 1, Bound::Default, None),
    ];
    let tree = Tree::of(&table, views.iter());
    assert_eq!(tree.taken(), None);
    assert_eq!(tree.condition(TableId(10)), "(c IS NULL OR c IN ('it''s'))");
    assert_eq!(tree.condition(TableId(12)), "(NOT ((c IS NULL OR c IN ('it''s', 'x'))))");
}

#[test]
fn keys_are_compared_from_the_first_one_on() {
    let table = table(keys(Strategy::Range, &[0, 1]));
    let views = [part(10, 1, range(&[at(1), at(5)], &[at(2), Limit::Max]), None)];
    assert_eq!(
        Tree::of(&table, views.iter()).condition(TableId(10)),
        "(a IS NOT NULL AND b IS NOT NULL AND (a > 1 OR (a = 1 AND b >= 5)) AND a <= 2)"
    );
}

#[test]
fn a_divided_partition_takes_in_what_its_own_do() {
    let table = table(keys(Strategy::Range, &[0]));
    let views = [
        part(10, 1, range(&[at(0)], &[at(9)]), keys(Strategy::List, &[2])),
        part(11, 10, list(&[Datum::text("x")]), None),
        part(12, 1, Bound::Default, None),
    ];
    let tree = Tree::of(&table, views.iter());
    let (outer, inner) = ("(a IS NOT NULL AND a >= 0 AND a < 9)", "(c IS NOT NULL AND c IN ('x'))");
    assert_eq!(tree.condition(TableId(11)), format!("{outer} AND {inner}"));
    assert_eq!(tree.taken().unwrap(), format!("(NOT ({outer})) OR ({outer} AND ({inner}))"));
}

#[test]
fn all_remainders_take_in_every_row() {
    let table = table(keys(Strategy::Hash, &[0, 2]));
    let hash = |id, modulus, remainder| part(id, 1, Bound::Hash { modulus, remainder }, None);
    let views = [hash(10, 2, 0), hash(11, 4, 1), hash(12, 4, 3)];
    assert_eq!(Tree::of(&table, views.iter()).taken(), None);
    let tree = Tree::of(&table, views[..2].iter());
    assert_eq!(tree.condition(TableId(11)), "(meridian_hash_partition(4, 1, a, c))");
    assert_eq!(
        tree.taken().unwrap(),
        "(meridian_hash_partition(2, 0, a, c)) OR (meridian_hash_partition(4, 1, a, c))"
    );
    let parent = crate::lower::oid(TableId(1));
    assert_eq!(
        tree.shown_condition(TableId(10)),
        format!("satisfies_hash_partition('{parent}'::oid, 2, 0, a, c)")
    );
}

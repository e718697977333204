//! A transaction's declared access set at one partition, as a question: may it touch this?

use base::error::{SqlError, SqlState};
use base::key::KeyRange;
use base::schema::Catalog;
use base::txn::{Access, AccessMode, Granule};
use base::{Key, TableId};
use std::borrow::Cow;

/// How a set's granules are sorted, kept between steps: to find out takes a look at all of them.
pub(crate) enum Order {
    /// As they were declared: so many keys, then the rest.
    Declared(usize),
    Copied(Vec<Access>, Vec<Access>),
}

/// Granules in order: keys, then ranges, then the whole partition.
pub(crate) struct Declared<'a> {
    keys: Cow<'a, [Access]>,
    /// Ranges, and the partition if it is there.
    wide: Cow<'a, [Access]>,
}

impl<'a> Declared<'a> {
    pub fn new(accesses: &'a [Access]) -> Declared<'a> {
        let is_key = |a: &Access| matches!(a.granule, Granule::Key(..));
        if accesses.is_sorted() {
            let (keys, wide) = accesses.split_at(accesses.partition_point(is_key));
            return Declared { keys: Cow::Borrowed(keys), wide: Cow::Borrowed(wide) };
        }
        let mut sorted = accesses.to_vec();
        sorted.sort_unstable();
        let wide = sorted.split_off(sorted.partition_point(is_key));
        Declared { keys: Cow::Owned(sorted), wide: Cow::Owned(wide) }
    }

    /// The same set, sorted before.
    pub fn ordered(accesses: &'a [Access], order: Order) -> Declared<'a> {
        match order {
            Order::Declared(keys) => {
                let (keys, wide) = accesses.split_at(keys);
                Declared { keys: Cow::Borrowed(keys), wide: Cow::Borrowed(wide) }
            }
            Order::Copied(keys, wide) => Declared { keys: Cow::Owned(keys), wide: Cow::Owned(wide) },
        }
    }
    pub fn into_order(self) -> Order {
        match (self.keys, self.wide) {
            (Cow::Owned(keys), Cow::Owned(wide)) => Order::Copied(keys, wide),
            (keys, _) => Order::Declared(keys.len()),
        }
    }

    /// Whether a row or an index entry may be touched.
    pub fn has_key(&self, table: TableId, key: &Key, mode: AccessMode) -> bool {
        let from = self.keys.partition_point(|a| match &a.granule {
            Granule::Key(t, k) => (*t, k) < (table, key),
            _ => unreachable!("only keys"),
        });
        let exactly = |a: &&Access| matches!(&a.granule, Granule::Key(t, k) if *t == table && k == key);
        self.keys[from..].iter().take_while(exactly).any(|a| a.mode >= mode)
            || self.wide.iter().any(|a| {
                a.mode >= mode
                    && match &a.granule {
                        Granule::Range(t, range) => *t == table && range.contains(key),
                        Granule::Partition => true,
                        Granule::Key(..) => false,
                    }
            })
    }

    /// Whether everything in a range may be touched.
    pub fn has_range(&self, table: TableId, range: &KeyRange, mode: AccessMode) -> bool {
        if let Some(key) = range.as_point() {
            return self.has_key(table, key, mode);
        }
        self.wide.iter().any(|a| {
            a.mode >= mode
                && match &a.granule {
                    Granule::Range(t, declared) => *t == table && covers(declared, range),
                    Granule::Partition => true,
                    Granule::Key(..) => false,
                }
        })
    }

    /// Whether something in a range may be touched: otherwise a statement has nothing to do here.
    pub fn overlaps(&self, table: TableId, range: &KeyRange) -> bool {
        if let Some(key) = range.as_point() {
            return self.has_key(table, key, AccessMode::Read);
        }
        let wanted = Granule::Range(table, range.clone());
        self.wide.iter().chain(self.keys.iter()).any(|a| a.granule.overlaps(&wanted))
    }
}

fn covers(outer: &KeyRange, inner: &KeyRange) -> bool {
    let high = match (&outer.high, &inner.high) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(outer), Some(inner)) => inner <= outer,
    };
    inner.is_empty() || (outer.low <= inner.low && high)
}

/// Whether any of these granules lies in a table.
pub(crate) fn mentions(accesses: &[Access], table: TableId) -> bool {
    accesses.iter().any(|a| match &a.granule {
        Granule::Key(t, _) | Granule::Range(t, _) => *t == table,
        Granule::Partition => true,
    })
}

/// Name of a table or index, for messages.
pub(crate) fn name_of(catalog: &Catalog, id: TableId) -> String {
    match (catalog.table(id), catalog.index(id)) {
        (Some(table), _) => format!("table \"{}\"", table.name),
        (None, Some((table, index))) => format!("index \"{}\" of table \"{}\"", index.name, table.name),
        (None, None) => format!("table {id}"),
    }
}

/// A range was read that was not declared: a defect of the gateway that planned the transaction.
pub(crate) fn undeclared_range(catalog: &Catalog, id: TableId) -> SqlError {
    SqlError::internal(format!(
        "the transaction touches a range of {} outside its declared set",
        name_of(catalog, id)
    ))
}

/// A row or entry turned out to be touched that was not declared: found at another place than when
/// the transaction was planned.
pub(crate) fn undeclared_key(catalog: &Catalog, id: TableId, key: &Key) -> SqlError {
    SqlError::new(SqlState::SERIALIZATION_FAILURE, "could not serialize access due to concurrent update")
        .detail(format!(
            "The transaction touches key {key:?} of {} outside its declared set.",
            name_of(catalog, id)
        ))
        .hint("Retry the transaction.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Datum;
    use base::txn::AccessMode::{Read, Write};

    #[test]
    fn a_key_is_declared_by_itself_its_range_or_its_partition() {
        let key = |n| Key::of(&[Datum::Int(n)]);
        let t = TableId(1);
        let range = KeyRange { low: key(10), high: Some(key(20)) };
        let accesses = [
            Access { granule: Granule::Range(t, range.clone()), mode: Read },
            Access { granule: Granule::Key(t, key(15)), mode: Write },
            Access { granule: Granule::Key(t, key(3)), mode: Read },
        ];
        let declared = Declared::new(&accesses);
        assert!(declared.has_key(t, &key(3), Read) && !declared.has_key(t, &key(3), Write));
        assert!(declared.has_key(t, &key(12), Read) && !declared.has_key(t, &key(12), Write));
        assert!(declared.has_key(t, &key(15), Write));
        assert!(!declared.has_key(TableId(2), &key(3), Read) && !declared.has_key(t, &key(20), Read));
        assert!(declared.has_range(t, &range, Read) && !declared.has_range(t, &range, Write));
        assert!(declared.has_range(t, &KeyRange::point(key(15)), Write));
        assert!(!declared.has_range(t, &KeyRange { low: key(10), high: None }, Read));
        assert!(declared.overlaps(t, &KeyRange { low: key(2), high: Some(key(4)) }));
        assert!(!declared.overlaps(t, &KeyRange { low: key(4), high: Some(key(10)) }));
        let all = [Access { granule: Granule::Partition, mode: Write }];
        assert!(Declared::new(&all).has_range(t, &KeyRange::all(), Write));
    }
}

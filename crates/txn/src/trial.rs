//! What the engines' tests share: a world of nodes and links, access sets from text, rows that remember who did what when,
//! and a way to see that what is planted is noticed.

pub mod world;

pub mod disk;

pub mod executor;

pub mod load;

pub mod explore;

use base::txn::{Access, AccessMode, AccessSet, Granule};
use base::{Datum, Key, PartitionId, TableId};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

pub const TABLE: TableId = TableId(1);
/// The table of keys from 100 on.
pub const OTHER: TableId = TableId(2);

/// The table that a key of the test universe belongs to.
pub fn table(key: i64) -> TableId {
    if key < 100 { TABLE } else { OTHER }
}

pub fn key(n: i64) -> Key {
    Key::of(&[Datum::Int(n)])
}

/// `"r0.5 w1.7 w1.10-19 w2"`: reads key 5 at partition 0, writes key 7 at 1, keys 10 to 19, all of 2.
/// Keys from 100 on are of another table.
pub fn access(text: &str) -> AccessSet {
    let mut set = AccessSet::default();
    for word in text.split_whitespace() {
        let mode = if word.starts_with('w') { AccessMode::Write } else { AccessMode::Read };
        let (partition, what) = word[1..].split_once('.').unwrap_or((&word[1..], ""));
        let granule = match what.split_once('-') {
            None if what.is_empty() => Granule::Partition,
            None => {
                let n = what.parse().unwrap();
                Granule::Key(table(n), key(n))
            }
            Some((low, high)) => {
                let (low, high): (i64, i64) = (low.parse().unwrap(), high.parse().unwrap());
                let range = base::key::KeyRange { low: key(low), high: Some(key(high + 1)) };
                Granule::Range(table(low), range)
            }
        };
        set.add(PartitionId(partition.parse().unwrap()), granule, mode);
    }
    set.normalize();
    set
}

/// Keys of the test universe that a granule covers.
pub fn covered(granule: &Granule) -> impl Iterator<Item = i64> + '_ {
    (0..20).chain(100..120).filter(|n| granule.overlaps(&Granule::Key(table(*n), key(*n))))
}

pub fn conflict(a: &[Access], b: &[Access]) -> bool {
    a.iter().any(|x| {
        b.iter().any(|y| {
            (x.mode == AccessMode::Write || y.mode == AccessMode::Write) && x.granule.overlaps(&y.granule)
        })
    })
}

/// Whether it panics, as something that is planted should; says nothing of it.
pub fn panics(act: impl FnOnce()) -> bool {
    thread_local!(static QUIET: Cell<bool> = const { Cell::new(false) });
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |info| {
            if !QUIET.get() {
                usual(info);
            }
        }));
    });
    QUIET.set(true);
    let result = catch_unwind(AssertUnwindSafe(act));
    QUIET.set(false);
    result.is_err()
}

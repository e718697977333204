//! Garbage collection of versions that no reader can need.
//!
//! IN: a rank at or above which every cut in use, now or ever, lies. OUT: at most `budget` keys visited.
//! KEEPS: no answer at a cut ≥ `collected_below` changes.

use crate::store::{Garbage, GarbageKind, Store};
use base::{Place, Rank, Row};

impl Store {
    /// Refuses cuts below `below` from now on and visits up to `budget` superseded keys. Answers whether
    /// there is more to do; call again, with the same or a later rank.
    ///
    /// Versions are visited in the order in which they were superseded, which is nearly the order of
    /// their ranks: one that lies later than the watermark holds the ones behind it back until the
    /// watermark has passed it.
    pub fn collect(&mut self, below: Rank, budget: usize) -> bool {
        self.collected_below = self.collected_below.max(below);
        let watermark = Place::end_of(self.collected_below);
        for (_, table) in self.dropped.extract_if(.., |(place, _)| *place <= watermark) {
            for (key, slot) in table.rows.iter() {
                for (_, row) in slot.versions() {
                    self.counters.versions -= 1;
                    self.counters.bytes -= (key.len() + row.map_or(0, Row::len)) as u64;
                }
            }
        }
        while self.catalogs.front().is_some_and(|(until, _)| *until <= watermark) {
            self.catalogs.pop_front();
        }
        for _ in 0..budget {
            match self.garbage.front() {
                Some(garbage) if garbage.place <= watermark => {}
                _ => return false,
            }
            let garbage = self.garbage.pop_front().expect("just seen");
            self.visit(garbage, watermark);
        }
        self.garbage.front().is_some_and(|garbage| garbage.place <= watermark)
    }

    /// Whether something can be collected that was not yet.
    pub fn is_collecting(&self) -> bool {
        let watermark = Place::end_of(self.collected_below);
        self.garbage.front().is_some_and(|garbage| garbage.place <= watermark)
    }

    fn visit(&mut self, garbage: Garbage, watermark: Place) {
        // A dropped table takes its garbage along.
        let Some(table) = self.tables.get_mut(&garbage.table) else { return };
        let counters = &mut self.counters;
        match garbage.kind {
            GarbageKind::Row => table.rows.trim(&garbage.key, watermark, |row| {
                counters.versions -= 1;
                counters.bytes -= (garbage.key.len() + row.as_ref().map_or(0, Row::len)) as u64;
            }),
            GarbageKind::Entry(id) => {
                let index = table.indexes.iter_mut().find(|i| i.desc.id == id);
                index.into_iter().for_each(|i| i.entries.trim(&garbage.key, watermark, |_| ()));
            }
            GarbageKind::Home(id) => {
                let index = table.indexes.iter_mut().find(|i| i.desc.id == id);
                index.into_iter().for_each(|i| i.homes.trim(&garbage.key, watermark, |_| ()));
            }
        }
    }
}

//! What a session does next: rows and shelves at random, and the requests that reach them.

use super::super::layout::{Content, Item, Kind, Target, table_of};
use super::super::procedure::AppendAll;
use super::{Part, Plan, Seen, Session};
use base::cut::Consistency;
use base::txn::{Submission, WriteKind};
use base::{NodeId, PartitionId, Rank};
use node::request::OpenSnapshot;
use std::collections::{BTreeMap, BTreeSet};

impl Session {
    /// Whether it shares what it has seen with other sessions, this time.
    pub(super) fn shares(&mut self) -> bool {
        self.rng.chance(self.habits.share)
    }

    pub(super) fn item(&mut self, kind: Kind) -> Item {
        let shelf = self.shelf();
        Item { kind, shelf, key: self.rng.below(self.layout.keys as u64) as i64 }
    }
    /// A shelf of the first partition, or any.
    fn shelf(&mut self) -> i64 {
        // Without such a habit nothing is drawn for it.
        let is_hot = self.habits.hot > 0.0 && self.rng.chance(self.habits.hot);
        let hot = self.layout.shelves.first().filter(|_| is_hot).map(|(shelf, _)| *shelf);
        hot.unwrap_or_else(|| self.rng.pick(&self.layout.shelves).0)
    }
    /// One to three different rows.
    pub(super) fn items(&mut self, kind: Kind) -> BTreeSet<Item> {
        let count = self.rng.between(1, 3);
        (0..count).map(|_| self.item(kind)).collect()
    }
    pub(super) fn statements(&mut self, reads_too: bool) -> (Plan, Submission) {
        let mut parts: Vec<Part> =
            self.items(Kind::List).into_iter().map(|i| Part::Append(i, self.book.open().fresh())).collect();
        if reads_too {
            if self.rng.chance(0.3) {
                parts.clear();
            }
            parts.extend(self.rows_and_shelves().into_iter().map(Part::Read));
        }
        // Now and then the last statement aborts the whole.
        let fails = !parts.is_empty() && self.rng.chance(0.05);
        if fails {
            parts.push(Part::Doomed);
        }
        self.rng.shuffle(&mut parts);
        let statements = parts.iter().map(|part| match part {
            Part::Append(item, value) => (item.shelf, self.layout.append(item, *value)),
            Part::Read(target) => (target.shelf, self.layout.select(target)),
            Part::Doomed => {
                let (shelf, _) = self.layout.shelves[0];
                let taken = Item { kind: Kind::List, shelf, key: 0 };
                (shelf, self.layout.insert(&taken, &Content::List(Vec::new())))
            }
        });
        let submission = self.layout.one_shot(statements.collect(), self.token.clone());
        (Plan::Statements { parts, fails }, submission)
    }
    pub(super) fn procedure(&mut self) -> (Plan, Submission) {
        let targets: Vec<Target> = self.items(Kind::List).into_iter().map(Target::row).collect();
        let value = self.book.open().fresh();
        let longest = if self.rng.chance(0.1) { 3 } else { usize::MAX >> 1 };
        let submission = AppendAll::call(&self.layout, &targets, value, longest, self.token.clone());
        (Plan::Procedure { targets, value }, submission)
    }
    /// One to three shelves of registers, with or without their lists: what a query reads.
    pub(super) fn shelves(&mut self) -> Vec<Target> {
        self.choose_analyst();
        let anywhere = self.habits.anywhere > 0.0 && self.rng.chance(self.habits.anywhere);
        let shelves = self.layout.shelves.iter().map(|s| s.0);
        let kept: Vec<i64> = shelves.filter(|s| anywhere || self.is_kept(*s)).collect();
        let mut targets = BTreeSet::new();
        for _ in 0..self.rng.between(1, 3) {
            let hot = if self.habits.hot > 0.0 { Some(self.shelf()) } else { None };
            let shelf = hot.filter(|shelf| kept.contains(shelf)).unwrap_or_else(|| *self.rng.pick(&kept));
            targets.insert(Target::shelf(*self.rng.pick(&[Kind::List, Kind::Register]), shelf));
        }
        targets.into_iter().collect()
    }
    pub(super) fn rows_and_shelves(&mut self) -> Vec<Target> {
        let mut targets = BTreeSet::new();
        for _ in 0..self.rng.between(1, 3) {
            targets.insert(match self.rng.below(4) {
                0 => Target::shelf(Kind::Register, self.shelf()),
                1 => Target::row(self.item(Kind::List)),
                _ => Target::row(self.item(Kind::Register)),
            });
        }
        targets.into_iter().collect()
    }
    /// A node of this region that keeps columns.
    pub(super) fn choose_analyst(&mut self) {
        let topology = &self.layout.topology;
        let keeps = |n: &NodeId| !topology.nodes[n.0 as usize].subscribes.is_empty();
        let here = |n: &NodeId| topology.region_of(*n) == topology.region_of(self.at);
        let near: Vec<NodeId> = topology.node_ids().filter(|n| keeps(n) && here(n)).collect();
        self.analyst = match keeps(&self.at) && self.rng.chance(0.5) {
            true => self.at,
            false => *self.rng.pick(&near),
        };
    }
    /// Where rows are read.
    pub(super) fn rows_at(&mut self) -> NodeId {
        if self.habits.at_replicas {
            self.choose_analyst();
            return self.analyst;
        }
        self.at
    }
    /// Whether the columns at the chosen node have this shelf.
    pub(super) fn is_kept(&self, shelf: i64) -> bool {
        let subscribes = &self.layout.topology.nodes[self.analyst.0 as usize].subscribes;
        subscribes.contains(&self.layout.partition_of(shelf))
    }
    pub(super) fn open(
        &self,
        at: Option<Rank>,
        consistency: Consistency,
        targets: &[Target],
    ) -> OpenSnapshot {
        let mut tables: BTreeMap<_, BTreeSet<PartitionId>> = BTreeMap::new();
        for target in targets {
            let table = table_of(target.kind);
            tables.entry(table).or_default().insert(self.layout.partition_of(target.shelf));
        }
        OpenSnapshot { at, consistency, token: self.token.clone(), tables, wanted: BTreeMap::new() }
    }

    /// Overwrites some of what was read: each row as it will be, and the value to write down.
    #[allow(clippy::type_complexity)]
    pub(super) fn choose_writes(
        &mut self,
        seen: &[(Target, Seen)],
    ) -> Vec<((Item, Option<Content>, WriteKind), Option<u64>)> {
        let mut writes = BTreeMap::new();
        for (target, rows) in seen {
            // A row that was read and is not there can be inserted.
            let absent = match target.item() {
                Some(item) => Some(item).filter(|_| rows.is_empty()),
                None => {
                    let key = self.rng.below(self.layout.keys as u64) as i64;
                    let item = Item { kind: target.kind, shelf: target.shelf, key };
                    Some(item).filter(|item| rows.iter().all(|(found, _)| found != item))
                }
            };
            let present = (!rows.is_empty()).then(|| self.rng.pick(rows).clone());
            if !writes.is_empty() && self.rng.chance(0.4) {
                continue;
            }
            let value = self.book.open().fresh();
            match (absent, present) {
                (Some(item), other) if other.is_none() || self.rng.chance(0.5) => {
                    let row = (item, Some(Content::Register(value)), WriteKind::Insert);
                    writes.insert(item, (row, Some(value)));
                }
                (_, Some((item, Content::List(mut items)))) => {
                    items.push(value);
                    writes.insert(item, ((item, Some(Content::List(items)), WriteKind::Put), Some(value)));
                }
                (_, Some((item, Content::Register(_)))) => {
                    let deletes = self.rng.chance(0.1);
                    let content = (!deletes).then_some(Content::Register(value));
                    writes.insert(item, ((item, content, WriteKind::Put), (!deletes).then_some(value)));
                }
                (_, None) => {}
            }
        }
        writes.into_values().collect()
    }
}

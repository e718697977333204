//! Plans that are kept for the next time their text comes.
//!
//! IN: a text, and what it was planned with. OUT: its plan, if that is kept. KEEPS: what is kept is reserved in the memory
//! that queries share, and is at most a sixteenth of it; the plans that were used least lately go first, so that a flood of
//! texts that come once forgets none that come again and again. A plan outlives changes of the catalog that concern none
//! of its tables: the names in its text have to mean the same tables, and these have to be as they were. (What else a plan
//! could depend on, such as catalog tables and functions that are not immutable, is not kept or not known by name.)

use super::memory::reserve;
use super::query_plan::QueryPlan;
use base::TableId;
use base::schema::Catalog;
use base::views::Relation;
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};
use datafusion::sql::sqlparser::ast::{ObjectName, Statement};
use sql::names;
use sql::walk;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Database and search path with time zone, and text.
pub(super) type PlanKey = (String, String);

/// Plans kept at most.
const PLANS_MAX: usize = 256;

/// What kept plans may take of the memory that queries share: this part of it.
const PART_OF_MEMORY: usize = 16;

pub struct KeptPlans {
    bytes_max: usize,
    memory: Arc<dyn MemoryPool>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    plans: BTreeMap<PlanKey, Kept>,
    /// Keys by the last use of their plans.
    by_use: BTreeMap<u64, PlanKey>,
    uses: u64,
    bytes: usize,
}

/// Where names of relations are looked up.
#[derive(Clone, Copy)]
pub(super) struct Lookup<'a> {
    pub catalog: &'a Catalog,
    pub search_path: &'a [String],
    pub database: &'a str,
}

impl Lookup<'_> {
    /// The table that a name means; `None` for anything else.
    fn table(&self, name: &ObjectName) -> Option<TableId> {
        match names::find_relation(self.catalog, self.search_path, self.database, name)? {
            Relation::Table(table) => Some(table.id),
            _ => None,
        }
    }

    /// The tables that a statement names; `None` if it names anything else.
    pub fn tables(&self, statement: &Statement) -> Option<NamedTables> {
        let mut named = NamedTables::new();
        let all = walk::relations(statement, |name| match self.table(name) {
            Some(table) => {
                named.push((name.clone(), table));
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(()),
        });
        all.is_continue().then_some(named)
    }
}

/// Names as they are written, and the tables that they mean.
pub(super) type NamedTables = Vec<(ObjectName, TableId)>;

struct Kept {
    catalog_version: u64,
    /// What the text names, if that is tables only.
    named: Option<NamedTables>,
    plan: Arc<QueryPlan>,
    bytes: usize,
    used: u64,
    _memory: MemoryReservation,
}

impl Kept {
    /// Whether the plan is that of its text over this catalog, too.
    fn holds(&self, lookup: Lookup<'_>) -> bool {
        let means_the_same = || {
            let named = self.named.as_ref();
            named.is_some_and(|named| named.iter().all(|(name, table)| lookup.table(name) == Some(*table)))
        };
        (self.catalog_version == lookup.catalog.version || means_the_same())
            && self.plan.same_tables(lookup.catalog)
    }
}

impl State {
    fn remove(&mut self, key: &PlanKey) -> Option<Kept> {
        let kept = self.plans.remove(key)?;
        self.by_use.remove(&kept.used);
        self.bytes -= kept.bytes;
        Some(kept)
    }
}

impl KeptPlans {
    pub(super) fn new(memory: Arc<dyn MemoryPool>) -> KeptPlans {
        let bytes_max = match memory.memory_limit() {
            MemoryLimit::Finite(limit) => limit / PART_OF_MEMORY,
            _ => usize::MAX,
        };
        KeptPlans { bytes_max, memory, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The plan of a text over this catalog.
    pub(super) fn get(&self, key: &PlanKey, lookup: Lookup<'_>) -> Option<Arc<QueryPlan>> {
        let mut state = self.state();
        let State { plans, by_use, uses, .. } = &mut *state;
        let kept = plans.get_mut(key)?;
        if !kept.holds(lookup) {
            return None;
        }
        kept.catalog_version = lookup.catalog.version;
        by_use.remove(&kept.used);
        *uses += 1;
        kept.used = *uses;
        by_use.insert(*uses, key.clone());
        Some(kept.plan.clone())
    }

    /// Keeps the plan of a text that names these tables, over a version of the catalog. It takes about so many bytes, and
    /// others are forgotten for it; nothing is kept if there is no memory for it.
    pub(super) fn keep(
        &self,
        key: PlanKey,
        (catalog_version, named): (u64, Option<NamedTables>),
        plan: Arc<QueryPlan>,
        bytes: usize,
    ) {
        // One plan takes the place of a few others, and not of all.
        if bytes > self.bytes_max / 4 {
            return;
        }
        let Ok(memory) = reserve(&self.memory, "kept plans", bytes as u64) else { return };
        let mut forgotten = Vec::new();
        let mut state = self.state();
        forgotten.extend(state.remove(&key));
        while state.plans.len() >= PLANS_MAX || state.bytes.saturating_add(bytes) > self.bytes_max {
            let Some(oldest) = state.by_use.first_key_value().map(|(_, key)| key.clone()) else { break };
            forgotten.extend(state.remove(&oldest));
        }
        state.uses += 1;
        let used = state.uses;
        state.bytes += bytes;
        state.by_use.insert(used, key.clone());
        state.plans.insert(key, Kept { catalog_version, named, plan, bytes, used, _memory: memory });
        drop(state);
        // Dropping large plans takes time: nobody waits for the lock meanwhile.
        drop(forgotten);
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::SharedPool;
    use super::*;
    use datafusion::logical_expr::LogicalPlan;

    const LIMIT_BYTES: usize = 64 << 20;

    fn plan() -> Arc<QueryPlan> {
        let written = LogicalPlan::default();
        let (parameters, columns, tables) = (Vec::new(), Arc::default(), BTreeMap::new());
        let user_types = Default::default();
        Arc::new(QueryPlan { written, optimized: None, parameters, columns, user_types, tables })
    }

    fn kept() -> (KeptPlans, Arc<dyn MemoryPool>) {
        let pool: Arc<dyn MemoryPool> = Arc::new(SharedPool::new(LIMIT_BYTES));
        (KeptPlans::new(pool.clone()), pool)
    }

    fn over(catalog: &Catalog) -> Lookup<'_> {
        Lookup { catalog, search_path: &[], database: "meridian" }
    }

    fn key(text: impl ToString) -> PlanKey {
        ("public".into(), text.to_string())
    }

    #[test]
    fn a_flood_of_texts_that_come_once_forgets_none_that_comes_again_and_again() {
        let (plans, _) = kept();
        let catalog = Catalog::default();
        plans.keep(key("often"), (catalog.version, None), plan(), 1 << 10);
        for n in 0..10 * PLANS_MAX {
            plans.keep(key(n), (catalog.version, None), plan(), 1 << 10);
            assert!(plans.get(&key("often"), over(&catalog)).is_some(), "after {n} others");
        }
        assert!(plans.get(&key(0), over(&catalog)).is_none());
        assert_eq!(plans.state().plans.len(), PLANS_MAX);
    }

    #[test]
    fn what_is_kept_is_reserved_and_bounded() {
        let (plans, pool) = kept();
        for n in 0..100 {
            plans.keep(key(n), (1, None), plan(), 500 << 10);
            assert_eq!(pool.reserved(), plans.state().bytes);
            assert!(pool.reserved() <= LIMIT_BYTES / PART_OF_MEMORY);
        }
        assert_eq!(plans.state().plans.len(), 8);
        let before = pool.reserved();
        plans.keep(key("huge"), (1, None), plan(), 2 << 20);
        assert_eq!(pool.reserved(), before, "it would take the place of half of them");
        // Kept anew, a text has one plan.
        plans.keep(key(99), (2, None), plan(), 1 << 10);
        assert_eq!(pool.reserved(), before - (499 << 10));
        // Where queries need all there is, nothing new is kept.
        let rest = reserve(&pool, "a query", (LIMIT_BYTES - LIMIT_BYTES / 8 - pool.reserved()) as u64);
        let small = reserve(&pool, "another", 1);
        plans.keep(key("late"), (1, None), plan(), 700 << 10);
        assert!(rest.is_ok() && small.is_ok());
        assert!(pool.reserved() <= LIMIT_BYTES);
    }

    #[test]
    fn another_version_of_the_catalog_has_other_plans() {
        let (plans, _) = kept();
        let catalog = Catalog::default();
        plans.keep(key("old"), (catalog.version + 1, None), plan(), 1);
        assert!(plans.get(&key("old"), over(&catalog)).is_none());
    }
}

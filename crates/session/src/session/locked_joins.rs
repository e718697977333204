//! FOR UPDATE and FOR SHARE of joins: a query finds the rows, those of the tables that are meant are locked, and the query
//! looks again if others may have changed them before.
//!
//! KEEPS: a row of the result stands for rows that are locked, as they were when they had been locked; COMMIT finds the
//! locked rows unchanged at every level. What the query reads besides is validated as any query's, table by table.

use super::Session;
use super::locking::{changed_each_time, not_available};
use super::write::Written;
use crate::locks::RowLocks;
use crate::response::RowStream;
use analytics::{Context, QueryPlan};
use base::error::{SqlResult, SqlState};
use base::key::KeyRange;
use base::schema::Table;
use base::txn::Isolation;
use base::{Datum, Key, PartitionId, SqlError, TableId};
use sql::lower::access;
use sql::lower::scope::ParameterTypes;
use sql::lower::select::{Contended, locking_word, shared};
use sql::names;
use sql::types::Column;
use sqlparser::ast::{self, JoinOperator, Statement, TableFactor};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How often the query looks again because rows changed while they were locked.
const ROUNDS: usize = 64;

/// A planned SELECT of this kind.
pub struct LockedJoinPlan {
    /// What is shown, then the keys of the rows that are locked.
    query: QueryPlan,
    targets: Vec<Target>,
    pub columns: Arc<Vec<Column>>,
}

/// A table of the query whose rows are locked.
struct Target {
    table: Arc<Table>,
    meant: Meant,
    /// Where in the query's rows its primary key begins.
    key_at: usize,
}

/// What is meant with a table's rows.
#[derive(Clone, Copy, Default)]
struct Meant {
    /// `None`: FOR SHARE, which marks rows and locks none.
    lock: Option<Contended>,
    /// FOR SHARE with NOWAIT or SKIP LOCKED.
    shared: Option<Contended>,
}

/// A relation of a FROM list.
struct Named<'q> {
    factor: &'q TableFactor,
    name: Option<String>,
    /// Its columns may be NULL because nothing was found.
    is_optional: bool,
}

impl LockedJoinPlan {
    /// Errors: 42P01 for a name that is not in FROM, 0A000 for relations that are no tables, or that an outer join may
    /// leave out.
    pub fn new(
        context: &Context<'_>,
        query: &ast::Query,
        parameters: &mut ParameterTypes,
    ) -> SqlResult<LockedJoinPlan> {
        let ast::SetExpr::Select(select) = query.body.as_ref() else {
            return Err(SqlError::unsupported("FOR UPDATE of anything but tables and joins of them"));
        };
        let relations = relations_of(&select.from)?;
        let mut meant: BTreeMap<usize, Meant> = BTreeMap::new();
        for clause in &query.locks {
            for at in relations_meant(clause, &relations)? {
                let meant = meant.entry(at).or_default();
                // The stronger one of two.
                meant.lock = meant.lock.or(contended(clause));
                meant.shared = meant.shared.or(shared(clause));
            }
        }
        let skips = meant.values().any(|meant| meant.lock.or(meant.shared) == Some(Contended::Skip));
        if skips && (query.limit_clause.is_some() || query.fetch.is_some()) {
            return Err(SqlError::unsupported("SKIP LOCKED with LIMIT over a join").hint(
                "Rows of one table can be locked so: find them by a subquery in WHERE, or in a WITH of its own.",
            ));
        }
        let mut targets = Vec::new();
        let mut keys: Vec<ast::SelectItem> = Vec::new();
        for (at, meant) in meant {
            let relation = &relations[at];
            let table = table_of(context, relation)?;
            let key_at = keys.len();
            for &column in &table.primary_key {
                let shown = relation.name.clone().unwrap_or_else(|| table.name.clone());
                let path = [shown.as_str(), &table.columns[column].name];
                keys.push(ast::SelectItem::ExprWithAlias {
                    expr: ast::Expr::CompoundIdentifier(
                        path.map(|p| ast::Ident::with_quote('"', p)).to_vec(),
                    ),
                    alias: ast::Ident::with_quote('"', format!("\u{f8ff}key {}", keys.len())),
                });
            }
            targets.push(Target { table, meant, key_at });
        }
        let has_hidden =
            |target: &Target| target.table.primary_key.iter().any(|c| target.table.columns[*c].hidden);
        let hidden: Vec<TableId> =
            targets.iter().filter(|target| has_hidden(target)).map(|target| target.table.id).collect();
        let is_star = |item: &ast::SelectItem| {
            matches!(item, ast::SelectItem::Wildcard(_) | ast::SelectItem::QualifiedWildcard(..))
        };
        if !hidden.is_empty() && select.projection.iter().any(is_star) {
            return Err(SqlError::unsupported(
                "FOR UPDATE of a join that shows * of a table without a primary key",
            ));
        }
        let (mut query, appended) = (query.clone(), keys.len());
        query.locks.clear();
        if let ast::SetExpr::Select(select) = query.body.as_mut() {
            select.projection.extend(keys);
        }
        let statement = Statement::Query(Box::new(query));
        let query = analytics::plan_with(context, &statement, parameters, &hidden)?;
        let shown = query.columns.len() - appended;
        targets.iter_mut().for_each(|target| target.key_at += shown);
        let columns = Arc::new(query.columns[..shown].to_vec());
        Ok(LockedJoinPlan { query, targets, columns })
    }

    /// What it is called where only reading is allowed.
    pub fn word(&self) -> &'static str {
        locking_word(self.targets.iter().find_map(|target| target.meant.lock))
    }

    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.targets.iter().map(|target| target.table.as_ref())
    }
}

/// What a clause says of rows that others have locked; `None`: FOR SHARE.
fn contended(clause: &ast::LockClause) -> Option<Contended> {
    matches!(clause.lock_type, ast::LockType::Update).then_some(match clause.nonblock {
        None => Contended::Wait,
        Some(ast::NonBlock::Nowait) => Contended::Fail,
        Some(ast::NonBlock::SkipLocked) => Contended::Skip,
    })
}

/// The relations of a FROM list, in their order.
fn relations_of(from: &[ast::TableWithJoins]) -> SqlResult<Vec<Named<'_>>> {
    let mut relations: Vec<Named<'_>> = Vec::new();
    for joined in from {
        let first = relations.len();
        relations.push(named(&joined.relation, false)?);
        for join in &joined.joins {
            let (left, right) = match &join.join_operator {
                JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => (false, true),
                JoinOperator::Right(_) | JoinOperator::RightOuter(_) => (true, false),
                JoinOperator::FullOuter(_) => (true, true),
                _ => (false, false),
            };
            relations[first..].iter_mut().for_each(|relation| relation.is_optional |= left);
            relations.push(named(&join.relation, right)?);
        }
    }
    Ok(relations)
}

fn named(factor: &TableFactor, is_optional: bool) -> SqlResult<Named<'_>> {
    let name = match factor {
        TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            Some(names::fold(&alias.name))
        }
        TableFactor::Table { name, .. } => names::parts(name)?.pop(),
        _ => None,
    };
    Ok(Named { factor, name, is_optional })
}

/// The relations that a clause means. Errors: 42P01, 0A000.
fn relations_meant(clause: &ast::LockClause, relations: &[Named<'_>]) -> SqlResult<Vec<usize>> {
    let word = match clause.lock_type {
        ast::LockType::Update => "FOR UPDATE",
        ast::LockType::Share => "FOR SHARE",
    };
    let of = clause.of.as_ref().map(names::parts).transpose()?.and_then(|mut parts| parts.pop());
    let is_meant = |relation: &Named<'_>| of.is_none() || relation.name == of;
    let meant: Vec<usize> = (0..relations.len()).filter(|at| is_meant(&relations[*at])).collect();
    if let (Some(of), []) = (&of, meant.as_slice()) {
        let told = format!("relation \"{of}\" in {word} clause not found in FROM clause");
        return Err(SqlError::new(SqlState::UNDEFINED_TABLE, told));
    }
    if meant.iter().any(|at| relations[*at].is_optional) {
        let told = format!("{word} cannot be applied to the nullable side of an outer join");
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, told));
    }
    Ok(meant)
}

fn table_of(context: &Context<'_>, relation: &Named<'_>) -> SqlResult<Arc<Table>> {
    let (catalog, path) = (context.catalog, context.search_path);
    match relation.factor {
        TableFactor::Table { name, args: None, sample: None, .. } => {
            names::find_table(catalog, path, context.database, name).cloned()
        }
        _ => Err(SqlError::unsupported("FOR UPDATE of a subquery or a view in FROM")
            .hint("FOR UPDATE OF names the tables whose rows are to be locked.")),
    }
}

impl Session {
    /// Finds the rows and locks them in the open transaction.
    pub(super) async fn locked_join_buffered(
        &mut self,
        plan: &LockedJoinPlan,
        parameters: &[Datum],
    ) -> SqlResult<Written> {
        // Versions are kept from before the wait on.
        self.pinned().await?;
        for _ in 0..ROUNDS {
            // A snapshot stays as it is; a row that has changed since ends the transaction when it writes it.
            let open = self.open();
            open.reading.wants_cut = open.reading.level != Isolation::Snapshot;
            let before = open.whole_reads();
            let answer = self.answer(&plan.query, parameters).await?;
            let mut rows = self.collected(&mut RowStream::Batches(answer.stream)).await?;
            let mut may_be_old = false;
            for target in &plan.targets {
                may_be_old |= self.lock_target(target, &mut rows).await?;
            }
            if !may_be_old {
                self.mark_locked(plan, &rows);
                rows.iter_mut().for_each(|row| row.truncate(plan.columns.len()));
                return Ok(Written { affected: rows.len() as u64, returned: rows, ..Written::default() });
            }
            self.open().forget_look(before);
        }
        Err(changed_each_time())
    }

    /// Locks the rows of one table; those that cannot be had are left out with SKIP LOCKED. Answers whether others may
    /// have changed some since they were found.
    async fn lock_target(&mut self, target: &Target, rows: &mut Vec<Vec<Datum>>) -> SqlResult<bool> {
        match target.meant.lock {
            None => self.pass_taken(target, rows).map(|()| false),
            Some(Contended::Skip) => {
                let locks = self.gateway.locks.clone();
                let locks = self.open().locks.get_or_insert_with(|| RowLocks::new(locks));
                let mut may_be_old = false;
                rows.retain(|row| {
                    let key = target.key_of(row);
                    let is_known = locks.holds(target.table.id, &key);
                    let is_locked = locks.try_lock(target.table.id, &key);
                    may_be_old |= is_locked && !is_known;
                    is_locked
                });
                Ok(may_be_old)
            }
            Some(contended) => {
                let found: BTreeSet<(Key, PartitionId)> = self.found(target, rows);
                let found: Vec<(Key, PartitionId)> = found.into_iter().collect();
                self.lock_rows(&target.table, found, contended).await
            }
        }
    }

    /// FOR SHARE looks for locks of others with NOWAIT (errors: 55P03) and SKIP LOCKED, which leaves rows out.
    fn pass_taken(&mut self, target: &Target, rows: &mut Vec<Vec<Datum>>) -> SqlResult<()> {
        let Some(shared) = target.meant.shared else { return Ok(()) };
        let locks = self.gateway.locks.clone();
        let locks = self.open().locks.get_or_insert_with(|| RowLocks::new(locks));
        let found = rows.len();
        rows.retain(|row| !locks.is_taken(target.table.id, &target.key_of(row)));
        match shared {
            Contended::Fail if rows.len() < found => Err(not_available(&target.table)),
            _ => Ok(()),
        }
    }

    /// Keys and places of a table's rows in the result. A row that is everywhere is locked by its first place.
    fn found(&self, target: &Target, rows: &[Vec<Datum>]) -> BTreeSet<(Key, PartitionId)> {
        let topology = self.cluster().topology();
        let place = |row: &Vec<Datum>| {
            let partition = *access::homes(&target.table, &target.values_of(row), topology).first()?;
            Some((target.key_of(row), partition))
        };
        rows.iter().filter_map(place).collect()
    }

    /// What is locked or marked has to be found unchanged at every level.
    fn mark_locked(&mut self, plan: &LockedJoinPlan, rows: &[Vec<Datum>]) {
        let at = self.open().cut;
        for target in &plan.targets {
            for (key, partition) in self.found(target, rows) {
                self.open().record_kept(partition, target.table.id, KeyRange::point(key), at);
            }
        }
    }
}

impl Target {
    fn key_of(&self, row: &[Datum]) -> Key {
        Key::of(&row[self.key_at..self.key_at + self.table.primary_key.len()])
    }

    /// The table's row as far as its key tells it, which includes the column that it lives by.
    fn values_of(&self, row: &[Datum]) -> Vec<Datum> {
        let mut values = vec![Datum::Null; self.table.columns.len()];
        for (at, &column) in self.table.primary_key.iter().enumerate() {
            values[column] = row[self.key_at + at].clone();
        }
        values
    }
}

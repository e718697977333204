//! Views in statements: before a statement is planned, each view in it becomes the query that defines it.
//!
//! IN: a statement, the catalog, the acting role. OUT: a statement over tables alone, and which tables its views read.
//! KEEPS: what a view reads is held against the privileges of the view's owner, or of the role that acts if the view is
//! `security_invoker`, and the view itself against those of the role that acts ([`crate::privileges`], which runs first and
//! takes a view for a table); no condition is computed over a row that a view with `security_barrier` does not show, but for
//! comparisons, which cannot fail ([`barriers`]); a name that a common table
//! expression hides is no view. A statement over one simple view becomes one over its table ([`simple`]), so that it is
//! answered by rows where the table's would be.

mod barriers;
mod only;
mod qualify;
mod simple;
mod written;

use crate::generators::Generators;
use crate::names;
use crate::privileges::Check;
use crate::walk::{self, WalkMut};
use base::error::{SqlError, SqlResult, SqlState};
use base::roles::Standing;
use base::schema::{Catalog, Table};
use base::views::{Relation, View};
use base::{DataType, TableId};
use sqlparser::ast::{self, Ident, ObjectName, Query, SetExpr, Statement, TableFactor, VisitorMut};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

pub use names::quoted;
pub use qualify::qualify;
pub use written::show_in_subqueries;

/// Views that one statement reads at most, counting each time that one is read.
const VIEWS_MAX: usize = 1_000;

/// Views that read views that read views.
const DEPTH_MAX: usize = 32;

/// A statement without views.
pub struct Expanded {
    pub statement: Statement,
    /// Tables that it reads with the rights of the views' owners.
    pub tables: BTreeSet<TableId>,
    /// Views whose conditions the rows have to fulfil that it writes: the last columns of what it returns tell. The error
    /// for each.
    pub checked: Vec<SqlError>,
}

impl Expanded {
    /// A statement in which nothing has been expanded yet.
    pub fn of(statement: Statement) -> Expanded {
        Expanded { statement, tables: BTreeSet::new(), checked: Vec::new() }
    }
}

/// The statement over tables alone; `None` if it names no view. Errors: 42501 if a view's owner may not read what the
/// view reads; 55000 and 0A000 for writes to views that are not simple.
pub fn expand(
    check: &Check<'_>,
    generators: &Generators,
    statement: &Statement,
) -> SqlResult<Option<Expanded>> {
    if check.catalog.views.is_empty() && check.catalog.sequences.is_empty() {
        return Ok(None);
    }
    if let Statement::Merge(merge) = statement
        && let TableFactor::Table { name, .. } = &merge.table
        && let Some(Relation::View(view)) = find(check, name)
    {
        if view.partition.is_some() {
            let told = format!("MERGE into the partition \"{}\"", view.shape.name);
            return Err(SqlError::unsupported(told).hint("Merge into the partitioned table."));
        }
        let told = format!("cannot execute MERGE on relation \"{}\"", view.shape.name);
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, told)
            .detail("This operation is not supported for views."));
    }
    let mut divides = false;
    let mut is_table = |name: &ObjectName| match find(check, name) {
        Some(Relation::Table(table)) => {
            divides |= table.partitioning.is_some();
            true
        }
        _ => false,
    };
    let names_another: ControlFlow<()> = walk::relations(statement, |name| match is_table(name) {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    });
    let says_only = (names_another.is_break() || divides) && crate::parse::says_only(statement);
    if names_another.is_continue() && !says_only {
        return Ok(None);
    }
    let mut expansion = Expansion::new(check, generators);
    let mut statement = statement.clone();
    if says_only {
        expansion.found = only::resolve(check, &mut statement)?;
    }
    let mut checks = simple::Checks::default();
    while let Some(over) = simple::over_table(check, &statement, &mut checks)? {
        expansion.found = true;
        expansion.tables.insert(over.table);
        statement = over.statement;
    }
    match statement.walk_mut(&mut expansion) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) if !expansion.found => Ok(None),
        ControlFlow::Continue(()) => {
            Ok(Some(Expanded { statement, tables: expansion.tables, checked: checks.views }))
        }
    }
}

/// A view's query, over tables and views.
pub fn query_of(view: &View) -> SqlResult<Query> {
    match crate::parse::parse(&view.definition)?.pop() {
        Some(Statement::Query(query)) => Ok(*query),
        _ => Err(SqlError::internal(format!("the definition of view {}", view.shape.name))),
    }
}

/// Whether rows can be inserted into a view, changed and deleted.
pub fn is_updatable(catalog: &Catalog, view: &View) -> bool {
    !updatable_columns(catalog, view).is_empty()
}

/// Columns of a view through which a table's can be changed, by their names; none of a view that cannot be written to.
pub fn updatable_columns(catalog: &Catalog, view: &View) -> BTreeSet<String> {
    let standing = catalog.roles.standing(base::roles::ROOT);
    let check = Check { catalog, search_path: &[], database: "", standing: &standing };
    simple::updatable_columns(&check, view)
}

/// Errors: 0A000 for a view that cannot be written to, of which WITH CHECK OPTION says nothing.
pub fn refuse_check_option(catalog: &Catalog, view: &View) -> SqlResult<()> {
    let standing = catalog.roles.standing(base::roles::ROOT);
    let check = Check { catalog, search_path: &[], database: "", standing: &standing };
    match simple::refused(&check, view) {
        None => Ok(()),
        Some(why) => {
            let told = "WITH CHECK OPTION is supported only on automatically updatable views";
            Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, told).hint(why))
        }
    }
}

/// The same check for what the owner of a view may do, or `acting` where the view says so.
fn with_owner<T>(
    check: &Check<'_>,
    acting: &Standing,
    view: &View,
    work: impl FnOnce(&Check<'_>) -> SqlResult<T>,
) -> SqlResult<T> {
    if view.security.invoker == Some(true) {
        return work(&Check { standing: acting, ..*check });
    }
    let roles = &check.catalog.roles;
    // A partition is read with the right to read it alone.
    let owner = match view.partition {
        Some(_) => base::roles::ROOT,
        None => roles.owner_of(&base::roles::Object::Relation(view.shape.id)),
    };
    let owner = roles.standing(owner);
    work(&Check { standing: &owner, ..*check })
}

/// A table or view by its name.
pub fn find<'c>(check: &Check<'c>, name: &ObjectName) -> Option<Relation<'c>> {
    names::find_relation(check.catalog, check.search_path, check.database, name)
}

/// Tells which names are those of common table expressions.
#[derive(Default)]
pub(crate) struct Ctes {
    /// Names with the queries they stand for, of which the first `visible` can be named.
    named: Vec<(String, *const Query)>,
    visible: usize,
    is_recursive: bool,
}

impl Ctes {
    /// Enters a query. An expression of the list around it sees those before it, and itself only in a recursive list.
    pub fn enter(scopes: &mut Vec<Ctes>, query: &Query) {
        if let Some(scope) = scopes.last_mut()
            && let Some(at) = scope.named.iter().position(|(_, cte)| std::ptr::eq(*cte, query))
        {
            scope.visible = if scope.is_recursive { scope.named.len() } else { at };
        }
        let mut scope = Ctes::default();
        if let Some(with) = &query.with {
            let named =
                |cte: &ast::Cte| (names::fold(&cte.alias.name), std::ptr::from_ref(cte.query.as_ref()));
            scope.named = with.cte_tables.iter().map(named).collect();
            (scope.visible, scope.is_recursive) = (scope.named.len(), with.recursive);
        }
        scopes.push(scope);
    }
    pub fn leave(scopes: &mut Vec<Ctes>) {
        scopes.pop();
        if let Some(scope) = scopes.last_mut() {
            scope.visible = scope.named.len();
        }
    }
    pub fn hide(scopes: &[Ctes], name: &ObjectName) -> bool {
        let [part] = name.0.as_slice() else { return false };
        let Some(name) = part.as_ident().map(names::fold) else { return false };
        scopes.iter().any(|scope| scope.named[..scope.visible].iter().any(|(cte, _)| *cte == name))
    }
}

struct Expansion<'a> {
    check: &'a Check<'a>,
    /// The role that the statement is run by, whichever view is around.
    acting: &'a Standing,
    generators: &'a Generators,
    /// Views read so far, and how many of them are around this one.
    count: usize,
    depth: usize,
    scopes: Vec<Ctes>,
    tables: BTreeSet<TableId>,
    found: bool,
}

impl<'a> Expansion<'a> {
    fn new(check: &'a Check<'a>, generators: &'a Generators) -> Expansion<'a> {
        let (scopes, tables) = (Vec::new(), BTreeSet::new());
        let acting = check.standing;
        Expansion { check, acting, generators, count: 0, depth: 0, scopes, tables, found: false }
    }
}

impl Expansion<'_> {
    /// The view's query without views.
    fn body(&mut self, view: &Arc<View>) -> SqlResult<Query> {
        crate::interrupt::check()?;
        self.count += 1;
        if self.count > VIEWS_MAX || self.depth >= DEPTH_MAX {
            return Err(crate::parse::too_deep());
        }
        let mut query = only::resolve_query(self.check, query_of(view)?)?;
        let depth = self.depth + 1;
        let (count, tables, generators) = (&mut self.count, &mut self.tables, self.generators);
        let acting = self.acting;
        with_owner(self.check, acting, view, |check| {
            let statement = Statement::Query(Box::new(query.clone()));
            check.statement(&statement)?;
            tables.extend(view.uses.keys().filter(|id| check.catalog.table(**id).is_some()));
            let mut inner = Expansion { acting, ..Expansion::new(check, generators) };
            (inner.count, inner.depth, inner.tables) = (*count, depth, std::mem::take(tables));
            if let ControlFlow::Break(error) = query.walk_mut(&mut inner) {
                return Err(error);
            }
            (*count, *tables) = (inner.count, inner.tables);
            Ok(())
        })?;
        Ok(query)
    }

    fn factor(&mut self, factor: &mut TableFactor) -> SqlResult<()> {
        let TableFactor::Table { name, alias, args: None, sample, .. } = factor else { return Ok(()) };
        if Ctes::hide(&self.scopes, name) {
            return Ok(());
        }
        let view = match find(self.check, name) {
            Some(Relation::View(view)) => view,
            Some(Relation::Table(_)) => return Ok(()),
            None => {
                if let Some(query) = self.sequence(name)? {
                    let alias = alias.take();
                    *factor = derived(query, alias.unwrap_or_else(|| called(name)));
                    self.found = true;
                }
                return Ok(());
            }
        };
        if sample.is_some() {
            return Err(SqlError::unsupported("TABLESAMPLE"));
        }
        let view = view.clone();
        let mut alias = alias.clone().unwrap_or_else(|| called(name));
        let mut query = self.body(&view)?;
        if view.security.barrier == Some(true) {
            barriers::enclose(&mut query);
        }
        // Whatever the list of a query is called, a view's columns have the names that the catalog has.
        let rest = view.shape.columns.iter().skip(alias.columns.len());
        let rest =
            rest.map(|column| ast::TableAliasColumnDef { name: quoted(&column.name), data_type: None });
        if !alias.columns.is_empty() || !matches!(query.body.as_ref(), SetExpr::Select(_)) {
            alias.columns.extend(rest);
        }
        self.found = true;
        *factor = derived(query, alias);
        Ok(())
    }

    /// What a sequence shows as a relation: at least the largest value that is there, of its column or handed out here.
    /// Other gateways count in blocks of their own.
    fn sequence(&self, name: &ObjectName) -> SqlResult<Option<Query>> {
        let check = self.check;
        let Ok(sequence) = crate::catalog::find_named_sequence(check.catalog, check.search_path, name) else {
            return Ok(None);
        };
        let object = base::roles::Object::Relation(sequence.id);
        if !check.catalog.roles.may(check.standing, &object, base::roles::Privileges::SELECT) {
            return Err(crate::privileges::denied("sequence", &sequence.name));
        }
        let origin = sequence.origin;
        let before = origin.is_called.then(|| origin.value.checked_sub(sequence.increment)).flatten();
        let handed_out = self.generators.handed_out(sequence).or(before);
        let known = handed_out.unwrap_or(origin.value);
        let is_called = handed_out.is_some();
        let owner = sequence.owner.and_then(|(table, column)| Some((check.catalog.table(table)?, column)));
        // A sequence may belong to a column that it cannot count.
        let is_counted = |(table, column): &(&Arc<Table>, usize)| {
            let data_type = table.columns[*column].data_type;
            matches!(data_type, DataType::SmallInt | DataType::Integer | DataType::BigInt)
        };
        let owner = owner.filter(is_counted);
        let query = match owner {
            None => format!("SELECT {known} AS last_value, 0 AS log_cnt, {is_called} AS is_called"),
            Some((table, column)) => {
                let column = quoted(&table.columns[column].name);
                let (end, choose, reaches) = match sequence.increment > 0 {
                    true => ("max", "greatest", ">="),
                    false => ("min", "least", "<="),
                };
                format!(
                    "SELECT {choose}({end}({column}), {known}) AS last_value, 0 AS log_cnt, \
                     coalesce({end}({column}) {reaches} {known}, false) OR {is_called} AS is_called FROM {}.{}",
                    quoted(&table.schema),
                    quoted(&table.name)
                )
            }
        };
        match crate::parse::parse(&query)?.pop() {
            Some(Statement::Query(query)) => Ok(Some(*query)),
            _ => Err(SqlError::internal("this text is a query")),
        }
    }
}

fn derived(query: Query, alias: ast::TableAlias) -> TableFactor {
    TableFactor::Derived { lateral: false, subquery: Box::new(query), alias: Some(alias), sample: None }
}

/// A relation's name as its alias.
fn called(name: &ObjectName) -> ast::TableAlias {
    let last = name.0.last().and_then(|part| part.as_ident()).cloned();
    let name = last.unwrap_or_else(|| Ident::new("view"));
    ast::TableAlias { explicit: true, name, columns: Vec::new(), at: None }
}

impl VisitorMut for Expansion<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        Ctes::enter(&mut self.scopes, query);
        ControlFlow::Continue(())
    }
    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        Ctes::leave(&mut self.scopes);
        ControlFlow::Continue(())
    }
    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        match self.factor(factor) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

#[cfg(test)]
mod tests;

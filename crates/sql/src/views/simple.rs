//! Statements over one simple view as statements over its table.
//!
//! A view is simple if it shows columns of one table or view, perhaps under other names and perhaps not all rows. Such a
//! view can be written to, as in PostgreSQL; a statement in whose text a name could mean something else is not
//! rewritten here: a query then reads the view as a subquery, and a write is refused (0A000).

mod rewriting;

use super::{barriers, find, query_of, with_owner};
use crate::names;
use crate::privileges::Check;
use crate::walk;
use base::TableId;
use base::error::{SqlError, SqlResult, SqlState};
use base::schema::Table;
use base::views::{CheckOption, Relation, View};
use rewriting::{has_call, has_subquery};
use sqlparser::ast::{self, Expr, ObjectName, Query, SelectItem, SetExpr, Statement, TableFactor};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// A statement over what a view shows.
pub(super) struct OverTable {
    pub statement: Statement,
    pub table: TableId,
}

/// What rows have to fulfil that are written through views, as far as these have been gone through.
#[derive(Default)]
pub(super) struct Checks {
    /// For each, what is told of a row that is none of it.
    pub views: Vec<SqlError>,
    /// A view above says so of all views below it.
    cascades: bool,
}

impl Checks {
    /// Whether rows written through a view have to be rows of it.
    fn concern(&mut self, view: &View, verb: Verb) -> bool {
        let is_concerned = matches!(verb, Verb::Insert | Verb::Update)
            && (self.cascades || view.check_option != CheckOption::No);
        self.cascades |= view.check_option == CheckOption::Cascaded;
        is_concerned
    }
}

/// What a simple view shows.
struct Simple<'c> {
    view: &'c View,
    base: &'c Table,
    /// The table's column under each of the view's names; `None`: it is computed.
    columns: BTreeMap<String, Option<String>>,
    /// What is computed, where it does no harm to compute it more than once.
    computed: BTreeMap<String, Expr>,
    condition: Option<Expr>,
    /// Its rows come in an order, which means nothing for a write.
    is_ordered: bool,
}

impl Simple<'_> {
    /// Whether a statement tells nothing of rows that the view does not show, though its condition is computed over them.
    fn is_open_to(&self, statement: &Statement) -> bool {
        self.computed.is_empty() && barriers::lets_through(statement)
    }
}

/// The statement with the view that it is about replaced by what the view is about; `None`: it is not about one simple
/// view. Errors: 55000, 0A000, 42703, 42501.
pub(super) fn over_table(
    check: &Check<'_>,
    statement: &Statement,
    checks: &mut Checks,
) -> SqlResult<Option<OverTable>> {
    let Some((name, verb)) = target(statement) else { return Ok(None) };
    let Some(Relation::View(view)) = find(check, name) else { return Ok(None) };
    let query = query_of(view)?;
    let simple = match (simple(check, view, &query), verb) {
        (Ok(simple), _) => simple,
        (Err(_), Verb::Read) => return Ok(None),
        (Err(why), verb) => return Err(verb.refused(&view.shape.name, why)),
    };
    if view.security.barrier == Some(true) && verb != Verb::Insert && !simple.is_open_to(statement) {
        return match verb {
            Verb::Read => Ok(None),
            verb => Err(barriers::refused(&view.shape.name, verb.to_words())),
        };
    }
    let mut rewritten = match (simple.rewritten(statement)?, verb) {
        (Some(rewritten), _) => rewritten,
        (None, Verb::Read) => return Ok(None),
        (None, verb) => {
            let what = format!("{} a view with a subquery or another relation beside it", verb.to_words());
            return Err(SqlError::unsupported(what).hint(format!(
                "Write to {} itself.",
                [&simple.base.schema, ".", &simple.base.name].map(|part| part as &str).concat()
            )));
        }
    };
    if checks.concern(view, verb) && simple.tell_condition(&mut rewritten) {
        checks.views.push(not_of(view));
    }
    // The owner, or the role that acts, has to have the right to do the same to what is below.
    with_owner(check, check.standing, view, |owner| owner.statement(&rewritten))?;
    let table = simple.base.id;
    Ok(Some(OverTable { statement: rewritten, table }))
}

/// The error for a row that is written through a view and is none of its rows.
fn not_of(view: &View) -> SqlError {
    let name = &view.shape.name;
    match view.partition {
        Some(_) => {
            let told = format!("new row for relation \"{name}\" violates partition constraint");
            SqlError::new(SqlState::CHECK_VIOLATION, told).table(name)
        }
        None => {
            let told = format!("new row violates check option for view \"{name}\"");
            SqlError::new(SqlState(*b"44000"), told)
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Verb {
    Read,
    Insert,
    Update,
    Delete,
}

impl Verb {
    fn to_words(self) -> &'static str {
        match self {
            Verb::Read => "reading",
            Verb::Insert => "inserting into",
            Verb::Update => "updating",
            Verb::Delete => "deleting from",
        }
    }
    fn refused(self, view: &str, why: &str) -> SqlError {
        let (what, trigger, word) = match self {
            Verb::Insert => ("insert into", "inserting into", "INSERT"),
            Verb::Update => ("update", "updating", "UPDATE"),
            _ => ("delete from", "deleting from", "DELETE"),
        };
        SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, format!("cannot {what} view \"{view}\""))
            .detail(why)
            .hint(format!(
                "Meridian has no INSTEAD OF triggers and rules: instead of {trigger} the view, {word} what it reads."
            ))
    }
}

/// The relation that a statement is about, if it is one alone.
fn target(statement: &Statement) -> Option<(&ObjectName, Verb)> {
    let plain = |factor: &'_ TableFactor| match factor {
        TableFactor::Table { args: None, sample: None, alias, .. } => {
            alias.as_ref().is_none_or(|alias| alias.columns.is_empty())
        }
        _ => false,
    };
    match statement {
        Statement::Query(query) => {
            let SetExpr::Select(select) = query.body.as_ref() else { return None };
            let [from] = select.from.as_slice() else { return None };
            let is_alone = query.with.is_none() && from.joins.is_empty() && plain(&from.relation);
            is_alone.then(|| table_name(&from.relation)).flatten().map(|name| (name, Verb::Read))
        }
        Statement::Insert(insert) => match &insert.table {
            ast::TableObject::TableName(name) => Some((name, Verb::Insert)),
            _ => None,
        },
        Statement::Update(update) => Some((table_name(&update.table.relation)?, Verb::Update)),
        Statement::Delete(delete) => {
            let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) = &delete.from;
            let [from] = from.as_slice() else { return None };
            Some((table_name(&from.relation)?, Verb::Delete))
        }
        _ => None,
    }
}

fn table_name(factor: &TableFactor) -> Option<&ObjectName> {
    match factor {
        TableFactor::Table { name, .. } => Some(name),
        _ => None,
    }
}

/// What a view shows, or why it cannot be written to, in PostgreSQL's words.
fn simple<'c>(check: &Check<'c>, view: &'c View, query: &Query) -> Result<Simple<'c>, &'static str> {
    const ONE: &str = "Views that do not select from a single table or view are not automatically updatable.";
    if query.with.is_some() {
        return Err("Views containing WITH are not automatically updatable.");
    }
    let select = match query.body.as_ref() {
        SetExpr::Select(select) => select,
        SetExpr::SetOperation { .. } => {
            return Err("Views containing UNION, INTERSECT, or EXCEPT are not automatically updatable.");
        }
        _ => return Err(ONE),
    };
    if select.distinct.is_some() {
        return Err("Views containing DISTINCT are not automatically updatable.");
    }
    if !matches!(&select.group_by, ast::GroupByExpr::Expressions(e, _) if e.is_empty()) {
        return Err("Views containing GROUP BY are not automatically updatable.");
    }
    if select.having.is_some() {
        return Err("Views containing HAVING are not automatically updatable.");
    }
    if query.limit_clause.is_some() || query.fetch.is_some() {
        return Err("Views containing LIMIT or OFFSET are not automatically updatable.");
    }
    let [from] = select.from.as_slice() else { return Err(ONE) };
    let TableFactor::Table { name, alias, args: None, sample: None, with_hints, .. } = &from.relation else {
        return Err(ONE);
    };
    if !from.joins.is_empty() || alias.as_ref().is_some_and(|alias| !alias.columns.is_empty()) {
        return Err(ONE);
    }
    let Some(base) = find(check, name).map(Relation::shape) else { return Err(ONE) };
    // ONLY a partitioned table has no rows.
    if !with_hints.is_empty() && base.partitioning.is_some() {
        return Err(ONE);
    }
    let called = alias.as_ref().map_or_else(|| base.name.clone(), |alias| names::fold(&alias.name));
    let column = |e: &Expr| column_of(base, &called, e);
    let (mut columns, mut computed) = (BTreeMap::new(), BTreeMap::new());
    for (item, shown) in select.projection.iter().zip(&view.shape.columns) {
        let (SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. }) = item else {
            return Err(ONE);
        };
        if column(e).is_none() && returns_more_or_less(e) {
            return Err("Views that return aggregate, window or set-returning functions are not \
                           automatically updatable.");
        }
        if column(e).is_none() && !has_call(e) && !has_subquery(e, false) {
            computed.insert(shown.name.clone(), e.clone());
        }
        columns.insert(shown.name.clone(), column(e));
    }
    let is_ordered = query.order_by.is_some();
    Ok(Simple { view, base, columns, computed, condition: select.selection.clone(), is_ordered })
}

/// Columns of a view through which those of a table can be changed, by their names.
pub(super) fn updatable_columns(check: &Check<'_>, view: &View) -> BTreeSet<String> {
    let Ok(query) = query_of(view) else { return BTreeSet::new() };
    let Ok(simple) = simple(check, view, &query) else { return BTreeSet::new() };
    let below = match check.catalog.relation(simple.base.id) {
        Some(Relation::View(below)) => Some(updatable_columns(check, below)),
        _ => None,
    };
    let is_one = |column: &String| below.as_ref().is_none_or(|below| below.contains(column));
    let columns = simple.columns.into_iter();
    columns.filter(|(_, column)| column.as_ref().is_some_and(is_one)).map(|(name, _)| name).collect()
}

/// Why a view cannot be written to, in PostgreSQL's words; `None`: it can.
pub(super) fn refused(check: &Check<'_>, view: &View) -> Option<&'static str> {
    let query = query_of(view).ok()?;
    let simple = match simple(check, view, &query) {
        Ok(simple) => simple,
        Err(why) => return Some(why),
    };
    match check.catalog.relation(simple.base.id) {
        Some(Relation::View(below)) => refused(check, below),
        _ => None,
    }
}

/// Whether an expression holds a call that may not be one value for each row.
fn returns_more_or_less(e: &Expr) -> bool {
    let found: ControlFlow<()> = walk::expressions(e, |e| match e {
        Expr::Function(function) => {
            let name = function.name.to_string().to_lowercase();
            let several = ["count", "sum", "min", "max", "avg", "unnest", "generate_series"];
            let is_one = function.over.is_none()
                && function.filter.is_none()
                && function.within_group.is_empty()
                && !several.contains(&name.as_str())
                && !["_agg", "bool_", "every", "std", "var", "bit_"].iter().any(|part| name.contains(part));
            if is_one { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        }
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// The column of a relation that an expression is.
fn column_of(base: &Table, called: &str, e: &Expr) -> Option<String> {
    let name = match e {
        Expr::Identifier(name) => names::fold(name),
        Expr::CompoundIdentifier(parts) => match parts.as_slice() {
            [of, name] if names::fold(of) == called => names::fold(name),
            _ => return None,
        },
        _ => return None,
    };
    base.column_named(&name).filter(|at| !base.columns[*at].hidden).map(|_| name)
}

//! Calls of functions in SQL become what their bodies say, before a statement is planned.
//!
//! A body of one SELECT is put in the place of the call: of an expression alone as that expression, of anything else as a
//! subquery; in FROM as a derived table. Views are expanded by [`crate::views`], which knows nothing of functions, so whoever
//! plans asks both until neither finds anything.
//!
//! KEEPS: an argument whose value is another one each time is computed once; what a name means in an argument is what it
//! means where the call stands; the body reads with the rights of the role that calls, or of the function's owner where it
//! is SECURITY DEFINER.

mod aggregates;
mod definer;
mod rows;

pub use super::cast;
use super::places;
use super::resolve::{Inferred, Resolved, Types, infer, named, resolve, unfit};
use super::scopes::{Lookup, Scopes};
use super::{body, hiding, table_calls};
use crate::lower::output_name;
use crate::lower::scope::ParameterTypes;
use crate::names::quoted;
use crate::privileges::{Check, denied};
use crate::walk::{self, WalkMut};
use base::TableId;
use base::error::{SqlError, SqlResult, SqlState};
use base::roles::{Object, Privileges};
use base::routines::{Language, ResultOf, Routine, TypeOf};
pub(super) use rows::reads_columns;
use sqlparser::ast::{
    self, Expr, FromTable, FunctionArg, FunctionArguments, ObjectName, Query, Select, SelectItem, Statement,
    TableFactor, TableWithJoins, UpdateTableFromKind, VisitorMut,
};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Calls that one statement has at most, with those in bodies.
const CALLS_MAX: usize = 1_000;

/// Functions that call functions that call functions.
const DEPTH_MAX: usize = 32;

/// Expressions that all bodies of a statement come to.
const EXPRESSIONS_MAX: usize = 50_000;

/// A statement in which calls have been expanded.
pub struct Expanded {
    pub statement: Statement,
    /// What to say of a call that no routine of its name takes, should there be no function of PostgreSQL's either.
    pub missing: Option<SqlError>,
    /// Tables that it reads with the rights of owners of functions.
    pub tables: BTreeSet<TableId>,
}

/// The statement without calls of functions of users; `None` if it has none. Errors: 42501 for a function or a table that
/// the role may not use; 42883, 42725; 0A000 for a body that is no single SELECT; 54001 for functions that call themselves.
pub fn expand(
    check: &Check<'_>,
    parameters: &ParameterTypes,
    statement: &Statement,
) -> SqlResult<Option<Expanded>> {
    let lookup = Lookup { catalog: check.catalog, search_path: check.search_path, database: check.database };
    if check.catalog.routines.0.is_empty() || !calls_some(lookup, statement) {
        return Ok(None);
    }
    let mut statement = statement.clone();
    let mut spent = Spent::default();
    expand_within(check, parameters, &mut statement, &mut spent, 0)?;
    Ok(Some(Expanded { statement, missing: spent.missing, tables: spent.tables }))
}

/// Whether something calls a function of a user, as far as names tell.
pub fn calls_some(lookup: Lookup<'_>, node: &(impl walk::Node + ?Sized)) -> bool {
    let found: ControlFlow<()> = walk::expressions(node, |e| match e {
        Expr::Function(function) if !named(lookup, &function.name).is_empty() => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break() || table_calls(node).iter().any(|(name, _)| !named(lookup, name).is_empty())
}

/// Errors: 42501 for a function that the role may not call.
pub fn permit(check: &Check<'_>, routine: &Routine) -> SqlResult<()> {
    let may = |object: &Object, wanted| check.catalog.roles.may(check.standing, object, wanted);
    let is_temporary = crate::temporary::is_temporary(&routine.schema);
    if !is_temporary && !may(&Object::Schema(routine.schema.clone()), Privileges::USAGE) {
        return Err(denied("schema", &routine.schema));
    }
    match may(&Object::Relation(routine.id), Privileges::EXECUTE) {
        true => Ok(()),
        false if routine.aggregate().is_some() => Err(denied("aggregate", &routine.name)),
        false => Err(denied(routine.kind(), &routine.name)),
    }
}

/// Work that a statement's functions have made so far.
#[derive(Default)]
pub(super) struct Spent {
    calls: usize,
    expressions: usize,
    missing: Option<SqlError>,
    tables: BTreeSet<TableId>,
}

fn expand_within(
    check: &Check<'_>,
    parameters: &ParameterTypes,
    statement: &mut Statement,
    spent: &mut Spent,
    depth: usize,
) -> SqlResult<()> {
    let mut expansion = Expansion::new(check, parameters, spent, depth);
    let sources = match &*statement {
        Statement::Update(update) => {
            let mut all = vec![update.table.clone()];
            if let Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) =
                &update.from
            {
                all.extend(from.iter().cloned());
            }
            all
        }
        Statement::Delete(delete) => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
            from.iter().chain(delete.using.iter().flatten()).cloned().collect()
        }
        _ => Vec::new(),
    };
    let sources = expansion.scopes.from(expansion.lookup(), &sources);
    expansion.scopes.enter(sources);
    let returning = match statement {
        Statement::Insert(insert) => insert.returning.as_mut(),
        Statement::Update(update) => update.returning.as_mut(),
        Statement::Delete(delete) => delete.returning.as_mut(),
        _ => None,
    };
    expansion.name_items(returning.into_iter().flatten());
    match statement.walk_mut(&mut expansion) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// The walk through a statement.
pub(super) struct Expansion<'a, 's> {
    check: &'a Check<'a>,
    parameters: &'a ParameterTypes,
    spent: &'s mut Spent,
    depth: usize,
    scopes: Scopes,
    /// A function that is called with the privileges of an aggregate's owner, who has been found to have them.
    pub(super) permitted: Option<TableId>,
}

impl<'a, 's> Expansion<'a, 's> {
    pub(super) fn new(
        check: &'a Check<'a>,
        parameters: &'a ParameterTypes,
        spent: &'s mut Spent,
        depth: usize,
    ) -> Expansion<'a, 's> {
        Expansion { check, parameters, spent, depth, scopes: Scopes::default(), permitted: None }
    }

    fn lookup(&self) -> Lookup<'a> {
        let check = self.check;
        Lookup { catalog: check.catalog, search_path: check.search_path, database: check.database }
    }
    fn types(&self) -> Types<'_> {
        let is_body = self.depth > 0;
        Types { lookup: self.lookup(), scopes: &self.scopes, parameters: self.parameters, is_body }
    }

    /// Columns are called as the function, whatever stands in its place.
    fn name_items<'i>(&self, items: impl Iterator<Item = &'i mut SelectItem>) {
        for item in items {
            if let SelectItem::UnnamedExpr(e) = item
                && calls_some(self.lookup(), e)
            {
                let name = output_name(e);
                if name != "?column?" {
                    *item = SelectItem::ExprWithAlias { expr: e.clone(), alias: quoted(&name) };
                }
            }
        }
    }

    /// `SELECT f(…)` of a function that gives many rows as `SELECT * FROM f(…)`.
    fn move_set(&self, select: &mut Select) -> SqlResult<()> {
        let [item] = select.projection.as_slice() else { return Ok(()) };
        let (Some(Expr::Function(function)), true) = (body::expression(item), select.from.is_empty()) else {
            return Ok(());
        };
        let FunctionArguments::List(list) = &function.args else { return Ok(()) };
        let Some(resolved) = resolve(self.types(), &function.name, &list.args)? else { return Ok(()) };
        if !matches!(resolved.routine.result, ResultOf::SetOf(_)) {
            return Ok(());
        }
        let alias = match item {
            SelectItem::ExprWithAlias { alias, .. } => alias.clone(),
            _ => quoted(&resolved.routine.name),
        };
        // The column is called so even where the function has an OUT argument with a name.
        let columns = vec![ast::TableAliasColumnDef { name: alias.clone(), data_type: None }];
        let alias = ast::TableAlias { explicit: true, name: alias, columns, at: None };
        let factor = TableFactor::Function {
            lateral: false,
            name: function.name.clone(),
            args: list.args.clone(),
            with_ordinality: false,
            alias: Some(alias),
        };
        select.from = vec![TableWithJoins { relation: factor, joins: Vec::new() }];
        select.projection = vec![SelectItem::Wildcard(ast::WildcardAdditionalOptions::default())];
        Ok(())
    }

    fn resolved(&mut self, name: &ObjectName, arguments: &[FunctionArg]) -> SqlResult<Option<Resolved>> {
        let found = resolve(self.types(), name, arguments)?;
        if found.is_none() && self.spent.missing.is_none() {
            self.spent.missing = unfit(self.types(), name, arguments);
        }
        Ok(found)
    }

    fn expression(&mut self, e: &mut Expr) -> SqlResult<()> {
        let Expr::Function(function) = e else { return Ok(()) };
        let Some(arguments) = aggregates::arguments(&function.args) else { return Ok(()) };
        let Some(resolved) = self.resolved(&function.name, arguments)? else { return Ok(()) };
        let routine = resolved.routine.clone();
        if routine.aggregate().is_some() {
            *e = self.aggregate(function, &resolved)?;
            return Ok(());
        }
        aggregates::refuse_star(function, &routine.name)?;
        refuse_kind(self.check.catalog, function, &routine)?;
        match routine.result {
            _ if routine.is_set() => {
                return Err(SqlError::unsupported("a set-returning function in a list beside other values")
                    .hint(format!("Write it in FROM: … CROSS JOIN LATERAL {}(…).", routine.name)));
            }
            ResultOf::RowOf(_) | ResultOf::Record(_) | ResultOf::OpenRecord => {
                return Err(SqlError::unsupported("a row as a value")
                    .hint(format!("Write SELECT … FROM {}(…).", routine.name)));
            }
            _ => {}
        }
        let query = self.body(&resolved)?;
        let ResultOf::One(of) = routine.result else { return Err(not_within(&routine)) };
        *e = self.scalar(query, &resolved, of)?;
        Ok(())
    }

    /// The body of a call, in which other functions are expanded and arguments are `$n`. Errors: 0A000 if it is not one
    /// SELECT.
    fn body(&mut self, call: &Resolved) -> SqlResult<Query> {
        crate::interrupt::check()?;
        let routine = &call.routine;
        if self.permitted != Some(routine.id) {
            permit(self.check, routine)?;
        }
        self.spent.calls += 1;
        if self.spent.calls > CALLS_MAX || self.depth >= DEPTH_MAX {
            return Err(too_deep(routine));
        }
        let lookup = self.lookup();
        let Some(query) = single_query(lookup, routine)? else { return Err(not_within(routine)) };
        let mut statement = Statement::Query(Box::new(query));
        let owner = definer::owner(self.check, routine);
        let own = owner.as_ref().map(|standing| Check { standing, ..*self.check });
        let check = own.as_ref().unwrap_or(self.check);
        check.statement(&statement)?;
        let parameters = ParameterTypes(routine.types().map(TypeOf::known).collect());
        expand_within(check, &parameters, &mut statement, self.spent, self.depth + 1)?;
        if own.is_some() {
            self.spent.tables.extend(definer::tables(lookup, routine, &statement)?);
        }
        let Statement::Query(mut query) = statement else { return Err(SqlError::internal("it is a query")) };
        crate::views::qualify(self.check, &mut query);
        hiding::rename_lists(&mut query, self.spent.calls);
        Ok(*query)
    }

    /// A body in the place of a value.
    fn scalar(&mut self, query: Query, call: &Resolved, of: TypeOf) -> SqlResult<Expr> {
        let routine = &call.routine;
        let parameters = ParameterTypes(routine.types().map(TypeOf::known).collect());
        let mut bound = self.arguments(call)?;
        let is_plain = places::plain(&query);
        let mut value = match is_plain {
            Some(e) => {
                let nothing = Scopes::default();
                let (lookup, parameters) = (self.lookup(), &parameters);
                let types = Types { lookup, scopes: &nothing, parameters, is_body: true };
                let inferred = infer(types, e);
                self.typed(e.clone(), inferred, of)?
            }
            None => {
                let scopes = Scopes::default();
                let inferred = match scopes.outputs(self.lookup(), &query).as_slice() {
                    [(_, Some(of))] => Inferred::Known(*of),
                    _ => Inferred::Unknown,
                };
                let subquery = Expr::Subquery(Box::new(places::first_row(query)));
                self.typed(subquery, inferred, of)?
            }
        };
        if is_plain_refused(&value, &bound) {
            return Err(SqlError::unsupported("an aggregate as an argument of a function that reads tables")
                .hint("Compute the aggregate in a subquery in FROM, and call the function over that."));
        }
        if routine.is_strict {
            value = places::strict(value, &bound);
        }
        let mut once = places::computed_once(&value, &bound);
        if hiding::reads_tables(&value) && self.scopes.has_some() {
            once.iter_mut().zip(&bound).for_each(|(is_once, e)| *is_once |= hiding::names_within(e));
        }
        let is_over_row = once.iter().any(|is_once| *is_once);
        if is_over_row {
            value = places::over_arguments(value, &bound, &once);
        } else if hiding::reads_tables(&value) {
            bound = bound.into_iter().map(|e| hiding::qualified(e, &self.scopes)).collect();
        }
        self.spend(&value, &bound)?;
        places::put(&mut value, &bound, &once);
        Ok(Expr::Nested(Box::new(value)))
    }

    /// The arguments as values of their parameters' types.
    fn arguments(&self, call: &Resolved) -> SqlResult<Vec<Expr>> {
        let mut bound = Vec::with_capacity(call.arguments.len());
        for (e, parameter) in call.arguments.iter().zip(&call.routine.parameters) {
            let inferred = infer(self.types(), e);
            let typed = self.typed(e.clone(), inferred, parameter.of)?;
            bound.push(typed);
        }
        Ok(bound)
    }

    /// An expression as a value of a type.
    fn typed(&self, e: Expr, known: Inferred, of: TypeOf) -> SqlResult<Expr> {
        if of.domain.is_none() && known == Inferred::Known(of.data_type) {
            return Ok(e);
        }
        cast(self.check.catalog, e, of)
    }

    fn spend(&mut self, value: &Expr, bound: &[Expr]) -> SqlResult<()> {
        self.spent.expressions += places::size_with(value, bound);
        match self.spent.expressions > EXPRESSIONS_MAX {
            true => Err(crate::parse::too_deep()),
            false => Ok(()),
        }
    }
}

/// The one query that a body is; `None` if it is something else.
pub fn single_query(lookup: Lookup<'_>, routine: &Routine) -> SqlResult<Option<Query>> {
    if routine.language != Language::Sql {
        return Ok(None);
    }
    let mut statements = body::statements(lookup.catalog, lookup.search_path, lookup.database, routine)?;
    body::refuse_others(&statements)?;
    match (statements.pop(), statements.is_empty()) {
        (Some(Statement::Query(query)), true) if !crate::with::writes(&query) && query.locks.is_empty() => {
            Ok(Some(*query))
        }
        _ => Ok(None),
    }
}

/// Names and types of the columns of the rows that a function gives.
pub fn columns(catalog: &base::schema::Catalog, routine: &Routine) -> Vec<(String, TypeOf)> {
    match &routine.result {
        ResultOf::One(of) | ResultOf::SetOf(of) => {
            vec![(routine.output_name().unwrap_or(&routine.name).to_string(), *of)]
        }
        ResultOf::Table(columns) | ResultOf::Record(columns) => columns.clone(),
        ResultOf::RowOf(id) | ResultOf::SetOfRows(id) => {
            let shape = catalog.relation(*id).map(base::views::Relation::shape);
            let columns = shape.into_iter().flat_map(|shape| shape.visible_columns());
            columns.map(|(_, column)| (column.name.clone(), column.data_type.into())).collect()
        }
        // A call says which columns a record has that is open.
        ResultOf::OpenRecord
        | ResultOf::SetOfOpenRecords
        | ResultOf::Void
        | ResultOf::Procedure
        | ResultOf::Trigger => Vec::new(),
    }
}

/// Whether an aggregate would be one of the body's own query.
fn is_plain_refused(value: &Expr, bound: &[Expr]) -> bool {
    let has_subquery = places::has_subquery(value);
    has_subquery && bound.iter().any(places::has_aggregate)
}

/// Errors: 42809 for a procedure, and for a function as an aggregate.
fn refuse_kind(
    catalog: &base::schema::Catalog,
    function: &ast::Function,
    routine: &Arc<Routine>,
) -> SqlResult<()> {
    if routine.is_procedure() {
        return Err(is_procedure(catalog, routine));
    }
    if routine.result == ResultOf::Trigger {
        let told = "trigger functions can only be called as triggers";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, told));
    }
    let wrong = |told: String| Err(SqlError::new(SqlState(*b"42809"), told));
    let name = &routine.name;
    if function.over.is_some() {
        return wrong(format!(
            "OVER specified, but {name} is not a window function nor an aggregate function"
        ));
    }
    if function.filter.is_some() {
        return wrong(format!("FILTER specified, but {name} is not an aggregate function"));
    }
    match &function.args {
        FunctionArguments::List(list)
            if list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct) =>
        {
            wrong(format!("DISTINCT specified, but {name} is not an aggregate function"))
        }
        FunctionArguments::List(list) if !list.clauses.is_empty() => {
            wrong(format!("ORDER BY specified, but {name} is not an aggregate function"))
        }
        _ => Ok(()),
    }
}

fn is_procedure(catalog: &base::schema::Catalog, routine: &Routine) -> SqlError {
    let told = format!("{} is a procedure", super::spaced_signature(catalog, routine));
    SqlError::new(SqlState(*b"42809"), told).hint("To call a procedure, use CALL.")
}

/// 0A000: such a function is a statement of its own.
fn not_within(routine: &Routine) -> SqlError {
    let name = &routine.name;
    let what = match routine.language {
        Language::Sql => "that is more than one SELECT",
        Language::PlPgSql => "in PL/pgSQL",
    };
    SqlError::unsupported(format!("a function {what} inside a query"))
        .detail(format!("Function {name} is called inside a query."))
        .hint(format!("Call it alone: SELECT {name}(…), or SELECT * FROM {name}(…)."))
}

fn too_deep(routine: &Routine) -> SqlError {
    let error = crate::parse::too_deep();
    let told = format!("Function {} is called too often, or calls itself.", routine.name);
    error.detail(told)
}

impl VisitorMut for Expansion<'_, '_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        self.scopes.enter_query(self.lookup(), query);
        ControlFlow::Continue(())
    }
    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.scopes.leave_query();
        ControlFlow::Continue(())
    }
    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        if let Err(error) = self.move_set(select) {
            return ControlFlow::Break(error);
        }
        let sources = self.scopes.from(self.lookup(), &select.from);
        self.scopes.enter(sources);
        self.name_items(select.projection.iter_mut());
        ControlFlow::Continue(())
    }
    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<SqlError> {
        self.scopes.leave();
        ControlFlow::Continue(())
    }
    fn post_visit_expr(&mut self, e: &mut Expr) -> ControlFlow<SqlError> {
        match self.expression(e) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        match self.factor(factor) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

//! From a statement to a query's logical plan and the shape of its answer.

use super::context::Context;
use super::error::sql_error;
use super::kept_plans::Lookup;
use super::lookup::Names;
use super::query_plan::{QueryPlan, optimize};
use super::types;
use base::error::SqlResult;
use base::schema::Table;
use base::{DataType, SqlError, TableId};
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility};
use datafusion::sql::planner::{ParserOptions, SqlToRel};
use datafusion::sql::sqlparser::ast::{self, Statement};
use sql::interrupt;
use sql::lower::output_name;
use sql::lower::scope::ParameterTypes;
use sql::names;
use sql::types::{Column, array_oid, type_modifier, type_oid};
use sql::walk::{self, WalkMut};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Plans a statement that returns rows, or finds the plan of the same text over the same catalog.
pub fn plan(
    context: &Context<'_>,
    statement: &Statement,
    parameters: &mut ParameterTypes,
) -> SqlResult<Arc<QueryPlan>> {
    let plans = &context.analytics.plans;
    let key = (
        format!(
            "{};{};{}",
            context.catalog.database().0,
            sql::temporary::key_of(context.search_path, context.catalog),
            context.zone
        ),
        statement.to_string(),
    );
    let (catalog, search_path, database) = (context.catalog, context.search_path, context.database);
    let lookup = Lookup { catalog, search_path, database };
    if parameters.0.is_empty()
        && let Some(plan) = plans.get(&key, lookup)
    {
        return Ok(plan);
    }
    let plan = Arc::new(plan_with(context, statement, parameters, &[])?);
    if let Some(optimized) = &plan.optimized
        && plan.reads_tables()
        // Rows of a part of the statement come under another name each time.
        && plan.tables().all(|table| table.schema != sql::with::SCHEMA)
        && key.1.len() <= KEPT_BYTES_MAX
        && !sql::user_types::within(catalog, search_path, || names::are_types_named_in(statement))
    {
        let of = (catalog.version, lookup.tables(statement));
        plans.keep(key, of, plan.clone(), plan.kept_bytes(optimized));
    }
    Ok(plan)
}

/// Longer texts are planned each time, as are those that name types, whose labels may change: few of them come again.
const KEPT_BYTES_MAX: usize = 16 << 10;

/// The same; hidden columns of the tables in `hidden` can be named, but of those that subqueries read.
pub fn plan_with(
    context: &Context<'_>,
    statement: &Statement,
    parameters: &mut ParameterTypes,
    hidden: &[TableId],
) -> SqlResult<QueryPlan> {
    let (owned, mut statement, mut typed) = (context.to_owned(), statement.clone(), parameters.clone());
    let (catalog, path) = (context.catalog, context.search_path);
    sql::views::show_in_subqueries(catalog, path, context.database, hidden, &mut statement)?;
    let hidden = hidden.to_vec();
    let work = move || {
        let plan = || plan_apart(&owned.context(), &statement, &mut typed, &hidden);
        let planned = sql::user_types::within(&owned.catalog, &owned.search_path, || {
            sql::zones::within(owned.zone, plan)
        })?;
        Ok((planned, typed))
    };
    let (planned, typed) =
        interrupt::during(context.cancel, || interrupt::apart(context.analytics.node.threads(), work))?;
    *parameters = typed;
    Ok(planned)
}

fn plan_apart(
    context: &Context<'_>,
    statement: &Statement,
    parameters: &mut ParameterTypes,
    hidden: &[TableId],
) -> SqlResult<QueryPlan> {
    let declared = parameters.clone();
    let mut statement = Cow::Borrowed(statement);
    let mut planned = fenced(|| plan_now(context, &statement, parameters, hidden));
    // Each error tells of one function.
    while let Err(e) = &planned
        && e.state == base::SqlState::UNDEFINED_FUNCTION
        && let Some(typed) = super::rewrite::with_typed_literals(&statement, e)
    {
        *parameters = declared.clone();
        planned = fenced(|| plan_now(context, &typed, parameters, hidden));
        statement = Cow::Owned(typed);
    }
    match planned {
        // A function of something whose type nobody knows is one of text.
        Err(e) if e.state == base::SqlState::UNDEFINED_FUNCTION => {
            let Some(typed) = super::rewrite::with_typed_arguments(&statement, &declared) else {
                return Err(e);
            };
            *parameters = declared;
            fenced(|| plan_now(context, &typed, parameters, hidden)).map_err(|_| e)
        }
        planned => planned,
    }
}

/// Runs planning behind a fence: a panic in it is this statement's error, not the server's end.
pub(super) fn fenced<T>(work: impl FnOnce() -> SqlResult<T>) -> SqlResult<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(sql::panics::error(panic)))
}

fn plan_now(
    context: &Context<'_>,
    statement: &Statement,
    parameters: &mut ParameterTypes,
    hidden: &[TableId],
) -> SqlResult<QueryPlan> {
    let analytics = context.analytics;
    let of_dump = analytics.system.of_dump(statement);
    let statement = of_dump.as_ref().unwrap_or(statement);
    let bytes = super::complexity::check_statement(statement)?;
    super::row_locks::refuse_row_locks(statement)?;
    // Given back once the plan is there.
    let planning = super::memory::reserve(&analytics.memory, "a plan", bytes).map_err(sql_error)?;
    let mut asks_catalog = false;
    let written = match analytics.system.empty_plan(statement, context.catalog) {
        Some(empty) => empty,
        None => {
            let mut rewritten = statement.clone();
            cast_label_parameters(&mut rewritten, parameters)?;
            call_bare_words(&mut rewritten);
            analytics.system.gather(&mut rewritten);
            super::rewrite::rewrite(&mut rewritten, analytics)?;
            let for_catalog = analytics.system.rewrite(&rewritten);
            asks_catalog = for_catalog.is_some();
            if !asks_catalog {
                let columns = super::rewrite::rewrite_shapes(&mut rewritten, context, analytics)?;
                let bytes = bytes.saturating_add(super::complexity::of_columns(columns));
                planning.try_resize(bytes as usize).map_err(|e| sql_error(e))?;
                super::rewrite::tell_casts_apart(&mut rewritten, &analytics.state);
            }
            let (with_subqueries, mut rewritten) = for_catalog.unwrap_or((None, rewritten));
            super::rewrite::call_by_first_names(&mut rewritten, &analytics.state);
            let names = Names { analytics, context, hidden, asks_catalog };
            let settled = |statement: &Statement| settled(&names, statement, &planning);
            let kept = with_subqueries.and_then(|mut statement| {
                super::rewrite::call_by_first_names(&mut statement, &analytics.state);
                let plan = settled(&statement).ok()?;
                // Whether subqueries can be joined is known at last here.
                optimize(&analytics.state, &plan).is_ok().then_some(plan)
            });
            match kept.map_or_else(|| settled(&rewritten), Ok) {
                // A relation's name is a column's too.
                Err(error) if error.message.contains(NO_FIELDS) => {
                    let told_apart = super::rewrite::told_from_columns(&rewritten);
                    let missing = || super::rewrite::missing_relation(statement);
                    let no_parts =
                        || SqlError::unsupported("a part of a column (of a jsonb it is column -> 'key')");
                    settled(&told_apart).map_err(|_| missing().unwrap_or_else(no_parts))?
                }
                settled => settled?,
            }
        }
    };
    find_cast_parameters(statement, parameters);
    find_limit_parameters(statement, parameters);
    find_parameters(&written, parameters)?;
    let is_constant = parameters.0.is_empty() && !depends_on_time(&written).map_err(sql_error)?;
    let optimized = match is_constant {
        true => Some(optimize(&analytics.state, &written)?),
        false => None,
    };
    let shape = optimized.as_ref().unwrap_or(&written).schema();
    let fields: Vec<_> = shape.fields().iter().cloned().collect();
    super::complexity::check_width(fields.len())?;
    let mut shown = super::output::shown_names(statement, fields.len()).into_iter();
    let modifiers = super::output::modifiers(statement, fields.len());
    let columns = fields
        .iter()
        .enumerate()
        .map(|(n, field)| {
            let name = shown.next().flatten().unwrap_or_else(|| super::rewrite::shown(field.name()).into());
            let chosen = super::chosen_types::of_column(&written, n);
            let data_type = chosen.unwrap_or_else(|| types::shown_type(field));
            let mut column = Column::new(name, data_type);
            if !matches!(data_type, DataType::Varchar { .. } | DataType::Char { .. }) {
                column.type_modifier = -1;
            }
            if let Some((table, number)) = super::origins::origin(&written, n) {
                column.origin = Some((sql::lower::oid(table.id), number as i16 + 1));
                let stored = table.columns[number].data_type;
                if type_oid(stored) == column.type_oid {
                    column.type_modifier = type_modifier(stored);
                }
            }
            if let Some(Some((oid, modifier))) = modifiers.get(n)
                && *oid == column.type_oid
            {
                column.type_modifier = *modifier;
            }
            if chosen.is_none()
                && let Some(element) = types::innermost_type(field.data_type())
            {
                column.type_oid = array_oid(type_oid(element));
            }
            if asks_catalog && let Some(announced) = sql::spans::announced_column(&column.name) {
                column.type_oid = announced;
            }
            column
        })
        .collect();
    let tables = tables_of(optimized.as_ref().unwrap_or(&written)).map_err(sql_error)?;
    Ok(QueryPlan {
        written,
        optimized,
        parameters: parameters.0.iter().map(|t| t.unwrap_or(DataType::Text)).collect(),
        columns: Arc::new(columns),
        user_types: sql::user_types::Kept::here(),
        tables,
    })
}

/// The planner's plan of a statement, with PostgreSQL's types.
fn settled(names: &Names<'_>, statement: &Statement, planning: &MemoryReservation) -> SqlResult<LogicalPlan> {
    let options = ParserOptions::from(&names.analytics.state.config_options().sql_parser);
    let planner = SqlToRel::new_with_options(names, options);
    let planned = match planner.sql_statement_to_plan(statement.clone()) {
        // PostgreSQL lets two output columns have one name.
        Err(e) if e.to_string().contains(SAME_NAMES) => {
            planner.sql_statement_to_plan(with_distinct_names(statement))
        }
        planned => planned,
    };
    let mut planned = planned.and_then(super::lateral::settle).map_err(sql_error)?;
    if !names.asks_catalog && takes_a_field(&planned).map_err(sql_error)? {
        // No column has parts.
        return Err(SqlError::unsupported(format!("{NO_FIELDS}: a part of a column")));
    }
    let bytes = super::complexity::check(&planned)?;
    planning.try_resize(bytes as usize).map_err(|e| sql_error(e))?;
    if !names.asks_catalog {
        planned = super::set_types::settle(planned).map_err(sql_error)?;
        planned = super::named_queries::settle(planned, statement).map_err(sql_error)?;
        super::checks::refuse_misread(&planned).map_err(sql_error)?;
        super::window_arguments::check(&planned).map_err(sql_error)?;
        super::recursive_types::check(&planned).map_err(sql_error)?;
        planned = unnested(planned, planning)?;
        planned = super::lifted_subqueries::lift(planned).map_err(sql_error)?;
        planned = super::equal_keys::merge(planned).map_err(sql_error)?;
        planned = super::barriers::place(planned).map_err(sql_error)?;
    }
    let settled = super::scalars::settle(planned, true).map_err(sql_error)?;
    super::constant_sides::settle(settled).map_err(sql_error)
}

/// The plan without subqueries that the planner has no join for. Errors: 54001 where that makes it too large.
fn unnested(plan: LogicalPlan, planning: &MemoryReservation) -> SqlResult<LogicalPlan> {
    let (plan, is_changed) = super::unnesting::settle(plan).map_err(sql_error)?;
    if is_changed {
        let bytes = super::complexity::check(&plan)?;
        planning.try_resize(bytes as usize).map_err(|e| sql_error(e))?;
    }
    Ok(plan)
}

/// Whether the planner took a qualified name for a part of a column.
fn takes_a_field(plan: &LogicalPlan) -> Result<bool, DataFusionError> {
    finds(plan, &|e| matches!(e, Expr::ScalarFunction(call) if call.name() == "get_field"))
}

/// Whether an expression of a plan, or a part of one, is such.
fn finds(plan: &LogicalPlan, is_such: &dyn Fn(&Expr) -> bool) -> Result<bool, DataFusionError> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|e| {
            e.apply(|e| {
                found |= is_such(e);
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(found)
}

/// Types of parameters that the text casts: `$1::int` is one of `int`.
fn find_cast_parameters(statement: &Statement, parameters: &mut ParameterTypes) {
    let _: ControlFlow<()> = walk::expressions(statement, |e| {
        if let ast::Expr::Cast { expr, data_type, .. } = e
            && let ast::Expr::Value(value) = expr.as_ref()
            && let ast::Value::Placeholder(name) = &value.value
            && let Ok(n) = sql::lower::expr::placeholder(name)
            && let Ok(Some(field)) = types::SqlTypes.plan_type_field(data_type)
            && field.data_type().is_integer()
            && !data_type.to_string().to_lowercase().contains("reg")
        {
            parameters.found(n, types::from_arrow(field.data_type()));
        }
        ControlFlow::Continue(())
    });
}

/// Parameters that are the whole of LIMIT or OFFSET count rows.
fn find_limit_parameters(statement: &Statement, parameters: &mut ParameterTypes) {
    struct Limits<'p>(&'p mut ParameterTypes);
    impl ast::Visitor for Limits<'_> {
        type Break = ();
        fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
            let Some(ast::LimitClause::LimitOffset { limit, offset, .. }) = &query.limit_clause else {
                return ControlFlow::Continue(());
            };
            for e in limit.iter().chain(offset.iter().map(|offset| &offset.value)) {
                if let ast::Expr::Value(value) = e
                    && let ast::Value::Placeholder(name) = &value.value
                    && let Ok(n) = sql::lower::expr::placeholder(name)
                {
                    self.0.found(n, DataType::BigInt);
                }
            }
            ControlFlow::Continue(())
        }
    }
    let _ = sql::walk::Walk::walk(statement, &mut Limits(parameters));
}

/// `current_schema` is a call without its brackets.
fn call_bare_words(statement: &mut Statement) {
    let _: ControlFlow<()> = walk::expressions_mut(statement, |e| {
        if let ast::Expr::Identifier(ident) = &*e
            && ident.quote_style.is_none()
            && ident.value.eq_ignore_ascii_case("current_schema")
            && let Ok(call) = sql::parse::parse_expr("current_schema()")
        {
            *e = call;
        }
        ControlFlow::Continue(())
    });
}

/// Parameters of users' types are cast to them: the planner does not know what a client has declared.
fn cast_label_parameters(statement: &mut Statement, parameters: &ParameterTypes) -> SqlResult<()> {
    let label = |n: usize| match parameters.0.get(n) {
        Some(Some(of @ (DataType::Enum(_) | DataType::Composite(_)))) => Some(*of),
        _ => None,
    };
    if (0..parameters.0.len()).all(|n| label(n).is_none()) {
        return Ok(());
    }
    let cast = walk::expressions_mut(statement, |e| {
        if let ast::Expr::Value(value) = &*e
            && let ast::Value::Placeholder(name) = &value.value
            && let Ok(n) = sql::lower::expr::placeholder(name)
            && let Some(of) = label(n)
        {
            match sql::parse::parse_expr(&format!("CAST({name} AS {})", of.qualified_name())) {
                Ok(cast) => *e = cast,
                Err(error) => return ControlFlow::Break(error),
            }
        }
        ControlFlow::Continue(())
    });
    match cast {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Types of parameters as the plan knows them, where the client left them open.
fn find_parameters(plan: &LogicalPlan, parameters: &mut ParameterTypes) -> SqlResult<()> {
    for (name, data_type) in plan.get_parameter_types().map_err(sql_error)? {
        let n = sql::lower::expr::placeholder(&name)?;
        if parameters.0.len() <= n {
            parameters.0.resize(n + 1, None);
        }
        if parameters.0[n].is_none() {
            parameters.0[n] = data_type.as_ref().map(types::from_arrow);
        }
    }
    Ok(())
}

/// Whether the plan holds a function whose value changes from one execution to the next.
fn depends_on_time(plan: &LogicalPlan) -> Result<bool, DataFusionError> {
    finds(plan, &|e| match e {
        Expr::ScalarFunction(function) => function.func.signature().volatility != Volatility::Immutable,
        _ => false,
    })
}

/// Tables that a plan reads.
fn tables_of(plan: &LogicalPlan) -> Result<BTreeMap<TableId, Arc<Table>>, DataFusionError> {
    let mut tables = BTreeMap::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
            && let Some(columns) = provider.downcast_ref::<super::provider::ColumnTable>()
        {
            tables.insert(columns.table.id, columns.table.clone());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(tables)
}

/// What DataFusion says of two output columns with one name.
const SAME_NAMES: &str = "require unique expression names";

/// What DataFusion says of a part of a column that has none.
const NO_FIELDS: &str = "Cannot access field at argument";

/// The statement with an alias for every output column that has none, and for every second one of a name in subqueries;
/// [`shown_names`] shows the original.
fn with_distinct_names(statement: &Statement) -> Statement {
    struct Subqueries;
    impl ast::VisitorMut for Subqueries {
        type Break = ();
        fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<()> {
            name_apart(&mut query.body, false);
            ControlFlow::Continue(())
        }
    }
    let mut statement = statement.clone();
    if let Statement::Query(query) = &mut statement {
        name_apart(&mut query.body, true);
    }
    let _: ControlFlow<()> = statement.walk_mut(&mut Subqueries);
    statement
}

/// Gives output columns names of their own: those of a name that is taken, and if `all`, those without an alias.
fn name_apart(body: &mut ast::SetExpr, all: bool) {
    let select = match body {
        ast::SetExpr::Query(inner) => return name_apart(&mut inner.body, all),
        ast::SetExpr::SetOperation { left, right, .. } => {
            name_apart(left, all);
            return name_apart(right, all);
        }
        ast::SetExpr::Select(select) => select,
        _ => return,
    };
    let mut given = BTreeSet::new();
    for (i, item) in select.projection.iter_mut().enumerate() {
        let (e, name, has_alias) = match item {
            ast::SelectItem::UnnamedExpr(e) => (&*e, output_name(e), false),
            ast::SelectItem::ExprWithAlias { expr, alias } => (&*expr, names::fold(alias), true),
            _ => continue,
        };
        let is_taken = if has_alias || !all { !given.insert(name.clone()) } else { true };
        if is_taken {
            let alias = ast::Ident::with_quote('"', format!("{name}#{i}"));
            *item = ast::SelectItem::ExprWithAlias { expr: e.clone(), alias };
        }
    }
}

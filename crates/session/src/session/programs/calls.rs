//! Calls of functions in PL/pgSQL from statements.
//!
//! A function may change the database, and a query may be computed more than once, or on several threads. So calls are
//! made before the statement that contains them: the value of one becomes a parameter of the statement, the rows of one in
//! FROM become a table of it. KEEPS: a call whose arguments come from rows, or that would be made once for each row, or only
//! under a condition, is refused.

use super::{Compiled, Session, kinds};
use crate::session::plan::{self, Plan};
use crate::session::write::Written;
use analytics::Context;
use base::error::SqlResult;
use base::roles::{Object, Privileges};
use base::routines::{Language, ResultOf, Routine, TypeOf, Volatility};
use base::schema::{Catalog, Table};
use base::{DataType, Datum, SqlError, SqlState};
use sql::lower::output_name;
use sql::lower::scope::ParameterTypes;
use sql::routines::body::argument;
use sql::routines::{self, is_assignable};
use sql::types::Column;
use sql::walk::{Walk, WalkMut};
use sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, SelectItem, SetExpr,
    Statement, TableFactor, Visitor, VisitorMut,
};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A statement with calls.
pub struct CallsPlan {
    calls: Vec<Call>,
    /// `None`: CALL alone.
    main: Option<Plan>,
    /// With a table for the rows of each call in FROM.
    catalog: Arc<Catalog>,
    /// Parameters of the statement as it was written.
    given: usize,
    pub columns: Option<Arc<Vec<Column>>>,
    pub tag: &'static str,
    /// What it is called where only reading is allowed; `None`: it only reads.
    pub word: Option<&'static str>,
}

struct Call {
    routine: Arc<Routine>,
    /// The query of its arguments; `None` if it has none.
    arguments: Option<Plan>,
    /// What its rows are for the statement; `None`: its value is a parameter.
    table: Option<Arc<Table>>,
}

/// A call that was found in a statement.
struct Found {
    routine: Arc<Routine>,
    arguments: Vec<Expr>,
    is_table: bool,
}

/// Whether any function may be called that is a program.
fn has_programs(catalog: &Catalog) -> bool {
    catalog.routines.0.values().any(|routine| routine.language == Language::PlPgSql)
}

/// The programs of a name that take so many arguments.
fn named<'c>(context: &'c Context<'_>, name: &ObjectName, count: usize) -> Vec<&'c Arc<Routine>> {
    let Ok((schema, name)) = sql::names::qualified(name, context.database) else { return Vec::new() };
    let of_schema = |schema: &String| {
        let fits = |routine: &&Arc<Routine>| {
            routine.language == Language::PlPgSql
                && routine.schema == *schema
                && routine.name == name
                && (routine.required()..=routine.parameters.len()).contains(&count)
        };
        context.catalog.routines.0.values().filter(fits).collect::<Vec<_>>()
    };
    let mut schemas = routines::schemas(schema.as_ref(), context.search_path);
    schemas.find_map(|schema| Some(of_schema(schema)).filter(|found| !found.is_empty())).unwrap_or_default()
}

/// Plans a statement that calls programs; `None`: it calls none. Errors: 0A000 for a call that is not made before its
/// statement, 42725, 42501, and those of planning.
pub(in crate::session) fn plan_calls(
    context: &Context<'_>,
    statement: &Statement,
    parameters: &mut ParameterTypes,
) -> SqlResult<Option<Plan>> {
    let is_one = matches!(
        statement,
        Statement::Query(_)
            | Statement::Insert(_)
            | Statement::Update(_)
            | Statement::Delete(_)
            | Statement::Merge(_)
    );
    if !is_one || !has_programs(context.catalog) || !calls_some(context, statement) {
        return Ok(None);
    }
    let given = highest_parameter(statement).max(parameters.0.len());
    let mut main = statement.clone();
    in_from(context, &mut main)?;
    let changes = matches!(statement, Statement::Update(_) | Statement::Delete(_) | Statement::Merge(_));
    let mut calls = Calls {
        context,
        given,
        found: Vec::new(),
        values: 0,
        per_row: vec![changes],
        conditions: 0,
        factors: 0,
    };
    if let ControlFlow::Break(error) = main.walk_mut(&mut calls) {
        return Err(error);
    }
    let found = std::mem::take(&mut calls.found);
    let mut catalog = context.catalog.clone();
    let mut types = parameters.clone();
    types.0.resize(given, None);
    let mut made = Vec::new();
    for (nth, call) in found.into_iter().enumerate() {
        let mut table = None;
        if call.is_table {
            let of_rows = sql::with::table_of_rows(nth, kinds::columns(context.catalog, &call.routine));
            let of_rows = Arc::new(of_rows);
            Arc::make_mut(&mut catalog).tables.insert(of_rows.id, of_rows.clone());
            table = Some(of_rows);
        }
        let arguments = plan_arguments(context, &call.routine, call.arguments, &mut types)?;
        if table.is_none() {
            let columns = kinds::columns(context.catalog, &call.routine);
            types.0.push(Some(columns[0].1));
        }
        made.push(Call { routine: call.routine, arguments, table });
    }
    let main = plan::plan_over_tables(&context.over(&catalog), &main, &mut types)?;
    if matches!(main, Plan::Utility(_) | Plan::With(_) | Plan::Checked(_)) {
        return Err(SqlError::unsupported("a function in PL/pgSQL in this statement"));
    }
    types.0.truncate(given);
    *parameters = types;
    let word = super::super::with::word_of(&main);
    let tag = if word == Some("INSERT") { "INSERT 0" } else { word.unwrap_or("SELECT") };
    let columns = main.columns().map(|columns| {
        let is_own = |column: &Column| {
            made.iter()
                .filter_map(|call| call.table.as_ref())
                .any(|table| column.origin.map(|(oid, _)| oid) == Some(sql::lower::oid(table.id)))
        };
        let known =
            |column: &Column| Column { origin: column.origin.filter(|_| !is_own(column)), ..column.clone() };
        Arc::new(columns.iter().map(known).collect::<Vec<_>>())
    });
    Ok(Some(Plan::Calls(Box::new(CallsPlan {
        calls: made,
        main: Some(main),
        catalog,
        given,
        columns,
        tag,
        word,
    }))))
}

/// Plans CALL of a procedure that is a program, and DO; `None`: it is another procedure.
pub(in crate::session) fn plan_call(
    context: &Context<'_>,
    function: &ast::Function,
    parameters: &mut ParameterTypes,
) -> SqlResult<Option<Plan>> {
    if let Some(block) = sql::parse::do_block(function) {
        return Compiled::of_block(&block).map(|compiled| Some(Plan::Do(compiled)));
    }
    let found = named(context, &function.name, routines::count(&function.args));
    if found.is_empty() {
        return Ok(None);
    }
    let arguments = unnamed(&function.args)?;
    let routine = chosen(context, &function.name, found, &arguments)?;
    if !routine.is_procedure() {
        let message = format!("{} is not a procedure", routines::signature(context.catalog, &routine));
        return Err(SqlError::new(SqlState(*b"42809"), message).hint("To call a function, use SELECT."));
    }
    let given = highest_parameter(&Statement::Call(function.clone())).max(parameters.0.len());
    parameters.0.resize(given, None);
    let arguments = plan_arguments(context, &routine, arguments, parameters)?;
    Ok(Some(Plan::Calls(Box::new(CallsPlan {
        calls: vec![Call { routine, arguments, table: None }],
        main: None,
        catalog: context.catalog.clone(),
        given,
        columns: None,
        tag: "CALL",
        word: None,
    }))))
}

/// The arguments of a call. Errors: 0A000 for those that are named.
fn unnamed(arguments: &FunctionArguments) -> SqlResult<Vec<Expr>> {
    let list = match arguments {
        FunctionArguments::None => return Ok(Vec::new()),
        FunctionArguments::List(list) if list.clauses.is_empty() && list.duplicate_treatment.is_none() => {
            &list.args
        }
        _ => return Err(SqlError::unsupported("these arguments of a function in PL/pgSQL")),
    };
    list.iter().map(one_unnamed).collect()
}

fn one_unnamed(argument: &FunctionArg) -> SqlResult<Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) => Ok(e.clone()),
        _ => Err(SqlError::unsupported("named arguments of a function in PL/pgSQL")
            .hint("Give the arguments in their order.")),
    }
}

/// The one of several functions that arguments are for. Errors: 42725, 42501.
fn chosen(
    context: &Context<'_>,
    name: &ObjectName,
    mut found: Vec<&Arc<Routine>>,
    arguments: &[Expr],
) -> SqlResult<Arc<Routine>> {
    if found.len() > 1 {
        let types: Vec<Option<DataType>> = arguments.iter().map(|e| known_type(context, e)).collect();
        let score = |routine: &Arc<Routine>| -> Option<usize> {
            let pairs = types.iter().zip(routine.types());
            pairs
                .map(|(given, of)| match given {
                    None => Some(0),
                    Some(given) if routines::unlimited(*given) == of.data_type => Some(1),
                    Some(given) => is_assignable(*given, of.data_type).then_some(0),
                })
                .sum()
        };
        let best = found.iter().filter_map(|routine| score(routine)).max();
        found.retain(|routine| score(routine) == best && best.is_some());
    }
    let routine = match found.as_slice() {
        [one] => Arc::clone(one),
        [] => {
            let message = format!("no function {name} takes arguments of these types");
            return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message)
                .hint("You might need to add explicit type casts."));
        }
        _ => {
            let message = format!("function {name} is not unique");
            return Err(SqlError::new(routines::AMBIGUOUS, message).hint(
                "Could not choose a best candidate function. You might need to add explicit type casts.",
            ));
        }
    };
    let check = plan::names_of(context);
    if !check.may(&Object::Relation(routine.id), Privileges::EXECUTE) {
        return Err(sql::privileges::denied(routine.kind(), &routine.name));
    }
    Ok(routine)
}

/// The type of an argument that has one by itself.
fn known_type(context: &Context<'_>, e: &Expr) -> Option<DataType> {
    if sql::routines::body::is_untyped(e) {
        return None;
    }
    let statement = select_of(vec![e.clone()]).ok()?;
    let plan = plan::plan_permitted(context, &statement, &mut ParameterTypes::default()).ok()?;
    plan.columns().and_then(|columns| columns.first().map(|column| column.data_type))
}

/// The query of a call's arguments, each of the type that the function takes.
fn plan_arguments(
    context: &Context<'_>,
    routine: &Routine,
    mut given: Vec<Expr>,
    parameters: &mut ParameterTypes,
) -> SqlResult<Option<Plan>> {
    for parameter in routine.parameters.iter().skip(given.len()) {
        let default = parameter.default.as_deref().unwrap_or("NULL");
        given.push(sql::parse::parse_expr(default)?);
    }
    if given.is_empty() {
        return Ok(None);
    }
    let cast = |(e, of): (Expr, TypeOf)| {
        let name = routines::type_name(context.catalog, of);
        super::super::own_calls::cast(e, &name).ok_or_else(|| SqlError::internal("a type has a name"))
    };
    let items = given.into_iter().zip(routine.types()).map(cast).collect::<SqlResult<Vec<_>>>()?;
    plan::plan_permitted(context, &select_of(items)?, parameters).map(Some)
}

fn select_of(items: Vec<Expr>) -> SqlResult<Statement> {
    super::super::rich::select_of(items)
}

/// The highest `$n` of a statement.
fn highest_parameter(statement: &Statement) -> usize {
    let mut highest = 0;
    let _: ControlFlow<()> = sql::walk::expressions(statement, |e| {
        highest = highest.max(routines::body::argument_of(e).unwrap_or(0));
        ControlFlow::Continue(())
    });
    highest
}

/// Whether a statement calls a program.
fn calls_some(context: &Context<'_>, statement: &Statement) -> bool {
    struct Looking<'a>(&'a Context<'a>);
    impl Looking<'_> {
        fn flow(&self, name: &ObjectName, count: usize) -> ControlFlow<()> {
            match named(self.0, name, count).is_empty() {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        }
    }
    impl Visitor for Looking<'_> {
        type Break = ();
        fn pre_visit_expr(&mut self, e: &Expr) -> ControlFlow<()> {
            match e {
                Expr::Function(f) => self.flow(&f.name, routines::count(&f.args)),
                _ => ControlFlow::Continue(()),
            }
        }
        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            match table_call(factor) {
                Some((name, arguments)) => self.flow(name, arguments.len()),
                None => ControlFlow::Continue(()),
            }
        }
    }
    statement.walk(&mut Looking(context)).is_break()
}

/// A function that stands for a table.
fn table_call(factor: &TableFactor) -> Option<(&ObjectName, &[FunctionArg])> {
    match factor {
        TableFactor::Table { name, args: Some(args), .. } => Some((name, &args.args)),
        TableFactor::Function { name, args, .. } => Some((name, args)),
        _ => None,
    }
}

/// `SELECT f(…)` of a function that returns rows, alone, as `SELECT * FROM f(…)`. Errors: 0A000 for rows of several columns.
fn in_from(context: &Context<'_>, statement: &mut Statement) -> SqlResult<()> {
    let Statement::Query(query) = statement else { return Ok(()) };
    let SetExpr::Select(select) = query.body.as_mut() else { return Ok(()) };
    let [item] = select.projection.as_slice() else { return Ok(()) };
    let (expr, alias) = match item {
        SelectItem::UnnamedExpr(e) => (e, None),
        SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias.clone())),
        _ => return Ok(()),
    };
    let Expr::Function(function) = expr else { return Ok(()) };
    let found = named(context, &function.name, routines::count(&function.args));
    if !found.iter().any(|routine| routine.is_set()) || !select.from.is_empty() {
        return Ok(());
    }
    let arguments = unnamed(&function.args)?;
    let name = alias.unwrap_or_else(|| Ident::with_quote('"', output_name(expr)));
    let shown: Vec<String> = arguments.iter().map(Expr::to_string).collect();
    let text = format!("SELECT {name} FROM {}({}) AS {name} ({name})", function.name, shown.join(", "));
    let whole = super::binding::parsed(&text)?;
    if let Statement::Query(whole) = whole
        && let SetExpr::Select(whole) = *whole.body
    {
        select.projection = whole.projection;
        select.from = whole.from;
    }
    Ok(())
}

/// Takes calls out of a statement, inner ones first.
struct Calls<'a> {
    context: &'a Context<'a>,
    given: usize,
    found: Vec<Found>,
    /// Calls whose value is a parameter.
    values: usize,
    /// Whether what is around has rows.
    per_row: Vec<bool>,
    /// Expressions around that evaluate only some of their parts.
    conditions: usize,
    factors: usize,
}

fn is_conditional(e: &Expr) -> bool {
    match e {
        Expr::Case { .. } => true,
        Expr::Function(f) => ["coalesce", "nullif"].contains(&f.name.to_string().to_lowercase().as_str()),
        _ => false,
    }
}

impl Calls<'_> {
    /// Errors: 0A000.
    fn check_place(&self, routine: &Routine) -> SqlResult<()> {
        let shown = routines::signature(self.context.catalog, routine);
        if self.conditions > 0 {
            return Err(SqlError::unsupported(format!("a call of {shown} inside of CASE or COALESCE"))
                .hint("The function would be called whatever the condition is. Use IF, or call it in a statement of its own."));
        }
        let has_rows = self.factors == 0 && self.per_row.iter().any(|per_row| *per_row);
        if has_rows && routine.volatility == Volatility::Volatile {
            return Err(SqlError::unsupported(format!("a call of {shown}, which is volatile, for each row"))
                .hint(
                    "Loop over the rows in PL/pgSQL, or declare the function STABLE: then it is called once.",
                ));
        }
        Ok(())
    }

    /// Errors: 0A000 for arguments of rows.
    fn check_arguments(&self, routine: &Routine, arguments: &[Expr]) -> SqlResult<()> {
        let is_column = |e: &Expr| match e {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        };
        let has_columns =
            |e: &Expr| !matches!(e, Expr::Subquery(_)) && sql::walk::expressions(e, is_column).is_break();
        if arguments.iter().any(has_columns) {
            let shown = routines::signature(self.context.catalog, routine);
            return Err(SqlError::unsupported(format!("a call of {shown} with columns as arguments"))
                .hint("Loop over the rows in PL/pgSQL: FOR r IN query LOOP … END LOOP."));
        }
        Ok(())
    }

    /// The value of a call; `None`: it is a call of something else.
    fn value(&mut self, function: &ast::Function) -> SqlResult<Option<Expr>> {
        let found = named(self.context, &function.name, routines::count(&function.args));
        if found.is_empty() {
            return Ok(None);
        }
        let arguments = unnamed(&function.args)?;
        let routine = chosen(self.context, &function.name, found, &arguments)?;
        let shown = routines::signature(self.context.catalog, &routine);
        if function.over.is_some() || function.filter.is_some() {
            return Err(SqlError::unsupported(format!("{shown} over a window or with FILTER")));
        }
        match &routine.result {
            ResultOf::Procedure => {
                let message = format!("{shown} is a procedure");
                return Err(
                    SqlError::new(SqlState(*b"42809"), message).hint("To call a procedure, use CALL.")
                );
            }
            ResultOf::Trigger => {
                let message = "trigger functions can only be called as triggers";
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            ResultOf::One(_) | ResultOf::Void => {}
            _ => {
                return Err(SqlError::unsupported(format!("{shown}, which returns rows, as a value"))
                    .hint(format!("Use SELECT * FROM {}(…).", routine.name)));
            }
        }
        self.check_place(&routine)?;
        self.check_arguments(&routine, &arguments)?;
        self.found.push(Found { routine, arguments, is_table: false });
        self.values += 1;
        Ok(Some(argument(self.given + self.values)))
    }

    /// The table that rows of a call are; `None`: it is something else.
    fn table(&mut self, factor: &TableFactor) -> SqlResult<Option<TableFactor>> {
        let Some((name, arguments)) = table_call(factor) else { return Ok(None) };
        let found = named(self.context, name, arguments.len());
        if found.is_empty() {
            return Ok(None);
        }
        let arguments = arguments.iter().map(one_unnamed).collect::<SqlResult<Vec<_>>>()?;
        let routine = chosen(self.context, name, found, &arguments)?;
        let mut alias = match factor {
            TableFactor::Table { alias, with_ordinality: false, .. } => alias.clone(),
            TableFactor::Function { alias, .. } => alias.clone(),
            _ => return Err(SqlError::unsupported("WITH ORDINALITY for a function in PL/pgSQL")),
        };
        if routine.is_procedure() || routine.result == ResultOf::Trigger {
            return Err(SqlError::unsupported(format!("a {} in FROM", routine.kind())));
        }
        self.check_arguments(&routine, &arguments)?;
        let at = self.found.len();
        let text = format!(
            "SELECT * FROM \"{}\".\"{at}\" AS {}",
            sql::with::SCHEMA,
            sql::views::quoted(&routine.name)
        );
        let made = sql::parse::parse(&text)?;
        let Some(Statement::Query(query)) = made.into_iter().next() else {
            return Err(SqlError::internal("a query is a query"));
        };
        let SetExpr::Select(mut select) = *query.body else {
            return Err(SqlError::internal("a query is a SELECT"));
        };
        let mut table = select.from.remove(0).relation;
        if let Some(alias) = alias.take()
            && let TableFactor::Table { alias: own, .. } = &mut table
        {
            // A function that gives one column gives it the name that the table has.
            let mut alias = alias;
            let is_scalar = matches!(routine.result, ResultOf::One(_) | ResultOf::SetOf(_) | ResultOf::Void);
            if is_scalar && alias.columns.is_empty() {
                let name = alias.name.clone();
                alias.columns.push(ast::TableAliasColumnDef { name, data_type: None });
            }
            *own = Some(alias);
        }
        self.found.push(Found { routine, arguments, is_table: true });
        Ok(Some(table))
    }
}

impl VisitorMut for Calls<'_> {
    type Break = SqlError;

    fn pre_visit_select(&mut self, select: &mut ast::Select) -> ControlFlow<SqlError> {
        self.per_row.push(!select.from.is_empty());
        for item in &mut select.projection {
            // What becomes a parameter would lose its name.
            if let SelectItem::UnnamedExpr(e @ (Expr::Function(_) | Expr::Cast { .. })) = item {
                let alias = Ident::with_quote('"', output_name(e));
                *item = SelectItem::ExprWithAlias { expr: e.clone(), alias };
            }
        }
        ControlFlow::Continue(())
    }
    fn post_visit_select(&mut self, _: &mut ast::Select) -> ControlFlow<SqlError> {
        self.per_row.pop();
        ControlFlow::Continue(())
    }
    fn pre_visit_table_factor(&mut self, _: &mut TableFactor) -> ControlFlow<SqlError> {
        self.factors += 1;
        ControlFlow::Continue(())
    }
    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        self.factors -= 1;
        match self.table(factor) {
            Ok(Some(table)) => *factor = table,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }
    fn pre_visit_expr(&mut self, e: &mut Expr) -> ControlFlow<SqlError> {
        self.conditions += usize::from(is_conditional(e));
        ControlFlow::Continue(())
    }
    fn post_visit_expr(&mut self, e: &mut Expr) -> ControlFlow<SqlError> {
        self.conditions -= usize::from(is_conditional(e));
        let Expr::Function(function) = e else { return ControlFlow::Continue(()) };
        match self.value(function) {
            Ok(Some(value)) => *e = value,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }
}

impl CallsPlan {
    /// What EXPLAIN says of it.
    pub fn explained(&self) -> String {
        let names: Vec<&str> = self.calls.iter().map(|call| call.routine.name.as_str()).collect();
        format!("Functions called before the statement: {}", names.join(", "))
    }
}

impl Session {
    /// Makes the calls, then runs the statement over what they gave.
    pub(in crate::session) async fn calls_buffered(
        &mut self,
        plan: &CallsPlan,
        parameters: &[Datum],
        attempts: usize,
    ) -> SqlResult<Written> {
        if self.open().parts.is_some() {
            return Err(SqlError::unsupported("a function in PL/pgSQL in a WITH that writes")
                .hint("Call it in a statement of its own."));
        }
        let mut values = parameters.to_vec();
        values.resize(plan.given, Datum::Null);
        let mut tables = Vec::new();
        for call in &plan.calls {
            let arguments = match &call.arguments {
                Some(arguments) => self.arguments(arguments, &values).await?,
                None => Vec::new(),
            };
            let returned = self.call_routine(&call.routine, arguments).await?;
            match &call.table {
                Some(table) => {
                    let rows: Vec<_> = returned.rows.into_iter().map(Arc::new).collect();
                    tables.push((table.id, rows));
                }
                None => {
                    let row = returned.rows.into_iter().next().unwrap_or_default();
                    values.push(row.into_iter().next().unwrap_or_default());
                }
            }
        }
        let Some(main) = &plan.main else { return Ok(Written::default()) };
        if tables.is_empty() {
            return Box::pin(self.part_buffered(main, &values, attempts)).await;
        }
        self.open().begin_parts(plan.catalog.clone());
        for (table, rows) in tables {
            self.open().keep_part(table, rows);
        }
        let written = Box::pin(self.part_buffered(main, &values, attempts)).await;
        self.open().end_parts();
        written
    }

    async fn arguments(&mut self, plan: &Plan, values: &[Datum]) -> SqlResult<Vec<Datum>> {
        let written = Box::pin(self.part_buffered(plan, values, 0)).await?;
        written.returned.into_iter().next().ok_or_else(|| SqlError::internal("arguments are one row"))
    }
}

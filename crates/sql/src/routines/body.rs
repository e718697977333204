//! The body of a function in SQL: its statements, in which the names of arguments have become `$1, $2, …`.

pub use super::inferred::is_untyped;
use super::records;
use super::scopes::{Lookup, Scopes};
use crate::lower::output_name;
use crate::names;
use crate::walk::{self, WalkMut};
use base::DataType;
use base::error::{SqlError, SqlResult, SqlState};
use base::routines::Routine;
use base::schema::Catalog;
use sqlparser::ast::{
    self, Expr, FromTable, Ident, ObjectName, OnInsert, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind as Wildcard, SetExpr, Statement, TableObject, TableWithJoins,
    UpdateTableFromKind, Value, VisitorMut,
};
use std::ops::ControlFlow;

/// Statements of one body.
const STATEMENTS_MAX: usize = 1_000;

/// The statements of a body. Errors: those of parsing; 42P02 for `$n` beyond the arguments.
pub fn statements(
    catalog: &Catalog,
    search_path: &[String],
    database: &str,
    routine: &Routine,
) -> SqlResult<Vec<Statement>> {
    let mut statements = parsed(routine)?;
    if statements.len() > STATEMENTS_MAX {
        let told = format!("a function has at most {STATEMENTS_MAX} statements");
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, told));
    }
    let lookup = Lookup { catalog, search_path, database };
    for statement in &mut statements {
        bind(lookup, statement, &mut OfRoutine(routine))?;
    }
    Ok(statements)
}

/// Fields of a record, by their names.
pub type Fields = Vec<(String, Expr)>;

/// What stands for names in a statement that belongs to a function.
pub trait Names {
    /// What a dotted name means where these columns are visible; `None`: it is none of the function's.
    fn meaning(&mut self, words: &[String], scopes: &Scopes) -> SqlResult<Option<Expr>>;
    /// What `$n` means.
    fn placeholder(&mut self, name: &str) -> SqlResult<Expr>;
    /// The fields of what is named, where a list of columns has all of them; `None`: it is none of the function's.
    fn fields(&mut self, _words: &[String]) -> SqlResult<Option<Fields>> {
        Ok(None)
    }
    /// The fields of the record that `$n` stands for, which is not asked for as a whole then; `None`: it is a value.
    fn record(&mut self, _nth: usize) -> SqlResult<Option<Fields>> {
        Ok(None)
    }
    /// Whether `$n` is a record that is NULL as a whole.
    fn is_null(&mut self, _nth: usize) -> bool {
        false
    }
    /// The texts in the array that `$n` is, if they are counted from zero; `None`: it is another value.
    fn zero_based(&mut self, _nth: usize) -> SqlResult<Option<Vec<String>>> {
        Ok(None)
    }
}

/// Puts what they mean in for the names of a statement. Errors: those of `names`.
pub fn bind(lookup: Lookup<'_>, statement: &mut Statement, names: &mut dyn Names) -> SqlResult<()> {
    Binding { lookup, names, scopes: Scopes::default() }.statement(statement)
}

/// The arguments of a function in SQL. A column goes before an argument of its name.
struct OfRoutine<'a>(&'a Routine);

impl Names for OfRoutine<'_> {
    fn meaning(&mut self, words: &[String], scopes: &Scopes) -> SqlResult<Option<Expr>> {
        let name = match words {
            [name] if scopes.column(name).is_none() => name,
            [of, name] if *of == self.0.name && scopes.qualified(of, name).is_none() => name,
            _ => return Ok(None),
        };
        let mut parameters = self.0.parameters.iter();
        let found = parameters.position(|parameter| parameter.name.as_ref() == Some(name));
        Ok(found.map(|at| argument(at + 1)))
    }

    fn placeholder(&mut self, name: &str) -> SqlResult<Expr> {
        let nth = name.strip_prefix('$').and_then(|nth| nth.parse().ok());
        let known = nth.filter(|nth| (1..=self.0.parameters.len()).contains(nth));
        known.map(argument).ok_or_else(|| {
            SqlError::new(SqlState::UNDEFINED_PARAMETER, format!("there is no parameter {name}"))
        })
    }
}

/// Errors: 42601. Positions are of the text of the body, so none is told.
fn parsed(routine: &Routine) -> SqlResult<Vec<Statement>> {
    let unplaced = |mut error: SqlError| {
        error.position = None;
        error
    };
    let text = routine.body.trim();
    if !routine.is_standard {
        return crate::parse::parse_request(text).map_err(unplaced);
    }
    let after = |word: &str| {
        let begins = text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
        begins.then(|| &text[word.len()..])
    };
    if let Some(value) = after("return") {
        return crate::parse::parse_request(&format!("SELECT {value}")).map_err(unplaced);
    }
    let inner = after("begin").and_then(|rest| {
        let rest = rest.trim_start();
        let rest = rest.get(..6).filter(|w| w.eq_ignore_ascii_case("atomic")).map(|_| &rest[6..])?;
        let end = rest.len().checked_sub(3)?;
        rest.get(end..).filter(|word| word.eq_ignore_ascii_case("end")).map(|_| &rest[..end])
    });
    match inner {
        Some(inner) => crate::parse::parse_request(inner).map_err(unplaced),
        None => Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error in the body of the function")
            .hint("A body that is not quoted is RETURN …, or BEGIN ATOMIC … END.")),
    }
}

/// Errors: 0A000 for statements that functions have not here.
pub fn refuse_others(statements: &[Statement]) -> SqlResult<()> {
    for statement in statements {
        match statement {
            Statement::Query(query) if matches!(query.body.as_ref(), SetExpr::Select(s) if s.into.is_some()) =>
            {
                return Err(SqlError::unsupported("SELECT INTO in a function"));
            }
            Statement::Query(_)
            | Statement::Insert(_)
            | Statement::Update(_)
            | Statement::Delete(_)
            | Statement::Merge(_) => {}
            Statement::Commit { .. } | Statement::Rollback { .. } | Statement::StartTransaction { .. } => {
                let word = first_word(statement);
                let told = format!("{word} is not allowed in an SQL function");
                return Err(SqlError::new(SqlState(*b"2F003"), told));
            }
            other => {
                let word = first_word(other);
                return Err(SqlError::unsupported(format!("{word} in a function in SQL")));
            }
        }
    }
    Ok(())
}

fn first_word(statement: &Statement) -> String {
    statement.to_string().split_whitespace().next().unwrap_or_default().to_string()
}

/// The expression of an item of a list.
pub fn expression(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. } => Some(e),
        _ => None,
    }
}

/// `$n`, from 1.
pub fn argument(nth: usize) -> Expr {
    Expr::Value(Value::Placeholder(format!("${nth}")).into())
}

/// The number of an argument, from 1, that an expression is.
pub fn argument_of(e: &Expr) -> Option<usize> {
    let Expr::Value(value) = e else { return None };
    let Value::Placeholder(name) = &value.value else { return None };
    name.strip_prefix('$').and_then(|nth| nth.parse().ok())
}

/// Says of which type each argument is: what a query is planned for does not always come through to where one stands.
pub fn put_types(statements: &mut Vec<Statement>, routine: &Routine) -> SqlResult<()> {
    let mut typed = Vec::with_capacity(routine.parameters.len());
    for (nth, of) in routine.types().enumerate() {
        let name = super::written_type(of.data_type);
        typed.push(crate::parse::parse_expr(&format!("CAST(${} AS {name})", nth + 1))?);
    }
    put_arguments(statements, &typed);
    Ok(())
}

/// A value of its type for each argument, to plan what can be planned over values alone.
pub fn put_samples(statements: &mut Vec<Statement>, routine: &Routine) -> SqlResult<()> {
    let mut samples = Vec::with_capacity(routine.parameters.len());
    for of in routine.types() {
        samples.push(crate::parse::parse_expr(&match of.data_type {
            DataType::SmallInt | DataType::Integer | DataType::BigInt => "1".to_string(),
            other => format!("CAST(NULL AS {})", super::written_type(other)),
        })?);
    }
    put_arguments(statements, &samples);
    Ok(())
}

fn put_arguments(statements: &mut Vec<Statement>, typed: &[Expr]) {
    let _: ControlFlow<()> = walk::expressions_mut(statements, |e| {
        let at = argument_of(e).map(|nth| nth.wrapping_sub(1));
        if let Some(argument) = at.and_then(|at| typed.get(at)) {
            *e = argument.clone();
        }
        ControlFlow::Continue(())
    });
    bare_limits(statements);
}

/// LIMIT and OFFSET by a number or a parameter, without the cast around it: there they are planned.
pub fn bare_limits(node: &mut (impl walk::NodeMut + ?Sized)) {
    struct Limits;
    impl VisitorMut for Limits {
        type Break = ();
        fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            if let Some(ast::LimitClause::LimitOffset { limit, offset, .. }) = &mut query.limit_clause {
                limit.iter_mut().for_each(bare);
                offset.iter_mut().for_each(|offset| bare(&mut offset.value));
            }
            ControlFlow::Continue(())
        }
    }
    fn bare(e: &mut Expr) {
        while let Expr::Nested(inner) | Expr::Cast { expr: inner, .. } = e {
            let is_number = |e: &Expr| match e {
                Expr::Value(value) => matches!(value.value, Value::Number(..) | Value::Placeholder(_)),
                Expr::Nested(_) | Expr::Cast { .. } => true,
                _ => false,
            };
            if !is_number(inner) {
                return;
            }
            *e = inner.as_ref().clone();
        }
    }
    let _ = node.walk_mut(&mut Limits);
}

struct Binding<'a> {
    lookup: Lookup<'a>,
    names: &'a mut dyn Names,
    scopes: Scopes,
}

impl Binding<'_> {
    fn statement(&mut self, statement: &mut Statement) -> SqlResult<()> {
        let flow = match statement {
            Statement::Insert(insert) => {
                let mut flow = insert.source.walk_mut(self);
                if let (true, Some(SetExpr::Values(values))) =
                    (flow.is_continue(), insert.source.as_mut().map(|query| query.body.as_mut()))
                {
                    values
                        .rows
                        .iter_mut()
                        .try_for_each(|row| records::written_out(self.names, &mut row.content))?;
                }
                let target = match &insert.table {
                    TableObject::TableName(name) => {
                        self.target(name, insert.table_alias.as_ref().map(|a| &a.alias))
                    }
                    _ => Vec::new(),
                };
                self.scopes.enter(target);
                if let Some(OnInsert::OnConflict(on)) = &mut insert.on
                    && flow.is_continue()
                {
                    flow = on.action.walk_mut(self);
                }
                if flow.is_continue() {
                    flow = insert.returning.walk_mut(self);
                }
                flow
            }
            Statement::Update(update) => {
                let mut sources = self.scopes.from(self.lookup, std::slice::from_ref(&update.table));
                if let Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) =
                    &update.from
                {
                    sources.extend(self.scopes.from(self.lookup, from));
                }
                self.scopes.enter(sources);
                statement.walk_mut(self)
            }
            Statement::Delete(delete) => {
                let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
                let using = delete.using.iter().flatten();
                let all: Vec<TableWithJoins> = from.iter().chain(using).cloned().collect();
                let sources = self.scopes.from(self.lookup, &all);
                self.scopes.enter(sources);
                statement.walk_mut(self)
            }
            other => other.walk_mut(self),
        };
        match flow {
            ControlFlow::Break(error) => Err(error),
            ControlFlow::Continue(()) => Ok(()),
        }
    }

    fn target(&self, name: &ObjectName, alias: Option<&Ident>) -> Vec<super::scopes::Source> {
        let factor = ast::TableFactor::Table {
            name: name.clone(),
            alias: alias.map(|name| ast::TableAlias {
                explicit: true,
                name: name.clone(),
                columns: Vec::new(),
                at: None,
            }),
            args: None,
            with_hints: Vec::new(),
            version: None,
            with_ordinality: false,
            partitions: Vec::new(),
            json_path: None,
            sample: None,
            index_hints: Vec::new(),
        };
        self.scopes.from(self.lookup, &[TableWithJoins { relation: factor, joins: Vec::new() }])
    }

    /// What stands for an expression; `None`: it stays.
    fn replaced(&mut self, e: &Expr) -> SqlResult<Option<Expr>> {
        if let Some(replaced) = records::replaced(self.names, e)? {
            return Ok(Some(replaced));
        }
        let path = match e {
            Expr::Identifier(name) => std::slice::from_ref(name),
            Expr::CompoundIdentifier(path) => path.as_slice(),
            Expr::Value(value) => {
                let Value::Placeholder(name) = &value.value else { return Ok(None) };
                return self.names.placeholder(name).map(Some);
            }
            _ => return Ok(None),
        };
        let words: Vec<String> = path.iter().map(names::fold).collect();
        self.names.meaning(&words, &self.scopes)
    }

    /// Writes the fields out of what is named by `r.*`.
    fn expand(&mut self, select: &mut Select) -> SqlResult<()> {
        let mut expanded = Vec::with_capacity(select.projection.len());
        for item in std::mem::take(&mut select.projection) {
            let named = match &item {
                SelectItem::QualifiedWildcard(Wildcard::ObjectName(name), _) => names::parts(name)?,
                _ => Vec::new(),
            };
            let is_table = matches!(named.as_slice(), [name] if self.scopes.has_qualifier(name));
            match if named.is_empty() || is_table { None } else { self.names.fields(&named)? } {
                None => expanded.push(item),
                Some(fields) => expanded.extend(fields.into_iter().map(|(name, expr)| {
                    SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) }
                })),
            }
        }
        select.projection = expanded;
        Ok(())
    }
}

impl VisitorMut for Binding<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        order_by_numbers(query);
        self.scopes.enter_query(self.lookup, query);
        ControlFlow::Continue(())
    }
    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.scopes.leave_query();
        ControlFlow::Continue(())
    }
    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        let sources = self.scopes.from(self.lookup, &select.from);
        self.scopes.enter(sources);
        ControlFlow::Continue(())
    }
    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        // Behind the walk through it, which would look at what was put in.
        let expanded = self.expand(select);
        self.scopes.leave();
        match expanded {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
    fn post_visit_expr(&mut self, e: &mut Expr) -> ControlFlow<SqlError> {
        match self.replaced(e) {
            Ok(None) => {}
            Ok(Some(meaning)) => *e = meaning,
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }
}

/// ORDER BY the name of an output column, which goes before an argument of the name, as ORDER BY its number.
fn order_by_numbers(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_ref() else { return };
    let Some(ast::OrderBy { kind: ast::OrderByKind::Expressions(orders), .. }) = &mut query.order_by else {
        return;
    };
    let items = select.projection.iter().take_while(|item| expression(item).is_some());
    let outputs: Vec<String> = items
        .map(|item| match item {
            SelectItem::ExprWithAlias { alias, .. } => names::fold(alias),
            item => expression(item).map(output_name).unwrap_or_default(),
        })
        .collect();
    for order in orders {
        if let Expr::Identifier(name) = &order.expr
            && let Some(at) = outputs.iter().position(|output| *output == names::fold(name))
        {
            order.expr = Expr::Value(Value::Number((at + 1).to_string(), false).into());
        }
    }
}

//! The clauses of a MERGE: what is said of pairs, with names resolved as PostgreSQL does. Where nothing matches, the
//! target has no columns.

use super::rich::{lowered, query_of};
use super::several_columns::{Width, refuse_again, single_assignments};
use analytics::Context;
use base::SqlError;
use base::error::{SqlResult, SqlState};
use base::expr::Expr;
use base::schema::{Identity, Table};
use sql::lower::Lowering;
use sql::lower::insert::{generated_always, is_default, no_value_for};
use sql::lower::modify::{assigned_column, refuse_generated};
use sql::lower::scope::{ParameterTypes, Scope};
use sql::names;
use sql::parse::{DEFAULT_VALUES, NOTHING};
use sql::walk::{Walk, WalkMut};
use sqlparser::ast::{self, MergeAction, MergeClauseKind};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// `WHEN … THEN …`.
pub(super) struct Clause {
    pub is_matched: bool,
    pub condition: Option<ast::Expr>,
    pub effect: Effect,
}

/// What a clause does, before the query is planned.
pub(super) enum Effect {
    Nothing,
    Delete,
    Update(Vec<(usize, Value)>),
    Insert(Vec<(usize, Value)>),
}

/// A value of a clause.
pub(super) enum Value {
    /// Of nothing but constants, parameters and what a gateway knows.
    Lowered(Expr),
    /// To be computed by the query.
    Asked(ast::Expr),
}

/// The two relations of a MERGE as its expressions name them.
pub(super) struct Names {
    target: String,
    source: Option<String>,
    /// Columns of what comes.
    columns: BTreeSet<String>,
    target_columns: BTreeSet<String>,
}

impl Names {
    /// Errors: 42712 if both have one name, and those of planning the source.
    pub fn of(
        context: &Context<'_>,
        merge: &ast::Merge,
        with: Option<&ast::With>,
        table: &Table,
        alias: Option<String>,
    ) -> SqlResult<Names> {
        let target = alias.unwrap_or_else(|| table.name.clone());
        let source = shown_name(&merge.source)?;
        if source.as_ref() == Some(&target) {
            let told = format!("name \"{target}\" specified more than once");
            return Err(SqlError::new(SqlState(*b"42712"), told)
                .detail("The name is used both as MERGE target table and data source."));
        }
        let from = ast::TableWithJoins { relation: merge.source.clone(), joins: Vec::new() };
        let mut all = query_of(Vec::new(), with, vec![from], None)?;
        if let ast::Statement::Query(query) = &mut all
            && let ast::SetExpr::Select(select) = query.body.as_mut()
        {
            select.projection = vec![ast::SelectItem::Wildcard(Default::default())];
        }
        let shape = analytics::plan_with(context, &all, &mut ParameterTypes::default(), &[])?;
        let columns = shape.columns.iter().map(|column| column.name.clone()).collect();
        let target_columns = table.columns.iter().map(|column| column.name.clone()).collect();
        Ok(Names { target, source, columns, target_columns })
    }

    /// A column of the target.
    pub fn of_target(&self, column: &str) -> ast::Expr {
        ast::Expr::CompoundIdentifier(vec![
            ast::Ident::with_quote('"', &self.target),
            ast::Ident::with_quote('"', column),
        ])
    }

    /// An expression of a clause for what matches nothing: its names are those of what comes. Errors: 42P01 and 42703
    /// where it names the target.
    fn without_target(&self, e: &ast::Expr) -> SqlResult<ast::Expr> {
        let mut e = e.clone();
        match e.walk_mut(&mut Unmatched { names: self, depth: 0, relations: BTreeSet::new() }) {
            ControlFlow::Break(error) => Err(error),
            ControlFlow::Continue(()) => Ok(e),
        }
    }
}

/// Gives names outside of subqueries their relation. Inside of one it is the subquery that says what they are.
struct Unmatched<'n> {
    names: &'n Names,
    /// How many subqueries are around.
    depth: usize,
    /// Relations of the outermost subquery and of those in it.
    relations: BTreeSet<String>,
}

impl Unmatched<'_> {
    fn named(&self, e: &mut ast::Expr) -> SqlResult<()> {
        let Names { target, source, columns, target_columns } = self.names;
        match e {
            ast::Expr::Identifier(name) if self.depth == 0 => {
                let folded = names::fold(name);
                match source {
                    Some(source) if columns.contains(&folded) => {
                        let source = ast::Ident::with_quote('"', source);
                        *e = ast::Expr::CompoundIdentifier(vec![source, name.clone()]);
                    }
                    _ if target_columns.contains(&folded) && !columns.contains(&folded) => {
                        let told = format!("column \"{folded}\" does not exist");
                        let detail = format!(
                            "There is a column named \"{folded}\" in table \"{target}\", but it cannot be referenced from this part of the query."
                        );
                        return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, told).detail(detail));
                    }
                    _ => {}
                }
            }
            ast::Expr::CompoundIdentifier(path)
                if path.len() == 2
                    && names::fold(&path[0]) == *target
                    && !self.relations.contains(target) =>
            {
                let told = format!("invalid reference to FROM-clause entry for table \"{target}\"");
                let detail = format!(
                    "There is an entry for table \"{target}\", but it cannot be referenced from this part of the query."
                );
                return Err(SqlError::new(SqlState::UNDEFINED_TABLE, told).detail(detail));
            }
            _ => {}
        }
        Ok(())
    }
}

impl ast::VisitorMut for Unmatched<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<SqlError> {
        if self.depth == 0 {
            self.relations = relations_in(query);
        }
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<SqlError> {
        self.depth -= 1;
        if self.depth == 0 {
            self.relations.clear();
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, e: &mut ast::Expr) -> ControlFlow<SqlError> {
        match self.named(e) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// Names that the relations of a query and of its subqueries have in it.
fn relations_in(query: &ast::Query) -> BTreeSet<String> {
    struct Found(BTreeSet<String>);
    impl ast::Visitor for Found {
        type Break = ();
        fn pre_visit_table_factor(&mut self, factor: &ast::TableFactor) -> ControlFlow<()> {
            self.0.extend(shown_name(factor).ok().flatten());
            ControlFlow::Continue(())
        }
    }
    let mut found = Found(BTreeSet::new());
    let _: ControlFlow<()> = query.walk(&mut found);
    found.0
}

fn wrong(told: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, told)
}

/// Errors: 42601, 42703, 42P01, 428C9.
pub(super) fn clauses_of(
    lowering: &mut Lowering<'_>,
    merge: &ast::Merge,
    table: &Table,
    names: &Names,
    defaults: &[Expr],
    width: Width<'_>,
) -> SqlResult<Vec<Clause>> {
    if merge.clauses.is_empty() {
        return Err(wrong("syntax error at end of input"));
    }
    let mut clauses: Vec<Clause> = Vec::with_capacity(merge.clauses.len());
    for clause in &merge.clauses {
        let is_matched = match clause.clause_kind {
            MergeClauseKind::Matched => true,
            MergeClauseKind::NotMatched => false,
            _ => return Err(wrong("syntax error at or near \"by\"")),
        };
        if clauses.iter().any(|before| before.is_matched == is_matched && before.condition.is_none()) {
            return Err(wrong("unreachable WHEN clause specified after unconditional WHEN clause"));
        }
        let named = |e: &ast::Expr| if is_matched { Ok(e.clone()) } else { names.without_target(e) };
        let condition = clause.predicate.as_ref().map(named).transpose()?;
        let effect = match &clause.action {
            MergeAction::Delete { .. } => Effect::Delete,
            MergeAction::Update(update) => {
                if update.update_predicate.is_some() || update.delete_predicate.is_some() {
                    return Err(wrong("syntax error at or near \"where\""));
                }
                updated(lowering, &update.assignments, table, defaults, width)?
            }
            MergeAction::Insert(insert) => inserted(lowering, insert, table, defaults, &named)?,
        };
        clauses.push(Clause { is_matched, condition, effect });
    }
    Ok(clauses)
}

/// What is not of columns is computed by the gateway, for each row by itself; other values by the query.
fn value_of(
    lowering: &mut Lowering<'_>,
    value: &ast::Expr,
    (number, table): (usize, &Table),
    defaults: &[Expr],
) -> Value {
    let column = &table.columns[number];
    if is_default(value) {
        return Value::Lowered(defaults[number].clone());
    }
    let nothing = Scope::default();
    match lowered(lowering, |l| l.exprs(&nothing).assignment(value, &column.name, column.data_type)) {
        Some(expr) => Value::Lowered(expr),
        None => Value::Asked(value.clone()),
    }
}

fn updated(
    lowering: &mut Lowering<'_>,
    assignments: &[ast::Assignment],
    table: &Table,
    defaults: &[Expr],
    width: Width<'_>,
) -> SqlResult<Effect> {
    let mut set: Vec<(usize, Value)> = Vec::new();
    for (name, value) in single_assignments(assignments, width)? {
        if name.0.last().and_then(|part| part.as_ident()).is_some_and(|ident| ident.value == NOTHING) {
            return Ok(Effect::Nothing);
        }
        let (number, column) = assigned_column(table, name)?;
        refuse_again(&set, number, &column.name)?;
        refuse_generated(column, &value)?;
        if column.identity != Identity::Generated {
            set.push((number, value_of(lowering, &value, (number, table), defaults)));
        }
    }
    Ok(Effect::Update(set))
}

fn inserted(
    lowering: &mut Lowering<'_>,
    insert: &ast::MergeInsertExpr,
    table: &Table,
    defaults: &[Expr],
    named: &dyn Fn(&ast::Expr) -> SqlResult<ast::Expr>,
) -> SqlResult<Effect> {
    let marker = match insert.columns.as_slice() {
        [name] => name.0.last().and_then(|part| part.as_ident()).map(|ident| ident.value.as_str()),
        _ => None,
    };
    match marker {
        Some(NOTHING) => return Ok(Effect::Nothing),
        Some(DEFAULT_VALUES) => return Ok(Effect::Insert(Vec::new())),
        _ => {}
    }
    let row = match &insert.kind {
        ast::MergeInsertKind::Values(values) if insert.insert_predicate.is_none() => values.rows.as_slice(),
        _ => return Err(wrong("syntax error in INSERT of MERGE")),
    };
    let [row] = row else { return Err(wrong("syntax error at or near \",\"")) };
    let row = &row.content;
    let targets = lowering.insert_targets(table, &insert.columns)?;
    if row.len() > targets.len() {
        return Err(wrong("INSERT has more expressions than target columns"));
    }
    if !insert.columns.is_empty() && row.len() < targets.len() {
        return Err(wrong("INSERT has more target columns than expressions"));
    }
    let mut values = Vec::with_capacity(row.len());
    for (number, value) in targets.into_iter().zip(row) {
        let column = &table.columns[number];
        if is_default(value) {
            continue;
        }
        match column.identity {
            Identity::Generated => return Err(no_value_for(column)),
            Identity::Always => return Err(generated_always(column)),
            Identity::No | Identity::Serial | Identity::ByDefault => {}
        }
        values.push((number, value_of(lowering, &named(value)?, (number, table), defaults)));
    }
    Ok(Effect::Insert(values))
}

/// The name that a relation of the statement has in it.
fn shown_name(factor: &ast::TableFactor) -> SqlResult<Option<String>> {
    Ok(match factor {
        ast::TableFactor::Table { alias: Some(alias), .. }
        | ast::TableFactor::Derived { alias: Some(alias), .. }
        | ast::TableFactor::TableFunction { alias: Some(alias), .. }
        | ast::TableFactor::UNNEST { alias: Some(alias), .. }
        | ast::TableFactor::Function { alias: Some(alias), .. }
        | ast::TableFactor::NestedJoin { alias: Some(alias), .. } => Some(names::fold(&alias.name)),
        ast::TableFactor::Table { name, .. } => names::parts(name)?.pop(),
        _ => None,
    })
}

//! The statement over a simple view's table: names replaced, the view's condition added.

use super::Simple;
use crate::lower::output_name;
use crate::names;
use crate::names::quoted;
use crate::walk::{self, Node, NodeMut, Walk, WalkMut};
use base::error::{SqlError, SqlResult, SqlState};
use sqlparser::ast::{
    self, Expr, Ident, ObjectName, ObjectNamePart, Query, SelectItem, SetExpr, Statement, TableFactor,
    Visitor, VisitorMut,
};
use std::ops::ControlFlow;

pub(super) fn has_call(e: &Expr) -> bool {
    let found: ControlFlow<()> = walk::expressions(e, |e| match e {
        Expr::Function(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// An expression over the view's table, where that is called by this name.
fn of_table(mut e: Expr, alias: &Ident) -> Expr {
    let _: ControlFlow<()> = walk::expressions_mut(&mut e, |e| {
        let name = match e {
            Expr::Identifier(name) => name.clone(),
            Expr::CompoundIdentifier(parts) => parts.last().cloned().unwrap_or_else(|| Ident::new("")),
            _ => return ControlFlow::Continue(()),
        };
        *e = Expr::CompoundIdentifier(vec![alias.clone(), quoted(&names::fold(&name))]);
        ControlFlow::Continue(())
    });
    e
}

pub(super) fn has_subquery(node: &impl Node, is_query: bool) -> bool {
    struct Queries(usize);
    impl Visitor for Queries {
        type Break = ();
        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.0 += 1;
            ControlFlow::Continue(())
        }
    }
    let mut queries = Queries(0);
    let _ = node.walk(&mut queries);
    queries.0 > usize::from(is_query)
}

impl Simple<'_> {
    /// The statement over what is below; `None`: its names could mean something else.
    pub(super) fn rewritten(&self, statement: &Statement) -> SqlResult<Option<Statement>> {
        if self.condition.as_ref().is_some_and(|e| has_subquery(e, false)) {
            return Ok(None);
        }
        let mut statement = statement.clone();
        if self.view.partition.is_some() && !matches!(statement, Statement::Query(_)) {
            return Ok(self.renamed(&mut statement)?.then_some(statement));
        }
        let is_taken = match &mut statement {
            Statement::Query(query) => {
                !self.is_ordered && !has_subquery(query.as_ref(), true) && self.read(query)
            }
            Statement::Insert(insert) => self.insert(insert)?,
            Statement::Update(update) => self.update(update)?,
            Statement::Delete(delete) => self.delete(delete)?,
            _ => false,
        };
        Ok(is_taken.then_some(statement))
    }

    /// Makes a write to a partition one to its table, under the partition's name. The columns of both have the same names
    /// and order, so that nothing else of the statement changes. Errors: 42703.
    fn renamed(&self, statement: &mut Statement) -> SqlResult<bool> {
        let alias = match statement {
            Statement::Insert(insert) => {
                for name in &insert.columns {
                    let ident = name.0.last().and_then(|part| part.as_ident());
                    ident.map(|ident| self.written(ident, "insert into")).transpose()?;
                }
                insert.table = ast::TableObject::TableName(self.base_name());
                let alias = insert.table_alias.get_or_insert_with(|| ast::TableAliasWithoutColumns {
                    explicit: true,
                    alias: quoted(&self.view.shape.name),
                });
                Some(alias.alias.clone())
            }
            Statement::Update(update) => {
                self.assign(&mut update.assignments)?;
                let alias = self.alias(&mut update.table.relation);
                alias.iter().for_each(|alias| self.narrow(&mut update.selection, alias));
                alias
            }
            Statement::Delete(delete) => {
                let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) =
                    &mut delete.from;
                let [from] = from.as_mut_slice() else { return Ok(false) };
                let alias = self.alias(&mut from.relation);
                alias.iter().for_each(|alias| self.narrow(&mut delete.selection, alias));
                alias
            }
            _ => None,
        };
        let Some(alias) = alias else { return Ok(false) };
        self.without_schema(statement, &alias);
        Ok(true)
    }

    /// A column behind the schema's name and the partition's is one of the table under the partition's name.
    fn without_schema(&self, statement: &mut Statement, alias: &Ident) {
        let shape = &self.view.shape;
        let is_called_so = names::fold(alias) == shape.name;
        let _: ControlFlow<()> = walk::expressions_mut(statement, |e| {
            if let Expr::CompoundIdentifier(parts) = e
                && let [schema, of, name] = parts.as_slice()
                && is_called_so
                && names::fold(schema) == shape.schema
                && names::fold(of) == shape.name
            {
                *e = Expr::CompoundIdentifier(vec![alias.clone(), name.clone()]);
            }
            ControlFlow::Continue(())
        });
    }

    /// What the view is called in the statement from here on.
    fn alias(&self, factor: &mut TableFactor) -> Option<Ident> {
        let TableFactor::Table { name, alias, .. } = factor else { return None };
        *name = self.base_name();
        let alias = alias.get_or_insert_with(|| ast::TableAlias {
            explicit: true,
            name: quoted(&self.view.shape.name),
            columns: Vec::new(),
            at: None,
        });
        Some(alias.name.clone())
    }

    fn base_name(&self) -> ObjectName {
        let parts = [&self.base.schema, &self.base.name];
        ObjectName(parts.map(|part| ObjectNamePart::Identifier(quoted(part))).to_vec())
    }

    /// The view's condition, where the table is called by this name.
    fn condition(&self, alias: &Ident) -> Option<Expr> {
        self.condition.clone().map(|condition| of_table(condition, alias))
    }

    /// What the view shows under a name, where its table is called `of`.
    fn shown(&self, name: &str, of: &Ident) -> Option<Expr> {
        match self.columns.get(name)? {
            Some(below) => Some(Expr::CompoundIdentifier(vec![of.clone(), quoted(below)])),
            None => {
                let e = self.computed.get(name)?.clone();
                Some(Expr::Nested(Box::new(of_table(e, of))))
            }
        }
    }

    fn narrow(&self, selection: &mut Option<Expr>, alias: &Ident) {
        let Some(condition) = self.condition(alias) else { return };
        let nested = |e: Expr| Box::new(Expr::Nested(Box::new(e)));
        *selection = Some(match selection.take() {
            None => condition,
            Some(given) => {
                Expr::BinaryOp { left: nested(condition), op: ast::BinaryOperator::And, right: nested(given) }
            }
        });
    }

    fn read(&self, query: &mut Query) -> bool {
        let SetExpr::Select(select) = query.body.as_mut() else { return false };
        let [from] = select.from.as_mut_slice() else { return false };
        let Some(alias) = self.alias(&mut from.relation) else { return false };
        let Some(projection) = self.items(&select.projection, &alias) else { return false };
        select.projection = projection;
        let outputs: Vec<String> = select
            .projection
            .iter()
            .map(|item| match item {
                SelectItem::ExprWithAlias { alias, .. } => names::fold(alias),
                SelectItem::UnnamedExpr(e) => output_name(e),
                _ => String::new(),
            })
            .collect();
        let mut names = Names { simple: self, alias: &alias, is_known: true };
        let _ = select.selection.walk_mut(&mut names);
        let _ = select.group_by.walk_mut(&mut names);
        let _ = select.having.walk_mut(&mut names);
        let _ = select.distinct.walk_mut(&mut names);
        let _ = select.named_window.walk_mut(&mut names);
        if let Some(ast::OrderBy { kind: ast::OrderByKind::Expressions(list), .. }) = &mut query.order_by {
            for by in list {
                // The name of a column of the result comes first.
                let is_output = matches!(&by.expr, Expr::Identifier(n) if outputs.contains(&names::fold(n)));
                if !is_output {
                    let _ = by.expr.walk_mut(&mut names);
                }
            }
        }
        let is_known = names.is_known;
        self.narrow(&mut select.selection, &alias);
        is_known
    }

    /// Items of a list, under the names that they had.
    fn items(&self, items: &[SelectItem], alias: &Ident) -> Option<Vec<SelectItem>> {
        let mut rewritten = Vec::with_capacity(items.len());
        let all = || {
            let shown = self.view.shape.columns.iter();
            shown.map(|column| -> Option<SelectItem> {
                let expr = self.shown(&column.name, alias)?;
                Some(SelectItem::ExprWithAlias { expr, alias: quoted(&column.name) })
            })
        };
        for item in items {
            match item {
                SelectItem::Wildcard(options) if options.to_string().is_empty() => {
                    for item in all() {
                        rewritten.push(item?);
                    }
                }
                SelectItem::QualifiedWildcard(
                    ast::SelectItemQualifiedWildcardKind::ObjectName(name),
                    options,
                ) if options.to_string().is_empty() && name.to_string() == alias.to_string() => {
                    for item in all() {
                        rewritten.push(item?);
                    }
                }
                SelectItem::UnnamedExpr(e) => {
                    let before = output_name(e);
                    let mut e = e.clone();
                    self.put(&mut e, alias)?;
                    let item = match output_name(&e) == before {
                        true => SelectItem::UnnamedExpr(e),
                        false => SelectItem::ExprWithAlias { expr: e, alias: quoted(&before) },
                    };
                    rewritten.push(item);
                }
                SelectItem::ExprWithAlias { expr, alias: output } => {
                    let mut e = expr.clone();
                    self.put(&mut e, alias)?;
                    rewritten.push(SelectItem::ExprWithAlias { expr: e, alias: output.clone() });
                }
                _ => return None,
            }
        }
        Some(rewritten)
    }

    /// An expression over what is below; `None`: a name in it is none of the view's.
    fn put(&self, e: &mut impl NodeMut, alias: &Ident) -> Option<()> {
        let mut names = Names { simple: self, alias, is_known: true };
        let _ = e.walk_mut(&mut names);
        names.is_known.then_some(())
    }

    /// The column below. Errors: 42703; 0A000 for what the view computes.
    fn written(&self, name: &Ident, verb: &str) -> SqlResult<Ident> {
        let (shown, view) = (names::fold(name), &self.view.shape.name);
        match self.columns.get(&shown) {
            Some(Some(below)) => Ok(quoted(below)),
            Some(None) => {
                let told = format!("cannot {verb} column \"{shown}\" of view \"{view}\"");
                Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, told)
                    .detail("View columns that are not columns of their base relation are not updatable."))
            }
            None => {
                let told = format!("column \"{shown}\" of relation \"{view}\" does not exist");
                Err(SqlError::new(SqlState::UNDEFINED_COLUMN, told))
            }
        }
    }

    fn insert(&self, insert: &mut ast::Insert) -> SqlResult<bool> {
        if insert.columns.is_empty() {
            let count = insert.source.as_ref().map_or(usize::MAX, |source| width(source));
            let shown = self.view.shape.columns.iter().take(count);
            insert.columns = shown.map(|column| ObjectName::from(vec![quoted(&column.name)])).collect();
        }
        for name in &mut insert.columns {
            let ident = name.0.last().and_then(|part| part.as_ident());
            let ident = ident.ok_or_else(|| SqlError::unsupported(format!("the name {name}")))?;
            *name = ObjectName::from(vec![self.written(ident, "insert into")?]);
        }
        let alias = insert.table_alias.get_or_insert_with(|| ast::TableAliasWithoutColumns {
            explicit: true,
            alias: quoted(&self.view.shape.name),
        });
        let alias = alias.alias.clone();
        insert.table = ast::TableObject::TableName(self.base_name());
        if let Some(ast::OnInsert::OnConflict(conflict)) = &mut insert.on {
            if has_subquery(&conflict.action, false) {
                return Ok(false);
            }
            if let Some(ast::ConflictTarget::Columns(columns)) = &mut conflict.conflict_target {
                let mut inference = crate::parse::inference(columns)?;
                for e in inference.elements.iter_mut().chain(&mut inference.predicate) {
                    let renamed = walk::expressions_mut(e, |e| {
                        let ast::Expr::Identifier(column) = e else { return ControlFlow::Continue(()) };
                        match self.written(column, "insert into") {
                            Ok(written) => *column = written,
                            Err(error) => return ControlFlow::Break(error),
                        }
                        ControlFlow::Continue(())
                    });
                    if let ControlFlow::Break(error) = renamed {
                        return Err(error);
                    }
                }
                *columns = inference.columns();
            }
            if let ast::OnConflictAction::DoUpdate(update) = &mut conflict.action {
                self.assign(&mut update.assignments)?;
                let mut names = Names { simple: self, alias: &alias, is_known: true };
                let _ = update.assignments.walk_mut(&mut names);
                let _ = update.selection.walk_mut(&mut names);
                if !names.is_known {
                    return Ok(false);
                }
            }
        }
        Ok(self.returned(&mut insert.returning, &alias))
    }

    /// Has a rewritten write return, behind all else, whether its rows are rows of the view. False: any row is.
    pub(super) fn tell_condition(&self, statement: &mut Statement) -> bool {
        let (returning, alias) = match statement {
            Statement::Insert(insert) => {
                (&mut insert.returning, insert.table_alias.as_ref().map(|a| &a.alias))
            }
            Statement::Update(update) => {
                let alias = match &update.table.relation {
                    TableFactor::Table { alias, .. } => alias.as_ref().map(|alias| &alias.name),
                    _ => None,
                };
                (&mut update.returning, alias)
            }
            _ => return false,
        };
        let Some(expr) = alias.and_then(|alias| self.condition(alias)) else { return false };
        let told = SelectItem::ExprWithAlias { expr, alias: Ident::new("is_of_view") };
        returning.get_or_insert_default().push(told);
        true
    }

    fn returned(&self, returning: &mut Option<Vec<SelectItem>>, alias: &Ident) -> bool {
        let Some(items) = returning else { return true };
        match self.items(items, alias) {
            Some(rewritten) if !has_subquery(items, false) => {
                *items = rewritten;
                true
            }
            _ => false,
        }
    }

    fn assign(&self, assignments: &mut [ast::Assignment]) -> SqlResult<()> {
        for assignment in assignments {
            let names = match &mut assignment.target {
                ast::AssignmentTarget::ColumnName(name) => std::slice::from_mut(name),
                ast::AssignmentTarget::Tuple(names) => names.as_mut_slice(),
            };
            for name in names {
                let ident = name.0.last().and_then(|part| part.as_ident());
                let ident = ident.ok_or_else(|| SqlError::unsupported(format!("the name {name}")))?;
                *name = ObjectName::from(vec![self.written(ident, "update")?]);
            }
        }
        Ok(())
    }

    fn update(&self, update: &mut ast::Update) -> SqlResult<bool> {
        self.assign(&mut update.assignments)?;
        let is_alone = update.from.is_none() && update.table.joins.is_empty();
        if !is_alone || has_subquery(&update.selection, false) || has_subquery(&update.assignments, false) {
            return Ok(false);
        }
        let Some(alias) = self.alias(&mut update.table.relation) else { return Ok(false) };
        let mut names = Names { simple: self, alias: &alias, is_known: true };
        let _ = update.assignments.walk_mut(&mut names);
        let _ = update.selection.walk_mut(&mut names);
        if !names.is_known {
            return Ok(false);
        }
        self.narrow(&mut update.selection, &alias);
        Ok(self.returned(&mut update.returning, &alias))
    }

    fn delete(&self, delete: &mut ast::Delete) -> SqlResult<bool> {
        if delete.using.is_some() || has_subquery(&delete.selection, false) {
            return Ok(false);
        }
        let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) = &mut delete.from;
        let [from] = from.as_mut_slice() else { return Ok(false) };
        let Some(alias) = self.alias(&mut from.relation) else { return Ok(false) };
        let mut names = Names { simple: self, alias: &alias, is_known: true };
        let _ = delete.selection.walk_mut(&mut names);
        if !names.is_known {
            return Ok(false);
        }
        self.narrow(&mut delete.selection, &alias);
        Ok(self.returned(&mut delete.returning, &alias))
    }
}

/// How many values a row of an INSERT's source has, as far as its text tells.
fn width(source: &Query) -> usize {
    match source.body.as_ref() {
        SetExpr::Values(values) => values.rows.iter().map(|row| row.len()).max().unwrap_or(usize::MAX),
        SetExpr::Select(select) => {
            let is_one = |item: &SelectItem| {
                matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
            };
            if select.projection.iter().all(is_one) { select.projection.len() } else { usize::MAX }
        }
        _ => usize::MAX,
    }
}

/// Puts columns of the table in the place of the view's.
struct Names<'a> {
    simple: &'a Simple<'a>,
    alias: &'a Ident,
    is_known: bool,
}

impl VisitorMut for Names<'_> {
    type Break = ();
    fn post_visit_expr(&mut self, e: &mut Expr) -> ControlFlow<()> {
        let (of, name) = match e {
            Expr::Identifier(name) => (self.alias.clone(), names::fold(name)),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [of, name] => (of.clone(), names::fold(name)),
                _ => {
                    self.is_known = false;
                    return ControlFlow::Continue(());
                }
            },
            Expr::CompoundFieldAccess { .. } | Expr::Wildcard(_) | Expr::QualifiedWildcard(..) => {
                self.is_known = false;
                return ControlFlow::Continue(());
            }
            _ => return ControlFlow::Continue(()),
        };
        let is_ours = names::fold(&of) == names::fold(self.alias) || names::fold(&of) == "excluded";
        match self.simple.shown(&name, &of).filter(|_| is_ours) {
            Some(shown) => *e = shown,
            None => self.is_known = false,
        }
        ControlFlow::Continue(())
    }
}

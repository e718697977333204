//! The walk through a statement: what it reads and writes, and what its names can mean.
//!
//! Names are resolved as SQL does: in the query where they stand, then in those around it. Columns matter only for
//! tables of which the role may not read all.

use super::{Check, Columns, denied, kind};
use crate::names;
use crate::parse::{DEFAULT_VALUES, NOTHING};
use crate::walk;
use base::error::{SqlError, SqlResult};
use base::roles::{Object, Privileges};
use base::schema::Table;
use sqlparser::ast::{self, Expr, ObjectName, Query, SelectItem, SetExpr, Statement, TableFactor, Visitor};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A query, or a statement that writes: what its names can mean.
#[derive(Default)]
struct Scope<'a> {
    tables: Vec<Read<'a>>,
    /// Columns that were named, with what stands before the point.
    names: Vec<(Option<String>, String)>,
    /// `*`, of everything or of one relation.
    wildcards: Vec<Option<String>>,
    /// Relations whose rows are locked for a write; `None`: all.
    locks: Vec<Option<String>>,
    /// Common table expressions, of which the first `visible` can be named where the visitor is.
    ctes: Vec<(String, *const Query)>,
    visible: usize,
    is_recursive: bool,
    /// A query whose names mean nothing here: the source of an INSERT.
    apart: Option<*const Query>,
}

/// A table that is read.
struct Read<'a> {
    alias: String,
    table: &'a Arc<Table>,
    /// Only if one of its columns is named: it is the target of a write.
    only_if_named: bool,
}

pub(super) struct Reading<'a> {
    check: &'a Check<'a>,
    scopes: Vec<Scope<'a>>,
}

impl<'a> Reading<'a> {
    pub fn new(check: &'a Check<'a>) -> Reading<'a> {
        Reading { check, scopes: Vec::new() }
    }

    fn scope(&mut self) -> &mut Scope<'a> {
        if self.scopes.is_empty() {
            self.scopes.push(Scope::default());
        }
        self.scopes.last_mut().expect("just made")
    }

    fn is_cte(&self, name: &ObjectName) -> bool {
        let [part] = name.0.as_slice() else { return false };
        let Some(name) = part.as_ident().map(names::fold) else { return false };
        let visible = |scope: &Scope<'_>| scope.ctes[..scope.visible].iter().any(|(cte, _)| *cte == name);
        self.scopes.iter().any(visible)
    }

    /// The end of a scope: what its names mean is held against the role's privileges.
    fn close(&mut self, propagates: bool) -> SqlResult<()> {
        let Some(scope) = self.scopes.pop() else { return Ok(()) };
        let mut unknown = Vec::new();
        let mut read: Vec<(Vec<usize>, bool)> = scope.tables.iter().map(|_| (Vec::new(), false)).collect();
        for (qualifier, name) in &scope.names {
            let mut is_known = false;
            for (read, (columns, _)) in scope.tables.iter().zip(&mut read) {
                let could_be = qualifier.as_ref().is_none_or(|q| *q == read.alias);
                if let Some(column) = column_called(read.table, name).filter(|_| could_be) {
                    columns.push(column);
                    is_known = true;
                }
            }
            // A relation's name alone is its whole row.
            if !is_known && qualifier.is_none() {
                for (read, (_, whole)) in scope.tables.iter().zip(&mut read) {
                    let is_row = read.alias == *name;
                    *whole |= is_row;
                    is_known |= is_row;
                }
            }
            if !is_known {
                unknown.push((qualifier.clone(), name.clone()));
            }
        }
        for (read, (columns, mut whole)) in scope.tables.iter().zip(read) {
            whole |= scope.wildcards.iter().any(|of| of.as_ref().is_none_or(|of| *of == read.alias));
            if whole || !columns.is_empty() || !read.only_if_named {
                let columns = if whole { Columns::All } else { Columns::Some(columns) };
                self.check.check_columns(read.table, &columns, Privileges::SELECT)?;
            }
            if scope.locks.iter().any(|of| of.as_ref().is_none_or(|of| *of == read.alias)) {
                self.check.check_columns(read.table, &Columns::Some(Vec::new()), Privileges::UPDATE)?;
            }
        }
        if let Some(outer) = self.scopes.last_mut().filter(|_| propagates) {
            outer.names.extend(unknown);
        }
        Ok(())
    }

    fn items(&mut self, items: &[SelectItem]) {
        for item in items {
            match item {
                SelectItem::Wildcard(_) => self.scope().wildcards.push(None),
                SelectItem::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                    let alias = names::parts(name).ok().and_then(|mut parts| parts.pop());
                    self.scope().wildcards.push(alias);
                }
                _ => {}
            }
        }
    }

    fn joins(&mut self, from: &[ast::TableWithJoins]) {
        for joined in from {
            for join in &joined.joins {
                let constraint = join_constraint(&join.join_operator);
                match constraint {
                    Some(ast::JoinConstraint::Natural) => self.scope().wildcards.push(None),
                    Some(ast::JoinConstraint::Using(columns)) => {
                        let names = columns.iter().filter_map(|name| names::parts(name).ok()?.pop());
                        let names: Vec<_> = names.map(|name| (None, name)).collect();
                        self.scope().names.extend(names);
                    }
                    _ => {}
                }
                if let TableFactor::NestedJoin { table_with_joins, .. } = &join.relation {
                    self.joins(std::slice::from_ref(table_with_joins));
                }
            }
            if let TableFactor::NestedJoin { table_with_joins, .. } = &joined.relation {
                self.joins(std::slice::from_ref(table_with_joins));
            }
        }
    }

    /// The target of a write, whose columns are read only where they are named.
    fn target(&mut self, name: &ObjectName, alias: Option<&ast::Ident>) -> SqlResult<Option<&'a Arc<Table>>> {
        let Some(table) = self.check.table(name)? else { return Ok(None) };
        let alias = alias.map_or_else(|| table.name.clone(), names::fold);
        self.scope().tables.push(Read { alias, table, only_if_named: true });
        Ok(Some(table))
    }

    fn insert(&mut self, insert: &ast::Insert) -> SqlResult<()> {
        let ast::TableObject::TableName(name) = &insert.table else { return Ok(()) };
        self.scope().apart = insert.source.as_deref().map(std::ptr::from_ref);
        let alias = insert.table_alias.as_ref().map(|alias| &alias.alias);
        let Some(table) = self.target(name, alias)? else { return Ok(()) };
        let listed = insert.columns.iter().filter_map(|name| name.0.last()?.as_ident());
        let columns = self.check.listed(table, listed);
        self.check.check_columns(table, &columns, Privileges::INSERT)?;
        if let Some(ast::OnInsert::OnConflict(conflict)) = &insert.on {
            if let Some(ast::ConflictTarget::Columns(columns)) = &conflict.conflict_target {
                let inference = crate::parse::inference(columns)?;
                let mut names = Vec::new();
                for e in inference.elements.iter().chain(&inference.predicate) {
                    let _: ControlFlow<()> = walk::expressions(e, |e| {
                        let named = match e {
                            ast::Expr::Identifier(name) => Some(name),
                            ast::Expr::CompoundIdentifier(path) => path.last(),
                            _ => None,
                        };
                        names.extend(named.map(|name| (Some(table.name.clone()), names::fold(name))));
                        ControlFlow::Continue(())
                    });
                }
                self.scope().names.extend(names);
            }
            if let ast::OnConflictAction::DoUpdate(update) = &conflict.action {
                self.check_assigned(table, &update.assignments)?;
                // The row that was to be inserted shows what is in the column.
                let alias = "excluded".to_string();
                self.scope().tables.push(Read { alias, table, only_if_named: true });
            }
        }
        self.items(insert.returning.as_deref().unwrap_or_default());
        Ok(())
    }

    fn check_assigned(&self, table: &Table, assignments: &[ast::Assignment]) -> SqlResult<()> {
        let targets = assignments.iter().flat_map(|assignment| match &assignment.target {
            ast::AssignmentTarget::ColumnName(name) => std::slice::from_ref(name),
            ast::AssignmentTarget::Tuple(names) => names.as_slice(),
        });
        let columns = self.check.listed(table, targets.filter_map(|name| name.0.last()?.as_ident()));
        self.check.check_columns(table, &columns, Privileges::UPDATE)
    }

    fn update(&mut self, update: &ast::Update) -> SqlResult<()> {
        let TableFactor::Table { name, alias, .. } = &update.table.relation else { return Ok(()) };
        if let Some(table) = self.target(name, alias.as_ref().map(|alias| &alias.name))? {
            self.check_assigned(table, &update.assignments)?;
        }
        self.items(update.returning.as_deref().unwrap_or_default());
        Ok(())
    }

    fn delete(&mut self, delete: &ast::Delete) -> SqlResult<()> {
        let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) = &delete.from;
        for joined in from {
            let TableFactor::Table { name, alias, .. } = &joined.relation else { continue };
            if let Some(table) = self.target(name, alias.as_ref().map(|alias| &alias.name))?
                && !self.check.may(&Object::Relation(table.id), Privileges::DELETE)
            {
                return Err(denied(kind(self.check.catalog, table), &table.name));
            }
        }
        self.items(delete.returning.as_deref().unwrap_or_default());
        Ok(())
    }

    fn merge(&mut self, merge: &ast::Merge) -> SqlResult<()> {
        let TableFactor::Table { name, alias, .. } = &merge.table else { return Ok(()) };
        let Some(table) = self.target(name, alias.as_ref().map(|alias| &alias.name))? else { return Ok(()) };
        for clause in &merge.clauses {
            match &clause.action {
                ast::MergeAction::Insert(insert) if names_marker(insert.columns.iter(), NOTHING) => {}
                ast::MergeAction::Insert(insert) => {
                    let columns = match names_marker(insert.columns.iter(), DEFAULT_VALUES) {
                        true => Columns::Some(Vec::new()),
                        false => {
                            let listed = insert.columns.iter().filter_map(|name| name.0.last()?.as_ident());
                            self.check.listed(table, listed)
                        }
                    };
                    self.check.check_columns(table, &columns, Privileges::INSERT)?;
                }
                ast::MergeAction::Update(update) => {
                    let names = update.assignments.iter().filter_map(|a| match &a.target {
                        ast::AssignmentTarget::ColumnName(name) => Some(name),
                        ast::AssignmentTarget::Tuple(_) => None,
                    });
                    if !names_marker(names, NOTHING) {
                        self.check_assigned(table, &update.assignments)?;
                    }
                }
                ast::MergeAction::Delete { .. } => {
                    if !self.check.may(&Object::Relation(table.id), Privileges::DELETE) {
                        return Err(denied(kind(self.check.catalog, table), &table.name));
                    }
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, statement: &Statement) -> SqlResult<()> {
        self.scopes.push(Scope::default());
        match statement {
            Statement::Insert(insert) => self.insert(insert),
            Statement::Update(update) => self.update(update),
            Statement::Delete(delete) => self.delete(delete),
            Statement::Merge(merge) => self.merge(merge),
            Statement::Truncate(truncate) => {
                for target in &truncate.table_names {
                    if let Some(table) = self.check.table(&target.name)?
                        && !self.check.may(&Object::Relation(table.id), Privileges::TRUNCATE)
                    {
                        return Err(denied(kind(self.check.catalog, table), &table.name));
                    }
                }
                Ok(())
            }
            Statement::Copy { source: ast::CopySource::Table { table_name, columns }, to, .. } => {
                let Some(table) = self.check.table(table_name)? else { return Ok(()) };
                let wanted = if *to { Privileges::SELECT } else { Privileges::INSERT };
                let columns = self.check.listed(table, columns.iter());
                self.check.check_columns(table, &columns, wanted)
            }
            // What a DO does is asked for statement by statement.
            Statement::Call(function) if crate::parse::do_block(function).is_some() => Ok(()),
            Statement::Call(function) => {
                let name = names::parts(&function.name)?.pop().unwrap_or_default();
                match self.check.may(&Object::Procedure(name.clone()), Privileges::EXECUTE) {
                    true => Ok(()),
                    false => Err(denied("procedure", &name)),
                }
            }
            _ => Ok(()),
        }
    }

    /// `TABLE t` in the place of a query.
    fn whole_tables(&mut self, body: &SetExpr) -> SqlResult<()> {
        match body {
            SetExpr::SetOperation { left, right, .. } => {
                self.whole_tables(left)?;
                self.whole_tables(right)
            }
            SetExpr::Table(table) => {
                let parts = table.schema_name.iter().chain(&table.table_name);
                let name =
                    ObjectName::from(parts.map(|part| ast::Ident::new(part.as_str())).collect::<Vec<_>>());
                if let Some(table) = self.check.table(&name)? {
                    self.check.check_columns(table, &Columns::All, Privileges::SELECT)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn relation(&mut self, factor: &TableFactor) -> SqlResult<()> {
        let (name, alias) = match factor {
            TableFactor::Table { name, alias, args: None, .. } => (name, alias),
            // A name for a whole join hides whose columns are meant.
            TableFactor::NestedJoin { alias: Some(_), .. } => {
                self.scope().wildcards.push(None);
                return Ok(());
            }
            _ => return Ok(()),
        };
        if self.is_cte(name) {
            return Ok(());
        }
        let Some(table) = self.check.table(name)? else { return Ok(()) };
        let has_other_columns = alias.as_ref().is_some_and(|alias| !alias.columns.is_empty());
        let alias = alias.as_ref().map_or_else(|| table.name.clone(), |alias| names::fold(&alias.name));
        let scope = self.scope();
        if has_other_columns {
            scope.wildcards.push(Some(alias.clone()));
        }
        // The target of this very write is there already.
        let is_target =
            |read: &Read<'_>| read.only_if_named && read.alias == alias && Arc::ptr_eq(read.table, table);
        if !scope.tables.iter().any(is_target) {
            scope.tables.push(Read { alias, table, only_if_named: false });
        }
        Ok(())
    }
}

/// Whether names are the one that stands for an action which the parser does not know.
fn names_marker<'n>(names: impl IntoIterator<Item = &'n ObjectName>, marker: &str) -> bool {
    let is_marker =
        |name: &ObjectName| name.0.last().and_then(|part| part.as_ident()).is_some_and(|i| i.value == marker);
    names.into_iter().any(is_marker)
}

/// A column by its name. Planners fold letters beyond ASCII in more than one way, so their case does not count.
fn column_called(table: &Table, name: &str) -> Option<usize> {
    let same = |column: &base::schema::Column| !name.is_ascii() && column.name.to_lowercase() == *name;
    table.column_named(name).or_else(|| table.columns.iter().position(same))
}

fn join_constraint(operator: &ast::JoinOperator) -> Option<&ast::JoinConstraint> {
    use ast::JoinOperator as J;
    match operator {
        J::Join(c)
        | J::Inner(c)
        | J::Left(c)
        | J::LeftOuter(c)
        | J::Right(c)
        | J::RightOuter(c)
        | J::FullOuter(c)
        | J::CrossJoin(c)
        | J::Semi(c)
        | J::LeftSemi(c)
        | J::RightSemi(c)
        | J::Anti(c)
        | J::LeftAnti(c)
        | J::RightAnti(c)
        | J::StraightJoin(c) => Some(c),
        _ => None,
    }
}

fn flow(result: SqlResult<()>) -> ControlFlow<SqlError> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

impl Visitor for Reading<'_> {
    type Break = SqlError;

    fn pre_visit_statement(&mut self, statement: &Statement) -> ControlFlow<SqlError> {
        flow(self.begin(statement))
    }
    fn post_visit_statement(&mut self, _: &Statement) -> ControlFlow<SqlError> {
        flow(self.close(true))
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<SqlError> {
        // A common table expression sees those before it, and itself only where the list is recursive.
        if let Some(scope) = self.scopes.last_mut()
            && let Some(at) = scope.ctes.iter().position(|(_, cte)| std::ptr::eq(*cte, query))
        {
            scope.visible = if scope.is_recursive { scope.ctes.len() } else { at };
        }
        let locked = |clause: &ast::LockClause| {
            clause.of.as_ref().and_then(|of| names::parts(of).ok()).and_then(|mut parts| parts.pop())
        };
        let mut scope = Scope { locks: query.locks.iter().map(locked).collect(), ..Scope::default() };
        if let Some(with) = &query.with {
            let cte = |cte: &ast::Cte| (names::fold(&cte.alias.name), std::ptr::from_ref(cte.query.as_ref()));
            scope.ctes = with.cte_tables.iter().map(cte).collect();
            (scope.visible, scope.is_recursive) = (scope.ctes.len(), with.recursive);
        }
        self.scopes.push(scope);
        flow(self.whole_tables(&query.body))
    }
    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<SqlError> {
        let outer = self.scopes.len().checked_sub(2).map(|at| &self.scopes[at]);
        let is_apart = outer.and_then(|outer| outer.apart).is_some_and(|apart| std::ptr::eq(apart, query));
        let result = self.close(!is_apart);
        if let Some(scope) = self.scopes.last_mut() {
            scope.visible = scope.ctes.len();
        }
        flow(result)
    }

    fn pre_visit_select(&mut self, select: &ast::Select) -> ControlFlow<SqlError> {
        self.items(&select.projection);
        self.joins(&select.from);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<SqlError> {
        flow(self.relation(factor))
    }

    fn pre_visit_expr(&mut self, e: &Expr) -> ControlFlow<SqlError> {
        match e {
            Expr::Identifier(name) => self.scope().names.push((None, names::fold(name))),
            Expr::CompoundIdentifier(parts) => {
                if let [.., of, name] = parts.as_slice() {
                    self.scope().names.push((Some(names::fold(of)), names::fold(name)));
                }
            }
            Expr::CompoundFieldAccess { .. } | Expr::Wildcard(_) | Expr::QualifiedWildcard(..) => {
                self.scope().wildcards.push(None);
            }
            Expr::Function(function) => {
                if let ast::FunctionArguments::List(list) = &function.args {
                    for argument in &list.args {
                        if let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::QualifiedWildcard(name)) =
                            argument
                        {
                            let alias = names::parts(name).ok().and_then(|mut parts| parts.pop());
                            self.scope().wildcards.push(alias);
                        }
                    }
                }
                return flow(self.check.sequence(function));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

//! CREATE VIEW and DROP VIEW, and what depends on views and on what they read.
//!
//! A view's query is kept as text in which every relation has its schema and every `*` of its own lists is written out,
//! so that later changes of the search path or of a table leave its meaning alone.

use super::{Ddl, DdlContext};
use crate::lower::output_name;
use crate::names;
use crate::privileges::Check;
use crate::types::Column;
use crate::views::{Ctes, find, quoted};
use base::error::{SqlError, SqlResult, SqlState};
use base::schema::{SchemaAction, Table};
use base::views::{Relation, View};
use base::{DataType, TableId};
use sqlparser::ast::{
    self, Expr, ObjectName, ObjectNamePart, Query, Select, SelectItem, SetExpr, Statement, TableFactor,
    VisitMut, VisitorMut,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Tells the columns of a query's result; it takes the planner of queries to know them.
pub trait Shapes {
    fn columns(&self, query: &Query) -> SqlResult<Vec<Column>>;
}

const DEPENDENT: SqlState = SqlState(*b"2BP01");
const INVALID: SqlState = SqlState(*b"42P16");

impl DdlContext<'_> {
    fn names(&self) -> Check<'_> {
        Check {
            catalog: self.catalog,
            search_path: self.search_path,
            database: self.database,
            standing: self.standing,
        }
    }

    pub(super) fn create_view(&self, create: &ast::CreateView) -> SqlResult<Ddl> {
        let mut ddl = Ddl { tag: "CREATE VIEW", ..Ddl::default() };
        if create.materialized {
            let hint = "CREATE TABLE … AS keeps a result; CREATE VIEW reads anew each time.";
            return Err(SqlError::unsupported("CREATE MATERIALIZED VIEW").hint(hint));
        }
        if !matches!(create.options, ast::CreateTableOptions::None) || create.params.is_some() {
            return Err(SqlError::unsupported("CREATE VIEW with options"));
        }
        let reads_temporary = !create.temporary && self.reads_temporary(&create.query);
        let (schema, name) = self.new_name(&create.name, create.temporary || reads_temporary)?;
        if reads_temporary {
            ddl.notices.push((SqlState::SUCCESSFUL, format!("view \"{name}\" will be a temporary view")));
        }
        let known = self.catalog.relation_named(&schema, &name);
        let before = match known {
            Some(Relation::View(view)) if create.or_replace => Some(view),
            Some(Relation::Table(_)) if create.or_replace => {
                return Err(wrong_kind(&name, "view"));
            }
            _ if create.if_not_exists || !self.relation_exists(&schema, &name) => None,
            _ => {
                let told = format!("relation \"{name}\" already exists");
                return Err(SqlError::new(SqlState::DUPLICATE_TABLE, told));
            }
        };
        self.refuse_name_of_type(&schema, &name)?;
        let mut query = create.query.as_ref().clone();
        if matches!(query.body.as_ref(), SetExpr::Select(select) if select.into.is_some()) {
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "views must not contain SELECT INTO"));
        }
        if has_parameters(&query) {
            let told = "there is no parameter $1";
            return Err(SqlError::new(SqlState(*b"42P02"), told));
        }
        crate::interrupt::check()?;
        let given: Vec<String> = create.columns.iter().map(|column| names::fold(&column.name)).collect();
        let columns = self.shapes.columns(&query)?;
        if given.len() > columns.len() {
            let told = "CREATE VIEW specifies more column names than columns";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, told));
        }
        self.write_out(&mut query)?;
        let shown = columns.iter().enumerate();
        let names: Vec<String> =
            shown.map(|(at, column)| given.get(at).unwrap_or(&column.name).clone()).collect();
        let mut taken = BTreeSet::new();
        if let Some(twice) = names.iter().find(|name| !taken.insert(*name)) {
            let told = format!("column \"{twice}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, told));
        }
        call_columns(query.body.as_mut(), &names);
        names::qualify_types(&mut query);
        let uses = self.qualify(&mut query);
        let definition = query.to_string();
        self.check_text(&definition, &columns)?;
        let id = before.map_or(TableId(self.catalog.next_id), |view| view.shape.id);
        self.check_circle(id, &name, &uses)?;
        let typed = names.into_iter().zip(columns.iter().map(|column| column.data_type)).collect();
        let shape = View::shape(id, schema, name, typed);
        let type_oids = columns.iter().map(|column| column.type_oid).collect();
        let view = View { shape: shape.into(), type_oids, definition, uses };
        if let Some(before) = before {
            check_replaced(before, &view)?;
        }
        ddl.actions.push(SchemaAction::PutView(view));
        Ok(ddl)
    }

    /// A definition is kept only if its text says the same again.
    fn check_text(&self, definition: &str, columns: &[Column]) -> SqlResult<()> {
        let again = crate::parse::parse(definition).ok().and_then(|mut statements| statements.pop());
        if let Some(Statement::Query(query)) = again
            && query.to_string() == definition
            && let Ok(shape) = self.shapes.columns(&query)
            && shape.iter().map(|c| c.type_oid).eq(columns.iter().map(|c| c.type_oid))
        {
            return Ok(());
        }
        Err(SqlError::unsupported("a view whose query cannot be kept as text").detail(definition))
    }

    fn check_circle(&self, id: TableId, name: &str, uses: &BTreeMap<TableId, Vec<usize>>) -> SqlResult<()> {
        let mut rest: Vec<TableId> = uses.keys().copied().collect();
        let mut seen = BTreeSet::new();
        while let Some(used) = rest.pop() {
            if used == id {
                let told = format!("infinite recursion detected in rules for relation \"{name}\"");
                return Err(SqlError::new(SqlState(*b"42P17"), told));
            }
            if let Some(view) = self.catalog.views.get(&used).filter(|_| seen.insert(used)) {
                rest.extend(view.uses.keys());
            }
        }
        Ok(())
    }

    /// Writes out `*` in the lists of a query and of the queries that it is made of.
    fn write_out(&self, query: &mut Query) -> SqlResult<()> {
        struct Stars<'a, 'c> {
            context: &'a DdlContext<'c>,
            lists: Vec<Option<ast::With>>,
        }
        impl VisitorMut for Stars<'_, '_> {
            type Break = SqlError;
            fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
                self.lists.push(query.with.clone());
                ControlFlow::Continue(())
            }
            fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
                let with = self.lists.iter().flatten().next_back().cloned();
                self.lists.pop();
                // What a subquery shows beside a row of the query around it cannot be planned alone, and stays.
                let is_outermost = self.lists.is_empty();
                match self.context.stars(query.body.as_mut(), &with) {
                    Err(error) if is_outermost => ControlFlow::Break(error),
                    _ => ControlFlow::Continue(()),
                }
            }
        }
        let mut stars = Stars { context: self, lists: Vec::new() };
        match query.visit(&mut stars) {
            ControlFlow::Break(error) => Err(error),
            ControlFlow::Continue(()) => Ok(()),
        }
    }

    fn stars(&self, body: &mut SetExpr, with: &Option<ast::With>) -> SqlResult<()> {
        match body {
            SetExpr::SetOperation { left, right, .. } => {
                self.stars(left, with)?;
                self.stars(right, with)
            }
            SetExpr::Select(select) => self.stars_of(select, with),
            _ => Ok(()),
        }
    }

    fn stars_of(&self, select: &mut Select, with: &Option<ast::With>) -> SqlResult<()> {
        let mut items = Vec::with_capacity(select.projection.len());
        for item in &select.projection {
            let of = match item {
                SelectItem::Wildcard(_) => None,
                SelectItem::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                    name.0.last().and_then(|part| part.as_ident()).cloned()
                }
                item => {
                    items.push(item.clone());
                    continue;
                }
            };
            let alone = format!("SELECT {item} FROM {}", list(&select.from));
            let alone = match with {
                Some(with) => format!("{with} {alone}"),
                None => alone,
            };
            let Some(Statement::Query(alone)) = crate::parse::parse(&alone)?.pop() else { continue };
            for column in self.shapes.columns(&alone)? {
                let name = quoted(&column.name);
                let e = match &of {
                    Some(of) => Expr::CompoundIdentifier(vec![of.clone(), name]),
                    None => Expr::Identifier(name),
                };
                items.push(SelectItem::UnnamedExpr(e));
            }
        }
        select.projection = items;
        Ok(())
    }

    /// Puts its schema before every table and view of a query; answers which these are.
    pub(super) fn qualify(&self, query: &mut Query) -> BTreeMap<TableId, Vec<usize>> {
        let check = self.names();
        let mut walk = Qualify { check: &check, scopes: Vec::new(), read: Vec::new(), named: Vec::new() };
        let _ = query.visit(&mut walk);
        let mut uses: BTreeMap<TableId, Vec<usize>> = BTreeMap::new();
        for (alias, shape) in &walk.read {
            let columns = uses.entry(shape.id).or_default();
            for (of, name) in &walk.named {
                if of.as_ref().is_none_or(|of| of == alias) {
                    columns.extend(shape.column_named(name));
                }
            }
            columns.sort_unstable();
            columns.dedup();
        }
        uses
    }

    pub(super) fn drop_view(&self, name: &ObjectName) -> SqlResult<Vec<SchemaAction>> {
        match names::find_relation(self.catalog, self.search_path, self.database, name) {
            Some(Relation::View(view)) => Ok(vec![SchemaAction::DropView(view.shape.id)]),
            Some(Relation::Table(table)) => Err(wrong_kind(&table.name, "view")),
            None => {
                let told = format!("view \"{}\" does not exist", names::parts(name)?.join("."));
                Err(SqlError::new(SqlState::UNDEFINED_TABLE, told))
            }
        }
    }

    /// What a change does to views that read what it drops or alters: 2BP01, or with CASCADE they go too.
    pub(super) fn keep_views(&self, statement: &Statement, mut ddl: Ddl) -> SqlResult<Ddl> {
        if self.catalog.views.is_empty() {
            return Ok(ddl);
        }
        let cascade = match statement {
            Statement::Drop { cascade, .. } => *cascade,
            Statement::AlterTable(alter) => alter.to_string().to_uppercase().ends_with("CASCADE"),
            _ => false,
        };
        let (mut gone, remade) = self.gone_and_remade(&ddl);
        let mut cascaded: Vec<String> = Vec::new();
        let mut dropped: BTreeSet<TableId> = gone.iter().copied().collect();
        let mut blocked: Vec<String> = Vec::new();
        let mut first = None;
        while let Some(id) = gone.pop() {
            for view in self.catalog.views.values() {
                if view.uses.contains_key(&id) && dropped.insert(view.shape.id) {
                    let (kind, name) = self.kind_and_name(&base::roles::Object::Relation(id));
                    first.get_or_insert(format!("{kind} {name}"));
                    blocked.push(format!("view {} depends on {kind} {name}", view.shape.name));
                    cascaded.push(format!("view {}", view.shape.name));
                    ddl.actions.insert(0, SchemaAction::DropView(view.shape.id));
                    gone.push(view.shape.id);
                }
            }
        }
        self.check_alterations(&ddl, &dropped, &remade)?;
        if !cascade && !blocked.is_empty() {
            let what = match statement {
                Statement::Drop { object_type: ast::ObjectType::Schema, names, .. } => {
                    format!("schema {}", names.first().map(ToString::to_string).unwrap_or_default())
                }
                Statement::Drop { names, .. } if names.len() > 1 => {
                    let mut error = dependent("", &blocked.join("\n"));
                    error.message =
                        "cannot drop desired object(s) because other objects depend on them".into();
                    return Err(error);
                }
                _ => first.unwrap_or_default(),
            };
            return Err(dependent(&what, &blocked.join("\n")));
        }
        match cascaded.as_slice() {
            [] => {}
            [one] => ddl.notices.push((SqlState::SUCCESSFUL, format!("drop cascades to {one}"))),
            more => {
                let told = format!("drop cascades to {} other objects", more.len());
                ddl.notices.push((SqlState::SUCCESSFUL, told));
            }
        }
        let stays = |view: &&Arc<View>| !dropped.contains(&view.shape.id);
        let views = self.catalog.views.values().filter(stays);
        ddl.remade_views = views.filter_map(|view| over_remade(view, &remade)).collect();
        Ok(ddl)
    }

    /// Relations that a change drops, and tables that it makes anew under their names.
    fn gone_and_remade(&self, ddl: &Ddl) -> (Vec<TableId>, BTreeMap<TableId, TableId>) {
        let mut gone: Vec<TableId> = Vec::new();
        let mut remade: BTreeMap<TableId, TableId> = BTreeMap::new();
        for action in &ddl.actions {
            match action {
                SchemaAction::DropTable(id) => {
                    let named = self.catalog.table(*id).map(|table| (&table.schema, &table.name));
                    let again = ddl.actions.iter().find_map(|action| match action {
                        SchemaAction::CreateTable(table) => {
                            (named == Some((&table.schema, &table.name))).then_some(table.id)
                        }
                        _ => None,
                    });
                    match again {
                        Some(again) => drop(remade.insert(*id, again)),
                        None => gone.push(*id),
                    }
                }
                SchemaAction::DropView(id) => gone.push(*id),
                _ => {}
            }
        }
        (gone, remade)
    }

    fn check_alterations(
        &self,
        ddl: &Ddl,
        dropped: &BTreeSet<TableId>,
        remade: &BTreeMap<TableId, TableId>,
    ) -> SqlResult<()> {
        for action in &ddl.actions {
            let (SchemaAction::AlterTable(next) | SchemaAction::CreateTable(next)) = action else { continue };
            let from = remade.iter().find(|(_, to)| **to == next.id).map_or(next.id, |(from, _)| *from);
            let Some(before) = self.catalog.table(from) else { continue };
            for view in self.catalog.views.values().filter(|view| !dropped.contains(&view.shape.id)) {
                let Some(columns) = view.uses.get(&from) else { continue };
                check_altered(before, next, view, columns)?;
            }
        }
        Ok(())
    }
}

/// A view over tables that were made anew under their names; `None` if it reads none.
fn over_remade(view: &View, remade: &BTreeMap<TableId, TableId>) -> Option<View> {
    view.uses.keys().find(|id| remade.contains_key(id))?;
    let mut view = view.clone();
    let again = |(id, columns)| (remade.get(&id).copied().unwrap_or(id), columns);
    view.uses = std::mem::take(&mut view.uses).into_iter().map(again).collect();
    Some(view)
}

fn list(from: &[ast::TableWithJoins]) -> String {
    from.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn has_parameters(query: &Query) -> bool {
    let found: ControlFlow<()> = ast::visit_expressions(query, |e| match e {
        Expr::Value(value) if matches!(value.value, ast::Value::Placeholder(_)) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// `"t" is not a view`, and what to do instead.
pub(super) fn wrong_kind(name: &str, wanted: &str) -> SqlError {
    let (article, other) = if wanted == "view" { ("a table", "TABLE") } else { ("a view", "VIEW") };
    SqlError::new(SqlState(*b"42809"), format!("\"{name}\" is not a {wanted}"))
        .hint(format!("Use DROP {other} to remove {article}."))
}

fn dependent(what: &str, detail: &str) -> SqlError {
    SqlError::new(DEPENDENT, format!("cannot drop {what} because other objects depend on it"))
        .detail(detail)
        .hint("Use DROP ... CASCADE to drop the dependent objects too.")
}

/// Whether a view still finds what it reads in a table that is altered.
fn check_altered(before: &Table, next: &Table, view: &View, columns: &[usize]) -> SqlResult<()> {
    let name = &view.shape.name;
    if (&before.schema, &before.name) != (&next.schema, &next.name) {
        let what = format!("renaming table {} that view {name} reads", before.name);
        return Err(SqlError::unsupported(what).hint("Drop the view, rename, and create it again."));
    }
    for &column in columns {
        let (Some(old), new) = (before.columns.get(column), next.columns.get(column)) else { continue };
        let shown = &old.name;
        let Some(new) = new.filter(|new| new.hidden == old.hidden) else {
            let detail = format!("view {name} depends on column {shown} of table {}", before.name);
            return Err(dependent(&format!("column {shown} of table {}", before.name), &detail));
        };
        if new.name != old.name {
            let what = format!("renaming column {shown} of {} that view {name} reads", before.name);
            return Err(SqlError::unsupported(what).hint("Drop the view, rename, and create it again."));
        }
        if new.data_type != old.data_type {
            let told = "cannot alter type of a column used by a view or rule";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, told)
                .detail(format!("rule _RETURN on view {name} depends on column \"{shown}\"")));
        }
    }
    Ok(())
}

/// A view that takes another's place has its columns, and perhaps more behind them.
fn check_replaced(before: &View, view: &View) -> SqlResult<()> {
    let (old, new) = (&before.shape.columns, &view.shape.columns);
    if new.len() < old.len() {
        return Err(SqlError::new(INVALID, "cannot drop columns from view"));
    }
    let types = before.type_oids.iter().zip(&view.type_oids);
    for ((old, new), (old_oid, new_oid)) in old.iter().zip(new).zip(types) {
        if old.name != new.name {
            let told = format!("cannot change name of view column \"{}\" to \"{}\"", old.name, new.name);
            let hint = "Drop the view and create it again with the other name.";
            return Err(SqlError::new(INVALID, told).hint(hint));
        }
        if old.data_type != new.data_type || old_oid != new_oid {
            let (from, to) = (shown_type(old.data_type), shown_type(new.data_type));
            let told = format!("cannot change data type of view column \"{}\" from {from} to {to}", old.name);
            return Err(SqlError::new(INVALID, told));
        }
    }
    Ok(())
}

fn shown_type(data_type: DataType) -> String {
    if data_type == crate::types::NUMERIC { "numeric".into() } else { data_type.name() }
}

/// Gives the columns of a query their names in its text.
fn call_columns(body: &mut SetExpr, names: &[String]) {
    match body {
        SetExpr::Query(query) => call_columns(query.body.as_mut(), names),
        SetExpr::SetOperation { left, .. } => call_columns(left, names),
        SetExpr::Select(select) => {
            for (item, name) in select.projection.iter_mut().zip(names) {
                let e = match item {
                    SelectItem::UnnamedExpr(e) if output_name(e) == *name => continue,
                    SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. } => e.clone(),
                    _ => continue,
                };
                *item = SelectItem::ExprWithAlias { expr: e, alias: quoted(name) };
            }
        }
        _ => {}
    }
}

struct Qualify<'a> {
    check: &'a Check<'a>,
    scopes: Vec<Ctes>,
    read: Vec<(String, &'a Table)>,
    /// Names of columns, with what stands before the point.
    named: Vec<(Option<String>, String)>,
}

impl VisitorMut for Qualify<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        Ctes::enter(&mut self.scopes, query);
        ControlFlow::Continue(())
    }
    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        Ctes::leave(&mut self.scopes);
        ControlFlow::Continue(())
    }
    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, alias, args: None, .. } = factor
            && !Ctes::hide(&self.scopes, name)
            && let Some(relation) = find(self.check, name)
        {
            let shape = relation.shape();
            let called = alias.as_ref().map_or_else(|| shape.name.clone(), |alias| names::fold(&alias.name));
            self.read.push((called, shape));
            let parts = [&shape.schema, &shape.name];
            *name = ObjectName(parts.map(|part| ObjectNamePart::Identifier(quoted(part))).to_vec());
        }
        ControlFlow::Continue(())
    }
    fn post_visit_expr(&mut self, e: &mut Expr) -> ControlFlow<()> {
        match e {
            Expr::Identifier(name) => self.named.push((None, names::fold(name))),
            Expr::CompoundIdentifier(parts) => {
                if let [.., of, name] = parts.as_slice() {
                    self.named.push((Some(names::fold(of)), names::fold(name)));
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

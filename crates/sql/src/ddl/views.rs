//! CREATE VIEW and DROP VIEW, and what depends on views and on what they read.
//!
//! A view's query is kept as text in which every relation has its schema and every `*` of its own lists is written out,
//! so that later changes of the search path or of a table leave its meaning alone.

use super::relations::set_option;
use super::{Ddl, DdlContext};
use crate::lower::output_name;
use crate::names;
use crate::names::quoted;
use crate::privileges::Check;
use crate::routines::{self, scopes::Lookup};
use crate::types::Column;
use crate::walk::{self, WalkMut};
use base::error::{SqlError, SqlResult, SqlState};
use base::routines::Routine;
use base::schema::SchemaAction;
use base::views::{CheckOption, Relation, View};
use base::{DataType, TableId};
use sqlparser::ast::{self, Expr, ObjectName, Query, Select, SelectItem, SetExpr, Statement, VisitorMut};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// Tells the columns of a query's result; it takes the planner of queries to know them.
pub trait Shapes {
    fn columns(&self, query: &Query) -> SqlResult<Vec<Column>>;
    /// Columns of what a statement gives back, over parameters of these types; `None` if it gives nothing.
    fn columns_of(&self, statement: &Statement, parameters: &[DataType]) -> SqlResult<Option<Vec<Column>>>;
    /// Holds the body of a function in PL/pgSQL against its language, which is not known here.
    fn check_program(&self, routine: &Routine) -> SqlResult<()>;
}

/// A query as it is kept, and the columns of its rows with the names that they have there.
pub(super) struct Kept {
    pub definition: String,
    pub uses: BTreeMap<TableId, Vec<usize>>,
    pub names: Vec<String>,
    pub columns: Vec<Column>,
}

/// Errors: 22023.
pub(super) fn check_option(option: Option<&str>) -> SqlResult<CheckOption> {
    match option.map(str::to_lowercase).as_deref() {
        None => Ok(CheckOption::No),
        Some("local") => Ok(CheckOption::Local),
        Some("cascaded") => Ok(CheckOption::Cascaded),
        Some(other) => {
            let told = format!("invalid value for enum option \"check_option\": {other}");
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, told)
                .detail("Valid values are \"local\" and \"cascaded\"."))
        }
    }
}

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

    pub(super) fn lookup(&self) -> Lookup<'_> {
        Lookup { catalog: self.catalog, search_path: self.search_path, database: self.database }
    }

    pub(super) fn create_view(&self, create: &ast::CreateView) -> SqlResult<Ddl> {
        let mut ddl = Ddl { tag: "CREATE VIEW", ..Ddl::default() };
        if create.materialized {
            return self.create_materialized(create);
        }
        let options = match &create.options {
            ast::CreateTableOptions::None if create.params.is_none() => Vec::new(),
            ast::CreateTableOptions::With(options) if create.params.is_none() => {
                crate::parse::said_options(options)
            }
            _ => return Err(SqlError::unsupported("CREATE VIEW with options")),
        };
        let reads_temporary = !create.temporary && self.reads_temporary(&create.query);
        let (schema, name) = self.new_name(&create.name, create.temporary || reads_temporary)?;
        if reads_temporary {
            ddl.notice(SqlState::SUCCESSFUL, format!("view \"{name}\" will be a temporary view"));
        }
        let known = self.catalog.relation_named(&schema, &name);
        let before = match known {
            Some(Relation::View(view)) if create.or_replace && view.partition.is_some() => {
                return Err(self.not_a(&view.shape, "view"));
            }
            Some(Relation::View(view)) if create.or_replace => Some(view),
            Some(Relation::Table(table)) if create.or_replace => return Err(self.not_a(table, "view")),
            _ if create.if_not_exists || !self.relation_exists(&schema, &name) => None,
            _ => {
                let told = format!("relation \"{name}\" already exists");
                return Err(SqlError::new(SqlState::DUPLICATE_TABLE, told));
            }
        };
        self.refuse_name_of_type(&schema, &name)?;
        let Kept { definition, uses, names, columns } = self.kept_query(create)?;
        let id = before.map_or(TableId(self.catalog.next_id), |view| view.shape.id);
        self.check_circle(id, &name, &uses)?;
        let typed = names.into_iter().zip(columns.iter().map(|column| column.data_type)).collect();
        let shape = View::shape(id, schema, name, typed);
        let type_oids = columns.iter().map(|column| column.type_oid).collect();
        let mut view = View {
            shape: shape.into(),
            type_oids,
            definition,
            uses,
            check_option: CheckOption::No,
            partition: None,
            security: Default::default(),
        };
        options.iter().try_for_each(|(name, value)| set_option(&mut view, name, value.as_deref()))?;
        if let Some(before) = before {
            check_replaced(before, &view)?;
        }
        if view.check_option != CheckOption::No {
            crate::views::refuse_check_option(self.catalog, &view)?;
        }
        ddl.actions.push(SchemaAction::PutView(view));
        Ok(ddl)
    }

    /// The query of a view as it is kept.
    pub(super) fn kept_query(&self, create: &ast::CreateView) -> SqlResult<Kept> {
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
        routines::kept::qualify(self.lookup(), &mut query);
        let uses = self.qualify(&mut query);
        let definition = query.to_string();
        self.check_text(&definition, &columns)?;
        Ok(Kept { definition, uses, names, columns })
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
        match query.walk_mut(&mut stars) {
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
        crate::views::qualify(&self.names(), query)
    }

    pub(super) fn drop_view(&self, name: &ObjectName) -> SqlResult<Vec<SchemaAction>> {
        match names::find_relation(self.catalog, self.search_path, self.database, name) {
            Some(Relation::View(view)) if view.partition.is_some() => Err(self.not_a(&view.shape, "view")),
            Some(Relation::View(view)) => Ok(vec![SchemaAction::DropView(view.shape.id)]),
            Some(Relation::Table(table)) => Err(self.not_a(table, "view")),
            None => {
                let told = format!("view \"{}\" does not exist", names::parts(name)?.join("."));
                Err(SqlError::new(SqlState::UNDEFINED_TABLE, told))
            }
        }
    }
}

fn list(from: &[ast::TableWithJoins]) -> String {
    from.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn has_parameters(query: &Query) -> bool {
    let found: ControlFlow<()> = walk::expressions(query, |e| match e {
        Expr::Value(value) if matches!(value.value, ast::Value::Placeholder(_)) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
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
pub(super) fn call_columns(body: &mut SetExpr, names: &[String]) {
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

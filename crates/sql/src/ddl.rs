//! DDL as changes of the catalog.
//!
//! A change is planned against one version of the catalog and carries it; at any other version it
//! aborts and is planned anew, so nothing is half applied.

mod alter_table;
mod comments;
mod composites;
mod create_table;
mod databases;
mod defaults;
mod dependents;
mod domains;
mod foreign_keys;
mod generated;
mod grants;
pub mod indexes;
mod kept_texts;
mod later;
mod leaving;
mod like;
mod materialized;
mod partitions;
mod permission;
pub mod placement;
mod relations;
mod role_settings;
mod roles;
mod routines;
mod sequence_options;
mod sequences;
mod temporary;
mod triggers;
mod types;
mod views;

pub use databases::{DatabaseChange, Vacated, plan_database};
pub use foreign_keys::definition as foreign_key_definition;
pub use indexes::without_index;
pub use later::{Building, Checking, Later};
pub use leaving::{drop_temporary, lose_defaults};
pub use partitions::PartitionRows;
pub use role_settings::{KnownSettings, setting_text};
pub use roles::Secrets;
pub use views::Shapes;

use crate::generators::Generators;
use crate::lower::scope::{ParameterTypes, Scope};
use crate::lower::{Lowering, Refusal, bind};
use crate::names;
use base::error::{SqlResult, SqlState};
use base::expr::Expr;
use base::identifier::first_free;
use base::roles::{Object, RoleChange, Standing};
use base::schema::{Catalog, Check, SchemaAction, Sequence, Table};
use base::topology::Topology;
use base::views::{Relation, View};
use base::{Datum, RegionId, SqlError, TableId};
use sqlparser::ast::{self, Statement};
use std::sync::Arc;

/// What DDL is planned against.
pub struct DdlContext<'a> {
    pub catalog: &'a Arc<Catalog>,
    pub search_path: &'a [String],
    pub database: &'a str,
    pub topology: &'a Topology,
    /// Where tables live that do not say.
    pub region: RegionId,
    pub generators: &'a Generators,
    pub times: bind::Times,
    /// The role that acts.
    pub standing: &'a Standing,
    pub secrets: &'a dyn Secrets,
    pub shapes: &'a dyn Shapes,
    pub settings: &'a dyn KnownSettings,
    /// The statement is a transaction of its own, so that what it makes may come in several steps.
    pub is_alone: bool,
    /// Whether bodies of functions are looked at when they are made.
    pub checks_bodies: bool,
}

/// A planned change.
#[derive(Debug, Default)]
pub struct Ddl {
    /// Empty: nothing to do (IF [NOT] EXISTS).
    pub actions: Vec<SchemaAction>,
    pub tag: &'static str,
    pub notices: Vec<(SqlState, String)>,
    /// A table whose rows are written into another one, which takes its place.
    pub rewrites: Option<Rewrite>,
    /// Rows of partitions that come and go.
    pub partition_rows: Vec<PartitionRows>,
    /// What follows the change in transactions of their own. If the table has few rows it is better done with the change:
    /// [`Ddl::at_once`].
    pub later: Option<Later>,
    /// Stored queries over a table that is made anew.
    remade_views: Vec<View>,
}

/// A table that is made anew, with the rows of another.
#[derive(Debug)]
pub struct Rewrite {
    pub from: Arc<Table>,
    pub to: TableId,
    /// Columns that get other values, computed over the old row; the others keep theirs.
    pub set: Vec<(usize, Expr)>,
    /// Columns that number the rows: by sequences that come with the change and go on behind them.
    pub numbered: Vec<usize>,
}

impl Rewrite {
    /// A table's rows as they are.
    fn of(table: &Arc<Table>) -> Rewrite {
        Rewrite { from: table.clone(), to: table.id, set: Vec::new(), numbered: Vec::new() }
    }
}

/// What a table's columns and constraints bring beside themselves.
#[derive(Default)]
struct Extras {
    sequences: Vec<Sequence>,
    /// Added when all columns and unique constraints are known.
    foreign: Vec<ast::ForeignKeyConstraint>,
}

/// Whether a statement changes the catalog.
pub fn is_ddl(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::CreateTable(_)
            | Statement::CreateIndex(_)
            | Statement::AlterTable(_)
            | Statement::AlterIndex { .. }
            | Statement::Drop { .. }
            | Statement::CreateSchema { .. }
            | Statement::CreateSequence { .. }
            | Statement::CreateView(_)
            | Statement::Comment { .. }
            | Statement::AlterSchema(_)
            | Statement::CreateType { .. }
            | Statement::AlterType(_)
            | Statement::DropDomain(_)
            | Statement::CreateFunction(_)
            | Statement::CreateRole(_)
            | Statement::AlterRole { .. }
            | Statement::Grant(_)
            | Statement::Revoke(_)
    )
}

/// Plans a statement for which [`is_ddl`] holds. Errors: among others 42501.
pub fn plan(context: &DdlContext<'_>, statement: &Statement) -> SqlResult<Ddl> {
    crate::user_types::within(context.catalog, context.search_path, || plan_over_types(context, statement))
}

fn plan_over_types(context: &DdlContext<'_>, statement: &Statement) -> SqlResult<Ddl> {
    let planned = context.with_temporary_schema(plan_change(context, statement)?)?;
    // What follows for partitions needs no right of its own.
    let permitted = context.with_partitions(context.permit(planned)?)?;
    let counted = context.drop_counted_domains(statement, permitted)?;
    let kept = context.keep_routines(statement, counted)?;
    let kept = context.keep_triggers(statement, kept)?;
    let kept = context.keep_views(statement, kept)?;
    let mut ddl = context.keep_defaults(statement, kept)?;
    ddl.actions.extend(ddl.remade_views.drain(..).map(SchemaAction::PutView));
    Ok(ddl)
}

fn plan_change(context: &DdlContext<'_>, statement: &Statement) -> SqlResult<Ddl> {
    if let Some(of_routine) = crate::parse::routine_statement(statement)? {
        return context.change_routine(&of_routine);
    }
    if let Some(of_trigger) = crate::parse::trigger_statement(statement)? {
        return context.change_trigger(&of_trigger);
    }
    match statement {
        Statement::CreateTable(create) => create_table::create_table(context, create),
        Statement::CreateIndex(create) => context.create_index(create),
        Statement::CreateView(create) => context.create_view(create),
        Statement::Comment { object_type, object_name, comment, .. } => {
            context.comment(object_type, object_name, comment.as_deref())
        }
        Statement::AlterTable(alter) => context.alter_table(alter),
        Statement::CreateType { name, representation } => context.create_type(name, representation.as_ref()),
        Statement::AlterType(alter) => context.alter_type_itself(alter),
        Statement::DropDomain(drop) => context.drop_domain(drop),
        Statement::AlterIndex { name, operation } => context.alter_index(name, operation),
        Statement::Drop { object_type: ast::ObjectType::Role, if_exists, names, .. } => {
            context.drop_role(*if_exists, names)
        }
        Statement::Drop { object_type: ast::ObjectType::Type, if_exists, names, cascade, .. } => {
            context.drop_types(*if_exists, names, *cascade)
        }
        Statement::CreateRole(create) => context.create_role(create),
        Statement::AlterRole { name, operation } => context.alter_role(name, operation),
        Statement::Grant(grant) => context.grant(grant),
        Statement::Revoke(revoke) => context.revoke(revoke),
        Statement::AlterSchema(alter) => context.alter_schema(alter),
        Statement::Drop { object_type, if_exists, names, cascade, .. } => {
            context.drop(object_type, *if_exists, names, *cascade)
        }
        Statement::CreateSchema { schema_name, if_not_exists, .. } => {
            context.create_schema(schema_name, *if_not_exists)
        }
        Statement::CreateSequence {
            temporary,
            if_not_exists,
            name,
            data_type,
            sequence_options: options,
            owned_by,
        } => {
            let (name, options) = ((name, *temporary), (data_type.as_ref(), options.as_slice()));
            context.create_sequence(name, *if_not_exists, options, owned_by.as_ref())
        }
        other => Err(SqlError::unsupported(first_words(other))),
    }
}

/// The start of a statement, to name it in an error.
pub fn first_words(statement: &Statement) -> String {
    if let Ok(Some(of)) = crate::parse::of_database(statement) {
        return of.what.tag().into();
    }
    let carried = crate::parse::carried_text(statement).map(str::to_uppercase);
    let text = carried.unwrap_or_else(|| statement.to_string());
    let words = text.split_whitespace().filter(|word| !["OR", "REPLACE"].contains(word));
    let words: Vec<&str> = words.take(2).collect();
    words.join(" ")
}

impl Ddl {
    fn add(&mut self, action: SchemaAction) {
        self.actions.push(action);
    }
    fn notice(&mut self, state: SqlState, text: String) {
        self.notices.push((state, text));
    }
}

impl DdlContext<'_> {
    fn find_table(&self, name: &ast::ObjectName) -> SqlResult<&Arc<Table>> {
        names::find_table(self.catalog, self.search_path, self.database, name)
    }

    /// A name of these parts that no relation of the schema has: `t_a_key`, `t_a_key1`, …
    fn free_name(&self, schema: &str, parts: [&str; 3], taken: &[String]) -> String {
        let is_taken = |name: &str| taken.iter().any(|t| t == name) || self.relation_exists(schema, name);
        first_free(parts, |name| !is_taken(name))
    }

    fn relation_exists(&self, schema: &str, name: &str) -> bool {
        self.catalog.relation_named(schema, name).is_some()
            || self.catalog.index_named(schema, name).is_some()
            || self.catalog.sequences.values().any(|s| s.schema == schema && s.name == name)
            || self.catalog.tables.values().any(|t| {
                t.schema == schema
                    && t.primary_key_name == name
                    && !t.primary_key.iter().any(|c| t.columns[*c].hidden)
            })
    }

    fn create_schema(&self, name: &ast::SchemaName, if_not_exists: bool) -> SqlResult<Ddl> {
        let (name, owner) = match name {
            ast::SchemaName::Simple(name) => (names::parts(name)?.pop(), None),
            ast::SchemaName::NamedAuthorization(name, owner) => (names::parts(name)?.pop(), Some(owner)),
            ast::SchemaName::UnnamedAuthorization(owner) => (None, Some(owner)),
        };
        let owner = owner.map(|owner| self.future_owner(owner)).transpose()?;
        let of_owner = || owner.map(|owner| self.roles().name(owner).to_string());
        let name = name.or_else(of_owner).expect("there is one or the other");
        let mut ddl = Ddl { tag: "CREATE SCHEMA", ..Ddl::default() };
        if name.starts_with("pg_") || ["information_schema", "meridian"].contains(&name.as_str()) {
            return Err(SqlError::new(SqlState(*b"42939"), format!("unacceptable schema name \"{name}\"")));
        }
        if self.catalog.schemas.contains(&name) {
            let message = format!("schema \"{name}\" already exists");
            if !if_not_exists {
                return Err(SqlError::new(SqlState::DUPLICATE_SCHEMA, message));
            }
            ddl.notices.push((SqlState::DUPLICATE_SCHEMA, format!("{message}, skipping")));
            return Ok(ddl);
        }
        ddl.actions.push(SchemaAction::CreateSchema(name.clone()));
        let owner = owner.filter(|owner| *owner != self.standing.role);
        let owner = owner.map(|owner| RoleChange::SetOwner(Object::Schema(name), owner));
        ddl.actions.extend(owner.map(SchemaAction::Roles));
        Ok(ddl)
    }

    fn alter_schema(&self, alter: &ast::AlterSchema) -> SqlResult<Ddl> {
        let name = names::parts(&alter.name)?.pop().expect("a name has a part");
        if !self.catalog.schemas.contains(&name) {
            let message = format!("schema \"{name}\" does not exist");
            return Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message));
        }
        match alter.operations.as_slice() {
            [ast::AlterSchemaOperation::OwnerTo { owner }] => {
                self.change_owner(Object::Schema(name), owner, "ALTER SCHEMA")
            }
            _ => Err(SqlError::unsupported("ALTER SCHEMA other than OWNER TO")),
        }
    }

    fn drop(
        &self,
        object_type: &ast::ObjectType,
        if_exists: bool,
        names: &[ast::ObjectName],
        cascade: bool,
    ) -> SqlResult<Ddl> {
        let mut ddl = Ddl::default();
        let mut altered: Vec<Table> = Vec::new();
        for name in names {
            let result = match object_type {
                ast::ObjectType::Table => {
                    ddl.tag = "DROP TABLE";
                    self.drop_table(name)
                }
                ast::ObjectType::View => {
                    ddl.tag = "DROP VIEW";
                    self.drop_view(name)
                }
                ast::ObjectType::MaterializedView => {
                    ddl.tag = "DROP MATERIALIZED VIEW";
                    self.drop_materialized(name)
                }
                ast::ObjectType::Schema => {
                    ddl.tag = "DROP SCHEMA";
                    self.drop_schema(name, cascade)
                }
                ast::ObjectType::Index => {
                    ddl.tag = "DROP INDEX";
                    self.drop_index(name, cascade, &mut altered, &mut ddl).map(|()| Vec::new())
                }
                ast::ObjectType::Sequence => {
                    ddl.tag = "DROP SEQUENCE";
                    self.drop_sequence(name)
                }
                other => return Err(SqlError::unsupported(format!("DROP {other}"))),
            };
            match result {
                // What was dropped with something else before is not dropped again.
                Ok(mut actions) => {
                    actions.retain(|action| !ddl.actions.contains(action));
                    ddl.actions.extend(actions);
                }
                Err(e) if if_exists && is_missing(&e) => {
                    ddl.notices.push((SqlState::SUCCESSFUL, format!("{}, skipping", e.message)));
                }
                Err(e) => return Err(e),
            }
        }
        let drops = |action: &SchemaAction| match action {
            SchemaAction::DropTable(id) => Some(*id),
            _ => None,
        };
        let gone: Vec<TableId> = ddl.actions.iter().filter_map(drops).collect();
        self.drop_tables(&gone, cascade, &mut altered, &mut ddl)?;
        ddl.actions.extend(altered.into_iter().map(SchemaAction::AlterTable));
        Ok(ddl)
    }

    fn drop_table(&self, name: &ast::ObjectName) -> SqlResult<Vec<SchemaAction>> {
        match self.find_table(name) {
            Ok(table) if crate::materialized::is_one(self.catalog, table.id) => {
                Err(self.not_a(table, "table"))
            }
            Ok(table) => Ok(vec![SchemaAction::DropTable(table.id)]),
            Err(mut e) => {
                if let Ok(found) = self.find_relation(name) {
                    if let Relation::View(view) = found
                        && view.partition.is_some()
                    {
                        return Ok(self.drop_partition(view));
                    }
                    return Err(self.not_a(found.shape(), "table"));
                }
                e.message = e.message.replacen("relation", "table", 1);
                Err(e)
            }
        }
    }

    fn drop_schema(&self, name: &ast::ObjectName, cascade: bool) -> SqlResult<Vec<SchemaAction>> {
        let name = names::parts(name)?.pop().expect("a name has a part");
        temporary::refuse_schema(&name)?;
        if !self.catalog.schemas.contains(&name) {
            return Err(SqlError::new(
                SqlState::INVALID_SCHEMA_NAME,
                format!("schema \"{name}\" does not exist"),
            ));
        }
        let tables: Vec<TableId> =
            self.catalog.tables.values().filter(|t| t.schema == name).map(|t| t.id).collect();
        let owned = |s: &Sequence| s.owner.is_some_and(|(table, _)| tables.contains(&table));
        let sequences: Vec<TableId> =
            self.catalog.sequences.values().filter(|s| s.schema == name && !owned(s)).map(|s| s.id).collect();
        let views: Vec<TableId> =
            self.catalog.views.values().filter(|v| v.shape.schema == name).map(|v| v.shape.id).collect();
        let types: Vec<TableId> = self.catalog.types.in_schema(&name).collect();
        let routines = self.routines_of_schema(&name)?;
        let count = tables.len() + sequences.len() + views.len() + types.len() + routines.len();
        if !cascade && count > 0 {
            return Err(SqlError::new(
                SqlState(*b"2BP01"),
                format!("cannot drop schema {name} because other objects depend on it"),
            )
            .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        let mut actions: Vec<SchemaAction> = tables.into_iter().map(SchemaAction::DropTable).collect();
        actions.extend(views.into_iter().map(SchemaAction::DropView));
        actions.extend(sequences.into_iter().map(SchemaAction::DropSequence));
        actions.extend(routines.into_iter().map(SchemaAction::DropRoutine));
        self.refuse_used_elsewhere(&name, &types)?;
        actions.extend(types.into_iter().map(SchemaAction::DropType));
        actions.push(SchemaAction::DropSchema(name));
        Ok(actions)
    }

    /// Lowers a CHECK over a table's columns.
    fn check(&self, table: &Table, name: String, expr: &ast::Expr) -> SqlResult<Check> {
        let mut parameters = ParameterTypes::default();
        let mut lowering = self.lowering(&mut parameters);
        let scope = Scope::table(table, None);
        let mut exprs = lowering.exprs(&scope);
        // It is computed where a row is written, as an assigned value is.
        exprs.is_assignment = true;
        let lowered = exprs
            .condition(expr, "CHECK")
            .map_err(|r: Refusal| r.or(|| SqlError::unsupported(format!("CHECK ({expr})"))))?;
        let mut has_holes = false;
        lowered.walk(&mut |e| has_holes |= matches!(e, Expr::Column(c) if !bind::is_table_column(*c)));
        if has_holes {
            return Err(SqlError::unsupported("a volatile function in CHECK"));
        }
        let sql = kept_texts::over_columns(table, expr);
        Ok(Check { name, sql, expr: lowered, is_validated: true })
    }

    fn lowering<'b>(&'b self, parameters: &'b mut ParameterTypes) -> Lowering<'b> {
        Lowering { catalog: self.catalog, search_path: self.search_path, database: self.database, parameters }
    }

    /// The value of a DEFAULT now, for rows that are there already.
    fn default_value(&self, table: &Table, number: usize) -> SqlResult<Datum> {
        let Some(sql) = table.default_of(number) else { return Ok(Datum::Null) };
        let column = &table.columns[number];
        let mut parameters = ParameterTypes::default();
        let mut lowering = self.lowering(&mut parameters);
        let parsed = lowering.kept_expression(sql)?;
        let scope = Scope::default();
        let expr = lowering
            .exprs(&scope)
            .assignment(&parsed, &column.name, column.data_type)
            .map_err(|r| r.or(|| SqlError::unsupported(format!("the default {sql}"))))?;
        if bind::changes_per_row(&expr) {
            return Err(SqlError::unsupported(format!(
                "adding a column whose default differs from row to row to \"{}\"",
                table.name
            )));
        }
        let binding = bind::Binding {
            parameters: &[],
            times: self.times,
            generators: self.generators,
            catalog: self.catalog,
        };
        crate::lower::insert::assign(binding.value(&expr)?, column)
    }
}

fn is_missing(error: &SqlError) -> bool {
    let states = [SqlState::UNDEFINED_TABLE, SqlState::UNDEFINED_OBJECT, SqlState::INVALID_SCHEMA_NAME];
    states.contains(&error.state) || error.state == SqlState::UNDEFINED_FUNCTION
}

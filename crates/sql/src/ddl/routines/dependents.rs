//! What depends on functions, and on what functions depend.

use super::super::{Ddl, DdlContext};
use crate::names;
use crate::routines;
use crate::walk;
use base::TableId;
use base::error::{SqlError, SqlResult, SqlState};
use base::routines::Routine;
use base::schema::{Identity, SchemaAction};
use sqlparser::ast::{self, Statement};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

const DEPENDENT: SqlState = SqlState(*b"2BP01");

/// A text of the catalog's that may call functions.
struct Text {
    what: String,
    schema: String,
    sql: String,
}

impl DdlContext<'_> {
    /// Views, defaults and rules that call a routine: by its name and a number of arguments that it takes.
    pub(super) fn users_of(&self, routine: &Routine) -> SqlResult<Vec<String>> {
        self.callers(routine, |_| true)
    }

    fn callers(&self, routine: &Routine, is_asked_for: impl Fn(&Text) -> bool) -> SqlResult<Vec<String>> {
        let mut found = Vec::new();
        for text in self.texts().into_iter().filter(|text| is_asked_for(text)) {
            // Most texts do not have the name at all.
            if text.sql.to_lowercase().contains(&routine.name.to_lowercase()) && calls(&text.sql, routine)? {
                found.push(text.what);
            }
        }
        Ok(found)
    }

    fn texts(&self) -> Vec<Text> {
        let mut all = Vec::new();
        for table in self.catalog.tables.values() {
            let mut add = |what: String, sql: &str| {
                let what = format!("{what} of table {}", table.name);
                all.push(Text { what, schema: table.schema.clone(), sql: format!("SELECT {sql}") });
            };
            for check in table.checks.iter() {
                add(format!("constraint {}", check.name), &check.sql);
            }
            for trigger in table.triggers.all() {
                if let Some(condition) = &trigger.condition {
                    add(format!("condition of trigger {}", trigger.name), condition);
                }
            }
            for column in &table.columns {
                let Some(sql) = &column.default else { continue };
                match column.identity {
                    Identity::Generated => add(format!("column {}", column.name), sql),
                    _ => add(format!("default value for column {}", column.name), sql),
                }
            }
        }
        for domain in self.catalog.types.domains.values() {
            let sql = domain.default.iter().chain(domain.checks.iter().map(|check| &check.sql));
            for sql in sql {
                let (what, schema) = (format!("type {}", domain.name), domain.schema.clone());
                all.push(Text { what, schema, sql: format!("SELECT {sql}") });
            }
        }
        for view in self.catalog.views.values() {
            all.push(Text {
                what: format!("{} {}", crate::materialized::kind(self.catalog, &view.shape), view.shape.name),
                schema: view.shape.schema.clone(),
                sql: view.definition.clone(),
            });
        }
        for routine in self.catalog.routines.0.values() {
            for sql in routine.parameters.iter().filter_map(|parameter| parameter.default.as_ref()) {
                let what = format!("function {}", routines::signature(self.catalog, routine));
                all.push(Text { what, schema: routine.schema.clone(), sql: format!("SELECT {sql}") });
            }
            if let Some(aggregate) = routine.aggregate() {
                let what = format!("function {}", routines::signature(self.catalog, routine));
                let next = routines::fold::transition(self.catalog, aggregate, routine);
                let last = aggregate.last.iter();
                let last = last.map(|last| routines::fold::call(self.catalog, last, &["state".to_string()]));
                let sql = std::iter::once(next).chain(last).collect::<Vec<_>>().join(", ");
                all.push(Text { what, schema: routine.schema.clone(), sql: format!("SELECT {sql}") });
            }
        }
        all
    }

    /// Errors: 2BP01 for routines that are called by what stays; 0A000 with CASCADE, which does not take it along.
    pub(super) fn refuse_called(&self, gone: &[&Arc<Routine>], is_cascade: bool) -> SqlResult<()> {
        let mut detail = Vec::new();
        for routine in gone {
            let own = format!("function {}", routines::signature(self.catalog, routine));
            let users = self.users_of(routine)?.into_iter().filter(|what| *what != own);
            let shown = format!("{} {}", routine.kind(), routines::signature(self.catalog, routine));
            detail.extend(users.map(|what| format!("{what} depends on {shown}")));
        }
        let Some(first) = detail.first() else { return Ok(()) };
        if is_cascade {
            return Err(SqlError::unsupported("dropping a function together with what calls it")
                .detail(first.clone())
                .hint("Drop what calls it first."));
        }
        let what = match gone {
            [one] => format!(
                "cannot drop {} {} because other objects depend on it",
                one.kind(),
                routines::signature(self.catalog, one)
            ),
            _ => "cannot drop desired object(s) because other objects depend on them".into(),
        };
        Err(SqlError::new(DEPENDENT, what)
            .detail(detail.join("\n"))
            .hint("Use DROP ... CASCADE to drop the dependent objects too."))
    }

    /// What a change does to functions whose signatures name what it drops: 2BP01, or with CASCADE they go too.
    pub(in super::super) fn keep_routines(&self, statement: &Statement, mut ddl: Ddl) -> SqlResult<Ddl> {
        if self.catalog.routines.0.is_empty() {
            return Ok(ddl);
        }
        let (mut relations, mut types, mut dropped) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for action in &ddl.actions {
            match action {
                SchemaAction::DropTable(id) | SchemaAction::DropView(id) => drop(relations.insert(*id)),
                SchemaAction::DropType(id) => drop(types.insert(*id)),
                SchemaAction::DropRoutine(id) => drop(dropped.insert(*id)),
                _ => {}
            }
        }
        if let Some(rewrite) = &ddl.rewrites {
            relations.remove(&rewrite.from.id);
            let of_table = |routine: &&Arc<Routine>| routine.row_of() == Some(rewrite.from.id);
            let followed = self.catalog.routines.0.values().filter(of_table).map(|routine| {
                let mut next = routine.as_ref().clone();
                next.give_rows_of(rewrite.to);
                SchemaAction::PutRoutine(next)
            });
            ddl.actions.extend(followed.collect::<Vec<_>>());
        }
        if relations.is_empty() && types.is_empty() {
            return Ok(ddl);
        }
        let mut detail = Vec::new();
        let mut going: Vec<&Arc<Routine>> = Vec::new();
        for routine in self.catalog.routines.0.values().filter(|routine| !dropped.contains(&routine.id)) {
            let of_type = routine.all_types().find_map(|of| {
                let ids = of.domain.into_iter().chain(of.data_type.made_id());
                ids.into_iter().find(|id| types.contains(id))
            });
            let Some(id) = of_type.or(routine.row_of().filter(|id| relations.contains(id))) else { continue };
            let shown = format!("{} {}", routine.kind(), routines::signature(self.catalog, routine));
            detail.push(format!("{shown} depends on type {}", self.type_called(id)));
            going.push(routine);
        }
        let Some(first) = detail.first() else { return Ok(ddl) };
        let is_cascade = match statement {
            Statement::Drop { cascade, .. } => *cascade,
            Statement::DropDomain(drop) => drop.drop_behavior == Some(ast::DropBehavior::Cascade),
            _ => false,
        };
        if !is_cascade {
            let (_, of) = first.split_once(" depends on type ").unwrap_or_default();
            let kind = if types.is_empty() { "table" } else { "type" };
            let told = format!("cannot drop {kind} {of} because other objects depend on it");
            return Err(SqlError::new(DEPENDENT, told)
                .detail(detail.join("\n"))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        self.refuse_called(&going, true)?;
        let told = match going.as_slice() {
            [one] => {
                format!("drop cascades to {} {}", one.kind(), routines::signature(self.catalog, one))
            }
            more => format!("drop cascades to {} other objects", more.len()),
        };
        ddl.notice(SqlState::SUCCESSFUL, told);
        let drops = going.iter().map(|routine| SchemaAction::DropRoutine(routine.id));
        ddl.actions.splice(0..0, drops);
        Ok(ddl)
    }

    fn type_called(&self, id: TableId) -> String {
        let relation = self.catalog.relation(id).map(|relation| relation.shape().name.clone());
        let domain = || self.catalog.types.domains.get(&id).map(|domain| domain.name.clone());
        let made = || self.catalog.types.made(id).map(|of| of.name());
        relation.or_else(domain).or_else(made).unwrap_or_default()
    }

    /// DROP SCHEMA … CASCADE takes its routines along. Errors: 0A000 while something of another schema calls them.
    pub(in super::super) fn routines_of_schema(&self, schema: &str) -> SqlResult<Vec<TableId>> {
        let mut ids = Vec::new();
        for routine in self.catalog.routines.in_schema(schema) {
            if let Some(what) = self.callers(routine, |text| text.schema != schema)?.first() {
                let told = format!("dropping a schema with a function that {what} calls");
                return Err(SqlError::unsupported(told).hint("Drop what calls it first."));
            }
            ids.push(routine.id);
        }
        Ok(ids)
    }
}

/// Whether a text calls a routine. A name without its schema is taken for it, so what is not certain counts.
fn calls(sql: &str, routine: &Routine) -> SqlResult<bool> {
    let means = |name: &ast::ObjectName, arguments: usize| {
        let Ok(parts) = names::parts(name) else { return false };
        let is_name = parts.last() == Some(&routine.name);
        let is_schema = parts.len() < 2 || parts[parts.len() - 2] == routine.schema;
        let most = if routine.is_variadic { usize::MAX } else { routine.parameters.len() };
        is_name && is_schema && (routine.required()..=most).contains(&arguments)
    };
    let statements = crate::parse::parse(sql)?;
    let found = walk::expressions(&statements, |e| match e {
        ast::Expr::Function(function) if means(&function.name, routines::count(&function.args)) => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    if found.is_break() {
        return Ok(true);
    }
    Ok(routines::table_calls(&statements).iter().any(|(name, arguments)| means(name, *arguments)))
}

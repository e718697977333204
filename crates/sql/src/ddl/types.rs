//! CREATE, ALTER and DROP TYPE as changes of the catalog.

use super::domains::Made;
use super::{Ddl, DdlContext, is_missing};
use crate::materialized;
use crate::names;
use crate::names::quoted;
use crate::walk;
use base::enumeration::{EnumType, Enumeration, Position};
use base::error::{SqlResult, SqlState};
use base::expr::Expr;
use base::roles::Object;
use base::schema::{Column, Identity, SchemaAction, SchemaChange, Table};
use base::views::View;
use base::{DataType, Datum, SqlError, TableId};
use sqlparser::ast::{self, AlterTypeOperation as Operation, Statement, UserDefinedTypeRepresentation as As};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A text that the catalog keeps.
struct Kept {
    /// What it is of: `view v`, `constraint c of table t`.
    what: String,
    schema: String,
    sql: String,
    kind: Kind,
    /// Whether it is over a table or a view with a column of the type.
    meets: bool,
    /// Whether it goes with a column of the type.
    goes: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Default,
    /// A check or a generated column.
    Rule,
    View(TableId),
}

/// What depends on types that are dropped.
#[derive(Default)]
struct Dependents<'a> {
    /// Columns of the types, by their numbers.
    columns: Vec<(&'a Table, usize)>,
    views: BTreeSet<TableId>,
    /// A default or a rule, which CASCADE does not take along.
    other: Option<String>,
    /// All of them, one a line.
    detail: Vec<String>,
}

impl DdlContext<'_> {
    pub(super) fn create_type(&self, name: &ast::ObjectName, of: Option<&As>) -> SqlResult<Ddl> {
        let labels = match of {
            Some(As::Enum { labels }) => labels,
            Some(As::Composite { attributes }) => return self.create_composite(name, attributes),
            Some(As::Range { .. }) => return Err(SqlError::unsupported("range types")),
            _ => return Err(SqlError::unsupported("CREATE TYPE of anything but ENUM")),
        };
        let (schema, name) = self.new_name(name, false)?;
        // A description stays in memory as long as the process, so rights are checked before one is made.
        self.check_create(&schema)?;
        self.check_type_name(&schema, &name)?;
        let labels = labels.iter().map(|label| label.value.clone()).collect();
        let made = Enumeration::new(TableId(self.catalog.next_id), schema, name, labels)?;
        let actions = vec![SchemaAction::PutEnum(EnumType::of(made))];
        Ok(Ddl { actions, tag: "CREATE TYPE", ..Ddl::default() })
    }

    pub(super) fn alter_type_itself(&self, alter: &ast::AlterType) -> SqlResult<Ddl> {
        if let Operation::Rename(rename) = &alter.operation {
            return self.rename_type(&alter.name, &rename.new_name);
        }
        let of = self.find_enum(&alter.name)?;
        let mut ddl = Ddl { tag: "ALTER TYPE", ..Ddl::default() };
        self.check_owner(&Object::Relation(of.id()))?;
        let mut next = of.description().clone();
        match &alter.operation {
            Operation::AddValue(add) => {
                let label = &add.value.value;
                if add.if_not_exists && next.has(label) {
                    let told = format!("enum label \"{label}\" already exists, skipping");
                    ddl.notice(SqlState::DUPLICATE_OBJECT, told);
                    return Ok(ddl);
                }
                let position = match &add.position {
                    None => Position::End,
                    Some(ast::AlterTypeAddValuePosition::Before(of)) => Position::Before(&of.value),
                    Some(ast::AlterTypeAddValuePosition::After(of)) => Position::After(&of.value),
                };
                next.add(label, position)?;
            }
            Operation::RenameValue(rename) => {
                let (from, to) = (&rename.from.value, &rename.to.value);
                next.rename(from, to)?;
                self.refuse_spelled_out(of, from)?;
                ddl.actions = self.respelled_defaults(of, EnumType::of(next.clone()), from, to)?;
            }
            // It is another statement.
            Operation::Rename(_) => {}
        }
        ddl.actions.insert(0, SchemaAction::PutEnum(EnumType::of(next)));
        Ok(ddl)
    }

    /// DROP TYPE: with CASCADE columns of the types go too, and the views that have to do with these.
    pub(super) fn drop_types(
        &self,
        if_exists: bool,
        names: &[ast::ObjectName],
        cascade: bool,
    ) -> SqlResult<Ddl> {
        let mut ddl = Ddl { tag: "DROP TYPE", ..Ddl::default() };
        let mut types: Vec<Made> = Vec::new();
        for name in names {
            match self.find_made(name) {
                Ok(of) if types.contains(&of) => {}
                Ok(of) => types.push(of),
                Err(e) if if_exists && is_missing(&e) => {
                    ddl.notice(SqlState::SUCCESSFUL, format!("{}, skipping", e.message));
                }
                Err(e) => return Err(e),
            }
        }
        self.drop_made(&types, cascade, &mut ddl)?;
        Ok(ddl)
    }

    /// Drops types with what depends on them. Errors: 2BP01 without CASCADE, or where CASCADE does not take it along.
    pub(super) fn drop_made(&self, types: &[Made], cascade: bool, ddl: &mut Ddl) -> SqlResult<()> {
        let mut found = Dependents::default();
        types.iter().try_for_each(|of| self.add_dependents(*of, types, &mut found))?;
        if found.other.is_some() || !cascade && !found.detail.is_empty() {
            let message = match types {
                [of] => format!("cannot drop type {} because other objects depend on it", self.name_of(*of)),
                _ => "cannot drop desired object(s) because other objects depend on them".into(),
            };
            let hint = match found.other {
                Some(_) => {
                    "Drop constraints, generated columns, defaults and types that name the type first."
                }
                None => "Use DROP ... CASCADE to drop the dependent objects too.",
            };
            let detail = found.detail.join("\n");
            return Err(SqlError::new(SqlState(*b"2BP01"), message).detail(detail).hint(hint));
        }
        let views = found.views.iter().filter_map(|id| self.catalog.views.get(id));
        ddl.actions.extend(views.flat_map(|view| self.drops_of(view)));
        self.drop_columns(&found.columns, ddl)?;
        let told = match found.detail.as_slice() {
            [] => None,
            [one] => one.split_once(" depends on ").map(|(what, _)| format!("drop cascades to {what}")),
            more => Some(format!("drop cascades to {} other objects", more.len())),
        };
        told.into_iter().for_each(|told| ddl.notice(SqlState::SUCCESSFUL, told));
        ddl.actions.extend(types.iter().map(|of| SchemaAction::DropType(of.id())));
        Ok(())
    }

    pub(super) fn find_made(&self, name: &ast::ObjectName) -> SqlResult<Made> {
        match names::domain(&ast::DataType::Custom(name.clone(), Vec::new())) {
            Some(domain) => Ok(Made::Domain(domain.id)),
            None => match names::data_type(&ast::DataType::Custom(name.clone(), Vec::new()))? {
                DataType::Composite(of) => Ok(Made::Row(of)),
                _ => self.find_enum(name).map(Made::Enum),
            },
        }
    }

    fn name_of(&self, of: Made) -> String {
        match of {
            Made::Enum(of) => of.name(),
            Made::Row(of) => of.name(),
            Made::Domain(id) => self.catalog.types.domains.get(&id).map_or("?".into(), |d| d.name.clone()),
        }
    }

    /// The first text that is kept and names a type.
    pub(super) fn names_made(&self, of: Made) -> SqlResult<Option<String>> {
        Ok(self.named_by(of, |_| true)?.into_iter().next().map(|kept| kept.what))
    }

    /// `dropped`: the types that are dropped with this one.
    fn add_dependents<'a>(&'a self, of: Made, dropped: &[Made], found: &mut Dependents<'a>) -> SqlResult<()> {
        let mut others = self.named_by(of, |kept| !kept.goes)?;
        let views_that_name: Vec<Kind> = others.iter().map(|kept| kept.kind).collect();
        others.retain(|kept| !matches!(kept.kind, Kind::View(_)));
        let mut columns = self.columns_of(of);
        // Those of a materialized view go with it.
        columns.retain(|(table, _)| !materialized::is_one(self.catalog, table.id));
        let reads = |view: &View| {
            let is_read = |(table, at): &(&Table, usize)| {
                view.uses.get(&table.id).is_some_and(|columns| columns.contains(at))
            };
            of.is_of_some(&view.shape)
                || views_that_name.contains(&Kind::View(view.shape.id))
                || columns.iter().any(is_read)
        };
        let views: Vec<&Arc<View>> = self.catalog.views.values().filter(|view| reads(view)).collect();
        let shown = columns
            .iter()
            .map(|(table, at)| format!("column {} of table {}", table.columns[*at].name, table.name));
        let shown = shown.chain(views.iter().map(|view| self.called(view)));
        let shown = shown.chain(others.iter().map(|kept| kept.what.clone()));
        let mut attributes = self.attributes_of(of);
        attributes.retain(|(row, _)| !dropped.contains(&Made::Row(*row)));
        let shown = shown.chain(attributes.iter().map(|(_, what)| what.clone()));
        found.detail.extend(shown.map(|what| format!("{what} depends on type {}", self.name_of(of))));
        found.views.extend(views.iter().map(|view| view.shape.id));
        let other = others.pop().map(|kept| kept.what).or(attributes.pop().map(|(_, what)| what));
        found.other = found.other.take().or(other);
        found.columns.extend(columns);
        Ok(())
    }

    /// Drops columns, with the keys that reference them. Each table is altered as those before it have left the catalog.
    fn drop_columns(&self, columns: &[(&Table, usize)], ddl: &mut Ddl) -> SqlResult<()> {
        let mut catalog = self.catalog.clone();
        let tables: BTreeSet<TableId> = columns.iter().map(|(table, _)| table.id).collect();
        for id in tables {
            let mut dropped: Vec<&(&Table, usize)> =
                columns.iter().filter(|(table, _)| table.id == id).collect();
            // One that is generated goes first, or it would go with the column that it is generated from.
            dropped.sort_by_key(|(table, at)| table.columns[*at].identity != Identity::Generated);
            let drops: Vec<String> = dropped
                .iter()
                .map(|(table, at)| format!("DROP COLUMN {} CASCADE", quoted(&table.columns[*at].name)))
                .collect();
            let table = dropped[0].0;
            let (schema, name) = (quoted(&table.schema), quoted(&table.name));
            let text = format!("ALTER TABLE {schema}.{name} {}", drops.join(", "));
            let Some(Statement::AlterTable(alter)) = crate::parse::parse(&text)?.pop() else {
                return Err(SqlError::internal("this text alters a table"));
            };
            let altered = DdlContext { catalog: &catalog, ..*self }.alter_table(&alter)?;
            let change = SchemaChange {
                database: catalog.database(),
                base_version: catalog.version,
                actions: altered.actions,
            };
            Arc::make_mut(&mut catalog).apply(&change)?;
            ddl.actions.extend(change.actions);
            altered.notices.into_iter().for_each(|(state, told)| ddl.notice(state, told));
        }
        Ok(())
    }

    /// DROP SCHEMA … CASCADE takes its types along. Errors: 0A000 while another schema has columns of them, or texts that
    /// name them.
    pub(super) fn refuse_used_elsewhere(&self, schema: &str, types: &[TableId]) -> SqlResult<()> {
        for of in types.iter().map(|id| Made::known(&self.catalog.types, *id)) {
            let mut attributes = self.attributes_of(of).into_iter();
            if let Some((_, what)) = attributes.find(|(row, _)| row.description().schema != schema) {
                let told = format!("dropping a schema whose type {what} has");
                return Err(SqlError::unsupported(told).hint("Drop the other type first."));
            }
            if let Some((table, at)) = self.columns_of(of).iter().find(|(t, _)| t.schema != schema) {
                let column = &table.columns[*at].name;
                let told =
                    format!("dropping a schema whose type column {column} of table {} has", table.name);
                return Err(SqlError::unsupported(told).hint("Drop the column first."));
            }
            if let Some(kept) = self.named_by(of, |kept| kept.schema != schema)?.first() {
                let told = format!("dropping a schema whose type {} names", kept.what);
                return Err(SqlError::unsupported(told).hint("Drop what names the type first."));
            }
        }
        Ok(())
    }

    /// Errors: 42704; 42809 for a type that is no enumerated one.
    pub(super) fn find_enum(&self, name: &ast::ObjectName) -> SqlResult<EnumType> {
        let data_type = ast::DataType::Custom(name.clone(), Vec::new());
        match names::data_type(&data_type)? {
            DataType::Enum(of) => Ok(of),
            other => {
                let message = format!("{} is not an enum", other.name());
                Err(SqlError::new(SqlState(*b"42809"), message))
            }
        }
    }

    /// Errors: 42710. A table or a view is a type too.
    pub(super) fn check_type_name(&self, schema: &str, name: &str) -> SqlResult<()> {
        self.refuse_name_of_type(schema, name)?;
        match self.catalog.relation_named(schema, name) {
            Some(_) => Err(type_exists(name)),
            None => Ok(()),
        }
    }

    /// Errors: 42710 for the name of a type.
    pub(super) fn refuse_name_of_type(&self, schema: &str, name: &str) -> SqlResult<()> {
        if self.catalog.types.has(schema, name) { Err(type_exists(name)) } else { Ok(()) }
    }

    /// Columns of a type by their numbers, with their tables.
    fn columns_of(&self, of: Made) -> Vec<(&Table, usize)> {
        let tables = self.catalog.tables.values();
        tables
            .flat_map(|table| {
                let columns = table.visible_columns().filter(move |(at, _)| of.is_of(table, *at));
                columns.map(move |(at, _)| (table.as_ref(), at))
            })
            .collect()
    }

    /// The texts that the catalog keeps.
    fn kept_texts(&self, of: Made) -> Vec<Kept> {
        let mut texts = Vec::new();
        for table in self.catalog.tables.values() {
            let meets = of.is_of_some(table);
            let is_of_type = |column: usize| column < table.columns.len() && of.is_of(table, column);
            let mut add = |kind: Kind, goes: bool, what: String, sql: &str| {
                let (what, sql) = (format!("{what} of table {}", table.name), format!("SELECT {sql}"));
                texts.push(Kept { what, schema: table.schema.clone(), sql, kind, meets, goes });
            };
            for check in table.checks.iter() {
                let mut goes = false;
                check.expr.walk(&mut |e| {
                    goes |= matches!(e, Expr::Column(at) if is_of_type(*at));
                });
                add(Kind::Rule, goes, format!("constraint {}", check.name), &check.sql);
            }
            for (at, column) in table.visible_columns() {
                let Some(sql) = &column.default else { continue };
                let (kind, what) = match column.identity {
                    Identity::Generated => (Kind::Rule, format!("column {}", column.name)),
                    _ => (Kind::Default, format!("default value for column {}", column.name)),
                };
                add(kind, is_of_type(at), what, sql);
            }
            for (number, column) in table.columns.iter().enumerate() {
                let Some(index) = table.indexes.iter().find(|index| index.owns(number)) else { continue };
                let text = column.default.as_deref().unwrap_or_default();
                let reads = |e: &ast::Expr| {
                    let ast::Expr::Identifier(ident) = e else { return false };
                    table.column_named(&names::fold(ident)).is_some_and(is_of_type)
                };
                let goes = finds(&format!("SELECT {text}"), &reads).unwrap_or_default();
                add(Kind::Rule, goes, format!("index {}", index.name), text);
            }
        }
        let used = |id: &TableId| self.catalog.relation(*id).is_some_and(|r| of.is_of_some(r.shape()));
        for view in self.catalog.views.values() {
            let shape = &view.shape;
            texts.push(Kept {
                what: format!("view {}", shape.name),
                schema: shape.schema.clone(),
                sql: view.definition.clone(),
                kind: Kind::View(shape.id),
                meets: view.uses.keys().any(used),
                goes: false,
            });
        }
        texts
    }

    /// Errors: 0A000 where a view or a rule has a label as a literal: it would mean nothing, or another label.
    fn refuse_spelled_out(&self, of: EnumType, label: &str) -> SqlResult<()> {
        let made = Made::Enum(of);
        for kept in self.kept_texts(made).iter().filter(|kept| kept.kind != Kind::Default) {
            if (kept.meets || finds(&kept.sql, &names_it(made))?) && finds(&kept.sql, &has_label(label))? {
                return Err(spelled_out(of, &kept.what));
            }
        }
        Ok(())
    }

    /// The texts among those that are asked for that name a type.
    fn named_by(&self, of: Made, is_asked_for: impl Fn(&Kept) -> bool) -> SqlResult<Vec<Kept>> {
        let mut found = Vec::new();
        for kept in self.kept_texts(of).into_iter().filter(is_asked_for) {
            if finds(&kept.sql, &names_it(of))? {
                found.push(kept);
            }
        }
        Ok(found)
    }

    /// Defaults that are a label follow it to its new name. Errors: 0A000 for others that have it as a literal.
    fn respelled_defaults(
        &self,
        of: EnumType,
        renamed: EnumType,
        from: &str,
        to: &str,
    ) -> SqlResult<Vec<SchemaAction>> {
        let code = of.code(from)?;
        let mut actions = Vec::new();
        for table in self.catalog.tables.values() {
            let mut has_changed = false;
            let mut columns = table.retyped(DataType::Enum(renamed)).columns;
            for (column, before) in columns.iter_mut().zip(&table.columns) {
                let Some(sql) = before.default.as_ref().filter(|_| !before.hidden) else { continue };
                let is_of_type = before.data_type.enumeration() == Some(of);
                let is_default = before.identity != Identity::Generated;
                if is_of_type && is_default && self.is_constant(before, sql, code)? {
                    column.default = Some(format!("'{}'", to.replace('\'', "''")));
                    has_changed = true;
                    continue;
                }
                let text = format!("SELECT {sql}");
                if (is_of_type || finds(&text, &names_it(Made::Enum(of)))?) && finds(&text, &has_label(from))?
                {
                    let what = format!("default value for column {} of table {}", before.name, table.name);
                    return Err(spelled_out(of, &what));
                }
            }
            if has_changed {
                let next = Table { columns, ..table.retyped(DataType::Enum(renamed)) };
                actions.push(SchemaAction::AlterTable(next));
            }
        }
        Ok(actions)
    }

    /// Whether a default is always this label.
    fn is_constant(&self, column: &Column, sql: &str, code: i64) -> SqlResult<bool> {
        let parsed = crate::parse::parse_expr(sql)?;
        let value = super::defaults::lowered_default(self, column, &parsed)?;
        Ok(matches!(value, Expr::Constant(Datum::Int(c)) if c == code))
    }
}

fn type_exists(name: &str) -> SqlError {
    SqlError::new(SqlState::DUPLICATE_OBJECT, format!("type \"{name}\" already exists"))
        .hint("A table or a view has a type of its name, so no type beside them may have that name.")
}

fn spelled_out(of: EnumType, what: &str) -> SqlError {
    SqlError::unsupported(format!("renaming a label of type {} that {what} contains as a literal", of.name()))
        .hint("Drop what contains it, rename, and create it again.")
}

/// Whether an expression names a type.
fn names_it(of: Made) -> impl Fn(&ast::Expr) -> bool {
    move |e| {
        let named = match e {
            ast::Expr::Cast { data_type, .. } => Some(data_type),
            ast::Expr::TypedString(typed) => Some(&typed.data_type),
            _ => None,
        };
        named.is_some_and(|t| match of {
            Made::Enum(_) | Made::Row(_) => names::data_type(t).is_ok_and(|t| t.made_id() == Some(of.id())),
            Made::Domain(id) => names::domain(t).is_some_and(|domain| domain.id == id),
        })
    }
}

/// Whether an expression is a label as a literal, or an array with it as one.
fn has_label(label: &str) -> impl Fn(&ast::Expr) -> bool {
    move |e| {
        let value = match e {
            ast::Expr::Value(value) => &value.value,
            ast::Expr::TypedString(typed) => &typed.value.value,
            _ => return false,
        };
        let is_in = |array: Vec<Option<String>>| array.iter().flatten().any(|element| element == label);
        let text = value.clone().into_string();
        text.is_some_and(|text| text == label || base::text::array::parse(&text).is_ok_and(is_in))
    }
}

/// Whether a text has such an expression.
fn finds(sql: &str, is_such: &dyn Fn(&ast::Expr) -> bool) -> SqlResult<bool> {
    let statements = crate::parse::parse(sql)?;
    let found = walk::expressions(&statements, |e| match is_such(e) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    Ok(found.is_break())
}

#[cfg(test)]
mod tests {
    use base::TableId;
    use base::enumeration::{EnumType, Enumeration};
    use base::schema::Catalog;
    use std::sync::Arc;

    #[test]
    fn types_in_texts_that_are_kept_get_their_schemas() {
        let mut catalog = Catalog::default();
        let made = Enumeration::new(TableId(7), "other".into(), "mood".into(), vec!["x".into()]);
        let made = EnumType::of(made.unwrap());
        Arc::make_mut(&mut catalog.types).enums.insert(made.id(), made);
        crate::user_types::within(&catalog, &["other".to_string()], || {
            let mut text = crate::parse::parse_expr("f('x'::mood, 'y'::int, 'z'::other.mood)").unwrap();
            crate::names::qualify_types(&mut text);
            assert_eq!(text.to_string(), r#"f('x'::"other"."mood", 'y'::INT, 'z'::other.mood)"#);
        });
    }
}

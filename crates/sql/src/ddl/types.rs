//! CREATE, ALTER and DROP TYPE as changes of the catalog.

use super::{Ddl, DdlContext};
use crate::names;
use base::enumeration::{EnumType, Enumeration, Position};
use base::error::{SqlResult, SqlState};
use base::expr::Expr;
use base::roles::Object;
use base::schema::{Identity, SchemaAction, Table};
use base::{DataType, Datum, SqlError, TableId};
use sqlparser::ast::{self, AlterTypeOperation as Operation, Statement, UserDefinedTypeRepresentation as As};
use std::ops::ControlFlow;

impl DdlContext<'_> {
    pub(super) fn create_type(&self, name: &ast::ObjectName, of: Option<&As>) -> SqlResult<Ddl> {
        let labels = match of {
            Some(As::Enum { labels }) => labels,
            Some(As::Composite { .. }) => return Err(SqlError::unsupported("composite types")),
            Some(As::Range { .. }) => return Err(SqlError::unsupported("range types")),
            _ => return Err(SqlError::unsupported("CREATE TYPE of anything but ENUM")),
        };
        let (schema, name) = self.new_name(name)?;
        let is_taken =
            self.catalog.types.has(&schema, &name) || self.catalog.relation_named(&schema, &name).is_some();
        if is_taken {
            let message = format!("type \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
        }
        let labels = labels.iter().map(|label| label.value.clone()).collect();
        let made = Enumeration::new(TableId(self.catalog.next_id), schema, name, labels)?;
        let actions = vec![SchemaAction::PutEnum(EnumType::of(made))];
        Ok(Ddl { actions, tag: "CREATE TYPE", ..Ddl::default() })
    }

    pub(super) fn alter_enum(&self, alter: &ast::AlterType) -> SqlResult<Ddl> {
        let of = self.find_enum(&alter.name)?;
        let mut ddl = Ddl { tag: "ALTER TYPE", ..Ddl::default() };
        let mut next = of.description().clone();
        match &alter.operation {
            Operation::AddValue(add) => {
                let label = &add.value.value;
                if add.if_not_exists && next.has(label) {
                    let told = format!("enum label \"{label}\" already exists, skipping");
                    ddl.notices.push((SqlState::DUPLICATE_OBJECT, told));
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
            Operation::Rename(rename) => {
                if let Some(role) = crate::parse::owner_of_type(&rename.new_name.value) {
                    let owner = ast::Owner::Ident(ast::Ident::with_quote('"', role));
                    return self.change_owner(Object::Relation(of.id()), &owner, ddl.tag);
                }
                let name = names::fold(&rename.new_name);
                if self.catalog.types.has(&next.schema, &name) {
                    let message = format!("type \"{name}\" already exists");
                    return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
                }
                if let Some(what) = self.named_by(of)? {
                    return Err(SqlError::unsupported(format!("renaming a type that {what} names"))
                        .hint("Drop what names it, rename, and create it again."));
                }
                next.name = name;
            }
        }
        ddl.actions.insert(0, SchemaAction::PutEnum(EnumType::of(next)));
        Ok(ddl)
    }

    /// DROP TYPE of one type: with CASCADE its columns go too.
    pub(super) fn drop_enum(&self, name: &ast::ObjectName, cascade: bool, ddl: &mut Ddl) -> SqlResult<()> {
        let of = self.find_enum(name)?;
        let columns = self.columns_of(of);
        let shown: Vec<String> = columns
            .iter()
            .map(|(table, column)| format!("column {column} of table {}", table.name))
            .collect();
        let views = self.catalog.views.values().filter(|view| has_column_of(&view.shape, of));
        let mut others: Vec<String> = views.map(|view| format!("view {}", view.shape.name)).collect();
        others.extend(self.named_by(of)?);
        // With columns their own views go; what else names the type has to be dropped first.
        if !shown.is_empty() && !cascade || !others.is_empty() {
            let message = format!("cannot drop type {} because other objects depend on it", of.name());
            let all = shown.iter().chain(&others);
            let detail: Vec<String> =
                all.map(|what| format!("{what} depends on type {}", of.name())).collect();
            let hint = match cascade {
                true => "Drop views, constraints and defaults that name the type first.",
                false => "Use DROP ... CASCADE to drop the dependent objects too.",
            };
            return Err(SqlError::new(SqlState(*b"2BP01"), message).detail(detail.join("\n")).hint(hint));
        }
        for (table, dropped) in by_table(&columns) {
            let dropped: Vec<String> =
                dropped.iter().map(|column| format!("DROP COLUMN {} CASCADE", quoted(column))).collect();
            let name = format!("{}.{}", quoted(&table.schema), quoted(&table.name));
            let text = format!("ALTER TABLE {name} {}", dropped.join(", "));
            let Some(Statement::AlterTable(alter)) = crate::parse::parse(&text)?.pop() else {
                return Err(SqlError::internal("this text alters a table"));
            };
            let altered = self.alter_table(&alter)?;
            ddl.actions.extend(altered.actions);
            ddl.notices.extend(altered.notices);
        }
        match shown.as_slice() {
            [] => {}
            [one] => ddl.notices.push((SqlState::SUCCESSFUL, format!("drop cascades to {one}"))),
            more => {
                let told = format!("drop cascades to {} other objects", more.len());
                ddl.notices.push((SqlState::SUCCESSFUL, told));
            }
        }
        ddl.actions.push(SchemaAction::DropType(of.id()));
        Ok(())
    }

    /// DROP SCHEMA … CASCADE takes its types along. Errors: 0A000 while another schema's tables have columns of them.
    pub(super) fn refuse_used_elsewhere(&self, schema: &str, types: &[TableId]) -> SqlResult<()> {
        for of in types.iter().filter_map(|id| self.catalog.types.enums.get(id)) {
            if let Some((table, column)) = self.columns_of(*of).iter().find(|(t, _)| t.schema != schema) {
                let told =
                    format!("dropping a schema whose type column {column} of table {} has", table.name);
                return Err(SqlError::unsupported(told).hint("Drop the column first."));
            }
        }
        Ok(())
    }

    /// Errors: 42704; 42809 for a type that is no enumerated one.
    fn find_enum(&self, name: &ast::ObjectName) -> SqlResult<EnumType> {
        let data_type = ast::DataType::Custom(name.clone(), Vec::new());
        match names::data_type(&data_type)? {
            DataType::Enum(of) => Ok(of),
            other => {
                let message = format!("\"{}\" is not an enumerated type that a user made", other.name());
                Err(SqlError::new(SqlState(*b"42809"), message))
            }
        }
    }

    /// Columns of a type, with their tables.
    fn columns_of(&self, of: EnumType) -> Vec<(&Table, &str)> {
        let is_it = |c: &base::schema::Column| c.data_type == DataType::Enum(of);
        let tables = self.catalog.tables.values();
        tables
            .flat_map(|table| {
                let columns = table.visible_columns().filter(move |(_, c)| is_it(c));
                columns.map(move |(_, c)| (table.as_ref(), c.name.as_str()))
            })
            .collect()
    }

    /// Texts that the catalog keeps beside defaults: what they are of, what they say, and whether they are over a table or a
    /// view with a column of the type.
    fn kept_texts(&self, of: EnumType) -> Vec<(String, String, bool)> {
        let mut texts = Vec::new();
        for table in self.catalog.tables.values() {
            let meets = has_column_of(table, of);
            let mut add = |what: &str, sql: &str| {
                texts.push((format!("{what} of table {}", table.name), format!("SELECT {sql}"), meets));
            };
            table.checks.iter().for_each(|check| add(&format!("constraint {}", check.name), &check.sql));
            for (_, column) in table.visible_columns() {
                if let (Some(sql), Identity::Generated) = (&column.default, column.identity) {
                    add(&format!("column {}", column.name), sql);
                }
            }
        }
        let used = |id: &TableId| self.catalog.relation(*id).is_some_and(|r| has_column_of(r.shape(), of));
        for view in self.catalog.views.values() {
            let what = format!("view {}", view.shape.name);
            texts.push((what, view.definition.clone(), view.uses.keys().any(used)));
        }
        texts
    }

    /// Errors: 0A000 where a text that is kept has a label as a literal: it would mean nothing, or another label.
    fn refuse_spelled_out(&self, of: EnumType, label: &str) -> SqlResult<()> {
        let has_label = |e: &ast::Expr| match e {
            ast::Expr::Value(value) => value.value.clone().into_string().is_some_and(|text| text == label),
            _ => false,
        };
        for (what, sql, meets) in self.kept_texts(of) {
            if (meets || finds(&sql, &names_it(of))?) && finds(&sql, &has_label)? {
                let told = format!("renaming a label of type {} that {what} spells out", of.name());
                return Err(
                    SqlError::unsupported(told).hint("Drop what spells it out, rename, and create it again.")
                );
            }
        }
        Ok(())
    }

    /// A view, a constraint or a default whose text names a type, if there is one.
    fn named_by(&self, of: EnumType) -> SqlResult<Option<String>> {
        let defaults = self.catalog.tables.values().flat_map(|table| {
            let with_text = table.visible_columns().filter_map(|(_, c)| Some((c, c.default.as_ref()?)));
            with_text.map(|(c, sql)| {
                (
                    format!("default value for column {} of table {}", c.name, table.name),
                    format!("SELECT {sql}"),
                )
            })
        });
        let kept = self.kept_texts(of).into_iter().map(|(what, sql, _)| (what, sql));
        for (what, sql) in kept.chain(defaults) {
            if finds(&sql, &names_it(of))? {
                return Ok(Some(what));
            }
        }
        Ok(None)
    }

    /// Defaults that are a label follow it to its new name.
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
            let mut columns = table.retyped(renamed).columns;
            for (column, before) in columns.iter_mut().zip(&table.columns) {
                let Some(sql) = &before.default else { continue };
                if before.data_type != DataType::Enum(of) {
                    continue;
                }
                let parsed = crate::parse::parse_expr(sql)?;
                let value = super::create_table::lowered_default(self, before, &parsed)?;
                if matches!(value, Expr::Constant(Datum::Int(c)) if c == code) {
                    column.default = Some(format!("'{}'", to.replace('\'', "''")));
                    has_changed = true;
                }
            }
            if has_changed {
                let next = Table { columns, ..table.retyped(renamed) };
                actions.push(SchemaAction::AlterTable(next));
            }
        }
        Ok(actions)
    }
}

/// Whether an expression names a type.
fn names_it(of: EnumType) -> impl Fn(&ast::Expr) -> bool {
    move |e| {
        let named = match e {
            ast::Expr::Cast { data_type, .. } => Some(data_type),
            ast::Expr::TypedString(typed) => Some(&typed.data_type),
            _ => None,
        };
        named.is_some_and(|t| names::data_type(t).is_ok_and(|t| t == DataType::Enum(of)))
    }
}

fn has_column_of(table: &Table, of: EnumType) -> bool {
    table.columns.iter().any(|c| c.data_type == DataType::Enum(of))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Columns one behind the other, by their tables.
fn by_table<'a>(columns: &[(&'a Table, &'a str)]) -> Vec<(&'a Table, Vec<&'a str>)> {
    let mut tables: Vec<(&Table, Vec<&str>)> = Vec::new();
    for (table, column) in columns {
        match tables.last_mut() {
            Some((last, of)) if last.id == table.id => of.push(column),
            _ => tables.push((table, vec![column])),
        }
    }
    tables
}

/// Whether a text has such an expression.
fn finds(sql: &str, is_such: &dyn Fn(&ast::Expr) -> bool) -> SqlResult<bool> {
    let statements = crate::parse::parse(sql)?;
    let found = ast::visit_expressions(&statements, |e| match is_such(e) {
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

//! ALTER TABLE and ALTER INDEX.
//!
//! Most changes are another description of the same table: rows stay as they are, and constraints that come are held
//! against them at the change's place. Where the stored rows would be wrong (another key, another type of a column) the
//! table is made anew with the rows written into it, in the same transaction ([`Rewrite`](super::Rewrite)).
//!
//! KEEPS: columns are never renumbered; a dropped one stays, hidden and null, so that rows which have it remain readable.

mod columns;
mod names;

use super::foreign_keys::{change, has_constraint};
use super::{Ddl, DdlContext, Extras, Rewrite, create_table, placement};
use crate::lower::bind::{self, Volatile};
use crate::names::{self as sql_names, fold};
use base::error::{SqlResult, SqlState};
use base::expr::Expr;
use base::schema::{Identity, Index, Placement, SchemaAction, Table};
use base::{Datum, SqlError, TableId};
pub(super) use columns::{
    hide, lose_default, name_sequence, position, rename_column, rename_in_keys, set_not_null,
};
use sqlparser::ast::{self, AlterTableOperation as Operation, TableConstraint};
use std::sync::Arc;

/// What a statement has made of a table so far.
struct Altering<'a> {
    table: &'a Arc<Table>,
    next: Table,
    next_id: u32,
    extras: Extras,
    /// Other tables that lose keys which reference this one.
    altered: Vec<Table>,
    /// Values that rows get when they are written anew, if they have to be.
    rewritten: Option<Vec<(usize, Expr)>>,
    /// New columns that a sequence counts.
    numbered: Vec<usize>,
    ddl: Ddl,
}

impl DdlContext<'_> {
    pub(super) fn alter_table(&self, alter: &ast::AlterTable) -> SqlResult<Ddl> {
        let mut ddl = Ddl { tag: "ALTER TABLE", ..Ddl::default() };
        if let Some(altered) = self.alter_relation(alter)? {
            return Ok(altered);
        }
        if let [operation] = alter.operations.as_slice()
            && let Some(partition) = crate::parse::detached(operation)
        {
            return self.detach(&alter.name, &partition);
        }
        if let Some(altered) = self.alter_partition(alter)? {
            return Ok(altered);
        }
        let table = match self.find_table(&alter.name) {
            Err(e) if alter.if_exists => {
                ddl.notice(SqlState::SUCCESSFUL, format!("{}, skipping", e.message));
                return Ok(ddl);
            }
            found => found?,
        };
        self.refuse_only(table, alter)?;
        if let [Operation::SetOptionsParens { options }] = alter.operations.as_slice() {
            return placement::set_options(self, table, options);
        }
        let mut altering = Altering {
            table,
            next: table.as_ref().clone(),
            next_id: self.catalog.next_id,
            extras: Extras::default(),
            altered: Vec::new(),
            rewritten: None,
            numbered: Vec::new(),
            ddl,
        };
        for operation in &alter.operations {
            self.check_altered_kind(table, operation)?;
            self.alter(&mut altering, operation)?;
        }
        for key in std::mem::take(&mut altering.extras.foreign) {
            self.add_foreign_key(&mut altering.next, &key, true)?;
        }
        let Altering { mut next, next_id, extras, altered, rewritten, numbered, mut ddl, .. } = altering;
        if let Some(set) = rewritten {
            let rewrite = Rewrite { set, numbered, ..Rewrite::of(table) };
            let mut remade = placement::remade(self, rewrite, next, extras.sequences, next_id, &altered)?;
            remade.actions.extend(ddl.actions);
            remade.notices = ddl.notices;
            return Ok(remade);
        }
        if next == *table.as_ref() {
            return Ok(ddl);
        }
        ddl.later = self.follows(table, &mut next, &alter.operations);
        let sequences = std::mem::take(&mut ddl.actions);
        ddl.actions.extend(extras.sequences.into_iter().map(SchemaAction::CreateSequence));
        ddl.actions.extend(altered.into_iter().map(SchemaAction::AlterTable));
        ddl.actions.extend(self.renamed_with(&next));
        ddl.actions.push(SchemaAction::AlterTable(next));
        ddl.actions.extend(sequences);
        Ok(ddl)
    }

    fn alter(&self, altering: &mut Altering<'_>, operation: &Operation) -> SqlResult<()> {
        let Altering { next, ddl, .. } = altering;
        match operation {
            Operation::AddColumn { if_not_exists, column_def, column_position: None, .. } => {
                let name = fold(&column_def.name);
                create_table::free_row_id(next, &name);
                if next.column_named(&name).is_some() {
                    let message = format!("column \"{name}\" of relation \"{}\" already exists", next.name);
                    if !if_not_exists {
                        return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
                    }
                    ddl.notice(SqlState::DUPLICATE_COLUMN, format!("{message}, skipping"));
                    return Ok(());
                }
                self.add_column(altering, column_def)
            }
            Operation::DropColumn { column_names, if_exists, drop_behavior, .. } => column_names
                .iter()
                .try_for_each(|name| self.drop_column(altering, name, *if_exists, is_cascade(drop_behavior))),
            Operation::AlterColumn { column_name, op } => self.alter_column(altering, column_name, op),
            Operation::RenameColumn { old_column_name, new_column_name } => {
                match crate::parse::stays(old_column_name, new_column_name) {
                    Some(false) => Ok(()),
                    Some(true) => columns::position(next, &fold(old_column_name)).map(|_| ()),
                    None => rename_column(next, old_column_name, new_column_name),
                }
            }
            Operation::RenameTable { table_name: ast::RenameTableNameKind::To(name) } => {
                self.rename_table(next, name, ddl)
            }
            Operation::RenameConstraint { old_name, new_name } => {
                let (from, to) = (fold(old_name), fold(new_name));
                ddl.actions.extend(self.comment_follows(next.id, &from, &to));
                self.rename_constraint(next, &from, to)
            }
            Operation::AddConstraint { constraint, not_valid } => {
                self.add_constraint(altering, constraint, *not_valid)
            }
            Operation::ValidateConstraint { name } => validate_constraint(self, next, &fold(name)),
            Operation::DropConstraint { if_exists, name, drop_behavior } => {
                self.drop_constraint(altering, &fold(name), *if_exists, is_cascade(drop_behavior))
            }
            other => {
                if let Some(notices) = self.set_firing(next, other)? {
                    ddl.notices.extend(notices);
                    return Ok(());
                }
                let text = other.to_string();
                let words: Vec<&str> = text.split_whitespace().take(2).collect();
                Err(SqlError::unsupported(format!("ALTER TABLE {}", words.join(" "))))
            }
        }
    }

    fn add_column(&self, altering: &mut Altering<'_>, definition: &ast::ColumnDef) -> SqlResult<()> {
        let Altering { next, next_id, extras, .. } = &mut *altering;
        let mut definition = definition.clone();
        let is_key =
            |option: &ast::ColumnOptionDef| matches!(option.option, ast::ColumnOption::PrimaryKey(_));
        let (keys, options): (Vec<_>, Vec<_>) = definition.options.into_iter().partition(is_key);
        definition.options = options;
        create_table::add_column(self, next, &definition, next_id, extras)?;
        let number = next.columns.len() - 1;
        for key in keys {
            super::indexes::refuse_unordered(&altering.next.columns[number])?;
            self.add_primary_key(altering, key.name.as_ref().map(fold), vec![number])?;
        }
        // Rows are written anew, with the column's values.
        match altering.next.columns[number].identity {
            Identity::No => {}
            Identity::Generated => {
                super::generated::check_generated(self, &mut altering.next)?;
                altering.rewritten.get_or_insert_default();
            }
            Identity::Serial | Identity::Always | Identity::ByDefault => {
                altering.rewritten.get_or_insert_default();
                altering.numbered.push(number);
            }
        }
        Ok(())
    }

    fn add_constraint(
        &self,
        altering: &mut Altering<'_>,
        constraint: &TableConstraint,
        not_valid: bool,
    ) -> SqlResult<()> {
        let Altering { next, next_id, extras, .. } = &mut *altering;
        match constraint {
            TableConstraint::ForeignKey(key) => self.add_foreign_key(next, key, !not_valid),
            TableConstraint::PrimaryKey(key) => {
                create_table::refuse_deferred(key.characteristics.as_ref())?;
                let columns = create_table::key_columns(next, &key.columns)?;
                super::indexes::included(next, &key.index_options)?;
                self.add_primary_key(altering, key.name.as_ref().map(fold), columns)
            }
            TableConstraint::PrimaryKeyUsingIndex(using) => {
                create_table::refuse_deferred(using.characteristics.as_ref())?;
                let index = promoted(next, &using.index_name)?;
                super::indexes::drop_indexes(next, |i| i.id == index.id);
                let name = using.name.as_ref().map_or(index.name, fold);
                self.add_primary_key(altering, Some(name), index.columns)
            }
            TableConstraint::UniqueUsingIndex(using) => {
                create_table::refuse_deferred(using.characteristics.as_ref())?;
                let id = promoted(next, &using.index_name)?.id;
                let index = super::indexes::indexes_mut(next).find(|i| i.id == id).expect("just found");
                index.constraint = true;
                if let Some(name) = &using.name {
                    index.name = fold(name);
                }
                Ok(())
            }
            constraint => {
                let checks = next.checks.len();
                create_table::add_constraint(self, next, constraint, next_id, &mut extras.foreign)?;
                if not_valid {
                    let Some(check) = next.checks_mut().nth(checks) else {
                        let kind = "UNIQUE constraints cannot be marked NOT VALID";
                        return Err(SqlError::unsupported(kind));
                    };
                    check.is_validated = false;
                }
                Ok(())
            }
        }
    }

    /// The table gets another key to store its rows by: they are written anew.
    fn add_primary_key(
        &self,
        altering: &mut Altering<'_>,
        name: Option<String>,
        columns: Vec<usize>,
    ) -> SqlResult<()> {
        let next = &mut altering.next;
        let hidden: Vec<usize> =
            next.primary_key.iter().copied().filter(|c| next.columns[*c].hidden).collect();
        if hidden.is_empty() {
            return Err(SqlError::new(
                SqlState::INVALID_TABLE_DEFINITION,
                format!("multiple primary keys for table \"{}\" are not allowed", next.name),
            ));
        }
        let name = name.unwrap_or_else(|| self.free_name(&next.schema, [&next.name, "", "pkey"], &[]));
        let is_taken = next.indexes.iter().any(|i| i.name == name) || has_constraint(next, &name);
        let is_index = altering.table.indexes.iter().any(|i| i.name == name);
        if is_taken || (self.relation_exists(&next.schema, &name) && !is_index) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_TABLE,
                format!("relation \"{name}\" already exists"),
            ));
        }
        if let Placement::HomeBy { column, .. } = &next.placement
            && !columns.contains(column)
        {
            return Err(SqlError::new(
                SqlState::INVALID_TABLE_DEFINITION,
                "the home_by column must be part of the primary key",
            )
            .detail("Otherwise equal keys could live in two regions."));
        }
        columns.iter().for_each(|c| next.columns[*c].not_null = true);
        next.primary_key = columns;
        next.primary_key_name = name;
        let set = altering.rewritten.get_or_insert_default();
        for column in hidden {
            hide(next, column);
            set.retain(|(c, _)| *c != column);
            set.push((column, Expr::Constant(Datum::Null)));
        }
        Ok(())
    }

    fn drop_constraint(
        &self,
        altering: &mut Altering<'_>,
        name: &str,
        if_exists: bool,
        cascade: bool,
    ) -> SqlResult<()> {
        let Altering { table, next, altered, ddl, .. } = &mut *altering;
        if !has_constraint(next, name) || self.is_of_partition(next, name)? {
            let told = format!("constraint \"{name}\" of relation \"{}\" does not exist", next.name);
            if !if_exists {
                return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, told));
            }
            ddl.notice(SqlState::SUCCESSFUL, format!("{told}, skipping"));
            return Ok(());
        }
        if next.foreign.own.iter().any(|key| key.name == name) {
            next.drop_foreign_keys(|key| key.name == name);
            return Ok(());
        }
        if next.checks.iter().any(|check| check.name == name) {
            next.drop_checks(|check| check.name == name);
            return Ok(());
        }
        let index = next.indexes.iter().find(|index| index.name == name).map(|index| index.id);
        let unique = index.unwrap_or(table.id);
        self.drop_references(
            table,
            &format!("constraint {name} on table {}", table.name),
            unique,
            cascade,
            next,
            altered,
            ddl,
        )?;
        match index {
            Some(id) => super::indexes::drop_indexes(next, |index| index.id == id),
            None => {
                let home_by = match &next.placement {
                    Placement::HomeBy { column, .. } => Some(next.columns[*column].name.clone()),
                    _ => None,
                };
                next.primary_key.clear();
                create_table::hidden_key(next, home_by.as_deref())?;
                let row_id = next.columns.len() - 1;
                let set = altering.rewritten.get_or_insert_default();
                set.push((row_id, bind::volatile(Volatile::RowId)));
            }
        }
        Ok(())
    }

    /// Takes away the keys that rest on a unique constraint. Errors: 2BP01, unless CASCADE was said.
    #[expect(clippy::too_many_arguments)]
    fn drop_references(
        &self,
        table: &Table,
        what: &str,
        unique: TableId,
        cascade: bool,
        next: &mut Table,
        altered: &mut Vec<Table>,
        ddl: &mut Ddl,
    ) -> SqlResult<()> {
        let (own, others): (Vec<_>, Vec<_>) = self
            .referencing_keys(table, |key| key.unique == unique)
            .into_iter()
            .partition(|(child, _)| child.id == table.id);
        let mut own_altered = vec![next.clone()];
        self.drop_dependents(what, own, cascade, &mut own_altered, ddl)?;
        *next = own_altered.swap_remove(0);
        self.drop_dependents(what, others, cascade, altered, ddl)
    }

    /// DROP TABLE of these, and of the keys that reference them.
    pub(super) fn drop_tables(
        &self,
        gone: &[TableId],
        cascade: bool,
        altered: &mut Vec<Table>,
        ddl: &mut Ddl,
    ) -> SqlResult<()> {
        for id in gone {
            let Some(table) = self.catalog.table(*id) else { continue };
            let dependents = self.referencing_keys(table, |_| true).into_iter();
            let others = dependents.filter(|(child, _)| !gone.contains(&child.id)).collect();
            self.drop_dependents(&format!("table {}", table.name), others, cascade, altered, ddl)?;
        }
        Ok(())
    }

    /// DROP INDEX takes an index from its table's description, unless something rests on it.
    pub(super) fn drop_index(
        &self,
        name: &ast::ObjectName,
        cascade: bool,
        altered: &mut Vec<Table>,
        ddl: &mut Ddl,
    ) -> SqlResult<()> {
        let (schema, index_name) = sql_names::qualified(name, self.database)?;
        let mut schemas = crate::temporary::schemas(schema.as_deref(), self.search_path);
        let found = schemas.find_map(|s| self.catalog.index_named(s, &index_name));
        let (table, index) = found.ok_or_else(|| {
            SqlError::new(SqlState::UNDEFINED_OBJECT, format!("index \"{index_name}\" does not exist"))
        })?;
        if index.constraint {
            return Err(SqlError::new(
                SqlState(*b"2BP01"),
                format!(
                    "cannot drop index {index_name} because constraint {index_name} on table {} requires it",
                    table.name
                ),
            ));
        }
        let dependents = self.referencing_keys(table, |key| key.unique == index.id);
        self.drop_dependents(&format!("index {index_name}"), dependents, cascade, altered, ddl)?;
        let next = change(altered, table);
        super::indexes::drop_indexes(next, |i| i.name == index_name);
        super::indexes::sweep(next);
        Ok(())
    }
}

fn is_cascade(behavior: &Option<ast::DropBehavior>) -> bool {
    *behavior == Some(ast::DropBehavior::Cascade)
}

/// The unique index that becomes a constraint.
fn promoted(table: &Table, name: &ast::Ident) -> SqlResult<Index> {
    let name = fold(name);
    let Some(index) = table.indexes.iter().find(|index| index.name == name) else {
        let told = format!("index \"{name}\" does not exist");
        return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, told));
    };
    if index.constraint {
        return Err(SqlError::new(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("index \"{name}\" is already associated with a constraint"),
        ));
    }
    let refused = match () {
        () if !index.unique => Some(format!("\"{name}\" is not a unique index")),
        () if !index.form.expressions.is_empty() => Some(format!("index \"{name}\" contains expressions")),
        () if index.form.predicate.is_some() => Some(format!("\"{name}\" is a partial index")),
        () => None,
    };
    if let Some(told) = refused {
        return Err(SqlError::new(SqlState(*b"42809"), told)
            .detail("Cannot create a primary key or unique constraint using such an index."));
    }
    Ok(index.clone())
}

/// Errors: 42704, 42809 for a constraint that is never anything but valid.
fn validate_constraint(context: &DdlContext<'_>, next: &mut Table, name: &str) -> SqlResult<()> {
    let told = format!("constraint \"{name}\" of relation \"{}\" does not exist", next.name);
    let missing = SqlError::new(SqlState::UNDEFINED_OBJECT, told);
    if context.is_of_partition(next, name)? {
        return Err(missing);
    }
    if let Some(key) = next.foreign_keys_mut().find(|key| key.name == name) {
        key.is_validated = true;
        return Ok(());
    }
    if let Some(check) = next.checks_mut().find(|check| check.name == name) {
        check.is_validated = true;
        return Ok(());
    }
    let relation = &next.name;
    Err(match has_constraint(next, name) {
        true => SqlError::new(
            SqlState(*b"42809"),
            format!(
                "constraint \"{name}\" of relation \"{relation}\" is not a foreign key or check constraint"
            ),
        ),
        false => missing,
    })
}

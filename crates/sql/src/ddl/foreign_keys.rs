//! Foreign keys as DDL makes and drops them.
//!
//! A key is described in the catalog of its own table; whether rows keep it is asked where they are written. What is
//! decided here: which unique constraint a key references, whether the columns can be compared, and what depends on what
//! is dropped.

use super::{Ddl, DdlContext};
use crate::names;
use base::error::{SqlResult, SqlState};
use base::identifier::{first_free, quoted};
use base::roles::{Object, Privileges};
use base::schema::foreign::{Action, Timing};
use base::schema::{ForeignKey, Identity, Table};
use base::{DataType, SqlError, TableId};
use sqlparser::ast::{self, ConstraintReferenceMatchKind as MatchKind, ReferentialAction};
use std::sync::Arc;

const INVALID_FOREIGN_KEY: SqlState = SqlState(*b"42830");
const DEPENDENT_OBJECTS: SqlState = SqlState(*b"2BP01");

impl DdlContext<'_> {
    /// Adds a foreign key to a table's description, whose columns and unique constraints are known by now.
    pub(super) fn add_foreign_key(
        &self,
        table: &mut Table,
        key: &ast::ForeignKeyConstraint,
        is_validated: bool,
    ) -> SqlResult<()> {
        let columns = key.columns.iter().map(|c| key_column(table, c)).collect::<SqlResult<Vec<_>>>()?;
        let found = self.referenced_table(table, &key.foreign_table)?;
        let parent: &Table = found.as_deref().unwrap_or(table);
        super::temporary::check_reference(table, parent)?;
        if let Some(parent) = &found {
            let object = Object::Relation(parent.id);
            if !self.roles().may(self.standing, &object, Privileges::REFERENCES) {
                return Err(crate::privileges::denied("table", &parent.name));
            }
        }
        let (referenced, unique) = referenced_key(parent, &key.referred_columns)?;
        refuse_assignments(table, &columns, key)?;
        if referenced.len() != columns.len() {
            let told = "number of referencing and referenced columns for foreign key disagree";
            return Err(SqlError::new(INVALID_FOREIGN_KEY, told));
        }
        let name = match &key.name {
            Some(name) => names::fold(name),
            None => {
                let words: Vec<&str> = columns.iter().map(|c| table.columns[*c].name.as_str()).collect();
                first_free([&table.name, &words.join("_"), "fkey"], |name| !has_constraint(table, name))
            }
        };
        if has_constraint(table, &name) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_OBJECT,
                format!("constraint \"{name}\" for relation \"{}\" already exists", table.name),
            ));
        }
        check_types(table, &columns, parent, &referenced, &name)?;
        let is_full = match key.match_kind {
            Some(MatchKind::Full) => true,
            Some(MatchKind::Partial) => return Err(SqlError::unsupported("MATCH PARTIAL")),
            Some(MatchKind::Simple) | None => false,
        };
        let listed = match &key.index_name {
            None => Vec::new(),
            Some(listed) => set_columns(table, &columns, &listed.value)?,
        };
        let made = ForeignKey {
            name,
            table: parent.id,
            columns,
            referenced,
            unique,
            on_update: action(key.on_update, Vec::new()),
            on_delete: action(key.on_delete, listed),
            is_full,
            timing: timing(key.characteristics.as_ref())?,
            is_validated,
            partition: None,
        };
        table.add_foreign_key(made);
        Ok(())
    }

    /// The table that a key references; `None`: the one that has the key.
    fn referenced_table(&self, table: &Table, name: &ast::ObjectName) -> SqlResult<Option<Arc<Table>>> {
        match self.find_table(name) {
            Ok(found) if found.id == table.id => Ok(None),
            Ok(found) => Ok(Some(found.clone())),
            Err(error) => {
                let (schema, name) = names::qualified(name, self.database)?;
                let is_own = name == table.name && schema.is_none_or(|schema| schema == table.schema);
                if is_own { Ok(None) } else { Err(error) }
            }
        }
    }

    /// Keys of other tables that reference a table, those that `which` picks.
    pub(super) fn referencing_keys(
        &self,
        parent: &Table,
        which: impl Fn(&ForeignKey) -> bool,
    ) -> Vec<(Arc<Table>, ForeignKey)> {
        let keys = self.catalog.referencing(parent).filter(|(_, key)| which(key));
        keys.map(|(child, key)| (child.clone(), key.clone())).collect()
    }

    /// Takes keys away because what they reference goes. Errors: 2BP01, unless CASCADE was said.
    pub(super) fn drop_dependents(
        &self,
        what: &str,
        dependents: Vec<(Arc<Table>, ForeignKey)>,
        cascade: bool,
        altered: &mut Vec<Table>,
        ddl: &mut Ddl,
    ) -> SqlResult<()> {
        if dependents.is_empty() {
            return Ok(());
        }
        if !cascade {
            let line = |(child, key): &(Arc<Table>, ForeignKey)| {
                format!("constraint {} on table {} depends on {what}", key.name, child.name)
            };
            let lines: Vec<String> = dependents.iter().map(line).collect();
            return Err(SqlError::new(
                DEPENDENT_OBJECTS,
                format!("cannot drop {what} because other objects depend on it"),
            )
            .detail(lines.join("\n"))
            .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        for (child, key) in dependents {
            let told = format!("drop cascades to constraint {} on table {}", key.name, child.name);
            ddl.notice(SqlState::SUCCESSFUL, told);
            change(altered, &child).drop_foreign_keys(|own| own.name == key.name);
        }
        Ok(())
    }
}

/// The description of a table that a statement changes, as far as it has changed it.
pub(super) fn change<'a>(altered: &'a mut Vec<Table>, table: &Table) -> &'a mut Table {
    let at = altered.iter().position(|t| t.id == table.id).unwrap_or_else(|| {
        altered.push(table.clone());
        altered.len() - 1
    });
    &mut altered[at]
}

/// A foreign key as one of another table, where its columns have other numbers; `None` if one is not there.
pub(super) fn with_columns(key: &ForeignKey, columns: &[(usize, usize)]) -> Option<ForeignKey> {
    let moved = |given: &[usize]| {
        let place = |column: &usize| columns.iter().find(|(from, _)| from == column).map(|(_, to)| *to);
        given.iter().map(place).collect::<Option<Vec<usize>>>()
    };
    let action = |action: &Action| {
        Some(match action {
            Action::SetNull(listed) => Action::SetNull(moved(listed)?),
            Action::SetDefault(listed) => Action::SetDefault(moved(listed)?),
            action => action.clone(),
        })
    };
    Some(ForeignKey {
        columns: moved(&key.columns)?,
        on_update: action(&key.on_update)?,
        on_delete: action(&key.on_delete)?,
        ..key.clone()
    })
}

/// Whether a table has a constraint of this name.
pub(super) fn has_constraint(table: &Table, name: &str) -> bool {
    let has_key =
        table.primary_key.iter().all(|c| !table.columns[*c].hidden) && !table.primary_key.is_empty();
    has_key && table.primary_key_name == name
        || table.indexes.iter().any(|i| i.constraint && i.name == name)
        || table.checks.iter().any(|c| c.name == name)
        || table.foreign.own.iter().any(|key| key.name == name)
}

fn key_column(table: &Table, name: &ast::Ident) -> SqlResult<usize> {
    let name = names::fold(name);
    table.column_named(&name).filter(|c| !table.columns[*c].hidden).ok_or_else(|| {
        let told = format!("column \"{name}\" referenced in foreign key constraint does not exist");
        SqlError::new(SqlState::UNDEFINED_COLUMN, told)
    })
}

/// The columns that are referenced, and what makes them unique: the primary key if none are named.
fn referenced_key(parent: &Table, named: &[ast::Ident]) -> SqlResult<(Vec<usize>, TableId)> {
    let has_key = parent.primary_key.iter().all(|c| !parent.columns[*c].hidden);
    if named.is_empty() {
        if !has_key || parent.primary_key.is_empty() {
            let told = format!("there is no primary key for referenced table \"{}\"", parent.name);
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, told));
        }
        return Ok((parent.primary_key.clone(), parent.id));
    }
    let columns = named.iter().map(|c| key_column(parent, c)).collect::<SqlResult<Vec<_>>>()?;
    let is_same = |key: &[usize]| key.len() == columns.len() && key.iter().all(|c| columns.contains(c));
    if has_key && is_same(&parent.primary_key) {
        return Ok((columns, parent.id));
    }
    let is_unique = |index: &&base::schema::Index| index.unique && !index.form.is_building;
    match parent.indexes.iter().filter(is_unique).find(|index| is_same(&index.columns)) {
        Some(index) => Ok((columns, index.id)),
        None => Err(SqlError::new(
            INVALID_FOREIGN_KEY,
            format!(
                "there is no unique constraint matching given keys for referenced table \"{}\"",
                parent.name
            ),
        )),
    }
}

/// Errors: 42601 for an action that assigns values to a generated column, which takes no other value than its own.
fn refuse_assignments(table: &Table, columns: &[usize], key: &ast::ForeignKeyConstraint) -> SqlResult<()> {
    use ReferentialAction as A;
    if columns.iter().all(|column| table.columns[*column].identity != Identity::Generated) {
        return Ok(());
    }
    let event = match (key.on_update, key.on_delete) {
        (Some(A::Cascade | A::SetNull | A::SetDefault), _) => "ON UPDATE",
        (_, Some(A::SetNull | A::SetDefault)) => "ON DELETE",
        _ => return Ok(()),
    };
    let told = format!("invalid {event} action for foreign key constraint containing generated column");
    Err(SqlError::new(SqlState::SYNTAX_ERROR, told))
}

/// Errors: 42804 for columns that cannot be compared.
fn check_types(
    table: &Table,
    columns: &[usize],
    parent: &Table,
    referenced: &[usize],
    name: &str,
) -> SqlResult<()> {
    for (column, other) in columns.iter().zip(referenced) {
        let (column, other) = (&table.columns[*column], &parent.columns[*other]);
        if !are_comparable(column.data_type, other.data_type) {
            let told = format!("foreign key constraint \"{name}\" cannot be implemented");
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, told).detail(format!(
                "Key columns \"{}\" and \"{}\" are of incompatible types: {} and {}.",
                column.name,
                other.name,
                crate::lower::expr::type_name(column.data_type),
                crate::lower::expr::type_name(other.data_type)
            )));
        }
    }
    Ok(())
}

/// Whether values of two types are equal exactly if one, as a value of the other, is the same.
pub(super) fn are_comparable(a: DataType, b: DataType) -> bool {
    use DataType as T;
    let family = |t: DataType| match t {
        T::SmallInt | T::Integer | T::BigInt => 0,
        T::Numeric { .. } => 1,
        T::Real => 2,
        T::Double => 3,
        T::Text | T::Varchar { .. } => 4,
        T::Char { .. } => 5,
        T::Boolean => 6,
        T::Date => 7,
        T::Timestamp => 8,
        T::TimestampTz => 9,
        T::Uuid => 10,
        T::Bytea => 11,
        T::Time => 12,
        T::Interval => 13,
        T::Json => 14,
        T::Jsonb => 15,
        T::Inet | T::Cidr => 17,
        T::TsVector => 18,
        T::TsQuery => 19,
        T::MacAddr => 20,
        T::MacAddr8 => 21,
        T::TimeTz => 22,
        T::Array(_) => 16,
        T::Enum(of) => 23 + of.id().0,
        T::Composite(of) => 23 + of.id().0,
    };
    family(a) == family(b) || (family(a) <= 1 && family(b) <= 1)
}

/// The columns of SET NULL (…) and SET DEFAULT (…), as the parser marks them.
fn set_columns(table: &Table, key: &[usize], listed: &str) -> SqlResult<Vec<usize>> {
    let Some(listed) = listed.strip_prefix(crate::parse::SET_COLUMNS) else {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{listed}\"")));
    };
    let mut columns = Vec::new();
    for name in listed.split('\n') {
        let column = key_column(table, &ast::Ident::with_quote('"', name))?;
        if !key.contains(&column) {
            return Err(SqlError::new(
                SqlState::INVALID_COLUMN_REFERENCE,
                format!("column \"{name}\" referenced in ON DELETE SET action must be part of foreign key"),
            ));
        }
        columns.push(column);
    }
    Ok(columns)
}

fn action(written: Option<ReferentialAction>, listed: Vec<usize>) -> Action {
    match written {
        None | Some(ReferentialAction::NoAction) => Action::NoAction,
        Some(ReferentialAction::Restrict) => Action::Restrict,
        Some(ReferentialAction::Cascade) => Action::Cascade,
        Some(ReferentialAction::SetNull) => Action::SetNull(listed),
        Some(ReferentialAction::SetDefault) => Action::SetDefault(listed),
    }
}

fn timing(written: Option<&ast::ConstraintCharacteristics>) -> SqlResult<Timing> {
    let Some(written) = written else { return Ok(Timing::Immediate) };
    if written.enforced == Some(false) {
        return Err(SqlError::unsupported("NOT ENFORCED"));
    }
    let is_deferred = written.initially == Some(ast::DeferrableInitial::Deferred);
    match (written.deferrable, is_deferred) {
        (Some(false), true) => Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "constraint declared INITIALLY DEFERRED must be DEFERRABLE",
        )),
        (_, true) => Ok(Timing::Deferred),
        (Some(true), false) => Ok(Timing::DeferrableImmediate),
        (_, false) => Ok(Timing::Immediate),
    }
}

/// A key as `pg_get_constraintdef` writes it. `name_of` gives the referenced table's name.
pub fn definition(table: &Table, key: &ForeignKey, parent: &Table, parent_name: &str) -> String {
    let list = |table: &Table, columns: &[usize]| {
        let names: Vec<String> = columns.iter().map(|c| quoted(&table.columns[*c].name)).collect();
        names.join(", ")
    };
    let mut text = format!(
        "FOREIGN KEY ({}) REFERENCES {parent_name}({})",
        list(table, &key.columns),
        list(parent, &key.referenced)
    );
    if key.is_full {
        text.push_str(" MATCH FULL");
    }
    let mut say = |event: &str, action: &Action| {
        let (words, listed) = match action {
            Action::NoAction => return,
            Action::Restrict => ("RESTRICT", &[][..]),
            Action::Cascade => ("CASCADE", &[][..]),
            Action::SetNull(listed) => ("SET NULL", listed.as_slice()),
            Action::SetDefault(listed) => ("SET DEFAULT", listed.as_slice()),
        };
        text.push_str(&format!(" ON {event} {words}"));
        if !listed.is_empty() {
            text.push_str(&format!(" ({})", list(table, listed)));
        }
    };
    say("UPDATE", &key.on_update);
    say("DELETE", &key.on_delete);
    match key.timing {
        Timing::Immediate => {}
        Timing::DeferrableImmediate => text.push_str(" DEFERRABLE"),
        Timing::Deferred => text.push_str(" DEFERRABLE INITIALLY DEFERRED"),
    }
    if !key.is_validated {
        text.push_str(" NOT VALID");
    }
    text
}

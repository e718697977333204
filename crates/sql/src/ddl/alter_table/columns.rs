//! What ALTER TABLE does to columns: DROP COLUMN, ALTER COLUMN, RENAME COLUMN.

use super::super::sequence_options::Options;
use super::super::{create_table, defaults};
use super::Altering;
use crate::ddl::foreign_keys::are_comparable;
use crate::ddl::{DdlContext, indexes, kept_texts};
use crate::lower::scope::{ParameterTypes, Scope};
use crate::names;
use crate::parse::{self, IdentityChange};
use crate::walk;
use base::error::{SqlResult, SqlState};
use base::expr::Expr;
use base::partitioning::{PartitionKey, Partitioning};
use base::schema::{Identity, Index, Placement, SchemaAction, Sequence, Table};
use base::{DataType, Datum, SqlError, TableId};
use sqlparser::ast::{self, AlterColumnOperation as ColumnOperation};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Errors: 42703.
pub(in crate::ddl) fn position(table: &Table, name: &str) -> SqlResult<usize> {
    table.column_named(name).filter(|c| !table.columns[*c].hidden).ok_or_else(|| {
        let told = format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
        SqlError::new(SqlState::UNDEFINED_COLUMN, told)
    })
}

impl DdlContext<'_> {
    pub(super) fn drop_column(
        &self,
        altering: &mut Altering<'_>,
        name: &ast::Ident,
        if_exists: bool,
        cascade: bool,
    ) -> SqlResult<()> {
        let Altering { table, next, altered, ddl, .. } = &mut *altering;
        let name = names::fold(name);
        let Some(column) = next.column_named(&name).filter(|c| !next.columns[*c].hidden) else {
            let told = format!("column \"{name}\" of relation \"{}\" does not exist", next.name);
            if !if_exists {
                return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, told));
            }
            ddl.notice(SqlState::SUCCESSFUL, format!("{told}, skipping"));
            return Ok(());
        };
        if next.primary_key.contains(&column) {
            return Err(SqlError::unsupported(format!("dropping column \"{name}\" of the primary key"))
                .hint(format!(
                    "Drop the constraint first: ALTER TABLE … DROP CONSTRAINT {}.",
                    next.primary_key_name
                )));
        }
        let what = format!("column {name} of table {}", table.name);
        let followers = self.generated_from(next, column)?;
        if let Some(follower) = followers.iter().copied().find(|follower| !next.is_of_index(*follower)) {
            let following = next.columns[follower].name.clone();
            let depends = format!("column {following} of table {} depends on {what}", table.name);
            if !cascade {
                let told = format!("cannot drop {what} because other objects depend on it");
                return Err(SqlError::new(SqlState(*b"2BP01"), told)
                    .detail(depends)
                    .hint("Use DROP ... CASCADE to drop the dependent objects too."));
            }
            ddl.notices.push((
                SqlState::SUCCESSFUL,
                format!("drop cascades to column {following} of table {}", table.name),
            ));
            self.drop_column(altering, &ast::Ident::with_quote('"', following), false, true)?;
            return self.drop_column(altering, &ast::Ident::with_quote('"', name), false, true);
        }
        ddl.notices.extend(self.drop_triggers_of(next, column, cascade)?);
        // An index goes with any column that it says something of.
        let goes = |index: &Index| {
            let is_part = index.columns.contains(&column) || index.form.include.contains(&column);
            is_part || index.columns.iter().any(|column| followers.contains(column))
        };
        let gone: Vec<TableId> = next.indexes.iter().filter(|i| goes(i)).map(|i| i.id).collect();
        for id in &gone {
            self.drop_references(table, &what, *id, cascade, next, altered, ddl)?;
        }
        indexes::drop_indexes(next, |index| gone.contains(&index.id));
        indexes::sweep(next);
        next.drop_foreign_keys(|key| key.columns.contains(&column));
        next.drop_checks(|check| {
            let mut uses = false;
            check.expr.walk(&mut |e| uses |= matches!(e, Expr::Column(c) if *c == column));
            uses
        });
        ddl.actions.extend(self.sequences_of(table, column));
        hide(next, column);
        Ok(())
    }

    pub(super) fn alter_column(
        &self,
        altering: &mut Altering<'_>,
        name: &ast::Ident,
        operation: &ColumnOperation,
    ) -> SqlResult<()> {
        let Altering { next, .. } = &mut *altering;
        let name = names::fold(name);
        let told = |told: &str| format!("column \"{name}\" of relation \"{}\" {told}", next.name);
        let column = position(next, &name)?;
        let is_identity = next.columns[column].identity.is_identity();
        let is_generated = next.columns[column].identity == Identity::Generated;
        match operation {
            ColumnOperation::SetNotNull => set_not_null(next, column, true),
            ColumnOperation::DropNotNull => {
                if next.primary_key.contains(&column) {
                    return Err(SqlError::new(
                        SqlState::INVALID_TABLE_DEFINITION,
                        format!("column \"{name}\" is in a primary key"),
                    ));
                }
                if is_identity {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, told("is an identity column")));
                }
                set_not_null(next, column, false);
            }
            ColumnOperation::SetDefault { value } if let Some(change) = parse::identity_change(value) => {
                return self.change_identity(altering, column, change);
            }
            ColumnOperation::SetDefault { .. } | ColumnOperation::DropDefault if is_generated => {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, told("is a generated column")));
            }
            ColumnOperation::SetDefault { .. } | ColumnOperation::DropDefault if is_identity => {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, told("is an identity column")));
            }
            ColumnOperation::SetDefault { value } => {
                let default = defaults::kept_default(self, &next.columns[column], value)?;
                next.columns[column].default = Some(default);
            }
            ColumnOperation::DropDefault => next.columns[column].default = None,
            ColumnOperation::SetDataType { data_type, using, .. } => {
                let to = names::data_type(data_type)?;
                next.set_domain(column, names::domain(data_type));
                return self.alter_type(altering, column, to, using.as_ref());
            }
            ColumnOperation::AddGenerated { generated_as, sequence_options } => {
                return self.add_identity(altering, column, *generated_as, sequence_options.as_deref());
            }
        }
        Ok(())
    }

    /// ADD GENERATED … AS IDENTITY. Errors: 22023, 55000, and those of the sequence's options.
    fn add_identity(
        &self,
        altering: &mut Altering<'_>,
        column: usize,
        generated_as: Option<ast::GeneratedAs>,
        options: Option<&[ast::SequenceOptions]>,
    ) -> SqlResult<()> {
        let Altering { next, next_id, extras, .. } = altering;
        let known = &next.columns[column];
        let told = |wrong: &str| format!("column \"{}\" of relation \"{}\" {wrong}", known.name, next.name);
        let wrong = match () {
            () if known.identity.is_identity() => Some("is already an identity column"),
            () if known.default.is_some() => Some("already has a default value"),
            () if !known.not_null => Some("must be declared NOT NULL before identity can be added"),
            () => None,
        };
        if let Some(wrong) = wrong {
            return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, told(wrong)));
        }
        if !are_comparable(known.data_type, DataType::BigInt) {
            let message = "identity column type must be smallint, integer, or bigint";
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        let options = Options::declared(options.unwrap_or_default())?.made(Some(known.data_type))?;
        next.columns[column].identity = match generated_as {
            Some(ast::GeneratedAs::Always) => Identity::Always,
            _ => Identity::ByDefault,
        };
        create_table::give_sequence(self, next, column, options, next_id, extras);
        Ok(())
    }

    /// DROP IDENTITY and SET GENERATED. Errors: 55000.
    fn change_identity(
        &self,
        altering: &mut Altering<'_>,
        column: usize,
        change: IdentityChange,
    ) -> SqlResult<()> {
        let Altering { table, next, ddl, .. } = &mut *altering;
        let (name, of) = (&next.columns[column].name, &next.name);
        let told = format!("column \"{name}\" of relation \"{of}\" is not an identity column");
        match (next.columns[column].identity.is_identity(), change) {
            (false, IdentityChange::Drop { if_exists: true }) => {
                ddl.notice(SqlState::SUCCESSFUL, format!("{told}, skipping"));
            }
            (false, _) => return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, told)),
            (true, IdentityChange::Always) => next.columns[column].identity = Identity::Always,
            (true, IdentityChange::ByDefault) => next.columns[column].identity = Identity::ByDefault,
            (true, IdentityChange::Drop { .. }) => {
                next.columns[column].identity = Identity::No;
                next.columns[column].default = None;
                ddl.actions.extend(self.sequences_of(table, column));
            }
        }
        Ok(())
    }

    /// Actions that drop the sequences of a column.
    fn sequences_of(&self, table: &Table, column: usize) -> impl Iterator<Item = SchemaAction> + '_ {
        let owner = Some((table.id, column));
        let owned = self.catalog.sequences.values().filter(move |s| s.owner == owner);
        owned.map(|sequence| SchemaAction::DropSequence(sequence.id))
    }

    /// What keeps a column at its type.
    fn bound_by(&self, table: &Table, next: &Table, column: usize, to: DataType) -> Option<&'static str> {
        let references = next.foreign.own.iter().any(|key| key.columns.contains(&column));
        let is_referenced = self.catalog.referencing(table).any(|(_, key)| key.referenced.contains(&column));
        let is_home = matches!(&next.placement, Placement::HomeBy { column: home, .. } if *home == column);
        let has_sequence = next.columns[column].identity.has_sequence();
        match () {
            () if references || is_referenced => Some("a foreign key"),
            () if is_home => Some("home_by"),
            () if has_sequence && !are_comparable(to, DataType::BigInt) => {
                Some("an identity or serial column")
            }
            () => None,
        }
    }

    /// Generated columns that are computed from a column.
    fn generated_from(&self, table: &Table, column: usize) -> SqlResult<Vec<usize>> {
        let mut parameters = ParameterTypes::default();
        let generated = self.lowering(&mut parameters).generated(table)?;
        Ok(generated.from(column).collect())
    }

    /// Errors: 0A000 for another type of a generated column, or of one that such a column or a trigger depends on.
    fn refuse_generation(&self, next: &Table, column: usize) -> SqlResult<()> {
        self.refuse_type_of_triggers(next, column)?;
        if next.columns[column].identity == Identity::Generated {
            return Err(SqlError::unsupported("changing the type of a generated column"));
        }
        let followers = self.generated_from(next, column)?;
        let Some(follower) = followers.into_iter().find(|follower| !next.is_of_index(*follower)) else {
            return Ok(());
        };
        let (used, by) = (&next.columns[column].name, &next.columns[follower].name);
        let told = "cannot alter type of a column used by a generated column";
        let detail = format!("Column \"{used}\" is used by generated column \"{by}\".");
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, told).detail(detail))
    }

    /// Conditions over a column of another type now.
    fn lower_checks_again(&self, next: &mut Table, column: usize) -> SqlResult<()> {
        let described = next.clone();
        for check in next.checks_mut() {
            let mut uses = false;
            check.expr.walk(&mut |e| uses |= matches!(e, Expr::Column(c) if *c == column));
            if uses {
                let parsed = crate::parse::parse_expr(&check.sql)?;
                let is_validated = check.is_validated;
                *check = self.check(&described, check.name.clone(), &parsed)?;
                check.is_validated = is_validated;
            }
        }
        Ok(())
    }

    /// Columns that indexes compute from one of another type now.
    fn follow_type(&self, next: &mut Table, computed: &[usize]) -> SqlResult<()> {
        for (column, to) in indexes::computed_types(self, next, computed)? {
            next.columns[column].data_type = to;
        }
        Ok(())
    }

    fn alter_type(
        &self,
        altering: &mut Altering<'_>,
        column: usize,
        to: DataType,
        using: Option<&ast::Expr>,
    ) -> SqlResult<()> {
        let Altering { table, next, rewritten, .. } = altering;
        let was = next.columns[column].clone();
        if was.data_type == to && using.is_none() {
            return Ok(());
        }
        let type_name = crate::lower::expr::type_name;
        if let Some(what) = self.bound_by(table, next, column, to) {
            return Err(SqlError::unsupported(format!("changing the type of a column of {what}")));
        }
        self.refuse_generation(next, column)?;
        let followers = self.generated_from(next, column)?;
        next.columns[column].data_type = to;
        self.follow_type(next, &followers)?;
        let is_widened = using.is_none() && is_wider(was.data_type, to);
        if let Some(default) = &was.default {
            let parsed = crate::parse::parse_expr(default)?;
            defaults::kept_default(self, &next.columns[column], &parsed).map_err(|_| {
                SqlError::new(
                    SqlState::DATATYPE_MISMATCH,
                    format!(
                        "default for column \"{}\" cannot be cast automatically to type {}",
                        was.name,
                        type_name(to)
                    ),
                )
            })?;
        }
        self.lower_checks_again(next, column)?;
        if is_widened {
            return Ok(());
        }
        let value = match using {
            None if is_assignable(was.data_type, to) => {
                crate::lower::expr::reassigned(column, was.data_type, to)?
            }
            None => {
                return Err(SqlError::new(
                    SqlState::DATATYPE_MISMATCH,
                    format!("column \"{}\" cannot be cast automatically to type {}", was.name, type_name(to)),
                )
                .hint(format!(
                    "You might need to specify \"USING {}::{}\".",
                    was.name,
                    to.name()
                )));
            }
            Some(using) => {
                let mut parameters = ParameterTypes::default();
                let mut lowering = self.lowering(&mut parameters);
                let scope = Scope::table(table, None);
                lowering
                    .exprs(&scope)
                    .assignment(using, &was.name, to)
                    .map_err(|r| r.or(|| SqlError::unsupported(format!("USING {using}"))))?
            }
        };
        // A value that rows lack is that of the column's old type.
        next.columns[column].missing = Datum::Null;
        let set = rewritten.get_or_insert_default();
        set.retain(|(c, _)| *c != column);
        set.push((column, value));
        Ok(())
    }
}

/// A column takes nulls from now on, or takes none.
pub(in crate::ddl) fn set_not_null(table: &mut Table, column: usize, is_not_null: bool) {
    table.columns[column].not_null = is_not_null;
}

/// A column is given no value any more where none is said: the sequence is gone that counted it.
pub(in crate::ddl) fn lose_default(table: &mut Table, column: usize) {
    let described = &mut table.columns[column];
    described.default = None;
    if described.identity == Identity::Serial {
        described.identity = Identity::No;
    }
}

/// Defaults of a table that name a sequence name it as it is called from now on; answers whether one does.
pub(in crate::ddl) fn name_sequence(
    context: &DdlContext<'_>,
    table: &mut Table,
    to: &Sequence,
) -> SqlResult<bool> {
    let mut has_named = false;
    let counted = table.columns.iter_mut().filter(|column| column.identity != Identity::Generated);
    for default in counted.filter_map(|column| column.default.as_mut()) {
        if let Some(text) = kept_texts::with_sequence(context, default, to)? {
            *default = text;
            has_named = true;
        }
    }
    Ok(has_named)
}

/// A column that is there no more: its place stays, its name is free.
pub(in crate::ddl) fn hide(table: &mut Table, column: usize) {
    table.set_domain(column, None);
    let described = &mut table.columns[column];
    described.name = format!("........meridian.dropped.{}........", column + 1);
    described.hidden = true;
    described.not_null = false;
    described.default = None;
    described.identity = Identity::No;
}

pub(in crate::ddl) fn rename_column(next: &mut Table, from: &ast::Ident, to: &ast::Ident) -> SqlResult<()> {
    let (old, new) = (names::fold(from), names::fold(to));
    let Some(column) = next.column_named(&old).filter(|c| !next.columns[*c].hidden) else {
        return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{old}\" does not exist")));
    };
    create_table::free_row_id(next, &new);
    if next.column_named(&new).is_some() {
        let told = format!("column \"{new}\" of relation \"{}\" already exists", next.name);
        return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, told));
    }
    // The catalog keeps conditions as texts too, and what generated columns are as texts alone.
    for check in next.checks_mut() {
        rename_in(&mut check.sql, &old, to)?;
    }
    for column in next.columns.iter_mut().filter(|column| column.identity == Identity::Generated) {
        column.default.as_mut().map_or(Ok(()), |text| rename_in(text, &old, to))?;
    }
    if !next.triggers.is_empty() {
        for condition in next.triggers.each_mut().filter_map(|trigger| trigger.condition.as_mut()) {
            rename_in(condition, &old, to)?;
        }
    }
    for text in indexes::indexes_mut(next).flat_map(Index::texts_mut) {
        rename_in(text, &old, to)?;
    }
    if let Some(divides) = &mut next.partitioning {
        rename_in_keys(Arc::make_mut(divides), &old, to)?;
    }
    next.columns[column].name = new;
    Ok(())
}

/// Renames a column in the keys of a partitioned table that are computed.
pub(in crate::ddl) fn rename_in_keys(of: &mut Partitioning, old: &str, to: &ast::Ident) -> SqlResult<()> {
    of.keys.iter_mut().try_for_each(|key| match key {
        PartitionKey::Expression(text, _) => rename_in(text, old, to),
        PartitionKey::Column(_) => Ok(()),
    })
}

/// Renames a column in the text of an expression.
fn rename_in(text: &mut String, old: &str, to: &ast::Ident) -> SqlResult<()> {
    let mut parsed = crate::parse::parse_expr(text)?;
    let _: ControlFlow<()> = walk::expressions_mut(&mut parsed, |e| {
        match e {
            ast::Expr::Identifier(ident) if names::fold(ident) == old => *ident = to.clone(),
            ast::Expr::CompoundIdentifier(path) => {
                if let Some(last) = path.last_mut().filter(|last| names::fold(last) == old) {
                    *last = to.clone();
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    });
    *text = parsed.to_string();
    Ok(())
}

/// Whether every value of one type is stored alike as one of the other.
fn is_wider(from: DataType, to: DataType) -> bool {
    use DataType as T;
    match (from, to) {
        (T::Text | T::Varchar { .. }, T::Text) => true,
        (T::Varchar { length: from }, T::Varchar { length: to }) => from <= to,
        _ => false,
    }
}

/// Whether a value of one type may be assigned to a column of the other.
fn is_assignable(from: DataType, to: DataType) -> bool {
    use DataType as T;
    let is_number = |t: DataType| {
        matches!(t, T::SmallInt | T::Integer | T::BigInt | T::Numeric { .. } | T::Real | T::Double)
    };
    let is_text = |t: DataType| matches!(t, T::Text | T::Varchar { .. } | T::Char { .. });
    let is_time = |t: DataType| matches!(t, T::Date | T::Timestamp | T::TimestampTz);
    is_text(to) || from == to || (is_number(from) && is_number(to)) || (is_time(from) && is_time(to))
}

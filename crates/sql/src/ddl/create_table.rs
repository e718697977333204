//! CREATE TABLE, and the columns and constraints that ALTER TABLE adds.

use super::defaults::kept_default;
use super::generated::check_generated;
use super::indexes::{included, index_columns, nulls_become_equal, push_index, refuse_unordered};
use super::placement::StorageOptions;
use super::sequence_options::{Counting, Options};
use super::{Ddl, DdlContext, Extras, kept_texts, like};
use crate::names;
use base::error::{SqlResult, SqlState};
use base::expr::Expr;
use base::identifier;
use base::schema::{Column, Identity, Index, IndexForm, Origin, Placement, SchemaAction, Sequence, Table};
use base::{DataType, Datum, SqlError, TableId};
use sqlparser::ast::{self, ColumnOption, TableConstraint};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Most columns of a table, as in PostgreSQL.
const COLUMNS_MAX: usize = 1600;

/// Name of the hidden key column of tables without a primary key.
const ROW_ID: &str = "rowid";

pub(super) fn create_table(context: &DdlContext<'_>, create: &ast::CreateTable) -> SqlResult<Ddl> {
    if let Some(parent) = &create.partition_of {
        return context.create_partition(create, parent);
    }
    let refused = [
        (create.query.is_some(), "CREATE TABLE AS"),
        (create.like.is_some(), "CREATE TABLE LIKE"),
        (create.inherits.is_some(), "INHERITS"),
        (create.or_replace || create.external || create.clone.is_some(), "this form of CREATE TABLE"),
    ];
    if let Some((_, what)) = refused.into_iter().find(|(is_used, _)| *is_used) {
        return Err(SqlError::unsupported(what));
    }
    if create.columns.is_empty() && create.constraints.is_empty() {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at end of input"));
    }
    let (schema, name) = context.new_name(&create.name, create.temporary)?;
    super::temporary::check_on_commit(&schema, create.on_commit.as_ref())?;
    let mut ddl = Ddl { tag: "CREATE TABLE", ..Ddl::default() };
    if context.relation_exists(&schema, &name) {
        let message = format!("relation \"{name}\" already exists");
        if !create.if_not_exists {
            return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
        }
        ddl.notice(SqlState::DUPLICATE_TABLE, format!("{message}, skipping"));
        return Ok(ddl);
    }
    context.refuse_name_of_type(&schema, &name)?;
    let options = StorageOptions::read(&create.table_options)?;
    let mut next_id = context.catalog.next_id;
    let mut table = Table {
        id: TableId(next_id),
        primary_key_name: identifier::made(&name, "", "pkey"),
        schema,
        name,
        version: 0,
        columns: Vec::new(),
        primary_key: Vec::new(),
        indexes: Vec::new(),
        checks: Arc::default(),
        foreign: Default::default(),
        triggers: Default::default(),
        domains: Default::default(),
        partitioning: None,
        placement: Placement::Replicated,
    };
    next_id += 1;
    let mut extras = Extras::default();
    let copied = add_columns(context, &mut table, &create.columns, &mut next_id, &mut extras)?;
    check_generated(context, &table)?;
    for constraint in &create.constraints {
        add_constraint(context, &mut table, constraint, &mut next_id, &mut extras.foreign)?;
    }
    let mut behind = Ddl::default();
    for other in &copied {
        like::add_rest(context, &mut table, other, &mut next_id, &mut behind)?;
    }
    if table.primary_key.is_empty() {
        hidden_key(&mut table, options.home_by())?;
    }
    for &column in &table.primary_key.clone() {
        table.columns[column].not_null = true;
    }
    table.placement = options.placement(context, &table)?;
    for key in &extras.foreign {
        context.add_foreign_key(&mut table, key, true)?;
    }
    if let Some(by) = &create.partition_by {
        table.partitioning = Some(Arc::new(context.partitioning(&table, by)?));
    }
    ddl.actions.push(SchemaAction::CreateTable(table));
    ddl.actions.extend(extras.sequences.into_iter().map(SchemaAction::CreateSequence));
    ddl.actions.extend(behind.actions);
    Ok(ddl)
}

/// Adds columns, and those of tables that the new one is like.
fn add_columns(
    context: &DdlContext<'_>,
    table: &mut Table,
    columns: &[ast::ColumnDef],
    next_id: &mut u32,
    extras: &mut Extras,
) -> SqlResult<Vec<like::Copied>> {
    let mut copied = Vec::new();
    for column in columns.iter().filter(|column| !crate::parse::is_no_column(column)) {
        match crate::parse::like_of(column) {
            Some(other) => copied.push(like::add_columns(context, table, &other, next_id, extras)?),
            None => add_column(context, table, column, next_id, extras)?,
        }
    }
    Ok(copied)
}

/// A name for the hidden column of a table's key that no other column has: any name is free for users.
fn row_id_name(table: &Table) -> String {
    let mut names = (0..).map(|n| if n == 0 { ROW_ID.to_string() } else { format!("{ROW_ID}_{n}") });
    names.find(|name| table.column_named(name).is_none()).expect("numbers do not end")
}

/// Gives the name of a table's hidden key to a column that is to have it.
pub(super) fn free_row_id(table: &mut Table, name: &str) {
    let is_hidden_key = |column: &usize| table.columns[*column].hidden && table.primary_key.contains(column);
    if let Some(column) = table.column_named(name).filter(is_hidden_key) {
        table.columns[column].name = row_id_name(table);
    }
}

/// A key for a table without one: the column that decides the region (if any), then a row id.
pub(super) fn hidden_key(table: &mut Table, home_by: Option<&str>) -> SqlResult<()> {
    let name = row_id_name(table);
    if let Some(column) = home_by.and_then(|c| table.column_named(&c.to_lowercase())) {
        table.primary_key.push(column);
    }
    table.primary_key.push(table.columns.len());
    table.columns.push(Column {
        name,
        data_type: DataType::BigInt,
        not_null: true,
        default: None,
        missing: Datum::Null,
        identity: Identity::No,
        hidden: true,
    });
    Ok(())
}

/// Adds a column with its constraints to a table's description.
pub(super) fn add_column(
    context: &DdlContext<'_>,
    table: &mut Table,
    definition: &ast::ColumnDef,
    next_id: &mut u32,
    extras: &mut Extras,
) -> SqlResult<()> {
    let name = names::fold(&definition.name);
    let is_new_table = table.version == 0;
    let column = Column {
        name: name.clone(),
        data_type: names::data_type(&definition.data_type)?,
        not_null: false,
        default: None,
        missing: Datum::Null,
        identity: Identity::No,
        hidden: false,
    };
    let number = put_column(table, column)?;
    table.set_domain(number, names::domain(&definition.data_type));
    let (mut owns_sequence, mut generation) = (None, None);
    if names::is_serial(&definition.data_type) {
        owns_sequence = Some(Options::default());
        table.columns[number].identity = Identity::Serial;
    }
    for option in &definition.options {
        let constraint_name = option.name.as_ref().map(names::fold);
        refuse_deferred(characteristics(&option.option))?;
        match &option.option {
            ColumnOption::Null => {}
            ColumnOption::NotNull => table.columns[number].not_null = true,
            ColumnOption::Default(e) => {
                table.columns[number].default = Some(kept_default(context, &table.columns[number], e)?);
            }
            ColumnOption::PrimaryKey(_) => {
                refuse_unordered(&table.columns[number])?;
                set_primary_key(table, constraint_name, vec![number])?;
            }
            ColumnOption::Unique(_) => {
                refuse_unordered(&table.columns[number])?;
                let form = IndexForm::default();
                add_unique(context, table, constraint_name, (vec![number], form), next_id);
            }
            option if crate::parse::nulls_are_equal(option) => nulls_become_equal(table, number),
            ColumnOption::Check(check) => {
                put_check(context, table, constraint_name, &check.expr)?;
            }
            ColumnOption::Generated {
                generated_as,
                sequence_options: options,
                generation_expr: None,
                ..
            } => {
                table.columns[number].identity = match generated_as {
                    ast::GeneratedAs::Always => Identity::Always,
                    ast::GeneratedAs::ByDefault => Identity::ByDefault,
                    ast::GeneratedAs::ExpStored => {
                        return Err(SqlError::unsupported("a generated column"));
                    }
                };
                owns_sequence = Some(Options::declared(options.as_deref().unwrap_or_default())?);
            }
            ColumnOption::ForeignKey(key) => extras.foreign.push(of_column(definition, option, key)),
            ColumnOption::Generated { generation_expr: Some(e), generation_expr_mode: mode, .. } => {
                if *mode != Some(ast::GeneratedExpressionMode::Stored) {
                    let told = format!("generated column \"{name}\" is not STORED");
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, told));
                }
                generation = Some(kept_texts::over_columns(table, e));
            }
            ColumnOption::Collation(name) if names::is_bytewise(name) => {}
            other => return Err(SqlError::unsupported(format!("the column option {other}"))),
        }
    }
    if let Some(options) = owns_sequence {
        if table.columns[number].default.is_some() {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!(
                    "multiple default values specified for column \"{name}\" of table \"{}\"",
                    table.name
                ),
            ));
        }
        let counting = options.made(Some(table.columns[number].data_type))?;
        give_sequence(context, table, number, counting, next_id, extras);
        return Ok(());
    }
    if let Some(generation) = generation {
        return set_generation(table, number, generation);
    }
    if !is_new_table {
        let missing = context.default_value(table, number)?;
        table.columns[number].missing = missing;
    }
    Ok(())
}

/// Adds a column; answers its number. Errors: 42701, 54011.
pub(super) fn put_column(table: &mut Table, column: Column) -> SqlResult<usize> {
    if table.column_named(&column.name).is_some() {
        return Err(SqlError::new(
            SqlState::DUPLICATE_COLUMN,
            format!("column \"{}\" specified more than once", column.name),
        ));
    }
    if table.columns.len() >= COLUMNS_MAX {
        return Err(SqlError::new(
            SqlState::TOO_MANY_COLUMNS,
            format!("tables can have at most {COLUMNS_MAX} columns"),
        ));
    }
    table.columns.push(column);
    Ok(table.columns.len() - 1)
}

/// A column becomes a generated one. Errors: 42601 if it has a value of its own.
fn set_generation(table: &mut Table, number: usize, generation: String) -> SqlResult<()> {
    let column = &mut table.columns[number];
    let own = match (&column.default, owns_sequence_of(column)) {
        (_, true) => "identity",
        (Some(_), false) => "default",
        (None, false) => {
            (column.default, column.identity) = (Some(generation), Identity::Generated);
            return Ok(());
        }
    };
    let (name, table) = (&column.name, &table.name);
    let told =
        format!("both {own} and generation expression specified for column \"{name}\" of table \"{table}\"");
    Err(SqlError::new(SqlState::SYNTAX_ERROR, told))
}

fn owns_sequence_of(column: &Column) -> bool {
    column.identity.has_sequence()
}

/// A sequence for a column's values, which goes with the column.
pub(super) fn give_sequence(
    context: &DdlContext<'_>,
    table: &mut Table,
    number: usize,
    Counting { start, increment, limits }: Counting,
    next_id: &mut u32,
    extras: &mut Extras,
) {
    let taken: Vec<String> = extras.sequences.iter().map(|s| s.name.clone()).collect();
    let column = &mut table.columns[number];
    let name = context.free_name(&table.schema, [&table.name, &column.name, "seq"], &taken);
    column.not_null = true;
    column.default = Some(kept_texts::next_of(&table.schema, &name));
    extras.sequences.push(Sequence {
        id: TableId(*next_id),
        schema: table.schema.clone(),
        name,
        start,
        increment,
        limits,
        owner: Some((table.id, number)),
        origin: Origin::declared(start),
    });
    *next_id += 1;
}

/// REFERENCES behind a column as a constraint of the table.
fn of_column(
    definition: &ast::ColumnDef,
    option: &ast::ColumnOptionDef,
    key: &ast::ForeignKeyConstraint,
) -> ast::ForeignKeyConstraint {
    let columns = vec![definition.name.clone()];
    ast::ForeignKeyConstraint { name: option.name.clone(), columns, ..key.clone() }
}

/// Adds a table constraint to a table's description.
pub(super) fn add_constraint(
    context: &DdlContext<'_>,
    table: &mut Table,
    constraint: &TableConstraint,
    next_id: &mut u32,
    foreign: &mut Vec<ast::ForeignKeyConstraint>,
) -> SqlResult<()> {
    match constraint {
        TableConstraint::PrimaryKey(key) => {
            refuse_deferred(key.characteristics.as_ref())?;
            let columns = key_columns(table, &key.columns)?;
            // The rows themselves are stored by the key, so every column is included.
            included(table, &key.index_options)?;
            set_primary_key(table, key.name.as_ref().map(names::fold), columns)
        }
        TableConstraint::Unique(unique) => {
            refuse_deferred(unique.characteristics.as_ref())?;
            let columns = key_columns(table, &unique.columns)?;
            let name = unique.name.as_ref().map(names::fold);
            if let Some(name) = &name
                && (context.relation_exists(&table.schema, name)
                    || table.indexes.iter().any(|i| i.name == *name))
            {
                return Err(SqlError::new(
                    SqlState::DUPLICATE_TABLE,
                    format!("relation \"{name}\" already exists"),
                ));
            }
            let form = IndexForm {
                include: included(table, &unique.index_options)?,
                nulls_are_equal: unique.nulls_distinct == ast::NullsDistinctOption::NotDistinct,
                ..IndexForm::default()
            };
            add_unique(context, table, name, (columns, form), next_id);
            Ok(())
        }
        TableConstraint::Check(check) => {
            put_check(context, table, check.name.as_ref().map(names::fold), &check.expr)
        }
        TableConstraint::ForeignKey(key) => {
            foreign.push(key.clone());
            Ok(())
        }
        other => Err(SqlError::unsupported(format!("the constraint {other}"))),
    }
}

/// Adds a CHECK; without a name it gets one of its own. Errors: 42710 if there is one of its name, and those of its expression.
pub(super) fn put_check(
    context: &DdlContext<'_>,
    table: &mut Table,
    name: Option<String>,
    e: &ast::Expr,
) -> SqlResult<()> {
    if let Some(name) = &name
        && table.checks.iter().any(|c| c.name == *name)
    {
        return Err(SqlError::new(
            SqlState::DUPLICATE_OBJECT,
            format!("constraint \"{name}\" for relation \"{}\" already exists", table.name),
        ));
    }
    let mut check = context.check(table, String::new(), e)?;
    check.name = name.unwrap_or_else(|| free_check_name(table, &check.expr));
    table.add_check(check);
    Ok(())
}

/// Columns of a unique constraint, with PostgreSQL's words for one that is not there.
pub(super) fn key_columns(table: &Table, columns: &[ast::IndexColumn]) -> SqlResult<Vec<usize>> {
    index_columns(table, columns).map_err(|mut error| {
        if error.state == SqlState::UNDEFINED_COLUMN {
            error.message = error.message.replacen(" does not exist", " named in key does not exist", 1);
        }
        error
    })
}

pub(super) fn set_primary_key(table: &mut Table, name: Option<String>, columns: Vec<usize>) -> SqlResult<()> {
    if !table.primary_key.is_empty() {
        return Err(SqlError::new(
            SqlState::INVALID_TABLE_DEFINITION,
            format!("multiple primary keys for table \"{}\" are not allowed", table.name),
        ));
    }
    table.primary_key = columns;
    if let Some(name) = name {
        table.primary_key_name = name;
    }
    Ok(())
}

pub(super) fn add_unique(
    context: &DdlContext<'_>,
    table: &mut Table,
    name: Option<String>,
    (columns, form): (Vec<usize>, IndexForm),
    next_id: &mut u32,
) {
    // What a new table says twice about the same columns is one constraint, as in PostgreSQL.
    let is_new_table = table.version == 0;
    let is_same = |i: &Index| i.columns == columns && i.form == form;
    let is_plain = form == IndexForm::default();
    let is_known = is_plain && table.primary_key == columns || table.indexes.iter().any(is_same);
    if is_new_table && is_known {
        return;
    }
    let taken: Vec<String> = table.indexes.iter().map(|i| i.name.clone()).collect();
    let name = name.unwrap_or_else(|| {
        let named = columns.iter().chain(&form.include);
        let words: Vec<&str> = named.map(|c| table.columns[*c].name.as_str()).collect();
        context.free_name(&table.schema, [&table.name, &words.join("_"), "key"], &taken)
    });
    let id = TableId(*next_id);
    push_index(table, Index { id, name, columns, unique: true, constraint: true, form });
    *next_id += 1;
}

/// The name of a check that has none: with that of its column, if it is about one.
fn free_check_name(table: &Table, check: &Expr) -> String {
    let mut columns = BTreeSet::new();
    check.walk(&mut |e| {
        if let Expr::Column(column) = e {
            columns.insert(*column);
        }
    });
    let column = match columns.first() {
        Some(column) if columns.len() == 1 => &table.columns[*column].name,
        _ => "",
    };
    let taken: BTreeSet<&str> = table.checks.iter().map(|check| check.name.as_str()).collect();
    identifier::first_free([&table.name, column, "check"], |name| !taken.contains(name))
}

/// When a column's constraint is decided, if the statement says so.
fn characteristics(option: &ColumnOption) -> Option<&ast::ConstraintCharacteristics> {
    match option {
        ColumnOption::PrimaryKey(key) => key.characteristics.as_ref(),
        ColumnOption::Unique(unique) => unique.characteristics.as_ref(),
        _ => None,
    }
}

/// Uniqueness is decided row by row. Errors: 0A000 for a constraint that is to be decided at COMMIT.
pub(super) fn refuse_deferred(characteristics: Option<&ast::ConstraintCharacteristics>) -> SqlResult<()> {
    let is_deferred = characteristics
        .is_some_and(|c| c.deferrable == Some(true) || c.initially == Some(ast::DeferrableInitial::Deferred));
    if is_deferred { Err(SqlError::unsupported("a DEFERRABLE constraint")) } else { Ok(()) }
}

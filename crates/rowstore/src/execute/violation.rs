//! Constraints and the errors of their violations, worded as PostgreSQL words them.

use base::error::{SqlError, SqlResult, SqlState};
use base::schema::{Held, Index, Table};
use base::{DataType, Datum, Key, Place, Rank, Row, text};

/// Holds a new row against its size, its columns' domains, NOT NULL and CHECK.
pub(crate) fn check_row(table: &Table, values: &[Datum], held: Held) -> SqlResult<()> {
    base::row::check_size(values).map_err(|e| e.table(&table.name))?;
    table.check_domains_as(values, held)?;
    for (column, value) in table.columns.iter().zip(values) {
        if column.not_null && value.is_null() {
            return Err(SqlError::new(
                SqlState::NOT_NULL_VIOLATION,
                format!(
                    "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
                    column.name, table.name
                ),
            )
            .detail(failing_row(table, values))
            .table(&table.name)
            .column(&column.name));
        }
    }
    for check in table.checks.iter().filter(|check| held.asks(check)) {
        // Unknown passes.
        if check.expr.eval(values)? == Datum::Bool(false) {
            return Err(table.violation(check, failing_row(table, values)));
        }
    }
    Ok(())
}

/// Whether a stored row of a table without CHECK and domains satisfies [`check_row`], as far as that can be told without
/// building its values: it has no more values than the table has columns, and no null where none may be.
pub(crate) fn is_plainly_right(table: &Table, row: &Row) -> bool {
    let mut values = row.values();
    for column in &table.columns {
        let is_null = values.next_is_null().unwrap_or_else(|| column.missing.is_null());
        if column.not_null && is_null {
            return false;
        }
        values.skip_one();
    }
    table.checks.is_empty() && table.domains.is_empty() && values.next_is_null().is_none()
}

fn failing_row(table: &Table, values: &[Datum]) -> String {
    let shown =
        table.visible_columns().filter_map(|(i, c)| Some((values.get(i)?, c))).map(|(value, column)| {
            let text = show(value, column.data_type);
            match text.char_indices().nth(64) {
                Some((end, _)) => format!("{}...", &text[..end]),
                None => text,
            }
        });
    format!("Failing row contains ({}).", shown.collect::<Vec<_>>().join(", "))
}

fn show(value: &Datum, data_type: DataType) -> String {
    match data_type {
        _ if value.is_null() => "null".into(),
        DataType::Enum(_) => text::display_as(value, data_type),
        _ => text::display(value),
    }
}

/// `(a, b)=(1, 2)`.
pub(crate) fn key_text(table: &Table, columns: &[usize], values: &[Datum]) -> String {
    let names: Vec<&str> = columns.iter().map(|&c| table.key_column_shown(c)).collect();
    let shown: Vec<String> = columns.iter().map(|&c| show(&values[c], table.columns[c].data_type)).collect();
    format!("({})=({})", names.join(", "), shown.join(", "))
}

/// A key that is taken. `index` is `None` for the primary key.
pub(crate) fn duplicate(table: &Table, index: Option<&Index>, values: &[Datum]) -> SqlError {
    let (name, columns) =
        index.map_or((&table.primary_key_name, table.primary_key.as_slice()), |i| (&i.name, i.keys()));
    SqlError::new(
        SqlState::UNIQUE_VIOLATION,
        format!("duplicate key value violates unique constraint \"{name}\""),
    )
    .detail(format!("Key {} already exists.", key_text(table, columns, values)))
    .table(&table.name)
    .constraint(name)
}

/// A unique index cannot be made over rows that share an entry.
pub(crate) fn cannot_index(table: &Table, index: &Index, values: &[Datum]) -> SqlError {
    SqlError::new(SqlState::UNIQUE_VIOLATION, format!("could not create unique index \"{}\"", index.name))
        .detail(format!("Key {} is duplicated.", key_text(table, index.keys(), values)))
        .table(&table.name)
        .constraint(&index.name)
}

/// Something read by an interactive transaction changed after its snapshot. The conflict rank lets the
/// gateway begin its retry after the other transaction.
pub(crate) fn conflict(table: &Table, what: &str, by: Place, read_at: Rank) -> SqlError {
    SqlError::new(SqlState::SERIALIZATION_FAILURE, "could not serialize access due to concurrent update")
        .detail(format!(
            "Table \"{}\": {what} was changed by transaction {} after this transaction's snapshot at rank \
             {read_at} (conflict rank {}).",
            table.name, by.txn, by.rank
        ))
        .hint("Retry the transaction.")
        .table(&table.name)
}

/// A row's key in words: its values if a version of the row is left, else its bytes.
pub(crate) fn row_text(table: &Table, key: &Key, seen: Option<&Row>) -> String {
    match seen {
        Some(row) => format!("key {}", key_text(table, &table.primary_key, &table.complete(row))),
        None => format!("a deleted row, key {key:?},"),
    }
}

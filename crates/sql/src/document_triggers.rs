//! What the functions `tsvector_update_trigger` and `tsvector_update_trigger_column` make of a row: the document of some
//! of its columns.

use base::error::{SqlResult, SqlState};
use base::schema::Table;
use base::schema::triggers::{BuiltIn, Event, Level, Trigger, When};
use base::text_search::Configuration;
use base::{DataType, Datum, SqlError};

fn is_text(data_type: DataType) -> bool {
    matches!(data_type, DataType::Text | DataType::Varchar { .. } | DataType::Char { .. })
}

fn wrong(state: SqlState, message: String) -> SqlError {
    SqlError::new(state, message)
}

/// A column that users see, by its name.
fn column(table: &Table, name: &str) -> Option<usize> {
    table.column_named(name).filter(|column| !table.columns[*column].hidden)
}

/// The row that a trigger's function makes of one that is written, in the order of all columns; `old` is the one that it
/// takes the place of. Errors: 39P01 where the trigger is one of another kind, 42703 and 42804 for columns that do not fit,
/// those of configurations.
pub fn updated(
    built_in: BuiltIn,
    table: &Table,
    trigger: &Trigger,
    event: Event,
    old: Option<&[Datum]>,
    new: &[Datum],
) -> SqlResult<Vec<Datum>> {
    refuse_others(trigger, event)?;
    let [document, config, texts @ ..] = trigger.arguments.as_slice() else { return Err(too_few()) };
    if texts.is_empty() {
        return Err(too_few());
    }
    let Some(document_at) = column(table, document) else {
        let told = format!("tsvector column \"{document}\" does not exist");
        return Err(wrong(SqlState::UNDEFINED_COLUMN, told));
    };
    if table.columns[document_at].data_type != DataType::TsVector {
        let told = format!("column \"{document}\" is not of tsvector type");
        return Err(wrong(SqlState::DATATYPE_MISMATCH, told));
    }
    let (configuration, mut read) = configuration(built_in, table, config, new)?;
    let mut given = Vec::with_capacity(texts.len());
    for name in texts {
        let Some(at) = column(table, name) else {
            let told = format!("column \"{name}\" does not exist");
            return Err(wrong(SqlState::UNDEFINED_COLUMN, told));
        };
        if !is_text(table.columns[at].data_type) {
            let told = format!("column \"{name}\" is not of a character type");
            return Err(wrong(SqlState::DATATYPE_MISMATCH, told));
        }
        read.push(at);
        if let Datum::Text(text) = &new[at] {
            given.push(text.as_ref());
        }
    }
    let mut row = new.to_vec();
    // An UPDATE of other columns leaves the document as it is.
    if old.is_none_or(|old| read.iter().any(|at| old[*at] != new[*at])) {
        row[document_at] = Datum::text(configuration.vector_of(given)?.to_string());
    }
    Ok(row)
}

/// The configuration of a row, and the column that says it. Errors: 42703, 42804, 22004, 22023, 42704, 0A000.
fn configuration(
    built_in: BuiltIn,
    table: &Table,
    config: &str,
    new: &[Datum],
) -> SqlResult<(Configuration, Vec<usize>)> {
    if built_in == BuiltIn::DocumentUpdate {
        if !config.contains('.') {
            let told = format!("text search configuration name \"{config}\" must be schema-qualified");
            return Err(wrong(SqlState::INVALID_PARAMETER_VALUE, told));
        }
        return Ok((Configuration::named(config)?, Vec::new()));
    }
    let Some(at) = column(table, config) else {
        let told = format!("configuration column \"{config}\" does not exist");
        return Err(wrong(SqlState::UNDEFINED_COLUMN, told));
    };
    if !is_text(table.columns[at].data_type) {
        let told = format!("column \"{config}\" is not of regconfig type");
        return Err(wrong(SqlState::DATATYPE_MISMATCH, told));
    }
    match &new[at] {
        Datum::Text(name) => Ok((Configuration::named(name)?, vec![at])),
        _ => {
            let told = format!("configuration column \"{config}\" must not be null");
            Err(wrong(SqlState(*b"22004"), told))
        }
    }
}

/// Errors: 39P01.
fn refuse_others(trigger: &Trigger, event: Event) -> SqlResult<()> {
    let told = match (trigger.level, trigger.when, event) {
        (Level::Statement, ..) => "must be fired for row",
        (_, When::After, _) => "must be fired BEFORE event",
        (_, _, Event::Insert | Event::Update) => return Ok(()),
        _ => "must be fired for INSERT or UPDATE",
    };
    Err(wrong(SqlState(*b"39P01"), format!("tsvector_update_trigger: {told}")))
}

fn too_few() -> SqlError {
    wrong(
        SqlState(*b"39P01"),
        "tsvector_update_trigger: arguments must be tsvector_field, ts_config, text_field1, ...)".into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::TableId;
    use base::schema::triggers::Firing;

    #[test]
    fn a_row_gets_the_document_of_its_texts() {
        let columns = [("title", DataType::Text), ("body", DataType::Text), ("doc", DataType::TsVector)];
        let columns = columns.map(|(name, t)| (name.to_string(), t)).to_vec();
        let table = base::views::View::shape(TableId(1), "public".into(), "films".into(), columns);
        let trigger = Trigger {
            id: TableId(2),
            name: "t".into(),
            when: When::Before,
            events: [Event::Insert, Event::Update].into(),
            columns: Vec::new(),
            level: Level::Row,
            condition: None,
            routine: BuiltIn::DocumentUpdate.routine(),
            arguments: ["doc", "pg_catalog.english", "title", "body"].map(String::from).to_vec(),
            firing: Firing::Enabled,
            transitions: Default::default(),
        };
        let made = |old: Option<&[Datum]>, new: &[Datum]| {
            updated(BuiltIn::DocumentUpdate, &table, &trigger, Event::Insert, old, new)
        };
        let new = [Datum::text("The cats"), Datum::text("sat"), Datum::Null];
        assert_eq!(made(None, &new).unwrap()[2], Datum::text("'cat':2 'sat':3"));
        let same = [Datum::text("The cats"), Datum::text("sat"), Datum::text("'x'")];
        assert_eq!(made(Some(&new), &same).unwrap()[2], Datum::text("'x'"));
        let statement = Trigger { level: Level::Statement, ..trigger.clone() };
        let error = updated(BuiltIn::DocumentUpdate, &table, &statement, Event::Insert, None, &new);
        assert_eq!(error.unwrap_err().state, SqlState(*b"39P01"));
    }
}

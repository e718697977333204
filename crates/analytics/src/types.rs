//! Types at the border: Meridian's ↔ Arrow's.

use base::decimal::Decimal;
use base::element::Element;
use base::enumeration::EnumType;
use base::error::SqlResult;
use base::inet::{self, Inet};
use base::schema::Table;
use base::timetz::TimeTz;
use base::{DataType, Datum, SqlError};
use bytes::BytesMut;
use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::{
    DataType as Arrow, Field, FieldRef, IntervalUnit, Schema, SchemaRef, TimeUnit,
};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast;
use std::collections::HashMap;
use std::sync::Arc;
use wire::{Cells, EPOCH_DAYS, EPOCH_US, Form};

pub use wire::from_arrow;

/// Field metadata that keeps a column's own type: `varchar(n)`, `uuid` and the like.
const TYPE_KEY: &str = "meridian.type";

/// Columns of a table, with their own types noted.
pub(super) fn schema_of(table: &Table, columns: &[usize]) -> SchemaRef {
    let fields = columns.iter().map(|c| &table.columns[*c]).map(|c| {
        // Nothing is noted of a type that Arrow has too: fields with other notes do not unite.
        let noted = written(c.data_type).map(|written| (TYPE_KEY.to_string(), written));
        colstore::field_of(c).with_metadata(noted.into_iter().collect())
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// A field of one of our types, noted where Arrow has no such type.
pub(super) fn noted_field(name: &str, data_type: DataType) -> Field {
    let noted = written(data_type).map(|written| (TYPE_KEY.to_string(), written));
    Field::new(name, colstore::arrow_type(data_type), true).with_metadata(noted.into_iter().collect())
}

/// The values of an array.
pub(super) fn datums(array: &dyn Array, data_type: DataType) -> SqlResult<Vec<Datum>> {
    let mut rows: Vec<Vec<Datum>> = (0..array.len()).map(|_| Vec::with_capacity(1)).collect();
    append_column(array, data_type, &mut rows)?;
    Ok(rows.into_iter().map(|mut row| row.pop().unwrap_or_default()).collect())
}

fn written(data_type: DataType) -> Option<String> {
    Some(match data_type {
        DataType::Varchar { length } => format!("varchar {length}"),
        DataType::Char { length } => format!("char {length}"),
        DataType::Uuid => "uuid".into(),
        DataType::Json => "json".into(),
        DataType::TsQuery => "tsquery".into(),
        DataType::Array(of) => format!("{}[]", written(of.data_type())?),
        _ => return None,
    })
}

/// The type of a field's values: what it notes, or else what Arrow's type says.
pub(super) fn shown_type(field: &Field) -> DataType {
    let plain = from_arrow(field.data_type());
    let Some(noted) = field.metadata().get(TYPE_KEY) else { return plain };
    match plain {
        DataType::Text => read(noted).unwrap_or(plain),
        // Both are texts of one kind; a note tells a query from a document.
        DataType::TsVector => read(noted).unwrap_or(plain),
        DataType::Array(of) if of.data_type() == DataType::Text => {
            let noted = noted.strip_suffix("[]").and_then(read).and_then(Element::of);
            noted.map_or(plain, DataType::Array)
        }
        plain => plain,
    }
}

/// Whether one of several values of a type is of that type: a text that was chosen among others has no limit.
pub(super) fn is_kept_by_choice(data_type: DataType) -> bool {
    match data_type {
        DataType::Array(of) => is_kept_by_choice(of.data_type()),
        other => matches!(other, DataType::Uuid | DataType::Json | DataType::TsQuery),
    }
}

/// What is noted of one of several values; those without a note are literals.
pub(super) fn common_note(fields: &[FieldRef]) -> Option<&HashMap<String, String>> {
    let mut noted = fields.iter().filter(|field| is_kept_by_choice(shown_type(field)));
    let note = noted.next()?.metadata();
    noted.all(|field| field.metadata() == note).then_some(note)
}

/// A field with a note, if there is one.
pub(super) fn with_note(field: FieldRef, note: Option<&HashMap<String, String>>) -> FieldRef {
    match note {
        Some(note) => Arc::new(field.as_ref().clone().with_metadata(note.clone())),
        None => field,
    }
}

/// A type as it is noted.
fn read(noted: &str) -> Option<DataType> {
    let length = |text: &str| text.parse::<u32>().ok();
    match noted.split_once(' ') {
        Some(("varchar", n)) => length(n).map(|length| DataType::Varchar { length }),
        Some(("char", n)) => length(n).map(|length| DataType::Char { length }),
        None if noted == "uuid" => Some(DataType::Uuid),
        None if noted == "json" => Some(DataType::Json),
        None if noted == "tsquery" => Some(DataType::TsQuery),
        _ => None,
    }
}

/// Whether an Arrow type holds labels' codes.
pub(super) fn is_label(arrow: &Arrow) -> bool {
    matches!(arrow, Arrow::Timestamp(_, Some(zone)) if EnumType::id_of_zone(zone).is_some())
}

/// The type of a list's elements; `None` if it is no list.
pub(super) fn element_type(list: &Arrow) -> Option<DataType> {
    match list {
        Arrow::List(of) | Arrow::LargeList(of) | Arrow::FixedSizeList(of, _) => Some(shown_type(of)),
        _ => None,
    }
}

/// The type of what the lists inside each other hold; `None` if it is no list.
pub(super) fn innermost_type(list: &Arrow) -> Option<DataType> {
    match list {
        Arrow::List(of) | Arrow::LargeList(of) | Arrow::FixedSizeList(of, _) => {
            innermost_type(of.data_type()).or_else(|| Some(shown_type(of)))
        }
        _ => None,
    }
}

/// A parameter's value for a plan.
pub(super) fn scalar(value: &Datum, data_type: DataType) -> Option<ScalarValue> {
    ScalarValue::try_from_array(&colstore::array_of(data_type, std::slice::from_ref(value)), 0).ok()
}

/// A plan's constant as a value; `None` for kinds that columns do not have.
pub(super) fn datum(scalar: &ScalarValue) -> Option<Datum> {
    let array = scalar.to_array().ok()?;
    let data_type = from_arrow(array.data_type());
    let mut rows = vec![Vec::new()];
    append_column(array.as_ref(), data_type, &mut rows).ok()?;
    rows.pop()?.pop()
}

/// SQL type names that DataFusion would read otherwise than PostgreSQL.
#[derive(Debug)]
pub(super) struct SqlTypes;

impl TypePlanner for SqlTypes {
    fn plan_type_field(&self, sql_type: &ast::DataType) -> datafusion::common::Result<Option<FieldRef>> {
        let field = |data_type: Arrow| Some(Arc::new(Field::new("", data_type, true)));
        // Catalog names stand for object ids.
        let written = sql_type.to_string().to_lowercase();
        let word = written.strip_prefix("pg_catalog.").unwrap_or(&written);
        if (word.starts_with("reg") && word != "regconfig") || word == "oid" {
            return Ok(field(Arrow::Int32));
        }
        if word == "name" || word == "\"char\"" || word == "bpchar" {
            return Ok(field(Arrow::Utf8View));
        }
        match sql::names::data_type(sql_type) {
            Ok(data_type) => Ok(Some(Arc::new(noted_field("", data_type)))),
            // The planner's own, whose parts are asked for by themselves.
            Err(_) if matches!(sql_type, ast::DataType::Array(_) | ast::DataType::Interval { .. }) => {
                Ok(None)
            }
            Err(error) => Err(DataFusionError::External(Box::new(error))),
        }
    }
}

/// The rows of a batch as values; `types` say how each column is shown.
pub fn rows_of(batch: &RecordBatch, types: &[DataType]) -> SqlResult<Vec<Vec<Datum>>> {
    let mut rows: Vec<Vec<Datum>> =
        (0..batch.num_rows()).map(|_| Vec::with_capacity(batch.num_columns())).collect();
    for (column, data_type) in batch.columns().iter().zip(types) {
        append_column(column.as_ref(), *data_type, &mut rows)?;
    }
    Ok(rows)
}

/// Appends one value to each row.
fn append_column(array: &dyn Array, data_type: DataType, rows: &mut [Vec<Datum>]) -> SqlResult<()> {
    macro_rules! each {
        ($array:ty, $value:expr) => {{
            let array = array.as_any().downcast_ref::<$array>().expect("matches its type");
            let value = $value;
            for (i, row) in rows.iter_mut().enumerate() {
                row.push(if array.is_null(i) { Datum::Null } else { value(array.value(i)) });
            }
        }};
    }
    match array.data_type() {
        Arrow::Boolean => each!(BooleanArray, Datum::Bool),
        Arrow::Int8 => each!(Int8Array, |v| Datum::Int(i64::from(v))),
        Arrow::Int16 => each!(Int16Array, |v| Datum::Int(i64::from(v))),
        Arrow::Int32 => each!(Int32Array, |v| Datum::Int(i64::from(v))),
        Arrow::Int64 => each!(Int64Array, Datum::Int),
        Arrow::UInt8 => each!(UInt8Array, |v| Datum::Int(i64::from(v))),
        Arrow::UInt16 => each!(UInt16Array, |v| Datum::Int(i64::from(v))),
        Arrow::UInt32 => each!(UInt32Array, |v| Datum::Int(i64::from(v))),
        Arrow::UInt64 => each!(UInt64Array, |v| Datum::Int(v as i64)),
        Arrow::Float32 => each!(Float32Array, |v| Datum::Float(f64::from(v))),
        Arrow::Float64 => each!(Float64Array, Datum::Float),
        Arrow::Decimal128(_, scale) if *scale >= 0 => {
            let scale = *scale as u8;
            each!(Decimal128Array, |v| Datum::Decimal(Decimal::new(v, scale)))
        }
        Arrow::Utf8View if data_type == DataType::Uuid => {
            each!(StringViewArray, |v: &str| base::text::parse(v, DataType::Uuid).unwrap_or_default())
        }
        Arrow::Utf8 => each!(StringArray, |v: &str| Datum::text(v)),
        Arrow::LargeUtf8 => each!(LargeStringArray, |v: &str| Datum::text(v)),
        Arrow::Utf8View => each!(StringViewArray, |v: &str| Datum::text(v)),
        Arrow::Dictionary(_, _) => {
            let plain = datafusion::arrow::compute::cast(array, &dictionary_value(array.data_type()));
            append_column(plain.map_err(SqlError::internal)?.as_ref(), data_type, rows)?;
        }
        Arrow::Binary => each!(BinaryArray, |v: &[u8]| Datum::Bytes(v.into())),
        Arrow::LargeBinary => each!(LargeBinaryArray, |v: &[u8]| {
            Datum::Json(std::str::from_utf8(v).unwrap_or("null").into())
        }),
        Arrow::Time64(TimeUnit::Microsecond) => each!(Time64MicrosecondArray, Datum::Time),
        Arrow::Time64(TimeUnit::Nanosecond) => {
            each!(Time64NanosecondArray, |v| Datum::TimeTz(TimeTz::of_packed(v)))
        }
        Arrow::Interval(IntervalUnit::MonthDayNano) => {
            each!(IntervalMonthDayNanoArray, |v| Datum::Interval(colstore::from_arrow_interval(v)))
        }
        Arrow::Struct(_) if matches!(data_type, DataType::Composite(_)) => {
            let values = array.as_struct();
            let bytes = values.column(0).as_binary::<i32>();
            for (i, row) in rows.iter_mut().enumerate() {
                row.push(match values.is_null(i) {
                    true => Datum::Null,
                    false => Datum::Array(colstore::row_values(bytes.value(i)).into()),
                });
            }
        }
        Arrow::List(_) if let DataType::Array(of) = data_type => {
            let lists = array.as_list::<i32>();
            for (i, row) in rows.iter_mut().enumerate() {
                row.push(match lists.is_null(i) {
                    true => Datum::Null,
                    false => Datum::Array(datums(lists.value(i).as_ref(), of.data_type())?.into()),
                });
            }
        }
        Arrow::BinaryView => {
            each!(BinaryViewArray, |v: &[u8]| Datum::text(std::str::from_utf8(v).unwrap_or_default()))
        }
        Arrow::FixedSizeBinary(_) => each!(FixedSizeBinaryArray, |v: &[u8]| match data_type {
            of if inet::width(of).is_some() => Inet::of_packed(v).map_or(Datum::Null, Datum::Inet),
            DataType::Uuid => Datum::Uuid(v.try_into().expect("16 bytes")),
            _ => Datum::Bytes(v.into()),
        }),
        Arrow::Date32 => each!(Date32Array, |v: i32| Datum::Date(v.saturating_sub(EPOCH_DAYS))),
        Arrow::Timestamp(_, Some(zone)) if EnumType::id_of_zone(zone).is_some() => {
            each!(TimestampSecondArray, Datum::Int)
        }
        Arrow::Timestamp(unit, _) => {
            let us = move |v: i64| {
                let us = match unit {
                    TimeUnit::Second => v.saturating_mul(1_000_000),
                    TimeUnit::Millisecond => v.saturating_mul(1_000),
                    TimeUnit::Microsecond => v,
                    TimeUnit::Nanosecond => v.div_euclid(1_000),
                };
                Datum::Timestamp(us.saturating_sub(EPOCH_US))
            };
            match unit {
                TimeUnit::Second => each!(TimestampSecondArray, us),
                TimeUnit::Millisecond => each!(TimestampMillisecondArray, us),
                TimeUnit::Microsecond => each!(TimestampMicrosecondArray, us),
                TimeUnit::Nanosecond => each!(TimestampNanosecondArray, us),
            }
        }
        // Has no mask of nulls, for it has nothing else.
        Arrow::Null => rows.iter_mut().for_each(|row| row.push(Datum::Null)),
        _ => append_as_text(array, rows)?,
    }
    Ok(())
}

fn dictionary_value(data_type: &Arrow) -> Arrow {
    match data_type {
        Arrow::Dictionary(_, value) => value.as_ref().clone(),
        other => other.clone(),
    }
}

/// Lists, intervals and the like, printed.
fn append_as_text(array: &dyn Array, rows: &mut [Vec<Datum>]) -> SqlResult<()> {
    let array = array.slice(0, array.len());
    let cells = Cells::new(&array, Form::text_of(DataType::Text))?;
    let mut text = BytesMut::new();
    for (i, row) in rows.iter_mut().enumerate() {
        if cells.is_null(i) {
            row.push(Datum::Null);
            continue;
        }
        text.clear();
        cells.put(&mut text, i)?;
        row.push(Datum::text(std::str::from_utf8(&text).map_err(SqlError::internal)?));
    }
    Ok(())
}

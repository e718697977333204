//! Values of a running program, and how they become values of other types.

use base::domain::Domain;
use base::error::{SqlResult, SqlState};
use base::zone::Zone;
use base::{DataType, Datum, SqlError};
use std::sync::Arc;

/// A value and its type.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    pub datum: Datum,
    pub data_type: DataType,
}

/// The type of a scalar.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalarType {
    pub data_type: DataType,
    /// Its rules, if it is a domain.
    pub domain: Option<Arc<Domain>>,
}

/// A field of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub name: String,
    pub of: ScalarType,
}

/// Fields and their values.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub fields: Arc<[Field]>,
    pub values: Vec<Datum>,
}

/// What a variable holds, or a function returns.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    Scalar(ScalarType),
    /// Rows of one shape.
    Row(Arc<[Field]>),
    /// Rows of any shape.
    Record,
    /// A value of the type that it was made with.
    Any,
    /// Nothing is returned.
    Nothing,
}

impl Value {
    pub fn new(datum: Datum, data_type: DataType) -> Value {
        Value { datum, data_type }
    }
    pub fn null() -> Value {
        Value::new(Datum::Null, DataType::Text)
    }

    /// As RAISE shows it.
    pub(crate) fn shown(&self, zone: Zone) -> String {
        match &self.datum {
            Datum::Null => "<NULL>".into(),
            datum => base::text::display_in(datum, self.data_type, zone),
        }
    }
}

impl From<DataType> for ScalarType {
    fn from(data_type: DataType) -> ScalarType {
        ScalarType { data_type, domain: None }
    }
}

impl Row {
    /// Nothing but NULL.
    pub fn of_nulls(fields: Arc<[Field]>) -> Row {
        let values = vec![Datum::Null; fields.len()];
        Row { fields, values }
    }

    pub(crate) fn position(&self, field: &str) -> Option<usize> {
        self.fields.iter().position(|f| f.name == field)
    }

    /// The values as another row has them, by position; what is missing is NULL. Errors: those of assignments.
    pub(crate) fn fitted(&self, fields: &Arc<[Field]>, zone: Zone) -> SqlResult<Row> {
        let mut values = Vec::with_capacity(fields.len());
        for (n, field) in fields.iter().enumerate() {
            let value = match (self.values.get(n), self.fields.get(n)) {
                (Some(datum), Some(of)) => Value::new(datum.clone(), of.of.data_type),
                _ => Value::null(),
            };
            values.push(field.of.take(value, zone)?);
        }
        Ok(Row { fields: fields.clone(), values })
    }
}

fn is_text(data_type: DataType) -> bool {
    matches!(data_type, DataType::Text | DataType::Varchar { .. } | DataType::Char { .. })
}

impl ScalarType {
    /// A value that is assigned to this type. Errors: it does not fit (22001, 22003, 22P02, …), a domain's rules.
    pub fn take(&self, value: Value, zone: Zone) -> SqlResult<Datum> {
        let datum = match value.datum {
            Datum::Null => Datum::Null,
            datum if value.data_type == self.data_type => datum,
            datum => assigned(datum, value.data_type, self.data_type, zone)?,
        };
        if let Some(domain) = &self.domain {
            domain.check(&datum)?;
        }
        Ok(datum)
    }

    /// Whether a column of a query is taken for this type without a cast.
    pub(crate) fn is_same(&self, data_type: DataType) -> bool {
        std::mem::discriminant(&self.data_type) == std::mem::discriminant(&data_type)
            || is_text(self.data_type) && is_text(data_type)
    }
}

fn assigned(datum: Datum, from: DataType, to: DataType, zone: Zone) -> SqlResult<Datum> {
    if matches!(to, DataType::Varchar { .. } | DataType::Char { .. }) {
        let text = if is_text(from) { datum } else { shown(&datum, from, zone) };
        return to.coerce(text);
    }
    if to == DataType::Text && !is_text(from) {
        return Ok(shown(&datum, from, zone));
    }
    match base::expr::cast_in(datum.clone(), from, to, zone) {
        // There is no cast: the text of one is read as the other.
        Err(e) if !is_text(from) && e.state == SqlState(*b"42846") => {
            base::text::parse_in(&base::text::display_in(&datum, from, zone), to, zone)
        }
        result => result,
    }
}

fn shown(datum: &Datum, of: DataType, zone: Zone) -> Datum {
    match datum {
        Datum::Bool(value) => Datum::text(if *value { "true" } else { "false" }),
        datum => Datum::text(base::text::display_in(datum, of, zone)),
    }
}

/// What a value takes in memory, about.
pub(crate) fn size(datum: &Datum) -> usize {
    size_of::<Datum>() + datum.text_bytes()
}

pub(crate) fn sizes(row: &[Datum]) -> usize {
    row.iter().map(size).sum()
}

pub(crate) fn mismatch(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::DATATYPE_MISMATCH, message)
}

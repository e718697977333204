//! Variables: what they hold, how statements refer to them.

use super::types::{Field, Kind, Row, ScalarType, Value, mismatch, size, sizes};
use super::{Item, Run};
use crate::program::Target;
use base::composite::{Attribute, CompositeType};
use base::error::{SqlResult, SqlState};
use base::{DataType, Datum, SqlError};
use std::sync::Arc;

/// What a name in a statement means: a variable, or a field of one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    variable: usize,
    field: Option<String>,
}

/// A variable.
#[derive(Debug)]
pub(super) enum Slot {
    Scalar(ScalarType, Datum),
    Row(Row),
    Record(Option<Row>),
    /// A record that is NULL as a whole, of a known shape: `OLD` where a row is inserted. Its fields are NULL.
    Absent(Row),
    Any(Value),
}

impl Slot {
    pub fn new(kind: Kind) -> Slot {
        match kind {
            Kind::Scalar(of) => Slot::Scalar(of, Datum::Null),
            Kind::Row(fields) => Slot::Row(Row::of_nulls(fields)),
            Kind::Record => Slot::Record(None),
            Kind::Any | Kind::Nothing => Slot::Any(Value::null()),
        }
    }

    /// Gives a scalar a value of its type.
    pub fn begin(&mut self, datum: Datum) {
        if let Slot::Scalar(_, now) = self {
            *now = datum;
        }
    }

    pub fn bytes(&self) -> usize {
        match self {
            Slot::Scalar(_, datum) | Slot::Any(Value { datum, .. }) => size(datum),
            Slot::Row(row) | Slot::Record(Some(row)) | Slot::Absent(row) => sizes(&row.values),
            Slot::Record(None) => 0,
        }
    }

    fn row(&self) -> Option<&Row> {
        match self {
            Slot::Row(row) | Slot::Record(Some(row)) | Slot::Absent(row) => Some(row),
            _ => None,
        }
    }
    fn is_record(&self) -> bool {
        matches!(self, Slot::Row(_) | Slot::Record(_) | Slot::Absent(_))
    }
    /// The composite type that its values are of.
    fn composite(&self) -> Option<CompositeType> {
        match self {
            Slot::Scalar(ScalarType { data_type: DataType::Composite(of), .. }, _) => Some(*of),
            _ => None,
        }
    }
}

/// Elements that are NULL when one is assigned behind an array's last one.
const ELEMENTS_BETWEEN_MAX: usize = 1 << 20;

impl Run {
    /// What a name means in a statement of the program; `None` if it is none of its own.
    pub fn find(&self, statement: usize, name: &[String]) -> Option<Reference> {
        let scope = self.program.statements[statement].scope;
        let (variable, taken) = self.program.find(scope, name)?;
        match &name[taken..] {
            [] => Some(Reference { variable, field: None }),
            [field] if self.slots[variable].is_record() || self.slots[variable].composite().is_some() => {
                Some(Reference { variable, field: Some(field.clone()) })
            }
            _ => None,
        }
    }

    /// What the name of a variable alone means.
    pub(super) fn whole_variable(&self, variable: usize) -> Reference {
        Reference { variable, field: None }
    }

    /// The value of what a name means. Errors: 55000 if a record has no value yet, 42703 if it has no such field, 0A000
    /// for a record as a whole.
    pub fn value(&self, reference: &Reference) -> SqlResult<Value> {
        let slot = &self.slots[reference.variable];
        let Some(field) = &reference.field else {
            return match slot {
                Slot::Scalar(of, datum) => Ok(Value::new(datum.clone(), of.data_type)),
                Slot::Any(value) => Ok(value.clone()),
                _ => {
                    Err(SqlError::unsupported("a record as a value of an expression")
                        .hint("Name its fields."))
                }
            };
        };
        if let (Some(of), Slot::Scalar(_, datum)) = (slot.composite(), slot) {
            let (at, data_type) = self.attribute(reference.variable, of, field)?;
            return Ok(Value::new(values_of(of, datum).swap_remove(at), data_type));
        }
        let row = self.assigned(reference.variable)?;
        let position = row.position(field).ok_or_else(|| self.no_field(reference.variable, field))?;
        Ok(Value::new(row.values[position].clone(), row.fields[position].of.data_type))
    }

    /// The fields of a record; `None` for anything else. Errors: 55000 if it has no value yet.
    pub fn fields(&self, reference: &Reference) -> SqlResult<Option<Arc<[Field]>>> {
        if reference.field.is_some() || !self.slots[reference.variable].is_record() {
            return Ok(None);
        }
        self.assigned(reference.variable).map(|row| Some(row.fields.clone()))
    }

    /// Whether what is named is a record as a whole.
    pub fn is_record(&self, reference: &Reference) -> bool {
        reference.field.is_none() && self.slots[reference.variable].is_record()
    }

    /// Whether it is an array whose elements are counted from zero: `TG_ARGV`.
    pub fn counts_from_zero(&self, reference: &Reference) -> bool {
        self.program.scopes[0].names.get("tg_argv") == Some(&reference.variable)
            && self.program.variables[reference.variable].line == 0
    }

    /// The same reference to a field of the record.
    pub fn field(&self, record: &Reference, name: &str) -> Reference {
        Reference { variable: record.variable, field: Some(name.into()) }
    }

    /// Gives a variable of the outermost scope a row or a value, before the program runs: what a trigger function knows.
    pub fn give(&mut self, name: &str, row: Option<Row>, datum: Datum) {
        let Some(&variable) = self.program.scopes[0].names.get(name) else { return };
        self.bytes -= self.slots[variable].bytes();
        match &mut self.slots[variable] {
            Slot::Record(now) => *now = row,
            slot => slot.begin(datum),
        }
        self.bytes += self.slots[variable].bytes();
    }

    /// Makes a variable of the outermost scope a record that is NULL, with fields of which each is NULL.
    pub fn give_absent(&mut self, name: &str, fields: Arc<[Field]>) {
        let Some(&variable) = self.program.scopes[0].names.get(name) else { return };
        self.bytes -= self.slots[variable].bytes();
        self.slots[variable] = Slot::Absent(Row::of_nulls(fields));
        self.bytes += self.slots[variable].bytes();
    }

    /// Whether what is named is a record that is NULL as a whole.
    pub fn is_absent(&self, reference: &Reference) -> bool {
        reference.field.is_none() && matches!(self.slots[reference.variable], Slot::Absent(_))
    }

    fn assigned(&self, variable: usize) -> SqlResult<&Row> {
        self.slots[variable].row().ok_or_else(|| {
            let name = &self.program.variables[variable].name;
            SqlError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("record \"{name}\" is not assigned yet"),
            )
            .detail("The tuple structure of a not-yet-assigned record is indeterminate.")
        })
    }

    fn no_field(&self, variable: usize, field: &str) -> SqlError {
        let name = &self.program.variables[variable].name;
        SqlError::new(SqlState::UNDEFINED_COLUMN, format!("record \"{name}\" has no field \"{field}\""))
    }

    /// Number and type of an attribute of a variable. Errors: 42703.
    fn attribute(&self, variable: usize, of: CompositeType, name: &str) -> SqlResult<(usize, DataType)> {
        of.attribute(name).ok_or_else(|| self.no_field(variable, name))
    }

    /// What a name alone gives as an expression.
    pub(super) fn item(&self, reference: &Reference) -> SqlResult<Item> {
        match (&reference.field, &self.slots[reference.variable]) {
            (None, Slot::Row(row) | Slot::Record(Some(row))) => Ok(Item::Row(row.clone())),
            (None, Slot::Record(None) | Slot::Absent(_)) => Ok(Item::Value(Value::null())),
            _ => self.value(reference).map(Item::Value),
        }
    }

    /// Sets what is known to fit.
    pub(super) fn begin(&mut self, variable: usize, datum: Datum) {
        self.bytes -= self.slots[variable].bytes();
        self.slots[variable].begin(datum);
        self.bytes += self.slots[variable].bytes();
    }

    /// A declaration without a default. Errors: a domain's rules.
    pub(super) fn clear(&mut self, variable: usize) -> SqlResult<()> {
        match self.slots[variable] {
            Slot::Record(_) | Slot::Absent(_) => {
                self.bytes -= self.slots[variable].bytes();
                self.slots[variable] = Slot::Record(None);
                Ok(())
            }
            _ => self.assign(&Target { variable, field: None }, Item::Value(Value::null())),
        }
    }

    /// Errors: the value does not fit the variable (22001, 22003, 22P02, 42804, …), 22004 for a NULL that it does not take.
    pub(super) fn assign(&mut self, target: &Target, item: Item) -> SqlResult<()> {
        let before = self.slots[target.variable].bytes();
        let assigned = match &target.field {
            Some(field) => self.assign_field(target.variable, field, item),
            None => self.assign_whole(target.variable, item),
        };
        self.bytes = self.bytes - before + self.slots[target.variable].bytes();
        assigned
    }

    /// Pops a value and a subscript, and makes the value that element of an array. Errors: 42804 for what is no array, 22004
    /// for no subscript, 54000 for one that is far behind the array, 0A000 for one that no array has here.
    pub(super) fn assign_element(&mut self, target: &Target) -> SqlResult<()> {
        let (value, subscript) = (self.pop_value()?, self.pop_value()?);
        let array = self.value(&Reference { variable: target.variable, field: target.field.clone() })?;
        let DataType::Array(of) = array.data_type else {
            let name = array.data_type.name();
            return Err(mismatch(format!(
                "cannot subscript type {name} because it does not support subscripting"
            )));
        };
        let Datum::Int(subscript) = ScalarType::from(DataType::Integer).take(subscript, self.zone)? else {
            let message = "array subscript in assignment must not be null";
            return Err(SqlError::new(SqlState(*b"22004"), message));
        };
        let element = ScalarType::from(of.data_type()).take(value, self.zone)?;
        let mut elements = match array.datum {
            Datum::Array(elements) => elements.to_vec(),
            _ => Vec::new(),
        };
        let is_possible = |at: &usize| *at == 0 || !elements.is_empty();
        let Some(at) = usize::try_from(subscript - 1).ok().filter(is_possible) else {
            return Err(SqlError::unsupported("an array whose first subscript is not 1"));
        };
        if at > elements.len() + ELEMENTS_BETWEEN_MAX {
            return Err(SqlError::new(SqlState(*b"54000"), "array size exceeds the maximum allowed")
                .detail(format!("An element may stand {ELEMENTS_BETWEEN_MAX} places behind the last one.")));
        }
        if at >= elements.len() {
            elements.resize(at + 1, Datum::Null);
        }
        elements[at] = element;
        let whole = Value::new(Datum::Array(elements.into()), array.data_type);
        self.assign(target, Item::Value(whole))
    }

    fn assign_field(&mut self, variable: usize, field: &str, item: Item) -> SqlResult<()> {
        let Item::Value(value) = item else {
            return Err(mismatch(format!("cannot assign a row to field \"{field}\"")));
        };
        let zone = self.zone;
        if let Some(of) = self.slots[variable].composite() {
            let (at, data_type) = self.attribute(variable, of, field)?;
            let value = ScalarType::from(data_type).take(value, zone)?;
            if let Slot::Scalar(_, now) = &mut self.slots[variable] {
                let mut values = values_of(of, now);
                values[at] = value;
                *now = Datum::Array(values.into());
            }
            return Ok(());
        }
        let position = self.assigned(variable)?.position(field);
        let position = position.ok_or_else(|| self.no_field(variable, field))?;
        if let Slot::Absent(row) = &self.slots[variable] {
            self.slots[variable] = Slot::Record(Some(row.clone()));
        }
        if let Slot::Row(row) | Slot::Record(Some(row)) = &mut self.slots[variable] {
            row.values[position] = row.fields[position].of.take(value, zone)?;
        }
        Ok(())
    }

    fn assign_whole(&mut self, variable: usize, item: Item) -> SqlResult<()> {
        let zone = self.zone;
        let declared = &self.program.variables[variable];
        if let (Slot::Absent(_), Item::Row(row)) = (&self.slots[variable], &item) {
            self.slots[variable] = Slot::Record(Some(row.clone()));
            return Ok(());
        }
        match (&mut self.slots[variable], item) {
            (Slot::Scalar(of, now), Item::Value(value)) => {
                let datum = of.take(value, zone)?;
                if declared.not_null && datum.is_null() {
                    let name = &declared.name;
                    return Err(SqlError::new(
                        SqlState(*b"22004"),
                        format!("null value cannot be assigned to variable \"{name}\" declared NOT NULL"),
                    ));
                }
                *now = datum;
            }
            (Slot::Scalar(of, now), Item::Row(row)) if let DataType::Composite(of) = of.data_type => {
                let field = |a: &Attribute| Field { name: a.name.clone(), of: a.data_type.into() };
                let fields: Arc<[Field]> = of.attributes().iter().map(field).collect();
                *now = Datum::Array(row.fitted(&fields, zone)?.values.into());
            }
            (Slot::Any(now), Item::Value(value)) => *now = value,
            (Slot::Row(now), Item::Row(row)) => *now = row.fitted(&now.fields, zone)?,
            (Slot::Record(now), Item::Row(row)) => *now = Some(row),
            (Slot::Row(now), Item::Value(value)) if value.datum.is_null() => {
                *now = Row::of_nulls(now.fields.clone());
            }
            (Slot::Record(now), Item::Value(value)) if value.datum.is_null() => {
                *now = now.take().map(|row| Row::of_nulls(row.fields));
            }
            (Slot::Absent(_), Item::Value(value)) if value.datum.is_null() => {}
            (Slot::Row(_) | Slot::Record(_) | Slot::Absent(_), Item::Value(_) | Item::Row(_)) => {
                return Err(mismatch("cannot assign non-composite value to a record variable"));
            }
            (Slot::Scalar(..) | Slot::Any(_), Item::Row(_)) => {
                let name = &declared.name;
                return Err(mismatch(format!("cannot assign composite value to variable \"{name}\"")));
            }
        }
        Ok(())
    }

    /// A row to one record, or its values to several variables; what is missing is NULL.
    pub(super) fn assign_row(&mut self, targets: &[Target], row: Row) -> SqlResult<()> {
        if let [target] = targets
            && target.field.is_none()
        {
            let of = self.slots[target.variable].composite().map(DataType::Composite);
            // A value of the type is taken as it is.
            let is_whole = |of| row.fields.len() == 1 && row.fields[0].of.data_type == of;
            if self.slots[target.variable].is_record() || of.is_some_and(|of| !is_whole(of)) {
                return self.assign(target, Item::Row(row));
            }
        }
        let mut values = row.values.into_iter().zip(row.fields.iter().map(|field| field.of.data_type));
        for target in targets {
            let value = values.next().map_or_else(Value::null, |(datum, of)| Value::new(datum, of));
            self.assign(target, Item::Value(value))?;
        }
        Ok(())
    }

    /// A row of the arguments that go out.
    pub(super) fn outputs(&self) -> Row {
        let goes_out = self.program.signature.arguments.iter().enumerate().filter(|(_, a)| a.goes_out);
        let mut fields = Vec::new();
        let mut values = Vec::new();
        for (n, argument) in goes_out {
            let name = argument.name.clone().unwrap_or_else(|| format!("column{}", fields.len() + 1));
            if let Slot::Scalar(of, datum) = &self.slots[n] {
                fields.push(Field { name, of: of.clone() });
                values.push(datum.clone());
            }
        }
        Row { fields: fields.into(), values }
    }
}

/// The values of a row's attributes; of NULL, NULLs.
fn values_of(of: CompositeType, row: &Datum) -> Vec<Datum> {
    match row {
        Datum::Array(values) => values.to_vec(),
        _ => vec![Datum::Null; of.attributes().len()],
    }
}

//! `to_char`, `to_date`, `to_timestamp` and `to_number`: functions of values and templates, over columns.

use super::fields::call_name;
use super::rowwise::{Cell, Returns, each_row};
use super::types;
use ::templates::moments;
use ::templates::numbers::{self, Number};
use base::decimal::{Decimal, PRECISION_MAX};
use base::error::SqlResult;
use base::zone::Zone;
use base::{DataType, Datum, SqlError, SqlState};
use datafusion::arrow::datatypes::{DataType as Arrow, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};
use std::sync::Arc;

/// Digits after the point of a number that is read by a template which is not known beforehand.
const SCALE: u8 = 16;

const UNIX_TO_2000_US: f64 = 946_684_800e6;

/// Makes the functions known.
pub(super) fn install(context: &SessionContext) {
    // The library's has templates of its own.
    context.deregister_udf("date_format");
    for name in ["to_char", "to_date", "to_timestamp", "to_number"] {
        // Moments are told the session's zone, if it is not UTC.
        let mut counts = vec![TypeSignature::Any(2), TypeSignature::Any(3)];
        if name == "to_timestamp" {
            counts.push(TypeSignature::Any(1));
        }
        let signature = Signature::one_of(counts, Volatility::Immutable);
        context.register_udf(ScalarUDF::new_from_impl(Templated { name, signature }));
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Templated {
    name: &'static str,
    signature: Signature,
}

impl Templated {
    /// What it returns; a constant template tells a number's digits.
    fn returns(&self, template: Option<&ScalarValue>) -> DataType {
        match self.name {
            "to_char" => DataType::Text,
            "to_date" => DataType::Date,
            "to_timestamp" => DataType::TimestampTz,
            _ => {
                let text = template.and_then(|t| t.try_as_str().flatten());
                let parsed = text.and_then(|text| numbers::Template::parse(text).ok());
                let scale = parsed.map_or(SCALE, |template| template.fraction_digits().min(28) as u8);
                DataType::Numeric { precision: PRECISION_MAX, scale }
            }
        }
    }
}

impl ScalarUDFImpl for Templated {
    fn name(&self) -> &str {
        self.name
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        call_name(self.name, arguments)
    }
    fn return_type(&self, _: &[Arrow]) -> Result<Arrow> {
        Ok(colstore::arrow_type(self.returns(None)))
    }
    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let returns = self.returns(arguments.scalar_arguments.get(1).copied().flatten());
        Ok(Arc::new(Field::new(self.name, colstore::arrow_type(returns), true)))
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let returns = Returns::Plain(types::from_arrow(arguments.return_field.data_type()));
        // The same template for many rows is parsed once.
        let mut last: Option<(Arc<str>, Parsed)> = None;
        each_row(&arguments, returns, |columns, row| {
            let value = columns[0].at(row);
            let Some(template) = columns.get(1) else {
                return match value {
                    Cell::Plain(Datum::Null) => Ok(Cell::Plain(Datum::Null)),
                    Cell::Plain(seconds) => moment_of(&seconds).map(Cell::Plain),
                    Cell::Span(_) => Err(not_a_template(self.name)),
                };
            };
            let Cell::Plain(Datum::Text(text)) = template.at(row) else {
                return Ok(Cell::Plain(Datum::Null));
            };
            if value.is_null() {
                return Ok(value);
            }
            let parsed = match last.take().filter(|(known, _)| *known == text) {
                Some((_, parsed)) => parsed,
                None => self.parse(&value, &text)?,
            };
            let zone = match columns.get(2).map(|zone| zone.at(row)) {
                Some(Cell::Plain(Datum::Text(name))) => Zone::named(&name).unwrap_or_default(),
                _ => Zone::Utc,
            };
            let result = self.one(&value, &parsed, &columns[0].arrow_type, zone);
            last = Some((text, parsed));
            result.map(Cell::Plain)
        })
    }
}

impl Templated {
    fn parse(&self, value: &Cell, template: &str) -> SqlResult<Parsed> {
        let is_number = match value {
            Cell::Plain(Datum::Int(_) | Datum::Decimal(_) | Datum::Float(_)) => true,
            _ => self.name == "to_number",
        };
        Ok(match is_number {
            true => Parsed::Number(numbers::Template::parse(template)?),
            false => Parsed::Moment(moments::Template::parse(template)),
        })
    }

    fn one(&self, value: &Cell, template: &Parsed, of: &Arrow, usual: Zone) -> SqlResult<Datum> {
        let zone = matches!(of, Arrow::Timestamp(_, Some(_))).then_some(usual);
        let digits = if *of == Arrow::Float32 { f32::DIGITS } else { f64::DIGITS } as usize;
        let text = match (self.name, value, template) {
            ("to_number", Cell::Plain(Datum::Text(text)), Parsed::Number(template)) => {
                return template.read(text).map(Datum::Decimal);
            }
            ("to_date", Cell::Plain(Datum::Text(text)), Parsed::Moment(template)) => {
                return template.read(text)?.day().map(Datum::Date);
            }
            ("to_timestamp", Cell::Plain(Datum::Text(text)), Parsed::Moment(template)) => {
                return template.read(text)?.us(usual).map(Datum::Timestamp);
            }
            ("to_char", Cell::Span(span), Parsed::Moment(template)) => template.write_interval(*span)?,
            ("to_char", Cell::Plain(Datum::Timestamp(us)), Parsed::Moment(template)) => {
                template.write_moment(*us, zone)?
            }
            ("to_char", Cell::Plain(Datum::Date(day)), Parsed::Moment(template)) => {
                template.write_moment(usual.from_local(base::convert::midnight(*day)?), Some(usual))?
            }
            ("to_char", Cell::Plain(value), Parsed::Number(template)) => {
                template.write(number(value, digits)?)?
            }
            _ => return Err(not_a_template(self.name)),
        };
        Ok(Datum::text(text))
    }
}

enum Parsed {
    Moment(moments::Template),
    Number(numbers::Template),
}

fn not_a_template(name: &str) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_FUNCTION,
        format!("function {name} does not exist for arguments of these types"),
    )
    .hint("No function matches the given name and argument types. You might need to add explicit type casts.")
}

fn number(value: &Datum, digits: usize) -> SqlResult<Number> {
    match value {
        Datum::Int(n) => Ok(Number::Exact(Decimal::new(i128::from(*n), 0))),
        Datum::Decimal(decimal) => Ok(Number::Exact(*decimal)),
        Datum::Float(value) => Ok(Number::Float { value: *value, digits }),
        _ => Err(not_a_template("to_char")),
    }
}

/// `to_timestamp(seconds)`, since 1970. Errors: 22008 beyond what there is.
fn moment_of(seconds: &Datum) -> SqlResult<Datum> {
    let seconds = seconds.as_f64().ok_or_else(|| not_a_template("to_timestamp"))?;
    let us = (seconds * 1e6 - UNIX_TO_2000_US).round_ties_even();
    match us.abs() < 9.2e18 && base::convert::is_timestamp(us as i64) {
        true => Ok(Datum::Timestamp(us as i64)),
        false => Err(SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("timestamp out of range: \"{seconds}\""),
        )),
    }
}

//! Typed lowering of scalar expressions.
//!
//! Literals and parameters without a type take the type of what they meet, as in PostgreSQL.

mod operators;
pub mod rows;
mod typing;
mod values;

use super::bind::{self, Volatile};
use super::functions;
use super::scope::{ParameterTypes, Scope};
use super::{Lowered, Refusal};
use crate::names;
use crate::types::NUMERIC;
use base::convert::{Castable, castable};
use base::decimal::Decimal;
use base::element::Element;
use base::error::{SqlResult, SqlState};
use base::expr::{BinaryOperator, Expr, Function, UnaryOperator};
use base::json::JsonFunction;
use base::schema::Catalog;
use base::{DataType, Datum, SqlError};
pub(super) use operators::in_bounds;
use sqlparser::ast;
pub use typing::bare_name as type_name;
pub use typing::literal;
use typing::*;
use values::{padded, span};

/// What is known of an expression's type.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Known(DataType),
    /// A string literal or NULL that takes the type of what it meets.
    Literal,
    /// A parameter that does.
    Parameter(usize),
}

/// An expression with what is known of its type.
#[derive(Clone, Debug)]
pub struct Typed {
    pub expr: Expr,
    kind: Kind,
}

impl Typed {
    pub(crate) fn known(expr: Expr, data_type: DataType) -> Typed {
        Typed { expr, kind: Kind::Known(data_type) }
    }
    /// Its type, if it has one of its own.
    pub(super) fn known_type(&self) -> Option<DataType> {
        match self.kind {
            Kind::Known(data_type) => Some(data_type),
            _ => None,
        }
    }
    /// Its type; text where nothing said otherwise.
    pub fn data_type(&self) -> DataType {
        match self.kind {
            Kind::Known(data_type) => data_type,
            _ => DataType::Text,
        }
    }
}

/// Lowers expressions over one scope.
pub struct ExprLowering<'a> {
    pub scope: &'a Scope,
    pub catalog: &'a Catalog,
    pub search_path: &'a [String],
    pub parameters: &'a mut ParameterTypes,
    /// Where aggregate calls are collected, where they are allowed.
    pub aggregates: Option<&'a mut Vec<super::aggregate::Aggregate>>,
    /// The value goes into a row.
    pub is_assignment: bool,
}

/// A number or numeral cast to `numeric` without precision: it keeps the digits that it has.
fn exact_numeric(typed: &Typed) -> Lowered<Option<Typed>> {
    let constant = |value| Ok(Some(Typed::known(Expr::Constant(Datum::Decimal(value)), NUMERIC)));
    match (&typed.kind, &typed.expr) {
        (Kind::Literal, Expr::Constant(Datum::Text(text))) => match Decimal::parse(text.trim()) {
            Some(value) => constant(value),
            None => Ok(None),
        },
        (Kind::Known(_), Expr::Constant(Datum::Int(i))) => constant(Decimal::new(i128::from(*i), 0)),
        (Kind::Known(DataType::Numeric { .. }), expr) => Ok(Some(Typed::known(expr.clone(), NUMERIC))),
        _ => Ok(None),
    }
}

impl ExprLowering<'_> {
    /// Lowers a condition.
    pub fn condition(&mut self, e: &ast::Expr, clause: &str) -> Lowered<Expr> {
        let typed = self.lower(e)?;
        let typed = self.resolve(typed, DataType::Boolean)?;
        match typed.data_type() {
            DataType::Boolean => Ok(typed.expr),
            other => Err(SqlError::new(
                SqlState::DATATYPE_MISMATCH,
                format!("argument of {clause} must be type boolean, not type {}", bare_name(other)),
            )
            .into()),
        }
    }

    /// Lowers a value that is assigned to a column. The column's limits are applied where it is written.
    pub fn assignment(&mut self, e: &ast::Expr, column: &str, to: DataType) -> Lowered<Expr> {
        self.is_assignment = true;
        // An array without elements takes its type from the column.
        if let ast::Expr::Array(array) = e
            && array.elem.is_empty()
            && matches!(to, DataType::Array(_))
        {
            return Ok(Expr::Constant(Datum::Array(Vec::new().into())));
        }
        if let (DataType::Composite(of), Some(elements)) = (to, rows::elements(e)) {
            return Ok(self.row(&elements, of, false)?.expr);
        }
        let typed = self.lower(e)?;
        let typed = self.resolve(typed, to)?;
        let from = typed.data_type();
        let fits = family(from) == family(to) || matches!(typed.expr, Expr::Constant(Datum::Null));
        if fits {
            return Ok(zoned(typed, to)?.expr);
        }
        // Anything may be assigned to text.
        if family(to) == Family::Text {
            return Ok(convert(typed, DataType::Text)?.expr);
        }
        if castable(from, to) >= Castable::Assignment {
            return Ok(convert(typed, to)?.expr);
        }
        Err(SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!(
                "column \"{column}\" is of type {} but expression is of type {}",
                bare_name(to),
                bare_name(from)
            ),
        )
        .hint("You will need to rewrite or cast the expression.")
        .column(column)
        .into())
    }

    /// Lowers an expression on its own.
    pub fn lower(&mut self, e: &ast::Expr) -> Lowered<Typed> {
        use ast::Expr as E;
        Ok(match e {
            E::Nested(inner) => self.lower(inner)?,
            E::Identifier(ident) => return self.identifier(ident),
            E::CompoundIdentifier(path) => {
                let (number, data_type) = self.scope.find(path)?;
                Typed::known(Expr::Column(number), data_type)
            }
            E::Value(value) => self.value(&value.value)?,
            E::TypedString(typed) if names::is_rounded(&typed.data_type) => return Err(Refusal::TooRich),
            E::Cast { data_type, .. } if names::is_rounded(data_type) => return Err(Refusal::TooRich),
            E::TypedString(typed) => {
                let to = self.named_type(&typed.data_type)?;
                let ast::Value::SingleQuotedString(text) = &typed.value.value else {
                    return Err(Refusal::TooRich);
                };
                Typed::known(Expr::Constant(crate::zones::parse(text, to)?), to)
            }
            E::Interval(interval) => span(interval)?,
            E::Array(array) => return self.array(&array.elem),
            E::IsNull(a) => self.null_test(a, true)?,
            E::IsNotNull(a) => self.null_test(a, false)?,
            E::IsTrue(a) => self.is_truth(a, true)?,
            E::IsNotTrue(a) => not(self.is_truth(a, true)?),
            E::IsFalse(a) => self.is_truth(a, false)?,
            E::IsNotFalse(a) => not(self.is_truth(a, false)?),
            E::IsUnknown(a) => self.null_test(a, true)?,
            E::IsNotUnknown(a) => self.null_test(a, false)?,
            E::IsNotDistinctFrom(a, b) => self.is_same(a, b)?,
            E::IsDistinctFrom(a, b) => not(self.is_same(a, b)?),
            E::InList { expr, list, negated } => {
                let inside = self.in_list(expr, list)?;
                if *negated { not(inside) } else { inside }
            }
            E::Between { expr, negated, low, high } => {
                let value = self.lower(expr)?;
                let low = self.lower(low)?;
                let high = self.lower(high)?;
                let above = self.compare(BinaryOperator::GreaterOrEqual, value.clone(), low)?;
                let below = self.compare(BinaryOperator::LessOrEqual, value, high)?;
                let inside = boolean(Expr::binary(BinaryOperator::And, above.expr, below.expr));
                if *negated { not(inside) } else { inside }
            }
            E::BinaryOp { left, op, right } => return self.binary(left, op, right),
            E::UnaryOp { op, expr } => return self.unary(*op, expr),
            E::Like { negated, any: false, expr, pattern, escape_char: None } => {
                self.like(expr, pattern, false, *negated)?
            }
            E::ILike { negated, any: false, expr, pattern, escape_char: None } => {
                self.like(expr, pattern, true, *negated)?
            }
            E::Cast { kind: ast::CastKind::Cast | ast::CastKind::DoubleColon, expr, data_type, .. } => {
                return self.cast_or_path(expr, data_type);
            }
            E::Case { operand, conditions, else_result, .. } => {
                return self.case(operand.as_deref(), conditions, else_result.as_deref());
            }
            // From a pattern rather than a place.
            E::Substring { substring_from: Some(from), shorthand: false, .. } if is_pattern(from) => {
                return Err(Refusal::TooRich);
            }
            E::Substring { expr, substring_from: Some(from), substring_for, .. } => {
                let mut arguments = vec![self.text(expr)?, self.integer(from)?];
                if let Some(count) = substring_for {
                    arguments.push(self.integer(count)?);
                }
                Typed::known(Expr::Call(Function::Substring, arguments), DataType::Text)
            }
            E::Trim { trim_where: None, trim_what: None, expr, trim_characters: None } => {
                Typed::known(Expr::Call(Function::Trim, vec![self.text(expr)?]), DataType::Text)
            }
            E::Trim { trim_where, trim_what, expr, trim_characters: None } => {
                self.trim(expr, *trim_where, trim_what.as_deref())?
            }
            E::Position { expr, r#in } => self.position(expr, r#in)?,
            E::AtTimeZone { timestamp, time_zone } => self.at_time_zone(time_zone, timestamp)?,
            E::Floor { expr, .. } => self.rounding(Function::Floor, expr)?,
            E::Ceil { expr, .. } => self.rounding(Function::Ceil, expr)?,
            E::Function(function) => return self.function(function),
            _ => return Err(Refusal::TooRich),
        })
    }

    /// Gives an expression without a type the type of its surroundings.
    pub fn resolve(&mut self, typed: Typed, to: DataType) -> SqlResult<Typed> {
        Ok(match typed.kind {
            Kind::Known(_) => typed,
            Kind::Parameter(n) => {
                let data_type = match to {
                    DataType::Varchar { .. } | DataType::Char { .. } => DataType::Text,
                    DataType::Numeric { .. } => NUMERIC,
                    other => other,
                };
                self.parameters.0[n] = Some(data_type);
                Typed::known(typed.expr, data_type)
            }
            Kind::Literal => match &typed.expr {
                Expr::Constant(Datum::Text(text)) => Typed::known(Expr::Constant(literal(text, to)?), to),
                _ => Typed::known(typed.expr, to),
            },
        })
    }

    fn identifier(&mut self, ident: &ast::Ident) -> Lowered<Typed> {
        let missing = match self.scope.find(std::slice::from_ref(ident)) {
            Ok((number, data_type)) => return Ok(Typed::known(Expr::Column(number), data_type)),
            Err(error) => error,
        };
        // Some functions are written without parentheses.
        match (ident.quote_style, ident.value.to_lowercase().as_str()) {
            (None, "current_timestamp") => {
                Ok(Typed::known(bind::volatile(Volatile::Now), DataType::TimestampTz))
            }
            (None, clocks) if let Some(shown) = functions::shown_by(clocks) => Ok(today(shown)?),
            (None, "current_user" | "session_user" | "user") => Err(Refusal::TooRich),
            (None, "current_role" | "current_catalog" | "current_schema") => Err(Refusal::TooRich),
            // A relation's name alone is its whole row.
            _ if self.scope.has_qualifier(&names::fold(ident)) => Err(Refusal::TooRich),
            _ => Err(missing.into()),
        }
    }

    fn value(&mut self, value: &ast::Value) -> Lowered<Typed> {
        use ast::Value as V;
        Ok(match value {
            V::Number(text, _) => number(text)?,
            V::SingleQuotedString(text) | V::EscapedStringLiteral(text) | V::NationalStringLiteral(text) => {
                Typed { expr: Expr::Constant(Datum::text(text)), kind: Kind::Literal }
            }
            V::DollarQuotedString(text) => {
                Typed { expr: Expr::Constant(Datum::text(&text.value)), kind: Kind::Literal }
            }
            V::Boolean(b) => boolean(Expr::Constant(Datum::Bool(*b))),
            V::Null => Typed { expr: Expr::Constant(Datum::Null), kind: Kind::Literal },
            V::Placeholder(name) => {
                let n = placeholder(name)?;
                match self.parameters.get(n) {
                    Some(data_type) => Typed::known(bind::parameter(n), data_type),
                    None => Typed { expr: bind::parameter(n), kind: Kind::Parameter(n) },
                }
            }
            _ => return Err(Refusal::TooRich),
        })
    }

    fn is_truth(&mut self, a: &ast::Expr, truth: bool) -> Lowered<Typed> {
        let a = self.condition(a, if truth { "IS TRUE" } else { "IS FALSE" })?;
        Ok(boolean(Expr::IsSame(Box::new(a), Box::new(Expr::Constant(Datum::Bool(truth))))))
    }

    fn is_same(&mut self, a: &ast::Expr, b: &ast::Expr) -> Lowered<Typed> {
        let (a, b) = (self.lower(a)?, self.lower(b)?);
        let (a, b) = self.comparable(BinaryOperator::Equal, a, b)?;
        Ok(boolean(Expr::IsSame(Box::new(a.expr), Box::new(b.expr))))
    }

    fn in_list(&mut self, needle: &ast::Expr, list: &[ast::Expr]) -> Lowered<Typed> {
        let mut needle = self.lower(needle)?;
        let mut items = Vec::with_capacity(list.len());
        for item in list {
            let item = self.lower(item)?;
            let (n, item) = self.comparable(BinaryOperator::Equal, needle, item)?;
            needle = n;
            items.push(item.expr);
        }
        Ok(boolean(Expr::In(Box::new(needle.expr), items)))
    }

    fn like(&mut self, text: &ast::Expr, pattern: &ast::Expr, fold: bool, negated: bool) -> Lowered<Typed> {
        let (text, pattern) = (self.text(text)?, self.text(pattern)?);
        let matched = boolean(Expr::Like(Box::new(text), Box::new(pattern), fold));
        Ok(if negated { not(matched) } else { matched })
    }

    pub(super) fn text(&mut self, e: &ast::Expr) -> Lowered<Expr> {
        let typed = self.lower(e)?;
        let typed = self.resolve(typed, DataType::Text)?;
        match family(typed.data_type()) {
            Family::Text => Ok(typed.expr),
            _ => Err(Refusal::TooRich),
        }
    }

    pub(super) fn integer(&mut self, e: &ast::Expr) -> Lowered<Expr> {
        let typed = self.lower(e)?;
        let typed = self.resolve(typed, DataType::Integer)?;
        match typed.data_type() {
            DataType::SmallInt | DataType::Integer | DataType::BigInt => Ok(typed.expr),
            _ => Err(Refusal::TooRich),
        }
    }

    pub(super) fn number(&mut self, e: &ast::Expr) -> Lowered<Typed> {
        let typed = self.lower(e)?;
        let typed = self.resolve(typed, DataType::Double)?;
        match family(typed.data_type()) {
            Family::Number => Ok(typed),
            _ => Err(Refusal::TooRich),
        }
    }

    pub(super) fn rounding(&mut self, function: Function, e: &ast::Expr) -> Lowered<Typed> {
        let value = self.number(e)?;
        // Of integers there is none: they become floats, as PostgreSQL prefers.
        let data_type = match value.data_type() {
            DataType::Numeric { .. } => NUMERIC,
            _ => DataType::Double,
        };
        let value = if data_type == DataType::Double { convert(value, data_type)? } else { value };
        Ok(Typed::known(Expr::Call(function, vec![value.expr]), data_type))
    }

    /// The type of a name, which may be one of the catalog's. Errors: 0A000 for a domain, whose rules are computed by
    /// queries.
    fn named_type(&self, written: &ast::DataType) -> SqlResult<DataType> {
        crate::user_types::within(self.catalog, self.search_path, || match names::domain(written) {
            Some(domain) => Err(SqlError::unsupported(format!("a cast to domain {} here", domain.name))),
            None => names::data_type(written),
        })
    }

    pub(super) fn cast(&mut self, e: &ast::Expr, to: &ast::DataType) -> Lowered<Typed> {
        // regclass and the like belong to the catalog's queries.
        if matches!(to, ast::DataType::Regclass) {
            return Err(Refusal::TooRich);
        }
        // An array without elements takes its type from the cast.
        if let ast::Expr::Array(array) = e
            && array.elem.is_empty()
            && let Ok(to @ DataType::Array(_)) = self.named_type(to)
        {
            return Ok(Typed::known(Expr::Constant(Datum::Array(Vec::new().into())), to));
        }
        let is_unlimited = names::is_unlimited_numeric(to);
        let to = match self.named_type(to) {
            Ok(to) => to,
            Err(error) if error.state == SqlState::FEATURE_NOT_SUPPORTED => return Err(Refusal::TooRich),
            Err(error) => return Err(error.into()),
        };
        if let (DataType::Composite(of), Some(elements)) = (to, rows::elements(e)) {
            return self.row(&elements, of, true);
        }
        let typed = self.lower(e)?;
        if is_unlimited && let Some(exact) = exact_numeric(&typed)? {
            return Ok(exact);
        }
        self.cast_typed(typed, to)
    }
}

/// A value of one type as one of another, by an explicit cast. Errors: 42846; those of the cast, for constants.
pub(super) fn convert(typed: Typed, to: DataType) -> SqlResult<Typed> {
    let from = typed.data_type();
    if from == to {
        return Ok(typed);
    }
    if castable(from, to) == Castable::No {
        return Err(base::convert::cannot_cast(&bare_name(from), &bare_name(to)));
    }
    let expr = match typed.expr {
        Expr::Constant(value) => Expr::Constant(crate::zones::cast(value, from, to)?),
        expr => match base::expr::converted_in(&expr, from, to, crate::zones::current()) {
            Some(zoned) => zoned,
            None => Expr::Convert(Box::new(expr), from, to),
        },
    };
    Ok(Typed::known(expr, to))
}

/// A column's value of one type, as an assignment makes it another.
pub(crate) fn reassigned(column: usize, from: DataType, to: DataType) -> SqlResult<Expr> {
    // A text that is too long is refused where it is assigned; a cast would cut it.
    let to = match to {
        DataType::Varchar { .. } | DataType::Char { .. } => DataType::Text,
        to => to,
    };
    Ok(convert(Typed::known(Expr::Column(column), from), to)?.expr)
}

/// What is compared with a moment, or assigned as one, is a moment in the session's zone, and the other way round.
fn zoned(typed: Typed, to: DataType) -> SqlResult<Typed> {
    let has_zone = !crate::zones::current().is_utc();
    match has_zone && meet_in_a_zone(typed.data_type(), to) {
        true => convert(typed, to),
        false => Ok(typed),
    }
}

/// The number (from 0) of a placeholder. Errors: 42P02.
pub fn placeholder(name: &str) -> SqlResult<usize> {
    let number = name.strip_prefix('$').and_then(|n| n.parse::<usize>().ok());
    match number {
        Some(n @ 1..=65_535) => Ok(n - 1),
        _ => Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, format!("there is no parameter {name}"))),
    }
}

/// What the session's clocks show, as a value of a type.
pub(super) fn today(data_type: DataType) -> SqlResult<Typed> {
    match (crate::zones::current().is_utc(), data_type) {
        (false, _) => convert(Typed::known(bind::volatile(Volatile::Now), DataType::TimestampTz), data_type),
        (true, DataType::Date) => Ok(Typed::known(bind::volatile(Volatile::CurrentDate), data_type)),
        (true, DataType::Time | DataType::TimeTz) => {
            convert(Typed::known(bind::volatile(Volatile::Now), DataType::TimestampTz), data_type)
        }
        (true, _) => Ok(Typed::known(bind::volatile(Volatile::Now), data_type)),
    }
}

fn boolean(expr: Expr) -> Typed {
    Typed::known(expr, DataType::Boolean)
}

fn not(typed: Typed) -> Typed {
    boolean(Expr::Unary(UnaryOperator::Not, Box::new(typed.expr)))
}

fn number(text: &str) -> Lowered<Typed> {
    if let Ok(i) = text.parse::<i64>() {
        let data_type = if i32::try_from(i).is_ok() { DataType::Integer } else { DataType::BigInt };
        return Ok(Typed::known(Expr::Constant(Datum::Int(i)), data_type));
    }
    match Decimal::parse(text) {
        Some(decimal) => Ok(Typed::known(Expr::Constant(Datum::Decimal(decimal)), NUMERIC)),
        // Beyond the digits of a decimal only floats go on.
        None => match text.parse::<f64>() {
            Ok(f) if f.is_finite() => Ok(Typed::known(Expr::Constant(Datum::Float(f)), DataType::Double)),
            _ => Err(Refusal::TooRich),
        },
    }
}

/// Whether an expression is a text that is no whole number.
fn is_pattern(e: &ast::Expr) -> bool {
    match e {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::SingleQuotedString(text) => text.trim().parse::<i64>().is_err(),
            _ => false,
        },
        _ => false,
    }
}

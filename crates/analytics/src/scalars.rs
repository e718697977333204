//! Scalar expressions over columns, with PostgreSQL's types and values.
//!
//! DataFusion types expressions by rules of its own and computes some of them otherwise than PostgreSQL: a cast
//! to integer cuts, a date plus an interval is a date, a month is longer than 30 days. Here operators, casts and
//! functions are given PostgreSQL's types ([`typing`]); those whose value would differ become calls of the
//! functions that rows are computed with ([`evaluated`]), so that an expression has one value wherever it is
//! evaluated. Arithmetic and comparisons of integers, floats and decimals keep DataFusion's kernels.
//!
//! Operators are settled while names are resolved ([`Operators`]), because DataFusion refuses at that point what
//! it has no rule for; casts and functions afterwards, and again when parameters are bound ([`settle`]).

mod angles;
mod bits;
mod date_parts;
mod documents;
mod evaluated;
mod extracts;
mod functions;
mod inference;
mod json;
mod kinds;
mod lists;
mod notes;
mod operands;
mod ours;
mod plain;
mod powers;
mod rows;
mod rule;
mod text_search;
mod typing;
mod values;
mod written;
mod zoned;

pub(super) use angles::OF_DEGREES;
pub(super) use extracts::function as extract_function;
pub(super) use inference::kind_of;
pub(super) use kinds::{Family, Kind, arrow_span, span};
pub(super) use rule::{Operators, settle};
pub(super) use written::{cast_to_interval, power_of_negative};

use base::DataType;
use base::composite::CompositeType;
use datafusion::common::ExprSchema;
use datafusion::logical_expr::{Expr, Operator};

/// What an aggregate's argument is, as far as aggregates differ by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Argument {
    Boolean,
    BigInt,
    Numeric,
    Text,
    Uuid,
    Bytes,
    Json,
    Jsonb,
    Inet,
    /// Of hardware.
    Hardware,
    /// Of an enumerated type.
    Label,
    /// Of a composite type.
    Row(CompositeType),
    /// Another number.
    Number,
    Span,
    /// A literal without a type.
    Unknown,
    Other,
}

impl Argument {
    pub fn of(e: &Expr, schema: &dyn ExprSchema) -> Argument {
        match inference::kind_of(e, schema) {
            kinds::Kind::Unknown => Argument::Unknown,
            kinds::Kind::Known(DataType::Boolean) => Argument::Boolean,
            kinds::Kind::Known(DataType::BigInt) => Argument::BigInt,
            kinds::Kind::Known(DataType::Numeric { .. }) => Argument::Numeric,
            kinds::Kind::Known(DataType::Text | DataType::Varchar { .. } | DataType::Char { .. }) => {
                Argument::Text
            }
            kinds::Kind::Known(DataType::Uuid) => Argument::Uuid,
            kinds::Kind::Known(DataType::Bytea) => Argument::Bytes,
            kinds::Kind::Known(DataType::Json) => Argument::Json,
            kinds::Kind::Known(DataType::Jsonb) => Argument::Jsonb,
            kinds::Kind::Known(DataType::Inet | DataType::Cidr) => Argument::Inet,
            kinds::Kind::Known(DataType::MacAddr | DataType::MacAddr8) => Argument::Hardware,
            kinds::Kind::Known(DataType::Enum(_)) => Argument::Label,
            kinds::Kind::Known(DataType::Composite(of)) => Argument::Row(of),
            kinds::Kind::Span => Argument::Span,
            kind @ kinds::Kind::Known(_) if kind.family().is_number() => Argument::Number,
            _ => Argument::Other,
        }
    }

    pub fn type_name(e: &Expr, schema: &dyn ExprSchema) -> String {
        inference::kind_of(e, schema).name()
    }
}

/// Arguments of `lag` and `lead` of labels, `uuid` or `json`, whose default is one too. `None` for others. Errors: 22P02.
pub(super) fn with_typed_default(
    arguments: &[Expr],
    schema: &dyn ExprSchema,
) -> datafusion::common::Result<Option<Vec<Expr>>> {
    let [of, distance, default] = arguments else { return Ok(None) };
    let (kind, default_kind) = (inference::kind_of(of, schema), inference::kind_of(default, schema));
    // What the planner would take for any text.
    let is_ours =
        matches!(kind.family(), kinds::Family::Label(_) | kinds::Family::Uuid | kinds::Family::Json);
    if !is_ours || default_kind != kinds::Kind::Unknown {
        return Ok(None);
    }
    let typed = typing::literal(default, kind);
    let typed = typed.map_err(|e| datafusion::error::DataFusionError::External(Box::new(e)))?;
    Ok(Some(vec![of.clone(), distance.clone(), typed]))
}

/// A quotient of two numbers, with PostgreSQL's digits.
pub(super) fn quotient(a: &Expr, b: &Expr, schema: &dyn ExprSchema) -> datafusion::common::Result<Expr> {
    let settled = typing::binary(Operator::Divide, a, b, schema, false);
    let settled = settled.map_err(|e| datafusion::error::DataFusionError::External(Box::new(e)))?;
    Ok(settled
        .unwrap_or_else(|| datafusion::logical_expr::binary_expr(a.clone(), Operator::Divide, b.clone())))
}

/// Digits behind the point of a quotient of numbers that have so many.
pub(super) fn quotient_digits(digits: i8) -> i8 {
    digits.max(typing::QUOTIENT_SCALE as i8)
}

/// A sum of whole numbers, which is `numeric`, divided by their count.
pub(super) fn average(sum: Expr, count: Expr, digits: u8) -> Expr {
    let numeric = |scale| DataType::Numeric { precision: 38, scale };
    let (sum, count) = ((sum, kinds::Kind::Known(numeric(0))), (count, kinds::Kind::Known(DataType::BigInt)));
    typing::by_rows(base::expr::BinaryOperator::Divide, sum, count, numeric(digits))
}

/// What values are ordered and grouped by whose columns are not in their order: `None` for others.
pub(super) fn order_key(e: &Expr, schema: &dyn ExprSchema) -> Option<Expr> {
    match Argument::of(e, schema) {
        Argument::Span => Some(length_of(e)),
        Argument::Jsonb => Some(json::sort_key(e)),
        Argument::Row(of) => Some(evaluated::row_key(e, of)),
        _ => None,
    }
}

/// How long an interval is: intervals of one length are equal, however they are made up.
fn length_of(span: &Expr) -> Expr {
    let length = evaluated::Computation::Spans(evaluated::SpanOperation::Length);
    let returns = kinds::Kind::Known(DataType::Numeric { precision: 38, scale: 0 });
    evaluated::call(length, vec![(span.clone(), kinds::Kind::Span)], returns)
}

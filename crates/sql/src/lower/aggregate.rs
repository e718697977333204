//! Aggregates over the few rows of a key range, without GROUP BY.
//!
//! `sum(x)` of one order is too small a question for columns, and inside a transaction a whole table
//! would have to be validated for it.

use super::expr::{ExprLowering, Typed};
use super::scope::Scope;
use super::{Lowered, Lowering, Projection, Refusal, bind, output_name};
use crate::names;
use crate::types::{Column, NUMERIC};
use base::decimal::Decimal;
use base::error::SqlResult;
use base::expr::{BinaryOperator, Expr};
use base::{DataType, Datum, Key};
use sqlparser::ast;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

/// One aggregate call.
#[derive(Clone, Debug)]
pub struct Aggregate {
    kind: Kind,
    /// `None`: `count(*)`.
    argument: Option<Expr>,
    distinct: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Count,
    Sum,
    /// Of `bigint`: a decimal, which has room for it.
    SumWide,
    Min,
    Max,
    Avg,
}

/// Results of aggregates have column numbers from here on while the projection is lowered.
const RESULT: usize = 1 << 20;

impl Lowering<'_> {
    /// Lowers a SELECT list of aggregates and expressions over them. The projection is over the row of
    /// their results.
    pub fn aggregation(
        &mut self,
        items: &[ast::SelectItem],
        scope: &Scope,
    ) -> Lowered<(Projection, Vec<Aggregate>)> {
        let mut calls = Vec::new();
        let (mut exprs, mut columns) = (Vec::new(), Vec::new());
        for item in items {
            let (e, name) = match item {
                ast::SelectItem::UnnamedExpr(e) => (e, output_name(e)),
                ast::SelectItem::ExprWithAlias { expr, alias } => (expr, names::fold(alias)),
                _ => return Err(Refusal::TooRich),
            };
            let mut lowering = self.exprs(scope);
            lowering.aggregates = Some(&mut calls);
            let typed = lowering.lower(e)?;
            let typed = lowering.resolve(typed, DataType::Text)?;
            let mut mixes = bind::changes_per_row(&typed.expr);
            typed.expr.walk(&mut |e| mixes |= matches!(e, Expr::Column(c) if *c < RESULT));
            // A bare column beside an aggregate: DataFusion says what is wrong.
            if mixes {
                return Err(Refusal::TooRich);
            }
            let mut column = Column::new(name, typed.data_type());
            column.type_modifier = -1;
            columns.push(column);
            exprs.push(renumbered(&typed.expr));
        }
        if calls.is_empty() {
            return Err(Refusal::TooRich);
        }
        let has_holes = exprs.iter().any(bind::has_holes);
        Ok((Projection { exprs, columns: Arc::new(columns), is_identity: false, has_holes }, calls))
    }
}

/// Numbers results from 0.
fn renumbered(e: &Expr) -> Expr {
    bind::map_columns(e, &|c| Expr::Column(if bind::is_table_column(c) { c - RESULT } else { c }))
}

impl ExprLowering<'_> {
    /// Lowers an aggregate call, if it is one that can be computed here.
    pub(super) fn aggregate(&mut self, name: &str, function: &ast::Function) -> Lowered<Option<Typed>> {
        let kind = match name {
            "count" => Kind::Count,
            "sum" => Kind::Sum,
            "min" => Kind::Min,
            "max" => Kind::Max,
            "avg" => Kind::Avg,
            _ => return Ok(None),
        };
        let Some(calls) = self.aggregates.take() else { return Ok(None) };
        let ast::FunctionArguments::List(list) = &function.args else { return Err(Refusal::TooRich) };
        let [ast::FunctionArg::Unnamed(argument)] = list.args.as_slice() else {
            return Err(Refusal::TooRich);
        };
        if !list.clauses.is_empty() {
            return Err(Refusal::TooRich);
        }
        let distinct = list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct);
        // Inside the call there is no other.
        let (argument, from) = match argument {
            ast::FunctionArgExpr::Wildcard if kind == Kind::Count && !distinct => (None, DataType::BigInt),
            ast::FunctionArgExpr::Expr(e) => {
                let typed = self.lower(e)?;
                let typed = self.resolve(typed, DataType::Text)?;
                let data_type = typed.data_type();
                (Some(typed.expr), data_type)
            }
            _ => return Err(Refusal::TooRich),
        };
        let data_type = match (kind, from) {
            (Kind::Count, _) => DataType::BigInt,
            (Kind::Sum, DataType::SmallInt | DataType::Integer) => DataType::BigInt,
            (Kind::Sum, DataType::BigInt) => NUMERIC,
            (Kind::Sum | Kind::Avg, DataType::Numeric { .. }) => NUMERIC,
            (Kind::Avg, DataType::SmallInt | DataType::Integer | DataType::BigInt) => NUMERIC,
            (Kind::Sum | Kind::Avg, DataType::Double) => DataType::Double,
            (Kind::Min | Kind::Max, DataType::Boolean) => return Err(Refusal::TooRich),
            (Kind::Min | Kind::Max, data_type) => data_type,
            _ => return Err(Refusal::TooRich),
        };
        let result = Expr::Column(RESULT + calls.len());
        let kind = if (kind, from) == (Kind::Sum, DataType::BigInt) { Kind::SumWide } else { kind };
        calls.push(Aggregate { kind, argument, distinct });
        self.aggregates = Some(calls);
        Ok(Some(Typed::known(result, data_type)))
    }
}

impl Aggregate {
    /// What it is of; `None`: rows.
    pub fn argument(&self) -> Option<&Expr> {
        self.argument.as_ref()
    }

    /// The aggregate with its argument's holes filled.
    pub fn filled(&self, binding: &bind::Binding<'_>) -> SqlResult<Aggregate> {
        let argument = self.argument.as_ref().map(|a| binding.fill(a)).transpose()?;
        Ok(Aggregate { argument, ..self.clone() })
    }

    /// Its value over these rows.
    pub fn over<'r>(&self, rows: impl Iterator<Item = &'r [Datum]>) -> SqlResult<Datum> {
        let mut seen = BTreeSet::new();
        let mut count: i64 = 0;
        let mut total = Datum::Null;
        for row in rows {
            let Some(argument) = &self.argument else {
                count += 1;
                continue;
            };
            let value = argument.eval(row)?;
            if value.is_null() || (self.distinct && !seen.insert(Key::of(std::slice::from_ref(&value)))) {
                continue;
            }
            count += 1;
            let value = match (self.kind, value) {
                (Kind::SumWide | Kind::Avg, Datum::Int(n)) => Datum::Decimal(Decimal::new(n.into(), 0)),
                (_, value) => value,
            };
            total = match (self.kind, total) {
                (Kind::Count, _) => Datum::Null,
                (_, Datum::Null) => value,
                (Kind::Sum | Kind::SumWide | Kind::Avg, total) => apply(BinaryOperator::Add, total, value)?,
                (Kind::Min, total) if value.compare(&total) == Some(Ordering::Less) => value,
                (Kind::Max, total) if value.compare(&total) == Some(Ordering::Greater) => value,
                (_, total) => total,
            };
        }
        match self.kind {
            Kind::Count => Ok(Datum::Int(count)),
            Kind::Avg if count > 0 => apply(BinaryOperator::Divide, total, Datum::Int(count)),
            _ => Ok(total),
        }
    }
}

fn apply(operator: BinaryOperator, a: Datum, b: Datum) -> SqlResult<Datum> {
    Expr::binary(operator, Expr::Constant(a), Expr::Constant(b)).eval(&[])
}

//! Indexes over expressions and partial indexes: whether a condition finds rows by them, and which one ON CONFLICT means.
//!
//! KEEPS: what an index computes is looked up only where that is the same as what the statement says: an expression of a
//! partial index only under conditions that imply its predicate.

use super::generated::Generated;
use super::keys::{self, KeyPath};
use base::expr::{BinaryOperator, Expr, UnaryOperator};
use base::schema::{Index, Table};
use base::{DataType, Datum};
use std::borrow::Cow;

/// What an index computes.
pub(super) struct ComputedKeys {
    /// Columns with the expressions that they keep.
    pub expressions: Vec<(usize, Expr)>,
    predicate: Option<Expr>,
}

impl ComputedKeys {
    /// The column that keeps an expression.
    pub fn column_of(&self, expr: &Expr) -> Option<usize> {
        let wanted = settled(expr);
        self.expressions.iter().find(|(_, expr)| *expr == wanted).map(|(column, _)| *column)
    }

    /// `generated`: the table's, at least those of its indexes.
    pub fn of(index: &Index, generated: &Generated) -> ComputedKeys {
        let column = index.predicate_column();
        let predicate =
            column.and_then(|column| generated.of(column)).and_then(branch).map(|(p, _)| settled(p));
        let expression = |column: usize| {
            let expr = generated.of(column)?;
            // Of a partial index, a column keeps what rows inside the predicate have.
            if index.form.predicate.is_some() { branch(expr).map(|(_, value)| value) } else { Some(expr) }
        };
        let computed = index.form.expressions.iter();
        let expressions = computed.filter_map(|(column, _)| Some((*column, settled(expression(*column)?))));
        ComputedKeys { expressions: expressions.collect(), predicate }
    }

    /// Whether all rows that satisfy these conditions are inside the predicate.
    pub fn covers(&self, conditions: &[Expr]) -> bool {
        let conditions: Vec<Expr> = conditions.iter().map(settled).collect();
        keys::conjuncts(self.predicate.as_ref()).iter().all(|wanted| is_implied(wanted, &conditions))
    }
}

/// The only branch of a CASE without ELSE.
fn branch(expr: &Expr) -> Option<(&Expr, &Expr)> {
    match expr {
        Expr::Case(branches, None) => match branches.as_slice() {
            [(condition, value)] => Some((condition, value)),
            _ => None,
        },
        _ => None,
    }
}

/// The path through an index, and through what it computes where the conditions allow that.
pub(super) fn path(table: &Table, index: &Index, generated: &Generated, conjuncts: &[Expr]) -> KeyPath {
    KeyPath::index(table, index, &with_computed(index, generated, conjuncts))
}

/// The conditions with columns in the place of the expressions that an index keeps in them.
fn with_computed<'c>(index: &Index, generated: &Generated, conjuncts: &'c [Expr]) -> Cow<'c, [Expr]> {
    let Some(last) = index.columns.last().filter(|_| index.columns.iter().any(|c| index.owns(*c))) else {
        return Cow::Borrowed(conjuncts);
    };
    let computed = ComputedKeys::of(index, generated);
    if !computed.covers(conjuncts) {
        return Cow::Borrowed(conjuncts);
    }
    let mut over_columns: Vec<Expr> = conjuncts.iter().map(|e| replaced(e, &computed)).collect();
    if computed.predicate.is_some() {
        let is_inside = Expr::Constant(Datum::Bool(true));
        over_columns.push(Expr::binary(BinaryOperator::Equal, Expr::Column(*last), is_inside));
    }
    Cow::Owned(over_columns)
}

/// A comparison of an expression that an index keeps, as one of the column that it is kept in.
fn replaced(condition: &Expr, computed: &ComputedKeys) -> Expr {
    let kept = |e: &Expr| computed.column_of(e).map_or_else(|| e.clone(), Expr::Column);
    match condition {
        Expr::Binary(operator, left, right) => {
            Expr::Binary(*operator, Box::new(kept(left)), Box::new(kept(right)))
        }
        Expr::In(needle, items) => Expr::In(Box::new(kept(needle)), items.clone()),
        other => kept(other),
    }
}

/// An expression in the one of several forms of the same meaning that is compared: a `varchar` is a text as it is.
fn settled(expr: &Expr) -> Expr {
    let boxed = |e: &Expr| Box::new(settled(e));
    let list = |l: &[Expr]| l.iter().map(settled).collect::<Vec<_>>();
    match expr {
        Expr::Convert(inner, DataType::Varchar { .. }, DataType::Text) => settled(inner),
        Expr::Column(_) | Expr::Constant(_) => expr.clone(),
        Expr::Unary(operator, a) => Expr::Unary(*operator, boxed(a)),
        Expr::Binary(BinaryOperator::Equal, a, b) => of_truth(settled(a), settled(b)),
        Expr::Binary(operator, a, b) => Expr::Binary(*operator, boxed(a), boxed(b)),
        Expr::IsNull(a) => Expr::IsNull(boxed(a)),
        Expr::IsSame(a, b) => Expr::IsSame(boxed(a), boxed(b)),
        Expr::In(a, items) => Expr::In(boxed(a), list(items)),
        Expr::Like(a, b, fold) => Expr::Like(boxed(a), boxed(b), *fold),
        Expr::Case(branches, otherwise) => Expr::Case(
            branches.iter().map(|(condition, value)| (settled(condition), settled(value))).collect(),
            otherwise.as_ref().map(|e| boxed(e)),
        ),
        Expr::Cast(a, to) => Expr::Cast(boxed(a), *to),
        Expr::Convert(a, from, to) => Expr::Convert(boxed(a), *from, *to),
        Expr::Call(function, arguments) => Expr::Call(*function, list(arguments)),
    }
}

/// `a = true` is `a`, and `a = false` is `NOT a`.
fn of_truth(left: Expr, right: Expr) -> Expr {
    match (left, right) {
        (value, Expr::Constant(Datum::Bool(true))) | (Expr::Constant(Datum::Bool(true)), value) => value,
        (value, Expr::Constant(Datum::Bool(false))) | (Expr::Constant(Datum::Bool(false)), value) => {
            Expr::Unary(UnaryOperator::Not, Box::new(value))
        }
        (left, right) => Expr::binary(BinaryOperator::Equal, left, right),
    }
}

/// Whether a condition follows from others: it is one of them, or says that something is not null of which one of them is
/// true only if it is not.
fn is_implied(wanted: &Expr, conditions: &[Expr]) -> bool {
    let not_null = match wanted {
        Expr::Unary(UnaryOperator::Not, inner) => match &**inner {
            Expr::IsNull(value) => Some(value),
            _ => None,
        },
        _ => None,
    };
    let follows_from = |condition: &Expr| {
        condition == wanted || not_null.is_some_and(|value| is_strict_of(condition, value))
    };
    conditions.iter().any(follows_from)
}

/// Whether a condition is never true of a null.
fn is_strict_of(condition: &Expr, value: &Expr) -> bool {
    use BinaryOperator::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    match condition {
        Expr::Binary(Equal | NotEqual | Less | LessOrEqual | Greater | GreaterOrEqual, left, right) => {
            **left == *value || **right == *value
        }
        Expr::In(needle, _) | Expr::Like(needle, ..) => **needle == *value,
        _ => false,
    }
}

//! Documents and searches of full-text search as arguments: what is computed of them as rows compute it, and what is refused.

use super::evaluated::{Computation, call};
use super::kinds::{Family, Kind};
use base::error::SqlResult;
use base::expr::Expr as Scalar;
use base::{DataType, SqlError};
use datafusion::logical_expr::Expr;
use sql::text_search::{self, Call};

pub(super) fn is_ours(kind: Kind) -> bool {
    matches!(kind.family(), Family::Document | Family::Search)
}

/// `length` of a document; `None` for anything else.
pub(super) fn length(arguments: &[Expr], kinds: &[Kind]) -> Option<Expr> {
    let ([document], [kind]) = (arguments, kinds) else { return None };
    let call = text_search::function("length", &[Some(DataType::TsVector)])?;
    (*kind == Kind::Known(DataType::TsVector)).then(|| computed(call, vec![(document.clone(), *kind)]))
}

/// Errors: 0A000 for comparisons by an order.
pub(super) fn refuse_order(kind: Kind, symbol: &str, is_equality: bool) -> SqlResult<()> {
    match is_ours(kind) && !is_equality {
        true => Err(SqlError::unsupported(format!("operator {symbol} of {}", kind.name()))),
        false => Ok(()),
    }
}

pub(super) fn computed(found: Call, arguments: Vec<(Expr, Kind)>) -> Expr {
    let columns = (0..arguments.len()).map(Scalar::Column).collect();
    call(Computation::Scalar(found.over(columns)), arguments, Kind::Known(found.returns()))
}

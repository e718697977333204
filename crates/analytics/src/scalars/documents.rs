//! Documents and searches of full-text search, and addresses, as arguments: what is computed of them as rows compute it, and
//! what is refused.

use super::evaluated::{Computation, call};
use super::kinds::{Family, Kind};
use base::SqlError;
use base::error::SqlResult;
use base::expr::Expr as Scalar;
use datafusion::logical_expr::Expr;
use sql::calls::{self, Call};

pub(super) fn is_ours(kind: Kind) -> bool {
    matches!(kind.family(), Family::Document | Family::Search)
}

/// A function that texts or numbers have, too, of a document or an address; `None` for anything else.
pub(super) fn shared(name: &str, arguments: &[Expr], kinds: &[Kind]) -> Option<Expr> {
    let ([argument], [Kind::Known(own)]) = (arguments, kinds) else { return None };
    // The planner has other names for it.
    let name = if matches!(name, "char_length" | "character_length") { "length" } else { name };
    let call = calls::shared(name, &[Some(*own)])?;
    Some(computed(call, vec![(argument.clone(), kinds[0])]))
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

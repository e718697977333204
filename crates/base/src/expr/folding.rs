//! Expressions over constants are computed once, where a statement is made, rather than for every row at every replica.

use super::Expr;

impl Expr {
    /// Its value in its place, if everything that it is computed of is a constant: nobody computes it again. What has no
    /// value stays as it is, since a CASE may never ask for it.
    pub fn folded(self) -> Expr {
        if !self.is_over_constants() {
            return self;
        }
        match self.eval(&[]) {
            Ok(value) => Expr::Constant(value),
            Err(_) => self,
        }
    }

    fn is_over_constants(&self) -> bool {
        let is_constant = |e: &Expr| matches!(e, Expr::Constant(_));
        match self {
            Expr::Column(_) | Expr::Constant(_) => false,
            Expr::Unary(_, a) | Expr::IsNull(a) | Expr::Cast(a, _) | Expr::Convert(a, ..) => is_constant(a),
            Expr::Binary(_, a, b) | Expr::IsSame(a, b) | Expr::Like(a, b, _) => {
                is_constant(a) && is_constant(b)
            }
            Expr::In(a, list) => is_constant(a) && list.iter().all(is_constant),
            Expr::Case(branches, otherwise) => {
                branches.iter().all(|(condition, value)| is_constant(condition) && is_constant(value))
                    && otherwise.as_deref().is_none_or(is_constant)
            }
            Expr::Call(_, arguments) => arguments.iter().all(is_constant),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Datum;
    use crate::expr::BinaryOperator::{Add, Divide};

    #[test]
    fn what_is_over_constants_is_computed_and_what_fails_is_left() {
        let sum = Expr::binary(Add, Expr::constant(1), Expr::constant(2));
        assert_eq!(sum.folded(), Expr::Constant(Datum::Int(3)));
        let over_column = Expr::binary(Add, Expr::Column(0), Expr::constant(2));
        assert_eq!(over_column.clone().folded(), over_column);
        let by_zero = Expr::binary(Divide, Expr::constant(1), Expr::constant(0));
        assert_eq!(by_zero.clone().folded(), by_zero);
        let never = Expr::Case(vec![(Expr::constant(false), by_zero)], Some(Box::new(Expr::constant(4))));
        // The branch is no constant; the CASE has its value all the same when it is computed.
        assert_eq!(never.clone().folded(), never);
        assert_eq!(never.eval(&[]), Ok(Datum::Int(4)));
    }
}

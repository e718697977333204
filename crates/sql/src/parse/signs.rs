//! Signs before signs. Written out, `- -5` would be the comment `--5`, so the inner sign gets parentheses.

use crate::walk;
use sqlparser::ast::{Expr, Statement, UnaryOperator};
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::ControlFlow;

/// Whether two signs may stand side by side in a text.
pub(super) fn meet(tokens: &[TokenWithSpan]) -> bool {
    let mut is_behind_sign = false;
    for token in tokens {
        match &token.token {
            Token::Whitespace(_) => {}
            Token::Minus if is_behind_sign => return true,
            other => is_behind_sign = *other == Token::Minus,
        }
    }
    false
}

/// Sets them apart.
pub(super) fn apart(statement: &mut Statement) {
    let _: ControlFlow<()> = walk::expressions_mut(statement, |e| {
        if let Expr::UnaryOp { op: UnaryOperator::Minus, expr } = e
            && matches!(expr.as_ref(), Expr::UnaryOp { op: UnaryOperator::Minus, .. })
        {
            let inner = std::mem::replace(expr.as_mut(), Expr::value(sqlparser::ast::Value::Null));
            **expr = Expr::Nested(Box::new(inner));
        }
        ControlFlow::Continue(())
    });
}

#[cfg(test)]
mod tests {
    use crate::parse::parse;

    #[test]
    fn a_text_with_signs_says_the_same_again() {
        for (sql, wanted) in [
            ("select - -5, 1 - - 2, -(-3)", "SELECT -(-5), 1 - -2, -(-3)"),
            ("create table t (a int default - - -1)", "CREATE TABLE t (a INT DEFAULT -(-(-1)))"),
        ] {
            let shown = parse(sql).unwrap()[0].to_string();
            assert_eq!(shown, wanted);
            assert_eq!(parse(&shown).unwrap()[0].to_string(), wanted);
        }
    }
}

//! `current_timestamp(n)`, `localtimestamp` and `localtime`: what clocks show as the transaction begins, in `now()`'s words.

use datafusion::sql::sqlparser::ast::{self, Expr, FunctionArg, FunctionArgExpr};

/// The call's text with `now()` for it; `None` for other functions, and for `now()` as it stands.
pub(super) fn told(name: &str, arguments: &ast::FunctionArguments) -> Option<String> {
    let digits = match arguments {
        ast::FunctionArguments::None => String::new(),
        ast::FunctionArguments::List(list) => match list.args.as_slice() {
            [] => String::new(),
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(digits)))] => format!("({digits})"),
            _ => return None,
        },
        ast::FunctionArguments::Subquery(_) => return None,
    };
    match name {
        "current_timestamp" if !digits.is_empty() => Some(format!("CAST(now() AS timestamptz{digits})")),
        "localtimestamp" => Some(format!("CAST(now() AS timestamp{digits})")),
        "localtime" => Some(format!("CAST(CAST(now() AS timestamp) AS time{digits})")),
        _ => None,
    }
}

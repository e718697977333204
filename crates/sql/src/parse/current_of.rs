//! `WHERE CURRENT OF c`, which the parser does not know: as a condition that is a function of the cursor's name.

use super::constraints::is_word;
use sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Statement};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The function.
const CURRENT_OF: &str = "\u{f8ff}current of";

/// The cursor whose row an UPDATE or a DELETE is about: its name, or what stands for it in a function's body.
pub fn current_of(statement: &Statement) -> Option<&Expr> {
    let selection = match statement {
        Statement::Update(update) => update.selection.as_ref(),
        Statement::Delete(delete) => delete.selection.as_ref(),
        _ => None,
    };
    let Some(Expr::Function(function)) = selection else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    let is_it = function.name.0.last()?.as_ident()?.value == CURRENT_OF;
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(cursor))] if is_it => Some(cursor),
        _ => None,
    }
}

/// The same change with another condition, if it is about a cursor's row.
pub fn with_condition(statement: &Statement, condition: Option<Expr>) -> Option<Statement> {
    current_of(statement)?;
    let mut changed = statement.clone();
    match &mut changed {
        Statement::Update(update) => update.selection = condition,
        Statement::Delete(delete) => delete.selection = condition,
        _ => return None,
    }
    Some(changed)
}

pub(super) fn known(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|t| is_word(t, "current")) {
        return tokens;
    }
    let words: Vec<usize> =
        (0..tokens.len()).filter(|i| !matches!(tokens[*i].token, Token::Whitespace(_))).collect();
    // From the end, so that what is put in moves nothing that is still to be looked at.
    for four in words.windows(4).rev() {
        let [before, current, of, name] = *four else { continue };
        let is_condition = is_word(&tokens[before], "where")
            && is_word(&tokens[current], "current")
            && is_word(&tokens[of], "of")
            && matches!(tokens[name].token, Token::Word(_));
        if is_condition {
            let span = tokens[name].span;
            tokens[current].token = Token::make_word(CURRENT_OF, Some('"'));
            tokens[of].token = Token::LParen;
            tokens.insert(name + 1, TokenWithSpan { token: Token::RParen, span });
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[test]
    fn the_cursor_of_a_change_is_known() {
        for (sql, cursor) in [
            ("update t set a = 1 where current of c", "c"),
            ("delete from t as x where current of \"C d\" returning a", "\"C d\""),
        ] {
            let statements = parse(sql).unwrap();
            assert_eq!(current_of(&statements[0]).unwrap().to_string(), cursor, "{sql}");
            let all = with_condition(&statements[0], None).unwrap();
            assert!(current_of(&all).is_none() && !all.to_string().contains("WHERE"));
        }
        assert!(current_of(&parse("delete from t where a = 1").unwrap()[0]).is_none());
        assert!(parse("delete from t where current of").is_err());
    }
}

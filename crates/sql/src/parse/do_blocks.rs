//! `DO [LANGUAGE language] 'body'`, which the parser does not know, as a CALL of a procedure that no client can name.

use super::constraints::is_word;
use sqlparser::ast::{Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Value};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The procedure that stands for DO.
pub const DO_BLOCK: &str = "\u{f8ff}do";

/// A DO.
#[derive(Clone, Debug, PartialEq)]
pub struct DoBlock {
    /// Folded; `None` if none was written.
    pub language: Option<String>,
    pub body: String,
}

/// What a call of the procedure that stands for DO says; `None` if it is another call.
pub fn do_block(function: &Function) -> Option<DoBlock> {
    let is_it = matches!(function.name.0.as_slice(), [part] if part.as_ident().is_some_and(|name| name.value == DO_BLOCK));
    let FunctionArguments::List(list) = &function.args else { return None };
    let text = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) => match &value.value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Some(text.clone()),
            Value::DollarQuotedString(text) => Some(text.value.clone()),
            _ => None,
        },
        _ => None,
    };
    let mut texts = list.args.iter().filter(|_| is_it).map(text);
    let body = texts.next()??;
    Some(DoBlock { body, language: texts.next().flatten() })
}

pub(super) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|t| is_word(t, "do")) {
        return tokens;
    }
    let mut made = Vec::with_capacity(tokens.len());
    for statement in tokens.split_inclusive(|t| matches!(t.token, Token::SemiColon)) {
        match called(statement) {
            Some(statement) => made.extend(statement),
            None => made.extend_from_slice(statement),
        }
    }
    made
}

/// A statement as a CALL; `None` if it is no DO.
fn called(statement: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let ends = |t: &TokenWithSpan| matches!(t.token, Token::SemiColon | Token::EOF);
    let end = statement.iter().position(ends).unwrap_or(statement.len());
    let words: Vec<&TokenWithSpan> =
        statement[..end].iter().filter(|t| !matches!(t.token, Token::Whitespace(_))).collect();
    let (first, rest) = words.split_first().filter(|(first, _)| is_word(first, "do"))?;
    let language = |t: &TokenWithSpan| match &t.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_lowercase()),
        Token::Word(word) => Some(word.value.clone()),
        Token::SingleQuotedString(text) => Some(text.clone()),
        _ => None,
    };
    let (body, language) = match rest {
        [body] => (body, None),
        [word, name, body] if is_word(word, "language") => (body, Some(language(name)?)),
        [body, word, name] if is_word(word, "language") => (body, Some(language(name)?)),
        _ => return None,
    };
    let is_text = matches!(
        body.token,
        Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_) | Token::DollarQuotedString(_)
    );
    let put = |token: Token| TokenWithSpan { token, span: first.span };
    let mut made = vec![
        put(Token::make_keyword("CALL")),
        put(Token::make_word(DO_BLOCK, Some('"'))),
        put(Token::LParen),
        (*body).clone(),
    ];
    if let Some(language) = language {
        made.extend([put(Token::Comma), put(Token::SingleQuotedString(language))]);
    }
    made.push(put(Token::RParen));
    made.extend_from_slice(&statement[end..]);
    is_text.then_some(made)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlparser::ast::Statement;

    fn read(sql: &str) -> Option<DoBlock> {
        match crate::parse::parse(sql).unwrap().first() {
            Some(Statement::Call(function)) => do_block(function),
            _ => None,
        }
    }

    #[test]
    fn do_is_read_in_all_its_forms() {
        let block = |language: Option<&str>, body: &str| {
            Some(DoBlock { language: language.map(String::from), body: body.into() })
        };
        assert_eq!(read("do $$begin null; end$$"), block(None, "begin null; end"));
        assert_eq!(read("DO LANGUAGE PLpgSQL 'a''b';"), block(Some("plpgsql"), "a'b"));
        assert_eq!(read("do $x$ $$ $x$ language 'sql'"), block(Some("sql"), " $$ "));
        assert_eq!(read("call p('a')"), None);
        assert_eq!(read("insert into t values (1) on conflict do nothing"), None);
        assert!(crate::parse::parse("do x").is_err());
        assert!(crate::parse::parse("do").is_err());
        assert_eq!(crate::parse::parse("select 1; do 'x'; do 'y'").unwrap().len(), 3);
    }
}

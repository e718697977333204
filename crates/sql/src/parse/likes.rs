//! `LIKE t INCLUDING …` among the columns of CREATE TABLE, of which the parser knows one alone and few options.
//!
//! It becomes a column of a name of its own whose type is the table: `"meridian like" "t" COLLATE "including defaults"`.

use super::constraints::is_word;
use base::SqlError;
use base::error::{SqlResult, SqlState};
use sqlparser::ast::{ColumnDef, ColumnOption, DataType, ObjectName};
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// The name of the column that stands for the columns of another table.
const LIKE: &str = "\u{f8ff}like";

/// The columns of another table, and what else of it is wanted.
pub struct Like<'a> {
    pub name: &'a ObjectName,
    /// What is included (true) or excluded, in small letters, in its order.
    pub options: Vec<(bool, String)>,
}

/// What a column stands for, if it is no column.
pub fn like_of(column: &ColumnDef) -> Option<Like<'_>> {
    let DataType::Custom(name, _) = &column.data_type else { return None };
    if column.name.value != LIKE {
        return None;
    }
    let option = |option: &ColumnOption| match option {
        ColumnOption::Collation(words) => {
            let words = words.0.first()?.as_ident()?.value.as_str();
            words.split_once(' ').map(|(verb, what)| (verb == "including", what.to_string()))
        }
        _ => None,
    };
    Some(Like { name, options: column.options.iter().filter_map(|o| option(&o.option)).collect() })
}

/// Errors: 42601 for an option that PostgreSQL does not know.
pub(super) fn known(tokens: Vec<TokenWithSpan>) -> SqlResult<Vec<TokenWithSpan>> {
    if !tokens.iter().any(|t| is_word(t, "like")) {
        return Ok(tokens);
    }
    let mut made = Vec::with_capacity(tokens.len() + 8);
    for statement in tokens.split_inclusive(|t| matches!(t.token, Token::SemiColon)) {
        let words: Vec<usize> =
            (0..statement.len()).filter(|i| !matches!(statement[*i].token, Token::Whitespace(_))).collect();
        let is = |nth: usize, word: &str| words.get(nth).is_some_and(|i| is_word(&statement[*i], word));
        let creates = is(0, "create") && (1..5).any(|nth| is(nth, "table"));
        match creates {
            true => made.extend(with_columns(statement, &words)?),
            false => made.extend_from_slice(statement),
        }
    }
    Ok(made)
}

/// The statement with each LIKE in its list of columns as a column.
fn with_columns(statement: &[TokenWithSpan], words: &[usize]) -> SqlResult<Vec<TokenWithSpan>> {
    let token = |nth: usize| words.get(nth).map(|i| &statement[*i]);
    let mut made = Vec::with_capacity(statement.len() + 8);
    let (mut depth, mut nth, mut copied) = (0, 0, 0);
    while let Some(here) = token(nth) {
        match here.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        let begins = depth == 1 && matches!(here.token, Token::LParen | Token::Comma);
        nth += 1;
        let Some(like) = token(nth).filter(|t| begins && is_word(t, "like")) else { continue };
        made.extend_from_slice(&statement[copied..words[nth]]);
        let at = |token| TokenWithSpan { token, span: like.span };
        let blank = || at(Token::Whitespace(Whitespace::Space));
        made.extend([at(Token::make_word(LIKE, Some('"'))), blank()]);
        nth += 1;
        while let Some(part) = token(nth) {
            match &part.token {
                Token::Word(word) if word.quote_style.is_none() => {
                    // Quoted, so that no name is taken for that of a type.
                    let name = Token::make_word(&word.value.to_lowercase(), Some('"'));
                    made.push(TokenWithSpan { token: name, span: part.span });
                }
                _ => made.push(part.clone()),
            }
            nth += 1;
            match token(nth).map(|t| &t.token) {
                Some(Token::Period) => made.push(at(Token::Period)),
                _ => break,
            }
            nth += 1;
        }
        made.push(blank());
        while let Some(verb) = token(nth).filter(|t| is_word(t, "including") || is_word(t, "excluding")) {
            let option = option_word(token(nth + 1))?;
            let verb = if is_word(verb, "including") { "including" } else { "excluding" };
            made.extend([at(Token::make_keyword("COLLATE")), blank()]);
            made.extend([at(Token::make_word(&format!("{verb} {option}"), Some('"'))), blank()]);
            nth += 2;
        }
        copied = words.get(nth).copied().unwrap_or(statement.len());
    }
    made.extend_from_slice(&statement[copied..]);
    Ok(made)
}

fn option_word(token: Option<&TokenWithSpan>) -> SqlResult<String> {
    const OPTIONS: &[&str] = &[
        "all",
        "comments",
        "compression",
        "constraints",
        "defaults",
        "generated",
        "identity",
        "indexes",
        "statistics",
        "storage",
    ];
    if let Some(option) = token.and_then(|t| OPTIONS.iter().find(|option| is_word(t, option))) {
        return Ok(option.to_string());
    }
    let near = token.map(|t| t.token.to_string()).unwrap_or_default();
    Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{near}\""))
        .hint(format!("LIKE can include and exclude: {}.", OPTIONS.join(", ").to_uppercase())))
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;
    use sqlparser::ast::Statement;

    #[test]
    fn a_table_is_like_others_among_its_columns() {
        let sql = "create table if not exists x (a int, like S.\"T\" including all excluding Indexes, \
                   check (b like 'x%'), LIKE date, c numeric(3, 1))";
        let Some(Statement::CreateTable(create)) = parse(sql).unwrap().pop() else { panic!("{sql}") };
        let likes: Vec<Option<Like>> = create.columns.iter().map(like_of).collect();
        let [None, Some(first), Some(second), None] = likes.as_slice() else { panic!("{}", create) };
        assert_eq!(crate::names::parts(first.name).unwrap(), ["s", "T"]);
        assert_eq!(first.options, [(true, "all".to_string()), (false, "indexes".to_string())]);
        assert_eq!(crate::names::parts(second.name).unwrap(), ["date"]);
        assert!(second.options.is_empty() && create.constraints.len() == 1);
        assert_eq!(parse("create table x (like t including b)").unwrap_err().state, SqlState::SYNTAX_ERROR);
        assert!(parse("select a like 'x' from t; create table x as select (a like b) from t").is_ok());
    }
}

//! Text to statements.

use base::SqlError;
use base::error::{SqlResult, SqlState};
use datafusion::sql::sqlparser::ast::Statement;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

/// The statements of a text, in order. Errors: 42601 with the place and what was found there.
pub fn parse(sql: &str) -> SqlResult<Vec<Statement>> {
    let dialect = PostgreSqlDialect {};
    let failed = |e: ParserError| syntax_error(sql, &e);
    let tokens =
        Tokenizer::new(&dialect, sql).tokenize_with_location().map_err(|e| failed(ParserError::from(e)))?;
    let blank = |t: &Token| matches!(t, Token::Whitespace(_) | Token::SemiColon | Token::EOF);
    if tokens.iter().all(|t| blank(&t.token)) {
        return Ok(Vec::new());
    }
    Parser::new(&dialect).with_tokens_with_locations(tokens).parse_statements().map_err(failed)
}

/// PostgreSQL's wording of a parser's complaint.
fn syntax_error(sql: &str, error: &ParserError) -> SqlError {
    let text = match error {
        ParserError::ParserError(text) | ParserError::TokenizerError(text) => text.as_str(),
        ParserError::RecursionLimitExceeded => {
            return SqlError::new(SqlState(*b"54001"), "stack depth limit exceeded")
                .hint("The statement is nested too deeply.");
        }
    };
    let (said, place) = text.split_once(" at Line: ").unwrap_or((text, ""));
    let found = said.split_once("found: ").map(|(_, found)| found.trim());
    let message = match found {
        Some("EOF") | None if said.contains("EOF") || found == Some("EOF") => {
            "syntax error at end of input".to_string()
        }
        Some(found) => format!("syntax error at or near \"{found}\""),
        None => format!("syntax error: {said}"),
    };
    if let Some(statement) = unknown_statement(sql, said) {
        return SqlError::unsupported(statement);
    }
    let mut error = SqlError::new(SqlState::SYNTAX_ERROR, message);
    if let Some((expected, _)) = said.split_once(", found: ") {
        error = error.detail(format!("{expected}."));
    }
    error.position = position(sql, place);
    error
}

/// A statement of PostgreSQL's that the parser does not know, if the complaint is about its first words.
fn unknown_statement(sql: &str, said: &str) -> Option<&'static str> {
    const STATEMENTS: &[&str] = &[
        "DO",
        "TABLE",
        "REINDEX",
        "CLUSTER",
        "CHECKPOINT",
        "REFRESH",
        "REASSIGN",
        "SECURITY",
        "ALTER SEQUENCE",
    ];
    let expects_statement =
        said.contains("Expected: an SQL statement") || said.contains("one of VIEW or TYPE");
    let text = sql.trim_start().to_ascii_uppercase();
    let words: Vec<&str> = text.split_whitespace().collect();
    let begins = |s: &&&str| s.split(' ').enumerate().all(|(i, w)| words.get(i) == Some(&w));
    expects_statement.then(|| STATEMENTS.iter().find(begins).copied()).flatten()
}

/// `3, Column: 7` as a character position in the text, from 1.
fn position(sql: &str, place: &str) -> Option<u32> {
    let (line, column) = place.split_once(", Column: ")?;
    let (line, column) = (line.trim().parse::<usize>().ok()?, column.trim().parse::<usize>().ok()?);
    let before: usize = sql.split('\n').take(line.checked_sub(1)?).map(|l| l.chars().count() + 1).sum();
    u32::try_from(before + column).ok().filter(|p| *p > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_syntax_error_says_where_and_what() {
        let error = parse("select 1;\nselec 2").unwrap_err();
        assert_eq!(error.state, SqlState::SYNTAX_ERROR);
        assert_eq!(error.message, "syntax error at or near \"selec\"");
        assert_eq!(error.position, Some(11));
        assert_eq!(parse("select (1").unwrap_err().message, "syntax error at end of input");
    }

    #[test]
    fn a_text_without_statements_is_none() {
        assert!(parse(" ; -- nothing\n ;").unwrap().is_empty());
        assert_eq!(parse("select 1; select 2;").unwrap().len(), 2);
    }
}

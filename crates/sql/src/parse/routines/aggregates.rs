//! Reads CREATE AGGREGATE.

use super::written::{Read, literal, parameters, put, takes, unexpected};
use super::{CreateAggregate, Declared};
use base::routines::Parallel;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

/// What stands behind CREATE AGGREGATE.
pub(super) fn create(parser: &mut Parser<'_>, or_replace: bool) -> Read<CreateAggregate> {
    let name = parser.parse_object_name(false)?;
    parser.expect_token(&Token::LParen)?;
    // Before PostgreSQL had lists of arguments here the type was an option.
    let is_old = parser.peek_nth_token(1).token == Token::Eq;
    let is_ordered = |parser: &Parser<'_>| match parser.peek_token().token {
        Token::Word(word) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case("order"),
        _ => false,
    };
    let mut made = CreateAggregate {
        or_replace,
        name,
        parameters: Vec::new(),
        transition: None,
        state: None,
        initial: None,
        last: None,
        parallel: None,
        unknown: None,
    };
    if is_ordered(parser) {
        made.unknown = Some("ORDER BY".into());
        rest(parser);
        return Ok(made);
    }
    if !is_old {
        made.parameters = parameters(parser)?;
        parser.expect_token(&Token::LParen)?;
    }
    loop {
        option(parser, &mut made)?;
        if !parser.consume_token(&Token::Comma) {
            break;
        }
    }
    parser.expect_token(&Token::RParen)?;
    Ok(made)
}

fn option(parser: &mut Parser<'_>, made: &mut CreateAggregate) -> Read<()> {
    let word = match parser.next_token().token {
        Token::Word(word) => word.value.to_lowercase(),
        _ => {
            parser.prev_token();
            return unexpected(parser);
        }
    };
    if parser.peek_token().token != Token::Eq {
        // HYPOTHETICAL and the like, which have no value.
        made.unknown.get_or_insert(word.to_uppercase());
        return Ok(());
    }
    parser.next_token();
    match word.as_str() {
        // "ANY": it has no arguments.
        "basetype" => {
            made.parameters = match any(parser) {
                true => Vec::new(),
                false => vec![Declared {
                    mode: None,
                    name: None,
                    data_type: parser.parse_data_type()?,
                    default: None,
                }],
            };
            Ok(())
        }
        "sfunc" | "sfunc1" => {
            let name = parser.parse_object_name(false)?;
            put(&mut made.transition, name)
        }
        "finalfunc" => {
            let name = parser.parse_object_name(false)?;
            put(&mut made.last, name)
        }
        "stype" | "stype1" => {
            let data_type = parser.parse_data_type()?;
            put(&mut made.state, data_type)
        }
        "initcond" | "initcond1" => {
            let text = initial(parser)?;
            put(&mut made.initial, text)
        }
        "parallel" => {
            let parallel = if takes(parser, &["safe"]) {
                Parallel::Safe
            } else if takes(parser, &["restricted"]) {
                Parallel::Restricted
            } else if takes(parser, &["unsafe"]) {
                Parallel::Unsafe
            } else {
                return unexpected(parser);
            };
            put(&mut made.parallel, parallel)
        }
        other => {
            made.unknown.get_or_insert(other.to_uppercase());
            skip(parser);
            Ok(())
        }
    }
}

/// Takes `ANY`, as a word or a text.
fn any(parser: &mut Parser<'_>) -> bool {
    let found = match parser.peek_token().token {
        Token::Word(word) => word.value.eq_ignore_ascii_case("any"),
        Token::SingleQuotedString(text) => text.eq_ignore_ascii_case("any"),
        _ => false,
    };
    if found {
        parser.next_token();
    }
    found
}

/// A state as a text, a number or a word.
fn initial(parser: &mut Parser<'_>) -> Read<String> {
    let sign = if parser.consume_token(&Token::Minus) { "-" } else { "" };
    match parser.peek_token().token {
        Token::Number(text, _) => {
            parser.next_token();
            Ok(format!("{sign}{text}"))
        }
        Token::Word(word) if sign.is_empty() => {
            parser.next_token();
            Ok(word.value)
        }
        _ if sign.is_empty() => literal(parser),
        _ => unexpected(parser),
    }
}

/// Passes a value.
fn skip(parser: &mut Parser<'_>) {
    let mut depth = 0u32;
    loop {
        match parser.peek_token().token {
            Token::EOF => return,
            Token::Comma | Token::RParen if depth == 0 => return,
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        parser.next_token();
    }
}

/// Passes all that is left.
fn rest(parser: &mut Parser<'_>) {
    while parser.peek_token().token != Token::EOF {
        parser.next_token();
    }
}

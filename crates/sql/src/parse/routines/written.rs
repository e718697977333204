//! Reads the texts of statements about functions and procedures.

use super::super::dialect::{BoundedDialect, Failure};
use super::super::{RECURSION_PER_LEVEL, complexity, syntax_error, too_deep};
use super::{
    AlterRoutine, Body, CreateRoutine, Declared, DeclaredResult, RoutineKind, RoutineStatement, Signature,
    wrong,
};
use crate::names;
use base::SqlError;
use base::error::SqlResult;
use base::routines::{Parallel, Volatility};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, Tokenizer};

pub(in crate::parse) type Read<T> = Result<T, ParserError>;

/// Errors: 42601.
pub(super) fn read(text: &str) -> SqlResult<RoutineStatement> {
    parsed(text, statement)
}

/// `function f(a integer)`. Errors: 42601.
pub(super) fn signature(text: &str) -> SqlResult<Signature> {
    parsed(text, |parser| {
        let kind = kind(parser)?;
        named(parser, kind)
    })
}

pub(in crate::parse) fn parsed<T>(text: &str, work: impl FnOnce(&mut Parser<'_>) -> Read<T>) -> SqlResult<T> {
    let failed = |e: ParserError| {
        let mut error = told(text, &e);
        error.position = None;
        error
    };
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location();
    let tokens = tokens.map_err(|e| failed(ParserError::from(e)))?;
    let dialect = BoundedDialect::new(tokens.len());
    let done = dialect.parse(|dialect| {
        let mut parser = Parser::new(dialect)
            .with_recursion_limit(RECURSION_PER_LEVEL * complexity::NESTING_MAX)
            .with_tokens_with_locations(tokens);
        let read = work(&mut parser)?;
        match parser.peek_token().token {
            Token::EOF => Ok(read),
            _ => unexpected(&mut parser),
        }
    });
    done.map_err(|failure| match failure {
        Failure::Syntax(error) => failed(error),
        Failure::TooComplex => too_deep(),
        Failure::Interrupted(error) => error,
    })
}

/// Begins what is told in full.
const TOLD: &str = "\u{f8ff}";

fn told(text: &str, error: &ParserError) -> SqlError {
    match error {
        ParserError::ParserError(said) if said.starts_with(TOLD) => {
            SqlError::new(base::error::SqlState::SYNTAX_ERROR, &said[TOLD.len()..])
        }
        error => syntax_error(text, error),
    }
}

pub(in crate::parse) fn unexpected<T>(parser: &mut Parser<'_>) -> Read<T> {
    let token = parser.next_token().token;
    let shown = if token == Token::EOF { String::new() } else { token.to_string() };
    Err(ParserError::ParserError(format!("{TOLD}{}", wrong(&shown).message)))
}

/// Takes a word if it comes next.
pub(in crate::parse) fn takes(parser: &mut Parser<'_>, words: &[&str]) -> bool {
    let is = |nth: usize, word: &str| match parser.peek_nth_token(nth).token {
        Token::Word(w) => w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word),
        _ => false,
    };
    let found = words.iter().enumerate().all(|(nth, word)| is(nth, word));
    if found {
        words.iter().for_each(|_| drop(parser.next_token()));
    }
    found
}

pub(in crate::parse) fn expect(parser: &mut Parser<'_>, words: &[&str]) -> Read<()> {
    if takes(parser, words) { Ok(()) } else { unexpected(parser) }
}

fn kind(parser: &mut Parser<'_>) -> Read<RoutineKind> {
    if takes(parser, &["function"]) {
        Ok(RoutineKind::Function)
    } else if takes(parser, &["procedure"]) {
        Ok(RoutineKind::Procedure)
    } else if takes(parser, &["routine"]) {
        Ok(RoutineKind::Routine)
    } else if takes(parser, &["aggregate"]) {
        Ok(RoutineKind::Aggregate)
    } else {
        unexpected(parser)
    }
}

fn statement(parser: &mut Parser<'_>) -> Read<RoutineStatement> {
    if takes(parser, &["create"]) {
        let or_replace = takes(parser, &["or", "replace"]);
        let kind = kind(parser)?;
        if kind == RoutineKind::Aggregate {
            let made = super::aggregates::create(parser, or_replace)?;
            return Ok(RoutineStatement::CreateAggregate(Box::new(made)));
        }
        let is_procedure = kind == RoutineKind::Procedure;
        return create(parser, or_replace, is_procedure).map(|c| RoutineStatement::Create(Box::new(c)));
    }
    if takes(parser, &["drop"]) {
        let kind = kind(parser)?;
        let if_exists = takes(parser, &["if", "exists"]);
        let signatures = parser.parse_comma_separated(|parser| named(parser, kind))?;
        let is_cascade = takes(parser, &["cascade"]);
        let _ = !is_cascade && takes(parser, &["restrict"]);
        return Ok(RoutineStatement::Drop { if_exists, signatures, is_cascade });
    }
    if takes(parser, &["alter"]) {
        let kind = kind(parser)?;
        let signature = named(parser, kind)?;
        let action = alter(parser)?;
        return Ok(RoutineStatement::Alter { signature, action });
    }
    expect(parser, &["comment", "on"])?;
    let kind = kind(parser)?;
    let signature = named(parser, kind)?;
    expect(parser, &["is"])?;
    let text = if takes(parser, &["null"]) { None } else { Some(literal(parser)?) };
    Ok(RoutineStatement::Comment { signature, text })
}

fn named(parser: &mut Parser<'_>, kind: RoutineKind) -> Read<Signature> {
    let name = parser.parse_object_name(false)?;
    let types = match parser.consume_token(&Token::LParen) {
        false => None,
        // What a routine gives back is no part of its signature.
        true => {
            let all = parameters(parser)?.into_iter();
            let given =
                all.filter(|p| !p.mode.as_deref().is_some_and(|mode| mode.eq_ignore_ascii_case("out")));
            Some(given.map(|p| p.data_type).collect())
        }
    };
    Ok(Signature { kind, name, types })
}

fn alter(parser: &mut Parser<'_>) -> Read<AlterRoutine> {
    if takes(parser, &["rename", "to"]) {
        return Ok(AlterRoutine::Rename(names::fold(&parser.parse_identifier()?)));
    }
    if takes(parser, &["set", "schema"]) {
        return Ok(AlterRoutine::SetSchema(names::fold(&parser.parse_identifier()?)));
    }
    if takes(parser, &["owner", "to"]) {
        return parser.parse_owner().map(AlterRoutine::Owner);
    }
    let mut words = Vec::new();
    while parser.peek_token().token != Token::EOF {
        words.push(parser.next_token().token.to_string());
    }
    match words.is_empty() {
        true => unexpected(parser),
        false => Ok(AlterRoutine::Other(words.join(" "))),
    }
}

fn create(parser: &mut Parser<'_>, or_replace: bool, is_procedure: bool) -> Read<CreateRoutine> {
    let name = parser.parse_object_name(false)?;
    parser.expect_token(&Token::LParen)?;
    let parameters = parameters(parser)?;
    let mut made = CreateRoutine {
        or_replace,
        is_procedure,
        name,
        parameters,
        result: None,
        language: None,
        volatility: None,
        is_strict: None,
        is_leakproof: None,
        is_definer: None,
        parallel: None,
        cost: None,
        rows: None,
        body: None,
        unknown: None,
    };
    // RETURNS NULL ON NULL INPUT is an option.
    let is_result =
        !matches!(&parser.peek_nth_token(1).token, Token::Word(w) if w.value.eq_ignore_ascii_case("null"));
    if is_result && takes(parser, &["returns"]) {
        made.result = Some(result(parser)?);
    }
    while parser.peek_token().token != Token::EOF {
        option(parser, &mut made)?;
    }
    Ok(made)
}

fn result(parser: &mut Parser<'_>) -> Read<DeclaredResult> {
    if takes(parser, &["setof"]) {
        return parser.parse_data_type().map(DeclaredResult::SetOf);
    }
    let is_list = parser.peek_nth_token(1).token == Token::LParen;
    if is_list && takes(parser, &["table"]) {
        parser.expect_token(&Token::LParen)?;
        let column = |parser: &mut Parser<'_>| {
            Ok((names::fold(&parser.parse_identifier()?), parser.parse_data_type()?))
        };
        let columns = parser.parse_comma_separated(column)?;
        parser.expect_token(&Token::RParen)?;
        return Ok(DeclaredResult::Table(columns));
    }
    parser.parse_data_type().map(DeclaredResult::One)
}

/// What stands in parentheses, and the one that closes them. An aggregate without arguments has a star there.
pub(super) fn parameters(parser: &mut Parser<'_>) -> Read<Vec<Declared>> {
    if parser.peek_nth_token(1).token == Token::RParen && parser.consume_token(&Token::Mul) {
        parser.next_token();
        return Ok(Vec::new());
    }
    if parser.consume_token(&Token::RParen) {
        return Ok(Vec::new());
    }
    let all = parser.parse_comma_separated(parameter)?;
    parser.expect_token(&Token::RParen)?;
    Ok(all)
}

fn parameter(parser: &mut Parser<'_>) -> Read<Declared> {
    let mut mode = None;
    for word in ["inout", "out", "variadic", "in"] {
        if takes(parser, &[word]) {
            mode = (word != "in").then(|| word.to_uppercase());
            break;
        }
    }
    if mode.is_none() && takes(parser, &["out"]) {
        mode = Some("INOUT".into());
    }
    let ends = |parser: &Parser<'_>| match parser.peek_token().token {
        Token::Comma | Token::RParen | Token::Eq | Token::EOF => true,
        Token::Word(word) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case("default"),
        _ => false,
    };
    let alone = parser.maybe_parse(|parser| {
        let data_type = parser.parse_data_type()?;
        if ends(parser) { Ok(data_type) } else { unexpected(parser) }
    })?;
    let (name, data_type) = match alone {
        Some(data_type) => (None, data_type),
        None => {
            let name = names::fold(&parser.parse_identifier()?);
            (Some(name), parser.parse_data_type()?)
        }
    };
    let has_default = takes(parser, &["default"]) || parser.consume_token(&Token::Eq);
    let default = if has_default { Some(parser.parse_expr()?) } else { None };
    Ok(Declared { mode, name, data_type, default })
}

/// Keeps what is said once. Errors: 42601 if it is said again.
pub(super) fn put<T>(place: &mut Option<T>, value: T) -> Read<()> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(ParserError::ParserError(format!("{TOLD}conflicting or redundant options"))),
    }
}

/// An option of words alone; false: something else comes next.
fn flag(parser: &mut Parser<'_>, made: &mut CreateRoutine) -> Read<bool> {
    type Set = fn(&mut CreateRoutine) -> Read<()>;
    let flags: [(&[&str], Set); 13] = [
        (&["immutable"], |made| put(&mut made.volatility, Volatility::Immutable)),
        (&["stable"], |made| put(&mut made.volatility, Volatility::Stable)),
        (&["volatile"], |made| put(&mut made.volatility, Volatility::Volatile)),
        (&["strict"], |made| put(&mut made.is_strict, true)),
        (&["returns", "null", "on", "null", "input"], |made| put(&mut made.is_strict, true)),
        (&["called", "on", "null", "input"], |made| put(&mut made.is_strict, false)),
        (&["not", "leakproof"], |made| put(&mut made.is_leakproof, false)),
        (&["leakproof"], |made| put(&mut made.is_leakproof, true)),
        (&["security", "invoker"], |made| put(&mut made.is_definer, false)),
        (&["security", "definer"], |made| put(&mut made.is_definer, true)),
        (&["parallel", "safe"], |made| put(&mut made.parallel, Parallel::Safe)),
        (&["parallel", "unsafe"], |made| put(&mut made.parallel, Parallel::Unsafe)),
        (&["parallel", "restricted"], |made| put(&mut made.parallel, Parallel::Restricted)),
    ];
    let _ = takes(parser, &["external"]);
    for (words, set) in flags {
        if takes(parser, words) {
            return set(made).map(|()| true);
        }
    }
    Ok(false)
}

fn option(parser: &mut Parser<'_>, made: &mut CreateRoutine) -> Read<()> {
    if flag(parser, made)? {
        return Ok(());
    }
    if takes(parser, &["language"]) {
        let language = match parser.peek_token().token {
            Token::Word(_) => names::fold(&parser.parse_identifier()?),
            _ => literal(parser)?.to_lowercase(),
        };
        return put(&mut made.language, language);
    }
    if takes(parser, &["cost"]) {
        let cost = number(parser)?;
        return put(&mut made.cost, cost);
    }
    if takes(parser, &["rows"]) {
        let rows = number(parser)?;
        return put(&mut made.rows, rows);
    }
    if let Token::Word(word) = parser.peek_token().token
        && ["set", "support", "window", "transform"].contains(&word.value.to_lowercase().as_str())
    {
        made.unknown = Some(rest(parser));
        return Ok(());
    }
    if takes(parser, &["as"]) {
        let body = literal(parser)?;
        return put(&mut made.body, Body::Quoted(body));
    }
    let is_standard = matches!(&parser.peek_token().token, Token::Word(w) if w.quote_style.is_none()
        && (w.value.eq_ignore_ascii_case("return") || w.value.eq_ignore_ascii_case("begin")));
    if is_standard {
        let text = rest(parser);
        return put(&mut made.body, Body::Standard(text));
    }
    unexpected(parser)
}

/// All that is left of the text.
fn rest(parser: &mut Parser<'_>) -> String {
    let mut text = String::new();
    while let Some(token) = parser.next_token_no_skip().map(|t| t.token.clone()) {
        if token == Token::EOF {
            break;
        }
        text.push_str(&super::written_token(&token));
    }
    text.trim().to_string()
}

fn number(parser: &mut Parser<'_>) -> Read<String> {
    match parser.peek_token().token {
        Token::Number(text, _) => {
            parser.next_token();
            Ok(text)
        }
        _ => unexpected(parser),
    }
}

pub(in crate::parse) fn literal(parser: &mut Parser<'_>) -> Read<String> {
    match parser.peek_token().token {
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => {
            parser.next_token();
            Ok(text)
        }
        Token::DollarQuotedString(quoted) => {
            parser.next_token();
            Ok(quoted.value)
        }
        _ => unexpected(parser),
    }
}

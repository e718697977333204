//! Statements about triggers. The parser knows few of their forms, so each travels as `CREATE FUNCTION "…"() AS '…'` with
//! its own text, as statements about functions do.

use super::constraints::is_word;
use super::routines::written::{Read, expect, literal, parsed, takes, unexpected};
use super::routines::{carried_by, carry};
use crate::names;
use base::error::SqlResult;
use base::schema::triggers::{Event, Level, Transitions};
use sqlparser::ast::{Expr, ObjectName, Statement};
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The name of the function that carries a statement.
const CARRIER: &str = "\u{f8ff}trigger";

/// A statement about triggers.
#[derive(Clone, Debug, PartialEq)]
pub enum TriggerStatement {
    Create(Box<CreateTrigger>),
    Drop { if_exists: bool, name: String, table: ObjectName },
    Rename { name: String, table: ObjectName, to: String },
    Comment { name: String, table: ObjectName, text: Option<String> },
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateTrigger {
    pub or_replace: bool,
    pub is_constraint: bool,
    pub name: String,
    pub timing: Timing,
    pub events: Vec<WrittenEvent>,
    pub table: ObjectName,
    pub transitions: Transitions,
    /// REFERENCING names rows, not tables.
    pub names_rows: bool,
    pub level: Level,
    pub condition: Option<Expr>,
    pub function: ObjectName,
    pub arguments: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    Before,
    After,
    InsteadOf,
}

/// An event, and the columns that UPDATE OF names.
#[derive(Clone, Debug, PartialEq)]
pub struct WrittenEvent {
    pub event: Event,
    pub columns: Vec<String>,
}

/// The statement about triggers that another one carries. Errors: 42601.
pub fn trigger_statement(statement: &Statement) -> SqlResult<Option<TriggerStatement>> {
    text(statement).map(|text| parsed(text, read)).transpose()
}

/// The text of such a statement.
pub(super) fn text(statement: &Statement) -> Option<&str> {
    carried_by(statement, CARRIER)
}

/// Errors: 42601 for a statement that is carried and cannot be read.
pub(super) fn check(statement: &Statement) -> SqlResult<()> {
    trigger_statement(statement).map(|_| ())
}

pub(super) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|t| is_word(t, "trigger")) {
        return tokens;
    }
    let mut made = Vec::with_capacity(tokens.len());
    for statement in tokens.split_inclusive(|t| matches!(t.token, Token::SemiColon)) {
        let words: Vec<usize> = (0..statement.len())
            .filter(|i| !matches!(statement[*i].token, Token::Whitespace(_) | Token::SemiColon | Token::EOF))
            .collect();
        match is_about_one(statement, &words) {
            true => carry(CARRIER, statement, &words, &mut made),
            false => made.extend_from_slice(statement),
        }
    }
    made
}

fn is_about_one(statement: &[TokenWithSpan], words: &[usize]) -> bool {
    let is = |nth: usize, word: &str| words.get(nth).is_some_and(|i| is_word(&statement[*i], word));
    let made_at = if is(1, "or") && is(2, "replace") { 3 } else { 1 };
    let is_made = is(made_at, "trigger") || is(made_at, "constraint") && is(made_at + 1, "trigger");
    is(0, "create") && is_made
        || (is(0, "drop") || is(0, "alter")) && is(1, "trigger")
        || is(0, "comment") && is(1, "on") && is(2, "trigger")
}

fn read(parser: &mut Parser<'_>) -> Read<TriggerStatement> {
    if takes(parser, &["create"]) {
        return create(parser).map(|create| TriggerStatement::Create(Box::new(create)));
    }
    if takes(parser, &["drop", "trigger"]) {
        let if_exists = takes(parser, &["if", "exists"]);
        let (name, table) = named(parser)?;
        // Nothing depends on a trigger.
        let _ = takes(parser, &["cascade"]) || takes(parser, &["restrict"]);
        return Ok(TriggerStatement::Drop { if_exists, name, table });
    }
    if takes(parser, &["alter", "trigger"]) {
        let (name, table) = named(parser)?;
        expect(parser, &["rename", "to"])?;
        let to = identifier(parser)?;
        return Ok(TriggerStatement::Rename { name, table, to });
    }
    expect(parser, &["comment", "on", "trigger"])?;
    let (name, table) = named(parser)?;
    expect(parser, &["is"])?;
    let text = if takes(parser, &["null"]) { None } else { Some(literal(parser)?) };
    Ok(TriggerStatement::Comment { name, table, text })
}

fn identifier(parser: &mut Parser<'_>) -> Read<String> {
    Ok(names::fold(&parser.parse_identifier()?))
}

/// `name ON table`.
fn named(parser: &mut Parser<'_>) -> Read<(String, ObjectName)> {
    let name = identifier(parser)?;
    expect(parser, &["on"])?;
    Ok((name, parser.parse_object_name(false)?))
}

fn create(parser: &mut Parser<'_>) -> Read<CreateTrigger> {
    let or_replace = takes(parser, &["or", "replace"]);
    let is_constraint = takes(parser, &["constraint"]);
    expect(parser, &["trigger"])?;
    let name = identifier(parser)?;
    let timing = timing(parser)?;
    let mut events = vec![event(parser)?];
    while takes(parser, &["or"]) {
        events.push(event(parser)?);
    }
    expect(parser, &["on"])?;
    let table = parser.parse_object_name(false)?;
    if is_constraint {
        characteristics(parser)?;
    }
    let (transitions, names_rows) = transitions(parser)?;
    let level = level(parser)?;
    let condition = match takes(parser, &["when"]) {
        false => None,
        true => {
            parser.expect_token(&Token::LParen)?;
            let condition = parser.parse_expr()?;
            parser.expect_token(&Token::RParen)?;
            Some(condition)
        }
    };
    expect(parser, &["execute"])?;
    if !takes(parser, &["procedure"]) {
        expect(parser, &["function"])?;
    }
    let function = parser.parse_object_name(false)?;
    parser.expect_token(&Token::LParen)?;
    let arguments = match parser.consume_token(&Token::RParen) {
        true => Vec::new(),
        false => {
            let all = parser.parse_comma_separated(argument)?;
            parser.expect_token(&Token::RParen)?;
            all
        }
    };
    Ok(CreateTrigger {
        or_replace,
        is_constraint,
        name,
        timing,
        events,
        table,
        transitions,
        names_rows,
        level,
        condition,
        function,
        arguments,
    })
}

fn timing(parser: &mut Parser<'_>) -> Read<Timing> {
    if takes(parser, &["before"]) {
        Ok(Timing::Before)
    } else if takes(parser, &["after"]) {
        Ok(Timing::After)
    } else if takes(parser, &["instead", "of"]) {
        Ok(Timing::InsteadOf)
    } else {
        unexpected(parser)
    }
}

fn event(parser: &mut Parser<'_>) -> Read<WrittenEvent> {
    let words = [
        ("insert", Event::Insert),
        ("delete", Event::Delete),
        ("update", Event::Update),
        ("truncate", Event::Truncate),
    ];
    let Some((_, event)) = words.into_iter().find(|(word, _)| takes(parser, &[word])) else {
        return unexpected(parser);
    };
    let columns = match event == Event::Update && takes(parser, &["of"]) {
        true => parser.parse_comma_separated(identifier)?,
        false => Vec::new(),
    };
    Ok(WrittenEvent { event, columns })
}

/// What a constraint trigger says of its table and of when it fires.
fn characteristics(parser: &mut Parser<'_>) -> Read<()> {
    if takes(parser, &["from"]) {
        parser.parse_object_name(false)?;
    }
    let all: [&[&str]; 4] =
        [&["not", "deferrable"], &["deferrable"], &["initially", "deferred"], &["initially", "immediate"]];
    while all.iter().any(|words| takes(parser, words)) {}
    Ok(())
}

/// Takes `REFERENCING …`: the tables that it names, and whether it names rows.
fn transitions(parser: &mut Parser<'_>) -> Read<(Transitions, bool)> {
    let (mut named, mut names_rows) = (Transitions::default(), false);
    if !takes(parser, &["referencing"]) {
        return Ok((named, names_rows));
    }
    loop {
        let is_old = takes(parser, &["old"]);
        if !is_old {
            expect(parser, &["new"])?;
        }
        if !takes(parser, &["table"]) {
            expect(parser, &["row"])?;
            names_rows = true;
        }
        let _ = takes(parser, &["as"]);
        let name = identifier(parser)?;
        let place = if is_old { &mut named.old } else { &mut named.new };
        if place.replace(name).is_some() {
            return unexpected(parser);
        }
        let is_over = |parser: &mut Parser<'_>| match &parser.peek_token().token {
            Token::Word(word) => !["old", "new"].contains(&word.value.to_lowercase().as_str()),
            _ => true,
        };
        if is_over(parser) {
            return Ok((named, names_rows));
        }
    }
}

fn level(parser: &mut Parser<'_>) -> Read<Level> {
    if !takes(parser, &["for"]) {
        return Ok(Level::Statement);
    }
    let _ = takes(parser, &["each"]);
    if takes(parser, &["row"]) {
        return Ok(Level::Row);
    }
    expect(parser, &["statement"])?;
    Ok(Level::Statement)
}

/// A text, a number, or a word, which is a text.
fn argument(parser: &mut Parser<'_>) -> Read<String> {
    match parser.peek_token().token {
        Token::Number(text, _) => {
            parser.next_token();
            Ok(text)
        }
        Token::Word(_) => identifier(parser),
        _ => literal(parser),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(sql: &str) -> Vec<TriggerStatement> {
        let parsed = crate::parse::parse(sql).unwrap();
        parsed.iter().map(|statement| trigger_statement(statement).unwrap().unwrap()).collect()
    }

    #[test]
    fn triggers_are_read_with_all_their_parts() {
        let sql = "create or replace trigger \"T\" before insert or update of a, \"B\" or delete on s.t
            for each row when (new.a > 1 and old.* is distinct from new.*) execute procedure f('x''y', 7, Word);
            create trigger t2 after truncate on t execute function s.g()";
        let all = read(sql);
        let [TriggerStatement::Create(first), TriggerStatement::Create(second)] = all.as_slice() else {
            panic!("{all:?}")
        };
        assert!(first.or_replace && !first.is_constraint && first.transitions.is_empty());
        assert_eq!((first.name.as_str(), first.timing, first.level), ("T", Timing::Before, Level::Row));
        let events: Vec<Event> = first.events.iter().map(|event| event.event).collect();
        assert_eq!(events, [Event::Insert, Event::Update, Event::Delete]);
        assert_eq!(first.events[1].columns, ["a", "B"]);
        assert_eq!(first.arguments, ["x'y", "7", "word"]);
        assert_eq!(second.level, Level::Statement);
        assert_eq!(second.function.to_string(), "s.g");
    }

    #[test]
    fn triggers_are_dropped_renamed_and_commented_on() {
        let all = read(
            "drop trigger if exists a on s.t cascade; alter trigger a on t rename to \"B\";
             comment on trigger a on t is 'it''s'; comment on trigger a on t is null",
        );
        assert!(matches!(&all[0], TriggerStatement::Drop { if_exists: true, name, .. } if name == "a"));
        assert!(matches!(&all[1], TriggerStatement::Rename { to, .. } if to == "B"));
        assert!(matches!(&all[2], TriggerStatement::Comment { text: Some(text), .. } if text == "it's"));
        assert!(matches!(&all[3], TriggerStatement::Comment { text: None, .. }));
    }

    #[test]
    fn what_is_not_there_is_read_to_be_refused_by_name() {
        let all = read(
            "create constraint trigger c after insert on t deferrable initially deferred for each row execute function f();
             create trigger r after update on t referencing old table as o new table as n for each statement execute function f()",
        );
        assert!(matches!(&all[0], TriggerStatement::Create(create) if create.is_constraint));
        assert!(matches!(&all[1], TriggerStatement::Create(create)
            if create.transitions.old.as_deref() == Some("o") && create.transitions.new.as_deref() == Some("n")));
        for sql in [
            "create trigger t before select on t execute function f()",
            "create trigger t before insert execute function f()",
            "create trigger t before insert on t for each row f()",
            "drop trigger t",
        ] {
            let error = crate::parse::parse(sql).unwrap_err();
            assert_eq!(error.state, base::error::SqlState::SYNTAX_ERROR, "{sql}");
        }
    }
}

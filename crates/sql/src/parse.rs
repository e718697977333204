//! Text to statements.
//!
//! KEEPS: parsing takes time and stack linear in the length of the text; a statement that comes out of here has a
//! tree of bounded depth.

mod asides;
mod attributes;
mod call_marks;
mod chains;
mod check_options;
mod comments;
mod complexity;
mod constraints;
mod current_of;
mod databases;
mod deferrals;
mod dialect;
mod do_blocks;
mod domains;
mod early_locks;
mod fetch_first;
mod frames;
mod groups;
mod identities;
mod including;
mod inference;
mod kinds;
mod likes;
mod long_names;
mod materialized;
mod merges;
mod moments;
mod no_columns;
mod null_tests;
mod only;
mod overriding;
mod partitions;
mod reindex;
mod roles;
mod routines;
mod row_locks;
mod schemas;
mod sequences;
mod signs;
mod spellings;
mod storage;
mod subscripts;
mod triggers;
mod trims;
mod type_calls;
mod types;
mod waits;

pub use attributes::{ATTRIBUTE, attribute_of, with_attributes};
pub use call_marks::{is_rows_from, is_variadic, name_behind_variadic};
pub use chains::balanced;
pub use comments::constraint_of;
pub use complexity::too_deep;
pub use constraints::{CONSTRAINTS, SAME_NAME, SET_COLUMNS};
pub use current_of::{current_of, with_condition};
pub use databases::{DatabaseWork, OfDatabase, OptionValue, WantedSetting, of_database};
pub use do_blocks::{DO_BLOCK, DoBlock, do_block};
pub use domains::{OfDomain, of_domain};
pub use frames::{EXCLUDES, is_exclusion};
pub use identities::{IdentityChange, identity_change};
pub use including::{included, nulls_are_equal};
pub use inference::{Inference, inference};
pub use kinds::{AlteredKind, altered_kind, said_options};
pub use likes::{Like, like_of};
pub use materialized::{Refresh, asks_for_data, refresh_of};
pub use merges::{DEFAULT_VALUES, NOTHING};
pub use moments::moment;
pub use no_columns::is_no_column;
pub use only::{says_only, take_only};
pub use overriding::{Overriding, overriding};
pub use partitions::{attached_index, attached_to, detached};
pub use reindex::{Cluster, Indexed, Reindex, cluster, reindex};
pub use routines::{
    AlterRoutine, Body as RoutineBody, CreateAggregate, CreateRoutine, Declared, DeclaredResult, RoutineKind,
    RoutineStatement, Signature, carried_text, granted_routine, routine_statement, shown as shown_name,
    signature_of,
};
pub use schemas::{elements_of, has_elements};
pub use sequences::change_of as change_of_sequence;
pub use spellings::names_of_columns;
pub use storage::{is_physical, stays};
pub use triggers::{CreateTrigger, Timing, TriggerStatement, WrittenEvent, trigger_statement};
pub use types::{OfType, change_of_type};
pub use waits::WAIT_FOR;

use base::SqlError;
use base::error::{SqlResult, SqlState};
use constraints::is_word;
use dialect::{BoundedDialect, Failure};
use sqlparser::ast::{Expr, Statement};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, Whitespace};

/// Stands in a FETCH for MOVE, which the parser does not know.
pub const MOVE: &str = "meridian move";

/// The parser's own recursion for one level of parentheses: a subquery is read as an expression, a query and a table.
const RECURSION_PER_LEVEL: usize = 5;

/// Begins names that stand for what only this program says; no client can say them.
pub const OWN_NAMES: char = '\u{f8ff}';

/// What a client's text says.
pub struct Request {
    /// In order.
    pub statements: Vec<Statement>,
    /// What is told of names that are too long and were cut.
    pub notices: Vec<String>,
}

/// The statements of a client's text. Errors: those of [`parse`], 42602 for a name of this program's own.
pub fn request(sql: &str) -> SqlResult<Request> {
    let mut tokens = tokens_of(sql)?;
    let notices = long_names::cut_all(&mut tokens);
    let statements = parse_tokens(sql, tokens)?;
    if sql.contains(OWN_NAMES) {
        refuse_own_names(sql)?;
    }
    Ok(Request { statements, notices })
}

/// The same of a function's body, where nothing is told.
pub fn parse_request(sql: &str) -> SqlResult<Vec<Statement>> {
    Ok(request(sql)?.statements)
}

fn refuse_own_names(sql: &str) -> SqlResult<()> {
    let tokens = tokens_of(sql)?;
    let is_own = |t: &&TokenWithSpan| matches!(&t.token, Token::Word(word) if word.value.contains(OWN_NAMES));
    let Some(own) = tokens.iter().find(is_own) else { return Ok(()) };
    Err(SqlError::new(SqlState(*b"42602"), format!("invalid name {}", own.token))
        .detail("The character U+F8FF is kept for names that the database makes.")
        .hint("Choose a name without it."))
}

/// The statements of a text, in order. Errors: 42601 with the place and what was found there; 54001 for what is nested
/// too deeply or can be read in too many ways; 57014 if the statement was canceled meanwhile.
pub fn parse(sql: &str) -> SqlResult<Vec<Statement>> {
    parse_tokens(sql, tokens_of(sql)?)
}

fn tokens_of(sql: &str) -> SqlResult<Vec<TokenWithSpan>> {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location();
    tokens.map_err(|e| syntax_error(sql, &ParserError::from(e)))
}

fn parse_tokens(sql: &str, tokens: Vec<TokenWithSpan>) -> SqlResult<Vec<Statement>> {
    let blank = |t: &Token| matches!(t, Token::Whitespace(_) | Token::SemiColon | Token::EOF);
    if tokens.iter().all(|t| blank(&t.token)) {
        return Ok(Vec::new());
    }
    complexity::check(&tokens)?;
    complexity::check_names(&tokens)?;
    crate::interrupt::check()?;
    let tokens = schemas::known(tokens);
    let tokens = fetch_first::known(do_blocks::known(triggers::known(routines::known(tokens))));
    let tokens = only::known(partitions::known(call_marks::known(tokens)));
    let tokens = overriding::marked(null_tests::known(with_whole_fetches(current_of::known(tokens))));
    let tokens = constraints::known(kinds::known(including::known(no_columns::known(tokens))));
    let tokens = comments::known(roles::known(spellings::known(tokens)));
    let tokens = inference::known(early_locks::known(row_locks::known(merges::known(tokens))));
    let tokens = materialized::known(sequences::known(reindex::known(tokens)));
    let tokens = check_options::known(types::known(domains::known(databases::known(tokens))));
    let tokens = identities::known(likes::known(waits::known(trims::known(deferrals::known(tokens)))?)?);
    let tokens = storage::known(asides::known(groups::enclosed(frames::known(tokens))));
    let tokens = asides::with_plain_strings(tokens);
    let (have_signs, says_only) = (signs::meet(&tokens), tokens.iter().any(only::is_said));
    let have_type_calls = type_calls::are_said(&tokens);
    let dialect = BoundedDialect::new(tokens.len());
    let parsed = dialect.parse(|dialect| {
        Parser::new(dialect)
            .with_recursion_limit(RECURSION_PER_LEVEL * complexity::NESTING_MAX)
            .with_tokens_with_locations(tokens)
            .parse_statements()
    });
    let mut statements = parsed.map_err(|failure| match failure {
        Failure::Syntax(error) => syntax_error(sql, &error),
        Failure::TooComplex => too_deep(),
        Failure::Interrupted(error) => error,
    })?;
    statements.iter().try_for_each(refuse_wrapped)?;
    statements.iter().try_for_each(|s| routines::check(s).and_then(|()| triggers::check(s)))?;
    if have_signs {
        statements.iter_mut().for_each(signs::apart);
    }
    if says_only {
        statements.iter_mut().for_each(only::as_hints);
    }
    statements.iter_mut().for_each(chains::balance);
    type_calls::as_casts(&mut statements, have_type_calls);
    statements.iter_mut().for_each(|statement| subscripts::settle(sql, statement));
    moments::settle(sql, &mut statements);
    Ok(statements)
}

/// Whether EXPLAIN and PREPARE are about statements that they are for. Errors: 42601.
fn refuse_wrapped(statement: &Statement) -> SqlResult<()> {
    use Statement as S;
    let is_plain =
        |inner: &S| matches!(inner, S::Query(_) | S::Insert(_) | S::Update(_) | S::Delete(_) | S::Merge(_));
    let (inner, is_fine) = match statement {
        S::Prepare { statement: inner, .. } => (inner, is_plain(inner)),
        S::Explain { statement: inner, .. } => {
            let makes = |s: &S| matches!(s, S::CreateTable(_) | S::CreateView(_));
            let runs = |s: &S| matches!(s, S::Execute { .. } | S::Declare { .. });
            (inner, is_plain(inner) || makes(inner) || runs(inner))
        }
        _ => return Ok(()),
    };
    if is_fine {
        return Ok(());
    }
    let text = inner.to_string();
    let word = text.split_whitespace().next().unwrap_or_default();
    Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{word}\"")))
}

/// An expression: one that is kept as text in the catalog, or made here.
pub fn parse_expr(sql: &str) -> SqlResult<Expr> {
    let wrong = |e: ParserError| SqlError::new(SqlState::SYNTAX_ERROR, e.to_string());
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location();
    let tokens = tokens.map_err(|e| wrong(ParserError::from(e)))?;
    let dialect = BoundedDialect::new(tokens.len());
    let parsed = dialect.parse(|dialect| {
        Parser::new(dialect)
            .with_recursion_limit(RECURSION_PER_LEVEL * complexity::NESTING_MAX)
            .with_tokens_with_locations(tokens)
            .parse_expr()
    });
    let mut parsed = parsed.map_err(|failure| match failure {
        Failure::Syntax(error) => wrong(error),
        Failure::TooComplex => too_deep(),
        Failure::Interrupted(error) => error,
    })?;
    subscripts::settle(sql, &mut parsed);
    Ok(parsed)
}

/// FETCH in the one form that the parser knows: with a direction, its number, and FROM. MOVE becomes a FETCH
/// into a place of its own.
fn with_whole_fetches(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_fetch = |t: &TokenWithSpan| is_word(t, "fetch") || is_word(t, "move");
    if !tokens.iter().any(is_fetch) {
        return tokens;
    }
    let mut whole = Vec::with_capacity(tokens.len() + 4);
    for statement in tokens.split_inclusive(|t| matches!(t.token, Token::SemiColon)) {
        let words: Vec<&TokenWithSpan> = statement
            .iter()
            .filter(|t| !matches!(t.token, Token::Whitespace(_) | Token::SemiColon | Token::EOF))
            .collect();
        let [verb, direction @ .., name] = words.as_slice() else {
            whole.extend_from_slice(statement);
            continue;
        };
        if !is_fetch(verb) {
            whole.extend_from_slice(statement);
            continue;
        }
        let direction = match direction {
            [direction @ .., last] if is_word(last, "from") || is_word(last, "in") => direction,
            direction => direction,
        };
        let span = verb.span;
        let word = |text: &str| TokenWithSpan { token: Token::make_word(text, None), span };
        let number = |text: &str| TokenWithSpan { token: Token::Number(text.into(), false), span };
        let blank = || TokenWithSpan { token: Token::Whitespace(Whitespace::Space), span };
        let minus = |t: &TokenWithSpan| matches!(t.token, Token::Minus);
        let direction: Vec<TokenWithSpan> = match direction {
            [] => vec![word("NEXT")],
            [way] if is_word(way, "forward") || is_word(way, "backward") => {
                vec![(*way).clone(), number("1")]
            }
            [sign, count] if minus(sign) => vec![word("BACKWARD"), (*count).clone()],
            [way, sign, count] if minus(sign) => vec![(*way).clone(), number(&format!("-{}", count.token))],
            given => given.iter().map(|t| (*t).clone()).collect(),
        };
        let mut parts = vec![word("FETCH")];
        parts.extend(direction);
        parts.extend([word("FROM"), (*name).clone()]);
        if is_word(verb, "move") {
            let place = Token::make_word(MOVE, Some('"'));
            parts.extend([word("INTO"), TokenWithSpan { token: place, span }]);
        }
        for part in parts {
            whole.extend([part, blank()]);
        }
        let end = statement.iter().filter(|t| matches!(t.token, Token::SemiColon | Token::EOF));
        whole.extend(end.cloned());
    }
    whole
}

/// PostgreSQL's wording of a parser's complaint.
fn syntax_error(sql: &str, error: &ParserError) -> SqlError {
    let text = match error {
        ParserError::ParserError(text) | ParserError::TokenizerError(text) => text.as_str(),
        ParserError::RecursionLimitExceeded => return too_deep(),
    };
    let (said, place) = text.split_once(" at Line: ").unwrap_or((text, ""));
    let found = said.split_once("found: ").map(|(_, found)| found.trim());
    let message = match found {
        Some("EOF") | None if said.contains("EOF") || found == Some("EOF") => {
            "syntax error at end of input".to_string()
        }
        Some(found) => format!("syntax error at or near \"{found}\""),
        None if said.starts_with("Explain must be root") => "syntax error at or near \"explain\"".into(),
        None => format!("syntax error: {said}"),
    };
    if said.contains("an identifier or a '*' after '.'") && attributes::asks_for_all(sql) {
        return SqlError::unsupported("all attributes of a row at once, (c).*")
            .hint("Name them: (c).a, (c).b.");
    }
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
    const STATEMENTS: &[&str] = &["REINDEX", "CHECKPOINT", "REFRESH", "REASSIGN", "SECURITY"];
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
    fn intervals_of_intervals_are_counted() {
        let nested = |levels: usize| format!("SELECT {} '1 day'", "interval ".repeat(levels));
        assert!(parse(&nested(1)).is_ok());
        assert_eq!(parse(&nested(40_000)).unwrap_err().state, SqlState::STATEMENT_TOO_COMPLEX);
    }

    #[test]
    fn statements_inside_each_other_are_counted() {
        for opened in ["explain ", "explain analyze ", "prepare p as ", "insert into t ", "if true then "] {
            let refused = parse(&format!("{}select 1", opened.repeat(20))).unwrap_err();
            assert_eq!(refused.state, SqlState::STATEMENT_TOO_COMPLEX, "{opened}");
        }
        let dropped = vec!["drop column if exists c"; 100].join(", ");
        assert!(parse(&format!("alter table t {dropped}")).is_ok());
        assert!(parse(&"insert into t values (1); ".repeat(100)).is_ok());
    }

    #[test]
    fn no_request_says_a_name_of_the_programs_own() {
        for sql in [
            "create schema \"\u{f8ff}with\"",
            "select 1; create table t (\"a\u{f8ff}\" int)",
            "update t set \"\u{f8ff}nothing\" = 0",
        ] {
            assert_eq!(parse_request(sql).unwrap_err().state, SqlState(*b"42602"), "{sql}");
            assert!(parse(sql).is_ok());
        }
        assert!(parse_request("select '\u{f8ff}' -- \u{f8ff}").is_ok());
    }

    #[test]
    fn a_name_has_few_parts() {
        let name = |parts: usize| format!("SELECT {} FROM t", vec!["t"; parts].join("."));
        assert!(parse(&name(50)).is_ok());
        assert_eq!(parse(&name(20_000)).unwrap_err().state, SqlState::SYNTAX_ERROR);
    }

    #[test]
    fn what_is_prepared_and_explained_is_no_utility() {
        for refused in ["EXPLAIN EXPLAIN SELECT 1", "PREPARE p AS PREPARE q AS SELECT 1", "EXPLAIN SET a = 1"]
        {
            assert_eq!(parse(refused).unwrap_err().state, SqlState::SYNTAX_ERROR, "{refused}");
        }
        for taken in [
            "EXPLAIN ANALYZE SELECT 1",
            "EXPLAIN EXECUTE p",
            "EXPLAIN CREATE TABLE t AS SELECT 1",
            "PREPARE p AS VALUES (1)",
        ] {
            assert!(parse(taken).is_ok(), "{taken}");
        }
    }

    #[test]
    fn a_syntax_error_says_where_and_what() {
        let error = parse("select 1;\nselec 2").unwrap_err();
        assert_eq!(error.state, SqlState::SYNTAX_ERROR);
        assert_eq!(error.message, "syntax error at or near \"selec\"");
        assert_eq!(error.position, Some(11));
        assert_eq!(parse("select (1").unwrap_err().message, "syntax error at end of input");
    }

    #[test]
    fn fetch_and_move_are_read_in_all_their_forms() {
        for (sql, wanted) in [
            ("fetch c", "FETCH NEXT FROM c"),
            ("FETCH FROM c", "FETCH NEXT FROM c"),
            ("fetch 5 from \"C d\";", "FETCH 5 FROM \"C d\""),
            ("fetch forward in c", "FETCH FORWARD 1 FROM c"),
            ("fetch -2 from c", "FETCH BACKWARD 2 FROM c"),
            ("fetch all c", "FETCH ALL FROM c"),
            ("fetch absolute 3 c", "FETCH ABSOLUTE 3 FROM c"),
            ("fetch relative -3 from c", "FETCH RELATIVE -3 FROM c"),
            ("move forward all in c", "FETCH FORWARD ALL FROM c INTO \"meridian move\""),
            ("move 2 c", "FETCH 2 FROM c INTO \"meridian move\""),
            ("select 1 fetch first 1 rows only", "SELECT 1 FETCH FIRST 1 ROWS ONLY"),
        ] {
            assert_eq!(parse(sql).unwrap()[0].to_string(), wanted, "{sql}");
        }
        assert_eq!(parse("fetch 1 from c; fetch 2 from c; close c").unwrap().len(), 3);
    }

    #[test]
    fn a_distinction_ends_before_and_and_or() {
        for (sql, operator) in [
            ("a and b is distinct from c or d", "OR"),
            ("a is distinct from b and c = 1", "AND"),
            ("a is not distinct from b or c and d", "OR"),
            ("a is distinct from b = c", "IS DISTINCT FROM"),
        ] {
            let top = match parse_expr(sql).unwrap() {
                Expr::BinaryOp { op, .. } => op.to_string(),
                Expr::IsDistinctFrom(..) => "IS DISTINCT FROM".to_string(),
                other => panic!("{other}"),
            };
            assert_eq!(top, operator, "{sql}");
        }
    }

    #[test]
    fn tests_of_null_in_one_word_are_no_aliases() {
        for (sql, wanted) in [
            ("select a isnull from t", "SELECT a IS NULL FROM t"),
            ("select (a + 1) notnull", "SELECT (a + 1) IS NOT NULL"),
            ("select a as isnull, isnull from t", "SELECT a AS isnull, isnull FROM t"),
        ] {
            assert_eq!(parse(sql).unwrap()[0].to_string(), wanted, "{sql}");
        }
    }

    #[test]
    fn a_value_has_few_subscripts() {
        let state = |sql: &str| parse(sql).map_err(|e| e.state).err();
        let chain = |links: usize| format!("select a{}, b{}", "[1]".repeat(links), "[i[1]]".repeat(links));
        assert_eq!(state(&chain(100)), None);
        assert_eq!(state(&chain(102)), Some(SqlState::STATEMENT_TOO_COMPLEX));
        assert_eq!(state(&format!("select '{{}}'::int{}", "[]".repeat(102))), state(&chain(102)));
        // Each value has its own.
        assert_eq!(state(&format!("select {}", vec!["a[1][2]"; 500].join(" + "))), None);
        assert_eq!(state(&format!("select array[{}]", vec!["[1]"; 500].join(", "))), None);
    }

    #[test]
    fn a_text_without_statements_is_none() {
        assert!(parse(" ; -- nothing\n ;").unwrap().is_empty());
        assert_eq!(parse("select 1; select 2;").unwrap().len(), 2);
    }
}

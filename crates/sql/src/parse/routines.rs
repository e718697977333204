//! Statements about functions and procedures. The parser knows few of their forms, so each travels as
//! `CREATE FUNCTION "…"() AS '…'` with its own text, which is read in `written`; behind GRANT and REVOKE a function is a
//! table with a name that no table has.

mod aggregates;
pub(super) mod written;

use super::constraints::is_word;
use super::domains::written as written_token;
use base::SqlError;
use base::error::SqlResult;
use sqlparser::ast::{self, CreateFunctionBody, Expr, Ident, ObjectName, ObjectNamePart, Statement, Value};
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// The name of the function that carries a statement.
const CARRIER: &str = "\u{f8ff}routine";

/// Begins the last part of a routine's name behind GRANT and REVOKE: its kind and, in parentheses, its arguments follow.
const GRANTED: &str = "\u{f8ff}granted ";

/// What a statement is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutineKind {
    Function,
    Procedure,
    /// Any of them.
    Routine,
    Aggregate,
}

impl RoutineKind {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            RoutineKind::Function => "function",
            RoutineKind::Procedure => "procedure",
            RoutineKind::Routine => "routine",
            RoutineKind::Aggregate => "aggregate",
        }
    }

    /// What is answered to ALTER.
    pub fn alter_tag(self) -> &'static str {
        match self {
            RoutineKind::Function => "ALTER FUNCTION",
            RoutineKind::Procedure => "ALTER PROCEDURE",
            RoutineKind::Routine => "ALTER ROUTINE",
            RoutineKind::Aggregate => "ALTER AGGREGATE",
        }
    }

    /// What is answered to DROP.
    pub fn drop_tag(self) -> &'static str {
        match self {
            RoutineKind::Function => "DROP FUNCTION",
            RoutineKind::Procedure => "DROP PROCEDURE",
            RoutineKind::Routine => "DROP ROUTINE",
            RoutineKind::Aggregate => "DROP AGGREGATE",
        }
    }
}

/// A routine as a statement names it: `f`, or `f(integer, text)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    pub kind: RoutineKind,
    pub name: ObjectName,
    pub types: Option<Vec<ast::DataType>>,
}

/// A statement about functions and procedures.
#[derive(Clone, Debug, PartialEq)]
pub enum RoutineStatement {
    Create(Box<CreateRoutine>),
    CreateAggregate(Box<CreateAggregate>),
    Drop { if_exists: bool, signatures: Vec<Signature>, is_cascade: bool },
    Alter { signature: Signature, action: AlterRoutine },
    Comment { signature: Signature, text: Option<String> },
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateRoutine {
    pub or_replace: bool,
    pub is_procedure: bool,
    pub name: ObjectName,
    pub parameters: Vec<Declared>,
    pub result: Option<DeclaredResult>,
    /// As it is written, folded.
    pub language: Option<String>,
    pub volatility: Option<base::routines::Volatility>,
    pub is_strict: Option<bool>,
    pub is_leakproof: Option<bool>,
    pub is_definer: Option<bool>,
    pub parallel: Option<base::routines::Parallel>,
    pub cost: Option<String>,
    pub rows: Option<String>,
    pub body: Option<Body>,
    /// An option that there is not here, in its words.
    pub unknown: Option<String>,
}

/// CREATE AGGREGATE.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateAggregate {
    pub or_replace: bool,
    pub name: ObjectName,
    pub parameters: Vec<Declared>,
    /// SFUNC.
    pub transition: Option<ObjectName>,
    /// STYPE.
    pub state: Option<ast::DataType>,
    /// INITCOND.
    pub initial: Option<String>,
    /// FINALFUNC.
    pub last: Option<ObjectName>,
    pub parallel: Option<base::routines::Parallel>,
    /// An option that there is not here, in its words.
    pub unknown: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Declared {
    /// Something else than IN, as it is written.
    pub mode: Option<String>,
    pub name: Option<String>,
    pub data_type: ast::DataType,
    pub default: Option<Expr>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum DeclaredResult {
    One(ast::DataType),
    SetOf(ast::DataType),
    Table(Vec<(String, ast::DataType)>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    Quoted(String),
    /// `RETURN …`, or `BEGIN ATOMIC … END`.
    Standard(String),
}

#[derive(Clone, Debug, PartialEq)]
pub enum AlterRoutine {
    Rename(String),
    SetSchema(String),
    Owner(ast::Owner),
    /// Anything else, in its words.
    Other(String),
}

/// The statement about functions and procedures that another one carries. Errors: 42601.
pub fn routine_statement(statement: &Statement) -> SqlResult<Option<RoutineStatement>> {
    match carried_by(statement, CARRIER) {
        Some(text) => written::read(text).map(Some),
        None => Ok(None),
    }
}

/// The text of such a statement, or of one about triggers.
pub fn carried_text(statement: &Statement) -> Option<&str> {
    carried_by(statement, CARRIER).or_else(|| super::triggers::text(statement))
}

/// The text of a statement that travels under a name.
pub(super) fn carried_by<'s>(statement: &'s Statement, carrier: &str) -> Option<&'s str> {
    let Statement::CreateFunction(create) = statement else { return None };
    let is_carrier = |name: &ObjectName| matches!(name.0.as_slice(), [ObjectNamePart::Identifier(i)] if i.value == carrier);
    match &create.function_body {
        Some(CreateFunctionBody::AsBeforeOptions { body: Expr::Value(value), .. })
            if is_carrier(&create.name) =>
        {
            match &value.value {
                Value::SingleQuotedString(text) => Some(text),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The routine that a name behind GRANT or REVOKE stands for; `None` for a table's. Errors: 42601.
pub fn granted_routine(name: &ObjectName) -> SqlResult<Option<Signature>> {
    let Some((ObjectNamePart::Identifier(last), before)) = name.0.split_last() else { return Ok(None) };
    let Some(said) = last.value.strip_prefix(GRANTED) else { return Ok(None) };
    let (kind, arguments) = said.split_once(' ').unwrap_or((said, ""));
    let name = ObjectName(before.to_vec());
    written::signature(&format!("{kind} {name}{arguments}")).map(Some)
}

/// The routine that a text names: `f`, or `f(integer)`. Errors: 42601.
pub fn signature_of(text: &str) -> SqlResult<Signature> {
    written::signature(&format!("routine {text}"))
}

/// Errors: 42601 for a statement that is carried and cannot be read.
pub(super) fn check(statement: &Statement) -> SqlResult<()> {
    routine_statement(statement).map(|_| ())
}

pub(super) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_about = |t: &TokenWithSpan| KINDS.iter().any(|word| is_word(t, word));
    if !tokens.iter().any(is_about) {
        return tokens;
    }
    let mut made = Vec::with_capacity(tokens.len());
    let mut rest = tokens.as_slice();
    while !rest.is_empty() {
        let (statement, behind) = rest.split_at(length(rest));
        let words: Vec<usize> = (0..statement.len())
            .filter(|i| !matches!(statement[*i].token, Token::Whitespace(_) | Token::SemiColon | Token::EOF))
            .collect();
        match kind_of(statement, &words) {
            Some(About::Routine) => carry(CARRIER, statement, &words, &mut made),
            Some(About::Grant) => grant(statement, &words, &mut made),
            None => made.extend_from_slice(statement),
        }
        rest = behind;
    }
    made
}

/// What statements say that are about routines.
const KINDS: [&str; 4] = ["function", "procedure", "routine", "aggregate"];

enum About {
    Routine,
    Grant,
}

fn kind_of(statement: &[TokenWithSpan], words: &[usize]) -> Option<About> {
    let is = |nth: usize, word: &str| words.get(nth).is_some_and(|i| is_word(&statement[*i], word));
    let at = |nth: usize| KINDS.iter().any(|word| is(nth, word));
    let is_replaced = is(0, "create") && is(1, "or") && is(2, "replace");
    let is_made = is(0, "create") && !is(1, "routine") && at(1) || is_replaced && !is(3, "routine") && at(3);
    let is_known = (is(0, "drop") || is(0, "alter")) && at(1);
    if is_made || is_known || is(0, "comment") && is(1, "on") && at(2) {
        return Some(About::Routine);
    }
    let is_grant = is(0, "grant") || is(0, "revoke");
    let on = words.iter().position(|i| is_word(&statement[*i], "on"))?;
    (is_grant && at(on + 1) && !is(on + 1, "aggregate")).then_some(About::Grant)
}

/// Tokens of the first statement with its end. Semicolons within BEGIN ATOMIC … END are none.
fn length(tokens: &[TokenWithSpan]) -> usize {
    let mut open = 0u32;
    let mut before: Option<&TokenWithSpan> = None;
    for (at, token) in tokens.iter().enumerate() {
        match &token.token {
            Token::Whitespace(_) => continue,
            Token::SemiColon if open == 0 => return at + 1,
            _ if open == 0 && is_word(token, "atomic") && before.is_some_and(|t| is_word(t, "begin")) => {
                open = 1
            }
            _ if open > 0 && is_word(token, "case") => open += 1,
            _ if open > 0 && is_word(token, "end") => open -= 1,
            _ => {}
        }
        before = Some(token);
    }
    tokens.len()
}

/// A statement as the text of a function of this name.
pub(super) fn carry(
    carrier: &str,
    statement: &[TokenWithSpan],
    words: &[usize],
    made: &mut Vec<TokenWithSpan>,
) {
    let (first, last) = (words[0], words[words.len() - 1]);
    let span = statement[first].span;
    let text: String = statement[first..=last].iter().map(|t| written_token(&t.token)).collect();
    let put = |token: Token| TokenWithSpan { token, span };
    let blank = || Token::Whitespace(Whitespace::Space);
    let tokens = [
        Token::make_keyword("CREATE"),
        blank(),
        Token::make_keyword("FUNCTION"),
        blank(),
        Token::make_word(carrier, Some('"')),
        Token::LParen,
        Token::RParen,
        blank(),
        Token::make_keyword("AS"),
        blank(),
        Token::SingleQuotedString(text),
    ];
    made.extend_from_slice(&statement[..first]);
    made.extend(tokens.into_iter().map(put));
    made.extend_from_slice(&statement[last + 1..]);
}

/// `ON FUNCTION s.f(a integer), g` as `ON s.f."…function (a integer)", g."…function"`.
fn grant(statement: &[TokenWithSpan], words: &[usize], made: &mut Vec<TokenWithSpan>) {
    let on = words.iter().position(|i| is_word(&statement[*i], "on")).expect("it was found just now");
    let kind_at = words[on + 1];
    let kind = written_token(&statement[kind_at].token).to_lowercase();
    let span = statement[kind_at].span;
    let name = |arguments: &str| {
        let name = Token::make_word(format!("{GRANTED}{kind} {arguments}").trim_end(), Some('"'));
        [Token::Period, name].map(|token| TokenWithSpan { token, span })
    };
    made.extend_from_slice(&statement[..kind_at]);
    let (mut depth, mut arguments, mut is_named) = (0u32, String::new(), false);
    let mut at = kind_at + 1;
    while at < statement.len() {
        let token = &statement[at];
        let is_end = depth == 0
            && (matches!(token.token, Token::Comma | Token::SemiColon | Token::EOF)
                || is_named && (is_word(token, "to") || is_word(token, "from")));
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        if is_end {
            made.extend(name(&arguments));
            made.push(TokenWithSpan { token: Token::Whitespace(Whitespace::Space), span });
            arguments.clear();
            is_named = false;
            if token.token != Token::Comma {
                made.extend_from_slice(&statement[at..]);
                return;
            }
            made.push(token.clone());
        } else if depth > 0 || !arguments.is_empty() {
            arguments.push_str(&written_token(&token.token));
        } else if !(is_named && matches!(token.token, Token::Whitespace(_))) {
            is_named |= !matches!(token.token, Token::Whitespace(_));
            made.push(token.clone());
        }
        at += 1;
    }
    made.extend(name(&arguments));
}

/// What stands for a routine where a name is told.
pub fn shown(name: &ObjectName) -> String {
    let part = |part: &ObjectNamePart| part.as_ident().map_or_else(|| part.to_string(), ident);
    name.0.iter().map(part).collect::<Vec<_>>().join(".")
}

fn ident(ident: &Ident) -> String {
    crate::names::fold(ident)
}

fn wrong(text: &str) -> SqlError {
    let told = match text {
        "" => "syntax error at end of input".to_string(),
        text => format!("syntax error at or near \"{text}\""),
    };
    SqlError::new(base::error::SqlState::SYNTAX_ERROR, told)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(sql: &str) -> Vec<RoutineStatement> {
        let parsed = crate::parse::parse(sql).unwrap();
        parsed.iter().map(|statement| routine_statement(statement).unwrap().unwrap()).collect()
    }

    #[test]
    fn functions_are_read_with_their_options() {
        let sql = "create or replace function s.\"F\"(a int, \"B b\" double precision default 1.5, text = 'x''y')
            returns table(x integer, y numeric(10,2)) language 'sql' strict stable parallel safe cost 5 rows 7
            as $_$ select 'it''s', $1; -- $$ \n $_$; drop function if exists f(int, character varying), g cascade";
        let all = read(sql);
        let [
            RoutineStatement::Create(create),
            RoutineStatement::Drop { if_exists: true, signatures, is_cascade: true },
        ] = all.as_slice()
        else {
            panic!("{all:?}")
        };
        assert!(create.or_replace && !create.is_procedure);
        assert_eq!(create.name.to_string(), "s.\"F\"");
        let names: Vec<Option<&str>> = create.parameters.iter().map(|p| p.name.as_deref()).collect();
        assert_eq!(names, [Some("a"), Some("B b"), None]);
        let defaults: Vec<Option<String>> =
            create.parameters.iter().map(|p| p.default.as_ref().map(ToString::to_string)).collect();
        assert_eq!(defaults, [None, Some("1.5".into()), Some("'x''y'".into())]);
        assert!(matches!(&create.result, Some(DeclaredResult::Table(columns)) if columns.len() == 2));
        assert_eq!(create.language.as_deref(), Some("sql"));
        assert_eq!(
            (create.is_strict, create.cost.as_deref(), create.rows.as_deref()),
            (Some(true), Some("5"), Some("7"))
        );
        assert_eq!(create.body, Some(Body::Quoted(" select 'it''s', $1; -- $$ \n ".into())));
        assert_eq!(signatures[0].types.as_ref().map(Vec::len), Some(2));
        assert_eq!(signatures[1].types, None);
    }

    #[test]
    fn standard_bodies_have_semicolons_of_their_own() {
        let sql = "create function f(a int) returns int return a + 1;
            create function g() returns setof int begin atomic select case when true then 1 end; select 2; end; drop routine f";
        let all = read(sql);
        let body = |nth: usize| match &all[nth] {
            RoutineStatement::Create(create) => create.body.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(body(0), Some(Body::Standard("return a + 1".into())));
        let Some(Body::Standard(text)) = body(1) else { panic!() };
        assert!(text.starts_with("begin atomic select case") && text.ends_with("select 2; end"), "{text}");
        assert_eq!(all.len(), 3);
    }

    #[test]
    fn routines_are_altered_and_commented_on() {
        let all = read(
            "alter function f(int) owner to ann; alter procedure p rename to q; alter routine s.r() set schema t;
             comment on function f(a integer) is 'it''s'; comment on procedure p is null; alter function f immutable",
        );
        let RoutineStatement::Alter { action: AlterRoutine::Rename(to), .. } = &all[1] else { panic!() };
        assert_eq!(to, "q");
        let RoutineStatement::Comment { text, signature } = &all[3] else { panic!() };
        assert_eq!((text.as_deref(), signature.kind), (Some("it's"), RoutineKind::Function));
        assert!(matches!(&all[4], RoutineStatement::Comment { text: None, .. }));
        assert!(matches!(&all[5], RoutineStatement::Alter { action: AlterRoutine::Other(_), .. }));
    }

    #[test]
    fn aggregates_are_read_with_their_options() {
        let all = read(
            "create aggregate s.a(n int) (sfunc = s.f, stype = numeric(3), initcond = -1, finalfunc = \"G\", parallel = safe);
             create or replace aggregate b(*) (stype = text, sfunc = f, sspace = 7); drop aggregate if exists b(*), s.a(int);
             alter aggregate s.a(int) owner to ann; comment on aggregate b(*) is 'x'",
        );
        let RoutineStatement::CreateAggregate(a) = &all[0] else { panic!("{all:?}") };
        assert_eq!((a.parameters.len(), a.initial.as_deref(), &a.unknown), (1, Some("-1"), &None));
        assert_eq!(a.transition.as_ref().map(ToString::to_string).as_deref(), Some("s.f"));
        assert!(a.last.is_some() && a.state.is_some() && a.parallel.is_some() && !a.or_replace);
        let RoutineStatement::CreateAggregate(b) = &all[1] else { panic!("{all:?}") };
        assert_eq!((b.parameters.len(), b.or_replace, b.unknown.as_deref()), (0, true, Some("SSPACE")));
        let RoutineStatement::Drop { signatures, .. } = &all[2] else { panic!("{all:?}") };
        assert_eq!(signatures[0].types, Some(Vec::new()));
        assert!(signatures.iter().all(|signature| signature.kind == RoutineKind::Aggregate));
    }

    #[test]
    fn routines_are_granted() {
        let sql = "grant execute on function s.f(a integer, text), g to ann; revoke all on routine \"H\" from public";
        let parsed = crate::parse::parse(sql).unwrap();
        let of = |statement: &Statement| -> Vec<Signature> {
            let objects = match statement {
                Statement::Grant(grant) => grant.objects.clone(),
                Statement::Revoke(revoke) => revoke.objects.clone(),
                _ => None,
            };
            let Some(ast::GrantObjects::Tables(names)) = objects else { panic!("{statement}") };
            names.iter().map(|name| granted_routine(name).unwrap().unwrap()).collect()
        };
        let granted = of(&parsed[0]);
        assert_eq!(granted[0].name.to_string(), "s.f");
        assert_eq!(granted[0].types.as_ref().map(Vec::len), Some(2));
        assert_eq!((granted[1].name.to_string().as_str(), &granted[1].types), ("g", &None));
        assert_eq!(of(&parsed[1])[0].kind, RoutineKind::Routine);
    }

    #[test]
    fn what_cannot_be_read_is_told_with_the_word() {
        for sql in [
            "create function f() returns int language sql language sql as 'select 1'",
            "create function f( returns int as 'select 1'",
            "create function f(int) returns",
            "drop function",
            "alter function f(int",
        ] {
            let error = crate::parse::parse(sql).unwrap_err();
            assert_eq!(error.state, base::error::SqlState::SYNTAX_ERROR, "{sql}");
        }
    }
}

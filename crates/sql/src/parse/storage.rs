//! What PostgreSQL can be told of how it stores things, where nothing here is stored so: words that change nothing.
//!
//! They are taken where PostgreSQL would do nothing else that a client can see than remember them; what has a meaning for
//! rows or statements is left to the parser, which refuses it.

use super::constraints::is_word;
use sqlparser::ast::Ident;
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// Stands for the new name of a column that stays as it is, and for a column where a table does.
const AS_IT_IS: &str = "\u{f8ff}as it is";

/// Whether a change of a column's name says that the column stays as it is; of none in particular if `false` is inside.
pub fn stays(old: &Ident, new: &Ident) -> Option<bool> {
    (new.value == AS_IT_IS).then_some(old.value != AS_IT_IS)
}

/// The tokens with
/// - `USING heap` of a table and the `COMPRESSION` of a column as nothing;
/// - `toast.name` in a list of parameters as one name;
/// - in ALTER TABLE, `ALTER COLUMN c SET STATISTICS n` and its kind as a change that leaves the column as it is, and
///   `SET WITHOUT OIDS` and its kind as one that leaves the table so.
pub(super) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    const WORDS: &[&str] = &[
        "using",
        "compression",
        "toast",
        "statistics",
        "storage",
        "without",
        "logged",
        "unlogged",
        "method",
        "identity",
        "reset",
        "set",
    ];
    let is_about = |t: &TokenWithSpan| WORDS.iter().any(|word| is_word(t, word));
    let defines = |t: &TokenWithSpan| is_word(t, "create") || is_word(t, "alter");
    if !tokens.iter().any(defines) || !tokens.iter().any(is_about) {
        return tokens;
    }
    let mut made = Vec::with_capacity(tokens.len());
    for statement in tokens.split_inclusive(|t| matches!(t.token, Token::SemiColon)) {
        let words: Vec<&TokenWithSpan> =
            statement.iter().filter(|t| !matches!(t.token, Token::Whitespace(_))).collect();
        let is = |nth: usize, word: &str| words.get(nth).is_some_and(|t| is_word(t, word));
        let of_table = words.iter().take(5).any(|t| is_word(t, "table"));
        match () {
            () if is(0, "create") && of_table => made.extend(created(statement)),
            () if is(0, "alter") && is(1, "table") => made.extend(altered(statement)),
            () => made.extend_from_slice(statement),
        }
    }
    made
}

fn is_blank(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}

/// Without the words that change nothing where a table is made, or a column is added.
fn created(statement: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut made: Vec<TokenWithSpan> = Vec::with_capacity(statement.len());
    let mut rest = statement;
    while let [token, behind @ ..] = rest {
        rest = behind;
        let next = behind.iter().position(|t| !is_blank(t));
        let follows =
            |words: &[&str]| next.is_some_and(|n| words.iter().any(|word| is_word(&behind[n], word)));
        let before = made.iter().rev().find(|t| !is_blank(t)).map(|t| &t.token);
        let begins_column = matches!(before, None | Some(Token::LParen | Token::Comma));
        let compresses = is_word(token, "compression") && follows(&["pglz", "lz4", "default"]);
        let is_heap = is_word(token, "using") && follows(&["heap"]);
        if (compresses && !begins_column) || is_heap {
            rest = &behind[next.map_or(0, |n| n + 1)..];
        } else if is_word(token, "toast") && matches!(behind, [dot, name, ..] if is_part(dot, name)) {
            let name = format!("toast.{}", behind[1].token);
            made.push(TokenWithSpan { token: Token::make_word(&name, Some('"')), span: token.span });
            rest = &behind[2..];
        } else {
            made.push(token.clone());
        }
    }
    made
}

fn is_part(dot: &TokenWithSpan, name: &TokenWithSpan) -> bool {
    matches!((&dot.token, &name.token), (Token::Period, Token::Word(_)))
}

/// ALTER TABLE with changes of the storage alone as changes of nothing.
fn altered(statement: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let statement = created(statement);
    let mut made: Vec<TokenWithSpan> = Vec::with_capacity(statement.len());
    let (head, actions) = split(&statement);
    made.extend_from_slice(head);
    for action in actions {
        let words: Vec<&TokenWithSpan> = action.iter().filter(|t| !is_blank(t)).collect();
        let ends = |t: &&TokenWithSpan| matches!(t.token, Token::Comma | Token::SemiColon | Token::EOF);
        let length = words.iter().rposition(|t| !ends(t)).map_or(0, |last| last + 1);
        let Some(column) = kept(&words[..length]) else {
            made.extend_from_slice(action);
            continue;
        };
        let span = words[0].span;
        let put = |token| TokenWithSpan { token, span };
        let blank = || put(Token::Whitespace(Whitespace::Space));
        let mark = || put(Token::make_word(AS_IT_IS, Some('"')));
        for part in ["RENAME", "COLUMN"] {
            made.extend([put(Token::make_word(part, None)), blank()]);
        }
        made.extend([column.cloned().unwrap_or_else(mark), blank()]);
        made.extend([put(Token::make_word("TO", None)), blank(), mark()]);
        made.extend(words[length..].iter().map(|t| (*t).clone()));
    }
    made
}

/// `ALTER TABLE [IF EXISTS] [ONLY] name [*]`, and each action with the comma behind it.
fn split(statement: &[TokenWithSpan]) -> (&[TokenWithSpan], Vec<&[TokenWithSpan]>) {
    let words: Vec<usize> = (0..statement.len()).filter(|i| !is_blank(&statement[*i])).collect();
    let is = |nth: usize, word: &str| words.get(nth).is_some_and(|i| is_word(&statement[*i], word));
    let token = |nth: usize| words.get(nth).map(|i| &statement[*i].token);
    let mut at = 2;
    if is(at, "if") && is(at + 1, "exists") {
        at += 2;
    }
    at += usize::from(is(at, "only"));
    at += 1;
    while token(at) == Some(&Token::Period) {
        at += 2;
    }
    let begin = words.get(at).copied().unwrap_or(statement.len());
    let (head, rest) = statement.split_at(begin);
    let (mut actions, mut depth, mut from) = (Vec::new(), 0_usize, 0);
    for (i, t) in rest.iter().enumerate() {
        match t.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Comma if depth == 0 => {
                actions.push(&rest[from..=i]);
                from = i + 1;
            }
            _ => {}
        }
    }
    actions.push(&rest[from..]);
    (head, actions)
}

/// Whether an action changes how a column or a table is stored, and nothing else: of which column, if of one.
fn kept<'t>(action: &[&'t TokenWithSpan]) -> Option<Option<&'t TokenWithSpan>> {
    let of_column = |rest: &[&'t TokenWithSpan]| {
        let says = |words: &[&str]| words.iter().zip(rest).all(|(word, t)| is_word(t, word));
        let is_list = |at: usize| matches!(rest.get(at).map(|t| &t.token), Some(Token::LParen));
        let known = ["statistics", "storage", "compression"].iter().any(|what| says(&["set", what]));
        (known && rest.len() > 2) || ((says(&["set"]) || says(&["reset"])) && is_list(1))
    };
    match action {
        [alter, column, name, rest @ ..] if is_word(alter, "alter") && is_word(column, "column") => {
            of_column(rest).then_some(Some(*name))
        }
        [alter, name, rest @ ..] if is_word(alter, "alter") && of_column(rest) => Some(Some(*name)),
        action => of_table(action).then_some(None),
    }
}

fn of_table(action: &[&TokenWithSpan]) -> bool {
    const CHANGES: &[&[&str]] = &[
        &["set", "without", "oids"],
        &["set", "without", "cluster"],
        &["set", "logged"],
        &["set", "unlogged"],
        &["set", "access", "method", "heap"],
        &["replica", "identity", "full"],
        &["replica", "identity", "nothing"],
        &["replica", "identity", "default"],
    ];
    let is = |change: &&[&str]| {
        change.len() == action.len() && change.iter().zip(action).all(|(word, t)| is_word(t, word))
    };
    CHANGES.iter().any(is) || resets(action)
}

/// `RESET (fillfactor, …)` of parameters that change nothing.
fn resets(action: &[&TokenWithSpan]) -> bool {
    let [reset, open, names @ .., close] = action else { return false };
    let is_physical = |t: &&TokenWithSpan| match &t.token {
        Token::Comma => true,
        Token::Word(word) => is_physical(&word.value.to_ascii_lowercase()),
        _ => false,
    };
    let is_list = matches!((&open.token, &close.token), (Token::LParen, Token::RParen));
    is_word(reset, "reset") && is_list && names.iter().all(|t| is_physical(t))
}

/// Whether a parameter of a table's is about how PostgreSQL stores and cleans it.
pub fn is_physical(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "fillfactor",
        "toast_tuple_target",
        "parallel_workers",
        "vacuum_index_cleanup",
        "vacuum_truncate",
        "log_autovacuum_min_duration",
        "user_catalog_table",
    ];
    let name = name.strip_prefix("toast.").unwrap_or(name);
    NAMES.contains(&name) || name.starts_with("autovacuum_")
}

#[cfg(test)]
mod tests {
    fn read(sql: &str) -> String {
        let parsed = crate::parse::parse(sql).unwrap();
        parsed.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ").replace('\u{f8ff}', "~")
    }

    #[test]
    fn words_about_storage_change_nothing() {
        let made = "create table t (compression text compression pglz, b int) using heap with (toast.autovacuum_enabled = off)";
        let read_as = "CREATE TABLE t (compression TEXT, b INT) WITH (\"toast.autovacuum_enabled\" = off)";
        assert_eq!(read(made), read_as);
        let altered = "alter table only s.t alter column a set statistics -1, alter b set (n_distinct = 1), \
                       set without oids, reset (fillfactor, autovacuum_enabled), add c text compression lz4";
        let read_as = "ALTER TABLE ONLY s.t RENAME COLUMN a TO \"~as it is\", RENAME COLUMN b TO \"~as it is\", \
                       RENAME COLUMN \"~as it is\" TO \"~as it is\", RENAME COLUMN \"~as it is\" TO \"~as it is\", \
                       ADD c TEXT";
        assert_eq!(read(altered), read_as);
    }

    #[test]
    fn what_means_something_is_not_passed_over() {
        for sql in [
            "create table t (a int) using other",
            "alter table t set access method other",
            "alter table t reset (home)",
            "alter table t alter column a set nothing",
        ] {
            assert!(crate::parse::parse(sql).is_err(), "{sql}");
        }
    }
}

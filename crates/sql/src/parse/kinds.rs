//! ALTER of relations in PostgreSQL's interchangeable forms. `ALTER VIEW v …`, and of indexes and sequences what is said of
//! tables in the same words, becomes `ALTER TABLE v ON CLUSTER "…" …` with the word in the place of a cluster, which there is
//! none of. `RESET (a, b)` becomes `SET (a = "…", b = "…")`, and an option of a view without a value is true.

use super::constraints::is_word;
use base::SqlError;
use base::error::{SqlResult, SqlState};
use sqlparser::ast::{AlterTable, Expr, SqlOption, Value};
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// Begins the name that stands for the word.
const KIND: &str = "\u{f8ff}kind ";

/// Stands for the value of an option that is taken away.
const RESET: &str = "\u{f8ff}reset";

/// Options of views.
const OF_VIEWS: &[&str] = &["security_barrier", "security_invoker", "check_option"];

/// By which word a statement names what it alters, if not as a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlteredKind {
    View,
    Index,
    Sequence,
}

static KINDS: [(AlteredKind, &str, &str); 3] = [
    (AlteredKind::View, "view", "ALTER VIEW"),
    (AlteredKind::Index, "index", "ALTER INDEX"),
    (AlteredKind::Sequence, "sequence", "ALTER SEQUENCE"),
];

impl AlteredKind {
    fn entry(self) -> &'static (AlteredKind, &'static str, &'static str) {
        KINDS.iter().find(|(kind, ..)| *kind == self).expect("all are listed")
    }
    /// The word in small letters.
    pub fn word(self) -> &'static str {
        self.entry().1
    }
    /// How the command is called.
    pub fn tag(self) -> &'static str {
        self.entry().2
    }
}

/// By which word a statement names what it alters; `None`: as a table. Errors: 42601 for a cluster.
pub fn altered_kind(alter: &AlterTable) -> SqlResult<Option<AlteredKind>> {
    let Some(name) = &alter.on_cluster else { return Ok(None) };
    let word = name.value.strip_prefix(KIND);
    let known = word.and_then(|word| KINDS.iter().find(|(_, known, _)| *known == word));
    match known {
        Some((kind, ..)) => Ok(Some(*kind)),
        None => Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"ON\"")),
    }
}

/// Options with their names and values as they are written, names in small letters; `None`: the option is taken away.
pub fn said_options(options: &[SqlOption]) -> Vec<(String, Option<String>)> {
    let said = options.iter().filter_map(|option| match option {
        SqlOption::KeyValue { key, value } => Some((key.value.to_lowercase(), text_of(value))),
        _ => None,
    });
    said.collect()
}

fn text_of(value: &Expr) -> Option<String> {
    match value {
        Expr::Identifier(name) if name.value == RESET => None,
        Expr::Identifier(name) => Some(name.value.clone()),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.clone()),
            other => Some(other.to_string()),
        },
        other => Some(other.to_string()),
    }
}

pub(super) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let has = |word: &str| tokens.iter().any(|t| is_word(t, word));
    if !has("alter") && !(has("create") && has("view")) {
        return tokens;
    }
    let mut made = Vec::with_capacity(tokens.len());
    for statement in tokens.split_inclusive(|t| matches!(t.token, Token::SemiColon)) {
        let words: Vec<usize> = (0..statement.len())
            .filter(|i| !matches!(statement[*i].token, Token::Whitespace(_) | Token::SemiColon | Token::EOF))
            .collect();
        let said = Said { statement, words };
        match said.altered().or_else(|| said.created_view()) {
            Some(written) => made.extend(written),
            None => made.extend_from_slice(statement),
        }
    }
    made
}

/// A statement, and where its words stand.
struct Said<'s> {
    statement: &'s [TokenWithSpan],
    words: Vec<usize>,
}

impl Said<'_> {
    fn is(&self, nth: usize, word: &str) -> bool {
        self.words.get(nth).is_some_and(|i| is_word(&self.statement[*i], word))
    }

    fn is_token(&self, nth: usize, token: &Token) -> bool {
        self.words.get(nth).is_some_and(|i| self.statement[*i].token == *token)
    }

    /// Where the name ends that begins at a word.
    fn behind_name(&self, at: usize) -> usize {
        let mut end = at + 1;
        while self.is_token(end, &Token::Period) {
            end += 2;
        }
        end
    }

    /// The statement as a change of a table; `None`: it stays as it is.
    fn altered(&self) -> Option<Vec<TokenWithSpan>> {
        if !self.is(0, "alter") {
            return None;
        }
        let if_exists = self.is(2, "if") && self.is(3, "exists");
        let name = if if_exists { 4 } else { 2 };
        let only = usize::from(self.is(1, "table") && self.is(name, "only"));
        let action = self.behind_name(name + only);
        let begin = *self.words.get(action)?;
        let of_options = self.options_at(action);
        if self.is(1, "table") {
            let options = of_options.filter(|options| self.are_of_views(action, options.end))?;
            let mut made = self.statement[..begin].to_vec();
            made.extend(self.with_values(action, options.end));
            made.extend_from_slice(self.behind(options.end));
            return Some(made);
        }
        let (_, word, _) = KINDS.iter().find(|(_, word, _)| self.is(1, word))?;
        let is_plain = match *word {
            "view" => {
                !self.is(action, "as") && !self.is(action, "with") && !self.is_token(action, &Token::LParen)
            }
            "index" => of_options.is_some() || if_exists && self.is(action, "rename"),
            _ => {
                let sets = self.is(action, "set") && self.is(action + 1, "schema");
                sets || self.is(action, "rename") || self.is(action, "owner")
            }
        };
        if !is_plain {
            return None;
        }
        let kind = self.words[1];
        let put = |token| TokenWithSpan { token, span: self.statement[kind].span };
        let blank = || put(Token::Whitespace(Whitespace::Space));
        let mut made = self.statement[..kind].to_vec();
        made.push(put(Token::make_keyword("TABLE")));
        made.extend_from_slice(&self.statement[kind + 1..begin]);
        for token in [
            Token::make_keyword("ON"),
            Token::make_keyword("CLUSTER"),
            Token::make_word(&format!("{KIND}{word}"), Some('"')),
        ] {
            made.extend([blank(), put(token)]);
        }
        made.push(blank());
        match of_options {
            Some(options) => {
                made.extend(self.with_values(action, options.end));
                made.extend_from_slice(self.behind(options.end));
            }
            None => made.extend_from_slice(&self.statement[begin..]),
        }
        Some(made)
    }

    /// `CREATE VIEW … WITH (…)` with a value for each option.
    fn created_view(&self) -> Option<Vec<TokenWithSpan>> {
        let view = (1..5).find(|nth| self.is(*nth, "view")).filter(|_| self.is(0, "create"))?;
        let mut at = self.behind_name(view + 1);
        if self.is_token(at, &Token::LParen) {
            at = (at..self.words.len()).find(|nth| self.is_token(*nth, &Token::RParen))? + 1;
        }
        let options = self.options_at(at).filter(|_| self.is(at, "with"))?;
        let mut made = self.statement[..self.words[at]].to_vec();
        made.extend(self.with_values(at, options.end));
        made.extend_from_slice(self.behind(options.end));
        Some(made)
    }

    /// The words of `SET (…)`, `RESET (…)` or `WITH (…)` with a list that begins at one of them, the parentheses with it.
    fn options_at(&self, at: usize) -> Option<std::ops::Range<usize>> {
        let begins = ["set", "reset", "with"].iter().any(|word| self.is(at, word));
        if !begins || !self.is_token(at + 1, &Token::LParen) {
            return None;
        }
        let close = (at + 2..self.words.len()).find(|nth| self.is_token(*nth, &Token::RParen))?;
        Some(at..close + 1)
    }

    fn are_of_views(&self, at: usize, end: usize) -> bool {
        let mut begins = true;
        (at + 2..end - 1).all(|nth| {
            let is_fine = !begins || OF_VIEWS.iter().any(|option| self.is(nth, option));
            begins = self.is_token(nth, &Token::Comma);
            is_fine
        })
    }

    /// The tokens from a word on.
    fn behind(&self, nth: usize) -> &[TokenWithSpan] {
        match self.words.get(nth) {
            Some(at) => &self.statement[*at..],
            None => {
                let last = self.words.last().map_or(0, |at| at + 1);
                &self.statement[last..]
            }
        }
    }

    /// A list of options with a value for each.
    fn with_values(&self, at: usize, end: usize) -> Vec<TokenWithSpan> {
        let (first, resets) = (&self.statement[self.words[at]], self.is(at, "reset"));
        let put = |token| TokenWithSpan { token, span: first.span };
        let value = || match resets {
            true => Token::make_word(RESET, Some('"')),
            false => Token::make_keyword("TRUE"),
        };
        let mut made = vec![if resets { put(Token::make_keyword("SET")) } else { first.clone() }];
        let mut has_value = false;
        for place in &self.words[at + 1..end] {
            let token = &self.statement[*place];
            has_value |= token.token == Token::Eq;
            if matches!(token.token, Token::Comma | Token::RParen) {
                if !has_value {
                    made.extend([put(Token::Eq), put(value())]);
                }
                has_value = false;
            }
            // The parser takes ON for the beginning of something else.
            let said = if has_value && is_word(token, "on") { put(value()) } else { token.clone() };
            made.extend([said, put(Token::Whitespace(Whitespace::Space))]);
        }
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;
    use sqlparser::ast::{AlterTableOperation, Statement};

    fn altered(sql: &str) -> AlterTable {
        match parse(sql).unwrap().pop() {
            Some(Statement::AlterTable(alter)) => alter,
            other => panic!("{sql}: {other:?}"),
        }
    }

    #[test]
    fn relations_are_altered_by_any_word() {
        for (sql, kind, name, action) in [
            ("alter view s.v rename to w", AlteredKind::View, "s.v", "RENAME TO w"),
            ("ALTER VIEW IF EXISTS v OWNER TO r;", AlteredKind::View, "v", "OWNER TO r"),
            ("alter view v rename column a to b", AlteredKind::View, "v", "RENAME COLUMN a TO b"),
            ("alter index if exists i rename to j", AlteredKind::Index, "i", "RENAME TO j"),
            ("alter sequence q rename to r", AlteredKind::Sequence, "q", "RENAME TO r"),
        ] {
            let alter = altered(sql);
            assert_eq!(altered_kind(&alter), Ok(Some(kind)), "{sql}");
            assert_eq!(alter.name.to_string(), name, "{sql}");
            assert_eq!(alter.operations[0].to_string(), action, "{sql}");
        }
        assert_eq!(altered_kind(&altered("alter table t rename to u")), Ok(None));
        assert!(altered_kind(&altered("alter table t on cluster c rename to u")).is_err());
        assert!(matches!(parse("alter index i rename to j").unwrap()[0], Statement::AlterIndex { .. }));
    }

    #[test]
    fn options_have_values() {
        let options = |sql: &str| match altered(sql).operations.pop() {
            Some(AlterTableOperation::SetOptionsParens { options }) => said_options(&options),
            other => panic!("{sql}: {other:?}"),
        };
        let some = |name: &str, value: &str| (name.to_string(), Some(value.to_string()));
        assert_eq!(
            options("alter view v set (security_barrier, check_option = local)"),
            [some("security_barrier", "true"), some("check_option", "local")]
        );
        assert_eq!(options("alter table v set (security_invoker)"), [some("security_invoker", "true")]);
        assert_eq!(options("alter view v reset (security_barrier);"), [("security_barrier".into(), None)]);
        let created =
            parse("create or replace view s.v (a, b) with (security_barrier) as select 1, 2").unwrap();
        let shown = "CREATE OR REPLACE VIEW s.v (a, b) WITH (security_barrier = true) AS SELECT 1, 2";
        assert_eq!(created[0].to_string(), shown);
    }
}

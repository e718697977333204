//! `REINDEX [(options)] {INDEX | TABLE | SCHEMA | DATABASE | SYSTEM} [CONCURRENTLY] name`, which the parser does not know, as
//! a VACUUM of a name whose first part says so, and `CLUSTER [VERBOSE] [name [USING index]]` likewise.
//!
//! KEEPS: a text that does not begin so is left as it is.

use super::constraints::is_word;
use sqlparser::ast::{ObjectName, ObjectNamePart};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Begins the first part of the name.
const MARK: &str = "\u{f8ff}reindex ";

/// Begins the first part of the name in a CLUSTER; the name of the index follows.
const CLUSTER: &str = "\u{f8ff}cluster ";

/// What is to be indexed anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Indexed {
    Index,
    Table,
    Schema,
    Database,
    System,
}

const WORDS: [(&str, Indexed); 5] = [
    ("INDEX", Indexed::Index),
    ("TABLE", Indexed::Table),
    ("SCHEMA", Indexed::Schema),
    ("DATABASE", Indexed::Database),
    ("SYSTEM", Indexed::System),
];

/// A REINDEX.
#[derive(Clone, Debug, PartialEq)]
pub struct Reindex {
    pub what: Indexed,
    pub is_concurrent: bool,
    pub name: ObjectName,
}

/// A CLUSTER.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// `None`: all tables that have been clustered before.
    pub table: Option<ObjectName>,
    pub index: Option<String>,
}

impl Indexed {
    pub fn word(self) -> &'static str {
        WORDS.iter().find(|(_, what)| *what == self).map(|(word, _)| *word).expect("all are listed")
    }
}

/// The tokens with such statements in a form that the parser knows.
pub(super) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|t| is_word(t, "reindex") || is_word(t, "cluster")) {
        return tokens;
    }
    let mut made = Vec::with_capacity(tokens.len());
    for statement in tokens.split_inclusive(|t| matches!(t.token, Token::SemiColon)) {
        match marked(statement).or_else(|| clustered(statement)) {
            Some(statement) => made.extend(statement),
            None => made.extend_from_slice(statement),
        }
    }
    made
}

/// A statement as a VACUUM; `None` if it is another one.
fn marked(statement: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let words: Vec<&TokenWithSpan> =
        statement.iter().filter(|t| !matches!(t.token, Token::Whitespace(_))).collect();
    let (first, mut rest) = words.split_first()?;
    if !is_word(first, "reindex") {
        return None;
    }
    let mut is_concurrent = false;
    if matches!(rest.first()?.token, Token::LParen) {
        let close = rest.iter().position(|t| matches!(t.token, Token::RParen))?;
        let is_off = |t: Option<&&TokenWithSpan>| {
            t.is_some_and(|t| ["off", "false", "0"].iter().any(|off| t.token.to_string() == *off))
        };
        let at = rest[..close].iter().position(|t| is_word(t, "concurrently"));
        is_concurrent = at.is_some_and(|at| !is_off(rest.get(at + 1)));
        rest = &rest[close + 1..];
    }
    let (kind, mut rest) = rest.split_first()?;
    let (word, _) = WORDS.iter().find(|(word, _)| is_word(kind, word))?;
    if is_word(rest.first()?, "concurrently") {
        is_concurrent = true;
        rest = &rest[1..];
    }
    // Without a name the parser is to complain of what it finds instead.
    if !matches!(rest.first()?.token, Token::Word(_)) {
        return None;
    }
    let name = format!("{MARK}{word}{}", if is_concurrent { " concurrently" } else { "" });
    let at = |token| TokenWithSpan { token, span: first.span };
    let mut made = vec![
        at(Token::make_word("VACUUM", None)),
        at(Token::Whitespace(super::Whitespace::Space)),
        at(Token::make_word(&name, Some('"'))),
        at(Token::Period),
    ];
    made.extend(rest.iter().map(|t| (*t).clone()));
    Some(made)
}

/// A CLUSTER as a VACUUM; `None` if it is another statement.
fn clustered(statement: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let is_end = |t: &TokenWithSpan| matches!(t.token, Token::SemiColon | Token::EOF);
    let end = statement.iter().position(is_end).unwrap_or(statement.len());
    let said = statement[..end].iter().filter(|t| !matches!(t.token, Token::Whitespace(_)));
    let words: Vec<&TokenWithSpan> = said.collect();
    let (first, mut rest) = words.split_first()?;
    if !is_word(first, "cluster") {
        return None;
    }
    if rest.first().is_some_and(|t| matches!(t.token, Token::LParen)) {
        let close = rest.iter().position(|t| matches!(t.token, Token::RParen))?;
        rest = &rest[close + 1..];
    } else if rest.first().is_some_and(|t| is_word(t, "verbose")) {
        rest = &rest[1..];
    }
    let at = rest.iter().position(|t| is_word(t, "using") || is_word(t, "on"));
    let (name, index) = match at.map(|at| (&rest[..at], rest[at], &rest[at + 1..])) {
        None => (rest, None),
        Some((name, word, [index])) if is_word(word, "using") => (name, Some(*index)),
        // As it was said before there was USING.
        Some(([index], word, name)) if is_word(word, "on") => (name, Some(*index)),
        Some(_) => return None,
    };
    let index = match index.map(|t| &t.token) {
        None => String::new(),
        Some(Token::Word(word)) if word.quote_style.is_some() => word.value.clone(),
        Some(Token::Word(word)) => word.value.to_lowercase(),
        Some(_) => return None,
    };
    let at = |token| TokenWithSpan { token, span: first.span };
    let mut made = vec![
        at(Token::make_word("VACUUM", None)),
        at(Token::Whitespace(super::Whitespace::Space)),
        at(Token::make_word(&format!("{CLUSTER}{index}"), Some('"'))),
    ];
    if !name.is_empty() {
        made.push(at(Token::Period));
        made.extend(name.iter().map(|t| (*t).clone()));
    }
    made.extend_from_slice(&statement[end..]);
    Some(made)
}

/// The CLUSTER that the name of a VACUUM stands for.
pub fn cluster(name: &ObjectName) -> Option<Cluster> {
    let (first, rest) = name.0.split_first()?;
    let index = first.as_ident()?.value.strip_prefix(CLUSTER)?;
    let table = (!rest.is_empty()).then(|| ObjectName(rest.to_vec()));
    Some(Cluster { table, index: Some(index.to_string()).filter(|index| !index.is_empty()) })
}

/// The REINDEX that the name of a VACUUM stands for.
pub fn reindex(name: &ObjectName) -> Option<Reindex> {
    let (first, rest) = name.0.split_first()?;
    let ObjectNamePart::Identifier(first) = first else { return None };
    let said = first.value.strip_prefix(MARK)?;
    let (word, is_concurrent) = match said.strip_suffix(" concurrently") {
        Some(word) => (word, true),
        None => (said, false),
    };
    let (_, what) = WORDS.iter().find(|(known, _)| *known == word)?;
    Some(Reindex { what: *what, is_concurrent, name: ObjectName(rest.to_vec()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;
    use sqlparser::ast::Statement;

    #[test]
    fn a_cluster_is_read() {
        for (sql, table, index) in [
            ("CLUSTER", None, None),
            ("cluster verbose;", None, None),
            ("cluster s.\"T\"", Some("s.\"T\""), None),
            ("cluster (verbose) t using \"I\";", Some("t"), Some("I")),
            ("cluster I on s.t", Some("s.t"), Some("i")),
        ] {
            let Some(Statement::Vacuum(vacuum)) = parse(sql).unwrap().pop() else { panic!("{sql}") };
            let found = cluster(&vacuum.table_name.unwrap()).unwrap();
            assert_eq!(found.table.map(|table| table.to_string()).as_deref(), table, "{sql}");
            assert_eq!(found.index.as_deref(), index, "{sql}");
        }
        for sql in ["cluster t using", "cluster t using i j", "cluster 5"] {
            assert!(parse(sql).is_err(), "{sql}");
        }
    }

    #[test]
    fn a_reindex_is_read_with_its_options() {
        for (sql, what, is_concurrent, name) in [
            ("REINDEX TABLE t", Indexed::Table, false, "t"),
            ("reindex index concurrently s.\"I\";", Indexed::Index, true, "s.\"I\""),
            ("reindex (verbose, concurrently) schema s", Indexed::Schema, true, "s"),
            ("reindex (concurrently off) database d", Indexed::Database, false, "d"),
        ] {
            let Some(Statement::Vacuum(vacuum)) = parse(sql).unwrap().pop() else { panic!("{sql}") };
            let found = reindex(&vacuum.table_name.unwrap()).unwrap();
            assert_eq!((found.what, found.is_concurrent), (what, is_concurrent), "{sql}");
            assert_eq!(found.name.to_string(), name, "{sql}");
        }
        for sql in ["reindex", "reindex t", "reindex table", "reindex table 5", "reindex (verbose index i"] {
            assert!(parse(sql).is_err(), "{sql}");
        }
        assert_eq!(parse("select reindex from t").unwrap()[0].to_string(), "SELECT reindex FROM t");
    }
}

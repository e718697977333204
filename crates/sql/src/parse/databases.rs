//! CREATE, ALTER and DROP DATABASE, as `CREATE DATABASE name LOCATION '…'`: the parser knows no DROP and no ALTER DATABASE,
//! and of CREATE DATABASE what other systems have. What is said of the database is kept as its text.
//!
//! KEEPS: a text that does not begin so is left as it is.

use super::constraints::is_word;
use super::domains::written;
use crate::names;
use base::error::{SqlResult, SqlState};
use base::{SqlError, SqlState as State};
use sqlparser::ast::{Ident, ObjectName, Statement};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, Whitespace};

/// Begins the text that such a statement carries.
const MARK: &str = "\u{f8ff}database ";

/// A statement about a database.
#[derive(Clone, Debug, PartialEq)]
pub struct OfDatabase {
    pub name: String,
    pub what: DatabaseWork,
}

#[derive(Clone, Debug, PartialEq)]
pub enum DatabaseWork {
    /// With options by their words in small letters.
    Create(Vec<(String, OptionValue)>),
    Alter(Vec<(String, OptionValue)>),
    Rename(Ident),
    Owner(Ident),
    /// What its sessions begin with: one setting, or all of them.
    Set {
        name: Option<String>,
        wanted: WantedSetting,
    },
    RefreshCollation,
    Drop {
        if_exists: bool,
        is_forced: bool,
    },
}

/// What a statement wants of a setting.
#[derive(Clone, Debug, PartialEq)]
pub enum WantedSetting {
    Value(String),
    Current,
    Default,
}

/// A value of an option.
#[derive(Clone, Debug, PartialEq)]
pub enum OptionValue {
    Default,
    /// A name, as it was written.
    Name(Ident),
    Text(String),
    Number(String),
}

impl OptionValue {
    /// The value as a text, names folded; `None`: DEFAULT.
    pub fn text(&self) -> Option<String> {
        match self {
            OptionValue::Default => None,
            OptionValue::Name(ident) => Some(names::fold(ident)),
            OptionValue::Text(text) | OptionValue::Number(text) => Some(text.clone()),
        }
    }
}

impl DatabaseWork {
    /// How the command is called.
    pub fn tag(&self) -> &'static str {
        match self {
            DatabaseWork::Create(_) => "CREATE DATABASE",
            DatabaseWork::Drop { .. } => "DROP DATABASE",
            _ => "ALTER DATABASE",
        }
    }
}

/// The tokens with such statements in a form that the parser knows.
pub(super) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|t| is_word(t, "database")) {
        return tokens;
    }
    let mut made = Vec::with_capacity(tokens.len());
    for statement in tokens.split_inclusive(|t| matches!(t.token, Token::SemiColon)) {
        made.extend(carried(statement).unwrap_or_else(|| statement.to_vec()));
    }
    made
}

/// The statement in other words; `None`: it is none about databases, or has no name.
fn carried(statement: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let ends = |t: &TokenWithSpan| matches!(t.token, Token::SemiColon | Token::EOF);
    let end = statement.iter().position(ends).unwrap_or(statement.len());
    let words: Vec<&TokenWithSpan> =
        statement[..end].iter().filter(|t| !matches!(t.token, Token::Whitespace(_))).collect();
    let is = |nth: usize, word: &str| words.get(nth).is_some_and(|t| is_word(t, word));
    let verb =
        ["create", "alter", "drop"].into_iter().find(|verb| is(0, verb)).filter(|_| is(1, "database"))?;
    let if_exists = verb == "drop" && is(2, "if") && is(3, "exists");
    let at = if if_exists { 4 } else { 2 };
    let name = words.get(at).filter(|t| matches!(t.token, Token::Word(_)))?;
    let mut text = format!("{MARK}{verb}");
    if if_exists {
        text.push_str(" if exists");
    }
    for token in &words[at + 1..] {
        text.push(' ');
        text.push_str(&written(&token.token));
    }
    let put = |token: Token| TokenWithSpan { token, span: words[1].span };
    let blank = || put(Token::Whitespace(Whitespace::Space));
    let mut made =
        vec![put(Token::make_keyword("CREATE")), blank(), put(Token::make_keyword("DATABASE")), blank()];
    made.extend([(*name).clone(), blank(), put(Token::make_keyword("LOCATION")), blank()]);
    made.push(put(Token::SingleQuotedString(text)));
    made.extend_from_slice(&statement[end..]);
    Some(made)
}

/// The text that a statement about a database carries, with the verb first.
pub(super) fn text_of(statement: &Statement) -> Option<(&ObjectName, &str)> {
    match statement {
        Statement::CreateDatabase { db_name, location: Some(text), .. } => {
            text.strip_prefix(MARK).map(|text| (db_name, text))
        }
        _ => None,
    }
}

/// The statement about a database that another one carries. Errors: 42601.
pub fn of_database(statement: &Statement) -> SqlResult<Option<OfDatabase>> {
    let Some((name, text)) = text_of(statement) else {
        return match statement {
            // The parser takes more for a name than PostgreSQL does.
            Statement::CreateDatabase { .. } => {
                let told = "syntax error in CREATE DATABASE: a name is expected";
                Err(SqlError::new(State::SYNTAX_ERROR, told))
            }
            _ => Ok(None),
        };
    };
    let name = names::parts(name)?.pop().expect("a name has a part");
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize();
    let tokens = tokens.map_err(|e| SqlError::new(State::SYNTAX_ERROR, e.to_string()))?;
    let mut rest =
        Rest { tokens: tokens.into_iter().filter(|t| !matches!(t, Token::Whitespace(_))).collect(), at: 0 };
    let what = match rest.next_word().as_deref() {
        Some("create") => DatabaseWork::Create(rest.options()?),
        Some("drop") => rest.drop_options()?,
        _ => rest.alteration()?,
    };
    rest.end()?;
    Ok(Some(OfDatabase { name, what }))
}

/// What is still to be read.
struct Rest {
    tokens: Vec<Token>,
    at: usize,
}

impl Rest {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }
    fn wrong<T>(&self) -> SqlResult<T> {
        let told = match self.peek() {
            Some(token) => format!("syntax error at or near \"{token}\""),
            None => "syntax error at end of input".into(),
        };
        Err(SqlError::new(SqlState::SYNTAX_ERROR, told))
    }
    fn end(&self) -> SqlResult<()> {
        if self.peek().is_none() { Ok(()) } else { self.wrong() }
    }
    /// The next token, if it is a word without quotes: in small letters.
    fn word(&self) -> Option<String> {
        match self.peek() {
            Some(Token::Word(word)) if word.quote_style.is_none() => Some(word.value.to_lowercase()),
            _ => None,
        }
    }
    fn next_word(&mut self) -> Option<String> {
        let word = self.word()?;
        self.at += 1;
        Some(word)
    }
    fn takes(&mut self, words: &[&str]) -> bool {
        let start = self.at;
        for word in words {
            if self.next_word().as_deref() != Some(*word) {
                self.at = start;
                return false;
            }
        }
        true
    }
    fn takes_token(&mut self, token: &Token) -> bool {
        let is_it = self.peek() == Some(token);
        self.at += usize::from(is_it);
        is_it
    }
    fn ident(&mut self) -> SqlResult<Ident> {
        match self.peek() {
            Some(Token::Word(word)) => {
                let ident = word.clone().into_ident(sqlparser::tokenizer::Span::empty());
                self.at += 1;
                Ok(ident)
            }
            _ => self.wrong(),
        }
    }

    fn options(&mut self) -> SqlResult<Vec<(String, OptionValue)>> {
        self.takes(&["with"]);
        let mut options: Vec<(String, OptionValue)> = Vec::new();
        while self.peek().is_some() {
            let Some(word) = self.word() else { return self.wrong() };
            self.at += 1;
            let name = match word.as_str() {
                "connection" if self.takes(&["limit"]) => "connection limit".to_string(),
                _ => word,
            };
            self.takes_token(&Token::Eq);
            let value = self.value()?;
            if options.iter().any(|(known, _)| *known == name) {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options"));
            }
            options.push((name, value));
        }
        Ok(options)
    }

    fn value(&mut self) -> SqlResult<OptionValue> {
        let sign = if self.takes_token(&Token::Minus) { "-" } else { "" };
        let value = match self.peek() {
            Some(Token::Number(number, _)) => OptionValue::Number(format!("{sign}{number}")),
            Some(Token::SingleQuotedString(text)) if sign.is_empty() => OptionValue::Text(text.clone()),
            Some(Token::Word(word)) if sign.is_empty() => match self.word().as_deref() {
                Some("default") => OptionValue::Default,
                _ => OptionValue::Name(word.clone().into_ident(sqlparser::tokenizer::Span::empty())),
            },
            _ => return self.wrong(),
        };
        self.at += 1;
        Ok(value)
    }

    /// A setting's name, whose parts have dots between them.
    fn setting(&mut self) -> SqlResult<String> {
        let mut name = names::fold(&self.ident()?);
        while self.takes_token(&Token::Period) {
            name = format!("{name}.{}", names::fold(&self.ident()?));
        }
        Ok(name)
    }

    /// Behind the name of a setting that is set: one value or several.
    fn wanted(&mut self, name: &str) -> SqlResult<WantedSetting> {
        if self.takes(&["from", "current"]) {
            return Ok(WantedSetting::Current);
        }
        if !self.takes_token(&Token::Eq) && !self.takes(&["to"]) {
            return self.wrong();
        }
        let mut values = Vec::new();
        loop {
            match self.value()? {
                OptionValue::Default if values.is_empty() => return Ok(WantedSetting::Default),
                OptionValue::Default => return self.wrong(),
                value => values.extend(value.text()),
            }
            if !self.takes_token(&Token::Comma) {
                return Ok(WantedSetting::Value(names::setting_value(name, values.into_iter())));
            }
        }
    }

    fn drop_options(&mut self) -> SqlResult<DatabaseWork> {
        let if_exists = self.takes(&["if", "exists"]);
        let has_with = self.takes(&["with"]);
        let mut is_forced = false;
        if self.takes_token(&Token::LParen) {
            loop {
                if !self.takes(&["force"]) {
                    return self.wrong();
                }
                is_forced = true;
                if !self.takes_token(&Token::Comma) {
                    break;
                }
            }
            if !self.takes_token(&Token::RParen) {
                return self.wrong();
            }
        } else if has_with {
            return self.wrong();
        }
        Ok(DatabaseWork::Drop { if_exists, is_forced })
    }

    fn alteration(&mut self) -> SqlResult<DatabaseWork> {
        if self.takes(&["rename", "to"]) {
            return self.ident().map(DatabaseWork::Rename);
        }
        if self.takes(&["owner", "to"]) {
            return self.ident().map(DatabaseWork::Owner);
        }
        if self.takes(&["refresh", "collation", "version"]) {
            return Ok(DatabaseWork::RefreshCollation);
        }
        if self.takes(&["reset", "all"]) {
            return Ok(DatabaseWork::Set { name: None, wanted: WantedSetting::Default });
        }
        if self.takes(&["reset"]) {
            return Ok(DatabaseWork::Set { name: Some(self.setting()?), wanted: WantedSetting::Default });
        }
        if self.takes(&["set"]) {
            let name = self.setting()?;
            let wanted = self.wanted(&name)?;
            return Ok(DatabaseWork::Set { name: Some(name), wanted });
        }
        match self.options()? {
            options if options.is_empty() => self.wrong(),
            options => Ok(DatabaseWork::Alter(options)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(sql: &str) -> SqlResult<OfDatabase> {
        let parsed = crate::parse::parse(sql)?;
        of_database(&parsed[0]).map(|of| of.unwrap_or_else(|| panic!("{sql}")))
    }

    #[test]
    fn statements_about_databases_are_read() {
        let created = read(
            "CREATE DATABASE \"Shop\" WITH OWNER = ann ENCODING 'UTF8' TEMPLATE template0 CONNECTION LIMIT -1 \
             LC_COLLATE = DEFAULT ALLOW_CONNECTIONS true;",
        )
        .unwrap();
        assert_eq!(created.name, "Shop");
        let DatabaseWork::Create(options) = &created.what else { panic!() };
        let shown: Vec<(&str, Option<String>)> =
            options.iter().map(|(name, value)| (name.as_str(), value.text())).collect();
        let some = |text: &str| Some(text.to_string());
        let wanted = [
            ("owner", some("ann")),
            ("encoding", some("UTF8")),
            ("template", some("template0")),
            ("connection limit", some("-1")),
            ("lc_collate", None),
            ("allow_connections", some("true")),
        ];
        assert_eq!(shown, wanted);
        for (sql, if_exists, is_forced) in [
            ("drop database a", false, false),
            ("DROP DATABASE IF EXISTS a WITH (FORCE)", true, true),
            ("drop database a (force);", false, true),
        ] {
            assert_eq!(read(sql).unwrap().what, DatabaseWork::Drop { if_exists, is_forced }, "{sql}");
        }
        let what = |sql: &str| read(sql).unwrap().what;
        assert_eq!(
            what("alter database a rename to \"B\""),
            DatabaseWork::Rename(Ident::with_quote('"', "B"))
        );
        assert!(matches!(what("alter database a owner to current_user"), DatabaseWork::Owner(_)));
        for (sql, name, wanted) in [
            ("alter database a set x to 'y'", Some("x"), WantedSetting::Value("y".into())),
            ("alter database a set search_path = \"$user\", Public", Some("search_path"), {
                WantedSetting::Value("\"$user\", public".into())
            }),
            ("alter database a set a.b = -5", Some("a.b"), WantedSetting::Value("-5".into())),
            ("alter database a set x from current", Some("x"), WantedSetting::Current),
            ("alter database a set x to default", Some("x"), WantedSetting::Default),
            ("alter database a reset x", Some("x"), WantedSetting::Default),
            ("alter database a reset all", None, WantedSetting::Default),
        ] {
            assert_eq!(what(sql), DatabaseWork::Set { name: name.map(String::from), wanted }, "{sql}");
        }
        assert!(matches!(what("alter database a is_template false"), DatabaseWork::Alter(_)));
    }

    #[test]
    fn what_is_wrong_is_told() {
        for sql in [
            "create database",
            "create database a owner",
            "create database a owner b owner c",
            "drop database a, b",
            "drop database a with",
            "drop database a (farce)",
            "alter database a",
            "create database 'a'",
        ] {
            assert_eq!(read(sql).unwrap_err().state, SqlState::SYNTAX_ERROR, "{sql}");
        }
        let plain = crate::parse::parse("comment on database a is 'b'; select 1 as database").unwrap();
        assert!(plain.iter().all(|statement| of_database(statement).unwrap().is_none()));
    }
}

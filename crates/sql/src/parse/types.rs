//! ALTER TYPE … OWNER TO, SET SCHEMA and … ATTRIBUTE, which the parser does not know.

use super::constraints::{is_word, spaced};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Begins the name behind RENAME TO that stands for an owner: the role's name follows.
const OWNER: &str = "\u{f8ff}owner\n";

/// The same for a schema.
const SCHEMA: &str = "\u{f8ff}schema\n";

/// The name behind RENAME TO that stands for a change of attributes.
const ATTRIBUTES: &str = "\u{f8ff}attribute\n";

/// What ALTER TYPE changes that is not the name.
#[derive(Debug, PartialEq)]
pub enum OfType<'a> {
    Owner(&'a str),
    Schema(&'a str),
    /// One is added, dropped, renamed or of another type.
    Attributes,
}

/// What stands in the name that a type is renamed to, if something else than a name was written.
pub fn change_of_type(new_name: &str) -> Option<OfType<'_>> {
    let owner = new_name.strip_prefix(OWNER).map(OfType::Owner);
    let schema = || new_name.strip_prefix(SCHEMA).map(OfType::Schema);
    owner.or_else(schema).or((new_name == ATTRIBUTES).then_some(OfType::Attributes))
}

/// The tokens with `ALTER TYPE t OWNER TO r` and the like as `RENAME TO` a name that [`change_of_type`] knows.
pub(super) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_change = |t: &TokenWithSpan| ["owner", "schema", "attribute"].iter().any(|word| is_word(t, word));
    if !tokens.iter().any(is_change) {
        return tokens;
    }
    let mut made = Vec::with_capacity(tokens.len());
    for statement in tokens.split_inclusive(|t| matches!(t.token, Token::SemiColon)) {
        let is_end = |t: &&TokenWithSpan| matches!(t.token, Token::SemiColon | Token::EOF);
        let is_word_of = |t: &&TokenWithSpan| !is_end(t) && !matches!(t.token, Token::Whitespace(_));
        let words: Vec<&TokenWithSpan> = statement.iter().filter(is_word_of).collect();
        match change(&words) {
            Some((count, new_name)) => {
                let at = |token| TokenWithSpan { token, span: words[count].span };
                let mut renamed: Vec<TokenWithSpan> = words[..count].iter().map(|t| (*t).clone()).collect();
                renamed.push(at(Token::make_word("RENAME", None)));
                renamed.push(at(Token::make_word("TO", None)));
                renamed.push(at(Token::make_word(&new_name, Some('"'))));
                made.extend(spaced(renamed));
                made.extend(statement.iter().filter(is_end).cloned());
            }
            None => made.extend_from_slice(statement),
        }
    }
    made
}

/// How many tokens the change stands behind, and the name that stands for it.
fn change(words: &[&TokenWithSpan]) -> Option<(usize, String)> {
    let is = |at: usize, word: &str| words.get(at).is_some_and(|t| is_word(t, word));
    let ends = |first: &str, second: &str| -> Option<(usize, String)> {
        let at = words.len().checked_sub(3)?;
        let Token::Word(name) = &words[at + 2].token else { return None };
        let name = if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() };
        (is(at, first) && is(at + 1, second)).then_some((at, name))
    };
    if !is(0, "alter") || !is(1, "type") {
        return None;
    }
    let owner = ends("owner", "to").map(|(at, role)| (at, format!("{OWNER}{role}")));
    let schema = || ends("set", "schema").map(|(at, schema)| (at, format!("{SCHEMA}{schema}")));
    let attribute = || {
        let is_one = |at: &usize| {
            is(at + 1, "attribute") && ["add", "drop", "alter", "rename"].iter().any(|word| is(*at, word))
        };
        (3..words.len()).find(is_one).map(|at| (at, ATTRIBUTES.to_string()))
    };
    owner.or_else(schema).or_else(attribute).filter(|(count, _)| *count > 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlparser::ast::{AlterTypeOperation, Statement};

    #[test]
    fn an_owner_is_a_name_of_its_own() {
        let text = "alter type s.mood owner to \"Ann\"; ALTER TYPE mood OWNER TO bob; alter type owner rename to x; alter type a set schema b; alter type a add attribute c int";
        let mut owners = Vec::new();
        for statement in crate::parse::parse(text).unwrap() {
            let Statement::AlterType(alter) = statement else { panic!("{statement}") };
            let AlterTypeOperation::Rename(rename) = alter.operation else { panic!("{alter:?}") };
            owners.push(rename.new_name.value);
        }
        let changes: Vec<_> = owners.iter().map(|name| change_of_type(name)).collect();
        let owner = |role| Some(OfType::Owner(role));
        let schema = Some(OfType::Schema("b"));
        assert_eq!(changes, [owner("Ann"), owner("bob"), None, schema, Some(OfType::Attributes)]);
        assert!(crate::parse::parse("alter type owner to bob").is_err());
    }
}

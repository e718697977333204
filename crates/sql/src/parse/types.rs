//! ALTER TYPE … OWNER TO, which the parser does not know.

use super::constraints::{is_word, spaced};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Begins the name behind RENAME TO that stands for an owner: the role's name follows.
const OWNER: &str = "\u{f8ff}owner\n";

/// The owner in the name that a type is renamed to, if OWNER TO was written.
pub fn owner_of_type(new_name: &str) -> Option<&str> {
    new_name.strip_prefix(OWNER)
}

/// The tokens with `ALTER TYPE t OWNER TO r` as `RENAME TO` a name that [`owner_of_type`] knows.
pub(super) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|t| is_word(t, "owner")) {
        return tokens;
    }
    let mut made = Vec::with_capacity(tokens.len());
    for statement in tokens.split_inclusive(|t| matches!(t.token, Token::SemiColon)) {
        let is_end = |t: &&TokenWithSpan| matches!(t.token, Token::SemiColon | Token::EOF);
        let is_word_of = |t: &&TokenWithSpan| !is_end(t) && !matches!(t.token, Token::Whitespace(_));
        let words: Vec<&TokenWithSpan> = statement.iter().filter(is_word_of).collect();
        match words.as_slice() {
            [alter, of_type, name @ .., owner, to, role]
                if is_word(alter, "alter")
                    && is_word(of_type, "type")
                    && is_word(owner, "owner")
                    && is_word(to, "to")
                    && !name.is_empty()
                    && let Token::Word(role) = &role.token =>
            {
                let role = match role.quote_style {
                    Some(_) => role.value.clone(),
                    None => role.value.to_lowercase(),
                };
                let at = |token| TokenWithSpan { token, span: owner.span };
                let mut renamed: Vec<TokenWithSpan> = vec![(*alter).clone(), (*of_type).clone()];
                renamed.extend(name.iter().map(|t| (*t).clone()));
                renamed.push(at(Token::make_word("RENAME", None)));
                renamed.push((*to).clone());
                renamed.push(at(Token::make_word(&format!("{OWNER}{role}"), Some('"'))));
                made.extend(spaced(renamed));
                made.extend(statement.iter().filter(is_end).cloned());
            }
            _ => made.extend_from_slice(statement),
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlparser::ast::{AlterTypeOperation, Statement};

    #[test]
    fn an_owner_is_a_name_of_its_own() {
        let text =
            "alter type s.mood owner to \"Ann\"; ALTER TYPE mood OWNER TO bob; alter type owner rename to x";
        let mut owners = Vec::new();
        for statement in crate::parse::parse(text).unwrap() {
            let Statement::AlterType(alter) = statement else { panic!("{statement}") };
            let AlterTypeOperation::Rename(rename) = alter.operation else { panic!("{alter:?}") };
            owners.push(owner_of_type(&rename.new_name.value).map(str::to_string));
        }
        assert_eq!(owners, [Some("Ann".into()), Some("bob".into()), None]);
        assert!(crate::parse::parse("alter type owner to bob").is_err());
    }
}

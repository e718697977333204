//! `COMMENT ON CONSTRAINT c ON t` in words that the parser knows: as a comment on a column of `t` with a name that no
//! column has.

use super::constraints::is_word;
use sqlparser::ast::Ident;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Before the name of a constraint that stands in the place of a column's.
const CONSTRAINT: &str = "meridian constraint ";

/// The constraint that a comment's column stands for.
pub fn constraint_of(column: &Ident) -> Option<&str> {
    column.value.strip_prefix(CONSTRAINT)
}

pub(super) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|t| is_word(t, "comment")) {
        return tokens;
    }
    let mut made = Vec::with_capacity(tokens.len());
    for statement in tokens.split_inclusive(|t| matches!(t.token, Token::SemiColon)) {
        let words: Vec<usize> =
            (0..statement.len()).filter(|i| !matches!(statement[*i].token, Token::Whitespace(_))).collect();
        let is = |nth: usize, word: &str| words.get(nth).is_some_and(|i| is_word(&statement[*i], word));
        let is_about = is(0, "comment") && is(1, "on") && is(2, "constraint") && is(4, "on");
        let name = words.get(3).and_then(|i| match &statement[*i].token {
            Token::Word(word) if word.quote_style.is_some() => Some(word.value.clone()),
            Token::Word(word) => Some(word.value.to_lowercase()),
            _ => None,
        });
        let end = words.iter().position(|i| is_word(&statement[*i], "is"));
        let (Some(name), Some(end), true) = (name, end, is_about) else {
            made.extend_from_slice(statement);
            continue;
        };
        let span = statement[words[2]].span;
        let put = |token: Token| TokenWithSpan { token, span };
        made.extend_from_slice(&statement[..words[2]]);
        made.push(put(Token::make_word("COLUMN", None)));
        // The table's name and the blanks around it, but for those behind it.
        made.extend_from_slice(&statement[words[4] + 1..=words[end - 1]]);
        made.push(put(Token::Period));
        made.push(put(Token::make_word(&format!("{CONSTRAINT}{name}"), Some('"'))));
        made.extend_from_slice(&statement[words[end - 1] + 1..]);
    }
    made
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_comment_on_a_constraint_is_one_on_its_table() {
        let sql = "comment on constraint \"A b\" on s.t is 'x'; select 1";
        let parsed = crate::parse::parse(sql).unwrap();
        assert_eq!(parsed[0].to_string(), "COMMENT ON COLUMN s.t.\"meridian constraint A b\" IS 'x'");
        let plain = "COMMENT ON COLUMN s.t.constraint IS NULL";
        assert_eq!(crate::parse::parse(plain).unwrap()[0].to_string(), plain);
    }
}

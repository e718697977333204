//! What people write into a search field, as a query.

use super::query::{LEVELS_MAX, Node, Operator, Query, finish, settle, too_deep};
use super::words::{Words, is_operator};
use crate::error::SqlResult;

/// The words of a search field: quotes make phrases, `or` and a minus are operators. Every text is one.
/// Errors: those of the words; 54001.
pub(super) fn read(text: &str, word: &mut dyn FnMut(&str) -> SqlResult<Node>) -> SqlResult<Query> {
    let (mut open, mut operands): (Vec<Operator>, Vec<Node>) = (Vec::new(), Vec::new());
    let (mut rest, mut nested) = (text, 0);
    loop {
        // An operand.
        rest = after_separators(rest);
        if let Some(after) = rest.strip_prefix('-') {
            rest = after;
            nested += 1;
            if nested > LEVELS_MAX {
                return Err(too_deep());
            }
            settle(Operator::Not, &mut open, &mut operands);
            open.push(Operator::Not);
            continue;
        }
        if let Some(quoted) = rest.strip_prefix('"') {
            let (inside, after) = quoted.split_once('"').unwrap_or((quoted, ""));
            operands.push(word(inside)?);
            rest = after;
        } else {
            let mut words = Words::of_web(text, rest);
            let Some(token) = words.token()? else {
                // An operator without its side has one that no document keeps.
                if !open.is_empty() {
                    operands.push(Node::Stop);
                }
                break;
            };
            rest = words.rest();
            operands.push(word(&token.word)?);
        }
        rest = after_separators(rest);
        if rest.is_empty() {
            break;
        }
        let after_or = or_operator(rest);
        let operator = if after_or.is_some() { Operator::Or } else { Operator::And };
        rest = after_or.unwrap_or(rest);
        settle(operator, &mut open, &mut operands);
        open.push(operator);
    }
    Query::of(finish(open, operands).flatten())
}

/// What comes behind blanks and characters that mean nothing in a search field.
fn after_separators(text: &str) -> &str {
    text.trim_start_matches(|c: char| c.is_whitespace() || is_operator(c))
}

/// What comes behind the word `or` where that is an operator.
fn or_operator(text: &str) -> Option<&str> {
    let word = text.get(..2).filter(|word| word.eq_ignore_ascii_case("or"))?;
    let rest = &text[word.len()..];
    let is_alone = !rest.starts_with(|c: char| matches!(c, '-' | '_') || c.is_alphanumeric());
    let mut after = rest.chars();
    after.next()?;
    let has_operand = after.any(|c| !c.is_whitespace());
    (is_alone && has_operand).then_some(rest)
}

//! What trees of long texts take. It is reserved before a text is parsed, so that many texts at a time are refused and the
//! process keeps its memory.

use super::Session;
use base::error::SqlResult;
use sql::interrupt::SHORT_BYTES;
use std::sync::Arc;

impl Session {
    /// Reserves memory for the tree of a long text, until the next text comes. Errors: 53200.
    pub(super) fn reserve_tree(&self, sql: &str) -> SqlResult<()> {
        self.cancel.hold(None);
        if sql.len() > SHORT_BYTES {
            if let Some(threads) = self.gateway.threads() {
                threads.is_going_to_compute();
            }
            let memory = self.gateway.rows_memory("a statement's text");
            memory.grow(tree_bytes(sql))?;
            self.cancel.hold(Some(Arc::new(memory)));
        }
        Ok(())
    }
}

/// What a prepared statement keeps: measured from a quarter of what planning takes, for lists, to nine tenths, for many
/// columns.
pub(super) fn kept_bytes(sql: &str) -> usize {
    tree_bytes(sql) / 3
}

/// Of a sign in INSERT, whose rows are planned as they are: measured from 1.0 to 1.2 KiB.
const ROW_SIGN_BYTES: usize = 1 << 10;
/// Of a sign in other statements: measured up to 1.74 KiB for conditions and lists.
const SIGN_BYTES: usize = 7 << 8;
/// Of an argument beyond what its signs take: measured from 2.2 to 3.1 KiB a sign with two signs each.
const ARGUMENT_BYTES: usize = 3 << 10;
/// Of a SELECT: there are two trees of it.
const SELECT_BYTES: usize = 28 << 10;

/// What a text takes while it is planned, with its tokens and copies of its tree: each sign outside of literals ends a
/// token, and each comma in the text of an array an element that becomes a value of a list.
fn tree_bytes(sql: &str) -> usize {
    let (mut signs, mut arguments, mut selects) = (0, 0, 0);
    let (mut is_quoted, mut is_array) = (false, false);
    // Of each open bracket, whether arguments or elements are in it.
    let mut brackets = Vec::new();
    for (at, byte) in sql.bytes().enumerate() {
        if byte == b'\'' {
            is_quoted = !is_quoted;
            is_array = is_quoted && sql.as_bytes().get(at + 1) == Some(&b'{');
        }
        if is_quoted {
            signs += usize::from(is_array && byte == b',');
            continue;
        }
        signs += usize::from(!byte.is_ascii_alphanumeric());
        match byte {
            b'(' => brackets.push(is_call(&sql.as_bytes()[..at])),
            b'[' => brackets.push(true),
            b')' | b']' => _ = brackets.pop(),
            b',' => arguments += usize::from(brackets.last() == Some(&true)),
            b's' | b'S' => selects += usize::from(begins_with(&sql.as_bytes()[at..], b"select")),
            _ => {}
        }
    }
    let sign_bytes =
        if begins_with(sql.trim_start().as_bytes(), b"insert") { ROW_SIGN_BYTES } else { SIGN_BYTES };
    3 * sql.len() + sign_bytes * signs + ARGUMENT_BYTES * arguments + SELECT_BYTES * selects
}

fn begins_with(text: &[u8], word: &[u8]) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

/// Whether a bracket behind this text opens the arguments of a function.
fn is_call(before: &[u8]) -> bool {
    let ends_with = |word: &[u8]| {
        before.len().checked_sub(word.len()).is_some_and(|start| before[start..].eq_ignore_ascii_case(word))
    };
    let is_named = before.last().is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    is_named && !ends_with(b"values") && !ends_with(b" in")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_text_becomes_is_counted() {
        let bytes = |sql: &str| tree_bytes(sql) - 3 * sql.len();
        assert_eq!(bytes("1,2,3"), 2 * SIGN_BYTES);
        assert_eq!(bytes("'1,2,3'"), SIGN_BYTES, "the quote that closes");
        assert_eq!(bytes("'{1,2,3}'"), 3 * SIGN_BYTES, "elements of an array");
        assert_eq!(bytes("x'a{,'"), SIGN_BYTES, "a brace inside a text");
        assert_eq!(bytes("select 1"), SELECT_BYTES + SIGN_BYTES);
        assert_eq!(bytes("f(1,(2,3))"), 6 * SIGN_BYTES + ARGUMENT_BYTES, "a row is no call");
        assert_eq!(bytes("array[1,2]"), 3 * SIGN_BYTES + ARGUMENT_BYTES);
        assert_eq!(bytes("a in(1,2)"), 4 * SIGN_BYTES);
        assert_eq!(bytes(" INSERT INTO t VALUES(1,2)"), 7 * ROW_SIGN_BYTES);
    }
}

//! A search as text, with the parentheses that it needs.

use super::{Node, Query, Term};
use crate::text_search::vector::write_word;
use std::fmt;

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.root.as_ref().map_or(Ok(()), |root| write_node(f, root, 0, false))
    }
}

/// Writes a part that stands inside an operator of some priority; `is_end` says that it is the right side of a phrase.
fn write_node(f: &mut fmt::Formatter<'_>, node: &Node, around: u8, is_end: bool) -> fmt::Result {
    let own = node.priority();
    let is_phrase = matches!(node, Node::Phrase(..));
    let is_nested = own < around || (is_phrase && is_end);
    if is_nested {
        f.write_str("( ")?;
    }
    match node {
        Node::Stop => {}
        Node::Term(term) => write_term(f, term)?,
        Node::Not(part) => {
            f.write_str("!")?;
            write_node(f, part, own, false)?;
        }
        Node::All(parts) | Node::Any(parts) => {
            let between = if matches!(node, Node::All(_)) { " & " } else { " | " };
            for (n, part) in parts.iter().enumerate() {
                if n > 0 {
                    f.write_str(between)?;
                }
                write_node(f, part, own, false)?;
            }
        }
        Node::Phrase(a, b, distance) => {
            write_node(f, a, own, false)?;
            match distance {
                1 => f.write_str(" <-> ")?,
                distance => write!(f, " <{distance}> ")?,
            }
            write_node(f, b, own, true)?;
        }
    }
    if is_nested {
        f.write_str(" )")?;
    }
    Ok(())
}

fn write_term(f: &mut fmt::Formatter<'_>, term: &Term) -> fmt::Result {
    write_word(f, &term.word)?;
    if term.is_prefix || !term.weights.is_empty() {
        f.write_str(if term.is_prefix { ":*" } else { ":" })?;
    }
    term.weights.iter().try_for_each(|weight| write!(f, "{weight:?}"))
}

//! Whether a document matches a query.

use super::query::{Node, Query, Term};
use super::vector::{Place, Vector};

/// An answer that the places of words may leave open.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Truth {
    No,
    Maybe,
    Yes,
}

/// Where a part of a query ends in a document.
#[derive(Debug, Default)]
struct Ends {
    at: Vec<u32>,
    /// It ends everywhere but there.
    is_negated: bool,
    /// How many places it reaches back from its end.
    width: u32,
}

/// Whether a document matches. An empty query matches none.
pub fn matches(vector: &Vector, query: &Query) -> bool {
    query.root.as_ref().is_some_and(|root| holds(vector, root))
}

fn holds(vector: &Vector, node: &Node) -> bool {
    match node {
        Node::Stop => false,
        Node::Term(term) => {
            let counts = |places: &[Place]| {
                term.weights.is_empty() || places.is_empty() || places.iter().any(|p| counts(term, p))
            };
            vector.places(&term.word).is_some_and(counts)
                || term.is_prefix && vector.beginning(&term.word).any(counts)
        }
        Node::Not(part) => !holds(vector, part),
        Node::All(parts) => parts.iter().all(|part| holds(vector, part)),
        Node::Any(parts) => parts.iter().any(|part| holds(vector, part)),
        // A document that does not say where its words stand has no phrases.
        Node::Phrase(..) => ends(vector, node).0 == Truth::Yes,
    }
}

fn counts(term: &Term, place: &Place) -> bool {
    term.weights.is_empty() || term.weights.contains(&place.weight)
}

/// Where a part ends.
fn ends(vector: &Vector, node: &Node) -> (Truth, Ends) {
    match node {
        Node::Stop => (Truth::No, Ends::default()),
        Node::Term(term) => ends_of_term(vector, term),
        Node::Not(part) => match ends(vector, part) {
            (Truth::No, _) => (Truth::Yes, Ends { is_negated: true, ..Ends::default() }),
            (Truth::Maybe, _) => (Truth::Maybe, Ends::default()),
            (Truth::Yes, found) if found.at.is_empty() => (Truth::No, Ends::default()),
            (Truth::Yes, found) => (Truth::Yes, Ends { is_negated: !found.is_negated, ..found }),
        },
        Node::Phrase(a, b, distance) => both(ends(vector, a), ends(vector, b), Some(*distance)),
        Node::All(parts) => {
            let each = parts.iter().map(|part| ends(vector, part));
            each.reduce(|a, b| both(a, b, None)).unwrap_or((Truth::No, Ends::default()))
        }
        Node::Any(parts) => {
            let each = parts.iter().map(|part| ends(vector, part));
            each.reduce(either).unwrap_or((Truth::No, Ends::default()))
        }
    }
}

fn ends_of_term(vector: &Vector, term: &Term) -> (Truth, Ends) {
    let (mut at, mut is_open) = (Vec::new(), false);
    let mut look = |places: &[Place]| {
        is_open |= places.is_empty();
        at.extend(places.iter().filter(|place| counts(term, place)).map(|place| u32::from(place.at)));
    };
    match term.is_prefix {
        true => vector.beginning(&term.word).for_each(&mut look),
        false => vector.places(&term.word).into_iter().for_each(&mut look),
    }
    at.sort_unstable();
    at.dedup();
    match (is_open, at.is_empty()) {
        (true, _) => (Truth::Maybe, Ends::default()),
        (false, true) => (Truth::No, Ends::default()),
        (false, false) => (Truth::Yes, Ends { at, ..Ends::default() }),
    }
}

/// Which ends of two parts are ends of what they make together.
#[derive(Clone, Copy)]
struct Keeps {
    left: bool,
    right: bool,
    both: bool,
}

/// Two parts that both have to be there: at a distance, or at one place.
fn both(left: (Truth, Ends), right: (Truth, Ends), distance: Option<u32>) -> (Truth, Ends) {
    let (left, right) = match (left, right) {
        ((Truth::No, _), _) | (_, (Truth::No, _)) => return (Truth::No, Ends::default()),
        ((Truth::Maybe, _), _) | (_, (Truth::Maybe, _)) => return (Truth::Maybe, Ends::default()),
        ((Truth::Yes, left), (Truth::Yes, right)) => (left, right),
    };
    let wide = left.width.max(right.width);
    let (by_left, by_right, width) = match distance {
        Some(distance) => (distance + right.width, 0, distance + left.width + right.width),
        None => (wide - left.width, wide - right.width, wide),
    };
    let (keeps, is_negated) = match (left.is_negated, right.is_negated) {
        (true, true) => (Keeps { left: true, right: true, both: true }, true),
        (true, false) => (Keeps { left: false, right: true, both: false }, false),
        (false, true) => (Keeps { left: true, right: false, both: false }, false),
        (false, false) => (Keeps { left: false, right: false, both: true }, false),
    };
    let at = merged((&left.at, by_left), (&right.at, by_right), keeps);
    found(at, is_negated, width)
}

/// Two parts of which one has to be there.
fn either(left: (Truth, Ends), right: (Truth, Ends)) -> (Truth, Ends) {
    let (left, right) = match (left, right) {
        ((Truth::No, _), (Truth::No, _)) => return (Truth::No, Ends::default()),
        ((Truth::Maybe, _), _) | (_, (Truth::Maybe, _)) => return (Truth::Maybe, Ends::default()),
        ((_, left), (_, right)) => (left, right),
    };
    let width = left.width.max(right.width);
    let (keeps, is_negated) = match (left.is_negated, right.is_negated) {
        (true, true) => (Keeps { left: false, right: false, both: true }, true),
        (true, false) => (Keeps { left: true, right: false, both: false }, true),
        (false, true) => (Keeps { left: false, right: true, both: false }, true),
        (false, false) => (Keeps { left: true, right: true, both: true }, false),
    };
    let at = merged((&left.at, width - left.width), (&right.at, width - right.width), keeps);
    found(at, is_negated, width)
}

fn found(at: Vec<u32>, is_negated: bool, width: u32) -> (Truth, Ends) {
    match !at.is_empty() || is_negated {
        true => (Truth::Yes, Ends { at, is_negated, width }),
        false => (Truth::No, Ends::default()),
    }
}

/// Ends of two parts, moved, in order.
fn merged(left: (&[u32], u32), right: (&[u32], u32), keeps: Keeps) -> Vec<u32> {
    let moved = |(ends, by): (&[u32], u32)| ends.iter().map(|end| end + by).collect::<Vec<_>>();
    let (left, right) = (moved(left), moved(right));
    let mut at = Vec::new();
    let (mut l, mut r) = (left.iter().copied().peekable(), right.iter().copied().peekable());
    loop {
        match (l.peek().copied(), r.peek().copied()) {
            (None, None) => return at,
            (Some(a), Some(b)) if a == b => {
                at.extend(keeps.both.then_some(a));
                l.next();
                r.next();
            }
            (Some(a), b) if b.is_none_or(|b| a < b) => {
                at.extend(keeps.left.then_some(a));
                l.next();
            }
            (_, b) => {
                at.extend(b.filter(|_| keeps.right));
                r.next();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_match(vector: &str, query: &str) -> bool {
        matches(&Vector::parse(vector).unwrap(), &Query::parse(query).unwrap())
    }

    #[test]
    fn words_weights_and_beginnings() {
        assert!(is_match("fat:2B cat", "fat & (dog | ca:*)"));
        assert!(is_match("fat:2B cat", "fat:AB & cat:A & !dog"));
        assert!(!is_match("fat:2B cat", "fat:C"));
        assert!(!is_match("fat", "") && is_match("", "!fat"));
    }

    #[test]
    fn phrases_need_places() {
        assert!(is_match("fat:1 cat:2 sat:4", "fat <-> cat <2> sat"));
        assert!(!is_match("fat:1 cat:3", "fat <-> cat") && is_match("fat:1 cat:3", "fat <2> cat"));
        assert!(!is_match("fat cat", "fat <-> cat"));
        assert!(is_match("fat:1 cat:3", "!fat <-> cat") && !is_match("fat:2 cat:3", "!fat <-> cat"));
        assert!(is_match("fat:1 rat:2 cat:3", "fat <-> (cat | rat)"));
    }
}

//! `tsquery`: words joined by operators, as a tree.

mod show;

use super::vector::{WORD_BYTES_MAX, Weight};
use super::words::{Words, syntax_error};
use crate::error::{SqlError, SqlResult, SqlState};
/// How deep a query may be nested: trees are walked by recursion.
pub(super) const LEVELS_MAX: usize = 1_000;
/// The largest distance inside a phrase.
const DISTANCE_MAX: u32 = 16_384;

/// A word that is looked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Term {
    pub word: String,
    /// Weights that count, the most important one first; none of them: all count.
    pub weights: Vec<Weight>,
    /// Words that begin with it count, too.
    pub is_prefix: bool,
}

/// A part of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    Term(Term),
    /// A word that no document keeps. It goes before a query is done.
    Stop,
    Not(Box<Node>),
    /// `&`, of two or more.
    All(Vec<Node>),
    /// `|`, of two or more.
    Any(Vec<Node>),
    /// `<->` and `<N>`: the second so many places behind the first.
    Phrase(Box<Node>, Box<Node>, u32),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Operator {
    Or,
    And,
    Phrase(u32),
    Not,
}

impl Operator {
    fn priority(self) -> u8 {
        match self {
            Operator::Or => 1,
            Operator::And => 2,
            Operator::Phrase(_) => 3,
            Operator::Not => 4,
        }
    }
}

/// A query; it may be empty, and then matches nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pub root: Option<Node>,
}

impl Node {
    /// Two parts joined by an operator of two sides.
    pub(super) fn joined(operator: Operator, left: Node, right: Node) -> Node {
        let several = |left: Node, right: Node, parts: fn(Node) -> Result<Vec<Node>, Node>| {
            let mut all = parts(left).unwrap_or_else(|one| vec![one]);
            all.extend(parts(right).unwrap_or_else(|one| vec![one]));
            all
        };
        match operator {
            Operator::And => Node::All(several(left, right, |node| match node {
                Node::All(parts) => Ok(parts),
                other => Err(other),
            })),
            Operator::Or => Node::Any(several(left, right, |node| match node {
                Node::Any(parts) => Ok(parts),
                other => Err(other),
            })),
            Operator::Phrase(distance) => Node::Phrase(Box::new(left), Box::new(right), distance),
            Operator::Not => unreachable!("an operator of one side"),
        }
    }

    /// Parts in a row, joined by one operator; a place without a part is a word that no document keeps. Errors: 54001.
    pub(super) fn row(operator: Operator, parts: Vec<Node>) -> SqlResult<Node> {
        if matches!(operator, Operator::Phrase(_)) && parts.len() > LEVELS_MAX {
            return Err(too_deep());
        }
        Ok(parts.into_iter().reduce(|a, b| Node::joined(operator, a, b)).unwrap_or(Node::Stop))
    }

    /// How deep it is nested. Walks no deeper than `left` levels.
    fn levels(&self, left: usize) -> usize {
        let Some(left) = left.checked_sub(1) else { return 1 };
        let inner = match self {
            Node::Term(_) | Node::Stop => 0,
            Node::Not(part) => part.levels(left),
            Node::All(parts) | Node::Any(parts) => {
                parts.iter().map(|part| part.levels(left)).max().unwrap_or(0)
            }
            Node::Phrase(a, b, _) => a.levels(left).max(b.levels(left)),
        };
        inner + 1
    }

    fn priority(&self) -> u8 {
        match self {
            Node::Term(_) | Node::Stop => u8::MAX,
            Node::Not(_) => Operator::Not.priority(),
            Node::All(_) => Operator::And.priority(),
            Node::Any(_) => Operator::Or.priority(),
            Node::Phrase(..) => Operator::Phrase(1).priority(),
        }
    }

    /// Words and operators.
    fn count(&self) -> usize {
        match self {
            Node::Term(_) | Node::Stop => 1,
            Node::Not(part) => 1 + part.count(),
            Node::All(parts) | Node::Any(parts) => {
                parts.len() - 1 + parts.iter().map(Node::count).sum::<usize>()
            }
            Node::Phrase(a, b, _) => 1 + a.count() + b.count(),
        }
    }

    fn terms<'a>(&'a self, into: &mut Vec<&'a Term>) {
        match self {
            Node::Term(term) => into.push(term),
            Node::Stop => {}
            Node::Not(part) => part.terms(into),
            Node::All(parts) | Node::Any(parts) => parts.iter().for_each(|part| part.terms(into)),
            Node::Phrase(a, b, _) => {
                a.terms(into);
                b.terms(into);
            }
        }
    }

    /// The part that an index could look up: nothing that is negated.
    fn positive(&self) -> Option<Node> {
        match self {
            Node::Term(_) => Some(self.clone()),
            Node::Stop | Node::Not(_) => None,
            Node::Any(parts) => parts.iter().map(Node::positive).collect::<Option<Vec<_>>>().map(Node::Any),
            Node::All(parts) => {
                let mut left: Vec<Node> = parts.iter().filter_map(Node::positive).collect();
                if left.len() > 1 { Some(Node::All(left)) } else { left.pop() }
            }
            Node::Phrase(a, b, distance) => match (a.positive(), b.positive()) {
                (Some(a), Some(b)) => Some(Node::Phrase(Box::new(a), Box::new(b), *distance)),
                (a, b) => a.or(b),
            },
        }
    }

    /// The part without words that no document keeps; distances inside phrases grow by what has gone.
    fn cleaned(self) -> Cleaned {
        match self {
            Node::Stop => Cleaned::default(),
            Node::Term(_) => Cleaned { node: Some(self), ..Cleaned::default() },
            Node::Not(part) => {
                let cleaned = part.cleaned();
                Cleaned { node: cleaned.node.map(|node| Node::Not(Box::new(node))), ..cleaned }
            }
            Node::All(parts) => Cleaned::together(parts, Operator::And),
            Node::Any(parts) => Cleaned::together(parts, Operator::Or),
            Node::Phrase(a, b, distance) => {
                let (a, b) = (a.cleaned(), b.cleaned());
                match (a.node, b.node) {
                    (None, None) => {
                        let gone = a.before + distance + b.before;
                        Cleaned { node: None, before: gone, behind: gone }
                    }
                    (None, Some(node)) => {
                        Cleaned { node: Some(node), before: a.before + distance + b.before, behind: b.behind }
                    }
                    (Some(node), None) => {
                        Cleaned { node: Some(node), before: a.before, behind: a.behind + distance + b.behind }
                    }
                    (Some(x), Some(y)) => Cleaned {
                        node: Some(Node::Phrase(Box::new(x), Box::new(y), distance + a.behind + b.before)),
                        before: a.before,
                        behind: b.behind,
                    },
                }
            }
        }
    }
}

/// What is left of a part, and how many places went with words in front of it and behind it.
#[derive(Default)]
struct Cleaned {
    node: Option<Node>,
    before: u32,
    behind: u32,
}

impl Cleaned {
    fn together(parts: Vec<Node>, operator: Operator) -> Cleaned {
        let cleaned = parts.into_iter().map(Node::cleaned);
        let joined = cleaned.reduce(|a, b| match (a.node, b.node) {
            (None, None) => {
                let gone = a.before.max(b.before);
                Cleaned { node: None, before: gone, behind: gone }
            }
            (None, Some(node)) => Cleaned { node: Some(node), ..b_of(b.before, b.behind) },
            (Some(node), None) => Cleaned { node: Some(node), ..b_of(a.before, a.behind) },
            (Some(x), Some(y)) => Cleaned { node: Some(Node::joined(operator, x, y)), ..Cleaned::default() },
        });
        joined.unwrap_or_default()
    }
}

fn b_of(before: u32, behind: u32) -> Cleaned {
    Cleaned { node: None, before, behind }
}

impl Query {
    /// A query of a part; words that no document keeps go. Errors: 54001.
    pub(super) fn of(node: Option<Node>) -> SqlResult<Query> {
        if node.as_ref().is_some_and(|node| node.levels(LEVELS_MAX) >= LEVELS_MAX) {
            return Err(too_deep());
        }
        Ok(Query { root: node.and_then(|node| node.cleaned().node) })
    }

    /// Reads the text of a query, whose words stand as they are. Errors: 42601, 22023, 54000, 54001.
    pub fn parse(text: &str) -> SqlResult<Query> {
        Query::read(text, &mut |word, weights, is_prefix| {
            if word.len() > WORD_BYTES_MAX {
                let message = format!("word is too long in tsquery: \"{text}\"");
                return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
            }
            Ok(Node::Term(Term { word, weights, is_prefix }))
        })
    }

    /// Reads the text that a stored query has, which is one of a query.
    pub fn stored(text: &str) -> Query {
        Query::parse(text).unwrap_or_default()
    }

    /// Reads a query whose words are made something else. Errors: those of the text and of the words.
    pub(super) fn read(
        text: &str,
        word: &mut dyn FnMut(String, Vec<Weight>, bool) -> SqlResult<Node>,
    ) -> SqlResult<Query> {
        let mut reader = Reader { all: text, rest: text, is_start: true, nested: 0 };
        let node = reader.expression(word, 0)?;
        Query::of(node)
    }

    /// How many words and operators there are.
    pub fn count(&self) -> usize {
        self.root.as_ref().map_or(0, Node::count)
    }

    /// The words, each as often as it stands there.
    pub fn terms(&self) -> Vec<&Term> {
        let mut terms = Vec::new();
        if let Some(root) = &self.root {
            root.terms(&mut terms);
        }
        terms
    }

    /// The text of the part that an index could look up; `T` if that is none.
    pub fn positive(&self) -> String {
        match &self.root {
            None => String::new(),
            Some(root) => root.positive().map_or("T".into(), |node| Query { root: Some(node) }.to_string()),
        }
    }

    /// Two queries joined; of an empty one and another the other. Errors: 54001.
    pub(super) fn joined(self, operator: Operator, other: Query) -> SqlResult<Query> {
        match (self.root, other.root) {
            (Some(a), Some(b)) => Query::of(Some(Node::joined(operator, a, b))),
            (a, b) => Ok(Query { root: a.or(b) }),
        }
    }

    /// What does not match. Errors: 54001.
    pub fn negated(self) -> SqlResult<Query> {
        Query::of(self.root.map(|root| Node::Not(Box::new(root))))
    }
}

pub(super) fn too_deep() -> SqlError {
    SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
        .detail(format!("A text-search query is nested at most {LEVELS_MAX} levels deep."))
}

/// Joins what was read by an operator that has come to its turn.
pub(super) fn apply(operator: Operator, operands: &mut Vec<Node>) -> Option<()> {
    let right = operands.pop()?;
    let joined = match operator {
        Operator::Not => Node::Not(Box::new(right)),
        operator => Node::joined(operator, operands.pop()?, right),
    };
    operands.push(joined);
    Some(())
}

/// Joins by all operators that come before one that was read.
pub(super) fn settle(operator: Operator, open: &mut Vec<Operator>, operands: &mut Vec<Node>) -> Option<()> {
    while let Some(last) = open.last().copied() {
        // NOT is the one that stands in front: what comes behind it goes first.
        let waits = match operator {
            Operator::Not => operator.priority() >= last.priority(),
            _ => operator.priority() > last.priority(),
        };
        if waits {
            break;
        }
        open.pop();
        apply(last, operands)?;
    }
    Some(())
}

/// Joins by all operators that are left. `None` if there are too few operands; `Some(None)` if there is nothing.
pub(super) fn finish(mut open: Vec<Operator>, mut operands: Vec<Node>) -> Option<Option<Node>> {
    while let Some(operator) = open.pop() {
        apply(operator, &mut operands)?;
    }
    Some(operands.pop())
}

struct Reader<'a> {
    all: &'a str,
    rest: &'a str,
    /// No operand has come yet.
    is_start: bool,
    /// Operators that may stand inside each other: NOT and those of phrases.
    nested: usize,
}

impl Reader<'_> {
    fn error(&self) -> SqlError {
        syntax_error("syntax error in tsquery", self.all)
    }

    fn take(&mut self, c: char) -> bool {
        let rest = self.rest.strip_prefix(c);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Up to the end, or to the parenthesis that closes. `None` if there is nothing.
    fn expression(
        &mut self,
        word: &mut dyn FnMut(String, Vec<Weight>, bool) -> SqlResult<Node>,
        depth: usize,
    ) -> SqlResult<Option<Node>> {
        if depth > LEVELS_MAX {
            return Err(too_deep());
        }
        let (mut open, mut operands): (Vec<Operator>, Vec<Node>) = (Vec::new(), Vec::new());
        loop {
            // An operand.
            self.rest = self.rest.trim_start();
            if self.take('!') {
                self.is_start = false;
                settle(Operator::Not, &mut open, &mut operands).ok_or_else(|| self.error())?;
                open.push(Operator::Not);
                self.nest()?;
                continue;
            }
            if self.take('(') {
                self.is_start = false;
                let inner = self.expression(word, depth + 1)?;
                operands.push(inner.ok_or_else(|| self.error())?);
            } else {
                if self.rest.starts_with(':') {
                    return Err(self.error());
                }
                let mut words = Words::of_query(self.all, self.rest);
                let Some(token) = words.token()? else {
                    if self.is_start && depth == 0 {
                        return Ok(None);
                    }
                    return Err(syntax_error("no operand in tsquery", self.all));
                };
                self.rest = words.rest();
                self.is_start = false;
                let (weights, is_prefix) = self.modifiers();
                operands.push(word(token.word, weights, is_prefix)?);
            }
            // What follows it.
            self.rest = self.rest.trim_start();
            let operator = if self.take('&') {
                Operator::And
            } else if self.take('|') {
                Operator::Or
            } else if let Some(distance) = self.distance()? {
                self.nest()?;
                Operator::Phrase(distance)
            } else if self.rest.is_empty() && depth == 0 || depth > 0 && self.take(')') {
                return finish(open, operands).ok_or_else(|| self.error());
            } else {
                return Err(self.error());
            };
            settle(operator, &mut open, &mut operands).ok_or_else(|| self.error())?;
            open.push(operator);
        }
    }

    /// Counts an operator that may stand inside others of its kind. Errors: 54001.
    fn nest(&mut self) -> SqlResult<()> {
        self.nested += 1;
        if self.nested > LEVELS_MAX { Err(too_deep()) } else { Ok(()) }
    }

    /// Weights and the mark of a prefix behind a word: `:AB*`.
    fn modifiers(&mut self) -> (Vec<Weight>, bool) {
        let (mut weights, mut is_prefix) = (Vec::new(), false);
        if self.take(':') {
            while let Some(c) = self.rest.chars().next() {
                match Weight::of(c) {
                    Some(weight) => weights.push(weight),
                    None if c == '*' => is_prefix = true,
                    None => break,
                }
                self.rest = &self.rest[1..];
            }
        }
        weights.sort_by(|a, b| b.cmp(a));
        weights.dedup();
        (weights, is_prefix)
    }

    /// The distance of `<->` or `<N>`; `None` if there is no such operator. Errors: 22023.
    fn distance(&mut self) -> SqlResult<Option<u32>> {
        let Some(inside) = self.rest.strip_prefix('<') else { return Ok(None) };
        let Some((written, rest)) = inside.split_once('>') else { return Ok(None) };
        let distance = match written {
            "-" => 1,
            digits if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => {
                digits.parse::<u32>().unwrap_or(u32::MAX)
            }
            _ => return Ok(None),
        };
        self.rest = rest;
        within(i64::from(distance)).map(Some)
    }
}

/// A distance that a phrase may have. Errors: 22023.
pub(super) fn within(distance: i64) -> SqlResult<u32> {
    let allowed = u32::try_from(distance).ok().filter(|distance| *distance <= DISTANCE_MAX);
    let told = "distance in phrase operator must be an integer value between zero and";
    let refused =
        || SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("{told} {DISTANCE_MAX} inclusive"));
    allowed.ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        Query::parse(text).unwrap().to_string()
    }

    #[test]
    fn a_query_is_shown_with_the_parentheses_that_it_needs() {
        assert_eq!(shown("a & (b|c) & !d"), "'a' & ( 'b' | 'c' ) & !'d'");
        assert_eq!(shown("(a & b) & c | d"), "'a' & 'b' & 'c' | 'd'");
        assert_eq!(shown("a <-> (b <2> c)"), "'a' <-> ( 'b' <2> 'c' )");
        assert_eq!(shown("!(a|b) <-> c:*bA"), "!( 'a' | 'b' ) <-> 'c':*AB");
        assert_eq!(shown("!!a"), "!!'a'");
        assert_eq!(shown(" "), "");
    }

    #[test]
    fn what_is_no_query_is_refused() {
        for text in ["a b", "a &", "(a", "a)", "()", ":a", "!", "a < b"] {
            assert_eq!(Query::parse(text).unwrap_err().state, SqlState::SYNTAX_ERROR, "{text}");
        }
        assert_eq!(Query::parse("a <20000> b").unwrap_err().state, SqlState::INVALID_PARAMETER_VALUE);
        assert_eq!(
            Query::parse(&("!".repeat(5_000) + "a")).unwrap_err().state,
            SqlState::STATEMENT_TOO_COMPLEX
        );
        let chain = vec!["a"; 20_000].join(" & ");
        assert_eq!(Query::parse(&chain).unwrap().count(), 39_999);
    }

    #[test]
    fn an_index_looks_for_what_is_not_negated() {
        assert_eq!(Query::parse("a & !b").unwrap().positive(), "'a'");
        assert_eq!(Query::parse("!a").unwrap().positive(), "T");
        assert_eq!(Query::parse("a | !b").unwrap().positive(), "T");
    }
}

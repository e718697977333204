//! How deep the tree of a text can become, told from its tokens before there is a tree.
//!
//! Everything that walks a statement's tree does so by recursion: cloning and dropping it, lowering, planning,
//! evaluating. Threads that do have large stacks (`runtime::STACK_BYTES`); a text whose tree could need more than that is
//! refused before it is parsed. Nesting is what parentheses make, and chains of operators: `1 + 1 + 1` is a tree as deep
//! as it has operators. Chains of AND, OR, `||` and UNION are balanced after parsing (`super::chains`), so that they may
//! be long.
//!
//! KEEPS: the depth of a tree that is parsed and balanced is at most a constant times what is counted here.

use base::SqlError;
use base::error::{SqlResult, SqlState};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Levels that a tree may have.
const DEPTH_MAX: usize = 2_000;

/// Parentheses, brackets and CASEs inside each other. The parser's own recursion takes much of a stack for each.
pub(super) const NESTING_MAX: usize = 500;

/// Statements inside each other: EXPLAIN, PREPARE, INSERT. The parser takes far more of a stack for each than for a
/// parenthesis: 500 took 64 MiB.
const STATEMENTS_MAX: usize = 16;

/// Operands of one chain of AND, OR, `||` or UNION.
const CHAIN_MAX: usize = 100_000;

/// Pairs of brackets behind one value or type. No array has more than six dimensions; each subscript is a call around the
/// one before, and took 7 KiB while it was planned.
const SUBSCRIPTS_MAX: usize = 100;

/// Parts of one dotted name. No name has more than four; the parser looks at all that follow from each of them.
const NAME_PARTS_MAX: usize = 100;

/// Refuses names of very many parts. Errors: 42601.
pub(super) fn check_names(tokens: &[TokenWithSpan]) -> SqlResult<()> {
    let mut parts = 0;
    let mut since_point = 0;
    for token in tokens.iter().map(|t| &t.token).filter(|t| !matches!(t, Token::Whitespace(_))) {
        if matches!(token, Token::Period) {
            parts = if since_point == 1 { parts + 1 } else { 1 };
            since_point = 0;
        } else {
            since_point += 1;
        }
        if parts > NAME_PARTS_MAX {
            let message = "improper qualified name (too many dotted names)";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
    }
    Ok(())
}

/// What one level of parentheses has had so far.
#[derive(Clone, Copy, Default)]
struct Level {
    /// Operators since the last place where an expression began.
    operators: usize,
    /// What makes a query's plan deeper, each on top of the one before: joined tables, common table expressions, set
    /// operations that differ from the one before.
    relations: usize,
    /// Words that a statement begins with, since the last comma.
    statements: usize,
    /// Pairs of brackets behind the last value.
    subscripts: usize,
    /// Links of chains that are balanced.
    links: usize,
    /// The last set operation.
    set_operation: Option<(Keyword, bool)>,
    /// Commas separate tables.
    is_from: bool,
}

impl Level {
    fn check(&self, enclosing: usize, nesting: usize) -> SqlResult<()> {
        let is_within = enclosing + self.operators + self.relations <= DEPTH_MAX
            && nesting <= NESTING_MAX
            && self.links <= CHAIN_MAX
            && self.subscripts <= SUBSCRIPTS_MAX
            && self.statements <= STATEMENTS_MAX;
        if is_within { Ok(()) } else { Err(too_deep()) }
    }
}

/// Whether a word begins a statement that may hold another one.
fn holds_statement(keyword: Keyword) -> bool {
    matches!(
        keyword,
        Keyword::EXPLAIN
            | Keyword::DESCRIBE
            | Keyword::PREPARE
            | Keyword::INSERT
            | Keyword::IF
            | Keyword::WHILE
            | Keyword::BEGIN
    )
}

/// Refuses a text whose tree could be too deep. Errors: 54001.
pub(super) fn check(tokens: &[TokenWithSpan]) -> SqlResult<()> {
    let mut levels = vec![Level::default()];
    // Depth of the levels that enclose the innermost one.
    let mut enclosing = 0;
    let mut prefix = 0;
    let mut significant =
        tokens.iter().map(|t| &t.token).filter(|t| !matches!(t, Token::Whitespace(_))).peekable();
    while let Some(token) = significant.next() {
        let next = significant.peek().copied();
        let level = levels.last_mut().expect("the outermost level stays");
        let before = std::mem::take(&mut prefix);
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                enclosing += 1 + level.operators + level.relations;
                // Signs and NOTs before a parenthesis nest as it does, and count until the expression ends.
                levels.push(Level::default());
            }
            Token::RParen | Token::RBracket | Token::RBrace => close(&mut levels, &mut enclosing, next),
            Token::Comma => {
                level.operators = 0;
                level.statements = 0;
                level.relations += usize::from(level.is_from);
            }
            Token::SemiColon => {
                levels.truncate(1);
                levels[0] = Level::default();
                enclosing = 0;
            }
            Token::Word(word) if word.quote_style.is_none() => match word.keyword {
                Keyword::CASE => {
                    enclosing += 1 + level.operators + level.relations;
                    levels.push(Level::default());
                }
                Keyword::END => close(&mut levels, &mut enclosing, None),
                Keyword::AND | Keyword::OR => {
                    level.links += 1;
                    level.operators = 0;
                }
                operation @ (Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT) => {
                    let all = matches!(significant.peek(), Some(Token::Word(w)) if w.keyword == Keyword::ALL);
                    let this = (operation, all);
                    // Only chains of one associative operation are balanced.
                    if level.set_operation == Some(this) && operation != Keyword::EXCEPT {
                        level.links += 1;
                    } else {
                        level.relations += 1;
                    }
                    level.set_operation = Some(this);
                    level.operators = 0;
                    level.is_from = false;
                }
                Keyword::FROM => {
                    level.operators = 0;
                    level.is_from = true;
                }
                keyword if holds_statement(keyword) => level.statements += 1,
                Keyword::JOIN => level.relations += 1,
                Keyword::AS
                    if matches!(significant.peek(), Some(Token::LParen))
                        || matches!(significant.peek(), Some(Token::Word(w)) if matches!(
                            w.keyword,
                            Keyword::MATERIALIZED | Keyword::NOT
                        )) =>
                {
                    level.relations += 1;
                }
                Keyword::SELECT
                | Keyword::WHERE
                | Keyword::GROUP
                | Keyword::ORDER
                | Keyword::HAVING
                | Keyword::LIMIT
                | Keyword::OFFSET
                | Keyword::VALUES
                | Keyword::SET
                | Keyword::RETURNING => {
                    level.operators = 0;
                    level.is_from = false;
                }
                Keyword::WHEN | Keyword::THEN | Keyword::ELSE | Keyword::ON => level.operators = 0,
                // NOT NOT NOT x, INTERVAL INTERVAL '1 day'
                keyword if nests(keyword, significant.peek().copied()) => {
                    level.operators += 1;
                    prefix = before + 1;
                }
                Keyword::IS
                | Keyword::IN
                | Keyword::BETWEEN
                | Keyword::LIKE
                | Keyword::ILIKE
                | Keyword::SIMILAR
                | Keyword::COLLATE
                | Keyword::AT
                | Keyword::NOTNULL => level.operators += 1,
                _ => {}
            },
            Token::StringConcat => level.links += 1,
            Token::Word(_)
            | Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::DollarQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::Placeholder(_)
            | Token::Period
            | Token::EOF => {}
            // Any other symbol is an operator, or as good as one.
            _ => {
                level.operators += 1;
                prefix = before + 1;
            }
        }
        let level = levels.last().expect("the outermost level stays");
        // Signs in a row are read by recursion, like parentheses.
        level.check(enclosing, levels.len() + prefix)?;
    }
    Ok(())
}

/// Goes back to the enclosing level, if there is one. Brackets that follow brackets are subscripts of one value.
fn close(levels: &mut Vec<Level>, enclosing: &mut usize, next: Option<&Token>) {
    let is_nested = levels.len() > 1;
    if is_nested {
        levels.pop();
    }
    let level = levels.last_mut().expect("the outermost level stays");
    if is_nested {
        *enclosing -= 1 + level.operators + level.relations;
    }
    level.subscripts = if next == Some(&Token::LBracket) { level.subscripts + 1 } else { 0 };
}

/// Whether what follows a word may begin with the same word again, inside it.
fn nests(keyword: Keyword, next: Option<&Token>) -> bool {
    let is_interval = matches!(next, Some(Token::Word(w)) if w.keyword == Keyword::INTERVAL);
    keyword == Keyword::NOT || keyword == Keyword::INTERVAL && is_interval
}

/// 54001 for a statement of too many levels.
pub fn too_deep() -> SqlError {
    SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded").hint(format!(
        "Expressions and queries may have {DEPTH_MAX} levels, {NESTING_MAX} of them parentheses. Use IN with a list, a \
         join with VALUES, or several statements."
    ))
}

//! Reading a path: PostgreSQL's grammar by recursive descent, with one token of look-ahead, so that an error is found at the
//! token at which PostgreSQL finds it.

use super::lexer::{Lexed, Lexer, Token, invalid_path, wrong};
use super::{Arithmetic, Chain, Comparison, Method, Path, Pattern, STEPS_MAX, Step};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::json::{Json, number};
use crate::patterns::{Flags, compiled};

/// Reads a path. Errors: 22P02 for an empty one, 42601, 54001; those of patterns and numbers.
pub(super) fn parse(text: &str) -> SqlResult<Path> {
    let mut lexer = Lexer::new(text);
    let look = lexer.next()?;
    if look.token == Token::End {
        let message = format!("invalid input syntax for type jsonpath: \"{text}\"");
        return Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message));
    }
    let mut parser = Parser { lexer, look, steps: 0, filters: 0, subscripts: 0, misplaced: None };
    let is_lax = match parser.word() {
        Some(word @ ("lax" | "strict")) => {
            parser.advance()?;
            word == "lax"
        }
        _ => true,
    };
    let chain = parser.expression()?;
    if parser.look.token != Token::End {
        return Err(parser.unexpected());
    }
    match parser.misplaced {
        Some(message) => Err(SqlError::new(SqlState::SYNTAX_ERROR, message)),
        None => Ok(Path { is_lax, chain }),
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    look: Lexed,
    /// Steps, operators and parentheses so far.
    steps: usize,
    /// Filters and subscripts that are open here.
    filters: usize,
    subscripts: usize,
    /// The first `@` or `last` in a wrong place, which PostgreSQL looks for in a path that is right otherwise.
    misplaced: Option<&'static str>,
}

impl Parser<'_> {
    fn advance(&mut self) -> SqlResult<Token> {
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.look, next).token)
    }

    fn unexpected(&self) -> SqlError {
        wrong("syntax error", &self.look.shown)
    }

    fn word(&self) -> Option<&'static str> {
        match &self.look.token {
            Token::Word(_, word) => *word,
            _ => None,
        }
    }

    fn is_mark(&self, mark: char) -> bool {
        self.look.token == Token::Mark(mark)
    }

    fn expect(&mut self, mark: char) -> SqlResult<()> {
        match self.is_mark(mark) {
            true => self.advance().map(|_| ()),
            false => Err(self.unexpected()),
        }
    }

    fn expect_word(&mut self, word: &str) -> SqlResult<()> {
        match self.word() == Some(word) {
            true => self.advance().map(|_| ()),
            false => Err(self.unexpected()),
        }
    }

    fn expect_text(&mut self) -> SqlResult<String> {
        match &self.look.token {
            Token::Text(text) => {
                let text = text.clone();
                self.advance()?;
                Ok(text)
            }
            _ => Err(self.unexpected()),
        }
    }

    /// Counts a step. Errors: 54001.
    fn count(&mut self) -> SqlResult<()> {
        self.steps += 1;
        if self.steps <= STEPS_MAX {
            return Ok(());
        }
        Err(SqlError::new(SqlState(*b"54001"), "stack depth limit exceeded")
            .detail(format!("A jsonpath has at most {STEPS_MAX} steps and operators.")))
    }

    /// What was read, if it is a predicate. Errors: 42601, where something else has to make it one.
    fn predicate_of(&self, chain: Chain) -> SqlResult<Chain> {
        match is_predicate(&chain) {
            true => Ok(chain),
            false => Err(self.unexpected()),
        }
    }

    fn value_of(&self, chain: Chain) -> SqlResult<Chain> {
        match is_predicate(&chain) {
            true => Err(self.unexpected()),
            false => Ok(chain),
        }
    }

    /// A value or a predicate.
    fn expression(&mut self) -> SqlResult<Chain> {
        self.count()?;
        let mut left = self.conjunction()?;
        while self.look.token == Token::Pair("||") {
            (left, _) = (self.predicate_of(left)?, self.advance()?);
            self.count()?;
            let right = self.conjunction()?;
            left = vec![Step::Or(left, self.predicate_of(right)?)];
        }
        Ok(left)
    }

    fn conjunction(&mut self) -> SqlResult<Chain> {
        let mut left = self.condition()?;
        while self.look.token == Token::Pair("&&") {
            (left, _) = (self.predicate_of(left)?, self.advance()?);
            self.count()?;
            let right = self.condition()?;
            left = vec![Step::And(left, self.predicate_of(right)?)];
        }
        Ok(left)
    }

    fn condition(&mut self) -> SqlResult<Chain> {
        if self.is_mark('!') {
            self.advance()?;
            let inner = match self.word() {
                Some("exists") => self.exists()?,
                _ => self.in_parentheses()?,
            };
            return Ok(vec![Step::Not(inner)]);
        }
        if self.word() == Some("exists") {
            return self.exists();
        }
        let left = self.sum()?;
        if is_predicate(&left) {
            return Ok(left);
        }
        if let Some(comparison) = self.comparison() {
            self.advance()?;
            let right = self.sum()?;
            return Ok(vec![Step::Compare(comparison, left, self.value_of(right)?)]);
        }
        match self.word() {
            Some("starts") => {
                self.advance()?;
                self.expect_word("with")?;
                let prefix = match &self.look.token {
                    Token::Text(text) => Step::Literal(Json::Text(text.clone())),
                    Token::Variable(name) => Step::Variable(name.clone()),
                    _ => return Err(self.unexpected()),
                };
                self.advance()?;
                Ok(vec![Step::StartsWith(left, vec![prefix])])
            }
            Some("like_regex") => {
                self.advance()?;
                self.pattern().map(|pattern| vec![Step::LikeRegex(left, Box::new(pattern))])
            }
            _ => Ok(left),
        }
    }

    /// A predicate in parentheses.
    fn in_parentheses(&mut self) -> SqlResult<Chain> {
        self.expect('(')?;
        let inner = self.expression()?;
        let inner = self.predicate_of(inner)?;
        self.expect(')')?;
        Ok(inner)
    }

    fn exists(&mut self) -> SqlResult<Chain> {
        self.advance()?;
        self.expect('(')?;
        self.count()?;
        let inner = self.sum()?;
        let inner = self.value_of(inner)?;
        self.expect(')')?;
        Ok(vec![Step::Exists(inner)])
    }

    fn comparison(&self) -> Option<Comparison> {
        Some(match self.look.token {
            Token::Pair("==") => Comparison::Equal,
            Token::Pair("!=" | "<>") => Comparison::NotEqual,
            Token::Pair("<=") => Comparison::LessOrEqual,
            Token::Pair(">=") => Comparison::GreaterOrEqual,
            Token::Mark('<') => Comparison::Less,
            Token::Mark('>') => Comparison::Greater,
            _ => return None,
        })
    }

    /// Behind `like_regex`.
    fn pattern(&mut self) -> SqlResult<Pattern> {
        let text = self.expect_text()?;
        let written = match self.word() {
            Some("flag") => {
                self.advance()?;
                self.expect_text()?
            }
            _ => String::new(),
        };
        if let Some(letter) = written.chars().find(|letter| !"ismxq".contains(*letter)) {
            let detail = format!("Unrecognized flag character \"{letter}\" in LIKE_REGEX predicate.");
            let mut error = invalid_path().detail(detail);
            error.state = SqlState::SYNTAX_ERROR;
            return Err(error);
        }
        if written.contains('x') && !written.contains('q') {
            let message = "XQuery \"x\" flag (expanded regular expressions) is not implemented";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let regex = compiled(&text, Flags::of_xquery(&written))?;
        let flags = "ismxq".chars().filter(|letter| written.contains(*letter)).collect();
        Ok(Pattern { text, flags, regex })
    }

    fn sum(&mut self) -> SqlResult<Chain> {
        self.arithmetic(Self::product, |mark| match mark {
            '+' => Some(Arithmetic::Add),
            '-' => Some(Arithmetic::Subtract),
            _ => None,
        })
    }

    fn product(&mut self) -> SqlResult<Chain> {
        self.arithmetic(Self::signed, |mark| match mark {
            '*' => Some(Arithmetic::Multiply),
            '/' => Some(Arithmetic::Divide),
            '%' => Some(Arithmetic::Modulo),
            _ => None,
        })
    }

    fn arithmetic(
        &mut self,
        operand: fn(&mut Self) -> SqlResult<Chain>,
        operator: fn(char) -> Option<Arithmetic>,
    ) -> SqlResult<Chain> {
        let mut left = operand(self)?;
        while !is_predicate(&left)
            && let Token::Mark(mark) = self.look.token
            && let Some(operator) = operator(mark)
        {
            self.advance()?;
            self.count()?;
            let right = operand(self)?;
            left = vec![Step::Arithmetic(operator, left, self.value_of(right)?)];
        }
        Ok(left)
    }

    fn signed(&mut self) -> SqlResult<Chain> {
        let Token::Mark(sign @ ('+' | '-')) = self.look.token else { return self.accessed() };
        self.advance()?;
        self.count()?;
        let inner = self.signed()?;
        let inner = self.value_of(inner)?;
        Ok(match inner.as_slice() {
            // The sign of a number is part of it.
            [Step::Literal(Json::Number(_))] if sign == '+' => inner,
            [Step::Literal(Json::Number(digits))] => {
                vec![Step::Literal(Json::Number(super::methods::negated(digits)))]
            }
            _ => vec![Step::Sign(sign, inner)],
        })
    }

    /// What a chain begins with, and the steps that follow.
    fn accessed(&mut self) -> SqlResult<Chain> {
        let mut chain = match self.look.token {
            Token::Mark('(') => {
                self.advance()?;
                let inner = self.expression()?;
                self.expect(')')?;
                if is_predicate(&inner) && self.word() == Some("is") {
                    self.advance()?;
                    self.expect_word("unknown")?;
                    return Ok(vec![Step::IsUnknown(inner)]);
                }
                inner
            }
            _ => vec![self.beginning()?],
        };
        loop {
            self.count()?;
            chain.push(match self.look.token {
                Token::Mark('.') => {
                    self.advance()?;
                    self.member()?
                }
                Token::Mark('[') => {
                    self.advance()?;
                    self.elements()?
                }
                Token::Mark('?') => {
                    self.advance()?;
                    self.filters += 1;
                    let condition = self.in_parentheses()?;
                    self.filters -= 1;
                    Step::Filter(condition)
                }
                _ => return Ok(chain),
            });
        }
    }

    fn beginning(&mut self) -> SqlResult<Step> {
        let step = match &self.look.token {
            Token::Text(text) => Step::Literal(Json::Text(text.clone())),
            Token::Variable(name) => Step::Variable(name.clone()),
            Token::Integer(digits) | Token::Number(digits) => {
                Step::Literal(Json::Number(number::canonical(digits)?))
            }
            Token::Mark('$') => Step::Root,
            Token::Mark('@') => Step::Current,
            Token::Word(_, Some("null")) => Step::Literal(Json::Null),
            Token::Word(_, Some("true")) => Step::Literal(Json::Bool(true)),
            Token::Word(_, Some("false")) => Step::Literal(Json::Bool(false)),
            Token::Word(_, Some("last")) => Step::Last,
            _ => return Err(self.unexpected()),
        };
        match step {
            Step::Current if self.filters == 0 => {
                self.misplaced.get_or_insert("@ is not allowed in root expressions");
            }
            Step::Last if self.subscripts == 0 => {
                self.misplaced.get_or_insert("LAST is allowed only in array subscripts");
            }
            _ => {}
        }
        self.advance()?;
        Ok(step)
    }

    /// Behind a point.
    fn member(&mut self) -> SqlResult<Step> {
        match self.advance_if_member()? {
            Token::Mark(_) => Ok(Step::AnyKey),
            Token::Pair(_) => self.levels(),
            Token::Text(key) => Ok(Step::Key(key)),
            Token::Word(_, Some("datetime")) if self.is_mark('(') => {
                self.advance()?;
                let template = match self.is_mark(')') {
                    true => None,
                    false => Some(self.expect_text()?),
                };
                self.expect(')')?;
                Ok(Step::Datetime(template))
            }
            Token::Word(_, Some(word)) if self.is_mark('(') && method(word).is_some() => {
                self.advance()?;
                self.expect(')')?;
                Ok(Step::Method(method(word).expect("it is one")))
            }
            Token::Word(key, _) => Ok(Step::Key(key)),
            _ => Err(self.unexpected()),
        }
    }

    /// The token behind a point, if it may stand there.
    fn advance_if_member(&mut self) -> SqlResult<Token> {
        match self.look.token {
            Token::Mark('*') | Token::Pair("**") | Token::Text(_) | Token::Word(..) => self.advance(),
            _ => Err(self.unexpected()),
        }
    }

    /// Behind `**`.
    fn levels(&mut self) -> SqlResult<Step> {
        if !self.is_mark('{') {
            return Ok(Step::Descendants(0, u32::MAX));
        }
        self.advance()?;
        let first = self.level()?;
        let last = match self.word() {
            Some("to") => {
                self.advance()?;
                self.level()?
            }
            _ => first,
        };
        self.expect('}')?;
        Ok(Step::Descendants(first, last))
    }

    fn level(&mut self) -> SqlResult<u32> {
        let level = match &self.look.token {
            Token::Integer(digits) => {
                let level = digits.parse::<u32>().ok().filter(|level| i32::try_from(*level).is_ok());
                level.ok_or_else(|| {
                    let message = format!("value \"{digits}\" is out of range for type integer");
                    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
                })?
            }
            Token::Word(_, Some("last")) => u32::MAX,
            _ => return Err(self.unexpected()),
        };
        self.advance()?;
        Ok(level)
    }

    /// Behind a bracket.
    fn elements(&mut self) -> SqlResult<Step> {
        if self.is_mark('*') {
            self.advance()?;
            self.expect(']')?;
            return Ok(Step::AnyElement);
        }
        self.subscripts += 1;
        let mut elements = Vec::new();
        loop {
            let from = self.subscript()?;
            let to = match self.word() {
                Some("to") => {
                    self.advance()?;
                    Some(self.subscript()?)
                }
                _ => None,
            };
            elements.push((from, to));
            if !self.is_mark(',') {
                break;
            }
            self.advance()?;
        }
        self.subscripts -= 1;
        self.expect(']')?;
        Ok(Step::Elements(elements))
    }

    fn subscript(&mut self) -> SqlResult<Chain> {
        self.count()?;
        let subscript = self.sum()?;
        self.value_of(subscript)
    }
}

/// Whether a chain is a truth value that nothing follows.
fn is_predicate(chain: &Chain) -> bool {
    matches!(chain.as_slice(), [step] if step.is_predicate())
}

fn method(word: &str) -> Option<Method> {
    Some(match word {
        "abs" => Method::Abs,
        "ceiling" => Method::Ceiling,
        "double" => Method::Double,
        "floor" => Method::Floor,
        "keyvalue" => Method::KeyValue,
        "size" => Method::Size,
        "type" => Method::Type,
        _ => return None,
    })
}

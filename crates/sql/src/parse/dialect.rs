//! PostgreSQL's dialect with a bound on the work of the parser.
//!
//! The parser tries one reading of a text after the other, and where readings nest, so do the attempts: their number
//! can double with every level. It asks its dialect on the way, at least once for every expression and every table
//! that it begins to read. [`BoundedDialect`] counts these questions and ends the parse once there are more of them
//! than a constant for each token, which an ordinary statement stays far below.
//!
//! KEEPS: parsing takes time linear in the number of tokens.

use crate::interrupt;
use base::SqlError;
use sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, UnaryOperator,
};
use sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;
use std::any::TypeId;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Questions of the parser that a text may cost: some for each token, and some whatever its length.
const STEPS_PER_TOKEN: u64 = 64;
const STEPS_LEAST: u64 = 20_000;

/// The parser asks so many questions between two looks at the statement's timeout and at its client.
const STEPS_PER_CHECK: u64 = 1024;

/// PostgreSQL's dialect, which ends a parse that takes too many steps.
#[derive(Debug)]
pub(super) struct BoundedDialect {
    postgres: PostgreSqlDialect,
    steps_left: Cell<u64>,
}

/// Why a parse was ended from inside the dialect. Most questions are answered by yes or no, so it travels as a panic
/// that nobody reports.
enum Ended {
    TooManySteps,
    Interrupted(SqlError),
}

/// How a bounded parse went wrong.
pub(super) enum Failure {
    Syntax(ParserError),
    TooComplex,
    Interrupted(SqlError),
}

impl BoundedDialect {
    /// For a text of this many tokens.
    pub fn new(tokens: usize) -> BoundedDialect {
        let steps = STEPS_LEAST + STEPS_PER_TOKEN * tokens as u64;
        BoundedDialect { postgres: PostgreSqlDialect {}, steps_left: Cell::new(steps) }
    }

    /// Parses with this dialect.
    pub fn parse<T>(&self, work: impl FnOnce(&dyn Dialect) -> Result<T, ParserError>) -> Result<T, Failure> {
        match catch_unwind(AssertUnwindSafe(|| work(self))) {
            Ok(parsed) => parsed.map_err(Failure::Syntax),
            Err(panic) => match panic.downcast::<Ended>() {
                Ok(ended) => Err(match *ended {
                    Ended::TooManySteps => Failure::TooComplex,
                    Ended::Interrupted(error) => Failure::Interrupted(error),
                }),
                Err(panic) => resume_unwind(panic),
            },
        }
    }

    /// What the parser does not know: `a [NOT] BETWEEN SYMMETRIC b AND c`, which is `a` between `b` and `c` or between `c` and
    /// `b`, and `(a, b) OVERLAPS (c, d)`, which is a function of four.
    fn period_or_range(
        &self,
        parser: &mut Parser,
        left: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        if let Expr::Tuple(first) = left
            && parser.parse_keyword(Keyword::OVERLAPS)
        {
            return Some(parser.parse_subexpr(precedence).and_then(|right| match right {
                Expr::Tuple(second) if first.len() == 2 && second.len() == 2 => {
                    Ok(call("overlaps", first.iter().cloned().chain(second)))
                }
                _ => Err(ParserError::ParserError("wrong number of parameters of OVERLAPS".into())),
            }));
        }
        let negated = parser.parse_keywords(&[Keyword::NOT, Keyword::BETWEEN, Keyword::SYMMETRIC]);
        if !negated && !parser.parse_keywords(&[Keyword::BETWEEN, Keyword::SYMMETRIC]) {
            return None;
        }
        Some(self.symmetric(parser, left, negated))
    }

    fn symmetric(&self, parser: &mut Parser, left: &Expr, negated: bool) -> Result<Expr, ParserError> {
        let bound = self.prec_value(Precedence::Between);
        let one = parser.parse_subexpr(bound)?;
        parser.expect_keyword_is(Keyword::AND)?;
        let other = parser.parse_subexpr(bound)?;
        // Each of them is written twice: what was so already costs more the deeper it is.
        self.charge(left);
        self.charge(&one);
        self.charge(&other);
        let between = |low: &Expr, high: &Expr| {
            let expr = Box::new(left.clone());
            Expr::Between { expr, negated: false, low: Box::new(low.clone()), high: Box::new(high.clone()) }
        };
        let (up, down) = (Box::new(between(&one, &other)), Box::new(between(&other, &one)));
        let either = Expr::BinaryOp { left: up, op: BinaryOperator::Or, right: down };
        let either = Expr::Nested(Box::new(either));
        Ok(match negated {
            true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(either) },
            false => either,
        })
    }

    /// Counts as many steps as what is copied is long.
    fn charge(&self, copied: &Expr) {
        let steps = copied.to_string().len() as u64;
        match self.steps_left.get().checked_sub(steps) {
            Some(left) => self.steps_left.set(left),
            None => resume_unwind(Box::new(Ended::TooManySteps)),
        }
    }

    /// Counts a step.
    fn step(&self) {
        let left = self.steps_left.get();
        if left == 0 {
            resume_unwind(Box::new(Ended::TooManySteps));
        }
        self.steps_left.set(left - 1);
        if left.is_multiple_of(STEPS_PER_CHECK)
            && let Err(error) = interrupt::check()
        {
            resume_unwind(Box::new(Ended::Interrupted(error)));
        }
    }
}

/// `cidr '10/8'` of a type whose name the parser takes for one of a column, as the cast that it is.
fn typed_text(parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
    const TYPES: &[&str] = &["cidr", "inet", "macaddr", "macaddr8"];
    let Token::Word(word) = &parser.peek_token_ref().token else { return None };
    let is_type =
        word.quote_style.is_none() && TYPES.iter().any(|name| word.value.eq_ignore_ascii_case(name));
    if !is_type || !matches!(parser.peek_nth_token_ref(1).token, Token::SingleQuotedString(_)) {
        return None;
    }
    let name = Ident::new(word.value.to_lowercase());
    parser.advance_token();
    Some(parser.parse_value().map(|value| Expr::Cast {
        kind: CastKind::DoubleColon,
        expr: Box::new(Expr::Value(value)),
        data_type: DataType::Custom(ObjectName::from(vec![name]), Vec::new()),
        array: false,
        format: None,
    }))
}

/// A function of values.
pub(super) fn call(name: &str, arguments: impl Iterator<Item = Expr>) -> Expr {
    let args = arguments.map(|e| FunctionArg::Unnamed(FunctionArgExpr::Expr(e))).collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// Answers of PostgreSQL's dialect, for each method that it overrides; a newer parser may bring more of them.
macro_rules! as_postgres {
    ($($method:ident),* $(,)?) => {
        $(fn $method(&self) -> bool {
            self.postgres.$method()
        })*
    };
}

impl Dialect for BoundedDialect {
    /// The parser knows PostgreSQL's dialect by its type in some places.
    fn dialect(&self) -> TypeId {
        TypeId::of::<PostgreSqlDialect>()
    }

    // Asked wherever an expression, a query or a table begins.
    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        self.step();
        typed_text(parser)
    }
    /// `a [NOT] BETWEEN SYMMETRIC b AND c` and `(a, b) OVERLAPS (c, d)` as well. The right side of IS DISTINCT FROM ends before AND and OR; the parser's own reading takes all that follows.
    fn parse_infix(
        &self,
        parser: &mut Parser,
        left: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        if let Some(written_out) = self.period_or_range(parser, left, precedence) {
            return Some(written_out);
        }
        let is_distinct = parser.parse_keywords(&[Keyword::IS, Keyword::DISTINCT, Keyword::FROM]);
        if !is_distinct
            && !parser.parse_keywords(&[Keyword::IS, Keyword::NOT, Keyword::DISTINCT, Keyword::FROM])
        {
            return None;
        }
        let left = Box::new(left.clone());
        Some(parser.parse_subexpr(precedence).map(|right| match is_distinct {
            true => Expr::IsDistinctFrom(left, Box::new(right)),
            false => Expr::IsNotDistinctFrom(left, Box::new(right)),
        }))
    }
    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        self.step();
        self.postgres.get_next_precedence(parser)
    }
    /// `INSERT … SELECT 1 ON CONFLICT`: ON is no name in PostgreSQL.
    fn is_select_item_alias(&self, explicit: bool, word: &Keyword, parser: &mut Parser) -> bool {
        (explicit || *word != Keyword::ON) && self.postgres.is_select_item_alias(explicit, word, parser)
    }

    fn supports_comment_optimizer_hint(&self) -> bool {
        self.step();
        self.postgres.supports_comment_optimizer_hint()
    }
    fn is_reserved_for_identifier(&self, word: Keyword) -> bool {
        self.step();
        self.postgres.is_reserved_for_identifier(word)
    }

    /// `f(name => value)`, where PostgreSQL's dialect reads any expression in place of the name first: that is what
    /// `json_object('a': 1)` wants, and it reads each argument twice.
    fn supports_named_fn_args_with_expr_name(&self) -> bool {
        false
    }
    /// `f(name := value)`, which PostgreSQL reads beside `f(name => value)`.
    fn supports_named_fn_args_with_assignment_operator(&self) -> bool {
        true
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        self.postgres.identifier_quote_style(identifier)
    }
    fn is_delimited_identifier_start(&self, c: char) -> bool {
        self.postgres.is_delimited_identifier_start(c)
    }
    fn is_identifier_start(&self, c: char) -> bool {
        self.postgres.is_identifier_start(c)
    }
    fn is_identifier_part(&self, c: char) -> bool {
        self.postgres.is_identifier_part(c)
    }
    fn is_custom_operator_part(&self, c: char) -> bool {
        self.postgres.is_custom_operator_part(c)
    }
    fn prec_value(&self, precedence: Precedence) -> u8 {
        self.postgres.prec_value(precedence)
    }
    as_postgres!(
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_alter_column_type_using,
        supports_array_typedef_with_brackets,
        supports_bitwise_shift_operators,
        supports_comma_separated_trim,
        supports_comment_on,
        supports_create_index_with_clause,
        supports_create_table_like_parenthesized,
        supports_empty_projections,
        supports_explain_with_utility_options,
        supports_factorial_operator,
        supports_filter_during_aggregation,
        supports_geometric_types,
        supports_group_by_expr,
        supports_insert_table_alias,
        supports_interval_options,
        supports_listen_notify,
        supports_load_extension,
        supports_named_fn_args_with_colon_operator,
        supports_nested_comments,
        supports_notnull_operator,
        supports_numeric_literal_underscores,
        supports_select_wildcard_with_alias,
        supports_set_names,
        supports_string_escape_constant,
        supports_unicode_string_literal,
        supports_xml_expressions,
    );
}

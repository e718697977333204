//! Definitions of indexes as PostgreSQL writes them out: `pg_get_indexdef`, `pg_get_expr`, and what they show of a part.
//!
//! What PostgreSQL knows by an expression's types is written only where a column says it: a literal beside a column, and a
//! `varchar` where a text is wanted. Labels of enumerated types stay as they were given.

use super::expressions::{looks_like_a_call, parsed};
use super::key_name;
use crate::names;
use crate::names::quoted;
use crate::types::NUMERIC;
use base::DataType;
use base::schema::{Index, Table};
use sqlparser::ast::{self, BinaryOperator, Expr, UnaryOperator};

/// How much is in parentheses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Around every operand that has an operator itself.
    Plain,
    /// What would mean something else without them, as `psql` shows it.
    Pretty,
}

/// An index's statement; a `Plain` one names the table with its schema.
pub fn definition(table: &Table, index: &Index, style: Style) -> String {
    let keys: Vec<String> = (0..index.keys().len())
        .map(|at| {
            let column = index.columns[at];
            let text = match index.expression(column) {
                Some(text) => in_a_list(text, table, style),
                None => quoted(&table.columns[column].name).to_string(),
            };
            format!("{text}{}", order(index, at))
        })
        .collect();
    let include: Vec<String> =
        index.form.include.iter().map(|c| quoted(&table.columns[*c].name).to_string()).collect();
    let method = index.form.method.name();
    let mut text = format!(
        "CREATE {}INDEX {} ON {}.{} USING {method} ({})",
        if index.unique { "UNIQUE " } else { "" },
        quoted(&index.name),
        quoted(&table.schema),
        quoted(&table.name),
        keys.join(", ")
    );
    if !include.is_empty() {
        text.push_str(&format!(" INCLUDE ({})", include.join(", ")));
    }
    if index.form.nulls_are_equal {
        text.push_str(" NULLS NOT DISTINCT");
    }
    if let Some(predicate) = predicate(table, index, style) {
        text.push_str(&format!(" WHERE {predicate}"));
    }
    text
}

/// The constraint that an index belongs to, behind its name.
pub fn constraint(table: &Table, index: &Index, is_primary: bool) -> String {
    let list = |columns: &[usize]| {
        let names = columns.iter().map(|column| quoted(&table.columns[*column].name).to_string());
        names.collect::<Vec<_>>().join(", ")
    };
    let mut text = match (is_primary, index.form.nulls_are_equal) {
        (true, _) => "PRIMARY KEY",
        (false, false) => "UNIQUE",
        (false, true) => "UNIQUE NULLS NOT DISTINCT",
    }
    .to_string();
    text.push_str(&format!(" ({})", list(&index.columns)));
    if !index.form.include.is_empty() {
        text.push_str(&format!(" INCLUDE ({})", list(&index.form.include)));
    }
    text
}

/// How a key is ordered, where it is not as a key without words is.
fn order(index: &Index, at: usize) -> &'static str {
    match (index.form.descending.contains(&at), index.form.nulls_moved.contains(&at)) {
        (false, false) => "",
        (true, false) => " DESC",
        (false, true) => " NULLS FIRST",
        (true, true) => " DESC NULLS LAST",
    }
}

/// One column of an index, included ones behind the keys, from 0; nothing if there are not so many.
pub fn column(table: &Table, index: &Index, at: usize, style: Style) -> String {
    let Some(&column) = index.keys().iter().chain(&index.form.include).nth(at) else { return String::new() };
    match index.expression(column) {
        Some(text) => in_a_list(text, table, style),
        None => quoted(&table.columns[column].name).to_string(),
    }
}

/// The predicate of a partial index.
pub fn predicate(table: &Table, index: &Index, style: Style) -> Option<String> {
    let text = index.form.predicate.as_deref()?;
    Some(parsed(text).map_or_else(|_| text.to_string(), |e| Writing { table, style }.outermost(&e)))
}

/// An expression over a table's columns, which has parentheses around it, as `psql` shows it.
pub fn pretty(table: &Table, text: &str) -> String {
    match crate::parse::parse_expr(text) {
        Ok(Expr::Nested(e)) => Writing { table, style: Style::Pretty }.outermost(&e),
        _ => text.to_string(),
    }
}

/// The expressions among the keys, as a list.
pub fn expressions(table: &Table, index: &Index, style: Style) -> Option<String> {
    let written = |(_, text): &(usize, String)| match parsed(text) {
        Ok(e) => Writing { table, style }.outermost(&e),
        Err(_) => text.clone(),
    };
    let all: Vec<String> = index.form.expressions.iter().map(written).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// What the columns of an index are called as columns of a relation.
pub fn column_names(table: &Table, index: &Index) -> Vec<String> {
    let mut made: Vec<String> = Vec::new();
    for column in index.keys().iter().chain(&index.form.include) {
        let name = match index.expression(*column).map(parsed) {
            Some(Ok(e)) => key_name(&e),
            _ => table.columns[*column].name.clone(),
        };
        let numbered = (1..).map(|n| format!("{name}{n}"));
        let mut names = std::iter::once(name.clone()).chain(numbered);
        made.push(names.find(|name| !made.contains(name)).expect("numbers do not end"));
    }
    made
}

fn in_a_list(text: &str, table: &Table, style: Style) -> String {
    let Ok(e) = parsed(text) else { return text.to_string() };
    let written = Writing { table, style }.outermost(&e);
    if looks_like_a_call(&e) { written } else { format!("({written})") }
}

struct Writing<'a> {
    table: &'a Table,
    style: Style,
}

impl Writing<'_> {
    /// An expression that nothing is around.
    fn outermost(&self, e: &Expr) -> String {
        match self.style {
            Style::Plain => self.operand(e),
            Style::Pretty => self.bare(e),
        }
    }

    /// An expression beside an operator.
    fn operand(&self, e: &Expr) -> String {
        match e {
            Expr::Nested(inner) => self.operand(inner),
            e if has_operator(e) => format!("({})", self.bare(e)),
            e => self.bare(e),
        }
    }

    /// An expression without parentheses around it.
    fn bare(&self, e: &Expr) -> String {
        match e {
            Expr::Nested(inner) => self.bare(inner),
            Expr::BinaryOp { left, op, right } => self.binary(left, op, right),
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => format!("NOT {}", self.inside_not(expr)),
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } if has_operator(e) => {
                format!("- {}", self.operand(expr))
            }
            Expr::IsDistinctFrom(a, b) => format!("{} IS DISTINCT FROM {}", self.side(a, b), self.side(b, a)),
            Expr::IsNotDistinctFrom(a, b) => {
                format!("NOT ({} IS DISTINCT FROM {})", self.side(a, b), self.side(b, a))
            }
            Expr::IsNull(e) => format!("{} IS NULL", self.operand(e)),
            Expr::IsNotNull(e) => format!("{} IS NOT NULL", self.operand(e)),
            Expr::IsTrue(e) => format!("{} IS TRUE", self.operand(e)),
            Expr::IsFalse(e) => format!("{} IS FALSE", self.operand(e)),
            Expr::IsNotTrue(e) => format!("{} IS NOT TRUE", self.operand(e)),
            Expr::IsNotFalse(e) => format!("{} IS NOT FALSE", self.operand(e)),
            Expr::InList { expr, list, negated } => self.in_list(expr, list, *negated),
            Expr::Between { expr, low, high, negated: false } => {
                let bound = |sign: &str, bound: &Expr| {
                    let text = format!("{} {sign} {}", self.side(expr, bound), self.side(bound, expr));
                    if self.style == Style::Plain { format!("({text})") } else { text }
                };
                format!("{} AND {}", bound(">=", low), bound("<=", high))
            }
            Expr::Like { expr, pattern, negated, any: false, escape_char: None } => {
                let not = if *negated { "!" } else { "" };
                format!("{} {not}~~ {}", self.side(expr, pattern), self.side(pattern, expr))
            }
            Expr::ILike { expr, pattern, negated, any: false, escape_char: None } => {
                let not = if *negated { "!" } else { "" };
                format!("{} {not}~~* {}", self.side(expr, pattern), self.side(pattern, expr))
            }
            Expr::Cast { expr, data_type, .. } => self.cast(expr, data_type),
            Expr::Function(function) => self.function(function).unwrap_or_else(|| e.to_string()),
            Expr::Value(v) if matches!(v.value, ast::Value::Boolean(_)) => e.to_string().to_lowercase(),
            e => e.to_string(),
        }
    }

    fn inside_not(&self, e: &Expr) -> String {
        match e {
            Expr::Nested(inner) => self.inside_not(inner),
            e => self.operand(e),
        }
    }

    fn binary(&self, left: &Expr, op: &BinaryOperator, right: &Expr) -> String {
        if matches!(op, BinaryOperator::And | BinaryOperator::Or) {
            let mut parts = Vec::new();
            self.chain(left, op, &mut parts);
            self.chain(right, op, &mut parts);
            return parts.join(&format!(" {op} "));
        }
        let is_arrow = matches!(
            op,
            BinaryOperator::Arrow
                | BinaryOperator::LongArrow
                | BinaryOperator::HashArrow
                | BinaryOperator::HashLongArrow
        );
        // The key on the right of an arrow is a text, for json and for jsonb.
        let written = match literal(right).filter(|_| is_arrow) {
            Some(text) => format!("{text}::text"),
            None => self.side(right, left),
        };
        format!("{} {op} {written}", self.side(left, right))
    }

    /// The operands of a chain of one operator.
    fn chain(&self, e: &Expr, op: &BinaryOperator, parts: &mut Vec<String>) {
        match e {
            Expr::Nested(inner) => self.chain(inner, op, parts),
            Expr::BinaryOp { left, op: same, right } if same == op => {
                self.chain(left, op, parts);
                self.chain(right, op, parts);
            }
            Expr::BinaryOp { op: BinaryOperator::And | BinaryOperator::Or, .. } => {
                parts.push(format!("({})", self.bare(e)));
            }
            e => parts.push(match self.style {
                Style::Pretty if !matches!(e, Expr::InList { .. }) => self.bare(e),
                _ => self.operand(e),
            }),
        }
    }

    /// One side of an operator, with the type that the other side makes it.
    fn side(&self, e: &Expr, other: &Expr) -> String {
        if let Expr::Nested(inner) = e {
            return self.side(inner, other);
        }
        match (literal(e), self.type_of(other)) {
            (Some(text), Some(of)) => match type_of_literal(of) {
                Some(name) => format!("{text}::{name}"),
                None => text,
            },
            (None, Some(of)) if is_other_number(e, of) => {
                let name = of.name();
                // Digits are not counted in a comparison.
                let name = name.split('(').next().unwrap_or(&name);
                match self.style {
                    Style::Plain => format!("({})::{name}", self.bare(e)),
                    Style::Pretty => format!("{}::{name}", self.bare(e)),
                }
            }
            _ if is_varchar(self.type_of(e)) => self.as_text(e),
            _ => self.operand(e),
        }
    }

    fn as_text(&self, e: &Expr) -> String {
        match self.style {
            Style::Plain => format!("({})::text", self.bare(e)),
            Style::Pretty => format!("{}::text", self.operand(e)),
        }
    }

    fn in_list(&self, e: &Expr, list: &[Expr], negated: bool) -> String {
        let items: Vec<String> = list.iter().map(|item| self.side(item, e)).collect();
        let (sign, words) = if negated { ("<>", "ALL") } else { ("=", "ANY") };
        format!("{} {sign} {words} (ARRAY[{}])", self.side(e, &list[0]), items.join(", "))
    }

    fn cast(&self, e: &Expr, to: &ast::DataType) -> String {
        let name = names::data_type(to).map_or_else(|_| to.to_string().to_lowercase(), type_name);
        match (literal(e), self.style) {
            (Some(text), _) => format!("{text}::{name}"),
            (None, Style::Plain) => format!("({})::{name}", self.bare(e)),
            (None, Style::Pretty) => format!("{}::{name}", self.operand(e)),
        }
    }

    /// A call of a function by its name with plain arguments.
    fn function(&self, function: &ast::Function) -> Option<String> {
        let ast::FunctionArguments::List(list) = &function.args else { return None };
        if !list.clauses.is_empty() || list.duplicate_treatment.is_some() {
            return None;
        }
        let name = names::parts(&function.name).ok()?.pop()?;
        let mut arguments = Vec::with_capacity(list.args.len());
        for argument in &list.args {
            let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(e)) = argument else { return None };
            let of_text = is_varchar(self.type_of(e)) && TEXT_FUNCTIONS.contains(&name.as_str());
            arguments.push(match (literal(e), of_text) {
                (Some(text), _) if TEXT_FUNCTIONS.contains(&name.as_str()) || name == "coalesce" => {
                    format!("{text}::text")
                }
                (_, true) => self.as_text(e),
                _ => self.outermost(e),
            });
        }
        let shown = match name.as_str() {
            "coalesce" | "nullif" | "greatest" | "least" => name.to_uppercase(),
            _ => quoted(&name).to_string(),
        };
        Some(format!("{shown}({})", arguments.join(", ")))
    }

    /// The type of an expression, where a column or a function says it.
    fn type_of(&self, e: &Expr) -> Option<DataType> {
        match e {
            Expr::Nested(inner) => self.type_of(inner),
            Expr::Identifier(ident) => {
                let column = self.table.column_named(&names::fold(ident))?;
                Some(self.table.columns[column].data_type)
            }
            Expr::Function(function) => {
                let name = names::parts(&function.name).ok()?.pop()?;
                (TEXT_FUNCTIONS.contains(&name.as_str()) && name != "length").then_some(DataType::Text)
            }
            Expr::BinaryOp { op: BinaryOperator::LongArrow | BinaryOperator::HashLongArrow, .. } => {
                Some(DataType::Text)
            }
            // The key of a document.
            Expr::BinaryOp { left, op: BinaryOperator::StringConcat, .. } => {
                self.type_of(left).filter(|of| *of == DataType::Text)
            }
            _ => None,
        }
    }
}

/// Functions of texts.
const TEXT_FUNCTIONS: &[&str] = &[
    "lower",
    "upper",
    "initcap",
    "btrim",
    "ltrim",
    "rtrim",
    "length",
    "md5",
    "reverse",
    "left",
    "right",
    "replace",
    "split_part",
    "translate",
];

fn is_varchar(of: Option<DataType>) -> bool {
    matches!(of, Some(DataType::Varchar { .. }))
}

/// A literal of no type of its own.
fn literal(e: &Expr) -> Option<String> {
    match e {
        Expr::Value(v) if matches!(v.value, ast::Value::SingleQuotedString(_)) => Some(e.to_string()),
        _ => None,
    }
}

/// What is written behind a literal beside a column of a type.
fn type_of_literal(of: DataType) -> Option<String> {
    match of {
        DataType::Text | DataType::Varchar { .. } | DataType::Json | DataType::Jsonb => Some("text".into()),
        DataType::Char { .. } => Some("bpchar".into()),
        DataType::Enum(_) | DataType::Array(_) | DataType::Composite(_) => None,
        DataType::Numeric { .. } => Some("numeric".into()),
        other => Some(other.name()),
    }
}

fn type_name(of: DataType) -> String {
    if of == NUMERIC { "numeric".into() } else { of.name() }
}

/// Whether a number beside a value of this type is not one of the type.
fn is_other_number(e: &Expr, of: DataType) -> bool {
    let Expr::Value(v) = e else { return false };
    let ast::Value::Number(digits, _) = &v.value else { return false };
    let is_whole = digits.bytes().all(|b| b.is_ascii_digit());
    match of {
        DataType::Numeric { .. } => is_whole,
        DataType::Double | DataType::Real => true,
        _ => false,
    }
}

fn has_operator(e: &Expr) -> bool {
    if let Expr::UnaryOp { op: UnaryOperator::Minus, expr } = e {
        return !matches!(&**expr, Expr::Value(_));
    }
    matches!(
        e,
        Expr::BinaryOp { .. }
            | Expr::IsDistinctFrom(..)
            | Expr::IsNotDistinctFrom(..)
            | Expr::UnaryOp { op: UnaryOperator::Not, .. }
            | Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsTrue(_)
            | Expr::IsFalse(_)
            | Expr::IsNotTrue(_)
            | Expr::IsNotFalse(_)
            | Expr::InList { .. }
            | Expr::Between { .. }
            | Expr::Like { .. }
            | Expr::ILike { .. }
    )
}

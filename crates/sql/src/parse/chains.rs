//! Long chains of one associative operator become balanced trees.
//!
//! The parser reads `a OR b OR c OR …` as a tree that leans to the left and is as deep as the chain is long. Programs
//! write such chains with thousands of operands. Whatever walks a statement by recursion would need as deep a stack; of
//! a balanced tree it needs the logarithm. AND, OR, `||` and UNION give the same value however they are bracketed.
//!
//! KEEPS: operands keep their order; nothing here recurses along a chain.

use crate::walk::WalkMut;
use sqlparser::ast::{
    BinaryOperator, Expr, Query, SetExpr, SetOperator, SetQuantifier, Statement, VisitorMut,
};
use std::ops::ControlFlow;

/// Chains of at least so many operators are worth another shape. A balanced tree has fewer on its left side, however
/// large it is, so that it is not taken for a chain again.
const LINKS_MIN: usize = 24;

/// Balances all chains of a statement.
pub(super) fn balance(statement: &mut Statement) {
    let ControlFlow::Continue(()) = statement.walk_mut(&mut Balancer);
}

struct Balancer;

impl VisitorMut for Balancer {
    type Break = std::convert::Infallible;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        balance_set(&mut query.body);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        balance_expr(expr);
        ControlFlow::Continue(())
    }
}

fn is_associative(operator: &BinaryOperator) -> bool {
    matches!(operator, BinaryOperator::And | BinaryOperator::Or | BinaryOperator::StringConcat)
}

fn balance_expr(expr: &mut Expr) {
    let Expr::BinaryOp { op, .. } = &*expr else { return };
    if !is_associative(op) {
        return;
    }
    let op = op.clone();
    let mut links = 0;
    let mut at = &*expr;
    while let Expr::BinaryOp { left, op: this, .. } = at
        && *this == op
    {
        links += 1;
        at = left;
    }
    if links < LINKS_MIN {
        return;
    }
    let nothing = || Expr::Identifier("".into());
    let mut rest = std::mem::replace(expr, nothing());
    let mut operands = Vec::with_capacity(links + 1);
    loop {
        match rest {
            Expr::BinaryOp { left, op: this, right } if this == op => {
                operands.push(*right);
                rest = *left;
            }
            first => {
                operands.push(first);
                break;
            }
        }
    }
    operands.reverse();
    *expr = balanced(operands, &|left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: op.clone(),
        right: Box::new(right),
    });
}

fn balance_set(body: &mut SetExpr) {
    let mut links = 0;
    let mut at = &*body;
    while let SetExpr::SetOperation { left, .. } = at {
        links += 1;
        at = left;
    }
    if links < LINKS_MIN {
        return;
    }
    let nothing = || {
        SetExpr::Values(sqlparser::ast::Values {
            explicit_row: false,
            value_keyword: false,
            rows: Vec::new(),
        })
    };
    let mut rest = std::mem::replace(body, nothing());
    let mut steps = Vec::with_capacity(links);
    let first = loop {
        match rest {
            SetExpr::SetOperation { op, set_quantifier, left, right } => {
                steps.push((op, set_quantifier, *right));
                rest = *left;
            }
            first => break first,
        }
    };
    // Runs of the same operation, from the left.
    let mut steps = steps.into_iter().rev().peekable();
    let mut result = first;
    while let Some((op, quantifier, right)) = steps.next() {
        let mut operands = vec![result, right];
        if is_associative_set(op, quantifier) {
            while let Some((_, _, next)) = steps.next_if(|(o, q, _)| *o == op && *q == quantifier) {
                operands.push(next);
            }
        }
        result = balanced(operands, &|left, right| SetExpr::SetOperation {
            op,
            set_quantifier: quantifier,
            left: Box::new(left),
            right: Box::new(right),
        });
    }
    *body = result;
}

/// EXCEPT is not: `a - b - c` is not `a - (b - c)`.
fn is_associative_set(op: SetOperator, quantifier: SetQuantifier) -> bool {
    let is_plain = matches!(quantifier, SetQuantifier::None | SetQuantifier::All | SetQuantifier::Distinct);
    is_plain && matches!(op, SetOperator::Union | SetOperator::Intersect)
}

/// A balanced tree over at least one operand.
pub fn balanced<T>(mut operands: Vec<T>, join: &impl Fn(T, T) -> T) -> T {
    while operands.len() > 1 {
        let mut halved = Vec::with_capacity(operands.len().div_ceil(2));
        let mut pairs = operands.into_iter();
        while let Some(left) = pairs.next() {
            halved.push(match pairs.next() {
                Some(right) => join(left, right),
                None => left,
            });
        }
        operands = halved;
    }
    operands.pop().expect("at least one operand")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(sql: &str) -> Statement {
        crate::parse::parse(sql).unwrap().pop().unwrap()
    }

    /// Levels of the condition's tree.
    fn depth(expr: &Expr) -> usize {
        match expr {
            Expr::BinaryOp { left, right, .. } => 1 + depth(left).max(depth(right)),
            Expr::Nested(inner) => 1 + depth(inner),
            _ => 1,
        }
    }

    fn condition(statement: &Statement) -> Expr {
        let Statement::Query(query) = statement else { panic!("a query") };
        let SetExpr::Select(select) = query.body.as_ref() else { panic!("a select") };
        select.selection.clone().unwrap()
    }

    #[test]
    fn chains_become_shallow_and_keep_their_order() {
        for operator in ["AND", "OR"] {
            let terms: Vec<String> = (0..1000).map(|n| format!("a = {n}")).collect();
            let sql = format!("SELECT 1 FROM t WHERE {}", terms.join(&format!(" {operator} ")));
            let statement = statement(&sql);
            assert!(depth(&condition(&statement)) <= 12);
            assert_eq!(statement.to_string(), sql);
        }
    }

    #[test]
    fn other_operators_keep_their_shape() {
        let sql = format!("SELECT 1 FROM t WHERE a{} > 0", " - 1".repeat(100));
        let balanced = statement(&sql);
        assert_eq!(depth(&condition(&balanced)), 102);
        let chain = ["SELECT 1"; 20].join(" EXCEPT ");
        assert_eq!(statement(&chain).to_string(), chain);
    }

    #[test]
    fn unions_become_shallow_where_they_are_alike() {
        let alike = ["SELECT 1"; 1000].join(" UNION ALL ");
        let mixed = format!(
            "{} UNION {}",
            ["SELECT 1"; 40].join(" UNION ALL "),
            ["SELECT 2"; 40].join(" UNION ALL ")
        );
        for (sql, most) in [(&alike, 11), (&mixed, 15)] {
            let statement = statement(sql);
            let Statement::Query(query) = &statement else { panic!("a query") };
            fn levels(body: &SetExpr) -> usize {
                match body {
                    SetExpr::SetOperation { left, right, .. } => 1 + levels(left).max(levels(right)),
                    _ => 1,
                }
            }
            assert!(levels(&query.body) <= most, "{}", levels(&query.body));
            assert_eq!(statement.to_string(), *sql);
        }
    }
}

//! How large a query's plan may be.
//!
//! A short text can have a huge plan: each name of a common table expression stands for its whole plan, so a chain of
//! them that each name the one before twice doubles with every link. Planning takes time and stack in proportion.
//!
//! Names are counted in the statement, before a plan is made of it: making one looks through all that is below, again
//! and again. What the plan has become is measured afterwards.
//!
//! KEEPS: what is optimized has at most [`NODES_MAX`] operators and expressions, counted as often as they are named, and
//! [`DEPTH_MAX`] operators above each other.

use crate::names;
use base::SqlError;
use base::error::{SqlResult, SqlState};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::sqlparser::ast::{self, Statement, Visit, Visitor};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

const NODES_MAX: u64 = 500_000;
const DEPTH_MAX: u64 = 1_500;

/// Tables that a statement reads, those of named queries as often as they are named.
const RELATIONS_MAX: u64 = 5_000;

/// Subqueries in expressions, inside each other. Planning looks at each of them more than once, and so at those inside it
/// ever more often.
const SUBQUERIES_MAX: usize = 12;

/// Rows inside each other, whose types planning derives ever more often too.
const ROWS_MAX: usize = 8;

/// Dimensions of an array, as in PostgreSQL.
const DIMENSIONS_MAX: usize = 6;

/// Refuses a statement whose plan would read too many tables or nest too many subqueries. Errors: 54001, and 54000 for
/// arrays of too many dimensions.
pub(super) fn check_statement(statement: &Statement) -> SqlResult<()> {
    let mut relations = Relations::default();
    relations.open.push(0);
    let ControlFlow::Continue(()) = statement.visit(&mut relations);
    if relations.most > RELATIONS_MAX {
        return Err(crate::parse::too_deep().detail(format!(
            "With every use of a WITH query counted, the statement reads {} tables; {RELATIONS_MAX} are the most.",
            relations.most
        )));
    }
    if relations.dimensions_most > DIMENSIONS_MAX {
        return Err(SqlError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!(
                "number of array dimensions ({}) exceeds the maximum allowed ({DIMENSIONS_MAX})",
                relations.dimensions_most
            ),
        ));
    }
    if relations.rows_most > ROWS_MAX {
        return Err(crate::parse::too_deep().detail(format!(
            "The statement has {} rows inside each other; {ROWS_MAX} are the most.",
            relations.rows_most
        )));
    }
    if relations.subqueries_most > SUBQUERIES_MAX {
        return Err(crate::parse::too_deep().detail(format!(
            "The statement has {} subqueries inside each other; {SUBQUERIES_MAX} are the most.",
            relations.subqueries_most
        )));
    }
    Ok(())
}

/// Counts tables. A name stands for the last query that was given it before: where scopes hide one another that may be
/// the wrong one, which makes no difference to whether names multiply.
#[derive(Default)]
struct Relations {
    /// Counts of the queries that are being visited, the innermost last.
    open: Vec<u64>,
    /// Queries of WITH, by address, and their names.
    named: BTreeMap<usize, String>,
    sizes: BTreeMap<String, u64>,
    most: u64,
    /// Subqueries of expressions that are being visited.
    subqueries: usize,
    subqueries_most: usize,
    /// Rows inside each other.
    rows: usize,
    rows_most: usize,
    /// Arrays inside each other.
    dimensions: usize,
    dimensions_most: usize,
}

impl Relations {
    fn add(&mut self, count: u64) {
        let open = self.open.last_mut().expect("the statement's own count stays");
        *open = open.saturating_add(count);
        self.most = self.most.max(*open);
    }
}

impl Visitor for Relations {
    type Break = std::convert::Infallible;

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<Self::Break> {
        for named in query.with.iter().flat_map(|with| &with.cte_tables) {
            let address = std::ptr::from_ref(named.query.as_ref()) as usize;
            self.named.insert(address, names::fold(&named.alias.name));
        }
        self.open.push(0);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &ast::Query) -> ControlFlow<Self::Break> {
        let count = self.open.pop().unwrap_or_default();
        match self.named.remove(&(std::ptr::from_ref(query) as usize)) {
            Some(name) => _ = self.sizes.insert(name, count.max(1)),
            None => self.add(count),
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<Self::Break> {
        self.subqueries += usize::from(is_subquery(expr));
        self.subqueries_most = self.subqueries_most.max(self.subqueries);
        self.rows += usize::from(is_row(expr));
        self.rows_most = self.rows_most.max(self.rows);
        self.dimensions += usize::from(matches!(expr, ast::Expr::Array(_)));
        self.dimensions_most = self.dimensions_most.max(self.dimensions);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<Self::Break> {
        self.subqueries -= usize::from(is_subquery(expr));
        self.rows -= usize::from(is_row(expr));
        self.dimensions -= usize::from(matches!(expr, ast::Expr::Array(_)));
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ast::ObjectName) -> ControlFlow<Self::Break> {
        let name = match relation.0.as_slice() {
            [part] => part.as_ident().map(names::fold),
            _ => None,
        };
        let count = name.and_then(|name| self.sizes.get(&name).copied()).unwrap_or(1);
        self.add(count);
        ControlFlow::Continue(())
    }
}

fn is_row(expr: &ast::Expr) -> bool {
    match expr {
        ast::Expr::Tuple(_) => true,
        ast::Expr::Function(function) => match function.name.0.as_slice() {
            [name] => name.as_ident().is_some_and(|name| name.value.eq_ignore_ascii_case("row")),
            _ => false,
        },
        _ => false,
    }
}

fn is_subquery(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Subquery(_) | ast::Expr::Exists { .. } | ast::Expr::InSubquery { .. })
}

/// Memory that planning takes for an operator or expression, roughly: every rule makes some of them anew.
const NODE_BYTES: u64 = 1024;

/// Refuses a plan that is too large; otherwise answers the bytes that planning will take. Errors: 54001.
pub(super) fn check(plan: &LogicalPlan) -> SqlResult<u64> {
    let size = Sizes::default().of(plan);
    if size.nodes > NODES_MAX || size.depth > DEPTH_MAX {
        return Err(crate::parse::too_deep().detail(format!(
            "The plan has {} operators and expressions, {} above each other; {NODES_MAX} and {DEPTH_MAX} are the most.",
            size.nodes, size.depth
        )));
    }
    Ok(size.nodes * NODE_BYTES)
}

#[derive(Clone, Copy, Default)]
struct Size {
    nodes: u64,
    depth: u64,
}

/// Sizes of plans that are shared, by address: each is measured once.
#[derive(Default)]
struct Sizes(BTreeMap<usize, Size>);

impl Sizes {
    fn of(&mut self, plan: &LogicalPlan) -> Size {
        let mut size = Size { nodes: 1, depth: 0 };
        for input in plan.inputs() {
            let below = self.shared(input);
            size.nodes = size.nodes.saturating_add(below.nodes);
            size.depth = size.depth.max(below.depth);
        }
        let walked = plan.apply_expressions(|expr| {
            let below = self.of_expr(expr);
            size.nodes = size.nodes.saturating_add(below.nodes);
            size.depth = size.depth.max(below.depth);
            Ok(TreeNodeRecursion::Continue)
        });
        debug_assert!(walked.is_ok(), "counting does not fail");
        size.depth += 1;
        size
    }

    fn shared(&mut self, plan: &LogicalPlan) -> Size {
        let address = std::ptr::from_ref(plan) as usize;
        if let Some(known) = self.0.get(&address) {
            return *known;
        }
        let size = self.of(plan);
        self.0.insert(address, size);
        size
    }

    /// Subqueries stand in expressions.
    fn of_expr(&mut self, expr: &Expr) -> Size {
        let mut size = Size::default();
        let walked = expr.apply(|e| {
            size.nodes += 1;
            let subquery = match e {
                Expr::ScalarSubquery(subquery) => Some(subquery),
                Expr::Exists(exists) => Some(&exists.subquery),
                Expr::InSubquery(within) => Some(&within.subquery),
                Expr::SetComparison(compared) => Some(&compared.subquery),
                _ => None,
            };
            if let Some(subquery) = subquery {
                let below = self.shared(Arc::as_ref(&subquery.subquery));
                size.nodes = size.nodes.saturating_add(below.nodes);
                size.depth = size.depth.max(below.depth);
            }
            Ok(TreeNodeRecursion::Continue)
        });
        debug_assert!(walked.is_ok(), "counting does not fail");
        size
    }
}

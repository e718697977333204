//! How large a query's plan may be.
//!
//! A short text can have a huge plan: each name of a common table expression stands for its whole plan, so a chain of
//! them that each name the one before twice doubles with every link. Planning takes time and stack in proportion.
//!
//! Names are counted in the statement, before a plan is made of it: making one looks through all that is below, again
//! and again. What the plan has become is measured afterwards.
//!
//! KEEPS: what is optimized has at most [`NODES_MAX`] operators and expressions, counted as often as they are named,
//! [`DEPTH_MAX`] operators above each other, and [`EXPRESSIONS_DEPTH_MAX`] expressions.

use base::SqlError;
use base::error::{SqlResult, SqlState};
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion, TreeNodeVisitor};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use datafusion::sql::sqlparser::ast::{self, Statement, Visitor};
use sql::names;
use sql::walk::Walk;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

const NODES_MAX: u64 = 500_000;
const DEPTH_MAX: u64 = 1_500;

/// Expressions inside each other. Rules ask at every level for the type and the name of all below it, so that planning
/// takes time with the cube of this. Chains of AND, OR and `||` count as the logarithm of their length.
const EXPRESSIONS_DEPTH_MAX: u64 = 200;

/// The same in the statement, of which the plan is made: making it asks for types in the same way. It is more, since
/// some of what is written is gone from a plan, such as casts to the type that is there.
const WRITTEN_DEPTH_MAX: usize = 400;

/// Tables that a statement reads, and SELECTs that read none; those of named queries as often as they are named.
const RELATIONS_MAX: u64 = 5_000;

/// Subqueries in expressions and LATERAL ones, inside each other. Planning looks at each of them more than once, and so at those inside it
/// ever more often.
const SUBQUERIES_MAX: usize = 12;

/// Rows inside each other, whose types planning derives ever more often too.
const ROWS_MAX: usize = 8;

/// Entries of a list of columns, groups or keys, as in PostgreSQL. Planning compares each with all others.
const ENTRIES_MAX: usize = 1_664;

/// Dimensions of an array, as in PostgreSQL.
const DIMENSIONS_MAX: usize = 6;

/// Refuses a statement whose plan would read too many tables or nest too many subqueries; otherwise answers the bytes
/// that its first plan will take. Errors: 54001; 54000 for arrays of too many dimensions, 54011 for lists that are too
/// long.
pub(super) fn check_statement(statement: &Statement) -> SqlResult<u64> {
    let mut relations = Relations::default();
    relations.open.push(0);
    let ControlFlow::Continue(()) = statement.walk(&mut relations);
    if relations.most > RELATIONS_MAX {
        return Err(sql::parse::too_deep().detail(format!(
            "With every use of a WITH query counted, the statement has {} tables and SELECTs; {RELATIONS_MAX} are the most.",
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
    if relations.entries_most > ENTRIES_MAX {
        return Err(too_many_entries());
    }
    if relations.expressions_most > WRITTEN_DEPTH_MAX {
        return Err(sql::parse::too_deep().detail(format!(
            "The statement has {} operators or calls inside each other; {WRITTEN_DEPTH_MAX} are the most.",
            relations.expressions_most
        )));
    }
    if relations.rows_most > ROWS_MAX {
        return Err(sql::parse::too_deep().detail(format!(
            "The statement has {} rows inside each other; {ROWS_MAX} are the most.",
            relations.rows_most
        )));
    }
    if relations.subqueries_most > SUBQUERIES_MAX {
        return Err(sql::parse::too_deep().detail(format!(
            "The statement has {} subqueries inside each other; {SUBQUERIES_MAX} are the most.",
            relations.subqueries_most
        )));
    }
    let windows = of_columns(relations.windowed_columns);
    Ok((relations.most * OPERATOR_BYTES).saturating_add(windows))
}

/// Errors: 54011 for a result of too many columns.
pub(super) fn check_width(columns: usize) -> SqlResult<()> {
    if columns > ENTRIES_MAX { Err(too_many_entries()) } else { Ok(()) }
}

/// Errors: 54011 for a list of columns that is too long.
pub fn check_columns(select: &ast::Select) -> SqlResult<()> {
    match select.projection.len() > ENTRIES_MAX {
        true => Err(too_many_entries()),
        false => Ok(()),
    }
}

fn too_many_entries() -> SqlError {
    SqlError::new(SqlState::TOO_MANY_COLUMNS, format!("target lists can have at most {ENTRIES_MAX} entries"))
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
    /// Subqueries of expressions and LATERAL ones that are being visited.
    subqueries: usize,
    subqueries_most: usize,
    /// Expressions inside each other; parentheses are none.
    expressions: usize,
    expressions_most: usize,
    /// Rows inside each other.
    rows: usize,
    rows_most: usize,
    /// Entries of the longest list.
    entries_most: usize,
    /// Arrays inside each other.
    dimensions: usize,
    dimensions_most: usize,
    /// Windows and calls over them of the SELECTs that are being visited, the innermost last.
    windows: Vec<Windows>,
    /// Columns of the operators that windows become.
    windowed_columns: u64,
}

/// Calls over windows in one SELECT. Each window becomes an operator, which has a column for each call so far.
#[derive(Default)]
struct Windows {
    different: BTreeSet<String>,
    calls: u64,
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
        if let Some(ast::OrderBy { kind: ast::OrderByKind::Expressions(keys), .. }) = &query.order_by {
            self.entries_most = self.entries_most.max(keys.len());
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

    fn pre_visit_select(&mut self, select: &ast::Select) -> ControlFlow<Self::Break> {
        if select.from.is_empty() {
            self.add(1);
        }
        let grouped = match &select.group_by {
            ast::GroupByExpr::Expressions(grouped, _) => grouped.len(),
            ast::GroupByExpr::All(_) => 0,
        };
        let distinct = match &select.distinct {
            Some(ast::Distinct::On(keys)) => keys.len(),
            _ => 0,
        };
        self.windows.push(Windows::default());
        let lists = [select.projection.len(), grouped, distinct, select.named_window.len()];
        self.entries_most = lists.into_iter().fold(self.entries_most, usize::max);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &ast::Select) -> ControlFlow<Self::Break> {
        let Windows { different, calls } = self.windows.pop().unwrap_or_default();
        let columns = (different.len() as u64).saturating_mul(calls) / 2;
        self.windowed_columns = self.windowed_columns.saturating_add(columns);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &ast::TableFactor) -> ControlFlow<Self::Break> {
        self.subqueries += usize::from(is_lateral(factor));
        self.subqueries_most = self.subqueries_most.max(self.subqueries);
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &ast::TableFactor) -> ControlFlow<Self::Break> {
        self.subqueries -= usize::from(is_lateral(factor));
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<Self::Break> {
        self.subqueries += usize::from(is_subquery(expr));
        self.subqueries_most = self.subqueries_most.max(self.subqueries);
        self.expressions += usize::from(!matches!(expr, ast::Expr::Nested(_)));
        self.expressions_most = self.expressions_most.max(self.expressions);
        self.rows += usize::from(is_row(expr));
        self.rows_most = self.rows_most.max(self.rows);
        self.dimensions += usize::from(matches!(expr, ast::Expr::Array(_)));
        self.dimensions_most = self.dimensions_most.max(self.dimensions);
        if let (ast::Expr::Function(ast::Function { over: Some(over), .. }), Some(windows)) =
            (expr, self.windows.last_mut())
        {
            windows.different.insert(over.to_string());
            windows.calls += 1;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<Self::Break> {
        self.subqueries -= usize::from(is_subquery(expr));
        self.expressions -= usize::from(!matches!(expr, ast::Expr::Nested(_)));
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

fn is_lateral(factor: &ast::TableFactor) -> bool {
    matches!(factor, ast::TableFactor::Derived { lateral: true, .. })
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

/// Memory that planning takes for an operator, as measured with unions of tables: its schema is there several times, and
/// every rule makes some of them anew.
const OPERATOR_BYTES: u64 = 12 << 10;

/// The same for a column that tells of each row whether a subquery has found it: 1,413 conditions with subqueries in
/// HAVING took 247 MiB.
const MARK_BYTES: u64 = 128;

/// The same for a column of a join, which has those of both its sides, or of a window, which has those of the windows
/// before it: joins of 200 tables of 12 columns took 82 MiB, and calls over 800 windows 190 MiB.
const COLUMN_BYTES: u64 = 384;

/// What a regular expression takes for each byte of its pattern while it is compiled: 20,000 times `(a|b)` took 49 MiB.
const REGEX_BYTES: u64 = 640;

/// Shorter patterns are not counted.
const PATTERN_BYTES_MIN: usize = 1 << 10;

/// The same for an expression.
const EXPRESSION_BYTES: u64 = 1024;

/// Refuses a plan that is too large; otherwise answers the bytes that planning will take. Errors: 54001.
pub(super) fn check(plan: &LogicalPlan) -> SqlResult<u64> {
    let size = Sizes::default().of(plan);
    if size.nodes > NODES_MAX || size.depth > DEPTH_MAX {
        return Err(sql::parse::too_deep().detail(format!(
            "The plan has {} operators and expressions, {} above each other; {NODES_MAX} and {DEPTH_MAX} are the most.",
            size.nodes, size.depth
        )));
    }
    if size.expressions_depth > EXPRESSIONS_DEPTH_MAX {
        return Err(sql::parse::too_deep().detail(format!(
            "The query has {} operators or calls inside each other; {EXPRESSIONS_DEPTH_MAX} are the most.",
            size.expressions_depth
        )));
    }
    Ok(size.bytes())
}

/// Bytes that planning joins and windows takes, for all columns of all of them.
pub(super) fn of_columns(columns: u64) -> u64 {
    columns.saturating_mul(COLUMN_BYTES)
}

/// Bytes that planning a plan further takes.
pub(super) fn bytes(plan: &LogicalPlan) -> u64 {
    Sizes::default().of(plan).bytes()
}

/// Bytes that a plan takes once it is there, roughly: planning has several copies at once.
pub(super) fn kept_bytes(plan: &LogicalPlan) -> usize {
    let size = Sizes::default().of(plan);
    // Patterns are compiled when the plan runs.
    let of_plan = size.bytes().saturating_sub(size.patterns) / 4;
    usize::try_from(of_plan.saturating_add(size.patterns)).unwrap_or(usize::MAX)
}

#[derive(Clone, Copy, Default)]
struct Size {
    /// Operators and expressions.
    nodes: u64,
    operators: u64,
    /// Columns of joins and of windows.
    columns: u64,
    subqueries: u64,
    /// Bytes that the longest constant pattern takes while it is compiled; one is compiled after the other.
    patterns: u64,
    depth: u64,
    expressions_depth: u64,
}

impl Size {
    fn bytes(&self) -> u64 {
        let expressions = self.nodes.saturating_sub(self.operators);
        let operators = self.operators.saturating_mul(OPERATOR_BYTES);
        // Each becomes a join, which carries a mark for each one below it.
        let marks = self.subqueries.saturating_mul(self.subqueries).saturating_mul(MARK_BYTES);
        let operators = operators.saturating_add(of_columns(self.columns)).saturating_add(self.patterns);
        operators.saturating_add(marks).saturating_add(expressions.saturating_mul(EXPRESSION_BYTES))
    }

    fn add(&mut self, below: Size) {
        self.nodes = self.nodes.saturating_add(below.nodes);
        self.operators = self.operators.saturating_add(below.operators);
        self.columns = self.columns.saturating_add(below.columns);
        self.patterns = self.patterns.max(below.patterns);
        self.subqueries = self.subqueries.saturating_add(below.subqueries);
        self.depth = self.depth.max(below.depth);
        self.expressions_depth = self.expressions_depth.max(below.expressions_depth);
    }
}

/// Sizes of plans that are shared, by address: each is measured once.
#[derive(Default)]
struct Sizes(BTreeMap<usize, Size>);

impl Sizes {
    fn of(&mut self, plan: &LogicalPlan) -> Size {
        let mut size = Size { nodes: 1, operators: 1, ..Size::default() };
        if matches!(plan, LogicalPlan::Join(_) | LogicalPlan::Window(_)) {
            size.columns = plan.schema().fields().len() as u64;
        }
        for input in plan.inputs() {
            size.add(self.shared(input));
        }
        let walked = plan.apply_expressions(|expr| {
            size.add(self.of_expr(expr));
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
        let mut walk = ExpressionWalk { sizes: self, open: 0, found: Size::default() };
        let walked = expr.visit(&mut walk);
        debug_assert!(walked.is_ok(), "counting does not fail");
        walk.found
    }
}

struct ExpressionWalk<'a> {
    sizes: &'a mut Sizes,
    /// Expressions around the one that is visited, with it.
    open: u64,
    found: Size,
}

impl<'n> TreeNodeVisitor<'n> for ExpressionWalk<'_> {
    type Node = Expr;

    fn f_down(&mut self, e: &'n Expr) -> Result<TreeNodeRecursion> {
        self.open += 1;
        self.found.nodes += 1;
        self.found.expressions_depth = self.found.expressions_depth.max(self.open);
        let subquery = match e {
            Expr::ScalarSubquery(subquery) => Some(subquery),
            Expr::Exists(exists) => Some(&exists.subquery),
            Expr::InSubquery(within) => Some(&within.subquery),
            Expr::SetComparison(compared) => Some(&compared.subquery),
            _ => None,
        };
        self.found.patterns = self.found.patterns.max(pattern_bytes(e));
        if let Some(subquery) = subquery {
            self.found.subqueries += 1;
            self.found.add(self.sizes.shared(Arc::as_ref(&subquery.subquery)));
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn f_up(&mut self, _: &'n Expr) -> Result<TreeNodeRecursion> {
        self.open -= 1;
        Ok(TreeNodeRecursion::Continue)
    }
}

/// What a comparison with a constant pattern takes. A long one of LIKE is not compiled.
fn pattern_bytes(e: &Expr) -> u64 {
    use Operator::{RegexIMatch, RegexMatch, RegexNotIMatch, RegexNotMatch};
    let pattern = match e {
        Expr::SimilarTo(like) => &like.pattern,
        Expr::BinaryExpr(BinaryExpr { op, right, .. })
            if matches!(op, RegexMatch | RegexIMatch | RegexNotMatch | RegexNotIMatch) =>
        {
            right
        }
        _ => return 0,
    };
    let Expr::Literal(pattern, _) = pattern.as_ref() else { return 0 };
    let bytes = pattern.try_as_str().flatten().map_or(0, str::len);
    if bytes < PATTERN_BYTES_MIN { 0 } else { REGEX_BYTES * bytes as u64 }
}

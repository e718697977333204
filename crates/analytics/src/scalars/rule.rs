//! Where PostgreSQL's types are applied: to operators as they are planned, to all else once a plan is there.

use super::super::fields::renewed;
use super::super::provider::ColumnTable;
use super::super::regexes;
use super::super::{bytes_functions, exact_aggregates};
use super::evaluated::{Computation, SpanOperation, call};
use super::inference::kind_of;
use super::kinds::{Family, Kind, kind_of_field};
use super::{
    bits, extracts, functions, json, lists, notes, operands, ours, powers, rows, text_search, typing, values,
    zoned,
};
use base::error::SqlResult;
use base::{DataType, SqlError};
use datafusion::arrow::datatypes::DataType as Arrow;
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ExprSchema, Result, ScalarValue};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::error::DataFusionError;
use datafusion::functions_table::generate_series::GenerateSeriesTable;
use datafusion::logical_expr::expr::{Between, Case, Cast, InList, Like};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr, RawFieldAccessExpr};
use datafusion::logical_expr::utils::{disjunction, merge_schema};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator, Subquery, Unnest};
use datafusion::sql::sqlparser::ast;

/// Plans binary operators by PostgreSQL's rules.
#[derive(Debug)]
pub(in super::super) struct Operators;

impl ExprPlanner for Operators {
    fn plan_substring(&self, arguments: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(of_texts_or_bytes("substr", arguments))
    }
    fn plan_overlay(&self, arguments: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(of_texts_or_bytes("overlay", arguments))
    }
    fn plan_position(&self, arguments: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(of_texts_or_bytes("strpos", arguments))
    }
    fn plan_field_access(
        &self,
        expr: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        Ok(match json::subscript(&expr, schema).map_err(external)? {
            Some(part) => PlannerResult::Planned(part),
            None => PlannerResult::Original(expr),
        })
    }
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        sql::interrupt::check().map_err(external)?;
        let settled = match &expr.op {
            ast::BinaryOperator::PGExp => {
                let [a, b] = [&expr.left, &expr.right].map(|e| (e, kind_of(e, schema)));
                powers::power("^", a, b)
            }
            op if let Some(search) =
                text_search::operator(op, &expr.left, &expr.right, schema).transpose() =>
            {
                search.map(Some)
            }
            op if let Some(json) = json::operator(op, &expr.left, &expr.right, schema).transpose() => {
                json.map(Some)
            }
            op if let Some(bits) = bits::written(op) => bits::operator(bits, &expr.left, &expr.right, schema),
            op if let Some(lists) = lists::operator(op, &expr.left, &expr.right, schema).transpose() => {
                lists.map(Some)
            }
            op => match operator(op) {
                Some(op) => rows::binary(op, &expr.left, &expr.right, schema, true),
                None => Ok(None),
            },
        };
        Ok(match settled.map_err(external)? {
            Some(settled) => PlannerResult::Planned(settled),
            None => PlannerResult::Original(expr),
        })
    }
}

fn of_texts_or_bytes(name: &str, arguments: Vec<Expr>) -> PlannerResult<Vec<Expr>> {
    match bytes_functions::call(name, &arguments) {
        Some(call) => PlannerResult::Planned(call),
        None => PlannerResult::Original(arguments),
    }
}

fn operator(op: &ast::BinaryOperator) -> Option<Operator> {
    use ast::BinaryOperator as B;
    Some(match op {
        B::Plus => Operator::Plus,
        B::Minus => Operator::Minus,
        B::Multiply => Operator::Multiply,
        B::Divide => Operator::Divide,
        B::Modulo => Operator::Modulo,
        B::StringConcat => Operator::StringConcat,
        B::Gt => Operator::Gt,
        B::Lt => Operator::Lt,
        B::GtEq => Operator::GtEq,
        B::LtEq => Operator::LtEq,
        B::Eq => Operator::Eq,
        B::NotEq => Operator::NotEq,
        B::And => Operator::And,
        B::Or => Operator::Or,
        _ => return None,
    })
}

pub(super) fn external(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Applies PostgreSQL's types and casts to a plan whose own types are not settled yet. Plans over the system
/// catalog stay as they are: their types are those of its columns, which only stand for PostgreSQL's.
///
/// `is_written`: the plan is the statement's, so that whole numbers in it are of its text; a bound parameter is not.
pub(in super::super) fn settle(plan: LogicalPlan, is_written: bool) -> Result<LogicalPlan> {
    if !is_ours(&plan)? {
        return Ok(plan);
    }
    let settled = plan.transform_up_with_subqueries(|node| {
        if let LogicalPlan::Values(values) = node {
            return values::settled(values, is_written).map(Transformed::yes);
        }
        if matches!(node, LogicalPlan::TableScan(_)) {
            return Ok(Transformed::no(node));
        }
        if let LogicalPlan::Unnest(unnest) = &node {
            refuse_dimensions(unnest)?;
        }
        if let LogicalPlan::Join(join) = &node {
            notes::refuse_keys(join).map_err(external)?;
        }
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        let projected = match &node {
            LogicalPlan::Projection(projection) => Some(projection.input.clone()),
            _ => None,
        };
        let mut settle = |e: Expr| -> Result<Transformed<Expr>> {
            let made = e.transform_up(|e| {
                sql::interrupt::check().map_err(external)?;
                match settled(&e, &schema, is_written).map_err(external)? {
                    Some(new) => Ok(Transformed::yes(new)),
                    None => Ok(Transformed::no(e)),
                }
            })?;
            let noted = projected.as_ref().and_then(|input| notes::noted(&made.data, input));
            Ok(noted.map_or(made, Transformed::yes))
        };
        let node = node.map_expressions(|e| renewed(e, &names, &mut settle))?;
        // Types of inputs may have changed too.
        let node = node.map_data(LogicalPlan::recompute_schema)?;
        let node = node.map_data(|node| Ok(operands::of_one_type(node)))?;
        node.map_data(exact_aggregates::settle)
    })?;
    Ok(settled.data)
}

/// Taking an array apart gives its elements, of which those of an array of arrays would be arrays. Errors: 0A000.
fn refuse_dimensions(unnest: &Unnest) -> Result<()> {
    let fields = unnest.input.schema().fields();
    let is_nested = |(at, _): &(usize, _)| matches!(fields[*at].data_type(), Arrow::List(inner) if matches!(inner.data_type(), Arrow::List(_)));
    match unnest.list_type_columns.iter().any(is_nested) {
        true => Err(external(SqlError::unsupported("unnest of an array of several dimensions"))),
        false => Ok(()),
    }
}

fn is_ours(plan: &LogicalPlan) -> Result<bool> {
    let mut is_ours = true;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
        {
            let known = provider.downcast_ref::<ColumnTable>().is_some()
                || provider.downcast_ref::<GenerateSeriesTable>().is_some()
                || provider.downcast_ref::<CteWorkTable>().is_some();
            is_ours &= known;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(is_ours)
}

/// Whether an operator matches a text with a regular expression.
fn is_match(op: Operator) -> bool {
    use Operator as O;
    matches!(op, O::RegexMatch | O::RegexIMatch | O::RegexNotMatch | O::RegexNotIMatch)
}

fn plain(left: &Expr, op: Operator, right: &Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left.clone()), op, Box::new(right.clone())))
}

/// One expression whose parts are settled; `None` if it stays.
pub(super) fn settled(e: &Expr, schema: &dyn ExprSchema, is_written: bool) -> SqlResult<Option<Expr>> {
    match e {
        Expr::Cast(Cast { expr, field }) => typing::cast(expr, field, schema),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_match(*op) => {
            Ok(regexes::settled_operand(right)?.map(|pattern| plain(left, *op, &pattern)))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if let Some(bits) = bits::planned(*op) => {
            bits::operator(bits, left, right, schema)
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => rows::binary(*op, left, right, schema, false),
        Expr::Between(between) => settled_between(between, schema),
        Expr::InList(list) => settled_list(list, schema),
        Expr::IsNull(inner) => rows::null_test(inner, schema, true),
        Expr::IsNotNull(inner) => rows::null_test(inner, schema, false),
        Expr::Not(inner) => typing::condition(inner, schema, "NOT").map(|()| None),
        Expr::IsTrue(inner) | Expr::IsNotTrue(inner) => {
            typing::condition(inner, schema, "IS TRUE").map(|()| None)
        }
        Expr::IsFalse(inner) | Expr::IsNotFalse(inner) => {
            typing::condition(inner, schema, "IS FALSE").map(|()| None)
        }
        Expr::ScalarSubquery(subquery) => lists::subquery_of_labels(subquery),
        Expr::InSubquery(list) => match rows::within(list, schema)? {
            Some(made) => Ok(Some(made)),
            None => refuse_unequal(&list.expr, &list.subquery, schema).map(|()| None),
        },
        Expr::Negative(inner) => settled_negative(inner, schema),
        Expr::Case(case) => settled_case(case, schema, is_written),
        Expr::SimilarTo(like) => settled_like(like, schema),
        Expr::Like(like) => Ok(settled_like(like, schema)?.or_else(|| computed_like(like, schema))),
        Expr::ScalarFunction(call)
            if call.name() == extracts::EXTRACT
                && let [unit, at] = call.args.as_slice() =>
        {
            extracts::settled(unit, at, schema).map(Some)
        }
        Expr::ScalarFunction(call) => match zoned::function(call, schema)? {
            Some(zoned) => Ok(Some(zoned)),
            None => match ours::function(call, schema, is_written)? {
                Some(made) => Ok(Some(made)),
                None => functions::function(call.name(), &call.func, &call.args, schema, is_written),
            },
        },
        _ => Ok(None),
    }
}

fn settled_between(between: &Between, schema: &dyn ExprSchema) -> SqlResult<Option<Expr>> {
    let Between { expr, negated, low, high } = between;
    let from = rows::binary(Operator::GtEq, expr, low, schema, false)?;
    let to = rows::binary(Operator::LtEq, expr, high, schema, false)?;
    if from.is_none() && to.is_none() {
        return Ok(None);
    }
    let from = from.unwrap_or_else(|| plain(expr, Operator::GtEq, low));
    let to = to.unwrap_or_else(|| plain(expr, Operator::LtEq, high));
    let inside = plain(&from, Operator::And, &to);
    Ok(Some(if *negated { Expr::Not(Box::new(inside)) } else { inside }))
}

fn settled_list(list: &InList, schema: &dyn ExprSchema) -> SqlResult<Option<Expr>> {
    let mut any = false;
    let mut terms = Vec::with_capacity(list.list.len());
    for item in &list.list {
        let new = rows::binary(Operator::Eq, &list.expr, item, schema, false)?;
        any |= new.is_some();
        terms.push(new.unwrap_or_else(|| plain(&list.expr, Operator::Eq, item)));
    }
    if !any {
        return Ok(None);
    }
    // Where only literals have become values it stays a list.
    let items: Option<Vec<Expr>> = terms
        .iter()
        .map(|term| match term {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) if *left == list.expr => {
                Some(right.as_ref().clone())
            }
            _ => None,
        })
        .collect();
    Ok(match items {
        Some(items) => Some(Expr::InList(InList::new(list.expr.clone(), items, list.negated))),
        None => disjunction(terms).map(|any| if list.negated { Expr::Not(Box::new(any)) } else { any }),
    })
}

/// Whether a value can be compared with a subquery's column. Errors: 42883.
fn refuse_unequal(e: &Expr, subquery: &Subquery, schema: &dyn ExprSchema) -> SqlResult<()> {
    let fields = subquery.subquery.schema().fields();
    let Some(field) = fields.first() else { return Ok(()) };
    let (a, b) = (kind_of(e, schema), kind_of_field(field));
    let is_open = |k: Kind| matches!(k.family(), Family::Unknown | Family::Foreign);
    if typing::meet_in_a_zone(a, b) {
        return Err(SqlError::unsupported("IN with moments on one side only, in a time zone other than UTC")
            .hint("Cast both sides to one type."));
    }
    if is_open(a) || is_open(b) || a.family().meets(b.family()) {
        return Ok(());
    }
    // A literal in the subquery has no type of its own.
    if let LogicalPlan::Projection(projection) = subquery.subquery.as_ref()
        && projection
            .expr
            .first()
            .is_some_and(|e| kind_of(e, projection.input.schema().as_ref()) == Kind::Unknown)
    {
        return Ok(());
    }
    Err(SqlError::new(
        base::SqlState::UNDEFINED_FUNCTION,
        format!("operator does not exist: {} = {}", a.name(), b.name()),
    )
    .hint(
        "No operator matches the given name and argument types. You might need to add explicit type casts.",
    ))
}

fn settled_negative(inner: &Expr, schema: &dyn ExprSchema) -> SqlResult<Option<Expr>> {
    let kind = kind_of(inner, schema);
    Ok(match kind.family() {
        // Zero less the number: differences are checked.
        Family::Integer => {
            let zero = match kind {
                Kind::Known(DataType::SmallInt) => ScalarValue::Int16(Some(0)),
                Kind::Known(DataType::Integer) => ScalarValue::Int32(Some(0)),
                _ => ScalarValue::Int64(Some(0)),
            };
            Some(plain(&Expr::Literal(zero, None), Operator::Minus, inner))
        }
        Family::Span => {
            let negate = Computation::Spans(SpanOperation::Negate);
            Some(call(negate, vec![(inner.clone(), kind)], Kind::Span))
        }
        // There is one NaN: one with a sign would compare as less than all numbers.
        Family::Float => {
            let minus_one = match kind {
                Kind::Known(DataType::Real) => ScalarValue::Float32(Some(-1.0)),
                _ => ScalarValue::Float64(Some(-1.0)),
            };
            let arguments = vec![(inner.clone(), kind), (Expr::Literal(minus_one, None), kind)];
            let multiply = Computation::Floats(base::expr::BinaryOperator::Multiply);
            Some(call(multiply, arguments, kind))
        }
        Family::Numeric | Family::Unknown | Family::Foreign => None,
        _ => {
            return Err(SqlError::new(
                base::SqlState::UNDEFINED_FUNCTION,
                format!("operator does not exist: - {}", kind.name()),
            ));
        }
    })
}

fn settled_case(case: &Case, schema: &dyn ExprSchema, is_written: bool) -> SqlResult<Option<Expr>> {
    let mut conditions = Vec::with_capacity(case.when_then_expr.len());
    let mut any = false;
    for (condition, _) in &case.when_then_expr {
        let new = match &case.expr {
            Some(operand) => rows::binary(Operator::Eq, operand, condition, schema, false)?,
            None => {
                typing::condition(condition, schema, "CASE/WHEN")?;
                None
            }
        };
        any |= new.is_some();
        conditions.push(new);
    }
    let mut results: Vec<Expr> = case.when_then_expr.iter().map(|(_, then)| then.as_ref().clone()).collect();
    results.extend(case.else_expr.iter().map(|e| e.as_ref().clone()));
    let unified = typing::unified(&results, schema, "CASE", is_written)?;
    if !any && unified.is_none() {
        return Ok(None);
    }
    let mut results = unified.unwrap_or(results);
    let otherwise = case.else_expr.is_some().then(|| results.pop().expect("one more")).map(Box::new);
    // If one comparison is not a plain one, all conditions are written out.
    let operand = case.expr.clone().filter(|_| !any);
    let conditions =
        case.when_then_expr.iter().zip(conditions).map(|((when, _), new)| match (&case.expr, new) {
            (Some(_), _) if !any => when.as_ref().clone(),
            (Some(operand), None) => plain(operand, Operator::Eq, when),
            (_, Some(new)) => new,
            (None, None) => when.as_ref().clone(),
        });
    let branches = conditions.zip(results).map(|(when, then)| (Box::new(when), Box::new(then))).collect();
    Ok(Some(Expr::Case(Case::new(operand, branches, otherwise))))
}

/// A constant pattern of LIKE from which on it is not made a regular expression.
const LONG_PATTERN_BYTES: usize = 1 << 10;

/// LIKE whose pattern is computed or long: the planner makes a regular expression of each pattern, which takes hundreds of
/// times what the pattern does, and which may be too complex for one.
fn computed_like(like: &Like, schema: &dyn ExprSchema) -> Option<Expr> {
    let (text, pattern) = (kind_of(&like.expr, schema), kind_of(&like.pattern, schema));
    let is_given = match like.pattern.as_ref() {
        Expr::Literal(pattern, _) => {
            pattern.try_as_str().flatten().is_none_or(|pattern| pattern.len() < LONG_PATTERN_BYTES)
        }
        Expr::Placeholder(_) => true,
        _ => false,
    };
    let is_text = |kind: Kind| matches!(kind.family(), Family::Text | Family::Unknown);
    if is_given || like.escape_char.is_some() || !is_text(text) || !is_text(pattern) {
        return None;
    }
    let [subject, of] = [0, 1].map(|n| Box::new(base::expr::Expr::Column(n)));
    let matches = base::expr::Expr::Like(subject, of, like.case_insensitive);
    let known = |kind: Kind| if kind == Kind::Unknown { Kind::Known(DataType::Text) } else { kind };
    let arguments =
        vec![(like.expr.as_ref().clone(), known(text)), (like.pattern.as_ref().clone(), known(pattern))];
    let matched = call(Computation::Scalar(matches), arguments, Kind::Known(DataType::Boolean));
    Some(if like.negated { Expr::Not(Box::new(matched)) } else { matched })
}

fn settled_like(like: &Like, schema: &dyn ExprSchema) -> SqlResult<Option<Expr>> {
    let (a, b) = (kind_of(&like.expr, schema), kind_of(&like.pattern, schema));
    let fits =
        |k: Kind| matches!(k.family(), Family::Text | Family::Unknown | Family::Foreign | Family::Bytes);
    if fits(a) && fits(b) {
        return Ok(None);
    }
    let symbol = match (like.case_insensitive, like.negated) {
        (false, false) => "~~",
        (false, true) => "!~~",
        (true, false) => "~~*",
        (true, true) => "!~~*",
    };
    Err(SqlError::new(
        base::SqlState::UNDEFINED_FUNCTION,
        format!("operator does not exist: {} {symbol} {}", a.name(), b.name()),
    )
    .hint(
        "No operator matches the given name and argument types. You might need to add explicit type casts.",
    ))
}

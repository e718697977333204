//! What DataFusion would answer otherwise than PostgreSQL: made right, or refused by name.
//!
//! Integers wrap around there; here sums, differences and products are checked. Functions and operators
//! that share a name but not a meaning are refused with 0A000: no answer rather than a wrong one.

use super::fields::{call_name, data_type, renewed};
use base::SqlError;
use datafusion::arrow::compute::kernels::numeric::{add, mul, sub};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr_common::datum::apply;
use std::sync::Arc;

/// Replaces integer `+`, `-` and `*` by functions that fail on overflow. Runs after types are settled.
#[derive(Debug)]
pub(super) struct CheckIntegers {
    functions: [Arc<ScalarUDF>; 3],
}

impl CheckIntegers {
    pub fn new() -> CheckIntegers {
        let function = |name| Arc::new(ScalarUDF::new_from_impl(Checked::new(name)));
        CheckIntegers { functions: ["checked_add", "checked_subtract", "checked_multiply"].map(function) }
    }

    fn function(&self, operator: Operator) -> Option<&Arc<ScalarUDF>> {
        match operator {
            Operator::Plus => Some(&self.functions[0]),
            Operator::Minus => Some(&self.functions[1]),
            Operator::Multiply => Some(&self.functions[2]),
            _ => None,
        }
    }
}

impl AnalyzerRule for CheckIntegers {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| {
            let schema = merge_schema(&node.inputs());
            let names = NamePreserver::new(&node);
            let mut checked = |e: Expr| {
                e.transform_up(|e| {
                    sql::interrupt::check().map_err(|e| DataFusionError::External(Box::new(e)))?;
                    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = &e else {
                        return Ok(Transformed::no(e));
                    };
                    let Some(function) = self.function(*op) else { return Ok(Transformed::no(e)) };
                    // Columns of an outer query are not known here; they stay as they are.
                    match (data_type(left, &schema), data_type(right, &schema)) {
                        (Ok(a), Ok(b)) if a == b && a.is_signed_integer() => {}
                        _ => return Ok(Transformed::no(e)),
                    }
                    let args = vec![left.as_ref().clone(), right.as_ref().clone()];
                    let call = ScalarFunction::new_udf(function.clone(), args);
                    Ok(Transformed::yes(Expr::ScalarFunction(call)))
                })
            };
            node.map_expressions(|e| renewed(e, &names, &mut checked))
        })
        .map(|t| t.data)
    }

    fn name(&self) -> &str {
        "check_integers"
    }
}

/// Checked arithmetic of two integers of one type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    name: &'static str,
    signature: Signature,
}

impl Checked {
    fn new(name: &'static str) -> Checked {
        Checked { name, signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        self.name
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        call_name(self.name, arguments)
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let kernel = match self.name {
            "checked_add" => add,
            "checked_subtract" => sub,
            _ => mul,
        };
        let kind = match arguments.return_field.data_type() {
            DataType::Int8 | DataType::Int16 => "smallint",
            DataType::Int32 => "integer",
            _ => "bigint",
        };
        apply(&arguments.args[0], &arguments.args[1], kernel).map_err(|_| {
            DataFusionError::External(Box::new(SqlError::new(
                base::SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                format!("{kind} out of range"),
            )))
        })
    }
}

/// Functions that mean something else in DataFusion.
const OTHER_MEANING: &[&str] = &["range", "generate_series", "named_struct"];

/// Refuses what would be answered wrongly. Errors: 0A000.
pub(super) fn refuse_misread(plan: &LogicalPlan) -> Result<()> {
    let refuse = |what: String| Err(DataFusionError::External(Box::new(SqlError::unsupported(what))));
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|e| {
            e.apply(|e| match e {
                Expr::ScalarFunction(call) if OTHER_MEANING.contains(&call.name()) => {
                    refuse(format!("function {}", call.name()))
                }
                _ => Ok(TreeNodeRecursion::Continue),
            })
        })
    })
    .map(|_| ())
}

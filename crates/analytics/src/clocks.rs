//! What queries are told of the time: when the transaction and the statement began, and what the clock says.
//!
//! IN: calls as written. OUT: constants, but for `clock_timestamp()`, which reads the clock for every row. KEEPS: a
//! transaction's queries agree on `now()`, whether they read rows or columns.

use super::cluster::Cluster;
use super::fields::renewed;
use colstore::arrow_type;
use datafusion::arrow::array::TimestampMicrosecondArray;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use sql::lower::bind::Times;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

const CLOCK: &str = "clock_timestamp";
const STATEMENT: &str = "statement_timestamp";
const TRANSACTION: &str = "transaction_timestamp";

/// Functions that the planner's library does not have.
pub(super) fn functions(cluster: &Arc<dyn Cluster>) -> [ScalarUDF; 3] {
    let clock = |name, volatility| {
        let (signature, cluster) = (Signature::nullary(volatility), cluster.clone());
        ScalarUDF::new_from_impl(Clock { name, signature, cluster })
    };
    [
        clock(CLOCK, Volatility::Volatile),
        clock(STATEMENT, Volatility::Stable),
        clock(TRANSACTION, Volatility::Stable),
    ]
}

/// The plan, with the times at which the transaction and the statement began in place of calls that ask for them.
pub(super) fn told(plan: LogicalPlan, times: Times) -> Result<LogicalPlan> {
    let tell = |e: Expr| {
        let Expr::ScalarFunction(call) = &e else { return Ok(Transformed::no(e)) };
        let at_us = match call.func.name() {
            "now" | TRANSACTION => times.transaction_us,
            // The day that the session's clocks show.
            "current_date" => sql::zones::current().to_local(times.transaction_us),
            STATEMENT => times.statement_us,
            _ => return Ok(Transformed::no(e)),
        };
        let data_type = match call.func.name() {
            "now" => DataType::Timestamp(TimeUnit::Nanosecond, Some("+00:00".into())),
            "current_date" => DataType::Date32,
            _ => arrow_type(base::DataType::TimestampTz),
        };
        let told = moment(at_us, &data_type).map(|moment| Expr::Literal(moment, None));
        Ok(told.map_or_else(|| Transformed::no(e), Transformed::yes))
    };
    plan.transform_up_with_subqueries(|node| {
        let names = NamePreserver::new(&node);
        node.map_expressions(|e| renewed(e, &names, &mut |e| e.transform_up(tell)))
    })
    .map(|told| told.data)
}

/// A moment as a value of a type; `None` for types that have no moments.
fn moment(us: i64, data_type: &DataType) -> Option<ScalarValue> {
    let unix_us = us.checked_add(wire::EPOCH_US)?;
    Some(match data_type {
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
            ScalarValue::TimestampNanosecond(Some(unix_us.checked_mul(1_000)?), zone.clone())
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            ScalarValue::TimestampMicrosecond(Some(unix_us), zone.clone())
        }
        DataType::Date32 => {
            ScalarValue::Date32(i32::try_from(unix_us.div_euclid(base::datum::US_PER_DAY)).ok())
        }
        _ => return None,
    })
}

/// A reading of the node's clock.
struct Clock {
    name: &'static str,
    signature: Signature,
    cluster: Arc<dyn Cluster>,
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
impl PartialEq for Clock {
    fn eq(&self, other: &Clock) -> bool {
        self.name == other.name
    }
}
impl Eq for Clock {}
impl Hash for Clock {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Clock {
    fn name(&self) -> &str {
        self.name
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(arrow_type(base::DataType::TimestampTz))
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let now_us = || (self.cluster.now().0 / base::time::US) as i64;
        let rows = if self.name == CLOCK { arguments.number_rows } else { 1 };
        let read: TimestampMicrosecondArray = (0..rows).map(|_| Some(now_us())).collect();
        let read = cast(&read, arguments.return_field.data_type())?;
        match self.name == CLOCK {
            true => Ok(ColumnarValue::Array(read)),
            false => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&read, 0)?)),
        }
    }
}

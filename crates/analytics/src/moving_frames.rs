//! Aggregates of floating-point numbers over windows whose frames move on.
//!
//! A sum that numbers were taken away from is not the sum of those that remain: of 1e20 and 1 without 1e20 nothing is
//! left, and what was added to an infinity is lost. So rows that leave a frame are not taken away: the aggregate is
//! computed again from the rows that are there. KEEPS: the rows of the frame, in their order.

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, ExprSchemable, Signature, WindowFrameBound,
    WindowFunctionDefinition,
};
use datafusion::physical_expr::PhysicalExpr;
use std::collections::VecDeque;
use std::sync::Arc;

/// Aggregates that are computed in floating-point numbers, for arguments of any type.
const ALWAYS_FLOAT: [&str; 7] = ["var", "var_pop", "stddev", "stddev_pop", "covar_samp", "covar_pop", "corr"];

/// So many pieces of a frame are made one before it is gone through again.
const PIECES_MAX: usize = 16;

/// The call, if its frame's start moves and floating-point numbers are added up in it, with a function that is computed
/// anew; `None` for other calls.
pub(super) fn replayed(call: &Expr, schema: &DFSchema) -> Option<Expr> {
    let Expr::WindowFunction(call) = call else { return None };
    let WindowFunctionDefinition::AggregateUDF(function) = &call.fun else { return None };
    let starts_with_the_first = match &call.params.window_frame.start_bound {
        WindowFrameBound::Preceding(offset) => offset.is_null(),
        WindowFrameBound::CurrentRow | WindowFrameBound::Following(_) => false,
    };
    let is_float = |e: &Expr| e.get_type(schema).is_ok_and(|data_type| data_type.is_floating());
    let adds_floats = match function.name() {
        "sum" | "avg" => call.params.args.iter().all(is_float),
        name => ALWAYS_FLOAT.contains(&name) || name.starts_with("regr_"),
    };
    let is_done = function.inner().downcast_ref::<Replaying>().is_some();
    if starts_with_the_first || !adds_floats || is_done || call.params.distinct {
        return None;
    }
    let function = AggregateUDF::new_from_impl(Replaying { function: function.clone() });
    let fun = WindowFunctionDefinition::AggregateUDF(Arc::new(function));
    Some(Expr::WindowFunction(Box::new(WindowFunction { fun, params: call.params.clone() })))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Replaying {
    function: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for Replaying {
    fn name(&self) -> &str {
        self.function.name()
    }
    fn signature(&self) -> &Signature {
        self.function.signature()
    }
    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.function.return_type(types)
    }
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.function.coerce_types(types)
    }
    fn is_nullable(&self) -> bool {
        self.function.is_nullable()
    }
    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.function.default_value(data_type)
    }
    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.function.state_fields(arguments)
    }
    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.function.accumulator(arguments)
    }
    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let call = Call {
            function: self.function.clone(),
            return_field: arguments.return_field.clone(),
            schema: arguments.schema.clone(),
            name: arguments.name.into(),
            exprs: arguments.exprs.to_vec(),
            expr_fields: arguments.expr_fields.to_vec(),
        };
        let current = call.accumulator()?;
        Ok(Box::new(Frame { call, rows: VecDeque::new(), current, is_stale: false }))
    }
}

/// What an accumulator is made from.
#[derive(Debug)]
struct Call {
    function: Arc<AggregateUDF>,
    return_field: FieldRef,
    schema: Schema,
    name: String,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    expr_fields: Vec<FieldRef>,
}

impl Call {
    /// One that has seen no row.
    fn accumulator(&self) -> Result<Box<dyn Accumulator>> {
        self.function.accumulator(AccumulatorArgs {
            return_field: self.return_field.clone(),
            schema: &self.schema,
            ignore_nulls: false,
            order_bys: &[],
            is_reversed: false,
            name: &self.name,
            is_distinct: false,
            exprs: &self.exprs,
            expr_fields: &self.expr_fields,
        })
    }
}

/// The rows of a frame.
#[derive(Debug)]
struct Frame {
    call: Call,
    /// The arguments, in pieces of at least one row.
    rows: VecDeque<Vec<ArrayRef>>,
    /// Has seen these rows, unless it is stale.
    current: Box<dyn Accumulator>,
    is_stale: bool,
}

fn count(piece: &[ArrayRef]) -> usize {
    piece.first().map_or(0, |column| column.len())
}

impl Frame {
    fn replay(&mut self) -> Result<()> {
        if self.rows.len() > PIECES_MAX {
            let width = self.rows.front().map_or(0, Vec::len);
            let column = |n: usize| {
                let pieces: Vec<&dyn Array> = self.rows.iter().map(|piece| piece[n].as_ref()).collect();
                concat(&pieces)
            };
            let piece: Vec<ArrayRef> = (0..width).map(column).collect::<std::result::Result<_, _>>()?;
            self.rows = VecDeque::from([piece]);
        }
        self.current = self.call.accumulator()?;
        for piece in &self.rows {
            self.current.update_batch(piece)?;
        }
        self.is_stale = false;
        Ok(())
    }
}

impl Accumulator for Frame {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if count(values) == 0 {
            return Ok(());
        }
        self.rows.push_back(values.to_vec());
        if self.is_stale { Ok(()) } else { self.current.update_batch(values) }
    }
    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        internal_err!("frames are not merged")
    }
    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let mut leaving = count(values);
        while leaving > 0 {
            self.is_stale = true;
            let Some(first) = self.rows.pop_front() else {
                return internal_err!("more rows leave a frame than are in it");
            };
            let had = count(&first);
            if had > leaving {
                let rest = first.iter().map(|column| column.slice(leaving, had - leaving)).collect();
                self.rows.push_front(rest);
            }
            leaving = leaving.saturating_sub(had);
        }
        Ok(())
    }
    fn supports_retract_batch(&self) -> bool {
        true
    }
    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.is_stale {
            self.replay()?;
        }
        self.current.evaluate()
    }
    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        if self.is_stale {
            self.replay()?;
        }
        self.current.state()
    }
    fn size(&self) -> usize {
        let rows: usize = self.rows.iter().map(|piece| count(piece) * piece.len()).sum();
        size_of_val(self) + self.current.size() + rows * size_of::<f64>()
    }
}

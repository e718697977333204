//! `EXCLUDE CURRENT ROW`, `GROUP` and `TIES`: frames of windows without some of their rows.
//!
//! IN: a call whose window is divided by the text that says what its frame leaves out (`sql::parse::EXCLUDES`). OUT: the call
//! of a function that is given the whole frame, leaves these rows out and computes the former function anew of the others,
//! row by row. KEEPS: functions that do not look at a frame stay as they are.

use base::SqlError;
use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::compute::{concat, filter, partition};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::function::{AccumulatorArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    AggregateUDF, Expr, PartitionEvaluator, Signature, Volatility, WindowFunctionDefinition, WindowUDF,
    WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use std::ops::Range;
use std::sync::Arc;

fn external(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// What a frame leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Exclusion {
    CurrentRow,
    Group,
    Ties,
}

/// Whether some of the calls leave rows out, which are replaced then under the names that they had.
pub(super) fn settle(calls: &mut [Expr]) -> bool {
    let mut has_some = false;
    for call in calls {
        let name = call.schema_name().to_string();
        let Expr::WindowFunction(mut window) = call.clone().unalias() else { continue };
        let Some(exclusion) = window.params.partition_by.iter().find_map(said) else { continue };
        window.params.partition_by.retain(|e| said(e).is_none());
        *call = Expr::WindowFunction(Box::new(without_rows(*window, exclusion))).alias(name);
        has_some = true;
    }
    has_some
}

/// What an expression says that is left out; `None`: it is one that divides the window.
fn said(e: &Expr) -> Option<Exclusion> {
    let text = match e {
        Expr::Literal(
            ScalarValue::Utf8(Some(text))
            | ScalarValue::Utf8View(Some(text))
            | ScalarValue::LargeUtf8(Some(text)),
            _,
        ) => text,
        Expr::Cast(cast) => return said(&cast.expr),
        Expr::Alias(alias) => return said(&alias.expr),
        _ => return None,
    };
    Some(match text.strip_prefix(sql::parse::EXCLUDES)? {
        "group" => Exclusion::Group,
        "ties" => Exclusion::Ties,
        _ => Exclusion::CurrentRow,
    })
}

fn without_rows(mut call: WindowFunction, exclusion: Exclusion) -> WindowFunction {
    let function = match &call.fun {
        WindowFunctionDefinition::AggregateUDF(function) => Function::Aggregate(function.clone()),
        WindowFunctionDefinition::WindowUDF(function) if OF_FRAMES.contains(&function.name()) => {
            Function::OfFrame(function.clone())
        }
        // It does not look at its frame.
        WindowFunctionDefinition::WindowUDF(_) => return call,
    };
    let filter = call.params.filter.take();
    let excluding = Excluding {
        function,
        exclusion,
        is_filtered: filter.is_some(),
        signature: Signature::user_defined(Volatility::Immutable),
    };
    call.params.args.extend(filter.map(|filter| *filter));
    call.fun = WindowFunctionDefinition::WindowUDF(Arc::new(WindowUDF::new_from_impl(excluding)));
    call
}

/// Functions beside aggregates that look at a frame.
const OF_FRAMES: [&str; 3] = ["first_value", "last_value", "nth_value"];

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Function {
    Aggregate(Arc<AggregateUDF>),
    OfFrame(Arc<WindowUDF>),
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Excluding {
    function: Function,
    exclusion: Exclusion,
    /// The last argument says which rows count.
    is_filtered: bool,
    signature: Signature,
}

impl Excluding {
    fn own<'f, T>(&self, arguments: &'f [T]) -> &'f [T] {
        &arguments[..arguments.len() - usize::from(self.is_filtered)]
    }
}

impl WindowUDFImpl for Excluding {
    fn name(&self) -> &str {
        match &self.function {
            Function::Aggregate(function) => function.name(),
            Function::OfFrame(function) => function.name(),
        }
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let own = self.own(types);
        let field = |of: &DataType| Arc::new(Field::new("argument", of.clone(), true));
        let fields: Vec<FieldRef> = own.iter().map(field).collect();
        let taken = match &self.function {
            Function::Aggregate(function) => fields_with_udf(&fields, function.as_ref())?,
            Function::OfFrame(function) => fields_with_udf(&fields, function.as_ref())?,
        };
        let taken = taken.iter().map(|field| field.data_type().clone());
        Ok(taken.chain(types[own.len()..].iter().cloned()).collect())
    }
    fn field(&self, arguments: WindowUDFFieldArgs) -> Result<FieldRef> {
        let fields = self.own(arguments.input_fields());
        match &self.function {
            Function::Aggregate(function) => {
                let returned = function.return_field(fields)?;
                Ok(Arc::new(Field::new(arguments.name(), returned.data_type().clone(), true)))
            }
            Function::OfFrame(function) => function.field(WindowUDFFieldArgs::new(fields, arguments.name())),
        }
    }
    fn partition_evaluator(&self, arguments: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        let (exprs, fields) = (self.own(arguments.input_exprs()), self.own(arguments.input_fields()));
        let computed = match &self.function {
            Function::Aggregate(function) => Computed::Aggregate(Call::new(function, exprs, fields)?),
            Function::OfFrame(function) => {
                let inner = PartitionEvaluatorArgs::new(exprs, fields, false, arguments.ignore_nulls());
                Computed::OfFrame(function.partition_evaluator_factory(inner)?)
            }
        };
        Ok(Box::new(Evaluator {
            computed,
            exclusion: self.exclusion,
            is_filtered: self.is_filtered,
            arguments: exprs.len(),
            at: 0,
            peers: Vec::new(),
            group: 0,
        }))
    }
}

/// What an accumulator is made from.
#[derive(Debug)]
struct Call {
    function: Arc<AggregateUDF>,
    return_field: FieldRef,
    schema: Schema,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    expr_fields: Vec<FieldRef>,
}

impl Call {
    fn new(
        function: &Arc<AggregateUDF>,
        exprs: &[Arc<dyn PhysicalExpr>],
        fields: &[FieldRef],
    ) -> Result<Call> {
        // Constants are what they are, the others columns of what is given.
        let column = |(n, e): (usize, &Arc<dyn PhysicalExpr>)| -> Arc<dyn PhysicalExpr> {
            match e.downcast_ref::<Literal>() {
                Some(_) => e.clone(),
                None => Arc::new(Column::new(fields[n].name(), n)),
            }
        };
        Ok(Call {
            function: function.clone(),
            return_field: function.return_field(fields)?,
            schema: Schema::new(fields.to_vec()),
            exprs: exprs.iter().enumerate().map(column).collect(),
            expr_fields: fields.to_vec(),
        })
    }

    fn of(&self, pieces: &[Vec<ArrayRef>]) -> Result<ScalarValue> {
        let mut accumulator = self.function.accumulator(AccumulatorArgs {
            return_field: self.return_field.clone(),
            schema: &self.schema,
            ignore_nulls: false,
            order_bys: &[],
            is_reversed: false,
            name: self.function.name(),
            is_distinct: false,
            exprs: &self.exprs,
            expr_fields: &self.expr_fields,
        })?;
        for piece in pieces {
            accumulator.update_batch(piece)?;
        }
        accumulator.evaluate()
    }
}

#[derive(Debug)]
enum Computed {
    Aggregate(Call),
    OfFrame(Box<dyn PartitionEvaluator>),
}

/// The rows of one part of a window, one after the other.
#[derive(Debug)]
struct Evaluator {
    computed: Computed,
    exclusion: Exclusion,
    is_filtered: bool,
    /// Without the filter; behind them stand the values that the rows are ordered by.
    arguments: usize,
    /// The row that comes next.
    at: usize,
    /// Rows of equal order, in their order, and those that the next row belongs to.
    peers: Vec<Range<usize>>,
    group: usize,
}

impl PartitionEvaluator for Evaluator {
    fn uses_window_frame(&self) -> bool {
        true
    }

    fn evaluate(&mut self, values: &[ArrayRef], frame: &Range<usize>) -> Result<ScalarValue> {
        sql::interrupt::check().map_err(external)?;
        let keys = &values[self.arguments + usize::from(self.is_filtered)..];
        if self.at == 0 {
            // Without an order all rows are peers.
            self.peers = match keys {
                [] => std::iter::once(0..usize::MAX).collect(),
                keys => partition(keys)?.ranges(),
            };
        }
        let (at, arguments) = (self.at, &values[..self.arguments]);
        self.at += 1;
        while self.peers.get(self.group).is_some_and(|peers| peers.end <= at) {
            self.group += 1;
        }
        let peers = self.peers.get(self.group).cloned().unwrap_or(at..at + 1);
        let mut pieces = Vec::new();
        for part in parts(frame, at, &peers, self.exclusion) {
            let slice = |column: &ArrayRef| column.slice(part.start, part.len());
            let piece: Vec<ArrayRef> = arguments.iter().map(slice).collect();
            pieces.push(match self.is_filtered {
                true => filtered(&piece, &slice(&values[self.arguments]))?,
                false => piece,
            });
        }
        match &mut self.computed {
            Computed::Aggregate(call) => call.of(&pieces),
            Computed::OfFrame(inner) => {
                // A function may not be asked of no rows without columns.
                let none: Vec<ArrayRef> = arguments.iter().map(|column| column.slice(0, 0)).collect();
                pieces.push(none);
                let column = |n: usize| {
                    let of_pieces: Vec<&dyn Array> = pieces.iter().map(|piece| piece[n].as_ref()).collect();
                    concat(&of_pieces)
                };
                let whole: Vec<ArrayRef> =
                    (0..self.arguments).map(column).collect::<std::result::Result<_, _>>()?;
                let rows = whole.first().map_or(0, |column| column.len());
                inner.evaluate(&whole, &(0..rows))
            }
        }
    }
}

/// The rows for which a condition holds.
fn filtered(piece: &[ArrayRef], condition: &ArrayRef) -> Result<Vec<ArrayRef>> {
    let condition = datafusion::common::cast::as_boolean_array(condition)?;
    Ok(piece.iter().map(|column| filter(column, condition)).collect::<std::result::Result<_, _>>()?)
}

/// The parts of a frame that are left, none of them empty.
fn parts(frame: &Range<usize>, at: usize, peers: &Range<usize>, exclusion: Exclusion) -> Vec<Range<usize>> {
    let left = match exclusion {
        Exclusion::CurrentRow => vec![0..at, at + 1..usize::MAX],
        Exclusion::Group => vec![0..peers.start, peers.end..usize::MAX],
        Exclusion::Ties => vec![0..peers.start, at..at + 1, peers.end..usize::MAX],
    };
    let within = |part: Range<usize>| part.start.max(frame.start)..part.end.min(frame.end);
    left.into_iter().map(within).filter(|part| part.start < part.end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_left_out_of_a_frame() {
        let parts = |frame: Range<usize>, at, exclusion| super::parts(&frame, at, &(2..5), exclusion);
        assert_eq!(parts(1..7, 3, Exclusion::CurrentRow), vec![1..3, 4..7]);
        assert_eq!(parts(1..7, 3, Exclusion::Group), vec![1..2, 5..7]);
        assert_eq!(parts(1..7, 3, Exclusion::Ties), vec![1..2, 3..4, 5..7]);
        assert_eq!(parts(3..4, 3, Exclusion::CurrentRow), Vec::<Range<usize>>::new());
        assert_eq!(parts(5..5, 3, Exclusion::CurrentRow), Vec::<Range<usize>>::new());
    }
}

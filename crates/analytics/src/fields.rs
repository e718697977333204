//! The field of an expression without its name.
//!
//! DataFusion names a field by the text of its whole expression. Asked at every operator of a chain, that takes the
//! cube of the chain's length. Whoever wants to know a type does not want the name.

use base::hash::digest;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{ExprSchema, Result};
use datafusion::logical_expr::GroupingSet;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, ReturnFieldArgs};
use std::fmt::Write;
use std::sync::Arc;

/// Changes an expression of a node, which keeps its name; so does each group of GROUPING SETS, whose number is that of
/// the node's columns.
pub fn renewed(
    e: Expr,
    names: &NamePreserver,
    change: &mut dyn FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<Expr>> {
    let mut one = |e: Expr| {
        let name = names.save(&e);
        Ok(change(e)?.update_data(|e| name.restore(e)))
    };
    let Expr::GroupingSet(set) = e else { return one(e) };
    let mut is_changed = false;
    let mut all = |exprs: Vec<Expr>| -> Result<Vec<Expr>> {
        let renewed = |e| {
            let new = one(e)?;
            is_changed |= new.transformed;
            Ok(new.data)
        };
        exprs.into_iter().map(renewed).collect()
    };
    let set = match set {
        GroupingSet::Rollup(exprs) => GroupingSet::Rollup(all(exprs)?),
        GroupingSet::Cube(exprs) => GroupingSet::Cube(all(exprs)?),
        GroupingSet::GroupingSets(sets) => {
            GroupingSet::GroupingSets(sets.into_iter().map(all).collect::<Result<_>>()?)
        }
    };
    let whole = Expr::GroupingSet(set);
    Ok(if is_changed { Transformed::yes(whole) } else { Transformed::no(whole) })
}

/// Type, nullability and notes of an expression; its name is any.
pub fn field(e: &Expr, schema: &dyn ExprSchema) -> Result<FieldRef> {
    match e {
        Expr::Negative(inner) => field(inner, schema),
        Expr::Column(column) => schema.field_from_column(column).cloned(),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (left, right) = (field(left, schema)?, field(right, schema)?);
            let result = BinaryTypeCoercer::new(left.data_type(), op, right.data_type()).get_result_type()?;
            Ok(unnamed(result, left.is_nullable() || right.is_nullable()))
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) => {
            let given = args.iter().map(|e| field(e, schema)).collect::<Result<Vec<_>>>()?;
            let taken = fields_with_udf(&given, func.as_ref())?;
            let literals = args.iter().map(|e| match e {
                Expr::Literal(value, _) => Some(value),
                _ => None,
            });
            let literals: Vec<_> = literals.collect();
            func.return_field_from_args(ReturnFieldArgs { arg_fields: &taken, scalar_arguments: &literals })
        }
        Expr::Cast(cast) => Ok(unnamed(cast.field.data_type().clone(), true)),
        Expr::TryCast(cast) => Ok(unnamed(cast.field.data_type().clone(), true)),
        Expr::Case(case) => {
            let otherwise = case.else_expr.iter().map(|e| e.as_ref());
            let values = case.when_then_expr.iter().map(|(_, then)| then.as_ref()).chain(otherwise);
            for value in values {
                let found = field(value, schema)?;
                if !found.data_type().is_null() {
                    return Ok(unnamed(found.data_type().clone(), true));
                }
            }
            Ok(unnamed(DataType::Null, true))
        }
        _ => e.to_field(schema).map(|(_, field)| field),
    }
}

/// The type of an expression.
pub fn data_type(e: &Expr, schema: &dyn ExprSchema) -> Result<DataType> {
    field(e, schema).map(|field| field.data_type().clone())
}

/// Names of calls that are longer end in a digest: each level of nested calls writes the names of all below it.
const NAME_BYTES_MAX: usize = 512;

/// Name of the column that a call of a function is.
pub fn call_name(function: &str, arguments: &[Expr]) -> Result<String> {
    let mut name = format!("{function}(");
    for (i, argument) in arguments.iter().enumerate() {
        let comma = if i == 0 { "" } else { "," };
        write!(name, "{comma}{}", argument.schema_name())?;
    }
    name.push(')');
    if name.len() > NAME_BYTES_MAX {
        let digest = digest(name.as_str());
        let kept = name.floor_char_boundary(NAME_BYTES_MAX / 2);
        name.truncate(kept);
        write!(name, "… {digest:016x})")?;
    }
    Ok(name)
}

fn unnamed(data_type: DataType, is_nullable: bool) -> FieldRef {
    Arc::new(Field::new("", data_type, is_nullable))
}

//! Rows as values: what a relation's name stands for in an expression, and rows as JSON.
//!
//! A row is a struct whose fields have the columns' names, types and notes.

use super::fields::call_name;
use super::types;
use base::error::SqlResult;
use base::{DataType, Datum, SqlError};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, StructArray};
use datafusion::arrow::datatypes::{DataType as Arrow, Field, FieldRef, Fields};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, lit,
};
use std::sync::Arc;

/// The function of names and values, each value behind its name.
pub(super) const ROW: &str = "meridian_row";

/// Makes the function known.
pub(super) fn install(context: &SessionContext) {
    context.register_udf(function());
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Row {
    signature: Signature,
}

impl Row {
    fn fields(&self, arguments: &[FieldRef], names: &[Option<&ScalarValue>]) -> Result<Fields> {
        let pairs = arguments.chunks(2).zip(names.chunks(2));
        let fields = pairs.map(|(fields, names)| match (fields, names) {
            ([_, value], [Some(ScalarValue::Utf8(Some(name))), _]) => {
                Ok(value.as_ref().clone().with_name(name).with_nullable(true))
            }
            _ => plan_err!("{ROW} takes names and values"),
        });
        fields.collect::<Result<Vec<Field>>>().map(Fields::from)
    }
}

impl ScalarUDFImpl for Row {
    fn name(&self) -> &str {
        ROW
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        call_name(ROW, arguments)
    }
    fn return_type(&self, _: &[Arrow]) -> Result<Arrow> {
        plan_err!("the type of {ROW} follows from its names")
    }
    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let fields = self.fields(arguments.arg_fields, arguments.scalar_arguments)?;
        Ok(Arc::new(Field::new(ROW, Arrow::Struct(fields), true)))
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Arrow::Struct(fields) = arguments.return_field.data_type() else {
            return plan_err!("{ROW} makes rows");
        };
        let values = arguments.args.iter().skip(1).step_by(2);
        let columns =
            values.map(|value| value.to_array(arguments.number_rows)).collect::<Result<Vec<_>>>()?;
        let rows = StructArray::try_new_with_length(fields.clone(), columns, None, arguments.number_rows)?;
        Ok(ColumnarValue::Array(Arc::new(rows)))
    }
}

/// A row without a relation, whose columns are `f1`, `f2` and so on.
pub(super) fn of_values(values: &[Expr]) -> Expr {
    let names = (1..).map(|n| lit(format!("f{n}")));
    let arguments = names.zip(values).flat_map(|(name, value)| [name, value.clone()]);
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function()), arguments.collect()))
}

fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(Row { signature: Signature::variadic_any(Volatility::Immutable) })
}

/// Whether values are rows, or arrays of them.
pub(super) fn has_rows(data_type: &Arrow) -> bool {
    match data_type {
        Arrow::Struct(_) => !is_typed(data_type),
        Arrow::List(of) => has_rows(of.data_type()),
        _ => false,
    }
}

/// Whether rows are of a composite type, which tells what they hold.
fn is_typed(data_type: &Arrow) -> bool {
    matches!(types::from_arrow(data_type), DataType::Composite(_))
}

/// Whether rows have moments, which JSON shows in the session's zone.
pub(super) fn has_moments(data_type: &Arrow) -> bool {
    match data_type {
        Arrow::Struct(fields) if !is_typed(data_type) => {
            fields.iter().any(|field| has_moments(field.data_type()))
        }
        Arrow::List(of) => has_moments(of.data_type()),
        other => types::from_arrow(other).has(DataType::TimestampTz),
    }
}

/// Rows, or arrays of them, as texts of JSON. Errors: those of their values.
pub(super) fn as_json(values: &ArrayRef, field: &Field) -> SqlResult<Vec<Datum>> {
    let texts = texts(values, field)?;
    Ok(texts.into_iter().map(|text| text.map_or(Datum::Null, Datum::text)).collect())
}

fn texts(values: &ArrayRef, field: &Field) -> SqlResult<Vec<Option<String>>> {
    match values.data_type() {
        Arrow::Struct(fields) if !is_typed(values.data_type()) => {
            let rows = values.as_struct();
            let columns = rows.columns().iter().zip(fields);
            let columns =
                columns.map(|(column, field)| texts(column, field)).collect::<SqlResult<Vec<_>>>()?;
            let names: Vec<String> = fields.iter().map(|f| quoted(super::rewrite::shown(f.name()))).collect();
            let row = |at: usize| {
                let members = names
                    .iter()
                    .zip(&columns)
                    .map(|(name, column)| format!("{name}:{}", column[at].as_deref().unwrap_or("null")));
                format!("{{{}}}", members.collect::<Vec<_>>().join(","))
            };
            Ok((0..rows.len()).map(|at| (!rows.is_null(at)).then(|| row(at))).collect())
        }
        Arrow::List(of) if has_rows(of.data_type()) => {
            let lists = values.as_list::<i32>();
            let elements = texts(lists.values(), of)?;
            let list = |at: usize| {
                let ends = lists.value_offsets();
                let elements = elements[ends[at] as usize..ends[at + 1] as usize].iter();
                let shown: Vec<&str> = elements.map(|e| e.as_deref().unwrap_or("null")).collect();
                format!("[{}]", shown.join(","))
            };
            Ok((0..lists.len()).map(|at| (!lists.is_null(at)).then(|| list(at))).collect())
        }
        _ => {
            let data_type = types::shown_type(field);
            let values = types::datums(values.as_ref(), data_type)?;
            let text = |value: &Datum| (!value.is_null()).then(|| base::json::text_of(value, data_type));
            Ok(values.iter().map(text).collect())
        }
    }
}

fn quoted(name: &str) -> String {
    base::json::text_of(&Datum::text(name), DataType::Text)
}

/// Errors: 0A000 where JSON of rows would show moments in another zone than the session's.
pub(super) fn refuse_zoned(data_type: &Arrow) -> SqlResult<()> {
    match (has_rows(data_type) || is_typed(data_type)) && has_moments(data_type) {
        false => Ok(()),
        true => Err(SqlError::unsupported("JSON of rows with moments, in a time zone other than UTC")
            .hint("Name the columns: json_build_object('at', at).")),
    }
}

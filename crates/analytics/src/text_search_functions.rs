//! Functions of full-text search and of addresses over columns: each computes what [`sql::calls`] makes of its arguments' types, one
//! row at a time, as rows do.

use super::fields::call_name;
use super::types;
use base::error::SqlResult;
use base::expr::Expr as Scalar;
use base::{DataType, Datum, SqlError, SqlState};
use datafusion::arrow::datatypes::{DataType as Arrow, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use sql::{calls, text_search};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Makes the functions known.
pub(super) fn install(context: &SessionContext) {
    for name in calls::names() {
        let signature = Signature::variadic_any(Volatility::Immutable);
        context.register_udf(ScalarUDF::new_from_impl(SearchCall { name, signature }));
    }
    let of_addresses =
        SearchCall { name: "trunc", signature: Signature::user_defined(Volatility::Immutable) };
    let shared = Shared { of_numbers: datafusion::functions::math::trunc(), of_addresses };
    context.register_udf(ScalarUDF::new_from_impl(shared));
}

#[derive(Debug)]
struct SearchCall {
    name: &'static str,
    signature: Signature,
}

impl PartialEq for SearchCall {
    fn eq(&self, other: &SearchCall) -> bool {
        self.name == other.name
    }
}
impl Eq for SearchCall {}
impl Hash for SearchCall {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

fn external(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// A call over its arguments as columns.
struct Settled {
    scalar: Scalar,
    /// What the arguments are read as.
    types: Vec<DataType>,
    returns: DataType,
}

impl SearchCall {
    /// Errors: 42883.
    fn settled(&self, fields: &[FieldRef]) -> SqlResult<Settled> {
        let types: Vec<DataType> = fields.iter().map(|field| types::shown_type(field)).collect();
        let given = fields.iter().zip(&types).map(|(field, shown)| match field.data_type() {
            // Of literals, which take the type that is wanted.
            Arrow::Utf8 | Arrow::Null => None,
            _ => Some(*shown),
        });
        let given: Vec<Option<DataType>> = given.collect();
        let call = calls::function(self.name, &given).ok_or_else(|| self.missing(&types))?;
        let columns = types.iter().zip(call.wanted()).enumerate().map(|(n, (own, wanted))| {
            let column = Scalar::Column(n);
            match *own == wanted {
                true => column,
                false => Scalar::Convert(Box::new(column), *own, wanted),
            }
        });
        let scalar = call.over(columns.collect());
        Ok(Settled { scalar, types, returns: call.returns() })
    }

    fn missing(&self, types: &[DataType]) -> SqlError {
        let shown: Vec<String> = types.iter().map(|t| sql::lower::expr::type_name(*t)).collect();
        SqlError::new(
            SqlState::UNDEFINED_FUNCTION,
            format!("function {}({}) does not exist", self.name, shown.join(", ")),
        )
        .hint("No function matches the given name and argument types. You might need to add explicit type casts.")
    }
}

impl ScalarUDFImpl for SearchCall {
    fn name(&self) -> &str {
        self.name
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        call_name(self.name, arguments)
    }
    fn return_type(&self, _: &[Arrow]) -> Result<Arrow> {
        let returns = calls::returned(self.name).unwrap_or(DataType::Text);
        Ok(colstore::arrow_type(returns))
    }
    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let returns = self.settled(arguments.arg_fields).map_err(external)?.returns;
        Ok(Arc::new(types::noted_field(self.name, returns)))
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Settled { scalar, types, returns } = self.settled(&arguments.arg_fields).map_err(external)?;
        let is_constant = arguments.args.iter().all(|a| matches!(a, ColumnarValue::Scalar(_)));
        let count = if is_constant { 1 } else { arguments.number_rows };
        let columns = arguments.args.iter().zip(types).map(|(argument, data_type)| {
            // A constant has one value for all rows.
            let (array, is_one) = match argument {
                ColumnarValue::Array(array) => (array.clone(), false),
                ColumnarValue::Scalar(scalar) => (scalar.to_array()?, true),
            };
            Ok((types::datums(array.as_ref(), data_type).map_err(external)?, is_one))
        });
        let columns = columns.collect::<Result<Vec<(Vec<Datum>, bool)>>>()?;
        let values = (0..count).map(|row| {
            sql::interrupt::check()?;
            scalar.eval_with(&|column| {
                let (values, is_one) = &columns[column];
                Ok(values[if *is_one { 0 } else { row }].clone())
            })
        });
        let values = values.collect::<SqlResult<Vec<Datum>>>().map_err(external)?;
        let made = colstore::array_of(returns, &values);
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
            false => ColumnarValue::Array(made),
        })
    }
}

/// A function that numbers have, too: the library's of those, and ours of addresses.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Shared {
    of_numbers: Arc<ScalarUDF>,
    of_addresses: SearchCall,
}

/// Whether the first argument is an address.
fn is_of_address(argument: Option<&Arrow>) -> bool {
    matches!(argument, Some(Arrow::FixedSizeBinary(_)))
}

impl ScalarUDFImpl for Shared {
    fn name(&self) -> &str {
        self.of_addresses.name
    }
    fn signature(&self) -> &Signature {
        &self.of_addresses.signature
    }
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        call_name(self.name(), arguments)
    }
    fn coerce_types(&self, types: &[Arrow]) -> Result<Vec<Arrow>> {
        if is_of_address(types.first()) {
            return Ok(types.to_vec());
        }
        let fields: Vec<FieldRef> =
            types.iter().map(|of| Arc::new(Field::new("", of.clone(), true))).collect();
        let taken = fields_with_udf(&fields, self.of_numbers.as_ref())?;
        Ok(taken.iter().map(|field| field.data_type().clone()).collect())
    }
    fn return_type(&self, types: &[Arrow]) -> Result<Arrow> {
        match types {
            [address] if is_of_address(Some(address)) => Ok(address.clone()),
            types => self.of_numbers.return_type(types),
        }
    }
    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        match is_of_address(arguments.arg_fields.first().map(|field| field.data_type())) {
            true => self.of_addresses.return_field_from_args(arguments),
            false => self.of_numbers.return_field_from_args(arguments),
        }
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match is_of_address(arguments.arg_fields.first().map(|field| field.data_type())) {
            true => self.of_addresses.invoke_with_args(arguments),
            false => self.of_numbers.invoke_with_args(arguments),
        }
    }
}

/// A function that makes a query, behind FROM, as a query in parentheses with its alias; `None` for any other function.
pub(super) fn in_from(name: &str, arguments: &[String], alias: Option<&str>) -> Option<String> {
    let shown = alias.unwrap_or(name);
    text_search::makes_query(name)
        .then(|| format!("SELECT 1 FROM (SELECT {name}({}) AS {shown}) AS {shown}", arguments.join(", ")))
}

//! Functions of JSON over columns, and how the statement says those that are aggregates or sets.
//!
//! A function computes what [`sql::json`] makes of its arguments' types, one row at a time, as rows do. An aggregate is a
//! function of the array of its values, and a set of rows is an array taken apart: `jsonb_agg(x ORDER BY y)` becomes
//! `jsonb_meridian_gather(array_agg(to_jsonb(x) ORDER BY y))`, and `jsonb_array_elements(x)`
//! `unnest(jsonb_meridian_elements(x))`.

use super::composites;
use super::fields::call_name;
use super::types;
use base::error::SqlResult;
use base::expr::Expr as Scalar;
use base::json::LINE_BREAK;
use base::schema::Catalog;
use base::{DataType, Datum, SqlError, SqlState};
use datafusion::arrow::datatypes::{DataType as Arrow, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast;
use sql::json::{Call, Wanted};
use sql::user_types::Kept;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Makes the functions known.
pub(super) fn install(context: &SessionContext) {
    for name in sql::json::names() {
        let call = sql::json::call(&name).expect("it has a name of its own");
        context.register_udf(made(name, call));
    }
}

/// The function of a name, over the types that users have made; `None`: it is none of these, or there are none of those.
pub(super) fn over_types(catalog: &Catalog, name: &str) -> Option<Arc<ScalarUDF>> {
    let call = if catalog.types.is_empty() { None } else { sql::json::call(name) };
    call.map(|call| Arc::new(made(name.into(), call)))
}

fn made(name: String, call: Call) -> ScalarUDF {
    let signature = Signature::variadic_any(Volatility::Immutable);
    ScalarUDF::new_from_impl(JsonCall { name, call, signature, types: Kept::here() })
}

#[derive(Debug)]
struct JsonCall {
    name: String,
    call: Call,
    signature: Signature,
    /// For threads that compute, which know no types.
    types: Kept,
}

impl PartialEq for JsonCall {
    fn eq(&self, other: &JsonCall) -> bool {
        self.name == other.name
    }
}
impl Eq for JsonCall {}
impl Hash for JsonCall {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

fn external(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

impl JsonCall {
    /// The call over its arguments as columns, with the types that these are read as. Errors: 42883, 22023.
    fn settled(&self, fields: &[FieldRef]) -> SqlResult<(Scalar, Vec<DataType>)> {
        self.call.refuse_odd(fields.len())?;
        let mut types = Vec::with_capacity(fields.len());
        let mut arguments = Vec::with_capacity(fields.len());
        for (n, field) in fields.iter().enumerate() {
            let is_row = composites::has_rows(field.data_type());
            if self.name == sql::json::ROW_TO_JSON && !matches!(field.data_type(), Arrow::Struct(_)) {
                return Err(self.missing(fields));
            }
            let own = if is_row { DataType::Json } else { types::shown_type(field) };
            let wanted = self.call.wanted(n, fields.len()).ok_or_else(|| self.missing(fields))?;
            let column = Scalar::Column(n);
            types.push(own);
            arguments.push(match wanted {
                Wanted::Of(wanted) if wanted != own => {
                    let is_text =
                        |t| matches!(t, DataType::Text | DataType::Varchar { .. } | DataType::Char { .. });
                    // Of literals, and of what has lost its notes.
                    let reads =
                        matches!(field.data_type(), Arrow::Utf8 | Arrow::Null) || wanted == DataType::Json;
                    if !is_text(own) || !(is_text(wanted) || reads) {
                        return Err(self.missing(fields));
                    }
                    (Scalar::Convert(Box::new(column), own, wanted), wanted)
                }
                _ => (column, own),
            });
        }
        Ok((self.call.over(arguments), types))
    }

    fn missing(&self, fields: &[FieldRef]) -> SqlError {
        let shown: Vec<String> =
            fields.iter().map(|f| sql::lower::expr::type_name(types::shown_type(f))).collect();
        SqlError::new(
            SqlState::UNDEFINED_FUNCTION,
            format!("function {}({}) does not exist", self.name, shown.join(", ")),
        )
        .hint("No function matches the given name and argument types. You might need to add explicit type casts.")
    }
}

/// Bytes that a batch of values may have that were made of others, besides twice what those have, which is accounted.
const MADE_BYTES: usize = 64 << 20;

/// How much a batch may still make.
struct Room(usize);

impl Room {
    fn of(columns: &[(Vec<Datum>, bool)]) -> Room {
        let given: usize = columns.iter().flat_map(|(values, _)| values).map(Datum::text_bytes).sum();
        Room(MADE_BYTES + 2 * given)
    }

    /// Errors: a batch makes too much (54000).
    fn take(&mut self, value: &Datum) -> SqlResult<()> {
        self.0 = self.0.checked_sub(value.text_bytes()).ok_or_else(|| {
            SqlError::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                "functions of JSON make too much of their arguments",
            )
            .hint("Take fewer rows at once, or smaller parts of them.")
        })?;
        Ok(())
    }
}

/// The nulls of an array that has nothing else are texts: of them alone nothing tells that the array is of `json`.
fn write_nulls(array: &mut Datum) {
    if let Datum::Array(elements) = &*array
        && elements.iter().all(Datum::is_null)
    {
        let written = vec![Datum::text("null"); elements.len()];
        *array = Datum::Array(written.into());
    }
}

impl ScalarUDFImpl for JsonCall {
    fn name(&self) -> &str {
        &self.name
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        call_name(&self.name, arguments)
    }
    fn return_type(&self, _: &[Arrow]) -> Result<Arrow> {
        Ok(colstore::arrow_type(self.call.returns))
    }
    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        self.types.within(|| self.settled(arguments.arg_fields)).map_err(external)?;
        Ok(Arc::new(types::noted_field(&self.name, self.call.returns)))
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let settled = self.types.within(|| self.settled(&arguments.arg_fields));
        let (scalar, types) = settled.map_err(external)?;
        let is_constant = arguments.args.iter().all(|a| matches!(a, ColumnarValue::Scalar(_)));
        let count = if is_constant { 1 } else { arguments.number_rows };
        let with_types = arguments.args.iter().zip(types).zip(&arguments.arg_fields);
        let columns = with_types.map(|((argument, data_type), field)| {
            // A constant has one value for all rows.
            let (array, is_one) = match argument {
                ColumnarValue::Array(array) => (array.clone(), false),
                ColumnarValue::Scalar(scalar) => (scalar.to_array()?, true),
            };
            let values = match composites::has_rows(array.data_type()) {
                true => self.types.within(|| composites::as_json(&array, field)),
                false => types::datums(array.as_ref(), data_type),
            };
            Ok((values.map_err(external)?, is_one))
        });
        let mut columns = columns.collect::<Result<Vec<(Vec<Datum>, bool)>>>()?;
        if self.name.starts_with("json_meridian_gather")
            && let Some((arrays, _)) = columns.last_mut()
        {
            arrays.iter_mut().for_each(write_nulls);
        }
        let mut room = self.call.is_of_paths().then(|| Room::of(&columns));
        let values = (0..count).map(|row| {
            let value = scalar.eval_with(&|column| {
                let (values, is_one) = &columns[column];
                Ok(values[if *is_one { 0 } else { row }].clone())
            })?;
            if let Some(room) = &mut room {
                sql::interrupt::check()?;
                room.take(&value)?;
            }
            Ok(value)
        });
        let mut values = values.collect::<SqlResult<Vec<Datum>>>().map_err(external)?;
        if self.name == sql::json::LINE && arguments.arg_fields.iter().any(|f| f.data_type().is_nested()) {
            for value in &mut values {
                if let Datum::Text(text) = value {
                    *value = Datum::text(format!("{LINE_BREAK}{text}"));
                }
            }
        }
        let made = colstore::array_of(self.call.returns, &values);
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
            false => ColumnarValue::Array(made),
        })
    }
}

/// What stands for an aggregate or a set of rows in a statement; `None` for any other function. Errors: 0A000.
pub(super) fn replaced(function: &ast::Function) -> SqlResult<Option<ast::Expr>> {
    let Some(name) = sql::names::parts(&function.name).ok().and_then(|mut parts| parts.pop()) else {
        return Ok(None);
    };
    let Some((own, what)) = name.split_once('_').filter(|(own, _)| matches!(*own, "json" | "jsonb")) else {
        return Ok(None);
    };
    let ast::FunctionArguments::List(list) = &function.args else { return Ok(None) };
    if let Some(text) = of_path(what, &list.args) {
        return sql::parse::parse_expr(&text).map(Some);
    }
    let arguments: Vec<String> = list.args.iter().map(ToString::to_string).collect();
    let text = match (what, arguments.as_slice()) {
        ("agg" | "object_agg", _) if function.over.is_some() => {
            return Err(SqlError::unsupported(format!("{name} over a window")));
        }
        ("agg", [value]) => {
            let shown = if own == "json" { sql::json::LINE } else { "to_jsonb" };
            let array = gathered(function, &format!("{shown}({value})"))?;
            format!("{own}_meridian_gather({array})")
        }
        ("object_agg", [key, value]) => {
            let keys = gathered(function, &format!("CAST({key} AS text)"))?;
            let values = gathered(function, &format!("to_{own}({value})"))?;
            format!("{own}_meridian_gather_object({keys}, {values})")
        }
        (what, [_]) => match array_of(what) {
            Some(array) => format!("unnest({own}_{array}({}))", arguments.join(", ")),
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    sql::parse::parse_expr(&text).map(Some)
}

/// A path's text as the type shows it.
pub(super) fn path_of(text: &str) -> SqlResult<ast::Expr> {
    sql::parse::parse_expr(&format!("{}({text})", sql::json::JSONPATH))
}

/// A function of paths with its arguments in their places, and `jsonb_path_query` as the array whose elements are its
/// rows. `None` for other functions, and for what needs no change.
fn of_path(what: &str, arguments: &[ast::FunctionArg]) -> Option<String> {
    if !what.starts_with("path_") {
        return None;
    }
    let is_set = matches!(what, "path_query" | "path_query_tz");
    let is_named = arguments.iter().any(|argument| matches!(argument, ast::FunctionArg::Named { .. }));
    if !is_set && !is_named {
        return None;
    }
    let given = path_arguments(arguments)?.join(", ");
    Some(match is_set {
        true => format!("unnest(jsonb_meridian_path_query({given}))"),
        false => format!("jsonb_{what}({given})"),
    })
}

/// The arguments of a function of paths in their places. `None` if one has a name that there is not.
fn path_arguments(arguments: &[ast::FunctionArg]) -> Option<Vec<String>> {
    let mut places = [None, None, Some("CAST('{}' AS jsonb)".to_string()), Some("false".to_string())];
    let mut count = 2;
    for (n, argument) in arguments.iter().enumerate() {
        let (at, value) = match argument {
            ast::FunctionArg::Named { name, arg, .. } => {
                let name = sql::names::fold(name);
                (["target", "path", "vars", "silent"].iter().position(|known| *known == name)?, arg)
            }
            ast::FunctionArg::Unnamed(value) => (n, value),
            _ => return None,
        };
        *places.get_mut(at)? = Some(value.to_string());
        count = count.max(at + 1);
    }
    places.into_iter().take(count).collect()
}

/// The function whose array a set of rows is.
fn array_of(what: &str) -> Option<&'static str> {
    Some(match what {
        "array_elements" => "meridian_elements",
        "array_elements_text" => "meridian_elements_text",
        "object_keys" => "meridian_keys",
        _ => return None,
    })
}

/// `array_agg` of a value, in the order and of the rows of an aggregate.
fn gathered(function: &ast::Function, value: &str) -> SqlResult<String> {
    let mut call = function.clone();
    call.name = ast::ObjectName::from(vec![ast::Ident::new("array_agg")]);
    if let ast::FunctionArguments::List(list) = &mut call.args {
        let value = sql::parse::parse_expr(value)?;
        list.args = vec![ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(value))];
    }
    Ok(call.to_string())
}

/// A set of rows behind FROM as a query in parentheses with its alias; `None` for any other function.
pub(super) fn in_from(
    name: &str,
    arguments: &[ast::FunctionArg],
    alias: Option<&ast::TableAlias>,
) -> Option<String> {
    let (own, what) = name.split_once('_').filter(|(own, _)| matches!(*own, "json" | "jsonb"))?;
    let shown = alias.map_or_else(|| name.to_string(), |alias| alias.name.to_string());
    let columns = match of_path(what, arguments) {
        Some(set) => format!("{set} AS {shown}"),
        None => parts_in_from(own, what, arguments, &shown)?,
    };
    let named = match alias {
        Some(alias) => alias.to_string(),
        None => format!("AS {shown}"),
    };
    Some(format!("SELECT 1 FROM (SELECT {columns}) {named}"))
}

/// Parts of a value, as columns.
fn parts_in_from(own: &str, what: &str, arguments: &[ast::FunctionArg], shown: &str) -> Option<String> {
    let [value] = arguments else { return None };
    Some(match what {
        "array_elements" => format!("unnest({own}_meridian_elements({value})) AS value"),
        "array_elements_text" => format!("unnest({own}_meridian_elements_text({value})) AS value"),
        "object_keys" => format!("unnest({own}_meridian_keys({value})) AS {shown}"),
        "each" => format!(
            "unnest({own}_meridian_keys({value})) AS key, unnest({own}_meridian_values({value})) AS value"
        ),
        "each_text" => format!(
            "unnest({own}_meridian_keys({value})) AS key, unnest({own}_meridian_values_text({value})) AS value"
        ),
        _ => return None,
    })
}

//! Values of composite types: rows that are cast to one, and attributes of them.

use super::fields::call_name;
use super::types;
use base::composite::CompositeType;
use base::error::{SqlResult, SqlState};
use base::schema::Catalog;
use base::{DataType, Datum, SqlError, TableId};
use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType as Arrow, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast;
use sql::lower::expr::rows;
use sql::user_types::Kept;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Begins the name of the function that makes a value of a composite type; the type's id follows.
const PREFIX: &str = "meridian_row_of_type_";

/// What an expression is rewritten to, if it is.
type Rewriting<'a> = &'a dyn Fn(&ast::Expr) -> SqlResult<Option<ast::Expr>>;

/// A row as it is written that is cast to a composite type: each element is cast to its attribute's type. `None`: it is no
/// such cast. Errors: 42846.
pub(super) fn cast(e: &ast::Expr, rewriting: Rewriting<'_>) -> SqlResult<Option<ast::Expr>> {
    let ast::Expr::Cast { expr, data_type, .. } = e else { return Ok(None) };
    let Some(elements) = rows::elements(expr) else { return Ok(None) };
    match sql::names::data_type(data_type) {
        Ok(DataType::Composite(of)) => made(&elements, of, rewriting).map(Some),
        _ => Ok(None),
    }
}

fn made(elements: &[&ast::Expr], of: CompositeType, rewriting: Rewriting<'_>) -> SqlResult<ast::Expr> {
    rows::check_row(elements.len(), of)?;
    let mut arguments = Vec::with_capacity(elements.len());
    for (e, attribute) in elements.iter().zip(of.attributes()) {
        let argument = match (attribute.data_type, rows::elements(e)) {
            (DataType::Composite(of), Some(inside)) => made(&inside, of, rewriting)?,
            (to, _) => {
                let to = sql::routines::written_type(to);
                let cast = sql::parse::parse_expr(&format!("CAST({e} AS {to})"))?;
                rewriting(&cast)?.unwrap_or(cast)
            }
        };
        arguments.push(argument.to_string());
    }
    sql::parse::parse_expr(&format!("{PREFIX}{}({})", of.id().0, arguments.join(", ")))
}

/// A row of values that are of the attributes' types.
pub(super) fn of_values(of: CompositeType, values: Vec<Expr>) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(maker(of)), values))
}

/// The function of a name, if it is one of these.
pub(super) fn function(catalog: &Catalog, name: &str) -> Option<Arc<ScalarUDF>> {
    if name == sql::parse::ATTRIBUTE {
        let signature = Signature::any(2, Volatility::Immutable);
        return Some(Arc::new(ScalarUDF::new_from_impl(Attribute { signature, types: Kept::here() })));
    }
    let id = name.strip_prefix(PREFIX)?.parse().ok().map(TableId)?;
    catalog.types.composites.get(&id).map(|of| Arc::new(maker(*of)))
}

fn maker(of: CompositeType) -> ScalarUDF {
    let signature = match of.attributes().len() {
        0 => Signature::nullary(Volatility::Immutable),
        count => Signature::any(count, Volatility::Immutable),
    };
    ScalarUDF::new_from_impl(Maker { name: format!("{PREFIX}{}", of.id().0), of, signature })
}

fn external(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Values by columns, each as long as there are rows: one row where all arguments are constants.
fn columns(arguments: &ScalarFunctionArgs) -> Result<(Vec<ArrayRef>, bool)> {
    let is_constant = arguments.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
    let rows = if is_constant { 1 } else { arguments.number_rows };
    let arrays = arguments.args.iter().map(|value| value.to_array(rows)).collect::<Result<Vec<_>>>()?;
    Ok((arrays, is_constant))
}

fn answered(array: &ArrayRef, is_constant: bool) -> Result<ColumnarValue> {
    Ok(match is_constant {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(array, 0)?),
        false => ColumnarValue::Array(array.clone()),
    })
}

/// Makes rows of the values of their attributes.
#[derive(Debug)]
struct Maker {
    name: String,
    of: CompositeType,
    signature: Signature,
}

impl PartialEq for Maker {
    fn eq(&self, other: &Maker) -> bool {
        self.of == other.of
    }
}
impl Eq for Maker {}
impl Hash for Maker {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.of.hash(state);
    }
}

impl ScalarUDFImpl for Maker {
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
        Ok(colstore::arrow_type(DataType::Composite(self.of)))
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (arrays, is_constant) = columns(&arguments)?;
        let row_type = DataType::Composite(self.of);
        let mut rows = vec![Vec::new(); if is_constant { 1 } else { arguments.number_rows }];
        for (array, field) in arrays.iter().zip(&arguments.arg_fields) {
            let values = types::datums(array.as_ref(), types::shown_type(field)).map_err(external)?;
            rows.iter_mut().zip(values).for_each(|(row, value)| row.push(value));
        }
        let rows = rows.into_iter().map(|row| row_type.coerce(Datum::Array(row.into())));
        let rows = rows.collect::<SqlResult<Vec<_>>>().map_err(external)?;
        answered(&colstore::array_of(row_type, &rows), is_constant)
    }
}

/// A row's attribute of a name.
#[derive(Debug)]
struct Attribute {
    signature: Signature,
    /// For threads that compute, which know no types.
    types: Kept,
}

impl PartialEq for Attribute {
    fn eq(&self, other: &Attribute) -> bool {
        self.signature == other.signature
    }
}
impl Eq for Attribute {}
impl Hash for Attribute {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.signature.hash(state);
    }
}

/// Where an attribute is.
enum Place {
    /// Of a composite type: its number and its type.
    Typed(usize, DataType),
    /// A column of a row that has no type of its own.
    Column(usize),
}

/// Errors: 42703 for a name that is none of the row's, 42809 for what is no row.
fn find(row: &Field, name: &str) -> SqlResult<Place> {
    if let DataType::Composite(of) = types::shown_type(row) {
        return rows::find_attribute(of, name).map(|(at, data_type)| Place::Typed(at, data_type));
    }
    let Arrow::Struct(fields) = row.data_type() else {
        let of = types::shown_type(row).name();
        let told = format!("column notation .{name} applied to type {of}, which is not a composite type");
        return Err(SqlError::new(SqlState(*b"42809"), told));
    };
    let found = fields.iter().position(|field| super::rewrite::marks::shown(field.name()) == name);
    found.map(Place::Column).ok_or_else(|| {
        let told = format!("could not identify column \"{name}\" in record data type");
        SqlError::new(SqlState::UNDEFINED_COLUMN, told)
    })
}

fn name_of(name: Option<&ScalarValue>) -> Result<&str> {
    match name {
        Some(ScalarValue::Utf8(Some(name)) | ScalarValue::Utf8View(Some(name))) => Ok(name),
        _ => plan_err!("an attribute has a name"),
    }
}

impl ScalarUDFImpl for Attribute {
    fn name(&self) -> &str {
        sql::parse::ATTRIBUTE
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        call_name(self.name(), arguments)
    }
    fn return_type(&self, _: &[Arrow]) -> Result<Arrow> {
        plan_err!("the type of an attribute follows from its name")
    }
    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let name = name_of(arguments.scalar_arguments[1])?;
        let row = &arguments.arg_fields[0];
        Ok(Arc::new(match self.types.within(|| find(row, name)).map_err(external)? {
            Place::Typed(_, data_type) => types::noted_field(name, data_type),
            Place::Column(at) => match row.data_type() {
                Arrow::Struct(fields) => fields[at].as_ref().clone().with_nullable(true),
                _ => return plan_err!("rows have fields"),
            },
        }))
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (arrays, is_constant) = columns(&arguments)?;
        let name = match &arguments.args[1] {
            ColumnarValue::Scalar(name) => name_of(Some(name))?,
            ColumnarValue::Array(_) => return plan_err!("an attribute has one name"),
        };
        let field = &arguments.arg_fields[0];
        let array = match self.types.within(|| find(field, name)).map_err(external)? {
            Place::Column(at) => arrays[0].as_struct().column(at).clone(),
            Place::Typed(at, data_type) => {
                let rows = types::datums(arrays[0].as_ref(), types::shown_type(field)).map_err(external)?;
                let value = |row: Datum| match row {
                    Datum::Array(values) => values.get(at).cloned().unwrap_or_default(),
                    _ => Datum::Null,
                };
                let values: Vec<Datum> = rows.into_iter().map(value).collect();
                colstore::array_of(data_type, &values)
            }
        };
        answered(&array, is_constant)
    }
}

//! Casts to domains: a cast to the base type, whose values are held against the domain's rules.

use super::context::Context;
use super::rowwise::{Cell, Column};
use base::domain::Domain;
use base::{Datum, SqlError, TableId};
use datafusion::arrow::datatypes::{DataType as Arrow, FieldRef};
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Begins the name of the function that holds values against a domain; the domain's id follows.
const PREFIX: &str = "meridian_in_domain_";

/// What is cast to a domain, and the cast of it to the base type; `None`: it is no such cast.
pub(super) fn cast(e: &ast::Expr) -> Option<(ast::Expr, Arc<Domain>)> {
    let written = match e {
        ast::Expr::Cast { data_type, .. } => data_type,
        ast::Expr::TypedString(typed) => &typed.data_type,
        _ => return None,
    };
    let domain = sql::names::domain(written)?;
    let value = match e {
        ast::Expr::Cast { expr, .. } => expr.to_string(),
        ast::Expr::TypedString(typed) => typed.value.to_string(),
        _ => return None,
    };
    let base = match domain.data_type {
        sql::types::NUMERIC => "numeric".to_string(),
        other => other.name(),
    };
    Some((sql::parse::parse_expr(&format!("CAST({value} AS {base})")).ok()?, domain))
}

/// A value of the base type, held against the domain.
pub(super) fn checked(value: &ast::Expr, domain: &Domain) -> Option<ast::Expr> {
    sql::parse::parse_expr(&format!("{PREFIX}{}({value})", domain.id.0)).ok()
}

/// The function of a name, if it is one of these.
pub(super) fn function(context: &Context<'_>, name: &str) -> Option<Arc<ScalarUDF>> {
    let id = name.strip_prefix(PREFIX)?.parse().ok().map(TableId)?;
    let domain = context.catalog.types.domains.get(&id)?.clone();
    // It may fail, so it is computed neither earlier nor more often than PostgreSQL does.
    let signature = Signature::any(1, Volatility::Volatile);
    Some(Arc::new(ScalarUDF::new_from_impl(InDomain { name: name.into(), signature, domain })))
}

#[derive(Debug)]
struct InDomain {
    name: String,
    signature: Signature,
    domain: Arc<Domain>,
}

impl PartialEq for InDomain {
    fn eq(&self, other: &InDomain) -> bool {
        self.domain == other.domain
    }
}
impl Eq for InDomain {}
impl Hash for InDomain {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for InDomain {
    fn name(&self) -> &str {
        &self.name
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        super::fields::call_name(&self.name, arguments)
    }
    fn return_type(&self, arguments: &[Arrow]) -> Result<Arrow> {
        Ok(arguments[0].clone())
    }
    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(arguments.arg_fields[0].clone())
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let external = |error: SqlError| DataFusionError::External(Box::new(error));
        let value = &arguments.args[0];
        let rows = match value {
            ColumnarValue::Scalar(_) => arguments.number_rows.min(1),
            ColumnarValue::Array(array) => array.len(),
        };
        let column = Column::new(value).map_err(external)?;
        for row in 0..rows {
            let value = match column.at(row) {
                Cell::Plain(value) => value,
                Cell::Span(span) => Datum::Interval(span),
            };
            self.domain.check(&value).map_err(external)?;
        }
        Ok(value.clone())
    }
}

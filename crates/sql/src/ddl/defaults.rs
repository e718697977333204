//! Defaults of columns: what they may be, and the text in which they are kept.

use super::generated::ELSEWHERE;
use super::{DdlContext, kept_texts};
use crate::lower::scope::{ParameterTypes, Scope};
use crate::names;
use base::error::{SqlResult, SqlState};
use base::expr::Expr;
use base::schema::Column;
use base::{DataType, SqlError};
use sqlparser::ast;

/// The text of a default, which must be something the gateway can evaluate to the column's type. A constant that depends
/// on the session's time zone is kept as what it is in it.
pub(super) fn kept_default(context: &DdlContext<'_>, column: &Column, e: &ast::Expr) -> SqlResult<String> {
    let expr = lowered_default(context, column, e)?;
    let elsewhere = crate::zones::within(ELSEWHERE, || lowered_default(context, column, e))?;
    Ok(match (&expr, elsewhere) {
        (Expr::Constant(here), Expr::Constant(there)) if *here != there => {
            let value = base::convert::cast(here.clone(), column.data_type, DataType::Text);
            let shown = base::text::display(&value.unwrap_or_else(|_| here.clone()));
            format!("'{}'", shown.replace('\'', "''"))
        }
        _ => {
            let mut kept = e.clone();
            names::qualify_types(&mut kept);
            crate::routines::kept::qualify(context.lookup(), &mut kept);
            kept_texts::qualify_sequences(context, &mut kept);
            kept.to_string()
        }
    })
}

pub(super) fn lowered_default(context: &DdlContext<'_>, column: &Column, e: &ast::Expr) -> SqlResult<Expr> {
    let mut parameters = ParameterTypes::default();
    let mut lowering = context.lowering(&mut parameters);
    let scope = Scope::default();
    let mut e = e.clone();
    crate::routines::kept::expand_kept(context.lookup(), &mut e)?;
    lowering.exprs(&scope).assignment(&e, &column.name, column.data_type).map_err(|r| {
        let error = r.or(|| SqlError::unsupported(format!("DEFAULT {e}")));
        match error.state {
            SqlState::UNDEFINED_COLUMN => SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "cannot use column reference in DEFAULT expression",
            ),
            _ => error,
        }
    })
}

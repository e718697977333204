//! The session's time zone: what SET TIME ZONE says, and what queries compute for columns, where the zone decides on the
//! value that a column gets.

use analytics::{Context, QueryPlan};
use base::error::SqlResult;
use base::expr::{Expr, Function, ZoneFunction};
use base::zone::Zone;
use base::{DataType, Datum, TableId};
use sql::lower::scope::ParameterTypes;
use sqlparser::ast::{self, Statement};

/// Whether a value that is assigned to a column depends on the zone. Texts are not assigned to moments.
fn depends(from: DataType, to: DataType, zone: Zone) -> bool {
    let is_text = matches!(from, DataType::Text | DataType::Varchar { .. } | DataType::Char { .. });
    !is_text && base::expr::converted_in(&Expr::Column(0), from, to, zone).is_some()
}

/// Plans a query of expressions, which may name hidden columns of the tables in `hidden`. `targets` are numbers of those that are assigned,
/// with their columns' types: where the zone decides, they are cast.
pub(super) fn plan_assigned(
    context: &Context<'_>,
    mut items: Vec<ast::Expr>,
    targets: &[(usize, DataType)],
    query_of: impl Fn(Vec<ast::Expr>) -> SqlResult<Statement>,
    parameters: &mut ParameterTypes,
    hidden: &[TableId],
) -> SqlResult<QueryPlan> {
    let declared = parameters.clone();
    let query = analytics::plan_with(context, &query_of(items.clone())?, parameters, hidden)?;
    let mut has_cast = false;
    for (item, to) in targets {
        if depends(query.columns[*item].data_type, *to, context.zone) {
            items[*item] = sql::parse::parse_expr(&format!("CAST({} AS {})", items[*item], to.name()))?;
            has_cast = true;
        }
    }
    if !has_cast {
        return Ok(query);
    }
    *parameters = declared;
    analytics::plan_with(context, &query_of(items)?, parameters, hidden)
}

/// Casts values of a query's rows whose columns the zone decides on. Errors: those of the cast.
pub(super) fn cast_rows(
    rows: &mut [Vec<Datum>],
    types: impl Iterator<Item = (DataType, DataType)>,
    zone: Zone,
) -> SqlResult<()> {
    for (n, (from, to)) in types.enumerate().filter(|(_, (from, to))| depends(*from, *to, zone)) {
        for value in rows.iter_mut().filter_map(|row| row.get_mut(n)) {
            *value = base::expr::cast_in(std::mem::take(value), from, to, zone)?;
        }
    }
    Ok(())
}

/// What SET TIME ZONE says; `None` for DEFAULT and LOCAL. Errors: 22023 for an interval that is no zone.
pub(super) fn zone_text(value: &ast::Expr) -> SqlResult<Option<String>> {
    match value {
        ast::Expr::Identifier(word)
            if word.quote_style.is_none()
                && ["default", "local"].iter().any(|w| word.value.eq_ignore_ascii_case(w)) =>
        {
            Ok(None)
        }
        ast::Expr::Interval(interval) => {
            let text = sql::ddl::setting_text("TimeZone", std::slice::from_ref(&interval.value));
            let span = base::text::parse(&text, DataType::Interval)?;
            let zone =
                Expr::Call(Function::Zone(ZoneFunction::OfInterval), vec![Expr::Constant(span)]).eval(&[])?;
            Ok(Some(base::text::display(&zone)))
        }
        value => Ok(Some(sql::ddl::setting_text("TimeZone", std::slice::from_ref(value)))),
    }
}

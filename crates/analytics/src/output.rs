//! What the text of a statement says of its output columns: their names, and modifiers of types that are written.

use datafusion::sql::sqlparser::ast::{self, Expr, SelectItem, SetExpr, Statement};
use sql::lower::output_name;
use sql::names;
use sql::types::{NUMERIC, type_modifier, type_oid};

/// PostgreSQL's names for the output columns, where they follow from the text.
pub(super) fn shown_names(statement: &Statement, count: usize) -> Vec<Option<String>> {
    let Statement::Query(query) = statement else { return Vec::new() };
    let mut body = query.body.as_ref();
    let select = loop {
        match body {
            SetExpr::Select(select) => break select,
            SetExpr::Query(inner) => body = inner.body.as_ref(),
            SetExpr::SetOperation { left, .. } => body = left,
            _ => return Vec::new(),
        }
    };
    of_items(&select.projection, count, &|item| match item {
        SelectItem::UnnamedExpr(e) => Some(output_name(e)),
        SelectItem::ExprWithAlias { alias, .. } => Some(names::fold(alias)),
        _ => None,
    })
}

/// Object ids and modifiers of the types that output columns are cast to.
pub(super) fn modifiers(statement: &Statement, count: usize) -> Vec<Option<(u32, i32)>> {
    let Statement::Query(query) = statement else { return Vec::new() };
    let SetExpr::Select(select) = query.body.as_ref() else { return Vec::new() };
    of_items(&select.projection, count, &|item| match item {
        SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. } => modifier(e),
        _ => None,
    })
}

fn modifier(e: &Expr) -> Option<(u32, i32)> {
    let written = match e {
        Expr::Nested(inner) => return modifier(inner),
        Expr::Cast { data_type, .. } => data_type,
        Expr::TypedString(typed) => &typed.data_type,
        _ => return None,
    };
    let digits = match written {
        ast::DataType::Timestamp(digits, _) | ast::DataType::Time(digits, _) => *digits,
        // The upper half says which fields there are: all of them.
        ast::DataType::Interval { fields: None, precision } => {
            precision.map(|digits| 0x7fff_0000 | digits.min(6))
        }
        written => {
            let data_type = names::data_type(written).ok().filter(|t| *t != NUMERIC)?;
            let modifier = type_modifier(data_type);
            return (modifier != -1).then(|| (type_oid(data_type), modifier));
        }
    };
    let whole = match written {
        ast::DataType::Timestamp(_, zone) => ast::DataType::Timestamp(None, *zone),
        ast::DataType::Time(_, zone) => ast::DataType::Time(None, *zone),
        _ => ast::DataType::Interval { fields: None, precision: None },
    };
    let oid = type_oid(names::data_type(&whole).ok()?);
    digits.map(|digits| (oid, digits as i32))
}

/// Something of each column that an item of the list stands for. Columns of `*` have nothing; there are as many as are left.
fn of_items<T: Clone>(
    items: &[SelectItem],
    count: usize,
    of: &dyn Fn(&SelectItem) -> Option<T>,
) -> Vec<Option<T>> {
    let is_wild =
        |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
    let Some(first) = items.iter().position(is_wild) else {
        return if items.len() == count { items.iter().map(of).collect() } else { Vec::new() };
    };
    let behind = items.iter().rev().take_while(|item| !is_wild(item)).count();
    let Some(of_all) = count.checked_sub(first + behind) else { return Vec::new() };
    let before = items[..first].iter().map(of);
    let after = items[items.len() - behind..].iter().map(of);
    before.chain(std::iter::repeat_n(None, of_all)).chain(after).collect()
}

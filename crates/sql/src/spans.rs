//! Parameters of types that Meridian has none of its own for: intervals, times of day, object ids.
//!
//! They are announced as what they are and travel in that form; in here intervals and times are text, which a cast
//! turns into what the query computes with, and object ids are integers. KEEPS: what the client declared is what it is told.

use crate::types::{INTERVAL_OID, OBJECT_ID_OID, ParameterType, TIME_OID};
use sqlparser::ast::{self, Expr, Statement, Value};
use sqlparser::ast::{visit_expressions, visit_expressions_mut};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Object ids to announce for parameters (from 0): of those that were declared so, and of those that the
/// statement casts.
pub fn announced(statement: &Statement, hints: &[Option<ParameterType>]) -> BTreeMap<usize, u32> {
    let declared = hints.iter().enumerate();
    let mut announced: BTreeMap<usize, u32> =
        declared.filter_map(|(n, hint)| hint.and_then(|h| h.announced).map(|oid| (n, oid))).collect();
    let _: ControlFlow<()> = visit_expressions(statement, |e| {
        if let Expr::Cast { expr, data_type, .. } = e
            && let (Some(n), Some(oid)) = (placeholder(expr), oid(data_type))
            && !hints.get(n).is_some_and(|hint| hint.is_some())
        {
            announced.insert(n, oid);
        }
        ControlFlow::Continue(())
    });
    announced
}

/// Casts parameters that were declared as intervals or times wherever they stand.
pub fn cast_declared(statement: &mut Statement, hints: &[Option<ParameterType>]) {
    let name = |oid: u32| match oid {
        INTERVAL_OID => Some("interval"),
        TIME_OID => Some("time"),
        _ => None,
    };
    let declared = |n: usize| hints.get(n).copied().flatten().and_then(|hint| hint.announced).and_then(name);
    if !(0..hints.len()).any(|n| declared(n).is_some()) {
        return;
    }
    let _: ControlFlow<()> = visit_expressions_mut(statement, |e| {
        // Inner expressions come first: what is cast twice is cast once more than needed.
        if let Some(name) = placeholder(e).and_then(declared)
            && let Ok(cast) = crate::parse::parse_expr(&format!("CAST({e} AS {name})"))
        {
            *e = Expr::Nested(Box::new(cast));
        }
        ControlFlow::Continue(())
    });
}

fn placeholder(e: &Expr) -> Option<usize> {
    match e {
        Expr::Value(value) => match &value.value {
            Value::Placeholder(name) => name.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1),
            _ => None,
        },
        Expr::Nested(e) => placeholder(e),
        _ => None,
    }
}

fn oid(data_type: &ast::DataType) -> Option<u32> {
    match data_type {
        // Of an array, what its elements are.
        ast::DataType::Custom(..) | ast::DataType::Array(_) => {
            let name = data_type.to_string().to_ascii_lowercase();
            matches!(name.as_str(), "oid" | "oid[]").then_some(OBJECT_ID_OID)
        }
        ast::DataType::Interval { .. } => Some(INTERVAL_OID),
        ast::DataType::Time(_, ast::TimezoneInfo::None | ast::TimezoneInfo::WithoutTimeZone) => {
            Some(TIME_OID)
        }
        _ => None,
    }
}

//! Parameters of a type that Meridian has none of its own for: object ids, which are integers in here.
//!
//! KEEPS: what the client declared is what it is told.

use crate::types::{OBJECT_ID_OID, ParameterType};
use sqlparser::ast::visit_expressions;
use sqlparser::ast::{self, Expr, Statement, Value};
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
        _ => None,
    }
}

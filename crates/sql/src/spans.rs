//! Parameters of a type that Meridian has none of its own for: object ids, which are integers in here.
//!
//! KEEPS: what the client declared is what it is told.

use crate::types::{CHAR_OID, OBJECT_ID_OID, ParameterType};
use crate::walk;
use sqlparser::ast::{self, Expr, Statement, Value};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Columns of the catalog that are object ids, of which drivers ask by parameters.
const OBJECT_IDS: [&str; 2] = ["oid", "enumtypid"];

/// Object ids to announce for parameters (from 0): of those that were declared so, of those that the statement casts, and
/// of those that it compares with object ids of the catalog.
pub fn announced(statement: &Statement, hints: &[Option<ParameterType>]) -> BTreeMap<usize, u32> {
    let declared = hints.iter().enumerate();
    let mut announced: BTreeMap<usize, u32> =
        declared.filter_map(|(n, hint)| hint.and_then(|h| h.announced).map(|oid| (n, oid))).collect();
    let reads_types = walk::relations(statement, |name| match name.to_string().contains("pg_") {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    let reads_types = reads_types.is_break();
    let _: ControlFlow<()> = walk::expressions(statement, |e| {
        if let Expr::BinaryOp { left, op: ast::BinaryOperator::Eq, right } = e
            && reads_types
            && is_object_id(left)
            && let Some(n) = placeholder(right)
            && !hints.get(n).is_some_and(|hint| hint.is_some())
        {
            announced.insert(n, OBJECT_ID_OID);
        }
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

fn is_object_id(e: &Expr) -> bool {
    let column = match e {
        Expr::Identifier(name) => name,
        Expr::CompoundIdentifier(names) => match names.last() {
            Some(name) => name,
            None => return false,
        },
        _ => return false,
    };
    OBJECT_IDS.contains(&crate::names::fold(column).as_str())
}

/// The type that PostgreSQL announces for a column of `pg_type` and `pg_range`, where Meridian's is another.
pub fn announced_column(name: &str) -> Option<u32> {
    match name {
        "typelem" | "typbasetype" | "typrelid" | "rngsubtype" => Some(OBJECT_ID_OID),
        "typtype" => Some(CHAR_OID),
        _ => None,
    }
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

//! Attributes of rows: `(c).a`.
//!
//! A name behind a row is no column's. So it stands as a text in a call of a function, where nothing looks for columns.

use super::dialect::call;
use crate::names;
use crate::walk::{self, NodeMut};
use sqlparser::ast::{
    AccessExpr, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Value,
};
use std::borrow::Cow;
use std::ops::ControlFlow;

/// The function of a row and an attribute's name.
pub const ATTRIBUTE: &str = "meridian_attribute";

/// Whether a text may have such an attribute: a parenthesis, and a point behind it.
fn may_have_some(sql: &str) -> bool {
    sql.split(')').skip(1).any(|rest| rest.trim_start().starts_with('.'))
}

/// Whether a text asks for all attributes of a row: `(c).*`.
pub(super) fn asks_for_all(sql: &str) -> bool {
    let behind =
        |rest: &str| rest.trim_start().strip_prefix('.').map(|rest| rest.trim_start().starts_with('*'));
    sql.split(')').skip(1).any(|rest| behind(rest) == Some(true))
}

/// Attributes become calls.
pub(super) fn as_calls<N: NodeMut + ?Sized>(sql: &str, node: &mut N) {
    if !may_have_some(sql) {
        return;
    }
    let _: ControlFlow<()> = walk::expressions_mut(node, |e| {
        if let Expr::CompoundFieldAccess { root, access_chain } = e
            && matches!(root.as_ref(), Expr::Nested(_))
        {
            let count = access_chain.iter().take_while(|access| name_of(access).is_some()).count();
            let accesses: Vec<AccessExpr> = access_chain.drain(..count).collect();
            for name in accesses.iter().filter_map(name_of) {
                let row = root.as_ref().clone();
                **root = attribute(row, &names::fold(name));
            }
            if access_chain.is_empty() {
                *e = root.as_ref().clone();
            }
        }
        ControlFlow::Continue(())
    });
}

fn name_of(access: &AccessExpr) -> Option<&Ident> {
    match access {
        AccessExpr::Dot(Expr::Identifier(name)) => Some(name),
        _ => None,
    }
}

/// An attribute of a row, as a call.
pub(crate) fn attribute(row: Expr, name: &str) -> Expr {
    let name = Expr::value(Value::SingleQuotedString(name.into()));
    call(ATTRIBUTE, [row, name].into_iter())
}

/// Row and name of an attribute; `None` for any other call.
pub fn attribute_of(function: &Function) -> Option<(&Expr, &str)> {
    let FunctionArguments::List(list) = &function.args else { return None };
    match list.args.as_slice() {
        [
            FunctionArg::Unnamed(FunctionArgExpr::Expr(row)),
            FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(name))),
        ] if function.name.to_string() == ATTRIBUTE => match &name.value {
            Value::SingleQuotedString(name) => Some((row, name)),
            _ => None,
        },
        _ => None,
    }
}

/// The text of an expression or a query that is kept, with attributes as they are written.
pub fn with_attributes(sql: &str) -> Cow<'_, str> {
    if !sql.contains(ATTRIBUTE) {
        return Cow::Borrowed(sql);
    }
    // An expression is no statement, but what begins as a statement may be taken for an expression.
    if let Ok([statement]) = super::parse(sql).as_deref_mut() {
        as_written(statement);
        return Cow::Owned(statement.to_string());
    }
    match super::parse_expr(sql) {
        Ok(mut e) => {
            as_written(&mut e);
            Cow::Owned(e.to_string())
        }
        Err(_) => Cow::Borrowed(sql),
    }
}

fn as_written<N: NodeMut + ?Sized>(node: &mut N) {
    let _: ControlFlow<()> = walk::expressions_mut(node, |e| {
        if let Expr::Function(function) = e
            && let Some((row, name)) = attribute_of(function)
        {
            let root = match row {
                Expr::Nested(_) => row.clone(),
                other => Expr::Nested(Box::new(other.clone())),
            };
            let name = Expr::Identifier(names::quoted(name));
            *e =
                Expr::CompoundFieldAccess { root: Box::new(root), access_chain: vec![AccessExpr::Dot(name)] };
        }
        ControlFlow::Continue(())
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_is_a_call_with_its_name() {
        for (text, made) in [
            ("(c).a", "meridian_attribute((c), 'a')"),
            ("(t.c).A = 1", "meridian_attribute((t.c), 'a') = 1"),
            ("(c).\"A\".b", "meridian_attribute(meridian_attribute((c), 'A'), 'b')"),
            ("((c).a).b", "meridian_attribute((meridian_attribute((c), 'a')), 'b')"),
            ("(a) + t.b", "(a) + t.b"),
        ] {
            let mut e = crate::parse::parse_expr(text).unwrap();
            assert_eq!(e.to_string(), made);
            let written = with_attributes(made);
            assert!(!written.contains(ATTRIBUTE), "{written}");
            e = crate::parse::parse_expr(&written).unwrap();
            let bare = |text: &str| text.replace(['(', ')'], "");
            assert_eq!(bare(&e.to_string()), bare(made));
        }
    }
}

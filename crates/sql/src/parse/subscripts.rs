//! Subscripts of columns that are named with their table: `t.a[1]`.
//!
//! The parser takes `t` for a value and `a` for a field of it, so that both would be looked up as columns. Here they become
//! one name, whose value has the subscript.

use crate::walk::{self, NodeMut};
use sqlparser::ast::{AccessExpr, Expr, Ident};
use std::ops::ControlFlow;

/// What the parser makes of subscripts and attributes in a text becomes what they mean.
pub(super) fn settle<N: NodeMut + ?Sized>(sql: &str, node: &mut N) {
    if sql.contains('[') {
        with_whole_names(node);
    }
    super::attributes::as_calls(sql, node);
}

/// Puts such names together.
fn with_whole_names<N: NodeMut + ?Sized>(node: &mut N) {
    let _: ControlFlow<()> = walk::expressions_mut(node, |e| {
        if let Expr::CompoundFieldAccess { root, access_chain } = e
            && let Expr::Identifier(first) = root.as_ref()
        {
            let more = access_chain.iter().map_while(|access| match access {
                AccessExpr::Dot(Expr::Identifier(name)) => Some(name.clone()),
                _ => None,
            });
            let names: Vec<Ident> = std::iter::once(first.clone()).chain(more).collect();
            let count = names.len() - 1;
            if count > 0 && count < access_chain.len() {
                access_chain.drain(..count);
                **root = Expr::CompoundIdentifier(names);
            }
        }
        ControlFlow::Continue(())
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_subscript_is_one_name() {
        for (text, names) in [("t.a[1]", 2), ("s.t.a[1:2][3]", 3)] {
            let Expr::CompoundFieldAccess { root, access_chain } = crate::parse::parse_expr(text).unwrap()
            else {
                panic!("{text}")
            };
            assert!(matches!(*root, Expr::CompoundIdentifier(found) if found.len() == names));
            assert!(access_chain.iter().all(|access| matches!(access, AccessExpr::Subscript(_))));
        }
        let Expr::CompoundFieldAccess { root, .. } = crate::parse::parse_expr("a[1]").unwrap() else {
            panic!("a subscript")
        };
        assert!(matches!(*root, Expr::Identifier(_)));
    }
}

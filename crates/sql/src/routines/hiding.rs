//! What names in the arguments of a call mean stays what it is where the call stands: tables of the body get other names where
//! they would hide it.

use super::places::own;
use super::scopes::Scopes;
use crate::names;
use crate::names::quoted;
use crate::walk::{Node, NodeMut, Walk, WalkMut};
use sqlparser::ast::{
    self, Expr, Ident, Query, SelectItem, SelectItemQualifiedWildcardKind as Wildcard, TableFactor, Visitor,
    VisitorMut,
};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Whether a subquery of an expression names columns without their tables: within a body they could be another table's.
pub(super) fn names_within(e: &Expr) -> bool {
    struct Names {
        depth: usize,
    }
    impl Visitor for Names {
        type Break = ();
        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.depth += 1;
            ControlFlow::Continue(())
        }
        fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.depth -= 1;
            ControlFlow::Continue(())
        }
        fn pre_visit_expr(&mut self, e: &Expr) -> ControlFlow<()> {
            match e {
                Expr::Identifier(_) if self.depth > 0 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    e.walk(&mut Names { depth: 0 }).is_break()
}

/// Whether something reads tables.
pub(super) fn reads_tables(node: &(impl Node + ?Sized)) -> bool {
    !qualifiers(node).is_empty()
}

/// Gives the tables of a body other names that are called as something that arguments name.
pub(super) fn rename(node: &mut (impl NodeMut + Node + ?Sized), named: &BTreeSet<String>) {
    let hiding: BTreeSet<String> = qualifiers(node).intersection(named).cloned().collect();
    if !hiding.is_empty() {
        let _ = node.walk_mut(&mut Rename(&hiding));
    }
}

/// Gives the common table expressions of a body names that no other has.
pub(super) fn rename_lists(query: &mut Query, number: usize) {
    struct Lists {
        number: usize,
        named: BTreeSet<String>,
    }
    impl VisitorMut for Lists {
        type Break = ();
        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            let lists = query.with.iter_mut().flat_map(|with| &mut with.cte_tables);
            for list in lists {
                let name = names::fold(&list.alias.name);
                list.alias.name = own(&format!("{name} {}", self.number));
                self.named.insert(name);
            }
            ControlFlow::Continue(())
        }
        // Other tables have their schemas before them.
        fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
            if let TableFactor::Table { name, alias, args: None, .. } = factor
                && let [part] = name.0.as_slice()
                && let Some(ident) = part.as_ident().cloned()
                && self.named.contains(&names::fold(&ident))
            {
                let renamed = own(&format!("{} {}", names::fold(&ident), self.number));
                alias.get_or_insert_with(|| ast::TableAlias {
                    explicit: true,
                    name: ident,
                    columns: Vec::new(),
                    at: None,
                });
                *name = ast::ObjectName::from(vec![renamed]);
            }
            ControlFlow::Continue(())
        }
    }
    let _ = query.walk_mut(&mut Lists { number, named: BTreeSet::new() });
}

/// What tables are called in a tree.
fn qualifiers(node: &(impl Node + ?Sized)) -> BTreeSet<String> {
    struct Called(BTreeSet<String>);
    impl Visitor for Called {
        type Break = ();
        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            self.0.extend(called(factor));
            ControlFlow::Continue(())
        }
    }
    let mut found = Called(BTreeSet::new());
    let _ = node.walk(&mut found);
    found.0
}

fn called(factor: &TableFactor) -> Option<String> {
    let (name, alias) = match factor {
        TableFactor::Table { name, alias, .. } | TableFactor::Function { name, alias, .. } => {
            (Some(name), alias)
        }
        TableFactor::Derived { alias, .. }
        | TableFactor::NestedJoin { alias, .. }
        | TableFactor::UNNEST { alias, .. } => (None, alias),
        _ => return None,
    };
    match alias {
        Some(alias) => Some(names::fold(&alias.name)),
        None => name.and_then(|name| name.0.last()?.as_ident().map(names::fold)),
    }
}

/// Gives tables other names.
struct Rename<'a>(&'a BTreeSet<String>);

impl Rename<'_> {
    fn renamed(&self, of: &Ident) -> Option<Ident> {
        let name = names::fold(of);
        self.0.contains(&name).then(|| own(&name))
    }
}

impl VisitorMut for Rename<'_> {
    type Break = ();

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let Some(name) = called(factor).filter(|name| self.0.contains(name)) else {
            return ControlFlow::Continue(());
        };
        let (TableFactor::Table { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::NestedJoin { alias, .. }
        | TableFactor::UNNEST { alias, .. }) = factor
        else {
            return ControlFlow::Continue(());
        };
        match alias {
            Some(alias) => alias.name = own(&name),
            None => {
                *alias =
                    Some(ast::TableAlias { explicit: true, name: own(&name), columns: Vec::new(), at: None });
            }
        }
        ControlFlow::Continue(())
    }
    fn post_visit_expr(&mut self, e: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(path) = e
            && let [.., of, name] = path.as_slice()
            && let Some(of) = self.renamed(of)
        {
            *path = vec![of, name.clone()];
        }
        ControlFlow::Continue(())
    }
    fn pre_visit_select(&mut self, select: &mut ast::Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::QualifiedWildcard(Wildcard::ObjectName(name), _) = item
                && let Some(of) =
                    name.0.last().and_then(|part| part.as_ident()).and_then(|of| self.renamed(of))
            {
                *name = ast::ObjectName::from(vec![of]);
            }
        }
        ControlFlow::Continue(())
    }
}

/// An argument whose columns say what they are columns of.
pub(super) fn qualified(mut e: Expr, scopes: &Scopes) -> Expr {
    struct Outermost<'a> {
        scopes: &'a Scopes,
        depth: usize,
    }
    impl VisitorMut for Outermost<'_> {
        type Break = ();
        fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
            self.depth += 1;
            ControlFlow::Continue(())
        }
        fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
            self.depth -= 1;
            ControlFlow::Continue(())
        }
        fn post_visit_expr(&mut self, e: &mut Expr) -> ControlFlow<()> {
            if let Expr::Identifier(name) = &*e
                && self.depth == 0
                && let Some(of) = self.scopes.qualifier_of(&names::fold(name))
            {
                *e = Expr::CompoundIdentifier(vec![quoted(&of), name.clone()]);
            }
            ControlFlow::Continue(())
        }
    }
    let _ = e.walk_mut(&mut Outermost { scopes, depth: 0 });
    e
}

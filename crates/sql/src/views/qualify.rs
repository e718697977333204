//! Puts schemas before the names of tables and views.

use super::{Ctes, find, quoted};
use crate::names;
use crate::privileges::Check;
use crate::walk::WalkMut;
use base::TableId;
use base::schema::Table;
use sqlparser::ast::{Expr, ObjectName, ObjectNamePart, Query, TableFactor, VisitorMut};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Puts its schema before every table and view of a query; answers which these are, with the columns that it may name.
pub fn qualify(check: &Check<'_>, query: &mut Query) -> BTreeMap<TableId, Vec<usize>> {
    let mut walk = Qualify { check, scopes: Vec::new(), read: Vec::new(), named: Vec::new() };
    let _ = query.walk_mut(&mut walk);
    let mut uses: BTreeMap<TableId, Vec<usize>> = BTreeMap::new();
    for (alias, shape) in &walk.read {
        let columns = uses.entry(shape.id).or_default();
        for (of, name) in &walk.named {
            if of.as_ref().is_none_or(|of| of == alias) {
                columns.extend(shape.column_named(name));
            }
        }
        columns.sort_unstable();
        columns.dedup();
    }
    uses
}

struct Qualify<'a> {
    check: &'a Check<'a>,
    scopes: Vec<Ctes>,
    read: Vec<(String, &'a Table)>,
    /// Names of columns, with what stands before the point.
    named: Vec<(Option<String>, String)>,
}

impl VisitorMut for Qualify<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        Ctes::enter(&mut self.scopes, query);
        ControlFlow::Continue(())
    }
    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        Ctes::leave(&mut self.scopes);
        ControlFlow::Continue(())
    }
    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, alias, args: None, .. } = factor
            && !Ctes::hide(&self.scopes, name)
            && let Some(relation) = find(self.check, name)
        {
            let shape = relation.shape();
            let called = alias.as_ref().map_or_else(|| shape.name.clone(), |alias| names::fold(&alias.name));
            self.read.push((called, shape));
            let parts = [&shape.schema, &shape.name];
            *name = ObjectName(parts.map(|part| ObjectNamePart::Identifier(quoted(part))).to_vec());
        }
        ControlFlow::Continue(())
    }
    fn post_visit_expr(&mut self, e: &mut Expr) -> ControlFlow<()> {
        match e {
            Expr::Identifier(name) => self.named.push((None, names::fold(name))),
            Expr::CompoundIdentifier(parts) => {
                if let [.., of, name] = parts.as_slice() {
                    self.named.push((Some(names::fold(of)), names::fold(name)));
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

//! Relations whose names are those of columns too.
//!
//! `v.id` in a subquery over a table with a column `v` is the column `id` of the relation `v` around it. The planner takes
//! it for a part of the column. KEEPS: every name means the relation that it meant; the new names are no columns'.

use super::marks::MARK;
use base::{SqlError, SqlState};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, ObjectNamePart, Select, SelectItem, SelectItemQualifiedWildcardKind, Statement,
    TableAlias, TableFactor, VisitorMut,
};
use sql::walk::WalkMut;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::ops::ControlFlow;

/// The statement, in which relations have names that no column has. All of a name are renamed alike, so that they hide
/// one another as before.
pub(in super::super) fn told_from_columns(statement: &Statement) -> Statement {
    let mut statement = statement.clone();
    let mut relations = Relations::default();
    let ControlFlow::Continue(()) = statement.walk_mut(&mut relations);
    let names = &relations.named - &relations.fixed;
    let ControlFlow::Continue(()) = statement.walk_mut(&mut Renaming { names });
    statement
}

/// What is wrong with a name whose qualifier is no relation of the statement: 42P01, if there is one.
pub(in super::super) fn missing_relation(statement: &Statement) -> Option<SqlError> {
    let mut statement = statement.clone();
    let mut relations = Relations::default();
    let ControlFlow::Continue(()) = statement.walk_mut(&mut relations);
    let known = |name: &String| relations.named.contains(name) || relations.fixed.contains(name);
    let missing = relations.qualifiers.iter().find(|name| !known(name))?;
    let told = format!("missing FROM-clause entry for table \"{missing}\"");
    Some(SqlError::new(SqlState::UNDEFINED_TABLE, told))
}

fn alias_of(factor: &mut TableFactor) -> Option<&mut Option<TableAlias>> {
    match factor {
        TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::UNNEST { alias, .. }
        | TableFactor::NestedJoin { alias, .. } => Some(alias),
        _ => None,
    }
}

/// Names of relations: those that can be renamed, and those of functions, which have no alias; and what columns are
/// qualified with.
#[derive(Default)]
struct Relations {
    named: BTreeSet<String>,
    fixed: BTreeSet<String>,
    qualifiers: BTreeSet<String>,
}

impl VisitorMut for Relations {
    type Break = Infallible;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Infallible> {
        if let Some(Some(alias)) = alias_of(factor) {
            self.named.insert(sql::names::fold(&alias.name));
        } else if let TableFactor::Table { name, args, .. } = factor
            && let Some(last) = last_part(name)
        {
            let names = if args.is_none() { &mut self.named } else { &mut self.fixed };
            names.insert(last);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, e: &mut Expr) -> ControlFlow<Infallible> {
        if let Expr::CompoundIdentifier(path) = e
            && let [.., qualifier, _] = path.as_slice()
        {
            self.qualifiers.insert(sql::names::fold(qualifier));
        }
        ControlFlow::Continue(())
    }
}

fn last_part(name: &ObjectName) -> Option<String> {
    name.0.last().and_then(ObjectNamePart::as_ident).map(sql::names::fold)
}

struct Renaming {
    names: BTreeSet<String>,
}

impl Renaming {
    fn renamed(&self, name: &str) -> Option<Ident> {
        self.names.contains(name).then(|| Ident::with_quote('"', format!("{name}{MARK}")))
    }
}

impl VisitorMut for Renaming {
    type Break = Infallible;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Infallible> {
        let unaliased = match &*factor {
            TableFactor::Table { name, alias: None, args: None, .. } => last_part(name),
            _ => None,
        };
        let Some(alias) = alias_of(factor) else { return ControlFlow::Continue(()) };
        match (alias.as_mut(), unaliased.and_then(|name| self.renamed(&name))) {
            (Some(alias), _) => {
                if let Some(name) = self.renamed(&sql::names::fold(&alias.name)) {
                    alias.name = name;
                }
            }
            (None, Some(name)) => {
                *alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
            }
            (None, None) => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Infallible> {
        for item in &mut select.projection {
            if let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item
                && let Some(renamed) = last_part(name).and_then(|name| self.renamed(&name))
            {
                name.0 = vec![ObjectNamePart::Identifier(renamed)];
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, e: &mut Expr) -> ControlFlow<Infallible> {
        if let Expr::CompoundIdentifier(path) = e
            && let [.., qualifier, column] = path.as_slice()
            && let Some(renamed) = self.renamed(&sql::names::fold(qualifier))
        {
            *path = vec![renamed, column.clone()];
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_a_name_are_renamed_alike() {
        for (written, wanted) in [
            (
                "SELECT v.id, v.* FROM t v, LATERAL (SELECT y.v FROM y WHERE y.id = v.id) AS x",
                "SELECT \"v!\".id, \"v!\".* FROM t \"v!\", LATERAL (SELECT \"y!\".v FROM y AS \"y!\" WHERE \
                 \"y!\".id = \"v!\".id) AS \"x!\"",
            ),
            (
                "SELECT public.t.a, f.b FROM public.t, f(1)",
                "SELECT \"t!\".a, f.b FROM public.t AS \"t!\", f(1)",
            ),
        ] {
            let statement = sql::parse::parse(written).unwrap().remove(0);
            let made = told_from_columns(&statement).to_string().replace(MARK, "!");
            assert_eq!(made, wanted);
        }
    }
}

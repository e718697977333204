//! Functions about partitions that stand for tables, as tables that are made for them.
//!
//! `pg_partition_tree('t')` becomes the rows of a made table that are about `t`. One whose argument is a column of a table
//! beside it becomes the made table under a condition.

use super::vectors::{from, restrict};
use datafusion::sql::sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, Ident, Select, SelectItem, SetExpr, Statement, TableFactor,
    VisitorMut,
};
use sql::walk::{self, WalkMut};
use std::ops::ControlFlow;

/// Functions with their made tables and the columns of those that they show.
const FUNCTIONS: &[(&str, &str, &[&str])] = &[
    ("pg_partition_tree", "meridian_partition_tree", &["relid", "parentrelid", "isleaf", "level"]),
    (ANCESTORS, "meridian_partition_ancestors", &["relid"]),
];
const ANCESTORS: &str = "pg_partition_ancestors";

/// A call of one of them among tables.
struct Call {
    table: &'static str,
    columns: &'static [&'static str],
    /// The relation that it is about.
    of: Expr,
    /// Its alias, or else its own name.
    name: Ident,
    /// Names that the alias gives to the columns.
    renamed: Vec<String>,
}

impl Call {
    fn of(factor: &TableFactor) -> Option<Call> {
        let (name, arguments, alias) = match factor {
            TableFactor::Table { name, args: Some(args), alias, .. } => (name, args.args.as_slice(), alias),
            TableFactor::Function { name, args, alias, .. } => (name, args.as_slice(), alias),
            _ => return None,
        };
        let function = sql::names::parts(name).ok()?.pop()?;
        let &(_, table, columns) = FUNCTIONS.iter().find(|(known, ..)| *known == function)?;
        let [FunctionArg::Unnamed(FunctionArgExpr::Expr(of))] = arguments else { return None };
        let name = alias.as_ref().map_or_else(|| Ident::new(function), |alias| alias.name.clone());
        let renamed = alias.iter().flat_map(|alias| alias.columns.iter()).map(|c| c.name.to_string());
        Some(Call { table, columns, of: as_relation(of)?, name, renamed: renamed.collect() })
    }

    /// The table that stands for it, and the condition that joins that to the others.
    fn replaced(&self) -> Option<(TableFactor, Option<Expr>)> {
        let Call { table, name, of, .. } = self;
        if names_columns(of) {
            let condition = parse(&format!("{name}.meridian_of = {of}"));
            return Some((from(&format!("pg_catalog.{table} AS {name}"))?.relation, condition));
        }
        let shown: Vec<String> =
            self.columns.iter().enumerate().map(|(n, column)| self.shown(n, column)).collect();
        let rows = format!(
            "(SELECT {} FROM pg_catalog.{table} WHERE meridian_of = {of}) AS {name}",
            shown.join(", ")
        );
        Some((from(&rows)?.relation, None))
    }

    fn shown(&self, nth: usize, column: &str) -> String {
        self.renamed.get(nth).map_or_else(|| column.to_string(), |name| format!("{column} AS {name}"))
    }
}

/// An argument as an object id: a text is a name, or a number as text.
fn as_relation(e: &Expr) -> Option<Expr> {
    let Expr::Value(value) = e else { return Some(e.clone()) };
    match &value.value {
        ast::Value::SingleQuotedString(_) => parse(&format!("meridian_regclass({e})")),
        ast::Value::Placeholder(place) => parse(&format!("meridian_regclass(CAST({place} AS text))")),
        _ => Some(e.clone()),
    }
}

fn names_columns(e: &Expr) -> bool {
    let is_column = |e: &Expr| match e {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    walk::expressions(e, is_column).is_break()
}

fn parse(text: &str) -> Option<Expr> {
    sql::parse::parse_expr(text).ok()
}

/// Replaces calls throughout a statement.
pub(super) fn expand(statement: &mut Statement) {
    if let Statement::Query(query) = &mut *statement
        && let SetExpr::Select(select) = query.body.as_mut()
    {
        call_from_list(select);
        show_names(select);
    }
    let _ = statement.walk_mut(&mut Expanding);
}

struct Expanding;

impl VisitorMut for Expanding {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        call_from_list(select);
        let mut conditions = Vec::new();
        for from in &mut select.from {
            let joined = from.joins.iter_mut().map(|join| &mut join.relation);
            for factor in std::iter::once(&mut from.relation).chain(joined) {
                let Some((table, condition)) = Call::of(factor).and_then(|call| call.replaced()) else {
                    continue;
                };
                *factor = table;
                conditions.extend(condition);
            }
        }
        conditions.into_iter().for_each(|condition| restrict(select, condition));
        ControlFlow::Continue(())
    }
}

/// `SELECT pg_partition_ancestors('t')` as a query of what it gives.
fn call_from_list(select: &mut Select) -> Option<()> {
    let [SelectItem::UnnamedExpr(Expr::Function(call))] = select.projection.as_slice() else { return None };
    if !select.from.is_empty() || sql::names::parts(&call.name).ok()?.pop()? != ANCESTORS {
        return None;
    }
    let text = format!("SELECT relid AS {ANCESTORS} FROM {call}");
    let Statement::Query(query) = sql::parse::parse(&text).ok()?.pop()? else { return None };
    let SetExpr::Select(made) = *query.body else { return None };
    let Select { projection, from, .. } = *made;
    (select.projection, select.from) = (projection, from);
    Some(())
}

/// Object ids that a call gives show as names in the outermost query.
fn show_names(select: &mut Select) -> Option<()> {
    let [from] = select.from.as_slice() else { return None };
    let call = Call::of(&from.relation)?;
    let is_alone = from.joins.is_empty();
    let mut projection = Vec::new();
    for item in std::mem::take(&mut select.projection) {
        match item {
            SelectItem::Wildcard(_) if is_alone && call.renamed.is_empty() => {
                let columns = call.columns.iter().map(|column| Expr::Identifier(Ident::new(*column)));
                projection.extend(columns.map(named));
            }
            SelectItem::UnnamedExpr(e) => projection.push(named(e)),
            SelectItem::ExprWithAlias { expr, alias } => {
                let expr = cast(&expr).unwrap_or(expr);
                projection.push(SelectItem::ExprWithAlias { expr, alias });
            }
            other => projection.push(other),
        }
    }
    select.projection = projection;
    Some(())
}

/// A column as it is, or under its name what it shows.
fn named(e: Expr) -> SelectItem {
    let last = match &e {
        Expr::Identifier(name) => Some(name.clone()),
        Expr::CompoundIdentifier(names) => names.last().cloned(),
        _ => None,
    };
    match (cast(&e), last) {
        (Some(expr), Some(alias)) => SelectItem::ExprWithAlias { expr, alias },
        _ => SelectItem::UnnamedExpr(e),
    }
}

/// `relid` and `parentrelid` as relations.
fn cast(e: &Expr) -> Option<Expr> {
    let name = match e {
        Expr::Identifier(name) => name,
        Expr::CompoundIdentifier(names) => names.last()?,
        _ => return None,
    };
    let is_relation = ["relid", "parentrelid"].contains(&sql::names::fold(name).as_str());
    is_relation.then(|| parse(&format!("CAST({e} AS regclass)")))?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(sql: &str) -> String {
        let mut statement = sql::parse::parse(sql).unwrap().pop().unwrap();
        expand(&mut statement);
        statement.to_string()
    }

    #[test]
    fn calls_become_tables() {
        for (sql, wanted) in [
            (
                "SELECT count(*) FROM pg_partition_tree('t') x",
                "SELECT count(*) FROM (SELECT relid, parentrelid, isleaf, level FROM \
                 pg_catalog.meridian_partition_tree WHERE meridian_of = meridian_regclass('t')) AS x",
            ),
            (
                "SELECT sum(p.level) FROM pg_class c, LATERAL pg_partition_tree(c.oid) p WHERE true",
                "SELECT sum(p.level) FROM pg_class c, pg_catalog.meridian_partition_tree AS p \
                 WHERE (true) AND p.meridian_of = c.oid",
            ),
            (
                "SELECT pg_catalog.pg_partition_ancestors('7')",
                "SELECT CAST(relid AS REGCLASS) AS pg_partition_ancestors FROM (SELECT relid FROM \
                 pg_catalog.meridian_partition_ancestors WHERE meridian_of = meridian_regclass('7')) \
                 AS pg_partition_ancestors",
            ),
            ("SELECT relid FROM t", "SELECT relid FROM t"),
        ] {
            assert_eq!(expanded(sql), wanted);
        }
    }
}

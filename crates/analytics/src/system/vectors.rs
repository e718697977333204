//! Vectors of column numbers in the catalog, as rows.
//!
//! `pg_index.indkey` and its like are arrays that clients expand to a row per column: `unnest(indkey)` and
//! `generate_subscripts(indkey, 1)` in a select list, `_pg_expandarray(indkey)`, `unnest(indkey) WITH
//! ORDINALITY` beside their table. DataFusion plans none of these beside other columns. They become joins
//! with a table that has such a row per column, which says the same.

use datafusion::sql::sqlparser::ast::{
    self, AccessExpr, Expr, Ident, JoinConstraint, JoinOperator, Select, SelectItem, SetExpr, Statement,
    Subscript, TableFactor, TableWithJoins, VisitorMut,
};
use sql::walk::{self, WalkMut};
use std::ops::ControlFlow;

/// Which table's vector.
#[derive(Clone, Copy, PartialEq)]
enum Of {
    Index,
    Constraint,
}

impl Of {
    fn table(self) -> &'static str {
        match self {
            Of::Index => "pg_catalog.meridian_index_keys",
            Of::Constraint => "pg_catalog.meridian_constraint_keys",
        }
    }
    /// Its key in PostgreSQL's table.
    fn key(self) -> &'static str {
        match self {
            Of::Index => "indexrelid",
            Of::Constraint => "oid",
        }
    }
    /// The number of the first element: vectors count from 0, arrays from 1.
    fn first(self) -> i64 {
        match self {
            Of::Index => 0,
            Of::Constraint => 1,
        }
    }
}

/// A vector of a table that is in scope.
struct Vector {
    of: Of,
    /// How the table is called: nothing, its alias, its name.
    qualifier: Vec<Ident>,
    /// The column of the table of rows that has its elements.
    element: &'static str,
}

/// Replaces expanded vectors throughout a statement.
pub(super) fn expand(statement: &mut Statement) {
    let mut expanding = Expanding { joins: 0, has_pairs: statement.to_string().contains("_pg_expandarray") };
    let _ = statement.walk_mut(&mut expanding);
}

/// Whether an expression is a column with a vector's name.
pub(crate) fn is_vector(e: &Expr) -> bool {
    let name = match e {
        Expr::Identifier(name) => name,
        Expr::CompoundIdentifier(parts) => match parts.last() {
            Some(name) => name,
            None => return false,
        },
        _ => return false,
    };
    let name = sql::names::fold(name);
    ["indkey", "indclass", "indoption", "conkey", "confkey"].contains(&name.as_str())
}

/// The names of a constraint's columns, for `ARRAY(SELECT attname FROM unnest(conkey) …)`.
pub(super) fn names_of_columns(query: &ast::Query) -> Option<Expr> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let [SelectItem::UnnamedExpr(shown)] = select.projection.as_slice() else { return None };
    if !shown.to_string().to_lowercase().ends_with("attname") {
        return None;
    }
    let vectors = select.from.iter().find_map(|from| vectors_of(&from.relation))?;
    let vector = vectors.first()?;
    let key = column(&vector.qualifier, vector.of.key());
    parse(&format!("meridian_key_names({key})"))
}

struct Expanding {
    /// Joins added so far, for their names.
    joins: usize,
    /// Elements come with their numbers, as the fields `x` and `n`.
    has_pairs: bool,
}

impl VisitorMut for Expanding {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.expand_from(select);
        self.expand_list(select);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, e: &mut Expr) -> ControlFlow<()> {
        if let Some(new) = element(e) {
            *e = new;
        } else if self.has_pairs
            && let Some((root, field)) = field(e)
            && field == "x"
        {
            *e = root.clone();
        }
        ControlFlow::Continue(())
    }
}

impl Expanding {
    /// Vectors in the select list: all of one table advance together.
    fn expand_list(&mut self, select: &mut Select) {
        let mut joined: Vec<(Vector, String)> = Vec::new();
        for item in &mut select.projection {
            let (SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. }) = item else {
                continue;
            };
            let _: ControlFlow<()> = walk::expressions_mut(e, |e| {
                if let Some(new) = self.replaced(e, &mut joined) {
                    *e = new;
                }
                ControlFlow::Continue(())
            });
        }
        for (vector, alias) in joined {
            let Some(from) = from(&format!("{} AS {alias}", vector.of.table())) else { continue };
            select.from.push(from);
            restrict(select, matching(&alias, &vector));
        }
    }

    fn replaced(&mut self, e: &Expr, joined: &mut Vec<(Vector, String)>) -> Option<Expr> {
        if let Some((root, field)) = field(e) {
            // A pair that was replaced by its element just now.
            let Expr::CompoundIdentifier(names) = root else { return None };
            let [alias, column] = names.as_slice() else { return None };
            let is_ours = column.value == "meridian_element" && joined.iter().any(|(_, a)| *a == alias.value);
            return match field.as_str() {
                "n" if is_ours => parse(&format!("{}.meridian_nth", alias.value)),
                "x" if is_ours => Some(root.clone()),
                _ => None,
            };
        }
        let Expr::Function(function) = e else { return None };
        let name = sql::names::parts(&function.name).ok()?.pop()?;
        let arguments = arguments(function)?;
        let vector = vector(arguments.first()?)?;
        let element = vector.element;
        let first = vector.of.first();
        if !matches!(name.as_str(), "unnest" | "_pg_expandarray" | "generate_subscripts") {
            return None;
        }
        let known = joined.iter().find(|(v, _)| v.of == vector.of && v.qualifier == vector.qualifier);
        let alias = match known {
            Some((_, alias)) => alias.clone(),
            None => {
                self.joins += 1;
                let alias = format!("meridian_keys_{}", self.joins);
                joined.push((vector, alias.clone()));
                alias
            }
        };
        parse(&match name.as_str() {
            "generate_subscripts" => format!("({alias}.meridian_nth - 1 + {first})"),
            _ => format!("{alias}.{element}"),
        })
    }

    /// Vectors among the tables.
    fn expand_from(&mut self, select: &mut Select) {
        let mut conditions = Vec::new();
        for from in &mut select.from {
            conditions.extend(replace_factor(&mut from.relation));
            for join in &mut from.joins {
                let Some(condition) = replace_factor(&mut join.relation) else { continue };
                match &mut join.join_operator {
                    JoinOperator::Left(on) | JoinOperator::LeftOuter(on) => {
                        *on = JoinConstraint::On(condition)
                    }
                    other => {
                        *other = JoinOperator::CrossJoin(JoinConstraint::None);
                        conditions.push(condition);
                    }
                }
            }
        }
        conditions.into_iter().for_each(|condition| restrict(select, condition));
    }
}

/// Vectors that a table factor unnests, if it does nothing else.
fn vectors_of(factor: &TableFactor) -> Option<Vec<Vector>> {
    let expressions: Vec<&Expr> = match factor {
        TableFactor::UNNEST { array_exprs, .. } => array_exprs.iter().collect(),
        TableFactor::Function { name, args, .. } if is_unnest(name) => {
            args.iter().map(argument).collect::<Option<_>>()?
        }
        _ => return None,
    };
    let vectors: Vec<Vector> = expressions.into_iter().map(vector).collect::<Option<_>>()?;
    (!vectors.is_empty()).then_some(vectors)
}

fn is_unnest(name: &ast::ObjectName) -> bool {
    sql::names::parts(name).ok().and_then(|mut p| p.pop()).is_some_and(|name| name == "unnest")
}

/// Replaces `unnest(vector, …) [WITH ORDINALITY] AS a (…)`; answers the condition that joins it.
fn replace_factor(factor: &mut TableFactor) -> Option<Expr> {
    let vectors = vectors_of(factor)?;
    let alias = match factor {
        TableFactor::UNNEST { alias, .. } | TableFactor::Function { alias, .. } => alias.clone(),
        _ => None,
    };
    let names: Vec<String> =
        alias.iter().flat_map(|a| a.columns.iter()).map(|c| c.name.to_string()).collect();
    let table = alias.map_or_else(|| "unnest".to_string(), |a| a.name.to_string());
    let mut columns = vec!["meridian_of".to_string()];
    for (n, vector) in vectors.iter().enumerate() {
        let name = names.get(n).cloned().unwrap_or_else(|| table.clone());
        columns.push(format!("{} AS {name}", vector.element));
    }
    let ordinality = names.get(vectors.len()).map_or("ordinality", String::as_str);
    columns.push(format!("meridian_nth AS {ordinality}"));
    let first = vectors.first()?;
    let source = format!("(SELECT {} FROM {}) AS {table}", columns.join(", "), first.of.table());
    *factor = from(&source)?.relation;
    Some(matching(&table, first))
}

/// An expression that says which vector is meant.
fn vector(e: &Expr) -> Option<Vector> {
    let (qualifier, name) = match e {
        Expr::Identifier(name) => (Vec::new(), name),
        Expr::CompoundIdentifier(names) => {
            let (name, qualifier) = names.split_last()?;
            (qualifier.to_vec(), name)
        }
        Expr::Nested(e) | Expr::Cast { expr: e, .. } => return vector(e),
        _ => return None,
    };
    let (of, element) = match sql::names::fold(name).as_str() {
        "indkey" => (Of::Index, "meridian_element"),
        "indclass" => (Of::Index, "meridian_opclass"),
        "indoption" => (Of::Index, "meridian_option"),
        "conkey" => (Of::Constraint, "meridian_element"),
        "confkey" => (Of::Constraint, "meridian_foreign"),
        _ => return None,
    };
    Some(Vector { of, qualifier, element })
}

/// `vector[n]` as a call.
fn element(e: &Expr) -> Option<Expr> {
    let Expr::CompoundFieldAccess { root, access_chain } = e else { return None };
    let (AccessExpr::Subscript(Subscript::Index { index }), before) = access_chain.split_last()? else {
        return None;
    };
    let mut names = match root.as_ref() {
        Expr::Identifier(name) => vec![name.clone()],
        Expr::CompoundIdentifier(names) => names.clone(),
        _ => return None,
    };
    for access in before {
        let AccessExpr::Dot(Expr::Identifier(name)) = access else { return None };
        names.push(name.clone());
    }
    let name = sql::names::fold(names.last()?);
    let first = match name.as_str() {
        name if ["indkey", "indclass", "indoption"].iter().any(|v| name.ends_with(v)) => 0,
        "conkey" | "confkey" => 1,
        _ => return None,
    };
    let vector = Expr::CompoundIdentifier(names);
    parse(&format!("meridian_element(CAST({vector} AS text), {index}, {first})"))
}

/// `(e).f` as e and f.
fn field(e: &Expr) -> Option<(&Expr, String)> {
    let Expr::Function(function) = e else { return None };
    let (root, field) = sql::parse::attribute_of(function)?;
    let root = match root {
        Expr::Nested(root) => root,
        root => root,
    };
    Some((root, field.to_string()))
}

fn arguments(function: &ast::Function) -> Option<Vec<&Expr>> {
    match &function.args {
        ast::FunctionArguments::List(list) => list.args.iter().map(argument).collect(),
        _ => None,
    }
}

fn argument(argument: &ast::FunctionArg) -> Option<&Expr> {
    match argument {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(e)) => Some(e),
        _ => None,
    }
}

fn column(qualifier: &[Ident], name: &str) -> Expr {
    let mut names = qualifier.to_vec();
    names.push(Ident::new(name));
    match names.len() {
        1 => Expr::Identifier(Ident::new(name)),
        _ => Expr::CompoundIdentifier(names),
    }
}

/// Rows of the vector's own table only.
fn matching(alias: &str, vector: &Vector) -> Expr {
    Expr::BinaryOp {
        left: Box::new(Expr::CompoundIdentifier(vec![Ident::new(alias), Ident::new("meridian_of")])),
        op: ast::BinaryOperator::Eq,
        right: Box::new(column(&vector.qualifier, vector.of.key())),
    }
}

pub(super) fn restrict(select: &mut Select, condition: Expr) {
    select.selection = Some(match select.selection.take() {
        None => condition,
        Some(before) => Expr::BinaryOp {
            left: Box::new(Expr::Nested(Box::new(before))),
            op: ast::BinaryOperator::And,
            right: Box::new(condition),
        },
    });
}

fn parse(text: &str) -> Option<Expr> {
    sql::parse::parse_expr(text).ok()
}

/// What stands behind FROM.
pub(super) fn from(text: &str) -> Option<TableWithJoins> {
    let Some(Statement::Query(query)) = sql::parse::parse(&format!("SELECT 1 FROM {text}")).ok()?.pop()
    else {
        return None;
    };
    match *query.body {
        SetExpr::Select(mut select) => select.from.pop(),
        _ => None,
    }
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
    fn vectors_become_joins() {
        for (sql, wanted) in [
            (
                "SELECT unnest(i.indkey) AS a, generate_subscripts(i.indkey, 1) AS o FROM pg_index i",
                "SELECT meridian_keys_1.meridian_element AS a, (meridian_keys_1.meridian_nth - 1 + 0) AS o \
                 FROM pg_index i, pg_catalog.meridian_index_keys AS meridian_keys_1 \
                 WHERE meridian_keys_1.meridian_of = i.indexrelid",
            ),
            (
                "SELECT (information_schema._pg_expandarray(i.indkey)).n AS n, \
                 information_schema._pg_expandarray(i.indkey) AS keys FROM pg_index i WHERE true",
                "SELECT meridian_keys_1.meridian_nth AS n, meridian_keys_1.meridian_element AS keys \
                 FROM pg_index i, pg_catalog.meridian_index_keys AS meridian_keys_1 \
                 WHERE (true) AND meridian_keys_1.meridian_of = i.indexrelid",
            ),
            (
                "SELECT k FROM pg_constraint c CROSS JOIN LATERAL unnest(c.conkey) AS u (k)",
                "SELECT k FROM pg_constraint c CROSS JOIN (SELECT meridian_of, meridian_element AS k, \
                 meridian_nth AS ordinality FROM pg_catalog.meridian_constraint_keys) AS u \
                 WHERE u.meridian_of = c.oid",
            ),
            (
                "SELECT * FROM pg_index i, unnest(i.indkey, i.indoption) WITH ORDINALITY koi (key, option, at)",
                "SELECT * FROM pg_index i, (SELECT meridian_of, meridian_element AS key, \
                 meridian_option AS option, meridian_nth AS at FROM pg_catalog.meridian_index_keys) AS koi \
                 WHERE koi.meridian_of = i.indexrelid",
            ),
            (
                "SELECT i.indoption[n - 1] FROM i",
                "SELECT meridian_element(CAST(i.indoption AS TEXT), n - 1, 0) FROM i",
            ),
            ("SELECT unnest(x) FROM t", "SELECT unnest(x) FROM t"),
        ] {
            assert_eq!(expanded(sql), wanted);
        }
    }

    #[test]
    fn names_of_a_constraint_s_columns_are_asked_in_one_call() {
        let sql = "SELECT attname FROM unnest(c.conkey) WITH ORDINALITY cols (colid, at) JOIN pg_attribute ca \
            ON cols.colid = ca.attnum WHERE ca.attrelid = c.conrelid ORDER BY cols.at";
        let Some(Statement::Query(query)) = sql::parse::parse(sql).unwrap().pop() else { panic!() };
        assert_eq!(names_of_columns(&query).unwrap().to_string(), "meridian_key_names(c.oid)");
    }
}

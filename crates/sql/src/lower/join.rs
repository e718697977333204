//! SELECT from two tables where a row of one leads to one row of the other: answered from rows.
//!
//! The outer table's rows are few and found by key; each of them names the whole primary key of an inner
//! row. Columns would have to scan, hash and, inside a transaction, validate whole tables for it.

use super::keys::{self, KeyPath};
use super::scope::Scope;
use super::select::{Output, plain_select};
use super::{Lowered, Lowering, Refusal, bind};
use crate::names;
use base::DataType;
use base::expr::Expr;
use base::schema::{Index, Table};
use sqlparser::ast;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A lowered SELECT of two tables.
#[derive(Clone, Debug)]
pub struct RowJoinPlan {
    pub outer: Arc<Table>,
    pub outer_index: Option<Index>,
    pub outer_path: KeyPath,
    /// What the condition says of outer rows alone.
    pub outer_condition: Option<Expr>,
    /// Columns of outer rows that are looked at; `None`: all.
    pub outer_columns: Option<Arc<Vec<u16>>>,
    pub inner: Arc<Table>,
    /// One key of the inner table; the outer row's values are parameters behind the statement's own.
    pub inner_path: KeyPath,
    pub inner_columns: Option<Arc<Vec<u16>>>,
    /// How many parameters the statement has.
    pub parameters: usize,
    /// In rows of both, the inner table's columns come first.
    pub inner_first: bool,
    /// Over rows of both.
    pub condition: Option<Expr>,
    pub output: Output,
}

/// One side of the join while it is lowered.
struct Side {
    table: Arc<Table>,
    /// Number of its first column in rows of both.
    first: usize,
}

impl Side {
    fn has(&self, column: usize) -> bool {
        (self.first..self.first + self.table.columns.len()).contains(&column)
    }
}

impl Lowering<'_> {
    /// Lowers a query that joins two tables by the inner one's primary key.
    pub fn row_join(&mut self, query: &ast::Query) -> Lowered<RowJoinPlan> {
        if !query.locks.is_empty() {
            return Err(Refusal::TooRich);
        }
        let select = plain_select(query)?;
        let (relations, on) = relations(select)?;
        let is_plain = |item: &ast::SelectItem| {
            matches!(item, ast::SelectItem::UnnamedExpr(_) | ast::SelectItem::ExprWithAlias { .. })
        };
        if !select.projection.iter().all(is_plain) {
            return Err(Refusal::TooRich);
        }
        let mut scope = Scope::default();
        let mut sides = Vec::with_capacity(2);
        let mut width = 0;
        for relation in relations {
            let ast::TableFactor::Table { name, alias, args: None, sample: None, .. } = relation else {
                return Err(Refusal::TooRich);
            };
            let table = self.stored_table(name)?;
            if alias.as_ref().is_some_and(|a| !a.columns.is_empty()) {
                return Err(Refusal::TooRich);
            }
            let alias = alias.as_ref().map(|a| names::fold(&a.name));
            let qualifier = alias.as_deref().unwrap_or(&table.name);
            if scope.has_qualifier(qualifier) {
                return Err(Refusal::TooRich);
            }
            scope.add(&table, qualifier, alias.is_none().then_some(&table.schema), width, false);
            sides.push(Side { first: width, table: table.clone() });
            width += table.columns.len();
        }
        let mut conjuncts = Vec::new();
        for e in select.selection.iter().chain(on) {
            let condition = self.exprs(&scope).condition(e, "WHERE")?;
            if bind::changes_per_row(&condition) {
                return Err(Refusal::TooRich);
            }
            conjuncts.extend(keys::conjuncts(Some(&condition)));
        }
        let mut output = self.output(query, select, &sides[0].table, &scope)?;
        output.projection.is_identity = false;
        let parameters = self.parameters.0.len();
        let columns = output.columns_with(&conjuncts);
        let of_side = |side: &Side| -> Arc<Vec<u16>> {
            Arc::new(columns.iter().filter(|c| side.has(**c)).map(|c| (c - side.first) as u16).collect())
        };
        for (outer, inner) in [(&sides[0], &sides[1]), (&sides[1], &sides[0])] {
            let inner_path = inner_path(outer, inner, &conjuncts, parameters);
            let type_of = |value: &Expr| match (value, bind::parameter_number(value)) {
                (Expr::Constant(value), _) => crate::types::type_of(value),
                (_, Some(n)) if n >= parameters => Some(outer.table.columns[n - parameters].data_type),
                (_, Some(n)) => self.parameters.0[n],
                _ => None,
            };
            let is_exact = |(value, key): (&Expr, DataType)| type_of(value).is_some_and(|t| finds(t, key));
            if !inner_path.is_point() || !inner_path.fixed_values().all(is_exact) {
                continue;
            }
            let of_outer: Vec<Expr> = conjuncts.iter().filter_map(|c| over(outer, c)).collect();
            let primary = KeyPath::primary(&outer.table, &of_outer);
            let generated = self.computed_keys(&outer.table)?;
            let (outer_index, outer_path) =
                match super::modify::narrowest_index(&outer.table, &generated, &of_outer, &primary) {
                    Some((index, path)) => (Some(index), path),
                    None => (None, primary),
                };
            // Fewer fixed columns may be very many rows.
            if !outer_path.is_point() && outer_path.fixed_count() < 2 {
                continue;
            }
            return Ok(RowJoinPlan {
                outer: outer.table.clone(),
                outer_columns: outer_index.is_none().then(|| of_side(outer)),
                outer_index,
                outer_path,
                outer_condition: keys::conjoin(of_outer),
                inner: inner.table.clone(),
                inner_path,
                inner_columns: Some(of_side(inner)),
                parameters,
                inner_first: inner.first == 0,
                condition: keys::conjoin(conjuncts),
                output,
            });
        }
        Err(Refusal::TooRich)
    }
}

/// Whether a value of one type, as a key of another, finds whatever equals it.
fn finds(value: DataType, key: DataType) -> bool {
    use DataType::{BigInt, Integer, Numeric, SmallInt, Text, Varchar};
    match (value, key) {
        (SmallInt | Integer | BigInt | Numeric { .. }, SmallInt | Integer | BigInt | Numeric { .. }) => true,
        (Text | Varchar { .. }, Text | Varchar { .. }) => true,
        (value, key) => value == key && !matches!(key, DataType::Real | DataType::Double),
    }
}

/// The two relations of `FROM a, b` or `FROM a JOIN b ON …`, and the condition of the latter.
fn relations(select: &ast::Select) -> Lowered<([&ast::TableFactor; 2], Option<&ast::Expr>)> {
    match select.from.as_slice() {
        [a, b] if a.joins.is_empty() && b.joins.is_empty() => Ok(([&a.relation, &b.relation], None)),
        [a] => match a.joins.as_slice() {
            [ast::Join { relation, join_operator, global: false }] => match join_operator {
                ast::JoinOperator::Join(ast::JoinConstraint::On(on))
                | ast::JoinOperator::Inner(ast::JoinConstraint::On(on)) => {
                    Ok(([&a.relation, relation], Some(on)))
                }
                _ => Err(Refusal::TooRich),
            },
            _ => Err(Refusal::TooRich),
        },
        _ => Err(Refusal::TooRich),
    }
}

/// A conjunct over one side's rows, if it reads no other's.
fn over(side: &Side, conjunct: &Expr) -> Option<Expr> {
    let mut columns = BTreeSet::new();
    bind::columns_of(conjunct, &mut columns);
    columns
        .iter()
        .all(|c| side.has(*c))
        .then(|| bind::map_columns(conjunct, &|c| Expr::Column(if side.has(c) { c - side.first } else { c })))
}

/// The path to an inner row, given an outer one.
fn inner_path(outer: &Side, inner: &Side, conjuncts: &[Expr], parameters: usize) -> KeyPath {
    let given_outer = |conjunct: &Expr| {
        bind::map_columns(conjunct, &|c| match c {
            c if inner.has(c) => Expr::Column(c - inner.first),
            c if outer.has(c) => bind::parameter(parameters + c - outer.first),
            hole => Expr::Column(hole),
        })
    };
    let given: Vec<Expr> = conjuncts.iter().map(given_outer).collect();
    KeyPath::primary(&inner.table, &given)
}

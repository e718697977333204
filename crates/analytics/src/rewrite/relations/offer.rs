//! What FROM offers to the names of a query: relations, and columns in the order of `*`.

use super::{MARK, Names, Place, Resolver, shown};
use crate::rewrite::numbers;
use base::error::SqlResult;
use base::{SqlError, SqlState};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableWithJoins,
};
use sql::lower::output_name;
use std::rc::Rc;

/// A relation that names can be qualified with.
pub struct Relation {
    pub qualifier: String,
    pub columns: Names,
    /// An outer join may have no row of it.
    pub may_be_missing: bool,
    /// Its rows are the values of its only column: it is a set that a function makes.
    pub is_of_values: bool,
}

impl Relation {
    /// The row of all its columns, as a value. `None` if they are not known. Errors: none but those of names that the parser
    /// does not read.
    pub fn row(&self) -> Option<SqlResult<Expr>> {
        let columns = self.columns.as_ref().filter(|columns| !columns.is_empty())?;
        let column = |name: &String| format!("{}.{}", quoted(&self.qualifier), quoted(name));
        let literal = |name: &str| format!("'{}'", name.replace('\'', "''"));
        if self.is_of_values {
            return columns.first().map(|name| sql::parse::parse_expr(&column(name)));
        }
        let members = columns.iter().map(|name| format!("{}, {}", literal(shown(name)), column(name)));
        let row = format!("{}({})", crate::composites::ROW, members.collect::<Vec<_>>().join(", "));
        Some(sql::parse::parse_expr(&match self.may_be_missing {
            false => row,
            true => {
                let nulls = columns.iter().map(|name| format!("{} IS NULL", column(name)));
                let is_missing = nulls.collect::<Vec<_>>().join(" AND ");
                format!("CASE WHEN {is_missing} THEN NULL ELSE {row} END")
            }
        }))
    }
}

/// A column in the order of `*`.
#[derive(Clone)]
pub struct Output {
    pub name: String,
    pub expr: Expr,
    /// Merged by USING or NATURAL: the unqualified name means this expression.
    pub is_merged: bool,
}

impl Output {
    pub fn item(&self) -> SelectItem {
        match &self.expr {
            Expr::CompoundIdentifier(path) if path.last().is_some_and(|i| i.value == self.name) => {
                SelectItem::UnnamedExpr(self.expr.clone())
            }
            expr => SelectItem::ExprWithAlias { expr: expr.clone(), alias: quoted(&self.name) },
        }
    }
}

/// Whether a query stands for a function that makes values.
pub fn is_set_of_values(query: &Query) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    let [item] = select.projection.as_slice() else { return false };
    let text = item.to_string();
    let is_unnested = text.starts_with("unnest(") || text.starts_with("CAST(unnest(");
    select.from.is_empty() && is_unnested && text.contains("meridian_")
}

/// What FROM offers.
pub struct Offer {
    pub relations: Vec<Relation>,
    /// `None` if not all of them are known.
    pub outputs: Option<Vec<Output>>,
    /// FROM itself, where subqueries may need its rows again.
    pub from: Vec<TableWithJoins>,
}

impl Offer {
    pub fn empty() -> Offer {
        Offer { relations: Vec::new(), outputs: Some(Vec::new()), from: Vec::new() }
    }
    pub fn unknown() -> Offer {
        Offer { relations: Vec::new(), outputs: None, from: Vec::new() }
    }
    pub fn relation(qualifier: String, columns: Names) -> Offer {
        let output = |name: &String| Output {
            name: name.clone(),
            expr: Expr::CompoundIdentifier(vec![quoted(&qualifier), quoted(name)]),
            is_merged: false,
        };
        let outputs = columns.as_ref().map(|columns| columns.iter().map(output).collect());
        Offer {
            relations: vec![Relation { qualifier, columns, may_be_missing: false, is_of_values: false }],
            outputs,
            from: Vec::new(),
        }
    }
    pub fn add(&mut self, other: Offer) {
        self.relations.extend(other.relations);
        match (&mut self.outputs, other.outputs) {
            (Some(outputs), Some(more)) => outputs.extend(more),
            (outputs, _) => *outputs = None,
        }
    }
    /// The relation of a name.
    pub fn relation_named(&self, qualifier: &str) -> Option<&Relation> {
        self.relations.iter().find(|relation| relation.qualifier == qualifier)
    }
    /// Rows of its relations may be missing from here on.
    pub fn is_outer(mut self) -> Offer {
        self.relations.iter_mut().for_each(|relation| relation.may_be_missing = true);
        self
    }
    /// How many columns there are, as far as is known.
    pub fn width(&self) -> u64 {
        self.outputs.as_ref().map_or(self.relations.len(), Vec::len) as u64
    }
    pub fn has_merged(&self) -> bool {
        self.outputs.iter().flatten().any(|o| o.is_merged)
    }
    pub fn named<'o>(&'o self, name: &'o str) -> impl Iterator<Item = &'o Output> {
        self.outputs.iter().flatten().filter(move |o| shown(&o.name) == name)
    }
}

/// The one column of a name that USING or NATURAL joins by.
pub fn only<'o>(offer: &'o Offer, name: &'o str, side: &str, is_using: bool) -> SqlResult<&'o Expr> {
    let mut found = offer.named(name);
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(&one.expr),
        (None, _) if is_using => Err(SqlError::new(
            SqlState::UNDEFINED_COLUMN,
            format!("column \"{name}\" specified in USING clause does not exist in {side} table"),
        )),
        _ => Err(SqlError::new(
            SqlState::AMBIGUOUS_COLUMN,
            format!("common column name \"{name}\" appears more than once in {side} table"),
        )),
    }
}

impl Resolver<'_> {
    /// Walks the items of a select list. Each keeps the name of what was written.
    pub(super) fn items(&mut self, items: &mut [SelectItem], offer: &Rc<Offer>) -> SqlResult<()> {
        for item in items {
            let written = match &*item {
                SelectItem::UnnamedExpr(e) => Some(output_name(e)),
                _ => None,
            };
            let is_renamed = match &*item {
                SelectItem::UnnamedExpr(Expr::Identifier(_) | Expr::Subquery(_)) => true,
                SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. } => {
                    numbers::is_integer(e)
                }
                _ => false,
            };
            if let SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. } = item {
                numbers::as_integer(e);
            }
            self.walk(item, offer, true)?;
            if let (Some(written), SelectItem::UnnamedExpr(e)) = (written, &*item)
                && is_renamed
                && !matches!(e, Expr::Subquery(_))
                && output_name(e) != written
            {
                *item = SelectItem::ExprWithAlias { expr: e.clone(), alias: quoted(&written) };
            }
        }
        Ok(())
    }
}

/// Writes `*` out where it has to be, gives items of a relation PostgreSQL's names, and answers the names.
pub fn name_items(select: &mut Select, offer: &Offer, place: Place) -> Names {
    let is_wild =
        |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
    let mut items = Vec::new();
    for item in &select.projection {
        match item {
            SelectItem::Wildcard(_) => items.extend(offer.outputs.as_ref()?.iter().map(Output::item)),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                let qualifier = sql::names::parts(name).ok()?.pop()?;
                let relation = offer.relations.iter().find(|r| r.qualifier == qualifier)?;
                let all = Offer::relation(qualifier, relation.columns.clone());
                items.extend(all.outputs?.iter().map(Output::item));
            }
            SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. } => items.push(item.clone()),
            _ => return None,
        }
    }
    let name = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(e) => output_name(e),
        SelectItem::ExprWithAlias { alias, .. } => sql::names::fold(alias),
        _ => String::new(),
    };
    let names: Vec<String> = items.iter().map(|item| shown(&name(item)).to_string()).collect();
    let occurs_twice = |name: &String| names.iter().filter(|n| *n == name).count() > 1;
    if place != Place::Relation {
        if offer.has_merged() && select.projection.iter().any(is_wild) {
            select.projection = items;
        }
        return Some(names);
    }
    let mut final_names = Vec::with_capacity(names.len());
    let mut is_changed = offer.has_merged();
    for (n, (item, name)) in items.iter_mut().zip(&names).enumerate() {
        let wanted = if occurs_twice(name) { format!("{name}{MARK}{n}") } else { name.clone() };
        let is_named = match &*item {
            SelectItem::UnnamedExpr(Expr::Identifier(i)) => sql::names::fold(i) == wanted,
            // The planner has another name for what comes from outside.
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(p)) => {
                let is_own = |i: &Ident| offer.relation_named(&sql::names::fold(i)).is_some();
                p.last().is_some_and(|i| sql::names::fold(i) == wanted) && p.first().is_some_and(is_own)
            }
            SelectItem::ExprWithAlias { alias, .. } => sql::names::fold(alias) == wanted,
            _ => false,
        };
        if !is_named && let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = &*item {
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: quoted(&wanted) };
            is_changed = true;
        }
        final_names.push(wanted);
    }
    if is_changed {
        select.projection = items;
    }
    Some(final_names)
}

/// Marks aliases that are called like a column beside them: the planner would not know which one a name means.
pub fn tell_aliases_apart(items: &mut [SelectItem]) {
    let column = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(path)) => path.last().map(sql::names::fold),
        _ => None,
    };
    let columns: Vec<String> = items.iter().filter_map(column).collect();
    for (n, item) in items.iter_mut().enumerate() {
        if let SelectItem::ExprWithAlias { alias, .. } = item
            && let name = sql::names::fold(alias)
            && columns.contains(&name)
        {
            *alias = quoted(&format!("{name}{MARK}{n}"));
        }
    }
}

pub fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

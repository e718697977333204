//! RETURNING of an UPDATE or DELETE whose rows a query finds: columns of the other tables, and expressions that nodes
//! do not know.
//!
//! The query that finds the rows computes them, over the rows as they were; a column that is assigned stands there as
//! what is assigned to it.

use base::SqlError;
use base::error::SqlResult;
use base::schema::Table;
use base::schema::triggers::Event;
use sql::lower::bind;
use sql::lower::generated::Generated;
use sql::lower::{Lowering, Projection};
use sql::names;
use sql::types::Column;
use sql::walk;
use sqlparser::ast;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// What RETURNING shows.
pub(super) enum Returned {
    /// Of the row alone.
    Lowered(Projection),
    /// The n-th value that the query computes, and its name.
    Computed(usize, String),
}

/// One projection of all that is shown. `computed` are the query's columns behind the row's own.
pub(super) fn projection_of(returned: Vec<Returned>, computed: &[Column]) -> Projection {
    let (mut exprs, mut columns) = (Vec::new(), Vec::new());
    for one in returned {
        match one {
            Returned::Lowered(projection) => {
                exprs.extend(projection.exprs);
                columns.extend(projection.columns.iter().cloned());
            }
            Returned::Computed(n, name) => {
                exprs.push(bind::computed(n));
                columns.push(Column { name, ..computed[n].clone() });
            }
        }
    }
    let has_holes = exprs.iter().any(bind::has_holes);
    Projection { exprs, columns: Arc::new(columns), is_identity: false, has_holes }
}

/// Items of RETURNING, with `*` written out where other tables take part.
pub(super) fn returning_items(
    items: &[ast::SelectItem],
    lowering: &Lowering<'_>,
    from: &[ast::TableWithJoins],
    with: Option<&ast::With>,
    table: &Arc<Table>,
    shown: &str,
) -> SqlResult<Vec<ast::SelectItem>> {
    use ast::SelectItem as S;
    let factors = from.iter().flat_map(|f| {
        std::iter::once(&f.relation).chain(f.joins.iter().map(|join| &join.relation)).collect::<Vec<_>>()
    });
    let factors: Vec<&ast::TableFactor> = factors.skip(1).collect();
    if factors.is_empty() {
        return Ok(items.to_vec());
    }
    let columns_of = |qualifier: &str, table: &Table| {
        let column = |name: &str| {
            let path = vec![ast::Ident::with_quote('"', qualifier), ast::Ident::with_quote('"', name)];
            S::UnnamedExpr(ast::Expr::CompoundIdentifier(path))
        };
        table.visible_columns().map(|(_, c)| column(&c.name)).collect::<Vec<_>>()
    };
    let mut relations = vec![(shown.to_string(), table.clone())];
    let mut are_all_known = true;
    for factor in factors {
        match factor {
            ast::TableFactor::Table { name, .. } if is_cte(with, name) => are_all_known = false,
            ast::TableFactor::Table { name, alias, args: None, .. } => {
                let table = lowering.table(name)?;
                let alias = alias.as_ref().map(|alias| names::fold(&alias.name));
                relations.push((alias.unwrap_or_else(|| table.name.clone()), table));
            }
            _ => are_all_known = false,
        }
    }
    let mut made = Vec::new();
    for item in items {
        match item {
            S::Wildcard(_) if are_all_known => {
                made.extend(relations.iter().flat_map(|(qualifier, table)| columns_of(qualifier, table)));
            }
            S::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                let qualifier = names::parts(name)?.pop().unwrap_or_default();
                match relations.iter().find(|(of, _)| *of == qualifier) {
                    Some((qualifier, table)) => made.extend(columns_of(qualifier, table)),
                    None => return Err(SqlError::unsupported("RETURNING * of this relation")),
                }
            }
            S::Wildcard(_) => return Err(SqlError::unsupported("RETURNING * beside a subquery")),
            item => made.push(item.clone()),
        }
    }
    Ok(made)
}

/// Whether a name is that of a common table expression.
fn is_cte(with: Option<&ast::With>, name: &ast::ObjectName) -> bool {
    let [part] = name.0.as_slice() else { return false };
    let Some(name) = part.as_ident().map(names::fold) else { return false };
    with.is_some_and(|with| with.cte_tables.iter().any(|cte| names::fold(&cte.alias.name) == name))
}

/// The row that a statement leaves, as a query over the row before sees it.
pub(super) struct Changed<'a> {
    table: &'a Table,
    shown: &'a str,
    /// What is assigned to which column.
    set: BTreeMap<usize, ast::Expr>,
}

impl<'a> Changed<'a> {
    /// With what follows from an UPDATE's assignments. Errors: as those of [`Changed::seen_by`].
    pub fn new(
        table: &'a Table,
        shown: &'a str,
        set: BTreeMap<usize, ast::Expr>,
        generated: &Generated,
    ) -> SqlResult<Changed<'a>> {
        let mut changed = Changed { table, shown, set };
        let mut following = Vec::new();
        let is_shown = |column: &usize| !table.columns[*column].hidden && !changed.set.is_empty();
        for column in generated.columns().filter(is_shown).collect::<Vec<_>>() {
            following.extend(changed.generated(column)?.map(|value| (column, value)));
        }
        changed.set.extend(following);
        Ok(changed)
    }

    /// What a generated column becomes.
    fn generated(&self, column: usize) -> SqlResult<Option<ast::Expr>> {
        let Some(sql) = &self.table.columns[column].default else { return Ok(None) };
        let mut value = sql::parse::parse_expr(sql)?;
        let _: ControlFlow<()> = walk::expressions_mut(&mut value, |e| {
            if let ast::Expr::Identifier(ident) = &*e
                && self.table.column_named(&names::fold(ident)).is_some()
            {
                let qualifier = ast::Ident::with_quote('"', self.shown);
                *e = ast::Expr::CompoundIdentifier(vec![qualifier, ident.clone()]);
            }
            ControlFlow::Continue(())
        });
        self.seen_by(value).map(Some)
    }

    /// Errors: 0A000 for a value that is computed before triggers have changed the row that it is about.
    pub fn refuse_triggered(&self, e: &ast::Expr) -> SqlResult<()> {
        if self.set.is_empty() || !self.table.triggers.change_rows(Event::Update) {
            return Ok(());
        }
        let is_column = |name: &ast::Ident| self.table.column_named(&names::fold(name)).is_some();
        let is_own = |e: &ast::Expr| match e {
            ast::Expr::Identifier(name) if is_column(name) || names::fold(name) == self.shown => {
                ControlFlow::Break(())
            }
            ast::Expr::CompoundIdentifier(path) if path.len() == 2 && names::fold(&path[0]) == self.shown => {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        };
        match walk::expressions(e, is_own) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => {
                let told =
                    "RETURNING of an expression that a query computes, of a table with BEFORE triggers";
                Err(SqlError::unsupported(told).hint("Return the columns that it is computed from."))
            }
        }
    }

    /// The expression with what is assigned to them in the place of the row's columns. Errors: 0A000 where that cannot
    /// be said.
    pub fn seen_by(&self, e: ast::Expr) -> SqlResult<ast::Expr> {
        let mut e = e;
        let outcome = walk::expressions_mut(&mut e, |e| {
            let name = match &*e {
                ast::Expr::Identifier(ident) => names::fold(ident),
                ast::Expr::CompoundIdentifier(path)
                    if path.len() == 2 && names::fold(&path[0]) == self.shown =>
                {
                    names::fold(&path[1])
                }
                _ => return ControlFlow::Continue(()),
            };
            let column = self.table.column_named(&name);
            let is_whole_row =
                matches!(&*e, ast::Expr::Identifier(_)) && column.is_none() && name == self.shown;
            if is_whole_row && !self.set.is_empty() {
                // The query has the row as it was.
                return ControlFlow::Break(SqlError::unsupported("RETURNING of a whole row by UPDATE").hint(
                    "Return its columns: json_build_object('a', a, 'b', b) in the place of row_to_json(t).",
                ));
            }
            let Some((column, value)) =
                column.and_then(|n| Some((&self.table.columns[n], self.set.get(&n)?)))
            else {
                return ControlFlow::Continue(());
            };
            // A value that a second look would find another one.
            if sql::volatile::is_volatile(value) {
                return ControlFlow::Break(SqlError::unsupported(
                    "RETURNING of a value that changes by itself",
                ));
            }
            match sql::parse::parse_expr(&format!("CAST(({value}) AS {})", column.data_type.qualified_name()))
            {
                Ok(assigned) => {
                    *e = assigned;
                    ControlFlow::Continue(())
                }
                Err(error) => ControlFlow::Break(error),
            }
        });
        match outcome {
            ControlFlow::Break(error) => Err(error),
            ControlFlow::Continue(()) => Ok(e),
        }
    }
}

//! Generated columns: what computes them from the other columns of their row.
//!
//! KEEPS: an expression of a generated column reads no generated column (what an index computes from one is written out), and is the same in every session: it is lowered in
//! UTC, and one that a time zone decides on is refused where it is declared.

use super::{Lowering, bind};
use crate::lower::scope::Scope;
use base::error::{SqlResult, SqlState};
use base::expr::Expr;
use base::schema::{Column, Identity, Table};
use base::zone::Zone;
use base::{DataType, Datum, SqlError};
use std::collections::BTreeSet;

/// A table's generated columns by their numbers, with what they are.
#[derive(Clone, Debug, Default)]
pub struct Generated(Vec<(usize, Expr)>);

impl Lowering<'_> {
    /// Errors: none of today's; what was declared is lowered again.
    pub fn generated(&mut self, table: &Table) -> SqlResult<Generated> {
        let mut generated = Vec::new();
        for (number, column) in table.columns.iter().enumerate() {
            if let (Identity::Generated, Some(sql)) = (column.identity, &column.default) {
                generated.push((number, self.generation(table, column, sql, Zone::Utc)?));
            }
        }
        Ok(Generated(generated).written_out(table))
    }

    /// The columns that indexes compute. Errors: none of today's.
    pub fn computed_keys(&mut self, table: &Table) -> SqlResult<Generated> {
        let has_any = (0..table.columns.len()).any(|column| table.is_of_index(column));
        if has_any { self.generated(table) } else { Ok(Generated::default()) }
    }

    /// What computes a column, lowered in a zone. Errors: 0A000 for what nodes cannot compute, 42703, 42804.
    pub fn generation(&mut self, table: &Table, column: &Column, sql: &str, zone: Zone) -> SqlResult<Expr> {
        let parsed = crate::parse::parse_expr(sql)?;
        let scope = Scope::table(table, None);
        let lower = || self.exprs(&scope).assignment(&parsed, &column.name, column.data_type);
        crate::zones::within(zone, lower)
            .map_err(|r| r.or(|| SqlError::unsupported(format!("the generation expression {sql}"))))
    }
}

impl Generated {
    /// The same, where what an index computes is computed from no generated column.
    fn written_out(mut self, table: &Table) -> Generated {
        let visible = self.clone();
        for (_, expr) in self.0.iter_mut().filter(|(c, _)| table.columns[*c].hidden) {
            *expr = visible.over_others(expr, table);
        }
        self
    }

    /// What computes a column.
    pub fn of(&self, column: usize) -> Option<&Expr> {
        self.0.iter().find(|(c, _)| *c == column).map(|(_, expr)| expr)
    }

    /// An expression over a table's row, computed from no generated column that users see.
    pub fn over_others(&self, expr: &Expr, table: &Table) -> Expr {
        let visible: Vec<_> = self.0.iter().filter(|(c, _)| !table.columns[*c].hidden).cloned().collect();
        in_place_of_columns(expr, &visible, table)
    }

    pub fn columns(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|(column, _)| *column)
    }

    /// Those that are computed from a column.
    pub fn from(&self, column: usize) -> impl Iterator<Item = usize> {
        let reads = move |expr: &Expr| {
            let mut reads = BTreeSet::new();
            bind::columns_of(expr, &mut reads);
            reads.contains(&column)
        };
        self.0.iter().filter(move |(_, expr)| reads(expr)).map(|(column, _)| *column)
    }

    /// Computes the columns of a row whose other values are there. Errors: those of the expressions.
    pub fn fill(&self, table: &Table, row: &mut [Datum]) -> SqlResult<()> {
        for (column, expr) in &self.0 {
            let value = expr.eval(row)?;
            row[*column] = super::insert::assign(value, &table.columns[*column])?;
        }
        Ok(())
    }

    /// Adds to an UPDATE's assignments those of the columns that follow from them.
    pub fn follow(&self, table: &Table, set: &mut Vec<(usize, Expr)>) {
        let assigned = |column: usize| set.iter().find(|(c, _)| *c == column).map(|(_, e)| e);
        let mut following = Vec::new();
        for (column, expr) in &self.0 {
            let mut reads = BTreeSet::new();
            bind::columns_of(expr, &mut reads);
            if !reads.iter().any(|c| assigned(*c).is_some()) {
                continue;
            }
            following.push((*column, in_place_of_columns(expr, set, table)));
        }
        set.extend(following);
    }
}

/// The expression with what is assigned to them in the place of columns, as the columns keep it.
fn in_place_of_columns(expr: &Expr, set: &[(usize, Expr)], table: &Table) -> Expr {
    bind::map_columns(expr, &|column| match set.iter().find(|(c, _)| *c == column) {
        // A label is its code already.
        Some((_, e)) => match table.columns[column].data_type {
            DataType::Enum(_) => e.clone(),
            data_type => Expr::Cast(Box::new(e.clone()), data_type),
        },
        None => Expr::Column(column),
    })
}

/// 428C9: a generated column takes no other value than its own.
pub(super) fn refuse_value(column: &Column, told: String) -> SqlError {
    SqlError::new(SqlState(*b"428C9"), told)
        .detail(format!("Column \"{}\" is a generated column.", column.name))
}

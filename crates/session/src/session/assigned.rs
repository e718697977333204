//! Values that UPDATE and MERGE assign to rows which a query finds: some the query computes, others the gateway.

use base::Datum;
use base::error::SqlResult;
use base::expr::Expr;
use base::schema::Table;
use base::schema::triggers::Event;
use sql::lower::bind::Binding;
use sql::lower::generated::Generated;
use sql::lower::insert::{assign, check_row};

/// Where the value of an assignment comes from.
pub(super) enum Assigned {
    Lowered(Expr),
    /// The n-th value that the query computes.
    Computed(usize),
}

impl Assigned {
    /// Errors: those of the expression.
    pub fn value(&self, binding: &Binding<'_>, row: &[Datum], computed: &[Datum]) -> SqlResult<Datum> {
        match self {
            Assigned::Lowered(expr) => binding.eval(expr, row),
            Assigned::Computed(n) => Ok(computed[*n].clone()),
        }
    }
}

/// A row with what is assigned to it, checked unless triggers have still to look at it. Errors: 23502, 23514, and those of the expressions.
pub(super) fn assigned_row(
    table: &Table,
    (set, generated): (&[(usize, Assigned)], &Generated),
    binding: &Binding<'_>,
    seen: &[Datum],
    computed: &[Datum],
) -> SqlResult<Vec<Datum>> {
    let mut new = seen.to_vec();
    for (column, value) in set {
        new[*column] = assign(value.value(binding, seen, computed)?, &table.columns[*column])?;
    }
    if !table.triggers.change_rows(Event::Update) {
        generated.fill(table, &mut new)?;
        check_row(table, &new)?;
    }
    Ok(new)
}

//! Holes in lowered expressions, and what fills them: parameters, and volatile functions, which are
//! evaluated here, at the gateway, and travel as values.
//!
//! A hole is a column number that no table has, so that expressions keep one type.

use crate::generators::Generators;
use crate::given::{self, GivenValues};
use base::error::SqlResult;
use base::expr::Expr;
use base::schema::Catalog;
use base::{Datum, SqlError, TableId};

/// `PARAMETER + n` is `$n+1`.
const PARAMETER: usize = 1 << 40;
/// `VOLATILE + v` is a [`Volatile`] function.
const VOLATILE: usize = 2 << 40;
/// `SEQUENCE + id` is `nextval` of that sequence.
const SEQUENCE: usize = 3 << 40;
/// `CURRENT + id` is `currval` of that sequence, and `LAST` is `lastval`.
const CURRENT: usize = SEQUENCE + (1 << 39);
const LAST: usize = COMPUTED - 1;
/// `COMPUTED + n` is the n-th value that a query computes for the statement beforehand.
const COMPUTED: usize = 4 << 40;

/// Functions whose value is not the same every time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Volatile {
    /// Start of the transaction, in UTC: `now()`, `current_timestamp`, `localtimestamp`.
    Now,
    /// `statement_timestamp()`.
    StatementTime,
    /// `clock_timestamp()`: when it is asked for.
    ClockTime,
    CurrentDate,
    Random,
    RandomUuid,
    /// The hidden key of a table without a primary key.
    RowId,
}

const VOLATILES: [Volatile; 7] = [
    Volatile::Now,
    Volatile::StatementTime,
    Volatile::ClockTime,
    Volatile::CurrentDate,
    Volatile::Random,
    Volatile::RandomUuid,
    Volatile::RowId,
];

/// What statements are told of the time, in µs since 2000-01-01 UTC.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// When the transaction began.
    pub transaction_us: i64,
    /// When the statement's text, or the request to execute it, came from the client.
    pub statement_us: i64,
}

pub fn parameter(n: usize) -> Expr {
    Expr::Column(PARAMETER + n)
}
/// Which parameter a hole is, from 0.
pub fn parameter_number(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Column(c) if (PARAMETER..VOLATILE).contains(c) => Some(c - PARAMETER),
        _ => None,
    }
}
pub fn volatile(function: Volatile) -> Expr {
    let n = VOLATILES.iter().position(|v| *v == function).expect("listed");
    Expr::Column(VOLATILE + n)
}
pub fn next_value(sequence: TableId) -> Expr {
    Expr::Column(SEQUENCE + sequence.0 as usize)
}
pub fn current_value(sequence: TableId) -> Expr {
    Expr::Column(CURRENT + sequence.0 as usize)
}
pub fn last_value() -> Expr {
    Expr::Column(LAST)
}

/// A value that a query computes.
pub fn computed(n: usize) -> Expr {
    Expr::Column(COMPUTED + n)
}
/// Which computed value a column number stands for.
pub fn computed_number(column: usize) -> Option<usize> {
    column.checked_sub(COMPUTED)
}

/// Whether the value is a constant once holes are filled: it reads no column.
pub fn is_constant(expr: &Expr) -> bool {
    let mut constant = true;
    expr.walk(&mut |e| constant &= !matches!(e, Expr::Column(c) if *c < PARAMETER));
    constant
}

/// Whether something has to be filled in.
pub fn has_holes(expr: &Expr) -> bool {
    let mut holes = false;
    expr.walk(&mut |e| holes |= matches!(e, Expr::Column(c) if *c >= PARAMETER));
    holes
}

/// Whether it must be evaluated anew for every row.
pub fn changes_per_row(expr: &Expr) -> bool {
    let mut changes = false;
    expr.walk(&mut |e| {
        changes |= match e {
            Expr::Column(c) if (SEQUENCE..COMPUTED).contains(c) => true,
            Expr::Column(c) if (VOLATILE..SEQUENCE).contains(c) => {
                use Volatile::{CurrentDate, Now, StatementTime};
                !matches!(VOLATILES[*c - VOLATILE], Now | StatementTime | CurrentDate)
            }
            _ => false,
        }
    });
    changes
}

/// What fills the holes.
pub struct Binding<'a> {
    pub parameters: &'a [Datum],
    pub times: Times,
    pub generators: &'a Generators,
    pub catalog: &'a Catalog,
}

impl Binding<'_> {
    fn hole(&self, column: usize) -> SqlResult<Datum> {
        if column >= COMPUTED {
            return Err(SqlError::internal("a value is computed before it is used"));
        }
        if column == LAST {
            return given::ask(GivenValues::last).map(Datum::Int);
        }
        if column >= CURRENT {
            let id = TableId((column - CURRENT) as u32);
            let sequence = self.catalog.sequences.get(&id).ok_or_else(base::schema::stale_schema)?;
            return given::ask(|given| given.current(id, &sequence.name)).map(Datum::Int);
        }
        if column >= SEQUENCE {
            let id = TableId((column - SEQUENCE) as u32);
            let sequence = self.catalog.sequences.get(&id).ok_or_else(base::schema::stale_schema)?;
            return self.generators.next_value(sequence).map(Datum::Int);
        }
        if column >= VOLATILE {
            return Ok(match VOLATILES[column - VOLATILE] {
                Volatile::Now => Datum::Timestamp(self.times.transaction_us),
                Volatile::StatementTime => Datum::Timestamp(self.times.statement_us),
                Volatile::ClockTime => Datum::Timestamp(self.generators.clock_us()),
                Volatile::CurrentDate => {
                    Datum::Date(self.times.transaction_us.div_euclid(base::datum::US_PER_DAY) as i32)
                }
                Volatile::Random => Datum::Float(self.generators.random_fraction()),
                Volatile::RandomUuid => Datum::Uuid(self.generators.random_uuid()),
                Volatile::RowId => Datum::Int(self.generators.next_row_id()),
            });
        }
        self.parameters.get(column - PARAMETER).cloned().ok_or_else(|| {
            SqlError::new(
                base::SqlState::UNDEFINED_PARAMETER,
                format!("there is no parameter ${}", column - PARAMETER + 1),
            )
        })
    }

    /// The expression with its holes filled, and what is over constants then computed.
    pub fn fill(&self, expr: &Expr) -> SqlResult<Expr> {
        let boxed = |e: &Expr| self.fill(e).map(Box::new);
        let list = |l: &[Expr]| l.iter().map(|e| self.fill(e)).collect::<SqlResult<Vec<_>>>();
        let filled = match expr {
            Expr::Column(c) if *c >= PARAMETER => Expr::Constant(self.hole(*c)?),
            Expr::Column(_) | Expr::Constant(_) => expr.clone(),
            Expr::Unary(operator, a) => Expr::Unary(*operator, boxed(a)?),
            Expr::Binary(operator, a, b) => Expr::Binary(*operator, boxed(a)?, boxed(b)?),
            Expr::IsNull(a) => Expr::IsNull(boxed(a)?),
            Expr::IsSame(a, b) => Expr::IsSame(boxed(a)?, boxed(b)?),
            Expr::In(a, items) => Expr::In(boxed(a)?, list(items)?),
            Expr::Like(a, b, fold) => Expr::Like(boxed(a)?, boxed(b)?, *fold),
            Expr::Case(branches, otherwise) => Expr::Case(
                branches
                    .iter()
                    .map(|(condition, value)| Ok((self.fill(condition)?, self.fill(value)?)))
                    .collect::<SqlResult<Vec<_>>>()?,
                otherwise.as_ref().map(|e| boxed(e)).transpose()?,
            ),
            Expr::Cast(a, to) => Expr::Cast(boxed(a)?, *to),
            Expr::Convert(a, from, to) => Expr::Convert(boxed(a)?, *from, *to),
            Expr::Call(function, arguments) => Expr::Call(*function, list(arguments)?),
        };
        Ok(filled.folded())
    }

    /// The value for a row, holes filled.
    pub fn eval(&self, expr: &Expr, row: &[Datum]) -> SqlResult<Datum> {
        expr.eval_with(&|column| match row.get(column) {
            Some(value) => Ok(value.clone()),
            None if column >= PARAMETER => self.hole(column),
            None => Ok(Datum::Null),
        })
    }

    pub fn fill_all(&self, exprs: &[Expr]) -> SqlResult<Vec<Expr>> {
        exprs.iter().map(|e| self.fill(e)).collect()
    }

    /// The value of a constant expression.
    pub fn value(&self, expr: &Expr) -> SqlResult<Datum> {
        match expr {
            Expr::Constant(value) => Ok(value.clone()),
            Expr::Column(c) if *c >= PARAMETER => self.hole(*c),
            _ => self.eval(expr, &[]),
        }
    }
}

/// The expression with other expressions in the place of its columns, holes included.
pub fn map_columns(expr: &Expr, map: &dyn Fn(usize) -> Expr) -> Expr {
    let boxed = |e: &Expr| Box::new(map_columns(e, map));
    let list = |l: &[Expr]| l.iter().map(|e| map_columns(e, map)).collect::<Vec<_>>();
    match expr {
        Expr::Column(c) => map(*c),
        Expr::Constant(_) => expr.clone(),
        Expr::Unary(operator, a) => Expr::Unary(*operator, boxed(a)),
        Expr::Binary(operator, a, b) => Expr::Binary(*operator, boxed(a), boxed(b)),
        Expr::IsNull(a) => Expr::IsNull(boxed(a)),
        Expr::IsSame(a, b) => Expr::IsSame(boxed(a), boxed(b)),
        Expr::In(a, items) => Expr::In(boxed(a), list(items)),
        Expr::Like(a, b, fold) => Expr::Like(boxed(a), boxed(b), *fold),
        Expr::Case(branches, otherwise) => Expr::Case(
            branches.iter().map(|(c, v)| (map_columns(c, map), map_columns(v, map))).collect(),
            otherwise.as_ref().map(|e| boxed(e)),
        ),
        Expr::Cast(a, to) => Expr::Cast(boxed(a), *to),
        Expr::Convert(a, from, to) => Expr::Convert(boxed(a), *from, *to),
        Expr::Call(function, arguments) => Expr::Call(*function, list(arguments)),
    }
}

/// Columns of tables that an expression reads.
pub fn columns_of(expr: &Expr, into: &mut std::collections::BTreeSet<usize>) {
    expr.walk(&mut |e| {
        if let Expr::Column(c) = e
            && is_table_column(*c)
        {
            into.insert(*c);
        }
    });
}

/// Whether a column number is a table's rather than a hole.
pub fn is_table_column(number: usize) -> bool {
    number < PARAMETER
}

//! TABLESAMPLE: some of a table's rows, as a query of them.
//!
//! Rows do not lie in blocks that could be taken as wholes, so SYSTEM takes rows one by one as BERNOULLI does. With REPEATABLE
//! a row is in the sample or not by its values and the seed alone: rows that are alike are in it together.

use super::bags::derived;
use base::error::{SqlError, SqlResult, SqlState};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectNamePart, TableAlias, TableFactor, TableSample, TableSampleKind, UnaryOperator, Value,
};

/// What is sampled, as a derived table; `None`: the relation is no sample. Errors: 2202H; 0A000 for a share that is no
/// number.
pub(super) fn query_of_sample(factor: &TableFactor) -> SqlResult<Option<TableFactor>> {
    let TableFactor::Table { name, alias, args: None, sample: Some(sample), .. } = factor else {
        return Ok(None);
    };
    let (TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) = sample;
    let share = share(sample)?;
    let bare = match name.0.last() {
        Some(ObjectNamePart::Identifier(name)) => name.clone(),
        _ => return Err(SqlError::unsupported("TABLESAMPLE of a function")),
    };
    let alias = alias.clone().unwrap_or_else(|| TableAlias {
        explicit: true,
        name: bare.clone(),
        columns: Vec::new(),
        at: None,
    });
    let condition = match seed(sample)? {
        _ if share >= 1.0 => "true".to_string(),
        _ if share <= 0.0 => "false".to_string(),
        None => format!("random() < {share}"),
        Some(seed) => by_seed(&bare, &seed, share),
    };
    let text = format!("SELECT * FROM {name} WHERE {condition}");
    derived(&text, &alias).map(Some).ok_or_else(|| SqlError::internal("a sample is a query"))
}

/// Digits of a digest that are compared: as many as a share has of any use.
const DIGITS: usize = 8;

fn by_seed(name: &Ident, seed: &str, share: f64) -> String {
    let bound = (share * 16f64.powi(DIGITS as i32)) as u64;
    format!("substr(md5(row_to_json({name})::text || '{seed}'), 1, {DIGITS}) < '{bound:08x}'")
}

/// How much of a table is wanted, of 1.
fn share(sample: &TableSample) -> SqlResult<f64> {
    let Some(quantity) = sample.quantity.as_ref().filter(|quantity| quantity.unit.is_none()) else {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "TABLESAMPLE takes a percentage in parentheses"));
    };
    if is_null(&quantity.value) {
        let message = "TABLESAMPLE parameter cannot be null";
        return Err(SqlError::new(SqlState(*b"2202H"), message));
    }
    let percent = number(&quantity.value).ok_or_else(|| {
        SqlError::unsupported("TABLESAMPLE of a percentage that is no number")
            .hint("Write the number itself.")
    })?;
    match (0.0..=100.0).contains(&percent) {
        true => Ok(percent / 100.0),
        false => Err(SqlError::new(SqlState(*b"2202H"), "sample percentage must be between 0 and 100")),
    }
}

/// The seed's text.
fn seed(sample: &TableSample) -> SqlResult<Option<String>> {
    let Some(seed) = &sample.seed else { return Ok(None) };
    match &seed.value.value {
        Value::Number(text, _) => Ok(Some(text.clone())),
        _ => Err(SqlError::unsupported("TABLESAMPLE REPEATABLE of a seed that is no number")),
    }
}

fn is_null(e: &Expr) -> bool {
    matches!(e, Expr::Value(value) if value.value == Value::Null)
}

fn number(e: &Expr) -> Option<f64> {
    match e {
        Expr::Nested(inner) => number(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => number(expr).map(|n| -n),
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => text.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::ast::{SetExpr, Statement};

    fn sampled(from: &str) -> SqlResult<String> {
        let Some(Statement::Query(query)) =
            sql::parse::parse(&format!("SELECT 1 FROM {from}")).unwrap().pop()
        else {
            panic!("{from}")
        };
        let SetExpr::Select(select) = *query.body else { panic!("{from}") };
        Ok(query_of_sample(&select.from[0].relation)?.expect("a sample").to_string())
    }

    #[test]
    fn a_sample_is_a_query() {
        for (from, wanted) in [
            ("t TABLESAMPLE BERNOULLI (12.5)", "(SELECT * FROM t WHERE random() < 0.125) AS t"),
            ("s.t AS x TABLESAMPLE SYSTEM (100)", "(SELECT * FROM s.t WHERE true) AS x"),
            (
                "t x TABLESAMPLE SYSTEM (50) REPEATABLE (3)",
                "(SELECT * FROM t WHERE SUBSTR(md5(row_to_json(t)::TEXT || '3'), 1, 8) < '80000000') x",
            ),
        ] {
            assert_eq!(sampled(from).unwrap(), wanted, "{from}");
        }
        for (from, state) in [
            ("t TABLESAMPLE BERNOULLI (101)", b"2202H"),
            ("t TABLESAMPLE BERNOULLI (-1)", b"2202H"),
            ("t TABLESAMPLE BERNOULLI (NULL)", b"2202H"),
            ("t TABLESAMPLE BERNOULLI (1 + 1)", b"0A000"),
        ] {
            assert_eq!(sampled(from).unwrap_err().state, SqlState(*state), "{from}");
        }
    }
}

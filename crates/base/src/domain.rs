//! Domains: a type with rules for its values, which users have made under a name.
//!
//! A value of a domain is one of its base type: rows, columns and keys know nothing of it. A table remembers which of its
//! columns are of which domain ([`crate::schema::Table::domains`]) and holds new rows against the rules; a cast to a domain
//! is a cast to the base type, whose value is held against them.
//!
//! KEEPS: what a table remembers of a domain is what the catalog has of it, so an ALTER DOMAIN describes every table anew
//! that has such a column.

use crate::schema::{Check, Held};
use crate::{DataType, Datum, SqlError, SqlState, TableId};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Domain {
    pub id: TableId,
    pub schema: String,
    pub name: String,
    /// The base type.
    pub data_type: DataType,
    /// SQL text, for columns of the domain that have no default of their own.
    pub default: Option<String>,
    pub not_null: bool,
    /// Conditions over one column, which is the value.
    pub checks: Vec<Check>,
}

impl Domain {
    /// Holds a value against the rules. Errors: 23502, 23514, and what computing a condition raises.
    pub fn check(&self, value: &Datum) -> Result<(), SqlError> {
        self.check_as(value, Held::ToAll)
    }

    /// The same with some of the conditions.
    pub fn check_as(&self, value: &Datum, held: Held) -> Result<(), SqlError> {
        if self.not_null && value.is_null() {
            let message = format!("domain {} does not allow null values", self.name);
            return Err(SqlError::new(SqlState::NOT_NULL_VIOLATION, message));
        }
        let row = std::slice::from_ref(value);
        for check in self.checks.iter().filter(|check| held.asks(check)) {
            // Unknown passes.
            if check.expr.eval(row)? == Datum::Bool(false) {
                let (name, constraint) = (&self.name, &check.name);
                let message = format!("value for domain {name} violates check constraint \"{constraint}\"");
                return Err(SqlError::new(SqlState::CHECK_VIOLATION, message).constraint(constraint));
            }
        }
        Ok(())
    }

    /// The same without constraints that are for values to come, as stored values are held against it.
    pub fn validated(&self) -> Domain {
        let checks = self.checks.iter().filter(|check| check.is_validated).cloned().collect();
        Domain { checks, ..self.clone() }
    }

    /// `"schema"."name"`.
    pub fn qualified_name(&self) -> String {
        let quoted = |part: &str| format!("\"{}\"", part.replace('"', "\"\""));
        format!("{}.{}", quoted(&self.schema), quoted(&self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::{BinaryOperator, Expr};

    fn positive() -> Domain {
        let expr = Expr::binary(BinaryOperator::Greater, Expr::Column(0), Expr::constant(0i64));
        let check =
            Check { name: "positive_check".into(), sql: "VALUE > 0".into(), expr, is_validated: true };
        Domain {
            id: TableId(7),
            schema: "public".into(),
            name: "positive".into(),
            data_type: DataType::Integer,
            default: None,
            not_null: false,
            checks: vec![check],
        }
    }

    #[test]
    fn a_value_is_held_against_the_rules() {
        let mut domain = positive();
        domain.check(&Datum::Int(1)).unwrap();
        domain.check(&Datum::Null).unwrap();
        let error = domain.check(&Datum::Int(0)).unwrap_err();
        assert_eq!(error.state, SqlState::CHECK_VIOLATION);
        assert_eq!(error.message, "value for domain positive violates check constraint \"positive_check\"");
        domain.not_null = true;
        let error = domain.check(&Datum::Null).unwrap_err();
        assert_eq!(error.state, SqlState::NOT_NULL_VIOLATION);
        assert_eq!(error.message, "domain positive does not allow null values");
    }

    #[test]
    fn stored_values_are_held_against_what_is_validated() {
        let mut domain = positive();
        domain.checks[0].is_validated = false;
        domain.check(&Datum::Int(0)).unwrap_err();
        domain.validated().check(&Datum::Int(0)).unwrap();
        domain.check_as(&Datum::Int(0), Held::ToValidated).unwrap();
    }
}

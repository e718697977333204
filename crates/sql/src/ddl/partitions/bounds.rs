//! What PARTITION BY and FOR VALUES say.

use super::Parent;
use crate::ddl::DdlContext;
use crate::ddl::defaults::lowered_default;
use crate::ddl::indexes::partition_expression;
use crate::lower::bind;
use crate::names;
use base::error::{SqlError, SqlResult, SqlState};
use base::partitioning::{Bound, Limit, PartitionKey, Partitioning, Strategy, compare_limits, lists};
use base::schema::{Column, Identity, Table};
use base::views::View;
use base::{DataType, Datum};
use sqlparser::ast::{self, Expr, ForValues, FunctionArg, FunctionArgExpr, FunctionArguments};
use std::cmp::Ordering;

/// A definition that means nothing, as PostgreSQL calls it.
pub(super) const INVALID_OBJECT: SqlState = SqlState(*b"42P17");

/// Most keys of a table, as in PostgreSQL.
const KEYS_MAX: usize = 32;

impl DdlContext<'_> {
    /// What PARTITION BY says of a table, or of a partition of a table. Errors: 42703, 42P17, 22023, 54011; 0A000 for
    /// HASH.
    pub(in crate::ddl) fn partitioning(&self, root: &Table, by: &Expr) -> SqlResult<Partitioning> {
        let Expr::Function(function) = by else { return Err(unknown_strategy(&by.to_string())) };
        let word = names::parts(&function.name)?.pop().unwrap_or_default();
        let strategy = match word.as_str() {
            "range" => Strategy::Range,
            "list" => Strategy::List,
            "hash" => {
                return Err(SqlError::unsupported("PARTITION BY HASH")
                    .hint("Rows are spread over partitions of the store anyway; use RANGE or LIST."));
            }
            other => return Err(unknown_strategy(other)),
        };
        let FunctionArguments::List(list) = &function.args else { return Err(unknown_strategy(&word)) };
        let mut keys = Vec::new();
        for argument in &list.args {
            let FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) = argument else {
                return Err(SqlError::unsupported(format!("the partition key {argument}")));
            };
            keys.push(self.partition_key(root, e)?);
        }
        if keys.is_empty() {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \")\""));
        }
        if strategy == Strategy::List && keys.len() > 1 {
            let told = "cannot use \"list\" partition strategy with more than one column";
            return Err(SqlError::new(INVALID_OBJECT, told));
        }
        if keys.len() > KEYS_MAX {
            let told = format!("cannot partition using more than {KEYS_MAX} columns");
            return Err(SqlError::new(SqlState::TOO_MANY_COLUMNS, told));
        }
        Ok(Partitioning { strategy, keys })
    }

    fn partition_key(&self, root: &Table, e: &Expr) -> SqlResult<PartitionKey> {
        let Expr::Identifier(name) = e else {
            let (text, data_type) = partition_expression(self, root, e)?;
            return Ok(PartitionKey::Expression(text, data_type));
        };
        let name = names::fold(name);
        let column = root.visible_columns().find(|(_, column)| column.name == name);
        let Some((number, column)) = column else {
            let told = format!("column \"{name}\" named in partition key does not exist");
            return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, told));
        };
        if column.identity == Identity::Generated {
            return Err(SqlError::new(INVALID_OBJECT, "cannot use generated column in partition key")
                .detail(format!("Column \"{name}\" is a generated column.")));
        }
        crate::ddl::indexes::refuse_unordered(column)?;
        Ok(PartitionKey::Column(number))
    }

    /// The bound of a partition. Errors: 42P16, 42P17, 42804, and those of its values.
    pub(super) fn bound(&self, parent: &Parent<'_>, name: &str, values: &ForValues) -> SqlResult<Bound> {
        let strategy = parent.divides.strategy;
        let types: Vec<DataType> =
            parent.divides.keys.iter().map(|key| crate::partitions::key_type(parent.root, key)).collect();
        match (values, strategy) {
            (ForValues::Default, _) => Ok(Bound::Default),
            (ForValues::In(given), Strategy::List) => {
                let mut listed: Vec<Datum> = Vec::new();
                for e in given {
                    let value = self.bound_value(e, types[0])?;
                    if !lists(&listed, &value) {
                        listed.push(value);
                    }
                }
                Ok(Bound::List(listed))
            }
            (ForValues::From { from, to }, Strategy::Range) => {
                let from = self.limits(from, &types, "FROM")?;
                let to = self.limits(to, &types, "TO")?;
                let bound = Bound::Range { from, to };
                refuse_empty(parent, name, &bound)?;
                Ok(bound)
            }
            _ => {
                let word = if strategy == Strategy::List { "list" } else { "range" };
                let told = format!("invalid bound specification for a {word} partition");
                Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, told))
            }
        }
    }

    fn limits(
        &self,
        given: &[ast::PartitionBoundValue],
        types: &[DataType],
        word: &str,
    ) -> SqlResult<Vec<Limit>> {
        if given.len() != types.len() {
            let told = format!("{word} must specify exactly one value per partitioning column");
            return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, told));
        }
        let mut limits: Vec<Limit> = Vec::new();
        for (value, data_type) in given.iter().zip(types) {
            let limit = match value {
                ast::PartitionBoundValue::MinValue => Limit::Min,
                ast::PartitionBoundValue::MaxValue => Limit::Max,
                ast::PartitionBoundValue::Expr(e) => match self.bound_value(e, *data_type)? {
                    Datum::Null => {
                        return Err(SqlError::new(INVALID_OBJECT, "cannot specify NULL in range bound"));
                    }
                    value => Limit::At(value),
                },
            };
            let endless = match limits.last() {
                Some(Limit::Min) if limit != Limit::Min => Some("MINVALUE"),
                Some(Limit::Max) if limit != Limit::Max => Some("MAXVALUE"),
                _ => None,
            };
            if let Some(word) = endless {
                let told = format!("every bound following {word} must also be {word}");
                return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, told));
            }
            limits.push(limit);
        }
        Ok(limits)
    }

    /// A value of a bound, computed now.
    fn bound_value(&self, e: &Expr, data_type: DataType) -> SqlResult<Datum> {
        let column = Column {
            name: "partition key".into(),
            data_type,
            not_null: false,
            default: None,
            missing: Datum::Null,
            identity: Identity::No,
            hidden: false,
        };
        let expr = lowered_default(self, &column, e).map_err(|error| match error.message.as_str() {
            "cannot use column reference in DEFAULT expression" => SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "cannot use column reference in partition bound expression",
            ),
            _ => error,
        })?;
        if bind::changes_per_row(&expr) {
            return Err(SqlError::unsupported(format!("the partition bound {e}")));
        }
        let binding = bind::Binding {
            parameters: &[],
            times: self.times,
            generators: self.generators,
            catalog: self.catalog,
        };
        crate::lower::insert::assign(binding.value(&expr)?, &column)
    }
}

fn unknown_strategy(word: &str) -> SqlError {
    let told = format!("unrecognized partitioning strategy \"{word}\"");
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, told)
}

/// Errors: 42P17 for a range without values.
fn refuse_empty(parent: &Parent<'_>, name: &str, bound: &Bound) -> SqlResult<()> {
    let Bound::Range { from, to } = bound else { return Ok(()) };
    if compare_limits(from, to) == Ordering::Less {
        return Ok(());
    }
    let shown = crate::partitions::shown_bound(parent.root, parent.divides, bound, base::zone::Zone::Utc);
    let ends = shown.trim_start_matches("FOR VALUES FROM ").split_once(" TO ").unwrap_or((&shown, ""));
    Err(SqlError::new(INVALID_OBJECT, format!("empty range bound specified for partition \"{name}\""))
        .detail(format!(
            "Specified lower bound {} is greater than or equal to upper bound {}.",
            ends.0, ends.1
        )))
}

/// Errors: 42P17 if some row could be one of the new partition and of another.
pub(super) fn refuse_overlap(name: &str, bound: &Bound, others: &[&View]) -> SqlResult<()> {
    let bound_of = |view: &View| view.partition.as_ref().map(|of| of.bound.clone());
    let Some(other) = others.iter().find(|view| bound_of(view).is_some_and(|of| of.overlaps(bound))) else {
        return Ok(());
    };
    let told = match bound {
        Bound::Default => {
            format!("partition \"{name}\" conflicts with existing default partition \"{}\"", other.shape.name)
        }
        _ => format!("partition \"{name}\" would overlap partition \"{}\"", other.shape.name),
    };
    Err(SqlError::new(INVALID_OBJECT, told))
}

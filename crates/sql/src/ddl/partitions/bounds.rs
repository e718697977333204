//! What PARTITION BY and FOR VALUES say.

use super::Parent;
use crate::ddl::DdlContext;
use crate::ddl::defaults::lowered_default;
use crate::ddl::indexes::partition_expression;
use crate::lower::bind;
use crate::names;
use base::error::{SqlError, SqlResult, SqlState};
use base::partitioning::{Bound, Limit, PartitionKey, Partitioning, Strategy, compare_limits, hash, lists};
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
    /// What PARTITION BY says of a table, or of a partition of a table. Errors: 42703, 42P17, 22023, 54011; 42704, 0A000
    /// for keys of types that have no hash.
    pub(in crate::ddl) fn partitioning(&self, root: &Table, by: &Expr) -> SqlResult<Partitioning> {
        let Expr::Function(function) = by else { return Err(unknown_strategy(&by.to_string())) };
        let word = names::parts(&function.name)?.pop().unwrap_or_default();
        let strategy = match word.as_str() {
            "range" => Strategy::Range,
            "list" => Strategy::List,
            "hash" => Strategy::Hash,
            other => return Err(unknown_strategy(other)),
        };
        let FunctionArguments::List(list) = &function.args else { return Err(unknown_strategy(&word)) };
        let mut keys = Vec::new();
        for argument in &list.args {
            let FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) = argument else {
                return Err(SqlError::unsupported(format!("the partition key {argument}")));
            };
            keys.push(self.partition_key(root, e, strategy)?);
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

    fn partition_key(&self, root: &Table, e: &Expr, strategy: Strategy) -> SqlResult<PartitionKey> {
        let Expr::Identifier(name) = e else {
            let (text, data_type) = partition_expression(self, root, e)?;
            refuse_unhashed(data_type, strategy)?;
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
        refuse_unhashed(column.data_type, strategy)?;
        crate::ddl::indexes::refuse_unordered(column)?;
        Ok(PartitionKey::Column(number))
    }

    /// The bound of a partition. Errors: 42P16, 42P17, 42804, and those of its values.
    pub(super) fn bound(&self, parent: &Parent<'_>, name: &str, values: &ForValues) -> SqlResult<Bound> {
        let strategy = parent.divides.strategy;
        let types: Vec<DataType> =
            parent.divides.keys.iter().map(|key| crate::partitions::key_type(parent.root, key)).collect();
        match (values, strategy) {
            (ForValues::Default, Strategy::Hash) => {
                let told = "a hash-partitioned table may not have a default partition";
                Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, told))
            }
            (ForValues::Default, _) => Ok(Bound::Default),
            (ForValues::With { modulus, remainder }, Strategy::Hash) => hash_bound(*modulus, *remainder),
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
                let word = strategy.word().to_lowercase();
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

/// Errors: 42704, 0A000 for a key of a hash partitioning that has no hash.
fn refuse_unhashed(data_type: DataType, strategy: Strategy) -> SqlResult<()> {
    if strategy != Strategy::Hash || hash::takes(data_type) {
        return Ok(());
    }
    let name = data_type.name();
    if matches!(data_type, DataType::Json | DataType::TsVector | DataType::TsQuery) {
        let told = format!("data type {name} has no default operator class for access method \"hash\"");
        let hint = "You must specify a hash operator class or define a default hash operator class for the data type.";
        return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, told).hint(hint));
    }
    Err(SqlError::unsupported(format!("PARTITION BY HASH of a key of type {name}"))
        .hint("Keys may be whole numbers, texts, booleans, dates, moments, times of day, uuid and bytea."))
}

/// Errors: 42P16; 42601 for a number that is no integer.
fn hash_bound(modulus: u64, remainder: u64) -> SqlResult<Bound> {
    let number = |given: u64| {
        let fitting = i32::try_from(given).ok().and_then(|number| u32::try_from(number).ok());
        let told = || format!("syntax error at or near \"{given}\"");
        fitting.ok_or_else(|| SqlError::new(SqlState::SYNTAX_ERROR, told()))
    };
    let (modulus, remainder) = (number(modulus)?, number(remainder)?);
    let told = match () {
        () if modulus == 0 => "modulus for hash partition must be an integer value greater than zero",
        () if remainder >= modulus => "remainder for hash partition must be less than modulus",
        () => return Ok(Bound::Hash { modulus, remainder }),
    };
    Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, told))
}

/// Errors: 42P17 if a modulus is no factor of the next larger one, or has the next smaller one as none.
fn refuse_modulus(bound: &Bound, others: &[&View]) -> SqlResult<()> {
    let numbers = |bound: &Bound| match bound {
        Bound::Hash { modulus, remainder } => Some((*modulus, *remainder)),
        _ => None,
    };
    let Some((modulus, remainder)) = numbers(bound) else { return Ok(()) };
    let of = |view: &&View| Some((numbers(&view.partition.as_ref()?.bound)?, view.shape.name.clone()));
    let mut known: Vec<((u32, u32), String)> = others.iter().filter_map(of).collect();
    known.sort();
    let behind = known.partition_point(|(numbers, _)| *numbers <= (modulus, remainder));
    let refused = |what: &str, ((other, _), name): &((u32, u32), String)| {
        let told = "every hash partition modulus must be a factor of the next larger modulus";
        Err(SqlError::new(INVALID_OBJECT, told).detail(format!(
            "The new modulus {modulus} is not {what} {other}, the modulus of existing partition \"{name}\"."
        )))
    };
    match (known[..behind].last(), known.get(behind)) {
        (Some(smaller), _) if !modulus.is_multiple_of(smaller.0.0) => refused("divisible by", smaller),
        (_, Some(larger)) if !larger.0.0.is_multiple_of(modulus) => refused("a factor of", larger),
        _ => Ok(()),
    }
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

/// Errors: 42P17 if some row could be one of the new partition and of another, or moduli do not fit.
pub(super) fn refuse_overlap(name: &str, bound: &Bound, others: &[&View]) -> SqlResult<()> {
    refuse_modulus(bound, others)?;
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

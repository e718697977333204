//! Which keys and partitions a condition can be about.
//!
//! Equalities on leading key columns become a key prefix, a comparison on the column after them a
//! range. What the keys do not express stays a filter.

use super::bind::{self, Binding};
use base::decimal::Decimal;
use base::error::SqlResult;
use base::expr::{BinaryOperator, Expr};
use base::key::KeyRange;
use base::schema::{Index, Location, Table};
use base::topology::Topology;
use base::{DataType, Datum, Key, PartitionId, RegionId};

/// The conditions that all must hold.
pub fn conjuncts(condition: Option<&Expr>) -> Vec<Expr> {
    fn split(e: &Expr, out: &mut Vec<Expr>) {
        match e {
            Expr::Binary(BinaryOperator::And, a, b) => {
                split(a, out);
                split(b, out);
            }
            other => out.push(other.clone()),
        }
    }
    let mut out = Vec::new();
    condition.iter().for_each(|e| split(e, &mut out));
    out
}

/// All of them again as one condition.
pub fn conjoin(conjuncts: impl IntoIterator<Item = Expr>) -> Option<Expr> {
    conjuncts.into_iter().reduce(|a, b| Expr::binary(BinaryOperator::And, a, b))
}

/// What one conjunct says of one column.
enum Fact<'e> {
    Equal(usize, &'e Expr),
    OneOf(usize, &'e [Expr]),
    /// Bound and whether it is included.
    AtLeast(usize, &'e Expr, bool),
    AtMost(usize, &'e Expr, bool),
}

fn fact(e: &Expr) -> Option<Fact<'_>> {
    use BinaryOperator::*;
    match e {
        Expr::Binary(operator, left, right) => {
            let (column, value, operator) = match (&**left, &**right) {
                (Expr::Column(c), value) if is_column(*c) && bind::is_constant(value) => {
                    (*c, value, *operator)
                }
                (value, Expr::Column(c)) if is_column(*c) && bind::is_constant(value) => {
                    let mirrored = match operator {
                        Less => Greater,
                        LessOrEqual => GreaterOrEqual,
                        Greater => Less,
                        GreaterOrEqual => LessOrEqual,
                        other => *other,
                    };
                    (*c, value, mirrored)
                }
                _ => return None,
            };
            if bind::changes_per_row(value) {
                return None;
            }
            match operator {
                Equal => Some(Fact::Equal(column, value)),
                Greater => Some(Fact::AtLeast(column, value, false)),
                GreaterOrEqual => Some(Fact::AtLeast(column, value, true)),
                Less => Some(Fact::AtMost(column, value, false)),
                LessOrEqual => Some(Fact::AtMost(column, value, true)),
                _ => None,
            }
        }
        Expr::In(needle, items) => match &**needle {
            Expr::Column(c)
                if is_column(*c)
                    && items.iter().all(|i| bind::is_constant(i) && !bind::changes_per_row(i)) =>
            {
                Some(Fact::OneOf(*c, items))
            }
            _ => None,
        },
        _ => None,
    }
}

fn is_column(number: usize) -> bool {
    bind::is_table_column(number)
}

/// How a condition finds rows: through the primary key or a secondary index.
#[derive(Clone, Debug)]
pub struct KeyPath {
    /// Types of the leading columns that the path fixes, and of the one after them.
    types: Vec<DataType>,
    /// Values of leading key columns.
    equal: Vec<Expr>,
    /// Values that the next column may have, each with all of `equal`.
    one_of: Option<Vec<Expr>>,
    at_least: Option<(Expr, bool)>,
    at_most: Option<(Expr, bool)>,
    /// Every column of the key is fixed.
    pub is_full: bool,
    /// Which of the fixed values is the partition column's.
    partition_at: Option<usize>,
    partitions: PartitionPath,
    /// What is left to check when the path is exact.
    pub residual: Option<Expr>,
}

/// How a condition finds partitions.
#[derive(Clone, Debug)]
enum PartitionPath {
    OneOf(DataType, Vec<Expr>),
    All,
}

/// One range of keys and where to look for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Reach {
    pub range: KeyRange,
    pub partitions: Vec<PartitionId>,
}

/// What a path comes to once parameters are known.
#[derive(Clone, Debug)]
pub struct Reached {
    pub reaches: Vec<Reach>,
    /// The fixed values say all that their conditions said; else the whole condition is the filter.
    pub is_exact: bool,
}

impl KeyPath {
    /// The path through the primary key.
    pub fn primary(table: &Table, conjuncts: &[Expr]) -> KeyPath {
        KeyPath::over(table, &table.primary_key, conjuncts)
    }
    /// The path through an index; its key goes on with the primary key, which is left to the filter.
    pub fn index(table: &Table, index: &Index, conjuncts: &[Expr]) -> KeyPath {
        let mut path = KeyPath::over(table, &index.columns, conjuncts);
        // An entry of a non-unique index is followed by the primary key.
        path.is_full = false;
        path
    }

    fn over(table: &Table, key: &[usize], conjuncts: &[Expr]) -> KeyPath {
        let facts: Vec<Option<Fact<'_>>> = conjuncts.iter().map(fact).collect();
        let mut used = vec![false; conjuncts.len()];
        let mut path = KeyPath {
            types: Vec::new(),
            equal: Vec::new(),
            one_of: None,
            at_least: None,
            at_most: None,
            is_full: false,
            partition_at: None,
            partitions: PartitionPath::All,
            residual: None,
        };
        let mut fixed = Vec::new();
        for &column in key {
            let found = facts.iter().enumerate().find_map(|(i, f)| match f {
                Some(Fact::Equal(c, value)) if *c == column => Some((i, *value)),
                _ => None,
            });
            let Some((i, value)) = found else { break };
            used[i] = true;
            fixed.push(column);
            path.equal.push(value.clone());
            path.types.push(table.columns[column].data_type);
        }
        if let Some(&next) = key.get(path.equal.len()) {
            path.types.push(table.columns[next].data_type);
            for (i, f) in facts.iter().enumerate() {
                match f {
                    Some(Fact::OneOf(c, values)) if *c == next && path.one_of.is_none() => {
                        used[i] = true;
                        fixed.push(next);
                        path.one_of = Some(values.to_vec());
                    }
                    Some(Fact::AtLeast(c, value, included)) if *c == next && path.at_least.is_none() => {
                        path.at_least = Some(((*value).clone(), *included));
                    }
                    Some(Fact::AtMost(c, value, included)) if *c == next && path.at_most.is_none() => {
                        path.at_most = Some(((*value).clone(), *included));
                    }
                    _ => {}
                }
            }
        }
        path.is_full = fixed.len() == key.len();
        let partition_column = table.partition_column();
        path.partition_at = partition_column.and_then(|p| fixed.iter().position(|c| *c == p));
        if let Some(column) = partition_column {
            let data_type = table.columns[column].data_type;
            for f in facts.iter().flatten() {
                match f {
                    Fact::Equal(c, value) if *c == column => {
                        path.partitions = PartitionPath::OneOf(data_type, vec![(*value).clone()]);
                        break;
                    }
                    Fact::OneOf(c, values) if *c == column => {
                        path.partitions = PartitionPath::OneOf(data_type, values.to_vec());
                    }
                    _ => {}
                }
            }
        }
        path.residual =
            conjoin(conjuncts.iter().zip(&used).filter(|(_, used)| !**used).map(|(c, _)| c.clone()));
        path
    }

    /// Whether the condition says nothing of the key's first column: every key is looked at.
    pub fn is_whole(&self) -> bool {
        let has_bound = self.at_least.is_some() || self.at_most.is_some();
        self.equal.is_empty() && self.one_of.is_none() && !has_bound
    }
    /// Leading columns that are fixed to single values.
    pub fn equal_count(&self) -> usize {
        self.equal.len()
    }
    /// The values that leading columns are fixed to, with the columns' types.
    pub fn fixed_values(&self) -> impl Iterator<Item = (&Expr, DataType)> {
        self.equal.iter().zip(self.types.iter().copied())
    }
    /// Leading columns that are fixed, to one of several values included.
    pub fn fixed_count(&self) -> usize {
        self.equal.len() + usize::from(self.one_of.is_some())
    }
    /// Exactly one key.
    pub fn is_point(&self) -> bool {
        self.is_full && self.one_of.is_none()
    }
    /// The partition is decided by the condition.
    pub fn is_located(&self) -> bool {
        !matches!(self.partitions, PartitionPath::All)
    }
    pub fn has_bound(&self) -> bool {
        self.at_least.is_some() || self.at_most.is_some()
    }

    /// Ranges and partitions for given parameters. Reads of a replicated table ask one partition,
    /// near `reader`; writes all of them.
    pub fn reach(
        &self,
        table: &Table,
        binding: &Binding<'_>,
        topology: &Topology,
        reader: Option<RegionId>,
    ) -> SqlResult<Reached> {
        let nowhere = |is_exact| Reached { reaches: Vec::new(), is_exact };
        let mut key = Key::new();
        let mut home: Option<Datum> = None;
        let mut is_exact = true;
        let mut usable = 0;
        for (i, expr) in self.equal.iter().enumerate() {
            match key_value(binding.value(expr)?, self.types[i]) {
                KeyValue::Exact(value) => {
                    key.push(&value);
                    usable += 1;
                    if self.partition_at == Some(i) {
                        home = Some(value);
                    }
                }
                KeyValue::Never => return Ok(nowhere(true)),
                KeyValue::Unusable => {
                    is_exact = false;
                    break;
                }
            }
        }
        let at = |value: Option<&Datum>| match value.map(|v| table.locate(v, topology)) {
            Some(Location::One(partition)) => Ok(vec![partition]),
            _ => self.partitions(table, binding, topology, reader),
        };
        let next = usable;
        if let Some(values) = self.one_of.as_ref().filter(|_| is_exact) {
            let mut reaches = Vec::with_capacity(values.len());
            for expr in values {
                match key_value(binding.value(expr)?, self.types[next]) {
                    KeyValue::Exact(value) => {
                        let mut longer = key.clone();
                        longer.push(&value);
                        let range =
                            if self.is_full { KeyRange::point(longer) } else { KeyRange::prefix(longer) };
                        let value =
                            if self.partition_at == Some(next) { Some(&value) } else { home.as_ref() };
                        reaches.push(Reach { range, partitions: at(value)? });
                    }
                    KeyValue::Never => {}
                    KeyValue::Unusable => is_exact = false,
                }
            }
            if is_exact {
                // The same value twice is one key.
                reaches.sort_by(|a, b| a.range.cmp(&b.range));
                reaches.dedup();
                return Ok(Reached { reaches, is_exact });
            }
        }
        let partitions = at(home.as_ref())?;
        if self.is_full && self.one_of.is_none() && is_exact {
            return Ok(Reached {
                reaches: vec![Reach { range: KeyRange::point(key), partitions }],
                is_exact,
            });
        }
        let mut range = KeyRange::prefix(key.clone());
        if key.is_empty() {
            range = KeyRange::all();
        }
        if is_exact && next < self.types.len() {
            if let Some((expr, included)) = &self.at_least
                && let KeyValue::Exact(value) = key_value(binding.value(expr)?, self.types[next])
            {
                let mut low = key.clone();
                low.push(&value);
                range.low = if *included { low } else { low.prefix_end().unwrap_or_else(|| low.successor()) };
            }
            if let Some((expr, included)) = &self.at_most
                && let KeyValue::Exact(value) = key_value(binding.value(expr)?, self.types[next])
            {
                let mut high = key.clone();
                high.push(&value);
                range.high = if *included { high.prefix_end() } else { Some(high) };
            }
        }
        if range.is_empty() {
            return Ok(nowhere(is_exact));
        }
        Ok(Reached { reaches: vec![Reach { range, partitions }], is_exact })
    }

    fn partitions(
        &self,
        table: &Table,
        binding: &Binding<'_>,
        topology: &Topology,
        reader: Option<RegionId>,
    ) -> SqlResult<Vec<PartitionId>> {
        if table.partition_column().is_none() {
            let near = reader.and_then(|region| topology.partitions_in(region).next());
            return Ok(match (reader, near) {
                (Some(_), Some(partition)) => vec![partition],
                (Some(_), None) => topology.partition_ids().take(1).collect(),
                (None, _) => topology.partition_ids().collect(),
            });
        }
        let PartitionPath::OneOf(data_type, values) = &self.partitions else {
            return Ok(table.partitions(topology));
        };
        let mut partitions = Vec::with_capacity(1);
        for expr in values {
            match key_value(binding.value(expr)?, *data_type) {
                KeyValue::Exact(value) => match table.locate(&value, topology) {
                    Location::One(partition) => partitions.push(partition),
                    Location::Everywhere => return Ok(table.partitions(topology)),
                },
                KeyValue::Never => {}
                KeyValue::Unusable => return Ok(table.partitions(topology)),
            }
        }
        partitions.sort_unstable();
        partitions.dedup();
        Ok(partitions)
    }
}

/// A value as a key column would hold it.
#[derive(Debug, PartialEq)]
pub enum KeyValue {
    Exact(Datum),
    /// No value of the column equals it.
    Never,
    /// Equal values may be encoded differently.
    Unusable,
}

/// Translates a value of a comparison into a column's own encoding.
pub fn key_value(value: Datum, column: DataType) -> KeyValue {
    use KeyValue::{Exact, Never, Unusable};
    match (column, value) {
        (_, Datum::Null) => Never,
        (DataType::SmallInt | DataType::Integer | DataType::BigInt, value) => match value {
            Datum::Int(_) => Exact(value),
            Datum::Decimal(d) => match d.rescale(0) {
                Some(whole) if whole == d => {
                    i64::try_from(whole.units()).map_or(Never, |i| Exact(Datum::Int(i)))
                }
                _ => Never,
            },
            _ => Unusable,
        },
        (DataType::Numeric { scale, .. }, value @ (Datum::Int(_) | Datum::Decimal(_))) => {
            let exact: Decimal = value.decimal();
            match exact.rescale(scale) {
                Some(scaled) if scaled == exact => Exact(Datum::Decimal(scaled)),
                _ => Never,
            }
        }
        (DataType::Real | DataType::Double, value) => {
            value.as_f64().map_or(Unusable, |f| Exact(Datum::Float(f)))
        }
        (DataType::Char { .. }, Datum::Text(s)) => {
            let trimmed = s.trim_end_matches(' ');
            Exact(if trimmed.len() == s.len() { Datum::Text(s) } else { Datum::text(trimmed) })
        }
        (DataType::Text | DataType::Varchar { .. }, value @ Datum::Text(_)) => Exact(value),
        (DataType::Boolean, value @ Datum::Bool(_)) => Exact(value),
        (DataType::Date, value @ Datum::Date(_)) => Exact(value),
        (DataType::Timestamp | DataType::TimestampTz, value @ Datum::Timestamp(_)) => Exact(value),
        (DataType::Timestamp | DataType::TimestampTz, Datum::Date(day)) => {
            Exact(Datum::Timestamp(i64::from(day) * base::datum::US_PER_DAY))
        }
        (DataType::Uuid, value @ Datum::Uuid(_)) => Exact(value),
        (
            DataType::Inet | DataType::Cidr | DataType::MacAddr | DataType::MacAddr8,
            value @ Datum::Inet(_),
        ) => Exact(value),
        (DataType::TimeTz, value @ Datum::TimeTz(_)) => Exact(value),
        (DataType::Bytea, value @ Datum::Bytes(_)) => Exact(value),
        (DataType::Time, value @ Datum::Time(_)) => Exact(value),
        (DataType::Interval, value @ Datum::Interval(_)) => Exact(value),
        (DataType::Jsonb, value @ Datum::Json(_)) => Exact(value),
        (DataType::Enum(_), value @ Datum::Int(_)) => Exact(value),
        (DataType::Composite(_), value @ Datum::Array(_)) => Exact(value),
        _ => Unusable,
    }
}

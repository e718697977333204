//! Partitions of tables: the condition under which each has a row of its table, as SQL text.
//!
//! KEEPS: conditions are true or false, never null, so that `NOT` of one takes in exactly the other rows.

use crate::names::quoted;
use base::partitioning::{
    Bound, Limit, Partition, PartitionKey, Partitioning, compare_limits, take_in_all_hashes,
};
use base::schema::{Catalog, Table};
use base::views::View;
use base::zone::Zone;
use base::{DataType, Datum, TableId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A partitioned table with the partitions that it has, theirs included.
pub struct Tree<'a> {
    root: &'a Table,
    nodes: BTreeMap<TableId, Node>,
}

struct Node {
    partition: Partition,
    /// How its own rows are divided, if they are.
    divides: Option<Arc<Partitioning>>,
}

/// The table that has the rows of a relation: of a partition, that of the table it is one of.
pub fn root(catalog: &Catalog, id: TableId) -> Option<&Arc<Table>> {
    let mut at = id;
    while let Some(partition) = partition(catalog, at) {
        at = partition.parent;
    }
    catalog.table(at)
}

/// A partition and those that it is in, from the innermost one on, without the table that has their rows.
pub fn upwards(catalog: &Catalog, id: TableId) -> Vec<TableId> {
    let (mut at, mut found) = (id, Vec::new());
    while let Some(of) = partition(catalog, at) {
        found.push(at);
        at = of.parent;
    }
    found
}

/// What makes a relation a partition, if it is one.
pub fn partition(catalog: &Catalog, id: TableId) -> Option<&Partition> {
    catalog.views.get(&id)?.partition.as_ref()
}

/// Partitions of a table or of a partition, not theirs, by name.
pub fn children(catalog: &Catalog, parent: TableId) -> Vec<&Arc<View>> {
    let is_one = |view: &&Arc<View>| view.partition.as_ref().is_some_and(|of| of.parent == parent);
    let mut found: Vec<&Arc<View>> = catalog.views.values().filter(is_one).collect();
    found.sort_by(|a, b| a.shape.name.cmp(&b.shape.name));
    found
}

/// Partitions of a relation and theirs, each behind the one that it is of.
pub fn below(catalog: &Catalog, parent: TableId) -> Vec<&Arc<View>> {
    let mut found = Vec::new();
    for child in children(catalog, parent) {
        found.push(child);
        found.extend(below(catalog, child.shape.id));
    }
    found
}

/// How a table or a partition divides its rows: `RANGE (day, lower(name))`.
pub fn shown_key(root: &Table, of: &Partitioning) -> String {
    let shown = |key: &PartitionKey| match key {
        PartitionKey::Column(column) => quoted(&root.columns[*column].name).to_string(),
        PartitionKey::Expression(text, _) => crate::ddl::indexes::shown_key(text),
    };
    let keys: Vec<String> = of.keys.iter().map(shown).collect();
    format!("{} ({})", of.strategy.word(), keys.join(", "))
}

/// A bound as `pg_dump` writes it, of a partition whose parent divides its rows like this; moments are of a zone.
pub fn shown_bound(root: &Table, of: &Partitioning, bound: &Bound, zone: Zone) -> String {
    let keys = keys(root, of);
    let value = |at: usize, value: &Datum| literal_in(value, keys[at.min(keys.len() - 1)].data_type, zone);
    let limits = |of: &[Limit]| {
        let shown = of.iter().enumerate().map(|(at, limit)| match limit {
            Limit::Min => "MINVALUE".to_string(),
            Limit::Max => "MAXVALUE".to_string(),
            Limit::At(given) => value(at, given),
        });
        shown.collect::<Vec<_>>().join(", ")
    };
    match bound {
        Bound::Default => "DEFAULT".into(),
        Bound::List(values) => {
            let shown: Vec<String> = values.iter().map(|given| value(0, given)).collect();
            format!("FOR VALUES IN ({})", shown.join(", "))
        }
        Bound::Range { from, to } => format!("FOR VALUES FROM ({}) TO ({})", limits(from), limits(to)),
        Bound::Hash { modulus, remainder } => {
            format!("FOR VALUES WITH (modulus {modulus}, remainder {remainder})")
        }
    }
}

/// A key in conditions.
struct Key {
    /// A column's name, or an expression in parentheses.
    text: String,
    data_type: DataType,
}

impl Key {
    fn literal(&self, value: &Datum) -> String {
        literal_in(value, self.data_type, Zone::Utc)
    }
}

fn keys(root: &Table, of: &Partitioning) -> Vec<Key> {
    let key = |key: &PartitionKey| {
        let text = match key {
            PartitionKey::Column(column) => quoted(&root.columns[*column].name).to_string(),
            PartitionKey::Expression(text, _) => format!("({text})"),
        };
        Key { text, data_type: key_type(root, key) }
    };
    of.keys.iter().map(key).collect()
}

/// The type of a key's values.
pub fn key_type(root: &Table, key: &PartitionKey) -> DataType {
    match key {
        PartitionKey::Column(column) => root.columns[*column].data_type,
        PartitionKey::Expression(_, data_type) => *data_type,
    }
}

/// A value as it is written beside a key, which gives it its type.
fn literal_in(value: &Datum, data_type: DataType, zone: Zone) -> String {
    let shown = base::text::display_in(value, data_type, zone);
    match value {
        Datum::Null => "NULL".into(),
        Datum::Int(_) | Datum::Decimal(_) if data_type.enumeration().is_none() => shown,
        Datum::Bool(is_true) => if *is_true { "true" } else { "false" }.into(),
        _ => format!("'{}'", shown.replace('\'', "''")),
    }
}

impl<'a> Tree<'a> {
    /// The partitions of a table among these views.
    pub fn of<'v>(root: &'a Table, views: impl Iterator<Item = &'v View>) -> Tree<'a> {
        let mut rest: BTreeMap<TableId, Node> = views
            .filter_map(|view| {
                let divides = view.shape.partitioning.clone();
                Some((view.shape.id, Node { partition: view.partition.clone()?, divides }))
            })
            .collect();
        let mut nodes: BTreeMap<TableId, Node> = BTreeMap::new();
        loop {
            let is_next = |node: &Node| {
                let parent = node.partition.parent;
                parent == root.id || nodes.contains_key(&parent)
            };
            let next: Vec<TableId> = rest.iter().filter(|(_, n)| is_next(n)).map(|(id, _)| *id).collect();
            if next.is_empty() {
                return Tree { root, nodes };
            }
            for id in next {
                nodes.extend(rest.remove(&id).map(|node| (id, node)));
            }
        }
    }

    /// The partitions of a catalog's table.
    pub fn within(catalog: &Catalog, root: &'a Table) -> Tree<'a> {
        Tree::of(root, catalog.views.values().map(Arc::as_ref))
    }

    /// Partitions at all levels.
    pub fn ids(&self) -> impl Iterator<Item = TableId> + '_ {
        self.nodes.keys().copied()
    }

    fn children(&self, parent: TableId) -> impl Iterator<Item = (TableId, &Node)> {
        let is_one = move |(_, node): &(&TableId, &Node)| node.partition.parent == parent;
        self.nodes.iter().filter(is_one).map(|(id, node)| (*id, node))
    }

    fn division(&self, id: TableId) -> Option<&Partitioning> {
        match self.nodes.get(&id) {
            Some(node) => node.divides.as_deref(),
            None => self.root.partitioning.as_deref(),
        }
    }

    /// Which of the table's rows a partition has.
    pub fn condition(&self, id: TableId) -> String {
        self.joined(id, |node| self.own_condition(node))
    }

    /// The same as clients see it, with PostgreSQL's name of the function of hashes.
    pub fn shown_condition(&self, id: TableId) -> String {
        self.joined(id, |node| match (&node.partition.bound, self.division(node.partition.parent)) {
            (Bound::Hash { modulus, remainder }, Some(of)) => {
                let (parent, keys) = (crate::lower::oid(node.partition.parent), self.key_list(of));
                format!("satisfies_hash_partition('{parent}'::oid, {modulus}, {remainder}, {keys})")
            }
            _ => self.own_condition(node),
        })
    }

    /// What is said of a partition and of those that it is in, from the outermost one on.
    fn joined(&self, id: TableId, of_one: impl Fn(&Node) -> String) -> String {
        let (mut at, mut parts) = (id, Vec::new());
        while let Some(node) = self.nodes.get(&at) {
            parts.push(of_one(node));
            at = node.partition.parent;
        }
        parts.reverse();
        parts.join(" AND ")
    }

    /// Which rows of its parent a partition has, in parentheses.
    fn own_condition(&self, node: &Node) -> String {
        let parent = node.partition.parent;
        let Some(of) = self.division(parent) else { return "(false)".into() };
        if node.partition.bound != Bound::Default {
            return self.taken_by(of, &node.partition.bound);
        }
        let others = self.children(parent).filter(|(_, other)| other.partition.bound != Bound::Default);
        let bounds: Vec<&Bound> = others.map(|(_, other)| &other.partition.bound).collect();
        match bounds.as_slice() {
            [] => "(true)".into(),
            bounds => format!("(NOT ({}))", self.taken_by_any(of, bounds)),
        }
    }

    /// Which of the table's rows some partition takes in; `None` if all are.
    pub fn taken(&self) -> Option<String> {
        self.taken_below(self.root.id)
    }

    fn taken_below(&self, parent: TableId) -> Option<String> {
        let of = self.division(parent)?;
        let (mut whole, mut divided, mut rest) = (Vec::new(), Vec::new(), None);
        for (id, node) in self.children(parent) {
            match node.divides.as_ref().and_then(|_| self.taken_below(id)) {
                Some(taken) => divided.push(format!("({} AND ({taken}))", self.own_condition(node))),
                None if node.partition.bound == Bound::Default => rest = Some(self.own_condition(node)),
                None => whole.push(&node.partition.bound),
            }
        }
        let is_all = rest.is_some() || take_in_all_hashes(whole.iter().copied());
        if is_all && divided.is_empty() {
            return None;
        }
        let whole = (!whole.is_empty()).then(|| self.taken_by_any(of, &whole));
        let parts: Vec<String> = whole.into_iter().chain(rest).chain(divided).collect();
        Some(if parts.is_empty() { "false".into() } else { parts.join(" OR ") })
    }

    /// Rows that one of some bounds takes in. Ranges that touch are one range, so that a table with a partition for each
    /// month compares each new row with two values.
    fn taken_by_any(&self, of: &Partitioning, bounds: &[&Bound]) -> String {
        let mut ranges: Vec<(&[Limit], &[Limit])> = bounds
            .iter()
            .filter_map(|bound| match bound {
                Bound::Range { from, to } => Some((from.as_slice(), to.as_slice())),
                _ => None,
            })
            .collect();
        ranges.sort_by(|a, b| compare_limits(a.0, b.0));
        let mut joined: Vec<(&[Limit], &[Limit])> = Vec::new();
        for (from, to) in ranges {
            match joined.last_mut() {
                Some(last) if last.1 == from => last.1 = to,
                _ => joined.push((from, to)),
            }
        }
        let mut values: Vec<Datum> = Vec::new();
        for bound in bounds {
            if let Bound::List(of_one) = bound {
                values.extend(of_one.iter().cloned());
            }
        }
        let mut parts: Vec<String> =
            joined.into_iter().map(|(from, to)| self.within_range(of, from, to)).collect();
        if !values.is_empty() {
            parts.push(self.in_list(of, &values));
        }
        let of_hashes = bounds.iter().filter(|bound| matches!(bound, Bound::Hash { .. }));
        parts.extend(of_hashes.map(|bound| self.taken_by(of, bound)));
        parts.join(" OR ")
    }

    fn taken_by(&self, of: &Partitioning, bound: &Bound) -> String {
        match bound {
            Bound::Default => "(true)".into(),
            Bound::List(values) => self.in_list(of, values),
            Bound::Range { from, to } => self.within_range(of, from, to),
            Bound::Hash { modulus, remainder } => self.of_remainder(of, *modulus, *remainder),
        }
    }

    /// Null keys have a hash too, so this is never null.
    fn of_remainder(&self, of: &Partitioning, modulus: u32, remainder: u32) -> String {
        let (function, keys) = (base::partitioning::hash::FUNCTION, self.key_list(of));
        format!("({function}({modulus}, {remainder}, {keys}))")
    }

    fn key_list(&self, of: &Partitioning) -> String {
        let keys: Vec<String> = keys(self.root, of).into_iter().map(|key| key.text).collect();
        keys.join(", ")
    }

    fn in_list(&self, of: &Partitioning, values: &[Datum]) -> String {
        let key = keys(self.root, of).swap_remove(0);
        let listed: Vec<String> =
            values.iter().filter(|value| !value.is_null()).map(|value| key.literal(value)).collect();
        let (has_null, key, listed) = (listed.len() < values.len(), key.text, listed.join(", "));
        match (has_null, listed.is_empty()) {
            (true, true) => format!("({key} IS NULL)"),
            (true, false) => format!("({key} IS NULL OR {key} IN ({listed}))"),
            (false, _) => format!("({key} IS NOT NULL AND {key} IN ({listed}))"),
        }
    }

    fn within_range(&self, of: &Partitioning, from: &[Limit], to: &[Limit]) -> String {
        let keys = keys(self.root, of);
        let mut parts: Vec<String> = keys.iter().map(|key| format!("{} IS NOT NULL", key.text)).collect();
        parts.extend(side(&keys, from, Side::NotBefore).text());
        parts.extend(side(&keys, to, Side::Before).text());
        format!("({})", parts.join(" AND "))
    }
}

/// On which side of an end of a range keys are.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    NotBefore,
    Before,
}

/// A condition that may be known.
enum Known {
    Always,
    Never,
    If(String),
}

impl Known {
    fn text(self) -> Option<String> {
        match self {
            Known::Always => None,
            Known::Never => Some("false".into()),
            Known::If(text) => Some(text),
        }
    }
}

fn side(keys: &[Key], limits: &[Limit], on: Side) -> Known {
    let ([key, keys @ ..], [limit, limits @ ..]) = (keys, limits) else {
        return if on == Side::NotBefore { Known::Always } else { Known::Never };
    };
    let value = match (limit, on) {
        (Limit::Min, Side::NotBefore) | (Limit::Max, Side::Before) => return Known::Always,
        (Limit::Max, Side::NotBefore) | (Limit::Min, Side::Before) => return Known::Never,
        (Limit::At(value), _) => key.literal(value),
    };
    let (key, beyond) = (&key.text, if on == Side::NotBefore { ">" } else { "<" });
    Known::If(match side(keys, limits, on) {
        Known::Always => format!("{key} {beyond}= {value}"),
        Known::Never => format!("{key} {beyond} {value}"),
        Known::If(rest) => format!("({key} {beyond} {value} OR ({key} = {value} AND {rest}))"),
    })
}

#[cfg(test)]
mod tests;

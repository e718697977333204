//! Rows that are written anew, because ALTER TABLE makes another table of theirs.

use super::Session;
use super::create_as::cannot_index;
use super::transaction::SeenRow;
use super::turns::Turn;
use base::domain::Domain;
use base::error::{SqlResult, SqlState};
use base::schema::{Index, SchemaAction, Sequence, Table};
use base::{Datum, SqlError};
use sql::ddl;
use sql::lower::bind::Binding;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Session {
    /// Columns that number so many rows, each with the sequence that it counts as it was declared; the sequences that come
    /// with the change go on behind the rows. Errors: 2200H.
    pub(super) fn numbers(
        &self,
        rewrite: &ddl::Rewrite,
        rows: usize,
        actions: &mut [SchemaAction],
    ) -> SqlResult<Vec<(usize, Sequence)>> {
        let mut numbers = Vec::new();
        for action in actions {
            let SchemaAction::CreateSequence(sequence) = action else { continue };
            let Some((owner, column)) = sequence.owner else { continue };
            if owner != rewrite.to || !rewrite.numbered.contains(&column) {
                continue;
            }
            numbers.push((column, sequence.clone()));
            if rows > 0 {
                let last = sql::generators::nth(sequence, rows as i64 - 1)?;
                let next = super::sequences::next_value(sequence, last, true)?;
                *sequence = self.gateway.node.generators.moved(sequence, next, true);
            }
        }
        Ok(numbers)
    }

    /// Writes the rows of a table into the one that takes its place. Errors: 23502, 23505, 23514.
    pub(super) async fn write_anew(
        &mut self,
        rewrite: &ddl::Rewrite,
        rows: Vec<SeenRow>,
        numbers: &[(usize, Sequence)],
    ) -> SqlResult<()> {
        let (gateway, catalog) = (self.gateway.clone(), self.catalog());
        let table = catalog.table(rewrite.to).expect("it was made just now");
        let binding = Binding {
            parameters: &[],
            times: self.times(),
            generators: &gateway.node.generators,
            catalog: &catalog,
        };
        let generated = self.lowered(|lowering| lowering.generated(table))?;
        let set = rewrite.set.iter().map(|(column, _)| *column);
        let numbered = numbers.iter().map(|(column, _)| *column);
        let computed: BTreeSet<usize> = set.chain(numbered).chain(generated.columns()).collect();
        let kept = kept_by_rows(table, &rewrite.from, &computed);
        // Rows with other values may share an entry of an index that they were told apart by.
        let is_entered = |index: &&Index| {
            let is_new = rewrite.from.indexes.iter().all(|old| old.name != index.name);
            index.unique && (is_new || index.columns.iter().any(|column| computed.contains(column)))
        };
        let entered: Vec<&Index> = table.indexes.iter().filter(is_entered).collect();
        let (mut taken, mut entries) = (BTreeSet::new(), BTreeSet::new());
        let mut turn = Turn::begin();
        for (nth, row) in rows.into_iter().enumerate() {
            turn.give_way().await;
            let mut values = row.values.as_ref().clone();
            values.extend(table.columns[values.len()..].iter().map(|column| column.missing.clone()));
            for (column, expr) in &rewrite.set {
                let value = binding.eval(expr, &row.values)?;
                values[*column] = sql::lower::insert::assign(value, &table.columns[*column])?;
            }
            for (column, sequence) in numbers {
                values[*column] = Datum::Int(sql::generators::nth(sequence, nth as i64)?);
            }
            generated.fill(table, &mut values)?;
            if let Some(column) = table.primary_key.iter().find(|c| values[**c].is_null()) {
                let name = &table.columns[*column].name;
                let told = format!("column \"{name}\" of relation \"{}\" contains null values", table.name);
                let error = SqlError::new(SqlState::NOT_NULL_VIOLATION, told);
                return Err(error.table(&table.name).column(name));
            }
            // What an index computes breaks no rule that the rows have kept.
            if !rewrite.set.is_empty()
                || !numbers.is_empty()
                || generated.columns().any(|column| !table.columns[column].hidden)
            {
                sql::lower::insert::check_row(&kept, &values)?;
            }
            let key = table.key_of(&values);
            if !taken.insert(key.clone()) {
                return Err(cannot_index(table, &table.primary_key_name, &table.primary_key, &values));
            }
            for index in &entered {
                let entry = table.index_entry(index, &values, &key);
                if !entries.insert((index.id, entry)) {
                    return Err(cannot_index(table, &index.name, index.keys(), &values));
                }
            }
            self.open().insert(table, key, values)?;
        }
        Ok(())
    }
}

/// A table with what its rows are held against when they are written anew. Constraints that are not validated are for rows
/// to come; of a domain, for values to come: a column that is computed has other values, or had no domain before.
fn kept_by_rows(table: &Table, from: &Table, computed: &BTreeSet<usize>) -> Table {
    let was_there = |column: usize, domain: &Domain| {
        !computed.contains(&column) && from.domains.get(&column).is_some_and(|known| known.id == domain.id)
    };
    let checks = table.checks.iter().filter(|check| check.is_validated).cloned().collect();
    let domains = table.domains.iter().map(|(&column, domain)| match was_there(column, domain) {
        true => (column, Arc::new(domain.validated())),
        false => (column, domain.clone()),
    });
    Table { checks: Arc::new(checks), domains: domains.collect(), ..table.clone() }
}

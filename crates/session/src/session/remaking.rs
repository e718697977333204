//! Rows that are written anew, because ALTER TABLE makes another table of theirs.

use super::Session;
use super::create_as::cannot_index;
use super::transaction::SeenRow;
use super::turns::Turn;
use base::error::{SqlResult, SqlState};
use base::schema::{Index, SchemaAction, Sequence};
use base::{Datum, SqlError};
use sql::ddl;
use sql::lower::bind::Binding;
use std::collections::BTreeSet;

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
        let is_new = |index: &&Index| rewrite.from.indexes.iter().all(|old| old.name != index.name);
        let entered: Vec<&Index> = table.indexes.iter().filter(|i| i.unique).filter(is_new).collect();
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
                sql::lower::insert::check_row(table, &values)?;
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

//! INSERT and its ON CONFLICT.

use super::declared::undeclared_key;
use super::overlay::{Run, complete};
use super::statement::{push_returning, satisfies};
use super::violation::{check_row, duplicate};
use crate::store::TableStore;
use base::error::{SqlError, SqlResult, SqlState};
use base::expr::Expr;
use base::schema::Location;
use base::txn::{AccessMode, OnConflict, StatementResult};
use base::{Datum, Key, Row, TableId};
use std::collections::BTreeSet;

impl<'a> Run<'a> {
    pub(super) fn insert(
        &mut self,
        table: &'a TableStore,
        rows: &[Row],
        on_conflict: &OnConflict,
        returning: Option<&[Expr]>,
    ) -> SqlResult<StatementResult> {
        let desc = &table.desc;
        let has_homes = table.indexes.iter().any(|index| !index.local);
        let arbiter = match on_conflict {
            OnConflict::Fail => None,
            OnConflict::Nothing { index } => *index,
            OnConflict::Update { index, .. } => Some(*index),
        };
        if has_homes && !matches!(on_conflict, OnConflict::Fail) {
            return Err(SqlError::unsupported(
                "ON CONFLICT on a table with a unique index whose entries live elsewhere",
            )
            .hint("Make the partition column part of the unique index, or use BEGIN … COMMIT."));
        }
        if let Some(id) = arbiter
            && id != desc.id
            && !table.index(id).is_some_and(|index| index.desc.unique)
        {
            return Err(SqlError::new(
                SqlState::INVALID_COLUMN_REFERENCE,
                "there is no unique constraint matching the ON CONFLICT specification",
            ));
        }
        let mut result = StatementResult::default();
        // Rows that this statement inserted or updated, for DO UPDATE.
        let mut affected = BTreeSet::new();
        for row in rows {
            let values = complete(table, row)?;
            let key = desc.key_of(&values);
            for index in table.indexes.iter().filter(|index| !index.local) {
                self.enter_home(table, index, &values, &key, |_| false)?;
            }
            match desc.locate_row(&values, &self.store.topology) {
                Location::One(partition) if partition != self.store.partition => continue,
                _ => check_row(desc, &values)?,
            }
            let taken = match on_conflict {
                OnConflict::Fail => None,
                _ => self.taken(table, &key, &values, arbiter)?,
            };
            match (taken, on_conflict) {
                (None, _) => {
                    if self.row(table, &key).is_some() {
                        return Err(duplicate(desc, None, &values));
                    }
                    push_returning(&mut result, returning, &values)?;
                    if matches!(on_conflict, OnConflict::Update { .. }) {
                        affected.insert(key.clone());
                    }
                    self.put(table, key, None, Some((row.clone(), &values)))?;
                    result.affected += 1;
                }
                (Some(existing), OnConflict::Update { set, filter, .. }) => {
                    if !affected.insert(existing.clone()) {
                        return Err(SqlError::new(
                            SqlState::CARDINALITY_VIOLATION,
                            "ON CONFLICT DO UPDATE command cannot affect row a second time",
                        )
                        .hint(
                            "Ensure that no rows proposed for insertion within the same command have \
                             duplicate constrained values.",
                        ));
                    }
                    let before = self.row(table, &existing).expect("it is in the way").clone();
                    let old = complete(table, &before)?;
                    let mut input = old.clone();
                    input.extend(values);
                    if !satisfies(filter, &input)? {
                        continue;
                    }
                    let new = self.updated(table, &old, &input, set)?;
                    push_returning(&mut result, returning, &new)?;
                    self.put(table, existing, Some(&before), Some((Row::of(&new), &new)))?;
                    result.affected += 1;
                }
                (Some(_), _) => {}
            }
        }
        Ok(result)
    }

    /// The row that is in the way of a new one: at `arbiter` if given, else at any unique key.
    fn taken(
        &self,
        table: &'a TableStore,
        key: &Key,
        values: &[Datum],
        arbiter: Option<TableId>,
    ) -> SqlResult<Option<Key>> {
        let asked = |id: TableId| arbiter.is_none_or(|arbiter| arbiter == id);
        let declared = |id: TableId, key: &Key| match self.declared.has_key(id, key, AccessMode::Read) {
            true => Ok(()),
            false => Err(undeclared_key(&self.store.catalog, id, key)),
        };
        if asked(table.desc.id) {
            declared(table.desc.id, key)?;
            if self.row(table, key).is_some() {
                return Ok(Some(key.clone()));
            }
        }
        for index in table.indexes.iter().filter(|index| index.desc.unique && asked(index.desc.id)) {
            let entry = table.desc.index_entry(&index.desc, values, key);
            if index.has_single_owner(&entry) {
                declared(index.desc.id, &entry)?;
                if let Some(owner) = self.unique_owner(index, &entry) {
                    return Ok(Some(owner));
                }
            }
        }
        Ok(None)
    }
}

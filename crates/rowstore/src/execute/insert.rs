//! INSERT and its ON CONFLICT.

use super::allowance::BYTES_A_UNIT;
use super::costs::cost_of_an_insert;
use super::declared::undeclared_key;
use super::overlay::{Run, complete};
use super::statement::{StatementAt, push_returning, satisfies};
use super::violation::{check_row, duplicate};
use crate::table::TableStore;
use base::error::{SqlError, SqlResult, SqlState};
use base::expr::Expr;
use base::schema::{Held, Location};
use base::txn::{AccessMode, OnConflict};
use base::{Datum, Key, Row, TableId};

impl<'a> Run<'a> {
    /// Goes on with an INSERT; whether it is done.
    pub(super) fn insert(
        &mut self,
        table: &'a TableStore,
        rows: &[Row],
        on_conflict: &OnConflict,
        returning: Option<&[Expr]>,
        at: &mut StatementAt,
    ) -> SqlResult<bool> {
        let arbiter = arbiter_of(table, on_conflict)?;
        let cost = cost_of_an_insert(table, on_conflict, returning);
        while let Some(row) = rows.get(at.rows) {
            if self.allowance.is_spent() {
                return Ok(false);
            }
            at.rows += 1;
            self.spend(cost + row.len() as u64 / BYTES_A_UNIT);
            self.insert_row(table, row, (on_conflict, arbiter), returning, at)?;
        }
        Ok(true)
    }

    fn insert_row(
        &mut self,
        table: &'a TableStore,
        row: &Row,
        (on_conflict, arbiter): (&OnConflict, Option<TableId>),
        returning: Option<&[Expr]>,
        StatementAt { affected, result, .. }: &mut StatementAt,
    ) -> SqlResult<()> {
        let desc = &table.desc;
        let values = complete(table, row)?;
        let key = desc.key_of(&values);
        for index in table.indexes.iter().filter(|index| !index.local) {
            self.enter_home(table, index, &values, &key, |_| false)?;
        }
        match desc.locate_row(&values, &self.store.topology) {
            Location::One(partition) if partition != self.store.partition => return Ok(()),
            _ => check_row(desc, &values, Held::ToAll)?,
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
                push_returning(result, returning, &values)?;
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
                    return Ok(());
                }
                let new = self.updated(table, &old, &input, set)?;
                push_returning(result, returning, &new)?;
                self.put(table, existing, Some(&before), Some((Row::of(&new), &new)))?;
                result.affected += 1;
            }
            (Some(_), _) => {}
        }
        Ok(())
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

/// The constraint that ON CONFLICT names. Errors: there is no such one, or the table cannot have ON CONFLICT.
fn arbiter_of(table: &TableStore, on_conflict: &OnConflict) -> SqlResult<Option<TableId>> {
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
    Ok(arbiter)
}

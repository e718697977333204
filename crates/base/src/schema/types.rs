//! Types that users made in the catalog.

use super::{Catalog, Table, stale_schema};
use crate::composite::CompositeType;
use crate::error::SqlResult;
use crate::{DataType, TableId};
use std::sync::Arc;

impl Catalog {
    /// Keeps the description of an enumerated or composite type, and describes anew what has to do with the type: tables,
    /// views, routines, and composite types with attributes of it. Errors: 40001 if another type has taken the name
    /// meanwhile.
    pub(super) fn put_made(&mut self, of: DataType) -> SqlResult<()> {
        let (id, schema, name) = match of {
            DataType::Enum(of) => (of.id(), &of.description().schema, &of.description().name),
            DataType::Composite(of) => (of.id(), &of.description().schema, &of.description().name),
            _ => return Err(stale_schema()),
        };
        self.confirm_type(id, schema, name)?;
        let types = Arc::make_mut(&mut self.types);
        match of {
            DataType::Composite(of) => types.composites.insert(id, of).is_some(),
            DataType::Enum(of) => types.enums.insert(id, of).is_some(),
            _ => false,
        };
        let changed = |before: &CompositeType| DataType::Composite(*before).has(of) && before.id() != id;
        for row in types.composites.values_mut().filter(|row| changed(row)) {
            *row = row.retyped(of);
        }
        let version = self.version;
        for table in self.tables.values_mut().filter(|table| table.names_type(of)) {
            *table = Arc::new(Table { version, ..table.retyped(of) });
        }
        self.retype_views(of);
        self.retype_routines(of);
        Ok(())
    }

    /// A type is given its id and its name. Errors: 40001 if another type has taken the name meanwhile.
    pub(super) fn confirm_type(&mut self, id: TableId, schema: &str, name: &str) -> SqlResult<()> {
        let is_it = |other: &TableId| self.types.place_of(*other) == Some((schema, name));
        if self.types.ids().find(is_it).is_some_and(|other| other != id) {
            return Err(stale_schema());
        }
        self.claim(id);
        Ok(())
    }

    pub(super) fn drop_type(&mut self, id: TableId) -> SqlResult<()> {
        let types = Arc::make_mut(&mut self.types);
        let is_gone = types.enums.remove(&id).is_some()
            || types.domains.remove(&id).is_some()
            || types.composites.remove(&id).is_some();
        if !is_gone {
            return Err(stale_schema());
        }
        self.forget_rights(id);
        Ok(())
    }
}

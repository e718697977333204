//! Stored procedures: registered code that declares what it touches before it runs.

use super::AccessSet;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::key::KeyRange;
use crate::schema::Catalog;
use crate::topology::Topology;
use crate::{DataType, Datum, Key, PartitionId, Row, TableId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rows of one partition as a transaction sees them at its place, its own writes included.
pub trait RowView {
    fn get(&self, table: TableId, key: &Key) -> Option<Row>;
    /// Up to `limit` rows in key order (or its reverse). `visit` answers whether to go on.
    fn scan(
        &self,
        table: TableId,
        range: &KeyRange,
        descending: bool,
        visit: &mut dyn FnMut(&Key, &Row) -> bool,
    );
    /// The same through a secondary index: `range` is over index entries, `visit` gets primary keys. A view whose `scan`
    /// knows the ids of indexes beside those of tables keeps this.
    fn scan_index(
        &self,
        index: TableId,
        range: &KeyRange,
        descending: bool,
        visit: &mut dyn FnMut(&Key, &Row) -> bool,
    ) {
        self.scan(index, range, descending, visit);
    }
}

/// The same, to write. Secondary indexes follow by themselves.
pub trait RowAccess: RowView {
    /// Makes this the row with this key; `None`: there is none from now on.
    fn write(&mut self, table: TableId, key: Key, row: Option<Row>);

    fn put(&mut self, table: TableId, key: Key, row: Row) {
        self.write(table, key, Some(row));
    }
    fn delete(&mut self, table: TableId, key: &Key) {
        self.write(table, key.clone(), None);
    }
}

/// What a procedure may know besides its arguments and rows. The same at every participant, except
/// for `partition`.
pub struct ProcedureContext<'a> {
    /// Where this half runs.
    pub partition: PartitionId,
    /// The catalog at the transaction's place.
    pub catalog: &'a Catalog,
    pub topology: &'a Topology,
}

/// Values gathered, by participant.
pub type Exchange = BTreeMap<PartitionId, Vec<Datum>>;

/// A registered procedure. Both halves are deterministic and touch only what was declared.
pub trait Procedure: Send + Sync {
    /// Name in `CALL name(…)`.
    fn name(&self) -> &'static str;
    /// Argument types in order.
    fn arguments(&self) -> Vec<(&'static str, DataType)>;
    /// Columns of the rows it returns.
    fn columns(&self) -> Vec<(&'static str, DataType)>;
    /// What this call touches. Errors: arguments out of range, a table that does not exist.
    fn declare(&self, args: &[Datum], catalog: &Catalog, topology: &Topology) -> SqlResult<AccessSet>;
    /// Reads here; what it returns is known to every participant in [`Procedure::apply`]. An error
    /// aborts the transaction everywhere.
    fn gather(
        &self,
        args: &[Datum],
        context: &ProcedureContext<'_>,
        rows: &dyn RowView,
    ) -> SqlResult<Vec<Datum>>;
    /// Writes here. Cannot fail: every abort was decided while gathering. Returns this participant's
    /// share of the result rows.
    fn apply(
        &self,
        args: &[Datum],
        context: &ProcedureContext<'_>,
        exchange: &Exchange,
        rows: &mut dyn RowAccess,
    ) -> Vec<Row>;
}

/// All registered procedures, by name.
#[derive(Clone, Default)]
pub struct Procedures(BTreeMap<&'static str, Arc<dyn Procedure>>);

impl Procedures {
    pub fn register(&mut self, procedure: impl Procedure + 'static) {
        let name = procedure.name();
        assert!(self.0.insert(name, Arc::new(procedure)).is_none(), "procedure {name} registered twice");
    }
    pub fn get(&self, name: &str) -> SqlResult<&Arc<dyn Procedure>> {
        self.0.get(name).ok_or_else(|| {
            SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("procedure {name} does not exist"))
                .hint("SELECT * FROM meridian.procedures lists the registered ones.")
        })
    }
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Procedure>> {
        self.0.values()
    }
}

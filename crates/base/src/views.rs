//! Views: stored queries, as the catalog keeps them.
//!
//! KEEPS: a definition names every table and view with its schema, so it means the same under any search path; what
//! `uses` does not list, the definition does not read; no view uses itself, however indirectly.

use crate::error::SqlResult;
use crate::partitioning::Partition;
use crate::schema::{Catalog, Column, Identity, Placement, Table, stale_schema};
use crate::{DataType, Datum, TableId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// Id, name and columns. It has no key and no rows; privileges and catalogs look at it as at a table.
    pub shape: Arc<Table>,
    /// Object ids of the columns' types as clients see them, for types that are no [`DataType`].
    pub type_oids: Vec<u32>,
    /// The query as SQL text.
    pub definition: String,
    /// Tables and views that it reads, with the columns of theirs that it may name.
    pub uses: BTreeMap<TableId, Vec<usize>>,
    pub check_option: CheckOption,
    /// Of a partition, which rows of which table it has. Its query follows from that.
    pub partition: Option<Partition>,
    #[serde(deserialize_with = "crate::codec::since::<13, _, _>")]
    pub security: Security,
}

/// What `WITH (…)` says of who may see what through a view. `None`: nothing is said, which is as much as false.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Security {
    /// No condition of a query sees a row that the view does not show.
    pub barrier: Option<bool>,
    /// What the view reads is held against the rights of the role that asks, not of the view's owner.
    pub invoker: Option<bool>,
}

impl Security {
    /// What is said, each as `name=value`.
    pub fn shown(self) -> Vec<String> {
        let flags = [("security_barrier", self.barrier), ("security_invoker", self.invoker)];
        flags.into_iter().filter_map(|(name, flag)| Some(format!("{name}={}", flag?))).collect()
    }
}

/// WITH CHECK OPTION: whether a row that is written through a view has to be one of the view's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CheckOption {
    #[default]
    No,
    /// Of the view itself, and of views below it that say so themselves.
    Local,
    /// Of the view and of all views below it.
    Cascaded,
}

impl View {
    /// What a view looks like from outside.
    pub fn shape(id: TableId, schema: String, name: String, columns: Vec<(String, DataType)>) -> Table {
        let column = |(name, data_type)| Column {
            name,
            data_type,
            not_null: false,
            default: None,
            missing: Datum::Null,
            identity: Identity::No,
            hidden: false,
        };
        Table {
            id,
            schema,
            name,
            version: 0,
            columns: columns.into_iter().map(column).collect(),
            primary_key: Vec::new(),
            primary_key_name: String::new(),
            indexes: Vec::new(),
            checks: Default::default(),
            foreign: Default::default(),
            triggers: Default::default(),
            domains: Default::default(),
            partitioning: None,
            placement: Placement::Replicated,
        }
    }
}

/// A table or a view.
#[derive(Clone, Copy, Debug)]
pub enum Relation<'a> {
    Table(&'a Arc<Table>),
    View(&'a Arc<View>),
}

impl<'a> Relation<'a> {
    pub fn shape(self) -> &'a Arc<Table> {
        match self {
            Relation::Table(table) => table,
            Relation::View(view) => &view.shape,
        }
    }
}

impl Catalog {
    /// Errors: 40001 if another relation has taken the name meanwhile.
    pub(crate) fn put_view(&mut self, view: &View) -> SqlResult<()> {
        let id = view.shape.id;
        let other = self.relation_named(&view.shape.schema, &view.shape.name);
        if other.is_some_and(|other| other.shape().id != id) {
            return Err(stale_schema());
        }
        self.next_id = self.next_id.max(id.0 + 1);
        self.views.insert(id, Arc::new(view.clone()));
        Ok(())
    }
    pub(crate) fn drop_view(&mut self, id: TableId) -> SqlResult<()> {
        self.views.remove(&id).ok_or_else(stale_schema)?;
        Arc::make_mut(&mut self.roles).forget_relation(id);
        Ok(())
    }
    /// Describes anew the views that show a type.
    pub(crate) fn retype_views(&mut self, of: DataType) {
        for view in self.views.values_mut().filter(|view| view.shape.names_type(of)) {
            let shape = Arc::new(view.shape.retyped(of));
            *view = Arc::new(View { shape, ..view.as_ref().clone() });
        }
    }
    pub fn view_named(&self, schema: &str, name: &str) -> Option<&Arc<View>> {
        self.views.values().find(|v| v.shape.schema == schema && v.shape.name == name)
    }
    /// A table or a view by its id.
    pub fn relation(&self, id: TableId) -> Option<Relation<'_>> {
        let view = || self.views.get(&id).map(Relation::View);
        self.table(id).map(Relation::Table).or_else(view)
    }
    /// A table or a view by its name.
    pub fn relation_named(&self, schema: &str, name: &str) -> Option<Relation<'_>> {
        let view = || self.view_named(schema, name).map(Relation::View);
        self.table_named(schema, name).map(Relation::Table).or_else(view)
    }
    /// Tables and views as they look from outside.
    pub fn shapes(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.values().chain(self.views.values().map(|view| &view.shape))
    }
}

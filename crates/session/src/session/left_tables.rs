//! What the sessions of a gateway leave behind: schemas of temporary tables whose session is gone.
//!
//! IN: the catalog, who is connected. OUT: one change of the catalog that drops what belongs to nobody any more.
//! KEEPS: a session's schema is dropped only after the session has ended. Whether it has is asked after the catalog was
//! read that the change is planned against: a schema that is made later makes the change one of another catalog.

use super::Session;
use crate::gateway::Gateway;
use base::TableId;
use base::databases::DatabaseId;
use base::error::SqlResult;
use base::schema::{Catalog, SchemaAction, Sequence};
use sql::temporary::{self, Owner};
use sqlparser::ast::Statement;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::MutexGuard;

/// How often it is looked at, if no session ends: a change whose session ended while it was ordered leaves a schema.
const EVERY: Duration = Duration::from_secs(10);

impl Gateway {
    /// The schema of a session's temporary tables.
    pub(crate) fn temporary_schema(&self, process: i32) -> String {
        Owner { node: self.cluster.node(), life: self.temporary.life, process }.schema()
    }

    /// Waits until it is a statement's turn to change the catalog, if it makes something temporary.
    pub(crate) async fn turn_to_change(&self, statement: &Statement) -> Option<MutexGuard<'_, ()>> {
        let is_temporary = match statement {
            Statement::CreateTable(create) => create.temporary,
            Statement::CreateView(create) => create.temporary,
            Statement::CreateSequence { temporary, .. } => *temporary,
            Statement::Discard { .. } => true,
            _ => false,
        };
        if is_temporary { Some(self.temporary.turn().await) } else { None }
    }

    /// Drops what sessions of this node have left behind, of this life or a former one, and ends sessions whose database is
    /// gone, as long as it is polled.
    pub async fn drop_left_tables(self: Arc<Self>) {
        loop {
            // What cannot be dropped now is dropped later.
            let catalog = self.catalog();
            let has_some = |id: &&DatabaseId| {
                catalog.schemas_of(**id).iter().any(|schema| temporary::is_temporary(schema))
            };
            for database in catalog.databases.all.keys().filter(has_some) {
                let _ = self.drop_left(*database).await;
            }
            self.notifications.end_missing(&catalog);
            let _ = tokio::time::timeout(EVERY, self.temporary.ended.notified()).await;
        }
    }

    async fn drop_left(self: &Arc<Self>, database: DatabaseId) -> SqlResult<()> {
        if self.cluster.read_only().is_some() || self.left(&self.catalog_of(database)).is_empty() {
            return Ok(());
        }
        let _turn = self.temporary.turn().await;
        let before = self.catalog_of(database);
        Session::internal_of(self.clone(), database).change_alone(|catalog| self.left(catalog)).await?;
        let now = self.catalog_of(database);
        let is_gone =
            |s: &&Arc<Sequence>| temporary::is_temporary(&s.schema) && !now.sequences.contains_key(&s.id);
        let gone: Vec<TableId> = before.sequences.values().filter(is_gone).map(|s| s.id).collect();
        self.node.generators.forget(&gone);
        Ok(())
    }

    /// Drops the schemas that belong to nobody.
    fn left(&self, catalog: &Catalog) -> Vec<SchemaAction> {
        if !catalog.schemas.iter().any(|schema| temporary::is_temporary(schema)) {
            return Vec::new();
        }
        let connected: BTreeSet<i32> =
            self.node.sessions.all().iter().map(|session| session.process).collect();
        let is_left = |schema: &str| {
            let owner = Owner::of(schema).filter(|owner| owner.node == self.cluster.node());
            owner
                .is_some_and(|owner| owner.life != self.temporary.life || !connected.contains(&owner.process))
        };
        sql::ddl::drop_temporary(catalog, is_left)
    }
}

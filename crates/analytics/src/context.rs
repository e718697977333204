//! What planning depends on beside the statement.

use super::engine::Analytics;
use crate::cluster::Cluster;
use base::TableId;
use base::roles::{Object, Privileges, Standing};
use base::schema::{Catalog, Placement, Table};
use base::zone::Zone;
use sql::cancel::CancelHandle;
use sql::given::GivenValues;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Values of a session's settings by their names.
pub type SettingValues = BTreeMap<Cow<'static, str>, String>;

/// Whether a setting is an application's own, which has a dot in its name.
pub fn is_custom_setting(name: &str) -> bool {
    name.contains('.') && !name.starts_with("meridian.")
}

/// What planning depends on beside the statement.
pub struct Context<'a> {
    pub analytics: &'a Arc<Analytics>,
    pub catalog: &'a Arc<Catalog>,
    pub search_path: &'a [String],
    pub database: &'a str,
    /// The name of the role that acts.
    pub user: &'a str,
    /// What it may do.
    pub standing: Arc<Standing>,
    pub process_id: i32,
    pub settings: &'a Arc<SettingValues>,
    /// The isolation level that the open transaction has, or the next one gets.
    pub isolation: &'static str,
    /// Ends the statement, its planning too.
    pub cancel: &'a CancelHandle,
    /// Rows that are kept elsewhere are read from the columns here: what is complete here will do.
    pub reads_here: bool,
    /// Tables that the statement reads with the rights of views' owners.
    pub through_views: BTreeSet<TableId>,
    /// What sequences give to the session.
    pub given: &'a Arc<GivenValues>,
    /// What clocks it goes by.
    pub zone: Zone,
}

/// The same for what outlives the call: a function that asks for it, a thread that the statement may not wait for.
pub struct OwnedContext {
    pub analytics: Arc<Analytics>,
    pub catalog: Arc<Catalog>,
    pub search_path: Vec<String>,
    pub database: String,
    pub user: String,
    pub standing: Arc<Standing>,
    pub process_id: i32,
    pub settings: Arc<SettingValues>,
    pub isolation: &'static str,
    pub cancel: CancelHandle,
    pub reads_here: bool,
    /// Tables that the statement reads with the rights of views' owners.
    pub through_views: BTreeSet<TableId>,
    pub given: Arc<GivenValues>,
    pub zone: Zone,
}

impl Context<'_> {
    pub fn cluster(&self) -> &Arc<dyn Cluster> {
        &self.analytics.node.cluster
    }

    /// Whether the acting role may look at rows of a table, if only at some columns.
    pub fn has_some_right(&self, table: &Table) -> bool {
        let (roles, standing) = (&self.catalog.roles, &self.standing);
        let to_look = Privileges::SELECT | Privileges::UPDATE | Privileges::DELETE;
        let holds = |object: Object| !(roles.rights(standing, &object).held & to_look).is_empty();
        standing.is_superuser
            || table.schema == sql::with::SCHEMA
            || self.through_views.contains(&table.id)
            || holds(Object::Relation(table.id))
            || (0..table.columns.len()).any(|column| holds(Object::Column(table.id, column as u32)))
    }

    /// The same for a statement that reads these tables through views.
    pub fn through_views(&self, tables: BTreeSet<TableId>) -> Context<'_> {
        Context { standing: self.standing.clone(), through_views: tables, ..*self }
    }

    /// The same for what acts as the owner of an object.
    pub fn as_owner_of(&self, object: &Object) -> Context<'_> {
        let roles = &self.catalog.roles;
        let owner = roles.owner_of(object);
        let user = roles.roles.get(&owner).map_or(self.user, |role| role.name.as_str());
        let standing = Arc::new(roles.standing(owner));
        Context { user, standing, through_views: self.through_views.clone(), ..*self }
    }

    /// The same over another catalog.
    pub fn over<'c>(&'c self, catalog: &'c Arc<Catalog>) -> Context<'c> {
        Context {
            catalog,
            standing: self.standing.clone(),
            through_views: self.through_views.clone(),
            ..*self
        }
    }

    pub fn to_owned(&self) -> OwnedContext {
        OwnedContext {
            analytics: self.analytics.clone(),
            catalog: self.catalog.clone(),
            search_path: self.search_path.to_vec(),
            database: self.database.to_string(),
            user: self.user.to_string(),
            standing: self.standing.clone(),
            process_id: self.process_id,
            settings: self.settings.clone(),
            isolation: self.isolation,
            cancel: self.cancel.clone(),
            reads_here: self.reads_here,
            through_views: self.through_views.clone(),
            given: self.given.clone(),
            zone: self.zone,
        }
    }

    /// Whether some rows of a table are elsewhere, and all its columns here.
    fn has_only_columns(&self, table: &Table) -> bool {
        let cluster = self.cluster();
        let (topology, me) = (cluster.topology(), cluster.node());
        if table.placement == Placement::Replicated {
            return false;
        }
        let partitions = table.partitions(topology);
        let kept = &topology.nodes[usize::from(me.0)].subscribes;
        partitions.iter().any(|p| !topology.holds(me, *p)) && partitions.iter().all(|p| kept.contains(p))
    }
    /// Whether a plan over rows has to leave the house for nothing.
    pub fn prefers_columns(&self, tables: &[&Table]) -> bool {
        self.reads_here && tables.iter().any(|table| self.has_only_columns(table))
    }
}

impl OwnedContext {
    pub fn context(&self) -> Context<'_> {
        Context {
            analytics: &self.analytics,
            catalog: &self.catalog,
            search_path: &self.search_path,
            database: &self.database,
            user: &self.user,
            standing: self.standing.clone(),
            process_id: self.process_id,
            settings: &self.settings,
            isolation: self.isolation,
            cancel: &self.cancel,
            reads_here: self.reads_here,
            through_views: self.through_views.clone(),
            given: &self.given,
            zone: self.zone,
        }
    }
}

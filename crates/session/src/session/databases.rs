//! CREATE, ALTER and DROP DATABASE, and the database that a session is connected to.
//!
//! KEEPS: a database that is dropped or renamed has no session of this process when that is decided, but for those that
//! FORCE ends; a session elsewhere ends once its node knows that its database is gone.

use super::Session;
use super::planned::Planned;
use crate::catching_up::{AT_LEAST, CatchingUp, PAUSE, WITHIN};
use crate::gateway::Gateway;
use crate::notifications::Ending;
use crate::response::Response;
use base::SqlError;
use base::databases::{Database, DatabaseId, missing};
use base::error::{SqlResult, SqlState};
use base::key::KeyRange;
use base::roles::{Object, Privileges};
use base::schema::{Catalog, SchemaChange};
use base::txn::RowRead;
use base::{Key, TableId};
use node::request::{ReadRows, Reply, Request};
use sql::ddl::{self, DatabaseChange, Vacated};
use sql::parse::OfDatabase;
use sqlparser::ast::Statement;
use std::sync::Arc;
use std::time::Duration;

/// Plans of one statement before it gives up on a catalog that keeps changing.
const PLANS_MAX: usize = 64;
/// A catalog is published as soon as the node's step is over.
const PUBLISHED_WITHIN: Duration = Duration::from_millis(1);
/// No table has this id.
const NO_TABLE: TableId = TableId(u32::MAX);

impl Gateway {
    /// Waits until sessions may begin; answers whether the node knows everything that was answered before.
    pub async fn catch_up(self: &Arc<Self>) -> bool {
        let CatchingUp { since, done } = &self.catching_up;
        if !done.initialized() {
            let gone = Duration::from_nanos(self.cluster.now().since(*since));
            let newest = async || {
                // An error is as good as no answer: somebody is missing.
                while Session::internal(self.clone()).newest_catalog().await.is_err() {
                    tokio::time::sleep(PAUSE).await;
                }
            };
            let patience = WITHIN.saturating_sub(gone).max(AT_LEAST);
            _ = tokio::time::timeout(patience, done.get_or_init(newest)).await;
        }
        done.initialized()
    }

    /// The database that a user wants to connect to. Errors: 3D000, 55000, 42501, 53300.
    pub async fn database(self: &Arc<Self>, user: &str, name: &str) -> SqlResult<Arc<Database>> {
        let mut catalog = self.catalog();
        if catalog.databases.named(name).is_none() {
            // It may have been made at another region just now.
            catalog = Session::internal(self.clone()).newest_catalog().await?;
        }
        let database = catalog.databases.named(name).ok_or_else(|| missing(name))?;
        self.admit_to(&catalog, user, database).map(|()| database.clone())
    }

    fn admit_to(&self, catalog: &Catalog, user: &str, database: &Database) -> SqlResult<()> {
        let name = &database.name;
        if !database.allows_connections {
            let told = format!("database \"{name}\" is not currently accepting connections");
            return Err(SqlError::new(SqlState(*b"55000"), told));
        }
        let roles = &catalog.roles;
        // Who is nobody is told so elsewhere.
        let Some(role) = roles.acting(user) else { return Ok(()) };
        let standing = roles.standing(role);
        if !roles.may(&standing, &Object::Database(database.id), Privileges::CONNECT) {
            let told = format!("permission denied for database \"{name}\"");
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, told)
                .detail("User does not have CONNECT privilege."));
        }
        let Some(limit) = database.connections_max.filter(|_| !standing.is_superuser) else { return Ok(()) };
        let sessions = self.node.sessions.all();
        match sessions.iter().filter(|session| session.database == *name).count() < limit as usize {
            true => Ok(()),
            false => {
                let told = format!("too many connections for database \"{name}\"");
                Err(SqlError::new(SqlState::TOO_MANY_CONNECTIONS, told))
            }
        }
    }
}

/// The database that a session is connected to.
pub(super) struct Connected {
    pub id: DatabaseId,
    pub name: String,
}

impl Connected {
    pub fn to(id: DatabaseId, catalog: &Catalog) -> Connected {
        Connected { id, name: catalog.databases.name(id).to_string() }
    }
}

impl Session {
    /// Asks the node for its catalog, once per statement.
    pub(super) fn look_up_catalog(&mut self) {
        self.known = self.gateway.catalog_of(self.database.id);
        self.note_database();
    }

    /// Waits until the node knows a catalog at least as new as any it has seen in order.
    pub(super) async fn refresh_catalog(&mut self) -> SqlResult<()> {
        self.gateway.cluster.request(Request::Catalog).await.map(|_| ())
    }

    /// The same before a statement is planned again: the more often it was, the longer. What it reads may be older than the
    /// catalog.
    pub(super) async fn await_catalog(&mut self, plans: usize) -> SqlResult<()> {
        if plans > 0 {
            tokio::time::sleep(Duration::from_millis(1 << plans.min(6))).await;
        }
        self.refresh_catalog().await
    }

    /// Notes what the catalog says of the session's database: another name, or that it is gone.
    fn note_database(&mut self) {
        let Some(databases) = crate::notifications::known_databases(&self.known) else { return };
        match databases.all.get(&self.database.id) {
            Some(database) if database.name == self.database.name => {}
            Some(database) => self.database.name = database.name.clone(),
            None => self.told.listener.mailbox.end(Ending::DatabaseDropped),
        }
    }

    /// Waits until the node knows a catalog that holds every change that was answered before, wherever that was.
    pub(crate) async fn newest_catalog(&mut self) -> SqlResult<Arc<Catalog>> {
        let cluster = self.cluster().clone();
        let consistency = self.settings.usual_consistency;
        // Whatever is answered before is executed here once this node's partitions are read at a cut behind it.
        let kept = cluster.topology().copies_at(cluster.node());
        let read = |partition| RowRead {
            partition,
            table: NO_TABLE,
            index: None,
            range: KeyRange::point(Key::new()),
            filter: None,
            limit: None,
            descending: false,
        };
        let read =
            ReadRows { at: None, consistency, token: self.token.clone(), reads: kept.map(read).collect() };
        if !read.reads.is_empty() {
            let Reply::Rows(rows) = cluster.request(Request::ReadRows(read)).await? else {
                return Err(super::wrong_reply());
            };
            // There is no such table.
            rows.map(drop).or_else(|error| if super::is_stale(&error) { Ok(()) } else { Err(error) })?;
        }
        let Reply::Catalog(newest) = cluster.request(Request::Catalog).await? else {
            return Err(super::wrong_reply());
        };
        // Sessions look at what was published behind the node's step.
        while cluster.catalog().version < newest.version {
            tokio::time::sleep(PUBLISHED_WITHIN).await;
        }
        Ok(newest)
    }

    /// Errors: 25001 for what runs on its own alone, where it is one statement of several.
    pub(super) fn refuse_in_block(&self, tag: &str) -> SqlResult<()> {
        let is_inside =
            || self.transaction.as_ref().is_some_and(|open| !open.is_implicit || open.has_begun());
        let told = match () {
            () if self.runs_program() => format!("{tag} cannot be executed from a function"),
            () if self.queue.is_block || is_inside() => {
                format!("{tag} cannot run inside a transaction block")
            }
            () => return Ok(()),
        };
        Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, told))
    }

    pub(super) async fn run_database(&mut self, statement: &Statement) -> SqlResult<Response> {
        let Some(of) = sql::parse::of_database(statement)? else {
            return Err(SqlError::unsupported(ddl::first_words(statement)));
        };
        let tag = of.what.tag();
        self.refuse_if_read_only(tag)?;
        self.refuse_in_block(tag)?;
        self.end_implicit().await?;
        // What others have made meanwhile counts: a name that is taken, a database that is gone.
        self.newest_catalog().await?;
        for _ in 0..PLANS_MAX {
            self.look_up_catalog();
            let DatabaseChange { database, ddl, vacated } = match self.planned_database(&of) {
                Err(error) if super::is_stale(&error) => continue,
                planned => planned?,
            };
            if let Some(vacated) = &vacated {
                self.check_vacated(vacated)?;
            }
            if !ddl.actions.is_empty() {
                let base_version = self.known.version;
                let change = SchemaChange { database, base_version, actions: ddl.actions };
                match self.submit_schema(change).await {
                    Err(error) if super::is_stale(&error) => {
                        self.refresh_catalog().await?;
                        continue;
                    }
                    ended => ended?,
                }
                self.gateway.notifications.end_missing(&self.gateway.catalog());
            }
            self.tell_notices(ddl.notices);
            return Ok(Response::Command(tag.into()));
        }
        Err(base::schema::stale_schema())
    }

    fn planned_database(&self, of: &OfDatabase) -> SqlResult<DatabaseChange> {
        let (whole, catalog) = (self.gateway.catalog(), self.catalog());
        if whole.version != catalog.version {
            return Err(base::schema::stale_schema());
        }
        let catalog = self.gateway.with_free_ids(catalog);
        let standing = self.standing();
        ddl::plan_database(&self.ddl_context(&catalog, &standing, &Planned(self)), &whole, of)
    }

    /// Errors: 55006 while others are connected that are not ended.
    fn check_vacated(&self, vacated: &Vacated) -> SqlResult<()> {
        let count = match vacated.is_forced {
            true => 0,
            false => self.gateway.notifications.count(vacated.id),
        };
        if count == 0 {
            return Ok(());
        }
        let told = format!("database \"{}\" is being accessed by other users", vacated.name);
        let sessions = if count == 1 { "is 1 other session" } else { &format!("are {count} other sessions") };
        Err(SqlError::new(SqlState(*b"55006"), told).detail(format!("There {sessions} using the database.")))
    }
}

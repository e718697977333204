//! Databases as changes of the catalog.
//!
//! A database is dropped with all that is in it, in one change of its part of the catalog.

use super::roles::forbidden;
use super::{Ddl, DdlContext};
use crate::parse::{DatabaseWork, OfDatabase, OptionValue, WantedSetting};
use base::databases::{self, Database, DatabaseId, Databases, MERIDIAN, PUBLIC_SCHEMA};
use base::error::{SqlError, SqlResult, SqlState};
use base::role_settings::SettingScope;
use base::roles::{Object, PUBLIC, ROOT, RoleChange, RoleId};
use base::schema::{Catalog, SchemaAction};
use sqlparser::ast::Ident;
use std::sync::Arc;

/// A planned change of a database.
#[derive(Debug, Default)]
pub struct DatabaseChange {
    /// Whose part of the catalog the actions are of.
    pub database: DatabaseId,
    pub ddl: Ddl,
    /// Nobody may be connected to it while it is changed.
    pub vacated: Option<Vacated>,
}

/// A database that its sessions have to leave.
#[derive(Clone, Debug, PartialEq)]
pub struct Vacated {
    pub id: DatabaseId,
    pub name: String,
    /// Sessions are ended; or else one that is left makes the change fail.
    pub is_forced: bool,
}

/// Plans a statement about a database. `whole` is the catalog of the whole cluster. Errors: among others 42501, 42P04,
/// 3D000, 55006, and 0A000 for options that cannot be given.
pub fn plan_database(
    context: &DdlContext<'_>,
    whole: &Catalog,
    of: &OfDatabase,
) -> SqlResult<DatabaseChange> {
    match &of.what {
        DatabaseWork::Create(options) => context.create_database(&of.name, options),
        DatabaseWork::Drop { if_exists, is_forced } => {
            context.drop_database(whole, &of.name, *if_exists, *is_forced)
        }
        DatabaseWork::Rename(to) => context.rename_database(&of.name, to),
        DatabaseWork::Owner(to) => context.give_database(whole, &of.name, to),
        DatabaseWork::Alter(options) => context.alter_database(&of.name, options),
        DatabaseWork::Set { name, wanted } => context.set_for_database(&of.name, name.as_deref(), wanted),
        DatabaseWork::RefreshCollation => {
            context.owned_database(&of.name)?;
            Err(SqlError::unsupported("ALTER DATABASE … REFRESH"))
        }
    }
}

fn invalid(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn in_use(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState(*b"55006"), message)
}

impl DdlContext<'_> {
    fn databases(&self) -> &Databases {
        &self.catalog.databases
    }

    /// Errors: 3D000.
    pub(super) fn database_named(&self, name: &str) -> SqlResult<&Arc<Database>> {
        self.databases().named(name).ok_or_else(|| databases::missing(name))
    }

    /// Errors: 3D000, 42501.
    fn owned_database(&self, name: &str) -> SqlResult<&Arc<Database>> {
        let database = self.database_named(name)?;
        self.check_owner(&Object::Database(database.id))?;
        Ok(database)
    }

    fn creates_databases(&self) -> bool {
        let role = self.roles().roles.get(&self.standing.role);
        self.standing.is_superuser || role.is_some_and(|role| role.can_create_databases)
    }

    /// A role that a database may be given to. Errors: 42704, 42501.
    fn new_owner(&self, ident: &Ident) -> SqlResult<RoleId> {
        let owner = self.role(self.roles(), ident)?;
        let is_member = self.roles().memberships(self.standing.role, false).contains(&owner);
        if !self.standing.is_superuser && !is_member {
            let name = self.roles().name(owner);
            return Err(forbidden(format!("must be member of role \"{name}\"")));
        }
        Ok(owner)
    }

    fn create_database(&self, name: &str, options: &[(String, OptionValue)]) -> SqlResult<DatabaseChange> {
        if !self.creates_databases() {
            return Err(forbidden("permission denied to create database"));
        }
        let mut database = Database {
            id: Databases::id_of_new(self.catalog.next_id),
            name: name.into(),
            is_template: false,
            allows_connections: true,
            connections_max: None,
        };
        let mut owner = self.standing.role;
        for (option, value) in options {
            match (option.as_str(), value) {
                ("owner", OptionValue::Default) => {}
                ("owner", OptionValue::Name(ident)) => owner = self.new_owner(ident)?,
                ("owner", OptionValue::Text(text)) => {
                    owner = self.new_owner(&Ident::with_quote('"', text))?
                }
                ("template", value) => self.check_template(value.text())?,
                (option, value) if set_option(&mut database, option, value)? => {}
                (option, value) => check_fixed(option, value)?,
            }
        }
        if self.databases().named(name).is_some() {
            return Err(databases::duplicate(name));
        }
        let id = database.id;
        let mut actions = vec![SchemaAction::PutDatabase(database)];
        if owner != ROOT {
            let objects = [Object::Database(id), Object::SchemaOf(id, PUBLIC_SCHEMA.into())];
            let owned = objects.map(|object| SchemaAction::Roles(RoleChange::SetOwner(object, owner)));
            actions.extend(owned);
        }
        Ok(self.change(self.catalog.database(), actions, "CREATE DATABASE"))
    }

    fn check_template(&self, template: Option<String>) -> SqlResult<()> {
        match template.as_deref() {
            None | Some("template0" | "template1") => Ok(()),
            Some(other) if self.databases().named(other).is_none() => Err(SqlError::new(
                SqlState::INVALID_CATALOG_NAME,
                format!("template database \"{other}\" does not exist"),
            )),
            Some(other) => Err(SqlError::unsupported(format!("copying database \"{other}\" as a template"))
                .hint("Create it empty, and copy what is in it with pg_dump and psql.")),
        }
    }

    fn change(&self, database: DatabaseId, actions: Vec<SchemaAction>, tag: &'static str) -> DatabaseChange {
        DatabaseChange { database, ddl: Ddl { actions, tag, ..Ddl::default() }, vacated: None }
    }

    fn drop_database(
        &self,
        whole: &Catalog,
        name: &str,
        if_exists: bool,
        is_forced: bool,
    ) -> SqlResult<DatabaseChange> {
        if if_exists && self.databases().named(name).is_none() {
            let mut change = self.change(self.catalog.database(), Vec::new(), "DROP DATABASE");
            let told = format!("database \"{name}\" does not exist, skipping");
            change.ddl.notice(SqlState::SUCCESSFUL, told);
            return Ok(change);
        }
        let database = self.owned_database(name)?;
        if database.is_template {
            return Err(SqlError::new(SqlState(*b"42809"), "cannot drop a template database"));
        }
        if database.id == self.catalog.database() {
            return Err(in_use("cannot drop the currently open database"));
        }
        if database.id == MERIDIAN {
            return Err(SqlError::unsupported(format!("dropping database \"{name}\""))
                .detail("The cluster keeps what it needs itself there.")
                .hint("Drop its schemas."));
        }
        let part = whole.within(database.id).unwrap_or_else(|| whole.clone());
        let mut change = self.change(database.id, dropped(&part), "DROP DATABASE");
        change.vacated = Some(Vacated { id: database.id, name: name.into(), is_forced });
        Ok(change)
    }

    fn rename_database(&self, name: &str, to: &Ident) -> SqlResult<DatabaseChange> {
        let database = self.owned_database(name)?;
        if !self.creates_databases() {
            return Err(forbidden("permission denied to rename database"));
        }
        let to = crate::names::fold(to);
        if self.databases().named(&to).is_some() {
            return Err(databases::duplicate(&to));
        }
        if database.id == self.catalog.database() {
            return Err(SqlError::unsupported("renaming the current database"));
        }
        if database.id == MERIDIAN {
            return Err(SqlError::unsupported(format!("renaming database \"{name}\"")));
        }
        let renamed = Database { name: to, ..database.as_ref().clone() };
        let actions = vec![SchemaAction::PutDatabase(renamed)];
        let mut change = self.change(self.catalog.database(), actions, "ALTER DATABASE");
        change.vacated = Some(Vacated { id: database.id, name: name.into(), is_forced: false });
        Ok(change)
    }

    fn set_for_database(
        &self,
        database: &str,
        name: Option<&str>,
        wanted: &WantedSetting,
    ) -> SqlResult<DatabaseChange> {
        let id = self.owned_database(database)?.id;
        let change = self.setting_change(name, wanted)?;
        let changes = self.with_setting(SettingScope { role: PUBLIC, database: Some(id) }, change)?;
        let ddl = changes.into_ddl("ALTER DATABASE", Vec::new());
        Ok(DatabaseChange { database: self.catalog.database(), ddl, vacated: None })
    }

    /// The schema `public` goes with its database, if it has the same owner.
    fn give_database(&self, whole: &Catalog, name: &str, to: &Ident) -> SqlResult<DatabaseChange> {
        let database = self.owned_database(name)?;
        let owner = self.new_owner(to)?;
        if !self.creates_databases() {
            return Err(forbidden("permission denied to change owner of database"));
        }
        let part = whole.within(database.id);
        let part = part.as_ref().unwrap_or(whole);
        let (object, public) = (Object::Database(database.id), Object::Schema(PUBLIC_SCHEMA.into()));
        let is_theirs = part.roles.owner_of(&public) == part.roles.owner_of(&object);
        let has_it = part.schemas.iter().any(|schema| schema == PUBLIC_SCHEMA);
        let with_it = (has_it && is_theirs).then_some(public);
        let owned = [object].into_iter().chain(with_it);
        let actions = owned.map(|object| SchemaAction::Roles(RoleChange::SetOwner(object, owner))).collect();
        Ok(self.change(database.id, actions, "ALTER DATABASE"))
    }

    fn alter_database(&self, name: &str, options: &[(String, OptionValue)]) -> SqlResult<DatabaseChange> {
        let mut database = self.owned_database(name)?.as_ref().clone();
        for (option, value) in options {
            if !set_option(&mut database, option, value)? {
                let told = format!("option \"{option}\" not recognized");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, told));
            }
        }
        if !database.allows_connections && database.id == self.catalog.database() {
            return Err(invalid("cannot disallow connections for current database".into()));
        }
        let actions = vec![SchemaAction::PutDatabase(database)];
        Ok(self.change(self.catalog.database(), actions, "ALTER DATABASE"))
    }
}

/// What can be said of a database at any time; false: it is something else.
fn set_option(database: &mut Database, option: &str, value: &OptionValue) -> SqlResult<bool> {
    match option {
        "allow_connections" => database.allows_connections = boolean(option, value, true)?,
        "is_template" => database.is_template = boolean(option, value, false)?,
        "connection limit" | "connection_limit" => {
            let text = value.text().unwrap_or_else(|| "-1".into());
            let limit: Option<i64> =
                text.parse().ok().filter(|limit| (-1..=i64::from(i32::MAX)).contains(limit));
            let limit = limit.ok_or_else(|| invalid(format!("invalid connection limit: {text}")))?;
            database.connections_max = u32::try_from(limit).ok();
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn boolean(option: &str, value: &OptionValue, default: bool) -> SqlResult<bool> {
    let Some(text) = value.text() else { return Ok(default) };
    match text.to_lowercase().as_str() {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("{option} requires a Boolean value"))),
    }
}

/// What is the same in every database. Errors: 0A000 for another value, by its name; 42704, 42601.
fn check_fixed(option: &str, value: &OptionValue) -> SqlResult<()> {
    let Some(text) = value.text() else { return Ok(()) };
    let small = text.to_lowercase();
    match option {
        "encoding" if ["utf8", "utf-8", "unicode", "6"].contains(&small.as_str()) => Ok(()),
        "encoding" => {
            Err(SqlError::unsupported(format!("encoding \"{text}\"")).hint("All databases are UTF8."))
        }
        "locale" | "lc_collate" | "lc_ctype"
            if ["c", "posix", "c.utf-8", "c.utf8"].contains(&small.as_str()) =>
        {
            Ok(())
        }
        "locale" | "lc_collate" | "lc_ctype" => Err(SqlError::unsupported(format!("locale \"{text}\""))
            .hint("Texts are ordered by their characters' numbers: C, POSIX and C.UTF-8.")),
        "locale_provider" if small == "libc" => Ok(()),
        "locale_provider" => Err(SqlError::unsupported(format!("locale provider \"{text}\""))),
        // Nothing is copied.
        "strategy" if ["wal_log", "file_copy"].contains(&small.as_str()) => Ok(()),
        "strategy" => Err(invalid(format!("invalid create database strategy \"{text}\""))),
        "tablespace" if text == "pg_default" => Ok(()),
        "tablespace" => {
            let told = format!("tablespace \"{text}\" does not exist");
            Err(SqlError::new(SqlState::UNDEFINED_OBJECT, told))
        }
        "icu_locale" | "collation_version" | "oid" => {
            Err(SqlError::unsupported(format!("option {} of CREATE DATABASE", option.to_uppercase())))
        }
        _ => {
            let told = format!("option \"{option}\" not recognized");
            Err(SqlError::new(SqlState::SYNTAX_ERROR, told))
        }
    }
}

/// Drops everything that a database has, and itself.
fn dropped(part: &Catalog) -> Vec<SchemaAction> {
    let owned = |owner: Option<(base::TableId, usize)>| {
        owner.is_some_and(|(table, _)| part.tables.contains_key(&table))
    };
    let mut actions: Vec<SchemaAction> = part.tables.keys().copied().map(SchemaAction::DropTable).collect();
    actions.extend(part.views.keys().copied().map(SchemaAction::DropView));
    let alone = part.sequences.values().filter(|sequence| !owned(sequence.owner));
    actions.extend(alone.map(|sequence| SchemaAction::DropSequence(sequence.id)));
    actions.extend(part.routines.0.keys().copied().map(SchemaAction::DropRoutine));
    actions.extend(part.types.ids().map(SchemaAction::DropType));
    actions.extend(part.schemas.iter().cloned().map(SchemaAction::DropSchema));
    actions.push(SchemaAction::DropDatabase(part.database()));
    actions
}

//! Roles and memberships as changes of the catalog.

use super::role_settings::setting_text;
use super::{Ddl, DdlContext};
use crate::names;
use crate::parse::WantedSetting;
use base::error::{SqlError, SqlResult, SqlState};
use base::roles::{Object, ROOT, Role, RoleChange, RoleId, Roles, Secret, duplicate, missing};
use base::schema::SchemaAction;
use base::{DataType, Datum, TableId};
use sqlparser::ast;
use std::collections::BTreeMap;

/// What is random or slow: verifiers of passwords.
pub trait Secrets {
    /// What is kept of a password, or of a verifier that was given instead.
    fn kept(&self, password: &str) -> Secret;
    /// Unguessable.
    fn random(&self) -> Secret;
}

/// Changes so far, and the roles that they make.
pub(super) struct Changes {
    pub roles: Roles,
    all: Vec<RoleChange>,
}

impl Changes {
    pub fn add(&mut self, change: RoleChange) -> SqlResult<()> {
        self.roles.apply(&change)?;
        self.all.push(change);
        Ok(())
    }
    pub fn into_ddl(self, tag: &'static str, notices: Vec<(SqlState, String)>) -> Ddl {
        let actions = self.all.into_iter().map(SchemaAction::Roles).collect();
        Ddl { actions, tag, notices, ..Ddl::default() }
    }
}

pub(super) fn forbidden(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
}

/// 0LP01.
pub(super) fn invalid_grant(message: String) -> SqlError {
    SqlError::new(SqlState(*b"0LP01"), message)
}

impl DdlContext<'_> {
    pub(super) fn roles(&self) -> &Roles {
        &self.catalog.roles
    }
    pub(super) fn changes(&self) -> Changes {
        Changes { roles: self.roles().clone(), all: Vec::new() }
    }
    pub(super) fn creates_roles(&self) -> bool {
        let role = self.roles().roles.get(&self.standing.role);
        self.standing.is_superuser || role.is_some_and(|role| role.can_create_roles)
    }

    /// A role that a statement names, by itself or as the current one. Errors: 42704.
    pub(super) fn role(&self, roles: &Roles, ident: &ast::Ident) -> SqlResult<RoleId> {
        let name = names::fold(ident);
        let is_word = ident.quote_style.is_none();
        match name.as_str() {
            "current_user" | "current_role" if is_word => Ok(self.standing.role),
            "session_user" if is_word => Err(SqlError::unsupported("SESSION_USER as the name of a role")),
            name => roles.named(name).map(|role| role.id).ok_or_else(|| missing(name)),
        }
    }

    pub(super) fn create_role(&self, create: &ast::CreateRole) -> SqlResult<Ddl> {
        if !self.creates_roles() {
            return Err(forbidden("permission denied to create role"));
        }
        let mut options: Vec<ast::RoleOption> = Vec::new();
        let flags = [
            (create.login, ast::RoleOption::Login as fn(bool) -> ast::RoleOption),
            (create.inherit, ast::RoleOption::Inherit),
            (create.superuser, ast::RoleOption::SuperUser),
            (create.bypassrls, ast::RoleOption::BypassRLS),
            (create.create_db, ast::RoleOption::CreateDB),
            (create.create_role, ast::RoleOption::CreateRole),
            (create.replication, ast::RoleOption::Replication),
        ];
        options.extend(flags.into_iter().filter_map(|(given, option)| given.map(option)));
        options.extend(create.password.clone().map(ast::RoleOption::Password));
        options.extend(create.connection_limit.clone().map(ast::RoleOption::ConnectionLimit));
        options.extend(create.valid_until.clone().map(ast::RoleOption::ValidUntil));
        let (mut changes, mut notices) = (self.changes(), Vec::new());
        for name in &create.names {
            let name = names::parts(name)?.pop().expect("a name has a part");
            check_name(&name)?;
            if changes.roles.named(&name).is_some() {
                if !create.if_not_exists {
                    return Err(duplicate(&name));
                }
                let told = format!("role \"{name}\" already exists, skipping");
                notices.push((SqlState::DUPLICATE_OBJECT, told));
                continue;
            }
            let mut role = Role {
                id: RoleId(changes.roles.next_id),
                name,
                is_superuser: false,
                inherits: true,
                can_login: false,
                can_create_roles: false,
                can_create_databases: false,
                connections_max: None,
                verifier: None,
                valid_until_us: None,
                member_of: BTreeMap::new(),
            };
            options.iter().try_for_each(|option| self.set_option(&mut changes, &mut role, option))?;
            if role.is_superuser && !self.standing.is_superuser {
                return Err(forbidden("must be superuser to create superusers"));
            }
            let id = role.id;
            changes.add(RoleChange::Put(role))?;
            for group in create.in_role.iter().chain(&create.in_group) {
                let group = self.role(&changes.roles, group)?;
                self.add_member(&mut changes, &mut notices, group, id, false)?;
            }
            let members = create.role.iter().chain(&create.user).map(|member| (member, false));
            for (member, admin) in members.chain(create.admin.iter().map(|member| (member, true))) {
                let member = self.role(&changes.roles, member)?;
                self.add_member(&mut changes, &mut notices, id, member, admin)?;
            }
        }
        Ok(changes.into_ddl("CREATE ROLE", notices))
    }

    fn set_option(&self, changes: &mut Changes, role: &mut Role, option: &ast::RoleOption) -> SqlResult<()> {
        use ast::RoleOption as O;
        match option {
            O::Login(on) => role.can_login = *on,
            O::Inherit(on) => role.inherits = *on,
            O::SuperUser(on) => role.is_superuser = *on,
            O::CreateDB(on) => role.can_create_databases = *on,
            O::CreateRole(on) => role.can_create_roles = *on,
            O::BypassRLS(false) | O::Replication(false) => {}
            // They do anyway.
            O::BypassRLS(true) if role.is_superuser => {}
            O::BypassRLS(true) => return Err(SqlError::unsupported("BYPASSRLS")),
            O::Replication(true) => return Err(SqlError::unsupported("REPLICATION")),
            O::ConnectionLimit(e) => {
                let limit: i64 = e.to_string().parse().unwrap_or(i64::MIN);
                let invalid = || {
                    let message = format!("invalid connection limit: {e}");
                    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                };
                role.connections_max = match limit {
                    -1 => None,
                    limit => Some(u32::try_from(limit).map_err(|_| invalid())?),
                };
            }
            O::ValidUntil(e) => role.valid_until_us = end_of_password(e)?,
            O::Password(ast::Password::NullPassword) => role.verifier = None,
            O::Password(ast::Password::Password(e)) => {
                let password = text_of(e).ok_or_else(|| {
                    SqlError::new(SqlState::SYNTAX_ERROR, "a password is a string in single quotes")
                })?;
                let is_md5 = password.len() == 35
                    && password.strip_prefix("md5").is_some_and(|h| h.bytes().all(|b| b.is_ascii_hexdigit()));
                if is_md5 {
                    return Err(SqlError::unsupported("a password as its MD5 hash"));
                }
                // PostgreSQL takes an empty password for none.
                role.verifier = (!password.is_empty()).then(|| self.secrets.kept(password));
                if changes.roles.mock_secret.is_none() {
                    changes.add(RoleChange::SetMockSecret(self.secrets.random()))?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn alter_role(
        &self,
        name: &ast::Ident,
        operation: &ast::AlterRoleOperation,
    ) -> SqlResult<Ddl> {
        match operation {
            ast::AlterRoleOperation::Set { config_name, config_value, in_database } => {
                let wanted = match config_value {
                    ast::SetConfigValue::Default => WantedSetting::Default,
                    ast::SetConfigValue::FromCurrent => WantedSetting::Current,
                    ast::SetConfigValue::Value(e) => {
                        let name = names::parts(config_name)?.join(".");
                        WantedSetting::Value(setting_text(&name, std::slice::from_ref(e)))
                    }
                };
                return self.set_for_role(name, in_database.as_ref(), (Some(config_name), wanted));
            }
            ast::AlterRoleOperation::Reset { config_name, in_database } => {
                let name_of = match config_name {
                    ast::ResetConfig::ALL => None,
                    ast::ResetConfig::ConfigName(name) => Some(name),
                };
                return self.set_for_role(name, in_database.as_ref(), (name_of, WantedSetting::Default));
            }
            _ => {}
        }
        let mut changes = self.changes();
        let id = self.role(&changes.roles, name)?;
        let mut role = changes.roles.roles[&id].clone();
        let before = role.clone();
        match operation {
            ast::AlterRoleOperation::WithOptions { options } => {
                options.iter().try_for_each(|option| self.set_option(&mut changes, &mut role, option))?;
                let of_superusers = before.is_superuser || role.is_superuser != before.is_superuser;
                if of_superusers && !self.standing.is_superuser {
                    let message = "must be superuser to alter superuser roles or change superuser attribute";
                    return Err(forbidden(message));
                }
                let only_password =
                    options.iter().all(|option| matches!(option, ast::RoleOption::Password(_)));
                let is_own = id == self.standing.role && only_password;
                if !self.creates_roles() && !is_own {
                    return Err(forbidden("permission denied"));
                }
                if id == ROOT && !(role.is_superuser && role.can_login) {
                    return Err(SqlError::unsupported("taking SUPERUSER or LOGIN from role root"));
                }
            }
            ast::AlterRoleOperation::RenameRole { role_name } => {
                if before.is_superuser && !self.standing.is_superuser {
                    return Err(forbidden("must be superuser to rename superusers"));
                }
                if !self.creates_roles() {
                    return Err(forbidden("permission denied to rename role"));
                }
                if id == self.standing.role || id == ROOT {
                    return Err(SqlError::unsupported("renaming the current user, or role root"));
                }
                role.name = names::fold(role_name);
                check_name(&role.name)?;
                if changes.roles.named(&role.name).is_some() {
                    return Err(duplicate(&role.name));
                }
            }
            _ => return Err(SqlError::unsupported("this form of ALTER ROLE")),
        }
        changes.add(RoleChange::Put(role))?;
        Ok(changes.into_ddl("ALTER ROLE", Vec::new()))
    }

    pub(super) fn drop_role(&self, if_exists: bool, names: &[ast::ObjectName]) -> SqlResult<Ddl> {
        if !self.creates_roles() {
            return Err(forbidden("permission denied to drop role"));
        }
        let (mut changes, mut notices) = (self.changes(), Vec::new());
        for name in names {
            let name = names::parts(name)?.pop().expect("a name has a part");
            let Some(role) = changes.roles.named(&name) else {
                if !if_exists {
                    return Err(missing(&name));
                }
                notices.push((SqlState::SUCCESSFUL, format!("role \"{name}\" does not exist, skipping")));
                continue;
            };
            let (id, is_superuser) = (role.id, role.is_superuser);
            if id == self.standing.role {
                return Err(SqlError::new(SqlState(*b"55006"), "current user cannot be dropped"));
            }
            if is_superuser && !self.standing.is_superuser {
                return Err(forbidden("must be superuser to drop superusers"));
            }
            let dependents = self.dependents(&changes.roles, id);
            if id == ROOT || !dependents.is_empty() {
                let message = format!("role \"{name}\" cannot be dropped because some objects depend on it");
                let detail = if id == ROOT { "The cluster needs it.".into() } else { dependents.join("\n") };
                return Err(SqlError::new(SqlState(*b"2BP01"), message).detail(detail));
            }
            changes.add(RoleChange::Drop(id))?;
        }
        Ok(changes.into_ddl("DROP ROLE", notices))
    }

    /// What a role owns or may do.
    fn dependents(&self, roles: &Roles, id: RoleId) -> Vec<String> {
        let owned = roles.owners.iter().filter(|(_, owner)| **owner == id);
        let owned = owned.map(|(object, _)| format!("owner of {}", self.described(object)));
        let granted = roles.rights.iter().filter(|(_, all)| all.contains_key(&id));
        owned.chain(granted.map(|(object, _)| format!("privileges for {}", self.described(object)))).collect()
    }

    /// Whether something is of the database that is changed.
    fn is_own(&self, id: TableId) -> bool {
        self.catalog.databases.of(id) == self.catalog.database() || self.catalog.seen_from.is_none()
    }

    /// Kind and name of an object, as errors say them.
    pub(super) fn kind_and_name(&self, object: &Object) -> (&'static str, String) {
        let relation = |id: &TableId| match (self.catalog.table(*id), self.catalog.sequences.get(id)) {
            (Some(table), _) => (crate::materialized::kind(self.catalog, table), table.name.clone()),
            (None, Some(sequence)) => ("sequence", sequence.name.clone()),
            (None, None) => match (self.catalog.views.get(id), self.catalog.types.made(*id)) {
                (Some(view), _) => {
                    (crate::materialized::kind(self.catalog, &view.shape), view.shape.name.clone())
                }
                (None, Some(of)) => ("type", of.name()),
                (None, None) => match self.catalog.routines.0.get(id) {
                    Some(routine) => (routine.kind(), routine.name.clone()),
                    None => ("relation", id.0.to_string()),
                },
            },
        };
        match object {
            Object::Database(id) => ("database", self.catalog.databases.name(*id).to_string()),
            Object::Schema(name) => ("schema", name.clone()),
            Object::SchemaOf(of, name) => {
                ("schema", format!("{name} of database {}", self.catalog.databases.name(*of)))
            }
            Object::Relation(id) | Object::Column(id, _) if !self.is_own(*id) => {
                let of = self.catalog.databases.of(*id);
                ("object", format!("{} of database {}", id.0, self.catalog.databases.name(of)))
            }
            Object::Procedure(name) => ("procedure", name.clone()),
            Object::Relation(id) | Object::Column(id, _) => relation(id),
        }
    }
    pub(super) fn described(&self, object: &Object) -> String {
        let (kind, name) = self.kind_and_name(object);
        match object {
            Object::Column(id, column) => {
                let table = self.catalog.relation(*id).map(base::views::Relation::shape);
                let column = table.and_then(|table| table.columns.get(*column as usize));
                format!("column {} of {kind} {name}", column.map_or("", |column| &column.name))
            }
            _ => format!("{kind} {name}"),
        }
    }

    /// Errors: 42501, 0LP01 for a circle.
    pub(super) fn add_member(
        &self,
        changes: &mut Changes,
        notices: &mut Vec<(SqlState, String)>,
        group: RoleId,
        member: RoleId,
        admin: bool,
    ) -> SqlResult<()> {
        self.check_admin(&changes.roles, group)?;
        let roles = &changes.roles;
        let (group_name, name) = (roles.name(group).to_string(), roles.name(member).to_string());
        if roles.memberships(group, false).contains(&member) {
            return Err(invalid_grant(format!("role \"{group_name}\" is a member of role \"{name}\"")));
        }
        let mut role = roles.roles[&member].clone();
        match role.member_of.get(&group) {
            Some(already) if *already || !admin => {
                let told = format!("role \"{name}\" is already a member of role \"{group_name}\"");
                notices.push((SqlState::SUCCESSFUL, told));
                Ok(())
            }
            _ => {
                role.member_of.insert(group, admin);
                changes.add(RoleChange::Put(role))
            }
        }
    }

    /// Whether the acting role may give membership of a group. Errors: 42501.
    pub(super) fn check_admin(&self, roles: &Roles, group: RoleId) -> SqlResult<()> {
        if self.standing.is_superuser {
            return Ok(());
        }
        if roles.roles[&group].is_superuser {
            return Err(forbidden("must be superuser to alter superusers"));
        }
        let is_admin =
            |id: &RoleId| roles.roles.get(id).and_then(|role| role.member_of.get(&group)) == Some(&true);
        match self.creates_roles() || self.standing.has.iter().any(is_admin) {
            true => Ok(()),
            false => Err(forbidden(format!("must have admin option on role \"{}\"", roles.name(group)))),
        }
    }
}

fn check_name(name: &str) -> SqlResult<()> {
    let reserved = |detail: Option<&str>| {
        let error = SqlError::new(SqlState(*b"42939"), format!("role name \"{name}\" is reserved"));
        Err(match detail {
            Some(detail) => error.detail(detail),
            None => error,
        })
    };
    match name {
        "public" | "none" => reserved(None),
        name if name.starts_with("pg_") => reserved(Some("Role names starting with \"pg_\" are reserved.")),
        _ => Ok(()),
    }
}

fn text_of(e: &ast::Expr) -> Option<&str> {
    let ast::Expr::Value(value) = e else { return None };
    match &value.value {
        ast::Value::SingleQuotedString(text) | ast::Value::EscapedStringLiteral(text) => Some(text),
        ast::Value::DollarQuotedString(text) => Some(&text.value),
        _ => None,
    }
}

/// VALID UNTIL; `None`: forever. Errors: 22007.
fn end_of_password(e: &ast::Expr) -> SqlResult<Option<i64>> {
    let text =
        text_of(e).ok_or_else(|| SqlError::new(SqlState::SYNTAX_ERROR, "VALID UNTIL needs a string"))?;
    if text.eq_ignore_ascii_case("infinity") {
        return Ok(None);
    }
    match base::text::parse(text, DataType::TimestampTz)? {
        Datum::Timestamp(us) => Ok(Some(us)),
        _ => Err(SqlError::internal("a point in time is a timestamp")),
    }
}

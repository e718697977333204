//! Roles and privileges in the system catalog: `pg_roles`, `pg_auth_members`, access control lists,
//! `information_schema.table_privileges`, `has_table_privilege(…)` and its kin.
//!
//! KEEPS: no verifier is shown to anybody.

use super::{Made, partitions, texts};
use crate::context::Context;
use base::databases::{DatabaseId, MERIDIAN};
use base::error::{SqlError, SqlResult, SqlState};
use base::role_settings::SettingScope;
use base::roles::{Object, PRIVILEGES, PUBLIC, Privileges, RoleId, Roles, Standing, missing};
use base::schema::Table;
use base::{DataType, Datum, TableId};
use sql::lower::FIRST_OID;
use std::collections::BTreeMap;

const TEXT: DataType = DataType::Text;
const BOOL: DataType = DataType::Boolean;
const INT: DataType = DataType::Integer;

fn text(s: impl AsRef<str>) -> Datum {
    Datum::text(s)
}
fn int(i: impl Into<i64>) -> Datum {
    Datum::Int(i.into())
}

/// `pg_roles`, `pg_authid` and `pg_user`, whose columns stand beside each other.
pub(super) fn roles(context: &Context<'_>, name: &str) -> Made {
    let mut made = Made::new(&[
        ("oid", INT),
        ("rolname", TEXT),
        ("rolsuper", BOOL),
        ("rolinherit", BOOL),
        ("rolcreaterole", BOOL),
        ("rolcreatedb", BOOL),
        ("rolcanlogin", BOOL),
        ("rolreplication", BOOL),
        ("rolconnlimit", INT),
        ("rolpassword", TEXT),
        ("rolvaliduntil", DataType::TimestampTz),
        ("rolbypassrls", BOOL),
        ("rolconfig", texts()),
        ("usename", TEXT),
        ("usesysid", INT),
        ("usesuper", BOOL),
    ]);
    let roles = context.catalog.roles.roles.values().filter(|role| name != "pg_user" || role.can_login);
    made.rows = roles
        .map(|role| {
            let shown = if context.catalog.roles.is_open() { context.user } else { &role.name };
            vec![
                int(role.id.0),
                text(shown),
                Datum::Bool(role.is_superuser),
                Datum::Bool(role.inherits),
                Datum::Bool(role.can_create_roles),
                Datum::Bool(role.can_create_databases),
                Datum::Bool(role.can_login),
                Datum::Bool(false),
                int(role.connections_max.map_or(-1, i64::from)),
                if name == "pg_authid" { Datum::Null } else { text("********") },
                role.valid_until_us.map_or(Datum::Null, Datum::Timestamp),
                Datum::Bool(role.is_superuser),
                settings_of(context, SettingScope { role: role.id, database: None }),
                text(shown),
                int(role.id.0),
                Datum::Bool(role.is_superuser),
            ]
        })
        .collect();
    made
}

/// Settings of a scope as `name=value` each; NULL if there are none.
fn settings_of(context: &Context<'_>, scope: SettingScope) -> Datum {
    let shown = |values: &BTreeMap<String, String>| {
        let each = values.iter().map(|(name, value)| text(format!("{name}={value}")));
        Datum::Array(each.collect::<Vec<_>>().into())
    };
    context.catalog.roles.settings.0.get(&scope).map_or(Datum::Null, shown)
}

/// `pg_db_role_setting`: what sessions begin with.
pub(super) fn settings(context: &Context<'_>) -> Made {
    let mut made = Made::new(&[("setdatabase", INT), ("setrole", INT), ("setconfig", texts())]);
    for scope in context.catalog.roles.settings.0.keys() {
        let database = scope.database.map_or(0, |database| database.0);
        made.rows.push(vec![int(database), int(scope.role.0), settings_of(context, *scope)]);
    }
    made
}

pub(super) fn members(context: &Context<'_>) -> Made {
    let mut made = Made::new(&[("roleid", INT), ("member", INT), ("grantor", INT), ("admin_option", BOOL)]);
    for role in context.catalog.roles.roles.values() {
        for (group, admin) in &role.member_of {
            made.rows.push(vec![int(group.0), int(role.id.0), int(base::roles::ROOT.0), Datum::Bool(*admin)]);
        }
    }
    made
}

/// The name of an object's owner, or of any role by its number. While no role was created it is the user's own.
pub(super) fn role_name(context: &Context<'_>, id: RoleId) -> Option<String> {
    let roles = &context.catalog.roles;
    match roles.roles.get(&id) {
        Some(_) if roles.is_open() => Some(context.user.to_string()),
        Some(role) => Some(role.name.clone()),
        None => Some(format!("unknown (OID={})", id.0)),
    }
}

/// Names of the roles that one is a member of.
pub(super) fn member_of(context: &Context<'_>, id: RoleId) -> Vec<String> {
    let roles = &context.catalog.roles;
    let role = roles.roles.get(&id);
    role.into_iter().flat_map(|role| role.member_of.keys()).map(|id| roles.name(*id).to_string()).collect()
}

/// Entries of an object's access control list as PostgreSQL prints them; `None` if it has none.
pub(super) fn entries(context: &Context<'_>, object: &Object, of_owner: Privileges) -> Option<Vec<String>> {
    let roles = &context.catalog.roles;
    let granted = roles.rights.get(object)?;
    // What everybody may do from the beginning is not written out.
    let is_database = matches!(object, Object::Database(_));
    if is_database && Roles::default().rights.get(&Object::Database(MERIDIAN)) == Some(granted) {
        return None;
    }
    let name_of = |id: RoleId| role_name(context, id).unwrap_or_default();
    let owner = name_of(roles.owner_of(object));
    let letters = |held: Privileges, grantable: Privileges| -> String {
        let each = held.each().flat_map(|(one, letter, _)| {
            [Some(letter), grantable.contains(one).then_some('*')].into_iter().flatten()
        });
        each.collect()
    };
    let mut entries = Vec::new();
    if !of_owner.is_empty() {
        entries.push(format!("{owner}={}/{owner}", letters(of_owner, Privileges::NONE)));
    }
    for (id, rights) in granted {
        let name = if *id == PUBLIC { String::new() } else { name_of(*id) };
        entries.push(format!("{name}={}/{owner}", letters(rights.held, rights.grantable)));
    }
    Some(entries)
}

/// Entries of a function's list; `None` while everybody may call it, as from the beginning.
pub(super) fn of_routine(context: &Context<'_>, object: &Object) -> Option<Vec<String>> {
    let granted = context.catalog.roles.rights.get(object);
    let is_common = granted.is_some_and(|all| {
        let held: Vec<_> = all.iter().map(|(id, rights)| (*id, rights.held)).collect();
        held == [(PUBLIC, Privileges::EXECUTE)]
    });
    if is_common {
        return None;
    }
    let owner = role_name(context, context.catalog.roles.owner_of(object)).unwrap_or_default();
    Some(entries(context, object, Privileges::EXECUTE).unwrap_or_else(|| vec![format!("{owner}=X/{owner}")]))
}

/// `acldefault(kind, owner)`: privileges on what nobody has granted anything on.
pub(super) fn default_list(context: &Context<'_>, kind: &str, owner: RoleId) -> Option<String> {
    let name = role_name(context, owner)?;
    let (to_all, own) = match kind {
        "r" => ("", "arwdDxt"),
        "s" => ("", "rwU"),
        "d" => ("Tc", "CTc"),
        "n" => ("", "UC"),
        "f" => ("X", "X"),
        "l" | "T" => ("U", "U"),
        "L" => ("", "rw"),
        "F" | "S" => ("", "U"),
        "t" => ("", "C"),
        _ => return None,
    };
    let to_all = if to_all.is_empty() { String::new() } else { format!("={to_all}/{name},") };
    Some(format!("{{{to_all}{name}={own}/{name}}}"))
}

/// The list as an array's text.
pub(super) fn list(context: &Context<'_>, object: &Object, of_owner: Privileges) -> Datum {
    match entries(context, object, of_owner) {
        Some(entries) => text(format!("{{{}}}", entries.join(","))),
        None => Datum::Null,
    }
}

/// Privileges on columns of a table, as psql's `\dp` shows them.
pub(super) fn of_columns(context: &Context<'_>, table: &Table, between: &str) -> Option<String> {
    let mut shown = Vec::new();
    for (column, described) in table.visible_columns() {
        let object = Object::Column(table.id, column as u32);
        if let Some(entries) = entries(context, &object, Privileges::NONE) {
            shown.push(format!("{}:\n  {}", described.name, entries.join("\n  ")));
        }
    }
    (!shown.is_empty()).then(|| shown.join(between))
}

/// `table_privileges` and `column_privileges`: what concerns a role that the session's has.
pub(super) fn granted(context: &Context<'_>, of_columns: bool) -> Made {
    let mut columns = vec![
        ("grantor", TEXT),
        ("grantee", TEXT),
        ("table_catalog", TEXT),
        ("table_schema", TEXT),
        ("table_name", TEXT),
    ];
    columns.extend(of_columns.then_some(("column_name", TEXT)));
    columns.extend([("privilege_type", TEXT), ("is_grantable", TEXT)]);
    columns.extend((!of_columns).then_some(("with_hierarchy", TEXT)));
    let mut made = Made::new(&columns);
    let (roles, standing) = (&context.catalog.roles, &context.standing);
    let is_shown = |id: RoleId| id == PUBLIC || standing.is_superuser || standing.has.contains(&id);
    for table in partitions::tables(context.catalog) {
        let relation = Object::Relation(table.id);
        let owner = roles.owner_of(&relation);
        let mut add =
            |grantee: RoleId, column: Option<&str>, privileges: Privileges, grantable: Privileges| {
                if !is_shown(grantee) && !is_shown(owner) {
                    return;
                }
                for (one, _, privilege) in privileges.each() {
                    let name =
                        if grantee == PUBLIC { Some("PUBLIC".into()) } else { role_name(context, grantee) };
                    let mut row = vec![
                        text(role_name(context, owner).unwrap_or_default()),
                        text(name.unwrap_or_default()),
                        text(context.database),
                        text(&table.schema),
                        text(&table.name),
                    ];
                    row.extend(column.map(text));
                    let yes = |yes| text(if yes { "YES" } else { "NO" });
                    row.extend([text(privilege), yes(grantable.contains(one))]);
                    row.extend(column.is_none().then(|| yes(one == Privileges::SELECT)));
                    made.rows.push(row);
                }
            };
        let mut all: Vec<(RoleId, Privileges, Privileges)> =
            vec![(owner, Privileges::OF_TABLE, Privileges::OF_TABLE)];
        let explicit = roles.rights.get(&relation).into_iter().flatten();
        all.extend(explicit.map(|(id, rights)| (*id, rights.held, rights.grantable)));
        if !of_columns {
            all.into_iter().for_each(|(id, held, grantable)| add(id, None, held, grantable));
            continue;
        }
        for (column, described) in table.visible_columns() {
            let own = roles.rights.get(&Object::Column(table.id, column as u32)).into_iter().flatten();
            let own = own.map(|(id, rights)| (*id, rights.held, rights.grantable));
            for (id, held, grantable) in all.iter().copied().chain(own) {
                add(id, Some(&described.name), held & Privileges::OF_COLUMN, grantable);
            }
        }
    }
    made
}

/// An argument of a question about privileges.
pub(super) enum Named {
    Text(String),
    Oid(i64),
}

/// `has_table_privilege([user,] table, privilege)` and its kin. Errors: 42704, 42P01, 42703, 22023.
pub(super) fn has(context: &Context<'_>, function: &str, arguments: &[Named]) -> SqlResult<bool> {
    let roles = &context.catalog.roles;
    let counted = match function {
        "has_column_privilege" => 3,
        _ => 2,
    };
    let (user, rest) = match arguments {
        [user, rest @ ..] if rest.len() == counted => (Some(user), rest),
        rest if rest.len() == counted => (None, rest),
        _ => {
            return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("{function} does not exist so")));
        }
    };
    let standing = match user {
        None => context.standing.as_ref().clone(),
        Some(user) => roles.standing(role(context, user)?),
    };
    let wanted = match rest.last() {
        Some(Named::Text(wanted)) => wanted.as_str(),
        _ => return Err(unrecognized("")),
    };
    if function == "pg_has_role" {
        let group = role(context, &rest[0])?;
        let inherited = wanted.to_ascii_uppercase().starts_with("USAGE");
        let held = roles.memberships(standing.role, inherited);
        return Ok(standing.is_superuser || held.contains(&group));
    }
    let (objects, any) = objects(context, function, rest)?;
    for one in wanted.split(',') {
        let one = one.trim().to_ascii_uppercase();
        let (name, with_option) = match one.strip_suffix(" WITH GRANT OPTION") {
            Some(name) => (name, true),
            None => (one.as_str(), false),
        };
        let privilege = PRIVILEGES.iter().find(|(.., known)| *known == name);
        let (privilege, ..) = privilege.ok_or_else(|| unrecognized(&one))?;
        let may = |object: &Object| may(roles, &standing, object, *privilege, with_option);
        // Any of the privileges will do, as in PostgreSQL.
        // What has no object of its own every role may use.
        if (any && objects.iter().any(may)) || (!any && objects.first().is_none_or(may)) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn may(roles: &Roles, standing: &Standing, object: &Object, wanted: Privileges, with_option: bool) -> bool {
    let of = |object: &Object| {
        let rights = roles.rights(standing, object);
        if with_option { rights.grantable } else { rights.held }
    };
    let of_table = match object {
        Object::Column(table, _) => of(&Object::Relation(*table)),
        _ => Privileges::NONE,
    };
    standing.is_superuser || (of(object) | of_table).contains(wanted)
}

fn unrecognized(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("unrecognized privilege type: \"{name}\""))
}

fn role(context: &Context<'_>, named: &Named) -> SqlResult<RoleId> {
    let roles = &context.catalog.roles;
    match named {
        Named::Text(name) => roles.acting(name).ok_or_else(|| missing(name)),
        Named::Oid(oid) => {
            let id = u32::try_from(*oid).ok().map(RoleId).filter(|id| roles.roles.contains_key(id));
            id.ok_or_else(|| {
                SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role with OID {oid} does not exist"))
            })
        }
    }
}

/// What a question is about, and whether any of it will do.
fn objects(context: &Context<'_>, function: &str, rest: &[Named]) -> SqlResult<(Vec<Object>, bool)> {
    let catalog = context.catalog;
    let name = |named: &Named| match named {
        Named::Text(name) => name.clone(),
        Named::Oid(oid) => oid.to_string(),
    };
    Ok(match function {
        "has_schema_privilege" => {
            let name = name(&rest[0]);
            let is_known = catalog.schemas.contains(&name) || name == "pg_catalog";
            if !is_known {
                let message = format!("schema \"{name}\" does not exist");
                return Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message));
            }
            (vec![Object::Schema(name)], false)
        }
        "has_database_privilege" => {
            let name = name(&rest[0]);
            let databases = &catalog.databases;
            let by_number = || {
                let id = name.parse().map(DatabaseId).ok()?;
                databases.all.get(&id)
            };
            let found = databases.named(&name).or_else(by_number);
            let found = found.ok_or_else(|| base::databases::missing(&name))?;
            (vec![Object::Database(found.id)], false)
        }
        "has_function_privilege" => {
            let number = match &rest[0] {
                Named::Text(name) => super::routine_names::named(context, name, true)?,
                Named::Oid(number) => *number,
            };
            let routine = super::routine_names::routine_of(context, number);
            (routine.map(|routine| Object::Relation(routine.id)).into_iter().collect(), false)
        }
        "has_sequence_privilege" => {
            let name = name(&rest[0]);
            let sequence = sql::catalog::find_sequence(catalog, context.search_path, &name)?;
            (vec![Object::Relation(sequence.id)], false)
        }
        "has_column_privilege" | "has_any_column_privilege" => {
            let table = table(context, &rest[0])?;
            let columns = table.visible_columns();
            let all = columns.map(|(column, _)| Object::Column(table.id, column as u32));
            if function == "has_any_column_privilege" {
                return Ok((all.collect(), true));
            }
            let column = match &rest[1] {
                Named::Text(name) => table.column_named(name),
                Named::Oid(number) => usize::try_from(number - 1).ok(),
            };
            let is_shown = |at: &usize| table.columns.get(*at).is_some_and(|column| !column.hidden);
            let column = column.filter(is_shown).ok_or_else(|| {
                let message =
                    format!("column \"{}\" of relation \"{}\" does not exist", name(&rest[1]), table.name);
                SqlError::new(SqlState::UNDEFINED_COLUMN, message)
            })?;
            (vec![Object::Column(table.id, column as u32)], false)
        }
        _ => (vec![Object::Relation(table(context, &rest[0])?.id)], false),
    })
}

fn table<'a>(context: &Context<'a>, named: &Named) -> SqlResult<&'a Table> {
    let catalog = context.catalog;
    let found = match named {
        Named::Oid(oid) => {
            let id = u32::try_from(*oid).ok().and_then(|oid| oid.checked_sub(FIRST_OID));
            let found = id.and_then(|id| catalog.relation(TableId(id)));
            found.ok_or_else(|| sql::catalog::undefined(None, &oid.to_string()))?
        }
        Named::Text(name) => {
            let (written, name) = sql::catalog::written_name(catalog, name)?;
            let mut schemas = sql::temporary::schemas(written.as_deref(), context.search_path);
            let found = schemas.find_map(|schema| catalog.relation_named(schema, &name));
            found.ok_or_else(|| sql::catalog::undefined(written.as_deref(), &name))?
        }
    };
    Ok(found.shape().as_ref())
}

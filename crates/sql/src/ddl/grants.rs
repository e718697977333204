//! GRANT, REVOKE and OWNER TO as changes of the catalog, and whose an object is.

use super::roles::{forbidden, invalid_grant};
use super::{Ddl, DdlContext, routines};
use crate::names;
use crate::privileges::denied;
use base::TableId;
use base::error::{SqlError, SqlResult, SqlState};
use base::roles::{Object, PUBLIC, Privileges, Rights, RoleChange, RoleId, Roles, missing};
use sqlparser::ast;

impl DdlContext<'_> {
    pub(super) fn grant(&self, grant: &ast::Grant) -> SqlResult<Ddl> {
        let (mut changes, mut notices) = (self.changes(), Vec::new());
        let with_option = grant.with_grant_option;
        if let Some(groups) = groups(&grant.privileges, grant.objects.as_ref())? {
            for group in groups {
                let group = self.role(&changes.roles, group)?;
                for member in &grant.grantees {
                    let member = self.member(&changes.roles, member)?;
                    self.add_member(&mut changes, &mut notices, group, member, with_option)?;
                }
            }
            return Ok(changes.into_ddl("GRANT ROLE", notices));
        }
        for (object, wanted) in self.wanted(&grant.privileges, grant.objects.as_ref())? {
            let granted = self.grantable(&object, wanted)?;
            let is_all = matches!(grant.privileges, ast::Privileges::All { .. });
            self.warn(&mut notices, &object, granted, is_all || granted == wanted, "granted");
            for grantee in &grant.grantees {
                let grantee = self.grantee(&changes.roles, grantee)?;
                if with_option && grantee == PUBLIC {
                    return Err(invalid_grant("grant options can only be granted to roles".into()));
                }
                let mut rights = rights_of(&changes.roles, &object, grantee);
                rights.held = rights.held | granted;
                if with_option {
                    rights.grantable = rights.grantable | granted;
                }
                changes.add(RoleChange::SetRights(object.clone(), grantee, rights))?;
            }
        }
        Ok(changes.into_ddl("GRANT", notices))
    }

    pub(super) fn revoke(&self, revoke: &ast::Revoke) -> SqlResult<Ddl> {
        let (mut changes, mut notices) = (self.changes(), Vec::new());
        if let Some(groups) = groups(&revoke.privileges, revoke.objects.as_ref())? {
            for group in groups {
                let group = self.role(&changes.roles, group)?;
                self.check_admin(&changes.roles, group)?;
                for member in &revoke.grantees {
                    let member = self.member(&changes.roles, member)?;
                    let mut role = changes.roles.roles[&member].clone();
                    if role.member_of.remove(&group).is_none() {
                        let (name, group) = (&role.name, changes.roles.name(group));
                        let told = format!("role \"{name}\" is not a member of role \"{group}\"");
                        notices.push((SqlState(*b"01000"), told));
                        continue;
                    }
                    changes.add(RoleChange::Put(role))?;
                }
            }
            return Ok(changes.into_ddl("REVOKE ROLE", notices));
        }
        for (object, wanted) in self.wanted(&revoke.privileges, revoke.objects.as_ref())? {
            let taken = self.grantable(&object, wanted)?;
            let is_all = matches!(revoke.privileges, ast::Privileges::All { .. });
            self.warn(&mut notices, &object, taken, is_all || taken == wanted, "revoked");
            // What is taken for a table is taken for its columns.
            let mut objects = vec![object.clone()];
            if let Object::Relation(id) = &object {
                let of_columns = changes.roles.rights.keys();
                objects
                    .extend(of_columns.filter(|o| matches!(o, Object::Column(of, _) if of == id)).cloned());
            }
            for grantee in &revoke.grantees {
                let grantee = self.grantee(&changes.roles, grantee)?;
                for object in &objects {
                    let before = rights_of(&changes.roles, object, grantee);
                    let rights = Rights { held: before.held & !taken, grantable: before.grantable & !taken };
                    if rights != before {
                        changes.add(RoleChange::SetRights(object.clone(), grantee, rights))?;
                    }
                }
            }
        }
        Ok(changes.into_ddl("REVOKE", notices))
    }

    /// Of these privileges, those that the acting role may give. Errors: 42501 for who has none at all.
    fn grantable(&self, object: &Object, wanted: Privileges) -> SqlResult<Privileges> {
        let mut own = self.roles().rights(self.standing, object);
        if let Object::Column(id, _) = object {
            let of_table = self.roles().rights(self.standing, &Object::Relation(*id));
            own.held = own.held | of_table.held;
            own.grantable = own.grantable | of_table.grantable;
        }
        if own.held.is_empty() {
            let (kind, name) = self.kind_and_name(object);
            return Err(denied(kind, &name));
        }
        Ok(wanted & own.grantable)
    }

    /// Says what came of less than was asked.
    fn warn(
        &self,
        notices: &mut Vec<(SqlState, String)>,
        object: &Object,
        done: Privileges,
        is_whole: bool,
        what: &str,
    ) {
        let (_, name) = self.kind_and_name(object);
        let (state, done_to) = match what {
            "granted" => (SqlState(*b"01007"), "were granted"),
            _ => (SqlState(*b"01006"), "could be revoked"),
        };
        if done.is_empty() {
            notices.push((state, format!("no privileges {done_to} for \"{name}\"")));
        } else if !is_whole {
            notices.push((state, format!("not all privileges {done_to} for \"{name}\"")));
        }
    }

    fn member(&self, roles: &Roles, grantee: &ast::Grantee) -> SqlResult<RoleId> {
        match self.grantee(roles, grantee)? {
            PUBLIC => Err(missing("public")),
            id => Ok(id),
        }
    }
    fn grantee(&self, roles: &Roles, grantee: &ast::Grantee) -> SqlResult<RoleId> {
        match (&grantee.grantee_type, &grantee.name) {
            (ast::GranteesType::Public, _) => Ok(PUBLIC),
            (_, Some(ast::GranteeName::ObjectName(name))) => {
                let ident = name.0.last().and_then(|part| part.as_ident());
                let ident = ident.ok_or_else(|| SqlError::unsupported("this grantee"))?;
                match ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("public") {
                    true => Ok(PUBLIC),
                    false => self.role(roles, ident),
                }
            }
            _ => Err(SqlError::unsupported("this grantee")),
        }
    }

    /// Objects of a GRANT, each with the privileges that it names.
    fn wanted(
        &self,
        privileges: &ast::Privileges,
        objects: Option<&ast::GrantObjects>,
    ) -> SqlResult<Vec<(Object, Privileges)>> {
        let objects = objects.ok_or_else(|| SqlError::unsupported("GRANT without ON"))?;
        let (found, all, kind) = self.objects(objects)?;
        let is_table =
            |object: &Object| matches!(object, Object::Relation(id) if self.catalog.relation(*id).is_some());
        let ast::Privileges::Actions(actions) = privileges else {
            // A sequence has others than a table.
            let of_kind = |object: &Object| match object {
                object if is_table(object) => Privileges::OF_TABLE,
                Object::Relation(id) if !self.catalog.routines.0.contains_key(id) => Privileges::OF_SEQUENCE,
                _ => all,
            };
            return Ok(found.into_iter().map(|object| (object.clone(), of_kind(&object))).collect());
        };
        let mut wanted: Vec<(Object, Privileges)> = Vec::new();
        for object in &found {
            let mut sum = Privileges::NONE;
            for action in actions {
                let (privilege, columns) = named(action)?;
                let (valid, kind) = match columns {
                    Some(_) => (Privileges::OF_COLUMN, "column"),
                    None if is_table(object) && privilege == Privileges::USAGE => (Privileges::NONE, "table"),
                    None => (all, kind),
                };
                if !valid.contains(privilege) {
                    let (.., name) = privilege.each().next().expect("one privilege");
                    return Err(invalid_grant(format!("invalid privilege type {name} for {kind}")));
                }
                match columns {
                    None => sum = sum | privilege,
                    Some(columns) => {
                        for column in columns {
                            wanted.push((self.column(object, column)?, privilege));
                        }
                    }
                }
            }
            if !sum.is_empty() {
                wanted.push((object.clone(), sum));
            }
        }
        Ok(wanted)
    }

    /// What is named behind ON, all privileges that there are on it, and what PostgreSQL calls it. Errors: 3F000,
    /// 42P01, 3D000.
    fn objects(&self, objects: &ast::GrantObjects) -> SqlResult<(Vec<Object>, Privileges, &'static str)> {
        use ast::GrantObjects as G;
        let catalog = self.catalog;
        Ok(match objects {
            G::Tables(names) if names.first().is_some_and(routines::is_granted) => {
                let found = names.iter().map(|name| self.granted_routine(name));
                (found.collect::<SqlResult<_>>()?, Privileges::EXECUTE, "function")
            }
            G::AllFunctionsInSchema { schemas } => {
                let schemas = self.schema_names(schemas)?;
                let all = catalog.routines.0.values();
                let all = all.filter(|routine| !routine.is_procedure() && schemas.contains(&routine.schema));
                (all.map(|routine| Object::Relation(routine.id)).collect(), Privileges::EXECUTE, "function")
            }
            G::Tables(names) | G::Sequences(names) => {
                let found = names.iter().map(|name| self.relation(name).map(Object::Relation));
                let (all, kind) = match objects {
                    G::Tables(_) => (Privileges::OF_TABLE | Privileges::USAGE, "relation"),
                    _ => (Privileges::OF_SEQUENCE, "sequence"),
                };
                (found.collect::<SqlResult<_>>()?, all, kind)
            }
            G::AllTablesInSchema { schemas } => {
                let schemas = self.schema_names(schemas)?;
                let tables =
                    crate::materialized::shapes(catalog).filter(|table| schemas.contains(&table.schema));
                let found = tables.map(|table| Object::Relation(table.id)).collect();
                (found, Privileges::OF_TABLE, "relation")
            }
            G::AllSequencesInSchema { schemas } => {
                let schemas = self.schema_names(schemas)?;
                let all = catalog.sequences.values().filter(|s| schemas.contains(&s.schema));
                let found = all.map(|sequence| Object::Relation(sequence.id)).collect();
                (found, Privileges::OF_SEQUENCE, "sequence")
            }
            G::Schemas(names) => {
                let found = self.schema_names(names)?.into_iter().map(Object::Schema).collect();
                (found, Privileges::OF_SCHEMA, "schema")
            }
            G::Databases(names) => {
                let one = |name: &ast::ObjectName| {
                    let name = names::parts(name)?.pop().expect("a name has a part");
                    self.database_named(&name).map(|database| Object::Database(database.id))
                };
                let found = names.iter().map(one).collect::<SqlResult<_>>()?;
                (found, Privileges::OF_DATABASE, "database")
            }
            G::Procedure { name, .. } => {
                let name = names::parts(name)?.pop().expect("a name has a part");
                (vec![Object::Procedure(name)], Privileges::EXECUTE, "procedure")
            }
            _ => return Err(SqlError::unsupported("GRANT on this kind of object")),
        })
    }

    /// Errors: 3F000.
    fn schema_names(&self, names: &[ast::ObjectName]) -> SqlResult<Vec<String>> {
        let one = |name: &ast::ObjectName| {
            let name = names::parts(name)?.pop().expect("a name has a part");
            match self.catalog.schemas.contains(&name) {
                true => Ok(name),
                false => Err(SqlError::new(
                    SqlState::INVALID_SCHEMA_NAME,
                    format!("schema \"{name}\" does not exist"),
                )),
            }
        };
        names.iter().map(one).collect()
    }

    /// A table or a sequence. Errors: 42P01.
    fn relation(&self, name: &ast::ObjectName) -> SqlResult<TableId> {
        match self.find_relation(name) {
            Ok(relation) => Ok(relation.shape().id),
            Err(error) => {
                let sequence = crate::catalog::find_named_sequence(self.catalog, self.search_path, name);
                sequence.map(|sequence| sequence.id).map_err(|_| error)
            }
        }
    }

    fn column(&self, object: &Object, column: &ast::Ident) -> SqlResult<Object> {
        let table = match object {
            Object::Relation(id) => self.catalog.relation(*id).map(base::views::Relation::shape),
            _ => None,
        };
        let table =
            table.ok_or_else(|| invalid_grant("column privileges are only valid for relations".into()))?;
        let name = names::fold(column);
        match table.column_named(&name).filter(|at| !table.columns[*at].hidden) {
            Some(at) => Ok(Object::Column(table.id, at as u32)),
            None => Err(SqlError::new(
                SqlState::UNDEFINED_COLUMN,
                format!("column \"{name}\" of relation \"{}\" does not exist", table.name),
            )),
        }
    }

    /// Errors: 42501 for a role that the acting one is none of.
    fn check_membership(&self, owner: RoleId) -> SqlResult<()> {
        let is_member = self.roles().memberships(self.standing.role, false).contains(&owner);
        if self.standing.is_superuser || is_member {
            return Ok(());
        }
        let name = self.roles().name(owner);
        Err(forbidden(format!("must be member of role \"{name}\"")))
    }

    /// The role that something new is to belong to. Errors: 42704, 42501.
    pub(super) fn future_owner(&self, ident: &ast::Ident) -> SqlResult<RoleId> {
        let owner = self.role(self.roles(), ident)?;
        self.check_membership(owner)?;
        Ok(owner)
    }

    /// `ALTER … OWNER TO`.
    pub(super) fn change_owner(
        &self,
        object: Object,
        owner: &ast::Owner,
        tag: &'static str,
    ) -> SqlResult<Ddl> {
        let owner = match owner {
            ast::Owner::Ident(ident) => self.role(self.roles(), ident)?,
            ast::Owner::CurrentRole | ast::Owner::CurrentUser => self.standing.role,
            ast::Owner::SessionUser => return Err(SqlError::unsupported("OWNER TO SESSION_USER")),
        };
        self.check_owner(&object)?;
        self.check_membership(owner)?;
        let mut changes = self.changes();
        // Sequences of its columns go along.
        if let Object::Relation(id) = &object {
            let owned =
                |s: &&std::sync::Arc<base::schema::Sequence>| s.owner.is_some_and(|(table, _)| table == *id);
            for sequence in self.catalog.sequences.values().filter(owned) {
                changes.add(RoleChange::SetOwner(Object::Relation(sequence.id), owner))?;
            }
        }
        changes.add(RoleChange::SetOwner(object, owner))?;
        Ok(changes.into_ddl(tag, Vec::new()))
    }

    /// Errors: 42501.
    pub(super) fn check_owner(&self, object: &Object) -> SqlResult<()> {
        if self.roles().owns(self.standing, object) {
            return Ok(());
        }
        Err(forbidden(format!("must be owner of {}", self.described(object))))
    }
    /// The database that is changed.
    pub(super) fn own_database(&self) -> Object {
        Object::Database(self.catalog.database())
    }
    /// Errors: 42501.
    pub(super) fn check_create(&self, schema: &str) -> SqlResult<()> {
        if crate::temporary::is_temporary(schema) {
            return self.check_temporary();
        }
        match self.roles().may(self.standing, &Object::Schema(schema.into()), Privileges::CREATE) {
            true => Ok(()),
            false => Err(denied("schema", schema)),
        }
    }
}

fn rights_of(roles: &Roles, object: &Object, grantee: RoleId) -> Rights {
    roles.rights.get(object).and_then(|all| all.get(&grantee)).copied().unwrap_or_default()
}

/// Roles that are granted; `None`: privileges are.
fn groups<'a>(
    privileges: &'a ast::Privileges,
    objects: Option<&ast::GrantObjects>,
) -> SqlResult<Option<Vec<&'a ast::Ident>>> {
    let ast::Privileges::Actions(actions) = privileges else { return Ok(None) };
    if objects.is_some() {
        return Ok(None);
    }
    let group = |action: &'a ast::Action| match action {
        ast::Action::Role { role } => role.0.last().and_then(|part| part.as_ident()),
        _ => None,
    };
    let groups: Option<Vec<&ast::Ident>> = actions.iter().map(group).collect();
    groups.map(Some).ok_or_else(|| SqlError::unsupported("GRANT without ON"))
}

/// A privilege by its name, with the columns that it is limited to.
fn named(action: &ast::Action) -> SqlResult<(Privileges, Option<&Vec<ast::Ident>>)> {
    use ast::Action as A;
    Ok(match action {
        A::Select { columns } => (Privileges::SELECT, columns.as_ref()),
        A::Insert { columns } => (Privileges::INSERT, columns.as_ref()),
        A::Update { columns } => (Privileges::UPDATE, columns.as_ref()),
        A::References { columns } => (Privileges::REFERENCES, columns.as_ref()),
        A::Delete => (Privileges::DELETE, None),
        A::Truncate => (Privileges::TRUNCATE, None),
        A::Trigger => (Privileges::TRIGGER, None),
        A::Usage => (Privileges::USAGE, None),
        A::Create { obj_type: None } => (Privileges::CREATE, None),
        A::Connect => (Privileges::CONNECT, None),
        A::Temporary => (Privileges::TEMPORARY, None),
        A::Execute { obj_type: None } => (Privileges::EXECUTE, None),
        other => {
            let name = other.to_string().to_lowercase();
            let told = format!("unrecognized privilege type \"{name}\"");
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, told));
        }
    })
}

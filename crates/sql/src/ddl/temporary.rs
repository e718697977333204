//! Where what is created goes: a schema of the search path, or the session's own schema of temporary tables.

use super::{Ddl, DdlContext};
use crate::names;
use crate::temporary::{self, is_temporary};
use base::error::{SqlResult, SqlState};
use base::roles::Privileges;
use base::schema::{Catalog, SchemaAction, Table};
use base::{SqlError, TableId};
use sqlparser::ast;

const INVALID: SqlState = SqlState(*b"42P16");

/// Temporary relations of one session. Every node keeps all of them in its catalog.
const OF_SESSION_MAX: usize = 1_000;

/// Temporary relations of all sessions of a cluster.
const OF_ALL_MAX: usize = 10_000;

impl DdlContext<'_> {
    /// Schema and name of something to be created. Errors: 3F000; 42P16 for a temporary relation in another schema.
    pub(super) fn new_name(&self, name: &ast::ObjectName, temporary: bool) -> SqlResult<(String, String)> {
        let (written, name) = names::qualified(name, self.database)?;
        if let Some(schema) = temporary_place(written.as_deref(), temporary, self.search_path)? {
            return Ok((schema.into(), name));
        }
        let schema = match written {
            Some(schema) => schema,
            None => {
                let mut path = temporary::shown(self.search_path);
                path.find(|s| self.catalog.schemas.contains(s)).cloned().ok_or_else(|| {
                    let told = "no schema has been selected to create in";
                    SqlError::new(SqlState::INVALID_SCHEMA_NAME, told)
                })?
            }
        };
        if !self.catalog.schemas.contains(&schema) {
            return Err(SqlError::new(
                SqlState::INVALID_SCHEMA_NAME,
                format!("schema \"{schema}\" does not exist"),
            ));
        }
        Ok((schema, name))
    }

    /// A change that makes something temporary makes the session's schema first, where it is not there. Errors: 53400 for
    /// more than there may be, 0A000 for a type.
    pub(super) fn with_temporary_schema(&self, mut ddl: Ddl) -> SqlResult<Ddl> {
        let is_type = |action: &SchemaAction| put_type(action).is_some();
        let Some(own) = ddl.actions.iter().find_map(|action| self.made_in(action)) else { return Ok(ddl) };
        if ddl.actions.iter().any(is_type) {
            return Err(SqlError::unsupported("a temporary type"));
        }
        check_count(self.catalog, own)?;
        if !self.catalog.schemas.iter().any(|schema| schema == own) {
            let schema = SchemaAction::CreateSchema(own.into());
            ddl.actions.insert(0, schema);
        }
        Ok(ddl)
    }

    /// The session's own schema, if something new is made in it.
    fn made_in(&self, action: &SchemaAction) -> Option<&str> {
        let (id, schema) = match action {
            SchemaAction::CreateTable(table) => (table.id, &table.schema),
            SchemaAction::CreateSequence(sequence) => (sequence.id, &sequence.schema),
            SchemaAction::PutView(view) => (view.shape.id, &view.shape.schema),
            SchemaAction::PutRoutine(routine) => (routine.id, &routine.schema),
            action => put_type(action)?,
        };
        let is_known = self.catalog.sequences.contains_key(&id) || self.catalog.routines.0.contains_key(&id);
        let is_new = self.catalog.relation(id).is_none() && !is_known;
        temporary::own(self.search_path).filter(|own| is_new && own == schema)
    }

    /// Whether a query reads something temporary, or calls it.
    pub(super) fn reads_temporary(&self, query: &ast::Query) -> bool {
        if crate::routines::calls_temporary(self.lookup(), query) {
            return true;
        }
        let read = self.qualify(&mut query.clone());
        let mut shapes = read.keys().filter_map(|id| self.catalog.relation(*id));
        shapes.any(|relation| is_temporary(&relation.shape().schema))
    }

    /// Errors: 42501.
    pub(super) fn check_temporary(&self) -> SqlResult<()> {
        match self.roles().may(self.standing, &self.own_database(), Privileges::TEMPORARY) {
            true => Ok(()),
            false => Err(SqlError::new(
                SqlState::INSUFFICIENT_PRIVILEGE,
                format!("permission denied to create temporary tables in database \"{}\"", self.database),
            )),
        }
    }
}

/// The session's own schema, if a name that is written so means something temporary.
fn temporary_place<'p>(
    written: Option<&str>,
    temporary: bool,
    search_path: &'p [String],
) -> SqlResult<Option<&'p str>> {
    let refused = |told: &str| Err(SqlError::new(INVALID, told));
    let own = temporary::own(search_path);
    match written {
        None if !temporary => Ok(None),
        Some(schema) if is_temporary(schema) && own != Some(schema) => {
            refused("cannot create relations in temporary schemas of other sessions")
        }
        Some(schema) if schema != temporary::ALIAS && !is_temporary(schema) => match temporary {
            true => refused("cannot create temporary relation in non-temporary schema"),
            false => Ok(None),
        },
        _ => own.map(Some).ok_or_else(|| SqlError::internal("a session without a schema of its own")),
    }
}

fn check_count(catalog: &Catalog, own: &str) -> SqlResult<()> {
    let all = crate::materialized::shapes(catalog).map(|shape| &shape.schema);
    let all = all.chain(catalog.sequences.values().map(|sequence| &sequence.schema));
    let all = all.chain(catalog.routines.0.values().map(|routine| &routine.schema));
    let (mut of_session, mut of_all) = (0, 0);
    for schema in all.filter(|schema| is_temporary(schema)) {
        of_session += usize::from(schema == own);
        of_all += 1;
    }
    if of_session < OF_SESSION_MAX && of_all < OF_ALL_MAX {
        return Ok(());
    }
    let told = "too many temporary tables, views and sequences";
    let limit =
        format!("A session may have {OF_SESSION_MAX} of them, all sessions of a cluster {OF_ALL_MAX}.");
    Err(SqlError::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, told)
        .detail(limit)
        .hint("Drop those that are not needed any more, or DISCARD TEMP."))
}

/// Errors: 42P16 for ON COMMIT of a table that stays.
pub(super) fn check_on_commit(schema: &str, on_commit: Option<&ast::OnCommit>) -> SqlResult<()> {
    match on_commit {
        Some(_) if !is_temporary(schema) => {
            Err(SqlError::new(INVALID, "ON COMMIT can only be used on temporary tables"))
        }
        _ => Ok(()),
    }
}

/// Errors: 42P16 for a foreign key between a temporary table and one that stays.
pub(super) fn check_reference(table: &Table, parent: &Table) -> SqlResult<()> {
    let told = match (is_temporary(&table.schema), is_temporary(&parent.schema)) {
        (true, false) => "constraints on temporary tables may reference only temporary tables",
        (false, true) => "constraints on permanent tables may reference only permanent tables",
        _ => return Ok(()),
    };
    Err(SqlError::new(INVALID, told))
}

/// Errors: 0A000 for a table that would become temporary, or be no longer.
pub(super) fn refuse_move(from: &str, to: &str) -> SqlResult<()> {
    if [from, to].iter().any(|schema| is_temporary(schema) || *schema == temporary::ALIAS) {
        let told = "cannot move objects into or out of temporary schemas";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, told));
    }
    Ok(())
}

/// Errors: 42501 for a schema of temporary tables: it comes and goes by itself.
pub(super) fn refuse_schema(schema: &str) -> SqlResult<()> {
    if !is_temporary(schema) {
        return Ok(());
    }
    let told = format!("cannot drop schema {schema} of temporary tables");
    Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, told).hint("DISCARD TEMP drops the session's own."))
}

/// Id and schema of a type that an action makes or changes.
pub(super) fn put_type(action: &SchemaAction) -> Option<(TableId, &String)> {
    match action {
        SchemaAction::PutEnum(of) => Some((of.id(), &of.description().schema)),
        SchemaAction::PutComposite(of) => Some((of.id(), &of.description().schema)),
        SchemaAction::PutDomain(domain) => Some((domain.id, &domain.schema)),
        _ => None,
    }
}

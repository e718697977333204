//! Functions and procedures as changes of the catalog.

mod aggregates;
mod arguments;
mod bodies;
mod dependents;

use super::{Ddl, DdlContext, is_missing};
use crate::names;
use crate::parse::{AlterRoutine, CreateRoutine, RoutineBody, RoutineKind, RoutineStatement, Signature};
use crate::routines;
use arguments::Taken;
use base::TableId;
use base::comments::Commented;
use base::error::{SqlError, SqlResult, SqlState};
use base::roles::Object;
use base::routines::{
    BODY_BYTES_MAX, Estimates, Language, Parallel, ResultOf, Routine, TypeOf, Volatility, to_everybody,
};
use base::schema::SchemaAction;
use sqlparser::ast;
use std::sync::Arc;

/// 42P13.
const INVALID_DEFINITION: SqlState = SqlState(*b"42P13");

impl DdlContext<'_> {
    pub(super) fn change_routine(&self, statement: &RoutineStatement) -> SqlResult<Ddl> {
        match statement {
            RoutineStatement::Create(create) => self.create_routine(create),
            RoutineStatement::CreateAggregate(create) => self.create_aggregate(create),
            RoutineStatement::Drop { if_exists, signatures, is_cascade } => {
                self.drop_routines(*if_exists, signatures, *is_cascade)
            }
            RoutineStatement::Alter { signature, action } => self.alter_routine(signature, action),
            RoutineStatement::Comment { signature, text } => {
                let what = Commented::Object(Object::Relation(self.find_routine(signature)?.id));
                let actions = vec![SchemaAction::Comment(what, text.clone())];
                Ok(Ddl { actions, tag: "COMMENT", ..Ddl::default() })
            }
        }
    }

    /// What GRANT … ON FUNCTION, PROCEDURE or ROUTINE names; a procedure may be one that the program brings.
    pub(super) fn granted_routine(&self, name: &ast::ObjectName) -> SqlResult<Object> {
        let named = crate::parse::granted_routine(name)?;
        let named = named.ok_or_else(|| SqlError::unsupported("GRANT on functions and tables at once"))?;
        match self.find_routine(&named) {
            Ok(routine) => Ok(Object::Relation(routine.id)),
            Err(error) if named.kind == crate::parse::RoutineKind::Function => Err(error),
            Err(_) => {
                let name = names::parts(&named.name)?.pop().expect("a name has a part");
                Ok(Object::Procedure(name))
            }
        }
    }

    /// Holds a change of a routine against what the acting role may do; answers what is new. Errors: 42501.
    pub(super) fn permit_routine(&self, action: &SchemaAction) -> SqlResult<Option<Object>> {
        match action {
            SchemaAction::PutRoutine(routine) if self.catalog.routines.0.contains_key(&routine.id) => {
                self.check_owner(&Object::Relation(routine.id)).map(|()| None)
            }
            SchemaAction::PutRoutine(routine) => {
                self.check_create(&routine.schema)?;
                Ok(Some(Object::Relation(routine.id)))
            }
            SchemaAction::DropRoutine(id) => {
                let schema = self.catalog.routines.0.get(id).map(|of| Object::Schema(of.schema.clone()));
                if !schema.is_some_and(|schema| self.roles().owns(self.standing, &schema)) {
                    self.check_owner(&Object::Relation(*id))?;
                }
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    pub(super) fn find_routine(&self, named: &Signature) -> SqlResult<&Arc<Routine>> {
        routines::find(self.catalog, self.search_path, self.database, named)
    }

    fn create_routine(&self, create: &CreateRoutine) -> SqlResult<Ddl> {
        let tag = if create.is_procedure { "CREATE PROCEDURE" } else { "CREATE FUNCTION" };
        let mut ddl = Ddl { tag, ..Ddl::default() };
        let (schema, name) = self.new_name(&create.name, false)?;
        self.check_create(&schema)?;
        let mut made = self.declared_routine(create, schema, name)?;
        ddl.actions = self.placed(&mut made, create.or_replace)?;
        if self.checks_bodies {
            self.check_body(&made)?;
        }
        Ok(ddl)
    }

    /// What puts a routine into the catalog, in the place of one that it may replace. Errors: 42723, 42501, 42809, 42P13.
    fn placed(&self, made: &mut Routine, or_replace: bool) -> SqlResult<Vec<SchemaAction>> {
        let types: Vec<TypeOf> = made.types().collect();
        match self.catalog.routines.exact(&made.schema, &made.name, &types) {
            None => {
                let to_everybody = SchemaAction::Roles(to_everybody(made.id));
                Ok(vec![SchemaAction::PutRoutine(made.clone()), to_everybody])
            }
            Some(before) if or_replace => {
                self.check_owner(&Object::Relation(before.id))?;
                made.id = before.id;
                self.check_replaced(before, made)?;
                Ok(vec![SchemaAction::PutRoutine(made.clone())])
            }
            Some(before) => {
                let told =
                    format!("{} \"{}\" already exists with same argument types", before.kind(), made.name);
                Err(SqlError::new(SqlState(*b"42723"), told))
            }
        }
    }

    /// What is declared, without a look at the body.
    fn declared_routine(&self, create: &CreateRoutine, schema: String, name: String) -> SqlResult<Routine> {
        let invalid = |told: &str| Err(SqlError::new(INVALID_DEFINITION, told));
        refuse_options(create)?;
        let (language, body, is_standard) = language_and_body(create)?;
        let Taken { parameters, form, result, is_variadic } = self.arguments_and_result(create, language)?;
        if result == ResultOf::Trigger && language == Language::Sql {
            return invalid("SQL functions cannot return type trigger");
        }
        if result == ResultOf::Trigger && !parameters.is_empty() {
            return Err(SqlError::new(
                INVALID_DEFINITION,
                "trigger functions cannot have declared arguments",
            )
            .hint("The arguments of the trigger can be accessed through TG_NARGS and TG_ARGV instead."));
        }
        let made = Routine {
            id: TableId(self.catalog.next_id),
            schema,
            name,
            parameters,
            result,
            language,
            volatility: create.volatility.unwrap_or(Volatility::Volatile),
            is_strict: create.is_strict == Some(true),
            is_leakproof: create.is_leakproof == Some(true),
            parallel: create.parallel.unwrap_or(Parallel::Unsafe),
            estimates: Estimates { cost: create.cost.clone(), rows: create.rows.clone() },
            body,
            is_standard,
            is_definer: create.is_definer == Some(true),
            form,
            is_variadic,
        };
        if made.is_leakproof && !self.standing.is_superuser {
            return Err(super::roles::forbidden("only superuser can define a leakproof function"));
        }
        if made.estimates.rows.is_some() && !made.is_set() {
            let told = "ROWS is not applicable when function does not return a set";
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, told));
        }
        Ok(made)
    }

    /// What takes another's place looks the same to callers. Errors: 42809, 42P13.
    fn check_replaced(&self, before: &Routine, made: &Routine) -> SqlResult<()> {
        let kind = routines::kind_shown(before);
        if kind != routines::kind_shown(made) {
            let detail = format!("\"{}\" is {kind}.", before.name);
            return Err(SqlError::new(SqlState(*b"42809"), "cannot change routine kind").detail(detail));
        }
        let shown = routines::signature(self.catalog, before);
        let refused = |told: String| {
            let kind = before.kind().to_uppercase();
            Err(SqlError::new(INVALID_DEFINITION, told).hint(format!("Use DROP {kind} {shown} first.")))
        };
        if before.result != made.result {
            return refused("cannot change return type of existing function".into());
        }
        for (old, new) in before.parameters.iter().zip(&made.parameters) {
            if let Some(name) = old.name.as_ref().filter(|_| old.name != new.name) {
                return refused(format!("cannot change name of input parameter \"{name}\""));
            }
            if old.default.is_some() && new.default.is_none() {
                return refused("cannot remove parameter defaults from existing function".into());
            }
        }
        Ok(())
    }

    fn alter_routine(&self, named: &Signature, action: &AlterRoutine) -> SqlResult<Ddl> {
        let tag = named.kind.alter_tag();
        let routine = self.find_routine(named)?;
        self.check_owner(&Object::Relation(routine.id))?;
        let mut next = routine.as_ref().clone();
        match action {
            AlterRoutine::Owner(owner) => return self.change_owner(Object::Relation(routine.id), owner, tag),
            AlterRoutine::Rename(name) => next.name = name.clone(),
            AlterRoutine::SetSchema(schema) => {
                if !self.catalog.schemas.contains(schema) || crate::temporary::is_temporary(schema) {
                    let told = format!("schema \"{schema}\" does not exist");
                    return Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, told));
                }
                self.check_create(schema)?;
                next.schema = schema.clone();
            }
            AlterRoutine::Other(words) => {
                return Err(SqlError::unsupported(format!("{tag} … {words}"))
                    .hint("CREATE OR REPLACE FUNCTION changes what a function is."));
            }
        }
        let mut ddl = Ddl { tag, ..Ddl::default() };
        if next == *routine.as_ref() {
            return Ok(ddl);
        }
        let types: Vec<TypeOf> = next.types().collect();
        if self.catalog.routines.exact(&next.schema, &next.name, &types).is_some() {
            let told = format!(
                "{} {} already exists in schema \"{}\"",
                next.kind(),
                routines::spaced_signature(self.catalog, &next),
                next.schema
            );
            return Err(SqlError::new(SqlState(*b"42723"), told));
        }
        if let Some(what) = self.users_of(routine)?.into_iter().next() {
            return Err(SqlError::unsupported(format!("renaming a function that {what} calls"))
                .hint("Drop what calls it, rename, and create it again."));
        }
        ddl.actions.push(SchemaAction::PutRoutine(next));
        Ok(ddl)
    }

    fn drop_routines(&self, if_exists: bool, named: &[Signature], is_cascade: bool) -> SqlResult<Ddl> {
        let tag = named.first().map_or("DROP FUNCTION", |named| named.kind.drop_tag());
        let mut ddl = Ddl { tag, ..Ddl::default() };
        let mut gone: Vec<&Arc<Routine>> = Vec::new();
        for named in named {
            match self.find_routine(named) {
                Ok(routine) if routine.aggregate().is_some() && named.kind != RoutineKind::Aggregate => {
                    let told = format!("\"{}\" is an aggregate function", routine.name);
                    return Err(SqlError::new(SqlState(*b"42809"), told)
                        .hint("Use DROP AGGREGATE to drop aggregate functions."));
                }
                Ok(routine) if gone.iter().any(|known| known.id == routine.id) => {}
                Ok(routine) => gone.push(routine),
                Err(error) if if_exists && is_missing(&error) => {
                    let told = match &named.types {
                        Some(_) => error.message.clone(),
                        None => {
                            let kind = tag.trim_start_matches("DROP ").to_lowercase();
                            format!("{kind} {}() does not exist", crate::parse::shown_name(&named.name))
                        }
                    };
                    ddl.notice(SqlState::SUCCESSFUL, format!("{told}, skipping"));
                }
                Err(error) => return Err(error),
            }
        }
        self.refuse_called(&gone, is_cascade)?;
        ddl.actions.extend(gone.iter().map(|routine| SchemaAction::DropRoutine(routine.id)));
        Ok(ddl)
    }
}

/// Whether a name behind GRANT or REVOKE is a routine's.
pub(super) fn is_granted(name: &ast::ObjectName) -> bool {
    matches!(crate::parse::granted_routine(name), Ok(Some(_)) | Err(_))
}

/// Errors: 0A000 for options that there are not here, 42P13 and 42601 for those that a procedure has not.
fn refuse_options(create: &CreateRoutine) -> SqlResult<()> {
    if let Some(words) = &create.unknown {
        let words: Vec<&str> = words.split_whitespace().take(2).collect();
        return Err(SqlError::unsupported(format!("{} of a function", words.join(" "))));
    }
    let has_more = create.is_strict.is_some()
        || create.volatility.is_some()
        || create.is_leakproof.is_some()
        || create.parallel.is_some()
        || create.cost.is_some()
        || create.rows.is_some();
    if create.is_procedure && has_more {
        return Err(SqlError::new(INVALID_DEFINITION, "invalid attribute in procedure definition"));
    }
    if create.is_procedure && create.result.is_some() {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"returns\""));
    }
    Ok(())
}

/// The language, the body, and whether that is no quoted text. Errors: 42P13, 42704, 54000 for a body that is too long.
fn language_and_body(create: &CreateRoutine) -> SqlResult<(Language, String, bool)> {
    let invalid = |told: &str| Err(SqlError::new(INVALID_DEFINITION, told));
    let is_standard = matches!(create.body, Some(RoutineBody::Standard(_)));
    let language = match create.language.as_deref() {
        Some(language) => language_of(language)?,
        None if is_standard => Language::Sql,
        None => return invalid("no language specified"),
    };
    if is_standard && language != Language::Sql {
        return invalid("inline SQL function body only valid for language SQL");
    }
    let body = match &create.body {
        Some(RoutineBody::Quoted(text) | RoutineBody::Standard(text)) => text.clone(),
        None => return invalid("no function body specified"),
    };
    if body.len() > BODY_BYTES_MAX {
        let told = format!("the body of a function has at most {BODY_BYTES_MAX} bytes");
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, told));
    }
    Ok((language, body, is_standard))
}

/// Errors: 42704 for a language that there is not, 0A000 for one that PostgreSQL has.
fn language_of(name: &str) -> SqlResult<Language> {
    match name {
        "sql" => Ok(Language::Sql),
        "plpgsql" => Ok(Language::PlPgSql),
        "c" | "internal" => Err(SqlError::unsupported(format!("functions in language {name}"))),
        other => {
            let told = format!("language \"{other}\" does not exist");
            Err(SqlError::new(SqlState::UNDEFINED_OBJECT, told).hint("There are sql and plpgsql."))
        }
    }
}

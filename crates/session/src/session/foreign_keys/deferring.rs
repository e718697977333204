//! SET CONSTRAINTS: which deferrable keys are checked at COMMIT.

use super::super::Session;
use base::error::{SqlResult, SqlState};
use base::schema::{Catalog, ForeignKey};
use base::{SqlError, TableId};
use sqlparser::ast::{self, Set};

/// SET CONSTRAINTS; no names are all of them.
pub struct SetConstraints {
    is_deferred: bool,
    names: Vec<ast::ObjectName>,
}

impl Session {
    /// SET CONSTRAINTS. What is checked from now on is checked of what was written before, too.
    pub(in crate::session) async fn set_constraints(&mut self, set: &SetConstraints) -> SqlResult<()> {
        if self.transaction.as_ref().is_none_or(|t| t.is_implicit) {
            let told = "SET CONSTRAINTS can only be used in transaction blocks";
            self.notice("WARNING", SqlState::NO_ACTIVE_SQL_TRANSACTION, told);
            return Ok(());
        }
        let catalog = self.catalog();
        let mut named = Vec::new();
        for name in &set.names {
            named.extend(self.deferrable(&catalog, name)?);
        }
        if !set.is_deferred {
            let before = self.open().deferrals.clone();
            // Only what is to be checked now is due: all else stays as it is.
            let is_kept = |id: TableId, key: &ForeignKey| {
                !set.names.is_empty() && !named.contains(&(id, key.name.clone()))
            };
            let deferrable = catalog.tables.values().flat_map(|table| {
                table
                    .foreign
                    .own
                    .iter()
                    .filter(|key| key.timing.is_deferrable())
                    .map(move |key| (table.id, key))
            });
            let skipped: Vec<(TableId, String)> = deferrable
                .filter(|(id, key)| is_kept(*id, key))
                .map(|(id, key)| (id, key.name.clone()))
                .collect();
            let open = self.open();
            skipped.into_iter().for_each(|at| _ = open.deferrals.named.insert(at, false));
            let checked = Box::pin(self.check_deferred()).await;
            self.open().deferrals = before;
            checked?;
        }
        let deferrals = &mut self.open().deferrals;
        if set.names.is_empty() {
            deferrals.named.clear();
            deferrals.all = Some(set.is_deferred);
        }
        named.into_iter().for_each(|at| _ = deferrals.named.insert(at, set.is_deferred));
        Ok(())
    }

    /// The constraints of a name. Errors: 42704, 42809 for one that is not deferrable.
    fn deferrable(&self, catalog: &Catalog, name: &ast::ObjectName) -> SqlResult<Vec<(TableId, String)>> {
        let (schema, name) = sql::names::qualified(name, &self.database.name)?;
        let schemas = schema.map_or_else(|| self.settings.search_path.to_vec(), |schema| vec![schema]);
        for schema in schemas {
            let tables = catalog.tables.values().filter(|table| table.schema == schema);
            let keys = tables.flat_map(|t| t.foreign.own.iter().map(move |key| (t.id, key)));
            let found: Vec<(TableId, &ForeignKey)> = keys.filter(|(_, key)| key.name == name).collect();
            if found.iter().any(|(_, key)| !key.timing.is_deferrable()) {
                let told = format!("constraint \"{name}\" is not deferrable");
                return Err(SqlError::new(SqlState(*b"42809"), told));
            }
            if !found.is_empty() {
                return Ok(found.into_iter().map(|(id, key)| (id, key.name.clone())).collect());
            }
        }
        let told = format!("constraint \"{name}\" does not exist");
        Err(SqlError::new(SqlState::UNDEFINED_OBJECT, told))
    }
}

impl SetConstraints {
    /// The statement, as the parser writes it. Errors: 42601.
    pub fn of(set: &Set) -> SqlResult<Option<SetConstraints>> {
        let Set::SingleAssignment { variable, values, .. } = set else { return Ok(None) };
        if sql::names::parts(variable)?.join(".") != sql::parse::CONSTRAINTS {
            return Ok(None);
        }
        let wrong =
            |e: &ast::Expr| SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{e}\""));
        let (mode, names) =
            values.split_first().ok_or_else(|| SqlError::internal("a setting has a value"))?;
        let is_deferred = match mode.to_string().to_lowercase().as_str() {
            "deferred" => true,
            "immediate" => false,
            _ => return Err(wrong(mode)),
        };
        let name = |e: &ast::Expr| match e {
            ast::Expr::Identifier(ident) => Ok(ast::ObjectName::from(ident.clone())),
            ast::Expr::CompoundIdentifier(path) => Ok(ast::ObjectName::from(path.clone())),
            other => Err(wrong(other)),
        };
        Ok(Some(SetConstraints { is_deferred, names: names.iter().map(name).collect::<SqlResult<_>>()? }))
    }
}

//! What definitions ask of a session: columns of queries as it would plan them, and whether bodies of programs are right.

use super::Session;
use super::plan::{self, Plan};
use super::settings::Settings;
use base::error::{SqlResult, SqlState};
use base::routines::Routine;
use base::{DataType, SqlError};
use sql::ddl::{KnownSettings, Shapes};
use sql::lower::scope::ParameterTypes;
use sql::types::Column;
use sqlparser::ast::{self, Statement};
use std::borrow::Cow;
use std::sync::Arc;

/// Columns of a query as this session would plan it.
pub(super) struct Planned<'a>(pub &'a Session);

impl Planned<'_> {
    fn planned(&self, statement: &Statement, parameters: &mut ParameterTypes) -> SqlResult<Plan> {
        let mut catalog = self.0.catalog();
        if let Some(filled) = sql::materialized::as_if_populated(&catalog) {
            catalog = Arc::new(filled);
        }
        plan::plan(&self.0.context(&catalog), statement, parameters)
    }
}

impl Shapes for Planned<'_> {
    fn columns(&self, query: &ast::Query) -> SqlResult<Vec<Column>> {
        if sql::with::writes(query) {
            let told = "views must not contain data-modifying statements in WITH";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, told));
        }
        let statement = Statement::Query(Box::new(query.clone()));
        match self.planned(&statement, &mut ParameterTypes::default())? {
            Plan::Utility(_) => None,
            Plan::Calls(_) => {
                return Err(SqlError::unsupported("a view that calls a function in PL/pgSQL"));
            }
            plan => plan.columns(),
        }
        .map(|columns| columns.as_ref().clone())
        .ok_or_else(|| SqlError::unsupported("a view of anything but a query"))
    }

    fn columns_of(&self, statement: &Statement, parameters: &[DataType]) -> SqlResult<Option<Vec<Column>>> {
        let mut parameters = ParameterTypes(parameters.iter().copied().map(Some).collect());
        let plan = self.planned(statement, &mut parameters)?;
        Ok(plan.columns().map(|columns| columns.as_ref().clone()))
    }

    fn check_program(&self, routine: &Routine) -> SqlResult<()> {
        super::programs::check_body(&self.0.catalog(), routine)
    }
}

impl KnownSettings for Planned<'_> {
    fn canonical(&self, name: &str) -> SqlResult<String> {
        Settings::canonical(name).map(Cow::into_owned)
    }

    fn check(&self, name: &str, value: &str) -> SqlResult<()> {
        if OF_A_SESSION.contains(&name) {
            return Err(SqlError::unsupported(format!("a value of \"{name}\" that sessions begin with")));
        }
        self.0.settings.clone().set(name, value).map(|_| ())
    }

    fn current(&self, name: &str) -> SqlResult<String> {
        self.0.parameter(name).ok_or_else(|| super::settings::unrecognized(name))
    }
}

/// What a session becomes, or has seen.
const OF_A_SESSION: &[&str] =
    &["meridian.request", "meridian.token", "role", "session_authorization", "transaction_isolation"];

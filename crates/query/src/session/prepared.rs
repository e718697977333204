//! Prepared statements: parsed once, planned once per catalog version.

use super::Session;
use super::plan::{self, Plan};
use crate::lower::scope::ParameterTypes;
use crate::response::Column;
use base::DataType;
use base::error::SqlResult;
use datafusion::sql::sqlparser::ast::Statement;
use std::sync::{Arc, Mutex};

/// A parsed statement, its parameters and the shape of its answer.
pub struct Prepared {
    pub sql: String,
    pub parameters: Vec<DataType>,
    /// Columns of the rows it returns; `None` if it returns none.
    pub columns: Option<Arc<Vec<Column>>>,
    /// `None`: the text held no statement.
    pub(super) statement: Option<Statement>,
    planned: Mutex<Option<Planned>>,
}

/// A plan and what it was made for.
#[derive(Clone)]
struct Planned {
    catalog_version: u64,
    settings_epoch: u64,
    plan: Arc<Plan>,
}

impl Prepared {
    pub(super) fn new(
        session: &Session,
        sql: &str,
        statement: Option<Statement>,
        hints: &[Option<DataType>],
    ) -> SqlResult<Prepared> {
        let mut parameters = ParameterTypes(hints.to_vec());
        let Some(statement) = statement else {
            return Ok(Prepared {
                sql: sql.into(),
                parameters: Vec::new(),
                columns: None,
                statement: None,
                planned: Mutex::new(None),
            });
        };
        let catalog = session.catalog();
        let plan = plan::plan(&session.context(&catalog), &statement, &mut parameters)?;
        let planned = Planned {
            catalog_version: catalog.version,
            settings_epoch: session.settings.epoch,
            plan: Arc::new(plan),
        };
        Ok(Prepared {
            sql: sql.into(),
            parameters: parameters.0.into_iter().map(|t| t.unwrap_or(DataType::Text)).collect(),
            columns: planned.plan.columns(),
            statement: Some(statement),
            planned: Mutex::new(Some(planned)),
        })
    }

    /// The plan for today's catalog.
    pub(super) fn plan(&self, session: &Session) -> SqlResult<Arc<Plan>> {
        let catalog = session.catalog();
        let epoch = session.settings.epoch;
        if session.transaction.as_ref().is_some_and(|t| t.catalog.is_some()) {
            // The open transaction's own catalog is nobody else's.
            let statement = self.statement.as_ref().expect("only statements are planned");
            return Prepared::plan_once(session, statement).map(Arc::new);
        }
        let mut planned = self.planned.lock().expect("planning does not panic while it holds the lock");
        if let Some(planned) = planned.as_ref()
            && planned.catalog_version == catalog.version
            && planned.settings_epoch == epoch
        {
            return Ok(planned.plan.clone());
        }
        let statement = self.statement.as_ref().expect("only statements are planned");
        let mut parameters = ParameterTypes(self.parameters.iter().copied().map(Some).collect());
        let plan = Arc::new(plan::plan(&session.context(&catalog), statement, &mut parameters)?);
        *planned =
            Some(Planned { catalog_version: catalog.version, settings_epoch: epoch, plan: plan.clone() });
        Ok(plan)
    }

    /// A plan for one use.
    pub(super) fn plan_once(session: &Session, statement: &Statement) -> SqlResult<Plan> {
        let catalog = session.catalog();
        let mut parameters = ParameterTypes::default();
        let plan = plan::plan(&session.context(&catalog), statement, &mut parameters)?;
        if parameters.0.is_empty() {
            return Ok(plan);
        }
        Err(base::SqlError::new(base::SqlState::UNDEFINED_PARAMETER, "there is no parameter $1"))
    }
}

/// The type of a parameter that came as a bare value.
pub(super) fn type_of(value: &base::Datum) -> Option<DataType> {
    use base::Datum;
    Some(match value {
        Datum::Null => return None,
        Datum::Bool(_) => DataType::Boolean,
        Datum::Int(_) => DataType::BigInt,
        Datum::Float(_) => DataType::Double,
        Datum::Decimal(_) => crate::response::NUMERIC,
        Datum::Text(_) => DataType::Text,
        Datum::Date(_) => DataType::Date,
        Datum::Timestamp(_) => DataType::Timestamp,
        Datum::Uuid(_) => DataType::Uuid,
        Datum::Bytes(_) => DataType::Bytea,
    })
}

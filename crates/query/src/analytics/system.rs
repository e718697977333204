//! The system catalog: `pg_catalog`, `information_schema`, `meridian`.

use crate::session::Context;
use datafusion::catalog::TableProvider;
use datafusion::common::{Result, TableReference};
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::ScalarUDF;
use datafusion::sql::sqlparser::ast::Statement;
use datafusion_pg_catalog::pg_catalog::context::EmptyContextProvider;
use datafusion_pg_catalog::sql::PostgresCompatibilityParser;
use std::sync::Arc;

/// Tables and rewrites for what clients ask of the catalog.
pub(crate) struct SystemTables {
    parser: PostgresCompatibilityParser,
}

impl SystemTables {
    pub fn install(context: &SessionContext) -> Result<SystemTables> {
        datafusion_pg_catalog::setup_pg_catalog(context, "meridian", EmptyContextProvider).map_err(|e| *e)?;
        Ok(SystemTables { parser: PostgresCompatibilityParser::new() })
    }

    /// A statement over the catalog in words that DataFusion knows; `None` for all others.
    pub fn rewrite(&self, statement: &Statement) -> Option<Statement> {
        let text = statement.to_string();
        let asks = ["pg_", "information_schema", "current_user", "::reg", "OPERATOR("];
        asks.iter().any(|word| text.contains(word)).then(|| self.parser.rewrite(statement.clone()))
    }

    pub fn table(&self, _: &Context<'_>, _: &TableReference) -> Result<Option<Arc<dyn TableProvider>>> {
        Ok(None)
    }

    pub fn function(&self, _: &Context<'_>, _: &str) -> Option<Arc<ScalarUDF>> {
        None
    }
}

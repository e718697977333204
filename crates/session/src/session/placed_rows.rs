//! Rows that name a region before there is one of that name: with such a region they would be somewhere else.

use super::Session;
use crate::gateway::Gateway;
use base::error::SqlResult;
use std::sync::Arc;

impl Gateway {
    /// A table and its column, with which rows name a region. Errors: those of queries.
    pub async fn names_in_rows(self: &Arc<Self>, region: &str) -> SqlResult<Option<(String, String)>> {
        let whole = self.catalog();
        for database in whole.databases.all.keys() {
            let catalog = self.catalog_of(*database);
            for table in catalog.tables.values().filter(|table| table.is_placed_by_name()) {
                let Some(column) = table.partition_column() else { continue };
                let column = &table.columns[column].name;
                let [schema, name, by] =
                    [&table.schema, &table.name, column].map(|name| sql::views::quoted(name));
                let read = format!("SELECT 1 FROM {schema}.{name} WHERE {by} = '{region}' LIMIT 1");
                let mut session = Session::internal_of(self.clone(), *database);
                if !session.said(read).await?.is_empty() {
                    return Ok(Some((table.name.clone(), column.clone())));
                }
            }
        }
        Ok(None)
    }
}

//! `pg_stat_activity`: the sessions of the gateway that is asked, as they are when the query runs.

use super::Made;
use crate::activity::Activity;
use crate::context::Context;
use crate::node_context::NodeContext;
use async_trait::async_trait;
use base::databases::Databases;
use base::{DataType, Datum};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::TableType;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use std::collections::BTreeSet;
use std::sync::Arc;

const COLUMNS: &[(&str, DataType)] = &[
    ("datid", DataType::Integer),
    ("datname", DataType::Text),
    ("pid", DataType::Integer),
    ("leader_pid", DataType::Integer),
    ("usesysid", DataType::Integer),
    ("usename", DataType::Text),
    ("application_name", DataType::Text),
    ("client_addr", DataType::Text),
    ("client_hostname", DataType::Text),
    ("client_port", DataType::Integer),
    ("backend_start", DataType::TimestampTz),
    ("xact_start", DataType::TimestampTz),
    ("query_start", DataType::TimestampTz),
    ("state_change", DataType::TimestampTz),
    ("wait_event_type", DataType::Text),
    ("wait_event", DataType::Text),
    ("state", DataType::Text),
    ("backend_xid", DataType::Integer),
    ("backend_xmin", DataType::Integer),
    ("query_id", DataType::BigInt),
    ("query", DataType::Text),
    ("backend_type", DataType::Text),
];

/// The table: its rows are made when it is scanned, not when it is planned.
pub(super) struct ActivityTable {
    node: Arc<NodeContext>,
    schema: SchemaRef,
    /// Users whose sessions may be looked at; `None`: all.
    users: Option<BTreeSet<String>>,
    databases: Arc<Databases>,
}

impl ActivityTable {
    pub fn new(context: &Context<'_>) -> Result<ActivityTable> {
        let (roles, standing) = (&context.catalog.roles, &context.standing);
        let names = || standing.has.iter().map(|id| roles.name(*id).to_string()).collect();
        let users = (!standing.is_superuser).then(names);
        let schema = Made::new(COLUMNS).into_table()?.schema();
        let databases = context.catalog.databases.clone();
        Ok(ActivityTable { node: context.analytics.node.clone(), schema, users, databases })
    }
}

impl std::fmt::Debug for ActivityTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("pg_stat_activity")
    }
}

#[async_trait]
impl TableProvider for ActivityTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
    fn table_type(&self) -> TableType {
        TableType::View
    }
    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut made = Made::new(COLUMNS);
        made.rows = (self.node.sessions.all().iter())
            .map(|session| match &self.users {
                Some(users) if !users.contains(&session.user) => hidden(session, &self.databases),
                _ => row(session, &self.databases),
            })
            .collect();
        made.into_table()?.scan(state, projection, filters, limit).await
    }
}

/// What everybody may know of a session: that it is there, and whose it is.
fn hidden(session: &Activity, databases: &Databases) -> Vec<Datum> {
    let shown = ["datid", "datname", "pid", "usesysid", "usename", "backend_type"];
    let columns = COLUMNS.iter().zip(row(session, databases));
    columns
        .map(|((name, _), value)| match *name {
            "query" => Datum::text("<insufficient privilege>"),
            name if shown.contains(&name) => value,
            _ => Datum::Null,
        })
        .collect()
}

fn row(session: &Activity, databases: &Databases) -> Vec<Datum> {
    let now = session.now().clone();
    let text = |text: &str| Datum::text(text);
    let time = |us: Option<i64>| us.map_or(Datum::Null, Datum::Timestamp);
    vec![
        databases.named(&session.database).map_or(Datum::Null, |of| Datum::Int(i64::from(of.id.0))),
        text(&session.database),
        Datum::Int(i64::from(session.process)),
        Datum::Null,
        Datum::Int(i64::from(super::pg_tables::OWNER)),
        text(&session.user),
        text(&now.application),
        now.client.map_or(Datum::Null, |client| text(&client.ip().to_canonical().to_string())),
        Datum::Null,
        now.client.map_or(Datum::Null, |client| Datum::Int(i64::from(client.port()))),
        time(Some(session.since_us)),
        time(now.transaction_us),
        time(now.query_us),
        time(Some(now.changed_us)),
        Datum::Null,
        Datum::Null,
        text(now.state.name()),
        Datum::Null,
        Datum::Null,
        Datum::Null,
        text(&now.query),
        text("client backend"),
    ]
}

//! `pg_cursors` and `pg_prepared_statements`: what the session that asks has open. `pg_locks`: advisory locks of the sessions of
//! the gateway that is asked. All as they are when the query runs.

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
use std::sync::Arc;

const CURSORS: &[(&str, DataType)] = &[
    ("name", DataType::Text),
    ("statement", DataType::Text),
    ("is_holdable", DataType::Boolean),
    ("is_binary", DataType::Boolean),
    ("is_scrollable", DataType::Boolean),
    ("creation_time", DataType::TimestampTz),
];

const LOCKS: &[(&str, DataType)] = &[
    ("locktype", DataType::Text),
    ("database", DataType::Integer),
    ("relation", DataType::Integer),
    ("page", DataType::Integer),
    ("tuple", DataType::SmallInt),
    ("virtualxid", DataType::Text),
    ("transactionid", DataType::BigInt),
    ("classid", DataType::BigInt),
    ("objid", DataType::BigInt),
    ("objsubid", DataType::SmallInt),
    ("virtualtransaction", DataType::Text),
    ("pid", DataType::Integer),
    ("mode", DataType::Text),
    ("granted", DataType::Boolean),
    ("fastpath", DataType::Boolean),
    ("waitstart", DataType::TimestampTz),
];

#[derive(Clone, Copy, Debug)]
enum View {
    Cursors,
    Prepared,
    Locks,
}

impl View {
    fn empty(self) -> Made {
        match self {
            View::Cursors => Made::new(CURSORS),
            View::Prepared => Made::new(&[
                ("name", DataType::Text),
                ("statement", DataType::Text),
                ("prepare_time", DataType::TimestampTz),
                ("parameter_types", super::texts()),
                ("from_sql", DataType::Boolean),
                ("generic_plans", DataType::BigInt),
                ("custom_plans", DataType::BigInt),
            ]),
            View::Locks => Made::new(LOCKS),
        }
    }
}

/// One of the tables: its rows are made when it is scanned, not when it is planned.
pub(super) struct OpenedTable {
    view: View,
    node: Arc<NodeContext>,
    schema: SchemaRef,
    /// The session that asks; `None` for the gateway's own.
    own: Option<Arc<Activity>>,
    databases: Arc<Databases>,
}

impl OpenedTable {
    /// A table by name; `None` if it is none of these.
    pub fn named(context: &Context<'_>, name: &str) -> Result<Option<OpenedTable>> {
        let view = match name {
            "pg_cursors" => View::Cursors,
            "pg_prepared_statements" => View::Prepared,
            "pg_locks" => View::Locks,
            _ => return Ok(None),
        };
        let (node, databases) = (context.analytics.node.clone(), context.catalog.databases.clone());
        let own = node.sessions.of(context.process_id);
        if let Some(own) = &own {
            own.ask_what_is_open();
        }
        let schema = view.empty().into_table()?.schema();
        Ok(Some(OpenedTable { view, node, schema, own, databases }))
    }

    fn rows(&self) -> Vec<Vec<Datum>> {
        let opened = self.own.as_ref().map(|own| own.opened().clone()).unwrap_or_default();
        match self.view {
            View::Cursors => opened.cursors,
            View::Prepared => opened.prepared,
            View::Locks => {
                self.node.sessions.all().iter().flat_map(|of| locks(of, &self.databases)).collect()
            }
        }
    }
}

impl std::fmt::Debug for OpenedTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.view)
    }
}

#[async_trait]
impl TableProvider for OpenedTable {
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
        let mut made = self.view.empty();
        made.rows = self.rows();
        made.into_table()?.scan(state, projection, filters, limit).await
    }
}

/// A session's advisory locks.
fn locks(session: &Activity, databases: &Databases) -> Vec<Vec<Datum>> {
    let of = databases.named(&session.database).map_or(Datum::Null, |of| Datum::Int(i64::from(of.id.0)));
    let row = |lock: &crate::activity::AdvisoryLock| {
        vec![
            Datum::text("advisory"),
            of.clone(),
            Datum::Null,
            Datum::Null,
            Datum::Null,
            Datum::Null,
            Datum::Null,
            Datum::Int(i64::from(lock.class)),
            Datum::Int(i64::from(lock.object)),
            Datum::Int(i64::from(lock.numbers)),
            Datum::Null,
            Datum::Int(i64::from(session.process)),
            Datum::text(if lock.is_shared { "ShareLock" } else { "ExclusiveLock" }),
            Datum::Bool(true),
            Datum::Bool(false),
            Datum::Null,
        ]
    };
    session.locks().iter().map(row).collect()
}

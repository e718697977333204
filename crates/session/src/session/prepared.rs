//! Prepared statements: parsed once, planned once per catalog version.

use super::Session;
use super::plan::{self, Plan};
use super::roles::PlannedFor;
use base::error::SqlResult;
use base::schema::Catalog;
use base::{DataType, Datum};
use sql::lower::scope::ParameterTypes;
use sql::types::{Column, ParameterType};
use sql::{arrays, spans};
use sqlparser::ast::Statement;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// A parsed statement, its parameters and the shape of its answer.
pub struct Prepared {
    pub sql: String,
    /// The start of its text, for who looks at what sessions do.
    pub(super) shown: Arc<str>,
    pub parameters: Vec<ParameterType>,
    /// Columns of the rows it returns; `None` if it returns none.
    pub columns: Option<Arc<Vec<Column>>>,
    /// `None`: the text held no statement.
    pub(super) statement: Option<Statement>,
    /// Parameters that are arrays.
    arrays: BTreeSet<usize>,
    made_us: i64,
    /// What a PREPARE says before the statement; `None`: it came by the protocol.
    pub(super) heading: Option<Box<str>>,
    planned: Mutex<Option<Planned>>,
}

/// A statement's columns are not those that its client was told of.
pub const OTHER_RESULT_TYPE: &str = "cached plan must not change result type";

/// A plan and what it was made for.
#[derive(Clone)]
struct Planned {
    catalog: Arc<Catalog>,
    /// The catalog is an open transaction's own: its version may come to mean another.
    is_own: bool,
    planned_for: PlannedFor,
    reads_here: bool,
    isolation: &'static str,
    plan: Arc<Plan>,
}

impl Planned {
    fn now(session: &Session, plan: Plan) -> Planned {
        Planned {
            catalog: session.catalog(),
            is_own: session.has_own_catalog(),
            planned_for: session.planned_for(),
            reads_here: session.reads_here(),
            isolation: session.isolation(),
            plan: Arc::new(plan),
        }
    }
}

impl Prepared {
    pub(super) fn new(
        session: &Session,
        sql: &str,
        statement: Option<Statement>,
        hints: &[Option<ParameterType>],
    ) -> SqlResult<Prepared> {
        let mut parameters = ParameterTypes(hints.iter().map(|h| h.map(|h| h.data_type)).collect());
        let Some(statement) = statement else {
            return Ok(Prepared {
                sql: sql.into(),
                shown: analytics::activity::kept_text(sql),
                parameters: Vec::new(),
                columns: None,
                statement: None,
                arrays: BTreeSet::new(),
                made_us: session.gateway.now_us(),
                heading: None,
                planned: Mutex::new(None),
            });
        };
        let catalog = session.catalog();
        let arrays = arrays::parameters(&statement, hints);
        for (n, data_type) in session.knowing_types(&catalog, || arrays::cast_elements(&statement)) {
            parameters.found(n, data_type);
        }
        let announced = spans::announced(&statement, hints);
        let mut written_out = statement.clone();
        session.knowing_types(&catalog, || arrays::write_out(&mut written_out, &arrays))?;
        let plan = plan::plan(&session.context(&catalog), &written_out, &mut parameters)?;
        let columns = match (&statement, sql::parse::with_condition(&statement, None)) {
            (Statement::Fetch { name, into: None, .. }, _) => session.cursor_columns(&sql::names::fold(name)),
            // A change of a cursor's row returns what it would return of any.
            (_, Some(change)) => {
                plan::plan(&session.context(&catalog), &change, &mut parameters.clone())?.columns()
            }
            _ => plan.columns(),
        };
        let planned = Planned::now(session, plan);
        Ok(Prepared {
            sql: sql.into(),
            shown: analytics::activity::kept_text(sql),
            parameters: (parameters.0.into_iter().enumerate())
                .map(|(n, t)| ParameterType {
                    data_type: t.unwrap_or(DataType::Text),
                    is_array: arrays.contains(&n),
                    announced: announced.get(&n).copied(),
                })
                .collect(),
            columns,
            // With arrays it is planned for its values, each time.
            statement: Some(if arrays.is_empty() { written_out } else { statement }),
            arrays,
            made_us: session.gateway.now_us(),
            heading: None,
            planned: Mutex::new(Some(planned)),
        })
    }

    /// A statement that is executed once, by this plan.
    pub(super) fn once(session: &Session, sql: &str, statement: Statement, plan: Plan) -> Prepared {
        Prepared {
            sql: sql.into(),
            shown: analytics::activity::kept_text(sql),
            parameters: Vec::new(),
            columns: plan.columns(),
            statement: Some(statement),
            arrays: BTreeSet::new(),
            made_us: session.gateway.now_us(),
            heading: None,
            planned: Mutex::new(Some(Planned::now(session, plan))),
        }
    }

    /// Its row of `pg_prepared_statements`. How often it was planned is not counted.
    pub(super) fn row(&self, name: &str) -> Vec<Datum> {
        let type_name = |parameter: &ParameterType| {
            let name = match parameter.announced {
                Some(sql::types::OBJECT_ID_OID) => "oid".into(),
                _ => sql::routines::data_type_name(parameter.data_type),
            };
            // Without its limits.
            let bare = name.split('(').next().unwrap_or(&name);
            Datum::text(if parameter.is_array { format!("{bare}[]") } else { bare.into() })
        };
        let types: Vec<Datum> = self.parameters.iter().map(type_name).collect();
        vec![
            Datum::text(name),
            Datum::text(format!("{}{}", self.heading.as_deref().unwrap_or_default(), self.sql)),
            Datum::Timestamp(self.made_us),
            Datum::Array(types.into()),
            Datum::Bool(self.heading.is_some()),
            Datum::Int(0),
            Datum::Int(0),
        ]
    }

    /// The plan for today's catalog and these values of its parameters.
    pub(super) fn plan(&self, session: &Session, values: &[Datum]) -> SqlResult<Arc<Plan>> {
        let catalog = session.catalog();
        let planned_for = session.planned_for();
        let statement = self.statement.as_ref().expect("only statements are planned");
        let now = |p: &ParameterType| sql::user_types::now(&catalog, p.data_type);
        let types: Vec<DataType> = self.parameters.iter().map(now).collect();
        let mut parameters = ParameterTypes(types.iter().copied().map(Some).collect());
        if !self.arrays.is_empty() {
            let mut bound = statement.clone();
            let bind = || arrays::bind(&mut bound, &self.arrays, &types, values);
            session.knowing_types(&catalog, || sql::zones::within(session.settings.zone, bind))?;
            return plan::plan(&session.context(&catalog), &bound, &mut parameters).map(Arc::new);
        }
        let (is_own, reads_here) = (session.has_own_catalog(), session.reads_here());
        let isolation = session.isolation();
        let mut planned = self.planned.lock().expect("planning does not panic while it holds the lock");
        if let Some(planned) = planned.as_ref()
            && (Arc::ptr_eq(&planned.catalog, &catalog)
                || (!planned.is_own && !is_own && planned.catalog.version == catalog.version))
            && planned.planned_for == planned_for
            && planned.reads_here == reads_here
            && planned.isolation == isolation
        {
            return Ok(planned.plan.clone());
        }
        let mut context = session.context(&catalog);
        let mut plan = Arc::new(plan::plan(&context, statement, &mut parameters.clone())?);
        if reads_here && self.refuse_other_columns(&plan).is_err() {
            // Columns type some results otherwise than rows, which the client was told of.
            context.reads_here = false;
            plan = Arc::new(plan::plan(&context, statement, &mut parameters)?);
        }
        self.refuse_other_columns(&plan)?;
        let catalog = catalog.clone();
        let plan_of = plan.clone();
        *planned = Some(Planned { catalog, is_own, planned_for, reads_here, isolation, plan: plan_of });
        Ok(plan)
    }

    /// The client was told which columns come. Errors: 0A000 if others would come now.
    fn refuse_other_columns(&self, plan: &Plan) -> SqlResult<()> {
        // Utilities describe themselves, a FETCH by its cursor.
        if matches!(plan, Plan::Utility(_)) {
            return Ok(());
        }
        let shape = |columns: &Vec<Column>| -> Vec<_> {
            columns.iter().map(|c| (c.name.clone(), c.type_oid, c.type_modifier)).collect()
        };
        let (now, described) = (plan.columns(), &self.columns);
        if now.as_deref().map(shape) == described.as_deref().map(shape) {
            return Ok(());
        }
        Err(base::SqlError::new(base::SqlState::FEATURE_NOT_SUPPORTED, OTHER_RESULT_TYPE))
    }

    /// The values that a plan still waits for: arrays are written out in it.
    pub(super) fn scalars<'a>(&self, values: &'a [Datum]) -> Cow<'a, [Datum]> {
        if self.arrays.is_empty() {
            return values.into();
        }
        let scalar = |(n, value): (usize, &Datum)| match self.arrays.contains(&n) {
            true => Datum::Null,
            false => value.clone(),
        };
        values.iter().enumerate().map(scalar).collect()
    }

    /// A plan for one use.
    pub(super) fn plan_once(session: &Session, statement: &Statement) -> SqlResult<Plan> {
        let catalog = session.catalog();
        let mut parameters = ParameterTypes::default();
        let mut statement = statement.clone();
        session.knowing_types(&catalog, || arrays::write_out(&mut statement, &BTreeSet::new()))?;
        let plan = plan::plan(&session.context(&catalog), &statement, &mut parameters)?;
        if parameters.0.is_empty() {
            return Ok(plan);
        }
        Err(base::SqlError::new(base::SqlState::UNDEFINED_PARAMETER, "there is no parameter $1"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cluster, Gateway, GatewayConfig};
    use async_trait::async_trait;
    use base::schema::{Identity, Placement, SchemaAction, SchemaChange, Table};
    use base::topology::Topology;
    use base::txn::procedure::Procedures;
    use base::wan::Wan;
    use base::{NodeId, RegionId, TableId, Time};
    use node::request::{Reply, Request};

    /// A node that has one table and answers nothing.
    struct Silent {
        topology: Arc<Topology>,
        catalog: Mutex<Arc<Catalog>>,
        procedures: Arc<Procedures>,
    }

    #[async_trait]
    impl Cluster for Silent {
        async fn request(&self, _: Request) -> SqlResult<Reply> {
            Err(base::SqlError::internal("nothing is asked"))
        }
        fn tell(&self, _: Request) {}
        fn node(&self) -> NodeId {
            NodeId(0)
        }
        fn topology(&self) -> &Arc<Topology> {
            &self.topology
        }
        fn catalog(&self) -> Arc<Catalog> {
            self.catalog.lock().unwrap().clone()
        }
        fn procedures(&self) -> &Arc<Procedures> {
            &self.procedures
        }
        fn now(&self) -> Time {
            Time(1)
        }
        fn engine(&self) -> &str {
            "caerus"
        }
    }

    fn table(id: u32, name: &str) -> SchemaAction {
        let column = |name: &str| base::schema::Column {
            name: name.into(),
            data_type: DataType::Integer,
            not_null: false,
            default: None,
            missing: Datum::Null,
            identity: Identity::No,
            hidden: false,
        };
        SchemaAction::CreateTable(Table {
            id: TableId(id),
            schema: "public".into(),
            name: name.into(),
            version: 0,
            columns: vec![column("k"), column("v")],
            primary_key: vec![0],
            primary_key_name: format!("{name}_pkey"),
            indexes: Vec::new(),
            checks: Default::default(),
            foreign: Default::default(),
            triggers: Default::default(),
            domains: Default::default(),
            partitioning: None,
            placement: Placement::Home(RegionId(0)),
        })
    }

    impl Silent {
        fn new() -> Arc<Silent> {
            let wan = Wan::uniform("test", &["a"], 1, 1);
            let silent = Silent {
                topology: Arc::new(Topology::one_node_per_region(wan, 1)),
                catalog: Mutex::default(),
                procedures: Arc::default(),
            };
            silent.create(table(10_001, "t"));
            Arc::new(silent)
        }
        fn create(&self, table: SchemaAction) {
            let mut catalog = self.catalog.lock().unwrap();
            let mut changed = Catalog::clone(&catalog);
            let base_version = changed.version;
            let change = SchemaChange { database: Default::default(), base_version, actions: vec![table] };
            changed.apply(&change).unwrap();
            *catalog = Arc::new(changed);
        }
    }

    /// What a client prepares is planned when its parameters and columns are described; each execution once planned it
    /// again.
    #[tokio::test]
    async fn a_prepared_statement_is_planned_once_for_each_catalog() {
        let cluster = Silent::new();
        let gateway = Gateway::new(cluster.clone(), GatewayConfig::default());
        let mut session = Session::new(gateway, "tester", base::databases::MERIDIAN);
        for sql in [
            "SELECT v FROM t WHERE k = $1",
            "SELECT k FROM t WHERE v > $1 ORDER BY v",
            "UPDATE t SET v = v + 1 WHERE k = $1",
        ] {
            let prepared = session.prepare(sql, &[]).await.unwrap();
            let described = prepared.planned.lock().unwrap().as_ref().unwrap().plan.clone();
            for k in 0..3 {
                session.look_up_catalog();
                let plan = prepared.plan(&session, &[Datum::Int(k)]).unwrap();
                assert!(Arc::ptr_eq(&plan, &described), "{sql}, execution {k}");
            }
        }
        let sql = "SELECT v FROM t WHERE k = $1";
        let prepared = session.prepare(sql, &[]).await.unwrap();
        let before = prepared.plan(&session, &[Datum::Int(1)]).unwrap();
        cluster.create(table(10_002, "u"));
        session.look_up_catalog();
        let after = prepared.plan(&session, &[Datum::Int(1)]).unwrap();
        assert!(!Arc::ptr_eq(&before, &after), "another catalog has another plan");
        let again = prepared.plan(&session, &[Datum::Int(2)]).unwrap();
        assert!(Arc::ptr_eq(&after, &again), "which is kept, too");
    }
}

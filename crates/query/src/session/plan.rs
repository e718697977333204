//! What a statement will do, decided once per catalog version.

use super::computed::Computations;
use super::rich::RichPlan;
use crate::analytics::QueryPlan;
use crate::lower::insert::InsertPlan;
use crate::lower::join::RowJoinPlan;
use crate::lower::modify::ModifyPlan;
use crate::lower::scope::{ParameterTypes, Scope};
use crate::lower::select::RowSelectPlan;
use crate::lower::{Lowering, Projection, Refusal, bind};
use crate::names;
use crate::response::Column;
use base::error::{SqlResult, SqlState};
use base::expr::Expr;
use base::schema::{Catalog, Placement, Table};
use base::txn::procedure::Procedure;
use base::{DataType, SqlError};
use datafusion::sql::sqlparser::ast::{self, Statement};
use std::sync::Arc;

/// What a statement will do.
pub enum Plan {
    /// With queries for the values that nodes cannot compute.
    Insert(InsertPlan, Computations),
    Modify(ModifyPlan),
    /// SELECT without FROM.
    Constant(Projection),
    /// Few rows by key, or rows to be validated (FOR UPDATE).
    Rows(RowSelectPlan),
    /// Few rows of one table by key, and by them rows of another.
    Join(RowJoinPlan),
    /// Anything else that returns rows.
    Query(Arc<QueryPlan>),
    /// UPDATE and DELETE that need the analytical planner to find their rows and values.
    Rich(Box<RichPlan>),
    Call(CallPlan),
    /// Statements about the session, the catalog, or other statements.
    Utility(Statement),
}

/// `CALL name(…)`.
pub struct CallPlan {
    pub procedure: Arc<dyn Procedure>,
    pub arguments: Vec<(Expr, DataType)>,
    pub columns: Arc<Vec<Column>>,
}

impl Plan {
    /// Columns of the rows it returns.
    pub fn columns(&self) -> Option<Arc<Vec<Column>>> {
        match self {
            Plan::Insert(plan, _) => plan.returning.as_ref().map(|r| r.columns.clone()),
            Plan::Modify(plan) => plan.returning.as_ref().map(|r| r.columns.clone()),
            Plan::Constant(projection) => Some(projection.columns.clone()),
            Plan::Rows(plan) => Some(plan.output.projection.columns.clone()),
            Plan::Join(plan) => Some(plan.output.projection.columns.clone()),
            Plan::Query(plan) => Some(plan.columns.clone()),
            Plan::Call(plan) => (!plan.columns.is_empty()).then(|| plan.columns.clone()),
            Plan::Utility(statement) => super::utility::columns(statement),
            Plan::Rich(plan) => plan.returning().map(|r| r.columns.clone()),
        }
    }
}

/// What planning depends on beside the statement.
pub struct PlanContext<'a> {
    pub gateway: &'a Arc<crate::Gateway>,
    pub catalog: &'a Arc<Catalog>,
    pub search_path: &'a [String],
    pub database: &'a str,
    pub user: &'a str,
    pub process_id: i32,
    /// Ends the statement, its planning too.
    pub cancel: &'a super::CancelHandle,
    /// Rows that are kept elsewhere are read from the columns here: what is complete here will do.
    pub reads_here: bool,
}

/// The same for what outlives the call: a function that asks for it, a thread that the statement may not wait for.
pub struct OwnedContext {
    pub gateway: Arc<crate::Gateway>,
    pub catalog: Arc<Catalog>,
    pub search_path: Vec<String>,
    pub database: String,
    pub user: String,
    pub process_id: i32,
    pub cancel: super::CancelHandle,
    pub reads_here: bool,
}

impl PlanContext<'_> {
    pub fn to_owned(&self) -> OwnedContext {
        OwnedContext {
            gateway: self.gateway.clone(),
            catalog: self.catalog.clone(),
            search_path: self.search_path.to_vec(),
            database: self.database.to_string(),
            user: self.user.to_string(),
            process_id: self.process_id,
            cancel: self.cancel.clone(),
            reads_here: self.reads_here,
        }
    }

    /// Whether some rows of a table are elsewhere, and all its columns here.
    fn has_only_columns(&self, table: &Table) -> bool {
        let cluster = &self.gateway.cluster;
        let (topology, me) = (cluster.topology(), cluster.node());
        if table.placement == Placement::Replicated {
            return false;
        }
        let partitions = table.partitions(topology);
        let kept = &topology.nodes[usize::from(me.0)].subscribes;
        partitions.iter().any(|p| !topology.holds(me, *p)) && partitions.iter().all(|p| kept.contains(p))
    }
    /// Whether a plan over rows has to leave the house for nothing.
    fn prefers_columns(&self, tables: &[&Table]) -> bool {
        self.reads_here && tables.iter().any(|table| self.has_only_columns(table))
    }
}

impl OwnedContext {
    pub fn context(&self) -> PlanContext<'_> {
        PlanContext {
            gateway: &self.gateway,
            catalog: &self.catalog,
            search_path: &self.search_path,
            database: &self.database,
            user: &self.user,
            process_id: self.process_id,
            cancel: &self.cancel,
            reads_here: self.reads_here,
        }
    }
}

/// Plans a statement; types of parameters are found on the way.
pub fn plan(
    context: &PlanContext<'_>,
    statement: &Statement,
    parameters: &mut ParameterTypes,
) -> SqlResult<Plan> {
    let topology = context.gateway.cluster.topology().clone();
    let mut lowering = Lowering {
        catalog: context.catalog,
        search_path: context.search_path,
        database: context.database,
        parameters,
    };
    match statement {
        Statement::Query(query) if super::create_as::is_select_into(query) => {
            Ok(Plan::Utility(statement.clone()))
        }
        Statement::Query(query) => plan_query(context, statement, query, parameters),
        Statement::Insert(insert) => {
            let plan = lowering.insert(insert).map_err(|r| too_rich(r, "this form of INSERT"))?;
            let computations = Computations::of(context, &plan, insert, parameters)?;
            Ok(Plan::Insert(plan, computations))
        }
        Statement::Update(_) | Statement::Delete(_) => {
            let declared = lowering.parameters.clone();
            let lowered = match statement {
                Statement::Update(update) => lowering.update(update, &topology),
                Statement::Delete(delete) => lowering.delete(delete, &topology),
                _ => Err(Refusal::TooRich),
            };
            match lowered {
                Ok(plan) => Ok(Plan::Modify(plan)),
                Err(Refusal::Error(error)) => Err(error),
                Err(Refusal::TooRich) => {
                    *parameters = declared;
                    RichPlan::new(context, statement, parameters).map(|plan| Plan::Rich(Box::new(plan)))
                }
            }
        }
        Statement::Call(function) => plan_call(context, &mut lowering, function).map(Plan::Call),
        other => Ok(Plan::Utility(other.clone())),
    }
}

fn plan_query(
    context: &PlanContext<'_>,
    statement: &Statement,
    query: &ast::Query,
    parameters: &mut ParameterTypes,
) -> SqlResult<Plan> {
    if let ast::SetExpr::Select(select) = query.body.as_ref() {
        crate::analytics::check_columns(select)?;
    }
    let declared = parameters.clone();
    let mut lowering = Lowering {
        catalog: context.catalog,
        search_path: context.search_path,
        database: context.database,
        parameters,
    };
    match lowering.constants(query) {
        Ok(projection) => return Ok(Plan::Constant(projection)),
        Err(Refusal::TooRich) => *lowering.parameters = declared.clone(),
        Err(Refusal::Error(error)) => return Err(error),
    }
    let locks = !query.locks.is_empty();
    match lowering.row_select(query) {
        Ok(plan) if plan.is_locking => return Ok(Plan::Rows(plan)),
        Ok(plan) if plan.is_narrow && !context.prefers_columns(&[&plan.table]) => {
            return Ok(Plan::Rows(plan));
        }
        Ok(_) => {}
        Err(Refusal::TooRich) if locks => {
            return Err(SqlError::unsupported("FOR UPDATE of anything but rows of one table"));
        }
        Err(Refusal::TooRich) => {
            *lowering.parameters = declared.clone();
            match lowering.row_join(query) {
                Ok(plan) if !context.prefers_columns(&[&plan.outer, &plan.inner]) => {
                    return Ok(Plan::Join(plan));
                }
                // What is wrong with a join is better said by who plans all joins.
                _ => *parameters = declared,
            }
        }
        // Its own message is better than the analytical planner's.
        Err(Refusal::Error(error)) => return Err(error),
    }
    crate::analytics::plan(context, statement, parameters).map(Plan::Query)
}

fn plan_call(
    context: &PlanContext<'_>,
    lowering: &mut Lowering<'_>,
    function: &ast::Function,
) -> SqlResult<CallPlan> {
    let name = names::parts(&function.name)?.pop().expect("a name has a part");
    let procedure = context.gateway.cluster.procedures().get(&name)?.clone();
    let declared = procedure.arguments();
    let given: Vec<&ast::Expr> = match &function.args {
        ast::FunctionArguments::None => Vec::new(),
        ast::FunctionArguments::List(list) => list
            .args
            .iter()
            .map(|argument| match argument {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(e)) => Ok(e),
                _ => Err(SqlError::unsupported("named arguments of CALL")),
            })
            .collect::<SqlResult<_>>()?,
        ast::FunctionArguments::Subquery(_) => return Err(SqlError::unsupported("a subquery in CALL")),
    };
    if given.len() != declared.len() {
        let types: Vec<String> = declared.iter().map(|(n, t)| format!("{n} {}", t.name())).collect();
        return Err(SqlError::new(
            SqlState::UNDEFINED_FUNCTION,
            format!("procedure {name} with {} arguments does not exist", given.len()),
        )
        .hint(format!("It is declared as {name}({}).", types.join(", "))));
    }
    let scope = Scope::default();
    let mut arguments = Vec::with_capacity(given.len());
    for (e, (argument, data_type)) in given.into_iter().zip(declared) {
        let expr = lowering
            .exprs(&scope)
            .assignment(e, argument, data_type)
            .map_err(|r| too_rich(r, "this expression as an argument of CALL"))?;
        if !bind::is_constant(&expr) {
            return Err(SqlError::unsupported("a column as an argument of CALL"));
        }
        arguments.push((expr, data_type));
    }
    let columns = procedure.columns().into_iter().map(|(n, t)| Column::new(n, t)).collect();
    Ok(CallPlan { procedure, arguments, columns: Arc::new(columns) })
}

fn too_rich(refusal: Refusal, what: &str) -> SqlError {
    refusal.or(|| SqlError::unsupported(what))
}

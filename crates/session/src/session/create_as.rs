//! Changes of the catalog that come with rows: CREATE TABLE AS, SELECT INTO, and unique indexes whose entries
//! have homes of their own.
//!
//! Each is a transaction that changes the catalog and writes rows, and takes effect as one. Outside a block it
//! is executed again when something changed in between.

use super::Session;
use super::attempts::Attempts;
use super::plan::{self, Plan};
use super::turns::Turn;
use super::write::Written;
use crate::response::Response;
use base::error::{SqlResult, SqlState};
use base::roles::{Object, RoleChange};
use base::schema::{Catalog, Index, SchemaAction, Table};
use base::txn::OnConflict;
use base::{Datum, SqlError};
use sql::lower::bind::Binding;
use sql::lower::insert::{InsertPlan, Source, complete_row};
use sql::lower::scope::ParameterTypes;
use sql::types::{Column, NUMERIC, type_oid};
use sqlparser::ast::{self, SetExpr, Statement};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Session {
    /// Runs a change of the catalog that writes rows as a transaction of its own.
    pub(super) async fn run_alone(
        &mut self,
        statement: &Statement,
        parameters: &[Datum],
    ) -> SqlResult<Response> {
        let mut attempts = Attempts::default();
        loop {
            self.begin_attempt(false, &attempts).await;
            self.open().reading.is_lone = true;
            let result = match statement {
                Statement::CreateTable(create) if create.query.is_some() => {
                    Box::pin(self.create_as(create, parameters)).await
                }
                _ if sql::parse::has_elements(statement) => Box::pin(self.create_schema(statement)).await,
                _ if super::materialized::makes_rows(statement) => Box::pin(self.keep_rows(statement)).await,
                _ => Box::pin(self.collect_ddl(statement)).await,
            };
            if let Some(response) = self.settle(result, &mut attempts).await? {
                return Ok(response);
            }
        }
    }

    /// CREATE SCHEMA with what is made in it, in the open transaction: names without a schema are looked up in the new one first.
    /// Errors: 42P15 for something of another schema, 0A000 for what another role would own.
    pub(super) async fn create_schema(&mut self, statement: &Statement) -> SqlResult<Response> {
        let elements = sql::parse::elements_of(statement)?;
        let planned = self.plan_ddl(statement)?;
        let mut made = planned.actions.iter().filter_map(|action| match action {
            SchemaAction::CreateSchema(name) => Some(name.clone()),
            _ => None,
        });
        let name = made.next().ok_or_else(|| SqlError::internal("a schema that is not made"))?;
        let owner = planned.actions.iter().find_map(|action| match action {
            SchemaAction::Roles(RoleChange::SetOwner(Object::Schema(_), owner)) => Some(*owner),
            _ => None,
        });
        if owner.is_some_and(|owner| owner != self.standing().role) {
            let told = "CREATE SCHEMA AUTHORIZATION another role with something in it";
            return Err(SqlError::unsupported(told)
                .hint("SET ROLE first, or create what is in it with statements of its own."));
        }
        self.collect_ddl(statement).await?;
        let before = self.settings.exchange_path(&name);
        let mut ended = Ok(());
        for element in &elements {
            ended = self.create_in(&name, element).await;
            if ended.is_err() {
                break;
            }
        }
        self.settings.search_path_again(before);
        ended.map(|()| Response::Command("CREATE SCHEMA".into()))
    }

    async fn create_in(&mut self, schema: &str, element: &Statement) -> SqlResult<()> {
        let name = match element {
            Statement::CreateTable(create) => Some(&create.name),
            Statement::CreateView(create) => Some(&create.name),
            Statement::CreateSequence { name, .. } => Some(name),
            Statement::CreateIndex(create) => Some(&create.table_name),
            _ => None,
        };
        let written = name.map(|name| sql::names::qualified(name, &self.database.name)).transpose()?;
        if let Some((Some(written), _)) = written.filter(|(written, _)| written.as_deref() != Some(schema)) {
            let told = format!(
                "CREATE specifies a schema ({written}) different from the one being created ({schema})"
            );
            return Err(SqlError::new(SqlState(*b"42P15"), told));
        }
        self.collect_ddl(element).await.map(|_| ())
    }

    /// CREATE TABLE AS in the open transaction.
    pub(super) async fn create_as(
        &mut self,
        create: &ast::CreateTable,
        parameters: &[Datum],
    ) -> SqlResult<Response> {
        let query = create.query.clone().ok_or_else(|| SqlError::internal("a table of no query"))?;
        let catalog = self.catalog();
        let mut types = ParameterTypes(parameters.iter().map(sql::types::type_of).collect());
        let plan = plan::plan(&self.context(&catalog), &Statement::Query(query), &mut types)?;
        let shape = plan.columns().filter(|_| !matches!(plan, Plan::Utility(_)));
        let shape = shape.ok_or_else(|| SqlError::unsupported("CREATE TABLE AS of anything but a query"))?;
        let create = Statement::CreateTable(with_columns(create, &shape)?);
        let planned = self.plan_ddl(&create)?;
        if planned.actions.is_empty() {
            self.tell_notices(planned.notices);
            return Ok(Response::Command("CREATE TABLE AS".into()));
        }
        let Response::Rows(mut rows) = Box::pin(self.run(&plan, parameters)).await? else {
            return Err(SqlError::internal("a query answers rows"));
        };
        let memory = self.gateway.rows_memory("rows of CREATE TABLE AS");
        let rows = rows.stream.collect_within(&memory).await?;
        self.collect_ddl(&create).await?;
        let written = self.fill(self.made_by(&planned.actions)?, shape.len(), rows).await?;
        Ok(Response::Command(format!("SELECT {written}")))
    }

    /// The table that a change has made, which was perhaps planned again since.
    pub(super) fn made_by(&self, actions: &[SchemaAction]) -> SqlResult<Arc<Table>> {
        let catalog = self.catalog();
        let made = actions.iter().find_map(|action| match action {
            SchemaAction::CreateTable(table) => catalog.table_named(&table.schema, &table.name),
            _ => None,
        });
        made.cloned().ok_or_else(|| SqlError::internal("a table that was made is not there"))
    }

    /// Writes rows into a table that is new or empty, of values for its first columns; answers how many.
    pub(super) async fn fill(
        &mut self,
        table: Arc<Table>,
        width: usize,
        rows: Vec<Vec<Datum>>,
    ) -> SqlResult<u64> {
        let targets: Vec<usize> = (0..width).collect();
        self.fill_columns(table, &targets, rows).await
    }

    /// The same of values for some columns. No trigger of the table fires.
    pub(super) async fn fill_columns(
        &mut self,
        table: Arc<Table>,
        targets: &[usize],
        rows: Vec<Vec<Datum>>,
    ) -> SqlResult<u64> {
        let table = match table.triggers.is_empty() {
            true => table,
            false => Arc::new(Table { triggers: Default::default(), ..table.as_ref().clone() }),
        };
        let (gateway, catalog) = (self.gateway.clone(), self.catalog());
        // A materialized view may have indexes that compute something.
        let generated = self.lowered(|lowering| lowering.generated(&table))?;
        let plan = InsertPlan {
            defaults: self.lowered(|lowering| lowering.defaults(&table))?,
            table,
            source: Source::Values(Vec::new()),
            on_conflict: OnConflict::Fail,
            returning: None,
            is_one_shot: true,
            computed: Vec::new(),
            conflict: Vec::new(),
            generated,
        };
        let binding = Binding {
            parameters: &[],
            times: self.times(),
            generators: &gateway.node.generators,
            catalog: &catalog,
        };
        let complete = |given| complete_row(&plan, targets, given, &binding);
        let rows = rows.into_iter().map(complete).collect::<SqlResult<Vec<_>>>()?;
        let (mut written, mark) = (Written::default(), self.open().mark());
        self.insert_rows(&plan, None, rows, &binding, &mut written).await?;
        self.end_write(mark, &mut written.pending).await?;
        Ok(written.affected)
    }

    /// Whether changes need the rows that are there to be written anew.
    pub(super) fn asks_for_rows(&self, actions: &[SchemaAction]) -> bool {
        let catalog = self.catalog();
        actions.iter().any(|action| self.entered(&catalog, action).is_some())
            || !super::foreign_keys::added(&catalog, actions, None).is_empty()
    }

    /// A table that is there already, with its new unique indexes whose entries have homes of their own.
    fn entered<'a>(&self, before: &Catalog, action: &'a SchemaAction) -> Option<(&'a Table, Vec<&'a Index>)> {
        let SchemaAction::AlterTable(table) = action else { return None };
        let old = before.table(table.id)?;
        let topology = self.cluster().topology();
        let is_new = |index: &&Index| old.indexes.iter().all(|i| i.id != index.id);
        let new: Vec<&Index> = table
            .indexes
            .iter()
            .filter(is_new)
            .filter(|index| !table.index_is_local(index, topology))
            .collect();
        (!new.is_empty()).then_some((table, new))
    }

    /// Rows of tables that got a unique index without the partition column are written as they are: their
    /// entries are taken where they have their homes.
    pub(super) async fn enter_rows(&mut self, actions: &[SchemaAction]) -> SqlResult<()> {
        let catalog = self.catalog();
        let base = self.open().catalog.as_ref().map(|own| own.base.clone());
        let Some(base) = base else { return Ok(()) };
        for action in actions {
            let Some((table, indexes)) = self.entered(&base, action) else { continue };
            let Some(now) = catalog.table(table.id).cloned() else { continue };
            let rows = self.all_rows(&now).await?;
            if rows.len() > super::copying::ROWS_MAX {
                return Err(SqlError::unsupported(format!(
                    "a unique index without the partition column over more than {} rows",
                    super::copying::ROWS_MAX
                )));
            }
            for index in indexes {
                let mut taken = BTreeSet::new();
                for row in &rows {
                    if !taken.insert(now.index_entry(index, &row.values, &row.key)) {
                        return Err(cannot_index(&now, &index.name, index.keys(), &row.values));
                    }
                }
            }
            let mut turn = Turn::begin();
            for row in rows {
                turn.give_way().await;
                let values = row.values.as_ref().clone();
                self.open().change(&now, row.key, &row.values, Some(values))?;
            }
        }
        Ok(())
    }
}

/// `SELECT … INTO t` as CREATE TABLE AS.
pub(super) fn select_into(query: &ast::Query) -> SqlResult<ast::CreateTable> {
    let mut query = query.clone();
    let into = match query.body.as_mut() {
        SetExpr::Select(select) => select.into.take(),
        _ => None,
    };
    let into = into.ok_or_else(|| SqlError::internal("a query without INTO"))?;
    Ok(ast::CreateTable {
        name: into.name,
        temporary: into.temporary,
        columns: Vec::new(),
        query: Some(Box::new(query)),
        ..created("CREATE TABLE t (x integer)")?
    })
}

fn created(sql: &str) -> SqlResult<ast::CreateTable> {
    match sql::parse::parse(sql)?.pop() {
        Some(Statement::CreateTable(create)) => Ok(create),
        _ => Err(SqlError::internal("this text creates a table")),
    }
}

/// The statement with the query's columns instead of the query.
fn with_columns(create: &ast::CreateTable, shape: &[Column]) -> SqlResult<ast::CreateTable> {
    let given = sql::parse::names_of_columns(&create.columns)?;
    if given.len() > shape.len() {
        let told = "too many column names were specified";
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, told));
    }
    let mut definitions = Vec::with_capacity(shape.len());
    for (n, column) in shape.iter().enumerate() {
        let name = given.get(n).unwrap_or(&column.name);
        if column.type_oid != type_oid(column.data_type) {
            return Err(SqlError::unsupported(format!("a column of the type of \"{name}\"")));
        }
        let data_type = match column.data_type {
            NUMERIC => "numeric".to_string(),
            other => other.qualified_name(),
        };
        definitions.push(format!("\"{}\" {data_type}", name.replace('"', "\"\"")));
    }
    let columns = created(&format!("CREATE TABLE t ({})", definitions.join(", ")))?.columns;
    Ok(ast::CreateTable { columns, query: None, ..create.clone() })
}

/// A unique index cannot be made over rows that share an entry.
pub(super) fn cannot_index(table: &Table, name: &str, columns: &[usize], values: &[Datum]) -> SqlError {
    let names: Vec<&str> = columns.iter().map(|c| table.key_column_shown(*c)).collect();
    let shown: Vec<String> =
        columns.iter().map(|c| base::text::display_as(&values[*c], table.columns[*c].data_type)).collect();
    SqlError::new(SqlState::UNIQUE_VIOLATION, format!("could not create unique index \"{name}\""))
        .detail(format!("Key ({})=({}) is duplicated.", names.join(", "), shown.join(", ")))
        .table(&table.name)
        .constraint(name)
}

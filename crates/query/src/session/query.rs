//! Queries through DataFusion, in and out of transactions.

use super::write::Written;
use super::{Context, Session};
use crate::analytics::{self, Answer, How, QueryPlan};
use crate::lower::modify::assigned_column;
use crate::lower::scope::ParameterTypes;
use crate::names;
use crate::response::{Guard, Response, RowStream, Rows};
use crate::session::transaction::SeenRow;
use base::error::{SqlResult, SqlState};
use base::key::KeyRange;
use base::schema::Table;
use base::{Datum, SqlError, TableId};
use datafusion::sql::sqlparser::ast::{self, Statement};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Session {
    pub(super) async fn run_query(&mut self, plan: &QueryPlan, parameters: &[Datum]) -> SqlResult<Response> {
        let mut answer = self.answer(plan, parameters).await?;
        if let RowStream::Batches(batches) = &mut answer.stream {
            // The statement goes on while its rows are fetched.
            batches.guard = Some(Guard { cancel: self.cancel.clone(), deadline: self.cancel.deadline() });
        }
        Ok(Response::Rows(Rows { columns: plan.columns.clone(), stream: answer.stream, tag: "SELECT" }))
    }

    /// Starts a query; inside a transaction at its cut, over its own writes, recorded as read.
    pub(super) async fn answer(&mut self, plan: &QueryPlan, parameters: &[Datum]) -> SqlResult<Answer> {
        let at = match self.transaction.is_some() && plan.reads_tables() {
            true => Some(self.pinned().await?.1),
            false => None,
        };
        let own_tables = self.own_tables(plan).await?;
        let how = How {
            at,
            consistency: self.settings.consistency,
            token: self.token.clone(),
            cancel: self.cancel.clone(),
            transaction: self.transaction.as_ref(),
            own_tables,
        };
        let gateway = self.gateway.clone();
        let mut answer = analytics::run(&gateway, plan, parameters, how).await?;
        if let Some(token) = &answer.token {
            self.token.join(token);
        }
        self.freshness = answer.freshness.or(self.freshness);
        self.sources = std::mem::take(&mut answer.sources);
        if self.is_analyzing {
            self.operators = Some((answer.operators.clone(), answer.timing));
        }
        if let Some(transaction) = &mut self.transaction {
            for (table, partitions) in &answer.reads {
                for partition in partitions {
                    transaction.record_read(*partition, *table, KeyRange::all(), None, transaction.cut);
                }
            }
        }
        Ok(answer)
    }

    /// Rows of those of a query's tables that the open transaction has made or altered.
    async fn own_tables(&mut self, plan: &QueryPlan) -> SqlResult<BTreeMap<TableId, Vec<Arc<Vec<Datum>>>>> {
        let mut own_tables = BTreeMap::new();
        let Some(own) = self.transaction.as_ref().and_then(|t| t.catalog.clone()) else {
            return Ok(own_tables);
        };
        for table in plan.tables().filter(|table| own.has_changed(table.id)) {
            let rows = self.all_rows(table).await?;
            own_tables.insert(table.id, rows.into_iter().map(|row| row.values).collect());
        }
        Ok(own_tables)
    }

    /// All rows of a query inside a statement.
    pub(super) async fn query_values(
        &mut self,
        query: &ast::Query,
        parameters: &[Datum],
    ) -> SqlResult<Vec<Vec<Datum>>> {
        let statement = Statement::Query(Box::new(query.clone()));
        self.statement_values(&statement, parameters, false).await
    }

    async fn statement_values(
        &mut self,
        statement: &Statement,
        parameters: &[Datum],
        with_hidden: bool,
    ) -> SqlResult<Vec<Vec<Datum>>> {
        let catalog = self.catalog();
        let mut types = ParameterTypes(parameters.iter().map(super::prepared::type_of).collect());
        let context: Context<'_> = self.context(&catalog);
        let planning = || analytics::plan_with(&context, statement, &mut types, with_hidden);
        let plan = crate::interrupt::during(&self.cancel, planning)?;
        let mut answer = self.answer(&plan, parameters).await?;
        let memory = self.gateway.rows_memory("rows of a query inside a statement");
        let rows = answer.stream.collect_within(&memory).await?;
        self.reading = Some(memory);
        Ok(rows)
    }

    /// UPDATE … FROM and DELETE … USING: a query finds the rows and their new values, which are buffered.
    pub(super) async fn rich_buffered(
        &mut self,
        statement: &Statement,
        parameters: &[Datum],
    ) -> SqlResult<Written> {
        self.pinned().await?;
        let catalog = self.catalog();
        let rich = Rich::of(self, &catalog, statement)?;
        let rows = self.statement_values(&rich.query, parameters, true).await?;
        let table = rich.table;
        let width = table.columns.len();
        let mut written = Written::default();
        let mut done = std::collections::BTreeSet::new();
        for mut row in rows {
            let values = row.split_off(width);
            let key = table.key_of(&row);
            // Joined more than once, a row changes once.
            if !done.insert(key.clone()) {
                continue;
            }
            written.affected += 1;
            let seen = SeenRow::new(key.clone(), Arc::new(row));
            match &rich.set {
                None => self.open().change(&table, key, &seen.values, None)?,
                Some(columns) => {
                    let mut new = seen.values.as_ref().clone();
                    for (&column, value) in columns.iter().zip(values) {
                        new[column] = crate::lower::insert::assign(value, &table.columns[column])?;
                    }
                    crate::lower::insert::check_row(&table, &new)?;
                    self.guard_unique(&table, &seen, &new).await?;
                    self.replace(&table, &seen, new)?;
                }
            }
        }
        Ok(written)
    }
}

/// A rich UPDATE or DELETE as a query: the row's columns, then the new values.
struct Rich {
    table: Arc<Table>,
    /// Columns assigned, in the order of the values; `None` deletes.
    set: Option<Vec<usize>>,
    query: Statement,
}

impl Rich {
    fn of(session: &Session, catalog: &base::schema::Catalog, statement: &Statement) -> SqlResult<Rich> {
        let find = |relation: &ast::TableFactor| -> SqlResult<(Arc<Table>, String)> {
            let ast::TableFactor::Table { name, alias, .. } = relation else {
                return Err(SqlError::unsupported("changing anything but a table"));
            };
            let path = &session.settings.search_path;
            let table = names::find_table(catalog, path, &session.database, name)?.clone();
            let shown = alias.as_ref().map_or_else(|| table.name.clone(), |a| names::fold(&a.name));
            Ok((table, shown))
        };
        let (table, shown, from, selection, assignments) = match statement {
            Statement::Update(update) => {
                if update.returning.is_some() {
                    return Err(SqlError::unsupported("RETURNING of UPDATE … FROM"));
                }
                if update.limit.is_some() || !update.order_by.is_empty() {
                    return Err(SqlError::unsupported("ORDER BY or LIMIT of UPDATE"));
                }
                let (table, shown) = find(&update.table.relation)?;
                let mut from = vec![update.table.clone()];
                if let Some(
                    ast::UpdateTableFromKind::BeforeSet(more) | ast::UpdateTableFromKind::AfterSet(more),
                ) = &update.from
                {
                    from.extend(more.iter().cloned());
                }
                (table, shown, from, update.selection.clone(), Some(update.assignments.as_slice()))
            }
            Statement::Delete(delete) => {
                if delete.returning.is_some() {
                    return Err(SqlError::unsupported("RETURNING of DELETE … USING"));
                }
                if delete.limit.is_some() || !delete.tables.is_empty() {
                    return Err(SqlError::unsupported("this form of DELETE"));
                }
                let (ast::FromTable::WithFromKeyword(tables) | ast::FromTable::WithoutKeyword(tables)) =
                    &delete.from;
                let [first] = tables.as_slice() else {
                    return Err(SqlError::unsupported("DELETE from several tables"));
                };
                let (table, shown) = find(&first.relation)?;
                let mut from = vec![first.clone()];
                from.extend(delete.using.iter().flatten().cloned());
                (table, shown, from, delete.selection.clone(), None)
            }
            _ => return Err(SqlError::internal("only UPDATE and DELETE are rich")),
        };
        let qualified = |column: &base::schema::Column| {
            ast::Expr::CompoundIdentifier(vec![
                ast::Ident::with_quote('"', &shown),
                ast::Ident::with_quote('"', &column.name),
            ])
        };
        let mut items = Vec::new();
        let mut add = |e: ast::Expr| {
            let alias = ast::Ident::with_quote('"', format!("c{}", items.len()));
            items.push(ast::SelectItem::ExprWithAlias { expr: e, alias });
        };
        table.columns.iter().map(qualified).for_each(&mut add);
        let set = match assignments {
            None => None,
            Some(assignments) => {
                let mut columns = Vec::new();
                for assignment in assignments {
                    let ast::AssignmentTarget::ColumnName(name) = &assignment.target else {
                        return Err(SqlError::unsupported("assigning a row of columns from a subquery"));
                    };
                    let (number, column) = assigned_column(&table, name)?;
                    if columns.contains(&number) {
                        return Err(SqlError::new(
                            SqlState::SYNTAX_ERROR,
                            format!("multiple assignments to same column \"{}\"", column.name),
                        ));
                    }
                    if crate::lower::insert::is_default(&assignment.value) {
                        return Err(SqlError::unsupported("DEFAULT in UPDATE … FROM"));
                    }
                    columns.push(number);
                    add(assignment.value.clone());
                }
                Some(columns)
            }
        };
        let mut query = crate::parse::parse("select 1")?;
        let Some(Statement::Query(mut query)) = query.pop() else {
            return Err(SqlError::internal("a query is a query"));
        };
        if let ast::SetExpr::Select(select) = query.body.as_mut() {
            select.projection = items;
            select.from = from;
            select.selection = selection;
        }
        Ok(Rich { table, set, query: Statement::Query(query) })
    }
}

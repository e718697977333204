//! COPY in a session.
//!
//! COPY FROM outside a transaction block is one transaction: all rows or none. `SET
//! meridian.copy_batch_rows = n` trades that for memory: every n rows are committed as they come, and an
//! error leaves the batches before it.

use super::Session;
use super::attempts::Attempts;
use crate::copy::{Record, Records};
use crate::response::{CopyFormat, CopyOut, Response};
use analytics::{RowsMemory, row_bytes};
use base::error::{SqlResult, SqlState};
use base::key::KeyRange;
use base::schema::{Identity, Table};
use base::txn::{AccessMode, AccessSet, Granule, OnConflict, TxnProgram};
use base::{Datum, SqlError};
use sql::lower::Lowering;
use sql::lower::bind::Binding;
use sql::lower::insert::{InsertPlan, Source, complete_row};
use sql::lower::scope::ParameterTypes;
use sqlparser::ast::{self, Statement};

/// Most rows of one atomic COPY.
pub(super) const ROWS_MAX: usize = 2_000_000;

/// From so many rows on a copy declares whole tables rather than keys.
const KEYS_MAX: usize = 2_000;

/// What a row takes once it is encoded and declared, besides its values.
const COPIED_BYTES: usize = 160;

/// Rows per statement of a copy's program.
const STATEMENT_ROWS: usize = 5_000;

/// A COPY FROM STDIN under way.
pub(super) struct CopyState {
    plan: InsertPlan,
    targets: Vec<usize>,
    records: Records,
    /// Rows that came in binary.
    lines: u64,
    rows: Vec<Vec<Datum>>,
    /// What they take.
    memory: RowsMemory,
    /// How many of them are counted.
    counted: usize,
    written: u64,
    /// Rows per commit; 0: all at once.
    batch_rows: usize,
    /// The front end reads the data.
    is_binary: bool,
}

/// Errors: 0A000 for more rows than one transaction writes.
pub(super) fn refuse_many(rows: usize, what: &str) -> SqlResult<()> {
    if rows <= ROWS_MAX {
        return Ok(());
    }
    Err(SqlError::unsupported(format!("{what}, of which there are more than {ROWS_MAX}"))
        .hint("Create another table like the one that is wanted and fill it piece by piece."))
}

impl Session {
    pub(super) async fn run_copy(
        &mut self,
        source: &ast::CopySource,
        to: bool,
        target: &ast::CopyTarget,
        options: &[ast::CopyOption],
        legacy: &[ast::CopyLegacyOption],
    ) -> SqlResult<Response> {
        let is_standard = matches!(target, ast::CopyTarget::Stdin | ast::CopyTarget::Stdout);
        if !is_standard {
            return Err(SqlError::new(
                SqlState::INSUFFICIENT_PRIVILEGE,
                "COPY to or from a file or program on the server is not allowed",
            )
            .hint("Use COPY … FROM STDIN, or psql's \\copy."));
        }
        let mut format = copy_format(options, legacy)?;
        if to {
            return self.copy_out(source, format).await;
        }
        let ast::CopySource::Table { table_name, columns } = source else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "COPY FROM needs a table"));
        };
        self.refuse_if_read_only("COPY FROM")?;
        let catalog = self.catalog();
        let mut types = ParameterTypes::default();
        let mut lowering = Lowering {
            catalog: &catalog,
            search_path: &self.settings.search_path,
            database: &self.database.name,
            parameters: &mut types,
        };
        let table = lowering.copied_table(table_name)?;
        sql::materialized::refuse_copy(&catalog, &table)?;
        let names: Vec<ast::ObjectName> = columns.iter().map(|c| ast::ObjectName::from(c.clone())).collect();
        let targets = copied_columns(&table, lowering.insert_targets(&table, &names)?, names.is_empty())?;
        let (defaults, generated) = (lowering.defaults(&table)?, lowering.generated(&table)?);
        format.columns = targets.len();
        format.types = targets.iter().map(|c| table.columns[*c].data_type).collect();
        format.names = targets.iter().map(|c| table.columns[*c].name.clone()).collect();
        format.table = table.name.clone();
        let batch_rows = self.settings.get("meridian.copy_batch_rows").parse().unwrap_or(0);
        if batch_rows > 0 && self.is_named() {
            return Err(SqlError::unsupported("a named request of several transactions")
                .hint("SET meridian.copy_batch_rows = 0, or RESET meridian.request."));
        }
        self.copy = Some(CopyState {
            plan: InsertPlan {
                table,
                source: Source::Values(Vec::new()),
                defaults,
                on_conflict: OnConflict::Fail,
                returning: None,
                is_one_shot: true,
                computed: Vec::new(),
                conflict: Vec::new(),
                generated,
            },
            targets,
            records: Records::new(format.clone()),
            lines: 0,
            rows: Vec::new(),
            memory: self.gateway.rows_memory("rows of COPY"),
            counted: 0,
            written: 0,
            batch_rows,
            is_binary: format.binary,
        });
        Ok(Response::CopyIn(format))
    }

    /// The columns that are copied from a table, as a select list: those that are named, or all but generated ones.
    fn copied_list(&self, name: &ast::ObjectName, columns: &[ast::Ident]) -> SqlResult<String> {
        // A view, or what is missing, the query tells about.
        let Ok(table) = self.lowered(|lowering| lowering.copied_table(name)) else {
            let named: Vec<String> = columns.iter().map(ToString::to_string).collect();
            return Ok(if named.is_empty() { "*".into() } else { named.join(", ") });
        };
        let is_generated = |c: &base::schema::Column| c.identity == Identity::Generated;
        if columns.is_empty() && !table.columns.iter().any(is_generated) {
            return Ok("*".into());
        }
        if columns.is_empty() {
            let visible = table.visible_columns().filter(|(_, column)| !is_generated(column));
            let quoted = visible.map(|(_, column)| sql::views::quoted(&column.name).to_string());
            return Ok(quoted.collect::<Vec<_>>().join(", "));
        }
        let names: Vec<ast::ObjectName> = columns.iter().map(|c| ast::ObjectName::from(c.clone())).collect();
        copied_columns(&table, self.lowered(|lowering| lowering.insert_targets(&table, &names))?, false)?;
        Ok(columns.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
    }

    async fn copy_out(&mut self, source: &ast::CopySource, format: CopyFormat) -> SqlResult<Response> {
        let statement = match source {
            ast::CopySource::Query(query) => Statement::Query(query.clone()),
            ast::CopySource::Table { table_name, columns } => {
                let list = self.copied_list(table_name, columns)?;
                sql::parse::parse(&format!("SELECT {list} FROM {table_name}"))?
                    .pop()
                    .ok_or_else(|| SqlError::internal("a query is a query"))?
            }
        };
        let plan = super::Prepared::plan_once(self, &statement)?;
        // Found out before anything is written.
        if plan.columns().is_none() {
            return Err(SqlError::unsupported("COPY of a statement that returns no rows")
                .hint("Give it a RETURNING clause, or run it without COPY."));
        }
        match Box::pin(self.run(&plan, &[])).await? {
            Response::Rows(rows) => {
                let format = CopyFormat { columns: rows.columns.len(), ..format };
                Ok(Response::CopyOut(CopyOut { format, rows, count: 0, look: self.text_look() }))
            }
            _ => Err(SqlError::new(SqlState::SYNTAX_ERROR, "COPY query must return rows")),
        }
    }

    /// Data of a COPY FROM STDIN, cut anywhere. After an error the copy is over.
    pub async fn copy_data(&mut self, data: &[u8]) -> SqlResult<()> {
        let result = self.take_data(Some(data)).await;
        if result.is_err() {
            self.copy = None;
            self.note_failure();
        }
        result
    }

    /// Rows of a binary COPY FROM STDIN. After an error the copy is over.
    pub async fn copy_rows(&mut self, rows: Vec<Vec<Datum>>) -> SqlResult<()> {
        let result = self.take_rows(rows).await;
        if result.is_err() {
            self.copy = None;
            self.note_failure();
        }
        result
    }

    /// End of a COPY FROM STDIN: its rows are written now.
    pub async fn copy_done(&mut self) -> SqlResult<Response> {
        let cancel = self.cancel.clone();
        cancel.begin(self.settings.statement_timeout_ms);
        let result = tokio::select! {
            biased;
            result = self.finish_copy() => result,
            error = cancel.wait() => Err(error),
        };
        self.copy = None;
        self.finish(result)
    }

    /// The client gave a COPY up: nothing is written. Returns the error to report.
    pub fn copy_fail(&mut self, reason: &str) -> SqlError {
        self.copy = None;
        self.note_failure();
        SqlError::new(SqlState::QUERY_CANCELED, format!("COPY from stdin failed: {reason}"))
    }

    async fn take_data(&mut self, data: Option<&[u8]>) -> SqlResult<()> {
        let Some(mut copy) = self.copy.take() else {
            return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, "no COPY is in progress"));
        };
        let catalog = self.catalog();
        let gateway = self.gateway.clone();
        let binding = Binding {
            parameters: &[],
            times: self.times(),
            generators: &gateway.node.generators,
            catalog: &catalog,
        };
        let zone = self.settings.zone;
        let CopyState { plan, targets, records, rows, .. } = &mut copy;
        let mut take = |record: Record| -> SqlResult<()> {
            let mut given = Vec::with_capacity(record.len());
            for (field, &target) in record.into_iter().zip(targets.iter()) {
                let column = &plan.table.columns[target];
                given.push(match field {
                    None => Datum::Null,
                    Some(text) => base::text::parse_in(&text, column.data_type, zone).map_err(|e| {
                        e.context(format!("column {}: \"{}\"", column.name, crate::copy::shown(&text)))
                    })?,
                });
            }
            rows.push(complete_row(plan, targets, given, &binding)?);
            Ok(())
        };
        match data {
            Some(data) => records.feed(data, &mut take)?,
            None => records.finish(&mut take)?,
        }
        self.keep_copied(copy).await
    }

    async fn take_rows(&mut self, given: Vec<Vec<Datum>>) -> SqlResult<()> {
        let Some(mut copy) = self.copy.take() else {
            return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, "no COPY is in progress"));
        };
        let (catalog, gateway) = (self.catalog(), self.gateway.clone());
        let binding = Binding {
            parameters: &[],
            times: self.times(),
            generators: &gateway.node.generators,
            catalog: &catalog,
        };
        for row in given {
            let CopyState { plan, targets, rows, lines, .. } = &mut copy;
            *lines += 1;
            let row = complete_row(plan, targets, row, &binding);
            rows.push(row.map_err(|e| e.context(format!("COPY {}, line {lines}", plan.table.name)))?);
        }
        self.keep_copied(copy).await
    }

    /// Goes on with a copy that has taken rows; some may be written by now.
    async fn keep_copied(&mut self, mut copy: CopyState) -> SqlResult<()> {
        let rows = &copy.rows;
        if rows.len() > ROWS_MAX {
            return Err(SqlError::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!("COPY of more than {ROWS_MAX} rows in one transaction"),
            )
            .hint("SET meridian.copy_batch_rows commits every so many rows."));
        }
        let new = rows[copy.counted.min(rows.len())..].iter().map(|row| row_bytes(row) + COPIED_BYTES);
        copy.memory.grow(new.sum())?;
        copy.counted = rows.len();
        let batch_rows = if self.transaction.is_some() { 0 } else { copy.batch_rows };
        if batch_rows > 0 && copy.rows.len() >= batch_rows {
            let rows = std::mem::take(&mut copy.rows);
            copy.counted = 0;
            copy.written += self.write_copied(&copy.plan, rows).await?;
            copy.memory.clear();
        }
        self.copy = Some(copy);
        Ok(())
    }

    async fn finish_copy(&mut self) -> SqlResult<Response> {
        if !self.copy.as_ref().is_some_and(|copy| copy.is_binary) {
            self.take_data(None).await?;
        }
        let copy = self
            .copy
            .take()
            .ok_or_else(|| SqlError::new(SqlState::PROTOCOL_VIOLATION, "no COPY is in progress"))?;
        let written = copy.written + self.write_copied(&copy.plan, copy.rows).await?;
        Ok(Response::Command(format!("COPY {written}")))
    }

    async fn write_copied(&mut self, plan: &InsertPlan, rows: Vec<Vec<Datum>>) -> SqlResult<u64> {
        let fires = !plan.table.triggers.is_empty();
        if rows.is_empty() && !fires {
            return Ok(0);
        }
        let (gateway, catalog) = (self.gateway.clone(), self.catalog());
        let binding = Binding {
            parameters: &[],
            times: self.times(),
            generators: &gateway.node.generators,
            catalog: &catalog,
        };
        if self.transaction.is_some() {
            return self.copy_buffered(plan, rows, &binding).await;
        }
        if super::foreign_keys::concern_insert(plan) || fires || self.empties_at_commit() {
            let (mut attempts, told) = (Attempts::default(), self.notices_so_far());
            loop {
                self.forget_notices(told);
                self.begin_attempt(false, &attempts).await;
                let result = self.copy_buffered(plan, rows.clone(), &binding).await;
                if let Some(count) = self.settle(result, &mut attempts).await? {
                    return Ok(count);
                }
            }
        }
        let topology = gateway.cluster.topology();
        let mut access = AccessSet::default();
        let mut statements = Vec::new();
        for chunk in rows.chunks(STATEMENT_ROWS) {
            statements.push(plan.statement(chunk, &binding, topology, &mut access, false)?);
        }
        if rows.len() > KEYS_MAX {
            access = coarse(&access, plan);
        }
        self.submit(TxnProgram::Statements(statements), access).await?;
        Ok(rows.len() as u64)
    }
}

impl Session {
    /// Buffers copied rows; answers how many were written.
    async fn copy_buffered(
        &mut self,
        plan: &InsertPlan,
        rows: Vec<Vec<Datum>>,
        binding: &Binding<'_>,
    ) -> SqlResult<u64> {
        let (mut written, mark) = (super::write::Written::default(), self.open().mark());
        self.begin_insert(plan, &mut written).await?;
        self.insert_rows(plan, None, rows, binding, &mut written).await?;
        self.end_write(mark, &mut written.pending).await?;
        Ok(written.affected)
    }
}

/// The columns that a COPY names, or all but the generated ones. Errors: 42P10 for a generated column.
fn copied_columns(table: &Table, named: Vec<usize>, are_all: bool) -> SqlResult<Vec<usize>> {
    let is_generated = |c: &usize| table.columns[*c].identity == Identity::Generated;
    match named.iter().find(|c| is_generated(c)).filter(|_| !are_all) {
        None => Ok(named.into_iter().filter(|c| !is_generated(c)).collect()),
        Some(column) => {
            let told = format!("column \"{}\" is a generated column", table.columns[*column].name);
            Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, told)
                .detail("Generated columns cannot be used in COPY."))
        }
    }
}

/// The same partitions with whole tables and indexes instead of keys.
fn coarse(access: &AccessSet, plan: &InsertPlan) -> AccessSet {
    let mut whole = AccessSet::default();
    for &partition in access.by_partition.keys() {
        let tables = std::iter::once(plan.table.id).chain(plan.table.indexes.iter().map(|i| i.id));
        for table in tables {
            whole.add(partition, Granule::Range(table, KeyRange::all()), AccessMode::Write);
        }
    }
    whole
}

/// Options of both syntaxes. Errors: 22023, 42601.
fn copy_format(options: &[ast::CopyOption], legacy: &[ast::CopyLegacyOption]) -> SqlResult<CopyFormat> {
    let (mut csv, mut binary) = (false, false);
    let mut header = false;
    let (mut delimiter, mut quote, mut escape, mut null) = (None, None, None, None);
    for option in options {
        match option {
            ast::CopyOption::Format(name) => match name.value.to_lowercase().as_str() {
                "text" => (csv, binary) = (false, false),
                "csv" => (csv, binary) = (true, false),
                "binary" => (csv, binary) = (false, true),
                other => {
                    return Err(SqlError::new(
                        SqlState::INVALID_PARAMETER_VALUE,
                        format!("COPY format \"{other}\" not recognized"),
                    ));
                }
            },
            ast::CopyOption::Delimiter(c) => delimiter = Some(*c),
            ast::CopyOption::Null(text) => null = Some(text.clone()),
            ast::CopyOption::Header(on) => header = *on,
            ast::CopyOption::Quote(c) => quote = Some(*c),
            ast::CopyOption::Escape(c) => escape = Some(*c),
            ast::CopyOption::Encoding(name) if name.eq_ignore_ascii_case("utf8") => {}
            // Rows are always written with their transaction; there is nothing to freeze.
            ast::CopyOption::Freeze(_) => {}
            other => return Err(SqlError::unsupported(format!("the COPY option {other}"))),
        }
    }
    for option in legacy {
        match option {
            ast::CopyLegacyOption::Binary => (csv, binary) = (false, true),
            ast::CopyLegacyOption::Delimiter(c) => delimiter = Some(*c),
            ast::CopyLegacyOption::Null(text) => null = Some(text.clone()),
            ast::CopyLegacyOption::Header => header = true,
            ast::CopyLegacyOption::Csv(options) => {
                csv = true;
                for option in options {
                    match option {
                        ast::CopyLegacyCsvOption::Header => header = true,
                        ast::CopyLegacyCsvOption::Quote(c) => quote = Some(*c),
                        ast::CopyLegacyCsvOption::Escape(c) => escape = Some(*c),
                        other => return Err(SqlError::unsupported(format!("the COPY option {other}"))),
                    }
                }
            }
            other => return Err(SqlError::unsupported(format!("the COPY option {other}"))),
        }
    }
    if binary && (delimiter.is_some() || null.is_some() || header || quote.is_some() || escape.is_some()) {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "cannot specify text options in BINARY mode"));
    }
    let byte = |c: Option<char>, default: u8, what: &str| match c {
        None => Ok(default),
        Some(c) => {
            u8::try_from(c).ok().filter(|b| b.is_ascii() && *b != b'\n' && *b != b'\r').ok_or_else(|| {
                SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("COPY {what} must be a single one-byte character"),
                )
            })
        }
    };
    let quote = byte(quote, b'"', "quote")?;
    let delimiter = byte(delimiter, if csv { b',' } else { b'\t' }, "delimiter")?;
    let null = null.unwrap_or_else(|| if csv { String::new() } else { "\\N".into() });
    refuse_null(&null, delimiter, csv.then_some(quote))?;
    Ok(CopyFormat {
        csv,
        delimiter,
        quote,
        escape: byte(escape, quote, "escape")?,
        null,
        header,
        columns: 0,
        binary,
        types: Vec::new(),
        table: String::new(),
        names: Vec::new(),
    })
}

/// What stands for NULL could not be told from the ends of fields and lines. Errors: 22023, 0A000.
fn refuse_null(null: &str, delimiter: u8, quote: Option<u8>) -> SqlResult<()> {
    let has = |byte: u8| null.as_bytes().contains(&byte);
    let (state, told) = match null {
        _ if has(b'\n') || has(b'\r') => (
            SqlState::INVALID_PARAMETER_VALUE,
            "COPY null representation cannot use newline or carriage return",
        ),
        _ if has(delimiter) => {
            (SqlState::FEATURE_NOT_SUPPORTED, "COPY delimiter must not appear in the NULL specification")
        }
        _ if quote.is_some_and(has) => {
            (SqlState::FEATURE_NOT_SUPPORTED, "CSV quote character must not appear in the NULL specification")
        }
        _ => return Ok(()),
    };
    Err(SqlError::new(state, told))
}

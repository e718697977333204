//! Materialized views: CREATE, ALTER and DROP, and what they are asked for by.
//!
//! A materialized view is a table, with a key of its own that nobody sees, and the query whose rows it keeps. Everything
//! that reads tables and their indexes reads it; what writes to tables is refused ([`crate::materialized`]).

use super::create_table::hidden_key;
use super::placement::StorageOptions;
use super::views::Kept;
use super::{Ddl, DdlContext};
use crate::materialized;
use crate::names;
use crate::types::{self, Column};
use base::TableId;
use base::error::{SqlError, SqlResult, SqlState};
use base::schema::{SchemaAction, Table};
use base::views::{Relation, View};
use sqlparser::ast::{self, AlterTableOperation as Operation};

const WRONG_KIND: SqlState = SqlState(*b"42809");

impl DdlContext<'_> {
    /// CREATE MATERIALIZED VIEW: the table, and what it keeps the rows of. Who runs it puts them in.
    pub(super) fn create_materialized(&self, create: &ast::CreateView) -> SqlResult<Ddl> {
        let mut ddl = Ddl { tag: "CREATE MATERIALIZED VIEW", ..Ddl::default() };
        if create.temporary || create.or_replace {
            let told = "syntax error at or near \"MATERIALIZED\"";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, told));
        }
        if self.reads_temporary(&create.query) {
            let told = "materialized views must not use temporary tables or views";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, told));
        }
        let is_populated = crate::parse::asks_for_data(create);
        let is_plain = matches!(create.options, ast::CreateTableOptions::None) || !is_populated;
        if !is_plain || create.params.is_some() {
            return Err(SqlError::unsupported("CREATE MATERIALIZED VIEW with options"));
        }
        let (schema, name) = self.new_name(&create.name, false)?;
        if self.relation_exists(&schema, &name) {
            let told = format!("relation \"{name}\" already exists");
            if !create.if_not_exists {
                return Err(SqlError::new(SqlState::DUPLICATE_TABLE, told));
            }
            ddl.notice(SqlState::DUPLICATE_TABLE, format!("{told}, skipping"));
            return Ok(ddl);
        }
        self.refuse_name_of_type(&schema, &name)?;
        let Kept { definition, uses, names, columns } = self.kept_query(create)?;
        let id = TableId(self.catalog.next_id);
        let typed = names.into_iter().zip(&columns).map(stored_column).collect::<SqlResult<_>>()?;
        let shape = View::shape(id, schema, name, typed);
        let mut table = shape.clone();
        table.primary_key_name = base::identifier::made(&table.name, "", "pkey");
        hidden_key(&mut table, None)?;
        table.placement = StorageOptions::default().placement(self, &table)?;
        let type_oids = columns.iter().map(|column| column.type_oid).collect();
        let view = View {
            shape: shape.into(),
            type_oids,
            definition,
            uses,
            check_option: Default::default(),
            partition: None,
            security: Default::default(),
        };
        let view = materialized::over(&view, &table, is_populated);
        ddl.actions.extend([SchemaAction::CreateTable(table), SchemaAction::PutView(view)]);
        Ok(ddl)
    }

    pub(super) fn drop_materialized(&self, name: &ast::ObjectName) -> SqlResult<Vec<SchemaAction>> {
        match names::find_relation(self.catalog, self.search_path, self.database, name) {
            Some(Relation::Table(table)) if materialized::is_one(self.catalog, table.id) => {
                Ok(vec![SchemaAction::DropView(table.id), SchemaAction::DropTable(table.id)])
            }
            Some(other) => Err(self.not_a(other.shape(), "materialized view")),
            None => {
                let told = format!("materialized view \"{}\" does not exist", names::parts(name)?.join("."));
                Err(SqlError::new(SqlState::UNDEFINED_TABLE, told))
            }
        }
    }

    /// `"t" is not a view`, and what to do instead.
    pub(super) fn not_a(&self, found: &Table, wanted: &str) -> SqlError {
        let (name, kind) = (&found.name, materialized::kind(self.catalog, found));
        let article = if kind == "index" { "an" } else { "a" };
        SqlError::new(WRONG_KIND, format!("\"{name}\" is not a {wanted}"))
            .hint(format!("Use DROP {} to remove {article} {kind}.", kind.to_uppercase()))
    }

    /// The query of kept rows goes by its table's name.
    pub(super) fn renamed_with(&self, next: &Table) -> Option<SchemaAction> {
        let view = materialized::of(self.catalog, next.id)?;
        let is_populated = materialized::is_populated(view);
        let is_other = (&view.shape.schema, &view.shape.name) != (&next.schema, &next.name);
        is_other.then(|| SchemaAction::PutView(materialized::over(view, next, is_populated)))
    }

    /// Errors: 42809 for what a table can do and a materialized view cannot.
    pub(super) fn check_altered_kind(&self, table: &Table, operation: &Operation) -> SqlResult<()> {
        if !materialized::is_one(self.catalog, table.id)
            || matches!(operation, Operation::RenameTable { .. } | Operation::SetOptionsParens { .. })
        {
            return Ok(());
        }
        let words: Vec<String> =
            operation.to_string().split_whitespace().take(2).map(str::to_uppercase).collect();
        let (action, name) = (words.join(" "), &table.name);
        let told = format!("ALTER action {action} cannot be performed on relation \"{name}\"");
        let detail = "This operation is not supported for materialized views.";
        Err(SqlError::new(WRONG_KIND, told).detail(detail))
    }
}

/// A column of kept rows. Errors: 0A000 for a type that no table has.
fn stored_column((name, column): (String, &Column)) -> SqlResult<(String, base::DataType)> {
    match column.type_oid == types::type_oid(column.data_type) {
        true => Ok((name, column.data_type)),
        false => Err(SqlError::unsupported(format!("a column of the type of \"{name}\""))),
    }
}

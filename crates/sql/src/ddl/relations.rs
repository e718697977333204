//! ALTER of views, sequences and indexes by any of PostgreSQL's words for it: their names, schemas and options.

use super::alter_table::{name_sequence, position, rename_column};
use super::kept_texts;
use super::views::call_columns;
use super::{Ddl, DdlContext};
use crate::names;
use crate::parse::{self, AlteredKind};
use base::domain::Domain;
use base::error::{SqlError, SqlResult, SqlState};
use base::roles::Object;
use base::schema::{SchemaAction, Sequence, Table};
use base::views::{CheckOption, Relation, View};
use sqlparser::ast::{self, AlterColumnOperation as OfColumn, AlterTableOperation as Operation};
use std::sync::Arc;

const WRONG_KIND: SqlState = SqlState(*b"42809");

impl DdlContext<'_> {
    /// ALTER of something that is no table, or of the owner of any relation; `None`: of a table or a partition otherwise. Errors:
    /// 42P01; 42809 where another word names something else.
    pub(super) fn alter_relation(&self, alter: &ast::AlterTable) -> SqlResult<Option<Ddl>> {
        if let Some(altered) = self.change_domain(alter)? {
            return Ok(Some(altered));
        }
        let kind = parse::altered_kind(alter)?;
        let altered = self.altered_by_kind(alter, kind)?;
        Ok(altered.map(|ddl| Ddl { tag: kind.map_or(ddl.tag, AlteredKind::tag), ..ddl }))
    }

    fn altered_by_kind(&self, alter: &ast::AlterTable, kind: Option<AlteredKind>) -> SqlResult<Option<Ddl>> {
        let wrong = |name: &str, found: AlteredKind| match kind.filter(|kind| *kind != found) {
            Some(kind) => Err(not_a(name, kind)),
            None => Ok(()),
        };
        let found = names::find_relation(self.catalog, self.search_path, self.database, &alter.name);
        if let Some(relation) = found {
            let shape = relation.shape();
            if let Relation::View(view) = relation
                && view.partition.is_none()
            {
                wrong(&shape.name, AlteredKind::View)?;
                return self.alter_view(view, alter).map(Some);
            }
            if let Some(kind) = kind {
                return Err(not_a(&shape.name, kind));
            }
            if let [Operation::OwnerTo { new_owner }] = alter.operations.as_slice() {
                return self.change_owner(Object::Relation(shape.id), new_owner, "ALTER TABLE").map(Some);
            }
            return Ok(None);
        }
        if let Ok(sequence) = crate::catalog::find_named_sequence(self.catalog, self.search_path, &alter.name)
        {
            wrong(&sequence.name, AlteredKind::Sequence)?;
        }
        if kind.is_none_or(|kind| kind == AlteredKind::Sequence)
            && let Some(altered) = self.alter_sequence(alter)?
        {
            return Ok(Some(altered));
        }
        if let Ok((_, name)) = self.find_index(&alter.name) {
            wrong(&name, AlteredKind::Index)?;
            return self.alter_named_index(alter, &name).map(Some);
        }
        match kind {
            None => Ok(None),
            Some(_) => {
                let missing = self.find_relation(&alter.name).err();
                let missing = missing.unwrap_or_else(|| SqlError::internal("it has been looked for"));
                if !alter.if_exists {
                    return Err(missing);
                }
                let mut ddl = Ddl { tag: "ALTER TABLE", ..Ddl::default() };
                ddl.notice(SqlState::SUCCESSFUL, format!("{}, skipping", missing.message));
                Ok(Some(ddl))
            }
        }
    }

    /// An index's name, and parameters of how it is stored, which change nothing.
    fn alter_named_index(&self, alter: &ast::AlterTable, name: &str) -> SqlResult<Ddl> {
        match alter.operations.as_slice() {
            [Operation::RenameTable { table_name: ast::RenameTableNameKind::To(to) }] => {
                let parts = names::parts(to)?;
                if parts.last().is_some_and(|last| last == parse::SAME_NAME) {
                    let told = format!("cannot change schema of index \"{name}\"");
                    return Err(
                        SqlError::new(WRONG_KIND, told).hint("Change the schema of the table instead.")
                    );
                }
                let operation = ast::AlterIndexOperation::RenameIndex { index_name: to.clone() };
                self.alter_index(&alter.name, &operation)
            }
            [Operation::SetOptionsParens { options }] => {
                const OF_INDEXES: &[&str] =
                    &["fillfactor", "deduplicate_items", "buffering", "fastupdate", "gin_pending_list_limit"];
                match parse::said_options(options).iter().find(|(name, _)| !OF_INDEXES.contains(&&**name)) {
                    Some((name, Some(_))) => Err(unrecognized(name)),
                    _ => Ok(Ddl { tag: "ALTER INDEX", ..Ddl::default() }),
                }
            }
            [operation, ..] => Err(self.not_for(operation, name, "indexes")),
            [] => Ok(Ddl::default()),
        }
    }

    fn alter_view(&self, view: &View, alter: &ast::AlterTable) -> SqlResult<Ddl> {
        let mut ddl = Ddl { tag: "ALTER TABLE", ..Ddl::default() };
        let mut next = view.clone();
        for operation in &alter.operations {
            match operation {
                Operation::OwnerTo { new_owner } if alter.operations.len() == 1 => {
                    return self.change_owner(Object::Relation(view.shape.id), new_owner, ddl.tag);
                }
                Operation::RenameTable { table_name: ast::RenameTableNameKind::To(name) } => {
                    let shape = &view.shape;
                    let (schema, name) = self.renamed(&shape.schema, &shape.name, name)?;
                    self.refuse_read(view, &format!("renaming view {}", shape.name))?;
                    let shape = Arc::new(Table { schema, name, ..next.shape.as_ref().clone() });
                    next = View { shape, ..next };
                }
                Operation::RenameColumn { old_column_name: old, new_column_name: new } => {
                    if parse::stays(old, new).is_none() {
                        self.rename_view_column(&mut next, old, new)?;
                    }
                }
                Operation::SetOptionsParens { options } => {
                    for (name, value) in parse::said_options(options) {
                        set_option(&mut next, &name, value.as_deref())?;
                    }
                    if next.check_option != CheckOption::No && next.check_option != view.check_option {
                        crate::views::refuse_check_option(self.catalog, &next)?;
                    }
                }
                Operation::AlterColumn { column_name, op: OfColumn::DropDefault {} } => {
                    position(&next.shape, &names::fold(column_name))?;
                }
                Operation::AlterColumn { column_name, op: OfColumn::SetDefault { .. } } => {
                    position(&next.shape, &names::fold(column_name))?;
                    return Err(SqlError::unsupported("a default of a column of a view")
                        .hint("Give the column of the table a default."));
                }
                operation => return Err(self.not_for(operation, &view.shape.name, "views")),
            }
        }
        if next != *view {
            ddl.add(SchemaAction::PutView(next));
        }
        Ok(ddl)
    }

    /// A view's column under another name, which its query gives it too.
    fn rename_view_column(&self, view: &mut View, old: &ast::Ident, new: &ast::Ident) -> SqlResult<()> {
        self.refuse_read(view, &format!("renaming column {} of view {}", names::fold(old), view.shape.name))?;
        let mut shape = view.shape.as_ref().clone();
        rename_column(&mut shape, old, new)?;
        let columns: Vec<String> = shape.columns.iter().map(|column| column.name.clone()).collect();
        let mut query = crate::views::query_of(view)?;
        call_columns(query.body.as_mut(), &columns);
        *view = View { definition: query.to_string(), shape: Arc::new(shape), ..view.clone() };
        Ok(())
    }

    /// Errors: 0A000 for a view that another one reads, whose text names it.
    fn refuse_read(&self, view: &View, what: &str) -> SqlResult<()> {
        match self.readers(view.shape.id).next() {
            None => Ok(()),
            Some(reader) => Err(SqlError::unsupported(format!("{what} that {} reads", self.called(reader)))
                .hint("Drop the view that reads it, rename, and create it again.")),
        }
    }

    /// Schema and name of a relation behind RENAME TO or SET SCHEMA. Errors: 3F000, 42P07, 42501, 42601, 0A000.
    pub(super) fn renamed(
        &self,
        schema: &str,
        name: &str,
        to: &ast::ObjectName,
    ) -> SqlResult<(String, String)> {
        let mut parts = names::parts(to)?;
        // SET SCHEMA, as the parser writes it.
        if parts.last().is_some_and(|last| last == parse::SAME_NAME) {
            let to = parts.swap_remove(0);
            super::temporary::refuse_move(schema, &to)?;
            if !self.catalog.schemas.contains(&to) {
                let told = format!("schema \"{to}\" does not exist");
                return Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, told));
            }
            if to == schema {
                return Ok((to, name.to_string()));
            }
            if self.relation_exists(&to, name) {
                let told = format!("relation \"{name}\" already exists in schema \"{to}\"");
                return Err(SqlError::new(SqlState::DUPLICATE_TABLE, told));
            }
            self.refuse_name_of_type(&to, name)?;
            self.check_create(&to)?;
            return Ok((to, name.to_string()));
        }
        let to = parts
            .pop()
            .filter(|_| parts.is_empty())
            .ok_or_else(|| SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \".\""))?;
        if self.relation_exists(schema, &to) {
            let told = format!("relation \"{to}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_TABLE, told));
        }
        self.refuse_name_of_type(schema, &to)?;
        Ok((schema.to_string(), to))
    }

    /// RENAME TO and SET SCHEMA of a sequence. Errors: 0A000 for another schema than its column's.
    pub(super) fn rename_sequence(&self, sequence: &Sequence, to: &ast::ObjectName) -> SqlResult<Ddl> {
        let (schema, name) = self.renamed(&sequence.schema, &sequence.name, to)?;
        if schema != sequence.schema
            && let Some(table) = sequence.owner.and_then(|(table, _)| self.catalog.table(table))
        {
            let (sequence, table) = (&sequence.name, &table.name);
            let told = "cannot move an owned sequence into another schema";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, told)
                .detail(format!("Sequence \"{sequence}\" is linked to table \"{table}\".")));
        }
        let next = Sequence { schema, name, ..sequence.clone() };
        let mut ddl = Ddl { tag: "ALTER TABLE", ..Ddl::default() };
        if next != *sequence {
            self.follow_sequence(&next, None, &mut ddl)?;
            ddl.add(SchemaAction::CreateSequence(next));
        }
        Ok(ddl)
    }

    /// A table that goes to another schema takes the sequences of its columns along. Errors: 42P07.
    pub(super) fn move_sequences(&self, next: &mut Table, ddl: &mut Ddl) -> SqlResult<()> {
        let owned = |sequence: &&Arc<Sequence>| sequence.owner.is_some_and(|(table, _)| table == next.id);
        let owned: Vec<Arc<Sequence>> = self.catalog.sequences.values().filter(owned).cloned().collect();
        for sequence in owned {
            let moved = Sequence { schema: next.schema.clone(), ..sequence.as_ref().clone() };
            if self.relation_exists(&moved.schema, &moved.name) {
                let told =
                    format!("relation \"{}\" already exists in schema \"{}\"", moved.name, moved.schema);
                return Err(SqlError::new(SqlState::DUPLICATE_TABLE, told));
            }
            self.follow_sequence(&moved, Some(&mut *next), ddl)?;
            ddl.add(SchemaAction::CreateSequence(moved));
        }
        Ok(())
    }

    /// Defaults that name a sequence name it as it is called from now on. `altered`: a table that the statement changes.
    fn follow_sequence(
        &self,
        to: &Sequence,
        mut altered: Option<&mut Table>,
        ddl: &mut Ddl,
    ) -> SqlResult<()> {
        for table in self.catalog.tables.values() {
            match &mut altered {
                Some(altered) if altered.id == table.id => {
                    name_sequence(self, altered, to)?;
                }
                _ => {
                    let mut next = table.as_ref().clone();
                    if name_sequence(self, &mut next, to)? {
                        ddl.add(SchemaAction::AlterTable(next));
                    }
                }
            }
        }
        for domain in self.catalog.types.domains.values() {
            let Some(default) = &domain.default else { continue };
            if let Some(text) = kept_texts::with_sequence(self, default, to)? {
                let next = Domain { default: Some(text), ..domain.as_ref().clone() };
                ddl.add(SchemaAction::PutDomain(next));
            }
        }
        Ok(())
    }

    /// That something cannot be done with what is no table.
    pub(super) fn not_for(&self, operation: &Operation, name: &str, kinds: &str) -> SqlError {
        let text = operation.to_string();
        let words: Vec<&str> = text.split_whitespace().collect();
        let action = match words.as_slice() {
            ["ADD", "CONSTRAINT" | "PRIMARY" | "UNIQUE" | "CHECK" | "FOREIGN", ..] => "ADD CONSTRAINT".into(),
            ["ADD", ..] => "ADD COLUMN".into(),
            ["ALTER", "COLUMN", _, rest @ ..] => {
                let rest: Vec<&str> = rest.iter().take(2).copied().collect();
                format!("ALTER COLUMN ... {}", rest.join(" ").replace("SET DATA", "TYPE"))
            }
            words => words.iter().take(2).copied().collect::<Vec<_>>().join(" "),
        };
        let told = format!("ALTER action {action} cannot be performed on relation \"{name}\"");
        SqlError::new(WRONG_KIND, told).detail(format!("This operation is not supported for {kinds}."))
    }
}

/// Errors: 22023 for an option that views do not have, and for a value that it cannot have.
pub(super) fn set_option(view: &mut View, name: &str, value: Option<&str>) -> SqlResult<()> {
    let flag = || {
        let read = |text: &str| match base::text::parse(text, base::DataType::Boolean) {
            Ok(base::Datum::Bool(flag)) => Ok(flag),
            _ => {
                let told = format!("invalid value for boolean option \"{name}\": {text}");
                Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, told))
            }
        };
        value.map(read).transpose()
    };
    match name {
        "security_barrier" => view.security.barrier = flag()?,
        "security_invoker" => view.security.invoker = flag()?,
        "check_option" => view.check_option = super::views::check_option(value)?,
        _ if value.is_none() => {}
        _ => return Err(unrecognized(name)),
    }
    Ok(())
}

fn unrecognized(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("unrecognized parameter \"{name}\""))
}

/// `"t" is not a view`, said of what another word names.
fn not_a(name: &str, kind: AlteredKind) -> SqlError {
    let article = if kind == AlteredKind::Index { "an" } else { "a" };
    SqlError::new(WRONG_KIND, format!("\"{name}\" is not {article} {}", kind.word()))
}

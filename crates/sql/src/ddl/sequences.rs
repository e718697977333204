//! CREATE, ALTER and DROP SEQUENCE as changes of the catalog.

use super::alter_table::lose_default;
use super::dependents::is_cascade;
use super::domains::Made;
use super::sequence_options::{Counting, Options, check_within, type_named};
use super::{Ddl, DdlContext, kept_texts};
use crate::names;
use base::error::{SqlResult, SqlState};
use base::roles::Object;
use base::schema::{Catalog, Identity, Origin, SchemaAction, Sequence, Table};
use base::{SqlError, TableId};
use sqlparser::ast::{self, AlterTableOperation as Operation, Statement};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::tokenizer::{Span, Token, Tokenizer};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const DEPENDENT: SqlState = SqlState(*b"2BP01");

/// A default that names a sequence.
struct User {
    of: Holder,
    what: String,
    sequence: TableId,
}

/// What has a default.
#[derive(Clone, Copy)]
enum Holder {
    Column(TableId, usize),
    Domain(TableId),
}

impl DdlContext<'_> {
    pub(super) fn create_sequence(
        &self,
        (name, is_temporary): (&ast::ObjectName, bool),
        if_not_exists: bool,
        (data_type, options): (Option<&ast::DataType>, &[ast::SequenceOptions]),
        owned_by: Option<&ast::ObjectName>,
    ) -> SqlResult<Ddl> {
        let (schema, name) = self.new_name(name, is_temporary)?;
        let mut ddl = Ddl { tag: "CREATE SEQUENCE", ..Ddl::default() };
        if self.relation_exists(&schema, &name) {
            let message = format!("relation \"{name}\" already exists");
            if !if_not_exists {
                return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
            }
            ddl.notice(SqlState::DUPLICATE_TABLE, format!("{message}, skipping"));
            return Ok(ddl);
        }
        let mut said = Options::declared(options)?;
        said.data_type = data_type.map(|t| type_named(&t.to_string().to_lowercase())).transpose()?;
        let Counting { start, increment, limits } = said.made(None)?;
        let id = TableId(self.catalog.next_id);
        let owner = owned_by.map_or(Ok(None), |column| self.owner_named(&schema, column))?;
        ddl.actions.push(SchemaAction::CreateSequence(Sequence {
            id,
            schema,
            name,
            start,
            increment,
            limits,
            owner,
            origin: Origin::declared(start),
        }));
        Ok(ddl)
    }

    /// ALTER SEQUENCE, and ALTER TABLE of a sequence; `None` if it is neither.
    pub(super) fn alter_sequence(&self, alter: &ast::AlterTable) -> SqlResult<Option<Ddl>> {
        let found = crate::catalog::find_named_sequence(self.catalog, self.search_path, &alter.name);
        let change = match alter.operations.as_slice() {
            [Operation::SetOptionsParens { options }] => crate::parse::change_of_sequence(options),
            _ => None,
        };
        let mut ddl =
            Ddl { tag: if change.is_some() { "ALTER SEQUENCE" } else { "ALTER TABLE" }, ..Ddl::default() };
        let sequence = match (found, change) {
            (Ok(sequence), _) => sequence,
            (Err(error), Some(_)) if alter.if_exists => {
                ddl.notice(SqlState::SUCCESSFUL, format!("{}, skipping", error.message));
                return Ok(Some(ddl));
            }
            (Err(error), Some(_)) => return Err(error),
            (Err(_), None) => return Ok(None),
        };
        let Some(change) = change else {
            return match alter.operations.as_slice() {
                [Operation::OwnerTo { new_owner }] => {
                    self.change_owner(Object::Relation(sequence.id), new_owner, ddl.tag).map(Some)
                }
                [Operation::RenameTable { table_name: ast::RenameTableNameKind::To(name) }] => {
                    self.rename_sequence(sequence, name).map(Some)
                }
                [operation, ..] => Err(self.not_for(operation, &sequence.name, "sequences")),
                [] => Ok(None),
            };
        };
        ddl.actions.push(SchemaAction::CreateSequence(self.altered(sequence, change)?));
        Ok(Some(ddl))
    }

    /// What a sequence becomes. With another step it goes on behind the last value of this gateway. Errors: 22023, 42601.
    fn altered(&self, sequence: &Sequence, change: &str) -> SqlResult<Sequence> {
        let wrong = |near: String| {
            SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{near}\""))
        };
        let tokens =
            Tokenizer::new(&PostgreSqlDialect {}, change).tokenize().map_err(|e| wrong(e.message))?;
        let mut words = tokens.into_iter().filter(|t| !matches!(t, Token::Whitespace(_))).peekable();
        let is = |token: &Token, word: &str| matches!(token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word));
        let (mut altered, mut said) = (sequence.clone(), Options::default());
        while let Some(word) = words.next() {
            if is(&word, "owned") && words.next_if(|t| is(t, "by")).is_some() {
                let ident = |token: Token| match token {
                    Token::Word(word) => Ok(ast::ObjectNamePart::Identifier(word.into_ident(Span::empty()))),
                    other => Err(wrong(other.to_string())),
                };
                let mut parts = Vec::new();
                while let Some(part) = words.next() {
                    parts.push(ident(part)?);
                    if words.next_if(|t| *t == Token::Period).is_none() {
                        break;
                    }
                }
                altered.owner = self.owner_named(&sequence.schema, &ast::ObjectName(parts))?;
            } else if !said.take(&word, &mut words)? {
                return Err(wrong(word.to_string()));
            }
        }
        let was = Counting::of(sequence);
        let next = said.altered(was)?;
        (altered.start, altered.increment, altered.limits) = (next.start, next.increment, next.limits);
        if let Some(restart) = said.restart {
            return Ok(self.generators.moved(&altered, restart.unwrap_or(altered.start), false));
        }
        let given = self.generators.handed_out(sequence);
        let last = given.or_else(|| match sequence.origin.is_called {
            true => sequence.origin.value.checked_sub(sequence.increment),
            false => None,
        });
        check_within("RESTART", last.unwrap_or(sequence.origin.value), altered.limits)?;
        let counts_otherwise = next.increment != was.increment
            || next.limits != was.limits && (next.limits.cycles || was.limits.cycles);
        let next = last.filter(|_| counts_otherwise).and_then(|last| last.checked_add(next.increment));
        Ok(next.map_or_else(|| altered.clone(), |next| self.generators.moved(&altered, next, true)))
    }

    /// `NONE`, or a column with its table, for a sequence of a schema. Errors: 42601, 42P01, 42703; 55000 for another schema's.
    fn owner_named(&self, schema: &str, name: &ast::ObjectName) -> SqlResult<Option<(TableId, usize)>> {
        let mut parts = name.0.clone();
        let column = parts.pop().and_then(|part| part.as_ident().map(names::fold)).unwrap_or_default();
        if parts.is_empty() {
            let message = "invalid OWNED BY option";
            return match column.eq_ignore_ascii_case("none") {
                true => Ok(None),
                false => Err(SqlError::new(SqlState::SYNTAX_ERROR, message)
                    .hint("Specify OWNED BY table.column or OWNED BY NONE.")),
            };
        }
        let table = self.find_table(&ast::ObjectName(parts))?;
        if table.schema != schema {
            let told = "sequence must be in same schema as table it is linked to";
            return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, told));
        }
        match table.column_named(&column).filter(|number| !table.columns[*number].hidden) {
            Some(number) => Ok(Some((table.id, number))),
            None => Err(SqlError::new(
                SqlState::UNDEFINED_COLUMN,
                format!("column \"{column}\" of relation \"{}\" does not exist", table.name),
            )),
        }
    }

    /// Errors: 2BP01 for the sequence of an identity column, which goes with the column alone.
    pub(super) fn drop_sequence(&self, name: &ast::ObjectName) -> SqlResult<Vec<SchemaAction>> {
        let sequence = crate::catalog::find_named_sequence(self.catalog, self.search_path, name)?;
        if let Some((table, column)) = self.owner_of(sequence)
            && table.columns[column].identity.is_identity()
        {
            let column = format!("column {} of table {}", table.columns[column].name, table.name);
            let told = format!("cannot drop sequence {} because {column} requires it", sequence.name);
            return Err(SqlError::new(DEPENDENT, told).hint(format!("You can drop {column} instead.")));
        }
        Ok(vec![SchemaAction::DropSequence(sequence.id)])
    }

    fn owner_of(&self, sequence: &Sequence) -> Option<(&Arc<Table>, usize)> {
        let (table, column) = sequence.owner?;
        Some((self.catalog.table(table)?, column))
    }

    /// What a change does to defaults that name a sequence which it drops: 2BP01, or with CASCADE they go too.
    pub(super) fn keep_defaults(&self, statement: &Statement, mut ddl: Ddl) -> SqlResult<Ddl> {
        let gone = self.sequences_gone(&ddl);
        if gone.is_empty() {
            return Ok(ddl);
        }
        let users = self.users_of_sequences(&gone, &ddl);
        let Some(first) = users.first() else { return Ok(ddl) };
        if !is_cascade(statement) {
            let detail = users.iter().map(|user| {
                let sequence = self.catalog.sequences.get(&user.sequence);
                let sequence = sequence.map(|sequence| sequence.name.as_str()).unwrap_or_default();
                format!("{} depends on sequence {sequence}", user.what)
            });
            let detail: Vec<String> = detail.collect();
            return Err(SqlError::new(DEPENDENT, self.still_used(statement, first.sequence))
                .detail(detail.join("\n"))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        ddl.notices.push((
            SqlState::SUCCESSFUL,
            match users.as_slice() {
                [one] => format!("drop cascades to {}", one.what),
                more => format!("drop cascades to {} other objects", more.len()),
            },
        ));
        for user in users {
            // Domains have gone before.
            if let Holder::Column(id, column) = user.of {
                drop_default(self.catalog, id, column, &mut ddl.actions);
            }
        }
        Ok(ddl)
    }

    /// With CASCADE, domains go whose defaults name a sequence that a change drops, and columns of them with them.
    pub(super) fn drop_counted_domains(&self, statement: &Statement, mut ddl: Ddl) -> SqlResult<Ddl> {
        let gone = self.sequences_gone(&ddl);
        if gone.is_empty() || !is_cascade(statement) {
            return Ok(ddl);
        }
        let (mut domains, mut dropped) = (Vec::new(), Ddl::default());
        for user in self.users_of_sequences(&gone, &ddl) {
            if let Holder::Domain(id) = user.of {
                domains.push(Made::Domain(id));
                let told = format!("drop cascades to {}", user.what);
                dropped.notices.push((SqlState::SUCCESSFUL, told));
            }
        }
        if domains.is_empty() {
            return Ok(ddl);
        }
        self.drop_made(&domains, true, &mut dropped)?;
        let altered: BTreeSet<TableId> = dropped.actions.iter().filter_map(altered_by).collect();
        if ddl.actions.iter().filter_map(altered_by).any(|table| altered.contains(&table)) {
            let told = "dropping a sequence together with a domain and with something else of the same table";
            return Err(SqlError::unsupported(told).hint("Drop the domain first."));
        }
        // Nothing is dropped twice.
        ddl.actions.retain(|action| !dropped.actions.contains(action));
        ddl.actions.splice(0..0, dropped.actions);
        ddl.notices.extend(dropped.notices);
        Ok(ddl)
    }

    /// Sequences that a change drops, also those that go with their tables.
    fn sequences_gone(&self, ddl: &Ddl) -> BTreeSet<TableId> {
        let mut gone = BTreeSet::new();
        for action in &ddl.actions {
            match action {
                SchemaAction::DropSequence(id) => drop(gone.insert(*id)),
                SchemaAction::DropTable(table) => {
                    let is_owned = |s: &&Arc<Sequence>| s.owner.is_some_and(|(owner, _)| owner == *table);
                    gone.extend(self.catalog.sequences.values().filter(is_owned).map(|s| s.id));
                }
                // A table that is made anew keeps its sequences.
                SchemaAction::CreateSequence(sequence) => drop(gone.remove(&sequence.id)),
                _ => {}
            }
        }
        gone
    }

    /// Defaults that name one of these sequences, once a change is made.
    fn users_of_sequences(&self, gone: &BTreeSet<TableId>, ddl: &Ddl) -> Vec<User> {
        let mut tables: BTreeMap<TableId, &Table> =
            self.catalog.tables.iter().map(|(id, table)| (*id, table.as_ref())).collect();
        let mut types: BTreeSet<TableId> = self.catalog.types.domains.keys().copied().collect();
        for action in &ddl.actions {
            match action {
                SchemaAction::CreateTable(table) | SchemaAction::AlterTable(table) => {
                    tables.insert(table.id, table);
                }
                SchemaAction::DropTable(id) => drop(tables.remove(id)),
                SchemaAction::DropType(id) => drop(types.remove(id)),
                _ => {}
            }
        }
        let mut users = Vec::new();
        let mut add = |default: &str, of: Holder, what: String| {
            let named = kept_texts::sequences_in(self, default);
            users.extend(named.intersection(gone).next().map(|s| User { of, what, sequence: *s }));
        };
        for (id, table) in tables {
            for (at, column) in table.visible_columns() {
                if let (Identity::No | Identity::Serial, Some(default)) = (column.identity, &column.default) {
                    let what = format!("default value for column {} of table {}", column.name, table.name);
                    add(default, Holder::Column(id, at), what);
                }
            }
        }
        for domain in types.iter().filter_map(|id| self.catalog.types.domains.get(id)) {
            if let Some(default) = &domain.default {
                add(default, Holder::Domain(domain.id), format!("type {}", domain.name));
            }
        }
        users
    }

    /// That something cannot be dropped because of a sequence which would go with it, or is it.
    fn still_used(&self, statement: &Statement, sequence: TableId) -> String {
        let sequence = self.catalog.sequences.get(&sequence);
        let owner = sequence.and_then(|sequence| self.owner_of(sequence));
        let what = match (statement, owner) {
            (Statement::Drop { names, .. }, _) if names.len() > 1 => {
                return "cannot drop desired object(s) because other objects depend on them".into();
            }
            (Statement::Drop { object_type: ast::ObjectType::Sequence, .. }, _) | (_, None) => {
                format!("sequence {}", sequence.map(|sequence| sequence.name.as_str()).unwrap_or_default())
            }
            (Statement::Drop { .. }, Some((table, _))) => format!("table {}", table.name),
            (_, Some((table, column))) => {
                format!("column {} of table {}", table.columns[column].name, table.name)
            }
        };
        format!("cannot drop {what} because other objects depend on it")
    }
}

/// Takes a default away from a table, as far as a change has changed it.
pub(super) fn drop_default(catalog: &Catalog, id: TableId, column: usize, actions: &mut Vec<SchemaAction>) {
    let mut is_described = false;
    for action in actions.iter_mut() {
        if let SchemaAction::CreateTable(table) | SchemaAction::AlterTable(table) = action
            && table.id == id
        {
            lose_default(table, column);
            is_described = true;
        }
    }
    if !is_described && let Some(table) = catalog.table(id) {
        let mut next = table.as_ref().clone();
        lose_default(&mut next, column);
        actions.push(SchemaAction::AlterTable(next));
    }
}

/// The table that an action describes anew.
fn altered_by(action: &SchemaAction) -> Option<TableId> {
    match action {
        SchemaAction::AlterTable(table) => Some(table.id),
        _ => None,
    }
}

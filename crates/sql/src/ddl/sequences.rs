//! CREATE, ALTER and DROP SEQUENCE as changes of the catalog.

use super::sequence_options::{Counting, Options, check_within, type_named};
use super::{Ddl, DdlContext};
use crate::names;
use base::error::{SqlResult, SqlState};
use base::roles::Object;
use base::schema::{Origin, SchemaAction, Sequence};
use base::{SqlError, TableId};
use sqlparser::ast::{self, AlterTableOperation as Operation};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::tokenizer::{Span, Token, Tokenizer};

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
            ddl.notices.push((SqlState::DUPLICATE_TABLE, format!("{message}, skipping")));
            return Ok(ddl);
        }
        let mut said = Options::declared(options)?;
        said.data_type = data_type.map(|t| type_named(&t.to_string().to_lowercase())).transpose()?;
        let Counting { start, increment, limits } = said.made(None)?;
        let id = TableId(self.catalog.next_id);
        ddl.actions.push(SchemaAction::CreateSequence(Sequence {
            id,
            schema,
            name,
            start,
            increment,
            limits,
            owner: owned_by.map_or(Ok(None), |column| self.owner_named(column))?,
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
                ddl.notices.push((SqlState::SUCCESSFUL, format!("{}, skipping", error.message)));
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
                _ => Err(SqlError::unsupported("this ALTER of a sequence")),
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
                altered.owner = self.owner_named(&ast::ObjectName(parts))?;
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

    /// `NONE`, or a column with its table.
    fn owner_named(&self, name: &ast::ObjectName) -> SqlResult<Option<(TableId, usize)>> {
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
        match table.column_named(&column) {
            Some(number) => Ok(Some((table.id, number))),
            None => Err(SqlError::new(
                SqlState::UNDEFINED_COLUMN,
                format!("column \"{column}\" of relation \"{}\" does not exist", table.name),
            )),
        }
    }

    pub(super) fn drop_sequence(&self, name: &ast::ObjectName) -> SqlResult<Vec<SchemaAction>> {
        let sequence = crate::catalog::find_named_sequence(self.catalog, self.search_path, name)?;
        if sequence.owner.is_some() {
            return Err(SqlError::new(
                SqlState(*b"2BP01"),
                format!("cannot drop sequence {} because other objects depend on it", sequence.name),
            ));
        }
        Ok(vec![SchemaAction::DropSequence(sequence.id)])
    }
}

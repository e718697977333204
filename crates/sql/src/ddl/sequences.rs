//! CREATE, ALTER and DROP SEQUENCE as changes of the catalog.

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
        options: &[ast::SequenceOptions],
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
        let (start, increment) = sequence_options(options)?;
        let id = TableId(self.catalog.next_id);
        ddl.actions.push(SchemaAction::CreateSequence(Sequence {
            id,
            schema,
            name,
            start,
            increment,
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
                _ => Err(SqlError::unsupported("this ALTER of a sequence")
                    .hint("ALTER SEQUENCE takes RESTART, OWNED BY and OWNER TO.")),
            };
        };
        ddl.actions.push(SchemaAction::CreateSequence(self.altered(sequence, change)?));
        Ok(Some(ddl))
    }

    /// RESTART and OWNED BY; what is the case anyway may be said. Errors: 0A000 for other options.
    fn altered(&self, sequence: &Sequence, change: &str) -> SqlResult<Sequence> {
        let wrong = |near: String| {
            SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{near}\""))
        };
        let tokens =
            Tokenizer::new(&PostgreSqlDialect {}, change).tokenize().map_err(|e| wrong(e.message))?;
        let mut words = tokens.into_iter().filter(|t| !matches!(t, Token::Whitespace(_))).peekable();
        let is = |token: &Token, word: &str| matches!(token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word));
        let mut altered = sequence.clone();
        while let Some(word) = words.next() {
            if is(&word, "restart") {
                words.next_if(|t| is(t, "with"));
                let sign = if words.next_if(|t| *t == Token::Minus).is_some() { "-" } else { "" };
                let value = match words.next_if(|t| matches!(t, Token::Number(..))) {
                    Some(number) => {
                        format!("{sign}{number}").parse().map_err(|_| wrong(number.to_string()))?
                    }
                    None if sign.is_empty() => sequence.start,
                    None => return Err(wrong(sign.into())),
                };
                altered = self.generators.moved(&altered, value, false);
            } else if is(&word, "owned") && words.next_if(|t| is(t, "by")).is_some() {
                let ident = |token: Token| match token {
                    Token::Word(word) => Ok(ast::ObjectNamePart::Identifier(word.into_ident(Span::empty()))),
                    other => Err(wrong(other.to_string())),
                };
                let parts = words.by_ref().filter(|t| *t != Token::Period).map(ident);
                altered.owner = self.owner_named(&ast::ObjectName(parts.collect::<SqlResult<_>>()?))?;
            } else if is(&word, "no") && words.next_if(|t| is(t, "cycle")).is_some() {
            } else if is(&word, "cache") && words.next_if(|t| matches!(t, Token::Number(..))).is_some() {
            } else {
                return Err(SqlError::unsupported(format!(
                    "ALTER SEQUENCE … {}",
                    word.to_string().to_uppercase()
                ))
                .hint("ALTER SEQUENCE takes RESTART, OWNED BY and OWNER TO."));
            }
        }
        Ok(altered)
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

/// START and INCREMENT. Errors: 0A000 for the others that change anything.
pub(super) fn sequence_options(options: &[ast::SequenceOptions]) -> SqlResult<(i64, i64)> {
    let (mut start, mut increment) = (None, 1);
    let integer = |e: &ast::Expr| {
        e.to_string()
            .parse::<i64>()
            .map_err(|_| SqlError::new(SqlState::SYNTAX_ERROR, format!("\"{e}\" is not an integer")))
    };
    for option in options {
        match option {
            ast::SequenceOptions::StartWith(e, _) => start = Some(integer(e)?),
            ast::SequenceOptions::IncrementBy(e, _) => increment = integer(e)?,
            ast::SequenceOptions::Cache(_)
            | ast::SequenceOptions::MinValue(None)
            | ast::SequenceOptions::MaxValue(None)
            | ast::SequenceOptions::Cycle(true) => {}
            other => return Err(SqlError::unsupported(format!("sequence option{other}"))),
        }
    }
    if increment == 0 {
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "INCREMENT must not be zero"));
    }
    Ok((start.unwrap_or(if increment > 0 { 1 } else { -1 }), increment))
}

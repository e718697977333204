//! CREATE SEQUENCE and DROP SEQUENCE as changes of the catalog.

use super::{Ddl, DdlContext};
use crate::names;
use base::error::{SqlResult, SqlState};
use base::schema::{SchemaAction, Sequence};
use base::{SqlError, TableId};
use sqlparser::ast;

impl DdlContext<'_> {
    pub(super) fn create_sequence(
        &self,
        name: &ast::ObjectName,
        if_not_exists: bool,
        options: &[ast::SequenceOptions],
    ) -> SqlResult<Ddl> {
        let (schema, name) = self.new_name(name)?;
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
            owner: None,
        }));
        Ok(ddl)
    }

    pub(super) fn drop_sequence(&self, name: &ast::ObjectName) -> SqlResult<Vec<SchemaAction>> {
        let text = names::parts(name)?.join(".");
        let sequence = crate::catalog::find_sequence(self.catalog, self.search_path, &text)?;
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

//! What names and parameters mean in one statement.

use crate::names;
use base::error::{SqlResult, SqlState};
use base::schema::Table;
use base::{DataType, SqlError};
use sqlparser::ast;

/// The columns a name may mean.
#[derive(Clone, Default)]
pub struct Scope {
    columns: Vec<ScopeColumn>,
}

#[derive(Clone)]
struct ScopeColumn {
    /// Table, alias or `excluded`; and its schema.
    qualifier: String,
    schema: Option<String>,
    name: String,
    data_type: DataType,
    /// Only found when qualified.
    only_qualified: bool,
    number: usize,
}

impl Scope {
    /// A table's columns, under its alias or its own name.
    pub fn table(table: &Table, alias: Option<&str>) -> Scope {
        let mut scope = Scope::default();
        scope.add(table, alias.unwrap_or(&table.name), alias.is_none().then_some(&table.schema), 0, false);
        scope
    }
    /// Adds a table's columns from number `first` on.
    pub fn add(
        &mut self,
        table: &Table,
        qualifier: &str,
        schema: Option<&String>,
        first: usize,
        only_qualified: bool,
    ) {
        self.columns.extend(table.columns.iter().enumerate().map(|(i, c)| ScopeColumn {
            qualifier: qualifier.into(),
            schema: schema.cloned(),
            name: c.name.clone(),
            data_type: c.data_type,
            only_qualified: only_qualified || c.hidden,
            number: first + i,
        }));
    }
    pub fn has_qualifier(&self, qualifier: &str) -> bool {
        self.columns.iter().any(|c| c.qualifier == qualifier)
    }
    pub(crate) fn find(&self, path: &[ast::Ident]) -> SqlResult<(usize, DataType)> {
        let words: Vec<String> = path.iter().map(names::fold).collect();
        let shown = words.join(".");
        let position = path.first().and_then(names::ident_position);
        let (qualifier, name) = match words.as_slice() {
            [name] => (None, name),
            [qualifier, name] => (Some((None, qualifier)), name),
            [schema, qualifier, name] => (Some((Some(schema), qualifier)), name),
            _ => return Err(SqlError::unsupported(format!("the name {shown}"))),
        };
        let mut found = self.columns.iter().filter(|c| {
            c.name == *name
                && match qualifier {
                    None => !c.only_qualified,
                    Some((None, q)) => c.qualifier == *q,
                    Some((Some(s), q)) => c.qualifier == *q && c.schema.as_ref() == Some(s),
                }
        });
        let mut error = match (found.next(), found.next()) {
            (Some(column), None) => return Ok((column.number, column.data_type)),
            (Some(_), Some(_)) => SqlError::new(
                SqlState::AMBIGUOUS_COLUMN,
                format!("column reference \"{shown}\" is ambiguous"),
            ),
            (None, _) => match qualifier {
                Some((_, q)) if !self.has_qualifier(q) => SqlError::new(
                    SqlState::UNDEFINED_TABLE,
                    format!("missing FROM-clause entry for table \"{q}\""),
                ),
                Some(_) => {
                    SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column {shown} does not exist"))
                }
                None => {
                    SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{shown}\" does not exist"))
                }
            },
        };
        error.position = position;
        Err(error)
    }
}

/// Types of `$1, $2, …`: declared by the client, or found by what they meet.
#[derive(Clone, Debug, Default)]
pub struct ParameterTypes(pub Vec<Option<DataType>>);

impl ParameterTypes {
    /// Of so many parameters, those behind the known ones of no type.
    pub fn of_count(mut self, count: usize) -> ParameterTypes {
        self.0.resize(count, None);
        self
    }
    /// One more.
    pub fn push(&mut self, data_type: DataType) {
        self.0.push(Some(data_type));
    }

    /// The type of the n-th parameter (from 0), if it is known.
    pub(super) fn get(&mut self, n: usize) -> Option<DataType> {
        if self.0.len() <= n {
            self.0.resize(n + 1, None);
        }
        self.0[n]
    }

    /// What the n-th parameter is, unless that is known already.
    pub fn found(&mut self, n: usize, data_type: DataType) {
        self.get(n);
        self.0[n].get_or_insert(data_type);
    }
}

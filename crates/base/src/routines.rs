//! Functions and procedures that users have made, as the catalog keeps them.
//!
//! The catalog knows what a call looks like: arguments, result, language. What a body does is its language's business; the
//! text is kept as it was written.
//!
//! KEEPS: no two routines of one schema have one name and one list of argument types; a type here holds the description
//! that the catalog has of it.

use crate::enumeration::EnumType;
use crate::roles::{Object, PUBLIC, Privileges, Rights, RoleChange};
use crate::{DataType, TableId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Arguments that a routine has at most, as in PostgreSQL.
pub const PARAMETERS_MAX: usize = 100;

/// Bytes of a body: a catalog travels to every node and is held in memory as often as it has changed.
pub const BODY_BYTES_MAX: usize = 1 << 20;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Routine {
    /// From the number space of tables; owner and privileges are those of [`Object::Relation`] with it.
    pub id: TableId,
    pub schema: String,
    pub name: String,
    pub parameters: Vec<Parameter>,
    pub result: ResultOf,
    pub language: Language,
    pub volatility: Volatility,
    /// It gives NULL, or no row, where an argument is NULL, and does not run.
    pub is_strict: bool,
    pub is_leakproof: bool,
    pub parallel: Parallel,
    /// COST and ROWS as they were written; nothing is estimated from them.
    pub cost: Option<String>,
    pub rows: Option<String>,
    pub body: String,
    /// The body is `RETURN …` or `BEGIN ATOMIC … END`, not a quoted text.
    pub is_standard: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    pub name: Option<String>,
    pub of: TypeOf,
    /// SQL text.
    pub default: Option<String>,
}

/// A type of an argument or a result, without limits of length or digits, as PostgreSQL ignores them here.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TypeOf {
    /// Of a domain, its base type.
    pub data_type: DataType,
    pub domain: Option<TableId>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ResultOf {
    /// It is a procedure, and is called by CALL.
    Procedure,
    Void,
    /// It is for CREATE TRIGGER.
    Trigger,
    One(TypeOf),
    SetOf(TypeOf),
    /// One row of a table or view, or many.
    RowOf(TableId),
    SetOfRows(TableId),
    /// RETURNS TABLE.
    Table(Vec<(String, TypeOf)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Language {
    Sql,
    PlPgSql,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Volatility {
    Immutable,
    Stable,
    Volatile,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Parallel {
    Unsafe,
    Restricted,
    Safe,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Routines(pub BTreeMap<TableId, Arc<Routine>>);

impl Routines {
    /// Routines of a name, in the order of their ids.
    pub fn named<'a>(&'a self, schema: &'a str, name: &'a str) -> impl Iterator<Item = &'a Arc<Routine>> {
        self.0.values().filter(move |routine| routine.schema == schema && routine.name == name)
    }

    /// The one of a name and argument types.
    pub fn exact(&self, schema: &str, name: &str, types: &[TypeOf]) -> Option<&Arc<Routine>> {
        let is_it = |routine: &&Arc<Routine>| {
            routine.schema == schema && routine.name == name && routine.types().eq(types.iter().copied())
        };
        self.0.values().find(is_it)
    }

    pub fn in_schema<'a>(&'a self, schema: &'a str) -> impl Iterator<Item = &'a Arc<Routine>> {
        self.0.values().filter(move |routine| routine.schema == schema)
    }
}

impl Routine {
    /// Types of the arguments.
    pub fn types(&self) -> impl Iterator<Item = TypeOf> + '_ {
        self.parameters.iter().map(|parameter| parameter.of)
    }

    pub fn is_procedure(&self) -> bool {
        self.result == ResultOf::Procedure
    }

    /// Whether it gives any number of rows.
    pub fn is_set(&self) -> bool {
        matches!(self.result, ResultOf::SetOf(_) | ResultOf::SetOfRows(_) | ResultOf::Table(_))
    }

    /// Arguments that a call has to give; those behind them have defaults.
    pub fn required(&self) -> usize {
        self.parameters.iter().take_while(|parameter| parameter.default.is_none()).count()
    }

    /// What PostgreSQL calls it.
    pub fn kind(&self) -> &'static str {
        if self.is_procedure() { "procedure" } else { "function" }
    }

    /// Every type of its signature.
    pub fn all_types(&self) -> impl Iterator<Item = TypeOf> + '_ {
        let (one, many) = match &self.result {
            ResultOf::One(of) | ResultOf::SetOf(of) => (Some(*of), None),
            ResultOf::Table(columns) => (None, Some(columns.iter().map(|(_, of)| *of))),
            _ => (None, None),
        };
        self.types().chain(one).chain(many.into_iter().flatten())
    }

    /// Its rows are those of another table from now on, which has taken the place of the one that it names.
    pub fn give_rows_of(&mut self, table: TableId) {
        if let ResultOf::RowOf(of) | ResultOf::SetOfRows(of) = &mut self.result {
            *of = table;
        }
    }

    /// The relation whose rows it gives.
    pub fn row_of(&self) -> Option<TableId> {
        match self.result {
            ResultOf::RowOf(id) | ResultOf::SetOfRows(id) => Some(id),
            _ => None,
        }
    }

    /// The same with another description of a type.
    pub(crate) fn retyped(&self, of: EnumType) -> Routine {
        let mut next = self.clone();
        let renew = |known: &mut TypeOf| known.data_type = known.data_type.retyped(of);
        next.parameters.iter_mut().for_each(|parameter| renew(&mut parameter.of));
        match &mut next.result {
            ResultOf::One(of) | ResultOf::SetOf(of) => renew(of),
            ResultOf::Table(columns) => columns.iter_mut().for_each(|(_, of)| renew(of)),
            _ => {}
        }
        next
    }
}

impl From<DataType> for TypeOf {
    fn from(data_type: DataType) -> TypeOf {
        TypeOf { data_type, domain: None }
    }
}

/// What lets everybody call a routine that is new.
pub fn to_everybody(id: TableId) -> RoleChange {
    let rights = Rights { held: Privileges::EXECUTE, grantable: Privileges::NONE };
    RoleChange::SetRights(Object::Relation(id), PUBLIC, rights)
}

//! What types of a program's variables and of a function's result are in the catalog.

use crate::session::Session;
use base::error::SqlResult;
use base::routines::{ArgumentOf, ResultOf, Routine, TypeOf};
use base::schema::{Catalog, Table};
use base::views::Relation;
use base::{DataType, SqlError, SqlState};
use plpgsql::{Argument, Declared, Field, Kind, Program, Returns, ScalarType, Signature};
use sql::names;
use sqlparser::ast;
use std::sync::Arc;

/// Kinds of a program's variables, and of its result.
pub(super) type Kinds = (Vec<Kind>, Kind);

/// What PL/pgSQL has to know of a function before its body.
pub(super) fn signature(catalog: &Catalog, routine: &Routine) -> Signature {
    let argument = |of: ArgumentOf<'_>| Argument {
        name: of.name.map(str::to_string),
        goes_in: of.mode.goes_in(),
        goes_out: of.mode.goes_out(),
    };
    Signature {
        name: routine.name.clone(),
        shown: sql::routines::signature(catalog, routine),
        arguments: routine.arguments().into_iter().map(argument).collect(),
        returns: match &routine.result {
            ResultOf::Procedure | ResultOf::Void => Returns::Nothing,
            ResultOf::Trigger => Returns::Trigger,
            _ => Returns::Value,
        },
        is_set: routine.is_set(),
        is_procedure: routine.is_procedure(),
    }
}

fn scalar(catalog: &Catalog, of: TypeOf) -> ScalarType {
    let domain = of.domain.and_then(|id| catalog.types.domains.get(&id)).cloned();
    ScalarType { data_type: of.data_type, domain }
}

/// The fields of a table's rows.
pub(super) fn fields_of(table: &Table) -> Arc<[Field]> {
    let field = |(n, column): (usize, &base::schema::Column)| Field {
        name: column.name.clone(),
        of: ScalarType { data_type: column.data_type, domain: table.domains.get(&n).cloned() },
    };
    table.visible_columns().map(field).collect()
}

/// The columns of what a function returns, with the name that a single value has.
pub(super) fn columns(catalog: &Catalog, routine: &Routine) -> Vec<(String, DataType)> {
    let columns = sql::routines::expand::columns(catalog, routine);
    if columns.is_empty() {
        // The value of a function without a result is an empty text.
        return vec![(routine.name.clone(), DataType::Text)];
    }
    columns.into_iter().map(|(name, of)| (name, of.data_type)).collect()
}

fn result(catalog: &Catalog, routine: &Routine) -> Kind {
    match &routine.result {
        ResultOf::One(of) | ResultOf::SetOf(of) => Kind::Scalar(scalar(catalog, *of)),
        ResultOf::RowOf(id) | ResultOf::SetOfRows(id) => {
            catalog.relation(*id).map_or(Kind::Record, |relation| Kind::Row(fields_of(relation.shape())))
        }
        ResultOf::Table(columns) | ResultOf::Record(columns) => {
            let field =
                |(name, of): &(String, TypeOf)| Field { name: name.clone(), of: scalar(catalog, *of) };
            Kind::Row(columns.iter().map(field).collect())
        }
        ResultOf::Trigger | ResultOf::OpenRecord | ResultOf::SetOfOpenRecords => Kind::Record,
        ResultOf::Procedure | ResultOf::Void => Kind::Nothing,
    }
}

/// What a program returns that is no function.
fn result_of(returns: Returns) -> Kind {
    match returns {
        Returns::Condition => Kind::Scalar(DataType::Boolean.into()),
        _ => Kind::Nothing,
    }
}

impl Session {
    /// Errors: 42704, 42P01 and 42703 for what a declaration names in vain.
    pub(super) fn kinds(
        &self,
        catalog: &Arc<Catalog>,
        program: &Program,
        routine: Option<&Routine>,
    ) -> SqlResult<Kinds> {
        let mut kinds: Vec<Kind> = Vec::with_capacity(program.variables.len());
        for variable in &program.variables {
            let kind =
                self.knowing_types(catalog, || self.kind(catalog, routine, &variable.declared, &kinds));
            kinds.push(kind.map_err(|error| {
                error.context(format!(
                    "compilation of PL/pgSQL function \"{}\" near line {}",
                    program.signature.shown, variable.line
                ))
            })?);
        }
        let of_none = || result_of(program.signature.returns);
        let result = routine.map_or_else(of_none, |routine| result(catalog, routine));
        Ok((kinds, result))
    }

    fn kind(
        &self,
        catalog: &Catalog,
        routine: Option<&Routine>,
        declared: &Declared,
        before: &[Kind],
    ) -> SqlResult<Kind> {
        Ok(match declared {
            Declared::Argument(n) => {
                let routine = routine.ok_or_else(|| SqlError::internal("a DO has no arguments"))?;
                let argument = routine.arguments().into_iter().nth(*n);
                let argument = argument.ok_or_else(|| SqlError::internal("an argument without a type"))?;
                Kind::Scalar(scalar(catalog, argument.of))
            }
            Declared::Type(written) => self.written_kind(catalog, written)?,
            Declared::RowOf(name) => Kind::Row(fields_of(self.relation(catalog, name)?.shape())),
            Declared::OfColumn(name) => {
                let (column, table) = name.split_last().expect("a name has parts");
                let fields = fields_of(self.relation(catalog, table)?.shape());
                let field = fields.iter().find(|field| field.name == *column).ok_or_else(|| {
                    let message =
                        format!("column \"{column}\" of relation \"{}\" does not exist", table.join("."));
                    SqlError::new(SqlState::UNDEFINED_COLUMN, message)
                })?;
                Kind::Scalar(field.of.clone())
            }
            Declared::OfVariable(n) => before[*n].clone(),
            Declared::OfField(n, name) => match &before[*n] {
                Kind::Row(fields) => {
                    let field = fields.iter().find(|field| field.name == *name);
                    let message = format!("record has no field \"{name}\"");
                    let field = field.ok_or_else(|| SqlError::new(SqlState::UNDEFINED_COLUMN, message))?;
                    Kind::Scalar(field.of.clone())
                }
                _ => return Err(SqlError::unsupported("the type of a field of a record that has no type")),
            },
            Declared::Record => Kind::Record,
            Declared::Boolean => Kind::Scalar(DataType::Boolean.into()),
            Declared::Integer => Kind::Scalar(DataType::Integer.into()),
            Declared::Text => Kind::Scalar(DataType::Text.into()),
            Declared::Any => Kind::Any,
        })
    }

    fn relation<'c>(&self, catalog: &'c Catalog, name: &[String]) -> SqlResult<Relation<'c>> {
        let idents: Vec<ast::Ident> = name.iter().map(|part| ast::Ident::with_quote('"', part)).collect();
        let object = ast::ObjectName::from(idents);
        let found = names::find_relation(catalog, &self.settings.search_path, &self.database.name, &object);
        found.ok_or_else(|| {
            let message = format!("relation \"{}\" does not exist", name.join("."));
            SqlError::new(SqlState::UNDEFINED_TABLE, message)
        })
    }

    fn written_kind(&self, catalog: &Catalog, written: &str) -> SqlResult<Kind> {
        let wrong = || SqlError::new(SqlState::SYNTAX_ERROR, format!("invalid type name \"{written}\""));
        let parsed = sql::parse::parse_expr(&format!("CAST(NULL AS {written})")).map_err(|_| wrong())?;
        let data_type = match parsed {
            ast::Expr::Cast { expr, data_type, .. } if expr.to_string() == "NULL" => data_type,
            _ => return Err(wrong()),
        };
        let domain = names::domain(&data_type);
        match names::data_type(&data_type) {
            Ok(data_type) => Ok(Kind::Scalar(ScalarType { data_type, domain })),
            Err(mut error) => {
                error.position = None;
                let ast::DataType::Custom(name, _) = &data_type else { return Err(error) };
                let name = names::parts(name)?;
                self.relation(catalog, &name)
                    .map(|found| Kind::Row(fields_of(found.shape())))
                    .map_err(|_| error)
            }
        }
    }
}

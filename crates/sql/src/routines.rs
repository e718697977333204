//! Functions and procedures of users: how they are found, and how they are called in texts.
//!
//! Whoever acts on a function by its name asks here: DDL, planning, the system catalog.

pub mod body;
pub mod expand;
pub mod fold;
mod fold_calls;
mod hiding;
mod inferred;
pub mod kept;
pub mod listed;
mod places;
pub mod polymorphic;
pub mod records;
pub mod resolve;
pub mod rows_from;
pub mod scopes;

use crate::names;
use crate::parse::{RoutineKind, Signature, shown_name};
use crate::temporary;
use crate::walk::{self, Walk};
use base::convert::{Castable, castable};
use base::error::{SqlError, SqlResult, SqlState};
use base::routines::{Polymorphic, ResultOf, Routine, TypeOf};
use base::schema::Catalog;
use base::{DataType, TableId};
use scopes::Lookup;
use sqlparser::ast::{self, TableFactor, Visitor};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A type as an argument or a result has it: without limits. Errors: those of [`names::data_type`].
pub fn type_of(written: &ast::DataType) -> SqlResult<TypeOf> {
    if let Some(domain) = names::domain(written) {
        return Ok(TypeOf { domain: Some(domain.id), ..domain.data_type.into() });
    }
    if let ast::DataType::Custom(name, _) = written
        && let Some(any) = Polymorphic::named(&names::parts(name)?.join("."))
    {
        return Ok(any.into());
    }
    names::data_type(written).map(|data_type| unlimited(data_type).into())
}

/// A type without limits of length or digits.
pub fn unlimited(data_type: DataType) -> DataType {
    match data_type {
        DataType::Varchar { .. } | DataType::Char { .. } => DataType::Text,
        DataType::Numeric { .. } => crate::types::NUMERIC,
        DataType::Array(of) => {
            base::element::Element::of(unlimited(of.data_type())).map_or(data_type, DataType::Array)
        }
        other => other,
    }
}

/// A type's name as it can be written; of a user's type with its schema, unless that is `public`.
pub fn type_name(catalog: &Catalog, of: TypeOf) -> String {
    if let Some(any) = of.any {
        return any.name().into();
    }
    let domain = of.domain.and_then(|id| catalog.types.domains.get(&id));
    match domain {
        Some(domain) if domain.schema == "public" => crate::names::quoted(&domain.name).to_string(),
        Some(domain) => {
            format!("{}.{}", crate::names::quoted(&domain.schema), crate::names::quoted(&domain.name))
        }
        None => data_type_name(of.data_type),
    }
}

/// An expression as a value of a type; as it is if a call did not tell the type.
pub fn cast(catalog: &Catalog, e: ast::Expr, of: TypeOf) -> SqlResult<ast::Expr> {
    if of.any.is_some() {
        return Ok(e);
    }
    let name = match of.domain.and_then(|id| catalog.types.domains.get(&id)) {
        Some(domain) => domain.qualified_name(),
        None => written_type(of.data_type),
    };
    let mut made = crate::parse::parse_expr(&format!("CAST(NULL AS {name})"))?;
    let ast::Expr::Cast { expr, .. } = &mut made else {
        return Err(SqlError::internal("this text is a cast"));
    };
    **expr = e;
    Ok(made)
}

/// `numeric` is written without its limits.
pub fn data_type_name(data_type: DataType) -> String {
    match data_type {
        crate::types::NUMERIC => "numeric".into(),
        DataType::Array(of) => format!("{}[]", data_type_name(of.data_type())),
        other => other.name(),
    }
}

/// A type's name that means the same under any search path.
pub fn written_type(data_type: DataType) -> String {
    match data_type {
        DataType::Enum(_) | DataType::Composite(_) => data_type.qualified_name(),
        DataType::Array(of) => format!("{}[]", written_type(of.data_type())),
        other => data_type_name(other),
    }
}

/// `f(integer,text)`, as PostgreSQL tells a routine that it knows.
pub fn signature(catalog: &Catalog, routine: &Routine) -> String {
    let types: Vec<String> = routine.types().map(|of| type_name(catalog, of)).collect();
    format!("{}({})", routine.name, types.join(","))
}

/// `f(integer, text)`, as it tells one that was looked for.
pub fn spaced_signature(catalog: &Catalog, routine: &Routine) -> String {
    let types: Vec<String> = routine.types().map(|of| type_name(catalog, of)).collect();
    format!("{}({})", routine.name, types.join(", "))
}

/// What a result is, as RETURNS says it; empty for a procedure.
pub fn result_name(catalog: &Catalog, routine: &Routine) -> String {
    let row = |id: &TableId| {
        let shape = catalog.relation(*id).map(base::views::Relation::shape);
        shape.map_or("record".into(), |shape| match shape.schema.as_str() {
            "public" => crate::names::quoted(&shape.name).to_string(),
            schema => format!("{}.{}", crate::names::quoted(schema), crate::names::quoted(&shape.name)),
        })
    };
    match &routine.result {
        ResultOf::Procedure => String::new(),
        ResultOf::Void => "void".into(),
        ResultOf::Trigger => "trigger".into(),
        ResultOf::One(of) => type_name(catalog, *of),
        ResultOf::SetOf(of) => format!("SETOF {}", type_name(catalog, *of)),
        ResultOf::RowOf(id) => row(id),
        ResultOf::SetOfRows(id) => format!("SETOF {}", row(id)),
        ResultOf::Record(_) | ResultOf::OpenRecord => "record".into(),
        ResultOf::SetOfOpenRecords => "SETOF record".into(),
        ResultOf::Table(_) if routine.has_outputs() => "SETOF record".into(),
        ResultOf::Table(columns) => {
            let columns = columns.iter();
            let columns = columns
                .map(|(name, of)| format!("{} {}", crate::names::quoted(name), type_name(catalog, *of)));
            format!("TABLE({})", columns.collect::<Vec<_>>().join(", "))
        }
    }
}

/// What a routine is, with its article.
pub fn kind_shown(routine: &Routine) -> &'static str {
    match routine.aggregate() {
        Some(_) => "an aggregate function",
        None if routine.is_procedure() => "a procedure",
        None => "a function",
    }
}

/// Where routines of a name are looked for: its schema, or the search path. Temporary ones are found with their schema alone.
pub fn schemas<'a>(schema: Option<&'a String>, search_path: &'a [String]) -> impl Iterator<Item = &'a str> {
    let path = temporary::shown(search_path).filter(move |_| schema.is_none());
    let written = schema.and_then(|schema| temporary::meant(schema, search_path));
    written.into_iter().chain(path.map(String::as_str))
}

/// Whether something calls a temporary routine.
pub fn calls_temporary(lookup: Lookup<'_>, node: &(impl walk::Node + ?Sized)) -> bool {
    let is_it = |name: &ast::ObjectName| {
        resolve::named(lookup, name).iter().any(|routine| temporary::is_temporary(&routine.schema))
    };
    let found = walk::expressions(node, |e| match e {
        ast::Expr::Function(function) if is_it(&function.name) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break() || table_calls(node).iter().any(|(name, _)| is_it(name))
}

/// The routine that a statement names. Errors: 42883 if there is none, 42725 if a name alone means several, 42809 for a
/// procedure where a function is asked for, or the other way round.
pub fn find<'c>(
    catalog: &'c Catalog,
    search_path: &[String],
    database: &str,
    named: &Signature,
) -> SqlResult<&'c Arc<Routine>> {
    let (schema, name) = names::qualified(&named.name, database)?;
    let types: Option<Vec<TypeOf>> =
        named.types.as_ref().map(|types| types.iter().map(type_of).collect()).transpose()?;
    let kind = named.kind.word();
    let is_kind = |routine: &Routine| match named.kind {
        RoutineKind::Function => !routine.is_procedure(),
        RoutineKind::Procedure => routine.is_procedure(),
        RoutineKind::Aggregate => routine.aggregate().is_some(),
        RoutineKind::Routine => true,
    };
    let mut of_name = Vec::new();
    for schema in schemas(schema.as_ref(), search_path) {
        of_name.extend(catalog.routines.0.values().filter(|r| r.schema == schema && r.name == name));
    }
    let Some(types) = types else {
        let wanted: Vec<&&Arc<Routine>> = of_name.iter().filter(|routine| is_kind(routine)).collect();
        return match wanted.as_slice() {
            [one] => Ok(**one),
            [] if !of_name.is_empty() => Err(other_kind(&spaced_signature(catalog, of_name[0]), kind)),
            [] => {
                let told = format!("could not find a {kind} named \"{}\"", shown_name(&named.name));
                Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, told))
            }
            _ => {
                let told = format!("{kind} name \"{}\" is not unique", shown_name(&named.name));
                Err(SqlError::new(AMBIGUOUS, told)
                    .hint(format!("Specify the argument list to select the {kind} unambiguously.")))
            }
        };
    };
    let exact = of_name.into_iter().find(|routine| routine.types().eq(types.iter().copied()));
    match exact {
        Some(routine) if is_kind(routine) => Ok(routine),
        Some(routine) => {
            let shown = spaced_signature(catalog, routine);
            let shown = if kind == "aggregate" { format!("function {shown}") } else { shown };
            Err(other_kind(&shown, kind))
        }
        None => {
            let types: Vec<String> = types.iter().map(|of| type_name(catalog, *of)).collect();
            let types = if types.is_empty() && kind == "aggregate" { "*".into() } else { types.join(", ") };
            let told = format!("{kind} {}({types}) does not exist", shown_name(&named.name));
            Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, told))
        }
    }
}

/// 42725.
pub const AMBIGUOUS: SqlState = SqlState(*b"42725");

fn other_kind(shown: &str, kind: &str) -> SqlError {
    let kind = if kind == "aggregate" { "an aggregate".to_string() } else { format!("a {kind}") };
    SqlError::new(SqlState(*b"42809"), format!("{shown} is not {kind}"))
}

/// Whether a value of one type is assigned to the other without a cast that is written out.
pub fn is_assignable(from: DataType, to: DataType) -> bool {
    castable(from, to) >= Castable::Assignment
}

/// Arguments of a call.
pub fn count(arguments: &ast::FunctionArguments) -> usize {
    match arguments {
        ast::FunctionArguments::List(list) => list.args.len(),
        ast::FunctionArguments::Subquery(_) => 1,
        ast::FunctionArguments::None => 0,
    }
}

/// Functions that stand for tables, with their numbers of arguments.
pub fn table_calls(node: &(impl walk::Node + ?Sized)) -> Vec<(ast::ObjectName, usize)> {
    struct Calls(Vec<(ast::ObjectName, usize)>);
    impl Visitor for Calls {
        type Break = ();
        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            match factor {
                TableFactor::Table { name, args: Some(args), .. } => {
                    self.0.push((name.clone(), args.args.len()));
                }
                TableFactor::Function { name, args, .. } => self.0.push((name.clone(), args.len())),
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }
    let mut calls = Calls(Vec::new());
    let _ = node.walk(&mut calls);
    calls.0
}

#[cfg(test)]
mod tests;

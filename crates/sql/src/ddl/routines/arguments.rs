//! Arguments of a new function, and what it gives back.

use super::super::DdlContext;
use super::INVALID_DEFINITION;
use crate::names;
use crate::parse::{CreateRoutine, Declared, DeclaredResult};
use crate::routines;
use base::DataType;
use base::error::{SqlError, SqlResult, SqlState};
use base::routines::{
    DeclaredArgument, Form, Language, Mode, PARAMETERS_MAX, Parameter, Polymorphic, ResultOf, TypeOf,
};
use sqlparser::ast;
use std::collections::BTreeSet;

/// What a function is called with, and what it gives back.
pub(super) struct Taken {
    pub parameters: Vec<Parameter>,
    pub form: Form,
    pub result: ResultOf,
    /// The last parameter is an array of all arguments from there on.
    pub is_variadic: bool,
}

impl DdlContext<'_> {
    /// Errors: 42P13, 42601, 42704; 0A000 for arguments that there are not here.
    pub(super) fn arguments_and_result(
        &self,
        create: &CreateRoutine,
        language: Language,
    ) -> SqlResult<Taken> {
        refuse_names(&create.parameters, language)?;
        let modes = create.parameters.iter().map(|of| mode(of, create)).collect::<SqlResult<Vec<Mode>>>()?;
        let parameters = self.parameters(&create.parameters, &modes)?;
        let is_variadic = is_variadic(&modes, &parameters)?;
        let outputs = outputs(&create.parameters, &modes)?;
        if outputs.is_empty() {
            let result = match &create.result {
                None if create.is_procedure => ResultOf::Procedure,
                None => {
                    return Err(SqlError::new(INVALID_DEFINITION, "function result type must be specified"));
                }
                Some(declared) => self.result(declared, &parameters)?,
            };
            refuse_undecided(&parameters, &result, "result")?;
            return Ok(Taken { parameters, form: Form::Plain, result, is_variadic });
        }
        let mut declared = Vec::with_capacity(modes.len());
        for (of, mode) in create.parameters.iter().zip(&modes) {
            declared.push(match mode {
                Mode::In | Mode::Variadic => DeclaredArgument::In,
                Mode::InOut => DeclaredArgument::InOut,
                Mode::Out | Mode::Column => {
                    DeclaredArgument::Out { name: of.name.clone(), of: argument_type(&of.data_type)? }
                }
            });
        }
        let result = self.result_of_outputs(create.result.as_ref(), outputs)?;
        refuse_undecided(&parameters, &result, "result")?;
        Ok(Taken { parameters, form: Form::WithOutputs(declared), result, is_variadic })
    }

    /// Those that go in.
    fn parameters(&self, declared: &[Declared], modes: &[Mode]) -> SqlResult<Vec<Parameter>> {
        let mut made: Vec<Parameter> = Vec::new();
        if declared.len() > PARAMETERS_MAX {
            let told = format!("functions cannot have more than {PARAMETERS_MAX} arguments");
            return Err(SqlError::new(SqlState(*b"54023"), told));
        }
        for (of, mode) in declared.iter().zip(modes) {
            if !mode.goes_in() {
                if of.default.is_some() {
                    let told = "only input parameters can have default values";
                    return Err(SqlError::new(INVALID_DEFINITION, told));
                }
                continue;
            }
            let data_type = argument_type(&of.data_type)?;
            let default = match &of.default {
                Some(e) => Some(self.argument_default(data_type, e)?),
                None if made.last().is_some_and(|before| before.default.is_some()) => {
                    let told = "input parameters after one with a default value must also have defaults";
                    return Err(SqlError::new(INVALID_DEFINITION, told));
                }
                None => None,
            };
            made.push(Parameter { name: of.name.clone(), of: data_type, default });
        }
        Ok(made)
    }

    /// A default as it is kept. Errors: what is wrong with it as a value of the argument's type.
    fn argument_default(&self, data_type: TypeOf, e: &ast::Expr) -> SqlResult<String> {
        let value = routines::expand::cast(self.catalog, e.clone(), data_type)?;
        let asked = crate::parse::parse(&format!("SELECT {value}"))?.pop();
        let asked = asked.ok_or_else(|| SqlError::internal("this text is a query"))?;
        self.shapes.columns_of(&asked, &[])?;
        let mut kept = e.clone();
        names::qualify_types(&mut kept);
        routines::kept::qualify(self.lookup(), &mut kept);
        Ok(kept.to_string())
    }

    /// What a function with OUT arguments gives. Errors: 42P13 for RETURNS of something else, 42601 for RETURNS TABLE.
    fn result_of_outputs(
        &self,
        declared: Option<&DeclaredResult>,
        mut outputs: Vec<(String, TypeOf)>,
    ) -> SqlResult<ResultOf> {
        let is_set = matches!(declared, Some(DeclaredResult::SetOf(_)));
        let told = |wanted: &str| {
            let told = format!("function result type must be {wanted} because of OUT parameters");
            Err(SqlError::new(INVALID_DEFINITION, told))
        };
        let named = match declared {
            None => None,
            Some(DeclaredResult::Table(_)) => {
                let told = "OUT and INOUT arguments aren't allowed in TABLE functions";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, told));
            }
            Some(DeclaredResult::One(of) | DeclaredResult::SetOf(of)) => Some(of),
        };
        if outputs.len() > 1 {
            let is_record = |of: &ast::DataType| {
                ["record", "pg_catalog.record"].contains(&of.to_string().to_lowercase().as_str())
            };
            return match named {
                Some(of) if !is_record(of) => told("record"),
                _ if is_set => Ok(ResultOf::Table(outputs)),
                _ => Ok(ResultOf::Record(outputs)),
            };
        }
        let Some((_, of)) = outputs.pop() else { return Err(SqlError::internal("an output was counted")) };
        if let Some(named) = named
            && !routines::type_of(named).is_ok_and(|named| named == of)
        {
            return told(&routines::type_name(self.catalog, of));
        }
        Ok(if is_set { ResultOf::SetOf(of) } else { ResultOf::One(of) })
    }

    fn result(&self, declared: &DeclaredResult, parameters: &[Parameter]) -> SqlResult<ResultOf> {
        match declared {
            DeclaredResult::Table(columns) => {
                let mut names: BTreeSet<&String> =
                    parameters.iter().filter_map(|parameter| parameter.name.as_ref()).collect();
                let mut made = Vec::new();
                for (name, of) in columns {
                    if !names.insert(name) {
                        return Err(named_twice(name));
                    }
                    made.push((name.clone(), argument_type(of)?));
                }
                Ok(ResultOf::Table(made))
            }
            DeclaredResult::One(of) | DeclaredResult::SetOf(of) => {
                let is_set = matches!(declared, DeclaredResult::SetOf(_));
                match of.to_string().to_lowercase().as_str() {
                    "void" | "pg_catalog.void" if !is_set => return Ok(ResultOf::Void),
                    "trigger" | "pg_catalog.trigger" if !is_set => return Ok(ResultOf::Trigger),
                    "record" | "pg_catalog.record" => {
                        return Ok(if is_set { ResultOf::SetOfOpenRecords } else { ResultOf::OpenRecord });
                    }
                    "void" | "trigger" | "event_trigger" => {
                        return Err(SqlError::unsupported(format!("a function that returns {of}"))
                            .hint("Name the type, or the columns by RETURNS TABLE (…) or OUT arguments."));
                    }
                    _ => {}
                }
                let error = match routines::type_of(of) {
                    Ok(of) => return Ok(if is_set { ResultOf::SetOf(of) } else { ResultOf::One(of) }),
                    Err(error) => error,
                };
                if let ast::DataType::Custom(name, _) = of
                    && let Some(relation) =
                        names::find_relation(self.catalog, self.search_path, self.database, name)
                {
                    let id = relation.shape().id;
                    return Ok(if is_set { ResultOf::SetOfRows(id) } else { ResultOf::RowOf(id) });
                }
                Err(error)
            }
        }
    }
}

/// Whether the last of the parameters is an array of all arguments from there on. Errors: 42P13 for one that is none, or
/// that others follow.
fn is_variadic(modes: &[Mode], parameters: &[Parameter]) -> SqlResult<bool> {
    let Some(at) = modes.iter().position(|mode| *mode == Mode::Variadic) else { return Ok(false) };
    if modes[at + 1..].iter().any(|mode| mode.goes_in()) {
        let told = "VARIADIC parameter must be the last input parameter";
        return Err(SqlError::new(INVALID_DEFINITION, told));
    }
    let is_array = |of: TypeOf| match of.any {
        Some(any) => any.is_array(),
        None => matches!(of.data_type, DataType::Array(_)),
    };
    match parameters.last().is_some_and(|last| is_array(last.of)) {
        true => Ok(true),
        false => Err(SqlError::new(INVALID_DEFINITION, "VARIADIC parameter must be an array")),
    }
}

/// Errors: 42P13 for a polymorphic type that no argument decides; `what` it is of.
pub(super) fn refuse_undecided(parameters: &[Parameter], result: &ResultOf, what: &str) -> SqlResult<()> {
    let result: Vec<TypeOf> = match result {
        ResultOf::One(of) | ResultOf::SetOf(of) => vec![*of],
        ResultOf::Table(columns) | ResultOf::Record(columns) => columns.iter().map(|(_, of)| *of).collect(),
        _ => Vec::new(),
    };
    for any in result.into_iter().filter_map(|of| of.any) {
        let of_family =
            |of: &Parameter| of.of.any.map(Polymorphic::is_compatible) == Some(any.is_compatible());
        if parameters.iter().any(of_family) {
            continue;
        }
        let wanted = match any.is_compatible() {
            false => "anyelement, anyarray, anynonarray, anyenum, anyrange, or anymultirange",
            true => {
                "anycompatible, anycompatiblearray, anycompatiblenonarray, anycompatiblerange, or \
                 anycompatiblemultirange"
            }
        };
        let detail = format!("A result of type {} requires at least one input of type {wanted}.", any.name());
        let told = format!("cannot determine {what} data type");
        return Err(SqlError::new(INVALID_DEFINITION, told).detail(detail));
    }
    Ok(())
}

/// What an argument is for. Errors: 0A000.
fn mode(of: &Declared, create: &CreateRoutine) -> SqlResult<Mode> {
    let mode = match of.mode.as_deref() {
        None => return Ok(Mode::In),
        Some("OUT") => Mode::Out,
        Some("INOUT") => Mode::InOut,
        Some(_) => return Ok(Mode::Variadic),
    };
    match create.is_procedure {
        true => Err(SqlError::unsupported("OUT and INOUT arguments of a procedure")
            .hint("A function gives results back; SELECT calls it.")),
        false => Ok(mode),
    }
}

/// Columns of the result that arguments are.
fn outputs(declared: &[Declared], modes: &[Mode]) -> SqlResult<Vec<(String, TypeOf)>> {
    let mut made = Vec::new();
    for (of, _) in declared.iter().zip(modes).filter(|(_, mode)| mode.goes_out()) {
        let name = of.name.clone().unwrap_or_else(|| format!("column{}", made.len() + 1));
        made.push((name, argument_type(&of.data_type)?));
    }
    Ok(made)
}

fn named_twice(name: &str) -> SqlError {
    SqlError::new(INVALID_DEFINITION, format!("parameter name \"{name}\" used more than once"))
}

/// Errors: 42P13 for a name that two arguments have. In SQL only those that go in are called by their names, so one that
/// only goes in and one that only goes out may have the same.
fn refuse_names(declared: &[Declared], language: Language) -> SqlResult<()> {
    let (mut inputs, mut outputs) = (BTreeSet::new(), BTreeSet::new());
    for of in declared {
        let Some(name) = &of.name else { continue };
        let (goes_in, goes_out) = match of.mode.as_deref() {
            Some("OUT") => (false, true),
            Some("INOUT") => (true, true),
            _ => (true, false),
        };
        let is_known = goes_in && !inputs.insert(name) || goes_out && !outputs.insert(name);
        let is_shared = inputs.contains(name) && outputs.contains(name) && !(goes_in && goes_out);
        if is_known || is_shared && language == Language::PlPgSql {
            return Err(named_twice(name));
        }
    }
    Ok(())
}

/// Errors: 0A000 for a type that no argument has here; 42704.
pub(super) fn argument_type(written: &ast::DataType) -> SqlResult<TypeOf> {
    match written.to_string().to_lowercase().as_str() {
        "any"
        | "\"any\""
        | "anyrange"
        | "anymultirange"
        | "anycompatiblerange"
        | "anycompatiblemultirange"
        | "record"
        | "void"
        | "trigger"
        | "internal"
        | "cstring" => Err(SqlError::unsupported(format!("arguments and columns of type {written}"))),
        _ => routines::type_of(written),
    }
}

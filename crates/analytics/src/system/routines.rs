//! What the catalog shows of functions and procedures of users: rows of `pg_proc`, definitions as SQL, what `pg_dump` and
//! psql ask, `information_schema.routines` and `parameters`.

pub(super) mod aggregates;
pub(super) mod standard;

use super::definitions;
use super::domains;
use super::pg_tables::schema_oid;
use super::routine_names::{named, routine_of};
use super::{Made, privileges, user_types};
use crate::context::Context;
use base::error::SqlResult;
use base::identifier::quoted;
use base::roles::Object;
use base::routines::{ArgumentOf, Language, Mode, Parallel, ResultOf, Routine, TypeOf, Volatility};
use base::{DataType, Datum, TableId};
use datafusion::arrow::array::Int64Array;
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use sql::lower::oid;
use sql::routines;
use sql::types::type_oid;

const TEXT: DataType = DataType::Text;
const INT: DataType = DataType::Integer;
const BOOL: DataType = DataType::Boolean;

/// Object ids of languages, as `pg_language` has them.
const INTERNAL_LANGUAGE: u32 = 12;
const SQL_LANGUAGE: u32 = 14;
const PLPGSQL_LANGUAGE: u32 = 13_637;
const RECORD: u32 = 2249;
const VOID: u32 = 2278;
const TRIGGER: u32 = 2279;
/// Object id of `pg_proc`.
const PROC: u32 = 1255;

/// Functions of the catalog that tell something of a routine, by its number.
pub(super) const FUNCTIONS: [&str; 7] = [
    aggregates::DEFINITION,
    "pg_get_functiondef",
    "pg_get_function_result",
    "pg_get_function_arguments",
    "pg_get_function_identity_arguments",
    "pg_get_function_sqlbody",
    "meridian_routine_name",
];

/// What one of them tells; `with_types`: behind the name.
pub(super) fn told(context: &Context<'_>, function: &str, number: i64, with_types: bool) -> Option<String> {
    if function == "meridian_routine_name" {
        return Some(shown(context, number, with_types));
    }
    let routine = routine_of(context, number)?;
    match function {
        "pg_get_functiondef" => routine.aggregate().is_none().then(|| definition(context, routine)),
        aggregates::DEFINITION => aggregates::definition(context, routine),
        "pg_get_function_result" => result(context, routine),
        "pg_get_function_sqlbody" => standard_body(routine),
        _ => Some(arguments(context, routine, function == "pg_get_function_arguments")),
    }
}

/// Whether a routine is found without its schema.
pub(super) fn is_visible(context: &Context<'_>, routine: &Routine) -> bool {
    let types: Vec<TypeOf> = routine.types().collect();
    let has = |schema: &&String| context.catalog.routines.exact(schema, &routine.name, &types).is_some();
    context.search_path.iter().find(has).is_some_and(|schema| *schema == routine.schema)
}

fn language(routine: &Routine) -> (&'static str, u32) {
    match routine.language {
        Language::Sql if routine.aggregate().is_some() => ("internal", INTERNAL_LANGUAGE),
        Language::Sql => ("sql", SQL_LANGUAGE),
        Language::PlPgSql => ("plpgsql", PLPGSQL_LANGUAGE),
    }
}

/// A type as `format_type` shows it.
fn type_shown(context: &Context<'_>, of: TypeOf) -> String {
    if let Some(any) = of.any {
        return any.name().into();
    }
    if let Some(domain) = of.domain.and_then(|id| context.catalog.types.domains.get(&id)) {
        return domains::shown(context, domain);
    }
    match of.data_type {
        made @ (DataType::Enum(_) | DataType::Composite(_)) => user_types::name_shown(context, made),
        DataType::Array(of) => format!("{}[]", type_shown(context, of.data_type().into())),
        other => routines::data_type_name(other),
    }
}

fn type_number(of: TypeOf) -> u32 {
    match (of.any, of.domain) {
        (Some(any), _) => any.oid(),
        (None, Some(domain)) => oid(domain),
        (None, None) => type_oid(of.data_type),
    }
}

/// The object id of what an array of a type has.
fn element_number(of: TypeOf) -> u32 {
    match (of.any, of.data_type) {
        (Some(any), _) => any.element().oid(),
        (None, DataType::Array(element)) => type_oid(element.data_type()),
        (None, other) => type_oid(other),
    }
}

fn relation_shown(context: &Context<'_>, id: TableId) -> String {
    definitions::relation_shown(context, oid(id).into())
}

/// `pg_get_function_result`; `None` for a procedure.
fn result(context: &Context<'_>, routine: &Routine) -> Option<String> {
    Some(match &routine.result {
        ResultOf::Procedure => return None,
        ResultOf::Void => "void".into(),
        ResultOf::Trigger => "trigger".into(),
        ResultOf::One(of) => type_shown(context, *of),
        ResultOf::SetOf(of) => format!("SETOF {}", type_shown(context, *of)),
        ResultOf::RowOf(id) => relation_shown(context, *id),
        ResultOf::SetOfRows(id) => format!("SETOF {}", relation_shown(context, *id)),
        ResultOf::Record(_) | ResultOf::OpenRecord => "record".into(),
        ResultOf::SetOfOpenRecords => "SETOF record".into(),
        ResultOf::Table(_) if routine.has_outputs() => "SETOF record".into(),
        ResultOf::Table(columns) => {
            let shown =
                |(name, of): &(String, TypeOf)| format!("{} {}", quoted(name), type_shown(context, *of));
            format!("TABLE({})", columns.iter().map(shown).collect::<Vec<_>>().join(", "))
        }
    })
}

/// `pg_get_function_arguments`, and without defaults `pg_get_function_identity_arguments`.
fn arguments(context: &Context<'_>, routine: &Routine, with_defaults: bool) -> String {
    let shown = |argument: ArgumentOf<'_>| {
        let mut text = String::new();
        match argument.mode {
            Mode::In if routine.is_procedure() => text.push_str("IN "),
            Mode::In | Mode::Column => {}
            Mode::Variadic => text.push_str("VARIADIC "),
            Mode::InOut => text.push_str("INOUT "),
            Mode::Out => text.push_str("OUT "),
        }
        if let Some(name) = argument.name {
            text.push_str(&format!("{} ", quoted(name)));
        }
        text.push_str(&type_shown(context, argument.of));
        if let Some(default) = argument.default.filter(|_| with_defaults) {
            text.push_str(&format!(" DEFAULT {default}"));
        }
        text
    };
    let all = routine.arguments().into_iter().filter(|argument| argument.mode != Mode::Column);
    all.map(shown).collect::<Vec<_>>().join(", ")
}

/// `pg_get_functiondef`.
fn definition(context: &Context<'_>, routine: &Routine) -> String {
    let kind = routine.kind();
    let (schema, name) = (quoted(&routine.schema), quoted(&routine.name));
    let arguments = arguments(context, routine, true);
    let mut text = format!("CREATE OR REPLACE {} {schema}.{name}({arguments})\n", kind.to_uppercase());
    if let Some(result) = result(context, routine) {
        text.push_str(&format!(" RETURNS {result}\n"));
    }
    text.push_str(&format!(" LANGUAGE {}\n", language(routine).0));
    let mut words: Vec<String> = Vec::new();
    match routine.volatility {
        Volatility::Immutable => words.push("IMMUTABLE".into()),
        Volatility::Stable => words.push("STABLE".into()),
        Volatility::Volatile => {}
    }
    match routine.parallel {
        Parallel::Safe => words.push("PARALLEL SAFE".into()),
        Parallel::Restricted => words.push("PARALLEL RESTRICTED".into()),
        Parallel::Unsafe => {}
    }
    if routine.is_strict {
        words.push("STRICT".into());
    }
    if routine.is_definer {
        words.push("SECURITY DEFINER".into());
    }
    if routine.is_leakproof {
        words.push("LEAKPROOF".into());
    }
    words.extend(
        routine.estimates.cost.as_ref().filter(|cost| *cost != "100").map(|cost| format!("COST {cost}")),
    );
    words.extend(
        routine.estimates.rows.as_ref().filter(|rows| *rows != "1000").map(|rows| format!("ROWS {rows}")),
    );
    if !words.is_empty() {
        text.push_str(&format!(" {}\n", words.join(" ")));
    }
    if routine.is_standard {
        text.push_str(&format!("{}\n", routine.body));
        return text;
    }
    let mut tag = kind.to_string();
    while routine.body.contains(&format!("${tag}")) {
        tag.push('x');
    }
    text.push_str(&format!("AS ${tag}${}${tag}$\n", routine.body));
    text
}

/// A body that is no quoted text.
fn standard_body(routine: &Routine) -> Option<String> {
    routine.is_standard.then(|| routine.body.clone())
}

/// `regprocedure` as text.
fn shown(context: &Context<'_>, number: i64, with_types: bool) -> String {
    let Some(routine) = routine_of(context, number) else { return number.to_string() };
    let name = match is_visible(context, routine) {
        true => quoted(&routine.name),
        false => format!("{}.{}", quoted(&routine.schema), quoted(&routine.name)),
    };
    if !with_types {
        return name;
    }
    let types: Vec<String> = routine.types().map(|of| type_shown(context, of)).collect();
    format!("{name}({})", types.join(","))
}

/// Functions that give the object ids of routines by their names. Those of this program's own names fail where there is none.
const NAMED: [&str; 4] = ["meridian_regproc", "meridian_regprocedure", "to_regproc", "to_regprocedure"];

/// Whether a function gives the object ids of names: of routines, or of relations and types.
pub(super) fn are_named(function: &str) -> bool {
    NAMED.contains(&function) || definitions::NAMED.contains(&function)
}

/// Object ids by names, NULL for NULL. Errors: 42883, 42725, 42P01, 42704.
pub(super) fn numbers(
    context: &Context<'_>,
    function: &str,
    names: impl Iterator<Item = Option<String>>,
) -> Result<Int64Array> {
    if !NAMED.contains(&function) {
        return definitions::named(context, function, names);
    }
    let one = |name: String| {
        let found = named(context, &name, function.ends_with("procedure"));
        if function.starts_with("to_") { Ok(found.ok()) } else { found.map(Some) }
    };
    let found = names.map(|name| name.map_or(Ok(None), one)).collect::<SqlResult<Int64Array>>();
    found.map_err(|error| DataFusionError::External(Box::new(error)))
}

fn result_number(routine: &Routine) -> u32 {
    match &routine.result {
        ResultOf::Procedure | ResultOf::Void => VOID,
        ResultOf::Trigger => TRIGGER,
        ResultOf::One(of) | ResultOf::SetOf(of) => type_number(*of),
        ResultOf::Table(columns) if columns.len() == 1 => type_number(columns[0].1),
        ResultOf::RowOf(_)
        | ResultOf::SetOfRows(_)
        | ResultOf::Table(_)
        | ResultOf::Record(_)
        | ResultOf::OpenRecord
        | ResultOf::SetOfOpenRecords => RECORD,
    }
}

/// An array as its text.
fn array(elements: impl Iterator<Item = String>) -> String {
    base::text::array::display(&elements.map(Some).collect::<Vec<_>>())
}

/// A column of a routine's row in `pg_proc`; `None` is null. Of a list, its elements.
pub(super) fn field(context: &Context<'_>, routine: &Routine, name: &str) -> Option<Vec<String>> {
    let one = |text: String| Some(vec![text]);
    let is_aggregate = routine.aggregate().is_some();
    match name {
        "oid" => one(oid(routine.id).to_string()),
        "proname" => one(routine.name.clone()),
        "pronamespace" => one(schema_oid(context, &routine.schema).to_string()),
        "proowner" => one(owner(context, routine).to_string()),
        "prolang" => one(language(routine).1.to_string()),
        "procost" => one(routine
            .estimates
            .cost
            .clone()
            .unwrap_or_else(|| if is_aggregate { "1" } else { "100" }.into())),
        "prorows" => {
            let default = if routine.is_set() { "1000" } else { "0" };
            one(routine.estimates.rows.clone().unwrap_or_else(|| default.into()))
        }
        "provariadic" => {
            let last = routine.parameters.last().filter(|_| routine.is_variadic);
            one(last.map_or(0, |last| element_number(last.of)).to_string())
        }
        "prosupport" => one("-".into()),
        "prokind" => one(match routine.aggregate() {
            Some(_) => "a",
            None if routine.is_procedure() => "p",
            None => "f",
        }
        .into()),
        "prosecdef" => one(routine.is_definer.to_string()),
        "proleakproof" => one(routine.is_leakproof.to_string()),
        "proisstrict" => one(routine.is_strict.to_string()),
        "proretset" => one(routine.is_set().to_string()),
        "provolatile" => one(match routine.volatility {
            Volatility::Immutable => "i",
            Volatility::Stable => "s",
            Volatility::Volatile => "v",
        }
        .into()),
        "proparallel" => one(match routine.parallel {
            Parallel::Safe => "s",
            Parallel::Restricted => "r",
            Parallel::Unsafe => "u",
        }
        .into()),
        "pronargs" => one(routine.parameters.len().to_string()),
        "pronargdefaults" => one((routine.parameters.len() - routine.required()).to_string()),
        "prorettype" => one(result_number(routine).to_string()),
        "proargtypes" => Some(routine.types().map(|of| type_number(of).to_string()).collect()),
        "proallargtypes" | "proargmodes" | "proargnames" => of_arguments(routine, name),
        "proargdefaults" if routine.required() < routine.parameters.len() => {
            let defaults = routine.parameters.iter().filter_map(|parameter| parameter.default.clone());
            one(defaults.collect::<Vec<_>>().join(", "))
        }
        "prosrc" if is_aggregate => one("aggregate_dummy".into()),
        "prosrc" => one(if routine.is_standard { String::new() } else { routine.body.clone() }),
        "prosqlbody" => standard_body(routine).map(|body| vec![body]),
        "proacl" => acl(context, routine),
        _ => None,
    }
}

/// A list about all arguments; `None` where it would say nothing that is not known without it.
fn of_arguments(routine: &Routine, name: &str) -> Option<Vec<String>> {
    let all = routine.arguments();
    let is_told = match name {
        "proargnames" => all.iter().any(|argument| argument.name.is_some()),
        _ => all.iter().any(|argument| argument.mode != Mode::In),
    };
    let one = |argument: &ArgumentOf<'_>| match (name, argument.mode) {
        ("proargnames", _) => argument.name.unwrap_or_default().to_string(),
        ("proallargtypes", _) => type_number(argument.of).to_string(),
        (_, Mode::In) => "i".into(),
        (_, Mode::Variadic) => "v".into(),
        (_, Mode::InOut) => "b".into(),
        (_, Mode::Out) => "o".into(),
        (_, Mode::Column) => "t".into(),
    };
    is_told.then(|| vec![array(all.iter().map(one))])
}

fn owner(context: &Context<'_>, routine: &Routine) -> u32 {
    context.catalog.roles.owner_of(&Object::Relation(routine.id)).0
}

/// Entries of the access control list; `None` while everybody may call it, as from the beginning.
fn acl(context: &Context<'_>, routine: &Routine) -> Option<Vec<String>> {
    privileges::of_routine(context, &Object::Relation(routine.id))
}

/// A function whose privileges were never changed grants what PostgreSQL's would.
pub(super) fn dumped(context: &Context<'_>) -> Made {
    let mut made = Made::new(&[
        ("tableoid", INT),
        ("oid", INT),
        ("proname", TEXT),
        ("prolang", INT),
        ("pronargs", INT),
        ("proargtypes", TEXT),
        ("prorettype", INT),
        ("proacl", TEXT),
        ("acldefault", TEXT),
        ("pronamespace", INT),
        ("proowner", INT),
        ("prokind", TEXT),
    ]);
    for routine in context.catalog.routines.0.values() {
        let types: Vec<String> = routine.types().map(|of| type_number(of).to_string()).collect();
        let default = privileges::default_list(context, "f", base::roles::RoleId(owner(context, routine)));
        let list = acl(context, routine).map(|entries| format!("{{{}}}", entries.join(",")));
        made.rows.push(vec![
            Datum::Int(PROC.into()),
            Datum::Int(oid(routine.id).into()),
            Datum::text(&routine.name),
            Datum::Int(language(routine).1.into()),
            Datum::Int(routine.parameters.len() as i64),
            Datum::text(types.join(" ")),
            Datum::Int(result_number(routine).into()),
            list.map_or(Datum::Null, Datum::text),
            default.map_or(Datum::Null, Datum::text),
            Datum::Int(schema_oid(context, &routine.schema).into()),
            Datum::Int(owner(context, routine).into()),
            Datum::text(if routine.aggregate().is_some() { "a" } else { "f" }),
        ]);
    }
    made
}

/// One routine, as `pg_dump` asks for it by its number.
pub(super) fn dumped_details(context: &Context<'_>) -> Made {
    let mut made = Made::new(&[
        ("oid", INT),
        ("proretset", BOOL),
        ("prosrc", TEXT),
        ("probin", TEXT),
        ("provolatile", TEXT),
        ("proisstrict", BOOL),
        ("prosecdef", BOOL),
        ("lanname", TEXT),
        ("proconfig", TEXT),
        ("procost", TEXT),
        ("prorows", TEXT),
        ("funcargs", TEXT),
        ("funciargs", TEXT),
        ("funcresult", TEXT),
        ("protrftypes", TEXT),
        ("proleakproof", BOOL),
        ("proparallel", TEXT),
        ("prokind", TEXT),
        ("prosupport", TEXT),
        ("prosqlbody", TEXT),
    ]);
    for routine in context.catalog.routines.0.values() {
        let of = |name: &str| field(context, routine, name).and_then(|values| values.into_iter().next());
        let shown = |name: &str| of(name).map_or(Datum::Null, Datum::text);
        let flag = |name: &str| Datum::Bool(of(name).as_deref() == Some("true"));
        made.rows.push(vec![
            Datum::Int(oid(routine.id).into()),
            flag("proretset"),
            shown("prosrc"),
            Datum::Null,
            shown("provolatile"),
            flag("proisstrict"),
            flag("prosecdef"),
            Datum::text(language(routine).0),
            Datum::Null,
            shown("procost"),
            shown("prorows"),
            Datum::text(arguments(context, routine, true)),
            Datum::text(arguments(context, routine, false)),
            result(context, routine).map_or(Datum::Null, Datum::text),
            Datum::Null,
            flag("proleakproof"),
            shown("proparallel"),
            shown("prokind"),
            Datum::text("-"),
            shown("prosqlbody"),
        ]);
    }
    made
}

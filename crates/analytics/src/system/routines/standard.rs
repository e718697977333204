//! `information_schema.routines` and `parameters`.

use super::super::Made;
use super::super::type_descriptions::described;
use super::language;
use crate::context::Context;
use base::routines::{Language, Mode, ResultOf, Routine, TypeOf, Volatility};
use base::{DataType, Datum};
use sql::lower::oid;

const TEXT: DataType = DataType::Text;
const INT: DataType = DataType::Integer;

/// A view of `information_schema` about routines; `None` if there is none of this name.
pub(in crate::system) fn information_schema(context: &Context<'_>, name: &str) -> Option<Made> {
    match name {
        "routines" => Some(all(context)),
        "parameters" => Some(parameters(context)),
        _ => None,
    }
}

/// The name that tells routines of one name apart.
fn specific(routine: &Routine) -> String {
    format!("{}_{}", routine.name, oid(routine.id))
}

/// A type, and its short name.
fn described_type(of: TypeOf) -> (Datum, Datum) {
    if let Some(any) = of.any {
        return (Datum::text(any.name()), Datum::text(any.name()));
    }
    let [data_type, ..] = described(of.data_type);
    (data_type, Datum::text(sql::lower::short_type_name(of.data_type)))
}

fn all(context: &Context<'_>) -> Made {
    let mut made = Made::new(&[
        ("specific_catalog", TEXT),
        ("specific_schema", TEXT),
        ("specific_name", TEXT),
        ("routine_catalog", TEXT),
        ("routine_schema", TEXT),
        ("routine_name", TEXT),
        ("routine_type", TEXT),
        ("data_type", TEXT),
        ("type_udt_catalog", TEXT),
        ("type_udt_schema", TEXT),
        ("type_udt_name", TEXT),
        ("routine_body", TEXT),
        ("routine_definition", TEXT),
        ("external_language", TEXT),
        ("is_deterministic", TEXT),
        ("sql_data_access", TEXT),
        ("is_null_call", TEXT),
        ("schema_level_routine", TEXT),
        ("security_type", TEXT),
    ]);
    for routine in context.catalog.routines.0.values() {
        let (data_type, name) = match &routine.result {
            ResultOf::Procedure => (Datum::Null, Datum::Null),
            ResultOf::One(of) | ResultOf::SetOf(of) => described_type(*of),
            ResultOf::Void => (Datum::text("void"), Datum::text("void")),
            ResultOf::Trigger => (Datum::text("trigger"), Datum::text("trigger")),
            _ => (Datum::text("record"), Datum::text("record")),
        };
        let yes = |is: bool| Datum::text(if is { "YES" } else { "NO" });
        let udt = |value: &str| if name.is_null() { Datum::Null } else { Datum::text(value) };
        let row = vec![
            Datum::text(context.database),
            Datum::text(&routine.schema),
            Datum::text(specific(routine)),
            Datum::text(context.database),
            Datum::text(&routine.schema),
            Datum::text(&routine.name),
            match routine.aggregate() {
                Some(_) => Datum::Null,
                None => Datum::text(routine.kind().to_uppercase()),
            },
            data_type,
            udt(context.database),
            udt("pg_catalog"),
            name.clone(),
            Datum::text(if routine.language == Language::Sql { "SQL" } else { "EXTERNAL" }),
            if routine.is_standard { Datum::Null } else { Datum::text(&routine.body) },
            Datum::text(language(routine).0.to_uppercase()),
            yes(routine.volatility == Volatility::Immutable),
            Datum::text("MODIFIES"),
            if routine.is_procedure() { Datum::Null } else { yes(routine.is_strict) },
            yes(true),
            Datum::text(if routine.is_definer { "DEFINER" } else { "INVOKER" }),
        ];
        made.rows.push(row);
    }
    made
}

fn parameters(context: &Context<'_>) -> Made {
    let mut made = Made::new(&[
        ("specific_catalog", TEXT),
        ("specific_schema", TEXT),
        ("specific_name", TEXT),
        ("ordinal_position", INT),
        ("parameter_mode", TEXT),
        ("is_result", TEXT),
        ("as_locator", TEXT),
        ("parameter_name", TEXT),
        ("data_type", TEXT),
        ("udt_catalog", TEXT),
        ("udt_schema", TEXT),
        ("udt_name", TEXT),
        ("parameter_default", TEXT),
    ]);
    for routine in context.catalog.routines.0.values() {
        for (nth, argument) in routine.arguments().into_iter().enumerate() {
            let (data_type, udt_name) = described_type(argument.of);
            let or_null = |text: Option<&str>| text.map_or(Datum::Null, Datum::text);
            let mode = match argument.mode {
                Mode::In | Mode::Variadic => "IN",
                Mode::InOut => "INOUT",
                Mode::Out | Mode::Column => "OUT",
            };
            made.rows.push(vec![
                Datum::text(context.database),
                Datum::text(&routine.schema),
                Datum::text(specific(routine)),
                Datum::Int(nth as i64 + 1),
                Datum::text(mode),
                Datum::text("NO"),
                Datum::text("NO"),
                or_null(argument.name),
                data_type,
                Datum::text(context.database),
                Datum::text("pg_catalog"),
                udt_name,
                or_null(argument.default),
            ]);
        }
    }
    made
}

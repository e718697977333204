//! What the catalog shows of domains: rows of `pg_type`, definitions, `information_schema.domains`.

use super::Made;
use super::pg_tables::schema_oid;
use super::type_descriptions::{described, type_length};
use crate::context::Context;
use base::domain::Domain;
use base::identifier::quoted;
use base::roles::Object;
use base::schema::Check;
use base::{DataType, Datum, TableId};
use sql::lower::{FIRST_OID, oid};
use sql::types::{type_modifier, type_oid};
use std::sync::Arc;

const TEXT: DataType = DataType::Text;
const INT: DataType = DataType::Integer;

/// The domain of an object id.
pub(super) fn domain_of<'a>(context: &Context<'a>, number: i64) -> Option<&'a Arc<Domain>> {
    let id = u32::try_from(number).ok()?.checked_sub(FIRST_OID)?;
    context.catalog.types.domains.get(&TableId(id))
}

/// Whether a domain is found without its schema.
pub(super) fn is_visible(context: &Context<'_>, domain: &Domain) -> bool {
    let types = &context.catalog.types;
    let first = context.search_path.iter().find(|schema| types.has(schema, &domain.name));
    first.is_some_and(|schema| *schema == domain.schema)
}

/// `format_type` of a domain.
pub(super) fn shown(context: &Context<'_>, domain: &Domain) -> String {
    match is_visible(context, domain) {
        true => quoted(&domain.name),
        false => qualified(domain),
    }
}

/// The name with the schema, quoted where they have to be.
pub(super) fn qualified(domain: &Domain) -> String {
    format!("{}.{}", quoted(&domain.schema), quoted(&domain.name))
}

/// A column of a domain's row in `pg_type`, as text; `None` is null.
pub(super) fn type_field(context: &Context<'_>, domain: &Domain, name: &str) -> Option<String> {
    let (length, of) = (type_length(domain.data_type), domain.data_type);
    Some(match name {
        "oid" => oid(domain.id).to_string(),
        "typname" => domain.name.clone(),
        "typnamespace" => schema_oid(context, &domain.schema).to_string(),
        "typowner" => context.catalog.roles.owner_of(&Object::Relation(domain.id)).0.to_string(),
        "typlen" => length.to_string(),
        "typbyval" => (1..=8).contains(&length).to_string(),
        "typtype" => "d".into(),
        "typcategory" => category(of).into(),
        "typispreferred" => "false".into(),
        "typisdefined" => "true".into(),
        "typdelim" => ",".into(),
        "typarray" | "typelem" | "typrelid" => "0".into(),
        "typinput" => "domain_in".into(),
        "typreceive" => "domain_recv".into(),
        "typoutput" => format!("{}out", functions_of(of)),
        "typsend" => format!("{}send", functions_of(of)),
        "typsubscript" | "typmodin" | "typmodout" | "typanalyze" => "-".into(),
        "typalign" => "i".into(),
        "typstorage" => if length > 0 { "p" } else { "x" }.into(),
        "typnotnull" => domain.not_null.to_string(),
        "typbasetype" => type_oid(of).to_string(),
        "typtypmod" => type_modifier(of).to_string(),
        "typndims" => i32::from(matches!(of, DataType::Array(_))).to_string(),
        "typcollation" => if category(of) == "S" { "100" } else { "0" }.into(),
        "typdefault" | "typdefaultbin" => return domain.default.clone(),
        _ => return None,
    })
}

/// The letter of `typcategory`.
fn category(of: DataType) -> &'static str {
    use DataType as T;
    match of {
        T::SmallInt | T::Integer | T::BigInt | T::Numeric { .. } | T::Real | T::Double => "N",
        T::Text | T::Varchar { .. } | T::Char { .. } => "S",
        T::Boolean => "B",
        T::Date | T::Time | T::Timestamp | T::TimestampTz => "D",
        T::Interval => "T",
        T::Array(_) => "A",
        _ => "U",
    }
}

/// What the names of a type's functions begin with.
fn functions_of(of: DataType) -> String {
    use DataType as T;
    let name = sql::lower::short_type_name(of);
    match of {
        T::Array(_) => "array_".into(),
        T::Boolean | T::SmallInt | T::Integer | T::BigInt | T::Real | T::Double | T::Bytea => name,
        T::Text | T::Varchar { .. } | T::Char { .. } => name,
        _ => format!("{name}_"),
    }
}

/// A constraint's definition as SQL.
pub(super) fn check_definition(check: &Check) -> String {
    let sql = sql::parse::with_attributes(&check.sql);
    format!("CHECK ({sql}){}", if check.is_validated { "" } else { " NOT VALID" })
}

/// Definitions of a domain's constraints, for clients that gather them in one value.
pub(super) fn checks(context: &Context<'_>, number: i64) -> Option<Vec<String>> {
    let domain = domain_of(context, number)?;
    let mut checks: Vec<_> = domain.checks.iter().collect();
    checks.sort_by(|a, b| a.name.cmp(&b.name));
    Some(checks.into_iter().map(check_definition).collect())
}

/// A view of `information_schema` about domains; `None` if there is none of this name.
pub(super) fn information_schema(context: &Context<'_>, name: &str) -> Option<Made> {
    match name {
        "domains" => Some(domains(context)),
        "domain_constraints" => Some(domain_constraints(context)),
        _ => None,
    }
}

fn domains(context: &Context<'_>) -> Made {
    let mut made = Made::new(&[
        ("domain_catalog", TEXT),
        ("domain_schema", TEXT),
        ("domain_name", TEXT),
        ("data_type", TEXT),
        ("character_maximum_length", INT),
        ("numeric_precision", INT),
        ("numeric_scale", INT),
        ("datetime_precision", INT),
        ("domain_default", TEXT),
        ("udt_catalog", TEXT),
        ("udt_schema", TEXT),
        ("udt_name", TEXT),
    ]);
    for domain in context.catalog.types.domains.values() {
        let [data_type, length, precision, scale, moment] = described(domain.data_type);
        made.rows.push(vec![
            Datum::text(context.database),
            Datum::text(&domain.schema),
            Datum::text(&domain.name),
            data_type,
            length,
            precision,
            scale,
            moment,
            domain.default.as_ref().map_or(Datum::Null, Datum::text),
            Datum::text(context.database),
            Datum::text("pg_catalog"),
            Datum::text(sql::lower::short_type_name(domain.data_type)),
        ]);
    }
    made
}

fn domain_constraints(context: &Context<'_>) -> Made {
    let mut made = Made::new(&[
        ("constraint_catalog", TEXT),
        ("constraint_schema", TEXT),
        ("constraint_name", TEXT),
        ("domain_catalog", TEXT),
        ("domain_schema", TEXT),
        ("domain_name", TEXT),
        ("is_deferrable", TEXT),
        ("initially_deferred", TEXT),
    ]);
    for domain in context.catalog.types.domains.values() {
        for check in &domain.checks {
            let words = [
                context.database,
                &domain.schema,
                &check.name,
                context.database,
                &domain.schema,
                &domain.name,
                "NO",
                "NO",
            ];
            made.rows.push(words.iter().map(Datum::text).collect());
        }
    }
    made
}

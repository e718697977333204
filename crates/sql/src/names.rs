//! Names and types as they are written: identifiers, qualified names, type names.

use crate::temporary;
use crate::types::{OBJECT_ID_OID, ParameterType};
use crate::walk;
use base::domain::Domain;
use base::element::Element;
use base::error::{SqlResult, SqlState};
use base::schema::{Catalog, Table};
use base::views::Relation;
use base::{DataType, SqlError};
use sqlparser::ast::{
    ArrayElemTypeDef, CharacterLength, DataType as Ast, ExactNumberInfo, Expr, Ident, ObjectName,
    ObjectNamePart, Statement, TimezoneInfo,
};
use sqlparser::keywords::{RESERVED_FOR_COLUMN_ALIAS, RESERVED_FOR_TABLE_ALIAS};
use sqlparser::tokenizer::Token;
use std::ops::ControlFlow;
use std::sync::Arc;

/// An identifier as the catalog has it: folded to small letters unless it was quoted.
pub fn fold(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

/// The value of a setting that is given as these elements. A list of names has them in quotes where they need them.
pub fn setting_value(name: &str, elements: impl Iterator<Item = String>) -> String {
    let is_of_names = name.eq_ignore_ascii_case("search_path");
    let one = |element: String| if is_of_names { base::identifier::quoted(&element) } else { element };
    elements.map(one).collect::<Vec<_>>().join(", ")
}

/// Names with commas between them; `None`: the text is no such list.
pub fn listed(text: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (name, after) = match rest.strip_prefix('"') {
            Some(quoted) => until_quote(quoted)?,
            None => {
                let end = rest.find(|c: char| c == ',' || c.is_whitespace()).unwrap_or(rest.len());
                let (name, after) = rest.split_at(end);
                (Some(name.to_lowercase()).filter(|name| !name.is_empty())?, after)
            }
        };
        let after = after.trim_start();
        rest = match after.strip_prefix(',') {
            // A comma has a name on either side.
            Some(more) => Some(more.trim_start()).filter(|more| !more.is_empty())?,
            None if after.is_empty() => after,
            None => return None,
        };
        names.push(name);
    }
    Some(names)
}

/// A quoted name up to its end, and what comes behind it.
pub(crate) fn until_quote(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut rest = text;
    loop {
        let (part, after) = rest.split_once('"')?;
        name.push_str(part);
        let Some(more) = after.strip_prefix('"') else { return Some((name, after)) };
        name.push('"');
        rest = more;
    }
}

/// The parts of a dotted name.
pub fn parts(name: &ObjectName) -> SqlResult<Vec<String>> {
    name.0
        .iter()
        .map(|part| match part {
            ObjectNamePart::Identifier(ident) => Ok(fold(ident)),
            ObjectNamePart::Function(_) => Err(SqlError::unsupported(format!("the name {name}"))),
        })
        .collect()
}

/// Schema (if given) and name. A database in front is accepted if it is this one.
pub fn qualified(name: &ObjectName, database: &str) -> SqlResult<(Option<String>, String)> {
    let mut parts = parts(name)?;
    let last = parts.pop().expect("a name has a part");
    match parts.as_slice() {
        [] => Ok((None, last)),
        [schema] => Ok((Some(schema.clone()), last)),
        [db, schema] if db == database => Ok((Some(schema.clone()), last)),
        _ => Err(cross_database(&name.to_string())),
    }
}

/// A name says another database than the session's.
pub fn cross_database(name: &str) -> SqlError {
    let told = format!("cross-database references are not implemented: {name}");
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, told)
}

/// Finds a table along the search path. Errors: 42P01 with the name as written.
pub fn find_table<'c>(
    catalog: &'c Catalog,
    search_path: &[String],
    database: &str,
    name: &ObjectName,
) -> SqlResult<&'c Arc<Table>> {
    let (schema, table) = qualified(name, database)?;
    let mut schemas = temporary::schemas(schema.as_deref(), search_path);
    let found = schemas.find_map(|schema| catalog.table_named(schema, &table));
    drop(schemas);
    found.ok_or_else(|| {
        if find_relation(catalog, search_path, database, name).is_some() {
            return SqlError::new(SqlState(*b"42809"), format!("\"{table}\" is not a table"));
        }
        let shown = schema.map_or_else(|| table.clone(), |s| format!("{s}.{table}"));
        let mut error =
            SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{shown}\" does not exist"));
        error.position = position_of(name);
        error
    })
}

/// Finds a table or a view along the search path.
pub fn find_relation<'c>(
    catalog: &'c Catalog,
    search_path: &[String],
    database: &str,
    name: &ObjectName,
) -> Option<Relation<'c>> {
    let (schema, relation) = qualified(name, database).ok()?;
    temporary::schemas(schema.as_deref(), search_path)
        .find_map(|schema| catalog.relation_named(schema, &relation))
}

/// Where a name stands in a statement of one line; PostgreSQL counts characters of the whole text.
pub fn position_of(name: &ObjectName) -> Option<u32> {
    match name.0.first() {
        Some(ObjectNamePart::Identifier(ident)) => ident_position(ident),
        _ => None,
    }
}

/// Character position (from 1), known on the statement's first line.
pub fn ident_position(ident: &Ident) -> Option<u32> {
    let start = ident.span.start;
    (start.line == 1).then_some(start.column as u32)
}

/// A type name. Errors: 0A000 for types that are not built yet, 42704 for unknown ones.
pub fn data_type(ast: &Ast) -> SqlResult<DataType> {
    let length = |length: &Option<CharacterLength>| match length {
        None => Ok(None),
        Some(CharacterLength::IntegerLength { length, .. }) => {
            u32::try_from(*length).ok().filter(|n| (1..=10_485_760).contains(n)).map(Some).ok_or_else(|| {
                SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "length for type varchar must be at least 1")
            })
        }
        Some(CharacterLength::Max) => Ok(None),
    };
    Ok(match ast {
        Ast::Boolean | Ast::Bool => DataType::Boolean,
        Ast::SmallInt(_) | Ast::Int2(_) | Ast::TinyInt(_) => DataType::SmallInt,
        Ast::Int(_) | Ast::Integer(_) | Ast::Int4(_) => DataType::Integer,
        Ast::BigInt(_) | Ast::Int8(_) => DataType::BigInt,
        Ast::Real | Ast::Float4 => DataType::Real,
        Ast::DoublePrecision | Ast::Float8 | Ast::Double(_) => DataType::Double,
        Ast::Float(ExactNumberInfo::Precision(bits)) if *bits <= 24 => DataType::Real,
        Ast::Float(_) => DataType::Double,
        Ast::Numeric(info) | Ast::Decimal(info) | Ast::Dec(info) => numeric(info)?,
        Ast::Text | Ast::String(_) => DataType::Text,
        Ast::Varchar(n) | Ast::CharacterVarying(n) | Ast::CharVarying(n) => match length(n)? {
            Some(length) => DataType::Varchar { length },
            None => DataType::Text,
        },
        Ast::Char(n) | Ast::Character(n) => DataType::Char { length: length(n)?.unwrap_or(1) },
        Ast::Date => DataType::Date,
        Ast::Timestamp(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => DataType::Timestamp,
        Ast::Timestamp(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => DataType::TimestampTz,
        Ast::Uuid => DataType::Uuid,
        Ast::Bytea => DataType::Bytea,
        Ast::Custom(name, arguments) => return custom(name, arguments),
        Ast::JSON => DataType::Json,
        Ast::JSONB => DataType::Jsonb,
        Ast::TsVector => DataType::TsVector,
        Ast::TsQuery => DataType::TsQuery,
        Ast::Interval { fields: None, precision: None | Some(6) } => DataType::Interval,
        Ast::Time(None | Some(6), TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => DataType::Time,
        Ast::Time(None | Some(6), TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => DataType::TimeTz,
        Ast::Array(of) => return array(of, ast),
        other => return Err(SqlError::unsupported(format!("type {}", other.to_string().to_lowercase()))),
    })
}

/// Whether a type has fewer digits behind the seconds than all: what is cast to it is rounded.
pub fn is_rounded(ast: &Ast) -> bool {
    let digits = match ast {
        Ast::Timestamp(digits, _) | Ast::Time(digits, _) | Ast::Interval { precision: digits, .. } => digits,
        _ => return false,
    };
    digits.is_some_and(|digits| digits < 6)
}

/// An array: of one dimension, whatever length is written. Errors: 0A000 for more dimensions.
fn array(of: &ArrayElemTypeDef, all: &Ast) -> SqlResult<DataType> {
    let (ArrayElemTypeDef::SquareBracket(of, _)
    | ArrayElemTypeDef::AngleBracket(of)
    | ArrayElemTypeDef::Parenthesis(of)) = of
    else {
        return Err(SqlError::unsupported(format!("type {}", all.to_string().to_lowercase())));
    };
    if let Some(domain) = domain(of) {
        return Err(SqlError::unsupported(format!("arrays of domains, as of {}", domain.name)));
    }
    let of = data_type(of)?;
    if let DataType::Composite(of) = of {
        return Err(SqlError::unsupported(format!("arrays of composite types, as of {}", of.name())));
    }
    Element::of(of)
        .map(DataType::Array)
        .ok_or_else(|| SqlError::unsupported("arrays of more than one dimension"))
}

fn numeric(info: &ExactNumberInfo) -> SqlResult<DataType> {
    let (precision, scale) = match info {
        ExactNumberInfo::None => return Ok(crate::types::NUMERIC),
        ExactNumberInfo::Precision(precision) => (*precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
    };
    match (u8::try_from(precision), u8::try_from(scale)) {
        (Ok(precision @ 1..=38), Ok(scale)) if scale <= precision => {
            Ok(DataType::Numeric { precision, scale })
        }
        (Ok(39..) | Err(_), _) if precision <= 1000 => {
            Err(SqlError::unsupported(format!("numeric with a precision of {precision} (the limit is 38)")))
        }
        _ => Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("NUMERIC precision {precision} and scale {scale} are not valid"),
        )),
    }
}

/// `serial` and its kin are columns with a sequence; as types they are their integers.
fn custom(name: &ObjectName, _arguments: &[String]) -> SqlResult<DataType> {
    let parts = parts(name)?;
    let word = parts.last().map(String::as_str).unwrap_or_default();
    let schema = parts.len().checked_sub(2).map(|at| parts[at].as_str()).filter(|s| *s != "pg_catalog");
    if let Some(schema) = schema {
        return made_by_users(Some(schema), word).ok_or_else(|| undefined(name, &format!("{schema}.{word}")));
    }
    Ok(match word {
        "smallserial" | "serial2" => DataType::SmallInt,
        "serial" | "serial4" => DataType::Integer,
        "bigserial" | "serial8" => DataType::BigInt,
        "bpchar" | "text" => DataType::Text,
        "name" => DataType::Varchar { length: 63 },
        "timestamptz" => DataType::TimestampTz,
        "int2" => DataType::SmallInt,
        "int4" => DataType::Integer,
        "int8" => DataType::BigInt,
        "float4" => DataType::Real,
        "float8" => DataType::Double,
        "bool" => DataType::Boolean,
        "json" => DataType::Json,
        "jsonb" => DataType::Jsonb,
        "inet" => DataType::Inet,
        "cidr" => DataType::Cidr,
        "macaddr" => DataType::MacAddr,
        "macaddr8" => DataType::MacAddr8,
        "timetz" => DataType::TimeTz,
        "tsvector" => DataType::TsVector,
        "tsquery" => DataType::TsQuery,
        // The name of a configuration for full-text search stands for it.
        "regconfig" => DataType::Text,
        // The name of a cursor stands for it.
        "refcursor" => DataType::Text,
        "interval" => DataType::Interval,
        "time" => DataType::Time,
        "jsonpath" | "money" | "xml" | "bit" | "varbit" | "point" | "line" | "box" | "path" | "polygon"
        | "circle" | "hstore" | "citext" | "oid" | "regclass" | "regtype" | "regproc" | "regprocedure"
        | "int4range" | "int8range" | "tsrange" => {
            return Err(SqlError::unsupported(format!("type {word}")));
        }
        _ => return made_by_users(None, word).ok_or_else(|| undefined(name, word)),
    })
}

/// A type of users: of a domain, its base type.
fn made_by_users(schema: Option<&str>, name: &str) -> Option<DataType> {
    let of_domain = || crate::user_types::domain_named(schema, name).map(|domain| domain.data_type);
    crate::user_types::named(schema, name).or_else(of_domain)
}

/// The domain that a type name means. As a type it is its base type.
pub fn domain(ast: &Ast) -> Option<Arc<Domain>> {
    let Ast::Custom(name, _) = ast else { return None };
    let parts = parts(name).ok()?;
    let (word, before) = parts.split_last()?;
    let found = crate::user_types::domain_named(before.last().map(String::as_str), word)?;
    // What PostgreSQL has under the name goes first.
    data_type(ast).is_ok_and(|of| of == found.data_type).then_some(found)
}

fn undefined(name: &ObjectName, shown: &str) -> SqlError {
    let mut error = SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{shown}\" does not exist"));
    error.position = position_of(name);
    error
}

/// The type of a parameter that PREPARE declares: an object id beside what [`data_type`] knows, an array by its elements.
pub fn parameter_type(ast: &Ast) -> SqlResult<ParameterType> {
    match ast.to_string().to_lowercase().as_str() {
        "oid" | "pg_catalog.oid" => {
            Ok(ParameterType { announced: Some(OBJECT_ID_OID), ..DataType::BigInt.into() })
        }
        _ => data_type(ast).map(|data_type| match data_type {
            DataType::Array(of) => ParameterType { is_array: true, ..of.data_type().into() },
            other => other.into(),
        }),
    }
}

/// Whether a type name asks for a sequence of its own.
pub fn is_serial(ast: &Ast) -> bool {
    let Ast::Custom(name, _) = ast else { return false };
    matches!(
        parts(name).ok().and_then(|p| p.last().cloned()).as_deref(),
        Some("smallserial" | "serial2" | "serial" | "serial4" | "bigserial" | "serial8")
    )
}
/// Whether a type is `numeric` without precision: whatever is cast to it keeps its digits.
pub fn is_unlimited_numeric(data_type: &Ast) -> bool {
    let (Ast::Numeric(limits) | Ast::Decimal(limits) | Ast::Dec(limits)) = data_type else { return false };
    *limits == ExactNumberInfo::None
}

/// Whether a statement names a type that a user made, where the thread knows it.
pub fn are_types_named_in(statement: &Statement) -> bool {
    if !crate::user_types::has_some() {
        return false;
    }
    walk::expressions(statement, |e| {
        let written = match e {
            Expr::Cast { data_type, .. } => data_type,
            Expr::TypedString(typed) => &typed.data_type,
            _ => return ControlFlow::Continue(()),
        };
        match domain(written).is_some() || data_type(written).is_ok_and(|t| t.made_id().is_some()) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })
    .is_break()
}

/// The schema of a type that users made.
fn schema_of(written: &Ast) -> Option<String> {
    match data_type(written) {
        Ok(DataType::Enum(of)) => Some(of.description().schema.clone()),
        Ok(DataType::Composite(of)) => Some(of.description().schema.clone()),
        _ => domain(written).map(|domain| domain.schema.clone()),
    }
}

/// Writes out the schemas of types, in what is kept as text: it means the same under any search path.
pub(crate) fn qualify_types(tree: &mut impl walk::NodeMut) {
    let _: ControlFlow<()> = walk::expressions_mut(tree, |e| {
        let written = match e {
            Expr::Cast { data_type, .. } => data_type,
            Expr::TypedString(typed) => &mut typed.data_type,
            _ => return ControlFlow::Continue(()),
        };
        let mut written = written;
        while let Ast::Array(ArrayElemTypeDef::SquareBracket(of, _)) = written {
            written = of;
        }
        if let Ast::Custom(name, _) = &*written
            && let Ok([word]) = parts(name).as_deref()
            && let Some(schema) = schema_of(written)
        {
            let parts = [schema, word.clone()].map(|part| Ident::with_quote('"', part));
            *written = Ast::Custom(ObjectName::from(parts.to_vec()), Vec::new());
        }
        ControlFlow::Continue(())
    });
}

/// A name that is taken as it is.
pub fn quoted(name: &str) -> Ident {
    // The parser has words of its own.
    let is_name = || match Token::make_word(name, None) {
        Token::Word(word) => {
            name != "system_user"
                && !RESERVED_FOR_COLUMN_ALIAS.contains(&word.keyword)
                && !RESERVED_FOR_TABLE_ALIAS.contains(&word.keyword)
        }
        _ => false,
    };
    if base::identifier::is_plain(name) && is_name() {
        Ident::new(name)
    } else {
        Ident::with_quote('"', name)
    }
}

/// Whether a collation is by bytes, as all texts are ordered.
pub(crate) fn is_bytewise(name: &ObjectName) -> bool {
    let name = parts(name).ok().and_then(|mut parts| parts.pop());
    name.is_some_and(|name| ["C", "POSIX", "ucs_basic", "default"].contains(&name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_names_is_read_as_it_is_written() {
        let list = |names: &[&str]| Some(names.iter().map(|name| name.to_string()).collect::<Vec<_>>());
        for (text, wanted) in [
            ("", list(&[])),
            (" Own ,public", list(&["own", "public"])),
            (r#""$user", "My ""own"", one" , x"#, list(&["$user", r#"My "own", one"#, "x"])),
            (r#""""#, list(&[""])),
            ("a b", None),
            ("a,", None),
            (",a", None),
            ("a,,b", None),
            (r#""a"#, None),
            (r#""a"b"#, None),
        ] {
            assert_eq!(listed(text), wanted, "{text}");
        }
        let elements = ["$user", "My \"own\", one", "x", ""];
        let written = setting_value("Search_Path", elements.iter().map(|name| name.to_string()));
        assert_eq!(listed(&written), list(&elements));
        assert_eq!(setting_value("DateStyle", ["ISO", "MDY"].map(String::from).into_iter()), "ISO, MDY");
    }
}

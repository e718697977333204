//! Composite types: rows as values, with attributes that CREATE TYPE … AS has named.
//!
//! A value is kept as the array of its attributes' values ([`crate::Datum::Array`]), in their order: rows and keys store and
//! compare it attribute by attribute, a NULL behind every other value, which is the order that PostgreSQL gives rows. The
//! type's description says what the attributes are called and of which types they are.
//!
//! KEEPS: what a [`CompositeType`] refers to never changes; no two attributes of a type have one name.

use crate::error::{SqlError, SqlResult, SqlState};
use crate::identifier::quoted;
use crate::{DataType, Datum, TableId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Mutex;

/// What CREATE TYPE … AS (…) and ALTER TYPE have made of a type.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Composite {
    /// From the number space of tables.
    pub id: TableId,
    pub schema: String,
    pub name: String,
    /// In the order of declaration.
    pub attributes: Vec<Attribute>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Attribute {
    pub name: String,
    pub data_type: DataType,
}

/// What begins the name of the one field of a struct of Arrow's that holds such values.
const FIELD: &str = "composite ";

/// Attributes of a type, as many as PostgreSQL allows.
const ATTRIBUTES_MAX: usize = 1_600;

/// Composite types within each other: a stored value is read by recursion.
pub const DEPTH_MAX: usize = 8;

impl Composite {
    /// A new type. Errors: 42701 for a name that comes twice; 54000, 54011 for too many types in each other or attributes.
    pub fn new(
        id: TableId,
        schema: String,
        name: String,
        attributes: Vec<Attribute>,
    ) -> SqlResult<Composite> {
        if attributes.len() > ATTRIBUTES_MAX {
            let told = format!("tables can have at most {ATTRIBUTES_MAX} columns");
            return Err(SqlError::new(SqlState(*b"54011"), told));
        }
        for (at, attribute) in attributes.iter().enumerate() {
            if attributes[..at].iter().any(|before| before.name == attribute.name) {
                let told = format!("column \"{}\" specified more than once", attribute.name);
                return Err(SqlError::new(SqlState(*b"42701"), told));
            }
        }
        if attributes.iter().any(|attribute| depth(attribute.data_type) >= DEPTH_MAX) {
            let told = format!("composite types are within each other at most {DEPTH_MAX} deep");
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, told));
        }
        Ok(Composite { id, schema, name, attributes })
    }
}

/// Composite types within each other.
fn depth(data_type: DataType) -> usize {
    match data_type {
        DataType::Composite(of) => {
            1 + of.0.attributes.iter().map(|a| depth(a.data_type)).max().unwrap_or_default()
        }
        _ => 0,
    }
}

/// A description, small enough to be copied with a type. Types are the same if their ids are.
#[derive(Clone, Copy)]
pub struct CompositeType(&'static Composite);

/// Every description that was ever made a type, by its bytes: attributes' types are equal to others of the same id, however
/// these are described. Nothing is ever taken away.
static KEPT: Mutex<BTreeMap<Vec<u8>, &'static Composite>> = Mutex::new(BTreeMap::new());

impl CompositeType {
    pub fn of(what: Composite) -> CompositeType {
        let bytes = crate::codec::encode(&what);
        let mut kept = KEPT.lock().expect("nothing panics while it holds the lock");
        let known: &'static Composite = match kept.get(&bytes) {
            Some(known) => known,
            None => Box::leak(Box::new(what)),
        };
        kept.insert(bytes, known);
        CompositeType(known)
    }

    /// A type of which nothing else is known: its values order, but their attributes have no names.
    pub fn unknown(id: TableId) -> CompositeType {
        let (schema, name) = (String::new(), "?".into());
        CompositeType::of(Composite { id, schema, name, attributes: Vec::new() })
    }

    /// The name of the one field of Arrow's struct that holds values of the type.
    pub fn field(self) -> String {
        format!("{FIELD}{}", self.id().0)
    }

    /// The id in what [`CompositeType::field`] wrote; `None` for anything else.
    pub fn id_of_field(name: &str) -> Option<TableId> {
        name.strip_prefix(FIELD)?.parse().ok().map(TableId)
    }

    pub fn id(self) -> TableId {
        self.0.id
    }
    pub fn description(self) -> &'static Composite {
        self.0
    }
    pub fn attributes(self) -> &'static [Attribute] {
        &self.0.attributes
    }

    /// Number and type of an attribute, by its name.
    pub fn attribute(self, name: &str) -> Option<(usize, DataType)> {
        let at = self.0.attributes.iter().position(|attribute| attribute.name == name)?;
        Some((at, self.0.attributes[at].data_type))
    }

    /// The type of an attribute by its number; of one that is not known, text.
    pub fn type_at(self, at: usize) -> DataType {
        self.0.attributes.get(at).map_or(DataType::Text, |attribute| attribute.data_type)
    }

    /// The name as it has to be written to be found: with its schema, if that is another than `public`.
    pub fn name(self) -> String {
        match self.0.schema.as_str() {
            "public" | "" => quoted(&self.0.name),
            schema => format!("{}.{}", quoted(schema), quoted(&self.0.name)),
        }
    }

    /// The name with its schema, which means the same under any search path.
    pub fn qualified_name(self) -> String {
        format!("{}.{}", quoted(&self.0.schema), quoted(&self.0.name))
    }

    /// The type with another description of a type that attributes of it are of; itself if none is.
    pub(crate) fn retyped(self, to: DataType) -> CompositeType {
        if !self.0.attributes.iter().any(|attribute| attribute.data_type.has(to)) {
            return self;
        }
        let mut next = self.0.clone();
        for attribute in &mut next.attributes {
            attribute.data_type = attribute.data_type.retyped(to);
        }
        CompositeType::of(next)
    }

    /// A value whose attributes fit their types as on assignment. Errors: those of the attributes.
    pub(crate) fn coerce(self, values: &[Datum]) -> SqlResult<Datum> {
        let fitted = values.iter().enumerate().map(|(at, value)| self.type_at(at).coerce(value.clone()));
        Ok(Datum::Array(fitted.collect::<SqlResult<Vec<_>>>()?.into()))
    }
}

impl PartialEq for CompositeType {
    fn eq(&self, other: &CompositeType) -> bool {
        self.id() == other.id()
    }
}
impl Eq for CompositeType {}
impl PartialOrd for CompositeType {
    fn partial_cmp(&self, other: &CompositeType) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for CompositeType {
    fn cmp(&self, other: &CompositeType) -> Ordering {
        self.id().cmp(&other.id())
    }
}
impl Hash for CompositeType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}
impl fmt::Debug for CompositeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Composite({}, {})", self.0.name, self.id())
    }
}

/// Sent and stored as its description.
impl Serialize for CompositeType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}
impl<'de> Deserialize<'de> for CompositeType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<CompositeType, D::Error> {
        Composite::deserialize(deserializer).map(CompositeType::of)
    }
}

/// The fields of a row's text, `(1,"a b",)`; an empty one is NULL. Errors: 22P02.
pub fn parse(text: &str, count: usize) -> SqlResult<Vec<Option<String>>> {
    let malformed = |detail: &str| {
        let told = format!("malformed record literal: \"{text}\"");
        Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, told).detail(detail))
    };
    let mut rest = text.trim_start().chars().peekable();
    if rest.next_if_eq(&'(').is_none() {
        return malformed("Missing left parenthesis.");
    }
    let mut fields = Vec::with_capacity(count);
    // `()` is a row without fields for a type that has none.
    let mut is_over = count == 0 && rest.next_if_eq(&')').is_some();
    while !is_over {
        let (mut field, mut is_quoted, mut in_quotes) = (String::new(), false, false);
        loop {
            let Some(c) = rest.next() else { return malformed("Unexpected end of input.") };
            match c {
                '\\' => match rest.next() {
                    Some(c) => field.push(c),
                    None => return malformed("Unexpected end of input."),
                },
                '"' if !in_quotes => (is_quoted, in_quotes) = (true, true),
                '"' if rest.next_if_eq(&'"').is_some() => field.push('"'),
                '"' => in_quotes = false,
                ',' | ')' if !in_quotes => {
                    is_over = c == ')';
                    break;
                }
                c => field.push(c),
            }
        }
        if fields.len() == count {
            return malformed("Too many columns.");
        }
        fields.push((is_quoted || !field.is_empty()).then_some(field));
        if is_over && fields.len() < count {
            return malformed("Too few columns.");
        }
    }
    match rest.all(char::is_whitespace) {
        true => Ok(fields),
        false => malformed("Junk after right parenthesis."),
    }
}

/// The text of a row of such fields.
pub fn display(fields: &[Option<String>]) -> String {
    let mut text = String::from("(");
    for (at, field) in fields.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        let Some(field) = field else { continue };
        let is_special = |c: char| matches!(c, '"' | '\\' | '(' | ')' | ',') || is_space(c);
        if !field.is_empty() && !field.contains(is_special) {
            text.push_str(field);
            continue;
        }
        text.push('"');
        for c in field.chars() {
            if matches!(c, '"' | '\\') {
                text.push(c);
            }
            text.push(c);
        }
        text.push('"');
    }
    text.push(')');
    text
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> CompositeType {
        let attribute = |name: &str, data_type| Attribute { name: name.into(), data_type };
        let attributes = vec![attribute("a", DataType::Integer), attribute("b", DataType::Text)];
        let made = Composite::new(TableId(7), "public".into(), "pair".into(), attributes);
        CompositeType::of(made.unwrap())
    }

    #[test]
    fn texts_of_rows_are_postgresqls() {
        let data_type = DataType::Composite(pair());
        for (text, shown) in [
            ("(1,x)", "(1,x)"),
            (" ( 1,x) ", "(1,x)"),
            ("(,)", "(,)"),
            ("(,\"\")", "(,\"\")"),
            ("(1,a b)", "(1,\"a b\")"),
            ("(1,\"a\"\"b\\\\c\")", "(1,\"a\"\"b\\\\c\")"),
            ("(1,a\\,b)", "(1,\"a,b\")"),
            ("(1,\"(2,3)\")", "(1,\"(2,3)\")"),
        ] {
            let value = crate::text::parse(text, data_type).unwrap();
            assert_eq!(crate::text::display_as(&value, data_type), shown, "{text}");
        }
        for (text, detail) in [
            ("1,x)", "Missing left parenthesis."),
            ("(1)", "Too few columns."),
            ("(1,x,2)", "Too many columns."),
            ("(1,x", "Unexpected end of input."),
            ("(1,\"x)", "Unexpected end of input."),
            ("(1,x) y", "Junk after right parenthesis."),
        ] {
            let error = crate::text::parse(text, data_type).unwrap_err();
            assert_eq!(error.state, SqlState::INVALID_TEXT_REPRESENTATION);
            assert_eq!(error.detail.as_deref(), Some(detail), "{text}");
        }
        let error = crate::text::parse("(x,y)", data_type).unwrap_err();
        assert_eq!(error.message, "invalid input syntax for type integer: \"x\"");
    }

    #[test]
    fn a_type_travels_with_its_attributes_and_its_values_with_theirs() {
        let attributes = vec![
            Attribute { name: "p".into(), data_type: DataType::Composite(pair()) },
            Attribute { name: "n".into(), data_type: DataType::Boolean },
        ];
        let outer = Composite::new(TableId(8), "s".into(), "outer".into(), attributes).unwrap();
        let data_type = DataType::Composite(CompositeType::of(outer));
        let back: DataType = crate::codec::decode(&crate::codec::encode(&data_type)).unwrap();
        assert_eq!(back, data_type);
        let value = crate::text::parse("(\"(1,\"\"x y\"\")\",t)", back).unwrap();
        let row = crate::Row::of(&[value.clone(), Datum::Null]);
        let row = crate::Row::from_bytes(row.as_bytes()).unwrap();
        assert_eq!(row.to_vec(), [value.clone(), Datum::Null]);
        assert_eq!(crate::text::display_as(&value, back), "(\"(1,\"\"x y\"\")\",t)");
        assert_eq!(crate::json::text_of(&value, back), "{\"p\":{\"a\":1,\"b\":\"x y\"},\"n\":true}");
    }

    #[test]
    fn rows_are_in_the_order_of_their_attributes_and_null_is_last() {
        let rows = ["(1,a)", "(1,b)", "(1,)", "(2,)", "(,a)", "(,)"];
        let read = |text| crate::text::parse(text, DataType::Composite(pair())).unwrap();
        let keys = rows.map(|text| crate::Key::of(&[read(text)]));
        assert!(keys.is_sorted(), "{keys:?}");
        for (at, text) in rows.iter().enumerate() {
            for (other_at, other) in rows.iter().enumerate() {
                assert_eq!(read(text).compare(&read(other)), Some(at.cmp(&other_at)), "{text} {other}");
            }
        }
    }
}

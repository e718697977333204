//! Enumerated types: labels in an order that was declared, and the numbers that stand for them where values are kept.
//!
//! A value is kept as its label's *code* ([`crate::Datum::Int`]). Codes order as labels do, so rows, keys, indexes and
//! columns compare them as the numbers that they are. They are handed out with gaps: a label that is added between two
//! others gets a code between theirs, and no value that is stored has to change. A label can be renamed, its code stays.
//!
//! KEEPS: of one description, codes ascend and neither they nor the labels come twice; what an [`EnumType`] refers to
//! never changes.

use crate::TableId;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::identifier::quoted;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Mutex;

/// What CREATE TYPE … AS ENUM and ALTER TYPE have made of a type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Enumeration {
    /// From the number space of tables.
    pub id: TableId,
    pub schema: String,
    pub name: String,
    /// In the order of declaration.
    pub labels: Vec<Label>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Label {
    pub code: i64,
    pub text: String,
}

/// Where a new label goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position<'a> {
    End,
    Before(&'a str),
    After(&'a str),
}

/// Between the codes of labels that were declared one after the other: 20 labels fit between two, each beside the last.
const GAP: i64 = 1 << 20;

/// No time zone begins so.
const ZONE: &str = "enum ";

/// Bytes that PostgreSQL allows a label.
const LABEL_BYTES_MAX: usize = 63;

/// Labels of a type: a description travels with every column of its type and is kept as long as the process.
pub const LABELS_MAX: usize = 1_000;

impl Enumeration {
    /// A new type. Errors: 42602 for a label that is too long, 23505 for one that comes twice, 54000 for too many.
    pub fn new(id: TableId, schema: String, name: String, labels: Vec<String>) -> SqlResult<Enumeration> {
        check_count(labels.len())?;
        let mut seen = BTreeSet::new();
        for label in &labels {
            check_length(label)?;
            if !seen.insert(label) {
                let message = "duplicate key value violates unique constraint \"pg_enum_typid_label_index\"";
                return Err(SqlError::new(SqlState::UNIQUE_VIOLATION, message)
                    .detail(format!("The label \"{label}\" is there twice.")));
            }
        }
        let codes = (1..).map(|n: i64| n * GAP);
        let labels = codes.zip(labels).map(|(code, text)| Label { code, text }).collect();
        Ok(Enumeration { id, schema, name, labels })
    }

    pub fn has(&self, label: &str) -> bool {
        self.labels.iter().any(|l| l.text == label)
    }

    /// Adds a label. Errors: 42710 if it is there, 22023 if its neighbour is not, 42602 if it is too long, 54000 if there
    /// is no code between its neighbours or there are too many labels.
    pub fn add(&mut self, label: &str, position: Position<'_>) -> SqlResult<()> {
        check_length(label)?;
        if self.has(label) {
            return Err(duplicate(label));
        }
        check_count(self.labels.len() + 1)?;
        let at = match position {
            Position::End => self.labels.len(),
            Position::Before(neighbour) => self.place_of(neighbour)?,
            Position::After(neighbour) => self.place_of(neighbour)? + 1,
        };
        let code_at = |at: Option<usize>| at.and_then(|at| self.labels.get(at)).map(|l| l.code);
        let code = match (code_at(at.checked_sub(1)), code_at(Some(at))) {
            (None, None) => Some(GAP),
            (Some(before), None) => before.checked_add(GAP),
            (None, Some(behind)) => behind.checked_sub(GAP),
            (Some(before), Some(behind)) => {
                let middle = before + (behind - before) / 2;
                (middle > before).then_some(middle)
            }
        };
        let code = code.ok_or_else(|| {
            let message = format!("there is no room for the label \"{label}\" between its neighbours");
            SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
                .hint("Create another type with the labels in their order, and change the columns to it.")
        })?;
        self.labels.insert(at, Label { code, text: label.into() });
        Ok(())
    }

    /// Gives a label another text. Errors: 22023 if it is not there, 42710 if the other one is, 42602.
    pub fn rename(&mut self, from: &str, to: &str) -> SqlResult<()> {
        check_length(to)?;
        let at = self.place_of(from)?;
        if self.has(to) {
            return Err(duplicate(to));
        }
        self.labels[at].text = to.into();
        Ok(())
    }

    fn place_of(&self, label: &str) -> SqlResult<usize> {
        self.labels.iter().position(|l| l.text == label).ok_or_else(|| {
            let message = format!("\"{label}\" is not an existing enum label");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        })
    }
}

fn duplicate(label: &str) -> SqlError {
    SqlError::new(SqlState::DUPLICATE_OBJECT, format!("enum label \"{label}\" already exists"))
}

fn check_count(labels: usize) -> SqlResult<()> {
    if labels <= LABELS_MAX {
        return Ok(());
    }
    let message = format!("an enumerated type has at most {LABELS_MAX} labels");
    Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
        .hint("Keep the values in a table, and reference it."))
}

fn check_length(label: &str) -> SqlResult<()> {
    match label.len() {
        0..=LABEL_BYTES_MAX => Ok(()),
        _ => Err(SqlError::new(SqlState(*b"42602"), format!("invalid enum label \"{label}\""))
            .detail(format!("Labels must be {LABEL_BYTES_MAX} bytes or less."))),
    }
}

/// A description, small enough to be copied with a type. Types are the same if their ids are: labels that came
/// later make no other type.
#[derive(Clone, Copy)]
pub struct EnumType(&'static Enumeration);

/// Every description that was ever made a type. What is equal is kept once, and nothing is ever taken away: a type is a
/// few bytes for each label, and each ALTER TYPE keeps its labels once more.
static KEPT: Mutex<BTreeSet<&'static Enumeration>> = Mutex::new(BTreeSet::new());

impl EnumType {
    pub fn of(what: Enumeration) -> EnumType {
        let mut kept = KEPT.lock().expect("nothing panics while it holds the lock");
        if let Some(known) = kept.get(&what) {
            return EnumType(known);
        }
        let what: &'static Enumeration = Box::leak(Box::new(what));
        kept.insert(what);
        EnumType(what)
    }

    /// A type of which nothing else is known: its values order, but have no texts.
    pub fn unknown(id: TableId) -> EnumType {
        EnumType::of(Enumeration { id, schema: String::new(), name: "?".into(), labels: Vec::new() })
    }

    /// What a column of Arrow's has for a time zone if it holds codes: it says whose.
    pub fn zone(self) -> String {
        format!("{ZONE}{}", self.id().0)
    }

    /// The id in what [`EnumType::zone`] wrote; `None` for anything else.
    pub fn id_of_zone(zone: &str) -> Option<TableId> {
        zone.strip_prefix(ZONE)?.parse().ok().map(TableId)
    }

    pub fn id(self) -> TableId {
        self.0.id
    }
    pub fn description(self) -> &'static Enumeration {
        self.0
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

    /// The code of a label. Errors: 22P02.
    pub fn code(self, label: &str) -> SqlResult<i64> {
        self.0.labels.iter().find(|l| l.text == label).map(|l| l.code).ok_or_else(|| {
            let message = format!("invalid input value for enum {}: \"{label}\"", self.name());
            SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
        })
    }

    /// The label of a code; `None` if this description has no such label.
    pub fn label(self, code: i64) -> Option<&'static str> {
        let labels = &self.0.labels;
        labels.binary_search_by(|l| l.code.cmp(&code)).ok().map(|at| labels[at].text.as_str())
    }
}

impl PartialEq for EnumType {
    fn eq(&self, other: &EnumType) -> bool {
        self.id() == other.id()
    }
}
impl Eq for EnumType {}
impl PartialOrd for EnumType {
    fn partial_cmp(&self, other: &EnumType) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for EnumType {
    fn cmp(&self, other: &EnumType) -> Ordering {
        self.id().cmp(&other.id())
    }
}
impl Hash for EnumType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}
impl fmt::Debug for EnumType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Enum({}, {})", self.0.name, self.id())
    }
}

/// Sent and stored as its description.
impl Serialize for EnumType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}
impl<'de> Deserialize<'de> for EnumType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<EnumType, D::Error> {
        Enumeration::deserialize(deserializer).map(EnumType::of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DataType, Datum};

    fn mood() -> Enumeration {
        let labels = ["sad", "ok", "happy"].map(String::from).to_vec();
        Enumeration::new(TableId(7), "public".into(), "mood".into(), labels).unwrap()
    }

    fn texts(of: &Enumeration) -> Vec<&str> {
        of.labels.iter().map(|l| l.text.as_str()).collect()
    }

    #[test]
    fn labels_that_are_added_leave_the_codes_of_others() {
        let before = mood();
        let mut after = before.clone();
        after.add("fine", Position::Before("happy")).unwrap();
        after.add("awful", Position::Before("sad")).unwrap();
        after.add("great", Position::End).unwrap();
        after.add("meh", Position::After("sad")).unwrap();
        assert_eq!(texts(&after), ["awful", "sad", "meh", "ok", "fine", "happy", "great"]);
        assert!(after.labels.is_sorted_by(|a, b| a.code < b.code));
        let after = EnumType::of(after);
        for label in before.labels {
            assert_eq!(after.label(label.code), Some(label.text.as_str()));
        }
    }

    #[test]
    fn a_gap_that_is_full_is_told() {
        let mut full = mood();
        let mut neighbour = "happy".to_string();
        let error = (0..100).find_map(|n| {
            let label = format!("l{n}");
            let result = full.add(&label, Position::Before(&neighbour));
            neighbour = label;
            result.err()
        });
        assert_eq!(error.expect("codes are whole numbers").state, SqlState::PROGRAM_LIMIT_EXCEEDED);
        assert_eq!(full.labels.len(), 3 + 20);
    }

    #[test]
    fn labels_are_counted() {
        let labels = |count: usize| (0..count).map(|n| format!("l{n}")).collect();
        let of = |count| Enumeration::new(TableId(7), "public".into(), "many".into(), labels(count));
        assert_eq!(of(LABELS_MAX + 1).unwrap_err().state, SqlState::PROGRAM_LIMIT_EXCEEDED);
        let error = of(LABELS_MAX).unwrap().add("one more", Position::End).unwrap_err();
        assert_eq!(error.state, SqlState::PROGRAM_LIMIT_EXCEEDED);
        of(LABELS_MAX - 1).unwrap().add("the last", Position::End).unwrap();
    }

    #[test]
    fn a_type_travels_with_its_labels() {
        let data_type = DataType::Enum(EnumType::of(mood()));
        let back: DataType = crate::codec::decode(&crate::codec::encode(&data_type)).unwrap();
        assert_eq!(back, data_type);
        let value = crate::text::parse("ok", back).unwrap();
        assert_eq!(value, Datum::Int(2 * GAP));
        assert_eq!(crate::text::display_as(&value, back), "ok");
        let error = crate::text::parse("Ok", back).unwrap_err();
        assert_eq!(error.state, SqlState::INVALID_TEXT_REPRESENTATION);
        assert_eq!(error.message, "invalid input value for enum mood: \"Ok\"");
    }

    #[test]
    fn a_renamed_label_keeps_its_code() {
        let mut renamed = mood();
        renamed.rename("ok", "fine").unwrap();
        assert_eq!(renamed.labels[1].code, mood().labels[1].code);
        let state = |result: SqlResult<()>| result.unwrap_err().state;
        assert_eq!(state(renamed.rename("fine", "sad")), SqlState::DUPLICATE_OBJECT);
        assert_eq!(state(renamed.rename("gone", "x")), SqlState::INVALID_PARAMETER_VALUE);
        assert_eq!(state(renamed.add("sad", Position::End)), SqlState::DUPLICATE_OBJECT);
        assert_eq!(state(renamed.add("x", Position::After("gone"))), SqlState::INVALID_PARAMETER_VALUE);
        assert_eq!(state(renamed.add(&"x".repeat(64), Position::End)), SqlState(*b"42602"));
    }
}

//! A list of stored types, as text, and what a later version may not have changed of it.
//!
//! ```text
//! version 11
//! struct base::schema::Table
//!     id: TableId
//!     comment: Option<String> since 9
//! enum base::expr::Expr
//!   Column
//!     0: usize
//! ```

use std::collections::BTreeMap;
use std::fmt;

/// Types by the path of their definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    pub version: u32,
    pub types: BTreeMap<String, Type>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Type {
    pub is_enum: bool,
    /// What else decides how it is read.
    pub note: String,
    /// Of a struct one without a name.
    pub variants: Vec<Variant>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variant {
    pub name: String,
    pub fields: Vec<Field>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    pub of: String,
    /// The version that added it.
    pub since: Option<u32>,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.of)?;
        self.since.map_or(Ok(()), |since| write!(f, " since {since}"))
    }
}

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "version {}", self.version)?;
        for (name, one) in &self.types {
            let kind = if one.is_enum { "enum" } else { "struct" };
            let line = format!("{kind} {name} {}", one.note);
            writeln!(f, "{}", line.trim_end())?;
            for variant in &one.variants {
                if one.is_enum {
                    writeln!(f, "  {}", variant.name)?;
                }
                variant.fields.iter().try_for_each(|field| writeln!(f, "    {field}"))?;
            }
        }
        Ok(())
    }
}

impl List {
    /// Reads what `Display` wrote. Errors: a line that is none of these.
    pub fn parse(text: &str) -> Result<List, String> {
        let mut lines = text.lines();
        let version = lines.next().and_then(|line| line.strip_prefix("version ")?.parse().ok());
        let version = version.ok_or("the first line is to name a version")?;
        let mut types: Vec<(String, Type)> = Vec::new();
        for line in lines {
            let wrong = || format!("`{line}` is no line of such a file");
            if let Some(field) = line.strip_prefix("    ") {
                let variant = types.last_mut().and_then(|(_, one)| one.variants.last_mut());
                variant.ok_or_else(wrong)?.fields.push(field_of(field).ok_or_else(wrong)?);
            } else if let Some(name) = line.strip_prefix("  ") {
                let (_, one) = types.last_mut().ok_or_else(wrong)?;
                one.variants.push(Variant { name: name.to_string(), fields: Vec::new() });
            } else {
                let mut words = line.splitn(3, ' ');
                let (kind, name, note) = (words.next(), words.next(), words.next());
                let is_enum = kind == Some("enum");
                let name = name.filter(|_| is_enum || kind == Some("struct")).ok_or_else(wrong)?;
                let variants = if is_enum { Vec::new() } else { vec![Variant::default()] };
                let note = note.unwrap_or_default().to_string();
                types.push((name.to_string(), Type { is_enum, note, variants }));
            }
        }
        Ok(List { version, types: types.into_iter().collect() })
    }
}

fn field_of(line: &str) -> Option<Field> {
    let (name, rest) = line.split_once(": ")?;
    let (of, since) = match rest.rsplit_once(" since ") {
        Some((of, since)) => (of, Some(since.parse().ok()?)),
        None => (rest, None),
    };
    Some(Field { name: name.to_string(), of: of.to_string(), since })
}

/// What has changed in a way that bytes of `before` cannot be read any more.
pub fn differences(before: &List, now: &List) -> Vec<String> {
    let mut errors = Vec::new();
    for (name, was) in &before.types {
        match now.types.get(name) {
            None => errors.push(format!(
                "{name} was stored and is not found; if it has another name or another place, say so in {}",
                super::FILE
            )),
            Some(is) if (is.is_enum, &is.note) != (was.is_enum, &was.note) => {
                errors.push(format!("{name} is read in another way"));
            }
            Some(is) => compare(name, was, is, (before.version, now.version), &mut errors),
        }
    }
    errors
}

fn compare(name: &str, was: &Type, is: &Type, versions: (u32, u32), errors: &mut Vec<String>) {
    for (n, before) in was.variants.iter().enumerate() {
        match is.variants.get(n) {
            Some(after) if after.name == before.name => {
                let name = if was.is_enum { format!("{name}::{}", before.name) } else { name.to_string() };
                fields(&name, before, after, versions, errors);
            }
            _ => errors.push(format!("{name}: variant {n} was {}; put new ones at the end", before.name)),
        }
    }
    if versions.0 == versions.1 && is.variants.len() > was.variants.len() {
        errors.push(format!(
            "{name} has a new variant, and version {} is written already: {RAISE}",
            versions.0
        ));
    }
}

/// What a change needs once there are directories of the newest version.
const RAISE: &str = "raise VERSION in base::codec";

/// Fields that were there are there in their order; others say that this version adds them.
fn fields(name: &str, was: &Variant, is: &Variant, (before, version): (u32, u32), errors: &mut Vec<String>) {
    let mut expected = was.fields.iter().peekable();
    for field in &is.fields {
        if expected.next_if_eq(&field).is_some() {
            continue;
        }
        if field.since == Some(version) && before == version {
            errors
                .push(format!("{name}: `{field}` is new, and version {version} is written already: {RAISE}"));
        } else if field.since != Some(version) {
            errors.push(format!(
                "{name}: `{field}` is new, moved or of another type; a new field needs \
                 #[serde(deserialize_with = \"base::codec::since::<{version}, _, _>\")]"
            ));
        }
    }
    errors.extend(expected.map(|field| format!("{name}: `{field}` is gone or moved")));
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "version 11\nenum a::E\n  One\n    0: Option<u8>\n  Two\nstruct a::S\n    x: u8\n    \
                          y: Vec<(u8, String)> since 9\nstruct b::K by hand\n";

    fn errors(change: impl Fn(&str) -> String) -> Vec<String> {
        let now = change(BEFORE).replace("version 11", "version 12");
        differences(&List::parse(BEFORE).unwrap(), &List::parse(&now).unwrap())
    }

    #[test]
    fn what_is_written_already_does_not_grow() {
        let grown = |from: &str, to: &str| {
            let now = BEFORE.replace(from, to);
            differences(&List::parse(BEFORE).unwrap(), &List::parse(&now).unwrap())
        };
        assert!(grown("a::S\n", "a::S\n").is_empty());
        assert!(grown("    x: u8\n", "    x: u8\n    z: u8 since 11\n")[0].contains(RAISE));
        assert!(grown("  Two\n", "  Two\n  Three\n")[0].contains(RAISE));
    }

    #[test]
    fn a_list_is_read_as_it_is_written() {
        assert_eq!(List::parse(BEFORE).unwrap().to_string(), BEFORE);
        for wrong in
            ["", "version x", "version 1\n    x: u8", "version 1\nunion a::S", "version 1\nstruct a\n    x"]
        {
            assert!(List::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_older_bytes_do_not_have_is_at_the_end_or_says_since_when() {
        assert_eq!(errors(str::to_string), [""; 0]);
        let fine = [
            ("  Two\n", "  Two\n  Three\n    0: u8\n"),
            ("    x: u8\n", "    x: u8\n    z: bool since 12\n"),
            ("    x: u8\n", "    z: bool since 12\n    x: u8\n"),
            ("struct a::S", "struct a::R\n    x: u8\nstruct a::S"),
        ];
        for (from, to) in fine {
            assert_eq!(errors(|text| text.replace(from, to)), [""; 0], "{to}");
        }
    }

    #[test]
    fn every_other_change_is_named() {
        let wrong = [
            ("  One\n", "  None\n  One\n", "a::E: variant 0 was One"),
            ("  Two\n", "", "a::E: variant 1 was Two"),
            ("    0: Option<u8>\n", "    0: u8\n", "a::E::One: `0: u8` is new"),
            ("    x: u8\n", "    x: u8\n    z: bool\n", "a::S: `z: bool` is new"),
            ("    x: u8\n", "    x: u8\n    z: bool since 11\n", "a::S: `z: bool since 11` is new"),
            ("    x: u8\n", "", "a::S: `x: u8` is gone"),
            (" since 9", "", "a::S: `y: Vec<(u8, String)>` is new"),
            (" by hand", "", "b::K is read in another way"),
            ("struct b::K by hand\n", "", "b::K was stored and is not found"),
        ];
        for (from, to, told) in wrong {
            let errors = errors(|text| text.replacen(from, to, 1));
            assert!(errors.iter().any(|error| error.starts_with(told)), "{told}: {errors:?}");
        }
    }
}

//! Identifiers as SQL writes them: in quotes where they would be another name or none without them. How long they may be, and
//! those that are made of others.

use crate::error::{SqlError, SqlResult, SqlState};

/// PostgreSQL 15's keywords but for those that any name may be.
const RESERVED: &str = "all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean both case \
     cast char character check coalesce collate collation column concurrently constraint create cross \
     current_catalog current_date current_role current_schema current_time current_timestamp current_user dec \
     decimal default deferrable desc distinct do else end except exists extract false fetch float for foreign \
     freeze from full grant greatest group grouping having ilike in initially inner inout int integer intersect \
     interval into is isnull join lateral leading least left like limit localtime localtimestamp national natural \
     nchar none normalize not notnull null nullif numeric offset on only or order out outer overlaps overlay \
     placing position precision primary real references returning right row select session_user setof similar \
     smallint some substring symmetric table tablesample then time timestamp to trailing treat trim true union \
     unique user using values varchar variadic verbose when where window with xmlattributes xmlconcat xmlelement \
     xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable";

/// Bytes of a name; what is longer is cut.
pub const BYTES_MAX: usize = 63;

/// Whether a name means the same without quotes.
pub fn is_plain(name: &str) -> bool {
    let is_start = |c: char| c.is_ascii_lowercase() || c == '_';
    name.starts_with(is_start)
        && name.chars().all(|c| is_start(c) || c.is_ascii_digit())
        && !RESERVED.split(' ').any(|word| word == name)
}

pub fn quoted(name: &str) -> String {
    if is_plain(name) { name.to_string() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// A name without what is too long of it.
pub fn cut(name: &str) -> &str {
    begin(name, BYTES_MAX)
}

/// As many whole characters as these bytes have room for.
fn begin(name: &str, bytes: usize) -> &str {
    let mut end = bytes.min(name.len());
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

/// The names of a qualified one, as `parse_ident` has them: those without quotes in small letters. What follows them is
/// skipped if it may be there (`is_strict` says that it may not).
///
/// Errors: 22023 for a text that is none.
pub fn parts(text: &str, is_strict: bool) -> SqlResult<Vec<String>> {
    let wrong = || {
        let told = format!("string is not a valid identifier: \"{text}\"");
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, told)
    };
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii();
    let is_space = |c: char| c.is_ascii_whitespace() || c == '\u{b}';
    let mut rest = text.trim_start_matches(is_space);
    let mut names = Vec::new();
    loop {
        let (name, behind) = if let Some(inside) = rest.strip_prefix('"') {
            let (name, behind) =
                in_quotes(inside).ok_or_else(|| wrong().detail("String has unclosed double quotes."))?;
            if name.is_empty() {
                return Err(wrong().detail("Quoted identifier must not be empty."));
            }
            (name, behind)
        } else if rest.starts_with(is_start) {
            let is_end = |c: char| !is_start(c) && !c.is_ascii_digit() && c != '$';
            let (name, behind) = rest.split_at(rest.find(is_end).unwrap_or(rest.len()));
            (name.to_ascii_lowercase(), behind)
        } else if rest.starts_with('.') {
            return Err(wrong().detail("No valid identifier before \".\"."));
        } else if names.is_empty() {
            return Err(wrong());
        } else {
            return Err(wrong().detail("No valid identifier after \".\"."));
        };
        names.push(name);
        let behind = behind.trim_start_matches(is_space);
        match behind.strip_prefix('.') {
            Some(next) => rest = next.trim_start_matches(is_space),
            None if behind.is_empty() || !is_strict => return Ok(names),
            None => return Err(wrong()),
        }
    }
}

/// What a quote begins, up to the quote that ends it, and what follows; `None` if nothing ends it.
fn in_quotes(inside: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut rest = inside;
    loop {
        let (before, behind) = rest.split_once('"')?;
        name.push_str(before);
        let Some(more) = behind.strip_prefix('"') else { return Some((name, behind)) };
        name.push('"');
        rest = more;
    }
}

/// A name made of others: `t_a_key`, or `t_pkey` where the second is empty. Where they are too long together, the longer of
/// the first two loses its end, as in PostgreSQL.
pub fn made(first: &str, second: &str, label: &str) -> String {
    let room = BYTES_MAX.saturating_sub(label.len() + 1 + usize::from(!second.is_empty()));
    let (mut left, mut right) = (first.len(), second.len());
    while left + right > room {
        if left > right {
            left -= 1;
        } else {
            right -= 1;
        }
    }
    let (first, second) = (begin(first, left), begin(second, right));
    if second.is_empty() { format!("{first}_{label}") } else { format!("{first}_{second}_{label}") }
}

/// The first that is free of `t_a_key`, `t_a_key1`, `t_a_key2`, …
pub fn first_free([first, second, label]: [&str; 3], is_free: impl Fn(&str) -> bool) -> String {
    let numbered = (1..u64::MAX).map(|number| format!("{label}{number}"));
    let labels = std::iter::once(label.to_string()).chain(numbered);
    let mut names = labels.map(|label| made(first, second, &label));
    names.find(|name| is_free(name)).expect("numbers do not end")
}

#[cfg(test)]
mod tests {
    use super::{BYTES_MAX, cut, first_free, made, parts, quoted};

    #[test]
    fn a_name_is_cut_between_characters() {
        assert_eq!(cut("short"), "short");
        assert_eq!(cut(&"a".repeat(70)), "a".repeat(BYTES_MAX));
        assert_eq!(cut(&"ä".repeat(40)), "ä".repeat(31));
    }

    #[test]
    fn what_is_too_long_is_cut_from_the_longer_part() {
        assert_eq!(made("t", "", "pkey"), "t_pkey");
        assert_eq!(made("t", "a_b", "key"), "t_a_b_key");
        let (table, column) = ("t".repeat(63), "c".repeat(63));
        assert_eq!(made(&table, "", "pkey"), format!("{}_pkey", "t".repeat(58)));
        assert_eq!(made(&table, &column, "key"), format!("{}_{}_key", "t".repeat(29), "c".repeat(29)));
        assert_eq!(made(&table, "c", "key"), format!("{}_c_key", "t".repeat(57)));
        let free = first_free([&table, "", "key"], |name| name.ends_with("key2"));
        assert_eq!(free, format!("{}_key2", "t".repeat(58)));
    }

    #[test]
    fn a_qualified_name_has_parts() {
        let split = |text| parts(text, true).map(|names| names.join("|")).map_err(|e| e.detail.clone());
        assert_eq!(split(" First . \"Sec\"\"ond\" .t$1 "), Ok("first|Sec\"ond|t$1".into()));
        assert_eq!(split("foo.boo[]"), Err(None));
        assert_eq!(parts("foo.Boo[]", false).unwrap(), ["foo", "boo"]);
        for (text, detail) in [
            ("x.1", "No valid identifier after \".\"."),
            ("a..b", "No valid identifier before \".\"."),
            ("x.\"\"", "Quoted identifier must not be empty."),
            ("\"x", "String has unclosed double quotes."),
        ] {
            assert_eq!(split(text), Err(Some(detail.to_string())), "{text}");
        }
        assert_eq!(split(" "), Err(None));
    }

    #[test]
    fn names_are_quoted_where_they_have_to_be() {
        let plain = ["mood", "_m2", "users"];
        for name in plain {
            assert_eq!(quoted(name), name);
        }
        let others = [
            ("user", r#""user""#),
            ("Mood", r#""Mood""#),
            ("2m", r#""2m""#),
            ("", r#""""#),
            ("a\"b", r#""a""b""#),
        ];
        for (name, written) in others {
            assert_eq!(quoted(name), written);
        }
    }
}

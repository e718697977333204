//! Identifiers as SQL writes them: in quotes where they would be another name or none without them.

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

#[cfg(test)]
mod tests {
    use super::quoted;

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

//! One-dimensional arrays as text, the way PostgreSQL prints and reads them: `{1,NULL,"a b"}`.

use crate::error::{SqlError, SqlResult, SqlState};

/// An array of elements in their own text forms; `None` is NULL.
pub fn display(elements: &[Option<String>]) -> String {
    let shown: Vec<String> =
        elements.iter().map(|e| e.as_ref().map_or_else(|| "NULL".into(), |text| quoted(text))).collect();
    format!("{{{}}}", shown.join(","))
}

/// Whether an element could be misread without quotes.
pub fn is_odd(text: &str) -> bool {
    let odd = |c: char| "{},\"\\".contains(c) || c.is_whitespace();
    text.is_empty() || text.contains(odd) || text.eq_ignore_ascii_case("null")
}

/// An element, quoted where it could be misread.
pub fn quoted(text: &str) -> String {
    if !is_odd(text) {
        return text.into();
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Reads an array. Errors: 22P02; 0A000 for more than one dimension.
pub fn parse(text: &str) -> SqlResult<Vec<Option<String>>> {
    let malformed = || {
        SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, format!("malformed array literal: \"{text}\""))
            .hint("Write arrays as {1,2,3}.")
    };
    let trimmed = text.trim();
    let inner = trimmed.strip_prefix('{').and_then(|t| t.strip_suffix('}')).ok_or_else(malformed)?;
    let mut elements = Vec::new();
    if inner.trim().is_empty() {
        return Ok(elements);
    }
    let mut rest = inner.chars().peekable();
    loop {
        while rest.next_if(|c| c.is_whitespace()).is_some() {}
        let mut element = String::new();
        if rest.next_if_eq(&'"').is_some() {
            loop {
                match rest.next().ok_or_else(malformed)? {
                    '"' => break,
                    '\\' => element.push(rest.next().ok_or_else(malformed)?),
                    c => element.push(c),
                }
            }
            while rest.next_if(|c| c.is_whitespace()).is_some() {}
            elements.push(Some(element));
        } else {
            while let Some(c) = rest.next_if(|c| *c != ',') {
                match c {
                    '{' => return Err(SqlError::unsupported("arrays of more than one dimension")),
                    '}' | '"' => return Err(malformed()),
                    '\\' => element.push(rest.next().ok_or_else(malformed)?),
                    c => element.push(c),
                }
            }
            let element = element.trim_end();
            if element.is_empty() {
                return Err(malformed());
            }
            elements.push((!element.eq_ignore_ascii_case("null")).then(|| element.to_string()));
        }
        match rest.next() {
            None => return Ok(elements),
            Some(',') => {}
            Some(_) => return Err(malformed()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_round_trip() {
        let texts = ["a", "b,c", "", "q\"", "back\\slash", "null", " x ", "{}"];
        let mut elements: Vec<_> = texts.iter().map(|t| Some(t.to_string())).collect();
        elements.push(None);
        assert_eq!(parse(&display(&elements)).unwrap(), elements);
        assert_eq!(parse("{ 1 , 2 }").unwrap(), [Some("1".into()), Some("2".into())]);
        assert!(parse("{}").unwrap().is_empty());
    }

    #[test]
    fn what_is_no_array_is_refused() {
        for text in ["", "1,2", "{1,}", "{1", "{\"a}", "{\"a\"b}", "{1}2}"] {
            assert_eq!(parse(text).unwrap_err().state, SqlState::INVALID_TEXT_REPRESENTATION, "{text}");
        }
        assert_eq!(parse("{{1}}").unwrap_err().state, SqlState::FEATURE_NOT_SUPPORTED);
    }
}

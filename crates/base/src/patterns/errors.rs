//! What is wrong with a regular expression, in PostgreSQL's words.

use crate::error::{SqlError, SqlState};

/// The error of a message about a regular expression; `None` if it is about something else.
pub fn refused(message: &str) -> Option<SqlError> {
    if message.contains("CompiledTooBig") || message.contains("exceeds size limit") {
        return Some(invalid("regular expression is too complex"));
    }
    if !message.contains("regex parse error") {
        // Some functions tell the pattern and not what is wrong with it.
        let (_, pattern) = message.split_once("Regular expression did not compile: ")?;
        return Some(match regex_automata::meta::Regex::new(pattern) {
            Err(error) => match error.syntax_error() {
                Some(error) => refused(&error.to_string())?,
                None => invalid("regular expression is too complex"),
            },
            Ok(_) => invalid("not a regular expression"),
        });
    }
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if says(&["look-around", "look-ahead", "look-behind"]) {
        return Some(SqlError::unsupported("look-around in regular expressions"));
    }
    if says(&["backreferences are not supported"]) {
        return Some(SqlError::unsupported("a back reference in a regular expression"));
    }
    let known: &[(&[&str], &str)] = &[
        (&["unclosed group", "unopened group"], "parentheses () not balanced"),
        (&["unclosed character class"], "brackets [] not balanced"),
        (&["repetition operator missing expression"], "quantifier operand invalid"),
        (&["repetition count", "counted repetition", "repetition quantifier"], "invalid repetition count(s)"),
        (&["incomplete escape", "unrecognized escape"], "invalid escape \\ sequence"),
        (&["character class range"], "invalid character range"),
    ];
    let words = known.iter().find(|(marks, _)| says(marks)).map(|(_, words)| *words);
    Some(match words {
        Some(words) => invalid(words),
        None => invalid(message.lines().last().unwrap_or_default().trim_start_matches("error: ")),
    })
}

fn invalid(what: &str) -> SqlError {
    SqlError::new(SqlState(*b"2201B"), format!("invalid regular expression: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_pattern_is_said_in_postgresqls_words() {
        let told = |what: &str| refused(&format!("regex parse error:\n    (\n    ^\nerror: {what}"));
        for (what, words) in [
            ("unclosed group", "parentheses () not balanced"),
            ("invalid repetition count range, the start must be <= the end", "invalid repetition count(s)"),
            ("something new", "something new"),
        ] {
            let error = told(what).unwrap();
            assert_eq!(error.state, SqlState(*b"2201B"));
            assert_eq!(error.message, format!("invalid regular expression: {words}"));
        }
        assert_eq!(told("backreferences are not supported").unwrap().state, SqlState::FEATURE_NOT_SUPPORTED);
        assert_eq!(
            refused("Regular expression did not compile: CompiledTooBig(10485760)").unwrap().state,
            SqlState(*b"2201B")
        );
        let told = refused("Compute error: Regular expression did not compile: ((a").unwrap();
        assert_eq!(told.message, "invalid regular expression: parentheses () not balanced");
        assert!(refused("divide by zero").is_none());
    }
}

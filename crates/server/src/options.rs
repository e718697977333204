//! The start-up message's `options`: a server's command line, of which settings may be given.
//!
//! `-c name=value`, `-cname=value` and `--name=value`, parted by white space; a backslash makes the next
//! character part of its word. Everything else is refused, as nothing of it would be obeyed.

use base::error::{SqlError, SqlResult, SqlState};

/// Settings with their values, in order. Errors: 42601.
pub fn settings(options: &str) -> SqlResult<Vec<(String, String)>> {
    let mut words = words(options).into_iter();
    let mut settings = Vec::new();
    while let Some(word) = words.next() {
        let (shown, assignment) = if let Some(long) = word.strip_prefix("--") {
            (format!("--{long}"), long.to_string())
        } else if word == "-c" {
            let Some(next) = words.next() else {
                return Err(refused("option requires an argument -- 'c'".into()));
            };
            (format!("-c {next}"), next)
        } else if let Some(short) = word.strip_prefix("-c") {
            (word.clone(), short.to_string())
        } else {
            return Err(refused(format!("invalid command-line argument for server process: {word}"))
                .hint("Settings are given as -c name=value or --name=value."));
        };
        match assignment.split_once('=') {
            Some((name, value)) if !name.is_empty() => {
                settings.push((name.replace('-', "_"), value.to_string()));
            }
            _ => return Err(refused(format!("{shown} requires a value"))),
        }
    }
    Ok(settings)
}

fn refused(message: String) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

fn words(options: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = options.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => word.get_or_insert_default().extend(characters.next()),
            c if c.is_ascii_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_in_all_their_forms() {
        let read = settings(r"-c a=1  -cb=2 --c-d=x\ y\\z --e=").unwrap();
        let read: Vec<(&str, &str)> = read.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(read, [("a", "1"), ("b", "2"), ("c_d", r"x y\z"), ("e", "")]);
        assert!(settings("  ").unwrap().is_empty());
        for (options, message) in [
            ("-c", "option requires an argument -- 'c'"),
            ("-c a", "-c a requires a value"),
            ("--a", "--a requires a value"),
            ("-F", "invalid command-line argument for server process: -F"),
            ("a=1", "invalid command-line argument for server process: a=1"),
        ] {
            let error = settings(options).unwrap_err();
            assert_eq!((error.state, error.message.as_str()), (SqlState::SYNTAX_ERROR, message));
        }
    }
}

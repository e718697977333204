//! Patterns of LIKE.

use std::str::Chars;

/// Whether a text matches, with `%`, `_` and backslash as escape.
pub(super) fn like(text: &str, pattern: &str) -> bool {
    if needs_more_than(pattern, text.len()) {
        return false;
    }
    let (mut text, mut pattern) = (text.chars(), pattern.chars());
    // Where to resume after the last '%': one more character goes to it each time.
    let mut retry: Option<(Chars<'_>, Chars<'_>)> = None;
    loop {
        let mut rest = pattern.clone();
        let mut after = text.clone();
        let matched = match rest.next() {
            Some('%') => {
                retry = Some((text.clone(), rest.clone()));
                pattern = rest;
                continue;
            }
            None if text.as_str().is_empty() => return true,
            None => false,
            Some('_') => after.next().is_some(),
            // The last character of a pattern may be a backslash that escapes nothing.
            Some('\\') => after.next() == Some(rest.next().unwrap_or('\\')),
            Some(c) => after.next() == Some(c),
        };
        if matched {
            (text, pattern) = (after, rest);
            continue;
        }
        let Some((mut from, behind)) = retry.take() else { return false };
        if from.next().is_none() {
            return false;
        }
        (text, pattern) = (from.clone(), behind.clone());
        retry = Some((from, behind));
    }
}

/// Whether a pattern asks for more characters than there are bytes. A long one is not looked at to its end.
fn needs_more_than(pattern: &str, bytes: usize) -> bool {
    let mut is_escaped = false;
    let is_one = |c: &char| {
        let is_escape = *c == '\\' && !is_escaped;
        let is_one = is_escaped || !(is_escape || *c == '%');
        is_escaped = is_escape;
        is_one
    };
    pattern.chars().filter(is_one).nth(bytes).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like_knows_its_wildcards() {
        for (text, pattern, expected) in [
            ("abc", "a%", true),
            ("abc", "%c", true),
            ("abc", "a_c", true),
            ("abc", "a_", false),
            ("", "%", true),
            ("", "", true),
            ("a", "", false),
            ("aXbXc", "a%X_", true),
            ("100%", "100\\%", true),
            ("1000", "100\\%", false),
            ("mississippi", "%iss%ip%", true),
            ("äß", "__", true),
            ("äß", "___", false),
            ("äß", "%ß", true),
            ("a\\", "a\\", true),
            ("a%", "%\\%", true),
            ("ab", "%\\%", false),
            ("aaaa", "%a%a%a%a%", true),
            ("aaaa", "%a%a%a%a%a%", false),
        ] {
            assert_eq!(like(text, pattern), expected, "{text} LIKE {pattern}");
        }
    }
}

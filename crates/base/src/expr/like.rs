//! Patterns of LIKE.

/// Whether a text matches, with `%`, `_` and backslash as escape.
pub(super) fn like(text: &str, pattern: &str) -> bool {
    let (text, pattern): (Vec<char>, Vec<char>) = (text.chars().collect(), pattern.chars().collect());
    let (mut t, mut p) = (0, 0);
    // Where to resume after the last '%': one more character goes to it each time.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let matched = match pattern.get(p) {
            Some('%') => {
                retry = Some((t, p + 1));
                p += 1;
                continue;
            }
            None => t == text.len(),
            Some('_') => t < text.len(),
            Some('\\') if p + 1 < pattern.len() => {
                let literal = text.get(t) == Some(&pattern[p + 1]);
                p += usize::from(literal);
                literal
            }
            Some(c) => text.get(t) == Some(c),
        };
        if matched && p >= pattern.len() {
            return true;
        }
        if matched {
            t += 1;
            p += 1;
            continue;
        }
        match retry {
            Some((from, after)) if from < text.len() => {
                t = from + 1;
                p = after;
                retry = Some((t, after));
            }
            _ => return false,
        }
    }
}

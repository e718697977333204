//! Rules that look at one line.

use super::{Finding, error};

/// Words that stop here, in any file, with what to do instead. Written in two halves, since this file
/// is read too.
const STOPPED: &[(&str, &str)] = &[
    (
        concat!("FIX", "ME"),
        "write TODO(required), TODO(expected) or TODO(desired) with a sentence, or fix it",
    ),
    (concat!("../", "shared"), "the repository speaks of itself alone"),
    (concat!("DESIGN", ".md"), "the repository speaks of itself alone"),
    (concat!("STYLE", ".md"), "the repository speaks of itself alone"),
    (concat!("spec", "s/"), "say it in the module's own words, or cite the paper"),
];

/// The same for Rust sources only.
const STOPPED_IN_RUST: &[(&str, &str)] = &[
    (concat!("dbg", "!("), "remove it"),
    (concat!("todo", "!("), "answer SQLSTATE 0A000 or leave it out"),
    (concat!("unimplemented", "!("), "answer SQLSTATE 0A000 or leave it out"),
    (concat!("#[", "ignore"), "a test that does not run proves nothing"),
];

/// Absolute paths that exist on one machine only.
const MACHINE_PATHS: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/Us", "ers/")];

pub fn check(path: &str, content: &str, out: &mut Vec<Finding>) {
    let rust = path.ends_with(".rs");
    if rust && !content.starts_with("//!") {
        out.push(error(path, 1, "open with a //! line that says what the file is for"));
    }
    for (line, text) in content.lines().enumerate().map(|(i, t)| (i + 1, t)) {
        let words = STOPPED.iter().chain(if rust { STOPPED_IN_RUST } else { &[] });
        for (word, instead) in words.filter(|(word, _)| text.contains(word)) {
            out.push(error(path, line, format!("`{word}`: {instead}")));
        }
        for machine in MACHINE_PATHS.iter().filter(|p| has_absolute(text, p)) {
            out.push(error(path, line, format!("`{machine}`: a path of one machine")));
        }
    }
}

/// The path occurs, and not as the middle of a longer one.
fn has_absolute(text: &str, path: &str) -> bool {
    text.match_indices(path).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-/}*".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, content: &str) -> usize {
        let mut out = Vec::new();
        check(path, content, &mut out);
        out.len()
    }

    #[test]
    fn a_source_file_opens_with_its_purpose() {
        assert_eq!(count("a.rs", "//! Says why.\n"), 0);
        assert_eq!(count("a.rs", "use std::fmt;\n"), 1);
        assert_eq!(count("a.toml", "a = 1\n"), 0);
    }

    #[test]
    fn each_stopped_word_is_found() {
        for (word, _) in STOPPED.iter().chain(STOPPED_IN_RUST) {
            assert_eq!(count("a.rs", &format!("//! x\n    {word}\n")), 1, "{word}");
        }
        assert_eq!(count("a.md", concat!("dbg", "!( is a macro")), 0);
    }

    #[test]
    fn a_path_of_one_machine_is_found_and_a_relative_one_is_not() {
        for machine in MACHINE_PATHS {
            assert_eq!(count("a.md", &format!("see {machine}x")), 1, "{machine}");
            assert_eq!(count("a.md", &format!("see docs{machine}x")), 0, "{machine}");
        }
    }
}

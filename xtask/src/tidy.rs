//! `cargo xtask tidy`: what a reader may rely on in every file.
//!
//! IN: the files of the checkout, as they are on disk. OUT: one line `path:line: what` for each finding;
//! errors fail, warnings only speak. Three rooms: [`text`] (rules that look at one line), [`modules`]
//! (source files that nothing compiles), [`links`] (documents that point nowhere).

mod links;
mod modules;
mod text;

use crate::house;
use std::collections::BTreeMap;
use std::path::Path;

/// Files of more lines are mentioned: look for the second room.
const LINES_WARN: usize = 700;
/// Files of more lines fail.
const LINES_MAX: usize = 1200;

/// Folders that hold no source of ours.
const SKIPPED: &[&str] = &["target", "out", ".git"];
/// Extensions of files that are read.
const READ: &[&str] = &["rs", "toml", "md", "sh", "sql", "slt", "yml", "json", "txt"];

/// How bad a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    Warning,
    Error,
}

/// One thing to put right.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Finding {
    pub path: String,
    /// From 1; 0 for the file as a whole.
    pub line: usize,
    pub severity: Severity,
    pub what: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mark = if self.severity == Severity::Error { "error" } else { "warning" };
        match self.line {
            0 => write!(f, "{mark}: {}: {}", self.path, self.what),
            line => write!(f, "{mark}: {}:{line}: {}", self.path, self.what),
        }
    }
}

pub(crate) fn error(path: &str, line: usize, what: impl Into<String>) -> Finding {
    Finding { path: path.to_string(), line, severity: Severity::Error, what: what.into() }
}

/// Text files of a checkout: path from its root, with `/`, to content.
pub type Files = BTreeMap<String, String>;

/// Every finding over a set of files.
pub fn findings(files: &Files, crates: &BTreeMap<String, house::Crate>) -> Vec<Finding> {
    let mut out = Vec::new();
    for (path, content) in files {
        text::check(path, content, &mut out);
        check_length(path, content, &mut out);
        if path.ends_with(".md") {
            links::check(path, content, files, &mut out);
        }
    }
    modules::check(files, crates, &mut out);
    check_map(files, crates, &mut out);
    out.sort();
    out
}

fn check_length(path: &str, content: &str, out: &mut Vec<Finding>) {
    let lines = content.lines().count();
    if !path.ends_with(".rs") || lines <= LINES_WARN {
        return;
    }
    let severity = if lines > LINES_MAX { Severity::Error } else { Severity::Warning };
    let what = format!("{lines} lines; look for the second room (at most {LINES_MAX})");
    out.push(Finding { path: path.to_string(), line: 0, severity, what });
}

/// The map in ARCHITECTURE.md shows every crate.
fn check_map(files: &Files, crates: &BTreeMap<String, house::Crate>, out: &mut Vec<Finding>) {
    const MAP: &str = "ARCHITECTURE.md";
    let Some(map) = files.get(MAP) else {
        out.push(error(MAP, 0, "missing"));
        return;
    };
    for name in crates.keys().filter(|name| !map.contains(&format!("`{name}`"))) {
        out.push(error(MAP, 0, format!("does not name the crate `{name}`")));
    }
}

/// Reads the checkout.
pub fn read_files(root: &Path) -> Result<Files, String> {
    let mut files = Files::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).map_err(|e| format!("read {}: {e}", folder.display()))?;
        for entry in entries {
            let path = entry.map_err(|e| e.to_string())?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                if !SKIPPED.contains(&name.as_str()) {
                    folders.push(path);
                }
                continue;
            }
            let extension = path.extension().unwrap_or_default().to_string_lossy().into_owned();
            let inside = path.strip_prefix(root).expect("walked from the root");
            let inside = inside.to_string_lossy().replace('\\', "/");
            if READ.contains(&extension.as_str()) || inside == ".ci/run" {
                let bytes = std::fs::read(&path).map_err(|e| format!("read {inside}: {e}"))?;
                files.insert(inside, String::from_utf8_lossy(&bytes).into_owned());
            } else if !path.is_symlink() {
                // Known to be there, so that links to it resolve; nobody looks inside.
                files.insert(inside, String::new());
            }
        }
    }
    Ok(files)
}

/// Prints the findings; true if none is an error.
pub fn run() -> Result<bool, String> {
    let root = house::root();
    let files = read_files(&root)?;
    let findings = findings(&files, &house::read_crates(&root)?);
    findings.iter().for_each(|f| println!("{f}"));
    let errors = findings.iter().filter(|f| f.severity == Severity::Error).count();
    println!("tidy: {} files, {} warnings, {errors} errors", files.len(), findings.len() - errors);
    Ok(errors == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_are_mentioned_and_very_long_ones_fail() {
        let file = |lines: usize| "//! x\n".repeat(lines);
        let severity = |lines: usize| {
            let mut out = Vec::new();
            check_length("a.rs", &file(lines), &mut out);
            out.first().map(|f| f.severity)
        };
        assert_eq!(severity(LINES_WARN), None);
        assert_eq!(severity(LINES_WARN + 1), Some(Severity::Warning));
        assert_eq!(severity(LINES_MAX + 1), Some(Severity::Error));
    }

    #[test]
    fn a_crate_missing_from_the_map_is_named() {
        let crates = BTreeMap::from([("attic".to_string(), house::Crate::default())]);
        let map = |text: &str| Files::from([("ARCHITECTURE.md".to_string(), text.to_string())]);
        let mut out = Vec::new();
        check_map(&map("`attic`: old things"), &crates, &mut out);
        assert_eq!(out, []);
        check_map(&map("`cellar`"), &crates, &mut out);
        assert_eq!(out.len(), 1);
    }

    #[test]
    fn this_repository_is_tidy() {
        let root = house::root();
        let found = findings(&read_files(&root).unwrap(), &house::read_crates(&root).unwrap());
        let errors: Vec<String> =
            found.iter().filter(|f| f.severity == Severity::Error).map(Finding::to_string).collect();
        assert!(errors.is_empty(), "{}", errors.join("\n"));
    }
}

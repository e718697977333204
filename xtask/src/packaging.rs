//! `cargo xtask packaging`: whether the files in `packaging/` fit together and fit the program.
//!
//! IN: those files and the sources of `meridian`. OUT: one line for each finding. Checked: YAML is well-formed, templates
//! once what stands in braces is replaced; every value that a template uses is in `values.yaml`; every environment variable
//! and subcommand is one that the program knows; the container is built with a toolchain that is new enough;
//! `systemd-analyze verify`, where there is one, has nothing to say of the unit.
//! Not checked: what only a cluster's server can tell, such as names of fields of Kubernetes.

use crate::house;
use crate::tidy::{self, Files, Finding, error};
use saphyr_parser::Parser;
use std::process::Command;

const FOLDER: &str = "packaging/";
const VALUES: &str = "packaging/helm/meridian/values.yaml";
const TEMPLATES: &str = "packaging/helm/meridian/templates/";
const UNIT: &str = "packaging/meridian@.service";
const CONTAINER: &str = "packaging/Containerfile";

pub fn run() -> Result<bool, String> {
    let root = house::root();
    let mut files = tidy::read_files(&root)?;
    for path in files.keys().filter(|path| path.starts_with(FOLDER)).cloned().collect::<Vec<_>>() {
        let text = std::fs::read_to_string(root.join(&path)).map_err(|e| format!("read {path}: {e}"))?;
        files.insert(path, text);
    }
    let mut found = findings(&files);
    // Elsewhere there may be no systemd.
    if let Ok(output) = Command::new("systemd-analyze").arg("verify").arg(root.join(UNIT)).output() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // The program is not installed where the unit is checked.
        let lines =
            said.lines().filter(|line| line.contains("meridian") && !line.contains("is not executable"));
        found.extend(lines.map(|line| error(UNIT, 0, line)));
    }
    found.iter().for_each(|finding| println!("{finding}"));
    Ok(found.is_empty())
}

fn findings(files: &Files) -> Vec<Finding> {
    let mut out = Vec::new();
    let sources: String = files
        .iter()
        .filter(|(path, _)| path.starts_with("crates/meridian/src/") && path.ends_with(".rs"))
        .map(|(_, text)| text.as_str())
        .collect();
    let values = files.get(VALUES).map_or("", String::as_str);
    for (path, text) in files.iter().filter(|(path, _)| path.starts_with(FOLDER)) {
        if path.ends_with(".yaml") {
            let text = if path.starts_with(TEMPLATES) { rendered(text) } else { text.clone() };
            check_yaml(path, &text, &mut out);
        }
        check_variables(path, text, &sources, &mut out);
        check_values(path, text, values, &mut out);
    }
    for path in [VALUES, UNIT, CONTAINER] {
        match files.get(path) {
            None => out.push(error(path, 0, "missing")),
            Some(text) if path == CONTAINER => check_toolchain(text, files, &mut out),
            Some(_) => {}
        }
    }
    out
}

/// A template, with lines that only steer left out and whatever else stands in braces replaced by a word.
fn rendered(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with("{{-")) {
        let mut rest = line;
        while let Some((before, after)) = rest.split_once("{{") {
            out.push_str(before);
            out.push('x');
            rest = after.split_once("}}").map_or("", |(_, after)| after);
        }
        out.push_str(rest);
        out.push('\n');
    }
    out
}

fn check_yaml(path: &str, text: &str, out: &mut Vec<Finding>) {
    if let Some(Err(wrong)) = Parser::new_from_str(text).find(Result::is_err) {
        out.push(error(path, wrong.marker().line(), wrong.to_string()));
    }
}

/// Words of a line that begin so, up to what cannot be part of them.
fn words<'a>(line: &'a str, begin: &str) -> Vec<&'a str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let from = line.match_indices(begin).map(|(at, _)| &line[at..]);
    from.map(|rest| rest.split(|c| !is_part(c)).next().unwrap_or_default()).collect()
}

fn check_variables(path: &str, text: &str, sources: &str, out: &mut Vec<Finding>) {
    for (line, number) in text.lines().zip(1..) {
        for name in words(line, "MERIDIAN_").into_iter().filter(|name| !is_known(sources, name)) {
            out.push(error(path, number, format!("{name} is no variable that meridian reads")));
        }
    }
}

fn is_known(sources: &str, variable: &str) -> bool {
    sources.contains(&format!("env = \"{variable}\""))
}

/// Every `.Values.a.b` of a template is a key of the values, found by its path of indented keys.
fn check_values(path: &str, text: &str, values: &str, out: &mut Vec<Finding>) {
    for (line, number) in text.lines().zip(1..) {
        for name in words(line, ".Values.") {
            let keys: Vec<&str> = name.split('.').skip(2).collect();
            if !has_key(values, &keys) {
                out.push(error(path, number, format!("{name} is not in {VALUES}")));
            }
        }
    }
}

fn has_key(values: &str, keys: &[&str]) -> bool {
    let mut wanted = keys.iter().enumerate();
    let Some(mut next) = wanted.next() else { return false };
    for line in values.lines() {
        let indent = line.len() - line.trim_start().len();
        if indent == 2 * next.0 && line.trim_start().starts_with(&format!("{}:", next.1)) {
            match wanted.next() {
                Some(more) => next = more,
                None => return true,
            }
        } else if next.0 > 0 && indent < 2 * next.0 && !line.trim().is_empty() {
            return false;
        }
    }
    false
}

fn check_toolchain(container: &str, files: &Files, out: &mut Vec<Finding>) {
    let number = |text: &str| -> Option<Vec<u32>> { text.split('.').map(|n| n.parse().ok()).collect() };
    let line = container.lines().find(|line| line.starts_with("FROM") && line.contains("/rust:"));
    let image = line.and_then(|line| line.split_once("/rust:")?.1.split('-').next().and_then(number));
    let manifest = files.get("Cargo.toml").map_or("", String::as_str);
    let line = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "));
    let needed = line.and_then(|version| number(version.trim_matches('"')));
    match (image, needed) {
        (Some(image), Some(needed)) if image >= needed => {}
        (image, needed) => {
            let what = format!("built with Rust {image:?}, and {needed:?} is needed");
            out.push(error(CONTAINER, 0, what));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str, text: &str) -> Vec<String> {
        let known = [
            ("crates/meridian/src/a.rs", "#[arg(env = \"MERIDIAN_DATA\")]"),
            (VALUES, "image:\n  tag: \"1\"\nnodes: 3\n"),
            (UNIT, "[Unit]\n"),
            (CONTAINER, "FROM docker.io/library/rust:1.95-slim AS build\n"),
            ("Cargo.toml", "rust-version = \"1.95\"\n"),
            (path, text),
        ];
        let files = known.into_iter().map(|(path, text)| (path.to_string(), text.to_string())).collect();
        findings(&files).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn what_does_not_fit_is_found() {
        let template = "packaging/helm/meridian/templates/a.yaml";
        let good = "a: {{ .Values.image.tag | quote }}\n{{- if .Values.nodes }}\nb: [1, \"{{ .Release.Name }}-x\"]\n{{- end }}\n";
        assert_eq!(of(template, good), Vec::<String>::new());
        let cases = [
            (template, "a: {{ .Values.image.name }}\n", ".Values.image.name is not in"),
            (template, "a: [1\nb: 2\n", "error: packaging/helm"),
            ("packaging/compose.yaml", "a:\n\tb: 1\n", "error: packaging/compose.yaml"),
            ("packaging/compose.yaml", "MERIDIAN_DATUM: x\n", ":1: MERIDIAN_DATUM is no variable"),
            (CONTAINER, "FROM docker.io/library/rust:1.90-slim AS build\n", "is needed"),
        ];
        for (path, text, part) in cases {
            let found = of(path, text);
            assert!(found.len() == 1 && found[0].contains(part), "{text}: {found:?}");
        }
    }

    #[test]
    fn the_files_of_this_checkout_fit() {
        assert!(run().unwrap());
    }
}

//! Source files that nothing compiles.
//!
//! A `mod` line is followed from every target's root; what is not reached is dead.

use super::{Files, Finding, error};
use crate::house::Crate;
use std::collections::{BTreeMap, BTreeSet};

pub fn check(files: &Files, crates: &BTreeMap<String, Crate>, out: &mut Vec<Finding>) {
    let mut todo = roots(files, crates);
    let mut reached: BTreeSet<String> = BTreeSet::new();
    while let Some((path, folder)) = todo.pop() {
        let Some(content) = files.get(&path) else { continue };
        if !reached.insert(path.clone()) {
            continue;
        }
        for name in modules(content) {
            match name {
                Module::Named(name) => {
                    // Only one of the two exists; the compiler sees to that.
                    todo.push((format!("{folder}/{name}.rs"), format!("{folder}/{name}")));
                    todo.push((format!("{folder}/{name}/mod.rs"), format!("{folder}/{name}")));
                }
                Module::At(file) => {
                    let beside = path.rsplit_once('/').map_or("", |(f, _)| f);
                    let target = normal(&format!("{beside}/{file}"));
                    let folder = target.rsplit_once('/').map_or("", |(f, _)| f).to_string();
                    todo.push((target, folder));
                }
            }
        }
    }
    for path in files.keys().filter(|p| p.ends_with(".rs") && !p.starts_with("lints/")) {
        if !reached.contains(path) {
            out.push(error(path, 0, "dead: no target reaches this file"));
        }
    }
}

/// Root files of all targets, each with the folder in which its modules lie.
fn roots(files: &Files, crates: &BTreeMap<String, Crate>) -> Vec<(String, String)> {
    let mut out = Vec::new();
    for path in files.keys().filter(|p| p.ends_with(".rs")) {
        let Some((folder, name)) = path.rsplit_once('/') else { continue };
        let last = folder.rsplit('/').next().unwrap_or_default();
        let of_package = |f: &str| files.contains_key(&format!("{f}/Cargo.toml"));
        let package = folder.rsplit_once('/').map_or("", |(f, _)| f);
        let is_root = match last {
            "src" => of_package(package) && (name == "lib.rs" || name == "main.rs"),
            "tests" | "examples" | "benches" => of_package(package),
            "bin" => package.ends_with("/src"),
            _ => false,
        };
        if is_root || (name == "build.rs" && of_package(folder)) {
            out.push((path.clone(), folder.to_string()));
        }
        // `tests/name/main.rs` is a target too.
        let grand = package.rsplit('/').next().unwrap_or_default();
        if name == "main.rs" && matches!(grand, "tests" | "examples" | "benches" | "bin") {
            out.push((path.clone(), folder.to_string()));
        }
    }
    for (name, krate) in crates {
        for target in &krate.target_paths {
            let path = normal(&format!("crates/{name}/{}", target.display()));
            let folder = path.rsplit_once('/').map_or("", |(f, _)| f).to_string();
            out.push((path, folder));
        }
    }
    out
}

enum Module<'a> {
    /// `mod name;`
    Named(&'a str),
    /// `#[path = "…"] mod name;` or `include!("…")`
    At(&'a str),
}

fn modules(content: &str) -> Vec<Module<'_>> {
    let mut out = Vec::new();
    let mut path = None;
    for line in content.lines().map(str::trim) {
        if let Some(file) = quoted_after(line, "#[path = \"").or(quoted_after(line, "include!(\"")) {
            out.push(Module::At(file));
            path = Some(file);
            continue;
        }
        if let Some(name) = module_name(line) {
            if path.take().is_none() {
                out.push(Module::Named(name));
            }
        } else if !line.starts_with("#[") && !line.starts_with("//") {
            path = None;
        }
    }
    out
}

/// The name in `mod name;`, whatever its visibility.
fn module_name(line: &str) -> Option<&str> {
    let declaration = line.split("//").next()?.trim().strip_suffix(';')?;
    let (visibility, name) = declaration.rsplit_once("mod ")?;
    let visible = visibility.trim();
    let plain =
        visible.is_empty() || visible == "pub" || visible.starts_with("pub(") || visible.ends_with(']');
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    (plain && is_name).then_some(name)
}

fn quoted_after<'a>(line: &'a str, opening: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(opening)?;
    rest.split('"').next()
}

fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead(files: &[(&str, &str)]) -> Vec<String> {
        let files = files.iter().map(|(p, c)| (p.to_string(), c.to_string())).collect();
        let text = "[package]\nname = \"a\"\n[[test]]\nname = \"end\"\npath = \"../../tests/end.rs\"\n";
        let crates = BTreeMap::from([("a".to_string(), Crate::parse(text).unwrap())]);
        let mut out = Vec::new();
        check(&files, &crates, &mut out);
        out.into_iter().map(|f| f.path).collect()
    }

    #[test]
    fn what_a_mod_line_reaches_is_alive() {
        let none: [&str; 0] = [];
        let files = [
            ("crates/a/Cargo.toml", ""),
            (
                "crates/a/src/lib.rs",
                "pub mod one;\n#[cfg(test)]\nmod two;\n#[path = \"odd/three.rs\"]\nmod x;",
            ),
            ("crates/a/src/one.rs", "pub(crate) mod inner;"),
            ("crates/a/src/one/inner.rs", ""),
            ("crates/a/src/two/mod.rs", "mod deep; // why"),
            ("crates/a/src/two/deep.rs", ""),
            ("crates/a/src/odd/three.rs", ""),
            ("crates/a/src/bin/tool.rs", ""),
            ("crates/a/tests/it.rs", "mod common;"),
            ("crates/a/tests/common/mod.rs", ""),
            ("tests/end.rs", ""),
        ];
        assert_eq!(dead(&files), none);
    }

    #[test]
    fn what_no_mod_line_reaches_is_dead() {
        let files = [
            ("crates/a/Cargo.toml", ""),
            ("crates/a/src/lib.rs", "// mod old;\nmod inline { }\n"),
            ("crates/a/src/old.rs", ""),
            ("crates/a/src/inline.rs", ""),
        ];
        assert_eq!(dead(&files), ["crates/a/src/inline.rs", "crates/a/src/old.rs"]);
    }
}

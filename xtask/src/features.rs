//! `cargo xtask features`: every way to build resolves the same features, so DataFusion is compiled once.
//!
//! IN: `cargo tree`, which resolves features for the packages it is asked about. OUT: each package that a
//! selection would compile differently from the whole workspace. KEEPS: `cargo run`, `cargo test
//! --workspace` and `-p` of a crate that carries DataFusion share every dependency.

use crate::lint::cargo;
use std::collections::{BTreeMap, BTreeSet};

/// Crates that carry DataFusion and are built alone while working on them; then the command itself.
const SELECTIONS: &[&str] = &["analytics", "session", "server", "meridian"];

/// Package and version, each with every feature that something asks of it. A package that is compiled
/// for programs and again for macros is one entry: `cargo tree` does not keep the two apart.
type Resolved = BTreeMap<String, BTreeSet<String>>;

pub fn run() -> Result<bool, String> {
    // This tool is a program of its own: what it asks of its parser is compiled beside the macros' parser, not for it.
    let whole = resolve(&["--workspace", "--exclude", "xtask", "-e", "normal,build,dev"])?;
    let mut good = true;
    for name in SELECTIONS {
        let part = resolve(&["-p", name, "-e", "normal,build"])?;
        for line in differences(&part, &whole) {
            println!("-p {name}: {line}");
            good = false;
        }
    }
    if good {
        println!("features: {} and the workspace resolve alike", SELECTIONS.join(", "));
    } else {
        println!("name the missing features in the workspace's Cargo.toml, and the crate in analytics'");
    }
    Ok(good)
}

fn resolve(selection: &[&str]) -> Result<Resolved, String> {
    let output = cargo()
        .args(["tree", "--locked", "--prefix", "none", "--format", "{p}|{f}"])
        .args(selection)
        .output()
        .map_err(|e| format!("run cargo tree: {e}"))?;
    if !output.status.success() {
        return Err(format!("cargo tree: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(parse(&String::from_utf8_lossy(&output.stdout)))
}

/// Lines `name version (notes)|feature,feature`. Crates of the workspace have a path in their notes and
/// are left out: they are compiled in seconds.
fn parse(text: &str) -> Resolved {
    let mut out = Resolved::new();
    for line in text.lines() {
        let Some((package, features)) = line.split_once('|') else { continue };
        if package.contains("(/") || package.contains(":\\") {
            continue;
        }
        let package = package.trim_end_matches(" (proc-macro)");
        let features = features.trim_end_matches(" (*)").split(',').filter(|f| !f.is_empty());
        out.entry(package.to_string()).or_default().extend(features.map(str::to_string));
    }
    out
}

/// What `part` compiles with fewer features than `whole`.
fn differences(part: &Resolved, whole: &Resolved) -> Vec<String> {
    let mut out = Vec::new();
    for (package, features) in part {
        let Some(known) = whole.get(package) else { continue };
        let missing: Vec<&str> = known.difference(features).map(String::as_str).collect();
        if !missing.is_empty() {
            out.push(format!("{package} lacks {}", missing.join(",")));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_with_fewer_features_than_in_the_workspace_is_named() {
        let whole =
            parse("mio v1.2.4|default,log,net\nsession v0.1.0 (/somewhere/session)|\nsyn v2.0.1|full\n");
        let part = parse("mio v1.2.4|net\nsession v0.1.0 (/somewhere/session)|x\nsyn v2.0.1|full\n");
        assert_eq!(differences(&part, &whole), ["mio v1.2.4 lacks default,log"]);
        assert_eq!(differences(&whole, &whole), [""; 0]);
    }

    #[test]
    fn a_package_compiled_twice_counts_as_one() {
        let whole = parse("syn v2.0.1|full\nsyn v2.0.1|full,visit (*)\n");
        assert_eq!(differences(&parse("syn v2.0.1|visit,full\n"), &whole), [""; 0]);
    }
}

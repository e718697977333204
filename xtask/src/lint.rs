//! `cargo xtask lint`: clippy, with one set of bans for the pure crates and one for the hosts.
//!
//! Each set is a folder under `lints/`: `clippy.toml` names what is banned and what to use instead, and
//! `planted.rs` holds one offence per line marked `// banned`. Before a set is trusted it has to find
//! every planted line and nothing else.
//! Tests are exempt: a test may read a file or count in a hash map.

use crate::house::{self, Kind};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What fails, later ones overriding earlier ones; the same for our crates and for the planted files.
/// Clippy's groups of taste are left out, what it holds for wrong, suspicious or slow is in.
const LEVELS: &[&str] = &[
    "-Dwarnings",
    "-Dunsafe_code",
    "-Aclippy::style",
    "-Aclippy::complexity",
    "-Aclippy::large_enum_variant",
    "-Aclippy::result_large_err",
    "-Dclippy::disallowed_methods",
    "-Dclippy::disallowed_types",
];

/// The cargo that runs this task. What `cargo run` told this program about itself is not passed on:
/// build scripts of dependencies watch those variables and would run again.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(house::root());
    let about_us = |name: &str| {
        ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_BIN_"].iter().any(|p| name.starts_with(p))
    };
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(about_us)) {
        command.env_remove(name);
    }
    command
}

fn folder(kind: Kind) -> PathBuf {
    house::root().join("lints").join(match kind {
        Kind::Pure => "pure",
        Kind::Host => "host",
    })
}

/// Lints the crates of each kind with its set; true if there is nothing to say.
pub fn run(kinds: &[Kind]) -> Result<bool, String> {
    let mut clean = true;
    for &kind in kinds {
        prove(kind)?;
        let mut command = cargo();
        command.args(["clippy", "--locked", "--lib", "--bins", "--keep-going"]);
        house::crates_of(kind).for_each(|name| _ = command.args(["-p", name]));
        if kind == Kind::Host {
            command.args(["-p", "xtask"]);
        }
        command.arg("--").args(LEVELS).env("CLIPPY_CONF_DIR", folder(kind));
        clean &= command.status().map_err(|e| format!("run cargo clippy: {e}"))?.success();
    }
    Ok(clean)
}

/// Shows that the set bites: every planted offence is found, and nothing that is not one.
fn prove(kind: Kind) -> Result<(), String> {
    let folder = folder(kind);
    let planted = folder.join("planted.rs");
    let source = std::fs::read_to_string(&planted).map_err(|e| format!("read {}: {e}", planted.display()))?;
    let marked = marked_lines(&source);
    if marked.is_empty() {
        return Err(format!("{} plants nothing", planted.display()));
    }
    let out = std::env::temp_dir().join(format!("meridian-lints-{}", std::process::id()));
    std::fs::create_dir_all(&out).map_err(|e| format!("create {}: {e}", out.display()))?;
    let found = (|| {
        for stub in ["tokio", "rand"] {
            compile(&folder, &folder.with_file_name("stubs").join(format!("{stub}.rs")), stub, &out)?;
        }
        compile(&folder, &planted, "planted", &out)
    })();
    // Left behind at worst, in the system's own folder for such things.
    _ = std::fs::remove_dir_all(&out);
    let said = found?;
    let found = banned_lines(&said);
    let missed: Vec<_> = marked.difference(&found).collect();
    let excess: Vec<_> = found.difference(&marked).collect();
    if missed.is_empty() && excess.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{}: missed lines {missed:?}, complained about lines {excess:?}; clippy said:\n{said}",
        planted.display()
    ))
}

/// Runs clippy over one file; its diagnostics, one line each.
fn compile(conf: &Path, file: &Path, name: &str, out: &Path) -> Result<String, String> {
    let output = Command::new("clippy-driver")
        .args(["--edition=2024", "--crate-type=lib", "--emit=metadata", "--error-format=short"])
        .args(["--crate-name", name])
        .args(if name == "planted" { LEVELS } else { &["--cap-lints=allow"] })
        .args(if name == "planted" { &["--extern=tokio", "--extern=rand"][..] } else { &[] })
        .arg("-L")
        .arg(out)
        .arg("--out-dir")
        .arg(out)
        .arg(file)
        .env("CLIPPY_CONF_DIR", conf)
        .output()
        .map_err(|e| format!("run clippy-driver (rustup component add clippy): {e}"))?;
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Lines that a planted file says are offences, from 1.
fn marked_lines(source: &str) -> BTreeSet<usize> {
    source.lines().enumerate().filter(|(_, text)| text.ends_with("// banned")).map(|(i, _)| i + 1).collect()
}

/// Lines of the bans among diagnostics of the form `path:line:column: error: …`.
fn banned_lines(diagnostics: &str) -> BTreeSet<usize> {
    let bans = diagnostics.lines().filter(|l| l.contains("use of a disallowed"));
    bans.filter_map(|l| l.split(".rs:").nth(1)?.split(':').next()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_and_diagnostics_speak_of_the_same_lines() {
        let source = "use a;\nb(); // banned\nc();\n";
        let said =
            "planted.rs:2:1: error: use of a disallowed method\nplanted.rs:1:5: error: cannot find `a`\n";
        assert_eq!(marked_lines(source), BTreeSet::from([2]));
        assert_eq!(banned_lines(said), marked_lines(source));
    }

    #[test]
    fn every_ban_names_its_replacement() {
        for kind in [Kind::Pure, Kind::Host] {
            let text = std::fs::read_to_string(folder(kind).join("clippy.toml")).unwrap();
            let table: toml::Table = text.parse().unwrap();
            let bans: Vec<_> = table.values().filter_map(toml::Value::as_array).flatten().collect();
            assert!(!bans.is_empty());
            for ban in bans {
                let reason = ban.get("reason").and_then(toml::Value::as_str).unwrap_or_default();
                assert!(reason.contains("use "), "{ban}: say what to use instead");
            }
        }
    }
}

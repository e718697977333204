//! The house: which crate lives on which floor, and what the manifests say about who imports whom.
//!
//! The table below is the only place where a floor is written down. Reading manifests needs nothing but
//! a TOML parser, so this tool compiles in seconds.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// What a crate may touch of the outside world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// No clock, thread, file, socket or randomness of its own.
    Pure,
    /// Meets the outside world.
    Host,
}

/// One crate's place.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub name: &'static str,
    pub floor: u8,
    pub kind: Kind,
}

const fn pure(floor: u8, name: &'static str) -> Place {
    Place { name, floor, kind: Kind::Pure }
}
const fn host(floor: u8, name: &'static str) -> Place {
    Place { name, floor, kind: Kind::Host }
}

/// From the ground up.
pub const HOUSE: &[Place] = &[
    pure(0, "base"),
    pure(1, "consensus"),
    pure(1, "durability"),
    pure(1, "txn"),
    pure(1, "reads"),
    pure(1, "rowstore"),
    pure(1, "colstore"),
    pure(1, "history"),
    pure(1, "pages"),
    pure(1, "workload"),
    pure(1, "scram"),
    pure(1, "templates"),
    pure(1, "plpgsql"),
    pure(2, "node"),
    pure(3, "sim"),
    pure(4, "experiments"),
    host(1, "sql"),
    host(2, "wire"),
    host(2, "logring"),
    host(3, "analytics"),
    host(3, "runtime"),
    host(4, "session"),
    host(5, "server"),
    host(5, "backup"),
    host(5, "bench"),
    host(5, "attack"),
    host(5, "fuzz"),
    host(6, "vodka"),
    host(7, "meridian"),
];

/// The place of a crate of the house.
pub fn place(name: &str) -> Option<Place> {
    HOUSE.iter().copied().find(|p| p.name == name)
}

/// Names of the crates of one kind, from the ground up.
pub fn crates_of(kind: Kind) -> impl Iterator<Item = &'static str> {
    HOUSE.iter().filter(move |p| p.kind == kind).map(|p| p.name)
}

/// Which table of a manifest a dependency stands in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Section {
    Normal,
    Dev,
    Build,
}

/// One line of a dependency table.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Dependency {
    /// Name of the package, whatever it is called locally.
    pub package: String,
    pub section: Section,
    /// Version and features come from the workspace.
    pub from_workspace: bool,
}

/// One crate as its manifest describes it.
#[derive(Clone, Debug, Default)]
pub struct Crate {
    pub name: String,
    pub dependencies: Vec<Dependency>,
    /// Files that a `path =` key of a target names, relative to the crate.
    pub target_paths: Vec<PathBuf>,
}

impl Crate {
    /// Reads a manifest's text.
    pub fn parse(text: &str) -> Result<Crate, String> {
        let manifest: Table = text.parse().map_err(|e| format!("{e}"))?;
        let name = manifest
            .get("package")
            .and_then(|p| p.get("name"))
            .and_then(Value::as_str)
            .ok_or("no package.name")?
            .to_string();
        let mut dependencies = Vec::new();
        read_dependencies(&manifest, &mut dependencies);
        if let Some(targets) = manifest.get("target").and_then(Value::as_table) {
            targets
                .values()
                .filter_map(Value::as_table)
                .for_each(|t| read_dependencies(t, &mut dependencies));
        }
        dependencies.sort();
        Ok(Crate { name, dependencies, target_paths: target_paths(&manifest) })
    }
}

fn read_dependencies(table: &Table, out: &mut Vec<Dependency>) {
    let sections = [
        ("dependencies", Section::Normal),
        ("dev-dependencies", Section::Dev),
        ("build-dependencies", Section::Build),
    ];
    for (key, section) in sections {
        for (name, value) in table.get(key).and_then(Value::as_table).into_iter().flatten() {
            let package = value.get("package").and_then(Value::as_str).unwrap_or(name).to_string();
            let from_workspace = value.get("workspace").and_then(Value::as_bool).unwrap_or(false);
            out.push(Dependency { package, section, from_workspace });
        }
    }
}

fn target_paths(manifest: &Table) -> Vec<PathBuf> {
    let path = |v: &Value| v.get("path").and_then(Value::as_str).map(PathBuf::from);
    let mut out: Vec<PathBuf> = manifest.get("lib").and_then(path).into_iter().collect();
    for key in ["bin", "test", "bench", "example"] {
        out.extend(manifest.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(path));
    }
    out
}

/// The repository's root: the folder that holds the workspace's manifest. Asked when it runs: with a shared
/// build folder the program may have been built from another checkout.
pub fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let here = here.expect("run by cargo, as `cargo xtask`");
    here.parent().expect("xtask lies in the workspace").to_path_buf()
}

/// Every crate under `crates/`, by folder name.
pub fn read_crates(root: &Path) -> Result<BTreeMap<String, Crate>, String> {
    let folder = root.join("crates");
    let mut crates = BTreeMap::new();
    for entry in std::fs::read_dir(&folder).map_err(|e| format!("read {}: {e}", folder.display()))? {
        let path = entry.map_err(|e| e.to_string())?.path();
        let manifest = path.join("Cargo.toml");
        if !manifest.is_file() {
            continue;
        }
        let text =
            std::fs::read_to_string(&manifest).map_err(|e| format!("read {}: {e}", manifest.display()))?;
        let parsed = Crate::parse(&text).map_err(|e| format!("{}: {e}", manifest.display()))?;
        let folder_name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if folder_name != parsed.name {
            return Err(format!("crates/{folder_name} holds a package called {}", parsed.name));
        }
        crates.insert(folder_name, parsed);
    }
    Ok(crates)
}

/// Who needs whom among all packages, after the lock file. Versions of one package are merged.
pub fn read_lock(text: &str) -> Result<BTreeMap<String, BTreeSet<String>>, String> {
    let lock: Table = text.parse().map_err(|e| format!("Cargo.lock: {e}"))?;
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in lock.get("package").and_then(Value::as_array).into_iter().flatten() {
        let Some(name) = package.get("name").and_then(Value::as_str) else { continue };
        let needs = graph.entry(name.to_string()).or_default();
        for line in package.get("dependencies").and_then(Value::as_array).into_iter().flatten() {
            needs.extend(line.as_str().and_then(|l| l.split(' ').next()).map(str::to_string));
        }
    }
    Ok(graph)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_gives_up_its_dependencies_in_every_spelling() {
        let krate = Crate::parse(
            r#"
            package = { name = "node" }
            dependencies = { base.workspace = true, clock = { package = "tokio", version = "1" }, log = "0.4" }
            dev-dependencies = { sim.workspace = true }
            [target.'cfg(unix)'.dependencies]
            rustix = "1"
            [[test]]
            name = "slt"
            path = "../../tests/slt.rs"
            "#,
        )
        .unwrap();
        let of = |name: &str| krate.dependencies.iter().find(|d| d.package == name).unwrap().clone();
        assert!(of("base").from_workspace);
        assert!(!of("tokio").from_workspace);
        assert_eq!(of("log").section, Section::Normal);
        assert_eq!(of("sim").section, Section::Dev);
        assert_eq!(of("rustix").section, Section::Normal);
        assert_eq!(krate.target_paths, [PathBuf::from("../../tests/slt.rs")]);
    }

    #[test]
    fn a_lock_file_becomes_a_graph_of_names() {
        let graph = read_lock(
            "[[package]]\nname = \"a\"\ndependencies = [\"b 1.0.0\", \"c\"]\n[[package]]\nname = \"b\"\n",
        )
        .unwrap();
        assert_eq!(graph["a"].iter().collect::<Vec<_>>(), ["b", "c"]);
        assert!(graph["b"].is_empty());
    }
}

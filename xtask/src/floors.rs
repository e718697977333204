//! `cargo xtask floors`: a crate imports only lower floors, and outside weight stays upstairs.
//!
//! IN: the manifests and the lock file. OUT: the house as a table, and a line `crate → crate: why` for
//! each import that breaks a rule. Outside weight is followed through the lock file, so a pure crate
//! cannot get a runtime by way of a friend; the lock file joins all optional features, so this errs on
//! the strict side.

use crate::house::{self, Crate, Dependency, HOUSE, Kind, Section};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// An import that the floors forbid and that is allowed all the same.
struct Exception {
    from: &'static str,
    to: &'static str,
    section: Section,
    /// Printed beside the table.
    reason: &'static str,
}

const EXCEPTIONS: &[Exception] = &[Exception {
    from: "rowstore",
    to: "workload",
    section: Section::Dev,
    reason: "its programs are tested and measured with TPC-C's own procedures",
}];

/// Something from outside that only some crates may carry.
struct Weight {
    /// Packages with this name, or with this name and a dash after it.
    package: &'static str,
    allowed: fn(&str) -> bool,
    why: &'static str,
}

const WEIGHTS: &[Weight] = &[
    Weight {
        package: "datafusion",
        allowed: |c| c == "analytics" || c == "session" || front(c),
        why: "DataFusion enters at analytics",
    },
    Weight {
        package: "sqlparser",
        allowed: |c| c == "sql" || c == "analytics" || c == "session" || front(c),
        why: "SQL enters at sql",
    },
    Weight {
        package: "tokio",
        allowed: is_host,
        why: "nothing below the hosts knows a runtime; the simulator has its own time",
    },
    Weight { package: "pgwire", allowed: is_host, why: "the wire is not below the hosts" },
    Weight {
        package: "arrow",
        allowed: |c| floor(c) >= 2 || c == "colstore",
        why: "columns are colstore's business",
    },
    Weight { package: "axum", allowed: front, why: "HTTP is the server's business" },
    Weight { package: "clap", allowed: front, why: "flags are the command's business" },
];

fn is_host(name: &str) -> bool {
    house::place(name).is_some_and(|p| p.kind == Kind::Host)
}

/// Above the hosts of nodes: what meets people and their programs.
fn front(name: &str) -> bool {
    is_host(name) && floor(name) >= 5
}

fn floor(name: &str) -> u8 {
    house::place(name).map_or(0, |p| p.floor)
}

/// A broken rule: `from → to: why`.
#[derive(Debug, PartialEq, Eq)]
pub struct Violation {
    pub from: String,
    pub to: String,
    pub why: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} → {}: {}", self.from, self.to, self.why)
    }
}

/// Every rule, over every crate.
pub fn violations(
    crates: &BTreeMap<String, Crate>,
    lock: &BTreeMap<String, BTreeSet<String>>,
) -> Vec<Violation> {
    let mut out = Vec::new();
    for place in HOUSE.iter().filter(|p| !crates.contains_key(p.name)) {
        out.push(broken("the house", place.name, "stands in the table of floors and not under crates/"));
    }
    for (name, krate) in crates {
        if house::place(name).is_none() {
            out.push(broken("the house", name, "has no floor; add it to HOUSE in xtask/src/house.rs"));
            continue;
        }
        for dependency in &krate.dependencies {
            check_import(name, dependency, &mut out);
        }
        if house::place(name).is_some_and(|p| p.kind == Kind::Pure) {
            check_reach(krate, lock, &mut out);
        }
    }
    out
}

fn broken(from: &str, to: &str, why: impl Into<String>) -> Violation {
    Violation { from: from.to_string(), to: to.to_string(), why: why.into() }
}

fn check_import(from: &str, dependency: &Dependency, out: &mut Vec<Violation>) {
    let to = dependency.package.as_str();
    if !dependency.from_workspace {
        out.push(broken(from, to, "declare it in the workspace's Cargo.toml, so that there is one version"));
    }
    if let Some(target) = house::place(to) {
        let excepted =
            EXCEPTIONS.iter().any(|e| e.from == from && e.to == to && e.section == dependency.section);
        if from == "history" {
            out.push(broken(from, to, "history judges every engine, so it knows no crate of the house"));
        } else if from == "attack" || from == "backup" {
            out.push(broken(
                from,
                to,
                "it knows a server by its address only, so it knows no crate of the house",
            ));
        } else if target.floor >= floor(from) && !excepted {
            let section = match dependency.section {
                Section::Normal => "",
                Section::Dev => " (in tests)",
                Section::Build => " (while building)",
            };
            let why =
                format!("floor {} imports floor {}{section}; only lower floors", floor(from), target.floor);
            out.push(broken(from, to, why));
        }
    }
    for weight in WEIGHTS.iter().filter(|w| names(w, to) && !(w.allowed)(from)) {
        out.push(broken(from, to, weight.why));
    }
}

fn names(weight: &Weight, package: &str) -> bool {
    package.strip_prefix(weight.package).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Walks the lock file from a pure crate's outside imports; names the way to each forbidden weight.
fn check_reach(krate: &Crate, lock: &BTreeMap<String, BTreeSet<String>>, out: &mut Vec<Violation>) {
    let normal = krate.dependencies.iter().filter(|d| d.section == Section::Normal);
    let outside = normal.map(|d| d.package.as_str()).filter(|p| house::place(p).is_none());
    let mut queue: VecDeque<Vec<&str>> = outside.map(|p| vec![p]).collect();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    while let Some(way) = queue.pop_front() {
        let last = *way.last().expect("a way has an end");
        if !seen.insert(last) {
            continue;
        }
        if way.len() > 1 {
            for weight in WEIGHTS.iter().filter(|w| names(w, last) && !(w.allowed)(&krate.name)) {
                out.push(broken(
                    &krate.name,
                    last,
                    format!("{} (by way of {})", weight.why, way.join(" → ")),
                ));
            }
        }
        for next in lock.get(last).into_iter().flatten() {
            queue.push_back(way.iter().copied().chain([next.as_str()]).collect());
        }
    }
}

/// The house, top floor first.
pub fn table(crates: &BTreeMap<String, Crate>) -> String {
    let mut out =
        format!("{:>5}  {:<10} {:<5} {:<44} {}\n", "floor", "crate", "kind", "imports", "from outside");
    for place in HOUSE.iter().rev() {
        let Some(krate) = crates.get(place.name) else { continue };
        let normal = krate.dependencies.iter().filter(|d| d.section == Section::Normal);
        let (inside, outside): (Vec<_>, Vec<_>) =
            normal.map(|d| d.package.as_str()).partition(|p| house::place(p).is_some());
        let dash = |list: Vec<&str>| if list.is_empty() { "–".to_string() } else { list.join(" ") };
        let kind = match place.kind {
            Kind::Pure => "pure",
            Kind::Host => "host",
        };
        out += &format!(
            "{:>5}  {:<10} {kind:<5} {:<44} {}\n",
            place.floor,
            place.name,
            dash(inside),
            dash(outside)
        );
    }
    for e in EXCEPTIONS {
        out += &format!("allowed: {} → {}: {}\n", e.from, e.to, e.reason);
    }
    out
}

/// Prints the house; true if it stands.
pub fn run() -> Result<bool, String> {
    let root = house::root();
    let crates = house::read_crates(&root)?;
    let lock =
        std::fs::read_to_string(root.join("Cargo.lock")).map_err(|e| format!("read Cargo.lock: {e}"))?;
    let violations = violations(&crates, &house::read_lock(&lock)?);
    print!("{}", table(&crates));
    for violation in &violations {
        println!("{violation}");
    }
    println!("floors: {} crates, {} violations", crates.len(), violations.len());
    Ok(violations.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole house with nothing imported, and one crate's manifest replaced.
    fn house_with(name: &str, dependencies: &str) -> Vec<String> {
        let mut crates: BTreeMap<String, Crate> = HOUSE
            .iter()
            .map(|p| (p.name.to_string(), Crate { name: p.name.into(), ..Crate::default() }))
            .collect();
        let text = format!("[package]\nname = \"{name}\"\n{dependencies}");
        crates.insert(name.to_string(), Crate::parse(&text).unwrap());
        let lock = read("client = [\"pool\"]\npool = [\"tokio\"]\ntokio = []\nserde = []");
        violations(&crates, &lock).iter().map(Violation::to_string).collect()
    }

    fn read(edges: &str) -> BTreeMap<String, BTreeSet<String>> {
        let table: toml::Table = edges.parse().unwrap();
        let names = |v: &toml::Value| -> BTreeSet<String> {
            v.as_array().unwrap().iter().map(|n| n.as_str().unwrap().to_string()).collect()
        };
        table.iter().map(|(name, needs)| (name.clone(), names(needs))).collect()
    }

    #[test]
    fn lower_floors_and_light_helpers_are_welcome() {
        let none: [&str; 0] = [];
        assert_eq!(house_with("node", "[dependencies]\nbase.workspace = true\nserde.workspace = true"), none);
        assert_eq!(house_with("analytics", "[dependencies]\ndatafusion.workspace = true"), none);
        assert_eq!(house_with("bench", "[dependencies]\nworkload.workspace = true"), none);
    }

    #[test]
    fn an_upstairs_import_is_named_with_both_floors() {
        assert_eq!(
            house_with("rowstore", "[dependencies]\nnode.workspace = true"),
            ["rowstore → node: floor 1 imports floor 2; only lower floors"]
        );
    }

    #[test]
    fn neighbours_on_one_floor_do_not_see_each_other() {
        assert_eq!(house_with("txn", "[dependencies]\nreads.workspace = true").len(), 1);
    }

    #[test]
    fn tests_keep_to_the_floors_too() {
        assert_eq!(
            house_with("base", "[dev-dependencies]\nworkload.workspace = true"),
            ["base → workload: floor 0 imports floor 1 (in tests); only lower floors"]
        );
    }

    #[test]
    fn history_knows_nobody() {
        assert_eq!(house_with("history", "[dependencies]\nbase.workspace = true").len(), 1);
    }

    #[test]
    fn heavy_things_stay_upstairs() {
        for (name, package) in [
            ("node", "datafusion"),
            ("runtime", "datafusion-common"),
            ("sim", "tokio"),
            ("experiments", "tokio"),
            ("experiments", "datafusion"),
            ("node", "tokio-util"),
            ("rowstore", "arrow-array"),
            ("sql", "datafusion"),
            ("sql", "arrow-array"),
            ("session", "clap"),
        ] {
            let found = house_with(name, &format!("[dependencies]\n{package}.workspace = true"));
            assert_eq!(found.len(), 1, "{name} with {package}: {found:?}");
        }
    }

    #[test]
    fn a_runtime_by_way_of_a_friend_is_found() {
        assert_eq!(
            house_with("reads", "[dependencies]\nclient.workspace = true"),
            ["reads → tokio: nothing below the hosts knows a runtime; the simulator has its own time \
              (by way of client → pool → tokio)"]
        );
    }

    #[test]
    fn a_second_version_cannot_slip_in() {
        assert_eq!(house_with("base", "[dependencies]\nserde = \"1\"").len(), 1);
    }

    #[test]
    fn a_crate_without_a_floor_is_named() {
        assert_eq!(house_with("attic", "").len(), 1);
    }

    #[test]
    fn this_house_stands() {
        let root = house::root();
        let crates = house::read_crates(&root).unwrap();
        let lock = house::read_lock(&std::fs::read_to_string(root.join("Cargo.lock")).unwrap()).unwrap();
        let found = violations(&crates, &lock);
        assert!(found.is_empty(), "{}", found.iter().map(|v| format!("{v}\n")).collect::<String>());
    }
}

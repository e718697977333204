//! Lists every probe (`sometimes!("…")`) in the sources of the crates under test, so that a soak can name those
//! that no seed reached.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::path::Path;
use std::{env, fs};

/// Whose probes count.
const CRATES: [&str; 8] = ["base", "consensus", "txn", "reads", "rowstore", "colstore", "node", "sim"];

fn main() {
    let mut found = Vec::new();
    for name in CRATES {
        let folder = Path::new("..").join(name).join("src");
        println!("cargo::rerun-if-changed={}", folder.display());
        search(&folder, &mut found);
    }
    found.sort();
    found.dedup_by(|a, b| a.0 == b.0);
    let rows: String = found.iter().map(|(probe, file)| format!("    ({probe:?}, {file:?}),\n")).collect();
    let out = env::var_os("OUT_DIR").expect("set by cargo");
    fs::write(Path::new(&out).join("probes.rs"), format!("&[\n{rows}]\n"))
        .expect("the target folder is writable");
}

fn search(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).expect("crates stand beside each other") {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            search(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = fs::read_to_string(&path).expect("sources are text");
            // Those in documentation are no calls.
            let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
            let code = code.join("\n");
            for (at, call) in code.match_indices("sometimes!(") {
                // The name may stand in the next line.
                let Some(rest) = code[at + call.len()..].trim_start().strip_prefix('"') else { continue };
                let probe = rest.split('"').next().expect("a literal ends");
                found.push((probe.into(), path.display().to_string().trim_start_matches("../").into()));
            }
        }
    }
}

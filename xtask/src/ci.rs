//! `cargo xtask ci`: everything that has to pass before a change lands.
//!
//! OUT: each step's output, then the time that each took, then one closing line with the tests of all
//! test programs added up. Every step runs even if an earlier one failed, so that one run tells all.
//! KEEPS: no test run, no success.

use crate::house::Kind;
use crate::lint::{self, cargo};
use crate::{docs, encoded, features, floors, shape, tidy};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Tests of all test programs, added up.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Counts {
    passed: u64,
    failed: u64,
}

struct Step {
    name: &'static str,
    good: bool,
    took: Duration,
}

pub fn run() -> Result<bool, String> {
    let mut counts = Counts::default();
    let mut steps: Vec<Step> = Vec::new();
    let mut step = |name: &'static str, run: &mut dyn FnMut() -> Result<bool, String>| {
        println!("== {name}");
        let start = Instant::now();
        let good = run().unwrap_or_else(|why| {
            println!("{name}: {why}");
            false
        });
        steps.push(Step { name, good, took: start.elapsed() });
        _ = std::io::stdout().flush();
    };
    step("format", &mut || succeeds(&["fmt", "--all", "--check"]));
    step("floors", &mut floors::run);
    step("features", &mut features::run);
    step("tidy", &mut tidy::run);
    step("shape", &mut shape::run);
    step("encoded", &mut encoded::run);
    step("lint pure", &mut || lint::run(&[Kind::Pure]));
    step("docs", &mut docs::run);
    step("build", &mut || succeeds(&["build", "--workspace", "--locked"]));
    step("test", &mut || test(&mut counts, &["--workspace", "--no-fail-fast"]));
    // The checks have to find what is planted in the engine.
    step("mutants", &mut || {
        let log = &["-p", "consensus", "--features", "mutants", "--test", "group", "planted"];
        let cluster = &["-p", "sim", "--features", "mutants", "--test", "mutants", "--test", "scenarios"];
        let store = &["-p", "durability", "--features", "mutants", "--test", "worlds", "planted"];
        let rows = &["-p", "rowstore", "--features", "mutants", "--test", "store", "planted"];
        let single = test(&mut counts, log)? & test(&mut counts, store)? & test(&mut counts, rows)?;
        Ok(single & test(&mut counts, cluster)?)
    });
    step("lint host", &mut || lint::run(&[Kind::Host]));

    println!();
    for step in &steps {
        let mark = if step.good { "ok" } else { "FAILED" };
        println!("{:<10} {mark:<7} {:>7.1} s", step.name, step.took.as_secs_f64());
    }
    println!("{} passed, {} failed", counts.passed, counts.failed);
    Ok(steps.iter().all(|s| s.good) && counts.failed == 0 && counts.passed > 0)
}

fn succeeds(arguments: &[&str]) -> Result<bool, String> {
    Ok(cargo().args(arguments).status().map_err(|e| format!("run cargo {}: {e}", arguments[0]))?.success())
}

/// `cargo test` with these arguments (the README's are those of the first call); output is passed on and its
/// results are added up.
fn test(counts: &mut Counts, arguments: &[&str]) -> Result<bool, String> {
    let mut child = cargo()
        .args(["test", "--locked"])
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("run cargo test: {e}"))?;
    let lines = BufReader::new(child.stdout.take().expect("piped above")).split(b'\n');
    for line in lines {
        let line = line.map_err(|e| format!("read test output: {e}"))?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        if let Some(result) = parse_result(&line) {
            counts.passed += result.passed;
            counts.failed += result.failed;
        }
    }
    Ok(child.wait().map_err(|e| format!("wait for cargo test: {e}"))?.success())
}

/// `test result: ok. 12 passed; 0 failed; 0 ignored; …`
fn parse_result(line: &str) -> Option<Counts> {
    let rest = line.strip_prefix("test result: ")?;
    let number = |word: &str| -> Option<u64> {
        let (before, _) = rest.split_once(&format!(" {word}"))?;
        before.rsplit(' ').next()?.parse().ok()
    };
    Some(Counts { passed: number("passed")?, failed: number("failed")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_from_the_closing_line_of_a_test_program() {
        let line = "test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out";
        assert_eq!(parse_result(line), Some(Counts { passed: 12, failed: 3 }));
        assert_eq!(parse_result("test a::b ... ok"), None);
    }
}

//! `cargo xtask shape`: how large files, functions and structs are, and who leans on whom inside a crate.
//!
//! IN: the sources of the crates without their tests, and the ceilings in `xtask/shape.toml`. OUT: a table for each crate
//! and the largest things of each measure; an error for each measure that exceeds its ceiling. KEEPS: a crate that the
//! file of ceilings does not name keeps within the targets. `cargo xtask shape record` writes today's figures as
//! ceilings: after something has shrunk, and never to let something grow unseen, for the file is reviewed like code.
//!
//! Rooms: [`source`] (syntax trees and what names mean), [`sizes`] (structs, functions), [`circles`] (imports),
//! [`writers`] (fields).

mod ceilings;
mod circles;
mod sizes;
pub mod source;
mod writers;

use crate::{house, tidy};
use ceilings::{Ceiling, Ceilings};
use sizes::Sized;
use source::Sources;
use std::collections::BTreeMap;
use std::path::Path;

/// What is measured, and what we aim at.
pub struct Measure {
    /// Its name in the file of ceilings.
    pub key: &'static str,
    pub title: &'static str,
    /// Things of at most this size are as they should be.
    pub target: usize,
}

const MEASURES: [Measure; 5] = [
    Measure { key: "struct_fields", title: "fields of a struct", target: 15 },
    Measure { key: "file_lines", title: "lines of a file", target: 500 },
    Measure { key: "function_lines", title: "lines of a function", target: 70 },
    Measure { key: "circle_files", title: "files that import each other in a circle", target: 5 },
    Measure { key: "field_writers", title: "files that write a field", target: 2 },
];

/// How many of the largest things are printed for each measure.
const SHOWN: usize = 8;

/// Sizes by measure, in the order of [`MEASURES`], of one crate.
type Figures = [Vec<Sized>; 5];

/// Prints the table; true if nothing exceeds its ceiling.
pub fn run() -> Result<bool, String> {
    let root = house::root();
    let crates = measure(&root)?;
    print_table(&crates);
    print_largest(&crates, |n, _| n < SHOWN);
    let ceilings = Ceilings::parse(&read(&root)?)?;
    let excess = excess(&crates, &ceilings);
    excess.iter().for_each(|line| println!("error: {line}"));
    if excess.is_empty() && lower(&crates, &ceilings) {
        println!("something has shrunk: `cargo xtask shape record` lowers its ceiling");
    }
    println!("shape: {} crates, {} errors", crates.len(), excess.len());
    Ok(excess.is_empty())
}

/// Prints everything that is beyond its target.
pub fn list() -> Result<bool, String> {
    print_largest(&measure(&house::root())?, |_, is_beyond| is_beyond);
    Ok(true)
}

/// Writes today's figures as ceilings.
pub fn record() -> Result<bool, String> {
    let root = house::root();
    let text = today(&measure(&root)?).to_toml();
    std::fs::write(root.join(ceilings::FILE), text).map_err(|e| format!("write {}: {e}", ceilings::FILE))?;
    println!("wrote {}", ceilings::FILE);
    Ok(true)
}

fn read(root: &Path) -> Result<String, String> {
    std::fs::read_to_string(root.join(ceilings::FILE)).map_err(|e| format!("read {}: {e}", ceilings::FILE))
}

fn measure(root: &Path) -> Result<BTreeMap<String, Figures>, String> {
    let files = tidy::read_files(root)?;
    let crates = house::read_crates(root)?;
    let sources = Sources::read(&files, crates.keys())?;
    let mut out: BTreeMap<String, Figures> =
        crates.keys().map(|name| (name.clone(), Figures::default())).collect();
    for (path, module) in &sources.modules {
        let [structs, _, functions, _, _] = out.get_mut(&path[0]).expect("read for these crates");
        let found = sizes::measure(path, module);
        structs.extend(found.structs);
        functions.extend(found.functions);
    }
    for (file, lines) in &sources.lines {
        let name = file.split('/').nth(1).expect("crates/<name>/src/…");
        let figures = out.get_mut(name).expect("read for these crates");
        figures[1].push(Sized { name: file.clone(), size: *lines });
    }
    for (name, figures) in &mut out {
        figures[3] = circles::circles(&circles::imports(&sources, name)).iter().map(|c| circle(c)).collect();
    }
    for (((path, of), field), files) in writers::writers(&sources) {
        let name = format!("{}::{of}.{field}", path.join("::"));
        let name = format!("{name}: {}", short(files.iter()).1);
        out.get_mut(&path[0]).expect("read for these crates")[4].push(Sized { name, size: files.len() });
    }
    for figures in out.values_mut().flatten() {
        figures.sort_by(|a, b| (b.size, &a.name).cmp(&(a.size, &b.name)));
    }
    Ok(out)
}

/// A circle is named by the folder that holds all of it, and by some of its files.
fn circle(files: &[String]) -> Sized {
    let (folder, names) = short(files.iter());
    Sized { name: format!("{folder}: {names}"), size: files.len() }
}

/// The folder that holds all of these files, and the names of some of them in there.
fn short<'a>(files: impl ExactSizeIterator<Item = &'a String> + Clone) -> (&'a str, String) {
    let folder = files.clone().map(|f| f.rsplit_once('/').map_or("", |(folder, _)| folder));
    let folder = folder.min_by_key(|folder| folder.len()).unwrap_or_default();
    let short = |file: &'a String| file.trim_start_matches(folder).trim_start_matches('/');
    let mut names: Vec<&str> = files.clone().take(6).map(short).collect();
    if files.len() > names.len() {
        names.push("…");
    }
    (folder, names.join(" "))
}

/// What a crate's figures for one measure come to.
fn ceiling(figures: &[Sized], target: usize) -> Ceiling {
    Ceiling {
        largest: figures.first().map_or(0, |sized| sized.size),
        beyond: figures.iter().filter(|sized| sized.size > target).count(),
    }
}

fn today(crates: &BTreeMap<String, Figures>) -> Ceilings {
    let mut out = Ceilings::default();
    for (name, figures) in crates {
        for (measure, figures) in MEASURES.iter().zip(figures) {
            let found = ceiling(figures, measure.target);
            if found.beyond > 0 {
                out.0.insert((measure.key.to_string(), name.clone()), found);
            }
        }
    }
    out
}

/// A line for each crate and measure that exceeds its ceiling; it names the things that may be meant.
fn excess(crates: &BTreeMap<String, Figures>, ceilings: &Ceilings) -> Vec<String> {
    let mut out = Vec::new();
    for (name, figures) in crates {
        for (measure, figures) in MEASURES.iter().zip(figures) {
            let found = ceiling(figures, measure.target);
            let allowed = ceilings.of(measure, name);
            for sized in figures.iter().take_while(|sized| sized.size > allowed.largest) {
                let Sized { name: thing, size } = sized;
                let (title, largest) = (measure.title, allowed.largest);
                out.push(format!("{name}: {thing}: {size} {title}, where the ceiling is {largest}"));
            }
            if found.largest <= allowed.largest && found.beyond > allowed.beyond {
                let last =
                    figures[..found.beyond].iter().rev().take(3).map(|s| format!("{} ({})", s.name, s.size));
                out.push(format!(
                    "{name}: {} things of more than {} {}, where {} are recorded; one of them: {}",
                    found.beyond,
                    measure.target,
                    measure.title,
                    allowed.beyond,
                    last.collect::<Vec<_>>().join(", ")
                ));
            }
        }
    }
    out
}

/// Whether a ceiling is higher than it has to be.
fn lower(crates: &BTreeMap<String, Figures>, ceilings: &Ceilings) -> bool {
    crates.iter().any(|(name, figures)| {
        MEASURES.iter().zip(figures).any(|(measure, figures)| {
            let found = ceiling(figures, measure.target);
            let allowed = ceilings.of(measure, name);
            found.beyond < allowed.beyond || found.largest.max(measure.target) < allowed.largest
        })
    })
}

fn print_table(crates: &BTreeMap<String, Figures>) {
    println!("largest of each crate (how many are beyond the target)");
    print!("{:<12}", "");
    MEASURES.iter().for_each(|m| print!("{:>16}", m.key));
    print!("\n{:<12}", "target");
    MEASURES.iter().for_each(|m| print!("{:>16}", m.target));
    println!();
    for (name, figures) in crates {
        print!("{name:<12}");
        for (measure, figures) in MEASURES.iter().zip(figures) {
            let Ceiling { largest, beyond } = ceiling(figures, measure.target);
            let cell = if beyond > 0 { format!("{largest} ({beyond})") } else { largest.to_string() };
            print!("{cell:>16}");
        }
        println!();
    }
}

/// Things of each measure, the largest first. `is_shown`: told its place and whether it is beyond the target.
fn print_largest(crates: &BTreeMap<String, Figures>, is_shown: impl Fn(usize, bool) -> bool) {
    for (n, measure) in MEASURES.iter().enumerate() {
        println!("\n{}, at most {} wanted", measure.title, measure.target);
        let mut all: Vec<&Sized> = crates.values().flat_map(|figures| &figures[n]).collect();
        all.sort_by(|a, b| (b.size, &a.name).cmp(&(a.size, &b.name)));
        let shown =
            all.iter().enumerate().filter(|(place, sized)| is_shown(*place, sized.size > measure.target));
        shown.for_each(|(_, sized)| println!("{:>6}  {}", sized.size, sized.name));
    }
    println!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::Files;

    fn sources(files: &[(&str, &str)]) -> Sources {
        let files: Files = files.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect();
        Sources::read(&files, [&"a".to_string()].into_iter()).unwrap()
    }

    fn house() -> Sources {
        sources(&[
            (
                "crates/a/src/lib.rs",
                "mod one; mod two; pub use two::Two;\n#[cfg(test)] mod tests { pub struct Large { a: u8 } }\n",
            ),
            (
                "crates/a/src/one.rs",
                "use crate::Two;\npub struct One { pub kept: Vec<u8>, pub inner: Two }\n\
                 impl One { pub fn grow(&mut self) { self.kept.push(1); self.inner.grow(); self.kept.len(); } }\n",
            ),
            (
                "crates/a/src/two.rs",
                "use crate::one::One;\npub struct Two(u8, u8, u8);\nimpl Two { pub fn grow(&mut self) {\n self.1 += 1;\n}\n\
                 pub fn look(&self) {} }\npub fn shrink(one: &mut One) { one.kept = Vec::new(); one.inner.look(); }\n",
            ),
        ])
    }

    #[test]
    fn structs_and_functions_are_measured_without_tests() {
        let sources = house();
        let path = vec!["a".to_string(), "two".to_string()];
        let found = sizes::measure(&path, &sources.modules[&path]);
        assert_eq!(found.structs, [Sized { name: "a::two::Two".into(), size: 3 }]);
        assert_eq!(found.functions[0], Sized { name: "a::two::Two::grow".into(), size: 3 });
        assert!(sources.modules.values().all(|m| m.items.iter().all(|i| !matches!(i, syn::Item::Mod(_)))));
    }

    #[test]
    fn an_import_leads_to_the_file_that_defines_the_name() {
        let circles = circles::circles(&circles::imports(&house(), "a"));
        assert_eq!(circles, [vec!["crates/a/src/one.rs", "crates/a/src/two.rs"]]);
    }

    #[test]
    fn a_field_is_written_by_who_changes_it_and_not_by_who_reads_it() {
        let found = writers::writers(&house());
        let of = |module: &str, name: &str, field: &str| {
            let key = ((vec!["a".to_string(), module.to_string()], name.to_string()), field.to_string());
            found.get(&key).map_or(0, |files| files.len())
        };
        assert_eq!(of("one", "One", "kept"), 2);
        assert_eq!(of("one", "One", "inner"), 1);
        assert_eq!((of("two", "Two", "0"), of("two", "Two", "1")), (0, 1));
    }

    #[test]
    fn what_grows_beyond_its_ceiling_is_named() {
        let with = |sizes: &[usize]| {
            let mut figures = Figures::default();
            figures[0] = sizes.iter().map(|size| Sized { name: format!("S{size}"), size: *size }).collect();
            BTreeMap::from([("a".to_string(), figures)])
        };
        let ceilings = today(&with(&[40, 20, 3]));
        assert_eq!(Ceilings::parse(&ceilings.to_toml()).unwrap(), ceilings);
        assert_eq!(excess(&with(&[40, 20, 15]), &ceilings), [""; 0]);
        assert!(!lower(&with(&[40, 20, 15]), &ceilings) && lower(&with(&[40]), &ceilings));
        assert!(excess(&with(&[41, 20]), &ceilings)[0].contains("S41: 41 fields"));
        assert!(excess(&with(&[40, 20, 16]), &ceilings)[0].contains("S16 (16)"));
        assert!(excess(&with(&[16]), &Ceilings::default())[0].contains("ceiling is 15"));
    }
}

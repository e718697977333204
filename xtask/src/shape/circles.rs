//! Files of a crate that import each other in a circle.
//!
//! A file imports another if it names something that the other defines, in a `use` or in its text. What is passed on with
//! `pub use` is imported by whoever uses it, not by the file that passes it on. What a module names of the modules around
//! it does not count: they are one thing, of which it is a part. Methods are not names in this sense: an `impl` spread
//! over many files shows among the fields' writers instead.

use super::source::{Module, Path, Sources, flatten};
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};

type Imports = BTreeMap<String, BTreeSet<String>>;

/// Who imports whom among the files of one crate.
pub fn imports(sources: &Sources, name: &str) -> Imports {
    let mut out = Imports::new();
    for (path, module) in sources.modules.iter().filter(|(path, _)| path[0] == name) {
        let mut named = Named { sources, at: path, module, to: BTreeSet::new() };
        module.items.iter().for_each(|item| named.visit_item(item));
        let to = named.to;
        out.entry(module.file.clone()).or_default().extend(to);
    }
    out
}

struct Named<'a> {
    sources: &'a Sources,
    at: &'a Path,
    module: &'a Module,
    to: BTreeSet<String>,
}

impl Named<'_> {
    fn names(&mut self, names: &[String]) {
        let Some(path) = self.sources.absolute(self.at, names) else { return };
        if path[0] != self.at[0] {
            return;
        }
        if let Some((home, _)) = self.sources.home(&path)
            && !self.at.starts_with(&home)
        {
            let file = &self.sources.modules[&home].file;
            if *file != self.module.file {
                self.to.insert(file.clone());
            }
        }
    }
}

impl<'ast> Visit<'ast> for Named<'_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !matches!(item.vis, syn::Visibility::Inherited) {
            return;
        }
        let mut leaves = Vec::new();
        flatten(&item.tree, &mut Vec::new(), &mut |names, name| leaves.push((names.to_vec(), name)));
        for (names, _) in leaves {
            self.names(&names);
        }
    }
    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Path = path.segments.iter().map(|s| s.ident.to_string()).collect();
        // A single name is a local one, or came in with a `use` that was counted; or it is passed on and used here too.
        let counted = names.len() == 1 && !self.sources.is_reexport(self.at, &names[0]);
        if !counted {
            self.names(&names);
        }
        visit::visit_path(self, path);
    }
}

/// Groups of two or more files, each of which reaches every other; the largest first.
pub fn circles(imports: &Imports) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        imports.keys().map(|file| (file, reach(imports, file))).collect();
    let mut done: BTreeSet<&String> = BTreeSet::new();
    let mut out = Vec::new();
    for file in imports.keys() {
        let mutual = |other: &&&String| reached.get(**other).is_some_and(|from| from.contains(file));
        let circle: Vec<String> = reached[file].iter().filter(mutual).map(ToString::to_string).collect();
        if circle.len() > 1 && done.insert(file) {
            let others = imports.keys().filter(|k| circle.contains(k));
            done.extend(others);
            out.push(circle);
        }
    }
    out.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    out
}

fn reach<'a>(imports: &'a Imports, from: &'a String) -> BTreeSet<&'a String> {
    let mut seen = BTreeSet::new();
    let mut todo = vec![from];
    while let Some(file) = todo.pop() {
        for to in imports.get(file).into_iter().flatten() {
            if seen.insert(to) {
                todo.push(to);
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(&str, &str)]) -> Imports {
        let mut out = Imports::new();
        for (from, to) in edges {
            out.entry(to.to_string()).or_default();
            out.entry(from.to_string()).or_default().insert(to.to_string());
        }
        out
    }

    #[test]
    fn a_circle_is_found_and_a_chain_is_not() {
        assert_eq!(circles(&graph(&[("a", "b"), ("b", "c")])), Vec::<Vec<String>>::new());
        let found =
            circles(&graph(&[("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("x", "y"), ("y", "x")]));
        assert_eq!(found, [vec!["a", "b", "c"], vec!["x", "y"]]);
    }
}

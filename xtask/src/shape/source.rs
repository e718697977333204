//! The sources of the crates as syntax trees, and the answer to "which file defines what this path names?".
//!
//! IN: the files of the checkout. OUT: [`Sources`], one [`Module`] per `mod`, inline ones included. KEEPS: what only
//! tests compile (`#[cfg(test)]`) is not there. A path is followed through `use` and `pub use` to the module that
//! defines the item, so that a façade that re-exports it does not count as its home.

use crate::tidy::Files;
use std::collections::{BTreeMap, BTreeSet};
use syn::{Attribute, Item, UseTree, Visibility};

/// A module's path, the crate's name first.
pub type Path = Vec<String>;

pub struct Module {
    /// From the root of the checkout.
    pub file: String,
    pub items: Vec<Item>,
    /// Names that `use` brings in, and what each stands for.
    bindings: BTreeMap<String, Path>,
    /// Names that are brought in with `pub use` only for others to use.
    reexported: BTreeSet<String>,
    globs: Vec<Path>,
    /// Names that the module itself defines.
    defined: BTreeSet<String>,
}

#[derive(Default)]
pub struct Sources {
    pub modules: BTreeMap<Path, Module>,
    /// Lines of each file.
    pub lines: BTreeMap<String, usize>,
}

/// How many `use` declarations a path is followed through before we give up.
const HOPS_MAX: usize = 16;

impl Sources {
    /// Reads the library of each crate, or its program if it has no library.
    pub fn read<'a>(files: &Files, crates: impl Iterator<Item = &'a String>) -> Result<Sources, String> {
        let mut sources = Sources::default();
        for name in crates {
            let folder = format!("crates/{name}/src");
            let roots = [format!("{folder}/lib.rs"), format!("{folder}/main.rs")];
            let root = roots.into_iter().find(|file| files.contains_key(file));
            let root = root.ok_or_else(|| format!("{folder} holds neither a library nor a program"))?;
            sources.file(files, &root, &folder, vec![name.clone()])?;
        }
        let paths: Vec<Path> = sources.modules.keys().cloned().collect();
        for path in paths {
            sources.bind(&path);
        }
        Ok(sources)
    }

    fn file(&mut self, files: &Files, file: &str, folder: &str, path: Path) -> Result<(), String> {
        let content = files.get(file).ok_or_else(|| format!("{file} is missing"))?;
        let parsed = syn::parse_file(content).map_err(|e| format!("{file}: {e}"))?;
        self.lines.insert(file.to_string(), content.lines().count());
        self.module(files, file, folder, path, parsed.items)
    }

    fn module(
        &mut self,
        files: &Files,
        file: &str,
        folder: &str,
        path: Path,
        items: Vec<Item>,
    ) -> Result<(), String> {
        let mut kept = Vec::new();
        for item in items {
            if attributes(&item).iter().any(is_test) {
                continue;
            }
            let Item::Mod(module) = item else {
                kept.push(item);
                continue;
            };
            let name = module.ident.to_string();
            let inner = joined(&path, &name);
            let below = format!("{folder}/{name}");
            match module.content {
                Some((_, items)) => self.module(files, file, &below, inner, items)?,
                None => {
                    let beside = format!("{below}.rs");
                    let inside = format!("{below}/mod.rs");
                    let target = if files.contains_key(&beside) { beside } else { inside };
                    self.file(files, &target, &below, inner)?;
                }
            }
        }
        let defined = kept.iter().filter_map(name_of).collect();
        let module = Module {
            file: file.to_string(),
            items: kept,
            bindings: BTreeMap::new(),
            reexported: BTreeSet::new(),
            globs: Vec::new(),
            defined,
        };
        self.modules.insert(path, module);
        Ok(())
    }

    /// Notes what the `use` declarations of a module bring in.
    fn bind(&mut self, path: &Path) {
        let mut leaves = Vec::new();
        for item in &self.modules[path].items {
            if let Item::Use(item) = item {
                let public = !matches!(item.vis, Visibility::Inherited);
                flatten(&item.tree, &mut Vec::new(), &mut |names, name| {
                    leaves.push((names.to_vec(), name, public));
                });
            }
        }
        for (names, name, public) in leaves {
            let Some(target) = self.absolute(path, &names) else { continue };
            let module = self.modules.get_mut(path).expect("walked over the modules");
            let Some(name) = name else {
                module.globs.push(target);
                continue;
            };
            if public {
                module.reexported.insert(name.clone());
            }
            module.bindings.insert(name, target);
        }
    }

    /// What a path written in a module means, from the crate's root; `None` for what lies outside the house.
    pub fn absolute(&self, at: &Path, names: &[String]) -> Option<Path> {
        let first = names.first()?;
        let mut out: Path = match first.as_str() {
            "crate" => vec![at[0].clone()],
            "self" => at.clone(),
            "super" => at[..at.len().saturating_sub(1)].to_vec(),
            name if self.modules.contains_key(&joined(at, name)) => joined(at, name),
            name if self.modules[at].defined.contains(name) => joined(at, name),
            name => match self.modules[at].bindings.get(name) {
                Some(target) => target.clone(),
                None if self.modules.contains_key(&vec![name.to_string()]) => vec![name.to_string()],
                None => return None,
            },
        };
        for name in &names[1..] {
            match name.as_str() {
                "super" => _ = out.pop(),
                "self" => {}
                name => out.push(name.to_string()),
            }
        }
        (!out.is_empty()).then_some(out)
    }

    /// The module that defines what an absolute path names, and the item's name in it.
    pub fn home(&self, path: &[String]) -> Option<(Path, Option<String>)> {
        self.home_within(path, HOPS_MAX)
    }

    fn home_within(&self, path: &[String], hops: usize) -> Option<(Path, Option<String>)> {
        let mut at: Path = vec![path.first()?.clone()];
        self.modules.get(&at)?;
        for (n, name) in path.iter().enumerate().skip(1) {
            let inner = joined(&at, name);
            if self.modules.contains_key(&inner) {
                at = inner;
                continue;
            }
            let module = &self.modules[&at];
            if module.defined.contains(name) || hops == 0 {
                return Some((at, Some(name.clone())));
            }
            if let Some(target) = module.bindings.get(name) {
                let further: Path = target.iter().chain(&path[n + 1..]).cloned().collect();
                return self.home_within(&further, hops - 1);
            }
            for glob in &module.globs {
                let further: Path = glob.iter().chain(&path[n..]).cloned().collect();
                let found = self.home_within(&further, hops - 1);
                if let Some((home, Some(item))) = &found
                    && self.modules[home].defined.contains(item)
                {
                    return found;
                }
            }
            return Some((at, Some(name.clone())));
        }
        Some((at, None))
    }

    /// Whether a module only passes this name on to others.
    pub fn is_reexport(&self, at: &Path, name: &str) -> bool {
        self.modules[at].reexported.contains(name)
    }
}

/// Calls `each` with the path of every name that a tree brings in, and the name; `None` for `*`.
pub fn flatten(tree: &UseTree, before: &mut Path, each: &mut dyn FnMut(&[String], Option<String>)) {
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            flatten(&path.tree, before, each);
            before.pop();
        }
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            if name == "self" {
                return each(before, before.last().cloned());
            }
            before.push(name.clone());
            each(before, Some(name));
            before.pop();
        }
        UseTree::Rename(renamed) => {
            before.push(renamed.ident.to_string());
            each(before, Some(renamed.rename.to_string()));
            before.pop();
        }
        UseTree::Glob(_) => each(before, None),
        UseTree::Group(group) => group.items.iter().for_each(|tree| flatten(tree, before, each)),
    }
}

/// `#[cfg(test)]`, also among others; not `#[cfg(not(test))]`.
pub fn is_test(attribute: &Attribute) -> bool {
    let syn::Meta::List(list) = &attribute.meta else { return false };
    let said = list.tokens.to_string();
    list.path.is_ident("cfg")
        && !said.contains("not")
        && said.split(|c: char| !c.is_alphanumeric()).any(|w| w == "test")
}

pub fn joined(path: &[String], name: &str) -> Path {
    path.iter().cloned().chain([name.to_string()]).collect()
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(i) => &i.attrs,
        Item::Enum(i) => &i.attrs,
        Item::Fn(i) => &i.attrs,
        Item::Impl(i) => &i.attrs,
        Item::Mod(i) => &i.attrs,
        Item::Static(i) => &i.attrs,
        Item::Struct(i) => &i.attrs,
        Item::Trait(i) => &i.attrs,
        Item::Type(i) => &i.attrs,
        Item::Use(i) => &i.attrs,
        Item::Macro(i) => &i.attrs,
        _ => &[],
    }
}

fn name_of(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(i) => &i.ident,
        Item::Enum(i) => &i.ident,
        Item::Fn(i) => &i.sig.ident,
        Item::Static(i) => &i.ident,
        Item::Struct(i) => &i.ident,
        Item::Trait(i) => &i.ident,
        Item::Type(i) => &i.ident,
        Item::Union(i) => &i.ident,
        Item::Macro(i) => i.ident.as_ref()?,
        _ => return None,
    };
    Some(ident.to_string())
}

//! The stored types as the sources define them.
//!
//! KEEPS: from the roots every type of the house that a field names is followed, in the arguments of other types too. A
//! name that a macro defines is not, and neither are types of libraries; where a field has one, its name stands in the
//! field's type.

use super::list::{Field, List, Type, Variant};
use crate::shape::source::{Path, Sources, joined};
use std::collections::BTreeMap;
use syn::{Attribute, Fields, GenericArgument, Item, Meta, PathArguments, ReturnType};

/// What the roots hold. Errors: a root that is not there.
pub fn stored(sources: &Sources, roots: &[&str], version: u32) -> Result<List, String> {
    let mut types = BTreeMap::new();
    let mut todo: Vec<(Path, String)> = Vec::new();
    for root in roots {
        let path: Path = root.split("::").map(str::to_string).collect();
        todo.push(find(sources, &path).ok_or_else(|| format!("{root} is not found"))?);
    }
    while let Some((at, name)) = todo.pop() {
        let key = joined(&at, &name).join("::");
        if types.contains_key(&key) {
            continue;
        }
        let Some(item) = item(sources, &at, &name) else { continue };
        let named = match item {
            Item::Type(alias) => {
                let mut named = Vec::new();
                text(&alias.ty, &mut named);
                named
            }
            Item::Struct(of) => {
                let variant = Variant { name: String::new(), fields: Vec::new() };
                insert(&mut types, key, &of.attrs, false, vec![(variant, &of.fields)])
            }
            Item::Enum(of) => {
                let variants = of.variants.iter().map(|variant| {
                    let name = variant.ident.to_string();
                    (Variant { name, fields: Vec::new() }, &variant.fields)
                });
                insert(&mut types, key, &of.attrs, true, variants.collect())
            }
            _ => continue,
        };
        todo.extend(named.iter().filter_map(|names| named_at(sources, &at, names)));
    }
    Ok(List { version, types })
}

/// Notes a type; answers the names in its fields' types.
fn insert(
    types: &mut BTreeMap<String, Type>,
    key: String,
    attributes: &[Attribute],
    is_enum: bool,
    variants: Vec<(Variant, &Fields)>,
) -> Vec<Path> {
    let mut named = Vec::new();
    let is_derived = attributes.iter().any(|attribute| {
        let words = tokens(attribute, "derive");
        words.is_some_and(|words| words.split(|c: char| !c.is_alphanumeric()).any(|w| w == "Deserialize"))
    });
    let read = variants.into_iter().map(|(variant, fields)| {
        let all = fields.iter().enumerate();
        let fields = all.filter_map(|(n, field)| field_of(n, field, &mut named)).collect();
        Variant { fields, ..variant }
    });
    let mut variants: Vec<Variant> = read.collect();
    let mut note = attributes.iter().filter_map(|a| tokens(a, "serde")).collect::<Vec<_>>().join(", ");
    if !is_derived {
        (variants, note) = (if is_enum { Vec::new() } else { vec![Variant::default()] }, "by hand".into());
    }
    types.insert(key, Type { is_enum, note, variants });
    named
}

/// A field as it is encoded; `None`: it is not.
fn field_of(n: usize, field: &syn::Field, named: &mut Vec<Path>) -> Option<Field> {
    let name = field.ident.as_ref().map_or(n.to_string(), ToString::to_string);
    let (mut since, mut more) = (None, String::new());
    for words in field.attrs.iter().filter_map(|attribute| tokens(attribute, "serde")) {
        let added = words.replace(' ', "");
        let added = added.split_once("since::<").and_then(|(_, rest)| rest.split(',').next()?.parse().ok());
        match added {
            Some(version) => since = Some(version),
            None if words.starts_with("skip") => return None,
            None => more.push_str(&format!(" [{words}]")),
        }
    }
    Some(Field { name, of: text(&field.ty, named) + &more, since })
}

/// What stands in an attribute of this name.
fn tokens(attribute: &Attribute, name: &str) -> Option<String> {
    let Meta::List(list) = &attribute.meta else { return None };
    list.path.is_ident(name).then(|| list.tokens.to_string())
}

/// A type as it is written; its names are added to `named`.
fn text(of: &syn::Type, named: &mut Vec<Path>) -> String {
    match of {
        syn::Type::Path(of) => {
            named.push(of.path.segments.iter().map(|part| part.ident.to_string()).collect());
            let Some(last) = of.path.segments.last() else { return String::new() };
            format!("{}{}", last.ident, arguments(&last.arguments, named))
        }
        syn::Type::Tuple(of) => {
            let parts: Vec<String> = of.elems.iter().map(|part| text(part, named)).collect();
            format!("({})", parts.join(", "))
        }
        syn::Type::Array(of) => {
            let length = match &of.len {
                syn::Expr::Lit(length) => match &length.lit {
                    syn::Lit::Int(length) => length.to_string(),
                    _ => "_".into(),
                },
                _ => "_".into(),
            };
            format!("[{}; {length}]", text(&of.elem, named))
        }
        syn::Type::Slice(of) => format!("[{}]", text(&of.elem, named)),
        syn::Type::Reference(of) => text(&of.elem, named),
        syn::Type::Paren(of) => text(&of.elem, named),
        syn::Type::Group(of) => text(&of.elem, named),
        _ => "_".into(),
    }
}

fn arguments(of: &PathArguments, named: &mut Vec<Path>) -> String {
    let parts: Vec<String> = match of {
        PathArguments::None => return String::new(),
        PathArguments::AngleBracketed(of) => of
            .args
            .iter()
            .filter_map(|argument| match argument {
                GenericArgument::Type(of) => Some(text(of, named)),
                GenericArgument::Lifetime(_) => None,
                _ => Some("_".into()),
            })
            .collect(),
        PathArguments::Parenthesized(of) => {
            let mut parts: Vec<String> = of.inputs.iter().map(|part| text(part, named)).collect();
            if let ReturnType::Type(_, of) = &of.output {
                parts.push(text(of, named));
            }
            parts
        }
    };
    if parts.is_empty() { String::new() } else { format!("<{}>", parts.join(", ")) }
}

/// Where a name that stands in a module is defined.
fn named_at(sources: &Sources, at: &Path, names: &[String]) -> Option<(Path, String)> {
    let path = sources.absolute(at, names).unwrap_or_else(|| at.iter().chain(names).cloned().collect());
    find(sources, &path)
}

fn find(sources: &Sources, path: &[String]) -> Option<(Path, String)> {
    let (home, name) = sources.home(path)?;
    let name = name?;
    item(sources, &home, &name).is_some().then_some((home, name))
}

/// The type of a name in a module.
fn item<'a>(sources: &'a Sources, at: &Path, name: &str) -> Option<&'a Item> {
    sources.modules.get(at)?.items.iter().find(|item| match item {
        Item::Enum(of) => of.ident == name,
        Item::Struct(of) => of.ident == name,
        Item::Type(of) => of.ident == name,
        _ => false,
    })
}

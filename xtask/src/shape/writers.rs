//! Which files write a struct's fields.
//!
//! A field is written where it is assigned, borrowed with `&mut`, or asked for a method that changes it, through `self`
//! or a parameter of the struct's type. A method of our own changes it if it takes `&mut self`; of the standard
//! library's, those in [`CHANGING`]. Types are known only as far as they are written down in the field or the signature,
//! so this misses some writers, and calls none a writer that is none.

use super::source::{Path, Sources};
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};
use syn::{Expr, ImplItem, Item};

/// Methods of the standard library's collections, cells and options that change what they are called on.
const CHANGING: &[&str] = &[
    "append",
    "as_mut",
    "clear",
    "clone_from",
    "dedup",
    "drain",
    "entry",
    "extend",
    "fill",
    "first_entry",
    "get_mut",
    "get_or_insert",
    "get_or_insert_with",
    "insert",
    "iter_mut",
    "last_entry",
    "last_mut",
    "pop",
    "pop_back",
    "pop_first",
    "pop_front",
    "pop_last",
    "push",
    "push_back",
    "push_front",
    "push_str",
    "range_mut",
    "remove",
    "replace",
    "resize",
    "retain",
    "reverse",
    "rotate_left",
    "rotate_right",
    "sort",
    "sort_by",
    "sort_by_key",
    "sort_unstable",
    "split_off",
    "swap",
    "swap_remove",
    "take",
    "truncate",
    "values_mut",
];

/// A struct: where it is defined, and its name.
type Struct = (Path, String);
/// A field: its struct and its name. The files that write it.
pub type Writers = BTreeMap<(Struct, String), BTreeSet<String>>;

#[derive(Default)]
struct Known {
    /// The type of each field, where it is a struct of ours.
    fields: BTreeMap<Struct, BTreeMap<String, Option<Struct>>>,
    /// Methods that take `&mut self`.
    changing: BTreeMap<Struct, BTreeSet<String>>,
}

/// The writers of all fields of all structs.
pub fn writers(sources: &Sources) -> Writers {
    let known = known(sources);
    let mut out = Writers::new();
    for (path, module) in &sources.modules {
        let mut finder = Finder {
            sources,
            known: &known,
            at: path,
            file: &module.file,
            myself: None,
            parameters: BTreeMap::new(),
            out: &mut out,
        };
        module.items.iter().for_each(|item| finder.visit_item(item));
    }
    out
}

fn known(sources: &Sources) -> Known {
    let mut known = Known::default();
    for (path, module) in &sources.modules {
        for item in &module.items {
            match item {
                Item::Struct(item) => {
                    let fields = item.fields.iter().enumerate().map(|(n, field)| {
                        let name = field.ident.as_ref().map_or(n.to_string(), ToString::to_string);
                        (name, struct_of(sources, path, &field.ty))
                    });
                    known.fields.insert((path.clone(), item.ident.to_string()), fields.collect());
                }
                Item::Impl(item) => {
                    let Some(of) = struct_of(sources, path, &item.self_ty) else { continue };
                    let methods = known.changing.entry(of).or_default();
                    for item in &item.items {
                        if let ImplItem::Fn(method) = item
                            && let Some(syn::FnArg::Receiver(receiver)) = method.sig.inputs.first()
                            && receiver.reference.is_some()
                            && receiver.mutability.is_some()
                        {
                            methods.insert(method.sig.ident.to_string());
                        }
                    }
                }
                _ => {}
            }
        }
    }
    known
}

/// The struct of ours that a type names, through references and boxes.
fn struct_of(sources: &Sources, at: &Path, kind: &syn::Type) -> Option<Struct> {
    let path = match kind {
        syn::Type::Reference(reference) => return struct_of(sources, at, &reference.elem),
        syn::Type::Path(path) => &path.path,
        _ => return None,
    };
    let last = path.segments.last()?;
    if last.ident == "Box"
        && let syn::PathArguments::AngleBracketed(arguments) = &last.arguments
        && let Some(syn::GenericArgument::Type(inner)) = arguments.args.first()
    {
        return struct_of(sources, at, inner);
    }
    let names: Path = path.segments.iter().map(|s| s.ident.to_string()).collect();
    let (home, name) = sources.home(&sources.absolute(at, &names)?)?;
    Some((home, name?))
}

struct Finder<'a> {
    sources: &'a Sources,
    known: &'a Known,
    at: &'a Path,
    file: &'a str,
    /// What `self` is.
    myself: Option<Struct>,
    /// Parameters that are structs of ours.
    parameters: BTreeMap<String, Struct>,
    out: &'a mut Writers,
}

impl Finder<'_> {
    /// The fields on the way to a place, from its root: of `self.a.b[0]` `a` and `b`, with the struct each belongs to; and
    /// what the place itself is, if that is a struct of ours.
    fn fields(&self, place: &Expr) -> Option<(Vec<(Struct, String)>, Option<Struct>)> {
        match place {
            Expr::Path(path) => {
                let name = path.path.get_ident()?.to_string();
                let of =
                    if name == "self" { self.myself.clone()? } else { self.parameters.get(&name)?.clone() };
                Some((Vec::new(), Some(of)))
            }
            Expr::Field(field) => {
                let (mut fields, of) = self.fields(&field.base)?;
                let name = match &field.member {
                    syn::Member::Named(name) => name.to_string(),
                    syn::Member::Unnamed(index) => index.index.to_string(),
                };
                let Some(of) = of else { return Some((fields, None)) };
                let Some(kind) = self.known.fields.get(&of).and_then(|fields| fields.get(&name)) else {
                    return Some((fields, None));
                };
                fields.push((of, name));
                Some((fields, kind.clone()))
            }
            Expr::Index(index) => Some((self.fields(&index.expr)?.0, None)),
            Expr::Paren(inner) => self.fields(&inner.expr),
            Expr::Reference(inner) => self.fields(&inner.expr),
            Expr::Unary(inner) => self.fields(&inner.expr),
            _ => None,
        }
    }
    fn write(&mut self, place: &Expr) {
        for field in self.fields(place).map(|(fields, _)| fields).unwrap_or_default() {
            self.out.entry(field).or_default().insert(self.file.to_string());
        }
    }
    fn function(&mut self, signature: &syn::Signature, inside: impl FnOnce(&mut Self)) {
        let mut parameters = BTreeMap::new();
        for input in &signature.inputs {
            if let syn::FnArg::Typed(typed) = input
                && let syn::Pat::Ident(name) = &*typed.pat
                && let syn::Type::Reference(reference) = &*typed.ty
                && reference.mutability.is_some()
                && let Some(of) = struct_of(self.sources, self.at, &typed.ty)
            {
                parameters.insert(name.ident.to_string(), of);
            }
        }
        let outer = std::mem::replace(&mut self.parameters, parameters);
        inside(self);
        self.parameters = outer;
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let myself = struct_of(self.sources, self.at, &item.self_ty);
        let outer = std::mem::replace(&mut self.myself, myself);
        visit::visit_item_impl(self, item);
        self.myself = outer;
    }
    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, |finder| visit::visit_impl_item_fn(finder, item));
    }
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, |finder| visit::visit_item_fn(finder, item));
    }
    fn visit_expr_assign(&mut self, assign: &'ast syn::ExprAssign) {
        self.write(&assign.left);
        visit::visit_expr_assign(self, assign);
    }
    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        use syn::BinOp::*;
        let assigns = matches!(
            binary.op,
            AddAssign(_)
                | SubAssign(_)
                | MulAssign(_)
                | DivAssign(_)
                | RemAssign(_)
                | BitAndAssign(_)
                | BitOrAssign(_)
                | BitXorAssign(_)
                | ShlAssign(_)
                | ShrAssign(_)
        );
        if assigns {
            self.write(&binary.left);
        }
        visit::visit_expr_binary(self, binary);
    }
    fn visit_expr_reference(&mut self, reference: &'ast syn::ExprReference) {
        if reference.mutability.is_some() {
            self.write(&reference.expr);
        }
        visit::visit_expr_reference(self, reference);
    }
    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let method = call.method.to_string();
        if let Some((fields, of)) = self.fields(&call.receiver)
            && !fields.is_empty()
        {
            let changes = match of.and_then(|of| self.known.changing.get(&of)) {
                Some(methods) => methods.contains(&method),
                None => CHANGING.contains(&method.as_str()),
            };
            if changes {
                self.write(&call.receiver);
            }
        }
        visit::visit_expr_method_call(self, call);
    }
}

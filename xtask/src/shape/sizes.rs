//! How large structs and functions are.

use super::source::{Module, Path, is_test};
use syn::visit::{self, Visit};

/// A thing with a name and a size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sized {
    pub name: String,
    pub size: usize,
}

/// Structs by number of fields, functions by number of lines.
#[derive(Default)]
pub struct Sizes {
    pub structs: Vec<Sized>,
    pub functions: Vec<Sized>,
    /// The module, then the type of an `impl`, that we are in.
    scope: Vec<String>,
}

pub fn measure(path: &Path, module: &Module) -> Sizes {
    let mut sizes = Sizes { scope: path.clone(), ..Sizes::default() };
    module.items.iter().for_each(|item| sizes.visit_item(item));
    sizes
}

impl Sizes {
    fn named(&self, name: &syn::Ident) -> String {
        format!("{}::{name}", self.scope.join("::"))
    }
    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let first = signature.fn_token.span.start().line;
        let last = block.brace_token.span.close().end().line;
        self.functions.push(Sized { name: self.named(&signature.ident), size: last - first + 1 });
    }
    fn within(&mut self, name: String, inside: impl FnOnce(&mut Sizes)) {
        self.scope.push(name);
        inside(self);
        self.scope.pop();
    }
}

impl<'ast> Visit<'ast> for Sizes {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.structs.push(Sized { name: self.named(&item.ident), size: item.fields.len() });
    }
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !item.attrs.iter().any(is_test) {
            self.function(&item.sig, &item.block);
            visit::visit_item_fn(self, item);
        }
    }
    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let name = type_name(&item.self_ty).unwrap_or_else(|| "_".into());
        self.within(name, |sizes| visit::visit_item_impl(sizes, item));
    }
    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !item.attrs.iter().any(is_test) {
            self.function(&item.sig, &item.block);
            visit::visit_impl_item_fn(self, item);
        }
    }
    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.within(item.ident.to_string(), |sizes| visit::visit_item_trait(sizes, item));
    }
    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

/// The last name of a type's path: `Caerus` of `super::Caerus<T>`.
pub fn type_name(kind: &syn::Type) -> Option<String> {
    match kind {
        syn::Type::Path(path) => Some(path.path.segments.last()?.ident.to_string()),
        syn::Type::Reference(reference) => type_name(&reference.elem),
        _ => None,
    }
}

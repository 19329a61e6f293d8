//! Import circles between the files of a crate, and inherent impls away from their type.
//!
//! A file imports another if its code, outside tests, names an item that the other defines. Names
//! are resolved through `use` declarations, so importing an item through a module that only
//! re-exports it counts as importing the file that defines it.

use crate::exceptions::Measure;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};

/// A crate's sources: (path in the repository, text).
pub(crate) type Sources<'a> = Vec<(&'a str, &'a str)>;

/// A module path below the crate's root.
type ModulePath = Vec<String>;

/// How many `use` declarations a name is followed through.
const MAX_HOPS: usize = 16;

/// Breaches in one crate.
#[derive(Default)]
pub(crate) struct Findings {
    /// Files in import circles: the breach in words, and how many files it concerns.
    circles: Vec<(String, usize)>,
    strayed_impls: Vec<String>,
}

impl Findings {
    /// The counts, to be held against the allowances in `xtask/imports.txt`.
    pub(crate) fn measures(&self, folder: &str) -> [Measure; 2] {
        let in_circles = self.circles.iter().map(|(_, files)| files).sum();
        [
            Measure { what: format!("{folder}::circles"), count: in_circles, limit: 0 },
            Measure { what: format!("{folder}::impls"), count: self.strayed_impls.len(), limit: 0 },
        ]
    }

    /// Every breach in words.
    pub(crate) fn describe(&self) -> impl Iterator<Item = &str> {
        self.circles.iter().map(|(text, _)| text).chain(&self.strayed_impls).map(String::as_str)
    }
}

/// Checks one crate; `folder` is its folder. Fails if a source file cannot be parsed.
pub(crate) fn check(folder: &str, sources: &Sources<'_>) -> Result<Findings> {
    let tree = ModuleTree::parse(folder, sources)?;
    let describe = |files: Vec<&str>| {
        let text = format!("{folder}: files import each other in a circle: {}", files.join(", "));
        (text, files.len())
    };
    let circles = circles(&tree.imports()).into_iter().map(describe).collect();
    Ok(Findings { circles, strayed_impls: tree.strayed_impls() })
}

/// Facts about one module.
#[derive(Default)]
struct Module {
    file: String,
    /// Items that the module defines.
    items: BTreeSet<String>,
    /// Names that `use` declarations bring in: the path, and whether it is re-exported.
    aliases: BTreeMap<String, Alias>,
    /// Paths of `use path::*`.
    globs: Vec<Vec<String>>,
    /// Paths in the module's code.
    paths: BTreeSet<Vec<String>>,
    /// Types with an inherent impl in this module.
    impls: BTreeSet<String>,
}

struct Alias {
    path: Vec<String>,
    is_public: bool,
}

struct ModuleTree {
    modules: BTreeMap<ModulePath, Module>,
}

impl ModuleTree {
    fn parse(folder: &str, sources: &Sources<'_>) -> Result<Self> {
        let mut tree = Self { modules: BTreeMap::new() };
        let has_library = sources.iter().any(|(name, _)| *name == format!("{folder}/src/lib.rs"));
        let root = format!("{folder}/src/{}", if has_library { "lib.rs" } else { "main.rs" });
        tree.add_file(folder, &root, Vec::new(), sources)?;
        Ok(tree)
    }

    /// Adds a file and the files of the modules that it declares. Modules for tests are left out.
    fn add_file(&mut self, folder: &str, name: &str, at: ModulePath, sources: &Sources<'_>) -> Result<()> {
        let Some((_, text)) = sources.iter().find(|(path, _)| *path == name) else { return Ok(()) };
        let parsed = syn::parse_file(text).with_context(|| format!("{name}: cannot be parsed"))?;
        self.add_items(folder, name, at, &parsed.items, sources)
    }

    fn add_items(
        &mut self,
        folder: &str,
        file: &str,
        at: ModulePath,
        items: &[syn::Item],
        sources: &Sources<'_>,
    ) -> Result<()> {
        let mut module = Module { file: file.to_owned(), ..Module::default() };
        let mut children = Vec::new();
        for item in items.iter().filter(|item| !is_for_tests(attributes(item))) {
            if let syn::Item::Mod(inner) = item {
                children.push(inner);
            } else {
                Collector { module: &mut module }.visit_item(item);
            }
        }
        self.modules.insert(at.clone(), module);
        for child in children {
            let mut path = at.clone();
            path.push(child.ident.to_string());
            match &child.content {
                Some((_, items)) => self.add_items(folder, file, path, items, sources)?,
                None => {
                    let base = format!("{folder}/src/{}", path.join("/"));
                    self.add_file(folder, &format!("{base}.rs"), path.clone(), sources)?;
                    self.add_file(folder, &format!("{base}/mod.rs"), path, sources)?;
                }
            }
        }
        Ok(())
    }

    /// Which file imports which.
    fn imports(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut edges: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (at, module) in &self.modules {
            let from = edges.entry(&module.file).or_default();
            let private = module.aliases.values().filter(|alias| !alias.is_public).map(|alias| &alias.path);
            for path in module.paths.iter().chain(private) {
                if let Some((owner, _)) = self.resolve(at, path, MAX_HOPS) {
                    let to = self.modules[&owner].file.as_str();
                    if to != module.file {
                        from.insert(to);
                    }
                }
            }
        }
        edges
    }

    /// The module that defines the item that `path` names in module `at`, and the item's name.
    /// Nothing for paths that lead out of the crate or name a module.
    fn resolve(&self, at: &ModulePath, path: &[String], hops: usize) -> Option<(ModulePath, String)> {
        if hops == 0 {
            return None;
        }
        let (mut module, mut rest) = (at.clone(), path);
        match path.first()?.as_str() {
            "crate" => (module, rest) = (Vec::new(), &path[1..]),
            "self" => rest = &path[1..],
            "super" => {
                while rest.first().is_some_and(|segment| segment == "super") {
                    module.pop()?;
                    rest = &rest[1..];
                }
            }
            _ => {}
        }
        while let Some((name, after)) = rest.split_first() {
            let mut child = module.clone();
            child.push(name.clone());
            let here = self.modules.get(&module)?;
            if self.modules.contains_key(&child) {
                (module, rest) = (child, after);
            } else if here.items.contains(name) {
                return Some((module, name.clone()));
            } else if let Some(alias) = here.aliases.get(name) {
                let follows_itself = alias.path.len() == 1 && alias.path[0] == *name;
                let full: Vec<String> = alias.path.iter().chain(after).cloned().collect();
                return if follows_itself { None } else { self.resolve(&module, &full, hops - 1) };
            } else {
                return here.globs.iter().find_map(|glob| {
                    let full: Vec<String> = glob.iter().chain(rest).cloned().collect();
                    self.resolve(&module, &full, hops - 1)
                });
            }
        }
        None
    }

    /// Inherent impls that are neither in the module of their type nor below it.
    fn strayed_impls(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (at, module) in &self.modules {
            for name in &module.impls {
                let path = [name.clone()];
                let Some((owner, _)) = self.resolve(at, &path, MAX_HOPS) else { continue };
                if !at.starts_with(&owner) {
                    let home = &self.modules[&owner].file;
                    found.push(format!("{}: impl {name} belongs in {home} or a submodule of it", module.file));
                }
            }
        }
        found
    }
}

/// Gathers what one module defines and names.
struct Collector<'a> {
    module: &'a mut Module,
}

impl Collector<'_> {
    fn add_use(&mut self, tree: &syn::UseTree, mut prefix: Vec<String>, is_public: bool) {
        match tree {
            syn::UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.add_use(&path.tree, prefix, is_public);
            }
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|item| self.add_use(item, prefix.clone(), is_public));
            }
            syn::UseTree::Glob(_) => self.module.globs.push(prefix),
            syn::UseTree::Name(name) => {
                self.add_alias(name.ident.to_string(), name.ident.to_string(), prefix, is_public);
            }
            syn::UseTree::Rename(name) => {
                self.add_alias(name.rename.to_string(), name.ident.to_string(), prefix, is_public);
            }
        }
    }

    fn add_alias(&mut self, alias: String, name: String, mut path: Vec<String>, is_public: bool) {
        let alias = if name == "self" {
            path.last().filter(|_| alias == "self").cloned().unwrap_or(alias)
        } else {
            path.push(name);
            alias
        };
        self.module.aliases.insert(alias, Alias { path, is_public });
    }

    /// Paths in the arguments of a macro: runs of identifiers joined by `::`.
    fn add_tokens(&mut self, tokens: proc_macro2::TokenStream) {
        let mut run: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                proc_macro2::TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.add_path(std::mem::take(&mut run));
                    }
                    run.push(ident.to_string());
                    colons = 0;
                }
                proc_macro2::TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                proc_macro2::TokenTree::Group(group) => {
                    self.add_path(std::mem::take(&mut run));
                    self.add_tokens(group.stream());
                }
                _ => {
                    self.add_path(std::mem::take(&mut run));
                    colons = 0;
                }
            }
        }
        self.add_path(run);
    }

    fn add_path(&mut self, path: Vec<String>) {
        if !path.is_empty() {
            self.module.paths.insert(path);
        }
    }
}

impl<'ast> Visit<'ast> for Collector<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if is_for_tests(attributes(item)) {
            return;
        }
        if let Some(name) = defined_name(item) {
            self.module.items.insert(name);
        }
        visit::visit_item(self, item);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let is_public = !matches!(item.vis, syn::Visibility::Inherited);
        self.add_use(&item.tree, Vec::new(), is_public);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if let (None, syn::Type::Path(of)) = (&item.trait_, &*item.self_ty)
            && let Some(name) = of.path.get_ident().or_else(|| of.path.segments.last().map(|last| &last.ident))
            && of.path.segments.len() == 1
        {
            self.module.impls.insert(name.to_string());
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_for_tests(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.add_path(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.visit_path(&item.path);
        self.add_tokens(item.tokens.clone());
    }
}

fn defined_name(item: &syn::Item) -> Option<String> {
    let ident = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        syn::Item::Union(item) => &item.ident,
        syn::Item::Macro(item) => item.ident.as_ref()?,
        _ => return None,
    };
    Some(ident.to_string())
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// True for `#[cfg(test)]` and `#[cfg(any(test, …))]`.
fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return false };
        let condition = list.tokens.to_string();
        list.path.is_ident("cfg")
            && (condition == "test" || condition.starts_with("any (test") || condition.starts_with("any(test"))
    })
}

/// The strongly connected components of more than one file, by Tarjan's algorithm.
fn circles<'a>(edges: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Vec<Vec<&'a str>> {
    let mut search = Search { edges, next: 0, seen: BTreeMap::new(), stack: Vec::new(), found: Vec::new() };
    for file in edges.keys() {
        if !search.seen.contains_key(file) {
            search.visit(file);
        }
    }
    search.found
}

struct Search<'a, 'e> {
    edges: &'e BTreeMap<&'a str, BTreeSet<&'a str>>,
    next: usize,
    /// File to (index, lowest index that can be reached, on the stack).
    seen: BTreeMap<&'a str, (usize, usize, bool)>,
    stack: Vec<&'a str>,
    found: Vec<Vec<&'a str>>,
}

impl<'a> Search<'a, '_> {
    /// Visits a file that was not seen before; returns the lowest index it can reach.
    fn visit(&mut self, file: &'a str) -> usize {
        let index = self.next;
        self.next += 1;
        self.seen.insert(file, (index, index, true));
        self.stack.push(file);
        let mut low = index;
        for to in self.edges.get(file).into_iter().flatten() {
            low = match self.seen.get(to) {
                None => low.min(self.visit(to)),
                Some((index, _, true)) => low.min(*index),
                Some(_) => low,
            };
        }
        if low == index {
            let mut circle = Vec::new();
            while let Some(member) = self.stack.pop() {
                if let Some(entry) = self.seen.get_mut(member) {
                    entry.2 = false;
                }
                circle.push(member);
                if member == file {
                    break;
                }
            }
            if circle.len() > 1 {
                circle.sort_unstable();
                self.found.push(circle);
            }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_crate(files: &[(&str, &str)]) -> Vec<String> {
        let named: Vec<(String, &str)> = files.iter().map(|(name, text)| (format!("x/src/{name}"), *text)).collect();
        let found = check("x", &named.iter().map(|(name, text)| (name.as_str(), *text)).collect()).unwrap();
        found.describe().map(str::to_owned).collect()
    }

    #[test]
    fn imports_in_one_direction_pass() {
        let files = [("lib.rs", "mod a; mod b;"), ("a.rs", "use crate::b::B; struct A(B);"), ("b.rs", "pub struct B;")];
        assert!(check_crate(&files).is_empty());
    }

    #[test]
    fn two_files_that_use_each_other_are_a_circle() {
        let a = "use super::b::B; pub struct A;";
        let b = "pub struct B; fn f(_: &crate::a::A) {}";
        let found = check_crate(&[("lib.rs", "mod a; mod b;"), ("a.rs", a), ("b.rs", b)]);
        assert_eq!(found, ["x: files import each other in a circle: x/src/a.rs, x/src/b.rs"]);
    }

    #[test]
    fn re_exports_are_followed_to_the_definition() {
        let parent = "mod a; mod b; pub(crate) use a::A; pub(crate) use b::B;";
        let files = [
            ("lib.rs", "mod p;"),
            ("p/mod.rs", parent),
            ("p/a.rs", "pub struct A;"),
            ("p/b.rs", "use super::A; pub struct B(A);"),
        ];
        assert!(check_crate(&files).is_empty());
    }

    #[test]
    fn parent_and_child_that_use_each_other_are_a_circle() {
        let files =
            [("lib.rs", "mod a; use a::A; struct R(A); fn f() {}"), ("a.rs", "pub struct A; fn g() { crate::f() }")];
        assert_eq!(check_crate(&files).len(), 1);
    }

    #[test]
    fn macro_arguments_and_globs_count() {
        let a = "use super::b::*; fn f() { B; } pub fn g() {}";
        let b = "pub struct B; fn h() { assert!(crate::a::g() == ()); }";
        assert_eq!(check_crate(&[("lib.rs", "mod a; mod b;"), ("a.rs", a), ("b.rs", b)]).len(), 1);
    }

    #[test]
    fn tests_do_not_count() {
        let a = "pub struct A; #[cfg(test)] mod tests { use crate::b::B; }";
        let files = [("lib.rs", "mod a; mod b;"), ("a.rs", a), ("b.rs", "use crate::a::A; pub struct B(A);")];
        assert!(check_crate(&files).is_empty());
    }

    #[test]
    fn an_impl_lives_with_its_type_or_below() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "mod c; pub struct A;"),
            ("a/c.rs", "use super::A; impl A { fn f(&self) {} }"),
            ("b.rs", "use crate::a::A; impl A { fn g(&self) {} }"),
        ];
        assert_eq!(check_crate(&files), ["x/src/b.rs: impl A belongs in x/src/a.rs or a submodule of it"]);
    }
}

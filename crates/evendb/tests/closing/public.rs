//! The public functions of the crate, as its sources have them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn rust_files(dir: &Path, into: &mut Vec<String>) {
    let mut paths: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    for path in paths {
        match path.extension() {
            None => rust_files(&path, into),
            Some(_) => into.push(fs::read_to_string(&path).unwrap()),
        }
    }
}

fn first_name(text: &str) -> String {
    let is_part = |c: &char| c.is_alphanumeric() || *c == '_';
    text.chars().take_while(is_part).collect()
}

/// The type of `impl<..> Type<..> {`; none of an implementation of a trait. `$name` is what a macro makes.
fn implemented(line: &str) -> Option<String> {
    let mut rest = line.trim_start().strip_prefix("impl")?;
    if let Some(generic) = rest.strip_prefix('<') {
        rest = &generic[generic.find('>')? + 1..];
    }
    let rest = rest.trim_start();
    let is_of_trait = rest.contains(" for ");
    (!is_of_trait).then(|| match rest.strip_prefix('$') {
        Some(_) => "$".to_owned(),
        None => first_name(rest),
    })
}

/// `Type::function` of all public functions of a file; `made_by_macro` are the types that its macro makes.
fn functions_of(text: &str, made_by_macro: &[&str]) -> BTreeSet<String> {
    let mut functions = BTreeSet::new();
    let mut own: Option<String> = None;
    for line in text.lines() {
        if line == "}" {
            own = None;
        }
        if let Some(name) = implemented(line) {
            own = Some(name);
        }
        let code = line
            .trim_start()
            .replace("const fn", "fn")
            .replace("unsafe fn", "fn");
        let (Some(own), Some(function)) = (&own, code.strip_prefix("pub fn ")) else {
            continue;
        };
        let types = match &**own {
            "$" => made_by_macro.to_vec(),
            own => vec![own],
        };
        let function = first_name(function);
        functions.extend(types.iter().map(|name| format!("{name}::{function}")));
    }
    functions
}

/// `Type::function` of all public functions of these types.
pub fn functions(types: &[&str], made_by_macro: &[&str]) -> BTreeSet<String> {
    let mut texts = Vec::new();
    rust_files(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut texts,
    );
    let all = texts
        .iter()
        .flat_map(|text| functions_of(text, made_by_macro));
    let is_of = |function: &String| types.contains(&function.split("::").next().unwrap());
    all.filter(is_of).collect()
}

/// The types that the crate gives out.
pub fn types() -> BTreeSet<String> {
    let lib = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
    let lib = fs::read_to_string(lib).unwrap();
    let statements = lib.split(';').filter(|part| part.contains("pub use "));
    let names = statements.flat_map(|statement| {
        let named = statement.split_once("pub use ").unwrap().1;
        let names = named.split(|c: char| !c.is_alphanumeric() && c != '_');
        names.map(str::to_owned).collect::<Vec<_>>()
    });
    names
        .filter(|name| name.starts_with(|first: char| first.is_uppercase()))
        .collect()
}

#[test]
fn a_function_that_is_new_is_found() {
    let text = "impl<'t> Db {\n    pub fn new(&self) {}\n    pub(crate) fn own(&self) {}\n}\n\
                impl Iterator for Db {\n    pub fn no(&self) {}\n}\n\
                macro_rules! m {\n        impl<'t> $name<'t> {\n            pub fn seek(&mut self) {}\n        }\n}\n";
    let found: Vec<String> = functions_of(text, &["A", "B"]).into_iter().collect();
    assert_eq!(found, ["A::seek", "B::seek", "Db::new"]);
}

//! The public functions of the crate, as its sources have them: so a test notices a function that
//! is not in its lists.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn rust_files(dir: &Path, into: &mut Vec<String>) {
    let mut paths: Vec<_> = fs::read_dir(dir)
        .expect("lists")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    for path in paths {
        match path.extension() {
            None => rust_files(&path, into),
            Some(_) => into.push(fs::read_to_string(&path).expect("reads")),
        }
    }
}

fn first_name(text: &str) -> String {
    let is_part = |c: &char| c.is_alphanumeric() || *c == '_';
    text.chars().take_while(is_part).collect()
}

/// The words of a list.
pub fn words(list: &str) -> BTreeSet<String> {
    list.split_whitespace().map(str::to_owned).collect()
}

/// The type of `impl<..> Type<..> {`; `None` for an implementation of a trait. `$name` stands for
/// the types that a macro makes.
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

/// `Type::function` of all public functions of a file; `made_by_macro` are the types that its macro
/// makes.
pub fn functions_of(text: &str, made_by_macro: &[&str]) -> BTreeSet<String> {
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
    let is_of = |function: &String| types.contains(&function.split("::").next().expect("a type"));
    all.filter(is_of).collect()
}

/// The types that the crate exports.
pub fn types() -> BTreeSet<String> {
    let lib = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
    let lib = fs::read_to_string(lib).expect("reads");
    let statements = lib.split(';').filter(|part| part.contains("pub use "));
    let names = statements.flat_map(|statement| {
        let named = statement.split_once("pub use ").expect("a statement").1;
        let names = named.split(|c: char| !c.is_alphanumeric() && c != '_');
        names.map(str::to_owned).collect::<Vec<_>>()
    });
    names
        .filter(|name| name.starts_with(|first: char| first.is_uppercase()))
        .collect()
}

/// The values that a setter of a number is tried with: 0, 1, the least and the greatest allowed,
/// their neighbours, and the greatest of its type. Each comes with whether it is allowed.
pub fn tried((least, most): (u64, u64), type_max: u64) -> Vec<(u64, bool)> {
    let beside = [
        least.saturating_sub(1),
        most.saturating_add(1).min(type_max),
    ];
    let mut values = vec![0, 1, least, most, type_max];
    values.extend(beside);
    values.sort_unstable();
    values.dedup();
    let allowed = |value: u64| (least..=most).contains(&value);
    values
        .into_iter()
        .map(|value| (value, allowed(value)))
        .collect()
}

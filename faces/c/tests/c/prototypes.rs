//! What the header declares, one line for each declaration, and its functions with their parts.

use super::library::here;

pub fn header() -> String {
    std::fs::read_to_string(here().join("include/evendb.h")).unwrap()
}

/// The declarations of a header's text: without comments and directives, each on one line with
/// single spaces; names of enumerators with their numbers, one a line.
pub fn declarations(text: &str) -> Vec<String> {
    let mut rest = text;
    let mut bare = String::new();
    while let Some((before, after)) = rest.split_once("/*") {
        bare.push_str(before);
        bare.push(' ');
        rest = after.split_once("*/").unwrap().1;
    }
    bare.push_str(rest);
    let is_code = |line: &&str| {
        let line = line.trim_start();
        !line.starts_with('#') && !line.starts_with("extern \"C\"") && line != "}"
    };
    let code: Vec<&str> = bare.lines().filter(is_code).collect();
    let code = code.join(" ");
    let mut found = Vec::new();
    for declaration in code.split(';') {
        let words: Vec<&str> = declaration.split_whitespace().collect();
        let declaration = words.join(" ").replace("EVENDB_API ", "");
        if let Some(inner) = declaration.strip_prefix("enum { ") {
            let each = inner.trim_end_matches('}').split(',');
            found.extend(each.map(|one| format!("enum {{ {} }};", one.trim())));
        } else if !declaration.is_empty() {
            found.push(format!("{declaration};"));
        }
    }
    found
}

/// A function, with types told apart as far as a call does: `pointer`, or the number's width.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Function {
    pub name: String,
    pub parameters: Vec<&'static str>,
    pub result: &'static str,
}

fn class_in_c(of: &str) -> &'static str {
    let functions = [
        "evendb_merge_full",
        "evendb_merge_partial",
        "evendb_merge_check",
        "evendb_context_destroy",
        "evendb_filter",
        "evendb_done",
    ];
    let mut words = of.split_whitespace().filter(|word| *word != "const");
    let first = words.next().unwrap();
    match first {
        _ if of.contains('*') || functions.contains(&first) => "pointer",
        "size_t" => "usize",
        "uint64_t" => "u64",
        "uint32_t" => "u32",
        "int32_t" | "evendb_status" => "i32",
        "void" => "nothing",
        _ => panic!("the type of {of:?}"),
    }
}

/// The functions of a header.
pub fn functions(text: &str) -> Vec<Function> {
    let is_function = |line: &String| !line.starts_with("typedef") && !line.starts_with("enum");
    let lines = declarations(text).into_iter().filter(is_function);
    lines.map(|line| function(&line)).collect()
}

fn function(line: &str) -> Function {
    let (before, parameters) = line.split_once('(').unwrap();
    let parameters = parameters.strip_suffix(");").unwrap();
    let name = before.rsplit([' ', '*']).next().unwrap();
    let result = class_in_c(before.strip_suffix(name).unwrap());
    let parameters = match parameters {
        "void" => Vec::new(),
        parameters => parameters.split(',').map(class_in_c).collect(),
    };
    Function {
        name: name.to_owned(),
        parameters,
        result,
    }
}

fn class_in_rust(of: &str) -> &'static str {
    let pointers = [
        "*",
        "&",
        "Option<",
        "Place<",
        "Bytes",
        "Text",
        "Many<",
        "Room<",
        "ErrorPlace",
    ];
    match of {
        _ if pointers.iter().any(|pointer| of.starts_with(pointer)) => "pointer",
        "usize" => "usize",
        "u64" => "u64",
        "u32" => "u32",
        "i32" | "Status" => "i32",
        "" => "nothing",
        _ => panic!("the type {of:?}"),
    }
}

/// The functions that the sources of the library export.
pub fn exported() -> Vec<Function> {
    let mut found = Vec::new();
    let mut folders = vec![here().join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let source = std::fs::read_to_string(path).unwrap();
            let begun = source
                .split("#[unsafe(no_mangle)]\nextern \"C\" fn ")
                .skip(1);
            found.extend(begun.map(exported_function));
        }
    }
    found
}

fn exported_function(source: &str) -> Function {
    let (name, rest) = source.split_once('(').unwrap();
    let (parameters, rest) = rest.split_once(')').unwrap();
    let result = rest.split_once('{').unwrap().0.trim();
    // A type with two parameters has a comma of its own.
    let parameters = parameters.replace("<'_, ", "<");
    let of_each = parameters.split(',').filter_map(|one| one.split_once(':'));
    Function {
        name: name.to_owned(),
        parameters: of_each.map(|(_, of)| class_in_rust(of.trim())).collect(),
        result: class_in_rust(result.trim_start_matches("->").trim()),
    }
}

//! The order of the house: rooms that import only downwards, an engine that stays small, functions
//! and files of limited length, few options.
//!
//! The rooms and their order are declared in ARCHITECTURE.md, in the block that begins with
//! "```rooms", top first. A line that ends with a slash names a floor, which is a folder of the
//! crate; the rooms of the lines below it lie there, each a file or a folder. A room may import
//! rooms on lines below its own, and no others. Code that only tests see is exempt.

#![expect(
    clippy::unwrap_used,
    reason = "a test, which fails where the sources are not as it expects"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

const ENGINE_FIELDS_MAX: usize = 12;
const ENGINE_IMPL_FILES_MAX: usize = 2;
const OPTIONS_SETTERS_MAX: usize = 12;
/// The most lines of a function of the engine, and of any source file.
const FUNCTION_LINES_MAX: usize = 80;
const FILE_LINES_MAX: usize = 800;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn rust_files(dir: &Path, into: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("target") {
            rust_files(&path, into)?;
        } else if path.extension().is_some_and(|end| end == "rs") {
            into.push(path);
        }
    }
    into.sort();
    Ok(())
}

/// The files of the crate, by their path below their floor, with their text. The list of a floor's
/// rooms is none of them.
fn sources() -> BTreeMap<String, String> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let floors = declared_floors(&architecture());
    let mut files = Vec::new();
    rust_files(&src, &mut files).unwrap();
    let mut sources = BTreeMap::new();
    for path in files {
        let name = path.strip_prefix(&src).unwrap().to_str().unwrap();
        let below = name
            .split_once('/')
            .filter(|(floor, _)| floors.contains_key(*floor));
        let name = below.map_or(name, |(_, below)| below);
        if name != "mod.rs" {
            sources.insert(name.to_owned(), fs::read_to_string(&path).unwrap());
        }
    }
    sources
}

fn rooms_block(architecture: &str) -> &str {
    let block = architecture.split_once("```rooms\n").unwrap().1;
    block.split_once("```").unwrap().0
}

fn is_floor(line: &str) -> bool {
    line.split_whitespace()
        .next()
        .is_some_and(|name| name.ends_with('/'))
}

/// The rooms of each floor.
fn declared_floors(architecture: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut floors: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut floor = String::new();
    for line in rooms_block(architecture).lines() {
        let names = line.split("  ").next().unwrap().split_whitespace();
        match is_floor(line) {
            true => floor = names.map(|name| name.trim_end_matches('/')).collect(),
            false => floors
                .entry(floor.clone())
                .or_default()
                .extend(names.map(str::to_owned)),
        }
    }
    floors
}

/// Each room's line in the declared order, the bottom one first.
fn declared_order(architecture: &str) -> BTreeMap<String, usize> {
    let mut order = BTreeMap::new();
    let lines = rooms_block(architecture).lines().rev();
    for (line, text) in lines.filter(|line| !is_floor(line)).enumerate() {
        // Text after two spaces explains.
        for room in text.split("  ").next().unwrap().split_whitespace() {
            assert!(
                order.insert(room.to_owned(), line).is_none(),
                "{room} twice"
            );
        }
    }
    order
}

fn is_test_gate(line: &str) -> bool {
    line.starts_with("#[cfg(") && line.contains("test") && !line.contains("not(test)")
}

/// The file without comments and without the parts that only tests see; and the names of the
/// modules in files of their own that only tests see.
fn code_of(text: &str) -> (Vec<&str>, Vec<&str>) {
    let (mut code, mut test_modules) = (Vec::new(), Vec::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if !is_test_gate(line) {
            // A string that holds `//` may be cut short: it holds no path.
            code.push(line.split("//").next().unwrap());
            continue;
        }
        let gated = lines.by_ref().find(|line| !line.starts_with("#["));
        let gated = gated.unwrap_or_default();
        if let Some(name) = gated.strip_suffix(';') {
            test_modules.extend(name.rsplit(' ').next());
        } else if !gated.ends_with('}') {
            lines.by_ref().find(|&line| line == "}");
        }
    }
    (code, test_modules)
}

/// The module path of a file below `src`.
fn module_of(file: &str) -> Vec<&str> {
    let stem = file.strip_suffix(".rs").unwrap();
    let mut path: Vec<&str> = stem.split('/').collect();
    path.pop_if(|last| *last == "mod" || *last == "lib");
    path
}

/// First names after `prefix` in a path or a tree of paths.
fn names_after(code: &str, prefix: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices(prefix) {
        if code[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_') {
            continue;
        }
        let rest = code[at + prefix.len()..].trim_start();
        match rest.strip_prefix('{') {
            None => names.extend(first_name(rest)),
            Some(tree) => {
                let (mut depth, mut begins) = (0, true);
                for (at, c) in tree.char_indices() {
                    if depth == 0 && begins && !c.is_whitespace() {
                        names.extend(first_name(&tree[at..]));
                        begins = false;
                    }
                    match c {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => begins = true,
                        _ => {}
                    }
                }
            }
        }
    }
    names
}

fn first_name(text: &str) -> Option<String> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let name: String = text.chars().take_while(|&c| is_part(c)).collect();
    (!name.is_empty()).then_some(name)
}

/// The room of each name that the crate's root exports.
fn given_out(lib: &str) -> BTreeMap<String, String> {
    let mut from = BTreeMap::new();
    for statement in lib
        .split(';')
        .filter_map(|part| part.trim().strip_prefix("pub use "))
    {
        let room = first_name(statement).unwrap();
        let names = statement.split(|c: char| !c.is_alphanumeric() && c != '_');
        from.extend(names.map(|name| (name.to_owned(), room.clone())));
    }
    from
}

/// Every import that does not go downwards, as a sentence.
fn upward_imports(
    sources: &BTreeMap<String, String>,
    order: &BTreeMap<String, usize>,
) -> Vec<String> {
    let given_out = given_out(&sources["lib.rs"]);
    let mut skipped = BTreeSet::new();
    for (file, text) in sources {
        let of = module_of(file);
        for module in code_of(text).1 {
            let mut path = of.clone();
            path.push(module);
            skipped.insert(path.join("/"));
        }
    }
    let is_skipped = |file: &str| {
        let stem = file.strip_suffix(".rs").unwrap();
        let inside = |skipped: &String| {
            let rest = stem.strip_prefix(skipped.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        skipped.iter().any(inside)
    };
    let mut wrong = Vec::new();
    for (file, text) in sources {
        let of = module_of(file);
        let Some(&room) = of.first() else { continue };
        if is_skipped(file) {
            continue;
        }
        let Some(own) = order.get(room) else {
            wrong.push(format!(
                "src/{file}: the room {room} has no place in ARCHITECTURE.md"
            ));
            continue;
        };
        let code = code_of(text).0.join("\n");
        let mut names = names_after(&code, "crate::");
        // `super` repeated to the file's depth leads to the floor, and once more to the root.
        for depth in [of.len(), of.len() + 1] {
            let names_above = names_after(&code, &"super::".repeat(depth));
            names.extend(names_above.into_iter().filter(|name| name != "super"));
        }
        for name in names {
            let to = given_out.get(&name).filter(|_| !order.contains_key(&name));
            let to = to.unwrap_or(&name);
            if to == room {
                continue;
            }
            match order.get(to) {
                None => wrong.push(format!(
                    "src/{file} imports crate::{name}, which is no room"
                )),
                Some(line) if line >= own => wrong.push(format!(
                    "src/{file} imports crate::{name}: {room} -> {to} goes upwards \
                     (lines {own} and {line} of the rooms in ARCHITECTURE.md)"
                )),
                Some(_) => {}
            }
        }
    }
    wrong
}

fn architecture() -> String {
    fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap()
}

#[test]
fn no_room_imports_one_above_it() {
    let wrong = upward_imports(&sources(), &declared_order(&architecture()));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A floor has the rooms that are declared, and floors lie in the order in which they are declared,
/// since the lines of a floor follow each other.
#[test]
fn each_floor_has_its_rooms() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for (floor, declared) in declared_floors(&architecture()) {
        let names = fs::read_dir(src.join(&floor)).unwrap().map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            name.trim_end_matches(".rs").to_owned()
        });
        let names: BTreeSet<String> = names.filter(|name| name != "mod").collect();
        // Both engines need these rooms, so they lie in a crate of their own.
        let shared = ["error", "fork", "sync"].into_iter().map(str::to_owned);
        let shared: BTreeSet<String> = shared.filter(|room| declared.contains(room)).collect();
        assert_eq!(&names | &shared, declared, "{floor}");
    }
}

/// The test above can fail: an upward import in each of the forms that imports take.
#[test]
fn an_upward_import_is_named() {
    let order = declared_order(&architecture());
    for (file, planted) in [
        ("manifest/state.rs", "use crate::worker;"),
        ("manifest/state.rs", "use crate::{files, worker::start};"),
        ("manifest/state.rs", "fn f() { crate::worker::close(); }"),
        ("manifest/state.rs", "use super::super::super::worker;"),
        ("commit_log/mod.rs", "use super::manifest;"),
        ("manifest/edit.rs", "use crate::Db;"),
        (
            "admission/mod.rs",
            "use crate::{\n    worker::{self, start},\n    sync,\n};",
        ),
    ] {
        let mut sources = sources();
        sources
            .get_mut(file)
            .unwrap()
            .push_str(&format!("\n{planted}\n"));
        let wrong = upward_imports(&sources, &order);
        let [one] = &wrong[..] else {
            panic!("{planted}: {wrong:?}")
        };
        assert!(one.contains(file) && one.contains("goes upwards"), "{one}");
    }
    // Code that only tests see may import upwards.
    let mut sources = sources();
    let gated = "\n#[cfg(test)]\nmod more_tests {\n    use crate::worker;\n}\n";
    sources
        .get_mut("manifest/state.rs")
        .unwrap()
        .push_str(gated);
    assert_eq!(upward_imports(&sources, &order), Vec::<String>::new());
}

#[test]
fn the_engine_only_holds() {
    let sources = sources();
    let engine = &sources["engine/mod.rs"];
    let fields = engine.split_once("pub(crate) struct Engine {").unwrap().1;
    let fields = fields.split_once("\n}").unwrap().0;
    let fields = fields
        .lines()
        .filter(|line| line.trim_start().starts_with("pub(crate) "));
    let fields = fields.count();
    assert!((1..=ENGINE_FIELDS_MAX).contains(&fields), "{fields} fields");
    let with_impl: Vec<&String> = sources
        .iter()
        .filter(|(_, text)| {
            let begins = |line: &str| line.starts_with("impl") && line.contains(" Engine {");
            code_of(text).0.iter().any(|line| begins(line))
        })
        .map(|(file, _)| file)
        .collect();
    assert!(
        (1..=ENGINE_IMPL_FILES_MAX).contains(&with_impl.len()),
        "{with_impl:?}"
    );
}

/// The public functions in `impl` blocks of a type: the name of each, and the comments and
/// attributes above it.
fn public_functions(text: &str, of: &str) -> Vec<(String, String)> {
    let begin = format!("\nimpl {of} {{\n");
    let mut functions = Vec::new();
    for block in text.split(&begin).skip(1) {
        let mut above = String::new();
        for line in block.lines().take_while(|&line| line != "}") {
            let line = line.trim_start();
            if let Some(function) = line.strip_prefix("pub fn ") {
                functions.push((first_name(function).unwrap(), above.clone()));
            }
            match line.starts_with("///") || line.starts_with("#[") {
                true => above.extend([line, "\n"]),
                false => above.clear(),
            }
        }
    }
    functions
}

/// The setters of all files: the public functions without those that make the options or open with
/// them.
fn options_setters(sources: &BTreeMap<String, String>) -> Vec<String> {
    let functions = sources
        .values()
        .flat_map(|text| public_functions(text, "Options"));
    let names = functions.map(|(name, _)| name);
    names
        .filter(|name| name != "new" && name != "open")
        .collect()
}

#[test]
fn a_user_sees_few_options() {
    let mut sources = sources();
    let setters = options_setters(&sources);
    assert!(
        (1..=OPTIONS_SETTERS_MAX).contains(&setters.len()),
        "{} setters: {setters:?}",
        setters.len()
    );
    // One more setter, in whatever file, is counted.
    let planted = "\nimpl Options {\n    pub fn planted(self) -> Self {\n        self\n    }\n}\n";
    sources.get_mut("files.rs").unwrap().push_str(planted);
    assert_eq!(options_setters(&sources).len(), setters.len() + 1);
}

#[test]
fn every_advanced_setting_says_when_to_touch_it() {
    let sources = sources();
    let settings = public_functions(&sources["options/advanced.rs"], "Advanced");
    let shown = settings
        .iter()
        .filter(|(_, above)| !above.contains("#[doc(hidden)]"));
    let mut count = 0;
    for (name, above) in shown {
        assert!(above.contains("Touch it when"), "{name}: {above}");
        assert!(above.contains("Default: "), "{name}: {above}");
        count += 1;
    }
    assert!(count > 0, "no setting was found");
}

/// For each function, the line where it begins, its name and its number of lines.
fn functions(text: &str) -> Vec<(usize, String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let indent = line.len() - code.len();
        let words = code
            .split_once("fn ")
            .map(|(before, after)| (before.trim(), after));
        let Some((before, after)) = words else {
            continue;
        };
        let modifiers = ["pub", "const", "unsafe", "async", "extern"];
        let is_function =
            before.is_empty() || modifiers.iter().any(|word| before.starts_with(word));
        if !is_function || code.ends_with('}') {
            continue;
        }
        let end = format!("{}}}", " ".repeat(indent));
        let Some(length) = lines[at..].iter().position(|line| *line == end) else {
            continue;
        };
        found.push((at + 1, first_name(after).unwrap_or_default(), length + 1));
    }
    found
}

#[test]
fn functions_and_files_fit_the_eye() {
    let mut wrong = Vec::new();
    for (file, text) in &sources() {
        for (line, name, lines) in functions(text) {
            if lines > FUNCTION_LINES_MAX {
                wrong.push(format!("src/{file}:{line}: {name} has {lines} lines"));
            }
        }
    }
    let mut files = Vec::new();
    for folder in ["store", "faces", "cli", "studio", "proof"] {
        rust_files(&root().join(folder), &mut files).unwrap();
    }
    assert!(files.len() > 200, "{}", files.len());
    for path in files {
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        if lines > FILE_LINES_MAX {
            let path = path.strip_prefix(root()).unwrap();
            wrong.push(format!("{} has {lines} lines", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

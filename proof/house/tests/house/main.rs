//! The order of the house: crates and rooms that import only downwards, functions and files of
//! limited length, few arguments, a listing and a tour that are short, and the engine's few
//! options. These tests read the sources of all crates, so they lie in a crate of their own.
//!
//! Crates lie in the order of the table "Crates" in ARCHITECTURE.md. Rooms lie in the order of the
//! block that begins with "```rooms" there, and in other crates in the order of the section "Rooms"
//! of the head of `lib.rs`. Code that only tests see may import what it likes, and take as many
//! arguments as it needs.
//!
//! What breaches a limit today stands in `breaches.rs` by its name. A test fails when a name
//! there breaches no longer, so the lists only get shorter.

#![expect(
    clippy::unwrap_used,
    reason = "a test, which fails where the sources are not as it expects"
)]

mod breaches;
mod crates;
mod engine;
mod functions;
mod listing;
mod rooms;
mod source;

use breaches::{LONG, LONG_TESTS, MANY_ARGUMENTS, SIGNATURES_OF_OTHERS};
use functions::{Function, arguments, functions};
use rooms::{
    Floors, Order, below_floors, floors_of_block, of_head, order_of_block, upward_imports,
};
use source::{
    blanked, is_among, is_beside_production, production, read, root, rust_files, test_modules,
};
use std::collections::{BTreeMap, BTreeSet};

const FOLDERS: [&str; 5] = ["store", "faces", "cli", "studio", "proof"];
/// The most lines of a function of production code, and of a function of tests beside it.
const FUNCTION_LINES_MAX: usize = 70;
const TEST_FUNCTION_LINES_MAX: usize = 80;
/// The most lines of any file.
const FILE_LINES_MAX: usize = 800;
/// The most arguments of a function of production code, without `self` and with tuples unpacked.
const ARGUMENTS_MAX: usize = 6;

/// A function's file and name.
type Place = (String, String);

/// The functions of all crates that are in the sources of a crate: those of production code, and
/// those that only tests see.
struct Functions {
    production: Vec<(String, Function)>,
    tests: Vec<(String, Function)>,
}

fn all_functions() -> Functions {
    let files = rust_files(&FOLDERS);
    let gated = test_modules(&files);
    let (mut in_production, mut in_tests) = (Vec::new(), Vec::new());
    for (file, text) in &files {
        if is_beside_production(file) {
            continue;
        }
        let named = |function| (file.clone(), function);
        let all = functions(&blanked(text));
        if is_among(file, &gated) {
            in_tests.extend(all.into_iter().map(named));
            continue;
        }
        let seen = functions(&production(text).code);
        let is_gated = |of: &Function| !seen.iter().any(|other| other.line == of.line);
        in_tests.extend(all.into_iter().filter(is_gated).map(named));
        in_production.extend(seen.into_iter().map(named));
    }
    Functions {
        production: in_production,
        tests: in_tests,
    }
}

/// What breaches a limit and is not listed, and what is listed and does not breach.
fn differences(breaching: &BTreeMap<Place, usize>, listed: &[(&str, &str)]) -> Vec<String> {
    let listed: BTreeSet<Place> = listed
        .iter()
        .map(|(file, name)| ((*file).to_owned(), (*name).to_owned()))
        .collect();
    let more = breaching
        .iter()
        .filter(|(place, _)| !listed.contains(place))
        .map(|((file, name), count)| format!("{file}: {name} has {count}"));
    let less = listed
        .iter()
        .filter(|place| !breaching.contains_key(place))
        .map(|(file, name)| format!("{file}: {name} breaches no longer: take it from the list"));
    more.chain(less).collect()
}

fn over(
    all: &[(String, Function)],
    max: usize,
    count: impl Fn(&Function) -> usize,
) -> BTreeMap<Place, usize> {
    let over = all.iter().filter(|(_, function)| count(function) > max);
    let place = |(file, of): &(String, Function)| ((file.clone(), of.name.clone()), count(of));
    over.map(place).collect()
}

fn assert_none(wrong: &[String]) {
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn functions_fit_the_eye() {
    let all = all_functions();
    assert!(all.production.len() > 5_000, "{}", all.production.len());
    assert!(all.tests.len() > 1_000, "{}", all.tests.len());
    let long = over(&all.production, FUNCTION_LINES_MAX, |of| of.lines);
    let long_tests = over(&all.tests, TEST_FUNCTION_LINES_MAX, |of| of.lines);
    let mut wrong = differences(&long, LONG);
    wrong.extend(differences(&long_tests, LONG_TESTS));
    assert_none(&wrong);
}

#[test]
fn functions_take_at_most_six_arguments() {
    let mut all = all_functions().production;
    all.retain(|(_, function)| !function.is_foreign);
    let mut listed = MANY_ARGUMENTS.to_vec();
    listed.extend(SIGNATURES_OF_OTHERS);
    assert_none(&differences(
        &over(&all, ARGUMENTS_MAX, |of| of.arguments),
        &listed,
    ));
}

#[test]
fn files_fit_the_eye() {
    let files = rust_files(&FOLDERS);
    assert!(files.len() > 800, "{}", files.len());
    let lines = files
        .iter()
        .map(|(file, text)| (file, text.lines().count()));
    let long = lines.filter(|(_, lines)| *lines > FILE_LINES_MAX);
    let wrong: Vec<String> = long
        .map(|(file, lines)| format!("{file} has {lines} lines"))
        .collect();
    assert_none(&wrong);
}

/// The folder and the manifest of each crate, lowest first.
fn declared_crates(architecture: &str) -> Vec<(&str, String)> {
    let manifest = |folder| (folder, read(&format!("{folder}/Cargo.toml")));
    crates::declared(architecture)
        .into_iter()
        .map(manifest)
        .collect()
}

#[test]
fn no_crate_depends_on_one_above_it() {
    let architecture = read("ARCHITECTURE.md");
    let declared = declared_crates(&architecture);
    assert_none(&crates::upward_dependencies(&declared));
    for folder in crates::members(&read("Cargo.toml")) {
        let is_declared = declared.iter().any(|(other, _)| *other == folder);
        assert!(is_declared, "{folder} has no row in ARCHITECTURE.md");
    }
}

/// The test above can fail.
#[test]
fn an_upward_dependency_is_named() {
    let architecture = read("ARCHITECTURE.md");
    for planted in [
        "[dependencies]\nevendb.workspace = true\n",
        "[dependencies]\nevendb-lab = { path = \"../lab\" }\n",
        "[target.'cfg(unix)'.dependencies]\nevendb-cli = { path = \"x\" }\n",
        "[build-dependencies]\nevendb-storage.workspace = true\n",
    ] {
        let mut crates = declared_crates(&architecture);
        let of = crates
            .iter_mut()
            .find(|(folder, _)| *folder == "store/storage");
        of.unwrap().1.push_str(planted);
        let wrong = crates::upward_dependencies(&crates);
        let [one] = &wrong[..] else {
            panic!("{planted}: {wrong:?}")
        };
        assert!(one.starts_with("store/storage depends on evendb"), "{one}");
    }
    let mut crates = declared_crates(&architecture);
    let of = crates
        .iter_mut()
        .find(|(folder, _)| *folder == "store/storage");
    of.unwrap()
        .1
        .push_str("[dev-dependencies]\nevendb-lab = { path = \"x\" }\n");
    assert_none(&crates::upward_dependencies(&crates));
}

/// The files of a crate, by their path below its `src`.
fn sources_of(folder: &str) -> BTreeMap<String, String> {
    let src = format!("{folder}/src");
    let files = rust_files(&[&src]).into_iter();
    let below = |(path, text): (String, String)| (path[src.len() + 1..].to_owned(), text);
    files.map(below).collect()
}

/// A crate that declares an order of rooms.
struct RoomedCrate {
    folder: String,
    /// By their path below `src`, or below their floor.
    sources: BTreeMap<String, String>,
    order: Order,
    floors: Floors,
}

fn crates_with_rooms() -> Vec<RoomedCrate> {
    let architecture = read("ARCHITECTURE.md");
    let mut found = Vec::new();
    for folder in crates::members(&read("Cargo.toml")) {
        if !root().join(folder).join("src/lib.rs").is_file() {
            continue;
        }
        let sources = sources_of(folder);
        let (order, floors) = if folder == "store/evendb" {
            (
                order_of_block(&architecture),
                floors_of_block(&architecture),
            )
        } else if sources["lib.rs"].contains("\n//! # Rooms\n") {
            of_head(&sources)
        } else {
            continue;
        };
        let sources = below_floors(sources, &floors);
        found.push(RoomedCrate {
            folder: folder.to_owned(),
            sources,
            order,
            floors,
        });
    }
    found
}

/// Floors lie in the order in which they are declared, since the rooms of a floor follow each
/// other.
#[test]
fn each_floor_has_its_rooms() {
    let crates = crates_with_rooms();
    let with_floors = crates.iter().filter(|of| !of.floors.is_empty());
    let mut names = Vec::new();
    for RoomedCrate { folder, floors, .. } in with_floors {
        names.push(folder.as_str());
        let sources = sources_of(folder);
        for (floor, declared) in floors {
            let files = sources
                .keys()
                .filter_map(|file| file.strip_prefix(&format!("{floor}/")));
            let rooms = files.map(|file| file.split('/').next().unwrap().trim_end_matches(".rs"));
            let rooms: BTreeSet<String> = rooms
                .filter(|room| *room != "mod")
                .map(str::to_owned)
                .collect();
            // Other crates need these rooms too, so they lie in a crate of their own.
            let shared = ["error", "fork", "sync"].into_iter().map(str::to_owned);
            let is_shared = |room: &String| folder == "store/evendb" && declared.contains(room);
            let shared: BTreeSet<String> = shared.filter(is_shared).collect();
            assert_eq!(&rooms | &shared, *declared, "{folder}, {floor}");
        }
    }
    let expected = ["store/storage", "store/base", "store/evendb"];
    assert_eq!(names, expected);
}

#[test]
fn no_room_imports_one_above_it() {
    let crates = crates_with_rooms();
    let names: Vec<&str> = crates.iter().map(|of| of.folder.as_str()).collect();
    let expected = [
        "store/storage",
        "store/base",
        "store/evendb",
        "proof/powercut",
        "proof/longlife",
    ];
    assert_eq!(names, expected);
    for RoomedCrate {
        folder,
        sources,
        order,
        ..
    } in &crates
    {
        let wrong = upward_imports(sources, order);
        assert!(wrong.is_empty(), "{folder}: {}", wrong.join("\n"));
    }
}

/// The test above can fail: an upward import in each of the forms that imports take.
#[test]
fn an_upward_import_is_named() {
    let all = crates_with_rooms();
    let RoomedCrate { sources, order, .. } =
        all.iter().find(|of| of.folder == "store/evendb").unwrap();
    for (file, planted) in [
        ("manifest/state.rs", "use crate::worker;"),
        ("manifest/state.rs", "use crate::{files, worker::start};"),
        ("manifest/state.rs", "fn f() { crate::worker::close(); }"),
        ("manifest/state.rs", "use super::super::super::worker;"),
        ("manifest/mod.rs", "use super::worker;"),
        ("manifest/mod.rs", "use crate::Db;"),
        (
            "admission/mod.rs",
            "use crate::{\n    worker::{self, start},\n    files,\n};",
        ),
    ] {
        let mut sources = sources.clone();
        let text = sources.get_mut(file).unwrap();
        text.push_str(&format!("\n{planted}\n"));
        let wrong = upward_imports(&sources, order);
        let [one] = &wrong[..] else {
            panic!("{planted}: {wrong:?}")
        };
        assert!(one.contains(file) && one.contains("goes upwards"), "{one}");
    }
    // Code that only tests see may import upwards.
    let mut sources = sources.clone();
    let gated = "\n#[cfg(test)]\nmod more_tests {\n    use crate::worker;\n}\n";
    sources
        .get_mut("manifest/state.rs")
        .unwrap()
        .push_str(gated);
    assert_eq!(upward_imports(&sources, order), Vec::<String>::new());
}

#[test]
fn arguments_are_counted_with_tuples_unpacked() {
    for (parameters, count) in [
        ("", 0),
        ("self", 0),
        ("&'a mut self, a: u8,", 1),
        ("self: &Arc<Self>", 0),
        ("a: &mut HashMap<u8, Vec<u8>>, b: [u8; 4]", 2),
        ("(a, b): (u8, u16), c: u8", 3),
        ("a: &'a (u8, (u16, u32))", 3),
        ("a: Option<(u8, &[u8])>, (): ()", 3),
        (
            "a: impl Fn(u8, (u8, u8)) -> (u8, u8), b: &(dyn Fn(u8) -> u8 + Sync)",
            2,
        ),
        ("Pair { a, b }: std::fmt::Pair<u8>", 1),
    ] {
        assert_eq!(arguments(parameters), count, "{parameters}");
    }
}

#[test]
fn functions_are_found_whatever_stands_around_them() {
    let text = "// fn no() {\nimpl A {\n    pub(crate) fn one<F: Fn(u8) -> u8>(&self, f: F)\n    where\n        \
                F: Copy,\n    {\n        let _ = \"}\";\n        let _ = ('}', b'{', r#\"}\"}\"#);\n    }\n}\n\
                #[cfg(test)]\n#[expect(unused, reason = \"x\")]\nfn gated<A, B>(a: A, b: B) {}\n\
                extern \"C\" fn two(a: u8, b: fn(u8) -> u8) -> u8 {\n    a\n}\n";
    let found = functions(&production(text).code);
    let function = |line, name: &str, lines, arguments, is_foreign| Function {
        line,
        name: name.to_owned(),
        lines,
        arguments,
        is_foreign,
    };
    let expected = [
        function(3, "one", 7, 1, false),
        function(14, "two", 3, 2, true),
    ];
    assert_eq!(found, expected);
    assert_eq!(functions(&blanked(text)).len(), 3);
}

#[test]
fn a_list_of_breaches_only_gets_shorter() {
    let place = |name: &str| (("a.rs".to_owned(), name.to_owned()), 9);
    let breaching = BTreeMap::from([place("old"), place("new")]);
    let found = differences(&breaching, &[("a.rs", "old"), ("a.rs", "mended")]);
    assert_eq!(found.len(), 2);
    assert!(found[0].contains("new has 9") && found[1].contains("mended breaches no longer"));
}

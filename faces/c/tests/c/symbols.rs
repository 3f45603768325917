//! What the libraries show to a linker: the functions of the header and nothing else, under the
//! version of the interface; the name of the shared library; and that it is never unloaded.

use super::library::{library, run};
use super::prototypes::{functions, header};
use std::collections::BTreeSet;
use std::process::Command;

fn declared() -> BTreeSet<String> {
    let each = functions(&header()).into_iter();
    each.map(|function| function.name).collect()
}

fn lines_of(command: &mut Command) -> Vec<String> {
    let output = run(command).stdout;
    let text = String::from_utf8_lossy(&output).into_owned();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn the_shared_library_shows_the_functions_of_the_header_alone() {
    let shared = library().join("libevendb.so.1");
    let lines = lines_of(
        Command::new("nm")
            .args(["-D", "--defined-only"])
            .arg(&shared),
    );
    let mut shown = BTreeSet::new();
    for line in lines {
        let name = line.rsplit(' ').next().unwrap();
        if name.starts_with("EVENDB_1.0") {
            // The version itself.
            continue;
        }
        // Older versions of nm do not name a symbol's version.
        let (name, version) = name.split_once("@@").unwrap_or((name, "EVENDB_1.0"));
        assert_eq!(version, "EVENDB_1.0", "{line}");
        shown.insert(name.to_owned());
    }
    assert_eq!(shown, declared());
}

#[test]
fn the_shared_library_has_its_name_its_version_and_stays_loaded() {
    let shared = library().join("libevendb.so.1");
    let dynamic = lines_of(Command::new("readelf").arg("-dW").arg(&shared)).join("\n");
    assert!(dynamic.contains("soname: [libevendb.so.1]"), "{dynamic}");
    assert!(dynamic.contains("NODELETE"), "{dynamic}");
    let versions = lines_of(Command::new("readelf").arg("-VW").arg(&shared)).join("\n");
    assert!(versions.contains("Name: EVENDB_1.0"), "{versions}");
    let link = std::fs::read_link(library().join("libevendb.so")).unwrap();
    assert_eq!(link.to_str(), Some("libevendb.so.1"));
}

#[test]
fn the_archive_shows_the_functions_of_the_header_alone() {
    let archive = library().join("libevendb.a");
    let lines = lines_of(
        Command::new("nm")
            .args(["-g", "--defined-only"])
            .arg(&archive),
    );
    let of_symbols = lines.iter().filter(|line| line.split(' ').count() == 3);
    let shown: BTreeSet<String> = of_symbols
        .map(|line| line.rsplit(' ').next().unwrap().to_owned())
        .collect();
    assert_eq!(shown, declared());
}

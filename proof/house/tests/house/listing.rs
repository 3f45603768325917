//! What a newcomer meets first: how many entries a folder of the store has, and how many files the
//! tour visits for a put and for a get in RAM.

use super::assert_none;
use super::source::{is_among, read, rust_files, test_modules};
use std::collections::{BTreeMap, BTreeSet};

/// The most entries of a folder of the store, without the file that declares them and without what
/// only tests see.
const ENTRIES_MAX: usize = 9;
/// The most files that the tour names for a put, and for a get that RAM answers.
const PUT_FILES_MAX: usize = 26;
const GET_FILES_MAX: usize = 14;

/// The folders below a crate's `src` that have more entries than they may.
fn large_folders(files: &BTreeMap<String, String>) -> Vec<String> {
    let gated = test_modules(files);
    let mut entries: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let seen = files.keys().filter(|file| !is_among(file, &gated));
    for file in seen.filter(|file| file.contains("/src/")) {
        let mut rest = file.as_str();
        while let Some((folder, entry)) = rest.rsplit_once('/') {
            if !["mod.rs", "lib.rs", "main.rs"].contains(&entry) {
                entries.entry(folder).or_default().insert(entry);
            }
            if folder.ends_with("/src") {
                break;
            }
            rest = folder;
        }
    }
    assert!(entries.len() > 50, "{}", entries.len());
    let large = entries.iter().filter(|(_, all)| all.len() > ENTRIES_MAX);
    let told = large.map(|(folder, all)| format!("{folder} has {}: {all:?}", all.len()));
    told.collect()
}

#[test]
fn folders_of_the_store_fit_the_eye() {
    let mut files = rust_files(&["store"]);
    assert_none(&large_folders(&files));
    let folder = "store/evendb/src/calls/read/";
    for planted in 0..ENTRIES_MAX {
        files.insert(format!("{folder}planted_{planted}/deep.rs"), String::new());
    }
    let large = large_folders(&files);
    assert_eq!(large.len(), 1, "{large:?}");
    assert!(large[0].starts_with("store/evendb/src/calls/read has"));
}

/// The files that a section of a document names, up to the next heading.
fn files_of_section<'d>(document: &'d str, heading: &str) -> BTreeSet<&'d str> {
    let section = document.split_once(&format!("\n{heading}\n")).unwrap().1;
    let section = section.split_once("\n#").unwrap().0;
    let quoted = section.split('`').skip(1).step_by(2);
    quoted.filter(|name| name.ends_with(".rs")).collect()
}

#[test]
fn the_tour_visits_few_files() {
    let tour = read("docs/tour.md");
    let walks = [("## One put", PUT_FILES_MAX), ("## One get", GET_FILES_MAX)];
    for (heading, max) in walks {
        let files = files_of_section(&tour, heading);
        let is_walk = files.len() > max / 2 && files.len() <= max;
        assert!(is_walk, "{heading} visits {}: {files:?}", files.len());
    }
}

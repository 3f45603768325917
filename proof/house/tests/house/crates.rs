//! The order of crates: the table "Crates" of ARCHITECTURE.md, lowest first. A crate depends only
//! on crates of rows above its own. Not here: the rooms in a crate (`rooms`).

use super::source::first_name;

/// The folders of the crates, lowest first.
pub fn declared(architecture: &str) -> Vec<&str> {
    let section = architecture.split_once("\n## Crates\n").unwrap().1;
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split('`').next()).collect()
}

/// The crates of this repository on which a crate's production code or build depends, by their
/// packages' names.
pub fn dependencies(manifest: &str) -> Vec<String> {
    let mut is_counted = false;
    let mut found = Vec::new();
    for line in manifest.lines() {
        if let Some(section) = line.strip_prefix('[') {
            let table = section.trim_end_matches(']').rsplit('.').next().unwrap();
            is_counted = table == "dependencies" || table == "build-dependencies";
        } else if is_counted {
            let name = line.split(['.', ' ', '=']).next().unwrap();
            let is_ours = first_name(name).is_some_and(|name| name == "evendb");
            found.extend(is_ours.then(|| name.to_owned()));
        }
    }
    found
}

/// The name of the package of a manifest.
pub fn package(manifest: &str) -> &str {
    let line = manifest
        .lines()
        .find_map(|line| line.strip_prefix("name = \""));
    line.unwrap().trim_end_matches('"')
}

/// Every dependency that does not go downwards, as a sentence. `crates` have the folder and the
/// manifest of each crate, lowest first.
pub fn upward_dependencies(crates: &[(&str, String)]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (at, (folder, manifest)) in crates.iter().enumerate() {
        for name in dependencies(manifest) {
            let below = &crates[..at];
            if !below.iter().any(|(_, manifest)| package(manifest) == name) {
                wrong.push(format!(
                    "{folder} depends on {name}, which does not stand above it"
                ));
            }
        }
    }
    wrong
}

/// The folders of the workspace's members and of the crates that it excludes.
pub fn members(manifest: &str) -> Vec<&str> {
    let lists = ["members = [", "exclude = ["].into_iter();
    let lists = lists.flat_map(|begin| manifest.split_once(&format!("\n{begin}")));
    let lists = lists.filter_map(|(_, list)| list.split(']').next());
    lists
        .flat_map(|list| list.split('"').skip(1).step_by(2))
        .collect()
}

//! What the engine promises of itself: its state only holds, and its user sees few options.

use super::source::{first_name, production};
use super::{below_floors, floors_of_block, read, sources_of};
use std::collections::BTreeMap;

const ENGINE_FIELDS_MAX: usize = 12;
const ENGINE_IMPL_FILES_MAX: usize = 2;
/// The last one is the layout: two layouts came in place of two engines, so a user chooses it among
/// the options.
const OPTIONS_SETTERS_MAX: usize = 13;

/// The files of the engine, by their path below their floor, with their text.
fn sources() -> BTreeMap<String, String> {
    let floors = floors_of_block(&read("ARCHITECTURE.md"));
    below_floors(sources_of("store/evendb"), &floors)
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
            production(text).code.lines().any(begins)
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

/// Functions that make the options, open with them, or set and read by their names the options that
/// have setters.
const NO_SETTERS: [&str; 6] = [
    "new",
    "open",
    "open_beside_writer",
    "table",
    "set",
    "text_of",
];

/// The setters of all files.
fn options_setters(sources: &BTreeMap<String, String>) -> Vec<String> {
    let functions = sources
        .values()
        .flat_map(|text| public_functions(text, "Options"));
    let names = functions.map(|(name, _)| name);
    names
        .filter(|name| !NO_SETTERS.contains(&&**name))
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

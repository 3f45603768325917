//! The rooms of a crate: the modules of its root, in an order that the crate declares. A room
//! imports only rooms that lie below it. Not here: the order of crates (`crates`).

use super::source::{first_name, is_among, production, test_modules, words};
use std::collections::{BTreeMap, BTreeSet};

/// Each room's line in the declared order, the bottom one first.
pub type Order = BTreeMap<String, usize>;

/// The rooms of each floor. A floor is a folder of a crate's `src`, and its rooms lie in it.
pub type Floors = BTreeMap<String, BTreeSet<String>>;

/// The lines of the block of ARCHITECTURE.md that begins with "```rooms", top first, as names. Text
/// behind two blanks explains. A line that ends with a slash names the floor of the lines below it.
fn block(architecture: &str) -> impl DoubleEndedIterator<Item = Vec<&str>> {
    let block = architecture.split_once("```rooms\n").unwrap().1;
    let lines = block.split_once("```").unwrap().0.lines();
    lines.map(|line| {
        line.split("  ")
            .next()
            .unwrap()
            .split_whitespace()
            .collect()
    })
}

fn floor_of<'a>(names: &[&'a str]) -> Option<&'a str> {
    names.first()?.strip_suffix('/')
}

/// The order in this block.
pub fn order_of_block(architecture: &str) -> Order {
    let rooms = block(architecture)
        .rev()
        .filter(|names| floor_of(names).is_none());
    numbered(rooms.map(|names| names.into_iter().map(str::to_owned).collect()))
}

/// The floors in this block.
pub fn floors_of_block(architecture: &str) -> Floors {
    let mut floors = Floors::new();
    let mut floor = "";
    for names in block(architecture) {
        match floor_of(&names) {
            Some(next) => floor = next,
            None => {
                let rooms = floors.entry(floor.to_owned()).or_default();
                rooms.extend(names.into_iter().map(str::to_owned));
            }
        }
    }
    floors
}

/// The files of a crate by their path below their floor. The list of a floor's rooms is none of
/// them.
pub fn below_floors(
    sources: BTreeMap<String, String>,
    floors: &Floors,
) -> BTreeMap<String, String> {
    let mut below = BTreeMap::new();
    for (file, text) in sources {
        match file
            .split_once('/')
            .filter(|(floor, _)| floors.contains_key(*floor))
        {
            Some((_, "mod.rs")) => None,
            Some((_, file)) => below.insert(file.to_owned(), text),
            None => below.insert(file, text),
        };
    }
    below
}

/// The order and the floors in the section "Rooms" of the head of a crate's `lib.rs`. Its rooms are
/// the names in backticks that are modules of the root or of a floor. Each lies above those that
/// stand after it. A name that ends with a slash is the floor of the rooms behind it.
pub fn of_head(sources: &BTreeMap<String, String>) -> (Order, Floors) {
    let lib = &sources["lib.rs"];
    let section = lib.split_once("\n//! # Rooms\n").unwrap().1;
    let section = section.lines().take_while(|line| {
        let text = line.strip_prefix("//! ");
        text.is_some_and(|text| !text.starts_with('#'))
    });
    let section = section.collect::<Vec<_>>().join("\n");
    let (mut rooms, mut floors, mut floor) = (Vec::new(), Floors::new(), None);
    let mut modules = modules_of(lib);
    for name in section.split('`').skip(1).step_by(2) {
        if let Some(next) = name.strip_suffix('/') {
            modules = modules_of(&sources[&format!("{next}/mod.rs")]);
            floor = Some(floors.entry(next.to_owned()).or_default());
        } else if modules.contains(name) {
            rooms.push(name.to_owned());
            floor.as_mut().map(|floor| floor.insert(name.to_owned()));
        }
    }
    let order = numbered(rooms.into_iter().rev().map(|room| vec![room]));
    (order, floors)
}

fn numbered(lines: impl Iterator<Item = Vec<String>>) -> Order {
    let mut order = Order::new();
    for (line, rooms) in lines.enumerate() {
        for room in rooms {
            assert_eq!(
                order.insert(room.clone(), line),
                None,
                "{room} stands twice"
            );
        }
    }
    order
}

fn modules_of(lib: &str) -> BTreeSet<&str> {
    let statements = lib.lines().filter_map(|line| line.strip_suffix(';'));
    let visible = ["pub ", "pub(crate) "];
    let bare = statements.map(|line| {
        let bare = visible.iter().find_map(|word| line.strip_prefix(word));
        bare.unwrap_or(line)
    });
    bare.filter_map(|line| line.strip_prefix("mod ")).collect()
}

/// The module path of a file below `src`.
fn module_of(file: &str) -> Vec<&str> {
    let stem = file.strip_suffix(".rs").unwrap();
    let mut path: Vec<&str> = stem.split('/').collect();
    path.pop_if(|last| *last == "mod" || *last == "lib" || *last == "main");
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
        let Some(tree) = rest.strip_prefix('{') else {
            names.extend(first_name(rest));
            continue;
        };
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
    names
}

/// The room, or the other crate, of each name that the crate's root exports.
fn given_out(lib: &str) -> BTreeMap<String, String> {
    let mut from = BTreeMap::new();
    // Attributes may stand before a statement.
    let statements = lib
        .split(';')
        .filter_map(|part| part.split_once("pub use "));
    for (_, statement) in statements {
        let room = first_name(statement).unwrap();
        from.extend(words(statement).map(|name| (name.to_owned(), room.clone())));
    }
    from
}

/// Every import that does not go downwards, as a sentence. `sources` are the files of a crate by
/// their path below its `src` or their floor.
pub fn upward_imports(sources: &BTreeMap<String, String>, order: &Order) -> Vec<String> {
    let given_out = given_out(&production(&sources["lib.rs"]).code);
    let skipped = test_modules(sources);
    let mut wrong = Vec::new();
    for (file, text) in sources {
        let of = module_of(file);
        let Some(&room) = of.first() else { continue };
        if is_among(file, &skipped) {
            continue;
        }
        let Some(own) = order.get(room) else {
            wrong.push(format!(
                "{file}: the room {room} has no place in the order of rooms"
            ));
            continue;
        };
        let code = production(text).code;
        let mut names = names_after(&code, "crate::");
        // `super` repeated to the file's depth leads to the root, or to the floor, from which one
        // more leads to the root.
        for depth in [of.len(), of.len() + 1] {
            names.extend(names_after(&code, &"super::".repeat(depth)));
        }
        names.remove("super");
        for name in names {
            let exported = given_out.get(&name).filter(|_| !order.contains_key(&name));
            let to = exported.unwrap_or(&name);
            match order.get(to) {
                _ if to == room || to.starts_with("evendb_") => {}
                None => wrong.push(format!("{file} imports crate::{name}, which is no room")),
                Some(line) if line >= own => wrong.push(format!(
                    "{file} imports crate::{name}: {room} -> {to} goes upwards (lines {own} and \
                     {line} of the rooms, counted from below)"
                )),
                Some(_) => {}
            }
        }
    }
    wrong
}

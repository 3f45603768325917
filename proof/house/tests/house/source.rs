//! Reads the sources of a crate: which files it has, and which of their text is production code.
//! Not here: what the text must be like (`functions`, `rooms`, `crates`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text of a file, by its path from the repository's root.
pub fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// The Rust files of some folders, by their path from the repository's root, with their text.
pub fn rust_files(folders: &[&str]) -> BTreeMap<String, String> {
    let mut paths = Vec::new();
    for folder in folders {
        walk(&root().join(folder), &mut paths).unwrap();
    }
    let read = |path: &PathBuf| {
        let name = path.strip_prefix(root()).unwrap().to_str().unwrap();
        (name.to_owned(), fs::read_to_string(path).unwrap())
    };
    paths.iter().map(read).collect()
}

fn walk(folder: &Path, into: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("target") {
            walk(&path, into)?;
        } else if path.extension().is_some_and(|end| end == "rs") {
            into.push(path);
        }
    }
    Ok(())
}

/// Whether a file lies beside the sources of its crate: a test, a benchmark or an example.
pub fn is_beside_production(path: &str) -> bool {
    !path.contains("/src/") && !path.ends_with("/build.rs")
}

/// The same text with blanks in place of comments and of what stands in strings and characters.
/// Lines stay where they are, and so does each position.
pub fn blanked(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out: Vec<u8> = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = end_of_blank(bytes, at);
        for byte in &mut out[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end.max(at + 1);
    }
    String::from_utf8(out).unwrap()
}

/// Where the comment, string or character ends that begins at `at`, or `at` if none does.
fn end_of_blank(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let after = |found: Option<usize>| found.map_or(bytes.len(), |end| at + end);
    let find = |from: usize, what: &[u8]| {
        let windows = rest.get(from..)?.windows(what.len());
        Some(windows.into_iter().position(|part| part == what)? + from)
    };
    let is_part = |at: usize| bytes[at].is_ascii_alphanumeric() || bytes[at] == b'_';
    match rest {
        [b'/', b'/', ..] => after(find(2, b"\n")),
        [b'/', b'*', ..] => after(find(2, b"*/").map(|end| end + 2)),
        [b'r', b'"' | b'#', ..] if at == 0 || !is_part(at - 1) || bytes[at - 1] == b'b' => {
            let hashes = rest[1..].iter().take_while(|byte| **byte == b'#').count();
            if rest.get(1 + hashes) != Some(&b'"') {
                return at;
            }
            let close = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
            after(find(2 + hashes, &close).map(|end| end + close.len()))
        }
        [b'"', ..] => {
            let mut end = 1;
            while end < rest.len() && rest[end] != b'"' {
                end += if rest[end] == b'\\' { 2 } else { 1 };
            }
            after(Some((end + 1).min(rest.len())))
        }
        // A lifetime has no second quote behind one character.
        [b'\'', b'\\', _, ..] => after(find(3, b"'").map(|end| end + 1)),
        [b'\'', byte, ..] => {
            let width = if byte.is_ascii() {
                1
            } else {
                char_width(*byte)
            };
            match rest.get(1 + width) {
                Some(b'\'') => at + width + 2,
                _ => at,
            }
        }
        [byte, ..] if !byte.is_ascii() => at + char_width(*byte),
        _ => at,
    }
}

fn char_width(first: u8) -> usize {
    first.leading_ones() as usize
}

/// Code that a build without tests has, and the modules in files of their own that only tests see.
pub struct Production {
    /// Blanked, and without the items that only tests see; positions are those of the file.
    pub code: String,
    pub test_modules: Vec<String>,
}

/// Leaves out what stands behind `#[cfg(test)]`, `#[cfg(all(test, ...))]` and the like.
pub fn production(text: &str) -> Production {
    let mut code = blanked(text);
    let mut test_modules = Vec::new();
    let mut from = 0;
    while let Some(found) = code[from..].find("#[cfg(") {
        let begin = from + found;
        let attribute = begin + matched(&code[begin + 1..]).unwrap() + 1;
        from = attribute;
        let condition = &code[begin..attribute];
        if !words(condition).any(|word| word == "test") || condition.contains("not(test)") {
            continue;
        }
        let mut item = attribute;
        while let Some(next) = code[item..].trim_start().strip_prefix('#') {
            item = code.len() - next.len() + matched(next).unwrap();
        }
        let end = item + item_length(&code[item..]);
        let item = code[item..end].trim();
        if let Some(head) = item.strip_suffix(';') {
            let mut last = head.rsplit(char::is_whitespace);
            let name = last.next().unwrap();
            test_modules.extend((last.next() == Some("mod")).then(|| name.to_owned()));
        }
        let blank = code[begin..end].replace(|c| c != '\n', " ");
        code.replace_range(begin..end, &blank);
        from = end;
    }
    Production { code, test_modules }
}

/// How long an item, field, variant or statement is: up to its `;`, its comma or its last brace.
fn item_length(code: &str) -> usize {
    let first = words(code).find(|word| !["pub", "crate", "super", "self", "in"].contains(word));
    let items = [
        "fn",
        "unsafe",
        "async",
        "impl",
        "mod",
        "struct",
        "enum",
        "trait",
        "use",
        "const",
        "static",
        "type",
        "macro_rules",
        "extern",
    ];
    let ends_by_comma = !first.is_some_and(|first| items.contains(&first));
    let mut at = 0;
    while let Some(byte) = code.as_bytes().get(at) {
        match byte {
            b';' => return at + 1,
            b',' if ends_by_comma => return at + 1,
            b')' | b']' | b'}' => return at,
            b'(' | b'[' | b'{' => {
                at += matched(&code[at..]).unwrap();
                if *byte == b'{' && !code[at..].trim_start().starts_with(';') {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    at
}

/// The length of what begins with an open bracket of any kind, through the bracket that closes it.
/// `code` is blanked.
pub fn matched(code: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(at + 1);
        }
    }
    None
}

/// The names and keywords of a text, in their order.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
}

/// The name with which a text begins.
pub fn first_name(text: &str) -> Option<String> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let name: String = text.chars().take_while(|&c| is_part(c)).collect();
    (!name.is_empty()).then_some(name)
}

/// The modules of a crate's `src` that only tests see, as paths without their end.
pub fn test_modules(sources: &BTreeMap<String, String>) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    for (file, text) in sources {
        let stem = file.strip_suffix(".rs").unwrap();
        let folder = ["mod", "lib", "main"].iter().find_map(|end| {
            let before = stem.strip_suffix(end)?;
            (before.is_empty() || before.ends_with('/')).then_some(before)
        });
        let folder = folder.map_or_else(|| format!("{stem}/"), str::to_owned);
        let modules = production(text).test_modules;
        paths.extend(modules.iter().map(|module| format!("{folder}{module}")));
    }
    paths
}

/// Whether a file is one of these modules or lies in one of them.
pub fn is_among(file: &str, modules: &BTreeSet<String>) -> bool {
    let stem = file.strip_suffix(".rs").unwrap();
    modules.iter().any(|module| {
        let rest = stem.strip_prefix(module.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

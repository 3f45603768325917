//! The functions of a file: how long each is, and how many arguments it takes.

use super::source::{matched, words};

/// A function with a body, or one that a trait asks for.
#[derive(Debug, PartialEq)]
pub struct Function {
    /// Where it begins, counted from 1.
    pub line: usize,
    pub name: String,
    /// From the line with its name to the line of its last brace.
    pub lines: usize,
    /// Without `self`; a tuple counts its members.
    pub arguments: usize,
    /// The caller's language says its signature, as for C.
    pub is_foreign: bool,
}

/// The functions in `code`, which is blanked.
pub fn functions(code: &str) -> Vec<Function> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            continue;
        }
        found.extend(function_at(code, at));
    }
    found
}

/// `None` if this is no function with a name: the type of a pointer, or a part of a macro.
fn function_at(code: &str, at: usize) -> Option<Function> {
    let name = words(&code[at + 3..]).next()?;
    let named = code[at + 3..].strip_prefix(name)?;
    let generics = if named.starts_with('<') {
        angles(named)?
    } else {
        0
    };
    let parameters = &named[generics..];
    let length = matched(parameters).filter(|_| parameters.starts_with('('))?;
    let signature_end = code.len() - parameters.len() + length;
    let end = signature_end + body_length(&code[signature_end..])?;
    let line_begin = code[..at].rfind('\n').map_or(0, |newline| newline + 1);
    Some(Function {
        line: code[..at].matches('\n').count() + 1,
        name: name.to_owned(),
        lines: code[at..end].matches('\n').count() + 1,
        arguments: arguments(&parameters[1..length - 1]),
        is_foreign: words(&code[line_begin..at]).any(|word| word == "extern"),
    })
}

/// The length from behind the parameters to the end of the body, or to the `;` in its place.
fn body_length(code: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        match code.as_bytes().get(at)? {
            b';' => return Some(at + 1),
            b'{' => return Some(at + matched(&code[at..])?),
            b'(' | b'[' => at += matched(&code[at..])?,
            _ => at += 1,
        }
    }
}

/// The length of what begins with `<`, through the `>` that closes it.
fn angles(code: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut before = ' ';
    for (at, c) in code.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at + 1);
        }
        before = c;
    }
    None
}

/// How many arguments these parameters are, without `self` and with tuples unpacked.
pub fn arguments(parameters: &str) -> usize {
    let taken = parts(parameters).into_iter().filter(|part| !is_self(part));
    taken.map(|parameter| members(type_of(parameter))).sum()
}

fn is_self(parameter: &str) -> bool {
    let pattern = parameter.split(':').next().unwrap();
    words(pattern).last() == Some("self") && !pattern.contains('(')
}

/// What stands behind the colon that follows the pattern.
fn type_of(parameter: &str) -> &str {
    let bytes = parameter.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'(' | b'[' | b'{' => at += matched(&parameter[at..]).unwrap(),
            b':' if bytes.get(at + 1) == Some(&b':') => at += 2,
            b':' => return &parameter[at + 1..],
            _ => at += 1,
        }
    }
    parameter
}

/// The parts between commas that stand in no bracket.
fn parts(list: &str) -> Vec<&str> {
    let (mut parts, mut from, mut depth, mut before) = (Vec::new(), 0, 0_usize, ' ');
    for (at, c) in list.char_indices() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            '>' if before != '-' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&list[from..at]);
                from = at + 1;
            }
            _ => {}
        }
        before = c;
    }
    parts.push(&list[from..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// 1 for a type without tuples. Each tuple in it, at any depth, adds its members but one. What a
/// closure takes and gives is not an argument of the function.
fn members(of: &str) -> usize {
    let mut count = 1;
    let mut at = 0;
    while let Some(found) = of[at..].find('(') {
        let open = at + found;
        let inside = &of[open + 1..open + matched(&of[open..]).unwrap() - 1];
        at = open + inside.len() + 2;
        if is_closure(of[..open].trim_end()) {
            continue;
        }
        let inner = parts(inside);
        let sum: usize = inner.iter().map(|part| members(part)).sum();
        count += sum.max(1) - 1;
    }
    count
}

/// Whether a bracket behind this text holds what a closure or a function takes, or is what it
/// gives.
fn is_closure(before: &str) -> bool {
    let name = words(before).last().filter(|word| before.ends_with(word));
    let is_lifetime = name.is_some_and(|name| before[..before.len() - name.len()].ends_with('\''));
    let is_word = name.is_none_or(|name| ["dyn", "impl", "mut", "const"].contains(&name));
    before.ends_with("->") || !(is_lifetime || is_word)
}

//! Shared by golden tests: bytes written as hex with a comment for each field, and the files of the
//! database in `tests/golden`.

/// The bytes of annotated hex: the text before `#` in each line.
pub(crate) fn bytes_of(text: &str) -> Vec<u8> {
    text.lines()
        .flat_map(|line| line.split('#').next().unwrap_or("").split_whitespace())
        .map(|hex| u8::from_str_radix(hex, 16).expect("hex"))
        .collect()
}

/// The database of format version 2, which every later version must read; `tests/golden.rs`
/// explains the form of the text.
const KEPT: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/golden/database_v2.txt"
));

/// The bytes of one file of the kept database.
pub(crate) fn kept_file(name: &str) -> Vec<u8> {
    let head = format!("file {name} ");
    let mut lines = KEPT.lines().skip_while(|line| !line.starts_with(&head));
    let len = lines.next().expect("the database has this file");
    let len = len[head.len()..].parse().expect("a length");
    let mut bytes = vec![0; len];
    let (mut at, mut row) = (0, Vec::new());
    for line in lines.take_while(|line| !line.starts_with("file ")) {
        if line == "*" {
            at += row.len();
        } else {
            let (offset, hex) = line.split_once(' ').expect("an offset and a row");
            at = usize::from_str_radix(offset, 16).expect("an offset");
            row = bytes_of(hex);
        }
        bytes[at..at + row.len()].copy_from_slice(&row);
    }
    bytes
}

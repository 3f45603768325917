//! A directory of files as text, and back: golden databases are kept in this form.
//!
//! A line `file name length` begins a file. Rows of 16 bytes in hex follow, each with its offset.
//! `*` repeats the row before, and rows left out are zeros. Lines that begin with `#` describe the
//! content.

#![allow(dead_code, reason = "long lives only read such a text")]

use evendb_storage::vfs::{SimVfs, Vfs};
use std::fmt::Write;
use std::path::Path;

const ROW_BYTES: usize = 16;

/// The files in `dir`, under a line that describes them.
pub fn dump(vfs: &SimVfs, dir: &str, head: &str) -> String {
    let mut text = format!("# {head}\n");
    for name in vfs.file_names(Path::new(dir)) {
        let bytes = vfs.read_file(&Path::new(dir).join(&name));
        writeln!(text, "file {name} {}", bytes.len()).expect("writes to memory");
        let mut last: Option<(usize, &[u8])> = None;
        for (index, row) in bytes.chunks(ROW_BYTES).enumerate() {
            if row.iter().all(|&byte| byte == 0) {
                continue;
            }
            if last == Some((index.wrapping_sub(1), row)) {
                text += "*\n";
            } else {
                let hex: Vec<String> = row.iter().map(|byte| format!("{byte:02x}")).collect();
                let line = writeln!(text, "{:06x} {}", index * ROW_BYTES, hex.join(" "));
                line.expect("writes to memory");
            }
            last = Some((index, row));
        }
    }
    text
}

/// The files, by their names.
pub fn files(text: &str) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    let mut at = 0;
    let mut row: Vec<u8> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        if words[0] == "file" {
            let len: usize = words[2].parse().expect("a length");
            files.push((words[1].to_owned(), vec![0; len]));
            continue;
        }
        if words[0] == "*" {
            at += ROW_BYTES;
        } else {
            at = usize::from_str_radix(words[0], 16).expect("an offset");
            let byte = |hex: &&str| u8::from_str_radix(hex, 16).expect("a byte");
            row = words[1..].iter().map(byte).collect();
        }
        let (_, bytes) = files.last_mut().expect("a file line first");
        bytes[at..at + row.len()].copy_from_slice(&row);
    }
    files
}

/// Makes these files in `dir`.
pub fn load(text: &str, dir: &str) -> SimVfs {
    let vfs = SimVfs::new(1);
    vfs.create_dir_all(Path::new(dir)).expect("creates");
    for (name, bytes) in files(text) {
        vfs.write_file(&Path::new(dir).join(name), bytes);
    }
    vfs
}

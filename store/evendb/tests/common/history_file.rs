//! Writes recorded histories to files, so that a checker by other authors can judge them:
//! `scripts/check-linearizability`.
//!
//! A file is text. Its first line is `evendb-history 1`, its second one `keys N`: the keys are the
//! numbers below N, and at the beginning no key is there. Each other line is one operation, which
//! takes effect at one moment:
//!
//! ```text
//! 4 9 w17=3 w18=-         from moment 4 to moment 9; writes version 3 of key 17 and deletes key 18
//! 5 8 r17=2               reads version 2 of key 17
//! 10 11 r16=-,3,-         reads the keys 16, 17 and 18; only 17 is there
//! ```
//!
//! Moments are whole numbers that no two operations share; lines are sorted by the first moment. No
//! version of a key is written twice. An operation that reads every key while no other runs fixes
//! the state of everything: there a checker may cut the history into parts that are judged alone.

use super::linearizable::{ABSENT, Op};
use std::fmt::Write;
use std::path::Path;

/// Writes a history to `<name>.history` in the folder that `EVENDB_HISTORY_OUT` names; does nothing
/// if it names none.
pub fn keep(name: &str, keys: u32, ops: &[Op]) {
    let Some(folder) = std::env::var_os("EVENDB_HISTORY_OUT") else {
        return;
    };
    let path = Path::new(&folder).join(format!("{name}.history"));
    std::fs::write(path, text(keys, ops)).expect("is written");
}

/// The text of a history's file.
pub fn text(keys: u32, ops: &[Op]) -> String {
    let mut text = String::new();
    add_history(&mut text, keys, ops).expect("a string takes it");
    text
}

fn add_history(text: &mut String, keys: u32, ops: &[Op]) -> std::fmt::Result {
    let mut sorted: Vec<&Op> = ops.iter().collect();
    sorted.sort_unstable_by_key(|op| op.begin);
    writeln!(text, "evendb-history 1\nkeys {keys}")?;
    for op in sorted {
        write!(text, "{} {}", op.begin, op.end)?;
        // Neighbouring keys of a read are written together.
        let mut next = None;
        for &(key, version) in &op.reads {
            match next == Some(key) {
                true => text.push(','),
                false => write!(text, " r{key}=")?,
            }
            add_version(text, version)?;
            next = Some(key + 1);
        }
        for &(key, version, is_deletion) in &op.writes {
            write!(text, " w{key}=")?;
            add_version(text, if is_deletion { ABSENT } else { version })?;
        }
        text.push('\n');
    }
    Ok(())
}

fn add_version(text: &mut String, version: u32) -> std::fmt::Result {
    match version {
        ABSENT => text.write_char('-'),
        version => write!(text, "{version}"),
    }
}

//! The figures that `leveldb_property_value` returns, by LevelDB's names.

use crate::engine::Engine;
use std::fmt::Write;

/// LevelDB's number of levels.
const LEVELS: usize = 7;

/// The figure of this name, or `None` if there is no such figure.
pub(crate) fn value(engine: &Engine, name: &[u8]) -> Option<String> {
    match name.strip_prefix(b"leveldb.")? {
        b"stats" => Some(engine.account()),
        b"sstables" => Some(tables(engine)),
        b"approximate-memory-usage" => Some(engine.memory_bytes().to_string()),
        name => {
            let level = name.strip_prefix(b"num-files-at-level")?;
            let digits = level.iter().all(u8::is_ascii_digit);
            let level: usize = std::str::from_utf8(level).ok()?.parse().ok()?;
            let files = engine.tables();
            let in_level = files.iter().filter(|file| file.level == level).count();
            (digits && level < LEVELS).then(|| in_level.to_string())
        }
    }
}

/// The files of each level, each in a line of its own with its size.
fn tables(engine: &Engine) -> String {
    let files = engine.tables();
    let mut text = String::new();
    for level in 0..LEVELS {
        // Writing into a text cannot fail.
        let _ = writeln!(text, "--- level {level} ---");
        for file in files.iter().filter(|file| file.level == level) {
            let _ = writeln!(text, " {}:{}", file.name, file.bytes);
        }
    }
    text
}

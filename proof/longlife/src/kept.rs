//! Kept databases of earlier formats, with which lives begin: the texts that the engine's golden
//! tests read, and their content.

#[path = "../../../store/evendb/tests/golden/contents.rs"]
mod contents;
#[path = "../../../store/evendb/tests/common/dumped.rs"]
mod dumped;

use crate::content::Content;
use crate::oracle::{Entry, Owner, Space};
use std::collections::BTreeMap;
use std::path::Path;

/// A database of an earlier format.
pub struct Kept {
    /// The format.
    pub name: &'static str,
    text: &'static str,
    holds: Owner,
}

fn holds(
    maps: BTreeMap<&'static str, BTreeMap<Vec<u8>, Vec<u8>>>,
    until: impl Fn(&[u8]) -> Option<u64>,
) -> Owner {
    let mut owner = Owner::default();
    for (name, map) in maps {
        let space = match name {
            "other" => Space::Other,
            _ => Space::Default,
        };
        for (key, value) in map {
            let until = until(&key);
            let content = Content::Bytes(value);
            owner.set(space, key, Some(Entry { content, until }));
        }
    }
    owner
}

macro_rules! kept_text {
    ($version:literal) => {
        include_str!(concat!(
            "../../../store/evendb/tests/golden/database_v",
            $version,
            ".txt"
        ))
    };
}

/// The kept databases. The first format was never released, and is refused.
pub fn all() -> Vec<Kept> {
    let stays = contents::STAYS_SECONDS * 1000;
    let until = |key: &[u8]| key.starts_with(b"until/").then_some(stays);
    let kept = |name, version, text| Kept {
        name,
        text,
        holds: holds(contents::expected(version), until),
    };
    vec![
        kept("format 2", '2', kept_text!("2")),
        kept("format 3", '3', kept_text!("3")),
        kept("format 4", '4', kept_text!("4")),
        kept("format 5", '5', kept_text!("5")),
    ]
}

impl Kept {
    /// Writes its files into a directory that is not there. Returns its content.
    ///
    /// # Errors
    /// Of the system.
    pub fn lay_down(&self, dir: &Path) -> std::io::Result<Owner> {
        std::fs::create_dir(dir)?;
        for (name, bytes) in dumped::files(self.text) {
            std::fs::write(dir.join(name), bytes)?;
        }
        Ok(self.holds.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of texts for formats from this one on.
    fn texts(first: u32) -> usize {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../store/evendb/tests/golden");
        let is_there = |version: u32| golden.join(format!("database_v{version}.txt")).exists();
        (first..).take_while(|version| is_there(*version)).count()
    }

    #[test]
    fn every_kept_database_begins_a_life() {
        assert_eq!(all().len(), texts(2));
        for kept in all() {
            assert!(kept.holds.map(Space::Default).len() > 30, "{}", kept.name);
        }
    }
}

//! The tables of a level as one sequence: each of them ends before the next begins.

use std::cmp::Ordering;
use std::vec::IntoIter;

use super::decode::{Entry, table_key};
use super::table::{TableFile, TableReader};
use super::{Error, Result};

/// Reads the entries of a level in their order, which it verifies.
pub struct Level {
    files: IntoIter<TableFile>,
    table: Option<(TableFile, TableReader)>,
    /// Key and sequence number of the last entry.
    last: Option<(Vec<u8>, u64)>,
}

impl Level {
    /// A level of these tables, in any order.
    pub fn new(mut files: Vec<TableFile>) -> Result<Level> {
        files.sort_by(|one, other| cmp_table_keys(&one.smallest, &other.smallest));
        Ok(Level {
            files: files.into_iter(),
            table: None,
            last: None,
        })
    }

    /// The next entry.
    pub fn next(&mut self) -> Result<Option<Entry>> {
        loop {
            if let Some((file, table)) = &mut self.table {
                if let Some(entry) = table.next()? {
                    check(file, &entry, &self.last)?;
                    self.last = Some((entry.key.clone(), entry.sequence));
                    return Ok(Some(entry));
                }
                self.table = None;
            }
            let Some(file) = self.files.next() else {
                return Ok(None);
            };
            let table = TableReader::open(&file)?;
            self.table = Some((file, table));
        }
    }
}

fn check(file: &TableFile, entry: &Entry, last: &Option<(Vec<u8>, u64)>) -> Result<()> {
    let key = (&entry.key[..], entry.sequence);
    let ascends = last
        .as_ref()
        .is_none_or(|(last, sequence)| cmp_keys((last, *sequence), key) == Ordering::Less);
    let is_within = |bound: &[u8], wrong: Ordering| {
        table_key(bound)
            .is_some_and(|(bound, sequence, _)| cmp_keys(key, (bound, sequence)) != wrong)
    };
    if !ascends {
        return Err(Error::damaged(&file.path, 0, "keys do not ascend"));
    }
    if !is_within(&file.smallest, Ordering::Less) || !is_within(&file.largest, Ordering::Greater) {
        return Err(Error::damaged(
            &file.path,
            0,
            "a key is outside of the range that the manifest says",
        ));
    }
    Ok(())
}

/// The order of tables: by the user's key, then the highest sequence number first.
fn cmp_keys(one: (&[u8], u64), other: (&[u8], u64)) -> Ordering {
    one.0.cmp(other.0).then(other.1.cmp(&one.1))
}

fn cmp_table_keys(one: &[u8], other: &[u8]) -> Ordering {
    match (table_key(one), table_key(other)) {
        (Some((one, first, _)), Some((other, second, _))) => {
            cmp_keys((one, first), (other, second))
        }
        _ => one.cmp(other),
    }
}

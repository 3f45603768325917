//! Finds the tables to which the state does not lead: in files of other names, and tables that no
//! edit names.

use super::{Loss, Repairer, Winners, tables};
use crate::api::db::Db;
use crate::error::Result;
use crate::files::{container_name, in_container};
use crate::manifest::edit::{Part, Place};
use evendb_storage::TableId;
use evendb_storage::table::{
    self, FOOTER_LEN, FOOTER_MAGIC, TableDamage, TableFacts, TableVisitor,
};
use evendb_storage::vfs::{File, read_exact_at};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Tables without a chunk are merged in pieces of about this number of bytes.
const PIECE_BYTES: u64 = 64 << 20;
/// The number of bytes that a scan for tables reads at once.
const SCAN_BYTES: usize = 1 << 20;

/// A table found by its footer.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) id: TableId,
    pub(super) name: String,
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) min_key: Vec<u8>,
    pub(super) max_key: Vec<u8>,
}

impl Repairer<'_, '_> {
    /// Looks for tables to which the state does not lead: in SSTables whose name or contents differ
    /// from the state, and, if edits are lost, everywhere.
    pub(super) fn find_tables(&mut self) -> Result<()> {
        let state = &self.loaded.state;
        let parts = || state.chunks.values().flat_map(|chunk| &chunk.parts);
        let named: BTreeSet<TableId> = parts().map(|part| part.table).collect();
        let total = parts()
            .map(|part| part.meta.len)
            .fold(0, u64::saturating_add);
        self.progress.total = self.progress.total.saturating_add(total);
        let missing = |part: &Part| match part.place {
            Place::File => !self.directory.has(&tables::table_file_name(part.table)),
            Place::Extent { offset } => !self.containers.contains_key(&in_container(offset).0),
        };
        // An SSTable or a container is removed only after the edit that drops it: a missing one
        // means lost edits.
        if parts().any(missing) {
            self.stale = true;
        }
        let names: Vec<String> = self.directory.names.clone();
        for name in names.iter().filter(|name| name.ends_with(".sst")) {
            let path = self.directory.dir.join(name);
            let Ok(file) = self.directory.vfs.open(&path, false) else {
                continue;
            };
            if let Some(found) = find_at_end(&*file, name) {
                if named.contains(&found.id) {
                    self.misplaced.insert(found.id, found);
                } else if self.stale && self.may_be_unplaced(found.id) {
                    self.unplaced.push(found);
                }
            }
        }
        let containers = self.containers.iter().filter(|_| self.stale);
        let mut unplaced = Vec::new();
        for (&number, file) in containers {
            let found = scan(&**file, &container_name(number));
            let new = |found: &Found| !named.contains(&found.id) && self.may_be_unplaced(found.id);
            unplaced.extend(found.into_iter().filter(new));
        }
        self.unplaced.append(&mut unplaced);
        self.unplaced.sort_by_key(|found| found.id);
        self.unplaced.dedup_by_key(|found| found.id);
        Ok(())
    }

    /// Refuses a database with tables that need a feature which this build lacks, before anything
    /// is written: otherwise all their records would count as lost.
    pub(super) fn refuse_lacking(&self) -> Result<()> {
        for part in self
            .loaded
            .state
            .chunks
            .values()
            .flat_map(|chunk| &chunk.parts)
        {
            if let Ok(file) = tables::open(self.directory, &self.containers, part) {
                tables::refuse_lacking(&*file, tables::start(part), part.meta.len, part.table)?;
            }
        }
        for found in self.unplaced.iter().chain(self.misplaced.values()) {
            let path = self.directory.dir.join(&found.name);
            if let Ok(file) = self.directory.vfs.open(&path, false) {
                tables::refuse_lacking(&*file, found.offset, found.len, found.id)?;
            }
        }
        Ok(())
    }

    /// Ids ascend: a table that a lost edit named is newer than the tables of the edits before.
    fn may_be_unplaced(&self, id: TableId) -> bool {
        !self.loaded.named_ever.contains(&id) && id > self.loaded.greatest_before_loss
    }

    /// Puts tables that nothing names into keyspaces of their own, or all into the default
    /// keyspace.
    pub(super) fn unnamed_tables(&mut self, database: &Db) -> Result<()> {
        let unplaced = std::mem::take(&mut self.unplaced);
        if unplaced.is_empty() {
            return Ok(());
        }
        let pieces = match self.options.one_keyspace && self.loaded.state.keyspaces.is_empty() {
            true => pieces(&unplaced, "default"),
            false => unplaced
                .iter()
                .map(|found| Piece {
                    keyspace: format!("recovered-{:x}", found.id.0),
                    low: Vec::new(),
                    high: None,
                    tables: vec![found.clone()],
                })
                .collect(),
        };
        for piece in pieces {
            let mut winners = Winners::new();
            for found in &piece.tables {
                self.found(
                    found,
                    &piece.low,
                    piece.high.as_deref(),
                    false,
                    &mut winners,
                );
            }
            let records = self.put(&database.keyspace(&piece.keyspace)?, winners)?;
            match self.report.keyspaces.last_mut() {
                Some((name, sum)) if *name == piece.keyspace => *sum += records,
                _ => self.report.keyspaces.push((piece.keyspace, records)),
            }
        }
        self.unplaced = unplaced;
        self.tell_unplaced(match self.options.one_keyspace {
            true => "default",
            false => "",
        });
        Ok(())
    }

    /// Reports a loss for each table that nothing names: the keyspace of its records is uncertain.
    pub(super) fn tell_unplaced(&mut self, keyspace: &str) {
        for found in &self.unplaced {
            let place = Some(found.offset..found.offset + found.len);
            let went = match keyspace {
                "" => format!("keyspace `recovered-{:x}`", found.id.0),
                name => format!("keyspace `{name}`"),
            };
            let what = format!(
                "table {:#x} is named by no edit that can be read, and does not say what it is \
                 of: its records are in {went}; it may be one that was given up long ago",
                found.id.0
            );
            let mut loss = Loss::new(&found.name, place, what);
            (loss.keys_from, loss.keys_to) =
                (Some(found.min_key.clone()), Some(found.max_key.clone()));
            self.report.losses.push(loss);
        }
    }
}

impl Found {
    pub(super) fn overlaps(&self, low: &[u8], high: Option<&[u8]>) -> bool {
        *self.max_key >= *low && high.is_none_or(|high| *self.min_key < *high)
    }

    /// The table of `len` bytes at `offset`. Its limits come from its tail, if that verifies.
    fn new(file: &dyn File, name: &str, id: TableId, offset: u64, len: u64) -> Found {
        struct Limits(TableFacts);
        impl TableVisitor for Limits {
            fn facts(&mut self, facts: &TableFacts) {
                self.0 = facts.clone();
            }
            fn block(&mut self, _: &table::BlockFacts<'_>) -> ControlFlow<()> {
                ControlFlow::Break(())
            }
            fn damage(&mut self, _: TableDamage) {}
        }
        let mut limits = Limits(TableFacts::default());
        table::examine(file, offset, len, id, &mut limits);
        let meta = limits.0.meta;
        // A table with unknown limits may hold any key.
        let greatest = vec![u8::MAX; table::KEY_BYTES_MAX];
        Found {
            id,
            name: name.to_owned(),
            offset,
            len,
            min_key: meta
                .as_ref()
                .map(|meta| meta.min_key.clone())
                .unwrap_or_default(),
            max_key: meta.map_or(greatest, |meta| meta.max_key),
        }
    }
}

/// The table whose footer ends an SSTable's file, or else the table that the file's name promises.
fn find_at_end(file: &dyn File, name: &str) -> Option<Found> {
    let len = file.len().ok()?;
    let mut footer = [0; FOOTER_LEN];
    let at = len.checked_sub(FOOTER_LEN as u64)?;
    let read = read_exact_at(file, &mut footer, at).is_ok();
    if let Some((id, table_len)) = read.then(|| table::identify_footer(&footer)).flatten()
        && table_len <= len
    {
        return Some(Found::new(file, name, id, len - table_len, table_len));
    }
    let digits = name
        .strip_suffix(".sst")
        .filter(|digits| digits.len() == 16)?;
    let id = TableId(u64::from_str_radix(digits, 16).ok()?);
    Some(Found::new(file, name, id, 0, len))
}

/// Every table in a file whose footer verifies, wherever it lies.
fn scan(file: &dyn File, name: &str) -> Vec<Found> {
    let len = file.len().unwrap_or(0);
    let mut found = Vec::new();
    let mut bytes = Vec::new();
    let mut start = 0u64;
    while start < len {
        let want = (SCAN_BYTES as u64).min(len - start) as usize;
        bytes.resize(want, 0);
        if read_exact_at(file, &mut bytes, start).is_err() {
            start += want as u64;
            continue;
        }
        for at in 0..want.saturating_sub(FOOTER_LEN - 1) {
            if bytes[at + FOOTER_LEN - 8..at + FOOTER_LEN] != FOOTER_MAGIC {
                continue;
            }
            let footer = table::identify_footer(&bytes[at..at + FOOTER_LEN]);
            let end = start + (at + FOOTER_LEN) as u64;
            if let Some((id, table_len)) = footer
                && let Some(offset) = end.checked_sub(table_len)
            {
                found.push(Found::new(file, name, id, offset, table_len));
            }
        }
        let last = start + want as u64 >= len;
        // A footer may extend over the end of the bytes that were read.
        start += if last { want } else { want - (FOOTER_LEN - 1) } as u64;
    }
    found
}

/// A key range of tables without chunks.
struct Piece {
    keyspace: String,
    low: Vec<u8>,
    high: Option<Vec<u8>>,
    tables: Vec<Found>,
}

/// Key ranges that cover all keys; each begins after tables of about [`PIECE_BYTES`].
fn pieces(found: &[Found], keyspace: &str) -> Vec<Piece> {
    let mut by_key: Vec<&Found> = found.iter().collect();
    by_key.sort_by(|a, b| a.min_key.cmp(&b.min_key));
    let mut lows = vec![Vec::new()];
    let mut bytes = 0;
    for table in by_key {
        if bytes > PIECE_BYTES && lows.last().is_some_and(|low| *low < table.min_key) {
            lows.push(table.min_key.clone());
            bytes = 0;
        }
        bytes += table.len;
    }
    let limits = lows
        .iter()
        .enumerate()
        .map(|(index, low)| (low, lows.get(index + 1)));
    limits
        .map(|(low, high)| Piece {
            keyspace: keyspace.to_owned(),
            low: low.clone(),
            high: high.cloned(),
            tables: found
                .iter()
                .filter(|found| found.overlaps(low, high.map(Vec::as_slice)))
                .cloned()
                .collect(),
        })
        .collect()
}

//! [`Chain`]: disjoint tables, ascending by key, as one source of a merge.
//!
//! A table is opened when the one before it ends. A table that cannot be read is marked, so that
//! the next jobs leave it out; an error that passes marks nothing. Thread safety: belongs to one
//! merge. Not here: a table beyond the limits of a chunk ([`super::TableSource`]).

use super::Source;
use super::count::Held;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::Arc;
use crate::tables::TableHandle;
use evendb_storage::EntryRef;
use evendb_storage::table::{ReadAhead, TableCursor};

/// See the module.
pub(crate) struct Chain {
    /// The tables that were not opened, the next one last.
    left: Vec<Arc<TableHandle>>,
    current: Option<(Arc<TableHandle>, TableCursor)>,
    /// Bytes that are read at a time.
    read_bytes: usize,
    held: Held,
}

impl Chain {
    /// Reads `read_bytes` bytes of a table at a time: a merge reads everything once.
    pub(crate) fn new<'t>(
        tables: impl DoubleEndedIterator<Item = &'t Arc<TableHandle>> + Clone,
        read_bytes: usize,
    ) -> Result<Chain> {
        let records = tables.clone().map(|table| table.part.meta.entries).sum();
        let mut chain = Chain {
            left: tables.rev().cloned().collect(),
            current: None,
            read_bytes,
            held: Held::exactly(records),
        };
        chain.find()?;
        Ok(chain)
    }

    /// Opens tables until one has a record.
    fn find(&mut self) -> Result<()> {
        while !self.current.as_ref().is_some_and(|own| own.1.valid()) {
            let Some(next) = self.left.pop() else {
                self.current = None;
                return Ok(());
            };
            let cursor = self.begin(&next).map_err(|error| noted(&next, error))?;
            self.current = Some((next, cursor));
        }
        Ok(())
    }

    fn begin(&self, table: &Arc<TableHandle>) -> Result<TableCursor> {
        let table = table.open()?;
        let blocks = table.blocks_in(self.read_bytes).max(1);
        let readahead = ReadAhead {
            seek: blocks,
            next: blocks,
            max: blocks,
        };
        let mut cursor = TableCursor::new(table, readahead);
        cursor.seek_first()?;
        Ok(cursor)
    }
}

/// Marks a table whose bytes are not those that were written, or cannot be had.
fn noted(table: &TableHandle, error: Error) -> Error {
    if matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Io) {
        // Relaxed: it is a hint for the next job, and jobs of a keyspace come one by one.
        table.note_damage();
    }
    error
}

impl Source for Chain {
    fn held(&self) -> Held {
        self.held
    }

    fn current(&self) -> Option<EntryRef<'_>> {
        let (_, cursor) = self.current.as_ref()?;
        cursor.valid().then(|| cursor.entry())
    }

    fn advance(&mut self) -> Result<()> {
        if let Some((table, cursor)) = &mut self.current {
            let next = cursor.next();
            next.map_err(|error| noted(table, error.into()))?;
        }
        self.find()
    }
}

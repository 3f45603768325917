//! About how much a key range holds, without a look at the data of tables.
//!
//! ```text
//! table wholly inside    its figures, which the manifest has
//! table at an end        a share of these figures, as its block index tells
//! memory table           its records of the range, one after the other: a write buffer has few
//! ```
//! Each source is counted alone. Records that were overwritten count until a compaction leaves them
//! out. A delete takes one record away, whether or not the key had one.
//!
//! Thread safety: any. A table at an end of the range is opened, which reads its index.

use crate::cursor::EntryCursor;
use crate::error::Result;
use crate::keyspace::View;
use crate::memory::MemoryTable;
use crate::tables::TableFile;
use evendb_base::RangeSize;
use evendb_base::sync::Arc;
use evendb_storage::Kind;

/// Sums over sources.
#[derive(Default)]
struct Held {
    puts: f64,
    deletes: f64,
    /// Bytes of keys and values.
    bytes: f64,
    disk_bytes: f64,
}

/// About how much `view` holds from `low` to below `high`.
pub(crate) fn approximate_size(view: &View, low: &[u8], high: Option<&[u8]>) -> Result<RangeSize> {
    let mut held = Held::default();
    if high.is_some_and(|high| high <= low) {
        return Ok(RangeSize::default());
    }
    for (_, table) in view.tree.tables() {
        held.add_table(table, low, high)?;
    }
    for (_, memory) in &view.memories {
        held.add_memory(memory, low, high)?;
    }
    let deletes = held.deletes.min(held.puts);
    // Deleted records are assumed to be as long as the others.
    let left = 1.0 - deletes / held.puts.max(1.0);
    Ok(RangeSize::rounded(
        held.puts - deletes,
        held.bytes * left,
        held.disk_bytes,
    ))
}

impl Held {
    fn add_table(&mut self, table: &TableFile, low: &[u8], high: Option<&[u8]>) -> Result<()> {
        let meta = &table.meta;
        if *meta.max_key < *low || high.is_some_and(|high| *meta.min_key >= *high) {
            return Ok(());
        }
        let ends_before = high.is_none_or(|high| *meta.max_key < *high);
        let share = match *low <= *meta.min_key && ends_before {
            true => 1.0,
            false => table.open()?.share_between(low, high),
        };
        self.puts += share * meta.entries.saturating_sub(meta.deletes) as f64;
        self.deletes += share * meta.deletes as f64;
        // Some of these bytes are the keys of deletes, which are short.
        self.bytes += share * meta.data_bytes as f64;
        self.disk_bytes += share * meta.len as f64;
        Ok(())
    }

    fn add_memory(
        &mut self,
        memory: &Arc<MemoryTable>,
        low: &[u8],
        high: Option<&[u8]>,
    ) -> Result<()> {
        let mut cursor = memory.cursor();
        cursor.seek(low)?;
        let mut last: Option<Vec<u8>> = None;
        while cursor.valid() {
            let entry = cursor.entry();
            if high.is_some_and(|high| entry.key >= high) {
                break;
            }
            // The newest version of a key comes first. Only this version counts.
            if last.as_deref() != Some(entry.key) {
                match entry.kind {
                    Kind::Delete => self.deletes += 1.0,
                    _ => {
                        self.puts += 1.0;
                        self.bytes += (entry.key.len() + entry.value.len()) as f64;
                    }
                }
                let last = last.get_or_insert_default();
                last.clear();
                last.extend_from_slice(entry.key);
            }
            cursor.next()?;
        }
        Ok(())
    }
}

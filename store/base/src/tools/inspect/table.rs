//! A table of a closed database, examined for a report or dumped block by block.

use super::dump::DumpOutput;
use super::item::DumpItem;
use evendb_storage::table::{
    self, BlockFacts, Examined, FOOTER_LEN, TableDamage, TableFacts, TableMeta, TableVisitor,
};
use evendb_storage::vfs::File;
use evendb_storage::{Apart, EntryRef, TableId};
use std::ops::{ControlFlow, Range};

/// What an examination of a table has found.
#[derive(Default)]
pub struct TableLook {
    /// What the table says of itself.
    pub facts: TableFacts,
    /// The stretches that do not verify.
    pub damages: Vec<TableDamage>,
    /// The places of its values that lie apart.
    pub places: Vec<Apart>,
    /// The amounts that were read.
    pub examined: Examined,
}

impl TableLook {
    /// Examines the table `id` in this place of `file`.
    pub fn new(file: &dyn File, place: Range<u64>, id: TableId) -> TableLook {
        let mut look = TableLook::default();
        let len = place.end.saturating_sub(place.start);
        look.examined = table::examine(file, place.start, len, id, &mut look);
        look
    }
}

impl TableVisitor for TableLook {
    fn entry(&mut self, _ordinal: usize, entry: EntryRef<'_>) -> ControlFlow<()> {
        self.places.extend(Apart::of(entry.kind, entry.value));
        ControlFlow::Continue(())
    }

    fn facts(&mut self, facts: &TableFacts) {
        self.facts = facts.clone();
    }

    fn damage(&mut self, damage: TableDamage) {
        self.damages.push(damage);
    }
}

/// What is wrong with the length of a file that should have `want` bytes, and where.
pub fn wrong_length(file: &dyn File, want: u64) -> Option<(Option<Range<u64>>, String)> {
    match file.len() {
        Ok(len) if len == want => None,
        Ok(len) => {
            let what = format!("{len} bytes instead of {want}");
            Some((Some(len.min(want)..len.max(want)), what))
        }
        Err(error) => Some((None, format!("its length cannot be read: {error}"))),
    }
}

/// The keys of the records that a damage may have lost, as the end of a sentence.
pub fn lost_keys(damage: &TableDamage) -> String {
    let shown = |key: &Option<Vec<u8>>| match key {
        Some(key) => format!("`{}`", key.escape_ascii()),
        None => "?".to_owned(),
    };
    match damage.loses_records {
        false => String::new(),
        true => format!(
            "; records of keys from {} to {}",
            shown(&damage.keys_from),
            shown(&damage.keys_to)
        ),
    }
}

/// The item with the numbers and limits of a table.
pub fn with_meta(output: &DumpOutput<'_>, item: DumpItem, meta: &TableMeta) -> DumpItem {
    let mut item = item
        .number("bytes", meta.len)
        .number("records", meta.entries)
        .number("deletes", meta.deletes);
    if meta.expiring > 0 {
        item = item
            .number("expiring", meta.expiring)
            .number("last-until-millis", meta.last_expiry.0);
    }
    let item = item.number("data-bytes", meta.data_bytes);
    output
        .with_version(item, "max-version", meta.max_version)
        .bytes("min-key", &meta.min_key)
        .bytes("max-key", &meta.max_key)
        .text("checksum", format!("{:08x}", meta.checksum))
}

/// Dumps the table `id` in this place of `file`, block by block.
pub fn dump_table(
    output: &mut DumpOutput<'_>,
    file: &dyn File,
    place: Range<u64>,
    id: TableId,
) -> ControlFlow<()> {
    let len = place.end.saturating_sub(place.start);
    let mut visitor = TableDump {
        output,
        start: place.start,
        flow: ControlFlow::Continue(()),
    };
    table::examine(file, place.start, len, id, &mut visitor);
    visitor.flow
}

struct TableDump<'t, 'd> {
    output: &'t mut DumpOutput<'d>,
    /// The table's offset in its file.
    start: u64,
    flow: ControlFlow<()>,
}

impl TableDump<'_, '_> {
    fn give(&mut self, item: DumpItem) -> ControlFlow<()> {
        if self.flow.is_continue() {
            self.flow = self.output.give(item);
        }
        self.flow
    }

    /// An item at this place of the table.
    fn at(&self, item: DumpItem, place: &Range<u64>) -> DumpItem {
        item.at(
            self.start.saturating_add(place.start),
            place.end - place.start,
        )
    }
}

impl TableVisitor for TableDump<'_, '_> {
    fn facts(&mut self, facts: &TableFacts) {
        if let Some([data, dictionary, filter, index, properties]) = facts.lens {
            let before = data + dictionary + filter + index + properties;
            let footer = before..before + FOOTER_LEN as u64;
            let item = self
                .at(DumpItem::new("footer", 1), &footer)
                .number("data-bytes", data)
                .number("dictionary-bytes", dictionary)
                .number("filter-bytes", filter)
                .number("index-bytes", index)
                .number("properties-bytes", properties);
            let _ = self.give(item);
        }
        if let (Some(meta), Some((blocks, codec))) = (&facts.meta, facts.blocks) {
            let item = DumpItem::new("properties", 1).number("blocks", blocks);
            let item = item.text("codec", codec.name());
            let item = with_meta(self.output, item, meta);
            let _ = self.give(item);
        }
    }

    fn block(&mut self, facts: &BlockFacts<'_>) -> ControlFlow<()> {
        if self.output.is_full() {
            self.flow = ControlFlow::Break(());
        }
        let item = self
            .at(DumpItem::new("block", 1), &facts.place)
            .number("ordinal", facts.ordinal as u64)
            .text("codec", facts.codec.name())
            .number("payload-bytes", facts.payload_bytes as u64)
            .number("restarts", facts.restarts as u64);
        self.give(match facts.separator {
            Some(separator) => item.bytes("separator", separator),
            None => item,
        })
    }

    fn entry(&mut self, _ordinal: usize, entry: EntryRef<'_>) -> ControlFlow<()> {
        let item = DumpItem::new("record", 2).text("kind", entry.kind.name());
        let item = self.output.with_version(item, "version", entry.version);
        let item = item.bytes("key", entry.key);
        let item = self.output.with_value(item, entry.kind, entry.value);
        if self.flow.is_continue() {
            self.flow = self.output.give_counted(item);
        }
        self.flow
    }

    fn damage(&mut self, found: TableDamage) {
        let what = format!("{}: {}", found.part, found.what);
        let item = self.at(DumpItem::new("damage", 1), &found.place);
        let _ = self.give(item.text("what", what));
    }
}

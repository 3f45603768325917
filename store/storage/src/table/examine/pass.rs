//! [`Pass`]: the pass over the data blocks, each looked at by itself. It tells what is lost, and
//! compares each record with its neighbours, the index and the filter.

use super::source::{Source, next_in_chain};
use super::tail::Tail;
use super::{BlockFacts, Examined, TableDamage, TablePart, Teller};
use crate::key_hash::FilterHash;
use crate::table::Codec;
use crate::table::block::Block;
use crate::table::footer::Properties;
use crate::table::packing::{self, NEEDS_ZSTD, NO_DICTIONARY};
use crate::table::stored::Decoded;
use crate::table::walk::Walk;
use crate::table::zstd::Dictionary;
use crate::{EntryRef, TableId, Version};
use std::ops::{ControlFlow, Range};

/// The pass over the data blocks.
pub(super) struct Pass<'t, 'v> {
    pub(super) id: TableId,
    pub(super) tail: &'t Tail,
    pub(super) teller: Teller<'v>,
    pub(super) seen: Properties,
    pub(super) last: Option<(Vec<u8>, Version)>,
    pub(super) done: Examined,
}

impl Pass<'_, '_> {
    pub(super) fn run(&mut self, source: &mut Source<'_>) -> ControlFlow<()> {
        let limit = source.len.saturating_sub(source.behind_parts());
        let data_len = self.tail.data_len.unwrap_or(limit);
        let Some(index) = &self.tail.index else {
            return self.run_chain(source, data_len);
        };
        for ordinal in 0..index.len() {
            self.block(source, ordinal, index.block(ordinal))?;
        }
        ControlFlow::Continue(())
    }

    /// Without an index: block by block until one does not verify.
    fn run_chain(&mut self, source: &mut Source<'_>, data_len: u64) -> ControlFlow<()> {
        let (mut start, mut ordinal) = (0, 0);
        while start < data_len {
            let Some(end) = next_in_chain(source, self.id, start, data_len) else {
                let part = TablePart::Block(ordinal);
                self.lose(
                    part,
                    start..data_len,
                    "no block ends here and no index tells more",
                );
                break;
            };
            // Without a footer the parts behind the data are in the chain, too.
            let place = start..end;
            let is_data = self.tail.data_len.is_some() || self.looks_like_data(source, &place);
            if is_data {
                self.block(source, ordinal, place)?;
            }
            (start, ordinal) = (end, ordinal + 1);
        }
        ControlFlow::Continue(())
    }

    fn looks_like_data(&self, source: &mut Source<'_>, place: &Range<u64>) -> bool {
        let Ok((payload, used, _)) = source.stored(self.id, place) else {
            return false;
        };
        let block = open_block(&payload, used, self.tail.dictionary.as_ref());
        // Only data is packed. The records that are lost by this are reported.
        if matches!(block, Err(NO_DICTIONARY | NEEDS_ZSTD)) {
            return true;
        }
        let above = |key: &[u8]| self.last.as_ref().is_none_or(|(last, _)| **last <= *key);
        block.is_ok_and(|block| {
            let mut walk = Walk::default();
            let first = walk.first(&block).is_ok() && above(walk.key());
            first
                && std::iter::repeat_with(|| walk.advance(&block))
                    .find(|step| !matches!(step, Ok(true)))
                    == Some(Ok(false))
        })
    }

    fn block(
        &mut self,
        source: &mut Source<'_>,
        ordinal: usize,
        place: Range<u64>,
    ) -> ControlFlow<()> {
        let part = TablePart::Block(ordinal);
        let (payload, used, crc) = match source.stored(self.id, &place) {
            Ok(stored) => stored,
            Err(what) => {
                self.lose(part, place, what);
                return ControlFlow::Continue(());
            }
        };
        let dictionary = self.tail.dictionary.as_ref();
        let block = match open_block(&payload, used, dictionary) {
            Ok(opened) => opened,
            Err(malformed) => {
                self.lose(part, place, malformed.0);
                return ControlFlow::Continue(());
            }
        };
        self.seen.add_block_checksum(crc);
        self.done.blocks += 1;
        let separator = self
            .tail
            .index
            .as_ref()
            .map(|index| index.separator(ordinal));
        let facts = BlockFacts {
            ordinal,
            place: place.clone(),
            codec: used,
            payload_bytes: block.bytes().len(),
            restarts: block.restarts(),
            separator: separator.as_deref(),
        };
        self.teller.visitor.block(&facts)?;
        self.records(ordinal, place, &block)
    }

    fn records(&mut self, ordinal: usize, place: Range<u64>, block: &Block) -> ControlFlow<()> {
        let part = TablePart::Block(ordinal);
        let mut walk = Walk::default();
        let mut moved = walk.first(block).map(|()| true);
        let mut told = false;
        loop {
            match moved {
                Ok(true) => {}
                Ok(false) => return ControlFlow::Continue(()),
                Err(malformed) => {
                    self.lose(part, place, malformed.0);
                    return ControlFlow::Continue(());
                }
            }
            let Some(entry) = walk.entry(block) else {
                return ControlFlow::Continue(());
            };
            if let Some(what) = self.check(ordinal, entry)
                && !told
            {
                told = true;
                self.teller.part(part, place.clone(), what);
            }
            self.seen.count(entry);
            self.done.records += 1;
            self.teller.visitor.entry(ordinal, entry)?;
            moved = walk.advance(block);
        }
    }

    /// What is wrong with a record by itself.
    fn check(&mut self, ordinal: usize, entry: EntryRef<'_>) -> Option<&'static str> {
        let mut wrong = None;
        match &mut self.last {
            None => {
                self.seen.meta.min_key = entry.key.to_vec();
                self.last = Some((entry.key.to_vec(), entry.version));
            }
            Some((key, version)) => {
                let order = key.as_slice().cmp(entry.key);
                if order.is_gt() || (order.is_eq() && entry.version >= *version) {
                    wrong = Some("records out of order");
                }
                if !order.is_eq() {
                    key.clear();
                    key.extend_from_slice(entry.key);
                }
                *version = entry.version;
            }
        }
        if let Some(index) = &self.tail.index {
            let place = index.find(entry.key);
            let follows = place < ordinal && index.continues(ordinal - 1, entry.key);
            let is_other = self.tail.is_keyed && !index.is_separator(ordinal, entry.key);
            if (place != ordinal && !follows) || is_other {
                wrong = wrong.or(Some("record that the index does not know"));
            }
        }
        if let Some(filter) = &self.tail.filter
            && !filter.may_contain(FilterHash::of(entry.key).0)
        {
            wrong = wrong.or(Some("record that the filter does not know"));
        }
        wrong
    }

    fn lose(&mut self, part: TablePart, place: Range<u64>, what: impl Into<String>) {
        let limits = self
            .tail
            .properties
            .as_ref()
            .map(|properties| &properties.meta);
        let (mut keys_from, mut keys_to) = (self.last.as_ref().map(|(key, _)| key.clone()), None);
        let mut continues = true;
        if let (TablePart::Block(ordinal), Some(index)) = (part, &self.tail.index) {
            let separator = index.separator(ordinal);
            continues = index.continues(ordinal, &separator);
            keys_to = Some(separator);
            if let Some(before) = ordinal.checked_sub(1) {
                keys_from = Some(index.separator(before));
            }
        }
        self.teller.damage(TableDamage {
            part,
            place,
            what: what.into(),
            keys_from: keys_from.or_else(|| limits.map(|meta| meta.min_key.clone())),
            keys_to: keys_to.or_else(|| limits.map(|meta| meta.max_key.clone())),
            loses_records: true,
            continues,
        });
    }

    /// Checks the numbers after all blocks.
    pub(super) fn sum_up(&mut self, len: u64) {
        if self.teller.damaged {
            return;
        }
        let Some(told) = &self.tail.properties else {
            return;
        };
        self.seen.meta.max_key = self.last.take().map(|(key, _)| key).unwrap_or_default();
        self.seen.blocks = self.done.blocks;
        self.seen.codec = told.codec;
        if self.seen != *told {
            let what = "records do not sum up to the properties";
            self.teller.part(TablePart::Whole, 0..len, what);
        }
    }
}

/// A data block in memory of its own.
fn open_block(payload: &[u8], used: Codec, dictionary: Option<&Dictionary>) -> Decoded<Block> {
    let bytes = packing::unpack(payload, used, dictionary)?;
    let len = bytes.len();
    Block::parse(bytes, 0..len)
}

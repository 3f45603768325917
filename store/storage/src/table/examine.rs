//! Looks at a table part by part, whatever state it is in: for verify, dump and repair.
//!
//! [`examine`] verifies footer, properties, index, filter and every data block separately, and
//! reports to a [`TableVisitor`] what it finds, in the order of the bytes. Damage is reported and
//! not returned: the bytes behind it are still looked at. If the footer or the index is broken,
//! blocks are found by their own checksums: they lie end to end, and a block ends where the running
//! checksum equals the next four bytes.
//!
//! The other modules here decode. Nothing panics. Its memory is one window, the index
//! and the filter. A failed read is damage too: a bad sector must not hide the rest.

use super::block::Block;
use super::footer::{
    self, FOOTER_BYTES, Footer, FooterError, NOT_SEALED, Properties, SEAL_BYTES, behind_parts,
};
use super::index::BlockIndex;
use super::packing::{self, NEEDS_ZSTD, NO_DICTIONARY};
use super::reader::crc_of;
use super::stored::{self, Decoded, Malformed, TRAILER_BYTES};
use super::walk::Walk;
use super::zstd::{self, Dictionary};
use super::{Codec, TableMeta};
use crate::filter::BloomFilter;
use crate::key_hash::FilterHash;
use crate::sealing::{Cipher, TAG_BYTES};
use crate::vfs::File;
use crate::{EntryRef, TableId, Version, codec};
use std::ops::{ControlFlow, Range};

/// Bytes that one read fetches.
const WINDOW_BYTES: u64 = 1 << 20;

/// A part of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TablePart {
    /// The last 56 bytes.
    Footer,
    /// Numbers and limits.
    Properties,
    /// The block index.
    Index,
    /// The filter.
    Filter,
    /// The dictionary with which the blocks were packed.
    Dictionary,
    /// The data block of this ordinal.
    Block(usize),
    /// All of it.
    Whole,
}

impl std::fmt::Display for TablePart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TablePart::Footer => f.write_str("footer"),
            TablePart::Properties => f.write_str("properties"),
            TablePart::Index => f.write_str("index"),
            TablePart::Filter => f.write_str("filter"),
            TablePart::Dictionary => f.write_str("dictionary"),
            TablePart::Block(ordinal) => write!(f, "block {ordinal}"),
            TablePart::Whole => f.write_str("table"),
        }
    }
}

/// A stretch of a table that does not verify.
#[derive(Clone, Debug)]
pub struct TableDamage {
    /// The part that these bytes should have been.
    pub part: TablePart,
    /// The stretch, from the table's start.
    pub place: Range<u64>,
    /// What is wrong.
    pub what: String,
    /// Records with keys at or above this one may be lost; `None`: from the least key on.
    pub keys_from: Option<Vec<u8>>,
    /// Records with keys at or below this one may be lost; `None`: up to the greatest key.
    pub keys_to: Option<Vec<u8>>,
    /// Whether records are lost, and not only a way to find them.
    pub loses_records: bool,
    /// The bytes that follow may have older versions of a lost key.
    pub continues: bool,
}

/// A data block that verified.
#[derive(Clone, Debug)]
pub struct BlockFacts<'a> {
    /// Its number.
    pub ordinal: usize,
    /// The stretch, from the table's start, with the trailer.
    pub place: Range<u64>,
    /// How it is stored.
    pub codec: Codec,
    /// Bytes after decompression.
    pub payload_bytes: usize,
    /// Its restart points.
    pub restarts: usize,
    /// The index's separator; `None` if there is no index.
    pub separator: Option<&'a [u8]>,
}

/// What the end of a table says.
#[derive(Clone, Debug, Default)]
pub struct TableFacts {
    /// Stored lengths of data, dictionary, filter, index and properties, if the footer verifies.
    pub lens: Option<[u64; 5]>,
    /// Numbers, limits and checksum as the manifest should have them, if everything that they need
    /// verifies.
    pub meta: Option<TableMeta>,
    /// The number of data blocks, and the codec that was asked for, if the properties verify.
    pub blocks: Option<(u64, Codec)>,
}

/// Gets the findings of [`examine`].
pub trait TableVisitor {
    /// Called once, after the parts behind the data have been read.
    fn facts(&mut self, _facts: &TableFacts) {}
    /// Called for a block, before its records.
    fn block(&mut self, _facts: &BlockFacts<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
    /// Called for a record of block `ordinal`.
    fn entry(&mut self, _ordinal: usize, _entry: EntryRef<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
    /// Called for a stretch that does not verify.
    fn damage(&mut self, damage: TableDamage);
}

/// The amounts that were read.
#[derive(Clone, Debug, Default)]
pub struct Examined {
    /// The number of data blocks that verified.
    pub blocks: u64,
    /// The number of records in these blocks.
    pub records: u64,
    /// Whether anything did not verify.
    pub damaged: bool,
}

/// Identity and length of the table with this footer, if it verifies. For a table that was found
/// without knowing what it is.
pub fn identify_footer(bytes: &[u8]) -> Option<(TableId, u64)> {
    Footer::identify(bytes.try_into().ok()?)
}

/// The feature that this build lacks to read the table `id` at `[offset, offset + len)` of `file`,
/// if it can be told. Such a table does not open. [`examine`] counts the records of its compressed
/// blocks as lost, and calls it sound if it has no compressed blocks.
pub fn lacks_for(file: &dyn File, offset: u64, len: u64, id: TableId) -> Option<&'static str> {
    let mut bytes = [0; FOOTER_BYTES];
    let at = offset.checked_add(len)?.checked_sub(FOOTER_BYTES as u64)?;
    if zstd::IS_THERE || crate::vfs::read_exact_at(file, &mut bytes, at).is_err() {
        return None;
    }
    let footer = Footer::decode(&bytes, id, len).ok()?;
    footer.is_zstd.then_some(NEEDS_ZSTD.0)
}

/// Bytes of a footer, for [`identify_footer`]; its last 8 are [`FOOTER_MAGIC`].
pub const FOOTER_LEN: usize = FOOTER_BYTES;

/// The end of every footer.
pub const FOOTER_MAGIC: [u8; 8] = super::footer::MAGIC.to_le_bytes();

/// Reads the table `id` at `[offset, offset + len)` of `file`, and reports everything about it to
/// `visitor`.
pub fn examine(
    file: &dyn File,
    offset: u64,
    len: u64,
    id: TableId,
    visitor: &mut dyn TableVisitor,
) -> Examined {
    let mut source = Source {
        file,
        offset,
        len,
        window: Vec::new(),
        start: 0,
        cipher: None,
    };
    let mut teller = Teller {
        visitor,
        damaged: false,
    };
    let tail = Tail::read(&mut source, id, &mut teller);
    teller.visitor.facts(&tail.facts);
    let mut pass = Pass {
        id,
        tail: &tail,
        teller,
        seen: Properties::default(),
        last: None,
        done: Examined::default(),
    };
    let stopped = pass.run(&mut source).is_break();
    if !stopped {
        pass.sum_up(len);
    }
    Examined {
        damaged: pass.teller.damaged,
        ..pass.done
    }
}

/// The table's bytes through one window.
struct Source<'a> {
    file: &'a dyn File,
    offset: u64,
    len: u64,
    window: Vec<u8>,
    start: u64,
    /// The cipher of an encrypted table.
    cipher: Option<Cipher>,
}

impl Source<'_> {
    /// Bytes behind the last part.
    fn behind_parts(&self) -> u64 {
        behind_parts(self.cipher.is_some())
    }

    /// A stored block as [`stored::verify`] gives it, and its checksum. A decrypted block has
    /// memory of its own.
    fn stored(&mut self, id: TableId, place: &Range<u64>) -> Result<(Vec<u8>, Codec, u32), String> {
        let text = |malformed: Malformed| malformed.0.to_owned();
        let mut stored = self.bytes(place.clone())?.to_vec();
        let crc = crc_of(&stored);
        let (len, used) = match &self.cipher {
            Some(cipher) => stored::open(cipher, &mut stored, id, place.start).map_err(text)?,
            None => {
                let (payload, used) = stored::verify(&stored, id, place.start).map_err(text)?;
                (payload.len(), used)
            }
        };
        stored.truncate(len);
        Ok((stored, used, crc))
    }

    fn bytes(&mut self, place: Range<u64>) -> Result<&[u8], String> {
        let held = self.start..self.start + self.window.len() as u64;
        if place.start < held.start || place.end > held.end {
            let wide = match self.len <= WINDOW_BYTES {
                true => 0..self.len,
                false => {
                    place.start
                        ..place
                            .start
                            .saturating_add(WINDOW_BYTES)
                            .clamp(place.end, self.len)
                }
            };
            if self.fill(wide.clone()).is_err()
                || self.start + (self.window.len() as u64) < place.end
            {
                self.fill(place.clone())?;
            }
        }
        let from = (place.start - self.start) as usize;
        let to = (place.end - self.start) as usize;
        self.window
            .get(from..to)
            .ok_or_else(|| "the file ends within it".to_owned())
    }

    /// The place where the table or the file ends, whichever comes first.
    fn end(&self) -> u64 {
        let file_len = self.file.len().unwrap_or(0);
        self.len.min(file_len.saturating_sub(self.offset))
    }

    /// Reads `place`, as far as the file has it.
    fn fill(&mut self, place: Range<u64>) -> Result<(), String> {
        let file_len = self.file.len().map_err(|error| error.to_string())?;
        let there = file_len.saturating_sub(self.offset).min(place.end);
        let want = there.saturating_sub(place.start) as usize;
        self.window.clear();
        self.window.resize(want, 0);
        self.start = place.start;
        let at = self.offset.saturating_add(place.start);
        crate::vfs::read_exact_at(self.file, &mut self.window, at).map_err(|error| {
            self.window.clear();
            format!("cannot be read: {error}")
        })
    }
}

/// The visitor, and whether damage was reported to it.
struct Teller<'v> {
    visitor: &'v mut dyn TableVisitor,
    damaged: bool,
}

impl Teller<'_> {
    fn damage(&mut self, damage: TableDamage) {
        self.damaged = true;
        self.visitor.damage(damage);
    }

    /// Damage of a part that leads to data but holds none.
    fn part(&mut self, part: TablePart, place: Range<u64>, what: impl Into<String>) {
        self.damage(TableDamage {
            part,
            place,
            what: what.into(),
            keys_from: None,
            keys_to: None,
            loses_records: false,
            continues: false,
        });
    }
}

/// Everything behind the data, as far as it verifies.
#[derive(Default)]
struct Tail {
    facts: TableFacts,
    index: Option<BlockIndex>,
    filter: Option<BloomFilter>,
    dictionary: Option<Dictionary>,
    properties: Option<Properties>,
    /// The end of the data: from the footer, or where the chain of blocks ended.
    data_len: Option<u64>,
    /// The index says that it has all keys.
    is_keyed: bool,
}

impl Tail {
    fn read(source: &mut Source<'_>, id: TableId, teller: &mut Teller<'_>) -> Tail {
        let footer_at = source.len.saturating_sub(FOOTER_BYTES as u64);
        let footer = read_footer(source, id, footer_at).and_then(|footer| {
            source.cipher = read_seal(source, id, Some(&footer))?;
            Ok(footer)
        });
        if footer.is_err() && source.cipher.is_none() {
            // The footer alone may be damaged, and the salt in front of it may be whole.
            source.cipher = read_seal(source, id, None).unwrap_or_default();
        }
        let mut tail = Tail::default();
        match footer {
            Ok(footer) => {
                tail.read_parts(source, id, &footer, teller);
                tail.facts.lens = Some([
                    footer.data_len,
                    footer.dictionary_len,
                    footer.filter_len,
                    footer.index_len,
                    footer.properties_len,
                ]);
            }
            Err(what) => {
                teller.part(TablePart::Footer, footer_at..source.len, what);
                let parts_end = source.len.saturating_sub(source.behind_parts());
                tail.guess_parts(source, id, parts_end);
            }
        }
        tail.facts.blocks = tail
            .properties
            .as_ref()
            .map(|properties| (properties.blocks, properties.codec));
        tail
    }

    fn read_parts(
        &mut self,
        source: &mut Source<'_>,
        id: TableId,
        footer: &Footer,
        teller: &mut Teller<'_>,
    ) {
        self.data_len = Some(footer.data_len);
        self.is_keyed = footer.is_keyed;
        let dictionary = footer.data_len..footer.data_len + footer.dictionary_len;
        let filter = dictionary.end..dictionary.end + footer.filter_len;
        let index = filter.end..filter.end + footer.index_len;
        let properties = index.end..index.end + footer.properties_len;
        if footer.dictionary_len > 0 {
            match part(source, id, &dictionary, packing::dictionary) {
                Ok((dictionary, _)) => self.dictionary = Some(dictionary),
                Err(what) => teller.part(TablePart::Dictionary, dictionary, what),
            }
        }
        if footer.filter_len > 0 {
            match part(source, id, &filter, |payload| {
                BloomFilter::decode(payload).ok_or(Malformed("filter of an impossible size"))
            }) {
                Ok((filter, _)) => self.filter = Some(filter),
                Err(what) => teller.part(TablePart::Filter, filter, what),
            }
        }
        let decode = |payload: &[u8]| BlockIndex::decode(payload, footer.data_len);
        let index_crc = match part(source, id, &index, decode) {
            Ok((decoded, crc)) => {
                self.index = Some(decoded);
                Some(crc)
            }
            Err(what) => {
                teller.part(TablePart::Index, index, what);
                None
            }
        };
        match part(source, id, &properties, Properties::decode) {
            Ok((decoded, crc)) => {
                let index = self.index.as_ref();
                let agrees = index.is_none_or(|index| index.agrees_with(&decoded, footer.is_keyed));
                if !agrees {
                    teller.part(
                        TablePart::Properties,
                        properties,
                        "properties against index",
                    );
                }
                self.facts.meta = index_crc.map(|index_crc| TableMeta {
                    len: source.len,
                    checksum: footer.table_checksum(id, index_crc, crc),
                    ..decoded.meta.clone()
                });
                self.properties = Some(decoded);
            }
            Err(what) => teller.part(TablePart::Properties, properties, what),
        }
    }

    /// For a table without a footer: if the chain of blocks reaches the footer's place, its last
    /// blocks are the parts.
    fn guess_parts(&mut self, source: &mut Source<'_>, id: TableId, footer_at: u64) {
        let mut ends = vec![0];
        while let Some(end) = next_in_chain(source, id, *ends.last().unwrap_or(&0), footer_at) {
            ends.push(end);
        }
        if ends.last() != Some(&footer_at) || ends.len() < 3 {
            return;
        }
        let place = |back: usize| ends[ends.len() - 1 - back]..ends[ends.len() - back];
        let Ok((properties, _)) = part(source, id, &place(1), Properties::decode) else {
            return;
        };
        // Between data and index there may be a dictionary and a filter.
        for between in 0..=2.min(ends.len() - 3) {
            let data_len = place(2 + between).start;
            let decode = |payload: &[u8]| BlockIndex::decode(payload, data_len);
            let Ok((index, _)) = part(source, id, &place(2), decode) else {
                continue;
            };
            for back in 0..between {
                let place = place(3 + back);
                let decode = |payload: &[u8]| BloomFilter::decode(payload).ok_or(Malformed(""));
                match part(source, id, &place, decode) {
                    Ok((filter, _)) => self.filter = Some(filter),
                    // The two cannot be confused: a dictionary begins as no filter does.
                    Err(_) => {
                        let found = part(source, id, &place, packing::dictionary);
                        self.dictionary = found.ok().map(|found| found.0);
                    }
                }
            }
            self.index = Some(index);
            self.data_len = Some(data_len);
            break;
        }
        self.properties = Some(properties);
    }
}

fn read_footer(source: &mut Source<'_>, id: TableId, at: u64) -> Result<Footer, String> {
    let len = source.len;
    if len < FOOTER_BYTES as u64 {
        return Err("table too short for a footer".to_owned());
    }
    let bytes = source.bytes(at..len)?;
    let bytes: &[u8; FOOTER_BYTES] = bytes.try_into().map_err(|_| "footer cut short")?;
    Footer::decode(bytes, id, len).map_err(|error| match error {
        FooterError::Unsupported(what) => what,
        FooterError::Corrupt(malformed) => malformed.0.to_owned(),
    })
}

/// A stored block that is not data, and its checksum.
fn part<T>(
    source: &mut Source<'_>,
    id: TableId,
    place: &Range<u64>,
    decode: impl FnOnce(&[u8]) -> Decoded<T>,
) -> Result<(T, u32), String> {
    let text = |malformed: Malformed| malformed.0.to_owned();
    match source.stored(id, place)? {
        (payload, Codec::None, crc) => Ok((decode(&payload).map_err(text)?, crc)),
        _ => Err("compressed table part".to_owned()),
    }
}

/// The cipher of an encrypted table. Without a footer the salt in front of it has to suffice.
fn read_seal(
    source: &mut Source<'_>,
    id: TableId,
    footer: Option<&Footer>,
) -> Result<Option<Cipher>, String> {
    let text = |malformed: Malformed| malformed.0.to_owned();
    let secrets = source.file.secrets();
    if let Some(footer) = footer
        && !footer.is_sealed
    {
        return match secrets {
            Some(_) => Err(text(NOT_SEALED)),
            None => Ok(None),
        };
    }
    let at = source.len.saturating_sub(behind_parts(true));
    let bytes = source.bytes(at..source.len)?;
    let (seal, encoded) = bytes
        .split_last_chunk::<FOOTER_BYTES>()
        .ok_or("table too short for its seal")?;
    if footer.is_some() {
        return footer::open_seal(secrets, id, seal, encoded)
            .map(Some)
            .map_err(text);
    }
    let salt = &seal[..SEAL_BYTES.min(seal.len()) - TAG_BYTES.min(seal.len())];
    Ok(secrets.map(|secrets| footer::cipher(secrets, id, salt)))
}

/// The end of the stored block that starts at `start`, by its checksum; `None` if it does not end
/// before `limit`.
fn next_in_chain(source: &mut Source<'_>, id: TableId, start: u64, limit: u64) -> Option<u64> {
    let limit = limit.min(source.end());
    let mut crc = codec::checksum(id.0, &[&start.to_le_bytes()]);
    let mut at = start;
    while at + 4 < limit {
        let end = (at + WINDOW_BYTES / 2).min(limit);
        let bytes = source.bytes(at..end).ok()?;
        for window in bytes.windows(5) {
            crc = codec::checksum(u64::from(crc), &[&window[..1]]);
            at += 1;
            let long_enough = at + 4 - start > TRAILER_BYTES as u64;
            if long_enough && window[1..] == crc.to_le_bytes() {
                return Some(at + 4);
            }
        }
    }
    None
}

/// The pass over the data blocks.
struct Pass<'t, 'v> {
    id: TableId,
    tail: &'t Tail,
    teller: Teller<'v>,
    seen: Properties,
    last: Option<(Vec<u8>, Version)>,
    done: Examined,
}

impl Pass<'_, '_> {
    fn run(&mut self, source: &mut Source<'_>) -> ControlFlow<()> {
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
    fn sum_up(&mut self, len: u64) {
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

#[cfg(test)]
#[path = "examine_tests.rs"]
mod tests;

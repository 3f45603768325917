//! Doors for the fuzzer (`proof/fuzz`), with the feature `fuzzing`: data blocks without a table
//! around them, and tables whose checksums are made right again, so that bytes get in that a
//! checksum would keep out.
//!
//! Not part of the public face: anything here may change at any time.

use super::Codec;
use super::block::{Block, Search};
use super::footer::{FOOTER_BYTES, Footer, MAGIC};
use super::index::BlockIndex;
use super::stored::{TRAILER_BYTES, trailer};
use super::walk::Walk;
use crate::{Kind, TableId, Version, codec};
use std::ops::Range;
use std::sync::Arc;

/// A row of a block, in memory of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// The key.
    pub key: Vec<u8>,
    /// The version.
    pub version: Version,
    /// What it says.
    pub kind: Kind,
    /// The value as it is stored.
    pub value: Vec<u8>,
}

/// A block made of any bytes.
#[derive(Debug)]
pub struct AnyBlock(Block);

/// The error says what does not make sense.
type Read<T> = Result<T, &'static str>;

impl AnyBlock {
    /// The block of these bytes, which are not compressed.
    pub fn parse(bytes: &[u8]) -> Read<AnyBlock> {
        let block = Block::parse(Arc::from(bytes), 0..bytes.len());
        block.map(AnyBlock).map_err(|malformed| malformed.0)
    }

    fn row(&self, walk: &Walk) -> Option<Row> {
        walk.entry(&self.0).map(|entry| Row {
            key: entry.key.to_vec(),
            version: entry.version,
            kind: entry.kind,
            value: entry.value.to_vec(),
        })
    }

    /// All rows.
    pub fn forward(&self) -> Read<Vec<Row>> {
        let mut walk = Walk::default();
        walk.first(&self.0).map_err(|malformed| malformed.0)?;
        let mut rows = Vec::new();
        loop {
            rows.extend(self.row(&walk));
            if !walk.advance(&self.0).map_err(|malformed| malformed.0)? {
                return Ok(rows);
            }
        }
    }

    /// All rows, the last one first.
    pub fn backward(&self) -> Read<Vec<Row>> {
        let mut walk = Walk::default();
        walk.last(&self.0).map_err(|malformed| malformed.0)?;
        let mut rows = Vec::new();
        loop {
            rows.extend(self.row(&walk));
            if !walk.retreat(&self.0).map_err(|malformed| malformed.0)? {
                return Ok(rows);
            }
        }
    }

    /// The first row whose key is at or above `key`.
    pub fn seek(&self, key: &[u8]) -> Read<Option<Row>> {
        let mut walk = Walk::default();
        let found = walk.seek(&self.0, key).map_err(|malformed| malformed.0)?;
        Ok(self.row(&walk).filter(|_| found))
    }

    /// The newest row of the key that a reader at version `at` sees.
    pub fn search(&self, key: &[u8], at: Version) -> Read<Option<Row>> {
        let found = self.0.search(key, at).map_err(|malformed| malformed.0)?;
        Ok(match found {
            Search::Found(row) => Some(Row {
                key: key.to_vec(),
                version: row.version,
                kind: row.kind,
                value: self.0.bytes()[row.value].to_vec(),
            }),
            Search::Beyond | Search::Ended => None,
        })
    }
}

/// Makes the checksums of a damaged table right, and its footer the footer of table `id`. The
/// lengths in the footer stay, except the length of the data, which gets the bytes that the other
/// parts leave. If the index can be read, the blocks that it names get checksums too, and the
/// properties name these.
pub fn reseal(table: &mut [u8], id: TableId) {
    let Some(mut footer) = footer_of(table) else {
        return;
    };
    let data_len = table.len() - FOOTER_BYTES - rest_len(&footer);
    footer.data_len = data_len as u64;
    let mut at = data_len;
    let mut part = |len: u64| {
        let place = at..at + len as usize;
        at = place.end;
        place
    };
    let [dictionary, filter, index, properties] = [
        part(footer.dictionary_len),
        part(footer.filter_len),
        part(footer.index_len),
        part(footer.properties_len),
    ];
    for place in [dictionary, filter, index.clone()] {
        seal(table, place, id);
    }
    let stored = &table[index.start..index.end.saturating_sub(TRAILER_BYTES).max(index.start)];
    if let Ok(blocks) = BlockIndex::decode(stored, footer.data_len) {
        let mut sum = 0;
        for ordinal in 0..blocks.len() {
            let place = blocks.block(ordinal);
            let crc = seal(table, place.start as usize..place.end as usize, id);
            sum = codec::checksum(u64::from(sum), &[&crc]);
        }
        name_data(&mut table[properties.clone()], sum);
    }
    seal(table, properties, id);
    let start = table.len() - FOOTER_BYTES;
    table[start..].copy_from_slice(&footer.encode(id));
}

/// The lengths in the footer, if the table has room for these parts.
fn footer_of(table: &[u8]) -> Option<Footer> {
    let mut input = table.last_chunk::<FOOTER_BYTES>()?.as_slice();
    let mut words = [0; 5];
    for word in &mut words {
        *word = codec::get_u64(&mut input)?;
    }
    let version = codec::get_u32(&mut input)?;
    let is_magic = input.get(4..) == Some(&MAGIC.to_le_bytes()[..]);
    let [_, filter_len, index_len, last, _] = words;
    let kind = super::footer::Kind::of(version);
    let is_zstd = kind.is_some_and(|kind| kind.is_zstd);
    let (properties_len, dictionary_len) = match is_zstd {
        true => (last & u64::from(u32::MAX), last >> 32),
        false => (last, 0),
    };
    let lens = [dictionary_len, filter_len, index_len, properties_len];
    let mut sum = FOOTER_BYTES as u64;
    for len in lens {
        sum = sum.checked_add(len)?;
    }
    let footer = Footer {
        is_zstd,
        is_sealed: false,
        is_keyed: kind.is_some_and(|kind| kind.is_keyed),
        data_len: 0,
        dictionary_len,
        filter_len,
        index_len,
        properties_len,
    };
    (is_magic && sum <= table.len() as u64).then_some(footer)
}

fn rest_len(footer: &Footer) -> usize {
    let parts = [
        footer.dictionary_len,
        footer.filter_len,
        footer.index_len,
        footer.properties_len,
    ];
    parts.iter().sum::<u64>() as usize
}

/// Gives the bytes at `place` their checksum, and returns it.
fn seal(table: &mut [u8], place: Range<usize>, id: TableId) -> [u8; 4] {
    let offset = place.start as u64;
    let Some((payload, end)) = table[place].split_last_chunk_mut::<TRAILER_BYTES>() else {
        return [0; 4];
    };
    match Codec::from_byte(end[0]) {
        Some(used) => *end = trailer(id, offset, payload, used),
        // A codec that does not exist, with a right checksum.
        None => {
            let crc = codec::checksum(id.0, &[&offset.to_le_bytes(), payload, &end[..1]]);
            end[1..].copy_from_slice(&crc.to_le_bytes());
        }
    }
    [end[1], end[2], end[3], end[4]]
}

/// Writes the checksum of the data blocks into the properties.
fn name_data(properties: &mut [u8], sum: u32) {
    let len = properties.len();
    let mut rest = &properties[..];
    for _ in 0..5 {
        if codec::get_varint(&mut rest).is_none() {
            return;
        }
    }
    // Behind the byte of the codec.
    let at = len - rest.len() + 1;
    if let Some(place) = properties.get_mut(at..at + 4) {
        place.copy_from_slice(&sum.to_le_bytes());
    }
}

//! [`Tail`]: the parts of a table behind its data, each as far as it verifies.
//!
//! If the footer is broken, the parts are guessed: they are the last blocks in the chain of blocks.

use super::source::{Source, next_in_chain};
use super::{TableFacts, TablePart, Teller};
use crate::TableId;
use crate::filter::BloomFilter;
use crate::sealing::{Cipher, TAG_BYTES};
use crate::table::footer::{
    self, FOOTER_BYTES, Footer, FooterError, NOT_SEALED, Properties, SEAL_BYTES, behind_parts,
};
use crate::table::index::BlockIndex;
use crate::table::packing;
use crate::table::stored::{Decoded, Malformed};
use crate::table::zstd::Dictionary;
use crate::table::{Codec, TableMeta};
use std::ops::Range;

/// Everything behind the data, as far as it verifies.
#[derive(Default)]
pub(super) struct Tail {
    pub(super) facts: TableFacts,
    pub(super) index: Option<BlockIndex>,
    pub(super) filter: Option<BloomFilter>,
    pub(super) dictionary: Option<Dictionary>,
    pub(super) properties: Option<Properties>,
    /// The end of the data: from the footer, or where the chain of blocks ended.
    pub(super) data_len: Option<u64>,
    /// The index says that it has all keys.
    pub(super) is_keyed: bool,
}

impl Tail {
    /// Reads it, and tells the damage in it.
    pub(super) fn read(source: &mut Source<'_>, id: TableId, teller: &mut Teller<'_>) -> Tail {
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

use super::*;
use crate::table::{TableOptions, TableWriter};
use crate::vfs::{SimVfs, Vfs};
use crate::{Kind, Version};
use std::path::Path;

const ID: TableId = TableId(0x1_0000_0007);

fn table(records: u32, options: TableOptions) -> (Vec<u8>, TableMeta) {
    let mut writer = TableWriter::new(Vec::new(), ID, options);
    for number in 0..records {
        let key = format!("key{number:05}");
        let entry = EntryRef {
            key: key.as_bytes(),
            version: Version(u64::from(number) + 1),
            kind: Kind::Put,
            value: b"some value that repeats repeats repeats",
        };
        writer.add(entry).unwrap();
    }
    let (sink, meta) = writer.finish().unwrap();
    (sink, meta)
}

fn options(codec: Codec, filter_bits_per_key: u32) -> TableOptions {
    TableOptions {
        block_bytes: 256,
        restart_interval: 4,
        codec,
        zstd_level: 3,
        filter_bits_per_key,
    }
}

#[derive(Default)]
struct Notes {
    damages: Vec<TableDamage>,
    facts: TableFacts,
    keys: Vec<Vec<u8>>,
}

impl TableVisitor for Notes {
    fn facts(&mut self, facts: &TableFacts) {
        self.facts = facts.clone();
    }
    fn entry(&mut self, _: usize, entry: EntryRef<'_>) -> ControlFlow<()> {
        self.keys.push(entry.key.to_vec());
        ControlFlow::Continue(())
    }
    fn damage(&mut self, damage: TableDamage) {
        self.damages.push(damage);
    }
}

fn look(bytes: &[u8], len: u64) -> Notes {
    let vfs = SimVfs::new(1);
    let path = Path::new("/t");
    vfs.write_file(path, [&[9; 512][..], bytes].concat());
    let file = vfs.open(path, false).unwrap();
    let mut notes = Notes::default();
    let examined = examine(&*file, 512, len, ID, &mut notes);
    assert_eq!(examined.damaged, !notes.damages.is_empty());
    assert_eq!(examined.records, notes.keys.len() as u64);
    notes
}

#[test]
fn a_sound_table_is_sound() {
    for (codec, filter) in [(Codec::None, 0), (Codec::Lz4, 10)] {
        for records in [0, 1, 300] {
            let (bytes, meta) = table(records, options(codec, filter));
            let notes = look(&bytes, bytes.len() as u64);
            assert!(notes.damages.is_empty(), "{:?}", notes.damages);
            assert_eq!(notes.facts.meta, Some(meta));
            assert_eq!(notes.keys.len(), records as usize);
        }
    }
}

#[test]
fn every_bit_counts_and_most_records_come_back() {
    for (codec, filter) in [(Codec::None, 0), (Codec::Lz4, 10)] {
        let (bytes, _) = table(60, options(codec, filter));
        let data_len = look(&bytes, bytes.len() as u64).facts.lens.unwrap()[0];
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 1 << (at % 8);
            let notes = look(&bad, bytes.len() as u64);
            let damage = notes.damages.first();
            let damage = damage.unwrap_or_else(|| panic!("byte {at} is not missed"));
            let place = &damage.place;
            assert!(place.contains(&(at as u64)), "byte {at} in {damage:?}");
            if (at as u64) < data_len {
                // One block of a handful of records.
                assert!(damage.loses_records);
                assert!(notes.keys.len() >= 40, "{} of 60", notes.keys.len());
                let lost = (0..60).map(|number| format!("key{number:05}").into_bytes());
                for key in lost.filter(|key| !notes.keys.contains(key)) {
                    assert!(damage.keys_from.as_ref().is_none_or(|from| *from <= key));
                    assert!(damage.keys_to.as_ref().is_none_or(|to| key <= *to));
                }
            } else {
                assert_eq!(notes.keys.len(), 60, "byte {at}: {:?}", notes.damages);
                assert!(notes.damages.iter().all(|damage| !damage.loses_records));
            }
        }
    }
}

#[test]
fn cut_tables_give_what_is_left() {
    let (bytes, _) = table(60, options(Codec::None, 10));
    for len in 0..bytes.len() {
        let notes = look(&bytes[..len], bytes.len() as u64);
        assert!(!notes.damages.is_empty());
        assert!(notes.keys.is_sorted());
        // All records except the 5 records or so of the cut block.
        let whole = (60 * len / bytes.len()).saturating_sub(10);
        assert!(notes.keys.len() >= whole, "{} of {whole}", notes.keys.len());
    }
    let notes = look(&bytes[..bytes.len() - 1], bytes.len() as u64);
    assert_eq!(notes.keys.len(), 60);
}

#[test]
fn footers_tell_what_they_are_of() {
    let (bytes, meta) = table(20, options(Codec::None, 0));
    let footer = &bytes[bytes.len() - FOOTER_LEN..];
    assert_eq!(identify_footer(footer), Some((ID, meta.len)));
    assert!(footer.ends_with(&FOOTER_MAGIC));
    assert_eq!(identify_footer(&bytes[..FOOTER_LEN]), None);
    assert_eq!(identify_footer(&[]), None);
}

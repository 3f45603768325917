//! Tables with Zstandard and a dictionary: how much they save, and that damage is noticed
//! everywhere.

#![cfg(feature = "zstd")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod knobs;
mod table_support;

use evendb_storage::codec::checksum;
use evendb_storage::table::{
    BlockFacts, Codec, Table, TableCursor, TableDamage, TablePart, TableVisitor, examine,
    identify_footer,
};
use evendb_storage::vfs::{SimVfs, Vfs};
use evendb_storage::{EntryRef, ErrorKind, Result, Version};
use knobs::flag_from_env;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use table_support::{ID, MemFile, Record, build, options};

/// Texts of one kind.
fn texts(count: u32) -> Vec<Record> {
    let value = |n: u32| {
        let (age, city) = (n % 71, n * 7919 % 1009);
        format!(
            "{{\"name\":\"user number {n}\",\"age\":{age},\"city\":\"city of {city}\",\"likes\":[]}}"
        )
    };
    (0..count)
        .map(|n| Record::put(format!("user{n:08}").as_bytes(), 0, value(n).as_bytes()))
        .collect()
}

fn open(bytes: &[u8]) -> Result<Table> {
    Table::open(MemFile::new(bytes.to_vec()), 0, bytes.len() as u64, ID)
}

/// The four words of the footer, and its dictionary's length.
fn lens(bytes: &[u8]) -> ([usize; 4], usize) {
    let footer = &bytes[bytes.len() - 56..];
    let word = |at: usize| u64::from_le_bytes(footer[at..at + 8].try_into().unwrap());
    let last = word(24);
    let words = [word(0), word(8), word(16), last & 0xffff_ffff].map(|word| word as usize);
    (words, (last >> 32) as usize)
}

fn read_all(table: &Arc<Table>, records: &[Record]) -> Result<()> {
    let mut cursor = TableCursor::new(table.clone(), 4);
    cursor.seek_first()?;
    for record in records {
        assert_eq!(cursor.entry(), record.entry());
        cursor.next()?;
    }
    assert!(!cursor.valid());
    for record in records.iter().step_by(17) {
        let found = table.get(&record.key, Version::MAX)?.unwrap();
        assert_eq!(&found.block.bytes()[found.value], &record.value[..]);
    }
    table.verify()
}

#[test]
fn a_large_table_has_a_dictionary_that_saves_more() {
    let records = texts(12_000);
    let sizes = [Codec::None, Codec::Lz4, Codec::Zstd, Codec::ZstdDictionary].map(|codec| {
        let (bytes, meta) = build(&records, options(1024, codec));
        let table = Arc::new(open(&bytes).unwrap());
        assert_eq!(table.meta(), &meta);
        read_all(&table, &records).unwrap();
        let (_, dictionary) = lens(&bytes);
        assert_eq!(dictionary > 0, codec == Codec::ZstdDictionary);
        if dictionary > 0 {
            assert!(table.resident_bytes() > dictionary);
        }
        assert_eq!(
            identify_footer(&bytes[bytes.len() - 56..]),
            Some((ID, meta.len))
        );
        bytes.len()
    });
    assert!(sizes.is_sorted_by(|a, b| a > b), "{sizes:?}");
}

#[test]
fn a_small_table_has_none() {
    let (bytes, _) = build(&texts(300), options(1024, Codec::ZstdDictionary));
    let (_, dictionary) = lens(&bytes);
    assert_eq!(dictionary, 0);
    read_all(&Arc::new(open(&bytes).unwrap()), &texts(300)).unwrap();
}

#[test]
fn where_a_record_is_was_told_while_blocks_waited() {
    let records = texts(12_000);
    let writing = options(1024, Codec::ZstdDictionary);
    let mut writer = evendb_storage::table::TableWriter::new(Vec::new(), ID, writing);
    let mut ordinals = Vec::new();
    for record in &records {
        writer.add(record.entry()).unwrap();
        ordinals.push(writer.block_ordinal());
    }
    let (bytes, _) = writer.finish().unwrap();
    let table = open(&bytes).unwrap();
    for (record, ordinal) in records.iter().zip(ordinals) {
        assert_eq!(table.block_for(&record.key), Some(ordinal));
    }
}

/// One byte in each stretch is wrong: an error follows, or the read records are right.
#[test]
fn damage_of_a_table_with_a_dictionary_is_noticed() {
    let records = texts(2_000);
    let (bytes, _) = build(&records, options(1024, Codec::ZstdDictionary));
    assert!(lens(&bytes).1 > 0);
    for at in (0..bytes.len()).step_by(37) {
        let mut bad = bytes.clone();
        bad[at] ^= 1 << (at % 8);
        let error = open(&bad)
            .and_then(|table| read_all(&Arc::new(table), &records))
            .expect_err("damage is not noticed");
        assert!(matches!(
            error.kind(),
            ErrorKind::Corruption | ErrorKind::Unsupported
        ));
        assert_eq!(error.path(), Path::new("/memory/file"));
        assert!(error.offset().is_some() || error.kind() == ErrorKind::Unsupported);
    }
}

/// With forged checksums nothing panics, and a block never needs more memory than it may.
#[test]
fn forged_dictionaries_and_frames_never_panic() {
    let records = texts(1_500);
    let (bytes, _) = build(&records, options(1024, Codec::ZstdDictionary));
    let ([data, ..], dictionary) = lens(&bytes);
    let table = open(&bytes).unwrap();
    let first = table.stored_block_bytes(0) as usize;
    for part in [0..first, data..data + dictionary] {
        for at in part.start..part.end - 4 {
            let mut bad = bytes.clone();
            bad[at] ^= 1 << (at % 8);
            let covered = &bad[part.start..part.end - 4];
            let crc = checksum(ID.0, &[&(part.start as u64).to_le_bytes(), covered]);
            bad[part.end - 4..part.end].copy_from_slice(&crc.to_le_bytes());
            if let Ok(table) = open(&bad) {
                let _ = table.read_block(0);
                let _ = table.get(&records[700].key, Version::MAX);
            }
        }
    }
}

/// The dictionary of another table, whose checksum was made right.
#[test]
fn the_dictionary_of_another_table_is_refused() {
    let records = texts(2_000);
    let (mut bytes, _) = build(&records, options(1024, Codec::ZstdDictionary));
    let other: Vec<Record> = (0..2_000)
        .map(|n| {
            let value = format!("<row><id>{n}</id><sum>{}</sum></row>", n * 31 % 977);
            Record::put(format!("user{n:08}").as_bytes(), 0, value.as_bytes())
        })
        .collect();
    let (theirs, _) = build(&other, options(1024, Codec::ZstdDictionary));
    let (([data, ..], own_len), ([their_data, ..], their_len)) = (lens(&bytes), lens(&theirs));
    let mut foreign = theirs[their_data..their_data + their_len - 5].to_vec();
    foreign.resize(own_len - 5, 0);
    let crc = checksum(ID.0, &[&(data as u64).to_le_bytes(), &foreign, &[0]]);
    foreign.push(0);
    foreign.extend_from_slice(&crc.to_le_bytes());
    bytes[data..data + own_len].copy_from_slice(&foreign);
    let read = open(&bytes).and_then(|table| table.read_block(0).map(drop));
    assert_eq!(read.unwrap_err().kind(), ErrorKind::Corruption);
}

#[derive(Default)]
struct Notes {
    keys: usize,
    damages: Vec<TableDamage>,
    packed: usize,
}

impl TableVisitor for Notes {
    fn block(&mut self, facts: &BlockFacts<'_>) -> ControlFlow<()> {
        self.packed += usize::from(facts.codec == Codec::ZstdDictionary);
        ControlFlow::Continue(())
    }
    fn entry(&mut self, _: usize, _: EntryRef<'_>) -> ControlFlow<()> {
        self.keys += 1;
        ControlFlow::Continue(())
    }
    fn damage(&mut self, damage: TableDamage) {
        self.damages.push(damage);
    }
}

fn look(bytes: &[u8]) -> Notes {
    let vfs = SimVfs::new(1);
    let path = Path::new("/t");
    vfs.write_file(path, bytes.to_vec());
    let file = vfs.open(path, false).unwrap();
    let mut notes = Notes::default();
    examine(&*file, 0, bytes.len() as u64, ID, &mut notes);
    notes
}

#[test]
fn a_look_at_a_damaged_table_finds_what_is_left() {
    let records = texts(2_000);
    let (bytes, _) = build(&records, options(1024, Codec::ZstdDictionary));
    let sound = look(&bytes);
    assert!(sound.damages.is_empty(), "{:?}", sound.damages);
    assert_eq!(sound.keys, 2_000);
    assert!(sound.packed > 50);
    let harmed = |at: usize| {
        let mut bad = bytes.clone();
        bad[at] ^= 1;
        look(&bad)
    };
    // The footer is damaged: the parts are found by their checksums.
    let footer = harmed(bytes.len() - 50);
    assert_eq!(footer.keys, 2_000);
    assert_eq!(footer.damages.len(), 1, "{:?}", footer.damages);
    // The index is damaged: the blocks are found.
    let ([data, filter, ..], dictionary) = lens(&bytes);
    let index = harmed(data + dictionary + filter + 3);
    assert_eq!(index.keys, 2_000);
    // A block is damaged.
    let block = harmed(3);
    assert!(block.keys > 1_900 && block.damages[0].loses_records);
    // The dictionary is damaged: every block that needs it is lost, and is reported.
    let lost = harmed(data + 20);
    assert_eq!(lost.damages[0].part, TablePart::Dictionary);
    assert_eq!(lost.damages.len(), 1 + sound.packed);
    assert!(lost.damages[1..].iter().all(|damage| damage.loses_records));
}

/// The bytes of a kept table can be read as before. They are not compared with newly written bytes,
/// because another version of the library may write other bytes.
#[test]
fn kept_tables_are_read() {
    for (name, codec, count) in [
        ("table-zstd.hex", Codec::Zstd, 40),
        ("table-zstd-dictionary.hex", Codec::ZstdDictionary, 900),
    ] {
        let records = texts(count);
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/golden")
            .join(name);
        if flag_from_env("EVENDB_BLESS") && !path.exists() {
            let (bytes, _) = build(&records, options(1024, codec));
            let line = |line: &[u8]| {
                let bytes: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
                bytes.join(" ") + "\n"
            };
            let text: String = bytes.chunks(40).map(line).collect();
            std::fs::write(&path, text).unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let bytes = text.split_whitespace();
        let bytes: Vec<u8> = bytes
            .map(|byte| u8::from_str_radix(byte, 16).unwrap())
            .collect();
        assert_eq!(lens(&bytes).1 > 0, codec == Codec::ZstdDictionary);
        read_all(&Arc::new(open(&bytes).unwrap()), &records).unwrap();
    }
}

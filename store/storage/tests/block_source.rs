//! Cursors with blocks in memory, and cursors that are aimed before they seek.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod table_support;

use evendb_storage::table::{Block, BlockSource, Codec, ReadAhead, Table, TableCursor, Target};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use table_support::{MemFile, Record, build, open_within, options};

const RECORDS: u32 = 2000;
/// The number of blocks that a cursor offers after a seek: where nobody was before, and where its
/// block was in memory.
const OFFERED: usize = 1;
const OFFERED_WHERE_KNOWN: usize = 8;

const READAHEAD: ReadAhead = ReadAhead {
    seek: 1,
    next: 2,
    max: 8,
};

/// Keeps all blocks that it is offered, and the blocks that it was asked for.
#[derive(Debug, Default)]
struct Kept {
    blocks: Mutex<HashMap<usize, Block>>,
    asked: Mutex<Vec<usize>>,
}

impl BlockSource for Kept {
    fn get(&self, _table: &Table, ordinal: usize) -> Option<Block> {
        self.asked.lock().push(ordinal);
        self.blocks.lock().get(&ordinal).cloned()
    }

    fn offer(&self, _table: &Table, ordinal: usize, block: &Block) {
        self.blocks.lock().insert(ordinal, block.detached());
    }
}

impl Kept {
    fn len(&self) -> usize {
        self.blocks.lock().len()
    }

    fn take_asked(&self) -> Vec<usize> {
        std::mem::take(&mut *self.asked.lock())
    }
}

fn key(number: u32) -> Vec<u8> {
    format!("user{number:08}").into_bytes()
}

fn table() -> (Arc<MemFile>, Arc<Table>) {
    let records = (0..RECORDS).map(|number| Record::put(&key(number), 0, &[number as u8; 20]));
    let (bytes, _) = build(&records.collect::<Vec<_>>(), options(512, Codec::None));
    let (file, table) = open_within(&bytes, 0);
    file.take_parts();
    (file, Arc::new(table.unwrap()))
}

fn seek(cursor: &mut TableCursor, target: Target<'_>) {
    match target {
        Target::From(key) => cursor.seek(key),
        Target::Before(key) => cursor.seek_before(key),
        Target::First => cursor.seek_first(),
        Target::Last => cursor.seek_last(),
    }
    .unwrap();
}

fn key_at(cursor: &TableCursor) -> Option<Vec<u8>> {
    cursor.valid().then(|| cursor.entry().key.to_vec())
}

fn is_within(inner: &Range<u64>, outer: &Range<u64>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

/// An aimed seek ends where another seek does, has told the system about the blocks that it then
/// reads, and asks for its block once.
#[test]
fn an_aimed_seek_is_a_seek() {
    let (file, table) = table();
    let mut keys: Vec<Vec<u8>> = (0..RECORDS).step_by(13).map(key).collect();
    keys.extend([b"".to_vec(), b"user00000999x".to_vec(), b"zzz".to_vec()]);
    let targets = keys
        .iter()
        .flat_map(|key| [Target::From(key), Target::Before(key)]);
    for target in targets.chain([Target::First, Target::Last]) {
        let mut plain = TableCursor::new(table.clone(), READAHEAD);
        seek(&mut plain, target);
        let kept = Arc::new(Kept::default());
        let mut aimed = TableCursor::new(table.clone(), READAHEAD).through(kept.clone());
        file.take_parts();
        let has_to_read = aimed.aim(target);
        assert!(!aimed.valid());
        if has_to_read {
            aimed.will_need_aimed();
        }
        let (read, told) = file.take_parts();
        assert!(read.is_empty(), "aiming reads nothing");
        seek(&mut aimed, target);
        assert_eq!(key_at(&aimed), key_at(&plain), "{target:?}");
        let (read, _) = file.take_parts();
        assert_eq!(read.is_empty(), !has_to_read, "{target:?}");
        if let Some(first) = read.first() {
            assert!(is_within(first, &told[0]), "{target:?}");
            let asked = kept.take_asked();
            assert!(asked.windows(2).all(|two| two[0] != two[1]), "{asked:?}");
        }
        // Now the block is in memory: nothing is read, and the system need not be told.
        let mut again = TableCursor::new(table.clone(), READAHEAD).through(kept.clone());
        if key_at(&plain).is_some() && read.len() == 1 {
            assert!(!again.aim(target));
            seek(&mut again, target);
            assert!(file.take_parts().0.is_empty(), "{target:?}");
            assert_eq!(key_at(&again), key_at(&plain));
        }
    }
}

/// A seek that needs the block behind or before its own reads the blocks of a seek, and not the
/// window of a scan.
#[test]
fn a_seek_across_two_blocks_reads_two() {
    let (file, table) = table();
    let readahead = ReadAhead {
        seek: 1,
        next: 16,
        max: 16,
    };
    let mut longest = 0;
    for number in 0..RECORDS {
        for forward in [true, false] {
            let between = [&key(number)[..], b"x"].concat();
            let mut cursor = TableCursor::new(table.clone(), readahead);
            file.take_parts();
            match forward {
                true => cursor.seek(&between).unwrap(),
                false => cursor.seek_before(&key(number)).unwrap(),
            }
            let (read, told) = file.take_parts();
            longest = longest.max(read.len());
            assert!(
                read.iter().all(|part| part.end - part.start < 600),
                "{read:?}"
            );
            assert!(told.is_empty());
        }
    }
    assert_eq!(longest, 2);
}

/// A scan of a place where nobody was leaves its first block in memory, and the next scan the
/// blocks behind. The third scan reads nothing.
#[test]
fn what_is_offered_grows_where_others_come() {
    let (file, table) = table();
    let kept = Arc::new(Kept::default());
    let mut lens = Vec::new();
    for _ in 0..3 {
        let mut cursor = TableCursor::new(table.clone(), READAHEAD).through(kept.clone());
        file.take_reads();
        cursor.seek(&key(500)).unwrap();
        let mut blocks = 0;
        let mut last = cursor.value_block().0.bytes().as_ptr();
        while blocks < OFFERED_WHERE_KNOWN {
            cursor.next().unwrap();
            let at = cursor.value_block().0.bytes().as_ptr();
            blocks += usize::from(at != last);
            last = at;
        }
        lens.push((kept.len(), file.take_reads() > 0));
    }
    let all = OFFERED + OFFERED_WHERE_KNOWN;
    assert_eq!(lens, [(OFFERED, true), (all, true), (all, false)]);
    // However long a scan is, it leaves no more.
    let mut cursor = TableCursor::new(table, READAHEAD).through(kept.clone());
    cursor.seek_first().unwrap();
    while cursor.valid() {
        cursor.next().unwrap();
    }
    assert_eq!(kept.len(), all + OFFERED);
}

/// The blocks that reads and announcements reach: the first one, and the one behind the last.
fn reached(table: &Table, file: &MemFile) -> (usize, usize) {
    let (read, told) = file.take_parts();
    let all: Vec<Range<u64>> = read.into_iter().chain(told).collect();
    let begin = all.iter().map(|part| part.start).min().unwrap();
    let end = all.iter().map(|part| part.end).max().unwrap();
    let mut at = 0;
    let starts = (0..table.block_count()).map(|ordinal| {
        let start = at;
        at += table.stored_block_bytes(ordinal);
        start
    });
    let starts: Vec<u64> = starts.collect();
    (
        starts.partition_point(|&start| start <= begin) - 1,
        starts.partition_point(|&start| start < end),
    )
}

/// With limits nothing outside is read, and steps end where they would need a block outside.
#[test]
fn limits_bound_what_is_read() {
    let (file, table) = table();
    let (low, high) = (key(500), key(900));
    let readahead = ReadAhead {
        seek: 1,
        next: 4,
        max: 64,
    };
    let (first, last) = (table.first_block_at(&low), table.first_block_at(&high));
    for forward in [true, false] {
        let cursor = TableCursor::new(table.clone(), readahead);
        let mut cursor = cursor.within(Some(&low), Some(&high));
        match forward {
            true => cursor.seek(&low).unwrap(),
            false => cursor.seek_before(&high).unwrap(),
        }
        for _ in 500..899 {
            match forward {
                true => cursor.next().unwrap(),
                false => cursor.prev().unwrap(),
            }
        }
        let (begin, end) = reached(&table, &file);
        assert!(first <= begin && end <= last + 1, "{begin}..{end}");
        let mut beyond = 0;
        while cursor.valid() {
            match forward {
                true => cursor.next().unwrap(),
                false => cursor.prev().unwrap(),
            }
            beyond += 1;
        }
        // The rest of the block, and the move that leaves it.
        let rest = match forward {
            true => table.blocks_between(Some(&key(899)), Some(&key(899 + beyond - 1))),
            false => table.blocks_between(Some(&key(501 - beyond)), Some(&key(500))),
        };
        assert_eq!(rest, 1, "{beyond}");
        let (read, told) = file.take_parts();
        assert!(read.is_empty() && told.is_empty(), "{read:?} {told:?}");
    }
}

/// However far a cursor went, its windows are small again after a seek.
#[test]
fn windows_begin_anew_behind_a_seek() {
    let (file, table) = table();
    let mut cursor = TableCursor::new(table, READAHEAD);
    let mut reads = Vec::new();
    for _ in 0..2 {
        file.take_parts();
        cursor.seek(&key(100)).unwrap();
        for _ in 0..400 {
            cursor.next().unwrap();
        }
        let (read, _) = file.take_parts();
        reads.push(
            read.iter()
                .map(|part| part.end - part.start)
                .collect::<Vec<_>>(),
        );
    }
    assert!(
        reads[0].len() > 3 && reads[0][0] < reads[0][3],
        "{:?}",
        reads[0]
    );
    assert_eq!(reads[0], reads[1]);
}

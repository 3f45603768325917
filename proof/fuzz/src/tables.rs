//! Tables, and their parts: whole ones, data blocks, filters, and runs in a container.
//!
//! The examination of a table and its reader are two implementations, so each is judged by the
//! other. If an examination says that everything is sound, every way of reading finds exactly its
//! records. If a read fails, the examination has told of damage.

use crate::bytes::{Input, MemoryFile, check_error};
use evendb_storage::codec::hash_key;
use evendb_storage::filter::BloomFilter;
use evendb_storage::key_hash::FilterHash;
use evendb_storage::table::fuzzing::{AnyBlock, Row, reseal};
use evendb_storage::table::{
    Found, Table, TableCursor, TableDamage, TableVisitor, examine, identify_footer, lacks_for,
};
use evendb_storage::vfs::SimVfs;
use evendb_storage::{EntryRef, ErrorKind, Kind, TableId, Version};
use std::cmp::Reverse;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The id of every table that is fuzzed.
pub(crate) const ID: TableId = TableId(0x51);

/// The highest number of records that are compared: a short input may stand for a large number.
const RECORDS_MAX: usize = 2000;
/// The number of keys that are sought.
const SOUGHT: usize = 12;
/// Longer keys are not kept.
const KEY_MAX: usize = 4096;

/// A record in short: hash of the key, version, kind, hash of the value.
type Digest = (u64, Version, Kind, u64);

fn digest(entry: EntryRef<'_>) -> Digest {
    let (key, value) = (hash_key(entry.key), hash_key(entry.value));
    (key, entry.version, entry.kind, value)
}

/// The results of an examination.
#[derive(Default)]
struct Seen {
    digests: Vec<Digest>,
    keys: Vec<Vec<u8>>,
    damaged: bool,
    stopped: bool,
}

impl TableVisitor for Seen {
    fn entry(&mut self, _ordinal: usize, entry: EntryRef<'_>) -> ControlFlow<()> {
        if self.digests.len() == RECORDS_MAX {
            self.stopped = true;
            return ControlFlow::Break(());
        }
        if self.keys.len() < SOUGHT && entry.key.len() <= KEY_MAX {
            self.keys.push(entry.key.to_vec());
        }
        self.digests.push(digest(entry));
        ControlFlow::Continue(())
    }

    fn damage(&mut self, _damage: TableDamage) {
        self.damaged = true;
    }
}

/// A table. The first byte says whether checksums are corrected, and where in a file it lies.
pub fn table(data: &[u8]) {
    let mut input = Input(data);
    let form = input.byte();
    let mut bytes = input.0.to_vec();
    if form & 1 == 1 {
        reseal(&mut bytes, ID);
    }
    let (len, offset) = (bytes.len() as u64, u64::from(form >> 1 & 1) * 512);
    bytes.splice(0..0, std::iter::repeat_n(0xa5, offset as usize));
    check_table(MemoryFile(bytes), offset, len);
}

/// Corrects the checksums of the table with this id.
pub(crate) fn reseal_as(bytes: &mut [u8], id: u64) {
    reseal(bytes, TableId(id));
}

fn check_table(file: MemoryFile, offset: u64, len: u64) {
    let mut seen = Seen::default();
    let examined = examine(&file, offset, len, ID, &mut seen);
    assert_eq!(examined.damaged, seen.damaged, "damage is told");
    let footer = file.0.last_chunk::<{ evendb_storage::table::FOOTER_LEN }>();
    let identified = footer.and_then(|footer| identify_footer(footer));
    let lacks = lacks_for(&file, offset, len, ID).is_some();
    let table = match Table::open(Arc::new(file), offset, len, ID) {
        Ok(table) => Arc::new(table),
        Err(error) => {
            check_error(&error);
            // A table whose compression this build lacks is not opened, with any blocks.
            let is_lacking = lacks && error.kind() == ErrorKind::Unsupported;
            assert!(
                examined.damaged || is_lacking,
                "not told by an examination: {error}"
            );
            return;
        }
    };
    assert_eq!(identified, Some((ID, len)), "a table that opens");
    assert!(!lacks);
    let is_sound = !examined.damaged && !seen.stopped;
    let mut cursor = TableCursor::new(table.clone(), 8 << 10);
    let forward = read(&mut cursor, TableCursor::seek_first, TableCursor::next);
    let backward = read(&mut cursor, TableCursor::seek_last, TableCursor::prev);
    if is_sound {
        assert_eq!(
            forward.as_ref(),
            Some(&seen.digests),
            "read from the first on"
        );
        let turned = backward.map(|digests| digests.into_iter().rev().collect::<Vec<_>>());
        assert_eq!(
            turned.as_ref(),
            Some(&seen.digests),
            "read from the last on"
        );
    }
    seek(&table, &mut cursor, &seen, is_sound);
    name(&table, &mut cursor, &seen, is_sound);
    ask(&table, &seen.keys);
}

/// The keys that a keyed table names, and the newest record of each.
fn name(table: &Table, cursor: &mut TableCursor, seen: &Seen, is_sound: bool) {
    if !table.is_keyed() {
        return;
    }
    let mut key = Vec::new();
    for ordinal in 0..table.block_count().min(RECORDS_MAX) {
        table.key_of_block(ordinal, &mut key);
        match cursor.seek_block(ordinal, ordinal % 2 == 0) {
            Ok(()) => {
                assert_eq!(cursor.entry().key, key, "a block has the key that is named");
                let (hash, found) = (hash_key(&key), digest(cursor.entry()));
                let newest = seen.digests.iter().find(|digest| digest.0 == hash);
                assert!(!is_sound || newest == Some(&found), "the newest record");
                while matches!(cursor.next_in_block(), Ok(true)) {}
            }
            Err(error) => {
                assert!(!is_sound, "a sound table is read: {error}");
                check_error(&error);
            }
        }
    }
}

/// The records from one end on; `None` if reading fails.
fn read(
    cursor: &mut TableCursor,
    first: impl Fn(&mut TableCursor) -> evendb_storage::Result<()>,
    next: impl Fn(&mut TableCursor) -> evendb_storage::Result<()>,
) -> Option<Vec<Digest>> {
    let mut digests = Vec::new();
    let mut step = first(cursor);
    loop {
        if let Err(error) = step {
            check_error(&error);
            return None;
        }
        if !cursor.valid() || digests.len() == RECORDS_MAX {
            return Some(digests);
        }
        digests.push(digest(cursor.entry()));
        step = next(cursor);
    }
}

/// Whether a record that was found is this one.
fn is_found(found: &Found, digest: &Digest) -> bool {
    let value = &found.block.bytes()[found.value.clone()];
    (found.version, found.kind, hash_key(value)) == (digest.1, digest.2, digest.3)
}

/// Seeks and gets of keys that are there.
fn seek(table: &Arc<Table>, cursor: &mut TableCursor, seen: &Seen, is_sound: bool) {
    for key in &seen.keys {
        let hash = hash_key(key);
        let first = seen.digests.iter().position(|digest| digest.0 == hash);
        let newest = first.map(|at| seen.digests[at]);
        let found = table.get(key, Version::MAX);
        let sought = cursor.seek(key).map(|()| cursor.valid());
        if is_sound {
            let newest = newest.expect("it was seen");
            let found = found.expect("a sound table is read");
            assert!(
                found.is_some_and(|found| is_found(&found, &newest)),
                "a get of a key that is there"
            );
            assert_eq!(sought.ok(), Some(true), "a seek of a key that is there");
            assert_eq!(digest(cursor.entry()), newest, "a seek");
            assert!(
                table.may_contain(FilterHash::of(key)),
                "the filter knows all keys"
            );
            let before = cursor.seek_before(key).map(|()| cursor.valid());
            let at = first.unwrap_or_default();
            assert_eq!(before.ok(), Some(at > 0), "a seek to what lies before");
            if at > 0 {
                assert_eq!(digest(cursor.entry()), seen.digests[at - 1]);
            }
        } else {
            for error in [found.err(), sought.err()].into_iter().flatten() {
                check_error(&error);
            }
            if let Err(error) = cursor.seek_before(key) {
                check_error(&error);
            }
        }
    }
}

/// Questions that are answered without reading blocks.
fn ask(table: &Table, keys: &[Vec<u8>]) {
    let _ = (table.meta(), table.resident_bytes(), table.cuts(1000));
    let few = keys.iter().take(3);
    for low in few.map(Vec::as_slice).chain([&b""[..], b"\xff\xff"]) {
        let high = keys.last().map(Vec::as_slice);
        let share = table.share_between(low, high);
        assert!((0.0..=1.0).contains(&share), "{share}");
        let blocks = table.block_count();
        assert!(table.first_block_at(low) <= blocks);
        assert!(table.blocks_between(Some(low), high) <= blocks);
        table.stretch_end(Some(low), 500);
        table.stretch_begin(Some(low), 500);
        table.will_need_between(Some(low), high);
        table.will_need_from(Some(low), 2);
        table.will_need_before(Some(low), 2);
    }
}

fn rank(row: &Row) -> (&[u8], Reverse<Version>) {
    (&row.key, Reverse(row.version))
}

/// The bytes of a data block, not compressed.
pub fn block(data: &[u8]) {
    let Ok(block) = AnyBlock::parse(data) else {
        return;
    };
    let forward = block.forward();
    let backward = block.backward();
    let Ok(rows) = forward else {
        // The last interval alone may be valid.
        for key in [&b""[..], b"k", b"\xff"] {
            let _ = (block.seek(key), block.search(key, Version::MAX));
        }
        return;
    };
    let turned: Option<Vec<Row>> = backward.ok().map(|rows| rows.into_iter().rev().collect());
    assert_eq!(turned.as_ref(), Some(&rows), "the same from both ends");
    let is_ordered = rows.is_sorted_by(|left, right| rank(left) < rank(right));
    for row in rows.iter().take(40) {
        let (exact, newest) = (
            block.search(&row.key, row.version),
            block.search(&row.key, Version::MAX),
        );
        let sought = block.seek(&row.key);
        if is_ordered {
            let first = rows.iter().find(|other| other.key == row.key).cloned();
            assert_eq!(exact, Ok(Some(row.clone())), "a search for a version");
            assert_eq!(newest, Ok(first.clone()), "a search for the newest");
            assert_eq!(sought, Ok(first), "a seek");
        }
    }
    if is_ordered && let Some(last) = rows.last() {
        let behind = [&last.key[..], b"\0"].concat();
        assert_eq!(block.search(&behind, Version::MAX), Ok(None));
        assert_eq!(block.seek(&behind), Ok(None));
    }
}

/// A filter: stored bytes, or the hashes from which it is built.
pub fn filter(data: &[u8]) {
    let mut input = Input(data);
    let form = input.byte();
    if form & 1 == 0 {
        let Some(filter) = BloomFilter::decode(input.0) else {
            return;
        };
        let mut again = Vec::new();
        filter.encode(&mut again);
        assert_eq!(again, input.0, "one filter has one form");
        let asked = [0, 1, u64::MAX, hash_key(input.0)];
        let _ = asked.map(|hash| filter.may_contain(hash));
        return;
    }
    let bits = u32::from(form >> 1);
    let mut hashes = Vec::new();
    while !input.is_empty() {
        hashes.push(input.number());
    }
    let filter = BloomFilter::build(&hashes, bits);
    let mut stored = Vec::new();
    filter.encode(&mut stored);
    let back = BloomFilter::decode(&stored).expect("what was built is read back");
    for hash in hashes {
        assert!(filter.may_contain(hash), "a key that was put in");
        assert!(
            back.may_contain(hash),
            "a key that was put in and read back"
        );
    }
}

/// The log of a chunk: runs in one container, oldest first. For each of them,
/// its own answer is compared with that of the log's search.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let form = input.byte();
    let bloom = (form & 2 == 2).then(|| 1 + usize::from(form >> 4));
    let (mut container, mut places) = (Vec::new(), Vec::new());
    for number in 0..3 {
        let mut bytes = input.slice().to_vec();
        if bytes.is_empty() {
            continue;
        }
        let id = TableId(ID.0 + number);
        if form & 1 == 1 {
            reseal(&mut bytes, id);
        }
        places.push((container.len() as u64, bytes.len() as u64, id.0));
        container.extend_from_slice(&bytes);
        container.resize(container.len().next_multiple_of(512), 0);
    }
    check_runs(container, &places, bloom);
}

fn check_runs(container: Vec<u8>, places: &[(u64, u64, u64)], bloom: Option<usize>) {
    let file = Arc::new(MemoryFile(container));
    let vfs = Arc::new(SimVfs::new(1));
    let runs = match evendb::fuzzing::Runs::open(file.clone(), vfs, places, bloom) {
        Ok(runs) => runs,
        Err(error) => {
            let kinds = [
                evendb::ErrorKind::Corruption,
                evendb::ErrorKind::Unsupported,
            ];
            assert!(kinds.contains(&error.kind()), "{error}");
            return;
        }
    };
    assert_eq!(runs.fault(), None);
    let (mut tables, mut keys, mut is_sound) = (Vec::new(), Vec::new(), true);
    for &(offset, len, id) in places {
        let mut seen = Seen::default();
        examine(&*file, offset, len, TableId(id), &mut seen);
        is_sound &= !seen.damaged && !seen.stopped;
        keys.append(&mut seen.keys);
        let opened = Table::open(file.clone(), offset, len, TableId(id));
        tables.push(opened.expect("it was opened before"));
    }
    keys.push(b"a key that is nowhere".to_vec());
    for key in &keys {
        let found = runs.get(key, Version::MAX);
        if !is_sound {
            continue;
        }
        let newest = tables.iter().rev().find_map(|table| {
            let found = table.get(key, Version::MAX);
            found.expect("a sound table is read")
        });
        let found = found.expect("sound runs are read");
        let expected = newest.map(|found| {
            let value = found.block.bytes()[found.value].to_vec();
            (found.version, found.kind as u8, value)
        });
        assert_eq!(found, expected, "the newest run decides");
    }
}

use super::chain::{Chain, Links};
use super::level::{level_cursor, table_cursor};
use super::*;
use crate::tables::tests::{sim_dir, table_of};
use crate::tree::tests::guard;
use crate::tree::{Tree, TreeEdit};
use crate::types::Level;
use evendb_storage::table::{ReadAhead, Target};
use evendb_storage::vfs::{Fault, FaultKind, FaultOn, SimVfs};
use evendb_storage::{Kind, Version};
use proptest::prelude::*;
use std::cmp::Reverse;
use std::sync::Arc;

/// Key and version; the value is made from both.
type Record = (Vec<u8>, u64);

/// Sorted records in RAM: the simple cursor to compare with, and a source.
#[derive(Clone, Default)]
pub(crate) struct VecCursor {
    records: Arc<Vec<Record>>,
    at: Option<usize>,
}

pub(crate) fn in_order(records: &mut Vec<Record>) {
    records.sort_by(|a, b| (&a.0, Reverse(a.1)).cmp(&(&b.0, Reverse(b.1))));
    records.dedup();
}

impl VecCursor {
    pub(crate) fn new(mut records: Vec<Record>) -> VecCursor {
        in_order(&mut records);
        VecCursor {
            records: Arc::new(records),
            at: None,
        }
    }

    fn set(&mut self, at: Option<usize>) -> Result<()> {
        self.at = at.filter(|&at| at < self.records.len());
        Ok(())
    }

    fn lower_bound(&self, key: &[u8]) -> usize {
        self.records.partition_point(|record| *record.0 < *key)
    }
}

impl EntryCursor for VecCursor {
    fn valid(&self) -> bool {
        self.at.is_some()
    }
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.set(Some(self.lower_bound(key)))
    }
    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.set(self.lower_bound(key).checked_sub(1))
    }
    fn seek_first(&mut self) -> Result<()> {
        self.set(Some(0))
    }
    fn seek_last(&mut self) -> Result<()> {
        self.set(self.records.len().checked_sub(1))
    }
    fn next(&mut self) -> Result<()> {
        self.set(self.at.map(|at| at + 1))
    }
    fn prev(&mut self) -> Result<()> {
        self.set(self.at.and_then(|at| at.checked_sub(1)))
    }
    fn entry(&self) -> EntryRef<'_> {
        let (key, version) = &self.records[self.at.expect("entry of no record")];
        EntryRef {
            key,
            version: Version(*version),
            kind: Kind::Put,
            value: key,
        }
    }
}

struct VecLinks(Vec<Vec<Record>>);

impl Links for VecLinks {
    fn count(&self) -> usize {
        self.0.len()
    }
    fn find(&self, key: &[u8]) -> usize {
        // An empty link has no limit. As with guards, its neighbours find it.
        let has = |link: &Vec<Record>| link.last().is_some_and(|last| *last.0 >= *key);
        self.0.iter().position(has).unwrap_or(self.0.len())
    }
    fn find_below(&self, key: &[u8]) -> Option<usize> {
        let has = |link: &Vec<Record>| link.first().is_some_and(|first| *first.0 < *key);
        self.0.iter().rposition(has)
    }
    fn open(&self, at: usize) -> Result<Option<Box<dyn EntryCursor>>> {
        let records = self.0[at].clone();
        Ok((!records.is_empty()).then(|| Box::new(VecCursor::new(records)) as Box<_>))
    }
}

#[derive(Clone, Copy, Debug)]
enum Move {
    Seek(u8),
    SeekBefore(u8),
    First,
    Last,
    Next,
    Prev,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        2 => (0u8..30).prop_map(Move::Seek),
        2 => (0u8..30).prop_map(Move::SeekBefore),
        1 => Just(Move::First),
        1 => Just(Move::Last),
        8 => Just(Move::Next),
        8 => Just(Move::Prev),
    ];
    prop::collection::vec(one, 1..80)
}

fn key(number: u8) -> Vec<u8> {
    // The least key is the empty one.
    match number {
        0 => Vec::new(),
        _ => format!("{number:02}").into_bytes(),
    }
}

fn step(cursor: &mut dyn EntryCursor, step: Move) -> Result<()> {
    match step {
        Move::Seek(at) => cursor.seek(&key(at)),
        Move::SeekBefore(at) => cursor.seek_before(&key(at)),
        Move::First => cursor.seek_first(),
        Move::Last => cursor.seek_last(),
        Move::Next => cursor.next(),
        Move::Prev => cursor.prev(),
    }
}

/// Aims at the place of a move, if the move is a seek.
fn aim(cursor: &mut dyn EntryCursor, step: Move) -> Result<()> {
    let mut reads = Reads::default();
    match step {
        Move::Seek(at) => cursor.aim(Target::From(&key(at)), &mut reads),
        Move::SeekBefore(at) => cursor.aim(Target::Before(&key(at)), &mut reads),
        Move::First => cursor.aim(Target::First, &mut reads),
        Move::Last => cursor.aim(Target::Last, &mut reads),
        Move::Next | Move::Prev => Ok(()),
    }
}

fn place(cursor: &dyn EntryCursor) -> Option<Record> {
    cursor.valid().then(|| {
        let entry = cursor.entry();
        (entry.key.to_vec(), entry.version.0)
    })
}

/// Moves both cursors alike, and expects both on the same record. Every second seek is aimed.
fn walk(cursor: &mut dyn EntryCursor, all: Vec<Record>, moves: &[Move]) {
    let mut plain = VecCursor::new(all);
    for (number, &one) in moves.iter().enumerate() {
        if number % 2 == 0 {
            aim(cursor, one).unwrap();
        }
        step(cursor, one).unwrap();
        step(&mut plain, one).unwrap();
        let (found, expected) = (place(cursor), place(&plain));
        assert_eq!(found, expected, "move {number} of {moves:?}");
    }
}

/// Records of numbered keys; each version occurs once.
fn records(numbers: &[(u8, u8)], from: u64) -> Vec<Record> {
    let versions = numbers.iter().zip(from..);
    versions
        .map(|((at, _), version)| (key(*at), version))
        .collect()
}

fn boxed(cursor: impl EntryCursor + 'static) -> Box<dyn EntryCursor> {
    Box::new(cursor)
}

const READAHEAD: ReadAhead = ReadAhead {
    seek: 1,
    next: 1,
    max: 2,
};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_merge_is_its_records_sorted(
        numbers in prop::collection::vec((0u8..25, 0u8..6), 0..60),
        sources in 0usize..6,
        moves in moves(),
    ) {
        let all = records(&numbers, 1);
        let mut of_source = vec![Vec::new(); sources];
        let mut there = Vec::new();
        for (record, (_, source)) in all.into_iter().zip(&numbers) {
            if let Some(own) = of_source.get_mut(usize::from(*source)) {
                own.push(record.clone());
                there.push(record);
            }
        }
        let sources = of_source.into_iter().map(|own| boxed(VecCursor::new(own))).collect();
        walk(&mut MergeCursor::new(sources), there, &moves);
    }

    #[test]
    fn a_chain_is_its_records(
        numbers in prop::collection::vec((0u8..25, 0u8..1), 0..60),
        cuts in prop::collection::vec(0u8..26, 0..5),
        moves in moves(),
    ) {
        let all = records(&numbers, 1);
        let mut links = vec![Vec::new(); cuts.len() + 1];
        for record in &all {
            links[cuts.iter().filter(|&&cut| key(cut) <= record.0).count()].push(record.clone());
        }
        for link in &mut links {
            in_order(link);
        }
        walk(&mut Chain::new(VecLinks(links)), all, &moves);
    }

    /// Guards, runs of several tables, versions of a key in several tables.
    #[test]
    fn a_level_is_the_records_of_its_tables(
        numbers in prop::collection::vec((0u8..25, 0u8..4), 1..80),
        guards in prop::collection::vec(1u8..26, 0..5),
        table_keys in 1usize..6,
        moves in moves(),
    ) {
        let vfs = SimVfs::new(1);
        let dir = sim_dir(&vfs);
        let all = records(&numbers, 1);
        let mut edit = TreeEdit::default();
        for cut in &guards {
            edit.guards.push(guard(std::str::from_utf8(&key(*cut)).unwrap(), 6));
        }
        let guard_of = |record: &Record| guards.iter().filter(|&&cut| key(cut) <= record.0).count();
        let mut number = 0;
        for age in 0u8..4 {
            let own = all.iter().zip(&numbers).filter(|(_, (_, own))| *own == age);
            let mut own: Vec<Record> = own.map(|(record, _)| record.clone()).collect();
            in_order(&mut own);
            let groups: Vec<&[Record]> = own.chunk_by(|a, b| a.0 == b.0).collect();
            for tables in groups.chunk_by(|a, b| guard_of(&a[0]) == guard_of(&b[0])) {
                for table in tables.chunks(table_keys) {
                    let table = table.concat();
                    let entries: Vec<_> = table.iter().map(|(key, version)| (&key[..], *version, Kind::Put, &key[..])).collect();
                    number += 1;
                    edit.added.push((Level(6), table_of(&dir, number, u64::from(age), &entries)));
                }
            }
        }
        let mut tree = Tree::default();
        tree.apply(&edit).unwrap();
        walk(&mut *level_cursor(Arc::new(tree), Level(6), READAHEAD), all, &moves);
    }
}

/// A memory table gets records while a cursor is on it.
#[test]
fn records_that_come_while_a_merge_turns_do_not_move_it_back() {
    struct Growing(VecCursor, Vec<Record>);
    impl Growing {
        fn grow(&mut self) {
            let at = place(&self.0);
            let mut all = (*self.0.records).clone();
            all.append(&mut self.1);
            self.0 = VecCursor::new(all);
            self.0.at = at.and_then(|at| self.0.records.iter().position(|own| *own == at));
        }
    }
    impl EntryCursor for Growing {
        fn valid(&self) -> bool {
            self.0.valid()
        }
        fn seek(&mut self, key: &[u8]) -> Result<()> {
            self.0.seek(key)
        }
        fn seek_before(&mut self, key: &[u8]) -> Result<()> {
            self.0.seek_before(key)
        }
        fn seek_first(&mut self) -> Result<()> {
            self.grow();
            self.0.seek_first()
        }
        fn seek_last(&mut self) -> Result<()> {
            self.grow();
            self.0.seek_last()
        }
        fn next(&mut self) -> Result<()> {
            self.grow();
            self.0.next()
        }
        fn prev(&mut self) -> Result<()> {
            self.grow();
            self.0.prev()
        }
        fn entry(&self) -> EntryRef<'_> {
            self.0.entry()
        }
    }
    let merge = |own: &[u8], new: &[u8], other: &[u8]| {
        let of = |keys: &[u8], version| keys.iter().map(|at| (key(*at), version)).collect();
        let growing = Growing(VecCursor::new(of(own, 1)), of(new, 2));
        let other = VecCursor::new(of(other, 3));
        MergeCursor::new(vec![boxed(growing), boxed(other)])
    };
    let at = |cursor: &MergeCursor| place(cursor).map(|record| record.0);
    // The cursor is on 5 of the other source, backward; 3 and 4 are inserted.
    let mut cursor = merge(&[2, 8], &[3, 4], &[5, 9]);
    cursor.seek_before(&key(6)).unwrap();
    assert_eq!(at(&cursor), Some(key(5)));
    cursor.next().unwrap();
    assert_eq!(at(&cursor), Some(key(8)));
    // The cursor is on 5, forward; 6 and 7 are inserted, and then the source is at its end.
    let mut cursor = merge(&[2], &[6, 7], &[5, 9]);
    cursor.seek(&key(5)).unwrap();
    cursor.prev().unwrap();
    assert_eq!(at(&cursor), Some(key(2)));
}

#[test]
fn a_cursor_opens_the_tables_that_it_gets_to() {
    let vfs = SimVfs::new(1);
    let dir = sim_dir(&vfs);
    let tables = [b"a", b"k", b"t"].map(|key| (key, Kind::Put));
    let tables: Vec<_> = tables
        .iter()
        .zip(1..)
        .map(|((key, kind), number)| table_of(&dir, number, number, &[(&key[..], 1, *kind, b"")]))
        .collect();
    let mut tree = Tree::default();
    tree.apply(&TreeEdit {
        added: tables
            .iter()
            .map(|table| (Level(6), table.clone()))
            .collect(),
        guards: vec![guard("k", 6), guard("t", 6)],
        ..TreeEdit::default()
    })
    .unwrap();
    let mut cursor = level_cursor(Arc::new(tree), Level(6), READAHEAD);
    // The file of the first table is gone, and nobody asks for it.
    vfs.remove_file(&tables[0].path());
    cursor.seek(b"b").unwrap();
    assert_eq!(place(&*cursor), Some((b"k".to_vec(), 1)));
    cursor.next().unwrap();
    assert_eq!(place(&*cursor), Some((b"t".to_vec(), 1)));
    cursor.prev().unwrap();
    assert!(cursor.prev().is_err() && !cursor.valid());
    assert!(cursor.seek_first().is_err() && !cursor.valid());
    cursor.seek_last().unwrap();
    assert_eq!(place(&*cursor), Some((b"t".to_vec(), 1)));
}

/// The first block is read at once. The system is told about all other blocks before, and about no
/// more.
#[test]
fn an_aimed_merge_has_told_of_all_reads_but_the_first() {
    // Too long to be kept whole; each record is a block of its own.
    let value = vec![7; 5000];
    let keys: Vec<Vec<u8>> = (1..20).map(key).collect();
    let entries: Vec<_> = keys
        .iter()
        .map(|key| (&key[..], 1, Kind::Put, &value[..]))
        .collect();
    let targets = [Target::From(b"05"), Target::First, Target::Last];
    for (sources, target) in (1..4).flat_map(|sources| targets.map(|target| (sources, target))) {
        let vfs = SimVfs::new(1);
        let dir = sim_dir(&vfs);
        let tables = (0..sources).map(|number| table_of(&dir, number, number, &entries));
        let opened = tables.inspect(|table| drop(table.open().unwrap()));
        let cursors = opened.map(|table| table_cursor(table, READAHEAD)).collect();
        let mut cursor = MergeCursor::new(cursors);
        let before = vfs.read_ahead();
        cursor.aim(target, &mut Reads::default()).unwrap();
        let told = vfs.read_ahead().asked - before.asked;
        assert_eq!(vfs.read_ahead().read, before.read);
        assert_eq!(told / 5000, sources - 1, "{target:?}");
        cursor.seek_to(target).unwrap();
        assert!(cursor.valid());
        let after = vfs.read_ahead();
        assert_eq!(after.asked - before.asked, told);
        assert_eq!(after.read_as_asked - before.read_as_asked, told);
        assert_eq!((after.read - before.read) / 5000, sources);
    }
}

#[test]
fn a_failure_leaves_a_merge_on_no_record_and_a_seek_goes_on() {
    let vfs = SimVfs::new(1);
    let dir = sim_dir(&vfs);
    // Too long to be kept whole.
    let value = vec![7; 5000];
    let keys: Vec<Vec<u8>> = (1..20).map(key).collect();
    let of = |number: u64, from: usize| {
        let own = keys.iter().skip(from).step_by(2);
        let entries: Vec<_> = own
            .map(|key| (&key[..], number, Kind::Put, &value[..]))
            .collect();
        table_of(&dir, number, number, &entries)
    };
    let sources = vec![
        table_cursor(of(1, 0), READAHEAD),
        table_cursor(of(2, 1), READAHEAD),
    ];
    let mut cursor = MergeCursor::new(sources);
    cursor.seek(&key(5)).unwrap();
    vfs.inject(Fault {
        at: 0,
        on: FaultOn::Read,
        kind: FaultKind::Eio,
        sticky: true,
        path_contains: None,
    });
    let failed = (0..8).find_map(|_| cursor.next().err());
    assert!(failed.is_some() && !cursor.valid());
    cursor.next().unwrap();
    assert!(!cursor.valid());
    vfs.clear_faults();
    cursor.seek(&key(7)).unwrap();
    assert_eq!(place(&cursor), Some((key(7), 1)));
    cursor.prev().unwrap();
    assert_eq!(place(&cursor), Some((key(6), 2)));
}

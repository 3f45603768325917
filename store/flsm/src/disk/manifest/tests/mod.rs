mod golden;

use super::change::Change;
use super::current;
use super::reader::load;
use super::state::{Edit, State};
use super::writer::{Manifest, draw_guard_secret};
use crate::files::{FileName, FileNumbers};
use crate::options::TableLimits;
use crate::tables::tests::table_of;
use crate::tables::{TableDir, TableFile};
use crate::tree::tests::guard;
use crate::tree::{GuardChange, Moved, TreeEdit};
use crate::types::{Age, FileNumber, KeyspaceId, Level};
use evendb_storage::framed_log::FramedLogWriter;
use evendb_storage::vfs::{CrashMode, Fault, FaultKind, FaultOn, SimVfs, Vfs};
use evendb_storage::{ErrorKind, Kind, TableId, Version};
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/db";
const KEYSPACE: KeyspaceId = KeyspaceId(0);

struct Database {
    vfs: SimVfs,
    place: Arc<TableDir>,
    numbers: Arc<FileNumbers>,
    manifest: Manifest,
}

fn place_of(vfs: &SimVfs) -> Arc<TableDir> {
    TableDir::new(Arc::new(vfs.clone()), Path::new(DIR), TableLimits::NONE)
}

impl Database {
    fn begin(vfs: &SimVfs, state: State) -> evendb_storage::Result<Database> {
        let numbers = Arc::new(FileNumbers::new(FileNumber(1)));
        let shared = Arc::new(vfs.clone());
        let manifest = Manifest::begin(shared, Path::new(DIR), numbers.clone(), state)?;
        Ok(Database {
            vfs: vfs.clone(),
            place: place_of(vfs),
            numbers,
            manifest,
        })
    }

    fn create(vfs: &SimVfs) -> Database {
        vfs.create_dir_all(Path::new(DIR)).unwrap();
        let mut database = Database::begin(vfs, State::new(place_of(vfs))).unwrap();
        let edit = Edit {
            created: vec![(KEYSPACE, "default".to_owned())],
            ..Edit::default()
        };
        database.manifest.commit(edit).unwrap();
        database
    }

    fn open(vfs: &SimVfs) -> Database {
        let state = load(vfs, Path::new(DIR), &place_of(vfs)).unwrap();
        Database::begin(vfs, state).unwrap()
    }

    fn table(&self, key: &[u8]) -> Arc<TableFile> {
        let number = self.numbers.take().0;
        table_of(
            &self.place,
            number,
            number,
            &[(key, number, Kind::Put, b"")],
        )
    }

    fn commit(&mut self, change: TreeEdit) -> evendb_storage::Result<()> {
        self.manifest.commit(Edit {
            trees: vec![(KEYSPACE, change)],
            ..Edit::default()
        })
    }

    fn files(&self) -> Vec<String> {
        self.vfs.file_names(Path::new(DIR))
    }
}

fn add(level: u8, table: &Arc<TableFile>) -> TreeEdit {
    TreeEdit {
        added: vec![(Level(level), table.clone())],
        ..TreeEdit::default()
    }
}

fn remove(level: u8, table: &Arc<TableFile>) -> TreeEdit {
    TreeEdit {
        removed: vec![(Level(level), table.clone())],
        ..TreeEdit::default()
    }
}

/// Moves the table `old` down, where it is `new`.
fn down(from: u8, old: &Arc<TableFile>, new: &TableFile) -> TreeEdit {
    let moved = Moved {
        from: Level(from),
        to: Level(from + 1),
        old: old.clone(),
        new: new.with_age(Age(7)),
    };
    TreeEdit {
        moved: vec![moved],
        ..TreeEdit::default()
    }
}

/// Everything that a state says, except its next file number, which changes with each opening, and
/// its secret.
fn said(state: &State) -> String {
    let mut text = String::new();
    for (id, keyspace) in state.keyspaces() {
        text += &format!("{id:?} {}:", keyspace.name);
        for (level, table) in keyspace.tree.tables() {
            text += &format!(" {}@{}({})", table.number.0, level.0, table.age.0);
        }
        for (key, level) in keyspace.tree.guard_keys() {
            text += &format!(" {}+{}", String::from_utf8_lossy(&key), level.0);
        }
        text += "; ";
    }
    let State {
        next_keyspace,
        last_version,
        log_number,
        ..
    } = state;
    text + &format!("{next_keyspace:?} {last_version:?} {log_number:?}")
}

#[test]
fn what_was_committed_is_there_after_opening() {
    let vfs = SimVfs::new(1);
    let mut database = Database::create(&vfs);
    let tables: Vec<_> = [b"a", b"b", b"c"].map(|key| database.table(key)).to_vec();
    database
        .commit(TreeEdit {
            guards: vec![guard("b", 3), guard("c", 6)],
            ..add(0, &tables[0])
        })
        .unwrap();
    database.commit(add(5, &tables[1])).unwrap();
    database
        .commit(TreeEdit {
            removed: vec![(Level(0), tables[0].clone())],
            guards: vec![GuardChange {
                from: None,
                ..guard("c", 1)
            }],
            ..add(6, &tables[2])
        })
        .unwrap();
    let edit = Edit {
        created: vec![(KeyspaceId(4), "other".to_owned())],
        last_version: Some(Version(77)),
        log_number: Some(FileNumber(5)),
        ..Edit::default()
    };
    database.manifest.commit(edit).unwrap();
    let expected = "KeyspaceId(0) default: 3@5(3) 4@6(4) b+3; KeyspaceId(4) other:; KeyspaceId(5) v0.77 FileNumber(5)";
    assert_eq!(said(database.manifest.state()), expected);
    for mode in [CrashMode::Process, CrashMode::PowerLossNothing] {
        let again = Database::open(&vfs.fork_state().crash(mode));
        assert_eq!(said(again.manifest.state()), expected);
        // And once more: the new manifest has everything, too.
        let again = Database::open(&again.vfs.crash(mode));
        assert_eq!(said(again.manifest.state()), expected);
    }
}

#[test]
fn a_table_that_no_edit_names_any_more_goes_when_no_tree_has_it() {
    let vfs = SimVfs::new(1);
    let mut database = Database::create(&vfs);
    let table = database.table(b"a");
    database.commit(add(6, &table)).unwrap();
    let shown = database.manifest.state().keyspaces()[&KEYSPACE]
        .tree
        .clone();
    database.commit(remove(6, &table)).unwrap();
    drop(table);
    assert!(database.files().contains(&"TABLE-000002".to_owned()));
    drop(shown);
    assert_eq!(database.files(), ["CURRENT", "MANIFEST-000001"]);
}

#[test]
fn a_moved_table_keeps_its_file() {
    let vfs = SimVfs::new(1);
    let mut database = Database::create(&vfs);
    let table = database.table(b"a");
    database.commit(add(5, &table)).unwrap();
    let edit = down(5, &table, &table);
    database.commit(edit.clone()).unwrap();
    let expected = "KeyspaceId(0) default: 2@6(7); KeyspaceId(1) v0.0 FileNumber(0)";
    assert_eq!(said(database.manifest.state()), expected);
    assert!(database.commit(edit).is_err());
    assert_eq!(said(Database::open(&vfs).manifest.state()), expected);
    let state = load(&vfs, Path::new(DIR), &place_of(&vfs)).unwrap();
    for (_, table) in state.keyspaces()[&KEYSPACE].tree.tables() {
        table.open().unwrap().verify().unwrap();
    }
}

#[test]
fn a_dropped_keyspace_goes_with_its_tables_and_its_id_does_not_come_back() {
    let vfs = SimVfs::new(1);
    let mut database = Database::create(&vfs);
    let table = database.table(b"a");
    database.commit(add(6, &table)).unwrap();
    drop(table);
    let edit = Edit {
        dropped: vec![KEYSPACE],
        ..Edit::default()
    };
    database.manifest.commit(edit).unwrap();
    assert_eq!(database.files(), ["CURRENT", "MANIFEST-000001"]);
    let mut again = Database::open(&vfs);
    let edit = Edit {
        created: vec![(KEYSPACE, "again".to_owned())],
        ..Edit::default()
    };
    assert!(again.manifest.commit(edit).is_err());
    assert_eq!(again.manifest.state().next_keyspace, KeyspaceId(1));
}

#[test]
fn an_edit_that_contradicts_the_state_is_refused_and_nothing_is_written() {
    let vfs = SimVfs::new(1);
    let mut database = Database::create(&vfs);
    let (there, other) = (database.table(b"a"), database.table(b"b"));
    database.commit(add(5, &there)).unwrap();
    let before = said(database.manifest.state());
    let drop_it = Edit {
        dropped: vec![KEYSPACE],
        ..Edit::default()
    };
    let of = |keyspace, change: TreeEdit| Edit {
        trees: vec![(keyspace, change)],
        ..Edit::default()
    };
    let both = |first: TreeEdit, then: TreeEdit| TreeEdit {
        removed: [first.removed, then.removed].concat(),
        moved: [first.moved, then.moved].concat(),
        ..TreeEdit::default()
    };
    let goes = || remove(5, &there);
    let refused = [
        of(KEYSPACE, both(goes(), goes())),
        of(KEYSPACE, both(goes(), down(5, &there, &there))),
        of(
            KEYSPACE,
            both(down(5, &there, &there), down(5, &there, &there)),
        ),
        of(KEYSPACE, down(5, &other, &other)),
        of(KEYSPACE, down(4, &there, &there)),
        of(KEYSPACE, down(5, &there, &other)),
        Edit {
            created: vec![(KeyspaceId(1), String::new())],
            ..of(KeyspaceId(1), goes())
        },
        of(KEYSPACE, remove(5, &other)),
        of(KEYSPACE, remove(6, &there)),
        of(KEYSPACE, add(6, &there)),
        of(KeyspaceId(1), add(6, &other)),
        Edit {
            trees: vec![(KEYSPACE, add(6, &other)), (KEYSPACE, TreeEdit::default())],
            ..Edit::default()
        },
        Edit {
            dropped: vec![KEYSPACE, KEYSPACE],
            ..Edit::default()
        },
        Edit {
            trees: vec![(KEYSPACE, add(6, &other))],
            ..drop_it
        },
        Edit {
            created: vec![
                (KeyspaceId(1), String::new()),
                (KeyspaceId(1), String::new()),
            ],
            ..Edit::default()
        },
    ];
    for edit in refused {
        let text = format!("{edit:?}");
        assert!(database.manifest.commit(edit).is_err(), "{text}");
        assert_eq!(said(database.manifest.state()), before);
    }
    assert_eq!(said(Database::open(&vfs).manifest.state()), before);
    // The files of the refused tables are removed, and no others.
    drop((there, other));
    let tables: Vec<_> = database
        .files()
        .into_iter()
        .filter(|name| name.starts_with("TABLE"))
        .collect();
    assert_eq!(tables, ["TABLE-000002"]);
}

#[test]
fn a_manifest_that_grows_long_is_begun_anew() {
    let vfs = SimVfs::new(1);
    let mut database = Database::create(&vfs);
    let key = "k".repeat(60_000);
    let mut long = 0;
    while database.manifest.needs(FileName::Manifest(FileNumber(1))) {
        let from = [None, Some(Level(6))][long % 2];
        let change = GuardChange {
            from,
            ..guard(&key, 1)
        };
        let guards = vec![change];
        database
            .commit(TreeEdit {
                guards,
                ..TreeEdit::default()
            })
            .unwrap();
        long += 1;
        assert!(long < 30);
    }
    assert_eq!(database.files(), ["CURRENT", "MANIFEST-000002"]);
    let said_before = said(database.manifest.state());
    assert_eq!(said(Database::open(&vfs).manifest.state()), said_before);
}

/// At every operation: a crash leaves the committed edits, or these and the current edit.
#[test]
fn a_crash_anywhere_leaves_the_last_edits_whole() {
    let run = |vfs: &SimVfs| -> Vec<String> {
        let mut database = Database::open(vfs);
        let mut states = vec![said(database.manifest.state())];
        for key in [b"a", b"b", b"c"] {
            let numbers = database.numbers.take().0;
            let records = [(&key[..], numbers, Kind::Put, &b""[..])];
            // No tables can be made after the simulation has stopped the machine.
            if database.vfs.crashed() {
                break;
            }
            let table = table_of(&database.place, numbers, numbers, &records);
            if database.commit(add(0, &table)).is_err() {
                break;
            }
            states.push(said(database.manifest.state()));
        }
        states
    };
    let fresh = SimVfs::new(3);
    drop(Database::create(&fresh));
    let all = run(&fresh.fork_state());
    assert_eq!(all.len(), 4);
    let (mut crashes, mut found_states) = (0, std::collections::HashSet::new());
    for op in 0..200 {
        let vfs = fresh.fork_state();
        let start = vfs.op_count();
        vfs.set_crash_at(start + op);
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&vfs)));
        if !vfs.crashed() {
            break;
        }
        crashes += 1;
        // If it panicked, an opening or the making of a table was cut short.
        let done = ran.map_or(0, |states| states.len().saturating_sub(1));
        for seed in 0..6 {
            let after = vfs.fork_state().crash(CrashMode::PowerLossRandom(seed));
            let state = load(&after, Path::new(DIR), &place_of(&after)).unwrap();
            let found = all.iter().position(|known| *known == said(&state));
            let found = found.expect("a state that was never committed");
            assert!(found >= done, "op {op}: {found} of {done} edits");
            found_states.insert(found);
            for (_, table) in state.keyspaces()[&KEYSPACE].tree.tables() {
                table.open().unwrap().verify().unwrap();
            }
        }
    }
    assert!(crashes > 15 && found_states.len() == 4);
}

#[test]
fn after_a_failure_no_edit_is_taken() {
    for (on, path) in [(FaultOn::Sync, "MANIFEST"), (FaultOn::Change, DIR)] {
        let vfs = SimVfs::new(1);
        let mut database = Database::create(&vfs);
        let table = database.table(b"a");
        vfs.inject(Fault {
            at: 0,
            on,
            kind: FaultKind::Eio,
            sticky: false,
            path_contains: Some(path.to_owned()),
        });
        assert!(database.commit(add(0, &table)).is_err());
        vfs.clear_faults();
        assert!(database.commit(add(0, &table)).is_err());
        assert!(!database.manifest.state().has_table(table.number));
        let mut again = Database::open(&vfs);
        let table = again.table(b"b");
        again.commit(add(0, &table)).unwrap();
    }
}

#[test]
fn numbers_of_leftovers_are_not_used_again() {
    let vfs = SimVfs::new(1);
    drop(Database::create(&vfs));
    for name in ["MANIFEST-000002", "TABLE-000009", "CURRENT.tmp"] {
        vfs.write_file(&Path::new(DIR).join(name), Vec::new());
    }
    let database = Database::open(&vfs);
    assert!(database.manifest.needs(FileName::Manifest(FileNumber(10))));
    for (name, needed) in [
        (FileName::Current, true),
        (FileName::Lock, true),
        (FileName::Ballast, true),
        (FileName::CurrentUnfinished, false),
        (FileName::Manifest(FileNumber(2)), false),
        (FileName::Table(TableId(9)), false),
        (FileName::Log(FileNumber(0)), true),
    ] {
        assert_eq!(database.manifest.needs(name), needed, "{name:?}");
    }
}

fn refusal(vfs: &SimVfs) -> evendb_storage::Error {
    load(vfs, Path::new(DIR), &place_of(vfs)).unwrap_err()
}

#[test]
fn damage_and_foreign_manifests_are_told() {
    let vfs = SimVfs::new(1);
    let mut database = Database::create(&vfs);
    let path = FileName::Manifest(FileNumber(1)).path(Path::new(DIR));
    let table = database.table(b"a");
    database.commit(add(0, &table)).unwrap();
    let bytes = vfs.read_file(&path);
    // Damages each byte up to the length that CURRENT confirms, and each byte of an edit that
    // another one follows. The bytes behind are reserved room.
    let used = bytes.iter().rposition(|&byte| byte != 0).unwrap();
    let last = used - 20;
    for at in (0..last).step_by(3) {
        let mut bad = bytes.clone();
        bad[at] ^= 0x10;
        vfs.write_file(&path, bad);
        let found = load(&vfs, Path::new(DIR), &place_of(&vfs));
        let is_last_edit = found.is_ok_and(|state| !state.has_table(table.number));
        let told = is_last_edit
            || matches!(
                refusal(&vfs).kind(),
                ErrorKind::Corruption | ErrorKind::Unsupported
            );
        assert!(told, "byte {at}");
    }
    vfs.remove_file(&path);
    assert_eq!(refusal(&vfs).kind(), ErrorKind::Corruption);
    let write = |payloads: &[&[u8]]| {
        vfs.write_file(&path, Vec::new());
        let file = vfs.open(&path, true).unwrap();
        let mut log = FramedLogWriter::create(file, 1).unwrap();
        for payload in payloads {
            log.append(payload).unwrap();
        }
        let current = current::Current {
            manifest: FileNumber(1),
            verified: log.end(),
        };
        current::write_unfinished(&vfs, Path::new(DIR), current).unwrap();
        current::put_in_force(&vfs, Path::new(DIR)).unwrap();
    };
    let format = b"\x01\x04flsm\x01";
    for (payloads, kind) in [
        (&[&b"\x01\x04even\x01"[..]][..], ErrorKind::Unsupported),
        (&[b"\x01\x04flsm\x02"], ErrorKind::Unsupported),
        (&[format, b"\x63"], ErrorKind::Unsupported),
        (&[b"\x04\x09"], ErrorKind::Corruption),
        (&[format, format], ErrorKind::Corruption),
        (&[format, b"\x09\x00\x05"], ErrorKind::Corruption),
        (&[format, b"\x07"], ErrorKind::Corruption),
        (&[format, b"\x07\x09", b"\x07\x08"], ErrorKind::Corruption),
        (&[format, b"\x0c\x05\x0c\x05"], ErrorKind::Corruption),
        (&[format, b"\x0c\x05", b"\x0c\x05"], ErrorKind::Corruption),
        (&[format, b"\x0c\x05", b"\x0c\x06"], ErrorKind::Corruption),
        (&[], ErrorKind::Corruption),
    ] {
        write(payloads);
        assert_eq!(refusal(&vfs).kind(), kind, "{payloads:?}");
    }
    write(&[format]);
    assert!(load(&vfs, Path::new(DIR), &place_of(&vfs)).is_ok());
}

#[test]
fn two_secrets_of_guards_that_are_drawn_differ_and_tests_have_always_the_same() {
    let [one, other] = [(), ()].map(|()| draw_guard_secret(false).unwrap());
    assert_ne!(one, other);
    let [one, other] = [(), ()].map(|()| draw_guard_secret(true).unwrap());
    assert_eq!(one, other);
}

#[test]
fn a_database_of_an_older_build_gets_a_secret_of_guards_and_keeps_it() {
    let vfs = SimVfs::new(1);
    let mut database = Database::create(&vfs);
    assert!(database.manifest.state().guard_secret.is_some());
    let second = Edit {
        guard_secret: Some(5),
        ..Edit::default()
    };
    assert!(database.manifest.commit(second).is_err());
    let with_secret = |guard_secret| {
        let mut state = State::new(place_of(&vfs));
        state.guard_secret = guard_secret;
        state
    };
    let older = with_secret(None);
    let mut changes = older.to_changes().into_iter();
    assert!(!changes.any(|change| matches!(change, Change::GuardSecret(_))));
    let drawn = Database::begin(&vfs, older).unwrap();
    assert!(drawn.manifest.state().guard_secret.is_some());
    // This is not the secret that tests draw.
    let kept = Some(u64::MAX - 7);
    let mut database = Database::begin(&vfs, with_secret(kept)).unwrap();
    assert_eq!(database.manifest.state().guard_secret, kept);
    database.manifest.rotate().unwrap();
    assert_eq!(database.manifest.state().guard_secret, kept);
    let database = Database::open(&vfs);
    assert_eq!(database.manifest.state().guard_secret, kept);
}

/// Damage below the length that `CURRENT` confirms is not taken for the end: these bytes were
/// synced before.
#[test]
fn damage_below_the_verified_length_is_no_shorter_history() {
    let vfs = SimVfs::new(1);
    vfs.create_dir_all(Path::new(DIR)).unwrap();
    let path = FileName::Manifest(FileNumber(1)).path(Path::new(DIR));
    let mut log = FramedLogWriter::create(vfs.create(&path).unwrap(), 1).unwrap();
    let first = log.append(b"\x01\x04flsm\x01").unwrap();
    log.append(b"\x07\x08").unwrap();
    let put_in_force = |verified| {
        let current = current::Current {
            manifest: FileNumber(1),
            verified,
        };
        current::write_unfinished(&vfs, Path::new(DIR), current).unwrap();
        current::put_in_force(&vfs, Path::new(DIR)).unwrap();
    };
    let look = || load(&vfs, Path::new(DIR), &place_of(&vfs));
    put_in_force(log.end());
    let whole = said(&look().unwrap());
    let bytes = vfs.read_file(&path);
    for at in first as usize..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 0x10;
        vfs.write_file(&path, bad);
        assert_eq!(look().unwrap_err().kind(), ErrorKind::Corruption, "{at}");
        vfs.write_file(&path, bytes[..at].to_vec());
        assert_eq!(look().unwrap_err().kind(), ErrorKind::Corruption, "{at}");
    }
    // Behind that length the same damage is an edit that was cut short.
    put_in_force(first);
    assert_ne!(said(&look().unwrap()), whole);
}

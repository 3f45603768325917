//! Options, refusals with their texts, figures, and operations on a database that nobody has open.
#![expect(
    unsafe_code,
    clippy::unwrap_used,
    reason = "a test, which calls functions that take pointers of the caller"
)]

mod common;

use common::*;
use leveldb::*;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

fn refusal(path: &Path, options: &Options) -> String {
    Store::open_with(path, options)
        .err()
        .expect("it is refused")
}

#[test]
fn refusals_begin_with_leveldbs_words() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let name = path.display();
    let error = refusal(&path, &leveldb_options_create());
    let begins = format!("Invalid argument: {name}: does not exist (create_if_missing is false): ");
    assert!(error.starts_with(&begins), "{error}");
    assert!(!path.exists());

    let store = Store::open(&path);
    let error = refusal(&path, &creating());
    assert!(
        error.starts_with(&format!("IO error: lock {name}/LOCK: ")),
        "{error}"
    );
    let error = destroy(&path).unwrap_err();
    assert!(error.starts_with("IO error: "), "{error}");
    let error = store.put(&vec![b'k'; 65_536], b"").unwrap_err();
    assert!(
        error.starts_with("Invalid argument: a key of 65536 bytes"),
        "{error}"
    );
    assert_eq!(all(&mut store.iterator()).len(), 0);
    drop(store);

    let mut options = creating();
    leveldb_options_set_error_if_exists(&mut options, 1);
    let error = refusal(&path, &options);
    let begins = format!("Invalid argument: {name}: exists (error_if_exists is true): ");
    assert!(error.starts_with(&begins), "{error}");

    let mut options = creating();
    leveldb_options_set_compression(&mut options, 7);
    let error = refusal(&path, &options);
    assert!(
        error.starts_with("Invalid argument: compression 7: "),
        "{error}"
    );

    fs::write(path.join("CURRENT"), "damaged").unwrap();
    let error = refusal(&path, &creating());
    assert!(error.starts_with("Corruption: "), "{error}");
}

/// LevelDB takes a batch of any size. This one is beyond a quarter of the least memory budget.
#[test]
fn a_batch_of_65_mebibytes_is_written_whole() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("db"));
    let mut batch = leveldb_writebatch_create();
    for n in 0..65 {
        batch_put(&mut batch, format!("{n}").as_bytes(), &vec![b'v'; 1 << 20]);
    }
    store.write(&batch).unwrap();
    let pairs = all(&mut store.iterator());
    assert_eq!(pairs.len(), 65);
    assert!(pairs.iter().all(|(_, value)| *value == vec![b'v'; 1 << 20]));
}

#[test]
fn an_error_takes_the_place_of_the_one_before() {
    let dir = tempfile::tempdir().unwrap();
    let name = c_path(&dir.path().join("db"));
    let options = leveldb_options_create();
    let mut error: *mut c_char = ptr::null_mut();
    let mut texts = Vec::new();
    for _ in 0..2 {
        // SAFETY: a text; an error that is NULL, and then one of the library.
        let opened = unsafe { leveldb_open(&options, name.as_ptr(), Some(&mut error)) };
        assert!(opened.is_none());
        // SAFETY: a text of the library, which is not freed yet.
        texts.push(unsafe { CStr::from_ptr(error) }.to_owned());
    }
    assert_eq!(texts[0], texts[1]);
    // A success leaves the error unchanged.
    // SAFETY: as above.
    let opened = unsafe { leveldb_open(&creating(), name.as_ptr(), Some(&mut error)) };
    assert!(opened.is_some());
    assert_eq!(text(error).unwrap().as_bytes(), texts[0].as_bytes());
    // SAFETY: a text, and nowhere for the error.
    assert!(unsafe { leveldb_open(&creating(), name.as_ptr(), None) }.is_none());
}

/// The files that LevelDB leaves in a directory: the names, and a `CURRENT` of its own.
fn made_by_leveldb(path: &Path) {
    fs::create_dir(path).unwrap();
    for (name, bytes) in [
        ("000005.ldb", "table"),
        ("000006.log", "log"),
        ("CURRENT", "MANIFEST-000004\n"),
        ("LOCK", ""),
        ("LOG", "text"),
        ("MANIFEST-000004", "edits"),
    ] {
        fs::write(path.join(name), bytes).unwrap();
    }
}

fn files(path: &Path) -> Vec<(String, Vec<u8>)> {
    let entry = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        (name, fs::read(entry.path()).unwrap())
    };
    let mut files: Vec<_> = fs::read_dir(path).unwrap().map(entry).collect();
    files.sort();
    files
}

#[test]
fn a_directory_of_leveldb_is_refused_and_left_untouched() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    made_by_leveldb(&path);
    // Without CURRENT, as after a restore that was cut short, the other names tell.
    for without in [None, Some("CURRENT"), Some("000006.log")] {
        if let Some(name) = without {
            fs::remove_file(path.join(name)).unwrap();
        }
        let before = files(&path);
        for error in [
            refusal(&path, &creating()),
            refusal(&path, &leveldb_options_create()),
            destroy(&path).unwrap_err(),
            repair(&path).unwrap_err(),
        ] {
            assert!(error.starts_with("Not implemented: "), "{error}");
            assert!(error.contains("LevelDB itself"), "{error}");
        }
        assert_eq!(files(&path), before);
    }
}

#[test]
fn a_database_keeps_the_layout_with_which_it_was_made() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let created = Store::open(&path);
    created.put(b"key", b"value").unwrap();
    drop(created);
    let recorded = || {
        let db = evendb::Db::open(&path).unwrap();
        let options = db.default_keyspace().options().unwrap();
        options.chosen().next().map(|(_, layout)| layout)
    };
    let before = recorded();
    assert_eq!(before.is_some(), env!("CARGO_CRATE_NAME") == "guards");
    for layout in [c"chunks", c"guards", c""] {
        let mut options = leveldb_options_create();
        set_layout(&mut options, layout);
        let store = Store::open_with(&path, &options).unwrap();
        assert_eq!(store.get(b"key").unwrap().unwrap(), b"value");
        drop(store);
        assert_eq!(recorded(), before);
    }
    let mut options = creating();
    set_layout(&mut options, c"heap");
    let error = refusal(&dir.path().join("other"), &options);
    let told = "Invalid argument: no layout \"heap\": it is chunks or guards";
    assert_eq!(error, told);
    assert!(!dir.path().join("other").exists());
}

static DESTRUCTIONS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn destructor(_state: *mut c_void) {
    DESTRUCTIONS.fetch_add(1, Ordering::SeqCst);
}

unsafe extern "C" fn never_compare(
    _state: *mut c_void,
    _a: *const c_char,
    _a_len: usize,
    _b: *const c_char,
    _b_len: usize,
) -> c_int {
    unreachable!("keys are compared by the store")
}

unsafe extern "C" fn name(state: *mut c_void) -> *const c_char {
    state.cast::<c_char>().cast_const()
}

unsafe extern "C" fn never_create(
    _state: *mut c_void,
    _keys: *const *const c_char,
    _lens: *const usize,
    _count: c_int,
    _len: *mut usize,
) -> *mut c_char {
    unreachable!("filters are made by the store")
}

unsafe extern "C" fn never_match(
    _state: *mut c_void,
    _key: *const c_char,
    _key_len: usize,
    _filter: *const c_char,
    _filter_len: usize,
) -> u8 {
    unreachable!("filters are read by the store")
}

fn comparator(named: &'static CStr) -> Box<Comparator> {
    let state = named.as_ptr().cast_mut().cast();
    // SAFETY: the callbacks take any state, and `name` one that is a text.
    unsafe { leveldb_comparator_create(state, destructor, never_compare, name) }
}

#[test]
fn comparators_and_filters_of_a_program() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let mut options = creating();
    leveldb_options_set_comparator(&mut options, Some(&comparator(c"reverse")));
    assert_eq!(DESTRUCTIONS.load(Ordering::SeqCst), 1);
    let error = refusal(&path, &options);
    assert!(
        error.starts_with("Not implemented: comparator reverse: "),
        "{error}"
    );
    assert!(error.contains("leveldb.BytewiseComparator"), "{error}");
    assert!(!path.exists());

    // A comparator that really is what its name says is accepted. Nothing of it is called, nor of a
    // filter policy.
    leveldb_options_set_comparator(
        &mut options,
        Some(&comparator(c"leveldb.BytewiseComparator")),
    );
    // SAFETY: the callbacks take any state.
    let policy = unsafe {
        leveldb_filterpolicy_create(ptr::null_mut(), destructor, never_create, never_match, name)
    };
    leveldb_options_set_filter_policy(&mut options, Some(&policy));
    leveldb_filterpolicy_destroy(Some(policy));
    assert_eq!(DESTRUCTIONS.load(Ordering::SeqCst), 3);
    let store = Store::open_with(&path, &options).unwrap();
    for n in 0..1000 {
        store.put(format!("{n}").as_bytes(), b"value").unwrap();
    }
    store.compact_all();
    assert_eq!(store.get(b"77").unwrap().unwrap(), b"value");
    assert_eq!(store.get(b"absent").unwrap(), None);
}

#[test]
fn extreme_options_open() {
    let dir = tempfile::tempdir().unwrap();
    for (n, extreme) in [0usize, usize::MAX].into_iter().enumerate() {
        let number = [c_int::MIN, c_int::MAX][n];
        let mut options = creating();
        let cache = leveldb_cache_create_lru(extreme);
        let policy = leveldb_filterpolicy_create_bloom(number);
        let env = leveldb_create_default_env();
        leveldb_options_set_cache(&mut options, Some(&cache));
        leveldb_options_set_filter_policy(&mut options, Some(&policy));
        leveldb_options_set_env(&mut options, Some(&env));
        leveldb_options_set_info_log(&mut options, ptr::null_mut());
        leveldb_options_set_paranoid_checks(&mut options, 1);
        leveldb_options_set_write_buffer_size(&mut options, extreme);
        leveldb_options_set_max_open_files(&mut options, number);
        leveldb_options_set_block_size(&mut options, extreme);
        leveldb_options_set_block_restart_interval(&mut options, number);
        leveldb_options_set_max_file_size(&mut options, extreme);
        leveldb_options_set_compression(&mut options, n as c_int);
        leveldb_cache_destroy(Some(cache));
        leveldb_filterpolicy_destroy(Some(policy));
        leveldb_env_destroy(Some(env));
        let path = dir.path().join(format!("db{n}"));
        // A budget larger than any machine's memory takes only what is used.
        let store = Store::open_with(&path, &options).unwrap();
        store.put(b"key", b"value").unwrap();
        store.compact_all();
        assert_eq!(store.get(b"key").unwrap().unwrap(), b"value");
    }
}

#[test]
fn compression_makes_tables_smaller() {
    let dir = tempfile::tempdir().unwrap();
    let mut taken = Vec::new();
    for compression in [0, 1] {
        let mut options = creating();
        leveldb_options_set_compression(&mut options, compression);
        let path = dir.path().join(format!("db{compression}"));
        let store = Store::open_with(&path, &options).unwrap();
        for n in 0..500 {
            store
                .put(format!("{n:04}").as_bytes(), &[b'v'; 1000])
                .unwrap();
        }
        store.compact_all();
        let sstables = store.property(c"leveldb.sstables").unwrap();
        let files = sstables.lines().filter_map(|line| line.split_once(':'));
        taken.push(
            files
                .map(|(_, bytes)| bytes.parse::<u64>().unwrap())
                .sum::<u64>(),
        );
    }
    assert!(taken[0] > 500_000 && taken[1] < taken[0] / 4, "{taken:?}");
}

#[test]
fn figures() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path());
    for n in 0..1000 {
        store
            .put(format!("{n:04}").as_bytes(), &[b'v'; 100])
            .unwrap();
    }
    // Records that are only in memory count.
    let half = store.size(b"0000", b"0500");
    assert!((40_000..60_000).contains(&half), "{half}");
    store.compact_all();
    let half = store.size(b"0000", b"0500");
    assert!((40_000..60_000).contains(&half), "{half}");
    assert_eq!(store.size(b"x", b"y"), 0);
    assert_eq!(store.size(b"0500", b"0000"), 0);

    let number = |name: &CStr| store.property(name).unwrap().parse::<u64>().unwrap();
    assert!(number(c"leveldb.approximate-memory-usage") > 0);
    let files = number(c"leveldb.num-files-at-level0") + number(c"leveldb.num-files-at-level6");
    assert!(files > 0);
    let sstables = store.property(c"leveldb.sstables").unwrap();
    assert_eq!(sstables.matches(':').count() as u64, files);
    assert_eq!(sstables.matches("--- level ").count(), 7);
    let stats = store.property(c"leveldb.stats").unwrap();
    assert!(stats.contains("puts 1000"), "{stats}");
    for unknown in [
        c"stats",
        c"leveldb.",
        c"leveldb.nothing",
        c"leveldb.num-files-at-level",
        c"leveldb.num-files-at-level7",
        c"leveldb.num-files-at-level+1",
        c"leveldb.num-files-at-level99999999999999999999",
    ] {
        assert_eq!(store.property(unknown), None, "{unknown:?}");
    }
}

#[test]
fn compaction_of_a_part_takes_either_end() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path());
    for n in 0..1000 {
        store.put(format!("{n:04}").as_bytes(), b"").unwrap();
    }
    let (key, len) = bytes(b"0500");
    for (start, limit) in [(ptr::null(), key), (key, ptr::null()), (key, key)] {
        // SAFETY: bytes that outlive the call, and open ends.
        unsafe { leveldb_compact_range(store.database(), start, len, limit, len) };
    }
    assert_eq!(all(&mut store.iterator()).len(), 1000);
}

#[test]
fn a_database_is_destroyed_with_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    destroy(&path).unwrap();
    Store::open(&path).put(b"key", b"value").unwrap();
    destroy(&path).unwrap();
    assert!(!path.exists());
    assert_eq!(Store::open(&path).get(b"key").unwrap(), None);
}

#[test]
fn repair_leaves_what_is_sound() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let error = repair(&path).unwrap_err();
    assert!(error.starts_with("Invalid argument: "), "{error}");
    Store::open(&path).put(b"key", b"value").unwrap();
    let before = files(&path);
    repair(&path).unwrap();
    assert_eq!(files(&path), before);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn repair_puts_what_it_saves_in_place_and_keeps_the_damaged_beside() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let store = Store::open(&path);
    for n in 0..2000 {
        store
            .put(format!("{n:04}").as_bytes(), &[b'v'; 100])
            .unwrap();
    }
    store.compact_all();
    drop(store);
    fs::write(path.join("CURRENT"), "damaged").unwrap();
    let damaged = files(&path);
    let error = refusal(&path, &creating());
    assert!(error.starts_with("Corruption: "), "{error}");
    // An existing directory of that name is not taken for its own.
    fs::create_dir(dir.path().join("db.damaged-1")).unwrap();
    repair(&path).unwrap();
    assert_eq!(all(&mut Store::open(&path).iterator()).len(), 2000);
    assert_eq!(files(&dir.path().join("db.damaged-2")), damaged);
    assert!(!dir.path().join("db.repaired-2").exists());
}

#[test]
fn versions_and_the_directory_for_tests() {
    assert_eq!((leveldb_major_version(), leveldb_minor_version()), (1, 23));
    let env = leveldb_create_default_env();
    let named = text(leveldb_env_get_test_directory(&env)).unwrap();
    assert!(Path::new(&named).is_dir(), "{named}");
}

/// Opens the database of this name on a disk in memory.
fn in_memory(disk: &Disk, path: &Path, create: u8) -> Outcome<Store> {
    let mut options = creating();
    leveldb_options_set_create_if_missing(&mut options, create);
    evendb_leveldb_options_set_memory(&mut options, Some(disk));
    Store::open_with(path, &options)
}

#[test]
fn a_database_in_memory_outlives_its_handles_and_touches_no_directory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let disk = evendb_leveldb_memory_create();
    let store = in_memory(&disk, &path, 1).unwrap();
    for n in 0..2000 {
        store
            .put(format!("{n:04}").as_bytes(), &[b'v'; 100])
            .unwrap();
    }
    store.compact_all();
    assert_ne!(store.property(c"leveldb.sstables").unwrap(), "");
    let error = in_memory(&disk, &path, 1).err().unwrap();
    assert!(error.starts_with("IO error: lock "), "{error}");
    // Another disk has no such database.
    let error = in_memory(&evendb_leveldb_memory_create(), &path, 0)
        .err()
        .unwrap();
    assert!(error.contains("does not exist"), "{error}");
    drop(store);

    let store = in_memory(&disk, &path, 0).unwrap();
    evendb_leveldb_memory_destroy(Some(disk));
    assert_eq!(all(&mut store.iterator()).len(), 2000);
    store.put(b"later", b"1").unwrap();
    assert_eq!(store.get(b"later").unwrap().unwrap(), b"1");
    drop(store);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_database_in_memory_is_destroyed_unless_it_is_open() {
    let path = Path::new("db");
    let name = c_path(path);
    let disk = evendb_leveldb_memory_create();
    let mut options = leveldb_options_create();
    evendb_leveldb_options_set_memory(&mut options, Some(&disk));
    let destroy = || {
        // SAFETY: a text that outlives the call.
        outcome(|error| unsafe { leveldb_destroy_db(&options, name.as_ptr(), error) })
    };
    let repair = || {
        // SAFETY: as above.
        outcome(|error| unsafe { leveldb_repair_db(&options, name.as_ptr(), error) })
    };
    destroy().unwrap();
    let error = repair().unwrap_err();
    assert!(error.starts_with("Invalid argument: db: "), "{error}");
    let store = in_memory(&disk, path, 1).unwrap();
    store.put(b"k", b"v").unwrap();
    let error = destroy().unwrap_err();
    assert!(error.starts_with("IO error: lock db/LOCK: "), "{error}");
    assert_eq!(store.get(b"k").unwrap().unwrap(), b"v");
    drop(store);
    repair().unwrap();
    destroy().unwrap();
    assert!(in_memory(&disk, path, 0).is_err());
    assert!(!path.exists());
}

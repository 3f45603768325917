//! Behaviour that both file systems must share: one suite, run against the operating system in a
//! temporary directory and against the simulation.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Appender, BLOCK_BYTES, File, OsVfs, SimVfs, Vfs, read_exact_at};

fn contents(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0xee; file.len().unwrap() as usize];
    read_exact_at(file, &mut bytes, 0).unwrap();
    bytes
}

fn error_of<T>(result: std::io::Result<T>) -> ErrorKind {
    result.err().expect("this must fail").kind()
}

fn create_with(vfs: &dyn Vfs, path: &Path, bytes: &[u8]) -> Arc<dyn File> {
    let file = vfs.create(path).unwrap();
    file.write_at(bytes, 0).unwrap();
    file
}

fn creates_and_opens(vfs: &dyn Vfs, dir: &Path) {
    let path = dir.join("a");
    assert_eq!(error_of(vfs.open(&path, false)), ErrorKind::NotFound);
    let file = create_with(vfs, &path, b"hello");
    assert_eq!(file.path(), path);
    assert!(!file.is_empty().unwrap());
    assert_eq!(error_of(vfs.create(&path)), ErrorKind::AlreadyExists);
    assert_eq!(
        error_of(vfs.create(&dir.join("missing/a"))),
        ErrorKind::NotFound
    );

    let writer = vfs.open(&path, true).unwrap();
    writer.write_at(b"J", 0).unwrap();
    assert_eq!(contents(&*file), b"Jello");
    let reader = vfs.open(&path, false).unwrap();
    assert_eq!(contents(&*reader), b"Jello");
    assert!(reader.write_at(b"x", 0).is_err());
    assert!(reader.set_len(0).is_err());
    assert_eq!(contents(&*reader), b"Jello");
    reader.sync_data().unwrap();
    vfs.sync_dir(dir).unwrap();
}

fn reads_and_writes_by_position(vfs: &dyn Vfs, dir: &Path) {
    let file = vfs.create(&dir.join("a")).unwrap();
    assert!(file.is_empty().unwrap());
    let mut buffer = [7; 8];
    assert_eq!(file.read_at(&mut buffer, 0).unwrap(), 0);

    // Past the end, over page borders: zeros between.
    file.write_at(b"tail", 10_000).unwrap();
    assert_eq!(file.len().unwrap(), 10_004);
    let mut expected = vec![0; 10_004];
    expected[10_000..].copy_from_slice(b"tail");
    assert_eq!(contents(&*file), expected);

    let block: Vec<u8> = (0..6_000u32).map(|byte| (byte % 251) as u8).collect();
    file.write_at(&block, 3_000).unwrap();
    expected[3_000..9_000].copy_from_slice(&block);
    assert_eq!(contents(&*file), expected);

    assert_eq!(file.read_at(&mut buffer, 10_001).unwrap(), 3);
    assert_eq!(&buffer[..3], b"ail");
    assert_eq!(file.read_at(&mut buffer, 1 << 40).unwrap(), 0);
    let outcome = read_exact_at(&*file, &mut buffer, 10_001);
    assert_eq!(error_of(outcome), ErrorKind::UnexpectedEof);
    file.write_at(b"", 20_000).unwrap();
    assert_eq!(
        file.len().unwrap(),
        10_004,
        "an empty write extends nothing"
    );
}

fn writes_durably(vfs: &dyn Vfs, dir: &Path) {
    let file = create_with(vfs, &dir.join("a"), &[1; 5_000]);
    file.write_at_durable(&[2; 700], 4_000).unwrap();
    file.write_at_durable(b"", 100).unwrap();
    // Beyond the end, too: zeros between.
    file.write_at_durable(b"end", 9_000).unwrap();
    let mut expected = vec![1; 5_000];
    expected[4_000..4_700].fill(2);
    expected.resize(9_000, 0);
    expected.extend_from_slice(b"end");
    assert_eq!(contents(&*file), expected);
    let reader = vfs.open(&dir.join("a"), false).unwrap();
    assert!(reader.write_at_durable(b"x", 0).is_err());
}

fn writes_ahead_of_a_sync(vfs: &dyn Vfs, dir: &Path) {
    let file = create_with(vfs, &dir.join("a"), &[3; 20_000]);
    file.start_writing(0, 8_192);
    file.start_writing(4_000, 10);
    file.wait_for_writing(0, 20_000);
    // A range without data, an empty range, and a range that makes no sense.
    file.start_writing(50_000, 10);
    file.start_writing(0, 0);
    file.wait_for_writing(0, u64::MAX);
    file.start_writing(u64::MAX, 1);
    file.sync_data().unwrap();
    assert_eq!(contents(&*file), [3; 20_000]);
}

fn writes_past_the_cache(vfs: &dyn Vfs, dir: &Path) {
    let file = create_with(vfs, &dir.join("a"), &[1; 3 * BLOCK_BYTES]);
    let Some(direct) = file.past_cache() else {
        // This file system has no such way.
        return;
    };
    let memory = vec![2; 2 * BLOCK_BYTES];
    let start = memory.as_ptr().align_offset(BLOCK_BYTES);
    let block = &memory[start..start + BLOCK_BYTES];
    match direct.write_at_durable(block, BLOCK_BYTES as u64) {
        Ok(()) => {}
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            return;
        }
    }
    let mut expected = vec![1; 3 * BLOCK_BYTES];
    expected[BLOCK_BYTES..2 * BLOCK_BYTES].fill(2);
    assert_eq!(contents(&*file), expected);
    // In turns with the other handle.
    file.write_at(&[3; 100], BLOCK_BYTES as u64 + 50).unwrap();
    direct.write_at_durable(block, 0).unwrap();
    file.sync_data().unwrap();
    expected[..BLOCK_BYTES].fill(2);
    expected[BLOCK_BYTES + 50..BLOCK_BYTES + 150].fill(3);
    assert_eq!(contents(&*file), expected);
}

fn appends_to_new_files(vfs: &dyn Vfs, dir: &Path) {
    let data: Vec<u8> = (0..700_001u32).map(|at| (at % 251) as u8).collect();
    let file = create_with(vfs, &dir.join("a"), b"");
    let mut appender = Appender::new(file.clone(), 128 << 10, true);
    for part in data.chunks(4_093) {
        appender.buffer().extend_from_slice(part);
        if appender.is_full() {
            appender.pass_on().unwrap();
        }
    }
    appender.finish().unwrap();
    file.sync_data().unwrap();
    assert!(contents(&*file) == data);
    assert!(contents(&*vfs.open(&dir.join("a"), false).unwrap()) == data);
}

fn sets_lengths(vfs: &dyn Vfs, dir: &Path) {
    let file = create_with(vfs, &dir.join("a"), &[9; 9_000]);
    file.set_len(4_500).unwrap();
    file.set_len(9_500).unwrap();
    let mut expected = vec![9; 4_500];
    expected.resize(9_500, 0);
    assert_eq!(contents(&*file), expected);
    file.set_len(0).unwrap();
    assert!(file.is_empty().unwrap());
}

fn preallocates_and_punches(vfs: &dyn Vfs, dir: &Path) {
    let file = create_with(vfs, &dir.join("a"), &[5; 100]);
    file.preallocate(0, 20_000).unwrap();
    file.preallocate(0, 10).unwrap();
    let mut expected = vec![5; 100];
    expected.resize(20_000, 0);
    assert_eq!(contents(&*file), expected);

    file.write_at(&[6; 20_000], 0).unwrap();
    file.punch_hole(4_000, 9_000).unwrap();
    expected = vec![6; 20_000];
    expected[4_000..13_000].fill(0);
    assert_eq!(contents(&*file), expected);
    file.punch_hole(19_000, 50_000).unwrap();
    expected[19_000..].fill(0);
    assert_eq!(contents(&*file), expected, "the length stays");
    file.punch_hole(0, 0).unwrap();
    assert!(file.preallocate(u64::MAX, 2).is_err());
}

fn renames_and_removes(vfs: &dyn Vfs, dir: &Path) {
    let (first, second) = (dir.join("first"), dir.join("second"));
    create_with(vfs, &first, b"1");
    let replaced = create_with(vfs, &second, b"22");
    vfs.rename(&first, &second).unwrap();
    assert!(!vfs.exists(&first).unwrap());
    assert_eq!(contents(&*vfs.open(&second, false).unwrap()), b"1");
    assert_eq!(
        contents(&*replaced),
        b"22",
        "an open file outlives its name"
    );
    assert_eq!(error_of(vfs.rename(&first, &second)), ErrorKind::NotFound);

    let open = vfs.open(&second, true).unwrap();
    vfs.remove(&second).unwrap();
    assert_eq!(error_of(vfs.remove(&second)), ErrorKind::NotFound);
    vfs.sync_dir(dir).unwrap();
    open.write_at(b"3", 1).unwrap();
    assert_eq!(contents(&*open), b"13");
    create_with(vfs, &second, b"new");
    assert_eq!(contents(&*open), b"13");
}

fn lists_directories(vfs: &dyn Vfs, dir: &Path) {
    let deep = dir.join("x/y");
    vfs.create_dir_all(&deep).unwrap();
    vfs.create_dir_all(&deep).unwrap();
    assert!(vfs.exists(&dir.join("x")).unwrap());
    create_with(vfs, &deep.join("b"), b"");
    create_with(vfs, &dir.join("a"), b"");
    let below_a_file = vfs.create_dir_all(&dir.join("a/b"));
    assert!(below_a_file.is_err());
    let mut names = vfs.list(dir).unwrap();
    names.sort();
    assert_eq!(names, ["a", "x"]);
    assert_eq!(vfs.list(&deep).unwrap(), ["b"]);
    assert_eq!(error_of(vfs.list(&dir.join("z"))), ErrorKind::NotFound);
    assert_eq!(error_of(vfs.sync_dir(&dir.join("z"))), ErrorKind::NotFound);
    assert!(vfs.remove(&deep).is_err());
}

fn links(vfs: &dyn Vfs, dir: &Path) {
    let (first, second) = (dir.join("first"), dir.join("second"));
    create_with(vfs, &first, b"shared");
    vfs.hard_link(&first, &second).unwrap();
    assert_eq!(
        error_of(vfs.hard_link(&first, &second)),
        ErrorKind::AlreadyExists
    );
    assert_eq!(
        error_of(vfs.hard_link(&dir.join("none"), &dir.join("third"))),
        ErrorKind::NotFound
    );
    vfs.remove(&first).unwrap();
    assert_eq!(contents(&*vfs.open(&second, false).unwrap()), b"shared");
    assert!(!vfs.exists(&first).unwrap());
    vfs.remove(&second).unwrap();
    assert_eq!(error_of(vfs.open(&second, false)), ErrorKind::NotFound);

    let below = dir.join("below");
    vfs.create_dir_all(&below).unwrap();
    create_with(vfs, &below.join("x"), b"x");
    assert_eq!(
        error_of(vfs.remove_dir(&below)),
        ErrorKind::DirectoryNotEmpty
    );
    vfs.remove(&below.join("x")).unwrap();
    vfs.remove_dir(&below).unwrap();
    assert!(!vfs.exists(&below).unwrap());
    assert_eq!(error_of(vfs.remove_dir(&below)), ErrorKind::NotFound);
}

fn locks(vfs: &dyn Vfs, dir: &Path) {
    let path = dir.join("LOCK");
    assert_eq!(error_of(vfs.lock(&path, true)), ErrorKind::NotFound);
    assert!(!vfs.exists(&path).unwrap(), "a reader creates nothing");

    let owner = vfs.lock(&path, false).unwrap();
    assert!(owner.still_held().unwrap());
    assert_eq!(error_of(vfs.lock(&path, false)), ErrorKind::WouldBlock);
    assert_eq!(error_of(vfs.lock(&path, true)), ErrorKind::WouldBlock);
    let holder = vfs.lock_holder(&path);
    assert_eq!(holder.process, Some(std::process::id()));
    assert!(holder.process_seen && !holder.shared);
    drop(owner);

    let reader = vfs.lock(&path, true).unwrap();
    let other_reader = vfs.lock(&path, true).unwrap();
    assert_eq!(error_of(vfs.lock(&path, false)), ErrorKind::WouldBlock);
    let holder = vfs.lock_holder(&path);
    assert!(holder.shared && holder.process.is_none());
    drop(reader);
    assert_eq!(error_of(vfs.lock(&path, false)), ErrorKind::WouldBlock);
    drop(other_reader);

    let owner = vfs.lock(&path, false).unwrap();
    assert_eq!(error_of(vfs.lock(&path, false)), ErrorKind::WouldBlock);
    drop(owner);
}

/// The lock file is removed under its owner. Simulated directories cannot be locked, as on some
/// network file systems.
#[test]
fn a_lock_file_that_goes() {
    let vfs = SimVfs::new(1);
    vfs.create_dir_all(Path::new("/db")).unwrap();
    let path = Path::new("/db/LOCK");
    let owner = vfs.lock(path, false).unwrap();
    vfs.remove(path).unwrap();
    assert!(!owner.still_held().unwrap(), "the name is gone");
    let usurper = vfs.lock(path, false).unwrap();
    assert!(!owner.still_held().unwrap(), "the name is another file's");
    drop(owner);
    assert!(usurper.still_held().unwrap());
    assert_eq!(error_of(vfs.lock(path, false)), ErrorKind::WouldBlock);

    let parent = tempfile::tempdir().unwrap();
    let (dir, moved) = (parent.path().join("db"), parent.path().join("moved"));
    std::fs::create_dir(&dir).unwrap();
    let path = dir.join("LOCK");
    let owner = OsVfs.lock(&path, false).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(owner.still_held().unwrap(), "the directory is locked");
    for shared in [false, true] {
        assert_eq!(error_of(OsVfs.lock(&path, shared)), ErrorKind::WouldBlock);
    }
    std::fs::rename(&dir, &moved).unwrap();
    assert!(!owner.still_held().unwrap(), "nothing has its name");
    std::fs::create_dir(&dir).unwrap();
    assert!(
        !owner.still_held().unwrap(),
        "another directory has its name"
    );
    drop(owner);
    drop(OsVfs.lock(&moved.join("LOCK"), false).unwrap());
}

fn maps(vfs: &dyn Vfs, dir: &Path) {
    let path = dir.join("ring");
    let file = create_with(vfs, &path, &[1; 10_000]);
    assert!(file.map(10_001).is_err());
    assert!(file.map(0).is_err());
    assert!(vfs.open(&path, false).unwrap().map(10).is_err());

    let mapping = file.map(9_000).unwrap();
    mapping.prefault(0, 9_000);
    mapping.prefault(8_999, 1);
    mapping.prefault(9_000, 0);
    assert_eq!(contents(&*file), [1; 10_000], "touching changes nothing");
    mapping.write(4_090, &[2; 20]);
    mapping.write(9_000, &[]);
    let mut expected = vec![1; 10_000];
    expected[4_090..4_110].fill(2);
    assert_eq!(contents(&*vfs.open(&path, false).unwrap()), expected);

    assert!(mapping.give_back(0, 9_000) || !cfg!(target_os = "linux"));
    assert_eq!(contents(&*file), expected, "what was written stays");
    mapping.write(100, &[4; 5_000]);
    expected[100..5_100].fill(4);
    mapping.give_back(0, 4_096);
    mapping.prefault(0, 9_000);
    assert_eq!(contents(&*file), expected);

    file.write_at(&[3; 4], 8_996).unwrap();
    expected[8_996..9_000].fill(3);
    mapping.write(0, &[4]);
    expected[0] = 4;
    file.sync_data().unwrap();
    drop(file);
    vfs.remove(&path).unwrap();
    mapping.write(1, &[5]);

    for (offset, len) in [(9_000, 1), (8_999, 2), (usize::MAX, 1)] {
        let outside = std::panic::AssertUnwindSafe(|| mapping.write(offset, &vec![0; len]));
        assert!(std::panic::catch_unwind(outside).is_err());
    }
}

fn many_threads_share_a_file(vfs: &dyn Vfs, dir: &Path) {
    let file = vfs.create(&dir.join("a")).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let file = &file;
            scope.spawn(move || {
                for turn in 0..50u64 {
                    let offset = (turn * 4 + u64::from(thread)) * 100;
                    file.write_at(&[thread; 100], offset).unwrap();
                }
            });
        }
    });
    let expected: Vec<u8> = (0..20_000).map(|byte| (byte / 100 % 4) as u8).collect();
    assert_eq!(contents(&*file), expected);
}

macro_rules! conformance {
    ($($name:ident),* $(,)?) => {
        mod os {
            $(#[test]
            fn $name() {
                let dir = tempfile::tempdir().unwrap();
                super::$name(&super::OsVfs, dir.path());
            })*
        }
        mod sim {
            $(#[test]
            fn $name() {
                let vfs = super::SimVfs::new(1);
                let dir = super::PathBuf::from("/data/store");
                super::Vfs::create_dir_all(&vfs, &dir).unwrap();
                super::$name(&vfs, &dir);
            })*
        }
    };
}

conformance!(
    creates_and_opens,
    reads_and_writes_by_position,
    writes_durably,
    writes_ahead_of_a_sync,
    writes_past_the_cache,
    appends_to_new_files,
    sets_lengths,
    preallocates_and_punches,
    renames_and_removes,
    lists_directories,
    links,
    locks,
    maps,
    many_threads_share_a_file,
);

/// The number that a dead owner left in the file is not taken for the number of a living one.
#[test]
fn a_dead_owner_is_told_from_a_living_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    std::fs::write(&path, "4194999\n").unwrap();
    let reader = OsVfs.lock(&path, true).unwrap();
    let holder = OsVfs.lock_holder(&path);
    assert!(holder.shared && holder.process.is_none());
    drop(reader);
    let owner = OsVfs.lock(&path, false).unwrap();
    // As if the owner lived where its number means nothing here.
    std::fs::write(&path, "4194999\n").unwrap();
    let holder = OsVfs.lock_holder(&path);
    assert_eq!(
        (holder.process, holder.process_seen),
        (Some(4_194_999), false)
    );
    std::fs::write(&path, "no number").unwrap();
    assert_eq!(OsVfs.lock_holder(&path).process, None);
    drop(owner);
    // Somebody else's text stays; an owner's number is removed with the owner.
    assert_eq!(std::fs::read(&path).unwrap(), b"no number");
    std::fs::write(&path, "4194999\n").unwrap();
    drop(OsVfs.lock(&path, false).unwrap());
    assert_eq!(std::fs::read(&path).unwrap(), b"");
}

#[test]
fn a_reader_locks_in_a_read_only_directory() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    drop(OsVfs.lock(&path, false).unwrap());
    let set_mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode(&path, 0o444);
    set_mode(dir.path(), 0o555);
    let guard = OsVfs.lock(&path, true);
    set_mode(dir.path(), 0o755);
    assert!(guard.unwrap().still_held().unwrap());
}

/// File systems in memory refuse the way past the cache, or accept it. Without such a file system,
/// nothing is tested.
#[test]
fn appends_in_a_file_system_in_memory() {
    if let Ok(dir) = tempfile::tempdir_in("/dev/shm") {
        appends_to_new_files(&OsVfs, dir.path());
    }
}

/// `/dev/full` answers every write with ENOSPC. Without it, nothing is tested.
#[test]
fn a_full_device_keeps_its_error_kind() {
    let path = Path::new("/dev/full");
    if let Ok(device) = std::fs::OpenOptions::new().write(true).open(path) {
        let file = super::os::OsFile::shared(device, path);
        let outcome = file.write_at(b"x", 0);
        assert_eq!(error_of(outcome), ErrorKind::StorageFull);
    }
}

#[test]
fn links_are_not_followed_and_pipes_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let own = dir.path().join("own");
    std::fs::write(&own, "bytes").unwrap();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&own, &link).unwrap();
    let dangling = dir.path().join("dangling");
    std::os::unix::fs::symlink(dir.path().join("elsewhere"), &dangling).unwrap();
    let pipe = dir.path().join("pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).unwrap();
    for path in [&link, &dangling, &pipe] {
        for write in [false, true] {
            let error = OsVfs.open(path, write).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{path:?}: {error}");
        }
        assert!(OsVfs.lock(path, false).is_err() && OsVfs.lock(path, true).is_err());
        assert!(OsVfs.create(path).is_err());
    }
    // The same is true in the place of a directory.
    for shared in [false, true] {
        let error = error_of(OsVfs.lock(&pipe.join("LOCK"), shared));
        assert_eq!(error, ErrorKind::NotADirectory);
    }
    assert_eq!(error_of(OsVfs.sync_dir(&pipe)), ErrorKind::NotADirectory);
    assert_eq!(error_of(OsVfs.list(&pipe)), ErrorKind::NotADirectory);
    assert!(!dir.path().join("elsewhere").exists());
    assert_eq!(std::fs::read(&own).unwrap(), b"bytes");
    OsVfs.open(&own, true).unwrap();
}

#[test]
fn the_kernels_boot_id_is_parsed() {
    use super::os::parse_boot_id;
    let id = parse_boot_id("01020304-0506-0708-090a-0b0c0d0e0f10\n");
    assert_eq!(id, Some(std::array::from_fn(|at| at as u8 + 1)));
    for bad in [
        "",
        "x",
        "01020304-0506-0708-090a-0b0c0d0e0f1",
        "+1020304050607080900b0c0d0e0f100",
    ] {
        assert_eq!(parse_boot_id(bad), None, "{bad}");
    }
    // In one boot it is the same for every caller.
    assert_eq!(OsVfs.boot_id(), OsVfs.boot_id());
}

//! Strange paths, directories that cannot be written, foreign files, newer formats.

use crate::common::privileges::without_privileges;
use crate::common::{DIR, on_sim};
use crate::{in_another_process, kind_of, small};
use evendb::vfs::SimVfs;
use evendb::{Durability, ErrorKind};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

#[test]
fn strange_paths() {
    let dir = tempfile::tempdir().expect("a directory");
    in_another_process("relative", dir.path());
    let db = small().open(dir.path().join("relative/db")).expect("opens");
    assert_eq!(db.iter().count(), 2001);
    drop(db);
    let real = dir.path().join("real");
    std::fs::create_dir(&real).expect("creates");
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&real, &link).expect("links");
    let db = small().open(&link).expect("opens");
    db.put("key", "value").expect("puts");
    assert_eq!(kind_of(small().open(&real)), Some(ErrorKind::Locked));
    db.close().expect("closes");
    // Moved while it was closed.
    let moved = dir.path().join("moved");
    std::fs::rename(&real, &moved).expect("moves");
    let db = small().open(&moved).expect("opens");
    assert_eq!(db.get("key").expect("gets").as_deref(), Some(&b"value"[..]));
    drop(db);
    let strange = dir
        .path()
        .join(OsString::from_vec(vec![b'x', 0xff, 0xfe, b' ', b'\n']));
    let db = small().open(&strange).expect("opens");
    db.put("key", "value").expect("puts");
    db.settle_debt().expect("settles");
    db.close().expect("closes");
    let db = small().open(&strange).expect("opens");
    assert_eq!(db.get("key").expect("gets").as_deref(), Some(&b"value"[..]));
}

#[test]
fn a_read_only_directory() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("db");
    small()
        .open(&path)
        .expect("opens")
        .put("key", "value")
        .expect("puts");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o555)).expect("changes");
    let own = path.clone();
    without_privileges(move || cannot_be_written(&own));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("changes");
}

fn cannot_be_written(path: &Path) {
    std::fs::write(path.join("probe"), "").expect_err("nobody may write here");
    let reader = small().read_only(true).open(path).expect("opens");
    assert_eq!(
        reader.get("key").expect("gets").as_deref(),
        Some(&b"value"[..])
    );
    drop(reader);
    let error = small().open(path).err().or_else(|| {
        let db = small().open(path).expect("opened before");
        db.close().err()
    });
    assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::Io));
}

/// A database on a simulated disk, closed.
fn closed_database() -> SimVfs {
    let vfs = SimVfs::new(1);
    let db = on_sim(&vfs, Durability::Process, 0)
        .open(DIR)
        .expect("opens");
    for number in 0..200 {
        db.put(format!("{number:03}"), vec![1; 40]).expect("puts");
    }
    db.settle_debt().expect("settles");
    db.close().expect("closes");
    vfs
}

fn open_kind(vfs: &SimVfs) -> Option<ErrorKind> {
    kind_of(on_sim(vfs, Durability::Process, 0).open(DIR))
}

#[test]
fn without_current() {
    let vfs = closed_database();
    let current = Path::new(DIR).join("CURRENT");
    vfs.remove_file(&current);
    let before = vfs.file_names(Path::new(DIR));
    assert_eq!(open_kind(&vfs), Some(ErrorKind::Corruption));
    assert_eq!(
        vfs.file_names(Path::new(DIR)),
        before,
        "nothing was removed"
    );
    vfs.write_file(&current, Vec::new());
    assert_eq!(open_kind(&vfs), Some(ErrorKind::Corruption));
}

#[test]
fn a_newer_format() {
    let vfs = closed_database();
    for (name, at, version) in [("CURRENT", 7, b'7'), ("MANIFEST-000001", 8, 1)] {
        let vfs = vfs.fork_state();
        let path = Path::new(DIR).join(name);
        let mut bytes = vfs.read_file(&path);
        assert_eq!(bytes[at], version);
        bytes[at] += 1;
        // The layout may differ too.
        bytes.push(0);
        vfs.write_file(&path, bytes);
        assert_eq!(open_kind(&vfs), Some(ErrorKind::Unsupported), "{name}");
    }
}

#[test]
fn files_of_other_programs() {
    let vfs = SimVfs::new(1);
    let dir = Path::new(DIR);
    on_sim(&vfs, Durability::Process, 0)
        .open(DIR)
        .expect("opens")
        .close()
        .expect("closes");
    let names = [
        "notes.txt",
        "b.sst",
        "MANIFEST",
        "CURRENT.bak",
        "0000000000000001.txt",
    ];
    for name in names {
        vfs.write_file(&dir.join(name), b"foreign".to_vec());
    }
    let db = on_sim(&vfs, Durability::Process, 0)
        .open(DIR)
        .expect("opens");
    for number in 0..500 {
        db.put(format!("{number:03}"), vec![1; 40]).expect("puts");
    }
    db.settle_debt().expect("settles");
    db.close().expect("closes");
    assert_eq!(open_kind(&vfs), None);
    for name in names {
        assert_eq!(vfs.read_file(&dir.join(name)), b"foreign");
    }
}

/// The names and bytes of all files in a directory.
fn files_in(dir: &Path) -> Vec<(OsString, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .expect("lists")
        .map(|entry| entry.expect("lists"))
        .map(|entry| {
            (
                entry.file_name(),
                std::fs::read(entry.path()).expect("reads"),
            )
        })
        .collect();
    files.sort();
    files
}

/// Opens a database, and reads and writes all over it. Returns the kind of the first error.
fn use_it(dir: &Path) -> Result<(), ErrorKind> {
    let kind = |error: evendb::Error| error.kind();
    let db = small().open(dir).map_err(kind)?;
    for item in db.iter() {
        item.map_err(kind)?;
    }
    for number in 0..400 {
        db.put(format!("k{number:03}"), "new").map_err(kind)?;
    }
    db.settle_debt().map_err(kind)?;
    db.close().map_err(kind)
}

#[test]
fn links_in_the_directory_lead_nowhere() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, elsewhere) = (dir.path().join("db"), dir.path().join("elsewhere"));
    let db = small().open(&path).expect("opens");
    for number in 0..1200 {
        let key = format!("k{:03}", number * 7 % 400);
        db.put(key, [b'v'; 100]).expect("puts");
    }
    db.settle_debt().expect("settles");
    db.close().expect("closes");
    let files = files_in(&path);
    let mut refused = Vec::new();
    for (linked, bytes) in &files {
        std::fs::remove_dir_all(&path).expect("removes");
        std::fs::create_dir(&path).expect("creates");
        for (name, bytes) in &files {
            std::fs::write(path.join(name), bytes).expect("writes");
        }
        // The link leads to the very file, so only the link itself is a reason to refuse it.
        std::fs::rename(path.join(linked), &elsewhere).expect("moves");
        std::os::unix::fs::symlink(&elsewhere, path.join(linked)).expect("links");
        if let Err(kind) = use_it(&path) {
            assert!(
                [ErrorKind::Io, ErrorKind::Corruption].contains(&kind),
                "{linked:?}: {kind:?}"
            );
            refused.push(linked);
        }
        let now = std::fs::read(&elsewhere).expect("reads");
        assert!(now == *bytes, "{linked:?}: written through a link");
    }
    // The other files are not needed, or a file of the database has replaced the link.
    let of_chunks = crate::common::has_chunks().then_some("CHUNK-LOGS");
    for needed in ["CURRENT", "LOCK", "COMMIT-LOG"]
        .into_iter()
        .chain(of_chunks)
    {
        let name = OsString::from(needed);
        assert!(refused.contains(&&name), "{needed} of {refused:?}");
    }
    assert!(
        refused
            .iter()
            .any(|name| name.to_string_lossy().ends_with(".sst")),
        "{refused:?}"
    );
}

/// Plants something that is no regular file at `path`: a link to a file, to a directory or to
/// nothing, a directory, or a pipe.
fn plant(number: usize, path: &Path, around: &Path) {
    match number {
        0 => std::os::unix::fs::symlink(around.join("photo"), path).expect("links"),
        1 => std::os::unix::fs::symlink(around, path).expect("links"),
        2 => std::os::unix::fs::symlink(around.join("nothing"), path).expect("links"),
        3 => std::fs::create_dir(path).expect("creates"),
        _ => {
            let status = std::process::Command::new("mkfifo").arg(path).status();
            assert!(status.expect("runs").success(), "mkfifo");
        }
    }
}

/// The names in a directory, each with the system's attributes except the time of the last read.
fn names_in(dir: &Path) -> Vec<(OsString, String)> {
    let told = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.expect("lists");
        let there = entry.metadata().expect("looks");
        let kind = (there.file_type(), there.len(), there.permissions());
        (entry.file_name(), format!("{kind:?}"))
    };
    let mut names: Vec<_> = std::fs::read_dir(dir).expect("lists").map(told).collect();
    names.sort();
    names
}

#[test]
fn names_of_ours_that_are_no_files_refuse_each_call_that_would_remove_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, around) = (dir.path().join("db"), dir.path().join("around"));
    std::fs::create_dir(&around).expect("creates");
    std::fs::write(around.join("photo"), "pixels").expect("writes");
    small().open(&path).expect("opens").close().expect("closes");
    let names = [
        "0000000100000001.sst",
        "0000000000000001.val",
        "0000000000000001.values",
        "MANIFEST-000077",
        "CURRENT.tmp",
        "CHANGES-000001",
        "COMMIT-LOG.damaged-1",
        "UNFINISHED-COPY",
    ];
    for name in names {
        for number in 0..5 {
            let at = path.join(name);
            plant(number, &at, &around);
            let before = (names_in(&path), files_in(&around));
            let errors = [
                small().open(&path).expect_err("it is not ours"),
                evendb::destroy(&path).expect_err("it is not ours"),
            ];
            for error in errors {
                assert_eq!(error.kind(), ErrorKind::Io, "{name} {number}: {error}");
                assert!(error.to_string().contains(name), "{number}: {error}");
            }
            assert!(
                (names_in(&path), files_in(&around)) == before,
                "{name} {number}"
            );
            match number {
                3 => std::fs::remove_dir(&at).expect("removes"),
                _ => std::fs::remove_file(&at).expect("removes"),
            }
        }
    }
    small().open(&path).expect("opens").close().expect("closes");
}

/// Figures and the list of hot records may be missing.
#[test]
fn what_lies_in_the_place_of_figures_keeps_nothing_from_opening_and_stays() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, around) = (dir.path().join("db"), dir.path().join("around"));
    std::fs::create_dir(&around).expect("creates");
    std::fs::write(around.join("photo"), "pixels").expect("writes");
    for name in ["HEAT", "STATS"] {
        for number in 0..5 {
            small().open(&path).expect("opens").close().expect("closes");
            let at = path.join(name);
            let _ = std::fs::remove_file(&at);
            plant(number, &at, &around);
            let kind = || std::fs::symlink_metadata(&at).map(|meta| meta.file_type());
            let before = (kind().expect("is there"), files_in(&around));
            let db = small().open(&path).expect("opens");
            db.put("key", "value").expect("puts");
            db.close().expect("closes");
            let after = (kind().expect("is there"), files_in(&around));
            assert!(after == before, "{name} {number}");
            let error = evendb::destroy(&path).expect_err("it is not ours");
            assert!(error.to_string().contains(name), "{number}: {error}");
            match number {
                3 => std::fs::remove_dir(&at).expect("removes"),
                _ => std::fs::remove_file(&at).expect("removes"),
            }
        }
    }
}

#[test]
fn destroy_goes_through_no_link_and_takes_no_names_that_we_do_not_write() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, link) = (dir.path().join("db"), dir.path().join("link"));
    small().open(&path).expect("opens").close().expect("closes");
    std::os::unix::fs::symlink(&path, &link).expect("links");
    let before = files_in(&path);
    let error = evendb::destroy(&link).expect_err("a link");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("link"), "{error}");
    assert!(files_in(&path) == before);
    let foreign = [
        "COMMIT-LOG.damaged-notes",
        "00000000000000AA.sst",
        "MANIFEST-0000007",
        "CHANGES-0000007",
    ];
    for name in foreign {
        std::fs::write(path.join(name), "foreign").expect("writes");
    }
    small().open(&path).expect("opens").close().expect("closes");
    evendb::destroy(&path).expect("destroys");
    let left: Vec<_> = files_in(&path).into_iter().map(|(name, _)| name).collect();
    let mut foreign = foreign.map(OsString::from);
    foreign.sort();
    assert_eq!(left, foreign);
}

/// A creation that was cut short leaves such names, but other bytes.
#[test]
fn a_creation_removes_no_foreign_file_that_has_the_name_of_a_leftover() {
    let dir = tempfile::tempdir().expect("a directory");
    for name in ["KEYS", "KEYS.tmp", "MANIFEST-000001", "CURRENT.tmp"] {
        let at = dir.path().join(name);
        for (bytes, refusal) in [("a letter", Some(ErrorKind::AlreadyExists)), ("", None)] {
            let path = dir.path().join("db");
            std::fs::create_dir(&path).expect("creates");
            std::fs::write(path.join(name), bytes).expect("writes");
            let opened = small().open(&path);
            if refusal.is_some() {
                let left = files_in(&path);
                assert_eq!(left, [(OsString::from(name), bytes.as_bytes().to_vec())]);
            }
            assert_eq!(kind_of(opened), refusal, "{name}");
            std::fs::remove_dir_all(&path).expect("removes");
        }
        assert!(!at.exists());
    }
}

#[test]
fn a_lock_file_that_holds_something_else_is_locked_as_it_is() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("db");
    small().open(&path).expect("opens").close().expect("closes");
    std::fs::write(path.join("LOCK"), "a letter of somebody").expect("writes");
    let db = small().open(&path).expect("opens");
    assert_eq!(kind_of(small().open(&path)), Some(ErrorKind::Locked));
    db.close().expect("closes");
    let left = std::fs::read(path.join("LOCK")).expect("reads");
    assert_eq!(left, b"a letter of somebody");
}

#[test]
fn no_call_makes_a_database_or_a_file_where_something_lies() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, around) = (dir.path().join("db"), dir.path().join("around"));
    std::fs::create_dir(&around).expect("creates");
    std::fs::write(around.join("photo"), "pixels").expect("writes");
    let db = small().open(&path).expect("opens");
    db.put("key", "value").expect("puts");
    for number in [0, 1, 2, 4] {
        let at = dir.path().join("out");
        plant(number, &at, &around);
        let before = (names_in(dir.path()), files_in(&around));
        let trace = db.start_trace(evendb::TraceOptions::new(&at)).err();
        let errors = [
            trace.expect("something lies there"),
            db.copy_to(&at).expect_err("something lies there"),
            db.default_keyspace()
                .export(&at)
                .expect_err("something lies there"),
        ];
        for error in errors {
            assert!(error.to_string().contains("out"), "{number}: {error}");
        }
        let after = (names_in(dir.path()), files_in(&around));
        assert!(after == before, "{number}");
        std::fs::remove_file(&at).expect("removes");
    }
    db.close().expect("closes");
}

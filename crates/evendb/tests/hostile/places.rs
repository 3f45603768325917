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
    for (name, at, version) in [("CURRENT", 7, b'5'), ("MANIFEST-000001", 8, 1)] {
        let vfs = vfs.fork_state();
        let path = Path::new(DIR).join(name);
        let mut bytes = vfs.read_file(&path);
        assert_eq!(bytes[at], version);
        // The one behind it is that of what is encrypted.
        bytes[at] += 2;
        // The layout may be another one as well.
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

/// Opens a database, reads and writes all over it. The kind of the first error.
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
        // What the link leads to is the very file, so it is the link alone that can be refused.
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
    // Others are not needed, or a file of its own has come in the place of the link.
    for needed in ["CURRENT", "LOCK", "COMMIT-LOG", "CHUNK-LOGS"] {
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

//! Compressed keyspaces: their compression changes while the database lives, and all code that
//! handles tables handles theirs.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

use evendb::inspect::{self, Dump, DumpOptions, DumpValue, InspectOptions};
use evendb::vfs::SimVfs;
use evendb::{Backups, Compression, Db, ErrorKind, Keyspace, KeyspaceOptions, Options};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// The compressions of this build.
fn compressions() -> &'static [Compression] {
    match cfg!(feature = "zstd") {
        true => &[
            Compression::None,
            Compression::Lz4,
            Compression::Zstd { level: 3 },
        ],
        false => &[Compression::None, Compression::Lz4],
    }
}

fn open(vfs: &SimVfs, dir: &str, compression: Compression) -> Db {
    Options::new()
        .memory_budget(4 << 20)
        .workers(0)
        .vfs(Arc::new(vfs.clone()))
        .advanced(|advanced| advanced.munks(false).row_cache(false))
        .compression(compression)
        .open(dir)
        .unwrap()
}

fn files(vfs: &SimVfs) -> InspectOptions<'static> {
    InspectOptions::new().vfs(Arc::new(vfs.clone()))
}

/// Records of one kind, enough for a dictionary.
fn texts(life: usize) -> impl Iterator<Item = (String, String)> {
    (0..3000).step_by(life + 1).map(move |number| {
        let city = number * 7919 % 1009;
        let value = format!(
            "{{\"name\":\"user number {number}\",\"life\":{life},\"city\":\"city of {city}\",\"likes\":[]}}"
        );
        (format!("user{number:06}"), value)
    })
}

fn fill(keyspace: &Keyspace, map: &mut Map, life: usize) {
    for (key, value) in texts(life) {
        keyspace.put(&key, &value).unwrap();
        map.insert(key.into_bytes(), value.into_bytes());
    }
}

fn contents(keyspace: &Keyspace) -> Map {
    let items = keyspace.iter().map(|item| item.unwrap());
    items
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect()
}

fn check(keyspace: &Keyspace, map: &Map) {
    assert!(contents(keyspace) == *map);
    let back = keyspace.iter().rev().map(|item| item.unwrap().0.to_vec());
    assert!(back.eq(map.keys().rev().cloned()));
    for (key, value) in map.iter().step_by(13) {
        assert_eq!(keyspace.get(key).unwrap().unwrap(), value[..]);
    }
}

/// The codecs of all blocks in the closed database's tables.
fn codecs(vfs: &SimVfs, dir: &str) -> BTreeSet<String> {
    let mut tables = Vec::new();
    let mut found = BTreeSet::new();
    for name in vfs.file_names(Path::new(dir)) {
        tables.extend(name.ends_with(".sst").then_some(name));
    }
    for table in tables {
        let options = DumpOptions::default();
        inspect::dump(
            dir,
            &Dump::Table(table),
            &options,
            files(vfs),
            &mut |item| {
                let field = item
                    .fields
                    .iter()
                    .find(|field| item.kind == "block" && field.0 == "codec");
                if let Some((_, DumpValue::Text(codec))) = field {
                    found.insert(codec.clone());
                }
                ControlFlow::Continue(())
            },
        )
        .unwrap();
    }
    found
}

#[test]
fn tables_are_read_whatever_is_chosen_now_and_written_as_chosen() {
    let vfs = SimVfs::new(1);
    let mut map = Map::new();
    let mut life = 0;
    for &before in compressions() {
        for &after in compressions() {
            let db = open(&vfs, "/db", before);
            fill(db.default_keyspace(), &mut map, life);
            // A run over tables of the compression before.
            db.flush().unwrap();
            check(db.default_keyspace(), &map);
            db.compact().unwrap();
            db.close().unwrap();
            let kinds = codecs(&vfs, "/db");
            let packed = match before {
                Compression::None => "none",
                Compression::Lz4 => "lz4",
                Compression::Zstd { .. } => "zstd-dictionary",
            };
            assert!(kinds.contains(packed), "{kinds:?} with {before}");
            assert!(inspect::verify("/db", files(&vfs)).unwrap().is_sound());
            let db = open(&vfs, "/db", after);
            check(db.default_keyspace(), &map);
            db.close().unwrap();
            life = (life + 1) % 3;
        }
    }
}

#[test]
fn an_option_of_the_keyspace_outlives_the_opening_and_is_changed() {
    let vfs = SimVfs::new(2);
    for &chosen in compressions() {
        let options = KeyspaceOptions::new().compression(chosen);
        let db = open(&vfs, "/db", Compression::None);
        let keyspace = db.keyspace("texts").unwrap();
        keyspace.set_options(&options).unwrap();
        drop(keyspace);
        db.close().unwrap();
        let db = open(&vfs, "/db", Compression::None);
        let keyspace = db.keyspace_with("texts", &options).unwrap();
        fill(&keyspace, &mut Map::new(), 0);
        db.compact().unwrap();
        let share = db.stats().table_bytes_per_data_byte();
        match chosen {
            Compression::None => assert!(share > 0.9, "{share}"),
            Compression::Lz4 => assert!(share < 0.6, "{share}"),
            Compression::Zstd { .. } => assert!(share < 0.35, "{share}"),
        }
        drop(keyspace);
        db.close().unwrap();
    }
}

#[test]
fn copies_backups_exports_and_repairs_hold_what_compressed_tables_do() {
    for &compression in &compressions()[1..] {
        let vfs = SimVfs::new(3);
        let db = open(&vfs, "/db", compression);
        let mut map = Map::new();
        db.ingest(texts(0)).unwrap();
        map.extend(texts(0).map(|(key, value)| (key.into_bytes(), value.into_bytes())));
        fill(db.default_keyspace(), &mut map, 1);
        db.compact().unwrap();
        fill(db.default_keyspace(), &mut map, 2);
        db.flush().unwrap();
        db.copy_to("/copy").unwrap();
        db.backup("/backups").unwrap();
        db.default_keyspace().export("/exported").unwrap();
        db.close().unwrap();
        let backups = Backups::at("/backups").vfs(Arc::new(vfs.clone()));
        backups.verify(None).unwrap();
        backups.restore(None, "/restored").unwrap();
        let repaired = inspect::repair("/db", "/repaired", Default::default(), files(&vfs));
        assert!(repaired.unwrap().is_complete());
        for dir in ["/db", "/copy", "/restored", "/repaired"] {
            let db = open(&vfs, dir, Compression::None);
            check(db.default_keyspace(), &map);
            db.close().unwrap();
        }
        let db = open(&vfs, "/imported", compression);
        db.default_keyspace().import("/exported").unwrap();
        check(db.default_keyspace(), &map);
        db.close().unwrap();
    }
}

#[test]
fn damage_of_compressed_tables_is_corruption_of_that_file() {
    for &compression in &compressions()[1..] {
        let vfs = SimVfs::new(4);
        let db = open(&vfs, "/db", compression);
        let mut map = Map::new();
        fill(db.default_keyspace(), &mut map, 0);
        db.compact().unwrap();
        db.close().unwrap();
        let names = vfs.file_names(Path::new("/db"));
        let name = names.iter().find(|name| name.ends_with(".sst")).unwrap();
        let path = Path::new("/db").join(name);
        let len = vfs.read_file(&path).len();
        for at in (0..len).step_by(len / 40) {
            let machine = vfs.fork_state();
            let mut bytes = machine.read_file(&path);
            bytes[at] ^= 1 << (at % 8);
            machine.write_file(&path, bytes);
            let db = open(&machine, "/db", compression);
            let read: evendb::Result<Vec<_>> = db.iter().collect();
            let error = read.expect_err("damage is not noticed");
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
            assert!(error.to_string().contains(name.as_str()), "{error}");
            let _ = db.close();
            let report = inspect::verify("/db", files(&machine)).unwrap();
            assert!(!report.is_sound());
        }
    }
}

#[cfg(not(feature = "zstd"))]
#[test]
fn what_this_build_lacks_is_refused_by_name_and_leaves_everything_as_it_was() {
    let vfs = SimVfs::new(5);
    let db = open(&vfs, "/db", Compression::None);
    let zstd = Compression::Zstd { level: 3 };
    let options = KeyspaceOptions::new().compression(zstd);
    let refused = [
        db.default_keyspace().set_options(&options).unwrap_err(),
        db.keyspace_with("texts", &options).map(drop).unwrap_err(),
        Options::new()
            .vfs(Arc::new(vfs.clone()))
            .compression(zstd)
            .open("/other")
            .map(drop)
            .unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("feature `zstd`"), "{error}");
    }
    assert!(!db.keyspace_exists("texts"));
    assert_eq!(
        db.default_keyspace().options().unwrap(),
        KeyspaceOptions::new()
    );
    assert!(vfs.file_names(Path::new("/other")).is_empty());
}

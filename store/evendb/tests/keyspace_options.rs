//! Options that keyspaces have of their own: recorded, refused where they contradict, and applied.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

#[path = "common/layout.rs"]
mod layout;

use evendb::vfs::SimVfs;
use evendb::{Compression, Db, ErrorKind, Keyspace, KeyspaceOptions, Options};
use layout::{has_chunks, recorded};
use std::sync::Arc;

fn options(vfs: &SimVfs) -> Options {
    layout::options()
        .memory_budget(4 << 20)
        .workers(0)
        .vfs(Arc::new(vfs.clone()))
        .advanced(|advanced| advanced.munks(false))
}

fn open(vfs: &SimVfs) -> Db {
    options(vfs).open("/db").unwrap()
}

fn fill(keyspace: &Keyspace) {
    for n in 0..2000 {
        keyspace.put(format!("{n:05}"), [b'x'; 100]).unwrap();
    }
}

fn disk_bytes(keyspace: &Keyspace) -> u64 {
    let size = keyspace.approximate_size::<&str>(..).unwrap();
    assert_eq!(size.records, 2000);
    size.disk_bytes
}

#[test]
fn options_are_recorded_and_what_contradicts_them_is_refused() {
    let vfs = SimVfs::new(1);
    let chosen = KeyspaceOptions::new()
        .compression(Compression::Lz4)
        .filter_bits_per_key(10)
        .block_bytes(8192)
        .row_cache(false);
    let db = open(&vfs);
    db.keyspace_with("own", &chosen).unwrap();
    db.keyspace("plain").unwrap();
    db.close().unwrap();

    let db = open(&vfs);
    assert_eq!(
        db.keyspace("own").unwrap().options().unwrap(),
        recorded(chosen.clone())
    );
    let plain = db.keyspace("plain").unwrap().options().unwrap();
    assert_eq!(plain, recorded(KeyspaceOptions::new()));
    db.keyspace_with("own", &chosen).unwrap();
    db.keyspace_with("own", &KeyspaceOptions::new()).unwrap();
    db.keyspace_with("own", &KeyspaceOptions::new().block_bytes(8192))
        .unwrap();
    let refused = |name: &str, options: KeyspaceOptions, parts: [&str; 3]| {
        let error = db.keyspace_with(name, &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let text = error.to_string();
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    };
    let new = KeyspaceOptions::new;
    let none = new().compression(Compression::None);
    refused("own", none, ["own", "compression lz4", "none was asked"]);
    let bits = new().filter_bits_per_key(8);
    refused(
        "own",
        bits.clone(),
        ["filter_bits_per_key 10", "8", "set_options"],
    );
    let rows = new().row_cache(true);
    refused("own", rows, ["row_cache off", "on was asked", "own"]);
    refused(
        "plain",
        bits,
        ["no filter_bits_per_key of its own", "8", "plain"],
    );
    let too_many = new().filter_bits_per_key(65);
    refused("new", too_many, ["filter_bits_per_key", "64", "65"]);
    let too_small = new().block_bytes(1);
    refused("new", too_small, ["block_bytes", "64", "1"]);
    assert!(!db.keyspace_exists("new"), "nothing was made");
}

#[test]
fn options_are_changed_and_go_with_their_keyspace() {
    let vfs = SimVfs::new(2);
    let lz4 = KeyspaceOptions::new().compression(Compression::Lz4);
    let db = open(&vfs);
    let keyspace = db
        .keyspace_with("own", &lz4.clone().row_cache(false))
        .unwrap();
    keyspace.set_options(&lz4).unwrap();
    db.default_keyspace().set_options(&lz4).unwrap();
    // They are properties, which no other call may set.
    let property = keyspace.property("evendb.option.compression").unwrap();
    assert_eq!(property.unwrap(), b"lz4");
    let refused = keyspace.set_property("evendb.option.compression", "zstd");
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let refused = keyspace.remove_property("evendb.option.compression");
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    drop(keyspace);
    db.close().unwrap();

    let db = open(&vfs);
    assert_eq!(
        db.keyspace("own").unwrap().options().unwrap(),
        recorded(lz4.clone())
    );
    assert_eq!(
        db.default_keyspace().options().unwrap(),
        recorded(lz4.clone())
    );
    db.drop_keyspace("own").unwrap();
    let again = db.keyspace("own").unwrap();
    assert_eq!(again.options().unwrap(), recorded(KeyspaceOptions::new()));
    db.close().unwrap();
    let db = options(&vfs).read_only(true).open("/db").unwrap();
    let error = db.default_keyspace().set_options(&lz4).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
    let error = db.keyspace_with("another", &lz4).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
}

#[test]
fn compression_holds_for_tables_and_logs_of_one_keyspace() {
    let vfs = SimVfs::new(3);
    let lz4 = KeyspaceOptions::new().compression(Compression::Lz4);
    let db = open(&vfs);
    let (packed, plain) = (
        db.keyspace_with("packed", &lz4).unwrap(),
        db.keyspace("plain").unwrap(),
    );
    for life in 0..2 {
        fill(&packed);
        fill(&plain);
        db.flush().unwrap();
        if life == 0 {
            assert!(
                4 * disk_bytes(&packed) < disk_bytes(&plain),
                "tables as they came"
            );
        }
        db.compact().unwrap();
        assert!(4 * disk_bytes(&packed) < disk_bytes(&plain), "tables");
    }
    drop((packed, plain));
    db.close().unwrap();
    // The database's own option differs now.
    let db = options(&vfs)
        .compression(Compression::Lz4)
        .open("/db")
        .unwrap();
    let none = KeyspaceOptions::new().compression(Compression::None);
    let plain = db.keyspace_with("as it is", &none).unwrap();
    let packed = db.keyspace("plain").unwrap();
    fill(&plain);
    fill(&packed);
    db.compact().unwrap();
    assert!(4 * disk_bytes(&packed) < disk_bytes(&plain));
}

#[test]
fn filters_and_rows_are_as_each_keyspace_has_them() {
    let vfs = SimVfs::new(4);
    let db = open(&vfs);
    let chosen = KeyspaceOptions::new()
        .filter_bits_per_key(12)
        .row_cache(false);
    let (own, plain) = (
        db.keyspace_with("own", &chosen).unwrap(),
        db.keyspace_with("plain", &KeyspaceOptions::new().filter_bits_per_key(0))
            .unwrap(),
    );
    fill(&own);
    fill(&plain);
    db.compact().unwrap();
    let reads_of_absent = |keyspace: &Keyspace| {
        let before = db.stats().block_reads;
        for n in 0..200 {
            assert!(keyspace.get(format!("{n:05}x")).unwrap().is_none());
        }
        db.stats().block_reads - before
    };
    assert!(reads_of_absent(&own) < 10);
    // Runs have filters in any case, and go down the levels of guards as they are.
    assert_eq!(reads_of_absent(&plain), if has_chunks() { 200 } else { 0 });
    let rows_found = |keyspace: &Keyspace| {
        let before = db.stats().gets.row_cache;
        for _ in 0..3 {
            assert!(keyspace.get("00007").unwrap().is_some());
        }
        db.stats().gets.row_cache - before
    };
    assert_eq!(rows_found(&own), 0);
    assert_eq!(rows_found(&plain), 2);
}

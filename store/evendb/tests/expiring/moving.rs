//! Values that expire, on their way to another database: exports, imports, ingests.

use crate::common::on_sim;
use crate::{Hands, by, day, get, open, records, seconds};
use evendb::vfs::{CrashMode, SimVfs};
use evendb::{Durability, KeyspaceOptions, Merges};

/// An export keeps times wherever the records lie, and leaves out expired records.
#[test]
fn an_export_and_its_import_keep_times() {
    for stage in 0..3 {
        let vfs = SimVfs::new(20);
        let hands = Hands::at(100);
        let db = open(&vfs, &hands);
        let keyspace = db.default_keyspace();
        let merging = KeyspaceOptions::new().merge_operator(Merges::Append);
        keyspace.set_options(&merging).expect("sets");
        db.put("a", "stays").expect("puts");
        keyspace
            .put_with_ttl("b", "soon", seconds(10))
            .expect("puts");
        keyspace
            .put_with_ttl("c", "late", seconds(50))
            .expect("puts");
        keyspace
            .put_with_ttl("d", "base", seconds(50))
            .expect("puts");
        if stage > 0 {
            db.settle_debt().expect("settles");
        }
        keyspace.merge("d", "+operand").expect("merges");
        if stage > 1 {
            db.flush().expect("a checkpoint");
        }
        hands.set(120);
        let done = keyspace.export("/exported").expect("exports");
        assert_eq!(done.records, 3);
        let other = by(on_sim(&vfs, Durability::Process, 0), &hands);
        let other = other.open("/other").expect("opens");
        // A time to live of the keyspace does not apply to imported records.
        let living = KeyspaceOptions::new().ttl(seconds(1));
        let into = other.keyspace_with("into", &living).expect("creates");
        let imported = into.import("/exported").expect("imports");
        assert_eq!(imported.records, 3);
        let check = |what: &str, there: [Option<&str>; 4]| {
            for (key, expected) in ["a", "b", "c", "d"].into_iter().zip(there) {
                let expected = expected.map(|value| value.as_bytes().to_vec());
                assert_eq!(get(&into, key), expected, "{key}, {what}, stage {stage}");
            }
            let count = there.iter().flatten().count();
            assert_eq!(into.iter().count(), count, "{what}, stage {stage}");
        };
        let merged = Some("base+operand");
        check("at once", [Some("stays"), None, Some("late"), merged]);
        hands.set(150);
        check("at its time", [Some("stays"), None, None, merged]);
        other.compact().expect("compacts");
        check("compacted", [Some("stays"), None, None, merged]);
    }
}

#[test]
fn what_is_ingested_may_expire() {
    let mut vfs = SimVfs::new(21);
    let hands = Hands::at(100);
    let db = open(&vfs, &hands);
    let keyspace = db.default_keyspace();
    db.put("b", "older").expect("puts");
    // No other write has told the database that anything expires.
    let mut ingest = keyspace.begin_ingest().expect("begins");
    ingest.put("a", "stays").expect("takes");
    ingest
        .put_expiring_at("b", "till then", day(110))
        .expect("takes");
    ingest
        .put_expiring_at("c", "gone", day(100))
        .expect("takes");
    ingest.finish().expect("ingests");
    let keys = |db: &evendb::Db| {
        let keys = db.default_keyspace().keys::<&str>(..);
        let keys = keys.map(|key| String::from_utf8(key.expect("scans").to_vec()));
        keys.collect::<Result<Vec<_>, _>>().expect("text")
    };
    assert_eq!(keys(&db), ["a", "b"]);
    assert_eq!(get(keyspace, "b"), Some(b"till then".to_vec()));
    let machine = vfs.crash(CrashMode::PowerLossNothing);
    drop(db);
    vfs = machine;
    let db = open(&vfs, &hands);
    assert_eq!(keys(&db), ["a", "b"]);
    hands.set(110);
    assert_eq!(keys(&db), ["a"]);
    assert_eq!(get(db.default_keyspace(), "b"), None, "not the older one");
    db.compact().expect("compacts");
    assert_eq!(keys(&db), ["a"]);
    assert_eq!(records(&vfs, &db), 1);
}

//! Files that are slow: writes that stand, and more reads at once than there are readers.

use super::executor::{block_on, drive, poll_once, until};
use super::files::{Files, key, value};
use crate::common::DIR;
use evendb::{Durability, GetFuture, KeyspaceOptions, Merges, Options};

/// Options with which records in files are read from there.
fn nothing_in_ram(options: Options) -> Options {
    options.advanced(|advanced| {
        let advanced = advanced.munks(false).row_cache(false);
        advanced.warm_reopening(false)
    })
}

/// A4: nothing is read back from a file before its write has returned. While the writes of a
/// checkpoint stand, memory answers.
#[test]
fn a04_records_are_read_from_memory_until_their_write_has_returned() {
    let files = Files::new();
    let options = || nothing_in_ram(files.options(Durability::Process, 1));
    let db = options().open(DIR).unwrap();
    for number in 0..200 {
        db.put(key(number), "old").unwrap();
    }
    db.flush().unwrap();
    for number in 0..200 {
        db.put(key(number), value(number)).unwrap();
    }
    files.hold_writes(true);
    let flush = {
        let db = db.clone();
        std::thread::spawn(move || db.flush())
    };
    until("a write stands", || files.standing() > 0);
    let expected = |number| (key(number).into_bytes(), value(number));
    let all = |db: &evendb::Db| -> Vec<(Vec<u8>, Vec<u8>)> {
        let records = db.iter().map(|record| record.unwrap());
        records.map(|(k, v)| (k.to_vec(), v.to_vec())).collect()
    };
    for number in 0..200 {
        assert_eq!(*db.get(key(number)).unwrap().unwrap(), *value(number));
        let found = block_on(db.get_async(key(number))).unwrap().unwrap();
        assert_eq!(*found, *value(number));
    }
    assert!(all(&db).into_iter().eq((0..200).map(expected)));
    assert!(!flush.is_finished(), "its writes stand");
    files.hold_writes(false);
    flush.join().unwrap().unwrap();
    assert!(all(&db).into_iter().eq((0..200).map(expected)));
    db.close().unwrap();
    let db = options().open(DIR).unwrap();
    assert!(all(&db).into_iter().eq((0..200).map(expected)));
}

/// A6: no read waits for another read, whatever it has to fold or to fetch; and a commit needs no
/// reader.
#[test]
fn a06_more_reads_of_every_kind_than_readers() {
    let files = Files::new();
    let options = || {
        let options = nothing_in_ram(files.options(Durability::Process, 1));
        options.advanced(|advanced| advanced.values_apart_from(Some(200)))
    };
    let adding = KeyspaceOptions::new().merge_operator(Merges::AddU64);
    {
        let db = options().open(DIR).unwrap();
        let counters = db.keyspace_with("counters", &adding).unwrap();
        for number in 0..100 {
            counters.put(key(number), 1u64.to_le_bytes()).unwrap();
            db.put(key(number), [number as u8; 300]).unwrap();
        }
        db.flush().unwrap();
        for number in 0..100 {
            counters.merge(key(number), 2u64.to_le_bytes()).unwrap();
        }
        db.flush().unwrap();
        db.close().unwrap();
    }
    let db = options().open(DIR).unwrap();
    let counters = db.keyspace_with("counters", &adding).unwrap();
    files.hold_reads(true);
    let mut gets: Vec<GetFuture> = (0..1000)
        .map(|number| match number % 2 {
            0 => counters.get_async(key(number / 2 % 100)),
            _ => db.get_async(key(number / 2 % 100)),
        })
        .collect();
    assert!(gets.iter_mut().all(|get| poll_once(get).is_pending()));
    let mut range = db.range_async::<&str>(..);
    let mut first = range.next_chunk();
    assert!(poll_once(&mut first).is_pending());
    until("a read stands", || files.standing() > 0);
    let mut batch = db.batch();
    batch
        .put(db.default_keyspace(), "z", "")
        .durability(Durability::Sync);
    block_on(batch.commit_async()).unwrap();
    files.hold_reads(false);
    let (found, _) = drive(gets);
    for (number, found) in found.into_iter().enumerate() {
        let found = found.unwrap().unwrap();
        match number % 2 {
            0 => assert_eq!(found, 3u64.to_le_bytes()),
            _ => assert_eq!(found, [(number / 2 % 100) as u8; 300]),
        }
    }
    let first = block_on(first).unwrap().unwrap();
    assert_eq!(first[0].0, key(0));
}

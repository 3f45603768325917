//! The change feed in a process beside the writer's: each write comes once and in order, over
//! checkpoints, laps and lives; and a reader's moment with the changes since its position is
//! everything, and nothing twice.

#![expect(
    clippy::unwrap_used,
    reason = "a test, which may end at the first surprise"
)]

mod common;

use common::following::{LAYOUTS, WITH_LOG, on_sim};
use common::{DIR, scramble};
use evendb::vfs::SimVfs;
use evendb::{
    Changes, Db, Durability, ErrorKind, Keyspace, KeyspaceOptions, Layout, Merges, Position,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

fn tail_of(feed: &mut Changes, numbers: &mut Vec<u64>) -> Result<(), evendb::Error> {
    for change in feed {
        for write in change?.writes() {
            if write.key == b"n" {
                let text = std::str::from_utf8(write.value.unwrap()).unwrap();
                numbers.push(text.split(':').next().unwrap().parse().unwrap());
            }
        }
    }
    Ok(())
}

/// D7: the feed in the reader's process gives each write once and in order, over checkpoints, over
/// laps of the log and over lives of the writer; a reader that sleeps for laps is told.
#[test]
fn the_change_feed_is_followed() {
    for layout in LAYOUTS {
        for level in WITH_LOG {
            for mapped in [true, false] {
                let vfs = SimVfs::new(1);
                let options = || {
                    on_sim(&vfs, layout, level)
                        .advanced(|advanced| advanced.commit_log_mapped(mapped))
                };
                let mut db = options().open(DIR).unwrap();
                // At sync level records that a checkpoint has are otherwise not written.
                let start = db.position().unwrap();
                let mut reader = options().open_beside_writer(DIR).unwrap();
                let mut feed = reader.changes_since(&start).unwrap();
                let (mut seen, mut number) = (Vec::new(), 0_u64);
                let mut refreshed = 0;
                for round in 0..60_u64 {
                    for _ in 0..1 + scramble(round) % 30 {
                        number += 1;
                        db.put("n", format!("{number}:{}", "v".repeat(120)))
                            .unwrap();
                        db.put("other", "x").unwrap();
                    }
                    match round % 7 {
                        2 => db.flush().unwrap(),
                        5 => {
                            db.close().unwrap();
                            db = options().open(DIR).unwrap();
                            db.position().unwrap();
                        }
                        _ => {}
                    }
                    while let Err(error) = tail_of(&mut feed, &mut seen) {
                        assert_eq!(error.kind(), ErrorKind::Stale, "{error}");
                        let position: Position = feed.position().to_string().parse().unwrap();
                        reader = reader.refresh().unwrap();
                        feed = reader.changes_since(&position).unwrap();
                        refreshed += 1;
                    }
                    // A put is there at once, at sync level when it is durable.
                    if round % 7 < 5 {
                        assert_eq!(seen.last(), Some(&number), "{layout:?} {level:?} {round}");
                    }
                }
                assert!(seen.iter().copied().eq(1..=number), "{seen:?}");
                assert!(refreshed > 0);
                // It waits, by looking.
                assert!(!feed.wait(Duration::from_millis(2)).unwrap());
                db.put("n", "9999").unwrap();
                assert!(
                    feed.next_timeout(Duration::from_secs(20))
                        .unwrap()
                        .is_some()
                );
                // It sleeps while the log goes round.
                for _ in 0..1_000 {
                    db.put("n", "8888".repeat(40)).unwrap();
                }
                let mut again = feed.since(&start);
                for _ in 0..3 {
                    let error = match again {
                        Ok(mut feed) => feed.next().unwrap().unwrap_err(),
                        Err(error) => error,
                    };
                    if error.kind() == ErrorKind::ChangesGone {
                        again = Err(error);
                        break;
                    }
                    assert_eq!(error.kind(), ErrorKind::Stale, "{error}");
                    reader = reader.refresh().unwrap();
                    again = reader.changes_since(&start);
                }
                assert_eq!(again.err().unwrap().kind(), ErrorKind::ChangesGone);
            }
        }
    }
}

/// The keyspace, key and length of the value of each put that a feed gives.
fn puts_of(feed: &mut Changes) -> Vec<(String, Vec<u8>, usize)> {
    let mut puts = Vec::new();
    for change in feed {
        for write in change.unwrap().writes() {
            let bytes = write.value.unwrap().len();
            puts.push((write.keyspace.to_owned(), write.key.to_vec(), bytes));
        }
    }
    puts
}

/// A keyspace that was made after the reader's moment is not one that was dropped: no write to it
/// is passed over, and its batch comes whole from a newer moment.
#[test]
fn keyspaces_that_are_newer_than_the_moment_are_told() {
    for level in WITH_LOG {
        let vfs = SimVfs::new(1);
        let options = || on_sim(&vfs, Layout::Chunks, level);
        let db = options().open(DIR).unwrap();
        let start = db.position().unwrap();
        let mut reader = options().open_beside_writer(DIR).unwrap();
        let mut feed = reader.changes_since(&start).unwrap();
        db.put("a", "1").unwrap();
        let put = |keyspace: &str, key: &[u8]| (keyspace.to_owned(), key.to_vec(), 1);
        let default = db.default_keyspace().name();
        assert_eq!(puts_of(&mut feed), [put(default, b"a")]);
        let new = db.keyspace("new").unwrap();
        let mut batch = db.batch();
        batch.put(db.default_keyspace(), "b", "2");
        batch.put(&new, "n", "3");
        batch.commit().unwrap();
        db.put("c", "4").unwrap();
        let before = feed.position();
        let error = feed.next().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Stale, "{error}");
        assert!(error.to_string().contains("newer than this moment"));
        assert_eq!(feed.position(), before);
        // A watch of a keyspace that the moment has goes on.
        let mut watch = reader
            .default_keyspace()
            .watch_prefix("")
            .unwrap()
            .since(&before)
            .unwrap();
        let both = [put(default, b"b"), put(default, b"c")];
        assert_eq!(puts_of(&mut watch), both);
        reader = reader.refresh().unwrap();
        feed = reader.changes_since(&before).unwrap();
        let all = [put(default, b"b"), put("new", b"n"), put(default, b"c")];
        assert_eq!(puts_of(&mut feed), all);
    }
}

/// A watch or feed hears that a keyspace that its moment has was dropped or renamed: when nothing
/// more is there, and while it waits. A watch of another keyspace goes on, and keyspaces that were
/// made since are no reason.
#[test]
fn keyspaces_that_were_dropped_or_renamed_are_told() {
    for layout in LAYOUTS {
        for level in WITH_LOG {
            for renames in [false, true] {
                let vfs = SimVfs::new(1);
                let options = || on_sim(&vfs, layout, level);
                let db = options().open(DIR).unwrap();
                let (jobs, other) = (db.keyspace("jobs").unwrap(), db.keyspace("other").unwrap());
                db.flush().unwrap();
                let reader = options().open_beside_writer(DIR).unwrap();
                let watch = |name: &str| {
                    let keyspace = reader.keyspace(name).unwrap();
                    keyspace.watch_prefix("").unwrap()
                };
                let mut watches = [watch("jobs"), watch("jobs"), watch("other")];
                let position = reader.position().unwrap();
                let mut feed = reader.changes_since(&position).unwrap();
                jobs.put("a", "1").unwrap();
                other.put("b", "1").unwrap();
                db.keyspace("new").unwrap();
                db.flush().unwrap();
                let put = |keyspace: &str, key: &[u8]| (keyspace.to_owned(), key.to_vec(), 1);
                assert_eq!(puts_of(&mut watches[0]), [put("jobs", b"a")]);
                assert_eq!(puts_of(&mut watches[2]), [put("other", b"b")]);
                assert_eq!(puts_of(&mut feed).len(), 2);
                let told = |error: evendb::Error| {
                    assert_eq!(error.kind(), ErrorKind::Stale, "{error}");
                    assert!(error.to_string().contains("dropped or renamed"), "{error}");
                };
                // One that waits hears it, too.
                let (tell, begun) = std::sync::mpsc::channel();
                let [mut watch, mut waiting, mut others] = watches;
                let waits = std::thread::spawn(move || {
                    assert_eq!(puts_of(&mut waiting).len(), 1);
                    tell.send(()).unwrap();
                    waiting.next_blocking().unwrap_err()
                });
                begun.recv().unwrap();
                match renames {
                    false => db.drop_keyspace("jobs").unwrap(),
                    true => db.rename_keyspace("jobs", "work").unwrap(),
                }
                told(waits.join().unwrap());
                told(watch.next().unwrap().unwrap_err());
                let before = feed.position();
                told(feed.next().unwrap().unwrap_err());
                assert_eq!(feed.position(), before);
                other.put("c", "1").unwrap();
                assert_eq!(puts_of(&mut others), [put("other", b"c")]);
                assert_eq!(puts_of(&mut others), []);
                let newer = reader.refresh().unwrap();
                assert!(!newer.keyspace_exists("jobs"));
                let mut feed = newer.changes_since(&before).unwrap();
                assert_eq!(puts_of(&mut feed), [put("other", b"c")]);
                assert_eq!(puts_of(&mut feed), []);
            }
        }
    }
}

/// It is heard while there is always more to read, too.
#[test]
fn a_dropped_keyspace_is_told_among_other_changes() {
    for level in WITH_LOG {
        let vfs = SimVfs::new(1);
        let options = || {
            let options = on_sim(&vfs, Layout::Chunks, level);
            // As often as that the log of the moment is there.
            options.advanced(|advanced| advanced.commit_log_bytes(1 << 20))
        };
        let db = options().open(DIR).unwrap();
        let jobs = db.keyspace("jobs").unwrap();
        db.flush().unwrap();
        let reader = options().open_beside_writer(DIR).unwrap();
        let mut watch = reader.keyspace("jobs").unwrap().watch_prefix("").unwrap();
        jobs.put("a", "1").unwrap();
        assert_eq!(puts_of(&mut watch).len(), 1);
        db.drop_keyspace("jobs").unwrap();
        let mut rounds = 0;
        let error = loop {
            // Never at the end: one more comes before each look.
            db.put("elsewhere", [7; 100]).unwrap();
            match watch.next() {
                Some(told) => break told.unwrap_err(),
                None => rounds += 1,
            }
            assert!(rounds < 10_000, "a lap has passed");
        };
        assert_eq!(error.kind(), ErrorKind::Stale, "{error}");
    }
}

/// Values in files that are newer than the reader's moment are there.
#[test]
fn values_in_newer_files_are_read() {
    for level in WITH_LOG {
        let vfs = SimVfs::new(1);
        let options = || on_sim(&vfs, Layout::Chunks, level);
        let options = || options().advanced(|advanced| advanced.values_apart_from(Some(100)));
        let db = options().open(DIR).unwrap();
        let start = db.position().unwrap();
        let reader = options().open_beside_writer(DIR).unwrap();
        let mut feed = reader.changes_since(&start).unwrap();
        let default = db.default_keyspace().name();
        for key in ["a", "b"] {
            db.put(key, [7; 300]).unwrap();
            let put = (default.to_owned(), key.as_bytes().to_vec(), 300);
            assert_eq!(puts_of(&mut feed), [put], "{level:?}");
        }
    }
}

fn sum_of(value: &[u8]) -> u64 {
    u64::from_le_bytes(value.try_into().unwrap())
}

type Sums = BTreeMap<Vec<u8>, u64>;

fn sums_of(keyspace: &Keyspace) -> evendb::Result<Sums> {
    let owned = |item: evendb::Result<(evendb::Value, evendb::Value)>| {
        item.map(|(key, value)| (key.to_vec(), sum_of(&value)))
    };
    keyspace.iter().map(owned).collect()
}

/// Adds what a reader's feed gives. When the log went on elsewhere, a newer moment goes on from the
/// feed's position; returns how often. The error is `ChangesGone`.
fn add_all(mut reader: Db, mut feed: Changes, sums: &mut Sums) -> evendb::Result<u32> {
    let mut stale = 0;
    loop {
        match feed.next() {
            None => return Ok(stale),
            Some(Err(error)) if error.kind() == ErrorKind::ChangesGone => return Err(error),
            Some(Err(error)) => {
                assert_eq!(error.kind(), ErrorKind::Stale, "{error}");
                stale += 1;
                assert!(stale < 20, "{error}");
                let position = feed.position();
                reader = reader.refresh().unwrap();
                feed = match reader.changes_since(&position) {
                    Err(error) if error.kind() == ErrorKind::ChangesGone => return Err(error),
                    feed => feed.unwrap(),
                };
            }
            Some(Ok(change)) => {
                for write in change.writes() {
                    let sum: u64 = write.operands.unwrap().iter().map(sum_of).sum();
                    *sums.entry(write.key.to_vec()).or_default() += sum;
                }
            }
        }
    }
}

/// The same while several threads write and another one runs checkpoints: then records of a
/// completed checkpoint lie behind the place where a replay would begin.
#[test]
fn a_moment_among_writers_and_its_position_fit() {
    let (mut looked, mut behind, mut stale, mut gone) = (0, 0, 0, 0);
    for layout in LAYOUTS {
        for level in WITH_LOG {
            let vfs = SimVfs::new(1);
            let options = || {
                on_sim(&vfs, layout, level)
                    .memory_budget(16 << 20)
                    .workers(1)
                    .advanced(|advanced| advanced.commit_log_bytes(4 << 20))
            };
            let db = options().open(DIR).unwrap();
            // The log must not go round before the readers' feeds have given its changes, at the
            // end. It goes round in the room that it has, so it gets enough for all of them: it
            // grows while no checkpoint has what was put.
            for number in 0..4_000_u32 {
                db.put(format!("{number:08}"), [7; 100]).unwrap();
            }
            db.flush().unwrap();
            // What it gives at the end shows that the log has not gone round.
            let unread = db.changes_since(&db.position().unwrap()).unwrap();
            let adding = KeyspaceOptions::new().merge_operator(Merges::AddU64);
            let sums = db.keyspace_with("sums", &adding).unwrap();
            let (writing, opened) = (AtomicU32::new(3), AtomicU32::new(0));
            let mut readers = Vec::new();
            std::thread::scope(|scope| {
                for writer in 0..3_u64 {
                    let (sums, writing, opened) = (&sums, &writing, &opened);
                    scope.spawn(move || {
                        for step in 0..800 {
                            // So that some readers are certainly behind at the end. At sync level
                            // records that no sync has written may keep readers out until more
                            // is written.
                            let waits = step == 400 && level == Durability::Process;
                            while waits && opened.load(Ordering::Relaxed) < 2 {
                                std::thread::yield_now();
                            }
                            let key = format!("k{}", scramble(writer << 32 | step) % 7);
                            sums.merge(key, 1_u64.to_le_bytes()).unwrap();
                        }
                        writing.fetch_sub(1, Ordering::Relaxed);
                    });
                }
                let (flushing, writing) = (&db, &writing);
                scope.spawn(move || {
                    while writing.load(Ordering::Relaxed) > 0 {
                        flushing.flush().unwrap();
                    }
                });
                while writing.load(Ordering::Relaxed) > 0 && readers.len() < 30 {
                    let Ok(reader) = options().open_beside_writer(DIR) else {
                        continue;
                    };
                    let theirs = reader.keyspace("sums").unwrap();
                    // The writer may have gone on; then nothing is known of this moment.
                    let begun = sums_of(&theirs).and_then(|found| {
                        let feed = reader.changes_since(&reader.position()?)?;
                        Ok((found, feed))
                    });
                    match begun {
                        Ok((found, feed)) => {
                            readers.push((reader, found, feed));
                            opened.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Stale, "{error}"),
                    }
                }
            });
            // One more sync, for records that a checkpoint took and no sync has written yet.
            sums.merge("last", 1_u64.to_le_bytes()).unwrap();
            let expected = sums_of(&sums).unwrap();
            assert_eq!(expected.values().sum::<u64>(), 2_401);
            if level == Durability::Process {
                assert_eq!(unread.filter(Result::is_ok).count(), 2_401);
            }
            for (reader, mut found, feed) in readers {
                looked += 1;
                behind += u32::from(found != expected);
                match add_all(reader, feed, &mut found) {
                    Ok(times) => {
                        stale += times;
                        assert_eq!(found, expected, "{layout:?} {level:?}");
                    }
                    // At sync level a checkpoint may take records that no sync has written. That
                    // is told, and no change is left out in silence.
                    Err(error) => {
                        assert_eq!(level, Durability::Sync, "{error}");
                        gone += 1;
                    }
                }
            }
        }
    }
    println!("{looked} readers, {behind} of them behind, {stale} times stale, {gone} gone");
    // At process level nothing is gone.
    assert!(behind >= gone + 4, "{behind} of {looked}, {gone} gone");
}

/// A reader's moment and the changes since its position are all there is, and nothing twice, over
/// checkpoints and lives of the writer.
#[test]
fn a_readers_moment_and_its_position_fit() {
    for layout in LAYOUTS {
        for level in WITH_LOG {
            let vfs = SimVfs::new(1);
            let options = || on_sim(&vfs, layout, level);
            let mut db = options().open(DIR).unwrap();
            let adding = KeyspaceOptions::new().merge_operator(Merges::AddU64);
            for round in 0..40_u64 {
                db.position().unwrap();
                let sums = db.keyspace_with("sums", &adding).unwrap();
                for step in 0..20 {
                    sums.merge(
                        format!("k{}", scramble(round ^ step) % 7),
                        1_u64.to_le_bytes(),
                    )
                    .unwrap();
                }
                match round % 5 {
                    1 => db.flush().unwrap(),
                    3 => {
                        db.close().unwrap();
                        db = options().open(DIR).unwrap();
                    }
                    _ => {}
                }
                let sums = db.keyspace_with("sums", &adding).unwrap();
                let reader = options().open_beside_writer(DIR).unwrap();
                if !reader.keyspace_exists("sums") {
                    continue;
                }
                let mut found = sums_of(&reader.keyspace("sums").unwrap()).unwrap();
                let position = reader.position().unwrap();
                let feed = reader.changes_since(&position).unwrap();
                add_all(reader, feed, &mut found).unwrap();
                let expected = sums_of(&sums).unwrap();
                assert_eq!(found, expected, "{layout:?} {level:?} round {round}");
            }
        }
    }
}

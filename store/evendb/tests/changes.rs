//! The change feed beside an oracle: what one thread or several wrote, in order, whole; beside
//! checkpoints and a log that goes round; from snapshots; over reopenings; and the errors of
//! positions that lead nowhere.

#![expect(
    clippy::unwrap_used,
    reason = "a test, which may end at the first surprise"
)]
#![expect(
    clippy::big_endian_bytes,
    reason = "bytes that compare as the numbers do"
)]

mod common;

use common::{DIR, on_sim, scramble, tiny};
use evendb::vfs::SimVfs;
use evendb::{Change, Changes, Db, Durability, Error, ErrorKind, Options, Position};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

type Map = BTreeMap<(String, Vec<u8>), Vec<u8>>;
/// A keyspace, a key, and a value or a deletion.
type Write = (String, Vec<u8>, Option<Vec<u8>>);
/// Keyspaces by number: their names and contents.
type Keyspaces = BTreeMap<u32, (String, BTreeMap<Vec<u8>, Vec<u8>>)>;

const WITH_LOG: [Durability; 2] = [Durability::Process, Durability::Sync];

fn writes_of(change: &Change) -> Vec<Write> {
    assert!(!change.is_empty());
    assert_eq!(change.writes().len(), change.len());
    let owned = |write: evendb::Write<'_>| {
        let value = write.value.map(<[u8]>::to_vec);
        (write.keyspace.to_owned(), write.key.to_vec(), value)
    };
    change.writes().map(owned).collect()
}

fn apply(map: &mut Map, writes: Vec<Write>) {
    for (keyspace, key, value) in writes {
        match value {
            Some(value) => drop(map.insert((keyspace, key), value)),
            None => drop(map.remove(&(keyspace, key))),
        }
    }
}

fn contents(db: &Db) -> Map {
    let mut map = Map::new();
    for name in db.keyspace_names() {
        for item in db.keyspace(&name).unwrap().iter() {
            let (key, value) = item.unwrap();
            map.insert((name.clone(), key.to_vec()), value.to_vec());
        }
    }
    map
}

/// Panics with the first key in which the two differ, and no others.
fn assert_same(found: &Map, expected: &Map, what: &str) {
    let start = |value: Option<&Vec<u8>>| {
        let value = String::from_utf8_lossy(value?).into_owned();
        Some(value.chars().take(16).collect::<String>())
    };
    for key in found.keys().chain(expected.keys()) {
        let (found, expected) = (found.get(key), expected.get(key));
        let differ = found != expected;
        assert!(
            !differ,
            "{what}: {key:?}: {:?}, not {:?}",
            start(found),
            start(expected)
        );
    }
}

/// Everything that the feed has now; positions ascend.
fn drain(feed: &mut Changes) -> Result<Vec<Vec<Write>>, Error> {
    let mut all = Vec::new();
    for change in &mut *feed {
        all.push(writes_of(&change?));
    }
    assert!(feed.next().is_none());
    Ok(all)
}

/// Options with which the log goes round again and again, and checkpoints come often.
fn small(level: Durability, mapped: bool, workers: usize) -> Options {
    tiny(level, workers).advanced(|advanced| advanced.commit_log_mapped(mapped))
}

fn kinds() -> impl Iterator<Item = (Durability, bool)> {
    WITH_LOG
        .into_iter()
        .flat_map(|level| [true, false].map(|mapped| (level, mapped)))
}

/// Writes one batch of a few records, and returns it.
fn write_some(db: &Db, seed: u64) -> Vec<Write> {
    let number = scramble(seed);
    let mut batch = db.batch();
    let mut writes: BTreeMap<(String, Vec<u8>), Option<Vec<u8>>> = BTreeMap::new();
    for index in 0..1 + number % 4 {
        let dice = scramble(number + index);
        let name = if dice.is_multiple_of(3) {
            "other"
        } else {
            "default"
        };
        let keyspace = db.keyspace(name).unwrap();
        let key = format!("k{:02}", dice / 7 % 60).into_bytes();
        let value = (!dice.is_multiple_of(5)).then(|| {
            let len = match dice / 11 % 40 {
                0 => 700,
                _ => dice as usize / 13 % 60,
            };
            format!("{seed}:{}", "v".repeat(len)).into_bytes()
        });
        match &value {
            Some(value) => batch.put(&keyspace, &key, value),
            None => batch.delete(&keyspace, &key),
        };
        writes.insert((name.to_owned(), key), value);
    }
    batch.commit().unwrap();
    let mut writes: Vec<Write> = writes.into_iter().map(|((n, k), v)| (n, k, v)).collect();
    // By number of the keyspace: `default` is older than `other`.
    writes.sort_by(|a, b| (a.0 == "other", &a.1).cmp(&(b.0 == "other", &b.1)));
    writes
}

#[test]
fn changes_are_what_was_written_in_order() {
    for (level, mapped) in kinds() {
        let vfs = SimVfs::new(1);
        let options = on_sim(&vfs, level, 0).advanced(|a| a.commit_log_mapped(mapped));
        let db = options.open(DIR).unwrap();
        db.keyspace("other").unwrap();
        let start = db.position().unwrap();
        let mut feed = db.changes_since(&start).unwrap();
        assert!(feed.next().is_none());
        assert_eq!(feed.position(), start);
        let mut map = Map::new();
        let mut last = start;
        for seed in 0..2_000 {
            let written = write_some(&db, seed);
            let change = feed.next().expect("it is visible").unwrap();
            assert_eq!(writes_of(&change), written, "{level:?} {mapped} {seed}");
            // A change that is seen can be read.
            for (name, key, value) in &written {
                let got = db.keyspace(name).unwrap().get(key).unwrap();
                assert_eq!(got.as_deref(), value.as_deref());
            }
            assert!(change.position() > last);
            last = change.position();
            assert_eq!(feed.position(), last);
            apply(&mut map, written);
            if seed % 97 == 0 {
                db.flush().unwrap();
            }
            if level == Durability::Sync {
                assert_eq!(change.durability(), Durability::Sync);
            }
        }
        assert!(feed.next().is_none());
        assert_same(&map, &contents(&db), "at the end");
        // The log has gone round many times since.
        let error = db.changes_since(&start).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ChangesGone, "{error}");
        let named = error.to_string();
        let named = named
            .split("those from ")
            .nth(1)
            .unwrap()
            .split(' ')
            .next()
            .unwrap();
        let oldest: Position = named.parse().unwrap();
        drain(&mut db.changes_since(&oldest).unwrap()).unwrap();
    }
}

/// The most writes of a thread that may be unread: a reader that gets little processor time would
/// see the log go round.
const BEHIND_MAX: usize = 100;

#[test]
fn several_threads_and_checkpoints_beside_a_feed() {
    for (level, mapped) in kinds() {
        let dir = tempfile::tempdir().unwrap();
        // A ring that checkpoints empty often, and that is large enough for the writes that the
        // reader is behind.
        let options = small(level, mapped, 1).advanced(|a| a.commit_log_bytes(4 << 20));
        let db = options.open(dir.path()).unwrap();
        db.keyspace("other").unwrap();
        let start = db.position().unwrap();
        let rounds = if level == Durability::Sync {
            150
        } else {
            3_000
        };
        let (mut map, mut counts) = (Map::new(), [0_u32; 3]);
        let (unread, read): (Vec<_>, Vec<_>) = (0..3).map(|_| sync_channel(BEHIND_MAX)).unzip();
        std::thread::scope(|scope| {
            // Dropped with the reader if it fails, so that no writer waits for it.
            let read = read;
            for (thread, unread) in (0..3_u8).zip(unread) {
                let db = &db;
                scope.spawn(move || {
                    let other = db.keyspace("other").unwrap();
                    for round in 1..=rounds {
                        let mut batch = db.batch();
                        let value = [&[thread][..], &u32::to_be_bytes(round)].concat();
                        batch.put(db.default_keyspace(), [b'a', thread], &value);
                        batch.put(db.default_keyspace(), b"shared", &value);
                        batch.put(&other, [b'z', thread], &value);
                        batch.commit().unwrap();
                        if round % 500 == 0 {
                            db.flush().unwrap();
                        }
                        if unread.send(()).is_err() {
                            return;
                        }
                    }
                });
            }
            let mut feed = db.changes_since(&start).unwrap();
            while counts != [rounds; 3] {
                let change = feed.next_blocking().unwrap();
                let writes = writes_of(&change);
                // The change is whole, and each thread's changes are in order.
                assert_eq!(writes.len(), 3);
                let value = writes[0].2.clone().unwrap();
                assert!(writes.iter().all(|write| write.2.as_ref() == Some(&value)));
                let thread = usize::from(value[0]);
                read[thread].recv().unwrap();
                counts[thread] += 1;
                assert_eq!(value[1..], counts[thread].to_be_bytes());
                // The change can be found, or a newer one.
                let got = db.get([b'a', value[0]]).unwrap().unwrap();
                assert!(got[1..] >= value[1..]);
                apply(&mut map, writes);
            }
            assert!(feed.next().is_none());
        });
        assert_same(&map, &contents(&db), &format!("{level:?} {mapped}"));
    }
}

/// A reader that the head overtakes gets an error, and never gets anything that was not written.
#[test]
fn a_slow_reader_is_told() {
    for (level, mapped) in kinds() {
        let dir = tempfile::tempdir().unwrap();
        let db = small(level, mapped, 1).open(dir.path()).unwrap();
        let rounds: u32 = if level == Durability::Sync {
            1_500
        } else {
            6_000
        };
        let written = AtomicU32::new(0);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for round in 0..rounds {
                    written.store(round, Ordering::Relaxed);
                    let value = [&round.to_be_bytes()[..], &[round as u8; 100]].concat();
                    db.put(round.to_be_bytes(), value).unwrap();
                }
            });
            let (mut gone, mut seen) = (0, 0);
            while !writer.is_finished() {
                let mut feed = db.changes_since(&db.position().unwrap()).unwrap();
                let mut next: Option<u32> = None;
                loop {
                    match feed.next() {
                        None if writer.is_finished() => break,
                        None => drop(feed.wait(Duration::from_millis(1)).unwrap()),
                        Some(Ok(change)) => {
                            let (_, key, value) = writes_of(&change).remove(0);
                            let round = u32::from_be_bytes(key[..].try_into().unwrap());
                            assert!(next.is_none_or(|next| next == round), "{next:?} {round}");
                            let value = value.unwrap();
                            assert_eq!(value[..4], key);
                            assert!(value[4..].iter().all(|&byte| byte == round as u8));
                            next = Some(round + 1);
                            seen += 1;
                            // Twice the number of changes that the log holds.
                            while seen % 301 == 0
                                && written.load(Ordering::Relaxed) < round + 1_000
                                && !writer.is_finished()
                            {
                                std::thread::yield_now();
                            }
                        }
                        Some(Err(error)) => {
                            assert_eq!(error.kind(), ErrorKind::ChangesGone, "{error}");
                            assert!(feed.next().is_none());
                            let again = feed.wait(Duration::ZERO).unwrap_err();
                            assert_eq!(again.kind(), ErrorKind::ChangesGone);
                            gone += 1;
                            break;
                        }
                    }
                }
            }
            assert!(seen > 0);
            assert!(gone > 0, "the reader was never overtaken");
        });
    }
}

#[test]
fn a_snapshot_and_its_position_fit_exactly() {
    for (level, mapped) in kinds() {
        let dir = tempfile::tempdir().unwrap();
        let options = small(level, mapped, 1).advanced(|a| a.commit_log_bytes(8 << 20));
        let db = options.open(dir.path()).unwrap();
        db.keyspace("other").unwrap();
        let rounds = if level == Durability::Sync {
            100
        } else {
            1_500
        };
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..3_u64)
                .map(|thread| {
                    let db = &db;
                    scope.spawn(move || {
                        for round in 0..rounds {
                            write_some(db, thread * 1_000_000 + round);
                        }
                    })
                })
                .collect();
            let mut taken = Vec::new();
            while !writers
                .iter()
                .all(std::thread::ScopedJoinHandle::is_finished)
            {
                let snapshot = db.snapshot().unwrap();
                let position = snapshot.position().unwrap();
                let mut map = Map::new();
                for name in db.keyspace_names() {
                    let keyspace = db.keyspace(&name).unwrap();
                    for item in snapshot.iter(&keyspace) {
                        let (key, value) = item.unwrap();
                        map.insert((name.clone(), key.to_vec()), value.to_vec());
                    }
                }
                taken.push((position, map));
                if taken.len() > 60 {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
            for writer in writers {
                writer.join().unwrap();
            }
            // Between two snapshots lie exactly the changes between their positions.
            let end = contents(&db);
            taken.sort_by_key(|(position, _)| *position);
            let mut checked = 0;
            for (index, (position, map)) in taken.iter().enumerate() {
                let mut feed = match db.changes_since(position) {
                    Ok(feed) => feed,
                    Err(error) if error.kind() == ErrorKind::ChangesGone => continue,
                    Err(error) => panic!("{error}"),
                };
                let mut now = map.clone();
                let mut later = taken[index + 1..].iter().peekable();
                let mut last = *position;
                for change in &mut feed {
                    let change = change.unwrap();
                    assert!(
                        change.position() > last,
                        "{} after {last}",
                        change.position()
                    );
                    last = change.position();
                    while let Some((next, expected)) = later.next_if(|l| change.position() > l.0) {
                        assert_same(&now, expected, &format!("from {position} to {next}"));
                        checked += 1;
                    }
                    apply(&mut now, writes_of(&change));
                }
                assert_same(&now, &end, &format!("from {position} to the end"));
            }
            assert!(checked > 0);
        });
    }
}

#[test]
fn a_position_survives_reopening() {
    for (level, mapped) in kinds() {
        let vfs = SimVfs::new(1);
        let open = |mapped| {
            let options = on_sim(&vfs, level, 0).advanced(|a| a.commit_log_mapped(mapped));
            options.open(DIR).unwrap()
        };
        let mut db = open(mapped);
        db.keyspace("other").unwrap();
        let mut position = db.position().unwrap();
        let mut unseen = Vec::new();
        for life in 0..40_u64 {
            for seed in 0..scramble(life) % 20 {
                unseen.push(write_some(&db, life * 1_000 + seed));
            }
            if life % 5 == 3 {
                // Opened only for reading; the feed is the same.
                db.close().unwrap();
                let reader = common::options()
                    .read_only(true)
                    .vfs(std::sync::Arc::new(vfs.clone()));
                let reader = reader.open(DIR).unwrap();
                let mut feed = reader.changes_since(&position).unwrap();
                assert_eq!(drain(&mut feed).unwrap(), unseen);
                let kind = feed.wait(Duration::from_secs(60)).unwrap_err().kind();
                assert_eq!(kind, ErrorKind::ReadOnly);
                let at = reader.position().unwrap();
                assert!(at >= feed.position());
                drop((feed, reader));
                db = open(mapped);
                position = at;
                unseen.clear();
            }
            if life % 3 == 2 {
                let mut feed = db.changes_since(&position).unwrap();
                assert_eq!(drain(&mut feed).unwrap(), unseen, "life {life}");
                unseen.clear();
                position = feed.position().to_string().parse().unwrap();
            }
            db.close().unwrap();
            db = open(mapped ^ (life % 4 == 1));
        }
    }
}

#[test]
fn waiting_ends_with_a_put_a_timeout_or_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let db = common::options().open(dir.path()).unwrap();
    let mut feed = db.changes_since(&db.position().unwrap()).unwrap();
    let started = Instant::now();
    assert!(!feed.wait(Duration::from_millis(30)).unwrap());
    assert!(started.elapsed() >= Duration::from_millis(30));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(30));
            db.put("a", "1").unwrap();
        });
        // No timeout helps here: only a wake-up does.
        let change = feed.next_blocking().unwrap();
        assert_eq!(change.len(), 1);
        db.put("b", "2").unwrap();
        assert!(feed.wait(Duration::ZERO).unwrap());
        assert_eq!(feed.next().unwrap().unwrap().len(), 1);
        let closer = db.clone();
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(30));
            closer.close().unwrap();
        });
        let error = feed.next_blocking().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed);
    });
}

#[test]
fn large_writes_are_given_until_a_checkpoint() {
    for level in WITH_LOG {
        let dir = tempfile::tempdir().unwrap();
        let db = small(level, true, 0).open(dir.path()).unwrap();
        let position = db.position().unwrap();
        let large = vec![7; 20_000];
        db.put("large", &large).unwrap();
        db.put("small", "1").unwrap();
        let mut feed = db.changes_since(&position).unwrap();
        let first = feed.next().unwrap().unwrap();
        assert_eq!(writes_of(&first)[0].2.as_ref(), Some(&large));
        let behind = first.position();
        assert_eq!(drain(&mut feed).unwrap().len(), 1);
        db.flush().unwrap();
        let mut feed = db.changes_since(&position).unwrap();
        let error = feed.next().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ChangesGone, "{error}");
        let mut feed = db.changes_since(&behind).unwrap();
        assert_eq!(drain(&mut feed).unwrap().len(), 1);
    }
}

#[test]
fn a_dropped_keyspace_has_no_changes() {
    let dir = tempfile::tempdir().unwrap();
    let db = common::options().open(dir.path()).unwrap();
    let position = db.position().unwrap();
    let fill = |value: &str| {
        let keyspace = db.keyspace("gone").unwrap();
        keyspace.put("alone", value).unwrap();
        let mut batch = db.batch();
        batch.put(&keyspace, "k", value);
        batch.put(db.default_keyspace(), "k", value);
        batch.commit().unwrap();
    };
    fill("old");
    let ids = |feed: &mut Changes| -> Vec<Vec<(String, u32)>> {
        let of = |change: Change| {
            let writes = change.writes();
            writes
                .map(|w| (w.keyspace.to_owned(), w.keyspace_id))
                .collect()
        };
        feed.map(|change| of(change.unwrap())).collect()
    };
    let before = ids(&mut db.changes_since(&position).unwrap());
    assert_eq!(before.len(), 2);
    db.drop_keyspace("gone").unwrap();
    let mut feed = db.changes_since(&position).unwrap();
    assert_eq!(drain(&mut feed).unwrap().len(), 1);
    // Another keyspace under the same name.
    fill("new");
    let after = ids(&mut db.changes_since(&position).unwrap());
    assert_eq!(after.len(), 3);
    assert_eq!(after[1][0].0, "gone");
    assert!(after[1][0].1 != before[0][0].1);
}

/// What `Db::changes_since` promises replicas: by numbers they notice which keyspaces were dropped
/// and made anew.
#[test]
fn a_replica_follows_drops_by_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let mut db = common::options().open(dir.path()).unwrap();
    let position = db.position().unwrap();
    db.keyspace("stays").unwrap().put("a", "1").unwrap();
    db.keyspace("goes").unwrap().put("a", "1").unwrap();
    db.keyspace("again").unwrap().put("a", "old").unwrap();
    let stays = db.keyspace("stays").unwrap().id();
    let mut copied = Keyspaces::new();
    let mut follow = |db: &Db, position: &Position| {
        let mut feed = db.changes_since(position).unwrap();
        for change in feed.by_ref() {
            for write in &change.unwrap() {
                let name = write.keyspace.to_owned();
                let own = copied.entry(write.keyspace_id);
                let (_, map) = own.or_insert_with(|| (name, BTreeMap::new()));
                map.insert(write.key.to_vec(), write.value.unwrap().to_vec());
            }
        }
        let names = db.keyspace_names();
        let there: BTreeMap<u32, String> = names
            .into_iter()
            .map(|name| (db.keyspace(&name).unwrap().id(), name))
            .collect();
        copied.retain(|id, _| there.contains_key(id));
        for (id, name) in there {
            copied.entry(id).or_insert((name, BTreeMap::new()));
        }
        let mut records: Vec<String> = copied
            .values()
            .map(|(name, map)| format!("{name} {}", map.len()))
            .collect();
        records.sort();
        (feed.position(), records)
    };
    let (position, records) = follow(&db, &position);
    assert_eq!(records, ["again 1", "default 0", "goes 1", "stays 1"]);
    db.drop_keyspace("goes").unwrap();
    db.drop_keyspace("again").unwrap();
    db.keyspace("again").unwrap();
    // The numbers are the same after a reopening.
    db.close().unwrap();
    db = common::options().open(dir.path()).unwrap();
    assert_eq!(db.keyspace("stays").unwrap().id(), stays);
    let (_, records) = follow(&db, &position);
    assert_eq!(records, ["again 0", "default 0", "stays 1"]);
}

#[test]
fn without_a_log_there_is_no_feed() {
    let dir = tempfile::tempdir().unwrap();
    let relaxed = || tiny(Durability::Relaxed, 1);
    let db = relaxed().open(dir.path()).unwrap();
    let unsupported = |error: Error| assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    unsupported(db.position().unwrap_err());
    db.put("a", "1").unwrap();
    db.close().unwrap();
    let db = tiny(Durability::Process, 1).open(dir.path()).unwrap();
    let position = db.position().unwrap();
    db.put("a", "2").unwrap();
    db.close().unwrap();
    // A life without a log in between: its writes are not passed over.
    let db = relaxed().open(dir.path()).unwrap();
    unsupported(db.changes_since(&position).unwrap_err());
    db.put("a", "3").unwrap();
    db.close().unwrap();
    let db = tiny(Durability::Process, 1).open(dir.path()).unwrap();
    let mut feed = db.changes_since(&position).unwrap();
    assert_eq!(
        writes_of(&feed.next().unwrap().unwrap())[0].2,
        Some(b"2".to_vec())
    );
    let error = feed.next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ChangesGone, "{error}");
    let now = db.position().unwrap();
    db.put("a", "4").unwrap();
    assert_eq!(
        drain(&mut db.changes_since(&now).unwrap()).unwrap().len(),
        1
    );
}

#[test]
fn positions_of_elsewhere_are_refused() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (one, other) = (
        common::options().open(one.path()).unwrap(),
        common::options().open(other.path()).unwrap(),
    );
    for db in [&one, &other] {
        db.put("k", "v").unwrap();
    }
    let elsewhere = one.position().unwrap();
    let error = other.changes_since(&elsewhere).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ChangesLost, "{error}");
    // A copy continues in its own way.
    let copies = tempfile::tempdir().unwrap();
    let at = one.position().unwrap();
    one.put("k", "after the copy begins").unwrap();
    let later = one.position().unwrap();
    one.copy_to(copies.path().join("copy")).unwrap();
    one.put("k", "after the copy").unwrap();
    let last = one.position().unwrap();
    let copy = common::options().open(copies.path().join("copy")).unwrap();
    copy.put("k", "only in the copy").unwrap();
    for (db, position, kind) in [
        (&copy, at, ErrorKind::ChangesGone),
        (&copy, last, ErrorKind::ChangesLost),
        (&one, copy.position().unwrap(), ErrorKind::ChangesLost),
    ] {
        let found = db.changes_since(&position).map(|mut feed| drain(&mut feed));
        let error = found.and_then(|drained| drained).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
    // Up to the point of the copy both have the same changes.
    let mut feed = copy.changes_since(&later).unwrap();
    let changes = drain(&mut feed).unwrap();
    assert_eq!(changes[0][0].2, Some(b"only in the copy".to_vec()));
}

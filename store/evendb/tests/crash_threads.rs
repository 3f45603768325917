//! Crashes under threads: two writers, background workers, and calls of `persist` in between. Every
//! fifth write is a batch over both keyspaces, every seventh is raised to the process or the sync
//! level.
//!
//! The surviving writes must be a prefix of each thread's writes, and the two prefixes must fit: if
//! a write is there, so is every write of the other thread that had returned before it began. The
//! place of a crash differs from run to run; the workload and the disk follow the seed.
//! `EVENDB_THREAD_CRASHES` sets the number of crashes for each level (default 150).

mod common;

use common::{DIR, LEVELS, count_from_env, on_sim, perhaps_apart, scramble};
use evendb::vfs::{CrashMode, SimVfs};
use evendb::{Db, Durability};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

const WRITERS: usize = 2;
const SLOTS: u64 = 60;

/// When a write began and when it had returned, on a common clock, and what it was promised.
#[derive(Clone, Copy)]
struct Span {
    began: u64,
    returned: Option<u64>,
    level: Durability,
}

/// The level that a write is raised to: one database has several, whatever its own level.
fn raised(number: u64) -> Durability {
    match number % 14 {
        3 => Durability::Sync,
        10 => Durability::Process,
        _ => Durability::Relaxed,
    }
}

/// The writes number n of a writer; every fifth is a batch over both keyspaces.
fn writes_of(writer: usize, number: u64) -> Vec<(&'static str, String, Vec<u8>)> {
    let key = format!("{:03}/w{writer}", number * 7 % SLOTS);
    let mut value = format!("{number:08}").into_bytes();
    let len = if number % 40 == 39 {
        9_000
    } else {
        number % 150
    };
    value.resize(8 + len as usize, number as u8);
    let mut writes = vec![("default", key, value.clone())];
    if number.is_multiple_of(5) {
        writes.push(("other", format!("{:03}/w{writer}", number % 8), value));
    }
    writes
}

/// Writes until the machine stops.
fn write(
    db: &Db,
    vfs: &SimVfs,
    writer: usize,
    clock: &AtomicU64,
    acknowledged: &AtomicU64,
) -> Vec<Span> {
    let mut spans = Vec::new();
    let other = match db.keyspace("other") {
        Ok(keyspace) => keyspace,
        Err(error) => {
            assert!(vfs.crashed(), "{error:?}");
            return spans;
        }
    };
    loop {
        let mut batch = db.batch();
        for (name, key, value) in writes_of(writer, spans.len() as u64) {
            let keyspace = if name == "other" {
                &other
            } else {
                db.default_keyspace()
            };
            batch.put(keyspace, key, value);
        }
        let level = raised(spans.len() as u64);
        batch.durability(level);
        let began = clock.fetch_add(1, Ordering::SeqCst);
        let outcome = batch.commit();
        let returned = clock.fetch_add(1, Ordering::SeqCst);
        // A copy into a mapping cannot notice that the machine has stopped.
        let crashed = vfs.crashed();
        if let Err(error) = &outcome {
            assert!(crashed, "{error:?}");
        }
        let acknowledges = outcome.is_ok() && !crashed;
        spans.push(Span {
            began,
            returned: acknowledges.then_some(returned),
            level,
        });
        if !acknowledges {
            return spans;
        }
        acknowledged.store(spans.len() as u64, Ordering::SeqCst);
    }
}

/// The number of writes of a thread whose state the database equals.
fn prefix_of(
    found: &BTreeMap<(String, Vec<u8>), Vec<u8>>,
    writer: usize,
    begun: usize,
) -> Option<usize> {
    let suffix = format!("/w{writer}").into_bytes();
    let mine: BTreeMap<_, _> = found
        .iter()
        .filter(|((_, key), _)| key.ends_with(&suffix))
        .collect();
    let mut state: BTreeMap<(String, Vec<u8>), Vec<u8>> = BTreeMap::new();
    for length in 0..=begun {
        if mine.len() == state.len()
            && state
                .iter()
                .all(|(key, value)| mine.get(key) == Some(&value))
        {
            return Some(length);
        }
        for (name, key, value) in writes_of(writer, length as u64) {
            state.insert((name.to_owned(), key.into_bytes()), value);
        }
    }
    None
}

/// The differences from the state after the last visible write.
fn complaint(found: &BTreeMap<(String, Vec<u8>), Vec<u8>>, writer: usize, begun: usize) -> String {
    let suffix = format!("/w{writer}").into_bytes();
    let number = |value: &[u8]| String::from_utf8_lossy(&value[..8]).parse::<u64>();
    let mine = found.iter().filter(|((_, key), _)| key.ends_with(&suffix));
    let last = mine.filter_map(|(_, value)| number(value).ok()).max();
    let mut state = BTreeMap::new();
    for (name, key, value) in (0..=last.unwrap_or(0)).flat_map(|n| writes_of(writer, n)) {
        state.insert((name.to_owned(), key.into_bytes()), value);
    }
    let wrong: Vec<String> = state
        .iter()
        .filter(|(key, value)| found.get(*key) != Some(value))
        .map(|((name, key), value)| {
            let actual = found
                .get(&(name.clone(), key.clone()))
                .map(|value| number(value));
            let key = String::from_utf8_lossy(key);
            format!("{name} {key}: {actual:?} instead of {:?}", number(value))
        })
        .collect();
    format!("writer {writer}: no prefix of {begun} writes; after {last:?}, wrong: {wrong:?}")
}

fn read_all(db: &Db) -> BTreeMap<(String, Vec<u8>), Vec<u8>> {
    let mut found = BTreeMap::new();
    for name in db.keyspace_names() {
        for item in db.keyspace(&name).expect("exists").iter() {
            let (key, value) = item.expect("reads");
            found.insert((name.clone(), key.to_vec()), value.to_vec());
        }
    }
    found
}

/// Runs the threads up to a crash. Returns the spans, and the number of each thread's writes that
/// were made durable.
fn run(vfs: &SimVfs, level: Durability, crash: u64) -> (Vec<Vec<Span>>, [u64; WRITERS]) {
    let Ok(db) = perhaps_apart(on_sim(vfs, level, 1), crash).open(DIR) else {
        assert!(vfs.crashed());
        return (vec![Vec::new(); WRITERS], [0; WRITERS]);
    };
    let clock = AtomicU64::new(1);
    let acknowledged = [const { AtomicU64::new(0) }; WRITERS];
    let mut durable = [0; WRITERS];
    let spans = std::thread::scope(|scope| {
        let writers: Vec<_> = acknowledged
            .iter()
            .enumerate()
            .map(|(writer, acknowledged)| {
                let (db, clock) = (&db, &clock);
                scope.spawn(move || write(db, vfs, writer, clock, acknowledged))
            })
            .collect();
        while !vfs.crashed() {
            let before = [0, 1].map(|writer: usize| acknowledged[writer].load(Ordering::SeqCst));
            let outcome = if before[0].is_multiple_of(2) {
                db.persist()
            } else {
                db.flush()
            };
            if outcome.is_ok() && !vfs.crashed() {
                durable = before;
            }
            std::thread::yield_now();
        }
        writers
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    (spans, durable)
}

fn check(
    spans: &[Vec<Span>],
    durable: [u64; WRITERS],
    level: Durability,
    mode: CrashMode,
    db: &Db,
) -> Result<(), String> {
    let found = read_all(db);
    let mut lengths = [0; WRITERS];
    for (writer, spans) in spans.iter().enumerate() {
        let begun = spans.len();
        // A promise for a write holds for all earlier writes too: recovery is to a prefix.
        let power = mode != CrashMode::Process;
        let promised = |span: &Span| {
            let level = level.max(span.level);
            let holds = level == Durability::Sync || (level == Durability::Process && !power);
            span.returned.is_some() && holds
        };
        let acknowledged = spans.iter().rposition(promised).map_or(0, |last| last + 1);
        let length =
            prefix_of(&found, writer, begun).ok_or_else(|| complaint(&found, writer, begun))?;
        let floor = acknowledged.max(durable[writer] as usize);
        if length < floor {
            return Err(format!(
                "writer {writer}: {length} writes of {floor} promised, {begun} begun"
            ));
        }
        lengths[writer] = length;
    }
    for (a, b) in [(0, 1), (1, 0)] {
        let Some(last) = lengths[a].checked_sub(1) else {
            continue;
        };
        let began = spans[a][last].began;
        let before = spans[b]
            .iter()
            .filter(|span| span.returned.is_some_and(|at| at < began))
            .count();
        if lengths[b] < before {
            return Err(format!(
                "write {last} of writer {a} is there, but only {} of the {before} of writer {b} that had returned before it",
                lengths[b]
            ));
        }
    }
    Ok(())
}

#[test]
fn crashes_under_threads() {
    let crashes = count_from_env("EVENDB_THREAD_CRASHES", 150);
    let mut states = 0;
    for level in LEVELS {
        for crash in 0..crashes {
            let vfs = SimVfs::new(crash);
            vfs.set_crash_at(8 + scramble(crash) % 1_200);
            let (spans, durable) = run(&vfs, level, crash);
            for mode in [
                CrashMode::Process,
                CrashMode::PowerLossNothing,
                CrashMode::PowerLossAll,
                CrashMode::PowerLossRandom(crash),
                CrashMode::PowerLossRandom(crash + 1_000_000),
            ] {
                let place = format!("{level:?} crash {crash} {mode:?}");
                let machine = vfs.crash(mode);
                for opening in ["opened", "opened again"] {
                    let db = perhaps_apart(on_sim(&machine, level, 0), crash + 1).open(DIR);
                    let db = db.unwrap_or_else(|error| panic!("{place}: {error:?}"));
                    check(&spans, durable, level, mode, &db)
                        .unwrap_or_else(|what| panic!("{place} {opening}: {what}"));
                    states += 1;
                }
            }
        }
    }
    println!("{states} states after crashes under threads");
}

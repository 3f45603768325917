//! The standard database: the same keys, the same load and the same options at each look, in one
//! directory for the whole campaign. So the memory, threads and disk of the looks can be compared.
//!
//! ```text
//!   nothing open        -> sample `closed`
//!   opened, load        -> both threads stop in the middle: sample `busy`
//!   settled, compacted  -> sample `idle`;  now and then: nothing may happen for some seconds
//!   closed              -> sample `disk`
//!   opened, nine tenths deleted, settled, compacted, closed    -> sample `small`
//! ```
//! At each look all values change, and the same number of further keys come and go. So the store
//! must delete as many bytes as it writes.

use crate::content::Content;
use crate::oracle::{Lasting, Space, Write};
use crate::process::{self, Disk, Usage, disk, listing, usage};
use crate::store::{Span, Store};
use crate::time::Clock;
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

/// The number of keys of each of two threads.
const KEYS: u64 = 800;
/// The time for which nothing may happen.
const IDLE: Duration = Duration::from_secs(3);
/// The longest time until it is idle.
const PATIENCE: Duration = Duration::from_secs(120);

/// The samples of one look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sample {
    /// With no database open.
    pub closed: Usage,
    /// In the middle of the load.
    pub busy: Usage,
    /// With the database open, and nothing to do.
    pub idle: Usage,
    /// The files of the closed database.
    pub disk: Disk,
    /// The files of the closed database with a tenth of its keys.
    pub small: Disk,
}

/// What an idle database did in some seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rest {
    /// Bytes that were written.
    pub written: u64,
    /// Files that came, went or changed.
    pub files: u64,
    /// Threads at the end.
    pub threads: u64,
    /// Open descriptors at the end.
    pub descriptors: u64,
    /// The change in threads and descriptors since the beginning.
    pub others: i64,
    /// Processor time, in milliseconds.
    pub processor_millis: u64,
    /// Milliseconds for which it was watched.
    pub millis: u64,
}

fn words(error: evendb::Error) -> String {
    format!("the standard database: {:?}: {error}", error.kind())
}

fn key(thread: u64, number: u64) -> Vec<u8> {
    format!("{thread}/{number:05}").into_bytes()
}

fn space_of(number: u64) -> Space {
    match number.is_multiple_of(2) {
        true => Space::Default,
        false => Space::Other,
    }
}

fn put(space: Space, key: Vec<u8>, round: u64, number: u64) -> Write {
    let content = Content::Made {
        tag: round * 10_000 + number,
        len: 100 + (number * 37 % 1500) as u32,
    };
    Write::Put(space, key, content, Lasting::Plain)
}

/// One thread's load: puts all its keys anew; keys that come and go; gets and scans.
fn load(store: &Store, thread: u64, round: u64, half: &Barrier) -> Result<(), String> {
    let each = |numbers: std::ops::Range<u64>| -> Result<(), String> {
        for number in numbers {
            let space = space_of(number);
            let write = put(space, key(thread, number), round, number);
            store.write(&write).map_err(words)?;
            let passing = [b"passing/", &key(thread, round * KEYS + number)[..]].concat();
            store
                .batch(&[put(space, passing.clone(), round, number)], false)
                .map_err(words)?;
            store.write(&Write::Delete(space, passing)).map_err(words)?;
            let other = key(thread, number * 7919 % KEYS);
            store.get(space, &other).map_err(words)?;
        }
        Ok(())
    };
    let first = each(0..KEYS / 2);
    // The others wait, even if this one failed.
    half.wait();
    half.wait();
    first?;
    each(KEYS / 2..KEYS)?;
    let span = Span::all(thread == 1);
    store.scan(Space::Default, &span).map(drop).map_err(words)
}

/// Opens the standard database, loads it, closes it. `watch` also checks whether it rests.
///
/// # Errors
/// In words.
pub fn look(
    dir: &Path,
    clock: &Arc<Clock>,
    round: u64,
    watch: bool,
) -> Result<(Sample, Option<Rest>), String> {
    let failed = |error: std::io::Error| format!("the standard database: {error}");
    let closed = usage().map_err(failed)?;
    let store = Store::open_standard(dir, clock).map_err(words)?;
    let half = Barrier::new(3);
    let (busy, done) = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|thread| {
                let (store, half) = (&store, &half);
                scope.spawn(move || load(store, thread, round, half))
            })
            .collect();
        half.wait();
        let busy = usage();
        half.wait();
        let done: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        (busy, done)
    });
    for done in done {
        done.map_err(|_| "a thread of the standard load panicked".to_owned())??;
    }
    tidy(&store)?;
    let rest = watch.then(|| watch_rest(dir)).transpose()?;
    let sample = Sample {
        closed,
        busy: busy.map_err(failed)?,
        idle: usage().map_err(failed)?,
        ..Sample::default()
    };
    store.close().map_err(words)?;
    let whole = disk(dir).map_err(failed)?;
    let store = Store::open_standard(dir, clock).map_err(words)?;
    shrink(&store)?;
    tidy(&store)?;
    store.close().map_err(words)?;
    let small = disk(dir).map_err(failed)?;
    let sample = Sample {
        disk: whole,
        small,
        ..sample
    };
    Ok((sample, rest))
}

/// Does all work that is owed.
fn tidy(store: &Store) -> Result<(), String> {
    store.settle().map_err(words)?;
    store.compact().map_err(words)?;
    store.settle().map_err(words)?;
    store.idle().map_err(words)
}

/// Deletes nine of ten keys.
fn shrink(store: &Store) -> Result<(), String> {
    for number in (0..KEYS).filter(|number| number % 10 != 0) {
        let space = space_of(number);
        let both = [0, 1].map(|thread| Write::Delete(space, key(thread, number)));
        store.batch(&both, false).map_err(words)?;
    }
    Ok(())
}

/// Waits until nothing is written any more, and watches.
fn watch_rest(dir: &Path) -> Result<Rest, String> {
    let failed = |error: std::io::Error| format!("watching: {error}");
    let began = Instant::now();
    loop {
        let rest = rest_for(dir, IDLE).map_err(failed)?;
        let is_at_rest = rest.written == 0 && rest.files == 0;
        if is_at_rest || began.elapsed() > PATIENCE {
            return rest_for(dir, IDLE).map_err(failed);
        }
    }
}

fn rest_for(dir: &Path, time: Duration) -> std::io::Result<Rest> {
    let before = (listing(dir)?, usage()?, process::written_bytes()?);
    let (processor, began) = (process::processor_millis()?, Instant::now());
    std::thread::sleep(time);
    let processor_millis = process::processor_millis()? - processor;
    let millis = began.elapsed().as_millis() as u64;
    let after = (process::written_bytes()?, usage()?, listing(dir)?);
    let is_same = |(path, state): &(&std::path::PathBuf, &_)| before.0.get(*path) == Some(*state);
    let changed = after.2.iter().filter(|file| !is_same(file)).count();
    let gone = before.0.keys().filter(|path| !after.2.contains_key(*path));
    let others = |usage: Usage| (usage.threads + usage.descriptors) as i64;
    Ok(Rest {
        written: after.0 - before.2,
        files: (changed + gone.count()) as u64,
        threads: after.1.threads,
        descriptors: after.1.descriptors,
        others: others(after.1) - others(before.1),
        processor_millis,
        millis,
    })
}

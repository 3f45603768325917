//! Puts a recorded log of events into a store, as the ingest of [`crate::event_log`] does with a
//! made log.
//!
//! One event a line, in the order in which they happened; plain text, not compressed:
//! ```text
//!   # a comment; empty lines are skipped as well
//!   4711 1700000000123456 800       app id, timestamp[, bytes of the value]: blanks or tabs
//!   4711,1700000000123456,800       between, or commas, as in CSV
//! ```
//! App ids are decimal numbers below 2^32, timestamps below 2^64, in any unit; together they are
//! the key, as in [`crate::event_log`]. A line without bytes gets a value of the caller's size.
//! Values are at most 64 MiB, do not compress, and are a function of their line's number and size.
//! A line ends with a line feed, or with a carriage return and a line feed. The first line may be a
//! CSV heading: it is skipped if its first field begins with a letter, and the result has it.
//!
//! Any other line is counted as bad, the first few are kept with the reason, and the replay goes
//! on.
//!
//! ```text
//!   file --> reader (one worker at a time) --> lane 0: events whose key's hash says 0 --> worker 0
//!                                          --> lane 1                                 --> worker 1
//! ```
//! A key's events are all in one lane, so that they are put in the order of the file, with any
//! number of workers. Events of different keys are put in the order of the file too, except the
//! ones in flight. A worker whose lane is empty reads on for all. It waits while another lane is
//! full; the lane of a worker that ended takes nothing, so it is never full.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::driver::Worker;
use crate::event_log::{EVENT_KEY_BYTES, event_key};
use crate::random::mix64;
use crate::readable::counted;
use crate::recorder::{OperationKind, Recorder, RunError};
use crate::store::Store;
use crate::value::Values;

/// Bytes of the largest value a line may ask for.
pub const VALUE_BYTES_MAX: usize = 64 << 20;

/// A longer line is a bad one.
const LINE_BYTES_MAX: usize = 4096;
/// The number of bad lines that are kept with their reasons.
const BAD_LINES_KEPT: usize = 5;
/// A worker reads until its lane has an event, but at least this number of lines.
const LINES_AT_ONCE: usize = 256;
/// The number of events in a lane above which the reader waits.
const LANE_EVENTS_MAX: usize = 16 * 1024;

/// One event of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The application.
    pub app: u32,
    /// The moment, in the unit of the log.
    pub timestamp: u64,
    /// The size of the value, if the line says.
    pub bytes: Option<usize>,
    /// The line's number, from 1.
    pub line: u64,
}

impl Event {
    fn key(&self) -> [u8; EVENT_KEY_BYTES] {
        event_key(self.app, self.timestamp)
    }
}

/// The lines that should have been events and were malformed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BadLines {
    /// The number of bad lines.
    pub count: u64,
    /// Numbers (from 1) and reasons of the first few.
    pub first: Vec<(u64, String)>,
}

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayedLog {
    /// Lines, of every kind.
    pub lines: u64,
    /// Events.
    pub events: u64,
    /// The first line, if it was taken for a heading and skipped.
    pub heading: Option<String>,
    /// Lines that should have been events and were malformed.
    pub bad: BadLines,
}

/// Reads one line's fields.
///
/// # Errors
/// What is wrong with it.
fn parse(line: &str) -> Result<(u32, u64, Option<usize>), String> {
    let commas = line.contains(',');
    let fields: Vec<&str> = match commas {
        true => line.split(',').map(str::trim).collect(),
        false => line.split_ascii_whitespace().collect(),
    };
    let (app, timestamp, bytes) = match fields[..] {
        [app, timestamp] => (app, timestamp, None),
        [app, timestamp, bytes] => (app, timestamp, Some(bytes)),
        _ => {
            let found = counted(fields.len() as u64, "field");
            return Err(format!("{found} instead of 2 or 3"));
        }
    };
    let number = |name: &str, text: &str, max: u64| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text
            .parse::<u64>()
            .ok()
            .filter(|number| digits && *number <= max);
        number.ok_or_else(|| format!("the {name} is no number from 0 to {max}"))
    };
    let bytes = match bytes {
        Some(text) => Some(number("size", text, VALUE_BYTES_MAX as u64)? as usize),
        None => None,
    };
    Ok((
        number("app id", app, u64::from(u32::MAX))? as u32,
        number("timestamp", timestamp, u64::MAX)?,
        bytes,
    ))
}

/// Reads a log's events, one after the other.
struct LogReader {
    input: Box<dyn BufRead + Send>,
    line: Vec<u8>,
    events_max: u64,
    done: ReplayedLog,
}

impl LogReader {
    /// The next event. `None` at the end.
    fn next(&mut self) -> io::Result<Option<Event>> {
        while self.done.events < self.events_max {
            let Some(whole) = self.next_line()? else {
                return Ok(None);
            };
            self.done.lines += 1;
            let line = self.done.lines;
            let text = match (whole, std::str::from_utf8(&self.line)) {
                (true, Ok(text)) => text.trim(),
                (true, Err(_)) => {
                    self.bad(line, "the line is no text".to_owned());
                    continue;
                }
                (false, _) => {
                    self.bad(
                        line,
                        format!("the line has more than {LINE_BYTES_MAX} bytes"),
                    );
                    continue;
                }
            };
            if line == 1 && text.starts_with(|first: char| first.is_ascii_alphabetic()) {
                self.done.heading = Some(text.to_owned());
                continue;
            }
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            match parse(text) {
                Ok((app, timestamp, bytes)) => {
                    self.done.events += 1;
                    return Ok(Some(Event {
                        app,
                        timestamp,
                        bytes,
                        line,
                    }));
                }
                Err(why) => self.bad(line, why),
            }
        }
        Ok(None)
    }

    /// Reads a line into `self.line`. Returns whether the whole line is there, or `None` at the
    /// end.
    fn next_line(&mut self) -> io::Result<Option<bool>> {
        let mut whole = true;
        loop {
            self.line.clear();
            let mut part = (&mut self.input).take(LINE_BYTES_MAX as u64);
            let read = part.read_until(b'\n', &mut self.line)?;
            if read == 0 {
                return Ok((!whole).then_some(false));
            }
            if read < LINE_BYTES_MAX || self.line.ends_with(b"\n") {
                return Ok(Some(whole));
            }
            // The rest of a line that is too long is dropped with it.
            whole = false;
        }
    }

    fn bad(&mut self, line: u64, why: String) {
        self.done.bad.count += 1;
        if self.done.bad.first.len() < BAD_LINES_KEPT {
            self.done.bad.first.push((line, why));
        }
    }
}

/// A log that workers put together. Made for one phase and its number of workers.
pub struct LogReplay {
    path: PathBuf,
    bytes: u64,
    values: Values,
    shared: Mutex<Shared>,
    /// Notified whenever a lane gets shorter or closes: then a reader may go on.
    changed: Condvar,
}

struct Shared {
    reader: LogReader,
    lanes: Vec<Lane>,
    ended: bool,
    /// Why reading ended early; the first worker that notices takes it.
    failed: Option<io::Error>,
}

#[derive(Default)]
struct Lane {
    events: VecDeque<Event>,
    closed: bool,
}

impl LogReplay {
    /// A replay of the file by `workers` workers. A line without a size gets a value of
    /// `value_bytes` bytes. `events_max` ends it early.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn open(
        path: &Path,
        workers: usize,
        value_bytes: usize,
        events_max: Option<u64>,
        seed: u64,
    ) -> io::Result<Self> {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        let input = BufReader::with_capacity(1 << 16, file);
        let mut replay = Self::of(Box::new(input), workers, value_bytes, events_max, seed);
        (replay.path, replay.bytes) = (path.to_owned(), bytes);
        Ok(replay)
    }

    fn of(
        input: Box<dyn BufRead + Send>,
        workers: usize,
        value_bytes: usize,
        events_max: Option<u64>,
        seed: u64,
    ) -> Self {
        let reader = LogReader {
            input,
            line: Vec::new(),
            events_max: events_max.unwrap_or(u64::MAX),
            done: ReplayedLog::default(),
        };
        Self {
            path: PathBuf::new(),
            bytes: 0,
            values: Values::new(value_bytes, seed),
            shared: Mutex::new(Shared {
                reader,
                lanes: (0..workers.max(1)).map(|_| Lane::default()).collect(),
                ended: false,
                failed: None,
            }),
            changed: Condvar::new(),
        }
    }

    /// The file's size.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.bytes
    }

    /// What was read until now.
    #[must_use]
    pub fn done(&self) -> ReplayedLog {
        self.shared.lock().reader.done.clone()
    }

    /// The next event of a lane.
    fn next(&self, lane: usize) -> Result<Option<Event>, RunError> {
        let mut shared = self.shared.lock();
        loop {
            if let Some(event) = shared.lanes[lane].events.pop_front() {
                if shared.lanes[lane].events.len() == LANE_EVENTS_MAX - 1 {
                    self.changed.notify_all();
                }
                return Ok(Some(event));
            }
            if let Some(error) = shared.failed.take() {
                return Err(RunError::Input(format!("{}: {error}", self.path.display())));
            }
            if shared.ended {
                return Ok(None);
            }
            let full = |lane: &Lane| !lane.closed && lane.events.len() >= LANE_EVENTS_MAX;
            if shared.lanes.iter().any(full) {
                self.changed.wait(&mut shared);
                continue;
            }
            shared.read(LINES_AT_ONCE);
        }
    }

    fn close(&self, lane: usize) {
        let lane = &mut self.shared.lock().lanes[lane];
        lane.closed = true;
        lane.events.clear();
        self.changed.notify_all();
    }
}

impl Shared {
    /// Reads some events into their lanes.
    fn read(&mut self, count: usize) {
        for _ in 0..count {
            match self.reader.next() {
                Ok(Some(event)) => {
                    let hash = mix64(mix64(event.timestamp) ^ u64::from(event.app));
                    let index = (hash % self.lanes.len() as u64) as usize;
                    let lane = &mut self.lanes[index];
                    if !lane.closed {
                        lane.events.push_back(event);
                    }
                }
                Ok(None) => {
                    self.ended = true;
                    return;
                }
                Err(error) => {
                    (self.ended, self.failed) = (true, Some(error));
                    return;
                }
            }
        }
    }
}

/// Puts the events of one lane.
pub struct ReplayWorker {
    replay: Arc<LogReplay>,
    lane: usize,
    value: Vec<u8>,
}

impl ReplayWorker {
    /// The worker of thread `thread`, which is below the number of workers of the replay.
    #[must_use]
    pub fn new(replay: Arc<LogReplay>, thread: usize) -> Self {
        Self {
            replay,
            lane: thread,
            value: Vec::new(),
        }
    }
}

impl Worker for ReplayWorker {
    fn step(&mut self, store: &dyn Store, recorder: &mut Recorder) -> Result<bool, RunError> {
        let Some(event) = self.replay.next(self.lane)? else {
            return Ok(false);
        };
        let values = &self.replay.values;
        let bytes = event.bytes.unwrap_or(values.value_bytes());
        values.fill_sized(event.line, 0, bytes, &mut self.value);
        let (key, value) = (event.key(), &self.value);
        recorder.time(OperationKind::Put, || store.put(&key, value))?;
        recorder.user_bytes_written += (EVENT_KEY_BYTES + bytes) as u64;
        Ok(true)
    }
}

impl Drop for ReplayWorker {
    fn drop(&mut self) {
        self.replay.close(self.lane);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::io::Cursor;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::driver::{self, NoProgress, Phase};
    use crate::store::StoreError;
    use crate::stores::memory::MemoryStore;
    use crate::stores::put_only::PutOnlyStore;
    use crate::value::Thoroughness;

    fn replay_of(text: impl Into<Vec<u8>>, workers: usize, max: Option<u64>) -> Arc<LogReplay> {
        let input = Box::new(Cursor::new(text.into()));
        Arc::new(LogReplay::of(input, workers, 100, max, 1))
    }

    fn run(replay: &Arc<LogReplay>, store: &dyn Store, threads: usize) -> Result<u64, RunError> {
        let phase = Phase::new("replay", threads);
        let never = AtomicBool::new(false);
        let worker =
            |thread| -> Box<dyn Worker> { Box::new(ReplayWorker::new(Arc::clone(replay), thread)) };
        driver::run(store, &phase, &never, &NoProgress, &worker).map(|result| result.operations)
    }

    fn value(store: &MemoryStore, app: u32, timestamp: u64) -> Option<Vec<u8>> {
        let mut found = None;
        let mut take = |value: &[u8]| found = Some(value.to_vec());
        store.get(&event_key(app, timestamp), &mut take).unwrap();
        found
    }

    #[test]
    fn both_forms_are_read_and_sizes_kept() {
        let text = "app,time,bytes\n7,10,40\n\n# pause\n 8\t20 \r\n9 , 30\n0 0 0\n\
                    4294967295 18446744073709551615 7";
        let (replay, store) = (replay_of(text, 2, None), MemoryStore::new());
        assert_eq!(run(&replay, &store, 2).unwrap(), 5);
        let done = replay.done();
        assert_eq!((done.lines, done.events, done.bad.count), (8, 5, 0));
        let size = |app, time| value(&store, app, time).map(|value| value.len());
        assert_eq!(
            [size(7, 10), size(8, 20), size(9, 30)],
            [Some(40), Some(100), Some(100)]
        );
        assert_eq!([size(0, 0), size(u32::MAX, u64::MAX)], [Some(0), Some(7)]);
        let values = &replay.values;
        let whole = values.check(5, &value(&store, 8, 20).unwrap(), Thoroughness::Whole);
        assert_eq!(whole, Ok(()));
    }

    #[test]
    fn bad_lines_are_counted_and_told() {
        let mut text = b"1 1\n1\n1 2 3 4\nx 5\n-1 5\n1 99999999999999999999\n+1 5\n1,,\n".to_vec();
        text.extend(b"4294967296 1\n1 2 99999999999\n\xFF\xFE 1\n");
        // Longer than a line may be, by a little and by several buffers; then a good one.
        for length in [LINE_BYTES_MAX + 1, 10 * LINE_BYTES_MAX] {
            text.extend(std::iter::repeat_n(b'1', length));
            text.push(b'\n');
        }
        text.extend(b"2 2\n");
        text.extend(std::iter::repeat_n(b'1', 3 * LINE_BYTES_MAX));
        let (replay, store) = (replay_of(text, 3, None), MemoryStore::new());
        assert_eq!(run(&replay, &store, 3).unwrap(), 2);
        let done = replay.done();
        assert_eq!((done.lines, done.events), (15, 2));
        assert_eq!(done.bad.count, 13);
        let (line, why) = &done.bad.first[0];
        assert_eq!((*line, &**why), (2, "1 field instead of 2 or 3"));
        assert_eq!(done.bad.first.len(), BAD_LINES_KEPT);
    }

    #[test]
    fn every_byte_can_come_at_every_place() {
        // Any input is read without a panic; bad lines are counted.
        let mut random = crate::random::Random::new(5, 0);
        for _ in 0..2000 {
            let alphabet = b"0123456789,  \t\r\n#\x00\xFFx-";
            let text: Vec<u8> = (0..random.below(60))
                .map(|_| alphabet[random.below(alphabet.len() as u64) as usize])
                .collect();
            let mut reader = LogReader {
                input: Box::new(Cursor::new(text.clone())),
                line: Vec::new(),
                events_max: u64::MAX,
                done: ReplayedLog::default(),
            };
            while reader.next().unwrap().is_some() {}
            let lines = text.split(|byte| *byte == b'\n').count() as u64;
            let ends = u64::from(text.is_empty() || text.ends_with(b"\n"));
            assert_eq!(reader.done.lines, lines - ends, "{text:?}");
        }
    }

    #[test]
    fn the_last_event_of_a_key_wins_whatever_the_number_of_workers() {
        // 50 keys, 20,000 lines; the value tells its line.
        let mut random = crate::random::Random::new(1, 0);
        let (mut text, mut last) = (String::new(), HashMap::new());
        for line in 1..=20_000u64 {
            let (app, time) = (random.below(5) as u32, random.below(10));
            text += &format!("{app} {time}\n");
            last.insert((app, time), line);
        }
        for threads in [1, 2, 7] {
            let (replay, store) = (replay_of(&*text, threads, None), MemoryStore::new());
            assert_eq!(run(&replay, &store, threads).unwrap(), 20_000);
            assert_eq!(store.len(), last.len());
            for (&(app, time), &line) in &last {
                let found = value(&store, app, time).unwrap();
                let whole = replay.values.check(line, &found, Thoroughness::Whole);
                assert_eq!(whole, Ok(()), "app {app} at {time}");
            }
        }
    }

    #[test]
    fn one_lane_keeps_the_order_of_the_file() {
        let text: String = (0..1000)
            .map(|line| format!("{} {line}\n", line % 7))
            .collect();
        let replay = replay_of(text, 1, Some(900));
        let next = || replay.next(0).unwrap();
        let times: Vec<u64> = std::iter::from_fn(next)
            .map(|event| event.timestamp)
            .collect();
        assert_eq!(times, (0..900).collect::<Vec<_>>());
    }

    #[test]
    fn a_full_lane_holds_the_reader_until_it_ends() {
        // Worker 1 never takes anything; when it is gone, worker 0 goes on to the end.
        let lines = 4 * LANE_EVENTS_MAX;
        let text: String = (0..lines).map(|line| format!("1 {line}\n")).collect();
        let replay = replay_of(text, 2, None);
        let idle = ReplayWorker::new(Arc::clone(&replay), 1);
        let own = std::thread::scope(|scope| {
            let own = scope.spawn(|| std::iter::from_fn(|| replay.next(0).unwrap()).count());
            while replay.shared.lock().lanes[1].events.len() < LANE_EVENTS_MAX {
                std::thread::yield_now();
            }
            drop(idle);
            own.join().unwrap()
        });
        assert!((lines / 3..lines).contains(&own), "{own}");
        assert_eq!(replay.done().events, lines as u64);
    }

    struct Broken;

    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("torn tape"))
        }
    }

    #[test]
    fn failures_of_the_file_and_of_the_store_end_the_replay() {
        let input = Box::new(BufReader::new(Cursor::new("1 1\n").chain(Broken)));
        let replay = Arc::new(LogReplay::of(input, 2, 100, None, 1));
        let error = run(&replay, &MemoryStore::new(), 2).unwrap_err();
        assert!(error.to_string().contains("torn tape"), "{error}");
        assert!(LogReplay::open(Path::new("/nowhere/log"), 1, 100, None, 1).is_err());

        let text: String = (0..100_000).map(|line| format!("1 {line}\n")).collect();
        let replay = replay_of(text, 3, None);
        let refusing = PutOnlyStore(|| Err(StoreError::new("put", "full")));
        let error = run(&replay, &refusing, 3).unwrap_err();
        assert!(matches!(error, RunError::Store(_)), "{error}");
    }
}

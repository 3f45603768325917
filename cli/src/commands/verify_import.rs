//! `evendb verify-import`: compares a keyspace with the input from which it was imported.
//!
//! The input is read again with the same options and sorted in memory. The last line of a key wins,
//! as in the import; a record that has expired by its own column is not there. The pairs are
//! compared one by one with a scan forward, a scan backward, the scan of a prefix, and gets of a
//! sample. Memory: the input's keys and values, and 24 bytes a record.

use std::io::Write;
use std::ops::Bound;
use std::path::PathBuf;
use std::time::{Instant, SystemTime};

use evendb_lab::readable::{bytes, counted, grouped};

use crate::commands::import::progress_bar;
use crate::failure::{Failure, Success};
use crate::input::{InputArguments, Records, Step};
use crate::interrupt::Interrupt;
use crate::key_types;
use crate::keys::prefix_end;
use crate::open::DatabaseArguments;
use crate::output;
use crate::store::{Record, Store};
use crate::values::Values;

/// Records between two gets of the sample.
const GET_EVERY: usize = 97;

/// Compare a keyspace with the input from which it was imported
///
/// Give the same options as for the import. Compares every pair forward and backward, the pairs of
/// a prefix, and gets of every 97th key; exit code 1 at the first difference, 5 if the database is
/// damaged. Opens the database for reading only. Needs memory for the whole input.
#[derive(clap::Args)]
#[command(after_help = "Example:
  evendb verify-import files.db paths.tsv --check-prefix usr/share/doc/")]
pub struct Arguments {
    #[command(flatten)]
    database: DatabaseArguments,
    /// The file, or the directory of a LevelDB database; `-` is standard input
    file: PathBuf,
    #[command(flatten)]
    input: InputArguments,
    /// Also scan this prefix (of the key's bytes) alone
    #[arg(long, value_name = "PREFIX", allow_hyphen_values = true)]
    check_prefix: Option<String>,
    /// The keys with this prefix were deleted after the import
    #[arg(long, value_name = "PREFIX", allow_hyphen_values = true)]
    without_prefix: Option<String>,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    let interrupt = Interrupt::install()?;
    let (mut reader, size) = Records::open(
        &arguments.file,
        &arguments.input.within(arguments.database.memory),
        &interrupt,
    )?;
    let store = arguments.database.open_for_reading()?;
    reader.set_types(key_types::of_imported(&store, reader.wanted())?);
    reader.set_values(Values::of(&store)?);
    let mut expected = Expected::read(reader, size, &interrupt)?;
    if let Some(prefix) = &arguments.without_prefix {
        expected.remove_prefix(prefix.as_bytes());
    }
    forward(&expected, &store, &interrupt)?;
    backward(&expected, &store, &interrupt)?;
    gets(&expected, &store, &interrupt)?;
    if let Some(prefix) = &arguments.check_prefix {
        check_prefix(&expected, &store, prefix.as_bytes(), &interrupt)?;
    }
    store.db.close()?;
    Ok(Success::Done)
}

/// The input's pairs in key order, each key once.
#[derive(Default)]
struct Expected {
    arena: Vec<u8>,
    records: Vec<Span>,
}

#[derive(Clone, Copy)]
struct Span {
    start: usize,
    key_bytes: usize,
    value_bytes: usize,
    has_expired: bool,
}

impl Expected {
    fn read(
        mut reader: Records,
        size: Option<u64>,
        interrupt: &Interrupt,
    ) -> Result<Self, Failure> {
        let bar = progress_bar(size);
        let start = Instant::now();
        #[expect(
            clippy::disallowed_methods,
            reason = "the database that is compared goes by the system's clock"
        )]
        let now = SystemTime::now();
        let mut expected = Self::default();
        let mut bad = 0u64;
        loop {
            stop_if(interrupt)?;
            match reader.step()? {
                Step::Pair => {
                    let has_expired = reader.expires().is_some_and(|at| at <= now);
                    expected.push(reader.key(), reader.value(), has_expired);
                }
                Step::Bad(_) => bad += 1,
                Step::End => break,
            }
            if expected.records.len().is_multiple_of(4096) {
                bar.set_position(reader.bytes());
            }
        }
        stop_if(interrupt)?;
        bar.finish_and_clear();
        let pairs = expected.records.len();
        if pairs == 0 && bad > 0 {
            let bad = counted(bad, "bad line");
            let message = format!("there is nothing to compare: the input is {bad}");
            return Err(Failure::Message(message));
        }
        expected.sort();
        let distinct = expected.records.len();
        say(&format!(
            "input         {}, {}, {}{}, {}, read and sorted in {:.2} s",
            counted(pairs as u64, "pair"),
            counted(distinct as u64, "key"),
            counted(bad, &format!("bad {}", reader.unit())),
            reader.left_out(),
            bytes(reader.bytes()),
            start.elapsed().as_secs_f64()
        ))?;
        Ok(expected)
    }

    fn push(&mut self, key: &[u8], value: &[u8], has_expired: bool) {
        let start = self.arena.len();
        self.arena.extend_from_slice(key);
        self.arena.extend_from_slice(value);
        self.records.push(Span {
            start,
            key_bytes: key.len(),
            value_bytes: value.len(),
            has_expired,
        });
    }

    fn sort(&mut self) {
        let arena = &self.arena;
        let key = |place: &Span| &arena[place.start..place.start + place.key_bytes];
        // If keys are equal, the later line, which has the higher place in the arena, comes first
        // and stays.
        self.records
            .sort_unstable_by(|a, b| key(a).cmp(key(b)).then(b.start.cmp(&a.start)));
        self.records
            .dedup_by(|later, earlier| key(later) == key(earlier));
        self.records.retain(|record| !record.has_expired);
    }

    fn remove_prefix(&mut self, prefix: &[u8]) {
        let arena = &self.arena;
        self.records
            .retain(|place| !arena[place.start..place.start + place.key_bytes].starts_with(prefix));
    }

    fn pair(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let place = self.records.get(index)?;
        let value = place.start + place.key_bytes;
        Some((
            &self.arena[place.start..value],
            &self.arena[value..value + place.value_bytes],
        ))
    }
}

fn forward(expected: &Expected, store: &Store, stop: &Interrupt) -> Result<(), Failure> {
    let start = Instant::now();
    let mut cursor = store.all();
    let mut index = 0;
    loop {
        stop_if(stop)?;
        let found = cursor.next()?.map(with_value);
        compare("forward scan", index, expected.pair(index), found)?;
        if found.is_none() {
            return tell("forward scan", index, start);
        }
        index += 1;
    }
}

fn backward(expected: &Expected, store: &Store, stop: &Interrupt) -> Result<(), Failure> {
    let start = Instant::now();
    let mut cursor = store.all();
    let count = expected.records.len();
    for index in 0..=count {
        stop_if(stop)?;
        let place = count.checked_sub(index + 1);
        let wanted = place.and_then(|place| expected.pair(place));
        let found = cursor.next_back()?.map(with_value);
        compare("reverse scan", index, wanted, found)?;
    }
    tell("reverse scan", count, start)
}

fn gets(expected: &Expected, store: &Store, stop: &Interrupt) -> Result<(), Failure> {
    let start = Instant::now();
    let mut count = 0;
    for index in (0..expected.records.len()).step_by(GET_EVERY) {
        stop_if(stop)?;
        let Some((key, value)) = expected.pair(index) else {
            break;
        };
        let found = store.keyspace.get(key)?;
        compare(
            "get",
            index,
            Some((key, value)),
            found.as_deref().map(|value| (key, value)),
        )?;
        count += 1;
    }
    tell("gets", count, start)
}

fn check_prefix(
    expected: &Expected,
    store: &Store,
    prefix: &[u8],
    stop: &Interrupt,
) -> Result<(), Failure> {
    let start = Instant::now();
    let first = expected.records.partition_point(|place| {
        expected.arena[place.start..place.start + place.key_bytes] < *prefix
    });
    let mut index = first;
    let end = prefix_end(prefix).map_or(Bound::Unbounded, Bound::Excluded);
    let mut cursor = store.cursor((Bound::Included(prefix.to_vec()), end), None, false);
    loop {
        stop_if(stop)?;
        let found = cursor.next()?.map(with_value);
        if found.is_none() {
            break;
        }
        compare("prefix scan", index, expected.pair(index), found)?;
        index += 1;
    }
    if let Some((key, _)) = expected
        .pair(index)
        .filter(|(key, _)| key.starts_with(prefix))
    {
        return Err(difference(
            "prefix scan",
            index,
            &format!("{} is missing", shown(key)),
        ));
    }
    tell("prefix scan", index - first, start)
}

/// A record of a cursor that leaves no value out.
fn with_value((key, value): Record<'_>) -> (&[u8], &[u8]) {
    (key, value.unwrap_or_default())
}

fn compare(
    what: &str,
    index: usize,
    expected: Option<(&[u8], &[u8])>,
    found: Option<(&[u8], &[u8])>,
) -> Result<(), Failure> {
    let difference = |text: &str| Err(difference(what, index, text));
    match (expected, found) {
        (None, None) => Ok(()),
        (Some((key, _)), None) => difference(&format!("{} is missing", shown(key))),
        (None, Some((key, _))) => difference(&format!("{} is too many", shown(key))),
        (Some(expected), Some(found)) if expected.0 != found.0 => difference(&format!(
            "key {} where {} was expected",
            shown(found.0),
            shown(expected.0)
        )),
        (Some(expected), Some(found)) if expected.1 != found.1 => difference(&format!(
            "key {} has value {} where {} was expected",
            shown(found.0),
            shown(found.1),
            shown(expected.1)
        )),
        _ => Ok(()),
    }
}

fn difference(what: &str, index: usize, text: &str) -> Failure {
    Failure::Message(format!("{what}, record {index}: {text}"))
}

fn shown(bytes: &[u8]) -> String {
    format!("`{}`", bytes[..bytes.len().min(200)].escape_ascii())
}

fn tell(what: &str, records: usize, start: Instant) -> Result<(), Failure> {
    let seconds = start.elapsed().as_secs_f64();
    let rate = grouped((records as f64 / seconds.max(1e-9)) as u64);
    let records = counted(records as u64, "record");
    say(&format!(
        "{what:<13} {records} equal, {seconds:.2} s ({rate} records/s)"
    ))
}

fn say(line: &str) -> Result<(), Failure> {
    Ok(writeln!(output::out(), "{line}")?)
}

fn stop_if(interrupt: &Interrupt) -> Result<(), Failure> {
    if interrupt.raised() {
        Err(Failure::Interrupted)
    } else {
        Ok(())
    }
}

//! The table of operations: a trace of any format as one Parquet file, a row for each operation, in
//! the order in which they began.
//!
//! | column | type | what |
//! |---|---|---|
//! | `number` | u64 | 0, 1, 2 ... in the order in which they began |
//! | `start_nanos` | u64 | from the beginning of the trace |
//! | `latency_nanos` | u64, null | how long it took |
//! | `thread` | u32 | who called |
//! | `keyspace` | text | its name |
//! | `kind` | text | [`Kind::name`](evendb_trace::Kind::name) |
//! | `key`, `end_key` | bytes, `end_key` null | the key, or the ends of a range: see below |
//! | `batch` | u64, null | the group of operations that belong together |
//! | `value_bytes` | u64, null | length of the value that was written or found |
//! | `outcome` | text | `unknown`, `done`, `absent`, `present`, `failed` |
//! | `records` | u64, null | records that a scan gave, parts of a batch |
//! | `record_limit` | u64, null | the number that a scan was allowed |
//! | `reverse` | bool | from the end backwards |
//! | `key_hash` | u64 | xxh3 of keyspace's number and key: for samples of keys |
//!
//! A scan or pop in reverse begins at the end of its range: its `key` is that end (without the byte
//! 0 of an end right after a key), and its `end_key` the least key of the range. If the range has
//! no end, it begins at the greatest key that earlier operations have named in the keyspace.
//!
//! Memory: the reader's frames, the heap that puts operations in order ([`HEAP_BYTES`]), and one
//! group of rows of the file. Times that go back after that stay as they are, and are counted
//! ([`Summary::late`]).

use crate::error::{Error, Result};
use crate::tables;
use arrow::array::{
    ArrayRef, BinaryBuilder, BooleanBuilder, RecordBatch, StringBuilder, UInt32Builder,
    UInt64Builder,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use evendb_trace::formats::{self, DETECT_BYTES, Format, Imported};
use evendb_trace::{EndNote, InOrder, Kind, Losses, Operation, Outcome, Reader, packed};
use parquet::arrow::ArrowWriter;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of memory in which operations wait until all operations that began before them have come.
pub const HEAP_BYTES: usize = 64 << 20;
/// Progress is told after this number of rows.
const PROGRESS_ROWS: u64 = 65_536;
/// The number of rows that are gathered before they are given to the file.
const BATCH_ROWS: usize = 16 << 10;
/// The number of bytes of keys that are gathered before they are given to the file.
pub(crate) const BATCH_BYTES: usize = 8 << 20;

/// The facts of a source, and what was written.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Rows of the table.
    pub operations: u64,
    /// From the beginning to the start of the last operation, or to the end that the trace tells.
    pub duration_nanos: u64,
    /// The wall clock at the beginning, in milliseconds since 1970; 0 if it is not known.
    pub wall_clock_millis: u64,
    /// One key in this number was recorded.
    pub one_key_in: u64,
    /// The origin of the trace.
    pub source: String,
    /// The names of the keyspaces that have operations, by number.
    pub keyspaces: BTreeMap<u32, String>,
    /// Bytes of the keys of all operations.
    pub key_bytes: u64,
    /// Operations after one that began later.
    pub late: u64,
    /// What was lost of EvenDB's format.
    pub losses: Option<Losses>,
    /// The note at the end of the trace.
    pub end: Option<EndNote>,
    /// What could not be read of another format.
    pub imported: Option<Imported>,
}

/// The columns of the table.
#[must_use]
pub fn schema() -> SchemaRef {
    let field = |name, of, null| Field::new(name, of, null);
    Arc::new(Schema::new(vec![
        field("number", DataType::UInt64, false),
        field("start_nanos", DataType::UInt64, false),
        field("latency_nanos", DataType::UInt64, true),
        field("thread", DataType::UInt32, false),
        field("keyspace", DataType::Utf8, false),
        field("kind", DataType::Utf8, false),
        field("key", DataType::Binary, false),
        field("end_key", DataType::Binary, true),
        field("batch", DataType::UInt64, true),
        field("value_bytes", DataType::UInt64, true),
        field("outcome", DataType::Utf8, false),
        field("records", DataType::UInt64, true),
        field("record_limit", DataType::UInt64, true),
        field("reverse", DataType::Boolean, false),
        field("key_hash", DataType::UInt64, false),
    ]))
}

/// Reads the trace at `from`, packed by gzip or Zstandard or not, and writes the table to `to`,
/// which is made. The first bytes tell the format, unless it is given. `progress` gets the number
/// of bytes that were read of the file.
///
/// # Errors
/// `Source` if it is no trace; `Damaged` if it is a damaged one and nothing can be read from it;
/// `Io`.
pub fn write(
    from: &Path,
    format: Option<Format>,
    to: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<Summary> {
    let file = File::open(from)
        .map_err(|error| Error::io(format_args!("cannot open {}", from.display()), error))?;
    let read = Arc::new(AtomicU64::new(0));
    let counted = Counted {
        file,
        read: read.clone(),
    };
    let mut progress = || progress(read.load(Ordering::Relaxed));
    let failed = |error: evendb_trace::Error| Error::of_trace(from, &error);
    let source = Box::new(BufReader::with_capacity(256 << 10, counted));
    let source =
        packed::unpacked(source).and_then(|(source, _)| packed::peek(source, DETECT_BYTES));
    let (mut source, head) = source.map_err(|error| failed(error.into()))?;
    let mut table = Table::new(to)?;
    // An unknown source is read as EvenDB's own, which refuses it.
    let mut summary = match format.or_else(|| formats::detect(&head)) {
        None | Some(Format::EvenDb) => own(source, &mut table, &mut progress).map_err(failed)?,
        Some(format) => {
            let imported = formats::read(format, &mut *source, &mut |operation| {
                let name = || Some(format.keyspace_name(operation.keyspace));
                table.add(operation, name)?;
                if table.rows.is_multiple_of(PROGRESS_ROWS) {
                    progress();
                }
                Ok(())
            });
            let imported = imported.map_err(failed)?;
            Summary {
                one_key_in: 1,
                source: format.name().to_owned(),
                imported: Some(imported),
                ..Summary::default()
            }
        }
    };
    summary.keyspaces = std::mem::take(&mut table.keyspaces);
    summary.operations = table.rows;
    summary.late = table.late;
    summary.key_bytes = table.key_bytes;
    summary.duration_nanos = summary.duration_nanos.max(table.last_nanos);
    table.finish()?;
    Ok(summary)
}

/// Counts the bytes that are read of a file, packed or not.
struct Counted {
    file: File,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, target: &mut [u8]) -> std::io::Result<usize> {
        let bytes = self.file.read(target)?;
        self.read.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}

fn own(
    source: Box<dyn BufRead>,
    table: &mut Table,
    progress: &mut dyn FnMut(),
) -> evendb_trace::Result<Summary> {
    let mut ordered = InOrder::new(Reader::new(source)?, HEAP_BYTES);
    while let Some(operation) = ordered.next() {
        let operation = operation?;
        let known = ordered.reader().keyspaces();
        table.add(&operation, || known.get(&operation.keyspace).cloned())?;
        if table.rows.is_multiple_of(PROGRESS_ROWS) {
            progress();
        }
    }
    let reader = ordered.reader();
    let header = reader.header();
    Ok(Summary {
        duration_nanos: reader.end().map_or(0, |end| end.duration_nanos),
        wall_clock_millis: header.wall_clock_millis,
        one_key_in: header.one_in.max(1),
        source: header.source.clone(),
        losses: Some(reader.losses()),
        end: reader.end(),
        ..Summary::default()
    })
}

/// The file, and the rows that were not written yet.
struct Table {
    writer: ArrowWriter<File>,
    columns: Columns,
    /// The names of the keyspaces up to now.
    keyspaces: BTreeMap<u32, String>,
    /// The greatest named key of each keyspace.
    greatest: BTreeMap<u32, Vec<u8>>,
    rows: u64,
    key_bytes: u64,
    last_nanos: u64,
    late: u64,
}

#[derive(Default)]
struct Columns {
    number: UInt64Builder,
    start_nanos: UInt64Builder,
    latency_nanos: UInt64Builder,
    thread: UInt32Builder,
    keyspace: StringBuilder,
    kind: StringBuilder,
    key: BinaryBuilder,
    end_key: BinaryBuilder,
    batch: UInt64Builder,
    value_bytes: UInt64Builder,
    outcome: StringBuilder,
    records: UInt64Builder,
    record_limit: UInt64Builder,
    reverse: BooleanBuilder,
    key_hash: UInt64Builder,
    rows: usize,
    key_bytes: usize,
}

impl Table {
    fn new(to: &Path) -> Result<Table> {
        Ok(Table {
            writer: tables::writer(schema(), to)?,
            columns: Columns::default(),
            keyspaces: BTreeMap::new(),
            greatest: BTreeMap::new(),
            rows: 0,
            key_bytes: 0,
            last_nanos: 0,
            late: 0,
        })
    }

    /// Adds a row. `name` gives the name of a keyspace at its first operation; without a name it
    /// has its number.
    fn add(
        &mut self,
        operation: &Operation,
        name: impl FnOnce() -> Option<String>,
    ) -> evendb_trace::Result<()> {
        let number = operation.keyspace;
        let keyspace = self.keyspaces.entry(number);
        let keyspace = keyspace.or_insert_with(|| name().unwrap_or_else(|| format!("#{number}")));
        self.late += u64::from(operation.start_nanos < self.last_nanos);
        self.last_nanos = self.last_nanos.max(operation.start_nanos);
        let greatest = self.greatest.get(&number).map(Vec::as_slice);
        let place = Place::of(operation, greatest);
        self.columns.add(self.rows, operation, (keyspace, place));
        let has_key = operation.kind.is_point_read() || operation.kind.is_point_write();
        if has_key && greatest.is_none_or(|greatest| greatest < &operation.key[..]) {
            let greatest = self.greatest.entry(number).or_default();
            greatest.clear();
            greatest.extend_from_slice(&operation.key);
        }
        self.rows += 1;
        self.key_bytes += operation.key.len() as u64;
        if self.columns.rows == BATCH_ROWS || self.columns.key_bytes >= BATCH_BYTES {
            self.flush().map_err(std::io::Error::other)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let batch = self.columns.take()?;
        Ok(self.writer.write(&batch)?)
    }

    fn finish(mut self) -> Result<()> {
        self.flush()?;
        self.writer.close()?;
        Ok(())
    }
}

/// Where an operation begins, and where its range ends.
struct Place<'o> {
    key: &'o [u8],
    end_key: Option<&'o [u8]>,
}

impl<'o> Place<'o> {
    fn of(operation: &'o Operation, greatest: Option<&'o [u8]>) -> Place<'o> {
        let (key, end) = (&operation.key[..], operation.end_key.as_deref());
        if !operation.reverse || !matches!(operation.kind, Kind::Scan | Kind::Pop) {
            return Place { key, end_key: end };
        }
        let begin = end.map(|end| end.strip_suffix(&[0]).unwrap_or(end));
        Place {
            key: begin.or(greatest).unwrap_or(key),
            end_key: Some(key),
        }
    }
}

impl Columns {
    fn add(&mut self, number: u64, operation: &Operation, (keyspace, place): (&str, Place<'_>)) {
        self.number.append_value(number);
        self.start_nanos.append_value(operation.start_nanos);
        self.latency_nanos.append_option(operation.latency_nanos);
        self.thread.append_value(operation.thread);
        self.keyspace.append_value(keyspace);
        self.kind.append_value(operation.kind.name());
        self.key.append_value(place.key);
        self.key_bytes += place.key.len() + place.end_key.map_or(0, <[u8]>::len);
        self.end_key.append_option(place.end_key);
        self.batch
            .append_option(Some(operation.group).filter(|group| *group != 0));
        let (outcome, found) = outcome(operation.outcome);
        self.value_bytes
            .append_option(operation.value_len.or(found));
        self.outcome.append_value(outcome);
        self.records.append_option(operation.count);
        self.record_limit.append_option(operation.limit);
        self.reverse.append_value(operation.reverse);
        self.key_hash
            .append_value(crate::functions::key_hash(operation.keyspace, place.key));
        self.rows += 1;
    }

    /// The rows up to now, which are then removed.
    fn take(&mut self) -> Result<RecordBatch> {
        (self.rows, self.key_bytes) = (0, 0);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.number.finish()),
            Arc::new(self.start_nanos.finish()),
            Arc::new(self.latency_nanos.finish()),
            Arc::new(self.thread.finish()),
            Arc::new(self.keyspace.finish()),
            Arc::new(self.kind.finish()),
            Arc::new(self.key.finish()),
            Arc::new(self.end_key.finish()),
            Arc::new(self.batch.finish()),
            Arc::new(self.value_bytes.finish()),
            Arc::new(self.outcome.finish()),
            Arc::new(self.records.finish()),
            Arc::new(self.record_limit.finish()),
            Arc::new(self.reverse.finish()),
            Arc::new(self.key_hash.finish()),
        ];
        Ok(RecordBatch::try_new(schema(), columns)?)
    }
}

fn outcome(of: Outcome) -> (&'static str, Option<u64>) {
    match of {
        Outcome::Unknown => ("unknown", None),
        Outcome::Done => ("done", None),
        Outcome::Absent => ("absent", None),
        Outcome::Present { len, .. } => ("present", len),
        Outcome::Failed(_) => ("failed", None),
    }
}

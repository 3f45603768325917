//! [`RocksDbWriter`]: RocksDB's query trace, version 0.2, as its own tools replay it.
//!
//! ```text
//!   get, contains, get for update      --> get
//!   lookups of several keys in a row   --> multi-get
//!   put, ingest, delete, single delete,
//!   delete of a range, merge           --> write: a batch of one
//!   parts of a batch or transaction    --> gathered --> write: one batch, at the time of its end
//!   scan                               --> seek, or seek for the one before; its range as bounds
//! ```
//! The format has no results, latencies, threads, times to live and lengths of scans: they are
//! lost. The number of a keyspace becomes that of a column family, without its name. Operations
//! must come in the order of time, as a replay of RocksDB asks them in the order of the file.
//!
//! Values that the trace does not have are made: bytes of the same length that do not compress, and
//! [`MADE_BYTES`] bytes if the length is not known either. Writes that failed, batches and
//! transactions that were not committed, pops, and calls without a key are left out and counted.
//!
//! Memory: the parts of open batches and transactions, and lookups that may go on. Above
//! [`OPEN_BYTES_MAX`] parts are written before their end, and counted.

use crate::codec::{put_bytes, put_varint};
use crate::error::Result;
use crate::operation::{Kind, Operation, Outcome};
use crate::value_hash;
use std::collections::{BTreeMap, HashMap};
use std::io::Write;

/// Bytes of a value whose length the trace does not tell.
const MADE_BYTES: u64 = 100;
/// Longer values are not made.
const VALUE_BYTES_MAX: u64 = 64 << 20;
/// Parts of open batches and transactions take at most this number of bytes.
const OPEN_BYTES_MAX: usize = 256 << 20;
/// Keys of lookups that are one record take about this number of bytes at most.
const LOOKING_BYTES_MAX: usize = 16 << 20;
/// A seek from the end of all keys asks for a key of this number of bytes, all of them 0xff.
const LAST_KEY_BYTES: usize = 64;

const HEAD: &str = "feedcafedeadbeef\tTrace Version: 0.2\tRocksDB Version: 7.8\tFormat: Timestamp OpType Payload\n";

/// What a written trace lacks or has been given, by count.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Written {
    /// Records of the file without its beginning and its end.
    pub records: u64,
    /// Operations that are not in the file, by reason.
    pub left_out: BTreeMap<&'static str, u64>,
    /// Values that were made, because the trace has their length alone.
    pub values_made: u64,
    /// Among them, values whose length is not known either.
    pub lengths_made: u64,
    /// Scans: their lengths are lost.
    pub scans: u64,
    /// Parts of batches and transactions that were written before their end.
    pub written_early: u64,
}

/// See the module.
pub struct RocksDbWriter<W> {
    to: W,
    begin_micros: u64,
    last_micros: u64,
    open: HashMap<u64, Batch>,
    open_bytes: usize,
    /// Lookups of several keys that may go on.
    looking: Vec<Operation>,
    looking_bytes: usize,
    written: Written,
}

/// The writes of a batch, in RocksDB's form.
#[derive(Default)]
struct Batch {
    records: Vec<u8>,
    count: u32,
}

impl<W: Write> RocksDbWriter<W> {
    /// Begins a trace. `begin_micros` is the wall clock at its beginning, in microseconds since
    /// 1970.
    ///
    /// # Errors
    /// `Io`.
    pub fn new(to: W, begin_micros: u64) -> Result<RocksDbWriter<W>> {
        let mut writer = RocksDbWriter {
            to,
            begin_micros,
            last_micros: begin_micros,
            open: HashMap::new(),
            open_bytes: 0,
            looking: Vec::new(),
            looking_bytes: 0,
            written: Written::default(),
        };
        writer.record(begin_micros, 1, HEAD.as_bytes())?;
        Ok(writer)
    }

    /// Adds an operation.
    ///
    /// # Errors
    /// `Io`.
    pub fn add(&mut self, operation: &Operation) -> Result<()> {
        let goes_on = operation.kind == Kind::MultiGet
            && self.looking_bytes < LOOKING_BYTES_MAX
            && self
                .looking
                .last()
                .is_some_and(|last| last.group == operation.group);
        if !goes_on {
            self.end_looking()?;
        }
        let micros = self
            .begin_micros
            .saturating_add(operation.start_nanos / 1000);
        // Times of the file do not go back.
        self.last_micros = self.last_micros.max(micros);
        match operation.kind {
            Kind::MultiGet => {
                self.looking_bytes += size_of::<Operation>() + operation.key.len();
                self.looking.push(operation.clone());
                Ok(())
            }
            kind if kind.is_point_read() => self.get(operation),
            kind if kind.is_point_write() || kind == Kind::DeleteRange => self.write(operation),
            Kind::BatchCommit | Kind::Commit => self.end_group(operation),
            Kind::Abort => {
                self.drop_group(operation.group);
                Ok(())
            }
            Kind::Scan => self.seek(operation),
            Kind::Begin => Ok(()),
            Kind::Pop => self.leave_out("pops"),
            _ => self.leave_out("calls without a key"),
        }
    }

    /// Ends the trace, and gives back the target of the writes.
    ///
    /// # Errors
    /// `Io`.
    pub fn finish(mut self) -> Result<(W, Written)> {
        self.end_looking()?;
        let open: u64 = self.open.values().map(|batch| u64::from(batch.count)).sum();
        if open > 0 {
            self.written
                .left_out
                .insert("writes of batches and transactions without an end", open);
        }
        let count = self.written.records;
        self.record(self.last_micros, 2, b"")?;
        self.written.records = count;
        self.to.flush()?;
        Ok((self.to, self.written))
    }

    fn leave_out(&mut self, why: &'static str) -> Result<()> {
        *self.written.left_out.entry(why).or_default() += 1;
        Ok(())
    }

    fn record(&mut self, micros: u64, kind: u8, payload: &[u8]) -> Result<()> {
        self.to.write_all(&micros.to_le_bytes())?;
        self.to.write_all(&[kind])?;
        let len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        self.to.write_all(&len.to_le_bytes())?;
        self.to.write_all(payload)?;
        self.written.records += u64::from(kind > 2);
        Ok(())
    }

    /// A record whose payload begins with a map of its members.
    fn members(&mut self, kind: u8, members: &[u32], rest: &[u8]) -> Result<()> {
        let map: u64 = members.iter().map(|member| 1 << member).sum();
        let mut payload = map.to_le_bytes().to_vec();
        payload.extend_from_slice(rest);
        self.record(self.last_micros, kind, &payload)
    }

    fn get(&mut self, operation: &Operation) -> Result<()> {
        let mut payload = operation.keyspace.to_le_bytes().to_vec();
        put_bytes(&mut payload, &operation.key);
        self.members(4, &[2, 3], &payload)
    }

    fn end_looking(&mut self) -> Result<()> {
        let looking = std::mem::take(&mut self.looking);
        self.looking_bytes = 0;
        if looking.is_empty() {
            return Ok(());
        }
        let (mut families, mut keys) = (Vec::new(), Vec::new());
        for one in &looking {
            families.extend_from_slice(&one.keyspace.to_le_bytes());
            put_bytes(&mut keys, &one.key);
        }
        let mut payload = (looking.len() as u32).to_le_bytes().to_vec();
        put_bytes(&mut payload, &families);
        put_bytes(&mut payload, &keys);
        self.members(13, &[8, 9, 10], &payload)
    }

    fn seek(&mut self, operation: &Operation) -> Result<()> {
        self.written.scans += 1;
        let (low, end) = (&operation.key[..], operation.end_key.as_deref());
        let last = [u8::MAX; LAST_KEY_BYTES];
        let (kind, sought, low, high) = match (operation.reverse, end) {
            (false, end) => (5, low, None, end),
            // A range that ends right after a key began there.
            (true, Some(end)) => match end.strip_suffix(&[0]) {
                Some(sought) => (6, sought, Some(low), None),
                None => (6, end, Some(low), Some(end)),
            },
            (true, None) => (6, &last[..], Some(low), None),
        };
        let mut payload = operation.keyspace.to_le_bytes().to_vec();
        put_bytes(&mut payload, sought);
        let mut members = vec![4, 5];
        let bounds = [(6, low.filter(|low| !low.is_empty())), (7, high)];
        for (member, bound) in bounds {
            if let Some(bound) = bound {
                members.push(member);
                put_bytes(&mut payload, bound);
            }
        }
        self.members(kind, &members, &payload)
    }

    fn write(&mut self, operation: &Operation) -> Result<()> {
        if matches!(operation.outcome, Outcome::Failed(_)) {
            return self.leave_out("writes that failed");
        }
        if operation.kind == Kind::DeleteRange && operation.end_key.is_none() {
            return self.leave_out("deletions of ranges without an end");
        }
        let value = match operation.kind {
            Kind::Put | Kind::Ingest | Kind::Merge => match self.value(operation) {
                Some(value) => value,
                None => return self.leave_out("values above 64 MiB without their bytes"),
            },
            _ => Vec::new(),
        };
        if operation.group == 0 {
            let mut batch = Batch::default();
            batch.add(operation, &value);
            return self.batch(&batch);
        }
        let batch = self.open.entry(operation.group).or_default();
        let before = batch.records.len();
        batch.add(operation, &value);
        self.open_bytes += batch.records.len() - before;
        if self.open_bytes > OPEN_BYTES_MAX {
            for (_, batch) in std::mem::take(&mut self.open) {
                self.written.written_early += u64::from(batch.count);
                self.batch(&batch)?;
            }
            self.open_bytes = 0;
        }
        Ok(())
    }

    /// The value of the trace, or one of its length. `None` if that is too long.
    fn value(&mut self, operation: &Operation) -> Option<Vec<u8>> {
        if let Some(value) = &operation.value {
            return Some(value.clone());
        }
        let len = operation.value_len.unwrap_or(MADE_BYTES);
        if len > VALUE_BYTES_MAX {
            return None;
        }
        self.written.values_made += 1;
        self.written.lengths_made += u64::from(operation.value_len.is_none());
        let mut seed = value_hash(&operation.key);
        let mut made = Vec::with_capacity(len as usize + 8);
        while (made.len() as u64) < len {
            // The finish of a well-known generator (splitmix64): bytes that do not compress.
            seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = (seed ^ seed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            made.extend_from_slice(&(mixed ^ mixed >> 31).to_le_bytes());
        }
        made.truncate(len as usize);
        Some(made)
    }

    fn end_group(&mut self, operation: &Operation) -> Result<()> {
        if !matches!(operation.outcome, Outcome::Done | Outcome::Unknown) {
            self.drop_group(operation.group);
            return Ok(());
        }
        match self.open.remove(&operation.group) {
            Some(batch) => {
                self.open_bytes -= batch.records.len();
                self.batch(&batch)
            }
            None => Ok(()),
        }
    }

    fn drop_group(&mut self, group: u64) {
        if let Some(batch) = self.open.remove(&group) {
            self.open_bytes -= batch.records.len();
            let why = "writes of batches and transactions that were not committed";
            *self.written.left_out.entry(why).or_default() += u64::from(batch.count);
        }
    }

    fn batch(&mut self, batch: &Batch) -> Result<()> {
        let mut bytes = vec![0; 8];
        bytes.extend_from_slice(&batch.count.to_le_bytes());
        bytes.extend_from_slice(&batch.records);
        let mut payload = Vec::with_capacity(bytes.len() + 10);
        put_bytes(&mut payload, &bytes);
        self.members(3, &[1], &payload)
    }
}

impl Batch {
    fn add(&mut self, operation: &Operation, value: &[u8]) {
        // The tag without a column family, and the one with its number.
        let (bare, with_family) = match operation.kind {
            Kind::Delete => (0x0, 0x4),
            Kind::SingleDelete => (0x7, 0x8),
            Kind::DeleteRange => (0xf, 0xe),
            Kind::Merge => (0x2, 0x6),
            _ => (0x1, 0x5),
        };
        if operation.keyspace == 0 {
            self.records.push(bare);
        } else {
            self.records.push(with_family);
            put_varint(&mut self.records, operation.keyspace.into());
        }
        put_bytes(&mut self.records, &operation.key);
        match operation.kind {
            Kind::Delete | Kind::SingleDelete => {}
            Kind::DeleteRange => {
                put_bytes(
                    &mut self.records,
                    operation.end_key.as_deref().unwrap_or_default(),
                );
            }
            _ => put_bytes(&mut self.records, value),
        }
        self.count += 1;
    }
}

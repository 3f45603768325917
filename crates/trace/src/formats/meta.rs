//! Meta's cache traces (CacheLib's `kvcache`), as CSV whose first line names the columns, in any order: `key`, `op` and
//! `size`, and where they are there `op_time`, `op_count`, `key_size`, `cache_hits`, `ttl`. Others are passed over.
//!
//! `GET` and `GET_LEASE` are reads, `SET` and `SET_LEASE` are puts, `DELETE` is a delete. A line stands for as many operations
//! as `op_count` says; of reads, `cache_hits` of them found a value of `size` bytes, and the others none. Times and times to
//! live are in seconds; a line without `op_time` has the time of the one before it, or 0. Keys are anonymised: one that
//! is shorter than the size of the original is filled up with dots. The columns of tenants (`usecase`) are not kept.

use super::text::{LineFormat, SinceFirst, number, quoted};
use crate::operation::{Kind, Operation, Outcome};

/// A line that stands for more is bad: the traces count in 16 bits.
const COUNT_MAX: u64 = u16::MAX as u64;
/// A longer size of a key is not believed: it is the key's own then.
const KEY_SIZE_MAX: u64 = 4096;

/// Where the columns are.
#[derive(Clone, Copy)]
struct Columns {
    key: usize,
    op: usize,
    size: usize,
    time: Option<usize>,
    count: Option<usize>,
    key_size: Option<usize>,
    hits: Option<usize>,
    ttl: Option<usize>,
}

impl Columns {
    fn of(line: &str) -> Option<Columns> {
        let at = |name| line.split(',').position(|column| column.trim() == name);
        Some(Columns {
            key: at("key")?,
            op: at("op")?,
            size: at("size")?,
            time: at("op_time"),
            count: at("op_count"),
            key_size: at("key_size"),
            hits: at("cache_hits"),
            ttl: at("ttl"),
        })
    }
}

/// Whether a line names the columns that a trace must have.
pub(super) fn is_header(line: &str) -> bool {
    Columns::of(line).is_some()
}

#[derive(Default)]
pub(super) struct Lines {
    columns: Option<Columns>,
    since: SinceFirst,
    /// For lines without a time.
    last_nanos: u64,
    /// Operations of the last line, how many of them found something, and its size.
    count: u64,
    hits: Option<u64>,
    size: u64,
}

impl LineFormat for Lines {
    fn parse(&mut self, line: &str) -> Result<Option<Operation>, String> {
        if line.is_empty() {
            return Ok(None);
        }
        // Files that were put one behind the other have the names again.
        if let Some(columns) = Columns::of(line) {
            self.columns = Some(columns);
            return Ok(None);
        }
        let columns = self.columns.ok_or("no names of columns before it")?;
        let field = |at: usize| line.split(',').nth(at);
        let optional = |at: Option<usize>, what| {
            let field = at.and_then(field).filter(|field| !field.trim().is_empty());
            field.map(|field| number(Some(field), what)).transpose()
        };
        let kind = match field(columns.op).unwrap_or_default().trim() {
            "GET" | "GET_LEASE" => Kind::Get,
            "SET" | "SET_LEASE" => Kind::Put,
            "DELETE" => Kind::Delete,
            other => return Err(format!("no operation {}", quoted(other))),
        };
        let key = field(columns.key).filter(|key| !key.is_empty());
        let mut key = key.ok_or("no key")?.as_bytes().to_vec();
        let key_size = optional(columns.key_size, "key size")?.unwrap_or_default();
        if key_size <= KEY_SIZE_MAX {
            key.resize(key.len().max(key_size as usize), b'.');
        }
        let size = number(field(columns.size), "size")?;
        let count = optional(columns.count, "count of operations")?.unwrap_or(1);
        if !(1..=COUNT_MAX).contains(&count) {
            return Err(format!("{count} operations"));
        }
        let hits = optional(columns.hits, "cache hits")?;
        let ttl = optional(columns.ttl, "time to live")?.unwrap_or_default();
        let mut operation = Operation::new(kind, key);
        operation.start_nanos = match optional(columns.time, "time")? {
            Some(seconds) => self.since.of(seconds).saturating_mul(1_000_000_000),
            None => self.last_nanos,
        };
        if kind == Kind::Put {
            operation.value_len = Some(size);
            operation.ttl_millis = Some(ttl.saturating_mul(1000)).filter(|ttl| *ttl > 0);
        }
        self.last_nanos = operation.start_nanos;
        (self.count, self.size) = (count, size);
        self.hits = hits.filter(|_| kind == Kind::Get);
        Ok(Some(operation))
    }

    fn count(&self) -> u64 {
        self.count
    }

    fn adjust(&self, number: u64, operation: &mut Operation) {
        operation.outcome = match self.hits {
            None => Outcome::Unknown,
            Some(hits) if number < hits => Outcome::Present {
                len: Some(self.size),
                hash: None,
            },
            Some(_) => Outcome::Absent,
        };
    }

    fn times_back(&self) -> u64 {
        self.since.times_back()
    }
}

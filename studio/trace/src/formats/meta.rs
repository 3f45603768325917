//! Meta's cache traces (CacheLib's `kvcache`), as CSV whose first line names the columns, in any
//! order. The columns are `key`, `op` and `size`, and if present `op_time`, `op_count`, `key_size`,
//! `cache_hits`, `ttl`. Others are passed over.
//!
//! `GET` and `GET_LEASE` are reads, `SET` and `SET_LEASE` are puts, `DELETE` is a delete. A line
//! stands for `op_count` operations. Among reads, `cache_hits` of them found a value of `size`
//! bytes, and the others found none. The trace does not tell their order: reads that found a value
//! are given first, as if the value went away then. The number of operations with such an order is
//! counted ([`Imported::counted`](super::Imported), [`mixed`](super::Imported::mixed)). Without
//! `cache_hits`, the size of a read is taken for that of the value that it found, and 0 for a miss:
//! a convention, which [`ReadSizes`] can turn off.
//!
//! Times and times to live are in seconds. A line without `op_time` has the time of the one before
//! it, or 0. Keys are anonymised: a key that is shorter than the size of the original is filled up
//! with dots. The columns of tenants (`usecase`) are not kept.

use super::ReadSizes;
use super::text::{BYTE_ORDER_MARK, Line, LineFormat, SECOND, SinceFirst, found, number, quoted};
use crate::operation::{Kind, Operation, Outcome};

/// A line that stands for more operations is bad: the traces count in 16 bits.
const COUNT_MAX: u64 = u16::MAX as u64;
/// A larger size of a key is not believed: then the size of the key itself counts.
const KEY_SIZE_MAX: u64 = 4096;

/// The places of the columns.
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
    /// The number of all columns.
    all: usize,
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
            all: line.split(',').count(),
        })
    }

    /// The fields of a line. Additional commas belong to the key.
    fn fields<'l>(&self, line: &'l str) -> Vec<&'l str> {
        let commas: Vec<_> = line.match_indices(',').map(|(at, _)| at).collect();
        let more = (commas.len() + 1).saturating_sub(self.all);
        let mut fields = Vec::with_capacity(self.all);
        let (mut begin, mut comma) = (0, 0);
        while comma <= commas.len() {
            let last = match fields.len() == self.key {
                true => comma + more,
                false => comma,
            };
            let end = commas.get(last).copied().unwrap_or(line.len());
            fields.push(&line[begin..end]);
            (begin, comma) = ((end + 1).min(line.len()), last + 1);
        }
        fields
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
    /// The second of the last line. Without a column of times, the beginning of the next line.
    last_nanos: u64,
    sizes: ReadSizes,
}

impl Lines {
    pub(super) fn new(sizes: ReadSizes) -> Lines {
        Lines {
            sizes,
            ..Lines::default()
        }
    }
}

/// Whether the first names of columns in these bytes have one for times.
pub(super) fn has_times(begin: &[u8]) -> bool {
    let begin = begin.strip_prefix(BYTE_ORDER_MARK).unwrap_or(begin);
    let lines = begin.split(|byte| *byte == b'\n');
    let mut columns = lines.filter_map(|line| Columns::of(std::str::from_utf8(line).ok()?));
    columns.next().is_some_and(|columns| columns.time.is_some())
}

impl LineFormat for Lines {
    fn parse(&mut self, line: &str) -> Result<Option<Line>, String> {
        if line.is_empty() {
            return Ok(None);
        }
        // If files were joined, the names come again.
        if let Some(columns) = Columns::of(line) {
            self.columns = Some(columns);
            return Ok(None);
        }
        let columns = self.columns.ok_or("no names of columns before it")?;
        let fields = columns.fields(line);
        let field = |at: usize| fields.get(at).copied();
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
        if let Some(seconds) = optional(columns.time, "time")? {
            self.last_nanos = self.since.of(seconds).saturating_mul(SECOND);
        }
        operation.start_nanos = self.last_nanos;
        if kind == Kind::Put {
            operation.value_len = Some(size);
            operation.ttl_millis = Some(ttl.saturating_mul(1000)).filter(|ttl| *ttl > 0);
        }
        let mut line = Line::from(operation);
        line.count = count;
        line.within_nanos = match columns.time {
            Some(_) => SECOND,
            None => count,
        };
        if columns.time.is_none() {
            self.last_nanos = self.last_nanos.saturating_add(count);
        }
        if kind == Kind::Get {
            line.hits = hits;
            line.operation.outcome = match (hits, self.sizes) {
                (Some(_), _) => found(Some(size)),
                (None, ReadSizes::Found) => found(sized(size)),
                (None, ReadSizes::Ignored) => Outcome::Unknown,
            };
        }
        Ok(Some(line))
    }

    fn times_back(&self) -> u64 {
        self.since.times_back()
    }
}

/// A size, if it says that a value was found.
fn sized(size: u64) -> Option<u64> {
    Some(size).filter(|size| *size > 0)
}

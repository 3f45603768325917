//! Twitter's cache traces: `timestamp,key,key size,value size,client id,operation,TTL`, in seconds and bytes.
//!
//! `get` and `gets` are reads; the trace does not say whether they found something. `set`, `add`, `replace` and `cas` are
//! puts; `append`, `prepend`, `incr` and `decr` are merges; `delete` is a delete. A key has commas in no known trace. Keys
//! are anonymised, and may be shorter than the size beside them, which is that of the original.

use super::text::{LineFormat, SinceFirst, number, quoted};
use crate::operation::{Kind, Operation};

#[derive(Default)]
pub(super) struct Lines {
    since: SinceFirst,
}

impl LineFormat for Lines {
    fn parse(&mut self, line: &str) -> Result<Option<Operation>, String> {
        if line.is_empty() {
            return Ok(None);
        }
        let mut fields = line.split(',');
        let seconds = number(fields.next(), "timestamp")?;
        let key = fields.next().ok_or("no key")?;
        number(fields.next(), "key size")?;
        let value_len = number(fields.next(), "value size")?;
        let client = number(fields.next(), "client")?;
        let name = fields.next().unwrap_or_default().trim();
        let ttl = number(fields.next(), "time to live")?;
        if fields.next().is_some() {
            return Err("more than seven fields".to_owned());
        }
        let kind = match name {
            "get" | "gets" => Kind::Get,
            "set" | "add" | "replace" | "cas" => Kind::Put,
            "append" | "prepend" | "incr" | "decr" => Kind::Merge,
            "delete" => Kind::Delete,
            other => return Err(format!("no operation {}", quoted(other))),
        };
        let mut operation = Operation::new(kind, key);
        operation.start_nanos = self.since.of(seconds).saturating_mul(1_000_000_000);
        operation.thread = u32::try_from(client).map_err(|_| "an absurd client")?;
        if matches!(kind, Kind::Put | Kind::Merge) {
            operation.value_len = Some(value_len);
            operation.ttl_millis = Some(ttl.saturating_mul(1000)).filter(|ttl| *ttl > 0);
        }
        Ok(Some(operation))
    }

    fn times_back(&self) -> u64 {
        self.since.times_back()
    }
}

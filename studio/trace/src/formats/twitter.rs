//! Twitter's cache traces: `timestamp,key,key size,value size,client id,operation,TTL`, in seconds
//! and bytes.
//!
//! `get` and `gets` are reads. The value size of a read is that of the value that it found, and 0
//! if it found nothing. The keepers of the traces read them in this way; [`ReadSizes`] says if it
//! is not believed. A found value of no bytes cannot be distinguished from a miss. `set` is a put.
//! So are `add`, `replace` and `cas`, whose condition is lost: they are counted by name
//! ([`Imported::as_puts`](super::Imported)). `append`, `prepend`, `incr` and `decr` are read as
//! merges, and counted by name ([`as_merges`](super::Imported::as_merges)); `delete` is a delete.
//! The operand of `incr` and `decr` is a number of 8 bytes.
//!
//! The operations of one second are spread evenly over it. A key may have commas. Keys are
//! anonymised, and may be shorter than the size beside them, which is that of the original.

use super::ReadSizes;
use super::text::{Line, LineFormat, SECOND, SinceFirst, found, number, quoted};
use crate::operation::{Kind, Operation};

/// Bytes of the number that `incr` and `decr` add or subtract.
const NUMBER_BYTES: u64 = 8;

#[derive(Default)]
pub(super) struct Lines {
    since: SinceFirst,
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

impl LineFormat for Lines {
    fn parse(&mut self, line: &str) -> Result<Option<Line>, String> {
        if line.is_empty() {
            return Ok(None);
        }
        let (seconds, rest) = line.split_once(',').unwrap_or((line, ""));
        // The fields after the key have no commas; the key may.
        let mut fields = rest.rsplitn(6, ',');
        let (ttl, name, client) = (fields.next(), fields.next(), fields.next());
        let (value_len, key_len, key) = (fields.next(), fields.next(), fields.next());
        let key = key.ok_or("fewer than seven fields")?;
        let seconds = number(Some(seconds), "timestamp")?;
        number(key_len, "key size")?;
        let value_len = number(value_len, "value size")?;
        let client = number(client, "client")?;
        let name = name.unwrap_or_default().trim();
        let ttl = number(ttl, "time to live")?;
        let as_put = ["add", "replace", "cas"]
            .into_iter()
            .find(|known| *known == name);
        let (kind, as_merge) = match name {
            "get" | "gets" => (Kind::Get, None),
            "set" | "add" | "replace" | "cas" => (Kind::Put, None),
            "append" => (Kind::Merge, Some("append")),
            "prepend" => (Kind::Merge, Some("prepend")),
            "incr" => (Kind::Merge, Some("incr")),
            "decr" => (Kind::Merge, Some("decr")),
            "delete" => (Kind::Delete, None),
            other => return Err(format!("no operation {}", quoted(other))),
        };
        let mut operation = Operation::new(kind, key);
        operation.thread = u32::try_from(client).map_err(|_| "an absurd client")?;
        operation.start_nanos = self.since.of(seconds).saturating_mul(SECOND);
        match kind {
            Kind::Get if self.sizes == ReadSizes::Ignored => {}
            Kind::Get => operation.outcome = found(Some(value_len).filter(|len| *len > 0)),
            Kind::Put | Kind::Merge => {
                operation.value_len = Some(match as_merge {
                    Some("incr" | "decr") => NUMBER_BYTES,
                    _ => value_len,
                });
                operation.ttl_millis = Some(ttl.saturating_mul(1000)).filter(|ttl| *ttl > 0);
            }
            _ => {}
        }
        let mut line = Line::from(operation);
        line.within_nanos = SECOND;
        (line.as_merge, line.as_put) = (as_merge, as_put);
        Ok(Some(line))
    }

    fn times_back(&self) -> u64 {
        self.since.times_back()
    }
}

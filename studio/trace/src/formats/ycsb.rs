//! The output of YCSB's `basic` binding: `READ table key [ fields ]`, `INSERT`, `UPDATE`, `SCAN
//! table key count [ fields ]`, `DELETE table key`. No times: operations are a nanosecond apart, so
//! that their order stays.
//!
//! Other lines of the output (settings, statistics) are passed over. The length of a value is that
//! of the printed part of the fields' text.

use super::text::{Line, LineFormat};
use crate::operation::{Kind, Operation};

#[derive(Default)]
pub(super) struct Lines {
    count: u64,
}

impl LineFormat for Lines {
    fn parse(&mut self, line: &str) -> Result<Option<Line>, String> {
        let mut words = line.split(' ');
        let kind = match words.next() {
            Some("READ") => Kind::Get,
            Some("INSERT" | "UPDATE") => Kind::Put,
            Some("SCAN") => Kind::Scan,
            Some("DELETE") => Kind::Delete,
            _ => return Ok(None),
        };
        let (_table, key) = (words.next(), words.next().filter(|key| !key.is_empty()));
        let mut operation = Operation::new(kind, key.ok_or("no key")?);
        operation.start_nanos = self.count;
        self.count += 1;
        match kind {
            Kind::Scan => {
                let limit = words.next().and_then(|word| word.parse().ok());
                operation.limit = Some(limit.ok_or("no count of a scan")?);
            }
            Kind::Put => operation.value_len = value_len(line),
            _ => {}
        }
        Ok(Some(operation.into()))
    }

    /// The form has no times.
    fn times_back(&self) -> u64 {
        0
    }
}

/// Bytes of the values in `[ field0=... field1=... ]`.
fn value_len(line: &str) -> Option<u64> {
    let fields = line.split_once("[ ")?.1;
    let fields = fields.rsplit_once(']').map_or(fields, |(fields, _)| fields);
    let lens = fields.split(" field").map(|field| {
        let value = field.split_once('=').map_or("", |(_, value)| value);
        value.trim_end().len() as u64
    });
    Some(lens.sum())
}

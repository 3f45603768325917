//! Ranges of keys, as a caller says them: a kind, and up to two keys.

use super::bytes::Bytes;
use super::error::{Failure, Result};
use std::borrow::Cow;
use std::ops::Bound;

/// All keys; both byte strings are empty.
pub(crate) const ALL: i32 = 0;
/// The keys from `low` to below `high`.
pub(crate) const BETWEEN: i32 = 1;
/// The keys from `low` on; `high` is empty.
pub(crate) const FROM: i32 = 2;
/// The keys that begin with `low`; `high` is empty.
pub(crate) const PREFIX: i32 = 3;

/// The keys from `low` to below `high`, or to the end.
pub(crate) struct KeyRange<'k> {
    pub(crate) low: &'k [u8],
    pub(crate) high: Option<Cow<'k, [u8]>>,
}

impl<'k> KeyRange<'k> {
    pub(crate) fn of(kind: i32, low: (Bytes, usize), high: (Bytes, usize)) -> Result<KeyRange<'k>> {
        let low = low.0.of(low.1, "low")?;
        let high = high.0.of(high.1, "high")?;
        let is_said_fully = match kind {
            ALL => low.is_empty() && high.is_empty(),
            FROM | PREFIX => high.is_empty(),
            BETWEEN => true,
            _ => {
                let message = format!("there is no kind {kind} of a range");
                return Err(Failure::argument(message));
            }
        };
        if !is_said_fully {
            let message = "this kind of a range has no such end: it must be empty";
            return Err(Failure::argument(message));
        }
        let high = match kind {
            BETWEEN => Some(Cow::Borrowed(high)),
            PREFIX => prefix_end(low).map(Cow::Owned),
            _ => None,
        };
        Ok(KeyRange { low, high })
    }

    pub(crate) fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        let high = self.high.as_deref();
        let high = high.map_or(Bound::Unbounded, Bound::Excluded);
        (Bound::Included(self.low), high)
    }
}

/// The least key above all keys that begin with `prefix`; `None` if there is no such key.
fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

//! The times at which values of a trace expire: the replay deletes them then.
//!
//! The times to live of a lab's store cannot follow the time of a trace, since a replay may be
//! faster. So the plan asks for a deletion when the trace comes to the moment at which a value
//! expired, unless its key has been written again since.
//!
//! Memory: two copies of each key that waits, within [`BYTES_MAX`]. Keys beyond that are counted,
//! and stay in the store.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Waiting keys may take this number of bytes.
const BYTES_MAX: usize = 256 << 20;
/// Bytes that a waiting key takes beside its own, about.
const OVERHEAD: usize = 128;

/// See the module. Times are nanoseconds from the beginning of the trace.
#[derive(Default)]
pub(super) struct Expiry {
    /// The time at which a key's value expires, if it is still the last one.
    when: HashMap<Vec<u8>, u64>,
    waiting: BinaryHeap<Reverse<(u64, Vec<u8>)>>,
    bytes: usize,
    /// Values that stay because there was no room to wait for their end.
    pub(super) kept: u64,
}

impl Expiry {
    /// Notes that a key was written: until a time, or for ever.
    pub(super) fn written(&mut self, key: &[u8], until: Option<u64>) {
        match until {
            None if self.when.is_empty() => {}
            None => drop(self.when.remove(key)),
            Some(_) if self.bytes > BYTES_MAX => {
                self.kept += 1;
                self.when.remove(key);
            }
            Some(until) => {
                self.bytes += bytes_of(key);
                self.when.insert(key.to_vec(), until);
                self.waiting.push(Reverse((until, key.to_vec())));
            }
        }
    }

    /// The next value that has expired by this moment, and its time.
    pub(super) fn next(&mut self, now: u64) -> Option<(u64, Vec<u8>)> {
        while let Some(Reverse((until, _))) = self.waiting.peek()
            && *until <= now
        {
            let Reverse((until, key)) = self.waiting.pop()?;
            self.bytes -= bytes_of(&key);
            if self.when.get(&key) == Some(&until) {
                self.when.remove(&key);
                return Some((until, key));
            }
        }
        None
    }
}

fn bytes_of(key: &[u8]) -> usize {
    2 * key.len() + OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::Expiry;

    #[test]
    fn a_value_is_over_once_at_its_time_and_not_if_it_was_written_over() {
        let mut expiry = Expiry::default();
        expiry.written(b"a", Some(10));
        expiry.written(b"b", Some(5));
        expiry.written(b"c", Some(7));
        expiry.written(b"c", None);
        expiry.written(b"d", Some(3));
        expiry.written(b"d", Some(20));
        assert_eq!(expiry.next(4), None);
        assert_eq!(expiry.next(10), Some((5, b"b".to_vec())));
        assert_eq!(expiry.next(10), Some((10, b"a".to_vec())));
        assert_eq!(expiry.next(10), None);
        assert_eq!(expiry.next(30), Some((20, b"d".to_vec())));
        assert_eq!(expiry.next(u64::MAX), None);
        assert_eq!((expiry.bytes, expiry.kept), (0, 0));
    }
}

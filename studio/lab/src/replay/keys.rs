//! Puts keys that a file lists. So the store has all keys of the store that was traced, and not
//! only the keys that the trace names.
//!
//! The file has the form that [`KeyLines`] reads: the output of `evendb scan DB --keys-only
//! --output hex`. Keys are taken unchanged, so this does not fit a trace of several keyspaces.

use std::io::BufRead;
use std::sync::atomic::{AtomicBool, Ordering};

use evendb_trace::KeyLines;

use super::work::Bytes;
use super::worker::value_of;
use crate::recorder::RunError;
use crate::store::Store;

/// Puts each key with a value of `value_bytes` bytes, and settles. Returns the number of keys.
///
/// # Errors
/// `Input` with the number of a line that has no key; the store's.
pub fn put_keys(
    lines: impl BufRead,
    store: &dyn Store,
    value_bytes: usize,
    stop: &AtomicBool,
) -> Result<u64, RunError> {
    let mut lines = KeyLines::new(lines);
    let (mut put, mut value) = (0, Vec::new());
    while let Some(key) = lines.next_key()? {
        store.put(key, value_of(&mut value, key, &Bytes::Len(value_bytes)))?;
        put += 1;
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    store.settle_debt()?;
    Ok(put)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stores::memory::MemoryStore;

    #[test]
    fn each_line_is_put() {
        let (store, never) = (MemoryStore::new(), AtomicBool::new(false));
        let put = put_keys(&b"00ff\n6162\r\n\n"[..], &store, 7, &never);
        assert_eq!(put.unwrap(), 3);
        for key in [&[0, 255][..], b"ab", b""] {
            let mut length = 0;
            assert!(store.get(key, &mut |value| length = value.len()).unwrap());
            assert_eq!(length, 7);
        }
        let error = put_keys(&b"00\n0\n"[..], &store, 7, &never).unwrap_err();
        assert!(error.to_string().contains("line 2"), "{error}");
    }
}

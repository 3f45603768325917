//! Puts keys that a file lists, so that a store has what the one had of which a trace was taken: also keys that the trace does not name.
//!
//! The file has a key a line, in hexadecimal digits: what `evendb scan DB --keys-only --output hex` prints. Keys are as they are in the store; a trace of
//! several keyspaces is not meant.

use std::io::BufRead;
use std::sync::atomic::{AtomicBool, Ordering};

use super::plan::Bytes;
use super::worker::value_of;
use crate::recorder::RunError;
use crate::store::Store;

/// Puts each key with a value of so many bytes, and settles; how many there were.
///
/// # Errors
/// `Input` with the number of the line that is none; the store's.
pub fn put_keys(
    lines: impl BufRead,
    store: &dyn Store,
    value_bytes: usize,
    stop: &AtomicBool,
) -> Result<u64, RunError> {
    let (mut put, mut value) = (0, Vec::new());
    for line in lines.lines() {
        let line = line.map_err(|error| RunError::Input(error.to_string()))?;
        let key = bytes_of(&line).ok_or_else(|| {
            RunError::Input(format!(
                "line {} has no hexadecimal digits of a key",
                put + 1
            ))
        })?;
        store.put(&key, value_of(&mut value, &key, &Bytes::Len(value_bytes)))?;
        put += 1;
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    store.settle_debt()?;
    Ok(put)
}

/// The bytes of which these are the digits.
fn bytes_of(line: &str) -> Option<Vec<u8>> {
    let digits = line.trim_end().as_bytes();
    let pairs = digits.chunks(2).map(|pair| match pair {
        [high, low] => {
            let digit = |byte: &u8| char::from(*byte).to_digit(16);
            u8::try_from(digit(high)? << 4 | digit(low)?).ok()
        }
        _ => None,
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stores::memory::MemoryStore;

    #[test]
    fn each_line_is_a_key() {
        let (store, never) = (MemoryStore::new(), AtomicBool::new(false));
        assert_eq!(
            put_keys(&b"00ff\n6162\r\n\n"[..], &store, 7, &never).unwrap(),
            3
        );
        for key in [&[0, 255][..], b"ab", b""] {
            let mut length = 0;
            assert!(store.get(key, &mut |value| length = value.len()).unwrap());
            assert_eq!(length, 7);
        }
        for wrong in ["00\n0\n", "00\nxy\n", "00\n+1\n"] {
            let error = put_keys(wrong.as_bytes(), &store, 7, &never).unwrap_err();
            assert!(error.to_string().contains("line 2"), "{error}");
        }
    }
}

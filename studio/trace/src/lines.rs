//! Lines of a text that may be hostile: a line that is too long is not kept.

use crate::error::Result;
use std::io::BufRead;

/// The next line without its end. False if it has more bytes than the limit, and is not kept whole.
/// `None` at the end.
pub(crate) fn next_line(
    from: &mut dyn BufRead,
    line: &mut Vec<u8>,
    bytes_max: usize,
) -> Result<Option<bool>> {
    line.clear();
    let (mut is_whole, mut is_there) = (true, false);
    loop {
        let bytes = match from.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        if bytes.is_empty() {
            return Ok(is_there.then_some(is_whole));
        }
        is_there = true;
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let part = end.unwrap_or(bytes.len());
        match line.len() + part <= bytes_max {
            true => line.extend_from_slice(&bytes[..part]),
            false => is_whole = false,
        }
        from.consume(end.map_or(part, |end| end + 1));
        if end.is_some() {
            return Ok(Some(is_whole));
        }
    }
}

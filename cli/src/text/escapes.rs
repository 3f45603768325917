//! Bytes as text and back: escapes, and hexadecimal digits.
//!
//! Escaped text is one line of printable UTF-8, for any bytes:
//! ```text
//!   \t \n \r \\   tab, line feed, carriage return, backslash
//!   \xNN          a byte of another control character, of a mark of direction, of U+2028 or
//!                 U+2029, or of a byte-order mark, or one that is no UTF-8
//! ```
//! Everything else stands for itself. [`unescape`] reads back what [`escaped`] writes, and refuses
//! a backslash before any other character, so that it never guesses.

use std::borrow::Cow;
use std::io::{self, Write};

use evendb_lab::printed::is_hidden;

/// Bytes as one line of text.
pub fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\t' => text.push_str("\\t"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\\' => text.push_str("\\\\"),
                // A byte-order mark at the beginning of a file would count as the file's own.
                _ if is_hidden(letter) => push_bytes(&mut text, letter),
                _ => text.push(letter),
            }
        }
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text
}

fn push_bytes(text: &mut String, letter: char) {
    let mut buffer = [0; 4];
    let bytes = letter.encode_utf8(&mut buffer).bytes();
    text.extend(bytes.map(|byte| format!("\\x{byte:02x}")));
}

/// Writes bytes as [`escaped`] does.
pub fn write_escaped(target: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let plain = |byte: &u8| matches!(byte, b' '..=b'~') && *byte != b'\\';
    if bytes.iter().all(plain) {
        return target.write_all(bytes);
    }
    target.write_all(escaped(bytes).as_bytes())
}

/// Bytes of an input for a message: escaped, and no more than a line of them.
pub fn shown(bytes: &[u8]) -> String {
    match bytes.len() {
        0..=100 => escaped(bytes),
        _ => escaped(&bytes[..100]) + "...",
    }
}

/// The bytes that escaped text stands for.
pub fn unescape(text: &[u8]) -> Result<Cow<'_, [u8]>, String> {
    if !text.contains(&b'\\') {
        return Ok(Cow::Borrowed(text));
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut pieces = text.split(|&byte| byte == b'\\');
    bytes.extend_from_slice(pieces.next().unwrap_or_default());
    while let Some(piece) = pieces.next() {
        let refused = || {
            let shown = String::from_utf8_lossy(&piece[..piece.len().min(3)]).into_owned();
            format!("`\\{shown}` is no escape; there are \\t, \\n, \\r, \\\\ and \\xNN")
        };
        match piece {
            [b't', ..] => bytes.push(b'\t'),
            [b'n', ..] => bytes.push(b'\n'),
            [b'r', ..] => bytes.push(b'\r'),
            [b'x', high, low, ..] => {
                bytes.extend(unhex(&[*high, *low]).map_err(|_| refused())?);
            }
            // Two backslashes: the text after them stands for itself.
            [] => {
                bytes.push(b'\\');
                bytes.extend_from_slice(pieces.next().ok_or_else(refused)?);
                continue;
            }
            _ => return Err(refused()),
        }
        let used = if piece[0] == b'x' { 3 } else { 1 };
        bytes.extend_from_slice(&piece[used..]);
    }
    Ok(Cow::Owned(bytes))
}

/// Bytes in hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes that hexadecimal digits stand for.
pub fn unhex(text: &[u8]) -> Result<Vec<u8>, String> {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = text.as_chunks::<2>();
    if !rest.is_empty() {
        let shown = shown(text);
        return Err(format!("`{shown}` has an odd number of hexadecimal digits"));
    }
    pairs
        .iter()
        .map(|&[high, low]| Some((digit(high)? << 4) | digit(low)?))
        .collect::<Option<_>>()
        .ok_or_else(|| format!("`{}` is no hexadecimal number", shown(text)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escapes_are_what_the_picture_says() {
        let bytes = b"a\\b\tc\nd\re\0\x7F\xFF\xC3\xA9\xEF\xBB\xBF\xC2\x85\xE2\x80\xAE";
        let text =
            "a\\\\b\\tc\\nd\\re\\x00\\x7f\\xff\u{e9}\\xef\\xbb\\xbf\\xc2\\x85\\xe2\\x80\\xae";
        assert_eq!(escaped(bytes), text);
        assert_eq!(*unescape(text.as_bytes()).unwrap(), bytes[..]);
        for wrong in ["\\", "a\\q", "\\x0", "\\xzz", "\\\\\\", "\\k"] {
            assert!(unescape(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn what_is_escaped_is_read_back(bytes in proptest::collection::vec(
            prop_oneof![Just(b'\\'), Just(b'x'), Just(0xEF), Just(0xBB), Just(0xE2), Just(0x80), any::<u8>()], 0..12,
        )) {
            let text = escaped(&bytes);
            prop_assert!(!text.chars().any(is_hidden));
            prop_assert_eq!(unescape(text.as_bytes()).unwrap().into_owned(), bytes.clone());
            let mut written = Vec::new();
            write_escaped(&mut written, &bytes).unwrap();
            prop_assert_eq!(written, text.into_bytes());
            prop_assert_eq!(unhex(hex(&bytes).as_bytes()).unwrap(), bytes);
        }
    }
}

//! Foreign text on a terminal: names of files, texts in files, errors that contain them.
//!
//! A terminal obeys control characters, and marks of direction show a text in another order than
//! its own. So characters that [`is_hidden`] names are written as escapes, and everything else as
//! it is:
//! ```text
//!   \n \r \t   line feed, carriage return, tabulator
//!   \uNNNN     another such character, as \u001b
//!   \xNN       a byte that is no UTF-8
//! ```
//! JSON and TOML have the first two in their texts, so that a document in them keeps its meaning.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, Write};

/// Whether a terminal would obey the character, or show the text around it in another order:
/// control characters, marks of direction, other line ends, and the byte-order mark.
#[must_use]
pub fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
        || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A text as one line, with escapes for hidden characters. A line feed at its end stays.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    let body = text.strip_suffix('\n').unwrap_or(text);
    body.chars().for_each(|letter| push(&mut line, letter));
    line + &text[body.len()..]
}

/// The arguments of a command that have hidden characters (a shell takes them from names of files),
/// and values in them.
#[must_use]
pub fn hidden_words(arguments: impl Iterator<Item = OsString>) -> Vec<String> {
    let words = arguments.map(|word| word.to_string_lossy().into_owned());
    let mut hidden: Vec<_> = words.filter(|word| word.contains(is_hidden)).collect();
    let values = hidden.iter().filter_map(|word| word.split_once('='));
    let values: Vec<_> = values.map(|(_, value)| value.to_owned()).collect();
    hidden.extend(values);
    hidden
}

/// A text of several lines with escapes in the words of [`hidden_words`]. Each of these words is
/// then in one line.
#[must_use]
pub fn without_hidden(text: String, hidden: &[String]) -> String {
    let escaped = |text: String, word: &String| text.replace(word, &printable(word));
    hidden.iter().fold(text, escaped)
}

/// Writes a text of several lines to `target`, with escapes for hidden characters; line feeds and
/// tabulators stay. The written pieces have whole characters, as those of `write!` do.
#[derive(Debug)]
pub struct Printed<W>(pub W);

impl<W: Write> Write for Printed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let stays = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
        if bytes.iter().all(stays) {
            return self.0.write(bytes);
        }
        let mut text = String::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            for letter in chunk.valid().chars() {
                match letter {
                    '\n' | '\t' => text.push(letter),
                    _ => push(&mut text, letter),
                }
            }
            text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
        }
        self.0.write_all(text.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn push(text: &mut String, letter: char) {
    match letter {
        '\n' => text.push_str("\\n"),
        '\r' => text.push_str("\\r"),
        '\t' => text.push_str("\\t"),
        _ if is_hidden(letter) => {
            // Writing to a text cannot fail.
            let _ = write!(text, "\\u{:04x}", u32::from(letter));
        }
        _ => text.push(letter),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For any text: no byte or mark that a terminal obeys is left.
    #[test]
    fn no_character_that_a_terminal_obeys_is_left() {
        for letter in '\0'..=char::MAX {
            let is_one = matches!(letter, '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{61c}' | '\u{feff}')
                || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}')
                || matches!(letter, '\u{2066}'..='\u{2069}');
            assert_eq!(is_hidden(letter), is_one, "{letter:?}");
        }
    }

    #[test]
    fn a_line_has_escapes_and_keeps_its_end() {
        let text = "a\u{1b}[2J\u{7}\n\u{9b}1m\r\u{202e}b\t\u{e9}\\\u{2028}";
        let line = "a\\u001b[2J\\u0007\\n\\u009b1m\\r\\u202eb\\t\u{e9}\\\\u2028";
        assert_eq!(printable(text), line);
        assert_eq!(printable("one\n"), "one\n");
        assert_eq!(printable("one\n\n"), "one\\n\n");
        assert_eq!(printable(""), "");
    }

    #[test]
    fn words_of_arguments_have_escapes_in_a_text_of_several_lines() {
        let words = ["plain", "a\u{1b}b", "--out=c\nd"].map(OsString::from);
        let hidden = hidden_words(words.into_iter());
        assert_eq!(hidden, ["a\u{1b}b", "--out=c\nd", "c\nd"]);
        let text = "no a\u{1b}b\nfor c\nd\n".to_owned();
        let told = "no a\\u001bb\nfor c\\nd\n";
        assert_eq!(without_hidden(text, &hidden), told);
    }

    #[test]
    fn a_text_of_several_lines_keeps_these_and_its_tabulators() {
        let mut written = Printed(Vec::new());
        write!(written, "a\tb\n\u{1b}c\r\u{9b}\u{e9}\n").unwrap();
        written.write_all(b"\x9b\xff\n").unwrap();
        let text = "a\tb\n\\u001bc\\r\\u009b\u{e9}\n\\x9b\\xff\n";
        assert_eq!(String::from_utf8(written.0).unwrap(), text);
    }

    #[test]
    fn json_says_the_same_as_before() {
        let value = serde_json::json!({"a\u{9b}": "\u{1b}\u{202e}\u{7f}\n\\"});
        let mut written = Printed(Vec::new());
        write!(written, "{value}").unwrap();
        assert!(written.0.is_ascii());
        let again: serde_json::Value = serde_json::from_slice(&written.0).unwrap();
        assert_eq!(again, value);
    }
}

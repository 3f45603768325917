//! Comments at the beginning of a file, which would make all later lines bad.

use std::io;

use evendb_lab::readable::counted;

use super::{Format, PairReader, without_return};
use crate::csv::{Fields, Parsed};

/// The highest number of lines at the beginning that are looked at for comments, and of bytes.
const COMMENTS_MAX: u64 = 1000;
const COMMENT_BYTES_MAX: usize = 64 << 20;

impl PairReader {
    /// Leaves out lines at the beginning that start with `#` and have another number of fields than
    /// the first line that does not start so. They are comments, and would make all later lines
    /// bad.
    pub(super) fn leave_out_first_comments(&mut self) -> io::Result<()> {
        let mut hashed: Vec<Vec<u8>> = Vec::new();
        let mut other = None;
        let mut bytes = 0;
        while (hashed.len() as u64) < COMMENTS_MAX && bytes < COMMENT_BYTES_MAX {
            let mut line = Vec::new();
            if !self.lines.append(&mut line)? {
                break;
            }
            if !line.starts_with(b"#") {
                other = Some(line);
                break;
            }
            bytes += line.len();
            hashed.push(line);
        }
        let Some(other) = other else {
            let count = hashed.len() as u64;
            if count > 0 {
                self.lines.give_back(&hashed.join(&b'\n'), count);
            }
            return Ok(());
        };
        let expected = self.field_count(&other);
        let is_comment = |line: &&Vec<u8>| self.field_count(line) != expected;
        let comments = hashed.iter().take_while(is_comment).count();
        hashed.push(other);
        let kept = &hashed[comments..];
        self.lines.give_back(&kept.join(&b'\n'), kept.len() as u64);
        self.comments = comments as u64;
        if comments > 0 {
            let lines = counted(self.comments, "comment line");
            self.notes.push(format!(
                "left out: {lines} at the beginning, for what begins with `#` has not {expected} \
                 columns there, as the next line has (--comment \"\" takes such lines as records, \
                 --comment \"#\" leaves out all of them)"
            ));
        }
        Ok(())
    }

    /// About how many fields a line has.
    fn field_count(&self, line: &[u8]) -> usize {
        let line = without_return(line);
        if self.format == Format::Csv {
            let mut fields = Fields::new(self.delimiter);
            if fields.parse(line) == Parsed::Complete {
                return fields.len();
            }
        }
        1 + line.iter().filter(|&&byte| byte == self.delimiter).count()
    }
}

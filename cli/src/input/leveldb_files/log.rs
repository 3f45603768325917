//! A log of LevelDB: blocks of 32 KiB with pieces of records.
//!
//! ```text
//! piece     checksum of the type and the bytes (4 bytes), length (2), type (1), bytes
//! type      1 a whole record, 2 its first piece, 3 one in the middle, 4 its last
//! ```
//! Fewer than seven bytes at a block's end are zeros. Space that was allocated and not written is
//! zeros too.

use evendb::vfs::OsVfs;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use super::decode::{Bytes, masked_crc};
use super::{Error, LOGS_BYTES_MAX, Result};

const BLOCK_BYTES: usize = 32 << 10;
const HEADER_BYTES: usize = 7;

/// Reads the records of a log.
pub struct LogReader {
    path: PathBuf,
    file: BufReader<File>,
    block: Vec<u8>,
    at: usize,
    /// The offset of this block, and of the next one.
    block_offset: u64,
    next_offset: u64,
    record: Vec<u8>,
    record_offset: u64,
    /// The beginning of the record that the file's end cuts.
    cut_at: Option<u64>,
}

enum Piece {
    Whole,
    First,
    Middle,
    Last,
}

impl LogReader {
    pub fn open(path: &Path) -> Result<LogReader> {
        Ok(LogReader {
            path: path.to_owned(),
            file: BufReader::new(OsVfs::regular_file(path).map_err(Error::io(path))?),
            block: Vec::new(),
            at: 0,
            block_offset: 0,
            next_offset: 0,
            record: Vec::new(),
            record_offset: 0,
            cut_at: None,
        })
    }

    /// The next record, and where it begins.
    pub fn next(&mut self) -> Result<Option<(u64, &[u8])>> {
        self.record.clear();
        let mut is_within = false;
        loop {
            let offset = self.block_offset + self.at as u64;
            let Some((piece, bytes)) = self.piece()? else {
                if is_within {
                    self.cut_at = Some(self.record_offset);
                }
                return Ok(None);
            };
            let begins = matches!(piece, Piece::Whole | Piece::First);
            if begins {
                // Old versions wrote an empty first piece at a block's end, and the record after
                // it.
                if is_within && !self.record.is_empty() {
                    return Err(self.damaged(offset, "a record begins within another one"));
                }
                self.record_offset = offset;
            } else if !is_within {
                return Err(self.damaged(offset, "a record has no first piece"));
            }
            if (self.record.len() + bytes.len()) as u64 > LOGS_BYTES_MAX {
                let what = "a record is larger than 1 GiB";
                return Err(Error::unsupported(&self.path, what));
            }
            self.record.extend_from_slice(&self.block[bytes]);
            if matches!(piece, Piece::Whole | Piece::Last) {
                return Ok(Some((self.record_offset, &self.record)));
            }
            is_within = true;
        }
    }

    /// Checks the end of the log: only the last log may be cut, by an interrupted write.
    pub fn check_end(&self, is_last: bool, notes: &mut Vec<String>) -> Result<()> {
        let Some(offset) = self.cut_at else {
            return Ok(());
        };
        if !is_last {
            return Err(self.damaged(offset, "a record is cut, and the log is not the last one"));
        }
        let (path, bytes) = (self.path.display(), self.next_offset - offset);
        notes.push(format!(
            "{path} ends with a record that is cut: {bytes} bytes from offset {offset} on are left out, as LevelDB \
             leaves them out when it opens the database"
        ));
        Ok(())
    }

    fn piece(&mut self) -> Result<Option<(Piece, std::ops::Range<usize>)>> {
        loop {
            let left = &self.block[self.at..];
            let is_last = self.block.len() < BLOCK_BYTES;
            if left.len() < HEADER_BYTES {
                if left.iter().any(|&byte| byte != 0) {
                    if !is_last {
                        return Err(self.damaged(self.here(), "a block's end is not zero"));
                    }
                    self.cut_at = Some(self.here());
                }
                if is_last && self.next_offset > 0 {
                    return Ok(None);
                }
                self.read_block()?;
                if self.block.is_empty() {
                    return Ok(None);
                }
                continue;
            }
            let mut header = Bytes(left);
            let crc = header.fixed32().unwrap_or_default();
            let length = header
                .take(2)
                .map_or(0, |two| usize::from(two[0]) | usize::from(two[1]) << 8);
            let kind = header.byte().unwrap_or_default();
            if (crc, length, kind) == (0, 0, 0) {
                if header.0.iter().any(|&byte| byte != 0) {
                    return Err(self.damaged(self.here(), "there are bytes behind a gap of zeros"));
                }
                self.at = self.block.len();
                continue;
            }
            let Some(bytes) = header.take(length) else {
                if !is_last {
                    return Err(self.damaged(self.here(), "a record reaches beyond its block"));
                }
                self.cut_at = Some(self.here());
                return Ok(None);
            };
            if masked_crc(&[kind], bytes) != crc {
                return Err(self.damaged(self.here(), "a record's checksum does not fit"));
            }
            let piece = match kind {
                1 => Piece::Whole,
                2 => Piece::First,
                3 => Piece::Middle,
                4 => Piece::Last,
                _ => return Err(self.damaged(self.here(), "a record has an unknown type")),
            };
            let start = self.at + HEADER_BYTES;
            self.at = start + length;
            return Ok(Some((piece, start..self.at)));
        }
    }

    fn read_block(&mut self) -> Result<()> {
        self.block.clear();
        let mut source = (&mut self.file).take(BLOCK_BYTES as u64);
        source
            .read_to_end(&mut self.block)
            .map_err(Error::io(&self.path))?;
        self.at = 0;
        self.block_offset = self.next_offset;
        self.next_offset += self.block.len() as u64;
        Ok(())
    }

    fn here(&self) -> u64 {
        self.block_offset + self.at as u64
    }

    fn damaged(&self, offset: u64, what: &str) -> Error {
        Error::damaged(&self.path, offset, what)
    }
}

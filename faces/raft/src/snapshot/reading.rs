//! Reads a snapshot's file (see [`super`]), and verifies each frame before anything of it is given.

use super::{
    ABOUT, END, HEADER_BYTES, KEYSPACE, MAGIC, RECORDS, VERSION, checksum, decode_about, failed,
};
use crate::state::Applied;
use evendb::vfs::File;
use evendb::{Error, ErrorKind, Result};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of a frame beside its body.
const AROUND: u64 = 13;

/// What a snapshot has, piece by piece.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    /// The records that follow are of the keyspace with this name.
    Keyspace(String),
    /// A key and its value.
    Record(Vec<u8>, Vec<u8>),
}

/// Reads one file from its beginning to its end.
pub struct Reader {
    file: Arc<dyn File>,
    len: u64,
    offset: u64,
    salt: u64,
    frame: u64,
    about: Applied,
    /// Records that were read and not given yet, and how many of their bytes were given.
    records: Vec<u8>,
    given: usize,
    count: u64,
    is_over: bool,
}

impl Reader {
    /// Begins with a file; what it is about is known then.
    ///
    /// # Errors
    /// `Corruption` with file and offset, `Unsupported` for a later version, `Io`.
    pub fn new(file: Arc<dyn File>) -> Result<Reader> {
        let len = file
            .len()
            .map_err(|error| failed(file.path(), "look at a snapshot", error))?;
        let mut reader = Reader {
            file,
            len,
            offset: 0,
            salt: 0,
            frame: 0,
            about: Applied::default(),
            records: Vec::new(),
            given: 0,
            count: 0,
            is_over: false,
        };
        reader.header()?;
        let (kind, body) = reader.next_frame()?;
        match decode_about(&body) {
            Some(about) if kind == ABOUT => reader.about = about,
            _ => return Err(reader.damaged("what it is about does not come first")),
        }
        Ok(reader)
    }

    /// What the snapshot is about.
    pub fn about(&self) -> &Applied {
        &self.about
    }

    /// The random number that distinguishes this snapshot from all others.
    pub fn salt(&self) -> u64 {
        self.salt
    }

    fn damaged(&self, what: &str) -> Error {
        let path = self.file.path().display();
        let message = format!(
            "{path}: a damaged snapshot at offset {}: {what}",
            self.offset
        );
        Error::new(ErrorKind::Corruption, message)
    }

    /// Reads the next bytes, if the file has them.
    fn bytes(&mut self, len: u64) -> Result<Vec<u8>> {
        if self.len - self.offset < len {
            return Err(self.damaged("it ends too early"));
        }
        let mut bytes = vec![0; len as usize];
        let mut done = 0;
        while done < bytes.len() {
            let read = self
                .file
                .read_at(&mut bytes[done..], self.offset + done as u64);
            match read.map_err(|error| failed(self.file.path(), "read a snapshot", error))? {
                0 => return Err(self.damaged("it became shorter")),
                read => done += read,
            }
        }
        self.offset += len;
        Ok(bytes)
    }

    fn header(&mut self) -> Result<()> {
        let bytes = self.bytes(HEADER_BYTES)?;
        let (begin, sum) = bytes.split_at(HEADER_BYTES as usize - 8);
        if !begin.starts_with(MAGIC) {
            return Err(self.damaged("it does not begin as a snapshot does"));
        }
        if u64::from_le_bytes(array(sum)) != xxh3_64(begin) {
            return Err(self.damaged("its header does not verify"));
        }
        let version = u32::from_le_bytes(array(&begin[8..12]));
        if version != VERSION {
            let path = self.file.path().display();
            let message =
                format!("{path}: a snapshot of version {version}; this program reads {VERSION}");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        self.salt = u64::from_le_bytes(array(&begin[12..20]));
        Ok(())
    }

    fn next_frame(&mut self) -> Result<(u8, Vec<u8>)> {
        let head = self.bytes(5)?;
        let (len, kind) = (u64::from(u32::from_le_bytes(array(&head[..4]))), head[4]);
        if self.len - self.offset < len + (AROUND - 5) {
            return Err(self.damaged("it ends within a frame"));
        }
        let body = self.bytes(len)?;
        let sum = self.bytes(8)?;
        if u64::from_le_bytes(array(&sum)) != checksum(self.salt, self.frame, kind, &body) {
            return Err(self.damaged("a frame does not verify"));
        }
        self.frame += 1;
        Ok((kind, body))
    }

    /// The next piece; `None` at the end; then everything has come.
    ///
    /// # Errors
    /// `Corruption` with file and offset, `Unsupported`, `Io`.
    pub fn next_piece(&mut self) -> Result<Option<Piece>> {
        loop {
            if self.given < self.records.len() {
                return self.next_record().map(Some);
            }
            if self.is_over {
                return Ok(None);
            }
            let (kind, body) = self.next_frame()?;
            match kind {
                KEYSPACE => {
                    let name = String::from_utf8(body);
                    let name = name.map_err(|_| self.damaged("a name that is no text"))?;
                    return Ok(Some(Piece::Keyspace(name)));
                }
                RECORDS => (self.records, self.given) = (body, 0),
                END => self.end(&body)?,
                other => {
                    let path = self.file.path().display();
                    let message = format!("{path}: a snapshot with frames of kind {other}");
                    return Err(Error::new(ErrorKind::Unsupported, message));
                }
            }
        }
    }

    fn next_record(&mut self) -> Result<Piece> {
        let rest = &self.records[self.given..];
        let record = rest.split_first_chunk::<8>().and_then(|(lengths, rest)| {
            let key_len = u32::from_le_bytes(array(&lengths[..4])) as usize;
            let value_len = u32::from_le_bytes(array(&lengths[4..])) as usize;
            let (key, rest) = rest.split_at_checked(key_len)?;
            Some((key.to_vec(), rest.get(..value_len)?.to_vec()))
        });
        let Some((key, value)) = record else {
            return Err(self.damaged("a record longer than its frame"));
        };
        self.given += 8 + key.len() + value.len();
        self.count += 1;
        Ok(Piece::Record(key, value))
    }

    fn end(&mut self, body: &[u8]) -> Result<()> {
        if *body != self.count.to_le_bytes() {
            return Err(self.damaged("another number of records than it says"));
        }
        if self.offset != self.len {
            return Err(self.damaged("bytes behind its end"));
        }
        self.is_over = true;
        Ok(())
    }
}

/// The slices here have the right length by their ranges.
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(bytes);
    array
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

//! Writes a snapshot's file (see [`super`]): frame by frame, each by one write.

use super::{
    ABOUT, END, FRAME_BYTES, KEYSPACE, MAGIC, RECORDS, VERSION, checksum, encode_about, failed,
};
use crate::state::{Applied, Moment};
use evendb::vfs::File;
use evendb::{Error, ErrorKind, Result};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// Writes one file.
pub struct Writer {
    file: Arc<dyn File>,
    offset: u64,
    salt: u64,
    /// The number of the next frame.
    frame: u64,
    /// Records that are not written yet.
    records: Vec<u8>,
    count: u64,
}

impl Writer {
    /// Begins a file, which must be empty.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub fn new(file: Arc<dyn File>, about: &Applied) -> Result<Writer> {
        let salt = RandomState::new().hash_one(file.path());
        let mut header = MAGIC.to_vec();
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.extend_from_slice(&salt.to_le_bytes());
        let sum = xxh3_64(&header);
        header.extend_from_slice(&sum.to_le_bytes());
        let mut writer = Writer {
            file,
            offset: 0,
            salt,
            frame: 0,
            records: Vec::new(),
            count: 0,
        };
        writer.write(&header)?;
        writer.frame(ABOUT, &encode_about(about))?;
        Ok(writer)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.file.write_at(bytes, self.offset);
        written.map_err(|error| failed(self.file.path(), "write a snapshot", error))?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    fn frame(&mut self, kind: u8, body: &[u8]) -> Result<()> {
        let len = u32::try_from(body.len()).map_err(|_| {
            let message = "a record of more than 4 GiB does not fit into a snapshot";
            Error::new(ErrorKind::ValueTooLarge, message)
        })?;
        let mut bytes = Vec::with_capacity(body.len() + 13);
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes.push(kind);
        bytes.extend_from_slice(body);
        bytes.extend_from_slice(&checksum(self.salt, self.frame, kind, body).to_le_bytes());
        self.frame += 1;
        self.write(&bytes)
    }

    fn end_records(&mut self) -> Result<()> {
        if self.records.is_empty() {
            return Ok(());
        }
        let records = std::mem::take(&mut self.records);
        let written = self.frame(RECORDS, &records);
        self.records = records;
        self.records.clear();
        written
    }

    /// The records that follow are of this keyspace.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub fn keyspace(&mut self, name: &str) -> Result<()> {
        self.end_records()?;
        self.frame(KEYSPACE, name.as_bytes())
    }

    /// Adds a record.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub fn record(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let len = key.len() + value.len() + 8;
        if self.records.len() + len > FRAME_BYTES {
            self.end_records()?;
        }
        // Both lengths first: a reader that has them knows what is there.
        let lengths = [key.len(), value.len()].map(|len| u32::try_from(len).unwrap_or(u32::MAX));
        self.records
            .extend(lengths.iter().flat_map(|len| len.to_le_bytes()));
        self.records.extend_from_slice(key);
        self.records.extend_from_slice(value);
        self.count += 1;
        Ok(())
    }

    /// Adds everything that the state has at this moment.
    ///
    /// # Errors
    /// Those of reads, `Io`, `NoSpace`.
    pub fn moment(&mut self, moment: &Moment) -> Result<()> {
        for name in moment.keyspaces() {
            self.keyspace(name)?;
            for record in moment.range::<&[u8]>(name, ..)? {
                let (key, value) = record?;
                self.record(&key, &value)?;
            }
        }
        Ok(())
    }

    /// Ends the file, durably, and returns its length.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub fn finish(mut self) -> Result<u64> {
        self.end_records()?;
        let count = self.count.to_le_bytes();
        self.frame(END, &count)?;
        let synced = self.file.sync_data();
        synced.map_err(|error| failed(self.file.path(), "sync a snapshot", error))?;
        Ok(self.offset)
    }
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

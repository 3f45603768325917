//! Reads the commit log in a repair: its operations, also behind holes, and the losses in it.

use super::super::load::read_extent;
use super::salvage::Operated;
use super::{Loss, Operations, Repairer, Stored};
use crate::commit_log::{self, LogRecord, Lsn, Proof, Surveyed};
use crate::error::Result;
use crate::files::COMMIT_LOG;
use crate::manifest::epochs::segments;
use crate::op::OpKind;
use crate::payload::{self, Decoded, DecodedOp, ExtentName};
use crate::sync::Arc;
use crate::value_extents;
use crate::version::clock::checkpoint_of;
use evendb_storage::sealing::Secrets;
use evendb_storage::vfs::{File, Mapping};
use evendb_storage::{Error as StorageError, Kind};
use std::path::Path;

impl Repairer<'_, '_> {
    pub(super) fn read_commit_log(&mut self) -> Result<()> {
        let state = &self.loaded.state;
        let capacity = state.ring_bytes;
        if capacity == 0 {
            if self.loaded.edits == 0 && self.directory.has(COMMIT_LOG) {
                let what = "the key to its checksums was in the manifest: nothing of it can be \
                            read";
                self.report.losses.push(Loss::new(COMMIT_LOG, None, what));
            }
            return Ok(());
        }
        let path = self.directory.dir.join(COMMIT_LOG);
        let file: Arc<dyn File> = match self.directory.vfs.open(&path, false) {
            Ok(file) => file,
            Err(error) => {
                let what = format!("cannot be opened: {error}");
                self.report.losses.push(Loss::new(COMMIT_LOG, None, what));
                return Ok(());
            }
        };
        let lives = segments(state);
        let how = self.loaded.survey(self.directory, &lives);
        let padded: Arc<dyn File> = Arc::new(Padded(file.clone(), capacity));
        let len = file
            .len()
            .map_err(StorageError::at(&path, "look at the commit log"))?;
        if len < capacity {
            let what = "the file is cut short";
            self.report
                .losses
                .push(Loss::new(COMMIT_LOG, Some(len..capacity), what));
        }
        // Whether a hole is damage is known only at the end of the survey: then losses are
        // reported.
        let mut ends = Vec::new();
        let outcome = commit_log::survey(&*padded, &how, &mut |found| {
            match found {
                Surveyed::Record { record, .. } => self.log_record(&record, capacity),
                Surveyed::Hole { lsn, end, sealed } => ends.push((lsn, Some(end), sealed, true)),
                Surveyed::End { lsn, torn, sealed } => ends.push((lsn, torn, sealed, false)),
                Surveyed::Filler { .. } => {}
            }
            Ok(())
        });
        match outcome {
            Ok(proof) => {
                self.extent_losses(&proof);
                for (lsn, end, sealed, followed) in ends {
                    let certain = proof.is_damage(lsn, sealed);
                    self.log_end(capacity, lsn, end, followed, certain);
                }
            }
            Err(error) => {
                self.extent_losses(&Proof::default());
                let what = error.to_string();
                self.report.losses.push(Loss::new(COMMIT_LOG, None, what));
            }
        }
        self.advance(capacity);
        Ok(())
    }

    /// Reports bytes of the log that do not verify. `certain`: they verified once.
    fn log_end(
        &mut self,
        capacity: u64,
        lsn: Lsn,
        end: Option<Lsn>,
        followed: bool,
        certain: bool,
    ) {
        let Some(end) = end else { return };
        let start = lsn.0 % capacity;
        let what = match (followed, certain) {
            (true, true) => format!(
                "records between LSN {} and {} do not verify; those behind were taken",
                lsn.0, end.0
            ),
            (true, false) => format!(
                "records between LSN {} and {} do not verify, as after a power loss that took what was \
                 not synced yet; those behind were taken, which opening would not do",
                lsn.0, end.0
            ),
            (false, true) => "the last record does not verify, though it was complete".to_owned(),
            (false, false) => {
                "the last record does not verify: a crash in the middle of a write, or \
                               damage"
                    .to_owned()
            }
        };
        let place = Some(start..start.saturating_add(end.0.saturating_sub(lsn.0)));
        let mut loss = Loss::new(COMMIT_LOG, place, what);
        loss.certain = certain || followed;
        self.report.losses.push(loss);
    }

    fn log_record(&mut self, record: &LogRecord<'_>, capacity: u64) {
        let start = record.lsn.0 % capacity;
        let place = Some(start..start + (record.end.0 - record.lsn.0));
        if record.tail > self.loaded.state.replay_from && !self.stale {
            self.stale = true;
            let what = "the log was recycled further than the manifest knows: edits of the \
                        manifest are lost";
            let place = place.clone();
            self.report.losses.push(Loss::new(COMMIT_LOG, place, what));
        }
        // Tables have the operations of completed checkpoints, and newer ones that these would
        // hide.
        if checkpoint_of(record.version) <= self.loaded.state.completed {
            return;
        }
        let decoded = payload::decode(record.payload);
        match decoded {
            Some(Decoded::Inline(ops)) => self.take_operations(&ops),
            Some(Decoded::Extent(name)) => self.take_extent(record.lsn, &name),
            None => {
                let what = "a record makes no sense";
                self.report.losses.push(Loss::new(COMMIT_LOG, place, what));
            }
        }
    }

    fn take_operations(&mut self, ops: &[DecodedOp<'_>]) {
        let state = &self.loaded.state;
        for op in ops {
            // An unknown keyspace was dropped if its id was given out; otherwise its creation is
            // lost.
            let known = state.keyspaces.contains_key(&op.keyspace);
            if !known && op.keyspace.0 < state.next_keyspace {
                continue;
            }
            self.report.log_operations += 1;
            let operations = self.log.entry(op.keyspace).or_default();
            match op.kind {
                OpKind::One(Kind::Merge) => {
                    let operated = operations.ones.entry(op.key.to_vec()).or_default();
                    operated.operands.extend_from_slice(op.value);
                }
                OpKind::One(kind) => {
                    let operated = Operated {
                        written: Some(Stored::of(kind, op.value)),
                        operands: Vec::new(),
                    };
                    operations.ones.insert(op.key.to_vec(), operated);
                }
                OpKind::RangeDelete => operations.delete_range(op.key, op.value),
            }
        }
    }

    fn take_extent(&mut self, lsn: Lsn, name: &ExtentName) {
        let stored = read_extent(self.directory, name);
        let whole = stored.and_then(|stored| stored.map_err(|_| "does not verify".to_owned()));
        let secrets = self.directory.vfs.secrets();
        let whole = whole.map(|bytes| value_extents::opened(secrets, name.id, bytes));
        let ops = whole
            .as_ref()
            .map(|bytes| payload::decode_ops(bytes.as_deref()?));
        let (what, is_synced) = match ops {
            Ok(Some(ops)) => return self.take_operations(&ops),
            // Contents that verify and make no sense made no sense when they were written.
            Ok(None) => ("its contents make no sense".to_owned(), true),
            Err(what) => (
                format!("the batch in it is lost: it {what}"),
                name.is_synced,
            ),
        };
        let loss = Loss::new(&value_extents::file_name(name.id), Some(0..name.len), what);
        self.lost_extents.push((lsn, is_synced, loss));
    }

    /// Reports the value extents that are lost. Whether a lost extent was on the disk once is known
    /// only after the survey of the whole log.
    fn extent_losses(&mut self, proof: &Proof) {
        for (lsn, is_synced, mut loss) in std::mem::take(&mut self.lost_extents) {
            loss.certain = proof.is_damaged_extent(lsn, is_synced);
            if !loss.certain {
                loss.what += ", as after a power loss that took what was not synced yet";
            }
            self.report.losses.push(loss);
        }
    }
}

impl Operations {
    fn delete_range(&mut self, low: &[u8], high: &[u8]) {
        let high = Some(high).filter(|high| !high.is_empty());
        if high.is_some_and(|high| high <= low) {
            return;
        }
        let mut gone = self.ones.split_off(low);
        let behind = high.map(|high| gone.split_off(high));
        self.ones.extend(behind.into_iter().flatten());
        self.deleted.add(low, high);
    }
}

/// A file that reads as zeros where it is cut short or unreadable.
#[derive(Debug)]
struct Padded(Arc<dyn File>, u64);

impl File for Padded {
    fn path(&self) -> &Path {
        self.0.path()
    }
    fn secrets(&self) -> Option<&Secrets> {
        self.0.secrets()
    }
    fn read_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match self.0.read_at(&mut buf[done..], offset + done as u64) {
                Ok(0) | Err(_) => break,
                Ok(n) => done += n,
            }
        }
        buf[done..].fill(0);
        Ok(buf.len())
    }
    fn write_at(&self, _: &[u8], _: u64) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
    fn sync_data(&self) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
    fn len(&self) -> std::io::Result<u64> {
        Ok(self.1)
    }
    fn next_data(&self, offset: u64) -> std::io::Result<u64> {
        match self.0.len() {
            Ok(len) if offset < len => self.0.next_data(offset),
            _ => Ok(u64::MAX),
        }
    }
    fn set_len(&self, _: u64) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
    fn preallocate(&self, _: u64, _: u64) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
    fn punch_hole(&self, _: u64, _: u64) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
    fn map(&self, _: usize) -> std::io::Result<Box<dyn Mapping>> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}

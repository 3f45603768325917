//! Whether the end of the commit log is one that a crash leaves, or damage.
//!
//! A record that a crash cut short and one whose bytes have changed since look alike; the bytes
//! behind it tell them apart ([`commit_log::survey`] has the rules). Damage is refused, with
//! nothing changed, because the records behind it were acknowledged and can be saved. The caller
//! may also give them up, and then the log is kept as it was under another name.
//!
//! A record whose value extent does not verify is an end, too. If the extent was synced before that
//! record was written, as the record says, it is always damaged; otherwise the same rules decide.
//!
//! Not here: damage in other files, which each reader refuses.

use super::replay::Bad;
use super::{Opening, io};
use crate::commit_log::{self, Lsn, Survey, Surveyed};
use crate::error::{Error, ErrorKind, Result};
use crate::files::{COMMIT_LOG, DAMAGED_LOG};
use crate::manifest::epochs::same_boot;
use crate::version::clock::last_version_of;
use crate::{trace, value_extents};
use evendb_storage::vfs::{File, read_exact_at};
use std::path::PathBuf;

/// The number of bytes that are copied at once, and left out if all of them are zeros.
const PIECE_BYTES: usize = 1 << 20;

/// Damage in the log, and the records behind it.
#[derive(Clone, Debug)]
pub(super) struct Damage {
    file: PathBuf,
    offset: u64,
    at: Lsn,
    /// Records that verify behind it.
    pub(super) records: u64,
    /// The end of the last of them.
    end: Lsn,
}

impl Opening {
    /// The damage at the end of what recovery read; `None` if a crash leaves such an end. With
    /// `bad`, the record there verifies, but not the value extent that it names, or a value in a
    /// value file. A value counts like an extent for which the record does not say that it was
    /// synced.
    pub(super) fn find_damage(&self, at: Lsn, bad: Option<Bad>) -> Result<Option<Damage>> {
        let Some(ring) = &self.ring else {
            return Ok(None);
        };
        // Then nothing was written behind it, and the ring need not be searched.
        if self.closed || self.state.epochs.is_empty() {
            return Ok(None);
        }
        let (mut records, mut end, mut is_sealed) = (0, at, false);
        let how = Survey {
            capacity: self.state.ring_bytes,
            from: self.state.replay_from,
            start: at,
            checkpointed: last_version_of(self.state.completed),
            segments: &self.segments(),
            same_boot: same_boot(&self.state, &*self.vfs),
        };
        let proof = commit_log::survey(&**ring, &how, &mut |found| {
            match found {
                Surveyed::Record { record, .. } => {
                    records += 1;
                    end = record.end;
                }
                Surveyed::Hole { lsn, sealed, .. } | Surveyed::End { lsn, sealed, .. } => {
                    is_sealed |= sealed && lsn == at;
                }
                Surveyed::Filler { .. } => {}
            }
            Ok(())
        })?;
        let is_damage = match bad {
            Some(Bad::Extent(name)) => proof.is_damaged_extent(at, name.is_synced),
            Some(Bad::Value) => proof.is_damaged_extent(at, false),
            None => proof.is_damage(at, is_sealed),
        };
        if !is_damage {
            return Ok(None);
        }
        let (file, offset) = match bad {
            Some(Bad::Extent(name)) => (value_extents::file_path(&self.dir, name.id), 0),
            Some(Bad::Value) | None => (self.dir.join(COMMIT_LOG), at.0 % self.state.ring_bytes),
        };
        Ok(Some(Damage {
            file,
            offset,
            at,
            records,
            end,
        }))
    }

    /// An error, unless the caller gives up the records behind the damage.
    pub(super) fn refuse_damage(&self, damage: &Damage) -> Result<()> {
        if self.options.accept_log_loss {
            trace::event!(
                WARN,
                "gave up damaged commit log",
                lsn = damage.at.0,
                records = damage.records,
                end = damage.end.0
            );
            return Ok(());
        }
        let message = format!(
            "{} at offset {}: the commit log is damaged: position {} does not verify although it was \
             written whole, as what follows proves; behind it lie {} records, up to position {}. \
             Nothing was changed. Save what can be read, before and behind the damage, into a new \
             database (evendb repair {} --into NEWDIR), or give up what was written from there on \
             (evendb repair {} --accept-log-loss, Options::accept_log_loss)",
            damage.file.display(),
            damage.offset,
            damage.at.0,
            damage.records,
            damage.end.0,
            self.dir.display(),
            self.dir.display()
        );
        Err(Error::new(ErrorKind::Corruption, message))
    }

    /// Copies the log, as it is, to a file that no opening touches.
    pub(super) fn keep_damaged_log(&self, epoch: u64) -> Result<()> {
        let Some(ring) = &self.ring else {
            return Ok(());
        };
        let path = self.dir.join(format!("{DAMAGED_LOG}{epoch}"));
        let left = self.vfs.exists(&path);
        if left.map_err(io(&path, "look for a kept commit log"))? {
            // Left by an opening that died here.
            self.vfs
                .remove(&path)
                .map_err(io(&path, "remove a leftover"))?;
        }
        let kept = self
            .vfs
            .create(&path)
            .and_then(|file| copy_sparsely(&**ring, &*file))
            .and_then(|()| self.vfs.sync_dir(&self.dir));
        kept.map_err(|error| {
            // It is of no use, and takes room that others need on a full disk.
            let _ = self.vfs.remove(&path);
            io(&path, "keep the damaged commit log")(error)
        })
    }
}

fn copy_sparsely(from: &dyn File, to: &dyn File) -> std::io::Result<()> {
    let len = from.len()?;
    let mut piece = vec![0; PIECE_BYTES];
    to.set_len(len)?;
    let mut at = 0;
    loop {
        at = from.next_data(at)?.max(at);
        if at >= len {
            break;
        }
        let piece = &mut piece[..(PIECE_BYTES as u64).min(len - at) as usize];
        read_exact_at(from, piece, at)?;
        if piece.iter().any(|&byte| byte != 0) {
            to.write_at(piece, at)?;
        }
        at += piece.len() as u64;
    }
    to.sync_data()
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;
    use crate::Options;
    use crate::sync::Arc;
    use evendb_storage::vfs::{CrashMode, SimVfs};
    use std::path::Path;

    /// Records that are given up can be looked at later, whatever happens to the machine.
    #[test]
    fn a_damaged_log_that_is_given_up_is_kept_through_power_loss() {
        let options = |vfs: &SimVfs| {
            let options = Options::new().memory_budget(1 << 20).workers(0);
            let options = options.advanced(|advanced| advanced.commit_log_bytes(64 << 10));
            options.vfs(Arc::new(vfs.clone()))
        };
        let vfs = SimVfs::new(1);
        let db = options(&vfs).open("/db").unwrap();
        for number in 0..20 {
            db.put(format!("key{number}"), [7; 100]).unwrap();
        }
        let vfs = vfs.crash(CrashMode::Process);
        let path = Path::new("/db").join(COMMIT_LOG);
        let mut damaged = vfs.read_file(&path);
        let value = damaged.iter().position(|&byte| byte == 7).unwrap();
        damaged[value + 300] ^= 1;
        vfs.write_file(&path, damaged.clone());
        let error = options(&vfs).open("/db").map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        drop(options(&vfs).accept_log_loss(true).open("/db").unwrap());
        let left = vfs.crash(CrashMode::PowerLossNothing);
        let names = left.file_names(Path::new("/db"));
        let kept = names.iter().find(|name| name.starts_with(DAMAGED_LOG));
        let kept = left.read_file(&Path::new("/db").join(kept.unwrap()));
        assert!(kept == damaged, "other bytes than the log had");
    }
}

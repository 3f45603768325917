//! Which value files are emptied: files with few live bytes. A rewrite moves the live values of
//! these files into the active file of moved values, and then nothing needs them.
//!
//! Thread safety: any; the list of files is looked at under its lock. Not here: the moves
//! (`rebalance/rewriting/value_moves.rs`), and when a file goes ([`ValueFiles::remove_unneeded`]).

use super::{LOOKS_PASSED_OVER, Needed, ValueFiles};
use crate::sync::atomic::Ordering;
use std::collections::BTreeSet;

impl ValueFiles {
    /// Chooses the files that are to be emptied, so that at least `live_percent` percent of the
    /// remaining bytes are live. It takes the files with the largest dead part first, because
    /// emptying them moves little and gives back much. A chosen file stays chosen until it is gone:
    /// all chunks that name it are rewritten, and the last one frees it. Files that records in RAM
    /// alone may name are left out.
    pub(crate) fn look_for_files_to_empty(&self, live_percent: u32) {
        // One thread at a time looks, so a lost change does no harm.
        let passed_over = self.looks_to_pass_over.load(Ordering::Relaxed);
        if passed_over > 0 {
            self.looks_to_pass_over
                .store(passed_over - 1, Ordering::Relaxed);
            return;
        }
        let sealed = self.sealed_and_completed();
        let mut to_empty = self.to_empty.lock();
        let is_live = choose(&sealed, &mut to_empty, live_percent);
        self.any_to_empty.store(is_live, Ordering::Relaxed);
    }

    /// Chooses further files, which `chosen` picks by their numbers, bytes and live bytes. Returns
    /// whether there is a value to be moved.
    pub(crate) fn empty_too(&self, chosen: impl Fn(&SealedFile) -> bool) -> bool {
        let sealed = self.sealed_and_completed();
        let more = sealed.iter().filter(|file| chosen(file));
        let mut to_empty = self.to_empty.lock();
        to_empty.extend(more.map(|file| file.id));
        let is_live = is_any_live(&sealed, &to_empty);
        self.any_to_empty.store(is_live, Ordering::Relaxed);
        is_live
    }

    fn sealed_and_completed(&self) -> Vec<SealedFile> {
        let known = self.known.lock();
        let completed = self.completed.load(Ordering::Acquire);
        let is_taken = |file: &&Needed| {
            !known.is_active(file.id)
                && file.last_checkpoint.load(Ordering::Acquire) <= completed
                && !file.damaged.load(Ordering::Relaxed)
                && !file.stays.load(Ordering::Relaxed)
        };
        let files = known.files.values().filter(is_taken);
        let each = files.map(|file| {
            let (bytes, live) = file.bytes();
            SealedFile {
                id: file.id,
                bytes,
                live: live.min(bytes),
            }
        });
        each.collect()
    }

    /// The files that are being emptied.
    pub(crate) fn to_empty(&self) -> BTreeSet<u64> {
        self.to_empty.lock().clone()
    }

    /// Whether the last look found files to be emptied.
    pub(crate) fn is_any_to_be_emptied(&self) -> bool {
        self.any_to_empty.load(Ordering::Relaxed)
    }

    /// Whether one of the files that a table names is being emptied.
    pub(crate) fn is_one_to_be_emptied(&self, named: &[(u64, u64)]) -> bool {
        let files = self.to_empty.lock();
        named.iter().any(|(file, _)| files.contains(file))
    }

    /// Notes that a value of the file could not be read to be moved.
    pub(crate) fn note_damaged(&self, id: u64) {
        if let Some(file) = self.find(id) {
            file.damaged.store(true, Ordering::Relaxed);
        }
        self.to_empty.lock().remove(&id);
    }

    /// Notes that there was no room to move a value: no file is emptied for a number of looks.
    pub(crate) fn note_no_room(&self) {
        self.any_to_empty.store(false, Ordering::Relaxed);
        self.to_empty.lock().clear();
        self.looks_to_pass_over
            .store(LOOKS_PASSED_OVER, Ordering::Relaxed);
    }
}

/// The figures of a file to which nothing is appended any more.
pub(crate) struct SealedFile {
    pub(crate) id: u64,
    pub(crate) bytes: u64,
    pub(crate) live: u64,
}

/// Chooses more of `files`, beyond the ones in `chosen`. Returns whether any byte of the chosen
/// files is live.
pub(super) fn choose(files: &[SealedFile], chosen: &mut BTreeSet<u64>, live_percent: u32) -> bool {
    chosen.retain(|id| files.iter().any(|file| file.id == *id));
    let live: u64 = files.iter().map(|file| file.live).sum();
    let allowed = match u64::from(live_percent) {
        0 => u64::MAX,
        percent => live.saturating_mul(100) / percent,
    };
    // The live part of the chosen files stays, in another file.
    let after = |file: &SealedFile| match chosen.contains(&file.id) {
        true => file.live,
        false => file.bytes,
    };
    let mut left: u64 = files.iter().map(after).sum();
    if left > allowed.saturating_add((allowed - live) / BEYOND_PART) {
        let others = files.iter().filter(|file| !chosen.contains(&file.id));
        let mut others: Vec<&SealedFile> = others.collect();
        let share = |file: &SealedFile| file.live as f64 / file.bytes.max(1) as f64;
        others.sort_by(|a, b| share(a).total_cmp(&share(b)));
        for file in others {
            if left <= allowed || file.live == file.bytes {
                break;
            }
            left -= file.bytes - file.live;
            chosen.insert(file.id);
        }
    }
    is_any_live(files, chosen)
}

fn is_any_live(files: &[SealedFile], chosen: &BTreeSet<u64>) -> bool {
    let mut chosen = files.iter().filter(|file| chosen.contains(&file.id));
    chosen.any(|file| file.live > 0)
}

/// Files are emptied when an eighth more is dead than allowed, so that there is much to give back:
/// each time all chunks that name one of the files are rewritten.
const BEYOND_PART: u64 = 8;

//! The decoders of the engine's files, opened to the fuzzer (`proof/fuzz`): thin wrappers in plain
//! types, which find what an opening finds.
//!
//! Not part of the public face: anything here may change at any time.

use crate::log::record::{self, Refused};
use crate::log::replay;
use crate::manifest::change;
use crate::manifest::current::{self, Current};
use crate::manifest::reader::apply_edit;
use crate::manifest::state::State;
use crate::options::TableLimits;
use crate::tables::TableDir;
use crate::types::FileNumber;
use evendb_storage::vfs::Vfs;
use evendb_storage::{Result, Version};
use std::path::Path;
use std::sync::Arc;

/// The contents of `CURRENT`: the manifest, and the offset up to which the manifest must verify.
pub fn current(path: &Path, bytes: &[u8]) -> Result<(u64, u64)> {
    let current = current::decode(path, bytes)?;
    Ok((current.manifest.0, current.verified))
}

/// The bytes of a `CURRENT` with these contents.
pub fn current_bytes(manifest: u64, verified: u64) -> Vec<u8> {
    current::encode(Current {
        manifest: FileNumber(manifest),
        verified,
    })
}

/// An edit of the manifest, decoded and encoded again. `None` if it makes no sense to this version.
pub fn edit_again(payload: &[u8]) -> Option<Vec<u8>> {
    let changes = change::decode(payload).ok()?;
    let mut out = Vec::new();
    for change in &changes {
        change::encode(&mut out, change);
    }
    Some(out)
}

/// The state to which these edits add up, as one edit that makes it from nothing.
pub fn state_of(vfs: Arc<dyn Vfs>, path: &Path, edits: &[&[u8]]) -> Result<Vec<u8>> {
    let limits = TableLimits {
        files: 16,
        bytes: 1 << 20,
    };
    let mut state = State::new(TableDir::new(vfs, path, limits));
    for (at, payload) in (0..).zip(edits) {
        apply_edit(&mut state, path, at, payload)?;
    }
    let mut out = Vec::new();
    for change in &state.to_changes() {
        change::encode(&mut out, change);
    }
    Ok(out)
}

/// A write of a log: the byte of its kind, keyspace, key, value.
pub type Write = (u8, u32, Vec<u8>, Vec<u8>);

/// The contents of logs: for each group the version of its first write, and its writes. Then the
/// last version, and the numbers of the logs that are given up.
pub type Replayed = (Vec<(u64, Vec<Write>)>, u64, Vec<u64>);

/// Reads the logs of these numbers, ascending, as an opening does that needs all of them.
pub fn replay(vfs: &dyn Vfs, dir: &Path, numbers: &[u64]) -> Result<Replayed> {
    let numbers: Vec<FileNumber> = numbers.iter().map(|&number| FileNumber(number)).collect();
    let needed = numbers.first().copied().unwrap_or(FileNumber(0));
    let mut groups = Vec::new();
    let replayed = replay::replay(vfs, dir, &numbers, needed, Version::ZERO, &mut |group| {
        let first = group.first.0;
        let writes = group.records.map(|write| {
            let write = write?;
            let (key, value) = (write.key.to_vec(), write.value.to_vec());
            Ok((write.kind as u8, write.keyspace.0, key, value))
        });
        let writes: std::result::Result<Vec<Write>, Refused> = writes.collect();
        groups.push((first, writes?));
        Ok(())
    })?;
    let given_up = replayed.given_up.iter().map(|number| number.0);
    Ok((groups, replayed.last_version.0, given_up.collect()))
}

/// The payload of a group: its writes decoded and encoded again behind its header. `None` if it
/// makes no sense.
pub fn group_again(payload: &[u8]) -> Option<Vec<u8>> {
    let group = record::decode_group(payload).ok()?;
    let (first, durable) = (group.first, group.durable);
    let mut body = record::GroupBody::new();
    for write in group.records {
        let write = write.ok()?;
        body.put(write.keyspace, write.kind, write.key, write.value);
    }
    Some(body.payload(first, durable).to_vec())
}

/// The payload of a log's first frame, decoded and encoded again.
pub fn begin_again(payload: &[u8]) -> Option<Vec<u8>> {
    let previous = record::decode_begin(payload).ok()?;
    Some(record::encode_begin(previous).to_vec())
}

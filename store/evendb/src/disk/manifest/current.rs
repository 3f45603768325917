//! `CURRENT`: the file that names the manifest in force, and its format version.
//!
//! It is replaced as a whole: a file beside it is written and synced, and renamed. A crash leaves
//! the old file or the new one.
//!
//! Thread safety: pure, or one thread at a time, which holds the manifest's writer. Not here: the
//! manifest itself ([`super::writer`]).

use crate::files::{CURRENT, CURRENT_UNFINISHED};
use evendb_storage::codec::{checksum, get_u32, get_u64};
use evendb_storage::vfs::{Vfs, read_up_to, write_beside};
use evendb_storage::{Error, NUMBER_MAX, Result};
use std::path::Path;

/// The format version follows it.
const CURRENT_MAGIC: &[u8; 7] = b"EVENCUR";
/// The format version of new files.
pub(crate) const VERSION: u8 = b'7';
/// Versions that are read. Version 2 had no range deletions; in version 3 no table said when its
/// records expire; version 4 had no values apart; in version 5 values apart of an encrypted database
/// did not carry their nonces; version 6, which only encrypted databases had, had no guards.
/// Otherwise they are the same.
const VERSIONS_READ: [u8; 6] = [b'2', b'3', b'4', b'5', b'6', VERSION];
pub(crate) const CURRENT_LEN: usize = 8 + 8 + 8 + 4 + 4;
/// A flag in it: closed.
const CURRENT_CLOSED: u32 = 1;

/// A failure after which it is unknown what the disk holds. A full disk is reported in this way,
/// too: the caller must not take it for "nothing was written" and reuse what the edit may name.
pub(super) fn terminal(path: &Path, what: &str) -> impl FnOnce(Error) -> Error {
    let path = path.to_owned();
    let what = what.to_owned();
    move |error| Error::io(&path, &what, std::io::Error::other(error.to_string()))
}

/// The content of `CURRENT`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Current {
    /// The manifest in force.
    pub(crate) id: u64,
    /// The length up to which it must verify.
    pub(crate) verified: u64,
    /// The database was closed then, and the commit log held no record that is needed. It is no
    /// longer true once the manifest goes on.
    pub(crate) closed: bool,
}

/// Reads `CURRENT`.
pub(crate) fn read_current(vfs: &dyn Vfs, dir: &Path) -> Result<Current> {
    Ok(read_versioned(vfs, dir)?.0)
}

/// Reads `CURRENT`, and its format version.
fn read_versioned(vfs: &dyn Vfs, dir: &Path) -> Result<(Current, u8)> {
    let path = dir.join(CURRENT);
    let file = vfs.open(&path, false);
    let file = file.map_err(Error::at(&path, "open CURRENT"))?;
    // One byte more, to see whether the file is too long.
    let mut bytes = [0; CURRENT_LEN + 1];
    let filled = read_up_to(&*file, &mut bytes, 0);
    let filled = filled.map_err(Error::at(&path, "read CURRENT"))?;
    decode_current(&path, &bytes[..filled])
}

/// The content and the format version of the `CURRENT` at `path`, which has these bytes.
pub(crate) fn decode_current(path: &Path, bytes: &[u8]) -> Result<(Current, u8)> {
    let corrupt = |detail: &str| Error::corruption(path, 0, detail);
    if bytes.len() < 8 || bytes[..7] != *CURRENT_MAGIC {
        return Err(corrupt("CURRENT has the wrong magic number"));
    }
    // Checked before length and checksum, which may be different in another version.
    if !VERSIONS_READ.contains(&bytes[7]) {
        let detail = "CURRENT is of another format version";
        return Err(Error::unsupported(path, detail));
    }
    if bytes.len() != CURRENT_LEN {
        return Err(corrupt("CURRENT has the wrong length"));
    }
    let mut input = &bytes[8..];
    let fields = (
        get_u64(&mut input),
        get_u64(&mut input),
        get_u32(&mut input),
        get_u32(&mut input),
    );
    let (Some(id), Some(verified), Some(flags), Some(crc)) = fields else {
        return Err(corrupt("CURRENT is cut short"));
    };
    if checksum(0, &[&bytes[..CURRENT_LEN - 4]]) != crc {
        return Err(corrupt("CURRENT does not verify"));
    }
    if id > NUMBER_MAX {
        return Err(corrupt("CURRENT names a manifest that no database reaches"));
    }
    let current = Current {
        id,
        verified,
        closed: flags & CURRENT_CLOSED != 0,
    };
    Ok((current, bytes[7]))
}

/// The bytes of a `CURRENT` of this format version.
pub(crate) fn encode_current(current: Current, version: u8) -> Vec<u8> {
    let mut bytes = CURRENT_MAGIC.to_vec();
    bytes.push(version);
    bytes.extend_from_slice(&current.id.to_le_bytes());
    bytes.extend_from_slice(&current.verified.to_le_bytes());
    let flags = if current.closed { CURRENT_CLOSED } else { 0 };
    bytes.extend_from_slice(&flags.to_le_bytes());
    let crc = checksum(0, &[&bytes]);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

/// Raises the format version in `CURRENT`, before anything is written that an older version does
/// not read.
pub(super) fn raise_version(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    match read_versioned(vfs, dir)? {
        (current, version) if version < VERSION => write_current(vfs, dir, current),
        _ => Ok(()),
    }
}

/// Replaces `CURRENT`: temporary file, sync, rename, directory sync.
pub(super) fn write_current(vfs: &dyn Vfs, dir: &Path, current: Current) -> Result<()> {
    let path = dir.join(CURRENT);
    let temporary = dir.join(CURRENT_UNFINISHED);
    let bytes = encode_current(current, VERSION);
    write_beside(vfs, &temporary, &bytes).map_err(Error::at(&temporary, "write CURRENT.tmp"))?;
    vfs.rename(&temporary, &path)
        .map_err(Error::at(&path, "rename CURRENT"))?;
    vfs.sync_dir(dir)
        .map_err(Error::at(dir, "sync directory"))
        .map_err(terminal(&path, "rename CURRENT for good"))
}

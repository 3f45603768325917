//! `CURRENT`: names the manifest in force.
//!
//! ```text
//! | magic `EVENCURF` | format version u32 | number of the manifest u64 |
//! | length up to which it must verify u64 | crc32c u32 |
//! ```
//! The first engine's `CURRENT` has the same first 7 bytes, and a digit behind them. So each engine
//! takes the other's file for an unknown format, and refuses the directory before it looks at
//! anything else.

use crate::files::FileName;
use crate::types::FileNumber;
use evendb_storage::codec::{checksum, get_u32, get_u64};
use evendb_storage::vfs::{Vfs, read_up_to, write_beside};
use evendb_storage::{Error, NUMBER_MAX, Result};
use std::path::Path;

const MAGIC: &[u8; 8] = b"EVENCURF";
/// The `CURRENT` files of all EvenDB engines share this number of first bytes.
const FAMILY_BYTES: usize = 7;
const FORMAT_VERSION: u32 = 1;
/// The length of the file in bytes.
pub(crate) const LEN: usize = 8 + 4 + 8 + 8 + 4;

/// The contents of `CURRENT`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Current {
    /// The manifest in force.
    pub(crate) manifest: FileNumber,
    /// The offset up to which the manifest must verify.
    pub(crate) verified: u64,
}

pub(crate) fn encode(current: Current) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes.extend_from_slice(&current.manifest.0.to_le_bytes());
    bytes.extend_from_slice(&current.verified.to_le_bytes());
    let crc = checksum(0, &[&bytes]);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

/// Decodes the bytes of the file at `path`.
pub(crate) fn decode(path: &Path, bytes: &[u8]) -> Result<Current> {
    let corrupt = |detail: &str| Err(Error::corruption(path, 0, detail));
    let Some(magic) = bytes.first_chunk::<8>() else {
        return corrupt("CURRENT is cut short");
    };
    if magic != MAGIC {
        return match magic[..FAMILY_BYTES] == MAGIC[..FAMILY_BYTES] {
            true => Err(Error::unsupported(
                path,
                "a database of another EvenDB engine than the FLSM one",
            )),
            false => corrupt("CURRENT has the wrong magic number"),
        };
    }
    let mut input = &bytes[8..];
    // The version is checked before length and checksum, which another version may define in its
    // own way.
    match get_u32(&mut input) {
        Some(FORMAT_VERSION) => {}
        Some(version) => {
            let detail = format!("CURRENT of version {version}, this build reads {FORMAT_VERSION}");
            return Err(Error::unsupported(path, detail));
        }
        None => return corrupt("CURRENT is cut short"),
    }
    if bytes.len() != LEN {
        return corrupt("CURRENT has the wrong length");
    }
    let fields = (
        get_u64(&mut input),
        get_u64(&mut input),
        get_u32(&mut input),
    );
    match fields {
        (Some(manifest), Some(verified), Some(crc)) if crc == checksum(0, &[&bytes[..LEN - 4]]) => {
            if manifest > NUMBER_MAX {
                return corrupt("CURRENT names a manifest that no database reaches");
            }
            Ok(Current {
                manifest: FileNumber(manifest),
                verified,
            })
        }
        _ => corrupt("CURRENT does not verify"),
    }
}

/// Reads `CURRENT` in `dir`.
pub(crate) fn read(vfs: &dyn Vfs, dir: &Path) -> Result<Current> {
    let path = FileName::Current.path(dir);
    let file = vfs.open(&path, false);
    let file = file.map_err(|source| Error::open(&path, "open CURRENT", source))?;
    // One byte more, to see whether the file is too long.
    let mut bytes = [0; LEN + 1];
    let filled = read_up_to(&*file, &mut bytes, 0);
    let filled = filled.map_err(Error::at(&path, "read CURRENT"))?;
    decode(&path, &bytes[..filled])
}

/// Writes the next `CURRENT` of `dir` beside the one in force, durably. It also makes all names in
/// `dir` durable, because the manifest's name has to be durable before `CURRENT` may name it.
pub(crate) fn write_unfinished(vfs: &dyn Vfs, dir: &Path, current: Current) -> Result<()> {
    let unfinished = FileName::CurrentUnfinished.path(dir);
    let written = write_beside(vfs, &unfinished, &encode(current));
    let written = written.and_then(|()| vfs.sync_dir(dir));
    written.map_err(Error::at(&unfinished, "write the next CURRENT"))
}

/// Puts the written file in the place of `CURRENT`, durably. After a failure either file may be in
/// force.
pub(crate) fn put_in_force(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    let path = FileName::Current.path(dir);
    let unfinished = FileName::CurrentUnfinished.path(dir);
    let renamed = vfs.rename(&unfinished, &path);
    let renamed = renamed.and_then(|()| vfs.sync_dir(dir));
    renamed.map_err(Error::at(&path, "replace CURRENT"))
}

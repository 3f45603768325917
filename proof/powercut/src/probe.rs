//! [`probe`]: whether the rig itself cuts the power, without any engine: synced bytes stay, and
//! unsynced bytes are lost.

use crate::Result;
use crate::device::{Device, Way};
use crate::disk::Keep;
use crate::draw::Draw;
use crate::filesystem::FileSystem;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

const LEN: usize = 20_000;

/// The state after the cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// The synced file has its synced bytes.
    pub synced_is_there: bool,
    /// Bytes that were later written over a part of it, and not synced, are there.
    pub later_is_there: bool,
    /// A file that was not synced has its bytes.
    pub unsynced_is_there: bool,
}

/// Writes a synced file, then over its middle and a second file without a sync, cuts, and looks.
///
/// # Errors
/// Of the system.
pub fn probe(file_system: FileSystem, way: Way, dir: &Path, program: &Path) -> Result<Found> {
    let mut device = Device::create(file_system, way, dir, program)?;
    let draw = &mut Draw::new(1);
    device.power_on(draw)?;
    write(device.point()).map_err(|error| format!("writing: {error}"))?;
    device.cut_keeping(Keep::Nothing, 1, 0)?;
    device.power_off()?;
    device.power_on(draw)?;
    let read = |name: &str| std::fs::read(device.point().join(name)).unwrap_or_default();
    let (synced, unsynced) = (read("synced"), read("unsynced"));
    let part = |bytes: &[u8], begin: usize, value: u8| {
        let part = bytes.get(begin..begin + LEN / 4);
        part.is_some_and(|part| part.iter().all(|byte| *byte == value))
    };
    let found = Found {
        synced_is_there: part(&synced, 0, 1) && part(&synced, LEN - LEN / 4, 1),
        later_is_there: !part(&synced, LEN / 2, 1),
        unsynced_is_there: part(&unsynced, 0, 3),
    };
    device.power_off()?;
    Ok(found)
}

fn write(point: &Path) -> std::io::Result<()> {
    let mut synced = File::create(point.join("synced"))?;
    synced.write_all(&[1; LEN])?;
    synced.sync_data()?;
    File::open(point)?.sync_all()?;
    synced.write_all_at(&[2; LEN / 4], LEN as u64 / 2)?;
    File::create(point.join("unsynced"))?.write_all(&[3; LEN])
}

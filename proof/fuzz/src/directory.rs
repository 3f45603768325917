//! A directory whose files the input damages: the files of a small database with chunks or
//! with guards, closed, or as a killed process left it.
//!
//! A read gives a value that was put once, or an error says why not. If the target corrects
//! checksums that the damage made wrong, anything may be read, but nothing panics, and memory has
//! its limit. The same holds for verifying, dumping and repairing.

use crate::bytes::{Input, reseal_frames};
use crate::programs::{DIR, Database, GUARDS, options};
use crate::tables;
use evendb_storage::codec::checksum;
use evendb_storage::vfs::SimVfs;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, LazyLock};

/// Keys, and all values that each of them ever had.
type Put = BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>;

/// Databases that inputs damage.
struct Images {
    /// The disk of a closed database, and that of a killed process.
    disks: [SimVfs; 2],
    put: Put,
}

/// The number of damages to one input.
const DAMAGES: u8 = 3;
const KEYS: u32 = 48;

fn images(variant: u8) -> Images {
    let disk = SimVfs::new(3);
    let db = Database::open(&disk, variant);
    let mut put = Put::new();
    for round in 0..3_u32 {
        for number in (0..KEYS).filter(|number| number % 3 != round % 2) {
            let key = format!("k{number:03}").into_bytes();
            let text = format!("{round}/{number}/").repeat(1 + number as usize % 9);
            db.put(&key, text.as_bytes());
            put.entry(key).or_default().insert(text.into_bytes());
        }
        db.delete(format!("k{:03}", 7 + round).as_bytes());
        if round < 2 {
            db.settle();
        }
    }
    let killed = disk.fork_state();
    db.close();
    Images {
        disks: [disk, killed],
        put,
    }
}

/// The variants of options: chunks and guards, each with values apart and the level of processes.
const VARIANTS: [u8; 2] = [2 | 8, 2 | 8 | GUARDS];

static IMAGES: LazyLock<[Images; 2]> = LazyLock::new(|| VARIANTS.map(images));

/// Damages files of a copy as the input says, and corrects checksums if that is wanted.
fn damage(disk: &SimVfs, input: &mut Input<'_>, is_resealed: bool) {
    let dir = Path::new(DIR);
    for _ in 0..=input.byte() % DAMAGES {
        let names: Vec<String> = disk.file_names(dir);
        if names.is_empty() {
            return;
        }
        let name = &names[input.below(names.len())];
        let path = dir.join(name);
        let mut bytes = disk.read_file(&path);
        let what = input.byte() % 8;
        // A large part of some files is room for later bytes.
        let used = bytes.iter().rposition(|byte| *byte != 0);
        let at = usize::from(input.two()) % used.map_or(1, |last| last + 1);
        match what {
            0 | 1 if at < bytes.len() => bytes[at] ^= 1 << (input.byte() & 7),
            2 => bytes.truncate(at),
            3 => {
                disk.remove_file(&path);
                continue;
            }
            4 => {
                let end = bytes.len().min(at + 512);
                bytes[at..end].fill(0);
            }
            5 => {
                let more = input.slice();
                let end = bytes.len().min(at + more.len());
                bytes.splice(at..end, more.iter().copied());
            }
            6 => {
                let other = &names[input.below(names.len())];
                bytes = disk.read_file(&dir.join(other));
            }
            _ => {
                let more = input.number().to_le_bytes();
                let end = bytes.len().min(at + 8);
                bytes.splice(at..end, more[..end - at].iter().copied());
            }
        }
        if is_resealed {
            reseal(name, &mut bytes);
        }
        disk.write_file(&path, bytes);
    }
}

/// Corrects the checksums of a file, if they follow from the file and its name.
fn reseal(name: &str, bytes: &mut Vec<u8>) {
    let number = |digits: &str| digits.parse::<u64>().ok();
    let framed = name.strip_prefix("MANIFEST-");
    let hex = |stem| u64::from_str_radix(stem, 16).ok();
    let table = name.strip_suffix(".sst").and_then(hex);
    if let Some(id) = framed.and_then(number) {
        *bytes = reseal_frames(bytes, id);
    } else if let Some(id) = table {
        tables::reseal_as(bytes, id);
    } else if name == "CURRENT"
        && let Some((covered, crc)) = bytes.split_last_chunk_mut::<4>()
    {
        *crc = checksum(0, &[covered]).to_le_bytes();
    }
}

/// The possible errors of damaged files.
fn check_error(error: &evendb::Error) {
    use evendb::ErrorKind::*;
    let kinds = [Corruption, Unsupported, Io, NotFound, Latched, NoSpace];
    assert!(kinds.contains(&error.kind()), "{error:?}");
}

/// Opens, reads, writes, works, closes.
fn live(disk: &SimVfs, variant: u8, put: Option<&Put>) {
    let options = options(variant).vfs(Arc::new(disk.clone()));
    let db = match options.create_if_missing(false).open(DIR) {
        Ok(db) => db,
        Err(error) => return check_error(&error),
    };
    read(&db, put);
    let steps = [db.put("new", "n"), db.settle_debt(), db.delete("k001")];
    steps
        .iter()
        .filter_map(|step| step.as_ref().err())
        .for_each(check_error);
    read(&db, put);
    if let Err(error) = db.close() {
        check_error(&error);
    }
}

fn read(db: &evendb::Db, put: Option<&Put>) {
    let known = |key: &[u8], value: &[u8]| {
        let values =
            put.is_none_or(|put| put.get(key).is_some_and(|values| values.contains(value)));
        assert!(
            values || key == b"new",
            "a value of {key:?} that nobody put"
        );
    };
    for back in [false, true] {
        let items: &mut dyn Iterator<Item = _> = match back {
            true => &mut db.iter().rev(),
            false => &mut db.iter(),
        };
        let mut last: Option<Vec<u8>> = None;
        for item in items.take(1000) {
            match item {
                Ok((key, value)) => {
                    known(&key, &value);
                    if put.is_some() {
                        let goes_on = last
                            .as_deref()
                            .is_none_or(|last| if back { *last > *key } else { *last < *key });
                        assert!(goes_on, "a scan in order");
                    }
                    last = Some(key.to_vec());
                }
                Err(error) => {
                    check_error(&error);
                    break;
                }
            }
        }
    }
    for number in 0..KEYS {
        let key = format!("k{number:03}");
        match db.get(&key) {
            Ok(Some(value)) => known(key.as_bytes(), &value),
            Ok(None) => {}
            Err(error) => check_error(&error),
        }
    }
}

/// Verifies, and dumps everything.
fn inspect(disk: &SimVfs) {
    use evendb::inspect::{Dump, DumpOptions, InspectOptions, dump, verify};
    let inspecting = || InspectOptions::new().vfs(Arc::new(disk.clone()));
    let mut parts = vec![
        Dump::Current,
        Dump::Manifest,
        Dump::CommitLog,
        Dump::KeptChanges,
    ];
    match verify(DIR, inspecting()) {
        Ok(report) => report
            .findings
            .iter()
            .for_each(|finding| drop(finding.to_string())),
        Err(error) => check_error(&error),
    }
    let tables = disk.file_names(Path::new(DIR)).into_iter();
    let tables = tables.filter(|name| name.ends_with(".sst"));
    parts.extend(tables.take(2).map(Dump::Table));
    let few = DumpOptions {
        limit: Some(500),
        ..DumpOptions::default()
    };
    for part in parts {
        let each = &mut |_| ControlFlow::Continue(());
        if let Err(error) = dump(DIR, &part, &few, inspecting(), each) {
            check_error(&error);
        }
    }
}

fn repair(disk: &SimVfs, variant: u8) {
    use evendb::inspect::{InspectOptions, RepairOptions};
    let inspecting = InspectOptions::new().vfs(Arc::new(disk.clone()));
    let repaired = evendb::inspect::repair(DIR, "/saved", RepairOptions::default(), inspecting);
    match repaired {
        Ok(_) => {
            let saved = options(variant).vfs(Arc::new(disk.clone())).open("/saved");
            let db = saved.expect("what was saved opens");
            for item in db.iter() {
                item.expect("what was saved is read");
            }
            db.close().expect("closes");
        }
        Err(error) => check_error(&error),
    }
}

/// The first byte: whether checksums are corrected, which database it is, and what is done with it.
pub fn directory(data: &[u8]) {
    let mut input = Input(data);
    let form = input.byte();
    let layout = usize::from(form >> 4 & 1);
    let (images, variant) = (&IMAGES[layout], VARIANTS[layout]);
    let disk = images.disks[usize::from(form >> 1 & 1)].fork_state();
    damage(&disk, &mut input, form & 1 == 1);
    match form >> 2 & 3 {
        2 => inspect(&disk),
        3 => repair(&disk, variant),
        _ => live(&disk, variant, Some(&images.put).filter(|_| form & 1 == 0)),
    }
}

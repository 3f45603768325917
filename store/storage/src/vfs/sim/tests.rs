//! Features that only the simulation has: crashes, faults, capacity, tampering, traces.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::inode::{PAGE_BYTES, SECTOR_BYTES};
use super::rng::Rng;
use super::*;

const POWER_LOSSES: [CrashMode; 4] = [
    CrashMode::PowerLossNothing,
    CrashMode::PowerLossAll,
    CrashMode::PowerLossRandom(1),
    CrashMode::PowerLossRandom(2),
];

fn in_store(name: &str) -> PathBuf {
    Path::new("/store").join(name)
}

fn new_store() -> SimVfs {
    let vfs = SimVfs::new(7);
    vfs.create_dir_all(Path::new("/store")).unwrap();
    vfs
}

/// A store with one durable file "a" of these bytes.
fn store_with(bytes: &[u8]) -> (SimVfs, Arc<dyn File>) {
    let vfs = new_store();
    let file = vfs.create(&in_store("a")).unwrap();
    file.write_at(bytes, 0).unwrap();
    file.sync_data().unwrap();
    vfs.sync_dir(Path::new("/store")).unwrap();
    (vfs, file)
}

fn sync_store(vfs: &SimVfs) {
    vfs.sync_dir(Path::new("/store")).unwrap();
}

fn is_crash<T>(result: io::Result<T>) -> bool {
    result.is_err_and(|error| error.kind() == ErrorKind::Other && error.to_string() == "crashed")
}

fn fault(at: u64, on: FaultOn, kind: FaultKind) -> Fault {
    Fault {
        at,
        on,
        kind,
        sticky: false,
        path_contains: None,
    }
}

#[test]
fn what_was_written_durably_survives_every_crash() {
    for loss in POWER_LOSSES {
        let (vfs, file) = store_with(&[1; 2_000]);
        file.write_at_durable(&[2; 700], 900).unwrap();
        let mut expected = vec![1; 2_000];
        expected[900..1_600].fill(2);
        assert!(vfs.crash(loss).read_file(&in_store("a")) == expected);
    }
}

#[test]
fn synced_contents_survive_every_crash() {
    let contents: Vec<u8> = (0..9_000).map(|byte| (byte % 241) as u8).collect();
    let (vfs, _file) = store_with(&contents);
    for mode in POWER_LOSSES.into_iter().chain([CrashMode::Process]) {
        let next = vfs.crash(mode);
        assert_eq!(next.read_file(&in_store("a")), contents, "{mode:?}");
        assert_eq!(next.used_bytes(), 3 * PAGE_BYTES as u64);
    }
}

#[test]
fn a_process_crash_keeps_what_is_visible_and_leaves_it_unsynced() {
    let (vfs, file) = store_with(b"old");
    file.write_at(b"new contents", 0).unwrap();
    vfs.create(&in_store("b")).unwrap();
    let next = vfs.crash(CrashMode::Process);
    assert_eq!(next.read_file(&in_store("a")), b"new contents");
    assert_eq!(next.file_names(Path::new("/store")), ["a", "b"]);
    let after = next.crash(CrashMode::PowerLossNothing);
    assert_eq!(after.read_file(&in_store("a")), b"old");
    assert_eq!(after.file_names(Path::new("/store")), ["a"]);
}

#[test]
fn unsynced_contents_are_lost_or_kept_as_a_whole_in_the_extreme_modes() {
    let (vfs, file) = store_with(&[1; 5_000]);
    file.write_at(&[2; 5_000], 1_000).unwrap();
    let mut all = vec![1; 1_000];
    all.extend([2; 5_000]);
    let lost = vfs.crash(CrashMode::PowerLossNothing);
    assert_eq!(lost.read_file(&in_store("a")), [1; 5_000]);
    let kept = vfs.crash(CrashMode::PowerLossAll);
    assert_eq!(kept.read_file(&in_store("a")), all);
    let later = kept.crash(CrashMode::PowerLossNothing);
    assert_eq!(later.read_file(&in_store("a")), all, "kept means durable");
}

#[test]
fn a_random_crash_reaches_every_subset_of_unsynced_sectors_and_both_lengths() {
    let (vfs, file) = store_with(&[1; 3 * SECTOR_BYTES]);
    file.write_at(&[2; 4 * SECTOR_BYTES], 0).unwrap();
    let mut seen = BTreeSet::new();
    for seed in 0..400 {
        let contents = vfs
            .crash(CrashMode::PowerLossRandom(seed))
            .read_file(&in_store("a"));
        let sectors: Vec<u8> = contents
            .chunks(SECTOR_BYTES)
            .map(|sector| {
                assert_eq!(sector, [sector[0]; SECTOR_BYTES], "a sector is never torn");
                sector[0]
            })
            .collect();
        seen.insert(sectors);
    }
    let mut expected = BTreeSet::new();
    for subset in 0..8u8 {
        let kept: Vec<u8> = (0..3).map(|bit| 1 + (subset >> bit & 1)).collect();
        for last in [None, Some(0), Some(2)] {
            expected.insert(kept.iter().copied().chain(last).collect::<Vec<u8>>());
        }
    }
    assert_eq!(seen, expected);
}

#[test]
fn an_earlier_unsynced_version_of_a_sector_may_be_what_survives() {
    let (vfs, file) = store_with(&[1; 10]);
    let mut seen = BTreeSet::new();
    for version in 2..12 {
        file.write_at(&[version; 10], 0).unwrap();
        for seed in 0..20 {
            let next = vfs
                .fork_state()
                .crash(CrashMode::PowerLossRandom(seed + 100 * u64::from(version)));
            seen.insert((version, next.read_file(&in_store("a"))[0]));
        }
    }
    assert!(seen.iter().all(|(last, survivor)| survivor <= last));
    assert!(seen.iter().any(|(last, survivor)| survivor == last));
    assert!(seen.iter().any(|(_, survivor)| *survivor == 1));
    let earlier = |(last, survivor): &(u8, u8)| 1 < *survivor && survivor < last;
    assert!(seen.iter().any(earlier));
}

#[test]
fn a_growing_file_may_keep_a_length_in_between() {
    let (vfs, file) = store_with(&[1; 100]);
    file.write_at(&[2; 5_000], 100).unwrap();
    let lengths: BTreeSet<usize> = (0..300)
        .map(|seed| {
            let next = vfs.crash(CrashMode::PowerLossRandom(seed));
            next.read_file(&in_store("a")).len()
        })
        .collect();
    assert!(lengths.contains(&100) && lengths.contains(&5_100));
    assert!(lengths.len() > 4, "{lengths:?}");
    for length in lengths {
        assert!(length == 100 || length == 5_100 || length % SECTOR_BYTES == 0);
    }
}

#[test]
fn a_shortening_is_kept_or_lost_with_its_bytes() {
    let (vfs, file) = store_with(&[1; 9_000]);
    file.set_len(700).unwrap();
    file.write_at(&[2; 100], 8_000).unwrap();
    let mut kept = vec![1; 700];
    kept.resize(8_000, 0);
    let mut seen = [false; 3];
    for seed in 0..100 {
        let contents = vfs
            .crash(CrashMode::PowerLossRandom(seed))
            .read_file(&in_store("a"));
        match contents.len() {
            9_000 => {
                assert_eq!(contents, [1; 9_000], "lost as a whole");
                seen[0] = true;
            }
            8_100 => {
                assert_eq!(contents[..8_000], kept);
                seen[1 + usize::from(contents[8_000] == 2)] = true;
            }
            other => panic!("a length of {other} was never there"),
        }
    }
    assert_eq!(seen, [true; 3]);
    assert!(is_crash(file.sync_data()));
}

#[test]
fn a_shortening_is_durable_after_a_sync() {
    let (vfs, file) = store_with(&[1; 9_000]);
    file.set_len(700).unwrap();
    file.set_len(5_000).unwrap();
    file.sync_data().unwrap();
    let mut expected = vec![1; 700];
    expected.resize(5_000, 0);
    for mode in POWER_LOSSES {
        assert_eq!(vfs.crash(mode).read_file(&in_store("a")), expected);
    }
}

#[test]
fn a_file_without_a_synced_name_may_vanish() {
    let (vfs, _file) = store_with(b"a");
    let file = vfs.create(&in_store("b")).unwrap();
    file.write_at(b"b", 0).unwrap();
    file.sync_data().unwrap();
    let listings: BTreeSet<Vec<String>> = (0..50)
        .map(|seed| {
            let next = vfs.crash(CrashMode::PowerLossRandom(seed));
            let names = next.file_names(Path::new("/store"));
            if names.len() == 2 {
                assert_eq!(next.read_file(&in_store("b")), b"b");
            }
            names
        })
        .collect();
    assert_eq!(listings.len(), 2);
    let nothing = vfs.crash(CrashMode::PowerLossNothing);
    assert_eq!(nothing.file_names(Path::new("/store")), ["a"]);
    assert_eq!(nothing.used_bytes(), PAGE_BYTES as u64);
}

#[test]
fn a_removed_file_may_reappear_until_the_directory_is_synced() {
    let (vfs, file) = store_with(b"durable");
    file.write_at(b"pending", 0).unwrap();
    drop(file);
    vfs.remove(&in_store("a")).unwrap();
    assert_eq!(vfs.used_bytes(), 0);
    let next = vfs.fork_state().crash(CrashMode::PowerLossNothing);
    assert_eq!(next.read_file(&in_store("a")), b"durable");
    assert_eq!(next.used_bytes(), PAGE_BYTES as u64);
    sync_store(&vfs);
    for mode in POWER_LOSSES {
        assert!(vfs.crash(mode).file_names(Path::new("/store")).is_empty());
    }
}

#[test]
fn a_rename_is_atomic_and_does_not_outrun_the_creation() {
    let (vfs, _file) = store_with(b"old");
    let file = vfs.create(&in_store("new")).unwrap();
    file.write_at(b"new", 0).unwrap();
    file.sync_data().unwrap();
    vfs.rename(&in_store("new"), &in_store("a")).unwrap();
    let mut seen = BTreeSet::new();
    for seed in 0..100 {
        let next = vfs.fork_state().crash(CrashMode::PowerLossRandom(seed));
        let names = next.file_names(Path::new("/store")).join(" ");
        let text = String::from_utf8(next.read_file(&in_store("a"))).unwrap();
        seen.insert(format!("{names}: {text}"));
    }
    let expected = ["a: new", "a: old", "a new: old"].map(str::to_owned);
    assert_eq!(seen, BTreeSet::from(expected));
    sync_store(&vfs);
    let synced = vfs.crash(CrashMode::PowerLossNothing);
    assert_eq!(synced.read_file(&in_store("a")), b"new");
}

#[test]
fn a_name_taken_again_after_a_rename_never_costs_the_renamed_file() {
    let (vfs, _file) = store_with(b"old");
    vfs.create_dir_all(Path::new("/other")).unwrap();
    vfs.rename(&in_store("a"), Path::new("/other/b")).unwrap();
    vfs.create(&in_store("a")).unwrap();
    let survivors: BTreeSet<(Vec<String>, Vec<String>)> = (0..100)
        .map(|seed| {
            let next = vfs.fork_state().crash(CrashMode::PowerLossRandom(seed));
            let moved = next.file_names(Path::new("/other"));
            let old = match moved.is_empty() {
                true => in_store("a"),
                false => PathBuf::from("/other/b"),
            };
            assert_eq!(next.read_file(&old), b"old");
            (next.file_names(Path::new("/store")), moved)
        })
        .collect();
    assert_eq!(survivors.len(), 3, "{survivors:?}");
    sync_store(&vfs);
    let synced = vfs.crash(CrashMode::PowerLossNothing);
    assert_eq!(synced.read_file(Path::new("/other/b")), b"old");
    assert!(synced.read_file(&in_store("a")).is_empty());
}

#[test]
fn names_in_other_directories_stay_pending_and_unrelated_names_are_independent() {
    let vfs = new_store();
    vfs.create_dir_all(Path::new("/other")).unwrap();
    vfs.create(Path::new("/other/c")).unwrap();
    vfs.create(&in_store("a")).unwrap();
    sync_store(&vfs);
    let synced = vfs.fork_state().crash(CrashMode::PowerLossNothing);
    assert!(synced.file_names(Path::new("/other")).is_empty());
    assert_eq!(synced.file_names(Path::new("/store")), ["a"]);

    vfs.create(&in_store("b")).unwrap();
    vfs.remove(&in_store("a")).unwrap();
    let listings: BTreeSet<Vec<String>> = (0..100)
        .map(|seed| {
            let next = vfs.crash(CrashMode::PowerLossRandom(seed));
            next.file_names(Path::new("/store"))
        })
        .collect();
    assert_eq!(listings.len(), 4, "{listings:?}");
}

#[test]
fn the_machine_halts_at_the_chosen_operation() {
    let run = |vfs: &SimVfs| -> io::Result<()> {
        let file = vfs.create(&in_store("a"))?;
        file.write_at(b"x", 0)?;
        file.set_len(10)?;
        file.preallocate(0, 100)?;
        file.map(100)?.write(50, b"mapped");
        file.punch_hole(0, 10)?;
        file.sync_data()?;
        vfs.rename(&in_store("a"), &in_store("b"))?;
        vfs.sync_dir(Path::new("/store"))?;
        vfs.remove(&in_store("b"))
    };
    let whole = new_store();
    run(&whole).unwrap();
    let total = whole.op_count();
    assert_eq!(total, 10);
    for op in 0..total {
        let vfs = new_store();
        vfs.set_crash_at(op);
        assert!(is_crash(run(&vfs)), "operation {op}");
        assert!(vfs.crashed());
        assert_eq!(vfs.op_count(), op);
        assert!(is_crash(vfs.list(Path::new("/store"))));
        assert!(is_crash(vfs.create(&in_store("z"))));
        assert!(is_crash(vfs.exists(&in_store("z"))));
        let next = vfs.crash(CrashMode::Process);
        assert!(!next.crashed());
        let expected: &[&str] = match op {
            0 => &[],
            1..=7 => &["a"],
            _ => &["b"],
        };
        assert_eq!(next.file_names(Path::new("/store")), expected);
    }
    let vfs = new_store();
    vfs.set_crash_at(total);
    run(&vfs).unwrap();
    assert!(!vfs.crashed());
}

#[test]
fn handles_locks_and_mappings_of_a_crashed_machine_are_dead_and_the_next_is_free() {
    let (vfs, file) = store_with(&[1; 100]);
    let mapping = file.map(100).unwrap();
    let guard = vfs.lock(&in_store("LOCK"), false).unwrap();
    let fork = vfs.fork_state();
    fork.lock(&in_store("LOCK"), false).unwrap();
    let next = vfs.crash(CrashMode::Process);
    mapping.write(0, &[9; 100]);
    assert!(is_crash(file.read_at(&mut [0], 0)));
    assert!(is_crash(file.write_at(&[0], 0)));
    assert!(is_crash(file.sync_data()));
    assert!(is_crash(file.len()));
    assert!(is_crash(guard.still_held()));
    assert!(is_crash(vfs.open(&in_store("a"), false)));
    next.lock(&in_store("LOCK"), false).unwrap();
    assert_eq!(next.read_file(&in_store("a")), [1; 100]);
    assert_eq!(vfs.read_file(&in_store("a")), [1; 100]);
    drop((guard, mapping, file));
}

#[test]
fn a_write_in_which_the_machine_halts_is_torn_between_sectors() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let vfs = SimVfs::new(seed);
        vfs.write_file(Path::new("/a"), vec![1; 2_000]);
        let file = vfs.open(Path::new("/a"), true).unwrap();
        vfs.set_crash_at(0);
        assert!(is_crash(file.write_at(&[2; 1_400], 300)));
        let contents = vfs.crash(CrashMode::Process).read_file(Path::new("/a"));
        let written = contents.iter().filter(|byte| **byte == 2).count();
        assert!(contents[300..300 + written].iter().all(|byte| *byte == 2));
        seen.insert(written);
        let durable = vfs.crash(CrashMode::PowerLossNothing);
        assert_eq!(durable.read_file(Path::new("/a")), [1; 2_000]);
    }
    assert_eq!(seen, BTreeSet::from([0, 212, 724, 1_236, 1_400]));
}

#[test]
fn a_mapped_write_is_pending_until_a_sync_and_torn_anywhere() {
    let (vfs, file) = store_with(&[1; 2_000]);
    let mapping = file.map(2_000).unwrap();
    let before = vfs.op_count();
    mapping.write(10, &[2; 1_000]);
    assert_eq!(vfs.op_count(), before + 1);
    let lost = vfs.fork_state().crash(CrashMode::PowerLossNothing);
    assert_eq!(lost.read_file(&in_store("a")), [1; 2_000]);
    file.sync_data().unwrap();
    let kept = vfs.fork_state().crash(CrashMode::PowerLossNothing);
    assert_eq!(kept.read_file(&in_store("a"))[10..1_010], [2; 1_000]);

    let mut seen = BTreeSet::new();
    for seed in 0..50 {
        let vfs = SimVfs::new(seed);
        vfs.write_file(Path::new("/a"), vec![1; 2_000]);
        let file = vfs.open(Path::new("/a"), true).unwrap();
        let mapping = file.map(2_000).unwrap();
        vfs.set_crash_at(0);
        mapping.write(0, &[2; 600]);
        assert!(vfs.crashed());
        let contents = vfs.crash(CrashMode::Process).read_file(Path::new("/a"));
        seen.insert(contents.iter().filter(|byte| **byte == 2).count());
    }
    assert!(seen.contains(&0) && seen.len() > 10, "{seen:?}");
}

#[test]
fn a_fault_hits_once_or_from_then_on() {
    let (vfs, file) = store_with(b"abc");
    vfs.inject(fault(2, FaultOn::Change, FaultKind::Eio));
    let outcomes: Vec<bool> = (0..5).map(|_| file.write_at(b"x", 0).is_ok()).collect();
    assert_eq!(outcomes, [true, true, false, true, true]);

    vfs.inject(Fault {
        sticky: true,
        path_contains: Some("store/b".to_owned()),
        ..fault(1, FaultOn::Change, FaultKind::NoSpace)
    });
    let other = vfs.create(&in_store("b")).unwrap();
    for _ in 0..3 {
        let error = other.sync_data().err().unwrap();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        file.sync_data().unwrap();
    }
    vfs.clear_faults();
    other.sync_data().unwrap();
}

#[test]
fn reads_lookups_and_syncs_are_counted_apart() {
    let (vfs, file) = store_with(b"abc");
    vfs.inject(fault(1, FaultOn::Read, FaultKind::Eio));
    vfs.inject(fault(0, FaultOn::Lookup, FaultKind::Eio));
    vfs.inject(fault(0, FaultOn::Sync, FaultKind::Eio));
    file.write_at(b"x", 0).unwrap();
    let reads = vfs.read_count();
    let mut buffer = [0; 3];
    file.read_at(&mut buffer, 0).unwrap();
    let error = file.read_at(&mut buffer, 0).err().unwrap();
    assert_eq!(error.raw_os_error(), Some(5));
    assert_eq!(vfs.read_count(), reads + 2);
    assert!(vfs.open(&in_store("a"), false).is_err());
    vfs.open(&in_store("a"), false).unwrap();
    assert!(file.sync_data().is_err());
    let lost = vfs.fork_state().crash(CrashMode::PowerLossNothing);
    assert_eq!(lost.read_file(&in_store("a")), b"abc");
    file.sync_data().unwrap();
    let kept = vfs.crash(CrashMode::PowerLossNothing);
    assert_eq!(kept.read_file(&in_store("a")), b"xbc");
}

#[test]
fn a_short_write_leaves_a_proper_prefix() {
    let mut seen = BTreeSet::new();
    for _ in 0..20 {
        let (vfs, file) = store_with(b"");
        for turn in 0..20 {
            vfs.inject(fault(0, FaultOn::Change, FaultKind::ShortWrite));
            let error = file.write_at(&[7; 1_000], turn * 1_000).err().unwrap();
            assert_eq!(error.raw_os_error(), Some(5));
            let written = file.len().unwrap().saturating_sub(turn * 1_000);
            assert!(written < 1_000);
            seen.insert(written);
        }
    }
    assert!(seen.len() > 5);
}

#[test]
fn a_failed_sync_may_leave_pending_sectors_clean_and_never_durable() {
    let (vfs, file) = store_with(&[1; 1_024]);
    file.write_at(&[2; 1_024], 0).unwrap();
    vfs.inject(fault(0, FaultOn::Sync, FaultKind::SyncFailsThenClean));
    assert!(file.sync_data().is_err());
    file.sync_data().unwrap();
    assert_eq!(vfs.read_file(&in_store("a")), [2; 1_024]);
    let process = vfs.fork_state().crash(CrashMode::Process);
    assert_eq!(process.read_file(&in_store("a")), [2; 1_024]);
    for mode in [CrashMode::PowerLossNothing, CrashMode::PowerLossAll] {
        let next = vfs.fork_state().crash(mode);
        assert_eq!(next.read_file(&in_store("a")), [1; 1_024], "{mode:?}");
    }

    // A sector that is written again is pending again. Its neighbour stays forgotten.
    file.write_at(&[3; 10], 0).unwrap();
    file.sync_data().unwrap();
    let contents = vfs
        .crash(CrashMode::PowerLossNothing)
        .read_file(&in_store("a"));
    assert_eq!(contents[..10], [3; 10]);
    assert_eq!(contents[10..512], [2; 502]);
    assert_eq!(contents[512..], [1; 512]);
}

#[test]
fn a_full_disk_refuses_new_blocks_but_not_reserved_ones() {
    const PAGE: u64 = PAGE_BYTES as u64;
    let full = |result: io::Result<()>| result.err().unwrap().kind() == ErrorKind::StorageFull;
    let vfs = new_store();
    vfs.set_capacity(4 * PAGE);
    let file = vfs.create(&in_store("a")).unwrap();
    file.preallocate(0, 2 * PAGE).unwrap();
    assert_eq!(vfs.used_bytes(), 2 * PAGE);
    assert!(full(file.preallocate(0, 5 * PAGE)));
    assert_eq!(vfs.used_bytes(), 2 * PAGE, "all or nothing");
    assert_eq!(file.len().unwrap(), 2 * PAGE);

    let other = vfs.create(&in_store("b")).unwrap();
    assert!(full(other.write_at(&[1; 3 * PAGE_BYTES], 0)));
    assert_eq!(other.len().unwrap(), 2 * PAGE, "what fits is written");
    assert!(full(vfs.create(&in_store("c")).map(drop)));
    file.write_at(&[1; 2 * PAGE_BYTES], 0).unwrap();
    other.write_at(&[2; 2 * PAGE_BYTES], 0).unwrap();
    assert!(full(file.write_at(&[1], 2 * PAGE)));

    file.punch_hole(0, PAGE).unwrap();
    assert_eq!(vfs.used_bytes(), 3 * PAGE);
    other.set_len(1).unwrap();
    assert_eq!(vfs.used_bytes(), 2 * PAGE);
    vfs.remove(&in_store("b")).unwrap();
    assert_eq!(vfs.used_bytes(), PAGE);
    other.write_at(&[1; 100], 0).unwrap();
    assert_eq!(vfs.used_bytes(), PAGE, "no name, no charge");
    file.write_at(&[1; 4 * PAGE_BYTES], 0).unwrap();
    assert_eq!(vfs.used_bytes(), 4 * PAGE);
}

#[test]
fn a_synced_reservation_survives_power_loss() {
    let (vfs, file) = store_with(b"");
    file.preallocate(0, 8_192).unwrap();
    let lost = vfs.fork_state().crash(CrashMode::PowerLossNothing);
    assert_eq!(lost.used_bytes(), 0);
    assert!(lost.read_file(&in_store("a")).is_empty());
    file.sync_data().unwrap();
    let kept = vfs.crash(CrashMode::PowerLossNothing);
    assert_eq!(kept.used_bytes(), 8_192);
    kept.set_capacity(8_192);
    let file = kept.open(&in_store("a"), true).unwrap();
    file.write_at(&[1; 8_192], 0).unwrap();
}

#[test]
fn tampering_is_durable_at_once_and_not_counted() {
    let (vfs, file) = store_with(&[1; 5_000]);
    file.write_at(&[2; 6_000], 0).unwrap();
    let count = vfs.op_count();
    vfs.write_file(&in_store("a"), b"tampered".to_vec());
    vfs.write_file(&in_store("b"), b"new".to_vec());
    vfs.write_file(&in_store("c"), b"gone".to_vec());
    vfs.remove_file(&in_store("c"));
    assert_eq!(vfs.op_count(), count);
    for mode in POWER_LOSSES {
        let next = vfs.crash(mode);
        assert_eq!(next.read_file(&in_store("a")), b"tampered");
        assert_eq!(next.read_file(&in_store("b")), b"new");
        assert_eq!(next.file_names(Path::new("/store")), ["a", "b"]);
    }
}

#[test]
fn a_trace_tells_what_was_carried_out() {
    let (vfs, file) = store_with(b"abc");
    let first = vfs.op_count();
    vfs.trace(true);
    file.write_at(b"xy", 1).unwrap();
    vfs.inject(fault(0, FaultOn::Change, FaultKind::Eio));
    file.sync_data().err().unwrap();
    vfs.rename(&in_store("a"), &in_store("b")).unwrap();
    let events = vfs.take_trace();
    let expected = [
        SimEvent {
            op: first,
            ..event(SimEventKind::Write, &in_store("a"), 1, 2)
        },
        SimEvent {
            op: first + 2,
            to: Some(in_store("b")),
            ..event(SimEventKind::Rename, &in_store("a"), 0, 0)
        },
    ];
    assert_eq!(events, expected);
    sync_store(&vfs);
    assert_eq!(vfs.take_trace().len(), 1);
    vfs.trace(false);
    sync_store(&vfs);
    assert!(vfs.take_trace().is_empty());
}

#[test]
fn a_fork_is_independent_and_keeps_what_is_pending() {
    let (vfs, file) = store_with(&[1; 5_000]);
    file.write_at(&[2; 100], 0).unwrap();
    let fork = vfs.fork_state();
    file.write_at(&[3; 100], 0).unwrap();
    assert_eq!(fork.op_count(), 0);
    assert_eq!(fork.read_file(&in_store("a"))[..100], [2; 100]);
    let forked = fork.open(&in_store("a"), true).unwrap();
    let lost = fork.fork_state().crash(CrashMode::PowerLossNothing);
    assert_eq!(lost.read_file(&in_store("a")), [1; 5_000]);
    forked.sync_data().unwrap();
    let kept = fork.crash(CrashMode::PowerLossNothing);
    assert_eq!(kept.read_file(&in_store("a"))[..100], [2; 100]);
    let origin = vfs.crash(CrashMode::PowerLossNothing);
    assert_eq!(origin.read_file(&in_store("a")), [1; 5_000]);
}

#[test]
fn the_same_seed_replays_the_same_crash() {
    let (vfs, file) = store_with(&[1; 20_000]);
    for turn in 0..20u8 {
        file.write_at(&[turn; 3_000], u64::from(turn) * 900)
            .unwrap();
    }
    let survivors = |seed| {
        vfs.crash(CrashMode::PowerLossRandom(seed))
            .read_file(&in_store("a"))
    };
    assert_eq!(survivors(5), survivors(5));
    assert_ne!(survivors(5), survivors(6));
}

/// Random operations on one file against plain byte vectors: the visible bytes, the synced bytes,
/// and for every sector all versions since the sync. A power failure may choose any of these
/// versions.
#[test]
fn random_operations_agree_with_a_model() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let (vfs, file) = store_with(b"");
        let (mut visible, mut durable) = (Vec::new(), Vec::new());
        let mut versions = BTreeSet::from([Vec::new()]);
        for _ in 0..80 {
            let offset = rng.below(14_000) as usize;
            let len = rng.below(5_000) as usize + 1;
            let end = offset + len;
            match rng.below(10) {
                0..=4 => {
                    let bytes = vec![rng.next() as u8; len];
                    file.write_at(&bytes, offset as u64).unwrap();
                    visible.resize(visible.len().max(end), 0);
                    visible[offset..end].copy_from_slice(&bytes);
                }
                5 => {
                    file.set_len(offset as u64).unwrap();
                    visible.resize(offset, 0);
                    // The shortening may survive without the writes before it.
                    let shortened: Vec<Vec<u8>> = versions
                        .iter()
                        .map(|version| version[..offset.min(version.len())].to_vec())
                        .collect();
                    versions.extend(shortened);
                }
                6 => {
                    file.punch_hole(offset as u64, len as u64).unwrap();
                    let end = end.min(visible.len());
                    visible[offset.min(end)..end].fill(0);
                }
                7 => {
                    file.preallocate(offset as u64, len as u64).unwrap();
                    visible.resize(visible.len().max(end), 0);
                }
                _ => {
                    file.sync_data().unwrap();
                    durable.clone_from(&visible);
                    versions = BTreeSet::new();
                }
            }
            versions.insert(visible.clone());
            assert_eq!(vfs.read_file(&in_store("a")), visible);
            let survivor = |mode| vfs.fork_state().crash(mode).read_file(&in_store("a"));
            assert_eq!(survivor(CrashMode::PowerLossNothing), durable);
            assert_eq!(survivor(CrashMode::PowerLossAll), visible);
            assert_eq!(survivor(CrashMode::Process), visible);
            let random = survivor(CrashMode::PowerLossRandom(rng.next()));
            for (index, sector) in random.chunks(SECTOR_BYTES).enumerate() {
                assert!(
                    versions.iter().any(|version| {
                        let start = (index * SECTOR_BYTES).min(version.len());
                        let known = &version[start..version.len().min(start + sector.len())];
                        let (same, rest) = sector.split_at(known.len());
                        same == known && rest.iter().all(|byte| *byte == 0)
                    }),
                    "seed {seed}: sector {index} was never like this"
                );
            }
        }
    }
}

#[test]
fn a_second_name_keeps_the_space_and_survives_alone() {
    let vfs = SimVfs::new(1);
    let dir = Path::new("/d");
    vfs.create_dir_all(dir).unwrap();
    let file = vfs.create(&dir.join("a")).unwrap();
    file.write_at(&[7; 5_000], 0).unwrap();
    file.sync_data().unwrap();
    vfs.sync_dir(dir).unwrap();
    let used = vfs.used_bytes();
    vfs.hard_link(&dir.join("a"), &dir.join("b")).unwrap();
    assert_eq!(vfs.used_bytes(), used);
    // Neither the new name nor the removal of the old one is durable.
    vfs.remove(&dir.join("a")).unwrap();
    assert_eq!(vfs.used_bytes(), used);
    let lost = vfs.crash(CrashMode::PowerLossNothing);
    assert_eq!(lost.file_names(dir), ["a"]);
    assert_eq!(lost.used_bytes(), used);
    let kept = vfs.crash(CrashMode::PowerLossAll);
    assert_eq!(kept.file_names(dir), ["b"]);
    assert_eq!(kept.read_file(&dir.join("b")), [7; 5_000]);
    kept.remove(&dir.join("b")).unwrap();
    assert_eq!(kept.used_bytes(), 0);
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..64 {
        let machine = vfs.crash(CrashMode::PowerLossRandom(seed));
        seen.insert(machine.file_names(dir));
    }
    assert_eq!(seen.len(), 4, "each name survives for itself: {seen:?}");
}

#[test]
fn links_can_be_refused() {
    let vfs = SimVfs::new(1);
    vfs.create_dir_all(Path::new("/d")).unwrap();
    vfs.write_file(Path::new("/d/a"), vec![1]);
    vfs.allow_links(false);
    let refused = vfs.hard_link(Path::new("/d/a"), Path::new("/d/b"));
    assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::CrossesDevices);
}

#[test]
fn only_a_power_loss_ends_a_boot() {
    let vfs = new_store();
    let first = vfs.boot_id();
    assert!(first.is_some());
    assert_eq!(vfs.crash(CrashMode::Process).boot_id(), first);
    assert_eq!(vfs.fork_state().boot_id(), first);
    for mode in POWER_LOSSES {
        let next = vfs.crash(mode);
        assert_ne!(next.boot_id(), first);
        assert_ne!(next.crash(mode).boot_id(), next.boot_id());
    }
    vfs.tell_boot(false);
    assert_eq!(vfs.boot_id(), None);
    assert_eq!(vfs.crash(CrashMode::PowerLossAll).boot_id(), None);
}

#[test]
fn what_was_asked_for_counts_once_until_it_is_read() {
    let vfs = SimVfs::new(1);
    let file = vfs.create(Path::new("/a")).unwrap();
    file.write_at(&[1; 10_000], 0).unwrap();
    file.will_need(1000, 2000);
    file.will_need(2000, 2000);
    file.will_need(8000, 1000);
    assert_eq!(vfs.read_ahead().asked, 4000);
    let mut buffer = [0; 3000];
    assert_eq!(file.read_at(&mut buffer, 500).unwrap(), 3000);
    let counts = vfs.read_ahead();
    assert_eq!((counts.read, counts.read_as_asked), (3000, 2500));
    // These bytes are read; the 500 bytes behind them are not read yet.
    file.read_at(&mut buffer, 1000).unwrap();
    let counts = vfs.read_ahead();
    assert_eq!((counts.read, counts.read_as_asked), (6000, 3000));
    file.will_need(1000, 3000);
    assert_eq!(vfs.read_ahead().asked, 7000);
}

//! Simulated disks that are full, at every size, for ever or for a while.

use crate::common::alone::is_alone;
use crate::common::oracle::End;
use crate::common::workload::{Runner, Step, steps};
use crate::common::{self, LEVELS, count_from_env, is_about_chunks, scramble};
use crate::run::{Run, STEPS, brief, undisturbed};
use crate::waiting::no_room_in_the_logs;
use evendb::vfs::{CrashMode, SimVfs};
use evendb::{Durability, Error, ErrorKind};

/// The disk is full at one size: reads continue, nothing is lost, and with room everything
/// continues.
fn disk_full_at(seed: u64, level: Durability, capacity: u64) -> bool {
    let place = format!("seed {seed} {level:?} capacity {capacity}");
    let mut run = Run::new(seed, level, place, true);
    run.runner.vfs.set_capacity(capacity);
    let all = steps(seed, STEPS);
    run.run(&all, false);
    let hit = run.errors > 0;
    run.runner.vfs.set_capacity(u64::MAX);
    if run.runner.db.is_none() {
        let place = &run.place;
        let opened = run.runner.recover(End::Process);
        opened.unwrap_or_else(|what| panic!("{place}: with room again: {what}"));
    }
    for step in steps(seed + 1000, 25) {
        let outcome = run.runner.step(&step);
        outcome.unwrap_or_else(|error| panic!("{}: with room again: {error:?}", run.place));
    }
    run.check_disk(capacity);
    hit
}

#[test]
fn disk_full_at_every_size() {
    let stride = count_from_env("EVENDB_CAPACITY_STRIDE", 5);
    let mut hits = 0;
    let mut runs = 0;
    for level in LEVELS {
        let seed = 6;
        let (_, _, used) = undisturbed(seed, level);
        for pages in (0..used / 4096 + 2).step_by(stride as usize) {
            hits += u64::from(disk_full_at(seed, level, pages * 4096));
            runs += 1;
        }
    }
    assert!(hits > runs / 2, "{hits} of {runs} disks were full");
    println!("{runs} sizes, {hits} of them too small");
}

/// The removal of a keyspace on a full disk is refused, and has no effect.
#[test]
fn a_keyspace_whose_removal_found_no_room_is_still_there() {
    let vfs = SimVfs::new(1);
    let open = || common::on_sim(&vfs, Durability::Process, 0).open(common::DIR);
    let db = open().expect("opens");
    let names: Vec<String> = (0..40).map(|number| format!("keyspace {number}")).collect();
    for name in &names {
        let keyspace = db.keyspace(name).expect("creates");
        keyspace.put("key", "value").expect("puts");
        keyspace.put("dirty", "value").expect("puts");
    }
    vfs.set_capacity(vfs.used_bytes());
    // The manifest's room is used up by small edits.
    let full = (0..200_000).find_map(|_| db.flush().err());
    assert_eq!(full.map(|error| error.kind()), Some(ErrorKind::NoSpace));
    // Deletes are admitted all the same.
    vfs.set_capacity(0);
    for name in &names {
        let keyspace = db.keyspace(name).expect("is there");
        keyspace.delete("dirty").expect("deletes");
    }
    let refused = names.iter().position(|name| match db.drop_keyspace(name) {
        Ok(()) => false,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::NoSpace, "{error:?}");
            true
        }
    });
    let left = &names[refused.expect("no room for all edits")..];
    let first = db.keyspace(&left[0]).expect("was not dropped");
    vfs.set_capacity(u64::MAX);
    first.put("after", "value").expect("takes writes");
    db.flush().expect("has room again");
    let machine = vfs.crash(CrashMode::PowerLossNothing);
    drop((first, db));
    let db = common::on_sim(&machine, Durability::Process, 0)
        .open(common::DIR)
        .expect("opens");
    assert_eq!(db.keyspace_names().len(), left.len() + 1);
    for name in left {
        let keyspace = db.keyspace(name).expect("is there");
        assert!(keyspace.contains_key("key").expect("gets"), "{name}");
        assert!(!keyspace.contains_key("dirty").expect("gets"), "{name}");
    }
    let first = db.keyspace(&left[0]).expect("is there");
    assert!(first.contains_key("after").expect("gets"));
}

/// The disk was full until the manifest had no room for another edit, and had room again for a
/// moment. Writes that are admitted from then on find room for their edits, though the disk gives
/// no more: puts, and deletes behind them.
#[test]
fn what_is_let_in_has_room_for_its_edits() {
    if !is_alone("room::what_is_let_in_has_room_for_its_edits") {
        return;
    }
    // A known fault of guards: each flush adds a run, and without room for a table the runs cannot
    // be compacted. So some flushes later a flush finds no room, though its deletes were admitted.
    let _chunks = is_about_chunks();
    for level in LEVELS {
        let vfs = SimVfs::new(1);
        let db = on_full(&vfs, level).open(common::DIR).expect("opens");
        let key = |number: usize| format!("k{number:05}");
        for number in 0..3_000 {
            db.put(key(number), [1; 100]).expect("puts");
        }
        vfs.set_capacity(vfs.used_bytes());
        let full = (0..200_000).find_map(|_| db.flush().err());
        assert_eq!(full.map(|error| error.kind()), Some(ErrorKind::NoSpace));
        // No part of a put could be made durable, so none is admitted, whatever the logs have free.
        let refused = db.put("refused", "").map_err(|error| error.kind());
        assert_eq!(refused, Err(ErrorKind::NoSpace), "{level:?}");
        vfs.set_capacity(u64::MAX);
        db.put("a moment", "with room").expect("puts");
        vfs.set_capacity(0);
        for round in 0..10 {
            let place = format!("{level:?} round {round}");
            // Scattered keys, so that each round is an edit of many parts.
            for number in (round..3_000).step_by(100) {
                db.delete(key(number))
                    .unwrap_or_else(|error| panic!("{place}: deletes: {error:?}"));
            }
            db.flush()
                .unwrap_or_else(|error| panic!("{place}: flushes: {error:?}"));
        }
        assert_eq!(db.prefix("k").count(), 2_700, "{level:?}");
        let machine = vfs.crash(CrashMode::PowerLossNothing);
        drop(db);
        let db = on_full(&machine, level).open(common::DIR).expect("opens");
        assert_eq!(db.iter().count(), 2_701, "{level:?}");
    }
}

/// Chunks of several pages: deleting a part of a page gives nothing back.
fn on_full(vfs: &SimVfs, level: Durability) -> evendb::Options {
    common::on_sim(vfs, level, 0).advanced(|advanced| advanced.chunk_bytes(32 << 10))
}

/// Puts keys in an order that makes tables of their own, not runs that join the base.
pub fn fill_until_full(db: &evendb::Db, keys: u64) -> u64 {
    for number in 0.. {
        let key = format!("k{:05}", number * 7_919 % keys);
        match db.put(key, vec![number as u8; 100]) {
            Ok(()) => assert!(number < 10 * keys, "the disk is never full"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NoSpace, "{error:?}");
                return number;
            }
        }
    }
    unreachable!()
}

/// The files on the simulated disk, for messages.
fn files_of(vfs: &SimVfs) -> String {
    let dir = std::path::Path::new(common::DIR);
    let mut sizes: Vec<(String, usize)> = vfs
        .file_names(dir)
        .into_iter()
        .map(|name| {
            let bytes = vfs.read_file(&dir.join(&name)).len();
            (name, bytes)
        })
        .collect();
    sizes.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let shown = sizes.iter().take(12);
    let shown: Vec<_> = shown
        .map(|(name, bytes)| format!("{name} {bytes}"))
        .collect();
    let (files, used) = (sizes.len(), vfs.used_bytes());
    format!("{used} bytes used, {files} files: {}", shown.join(", "))
}

/// An application that hits a full disk can delete a range and continue, without anybody's help:
/// the deletion succeeds at once, and so does the put after it.
#[test]
fn deleting_gives_room_on_a_full_disk() {
    if !is_alone("room::deleting_gives_room_on_a_full_disk") {
        return;
    }
    for level in LEVELS {
        let capacities: &[u64] = match level {
            Durability::Process => &[1_800, 2_200, 2_600, 4_000, 7_000],
            _ => &[1_800, 2_600, 4_000],
        };
        let rounds = count_from_env("EVENDB_FULL_ROUNDS", 2);
        for capacity in capacities {
            let place = format!("{level:?} {capacity} KiB");
            let vfs = SimVfs::new(*capacity);
            vfs.set_capacity(capacity << 10);
            let db = on_full(&vfs, level).open(common::DIR).expect("opens");
            let mut kept = 0;
            for round in 0..rounds {
                let place = format!("{place} round {round}");
                let put = fill_until_full(&db, 1_000_000 - 1);
                assert!(put > 20, "{place}: only {put} puts");
                // Reads continue, and the records can be read from end to end.
                let all = db
                    .iter()
                    .map(|item| Ok(item?.0.to_vec()))
                    .collect::<evendb::Result<Vec<_>>>();
                let all = all.unwrap_or_else(|error| panic!("{place}: reads: {error:?}"));
                assert!(all.len() > 100, "{place}");
                // Everything except the last tenth.
                let from = &all[all.len() * 9 / 10];
                db.delete_range(..&from[..]).unwrap_or_else(|error| {
                    let left = db.iter().take_while(Result::is_ok).count();
                    let files = (files_of(&vfs), db.stats());
                    panic!(
                        "{place}: {left} of {} left: {error:?}; {files:?}",
                        all.len()
                    )
                });
                db.put("z", "room again").unwrap_or_else(|error| {
                    let files = files_of(&vfs);
                    panic!("{place}: put: {error:?}; {files}")
                });
                kept = db.iter().take_while(Result::is_ok).count();
                assert_eq!(kept, all.len() - all.len() * 9 / 10 + 1, "{place}");
                db.delete("z").expect("deletes");
                kept -= 1;
            }
            // These records survive a power loss.
            db.put("a", "last")
                .unwrap_or_else(|error| panic!("{place}: {error:?}"));
            db.close()
                .unwrap_or_else(|error| panic!("{place}: {error:?}"));
            let vfs = vfs.crash(CrashMode::PowerLossNothing);
            let db = on_full(&vfs, level).open(common::DIR).expect("opens");
            let there = db.iter().take_while(Result::is_ok).count();
            assert_eq!(there, kept + 1, "{place}");
        }
    }
}

/// Single deletes do it too, with the puts that find no room in between.
#[test]
fn puts_do_not_take_the_room_kept_for_deletes() {
    if !is_alone("room::puts_do_not_take_the_room_kept_for_deletes") {
        return;
    }
    let vfs = SimVfs::new(1);
    vfs.set_capacity(1_500 << 10);
    let db = on_full(&vfs, Durability::Process)
        .open(common::DIR)
        .expect("opens");
    fill_until_full(&db, 999_999);
    let all: Vec<Vec<u8>> = db
        .iter()
        .map(|item| item.expect("reads").0.to_vec())
        .collect();
    let mut puts = 0;
    for (index, key) in all.iter().enumerate() {
        db.delete(key)
            .unwrap_or_else(|error| panic!("delete {index}: {error:?}"));
        // Greedy puts: they take all the room that they get.
        if db
            .put(format!("greedy{}", index % 20), vec![1; 100])
            .is_ok()
        {
            puts += 1;
        }
    }
    assert!(puts > 0, "room never came back");
    assert_eq!(db.iter().count(), 20.min(puts));
}

/// The disk has no byte left, because another process filled it; the process dies, or power fails.
#[test]
fn a_database_opens_on_a_full_disk() {
    let mut refused = 0;
    let mut opened = 0;
    for level in LEVELS {
        for seed in 0..count_from_env("EVENDB_FULL_OPENINGS", 30) {
            let vfs = SimVfs::new(seed);
            let mut runner = Runner::new(&vfs, level);
            runner.open().expect("opens");
            let mut all = steps(seed, 20 + (scramble(seed) % 120) as usize);
            all.retain(|step| !matches!(step, Step::Copy));
            for step in &all {
                runner.step(step).expect("nothing fails");
            }
            vfs.set_capacity(0);
            // A few more steps until the disk is full, or not.
            for step in steps(seed + 500, (seed % 20) as usize) {
                if !matches!(step, Step::Write(..)) {
                    continue;
                }
                if let Err(error) = runner.step(&step) {
                    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error:?}");
                    let visible = runner.oracle.check_live(runner.db()).expect("reads");
                    let names = runner.db().keyspace_names();
                    runner.oracle.judge_pending(visible, &names);
                }
            }
            drop(vfs.crash(CrashMode::Process));
            runner.abandon();
            for (mode, end) in [
                (CrashMode::Process, End::Process),
                (CrashMode::PowerLossNothing, End::Power),
                (CrashMode::PowerLossAll, End::Power),
                (CrashMode::PowerLossRandom(seed), End::Power),
            ] {
                let place = format!("{level:?} seed {seed} {mode:?}");
                let mut machine = vfs.crash(mode);
                let mut oracle = runner.oracle.clone();
                let mut end = end;
                // Again and again: each opening writes an epoch.
                for opening in 0..6 {
                    let mut next = Runner::resume(&machine, level, oracle.clone());
                    match next.recover(end) {
                        Ok(()) => opened += 1,
                        // Power failed before the first room was durable.
                        Err(what) if what.contains("no storage space") && opening == 0 => {
                            refused += 1;
                            next.vfs.set_capacity(u64::MAX);
                            next.recover(end)
                                .unwrap_or_else(|what| panic!("{place}: with room: {what}"));
                            next.vfs.set_capacity(0);
                        }
                        Err(what) => panic!("{place} opening {opening}: {what}"),
                    }
                    oracle = next.oracle.clone();
                    end = End::Process;
                    machine = machine.crash(CrashMode::Process);
                    next.abandon();
                }
            }
        }
    }
    println!("{opened} openings of full disks, {refused} refused");
    assert!(refused * 50 <= opened, "{refused} refused of {opened}");
}

/// The workload on a disk that is full for a while, again and again, at every level, with crashes.
#[test]
fn full_disks_and_room_again_and_crashes() {
    let seeds = count_from_env("EVENDB_FULL_SEEDS", 40);
    let (mut errors, mut lives) = (0, 0);
    for level in LEVELS {
        for seed in 0..seeds {
            let mut run = Run::new(seed, level, format!("{level:?} seed {seed}"), true);
            run.runner.open().expect("opens");
            for life in 0..5 {
                let number = scramble(seed * 1_000 + life);
                for part in 0..6 {
                    let full = part % 2 == 1;
                    let used = run.runner.vfs.used_bytes();
                    let slack = (scramble(number + part) % 10) << 12;
                    let capacity = if full { used + slack } else { u64::MAX };
                    run.runner.vfs.set_capacity(capacity);
                    let mut all = steps(number + part, 25);
                    all.retain(|step| !matches!(step, Step::Reopen));
                    for step in &all {
                        let Err(error) = run.runner.step(step) else {
                            continue;
                        };
                        let doing = format!("life {life} part {part} {}", brief(step));
                        assert!(full, "{} {doing}: {error:?}", run.place);
                        run.expect_kind(&error, &doing);
                        let visible = run.check_reads(&doing);
                        let names = run.runner.db().keyspace_names();
                        run.runner.oracle.judge_pending(visible, &names);
                    }
                }
                let modes = [
                    (CrashMode::Process, End::Process),
                    (CrashMode::PowerLossNothing, End::Power),
                    (CrashMode::PowerLossRandom(number), End::Power),
                ];
                let (mode, end) = modes[(number % 3) as usize];
                let machine = run.runner.vfs.crash(mode);
                run.runner.abandon();
                run.runner = Runner::resume(&machine, level, run.runner.oracle.clone());
                // The last part left the disk full, with or without a little room.
                if let Err(what) = run.runner.recover(end) {
                    assert!(what.contains("no storage space"), "{}: {what}", run.place);
                    run.runner.vfs.set_capacity(u64::MAX);
                    let opened = run.runner.recover(end);
                    opened.unwrap_or_else(|what| panic!("{} life {life}: {what}", run.place));
                }
                lives += 1;
            }
            errors += run.errors;
        }
    }
    println!("{lives} lives on disks that were full for a while, {errors} refusals");
    assert!(errors > lives / 4);
}

/// Free room within the container is found again after opening, when the disk has none.
#[test]
fn holes_of_the_logs_are_used_after_opening_on_a_full_disk() {
    if !is_alone("room::holes_of_the_logs_are_used_after_opening_on_a_full_disk") {
        return;
    }
    let _chunks = common::is_about_chunks();
    for level in LEVELS {
        let vfs = SimVfs::new(1);
        // Munks are off: then only the log is written, and its runs are merged away.
        let open = |vfs: &SimVfs| {
            let options = on_full(vfs, level).advanced(|advanced| advanced.munks(false));
            options.open(common::DIR).expect("opens")
        };
        let db = open(&vfs);
        for number in 0..4_000_u32 {
            let key = format!("k{:05}", number * 7_919 % 4_001);
            db.put(key, [1; 100]).expect("puts");
        }
        // Compacts the keyspace: after a compaction of the database, closing would give the holes
        // back.
        db.default_keyspace().compact().expect("compacts");
        // Runs come and go: the room that they leave is free, and too small to be given back.
        for round in 0..3_u8 {
            for number in (0..4_000_u32).step_by(40) {
                db.put(format!("k{number:05}"), [round; 100]).expect("puts");
            }
            db.flush().expect("flushes");
        }
        db.default_keyspace().compact().expect("compacts");
        let free = db.stats().space.container_free_bytes;
        assert!(free > 32 << 10, "{level:?}: {free} free");
        db.close().expect("closes");
        for mode in [CrashMode::Process, CrashMode::PowerLossNothing] {
            let vfs = vfs.crash(mode);
            vfs.set_capacity(0);
            let db = open(&vfs);
            let before = vfs.read_file(&std::path::Path::new(common::DIR).join("CHUNK-LOGS"));
            let mut taken = 0;
            for number in 0..100_u32 {
                let value = [number as u8; 100];
                match db.put(format!("new{number:03}"), value) {
                    Ok(()) => taken += 1,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::NoSpace, "{error:?}"),
                }
            }
            assert_eq!(taken, 100, "{level:?} {mode:?}: of {free} bytes free");
            db.flush().expect("the runs find their holes");
            let after = vfs.read_file(&std::path::Path::new(common::DIR).join("CHUNK-LOGS"));
            assert_eq!(after.len(), before.len(), "{level:?} {mode:?}: it grew");
            assert_ne!(after, before, "{level:?} {mode:?}: nothing was written");
            assert_eq!(db.prefix("new").count(), 100);
            assert_eq!(db.prefix("k").take_while(Result::is_ok).count(), 4_000);
            let again = vfs.crash(CrashMode::PowerLossNothing);
            drop(db);
            assert_eq!(open(&again).prefix("new").count(), 100);
        }
    }
}

/// While runs are merged, a file system finds no block for bytes whose room was reserved. Nothing
/// names the merged run yet, so this is a full disk like any other, and no reason to stop.
#[test]
fn a_merge_of_runs_without_room_does_not_latch() {
    let _chunks = common::is_about_chunks();
    let mut merges = 0;
    for at in 0..300 {
        let vfs = SimVfs::new(at);
        // Logs that are never at their limit: only the number of their runs is too large.
        let options = on_full(&vfs, Durability::Process)
            .advanced(|advanced| advanced.log_bytes_limits(1 << 30, 1 << 30).munks(false));
        let db = options.open(common::DIR).expect("opens");
        db.put("before", "value").expect("puts");
        db.flush().expect("lays the ballast down");
        vfs.inject(no_room_in_the_logs(at, false));
        // A failed sync does latch, whatever it says.
        let by_a_sync = |error: &Error| error.to_string().contains("sync the logs");
        let failed = (0..120_u32).find_map(|round| {
            let put = db.put(format!("k{:03}", round * 37 % 300), [7; 20]);
            let settled = put.and_then(|()| db.settle_debt());
            settled.err().filter(|e| e.kind() != ErrorKind::NoSpace)
        });
        if let Some(error) = failed {
            assert!(by_a_sync(&error), "fault {at}: {error:?}");
            continue;
        }
        merges += db.stats().log_merges;
        assert_eq!(db.prefix("k").count(), 120, "fault {at}");
    }
    assert!(merges > 0, "nothing was merged");
}

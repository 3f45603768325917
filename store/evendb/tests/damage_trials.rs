//! One bit or one sector damaged, anywhere in any file of a database at each level, after `kill
//! -9`, a clean close and a power loss: no acknowledged write is lost without a report, and no read
//! is wrong. The test knows every state that the database ever had.
//!
//! Each trial ends in one of these ways; anything else fails:
//!
//! * the damage is reported: by the opening, by a read, or by `verify`;
//! * nothing needs the bytes, and all records are there;
//! * the damage hits the end of a log, and no intact record or edit behind it proves that the log
//!   continued there ([`Disk::is_open_end`]); or it hits a value extent or a value that was not
//!   synced when power was lost. The remaining records are a state that the database once had. No
//!   format without a second copy of its end can tell this from a crash.
//!
//! If the opening refuses damage in the commit log, giving up the records behind it gives such a
//! state too, and `repair` saves the records before and behind.
//!
//! `EVENDB_DAMAGE_TRIALS` sets the number of trials for each level (default 150; 2,000 is the full
//! campaign).

mod common;

use common::damage::{inspect_options, path, verified};
use common::oracle::{Map, contents};
use common::workload::{Runner, Step, extent_steps, steps};
use common::{DIR, LEVELS, count_from_env, number_from_env, on_sim, scramble};
use evendb::inspect::{
    Dump, DumpItem, DumpOptions, DumpValue, FindingKind, RepairOptions, VerifyReport, dump, repair,
};
use evendb::vfs::{CrashMode, SimVfs};
use evendb::{Db, Durability, ErrorKind};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;

const SECTOR_BYTES: usize = 512;
const COMMIT_LOG: &str = "COMMIT-LOG";
/// Bytes before a record's payload.
const RECORD_HEADER_BYTES: u64 = 40;

/// The contents of each keyspace.
type Contents = BTreeMap<String, Map>;

/// How the database ended before it was damaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Killed,
    /// Opened and killed once more.
    KilledTwice,
    Closed,
    /// Everything written had reached the disk.
    PowerLoss,
}

const ENDS: [End; 5] = [
    End::Killed,
    End::KilledTwice,
    End::Killed,
    End::PowerLoss,
    End::Closed,
];

/// A record of the commit log, or an edit of the manifest, in their order.
#[derive(Clone, Debug)]
struct Unit {
    place: Range<u64>,
    /// Position in the log, and the position up to which it says that all was durable.
    lsn: u64,
    durable: u64,
    /// The value extent that it names, and whether that was synced before it was written.
    extent: Option<(String, bool)>,
    /// The places in value files that its operations name.
    values: Vec<(String, Range<u64>)>,
    /// Whether one of its operations deletes a range.
    deletes_range: bool,
}

/// A disk to damage.
struct Disk {
    name: String,
    level: Durability,
    end: End,
    machine: SimVfs,
    /// Every state that was acknowledged, in order.
    history: Vec<Contents>,
    /// The state that opening finds.
    expected: Contents,
    sound: VerifyReport,
    files: Vec<String>,
    log: Vec<Unit>,
    /// Edits for which `CURRENT` does not vouch.
    edits: Vec<Unit>,
}

fn all_of(db: &Db) -> evendb::Result<Contents> {
    let names = db.keyspace_names().into_iter();
    names
        .map(|name| contents(db, &name).map(|map| (name, map)))
        .collect()
}

fn number(item: &DumpItem, wanted: &str) -> u64 {
    let mut fields = item.fields.iter();
    match fields.find(|(name, _)| *name == wanted) {
        Some((_, DumpValue::Number(number))) => *number,
        other => panic!("{wanted} is {other:?} in {item:?}"),
    }
}

fn dumped(machine: &SimVfs, what: &Dump) -> Vec<DumpItem> {
    let mut items = Vec::new();
    let options = DumpOptions::default();
    let each = &mut |item| {
        items.push(item);
        ControlFlow::Continue(())
    };
    dump(DIR, what, &options, inspect_options(machine), each).expect("dumps");
    items
}

fn units(machine: &SimVfs, what: &Dump, kind: &str) -> Vec<Unit> {
    let of_log = *what == Dump::CommitLog;
    let mut units: Vec<Unit> = Vec::new();
    for item in &dumped(machine, what) {
        let text = |wanted| {
            let mut fields = item.fields.iter();
            fields.find_map(|(name, value)| match value {
                DumpValue::Text(text) if *name == wanted => Some(text.clone()),
                _ => None,
            })
        };
        // An operation belongs to the record before it.
        if let Some(file) = text("value-file")
            && let Some(unit) = units.last_mut()
        {
            let start = number(item, "offset");
            unit.values
                .push((file, start..start + number(item, "length")));
        }
        if text("kind").is_some_and(|kind| kind == "delete-range")
            && let Some(unit) = units.last_mut()
        {
            unit.deletes_range = true;
        }
        if item.kind != kind {
            continue;
        }
        let start = item.offset.expect("it has a place");
        let field = |name| if of_log { number(item, name) } else { 0 };
        let synced = |_: &String| number(item, "value-extent-synced-first") == 1;
        let extent = text("value-extent").map(|name| (name.clone(), synced(&name)));
        units.push(Unit {
            place: start..start + item.len.expect("it has a length"),
            lsn: field("lsn"),
            durable: field("durable"),
            extent,
            values: Vec::new(),
            deletes_range: false,
        });
    }
    units
}

impl Disk {
    fn make(level: Durability, seed: u64) -> Disk {
        let end = ENDS[(seed % ENDS.len() as u64) as usize];
        let vfs = SimVfs::new(seed);
        let mut runner = Runner::new(&vfs, level).vary(seed);
        runner.open().expect("opens");
        // Without dropping keyspaces: otherwise the states would need to distinguish keyspaces of
        // one name.
        let make = match seed.is_multiple_of(4) {
            true => extent_steps,
            false => steps,
        };
        let mut all = make(scramble(seed), 160 + (seed as usize * 37) % 120);
        all.retain(|step| !matches!(step, Step::Drop(_)));
        let mut writes = make(scramble(seed + 1), 30);
        writes.retain(|step| matches!(step, Step::Write(..)));
        all.extend(writes.clone());
        let mut history = vec![
            runner
                .oracle
                .names()
                .into_iter()
                .map(|n| (n, Map::new()))
                .collect(),
        ];
        let run = |runner: &mut Runner, all: &[Step], history: &mut Vec<Contents>| {
            for step in all {
                runner.step(step).expect("nothing fails");
                let names = runner.oracle.names().into_iter();
                let now: Contents = names.map(|n| (n.clone(), runner.oracle.map(&n))).collect();
                if history.last() != Some(&now) {
                    history.push(now);
                }
            }
        };
        run(&mut runner, &all, &mut history);
        let mut machine = vfs.clone();
        match end {
            End::Killed => machine = vfs.crash(CrashMode::Process),
            End::KilledTwice => {
                machine = vfs.crash(CrashMode::Process);
                runner.abandon();
                runner = Runner::resume(&machine, level, runner.oracle.clone());
                let recovered = runner.recover(common::oracle::End::Process);
                recovered.expect("recovers");
                run(&mut runner, &writes, &mut history);
                machine = machine.crash(CrashMode::Process);
            }
            End::Closed => {
                runner.db.take().expect("open").close().expect("closes");
            }
            End::PowerLoss if level == Durability::Sync => {
                machine = vfs.crash(CrashMode::PowerLossNothing);
            }
            End::PowerLoss => machine = vfs.crash(CrashMode::PowerLossAll),
        }
        runner.abandon();
        let machine = machine.fork_state();
        let expected = {
            let db = on_sim(&machine.fork_state(), level, 0)
                .open(DIR)
                .expect("opens");
            all_of(&db).expect("reads")
        };
        let name = format!("{level:?} {end:?} seed {seed}");
        let last = history.last().expect("there are states");
        if level != Durability::Relaxed || end == End::Closed {
            assert!(expected == *last, "{name}: it does not even open whole");
        }
        let mut files = machine.file_names(&PathBuf::from(DIR));
        files.retain(|name| !common::damage::WITHOUT_MEANING.contains(&name.as_str()));
        // Without it nothing can be read or saved (`a_damaged_file_of_keys_is_corruption` in
        // tests/encryption.rs).
        files.retain(|name| name != "KEYS");
        let verified_up_to = number(&dumped(&machine, &Dump::Current)[0], "verified-up-to");
        let mut edits = units(&machine, &Dump::Manifest, "edit");
        edits.retain(|edit| edit.place.start >= verified_up_to);
        Disk {
            sound: verified(&machine),
            log: units(&machine, &Dump::CommitLog, "log-record"),
            edits,
            name,
            level,
            end,
            machine,
            history,
            expected,
            files,
        }
    }

    /// Whether these bytes are the end of a log, and no intact record proves that the log
    /// continued: only then may records be missing without a report.
    fn is_open_end(&self, file: &str, changed: &[u64]) -> bool {
        let touches = |place: &Range<u64>| changed.iter().any(|at| place.contains(at));
        if file.starts_with("MANIFEST-") {
            let first = self.edits.iter().position(|edit| touches(&edit.place));
            return first
                .is_some_and(|first| self.edits[first..].iter().all(|edit| touches(&edit.place)));
        }
        if file.ends_with(".val") {
            return self.is_open_extent(file);
        }
        if file.ends_with(".values") {
            return self.is_open_value(file, changed);
        }
        if file != COMMIT_LOG {
            return false;
        }
        let Some(first) = self.log.iter().position(|unit| touches(&unit.place)) else {
            return false;
        };
        let hole = self.log[first].lsn;
        let proves = |unit: &Unit| {
            let start = unit.place.start;
            let intact = !touches(&(start..start + RECORD_HEADER_BYTES));
            intact && (self.end != End::PowerLoss || unit.durable > hole)
        };
        !self.log[first + 1..].iter().any(proves)
    }

    /// Whether a value extent may have been lost with the power: it was not synced before its
    /// record, and no record says that it was synced afterwards.
    fn is_open_extent(&self, file: &str) -> bool {
        let names = |unit: &&Unit| unit.extent.as_ref().is_some_and(|(name, _)| name == file);
        let Some(record) = self.log.iter().find(names) else {
            return false;
        };
        let is_synced = record.extent.as_ref().is_some_and(|(_, synced)| *synced);
        let proven = self.log.iter().any(|unit| unit.durable > record.lsn);
        self.end == End::PowerLoss && !is_synced && !proven
    }

    /// Whether a value of a value file may have been lost with the power: a record of the log names
    /// it, and no record says that this one was durable.
    fn is_open_value(&self, file: &str, changed: &[u64]) -> bool {
        let touches = |place: &Range<u64>| changed.iter().any(|at| place.contains(at));
        let names = |unit: &&Unit| {
            let mut own = unit.values.iter();
            own.any(|(name, place)| name == file && touches(place))
        };
        let Some(record) = self.log.iter().find(names) else {
            return false;
        };
        let proven = self.log.iter().any(|unit| unit.durable > record.lsn);
        self.end == End::PowerLoss && !proven
    }

    /// Whether the database once held these contents. A keyspace whose creation is at the open end
    /// may be missing.
    fn once_held(&self, found: &Contents) -> bool {
        let nothing = Map::new();
        self.history.iter().any(|state| {
            let mut names = found.keys().chain(state.keys());
            names.all(|name| {
                found.get(name).unwrap_or(&nothing) == state.get(name).unwrap_or(&nothing)
            })
        })
    }
}

/// The outcomes of the trials of a level.
#[derive(Default, Debug)]
struct Tally {
    by_opening: u32,
    by_reads: u32,
    by_verify: u32,
    unneeded: u32,
    open_end_whole: u32,
    open_end_lost: u32,
    open_end_hinted: u32,
    given_up: u32,
    repaired: u32,
    in_commit_log: u32,
}

/// Damage may hit the number of a format's version.
fn is_told(error: &evendb::Error) -> bool {
    matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Unsupported)
}

/// Reads everything, by scans and by gets: returns the contents, or `None` if a read reported
/// damage. Beside an error, other reads must give right values; at an open end, values that were
/// right once.
fn read_all(disk: &Disk, db: &Db, is_open_end: bool, what: &str) -> Option<Contents> {
    let whole = match all_of(db) {
        Ok(whole) => Some(whole),
        Err(error) => {
            assert!(is_told(&error), "{what}: {error:?}");
            None
        }
    };
    let mut told = whole.is_none();
    for (name, map) in &disk.expected {
        let Ok(keyspace) = db.keyspace(name) else {
            continue;
        };
        for (key, value) in map {
            let got = match keyspace.get(key) {
                Ok(got) => got.map(|got| got.to_vec()),
                Err(error) => {
                    assert!(is_told(&error), "{what}: {error:?}");
                    told = true;
                    continue;
                }
            };
            let of = |contents: &Contents| contents.get(name).and_then(|map| map.get(key)).cloned();
            let is_right = match &whole {
                // The same by each way of reading.
                Some(whole) => got == of(whole),
                None => got.as_ref() == Some(value),
            };
            let was_right = || is_open_end && disk.history.iter().any(|state| got == of(state));
            let key = key.escape_ascii();
            assert!(
                is_right || was_right(),
                "{what}: a wrong value of {key} in {name}"
            );
        }
    }
    whole.filter(|_| !told)
}

fn trial(disk: &Disk, number: u64, tally: &mut Tally) {
    let mut random = StdRng::seed_from_u64(number);
    let (file, before, after, how) = loop {
        let file = match random.random_range(0..3) {
            0 if disk.files.iter().any(|name| name == COMMIT_LOG) => COMMIT_LOG.to_owned(),
            // Each kind is drawn equally often, and each file of it.
            1 => {
                let kinds = ["CURRENT", "MANIFEST-", "CHUNK-LOGS", ".sst", ".val"];
                let kind = kinds[random.random_range(0..kinds.len())];
                let of_kind = |name: &&String| name.contains(kind);
                let names: Vec<&String> = disk.files.iter().filter(of_kind).collect();
                if names.is_empty() {
                    continue;
                }
                names[random.random_range(0..names.len())].clone()
            }
            _ => disk.files[random.random_range(0..disk.files.len())].clone(),
        };
        let before = disk.machine.read_file(&path(&file));
        if before.is_empty() {
            continue;
        }
        // Half of the damages hit bytes in use.
        let live = disk.sound.live.get(&file).filter(|live| !live.is_empty());
        let at = match live.filter(|_| random.random_bool(0.5)) {
            Some(live) => {
                let range = &live[random.random_range(0..live.len())];
                random.random_range(range.clone()) as usize
            }
            None => random.random_range(0..before.len()),
        };
        let mut after = before.clone();
        let how = match random.random_bool(0.5) {
            true => {
                let bit = random.random_range(0..8);
                after[at] ^= 1 << bit;
                format!("bit {bit} of byte {at}")
            }
            false => {
                let start = at - at % SECTOR_BYTES;
                let end = (start + SECTOR_BYTES).min(after.len());
                after[start..end].fill(0);
                format!("sector at {start}")
            }
        };
        // A sector of zeros may be unchanged.
        if after != before {
            break (file, before, after, how);
        }
    };
    let what = format!("{}, trial {number}: {file}, {how}", disk.name);
    let changed = common::damage::changed_bytes(&before, &after);
    let machine = disk.machine.fork_state();
    machine.write_file(&path(&file), after);
    tally.in_commit_log += u32::from(file == COMMIT_LOG);
    let report = verified(&machine);
    let named = report.findings.iter().filter(|finding| {
        let place = finding.offset.zip(finding.len);
        let here = |at: &u64| place.is_some_and(|(start, len)| (start..start + len).contains(at));
        finding.file == file && (place.is_none() || changed.iter().any(here))
    });
    let is_found = named.count() > 0;
    // A lost edit of the manifest may show only in the commit log.
    let is_corrupt = !report.is_sound();
    let is_open_end = disk.is_open_end(&file, &changed);
    let opened = on_sim(&machine.fork_state(), disk.level, 0).open(DIR);
    let db = match opened {
        Ok(db) => db,
        Err(error) => {
            assert!(is_told(&error), "{what}: {error:?}");
            assert!(is_corrupt, "{what}: refused, but sound: {error}");
            tally.by_opening += 1;
            if file == COMMIT_LOG {
                give_up(disk, &machine, tally, &what);
                save(disk, &machine, &changed, tally, &what);
            }
            return;
        }
    };
    let Some(found) = read_all(disk, &db, is_open_end, &what) else {
        assert!(is_corrupt, "{what}: reads told, but sound");
        tally.by_reads += 1;
        return;
    };
    drop(db);
    if found == disk.expected {
        let meant = changed.iter().any(|at| disk.sound.is_live(&file, *at));
        match (is_corrupt, meant) {
            (true, _) => tally.by_verify += 1,
            (false, false) => tally.unneeded += 1,
            (false, true) => {
                assert!(is_open_end, "{what}: nobody noticed");
                tally.open_end_whole += 1;
            }
        }
        return;
    }
    assert!(
        is_open_end,
        "{what}: lost without a word: {:#?}",
        report.findings
    );
    assert!(disk.once_held(&found), "{what}: a state that never was");
    tally.open_end_lost += 1;
    tally.open_end_hinted += u32::from(is_found);
}

/// The records behind the damage are given up: the rest is a state that once was, and that is
/// reported afterwards.
fn give_up(disk: &Disk, machine: &SimVfs, tally: &mut Tally, what: &str) {
    let machine = machine.fork_state();
    let options = || on_sim(&machine, disk.level, 0);
    let files = machine.file_names(&PathBuf::from(DIR));
    let looked = options().accept_log_loss(true).read_only(true).open(DIR);
    let seen = all_of(&looked.expect("opens for reading")).expect("reads");
    assert_eq!(machine.file_names(&PathBuf::from(DIR)), files, "{what}");
    let refused = options()
        .read_only(true)
        .open(DIR)
        .expect_err("still refused");
    assert_eq!(refused.kind(), ErrorKind::Corruption, "{what}");
    let db = options().accept_log_loss(true).open(DIR).expect("opens");
    let found = all_of(&db).expect("reads");
    assert!(
        disk.once_held(&found),
        "{what}: given up, a state that never was"
    );
    assert!(found == seen, "{what}: readers and writers differ");
    db.put("after", "all").expect("goes on");
    drop(db);
    let report = verified(&machine);
    assert!(report.is_sound(), "{what}: {:#?}", report.findings);
    let mut findings = report.findings.iter();
    let kept = findings.any(|finding| finding.kind == FindingKind::CommitLogHole);
    assert!(kept, "{what}: nothing tells of what was given up");
    let db = options().open(DIR).expect("opens as ever");
    assert_eq!(
        db.get("after").expect("reads").as_deref(),
        Some(&b"all"[..])
    );
    tally.given_up += 1;
}

/// Repair saves everything except what only the damaged records hold.
fn save(disk: &Disk, machine: &SimVfs, changed: &[u64], tally: &mut Tally, what: &str) {
    let options = RepairOptions::default();
    let report = repair(DIR, "/saved", options, inspect_options(machine)).expect("repairs");
    assert!(!report.is_complete(), "{what}");
    let db = on_sim(machine, disk.level, 0)
        .open("/saved")
        .expect("opens");
    let saved = all_of(&db).expect("reads");
    let hit = disk
        .log
        .iter()
        .filter(|unit| changed.iter().any(|at| unit.place.contains(at)));
    // A record is a batch of at most eight operations, each on one key if it deletes no range.
    let of_record = |unit: &Unit| match unit.deletes_range {
        true => usize::MAX / 8,
        false => 8,
    };
    let allowed: usize = hit.map(of_record).sum();
    let mut missing = 0;
    for (name, map) in &disk.expected {
        let got = &saved[name];
        missing += map
            .iter()
            .filter(|(key, value)| got.get(*key) != Some(value))
            .count();
        missing += got.keys().filter(|key| !map.contains_key(*key)).count();
    }
    assert!(
        missing <= allowed,
        "{what}: {missing} of at most {allowed} missing"
    );
    tally.repaired += 1;
}

fn trials(level: Durability) {
    let wanted = count_from_env("EVENDB_DAMAGE_TRIALS", 150);
    let first = number_from_env("EVENDB_DAMAGE_SEED", 1);
    // Each disk serves some trials, so that damage meets many states.
    let per_disk = wanted.div_ceil(10).min(40);
    let mut tally = Tally::default();
    let mut done = 0;
    for seed in first.. {
        let disk = Disk::make(level, seed);
        for number in 0..per_disk.min(wanted - done) {
            trial(&disk, scramble(seed) ^ number, &mut tally);
            done += 1;
        }
        if done == wanted {
            break;
        }
    }
    println!(
        "{level:?}: {done} trials, {} of them in the commit log. Told by opening {}, by reads {}, by \
         verify alone {}; in bytes nobody needs {}; at an open end {}, of them {} without a loss, {} with \
         one ({} of these hinted at by verify). Lost without a word elsewhere: 0. Given up {}, repaired {}",
        tally.in_commit_log,
        tally.by_opening,
        tally.by_reads,
        tally.by_verify,
        tally.unneeded,
        tally.open_end_whole + tally.open_end_lost,
        tally.open_end_whole,
        tally.open_end_lost,
        tally.open_end_hinted,
        tally.given_up,
        tally.repaired,
    );
    assert!(u64::from(tally.by_opening) > wanted / 50, "{tally:?}");
}

#[test]
fn damage_at_relaxed_level() {
    trials(LEVELS[0]);
}

#[test]
fn damage_at_process_level() {
    trials(LEVELS[1]);
}

#[test]
fn damage_at_sync_level() {
    trials(LEVELS[2]);
}

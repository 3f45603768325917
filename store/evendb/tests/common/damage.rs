//! Disks to damage: files of every kind, and their contents.

use super::oracle::{Map, Oracle};
use super::workload::{Runner, Step, What, steps};
use super::{DIR, inspecting, on_sim};
use evendb::inspect::{InspectOptions, VerifyReport, verify};
use evendb::vfs::{CrashMode, SimVfs};
use evendb::{Durability, KeyspaceOptions, Merges, Options};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

pub const LEVEL: Durability = Durability::Process;

/// A disk to damage, and its contents.
pub struct Image {
    pub name: &'static str,
    pub disk: SimVfs,
    pub oracle: Oracle,
    /// Whether the end was clean, so that nothing may be missing.
    pub closed: bool,
    /// The report of verify for the undamaged disk.
    pub sound: VerifyReport,
    /// Every value that a key of a keyspace ever had.
    pub history: BTreeMap<(&'static str, Vec<u8>), BTreeSet<Vec<u8>>>,
}

pub fn path(name: &str) -> PathBuf {
    PathBuf::from(DIR).join(name)
}

/// A disk with files of every kind, after a clean close or after `kill -9`.
pub fn image(closed: bool) -> Image {
    image_of(closed, steps)
}

/// An image like [`image`], with puts instead of merges: from operands whose base is lost a repair
/// makes values that never were, which is not judged yet.
#[allow(dead_code, reason = "every test binary uses its own part")]
pub fn image_without_merges(closed: bool) -> Image {
    image_of(closed, |seed, count| {
        let mut steps = steps(seed, count);
        let writes = steps.iter_mut().filter_map(|step| match step {
            Step::Write(writes, _) => Some(writes),
            _ => None,
        });
        for (_, _, what) in writes.flatten() {
            if let What::Merge(value) = what {
                *what = What::Put(std::mem::take(value));
            }
        }
        steps
    })
}

fn image_of(closed: bool, steps: impl Fn(u64, usize) -> Vec<Step>) -> Image {
    let vfs = SimVfs::new(1);
    let short = |options: Options| options.advanced(|advanced| advanced.value_file_bytes(4096));
    let mut runner = Runner::new(&vfs, LEVEL).tune(short);
    runner.open().expect("opens");
    // One keyspace has separately stored values, so that there are value files beside all others.
    let apart = KeyspaceOptions::new().merge_operator(Merges::Append);
    let apart = apart.values_apart_from(60);
    let large = |key: &str| {
        let value = What::Put(vec![b'v'; 9_000]);
        Step::Write(vec![("default", key.into(), value)], None)
    };
    let mut all = steps(11, 220);
    all.extend([Step::SettleDebt, large("k010")]);
    let writes = |step: &Step| matches!(step, Step::Write(..));
    all.extend(steps(12, 40).into_iter().filter(writes));
    let mut history: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for step in &all {
        runner.step(step).expect("nothing fails");
        if let Step::Create("other") = step {
            let other = runner.db().keyspace("other").expect("it is there");
            other.set_options(&apart).expect("sets");
        }
        let written: Vec<(&str, &[u8])> = match step {
            Step::Write(writes, _) => writes
                .iter()
                .map(|(name, key, _)| (*name, &**key))
                .collect(),
            Step::Ingest(name, records) => records.iter().map(|(key, _)| (*name, &**key)).collect(),
            _ => Vec::new(),
        };
        let there = runner.oracle.names();
        for (name, key) in written {
            let values = history.entry((name, key.to_vec())).or_default();
            // Nothing is written to a keyspace that does not exist.
            if there.iter().any(|there| there == name) {
                values.extend(runner.oracle.map(name).remove(key));
            }
        }
    }
    if closed {
        runner.db.take().expect("open").close().expect("closes");
        runner.oracle.everything_is_durable();
    }
    let disk = vfs.crash(CrashMode::Process);
    runner.abandon();
    Image {
        name: if closed { "closed" } else { "killed" },
        sound: verified(&disk),
        disk,
        oracle: runner.oracle,
        closed,
        history,
    }
}

impl Image {
    /// What each keyspace should hold.
    pub fn expected(&self) -> BTreeMap<String, Map> {
        let names = self.oracle.names().into_iter();
        names
            .map(|name| (name.clone(), self.oracle.map(&name)))
            .collect()
    }
}

pub fn inspect_options(disk: &SimVfs) -> InspectOptions<'static> {
    inspecting(disk)
}

/// The report of verify; it must never fail, whatever the damage.
pub fn verified(disk: &SimVfs) -> VerifyReport {
    verify(DIR, inspect_options(disk)).expect("the directory can be looked at")
}

/// Nothing depends on the contents of these files, nor on their existence
/// (`damage_to_what_holds_nothing` in tests/corruption.rs).
pub const WITHOUT_MEANING: [&str; 2] = ["LOCK", "BALLAST"];

/// The files that are in use, or were until a moment ago: orphans are among them.
pub fn files(image: &Image) -> Vec<String> {
    let mut names = image.disk.file_names(&PathBuf::from(DIR));
    names.retain(|name| !WITHOUT_MEANING.contains(&name.as_str()));
    names
}

/// Offsets at which two versions of a file differ, including those that only one version has.
pub fn changed_bytes(before: &[u8], after: &[u8]) -> Vec<u64> {
    let common = before.len().min(after.len());
    let longer = before.len().max(after.len());
    let differs = |at: &usize| *at >= common || before[*at] != after[*at];
    (0..longer).filter(differs).map(|at| at as u64).collect()
}

/// Bytes that are not amid zeros: zeros would only repeat each other.
pub fn places(bytes: &[u8], stride: usize) -> Vec<usize> {
    let used = bytes
        .iter()
        .rposition(|&byte| byte != 0)
        .map_or(0, |at| at + 1);
    let mut places: Vec<usize> = (0..used).step_by(stride).collect();
    // The first and last bytes of a file are its headers and footers.
    places.extend((0..used.min(40)).step_by(stride.min(5)));
    places.extend((used.saturating_sub(40)..used).step_by(stride.min(5)));
    places.extend(
        [used, bytes.len().saturating_sub(1)]
            .iter()
            .filter(|&&at| at < bytes.len()),
    );
    places.sort_unstable();
    places.dedup();
    places
}

/// Opens a database on a disk with the options of the images.
pub fn open(disk: &SimVfs, dir: &str) -> evendb::Result<evendb::Db> {
    on_sim(disk, LEVEL, 0).open(dir)
}

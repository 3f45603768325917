//! Which job is next: pure functions from the shape of a tree to a [`Job`].
//!
//! The first rule that applies wins. A unit is the number of bytes that a job of level 0 moves: the
//! usual bytes of a run of level 0 times [`Limits::level0_runs`].
//! 1. Level 0 has its greatest number of runs: all of them go to the base level. Puts may wait for
//!    this job.
//! 2. A guard of the last level has more runs than it may have: its newest runs are merged. The
//!    number of them is such that no run is rewritten for much less than its own bytes.
//! 3. A guard above the last level has too many runs: all of them go down, and become one run of
//!    each guard there. If they have few bytes, they are merged in place instead, because they
//!    would become crumbs below.
//! 4. A level has more bytes than it should have: its guard with the most bytes goes down.
//! 5. A level above the base level has tables, because it was the base level once: they go down.
//! 6. Deletes hide half of the oldest run of a guard in the last level: the guard is merged.
//! 7. Seeks have paid for a job, by looks that the job would have spared them. Level 0 goes down
//!    first; then the guard of the first level that has such a guard. A guard of the last level is
//!    merged.
//!
//! **Levels in use.** The last level is always the deepest. Level `i` should have `growth` times
//! fewer bytes than level `i + 1`. The base level is the first level that should have at least
//! `base_units` units. If a level above the base level has data, level 0 goes to that level: newer
//! data must never come to lie below older data.
//!
//! **Damage.** A table that a job could not read stays where it is, and so does what is older in
//! its guard, which is *stuck*. Its newer runs are merged among themselves, and newer data comes to
//! lie above it: the level counts as used. In level 0 older runs than such a run go down first.
//! Then the run itself moves without being read, to a level above all tables if there is
//! one, because it may straddle each guard.
//!
//! **One job at a time** runs in a keyspace. Runs of level 0 may come beside it: they are newer
//! than all that it takes.
//!
//! With one run in a guard (`max_files_per_guard` is 1) the tree is a leveled one: an appended run
//! is merged with the guard's run, until the guard has its share of the level's bytes and goes
//! down.
//!
//! Not here: which tables a job takes ([`super::plan`]), doing the job.

use crate::guards::tree::looks::are_due;
use crate::manifest::{LEVELS, Level};
use crate::options::GuardOptions;

/// The last level.
pub(crate) const LAST: usize = LEVELS - 1;

/// A guard goes down if its bytes are at least its share of the level's bytes divided by this
/// number (for guards that may have several runs). In a merge within a guard, a table that overlaps
/// nothing is moved unchanged if its bytes are at least those of a run of level 0 divided by it.
const CRUMB_PART: u64 = 8;

/// The factor between the levels of a tree with one run in a guard.
const LEVELED_GROWTH: u64 = 4;

/// The oldest run of the last level is rewritten if it has fewer bytes than this many times the
/// bytes of the newer runs.
const OLDEST_TIMES: u64 = 2;

/// A look reads a block, and costs what reading and writing half a block costs. It pays for an
/// eighth of that: this part of a block.
const LOOK_PART: u64 = 16;

/// A tree, and the runs of level 0 above it, as far as decisions need them.
///
/// The bytes of a run are its tables' bytes, plus the average bytes of a put for each delete. A
/// delete is small, but it hides about one put. If it counted only its own bytes, deleted data
/// would stay until the same number of bytes is put.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) level0_runs: usize,
    pub(crate) level0_bytes: u64,
    /// How often seeks looked into the runs of level 0.
    pub(crate) level0_looks: u64,
    /// The oldest run of level 0 could not be read.
    pub(crate) level0_is_stuck: bool,
    /// `levels[i]` is level `i + 1`.
    pub(crate) levels: [Vec<GuardShape>; LEVELS - 1],
}

/// A guard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GuardShape {
    /// Bytes of its runs, newest first; of a stuck guard those that jobs may take.
    pub(crate) runs: Vec<u64>,
    /// It has a table that could not be read.
    pub(crate) is_stuck: bool,
    /// About how many bytes are hidden by deletes outside the oldest of these runs.
    pub(crate) hidden: u64,
    /// How often seeks looked into runs of the guard. A job would have spared them these looks.
    pub(crate) looks: u64,
}

/// Thresholds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The usual bytes of a run of level 0.
    pub(crate) run_bytes: u64,
    /// The number of runs in level 0 at which they are moved down.
    pub(crate) level0_runs: usize,
    /// The number of runs that a guard may have. 0 means 1.
    pub(crate) max_files_per_guard: usize,
    /// Bytes of a job that one look of a seek pays for. With 0, seeks cause no jobs.
    pub(crate) look_bytes: u64,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// All runs of level 0 go to a level with guards, or those older than each run that could not
    /// be read.
    FromLevel0 { to: Level },
    /// The oldest run of level 0, which could not be read, moves to a level with guards as it is.
    Unread { to: Level },
    /// All tables of a guard go to the next level.
    Down { level: Level, guard: usize },
    /// The newest runs of a guard become one.
    Within {
        level: Level,
        guard: usize,
        runs: usize,
    },
}

impl Limits {
    /// The limits for a keyspace with these options. Its runs of level 0 have `run_bytes` bytes as
    /// a rule, and its tables have blocks of `block_bytes` bytes.
    pub(crate) fn of(options: &GuardOptions, run_bytes: u64, block_bytes: usize) -> Limits {
        Limits {
            run_bytes,
            level0_runs: options.level0_runs.0,
            max_files_per_guard: options.max_files_per_guard,
            look_bytes: match options.compaction_by_seeks {
                true => (block_bytes as u64 / LOOK_PART).max(1),
                false => 0,
            },
        }
    }

    fn runs_max(&self) -> usize {
        self.max_files_per_guard.max(1)
    }

    fn is_leveled(&self) -> bool {
        self.runs_max() == 1
    }

    /// A level should have this many times the bytes of the level above it.
    fn growth(&self) -> u64 {
        match self.is_leveled() {
            true => LEVELED_GROWTH,
            false => (self.runs_max() as u64).saturating_add(1),
        }
    }

    /// The base level should have at least this many units (see the module).
    fn base_units(&self) -> u64 {
        match self.is_leveled() {
            true => 1,
            false => 2,
        }
    }

    /// A table with fewer bytes than this is not worth a place of its own in a run.
    pub(crate) fn crumb_bytes(&self) -> u64 {
        self.run_bytes / CRUMB_PART
    }

    fn unit(&self) -> u64 {
        self.run_bytes.saturating_mul(self.level0_runs as u64)
    }
}

impl GuardShape {
    fn bytes(&self) -> u64 {
        sum(self.runs.iter().copied())
    }

    /// The bytes that may go down.
    fn bytes_to_go(&self) -> u64 {
        match self.is_stuck {
            true => 0,
            false => self.bytes(),
        }
    }

    /// The number of its runs above the limit.
    fn excess(&self, limits: &Limits) -> u64 {
        self.runs.len().saturating_sub(limits.runs_max()) as u64
    }
}

impl Shape {
    fn guards(&self, level: usize) -> &[GuardShape] {
        &self.levels[level - 1]
    }

    fn level_bytes(&self, level: usize) -> u64 {
        sum(self.guards(level).iter().map(GuardShape::bytes))
    }

    /// The first level with guards that has tables, or the last level if none has.
    fn first_used(&self) -> usize {
        let used = |level: &usize| {
            self.guards(*level)
                .iter()
                .any(|guard| guard.is_stuck || !guard.runs.is_empty())
        };
        (1..LAST).find(used).unwrap_or(LAST)
    }
}

/// The bytes that each level should have, and the base level.
struct Targets {
    bytes: [u64; LEVELS],
    base: usize,
}

impl Targets {
    fn of(shape: &Shape, limits: &Limits) -> Targets {
        let mut bytes = [0; LEVELS];
        bytes[LAST] = sum((1..LEVELS).map(|level| shape.level_bytes(level)));
        for level in (1..LAST).rev() {
            bytes[level] = bytes[level + 1] / limits.growth();
        }
        let least = limits.unit().saturating_mul(limits.base_units());
        let base = (1..LAST).find(|&level| bytes[level] >= least);
        Targets {
            bytes,
            base: base.unwrap_or(LAST),
        }
    }
}

/// The next job, if there is one.
pub(crate) fn pick(shape: &Shape, limits: &Limits) -> Option<Job> {
    let targets = Targets::of(shape, limits);
    from_level0(shape, limits, &targets)
        .or_else(|| within_last(shape, limits))
        .or_else(|| too_many_runs(shape, limits, &targets))
        .or_else(|| too_many_bytes(shape, &targets))
        .or_else(|| above_base(shape, &targets))
        .or_else(|| mostly_deleted(shape))
        .or_else(|| paid_by_seeks(shape, limits, &targets))
}

fn from_level0(shape: &Shape, limits: &Limits, targets: &Targets) -> Option<Job> {
    let due = shape.level0_runs >= limits.level0_runs.max(1);
    due.then(|| level0_down(shape, targets))
}

/// The job that takes the runs of level 0 down, whether it is due or not.
pub(crate) fn down_from_level0(shape: &Shape, limits: &Limits) -> Job {
    level0_down(shape, &Targets::of(shape, limits))
}

fn level0_down(shape: &Shape, targets: &Targets) -> Job {
    let to = targets.base.min(shape.first_used());
    out_of_level0(level(to), shape.level0_is_stuck)
}

/// The job that takes runs of level 0 to level `to`, above which there are no tables.
pub(crate) fn out_of_level0(to: Level, is_stuck: bool) -> Job {
    match is_stuck {
        true => Job::Unread {
            to: Level((to.0 - 1).max(1)),
        },
        false => Job::FromLevel0 { to },
    }
}

fn within_last(shape: &Shape, limits: &Limits) -> Option<Job> {
    let guard = most(shape.guards(LAST), |guard| guard.excess(limits))?;
    let runs = runs_to_merge(&shape.guards(LAST)[guard].runs, limits.runs_max());
    Some(Job::Within {
        level: level(LAST),
        guard,
        runs,
    })
}

/// How many of a guard's newest runs are merged so that at most `most` runs are left. It is the
/// least number that does this, plus each next older run that has fewer bytes than all newer ones
/// together. The oldest run, below which nothing lies, is joined as soon as the newer runs have
/// half of its bytes: until then, what they overwrite takes room.
fn runs_to_merge(runs: &[u64], most: usize) -> usize {
    let least = (runs.len() + 1).saturating_sub(most).max(2);
    let mut count = least.min(runs.len());
    let mut bytes = sum(runs[..count].iter().copied());
    while let Some(next) = runs.get(count) {
        let is_oldest = count + 1 == runs.len();
        let limit = bytes.saturating_mul(if is_oldest { OLDEST_TIMES } else { 1 });
        if *next >= limit {
            break;
        }
        bytes = bytes.saturating_add(*next);
        count += 1;
    }
    count
}

fn too_many_runs(shape: &Shape, limits: &Limits, targets: &Targets) -> Option<Job> {
    // The deepest level comes first, so that what comes down finds room.
    (1..LAST).rev().find_map(|at| {
        let guards = shape.guards(at);
        let guard = most(guards, |guard| guard.excess(limits))?;
        let share = targets.bytes[at] / guards.len() as u64;
        let enough = match limits.is_leveled() {
            true => share,
            false => share / CRUMB_PART,
        };
        let (level, own) = (level(at), &guards[guard]);
        let runs = match own.is_stuck {
            true => runs_to_merge(&own.runs, limits.runs_max()),
            false => own.runs.len(),
        };
        Some(match !own.is_stuck && own.bytes() >= enough {
            true => Job::Down { level, guard },
            false => Job::Within { level, guard, runs },
        })
    })
}

fn too_many_bytes(shape: &Shape, targets: &Targets) -> Option<Job> {
    let levels = (targets.base..LAST).rev();
    down_from(shape, levels, |at| {
        sum(shape.guards(at).iter().map(GuardShape::bytes_to_go)) > targets.bytes[at]
    })
}

fn above_base(shape: &Shape, targets: &Targets) -> Option<Job> {
    down_from(shape, 1..targets.base, |_| true)
}

fn mostly_deleted(shape: &Shape) -> Option<Job> {
    let guards = shape.guards(LAST);
    let guard = most(guards, |guard| {
        let oldest = guard.runs.last().copied().unwrap_or(0);
        match guard.hidden.saturating_mul(OLDEST_TIMES) >= oldest {
            true => guard.hidden,
            false => 0,
        }
    })?;
    Some(Job::Within {
        level: level(LAST),
        guard,
        runs: guards[guard].runs.len(),
    })
}

fn paid_by_seeks(shape: &Shape, limits: &Limits, targets: &Targets) -> Option<Job> {
    let are_due = |looks, bytes| are_due(looks, bytes, limits.look_bytes);
    let level0_is_due = are_due(shape.level0_looks, shape.level0_bytes);
    if level0_is_due && shape.level0_runs > 0 {
        return Some(level0_down(shape, targets));
    }
    (1..=LAST).find_map(|at| {
        let guards = shape.guards(at);
        let stays = |guard: &GuardShape| at == LAST || guard.is_stuck;
        let guard = most(guards, |guard| {
            let spares = guard.runs.len() > usize::from(stays(guard));
            match spares && are_due(guard.looks, guard.bytes()) {
                true => guard.looks,
                false => 0,
            }
        })?;
        let (level, runs) = (level(at), guards[guard].runs.len());
        Some(match stays(&guards[guard]) {
            true => Job::Within { level, guard, runs },
            false => Job::Down { level, guard },
        })
    })
}

/// The guard with the most bytes, in the first of `levels` that is due.
fn down_from(
    shape: &Shape,
    mut levels: impl Iterator<Item = usize>,
    is_due: impl Fn(usize) -> bool,
) -> Option<Job> {
    levels.find_map(|at| {
        let guard = most(shape.guards(at), GuardShape::bytes_to_go).filter(|_| is_due(at))?;
        let level = level(at);
        Some(Job::Down { level, guard })
    })
}

/// The first guard with the greatest `value`, if it is above 0.
fn most(guards: &[GuardShape], value: impl Fn(&GuardShape) -> u64) -> Option<usize> {
    let values = guards.iter().map(value).zip(0..);
    let (greatest, at) = values.max_by_key(|&(value, at)| (value, std::cmp::Reverse(at)))?;
    (greatest > 0).then_some(at)
}

/// The sum of bytes. Damaged properties of tables must not make it overflow.
fn sum(bytes: impl Iterator<Item = u64>) -> u64 {
    bytes.fold(0, u64::saturating_add)
}

fn level(at: usize) -> Level {
    Level(at as u8)
}

#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
mod tests;

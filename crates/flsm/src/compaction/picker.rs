//! Which job is next: pure functions from the shape of a tree to a [`Job`].
//!
//! Rules, the first that applies wins. `u` is what a job of level 0 moves: as many write buffers as [`Limits::level0_tables`].
//! 1. Level 0 has as many tables as it may: all of them go to the base level. Puts wait for this one.
//! 2. A guard of the last level has more runs than a guard may have: its newest ones are merged, so many that none is
//!    rewritten for much less than its own bytes.
//! 3. A guard above the last level has too many runs: all go down, and become one run of each guard there. If they are few
//!    bytes they are merged instead where they are, because they would become crumbs.
//! 4. A level has more bytes than it should: its guard with the most goes down.
//! 5. A level above the base level has tables, because the base was there once: they go down.
//! 6. Deletes hide half of a guard's oldest run in the last level: the guard is merged.
//! 7. Seeks have paid for a job by their looks into what it would have spared them: level 0, then the guard of the first such
//!    level go down; one of the last level is merged.
//!
//! **Levels in use.** The last level is always the deepest. Level `i` should have `growth` times fewer bytes than level
//! `i + 1`, and the base is the least level that should have at least some times `u`. Data in a level above the base
//! makes that level the target of level 0: what is newer must not come to lie below what is older.
//!
//! **Conflicts.** A guard of which a job has tables is busy, and so is level 0: no other job takes tables there, or newer
//! data could get below older. A job may append to a busy guard. So jobs for different guards run side by side.
//!
//! With one run a guard (`max_files_per_guard` is 1) it is a leveled tree: what is appended is merged with what is there,
//! until the guard has its share of the level's bytes and goes down.
//!
//! Not here: which tables these are ([`super::plan`]), doing it.

use crate::tree::looks::are_due;
use crate::types::{LEVELS, Level};

/// The last level.
pub(super) const LAST: usize = LEVELS - 1;

/// A guard that may have several runs goes down if it has this part of its share of the level's bytes; a table that is in nobody's way
/// stays as it is if it has this part of a write buffer.
const CRUMB_PART: u64 = 8;

/// The levels of a tree with one run a guard differ by this factor.
const LEVELED_GROWTH: u64 = 4;

/// The oldest run of the last level is rewritten when it has not more than so many times the bytes of the newer ones.
const OLDEST_TIMES: u64 = 2;

/// A tree, as far as decisions go.
///
/// Bytes of runs are those of their tables, and for each delete as many as a put has on average: a delete is small, and hides about so
/// much. If it counted as itself, what is deleted would stay until as much is put.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) level0_tables: usize,
    pub(crate) level0_bytes: u64,
    /// How often seeks looked into them.
    pub(crate) level0_looks: u64,
    /// A job has some of them.
    pub(crate) level0_busy: bool,
    /// Of level 1 on: `levels[i]` is level `i + 1`.
    pub(crate) levels: [Vec<GuardShape>; LEVELS - 1],
}

/// A guard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GuardShape {
    /// Bytes of its runs, newest first.
    pub(crate) runs: Vec<u64>,
    /// About how many bytes the deletes hide that are not in its oldest run.
    pub(crate) hidden: u64,
    /// How often seeks looked into runs that a job would have spared them.
    pub(crate) looks: u64,
    /// A job has some of them.
    pub(crate) busy: bool,
}

/// Thresholds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes of a memory table that is flushed.
    pub(crate) write_buffer_bytes: u64,
    /// Tables of level 0 at which they are moved.
    pub(crate) level0_tables: usize,
    /// Runs that a guard may have. As 1 if it is 0.
    pub(crate) max_files_per_guard: usize,
    /// A look of a seek pays for so many bytes of a job. With 0 seeks make no jobs.
    pub(crate) look_bytes: u64,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// All tables of level 0 to a level with guards.
    FromLevel0 { to: Level },
    /// All tables of a guard to the next level.
    Down { level: Level, guard: usize },
    /// The newest runs of a guard become one.
    Within {
        level: Level,
        guard: usize,
        runs: usize,
    },
}

impl Limits {
    fn runs_max(&self) -> usize {
        self.max_files_per_guard.max(1)
    }

    fn is_leveled(&self) -> bool {
        self.runs_max() == 1
    }

    /// A level should have so many times the bytes of the one above.
    fn growth(&self) -> u64 {
        match self.is_leveled() {
            true => LEVELED_GROWTH,
            false => (self.runs_max() as u64).saturating_add(1),
        }
    }

    /// So many times what a job of level 0 moves the base level should have at least.
    fn base_units(&self) -> u64 {
        match self.is_leveled() {
            true => 1,
            false => 2,
        }
    }

    /// A table with fewer bytes is not worth a place of its own in a run.
    pub(super) fn crumb_bytes(&self) -> u64 {
        self.write_buffer_bytes / CRUMB_PART
    }

    fn unit(&self) -> u64 {
        self.write_buffer_bytes
            .saturating_mul(self.level0_tables as u64)
    }
}

impl GuardShape {
    fn bytes(&self) -> u64 {
        self.runs.iter().sum()
    }

    /// How many runs it has that it should not have.
    fn excess(&self, limits: &Limits) -> u64 {
        self.runs.len().saturating_sub(limits.runs_max()) as u64
    }
}

impl Shape {
    fn guards(&self, level: usize) -> &[GuardShape] {
        &self.levels[level - 1]
    }

    fn level_bytes(&self, level: usize) -> u64 {
        self.guards(level).iter().map(GuardShape::bytes).sum()
    }

    /// The first level with guards that has tables; the last one if none has.
    fn first_used(&self) -> usize {
        let used = |level: &usize| {
            self.guards(*level)
                .iter()
                .any(|guard| !guard.runs.is_empty())
        };
        (1..LAST).find(used).unwrap_or(LAST)
    }
}

/// How many bytes each level should have, and which is the base.
struct Targets {
    bytes: [u64; LEVELS],
    base: usize,
}

impl Targets {
    fn of(shape: &Shape, limits: &Limits) -> Targets {
        let mut bytes = [0; LEVELS];
        bytes[LAST] = (1..LEVELS).map(|level| shape.level_bytes(level)).sum();
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
    let due = shape.level0_tables >= limits.level0_tables.max(1) && !shape.level0_busy;
    due.then(|| level0_down(shape, targets))
}

fn level0_down(shape: &Shape, targets: &Targets) -> Job {
    let to = targets.base.min(shape.first_used());
    Job::FromLevel0 { to: level(to) }
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

/// How many of a guard's runs, the newest ones, are merged so that no more than `most` are left. As few as that, and more as
/// long as the next older one has fewer bytes than all newer ones. The oldest, below which there is nothing, is joined
/// when the newer ones have half of its bytes: what they overwrite takes room until then.
fn runs_to_merge(runs: &[u64], most: usize) -> usize {
    let least = (runs.len() + 1).saturating_sub(most).max(2);
    let mut count = least.min(runs.len());
    let mut bytes: u64 = runs[..count].iter().sum();
    while let Some(next) = runs.get(count) {
        let is_oldest = count + 1 == runs.len();
        let limit = bytes.saturating_mul(if is_oldest { OLDEST_TIMES } else { 1 });
        if *next >= limit {
            break;
        }
        bytes += next;
        count += 1;
    }
    count
}

fn too_many_runs(shape: &Shape, limits: &Limits, targets: &Targets) -> Option<Job> {
    // The deepest first, so that what comes down finds room.
    (1..LAST).rev().find_map(|at| {
        let guards = shape.guards(at);
        let guard = most(guards, |guard| guard.excess(limits))?;
        let share = targets.bytes[at] / guards.len() as u64;
        let enough = match limits.is_leveled() {
            true => share,
            false => share / CRUMB_PART,
        };
        let (level, runs) = (level(at), guards[guard].runs.len());
        Some(match guards[guard].bytes() >= enough {
            true => Job::Down { level, guard },
            false => Job::Within { level, guard, runs },
        })
    })
}

fn too_many_bytes(shape: &Shape, targets: &Targets) -> Option<Job> {
    let levels = (targets.base..LAST).rev();
    down_from(shape, levels, |at| {
        shape.level_bytes(at) > targets.bytes[at]
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
    if level0_is_due && shape.level0_tables > 0 && !shape.level0_busy {
        return Some(level0_down(shape, targets));
    }
    (1..=LAST).find_map(|at| {
        let guards = shape.guards(at);
        let is_last = at == LAST;
        let guard = most(guards, |guard| {
            let spares = guard.runs.len() > usize::from(is_last);
            match spares && are_due(guard.looks, guard.bytes()) {
                true => guard.looks,
                false => 0,
            }
        })?;
        let (level, runs) = (level(at), guards[guard].runs.len());
        Some(match is_last {
            true => Job::Within { level, guard, runs },
            false => Job::Down { level, guard },
        })
    })
}

/// The guard with the most bytes of the first of these levels from which some is to go.
fn down_from(
    shape: &Shape,
    mut levels: impl Iterator<Item = usize>,
    is_due: impl Fn(usize) -> bool,
) -> Option<Job> {
    levels.find_map(|at| {
        let guard = most(shape.guards(at), GuardShape::bytes).filter(|_| is_due(at))?;
        let level = level(at);
        Some(Job::Down { level, guard })
    })
}

/// The guard that is not busy and of which `value` is greatest, and not 0.
fn most(guards: &[GuardShape], value: impl Fn(&GuardShape) -> u64) -> Option<usize> {
    let idle = guards.iter().enumerate().filter(|(_, guard)| !guard.busy);
    let values = idle.map(|(at, guard)| (value(guard), at));
    let (greatest, at) = values.max_by_key(|&(value, at)| (value, std::cmp::Reverse(at)))?;
    (greatest > 0).then_some(at)
}

fn level(at: usize) -> Level {
    Level(at as u8)
}

#[cfg(test)]
mod tests;

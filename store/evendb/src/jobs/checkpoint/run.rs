//! The run of one chunk: which deltas it takes, its tables, and the room that they get.
//!
//! ```text
//! frozen deltas -> merge -> table | table | table    each built in RAM, then placed
//! ```
//! Invariants: from [`begin_run`] to the end of the checkpoint no layout change takes effect on the
//! chunk, except beside a run that goes to the log ([`RunStage`]). Each record of the deltas that a
//! reader may need is in one table; what came in and what went out is counted.
//!
//! Thread safety: the thread of the checkpoint has the run; the chunk's latch is held only while
//! deltas are taken. No pin is held across I/O. Not here: the writes themselves (`gather`), which
//! tables join the base (`joining`), and what names and publishes the run (`mod`, `publish`).

use super::Runs;
use super::deltas::delta_sources;
use super::gather::Gatherer;
use super::joining::Joining;
use super::table::{BuiltTable, NewTable, TableShape, build_table};
use crate::chunk::covers::Covers;
use crate::chunk::{Chunk, Frozen, RunStage};
use crate::engine::disk::Disk;
use crate::error::Result;
use crate::funk::Funk;
use crate::guards::tree::choose::{Chooser, GuardRule};
use crate::manifest::GuardKey;
use crate::manifest::edit::{CoverRecord, Role};
use crate::merge::Merge;
use crate::merge::count::Count;
use crate::pace;
use crate::plant::planted;
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, reclaim};
use crate::visibility::Dropping;
use evendb_storage::Version;
use std::cell::RefCell;

/// The smallest table size, in bytes, to which runs are cut on a full disk to fit the container's
/// holes.
const PIECE_BYTES_MIN: u64 = 512;

/// A chunk's part of a checkpoint.
pub(super) struct PendingRun {
    /// The checkpoint.
    pub(super) number: u64,
    pub(super) chunk: Arc<Chunk>,
    /// The frozen deltas that the run holds, newest first.
    pub(super) deltas: Vec<Frozen>,
    pub(super) tables: Vec<NewTable>,
    /// The range deletions that become durable with the run.
    pub(super) covers: Vec<CoverRecord>,
    /// The keys of the run that become guards, in a keyspace of guards.
    pub(super) guards: Vec<GuardKey>,
    /// Whether tables whose keys lie above the base may join it.
    may_join_base: bool,
}

impl PendingRun {
    /// The bytes of its tables.
    pub(super) fn bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.part.meta.len).sum()
    }
}

/// Takes the deltas of a chunk that belong to checkpoint `number`. From here to the end of the
/// checkpoint no layout change takes effect on the chunk.
pub(super) fn begin_run(of: &Runs<'_>, chunk: &Arc<Chunk>) -> Option<PendingRun> {
    let number = of.number;
    let mut writer = chunk.latch.lock();
    if writer.retired || writer.run != RunStage::None {
        return None;
    }
    if writer.active.checkpoint() <= number {
        chunk.freeze(&mut writer, of.next, &of.core.admission);
    }
    let view = chunk.view.load_full();
    chunk.assert_view(&view, "to be flushed");
    let deltas: Vec<Frozen> = view
        .frozen
        .iter()
        .filter(|frozen| !frozen.durable && frozen.delta.checkpoint() <= number)
        .cloned()
        .collect();
    let covers = match &view.covers {
        Some(covers) if covers.durable_to() < number => {
            covers.records(&chunk.range, covers.durable_to(), number)
        }
        _ => Vec::new(),
    };
    if deltas.is_empty() && covers.is_empty() {
        return None;
    }
    let may_join_base = !writer.rebalancing
        && !view.funk.is_guarded()
        && view.funk.base.len() < of.memory.base_tables_max()
        && !deltas.is_empty()
        && reaches_above(&deltas, &view.funk);
    writer.run = match may_join_base {
        true => RunStage::ForBase,
        false => RunStage::ForLog,
    };
    Some(PendingRun {
        number,
        chunk: chunk.clone(),
        deltas,
        tables: Vec::new(),
        covers,
        guards: Vec::new(),
        may_join_base,
    })
}

/// Whether the deltas have a key of their chunk above all keys of the base.
fn reaches_above(deltas: &[Frozen], funk: &Funk) -> bool {
    let Some(last) = funk.base.last() else {
        return true;
    };
    let greatest = &*last.part.meta.max_key;
    let pin = reclaim::pin();
    deltas.iter().any(|frozen| {
        let mut keys = frozen.layer().keys(&pin);
        keys.seek(Some(greatest));
        if keys.key() == Some(greatest) {
            keys.cursor.next();
        }
        keys.key().is_some()
    })
}

/// How far the writing of a chunk's run has come.
struct RunProgress {
    /// The last key that was written.
    last: Option<Vec<u8>>,
    /// The ordinal of the next table in the log.
    ordinal: u32,
    /// About the most bytes of a table. It is smaller where the disk has no room for such a table.
    bytes_max: u64,
    /// Records that came in, and the records of the tables that found room.
    count: Count,
}

impl RunProgress {
    /// The role of a table that found room.
    fn role_of_next(&mut self, joins_base: bool) -> Role {
        if joins_base {
            return Role::Base;
        }
        let ordinal = self.ordinal;
        self.ordinal += 1;
        Role::Run { ordinal }
    }
}

/// Merges a chunk's deltas and writes them as one table, or as several tables if they are too large
/// for one, or if a part of them may join the base.
pub(super) fn write_run(
    of: &Runs<'_>,
    run: &mut PendingRun,
    writer: &mut Gatherer<'_>,
) -> Result<()> {
    let &Runs { core, disk, .. } = of;
    let funk = run.chunk.view.load_full().funk.clone();
    let mut joining = run.may_join_base.then(|| Joining::new(of, &funk));
    let mut progress = RunProgress {
        last: None,
        ordinal: funk.run_end,
        bytes_max: core.options.chunk_bytes_max() * 7 / 10,
        count: Count::default(),
    };
    let rule = of.guard_rule(&funk);
    let chooser = chooser(&funk, rule.as_ref());
    let look = |key: &[u8], value: &[u8]| {
        if let Some(chooser) = &chooser {
            chooser.borrow_mut().look_at(key, value);
        }
    };
    let parts = |key: &[u8], value: &[u8]| {
        let chooser = chooser.as_ref();
        chooser.is_some_and(|chooser| chooser.borrow_mut().parts(key, value))
    };
    let dropping = Dropping {
        horizon: &of.horizon,
        bottom: planted!(core.options, NoTombstonesInRuns),
        zero_below: Version::MAX,
    };
    loop {
        // One table at a time is in RAM. It is built under a pin and written without one, because
        // no pin is held across I/O. The deltas are frozen, so the next table continues after the
        // last key.
        let from = writer.begin()?;
        let looking = Looking {
            joining: joining.as_ref(),
            look: &look,
            parts: &parts,
        };
        let next = next_table(of, run, dropping, looking, &progress, writer.buffer())?;
        let Some(built) = next.built else {
            progress.count = next.counted;
            break;
        };
        let Some(offset) = room_for(disk, built.meta.len, &mut progress)? else {
            writer.buffer().truncate(from);
            continue;
        };
        // A table counts only now: one that found no room is built again, smaller.
        progress.count = next.counted;
        progress.last = Some(built.meta.max_key.clone());
        let joins = joining
            .as_mut()
            .is_some_and(|joining| joining.takes(&built.meta, &built.keys));
        let role = progress.role_of_next(joins);
        add_table(of, run, built, offset, role);
        writer.place(from, offset);
        if next.is_last {
            break;
        }
    }
    if let Some(chooser) = chooser {
        run.guards = chooser.into_inner().finish();
    }
    // The caller latches this error.
    progress
        .count
        .check(|| run_and_file(disk, &run.chunk, of.number))
}

/// An extent for a table of `len` bytes. `None` if there is no room for it: the next table is
/// smaller, because free room may be in small pieces.
fn room_for(disk: &Disk, len: u64, progress: &mut RunProgress) -> Result<Option<u64>> {
    match disk.container.allocate(len) {
        Err(error)
            if error.kind() == evendb_storage::ErrorKind::NoSpace
                && progress.bytes_max > PIECE_BYTES_MIN =>
        {
            progress.bytes_max = progress.bytes_max.min(len) / 2;
            Ok(None)
        }
        allocated => Ok(Some(allocated?)),
    }
}

/// Adds a table that has its room to the run.
fn add_table(of: &Runs<'_>, run: &mut PendingRun, built: BuiltTable, offset: u64, role: Role) {
    let len = built.meta.len;
    of.core.metrics.bytes_log.add(len);
    if role != Role::Base {
        let logged = &run.chunk.heat.logged;
        logged.fetch_add(len, Ordering::Relaxed);
    }
    run.tables
        .push(built.placed(of.disk, offset, role, of.number));
}

/// Names a run, for an error.
fn run_and_file(disk: &Disk, chunk: &Chunk, number: u64) -> String {
    let (chunk, file) = (chunk.id.0, disk.container.file());
    let file = file.path().display();
    format!("a run of checkpoint {number} of chunk {chunk} ({file}) lost or made records")
}

/// What looks at the records of a run on their way into its tables.
#[derive(Clone, Copy)]
struct Looking<'a> {
    joining: Option<&'a Joining<'a>>,
    /// Told of the newest record of each key; and asked whether a table ends before it.
    look: &'a dyn Fn(&[u8], &[u8]),
    parts: &'a dyn Fn(&[u8], &[u8]) -> bool,
}

/// What looks for guards, in a keyspace of guards.
fn chooser<'t>(funk: &'t Funk, rule: Option<&'t GuardRule>) -> Option<RefCell<Chooser<'t>>> {
    let chooser = Chooser::new(funk.tree.as_ref()?, rule?);
    Some(RefCell::new(chooser))
}

/// A table of a run, with the count of its records.
struct NextTable {
    /// `None` if nothing is to be written.
    built: Option<BuiltTable>,
    counted: Count,
    /// No table follows it.
    is_last: bool,
}

/// Appends the next table of a run to `buffer`. Records that may join the base get a table of their
/// own.
fn next_table(
    of: &Runs<'_>,
    run: &PendingRun,
    dropping: Dropping<'_>,
    looking: Looking<'_>,
    progress: &RunProgress,
    buffer: &mut Vec<u8>,
) -> Result<NextTable> {
    let &Runs { core, disk, .. } = of;
    let mut yielder = pace::yielder(&core.admission);
    let pin = reclaim::pin();
    let after = progress.last.as_deref();
    let sources = delta_sources(&run.deltas, after, &pin, &mut yielder);
    // The range deletions of this checkpoint are named by the same edit.
    let view = run.chunk.view.load_full();
    let covering = Covers::covering(view.covers.as_ref(), of.number);
    let operator = core.choices.operator(run.chunk.keyspace);
    let mut merge = Merge::folding(sources, dropping, covering, operator)?.yielding_by(yielder);
    let mut count = progress.count.clone();
    count.begin(&merge);
    let Some(entry) = merge.current() else {
        count.add(&merge, std::iter::empty());
        return Ok(NextTable {
            built: None,
            counted: count,
            is_last: true,
        });
    };
    let first = entry.key.to_vec();
    let Looking {
        joining,
        look,
        parts,
    } = looking;
    let ends = |key: &[u8], value: &[u8]| match joining {
        Some(joining) => joining.parts(&first, key),
        None => parts(key, value),
    };
    let records = run.deltas.iter().map(|frozen| frozen.delta.len() as u64);
    let bytes = run
        .deltas
        .iter()
        .map(|frozen| frozen.delta.data_bytes() as u64);
    let shape = TableShape {
        bytes_max: progress.bytes_max,
        ends: &ends,
        run: joining.is_none().then(|| (records.sum(), bytes.sum())),
        look,
    };
    let table = build_table(core, disk, run.chunk.keyspace, &mut merge, buffer, &shape)?;
    count.add(&merge, std::iter::once(&table.meta));
    Ok(NextTable {
        built: Some(table),
        counted: count,
        is_last: merge.current().is_none(),
    })
}

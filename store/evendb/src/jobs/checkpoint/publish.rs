//! Steps 6 and 7 of a checkpoint: what a completed run changes in its chunk.
//!
//! Invariants: cached rows and the log's index take the run's keys before the view has the run, so
//! that no reader finds an older value in them once the deltas have left the view. The new view has
//! the run in its funk; a delta that the munk does not have yet stays, marked as durable.
//!
//! Thread safety: the thread of the checkpoint, while the run is marked as named: nobody else
//! changes the chunk's funk. The view changes under the chunk's latch. Not here: the edit that
//! names the runs.

use super::run::PendingRun;
use crate::chunk::{Frozen, RunStage, View};
use crate::engine::JobContext;
use crate::engine::core::Core;
use crate::engine::disk::Disk;
use crate::funk::{Funk, Run};
use crate::manifest::edit::Role;
use crate::memory_policy::MemoryPolicy;
use crate::plant::planted;
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, reclaim};
use evendb_storage::key_hash::RamHash;

/// Steps 6 and 7 for one chunk.
pub(super) fn publish_run(context: &JobContext<'_>, run: PendingRun) {
    let &JobContext {
        core,
        disk,
        flow,
        memory,
        work,
        ..
    } = context;
    let chunk = &run.chunk;
    let funk = chunk.view.load_full().funk.clone();
    let new_funk = Arc::new(extended_funk(core, disk, &funk, &run));
    if !(planted!(core.options, NoRowsWithMunk) && chunk.view.load_full().munk.is_some()) {
        let oldest_last = planted!(core.options, OlderRowStays);
        update_rows(memory, &run, oldest_last);
    }
    for frozen in &run.deltas {
        frozen.delta.note_durable();
    }
    let mut writer = chunk.latch.lock();
    let mut view: View = (*chunk.view.load_full()).clone();
    debug_assert!(Arc::ptr_eq(&view.funk, &funk), "a run was under way");
    view.funk = new_funk;
    if let Some(covers) = &view.covers {
        let durable = covers.durable_from(run.number, &core.clock.horizon(), core.ledger());
        view.covers = Some(Arc::new(durable));
    }
    let kept_for_load = writer.loading && !planted!(core.options, NotKeptForLoad);
    let for_munk = view.munk_holds_any() || kept_for_load;
    let flushed = |frozen: &Frozen| {
        run.deltas
            .iter()
            .any(|delta| Arc::ptr_eq(&delta.delta, &frozen.delta))
    };
    if for_munk {
        for frozen in &mut view.frozen {
            frozen.durable |= flushed(frozen);
        }
    } else {
        view.frozen.retain(|frozen| !flushed(frozen));
    }
    let absorbs = view.munk_holds_any();
    chunk.publish(view);
    writer.run = RunStage::None;
    drop(writer);
    flow.clear_run();
    let mut parts = run.tables.iter().map(|table| &table.part);
    if let Some(joined) = parts.find(|part| part.role == Role::Base) {
        chunk.joined_at.store(joined.checkpoint, Ordering::Relaxed);
    }
    let view = chunk.view.load_full();
    let limits = memory.log_runs(chunk, &view);
    if !view.funk.is_guarded() && view.funk.has_sorted_runs(limits.merged_from) {
        work.push_merge(chunk, false);
    }
    match absorbs {
        true => work.push_absorb(chunk),
        false => work.push_maintenance(chunk),
    }
}

fn extended_funk(core: &Core, disk: &Disk, funk: &Funk, run: &PendingRun) -> Funk {
    let PendingRun { tables, guards, .. } = run;
    let mut base = funk.base.clone();
    let mut runs = funk.runs.clone();
    let mut run_end = funk.run_end;
    let mut search = funk.extensible_search(&core.search_settings);
    let mut shared = funk.search_shared;
    for table in tables {
        let handle = disk.tables.acquire(&table.part);
        match table.part.role {
            // A checkpoint writes no table of a guard.
            Role::Base | Role::Fragment { .. } => base.push(handle),
            Role::Run { ordinal } => {
                runs.push(Run {
                    ordinal,
                    table: handle,
                });
                run_end = ordinal + 1;
                search = search.map(|search| {
                    let len = table.part.meta.len;
                    Arc::new(search.with_run(ordinal, len, &table.keys, shared))
                });
                shared = false;
            }
        }
    }
    let new_funk = match &funk.tree {
        Some(tree) if guards.is_empty() => Funk::guarded(tree.clone(), runs, run_end),
        Some(tree) => {
            let tree = tree.with_guards(guards).expect("keys that are not empty");
            Funk::guarded(Arc::new(tree), runs, run_end)
        }
        None => Funk::new(base, runs, run_end),
    };
    // While there is no run, a kept index would only cost memory.
    if let Some(search) = search
        && !new_funk.runs.is_empty()
    {
        new_funk.search.set(search);
    }
    Funk {
        search_shared: shared && new_funk.search.is_set(),
        ..new_funk
    }
}

/// Gives cached rows of the run's keys their new value, or removes them. (`oldest_last` is a
/// planted fault.)
fn update_rows(memory: &MemoryPolicy, run: &PendingRun, oldest_last: bool) {
    if !memory.has_rows() {
        return;
    }
    // A range deletion that comes meanwhile leaves no row of these keys: while a delta has these
    // keys, no row is filled.
    let Some(tag) = run.chunk.view.load_full().row_tag.number() else {
        return;
    };
    let pin = reclaim::pin();
    // Oldest delta first, so that the newest delta's value stays. Until then no reader gets an
    // older delta's value: while the deltas are in the view, the newest of them answers.
    let mut deltas: Vec<&Frozen> = run.deltas.iter().rev().collect();
    if oldest_last {
        deltas.reverse();
    }
    for frozen in deltas {
        // A delta that a split shared holds keys of other chunks too, for which it may no longer
        // be the newest: they do not count here.
        let mut keys = frozen.layer().keys(&pin);
        keys.seek(None);
        while let Some(key) = keys.key() {
            if let Some(record) = keys.cursor.versions().next() {
                // An expired value stays expired: the get that finds the row looks at the time. The
                // row of a merged key is removed, since it has the value from before the merge.
                let value = record
                    .kind()
                    .is_put()
                    .then(|| (record.kind(), record.value()));
                memory.note_newest(tag, key, RamHash::of(key), value);
            }
            keys.cursor.next();
        }
    }
}

//! Warm reopening: the spans that were in RAM are loaded again in the background.
//!
//! ```text
//! close, and each SAVE_INTERVAL with calls:   spans in RAM --> HEAT.tmp --> HEAT   never synced
//! after opening:                               HEAT --> tiers --> loads, while there is room
//! ```
//! * It is a hint. After a crash the file may be old or broken: then spans are loaded that are no
//!   longer hot, or none. A failure with the file is never an error of a call.
//! * It gives way. It takes only free memory, evicts nothing, and stops while puts wait for
//!   reorganisation. It does not rest while gets come: nothing else makes these faster.
//! * While it loads, other spans come in only if they are read several times: otherwise spans that
//!   are read once would take the room of hot ones.
//!
//! Thread safety: threads `evendb-heat` load and write; the close writes once they have ended. Not
//! here: the file's bytes and the order ([`crate::cache::warmth`]).

use crate::cache::warmth::{self, HotSpan};
use crate::catalog::Catalog;
use crate::chunk::Chunk;
use crate::engine::Engine;
use crate::engine::caches::{Caches, Warming};
use crate::engine::staff::HEAT_THREADS;
use crate::files::{HEAT, HEAT_UNFINISHED};
use crate::munk::{Munk, span_bytes};
use crate::pace;
use crate::rebalance::spans::{load_spans, take_free_room};
use crate::sync::Arc;
use crate::sync::atomic::Ordering;
use crate::trace;
use evendb_storage::sealing::{open_pieces, seal_pieces};
use evendb_storage::vfs::read_exact_at;
use std::time::{Duration, Instant};

/// The number of spans of one load: about a megabyte.
const SPANS_MAX: usize = 16;
/// The time between two writings of the file.
const SAVE_INTERVAL: Duration = Duration::from_secs(60);
/// The file's name for the cipher, in an encrypted database.
const SEALED_KIND: &str = "heat";
/// A rest while another thread reads the file, or puts wait.
const REST: Duration = Duration::from_millis(50);

/// The number of threads that have something to do. `is_active`: calls come.
pub(crate) fn threads_due(engine: &Engine, is_active: bool) -> usize {
    if !is_on(engine) {
        return 0;
    }
    match &*engine.caches.warming.lock() {
        Warming::Untried | Warming::Loading { .. } => HEAT_THREADS,
        Warming::Reading => 0,
        Warming::Done { saved } => usize::from(is_active && saved.elapsed() >= SAVE_INTERVAL),
    }
}

fn is_on(engine: &Engine) -> bool {
    let advanced = &engine.core.options.advanced;
    advanced.warm_reopening && advanced.munks && !engine.core.manual()
}

/// One turn of a thread. Returns how long the thread should rest then, or `None` if it may end.
pub(crate) fn turn(engine: &Engine) -> Option<Duration> {
    let is_first = {
        let mut warming = engine.caches.warming.lock();
        let is_first = matches!(*warming, Warming::Untried);
        if is_first {
            *warming = Warming::Reading;
        }
        is_first
    };
    if is_first {
        begin(engine);
    }
    if let Some((chunk, spans)) = next_group(engine) {
        return Some(load(engine, &chunk, &spans));
    }
    let due = match &*engine.caches.warming.lock() {
        Warming::Reading => return Some(REST),
        Warming::Done { saved } => saved.elapsed() >= SAVE_INTERVAL,
        Warming::Untried | Warming::Loading { .. } => false,
    };
    if due {
        save(engine);
    }
    None
}

/// Reads the list of the last life.
fn begin(engine: &Engine) {
    let spans = read(engine).unwrap_or_default();
    let plan = warmth::in_tiers(spans);
    engine.caches.spans.set_warming(!plan.is_empty());
    trace::event!(DEBUG, "spans of the last life", spans = plan.len());
    *engine.caches.warming.lock() = Warming::Loading { plan };
}

fn read(engine: &Engine) -> Option<Vec<HotSpan>> {
    let path = engine.disk.dir.join(HEAT);
    let file = engine.disk.vfs.open(&path, false).ok()?;
    let len = usize::try_from(file.len().ok()?).ok()?;
    let memory_max = memory_max(engine);
    if len > memory_max + (memory_max >> 8) {
        return None;
    }
    let mut bytes = vec![0; len];
    read_exact_at(&*file, &mut bytes, 0).ok()?;
    if let Some(secrets) = file.secrets() {
        bytes = open_pieces(secrets, SEALED_KIND, 0, &bytes)?;
    }
    warmth::decode(&bytes, memory_max)
}

fn memory_max(engine: &Engine) -> usize {
    warmth::memory_max(engine.core.options.memory_budget)
}

/// Takes the next spans of one chunk from the plan. When none is left, loading is over.
fn next_group(engine: &Engine) -> Option<(Arc<Chunk>, Vec<HotSpan>)> {
    let mut warming = engine.caches.warming.lock();
    let Warming::Loading { plan } = &mut *warming else {
        return None;
    };
    while let Some(first) = plan.pop() {
        // A keyspace that was dropped has no chunk.
        let Some(chunk) = chunk_of(&engine.catalog, &first) else {
            continue;
        };
        let mut spans = vec![first];
        while spans.len() < SPANS_MAX
            && plan.last().is_some_and(|next| {
                next.keyspace == chunk.keyspace && chunk.range.contains(&next.low)
            })
        {
            spans.extend(plan.pop());
        }
        return Some((chunk, spans));
    }
    *warming = Warming::Done {
        saved: Instant::now(),
    };
    engine.caches.spans.set_warming(false);
    None
}

fn chunk_of(catalog: &Catalog, span: &HotSpan) -> Option<Arc<Chunk>> {
    let keyspaces = catalog.keyspaces();
    let keyspace = keyspaces.iter().find(|one| one.id == span.keyspace)?;
    Some(keyspace.index.load_full().find(&span.low).clone())
}

/// Loads spans of a chunk, and returns how long to rest then.
fn load(engine: &Engine, chunk: &Arc<Chunk>, spans: &[HotSpan]) -> Duration {
    let core = &engine.core;
    if pace::is_behind(core) {
        let mut warming = engine.caches.warming.lock();
        if let Warming::Loading { plan } = &mut *warming {
            plan.extend(spans.iter().rev().cloned());
        }
        return REST;
    }
    // Another job has the chunk: it is tried again after all others.
    let Some(_token) = chunk.try_token() else {
        let mut warming = engine.caches.warming.lock();
        if let Warming::Loading { plan } = &mut *warming {
            plan.splice(0..0, spans.iter().rev().cloned());
        }
        return REST;
    };
    if chunk.damaged.load(Ordering::Relaxed) {
        return Duration::ZERO;
    }
    let tick = engine.caches.spans.tick();
    let bytes = spans.len() as u64 * span_bytes(core.options.chunk_bytes_max()) as u64;
    if !take_free_room(core, &engine.log, &engine.caches, bytes) {
        engine.caches.give_up_warming();
        return Duration::ZERO;
    }
    let choose = |munk: &Munk| {
        let mut chosen = Vec::with_capacity(spans.len());
        for span in spans {
            munk.heat_of(&span.low).touch(span.heat, None, tick);
            chosen.push(munk.span_from(Some(&span.low)));
        }
        // A group with the end of one tier and the beginning of the next is not in order.
        chosen.retain(|&index| !munk.has_span(index));
        core.metrics.spans_warmed.add(chosen.len() as u64);
        chosen
    };
    // A failure has marked the chunk.
    let _ = load_spans(core, chunk, &choose);
    Duration::ZERO
}

/// Writes which spans are in RAM. It does not write while spans of the last life are still being
/// loaded, or if no span is in RAM: the old file is better then.
pub(crate) fn save(engine: &Engine) {
    let is_done = matches!(*engine.caches.warming.lock(), Warming::Done { .. });
    if !is_on(engine) || !is_done || engine.disk.manifest.is_none() {
        return;
    }
    if engine.core.health.failure().is_none() && !engine.disk.full_disk.is_owed() {
        let spans = hot_spans(&engine.catalog, &engine.caches);
        let bytes = warmth::encode(&spans, memory_max(engine));
        if !spans.is_empty() && write(engine, &bytes).is_err() {
            let unfinished = engine.disk.dir.join(HEAT_UNFINISHED);
            let _ = engine.disk.vfs.remove(&unfinished);
        }
    }
    *engine.caches.warming.lock() = Warming::Done {
        saved: Instant::now(),
    };
}

fn write(engine: &Engine, bytes: &[u8]) -> std::io::Result<()> {
    let (vfs, dir) = (&engine.disk.vfs, &engine.disk.dir);
    let unfinished = dir.join(HEAT_UNFINISHED);
    // A file that an earlier attempt left.
    let _ = vfs.remove(&unfinished);
    let file = vfs.create(&unfinished)?;
    match file.secrets() {
        None => file.write_at(bytes, 0)?,
        Some(secrets) => file.write_at(&seal_pieces(secrets, SEALED_KIND, 0, bytes), 0)?,
    }
    vfs.rename(&unfinished, &dir.join(HEAT))
}

/// The spans in RAM, by keyspace and key.
fn hot_spans(catalog: &Catalog, caches: &Caches) -> Vec<HotSpan> {
    let tick = caches.spans.tick();
    let mut keyspaces = catalog.keyspaces();
    keyspaces.sort_by_key(|keyspace| keyspace.id);
    let mut spans = Vec::new();
    for keyspace in keyspaces {
        let index = keyspace.index.load_full();
        for (_, chunk) in index.iter() {
            let Some(munk) = chunk.view.load_full().munk.clone() else {
                continue;
            };
            spans.extend(munk.present(tick).map(|(low, worth)| HotSpan {
                keyspace: keyspace.id,
                low: low.into(),
                heat: worth.heat,
            }));
        }
    }
    spans
}

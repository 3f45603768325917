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
//! here: the progress of loading, and the file's bytes ([`crate::memory_policy::warming`]).

use crate::chunk::Chunk;
use crate::engine::Engine;
use crate::engine::staff::HEAT_THREADS;
use crate::files::{HEAT, HEAT_UNFINISHED};
use crate::memory_policy::warming::WarmWork;
use crate::memory_policy::warming::heat_file::{self, HotSpan};
use crate::munk::{Munk, span_bytes};
use crate::rebalance::spans::load_spans;
use crate::sync::Arc;
use crate::sync::atomic::Ordering;
use crate::trace;
use evendb_storage::sealing::{open_pieces, seal_pieces};
use evendb_storage::vfs::read_exact_at;
use std::time::Duration;

/// The file's name for the cipher, in an encrypted database.
const SEALED_KIND: &str = "heat";
/// A rest while another thread reads the file, or puts wait.
const REST: Duration = Duration::from_millis(50);

/// The number of threads that have something to do. `is_active`: calls come.
pub(crate) fn threads_due(engine: &Engine, is_active: bool) -> usize {
    if !is_on(engine) {
        return 0;
    }
    match engine.memory.warm_work() {
        WarmWork::Load => HEAT_THREADS,
        WarmWork::Save => usize::from(is_active),
        WarmWork::Wait | WarmWork::Nothing => 0,
    }
}

fn is_on(engine: &Engine) -> bool {
    let advanced = &engine.core.options.advanced;
    advanced.warm_reopening && advanced.munks && !engine.core.manual()
}

/// One turn of a thread. Returns how long the thread should rest then, or `None` if it may end.
pub(crate) fn turn(engine: &Engine) -> Option<Duration> {
    let memory = &engine.memory;
    if memory.begin_warming() {
        let spans = read(engine).unwrap_or_default();
        trace::event!(DEBUG, "spans of the last life", spans = spans.len());
        memory.warm_from(spans);
    }
    if let Some((chunk, spans)) = memory.next_to_warm(&engine.catalog) {
        return Some(load(engine, &chunk, &spans));
    }
    match memory.warm_work() {
        WarmWork::Wait => return Some(REST),
        WarmWork::Save => save(engine),
        WarmWork::Load | WarmWork::Nothing => {}
    }
    None
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
    heat_file::decode(&bytes, memory_max)
}

fn memory_max(engine: &Engine) -> usize {
    heat_file::memory_max(engine.core.options.memory_budget)
}

/// Loads spans of a chunk, and returns how long to rest then.
fn load(engine: &Engine, chunk: &Arc<Chunk>, spans: &[HotSpan]) -> Duration {
    let (core, memory) = (&engine.core, &engine.memory);
    if core.admission.is_behind() {
        memory.warm_next(spans);
        return REST;
    }
    // Another job has the chunk: it is tried again after all others.
    let Some(_token) = chunk.try_token() else {
        memory.warm_last(spans);
        return REST;
    };
    if chunk.damaged.load(Ordering::Relaxed) {
        return Duration::ZERO;
    }
    let tick = memory.tick();
    let bytes = spans.len() as u64 * span_bytes(core.options.chunk_bytes_max()) as u64;
    if !memory.take_free_room(bytes) {
        memory.give_up_warming();
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
    let memory = &engine.memory;
    if !is_on(engine) || !memory.has_warmed() || engine.disk.manifest.is_none() {
        return;
    }
    if engine.core.health.failure().is_none() && !engine.disk.full_disk.is_owed() {
        let spans = memory.hot_spans(&engine.catalog);
        let bytes = heat_file::encode(&spans, memory_max(engine));
        if !spans.is_empty() && write(engine, &bytes).is_err() {
            let unfinished = engine.disk.dir.join(HEAT_UNFINISHED);
            let _ = engine.disk.vfs.remove(&unfinished);
        }
    }
    memory.note_saved();
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

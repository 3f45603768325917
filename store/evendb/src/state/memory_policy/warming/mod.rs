//! Warm reopening, as far as it has come: which spans of the last life are still to be loaded.
//!
//! ```text
//! Untried --begin_warming--> Reading --warm_from--> Loading --the plan is empty, or no room--> Done
//! ```
//!
//! Thread safety: any thread; the mutex is a leaf. Not here: the threads that read, load and write
//! ([`crate::rebalance::warm`]); the bytes of `HEAT` ([`heat_file`]).

pub(crate) mod heat_file;

use super::MemoryPolicy;
use crate::catalog::Catalog;
use crate::chunk::Chunk;
use crate::sync::Arc;
use heat_file::HotSpan;
use std::time::{Duration, Instant};

/// The number of spans of one load: about a megabyte.
const SPANS_MAX: usize = 16;
/// The time between two writings of the file.
const SAVE_INTERVAL: Duration = Duration::from_secs(60);

/// The progress of warm reopening.
pub(super) enum Warming {
    /// No thread has looked for the spans of the last life.
    Untried,
    /// One thread reads the list of the last life's spans.
    Reading,
    /// Spans that are still to be loaded; the next one is the last in the list.
    Loading { plan: Vec<HotSpan> },
    /// Nothing is left to load. `saved` is the time of the last look at the file, or of its last
    /// write.
    Done { saved: Instant },
}

/// What is to be done for warm reopening.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WarmWork {
    /// Spans of the last life have to be loaded.
    Load,
    /// Another thread reads the list of these spans.
    Wait,
    /// The list of the spans that are in RAM should be written.
    Save,
    Nothing,
}

impl MemoryPolicy {
    /// What is to be done for warm reopening.
    pub(crate) fn warm_work(&self) -> WarmWork {
        match &*self.warming.lock() {
            Warming::Untried | Warming::Loading { .. } => WarmWork::Load,
            Warming::Reading => WarmWork::Wait,
            Warming::Done { saved } if saved.elapsed() >= SAVE_INTERVAL => WarmWork::Save,
            Warming::Done { .. } => WarmWork::Nothing,
        }
    }

    /// Returns true to the first caller, which has to read the list of the last life's spans.
    pub(crate) fn begin_warming(&self) -> bool {
        let mut warming = self.warming.lock();
        let is_first = matches!(*warming, Warming::Untried);
        if is_first {
            *warming = Warming::Reading;
        }
        is_first
    }

    /// Notes the spans of the last life. While they are loaded, other spans come in only if they
    /// are read several times.
    pub(crate) fn warm_from(&self, spans: Vec<HotSpan>) {
        let plan = heat_file::in_tiers(spans);
        self.spans.set_warming(!plan.is_empty());
        *self.warming.lock() = Warming::Loading { plan };
    }

    /// Takes the next spans of one chunk from the plan. When none is left, loading is over.
    pub(crate) fn next_to_warm(&self, catalog: &Catalog) -> Option<(Arc<Chunk>, Vec<HotSpan>)> {
        let mut warming = self.warming.lock();
        let Warming::Loading { plan } = &mut *warming else {
            return None;
        };
        while let Some(first) = plan.pop() {
            // A keyspace that was dropped has no chunk.
            let Some(chunk) = chunk_of(catalog, &first) else {
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
        self.spans.set_warming(false);
        None
    }

    /// Takes spans back that were not loaded: they are the next ones again.
    pub(crate) fn warm_next(&self, spans: &[HotSpan]) {
        if let Warming::Loading { plan } = &mut *self.warming.lock() {
            plan.extend(spans.iter().rev().cloned());
        }
    }

    /// Takes spans back that were not loaded: they come after all others.
    pub(crate) fn warm_last(&self, spans: &[HotSpan]) {
        if let Warming::Loading { plan } = &mut *self.warming.lock() {
            plan.splice(0..0, spans.iter().rev().cloned());
        }
    }

    /// Ends the loading of spans of the last life.
    pub(crate) fn give_up_warming(&self) {
        self.note_saved();
        self.spans.set_warming(false);
    }

    /// Whether no span of the last life is to be loaded any more.
    pub(crate) fn has_warmed(&self) -> bool {
        matches!(*self.warming.lock(), Warming::Done { .. })
    }

    /// Notes that the list of the spans in RAM was written, or need not be.
    pub(crate) fn note_saved(&self) {
        *self.warming.lock() = Warming::Done {
            saved: Instant::now(),
        };
    }

    /// The number of spans of the last life that are still to be loaded.
    pub(crate) fn spans_to_warm(&self) -> u64 {
        match &*self.warming.lock() {
            Warming::Loading { plan } => plan.len() as u64,
            Warming::Untried | Warming::Reading | Warming::Done { .. } => 0,
        }
    }

    /// The spans in RAM, by keyspace and key.
    pub(crate) fn hot_spans(&self, catalog: &Catalog) -> Vec<HotSpan> {
        let tick = self.spans.tick();
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
}

fn chunk_of(catalog: &Catalog, span: &HotSpan) -> Option<Arc<Chunk>> {
    let keyspaces = catalog.keyspaces();
    let keyspace = keyspaces.iter().find(|one| one.id == span.keyspace)?;
    Some(keyspace.index.load_full().find(&span.low).clone())
}

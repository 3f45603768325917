//! Munks: loading, absorbing, evicting, and the round that decides which chunks have one.
//!
//! * Load: `loading` is set under the latch, so that deltas which become durable meanwhile are
//!   kept (else the munk, built of an older view, would miss them).
//! * Absorb (the paper's munk rebalance): the durable deltas are merged into copied pages; new munk
//!   in, those deltas out, one view. Neither puts nor gets wait.
//! * Evict: the munk and the deltas kept for it leave; both are in the funk, so no I/O is needed.

use super::breath::Breath;
use super::merge::{Dropping, Merge, RamMerge};
use super::rewrite::funk_sources;
use crate::cache::policy::{MunkPlan, plan_munks};
use crate::cache::row::RowCache;
use crate::cache::split::ChunkSight;
use crate::checkpoint::delta_sources;
use crate::chunk::{Chunk, Frozen, View};
use crate::engine::Engine;
use crate::error::Result;
use crate::keyspace::KeyspaceState;
use crate::munk::{MunkBuilder, PAGE_BYTES};
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, epoch};
use crate::trace;
use crate::write::commit_log::Writing;
use std::collections::HashMap;

impl Engine {
    /// Builds the chunk's munk from its funk. The caller holds the token.
    pub(crate) fn load_munk(&self, chunk: &Arc<Chunk>) -> Result<()> {
        let view = {
            let mut writer = chunk.latch.lock();
            let view = chunk.view.load_full();
            if writer.retired || view.munk.is_some() {
                return Ok(());
            }
            writer.loading = true;
            view
        };
        let job = trace::job!("load", chunk = chunk.id.0);
        let built = self.build_munk(chunk, &view);
        let mut writer = chunk.latch.lock();
        writer.loading = false;
        let mut new_view: View = (*chunk.view.load_full()).clone();
        match built {
            Ok(munk) => {
                let bytes = munk.bytes();
                new_view.munk = Some(Arc::new(munk));
                chunk.publish(new_view);
                drop(writer);
                trace::event!(
                    DEBUG,
                    "munk loaded",
                    chunk = chunk.id.0,
                    bytes = bytes,
                    duration_micros = job.micros()
                );
                self.metrics.munk_loads.add(1);
                Ok(())
            }
            Err(error) => {
                new_view.frozen.retain(|frozen| !frozen.durable);
                chunk.publish(new_view);
                drop(writer);
                self.note_damage(chunk);
                Err(error)
            }
        }
    }

    fn build_munk(&self, chunk: &Chunk, view: &View) -> Result<crate::munk::Munk> {
        let horizon = self.clock.horizon();
        let dropping = Dropping {
            horizon: &horizon,
            bottom: true,
        };
        let mut merge = Merge::new(funk_sources(chunk, view)?, dropping)?;
        let mut builder = MunkBuilder::new(PAGE_BYTES);
        let mut breath = Breath::new(self);
        while let Some(entry) = merge.current() {
            builder.add(entry);
            merge.advance()?;
            breath.take_sometimes(self, self.reorganisation_rest());
        }
        Ok(builder.finish())
    }

    /// Merges the durable deltas into the munk. The caller holds the token. Whether there were any.
    pub(crate) fn absorb(&self, chunk: &Arc<Chunk>) -> bool {
        let view = chunk.view.load_full();
        let Some(munk) = &view.munk else { return false };
        let deltas: Vec<Frozen> = view
            .frozen
            .iter()
            .filter(|frozen| frozen.durable)
            .cloned()
            .collect();
        if deltas.is_empty() {
            return false;
        }
        let job = trace::job!("absorb", chunk = chunk.id.0);
        let horizon = self.clock.horizon();
        let absorbed = {
            let pin = epoch::pin();
            let sources = delta_sources(&deltas, chunk, &pin);
            let dropping = Dropping {
                horizon: &horizon,
                bottom: false,
            };
            let merge = Merge::new(sources, dropping).expect("sources in RAM do not fail");
            Arc::new(munk.absorb(&mut RamMerge(merge), &horizon, true))
        };
        let writer = chunk.latch.lock();
        let mut new_view: View = (*chunk.view.load_full()).clone();
        new_view.munk = Some(absorbed);
        new_view.frozen.retain(|frozen| {
            !deltas
                .iter()
                .any(|delta| Arc::ptr_eq(&delta.delta, &frozen.delta))
        });
        chunk.publish(new_view);
        drop(writer);
        self.metrics.absorbs.add(1);
        trace::event!(
            DEBUG,
            "munk absorbed",
            chunk = chunk.id.0,
            deltas = deltas.len(),
            duration_micros = job.micros()
        );
        true
    }

    /// Drops the chunk's munk. The caller holds the token.
    pub(crate) fn evict_munk(&self, chunk: &Chunk) {
        let writer = chunk.latch.lock();
        let mut view: View = (*chunk.view.load_full()).clone();
        let Some(munk) = view.munk.take().filter(|_| !writer.retired) else {
            return;
        };
        view.frozen.retain(|frozen| !frozen.durable);
        chunk.publish(view);
        drop(writer);
        self.metrics.munk_evictions.add(1);
        trace::event!(
            DEBUG,
            "munk evicted",
            chunk = chunk.id.0,
            bytes = munk.bytes()
        );
    }

    /// One round of the memory policy: takes the chunks' counters, decides how munks and rows share
    /// memory and which chunks have munks, gives rows their room, evicts at once and queues the
    /// loads.
    pub(crate) fn munk_round(&self) {
        if self.failure().is_some() || self.is_closed() {
            return;
        }
        let decay = self.split.lock().decay();
        let chunks = self.chunks();
        let mut sights = Vec::with_capacity(chunks.len());
        let mut indexes_bytes = 0;
        for (_, chunk) in &chunks {
            let view = chunk.view.load_full();
            indexes_bytes += index_bytes(&view);
            // A chunk that was at work when it should have been looked at (a load, an eviction) was
            // passed over. Deltas left for its munk hold the memory that puts wait for.
            if view.frozen.iter().any(|frozen| frozen.durable) {
                self.work.push_maintenance(chunk);
            }
            sights.push(sight(chunk, &view, decay));
        }
        let bytes_max = self.cache_bytes(chunks.len() as u64, indexes_bytes);
        let counts = self.row_cache.as_ref().map(RowCache::counts);
        let counts = counts.unwrap_or_default();
        let edge = self.sampler.take_edge();
        let plan = self.split.lock().round(&sights, &counts, &edge, bytes_max);
        let mut rows_bytes = plan.row_bytes_max;
        if let Some(rows) = &self.row_cache {
            if plan.row_bytes_max != counts.bytes_max {
                rows.set_capacity(plan.row_bytes_max as usize);
            }
            rows_bytes = rows_bytes.max(rows.bytes() as u64);
            let row_bytes = counts.bytes.checked_div(counts.rows).unwrap_or(1024);
            self.sampler.round(plan.sampling, row_bytes, bytes_max);
        }
        if self.options.munks {
            let munks = plan_munks(&plan.worths, bytes_max.saturating_sub(rows_bytes));
            self.carry_out(&munks, &chunks);
        }
    }

    fn carry_out(&self, plan: &MunkPlan, chunks: &[(Arc<KeyspaceState>, Arc<Chunk>)]) {
        let by_id: HashMap<u64, &Arc<Chunk>> = chunks
            .iter()
            .map(|(_, chunk)| (chunk.id.0, chunk))
            .collect();
        for chunk in plan.evict.iter().filter_map(|id| by_id.get(id)) {
            if let Some(_token) = chunk.try_token() {
                self.evict_munk(chunk);
            }
        }
        for chunk in plan.load.iter().filter_map(|id| by_id.get(id)) {
            if !chunk.damaged.load(Ordering::Relaxed) {
                self.work.push_load(chunk);
            }
        }
    }

    /// What munks and rows together may take.
    fn cache_bytes(&self, chunks: u64, indexes_bytes: u64) -> u64 {
        let options = &self.options;
        let ring = match (&self.commit_log, options.commit_log_writing()) {
            (Some(_), Writing::Mapped) => self.ring_capacity(),
            _ => 0,
        };
        // A checkpoint builds its runs in RAM, and a job holds the pages it replaces.
        let reserve = options.memory_budget / 20;
        let fixed = ring + options.delta_bytes_max() + reserve + chunks * CHUNK_METADATA_BYTES;
        options
            .memory_budget
            .saturating_sub(fixed + indexes_bytes + self.sampler.bytes())
    }
}

/// What a chunk takes beside its data: itself, its view, its deltas when empty, its tables' handles.
pub(crate) const CHUNK_METADATA_BYTES: u64 = 1024;

/// Bytes of a view's log index and block indexes.
pub(crate) fn index_bytes(view: &View) -> u64 {
    let blocks: usize = view.funk.tables().map(|table| table.resident_bytes()).sum();
    let log = view.funk.search.peek().map_or(0, |search| search.bytes());
    (blocks + log) as u64
}

/// Empties a chunk's counters into its decayed counts.
fn sight(chunk: &Chunk, view: &View, decay: f32) -> ChunkSight {
    ChunkSight {
        id: chunk.id.0,
        data_bytes: super::rewrite::data_bytes(view).max(1),
        munk_bytes: view.munk.as_ref().map_or(0, |munk| munk.bytes() as u64),
        ..chunk.heat.sight(decay)
    }
}

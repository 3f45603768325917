//! A bench for jobs: the parts that they use, over a simulated disk, and a model of what one
//! keyspace holds. No database is opened: no commit log, no threads, no recovery.

use super::rewrite::sources_of;
use crate::admission::Admission;
use crate::catalog::{Catalog, KeyspaceState};
use crate::checkpoint::delta_sources;
use crate::chunk::{Chunk, Frozen, View};
use crate::engine::JobContext;
use crate::engine::core::Core;
use crate::engine::disk::Disk;
use crate::engine::flow::Flow;
use crate::engine::idle::Idle;
use crate::engine::space::Space;
use crate::engine::work::Work;
use crate::files::CONTAINER;
use crate::full_disk::{self, FullDisk};
use crate::manifest::edit::ChunkRecord;
use crate::manifest::state::ManifestState;
use crate::manifest::writer::Manifest;
use crate::memory::LedgerOwner;
use crate::memory_policy::MemoryPolicy;
use crate::merge::Merge;
use crate::opening::keyspace::new_keyspace;
use crate::options::{KeyspaceOptions, Options};
use crate::pace;
use crate::record::RecordRef;
use crate::sync::{Arc, reclaim};
use crate::tables::Tables;
use crate::tables::container::Container;
use crate::tables::extents::Extents;
use crate::value_files::ValueFiles;
use crate::version::clock::{CHECKPOINT_SHIFT, Clock, checkpoint_of};
use crate::visibility::Dropping;
use evendb_storage::key_hash::RamHash;
use evendb_storage::vfs::{SimVfs, Vfs};
use evendb_storage::{Kind, Version};
use std::collections::BTreeMap;
use std::path::Path;

/// The largest size of the bench's chunks, in bytes; larger chunks are split.
const CHUNK_BYTES: u64 = 16 << 10;

pub(crate) struct Bench {
    pub(crate) sim: SimVfs,
    pub(crate) core: Core,
    pub(crate) disk: Disk,
    pub(crate) flow: Flow,
    pub(crate) memory: MemoryPolicy,
    pub(crate) work: Work,
    pub(crate) catalog: Catalog,
    pub(crate) space: Space,
    pub(crate) idle: Idle,
    pub(crate) keyspace: Arc<KeyspaceState>,
    /// The expected content of the keyspace.
    model: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Bench {
    /// One empty keyspace, which the manifest names.
    pub(crate) fn new() -> Bench {
        Bench::with_chunks_of(CHUNK_BYTES)
    }

    pub(crate) fn with_chunks_of(chunk_bytes: u64) -> Bench {
        let sim = SimVfs::new(1);
        let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
        let dir = Path::new("/bench");
        let options = Options::new()
            .vfs(vfs.clone())
            .workers(0)
            .memory_budget(1 << 20)
            .advanced(|advanced| advanced.chunk_bytes(chunk_bytes));
        vfs.create_dir_all(dir).unwrap();
        let file = vfs.create(&dir.join(CONTAINER)).unwrap();
        let container = Arc::new(Container::new(file, Extents::new(0), 0));
        let manifest = Manifest::create(vfs.clone(), dir, 1, ManifestState::default()).unwrap();
        let owner = LedgerOwner::take();
        let ledger = owner.ledger();
        let value_files = ValueFiles::new(vfs.clone(), dir, 64 << 20, 0);
        let value_files = std::sync::Arc::new(value_files);
        let values = value_files.clone();
        let tables = Tables::new(vfs.clone(), dir, container.clone(), values, ledger, 100);
        let deltas_max = options.delta_bytes_max();
        let chunk_max = options.chunk_bytes_max();
        let ballast = full_disk::ballast(vfs.clone(), dir, chunk_max, deltas_max, 0);
        let admission = Arc::new(Admission::new(0, deltas_max));
        let memory = MemoryPolicy::new(&options, ledger, admission.clone(), None);
        let clock = Clock::new(Version(1 << CHECKPOINT_SHIFT));
        let tags = Arc::default();
        let core = Core::new(options, clock, admission, owner, tags, value_files);
        let manifest = Some(Arc::new(manifest));
        let full_disk = FullDisk::new(ballast, container, manifest.clone(), core.admission.clone());
        let disk = Disk::new(vfs, dir.to_owned(), manifest, tables, full_disk, 1);
        let (keyspace, changes) =
            new_keyspace(&core, &disk, "bench", &KeyspaceOptions::new()).expect("makes a keyspace");
        disk.manifest().flush(changes).unwrap();
        Bench {
            sim,
            core,
            disk,
            flow: Flow::new(0, Vec::new()),
            memory,
            work: Work::default(),
            catalog: Catalog::new(BTreeMap::from([("bench".to_owned(), keyspace.clone())])),
            space: Space::default(),
            idle: Idle::default(),
            keyspace,
            model: BTreeMap::new(),
        }
    }

    pub(crate) fn context(&self) -> JobContext<'_> {
        JobContext {
            core: &self.core,
            disk: &self.disk,
            flow: &self.flow,
            memory: &self.memory,
            catalog: &self.catalog,
            work: &self.work,
            space: &self.space,
            idle: &self.idle,
        }
    }

    /// Puts a record of 100 bytes for each of the numbers.
    pub(crate) fn put(&mut self, numbers: impl IntoIterator<Item = u32>, value: u8) {
        for number in numbers {
            self.add(number, Kind::Put, &[value; 92]);
        }
    }

    pub(crate) fn delete(&mut self, numbers: impl IntoIterator<Item = u32>) {
        for number in numbers {
            self.add(number, Kind::Delete, &[]);
        }
    }

    /// Puts single deletes of records that were put once, in an earlier checkpoint.
    pub(crate) fn single_delete(&mut self, numbers: impl IntoIterator<Item = u32>) {
        for number in numbers {
            self.add(number, Kind::SingleDelete, &[]);
        }
    }

    fn add(&mut self, number: u32, kind: Kind, value: &[u8]) {
        let key = format!("{number:08}").into_bytes();
        let version = self.core.clock.now();
        let mut record = RecordRef::new(&key, value, kind, RamHash::of(&key));
        record.set_version(version);
        let chunk = self.keyspace.index.load_full().find(&key).clone();
        let mut writer = chunk.latch.lock();
        if writer.active.checkpoint() < checkpoint_of(version) {
            chunk.freeze(&mut writer, checkpoint_of(version), &self.core.admission);
        }
        if !writer.queued {
            let dirty = (Arc::downgrade(&chunk), writer.active.checkpoint());
            self.flow.dirty.lock().push(dirty);
            writer.queued = true;
        }
        writer.active.adopt(record);
        match kind {
            Kind::Put => self.model.insert(key, value.to_vec()),
            _ => self.model.remove(&key),
        };
    }

    /// The chunks, in key order.
    pub(crate) fn chunks(&self) -> Vec<Arc<Chunk>> {
        let index = self.keyspace.index.load_full();
        index.iter().map(|(_, chunk)| chunk.clone()).collect()
    }

    /// The bench's only chunk.
    pub(crate) fn chunk(&self) -> Arc<Chunk> {
        let chunks = self.chunks();
        assert_eq!(chunks.len(), 1);
        chunks[0].clone()
    }

    pub(crate) fn model(&self) -> &BTreeMap<Vec<u8>, Vec<u8>> {
        &self.model
    }

    /// Checks that the chunks hold exactly what the model holds, that the index covers all keys,
    /// and that the manifest, with all edits made durable, names the same chunks and tables.
    pub(crate) fn check(&self) {
        let chunks = self.chunks();
        let mut found = BTreeMap::new();
        let mut low: Option<Box<[u8]>> = Some(Box::default());
        for chunk in &chunks {
            assert_eq!(low.as_ref(), Some(&chunk.range.low));
            low.clone_from(&chunk.range.high);
            self.read(chunk, &mut found);
        }
        assert_eq!(low, None, "the last chunk has no end");
        assert!(found == self.model, "other records than were put");
        self.disk.manifest().flush(Vec::new()).unwrap();
        let named = self.disk.manifest().with_state(|state| {
            let records = state.chunks.values().cloned();
            let mut records: Vec<ChunkRecord> = records.collect();
            records.sort_by(|a, b| a.low.cmp(&b.low));
            records
        });
        assert_eq!(named.len(), chunks.len());
        for (record, chunk) in named.iter().zip(&chunks) {
            assert_eq!((record.id, &*record.low), (chunk.id, &*chunk.range.low));
            let view = chunk.view.load_full();
            let mut of_record: Vec<_> = record.parts.iter().map(|part| part.table).collect();
            let mut of_view: Vec<_> = view.funk.tables().map(|table| table.part.table).collect();
            of_record.sort_unstable();
            of_view.sort_unstable();
            assert_eq!(of_record, of_view);
        }
    }

    fn read(&self, chunk: &Chunk, found: &mut BTreeMap<Vec<u8>, Vec<u8>>) {
        let view: Arc<View> = chunk.view.load_full();
        let active = Frozen {
            delta: view.active.clone(),
            limits: None,
            durable: false,
        };
        let deltas: Vec<Frozen> = [active].into_iter().chain(view.frozen.clone()).collect();
        let pin = reclaim::pin();
        let mut yielder = pace::yielder(&self.core.admission);
        let mut sources = delta_sources(&deltas, None, &pin, &mut yielder);
        sources.extend(sources_of(chunk, &view).unwrap());
        let horizon = self.core.clock.horizon();
        let dropping = Dropping {
            horizon: &horizon,
            bottom: true,
            zero_below: Version::MAX,
        };
        let mut merge = Merge::new(sources, dropping).unwrap();
        while let Some(entry) = merge.current() {
            assert_eq!(entry.kind, Kind::Put, "a tombstone over nothing");
            found.insert(entry.key.to_vec(), entry.value.to_vec());
            merge.advance().unwrap();
        }
    }
}
